"""After pre-training: what counts in the loss of a dialogue, a thin product beside a matrix, and
answers of one group, compared with each other."""

from collections.abc import Sequence
from itertools import pairwise

import torch

from attnbook.train.preferences import advantages
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.pen import Length, Pen, Point, printed

CHAT = ["user:", "Say", "cat", "twice", ".", "end", "book:", "cat", ",", "cat", "end"]
TILE = (56, 26)


def chat_template(tokens: Sequence[str] = CHAT, answer: int = 7) -> Drawing:
    """A dialogue as one row of tokens: each is read, the next one is to be said, some count.

    The answer begins at token number `answer`; the loss counts where a token of it is to be said.
    Ouyang et al. 2022 (InstructGPT), section 3.5.
    """
    if not 2 <= len(tokens) <= 12 or not 1 <= answer < len(tokens):
        raise ValueError(
            f"2 to 12 tokens fit, and an answer that begins after the first; got {len(tokens)} "
            f"tokens and an answer from {answer} on"
        )
    steps = list(pairwise(tokens))
    counts = [int(n + 1 >= answer) for n in range(len(steps))]
    counted = ", ".join(after for (_, after), one in zip(steps, counts, strict=True) if one)
    desc = (
        f"A dialogue of {len(tokens)} tokens: {' '.join(tokens)}. At each token the model has to "
        f"say the next one. A row of zeros and ones below says what counts in the loss: 1 at the "
        f"{sum(counts)} places where a token of the answer is to be said ({counted}), 0 before."
    )
    wide, tall = Pen(720, 178), Pen(360, 40 + 31 * len(steps))
    template_wide(wide, steps, counts)
    template_tall(tall, steps, counts)
    return Drawing(wide, tall, "A dialogue, and what counts in its loss", desc)


def tile(pen: Pen, place: Point, words: str, look: str, wide: Length) -> None:
    """A token; what marks a turn has rounder corners."""
    marks = words.endswith(":") or words == "end"
    pen.box(*place, (wide, TILE[1]), look, 13 if marks else 4)
    pen.text(place[0] + wide / 2, place[1] + 17.5, words, "s b" if marks else "s")


def template_wide(pen: Pen, steps: Sequence[tuple[str, str]], counts: Sequence[int]) -> None:
    """From left to right: read below, said above."""
    left, apart = 78, (720 - 78) / len(steps)
    width = apart - 6
    for words, y in (("has to say", 26), ("reads", 104), ("counts", 148)):
        pen.text(0, y + 4, words, "s l")
    for n, ((read, said), one) in enumerate(zip(steps, counts, strict=True)):
        x = left + n * apart
        tile(pen, (x, 13), said, "output t" if one else "box", width)
        pen.line([(x + width / 2, 88), (x + width / 2, 43)], "output k" if one else "muted k")
        tile(pen, (x, 91), read, "box", width)
    pen.cells("mask", (left, 135), [counts], "output", (apart, 24))


def template_tall(pen: Pen, steps: Sequence[tuple[str, str]], counts: Sequence[int]) -> None:
    """From top to bottom: read on the left, said on the right."""
    for words, x in (("reads", 60), ("has to say", 210), ("counts", 320)):
        pen.text(x, 16, words, "s")
    for n, ((read, said), one) in enumerate(zip(steps, counts, strict=True)):
        y = 28 + 31 * n
        tile(pen, (20, y), read, "box", 80)
        pen.line([(106, y + 13), (164, y + 13)], "output k" if one else "muted k")
        tile(pen, (170, y), said, "output t" if one else "box", 80)
    pen.cells("mask", (302, 26), [[one] for one in counts], "output", (36, 31))


def low_rank(rows: int = 640, columns: int = 256, rank: int = 8) -> Drawing:
    """A matrix that stays, the product of two thin ones beside it, and their sum, all to scale.

    Hu et al. 2022, section 4.1.
    """
    if not 1 <= rank <= min(rows, columns) or max(rows, columns) > 1000:
        raise ValueError(
            f"a matrix of up to 1,000 × 1,000 and a rank from 1 to its shorter side fit; got "
            f"{rows} × {columns} and {rank}"
        )
    whole, thin = rows * columns, rank * (rows + columns)
    desc = (
        f"A vector x of {columns} numbers goes two ways. Above, through the matrix W of {rows} × "
        f"{columns}, {whole:,} numbers, which stays as it is (hatched). Below, through A, {rank} × "
        f"{columns}, and then B, {rows} × {rank}: {thin:,} numbers, {100 * thin / whole:.1f} % as "
        "many, and only they learn. The two results are added. Afterwards W and the product B A "
        "are added once, and one matrix of the old size remains. Sides are to scale."
    )
    wide, tall = Pen(720, 250), Pen(360, 420)
    beside(wide, (rows, columns, rank), 0.2, (96, 12))
    beside(tall, (rows, columns, rank), 0.18, (78, 12))
    merged(wide, (rows, columns), 0.2, (530, 52))
    merged(tall, (rows, columns), 0.18, (130, 278))
    return Drawing(wide, tall, "LoRA: a thin product beside a matrix that stays", desc)


