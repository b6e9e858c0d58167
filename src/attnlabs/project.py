"""Checks along the way of lab 8: each tries a part of a project and says in a sentence how it is.

Each check takes the student's own parts and returns the sentence, which begins with "right" when
nothing was found. Grading tries the same parts (`parts.py`), on other numbers.
"""

import copy
import functools
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from attnlabs import nats, parts

Check = Callable[..., str]
UNDONE = "not yet implemented."
ODD = "naïve – 12,000 \t\n\n  “x” ".encode() + bytes([0, 255, 128, 10])


def told(check: Check) -> Check:
    """The check, which says what stopped it instead of stopping the notebook."""

    @functools.wraps(check)
    def wrapped(*given: Any, **named: Any) -> str:
        try:
            return check(*given, **named)
        except Exception as error:
            undone = isinstance(error, TypeError) and "NoneType" in str(error)
            what = f"{type(error).__name__}: {str(error)[:200]}"
            return f"it stops with {what}" + f" ({UNDONE[:-1]}?)" * undone

    return wrapped


@told
def tokens(train_bpe: Any, encode: Any, decode: Any, text: bytes) -> str:
    """Does a vocabulary of the text begin with the bytes, grow, and lose nothing of any text?"""
    vocabulary = train_bpe(text[:20_000], 300)
    if vocabulary is None:
        return UNDONE
    if list(vocabulary[:256]) != [bytes([n]) for n in range(256)]:
        return "the first 256 tokens should be the single bytes, in order"
    if len(vocabulary) != 300 or len(set(vocabulary)) != 300:
        return f"300 different tokens were asked for; there are {len(set(vocabulary))}"
    if any(len(token) < 2 for token in vocabulary[256:]):
        return "tokens from 256 on should be pairs joined: at least two bytes"
    for case in (text[20_000:22_000], ODD, b""):
        if decode(encode(case, vocabulary), vocabulary) != case:
            return f"{case[:20]!r}… does not come back: decode(encode(text)) should be the text"
    here = text[20_000:22_000]
    share = len(encode(here, vocabulary)) / len(here)
    if share > 0.9:
        return f"it joins hardly anything: {share:.2f} tokens a byte"
    return (
        joins(train_bpe)
        or cuts(encode)
        or parts.here("tokenizer", {"train_bpe": train_bpe, "encode": encode, "decode": decode})
        or f"right: {share:.2f} tokens for a byte, and every text comes back"
    )


@dataclass(frozen=True)
class Joins:
    """A text of few words, the tokens that join first in it, and what others stand for."""

    text: bytes
    due: list[bytes]
    slips: dict[bytes, str]


JOINS = [
    Joins(
        b"ab" * 50 + b"c",
        [b"ab"],
        dict.fromkeys([b"ba", b"bc"], "it is not the most frequent pair"),
    ),
    Joins(
        b"ab\ncab\nb\nb\nab",
        [b"ab"],
        {b"b\n": "pairs are counted across the ends of words; count inside of them"},
    ),
    Joins(
        b"ab\nab\nab\nab\ncd\ncde\ncdf",
        [b"ab"],
        {b"cd": "each different word counts once; it counts as often as it stands in the text"},
    ),
    Joins(
        b"aaa\naaa\nbc\nbc\nbc",
        [b"aa"],
        {b"bc": "overlapping pairs are left out: in b'aaa' the pair b'aa' stands twice"},
    ),
    Joins(
        b"abc\nabc\nabc\nbc\nde\nde",
        [b"bc", b"abc", b"de"],
        {b"ab": "the pairs are not counted anew after a join: there is no b'ab' left"},
    ),
    Joins(
        b"ab\ncd",
        [b"cd"],
        {b"ab": "of equally frequent pairs the one whose bytes come last is taken, not the first"},
    ),
]


