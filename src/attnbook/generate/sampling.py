"""Generation: from logits to the next token, and from a prompt to a text.

Samplers turn logits into tokens. `generate` and `stream` append them to a prompt, and a
`DecodingSession` keeps the caches between two calls of the model. None of them knows what the model
is made of: it is a callable that returns logits.
"""

import inspect
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import reduce
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

Logits = Float[Tensor, "B V"]
Sampler = Callable[[Logits], Int[Tensor, " B"]]
Process = Callable[[Logits, Int[Tensor, "B T"]], Logits]  # knows the tokens so far, prompt included
Eos = int | Collection[int] | Int[Tensor, " B"]  # one, any of several, or one for each row
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8)
CHECK_EVERY = 16  # tokens between two checks on a GPU, where each one waits for all that is queued


def greedy(logits: Logits) -> Int[Tensor, " B"]:
    """The most likely token."""
    return logits.argmax(-1)


def temperature(t: float) -> Callable[[Logits], Logits]:
    """Divide the logits by t: below 1 the likely become likelier, above 1 the rare less rare."""
    if not t > 0:
        raise ValueError(f"a temperature is greater than 0; got {t} (greedy is its limit at 0)")
    return lambda logits: logits / t


def top_k(k: int) -> Callable[[Logits], Logits]:
    """Keep the k most likely tokens, and what ties with the last. Fan et al. 2018, section 5.1."""
    if k < 1:
        raise ValueError(f"at least 1 token must stay; got k = {k}")

    def keep(logits: Logits) -> Logits:
        last = logits.topk(min(k, logits.shape[-1])).values[:, -1:]
        return logits.masked_fill(logits < last, -torch.inf)

    return keep


def top_p(p: float) -> Callable[[Logits], Logits]:
    """Keep the most likely tokens that together have probability p (nucleus sampling).

    Holtzman et al. 2020, section 3.1.
    """
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
    """Keep tokens at least `share` times as likely as the likeliest: few where the model is sure,
    many where it is not. Nguyen et al. 2024, section 3."""
    if not 0 <= share <= 1:
        raise ValueError(f"a share of the largest probability is in [0, 1]; got {share}")
    # log p is logits + a constant, so a share of the largest p is a distance from the largest logit
    least = math.log(share) if share else -math.inf
    return lambda logits: logits.masked_fill(
        logits < logits.amax(-1, keepdim=True) + least, -torch.inf
    )


def sample(*filters: Callable[[Logits], Logits], generator: torch.Generator) -> Sampler:
    """Draw a token with the probability it has after the filters, applied from left to right."""

    def sampler(logits: Logits) -> Tensor:
        probabilities = reduce(lambda x, keep: keep(x), filters, logits.float()).softmax(-1)
        drawn = torch.multinomial(probabilities.to(generator.device), 1, generator=generator)
        return drawn[:, 0].to(logits.device)

    return sampler


class LogProbs:
    """A sampler that keeps the log probability of each token that `sampler` chooses.

    `log_p` has those of a step in each entry, (B,), as the logits say that `generate` hands over,
    before the filters of `sampler`. Of a row that has stopped they mean nothing. Make a new one for
    each call of `generate`.
    """

    def __init__(self, sampler: Sampler = greedy):
        self.sampler = sampler
        self.log_p: list[Float[Tensor, " B"]] = []

    def __call__(self, logits: Logits) -> Int[Tensor, " B"]:
        """The sampler's tokens."""
        tokens = self.sampler(logits)
        self.log_p.append(logits.float().log_softmax(-1).gather(1, tokens[:, None])[:, 0])
        return tokens


def repetition_penalty(penalty: float) -> Process:
    """Make the tokens so far less likely for `penalty` > 1: positive logits are divided by it,
    negative ones multiplied.

    Keskar et al. 2019 (CTRL) divide all; by sign as in published code, where a negative logit would
    grow otherwise.
    """
    if not penalty > 0:
        raise ValueError(f"a repetition penalty is greater than 0, 1 for none; got {penalty}")

    def process(logits: Logits, tokens: Int[Tensor, "B T"]) -> Logits:
        seen = logits.gather(1, tokens)  # (B T)
        seen = torch.where(seen > 0, seen / penalty, seen * penalty)
        return logits.scatter(1, tokens, seen)

    return process


