"""Does one gradient say what a patch does in a published model, and how curved is the way there?

    ATTNBOOK_GEMMA=folder python results/real/attribution.py

Question. The sentences of `indirect_objects.py`, once as they are and once with the other name
where the first one is repeated: *When Mary and John went to the store, Mary gave a drink to*. The
vector of that one token, before each layer, goes from its value (α = 0) to that of the other text
(α = 1). By how much does the lead of the right name change on the way, what did its gradient at
α = 0 foresee, and what does the mean of five gradients foresee, taken while the embeddings go from
one text to the other (integrated gradients)? And which of the 72 heads would one gradient have
named, whose patches `indirect_objects.py` has made one by one?
Budget. 32 prompts, every third layer, six values of α; the 32 prompts that chose the heads.
Baselines. The patch itself; a hundredth of the way, divided by 0.01, which is what the gradient has
to be.
Nothing found. Before each layer the gradient has the sign of the patch and more than half of its
size, and less than twice: then nothing is curved that matters. A hundredth of the way differs from
the gradient by more than a twentieth: then the gradient is wrong.
"""

import json
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import torch
from indirect_objects import CHOOSING, ahead, drawn
from real_model import STORE, begin, finish, gemma, rounded
from scipy.stats import spearmanr
from torch import Tensor

from attnbook.inside.attribution import Attributed, attribution_patching
from attnbook.inside.circuits import Recorded, edited, reading_at, record
from attnbook.masks import causal
from bookkit.results.protocol import Study
from bookkit.results.statistics import interval

STUDY = Study(
    name="attribution",
    question="Does one gradient say what a patch does, and how curved is the way there?",
    budget="32 prompts, every third layer, six values of α; 32 others for the 72 heads",
    reporting_seeds=range(1),
    baselines=("the patch itself", "a hundredth of the way, divided by 0.01"),
    no_gain="everywhere the sign of the patch, and between half and twice its size",
)
REPORTING = (0, 8)  # seed, and prompts of each template
PARTS = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0)  # α
STEPS = 5  # gradients of an integral
GUESSES = ("one gradient", "five gradients")
LARGE = 0.1  # logits: of a change whose sign is counted
Group = Mapping[str, Any]


def swapped(group: Group) -> tuple[Tensor, int]:
    """The prompts with the other name where the first one is repeated, and where that is."""
    pairs = zip(group["tokens"], group["wrong"], strict=True)
    (place,) = {int((row == name).nonzero()[-1]) for row, name in pairs}  # in all of a template
    tokens = group["tokens"].clone()
    tokens[:, place] = group["right"]
    return tokens, place


def lead(group: Group, logits: Tensor) -> Tensor:
    """How far the right name is ahead at the end, (B,)."""
    pair = torch.stack((group["right"], group["wrong"]), 1)
    right, wrong = logits[:, -1].gather(1, pair).unbind(1)
    return right - wrong


def one_gradient(group: Group, other: Recorded) -> Attributed:
    """The estimate of all patches by the gradient in the prompts as they are."""
    with reading_at(gemma().model):
        return attribution_patching(gemma().model, group["tokens"], other, partial(lead, group))


def integrated(group: Group, run: Recorded, other: Recorded) -> Attributed:
    """The same with the mean of five gradients, while the embeddings go from one text to the other.

    What is estimated for the far end less what is estimated for the near one is the whole
    difference times the gradient on the way.
    """
    heads, stream = torch.zeros(run.heads.shape[:-1]), torch.zeros(run.stream.shape[:-1])
    for step in range(STEPS):
        gone = (step + 0.5) / STEPS * (other.stream[0] - run.stream[0])
        with edited(gemma().model, 0, partial(torch.add, gone)):
            far, near = (one_gradient(group, end) for end in (other, run))
        heads += (far.heads - near.heads) / STEPS
        stream += (far.stream - near.stream) / STEPS
    return Attributed(heads, stream)


def recorded(tokens: Tensor) -> Recorded:
    with reading_at(gemma().model):
        return record(gemma().model, tokens)


