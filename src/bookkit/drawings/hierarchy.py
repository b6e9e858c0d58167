"""FlashAttention in two memories: what lies in the slow one, what in the fast one, what in none.

The sizes are an H100's (SXM): 80 GB at 3.35 TB/s, and 132 × 228 KB of shared memory, whose 32 banks
of 4 bytes answer at each tick of 1.83 GHz. NVIDIA, H100 data sheet; Hopper tuning guide.
"""

from itertools import pairwise

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point

UNITS, SHARED, BANK, TICKS = 132, 228 * 1024, 32 * 4, 1.83e9
SLOW, FAST = 3.35e12, UNITS * BANK * TICKS  # bytes a second
HOLDS, ON_CHIP = 80e9, UNITS * SHARED  # bytes
LONG, D, BYTES = 131_072, 128, 2  # what the sizes below are those of
EDGES = (0, 32, 64, 70)  # 70 positions in blocks of 32
ROW, COLUMN = 1, 0  # the tile that is computed now
STRIPS = {"Q": "query", "K": "key", "V": "value", "Y": "output"}


def kept() -> int:
    """Bytes of queries, keys, values and outputs of one head."""
    return 4 * LONG * D * BYTES


def table() -> int:
    """Bytes of its scores, if they were kept."""
    return LONG**2 * BYTES


def tiles() -> Drawing:
    """One tile of FlashAttention: the blocks that it needs in fast memory, all else in slow."""
    sizes = f"{kept() / 1e6:.0f} MB", f"{table() / 1e9:.0f} GB"
    desc = (
        f"Left, slow memory, {HOLDS / 1e9:.0f} GB at {SLOW / 1e12:.2f} TB a second: queries, keys, "
        f"values and outputs of 70 positions, each cut into blocks of 32, 32 and 6. In the middle, "
        f"fast memory on the chip, {ON_CHIP / 1e6:.0f} MB at {FAST / 1e12:.0f} TB a second: one "
        "block of queries, one of keys and one of values, the tile of scores between them, and the "
        "numbers m, z and u of each query. Right, the whole table in three by three tiles: "
        f"one exists now and the others never at the same time. For {LONG:,} positions and one "
        f"head of {D} channels in 16 bits, queries, keys, values and outputs are {sizes[0]}; the "
        f"table would be {sizes[1]}."
    )
    wide, tall = Pen(720, 300), Pen(360, 700)
    slow(wide, (2, 44), 198)
    fast(wide, (254, 44), (300, 206))
    never(wide, (584, 88), 132)
    travels(wide, [(200, 130), (252, 130)], [(252, 200), (200, 200)], (226, 120), (226, 190))
    wide.text(
        0, 278, f"{LONG:,} positions, one head, 16 bits: Q, K, V and Y are {sizes[0]},", "s l"
    )
    wide.text(0, 296, f"the table would be {sizes[1]}.", "s l b")
    slow(tall, (80, 44), 200)
    fast(tall, (30, 340), (300, 180))
    travels(tall, [(60, 254), (60, 336)], [(300, 336), (300, 254)], (36, 284), (318, 284))
    never(tall, (30, 556), 116)
    lines = [f"{LONG:,} positions,", "one head, 16 bits:", f"Q, K, V and Y {sizes[0]}"]
    for n, words in enumerate([*lines, f"the table {sizes[1]}"]):
        tall.text(176, 584 + 22 * n, words, "s l" + " b" * (n == len(lines)))
    return Drawing(wide, tall, "Where FlashAttention keeps what", desc)


def blocks(pen: Pen, at: Point, size: Point, role: str, now: int | None, down: bool = True) -> None:
    """A matrix cut into blocks; the one that is needed now is filled."""
    length = size[1] if down else size[0]
    for n, (start, end) in enumerate(pairwise(EDGES)):
        place, long = start / EDGES[-1] * length, (end - start) / EDGES[-1] * length - 2
        look = f"{role} f" if n == now else f"{role} edge"
        x, y = (at[0], at[1] + place) if down else (at[0] + place, at[1])
        pen.box(x, y, (size[0], long) if down else (long, size[1]), look, 1)


def slow(pen: Pen, at: Point, width: Length) -> None:
    """All four matrices; the blocks in use are filled."""
    x, y = at
    pen.text(x + width / 2, y - 26, "slow memory", "h")
    pen.text(x + width / 2, y - 8, f"{HOLDS / 1e9:.0f} GB, {SLOW / 1e12:.2f} TB/s", "s muted f")
    pen.box(x, y, (width, 206))
    for n, (name, role) in enumerate(STRIPS.items()):
        now = {"Q": ROW, "Y": ROW}.get(name, COLUMN)
        left = x + 20 + n * (width - 68) / 3
        blocks(pen, (left, y + 14), (28, 160), role, None if name == "Y" else now)
        pen.text(left + 14, y + 196, name, f"{role} f b")


def fast(pen: Pen, at: Point, size: Point) -> None:
    """The blocks of one tile, as a product is laid out on paper, and what is kept of each query."""
    x, y = at
    pen.text(x + size[0] / 2, y - 26, "fast memory, on the chip", "h")
    words = f"{ON_CHIP / 1e6:.0f} MB, about {FAST / 1e12:.0f} TB/s"
    pen.text(x + size[0] / 2, y - 8, words, "s muted f")
    pen.box(x, y, size)
    left, top = x + 52, y + (66 if pen.width > 500 else 54)
    pen.box(left, top - 34, (80, 28), "key f", 1)
    pen.box(left - 34, top, (28, 80), "query f", 1)
    pen.box(left, top, (80, 80), "weight f", 1)
    pen.box(left + 96, top, (28, 80), "value f", 1)
    for place, width, role in ((146, 12, "state"), (164, 12, "state"), (182, 28, "output")):
        pen.box(left + place, top, (width, 80), f"{role} f", 1)
    low = top + 100
    names = (
        (-20, "q", "query"),
        (40, "scores", "weight"),
        (110, "v", "value"),
        (152, "m", "state"),
    )
    for place, words, role in (*names, (170, "z", "state"), (196, "u", "output")):
        pen.text(left + place, low, words, f"{role} f b")
    pen.text(left + 92, top - 16, "k", "key f b l")


def never(pen: Pen, at: Point, side: Length) -> None:
    """The table of scores, of which one tile exists."""
    x, y = at
    pen.text(x + side / 2, y - 12, "all scores", "h")
    for i, (top, low) in enumerate(pairwise(EDGES)):
        for j, (left, right) in enumerate(pairwise(EDGES)):
            corner = (x + left / EDGES[-1] * side, y + top / EDGES[-1] * side)
            size = ((right - left) / EDGES[-1] * side - 2, (low - top) / EDGES[-1] * side - 2)
            if (i, j) == (ROW, COLUMN):
                pen.box(*corner, size, "weight f", 1)
            else:
                pen.hatch(*corner, size)
                pen.box(*corner, size, "hair", 1)
    pen.text(x + side / 2, y + side + 18, "never stored", "s muted f")


def travels(pen: Pen, there: list[Point], back: list[Point], first: Point, second: Point) -> None:
    """What is read, and what is written in the end."""
    pen.line(there, "muted k")
    pen.line(back, "output k")
    pen.text(*first, "q, k, v", "s")
    pen.text(*second, "y", "output f s b")
