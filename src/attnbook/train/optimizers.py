"""Optimizers for transformers: Muon for the hidden matrices, another one for everything else.

Which number of a model is of which kind decides its rate, its decay and its optimizer: `kinds`.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.optimizer import ParamsT

Closure = Callable[[], Tensor | float]
Loss = Tensor | float | None
INPUTS = {"embed", "source_embed", "target_embed", "positions", "patches"}
HEADS = {"lm_head", "classifier"}


def loss_of(closure: Closure | None) -> Loss:
    """What a step's closure computes, if there is one; with gradients, which a step has not."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def orthogonalise(
    matrices: Float[Tensor, "*batch R C"], steps: int = 5
) -> Float[Tensor, "*batch R C"]:
    """Nearly the closest matrix with orthonormal rows (or columns): every direction equally long.

    Five steps of a polynomial in X Xᵀ take all singular values into 0.7 to 1.2, except those that
    are almost zero: no decomposition, only products. Jordan et al. 2024, on Muon, with their
    coefficients.
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    X = matrices.mT if tall else matrices
    X = X / X.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        G = X @ X.mT
        X = 3.4445 * X + (2.0315 * G @ G - 4.7750 * G) @ X
    return X.mT if tall else X


class Muon(Optimizer):
    """Steepest descent when a step is measured by its largest effect: the momentum, orthogonalised.

    For hidden matrices only. A step is as long as a typical one of Adam, 0.2 · √max(R, C) · lr
    (Liu et al. 2025, equation 4), so Adam's rates and decays serve. A fused matrix is several: the
    group's `rows`, for instance (C, C, C) for queries, keys and values, says where to cut it.
    `precision` is the type to compute in, bfloat16 on a GPU; the gradient's own if None.
    Otherwise as `torch.optim.Muon(adjust_lr_fn="match_rms_adamw")`.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.02,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
        precision: torch.dtype | None = None,
    ):
        for name, value, low in (("lr", lr, 0), ("weight_decay", weight_decay, 0)):
            if not value >= low:
                raise ValueError(f"{name} is {value}; a number of at least {low} is needed")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum is {momentum}; a number from 0 to below 1 is needed")
        settings = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, settings | {"rows": None, "precision": precision})
        for group in self.param_groups:
            check_matrices(group["params"], group["rows"])

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Loss:  # type: ignore[override]  # overloads
        loss = loss_of(closure)
        for group in self.param_groups:
            found = [weight for weight in group["params"] if weight.grad is not None]
            updates = [self.direction(w, w.grad, group["momentum"]) for w in found]
            if group["precision"] is not None:
                updates = [update.to(group["precision"]) for update in updates]
            for weight, update in zip(found, orthogonal(updates, group["rows"]), strict=True):
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(update, alpha=-group["lr"])
        return loss

    def direction(self, weight: Tensor, grad: Tensor, momentum: float) -> Tensor:
        """Where to go, before it is orthogonalised: Nesterov's look ahead along the momentum."""
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(grad)
        state["momentum_buffer"].lerp_(grad, 1 - momentum)
        return grad.lerp(state["momentum_buffer"], momentum)


def orthogonal(updates: list[Tensor], rows: tuple[int, ...] | None) -> list[Tensor]:
    """Each update orthogonalised, part by part, and scaled; parts of one shape all at once."""
    parts = [update.split(rows or update.shape[-2], -2) for update in updates]
    done: dict[int, Tensor] = {}
    for shape in dict.fromkeys(part.shape for cut in parts for part in cut):
        alike = [part for cut in parts for part in cut if part.shape == shape]
        scaled = orthogonalise(torch.stack(alike)) * 0.2 * max(shape[-2:]) ** 0.5
        done |= {id(part): new for part, new in zip(alike, scaled, strict=True)}
    return [torch.cat([done[id(part)] for part in cut], -2) for cut in parts]


def check_matrices(weights: list[Tensor], rows: tuple[int, ...] | None) -> None:
    """Raise a ValueError unless Muon can work on each: a matrix, as high as its parts together."""
    for weight in weights:
        if weight.dim() < 2:
            raise ValueError(
                f"Muon works on matrices; got a tensor of shape {tuple(weight.shape)}: "
                "vectors belong to Adam"
            )
        if rows is not None and sum(rows) != weight.shape[-2]:
            raise ValueError(f"parts of {tuple(rows)} rows do not make up {weight.shape[-2]} rows")


