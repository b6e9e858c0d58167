"""Judges the parts of a project of lab 8 by the numbers that they gave.

`inside/parts.py` tries them, here is what is right: byte-pair encoding and AdamW once more, which
make mistakes on request, and properties of whatever model, loop and sampling a student has built.
"""

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.nn import functional as F

from attnlabs import errors
from attnlabs.inside import parts as inside
from attnlabs.inside.fingerprints import Outcome, Result, outcome

Found: TypeAlias = Mapping[str, Outcome]  # by the names of the cases
Wrong: TypeAlias = tuple[str, str]  # a mistake's name, and what is said of it
Judge: TypeAlias = Callable[[Mapping[str, Any], Found], Iterator[tuple[float, Wrong | None]]]
PIECES = re.compile(rb" ?[A-Za-z]+|\s+|[^A-Za-z\s]+")
BYTES = inside.BYTES


@dataclass(frozen=True)
class Part:
    """What is tried of a project: the functions it needs, and its share of the question."""

    kind: str
    of: tuple[str, ...]
    share: float = 1.0
    banned: tuple[str, ...] = ()  # torch's own, whose use is flagged


@dataclass
class Said:
    """The share of a question (0 to 1), sentences, and the mistakes that were recognised."""

    share: float = 0.0
    lines: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)


def judged(kind: str, ask: Mapping[str, Any], found: Found) -> Said:
    """What is to be said of a part, of which each point has a weight of its own."""
    said = Said()
    for weight, wrong in JUDGES[kind](ask, found):
        if wrong is None:
            said.share += weight
        else:
            said.mistakes += [wrong[0]]
            said.lines += [wrong[1]] if wrong[1] not in said.lines else []
    said.share = round(said.share, 6)
    return said


def cases(kind: str, ask: Mapping[str, Any]) -> list[str]:
    """The names of what is tried of a part."""
    return list(inside.CASES[kind]({}, ask))


def stopped(found: Found, *cases: str) -> Wrong | None:
    """The sentence about the first of these cases that has no numbers."""
    results = [found[case] for case in cases]
    return next((("stopped", result) for result in results if isinstance(result, str)), None)


def parts(found: Found, case: str) -> Result:
    result = found[case]
    assert not isinstance(result, str)
    return result


# The tokenizer


def bpe(wrong: Collection[str], text: bytes, size: int) -> list[bytes]:
    """A vocabulary by byte-pair encoding, with some mistakes."""
    pieces = [text] if "across" in wrong else PIECES.findall(text)
    words = Counter(pieces)
    words = Counter(dict.fromkeys(words, 1)) if "each-once" in wrong else words
    cut, tokens = {word: [bytes([b]) for b in word] for word in words}, list(BYTES)
    first: Counter[bytes] = Counter()
    while len(tokens) < size:
        pairs: Counter[bytes] = Counter()
        for word, symbols in cut.items():
            n = 0
            while n < len(symbols) - 1:
                same = "apart" in wrong and symbols[n : n + 3] == [symbols[n]] * 3
                pairs[symbols[n] + symbols[n + 1]] += words[word]
                n += 2 if same else 1
        first = first or pairs.copy()
        if "once" in wrong:
            pairs = Counter({pair: first[pair] for pair in first if pair not in tokens})
        if not pairs:
            break
        names = {p: (n, b"" if "first-seen" in wrong else p) for p, n in pairs.items()}
        if "lowest" in wrong:
            most = max(pairs.values())
            token = min(pair for pair, count in pairs.items() if count == most)
        else:
            token = max(names, key=lambda pair: names[pair])
        tokens.append(token)
        cut = {word: joined(symbols, token) for word, symbols in cut.items()}
    return tokens


def joined(symbols: Sequence[bytes], token: bytes) -> list[bytes]:
    """Neighbours that together spell the token put together, from the left."""
    out: list[bytes] = []
    for symbol in symbols:
        if out and out[-1] + symbol == token:
            out[-1] = token
        else:
            out.append(symbol)
    return out


