"""Explorable: rotary positions, one pair at a time, and the score against the distance."""

import random
from collections.abc import Iterator

import torch
from torch import Tensor

from attnbook.positions import Rotary, frequencies
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number

Q = (1.0, 0.8, 0.6, 0.4, 0.0, 0.2, 0.4, 0.2)
K = (0.9, 0.7, 0.5, 0.6, 0.3, -0.1, 0.3, 0.5)
FAR, TRAINED, D = 63, 32, 8
BASES = (1, 100, 10_000, 1_000_000)


class Rope(Explorable):
    """A query at place t and a key at place s, both turned by `Rotary(8, base)`.

    `q` and `k` (8,) are their contents; the reader drags a pair of coordinates of each, both
    places, and moves both on by `shift`. The curve is the score against the distance.
    """

    tag = "rope"
    needs = ("maths", "axis")
    near = 2e-5  # the module's angles are float32
    question = "What does the score know of the places?"

    def __init__(
        self,
        q: Tensor | None = None,
        k: Tensor | None = None,
        t: int = 1,
        s: int = 3,
        shift: int = 4,
        pair: int = 1,
        base: int = 10_000,
    ):
        self.q = torch.tensor(Q) if q is None else q.detach()
        self.k = torch.tensor(K) if k is None else k.detach()
        for name, x in (("q", self.q), ("k", self.k)):
            if tuple(x.shape) != (D,) or x.abs().max() > 2:
                raise ValueError(f"{name} is (8,), from −2 to 2; its shape is {tuple(x.shape)}")
        if not all(0 <= place <= FAR for place in (t, s)) or not 0 <= shift <= 60:
            raise ValueError(f"places are 0 to {FAR}, shift 0 to 60; got {t}, {s}, {shift}")
        if pair not in range(1, D // 2 + 1) or base not in BASES:
            raise ValueError(f"pair is 1 to 4, base one of {BASES}; got {pair} and {base}")
        self.begin = {"t": t, "s": s, "shift": shift, "pair": pair, "base": base}

    def start(self) -> dict:
        content = {name: [round(x, 6) for x in getattr(self, name).tolist()] for name in "qk"}
        return {**content, **self.begin}

    def result(self, state: dict) -> dict:
        """Scores of turned vectors, and those of one pair."""
        rotary = Rotary(D, float(state["base"]))
        q, k = (torch.tensor(state[name], dtype=torch.float64) for name in "qk")
        t, s, i = state["t"], state["s"], state["pair"] - 1
        pair = torch.tensor([i, i + D // 2])
        here, moved = (
            rotary(q[None], t + shift)[0] * rotary(k[None], s + shift)[0]
            for shift in (0, state["shift"])
        )
        ahead = rotary(k.expand(FAR + 1, D))  # k at 0 … 63, q at 0
        behind = rotary(q.expand(FAR + 1, D))  # q at 0 … 63, k at 0
        both = torch.cat(((behind[1:] * k).flip(0), ahead * q))
        curve = both.sum(-1)
        rises = curve[FAR:].diff() > 0
        return {
            "score": here.sum().item(),
            "shifted": moved.sum().item(),
            "angle": frequencies(D, float(state["base"]))[i].item() * (s - t),
            "part": here[pair].sum().item(),
            "curve": curve.tolist(),
            "own": both[:, pair].sum(-1).tolist(),
            "turns": int((rises[1:] != rises[:-1]).sum()),
        }

    def cases(self) -> Iterator[dict]:
        yield {"t": 20, "s": 40, "shift": 23}
        pick = random.Random(0)
        for _ in range(60):
            q, k = ([pick.randint(-20, 20) / 10 for _ in range(D)] for _ in range(2))
            places = {name: pick.randint(0, 60) for name in ("t", "s", "shift")}
            yield {
                "q": q,
                "k": k,
                **places,
                "pair": pick.randint(1, 4),
                "base": pick.choice(BASES[1:]),
            }

    def picture(self) -> str:
        """The score against the distance, and the present distance."""
        now = self.result(self.start())
        curve, distance = now["curve"], self.begin["s"] - self.begin["t"]
        low, high = min(curve) - 0.1, max(curve) + 0.1
        place = lambda n, y: (20 + 360 * n / (2 * FAR), 28 + 150 * (high - y) / (high - low))  # noqa: E731
        picture = Still(400, 208, f"score {now['score']:.2f} at distance {distance}, and others")
        picture.line([place(0, 0), place(2 * FAR, 0)])
        picture.line([place(n, y) for n, y in enumerate(curve)], "weight", 2.5)
        x, y = place(distance + FAR, now["score"])
        picture.bar(x - 5, y - 5, 10, 10, "ink")
        picture.line([(x, y), (x, 22)], "ink", 1)
        picture.text(x, 17, number(now["score"]), bold=True)
        picture.text(200, 200, f"places from q to k, −{FAR} to {FAR}", "muted", size=12)
        return picture.svg()

    def sentence(self) -> str:
        now, (t, s, shift, pair, base) = self.result(self.start()), self.begin.values()
        met = frequencies(D, float(base))[pair - 1].item() * (TRAINED - 1) / (2 * torch.pi)
        share = "comes round" if met >= 1 else f"meets {100 * met:.1f} % of the circle"
        return (
            f"Places {t} and {s}, or {t + shift} and {s + shift}: pair {pair} is turned apart by "
            f"{now['angle']:.2f} rad, the score is {now['score']:.2f}. Further away it does not "
            f"just fall: it turns {now['turns']} times up or down. Within {TRAINED} places this "
            f"pair {share}."
        ).replace("-", "−")
