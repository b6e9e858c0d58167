"""What a PDF that Chromium has written says: pages, their text and links, places, outline.

Not for other PDFs: Skia writes plain objects, a plain table of where they are, and fonts whose
letters are pairs of bytes with a table to Unicode.
"""

import re
import zlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

TOKEN = re.compile(
    rb"\s*(?:%[^\n]*\n\s*)*(<<|>>|\[|\]|\((?:\\.|[^\\()]|\((?:\\.|[^\\()])*\))*\)|<[0-9A-Fa-f\s]*>"
    rb"|/[^\s/<>\[\]()]*|[^\s/<>\[\]()]+)",
    re.DOTALL,
)
ESCAPED = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f", b"\n": b""}
Object: TypeAlias = Any  # a dictionary by name, a list, a Ref, a Name, bytes, a number


class Ref(NamedTuple):
    """Another object, by its number."""

    number: int


class Name(str):
    """A name, without its slash."""


class Font(NamedTuple):
    """Is a letter a pair of bytes, and what does each mean?"""

    wide: bool
    letters: dict[int, str]


def string(token: bytes) -> bytes:
    """The bytes of a string in brackets."""

    def plain(found: re.Match[bytes]) -> bytes:
        sign = found[1]
        return bytes([int(sign, 8) & 255]) if sign.isdigit() else LETTERS.get(sign, sign)

    return ESCAPED.sub(plain, token[1:-1])


