"""Drafts for speculative decoding: a small model, a table of counts, a copy from the text."""

from collections import Counter

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnbook.speculative import Drafted, Reader


def nothing(V: int) -> Drafted:
    """No token is proposed: the model writes the next one alone."""
    return torch.zeros(0, dtype=torch.long), torch.zeros(0, V)


class ModelDraft:
    """A smaller model of the same vocabulary writes ahead, as `reader.chances` says."""

    def __init__(self, reader: Reader, V: int):
        self.read, self.V = reader, V

    def __call__(
        self, tokens: Int[Tensor, " T"], K: int, generator: torch.Generator | None = None
    ) -> Drafted:
        drafted, chances = nothing(self.V)
        for _ in range(K):
            q = self.read(torch.cat((tokens, drafted)), 1)
            chances = torch.cat((chances.to(q.dtype), q))
            drafted = torch.cat((drafted, torch.multinomial(q[0], 1, generator=generator)))
        return drafted, chances


class NGrams:
    """What followed the last tokens, counted: blended n-grams, as chapter 7's rival of a model.

    The estimate from n tokens is drawn towards the one from n − 1 as if that had been seen `kappa`
    times; at the bottom every token is alike.
    """

    def __init__(self, tokens: Int[Tensor, " T"], V: int, n: int = 6, kappa: float = 8.0):
        if n < 1 or not kappa > 0:
            raise ValueError(f"n is at least 1 and kappa above 0; got {n} and {kappa}")
        self.V, self.n, self.kappa, seen = V, n, kappa, tokens.tolist()
        self.counts: dict[tuple[int, ...], Counter[int]] = {}
        for i, token in enumerate(seen):
            for size in range(min(n, i + 1)):
                self.counts.setdefault(tuple(seen[i - size : i]), Counter())[token] += 1

    def chances(self, tokens: Int[Tensor, " T"]) -> Float[Tensor, " V"]:
        """The probabilities of the token after these."""
        context = tokens[max(0, len(tokens) - self.n + 1) :].tolist()
        p = torch.full((self.V,), 1 / self.V)
        for size in range(len(context) + 1):
            found = self.counts.get(tuple(context[len(context) - size :]))
            if not found:
                break  # a longer one was not seen either
            p = self.kappa * p
            p[list(found)] += torch.tensor(list(found.values()), dtype=p.dtype)
            p = p / p.sum()
        return p

    def __call__(
        self, tokens: Int[Tensor, " T"], K: int, generator: torch.Generator | None = None
    ) -> Drafted:
        drafted, chances = nothing(self.V)
        for _ in range(K):
            q = self.chances(torch.cat((tokens, drafted)))
            chances = torch.cat((chances, q[None]))
            drafted = torch.cat((drafted, torch.multinomial(q, 1, generator=generator)))
        return drafted, chances


class Copy:
    """Find where the last `n` tokens stood before, and propose what followed them there.

    Useful where an answer repeats its question: summaries, edits, code. Also known as prompt lookup
    (Saxena 2023). Certain of what it copies; proposes nothing where nothing repeats.
    """

    def __init__(self, V: int, n: int = 3):
        if n < 1:
            raise ValueError(f"at least 1 token must repeat; got n = {n}")
        self.V, self.n = V, n

    def __call__(
        self, tokens: Int[Tensor, " T"], K: int, generator: torch.Generator | None = None
    ) -> Drafted:
        if len(tokens) <= self.n:
            return nothing(self.V)
        windows = tokens.unfold(0, self.n, 1)[:-1]  # the last is what is looked for
        places = (windows == tokens[-self.n :]).all(-1).nonzero()
        if not len(places):
            return nothing(self.V)
        begin = int(places[-1]) + self.n
        copied = tokens[begin : begin + K]
        return copied, F.one_hot(copied, self.V).float()