def joins(train_bpe: Any) -> str:
    """A sentence if the tokens of a small text are not joined in their order."""
    for case in JOINS:
        found = list(train_bpe(case.text, 256 + len(case.due)))[256:]
        if found != case.due:
            other = next((token for token in found if token not in case.due), b"")
            why = case.slips.get(other, "look at the counts of all pairs, join by join")
            return f"of {shown(case.text)} the joins are {case.due}, here {found}: {why}"
    return ""


# The tokens after the bytes, a text, its tokens, and what others stand for
CUTS: list[tuple[list[bytes], bytes, list[bytes], dict[bytes, str]]] = [
    (
        [b"bc", b"ab"],
        b"abc",
        [b"a", b"bc"],
        {b"ab": "the first pair in the word is joined, not the earliest in the vocabulary"},
    ),
    (
        [b"cd", b"ab", b"abc"],
        b"abcd",
        [b"ab", b"cd"],
        {b"abc": "the longest token is taken, not the earliest in the vocabulary joined"},
    ),
    ([b"aa"], b"aaa", [b"aa", b"a"], {b"a": "of two overlapping pairs the first is joined"}),
]


def cuts(encode: Any) -> str:
    """A sentence if a word is not cut by joining the earliest token first."""
    for more, word, due, slips in CUTS:
        vocabulary = [bytes([n]) for n in range(256)] + more
        found = [vocabulary[int(number)] for number in encode(word, vocabulary)]
        if found != due:
            why = slips.get(found[0], "join the earliest token of all neighbours, again and again")
            return f"with {more} joined in this order, {word!r} is cut {due}, here {found}: {why}"
    return ""


def shown(text: bytes) -> str:
    """A text in a sentence, cut if it is long."""
    return repr(text) if len(text) < 40 else f"{text[:8]!r}…"


@told
def model(make: Callable[[], nn.Module], V: int, T: int) -> str:
    """At the start, does a model know nothing, and does nothing of the future reach a position?"""
    torch.manual_seed(1)
    new, ids = make(), torch.randint(V, (4, T))
    if new is None or (logits := new(ids)) is None:
        return UNDONE
    if logits.shape != (4, T, V):
        return f"logits have the shape {tuple(logits.shape)}; (B, T, V) is {(4, T, V)}"
    loss = float(F.cross_entropy(logits.flatten(0, 1), torch.randint(V, (4 * T,))).detach())
    if not abs(loss - math.log(V)) < 0.5:
        return (
            f"the loss at the start is {loss:.2f}; who knows nothing pays ln V = {math.log(V):.2f}"
        )
    found = leak(new, ids, V) or parts.here("model", {"tiny": make}, V=V, T=T)
    return found or f"right: it starts at {loss:.2f}, near ln V, and no position sees the future"


