"""Explorable: from probabilities to a drawn word, by temperature, top-k and top-p in any order."""

import random
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import permutations

import torch
from torch import Tensor

from attnbook.generate.sampling import temperature, top_k, top_p
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number

WORDS = ("mat", "floor", "chair", "roof", "moon", "theorem")
WEIGHTS = (400, 250, 150, 100, 70, 30)
NAMES = {"temperature": "temperature", "top_k": "top-k", "top_p": "top-p"}


class Sampling(Explorable):
    """Six words with given weights; filters that the reader orders; draws that are counted.

    `order` names the filters that work, from left to right: "temperature", "top_k", "top_p"; `tau`,
    `k` and `p` are their numbers. Bars show what is left, dashed outlines what was given.
    """

    tag = "sampling"
    question = "Why does the order matter?"

    def __init__(
        self,
        words: Sequence[str] = WORDS,
        weights: Sequence[int] = WEIGHTS,
        order: Sequence[str] = ("temperature", "top_p"),
        tau: float = 2.0,
        k: int = 3,
        p: float = 0.7,
    ):
        self.words, self.weights, self.order = list(words), list(map(int, weights)), list(order)
        if not len(self.words) == len(self.weights) == 6:
            raise ValueError(
                f"6 words with a weight each; got {len(self.words)} and {len(self.weights)}"
            )
        if not 1 <= min(self.weights) <= max(self.weights) <= 999:
            raise ValueError(f"weights are 1 to 999; got {self.weights}")
        if len(set(order)) < len(self.order) or not set(order) <= set(NAMES):
            raise ValueError(f"order has each of {', '.join(NAMES)} once at most; got {order}")
        if not 0.1 <= tau <= 5 or not 1 <= k <= 6 or not 0.05 <= p <= 1:
            raise ValueError(f"tau is 0.1 to 5, k 1 to 6, p 0.05 to 1; got {tau}, {k}, {p}")
        self.tau, self.k, self.p = tau, k, p

    def start(self) -> dict:
        numbers = {"tau": self.tau, "k": self.k, "p": self.p, "drawn": 0, "seed": 1}
        return {"weights": self.weights, "order": self.order, **numbers}

    def fixed(self) -> dict:
        return {"words": self.words}

    def result(self, state: dict) -> dict:
        """The probabilities that `temperature`, `top_k` and `top_p` leave; draws from them."""
        made = {
            "temperature": temperature(float(state["tau"])),
            "top_k": top_k(state["k"]),
            "top_p": top_p(float(state["p"])),
        }
        filters = [made[name] for name in state["order"]]
        given = torch.tensor(state["weights"], dtype=torch.float64)
        given = given / given.sum()
        left, turned = (
            reduce(lambda x, keep: keep(x), chain, given.log()[None]).softmax(-1)[0]
            for chain in (filters, filters[::-1])
        )
        counts = {"kept": int((left > 0).sum()), "swapped": int((turned > 0).sum())}
        tally = drawn(left, state["drawn"], state["seed"])
        return {"given": given.tolist(), "probabilities": left.tolist(), **counts, "tally": tally}

    def cases(self) -> Iterator[dict]:
        yield {"order": ["top_p", "temperature"], "drawn": 100}
        pick = random.Random(0)
        orders = [list(some) for n in range(4) for some in permutations(NAMES, n)]
        for order in orders * 6:
            yield {
                "order": order,
                "weights": [pick.randint(1, 999) for _ in range(6)],
                "tau": round(pick.uniform(0.1, 5), 2),
                "k": pick.randint(1, 6),
                "p": pick.choice((1, round(pick.uniform(0.05, 1), 4))),
                "drawn": pick.choice((0, 1, 100)),
                "seed": pick.randrange(100),
            }
        yield {"order": ["top_k"], "weights": [300, 300, 300, 50, 50, 50], "k": 2}

    def picture(self) -> str:
        """Bars of what is left, outlines of what was given."""
        now = self.result(self.start())
        rows = list(zip(self.words, now["given"], now["probabilities"], strict=True))
        label = "; ".join(f"{word} {old:.2f} → {new:.2f}" for word, old, new in rows)
        picture = Still(400, 32 * len(rows), label)
        most = max(now["given"] + now["probabilities"])
        for y, (word, old, new) in enumerate(rows):
            top, right = 32 * y + 3, 90 + 240 * old / most
            picture.text(80, 32 * y + 21, word, anchor="end")
            if new:
                picture.cell(90, top, 240 * new / most, 26, "output", 1)
            edges = [(90, top), (right, top), (right, top + 26), (90, top + 26), (90, top)]
            picture.line(edges, "muted", 1.5, "4 3")
            picture.text(395, 32 * y + 21, number(new) if new else "cut", anchor="end")
        return picture.svg()

    def sentence(self) -> str:
        now = self.result(self.start())
        numbers = {"temperature": self.tau, "top_k": self.k, "top_p": self.p}
        chain = ", then ".join(f"{NAMES[name]} {numbers[name]:g}" for name in self.order)
        if not chain:
            return f"Nothing is cut: all {len(self.words)} words can be drawn."
        stay, turned = (
            f"{n} word{'s stay' if n > 1 else ' stays'}" for n in (now["kept"], now["swapped"])
        )
        turned = f"; the other way round {turned}" if len(self.order) > 1 else ""
        return f"{chain[0].upper()}{chain[1:]}: {stay}{turned}."


def drawn(shares: Tensor, count: int, seed: int) -> list[int]:
    """How often each word is drawn, by Mulberry32: the generator that the browser uses."""
    edges, tally, state = shares.tolist(), [0] * len(shares), seed
    last = max(i for i, share in enumerate(edges) if share > 0)
    for _ in range(count):
        state = (state + 0x6D2B79F5) & 0xFFFFFFFF
        t = (state ^ (state >> 15)) * (1 | state) & 0xFFFFFFFF
        t = (t + ((t ^ (t >> 7)) * (61 | t) & 0xFFFFFFFF) & 0xFFFFFFFF) ^ t
        rest, found = (t ^ (t >> 14)) / 2**32, last
        for i, share in enumerate(edges):
            rest -= share
            if rest < 0:
                found = i
                break
        tally[found] += 1
    return tally
