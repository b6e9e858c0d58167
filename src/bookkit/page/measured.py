"""Results on the page: a table of what a run measured, whose bounds are checked where it is made.

What is trained differs in its last digits from machine to machine. So a table keeps two things
apart: its layout, which a second run must repeat exactly, and its numbers, each in an element
`<data class="m">`, which only have to stay within the bounds. `tools/nbval.cfg` tells the notebook
tests so, and the role {n} quotes the stored numbers in the text.
"""

import html
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any

MOST_ROWS = 6  # of a table with the numbers of all seeds; more are dots on a line
REFERENCES = ("chance", "baseline")
BOLD = "font-weight: bold"
Bound = float | int | Mapping[str, float | int] | None
Table = dict[str, list[float]]
Bounds = dict[str, dict[str, float | int]]  # sign → row → bound


def measured(
    rows: Mapping[str, object],
    name: str = "",
    unit: str = "",
    digits: int = 2,
    low: Bound = None,
    high: Bound = None,
    only: str | Sequence[str] = (),
    budget: str = "",
    across: Sequence[str] = (),
) -> "Measured":
    """A table of measured numbers, once each of them is seen to lie within its bound.

    `rows` maps a name to one number, or to those of several seeds (a list, a tensor). Rows whose
    names begin with "chance" or "baseline" come first and are no rivals of the others. `low` and
    `high` hold for every number of every other row, with `only` for those of these rows; as a
    mapping they give each row its own bound. `name`, one of a kind in the book, lets the text quote
    the numbers: {n}`name: row`. `unit` stands in the head; "accuracy ↑" says that more is better,
    "loss ↓" that less is: then the best row is bold, if it is the best with each of its seeds.
    `budget` says how long was trained, and on what: it stands below the table. Rows of three seeds
    or more have the 95 % interval of their mean, by Student's t. `across` makes a matrix of it:
    each row's name ends with a comma and one of these names, which is its column.

    Raises ValueError if the rows are not numbers, a bound is for a row that is not there or a row
    has no column, and AssertionError naming the row and the bound that it breaks.
    """
    table = {str(row): numbers(row, values) for row, values in rows.items()}
    if not table:
        raise ValueError("there is nothing to show: measured({'one head': [0.18, 0.19]})")
    first = [row for row in table if row.startswith(REFERENCES)]
    table = {row: table[row] for row in [*first, *(row for row in table if row not in first)]}
    bounds = {
        sign: per_row(bound, table, [only] if isinstance(only, str) else list(only))
        for sign, bound in (("≥", low), ("≤", high))
    }
    check(table, bounds, digits)
    for row in table if across else ():
        if not row.endswith(tuple(f", {column}" for column in across)):
            raise ValueError(f"{row!r} ends with none of the columns {', '.join(across)}")
    return Measured(table, name, unit, digits, bounds, budget, across)


def numbers(row: str, values: Any) -> list[float]:
    """The numbers of one row, tensors and single numbers too; not-a-number is a run that broke."""
    values = values.tolist() if hasattr(values, "tolist") else values
    several = isinstance(values, Sequence) and not isinstance(values, str)
    try:
        row_of = [float(number) for number in (values if several else [values])]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{row!r} is not a list of numbers: {error}") from error
    if not row_of:
        raise ValueError(f"{row!r} has no numbers")
    return row_of


def per_row(bound: Bound, table: Table, only: list[str]) -> dict[str, float | int]:
    """The bound of each row that has one."""
    unknown = [row for row in (bound if isinstance(bound, Mapping) else only) if row not in table]
    if unknown:
        raise ValueError(f"a bound is for {unknown[0]!r}; the rows are {', '.join(table)}")
    if isinstance(bound, Mapping):
        return dict(bound)
    if bound is None:
        return {}
    rows = only or [row for row in table if not row.startswith(REFERENCES)]
    return dict.fromkeys(rows, float(bound))


