"""Do recurrent networks close the bracket? The stored tables of chapter 1.

    python results/brackets.py           # resumed run by run

Prose of Python's documentation with brackets of four kinds in it (`attnbook.data.brackets`), in two
forms: in "mixed" a bracket closes after 0 to 40 letters, in "far" after 30 to 40. Networks of about
20,000 parameters read it and learn to say, where a bracket closes, which of the four it is: 250
steps of Adam, windows of 64, batches of 32, gradients clipped at 1. Each network gets the best of
three learning rates, chosen for each text by the loss on held-out windows with a seed of its own;
then five other seeds. Measured on held-out windows: the share of closing brackets of which the
kind is right, in windows of its own text and in those of "far". Chance is a quarter.

Then, in each of the five LSTMs of "mixed", the unit whose cell state says best which kind of
bracket is open.
"""

import itertools
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.data import text
from attnbook.data.brackets import CHARACTERS, KINDS, Batch, brackets, closing
from attnbook.losses import parameters, token_loss
from attnbook.provenance import provenance, write
from attnbook.recurrence.min_gru import MinGRU
from attnbook.train.loop import cosine, train

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "brackets.json"
TASKS = {"mixed": 0, "far": 30}  # the fewest letters in a bracket
STEPS = 250
RATES, TUNED_WITH, SEEDS = (0.003, 0.01, 0.03), 100, range(5)
Kind = type[nn.RNN] | type[nn.LSTM] | type[MinGRU]
# Kind of layer, width, bias of the gate that keeps.
MODELS: dict[str, tuple[Kind, int, float | None]] = {
    "RNN": (nn.RNN, 92, None),
    "RNN, ReLU, U = I": (nn.RNN, 92, None),  # Le et al. 2015
    "LSTM": (nn.LSTM, 48, None),
    "LSTM, gates open": (nn.LSTM, 48, 4.0),
    "minGRU, gates open": (MinGRU, 77, 4.0),
}
SHOWN = ("text", "values", "gates")  # of one unit on three windows: kept of the first seed
WORK = [("mixed", "RNN"), ("mixed", "LSTM"), *(("far", name) for name in MODELS)]
Model = Callable[[Tensor], Tensor]  # logits of the four at each place


class Reader(nn.Module):
    """Embedding, one recurrent layer, logits of the four closing brackets."""

    def __init__(self, name: str) -> None:
        super().__init__()
        kind, width, bias = MODELS[name]
        self.embed, self.to_kind = nn.Embedding(len(CHARACTERS), width), nn.Linear(width, 4)
        if issubclass(kind, MinGRU):
            self.body: nn.Module = kind(width)
        else:
            self.body = kind(width, width, batch_first=True)
        if "ReLU" in name:
            self.body = nn.RNN(width, width, nonlinearity="relu", batch_first=True)
            nn.init.eye_(self.body.get_parameter("weight_hh_l0"))
        if bias is not None and kind is MinGRU:  # its z is the share that is replaced
            nn.init.constant_(self.body.get_parameter("to_gate.bias"), -bias)
        elif bias is not None:  # the second block is the forget gate
            nn.init.constant_(self.body.get_parameter("bias_ih_l0")[width : 2 * width], bias)

    def forward(self, x: Tensor) -> Tensor:
        found = self.body(self.embed(x))
        return self.to_kind(found[0] if isinstance(found, tuple) else found)


@cache
def data(task: str) -> tuple[Callable[[torch.Generator], Batch], Batch]:
    """A sampler of training batches, and a held-out batch of 300 windows."""
    docs, near = text.load("python-docs"), TASKS[task]
    held_out = brackets(docs.validation, near, B=300)(torch.Generator().manual_seed(99))
    return brackets(docs.train, near, B=32), held_out


