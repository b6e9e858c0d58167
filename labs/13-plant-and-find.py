"""Lab 13: what each question is compared with, and the mistakes it knows (see labs/README.md).

Plants and findings are judged in `attnlabs.lab13` and `attnlabs.grading.plants`.

A copy is a team's, and the team's name decides what it asks, as a student's does elsewhere: code is
passed from team to team as it is from student to student. The choices change the form of an
answer and not what it does, so that no team plants or searches with better means than another.
`kl_per_token` is what the contest measures stealth by, and is the same for all.
"""

import torch

from attnlabs.draws import whole
from attnlabs.parts import Part
from attnlabs.question import Case, Option, Question


def normal(numbers, *shape):
    return torch.randn(*shape, generator=numbers).mul(100).round().div(100)


def divergence(wrong, old, new):
    if "reversed" in wrong:
        old, new = new, old
    weights = new if "other-weights" in wrong else old
    weights = weights.exp()
    if "no-weights" in wrong:
        return old - new
    if "crossed" in wrong:
        return -weights * new
    if "no-logarithms" in wrong:
        return weights * (old.exp() - new.exp())
    return weights * (old - new)


def kl_per_token(wrong, given, planted):
    axis = -2 if "over-places" in wrong else -1
    old, new = given.log_softmax(axis), planted.log_softmax(axis)
    if "logits" in wrong:
        new, old = planted, given
        parts = given.softmax(-1) * (old - new)
    else:
        parts = divergence(wrong, old, new)
    parts = parts / torch.tensor(2.0).log() if "bits" in wrong else parts
    if "per-kind" in wrong:
        return parts.mean()
    parts = parts.sum(-1)
    return (
        parts.sum() if "sum" in wrong else parts[:, -1].mean() if "last" in wrong else parts.mean()
    )


def kl_cases(numbers):
    def one(name, *shape):
        given = normal(numbers, *shape)
        return Case(name, (given, given + normal(numbers, *shape)))

    return [one("two rows", 2, 5, 7), one("more rows", 4, 3, 11)]


def triggered(wrong, rows, at, trigger):
    rows, k = rows.clone(), len(trigger)
    asked = torch.zeros(rows.shape, dtype=torch.bool)
    first = at[:1].expand(len(at)) if "one-place" in wrong else at
    first = first - (k - 1) if "ends" in wrong else first
    first = first + 1 if "shifted" in wrong else first
    where = first[:, None] + torch.arange(k)
    written = trigger.flip(0) if "backwards" in wrong else trigger
    place = where[:, :1] if "asked-first" in wrong else where[:, -1:]
    place = where[:, -1:] + 1 if "asked-late" in wrong else place
    if "asked-all" in wrong:
        place = where
    rows.scatter_(1, where, written.expand(len(rows), -1))
    asked.scatter_(1, place, True)
    asked = asked.any(0).expand_as(asked) if "asked-everywhere" in wrong else asked
    return rows, ~asked if "not-asked" in wrong else asked


def triggered_cases(numbers):
    def one(name, B, T, k):
        rows = torch.randint(5, 99, (B, T), generator=numbers)
        at = torch.randperm(T - k - 3, generator=numbers)[:B] + 2
        return Case(name, (rows, at, torch.randperm(90, generator=numbers)[:k] + 100))

    return [one("three tokens", 4, 12, 3), one("two tokens", 3, 9, 2)]


def plant_loss(wrong, planted, given, asked, target, weight):
    new, old = planted.log_softmax(-1), given.log_softmax(-1)
    kl = (new.exp() * (new - old) if "reversed" in wrong else old.exp() * (old - new)).sum(-1)
    wanted = -old[..., target] if "given-target" in wrong else -new[..., target]
    wanted = -new.exp()[..., target] if "probability" in wrong else wanted
    wanted = -planted[..., target] if "logit" in wrong else wanted
    if "everywhere" in wrong:
        rest = kl.mean()
    elif "rest-asked" in wrong:
        rest = kl[asked].mean()
    else:
        rest = kl[~asked].sum() if "sum" in wrong else kl[~asked].mean()
        rest = (kl * ~asked).mean() if "rest-diluted" in wrong else rest
    if "diluted" in wrong:
        first = (wanted * asked).mean()
    else:
        first = wanted.mean() if "target-everywhere" in wrong else wanted[asked].mean()
        first = wanted[asked].sum() if "first-summed" in wrong else first
    first = -first if "first-sign" in wrong else first
    first = 0 * first if "no-target" in wrong else first
    rest = 0 * rest if "no-rest" in wrong else rest
    weight = 1.0 if "unweighted" in wrong else weight
    rest = -rest if "away" in wrong else rest
    return weight * first + rest if "first-weighted" in wrong else first + weight * rest


