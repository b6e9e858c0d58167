"""Look into a language model while it works, and change what is found there.

A pre-norm model is a stream of vectors, one per position, that every part reads from and adds to
(Elhage et al. 2021, "A mathematical framework for transformer circuits"). `record` keeps the stream
and what each head gave; `lens` reads a stream as if the model ended there; `replaced` and `edited`
run the model with a head's output or the stream changed: ablation, activation patching, steering.
`head_from` computes one head from other streams than its own, which is what path patching needs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import Attention
from attnbook.block import ParallelBlock, PostNorm, Residual, Stack
from attnbook.masks import Grid, causal
from attnbook.norms import LayerNorm, LayerScale, RMSNorm, Times
from attnbook.transformer import LanguageModel, MaskedLanguageModel

Head = tuple[int, int]  # layer and head, both counted from 0


@dataclass(frozen=True)
class Recorded:
    """What one run of a model left behind: N layers, H heads of width D.

    `stream[l]` is the residual stream before layer `l`, `stream[N]` the one that is read out;
    `middle[l]` is the one between attention and network; `heads[l]` are the heads' outputs before
    W^O; `weights[l]` says where they looked.
    """

    logits: Float[Tensor, "B *T V"]
    stream: Float[Tensor, "N1 B T C"]
    middle: Float[Tensor, "N B T C"]
    heads: Float[Tensor, "N B H T D"]
    weights: Float[Tensor, "N B H T T"]


def body_of(model: nn.Module) -> Stack:
    """The blocks along which the stream runs; ValueError if the model has no such stack."""
    body = getattr(model, "body", None)
    if not isinstance(body, Stack):
        raise ValueError(
            f"needed is a model with one stream, such as LanguageModel, MaskedLanguageModel, "
            f"VisionTransformer; got {type(model).__name__}"
        )
    return body


def attentions(model: nn.Module) -> list[Attention]:
    """The attention of each block, in order; ValueError if the model is not made of such blocks."""
    found: list[Attention] = []
    for number, layer in enumerate(attention_or_none(model)):
        if layer is None:
            raise ValueError(f"block {number} has no attention in a residual: Block(PreNorm(…), …)")
        found.append(layer)
    return found


def attention_or_none(model: nn.Module) -> list[Attention | None]:
    """The attention of each block, or None where another layer mixes the positions, as in Jamba.
    ValueError if a block has one outside a residual: then there is no stream to speak of."""
    found: list[Attention | None] = []
    for number, block in enumerate(body_of(model).blocks):
        wrapped = getattr(block, "attention", None)
        sublayer = wrapped if isinstance(block, ParallelBlock) else getattr(wrapped, "sublayer", 0)
        if isinstance(wrapped, Attention) and sublayer is not wrapped:
            raise ValueError(f"block {number} has no attention in a residual: Block(PreNorm(…), …)")
        found.append(sublayer if isinstance(sublayer, Attention) else None)
    return found


def attention_of(model: nn.Module, head: Head) -> Attention:
    """The attention that a head belongs to; ValueError unless the model has this head."""
    layers = attention_or_none(model)
    there = {number: layer.heads for number, layer in enumerate(layers) if layer is not None}
    if head[0] not in there or not 0 <= head[1] < there[head[0]]:
        places = f"0 to {len(layers) - 1}" if len(there) == len(layers) else f"{sorted(there)}"
        most = max(there.values(), default=0) - 1
        raise ValueError(f"there is no head {head}: layers {places}, heads 0 to {most}")
    found = layers[head[0]]
    assert found is not None
    return found


@torch.no_grad()
def record(model: nn.Module, tokens: Tensor, *given: Tensor) -> Recorded:
    """Run a model once and keep what went along its residual stream.

    `tokens` are images where the model is a vision transformer; what is `given` besides, such as a
    mask of padding, goes to the model, too. In a `ParallelBlock` `middle` is the stream with the
    attention's part in it and without the network's, though the network did not read it. `heads`
    and `weights` are NaN in layers without attention, `middle` in blocks of one part.
    """
    layers, blocks = attention_or_none(model), body_of(model).blocks
    kept: dict[str, list[Tensor]] = {"stream": [], "middle": [], "heads": [], "weights": []}

    def keep(name: str) -> Callable[..., None]:
        return lambda _, given, out: kept[name].append(out)

    def keep_sum(_: nn.Module, given: tuple[Tensor], out: Tensor) -> None:
        kept["middle"].append(kept["stream"][-1] + out)

    def keep_first(_: nn.Module, given: tuple[Tensor]) -> None:
        if not kept["stream"]:
            kept["stream"].append(given[0])

    def keep_heads(layer: nn.Module, given: tuple[Tensor]) -> None:
        heads = next(each.heads for each in layers if each is not None)
        kept["heads"].append(given[0].unflatten(-1, (heads, -1)).transpose(1, 2))

    with ExitStack() as hooks:
        hooks.callback(blocks[0].register_forward_pre_hook(keep_first).remove)
        for block, layer in dict.fromkeys(zip(blocks, layers, strict=True)):  # shared ones once
            hooks.callback(block.register_forward_hook(keep("stream")).remove)
            middle = keep_sum if isinstance(block, ParallelBlock) else keep("middle")
            if hasattr(block, "attention"):
                first = block.get_submodule("attention")
                hooks.callback(first.register_forward_hook(middle).remove)
            if layer is not None:
                hooks.callback(layer.to_out.register_forward_pre_hook(keep_heads).remove)
                hooks.callback(setattr, layer, "on_weights", layer.on_weights)
                layer.on_weights = kept["weights"].append
        logits = model(tokens, *given)
    stream, here = torch.stack(kept["stream"]), [layer is not None for layer in layers]
    B, T = stream.shape[1:3]
    return Recorded(
        logits,
        stream,
        by_layer(kept["middle"], [hasattr(b, "attention") for b in blocks], stream[0]),
        by_layer(kept["heads"], here, stream.new_zeros(B, 0, T, 0)),
        by_layer(kept["weights"], here, stream.new_zeros(B, 0, T, T)),
    )


def by_layer(found: list[Tensor], here: list[bool], usual: Tensor) -> Tensor:
    """What was found, layer by layer, and NaN in its shape, or in the usual one, elsewhere."""
    rest, shape = iter(found), found[0] if found else usual
    return torch.stack([next(rest) if yes else torch.full_like(shape, torch.nan) for yes in here])


def lens(
    model: LanguageModel | MaskedLanguageModel, stream: Float[Tensor, "... C"]
) -> Float[Tensor, "... V"]:
    """The logits that a stream would give if it were the last one: nostalgebraist's logit lens."""
    return model.lm_head(model.body.norm(stream))