def check(table: Table, bounds: Bounds, digits: int) -> None:
    """AssertionError for the first number outside its bound."""
    for sign, of_rows in bounds.items():
        for row, bound in of_rows.items():
            for number in table[row]:
                if not (number >= bound if sign == "≥" else number <= bound):
                    raise AssertionError(
                        f"{row!r} has {number:.{digits + 2}f}, the bound is {sign} {bound:g}; "
                        f"all that was measured: {', '.join(f'{n:.{digits}f}' for n in table[row])}"
                    )


class Measured:
    """What `measured` returns: shows itself as a table; its repr is the shape of that table."""

    def __init__(
        self,
        table: Table,
        name: str,
        unit: str,
        digits: int,
        bounds: Bounds,
        budget: str = "",
        across: Sequence[str] = (),
    ):
        self.table, self.name, self.unit, self.across = table, name, unit, across
        self.digits, self.bounds, self.budget = digits, bounds, budget

    def __repr__(self) -> str:
        sizes = ", ".join(f"{row} ({len(found)})" for row, found in self.table.items())
        return f"measured: {sizes}"

    def _repr_html_(self) -> str:
        dots = len(self.table) > MOST_ROWS
        several = dots or any(len(found) > 1 for found in self.table.values())
        before = stored().get(self.name, {}) if elsewhere() else {}
        unit = html.escape(self.unit) or "measured"
        if self.across:
            return self.laid_out([unit, *map(html.escape, self.across)], self.matrix(before))
        head = ["", *(["stored", "here"] if before else [unit])]
        head += ["95 % interval"] * self.has_intervals()
        head += [self.scale() if dots else "each seed"] * several
        body = "\n".join(self.row(row, before, several, dots) for row in self.table)
        return self.laid_out(head, body)

    def laid_out(self, head: list[str], body: str) -> str:
        """The table of a head and rows."""
        label = f' data-name="{html.escape(self.name)}"' if self.name else ""
        top = "".join(f'<th scope="col">{part}</th>' for part in head)
        return (
            f'<table class="measured"{label}>\n{self.caption()}<thead><tr>{top}</tr></thead>\n'
            f"<tbody>\n{body}\n</tbody>\n</table>"
        )

    def matrix(self, before: Mapping[str, str]) -> str:
        """The rows of a matrix: in each cell a mean, its interval, on Colab what is stored, too."""
        lines: dict[str, dict[str, str]] = {}
        for row in self.table:
            column = next(each for each in self.across if row.endswith(f", {each}"))
            mean = self.number(fmean(self.table[row]), BOLD * self.is_best(row, f", {column}"))
            small = f'<small class="interval">{self.interval(row)}</small>'
            small *= enough(self.table[row])
            small += f"<small>stored {html.escape(before[row])}</small>" if row in before else ""
            cell = f'<td class="mean" data-row="{html.escape(row)}">{mean}{small}</td>'
            lines.setdefault(row.removesuffix(f", {column}"), {})[column] = cell
        return "\n".join(
            f'<tr{kind(name)}><th scope="row">{html.escape(name)}</th>'
            + "".join(cells.get(column, "<td></td>") for column in self.across)
            + "</tr>"
            for name, cells in lines.items()
        )

    def row(self, row: str, before: Mapping[str, str], several: bool, dots: bool) -> str:
        """One row: name, mean, its interval, what each seed gave."""
        found = self.table[row]
        bold = BOLD * self.is_best(row)
        cells = [f"<td>{html.escape(before.get(row, '–'))}</td>"] * bool(before)
        cells.append(f'<td class="mean">{self.number(fmean(found), bold)}</td>')
        if self.has_intervals():
            cells.append(f'<td class="interval">{self.interval(row)}</td>')
        if dots:
            cells.append(f'<td class="dots">{self.line(row)}</td>')
        elif several:
            each = " ".join(map(self.number, found)) if len(found) > 1 else ""
            cells.append(f'<td class="seeds">{each}</td>')
        return f'<tr{kind(row)}><th scope="row">{html.escape(row)}</th>{"".join(cells)}</tr>'

    def caption(self) -> str:
        """The budget, below the table."""
        words = html.escape(self.budget)
        return f"<caption>Budget: {words}</caption>\n" if words else ""

    def has_intervals(self) -> bool:
        """Whether a row has enough seeds for an interval."""
        return any(map(enough, self.table.values()))

    def interval(self, row: str) -> str:
        """The ends of the interval of a row's mean; nothing where there are too few seeds.

        In a table of shares it ends at 0 and 1.
        """
        found = self.table[row]
        if not enough(found):
            return ""
        from bookkit.results.statistics import interval  # with scipy, which takes a second

        ends = interval(found)
        low, high = ends.low, ends.high
        if self.reach() == (0.0, 1.0):
            low, high = max(low, 0.0), min(high, 1.0)
        return f"{self.number(low)} to {self.number(high)}"

    def number(self, number: float, style: str = "", sign: str = "") -> str:
        """A number that the notebook tests do not compare; as a `sign`, it is in the tooltip."""
        words, style = self.text(number), f' style="{style}"' if style else ""
        title = f' title="{words}"' if sign else ""
        return f'<data class="m" value="{number:.6g}"{title}{style}>{sign or words}</data>'

    def text(self, number: float) -> str:
        words = f"{number:,.{self.digits}f}" if math.isfinite(number) else "diverged"
        return words.replace("-", "−")

    def is_best(self, row: str, column: str = "") -> bool:
        """Better with each of its seeds than every rival, of its column, with any of theirs."""
        sign = {"↑": 1, "↓": -1}.get(self.unit[-1:], 0)
        others = [r for r in self.table if r != row and r.endswith(column)]
        rivals = [r for r in others if not r.startswith(REFERENCES)]
        if not sign or not rivals or row.startswith(REFERENCES):
            return False
        worst = min(sign * number for number in self.table[row])
        return all(worst > max(sign * number for number in self.table[r]) for r in rivals)

    def reach(self) -> tuple[float, float]:
        """The ends of the line that dots stand on: 0 and 1 for shares."""
        found = [n for numbers in self.table.values() for n in numbers if math.isfinite(n)]
        low, high = min(found, default=0.0), max(found, default=1.0)
        if 0 <= low and high <= 1:
            return 0.0, 1.0
        return low, high if high > low else low + 1

    def scale(self) -> str:
        """The ends of the line, above it."""
        low, high = map(self.number, self.reach())
        return f'<span class="scale">{low}<span> … </span>{high}</span>'

    def line(self, row: str) -> str:
        """A dot for each seed, where it stands between the ends."""
        low, high = self.reach()
        dots = []
        for number in self.table[row]:
            share = (number - low) / (high - low) if math.isfinite(number) else 0
            style = f"position: absolute; left: {100 * share:.1f}%"
            dots.append(self.number(number, style, "●"))
        style = "position: relative; display: inline-block; width: 12em; height: 1.2em"
        return f'<span class="line" style="{style}">{"".join(dots)}</span>'


def kind(row: str) -> str:
    """What a row with nothing but a reference says of itself."""
    return ' class="reference"' if row.startswith(REFERENCES) else ""


def enough(found: list[float]) -> bool:
    """Whether an interval says something: three seeds or more, none of which diverged."""
    return len(found) > 2 and all(map(math.isfinite, found))


def elsewhere() -> bool:
    """Whether this runs on Colab, where the stored numbers are not the reader's own."""
    return "google.colab" in sys.modules or "COLAB_RELEASE_TAG" in os.environ


@cache
def stored() -> dict[str, dict[str, str]]:
    """The means that stand in the book's stored outputs, by table and row."""
    found: dict[str, dict[str, str]] = {}
    folder = resources.files("bookkit.page").joinpath("stored")
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.name.endswith(".json"):
            found |= json.loads(file.read_text(encoding="utf-8"))
    return found