def beside(pen: Pen, sizes: tuple[int, int, int], scale: float, corner: Point) -> None:
    """x through W, and through A and B; the sum."""
    (rows, columns, rank), (x, y) = sizes, corner
    height, width, thin = rows * scale, columns * scale, max(3, rank * scale)
    middle = y + height / 2
    pen.text(x - 70, middle + 5, "x", "m")
    pen.box(x, y, (width, height), "box", 2)
    pen.hatch(x, y, (width, height))
    pen.box(x + width / 2 - 13, middle - 12, (26, 24), "paper", 4)
    pen.text(x + width / 2, middle + 5, "W", "m")
    low, far = y + height + 42, x + width + 88
    pen.line([(x - 58, middle), (x - 6, middle)], "muted k")
    pen.line([(x - 36, middle), (x - 36, low), (x - 6, low)], "output k")
    pen.box(x, low - thin / 2, (width, thin), "output f", 1)
    pen.text(x + width / 2, low + 26, "A", "m")
    pen.line([(x + width + 4, low), (far - 6, low)], "output k")
    pen.box(far, low - height * 0.5, (thin, height), "output f", 1)
    pen.text(far + 20, low + 30, "B", "m")
    pen.line([(x + width + 4, middle), (far + 76, middle)], "muted k")
    pen.plus(far + 86, middle)
    pen.line([(far + thin + 4, low), (far + 86, low), (far + 86, middle + 11)], "output k")
    pen.line([(far + 97, middle), (far + 122, middle)], "muted k")
    pen.text(far + 134, middle + 5, "y", "m")
    pen.text(x + width + 12, y + 14, f"{rows * columns:,} numbers stay", "s l")
    pen.text(far + 34, low + 52, f"{rank * (rows + columns):,} learn", "output f s b l")


def merged(pen: Pen, sizes: Point, scale: float, corner: Point) -> None:
    """Afterwards: one matrix of the old size."""
    (rows, columns), (x, y) = sizes, corner
    height, width = rows * scale, columns * scale
    pen.box(x, y, (width, height), "output t", 2)
    pen.text(x + width + 12, y + height / 2, "W + BA", "m l")
    pen.text(x + width + 12, y + height / 2 + 22, "merged afterwards", "s l")


def compared_answers(
    question: str = "47 + 85 =",
    answers: Sequence[str] = ("132", "122", "32", "131"),
    rewards: Sequence[float | int] = (1, 0, 0, 0),
    alike: Sequence[float | int] = (1, 1, 1, 1),
) -> Drawing:
    """Answers of one model to one question: their rewards, their advantages, what they do next.

    Beside it, a group of answers with the rewards `alike`. Shao et al. 2024, section 4.1.
    """
    if not 2 <= len(answers) <= 5 or not len(answers) == len(rewards) == len(alike):
        raise ValueError(
            f"2 to 5 answers with two rewards each fit; got {len(answers)} answers, {len(rewards)} "
            f"and {len(alike)} rewards"
        )
    both = [torch.tensor([list(group)], dtype=torch.float) for group in (rewards, alike)]
    gains = [advantages(group)[0].tolist() for group in both]
    told = "; ".join(
        f"{text}: reward {printed(r)}, advantage {printed(a)}"
        for text, r, a in zip(answers, rewards, gains[0], strict=True)
    )
    desc = (
        f"The model answers {question} {len(answers)} times. A program gives each answer a reward, "
        f"and the advantage is what it is above the mean of the group, in standard deviations: "
        f"{told}. Answers above the mean become likelier, the others less likely. Beside it, a "
        f"group with the rewards {', '.join(printed(r) for r in alike)}: its advantages are "
        f"{', '.join(printed(a) for a in gains[1])}, and nothing is learned from it."
    )
    step = 34
    wide, tall = Pen(720, 74 + step * len(answers)), Pen(360, 158 + 2 * step * len(answers))
    for pen, second in ((wide, (385, 0)), (tall, (0, 84 + step * len(answers)))):
        group(pen, (0, 0), (question, answers), (rewards, gains[0]), "first")
        group(pen, second, ("an easy one", None), (alike, gains[1]), "second")
    return Drawing(wide, tall, "Answers of one group, compared with each other", desc)


def group(
    pen: Pen, corner: Point, texts: tuple[str, Sequence[str] | None],
    numbers: tuple[Sequence[float | int], Sequence[float | int]], name: str,
) -> None:  # fmt: skip
    """A question, its answers, their rewards and advantages; arrows say what is learned."""
    (x, y), (question, answers), (rewards, gains) = corner, texts, numbers
    pen.text(x, y + 20, question, "h l")
    at = {"answer": x + 52, "reward": x + 138, "advantage": x + 216}
    for words, place in at.items():
        pen.text(place, y + 48, words, "s")
    for n, gain in enumerate(gains):
        top = y + 58 + 34 * n
        pen.box(at["answer"] - 34, top, (68, 26), "box", 4)
        pen.text(at["answer"], top + 18, answers[n] if answers else "✓", "s")
        middle = top + 13
        if abs(gain) > 1e-6:
            role, way = ("value", -1) if gain > 0 else ("gradient", 1)
            pen.line([(x + 262, middle - 10 * way), (x + 262, middle + 10 * way)], f"{role} k")
        words = "likelier" if gain > 1e-6 else "less likely" if gain < -1e-6 else "as it was"
        pen.text(x + 276, middle + 5, words, "s l")
    columns = (("rewards", "reward", rewards, "state"), ("gains", "advantage", gains, "output"))
    for kind, column, numbers_of, role in columns:
        corner = (at[column] - 26, y + 54)
        table = [[one] for one in numbers_of]
        pen.cells(f"{name} {kind}", corner, table, role, (52, 34), scale=(0, 2))