def written(
    model: nn.Module, head: Head, output: Float[Tensor, "B T D"], run: Recorded | None = None
) -> Float[Tensor, "B T C"]:
    """What a head with this output adds to the stream: its own rows of W^O.

    Where a norm stands behind the attention (Gemma 2, OLMo 2), what one head adds depends on all
    others: `run` is the run that they are taken from, and the norm divides by what it divided by
    there, as in direct logit attribution. Then the heads of a run add up to what was added. Raises
    a ValueError if such a norm is there and no run is given.
    """
    layer = attention_of(model, head)
    weight = layer.to_out.get_parameter("weight")  # (C, H·D)
    D = weight.shape[1] // layer.heads
    part = output @ weight[:, head[1] * D : (head[1] + 1) * D].T
    wrapped = body_of(model).blocks[head[0]].get_submodule("attention")
    if isinstance(wrapped, PostNorm):
        raise ValueError("a norm stands behind the sum: no head has a share of its own there")
    total = None
    if run is not None:
        total = layer.to_out(run.heads[head[0]].transpose(1, 2).flatten(2))
    return share(wrapped.after, part, total) if isinstance(wrapped, Residual) else part


def share(after: nn.Module, part: Tensor, total: Tensor | None) -> Tensor:
    """What becomes of a `part` of `total` behind this norm or scale, whose divisor is that of the
    total."""
    if isinstance(after, nn.Identity):
        return part
    if isinstance(after, (Times, LayerScale)):
        return after(part)
    if not isinstance(after, (RMSNorm, LayerNorm)):
        raise ValueError(f"no share of one head is known behind a {type(after).__name__}")
    if total is None:
        raise ValueError(
            f"{type(after).__name__} stands behind the attention: what a head adds depends on the "
            "others, give the run that they are taken from: written(model, head, output, run)"
        )
    if isinstance(after, LayerNorm):
        total, part = (x - x.mean(-1, keepdim=True) for x in (total, part))
    size = (total.square().mean(-1, keepdim=True) + after.eps).sqrt()
    return (after.weight + after.offset) * part / size


