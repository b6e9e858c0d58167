"""Compressed keys: near positions one by one, the far past as one entry for every few tokens.

The cache holds `window` + T / rate vectors instead of T keys and T values. As the heavily
compressed attention of DeepSeek-V4; a compressed branch beside a window is also in Yuan et al. 2025
(NSA).
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnbook.attention import attend
from attnbook.cache import AppendOnly
from attnbook.checks import check_int
from attnbook.masks import Causal, Mask
from attnbook.norms import RMSNorm
from attnbook.positions import Rotate


class Compress(nn.Module):
    """One vector for each `rate` tokens: their weighted mean, number by number.

    The weights are a softmax over the group, of logits that each token has for each number, plus a
    learned one for its place in the group. Tokens of a group that is not full yet are left out.
    """

    def __init__(self, width: int, D: int, rate: int):
        super().__init__()
        check_int("group size", rate, 1)
        self.rate = rate
        self.to_value, self.to_logit = (nn.Linear(width, D, bias=False) for _ in range(2))
        self.place, self.norm = nn.Parameter(torch.zeros(rate, D)), RMSNorm(D)

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B n D"]:
        return self.entries(self.parts(x))

    def parts(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T both"]:
        """What a token brings: its values, and a logit for each."""
        return torch.cat((self.to_value(x), self.to_logit(x)), -1)

    def entries(self, parts: Float[Tensor, "B T both"]) -> Float[Tensor, "B n D"]:
        """The entries of all groups that are full."""
        full = parts.shape[1] // self.rate * self.rate
        value, logit = parts[:, :full].unflatten(1, (-1, self.rate)).chunk(2, -1)
        return self.norm(((logit + self.place).softmax(2) * value).sum(2))


class CompressedCache(AppendOnly):
    """What `CompressedAttention` keeps: the last positions, all entries, and a group half full."""

    can_be_cut = False

    def __init__(self) -> None:
        self.length = 0
        self.near: Tensor | None = None
        self.far: Tensor | None = None
        self.pending: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Refused: attention was given the cache of another kind of layer."""
        raise ValueError("these are no keys and values: give this cache to the layer that made it")

    def total(self, T: int) -> int:
        """How many positions a mask speaks of when T are new."""
        return self.length + T

    def grid(self, B: int, Tq: int, Tk: int, device: torch.device) -> None:
        """There is no grid: an entry stands for many."""

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Go on with these rows of the batch, in this order."""
        if self.near is not None and self.far is not None and self.pending is not None:
            self.near, self.far, self.pending = self.near[rows], self.far[rows], self.pending[rows]

    def cut(self, length: int) -> None:
        """Forget everything, or nothing: what was mixed into an entry cannot be taken out."""
        if length == 0:
            self.near = self.far = self.pending = None
        elif length != self.length:
            raise ValueError(f"{self.length} positions cannot be cut to {length}, only to 0")
        self.length = length


class CompressedAttention(nn.Module):
    """Attention to the last `window` positions, and to the past in entries of `rate` tokens each.

    All heads share one key and value, which are the same vector (turned by `rotate`, as a key). An
    entry is seen from its last token on, and stands at its first.
    """

    def __init__(
        self, width: int, heads: int, D: int, rate: int, window: int, rotate: Rotate | None = None
    ):
        super().__init__()
        check_int("heads", heads, 1)
        check_int("window", window, 1)
        self.heads, self.D, self.window, self.rotate = heads, D, window, rotate
        self.to_q = nn.Linear(width, heads * D, bias=False)
        self.to_near, self.norm = nn.Linear(width, D, bias=False), RMSNorm(D)
        self.compress = Compress(width, D, rate)
        self.to_out = nn.Linear(heads * D, width, bias=False)

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        mask: Mask | None = None,
        cache: CompressedCache | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """Causal by nature: `mask` may say so and no more; positions are counted from the first."""
        if not (mask is None or isinstance(mask, Causal) or getattr(mask, "ndim", 0) == 2):
            raise ValueError(f"entries mix their tokens: no mask but a causal one fits; got {mask}")
        near, far, start = self.past(x, cache)
        i = start + torch.arange(x.shape[1], device=x.device)
        j = i[-1] + 1 - torch.arange(near.shape[1], 0, -1, device=x.device)
        w = torch.arange(far.shape[1], device=x.device) * self.compress.rate
        q = self.rotate_at(self.to_q(x).unflatten(-1, (self.heads, self.D)).transpose(1, 2), i)
        k = torch.cat((self.rotate_at(near[:, None], j), self.rotate_at(far[:, None], w)), 2)
        values = torch.cat((near, far), 1)[:, None]
        k, values = k.expand(-1, self.heads, -1, -1), values.expand(-1, self.heads, -1, -1)
        y, _ = attend(q, k, values, self.visible(i, j, w))
        return self.to_out(y.transpose(1, 2).flatten(2))

    def past(self, x: Tensor, cache: CompressedCache | None) -> tuple[Tensor, Tensor, int]:
        """Near vectors, entries, and where x starts; the cache takes note of them."""
        near, parts = self.norm(self.to_near(x)), self.compress.parts(x)
        if cache is None:
            return near, self.compress.entries(parts), 0
        start = cache.length
        if cache.near is not None and cache.pending is not None:
            near, parts = torch.cat((cache.near, near), 1), torch.cat((cache.pending, parts), 1)
        far = self.compress.entries(parts)
        cache.pending = parts[:, far.shape[1] * self.compress.rate :]
        far = far if cache.far is None else torch.cat((cache.far, far), 1)
        cache.near, cache.far = near[:, max(0, near.shape[1] - self.window + 1) :], far
        cache.length += x.shape[1]
        return near, far, start

    def rotate_at(self, x: Tensor, places: Tensor) -> Tensor:
        """`x` rotated by these positions, if the layer rotates."""
        return x if self.rotate is None else self.rotate(x, places)

    def visible(self, i: Tensor, j: Tensor, w: Tensor) -> Bool[Tensor, "Tq Tk"]:
        """Which near position j, and which entry that starts at w, a query at i sees."""
        distance = i[:, None] - j
        near = (distance >= 0) & (distance < self.window)
        return torch.cat((near, w + self.compress.rate <= i[:, None] + 1), -1)

    def cache(self, max_len: int | None = None) -> CompressedCache:
        """An empty cache for this layer; it grows, whatever the room."""
        return CompressedCache()
