"""Attribution: what every part is worth, without a run for each.

`attribution_patching` estimates all patches of a model by one gradient; `head_attribution` splits a
difference of logits among the heads that wrote it, without a gradient. What they find is an
estimate: `attnbook.inside.circuits.replaced` makes the patch itself.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.inside.circuits import (
    Head,
    Recorded,
    attentions,
    body_of,
    first,
    share,
    written,
)
from attnbook.norms import Times


@dataclass(frozen=True)
class Attributed:
    """How much a measure would change, by row, if one vector were that of another run.

    `heads[l, b, h, t]` is for the output of a head at a position, `stream[l, b, t]` for the
    residual stream before layer `l`, and `stream[N]` for the one that is read out.
    """

    heads: Float[Tensor, "N B H T"]
    stream: Float[Tensor, "N1 *S B T"]


def attribution_patching(
    model: nn.Module,
    tokens: Tensor,
    other: Recorded,
    measure: Callable[[Tensor], Tensor],
    *given: Tensor,
) -> Attributed:
    """Every activation patch at once, to first order: (vector of the other run − vector of this
    run) · gradient of the measure here.

    `tokens` are those of the run that would be patched, `other` is the `record` of the run that the
    vectors would be taken from, `measure(logits)` a number for all rows or one for each. The
    estimate is exact where the measure is linear in the vector, and poor where a softmax or a norm
    saturates. Nanda 2023, "Attribution patching"; Kramár et al. 2024, "AtP*", section 2.
    """
    layers, blocks = attentions(model), body_of(model).blocks
    stream: list[Tensor] = []
    heads: list[Tensor] = []

    def begin(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        if stream:  # a block that is called again
            return inputs
        stream.append(inputs[0].detach().requires_grad_())  # what is before needs no gradient
        return stream[0], *inputs[1:]

    with ExitStack() as hooks, torch.enable_grad():
        hooks.callback(blocks[0].register_forward_pre_hook(begin).remove)
        for block, layer in dict.fromkeys(zip(blocks, layers, strict=True)):  # shared ones once
            keep_heads = lambda _, inputs: heads.append(inputs[0])  # noqa: E731
            keep_stream = lambda _, inputs, out: stream.append(first(out))  # noqa: E731
            hooks.callback(layer.to_out.register_forward_pre_hook(keep_heads).remove)
            hooks.callback(block.register_forward_hook(keep_stream).remove)
        total = measure(model(tokens, *given)).sum()
        found = torch.autograd.grad(total, [*stream, *heads])
    if other.stream.shape[1:] != stream[0].shape:
        here, there = tuple(stream[0].shape), tuple(other.stream.shape[1:])
        raise ValueError(f"the other run is of {there}, this one of {here}: (B, T, C) must agree")
    slopes, by_head = torch.stack(found[: len(stream)]), torch.stack(found[len(stream) :])
    H = layers[0].heads
    now, slope = (
        x.detach().unflatten(-1, (H, -1)).transpose(2, 3) for x in (torch.stack(heads), by_head)
    )  # each (N B H T D)
    return Attributed(
        ((other.heads - now) * slope).sum(-1),
        ((other.stream - torch.stack(stream).detach()) * slopes).sum(-1),
    )


@torch.no_grad()
def head_attribution(
    model: nn.Module, run: Recorded, direction: Float[Tensor, "*B V"]
) -> Float[Tensor, "N B H T"]:
    """What each head's output adds, by itself and directly, to a weighted sum of the logits at its
    position: direct logit attribution.

    `direction` are the weights, such as 1 for one token and −1 for another, (V,) or (B, V). The
    last norm divides by what it divided by in the run, so that the heads, the embedding and the
    networks add up to the logits (less the biases). Wang et al. 2023, section 3.1; Elhage et al.
    2021, "Logit attribution". Raises a ValueError if logits are bent, as by a soft cap.
    """
    vector = readout(model, direction)  # (C,) or (B C)
    vector = vector[:, None] if vector.dim() == 2 else vector
    norm, last = body_of(model).norm, run.stream[-1]

    def direct(head: Head) -> Float[Tensor, "B T"]:
        added = written(model, head, run.heads[head[0]][:, head[1]], run)
        return (share(norm, added, last) * vector).sum(-1)

    by_layer = [
        torch.stack([direct((number, head)) for head in range(layer.heads)], 1)
        for number, layer in enumerate(attentions(model))
    ]
    return torch.stack(by_layer)


def readout(model: nn.Module, direction: Float[Tensor, "*B V"]) -> Float[Tensor, "*B C"]:
    """The vector that the normed stream is multiplied with for this sum of the logits."""
    head = getattr(model, "lm_head", None)
    parts = list(head) if isinstance(head, nn.Sequential) else [head]
    if not isinstance(parts[0], nn.Linear) or not all(isinstance(p, Times) for p in parts[1:]):
        raise ValueError("logits are not one linear map of the stream: no head has a share in them")
    factor = 1.0
    for part in parts[1:]:
        assert isinstance(part, Times)
        factor *= part.factor
    return factor * direction @ parts[0].weight
