"""Each kind of parallelism on the example, held against one process, and its bytes counted."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import nn

from attnbook.losses import parameters, token_loss
from attnbook.parallel import count, example
from attnbook.parallel.collectives import all_reduce
from attnbook.parallel.context import in_order, ring_model
from attnbook.parallel.data import average_gradients, share
from attnbook.parallel.experts import ExpertParallel, expert_model
from attnbook.parallel.pipeline import Stage, run
from attnbook.parallel.sharded import ShardedAdam, parts_of, sharded_model
from attnbook.parallel.tensor import split_model
from attnbook.parallel.wire import Wire
from attnbook.transformer import LanguageModel

Cut = Callable[[Wire, LanguageModel], nn.Module]
Claim = dict[str, float | int]
VECTORS = example.B * example.T * example.C
MICRO = 4


def loss_of(model: nn.Module, batch: example.Batch) -> float:
    """The mean loss; gradients are added to the model's."""
    tokens, targets = batch
    loss = token_loss(model(tokens), targets)
    loss.backward()
    return loss.item()


def expected(start: LanguageModel) -> tuple[float, LanguageModel]:
    """One process: its loss, and a model whose weights are the gradients."""
    model = copy.deepcopy(start)
    loss = loss_of(model, example.batch())
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.zeros_like(weight) if weight.grad is None else weight.grad)
    return loss, model


def held(
    wire: Wire, start: LanguageModel, cut: Cut,
    step: Callable[[Wire, Any], tuple[float, int]],
) -> Claim:  # fmt: skip
    """Cut the model, do `step`, which returns this process' loss and the bytes of the formula, and
    compare: gradients with those of one process, cut in the same way."""
    mine, before = cut(wire, start), wire.sent
    loss, formula = step(wire, mine)
    sent = wire.sent - before
    wanted, gradients = expected(start)
    gaps = [abs(loss / wanted - 1)]
    theirs = cut(wire, gradients).parameters()
    for weight, gradient in zip(mine.parameters(), theirs, strict=True):
        found = torch.zeros_like(weight) if weight.grad is None else weight.grad
        gaps.append((found - gradient).abs().max().item())
    return {"apart": max(gaps), "sent": sent, "formula": formula, "kept": parameters(mine)}


def mean(wire: Wire, loss: float) -> float:
    """The mean loss of all; these few bytes are not counted."""
    before = wire.sent
    total = all_reduce(wire, torch.tensor(loss)).item()
    wire.sent = before
    return total / wire.size


def parts(wire: Wire, axis: int = 0) -> example.Batch:
    """This process's part of the batch, which is cut along `axis`."""
    tokens, targets = example.batch()
    return share(wire, tokens, axis), share(wire, targets, axis)


def data(wire: Wire) -> Claim:
    """The batch is cut."""

    def step(wire: Wire, model: LanguageModel) -> tuple[float, int]:
        loss = loss_of(model, parts(wire))
        average_gradients(wire, model)
        return mean(wire, loss), count.data(parameters(model), wire.size)

    return held(wire, example.decoder(), lambda wire, start: copy.deepcopy(start), step)


def optimizer(wire: Wire) -> Claim:
    """ZeRO 1: Adam's numbers are cut. What is compared are the gradients that they get."""
    start = example.decoder()
    model, before = copy.deepcopy(start), wire.sent
    adam = ShardedAdam(wire, model, 0.001)
    loss = mean(wire, loss_of(model, parts(wire)))
    adam.step()
    formula, sent = count.sharded(parameters(start), wire.size, 1), wire.sent - before
    wanted, gradients = expected(start)
    theirs = parts_of(list(gradients.parameters()), wire.size)[wire.rank]
    assert adam.mine.grad is not None
    gap = max(abs(loss / wanted - 1), (adam.mine.grad - theirs).abs().max().item())
    return {"apart": gap, "sent": sent, "formula": formula, "kept": parameters(model)}


def weights(wire: Wire, keep: bool = False) -> Claim:
    """ZeRO 3: weights are cut; with `keep`, ZeRO 2: gradients are."""

    def step(wire: Wire, model: LanguageModel) -> tuple[float, int]:
        loss = loss_of(model, parts(wire))
        N = parameters(example.decoder())
        return mean(wire, loss), count.sharded(N, wire.size, 2 if keep else 3)

    return held(wire, example.decoder(), partial(sharded_model, keep=keep), step)


def tensor(wire: Wire) -> Claim:
    """Every matrix is cut; all read the whole batch."""

    def step(wire: Wire, model: LanguageModel) -> tuple[float, int]:
        loss = loss_of(model, example.batch())
        return loss, count.tensor(VECTORS, wire.size, example.LAYERS)

    return held(wire, example.decoder(), split_model, step)


def pipeline(wire: Wire) -> Claim:
    """The stack is cut, and the batch into micro-batches."""

    def step(wire: Wire, stage: Stage) -> tuple[float, int]:
        pieces = list(zip(*(part.chunk(MICRO) for part in example.batch()), strict=True))
        loss = run(wire, stage, pieces, token_loss, example.C).loss
        return wire.size * mean(wire, loss), count.pipeline(VECTORS, wire.size, wire.rank)

    return held(wire, example.decoder(), lambda wire, start: Stage(wire, start), step)


def context(wire: Wire) -> Claim:
    """The text is cut: keys and values go around, and the gradients of the weights are averaged."""

    def step(wire: Wire, model: LanguageModel) -> tuple[float, int]:
        loss = loss_of(model, parts(wire, axis=1))
        average_gradients(wire, model)
        vectors = count.context(VECTORS, wire.size, example.LAYERS)
        return mean(wire, loss), vectors + count.data(parameters(model), wire.size)

    where = in_order(wire.size, example.T)
    return held(wire, example.decoder(), partial(ring_model, where=where), step)


def experts(wire: Wire) -> Claim:
    """Experts are cut; each process has a part of the batch, and the rest of the model whole."""

    def step(wire: Wire, model: LanguageModel) -> tuple[float, int]:
        loss, vectors = loss_of(model, parts(wire)), 0
        rest = nn.ModuleList([model.embed, model.body.norm, model.lm_head])
        for block in model.body.blocks:
            attention, network = (block.get_submodule(n) for n in ("attention", "feedforward"))
            mixture = cast(ExpertParallel, network.sublayer)
            vectors += count.experts(*mixture.travelled, example.C, wire.size)
            rest += [attention, cast(nn.Module, network.norm), mixture.router]
            for weight in mixture.experts.parameters():
                if weight.grad is not None:
                    weight.grad /= wire.size  # the losses of all were summed here
        average_gradients(wire, rest)
        return mean(wire, loss), vectors + count.data(parameters(rest), wire.size)

    return held(wire, example.mixture(), expert_model, step)


CLAIMS: dict[str, Callable[[Wire], Claim]] = {
    "data": data,
    "ZeRO 1": optimizer,
    "ZeRO 2": partial(weights, keep=True),
    "ZeRO 3": weights,
    "tensor": tensor,
    "pipeline": pipeline,
    "context": context,
    "experts": experts,
}


def everything(wire: Wire) -> dict[str, Claim]:
    """All of them, one after the other."""
    return {name: hold(wire) for name, hold in CLAIMS.items()}