def generate(
    model: Any,
    tokens: Int[Tensor, "B T"],
    max_new_tokens: int,
    sampler: Sampler = greedy,
    cached: bool = True,
    window: int | None = None,
    mask: Bool[Tensor, "B T"] | None = None,
    eos: Eos | None = None,
    pad: int | None = None,
    check_every: int | None = None,
    process: Process | None = None,
) -> Int[Tensor, "B L"]:
    """`tokens` and up to `max_new_tokens` more. With dropout, call `eval()` first.

    Arguments are those of `stream`. Every `check_every` tokens, and at the end, the logits are
    checked for NaN and the rows for their `eos`: a GPU is waited for then, so it is 16 there, and
    1 on a CPU. What is returned does not depend on it.
    """
    session = start_session(model, tokens, max_new_tokens, cached, window, mask)
    stop = StopTokens(eos, len(tokens), pad, tokens.device)
    if check_every is None:
        exact = tokens.device.type == "cpu" or session is model
        check_every = 1 if exact else CHECK_EVERY
    new = list(decode(session, tokens, max_new_tokens, sampler, stop, check_every, process))
    if stop.given and len(new) > 1 and check_every > 1:
        new = new[: int(stop.length)]  # what was written before all rows had stopped
    return torch.cat((tokens, *(token[:, None] for token in new)), 1)


def stream(
    model: Any,
    tokens: Int[Tensor, "B T"],
    max_new_tokens: int,
    sampler: Sampler = greedy,
    cached: bool = True,
    window: int | None = None,
    mask: Bool[Tensor, "B T"] | None = None,
    eos: Eos | None = None,
    pad: int | None = None,
    process: Process | None = None,
) -> Iterator[Int[Tensor, " B"]]:
    """The tokens that `generate` appends, one per row at a time, as soon as they are chosen.

    `model(tokens)` gives logits. Cached, the past is not computed again: `model.caches()` starts
    empty caches, `model(new, caches)` fills them. A model that has learned a limited number of
    positions reads the last `window` tokens only, anew at each step. `process(logits, tokens)`
    changes the logits before the sampler reads them, knowing the tokens so far, padding included.

    Prompts of different lengths are padded, on either side: `mask` is True at their tokens. A row
    stops after its `eos`: a token, any of a set, or a tensor of one per row; from then on it holds
    `pad`, or its `eos` again, and when all rows have stopped, so does this. To break off and go on
    later, pass `DecodingSession(model, model.caches(), mask)` in place of the model: of `tokens`,
    prompt and what was written, it reads only what it has not read.
    """
    session = start_session(model, tokens, max_new_tokens, cached, window, mask)
    stop = StopTokens(eos, len(tokens), pad, tokens.device)
    return decode(session, tokens, max_new_tokens, sampler, stop, process=process)


def decode(
    session: Callable[[Tensor], Logits],
    tokens: Int[Tensor, "B T"],
    max_new_tokens: int,
    sampler: Sampler,
    stop: "StopTokens",
    check_every: int = 1,
    process: Process | None = None,
) -> Iterator[Int[Tensor, " B"]]:
    """The loop of generation: logits after the last position, sample, append."""
    nan = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
    for step in range(1, max_new_tokens + 1):
        logits = session(tokens)  # (B V)
        if process is not None:
            logits = process(logits, tokens)
        if step == 1:
            stop.check(logits.shape[-1])
        check = step % check_every == 0 or step == max_new_tokens
        nan = nan | logits.isnan().any(-1)
        if check:
            check_nan(nan)
        elif check_every > 1:  # until the next check such a row samples from anything
            logits = logits.masked_fill(nan[:, None], 0.0)
        new = stop(sampler(logits))  # (B)
        tokens = torch.cat((tokens, new[:, None]), 1)
        yield new
        if check and stop.all():
            return


