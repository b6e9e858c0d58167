"""Writing with a model: which token comes next, and when to stop.

Every function takes logits or a callable that returns them; none knows what the model is made of.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

Logits = Float[Tensor, "B V"]


def greedy(logits: Logits) -> Int[Tensor, " B"]:
    """The most likely token."""
    return logits.argmax(-1)


def temperature(t: float) -> Callable[[Logits], Logits]:
    """Divides the logits by t: below 1 the likely become likelier, above 1 the rare less rare."""
    if not t > 0:
        raise ValueError(f"a temperature is greater than 0; got {t} (greedy is its limit at 0)")
    return lambda logits: logits / t


def top_k(k: int) -> Callable[[Logits], Logits]:
    """Only the k most likely tokens stay. Fan et al. 2018, section 5.1."""
    if k < 1:
        raise ValueError(f"at least 1 token must stay; got k = {k}")

    def keep(logits: Logits) -> Logits:
        last = logits.topk(min(k, logits.shape[-1])).values[:, -1:]
        return logits.masked_fill(logits < last, -torch.inf)

    return keep


def top_p(p: float) -> Callable[[Logits], Logits]:
    """The most likely tokens that together have probability p stay. Holtzman et al. 2020, 3.1."""
    if not 0 < p <= 1:
        raise ValueError(f"a share of the probability is in (0, 1]; got p = {p}")

    def keep(logits: Logits) -> Logits:
        ordered, index = logits.sort(-1, descending=True)
        share = ordered.softmax(-1)
        before = share.cumsum(-1) - share  # what the likelier ones have; 0 for the likeliest
        drop = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, index, before >= p)
        return logits.masked_fill(drop, -torch.inf)

    return keep


def sample(
    *filters: Callable[[Logits], Logits], generator: torch.Generator
) -> Callable[[Logits], Int[Tensor, " B"]]:
    """Draw a token with the probability it has after the filters, applied from left to right."""

    def choose(logits: Logits) -> Tensor:
        chances = reduce(lambda x, keep: keep(x), filters, logits.float()).softmax(-1)
        drawn = torch.multinomial(chances.to(generator.device), 1, generator=generator)
        return drawn[:, 0].to(logits.device)

    return choose


@torch.no_grad()
def generate(
    model: Any,
    tokens: Int[Tensor, "B T"],
    steps: int,
    choose: Callable[[Logits], Int[Tensor, " B"]] = greedy,
    cached: bool = True,
) -> Int[Tensor, "B T+{steps}"]:
    """`tokens` and `steps` more, each chosen from the logits after the last one.

    `model(tokens)` gives logits. Cached, the past is not computed again: `model.caches()` starts an
    empty cache, `model(new, caches)` fills it. With dropout, call `eval()` first.
    """
    if steps < 0 or not tokens.shape[1]:
        raise ValueError(
            f"needs a start of at least 1 token and 0 or more steps; got {steps} steps"
        )
    caches = model.caches() if cached else None
    new = tokens
    for _ in range(steps):
        logits = model(new, caches) if cached else model(tokens)
        new = choose(logits[:, -1])[:, None]
        tokens = torch.cat((tokens, new), 1)
    return tokens


@torch.no_grad()
def greedy_search(
    next_logits: Callable[[Int[Tensor, "B T"]], Logits],
    start: Int[Tensor, "B T"],
    end: int,
    limit: int,
) -> Int[Tensor, "B L"]:
    """Append the most likely token until every row has its `end`, at most `limit` times.

    Returns what was appended; a row holds `end` only after its first one.
    """
    tokens, done = start, torch.zeros_like(start[:, 0], dtype=torch.bool)
    while tokens.shape[1] - start.shape[1] < limit and not done.all():
        new = next_logits(tokens).argmax(-1).masked_fill(done, end)
        tokens, done = torch.cat((tokens, new[:, None]), 1), done | (new == end)
    return tokens[:, start.shape[1] :]


@torch.no_grad()
def beam_search(
    next_logits: Callable[[Int[Tensor, "N T"]], Float[Tensor, "N V"]],
    start: Int[Tensor, "B 1"],
    end: int,
    limit: int,
    beams: int = 4,
    alpha: float = 0.6,
) -> Int[Tensor, "B L"]:
    """Keep the `beams` likeliest beginnings instead of one; return the best finished sequence.

    Sentence b's beginnings are the rows b·beams, …, b·beams + beams − 1 of what `next_logits` is
    given. Sequences of length L are ranked by log p / ((5 + L)/6)^alpha. Wu et al. 2016,
    equation 14.
    """
    if beams < 1 or limit < 1:
        raise ValueError(f"needs at least 1 beam and a limit of at least 1; got {beams}, {limit}")
    B = len(start)
    tokens = start.repeat_interleave(beams, 0)  # (B·beams T)
    total = torch.full((B, beams), -torch.inf, device=start.device)
    total[:, 0] = 0.0  # the copies of the start are one beginning, not several
    length, done = torch.zeros_like(total), torch.zeros_like(total, dtype=torch.bool)
    rows = beams * torch.arange(B, device=start.device)[:, None]
    while tokens.shape[1] - start.shape[1] < limit and not done.all():
        log_p = next_logits(tokens).log_softmax(-1).unflatten(0, (B, beams))
        log_p = log_p.masked_fill(done[..., None], -torch.inf)
        log_p[..., end] = log_p[..., end].masked_fill(done, 0.0)  # a finished one stays, at no cost
        length = length + ~done
        candidates = total[..., None] + log_p  # (B beams V)
        best = (candidates / penalty(length, alpha)[..., None]).flatten(1).topk(beams).indices
        origin, new = best // log_p.shape[-1], best % log_p.shape[-1]
        total, length = candidates.flatten(1).gather(1, best), length.gather(1, origin)
        done = done.gather(1, origin) | (new == end)
        tokens = torch.cat((tokens[(rows + origin).flatten()], new.view(-1, 1)), 1)
    winner = (total / penalty(length, alpha)).argmax(1)
    return tokens[rows[:, 0] + winner, start.shape[1] :]


def penalty(length: Tensor, alpha: float) -> Tensor:
    """What log probabilities are divided by, so that short sequences do not win by being short."""
    return ((5 + length) / 6) ** alpha
