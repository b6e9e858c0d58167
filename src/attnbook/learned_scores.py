"""Scores that are learned: a matrix between query and key, or a small network that sees both."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class MultiplicativeScores(nn.Module):
    """A learned matrix between query and key, q W kᵀ: their widths may differ.

    Luong et al. 2015, section 3.1, "general".
    """

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        self.to_query = nn.Linear(key_width, query_width, bias=False)
        self.widths = query_width, key_width

    def forward(
        self, q: Float[Tensor, "*batch Tq Dq"], k: Float[Tensor, "*batch Tk Dk"]
    ) -> Float[Tensor, "*batch Tq Tk"]:
        check_widths(q, k, self.widths)
        return q @ self.to_query(k).mT


class AdditiveScores(nn.Module):
    """A small network looks at query and key together: v · tanh(W q + U k).

    Bahdanau et al. 2015, appendix A.1.2, where q is the decoder's state and k the encoder's.
    """

    def __init__(self, query_width: int, key_width: int, width: int):
        super().__init__()
        self.from_query = nn.Linear(query_width, width, bias=False)
        self.from_key = nn.Linear(key_width, width, bias=False)
        self.to_score = nn.Linear(width, 1, bias=False)
        self.widths = query_width, key_width

    def forward(
        self, q: Float[Tensor, "*batch Tq Dq"], k: Float[Tensor, "*batch Tk Dk"]
    ) -> Float[Tensor, "*batch Tq Tk"]:
        check_widths(q, k, self.widths)
        pairs = self.from_query(q).unsqueeze(-2) + self.from_key(k).unsqueeze(-3)  # (… Tq Tk width)
        return self.to_score(torch.tanh(pairs)).squeeze(-1)


def check_widths(q: Tensor, k: Tensor, widths: tuple[int, int]) -> None:
    """Raise a ValueError unless queries and keys have the widths that a score was made for."""
    if (q.shape[-1], k.shape[-1]) != widths:
        raise ValueError(
            f"queries have width {q.shape[-1]}, keys {k.shape[-1]}; this score was made for "
            f"{widths[0]} and {widths[1]}"
        )