def start_session(
    model: Any,
    tokens: Int[Tensor, "B T"],
    max_new_tokens: int,
    cached: bool,
    window: int | None,
    mask: Bool[Tensor, "B T"] | None,
) -> "DecodingSession":
    """The session that was passed as `model`, or a new one for it; ValueError if `tokens` are no
    prompt, or there is no space for so many more."""
    check_prompt(tokens)
    if isinstance(model, DecodingSession):
        if window is not None or mask is not None:
            raise ValueError("mask and window belong to the DecodingSession that was passed")
        session = model
    elif not cached or window is not None:
        session = DecodingSession(model, None, mask, window)
    elif not hasattr(model, "caches"):
        raise ValueError(
            f"a {type(model).__name__} has no caches(): say cached=False, if no position "
            "sees a later one"
        )
    else:
        session = DecodingSession(model, model.caches(), mask)
    T = session.longest(tokens)
    check_length(T, max_new_tokens, session.window, session.limit)
    check_max_len(T, max_new_tokens, session.max_len)
    return session


class DecodingSession:
    """Incremental decoding: feed only the new tokens, keep the KV caches.

    `session(tokens)` returns the logits after the last token of each row, (B, V), and is called
    again while the rows grow. `model(tokens)` gives logits; with `caches` it is
    `model(new, caches)`. `mask`, True at tokens and False at padding of the first call's tokens,
    (B, T), on whatever side, makes it `model(…, mask=…)`. With `window` the last so many tokens are
    read, anew each time. A session can be left and gone on with later.
    """

    def __init__(
        self,
        model: Callable[..., Float[Tensor, "B T V"]],
        caches: Sequence[Any] | None = None,
        mask: Bool[Tensor, "B T"] | None = None,
        window: int | None = None,
        limit: int | None = None,
    ):
        if window is not None and caches is not None:
            raise ValueError("a window is read anew in each step: it has no use for caches")
        if any(int(cache.length) for cache in caches or []):
            raise ValueError("these caches have seen tokens: go on with the session that read them")
        self.model, self.caches, self.mask, self.window = model, caches, mask, window
        self.limit = getattr(model, "limit", None) if limit is None else limit
        self.prompt_length = self.length = 0  # columns of the first call, and columns read so far
        self.order: Tensor | None = None

    @torch.no_grad()
    def __call__(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B V"]:
        """`tokens` are those of the last call and more; the first call may have several rows for
        each row of the mask, one after the other."""
        if not self.prompt_length:
            self.begin(tokens)
        if self.order is not None:
            start = tokens[:, : self.prompt_length].gather(1, self.order)
            tokens = torch.cat((start, tokens[:, self.prompt_length :]), 1)
        if self.caches is None:
            new = tokens if self.window is None else tokens[:, -self.window :]
            given: tuple[Any, ...] = (new,)
        else:
            # a copy: of the same strides in each step, so that a compiled model fits them all
            new = tokens[:, self.length :].clone(memory_format=torch.contiguous_format)
            given = new, self.caches
        T, mask = tokens.shape[1], self.mask
        named = {} if mask is None else {"mask": self.key_mask(mask, T, new.shape[1])}
        self.length = T
        return last_logits(self.model, *given, **named)

    def begin(self, tokens: Int[Tensor, "B T"]) -> None:
        """Move padding before the tokens of its row, and drop what no row needs."""
        self.prompt_length = tokens.shape[1]
        if self.mask is None:
            return
        check_padding(self.mask, tokens)
        mask = self.mask.repeat_interleave(len(tokens) // len(self.mask), 0)
        self.order = left_order(mask)
        mask = mask.gather(1, self.order)
        self.mask = None if bool(mask.all()) else mask

    def longest(self, tokens: Int[Tensor, "B T"]) -> int:
        """Length of the longest row, without padding."""
        T = tokens.shape[1]
        if self.prompt_length:
            return T if self.order is None else T - self.prompt_length + self.order.shape[1]
        if self.mask is None:
            return T
        check_padding(self.mask, tokens)
        return int(self.mask.sum(-1).amax())

    def key_mask(self, mask: Bool[Tensor, "B L"], T: int, new: int) -> Bool[Tensor, "B Tk"]:
        """The padding mask over all keys, (B, Tk): what was generated is no padding."""
        keys = [T, *(cache.total(new) for cache in self.caches or [])]
        mask = F.pad(mask, (0, max(keys) - mask.shape[1]), value=True)
        return mask if self.window is None else mask[:, -self.window :]

    def select(self, rows: Int[Tensor, " N"]) -> None:
        """Keep these rows, in this order, as beam search does."""
        for cache in self.caches or []:
            cache.select(rows)
        self.mask = None if self.mask is None else self.mask[rows]
        self.order = None if self.order is None else self.order[rows]

    @property
    def max_len(self) -> int | None:
        """How many tokens fit into caches of fixed size; None where they grow."""
        sizes = [getattr(cache, "max_len", None) for cache in self.caches or []]
        return min((size for size in sizes if size is not None), default=None)


def last_logits(model: Callable[..., Tensor], *given: Any, **named: Any) -> Float[Tensor, "B V"]:
    """Logits after the last position, as `logits_of_last` makes them."""
    return logits_of_last(1, model, *given, **named)[:, -1]


def logits_of_last(
    count: int, model: Callable[..., Tensor], *given: Any, **named: Any
) -> Float[Tensor, "B {count} V"]:
    """Logits after the last `count` positions. Where the model's `forward` takes `last`, only those
    go through the output layer: with a large vocabulary most of a prompt's time and memory."""
    forward = getattr(getattr(model, "_orig_mod", model), "forward", model)  # before compiling
    if "last" in inspect.signature(forward).parameters:
        named["last"] = count
    return model(*given, **named)[:, -count:]


def start_translation(
    model: Any,
    source: Int[Tensor, "B Tk"],
    source_mask: Bool[Tensor, "B Tk"],
    caches: Sequence[Any] | None = None,
) -> DecodingSession:
    """A session of an `EncoderDecoder`, for the searches: the source is encoded once.

    With `caches`, `model.caches()`, the keys of the source are computed once, too. Several
    hypotheses of a sentence share its memory.
    """
    with torch.no_grad():
        memory = model.encode(source, source_mask)

    def forward(new: Tensor, caches: Sequence[Any] | None = None) -> Tensor:
        each = len(new) // len(memory)
        given = memory.repeat_interleave(each, 0), source_mask.repeat_interleave(each, 0)
        return model.decode(new, *given, caches)

    return DecodingSession(forward, caches, limit=model.limit)


class StopTokens:
    """Which rows have generated one of their `eos` tokens: from then on they hold `pad`, or that
    token again. Nothing is read back from the device until somebody asks."""

    def __init__(self, eos: Eos | None, rows: int, pad: int | None, device: torch.device):
        self.eos, self.pad, self.given = stop_tokens(eos, rows), pad, eos is not None
        self.on_device = self.eos.to(device)
        self.done = torch.zeros(rows, dtype=torch.bool, device=device)
        self.filling = torch.zeros(rows, dtype=torch.long, device=device)
        self.length = torch.zeros((), dtype=torch.long, device=device)  # until all were done

    def check(self, V: int) -> None:
        """Raise a ValueError if a stop token, or the padding, is none of the V tokens."""
        check_eos(self.eos.flatten().tolist() + ([] if self.pad is None else [self.pad]), V)

    def __call__(self, new: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
        """The tokens to append where these were sampled."""
        self.length = self.length + ~self.done.all()
        new = torch.where(self.done, self.filling, new)
        ended = ~self.done & (new[:, None] == self.on_device).any(-1)
        filling = new if self.pad is None else torch.full_like(new, self.pad)
        self.filling = torch.where(ended, filling, self.filling)
        self.done = self.done | ended
        return new

    def all(self) -> bool:
        """Have all rows stopped? Waits for the device, if there is a stop token at all."""
        return self.given and bool(self.done.all())


def stop_tokens(eos: Eos | None, rows: int) -> Int[Tensor, "_ n"]:
    """The stop tokens of each row, or one row of them for all."""
    if eos is None:
        return torch.zeros(1, 0, dtype=torch.long)
    if isinstance(eos, Tensor):
        if eos.shape != (rows,):
            raise ValueError(f"a stop token per row has shape ({rows},); got {tuple(eos.shape)}")
        return eos[:, None]
    numbers = [eos] if isinstance(eos, int) else list(eos)
    if not numbers or not all(isinstance(number, int) for number in numbers):
        raise ValueError(
            f"a stop token is a number, a set of numbers, or a tensor of one per row; got {eos!r}"
        )
    return torch.tensor([numbers])


def check_prompt(tokens: Any) -> None:
    """Raise a ValueError unless these are rows of token numbers."""
    if not isinstance(tokens, Tensor):
        raise ValueError(
            "a prompt is a tensor of token numbers, (B, T), as torch.tensor([[3, 1, 4]]); got a "
            f"{type(tokens).__name__}"
        )
    if tokens.dim() != 2 or tokens.dtype not in INTEGERS:
        raise ValueError(
            "a prompt has rows of token numbers, (B, T), and one row alone is tokens[None]; got "
            f"{tuple(tokens.shape)} of {tokens.dtype}"
        )


def check_padding(mask: Any, tokens: Int[Tensor, "B T"]) -> None:
    """Raise a ValueError unless a mask says which of these tokens are padding, and not all are."""
    shape = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
    fits = isinstance(mask, Tensor) and mask.dim() == 2 and mask.shape[1] == tokens.shape[1]
    if not fits or mask.dtype != torch.bool or not len(mask) or len(tokens) % len(mask):
        raise ValueError(
            f"a mask for tokens {tuple(tokens.shape)} has their shape, True at tokens and False at "
            f"padding; got {shape}"
        )
    empty = (~mask.any(-1)).nonzero()
    if len(empty):
        raise ValueError(f"row {int(empty[0])} of the prompt is nothing but padding")


def check_length(T: int, max_new_tokens: int, window: int | None, limit: int | None) -> None:
    """Raise a ValueError unless a model of `limit` positions can go on from T tokens."""
    if T < 1 or max_new_tokens < 0:
        raise ValueError(
            f"needs a prompt of at least 1 token and max_new_tokens of at least 0; got {T} and "
            f"{max_new_tokens}"
        )
    if window is not None and window < 1:
        raise ValueError(f"a window shows at least 1 token; got {window}")
    shown = T + max_new_tokens - 1 if window is None else window  # the last token is only written
    if limit is not None and shown > limit:
        raise ValueError(
            f"{T} tokens and {max_new_tokens} new: the model would read {shown} tokens, it has "
            f"learned {limit} positions; with window={limit} it forgets what is further back"
        )


def check_max_len(T: int, max_new_tokens: int, max_len: int | None) -> None:
    """Raise a ValueError unless caches of a fixed size can hold what is going to be read."""
    read = T + max_new_tokens - 1
    if max_len is not None and read > max_len:
        raise ValueError(
            f"{T} tokens and {max_new_tokens} new need caches of {read} positions; these have "
            f"{max_len}"
        )


def check_nan(rows: Bool[Tensor, " B"]) -> None:
    """Raise a ValueError that names the first row with True."""
    if rows.any():
        row = int(rows.nonzero()[0])
        raise ValueError(f"row {row}: there are logits that are not a number (NaN)")


def check_eos(numbers: list[int], V: int) -> None:
    """Raise a ValueError if one of the numbers is not one of the V tokens."""
    wrong = [number for number in numbers if not 0 <= number < V]
    if wrong:
        raise ValueError(f"a stop token is one of the model's, 0 to {V - 1}; got {wrong[0]}")


def left_order(mask: Bool[Tensor, "B T"]) -> Int[Tensor, "B L"]:
    """The columns of each row with its padding first, (B, L); the longest row has no padding."""
    order = mask.long().argsort(dim=-1, stable=True)
    return order[:, mask.shape[1] - int(mask.sum(-1).amax()) :]
