"""In which order do the two heads of an induction circuit come, and what if one layer is frozen?

    python results/emergence.py        # resumed run by run; some minutes on one core

Question. A model of two attention layers learns to copy rows of 8 to 19 random tokens. Three things
change: the head of layer 0 attends to the token before ("before"), the head of layer 1 to what
followed the same token ("follows"), and the loss falls. Which is half-way first? What happens if
layer 0, or layer 1, does not change any more from step 40 on, or layer 1 from the start?
Budget. 300 steps of 32 rows, Adam at 0.01 with warm-up and cosine, as on the page of the two models
(`13-deeper-two-models`); one head per layer, so that nothing is chosen among heads. Measured every
five steps, on 100 other rows: the loss where the next token is certain, the scores on rows of
eight tokens read twice. The same order with four heads per layer, the best of each. Four times the
steps with layer 0 frozen, seeds 0 to 2.
Grid. None: the recipe is that of the page. Step 40 was set on seeds 100 to 102: until there neither
score had gone a tenth of its way. With these the head of layer 0 was half-way last of the three.
Reporting seeds 0 to 4; the page shows 0 to 2.
Baselines. Even attention; ln 24 nats; the run in which both layers learn; as a control for each
frozen layer the other, frozen at the same step.
No gain. The order of two curves is not decided if the 95 % interval of their distance in steps
contains 0. A layer may be frozen without harm if the interval of the loss it costs contains 0.

Half-way: the first time that a curve has gone half of the way from its first to its last value,
between two measurements on a straight line. Attention of one row of eight tokens read twice is kept
for seeds 0 to 2, a byte for each weight.
"""

import base64
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.attention import MultiHeadAttention
from attnbook.block import PreNorm, Stack
from attnbook.data.repeats import Repeats, repeats
from attnbook.inside.watch import watch
from attnbook.losses import parameters, token_loss
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine, train
from attnbook.transformer import Embed, LanguageModel
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference, interval

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "emergence.json"
STUDY = Study(
    name="emergence",
    question="Which head of an induction circuit comes first, and which does the other need?",
    budget="300 steps of 32 rows",
    reporting_seeds=range(5),
    baselines=("even attention", "ln 24 nats", "both layers learn", "the other layer frozen"),
    no_gain="the interval of the distance in steps, or of the loss that freezing costs, contains 0",
)
V, T, ROW, WIDTH = 24, 40, 8, 32
STEPS, LONG, EVERY, FROM = 300, 1200, 5, 40
SHOWN, STOPS = 3, (*range(0, 180, 5), *range(200, 325, 25))  # whose attention is kept, and when
RUNS = {"both": None, "layer 0": (0, FROM), "layer 1": (1, FROM)}  # the layer frozen, and when
STARTS = {"layer 1, start": (1, 0)}
Frozen = tuple[int, int] | None
Curves = dict[str, list[float]]