class Together(Optimizer):
    """Several optimizers, each for weights of its own, that behave as one.

    Groups, state and `state_dict` are those of all of them in order, so training loops, schedules
    and checkpoints need not know.
    """

    def __init__(self, *optimizers: Optimizer):
        if not optimizers:
            raise ValueError("needs at least 1 optimizer; got none")
        self.optimizers = optimizers
        super().__init__([group for each in optimizers for group in each.param_groups], {})
        for each in optimizers:
            self.state.update(each.state)
        self.share()

    def share(self) -> None:
        """Let every part work on this optimizer's groups and state."""
        groups = iter(self.param_groups)
        for each in self.optimizers:
            each.state = self.state
            each.param_groups = [next(groups) for _ in each.param_groups]

    def step(self, closure: Closure | None = None) -> Loss:  # type: ignore[override]  # overloads
        loss = loss_of(closure)
        for each in self.optimizers:
            each.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.share()

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"optimizers": self.optimizers}


def muon_and_adamw(
    model: nn.Module,
    lr: float = 0.02,
    rest: float = 0.005,
    weight_decay: float = 0.0,
    precision: torch.dtype | None = None,
) -> Together:
    """Muon with rate `lr` for the hidden matrices, AdamW with rate `rest` for all other weights.

    Fused maps of queries, keys and values are cut in three for Muon. Only matrices decay.
    """
    found, cuts = kinds(model), fused_rows(model)
    if not found["matrices"]:
        raise ValueError("the model has no hidden matrix that can be trained: nothing for Muon")
    by_rows: dict[tuple[int, ...] | None, list[Tensor]] = {}
    for weight in found["matrices"]:
        by_rows.setdefault(cuts.get(id(weight)), []).append(weight)
    matrices = [{"params": weights, "rows": rows} for rows, weights in by_rows.items()]
    first = Muon(matrices, lr, weight_decay, precision=precision)
    others = [weight for kind in ("embeddings", "gains", "head") for weight in found[kind]]
    if not others:
        return Together(first)
    return Together(first, AdamW(others, lr=rest, betas=(0.9, 0.95), weight_decay=0.0))


def groups(
    model: nn.Module, lr: float, weight_decay: float = 0.0, growth: float = 1.0
) -> list[dict[str, Any]]:
    """Groups for Adam or AdamW, by kind of weight: matrices and the head decay, nothing else does.

    `growth` is how many times wider the model is than the one for which `lr` was found: matrices'
    and head's rates are divided by it, as in μP (Yang et al. 2021, table 3). That is its part of
    the rates only: `attnbook.train.mup.maximal_update` has the start and the scores. AdamW's decay
    is times the rate, so it shrinks with it; the authors' package multiplies it by the growth.
    """
    if not growth > 0:
        raise ValueError(f"growth is {growth}; how many times wider is a number above 0")
    grown = ("matrices", "head")
    return [
        {
            "name": kind,
            "params": weights,
            "lr": lr / growth if kind in grown else lr,
            "weight_decay": weight_decay if kind in grown else 0.0,
        }
        for kind, weights in kinds(model).items()
        if weights
    ]


def kinds(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Every weight that can be trained, by kind: `matrices`, `embeddings`, `gains` or `head`.

    `gains` have one axis: of norms, and biases. `embeddings` are tables and what else turns input
    into vectors. `head` is the last map, to the vocabulary or to classes; a tied one is an
    embedding. `matrices` are all other linear maps.
    """
    inputs, heads, linear = set(), set(), set()
    for name, part in model.named_modules():
        place = name.split(".")
        if isinstance(part, nn.Embedding) or INPUTS & set(place):
            inputs |= {id(weight) for weight in part.parameters(recurse=False)}
        elif isinstance(part, nn.Linear):
            linear.add(id(part.weight))
        if place[-1] in HEADS:
            maps = [layer for layer in part.modules() if isinstance(layer, nn.Linear)]
            heads |= {id(layer.weight) for layer in maps[-1:]}
    found: dict[str, list[nn.Parameter]] = {
        kind: [] for kind in ("matrices", "embeddings", "gains", "head")
    }
    for weight in model.parameters():
        if weight.requires_grad:
            found[kind_of(weight, inputs, heads, linear)].append(weight)
    return found


def kind_of(weight: Tensor, inputs: set[int], heads: set[int], linear: set[int]) -> str:
    """The kind of one weight, given which ones belong to inputs, to heads and to linear maps."""
    if weight.dim() < 2:
        return "gains"
    if id(weight) in inputs or id(weight) not in linear:
        return "embeddings"
    return "head" if id(weight) in heads else "matrices"


def fused_rows(model: nn.Module) -> dict[int, tuple[int, ...]]:
    """By a weight's id, how many rows its parts have: of each map `to_qkv`, in its `widths`."""
    fused = ((getattr(x, "to_qkv", None), getattr(x, "widths", None)) for x in model.modules())
    return {
        id(map_.weight): tuple(widths)
        for map_, widths in fused
        if isinstance(map_, nn.Linear) and widths is not None
    }