@torch.no_grad()
def leak(new: nn.Module, ids: torch.Tensor, V: int) -> str:
    """A sentence if a later token changes an earlier position, or an earlier one changes nothing.

    The parameters are stirred first: parts that begin at 0 would hide it.
    """
    stirred, T = copy.deepcopy(new).eval(), ids.shape[1]
    for each in stirred.parameters():
        each.add_(0.2 * torch.randn_like(each))
    other = ids.clone()
    other[:, T // 2] = (ids[:, T // 2] + 1) % V
    change = (stirred(ids) - stirred(other)).abs().amax((0, 2))
    if change[: T // 2].max() > 1e-4:
        return (
            f"position {int(change.gt(1e-4).nonzero()[0])} sees token {T // 2}, which comes later"
        )
    if change[T // 2 + 1 :].max() < 1e-6:
        return f"no later position sees token {T // 2}: is there attention in it?"
    return ""


@told
def adamw(optimiser: Any) -> str:
    """Does it do what torch's AdamW does, with the same settings?"""
    settings: dict[str, Any] = {"lr": 0.03, "betas": (0.8, 0.97), "eps": 1e-6, "weight_decay": 0.2}
    torch.manual_seed(2)
    mine = [nn.Parameter(torch.randn(3, 2)), nn.Parameter(torch.randn(4))]
    theirs = [nn.Parameter(each.detach().clone()) for each in mine]
    one, other = optimiser(mine, **settings), torch.optim.AdamW(theirs, **settings)
    for step in range(1, 7):
        for a, b in zip(mine, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        one.step()
        other.step()
        gap = max(float((a - b).detach().abs().max()) for a, b in zip(mine, theirs, strict=True))
        if gap > 1e-5:
            first = "already after the first step" if step == 1 else f"after {step} steps"
            why = parts.here("optimiser", {"AdamW": optimiser})
            return f"{first} it differs from torch.optim.AdamW by {gap:.2g}: {why}"
    found = parts.here("optimiser", {"AdamW": optimiser})
    return found or "right: six steps as torch.optim.AdamW makes them"


@told
def overfits(make: Any, optimiser: Any, train: Any, V: int, T: int) -> str:
    """Does one batch, seen again and again, become known by heart?"""
    torch.manual_seed(3)
    new, ids = make(), torch.randint(V, (2, T + 1))
    one = ids[:, :-1], ids[:, 1:]
    losses = train(new, optimiser(new.parameters(), lr=3e-3), lambda: one, 0, 80, lambda _: 3e-3)
    if losses is None:
        return UNDONE
    if len(losses) != 80:
        return f"steps 0 to 79 should give 80 losses; there are {len(losses)}"
    if not losses[-1] < 0.5 * losses[0]:
        return f"one batch 80 times: the loss goes from {losses[0]:.2f} to {losses[-1]:.2f} only"
    stopped = train(new, optimiser(new.parameters(), lr=0.0), lambda: one, 5, 9, lambda _: None)
    if len(stopped) != 0:
        return "where rate(step) is None the training should end"
    found = parts.here("loop", {"AdamW": optimiser, "train": train})
    return found or f"right: one batch goes from {losses[0]:.2f} to {losses[-1]:.2f}"


@dataclass
class Training:
    """What a checkpoint holds, and where the batches come from."""

    model: Any
    optimiser: Any
    dice: torch.Generator
    draw: Callable[[], tuple[torch.Tensor, torch.Tensor]]


def started(make: Any, optimiser: Any, V: int, T: int, seed: int) -> Training:
    """A training that begins, with batches of its own numbers."""
    torch.manual_seed(seed)
    new, dice = make(), torch.Generator().manual_seed(seed)

    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        ids = torch.randint(V, (2, T + 1), generator=dice)
        return ids[:, :-1], ids[:, 1:]

    return Training(new, optimiser(new.parameters(), lr=1e-2), dice, draw)


def go(train: Any, it: Training, first: int, last: int) -> Sequence[float] | None:
    """Some steps, with a rate that depends on the step."""
    found: Sequence[float] | None = train(
        it.model, it.optimiser, it.draw, first, last, lambda step: 1e-2 / (1 + step)
    )
    return found


@told
def resumes(make: Any, optimiser: Any, train: Any, save: Any, load: Any, V: int, T: int) -> str:
    """Are six steps, and three, a checkpoint and three more, the same, bit for bit?"""

    straight = started(make, optimiser, V, T, 4)
    losses = go(train, straight, 0, 6)
    if losses is None:
        return UNDONE
    with tempfile.TemporaryDirectory() as folder:
        path, half = Path(folder) / "three.pt", started(make, optimiser, V, T, 4)
        go(train, half, 0, 3)
        save(path, half.model, half.optimiser, 3, half.dice)
        again = started(make, optimiser, V, T, 5)
        step = load(path, again.model, again.optimiser, again.dice)
    if step != 3:
        return f"load should give the step that was saved, 3; it gives {step}"
    later = go(train, again, 3, 6) or []
    if list(later) != list(losses[3:]):
        return f"after loading the losses are {[*later]}; without a stop {[*losses[3:]]}"
    pairs = zip(straight.model.parameters(), again.model.parameters(), strict=True)
    if not all(torch.equal(a, b) for a, b in pairs):
        return "the losses agree and the weights do not: is the optimiser's state all there?"
    return "right: resumed, the weights are the same, bit for bit"


class Counting(nn.Module):
    """A model that knows that number n is followed by n + 1, and reads at most `T` tokens."""

    def __init__(self, V: int, T: int):
        super().__init__()
        self.V, self.T = V, T

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        if ids.shape[1] > self.T:
            raise ValueError(f"the model reads {self.T} tokens; it was given {ids.shape[1]}")
        return 4.0 * F.one_hot((ids + 1) % self.V, self.V)


@told
def samples(sample: Any) -> str:
    """Does it go on as a model says, at a temperature, in windows that the model can read?"""
    counts, prompt = Counting(7, 4), torch.tensor([[1, 2, 3]])
    dice = torch.Generator().manual_seed(6)
    cold = sample(counts, prompt, 6, 4, 0.05, dice)
    if cold is None:
        return UNDONE
    if cold.shape != (1, 9) or cold[0, :3].tolist() != [1, 2, 3]:
        return f"3 tokens and 6 new ones make (1, 9), the prompt first; it is {cold.tolist()}"
    if cold[0].tolist() != [1, 2, 3, 4, 5, 6, 0, 1, 2]:
        return f"nearly without temperature, 1 2 3 goes on 4 5 6 0 1 2; it is {cold[0].tolist()}"
    many = sample(counts, torch.zeros(4000, 1, dtype=torch.long), 1, 4, 2.0, dice)[:, 1]
    share, wanted = float((many == 1).float().mean()), math.e**2 / (math.e**2 + 6)
    if abs(share - wanted) > 0.05:
        return f"at temperature 2 the likely token comes in {share:.2f} of cases, not {wanted:.2f}"
    return rolled(sample) or "right: it goes on as the model says, by the dice it is given"


def rolled(sample: Any) -> str:
    """A sentence if the dice that are given do not decide, and they alone, what is drawn."""
    counts, prompt = Counting(7, 4), torch.zeros(16, 1, dtype=torch.long)

    def drawn(seed: int, around: int) -> tuple[list[int], list[int]]:
        torch.manual_seed(around)
        dice = torch.Generator().manual_seed(seed)
        first, second = (sample(counts, prompt, 4, 4, 3.0, dice) for _ in range(2))
        return first.flatten().tolist(), second.flatten().tolist()

    one, again, other = drawn(1, 1), drawn(1, 2), drawn(2, 1)
    if one != again:
        return "the same dice give other tokens: draw with generator=dice, and with nothing else"
    if one == other:
        return (
            "other dice give the same tokens: draw with generator=dice, not with a seed of its own"
        )
    if one[0] == one[1]:
        return "two calls with the same dice give the same tokens: it must not set their seed anew"
    return ""


@told
def rehearsal(submit: Any, encode: Any, predictor: Any, text: bytes, seconds: float) -> str:
    """The way of the leaderboard, in small and on this machine, with the last tenth held out."""
    cut = len(text) * 9 // 10
    passages = nats.blocks(text[cut:], 16, 128, 128, seed=7)
    started = time.process_time()
    handed = submit(text[:cut], seconds)
    if handed is None:
        return UNDONE
    used = time.process_time() - started
    if used > 1.1 * seconds + 2:
        return f"submit took {used:.0f} seconds of processor time; {seconds:g} were allowed"
    paid = nats.rehearsed(handed, encode, predictor, passages)
    score = paid.sum() / sum(len(each.text) for each in passages)
    pairs = nats.counted(text[:cut], passages, 1).sum() / sum(len(e.text) for e in passages)
    better = "better" if score < pairs else "NOT better"
    return f"{score:.3f} nats per byte, {better} than a table of pairs ({pairs:.3f})"
