"""Speculative decoding: a cheap draft proposes tokens, the model checks them all in one call.

What is written has exactly the model's own distribution, whatever the draft; a good draft only
makes it faster. Leviathan et al. 2023; Chen et al. 2023.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.cache import DecodingState, WindowCache
from attnbook.device import device_of
from attnbook.generate.sampling import logits_of_last

Logits = Float[Tensor, "N V"]
Chances = Callable[[Logits], Float[Tensor, "N V"]]
Drafted = tuple[Int[Tensor, " k"], Float[Tensor, "k V"]]
# propose(tokens, K, generator): at most K tokens, and the probabilities each was drawn with
Propose = Callable[[Int[Tensor, " T"], int, torch.Generator | None], Drafted]


def certain(logits: Logits) -> Float[Tensor, "N V"]:
    """All probability on the most likely token: decoding is greedy then."""
    return F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)


def after(*filters: Callable[[Logits], Logits]) -> Chances:
    """Probabilities after the filters of `generate`, as in `sample(*filters)`."""
    return lambda logits: reduce(lambda x, keep: keep(x), filters, logits.float()).softmax(-1)


def overlap(p: Float[Tensor, "*batch V"], q: Float[Tensor, "*batch V"]) -> Float[Tensor, "*batch"]:
    """How often a token drawn from q is accepted where p is right: Σ min(p, q).

    Leviathan et al. 2023, corollary 3.6.
    """
    return torch.minimum(p, q).sum(-1)


def residual(p: Float[Tensor, " V"], q: Float[Tensor, " V"]) -> Float[Tensor, " V"]:
    """What to draw from after a rejection: where the draft gave too little, in proportion.

    Accepting with min(1, p / q), and this otherwise, gives p: min(p, q) + (1 − Σ min(p, q)) ·
    residual = p.
    """
    missing = (p - q).clamp(min=0)
    total = missing.sum()
    return missing / total if total > 0 else p  # q is p: nothing is ever rejected


def judge(
    p: Float[Tensor, "places V"],
    q: Float[Tensor, "k V"],
    drafted: Int[Tensor, " k"],
    generator: torch.Generator | None = None,
) -> Int[Tensor, " n"]:
    """The drafted tokens up to the first that is rejected, and one of the model's own: 1 to k + 1.

    `p` are the model's probabilities at the k places of the drafted tokens and at the one after
    them, `q` those that each was drawn with. Leviathan et al. 2023, algorithm 1.
    """
    k = len(drafted)
    here = torch.arange(k)
    luck = torch.rand(k, generator=generator, dtype=p.dtype)
    rejected = (luck * q[here, drafted] >= p[here, drafted]).tolist()
    n = rejected.index(True) if True in rejected else k
    own = residual(p[n], q[n]) if n < k else p[k]
    return torch.cat((drafted[:n], torch.multinomial(own, 1, generator=generator)))


class Reader:
    """A model with its caches, asked about sequences that begin as the last one did.

    Only what is new is read; what the last sequence had in place of it is cut off the caches. Those
    of a window keep `spare` positions more for that; a recurrent state cannot be cut: then all is
    read anew.
    """

    def __init__(self, model: nn.Module, chances: Chances = certain, spare: int = 32):
        self.model, self.chances, self.calls, self.spare = model, chances, 0, spare
        self.caches = self.empty()
        self.seen = torch.zeros(0, dtype=torch.long)

    def empty(self) -> list[DecodingState] | None:
        """New caches, if the model has any."""
        make = getattr(self.model, "caches", None)
        caches: list[DecodingState] | None = None if make is None else make()
        for cache in caches or []:
            if isinstance(cache, WindowCache):
                cache.spare = self.spare
        return caches

    def back_to(self, length: int) -> int:
        """Cut the caches to `length`; how much of it they still hold."""
        if self.caches and all(getattr(cache, "can_be_cut", True) for cache in self.caches):
            for cache in self.caches:
                cache.cut(length)
            return length
        self.caches = self.empty()
        return 0

    @torch.no_grad()
    def __call__(self, tokens: Int[Tensor, " T"], count: int) -> Float[Tensor, "{count} V"]:
        """The probabilities of the token after each of the last `count`, on the CPU."""
        self.calls += 1
        known = min(common(self.seen, tokens), len(tokens) - count)
        if known < len(self.seen) or self.caches is None:
            known = self.back_to(known)
        device = device_of(self.model)
        new = tokens[None, known:].to(device)
        given = (new,) if self.caches is None else (new, self.caches)
        logits = logits_of_last(count, self.model, *given)
        self.seen = tokens
        return self.chances(logits[0].cpu())


def common(a: Int[Tensor, " Ta"], b: Int[Tensor, " Tb"]) -> int:
    """How many tokens two sequences begin with alike."""
    n = min(len(a), len(b))
    differs = (a[:n] != b[:n]).nonzero()
    return int(differs[0]) if len(differs) else n


@dataclass
class Written:
    """What was written, in how many calls of the model, and how many proposed tokens were kept."""

    tokens: Int[Tensor, " T"]
    calls: int
    proposed: int
    kept: int


def speculative(
    model: nn.Module,
    propose: Propose,
    tokens: Int[Tensor, " T"],
    max_new_tokens: int,
    K: int = 4,
    chances: Chances = certain,
    generator: torch.Generator | None = None,
    eos: int | None = None,
) -> Written:
    """`tokens` and up to `max_new_tokens` more, as `generate` would write them, in fewer calls of
    the model.

    `propose` drafts up to K tokens at a time. `chances` makes probabilities of the model's logits:
    `certain` for the most likely token, `after(temperature(t), top_p(p))` for drawing. Stops after
    `eos`, if given. For one sequence, since rows would be accepted to different lengths. With
    dropout, call `eval()` first.
    """
    if tokens.dim() != 1 or len(tokens) < 1 or max_new_tokens < 0 or K < 1:
        raise ValueError(
            "needs one sequence of at least 1 token, max_new_tokens ≥ 0 and K ≥ 1; got tokens of "
            f"shape {tuple(tokens.shape)}, {max_new_tokens} and {K}"
        )
    read, tokens, proposed, kept = Reader(model, chances, K + 1), tokens.cpu(), 0, 0
    length = len(tokens) + max_new_tokens
    while len(tokens) < length:
        drafted, q = propose(tokens, min(K, length - len(tokens) - 1), generator)
        p = read(torch.cat((tokens, drafted)), len(drafted) + 1)
        new = judge(p, q.to(p.dtype), drafted, generator)
        proposed, kept = proposed + len(drafted), kept + len(new) - 1
        if eos is not None and (new == eos).any():
            length = len(tokens) + new.tolist().index(eos) + 1
        tokens = torch.cat((tokens, new))[:length]
    return Written(tokens, read.calls, proposed, kept)


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
