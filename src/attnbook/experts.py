"""A mixture of experts: many feed-forward networks, of which each token is worked on by a few."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.routing import Router, SoftmaxTopK

Run = Callable[
    [nn.ModuleList, Float[Tensor, "N C"], Float[Tensor, "N A"], Int[Tensor, "N A"]],
    Float[Tensor, "N C"],
]


def by_expert(
    experts: nn.ModuleList,
    tokens: Float[Tensor, "N C"],
    share: Float[Tensor, "N A"],
    chosen: Int[Tensor, "N A"],
    before: bool = False,
) -> Float[Tensor, "N C"]:
    """Expert after expert works on the tokens that chose it: no more work than is needed.

    How many those are must be known, so each expert waits for a GPU once. What is multiplied with
    the shares are the answers, or the tokens, `before` the experts see them (Llama 4).
    """
    output = torch.zeros_like(tokens)
    for e, expert in enumerate(experts):
        token, place = (chosen == e).nonzero(as_tuple=True)  # whoever chose this expert
        given, part = tokens[token], share[token, place, None]
        answer = expert((part * given).to(given.dtype)) if before else part * expert(given)
        output.index_add_(0, token, answer.to(tokens.dtype))
    return output


def everybody(
    experts: nn.ModuleList,
    tokens: Float[Tensor, "N C"],
    share: Float[Tensor, "N A"],
    chosen: Int[Tensor, "N A"],
) -> Float[Tensor, "N C"]:
    """Every expert works on every token, and most shares are zero: E/A times the work, but sizes
    that depend on no number. For few experts, meta tensors, `vmap`."""
    shares = share.new_zeros(tokens.shape[0], len(experts)).scatter(1, chosen, share)  # (N E)
    answers = [shares[:, e, None] * expert(tokens) for e, expert in enumerate(experts)]
    return torch.stack(answers).sum(0).to(tokens.dtype)


class MixtureOfExperts(nn.Module):
    """Several feed-forward networks; a router sends each token to the `active` best of them.

    Weights grow with the number of experts, the work of a token does not. `experts` are modules
    that keep the width. Shazeer et al. 2017, section 2; unless another `router` is given, the
    best share a softmax as in Jiang et al. 2024, section 2.1. A `shared` expert works on every
    token (Dai et al. 2024, DeepSeekMoE, section 3.2). `run` says in which order the work is done.
    """

    def __init__(
        self,
        experts: Sequence[nn.Module],
        width: int | None = None,
        active: int = 2,
        router: Router | None = None,
        shared: nn.Module | None = None,
        run: Run = by_expert,
    ):
        super().__init__()
        self.experts = nn.ModuleList(experts)
        if router is None:
            if width is None:
                raise ValueError("a mixture needs a width, or a router")
            router = SoftmaxTopK(width, len(experts), active)
        if router.out_features != len(experts):
            raise ValueError(
                f"a router for {router.out_features} experts does not fit {len(experts)}"
            )
        self.router, self.shared, self.run = router, shared, run
        self.see: Callable[[Tensor], None] | None = None  # called with the chances, if wanted
        self.tally: Callable[[Tensor], None] | None = None  # called with the chosen, if wanted

    @property
    def active(self) -> int:
        """How many experts work on a token, the shared one not counted."""
        return self.router.active

    @active.setter
    def active(self, number: int) -> None:
        self.router.active = number

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        tokens = x.reshape(-1, x.shape[-1])  # (N C)
        chances, share, chosen = self.router.choose(tokens)  # (N E), (N A), (N A)
        if self.see is not None:
            self.see(chances.view(*x.shape[:-1], -1))
        if self.tally is not None:
            self.tally(chosen)
        output = self.run(self.experts, tokens, share, chosen).view_as(x)
        return output if self.shared is None else output + self.shared(x)


class GatedExpert(nn.Module):
    """A shared expert that each token takes as much of as it wants (Qwen2-MoE, Qwen3-Next)."""

    def __init__(self, expert: nn.Module, width: int):
        super().__init__()
        self.expert, self.gate = expert, nn.Linear(width, 1, bias=False)

    def forward(self, x: Float[Tensor, "*batch C"]) -> Float[Tensor, "*batch C"]:
        return self.gate(x).sigmoid() * self.expert(x)


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
    gradient: it falls where the share is large. `active` is not the least: with uneven work the
    loss is below it if the busy experts are chosen by a hair. Fedus et al. 2022, equations 4 to 6.
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
