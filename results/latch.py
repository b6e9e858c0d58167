"""Which lessons teach a recurrent network to carry a bracket over forty letters?

    python results/latch.py        # resumed run by run; about half an hour on one core

Question. The networks of `brackets.py` that read brackets of 0 to 40 letters close those of 30 to
40, the ones that read only 30 to 40 do not. Is a ladder of lengths needed, or do short brackets
alone teach a latch that holds at any distance? And how far has the forget gate to be open at the
start, so that the far text alone is learned?
Budget. 250 steps of 32 windows of 64 characters, as in `brackets.py`, and 1,000 steps of the plain
network for the shortest lessons. (Planned, begun and left out: the LSTM's, and the far text; of
that twelve runs of 1,000 steps are stored, those that were to choose the rate.)
Grid. The learning rate: 0.001, 0.003, 0.01, 0.03, and beyond where the best stands at an end; for
each network and lesson by the held-out loss on its own text, the mean of seeds 100 to 102.
Reporting seeds 0 to 4; held-out windows of 30 to 40 letters.
Baselines. Chance, a quarter; the network trained on the mixture of 0 to 40, and on 30 to 40 alone.
No gain. The ladder is needed if networks that read at most 10 letters stay below 0.9 of far
brackets; a latch needs no ladder if they reach it. A lesson is not learned at this distance if the
interval of its mean contains 0.25.
"""

import math
from functools import cache
from pathlib import Path
from typing import Any

import torch
from brackets import Reader, closed, loss
from torch import nn

from attnbook import device
from attnbook.data import text
from attnbook.data.brackets import brackets
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine, train
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import interval

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "latch.json"
STUDY = Study(
    name="latch",
    question="Do brackets of at most ten letters teach a network to close those of forty?",
    budget="250 steps of 32 windows of 64 characters; 1,000 where said",
    grid={"learning rate": (0.001, 0.003, 0.01, 0.03)},
    choosing_seeds=range(100, 103),
    reporting_seeds=range(5),
    baselines=("chance, a quarter", "trained on 0 to 40 letters", "trained on 30 to 40 letters"),
    no_gain="below 0.9 of far brackets after lessons of at most ten letters",
)
LONGEST = (1, 3, 5, 7, 10)  # of brackets in training; the shortest have no letter inside
BIASES = (0.0, 1.0, 2.0, 3.0, 4.0)
WINDOWS = 1000  # held out
GUESS = math.log(4)  # nats of a guess among four kinds


@cache
def data(near: int, far: int) -> tuple[Any, Any]:
    """A sampler of training batches, and held-out windows."""
    docs = text.load("python-docs")
    held_out = brackets(docs.validation, near, far, B=WINDOWS)(torch.Generator().manual_seed(99))
    return brackets(docs.train, near, far, B=32), held_out


def trained(
    name: str, near: int, far: int, bias: float | None, steps: int, rate: float, seed: int
) -> Reader:
    """A network after its lessons; `bias` is that of an LSTM's forget gate."""
    torch.manual_seed(seed)
    model = Reader(name)
    if bias is not None:
        width = model.embed.embedding_dim
        nn.init.constant_(model.body.get_parameter("bias_ih_l0")[width : 2 * width], bias)
    sampler, _ = data(near, far)
    plan = cosine(steps, steps // 5)
    train(
        model, sampler, loss, steps=steps, lr=rate, schedule=plan, seed=seed, progress=False,
        every=steps,
    )  # fmt: skip
    return model.eval()


def measure(
    name: str, near: int, far: int, bias: float | None, steps: int, rate: float, seed: int
) -> dict[str, float]:
    """Held-out loss on its own text, and the share of far brackets that are closed."""
    model = trained(name, near, far, bias, steps, rate, seed)
    own, away = data(near, far)[1], data(30, 40)[1]
    with torch.no_grad():
        nats = round(loss(model, own).item(), 4)
    return {"loss": nats, "own": closed(model, own), "far": closed(model, away)}


def gradient_left(bias: float, seed: int, steps: int = 29) -> float:
    """The share of a gradient that a fresh LSTM hands back over some steps, in powers of ten.

    Noise of size 1 is read; the gradient of the sum of the last cell state's squares with respect
    to the state so many steps before, its length beside that with respect to the last state.
    """
    torch.manual_seed(seed)
    cell = nn.LSTMCell(48, 48)
    with torch.no_grad():
        cell.bias_ih[48:96] = bias
    h = c = torch.zeros(64, 48)
    for _ in range(20):
        h, c = cell(torch.randn(64, 48), (h, c))
    first = torch.cat((h, c), 1).detach().requires_grad_()
    h, c = first.chunk(2, 1)
    for _ in range(steps):
        h, c = cell(torch.randn(64, 48), (h, c))
    (back,) = torch.autograd.grad(h.square().sum() / 2, first)
    return round((back.norm(dim=1) / h.detach().norm(dim=1)).log10().mean().item(), 3)


def group(
    runs: Runs, key: str, name: str, near: int, far: int, bias: float | None, steps: int
) -> dict[str, Any]:
    """One network on one text: the rate is chosen, then five seeds."""

    def one(rate: float, seed: int) -> dict[str, float]:
        return runs.get(
            f"{key}/{rate}/{seed}", lambda: measure(name, near, far, bias, steps, rate, seed)
        )

    rate, tried = STUDY.choose(
        "learning rate", lambda r, seed: one(r, seed)["loss"], baseline=GUESS - 0.01
    )
    found = STUDY.report(lambda seed: one(rate, seed))
    shares = interval([run["far"] for run in found])
    return {
        "rate": rate,
        "rates": {str(value): round(nats, 4) for value, nats in tried.items()},
        "own": [run["own"] for run in found],
        "far": [run["far"] for run in found],
        "interval": [round(shares.low, 3), round(shares.high, 3)],
    }


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    here = device.choose(0)
    runs = Runs(Path(__file__).parent / "latch.draft", write)
    lessons: dict[str, dict[str, Any]] = {"RNN": {}, "LSTM": {}}
    for longest in LONGEST:
        for name in lessons:
            key = f"lesson/{name}/{longest}"
            lessons[name][str(longest)] = group(runs, key, name, 0, longest, None, 250)
    biases = {
        str(bias): group(runs, f"bias/{bias}", "LSTM", 30, 40, bias, 250)
        | {"gradient": [gradient_left(bias, seed) for seed in STUDY.reporting_seeds]}
        for bias in BIASES
    }
    for name in lessons:
        lessons[name]["30 to 40"] = group(runs, f"far/{name}", name, 30, 40, None, 250)
        lessons[name]["0 to 40"] = group(runs, f"mixed/{name}", name, 0, 40, None, 250)
    longer = {
        f"{name}, {near} to {far}": group(runs, f"longer/{name}/{far}", name, near, far, None, 1000)
        for name, near, far in (("RNN", 0, 1),)
    }
    found = {"study": STUDY.declared() | {"declared": said}, "lessons": lessons, "biases": biases}
    found |= {"longer": longer, "runs": runs.found, "provenance": provenance(here, "scipy")}
    write(STORE, found)
    runs.draft.unlink()


if __name__ == "__main__":
    main()
