"""What goes on inside the book's language model: the stored runs of chapter 13.

    python results/inside.py              # all studies, resumed run by run
    python results/inside.py --only sae   # one of them: story, path, ablate, rates, lens, probe, …

The model is one, and its weights are fixed. Five seeds draw the rows of random tokens, the batches
and first weights of what is fitted (`inside_fits.py`) and the texts that are written; the controls
of the autoencoder have three.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from inside_fits import (
    LAYERS,
    SEEDS,
    book,
    error,
    loss,
    principal,
    probe,
    quality,
    read_by,
    rows,
    sae,
    steered,
    tuned,
)
from torch import Tensor
from torch.nn import functional as F

from attnbook import device
from attnbook.inside.circuits import head_from, lens, record, replaced, written
from attnbook.provenance import provenance, write
from bookkit.explore.inside import GROUPS, STORY

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "inside.json"
STUDIES = ["story", "path", "ablate", "rates", "lens", "probe", "sae", "steer"]
THREE = range(3)  # seeds of the controls of the autoencoder
PUSHES = [("plays", 0.0), ("plays", 0.5), ("plays", 1.0), ("plays", 2.0)]
PUSHES += [("random", 0.5), ("random", 1.0), ("random", 2.0), ("difference", 1.0)]
L, ROWS = 32, 16  # rows of random tokens that are read twice


def random_rows(seed: int) -> tuple[Tensor, Tensor]:
    """Rows of different tokens read twice, and the same with another first half: (ROWS, 2 L)."""
    dice = torch.Generator().manual_seed(seed)
    once, other = (torch.rand(ROWS, 1020, generator=dice).argsort(1)[:, :L] + 4 for _ in range(2))
    return torch.cat((once, once), 1), torch.cat((other, once), 1)


@torch.no_grad()
def second(tokens: Tensor) -> float:
    """Nats per token of the second copy, from its fourth token on."""
    logits = book.model(tokens)[:, L + 2 : -1]
    return F.cross_entropy(logits.mT, tokens[:, L + 3 :]).item()


def costs_of(nats: Callable[[], float], mean: Tensor) -> list[float]:
    """By how much a loss rises if one head, (0, 0) to (3, 3), gives its mean instead."""
    whole, found = nats(), []
    for layer in range(LAYERS):
        for head in range(4):
            with replaced(book.model, {(layer, head): mean[layer, head]}):
                found.append(round(nats() - whole, 4))
    return found


def ablated(seed: int) -> dict:
    """What it costs to lose each head: its mean or zeros instead, on random rows and on docs."""
    tokens, other = random_rows(seed)
    mean = record(book.model, other).heads.mean((1, 3))
    found = {kind: costs_of(partial(second, tokens), mean * (kind == "mean")) for kind in KINDS}
    if seed == 0:  # the text is always the same
        mean = record(book.model, rows("test")[:16]).heads.mean((1, 3))
        found["docs"] = costs_of(partial(loss, book.model, rows("test")[16:36]), mean)
    return found


KINDS = ("mean", "zero")


def path(seed: int) -> dict:
    """What it costs if head 3.3 alone does not hear of some heads: by its q, k or v."""
    tokens, other = random_rows(seed)
    model, run = book.model, record(book.model, tokens)
    mean, whole = record(model, other).heads.mean((1, 3)), second(tokens)
    found: dict[str, Any] = {"whole": round(whole, 4), "other": round(second(other), 4)}
    groups = {name: GROUPS[name] for name in ("five", "others")}
    for name, heads in (groups | {str(head): [head] for head in GROUPS["five"]}).items():
        gone = torch.zeros_like(run.stream[3])
        for layer, head in heads:
            change = mean[layer, head] - run.heads[layer][:, head]
            gone = gone + written(model, (layer, head), change)
        costs = []
        for door in range(3):
            three = [run.stream[3] + gone * (door == n) for n in range(3)]
            with replaced(model, {(3, 3): head_from(model, (3, 3), *three)}):
                costs.append(round(second(tokens) - whole, 4))
        found[name] = costs
    return found


@torch.no_grad()
def story() -> dict:
    """The lens and the heads' weights on one text, with some heads at their mean, and without."""
    tokens, model = book.encode(STORY), book.model
    mean = record(model, rows("test")[:20]).heads.mean((1, 3))
    found = {}
    for name, heads in GROUPS.items():
        with replaced(model, {head: mean[head] for head in heads}):
            run = record(model, tokens)
        p = lens(model, run.stream[:, 0]).softmax(-1)  # (5, T, V)
        best, which = p.topk(3, -1)
        truth = p[:, :-1].gather(-1, tokens[0, 1:].expand(LAYERS + 1, -1)[..., None])[..., 0]
        weights = [
            [
                [[round(w, 2) for w in row[: t + 1]] for t, row in enumerate(head)]
                for head in layer[0].tolist()
            ]
            for layer in run.weights
        ]
        found[name] = {
            "best": [[[book.decode(t[None]) for t in three] for three in layer] for layer in which],
            "p": [[[round(x, 3) for x in three] for three in layer] for layer in best.tolist()],
            "right": [[round(x, 3) for x in layer] for layer in truth.tolist()],
            "weights": weights,
        }
    names = [book.decode(t[None]) for t in tokens[0]]
    return {"tokens": names, "runs": found, "sum": shares(17, int(tokens[0, 18]))}


