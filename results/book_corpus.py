"""The training text of the book's language model: Shakespeare's plays and Python's documentation.

    python results/book_corpus.py --out book-corpus

Held out are the last tenth of tiny Shakespeare and the validation part of `python-docs`: the same
characters that the chapters hold out. To train on there is, beside the other nine tenths of both,
what two public repositories add, at the commits named here (a commit's name is a hash of its
content). Whatever of it also stands in the held-out text is left out, and what stands in the nine
tenths is not taken twice. `--mirror` names a folder with clones of both, for a machine without
network.
"""

import argparse
import json
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

from attnbook.data import text
from attnbook.data.python_docs import plain

PLAYS = ("MalcolmMacDonald/monkeytypewriters", "d82545909dae36e3ab4f81d642d6d76891a0e598")
DOCS = ("python/python-docs-es", "91f4ccc0baa8c7cbeb739e696c641388264caa30")
SECTIONS = ("tutorial", "library", "howto", "faq", "reference", "using")
END = "<|end|>"  # between two plays or two pages
STAGE = re.compile(r"\s+(Enter|Exit|Exeunt|Re-enter|Flourish|Alarum|Sennet|\[|Dies|Aside)\b.*")


class Repository:
    """The files of one commit of a public repository, cloned unless a mirror has it."""

    def __init__(self, name: str, commit: str, folder: str, mirror: str | None = None) -> None:
        self.commit, self.git = commit, Path(mirror or folder) / name.replace("/", "+")
        self.git = self.git / "repo" if (self.git / "repo").is_dir() else self.git
        if not self.git.exists():
            address = f"https://github.com/{name}.git"
            subprocess.run(["git", "clone", "--bare", "--quiet", address, self.git], check=True)

    def names(self, suffix: str) -> list[str]:
        found = self.call("ls-tree", "-r", "-z", "--name-only", self.commit).split("\0")
        return sorted(name for name in found if name.endswith(suffix))

    def read(self, name: str) -> str:
        return self.call("show", f"{self.commit}:{name}")

    def call(self, *command: str) -> str:
        done = subprocess.run(["git", "-C", self.git, *command], capture_output=True, check=True)
        return done.stdout.decode("utf-8", "replace")


def play(source: str) -> str:
    """A play as tiny Shakespeare prints it: who speaks and a colon, then what; no directions."""
    speeches: list[Any] = []
    speaker = None
    for line in plain(source).split("\n"):
        if line.startswith("****") or not line.strip() or STAGE.match(line):
            continue
        if not line.startswith(" "):
            speaker = line.strip()
            if not speeches or speeches[-1][0] != speaker:
                speeches.append((speaker, []))
        elif speaker:
            speeches[-1][1].append(line.strip())
    return "\n\n".join(f"{who}:\n" + "\n".join(lines) for who, lines in speeches if lines)


def messages(source: str) -> list[str]:
    """The English paragraphs of a translation file, in order (format: GNU gettext's PO)."""
    found = []
    for entry in re.findall(r'^msgid ((?:".*"\n?)+)', source, re.MULTILINE):
        found.append("".join(json.loads(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', entry)))
    return [message for message in found if message.strip()]


def unmarked(paragraph: str) -> str:
    """A paragraph without reStructuredText's marks, in lines of 70 as `help()` prints it."""
    paragraph = re.sub(r":[\w:.+-]+:`[~!]?([^`<]*?)\s*(?:<[^`>]*>)?`", r'"\1"', paragraph)
    paragraph = re.sub(r"`([^`<]+?)\s*<[^`>]*>`__?", r"\1", paragraph)
    paragraph = plain(paragraph.replace("``", '"').replace("**", "*"))
    if "\n" in paragraph.strip():
        return paragraph.strip("\n")  # code keeps its lines
    return textwrap.fill(" ".join(paragraph.split()), 70)


def words(passage: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", passage.lower())


def runs(passage: str, length: int = 8) -> set[tuple[str, ...]]:
    """All runs of `length` words, whatever stands between them."""
    found = words(passage)
    return {tuple(found[i : i + length]) for i in range(len(found) - length + 1)}


def other_plays(repository: Repository, known: str, held_out: str) -> tuple[list[str], list[str]]:
    """The plays of which neither text has a twentieth of the lines, and what of them was left out.

    Of those taken, speeches that share a run of eight words with the held-out text are dropped.
    """
    mine = {line.strip() for line in (known + held_out).split("\n") if len(line) > 20}
    held, taken, left = runs(held_out), [], []
    for name in repository.names(".txt"):
        if not name.startswith("shakespeare-db/"):
            continue
        made = play(repository.read(name))
        long = [line for line in made.split("\n") if len(line) > 20]
        if sum(line in mine for line in long) > len(long) / 20:
            left.append(Path(name).stem)
            continue
        kept = [part for part in made.split("\n\n") if not held & runs(part)]
        taken.append("\n\n".join(kept))
    return taken, left


def other_pages(repository: Repository, known: str, held_out: str) -> list[str]:
    """The documentation's pages, without paragraphs that the other two texts have, or repeats."""
    held, mine, pages = runs(held_out), runs(known), []
    for name in repository.names(".po"):
        if name.split("/")[0] not in SECTIONS:
            continue
        page, short = [], {tuple(words(p)) for p in held_out.split("\n\n")}
        for paragraph in map(unmarked, messages(repository.read(name))):
            found = runs(paragraph)
            if found & held or tuple(words(paragraph)) in short:
                continue
            if len(found & mine) * 2 > len(found) or tuple(words(paragraph)) in pages_seen:
                continue
            pages_seen.add(tuple(words(paragraph)))
            page.append(paragraph)
        if page:
            pages.append("\n\n".join(page))
    return pages


pages_seen: set[tuple[str, ...]] = set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder; two files go there")
    parser.add_argument("--mirror", type=Path, help="a folder with both repositories")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    plays, docs = (Repository(*which, options.out, options.mirror) for which in (PLAYS, DOCS))
    for name, collect, where in (
        ("shakespeare", other_plays, plays),
        ("python-docs", other_pages, docs),
    ):
        corpus = text.load(name)
        more = collect(where, corpus.train, corpus.validation)
        if isinstance(more, tuple):
            more, left = more
            print(f"{len(more)} plays; not taken: {', '.join(left)}")
        whole = f"\n{END}\n".join([corpus.train.strip(), *more]) + f"\n{END}\n"
        (options.out / f"{name}.txt").write_text(whole, encoding="ascii")
        print(f"{name}: {len(corpus.train):,} + {len(whole) - len(corpus.train):,} characters")


if __name__ == "__main__":
    main()
