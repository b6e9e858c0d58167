"""Nats per byte: what a predictor pays for a text that it is shown only after each prediction.

A predictor gives a distribution over the tokens of its own vocabulary, and pays −ln p of the token
that then comes. Any cut of the text into tokens is allowed, since the probabilities of all cuts
together are at most 1: a cut that tells something of the future is paid for like any other. So
the sum over all tokens, divided by the number of bytes, compares models of all vocabularies.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

CHANCE = math.log(256)
Ask = Callable[[torch.Tensor], np.ndarray]  # (S, t) tokens so far -> (S, V) log-probabilities
TOLERANCE = 1e-3  # of the sum of all probabilities


@dataclass(frozen=True)
class Block:
    """A passage: `before` is shown, and each byte of `text` is to be predicted."""

    before: bytes
    text: bytes


def blocks(text: bytes, count: int, before: int, size: int, seed: int) -> list[Block]:
    """`count` passages at random places, one in each part of the text, never two that touch.

    A ValueError says how long a text must be.
    """
    slot, gap = len(text) // count, 32
    room = slot - before - size - gap
    if room < 0:
        least = count * (before + size + gap)
        raise ValueError(f"the held-out text has {len(text):,} bytes; {least:,} are needed")
    dice = random.Random(seed)
    starts = [n * slot + dice.randint(0, room) for n in range(count)]
    middles = [start + before for start in starts]
    return [
        Block(text[start:middle], text[middle : middle + size])
        for start, middle in zip(starts, middles, strict=True)
    ]


def checked(vocabulary: Sequence[bytes], most: int = 8192) -> list[bytes]:
    """The vocabulary, or a ValueError: it has some tokens, not too many, none empty, none twice."""
    if not 1 <= len(vocabulary) <= most:
        raise ValueError(f"a vocabulary has 1 to {most:,} tokens, not {len(vocabulary):,}")
    if b"" in vocabulary:
        raise ValueError(f"token {list(vocabulary).index(b'')} of the vocabulary is empty")
    if len(set(vocabulary)) < len(vocabulary):
        twice = next(token for n, token in enumerate(vocabulary) if token in vocabulary[:n])
        raise ValueError(f"the token {twice!r} is in the vocabulary twice")
    return list(vocabulary)


def spelt(ids: Sequence[int], vocabulary: Sequence[bytes], text: bytes) -> list[int]:
    """The tokens of a text, or a ValueError if they do not spell it."""
    wrong = [number for number in ids if not 0 <= number < len(vocabulary)]
    if wrong:
        raise ValueError(f"encode: token {wrong[0]} is not in 0..{len(vocabulary) - 1}")
    size = sum(len(vocabulary[number]) for number in ids)  # before they are put together
    if size != len(text) or b"".join(vocabulary[number] for number in ids) != text:
        raise ValueError("encode: the tokens of a text do not spell it: decode them and compare")
    return list(ids)


def normalised(found: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Log-probabilities whose exponentials sum to 1, or a ValueError that says what they are."""
    if found.shape != shape:
        raise ValueError(
            f"predictor: its answer has the shape {found.shape}; one row for each text and one "
            f"column for each token make {shape}"
        )
    wide = found.astype(np.float64)
    if np.isnan(wide).any() or wide.max() == np.inf:
        raise ValueError("predictor: there is a NaN or an infinite probability in its answer")
    with np.errstate(divide="ignore"):
        total = np.logaddexp.reduce(wide, axis=1)
    worst = float(total[np.abs(total).argmax()])
    if not abs(worst) <= TOLERANCE:
        raise ValueError(
            f"predictor: the probabilities of a row sum to {math.exp(min(worst, 99.0)):.4g} "
            "instead of 1; log_softmax makes them log-probabilities"
        )
    return wide - total[:, None]


def score(
    ask: Ask, shown: Sequence[Sequence[int]], hidden: Sequence[Sequence[int]], V: int
) -> np.ndarray:
    """Nats paid for each row's hidden tokens; `ask` learns a token only after it was predicted.

    Of what is shown all rows keep as many tokens as the shortest has. A row that is at its end
    goes on with token 0, which costs nothing. A probability of 0 costs infinitely much.
    """
    rows, keep = len(shown), min(map(len, shown))
    if keep < 1:
        raise ValueError("encode: a passage has no tokens")
    ids = torch.tensor([list(row)[-keep:] for row in shown], dtype=torch.long)
    paid = np.zeros(rows)
    for step in range(max(map(len, hidden))):
        log_p = normalised(ask(ids), (rows, V))
        here = [row[step] if step < len(row) else 0 for row in hidden]
        alive = np.array([step < len(row) for row in hidden])
        paid -= np.where(alive, log_p[np.arange(rows), here], 0.0)
        ids = torch.cat([ids, torch.tensor(here)[:, None]], dim=1)
    return paid


def counted(text: bytes, passages: Sequence[Block], order: int) -> np.ndarray:
    """Nats for each passage of a table of counts that knows the last `order` bytes.

    Shorter contexts fill in what a longer one has not seen (Witten and Bell 1991): a context
    with n occurrences and k kinds of successors gives k/(n + k) to the next shorter one.
    """
    tables: list[dict[bytes, dict[int, int]]] = [{} for _ in range(order + 1)]
    for place in range(len(text)):
        for length in range(min(order, place) + 1):
            row = tables[length].setdefault(text[place - length : place], {})
            row[text[place]] = row.get(text[place], 0) + 1
    paid = []
    for block in passages:
        whole, nats = block.before + block.text, 0.0
        for place in range(len(block.before), len(whole)):
            p = 1 / 256
            for length in range(min(order, place) + 1):
                seen = tables[length].get(whole[place - length : place])
                if seen is None:
                    break
                n, kinds = sum(seen.values()), len(seen)
                p = (seen.get(whole[place], 0) + kinds * p) / (n + kinds)
            nats -= math.log(p)
        paid.append(nats)
    return np.array(paid)


@torch.no_grad()
def rehearsed(handed: Any, encode: Any, predictor: Any, passages: Sequence[Block]) -> np.ndarray:
    """Nats for each passage of a vocabulary and weights, with functions that are at hand."""
    vocabulary = checked(handed[0])
    weights = {name: each.detach().clone() for name, each in handed[1].items()}
    parts = [(each.before, each.text) for each in passages]
    ids = [[spelt(encode(p, vocabulary), vocabulary, p) for p in pair] for pair in parts]
    predict = predictor(vocabulary, weights)
    shown, hidden = [pair[0] for pair in ids], [pair[1] for pair in ids]
    return score(lambda seen: predict(seen).float().numpy(), shown, hidden, len(vocabulary))
