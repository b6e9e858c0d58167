"""Look into a language model while it works, and change what is found there.

A pre-norm model is a stream of vectors, one per position, that every part reads from and adds to
(Elhage et al. 2021, "A mathematical framework for transformer circuits"). `record` keeps the stream
and what each head gave; `lens` reads a stream as if the model ended there; `replaced` and `edited`
run the model with a head's output or the stream changed: ablation, activation patching, steering.
`head_from` computes one head from other streams than its own, which is what path patching needs.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import Attention
from attnbook.cache import places
from attnbook.heads import watch
from attnbook.masks import left_of
from attnbook.patterns import causal
from attnbook.transformer import LanguageModel

Head = tuple[int, int]  # layer and head, both counted from 0


@dataclass(frozen=True)
class Recorded:
    """What one run of a model left behind: N layers, H heads of width D.

    `stream[l]` is the residual stream before layer `l`, `stream[N]` the one that is read out;
    `middle[l]` is the one between attention and network; `heads[l]` are the heads' outputs before
    W^O; `weights[l]` says where they looked.
    """

    logits: Float[Tensor, "B T V"]
    stream: Float[Tensor, "N1 B T C"]
    middle: Float[Tensor, "N B T C"]
    heads: Float[Tensor, "N B H T D"]
    weights: Float[Tensor, "N B H T T"]


def attentions(model: nn.Module) -> list[Attention]:
    """The attention of each block, in order; ValueError if the model is not made of such blocks."""
    if not isinstance(model, LanguageModel):
        raise ValueError(f"needed is a LanguageModel with a stream; got {type(model).__name__}")
    found: list[Attention] = []
    for number, block in enumerate(model.body.blocks):
        part = getattr(getattr(block, "attention", None), "part", None)
        if not isinstance(part, Attention):
            raise ValueError(f"block {number} has no attention in a residual: Block(PreNorm(…), …)")
        found.append(part)
    return found


@torch.no_grad()
def record(model: LanguageModel, tokens: Int[Tensor, "B T"]) -> Recorded:
    """Run a model once and keep what went along its residual stream."""
    layers = attentions(model)
    kept: dict[str, list[Tensor]] = {"stream": [], "middle": [], "heads": []}

    def keep(name: str) -> Callable[..., None]:
        return lambda _, given, out: kept[name].append(out)

    def keep_heads(layer: nn.Module, given: tuple[Tensor]) -> None:
        kept["heads"].append(given[0].unflatten(-1, (layers[0].heads, -1)).transpose(1, 2))

    with ExitStack() as hooks, watch(model) as seen:
        for module in (model.embed, *model.body.blocks):
            hooks.callback(module.register_forward_hook(keep("stream")).remove)
        for block, layer in zip(model.body.blocks, layers, strict=True):
            wrapped = block.get_submodule("attention")
            hooks.callback(wrapped.register_forward_hook(keep("middle")).remove)
            hooks.callback(layer.to_out.register_forward_pre_hook(keep_heads).remove)
        logits = model(tokens)
    weights = torch.stack(list(seen.values()))
    return Recorded(
        logits, **{name: torch.stack(all) for name, all in kept.items()}, weights=weights
    )


def lens(model: LanguageModel, stream: Float[Tensor, "... C"]) -> Float[Tensor, "... V"]:
    """The logits that a stream would give if it were the last one: nostalgebraist's logit lens."""
    return model.to_vocab(model.body.norm(stream))


def written(
    model: LanguageModel, head: Head, output: Float[Tensor, "B T D"]
) -> Float[Tensor, "B T C"]:
    """What a head with this output adds to the stream: its own rows of W^O."""
    layer = attentions(model)[head[0]]
    check(model, head)
    weight = layer.to_out.get_parameter("weight")  # (C, H·D)
    D = weight.shape[1] // layer.heads
    return output @ weight[:, head[1] * D : (head[1] + 1) * D].T


def check(model: LanguageModel, head: Head) -> None:
    """ValueError unless the model has this head."""
    layers = attentions(model)
    if not 0 <= head[0] < len(layers) or not 0 <= head[1] < layers[head[0]].heads:
        raise ValueError(
            f"there is no head {head}: layers 0 to {len(layers) - 1}, "
            f"heads 0 to {layers[0].heads - 1}"
        )


@contextmanager
def replaced(model: LanguageModel, outputs: Mapping[Head, Tensor]) -> Iterator[None]:
    """Inside this context these heads give these outputs, (B, T, D) or what broadcasts to it.

    Zeros, or the head's mean, ablate it; its output in a run on another text is activation
    patching (Vig et al. 2020; Meng et al. 2022).
    """
    layers = attentions(model)
    for head in outputs:
        check(model, head)

    def hook(number: int) -> Callable[..., Tensor]:
        def change(layer: nn.Module, given: tuple[Tensor]) -> Tensor:
            heads = given[0].unflatten(-1, (layers[number].heads, -1)).clone()
            for (where, head), output in outputs.items():
                if where == number:
                    heads[..., head, :] = output
            return heads.flatten(-2)

        return change

    with ExitStack() as hooks:
        for number in {layer for layer, _ in outputs}:
            handle = layers[number].to_out.register_forward_pre_hook(hook(number))
            hooks.callback(handle.remove)
        yield


@contextmanager
def edited(model: LanguageModel, at: int, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Inside this context `stream[at]` is `change(stream[at])`, for all that comes after.

    Adding a vector is steering (Turner et al. 2023), a mixture with another run is patching.
    """
    parts: list[Any] = [model.embed, *model.body.blocks]
    if not 0 <= at < len(parts):
        raise ValueError(f"the stream is met at places 0 to {len(parts) - 1}; got {at}")
    handle = parts[at].register_forward_hook(lambda _, given, out: change(out))
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()
def head_from(
    model: LanguageModel,
    head: Head,
    queries: Float[Tensor, "B T C"],
    keys: Float[Tensor, "B T C"],
    values: Float[Tensor, "B T C"],
) -> Float[Tensor, "B T D"]:
    """The output of a head that reads its queries, keys and values from three streams.

    With the same stream three times it is the head itself. Elhage et al. 2021, "Q-, K- and
    V-composition"; with one of them changed by one head only it is path patching, Wang et al. 2023.
    """
    check(model, head)
    layer = attentions(model)[head[0]]
    norm = model.body.blocks[head[0]].get_submodule("attention.norm")
    parts = (layer.project(norm(x))[n] for n, x in enumerate((queries, keys, values)))
    q, k, v = parts
    if layer.rotate is not None:
        q, k = layer.rotate(q, 0), layer.rotate(k, 0)
    at = places(queries, k, None, causal)
    return layer.mix(q, k, v, left_of(at, causal, layer.pattern), at)[:, head[1]]
