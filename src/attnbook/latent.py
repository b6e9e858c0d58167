"""Multi-head latent attention: a short vector a token, from which keys and values are made."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnbook.attention import attend, check_mask, fused


class LatentAttention(nn.Module):
    """Self-attention that remembers of each token a short vector instead of keys and values.

    Keys and values of all heads are linear maps of that vector, `latent` numbers wide. A rotation
    would come between them: so a part of each query, as wide as `rotate`, is turned, and meets one
    turned key that all heads share. `norm` works on the short vector. DeepSeek-AI 2024, on
    DeepSeek-V2, section 2.1; queries are not shortened here.
    """

    def __init__(self, width: int, heads: int, latent: int, rotate: nn.Module, norm: nn.Module):
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"width {width} does not divide into {heads} heads")
        D, turned = width // heads, rotate.D
        self.heads, self.widths = heads, [D, turned]  # of a head's query: as it is, and turned
        self.to_q = nn.Linear(width, heads * (D + turned), bias=False)
        self.to_latent = nn.Linear(width, latent + turned, bias=False)
        self.to_kv = nn.Linear(latent, heads * 2 * D, bias=False)
        self.to_out = nn.Linear(width, width, bias=False)
        self.rotate, self.norm = rotate, norm
        self.see = None  # called with the weights, if anybody wants them

    def forward(
        self,
        x: Float[Tensor, "B Tq C"],
        mask: Bool[Tensor, "..."] | None = None,
        cache: Any = None,
    ) -> Float[Tensor, "B Tq C"]:
        """`mask` broadcasts to (B, Tq, Tk). A `cache` keeps short vectors and turned keys."""
        start = 0 if cache is None else cache.length
        self.check(x, mask, start)
        q, q_turned = self.by_head(self.to_q(x)).split(self.widths, -1)
        latent, turned = self.to_latent(x).unsqueeze(1).tensor_split([-self.widths[1]], -1)
        latent, turned = self.norm(latent), self.rotate(turned, start)  # (B 1 T, each its width)
        if cache is not None:
            latent, turned = cache.append(latent, turned)
        k, v = self.by_head(self.to_kv(latent.squeeze(1))).chunk(2, -1)
        q = torch.cat((q, self.rotate(q_turned, start)), -1)
        k = torch.cat((k, turned.expand(-1, self.heads, -1, -1)), -1)
        return self.to_out(self.mix(q, k, v, mask).transpose(1, 2).flatten(2))

    def by_head(self, x: Float[Tensor, "B T all"]) -> Float[Tensor, "B H T each"]:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """`attend` in every head: by torch's fused kernel, unless somebody wants the weights."""
        if mask is not None:
            mask = mask.unsqueeze(1) if mask.dim() == 3 else torch.atleast_2d(mask)
        if self.see is None:
            return fused(q, k, v, mask, None)
        output, weights = attend(q, k, v, mask)
        self.see(weights)
        return output

    def check(self, x: Tensor, mask: Tensor | None, start: int) -> None:
        """Raise a ValueError unless width and mask fit."""
        if x.shape[-1] != self.to_q.in_features:
            raise ValueError(
                f"x has width {x.shape[-1]}, this layer has width {self.to_q.in_features}"
            )
        if mask is not None:
            check_mask(mask, (len(x), x.shape[1], start + x.shape[1]))
