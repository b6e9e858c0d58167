"""Lab 10: what each question is compared with, and the mistakes it knows (see labs/README.md).

What a student measures on the book's model is judged in `attnlabs.lab10`.
"""

import torch
from torch.nn import functional as F

from attnlabs.draws import normal, whole
from attnlabs.question import Case, Option, Question


def head_scores(wrong, weights):
    L = 18 if "length-fixed" in wrong else weights.shape[-1] // 2
    maps = weights.sum(1) if "summed" in wrong else weights.mean(1)
    maps = weights[:, 0] if "one-row" in wrong else maps
    maps = weights.mean(2) if "heads-averaged" in wrong else maps
    maps = maps.mT if "keys" in wrong else maps
    if "length-fixed" in wrong:  # no query is left
        return maps.new_full((2, *maps.shape[:2]), torch.nan)
    t = torch.arange(L, 2 * L)
    t = torch.arange(L + 1, 2 * L) if "one-late" in wrong else t
    t = torch.tensor([2 * L - 1]) if "last-query" in wrong else t
    t = torch.arange(L - 1, 2 * L) if "one-more" in wrong else t
    t = torch.arange(1, L) if "first-copy" in wrong else t
    t = torch.arange(1, L + 1) if "one-early" in wrong else t
    before = maps[..., t, t - 1].mean(-1)
    before = maps[..., t - 1, t].mean(-1) if "before-turned" in wrong else before
    if "all-queries" in wrong:
        before = maps.diagonal(-1, -2, -1).mean(-1)
    before = maps[..., t, t].mean(-1) if "itself" in wrong else before
    before = maps[..., t, t - 2].mean(-1) if "two-before" in wrong else before
    back = {"same-token": L, "two-on": L - 2, "one-back": L + 1}
    back = next((far for name, far in back.items() if name in wrong), L - 1)
    after = torch.arange(L, 2 * L)
    after = after[1:] if "one-late" in wrong else after[-1:] if "last-query" in wrong else after
    follows = maps[..., after, after - back].mean(-1)
    if "largest" in wrong:
        places = [(t, t - 1), (after, after - back)]
        before, follows = (weights[..., a, b].amax(-1).mean(1) for a, b in places)
    if "block" in wrong:
        before, follows = (
            maps[..., L:, first : first + L].mean((-2, -1)) for first in (L - 1, max(L - back, 0))
        )
    follows = follows * L if "follows-summed" in wrong else follows
    if "queries-summed" in wrong:
        before, follows = before * L, follows * L
    if "by-length" in wrong:
        before, follows = before / 2, follows / 2
    pair = [follows, before] if "exchanged" in wrong else [before, follows]
    return torch.stack(pair)


def score_cases(numbers):
    def maps(*shape):
        return normal(numbers, *shape).mul(3).softmax(-1)

    return [
        Case("two layers", (maps(2, 3, 3, 8, 8),), 2),
        Case("one row", (maps(3, 1, 4, 12, 12),)),
    ]


