"""QK-clip: after a step, a head whose scores grew too large gets smaller queries and keys."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import Attention, Projection, SplitProjection
from attnbook.scores import Score

Largest = dict[str, Float[Tensor, " H"]]


@contextmanager
def largest_scores(model: nn.Module) -> Iterator[Largest]:
    """Inside, the largest score of each head of each attention in the model is written down.

    By the layer's name, over all calls, of pairs that the mask allows. Scores are computed one by
    one there, not by the fused kernel, so look at a step now and then, or at part of a batch.
    """
    record: Largest = {}
    layers = {name: part for name, part in model.named_modules() if isinstance(part, Attention)}
    before = {name: layer.on_weights for name, layer in layers.items()}
    hooks = [watch(name, layer, record) for name, layer in layers.items()]
    try:
        yield record
    finally:
        for hook in hooks:
            hook.remove()
        for name, layer in layers.items():
            layer.on_weights = before[name]


def watch(name: str, layer: Attention, record: Largest) -> torch.utils.hooks.RemovableHandle:
    """Let a layer write its largest scores into `record` from now on."""
    scores: list[Tensor] = []

    def see(weights: Tensor) -> None:  # a weight of 0 is not the largest, or is not allowed
        seen = scores.pop().detach().masked_fill(weights == 0, -torch.inf)
        largest = seen.amax((0, 2, 3))
        record[name] = torch.maximum(record[name], largest) if name in record else largest

    layer.on_weights = see
    return layer.score.register_forward_hook(lambda _, given, out: scores.append(out))


@torch.no_grad()
def qk_clip(model: nn.Module, largest: Largest, tau: float = 100.0) -> int:
    """Shrink the queries and keys of each head whose largest score is above `tau`, to have it
    there.

    Both by the root of what is needed; of heads that share a key, the key goes as far as the
    largest asks, and the queries make up for it. Returns how many heads were clipped. Kimi team
    2025 (K2), section 2.1, with α = ½.
    """
    if not tau > 0:
        raise ValueError(f"tau is {tau}; the largest score allowed is above 0")
    projects = {name: project_of(name, model.get_submodule(name)) for name in largest}
    clipped = 0
    for name, project in projects.items():
        too_large = largest[name] > tau
        shrink(project, torch.where(too_large, tau / largest[name], 1.0))
        clipped += int(too_large.sum())
    return clipped


def shrink(project: Projection | SplitProjection, factor: Float[Tensor, " H"]) -> None:
    """Multiply the scores of each head with its factor, by way of the weights."""
    key = factor.unflatten(0, (project.kv_heads, -1)).amin(1).sqrt()  # of those that share it
    query = factor / key.repeat_interleave(project.heads // project.kv_heads)
    if isinstance(project, SplitProjection):
        rows: tuple[tuple[nn.Module, slice, Tensor], ...]
        rows = (project.to_q, slice(None), query), (project.to_k, slice(None), key)
    else:
        q, k, _ = project.widths
        rows = (project.to_qkv, slice(q), query), (project.to_qkv, slice(q, q + k), key)
    for layer, part, by in rows:
        for weight in layer.parameters(recurse=False):
            weight[part].unflatten(0, (len(by), -1)).mul_(by.view(-1, *[1] * weight.dim()))


def project_of(name: str, layer: nn.Module) -> Projection | SplitProjection:
    """The layer's projection; ValueError unless smaller weights of it make smaller scores."""
    project = getattr(layer, "project", None)
    if not isinstance(project, (Projection, SplitProjection)):
        raise ValueError(f"{name} has no projection whose queries and keys could be made smaller")
    split = isinstance(project, SplitProjection)
    maps = (project.to_q, project.to_k) if split else (project.to_qkv,)
    if not all(isinstance(layer, nn.Linear) for layer in maps):
        raise ValueError(f"{name} makes queries and keys by more than a linear map")
    if project.q_norm is not None or project.k_norm is not None:
        raise ValueError(f"{name} normalises its queries or keys: their weights' size is no matter")
    score = getattr(layer, "score", None)
    if not isinstance(score, Score) or score.cap is not None or score.relative is not None:
        raise ValueError(f"{name} caps its scores or adds to them: clipping would not be exact")
    return project
