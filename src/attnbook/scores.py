"""Score: how well a key answers a query in every head, and which kernel can compute it."""

import math
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import flex_attention as torchs
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from attnbook.masks import Causal, Combined, Grid, Mask, Pattern, add_key, as_pattern, dense
from attnbook.memo import memoise

Relative = Callable[
    [int | Int[Tensor, " Tq"], int | Int[Tensor, " Tk"]], Float[Tensor, "#H #Tq #Tk"]
]


class Score(nn.Module):
    """Dot products times `scale`, 1/√D if nothing else is said; what else there is, is optional.

    `cap` is a soft one: cap · tanh(score / cap), so that none is larger (Gemma 2). With `relative`,
    `relative(Tq, Tk)` is added, one (Tq, Tk) table per head (T5, ALiBi). With `sinks`, the number
    of heads, each head has a learned logit that takes its share of the weights and gives no value
    (gpt-oss). Set `flex` to True or False to have FlexAttention always or never, where possible.
    """

    flex: bool | None = None  # where it is worth while: on a GPU, for a pattern or a cap

    def __init__(
        self,
        scale: float | None = None,
        cap: float | None = None,
        relative: Relative | None = None,
        sinks: int | None = None,
    ):
        super().__init__()
        self.scale, self.cap, self.relative = scale, cap, relative
        self.sinks = None if sinks is None else nn.Parameter(torch.zeros(sinks))

    def forward(
        self,
        q: Float[Tensor, "B H Tq D"],
        k: Float[Tensor, "B H Tk D"],
        bias: Float[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B H Tq Tk"]:
        """Written out: every score, as `attend` needs them."""
        scores = q @ k.mT  # (B H Tq Tk)
        scores = scores / math.sqrt(q.shape[-1]) if self.scale is None else scores * self.scale
        if self.cap is not None:
            scores = self.cap * torch.tanh(scores / self.cap)
        return scores if bias is None else scores + bias

    def scale_of(self, q: Float[Tensor, "B H Tq D"]) -> float:
        """`scale`, or 1/√D unless one was given."""
        return q.shape[-1] ** -0.5 if self.scale is None else self.scale

    def sink(self) -> Float[Tensor, "H 1 1"] | None:
        """A logit for each head, beside its scores."""
        return None if self.sinks is None else self.sinks[:, None, None]

    def bias(self, grid: Grid) -> Float[Tensor, "..."] | None:
        """What is known about each pair beforehand, such as its distance: (H, Tq, Tk), or
        (B, H, Tq, Tk) where rows have padding and count their own tokens."""
        if self.relative is None:
            return None
        if grid.position_ids is None and grid.start is None:
            return self.relative(grid.Tq, grid.Tk)
        i, j, ids = grid.i[:, 0], grid.j, grid.position_ids
        if ids is None:
            return self.relative(i, j)
        return torch.stack([self.relative(row[i], row[j]) for row in ids])

    def fused(
        self,
        q: Float[Tensor, "B H Tq D"],
        k: Float[Tensor, "B kv_heads Tk D"],
        v: Float[Tensor, "B kv_heads Tk Dv"],
        mask: Mask | None,
        grid: Grid,
        dropout: float = 0.0,
    ) -> Float[Tensor, "B H Tq Dv"] | None:
        """The output of `attend` by one of torch's kernels, which never store the weights.

        None if there is no such kernel here: the usual one has no soft cap.
        """
        if self.uses_flex(q, v, mask, grid, dropout):
            scale, bias = self.scale_of(q), self.bias(grid)
            pattern = None if mask is None else as_pattern(mask)
            return flex_attend(q, k, v, pattern, grid, scale, self.cap, bias, self.sinks)
        return None if self.cap is not None else self.by_torch(q, k, v, mask, grid, dropout)

    def uses_flex(
        self, q: Tensor, v: Tensor, mask: Mask | None, grid: Grid, dropout: float
    ) -> bool:
        """Is it FlexAttention's turn? A bias is a table already: it can, but it needs not."""
        wanted = self.flex
        if wanted is None:
            pays = flex_pays(mask, grid, self.cap is not None, q, v)
            wanted = self.relative is None and pays
        return wanted and flex_can(mask, q, dropout)

    def by_torch(
        self,
        q: Float[Tensor, "B H Tq D"],
        k: Float[Tensor, "B kv_heads Tk D"],
        v: Float[Tensor, "B kv_heads Tk Dv"],
        mask: Mask | None,
        grid: Grid,
        dropout: float,
    ) -> Float[Tensor, "B H Tq Dv"]:
        """By the usual kernel: plain causal is told to it in one word, another mask as a table."""
        scale, bias = self.scale_of(q), self.bias(grid)
        causal = is_causal_mask(mask, grid) and bias is None and self.sinks is None
        mask = None if causal else dense(mask, grid)
        if self.sinks is not None:
            q, k, v = add_sink(q, k, v, self.sinks / scale)
            bias = None if bias is None else F.pad(bias, (0, 1))
            mask = add_key(mask, grid.Tk)
        if bias is not None:  # torch's fast kernels take masks with 2 axes or 4, not with 3
            bias = (bias if bias.dim() == 4 else bias.unsqueeze(0)).to(q.dtype)
            mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
        kernel = partial(F.scaled_dot_product_attention, dropout_p=dropout, scale=scale)
        if q.shape[1] == k.shape[1] or mask is None or takes_gqa(q):
            return kernel(q, k, v, mask, is_causal=causal, enable_gqa=q.shape[1] > k.shape[1])
        if packing_pays(q, k):
            packed = kernel(pack_gqa(q, k.shape[1]), k, v, pack_mask(mask, q, k))
            return packed.reshape(*q.shape[:3], v.shape[-1])  # (B H Tq Dv)
        return kernel(q, repeat_kv(k, q.shape[1]), repeat_kv(v, q.shape[1]), mask)


def takes_gqa(q: Tensor) -> bool:
    """Does torch's kernel take a mask and shared key heads together? On a GPU not each of them
    does, and torch then keeps all scores; on a CPU it does, and gradients are as fast by copies."""
    return q.device.type == "cpu" and not torch.is_grad_enabled()


def packing_pays(q: Float[Tensor, "B H Tq D"], k: Float[Tensor, "B kv_heads Tk D"]) -> bool:
    """Is a mask that is repeated for the heads of a group no larger than the keys?"""
    return q.shape[1] * q.shape[2] <= k.shape[1] ** 2 * k.shape[3]


def pack_gqa(q: Float[Tensor, "B H Tq D"], kv_heads: int) -> Float[Tensor, "B kv_heads rows D"]:
    """The queries of all heads that share keys as rows of one head, so that these keys are read
    once: rows are H ÷ kv_heads · Tq."""
    return q.unflatten(1, (kv_heads, -1)).flatten(2, 3)


def pack_mask(
    mask: Shaped[Tensor, "..."],
    q: Float[Tensor, "B H Tq D"],
    k: Float[Tensor, "B kv_heads Tk D"],
) -> Shaped[Tensor, "#B #kv_heads rows Tk"]:
    """The mask, or the bias, of the rows of `pack_gqa`."""
    mask = mask.expand(torch.broadcast_shapes(mask.shape, (1, 1, q.shape[2], k.shape[2])))
    if mask.shape[1] > 1:
        return mask.unflatten(1, (k.shape[1], -1)).flatten(2, 3)
    groups = q.shape[1] // k.shape[1]
    return mask.unsqueeze(2).expand(-1, -1, groups, -1, -1).flatten(2, 3)


def add_sink(
    q: Float[Tensor, "B H Tq D"],
    k: Float[Tensor, "B kv_heads Tk D"],
    v: Float[Tensor, "B kv_heads Tk Dv"],
    logits: Float[Tensor, " H"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys of one channel more, and one key more, last, whose dot product with each
    query of a head is the head's logit. Its value is 0."""
    B, H, Tq, _ = q.shape
    q = torch.cat((q, logits.to(q.dtype).view(1, H, 1, 1).expand(B, H, Tq, 1)), -1)
    D = k.shape[-1]  # not `one_hot`, which reads its indices on a CPU
    sink = (torch.arange(D + 1, device=k.device) == D).to(k.dtype)
    k = torch.cat((F.pad(k, (0, 1)), sink.expand(B, k.shape[1], 1, -1)), 2)
    return q, k, F.pad(v, (0, 0, 0, 1))


def repeat_kv(x: Float[Tensor, "B kv_heads T D"], heads: int) -> Float[Tensor, "B H T D"]:
    """Keys or values once for each of the `heads` that share them."""
    return x.repeat_interleave(heads // x.shape[1], 1)


MIN_QUERIES = 128  # of FlexAttention: the size of a block
MIN_WIDTH = 16  # channels of a head that its kernel can compute
BLOCK = 128  # queries, and keys, of a block
STRIP = 2**24  # pairs of a query and a key that are looked at together for a mask of blocks
TRITON = find_spec("triton") is not None  # what compiles kernels

# torch's own types do not say what it returns
eager_flex = cast(Callable[..., Tensor], flex_attention)


def on_gpu(q: Tensor) -> bool:
    """Is there a GPU that these queries are on, and a compiler for its kernels?"""
    return TRITON and q.is_cuda


def flex_can(mask: Mask | None, q: Tensor, dropout: float) -> bool:
    """Can FlexAttention compute this at all? Not dropout, nor a mask that is a table; without a
    GPU, torch computes it plainly, but not its gradients."""
    rule = mask is None or (isinstance(mask, Pattern) and mask.is_rule)
    return rule and not dropout and (q.is_cuda or not torch.is_grad_enabled())


def is_causal_mask(mask: Mask | None, grid: Grid) -> bool:
    """Is this the mask that torch's kernels make themselves if they are told `is_causal`?"""
    return isinstance(mask, Causal) and grid.start is None and grid.Tq == grid.Tk


def flex_pays(mask: Mask | None, grid: Grid, capped: bool, q: Tensor, v: Tensor) -> bool:
    """Is it the best of torch's kernels? On a GPU, for many queries, if there is a cap, or a
    pattern that `is_causal` does not say."""
    plainly = mask is None or is_causal_mask(mask, grid)
    wide = min(q.shape[-1], v.shape[-1]) >= MIN_WIDTH
    return on_gpu(q) and q.shape[-2] >= MIN_QUERIES and wide and (capped or not plainly)


def flex_attend(
    q: Float[Tensor, "B H Tq D"],
    k: Float[Tensor, "B kv_heads Tk D"],
    v: Float[Tensor, "B kv_heads Tk Dv"],
    mask: Pattern | None,
    grid: Grid,
    scale: float,
    cap: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
    sinks: Float[Tensor, " H"] | None = None,
) -> Float[Tensor, "B H Tq Dv"]:
    """`attend` in every head by FlexAttention: its kernel is compiled once, elsewhere than on a GPU
    torch computes it plainly. A `bias` is (H, Tq, Tk) or (B, H, Tq, Tk)."""
    blocks = (
        None if mask is None else memoise(("blocks", mask, grid), partial(block_mask, mask, grid))
    )
    kernel = compiled_flex() if q.is_cuda and not torch.compiler.is_compiling() else eager_flex
    score_mod = None
    if cap is not None or bias is not None:
        bias = None if bias is None else expand_bias(bias, q, k)
        score_mod = partial(modify_score, cap, bias)
    kernel = partial(kernel, enable_gqa=q.shape[1] > k.shape[1])
    if sinks is None:
        return kernel(q, k, v, score_mod, blocks, scale)
    output, total = with_lse(kernel, (q, k, v, score_mod, blocks, scale))
    return output * torch.sigmoid(total - sinks[:, None]).unsqueeze(-1).to(output.dtype)


def with_lse(kernel: Callable[..., object], given: tuple[object, ...]) -> tuple[Tensor, Tensor]:
    """What the kernel returns, and the logarithm of the sum that each weight was divided by."""
    if not hasattr(torchs, "AuxRequest"):  # before torch 2.9
        return cast(tuple[Tensor, Tensor], kernel(*given, return_lse=True))
    wanted = torchs.AuxRequest(lse=True)
    output, more = cast(tuple[Tensor, torchs.AuxOutput], kernel(*given, return_aux=wanted))
    return output, cast(Tensor, more.lse)


def expand_bias(bias: Float[Tensor, "..."], q: Tensor, k: Tensor) -> Float[Tensor, "..."]:
    """A bias for each head, query and key, so that its numbers can be looked up."""
    return bias.expand(*bias.shape[:-3], q.shape[1], q.shape[2], k.shape[2])


def modify_score(
    cap: float | None,
    bias: Float[Tensor, "..."] | None,
    score: Tensor,
    b: Tensor,
    h: Tensor,
    i: Tensor,
    j: Tensor,
) -> Tensor:
    """One score under its soft cap, plus the bias of its (sequence,) head, query and key."""
    score = score if cap is None else cap * torch.tanh(score / cap)
    return score if bias is None else score + bias[(b, h, i, j)[-bias.dim() :]]


def block_mask(pattern: Pattern, grid: Grid) -> BlockMask:
    """Which blocks of keys a block of queries needs, and which of these it may see whole: torch's
    `create_block_mask` for patterns, without its table of all Tq × Tk pairs."""
    first = grid.first + grid.Tk - grid.Tq if grid.start is None else grid.start
    rule, rows = mask_mod(pattern), grid.B if pattern.by_row else 1

    def shifted(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return rule(b, i + first, j + grid.first)

    if torch.compiler.is_compiling():  # it counts the pairs of a block without storing them
        return create_block_mask(shifted, rows, None, grid.Tq, grid.Tk, device=grid.device)
    b = torch.arange(rows, device=grid.device)[:, None, None]
    j = torch.arange(grid.Tk, device=grid.device)
    strip = BLOCK * max(1, STRIP // (rows * BLOCK * grid.Tk))  # queries
    found = []
    for i in torch.arange(grid.Tq, device=grid.device)[:, None].split(strip):
        pairs = shifted(b, torch.zeros_like(b), i, j).expand(rows, len(i), grid.Tk)
        pairs = F.pad(pairs, (0, -grid.Tk % BLOCK, 0, -len(i) % BLOCK))
        pairs = pairs.unflatten(-1, (-1, BLOCK)).unflatten(-3, (-1, BLOCK))
        found.append(torch.stack((pairs.any(-1).any(-2), pairs.all(-1).all(-2))))
    some, whole = torch.cat(found, 2)[:, :, None]  # (rows 1 blocks_of_q blocks_of_k) each
    partly = indices_of(some & ~whole)
    blocks = BlockMask.from_kv_blocks(*partly, *indices_of(whole), BLOCK, shifted)
    blocks.seq_lengths = grid.Tq, grid.Tk  # an argument only since torch 2.7
    return blocks


def indices_of(
    blocks: Bool[Tensor, "B H q k"],
) -> tuple[Int[Tensor, "B H q"], Int[Tensor, "B H q k"]]:
    """How many blocks of each row are chosen, and their numbers, before those of the others."""
    chosen = blocks.int()
    order = chosen.argsort(dim=-1, descending=True, stable=True)
    return chosen.sum(-1, dtype=torch.int32), order.int()


def mask_mod(pattern: Pattern) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """What the pattern says of one pair, in one sequence, as a function of b, i, j.

    Of several patterns each is a function of its own: one joined while a compiler looks on has,
    for torch 2.11, no attributes inside of `vmap`."""
    if isinstance(pattern, Combined):
        join, rules = pattern.join, [mask_mod(p) for p in pattern.patterns]
        return lambda b, i, j: join([rule(b, i, j) for rule in rules])
    if pattern.by_row:
        return lambda b, i, j: pattern(i, j, b)
    return lambda b, i, j: pattern(i, j)


def compiled_flex() -> Callable[..., Tensor]:
    """FlexAttention as one kernel, compiled when it is first needed."""
    global _kernel
    if _kernel is None:
        _kernel = torch.compile(eager_flex)
    return _kernel


_kernel: Callable[..., Tensor] | None = None
