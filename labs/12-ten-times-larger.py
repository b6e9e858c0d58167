"""Lab 12: what each question is compared with, and the mistakes it knows (see labs/README.md).

A student's ledger, commitment and method are judged in `attnlabs.lab12.verdict`.
"""

import torch

from attnlabs.draws import whole
from attnlabs.lab12 import verdict
from attnlabs.question import Case, Option, Question


def run_flops(wrong, width, layers, V, T, tokens):
    N = 12 * layers * width**2
    N = 8 * layers * width**2 if "no-attention-matrices" in wrong else N
    N = 12 * width**2 if "one-block" in wrong else N
    N = N + (0 if "no-output" in wrong else width * V)
    N = N + (width * V + width * T if "tables" in wrong else 0)
    N = N + (width * V if "embedding" in wrong else 0)
    N = N + (width * T if "places" in wrong else 0)
    each = 2 * N if "forward-only" in wrong else 4 * N if "no-forward" in wrong else 6 * N
    each = N if "parameters" in wrong else each
    scores = 12 * layers * width * T
    scores = 4 * layers * width * T if "scores-forward" in wrong else scores
    scores = 6 * layers * width * T if "scores-only" in wrong else scores
    scores = 12 * layers * width * T**2 if "whole-window" in wrong else scores
    scores = 12 * width * T if "scores-one-block" in wrong else scores
    scores = 72 * layers * width * T if "scores-times-six" in wrong else scores
    scores = 0 if "no-scores" in wrong else scores
    total = (each + scores) * tokens
    return torch.tensor(total / 1e9 if "giga" in wrong else float(total), dtype=torch.float64)


def flops_cases(numbers):
    def one(name, weight):
        C, layers = 16 * int(whole(numbers, 1, 9, 1)), int(whole(numbers, 2, 7, 1))
        V, tokens = int(whole(numbers, 30, 200, 1)), 512 * int(whole(numbers, 10, 900, 1))
        return Case(name, (C, layers, V, int(whole(numbers, 3, 9, 1)) * 16, tokens), weight)

    return [one("a model", 2), one("another one", 1)]


def fit_law(wrong, compute, loss, alphas):
    x, y = compute.double(), loss.double()
    x = x / (1 if "raw" in wrong else x.min() if "by-smallest" in wrong else x.max())
    x = compute.double() / compute.double().mean() if "by-mean" in wrong else x
    y = y.log() if "in-logs" in wrong else y
    found = []
    for alpha in alphas.double():
        power = x ** (alpha if "growing" in wrong else -alpha)
        columns = torch.stack([torch.ones_like(power), power], 1)
        if "no-floor" in wrong:
            columns = columns[:, 1:]
        weights = torch.linalg.lstsq(columns, y[:, None]).solution[:, 0]
        weights = torch.cat([weights[:1] * 0, weights]) if "no-floor" in wrong else weights
        rest = columns @ (weights[1:] if "no-floor" in wrong else weights) - y
        size = rest.abs().max() if "largest" in wrong else rest.square().sum()
        found.append((float(size), float(weights[0]), float(weights[1]), float(alpha)))
    best = max(found) if "worst" in wrong else min(found)
    best = found[-1] if "last" in wrong else found[0] if "first" in wrong else best
    E, A, alpha = best[1:]
    E, A = (A, E) if "exchanged" in wrong else (E, A)
    return torch.tensor([E, A, -alpha if "minus" in wrong else alpha], dtype=torch.float64)


def law_cases(numbers):
    def one(name, n, weight):
        def between(low, high, *shape):
            return low + (high - low) * torch.rand(*shape, generator=numbers, dtype=torch.float64)

        compute = (between(0, 3.5, n).exp()).mul(100).round().div(100)
        noise = between(-0.02, 0.02, n)
        E, A, alpha = between(0.8, 1.6, 1), between(0.5, 1.2, 1), between(0.2, 0.5, 1)
        loss = E + A * (compute / compute.max()) ** -alpha + noise
        alphas = torch.arange(2, 17, dtype=torch.float64) / 20
        return Case(name, (compute, loss.mul(1e4).round().div(1e4), alphas), weight)

    return [one("nine runs", 9, 2), one("six runs", 6, 1)]


def interval_score(wrong, low, high, seen, covers):
    alpha = covers if "covers" in wrong else 1 - covers
    rate = 1 / alpha if "once" in wrong else 2 / alpha
    rate = 1.0 if "unweighted" in wrong else rate
    rate = 2 * alpha if "times-alpha" in wrong else 4 / alpha if "twice" in wrong else rate
    under, over = (low - seen).clamp(min=0), (seen - high).clamp(min=0)
    if "unclamped" in wrong:
        under, over = low - seen, seen - high
    under = 0 * under if "below-forgotten" in wrong else under
    over = 0 * over if "above-forgotten" in wrong else over
    outside = under + over
    if "counted" in wrong:
        outside = (outside > 0).to(low.dtype)
    if "from-middle" in wrong:
        outside = torch.where(outside > 0, (seen - (low + high) / 2).abs(), outside)
    if "always-from-middle" in wrong:
        outside = (seen - (low + high) / 2).abs()
    outside = outside.square() if "squared" in wrong else outside
    length = (high - low) / 2 if "half" in wrong else high - low
    length = 0 * length if "no-length" in wrong else length
    if "either" in wrong:
        length = torch.where(outside > 0, 0 * length, length)
    score = rate * outside + (-length if "length-taken-off" in wrong else length)
    score = -score if "sign" in wrong else score
    return score.mean() if "mean" in wrong else score