def answers(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits and kinds of the closing brackets."""
    where, _ = closing(batch)
    kinds = (batch[1][where][:, None] == KINDS[1]).long().argmax(-1)
    return model(batch[0])[where], kinds


def loss(model: Model, batch: Batch) -> Tensor:
    return token_loss(*answers(model, batch))


@torch.no_grad()
def closed(model: Model, batch: Batch) -> float:
    """Share of closing brackets of which the kind is right."""
    logits, kinds = answers(model, batch)
    return round((logits.argmax(-1) == kinds).float().mean().item(), 4)


def trained(
    task: str, name: str, rate: float, seed: int
) -> tuple[Reader, tuple[list[int], list[float]]]:
    """A model after training, and the share of brackets it closed on the way."""
    torch.manual_seed(seed)
    model = Reader(name)
    sampler, held_out = data(task)
    history = train(
        model,
        sampler,
        loss,
        steps=STEPS,
        lr=rate,
        schedule=cosine(STEPS, 50),
        seed=seed,
        evaluate=lambda model: torch.tensor(closed(model, held_out)),
        every=STEPS // 10,
        progress=False,
    )
    return model.eval(), history.evaluated()


def measure(task: str, name: str, rate: float, seed: int) -> dict:
    model, (steps, shares) = trained(task, name, rate, seed)
    held_out = data(task)[1]
    with torch.no_grad():
        nats = round(loss(model, held_out).item(), 4)
    curve = [list(steps), [round(float(share), 4) for share in shares]]
    found = {"loss": nats, "closed": closed(model, held_out), "curve": curve}
    found["far"] = closed(model, data("far")[1])
    if (task, name) == ("mixed", "LSTM") and seed in SEEDS:
        told = unit(model, held_out)
        found |= {key: told[key] for key in told if seed == SEEDS[0] or key not in SHOWN}
    return found


def above(values: Tensor, inside: Tensor) -> float:
    """The chance that a value inside is above one outside: the area under the ROC curve."""
    ranks = values.argsort().argsort().double() + 1
    n = int(inside.sum())
    return ((ranks[inside].sum() - n * (n + 1) / 2) / (n * (len(inside) - n))).item()


@torch.no_grad()
def cell_states(model: Reader, x: Tensor, cut: int | None = None) -> tuple[Tensor, Tensor]:
    """After each character: gates and state (3, B, T, width), and logits; unit `cut` is held at 0.

    The three are input gate, forget gate and cell state.
    """
    own = dict(model.body.named_parameters())
    c = h = torch.zeros(len(x), own["weight_hh_l0"].shape[1])
    states, shown = [], []
    for x_t in model.embed(x).unbind(1):
        blocks = x_t @ own["weight_ih_l0"].T + h @ own["weight_hh_l0"].T
        take, forget, new, reveal = (blocks + own["bias_ih_l0"] + own["bias_hh_l0"]).chunk(4, -1)
        c = forget.sigmoid() * c + take.sigmoid() * new.tanh()
        if cut is not None:
            c = c.clone()
            c[:, cut] = 0
        h = reveal.sigmoid() * c.tanh()
        states.append(torch.stack((take.sigmoid(), forget.sigmoid(), c)))
        shown.append(h)
    return torch.stack(states, 2), model.to_kind(torch.stack(shown, 1))


def most_telling(states: Tensor, inside: Tensor, kind: Tensor) -> tuple[int, int, int]:
    """Unit, kind of bracket and sign of which the values inside stand highest above the others."""
    scores = {}
    for i, k in itertools.product(range(states.shape[2]), range(4)):
        scores[i, k] = above(states[..., i][inside], kind[inside] == KINDS[0, k])
    i, k = best = max(scores, key=lambda each: abs(scores[each] - 0.5))
    return i, k, 1 if scores[best] > 0.5 else -1


def without(model: Reader, cut: int) -> Model:
    """What the model says while one unit is held at 0."""
    return lambda x: cell_states(model, x, cut)[1]


def unit(model: Reader, batch: Batch) -> dict:
    """The unit whose cell state says best of one kind that it is open, and not another kind.

    Unit and kind are chosen on one half of the windows and judged on the other. Also what the unit
    holds on three windows, with its gates, and what closing loses when it is held at 0, beside each
    other unit.
    """
    x = batch[0]
    parts, logits = cell_states(model, x)
    states = parts[2]
    torch.testing.assert_close(logits, model(x), atol=1e-4, rtol=1e-4)
    places = torch.arange(x.shape[1])
    last = torch.where(torch.isin(x, KINDS[0]), places, -1).cummax(1).values
    shut = torch.where(torch.isin(x, KINDS[1]), places, -1).cummax(1).values
    inside, kind = last > shut, x.gather(1, last.clamp(min=0))
    half = len(x) // 2
    i, k, sign = most_telling(states[:half], inside[:half], kind[:half])
    values, right = states[half:, :, i][inside[half:]], kind[half:][inside[half:]] == KINDS[0, k]
    cuts = [closed(without(model, u), batch) for u in range(states.shape[2])]
    shown = parts[:, half : half + 3, :, i]
    return {
        "unit": i,
        "kind": CHARACTERS.decode(KINDS[:, k]),
        "auc": round(above(sign * values, right), 4),
        "cut": cuts[i],
        "others cut": sorted(cuts[:i] + cuts[i + 1 :]),
        "text": [CHARACTERS.decode(row) for row in x[half : half + 3]],
        "values": rounded(sign * shown[2].tanh()),
        "gates": [rounded(part) for part in shown[:2]],
    }


def rounded(x: Tensor) -> list[list[float]]:
    """Two decimals."""
    return [[round(v, 2) for v in row] for row in x.tolist()]


def summary(runs: dict[str, Any]) -> dict:
    """What the chapter shows, from all the single runs."""
    found: dict[str, Any] = {"rates": {}, "closed": {}, "far": {}, "curves": {}}
    for task, name in WORK:
        rate = best_rate(runs, task, name)
        chosen = [runs[f"{task}/{name}/{rate}/{seed}"] for seed in SEEDS]
        found["rates"].setdefault(task, {})[name] = rate
        found["closed"].setdefault(task, {})[name] = [run["closed"] for run in chosen]
        found["far"].setdefault(task, {})[name] = [run["far"] for run in chosen]
        found["curves"].setdefault(task, {})[name] = [run["curve"] for run in chosen]
    rate = found["rates"]["mixed"]["LSTM"]
    units = [runs[f"mixed/LSTM/{rate}/{seed}"] for seed in SEEDS]
    kept = ("unit", "kind", "auc", "closed", "cut", "others cut")
    found["units"] = [{key: run[key] for key in kept} for run in units]
    found["parameters"] = {name: parameters(Reader(name)) for name in MODELS}
    return found | {key: units[0][key] for key in SHOWN}


def best_rate(runs: dict[str, Any], task: str, name: str) -> float:
    """The learning rate with the lowest held-out loss."""
    return min(RATES, key=lambda rate: runs[f"{task}/{name}/{rate}/{TUNED_WITH}"]["loss"])


def main() -> None:
    torch.set_num_threads(1)
    here = device.choose(0)
    partial = Path(__file__).parent / "brackets.draft"
    runs = json.loads(partial.read_text()) if partial.exists() else {}

    def run(task: str, name: str, rate: float, seed: int) -> None:
        key = f"{task}/{name}/{rate}/{seed}"
        if key not in runs:
            runs[key] = measure(task, name, rate, seed)
            write(partial, runs)
            print(key, runs[key]["closed"], runs[key]["loss"], flush=True)

    for (task, name), rate in itertools.product(WORK, RATES):
        run(task, name, rate, TUNED_WITH)
    for seed, (task, name) in itertools.product(SEEDS, WORK):
        run(task, name, best_rate(runs, task, name), seed)
    write(STORE, summary(runs) | {"runs": runs, "provenance": provenance(here)})
    partial.unlink()


if __name__ == "__main__":
    main()
