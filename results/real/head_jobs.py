"""Which jobs do the heads of a model have that nobody here taught?

    ATTNBOOK_GEMMA=folder python results/real/head_jobs.py

Question. Are there heads that look at the token before, at an earlier copy of the same token, at
what followed it, and at the first token of all, as in the book's own model? Does the copying need
those that look at what followed, and do these hear of it from those that look at the token before?
Budget. Rows of 50 random tokens read twice, four rows for each of five seeds (what is cut: of the
first three); for the maps one sentence, for the share of the first token one page of documentation.
Baselines. Heads of the same layers drawn by lot (two draws); a first half of other tokens; the
book's model, which was taught to copy.
Nothing found. No head above 0.3; the loss of the second copy rises no more without the five than
without five others of the same layers.
"""

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from real_model import (
    Studied,
    added,
    begin,
    both,
    change_of,
    finish,
    gemma,
    head_from,
    losses,
    random_rows,
    rounded,
    seen,
)
from torch import Tensor

from attnbook.data import text
from attnbook.inside.circuits import Head, replaced
from attnbook.masks import causal
from bookkit.results.protocol import Study

STUDY = Study(
    name="heads",
    question="Has a published model heads of the same jobs, and does its copying need them?",
    budget="four rows of 50 random tokens read twice for each seed",
    reporting_seeds=range(5),
    baselines=("five heads of the same layers drawn by lot", "another first half", "book-lm"),
    no_gain="no score above 0.3, or no more nats without the five than without five others",
)
B, L, DRAWS = 4, 50, 2
FIVE = 5
SENTENCE = "The capital of France is Paris, and the capital of Italy is Rome."
JOBS = ("previous", "duplicate", "induction", "first")


def job_scores(studied: Studied, weights: Sequence[Tensor]) -> dict[str, Tensor]:
    """The mean weight of each head, (layers, H), on the place that its job would have: over the
    second copy, and for `first` over all places but the first ten."""
    maps = torch.stack([layer.mean(0) for layer in weights])  # (layers, H, T, T)
    second = len(studied.start) + L
    ways = {"previous": 1, "duplicate": L, "induction": L - 1}
    found = {}
    for job, back in ways.items():
        line = maps.diagonal(-back, 2, 3)  # of queries back, back + 1, …
        found[job] = line[..., second - back :].mean(-1)
    return found | {"first": maps[..., 10:, 0].mean(-1)}


def scores(studied: Studied, seed: int) -> dict[str, Any]:
    """All scores of one draw of rows."""
    rows, _ = random_rows(studied, seed, B, L)
    return {
        job: rounded(x, 3) for job, x in job_scores(studied, seen(studied, rows).weights).items()
    }


