"""Score: how well a key answers a query in every head, and which kernel can compute it."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.flex import flex_attend, possible, says_causal, worth_while
from attnbook.masks import Mask, Places, as_pattern, table_of

Relative = Callable[
    [int | Int[Tensor, " Tq"], int | Int[Tensor, " Tk"]], Float[Tensor, "#H #Tq #Tk"]
]


class Score(nn.Module):
    """Dot products times `scale`, 1/√D if nothing else is said; what else there is, is optional.

    `cap` bends them so that none is larger: cap · tanh(score / cap) (Gemma 2). `relative(Tq, Tk)`
    is added, one (Tq, Tk) table per head (T5, ALiBi). With `sinks`, the number of heads, each head
    has a learned logit that takes its share of the weights and gives no value (gpt-oss). Set `flex`
    to True or False to have FlexAttention always or never, where it is possible.
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
        scores = q @ k.mT / math.sqrt(q.shape[-1]) if self.scale is None else q @ k.mT * self.scale
        if self.cap is not None:
            scores = self.cap * torch.tanh(scores / self.cap)
        return scores if bias is None else scores + bias

    def sink(self) -> Float[Tensor, "H 1 1"] | None:
        """A logit for each head, beside its scores."""
        return None if self.sinks is None else self.sinks[:, None, None]

    def bias(self, at: Places) -> Float[Tensor, "..."] | None:
        """What is known about each pair beforehand, such as its distance: (H, Tq, Tk), or
        (B, H, Tq, Tk) where rows have padding and count their own tokens."""
        if self.relative is None:
            return None
        if at.own is not None:
            rows = zip(at.own[:, at.i[:, 0]], at.own[:, at.j], strict=True)
            return torch.stack([self.relative(i, j) for i, j in rows])
        return self.relative(at.Tq, at.Tk) if at.start is None else self.relative(at.i[:, 0], at.j)

    def fused(
        self,
        q: Float[Tensor, "B H Tq D"],
        k: Float[Tensor, "B kv_heads Tk D"],
        v: Float[Tensor, "B kv_heads Tk Dv"],
        mask: Mask | None,
        at: Places,
        dropout: float = 0.0,
    ) -> Float[Tensor, "B H Tq Dv"] | None:
        """The output of `attend` by one of torch's kernels, which never store the weights.

        None if there is no such kernel here: the usual one cannot bend scores.
        """
        if self.by_flex(q, v, mask, at, dropout):
            scale, bias = self.scale or q.shape[-1] ** -0.5, self.bias(at)
            pattern = None if mask is None else as_pattern(mask)
            return flex_attend(q, k, v, pattern, at, scale, self.cap, bias, self.sinks)
        return None if self.cap is not None else self.by_torch(q, k, v, mask, at, dropout)

    def by_flex(self, q: Tensor, v: Tensor, mask: Mask | None, at: Places, dropout: float) -> bool:
        """Is it FlexAttention's turn? A bias is a table already: it can, but it needs not."""
        if self.flex is None and self.relative is not None:
            return False
        wanted = self.flex
        if wanted is None:
            wanted = worth_while(mask, at, self.cap is not None, q, v)
        return wanted and possible(mask, q, dropout)

    def by_torch(
        self,
        q: Float[Tensor, "B H Tq D"],
        k: Float[Tensor, "B kv_heads Tk D"],
        v: Float[Tensor, "B kv_heads Tk Dv"],
        mask: Mask | None,
        at: Places,
        dropout: float,
    ) -> Float[Tensor, "B H Tq Dv"]:
        """By the usual kernel: plain causal is told to it in one word, another mask as a table."""
        scale, bias = self.scale or q.shape[-1] ** -0.5, self.bias(at)
        causal = says_causal(mask, at) and bias is None and self.sinks is None
        mask = None if causal else table_of(mask, at)
        if self.sinks is not None:
            q, k, v = with_sink(q, k, v, self.sinks / scale)
            bias = None if bias is None else F.pad(bias, (0, 1))
            mask = (
                None
                if mask is None
                else F.pad(mask.expand(*mask.shape[:-1], at.Tk), (0, 1), value=True)
            )
        if bias is not None:  # torch's fast kernels take masks with 2 axes or 4, not with 3
            bias = (bias if bias.dim() == 4 else bias.unsqueeze(0)).to(q.dtype)
            mask = bias if mask is None else bias.masked_fill(~mask, -math.inf)
        grouped = q.shape[1] > k.shape[1]
        if grouped and mask is not None:
            k, v = shared(k, q.shape[1]), shared(v, q.shape[1])
        return F.scaled_dot_product_attention(
            *(q, k, v, mask, dropout, causal),
            scale=scale,
            enable_gqa=grouped and mask is None,
        )


def with_sink(
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


def shared(x: Float[Tensor, "B kv_heads T D"], heads: int) -> Float[Tensor, "B H T D"]:
    """Keys or values once for each of the `heads` that share them."""
    return x.repeat_interleave(heads // x.shape[1], 1)
