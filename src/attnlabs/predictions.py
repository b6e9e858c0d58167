"""A student's predictions: written into a cell before a run, shown beside what came out, counted.

    my_predictions = Predictions()
    my_predictions.expect("share of digits right", 0.8, within=0.1)
    my_predictions.expect("better with few digits", "theirs", among=("mine", "theirs"))
    my_predictions.found({"share of digits right": 0.74, "better with few digits": "theirs"})
    my_predictions.count()

In a lab's source the guess is the lecturer's; a student's copy has `...` in its place. Nothing here
is graded, and nothing here stops a notebook: a guess that is left out, or is no guess, is said to
be so.
"""

import ast
import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAME = "my_predictions"  # what labs call theirs
HEAD = ("prediction", "yours", "came out", "")


@dataclass
class Prediction:
    """One prediction: a number, right if it lies within so much of what is seen, or a choice."""

    what: str
    guess: Any = ...
    within: float | int = 0
    among: Sequence[str] = ()
    seen: Any = None

    @property
    def trouble(self) -> str:
        """What is wrong with the guess as such, in words; "" if nothing is, or none was made."""
        if is_empty(self.guess):
            return ""
        if self.among:
            known = f"one of {', '.join(map(repr, self.among))} is needed"
            return "" if self.choice(self.guess) else f"{known}, not {told(self.guess)}"
        return (
            "" if number(self.guess) is not None else f"a number is needed, not {told(self.guess)}"
        )

    def choice(self, value: Any) -> str:
        """The option that a value names, whatever its capitals and spaces; "" if none."""
        plain = " ".join(str(value).split()).casefold()
        return next((each for each in self.among if each.casefold() == plain), "")

    @property
    def is_made(self) -> bool:
        """Has the student made it, in a form that can be right or wrong?"""
        return not is_empty(self.guess) and not self.trouble

    @property
    def is_right(self) -> bool:
        """Did it come out as predicted? Only of one that is made, and whose run has been made."""
        if not self.is_made or self.seen is None:
            return False
        if self.among:
            return self.choice(self.guess) == self.choice(self.seen) != ""
        guess, seen = number(self.guess), number(self.seen)
        if guess is None or seen is None:
            return False
        return abs(guess - seen) <= self.within + 1e-6 * (1 + abs(seen))  # float32

    @property
    def verdict(self) -> str:
        """What became of it, in words that are the same wherever it is right."""
        if self.trouble:
            return self.trouble
        if self.seen is None:
            return "not yet known" if self.is_made else "no prediction"
        return ("right" if self.is_right else "not right") if self.is_made else "no prediction"

    def cells(self) -> list[str]:
        """Its row of a table, in HTML. What came out differs from machine to machine, so tests do
        not compare it: it stands in an element of its own."""
        seen, distance = "" if self.seen is None else told(self.seen), ""
        if self.is_made and not self.among and self.seen is not None:
            guess, value = number(self.guess), number(self.seen)
            if guess is not None and value is not None and not self.is_right:
                distance = f", off by {measured(f'{guess - value:+.3g}')}"
        yours = told(self.guess) if self.is_made else "–"
        shown = html.escape(seen) if self.among else measured(seen)
        return [
            html.escape(self.what),
            html.escape(yours),
            shown,
            f"{html.escape(self.verdict)}{distance}",
        ]


class Shown:
    """Some predictions as a table; as text, what became of each."""

    def __init__(self, rows: Sequence[Prediction], sentence: str = "") -> None:
        self.rows, self.sentence = rows, sentence

    def __repr__(self) -> str:
        lines = [f"{row.what}: {row.verdict}" for row in self.rows]
        return "\n".join([*lines, *([self.sentence] if self.sentence else [])])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{word}</th>" for word in HEAD)
        rows = ["".join(f"<td>{cell}</td>" for cell in row.cells()) for row in self.rows]
        body = "".join(f"<tr>{row}</tr>\n" for row in rows)
        last = f"\n<p>{html.escape(self.sentence)}</p>" if self.sentence else ""
        return f'<table class="predictions">\n<tr>{head}</tr>\n{body}</table>{last}'


