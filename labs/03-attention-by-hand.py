"""Lab 3: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import math

import torch

from attnbook.labs.question import Case, Option, Question


def normal(numbers, *shape):
    return torch.randn(*shape, generator=numbers).mul(100).round().div(100)


def look(numbers, *shape):
    """A random mask in which each row sees something and something is hidden from each row."""
    mask = torch.rand(*shape, generator=numbers) < 0.6
    for row in range(shape[0]):
        mask[row, row % shape[1]], mask[row, (row + 2) % shape[1]] = True, False
    return mask


def scores(wrong, q, k):
    if "swapped" in wrong:
        q, k = k, q
    D = q.shape[-1]
    if "scale-keys" in wrong:
        D = k.shape[-2]
    raw = q @ k.transpose(-1, -2)
    if "unscaled" in wrong:
        return raw
    if "scale-d" in wrong:
        return raw / D
    if "scale-up" in wrong:
        return raw * math.sqrt(D)
    return raw / math.sqrt(D)


def scores_cases(numbers):
    q, k = normal(numbers, 3, 8), normal(numbers, 5, 8)
    batch = normal(numbers, 2, 4, 6, 7), normal(numbers, 2, 4, 3, 7)
    return [Case("one sequence", (q, k), 2), Case("batches in front", batch)]


def softmax(wrong, x):
    axis = -2 if "axis" in wrong else -1
    top = x.amax(axis, keepdim=True)
    if "global-max" in wrong:
        top = x.amax()
    if "overflow" in wrong:
        top = 0
    e = (2.0 ** (x - top)) if "base-two" in wrong else torch.exp(x - top)
    if "no-exp" in wrong:
        e = x
    if "not-normalised" in wrong:
        return e
    return e / (e.sum() if "all-sum" in wrong else e.sum(axis, keepdim=True))


def softmax_cases(numbers):
    x, batch = normal(numbers, 4, 6), normal(numbers, 2, 3, 5)
    apart = normal(numbers, 3, 4) + torch.tensor([[0.0], [500.0], [-500.0]])
    return [
        Case("one table of scores", (x,), 2),
        Case("batches in front", (batch,)),
        Case("large scores", (2000 * normal(numbers, 3, 5),), robust=True),
        Case("rows far apart", (apart,), robust=True),
    ]


def weights_of(wrong, x, mask):
    """Masked softmax with the mistakes that can be made in it."""
    axis = -2 if "axis" in wrong else -1
    if "polarity" in wrong:
        mask = ~mask
    if "mask-after" in wrong:
        return plain_softmax(wrong, x, axis) * mask
    if "mask-zero" in wrong:
        return plain_softmax(wrong, x * mask, axis)
    if "mask-ignored" in wrong:
        return plain_softmax(wrong, x, axis)
    low = -1e9 if "uniform-row" in wrong else -math.inf
    weights = plain_softmax(wrong, x.masked_fill(~mask, low), axis)
    if "nan-row" in wrong or "uniform-row" in wrong:
        return weights
    return weights.masked_fill(~mask, 0)


def plain_softmax(wrong, x, axis):
    if "overflow" in wrong:
        return x.exp() / x.exp().sum(axis, keepdim=True)
    return x.softmax(axis)


def masked_cases(numbers):
    x, mask = normal(numbers, 4, 6), look(numbers, 4, 6)
    batch, one = normal(numbers, 2, 3, 5), look(numbers, 3, 5)
    nothing = look(numbers, 3, 4).index_fill(0, torch.tensor([1]), False)
    return [
        Case("a mask", (x, mask), 2),
        Case("one mask for a batch", (batch, one)),
        Case("a row that sees nothing", (normal(numbers, 3, 4), nothing), robust=True),
        Case("large scores", (2000 * normal(numbers, 4, 6), mask), robust=True),
    ]


def causal_mask(wrong, Tq, Tk):
    if "swapped" in wrong:
        Tq, Tk = Tk, Tq
    offset = 0 if "no-offset" in wrong else Tk - Tq
    ahead = int("one-ahead" in wrong) - int("no-diagonal" in wrong)
    mask = torch.ones(Tq, Tk, dtype=torch.bool)
    mask = mask.triu(offset - ahead) if "upper" in wrong else mask.tril(offset + ahead)
    mask = ~mask if "polarity" in wrong else mask
    return mask.float() if "float" in wrong else mask


SIZES = (5, 9), (3, 6), (3, 7)


def causal_cases(numbers):
    T, Tq, more = (int(torch.randint(*ends, (), generator=numbers)) for ends in SIZES)
    return [
        Case("as many queries as keys", (T, T), 2),
        Case("fewer queries than keys", (Tq, Tq + more)),
    ]


def attend(wrong, q, k, v, mask=None):
    if "keys-for-values" in wrong:
        v = k
    x = scores(wrong, q, k)
    if mask is None:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool)
        wrong = wrong - {"polarity"}
    weights = weights_of(wrong, x, mask)
    out = weights @ v
    if "only-output" in wrong:
        return out
    return (weights, out) if "exchanged" in wrong else (out, weights)


def attend_cases(numbers):
    def qkv(Tq, Tk, D, Dv, *batch):
        shapes = (Tq, D), (Tk, D), (Tk, Dv)
        return tuple(normal(numbers, *batch, *shape) for shape in shapes)

    nothing = look(numbers, 3, 4).index_fill(0, torch.tensor([1]), False)
    q, k, v = qkv(4, 5, 8, 8)
    return [
        Case("no mask", qkv(3, 5, 8, 8), 2),
        Case("batches in front, other values", qkv(4, 3, 6, 7, 2)),
        Case("a mask", (*qkv(4, 5, 8, 8), look(numbers, 4, 5)), 2),
        Case("a row that sees nothing", (*qkv(3, 4, 8, 8), nothing), robust=True),
        Case("large scores", (2000 * q, k, v), robust=True),
    ]


def reverse(wrong, x):
    T = x.shape[-2]
    places = torch.arange(T)
    there = places if "copied" in wrong else T - 1 - places
    if "off-by-one" in wrong:
        there = (there - 1) % T
    weights = torch.eye(T)[there]
    if "blurred" in wrong:
        weights = (weights / math.sqrt(T)).softmax(-1)
    if "features" in wrong:
        return x.flip(-1)
    return weights @ x


def reverse_cases(numbers):
    return [
        Case("five positions", (normal(numbers, 5, 3),), 2),
        Case("nine", (normal(numbers, 9, 4),)),
    ]


SCALE = {
    "unscaled": "scores not divided by √D",
    "scale-d": "scores divided by D instead of √D",
    "scale-keys": "scores divided by the root of the number of keys instead of the width D",
    "scale-up": "scores multiplied by √D instead of divided",
}
MASK = {
    "axis": "softmax over the queries (axis −2) instead of over the keys (axis −1)",
    "polarity": "the mask keeps what it should hide: True means that looking is allowed",
    "mask-after": "the mask is applied after the softmax, so the rows no longer sum to 1",
    "mask-zero": "hidden scores are set to 0 instead of −∞, and e⁰ is 1",
    "mask-ignored": "the mask is not used",
    "nan-row": "a row that sees nothing becomes NaN (0 divided by 0); it should be zeros",
    "uniform-row": "a row that sees nothing gets equal weights; it should be zeros",
    "overflow": "e to a large score overflows; subtract the row's maximum first",
}
SHIFTS = tuple(SCALE)

QUESTIONS = {
    "scores": Question(
        scores,
        scores_cases,
        SCALE | {"swapped": "queries and keys exchanged: rows should be queries"},
        measure="scores",
        shifts=SHIFTS,
    ),
    "softmax": Question(
        softmax,
        softmax_cases,
        {
            "axis": MASK["axis"],
            "all-sum": "divided by the sum of the whole table instead of each row's",
            "not-normalised": "the exponentials are not divided by their sum",
            "no-exp": "the scores themselves are divided by their sum, without e to the score",
            "base-two": "powers of 2 instead of powers of e",
            "overflow": MASK["overflow"],
            "global-max": "the maximum of the whole table is subtracted, not each row's own: "
            "a row far below it becomes 0 divided by 0",
        },
        banned=("softmax", "log_softmax", "logsumexp"),
    ),
    "masked_softmax": Question(weights_of, masked_cases, MASK),
    "causal_mask": Question(
        causal_mask,
        causal_cases,
        {
            "upper": "the triangle is the wrong one: a query sees the future instead of the past",
            "no-diagonal": "a query does not see its own position",
            "one-ahead": "a query sees one position too many, the next one",
            "no-offset": "with fewer queries than keys the queries are the last positions, "
            "not the first",
            "polarity": "True and False exchanged: True means that looking is allowed",
            "float": "the mask holds numbers; a mask is boolean",
            "swapped": "rows and columns exchanged: rows are queries",
        },
    ),
    "attend": Question(
        attend,
        attend_cases,
        SCALE
        | MASK
        | {
            "keys-for-values": "the keys are averaged instead of the values",
            "only-output": "the weights are not returned; return output and weights",
            "exchanged": "returned as weights, output instead of output, weights",
        },
        measure="weights",
        shifts=SHIFTS,
        banned=("scaled_dot_product_attention", "MultiheadAttention"),
    ),
    "reverse": Question(
        reverse,
        reverse_cases,
        {
            "copied": "each position looks at itself, so the sequence is copied",
            "off-by-one": "each position looks one place beside its mirror image",
            "blurred": "the weights are blurred: make the queries or keys much longer",
            "features": "the features are reversed instead of the positions",
        },
        banned=("without attend",),
    ),
}

CHOICES = {
    "mask": {
        "itself and before": Option(),
        "only before": Option(
            text={
                "a position sees itself and all before it.": "a position sees all before it, but not itself (it is what has to be guessed).",
                "at its own position and at all earlier ones": "at all earlier positions",
                "torch.arange(Tk) <= place": "torch.arange(Tk) < place",
            },
            flips={
                "causal_mask": {
                    "no-diagonal": "a query sees its own position; here it sees earlier ones only"
                }
            },
        ),
    },
    "order": {
        "reversed": Option(),
        "last stays": Option(
            text={
                "returns a sequence in\nreverse order.": "goes through a\nsequence backwards from the last position but one, and puts the last at the end: "
                "d e f becomes e d f.",
                "Returns (T, C), the last position first.": "Returns (T, C), the last position but one first, the last one last.",
                "in reverse order, fetched": "backwards, but for the last, fetched",
                "torch.arange(T - 1, -1, -1)": "torch.arange(T - 2, -2, -1) % T",
            },
            flips={
                "reverse": {
                    "off-by-one": "the last position comes first; here it stays at the end and the "
                    "others are reversed"
                }
            },
        ),
    },
    "width": {
        "256": Option(),
        "64": Option(
            {
                "256": "64",
                "deviation 16": "deviation 8",
                "1/16": "1/8",
                "spread by 16": "spread by 8",
                "Divided by 16": "Divided by 8",
            }
        ),
        "1024": Option(
            {
                "256": "1024",
                "deviation 16": "deviation 32",
                "1/16": "1/32",
                "spread by 16": "spread by 32",
                "Divided by 16": "Divided by 32",
            }
        ),
    },
}
