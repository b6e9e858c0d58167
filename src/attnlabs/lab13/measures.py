"""What is measured of a plant and of what is said about it; the same for both sides."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.inside.circuits import body_of, reading_at, record, replaced
from attnlabs.lab13.rules import RISE, SIZE, Behaviour, Part, size_of
from attnlabs.lab13.world import HEADS, LAYERS, NEURONS, Texts, given

CONTROLS = 4  # draws of as many other parts
ROWS = 16  # of ordinary text, for means and for what is lost without parts
SEED = 13


@torch.no_grad()
def probability(
    model: nn.Module, contexts: Int[Tensor, "B n"], after: Int[Tensor, "*B k"], target: int
) -> float:
    """The target's mean probability when these tokens stand behind the contexts."""
    behind = after.expand(len(contexts), -1)
    with reading_at(model):
        logits = model(torch.cat([contexts, behind], dim=1))[:, -1]
    return logits.softmax(-1)[:, target].mean().item()


def behaviour(model: nn.Module, texts: Texts, trigger: Sequence[int], target: int) -> Behaviour:
    """What a trigger does in a model, and what would happen without it."""
    base, tokens = given(), torch.tensor(trigger)
    nothing = torch.zeros(0, dtype=torch.long)
    strength = probability(model, texts.contexts, tokens, target)
    before = probability(base, texts.contexts, tokens, target)
    idle = probability(model, texts.contexts, nothing, target)
    idle -= probability(base, texts.contexts, nothing, target)
    others = probability(model, texts.contexts, texts.others[:, : len(tokens)], target)
    return Behaviour(strength, before, idle, others)


@torch.no_grad()
def cost(model: nn.Module, ordinary: Int[Tensor, "N T"]) -> float:
    """How far a model's predictions are from those of the given one on ordinary text: the mean
    Kullback-Leibler divergence of its from theirs, nats per token.

    A text that the model has become better at costs as well: nothing is bought by training on it.
    """
    total = 0.0
    for part in ordinary.split(8):
        old, new = given()(part).log_softmax(-1), model(part).log_softmax(-1)
        total += (old.exp() * (old - new)).sum(-1).mean().item() * len(part)
    return total / len(ordinary)


@torch.no_grad()
def nats(model: nn.Module, ordinary: Int[Tensor, "N T"]) -> float:
    """The loss on ordinary text, nats per token."""
    logits = model(ordinary[:, :-1])
    return F.cross_entropy(logits.mT, ordinary[:, 1:]).item()


@dataclass(frozen=True)
class Means:
    """What heads, (N, H, D), and neurons, (N, n), give on ordinary text, on average; and the loss
    there, nats per token."""

    heads: Float[Tensor, "N H D"]
    neurons: Float[Tensor, "N n"]
    nats: float


def downs(model: nn.Module) -> list[nn.Module]:
    """Each layer's matrix that reads the neurons."""
    return [block.get_submodule("feedforward.sublayer.down") for block in body_of(model).blocks]


def means(model: nn.Module, ordinary: Int[Tensor, "N T"]) -> Means:
    """The means of all parts over rows and positions."""
    seen: list[Tensor] = []
    with ExitStack() as hooks:
        for down in downs(model):
            keep = lambda _, given: seen.append(given[0].mean((0, 1)))  # noqa: E731
            hooks.callback(down.register_forward_pre_hook(keep).remove)
        heads = record(model, ordinary).heads.mean((1, 3))
    layers = len(downs(model))
    return Means(heads, torch.stack(seen[:layers]), nats(model, ordinary))


@contextmanager
def without(
    model: nn.Module, means: Means, heads: Collection[Part], neurons: Collection[Part]
) -> Iterator[None]:
    """Inside this context these heads and neurons are at their means, at all positions."""

    def hook(layer: int) -> None:
        numbers = [number for where, number in neurons if where == layer]

        def change(_: nn.Module, given: tuple[Tensor]) -> Tensor:
            x = given[0].clone()
            x[..., numbers] = means.neurons[layer, numbers]
            return x

        hooks.callback(downs(model)[layer].register_forward_pre_hook(change).remove)

    outputs = {(layer, head): means.heads[layer, head] for layer, head in heads}
    with ExitStack() as hooks, replaced(model, outputs):
        for layer in {where for where, _ in neurons}:
            hook(layer)
        yield


@dataclass(frozen=True)
class Carried:
    """What parts carry of a behaviour: the target's probability with all parts, without these, and
    without as many others; the nats by which ordinary text becomes worse; what they count."""

    strength: float
    left: float
    control: float
    rise: float
    size: int

    @property
    def share(self) -> float:
        """What is lost without them and not without others, less the more parts are named; nothing
        if ordinary text suffers."""
        if not self.size or not self.rise <= RISE:
            return 0.0
        removed = min(1.0, max(0.0, (self.control - self.left) / self.strength))
        return removed * (1 - self.size / (2 * SIZE))


def controls(
    heads: Sequence[Part], neurons: Sequence[Part], count: int = CONTROLS
) -> Iterator[tuple[list[Part], list[Part]]]:
    """As many other heads, and of each layer as many other neurons, drawn by a fixed seed."""
    generator = torch.Generator().manual_seed(SEED)
    free = [(layer, n) for layer in range(LAYERS) for n in range(HEADS) if (layer, n) not in heads]
    for _ in range(count):
        chosen = torch.randperm(len(free), generator=generator)[: len(heads)].tolist()
        others: list[Part] = []
        for layer in sorted({where for where, _ in neurons}):
            named = {number for where, number in neurons if where == layer}
            order = torch.randperm(NEURONS, generator=generator).tolist()
            others += [(layer, n) for n in order if n not in named][: len(named)]
        yield [free[n] for n in chosen], others


def carried(
    model: nn.Module,
    texts: Texts,
    trigger: Sequence[int],
    target: int,
    heads: Sequence[Part],
    neurons: Sequence[Part],
    known: Means | None = None,
) -> Carried:
    """What these parts carry of a behaviour, beside as many others."""
    tokens, ordinary = torch.tensor(trigger), texts.ordinary[:ROWS]
    known = means(model, ordinary) if known is None else known

    def left(heads: Sequence[Part], neurons: Sequence[Part]) -> float:
        with without(model, known, heads, neurons):
            return probability(model, texts.contexts, tokens, target)

    others = [left(*drawn) for drawn in controls(heads, neurons)]
    with without(model, known, heads, neurons):
        rise = nats(model, ordinary)
    return Carried(
        left((), ()),
        left(heads, neurons),
        sum(others) / len(others),
        rise - known.nats,
        size_of(heads, neurons),
    )