def name(token: bytes) -> Name:
    text = re.sub(rb"#([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), token[1:])
    return Name(text.decode("utf-8", "replace"))


def value(tokens: list[bytes]) -> Object:
    """The next thing in a list of tokens, which lies backwards."""
    token = tokens.pop()
    if token == b"<<":
        named = {}
        while tokens[-1] != b">>":
            key = name(tokens.pop())
            named[key] = value(tokens)
        tokens.pop()
        return named
    if token == b"[":
        listed = []
        while tokens[-1] != b"]":
            listed.append(value(tokens))
        tokens.pop()
        return listed
    if token.startswith(b"("):
        return string(token)
    if token.startswith(b"<"):
        return bytes.fromhex(token[1:-1].decode())
    if token.startswith(b"/"):
        return name(token)
    if token.isdigit() and len(tokens) > 1 and tokens[-1].isdigit() and tokens[-2] == b"R":
        del tokens[-2:]
        return Ref(int(token))
    return number(token)


def number(token: bytes) -> int | float | bytes:
    try:
        return float(token) if b"." in token else int(token)
    except ValueError:
        return token  # true, an operator


def text_of(found: bytes) -> str:
    """A string of the document's own, such as a title."""
    return found[2:].decode("utf-16-be") if found[:2] == b"\xfe\xff" else found.decode("latin-1")


class Paper:
    """A PDF: `pages`, `places`, `outline`, `title`; `text(at)` and `links(at)` of a page."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.known: dict[int, Object] = {}
        self.texts: dict[int, str] = {}
        table = data[int(re.findall(rb"startxref\s+(\d+)", data)[-1]) :]
        begin = re.match(rb"xref\s+(\d+) (\d+)", table)
        if begin is None:
            raise ValueError("no PDF of Chromium's: where its objects are stands in no plain table")
        first, count = map(int, begin.groups())
        lines = re.findall(rb"(\d{10}) \d{5} ([nf])", table)[:count]
        self.where = {first + at: int(line[0]) for at, line in enumerate(lines) if line[1] == b"n"}
        self.trailer = value(TOKEN.findall(table[table.index(b"trailer") + 7 :])[::-1])

    def get(self, found: Object) -> Object:
        """What a reference leads to; anything else is what it is."""
        if not isinstance(found, Ref):
            return found
        if found.number not in self.known:
            self.known[found.number] = self.read(self.where[found.number])
        return self.known[found.number]

    def read(self, start: int) -> Object:
        start = self.data.index(b"obj", start) + 3
        end = self.data.index(b"endobj", start)
        split = self.data.find(b">> stream\n", start, end)
        head = value(TOKEN.findall(self.data[start : split + 2 if split > 0 else end])[::-1])
        if split < 0:
            return head
        length = self.get(head["Length"])
        body = self.data[split + 10 : split + 10 + length]
        packed = self.get(head.get("Filter")) == "FlateDecode"
        return {**head, "": zlib.decompress(body) if packed else body}

    @cached_property
    def root(self) -> dict[str, Object]:
        return self.get(self.trailer["Root"])

    @cached_property
    def pages(self) -> list[Ref]:
        """References to the pages, in order."""

        def below(found: Ref) -> list[Ref]:
            node = self.get(found)
            if node["Type"] == "Pages":
                return [page for kid in self.get(node["Kids"]) for page in below(kid)]
            return [found]

        return below(self.root["Pages"])

    @cached_property
    def places(self) -> dict[str, int]:
        """{id: number of the page on which it stands}, pages counted from 1."""
        at = {page: number for number, page in enumerate(self.pages, start=1)}
        found = self.get(self.root.get("Dests", {}))
        return {key: at[self.get(place)[0]] for key, place in found.items()}

    @property
    def title(self) -> str:
        return text_of(self.get(self.trailer["Info"]).get("Title", b""))

    def outline(
        self, node: dict[str, Object] | None = None, depth: int = 0
    ) -> Iterator[tuple[int, str]]:
        """(depth, title) of each entry."""
        node = self.get(self.root.get("Outlines", {})) if node is None else node
        entry = self.get(node.get("First"))
        while entry:
            yield depth, text_of(self.get(entry["Title"]))
            yield from self.outline(entry, depth + 1)
            entry = self.get(entry.get("Next"))

    def size(self, at: int) -> tuple[float, float]:
        """Width and height of a page, in points."""
        *_, width, height = self.get(self.get(self.pages[at - 1])["MediaBox"])
        return width, height

    def links(self, at: int) -> Iterator[str]:
        """Where the links of a page lead: ids of the document, or addresses."""
        for note in self.get(self.get(self.pages[at - 1]).get("Annots", [])):
            note = self.get(note)
            target = self.get(note.get("Dest"))
            if target is not None:
                yield str(target)
            elif "A" in note and "URI" in self.get(note["A"]):
                yield text_of(self.get(note["A"])["URI"])

    def text(self, at: int) -> str:
        """The words of a page, a line for each piece that was set."""
        if at not in self.texts:
            page = self.get(self.pages[at - 1])
            said = self.said(page["Contents"], self.get(page["Resources"]))
            self.texts[at] = "\n".join(said)
        return self.texts[at]

    def drawn(self, at: int) -> bool:
        """Whether a page has a picture."""
        inner = self.get(self.get(self.get(self.pages[at - 1])["Resources"]).get("XObject", {}))
        return any(self.get(found).get("Subtype") == "Image" for found in inner.values())

    def said(self, contents: Ref, resources: dict[str, Object]) -> Iterator[str]:
        fonts = {
            key: self.font(found) for key, found in self.get(resources.get("Font", {})).items()
        }
        inner = self.get(resources.get("XObject", {}))
        font = Font(True, {})
        line: list[str] = []
        before: list[bytes] = []
        for token in TOKEN.findall(self.get(contents)[""]):
            if token == b"Tf":
                font = fonts[name(before[-2])]
            elif token == b"Do" and self.get(inner[name(before[-1])]).get("Subtype") == "Form":
                form = self.get(inner[name(before[-1])])
                yield from self.said(inner[name(before[-1])], self.get(form.get("Resources", {})))
            elif token == b"ET":
                yield "".join(line)
                line = []
            elif token.startswith(b"<") and token != b"<<":
                code = bytes.fromhex(token[1:-1].decode())
                line += self.shown(code, font)
            elif token.startswith(b"("):
                line += self.shown(string(token), font)
            before = [*before[-1:], token]

    @staticmethod
    def shown(code: bytes, font: Font) -> list[str]:
        step = 2 if font.wide else 1
        return [
            font.letters.get(int.from_bytes(code[i : i + step], "big"), "")
            for i in range(0, len(code), step)
        ]

    def font(self, said: Object) -> Font:
        """What the bytes of a font mean."""
        said = self.get(said)
        font = Font(said["Subtype"] == "Type0", letters={})
        if "ToUnicode" not in said:
            return font
        table = self.get(said["ToUnicode"])[""].decode("latin-1")
        for many in re.findall(r"beginbfchar(.*?)endbfchar", table, re.DOTALL):
            for code, to in re.findall(r"<(\w+)>\s*<(\w+)>", many):
                font.letters[int(code, 16)] = bytes.fromhex(to).decode("utf-16-be")
        for many in re.findall(r"beginbfrange(.*?)endbfrange", table, re.DOTALL):
            for first, last, to in re.findall(r"<(\w+)>\s*<(\w+)>\s*<(\w+)>", many):
                for code in range(int(first, 16), int(last, 16) + 1):
                    font.letters[code] = chr(int(to, 16) + code - int(first, 16))
        return font
