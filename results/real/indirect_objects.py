"""Which heads of a published model find the indirect object, and are they enough?

    ATTNBOOK_GEMMA=folder python results/real/indirect_objects.py

Question. *When Mary and John went to the store, John gave a drink to*: by how much is the logit of
the name that stands once ahead of the one that stands twice, which heads does this need, and do
these heads alone, all others hearing another text, still do it?
Budget. Four sentences in both orders of the names; 32 prompts choose the heads, one at a time, and
64 others, with other draws of names, report what sets of 1 to 32 heads do.
Baselines. As many heads of the same layers drawn by lot (two draws), removed and kept; all heads
hearing another text; for eight heads also their mean in place of the other text.
Nothing found. The interval of the lead contains 0; or the heads that were chosen are needed no
more, or are enough no more, than those drawn by lot.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from head_jobs import others
from real_model import (
    Seen,
    begin,
    body,
    change_of,
    finish,
    gemma,
    logits_at,
    seen,
)
from torch import Tensor

from attnbook.inside.circuits import Head, replaced
from attnbook.masks import causal
from bookkit.results.protocol import Study
from bookkit.results.statistics import interval

STUDY = Study(
    name="indirect_objects",
    question="Which heads find the indirect object, and are they enough?",
    budget="32 prompts choose the heads, 64 others report",
    reporting_seeds=range(1),
    baselines=("heads of the same layers drawn by lot", "all heads hear another text"),
    no_gain="the chosen heads are needed, or enough, no more than heads drawn by lot",
)
TEMPLATES = (
    "When {a} and {b} went to the {place}, {s} gave a {thing} to",
    "Yesterday {a} and {b} met at the {place}, and {s} handed a {thing} to",
    "After {a} and {b} left the {place}, {s} sent a {thing} to",
    "While {a} and {b} were working at the {place}, {s} offered a {thing} to",
)
NAMES = "Mary John Tom Anna Paul Emma James Sarah David Laura Peter Alice Mark Lisa Kevin Helen"
PLACES, THINGS = "store school park office station house", "drink book ring letter basket computer"
CHOOSING, REPORTING = (100, 8), (0, 16)  # seed, and prompts of each template
SIZES = (1, 2, 4, 8, 16, 32)
DRAWS = 2


def drawn(seed: int, each: int) -> list[dict[str, Any]]:
    """For each template: prompts, the same of three other names, and which name is right or wrong.

    Half of the prompts have the name that comes back first, half second.
    """
    studied, dice, found = gemma(), torch.Generator().manual_seed(seed), []

    def pick(words: str, many: int = 1) -> list[str]:
        known = words.split()
        return [known[i] for i in torch.randperm(len(known), generator=dice)[:many]]

    for template in TEMPLATES:
        texts, strange, right, wrong = [], [], [], []
        for n in range(each):
            (place,), (thing,), names = pick(PLACES), pick(THINGS), pick(NAMES, 5)
            a, b = names[:2]
            twice, once = (a, b) if n % 2 else (b, a)
            fill = partial(template.format, place=place, thing=thing)
            texts.append(fill(a=a, b=b, s=twice))
            strange.append(fill(a=names[2], b=names[3], s=names[4]))
            right.append(studied.tokens(f" {once}"))
            wrong.append(studied.tokens(f" {twice}"))
        pairs = torch.tensor(right)[:, 0], torch.tensor(wrong)[:, 0]
        assert all(len(one) == 1 for one in right + wrong)
        group: dict[str, Any] = {"right": pairs[0], "wrong": pairs[1], "texts": texts}
        group |= {"tokens": studied.batch(texts), "other": studied.batch(strange)}
        found.append(group)
    return found


@cache
def prompts(part: str) -> list[dict[str, Any]]:
    """The prompts that choose, or those that report, with what was seen in them and in the others;
    and every head's mean over the others."""
    sets = drawn(*(CHOOSING if part == "choosing" else REPORTING))
    for group in sets:
        group["run"] = seen(gemma(), group["tokens"])
        group["strange"] = seen(gemma(), group["other"], maps=False)
    means = [
        torch.stack([group["strange"].heads[n].mean((0, 2)) for group in sets]).mean(0)
        for n in range(len(gemma().layers))
    ]
    for group in sets:
        group["means"] = torch.stack(means)
    return sets


def ahead(group: Mapping[str, Any], last: Tensor) -> Tensor:
    """How far the right name's logit is ahead, from the vectors that are read out: (B,)."""
    rows = gemma().model.lm_head.get_parameter("weight")
    return (last * (rows[group["right"]] - rows[group["wrong"]])).sum(-1)


def stand_ins(group: Mapping[str, Any], heads: Sequence[Head], kind: str) -> dict[Head, Tensor]:
    """What these heads give instead: the same head's outputs in another text, or its mean."""
    if kind == "mean":
        return {head: group["means"][head] for head in heads}
    return {(n, h): group["strange"].heads[n][:, h] for n, h in heads}


@torch.no_grad()
def without(part: str, heads: Sequence[Head], kind: str = "other text") -> list[float]:
    """How far the right name is ahead in each prompt, if these heads do not hear of it. What comes
    before the first of them is as it was and is not computed again."""
    found, model = [], gemma().model
    first = min((n for n, _ in heads), default=len(gemma().layers))
    for group in prompts(part):
        x = group["run"].stream[first]
        with replaced(model, stand_ins(group, heads, kind)):
            for block in model.body.blocks[first:]:
                x = block(x, mask=causal)
        found += ahead(group, model.body.norm(x[:, -1])).tolist()
    return [round(x, 4) for x in found]


