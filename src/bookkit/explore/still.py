"""The few shapes of a still picture: text, cells with numbers, bars, lines. Colours by role."""

import html
from collections.abc import Sequence

Number = float | int


def number(x: Number, digits: int = 2) -> str:
    """.48, −.5, 2: no zero before the point, nothing after it where there is nothing to say."""
    text = f"{x:.{digits}f}"
    if float(text) == int(float(text)):
        return f"{float(text):.0f}".replace("-0", "0").replace("-", "−")
    return text.replace("0.", ".", 1).replace("-", "−") if abs(x) < 1 else text.replace("-", "−")


class Still:
    """An SVG that grows by calls; `svg()` returns it. Lengths are pixels at full size."""

    def __init__(self, width: int, height: int, label: str):
        self.width, self.height, self.label = width, height, label
        self.parts: list[str] = []

    def add(self, markup: str) -> None:
        """Anything else."""
        self.parts.append(markup)

    def text(
        self,
        x: Number,
        y: Number,
        words: str | int,
        role: str = "ink",
        anchor: str = "middle",
        size: int = 14,
        bold: bool = False,
    ) -> None:
        """Words, which are escaped; y is their foot."""
        weight = ' font-weight="650"' if bold else ""
        self.add(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"{weight} '
            f'style="fill:var(--d-{role})">{html.escape(str(words))}</text>'
        )

    def cell(
        self,
        x: Number,
        y: Number,
        width: Number,
        height: Number,
        role: str,
        strength: Number,
        words: str = "",
    ) -> None:
        """A box whose colour is as strong as `strength`, in 0 … 1, with a number in it."""
        strength = min(1, max(0, strength))
        self.add(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" '
            f'style="fill:var(--d-{role}-fill);'
            f'fill-opacity:calc(.13 + {strength:.2f}*(var(--d-{role}-reach) - .13))"/>'
        )
        if words != "":
            middle = x + width / 2, y + height / 2 + 4.5
            self.text(*middle, words, role="cell", size=13)

    def bar(self, x: Number, y: Number, width: Number, height: Number, role: str) -> None:
        """A full bar."""
        self.add(
            f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}" '
            f'style="fill:var(--d-{role})"/>'
        )

    def line(
        self,
        points: Sequence[tuple[Number, Number]],
        role: str = "line",
        width: Number = 1,
        dash: str = "",
    ) -> None:
        """A polyline through (x, y) points."""
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        dash = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(
            f'<path d="M{path}" fill="none" stroke-width="{width}"{dash} '
            f'style="stroke:var(--d-{role})"/>'
        )

    def svg(self) -> str:
        """The picture, at most as wide as it was meant to be."""
        size = f'viewBox="0 0 {self.width} {self.height}"'
        look = f"display:block;max-width:{self.width}px;width:100%;font-family:system-ui,sans-serif"
        label = html.escape(self.label, quote=True)
        parts = "".join(self.parts)
        return f'<svg {size} role="img" aria-label="{label}" style="{look}">{parts}</svg>'


def power(x: Number) -> str:
    """0.02, 31.40, 5 · 10⁻⁷: a number of any size, in a sentence."""
    if abs(x) < 1e-12:
        return "0"
    if 0.01 <= abs(x) < 1000:
        return f"{x:.2f}".replace("-", "−")
    digit, exponent = f"{x:.0e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{'' if digit == '1' else f'{digit} · '}10{raised}"
