"""Lookup memory: a large table gives each position a vector for its last few tokens.

What an n-gram table knows by counting, a model can learn to look up instead of computing it.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

MULTIPLIER = 0x9E3779B97F4A7C15 - 2**64  # 2^64 / golden ratio, odd: spreads neighbours far apart


class LookupMemory(nn.Module):
    """table[hash of the last n tokens]: the same n tokens always find the same row.

    Different ones share a row where there are more of them than `rows`; where there are V^n rows or
    more, each has its own. Rows start at 0. Cheng et al. 2026 (Engram), section 2.2, with one table
    and no gate.
    """

    def __init__(self, V: int, width: int, rows: int, n: int = 2):
        super().__init__()
        if min(V, rows, n) < 1:
            raise ValueError(f"V, rows and n are at least 1; got {V}, {rows} and {n}")
        self.V, self.rows, self.n = V, rows, n
        self.table = nn.Embedding(rows, width)
        nn.init.zeros_(self.table.weight)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T C"]:
        """Zeros for the first n − 1 positions: there are not n tokens yet."""
        found = self.table(self.row_of(tokens))
        return torch.cat((torch.zeros_like(found[:, : self.n - 1]), found[:, self.n - 1 :]), 1)

    def row_of(self, tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
        """Which row belongs to the n tokens that end here; the first n − 1 are not to be used."""
        key = torch.zeros_like(tokens)
        for back in range(self.n - 1, -1, -1):
            key = key * self.V + tokens.roll(back, 1)
        if self.V**self.n <= self.rows:
            return key
        key = key * MULTIPLIER  # wraps around: that is the point
        return (key ^ (key >> 29)) % self.rows


class WithMemory(nn.Module):
    """An embedding, and a lookup memory added to it: `Embed` for a `LanguageModel`.

    It must see the tokens before: `generate(…, cached=False)`, and no padding among them.
    """

    def __init__(self, embed: nn.Module, memory: LookupMemory):
        super().__init__()
        self.embed, self.memory = embed, memory

    @property
    def limit(self) -> int | None:
        """As the embedding's."""
        return getattr(self.embed, "limit", None)

    def forward(
        self, tokens: Int[Tensor, "B T"], start: int | Int[Tensor, "..."] = 0
    ) -> Float[Tensor, "B T C"]:
        if isinstance(start, Tensor):
            raise ValueError(
                f"a memory of the last {self.memory.n} takes tokens one after the other, from the "
                "first: no padding, no documents side by side, no caches of fixed room"
            )
        if start > 0:
            raise ValueError(
                f"tokens from position {start} on: a memory of the last {self.memory.n} needs to "
                "see those before, too; read on from the beginning, generate(…, cached=False)"
            )
        return self.embed(tokens, start) + self.memory(tokens)
