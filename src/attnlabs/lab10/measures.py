"""What lab 10 asks each student to measure, measured here, and what typical slips would give.

Each function returns the right numbers of all cases of a question under "", and under the name of a
slip the numbers of who makes it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from attnlabs.lab10.plain import HEADS, LAYERS, Inside, inside
from attnlabs.lab10.texts import CLASSES, KINDS, Texts, texts

Numbers: TypeAlias = list[list[float]]  # of each case
Head: TypeAlias = tuple[int, int]
RIGHT = ""
RIDGE = 1.0
NOTES: list[Head] = [(1, 0), (1, 2), (1, 3), (2, 0), (2, 2)]
OTHERS: list[Head] = [(0, 0), (0, 1), (1, 1), (2, 1), (2, 3)]
GROUPS: list[list[Head]] = [[(3, 3)], [(2, 0)], NOTES, OTHERS]


def best(table: Tensor) -> list[float]:
    """Layer, head and value of the highest entry of a table (layers, H)."""
    layer, head = divmod(int(table.argmax()), table.shape[1])
    return [float(layer), float(head), table.max().item()]


def suspects(t: Texts) -> dict[str, Numbers]:
    """The head with the highest score for "before", and for "follows"."""

    def scored(tokens: Tensor, shift: int, first: int) -> list[float]:
        """The best mean of α[t, t − shift] over the positions t from `first` on."""
        maps = torch.stack(inside(tokens).weights).mean(1)
        places = torch.arange(first, tokens.shape[1])
        return best(maps[..., places, places - shift].mean(-1))

    right = [scored(t.rows, 1, t.L), scored(t.rows, t.L - 1, t.L)]
    return {
        RIGHT: right,
        "exchanged": right[::-1],
        "pair-exchanged": [[head, layer, score] for layer, head, score in right],
        "counted-from-1": [[layer + 1, head + 1, score] for layer, head, score in right],
        "all-queries": [scored(t.rows, 1, 1), right[1]],
        "unrepeated": [scored(t.other, 1, t.L), scored(t.other, t.L - 1, t.L)],
        "itself": [scored(t.rows, 0, t.L), scored(t.rows, t.L, t.L)],
        "one-on": [scored(t.rows, 2, t.L), scored(t.rows, t.L - 2, t.L)],
    }


def losing(heads: Sequence[Head], outputs: Tensor, tokens: Tensor) -> Tensor:
    """Nats of each token but the first, when these heads give these outputs (layers, H, D)."""

    def change(what: str, layer: int, x: Tensor) -> Tensor:
        if what == "heads":
            x = x.clone()
            for number in (head for where, head in heads if where == layer):
                x[:, number] = outputs[layer, number]
        return x

    logits = inside(tokens, change).logits[:, :-1]
    return F.cross_entropy(logits.mT, tokens[:, 1:], reduction="none")


def prices(t: Texts) -> dict[str, Numbers]:
    """By how much the second copy's loss rises, from its fourth token on, without some heads."""
    heads = [torch.stack(inside(rows).heads) for rows in (t.other, t.rows)]
    mean, own = (each.mean((1, 3)) for each in heads)
    second = slice(t.L + 2, None)  # the loss of token t stands at t − 1
    usual = losing([], mean, t.rows)

    def rises(outputs: Tensor) -> list[Tensor]:
        return [losing(heads, outputs, t.rows) for heads in GROUPS]

    def said(found: Sequence[Tensor], which: slice, minus: Tensor = usual) -> Numbers:
        return [[(each[:, which].mean() - minus[:, which].mean()).item()] for each in found]

    found = rises(mean)
    return {
        RIGHT: said(found, second),
        "zeros": said(rises(0 * mean), second),
        "own-mean": said(rises(own), second),
        "by-place": said(rises(heads[0].mean(1)), second),
        "one-by-one": said([one_by_one(group, mean, t.rows, usual) for group in GROUPS], second),
        "not-the-rise": said(found, second, 0 * usual),
        "fallen": [[-value] for (value,) in said(found, second)],
        "both-copies": said(found, slice(None)),
        "first-three": said(found, slice(t.L - 1, None)),
    }


def one_by_one(group: Sequence[Head], mean: Tensor, tokens: Tensor, usual: Tensor) -> Tensor:
    """The losses if what each head of a group costs by itself were added up."""
    return usual + torch.stack([losing([head], mean, tokens) - usual for head in group]).sum(0)


