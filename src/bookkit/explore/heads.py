"""Explorable: the heads of a trained model, switched on and off one by one."""

import base64
import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

import torch
from torch import Tensor, nn

from attnbook.attention import Attention, MultiHeadAttention
from attnbook.data.seats import DRINKS, SEATS, C, columns, tables
from attnbook.inside.watch import watch, without_heads
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still
from bookkit.results.stored_run import stored_run

HEADS, WIDTH = 4, 32
SUBSETS = list(product((False, True), repeat=HEADS))  # in the order of binary numbers
LEVELS = 5  # of a map's shades


@cache
def trained(seed: int) -> nn.Sequential:
    """The stored model with four heads on the table with two questions, in 64 bits."""
    stored = stored_run("four_heads")["weights"]
    if str(seed) not in stored:
        raise ValueError(f"models are stored of the seeds {', '.join(stored)}; got {seed}")
    numbers = torch.frombuffer(bytearray(base64.b64decode(stored[str(seed)])), dtype=torch.half)
    layers = nn.Linear(C, WIDTH), MultiHeadAttention(WIDTH, HEADS), nn.Linear(WIDTH, 2 * DRINKS)
    model = nn.Sequential(*layers).double()
    nn.utils.vector_to_parameters(numbers.double(), model.parameters())
    return model.requires_grad_(False)


def answers(seed: int, on: Sequence[bool], x: Tensor) -> Tensor:
    """Logits of both answers (B, T, 2, 10), with some heads only."""
    model = trained(seed)
    attention = model[1]
    assert isinstance(attention, Attention)
    with without_heads(attention, [head for head in range(HEADS) if not on[head]]):
        return model(x.double()).unflatten(-1, (2, DRINKS))


@cache
def correct(seed: int, on: tuple[bool, ...]) -> list[int]:
    """Right answers to left, friend and both, of 3,600 people at 300 tables."""
    x, truth = tables(torch.Generator().manual_seed(99), 300)
    right = answers(seed, on, x).argmax(-1) == truth
    return [*right.sum((0, 1)).tolist(), int(right.all(-1).sum())]


