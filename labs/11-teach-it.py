"""Lab 11: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import torch
from torch.nn import functional as F

from attnlabs.draws import normal, whole
from attnlabs.question import Case, Option, Question

END = 1  # the token that ends what somebody says


def adapted(wrong, x, weight, A, B, alpha):
    rank = A.shape[0]
    scale = 1.0 if "unscaled" in wrong else alpha / rank
    scale = alpha if "no-rank" in wrong else scale
    scale = rank / alpha if "upside-down" in wrong else scale
    scale = alpha / rank**0.5 if "root" in wrong else scale
    scale = scale**2 if "twice-scaled" in wrong else scale
    change = (B @ A) * scale
    y = x @ change.T if "alone" in wrong else x @ weight.T + x @ change.T
    merged = weight + change
    merged = weight + B @ A if "merged-bare" in wrong else merged
    merged = change if "merged-change" in wrong else merged
    merged = weight if "not-merged" in wrong else merged
    learned = A.numel() + B.numel()
    learned = learned + weight.numel() if "not-frozen" in wrong else learned
    learned = 2 * rank if "ranks-counted" in wrong else learned
    return y, merged, torch.tensor(float(learned))


def adapted_cases(numbers):
    def one(x, R, C, rank, alpha):
        sizes = (R, C), (rank, C), (R, rank)
        return (normal(numbers, *x, C), *(normal(numbers, *size) for size in sizes), alpha)

    return [
        Case("rank 2", one((5,), 6, 4, 2, 16.0), 2),
        Case("a batch", one((2, 3), 3, 5, 1, 4.0)),
    ]


def tuned(wrong, x, goal, weight, A, B, rate, steps):
    W, A, B = weight.clone(), A.clone(), B.clone()
    piled_A, piled_B, losses = torch.zeros_like(A), torch.zeros_like(B), []

    def away():
        return x @ W.T + x @ A.T @ B.T - goal

    for _ in range(steps):
        gap = away()
        slope = 2 * gap if "summed" in wrong else 2 * gap / gap.numel()
        slope = slope / 2 if "half" in wrong else slope
        slope = slope * gap.shape[1] if "per-row" in wrong else slope
        slope = -slope if "uphill" in wrong else slope
        losses.append(gap.square().sum() if "summed" in wrong else gap.square().mean())
        new_A, new_B = B.T @ slope.T @ x, slope.T @ (x @ A.T)
        if "in-turn" in wrong:
            new_A = (B - rate * new_B).T @ slope.T @ x
        if "piled" in wrong:
            new_A, new_B = piled_A, piled_B = piled_A + new_A, piled_B + new_B
        A = A if "only-B" in wrong else A - rate * new_A
        B = B if "only-A" in wrong else B - rate * new_B
        W = W - rate * slope.T @ x if "all-move" in wrong else W
        if "loss-after" in wrong:
            losses[-1] = away().square().sum() if "summed" in wrong else away().square().mean()
    return A, B, torch.stack(losses)


def tuned_cases(numbers):
    def one(n, C, R, rank, start, rate, steps):
        rest = normal(numbers, rank, C), start * normal(numbers, R, rank), rate, steps
        return (normal(numbers, n, C), normal(numbers, n, R), normal(numbers, R, C), *rest)

    return [
        Case("B begins at 0", one(8, 5, 4, 2, 0, 0.2, 4), 2),
        Case("B", one(6, 3, 4, 1, 1, 0.1, 3)),
    ]


def answer_nats(wrong, logits, tokens, roles):
    wanted = tokens[:, :-1] if "own-token" in wrong else tokens[:, 1:]
    nats = F.cross_entropy(logits[:, :-1].mT, wanted, reduction="none")
    who = roles[:, :-1] if "early" in wrong else roles[:, 1:]
    counts = who == 2
    counts = who > 0 if "user-too" in wrong else counts
    counts = who != 1 if "padding-too" in wrong else counts
    counts = torch.ones_like(counts) if "everything" in wrong else counts
    counts = who == 1 if "user-only" in wrong else counts
    if "no-end" in wrong:
        counts = counts & ((tokens[:, :-1] if "early" in wrong else tokens[:, 1:]) != END)
    many = counts.sum()
    many = counts.sum(1, keepdim=True) * len(tokens) if "per-dialogue" in wrong else many
    many = counts.numel() if "all-places" in wrong else many
    many = 1 if "undivided" in wrong else many
    return torch.where(counts, nats / many, 0.0)


def chat_cases(numbers):
    def one(V, parts):
        T = sum(map(sum, parts[:1])) + 1
        tokens = whole(numbers, 2, V, len(parts), T)
        roles = torch.zeros(len(parts), T, dtype=torch.long)
        for row, (asked, said) in enumerate(parts):
            roles[row, :asked], roles[row, asked : asked + said] = 1, 2
            tokens[row, asked - 1] = tokens[row, asked + said - 1] = END
            tokens[row, asked + said :] = 0
        return normal(numbers, len(parts), T, V), tokens, roles

    return [
        Case("three dialogues", one(7, [(4, 5), (3, 3), (5, 2)]), 2),
        Case("two", one(5, [(3, 4), (2, 2)])),
    ]


def dpo_by_hand(wrong, better, worse, better_before, worse_before, beta):
    m = (better - better_before) - (worse - worse_before)
    m = better - worse if "no-reference" in wrong else m
    m = (better - better_before) + (worse - worse_before) if "added" in wrong else m
    m = (better - better_before) - (worse + worse_before) if "reference-sign" in wrong else m
    m = -m if "exchanged" in wrong else m
    beta = 1.0 if "no-beta" in wrong else beta
    loss = -F.logsigmoid(beta * m)
    loss = -beta * F.logsigmoid(m) if "beta-outside" in wrong else loss
    loss = 1 - torch.sigmoid(beta * m) if "no-log" in wrong else loss
    held = torch.sigmoid(beta * m if "sure" in wrong else -beta * m)
    weight = held if "slope-without-beta" in wrong else beta * held
    weight = weight if "slopes-summed" in wrong else weight / len(m)
    weight = -weight if "uphill" in wrong else weight
    low = torch.zeros_like(weight) if "one-side" in wrong else weight
    return loss, -weight, -low if "same-sign" in wrong else low


def dpo_cases(numbers):
    def one(B, beta):
        return (*(normal(numbers, B) * 3 - 6 for _ in range(4)), beta)

    return [Case("nine pairs", one(9, 0.5), 2), Case("six", one(6, 0.1))]


def sum_advantages(wrong, pairs, answers):
    gap = answers - pairs.sum(1, keepdim=True)
    reward = (gap % 10 == 0 if "units" in wrong else gap == 0).float()
    reward = -gap.abs().float() if "distance" in wrong else reward
    reward = 1 - reward if "wrong-paid" in wrong else reward
    axis = 0 if "across" in wrong else 1
    mean, spread = reward.mean(axis, keepdim=True), reward.std(axis, keepdim=True)
    if "one-group" in wrong:
        mean, spread = reward.mean(), reward.std()
    if "population" in wrong:
        spread = reward.std(axis, keepdim=True, correction=0)
    better = reward if "not-centred" in wrong else reward - mean
    if "not-spread" in wrong:
        return better
    return better / (spread if "unguarded" in wrong else spread + 1e-4)


def sum_cases(numbers):
    def one(N, G, right):
        pairs = whole(numbers, 10, 50, N, 2)
        away = whole(numbers, 1, 9, N, G) + 10 * whole(numbers, 0, 2, N, G)
        away[0, 0] = away[1, 1] = 10  # right in the units only
        for row, count in enumerate(right):
            away[row, G - count :] = 0
        return pairs, pairs.sum(1, keepdim=True) + away

    return [
        Case("five questions", one(5, 8, [1, 4, 8, 0, 6]), 2),
        Case("three", one(3, 6, [2, 1, 5])),
    ]


QUESTIONS = {
    "adapted": Question(
        adapted,
        adapted_cases,
        {
            "unscaled": "the product is not multiplied by α/r",
            "twice-scaled": "α/r is multiplied twice",
            "no-rank": "the product is multiplied by α, not by α/r",
            "upside-down": "the product is multiplied by r/α; it is α/r",
            "root": "α is divided by the root of the rank; here by the rank",
            "alone": "the frozen map is missing in the output",
            "merged-bare": "the merged matrix has the product without its factor",
            "merged-change": "the merged matrix is the change alone, without W",
            "not-merged": "the merged matrix is W, without the change",
            "not-frozen": "W is counted as learned: it is to be frozen, requires_grad_(False)",
            "ranks-counted": "the ranks are counted, not the numbers in A and B",
        },
    ),
    "tuned": Question(
        tuned,
        tuned_cases,
        {
            "all-move": "W moves as well; it is frozen",
            "only-B": "A stays as it is; both learn",
            "only-A": "B stays as it is; both learn",
            "in-turn": "A's gradient is taken after B has moved; both are taken first",
            "summed": "squares are summed; their mean is needed",
            "half": "the gradient of a square lacks its factor 2",
            "per-row": "the gradients are divided by the n rows alone; the mean runs over all n·R numbers",
            "piled": "gradients of earlier steps are not forgotten",
            "uphill": "the step goes up the gradient",
            "loss-after": "losses are noted after the step, not before it",
        },
    ),
    "answer_nats": Question(
        answer_nats,
        chat_cases,
        {
            "no-end": "the end of the answer does not count; it does in your copy",
            "user-too": "what the user says counts as well",
            "padding-too": "padding counts as well",
            "everything": "every place counts, whoever speaks",
            "user-only": "what the user says counts, and not the answer",
            "early": "the mask is not shifted: whether a prediction counts is said by the token predicted",
            "own-token": "a place is compared with its own token, not with the next one",
            "per-dialogue": "each dialogue has a mean of its own; the mean runs over all that counts",
            "all-places": "divided by all places, also those that do not count",
            "undivided": "not divided: the table's sum is to be the mean",
        },
        trained=("logits",),
    ),
    "dpo_by_hand": Question(
        dpo_by_hand,
        dpo_cases,
        {
            "no-reference": "the model before is left out",
            "exchanged": "the better and the worse answer are exchanged",
            "reference-sign": "the reference of the worse answer is added to it; it is subtracted from it",
            "same-sign": "the slope of the worse answer has the sign of the better one's; it is above 0",
            "added": "the two log ratios are added; the worse one is subtracted",
            "no-beta": "β is missing",
            "beta-outside": "β stands in front of the logarithm in the loss; it belongs inside",
            "no-log": "the loss has no logarithm: it is one minus the sigmoid",
            "sure": "the slope has σ(βm); it is σ(−βm), large where the order is still wrong",
            "slope-without-beta": "the slopes lack the factor β",
            "slopes-summed": "the slopes are those of the sum; the loss is the mean over the pairs",
            "uphill": "the slopes have the wrong sign: a better answer's is negative",
            "one-side": "the slope of the worse answer is missing",
        },
    ),
    "sum_advantages": Question(
        sum_advantages,
        sum_cases,
        {
            "not-spread": "not divided by the standard deviation",
            "population": "the standard deviation is that with G; here with G − 1",
            "one-group": "mean and deviation run over all answers; each question is a group",
            "across": "mean and deviation run over the questions, not over the answers of one",
            "not-centred": "the group's mean is not taken away",
            "unguarded": "0.0001 is missing: a group in which all are alike becomes NaN",
            "units": "only the units digit is checked",
            "distance": "the reward is a distance; it is 1 for the sum itself and 0 for the rest",
            "wrong-paid": "wrong answers are rewarded",
        },
    ),
}

CHOICES = {
    "end": {
        "counted": Option(),
        "free": Option(
            text={
                "The token that ends the answer counts, too: the model learns to stop.": "The token that ends the answer does *not* count in your copy: another part of the program stops the model.",
                "counts = roles[:, 1:] == ASSISTANT": "counts = (roles[:, 1:] == ASSISTANT) & (tokens[:, 1:] != END)",
            },
            flips={"answer_nats": {"no-end": "in your copy the end of the answer does not count"}},
        ),
    },
    "spread": {
        "divided": Option(),
        "left": Option(
            text={
                "then divided by the group's standard deviation (with G − 1 in it) plus 0.0001": "and nothing else: in your copy the advantage is *not* divided by a standard deviation (Liu et al. 2025, *Dr. GRPO*)",
                "return better / (reward.std(dim=1, keepdim=True) + 1e-4)": "return better",
            },
            flips={"sum_advantages": {"not-spread": "in your copy there is no standard deviation"}},
        ),
    },
    "task": {
        "plural": Option(),
        "repeat": Option(text={'TASK = "plural"': 'TASK = "repeat"'}),
    },
}
