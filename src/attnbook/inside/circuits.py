"""Look into a model while it works, and change what is found there.

A pre-norm model is a stream of vectors, one per position, that every part reads from and adds to
(Elhage et al. 2021, "A mathematical framework for transformer circuits"). `record` keeps the stream
and what each head gave; `lens` reads a stream as if the model ended there; `replaced` and `edited`
run the model with a head's output or the stream changed: ablation, activation patching, steering.
`head_from` computes one head from other streams than its own, which is what path patching needs.

A model of several streams is studied one `Side` at a time, and each function here takes a side
where it takes a model: `Side(model, "encoder")` and `Side(model, "decoder")` of T5, BART, Whisper
and DETR, `Side(model, "decoder", "cross_attention")` for the heads that look at the source, and
`Side(model, "texts")` and `Side(model, "pictures")` of CLIP.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnbook.attention import Attention
from attnbook.block import Block, CrossBlock, ParallelBlock, PostNorm, Residual, Stack
from attnbook.masks import Grid, Mask, as_pattern, causal
from attnbook.norms import LayerNorm, LayerScale, RMSNorm, Times
from attnbook.transformer import EncoderDecoder, LanguageModel, MaskedLanguageModel

Head = tuple[int, int]  # layer and head, both counted from 0


class Side(nn.Module):
    """One stream of a model that has several, with what runs along it: for all functions here, a
    model whose blocks are those of `name`, and which is called like the whole one.

    `attention` says which attention of its blocks the heads are of: in a decoder's, those of
    "cross_attention" look at the source. Raises a ValueError that lists the names if there is no
    such stream.
    """

    lm_head: nn.Module | None

    def __init__(self, model: nn.Module, name: str, attention: str = "attention"):
        super().__init__()
        there = streams_of(model)
        if name not in there:
            raise ValueError(f"{type(model).__name__} has no stream {name!r}; {sides_of(model)}")
        self.model, self.body, self.attention = model, there[name], attention
        if not any(hasattr(block, attention) for block in self.body.blocks):
            raise ValueError(f"no block of {name!r} has a part {attention!r}")
        writes = isinstance(model, EncoderDecoder) and name == "decoder"
        self.lm_head = getattr(model, "lm_head", None) if writes else None
        own = attention == "attention"
        self.causal = own and (writes or getattr(model.get_submodule(name), "causal", False))

    def forward(self, *given: Tensor) -> Any:
        """What the whole model answers."""
        return self.model(*given)


def streams_of(model: nn.Module) -> dict[str, Stack]:
    """The stacks of blocks in a model of several parts, each under the name of its part."""
    parts = {name: getattr(part, "body", part) for name, part in model.named_children()}
    return {name: part for name, part in parts.items() if isinstance(part, Stack)}


def sides_of(model: nn.Module) -> str:
    """What can be studied of a model that has not one stream."""
    sides = " or ".join(f"Side(model, {name!r})" for name in streams_of(model))
    return f"give {sides}" if sides else "`attnbook.inside.watch` shows where it looks"


@dataclass(frozen=True)
class Recorded:
    """What one run of a model left behind: N layers, H heads of width D.

    `stream[l]` is the residual stream before layer `l`, `stream[N]` the one that is read out;
    `middle[l]` is the one behind the attention; `heads[l]` are the heads' outputs before W^O;
    `weights[l]` says where they looked. `logits` is what the model answered. Gemma 3n's blocks work
    on the first of S streams, of which `stream` has all.
    """

    logits: Float[Tensor, "*answers V"]
    stream: Float[Tensor, "N1 *S B T C"]
    middle: Float[Tensor, "N *S B T C"]
    heads: Float[Tensor, "N B H T D"]
    weights: Float[Tensor, "N B H T Tk"]


def body_of(model: nn.Module) -> Stack:
    """The blocks along which the stream runs; ValueError if the model has not one such stack."""
    body = getattr(model, "body", None)
    if not isinstance(body, Stack):
        raise ValueError(
            f"{type(model).__name__} is no model with one stream, such as LanguageModel, "
            f"MaskedLanguageModel, VisionTransformer; {sides_of(model)}"
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
        wrapped = wrapped_in(model, block)
        if isinstance(block, (Block, CrossBlock)) and isinstance(wrapped, Attention):
            raise ValueError(f"block {number} has no attention in a residual: Block(PreNorm(…), …)")
        sublayer = getattr(wrapped, "sublayer", wrapped)
        inside = getattr(sublayer, "attention", sublayer)  # DETR's, which is told places
        found.append(inside if isinstance(inside, Attention) else None)
    return found


def wrapped_in(model: nn.Module, block: nn.Module) -> nn.Module | None:
    """The attention of a block with its norm and its residual connection, if it has one."""
    return getattr(block, model.attention if isinstance(model, Side) else "attention", None)


def adds_by_itself(block: nn.Module, wrapped: nn.Module | None) -> bool:
    """Does the stream go on behind the attention, before anything else is done to it? In Zamba2 and
    Gemma 3n it does not: what their attention gives is worked on first."""
    return isinstance(block, ParallelBlock) or not isinstance(wrapped, (Attention, type(None)))


def first(answer: Any) -> Tensor:
    """What a part gives, or the first of it."""
    return answer if isinstance(answer, Tensor) else answer[0]


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

    `tokens` are images or sound where the model reads these; what is `given` besides, such as a
    mask of padding or a target, goes to the model, too. In a `ParallelBlock` `middle` is the stream
    with the attention's part in it and without the network's, though the network did not read it.
    `heads` and `weights` are NaN in layers without attention and in SAM's windows, `middle` in
    blocks of one part and where the attention does not write to the stream itself (Zamba2, Gemma
    3n). Of several answers, such as DETR's classes and boxes, the first is kept as `logits`.
    ValueError if there is not one stream: it names the sides of an encoder–decoder or of CLIP; SAM
    2's stream changes its width and its places.
    """
    layers, blocks = attention_or_none(model), body_of(model).blocks
    kept: dict[str, list[Tensor]] = {"stream": [], "middle": [], "heads": [], "weights": []}

    def keep(name: str) -> Callable[..., None]:
        return lambda _, given, out: kept[name].append(first(out))

    def keep_sum(_: nn.Module, given: tuple[Tensor], out: Tensor) -> None:
        kept["middle"].append(kept["stream"][-1] + out)

    def keep_first(_: nn.Module, given: tuple[Any, ...]) -> None:
        if not kept["stream"]:
            kept["stream"].append(given[0])

    def keep_heads(layer: nn.Module, given: tuple[Tensor]) -> None:
        heads = next(each.heads for each in layers if each is not None)
        kept["heads"].append(given[0].unflatten(-1, (heads, -1)).transpose(1, 2))

    wrapped = [wrapped_in(model, block) for block in blocks]
    adds = [adds_by_itself(*pair) for pair in zip(blocks, wrapped, strict=True)]
    with ExitStack() as hooks:
        hooks.callback(blocks[0].register_forward_pre_hook(keep_first).remove)
        for block in dict.fromkeys(blocks):  # shared ones once
            hooks.callback(block.register_forward_hook(keep("stream")).remove)
        for block, part in dict.fromkeys(zip(blocks, wrapped, strict=True)):
            middle = keep_sum if isinstance(block, ParallelBlock) else keep("middle")
            if part is not None and adds_by_itself(block, part):
                hooks.callback(part.register_forward_hook(middle).remove)
        for to_out in dict.fromkeys(outputs_of(layers)):
            if to_out is not None:
                hooks.callback(to_out.register_forward_pre_hook(keep_heads).remove)
        for layer in dict.fromkeys(layers):
            if layer is not None:
                hooks.callback(setattr, layer, "on_weights", layer.on_weights)
                layer.on_weights = kept["weights"].append
        logits = first(model(tokens, *given))
    stream, here = torch.stack(kept["stream"]), [layer is not None for layer in layers]
    B, T = stream.shape[-3:-1]
    return Recorded(
        logits,
        stream,
        by_layer(kept["middle"], adds, stream[0]),
        by_layer(kept["heads"], here, stream.new_zeros(B, 0, T, 0)),
        by_layer(kept["weights"], here, stream.new_zeros(B, 0, T, T)),
    )