def best(runs: Sequence[dict[str, Any]], job: str, many: int) -> list[Head]:
    """The heads of the highest mean score over these runs."""
    mean = torch.tensor([run[job] for run in runs]).mean(0)
    H = mean.shape[1]
    return [(int(i) // H, int(i) % H) for i in mean.flatten().topk(many).indices]


def others(studied: Studied, heads: Sequence[Head], dice: torch.Generator) -> list[Head]:
    """As many heads of the same layers, none of these, drawn by lot. Where a layer has too few
    others, the nearest one gives its own."""
    found: list[Head] = []
    for layer, _ in heads:
        far = sorted(range(len(studied.layers)), key=lambda n: abs(n - layer))
        for near in far:
            free = [(near, h) for h in range(studied.layers[near].heads)]
            free = [head for head in free if head not in heads and head not in found]
            if free:
                found.append(free[int(torch.randint(len(free), (1,), generator=dice))])
                break
    return found


def cut(studied: Studied, groups: dict[str, list[Head]], seed: int) -> dict[str, float]:
    """Nats of the second copy with some heads at their mean: as it is, without each group, and
    without as many others of the same layers."""
    rows, other = random_rows(studied, seed, B, L)
    means = torch.stack([x.mean((0, 2)) for x in seen(studied, other, maps=False).heads])
    first = len(studied.start) + L + 1
    dice = torch.Generator().manual_seed(seed)
    found = {
        "whole": losses(studied.model, rows, first).mean().item(),
        "nothing repeated": losses(studied.model, other, first).mean().item(),
    }
    for name, heads in groups.items():
        draws = {name: heads}
        for n in range(DRAWS if name != "all but the strongest" else 0):
            draws[f"{name}: others {n}"] = others(studied, heads, dice)
        for what, chosen in draws.items():
            with replaced(studied.model, {head: means[head] for head in chosen}):
                found[what] = losses(studied.model, rows, first).mean().item()
    return {name: round(nats, 4) for name, nats in found.items()}


@torch.no_grad()
def path(studied: Studied, before: list[Head], target: Head, seed: int) -> dict[str, Any]:
    """How much an induction head still looks at what followed if some earlier heads' direct ways
    into its queries, keys or values are cut; and if as many others' are."""
    rows, other = random_rows(studied, seed, B, L)
    means = torch.stack([x.mean((0, 2)) for x in seen(studied, other, maps=False).heads])
    run, (layer, head) = seen(studied, rows), target
    dice = torch.Generator().manual_seed(seed)
    early = [h for h in before if h[0] < layer]
    groups = {"previous": early} | {f"{h[0]}.{h[1]}": [h] for h in early}
    groups |= {f"others {n}": others(studied, early, dice) for n in range(DRAWS)}

    def score(weights: Tensor) -> float:
        return job_scores(studied, [weights])["induction"][0, head].item()

    found: dict[str, Any] = {"whole": round(score(run.weights[layer]), 4)}
    for name, group in groups.items():
        group = [h for h in group if h[0] < layer]
        gone = torch.zeros_like(run.stream[layer])
        for one in group:
            gone = gone + change_of(studied, run, means, one)
        ways = []
        for door in range(2):
            three = [run.stream[layer] + gone * (door == n) for n in range(3)]
            ways.append(round(score(head_from(studied, layer, *three)[1]), 4))
        found[name] = {"heads": group, "queries": ways[0], "keys": ways[1]}
    return found


def check_path(studied: Studied, target: Head) -> float:
    """The largest difference between a head made from its own stream three times and the head, and
    between what a layer adds and what the stream gained."""
    rows, _ = random_rows(studied, 0, 2, L)
    run, layer = seen(studied, rows), target[0]
    heads, weights = head_from(studied, layer, *[run.stream[layer]] * 3)
    block = studied.model.body.blocks[layer]
    gained = block.get_submodule("attention")(run.stream[layer], mask=causal) - run.stream[layer]
    return max(
        (heads - run.heads[layer]).abs().max().item(),
        (weights - run.weights[layer]).abs().max().item(),
        (added(studied, layer, run.heads[layer]) - gained).abs().max().item(),
    )


@torch.no_grad()
def attention_maps(studied: Studied, sentence: str) -> dict[str, Any]:
    """All maps on one sentence, a byte for each weight (255 is all of it), in base64."""
    tokens = studied.batch([sentence])
    weights = torch.stack(seen(studied, tokens).weights)[:, 0]  # (layers, H, T, T)
    data = (weights * 255).round().to(torch.uint8).numpy().tobytes()
    return {
        "tokens": [studied.word(t) for t in tokens[0].tolist()],
        "shape": list(weights.shape),
        "maps": base64.b64encode(data).decode(),
    }


def share_of_first(studied: Studied) -> list[list[float]]:
    """The mean weight of each head on the first token of a page of documentation."""
    page = studied.tokens(text.load("python-docs").validation[:2000])[:256]
    tokens = torch.tensor([[*studied.start, *page]])
    weights = torch.stack(seen(studied, tokens).weights)[:, 0]
    return rounded(weights[..., 10:, 0].mean(-1), 3)


def study_of(studied: Studied, runs: Any) -> dict[str, Any]:
    """All about one model."""
    name, seeds = studied.name, tuple(STUDY.reporting_seeds)
    found: dict[str, Any] = {
        "scores": [runs.get(f"{name}/scores/{s}", partial(scores, studied, s)) for s in seeds]
    }
    five = best(found["scores"], "induction", FIVE if name == "gemma" else 1)
    earlier = [h for h in best(found["scores"], "previous", FIVE) if h[0] < five[0][0]]
    groups = {"induction": five, "all but the strongest": five[1:], "the strongest": five[:1]}
    groups["previous"] = earlier
    groups = {key: heads for key, heads in groups.items() if heads}
    found["groups"] = {key: [list(h) for h in heads] for key, heads in groups.items()}
    found["cut"] = [
        runs.get(f"{name}/cut/{s}", partial(cut, studied, groups, s)) for s in seeds[:3]
    ]
    found["target"] = list(five[0])
    found["exact"] = runs.get(f"{name}/exact", partial(check_path, studied, five[0]))
    found["path"] = [
        runs.get(f"{name}/path/{s}", partial(path, studied, earlier, five[0], s)) for s in seeds[:3]
    ]
    found["first on a page"] = runs.get(f"{name}/page", partial(share_of_first, studied))
    return found


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {studied.name: study_of(studied, runs) for studied in both()}
    found["sentence"] = runs.get("sentence", partial(attention_maps, gemma(), SENTENCE))
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
