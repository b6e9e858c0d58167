"""The transformer of 2017, whole: two stacks on streams of tokens, and what is inside each part."""

from statistics import fmean

import torch
from torch import nn

from attnbook.masks import causal_mask
from attnbook.models.vaswani import vaswani_2017
from attnbook.transformer import EncoderDecoder
from bookkit.drawings.drawing import Drawing
from bookkit.drawings.inside import attention_inside, network_inside, norm_inside
from bookkit.drawings.parts import bars, mask_icon, waves
from bookkit.drawings.pen import Length, Pen, Point
from bookkit.drawings.tower import ABOUT, Tower, attention, frame, network, streams
from bookkit.results.stored_run import stored_run

SOURCE = ["my", "red", "car"]
TARGET = ["<s>", "ma", "voiture", "rouge"]
WRITTEN = ["ma", "voiture", "rouge", "</s>"]
TELEPHONE = (
    "Two stacks, each six times the same block, on thick streams that run upwards, one for each "
    "token. Left, the encoder reads my red car: self-attention joins every stream with every "
    "other, then a feed-forward network works on each stream alone. Right, the decoder reads "
    "<s> ma voiture rouge: causal self-attention joins each stream with those to its left, "
    "cross-attention joins each with the three vectors of the encoder's memory, then the "
    "network. Around each part a copy leaves the stream and is added to it again; a norm stands "
    "on the stream after each sum. One table of 37,000 words is used three times: for both "
    "inputs and, transposed, for the scores of the next word: ma voiture rouge </s>."
)
ALL = torch.ones(4, 4, dtype=torch.bool)
# What a press adds: the parts of the drawing, then its name and what is said of it.
STAGES = {
    "embed where": (
        "embed",
        "A row of the table",
        "for each word, × √512,",
        "and a wave that says",
        "where the word stands.",
    ),
    "e-self d-self d-cross memory in-attention": (
        "attend",
        "Each word asks others:",
        "all, those before it,",
        "or the other sentence.",
        "8 heads in each look.",
    ),
    "norm in-norm": (
        "add",
        "What was found joins",
        "the stream; then the",
        "sum is normed.",
    ),
    "e-network d-network in-network": (
        "think",
        "One network, the same",
        "at every place: 512 →",
        "2,048 → 512. Six such",
        "blocks, then it is told.",
    ),
    "scores": (
        "write",
        "The table once more:",
        "37,000 scores, softmax.",
        "63.1 M",
        "parameters in all.",
    ),
}


def encoder(tower: Tower) -> None:
    tower.part("e-self", 12, 80)
    tower.part("e-network", 150, 48)
    streams(tower, tower.first - 274, tower.first + 46)
    attention(tower, 0, "e-self", ALL[:3, :3])
    network(tower, 138, "e-network")


def decoder(tower: Tower, memory: list[Length]) -> None:
    tower.part("d-self", 12, 80)
    tower.part("d-cross", 150, 80)
    tower.part("d-network", 288, 48)
    streams(tower, tower.first - 402, tower.first + 46)
    attention(tower, 0, "d-self", causal_mask(4))
    attention(tower, 138, "d-cross", ALL[:, :3], memory)
    network(tower, 276, "d-network")


def count(part: nn.Module) -> int:
    """Parameters, shared ones once."""
    return sum(p.numel() for p in {id(p): p for p in part.parameters()}.values())


def base() -> EncoderDecoder:
    """The base model of the paper, without memory for its numbers."""
    with torch.device("meta"):
        return vaswani_2017(source_V=37_000)


def notes(pen: Pen, x: Length, y: Length) -> None:
    """What a part does, its shape and its parameters, when it is asked; the sum of all before."""
    model = base()
    paths = {
        "e-self": "encoder.blocks.0.attention.sublayer",
        "norm": "encoder.blocks.0.attention.norm",
    }
    paths |= {"e-network": "encoder.blocks.0.feedforward.sublayer", "embed": "source_embed"}
    paths |= {"d-self": "decoder.blocks.0.attention.sublayer"}
    paths |= {"d-cross": "decoder.blocks.0.cross_attention.sublayer"}
    paths |= {"d-network": "decoder.blocks.0.feedforward.sublayer"}
    for name, (title, equation, shape, more) in ABOUT.items():
        with pen.group("note", part=f"n-{name}"):
            pen.text(x, y + 21, title, "s b l")
            pen.text(x, y + 44, equation, "s l")
            pen.text(x, y + 65, shape, "c l")
            pen.text(x, y + 84, more, "c l" if "(" in more else "s l")
            if name in paths:
                size = count(model.get_submodule(paths[name]))
                pen.text(x, y + 106, f"{size:,} parameters", "s l")
    total = count(model) / 1e6
    for n, (title, *lines) in enumerate(STAGES.values(), start=1):
        with pen.group("note", part=f"s-{n}"):
            pen.text(x, y + 21, title, "s b l")
            for line, words in enumerate(lines):
                pen.text(x, y + 42 + 18 * line, words.replace("63.1", f"{total:.1f}"), "s l")


