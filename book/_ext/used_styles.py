"""Of the theme's style sheets only the rules that some page of the site can need.

The theme brings 400 kB of rules for everything that Bootstrap and Font Awesome have. When the site
is built, rules are left out whose classes occur in no page and in no script. What a selector says
without classes, or within `:is(…)`, `:not(…)` and the like, is taken to be needed.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

SHEETS = ("styles/pydata-sphinx-theme.css", "sphinx-design.min.css", "mystnb.*.css")
NESTING = ("@media", "@supports", "@layer", "@container")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TOKEN = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|url\([^"')]*\)|\\.|[{};]""", re.DOTALL)
BRACKETS = re.compile(r"\[[^\]]*\]|\([^()]*\)")
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
HELD = re.compile(r'\bclass="([^"]*)"')
WORD = re.compile(r"[A-Za-z_][\w-]*")
Known = Callable[[str], bool]  # is this the name of a class that a page can have?


def rules(text: str) -> Iterator[tuple[str, str | None]]:
    """(head, inside) of each rule of a style sheet; `inside` is None of an @import and the like."""
    depth = start = opened = 0
    for token in TOKEN.finditer(text):
        sign = token[0]
        if sign == "{":
            depth += 1
            if depth == 1:
                opened = token.end()
        elif sign == "}":
            depth -= 1
            if depth == 0:
                yield text[start : opened - 1].strip(), text[opened : token.start()]
                start = token.end()
        elif sign == ";" and depth == 0:
            yield text[start : token.start()].strip(), None
            start = token.end()


def split(selectors: str) -> Iterator[str]:
    """The selectors of a list, at the commas that stand in no brackets."""
    depth, last = 0, 0
    for at, sign in enumerate(selectors):
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            yield selectors[last:at].strip()
            last = at + 1
    yield selectors[last:].strip()


def needed(selector: str, known: Known) -> bool:
    """Whether each class that the selector asks for is one that a page can have."""
    if "\\" in selector:
        return True
    while (bare := BRACKETS.sub("", selector)) != selector:
        selector = bare
    return all(known(name) for name in CLASS.findall(selector))


def used(text: str, known: Known) -> str:
    """A style sheet without the rules that nothing needs."""
    kept = []
    for head, inside in rules(COMMENT.sub("", text)):
        if inside is None:
            kept.append(f"{head};")
        elif head.startswith(NESTING):
            within = used(inside, known)
            kept += [f"{head}{{{within}}}"] if within else []
        elif head.startswith("@"):
            kept.append(f"{head}{{{inside.strip()}}}")
        else:
            found = [each for each in split(head) if needed(each, known)]
            kept += [f"{','.join(found)}{{{inside.strip()}}}"] if found else []
    return "".join(kept)


def classes(folder: Path) -> Known:
    """A test for names: does a page of the site have this class, or a script speak of it?"""
    names: set[str] = set()
    starts: set[str] = set()
    for page in folder.rglob("*.html"):
        text = page.read_text("utf-8")
        for held in HELD.findall(text):
            names.update(held.split())
    for script in folder.glob("_static/**/*.js"):
        if not {"mathjax", "locales"} & set(script.parts) and script.name != "fontawesome.js":
            found = set(WORD.findall(script.read_text("utf-8")))
            names |= found
            starts |= {word for word in found if word.endswith("-") and len(word) > 2}
    return lambda name: name in names or name.startswith(tuple(starts))


def sheets(folder: Path) -> list[Path]:
    return [file for name in SHEETS for file in (folder / "_static").glob(name)]


def begin(app: Sphinx) -> None:
    """Sphinx copies a sheet only where there is none that differs."""
    if app.builder.format == "html":
        for file in sheets(Path(app.outdir)):
            file.unlink()


def write(app: Sphinx, error: Exception | None) -> None:
    """Replace each sheet by what of it is used."""
    if error or app.builder.format != "html":
        return
    known = classes(Path(app.outdir))
    for file in sheets(Path(app.outdir)):
        file.write_text(used(file.read_text("utf-8"), known), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
