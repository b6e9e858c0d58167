"""Writing with a model: which token comes next, and when to stop.

Every function takes logits or a callable that returns them; none knows what the model is made of.
"""

import math
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
    """Only the k most likely tokens stay, and what ties with the last. Fan et al. 2018, 5.1."""
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
        return logits if p == 1 else logits.masked_fill(drop, -torch.inf)

    return keep


def min_p(share: float) -> Callable[[Logits], Logits]:
    """Tokens at least `share` times as likely as the likeliest stay: few where it is sure, many
    where it is not. Nguyen et al. 2024, section 3."""
    if not 0 <= share <= 1:
        raise ValueError(f"a share of the largest probability is in [0, 1]; got {share}")
    # log p is logits + a constant, so a share of the largest p is a distance from the largest logit
    least = math.log(share) if share else -math.inf
    return lambda logits: logits.masked_fill(
        logits < logits.amax(-1, keepdim=True) + least, -torch.inf
    )


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
    window: int | None = None,
) -> Int[Tensor, "B T+{steps}"]:
    """`tokens` and `steps` more, each chosen from the logits after the last one.

    `model(tokens)` gives logits. Cached, the past is not computed again: `model.caches()` starts an
    empty cache, `model(new, caches)` fills it. A model that has learned so many positions and no
    more reads the last `window` tokens only, anew in each step: all of them move by one place.
    With dropout, call `eval()` first.
    """
    check_length(model, tokens, steps, window)
    caches = model.caches() if cached and window is None else None
    new = tokens
    for _ in range(steps):
        if caches is None:
            logits = model(tokens if window is None else tokens[:, -window:])
        else:
            logits = model(new, caches)
        new = choose(logits[:, -1])[:, None]
        tokens = torch.cat((tokens, new), 1)
    return tokens


def check_length(model: Any, tokens: Tensor, steps: int, window: int | None) -> None:
    """Raise a ValueError unless the model can read all that `generate` is going to show it."""
    T, limit = tokens.shape[1], getattr(model, "limit", None)
    if T < 1 or steps < 0:
        raise ValueError(f"needs at least 1 token and 0 steps to go on; got {T} and {steps}")
    if window is not None and window < 1:
        raise ValueError(f"a window shows at least 1 token; got {window}")
    shown = T + steps - 1 if window is None else window  # the last token is only written
    if limit is not None and shown > limit:
        raise ValueError(
            f"{T} tokens and {steps} steps: the model would read {shown} tokens, it has learned "
            f"{limit} positions; with window={limit} it forgets what is further back"
        )


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
    if limit < 1:
        raise ValueError(f"needs a limit of at least 1 token; got {limit}")
    tokens, done = start, torch.zeros_like(start[:, 0], dtype=torch.bool)
    for _ in range(limit):
        new = next_logits(tokens).argmax(-1).masked_fill(done, end)
        tokens, done = torch.cat((tokens, new[:, None]), 1), done | (new == end)
        if done.all():
            break
    return tokens[:, start.shape[1] :]


@torch.no_grad()
def beam_search(
    next_logits: Callable[[Int[Tensor, "N T"]], Float[Tensor, "N V"]],
    start: Int[Tensor, "B T"],
    end: int,
    limit: int,
    beams: int = 4,
    alpha: float = 0.6,
) -> Int[Tensor, "B L"]:
    """Keep the `beams` likeliest beginnings instead of one; return the best of them at the end.

    `next_logits` is given all beginnings as rows: sentence b's are b·beams to b·beams + beams − 1.
    They are ranked by log p / ((5 + L)/6)^alpha, where L counts their tokens, `end` too. Wu et al.
    2016, equation 14. Otherwise as `greedy_search`.
    """
    if beams < 1 or limit < 1:
        raise ValueError(f"needs at least 1 beam and a limit of at least 1; got {beams}, {limit}")
    B, T = start.shape
    row = torch.arange(B, device=start.device)[:, None]
    tokens = start[:, None].expand(B, beams, T)
    log_p = torch.full((B, beams), -torch.inf, device=start.device)
    log_p[:, 0] = 0.0  # the copies of the start are one beginning, not several
    length, done = torch.zeros_like(log_p), torch.zeros_like(log_p, dtype=torch.bool)
    for _ in range(limit):
        step = next_logits(tokens.flatten(0, 1)).log_softmax(-1).unflatten(0, (B, beams))
        step = torch.where(done[..., None], only(end, step), step)
        longer, length = log_p[..., None] + step, length + ~done  # longer: (B beams V)
        score = longer / penalty(length, alpha)[..., None]
        best = score.flatten(1).topk(beams).indices  # of all beginnings with all next tokens
        origin, new = best // step.shape[-1], best % step.shape[-1]
        tokens = torch.cat((tokens[row, origin], new[..., None]), -1)
        log_p, length = longer.flatten(1).gather(1, best), length.gather(1, origin)
        done = done.gather(1, origin) | (new == end)
        if done.all():
            break
    winner = (log_p / penalty(length, alpha)).argmax(1)
    return tokens[row[:, 0], winner, T:]


def only(end: int, like: Float[Tensor, "B N V"]) -> Float[Tensor, "B N V"]:
    """Log probabilities after a finished sentence: `end` again, for certain."""
    log_p = torch.full_like(like, -torch.inf)
    log_p[..., end] = 0.0
    return log_p


def penalty(length: Tensor, alpha: float) -> Tensor:
    """What log probabilities are divided by, so that short sequences do not win by being short."""
    return ((5 + length) / 6) ** alpha
