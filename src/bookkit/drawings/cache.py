"""What is computed and what is kept while a model writes: the cache, and fewer keys in it."""

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen

CELL = 22


def kv_cache(prompt: int = 5, written: int = 8) -> Drawing:
    """A row for each step of writing, a square for each position that goes through the model.

    Without a cache every step computes all positions again; with it only what is new, and old
    keys and values are read. While somebody looks, the steps come one by one.
    """
    if not 1 <= prompt <= 8 or not 2 <= written <= 8 or prompt + written > 14:
        raise ValueError(f"up to 14 positions in 8 steps fit; got {prompt} and {written}")
    steps = [prompt + n for n in range(written)]
    again, new = sum(steps), prompt + written - 1
    desc = (
        f"Two staircases of {written} rows, a row for each token that is written after a prompt "
        f"of {prompt}. Left, without a cache, each row computes every position from the first on: "
        f"{again} positions in all. Right, with a cache, the first row computes the {prompt} of "
        "the prompt and every later row one new position; the others are only read, as keys and "
        f"values that were kept: {new} positions in all. Old queries are never needed again."
    )
    wide = Pen(720, CELL * written + 84)
    tall = Pen(360, 2 * (CELL * written + 84) + 20)
    for pen, x, y in ((wide, 376, 0), (tall, 0, CELL * written + 104)):
        stairs(pen, 0, 0, steps, f"without a cache: {again} computed")
        stairs(pen, x, y, steps, f"with a cache: {new} computed", kept=True)
    return Drawing(wide, tall, "Writing with and without a cache", desc)


def stairs(
    pen: Pen, x: Length, y: Length, steps: list[int], title: str, kept: bool = False
) -> None:
    """A row for each step; with `kept`, old positions show the keys and values that are read."""
    pen.text(x, y + 16, title, "h l")
    for n, length in enumerate(steps):
        top = y + 34 + n * CELL
        with pen.step(n):
            for t in range(length):
                left = x + t * CELL
                if kept and n and t < length - 1:
                    pen.box(left + 1, top + 4, (CELL - 3, 6), "key f", 1)
                    pen.box(left + 1, top + 11, (CELL - 3, 6), "value f", 1)
                else:
                    pen.box(left, top, (CELL - 2, CELL - 3), "query f", 3)
    foot = y + 34 + CELL * len(steps) + 18
    legend = [("query", "computed")] + [("key", "key read"), ("value", "value read")] * kept
    for (role, words), at in zip(legend, (0, 102, 196), strict=False):
        pen.box(x + at, foot - 10, (12, 12), f"{role} f", 2)
        pen.text(x + at + 18, foot + 0.5, words, "s l")


def shared_keys(heads: int = 4, width: int = 48, latent: int = 32) -> Drawing:
    """Queries stay, keys and values are shared or summarised: what is kept of one token shrinks.

    Multi-head (Vaswani et al. 2017), grouped-query (Ainslie et al. 2023), multi-query (Shazeer
    2019) and latent attention (DeepSeek-AI 2024), for a layer of this width; the bars below are
    to one scale.
    """
    if heads != 4 or width % heads or not 1 <= latent <= 2 * width:
        raise ValueError(f"4 heads that divide the width fit; got {heads}, {width}, {latent}")
    D = width // heads
    kinds = [("multi-head", 4, 8 * D), ("grouped-query", 2, 4 * D), ("multi-query", 1, 2 * D)]
    kinds += [("latent", 4, latent)]
    counts = ", ".join(f"{name} {kept}" for name, _, kept in kinds)
    desc = (
        f"Four columns, each with {heads} query heads above. Multi-head: each has a key and a "
        "value head of its own. Grouped-query: two queries share one. Multi-query: all four share "
        "one. Latent: each has its own, but they are made anew from one short vector, and only "
        f"that is kept. Bars to one scale show the numbers kept of a token in a layer: {counts}."
    )
    wide, tall = Pen(720, 262), Pen(360, 540)
    for place, (name, groups, kept) in enumerate(kinds):
        share = kept / kinds[0][2]
        column(wide, 180 * place + 8, 0, name, groups, kept, share)
        column(tall, 180 * (place % 2) + 8, 278 * (place // 2), name, groups, kept, share)
    return Drawing(wide, tall, "Four ways to share keys and values between heads", desc)


def column(pen: Pen, x: Length, y: Length, name: str, groups: int, kept: int, share: float) -> None:
    """Query heads, the key and value heads that they look at, and what is kept."""
    made = name == "latent"
    pen.text(x + 82, y + 16, name, "h")
    queries = [x + 22 + 40 * n for n in range(4)]
    size = 160 / groups
    pairs = [x + 2 + size * (n + 0.5) for n in range(groups)]
    for n, at in enumerate(queries):
        pen.line([(at, y + 64), (pairs[n * groups // 4], y + 104)], "query k", "")
        pen.dot(at, y + 52, "query f", 11)
    for at in pairs:
        for role, top in (("key", 106), ("value", 126)):
            look = f"{role} edge" if made else f"{role} f"
            pen.box(at - 13, y + top, (26, 17), look, 3)
        if made:
            pen.line([(x + 82, y + 180), (at, y + 145)], "state k", "")
    if made:
        pen.box(x + 42, y + 180, (80, 14), "state f", 3)
    bar = 164 * share
    role = "state" if made else "key"
    pen.box(x, y + 216, (bar if made else bar / 2, 14), f"{role} f", 2)
    if not made:
        pen.box(x + bar / 2 + 1, y + 216, (bar / 2, 14), "value f", 2)
    pen.text(x, y + 250, f"{kept} numbers kept", "s l")