def mean_ablated(wrong, heads, other, chosen):
    source = heads if "own-rows" in wrong else other
    mean = source.mean((1, 3), keepdim=True)  # (N, 1, H, 1, D)
    mean = source.mean(1, keepdim=True) if "by-place" in wrong else mean
    mean = source.mean(3, keepdim=True) if "by-row" in wrong else mean
    mean = source[:, :, :, -1:].mean(1, keepdim=True) if "mean-of-last" in wrong else mean
    if "median" in wrong:
        mean = source.transpose(1, 2).flatten(2, 3).median(2).values[:, None, :, None]
    mean = source[:, :1].mean(3, keepdim=True) if "one-row" in wrong else mean
    mean = mean.mean(-1, keepdim=True) if "one-number" in wrong else mean
    mean = mean.mean(2, keepdim=True) if "across-heads" in wrong else mean
    mean = torch.zeros_like(mean) if "zeros" in wrong else mean
    lost = torch.zeros(heads.shape[0], 1, heads.shape[2], 1, 1, dtype=torch.bool)
    pairs = chosen[:1] if "first-only" in wrong else chosen[-1:] if "last-only" in wrong else chosen
    pairs = torch.cartesian_prod(*pairs.T) if "grid" in wrong else pairs
    for layer, head in pairs.tolist():
        if "pair-exchanged" in wrong:
            layer, head = head, layer
        where = slice(None) if "all-layers" in wrong else layer
        which = slice(None) if "whole-layer" in wrong else head
        lost[where, :, which] = True
    lost = ~lost if "others" in wrong else lost
    if "last-place" in wrong:
        lost = lost & (torch.arange(heads.shape[3])[:, None] == heads.shape[3] - 1)
    if "chosen-alone" in wrong:
        return torch.where(lost, mean, heads)[chosen[:, 0], :, chosen[:, 1]]
    if "first-row-lost" in wrong:
        return torch.cat([torch.where(lost, mean, heads)[:, :1], heads[:, 1:]], 1)
    if "taken-away" in wrong:
        return torch.where(lost, heads - mean, heads)
    return torch.where(lost, mean.expand_as(heads), heads)


def ablation_cases(numbers):
    def one(chosen, *shape):
        return normal(numbers, *shape), normal(numbers, *shape) + 1, torch.tensor(chosen)

    return [
        Case("two heads", one([[0, 1], [2, 0]], 3, 2, 3, 4, 2), 2),
        Case("one head", one([[2, 0]], 3, 2, 4, 3, 3)),
    ]


def linear_probe(wrong, x, labels, K, new, ridge):
    K = int(labels.max()) + 1 if "last-unseen" in wrong else K
    table = F.one_hot(labels.long(), K).to(x.dtype)
    table = 2 * table - 1 if "signs" in wrong else table
    table = labels[:, None].to(x.dtype) if "labels-as-numbers" in wrong else table
    if "standardised" in wrong:
        x, new = x / x.std(0), new / x.std(0)
    centre, level = x.mean(0), table.mean(0)
    if "columns" in wrong:
        centre, level = x.mean(1, keepdim=True), table.mean(1, keepdim=True)
    if "not-centred" in wrong:
        centre = 0 * centre
    if "no-constant" in wrong:
        centre, level = 0 * centre, 0 * level
    if "shrunk-constant" in wrong:  # a column of ones that the ridge holds as well
        x, new = (F.pad(part, (0, 1), value=1.0) for part in (x, new))
        centre, level = torch.zeros(x.shape[1]), 0 * level
    ridge = 0.0 if "no-ridge" in wrong else ridge
    ridge = ridge * len(x) if "times-rows" in wrong else ridge
    ridge = ridge**2 if "squared" in wrong else ridge
    ridge = 1.0 if "ridge-fixed" in wrong else ridge
    new = x if "learned-rows" in wrong else new
    moved = x - centre
    held = torch.ones(2 * x.shape[1:]) if "every-entry" in wrong else torch.eye(x.shape[1])
    # Two mistakes at once may leave a singular system: without rounding, the same on any processor
    inverse = torch.linalg.pinv(moved.T @ moved + ridge * held, rtol=1e-5, hermitian=True)
    if "fit-not-centred" in wrong:
        inverse = torch.linalg.pinv(x.T @ x + ridge * held, rtol=1e-5, hermitian=True)
        moved = x
    slopes = inverse @ moved.T @ (table - level)
    if "columns" in wrong:
        centre, level = new.mean(1, keepdim=True), level.mean()
    away = new - (new.mean(0) if "own-centre" in wrong else centre)
    away = new if "new-not-centred" in wrong else away
    found = (away @ slopes + (0 * level if "no-level" in wrong else level)).expand(-1, K)
    found = found.argmax(-1) if "best-label" in wrong else found
    return found.softmax(-1) if "softmax" in wrong else found