def one_by_one() -> list[list[float]]:
    """By how much the lead falls without each head alone, (layers, H), on the choosing prompts."""
    whole = torch.tensor(without("choosing", [])).mean()
    return [
        [
            round((whole - torch.tensor(without("choosing", [(n, h)])).mean()).item(), 4)
            for h in range(layer.heads)
        ]
        for n, layer in enumerate(gemma().layers)
    ]


@torch.no_grad()
def direct(part: str) -> list[list[float]]:
    """By how much the lead falls if a head's mean stands in for it on the direct way to the output
    only, (layers, H)."""
    studied = gemma()
    lost: list[list[float]] = []
    norm = studied.model.body.norm
    for n, layer in enumerate(studied.layers):
        lost.append([])
        for h in range(layer.heads):
            falls = []
            for group in prompts(part):
                run: Seen = group["run"]
                end = run.stream[-1][:, -1]
                gone = change_of(studied, run, group["means"], (n, h))[:, -1]
                falls += (ahead(group, norm(end)) - ahead(group, norm(end + gone))).tolist()
            lost[-1].append(round(sum(falls) / len(falls), 4))
    return lost


def looks(heads: Sequence[Head]) -> dict[str, dict[str, float]]:
    """Where these heads look from the last token: at the name that stands once, at the other's
    first and second place, at the first token of all; means over the reporting prompts."""
    found = {}
    for n, h in heads:
        sums: dict[str, list[float]] = {"once": [], "twice, first": [], "twice, again": []}
        sums["start"] = []
        for group in prompts("reporting"):
            weights = group["run"].weights[n][:, h, -1]
            for row, tokens, right, wrong in zip(
                weights, group["tokens"], group["right"], group["wrong"], strict=True
            ):
                first, again = (tokens == wrong).nonzero()[:, 0].tolist()
                places = (int((tokens == right).nonzero()[0, 0]), first, again, 0)
                for name, place in zip(sums, places, strict=True):
                    sums[name].append(row[place].item())
        found[f"{n}.{h}"] = {name: round(sum(x) / len(x), 3) for name, x in sums.items()}
    return found


def with_interval(leads: Sequence[float]) -> dict[str, Any]:
    """The mean lead with its interval, and how often the right name is ahead."""
    found = interval(leads)
    return {
        "lead": round(found.mean, 3),
        "interval": [round(found.low, 3), round(found.high, 3)],
        "ahead": round(sum(x > 0 for x in leads) / len(leads), 3),
    }


@torch.no_grad()
def whole() -> dict[str, Any]:
    """The model as it is, on the reporting prompts."""
    leads = without("reporting", [])
    said = [logits_at(gemma().model, group["tokens"]) for group in prompts("reporting")]
    groups = prompts("reporting")
    best = [x.argmax(-1) == group["right"] for x, group in zip(said, groups, strict=True)]
    p = [
        x.softmax(-1).gather(1, group["right"][:, None])[:, 0]
        for x, group in zip(said, groups, strict=True)
    ]
    far = [ahead(group, body(gemma().model, group["tokens"])[:, -1]) for group in groups]
    assert torch.allclose(torch.cat(far), torch.tensor(leads), atol=1e-3)
    return with_interval(leads) | {
        "leads": leads,
        "likeliest": round(torch.cat(best).float().mean().item(), 3),
        "probability": round(torch.cat(p).mean().item(), 3),
        "prompts": [text for group in groups for text in group["texts"]][::16],
    }


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {"whole": runs.get("whole", whole)}
    found["fall"] = runs.get("fall", one_by_one)
    found["direct"] = runs.get("direct", partial(direct, "reporting"))
    fall = torch.tensor(found["fall"])
    H = fall.shape[1]
    order = [(int(i) // H, int(i) % H) for i in fall.flatten().argsort(descending=True)]
    every, dice = gemma().all_heads, torch.Generator().manual_seed(0)
    found["order"] = [list(head) for head in order]
    found["looks"] = runs.get("looks", partial(looks, order[:8] + order[-2:]))
    found["none"] = with_interval(runs.get("none", partial(without, "reporting", every)))
    found["sets"] = {}
    for size in SIZES:
        sets = {"chosen": order[:size]}
        sets |= {f"lot {n}": others(gemma(), order[:size], dice) for n in range(DRAWS)}
        for name, heads in sets.items():
            rest = [head for head in every if head not in heads]
            ways = {"removed": heads, "kept": rest}
            found["sets"][f"{size} {name}"] = {
                way: with_interval(
                    runs.get(f"{size}/{name}/{way}", partial(without, "reporting", some))
                )
                for way, some in ways.items()
            }
    eight = order[:8]
    ways = {"removed": eight, "kept": [head for head in every if head not in eight]}
    found["8, means"] = {
        way: with_interval(runs.get(f"mean/{way}", partial(without, "reporting", some, "mean")))
        for way, some in ways.items()
    }
    found["names"], found["templates"] = NAMES.split(), list(TEMPLATES)
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
