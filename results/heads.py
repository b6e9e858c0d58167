"""How many heads, how wide, and of which kind: the stored runs of chapter 5.

    python results/heads.py                  # all studies, resumed run by run
    python results/heads.py --only counts    # one of them

One attention on the table with two questions (`bookkit.experiments.seating`), 600 steps of 32
tables, Adam at 0.01 with a cosine, five seeds; tested on 300 tables. The rate was tried in no other
size than 0.01 and, for the wider model, 0.003. The models with four heads of the seeds 0 to 2 are
stored with their weights, in sixteen bits: they are what the reader of the chapter switches."""

import argparse
import base64
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.attention import Attention, MultiHeadAttention, Projection, SigmoidGate
from attnbook.block import PreNorm
from attnbook.data.seats import DRINKS, C, most_common, tables
from attnbook.losses import parameters
from attnbook.provenance import provenance, write
from attnbook.scores import Score
from attnbook.train.loop import cosine, train
from bookkit.experiments import seating

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs"
SEEDS = range(5)
SWITCHED = range(3)  # seeds whose weights are kept


def deep() -> nn.Sequential:
    """A reader with one hidden layer."""
    return nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 2 * DRINKS))


def four(score: Score | None = None, gate: nn.Module | None = None) -> nn.Sequential:
    """Four heads of eight channels with another part."""
    project, to_out = Projection(32, 4), nn.Linear(32, 32)
    return seating.build(4, attention=Attention(project, to_out, score=score, gate=gate))


def shared(heads: int) -> nn.Sequential:
    """All heads with one key and one value."""
    return seating.build(heads, attention=MultiHeadAttention(32, heads, kv_heads=1))


def twins() -> nn.Sequential:
    """Two heads with equal weights."""
    model = seating.build(2)
    weight, bias, out = (
        model[1].get_parameter(name)
        for name in ("project.to_qkv.weight", "project.to_qkv.bias", "to_out.weight")
    )
    with torch.no_grad():
        for p in (*weight.chunk(3), *bias.chunk(3), out.T):
            p[16:] = p[:16]
    return model


def in_sequence(around: bool) -> nn.Sequential:
    """Two attentions of one head each, one after the other."""
    attentions: list[nn.Module] = [MultiHeadAttention(32, 1) for _ in range(2)]
    if around:
        attentions = [PreNorm(part, nn.Identity()) for part in attentions]
    return nn.Sequential(nn.Linear(C, 32), *attentions, nn.Linear(32, 2 * DRINKS))


LONG = {"steps": 1200}
Made = tuple[Callable[[], nn.Sequential], dict[str, int]]
# Study: name of a model → what builds it, and how it is trained.
STUDIES: dict[str, dict[str, Made]] = {
    "counts": {str(H): (partial(seating.build, H), {}) for H in (1, 2, 4, 8, 16, 32)},
    "controls": {
        "1 head, longer": (partial(seating.build, 1), LONG),
        "1 head, width 64": (partial(seating.build, 1, 64), {}),
        "1 head, deep reader, longer": (lambda: seating.build(1, reader=deep()), LONG),
        "16 heads of 2, longer": (partial(seating.build, 16), LONG),
    },
    "widths": {
        f"{H} of {D}": (partial(seating.build, H, D=D), {})
        for H, D in ((16, 4), (16, 8), (2, 2), (2, 4), (2, 8), (1, 64))
    },
    "parts": {
        "sink logit": (lambda: four(score=Score(sinks=4)), {}),
        "gate per head": (lambda: four(gate=SigmoidGate(32, 4)), {}),
    },
    "shared": {
        "2 heads, 1 key": (partial(shared, 2), {}),
        "4 heads, 1 key": (partial(shared, 4), {}),
    },
    "twins": {"twins": (twins, {})},
    "sequence": {
        "plain": (partial(in_sequence, around=False), {}),
        "x + attention(x)": (partial(in_sequence, around=True), {}),
    },
}


def measure(study: str, name: str, seed: int) -> dict:
    """One run: what is right on the way, and where the trained heads look."""
    torch.manual_seed(seed)
    make, options = STUDIES[study][name]
    model = make()
    history = seating.fit(model, seed=seed, every=100, **options)
    run: dict[str, Any] = {
        what: [round(at[what], 4) for at in history] for what in ("left", "friend", "both")
    }
    run["parameters"] = parameters(model)
    if study != "sequence":
        looks = seating.looks(model, seating.unseen()[0])
        run["looks"] = [[round(weight, 3) for weight in head] for head in looks.tolist()]
    if (study, name) == ("counts", "4") and seed in SWITCHED:
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        run["weights"] = base64.b64encode(weights.half().numpy().tobytes()).decode()
    if (study, name) == ("counts", "16"):
        run["says most common"] = round(says_most_common(model), 3)
    return run


@torch.no_grad()
def says_most_common(model: nn.Module) -> float:
    """How often the model's answer for the friend is a drink that most people have."""
    x, _ = seating.unseen()
    said = model(x).unflatten(-1, (2, DRINKS))[..., 1, :].argmax(-1)
    counts = x[..., -DRINKS:].sum(1)  # (B, DRINKS)
    return (counts.gather(1, said) == counts.amax(1, keepdim=True)).float().mean().item()


def one_question(which: int, heads: int, seed: int) -> float:
    """Right answers to one question, if it is the only one that is trained for; 400 steps."""
    torch.manual_seed(seed)
    model = seating.build(heads)

    def loss(model: nn.Module, batch: seating.Batch) -> Tensor:
        return seating.loss(model, batch, [which])

    schedule = cosine(400)
    train(model, tables, loss, steps=400, lr=0.01, schedule=schedule, seed=seed, progress=False)
    return round(seating.right(model, seating.unseen())[("left", "friend")[which]], 4)


def work(only: str | None) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every run: its key in the file, and what computes it."""
    for study, models in STUDIES.items():
        if only in (None, study):
            for name in models:
                for seed in SEEDS:
                    yield f"{study}/{name}/{seed}", partial(measure, study, name, seed)
    if only in (None, "one question"):
        for which in (0, 1):
            for heads in (1, 8):
                for seed in SEEDS:
                    key = f"one question/{('left', 'friend')[which]}/{heads}/{seed}"
                    yield key, partial(one_question, which, heads, seed)


def baselines() -> dict:
    """What simple strategies reach on the test tables."""
    x, answers = seating.unseen()
    left, friend = answers.unbind(-1)
    common = (most_common(x) == friend).float().mean().item()
    return {
        "left drink twice": round((left == friend).float().mean().item(), 4),
        "left, and the most common drink": round(common, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=[*STUDIES, "one question"])
    only = parser.parse_args().only
    torch.set_num_threads(1)
    draft = Path(__file__).parent / "heads.draft"
    runs = json.loads(draft.read_text()) if draft.exists() else {}
    for key, compute in work(only):
        if key not in runs:
            runs[key] = compute()
            write(draft, runs)
            print(key, runs[key] if isinstance(runs[key], float) else runs[key]["both"], flush=True)
    if any(key not in runs for key, _ in work(None)):
        return
    kept = {key: runs[key] for key, _ in work(None)}
    weights = {str(s): kept[f"counts/4/{s}"].pop("weights") for s in SWITCHED}
    source = {"provenance": provenance(device.choose(0))}
    write(STORE / "heads.json", {"baselines": baselines(), "runs": kept} | source)
    write(STORE / "four_heads.json", {"dtype": "float16", "weights": weights} | source)
    draft.unlink()


if __name__ == "__main__":
    main()
