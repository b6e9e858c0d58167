"""Lab 7: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import math

import torch

from attnbook.labs.question import Case, Option, Question


def normal(numbers, *shape):
    return torch.randn(*shape, generator=numbers).mul(100).round().div(100)


def rms_norm(wrong, x, gain, eps=1e-5):
    axis = -2 if "axis" in wrong else -1
    if "centred" in wrong:
        x = x - x.mean(axis, keepdim=True)
    square = x.square().sum(axis, keepdim=True)
    if "sum" not in wrong:
        square = square / x.shape[axis]
    size = square.sqrt() + eps if "eps-outside" in wrong else (square + eps).sqrt()
    if "no-root" in wrong:
        size = square + eps
    return x / size * (1 if "no-gain" in wrong else gain)


def rms_norm_cases(numbers):
    tiny = 0.01 * normal(numbers, 3, 4)
    return [
        Case("one sequence", (normal(numbers, 5, 6), normal(numbers, 6)), 2),
        Case("batches in front", (3 + normal(numbers, 2, 3, 4), normal(numbers, 4))),
        Case("small vectors and a large ε", (tiny, normal(numbers, 4), 0.01)),
    ]


def swiglu(wrong, x, gate, up, down):
    opened, passed = x @ gate.T, x @ up.T
    if "exchanged" in wrong:
        opened, passed = passed, opened
    if "sigmoid" in wrong:
        opened = opened.sigmoid()
    elif "relu" in wrong:
        opened = opened.relu()
    elif "no-activation" not in wrong:
        opened = opened * opened.sigmoid()
    hidden = opened + passed if "added" in wrong else opened * passed
    return hidden if "no-down" in wrong else hidden @ down.T


def swiglu_cases(numbers):
    def one(C, hidden, *batch):
        weights = normal(numbers, hidden, C), normal(numbers, hidden, C), normal(numbers, C, hidden)
        return normal(numbers, *batch, C), *weights

    return [Case("one sequence", one(4, 6, 5), 2), Case("a batch", one(3, 8, 2, 4))]


def rotate(wrong, x, start=0, base=10_000.0):
    T, D = x.shape[-2:]
    step = 1 if "half-frequencies" in wrong else 2
    frequencies = base ** (-step * torch.arange(D // 2) / D)
    places = torch.arange(T) + (0 if "no-start" in wrong else start)
    angles = places[:, None] * frequencies
    if "backwards" in wrong:
        angles = -angles
    cos, sin = angles.cos(), angles.sin()
    if "added" in wrong:
        return x + torch.cat((sin, cos), -1)
    if "neighbours" in wrong:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def rotate_cases(numbers):
    return [
        Case("one sequence", (normal(numbers, 5, 6),), 2),
        Case("heads in front", (normal(numbers, 2, 3, 4, 8),)),
        Case("that starts at place 7", (normal(numbers, 3, 4), 7), 2),
        Case("another base", (normal(numbers, 4, 8), 2, 100.0)),
    ]


def cached(wrong, q, k, v, old_k, old_v):
    if "forgets" in wrong:
        old_k, old_v = old_k[..., :0, :], old_v[..., :0, :]
    parts = (k, old_k) if "in-front" in wrong else (old_k, k)
    keys = torch.cat(parts, -2)
    values = torch.cat((v, old_v) if "in-front" in wrong else (old_v, v), -2)
    scores = q @ keys.mT
    if "unscaled" not in wrong:
        scores = scores / math.sqrt(q.shape[-1])
    Tq, Tk = scores.shape[-2:]
    offset = 0 if "no-offset" in wrong else Tk - Tq
    if "no-mask" not in wrong:
        scores = scores.masked_fill(~torch.ones(Tq, Tk, dtype=torch.bool).tril(offset), -math.inf)
    output = scores.softmax(-1) @ values
    return (output, k, v) if "new-only" in wrong else (output, keys, values)


def cached_cases(numbers):
    def one(B, H, old, new, D):
        shapes = [(B, H, new, D)] * 3 + [(B, H, old, D)] * 2
        return tuple(normal(numbers, *shape) for shape in shapes)

    return [
        Case("one new token", one(1, 2, 4, 1, 6), 2),
        Case("three new tokens", one(2, 2, 3, 3, 4)),
        Case("nothing in the cache yet", one(1, 2, 0, 4, 5)),
    ]


def route(wrong, logits, active):
    ranked = -logits if "lowest" in wrong else logits
    chosen = ranked.topk(1 if "only-one" in wrong else active, -1).indices
    here = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, chosen, True)
    if "equal" in wrong:
        return here / here.sum(-1, keepdim=True)
    weights = logits.softmax(-1)
    if "all" in wrong:
        return weights
    if "not-hidden" in wrong:
        return logits.masked_fill(~here, 0).softmax(-1)
    weights = weights * here
    if "not-shared" in wrong:
        return weights
    if "by-batch" in wrong:
        return weights / weights.sum(-2, keepdim=True).clamp(min=1e-9)
    return weights / weights.sum(-1, keepdim=True)


def route_cases(numbers):
    return [
        Case("two of five", (normal(numbers, 6, 5), 2), 2),
        Case("three of four", (normal(numbers, 5, 4), 3)),
    ]


def mixture(wrong, x, weights, experts):
    answers = torch.einsum("tc,edc->ted", x, experts)
    if "transposed" in wrong:
        answers = torch.einsum("tc,ecd->ted", x, experts)
    if "unweighted" in wrong:
        weights = (weights > 0).to(x.dtype)
    if "best-only" in wrong:
        weights = weights * (weights == weights.amax(-1, keepdim=True))
    if "averaged" in wrong:
        return answers.mean(1)
    mixed = (weights[..., None] * answers).sum(1)
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
            "axis": "the mean runs over the positions; it belongs to each vector, axis −1",
        },
        banned=("rms_norm", "RMSNorm"),
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
        },
    ),
    "rotate": Question(
        rotate,
        rotate_cases,
        {
            "neighbours": "neighbouring coordinates are paired; here i is paired with i + D/2",
            "backwards": "the rotation goes the other way round: check the signs of the sines",
            "no-start": "`start` is not used: the first position is always 0",
            "half-frequencies": "the frequencies fall too slowly: base to the power −2i/D",
            "added": "sine and cosine are added; they rotate",
        },
    ),
    "cached": Question(
        cached,
        cached_cases,
        {
            "forgets": "the cache is not used: new tokens see only each other",
            "in-front": "the new keys and values stand before the old ones; they come after them",
            "no-mask": "new tokens see the new ones after them: a causal mask is missing",
            "no-offset": "the new queries are taken for the first positions; they are the last",
            "unscaled": "scores not divided by √D",
            "new-only": "only the new keys and values are returned; return all of them",
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
            "equal": "the chosen experts share equally; the softmax of their logits decides",
            "not-hidden": "the logits of the others are set to 0, and e⁰ is 1; set them to −∞",
            "not-shared": "the weights of the chosen experts do not sum to 1",
            "by-batch": "the weights sum to 1 over the tokens; they should for each token",
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