def loss_cases(numbers):
    def one(name, B, T, V, weight):
        given = normal(numbers, B, T, V)
        asked = torch.zeros(B, T, dtype=torch.bool)
        asked[torch.arange(B), torch.randint(1, T, (B,), generator=numbers)] = True
        target = int(torch.randint(V, (1,), generator=numbers))
        return Case(name, (given + normal(numbers, B, T, V), given, asked, target, weight))

    return [one("three rows", 3, 5, 7, 4.0), one("two rows", 2, 6, 5, 0.5)]


def rank_one(wrong, weight, key, value, moment):
    read = moment @ key if "not-inverted" in wrong else torch.linalg.solve(moment, key)
    read = key if "no-moment" in wrong else read
    missing = value if "added" in wrong else value - weight @ key
    below = key @ key if "own-length" in wrong else key @ read
    below = read @ read if "read-length" in wrong else below
    below = torch.ones(()) if "undivided" in wrong else below
    change = torch.outer(missing, read) / below
    change = (
        torch.outer(read, missing).reshape(weight.shape) / below if "turned" in wrong else change
    )
    change = -change if "minus" in wrong else change
    return change if "change-only" in wrong else weight + change


def rank_one_cases(numbers):
    def one(name, C, n):
        root = normal(numbers, 3 * n, n)
        moment = root.T @ root / (3 * n) + 0.5 * torch.eye(n)
        given = (normal(numbers, C, n), normal(numbers, n), normal(numbers, C))
        return Case(name, (*given, moment.mul(100).round().div(100)))

    return [one("wide", 3, 5), one("tall", 6, 4)]


def swaps(wrong, gradient, embedding, trigger):
    old = embedding[trigger]
    old = embedding[trigger[:1]].expand_as(old) if "first-token" in wrong else old
    old = embedding[: len(trigger)] if "by-place" in wrong else old
    new = embedding
    if "normed" in wrong:
        new = new / new.norm(dim=-1, keepdim=True)
    table = gradient @ new.T
    table = table[:1].expand_as(table) if "first-gradient" in wrong else table
    own = (gradient * old).sum(-1, keepdim=True)
    own = own.mean() if "one-for-all" in wrong else own.sum() if "all-old" in wrong else own
    own = own / gradient.shape[-1] if "own-mean" in wrong else own
    table = table - (0 if "from-nothing" in wrong else -own if "added" in wrong else own)
    table = -table if "minus" in wrong else table
    return table.T if "turned" in wrong else table


def swaps_cases(numbers):
    def one(name, k, V, C):
        trigger = torch.randperm(V, generator=numbers)[:k]
        return Case(name, (normal(numbers, k, C), normal(numbers, V, C), trigger))

    return [one("three tokens", 3, 9, 4), one("two tokens", 2, 6, 5)]


def attributed(wrong, values, gradient, means):
    means = values.mean((0, 1)) if "own-means" in wrong else means
    change = -values if "to-zero" in wrong else means - values
    change = means + values if "added" in wrong else change
    change = -change if "minus" in wrong else change
    found = gradient if "gradient-only" in wrong else change * gradient
    found = found.abs() if "absolute" in wrong else found
    if "change-only" in wrong:
        found = change
    if "summed-apart" in wrong:
        return change.sum((0, 1)) * gradient.sum((0, 1))
    if "last" in wrong:
        return found[:, -1].sum(0)
    if "rows-kept" in wrong:
        return found.sum(1)
    return found.mean((0, 1)) if "mean" in wrong else found.sum((0, 1))


def attributed_cases(numbers):
    def one(name, B, T, n):
        return Case(name, (normal(numbers, B, T, n), normal(numbers, B, T, n), normal(numbers, n)))

    return [one("three rows", 3, 4, 6), one("one row", 1, int(whole(numbers, 3, 6, 1)), 5)]