def cut(wrong: Collection[str], text: bytes, vocabulary: Sequence[bytes]) -> list[int]:
    """The tokens of a text, with some mistakes."""
    rank, ids = {token: n for n, token in enumerate(vocabulary)}, []
    for word in [text] if "across" in wrong else PIECES.findall(text):
        if "longest" in wrong:
            symbols, left = [], word
            while left:
                symbols.append(max((t for t in rank if left.startswith(t)), key=len))
                left = left[len(symbols[-1]) :]
        else:
            symbols = [bytes([b]) for b in word]
        while "longest" not in wrong:
            pairs = [a + b for a, b in itertools.pairwise(symbols)]
            pairs = [pair for pair in pairs if pair in rank]
            if not pairs:
                break
            token = pairs[0] if "leftmost" in wrong else min(pairs, key=rank.__getitem__)
            symbols = joined(symbols, token)
        ids += [rank[symbol] for symbol in symbols]
    return ids


JOINED = {
    "across": "pairs are counted across the ends of words; count inside of them",
    "each-once": "each different word counts once; it counts as often as it stands in the text",
    "apart": "overlapping pairs are left out: in b'aaa' the pair b'aa' stands twice",
    "once": "the pairs are not counted anew after a join",
    "first-seen": "of equally frequent pairs the one whose bytes come last is taken",
    "lowest": "of equally frequent pairs the one whose bytes come last is taken, not the first",
}
CUT = {
    "across": "tokens are joined across the ends of words; cut the text by `PIECES` first",
    "leftmost": "the first pair in the word is joined, not the earliest in the vocabulary",
    "longest": "the longest token is taken, not the earliest in the vocabulary joined",
}


def tokenizer_ask(seed: int) -> dict[str, Any]:
    """Texts of few words, drawn; vocabularies that hold tokens no word can have."""
    dice = random.Random(seed)
    words = ["".join(dice.choices("abcde", k=dice.randint(2, 5))) for _ in range(12)]
    text = "".join(dice.choice(words) + dice.choice(" \n") for _ in range(160))
    joins = [[text, 256 + 14], ["ab\ncab\nb\nb\nab", 257], ["aaa\naaa\nbc\nbc\nbc", 257]]
    joins += [["abc\nabc\nabc\nbc\nde\nde", 259], ["ab\nab\nab\nab\ncd\ncde\ncdf", 257]]
    more = [token.decode(inside.LATIN) for token in bpe((), text.encode(), 290)[256:]]
    cuts: list[list[Any]] = [[more, text[:200]], [["b ", " c"], "ab cd ab cd"]]
    cuts += [[["bc", "ab"], "abc"], [["cd", "ab", "abc"], "abcd abc"], [["aa"], "aaa aaaa"]]
    odd = (
        text[:60].encode() + "naïve – x".encode() + bytes([0, 255, 128, 10, 9]) + dice.randbytes(40)
    )
    return {"joins": joins, "cuts": cuts, "odd": odd.decode(inside.LATIN)}


def tokenizer(ask: Mapping[str, Any], found: Found) -> Iterator[tuple[float, Wrong | None]]:
    """A third each for what is joined, for what is cut, and for the way back."""
    joins = {f"join{n}": one for n, one in enumerate(ask["joins"])}
    yield (
        1 / 3,
        stopped(found, *joins)
        or recognised(
            [parts(found, case) for case in joins],
            lambda wrong: [
                vocabulary_of(bpe(wrong, text.encode(inside.LATIN), size))
                for text, size in joins.values()
            ],
            JOINED,
            "the vocabulary is another one: look at the counts of all pairs, join by join",
        ),
    )
    cuts = {f"cut{n}": one for n, one in enumerate(ask["cuts"])}
    given = [
        (text.encode(inside.LATIN), [*BYTES, *(t.encode(inside.LATIN) for t in more)])
        for more, text in cuts.values()
    ]
    yield (
        1 / 3,
        stopped(found, *cuts)
        or recognised(
            [parts(found, case) for case in cuts],
            lambda wrong: [(np.array(cut(wrong, *one), dtype=float),) for one in given],
            CUT,
            "the tokens of a text are others: join the earliest token of all neighbours, again and "
            "again, in each word",
        ),
    )
    bad = stopped(found, "back")
    if not bad and parts(found, "back")[0].tolist() != list(ask["odd"].encode(inside.LATIN)):
        bad = "lossy", "a text does not come back: decode(encode(text)) should be the text"
    yield 1 / 3, bad


