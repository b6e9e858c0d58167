"""What are the parts of a published model worth in it: norms of queries and keys, windows, norms?

    ATTNBOOK_GEMMA=folder python results/real/switched_parts.py

Question. How large are the scores with the norms of queries and keys and without; what does text
cost if one kind of part is switched; how many bytes does its cache take; and how does a *bank* by a
river become another than one that lends money, block by block?
Budget. Two rows of 400 tokens of chapters of this book for the losses and the scores; 1,200 tokens
for the cache; six sentences of each sense for the word.
Baselines. The model as it is; a cache without windows; a head of keys for each head of queries; the
word *bank* in other sentences of the same sense.
Nothing found. No part changes the loss by more than 0.05 nats; two banks of one sense are no nearer
to each other than two of different senses.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from prose import prose
from real_model import Studied, around, begin, body, finish, gemma, losses, rounded, seen
from torch import Tensor, nn

from attnbook.attention import Attention, Projection
from attnbook.masks import causal, local
from bookkit.results.protocol import Study

STUDY = Study(
    name="parts",
    question="What are the parts of a published model worth in it?",
    budget="two rows of 400 tokens; 1,200 tokens for the cache; twelve sentences",
    reporting_seeds=range(1),
    baselines=("the model as it is", "a cache without windows", "sentences of the same sense"),
    no_gain="no part changes the loss by more than 0.05 nats",
)
ROWS, T = 2, 400
LENGTHS = (256, 512, 1200)
RIVER = (
    "They sat down on the grass of the river and walked along the bank",
    "The boat drifted across the water until it reached the bank",
    "After the flood the river had washed away the bank",
    "Reeds and willows grew by the stream all along the bank",
    "The fisherman pulled his net out of the river onto the bank",
    "Two swans swam slowly through the water towards the bank",
)
MONEY = (
    "He needed a loan for his house and went to the bank",
    "She put all of her savings and her salary into the bank",
    "After the crash nobody trusted the money of the bank",
    "The company owed interest and fees to the bank",
    "The robbers wanted the cash and drove to the bank",
    "You can pay the bill by cheque or at the bank",
)


def rows() -> Tensor:
    """Two rows of the prose, (2, T + 1), the start included."""
    studied = gemma()
    ids = torch.tensor(studied.tokens(prose()))[: ROWS * T].view(ROWS, T)
    return torch.cat((torch.tensor(studied.start).expand(ROWS, -1), ids), 1)


def projection(part: Attention) -> Projection:
    """The map to queries, keys and values, with its norms."""
    assert isinstance(part.project, Projection)
    return part.project


class Scaled(nn.Module):
    """All vectors times one number: what a norm does to them on average, and no more."""

    def __init__(self, factor: Tensor):
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


@torch.no_grad()
def score_sizes() -> dict[str, list[float]]:
    """Standard deviation of the scores in each layer, as they are and without the norms of queries
    and keys, by the usual divisor, the root of the width; and the largest of each."""
    studied = gemma()
    found: dict[str, list[float]] = {"normed": [], "plain": []}
    found |= {"normed, largest": [], "plain, largest": []}
    run = seen(studied, rows(), maps=False)
    i = torch.arange(T + 1)
    past = i[:, None] >= i
    for block, x in zip(studied.model.body.blocks, run.stream, strict=False):
        before, part, _ = around(block)
        project = projection(part)
        q, k, _ = project.to_qkv(before(x)).split(project.widths, -1)
        D = project.D
        q, k = (y.unflatten(-1, (-1, D)).transpose(1, 2) for y in (q, k))
        assert project.q_norm is not None and project.k_norm is not None
        assert part.rotate is not None
        normed = project.q_norm(q), project.k_norm(k)
        for name, (one, other) in (("normed", normed), ("plain", (q, k))):
            scores = (part.rotate(one, 0) @ part.rotate(other, 0).mT / D**0.5)[..., past]
            found[name].append(round(scores.std().item(), 2))
            found[f"{name}, largest"].append(round(scores.abs().max().item(), 1))
    return found


@contextmanager
def changed(change: Callable[[int, nn.Module], list[tuple[Any, str, Any]]]) -> Iterator[None]:
    """Inside this context some parts are others: (owner, name, part) for each block."""
    kept = []
    for n, block in enumerate(gemma().model.body.blocks):
        for owner, name, part in change(n, block):
            kept.append((owner, name, getattr(owner, name)))
            setattr(owner, name, part)
    try:
        yield
    finally:
        for owner, name, part in reversed(kept):
            setattr(owner, name, part)


def sizes_of_norms() -> dict[tuple[int, str], Tensor]:
    """By which number each norm multiplies the vectors on average: the root of what comes out over
    what goes in, over all positions."""
    studied, found, hooks = gemma(), {}, []

    def keep(key: tuple[int, str]) -> Callable[..., None]:
        def note(_: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
            found[key] = (out.square().mean() / given[0].square().mean()).sqrt()

        return note

    for n, block in enumerate(studied.model.body.blocks):
        _, part, _ = around(block)
        for name in ("q_norm", "k_norm"):
            norm = projection(part).get_submodule(name)
            hooks.append(norm.register_forward_hook(keep((n, name))))
        for name in ("attention", "feedforward"):
            norm = block.get_submodule(f"{name}.after")
            hooks.append(norm.register_forward_hook(keep((n, name))))
    with torch.no_grad():
        body(studied.model, rows())
    for hook in hooks:
        hook.remove()
    return found


def switched(which: str) -> float:
    """Nats of a token with one kind of part switched in all blocks."""
    factors = sizes_of_norms() if which.startswith("norms") else {}

    def change(n: int, block: nn.Module) -> list[tuple[Any, str, Any]]:
        _, part, _ = around(block)
        if which == "norms of queries and keys: one factor":
            names = ("q_norm", "k_norm")
            return [(part.project, name, Scaled(factors[n, name])) for name in names]
        if which == "norms behind the parts: one factor":
            names = ("attention", "feedforward")
            return [
                (block.get_submodule(name), "after", Scaled(factors[n, name])) for name in names
            ]
        kind, _, reach = which.partition(" see ")
        if reach and (kind == "full layers") == (part.pattern is None):
            return [(part, "pattern", local(int(reach)))]
        return []

    with changed(change):
        return round(losses(gemma().model, rows()).mean().item(), 4)


PARTS = (
    "nothing",
    "norms of queries and keys: one factor",
    "norms behind the parts: one factor",
    "windows see 128",
    "full layers see 128",
    "windows see 16",
    "full layers see 16",
)


@torch.no_grad()
def cache_bytes() -> dict[str, Any]:
    """Bytes of the caches after so many tokens, in 32 bits, counted in what they hold."""
    studied, found = gemma(), {}
    ids = studied.tokens(prose())
    for length in LENGTHS:
        caches = studied.model.caches()
        tokens = torch.tensor([[*studied.start, *ids][:length]])
        x = studied.model.embed(tokens)
        studied.model.body(x, mask=causal, caches=caches)
        held = [
            sum(t.numel() * t.element_size() for t in vars(cache).values() if torch.is_tensor(t))
            for cache in caches
        ]
        found[str(length)] = {"bytes": sum(held), "windows": held[0], "full": held[5]}
    return found


@torch.no_grad()
def two_banks(studied: Studied) -> dict[str, Any]:
    """After each layer: how alike the last word of two sentences is, of one sense and of two, as a
    mean cosine, all less the mean of all twelve; and how often the nearest sentence is of its own
    sense."""
    ends = [
        torch.stack([x[0, -1] for x in seen(studied, studied.batch([text]), maps=False).stream])
        for text in (*RIVER, *MONEY)
    ]
    found: dict[str, Any] = {"one sense": [], "two senses": [], "nearest is of its sense": []}
    n = len(RIVER)
    own = torch.eye(2).repeat_interleave(n, 0).repeat_interleave(n, 1).bool()
    for vectors in torch.stack(ends, 1):
        x = nn.functional.normalize(vectors - vectors.mean(0), dim=-1)
        cosines = x @ x.T
        cosines = cosines.fill_diagonal_(float("nan"))
        found["one sense"].append(rounded(cosines[own].nanmean(), 3))
        found["two senses"].append(rounded(cosines[~own].nanmean(), 3))
        nearest = cosines.nan_to_num(-2).argmax(1)
        right = own[torch.arange(2 * n), nearest].float().mean()
        found["nearest is of its sense"].append(rounded(right, 3))
    first = found["one sense"][0]
    if first != first:  # before the first layer all twelve are one vector
        found["one sense"][0] = found["two senses"][0] = None
    return found


def main() -> None:
    said, runs = begin(STUDY, __file__)
    found: dict[str, Any] = {
        "banks": runs.get("banks", partial(two_banks, gemma())),
        "scores": runs.get("scores", score_sizes),
        "cache": runs.get("cache", cache_bytes),
        "switched": {which: runs.get(which, partial(switched, which)) for which in PARTS},
        "layers": [
            "full" if layer.pattern is None else layer.pattern.reach for layer in gemma().layers
        ],
    }
    finish(STUDY, said, runs, found)


if __name__ == "__main__":
    main()
