"""Lab 7: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import math

import torch
from torch.nn import functional as F

from attnlabs.draws import distinct, normal
from attnlabs.question import Case, Option, Question


def rms_norm(wrong, x, gain, eps=1e-5):
    axis = -2 if "by-position" in wrong else -1
    if "centred" in wrong:
        x = x - x.mean(axis, keepdim=True)
    if "gain-first" in wrong:
        x, gain = x * gain, 1
    eps = 0 if "no-eps" in wrong else 1e-5 if "eps-fixed" in wrong else eps
    average = torch.sum if "sum" in wrong else torch.mean
    square = average(x.square(), axis, keepdim=True)
    if "all-vectors" in wrong:
        square = average(x.square(), tuple(range(x.dim())), keepdim=True)
    if wrong & {"variance", "spread"}:
        square = x.var(axis, keepdim=True, correction=int("spread" in wrong))
    if "one-fewer" in wrong:
        square = x.square().sum(axis, keepdim=True) / (x.shape[axis] - 1)
    if "mean-first" in wrong:
        square = x.mean(axis, keepdim=True).square()
    if "no-square" in wrong:
        square = average(x, axis, keepdim=True)
    if "absolute" in wrong:
        square = average(x.abs(), axis, keepdim=True).square()
    size = square.sqrt() + eps if "eps-outside" in wrong else (square + eps).sqrt()
    if "no-root" in wrong:
        size = square + eps
    if "mean" in wrong:
        size = x.mean(axis, keepdim=True) + eps
    if "above" in wrong:
        x = x - x.mean(axis, keepdim=True)
    normed = x * size if "multiplied" in wrong else x / size
    if "gain-below" in wrong:
        return normed / gain
    if "gain-added" in wrong:
        return normed + gain
    gain = 1 + gain if "gain-plus-one" in wrong else gain
    return normed if "no-gain" in wrong else normed * gain


def rms_norm_cases(numbers):
    tiny = 0.1 * normal(numbers, 3, 4)
    return [
        Case("one sequence", (normal(numbers, 5, 6), normal(numbers, 6)), 2),
        Case("batches in front", (3 + normal(numbers, 2, 3, 4), normal(numbers, 4))),
        Case("small vectors and a large ε", (tiny, normal(numbers, 4), 0.01)),
    ]


ACTIVATIONS = {
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": F.gelu,
    "tanh": torch.tanh,
    "sign": lambda z: z * torch.sigmoid(-z),
    "times-tanh": lambda z: z * torch.tanh(z),
    "times-softmax": lambda z: z * torch.softmax(z, -1),
    "softmax": lambda z: torch.softmax(z, -1),
    "no-activation": lambda z: z,
}


def swiglu(wrong, x, gate, up, down):
    if "reshaped" in wrong:  # the numbers in memory order, in the shape of the transpose
        gate, up, down = (w.reshape(w.mT.shape).mT for w in (gate, up, down))
    activation = next((ACTIVATIONS[name] for name in ACTIVATIONS if name in wrong), F.silu)
    if "before" in wrong:
        opened, passed = activation(x) @ gate.T, x @ up.T
        activation = ACTIVATIONS["no-activation"]
    else:
        opened, passed = x @ gate.T, x @ up.T
    if "exchanged" in wrong:
        opened, passed = passed, opened
    if "gate-twice" in wrong:
        passed = x @ gate.T
    if "up-twice" in wrong:
        opened = x @ up.T
    if "both" in wrong:
        passed = activation(passed)
    if "late" in wrong:
        hidden = activation(opened + passed if "added" in wrong else opened * passed)
    else:
        hidden = activation(opened)
        hidden = hidden + passed if "added" in wrong else hidden * passed
    if "no-up" in wrong:
        hidden = activation(opened)
    if "no-gate" in wrong:
        hidden = passed
    if "no-down" in wrong:
        return hidden
    return x + hidden @ down.T if "residual" in wrong else hidden @ down.T


def swiglu_cases(numbers):
    def one(C, hidden, *batch):
        weights = normal(numbers, hidden, C), normal(numbers, hidden, C), normal(numbers, C, hidden)
        return normal(numbers, *batch, C), *weights

    return [Case("one sequence", one(4, 6, 5), 2), Case("a batch", one(3, 8, 2, 4))]


def rotate(wrong, x, start=0, base=10_000.0):
    T, D = x.shape[-2:]
    base = 10_000.0 if "base-fixed" in wrong else base
    step = 1 if "half-frequencies" in wrong else 4 if "double-frequencies" in wrong else 2
    step = 0 if "one-speed" in wrong else -step if "rising" in wrong else step
    frequencies = base ** (-step * (torch.arange(D // 2) + ("pairs-from-one" in wrong)) / D)
    start = start * T if "start-times-length" in wrong else start
    places = torch.arange(T) + (0 if "no-start" in wrong else start) + ("from-one" in wrong)
    places = torch.ones(T) if "no-position" in wrong else places
    places = torch.full((T,), start) if "start-only" in wrong else places
    if "first-axis" in wrong:
        places = torch.arange(x.shape[0]) + start
        places = places.reshape(-1, *[1] * (x.dim() - 2))
    angles = places[..., None] * frequencies
    if "backwards" in wrong:
        angles = -angles
    if "cos-sin" in wrong:
        angles = math.pi / 2 - angles
    neighbours = "neighbours" in wrong
    first = second = angles  # of the coordinates of each pair
    if "angle-order" in wrong and neighbours:
        repeated = angles.repeat(1, 2)
        first, second = repeated[:, 0::2], repeated[:, 1::2]
    elif "angle-order" in wrong:
        first, second = angles.repeat_interleave(2, -1).chunk(2, -1)
    if "added" in wrong:
        return x + torch.cat((angles.sin(), angles.cos()), -1)
    a, b = (x[..., 0::2], x[..., 1::2]) if neighbours else x.chunk(2, -1)
    turned = a * first.cos() + b * first.sin() * (1 if "plus" in wrong else -1)
    a = turned if "overwritten" in wrong else a
    parts = turned, b * second.cos() + a * second.sin() * (-1 if "minus" in wrong else 1)
    if "one-turned" in wrong:
        parts = turned, b
    parts = parts[::-1] if "swapped" in wrong else parts
    if neighbours != ("put-back" in wrong):
        return torch.stack(parts, -1).flatten(-2)
    return torch.cat(parts, -1)


def rotate_cases(numbers):
    return [
        Case("one sequence", (normal(numbers, 5, 6),), 2),
        Case("heads in front", (normal(numbers, 2, 3, 4, 8),), 2),
        Case("one that starts at position 7", (normal(numbers, 3, 4), 7), 2),
        Case("another base", (normal(numbers, 2, 4, 8), 2, 100.0)),
    ]


def cached(wrong, q, k, v, old_k, old_v):
    if wrong & {"rotated", "rotated-all"}:
        start = old_k.shape[-2]
        q, k = rotate(set(), q, start), rotate(set(), k, start)
        v = rotate(set(), v, start) if "rotated-all" in wrong else v
    if "forgets" in wrong:
        old_k, old_v = old_k[..., :0, :], old_v[..., :0, :]
    old_v = old_k if "old-k-twice" in wrong else old_v
    front = "in-front" in wrong
    keys = torch.cat((k, old_k) if front else (old_k, k), -2)
    front = front != ("values-in-front" in wrong)
    values = torch.cat((v, old_v) if front else (old_v, v), -2)
    B, H, Tq, D = q.shape
    Tk = keys.shape[-2]
    scores = q @ (keys.reshape(B, H, D, Tk) if "reshaped" in wrong else keys.mT)
    scales = {"unscaled": 1, "full-width": D, "multiplied": D**-0.5, "wide-scale": (H * D) ** 0.5}
    scales["by-length"] = math.sqrt(Tk)
    scores = scores / next((scales[one] for one in scales if one in wrong), math.sqrt(D))
    offset = 0 if "no-offset" in wrong else Tk - Tq
    offset += ("one-more" in wrong) - ("self-hidden" in wrong)
    seen = torch.ones(Tq, Tk, dtype=torch.bool)
    if "no-mask" not in wrong:
        seen = seen.triu(offset) if "upper" in wrong else seen.tril(offset)
    seen = ~seen if "inverted" in wrong else seen
    if "new-seen-only" in wrong:
        seen = seen & (torch.arange(Tk) >= Tk - Tq)
    if "alone" in wrong:
        seen = (torch.arange(Tk) < Tk - Tq) | (
            torch.arange(Tk) == torch.arange(Tk - Tq, Tk)[:, None]
        )
    if "later" in wrong:
        seen = (torch.arange(Tk) < Tk - Tq) | torch.ones(Tq, Tk).triu(Tk - Tq).bool()
    if "old-seen-only" in wrong:
        scores, seen, mixed = scores[..., : Tk - Tq], seen[:, : Tk - Tq], values[..., : Tk - Tq, :]
    else:
        mixed = keys if "keys-mixed" in wrong else values
    late = "late-mask" in wrong
    if not late:
        scores = scores.masked_fill(~seen, 0 if "zeroed" in wrong else -math.inf)
    weights = scores.softmax(1 if "over-heads" in wrong else -2 if "over-queries" in wrong else -1)
    weights = scores.masked_fill(~seen, 0) if "no-softmax" in wrong else weights
    output = (weights * seen if late else weights) @ mixed
    if "exchanged" in wrong:
        keys, values = values, keys
    if "old-only" in wrong:
        return output, old_k, old_v
    if "values-lost" in wrong:
        return output, keys, old_v
    return (output, k, v) if "new-only" in wrong else (output, keys, values)


def cached_cases(numbers):
    def one(B, H, old, new, D):
        shapes = [(B, H, new, D)] * 3 + [(B, H, old, D)] * 2
        return tuple(normal(numbers, *shape) for shape in shapes)

    return [
        Case("one new token", one(1, 2, 4, 1, 6), 2),
        Case("three new tokens", one(2, 2, 3, 3, 4), 2),
        Case("nothing in the cache yet", one(1, 2, 0, 4, 6), 2),
    ]


def route(wrong, logits, active):
    if "columns" in wrong:
        return route(wrong - {"columns"}, logits.T, active).T
    ranked = -logits if "lowest" in wrong else logits
    active = 1 if "only-one" in wrong else 2 if "always-two" in wrong else active
    active = active + ("one-more" in wrong) - ("one-fewer" in wrong)
    chosen = ranked.topk(active, -1).indices
    here = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, chosen, True)
    here = logits >= logits[0, chosen[0, -1]] if "one-threshold" in wrong else here
    if "sigmoid" in wrong:
        return logits.sigmoid() * here
    if "ones" in wrong:
        return here.to(logits.dtype)
    if "equal" in wrong:
        return here / here.sum(-1, keepdim=True)
    if "zeros" in wrong:
        return torch.zeros_like(logits)
    if "exponentials" in wrong:
        return logits.exp() * here
    if "raw" in wrong:
        return logits * here
    if "linear" in wrong:
        return logits * here / (logits * here).sum(-1, keepdim=True)
    weights = logits.softmax(-1)
    if "all" in wrong:
        return weights
    if "not-hidden" in wrong:
        return logits.masked_fill(~here, 0).softmax(-1)
    if "over-tokens" in wrong:
        return logits.masked_fill(~here, -math.inf).softmax(0)
    if "over-ranks" in wrong:
        return (0.0 * logits).scatter(-1, chosen, logits.gather(-1, chosen).softmax(0))
    if "twice" in wrong:
        return weights.masked_fill(~here, -math.inf).softmax(-1)
    weights = weights * here
    if "by-batch" in wrong:
        return weights / weights.sum(-2, keepdim=True).clamp(min=1e-9)
    if "not-shared" not in wrong:
        weights = weights / weights.sum(-1, keepdim=True)
    if "only-chosen" in wrong:
        return weights.gather(-1, chosen)
    return weights.sort(-1, descending=True).values if "ranked" in wrong else weights


def route_cases(numbers):
    return [
        Case("two of five", (distinct(numbers, 6, 5), 2), 2),
        Case("three of four", (distinct(numbers, 5, 4), 3)),
    ]


def mixture(wrong, x, weights, experts):
    E = len(experts)
    experts = experts if "transposed" in wrong else experts.mT
    kept = {"skips-first": slice(1, None), "skips-last": slice(-1)}
    kept |= {"last-only": slice(-1, None), "first-only": slice(1)}
    kept = next((kept[one] for one in kept if one in wrong), slice(None))
    if "best-only" in wrong:
        weights = weights * (weights == weights.amax(-1, keepdim=True))
    if "equal" in wrong:
        weights = (weights > 0) / (weights > 0).sum(-1, keepdim=True)
    if "tokens-averaged" in wrong:
        weights = weights.mean(0, keepdim=True).expand_as(weights)
    weights = weights.square() if "twice" in wrong else weights
    if "unweighted" in wrong:
        weights = (weights > 0).to(x.dtype)
    if "all-added" in wrong:
        weights = torch.ones_like(weights)
    if "softmax-again" in wrong:
        weights = weights.softmax(-1)
    if "chained" in wrong:
        for weight, expert in zip(weights.T, experts, strict=True):
            x = x + weight[:, None] * (x @ expert)
        return x
    answers = x @ experts  # (E T C)
    answers = answers.reshape(len(x), E, -1) if "reshaped" in wrong else answers.transpose(0, 1)
    if "averaged" in wrong:
        return answers.mean(1)
    mixed = (weights[..., None] * answers)[:, kept].sum(1)
    mixed = torch.zeros_like(x) if "zeros" in wrong else mixed
    mixed = mixed / E if "divided" in wrong else mixed
    mixed = mixed.sum(0) if "tokens-added" in wrong else mixed
    return mixed + x if "residual" in wrong else mixed


def mixture_cases(numbers):
    def one(T, E, C, active):
        weights = route(set(), normal(numbers, T, E), active).mul(1e4).round().div(1e4)
        return normal(numbers, T, C), weights, normal(numbers, E, C, C)

    return [
        Case("four experts, two active", one(5, 4, 3, 2), 2),
        Case("three of six", one(4, 6, 5, 3)),
    ]


QUESTIONS = {
    "rms_norm": Question(
        rms_norm,
        rms_norm_cases,
        {
            "centred": "the mean is subtracted first; that is LayerNorm",
            "eps-outside": "ε is added to the root; it belongs inside",
            "no-root": "divided by the mean square; the root is missing",
            "sum": "the squares are summed; their mean is needed",
            "no-gain": "the gain is not used",
            "by-position": "the mean runs over the positions; it belongs to each vector, axis −1",
            "all-vectors": "one mean is taken for all vectors; each has its own, over axis −1",
            "spread": "divided by the standard deviation (`std` and `var` subtract the mean and "
            "divide by C − 1); the mean of the squares is needed",
            "variance": "divided by the root of the variance, which subtracts the mean; the mean "
            "of the squares is needed",
            "above": "the mean is subtracted from what is divided; here nothing is subtracted",
            "mean-first": "the mean is squared; the mean of the squares is needed",
            "no-square": "x itself stands under the root; the mean of its squares is needed",
            "mean": "divided by the mean; the root of the mean of the squares is needed",
            "absolute": "the mean of the absolute values is used; the root of the mean of the "
            "squares is needed",
            "multiplied": "multiplied by the root; divide by it",
            "gain-below": "divided by the gain; multiply by it (is a bracket missing?)",
            "gain-added": "the gain is added; multiply by it",
            "gain-plus-one": "multiplied by 1 + gain; here it is the gain itself",
            "gain-first": "the gain comes before the norm; it comes after",
            "no-eps": "the argument `eps` is not used",
            "one-fewer": "the squares are divided by C − 1; their mean divides by C",
            "eps-fixed": "the argument `eps` is not used: it is 10⁻⁵ in all cases",
        },
        banned=("rms_norm", "RMSNorm"),
        trained=("x", "gain"),
    ),
    "swiglu": Question(
        swiglu,
        swiglu_cases,
        {
            "sigmoid": "the gate is a sigmoid; Swish is z times its sigmoid",
            "relu": "the gate is a ReLU; it should be Swish",
            "no-activation": "the gate has no activation",
            "exchanged": "the activation is on `up`; it belongs on `gate`",
            "added": "gate and up are added; they are multiplied",
            "no-down": "the last matrix is missing",
            "gelu": "the gate is a GELU; it should be Swish",
            "tanh": "the gate is a tanh; it should be Swish",
            "times-tanh": "z is multiplied by its tanh; Swish is z times its sigmoid",
            "times-softmax": "z is multiplied by its softmax, which mixes the hidden units; Swish is "
            "z times its sigmoid, each unit by itself",
            "softmax": "the gate is a softmax over the hidden units; Swish is z times its sigmoid, "
            "each unit by itself",
            "sign": "the exponential in the sigmoid has the wrong sign: 1 / (1 + e⁻ᶻ)",
            "no-up": "`up` is not used: what is opened is multiplied by nothing",
            "no-gate": "`gate` is not used",
            "gate-twice": "both factors come from `gate`; one of them from `up`",
            "up-twice": "both factors come from `up`; the one with the activation from `gate`",
            "both": "the activation is on both factors; it belongs on `gate` alone",
            "late": "the activation is on the product; it belongs on `gate` alone",
            "before": "the activation is on x, before `gate`; it belongs on what `gate` makes of x",
            "residual": "x is added; that is the business of the block",
            "reshaped": "the matrices are brought into shape by reshape or view, which mixes their "
            "numbers; transpose them",
        },
        trained=("x", "gate", "up", "down"),
    ),
    "rotate": Question(
        rotate,
        rotate_cases,
        {
            "neighbours": "neighbouring coordinates are paired; here i is paired with i + D/2",
            "backwards": "the rotation goes the other way round: check the signs of the sines",
            "no-start": "`start` is not used: the first position is always 0",
            "start-times-length": "`start` is taken for the number of a piece, and multiplied by its "
            "length; it is the position of the first row",
            "half-frequencies": "the frequencies fall too slowly: base to the power −2i/D",
            "added": "sine and cosine are added; they rotate",
            "base-fixed": "`base` is not used: it is 10000 in all cases",
            "first-axis": "the first axis is taken for the positions, which it is without heads and "
            "batches only; positions are axis −2",
            "from-one": "positions are counted from 1: the first row is to stand at `start` itself",
            "double-frequencies": "the frequencies fall too fast: in base to the power −2i/D, i "
            "counts pairs (0, 1, 2, …) and D is the whole width",
            "pairs-from-one": "the pairs are counted from 1; the first has i = 0",
            "rising": "the frequencies rise; the exponent is negative, −2i/D",
            "one-speed": "all pairs are turned by the same angle; each has its own frequency",
            "no-position": "all rows are turned by the same angles; they grow with the position",
            "start-only": "all rows are turned as if at `start`; row t stands at `start` + t",
            "cos-sin": "sine and cosine are exchanged",
            "plus": "both sines are added; in the first coordinate of a pair it is subtracted",
            "minus": "both sines are subtracted; in the second coordinate of a pair it is added",
            "overwritten": "the second coordinate is made from the first one as it is after "
            "turning; it needs the old one",
            "one-turned": "only the first coordinate of each pair is turned",
            "swapped": "the two coordinates of each pair come out exchanged",
            "put-back": "the turned pairs are not put back where they were taken from: to take "
            "them out and to put them back, halves and neighbours are mixed",
            "angle-order": "the two coordinates of a pair are turned by different angles: look at "
            "how the angles are repeated to width D",
        },
        trained=("x",),
    ),
    "cached": Question(
        cached,
        cached_cases,
        {
            "rotated": "queries and keys are rotated in here; they come rotated already",
            "rotated-all": "q, k and v are rotated in here; queries and keys come rotated already, "
            "and values never are",
            "forgets": "the cache is not used: new tokens see only each other",
            "in-front": "the new keys and values stand before the old ones; they come after them",
            "no-mask": "new tokens see the new ones after them: a causal mask is missing",
            "no-offset": "the new queries are taken for the first positions; they are the last",
            "unscaled": "scores not divided by √D",
            "new-only": "only the new keys and values are returned; return all of them",
            "old-only": "the old keys and values are returned, so that the cache never grows; return "
            "all of them",
            "new-seen-only": "new tokens see only each other; they see the old keys, too",
            "old-seen-only": "new tokens see only the cache; they see themselves and the new ones "
            "before them, too",
            "self-hidden": "a new token does not see itself",
            "one-more": "a new token sees the one after it, too: the mask is off by one",
            "upper": "the mask has the wrong triangle: new tokens see themselves and those after "
            "them, nothing before",
            "later": "a new token sees the new ones after it, not those before it",
            "alone": "a new token sees the old ones and itself, not the new ones before it",
            "no-softmax": "the scores mix the values as they are; softmax is missing",
            "inverted": "the mask hides what may be seen",
            "zeroed": "hidden scores are set to 0, and e⁰ is 1; set them to −∞",
            "late-mask": "weights are hidden after softmax, so rows do not sum to 1: hide scores",
            "full-width": "scores divided by D; they are divided by √D",
            "multiplied": "scores multiplied by √D; they are divided by it",
            "by-length": "scores divided by the root of the number of keys, not by √D",
            "wide-scale": "scores divided by √(H·D), the width of all heads, not by √D, that of "
            "one",
            "reshaped": "the keys are brought into shape by reshape or view, which mixes their "
            "numbers; transpose them",
            "over-queries": "softmax over the queries (axis −2) instead of over the keys (axis −1)",
            "over-heads": "softmax over the heads (axis 1) instead of over the keys (axis −1)",
            "values-in-front": "keys and values are joined in different orders",
            "old-k-twice": "`old_k` is joined to `v`; it should be `old_v`",
            "keys-mixed": "the weights mix the keys; they should mix the values",
            "exchanged": "keys and values are returned in the wrong order",
            "values-lost": "the old values are returned; the new ones belong behind them",
        },
        banned=("scaled_dot_product_attention",),
    ),
    "route": Question(
        route,
        route_cases,
        {
            "all": "all experts have a weight; only the best few may",
            "only-one": "one expert is chosen; `active` of them should be",
            "lowest": "the worst experts are chosen",
            "equal": "the chosen experts share equally; softmax decides",
            "not-hidden": "the logits of the others are set to 0, and e⁰ is 1: they get weights, too",
            "not-shared": "the weights of the chosen experts do not sum to 1",
            "by-batch": "the weights sum to 1 over the tokens; they should for each token",
            "over-tokens": "softmax runs over the tokens; it runs over the experts, axis −1",
            "over-ranks": "softmax runs over the tokens; it runs over the experts, axis −1",
            "columns": "each expert picks its best tokens; each token picks its best experts, "
            "axis −1",
            "always-two": "`active` is not used: two experts are chosen always",
            "one-more": "an expert too many is chosen",
            "one-fewer": "an expert too few is chosen (is there a > for a ≥?)",
            "one-threshold": "what the first token's experts need counts for all tokens; each has a "
            "threshold of its own",
            "sigmoid": "each weight is a sigmoid by itself; softmax shares the weight 1",
            "zeros": "all weights are 0: `scatter` returns a new tensor, `scatter_` fills the old one",
            "exponentials": "the exponentials are not divided by a sum",
            "ones": "the chosen experts have weight 1 each; softmax decides",
            "raw": "the chosen experts' logits stand for their weights; softmax makes weights of logits",
            "linear": "the logits are divided by their sum; softmax divides exponentials",
            "twice": "softmax is taken twice: the second time of weights, not of logits",
            "only-chosen": "the weights of the chosen experts alone are returned; each row has a place for "
            "every expert, 0 for the others",
            "ranked": "the weights stand in the first columns, best first; each belongs in the "
            "column of its expert",
        },
    ),
    "mixture": Question(
        mixture,
        mixture_cases,
        {
            "transposed": "the experts' matrices are used the wrong way round",
            "unweighted": "the answers are added without their weights",
            "best-only": "only the best expert answers",
            "averaged": "all experts are averaged",
            "residual": "x is added; that is the business of the block",
            "zeros": "the result is 0 everywhere: start at 0 and add each expert's answer",
            "all-added": "the answers of all experts are added, without weights",
            "equal": "the chosen experts are averaged; each has its own weight",
            "divided": "the sum is divided by the number of experts (a mean for a sum?)",
            "twice": "each weight is multiplied twice",
            "tokens-averaged": "an expert has one weight, its mean over the tokens; it has one for "
            "each token",
            "tokens-added": "the answers to all tokens are added; each token keeps its own",
            "softmax-again": "softmax is taken of the weights; they are ready as they come",
            "last-only": "only the last expert's answer is left: add, do not overwrite",
            "first-only": "only the first expert's answer is there (is `return` inside the loop?)",
            "skips-last": "the last expert is left out",
            "skips-first": "the first expert is left out",
            "chained": "each expert reads what the ones before it have made of x; all read x",
            "reshaped": "the axes of experts and tokens are exchanged by reshape, which mixes "
            "the answers of different tokens; transpose them",
        },
    ),
}

CHOICES = {
    "pairs": {
        "halves": Option(),
        "neighbours": Option(
            text={
                "Coordinate $i$ and coordinate $i + D/2$ make a pair": "Coordinate $2i$ and coordinate $2i + 1$ make a pair",
                "first, second = x[..., : D // 2], x[..., D // 2 :]": "first, second = x[..., ::2], x[..., 1::2]",
                "return torch.cat([turned, second * angle.cos() + first * angle.sin()], dim=-1)": "other = second * angle.cos() + first * angle.sin()\n"
                "    return torch.stack([turned, other], dim=-1).flatten(-2)",
                "and with yours in their places.": "and with yours in their places. The book pairs coordinates of two halves, so they are put side by side for your "
                "`rotate` and back again.",
                "        one_part.forward = rotate": "        one_part.forward = lambda given, *at: (\n"
                "            rotate(given.unflatten(-1, (2, -1)).mT.flatten(-2), *at)\n"
                "            .unflatten(-1, (-1, 2))\n"
                "            .mT.flatten(-2)\n"
                "        )",
            },
            flips={
                "rotate": {
                    "neighbours": "coordinate i is paired with i + D/2; here neighbours are paired"
                }
            },
        ),
    },
    "shares": {
        "sum to 1": Option(),
        "as they are": Option(
            text={
                "The `active` best experts of a token share the weight 1, by the softmax of *their* logits; all others get 0.": "The `active` best experts of a token keep the weight that the softmax over *all* its logits gives them; all others get 0.",
                "each row sums to 1 and has `active` entries above 0": "each row has `active` entries above 0, and their sum is below 1",
                "best.softmax(dim=-1))": "logits.softmax(dim=-1).gather(-1, chosen))",
                "best, chosen = logits.topk(active, dim=-1)": "chosen = logits.topk(active, dim=-1).indices",
            },
            flips={
                "route": {
                    "not-shared": "the weights of the chosen experts are made to sum to 1; here "
                    "they keep what the softmax over all gives them"
                }
            },
        ),
    },
    "experts": {
        "2 of 8": Option(),
        "4 of 16": Option(
            {
                "by eight experts of the same size, of which two are active": "by sixteen experts of the same size, of which four are active",
                "likes the same two experts": "likes the same four experts",
                "There are eight times": "There are sixteen times",
                "meets two networks instead of one, so it takes twice the work": "meets four networks instead of one, so it takes four times the work",
                "what all eight would": "what all sixteen would",
                "has to hold all eight": "has to hold all sixteen",
                "the same two, the other six": "the same four, the other twelve",
                "eight networks are paid for and two are used": "sixteen networks are paid for and four are used",
                "eight times the weights and the memory, two networks' work": "sixteen times the weights and the memory, four networks' work",
            }
        ),
    },
}
