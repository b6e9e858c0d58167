"""Stories in English to train language models on: children's and adventure books, out of copyright.

    python results/novels_corpus.py --out novels

Project Gutenberg's texts of sixteen authors, from a public repository at the commit named here (a
commit's name is a hash of its content). Lines are joined to paragraphs, quotation marks and dashes
written as ASCII has them, headers, licences and verses in columns left out. One book in forty is
held out, chosen by a hash of its title. A paragraph that was there before, the held-out ones first,
is not taken again: the repository has several editions of some books. `--mirror` names a folder
with a clone, for a machine without network.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from book_corpus import END, Repository

BOOKS = ("rcdm-uga/Gutenberg_Text", "a0b16d35a9851168ce9ac649851c17b7ab08d48e")
AUTHORS = (
    "Alcott", "Alger", "Andersen", "Barrie", "Baum", "Burnett", "Carroll", "Doyle", "Grimm",
    "Kipling", "Montgomery", "Nesbit", "Potter", "Stevenson", "Twain", "Verne",
)  # fmt: skip
HELD_OUT = 40  # one book in so many
ASCII = {"“": '"', "”": '"', "‘": "'", "’": "'", "—": "--", "–": "-", "…": "...", "\ufeff": ""}
START = re.compile(r"^\*\*\* ?START OF (THIS|THE) PROJECT GUTENBERG.*$", re.MULTILINE)
STOP = re.compile(r"^(\*\*\* ?END OF|End of (the )?Project Gutenberg).*", re.MULTILINE)
APPARATUS = re.compile(r"gutenberg|produced by|transcriber|\[illustration|e-?text|isbn", re.I)


def body(source: str) -> str:
    """What stands between Project Gutenberg's header and its licence; "" where neither is found."""
    start, stop = START.search(source), STOP.search(source)
    return source[start.end() : stop.start()] if start and stop else ""


def paragraphs(source: str) -> Iterator[str]:
    """The paragraphs of a book, a line each; no headings, verses, tables, notes on the file."""
    for found in re.split(r"\n\s*\n", source.replace("\r", "")):
        lines = found.split("\n")
        if any(line.startswith(("  ", "\t")) for line in lines) or APPARATUS.search(found):
            continue
        line = " ".join(found.split()).replace("_", "")
        for mark, plain in ASCII.items():
            line = line.replace(mark, plain)
        if len(line) >= 40 or line.endswith((".", "!", "?", '"', "'")):
            yield line


def held_out(name: str) -> bool:
    """Whether the book of this title is held out; so are editions that are named alike."""
    title = re.sub(r"[^a-z]", "", Path(name).stem.lower())[:24]
    return int(hashlib.sha256(title.encode()).hexdigest(), 16) % HELD_OUT == 0


def books(repository: Repository) -> list[str]:
    """The files of the authors, the held-out ones first, each group in order."""
    names = [n for n in repository.names(".txt") if n.split(",")[0] in AUTHORS and "ndex" not in n]
    return sorted(names, key=lambda name: (not held_out(name), name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("novels"))
    parser.add_argument("--mirror", help="a folder with a clone of the repository")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    repository = Repository(*BOOKS, str(options.out / "repository"), options.mirror)
    seen: set[bytes] = set()
    texts: dict[str, list[str]] = {"held-out": [], "train": []}
    titles: dict[str, list[str]] = {"held-out": [], "train": []}
    for name in books(repository):
        part, kept = "held-out" if held_out(name) else "train", []
        for paragraph in paragraphs(body(repository.read(name))):
            key = hashlib.sha256(re.sub(r"[^a-z]", "", paragraph.lower()).encode()).digest()
            if len(paragraph) < 60 or key not in seen:
                kept.append(paragraph)
            seen.add(key)
        if sum(map(len, kept)) > 5000:
            texts[part].append("\n".join(kept))
            titles[part].append(name)
    files: dict[str, dict[str, object]] = {}
    for part, found in texts.items():
        text = f"\n{END}\n".join(found)
        (options.out / f"{part}.txt").write_text(text, encoding="utf-8")
        data = text.encode()
        digest = hashlib.sha256(data).hexdigest()
        files[part] = {"bytes": len(data), "sha256": digest, "books": titles[part]}
        print(f"{part}: {len(found)} books, {len(data):,} bytes")
    card = {"source": f"https://github.com/{BOOKS[0]}, commit {BOOKS[1]}", "files": files}
    (options.out / "card.json").write_text(json.dumps(card, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
