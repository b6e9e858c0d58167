"""What flows where when a model is trained further, and what a stack of layers keeps of a text."""

from collections.abc import Sequence

from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Pen, Point

LAYERS = {"F": "full", "w": "window", "D": "delta"}
ROLE = {"F": "key", "w": "value", "D": "state"}


def numbers_kept(kind: str, T: int, width: int = 64, heads: int = 4, window: int = 16) -> int:
    """What a layer keeps of T positions: keys and values of all or of the last ones, or a state."""
    if kind == "D":
        return heads * (width // heads) ** 2
    return 2 * width * (T if kind == "F" else min(T, window))


def what_stacks_keep(stacks: Sequence[str] = ("FFFF", "wwwF", "DDDF"), T: int = 512) -> Drawing:
    """Stacks of four layers, and the numbers that each layer keeps of a text of T."""
    if not 1 <= len(stacks) <= 3 or any(len(s) != 4 or set(s) - set(LAYERS) for s in stacks):
        raise ValueError(f"1 to 3 stacks of 4 layers F, w or D fit; got {list(stacks)}")
    sums = [sum(numbers_kept(kind, T) for kind in stack) for stack in stacks]
    told = ", ".join(f"{stack} {n:,}" for stack, n in zip(stacks, sums, strict=True))
    desc = (
        f"Stacks of four layers, the last layer on top. A bar is as long as the numbers that the "
        f"layer keeps of {T} characters: F all keys and values, {numbers_kept('F', T):,}; w those "
        f"of the last 16, {numbers_kept('w', T):,}; D a state, {numbers_kept('D', T):,}. In all: "
        f"{told}."
    )
    pens = Pen(640, 132 * len(stacks) - 8), Pen(360, 132 * len(stacks) - 8)
    for pen in pens:
        for n, (stack, total) in enumerate(zip(stacks, sums, strict=True)):
            pen.text(0, 132 * n + 14, f"{stack}: {total:,} numbers", "s b l")
            for row, kind in enumerate(reversed(stack)):
                layer_bar(pen, 132 * n + 24 + 24 * row, kind, T)
    return Drawing(*pens, "What each layer of a stack keeps", desc)


def layer_bar(pen: Pen, y: int, kind: str, T: int) -> None:
    """A layer, its number, and the number as a bar."""
    kept, room = numbers_kept(kind, T), pen.width - 142
    pen.box(0, y, (66, 20), f"{ROLE[kind]} t", 3)
    pen.text(33, y + 14.5, LAYERS[kind], "s")
    pen.text(130, y + 14.5, f"{kept:,}", "s e")
    pen.box(140, y + 2, (room * kept / numbers_kept("F", T), 16), f"{ROLE[kind]} f", 1)


MODELS = {
    "policy": ("policy π", "writes the answer"),
    "reference": ("reference π_0", "frozen"),
    "reward": ("reward model", "frozen"),
    "critic": ("critic V", "learns"),
}


def four_models() -> Drawing:
    """A step of PPO from feedback. Ouyang et al. 2022, section 3.5; Ziegler et al. 2019."""
    desc = (
        "Four models in a step of PPO. The policy writes an answer. Three models read it: the "
        "frozen reference gives the log probability of each token, the frozen reward model one "
        "score for the whole answer, the critic a value before each token. From score, penalty and "
        "values come the advantages. Gradients (dashed) flow back to two of the four only: by the "
        "clipped loss to the policy, by the value loss to the critic."
    )
    wide, tall = Pen(720, 300), Pen(360, 430)
    four_wide(wide)
    four_tall(tall)
    return Drawing(wide, tall, "The four models of PPO, and what flows between them", desc)


def model_box(pen: Pen, name: str, corner: Point, size: Point) -> None:
    """A model: tinted if it learns, grey if it is frozen."""
    title, about = MODELS[name]
    pen.box(*corner, size, "output t" if name in ("policy", "critic") else "box", 6)
    middle = corner[0] + size[0] / 2
    pen.text(middle, corner[1] + size[1] / 2 - 3, title, "s b")
    pen.text(middle, corner[1] + size[1] / 2 + 15, about, "s")


def four_wide(pen: Pen) -> None:
    model_box(pen, "policy", (0, 96), (150, 56))
    pen.line([(152, 124), (276, 124)], "value k")
    pen.text(202, 114, "answer, log π", "s")
    for n, (name, gives) in enumerate(GIVEN):
        y = 10 + 86 * n
        model_box(pen, name, (280, y), (150, 56))
        if n != 1:
            pen.line([(256, 124), (256, y + 28), (278, y + 28)], "value k")
        pen.line([(432, y + 28), (566, y + 28)], "key k")
        pen.text(500, y + 18, gives, "s")
    pen.box(570, 10, (150, 228), "box", 6)
    for n, words in enumerate(("r − β (log π − log π_0)", "rewards of tokens", "GAE with V_t", "")):
        pen.text(645, 92 + 24 * n, words, "s")
    pen.text(645, 168, "advantages A_t", "s b")
    pen.back([(645, 240), (645, 284), (75, 284), (75, 154)])
    pen.text(180, 276, "clipped loss", "s")
    pen.back([(610, 240), (610, 262), (355, 262), (355, 240)])
    pen.text(480, 256, "value loss", "s")


def four_tall(pen: Pen) -> None:
    model_box(pen, "policy", (90, 4), (180, 52))
    pen.line([(180, 58), (180, 116)], "value k")
    pen.text(190, 80, "answer, log π", "s l")
    for n, (name, gives) in enumerate(GIVEN):
        x = 16 + 110 * n
        model_box(pen, name, (x, 120), (106, 56))
        if n != 1:
            pen.line([(179, 94), (x + 53, 94), (x + 53, 118)], "value k")
        pen.line([(x + 53, 178), (x + 53, 236)], "key k")
        pen.text(x + 59, 208, gives, "s l")
    pen.box(16, 240, (326, 104), "box", 6)
    for n, words in enumerate(("rewards of tokens: r − β (log π − log π_0)", "GAE with V_t")):
        pen.text(180, 268 + 24 * n, words, "s")
    pen.text(180, 324, "advantages A_t", "s b")
    pen.back([(100, 346), (100, 384), (5, 384), (5, 30), (88, 30)])
    pen.text(100, 404, "clipped loss", "s")
    pen.back([(270, 346), (270, 384), (355, 384), (355, 148), (344, 148)])
    pen.text(270, 404, "value loss", "s")


GIVEN = (("reference", "log π_0"), ("reward", "score r"), ("critic", "V_t"))


def qlora_flow() -> Drawing:
    """A frozen matrix of four bits with an adapter beside it. Dettmers et al. 2023, figure 1."""
    desc = (
        "The input x goes two ways. Below, levels of 4 bits and their scales, frozen, are made "
        "into a matrix of full precision for the moment of the product. Above, the adapter A and "
        "B in full precision. Both are added to y. Gradients (dashed) reach B, A and x; the "
        "levels get none, the gradient only passes through the matrix."
    )
    wide, tall = Pen(640, 236), Pen(360, 236)
    qlora_parts(wide, (130, 300, 500), 110)
    qlora_parts(tall, (58, 164, 296), 64)
    return Drawing(wide, tall, "QLoRA: what is stored, what is made, what learns", desc)


def qlora_parts(pen: Pen, columns: tuple[int, int, int], wide: int) -> None:
    """`columns` are where A, B or the matrix, and the sum stand."""
    first, second, last = columns
    for x, name in ((10, "x"), (pen.width - 10, "y")):
        pen.text(x, 128, name, "m")
    for x, name in ((first, "A"), (second, "B")):
        pen.box(x, 26, (wide, 34), "output t", 4)
        pen.text(x + wide / 2, 48, name, "m")
    pen.text(first, 16, "adapter, 32 bits: learns", "s l")
    branch, middle = first - 18, second + wide / 2
    pen.line([(branch, 116), (branch, 43), (first - 2, 43)], "value k")
    pen.line([(first + wide + 2, 43), (second - 2, 43)], "value k")
    pen.line([(second + wide + 2, 43), (last, 43), (last, 105)], "value k")
    pen.line([(22, 116), (second - 2, 116)], "value k")
    pen.line([(second + wide + 2, 116), (last - 11, 116)], "value k")
    pen.line([(last + 11, 116), (pen.width - 20, 116)], "value k")
    pen.plus(last, 116)
    made_matrix(pen, second, middle, wide)
    pen.back([(last - 9, 130), (second + wide + 2, 130)])
    pen.back([(second - 2, 130), (22, 130)])
    pen.back([(last - 14, 104), (last - 14, 80), (middle, 80), (middle, 62)])
    pen.back([(middle - 12, 80), (first + wide / 2, 80), (first + wide / 2, 62)])


def made_matrix(pen: Pen, x: int, middle: float, wide: int) -> None:
    """The matrix of the moment, and what it is made of."""
    pen.box(x, 100, (wide, 46), "edge state", 4)
    pen.text(middle, 128, "Ŵ", "m")
    pen.line([(middle, 190), (middle, 148)], "muted k")
    pen.text(middle - 10, 174, "dequantised", "s e")
    pen.box(middle - 92, 192, (184, 36), "box", 4)
    pen.text(middle, 214, "4 bits and scales, frozen", "s")