class Predictions:
    """The predictions of one notebook, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._rows: dict[str, Prediction] = {}

    def expect(
        self, what: str, guess: Any = ..., within: float | int = 0, among: Sequence[str] = ()
    ) -> None:
        """Write down what you expect before you run on.

        `what` names it. A number is right if it is no further than `within` from what is seen; with
        `among` it is one of these words. `...` is no prediction.
        """
        seen = self._rows[what].seen if what in self._rows else None
        self._rows[what] = row = Prediction(what, guess, within, tuple(among), seen)
        if row.trouble:
            print(f"{what}: {row.trouble}.")

    def found(self, seen: Mapping[str, Any]) -> None:
        """Put what came out beside the predictions of these names, and show it; None, where a run
        has not been made, is nothing that came out."""
        known = {what: value for what, value in seen.items() if not is_empty(value)}
        for what, value in known.items():
            self._rows.setdefault(what, Prediction(what)).seen = value
        if known:
            shown(Shown([self._rows[what] for what in known]))

    def count(self) -> None:
        """Show all of them and how many are right; nothing as long as there is nothing to count."""
        rows = list(self._rows.values())
        if all(row.seen is None and is_empty(row.guess) for row in rows):
            return
        made = [row for row in rows if row.is_made and row.seen is not None]
        sentence = f"{sum(row.is_right for row in made)} of {len(made)} right"
        empty = sum(not row.is_made for row in rows)
        waiting = sum(row.is_made and row.seen is None for row in rows)
        sentence += f"; {empty} without a prediction" * bool(empty)
        sentence += f"; {waiting} not yet known" * bool(waiting)
        shown(Shown(rows, f"{sentence}."))


def shown(table: Shown) -> None:
    """Show a table below the cell, or print it where there is no notebook."""
    try:
        from IPython.display import display
    except ImportError:
        print(table)
    else:
        display(table)


def is_empty(guess: Any) -> bool:
    """Was no guess made?"""
    return (
        guess is ... or guess is None or (isinstance(guess, str) and guess.strip() in ("", "..."))
    )


def number(value: Any) -> float | None:
    """A finite number, also one in a tensor; None for all else."""
    if isinstance(value, str | bytes | bool):
        return None
    try:
        found = float(value)
    except Exception:  # whatever a student passes, the notebook goes on
        return None
    return found if math.isfinite(found) else None


def told(value: Any) -> str:
    """A value in a few letters, whatever it is."""
    found = number(value)
    if found is not None:
        return f"{found:.4g}"
    if isinstance(value, str):
        return value if len(value) <= 40 else f"{value[:37]}..."
    return type(value).__name__


def measured(text: str) -> str:
    """A number that the notebook tests do not compare (`tools/nbval.cfg`)."""
    return f'<data class="m">{html.escape(text)}</data>'


# The student's copy


def guesses(source: str) -> Iterator[ast.expr]:
    """The guesses that stand in a cell, from the last to the first."""
    if f"{NAME}.expect(" not in source:
        return
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    found = [
        call.args[1]
        for call in calls
        if ast.unparse(call.func) == f"{NAME}.expect" and len(call.args) > 1
    ]
    yield from sorted(found, key=lambda node: (node.lineno, node.col_offset), reverse=True)


def without_guesses(source: str) -> str:
    """A cell with `...` in the place of each guess: the prediction is the student's."""
    for guess in guesses(source):
        lines = source.splitlines(keepends=True)
        first, last = guess.lineno - 1, (guess.end_lineno or guess.lineno) - 1
        before = lines[first].encode()[: guess.col_offset].decode()
        after = lines[last].encode()[guess.end_col_offset :].decode()
        source = "".join([*lines[:first], f"{before}...{after}", *lines[last + 1 :]])
    return source
