"""Lab 3: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import math

import torch

from attnlabs.draws import look, normal
from attnlabs.question import Case, Option, Question


def scores(wrong, q, k):
    if "swapped" in wrong:
        q, k = k, q
    D = q.shape[1] if "scale-axis-1" in wrong else q.shape[-1]
    if "scale-keys" in wrong:
        D = k.shape[-2]
    if "scale-queries" in wrong:
        D = q.shape[-2]
    turned = k.transpose(-1, -2)
    raw = q @ (k.reshape(turned.shape) if "reshaped" in wrong else turned)
    if "softmax" in wrong:
        return scores(wrong - {"softmax"}, q, k).softmax(-1)
    if "cosine" in wrong:
        return raw / (q.norm(dim=-1)[..., :, None] * k.norm(dim=-1)[..., None, :])
    if "unit-queries" in wrong:
        raw = raw / q.norm(dim=-1, keepdim=True)
    if "unscaled" in wrong:
        return raw
    if "scale-whole" in wrong:
        return raw / int(math.sqrt(D))
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
    if "negated" in wrong:
        x = -x
    if "clamped" in wrong:
        return softmax(wrong - {"clamped"} | {"overflow"}, x.clamp(-50, 50))
    axis = -2 if "axis" in wrong else -1
    e = torch.exp(x - shift(wrong, x, axis))
    if "base-two" in wrong:
        e = 2.0 ** (x - shift(wrong, x, axis))
    if "late-max" in wrong:
        e = torch.exp(x) - shift(wrong, x, axis)
    if "no-exp" in wrong:
        e = x
    below = torch.exp(x) if "not-below" in wrong else e
    e = torch.exp(x) if "not-above" in wrong else e
    if "not-normalised" in wrong:
        return e
    over = -3 - axis if "sum-axis" in wrong else axis
    kept = "no-keepdim" not in wrong
    weights = e / (below.sum() if "all-sum" in wrong else below.sum(over, keepdim=kept))
    if "hushed" in wrong:
        weights = weights.nan_to_num(0)
    return weights.log() if "logarithm" in wrong else weights


def shift(wrong, x, axis):
    """What is subtracted from the scores before e is raised to them."""
    if "overflow" in wrong:
        return 0
    if "global-max" in wrong:
        return x.amax()
    if "mean" in wrong:
        return x.mean(axis, keepdim=True)
    kept = "max-no-keepdim" not in wrong
    return x.amax(-3 - axis if "max-axis" in wrong else axis, keepdim=kept)


def softmax_cases(numbers):
    x, batch = normal(numbers, 4, 6), normal(numbers, 3, 3, 3)
    apart = normal(numbers, 3, 4) + torch.tensor([[0.0], [1000.0], [-1000.0]])
    return [
        Case("one table of scores", (x,), 2),
        Case("batches in front", (batch,)),
        Case("large scores", (100_000 * normal(numbers, 3, 5),), robust=True),
        Case("rows far apart", (apart,), robust=True),
    ]


def weights_of(wrong, x, mask):
    """Masked softmax with the mistakes that can be made in it."""
    axis = -2 if "axis" in wrong else -1
    if "polarity" in wrong:
        mask = ~mask
    if "mask-ignored" in wrong:
        return plain_softmax(wrong, x, axis)
    if "all-or-nothing" in wrong and not mask.any(-1).all():
        return torch.zeros_like(x)
    if "penalty" in wrong:
        weights = plain_softmax(wrong, x + (~mask) * -1e9, axis)
        weights = weights * mask if "mask-after" in wrong else weights
        return weights if "uniform-row" in wrong else weights * mask.any(-1, keepdim=True)
    if "zero-times" in wrong:
        return plain_softmax(wrong, x + (1 - mask.float()) * -math.inf, axis)
    if {"mask-zero", "mask-added"} & wrong:
        weights = plain_softmax(wrong, x * mask if "mask-zero" in wrong else x + mask.float(), axis)
        return weights * mask if "mask-after" in wrong else weights
    if "mask-after" in wrong:
        return plain_softmax(wrong, x, axis) * mask
    if wrong & {"by-count", "hidden-power"}:
        seen = x.masked_fill(~mask, -math.inf)
        top = seen.amax(axis, keepdim=True)
        top = top.masked_fill(top == -math.inf, 0)
        if "by-count" in wrong:
            return torch.exp(seen - top) / mask.sum(axis, keepdim=True).clamp(min=1)
        e = torch.exp(x - top) * mask
        return e / e.sum(axis, keepdim=True).clamp(min=1e-12)
    if "hidden-max" in wrong:
        top = 0 if "overflow" in wrong else x.amax(axis, keepdim=True)
        e = torch.exp(x - top) * mask
        weights = e / e.sum(axis, keepdim=True)
        return weights if "nan-row" in wrong else weights.nan_to_num(0)
    if "global-max" in wrong:
        seen = x.masked_fill(~mask, -math.inf)
        e = torch.exp(seen - seen.amax())
        return (e / e.sum(axis, keepdim=True)).nan_to_num(0)
    low = -100.0 if "not-low" in wrong else -1e9 if "uniform-row" in wrong else -math.inf
    weights = plain_softmax(wrong, x.masked_fill(~mask, low), axis)
    if "uniform-row" in wrong or ("nan-row" in wrong and "not-low" not in wrong):
        return weights
    weights = weights.masked_fill(~mask, 0)
    return weights.nan_to_num(0) if "hushed" in wrong else weights


def plain_softmax(wrong, x, axis):
    if "overflow" in wrong:
        return x.exp() / x.exp().sum(axis, keepdim=True)
    return x.softmax(axis)


def masked_cases(numbers):
    x, mask = normal(numbers, 4, 6), look(numbers, 4, 6)
    batch, one = normal(numbers, 2, 3, 5), look(numbers, 3, 5)
    nothing = look(numbers, 3, 4).index_fill(0, torch.tensor([1]), False)
    two = torch.stack([look(numbers, 4, 3), look(numbers, 4, 3)])
    return [
        Case("a mask", (x, mask), 2),
        Case("one mask for a batch", (batch, one)),
        Case("a mask for each of a batch", (normal(numbers, 2, 4, 3), two)),
        Case("a row that sees nothing", (normal(numbers, 3, 4), nothing), robust=True),
        Case("large scores", (positive(numbers, mask), mask), robust=True),
        Case("scores far below 0", (normal(numbers, 4, 6) - 20_000, mask), robust=True),
    ]


def positive(numbers, mask):
    """Large scores, none near 0, the hidden ones above all others."""
    return 100_000 * (normal(numbers, *mask.shape).abs() + 0.01 + 1e6 * ~mask)


def causal_mask(wrong, Tq, Tk):
    if "swapped" in wrong:
        Tq, Tk = Tk, Tq
    Tq = Tk if "square-all" in wrong else Tq
    Tk = Tq if "square" in wrong else Tk
    offset = 0 if "no-offset" in wrong else Tq - Tk if "wrong-way" in wrong else Tk - Tq
    ahead = int("one-ahead" in wrong) - int("no-diagonal" in wrong)
    mask = torch.ones(Tq, Tk, dtype=torch.bool)
    mask = mask.triu(offset - ahead) if "upper" in wrong else mask.tril(offset + ahead)
    mask = mask | True if "all" in wrong else mask
    mask = mask & False if "none" in wrong else mask
    if "none-before" in wrong:
        mask[:, : max(Tk - Tq, 0)] = False
    mask = ~mask if "polarity" in wrong else mask
    if "additive" in wrong:
        return torch.zeros(Tq, Tk).masked_fill(~mask, -math.inf)
    return mask.float() if "float" in wrong else mask


SIZES = (5, 9), (3, 6), (3, 7)


def causal_cases(numbers):
    T, Tq, more = (int(torch.randint(*ends, (), generator=numbers)) for ends in SIZES)
    return [
        Case("as many queries as keys", (T, T), 2),
        Case("fewer queries than keys", (Tq, Tq + more)),
    ]


def attend(wrong, q, k, v, mask=None):
    width = v.shape[-1]
    k, v = v if "values-for-keys" in wrong else k, k if "keys-for-values" in wrong else v
    x = scores(wrong - {"softmax"}, q, k)
    if "scale-values" in wrong:
        x = x * math.sqrt(q.shape[-1] / width)
    if mask is None:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool)
        if wrong & {"causal", "causal-first"}:
            mask = mask.tril(0 if "causal-first" in wrong else x.shape[-1] - x.shape[-2])
        wrong = wrong - {"polarity", "mask-zero", "mask-added", "mask-after", "zero-times"}
        wrong = wrong - {"twice"}
    if "twice" in wrong:
        x = x.softmax(-1)
    x = x * math.sqrt(q.shape[-1]) if "scale-late" in wrong else x
    weights = x if "no-softmax" in wrong else weights_of(wrong, x, mask)
    weights = weights / math.sqrt(q.shape[-1]) if "scale-late" in wrong else weights
    out = (x if "average" in wrong else weights) @ v
    if "only-output" in wrong:
        return out
    if "scores-back" in wrong:
        weights = x
    return (weights, out) if "exchanged" in wrong else (out, weights)


def attend_cases(numbers):
    def qkv(Tq, Tk, D, Dv, *batch):
        shapes = (Tq, D), (Tk, D), (Tk, Dv)
        return tuple(normal(numbers, *batch, *shape) for shape in shapes)

    nothing = look(numbers, 3, 4).index_fill(0, torch.tensor([1]), False)
    q, k, v = qkv(4, 5, 8, 8)
    mask = look(numbers, 4, 5)
    # With one-hot keys the scores are the queries' own numbers over √5
    hidden = positive(numbers, mask), torch.eye(5), normal(numbers, 5, 5)
    return [
        Case("no mask", qkv(3, 5, 8, 8), 2),
        Case("batches in front, other values", qkv(4, 3, 6, 7, 2)),
        Case("a mask", (*qkv(4, 5, 8, 8), look(numbers, 4, 5)), 2),
        Case("a row that sees nothing", (*qkv(3, 4, 8, 8), nothing), robust=True),
        Case("large scores", (100_000 * q, k, v), robust=True),
        Case("large scores, some hidden", (*hidden, mask), robust=True),
    ]


# The weights blurred by one-hot vectors that are too short: their lengths multiplied, for each name
BLURRED = {"blurred": 1} | {f"blurred-{times}": times for times in (2, 3, 4, 5, 9, 10, 20)}


def reverse(wrong, x):
    T = x.shape[-2]
    places = torch.arange(T)
    there = places if "copied" in wrong else T - 1 - places
    if "off-by-one" in wrong:
        there = (there - 1) % T
    if "one-later" in wrong:
        there = (there + 1) % T
    weights = torch.eye(T)[there]
    for times in (BLURRED[name] for name in BLURRED if name in wrong):
        weights = (times * torch.eye(T)[there] / math.sqrt(T)).softmax(-1)
        break
    if "content" in wrong:
        weights = (x[there] @ x.T / math.sqrt(x.shape[-1])).softmax(-1)
    if "features" in wrong:
        return x.flip(-1)
    if "weights" in wrong:
        return weights
    return (weights @ x, weights) if "both" in wrong else weights @ x


def reverse_cases(numbers):
    return [
        Case("five positions", (normal(numbers, 5, 3),), 2),
        Case("nine", (normal(numbers, 9, 4),)),
    ]


SCALE = {
    "unscaled": "scores not divided by √D",
    "scale-d": "scores divided by D instead of √D",
    "scale-keys": "the number of keys, Tk, is taken for the width D in the scale",
    "scale-queries": "the number of queries, Tq, is taken for the width D in the scale",
    "scale-up": "scores multiplied by √D instead of divided",
}
RAW = {
    "scale-axis-1": "the width D is read off axis 1, which it is without batches only; "
    "it is axis −1",
    "reshaped": "the keys are reshaped to (D, Tk), which mixes up their numbers; "
    "transpose exchanges axes",
}
MASK = {
    "axis": "softmax over the queries (axis −2) instead of over the keys (axis −1)",
    "polarity": "the mask keeps what it should hide: True means that looking is allowed",
    "mask-after": "the mask is applied after the softmax, so the rows no longer sum to 1",
    "mask-zero": "hidden scores are set to 0 instead of −∞, and e⁰ is 1",
    "mask-added": "the mask is added as numbers 0 and 1; hidden scores must become −∞",
    "zero-times": "0 times ∞ is NaN; put −∞ at the hidden places only, with masked_fill or where, "
    "instead of multiplying",
    "mask-ignored": "the mask is not used",
    "nan-row": "a row that sees nothing becomes NaN (0 divided by 0); it should be zeros",
    "uniform-row": "a row that sees nothing gets equal weights; it should be zeros",
    "overflow": "e to a large score overflows; subtract the row's maximum first",
    "global-max": "the maximum of the whole table is subtracted, not each row's own: the weights of a "
    "row far below it become 0 or NaN",
    "by-count": "divided by the number of places seen; divide by the sum of the exponentials",
    "hidden-power": "e is raised to hidden scores, too: where one is far above those seen it is ∞, "
    "and ∞ times 0 is NaN; hide first",
    "hushed": "NaN is turned into 0 afterwards, which hides where it comes from",
    "hidden-max": "hidden places are dropped only after e was raised to the scores; a hidden score "
    "far above the others makes those 0 (or overflows): hide first, then take the maximum",
    "penalty": "a large negative number is added to hidden scores, and a hidden score that is larger "
    "still wins; put −∞ in their place",
    "all-or-nothing": "one row that sees nothing makes all rows zeros; each row is decided by itself",
    "not-low": "hidden scores are set to a number that is not far enough below all others; take −∞",
}
SHIFTS = tuple(SCALE)
KEEPDIM = (
    "the sum or the maximum of the rows has lost its axis, so a row meets the numbers of other rows: "
    "keepdim=True keeps it"
)
SQUARE = "the mask is square; it has Tq rows, for the last Tq positions, and Tk columns"
CAUSAL = "without a mask a causal one is used; then every query sees every key"

QUESTIONS = {
    "scores": Question(
        scores,
        scores_cases,
        SCALE
        | {
            "swapped": "queries and keys exchanged: rows should be queries",
            **RAW,
            "softmax": "a softmax is taken already; scores are what goes into it",
            "cosine": "divided by the lengths of queries and keys, which makes cosines; the dot "
            "products are divided by √D alone",
            "scale-whole": "√D is cut to a whole number",
            "unit-queries": "the queries are made 1 long; they count as they are",
        },
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
            "max-axis": "the maximum is taken along another axis than the sum: it must be the "
            "same number for a whole row",
            "sum-axis": "the sum is taken along the wrong axis: each row has its own, axis −1",
            "not-below": "the maximum is subtracted above the line but not below, in the sum",
            "not-above": "the maximum is subtracted below the line, in the sum, but not above",
            "no-keepdim": KEEPDIM,
            "max-no-keepdim": KEEPDIM,
            "clamped": "scores are cut off (`clamp`), which makes different ones alike; subtract the "
            "row's maximum instead",
            "mean": "the row's mean is subtracted; with the maximum no exponent is above 0",
            "negated": "the sign is wrong: the largest score must get the largest weight",
            "logarithm": "the logarithms of the weights are returned",
            "hushed": MASK["hushed"],
            "late-max": "the maximum is subtracted from the exponentials; it comes off the scores before",
        },
        banned=("softmax", "log_softmax", "logsumexp", "softmin", "logaddexp", "logcumsumexp"),
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
            "wrong-way": "the triangle is shifted by Tk − Tq the wrong way",
            "none-before": "what comes before the first query is hidden; it is earlier, so all "
            "queries see it",
            "square": SQUARE,
            "square-all": SQUARE,
            "all": "nothing is hidden",
            "none": "everything is hidden",
            "additive": "the mask holds 0 and −∞, to be added; it should be boolean",
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
            "values-for-keys": "the queries are compared with the values instead of the keys",
            "scale-values": "scores divided by the root of the values' width Dv; D is the width "
            "of queries and keys",
            "no-softmax": "the scores themselves are used as weights, without softmax",
            "average": "the values are added up with the scores instead of with the weights",
            "scores-back": "the scores are returned instead of the weights",
            "causal": CAUSAL,
            "causal-first": CAUSAL,
            "twice": "with a mask there are two softmaxes, one of the other's weights; "
            "masked_softmax takes scores",
            **RAW,
            "scale-late": "the weights are divided by √D; the scores are, before the softmax",
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
            "off-by-one": "each position looks one place too far to the front",
            "one-later": "each position looks one place too far to the back",
            **dict.fromkeys(
                BLURRED, "the weights are blurred: make the queries or keys much longer"
            ),
            "content": "queries and keys are x itself; positions are told apart by one-hot vectors",
            "both": "both results of attend are returned; the first one is wanted",
            "weights": "the weights are returned; the output, the first result of attend, is wanted",
            "features": "the features are reversed instead of the positions",
        },
        banned=("without attend", "x.flip"),
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