class HeadSwitchboard(Explorable):
    """Four heads of a stored model at one table; a press on a map switches its head on or off.

    What a head writes is added to what the others write, so an answer with some of the heads is a
    sum of some terms. Shares are those of 300 other tables; `seat` is the person who is followed.
    """

    tag = "heads"
    near = 2e-3  # what the heads write is stored in sixteen bits
    question = "Which two heads are enough?"

    def __init__(
        self,
        on: Sequence[bool] = (True, False, False, True),
        seed: int = 0,
        seat: int = 1,
        seeds: Sequence[int] = (0, 1, 2),
    ):
        if len(on) != HEADS or seed not in seeds or not 0 <= seat < SEATS:
            raise ValueError(
                f"{HEADS} switches, a seed of {list(seeds)}, a seat from 0 to {SEATS - 1} fit; "
                f"got {len(on)}, {seed}, {seat}"
            )
        self.begin = {"on": list(on), "seed": seed, "seat": seat}
        self.seeds = list(seeds)
        self.x, self.truth = tables(torch.Generator().manual_seed(3), 1)

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        _, names, friends, _ = (column[0].tolist() for column in columns(self.x))
        sits = [names.index(friend) for friend in friends]
        return {
            "truth": self.truth[0].tolist(),
            "sits": sits,
            "models": list(map(self.model, self.seeds)),
        }

    def model(self, seed: int) -> dict:
        """Maps, what each head writes, and the right answers of all sixteen subsets."""
        model, x = trained(seed), self.x.double()
        with watch(model) as seen:
            model(x)
        empty = answers(seed, [False] * HEADS, x)
        alone = torch.eye(HEADS, dtype=torch.bool).tolist()
        parts = torch.cat([empty, *(answers(seed, on, x) - empty for on in alone)])
        step = parts.abs().max().item() / 32767
        counts = [correct(seed, on) for on in SUBSETS]
        return {
            "maps": "".join(map(str, levels(seen["1"][0]).flatten().tolist())),
            "parts": packed(parts / step),
            "step": float(f"{step:.9g}"),
            "right": counts,
        }

    def result(self, state: dict) -> dict:
        """What all say, how sure the followed seat is, and the shares of right answers."""
        logits = answers(state["seed"], state["on"], self.x)[0]
        counts = correct(state["seed"], tuple(state["on"]))
        return {
            "said": logits.argmax(-1).tolist(),
            "chances": logits[state["seat"]].softmax(-1).tolist(),
            **{name: count / 3600 for name, count in zip(NAMES, counts, strict=True)},
        }

    def cases(self) -> Iterator[dict]:
        for n, on in enumerate(SUBSETS):
            yield {"on": list(on), "seed": self.seeds[n % len(self.seeds)], "seat": n % SEATS}
        for seed in self.seeds:
            yield {"on": [True, False, True, False], "seed": seed}

    def picture(self) -> str:
        """Four maps, those that are off as frames, and the three shares as bars."""
        state, now = self.start(), self.result(self.start())
        with watch(trained(state["seed"])) as seen:
            trained(state["seed"])(self.x.double())
        picture = Still(520, 232, self.sentence())
        for head, weights in enumerate(seen["1"][0]):
            x, on = 10 + 130 * head, state["on"][head]
            picture.text(
                x + 54, 18, f"head {head} {'on' if on else 'off'}", "ink" if on else "muted"
            )
            edge = [(x, 28), (x + 108, 28), (x + 108, 136), (x, 136), (x, 28)]
            picture.line(edge, "line")
            shades(picture, weights, x, 28, 1.0 if on else 0.35)
        for n, name in enumerate(NAMES):
            y = 158 + 26 * n
            picture.text(10, y + 13, name, anchor="start")
            picture.bar(70, y, 300 * now[name], 16, "output")
            picture.text(380, y + 13, percent(now[name]), anchor="start")
        return picture.svg()

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        left, friend, both = (percent(now[name]) for name in NAMES)
        seat = state["seat"]
        said, truth = now["said"][seat], self.truth[0, seat].tolist()
        return (
            f"{switched(state['on'])} Right answers: left {left}, friend {friend}, both {both}. "
            f"Seat {seat} says {said[0]} and {said[1]}; right is {truth[0]} and {truth[1]}."
        )


NAMES = ("left", "friend", "both")


def packed(numbers: Tensor) -> str:
    """Whole numbers of sixteen bits, the low ones first, in base64."""
    return base64.b64encode(numbers.round().to(torch.int16).numpy().tobytes()).decode()


def levels(weights: Tensor) -> Tensor:
    """The shade of each weight: 0 is none, 5 is the darkest."""
    return (weights * LEVELS).round().int()


def percent(share: float) -> str:
    return f"{math.floor(100 * share + 0.5)} %"


def switched(on: Sequence[bool]) -> str:
    """ "Heads 0 and 3 are on."."""
    heads = [str(head) for head, is_on in enumerate(on) if is_on]
    if not heads:
        return "No head is on, so everybody says the same."
    if len(heads) == 1:
        return f"Only head {heads[0]} is on."
    return f"Heads {', '.join(heads[:-1])} and {heads[-1]} are on."


def shades(picture: Still, weights: Tensor, x: int, y: int, strength: float) -> None:
    """A map of 12 × 12 squares of 9 pixels, in a few shades, each as one shape."""
    shade = levels(weights)
    for level in range(1, LEVELS + 1):
        cells = (shade == level).nonzero().tolist()
        shape = "".join(f"M{x + 9 * j} {y + 9 * i}h9v9h-9z" for i, j in cells)
        opacity = strength * level / LEVELS
        picture.add(f'<path d="{shape}" style="fill:var(--d-weight);opacity:{opacity:.2f}"/>')
