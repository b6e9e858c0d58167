"""Projections: from the width of a model to the queries, keys and values of its heads."""

from typing import Protocol

from jaxtyping import Float
from torch import Tensor, nn

KeysAndValues = tuple[Float[Tensor, "B kv_heads Tk D"], Float[Tensor, "B kv_heads Tk Dv"]]
Heads = tuple[
    Float[Tensor, "B H Tq D"], Float[Tensor, "B kv_heads Tk D"], Float[Tensor, "B kv_heads Tk Dv"]
]


class Projects(Protocol):
    """What an attention asks of its projection: its sizes, and queries, keys and values."""

    width: int
    memory_width: int
    heads: int
    kv_heads: int

    def __call__(
        self, x: Float[Tensor, "B Tq C"], memory: Float[Tensor, "B Tk Cm"] | None = None
    ) -> Heads:
        """Queries, keys and values, each (B, heads, T, D)."""

    def queries(self, x: Float[Tensor, "B Tq C"]) -> Float[Tensor, "B H Tq D"]:
        """Queries alone."""

    def keys(self, memory: Float[Tensor, "B Tk Cm"]) -> KeysAndValues:
        """Keys and values of a memory."""


class Projection(nn.Module):
    """Queries, keys and values of all heads by one product with one matrix, `to_qkv`.

    A head is `D` wide, width ÷ heads if nothing else is said. `q_norm` and `k_norm` work on each
    head's queries and keys, apart; on all heads together inside `AcrossHeads`. Queries are made of
    `x`, keys and values of `memory`: the matrix is multiplied with both then, and what is not
    needed is dropped (`SplitProjection` makes none of it).
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None = None,
        D: int | None = None,
        bias: bool = True,
        q_norm: nn.Module | None = None,
        k_norm: nn.Module | None = None,
    ):
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or (D is None and width % heads):
            raise ValueError(f"width {width} does not divide into {heads} heads")
        check_sharing(heads, kv_heads)
        self.width = self.memory_width = width
        self.heads, self.kv_heads, self.D = heads, kv_heads, D or width // heads
        self.widths = [heads * self.D, kv_heads * self.D, kv_heads * self.D]
        self.to_qkv: nn.Module = nn.Linear(width, sum(self.widths), bias=bias)
        self.q_norm, self.k_norm = q_norm, k_norm

    def forward(
        self, x: Float[Tensor, "B Tq C"], memory: Float[Tensor, "B Tk C"] | None = None
    ) -> Heads:
        """Queries, keys and values, each (B, heads, T, D)."""
        if memory is not None:
            return self.queries(x), *self.keys(memory)
        q, k, v = (by_head(part, self.D) for part in self.to_qkv(x).split(self.widths, -1))
        return normed(q, self.q_norm), normed(k, self.k_norm), v

    def queries(self, x: Float[Tensor, "B Tq C"]) -> Float[Tensor, "B H Tq D"]:
        q, _, _ = self.to_qkv(x).split(self.widths, -1)
        return normed(by_head(q, self.D), self.q_norm)

    def keys(self, memory: Float[Tensor, "B Tk C"]) -> KeysAndValues:
        """Keys and values of a memory; the same for all that is asked of it."""
        _, k, v = self.to_qkv(memory).split(self.widths, -1)
        return normed(by_head(k, self.D), self.k_norm), by_head(v, self.D)


class SplitProjection(nn.Module):
    """Queries, keys and values by a map each: for attention to a memory, or if the maps differ.

    Of the maps' sizes follow all others: the memory may have another width than `x`, values another
    than keys. Norms as in `Projection`.
    """

    def __init__(
        self,
        heads: int,
        to_q: nn.Linear,
        to_k: nn.Linear,
        to_v: nn.Linear,
        q_norm: nn.Module | None = None,
        k_norm: nn.Module | None = None,
    ):
        super().__init__()
        if heads < 1 or to_q.out_features % heads:
            raise ValueError(f"queries of {to_q.out_features} do not divide into {heads} heads")
        self.D = to_q.out_features // heads
        if to_k.out_features % self.D:
            raise ValueError(f"keys of {to_k.out_features} do not divide into heads of {self.D}")
        self.heads, self.kv_heads = heads, to_k.out_features // self.D
        check_sharing(heads, self.kv_heads)
        if to_v.out_features % self.kv_heads or to_v.in_features != to_k.in_features:
            raise ValueError(
                f"values of {to_v.in_features} → {to_v.out_features} do not go with "
                f"{self.kv_heads} heads of keys from {to_k.in_features}"
            )
        self.width, self.memory_width = to_q.in_features, to_k.in_features
        self.to_q, self.to_k, self.to_v = to_q, to_k, to_v
        self.q_norm, self.k_norm = q_norm, k_norm

    def forward(
        self, x: Float[Tensor, "B Tq C"], memory: Float[Tensor, "B Tk Ck"] | None = None
    ) -> Heads:
        return self.queries(x), *self.keys(x if memory is None else memory)

    def queries(self, x: Float[Tensor, "B Tq C"]) -> Float[Tensor, "B H Tq D"]:
        return normed(by_head(self.to_q(x), self.D), self.q_norm)

    def keys(self, memory: Float[Tensor, "B Tk Ck"]) -> KeysAndValues:
        """Keys and values of a memory; the same for all that is asked of it."""
        k, v = self.to_k(memory), self.to_v(memory)
        values = v.shape[-1] // self.kv_heads
        return normed(by_head(k, self.D), self.k_norm), by_head(v, values)


class AcrossHeads(nn.Module):
    """A norm of all heads' queries, or keys, together: its width is heads × D (OLMo 2)."""

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def forward(self, x: Float[Tensor, "B H T D"]) -> Float[Tensor, "B H T D"]:
        return by_head(self.norm(x.transpose(1, 2).flatten(2)), x.shape[-1])


class SigmoidGate(nn.Module):
    """Each head's output, times a number between 0 and 1 that the layer's input decides on.

    A gate per head if `gates` is the number of heads, per channel if it is heads × D. Qiu et al.
    2025, section 2.2, position G1.
    """

    def __init__(self, width: int, gates: int, bias: bool = False):
        super().__init__()
        self.gates, self.to_gate = gates, nn.Linear(width, gates, bias=bias)

    def forward(
        self, heads: Float[Tensor, "B T all"], x: Float[Tensor, "B T C"]
    ) -> Float[Tensor, "B T all"]:
        if heads.shape[-1] % self.gates:
            raise ValueError(f"{heads.shape[-1]} channels do not divide among {self.gates} gates")
        open_by = self.to_gate(x).sigmoid().unsqueeze(-1)  # (B T gates 1)
        return (heads.unflatten(-1, (self.gates, -1)) * open_by).flatten(-2)


def by_head(x: Float[Tensor, "B T all"], D: int) -> Float[Tensor, "B H T D"]:
    """One slice of the width for each head."""
    return x.unflatten(-1, (-1, D)).transpose(1, 2)


def normed(x: Float[Tensor, "B H T D"], norm: nn.Module | None) -> Float[Tensor, "B H T D"]:
    return x if norm is None else norm(x)


def check_sharing(heads: int, kv_heads: int) -> None:
    """Raise a ValueError unless as many queries share each key."""
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"{heads} query heads cannot share {kv_heads} key heads evenly")
