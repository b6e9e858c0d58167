"""A small drawing for each chapter: lines on 48 × 48, in the colour of the text around."""

from collections.abc import Iterable, Iterator

Places = Iterable[tuple[float, float]]


def squares(rows: list[str], size: float = 9, x: float = 6, y: float = 6) -> Iterator[str]:
    """A table of weights; a dot is left out, 1 to 3 say how dark."""
    for i, row in enumerate(rows):
        for j, each in enumerate(row):
            if each != ".":
                opacity = {"1": 0.2, "2": 0.5, "3": 1}[each]
                place = (
                    f'x="{x + j * size}" y="{y + i * size}" width="{size - 1}" height="{size - 1}"'
                )
                yield f'<rect {place} fill="currentColor" stroke="none" opacity="{opacity}"/>'


def circles(places: Places, radius: float = 4) -> str:
    return "".join(f'<circle cx="{x}" cy="{y}" r="{radius}"/>' for x, y in places)


def boxes(places: Places, width: float, height: float, radius: float = 3) -> str:
    shape = f'width="{width}" height="{height}" rx="{radius}"'
    return "".join(f'<rect x="{x}" y="{y}" {shape}/>' for x, y in places)


def path(drawn: str, width: float = 2) -> str:
    return f'<path d="{drawn}" stroke-width="{width}"/>'


GLYPHS = {
    # a state handed on
    "01": circles([(8, 24), (24, 24), (40, 24)], 5)
    + path("M13 24H19M29 24H35M8 42V29M24 42V29M40 42V29M8 19V8M24 19V8M40 19V8"),
    # who looked where
    "02": "".join(squares(["3..1", "13..", ".23.", "..13"])),
    # one query, several keys
    "03": circles([(8, 24), (40, 8), (40, 24), (40, 40)])
    + path("M12 22L36 9", 4)
    + path("M12 24H36", 1)
    + path("M12 26L36 39"),
    # only what came before
    "04": "".join(squares(["3...", "33..", "333.", "3333"])),
    # several looks side by side
    "05": boxes([(4, 14), (19, 14), (34, 14)], 10, 20, 2)
    + path("M9 14V8H39V14M24 14V4M9 34V40H39V34M24 34V44"),
    # a block, and the way past it
    "06": boxes([(16, 8), (16, 28)], 24, 12)
    + path("M28 48V40M28 28V20M28 8V0M28 44H8V24H28M28 24H8V4H28"),
    # what comes next
    "07": path("M5 42V30H11V42ZM15 42V10H21V42ZM25 42V22H31V42ZM35 42V36H41V42ZM2 42H46"),
    # patches
    "08": boxes([(6, 6)], 36, 36, 0)
    + path("M18 6V42M30 6V42M6 18H42M6 30H42")
    + circles([(24, 24)], 9),
    # turned by the place
    "09": circles([(24, 24)], 18)
    + path("M24 24L42 24M24 24L37 11M24 24L24 6M42 24l-5-3M42 24l-5 3"),
    # tiles
    "10": "".join(squares(["33..", "33..", "..22", "..22"])) + boxes([(6, 6)], 35, 35, 0),
    # a graph
    "11": circles([(24, 7), (8, 22), (40, 22), (14, 40), (34, 40)])
    + path("M21 10L11 19M27 10L37 19M9 26L13 36M39 26L35 36M18 40H30M12 23H36"),
    # a law
    "12": path("M6 4V42H46") + path("M9 8C12 28 22 34 44 37", 3),
    # a closer look
    "13": "".join(squares(["12", "31"], 10, 10, 9))
    + circles([(20, 19)], 15)
    + path("M31 30L44 44", 4),
    # a loss that jumps
    "14": path("M6 4V42H46") + path("M8 10L14 22L20 27L25 30L28 12L31 31L44 36", 2.5),
    # a memory that is handed on
    "15": "".join(squares(["31", "13"], 9, 14, 10))
    + path("M4 24H12M36 24H44m-5-4l5 4l-5 4")
    + path("M24 12V4M24 44V36"),
    # a matrix that stays, and a thin product beside it
    "16": path("M8 6H28V32H8Z") + path("M8 40H28", 4) + path("M40 14V44", 4) + path("M32 40H36", 2),
    # a meter
    "17": path("M6 38A20 20 0 1 1 42 38") + path("M24 34L36 18", 4),
    # a model in two halves, and what goes between them
    "18": boxes([(4, 8), (32, 8)], 12, 32, 2)
    + path("M18 19H30m-4-4l4 4l-4 4M30 31H18m4-4l-4 4l4 4"),
}


def glyph(number: str) -> str:
    """The drawing as SVG; it says nothing that is not written beside it."""
    attributes = 'class="glyph" viewBox="0 0 48 48" width="48" height="48" aria-hidden="true"'
    look = 'fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round"'
    return f'<svg {attributes} {look} stroke-linecap="round">{GLYPHS[number]}</svg>'
