"""Encoder, decoder, both: the same block with another mask and another question to train on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnbook.masks import causal_mask
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.parts import looks, mask_icon
from bookkit.drawings.pen import Length, Pen


@dataclass(frozen=True)
class Family:
    """What tells one family from another."""

    name: str
    known: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]  # above the tokens; empty where nothing is asked
    mask: Tensor
    sees: str
    trained: str


def both(source: int, target: int) -> Tensor:
    """Rows of the source see the source; those of the target see it and their own past."""
    mask = torch.ones(source + target, source + target, dtype=torch.bool)
    mask[:source, source:] = False
    mask[source:, source:] = causal_mask(target)
    return mask


FAMILIES = (
    Family(
        "encoder",
        "BERT",
        ("my", "▢", "car", "is", "new"),
        ("", "red", "", "", ""),
        torch.ones(5, 5, dtype=torch.bool),
        "sees everything",
        "trained to fill gaps",
    ),
    Family(
        "decoder",
        "GPT, Llama",
        ("my", "red", "car", "is"),
        ("red", "car", "is", "new"),
        causal_mask(4),
        "sees the past",
        "trained to continue",
    ),
    Family(
        "both",
        "transformer of 2017, T5",
        ("my", "red", "car", "<s>", "ma", "voiture"),
        ("", "", "", "ma", "voiture", "rouge"),
        both(3, 3),
        "sees source and past",
        "trained on the target",
    ),
)


def families() -> Drawing:
    """Three columns: who may look at whom, what is read, what has to come out.

    Pointed at, a token lights those that it sees. Devlin et al. 2019; Radford et al. 2018;
    Vaswani et al. 2017; Raffel et al. 2020.
    """
    desc = (
        "Three columns with the same block in the middle, drawn as lines from the tokens that are "
        "read to the positions that may look at them, and a mask as a small table. Encoder: every "
        "position sees every other; it reads my, a gap, car, is, new, and has to put red into the "
        "gap. Decoder: every position sees itself and its past; it reads my red car is and has to "
        "say the next word at each place. Both: the source sees all of the source, the target sees "
        "the source and its own past; it reads my red car and writes ma voiture rouge."
    )
    wide, tall = Pen(720, 332), Pen(360, 3 * 266)
    for place, family in enumerate(FAMILIES):
        column(wide, 243 * place, 0, family, place)
        row(tall, 266 * place, family, place)
    return Drawing(wide, tall, "Three families of transformers", desc)


def column(pen: Pen, x: Length, y: Length, family: Family, place: int) -> None:
    """A family from its name down to what it is trained to do."""
    pen.text(x + 117, y + 16, family.name, "h")
    pen.text(x + 117, y + 34, family.known, "s muted f")
    block(pen, x, y + 48, family, place)
    cell = 10
    size = cell * len(family.mask)
    mask_icon(pen, x + 36 - size / 2, y + 296 - size / 2, family.mask, cell)
    pen.text(x + 78, y + 292, family.sees, "weight f s l")
    pen.text(x + 78, y + 310, family.trained, "output f s l")


def row(pen: Pen, y: Length, family: Family, place: int) -> None:
    """The same on a phone: name and mask beside the block."""
    pen.text(0, y + 16, family.name, "h l")
    pen.text(360, y + 16, family.known, "s muted f e")
    block(pen, 0, y + 26, family, place)
    size = 12 * len(family.mask)
    mask_icon(pen, 306 - size / 2, y + 130 - size / 2, family.mask, 12)
    pen.text(0, y + 244, f"{family.sees}; {family.trained}", "s l")


def middles(words: tuple[str, ...], others: tuple[str, ...], width: Length) -> list[Length]:
    """Where to centre words so that the gaps between them are alike; `others` stand above."""
    wide = [7 * max(len(a), len(b), 3) for a, b in zip(words, others, strict=True)]
    gap = (width - sum(wide)) / len(wide)
    ends = [sum(wide[: n + 1]) + gap * (n + 0.5) for n in range(len(wide))]
    return [end - size / 2 for end, size in zip(ends, wide, strict=True)]


def block(pen: Pen, x: Length, y: Length, family: Family, place: int) -> None:
    """What is read below, the lines of attention, what has to come out above."""
    xs = [x + at for at in middles(family.reads, family.writes, 234)]
    pen.box(x, y + 44, (234, 104), "weight t", 10)
    for i, (at, word) in enumerate(zip(xs, family.writes, strict=True)):
        seen = " ".join(f"s{place}{j}" for j in range(len(xs)) if family.mask[i, j])
        words = ", ".join(w for w, see in zip(family.reads, family.mask[i], strict=True) if see)
        says = f"{family.name}: {family.reads[i]} sees {words}"
        with pen.group(part=f"t{place}{i}", on=f"t{place}{i} {seen}", says=says):
            pen.box(at - 12, y + 48, (24, 46), "clear", 4)
            looks(pen, [(other, y + 134) for other in xs], [(at, y + 60)], family.mask[i : i + 1])
            if word:
                pen.line([(at, y + 56), (at, y + 26)], "output k")
                pen.text(at, y + 18, word, "output f s b")
    for j, (at, word) in enumerate(zip(xs, family.reads, strict=True)):
        with pen.group(part=f"s{place}{j}"):
            pen.dot(at, y + 134, "weight f", 4)
            pen.line([(at, y + 172), (at, y + 150)])
            pen.text(at, y + 190, word, "s")
