"""A mixture of experts: many feed-forward networks, of which each token is worked on by a few."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

Choice = tuple[Float[Tensor, "N E"], Float[Tensor, "N A"], Int[Tensor, "N A"]]


class Router(nn.Linear):
    """A linear map to a number per expert; what a choice makes of the numbers is a subclass.

    Called, it gives the numbers; `choose` gives each token's chances with all experts, the shares
    of the `active` that are chosen, and which these are.
    """

    def __init__(self, width: int, experts: int, active: int, bias: bool = False):
        if not 1 <= active <= experts:
            raise ValueError(f"a token cannot go to {active} of {experts} experts")
        super().__init__(width, experts, bias=bias)
        self.active = active

    def choose(self, tokens: Float[Tensor, "N C"]) -> Choice:
        """Chances with all experts, shares of the chosen ones, and their numbers."""
        raise NotImplementedError(f"{type(self).__name__} does not say whom a token goes to")


class SoftmaxTopK(Router):
    """The likeliest experts of a softmax over all; their chances are scaled to sum to 1.

    Jiang et al. 2024, section 2.1 (Mixtral). With `sum_to_one=False` they stay as they are, as in
    OLMoE and Qwen2-MoE. They are multiplied by `factor`. With `groups`, only experts of the `kept`
    best groups can be chosen: the best of a group stands for it. DeepSeek-AI 2024 (V2), section
    2.2.2.
    """

    def __init__(
        self,
        width: int,
        experts: int,
        active: int,
        sum_to_one: bool = True,
        factor: float = 1.0,
        groups: int = 1,
        kept: int = 1,
    ):
        super().__init__(width, experts, active)
        check_groups(experts, active, groups, kept)
        self.sum_to_one, self.factor = sum_to_one, factor
        self.groups, self.kept = groups, kept

    def choose(self, tokens: Float[Tensor, "N C"]) -> Choice:
        chances = self(tokens).softmax(-1)
        chosen = mask_other_groups(chances, self.groups, self.kept, 1).topk(self.active).indices
        share = chances.gather(1, chosen)
        share = share / share.sum(-1, keepdim=True) if self.sum_to_one else share
        return chances, share if self.factor == 1 else self.factor * share, chosen


class TopKSoftmax(Router):
    """The experts with the largest numbers, then a softmax over these alone, with a bias (gpt-oss).

    In exact arithmetic it gives the shares of `SoftmaxTopK`. Shazeer et al. 2017, equation 3.
    """

    def __init__(self, width: int, experts: int, active: int, bias: bool = True):
        super().__init__(width, experts, active, bias)

    def choose(self, tokens: Float[Tensor, "N C"]) -> Choice:
        logits = self(tokens)
        best, chosen = logits.topk(self.active)
        return logits.softmax(-1), best.softmax(-1), chosen


class TopKSigmoid(Router):
    """The experts with the largest numbers, each of which counts by its own sigmoid (Llama 4)."""

    def choose(self, tokens: Float[Tensor, "N C"]) -> Choice:
        logits = self(tokens)
        best, chosen = logits.topk(self.active)
        return logits.sigmoid(), best.sigmoid(), chosen


class SigmoidTopK(Router):
    """Each expert is asked by itself, by a sigmoid; `correction` helps to choose and does not
    count.

    The chosen experts' sigmoids are scaled to sum to `factor`. With `groups`, only experts of the
    `kept` best groups can be chosen: the two best of a group stand for it. `correction` is no
    weight: `BiasBalance` moves it. DeepSeek-AI 2024 (V3), equations 12 to 16.
    """

    def __init__(
        self,
        width: int,
        experts: int,
        active: int,
        factor: float = 1.0,
        groups: int = 1,
        kept: int = 1,
    ):
        super().__init__(width, experts, active)
        check_groups(experts, active, groups, kept)
        if groups > 1 and experts // groups < 2:
            raise ValueError(f"{groups} groups of {experts} experts have no two best ones")
        self.factor, self.groups, self.kept = factor, groups, kept
        self.register_buffer("correction", torch.zeros(experts))

    def choose(self, tokens: Float[Tensor, "N C"]) -> Choice:
        chances = self(tokens).sigmoid()
        wanted = chances.detach() + self.correction
        wanted = mask_other_groups(wanted, self.groups, self.kept, 2)
        chosen = wanted.topk(self.active).indices
        share = chances.gather(1, chosen)
        return chances, self.factor * share / (share.sum(-1, keepdim=True) + 1e-20), chosen


def mask_other_groups(
    wanted: Float[Tensor, "N E"], groups: int, kept: int, best: int
) -> Float[Tensor, "N E"]:
    """Experts of all groups but the `kept` best are wanted least of all; for a group stands the sum
    of its `best`."""
    if kept == groups:
        return wanted
    by_group = wanted.unflatten(-1, (groups, -1))  # (N groups each)
    first = by_group.topk(best).values.sum(-1).topk(kept).indices
    out = torch.ones_like(by_group[..., 0], dtype=torch.bool).scatter(1, first, False)
    return by_group.masked_fill(out[..., None], -torch.inf).flatten(1)


def check_groups(experts: int, active: int, groups: int, kept: int) -> None:
    """Raise a ValueError unless so many experts can be chosen from the groups that are kept."""
    if groups < 1 or experts % groups or not 1 <= kept <= groups:
        raise ValueError(f"{experts} experts cannot keep {kept} of {groups} groups")
    if kept * experts // groups < active:
        raise ValueError(
            f"{kept} of {groups} groups leave no {active} of {experts} experts to choose"
        )


class Corrected(Protocol):
    """A router whose choice can be corrected, such as `SigmoidTopK`."""

    correction: Float[Tensor, " E"]


@runtime_checkable
class Counted(Protocol):
    """A layer that tells, if wanted, whom its tokens have chosen: a mixture of experts."""

    training: bool
    router: Corrected
    tally: Callable[[Int[Tensor, "N A"]], None] | None


class BiasBalance:
    """Loss-free load balancing: lowers the routing bias of overloaded experts by `rate`, raises the
    others'.

    Call `step` after each of the optimizer's. Only tokens seen in training mode count. Wang et al.
    2024, "Auxiliary-loss-free load balancing", algorithm 1.
    """

    def __init__(self, model: nn.Module, rate: float = 1e-3):
        layers = [part for part in model.modules() if isinstance(part, Counted)]
        self.layers = [layer for layer in layers if hasattr(layer.router, "correction")]
        if not self.layers:
            raise ValueError(f"no router in this {type(model).__name__} has a correction")
        self.rate, self.loads = rate, [torch.zeros_like(x.router.correction) for x in self.layers]
        for number, layer in enumerate(self.layers):
            layer.tally = Tally(self, number)

    def count(self, number: int, chosen: Int[Tensor, "N A"]) -> None:
        """Note whom the tokens of a layer have chosen."""
        if self.layers[number].training:
            load = self.loads[number] = self.loads[number].to(chosen.device)
            load.index_add_(0, chosen.flatten(), load.new_ones(chosen.numel()))

    @torch.no_grad()
    def step(self) -> None:
        """Move the corrections, and begin to count anew."""
        for layer, load in zip(self.layers, self.loads, strict=True):
            layer.router.correction += self.rate * (load.mean() - load).sign()
            load.zero_()


class Tally:
    """Tells a balance whom the tokens of one layer have chosen."""

    def __init__(self, balance: BiasBalance, number: int):
        self.balance, self.number = balance, number

    def __call__(self, chosen: Int[Tensor, "N A"]) -> None:
        self.balance.count(self.number, chosen)


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
        self.on_weights: Callable[[Tensor], None] | None = None  # called with the probabilities
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
        if self.on_weights is not None:
            self.on_weights(chances.view(*x.shape[:-1], -1))
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
