"""LoRA: leave the weights as they are and learn what to add to them, as a product of thin matrices.

A map of R × C numbers learns with rank r only r (R + C) of them. Hu et al. 2022.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.quantise.rounding import QuantisedLinear
from attnbook.train.optimizers import HEADS, INPUTS


class LowRank(nn.Module):
    """A linear map that stays, and beside it one through `rank` numbers that learns.

    base(x) + (alpha / rank) · up(down(x)), where `up` starts at 0, so the sum starts as `base`.
    Hu et al. 2022, section 4.1. `base` may be a `QuantisedLinear` (Dettmers et al. 2023, QLoRA).
    """

    def __init__(
        self,
        base: nn.Linear | QuantisedLinear,
        rank: int,
        alpha: float = 16.0,
        dropout: float = 0.0,
    ):
        super().__init__()
        if not 1 <= rank <= min(base.in_features, base.out_features):
            raise ValueError(
                f"a map from {base.in_features} to {base.out_features} numbers has ranks from 1 to "
                f"{min(base.in_features, base.out_features)}; got {rank}"
            )
        like = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.base, self.scale = base.requires_grad_(False), alpha / rank
        self.down = nn.Linear(base.in_features, rank, bias=False, **like)
        self.up = nn.Linear(rank, base.out_features, bias=False, **like)
        self.dropout = nn.Dropout(dropout)
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)

    in_features = property(lambda self: self.base.in_features)
    out_features = property(lambda self: self.base.out_features)
    bias = property(lambda self: self.base.bias)

    @property
    def weight(self) -> Float[Tensor, "R C"]:
        """The one matrix that does the same, without dropout."""
        return self.base.weight + self.scale * self.up.weight @ self.down.weight

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch R"]:
        return self.base(x) + self.scale * self.up(self.down(self.dropout(x)))


def hidden(name: str, part: nn.Module) -> bool:
    """Is this map neither the input's nor the head? "All linear layers" in the field's words."""
    return not (INPUTS | HEADS) & set(name.split("."))


def wrap(
    model: nn.Module,
    rank: int,
    where: Callable[[str, nn.Module], bool] = hidden,
    alpha: float = 16.0,
    dropout: float = 0.0,
) -> nn.Module:
    """The model, changed in place: what learns is a `LowRank` beside each map that `where` chooses.

    All layers at the same total size are better than attention alone, and take about ten times the
    rate of full training (Schulman et al. 2025, "LoRA without regret").
    """
    if adapters(model):
        raise ValueError("the model has low-rank parts already: merge them first")
    chosen: dict[nn.Linear | QuantisedLinear, list[str]] = {}
    for name, part in model.named_modules(remove_duplicate=False):
        if isinstance(part, (nn.Linear, QuantisedLinear)) and where(name, part):
            chosen.setdefault(part, []).append(name)
    if not chosen:
        raise ValueError("no linear map was chosen: nothing would learn")
    made = {part: LowRank(part, rank, alpha, dropout) for part in chosen}
    model.requires_grad_(False)
    for part, names in chosen.items():
        made[part].train(model.training)
        for name in names:
            model.set_submodule(name, made[part])
    return model


def adapters(model: nn.Module) -> dict[str, LowRank]:
    """Every low-rank part by its name."""
    found = model.named_modules(remove_duplicate=False)
    return {name: part for name, part in found if isinstance(part, LowRank)}


@torch.no_grad()
def merge(model: nn.Module) -> dict[str, LowRank]:
    """Put one plain map in place of each `LowRank`: the model is as large and fast as before.

    Returns what was taken out; `unmerge` puts it back exactly.
    """
    taken = adapters(model)
    few = [name for name, part in taken.items() if not isinstance(part.base, nn.Linear)]
    if few:
        raise ValueError(
            f"{few[0]} is stored in few bits: a sum would have to be rounded again; merge into the "
            "model as it was before"
        )
    made: dict[int, nn.Linear] = {}
    for name, part in taken.items():
        if id(part) not in made:
            plain = nn.Linear(part.in_features, part.out_features, bias=part.bias is not None)
            plain.weight = nn.Parameter(part.weight, requires_grad=False)
            if part.bias is not None:
                plain.bias = part.bias
            made[id(part)] = plain.train(part.training)
        model.set_submodule(name, made[id(part)])
    return taken


def unmerge(model: nn.Module, taken: dict[str, LowRank]) -> nn.Module:
    """The model, changed in place, with the low-rank parts that `merge` took out of it."""
    for name, part in taken.items():
        there = model.get_submodule(name)
        if not isinstance(there, nn.Linear) or there.weight.shape != part.base.weight.shape:
            raise ValueError(f"{name} is not a map that this low-rank part was taken from")
    for name, part in taken.items():
        model.set_submodule(name, part)
    return model


def learnt(model: nn.Module) -> dict[str, Tensor]:
    """The low-rank parts' weights alone, a small `state_dict`: what a task adds to the model."""
    return {
        f"{name}.{key}": tensor
        for name, part in adapters(model).items()
        for key, tensor in part.state_dict().items()
        if not key.startswith("base.")
    }


@torch.no_grad()
def load_learnt(model: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    """Fill the low-rank parts with what `learnt` gave; ValueError unless names and shapes fit."""
    here = learnt(model)
    for name in here | state:
        shapes = [
            tuple(known[name].shape) if name in known else "absent" for known in (here, state)
        ]
        if shapes[0] != shapes[1]:
            raise ValueError(f"{name}: {shapes[0]} in the model, {shapes[1]} in what is loaded")
    for name, tensor in here.items():
        tensor.copy_(state[name])
    return model
