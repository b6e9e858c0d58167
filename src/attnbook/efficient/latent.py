"""Multi-head latent attention: a short vector per token, from which keys and values are made."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import Attention, Heads
from attnbook.cache import Cache, append_to
from attnbook.masks import Grid, Mask
from attnbook.positions import Rotary, scale_queries


class LatentProjection(nn.Module):
    """From each token a query, a short vector, and a piece of key that will be turned.

    `to_q` makes `heads` queries, of a part that stays as it is and a part that is turned; a
    sequence of linear map, norm and linear map makes them of a short vector of their own.
    `to_latent` makes the short vector, which `norm` works on, and the turned piece of key that all
    heads share; `to_kv` makes each head's key and value of the short vector. All widths follow from
    the maps': a head's value may have another than its key. DeepSeek-AI 2024 (V2), section 2.1.
    """

    def __init__(
        self, heads: int, to_q: nn.Module, to_latent: nn.Linear, norm: nn.Module, to_kv: nn.Linear
    ):
        super().__init__()
        self.width = self.memory_width = to_latent.in_features
        self.heads = self.kv_heads = heads
        self.latent = to_kv.in_features
        self.turned = to_latent.out_features - self.latent
        queries = [part for part in to_q.modules() if isinstance(part, nn.Linear)][-1].out_features
        if heads < 1 or queries % heads or to_kv.out_features % heads:
            raise ValueError(
                f"queries of {queries}, keys and values of {to_kv.out_features} do not divide into "
                f"{heads} heads"
            )
        self.D = queries // heads - self.turned
        self.Dv = to_kv.out_features // heads - self.D
        if min(self.turned, self.D, self.Dv) < 0:
            raise ValueError(
                f"latent {self.latent}, turned {self.turned}, key {self.D}, value {self.Dv}: the "
                "maps' widths do not go together"
            )
        self.to_q, self.to_latent, self.norm, self.to_kv = to_q, to_latent, norm, to_kv

    def forward(self, x: Float[Tensor, "B T C"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """A head's query in two parts, (B, H, T, D) and (B, H, T, turned); what a cache keeps of
        a token: the short vector, (B, 1, T, latent), and the turned key, (B, 1, T, turned)."""
        q, q_turned = self.split_heads(self.to_q(x)).split([self.D, self.turned], -1)
        latent, turned = self.to_latent(x).unsqueeze(1).split([self.latent, self.turned], -1)
        return q, q_turned, self.norm(latent), turned

    def keys(
        self, latent: Float[Tensor, "B 1 Tk L"]
    ) -> tuple[Float[Tensor, "B H Tk D"], Float[Tensor, "B H Tk Dv"]]:
        """Every head's keys and values, made of the short vectors."""
        return self.split_heads(self.to_kv(latent.squeeze(1))).split([self.D, self.Dv], -1)

    def split_heads(self, x: Float[Tensor, "B T all"]) -> Float[Tensor, "B H T each"]:
        """One slice of the width for each head."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class MLA(Attention):
    """Self-attention that remembers of each token a short vector instead of keys and values.

    A score is qᵀ W c for a short vector c, so when generating W can be multiplied into the map that
    makes the query, and keys are never made. A rotation R by the distance would stand between the
    two, qᵀ R W c, and forbid it: so only a part of each query is turned, and meets one turned key
    that all heads share. Parts as those of `Attention`; `project` is a `LatentProjection`.
    """

    project: LatentProjection  # type: ignore[assignment]  # makes four parts, of x alone

    def forward(
        self,
        x: Float[Tensor, "B Tq C"],
        memory: Float[Tensor, "B Tk C"] | None = None,
        mask: Mask | None = None,
        cache: Cache | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B Tq C"]:
        """As `Attention`, to itself alone. A `cache` keeps short vectors and turned keys."""
        if memory is not None:
            raise ValueError("this layer looks at its own x alone, at no memory")
        self.check(x, x, mask, cache)
        start = 0 if cache is None else cache.length
        q, latent, turned = self.rotated(x, start if positions is None else positions)
        if cache is not None:
            latent, turned = append_to(cache, latent, turned, mask)
        k, v = self.keys(latent, turned)
        sizes = x.shape[0], x.shape[1], k.shape[2], x.device
        grid = Grid(*sizes) if cache is None else cache.grid(*sizes)
        mask, grid = self.combine_masks(mask, grid)
        heads = self.mix(q, k, v, mask, grid)
        heads = heads.transpose(1, 2).flatten(2)  # (B Tq H·Dv)
        return self.to_out(heads if self.gate is None else self.gate(heads, x))

    def rotated(
        self, x: Float[Tensor, "B T C"], where: int | Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, (B, H, T, D + turned), and what a cache keeps, from these positions on."""
        q, q_turned, latent, turned = self.project(x)
        if self.rotate is not None:
            q_turned, turned = self.rotate(q_turned, where), self.rotate(turned, where)
        return scale_queries(self.rotate, torch.cat((q, q_turned), -1), where), latent, turned

    def keys(self, latent: Tensor, turned: Tensor) -> tuple[Tensor, Tensor]:
        """Every head's keys, with the turned piece behind them, and values."""
        k, v = self.project.keys(latent)
        return torch.cat((k, turned.expand(-1, self.heads, -1, -1)), -1), v

    def placed(self, x: Float[Tensor, "B T C"]) -> Heads:
        """As `Attention`."""
        q, latent, turned = self.rotated(x, 0)
        return q, *self.keys(latent, turned)


class LatentAttention(MLA):
    """`MLA` with heads as wide as usual, width ÷ heads, and queries that are not shortened.

    The short vector has `latent` numbers, and `rotate.D` more are turned. DeepSeek-AI 2024, on
    DeepSeek-V2, section 2.1.
    """

    def __init__(self, width: int, heads: int, latent: int, rotate: Rotary, norm: nn.Module):
        if heads < 1 or width % heads:
            raise ValueError(f"width {width} does not divide into {heads} heads")
        D = width // heads
        to_q = nn.Linear(width, heads * (D + rotate.D), bias=False)
        to_latent = nn.Linear(width, latent + rotate.D, bias=False)
        to_kv = nn.Linear(latent, heads * 2 * D, bias=False)
        to_out = nn.Linear(width, width, bias=False)
        super().__init__(LatentProjection(heads, to_q, to_latent, norm, to_kv), to_out, rotate)
