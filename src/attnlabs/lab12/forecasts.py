"""Forecasts beside what runs reached: one table for a student's notebook and for the feedback."""

from collections.abc import Sequence
from typing import TypeAlias

from attnlabs.lab12 import scores

Table: TypeAlias = list[list[str]]  # the head first
HEAD = ["run", "forecast", "low", "high", "reached", "score", "points"]


def line(run: str, forecast: Sequence[float], reached: float | None) -> list[str]:
    """A row of the table: the forecast of one run, what it reached if that is known, the score in
    nats and the share of the points that it brings."""
    mean, low, high = forecast
    row = [run, *(f"{value:.3f}" for value in (mean, low, high))]
    if reached is None:
        return [*row, "–", "–", "–"]
    found = scores.score(mean, low, high, reached)
    return [*row, f"{reached:.3f}", f"{found:.3f}", f"{scores.share(found):.0%}"]


def name(width: float | int, layers: float | int, rate: float, gigaflops: float | int) -> str:
    """What a run is called in the table."""
    deep = f", {int(layers)} layers" if layers != 1 else ""
    return f"width {int(width)}{deep}, rate {rate:g}, {gigaflops:.0f} gigaflops"


def aligned(table: Table) -> str:
    """The table in columns of equal width, for what is printed."""
    widths = [max(len(row[n]) for row in table) for n in range(len(table[0]))]
    lines = []
    for first, *others in table:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    return "\n".join(lines)
