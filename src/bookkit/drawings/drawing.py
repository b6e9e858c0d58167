"""A drawing: two layouts of the same thing, one for a page and one for a phone."""

from dataclasses import dataclass
from html import escape
from importlib.resources import files
from zlib import crc32

from bookkit.drawings.palette import CSS
from bookkit.drawings.pen import Pen

HERE = files("bookkit.drawings")


def read(name: str) -> str:
    """A script, or a style sheet, as it is sent."""
    text = HERE.joinpath(name).read_text(encoding="utf-8")
    return text if name.endswith("js") else shortened(text)


def shortened(css: str) -> str:
    return "".join(line.strip() for line in css.splitlines() if not line.startswith("/*"))


SCRIPT, STYLE = read("script.js"), shortened(CSS)


@dataclass(frozen=True)
class Drawing:
    """What a cell shows: the layout that fits, in the colours of the page around it.

    `wide` has at most 720 units, `tall` 360; without `tall` the first serves everywhere. `title`
    says what it is, `desc` what one would say on the telephone, numbers included. `stages` builds
    it up: a press for each, with its name and the names of the parts that it adds.
    """

    wide: Pen
    tall: Pen | None
    title: str
    desc: str
    stages: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Another one for each drawing, so that two may stand on a page."""
        sheets = [self.wide, self.tall] if self.tall else [self.wide]
        marks = "".join(mark for sheet in sheets for mark in sheet.marks)
        return f"d{crc32((self.title + marks).encode()):08x}"

    @property
    def layouts(self) -> dict[str, str]:
        """The SVG of each layout, by its class; the only one is called `only`."""
        if self.tall is None:
            return {"only": self.wide.svg("only", self.title, self.desc, f"{self.name}o")}
        sheets = {"wide": self.wide, "tall": self.tall}
        about = self.title, self.desc
        return {look: pen.svg(look, *about, self.name + look[0]) for look, pen in sheets.items()}

    def html(self) -> str:
        """The drawing with its style, and with a script if its parts answer to the pointer."""
        inside = "".join(self.layouts.values())
        script = f"<script>{SCRIPT}</script>" if "data-on" in inside else ""
        if self.stages:
            inside, script = (
                self.presses() + inside,
                f"{script}<script>{read('stages.js')}</script>",
            )
        return f'<div class="drawing"><style>{STYLE}</style>{inside}{script}</div>'

    def presses(self) -> str:
        """The buttons that build the drawing up; without script there are none."""
        buttons = "".join(
            f'<button type="button" aria-pressed="false" data-adds="{escape(parts)}">'
            f"{n} {escape(name)}</button>"
            for n, (name, parts) in enumerate(self.stages, start=1)
        )
        about = 'role="group" aria-label="Build it up"'
        return (
            f"<style>{read('stages.css')}</style>"
            f'<div class="stages waiting" {about}>{buttons}</div>'
        )

    def __repr__(self) -> str:
        return f"Drawing: {self.title}\n\n{self.desc}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": repr(self)}


PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Drawings</title><style>
body {{ margin: 16px auto; max-width: 45rem; font: 16px system-ui; background: #fff; color: #222; }}
[data-theme=dark] body {{ background: #121212; color: #ccc; }}
figure {{ margin: 0 1rem 3rem; }}</style><body>{figures}</body></html>"""


def page(drawings: dict[str, Drawing], theme: str = "light") -> str:
    """A page with all of them, for authors and for the tests in a browser."""
    figures = [
        f'<figure id="{escape(name)}">{drawing.html()}<figcaption>{name}</figcaption></figure>'
        for name, drawing in drawings.items()
    ]
    return PAGE.format(theme=theme, figures="".join(figures))