@torch.no_grad()
def shares(place: int, token: int) -> dict[str, float]:
    """What each part adds to a token's logit, less the mean of all logits."""
    model, run = book.model, record(book.model, book.encode(STORY))
    steps = [run.stream[0]]
    for layer in range(LAYERS):
        steps += [run.middle[layer] - run.stream[layer], run.stream[layer + 1] - run.middle[layer]]
    names = ["embedding", *(f"{p} {n}" for n in range(LAYERS) for p in ("attention", "network"))]
    weight = model.lm_head.get_parameter("weight")
    last = run.stream[-1][0, place]
    scale = model.body.norm(last) / last  # what the last norm multiplies each channel with
    toward = (weight[token] - weight.mean(0)) * scale
    return {n: round((x[0, place] @ toward).item(), 3) for n, x in zip(names, steps, strict=True)}


def work() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every run: its key in the file, and what computes it."""
    yield "story", story
    for seed in SEEDS:
        yield f"path/{seed}", partial(path, seed)
        yield f"ablate/{seed}", partial(ablated, seed)
    for lr in (1e-3, 3e-3, 1e-2):
        yield f"rates/sae/{lr}", partial(error, lr)
        yield f"rates/lens/{lr}", partial(tuned, "trained", 1, 0, lr)
    yield "rates/sae/0.03", partial(error, 3e-2)
    for lr in (1e-2, 3e-2, 1e-1):
        yield f"rates/probe/{lr}", partial(probe, "1 back", 2, 0, lr)
    for place in range(LAYERS + 1):
        yield f"lens/plain/{place}", partial(read_by, book.model, "trained", place, lambda x: x)
    for seed in SEEDS:
        for place in (0, 1, 3):
            yield f"lens/tuned/{place}/{seed}", partial(tuned, "trained", place, seed)
        for what in ("1 back", "2 back", "control", "control, 1 back"):
            for place in range(LAYERS + 1):
                yield f"probe/{what}/{place}/{seed}", partial(probe, what, place, seed)
        for which, strength in PUSHES:
            yield f"steer/{which}/{strength}/{seed}", partial(steered, which, strength, seed)
        for kind in ("trained", "random", "mixed") if seed in THREE else ("trained",):
            yield f"sae/{kind}/{seed}", partial(sae, kind, seed)
    yield "sae/principal", lambda: quality("principal", principal())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=STUDIES)
    only = parser.parse_args().only or STUDIES
    torch.set_num_threads(1)
    draft = Path(__file__).parent / "inside.draft"
    runs = json.loads(draft.read_text()) if draft.exists() else {}
    for key, compute in work():
        if key not in runs and key.split("/")[0] in only:
            runs[key] = compute()
            write(draft, runs)
            print(key, str(runs[key])[:110], flush=True)
    if any(key not in runs for key, _ in work()):
        return
    kept = {key: runs[key] for key, _ in work()}
    write(STORE, {"runs": kept, "provenance": provenance(device.choose(0))})
    draft.unlink()


if __name__ == "__main__":
    main()
