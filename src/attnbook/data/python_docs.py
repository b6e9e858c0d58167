"""Make the embedded corpus `python-docs` from the text that CPython carries for its `help()`.

The text stands in the package (`python_docs.txt.gz`), so that every machine reads the same
characters: the standard module `pydoc_data.topics` differs between Python releases. The stored file
was made by Python 3.11.7 with

    python -m attnbook.data.python_docs src/attnbook/data/python_docs.txt.gz

Source: The Python Language Reference and Library Reference, https://docs.python.org/3.11/.
Copyright Python Software Foundation, PSF License Agreement version 2.
"""

import gzip
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping

BREAK = "\f"  # between training and validation text in the file; not a symbol of the text
TYPOGRAPHY = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "--", "…": "..."}
)
UNDERLINE = re.compile(r"\s*([*=\-~^\"])\1{2,}\s*")  # a line that only underlines a heading


def plain(text: str) -> str:
    """The text in printable ASCII: quotes, dashes, dots as typed; accents and the rest dropped."""
    text = unicodedata.normalize("NFKD", text.expandtabs().translate(TYPOGRAPHY))
    return "".join(c for c in text if c == "\n" or " " <= c <= "~")


def paragraphs(text: str) -> list[str]:
    """What stands between blank lines, without underlines of headings and spaces at line ends."""
    lines = [line.rstrip() for line in plain(text).split("\n") if not UNDERLINE.fullmatch(line)]
    return [block.strip("\n") for block in re.split(r"\n{2,}", "\n".join(lines)) if block.strip()]


def without_repeats(topics: Mapping[str, str]) -> list[str]:
    """All topics' paragraphs, longest topics first, each kept only where it stands first.

    Many topics are sections of longer ones, often at another indentation: two paragraphs are the
    same if their words are.
    """
    kept: dict[tuple[str, ...], str] = {}
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        for paragraph in paragraphs(topics[name]):
            kept.setdefault(tuple(paragraph.split()), paragraph)
    return list(kept.values())


def lines_of(blocks: Iterable[str]) -> set[str]:
    """The lines that stand in these paragraphs, indentation aside."""
    return {line.strip() for block in blocks for line in block.split("\n")}


def make_python_docs(
    topics: Mapping[str, str], size: int = 4000, every: int = 10
) -> tuple[str, str]:
    """Training and validation text without a common line, from `pydoc_data.topics.topics`.

    The paragraphs are dealt out in blocks of about `size` characters, one block of `every` to
    validation, so that both parts treat of all subjects. A validation paragraph with a line that
    training also has (an often-used example, say) is left out: a model could recall it.
    """
    parts: tuple[list[str], list[str]] = ([], [])
    position = 0
    for paragraph in without_repeats(topics):
        parts[position // size % every == every - 1].append(paragraph)
        position += len(paragraph) + 2
    train, validation = parts
    known = lines_of(train)
    validation = [paragraph for paragraph in validation if not known & lines_of([paragraph])]
    return "\n\n".join(train) + "\n", "\n\n".join(validation) + "\n"


def main(path: str) -> None:
    """Write the corpus made from the running Python to `path`: the same bytes each time."""
    from pydoc_data.topics import topics

    text = BREAK.join(make_python_docs(topics))
    with open(path, "wb") as file:
        file.write(gzip.compress(text.encode("ascii"), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