@torch.no_grad()
def patched(group: Group, run: Recorded, other: Recorded, place: int, layer: int) -> Tensor:
    """The lead with the vector of one token at its start and on its way, (1 + parts, B)."""
    model, found = gemma().model, []
    way = other.stream[layer][:, place] - run.stream[layer][:, place]
    for part in (0.0, *PARTS):
        x = run.stream[layer].clone()
        x[:, place] += part * way
        for block in model.body.blocks[layer:]:
            x = block(x, mask=causal)
        found.append(ahead(group, model.body.norm(x[:, -1])))
    return torch.stack(found)


@cache
def groups() -> list[tuple[dict[str, Any], Recorded, Recorded, int]]:
    """The reporting prompts, what was seen in them and in the swapped ones, and the place."""
    found = []
    for group in drawn(*REPORTING):
        tokens, place = swapped(group)
        found.append((group, recorded(group["tokens"]), recorded(tokens), place))
    return found


def before(layer: int) -> dict[str, Any]:
    """Changes of the lead by the vector of the repeated name before this layer: on the way, and as
    the estimates foresee them."""
    leads = torch.cat([patched(*one, layer) for one in groups()], 1)
    changes = leads[1:] - leads[0]  # (parts, prompts)
    found: dict[str, Any] = {"patched": rounded(changes.mean(1)), "all the way": ends(changes[-1])}
    all_of = {name: torch.cat([one[name][layer] for one in estimates()]) for name in GUESSES}
    for name, each in all_of.items():
        found[name] = {
            "mean": round(each.mean().item(), 4),
            "same sign": share(each.sign() == changes[-1].sign()),
            "too much": ends(each - changes[-1]),
        }
    foreseen = PARTS[0] * all_of["one gradient"].mean()
    return found | {"a hundredth by the gradient": round((changes[0].mean() / foreseen).item(), 3)}


def share(hits: Tensor) -> float:
    return round(hits.float().mean().item(), 3)


def ends(values: Tensor) -> list[float]:
    """A mean and its interval."""
    found = interval(values.tolist())
    return [round(x, 4) for x in (found.mean, found.low, found.high)]


@cache
def estimates() -> list[dict[str, Tensor]]:
    """For each template what the gradients foresee at the repeated name, (layers + 1, B)."""
    return [
        {name: guess.stream[:, :, place] for name, guess in both(group, run, other).items()}
        for group, run, other, place in groups()
    ]


def both(group: Group, run: Recorded, other: Recorded) -> dict[str, Attributed]:
    guesses = one_gradient(group, other), integrated(group, run, other)
    return dict(zip(GUESSES, guesses, strict=True))


def heads() -> dict[str, Any]:
    """By how much the lead falls without a head, as one gradient foresees it, (layers, H), beside
    what `indirect_objects.py` measured."""
    stored = json.loads((STORE / "real_indirect_objects.json").read_text("utf-8"))
    measured, each = torch.tensor(stored["fall"]), []
    for group in drawn(*CHOOSING):
        guess = one_gradient(group, recorded(group["other"]))
        each.append(-guess.heads.sum(-1).mean(1))  # (layers, H)
    fall, large = torch.stack(each).mean(0), measured.abs() > LARGE
    return {
        "fall": rounded(fall),
        "order": round(float(spearmanr(fall.flatten(), measured.flatten())[0]), 3),
        "of the first eight": len(top(fall) & top(measured)),
        "large": int(large.sum()),
        "same sign, large": share((fall.sign() == measured.sign())[large]),
    }


def top(fall: Tensor) -> set[int]:
    """The eight heads whose loss costs most."""
    return set(fall.flatten().topk(8).indices.tolist())


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {"parts": list(PARTS), "before layer": {}}
    for n in range(0, len(gemma().layers), 3):
        found["before layer"][str(n)] = runs.get(f"layer/{n}", partial(before, n))
    found["heads"] = runs.get("heads", heads)
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
