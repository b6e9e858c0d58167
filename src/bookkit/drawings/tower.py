"""A stack of blocks on streams that run upwards, one for each token, post-norm as in 2017."""

from dataclasses import dataclass

from torch import Tensor

from bookkit.drawings.parts import looks
from bookkit.drawings.pen import Length, Pen

ABOUT = {
    "e-self": ("self-attention", "MH(x, x), mask: all", "(3, 512)", "weights (8, 3, 3)"),
    "e-network": ("feed-forward", "ReLU(x W_1) W_2", "(3, 512)", "inside (3, 2048)"),
    "d-self": ("causal self-attention", "MH(y, y), mask: past", "(4, 512)", "weights (8, 4, 4)"),
    "d-cross": ("cross-attention", "MH(y, memory)", "(4, 512)", "weights (8, 4, 3)"),
    "d-network": ("feed-forward", "ReLU(y W_1) W_2", "(4, 512)", "inside (4, 2048)"),
    "norm": ("add and norm", "norm(x + part(x))", "(T, 512)", "post-norm"),
    "embed": ("embedding", "√512 · row of the table", "(T, 512)", "one table, three uses"),
    "where": ("positions", "sines, added once", "(T, 512)", "nothing to learn"),
    "memory": ("memory", "keys and values for", "(3, 512)", "all six decoder blocks"),
    "scores": ("output", "x Eᵀ, then softmax", "(4, 37000)", "the table again"),
}


@dataclass
class Tower:
    """One of the two stacks: where its streams run, and where its parts are named."""

    pen: Pen
    name: str
    streams: list[Length]
    aside: Length  # how far the copies run beside their streams
    left: Length
    right: Length
    margin: Length  # where the names of the parts stand
    turned: bool  # names run upwards
    first: Length = 542  # where the block begins; it grows upwards

    def part(self, name: str, above: Length, height: Length) -> None:
        """The ground of a part, tinted if it mixes positions."""
        role = "muted" if name.endswith("network") else "weight"
        at = self.left + 4, self.first - above - height
        with self.pen.group(part=name):
            self.pen.box(*at, (self.right - self.left - 8, height), f"{role} t", 6)

    def sides(self) -> list[Length]:
        return [x - self.aside for x in self.streams]

    def leave(self, above: Length, to: Length, role: str = "muted") -> None:
        """From each stream a copy is taken and led upwards beside it."""
        y, end = self.first - above, self.first - to
        for x, side in zip(self.streams, self.sides(), strict=True):
            self.pen.line([(x - 4, y), (side, y), (side, end)], f"{role} k", "")

    def join(self, start: Length, above: Length, role: str = "muted") -> None:
        """What a part found is added to each stream."""
        y = self.first - above
        for x, side in zip(self.streams, self.sides(), strict=True):
            self.pen.line([(side, self.first - start), (side, y), (x - 7, y)], f"{role} k")
            self.pen.plus(x, y, 7.5)

    def norm(self, above: Length) -> None:
        """Post-norm: a norm on every stream."""
        with self.pen.group(
            part="norm", on=f"norm {within(self.pen, 'norm')}n-norm", says="add and norm"
        ):
            for x in self.streams:
                self.pen.box(x - 12, self.first - above - 6, (24, 12), "box", 6)

    def label(self, above: Length, *lines: str, look: str = "s") -> None:
        """The name of a part, in the margin."""
        y = self.first - above
        if self.turned:
            self.pen.text(self.margin, y, "".join(lines), look, -90)
            return
        for place, words in enumerate(lines):
            self.pen.text(self.margin, y + (place - (len(lines) - 1) / 2) * 15 + 4, words, look)


def within(pen: Pen, name: str) -> str:
    """The panel that shows the inside of a part; a narrow drawing has none."""
    return f"in-{name} " if pen.width > 500 else ""


def attention(
    tower: Tower, b: Length, name: str, mask: Tensor, memory: list[Length] | None = None
) -> None:
    """Self-attention, or, with the places of a memory, cross-attention; `b` is how far up."""
    pen, first, says = tower.pen, tower.first, ABOUT[name][0]
    with pen.group(
        part=name,
        on=f"{name} {within(pen, 'attention')}n-{name} {'memory' * bool(memory)}",
        says=says,
    ):
        top, size = first - b - 92, (tower.right - tower.left - 8, 80)
        pen.box(tower.left + 4, top, size, "clear", 6)
        sources = memory or tower.sides()
        if memory is None:
            tower.leave(b + 6, b + 26)
        else:
            tower.leave(b + 6, b + 78, "query")
        targets = [(x, first - b - 78) for x in tower.sides()]
        looks(pen, [(x, first - b - 26) for x in sources], targets, mask)
        tower.join(b + 78, b + 108, "weight")
    tower.norm(b + 128)


def network(tower: Tower, b: Length, name: str) -> None:
    """The feed-forward network: the same one at every position."""
    pen, first, says = tower.pen, tower.first, ABOUT[name][0]
    with pen.group(part=name, on=f"{name} {within(pen, 'network')}n-{name}", says=says):
        pen.box(tower.left + 4, first - b - 60, (tower.right - tower.left - 8, 48), "clear", 6)
        tower.leave(b + 6, b + 24)
        for side, after in zip(tower.sides(), [*tower.sides()[1:], None], strict=True):
            pen.box(side - 9, first - b - 48, (18, 24), "edge muted", 4)
            if after:
                pen.mark("path", "tie", d=f"M{side + 12:g} {first - b - 36:g}H{after - 11:g}")
        tower.join(b + 48, b + 76)
    tower.norm(b + 94)


def streams(tower: Tower, top: Length, bottom: Length) -> None:
    """From the embedding to the end, never interrupted."""
    for x in tower.streams:
        tower.pen.stream([(x, bottom), (x, top)])


def frame(tower: Tower, height: Length) -> None:
    """What is there six times."""
    pen, top = tower.pen, tower.first + 4 - height
    pen.box(tower.left, top, (tower.right - tower.left, height), "hair", 10)