def probe_cases(numbers):
    def one(n, C, K, m, ridge):
        labels = torch.cat([torch.arange(K), whole(numbers, 0, K, n - K)])
        return normal(numbers, n, C) + 0.5, labels, K, normal(numbers, m, C), ridge

    some = one(12, 4, 3, 5, 1.0)
    return [
        Case("three labels", one(14, 4, 3, 6, 2.0), 2),
        Case("five", one(20, 6, 5, 4, 0.5)),
        Case("a last label that no row has", (*some[:2], 4, *some[3:]), robust=True),
    ]


def numbers_of(wrong, n):
    """An answer in the right form; what is right is the student's alone, `own`."""
    return n


def measured(question, count):
    def cases(numbers):
        return [Case(f"number {n}", (n,)) for n in range(count)]

    return Question(numbers_of, cases, {}, own=question)


QUESTIONS = {
    "head_scores": Question(
        head_scores,
        score_cases,
        {
            "exchanged": "“before” comes first, then “follows”",
            "all-queries": "“before” is a mean over all queries; only those of the second copy count",
            "itself": "“before” is the weight on the query's own token; the one before it is asked for",
            "two-before": "“before” is the weight on the token two places before, not one",
            "follows-summed": "“follows” is a sum over the L queries; it is their mean",
            "same-token": "“follows” is the weight on the same token's first place; what followed it stands one further on",
            "one-back": "“follows” is the weight on the token before the same token's first place, "
            "t−L−1; what followed it stands at t−L+1",
            "one-late": "the first query of the second copy, t = L, is left out",
            "last-query": "only the last query counts; all L of the second copy do",
            "largest": "the largest weight among the queries is taken; their mean is needed",
            "block": "the mean runs over a block of keys for each query; each query has one key: "
            "`maps[..., t, t - 1]`, with two rows of numbers and no slices",
            "heads-averaged": "the mean runs over the heads, and the rows are left; axis 1 has the rows",
            "length-fixed": "no query is left: L is half the length of these rows, whatever it is",
            "two-on": "“follows” is the weight two places behind the same token, not one",
            "keys": "queries and keys are exchanged: row t of a map has the weights of query t",
            "summed": "the rows of the batch are added up; their mean is needed",
            "queries-summed": "the L queries are added up; their mean is needed",
            "one-row": "only the first row of the batch counts",
            "one-more": "the last query of the first copy counts as well for “before”",
            "one-early": "“before” is the mean over the queries 1 to L; those of the second copy, L "
            "to 2L − 1, are asked for",
            "first-copy": "“before” is taken from the first copy, the second one is asked for",
            "by-length": "the sums are divided by 2L; there are L queries in the second copy",
            "before-turned": "“before” is the weight from the token before to the query; the query's row says where it looks",
        },
    ),
    "suspects": measured("suspects", 2),
    "mean_ablated": Question(
        mean_ablated,
        ablation_cases,
        {
            "others": "the heads that are not chosen are replaced, the chosen ones stay",
            "pair-exchanged": "a pair names layer, then head; they are taken the other way round",
            "first-row-lost": "the heads are replaced in the first row only",
            "zeros": "there are zeros in place of the mean",
            "own-rows": "the mean is taken over the run itself, not over the other one",
            "by-place": "each position has a mean of its own; it is one for all rows and positions",
            "by-row": "each row has a mean of its own; it is one for all rows and positions",
            "mean-of-last": "the mean is taken over the last position only; it runs over all",
            "median": "the median is taken; the mean is asked for",
            "first-only": "only the first pair's head is replaced (is `return` inside the loop?)",
            "last-only": "only the last pair's head stays replaced (is the copy made inside the loop?)",
            "grid": "each layer named is taken with each head named; `chosen` names pairs",
            "last-place": "the head is replaced at the last position only; at every one",
            "chosen-alone": "only the chosen heads are returned; the whole table with these changed",
            "one-row": "the mean is taken over the first row only",
            "one-number": "the mean runs over the width as well, so that one number is left of it",
            "across-heads": "the mean runs over the heads as well; each head has its own",
            "all-layers": "the head is replaced in every layer; a pair names one layer",
            "whole-layer": "all heads of the layer are replaced; a pair names one head",
            "taken-away": "the mean is subtracted; it stands in place of the output",
        },
    ),
    "prices": measured("prices", 4),
    "carried": measured("carried", 4),
    "linear_probe": Question(
        linear_probe,
        probe_cases,
        {
            "no-ridge": "the ridge is missing",
            "times-rows": "the ridge is multiplied by the number of rows; here it is not",
            "squared": "the ridge is squared",
            "every-entry": "the ridge is added to every entry; it stands on the diagonal alone",
            "best-label": "the best label is returned; the scores are asked for, one for each label",
            "last-unseen": "there is no column for a label that none of the rows has; `K` says how "
            "many there are",
            "not-centred": "the mean of the inputs is not taken away",
            "fit-not-centred": "the mean is taken away from the new rows, and not where the slopes are "
            "computed",
            "new-not-centred": "the mean is not taken away from the new rows",
            "columns": "the means run over each row's columns, not over the rows, axis 0",
            "standardised": "the columns are divided by their standard deviation as well; only their "
            "mean is taken away",
            "labels-as-numbers": "labels stand for amounts; each has a column of 0 and 1",
            "learned-rows": "the scores are those of the rows that it learned from, not of the new "
            "ones",
            "ridge-fixed": "the argument `ridge` is not used: λ is 1",
            "no-constant": "there is no constant: neither inputs nor columns have their mean taken away",
            "shrunk-constant": "the ridge holds the constant as well; it is free",
            "own-centre": "what is new is centred by its own mean; it is the training's",
            "no-level": "the columns' means are not added in the end",
            "signs": "labels are −1 and 1; here 0 and 1",
            "softmax": "a softmax is taken; the scores themselves are asked for",
        },
    ),
    "probed": measured("probed", 5),
}