def vocabulary_of(tokens: Sequence[bytes]) -> Result:
    """A vocabulary as `inside.spelled` gives it."""
    return tuple(part.double().numpy() for part in inside.spelled(tokens))


def recognised(
    found: Sequence[Result],
    program: Callable[[Collection[str]], Sequence[Result]],
    known: Mapping[str, str],
    otherwise: str,
    near: float = 0.0,
) -> Wrong | None:
    """Which of its known mistakes makes a program give what was found; None if none does."""
    for wrong in ((), *((name,) for name in known)):
        if all(equal(a, b, near) for a, b in zip(found, program(wrong), strict=True)):
            return (wrong[0], f"{known[wrong[0]]}.") if wrong else None
    return "other", f"{otherwise}."


def equal(one: Result, other: Result, near: float) -> bool:
    return [a.shape for a in one] == [b.shape for b in other] and all(
        bool(np.all(np.abs(a - b) <= near)) for a, b in zip(one, other, strict=True)
    )


# The model


def model_ask(seed: int) -> dict[str, Any]:
    return {"V": 50, "T": 16, "seed": seed}


def model(ask: Mapping[str, Any], found: Found) -> Iterator[tuple[float, Wrong | None]]:
    """A third each: it begins by knowing nothing, no future is seen, what came before is."""
    V, T = ask["V"], ask["T"]
    bad = stopped(found, "start", "short", "stirred")
    shapes = [(4, T, V), (1, 5, V), (4, T, V), (4, T, V)]
    if not bad:
        made = [*parts(found, "start"), *parts(found, "short"), *parts(found, "stirred")]
        if [part.shape for part in made] != shapes:
            bad = "shape", "for tokens (B, T), also fewer than it can read, logits are (B, T, V)."
    if bad:
        yield 1.0, bad
        return
    start, (one, other) = made[0], made[2:]
    yield 1 / 3, begins(ask, start)
    change = np.abs(one - other).max((0, 2))
    middle = T // 2
    late = "future", "a position sees a token that comes after it."
    yield 1 / 3, None if change[:middle].max() <= 1e-4 else late
    blind = "alone", "no later position sees a token that was changed: is there attention in it?"
    yield 1 / 3, None if change[middle + 1 :].max() >= 1e-6 else blind


def begins(ask: Mapping[str, Any], start: np.ndarray) -> Wrong | None:
    """A sentence if these are no logits of somebody who knows nothing."""
    if not np.isfinite(start).all():
        return "nan", "there is a NaN or an infinite number in its logits."
    if (start >= 0).all() and np.abs(start.sum(-1) - 1).max() < 1e-3:
        return "softmax", "its rows sum to 1: these are probabilities; logits are asked for."
    dice = torch.Generator().manual_seed(ask["seed"] + 5)
    targets = torch.randint(ask["V"], (start.shape[0] * start.shape[1],), generator=dice)
    loss = float(F.cross_entropy(torch.from_numpy(start).flatten(0, 1), targets))
    if abs(loss - math.log(ask["V"])) < 0.5:
        return None
    return "sure", "the loss at the start is far from ln V, which is what knowing nothing costs."


# The optimiser

SETTINGS = {"lr": 0.03, "betas": (0.8, 0.97), "eps": 1e-2, "weight_decay": 0.2}
STEPPED = {
    "decay-in-gradient": "the decay goes through the gradient, as in Adam; in AdamW it is applied "
    "to the weights by itself",
    "no-decay": "the weights do not decay",
    "decay-without-rate": "the decay is not multiplied by the rate",
    "no-correction": "the means are not corrected for having begun at 0",
    "first-uncorrected": "the mean of the gradients is not corrected for having begun at 0",
    "second-uncorrected": "the mean of the squares is not corrected for having begun at 0",
    "no-root": "the root of the mean of the squares is not taken",
    "eps-inside": "`eps` stands under the root; it is added to the root",
    "no-eps": "`eps` is left out, or another one is taken than was given",
    "betas-exchanged": "the two betas are exchanged",
    "betas-fixed": "the betas are not the ones that were given",
    "rate-fixed": "the rate is not the one that was given",
    "decay-fixed": "the decay is not the one that was given",
    "step-from-0": "the steps are counted from 0 in the corrections",
    "uphill": "it steps up the gradient, not down",
    "nothing": "`step` changes nothing",
}


