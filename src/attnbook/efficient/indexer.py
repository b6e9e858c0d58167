"""Learned sparse attention: a cheap indexer picks a few keys for each query, attention sees those.

DeepSeek-AI 2025 (DeepSeek-V3.2), section 2.1, "DSA".
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import attend
from attnbook.cache import KVCache
from attnbook.masks import Grid, Mask, as_pattern, check_mask
from attnbook.positions import Rotate


class Indexer(nn.Module):
    """How much each query may need each key, roughly: Σ_h w_ih · ReLU(q_ih · k_j).

    A few narrow heads, one key that they share, and weights that the query gives to the heads.
    `rotate` turns queries and keys by their position. Equation 1, with the scales of the code that
    was published with it: 1/√D and 1/√heads.
    """

    def __init__(self, width: int, heads: int, D: int, rotate: Rotate | None = None):
        super().__init__()
        if heads < 1 or D < 1:
            raise ValueError(f"an indexer has at least 1 head of width 1; got {heads} of {D}")
        self.heads, self.D, self.rotate = heads, D, rotate
        self.to_q, self.to_k = (nn.Linear(width, n * D, bias=False) for n in (heads, 1))
        self.norm = nn.LayerNorm(D, eps=1e-6)
        self.to_weights = nn.Linear(width, heads, bias=False)

    def forward(
        self,
        x: Float[Tensor, "B Tq C"],
        keys: Float[Tensor, "B Tk D"],
        start: int | Int[Tensor, "..."] = 0,
    ) -> Float[Tensor, "B Tq Tk"]:
        """A score for each pair of a query, made of `x` from position `start` on, and a key."""
        q = self.to_q(x).unflatten(-1, (self.heads, self.D)).transpose(1, 2)
        q = q if self.rotate is None else self.rotate(q, start)
        found = F.relu(q @ keys[:, None].mT / self.D**0.5)  # (B H Tq Tk)
        return torch.einsum("bqh,bhqk->bqk", self.to_weights(x) / self.heads**0.5, found)

    def keys(
        self, x: Float[Tensor, "B T C"], start: int | Int[Tensor, "..."] = 0
    ) -> Float[Tensor, "B T D"]:
        """What is kept of each position, to be looked for later."""
        k = self.norm(self.to_k(x))
        return k if self.rotate is None else self.rotate(k[:, None], start)[:, 0]


def best(
    scores: Float[Tensor, "B Tq Tk"], count: int, allowed: Bool[Tensor, "..."] | None = None
) -> Int[Tensor, "B Tq n"]:
    """The numbers of the `count` keys with the highest scores, of those that are allowed.

    Where fewer are allowed, the rest of the row is −1.
    """
    if count < 1:
        raise ValueError(f"a query sees at least 1 key; got {count}")
    if allowed is not None:
        check_mask(allowed, scores.shape)
        scores = scores.masked_fill(~allowed, -torch.inf)
    top = scores.topk(min(count, scores.shape[-1]), -1)
    return top.indices.masked_fill(top.values == -torch.inf, -1)


def only(index: Int[Tensor, "B Tq n"], Tk: int) -> Bool[Tensor, "B Tq Tk"]:
    """A mask: True at the keys whose numbers `best` gave."""
    seen = torch.zeros(*index.shape[:-1], Tk + 1, dtype=torch.bool, device=index.device)
    return seen.scatter(-1, index % (Tk + 1), True)[..., :Tk]  # −1 falls into the last column


def attend_to(
    q: Float[Tensor, "B H Tq D"],
    k: Float[Tensor, "B H Tk D"],
    v: Float[Tensor, "B H Tk Dv"],
    index: Int[Tensor, "B Tq n"],
) -> Float[Tensor, "B H Tq Dv"]:
    """`attend` to the chosen keys alone, which are gathered: n scores per query instead of Tk."""
    row = torch.arange(len(q), device=q.device)[:, None, None]
    chosen = index.clamp(min=0)
    k, v = (x.transpose(1, 2)[row, chosen].permute(0, 3, 1, 2, 4) for x in (k, v))  # (B H Tq n D)
    return attend(q[..., None, :], k, v, (index >= 0)[:, None, :, None])[0][..., 0, :]


def indexer_loss(
    scores: Float[Tensor, "B Tq Tk"],
    weights: Float[Tensor, "B H Tq Tk"],
    allowed: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, ""]:
    """How far the indexer is from the attention that it stands in for: KL(attention ‖ indexer).

    The attention's `weights`, summed over its heads and brought to sum 1, are the target, and get
    no gradient; `allowed` is what the attention may see. Equations 3 and 4.
    """
    if allowed is not None:
        check_mask(allowed, scores.shape)
        scores = scores.masked_fill(~allowed, -torch.inf)
    target = weights.detach().sum(1)
    target = target / target.sum(-1, keepdim=True)
    log_share = scores.log_softmax(-1).masked_fill(target == 0, 0)  # what is hidden has −∞
    return (torch.xlogy(target, target) - target * log_share).sum(-1).mean()


class IndexedCache(KVCache):
    """The cache of an attention layer, and of the indexer that chooses for it."""

    def __init__(self) -> None:
        super().__init__()
        self.indexed: Tensor | None = None

    def index(self, keys: Float[Tensor, "B T D"]) -> Float[Tensor, "B Tk D"]:
        """Store the indexer's keys of new positions, before the attention's; return all so far."""
        past = keys[:, :0] if self.indexed is None else self.indexed[:, : self.length]
        self.indexed = torch.cat((past, keys), 1)
        return self.indexed

    def select(self, rows: Int[Tensor, " N"]) -> None:
        super().select(rows)
        self.indexed = None if self.indexed is None else self.indexed[rows]


class IndexedAttention(nn.Module):
    """An attention that sees, for each query, the `count` keys that an indexer chose.

    What is not chosen is masked, so this shows what the choice does, not what it saves: `attend_to`
    does that. Self-attention only. Choosing has no gradient: `indexer_loss` trains the indexer, on
    `scores` that it leaves behind.
    """

    def __init__(self, attention: nn.Module, indexer: Indexer, count: int):
        super().__init__()
        self.attention, self.indexer, self.count = attention, indexer, count
        self.scores: Tensor | None = None  # of the last call

    def forward(
        self,
        x: Float[Tensor, "B T C"],
        mask: Mask | None = None,
        cache: IndexedCache | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """As the attention. The indexer sees x, and is not asked to improve it."""
        where = (0 if cache is None else cache.length) if positions is None else positions
        keys = self.indexer.keys(x.detach(), where)
        keys = keys if cache is None else cache.index(keys)
        self.scores = self.indexer(x.detach(), keys, where)
        B, Tq, Tk = self.scores.shape
        at = Grid(B, Tq, Tk, x.device)
        allowed = None if mask is None else as_pattern(mask).to_dense(at)
        if allowed is not None:  # (B or 1, heads or 1, Tq, Tk): what every head may see
            allowed = allowed.all(1) if allowed.dim() == 4 else allowed
        chosen = only(best(self.scores.detach(), self.count, allowed), keys.shape[1])
        named = {} if positions is None else {"positions": positions}
        return self.attention(x, mask=chosen, cache=cache, **named)

    def cache(self, max_len: int | None = None) -> IndexedCache:
        """An empty cache for attention and indexer; it grows, whatever the room."""
        return IndexedCache()
