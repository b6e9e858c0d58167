"""Writing with a model: which token comes next, and when to stop.

Every function takes logits or a callable that returns them; none knows what the model is made of.
"""

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnbook.continued import Continued
from attnbook.prompts import Ends, Stop, check_length, check_prompt, check_room
from attnbook.search import beam_search as beam_search  # taught as another way to write
from attnbook.search import greedy_search as greedy_search
from attnbook.search import penalty as penalty

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


def generate(
    model: Any,
    tokens: Int[Tensor, "B T"],
    steps: int,
    choose: Callable[[Logits], Int[Tensor, " B"]] = greedy,
    cached: bool = True,
    window: int | None = None,
    **rows: Any,
) -> Int[Tensor, "B L"]:
    """`tokens` and `steps` more, each chosen from the logits after the last one: see `stream`, also
    for `rows` of different lengths (mask, end, pad). With dropout, call `eval()` first."""
    new = list(stream(model, tokens, steps, choose, cached, window, **rows))
    return torch.cat((tokens, *(token[:, None] for token in new)), 1)


def stream(
    model: Any,
    tokens: Int[Tensor, "B T"],
    steps: int,
    choose: Callable[[Logits], Int[Tensor, " B"]] = greedy,
    cached: bool = True,
    window: int | None = None,
    mask: Bool[Tensor, "B T"] | None = None,
    end: Ends | None = None,
    pad: int | None = None,
) -> Iterator[Int[Tensor, " B"]]:
    """The tokens that `generate` appends, one of each row at a time, as soon as they are chosen.

    `model(tokens)` gives logits. Cached, the past is not computed again: `model.caches()` starts an
    empty cache, `model(new, caches)` fills it. A model that has learned so many positions and no
    more reads the last `window` tokens only, anew in each step: all of them move by one place.

    Prompts of different lengths are padded, on either side: `mask` is True at their tokens. A row
    stops after its `end`: a token, any of a set, or a tensor of one per row; from then on it holds
    `pad`, or its stop token again, and when all rows have stopped, so does this. To break off and
    go on later, hand over `Continued(model, model.caches(), mask)` in place of the model: of
    `tokens`, prompt and what was written, it reads only what it has not read.
    """
    check_prompt(tokens)
    read = reading(model, cached, window, mask)
    T = read.longest(tokens)
    check_length(T, steps, read.window, read.limit)
    check_room(T, steps, read.room)
    stop = Stop(end, len(tokens), pad, tokens.device)
    return written(read, tokens, steps, choose, stop)


def reading(
    model: Any, cached: bool, window: int | None, mask: Bool[Tensor, "B T"] | None
) -> Continued:
    """What reads the tokens and says what comes next: made of a model, or as it was given."""
    if isinstance(model, Continued):
        if window is not None or mask is not None:
            raise ValueError("mask and window belong to the Continued that was given")
        return model
    if not cached or window is not None:
        return Continued(model, None, mask, window)
    if not hasattr(model, "caches"):
        raise ValueError(f"a {type(model).__name__} has no caches(): say cached=False")
    return Continued(model, model.caches(), mask)


def written(
    read: Callable[[Tensor], Logits],
    tokens: Int[Tensor, "B T"],
    steps: int,
    choose: Callable[[Logits], Int[Tensor, " B"]],
    stop: Stop,
) -> Iterator[Int[Tensor, " B"]]:
    """Logits of the last position, choose, append: until all rows have stopped."""
    for step in range(steps):
        logits = read(tokens)
        if step == 0:
            stop.check(logits.shape[-1])
        new = stop(choose(logits))
        tokens = torch.cat((tokens, new[:, None]), 1)
        yield new
        if stop.all():
            return