def optimiser_ask(seed: int) -> dict[str, Any]:
    return {"seed": seed, "steps": 6, "settings": SETTINGS}


def adamw(wrong: Collection[str], ask: Mapping[str, Any]) -> Result:
    """Parameters after the first step and the last, with some mistakes."""
    first, gradients = inside.parameters(ask)
    given = ask["settings"]
    lr = 1e-3 if "rate-fixed" in wrong else given["lr"]
    one, two = (0.9, 0.95) if "betas-fixed" in wrong else given["betas"]
    one, two = (two, one) if "betas-exchanged" in wrong else (one, two)
    eps, decay = given["eps"], given["weight_decay"]
    eps = 1e-8 if "no-eps" in wrong else eps
    decay = 0.1 if "decay-fixed" in wrong else 0.0 if "no-decay" in wrong else decay
    found, weights = [], [each.double() for each in first]
    means, squares = ([torch.zeros_like(each) for each in weights] for _ in range(2))
    for n, grads in enumerate(gradients):
        t = n + (1 if "step-from-0" not in wrong else 1e-9)
        for place, grad in enumerate(grads):
            w, grad = weights[place], grad.double()
            if "decay-in-gradient" in wrong:
                grad = grad + decay * w
            elif "decay-without-rate" in wrong:
                w = w * (1 - decay)
            else:
                w = w * (1 - lr * decay)
            means[place] = one * means[place] + (1 - one) * grad
            squares[place] = two * squares[place] + (1 - two) * grad**2
            plain = "no-correction" in wrong
            m = means[place] / (1 if plain or "first-uncorrected" in wrong else 1 - one**t)
            s = squares[place] / (1 if plain or "second-uncorrected" in wrong else 1 - two**t)
            size = (s + eps).sqrt() if "eps-inside" in wrong else s.sqrt() + eps
            size = s + eps if "no-root" in wrong else size
            step = lr * m / size
            weights[place] = w + step if "uphill" in wrong else w - step
        if "nothing" in wrong:
            weights = [each.double() for each in first]
        if n in (0, len(gradients) - 1):
            found += [each.numpy().copy() for each in weights]
    return tuple(found)


def optimiser(ask: Mapping[str, Any], found: Found) -> Iterator[tuple[float, Wrong | None]]:
    """Three quarters for its steps, one for a parameter without a gradient."""
    bad = stopped(found, "steps")
    words = "after six steps the parameters are not those of torch.optim.AdamW"
    bad = bad or recognised(
        [parts(found, "steps")], lambda wrong: [adamw(wrong, ask)], STEPPED, words, 1e-5
    )
    yield 3 / 4, bad
    if bad:
        yield 1 / 4, bad
        return
    bad = stopped(found, "without")
    if bad:
        words = "with a parameter that has no gradient (`each.grad is None`) its step stops."
        yield 1 / 4, ("without-gradient", words)
        return
    third = parts(found, "without")[2::3]
    moved = not all(np.array_equal(part, np.ones(2)) for part in third)
    yield (
        1 / 4,
        ("without-gradient", "a parameter without a gradient is changed.") if moved else None,
    )


# The loop