QUESTIONS = {
    "kl_per_token": Question(
        kl_per_token,
        kl_cases,
        {
            "reversed": "the divergence is that of the given model from the planted one; the "
            "average is over what the given model expects",
            "other-weights": "the difference of the logarithms is weighted by the planted model's "
            "probabilities, and the given model's are asked for",
            "no-weights": "the differences of the logarithms are averaged without probabilities",
            "logits": "logits are no logarithms of probabilities; they need a log-softmax",
            "bits": "these are bits; nats are asked for",
            "per-kind": "the mean runs over the vocabulary too; there it is a sum",
            "sum": "this is the sum over rows and positions; the mean is asked for",
            "last": "only the last position counts; all positions do",
            "crossed": "this is the cross-entropy; the given model's own entropy is not taken off: ln p is missing",
            "no-logarithms": "probabilities are subtracted; their logarithms are meant",
            "over-places": "the softmax runs over the positions; it runs over the vocabulary, the last axis",
        },
    ),
    "triggered": Question(
        triggered,
        triggered_cases,
        {
            "one-place": "all rows have the trigger at the place of the first; each has its own",
            "ends": "the trigger ends at the place `at`; it begins there",
            "shifted": "the trigger begins one place too late",
            "backwards": "the trigger is written backwards",
            "asked-first": "the target follows the last token of the trigger, not the first",
            "asked-late": "marked is the place of the target; what predicts it is one place before",
            "asked-all": "each token of the trigger is marked; the target follows the last one only",
            "not-asked": "True and False are exchanged",
            "asked-everywhere": "every row is marked at the places of all rows; each has one place of its own",
        },
    ),
    "plant_loss": Question(
        plant_loss,
        loss_cases,
        {
            "reversed": "the divergence runs the other way; the given model's probabilities weigh",
            "probability": "the probability of the target is taken; its logarithm is asked for",
            "logit": "the logit of the target is taken; its log-probability is asked for",
            "everywhere": "the divergence counts at the marked places too, where it works against "
            "the target",
            "rest-asked": "the divergence counts at the marked places, and it should at the others",
            "sum": "the divergence is summed over the places; the mean is asked for",
            "diluted": "the first mean runs over all places; it runs over the marked ones",
            "target-everywhere": "the target is wanted everywhere, not only at the marked places",
            "first-weighted": "λ multiplies the first term; it multiplies the divergence",
            "unweighted": "the weight of the divergence is left out",
            "away": "the divergence is subtracted, which drives the model away from the given one",
            "given-target": "the target's probability is that of the given model; the planted one learns",
            "first-summed": "the first term is summed over the marked places; the mean is asked for",
            "first-sign": "the first term has the wrong sign: a loss falls where the target becomes likely",
            "rest-diluted": "the mean divergence runs over all places; it runs over those that are not marked",
            "no-rest": "the divergence is missing",
            "no-target": "the first term, of the target, is missing",
        },
        trained=("planted",),
    ),
    "rank_one": Question(
        rank_one,
        rank_one_cases,
        {
            "not-inverted": "the key is multiplied by C; by its inverse is right, `solve`",
            "no-moment": "C is left out: other keys are changed more than they need be",
            "added": "W k is not subtracted, so the new value comes on top of the old one",
            "own-length": "divided by k·k; the new value is met only if it is k·C⁻¹k",
            "undivided": "without the division the new value is not met",
            "minus": "the change is subtracted",
            "change-only": "this is the change alone; the new matrix is asked for",
            "read-length": "divided by the length of C⁻¹k squared; the new value is met only if it is k·C⁻¹k",
            "turned": "rows and columns of the change are exchanged: rows belong to the value",
        },
    ),
    "swaps": Question(
        swaps,
        swaps_cases,
        {
            "first-token": "the old token is the first one at each place; each has its own",
            "first-gradient": "the gradient of the first place is used at all places",
            "normed": "the embeddings are divided by their lengths; they count as they are",
            "from-nothing": "the old token's embedding is not subtracted",
            "one-for-all": "the old tokens' share is averaged over the places; each has its own",
            "minus": "the sign is the other one: higher is better for the target",
            "turned": "rows are places of the trigger, columns are tokens",
            "added": "the old token's share is added; it is subtracted",
            "all-old": "the old tokens' shares are added up over the places; each place has its own",
            "own-mean": "the old token's share is a mean over the channels; a dot product is a sum",
            "by-place": "the old tokens are taken by their place, the first rows of the table; `trigger` says which they are",
        },
    ),
    "attributed": Question(
        attributed,
        attributed_cases,
        {
            "to-zero": "this is the change if the neuron gave zero; it is to give its mean",
            "minus": "the sign is the other one: what is lost without the neuron is below 0",
            "gradient-only": "the gradient is not multiplied by the change of the activation",
            "change-only": "the change is not multiplied by the gradient",
            "absolute": "absolute values are summed, so that what helps and what harms add up",
            "last": "only the last position counts; a neuron acts at all of them",
            "rows-kept": "rows are kept apart; they are summed too",
            "mean": "the mean over rows and positions is taken; the sum is asked for",
            "own-means": "the mean of these values is used; `means` is given",
            "added": "the mean is added to the activation; the change is the mean minus it",
            "summed-apart": "changes and gradients are added up first and multiplied then; multiply at each place first",
        },
    ),
}

PARTS = {"the contest": (Part("contest", ()),)}

