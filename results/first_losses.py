"""What does a first loss say: the right target, the input, a leak; with tied embeddings or not?

    python results/first_losses.py        # some minutes on one core

Question. Before its first step a model should lose ln V. Which mistakes does a look at that number
find? In particular: a target that was not shifted (the input itself), with tied embeddings, at
GPT-2's size with its own first weights, and in the small model of the clinic.
Budget. No training: one forward pass of 256 random tokens at GPT-2's size (124 million
parameters), of 16 windows of 64 for the small ones (width 48, four blocks, 94 symbols).
Grid. None. Reporting seeds 0 to 4 draw first weights and tokens; 0 to 2 at GPT-2's size.
Baselines. ln V; the same model with the next token as target.
No gain. A mistake does not show if the interval of the paired difference to the next token as
target contains 0, or if it is smaller than 0.1 nats, which is what an eye finds in a log.
"""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnbook import device
from attnbook.losses import token_loss
from attnbook.models.gpt2 import gpt2
from attnbook.provenance import provenance, write
from attnbook.transformer import initialise, normal
from bookkit.results.protocol import Runs, Study, committed
from bookkit.results.statistics import difference

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "first_losses.json"
STUDY = Study(
    name="first losses",
    question="Does the first loss show a target that was not shifted, with tied embeddings?",
    budget="no training; one forward pass",
    reporting_seeds=range(5),
    baselines=("ln V", "the next token as target"),
    no_gain="the difference to the next token as target is below 0.1 nats",
)

TARGETS = ("next token", "the input", "next token, mask lets it through")


def small(seed: int, scaled: bool, together: bool) -> nn.Module:
    """The clinic's size, drawn as the clinic draws; `together` ties the output layer."""
    torch.manual_seed(seed)
    std = 0.02 * math.sqrt(768 / 48)
    draw = partial(normal, depth=4 if scaled else None, std=std)
    model = initialise(gpt2(94, 64, 48, 4, 4, dropout=0.0), draw, embedding_std=std)
    return model if together else untied(model, 94, 48, std)


def published(seed: int, scaled: bool, together: bool) -> nn.Module:
    """GPT-2's size and vocabulary."""
    torch.manual_seed(seed)
    model = gpt2(dropout=0.0)
    if not scaled:
        initialise(model, normal)
    return model if together else untied(model, 50_257, 768, 0.02)


def untied(model: nn.Module, V: int, width: int, std: float) -> nn.Module:
    """The same with an output layer of its own, drawn as the embedding is."""
    model.lm_head = nn.Linear(width, V, bias=False)
    nn.init.normal_(model.lm_head.weight, std=std)
    return model


SIZES: dict[str, tuple[Callable[..., nn.Module], int, tuple[int, int]]] = {
    "GPT-2": (published, 50_257, (1, 256)),
    "clinic": (small, 94, (16, 64)),
}


@torch.no_grad()
def first(size: str, scaled: bool, together: bool, seed: int) -> dict[str, float]:
    """The first loss with each target, in nats."""
    build, V, shape = SIZES[size]
    model: Any = build(seed, scaled, together).eval()
    B, T = shape
    tokens = torch.randint(V, (B, T + 1), generator=torch.Generator().manual_seed(seed))
    x, y = tokens[:, :-1], tokens[:, 1:]
    leak = torch.ones(T, T, dtype=torch.bool).tril(1)
    leaking = model.lm_head(model.body(model.embed(x), mask=leak))
    logits = model(x)
    found = token_loss(logits, y), token_loss(logits, x), token_loss(leaking, y)
    return {name: round(nats.item(), 4) for name, nats in zip(TARGETS, found, strict=True)}


def main() -> None:
    torch.set_num_threads(1)
    said = committed()
    here = device.choose(0)
    runs = Runs(Path(__file__).parent / "first_losses.draft", write)
    table: dict[str, Any] = {}
    for size, (_, V, _) in SIZES.items():
        for together in (True, False):
            for scaled in (True, False):
                words = f"{size}, {'tied' if together else 'untied'}"
                words += "" if scaled else ", first weights not scaled with depth"

                def one(
                    seed: int, w: str = words, a: tuple[str, bool, bool] = (size, scaled, together)
                ) -> Any:
                    return runs.get(f"{w}/{seed}", lambda: first(*a, seed))

                found = STUDY.report(
                    one, list(STUDY.reporting_seeds)[: 3 if size == "GPT-2" else 5]
                )
                each = {name: [one[name] for one in found] for name in TARGETS}
                right = each[TARGETS[0]]
                apart = {
                    name: difference(each[name], right, paired=True).as_dict()
                    for name in TARGETS[1:]
                }
                table[words] = {"ln V": round(math.log(V), 4), "losses": each, "apart": apart}
    result = {"study": STUDY.declared() | {"declared": said}, "table": table}
    write(STORE, result | {"runs": runs.found, "provenance": provenance(here, "scipy")})
    runs.draft.unlink()


if __name__ == "__main__":
    main()
