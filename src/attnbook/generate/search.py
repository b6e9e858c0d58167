"""Search for a likely sequence: greedy, or with beams of hypotheses."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from attnbook.generate.sampling import check_eos, check_nan, check_prompt

Logits = Float[Tensor, "N V"]
Saved = tuple[Int[Tensor, "B most"], Float[Tensor, " B"]]  # the best of each row, and its score


@torch.no_grad()
def greedy_search(
    next_logits: Callable[[Int[Tensor, "B T"]], Logits],
    start: Int[Tensor, "B T"],
    eos: int,
    max_new_tokens: int,
) -> Int[Tensor, "B L"]:
    """Append the most likely token until every row has its `eos`, at most `max_new_tokens` times.

    Returns what was appended; a row holds `eos` only after its first one.
    """
    check_search(start, max_new_tokens)
    tokens, done = start, torch.zeros_like(start[:, 0], dtype=torch.bool)
    for _ in range(max_new_tokens):
        new = check_logits(next_logits(tokens), eos).argmax(-1).masked_fill(done, eos)
        tokens, done = torch.cat((tokens, new[:, None]), 1), done | (new == eos)
        if done.all():
            break
    return tokens[:, start.shape[1] :]


@torch.no_grad()
def beam_search(
    next_logits: Callable[[Int[Tensor, "N T"]], Float[Tensor, "N V"]],
    start: Int[Tensor, "B T"],
    eos: int,
    max_new_tokens: int,
    beams: int = 4,
    alpha: float = 0.6,
) -> Int[Tensor, "B L"]:
    """Keep the `beams` likeliest hypotheses instead of one; return the best one that ended, or the
    best at the end.

    `next_logits` gets all hypotheses as rows: sentence b's are b·beams to b·beams + beams − 1;
    its `select(rows)`, as a `DecodingSession` has, is told which of them are kept. They are
    ranked by log p / ((5 + L)/6)^alpha, where L counts their tokens, `eos` too. Wu et al. 2016,
    equation 14. Otherwise as `greedy_search`.
    """
    check_search(start, max_new_tokens, beams)
    B, T = start.shape
    row = torch.arange(B, device=start.device)[:, None]
    tokens = start[:, None].expand(B, beams, T)
    log_p = torch.full((B, beams), -torch.inf, device=start.device)
    saved = (
        start.new_full((B, max_new_tokens), eos),
        log_p[:, 0].clone(),
    )  # the best that ended, its score
    log_p[:, 0] = 0.0  # the copies of the start are one hypothesis, not several
    length, done = torch.zeros_like(log_p), torch.zeros_like(log_p, dtype=torch.bool)
    for _ in range(max_new_tokens):
        step = next_log_p(next_logits, tokens, done, eos)
        longer, length = log_p[..., None] + step, length + ~done  # longer: (B beams V)
        score = (longer / penalty(length, alpha)[..., None]).flatten(1)
        top, best = score.topk(beams)  # of all hypotheses with all next tokens
        origin, new = best // step.shape[-1], best % step.shape[-1]
        tokens = torch.cat((tokens[row, origin], new[..., None]), -1)
        log_p, length = longer.flatten(1).gather(1, best), length.gather(1, origin)
        done = done.gather(1, origin) | (new == eos)
        saved = better(saved, tokens[..., T:], top.masked_fill(~done, -torch.inf), eos)
        if done.all():
            break
        if hasattr(next_logits, "select"):  # caches go with the hypotheses that are kept
            next_logits.select((row * beams + origin).flatten())
    return better(saved, tokens[..., T:], top, eos)[0][:, : tokens.shape[-1] - T]


def next_log_p(
    next_logits: Callable[[Int[Tensor, "N T"]], Float[Tensor, "N V"]],
    tokens: Int[Tensor, "B beams T"],
    done: Bool[Tensor, "B beams"],
    eos: int,
) -> Float[Tensor, "B beams V"]:
    """Log probabilities of the token after each hypothesis; an ended one stays as it is."""
    step = check_logits(next_logits(tokens.flatten(0, 1)), eos).log_softmax(-1)
    step = step.unflatten(0, tokens.shape[:2])
    return torch.where(done[..., None], only(eos, step), step)


def better(
    saved: Saved, tokens: Int[Tensor, "B beams L"], score: Float[Tensor, "B beams"], eos: int
) -> Saved:
    """The best of each row's hypotheses in place of what was saved, where it has a higher score."""
    top, which = score.max(1)
    wins = top > saved[1]
    best = tokens[torch.arange(len(tokens), device=tokens.device), which]
    best = F.pad(best, (0, saved[0].shape[1] - best.shape[1]), value=eos)
    return torch.where(wins[:, None], best, saved[0]), torch.where(wins, top, saved[1])


def only(eos: int, like: Float[Tensor, "B N V"]) -> Float[Tensor, "B N V"]:
    """Log probabilities after a finished sentence: `eos` again, for certain."""
    log_p = torch.full_like(like, -torch.inf)
    log_p[..., eos] = 0.0
    return log_p


def penalty(length: Tensor, alpha: float) -> Tensor:
    """What log probabilities are divided by, so that short sequences do not win by being short."""
    return ((5 + length) / 6) ** alpha


def check_search(start: Tensor, max_new_tokens: int, beams: int | None = None) -> None:
    """Raise a ValueError unless a search has where to begin, and room for beams and tokens."""
    check_prompt(start)
    if beams is not None and beams < 1:
        raise ValueError(f"beams is {beams}; at least 1 is needed")
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {max_new_tokens}; at least 1 is needed")
    if not start.shape[1]:
        raise ValueError("a search goes on from at least 1 token; got none")


def check_logits(logits: Logits, eos: int) -> Logits:
    """The logits, or a ValueError if some are no numbers, or if `eos` is not among the tokens."""
    check_eos([eos], logits.shape[-1])
    check_nan(logits.isnan().any(-1))
    return logits
