"""Explorable: whom the tokens go to, in a mixture of experts while it is trained."""

import base64
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnbook.experts import BiasBalance, MixtureOfExperts, SigmoidTopK
from bookkit.explore.element import Explorable
from bookkit.explore.still import Still, number
from bookkit.results.stored_run import stored_run

N, E, SEEDS, MOVES, RATE = 32, 8, 3, 40, 0.02
STEPS = (0, 10, 50, 200)
ROOMS = ("no limit", "1", "1.25", "1.5", "2")


class RouterLoads(Explorable):
    """A line of 32 characters and eight experts, of a model that was trained with two active.

    `bias` is "on" if the router's bias was moved while it was trained, as in `BiasBalance`, `step`
    an index of the steps 0, 10, 50 and 200. Then `moves` moves of the bias by .02 on this line
    alone. `active` experts are chosen by a character. `room` is the capacity factor: no expert
    takes more than so many times the fair share. From the stored run of `results/router.py`.
    """

    tag = "router"
    needs = ()
    question = "Who does the work?"

    def __init__(
        self,
        bias: str = "off",
        step: int = 3,
        seed: int = 0,
        active: int = 2,
        room: str = "no limit",
    ):
        if bias not in ("off", "on") or room not in ROOMS:
            raise ValueError(
                f"the bias is off or on, the room {', '.join(ROOMS)}; got {bias!r} and {room!r}"
            )
        if not (0 <= step < len(STEPS) and 0 <= seed < SEEDS and 1 <= active <= E):
            raise ValueError(
                f"step is 0 to {len(STEPS) - 1}, seed 0 to {SEEDS - 1}, and 1 to {E} experts are "
                f"active; got step {step}, seed {seed}, {active} active"
            )
        state: dict[str, Any] = {"bias": bias, "step": step, "seed": seed, "active": active}
        self.begin = state | {"moves": 0, "room": room}
        self.run = stored_run("router")

    def start(self) -> dict:
        return dict(self.begin)

    def fixed(self) -> dict:
        places = [self.run["at"].index(step) for step in STEPS]
        names = ("levels", "bias", "share")
        runs = {
            bias: [
                [[one["path"][place][name] for name in names] for place in places]
                for one in self.run[bias]
            ]
            for bias in ("off", "on")
        }
        return {"text": self.run["text"], "steps": STEPS, "unit": self.run["unit"], **runs}

    def point(self, state: dict) -> dict:
        """What is stored of this run at this step."""
        run = self.run[state["bias"]][state["seed"]]
        return run["path"][self.run["at"].index(STEPS[state["step"]])]

    def numbers(self, state: dict) -> Float[Tensor, "N E"]:
        """The router's, in steps of 1/16; where two are equal the lower expert goes first."""
        levels = torch.tensor(list(base64.b64decode(self.point(state)["levels"])))
        return (levels.double().view(N, E) - 128) * self.run["unit"] - torch.arange(E) / 1024

    def result(self, state: dict) -> dict:
        """Who is chosen, with which shares, and what a limited room leaves of it."""
        router = SigmoidTopK(E, E, state["active"]).double()
        layer = MixtureOfExperts([nn.Identity() for _ in range(E)], router=router)
        router.weight.data = torch.eye(E).double()
        correction = router.get_buffer("correction")
        correction += torch.tensor(self.point(state)["bias"], dtype=torch.float64)
        balance, tokens = BiasBalance(layer, RATE), self.numbers(state)
        for _ in range(state["moves"]):
            layer(tokens)
            balance.step()
        _, share, chosen = router.choose(tokens)
        room = capacity(state["room"], state["active"])
        stays = within(chosen, room)
        return {
            "chosen": chosen.tolist(),
            "share": share.tolist(),
            "bias": correction.tolist(),
            "load": chosen.flatten().bincount(minlength=E).tolist(),
            "kept": chosen[stays].bincount(minlength=E).tolist(),
            "dropped": int((~stays).sum()),
            "alone": int((~stays).all(1).sum()),
            "room": room,
        }

    def cases(self) -> Iterator[dict]:
        for seed in range(SEEDS):
            for step in range(len(STEPS)):
                yield {"bias": "on", "seed": seed, "step": step}
                yield {"seed": seed, "step": step, "moves": 7 + seed}
        for active, room in ((1, "1"), (2, "1.25"), (3, "1.5"), (4, "2"), (8, "1")):
            yield {"active": active, "room": room}
            yield {"active": active, "room": room, "moves": MOVES}

    def picture(self) -> str:
        """The choices of all characters, and how many each expert gets."""
        now, still = self.result(self.start()), Still(430, 196, self.sentence())
        for n, letter in enumerate(self.run["text"]):
            still.text(22 + 8 * n, 14, letter.replace(" ", "·"), size=12)
        cells: defaultdict[str, str] = defaultdict(str)
        for n, (chosen, share) in enumerate(zip(now["chosen"], now["share"], strict=True)):
            for e, part in zip(chosen, share, strict=True):
                cells[f"{part:.1f}"] += f"M{18.5 + 8 * n:g} {23 + 18 * e}h7v14h-7z"
        for part, path in cells.items():
            look = f"fill:var(--d-weight);fill-opacity:calc(.25 + {part}*.75)"
            still.add(f'<path d="{path}" style="{look}"/>')
        fair = 290 + 2.5 * N * self.begin["active"] / E
        for e, load in enumerate(now["load"]):
            still.text(6, 35 + 18 * e, e + 1, bold=True)
            still.bar(290, 24 + 18 * e, 2.5 * load, 12, "weight")
            still.text(424, 35 + 18 * e, number(load), anchor="end")
        still.line([(fair, 20), (fair, 168)], "ink", 1.5, "4 3")
        still.text(fair, 184, f"fair {N * self.begin['active'] // E}", size=12)
        return still.svg()

    def sentence(self) -> str:
        state, now = self.start(), self.result(self.start())
        load, fair = now["load"], N * state["active"] // E
        idle = sum(4 * x < fair for x in load)
        how = "with the bias" if state["bias"] == "on" else "without a bias"
        said = (
            f"After {STEPS[state['step']]} steps {how}: expert {load.index(max(load)) + 1} works "
            f"on {max(load)} of {N} characters, {idle} of {E} experts on less than a quarter of "
            f"the fair share, {fair}."
        )
        if now["room"] == N:
            return said
        return (
            f"{said} With room for {now['room']} each, {now['dropped']} of {N * state['active']} "
            f"visits are dropped, and {now['alone']} characters have no expert."
        )


def capacity(room: str, active: int) -> int:
    """How many of the tokens an expert takes at most, for a capacity factor."""
    return N if room == "no limit" else min(N, math.ceil(float(room) * active * N / E))


def within(chosen: Int[Tensor, "N A"], room: int) -> Bool[Tensor, "N A"]:
    """Which choices find a place, if no expert takes more than `room` tokens.

    All first choices come before the second ones, and earlier tokens first. Lepikhin et al. 2021,
    algorithm 1.
    """
    line = nn.functional.one_hot(chosen.T.flatten(), E)  # in the order in which they are served
    before = (line.cumsum(0) * line).sum(-1)  # place in the expert's line, from 1
    return (before <= room).view(chosen.shape[1], -1).T