def outputs_of(layers: Sequence[Attention | None]) -> list[nn.Module | None]:
    """The map behind the heads of each layer; layers may share it (Zamba2)."""
    return [None if layer is None else layer.to_out for layer in layers]


def by_layer(found: list[Tensor], here: list[bool], usual: Tensor) -> Tensor:
    """What was found, layer by layer, and NaN in its shape, or in the usual one, elsewhere."""
    rest, shape = iter(found), found[0] if found else usual
    return torch.stack([next(rest) if yes else torch.full_like(shape, torch.nan) for yes in here])


def lens(
    model: LanguageModel | MaskedLanguageModel | Side, stream: Float[Tensor, "... C"]
) -> Float[Tensor, "... V"]:
    """The logits that a stream would give if it were the last one: nostalgebraist's logit lens.

    ValueError for a side that no logits of a vocabulary are read from, such as an encoder.
    """
    if model.lm_head is None:
        raise ValueError("no logits are read from this stream: the lens is for a decoder")
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
    block = body_of(model).blocks[head[0]]
    wrapped = wrapped_in(model, block)
    if not adds_by_itself(block, wrapped):
        raise ValueError(f"in a {type(block).__name__} no head writes to the stream by itself")
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
        now = at_turn(outputs_of(attention_or_none(model)), number)

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

    Adding a vector is steering (Turner et al. 2023), a mixture with another run is patching. The
    blocks of Zamba2 and Gemma 3n read the embedding besides, which stays what it is.
    """
    blocks = body_of(model).blocks
    if not 0 <= at <= len(blocks):
        raise ValueError(f"the stream is met at positions 0 to {len(blocks)}; got {at}")
    now = at_turn(list(blocks), max(at - 1, 0))
    if at:
        after = lambda _, given, out: with_first(change, out) if now() else out  # noqa: E731
        handle = blocks[at - 1].register_forward_hook(after)
    else:
        before = lambda _, given: with_first(change, given) if now() else given  # noqa: E731
        handle = blocks[0].register_forward_pre_hook(before)
    try:
        yield
    finally:
        handle.remove()


def with_first(change: Callable[[Tensor], Tensor], answer: Any) -> Any:
    """What a part gives or is given, with the stream in it changed."""
    if isinstance(answer, Tensor):
        return change(answer)
    return change(answer[0]), *answer[1:]


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
    keys: Float[Tensor, "B Tk Ck"],
    values: Float[Tensor, "B Tk Ck"],
    mask: Mask | None = None,
) -> Float[Tensor, "B T D"]:
    """The output of a head that reads its queries, keys and values from three streams.

    With the same stream three times it is the head itself; of a cross-attention the queries are
    from the stream behind the decoder's own attention, keys and values from the memory, which is
    the encoder's last stream behind its norm. Elhage et al. 2021, "Q-, K- and V-composition"; with
    one of them changed by one head only it is path patching, Wang et al. 2023. That a decoder sees
    the past alone is known; `mask` is another that the run had, such as `is_token[:, None]`.
    """
    layer, block = attention_of(model, head), body_of(model).blocks[head[0]]
    wrapped = wrapped_in(model, block)
    reads = layer in (wrapped, getattr(wrapped, "sublayer", None))  # and not what is told places
    if not (reads and adds_by_itself(block, wrapped)):
        raise ValueError(f"in a {type(block).__name__} a head reads more than the stream")
    norm = norm_before(block, wrapped)
    if wrapped is getattr(block, "cross_attention", None):
        q = layer.project.queries(norm(queries))
        q, k = layer.rotate_both(q, layer.project.keys(keys)[0], None, True, None)
        v = layer.project.keys(values)[1]
    else:
        parts = (layer.placed(norm(x))[n] for n, x in enumerate((queries, keys, values)))
        q, k, v = parts
    if isinstance(model, LanguageModel) or getattr(model, "causal", False):
        mask = causal if mask is None else causal & as_pattern(mask)
    grid = Grid(queries.shape[0], queries.shape[1], k.shape[2], queries.device)
    mask, grid = layer.combine_masks(mask, grid)
    heads = layer.mix(q, k, v, mask, grid)
    if layer.gate is not None:
        made = layer.gate(heads.transpose(1, 2).flatten(2), norm(queries))
        heads = made.unflatten(2, (layer.heads, -1)).transpose(1, 2)
    return heads[:, head[1]]


def norm_before(block: nn.Module, wrapped: nn.Module | None) -> nn.Module:
    """What stands between the stream and a block's attention."""
    if isinstance(block, ParallelBlock):
        return block.norm
    if isinstance(wrapped, Residual):
        return wrapped.before
    assert wrapped is not None
    return nn.Identity() if isinstance(wrapped, PostNorm) else wrapped.get_submodule("norm")