CHOICES = {
    "order": {
        "before-first": Option(),
        "follows-first": Option(
            text={
                "Returns (2, N, H): “before” first, then “follows”.": "Returns (2, N, H): “follows” first, then “before”.",
                "return torch.stack([before, follows])": "return torch.stack([follows, before])",
            },
            flips={"head_scores": {"exchanged": "in your copy “follows” comes first"}},
        ),
    },
    "chosen": {
        "lost": Option(),
        "kept": Option(
            text={
                "The heads in `chosen` lose what they say about this text: at every position each of them gives its mean instead.": "The heads in `chosen` are all that is left of the model's attention: every *other* head gives its mean instead, at every position.",
                "The chosen heads at their mean": "All but the chosen heads at their mean",
                "out[layer, :, head] = mean[layer, head]": "out[layer, :, head] = heads[layer, :, head]",
                "out = heads.clone()": "out = mean[:, None, :, None].expand_as(heads).clone()",
            },
            flips={"mean_ablated": {"others": "in your copy the chosen heads stay, all others go"}},
        ),
    },
    "claim": {
        "idle": Option(),
        "used": Option(
            text={
                "A colleague has set head 2.0 alone to its mean, found that the loss rises by a few tenths of a nat, and concludes: “The note about the token before does not matter to this model.”": "A colleague has found that a linear probe reads the token before in 94 of 100 cases after layer 1, and concludes: “So this model uses the token before, and that is how it copies.”",
                "It has a stand-in: without 2.0 alone the loss rises by 0.60 nats, but without all five heads that look at the token before by 9.7, as much as without head 3.3, and five other heads together cost nothing (−0.1). One ablation at a time cannot tell “idle” from “replaceable”.": "A probe shows what is there, not what is used: of a control task, labels of that token by lot, it has 0.84 right after layer 1 (selectivity 0.10), so most of it is the probe's own ability to learn a table of whatever it finds. That the note is used is shown by the ablation: without the five heads that look at the token before the loss rises by 9.7 nats, without five others by −0.1.",
                "1 point: a stand-in, with the student's own numbers for one head and for the five; half a point without numbers.": "1 point: a probe shows what is there and not what is used, with the student's own control or selectivity; half a point without numbers.",
            }
        ),
    },
}