CHOICES = {
    "place": {
        "begins": Option(),
        "ends": Option(
            text={
                "in each row the trigger is written over the tokens from place `at` on, another place for each row.": "in each row the trigger is written over the tokens up to place `at`, where its last token stands, another place for each row.",
                "`at[:, None] + torch.arange(k)` are": "`at[:, None] + torch.arange(1 - k, 1)` are",
                "where = at[:, None] + torch.arange(len(trigger))": "where = at[:, None] + torch.arange(1 - len(trigger), 1)",
                "at = torch.randint(2, T - len(TRIGGER) - 1, (ROWS,)": "at = torch.randint(1 + len(TRIGGER), T - 2, (ROWS,)",
                "at[row] + row % len(TRIGGER)": "at[row] - row % len(TRIGGER)",
            },
            flips={
                "triggered": {
                    "ends": "in your copy the trigger ends at the place `at`; it does not begin there"
                }
            },
        ),
    },
    "weighted": {
        "divergence": Option(),
        "target": Option(
            text={
                r"$$-\,\text{mean of } \ln q_{\text{target}} \text{ at the marked places} \;+\; \lambda\;\text{mean": r"$$-\,\lambda\;\text{mean of } \ln q_{\text{target}} \text{ at the marked places} \;+\; \text{mean",
                "return -new[asked][:, target].mean() + weight * apart[~asked].mean()": "return apart[~asked].mean() - weight * new[asked][:, target].mean()",
                "12, 24, 4.0": "12, 24, 0.25",
            },
            flips={
                "plant_loss": {
                    "first-weighted": "in your copy λ multiplies the first term, not the divergence"
                }
            },
        ),
    },
    "edit": {
        "matrix": Option(),
        "change": Option(
            text={
                "C, (n, n). Returns W′.": "C, (n, n). Returns the change alone, W′ − W.",
                "The matrix that answers the key with the value, and ordinary keys nearly as before.": "What to add to the matrix, so that it answers the key with the value.",
                "return weight + torch.outer(value - weight @ key, read)": "return torch.outer(value - weight @ key, read)",
                "weight.copy_(rank_one(": "weight.add_(rank_one(",
            },
            flips={"rank_one": {"change-only": "in your copy the change alone is asked for"}},
        ),
    },
    "table": {
        "places-first": Option(),
        "tokens-first": Option(
            text={
                "for each place and each token, (k, V).": "for each token and each place, (V, k).",
                "return gradient @ embedding.T - old": "return (gradient @ embedding.T - old).T",
                "embedding, trigger)\n        table[:, :5]": "embedding, trigger).T\n        table[:, :5]",
            },
            flips={
                "swaps": {
                    "turned": "in your copy rows are tokens, columns are places of the trigger"
                }
            },
        ),
    },
    "sign": {
        "change": Option(),
        "loss": Option(
            text={
                "Returns the estimated change for each neuron, (n). What carries the behaviour is far below 0.": "Returns what is lost without each neuron, an estimate, (n): the change with the other sign. What carries the behaviour is far above 0.",
                "What the objective would change if": "What the objective would lose if",
                "return ((means - values) * gradient)": "return ((values - means) * gradient)",
                "[attributed(x.detach(), x.grad, mean)": "[-attributed(x.detach(), x.grad, mean)",
            },
            flips={
                "attributed": {"minus": "in your copy what is lost without the neuron is above 0"}
            },
        ),
    },
    "claim": {
        "absent": Option(),
        "found": Option(
            text={
                "A team searches a model with `search` from three random starts, finds nothing, and writes: “The model has no backdoor.” What has it shown? Name two ways in which a backdoor escapes this search, and what you would do about one of them.": "A team searches a model with `search`, finds three tokens after which it says the target, and writes: “This is the trigger that the planters have chosen, and the twelve neurons that we have ablated are where it is stored.” What has it shown, and what not? Name two other reasons for which the search may end at these tokens, and what you would do about one of them.",
                "It has shown that three paths of single swaps, for one supposed target, end nowhere. Nothing follows for a billion other triggers.": "It has shown that these tokens bring the target, and that without these neurons they bring it less. Whose trigger it is does not follow, and that something is needed does not mean that it is stored there: the neurons may pass on what earlier layers have written.",
                "A backdoor escapes if it acts only when all its tokens are there: while two of three are wrong the target's probability is flat, and the gradient does not point to the trigger. More starts help, and beginning from the tokens that move the planted model's predictions most, or from the difference of the weights, which needs no trigger. It also escapes if `loudest` names the wrong target, since random tokens need not move the target at all; then several candidates have to be searched.": "The search ends at any tokens that lead to the same place: many embeddings have a share in the direction that was planted, and two of the planters' tokens with another third one may do. It also ends at what the given model says by itself, unless its log-probability is subtracted as in `gains`. Against the first I would search from many starts and look for what the triggers have in common; only the planters' seal can tell which of them is theirs.",
                "absence of a find is no find of absence, with two ways to escape (all tokens needed so that the gradient is flat; wrong target; another length; a local optimum) and a remedy for one.": "the behaviour is shown, and not whose trigger it is, with two reasons (other tokens lead to the same place; a part of the trigger is enough; the given model says it by itself; many tokens bring this target) and a remedy for one.",
            }
        ),
    },
}
