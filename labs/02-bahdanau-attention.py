"""Lab 2: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import math

import torch

from attnlabs.draws import normal
from attnlabs.question import Case, Option, Question


def small(numbers, *shape):
    """Weights of a usual size: sums of a few products stay of order 1."""
    return normal(numbers, *shape).mul(60).round().div(100)


def filled(numbers, B, T):
    """A mask of rows of different lengths; at least one token and, but for the first row, a gap."""
    lengths = torch.randint(1, T, (B,), generator=numbers)
    lengths[0] = T - 1
    return torch.arange(T) < lengths[:, None]


def additive_scores(wrong, query, keys, to_query, to_key, v):
    if "swapped" in wrong:
        to_query, to_key = to_key, to_query
    if "transposed" in wrong:
        to_query, to_key = to_query.T, to_key.T
    query = query[:1].expand_as(query) if "one-query" in wrong else query
    asked, told = query @ to_query.T, keys @ to_key.T
    asked = asked if "query-to-place" in wrong else asked[:, None]
    if {"apart", "query-tanh"} & wrong:
        inner = asked.tanh() + (told.tanh() if "apart" in wrong else told)
    else:
        inner = asked * told if "product" in wrong else asked + told
        inner = told + 0 * asked if "no-query" in wrong else inner
        inner = inner * v if "v-inside" in wrong else inner
        squash = torch.sigmoid if "sigmoid" in wrong else torch.tanh
        inner = inner if {"no-tanh", "tanh-last"} & wrong else squash(inner)
    scores = inner.sum(-1) if wrong & {"v-left-out", "v-inside"} else inner @ v
    scores = scores / len(v) if "averaged" in wrong else scores
    if "tanh-last" in wrong:
        scores = scores.tanh()
    scores = scores / math.sqrt(len(v)) if "scaled" in wrong else scores
    return scores.softmax(-1) if "softmax" in wrong else scores


def additive_cases(numbers):
    def one(B, Tk, D, C, A):
        asking = normal(numbers, B, D), normal(numbers, B, Tk, C)
        return *asking, small(numbers, A, D), small(numbers, A, C), normal(numbers, A)

    return [
        Case("two sequences", one(2, 5, 3, 4, 6), 2),
        Case("as many sequences as places", one(3, 3, 4, 4, 4)),
    ]


def look_back(wrong, scores, states, mask):
    seen = ~mask if "polarity" in wrong else mask
    if "mask-ignored" in wrong:
        seen = torch.ones_like(mask)
    hidden = 0.0 if "zero-score" in wrong else -100.0 if "finite" in wrong else -math.inf
    late = {"after", "repaired"} & wrong
    fill = scores if late else scores.masked_fill(~seen, hidden)
    axis = 0 if "axis" in wrong else -1
    if wrong & {"no-shift", "global-max"}:
        powers = (fill - fill.max() if "global-max" in wrong else fill).exp()
        weights = powers / powers.sum(axis, keepdim=True)
    else:
        weights = fill.log_softmax(axis) if "logarithms" in wrong else fill.softmax(axis)
    if late:
        weights = weights * seen
    if "repaired" in wrong:
        weights = weights / weights.sum(axis, keepdim=True)
    mixing = seen / seen.sum(-1, keepdim=True) if "mean" in wrong else weights
    context = torch.einsum("bt,btc->bc", mixing, states)
    context = context / states.shape[1] if "averaged" in wrong else context
    return (weights, context) if "results-order" in wrong else (context, weights)


def look_back_cases(numbers):
    low, some, large = (
        filled(numbers, 2, 5),
        filled(numbers, 3, 4),
        filled(numbers, 2, 6),
    )
    scores = normal(numbers, 2, 5), normal(numbers, 3, 4), normal(numbers, 2, 6)
    far = (50 * scores[2].abs() + 210) * torch.tensor([[1.0], [-1.0]])
    far_scores = torch.where(large, far, scores[2])
    rows = normal(numbers, 2, 5) + torch.tensor([[60.0], [-130.0]])
    return [
        Case(
            "padding with low scores",
            (scores[0] - 30.0 * ~low, normal(numbers, 2, 5, 4), low),
            2,
        ),
        Case("padding", (scores[1], normal(numbers, 3, 4, 5), some)),
        Case("scores far from 0", (far_scores, normal(numbers, 2, 6, 3), large), robust=True),
        Case("rows far apart", (rows - 30.0 * ~low, normal(numbers, 2, 5, 3), low), robust=True),
    ]


def gru_step(wrong, x, s, W, U, b):
    blocks = [0, 1, 2] if "order" not in wrong else [1, 0, 2]
    if "no-bias" in wrong:
        b = torch.zeros_like(b)
    (Wr, Wz, Wn), (Ur, Uz, Un), (br, bz, bn) = (
        [part.chunk(3)[n] for n in blocks] for part in (W, U, b)
    )
    r = x @ Wr.T + s @ Ur.T + br
    z = x @ Wz.T + s @ (Ur if "shared-gate" in wrong else Uz).T + bz
    if "no-sigmoid" not in wrong:
        r, z = torch.sigmoid(r), torch.sigmoid(z)
    if "no-reset" in wrong:
        r = torch.ones_like(r)
    remembered = (r * s) @ Un.T if "reset-first" in wrong else r * (s @ Un.T)
    bn = bn * 0 if "no-content-bias" in wrong else bn
    inner = x @ Wn.T + remembered + (r * bn if "bias-inside" in wrong else bn)
    if "on-input" in wrong:
        inner = r * (x @ Wn.T) + s @ Un.T + bn
    if "on-all" in wrong:
        inner = r * (x @ Wn.T + s @ Un.T + bn)
    if "on-both" in wrong:
        inner = r * (x @ Wn.T + s @ Un.T) + bn
    squash = torch.sigmoid if "sigmoid" in wrong else torch.tanh
    n = inner if "no-tanh" in wrong else squash(inner)
    new, old = (z, 1 - z) if "renew" in wrong else (1 - z, z)
    old = old * 0 if "no-old" in wrong else old
    return old * s + (n if "whole-content" in wrong else new * n)


def cell(numbers, wide, D):
    return small(numbers, 3 * D, wide), small(numbers, 3 * D, D), normal(numbers, 3 * D)


def gru_cases(numbers):
    def one(B, wide, D):
        return normal(numbers, B, wide), normal(numbers, B, D), *cell(numbers, wide, D)

    return [Case("three states", one(3, 4, 5), 2), Case("a wide input", one(2, 7, 6))]


MASKED = {"mask-ignored", "polarity"}


def decoder_step(wrong, y, s, states, mask, to_query, to_key, v, W, U, b):
    asks = y if "asks-with-token" in wrong else s
    if "asks-ahead" in wrong:
        asks = gru_step(set(), torch.cat([y, 0 * states[:, 0]], -1), s, W, U, b)
    scores = additive_scores(set(), asks, states, to_query, to_key, v)
    scores = scores.softmax(-1) if "softmax-twice" in wrong else scores
    mixed = states @ to_key.T if "projected" in wrong else states
    context, weights = look_back(wrong & MASKED, scores, mixed, mask)
    context = states.mean(1) if "unweighted" in wrong else context
    both = [context, y] if "context-first" in wrong else [y, context]
    old = s * 0 if "cell-from-zeros" in wrong else s + context if "context-added" in wrong else s
    new = gru_step(wrong & {"renew"}, torch.cat(both, -1), old, W, U, b)
    if "asks-after" in wrong:
        scores = additive_scores(set(), new, states, to_query, to_key, v)
        context, weights = look_back(wrong & MASKED, scores, mixed, mask)
    if "old-state" in wrong:
        new = s
    if "scores-back" in wrong:
        weights = scores
    if "state-last" in wrong:
        return context, weights, new
    return (new, weights, context) if "results-order" in wrong else (new, context, weights)


def decoder(numbers, E, D, C, A):
    score = small(numbers, A, D), small(numbers, A, C), normal(numbers, A)
    return *score, *cell(numbers, E + C, D)


def decoder_cases(numbers):
    def one(B, Tk, E, D, C, A):
        widths = (B, E), (B, D), (B, Tk, C)
        return [normal(numbers, *w) for w in widths], decoder(numbers, E, D, C, A)

    (first, weights), (padded, others) = one(2, 5, 3, 4, 6, 2), one(3, 4, 5, 5, 5, 5)
    return [
        Case("no padding", (*first, torch.ones(2, 5, dtype=torch.bool), *weights), 2),
        Case("padding", (*padded, filled(numbers, 3, 4), *others)),
    ]


def teacher_forced(wrong, target, begin, s, states, mask, *weights):
    first, steps = begin.expand(len(target), -1), []
    start = s
    for i in range(target.shape[1]):
        y = first if i == 0 else target[:, i - 1]
        if "unshifted" in wrong or ("skipped" in wrong and i > 0):
            y = target[:, i]
        if "no-begin" in wrong and i == 0:
            y = target[:, -1]
        if "zeros" in wrong and i == 0:
            y = torch.zeros_like(first)
        if "two-late" in wrong and i > 0:
            y = first if i == 1 else target[:, i - 2]
        if "two-before" in wrong and i > 0:
            y = target[:, max(i - 2, 0)]
        if "ahead" in wrong and i > 0:
            y = target[:, (i + 1) % target.shape[1]]
        if "always-begin" in wrong:
            y = first
        old = start if "state-lost" in wrong else s
        s, *looked = decoder_step(
            wrong & {"renew", "context-first", *MASKED}, y, old, states, mask, *weights
        )
        steps.append((old if "old-states" in wrong else s, *looked))
    if "last-only" in wrong:
        return steps[-1]
    if "looked-once" in wrong:
        return torch.stack([step[0] for step in steps], 1), *steps[-1][1:]
    steps = steps[:-1] if "one-too-few" in wrong else steps
    axis = 0 if "steps-first" in wrong else 1
    return tuple(torch.stack(parts, axis) for parts in zip(*steps, strict=True))


def teacher_forced_cases(numbers):
    def one(B, Tq, Tk, E, D, C, A):
        shapes = (B, Tq, E), (E,), (B, D), (B, Tk, C)
        return [normal(numbers, *shape) for shape in shapes], decoder(numbers, E, D, C, A)

    (first, weights), (padded, others) = (
        one(2, 4, 3, 3, 4, 5, 2),
        one(3, 3, 4, 4, 3, 2, 5),
    )
    return [
        Case("four steps", (*first, torch.ones(2, 3, dtype=torch.bool), *weights), 2),
        Case("padding", (*padded, filled(numbers, 3, 4), *others)),
    ]


# What is added to the weights inside the logarithm, for each name
SHIFTED = {"shifted": 1e-2, "shifted-little": 1e-3}


def read_alignment(wrong, weights, target_mask):
    shift = max((SHIFTED[name] for name in SHIFTED if name in wrong), default=0.0)
    logs = (weights + shift).log() if "nats" in wrong else (weights + shift).log2()
    parts = weights * logs
    if "zero-nan" not in wrong:
        parts = torch.where(weights > 0, parts, 0.0)
    spread = parts.sum(-1) if "negative" in wrong else -parts.sum(-1)
    if "unweighted" in wrong:
        spread = -torch.where(weights > 0, logs, 0.0).sum(-1)
    spread = spread / weights.shape[-1] if "spread-mean" in wrong else spread
    spread = 2**spread if "perplexity" in wrong else spread
    counted = weights if "padding-counts" in wrong else weights * target_mask[..., None]
    if "coverage-axis" in wrong:
        coverage = counted.sum(-1)
    else:
        coverage = counted.mean(1) if "coverage-mean" in wrong else counted.sum(1)
    place = weights.argmax(1 if "place-axis" in wrong else -1)
    if "value" in wrong:
        place = weights.amax(1 if "place-axis" in wrong else -1)
    place = place + 1 if "from-one" in wrong else place
    if "blanked" in wrong:
        place, spread = place * target_mask, spread * target_mask
    return (spread, place, coverage) if "results-order" in wrong else (place, spread, coverage)


def looks(numbers, B, Tq, Tk):
    """Rows of weights, no two of a row alike."""
    order = torch.rand(B, Tq, Tk, generator=numbers).argsort(-1)
    return (0.7 * order + 0.5 * torch.rand(B, Tq, Tk, generator=numbers)).softmax(-1)


def read_alignment_cases(numbers):
    whole, part, holes = (looks(numbers, *size) for size in ((2, 4, 5), (3, 5, 3), (2, 4, 6)))
    there = filled(numbers, 2, 6)[:, None]
    holes = holes * there / (holes * there).sum(-1, keepdim=True)
    return [
        Case("no padding", (whole, torch.ones(2, 4, dtype=torch.bool)), 2),
        Case("padded outputs", (part, filled(numbers, 3, 5))),
        Case("weights of exactly 0", (holes, filled(numbers, 2, 4)), robust=True),
    ]


RENEW = "z and 1 − z exchanged: here z is the share of the old state that stays"
KEEP = "z and 1 − z exchanged: here z is the share of the new content"
CONTEXT_FIRST = "the cell reads [context, y]; the token comes first here, [y, context]"
TOKEN_FIRST = "the cell reads [y, context]; the context comes first here, [context, y]"

QUESTIONS = {
    "additive_scores": Question(
        additive_scores,
        additive_cases,
        {
            "no-tanh": "there is no tanh between the sum and v",
            "tanh-last": "the tanh is taken of the score; it belongs inside, before v",
            "apart": "query and key go through the tanh apart from each other; add them first",
            "query-tanh": "the tanh is taken of the query alone; it is taken of the sum",
            "product": "query and key are multiplied; they are added",
            "no-query": "the query is left out",
            "sigmoid": "a sigmoid stands between the sum and v; it is a tanh",
            "v-inside": "v is multiplied inside the tanh; it weighs what comes out of it",
            "v-left-out": "the numbers after the tanh are summed as they are; v weighs them",
            "softmax": "a softmax is taken; the scores themselves are returned",
            "scaled": "divided by √A, as a dot product would be; this score is not",
            "query-to-place": "the query of sequence n is added at place n of every sequence: give "
            "it an axis for the places, unsqueeze(1)",
            "one-query": "the query of the first sequence asks in all of them; each has its own",
            "averaged": "the mean over the A numbers is taken; v times them is a sum",
            "swapped": "to_query is applied to the keys and to_key to the query",
            "transposed": "the matrices are used the wrong way round: apply them as x @ weight.T",
        },
        trained=("query", "keys", "to_query", "to_key", "v"),
    ),
    "look_back": Question(
        look_back,
        look_back_cases,
        {
            "mask-ignored": "the mask is not used: padding is looked at",
            "polarity": "the mask keeps what it should hide: True means that there is a token",
            "zero-score": "padding has score 0, and exp(0) = 1 is no small power: −∞ hides",
            "after": "padding is set to 0 after the softmax, so the other weights no longer sum "
            "to 1",
            "finite": "padding has a small score that is not −∞: where all other scores are lower "
            "still, padding gets the weight",
            "repaired": "padding takes part in the softmax, or in the largest score that is taken "
            "off: where its scores are far above the others, 0 / 0 is left; hide it before",
            "axis": "softmax over the sequences (axis 0) instead of over the places (axis 1)",
            "mean": "the context is the plain mean of the states; it is mixed by the weights",
            "averaged": "the states, each times its weight, are averaged; add them up, since the "
            "weights sum to 1 already",
            "results-order": "the weights are returned first; the context comes first",
            "global-max": "the largest score of the whole batch is taken off: a row far below it "
            "becomes 0 / 0; each row has its own largest",
            "no-shift": "exp of 200 overflows and exp of −200 is 0: take the row's largest off all its "
            "scores before, or use softmax",
            "logarithms": "`log_softmax` gives the logarithms of the weights; `softmax` gives the weights",
        },
        trained=("scores", "states"),
    ),
    "gru_step": Question(
        gru_step,
        gru_cases,
        {
            "renew": RENEW,
            "order": "the blocks of reset and update gate are exchanged: reset comes first",
            "reset-first": "the reset gate multiplies the state before the matrix; here it "
            "multiplies what the matrix makes of it",
            "bias-inside": "the reset gate multiplies b_n too; b_n is added outside",
            "on-all": "the reset gate multiplies all that the tanh takes; it multiplies U_n s alone",
            "on-input": "the reset gate multiplies what the input brings; it multiplies U_n s",
            "no-reset": "the reset gate is not used",
            "no-bias": "the bias is not added",
            "no-content-bias": "b_n is not added: the new content has a bias, too",
            "whole-content": "the new content is added whole; it has a share, which makes 1 together "
            "with that of the old state",
            "no-sigmoid": "the gates have no sigmoid",
            "no-tanh": "the new content has no tanh",
            "sigmoid": "the new content goes through a sigmoid; it is a tanh",
            "shared-gate": "the update gate reads the state through U_r; it has U_z",
            "on-both": "the reset gate multiplies W_n x as well; it multiplies U_n s alone",
            "no-old": "the old state has no part in the new one: z ⊙ s is missing",
        },
        banned=("GRUCell", "gru_cell", "GRU", "gru"),
        trained=("x", "s", "W", "U", "b"),
    ),
    "decoder_step": Question(
        decoder_step,
        decoder_cases,
        {
            "context-first": CONTEXT_FIRST,
            "mask-ignored": "the mask is not used: padding is looked at",
            "asks-with-token": "the embedded token asks; the query is the state before the step",
            "asks-ahead": "a state made beforehand, without a context, asks; the state before the step "
            "asks",
            "asks-after": "the context and weights returned are what the new state asks for; the state "
            "before the step asks, once",
            "projected": "what is mixed are the projected keys; the states themselves are mixed",
            "softmax-twice": "there are two softmaxes, one of the other's weights; look_back takes scores",
            "scores-back": "the scores are returned; the weights are what look_back makes of them",
            "cell-from-zeros": "the cell starts from zeros; it starts from the state s",
            "context-added": "the context is added to the state that the cell starts from; the cell "
            "only reads it, beside the token",
            "old-state": "the state before the step is returned; return the new one",
            "results-order": "weights and context are exchanged: new state, context, weights",
            "state-last": "the new state is returned last; it comes first",
            "renew": "in the cell: " + RENEW,
            "polarity": "the mask keeps what it should hide: True means that there is a token",
            "unweighted": "the context is the plain mean of the states; each counts by its weight",
        },
        banned=("GRUCell", "gru_cell", "GRU", "gru"),
        trained=("y", "s", "states", "to_query", "to_key", "v", "W", "U", "b"),
    ),
    "teacher_forced": Question(
        teacher_forced,
        teacher_forced_cases,
        {
            "unshifted": "step i reads token i, which it is to predict; it reads the one before, "
            "and the first step reads begin",
            "skipped": "the first step reads begin, but each later step i reads token i, which it is "
            "to predict; it reads token i − 1",
            "no-begin": "the first step reads the last token, index −1; it reads begin",
            "zeros": "the first step reads zeros; it reads begin",
            "two-late": "begin is read twice, and later steps read the token two before; they read "
            "the one before",
            "ahead": "the first step reads begin, but later ones read a token that comes after the one "
            "they are to predict; they read the one before it",
            "one-too-few": "the last step is missing: there are as many steps as tokens",
            "always-begin": "every step reads begin; after the first one it is the true token "
            "before",
            "state-lost": "every step starts from the first state; it starts where the last one "
            "ended",
            "old-states": "the states before the steps are returned; return those after",
            "looked-once": "contexts and weights are those of the last step; all steps' are asked for",
            "last-only": "only the last step is returned; all of them are asked for",
            "steps-first": "the axis of the steps is in front; it is the second, behind that of "
            "the sequences",
            "mask-ignored": "the mask is not used: padding is looked at",
            "context-first": CONTEXT_FIRST,
            "renew": "in the cell: " + RENEW,
            "polarity": "the mask keeps what it should hide: True means that there is a token",
            "two-before": "from the third step on the token two before is read; it is the one before",
        },
        banned=("GRUCell", "gru_cell", "GRU", "gru"),
        trained=("target", "begin", "s", "states", "weights"),
    ),
    "read_alignment": Question(
        read_alignment,
        read_alignment_cases,
        {
            "nats": "the spread is in nats; bits need the logarithm to base 2",
            "perplexity": "the spread is 2 to the entropy; it is the entropy itself",
            "negative": "the spread has the wrong sign",
            "from-one": "the places are counted from 1; the first is 0",
            "place-axis": "the largest weight is sought among the outputs; it is the largest among "
            "the places of the source",
            "value": "the largest weight itself is returned; the place is where it stands, argmax",
            "results-order": "the spread is returned first; the place comes first",
            "blanked": "place and spread are set to 0 for outputs that are padding; padding "
            "only stays out of the coverage",
            "coverage-axis": "the coverage is summed over the places; sum over the outputs",
            "coverage-mean": "the coverage is a mean over the outputs; it is a sum",
            "padding-counts": "outputs that are padding count in the coverage",
            **dict.fromkeys(
                SHIFTED,
                "a number is added to the weights inside the logarithm, and so large that the spread "
                "changes; set 0 log 0 to 0 instead",
            ),
            "zero-nan": "a weight of 0 makes the spread NaN: 0 times −∞",
            "unweighted": "the logarithms are added up as they are; each counts by its weight",
            "spread-mean": "the spread is a mean over the places; it is a sum",
        },
    ),
}

CHOICES = {
    "update": {
        "keeps": Option(),
        "renews": Option(
            text={
                "z \\odot s + (1 - z) \\odot n": "(1 - z) \\odot s + z \\odot n",
                "z * s + (1 - z) * n": "(1 - z) * s + z * n",
            },
            flips={
                "gru_step": {"renew": KEEP},
                "decoder_step": {"renew": "in the cell: " + KEEP},
                "teacher_forced": {"renew": "in the cell: " + KEEP},
            },
        ),
    },
    "reads": {
        "token first": Option(),
        "context first": Option(
            text={
                "the previous token and the context side by side, as `[y, context]`": "the context "
                "and the previous token side by side, as `[context, y]`",
                "`W` (3D, E + C)": "`W` (3D, C + E)",
                "torch.cat([y, context], dim=-1)": "torch.cat([context, y], dim=-1)",
            },
            flips={
                "decoder_step": {"context-first": TOKEN_FIRST},
                "teacher_forced": {"context-first": TOKEN_FIRST},
            },
        ),
    },
    "unit": {
        "bits": Option(),
        "nats": Option(
            text={
                "entropy in bits, $-\\sum_j \\alpha_j \\log_2 \\alpha_j$": "entropy in nats, "
                "$-\\sum_j \\alpha_j \\ln \\alpha_j$",
                "is at one place, 2 if four places share it equally": "is at one place, "
                "$\\ln 4 \\approx 1.39$ if four places share it equally",
                ".log2()).sum": ".log()).sum",
                "spread (bits)": "spread (nats)",
            },
            flips={
                "read_alignment": {"nats": "the spread is in bits; nats need the natural logarithm"}
            },
        ),
    },
    "direction": {
        "left to right": Option(),
        "right to left": Option(
            text={
                "encoder reads from left to right only, has read `5 1 7 3`. It writes `3 7 1 5`": (
                    "encoder reads from right to left only, has read `6 2 8 4`. It writes `4 8 2 6`"
                ),
                "| state after 5 | after 1 | after 7 | after 3 |": "| state after 6 | after 2 "
                "| after 8 | after 4 |",
                "| 3 | 0.00 | 0.01 | 0.04 | 0.95 |": "| 4 | 0.01 | 0.03 | 0.88 | 0.08 |",
                "| 7 | 0.00 | 0.02 | 0.06 | 0.92 |": "| 8 | 0.05 | 0.06 | 0.86 | 0.03 |",
                "| 1 | 0.01 | 0.05 | 0.85 | 0.09 |": "| 2 | 0.91 | 0.06 | 0.02 | 0.01 |",
                "| 5 | 0.08 | 0.90 | 0.02 | 0.00 |": "| 6 | 0.96 | 0.03 | 0.01 | 0.00 |",
                "The rows of 7, 1 and 5 look one place to the right of their digit; only the row "
                "of 3 looks where its digit stands.": "The rows of 4 and 2 look one place to the "
                "left of their digit; those of 8 and 6 look where their digit stands.",
                "a state holds what was read up to there: the state after 3 has also read 7, so 7 "
                "can be taken from it.": "a state holds what was read up to there, from the right: "
                "the state after 8 has also read 4, so 4 can be taken from it.",
                "To the left it could not work: a state further left has not yet read the digit.": (
                    "To the right it could not work: a state further right has not yet read the "
                    "digit."
                ),
                "rows 7, 1 and 5, to the right;": "rows 4 and 2, to the left;",
                "not to the left, since": "not to the right, since",
            }
        ),
    },
}
