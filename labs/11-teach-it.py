"""Lab 11: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import math

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
    scale = float(alpha // rank) if "whole" in wrong else scale
    scale = alpha / rank**0.5 if "root" in wrong else scale
    scale = 16.0 / rank if "alpha-fixed" in wrong else scale
    scale = scale**2 if "twice-scaled" in wrong else scale
    change = (B @ A) * scale
    y = x @ change.T if "alone" in wrong else x @ weight.T + x @ change.T
    y = x @ weight.T - x @ change.T if "output-minus" in wrong else y
    y = x @ (weight + B @ A).T if "output-bare" in wrong else y
    y = scale * x @ (weight + B @ A).T if wrong & {"all-scaled", "output-scaled"} else y
    merged = weight + change
    merged = weight + B @ A if "merged-bare" in wrong else merged
    merged = change if "merged-change" in wrong else merged
    merged = weight if "not-merged" in wrong else merged
    merged = weight - change if "unmerged" in wrong else merged
    merged = scale * (weight + B @ A) if "all-scaled" in wrong else merged
    merged = merged.T if "merged-turned" in wrong else merged
    if "not-read" in wrong:
        y, merged = x @ weight.T, weight
    learned = A.numel() + B.numel()
    learned = 0 if "nothing-learns" in wrong else learned
    learned = B.numel() if "A-frozen" in wrong else A.numel() if "B-frozen" in wrong else learned
    learned = learned + weight.numel() if "not-frozen" in wrong else learned
    learned = 2 * rank if "ranks-counted" in wrong else learned
    return y, merged, torch.tensor(float(learned))


def adapted_cases(numbers):
    def one(x, R, C, rank, alpha):
        sizes = (R, C), (rank, C), (R, rank)
        return (normal(numbers, *x, C), *(normal(numbers, *size) for size in sizes), alpha)

    return [
        Case("rank 2", one((5,), 6, 4, 2, 16.0), 2),
        Case("a batch", one((2, 3), 4, 5, 3, 7.0)),
    ]


def tuned(wrong, x, goal, weight, A, B, rate, steps):
    W, A, B = weight.clone(), A.clone(), B.clone()
    piled_A, piled_B, losses = torch.zeros_like(A), torch.zeros_like(B), []
    scale = 16.0 / len(A) if "scaled" in wrong else 1.0
    speeds = [(torch.zeros_like(part), torch.zeros_like(part)) for part in (A, B)]

    def away():
        return (0 if "W-left-out" in wrong else x @ W.T) + scale * x @ A.T @ B.T - goal

    def loss():
        gap = away()
        size = gap.abs() if "absolute" in wrong else gap.square()
        size = size / 2 if "half-loss" in wrong else size
        size = size * gap.shape[1] if "sum-of-rows" in wrong else size
        size = size.sum() if wrong & {"summed", "loss-summed"} else size.mean()
        return size.sqrt() if "root" in wrong else size

    for n in range(steps):
        gap = away()
        slope = gap.sign() if "absolute" in wrong else 2 * gap
        slope = slope if "summed" in wrong else slope / gap.numel()
        slope = slope / 2 if wrong & {"half", "half-loss"} else slope
        slope = slope * gap.shape[1] if wrong & {"per-row", "sum-of-rows"} else slope
        slope = -slope if "uphill" in wrong else slope
        losses.append(loss())
        slope = slope * scale
        new_A, new_B = B.T @ slope.T @ x, slope.T @ (x @ A.T)
        if "in-turn" in wrong:
            new_A = (B - rate * new_B).T @ slope.T @ x
        if "A-first" in wrong:
            new_B = slope.T @ (x @ (A - rate * new_A).T)
        if "adam" in wrong:
            news = zip(speeds, (new_A, new_B), strict=True)
            speeds = [(0.9 * v + 0.1 * g, 0.999 * s + 0.001 * g**2) for (v, s), g in news]
            new_A, new_B = (
                v / (1 - 0.9 ** (n + 1)) / ((s / (1 - 0.999 ** (n + 1))).sqrt() + 1e-8)
                for v, s in speeds
            )
        if "one-short" in wrong and n == steps - 1:
            break
        if "piled" in wrong:
            new_A, new_B = piled_A, piled_B = piled_A + new_A, piled_B + new_B
        A = A if "only-B" in wrong else A - rate * new_A
        B = B if "only-A" in wrong else B - rate * new_B
        W = W - rate * slope.T @ x if "all-move" in wrong else W
        if "loss-after" in wrong:
            losses[-1] = loss()
    losses = [*losses, loss()] if "one-loss-more" in wrong else losses
    return A, B, losses[-1] if "last-loss" in wrong else torch.stack(losses)


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
    read = logits[:, 1:] if "logits-late" in wrong else logits[:, :-1]
    if "softmax-twice" in wrong:
        read = read.softmax(-1)
    nats = F.cross_entropy(read.mT, wanted, reduction="none")
    if "over-positions" in wrong:
        nats = -read.log_softmax(1).gather(-1, wanted[..., None])[..., 0]
    if "logits" in wrong:
        nats = -read.gather(-1, wanted[..., None])[..., 0]
    nats = 1 - torch.exp(-nats) if "no-log" in wrong else nats
    nats = nats / math.log(2) if "bits" in wrong else nats
    nats = -nats if "sign" in wrong else nats
    who = roles[:, :-1] if "early" in wrong else roles[:, 1:]
    counts = who == 2
    counts = who > 0 if "user-too" in wrong else counts
    counts = who != 1 if "padding-too" in wrong else counts
    counts = torch.ones_like(counts) if "everything" in wrong else counts
    counts = who == 1 if "user-only" in wrong else counts
    if "no-end" in wrong:
        counts = counts & ((tokens[:, :-1] if "early" in wrong else tokens[:, 1:]) != END)
    user = (who == 1).long()
    if "last-answer" in wrong:
        counts = counts & (user.flip(1).cumsum(1).flip(1) == 0)
    if "first-answer" in wrong:  # no turn of the user after one of the assistant's
        later = (who == 2).long().cumsum(1) > 0
        counts = counts & ((later & (user > 0)).long().cumsum(1) == 0)
    many = counts.sum()
    many = many + (roles[:, 0] == 2).sum() if "counted-before" in wrong else many
    many = counts.sum(1, keepdim=True) if "by-own-count" in wrong else many
    many = len(tokens) if "by-rows" in wrong else many
    many = counts.sum(1, keepdim=True) * len(tokens) if "per-dialogue" in wrong else many
    many = counts.numel() if "all-places" in wrong else many
    many = 1 if "undivided" in wrong else many
    table = nats / many if "not-masked" in wrong else torch.where(counts, nats / many, 0.0)
    table = F.pad(table, (1, 0)) if "wide" in wrong else table
    return table.sum() if "added-up" in wrong else table


def chat_cases(numbers):
    def one(V, rows):
        """Dialogues as the lengths of what is said, in turns; 0 if the assistant begins."""
        T = max(map(sum, rows)) + 1
        tokens = whole(numbers, 2, V, len(rows), T)
        roles = torch.zeros(len(rows), T, dtype=torch.long)
        for row, parts in enumerate(rows):
            end = 0
            for n, length in enumerate(parts):
                roles[row, end : end + length] = 1 + n % 2
                end += length
                tokens[row, end - 1] = END
            tokens[row, end:] = 0
        return normal(numbers, len(rows), T, V), tokens, roles

    return [
        Case("three dialogues", one(7, [(4, 5), (2, 2, 2, 3), (5, 2)]), 2),
        Case("two, of which one begins with the assistant", one(5, [(3, 4), (0, 2, 1, 3)])),
    ]


def dpo_by_hand(wrong, better, worse, better_before, worse_before, beta):
    m = (better - better_before) - (worse - worse_before)
    m = better - worse if "no-reference" in wrong else m
    m = (better - better_before) + (worse - worse_before) if "added" in wrong else m
    m = (better - better_before) - (worse + worse_before) if "reference-sign" in wrong else m
    m = (better - worse_before) - (worse - better_before) if "crossed" in wrong else m
    m = -m if "exchanged" in wrong else m
    m = m.mean().expand_as(m) if "margins-averaged" in wrong else m
    beta = 1.0 if "no-beta" in wrong else 1 / beta if "by-beta" in wrong else beta
    loss = -F.logsigmoid(beta * m)
    loss = -beta * F.logsigmoid(m) if "beta-outside" in wrong else loss
    loss = -F.logsigmoid(m) if "loss-without-beta" in wrong else loss
    loss = 1 - torch.sigmoid(beta * m) if "no-log" in wrong else loss
    loss = -torch.sigmoid(beta * m) if "loss-bare" in wrong else loss
    loss = -torch.sigmoid(beta * m) if "bare-sigmoid" in wrong else loss
    loss = (1 - beta * m).clamp(min=0) if "hinge" in wrong else loss
    loss = -loss if "loss-sign" in wrong else loss
    held = torch.sigmoid(beta * m if "sure" in wrong else -beta * m)
    if wrong & {"sigmoid-slope", "bare-sigmoid"}:
        held = held * (1 - held)
    held = (beta * m < 1).to(m.dtype) if "hinge" in wrong else held
    weight = held if "slope-without-beta" in wrong else beta * held
    weight = weight if "slopes-summed" in wrong else weight / len(m)
    weight = weight / 2 if "by-answers" in wrong else weight
    weight = -weight if "uphill" in wrong else weight
    low = torch.zeros_like(weight) if "one-side" in wrong else weight
    loss = loss.mean() if "mean-loss" in wrong else loss
    return loss, -weight, -low if "same-sign" in wrong else low


def dpo_cases(numbers):
    def one(B, beta):
        return (*(normal(numbers, B) * 3 - 6 for _ in range(4)), beta)

    return [Case("nine pairs", one(9, 0.5), 2), Case("six", one(6, 0.1))]


def sum_advantages(wrong, pairs, answers):
    gap = answers - pairs.sum(1, keepdim=True)
    gap = answers - pairs.prod(1, keepdim=True) if "never-right" in wrong else gap
    if "any-sum" in wrong:
        gap = (~torch.isin(answers, pairs.sum(1))).long()
    reward = (gap % 10 == 0 if "units" in wrong else gap == 0).float()
    reward = -gap.abs().float() if "distance" in wrong else reward
    reward = 1 - reward if "wrong-paid" in wrong else reward
    axis = 0 if "across" in wrong else 1
    mean, spread = reward.mean(axis, keepdim=True), reward.std(axis, keepdim=True)
    if "one-group" in wrong:
        mean, spread = reward.mean(), reward.std()
    mean = reward.mean() if "mean-of-all" in wrong else mean
    mean = reward.mean(0, keepdim=True) if "mean-across" in wrong else mean
    if "population" in wrong:
        spread = reward.std(axis, keepdim=True, correction=0)
    spread = reward.std() if "spread-of-all" in wrong else spread
    spread = spread.square() if "variance" in wrong else spread
    if "others" in wrong:
        mean = (reward.sum(axis, keepdim=True) - reward) / (reward.shape[axis] - 1)
    better = reward if "not-centred" in wrong else reward - mean
    small = 0.01 if "large-guard" in wrong else 1e-8 if "small-guard" in wrong else 1e-4
    small = 0.0 if "unguarded" in wrong else small
    spread = (spread**2 + small).sqrt() if "guard-inside" in wrong else spread + small
    found = better if "not-spread" in wrong else better / spread
    found = found * reward if "right-only" in wrong else found
    return found.mean(1) if "one-a-question" in wrong else found


def sum_cases(numbers):
    def one(N, G, right):
        pairs = whole(numbers, 10, 50, N, 2)
        away = whole(numbers, 1, 9, N, G) + 10 * whole(numbers, 0, 2, N, G)
        away[0, 0] = away[1, 1] = 10  # right in the units only
        for row, count in enumerate(right):
            away[row, G - count :] = 0
        answers = pairs.sum(1, keepdim=True) + away
        answers[0, 1], answers[1, 0] = pairs[1].sum(), pairs[0].sum()  # another question's sums
        return pairs, answers

    return [
        Case("five questions", one(5, 8, [1, 4, 8, 0, 6]), 2),
        Case("three", one(3, 6, [2, 1, 5])),
        # The smaller the deviation, the more it matters where 0.0001 is added
        Case("one right answer of a thousand", one(2, 1000, [1, 0]), robust=True),
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
            "alpha-fixed": "`alpha` is not used: α is 16",
            "output-minus": "the product is subtracted in the output; it is added",
            "output-bare": "the output has the product without its factor α/r",
            "all-scaled": "the factor α/r is on the frozen map as well; it is on the product alone",
            "output-scaled": "in the output α/r is on the frozen map as well; it is on the product "
            "alone",
            "not-read": "the product has no effect: neither output nor merged matrix has B A in it",
            "alone": "the frozen map is missing in the output",
            "merged-bare": "the merged matrix has the product without its factor",
            "merged-change": "the merged matrix is the change alone, without W",
            "not-merged": "the merged matrix is W, without the change",
            "unmerged": "the change is subtracted from W in the merged matrix; it is added",
            "merged-turned": "the merged matrix is transposed; it is (R, C), as W",
            "nothing-learns": "nothing learns: A and B are to be `nn.Parameter`, and only `base` is "
            "frozen",
            "A-frozen": "only B learns; A is to be a parameter as well",
            "B-frozen": "only A learns; B is to be a parameter as well",
            "not-frozen": "W is counted as learned: it is to be frozen, requires_grad_(False)",
            "ranks-counted": "the ranks are counted, not the numbers in A and B",
            "whole": "α/r is cut to a whole number: divide with /, not //",
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
            "loss-summed": "the losses are sums of the squares; they are their means",
            "half-loss": "the loss has a factor ½; it is the mean of the squares",
            "sum-of-rows": "the squares are divided by the n rows alone; the mean runs over all n·R "
            "numbers",
            "absolute": "the loss is a mean of absolute values; the mean of the squares is asked for",
            "root": "the root of the loss is returned",
            "W-left-out": "the frozen map is left out of the output",
            "scaled": "the product has the factor 16/r; α = r here, so it has none",
            "A-first": "B's gradient is taken after A has moved; both are taken first",
            "adam": "steps are Adam's; here a step is the rate times the gradient",
            "one-short": "the last step is missing: each loss has a step after it",
            "one-loss-more": "there is a loss too many: the one after the last step is none of them",
            "last-loss": "only the last loss is returned; one for each step is asked for",
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
            "logits-late": "logits are read one place too late: those at t are about the token at t+1",
            "over-positions": "softmax runs over the positions; it runs over the vocabulary, axis −1",
            "softmax-twice": "softmax is taken twice: `cross_entropy` takes one itself, of logits",
            "no-log": "1 − p stands for −ln p: the logarithm is missing",
            "bits": "these are bits, with a logarithm to the base 2; nats are asked for",
            "sign": "the minus is missing",
            "last-answer": "only the last answer of a dialogue counts; all do",
            "first-answer": "only the first answer of a dialogue counts; all do",
            "counted-before": "the first column of `roles` is counted as well, which nothing "
            "predicts: count the tokens that are predicted",
            "by-own-count": "each dialogue is divided by the number of its own tokens; by that of "
            "the whole batch",
            "by-rows": "divided by the number of dialogues; by the number of tokens that count",
            "wide": "the table has a column for the first token, which nothing predicts; it is (B, T−1)",
            "added-up": "the table is added up; its parts are asked for",
            "per-dialogue": "each dialogue has a mean of its own; the mean runs over all that counts",
            "all-places": "divided by all places, also those that do not count",
            "undivided": "not divided: the table's sum is to be the mean",
            "logits": "minus the logit is no loss: the logarithm of the softmax is missing",
            "not-masked": "what does not count is divided as well; it is 0 in the table",
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
            "crossed": "each answer is compared with the reference of the other one",
            "margins-averaged": "m is averaged over the pairs first; each pair has its own loss",
            "no-beta": "β is missing",
            "by-beta": "m is divided by β; it is multiplied",
            "loss-sign": "the loss has the wrong sign: −log σ is above 0",
            "mean-loss": "the mean loss is returned; the loss of each pair is asked for, (B)",
            "bare-sigmoid": "the loss is −σ(βm); the logarithm is missing, in the slopes as well",
            "hinge": "the loss is a hinge; it is −log σ(βm)",
            "sigmoid-slope": "the slope is that of σ, σ(1 − σ); that of −log σ(z) is −σ(−z)",
            "by-answers": "the slopes are divided by 2B, the number of answers; there are B pairs",
            "loss-without-beta": "β is missing in the loss, and not in the slopes",
            "loss-bare": "the loss is −σ(βm); the logarithm is missing",
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
            "mean-of-all": "the mean runs over all answers; each question is a group",
            "mean-across": "the mean runs over the questions, not over the answers of one",
            "spread-of-all": "the deviation runs over all answers; each question is a group",
            "variance": "divided by the variance; the standard deviation is its root",
            "others": "the mean of the *other* answers is taken away; that of the whole group is",
            "right-only": "wrong answers have 0; theirs is below 0",
            "guard-inside": "0.0001 is added to the variance, under the root; it is added to the "
            "standard deviation",
            "large-guard": "0.01 is added to the deviation; it is 0.0001",
            "small-guard": "what is added to the deviation is far less than 0.0001",
            "never-right": "no answer counts as right, so that all advantages are 0; an answer is "
            "right if it is the *sum* of its pair",
            "any-sum": "an answer counts as right if it is the sum of any question's pair; of its own",
            "one-a-question": "there is one number for each question; each answer has its own",
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
