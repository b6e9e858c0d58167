"""The pen: marks on a sheet, as SVG. A mark has classes; what they look like says `style.css`.

Lengths are units of the sheet: a wide layout has at most 720, a tall one 360.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from decimal import ROUND_HALF_EVEN, Decimal
from html import escape

Length = int | float
Point = tuple[Length, Length]


def number(x: Length) -> str:
    """A coordinate with one decimal at most."""
    text = f"{round(x, 1):.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def printed(x: Length, digits: int = 2) -> str:
    """A number as it stands in a cell: `.48`, `1`, `−.7`; whole numbers whole, a true minus.

    Halves go to the even digit, and a float's error in the sixth place does not change that.
    """
    exact = Decimal(f"{x:.5f}").quantize(Decimal(10) ** -digits, ROUND_HALF_EVEN)
    text = str(int(exact)) if exact == int(exact) else f"{exact:f}"
    return re.sub(r"^(-?)0\.", r"\1.", text).replace("-", "−")


def read(text: str) -> float:
    """The number that a cell prints."""
    return float(text.replace("−", "-"))


def symbols(words: str) -> str:
    """Text with raised and lowered letters, `W_q` and `W^{O}`, as shifted spans."""
    parts = re.split(r"([_^])(\{[^}]*\}|.)", words)
    text, level = escape(parts[0], quote=False), 0
    for sign, small, rest in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        shift = 4 if sign == "_" else -6
        inside = escape(small.strip("{}"), quote=False)
        text += f'<tspan class="i" dy="{shift - level}">{inside}</tspan>'
        level = shift
        if rest:
            text += f'<tspan dy="{-level}">{escape(rest, quote=False)}</tspan>'
            level = 0
    return text


class Pen:
    """A sheet of `width` × `height` units. What is drawn later lies on top.

    `tables` keeps the words of every table of cells, by name: tests compare them with the tensors.
    """

    def __init__(self, width: Length, height: Length):
        self.width, self.height = width, height
        self.marks: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}

    def mark(self, tag: str, look: str = "", inside: str | None = None, **given: object) -> None:
        """Any SVG element: its classes, its text, its attributes."""
        values = {name.replace("_", "-"): value for name, value in given.items() if value != ""}
        values = {"class": look, **values} if look else values
        text = "".join(
            f' {name}="{number(v) if isinstance(v, (int, float)) else escape(str(v))}"'
            for name, v in values.items()
        )
        self.marks.append(f"<{tag}{text}/>" if inside is None else f"<{tag}{text}>{inside}</{tag}>")

    @contextmanager
    def group(self, look: str = "", part: str = "", on: str = "", says: str = "") -> Iterator[None]:
        """What belongs together: `part` are its names, `on` the names that light up with it.

        A group with `on` answers to the pointer and to the keyboard; `says` is what it is called.
        """
        given = {"class": look, "data-part": part, "data-on": on}
        if on:
            given |= {"data-on": on.strip(), "tabindex": "-1", "role": "img", "aria-label": says}
        text = "".join(f' {name}="{escape(value)}"' for name, value in given.items() if value)
        self.marks.append(f"<g{text}>")
        yield
        self.marks.append("</g>")

    @contextmanager
    def step(self, n: int) -> Iterator[None]:
        """What comes as the `n`-th, while somebody looks; otherwise it is there."""
        self.marks.append(f'<g class="step" style="--n:{n}">')
        yield
        self.marks.append("</g>")

    def text(self, x: Length, y: Length, words: str, look: str = "", turn: Length = 0) -> None:
        """Words with their baseline at `y`, centred on `x`; class `l` starts there, `e` ends."""
        turned = f"rotate({number(turn)} {number(x)} {number(y)})" if turn else ""
        self.mark("text", look, symbols(words), x=x, y=y, transform=turned)

    def box(self, x: Length, y: Length, size: Point, look: str = "box", radius: Length = 6) -> None:
        self.mark("rect", look, x=x, y=y, width=size[0], height=size[1], rx=radius)

    def dot(self, x: Length, y: Length, look: str, radius: Length = 4) -> None:
        self.mark("circle", look, cx=x, cy=y, r=radius)

    def line(
        self, points: Sequence[Point], look: str = "muted k", head: str = "f", corner: Length = 7
    ) -> None:
        """A line with rounded corners. `head`: `f` a filled one, data flows; `open`; or none."""
        (x0, y0), (x1, y1) = points[-2:]
        angle = math.atan2(y1 - y0, x1 - x0)
        back = {"f": 7, "open": 1}.get(head, 0)
        end = (x1 - back * math.cos(angle), y1 - back * math.sin(angle))
        self.mark("path", look, d=rounded([*points[:-1], end], corner))
        if head:
            shape = "M0 0L-9.5-4.4L-7.4 0L-9.5 4.4Z" if head == "f" else "M-9-5.5L0 0L-9 5.5"
            place = f"translate({number(x1)} {number(y1)}) rotate({number(math.degrees(angle))})"
            self.mark("path", f"{look.split()[0]} {head}", d=shape, transform=place)

    def back(self, points: Sequence[Point]) -> None:
        """The way of a derivative, always against the data."""
        self.line(points, "gradient grad", "open")

    def share(self, start: Point, end: Point, weight: Length, role: str = "weight") -> None:
        """Attention from source to target: as wide as the weight."""
        style = f"--w:{printed(weight)}"
        self.mark("path", f"{role} share", d=rounded([start, end], 0), style=style)

    def stream(self, points: Sequence[Point], role: str = "state") -> None:
        """What nothing interrupts: a residual path, a cell state."""
        self.mark("path", f"{role} k thick", d=rounded(points, 7))

    def plus(self, x: Length, y: Length, radius: Length = 9) -> None:
        """What arrives is added to the stream."""
        self.dot(x, y, "ring", radius)
        arm = radius - 4
        across = f"M{number(x - arm)} {number(y)}h{number(2 * arm)}"
        self.mark("path", "mark", d=f"{across}M{number(x)} {number(y - arm)}v{number(2 * arm)}")

    def pill(self, x: Length, y: Length, words: str, size: Point = (40, 20)) -> None:
        """A norm, or a function without parameters, centred on (x, y)."""
        self.box(x - size[0] / 2, y - size[1] / 2, size, "box", size[1] / 2)
        self.text(x, y + 4, words, "s")

    def hatch(self, x: Length, y: Length, size: Point, look: str = "hair") -> None:
        """Forbidden, or unused: lines at 45° and no fill."""
        width, height = size
        path = ""
        for c in range(4, int(width + height), 6):  # along x − x0 + y − y0 = c
            x0, x1 = max(0, c - height), min(width, c)
            path += f"M{number(x + x0)} {number(y + c - x0)}L{number(x + x1)} {number(y + c - x1)}"
        self.mark("path", look, d=path)

    def bracket(self, start: Point, end: Point, depth: Length = 5) -> None:
        """How far something reaches; it opens to the left of its direction for `depth` > 0."""
        length = math.dist(start, end)
        dx, dy = (end[1] - start[1]) / length * depth, (start[0] - end[0]) / length * depth
        ends = [(start[0] + dx, start[1] + dy), start, end, (end[0] + dx, end[1] + dy)]
        self.mark("path", "hair", d=rounded(ends, 0))

    def cell(self, x: Length, y: Length, size: Point, words: str, shade: Length) -> None:
        """A number in its place; `shade`, 0 to 1, is its size on the drawing's scale."""
        width, height = size
        path = f"M{number(x)} {number(y)}h{number(width)}v{number(height)}h{number(-width)}z"
        self.mark("path", "v", d=path, style=f"--v:{printed(min(abs(shade), 1))}")
        self.mark("text", "n", words, x=x + width / 2, y=y + height / 2 + 4.2)

    def cells(
        self,
        name: str,
        place: Point,
        numbers: Sequence[Sequence[Length]],
        role: str,
        size: Point = (26, 24),
        scale: Point = (0, 1),
        digits: int = 2,
        about: Callable[[int, int], dict[str, str]] | None = None,
    ) -> None:
        """A table of numbers, recorded under `name`; `about(row, column)` makes a cell a group."""
        table = [[printed(x, digits) for x in row] for row in numbers]
        self.tables[name] = table
        with self.group(role):
            for i, row in enumerate(table):
                for j, words in enumerate(row):
                    at = (place[0] + j * size[0], place[1] + i * size[1])
                    with self.group(**about(i, j)) if about else nullcontext():
                        self.cell(*at, size, words, shade(words, scale))

    def svg(self, look: str, title: str, desc: str, name: str) -> str:
        """The sheet as an element with a name and a description for those who do not see it."""
        marks = "".join(self.marks)
        role = "group" if "data-on" in marks else "img"
        about = f'aria-label="{escape(title)}" aria-describedby="{name}"'
        view = f"0 0 {number(self.width)} {number(self.height)}"
        about += ' tabindex="0"' * ('class="step"' in marks)
        head = f'<svg class="{look}" viewBox="{view}" role="{role}" {about}>'
        marks = marks.replace('tabindex="-1"', 'tabindex="0"', 1)  # one stop; arrows lead on
        return f'{head}<desc id="{name}">{escape(desc)}</desc>{marks}</svg>'


def shade(words: str, scale: Point) -> float:
    """Where a printed number lies on a scale: worked out from its words, so as they do."""
    return (abs(read(words)) - scale[0]) / (scale[1] - scale[0])


def rounded(points: Sequence[Point], corner: Length) -> str:
    """A path through the points whose corners are rounded by so much, or by half of a short leg."""
    path = f"M{number(points[0][0])} {number(points[0][1])}"
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        reach = min(corner, math.dist(before, here) / 2, math.dist(here, after) / 2)
        if reach:
            enter, leave = toward(here, before, reach), toward(here, after, reach)
            path += f"L{enter}Q{number(here[0])} {number(here[1])} {leave}"
        else:
            path += f"L{number(here[0])} {number(here[1])}"
    return path + f"L{number(points[-1][0])} {number(points[-1][1])}"


def toward(start: Point, end: Point, reach: Length) -> str:
    share = reach / math.dist(start, end)
    return " ".join(number(a + (b - a) * share) for a, b in zip(start, end, strict=True))