def copier(heads: int) -> LanguageModel:
    """Two attention layers without feed-forward networks."""

    def layer() -> PreNorm:
        rotate = Rotary(WIDTH // heads)
        attention = MultiHeadAttention(WIDTH, heads, rotate=rotate, bias=False)
        return PreNorm(attention, RMSNorm(WIDTH))

    body = Stack([layer() for _ in range(2)], RMSNorm(WIDTH))
    return LanguageModel(Embed(V, WIDTH), body, nn.Linear(WIDTH, V, bias=False))


def copy_loss(model: nn.Module, batch: Repeats) -> Tensor:
    """The loss where the next token can be known."""
    tokens, certain = batch
    return token_loss(model(tokens[:, :-1]), tokens[:, 1:], certain)


def rows(shortest: int, longest: int, B: int) -> Repeats:
    """Rows that are not trained on."""
    return repeats(B, T, V, shortest, longest)(torch.Generator().manual_seed(9))


@torch.no_grad()
def measured(model: nn.Module) -> dict[str, float]:
    """The loss, and for each job the score of the best head of its layer."""
    tokens = rows(ROW, ROW, 100)[0][:, : 2 * ROW]
    with watch(model) as seen:
        model(tokens)
    first, second = (weights.mean(0) for weights in seen.values())  # (H, 2 ROW, 2 ROW)
    before = first.diagonal(-1, 1, 2)[:, ROW - 1 :].mean(-1)  # queries of the second copy
    follows = second.diagonal(1 - ROW, 1, 2)[:, 1:].mean(-1)
    loss = copy_loss(model, rows(8, 19, 100)).item()
    return {"loss": loss, "before": before.max().item(), "follows": follows.max().item()}


@torch.no_grad()
def picture(model: nn.Module) -> bytes:
    """For one row read twice, a byte each: both maps where they are not masked, row by row, and
    the probability of each next token."""
    tokens = rows(ROW, ROW, 1)[0][:, : 2 * ROW]
    with watch(model) as seen:
        likely = model(tokens)[:, :-1].softmax(-1).gather(-1, tokens[:, 1:, None])
    lower = torch.ones(2 * ROW, 2 * ROW).tril().bool()
    parts = [weights[0, 0][lower] for weights in seen.values()]
    return bytes((torch.cat([*parts, likely.flatten()]) * 255).round().byte().tolist())


def learn(heads: int, frozen: Frozen, seed: int, steps: int = STEPS) -> dict[str, Any]:
    """Curves of a training; with one head per layer what is needed for its picture, too."""
    torch.manual_seed(seed)
    model = copier(heads)
    every = EVERY * steps // STEPS
    curves: Curves = {name: [] for name in measured(model)}
    frames: list[str] = []

    def note(model: Any) -> dict[str, float]:
        step = every * len(curves["loss"])
        if frozen and step == frozen[1]:
            model.body.blocks[frozen[0]].requires_grad_(False)
        for name, value in measured(model).items():
            curves[name].append(round(value, 4))
        if heads == 1 and seed < SHOWN and steps == STEPS and step in STOPS:
            frames.append(base64.b64encode(picture(model)).decode())
        return {}

    note(model)
    plan: dict[str, Any] = {"lr": 0.01, "schedule": cosine(steps, warmup=20), "every": every}
    batches = repeats(32, T, V, 8, 19)
    train(model, batches, copy_loss, steps=steps, seed=seed, evaluate=note, progress=False, **plan)
    return curves | ({"frames": frames} if frames else {})


def way(curve: Sequence[float], share: float, every: int = EVERY) -> float:
    """The step at which a curve has first gone this share of the way from its start to its end."""
    done = [(y - curve[0]) / (curve[-1] - curve[0]) for y in curve]
    n = next(n for n, y in enumerate(done) if y >= share)
    return round(every * (n - 1 + (share - done[n - 1]) / (done[n] - done[n - 1])), 1)


def apart(one: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
    return difference(one, other, paired=True).as_dict()


def order(runs: Sequence[Curves]) -> dict[str, Any]:
    """When each curve has gone a quarter, half and three quarters of its way, and how far apart."""
    found: dict[str, Any] = {}
    for share in (0.25, 0.5, 0.75):
        at = {name: [way(run[name], share) for run in runs] for name in runs[0] if name != "frames"}
        pairs = {f"before − {name}": apart(at["before"], at[name]) for name in ("follows", "loss")}
        pairs["loss − follows"] = apart(at["loss"], at["follows"])
        found[str(share)] = {"steps": at, "apart": pairs}
    return found


def ends(runs: Sequence[Curves]) -> dict[str, list[float]]:
    """Mean and interval of the last value of each curve."""
    found = {}
    for name in ("loss", "before", "follows"):
        said = interval([run[name][-1] for run in runs])
        found[name] = [round(x, 4) for x in (said.mean, said.low, said.high)]
    return found


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    here = device.choose(0)
    runs = Runs(Path(__file__).parent / "emergence.draft", write)

    def report(key: str, heads: int, frozen: Frozen, steps: int = STEPS) -> list:
        def one(seed: int) -> dict[str, Any]:
            return runs.get(f"{key}/{seed}", partial(learn, heads, frozen, seed, steps))

        return STUDY.report(one, range(SHOWN) if steps == LONG else None)

    found = {name: report(name, 1, frozen) for name, frozen in {**RUNS, **STARTS}.items()}
    four = report("four heads", 4, None)
    long = report("long/layer 0", 1, RUNS["layer 0"], LONG)
    last = {name: [run["loss"][-1] for run in each] for name, each in found.items()}
    costs = {f"{name} − both": apart(last[name], last["both"]) for name in last if name != "both"}
    costs["layer 0 − layer 1"] = apart(last["layer 0"], last["layer 1"])
    result: dict[str, Any] = {"study": STUDY.declared() | {"declared": said}}
    result |= {"steps": list(range(0, STEPS + 1, EVERY)), "stops": STOPS, "from": FROM}
    result |= {"row": rows(ROW, ROW, 1)[0][0, : 2 * ROW].tolist(), "even": even()}
    result |= {"guess": round(math.log(V), 4), "parameters": parameters(copier(1))}
    result |= {"order": {"one head": order(found["both"]), "four heads": order(four)}}
    result |= {"costs": costs, "ends": {name: ends(each) for name, each in found.items()}}
    result |= {"long": {"layer 0": ends(long)}, "runs": runs.found}
    write(STORE, result | {"provenance": provenance(here, "scipy")})
    runs.draft.unlink()


def even() -> dict[str, float]:
    """Both scores of attention that is spread evenly."""
    before = sum(1 / (t + 1) for t in range(ROW, 2 * ROW)) / ROW
    return {"before": round(before, 4), "follows": round(before, 4)}


if __name__ == "__main__":
    main()