def without() -> dict[str, tuple[str, str]]:
    """What is left when a part is taken away; numbers are those of the chapter's own runs."""
    steps = stored_run("block_parts")["depths"]["12"]["norm, small start"]["steps"]
    runs = stored_run("blocks")["adding"]  # losses at three moments, seed by seed
    whole, less = (fmean(run[0] for run in runs[x]) for x in ("network", "two more attentions"))
    return {
        "feed-forward": ("adding two digits:", f"loss {less:.2f}, not {whole:.2f}"),
        "residual sum": (
            f"{len(steps) - steps.count(None)} of {len(steps)} deep stacks",
            "learn to reverse",
        ),
        "cross-attention": ("the source sentence", "is not read"),
        "self-attention": ("no word reads", "another"),
        "positions": ("the order of words", "is lost"),
    }


# How far above the first block what breaks is said.
ABOVE = (320, 256, 190, 62, -22)


def missing(pen: Pen, x: Length, y: Length, name: str) -> None:
    """What breaks without a part."""
    for line, words in enumerate((f"No {name}", *without()[name])):
        pen.text(x, y + 17 * line, words, "s l" if line else "s b l")


def transformer_2017() -> Drawing:
    """The encoder–decoder of Vaswani et al. 2017, figure 1, built up in five presses.

    Each token has a stream from the embedding to the end; coloured parts mix positions, grey ones
    work on each alone. Parts answer with equation, shape, parameters and what is inside.
    """
    stages = tuple(
        (name, f"{parts} s-{n}") for n, (parts, (name, *_)) in enumerate(STAGES.items(), 1)
    )
    title = "The transformer of 2017: encoder and decoder"
    lost = "; ".join(f"without {name}, {' '.join(words)}" for name, words in without().items())
    return Drawing(wide(), tall(), title, f"{TELEPHONE} What breaks: {lost}.", stages)


def wide() -> Pen:
    pen = Pen(720, 652)
    e = Tower(pen, "e", [104, 156, 208], 20, 72, 238, 35, False, 534)
    d = Tower(pen, "d", [294, 346, 398, 450], 20, 262, 480, 520, False, 534)
    model(pen, e, d)
    with pen.group(part="scores"):
        pen.text(d.margin, 88, "softmax", "s")
    panels(pen, {"attention": (0, 0), "network": (560, 154), "norm": (560, 334)})
    notes(pen, 566, 0)
    pen.text(566, 20, "Press the steps, or", "muted f s l hint")
    pen.text(566, 38, "point at a part.", "muted f s l hint")
    with pen.group("rest"):
        legend(pen, 116, 8)
        for name, above in zip(without(), ABOVE, strict=True):
            missing(pen, 566, d.first - above, name)
    return pen


def tall() -> Pen:
    pen = Pen(360, 660)
    e = Tower(pen, "e", [46, 80, 114], 15, 20, 134, 12.5, True, 522)
    d = Tower(pen, "d", [187, 232, 277, 322], 15, 160, 340, 353, True, 522)
    model(pen, e, d)
    notes(pen, 0, -8)
    with pen.group("rest"):
        missing(pen, 0, 12, "residual sum")
        missing(pen, 0, 72, "positions")
    legend(pen, 0, 150)
    for tower, words in ((e, "encoder × 6"), (d, "decoder × 6")):
        pen.text((tower.left + tower.right) / 2, tower.first + 130, words, "b")
    return pen


INSIDE = {"attention": attention_inside, "network": network_inside, "norm": norm_inside}


def panels(pen: Pen, places: dict[str, Point]) -> None:
    """What is inside the parts, shown when a part is asked."""
    for name, place in places.items():
        with pen.group("note", part=f"in-{name}"):
            INSIDE[name](pen, *place)


def legend(pen: Pen, x: Length, y: Length) -> None:
    """What colour means."""
    for line, (role, words) in enumerate(
        (("weight", "mixes positions"), ("muted", "each one alone"))
    ):
        pen.box(x, y + 24 * line, (16, 16), f"{role} t", 4)
        pen.text(x + 24, y + 24 * line + 12.5, words, "s l")
    pen.mark("path", "state k thick", d=f"M{x:g} {y + 56:g}h16")
    pen.text(x + 24, y + 60.5, "residual stream", "s l")