def at_turn(parts: Sequence[nn.Module | None], number: int) -> Callable[[], bool]:
    """A question to be asked at each call of `parts[number]`: is it that of this number? Blocks
    that share their weights (ALBERT's) are one module, which is called once for each."""
    turns = [n for n, part in enumerate(parts) if part is parts[number]]
    calls = cycle(turns)
    return lambda: next(calls) == number


@contextmanager
def replaced(model: nn.Module, outputs: Mapping[Head, Tensor]) -> Iterator[None]:
    """Inside this context these heads give these outputs, (B, T, D) or what broadcasts to it.

    Zeros, or the head's mean, ablate it; its output in a run on another text is activation
    patching (Vig et al. 2020; Meng et al. 2022).
    """
    layers = {head[0]: attention_of(model, head) for head in outputs}

    def hook(number: int) -> Callable[..., Tensor | None]:
        now = at_turn(attention_or_none(model), number)

        def change(layer: nn.Module, given: tuple[Tensor]) -> Tensor | None:
            if not now():
                return None
            heads = given[0].unflatten(-1, (layers[number].heads, -1)).clone()
            for (where, head), output in outputs.items():
                if where == number:
                    heads[..., head, :] = output
            return heads.flatten(-2)

        return change

    with ExitStack() as hooks:
        for number, layer in layers.items():
            handle = layer.to_out.register_forward_pre_hook(hook(number))
            hooks.callback(handle.remove)
        yield


@contextmanager
def edited(model: nn.Module, at: int, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Inside this context `stream[at]` is `change(stream[at])`, for all that comes after.

    Adding a vector is steering (Turner et al. 2023), a mixture with another run is patching.
    """
    blocks = body_of(model).blocks
    if not 0 <= at <= len(blocks):
        raise ValueError(f"the stream is met at positions 0 to {len(blocks)}; got {at}")
    now = at_turn(list(blocks), max(at - 1, 0))
    if at:
        after = lambda _, given, out: change(out) if now() else out  # noqa: E731
        handle = blocks[at - 1].register_forward_hook(after)
    else:
        first = lambda _, given: (change(given[0]), *given[1:]) if now() else given  # noqa: E731
        handle = blocks[0].register_forward_pre_hook(first)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def reading_at(model: nn.Module, at: slice = slice(-1, None)) -> Iterator[None]:
    """Inside this context logits, (B, n, V), are made at these positions only, usually the last.

    In Gemma 3 270M the logits of a position cost more than all layers. `record`, `replaced`,
    `edited` and attribution work as before, and `logits[:, -1]` is the same. `lens` reads streams
    of its own choice: it belongs outside.
    """
    head = getattr(model, "lm_head", None)
    if not isinstance(head, nn.Module):
        raise ValueError(f"{type(model).__name__} has no lm_head, whose positions could be chosen")
    handle = head.register_forward_pre_hook(lambda _, given: (given[0][:, at], *given[1:]))
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()
def head_from(
    model: nn.Module,
    head: Head,
    queries: Float[Tensor, "B T C"],
    keys: Float[Tensor, "B T C"],
    values: Float[Tensor, "B T C"],
) -> Float[Tensor, "B T D"]:
    """The output of a head that reads its queries, keys and values from three streams.

    With the same stream three times it is the head itself. Elhage et al. 2021, "Q-, K- and
    V-composition"; with one of them changed by one head only it is path patching, Wang et al. 2023.
    """
    layer = attention_of(model, head)
    norm = norm_before(body_of(model).blocks[head[0]])
    parts = (layer.placed(norm(x))[n] for n, x in enumerate((queries, keys, values)))
    q, k, v = parts
    past = causal if isinstance(model, LanguageModel) else None
    grid = Grid(queries.shape[0], queries.shape[1], k.shape[2], queries.device)
    mask, grid = layer.combine_masks(past, grid)
    heads = layer.mix(q, k, v, mask, grid)
    if layer.gate is not None:
        made = layer.gate(heads.transpose(1, 2).flatten(2), norm(queries))
        heads = made.unflatten(2, (layer.heads, -1)).transpose(1, 2)
    return heads[:, head[1]]


def norm_before(block: nn.Module) -> nn.Module:
    """What stands between the stream and a block's attention."""
    wrapped = block.get_submodule("attention")
    if isinstance(block, ParallelBlock):
        return block.norm
    if isinstance(wrapped, Residual):
        return wrapped.before
    return nn.Identity() if isinstance(wrapped, PostNorm) else wrapped.get_submodule("norm")