def carried(t: Texts) -> dict[str, Numbers]:
    """Shares of the lead that a piece of the clean run restores: for each layer, the stream after
    it at the place that differs and at the last position, and each of its heads."""
    runs = inside(t.clean), inside(t.corrupt)
    right, wrong = t.clean[0, t.place], t.corrupt[0, t.place]

    def lead(run: Inside) -> float:
        return (run.logits[0, -1, right] - run.logits[0, -1, wrong]).item()

    def all_of(source: Inside, tokens: Tensor, after: int = 1) -> Numbers:
        return [
            [lead(inside(tokens, each)) for each in patches(source, layer, t.place, after)]
            for layer in range(LAYERS)
        ]

    high, low = map(lead, runs)
    raw, noised = all_of(runs[0], t.corrupt), all_of(runs[1], t.clean)
    early = all_of(runs[0], t.corrupt, after=0)
    share = each_of(raw, lambda x: (x - low) / (high - low))
    return {
        RIGHT: share,
        "raw": raw,
        "from-zero": each_of(raw, lambda x: x / high),
        "rise-only": each_of(raw, lambda x: x - low),
        "noised": each_of(noised, lambda x: (high - x) / (high - low)),
        "noised-as-is": each_of(noised, lambda x: (x - low) / (high - low)),
        "before-layer": each_of(early, lambda x: (x - low) / (high - low)),
        "places-exchanged": [[row[1], row[0], *row[2:]] for row in share],
        "lost": each_of(share, lambda x: 1 - x),
    }


def patches(source: Inside, layer: int, place: int, after: int) -> list[Callable[..., Tensor]]:
    """The changes of one layer: the stream at two positions, then each head at all of them."""

    def stream(position: int) -> Callable[..., Tensor]:
        def change(what: str, where: int, x: Tensor) -> Tensor:
            if (what, where) == ("stream", layer + after):
                x = x.clone()
                x[:, position] = source.stream[where][:, position]
            return x

        return change

    def one_head(number: int) -> Callable[..., Tensor]:
        def change(what: str, where: int, x: Tensor) -> Tensor:
            if (what, where) == ("heads", layer):
                x = x.clone()
                x[:, number] = source.heads[where][:, number]
            return x

        return change

    return [stream(place), stream(-1), *map(one_head, range(HEADS))]


def each_of(rows: Numbers, change: Callable[[float], float]) -> Numbers:
    return [[change(value) for value in row] for row in rows]


def tasks(t: Texts) -> list[list[Tensor]]:
    """What a probe may be asked for, on the lines to learn from and on the others: the token before
    and its control, the label of that same token by lot; then both of this token."""
    number = torch.zeros(1024, dtype=torch.long)
    number[t.alphabet] = own = torch.arange(KINDS)
    lines, this, before = (number[t.train], number[t.test]), slice(1, None), slice(None, -1)
    asked = (own, before), (t.labels, before), (own, this), (t.labels, this)
    return [[of[line[:, part]].flatten() for line in lines] for of, part in asked]


def probed(t: Texts) -> dict[str, Numbers]:
    """Right answers of a probe for the token before, of its control, and their difference, on the
    embedding and after each layer."""
    runs, labels = (inside(t.train), inside(t.test)), tasks(t)
    learned, tested, named, turned, neither = [], [], [], [], []
    for n in range(LAYERS + 1):
        streams = [run.stream[n][:, 1:].flatten(0, 1).double() for run in runs]
        found = answered(streams, *labels)
        learned.append(beside(found[0][0], found[1][0]))
        tested.append(beside(found[0][1], found[1][1]))
        named.append(beside(found[2][1], found[1][1]))
        turned.append(beside(found[0][1], found[3][1]))
        neither.append(beside(found[2][1], found[3][1]))
    return {
        RIGHT: tested,
        "on-training": learned,
        "control-minus-task": [[task, control, -more] for task, control, more in tested],
        "this-token": named,
        "control-this": turned,
        "both-this": neither,
        "chance": [beside(task, 1 / CLASSES) for task, _, _ in tested],
        "order": [[control, task, more] for task, control, more in tested],
        "ratio": [[task, control, task / control] for task, control, _ in tested],
        "next-place": [*tested[1:], tested[-1]],
    }


def beside(task: float, control: float) -> list[float]:
    """What a probe and its control get right, and the difference: the probe's selectivity."""
    return [task, control, task - control]


def answered(streams: Sequence[Tensor], *tasks: Sequence[Tensor]) -> list[list[float]]:
    """For each task the share of right answers on what was learned and on the rest: a ridge
    regression on a column for each label, its constant free of the ridge."""
    centre = streams[0].mean(0)
    axes, sizes, columns = torch.linalg.svd(streams[0] - centre, full_matrices=False)
    shrunk = columns.T * (sizes / (sizes.square() + RIDGE))
    shares = []
    for known in tasks:
        table = F.one_hot(known[0]).double()
        slopes, level = shrunk @ (axes.T @ table), table.mean(0)
        guesses = [((x - centre) @ slopes + level).argmax(-1) for x in streams]
        pairs = zip(guesses, known, strict=True)
        shares.append([(guess == right).double().mean().item() for guess, right in pairs])
    return shares


QUESTIONS: Mapping[str, Callable[[Texts], dict[str, Numbers]]] = {
    "suspects": suspects,
    "prices": prices,
    "carried": carried,
    "probed": probed,
}


@cache
def measured(question: str, student: str) -> dict[str, Numbers]:
    """What a question's cases give on a student's texts, right and with each slip."""
    return QUESTIONS[question](texts(student))