def score_cases(numbers):
    def one(name, n, covers, weight):
        low = torch.randint(100, 200, (n,), generator=numbers).double() / 100
        high = low + torch.randint(4, 40, (n,), generator=numbers).double() / 100
        away = torch.randint(3, 30, (n,), generator=numbers).double() / 100
        seen = torch.stack([low - away, (3 * low + high) / 4, high + away])
        seen = seen.gather(0, torch.arange(n)[None] % 3)[0]
        return Case(name, (low, high, seen, covers), weight)

    return [one("intervals of 80 %", 6, 0.8, 2), one("intervals of 95 %", 5, 0.95, 1)]


def form(wrong, *given):
    """An answer in the right form; what is right is the student's alone, `own`."""
    return 0


def ledger_cases(numbers):
    lot = int(torch.randint(1, 2**31, (1,), generator=numbers))
    return [Case("the ledger", (0,), lot=lot)]


def committed_cases(numbers):
    return [Case("as it is", (0.0,)), Case("all losses higher", (verdict.SHIFT,))]


def forecast_cases(numbers):
    return list(verdict.hidden(numbers))


QUESTIONS = {
    "run_flops": Question(
        run_flops,
        flops_cases,
        {
            "forward-only": "2 operations for each parameter and token are the forward pass alone; "
            "with the backward pass there are 6",
            "no-forward": "4 operations are the backward pass alone; with the forward pass there are 6",
            "parameters": "each parameter counts once; a token costs it 6 operations in training",
            "no-scores": "the attention scores and averages are missing, 12 C T for each token and block",
            "scores-forward": "of scores and averages only the forward pass is counted, 4 C T",
            "scores-only": "of scores and averages half is counted: they are two products, and the causal "
            "mask takes nothing off",
            "whole-window": "scores are counted for a whole window; for each token it is T, not T²",
            "no-output": "the output layer, C V, is missing",
            "tables": "the tables of embeddings are counted; looking up multiplies nothing",
            "one-block": "the matrices of one block are counted; there are several blocks",
            "no-attention-matrices": "the four matrices of attention, 4 C² in each block, are missing",
            "giga": "these are gigaflops; operations are asked for",
            "embedding": "the table of embeddings is counted; looking up multiplies nothing",
            "places": "the table of positions is counted; looking up multiplies nothing",
            "scores-one-block": "scores and averages of one block are counted, 12 C T; there are several blocks",
            "scores-times-six": "12 C T is all that training costs for scores and averages; it is not multiplied by 6 once more",
        },
    ),
    "fit_law": Question(
        fit_law,
        law_cases,
        {
            "no-floor": "the irreducible term E is missing",
            "raw": "compute is not divided by that of the largest run",
            "by-smallest": "compute is divided by that of the smallest run; the largest is asked for",
            "in-logs": "the law is fitted to the logarithm of the loss; the loss itself is asked for",
            "growing": "the exponent has the wrong sign: the loss falls as compute grows",
            "largest": "the largest error decides; the sum of the squared errors is asked for",
            "worst": "the exponent with the largest error is taken, not the smallest",
            "exchanged": "E and A are exchanged",
            "minus": "α is returned with a minus; it is the one from `alphas`",
            "by-mean": "compute is divided by its mean; that of the largest run is asked for",
            "last": "the last α of the list is returned, whatever its error",
            "first": "the first α of the list is returned, whatever its error",
        },
    ),
    "interval_score": Question(
        interval_score,
        score_cases,
        {
            "covers": "α is what the interval leaves out, 1 − `covers`",
            "once": "what lies outside costs 2/α times its distance, not 1/α",
            "unweighted": "what lies outside costs 2/α times its distance, not once",
            "below-forgotten": "what lies below the interval costs nothing here",
            "above-forgotten": "what lies above the interval costs nothing here",
            "counted": "it is counted that something lies outside, not how far",
            "from-middle": "the distance is that to the nearer end, not to the middle",
            "half": "half the length is taken; the whole length is asked for",
            "no-length": "the length of the interval costs nothing here, so a wide one wins",
            "either": "outside of the interval its length is forgotten; it is always added",
            "sign": "the sign is the other one: low is good",
            "mean": "the mean of all is returned; one score for each forecast is asked for",
            "times-alpha": "the distance is multiplied by α; it is divided by it",
            "twice": "what lies outside costs 2/α times its distance, not 4/α",
            "always-from-middle": "the distance is taken from the middle, inside too; it is that from the interval, 0 inside",
            "squared": "the distance is squared; it counts as it is",
            "unclamped": "what is not outside counts below 0: a distance is 0 there, `clamp(min=0)`",
            "length-taken-off": "the length is subtracted; it is added",
        },
    ),
    "ledger": Question(form, ledger_cases, {}, own="ledger"),
    "committed": Question(form, committed_cases, {}, own="committed"),
    "forecast": Question(form, forecast_cases, {}, own="forecast", private=True),
}

CHOICES = {
    "unit": {
        "operations": Option(),
        "gigaflops": Option(
            text={
                "Returns the number of operations.": "Returns gigaflops, the number of operations over 10⁹.",
                "return tokens * (6 * N + scores)": "return tokens * (6 * N + scores) / 1e9",
                "run_flops(64, 2, 94, 64, 512) / 1e9": "run_flops(64, 2, 94, 64, 512)",
            },
            flips={"run_flops": {"giga": "in your copy the answer is in gigaflops"}},
        ),
    },
    "unit of compute": {
        "largest": Option(),
        "smallest": Option(
            text={
                "over that of the largest run": "over that of the smallest run",
                "compute / compute.max()": "compute / compute.min()",
                "target[4] / compute.max()": "target[4] / compute.min()",
            },
            flips={
                "fit_law": {
                    "by-smallest": "in your copy compute is divided by that of the smallest run"
                }
            },
        ),
    },
}
