"""Feed-forward networks: what each position does alone, after attention has mixed them."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class MLP(nn.Module):
    """Widen, bend, narrow: the same two linear maps at every position.

    Vaswani et al. 2017, equation 2, with ReLU; GPT-2 and BERT pass a GELU.
    """

    def __init__(
        self, width: int, hidden: int, activation: nn.Module | None = None, bias: bool = True
    ):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=bias)
        self.activation = activation or nn.ReLU()
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        return self.down(self.activation(self.up(x)))


class SwiGLU(nn.Module):
    """One linear map, gated by the Swish of another: down(silu(gate(x)) · up(x)), no biases.

    Shazeer 2020, equation 6. `hidden = swiglu_hidden(width)` costs as much as an MLP of 4 × width.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        return self.down(F.silu(self.gate(x)) * self.up(x))


def swiglu_hidden(width: int, multiple: int = 1) -> int:
    """The hidden size with which three matrices have the weights of an MLP's two: 8/3 of the width.

    Rounded up to a `multiple`, as accelerators like it.
    """
    if multiple < 1:
        raise ValueError(f"a multiple is at least 1; got {multiple}")
    return multiple * -(-8 * width // (3 * multiple))


class MixtureOfExperts(nn.Module):
    """A router sends each token to a few of many networks and mixes what those few answer.

    The weights grow with the number of experts, the work of a token does not. `experts` are modules
    that keep the width. Shazeer et al. 2017, section 2; the `active` best share a softmax as in
    Jiang et al. 2024, section 2.1.
    """

    def __init__(self, experts: Sequence[nn.Module], width: int, active: int = 2):
        super().__init__()
        if not 1 <= active <= len(experts):
            raise ValueError(f"a token cannot go to {active} of {len(experts)} experts")
        self.experts, self.active = nn.ModuleList(experts), active
        self.router = nn.Linear(width, len(experts), bias=False)
        self.see = None  # called with the router's chances, if anybody wants them

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        tokens = x.reshape(-1, x.shape[-1])  # (N C)
        chances = self.router(tokens).softmax(-1)  # (N E)
        if self.see is not None:
            self.see(chances.view(*x.shape[:-1], -1))
        share, chosen = chances.topk(self.active)  # (N A) both
        share = share / share.sum(-1, keepdim=True)
        output = torch.zeros_like(tokens)
        for e, expert in enumerate(self.experts):
            token, place = (chosen == e).nonzero(as_tuple=True)  # whoever chose this expert
            answer = share[token, place, None] * expert(tokens[token])
            output.index_add_(0, token, answer.to(x.dtype))
        return output.view_as(x)


def expert_shares(chances: Float[Tensor, "*batch E"], active: int) -> Float[Tensor, " E"]:
    """Which part of the tokens each expert works on. A token goes to `active`: so much is the sum.

    `chances` are the router's, for each token. Fedus et al. 2022, equation 5.
    """
    if not 1 <= active <= chances.shape[-1]:
        raise ValueError(f"a token cannot go to {active} of {chances.shape[-1]} experts")
    chosen = chances.flatten(0, -2).topk(active).indices
    return F.one_hot(chosen, chances.shape[-1]).sum(1).to(chances.dtype).mean(0)


def balance_loss(chances: Float[Tensor, "*batch E"], active: int) -> Float[Tensor, ""]:
    """How unevenly the router treats its experts: `active` if all work alike, up to E if not.

    E times the sum over experts of (share of the tokens) × (mean chance). Only the chance has a
    gradient: it falls where the share is large. Fedus et al. 2022, equations 4 to 6.
    """
    mean = chances.flatten(0, -2).mean(0)
    return chances.shape[-1] * (expert_shares(chances, active) * mean).sum()


def active_parameters(model: nn.Module) -> int:
    """How many of a model's numbers work on one token: of each mixture only the active experts."""
    idle = 0
    for part in model.modules():
        if isinstance(part, MixtureOfExperts):
            sizes = [sum(weight.numel() for weight in e.parameters()) for e in part.experts]
            if min(sizes) != max(sizes):
                raise ValueError(f"experts of {min(sizes)} and {max(sizes)} numbers: it depends")
            idle += (len(sizes) - part.active) * sizes[0]
    return sum(weight.numel() for weight in model.parameters()) - idle