def loop_ask(seed: int) -> dict[str, Any]:
    r = 0.02
    runs = {
        "steps": [0, 6, [r] * 6],
        "rates": [2, 6, [0.0, r, 0.0, r]],
        "ends": [5, 9, [r, r, None]],
    }
    settings = {"betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
    return {"V": 24, "seed": seed, "poison": 0.7, "runs": runs, "settings": settings}


def loop(ask: Mapping[str, Any], found: Found) -> Iterator[tuple[float, Wrong | None]]:
    """Half for the gradients, a quarter for the rates, a quarter for the losses and the end."""
    bad = stopped(found, *ask["runs"])
    made = {} if bad else {case: parts(found, case) for case in ask["runs"]}
    if not bad and any(len(run) != 3 or run[2].ndim != 3 for run in made.values()):
        bad = "nothing", "there is no gradient: does it call `loss.backward()`?"
    if bad:
        yield 1.0, bad
        return
    yield 1 / 2, learns(ask, made["steps"])
    yield 1 / 4, follows(ask["runs"]["rates"][2], made["rates"])
    yield 1 / 4, tells(ask, made)


def learns(ask: Mapping[str, Any], run: Result) -> Wrong | None:
    """A sentence if what is left by the backward passes is not each batch's own gradient."""
    _, weights, gradients = run
    if len(gradients) != 6:
        return (
            "passes",
            "six steps make six backward passes, one for each; here it is another number.",
        )
    truth = truths(ask, weights, F.cross_entropy)
    if aligned(gradients, truth):
        return None if not np.array_equal(weights[0], weights[-1]) else NO_STEP
    if aligned(gradients, np.cumsum(truth, 0)) or aligned(gradients[:1], truth[:1]):
        return "piled", "gradients of earlier batches are not forgotten: set them to None or zero."
    probabilities = truths(ask, weights, lambda x, y: F.cross_entropy(x.softmax(-1), y))
    if aligned(gradients[:1], probabilities[:1]):
        return "softmax", "cross_entropy is given probabilities; it takes logits."
    return "gradient", "the gradients are not those of the mean cross-entropy of a batch."


NO_STEP = "no-step", "the weights stay what they were: is `optimiser.step()` called?"


def truths(ask: Mapping[str, Any], weights: np.ndarray, loss: Any) -> np.ndarray:
    """The gradient of each batch where the weights were."""
    found = []
    for weight, (inputs, targets) in zip(weights[:-1], inside.batches(ask), strict=False):
        here = torch.from_numpy(weight.copy()).requires_grad_()
        total = loss(here[inputs].flatten(0, 1), targets.flatten())
        found.append(torch.autograd.grad(total, here)[0].numpy())
    return np.stack(found)


def aligned(found: np.ndarray, due: np.ndarray) -> bool:
    """Do they point the same way, whatever their length?"""
    sizes = np.sqrt((found**2).sum((1, 2)) * (due**2).sum((1, 2)))
    return bool(((found * due).sum((1, 2)) > 0.98 * sizes).all())


def follows(rates: Sequence[float], run: Result) -> Wrong | None:
    """A sentence if weights move where the rate is 0, or do not where it is not."""
    moves = np.abs(np.diff(run[1], axis=0)).max((1, 2))
    due = [rate > 0 for rate in rates]
    seen = [bool(move > 1e-9) for move in moves]
    if seen == due:
        return None
    if len(seen) == len(due) and all(seen):
        return "rate", "the rate of `rate(step)` is not used: where it is 0 the weights move."
    return "rate", "the rate is not that of its step: step `first` has `rate(first)`."


def tells(ask: Mapping[str, Any], made: Mapping[str, Result]) -> Wrong | None:
    """A sentence if the losses are not those of the steps, or it does not end where it should."""
    losses, weights, _ = made["steps"]
    if losses.shape != (6,):
        return "count", "steps 0 to 5 give six losses, one each."
    if made["ends"][0].shape != (2,) or len(made["ends"][1]) != 3:
        return "end", "where `rate(step)` is None the training ends, before that step."
    due = [
        float(F.cross_entropy(torch.from_numpy(w.copy())[x].flatten(0, 1), y.flatten()))
        for w, (x, y) in zip(weights[:-1], inside.batches(ask), strict=False)
    ]
    if not np.allclose(losses, due, rtol=0.01, atol=1e-3):
        return "losses", "the losses it returns are not those of its batches, before each step."
    return None


# The checkpoint


def checkpoint_ask(seed: int) -> dict[str, Any]:
    return {"V": 50, "T": 16, "seed": seed}


def checkpoint(ask: Mapping[str, Any], found: Found) -> Iterator[tuple[float, Wrong | None]]:
    """All or nothing: bit for bit."""
    yield 1.0, stopped(found, "resumed") or resumes(parts(found, "resumed"))


def resumes(run: Result) -> Wrong | None:
    """A sentence if a run that stopped and went on is another one."""
    if len(run) != 7:
        return "stopped", "there is no result."
    step, losses, later, first, at_three, straight, again = run
    if step.tolist() != [3.0]:
        return "step", "`load` should give the step that was saved."
    if np.array_equal(first, straight):
        return "no-step", NO_STEP[1]
    if np.array_equal(first, at_three):
        return "not-loaded", "after `load` the model has not the weights that were saved."
    if losses.shape != (6,) or later.shape != (3,):
        return "count", "six steps give six losses."
    if losses[3:4].tolist() != later[:1].tolist():
        return "dice", "after loading the next batch is another one: is the state of `dice` saved?"
    if not np.array_equal(straight, again):
        return "optimiser", "after loading the steps are others: is all of the optimiser saved?"
    return None


# Sampling


def sampling_ask(seed: int) -> dict[str, Any]:
    dice = random.Random(seed)
    return {
        "V": dice.randint(6, 9),
        "seed": seed,
        "prompt": [1, 2, 3],
        "count": dice.randint(6, 9),
    }


def sampling(ask: Mapping[str, Any], found: Found) -> Iterator[tuple[float, Wrong | None]]:
    """All or nothing: one point."""
    yield 1.0, stopped(found, "cold", "warm", "dice") or goes_on(ask, found)


def goes_on(ask: Mapping[str, Any], found: Found) -> Wrong | None:
    V, prompt, count = ask["V"], ask["prompt"], ask["count"]
    (cold,), (warm,), dice = parts(found, "cold"), parts(found, "warm"), parts(found, "dice")
    if cold.shape != (1, len(prompt) + count) or cold[0, : len(prompt)].tolist() != prompt:
        return "shape", "the result has the prompt first, and then `count` tokens more."
    if cold[0].tolist() != [(1 + n) % V for n in range(len(prompt) + count)]:
        return "cold", "nearly without temperature the likeliest token comes; here others do."
    if warm.shape != (4000, 2):
        return "shape", "each row goes on by `count` tokens."
    likely = math.e**2 / (math.e**2 + V - 1)
    if abs(float((warm[:, 1] == 1).mean()) - likely) > 0.05:
        return "warm", "the logits are divided by the temperature before the softmax; here not."
    one, second, again, _, other, _ = dice
    if not np.array_equal(one, again):
        return (
            "dice",
            "the same dice give other tokens: draw with generator=dice, and nothing else.",
        )
    if np.array_equal(one, other):
        return "dice", "other dice give the same tokens: draw with generator=dice."
    if np.array_equal(one, second):
        return "dice", "two calls with the same dice give the same tokens: its seed is set anew."
    return None


JUDGES: dict[str, Judge] = {
    "tokenizer": tokenizer,
    "model": model,
    "optimiser": optimiser,
    "loop": loop,
    "checkpoint": checkpoint,
    "sampling": sampling,
}
ASKS: dict[str, Callable[[int], dict[str, Any]]] = {
    "tokenizer": tokenizer_ask,
    "model": model_ask,
    "optimiser": optimiser_ask,
    "loop": loop_ask,
    "checkpoint": checkpoint_ask,
    "sampling": sampling_ask,
}


def here(kind: str, own: Mapping[str, Any], **more: int) -> str:
    """What the student's check says of a part, as grading does on other numbers: "" if it is right.

    `more` replaces what is asked, such as the sizes of a model.
    """
    ask = ASKS[kind](2026) | more
    found: dict[str, Outcome] = {}
    for case, call in inside.CASES[kind](own, ask).items():
        result = outcome(call, ())
        found[case] = errors.quoted(result) if isinstance(result, str) else result
    said = judged(kind, ask, found)
    return " ".join(said.lines)