def model(pen: Pen, e: Tower, d: Tower) -> None:
    """Both towers, what stands between them, below and above."""
    frame(e, 256)
    frame(d, 394)
    encoder(e)
    asides = [(a + b) / 2 - e.aside / 2 for a, b in zip(d.streams, d.streams[1:], strict=False)]
    decoder(d, asides)
    ends(pen, e, d)
    memory(pen, e, d, asides)
    margins(e, d)


def ends(pen: Pen, e: Tower, d: Tower) -> None:
    """Below: words, the table and the positions; above: the table again, and the next words."""
    first, middle = e.first, (e.left + d.right) / 2
    if e.turned:  # one wave between both towers
        where(e, e.right + 4, e.right)
        where(d, d.left - 22, d.left, False)
    else:
        where(e, 6, e.left)
        where(d, d.right + 8, d.right)
    with pen.group(part="embed", on="embed scores n-embed", says="embedding"):
        pen.box(e.left, first + 46, (d.right - e.left, 30), "box", 6)
        pen.text(middle, first + 66, "one table of 37,000 × 512, times √512", "s")
    for tower, words in ((e, SOURCE), (d, TARGET)):
        with pen.group(part="embed"):
            for x, word in zip(tower.streams, words, strict=True):
                pen.line([(x, first + 92), (x, first + 78)])
                pen.text(x, first + 108, word, "s")
    top = first - 428
    with pen.group(part="scores", on="scores embed n-scores", says="output"):
        pen.box(d.left, top, (d.right - d.left, 26), "box", 6)
        pen.text((d.left + d.right) / 2, top + 17.5, "the table again: scores", "s")
    with pen.group(part="scores"):
        for x, word in zip(d.streams, WRITTEN, strict=True):
            bars(pen, x - 17, top - 8, [5, 22, 8, 4])
            pen.text(x, top - 40, word, "output f s")


def where(tower: Tower, x: Length, edge: Length, wave: bool = True) -> None:
    """Sines are added to the vector of each word."""
    pen, y, side = tower.pen, tower.first + 26, 1 if x > tower.left else -1
    end = tower.streams[0 if side > 0 else -1]
    with pen.group(part="where", on="where n-where", says="positions"):
        if wave:
            waves(pen, x, y + 3, 18 if tower.turned else 44)
        pen.line([(edge + (4 if side > 0 else -8), y), (end, y)], "position k", "")
        for stream in tower.streams:
            pen.plus(stream, y, 7.5)


def memory(pen: Pen, e: Tower, d: Tower, places: list[Length]) -> None:
    """The encoder's output: keys and values for every block of the decoder."""
    top, level, gap = e.first - 274, d.first - 164, (e.right + d.left) / 2
    with pen.group(part="memory", on="memory d-cross n-memory", says="memory"):
        for role, shift in (("key", -3), ("value", 3)):
            bend = [(gap - shift, top + shift), (gap - shift, level + shift)]
            way = [(e.streams[0] - 4, top + shift), *bend, (places[-1], level + shift)]
            pen.line(way, f"{role} k", "")
        pen.text(e.streams[0] - 4, top - 10, "memory (3, 512)", "s l")


def margins(e: Tower, d: Tower) -> None:
    """The names of the parts, and who may look at whom."""
    for tower, above, name, mask in (
        (e, 52, "self-", ALL[:3, :3]),
        (d, 52, "causal self-", causal_mask(4)),
        (d, 190, "cross-", ALL[:, :3]),
    ):
        with tower.pen.group(part=f"{tower.name}-{'cross' if name == 'cross-' else 'self'}"):
            lines = [name] if tower.turned else name.split()
            tower.label(above + (0 if tower.turned else 14), *lines, "attention", look="weight f s")
            if not tower.turned:
                at = tower.margin - 4 * mask.shape[1], tower.first - above + 12
                mask_icon(tower.pen, *at, mask)
    for tower, above, blocks in ((e, 174, 247), (d, 312, 385)):
        with tower.pen.group(part=f"{tower.name}-network"):
            tower.label(above, "feed-", "forward")
        if not tower.turned:
            tower.label(blocks, {"e": "encoder", "d": "decoder"}[tower.name], "× 6", look="s b")
            for up in [118, 222] if tower is e else [118, 256, 360]:
                with tower.pen.group(part="norm"):
                    tower.label(up, "add, norm", look="muted f s")
