"""The instruments of a training run, read on a fixed batch of held-out text."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.block import Block
from attnbook.inside.watch import watch
from attnbook.losses import token_loss
from attnbook.transformer import LanguageModel
from bookkit.experiments.clinic.recipe import CONTEXT, Recipe, targets

Batch = tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]
WATCHED = 16  # sequences whose attention weights are kept


def entropy(weights: Float[Tensor, "*batch Tq Tk"]) -> Float[Tensor, "*batch Tq"]:
    """How widely each query looks: the entropy of its row of weights, in nats.

    0 if one key has all, ln n if n keys share alike. Zhai et al. 2023, section 3.
    """
    return torch.special.entr(weights).sum(-1)


def spread(weights: Float[Tensor, "*batch Tq Tk"]) -> float:
    """Mean `entropy` as a share of the highest possible, ln of the keys seen; in 0 … 1.

    Queries that see fewer than eight keys are left out.
    """
    seen = (weights > 0).sum(-1).clamp(min=2)
    shares = entropy(weights) / seen.log()
    return shares[..., 8:].mean().item()


@contextmanager
def outputs(model: nn.Module, kind: type[nn.Module]) -> Iterator[list[Tensor]]:
    """Inside this context, what each part of this kind returned, in the order of the calls."""
    found: list[Tensor] = []
    hooks = [
        part.register_forward_hook(lambda *call: found.append(call[-1]))
        for part in model.modules()
        if isinstance(part, kind)
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def dead(activations: list[Float[Tensor, "B T F"]]) -> float:
    """The share of units that are zero at every token; one tensor a layer."""
    units = torch.cat([(x <= 0).flatten(0, -2).all(0) for x in activations])
    return units.double().mean().item()


@torch.no_grad()
def used(model: LanguageModel, batch: Batch) -> float:
    """The loss as it is in use, in nats: only the past is given, and the next token is wanted."""
    x, y = batch
    places = (CONTEXT // 2, CONTEXT)
    parts = [token_loss(model(x[:, :t])[:, -1], y[:, t - 1]) for t in places]
    return (sum(parts, torch.tensor(0.0)) / len(parts)).item()


@torch.no_grad()
def read(model: LanguageModel, recipe: Recipe, batch: Batch) -> dict[str, float]:
    """What the instruments show on held-out text, for a model in evaluation mode.

    Losses in nats: "held out", by the recipe's own code, and "in use"; the root mean square of the
    last block's output, "stream"; the mean `spread` of the heads, "entropy"; and "dead" units.
    """
    x, y = batch
    found = {"held out": token_loss(model(x), targets(recipe, x, y)).item()}
    found["in use"] = used(model, batch)
    with watch(model) as seen, outputs(model, nn.ReLU) as active, outputs(model, Block) as stream:
        model(x[:WATCHED])
    found["stream"] = stream[-1].square().mean().sqrt().item()
    found["entropy"] = sum(spread(weights) for weights in seen.values()) / len(seen)
    return found | {"dead": dead(active)}
