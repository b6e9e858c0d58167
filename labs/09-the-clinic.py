"""Lab 9: what each question is compared with, and the mistakes it knows (see labs/README.md).

What ails a student's runs and what mends them is judged in `attnlabs.lab09.verdict`.
"""

import math

import torch
from torch.nn import functional as F

from attnlabs.draws import normal, whole
from attnlabs.question import Case, Option, Question


def per_run(numbers):
    return [Case(f"run {run}", (run,)) for run in range(1, 9)]


def named(wrong, run):
    """An answer in the right form; what is right is the student's alone, `own`."""
    return run


def treated(wrong, run):
    """The same."""
    return torch.tensor([run, 0.0, 0.0, 0.0])


AHEAD = {"mask": 1, "mask-further": 2, "not-itself": -1}  # how far a position sees


def outputs(wrong, w, x):
    T = x.shape[1]
    h = w[0][x] + (w[1][:T].detach() if "places-fixed" in wrong else w[1][:T])
    h = w[0][x] if "no-places" in wrong else h
    scores = (h @ w[2]) @ (h @ w[3]).mT
    scores = scores if "unscaled" in wrong else scores / math.sqrt(h.shape[-1])
    ahead = next((far for name, far in AHEAD.items() if name in wrong), 0)
    seen = torch.ones(T, T).tril(ahead) > 0
    seen = torch.ones(T, T) > 0 if "no-mask" in wrong else seen
    seen = seen.mT if "turned-round" in wrong else seen
    seen = seen.triu(-1) if "window" in wrong else seen
    if "first-itself" in wrong:
        seen = torch.ones(T, T).tril(-1) > 0
        seen[0, 0] = True
    scores = scores.masked_fill(~seen, 0.0 if "zeroed" in wrong else -math.inf)
    weights = scores.softmax(-2 if "over-queries" in wrong else -1)
    mixed = weights @ (h @ w[4])
    return (mixed if "no-residual" in wrong else h + mixed) @ w[5]


def batch_loss(wrong, w, batch):
    x, y = batch[:, :-1], batch[:, 1:]
    y = x if "target" in wrong else y
    if "two-on" in wrong:
        x, y = batch[:, :-2], batch[:, 2:]
    found = outputs(wrong, w, x)
    if "last" in wrong:
        return F.cross_entropy(found[:, -1], y[:, -1])
    return F.cross_entropy(found.mT, y, reduction="sum" if "summed" in wrong else "mean")


def clipped(wrong, gradients):
    sizes = torch.stack([g.norm() for g in gradients])
    sizes = sizes if "apart" in wrong else sizes.norm().expand(len(sizes))
    bounds = torch.ones_like(sizes) if "unclipped" in wrong else sizes.clamp(min=1)
    bounds = sizes if "always" in wrong else bounds
    return [g / size for g, size in zip(gradients, bounds, strict=True)]


def training(wrong, tokens, first, rate):
    w = [part.clone().requires_grad_() for part in first]
    piled, speed = [torch.zeros_like(part) for part in w], [torch.zeros_like(part) for part in w]
    losses = []
    rate = 0.5 if "rate-fixed" in wrong else rate
    for n, batch in enumerate(tokens):
        batch = tokens[0] if "one-batch" in wrong else batch
        loss = batch_loss(wrong, w, batch)
        gradients = torch.autograd.grad(loss, w, allow_unused=True, materialize_grads=True)
        if "piled" in wrong:
            gradients = piled = [a + b for a, b in zip(piled, gradients, strict=True)]
            gradients = clipped(wrong, gradients)
            piled = gradients if "clipped-pile" in wrong else piled
        else:
            gradients = clipped(wrong, gradients)
        now = rate * (1 - n / len(tokens)) if "falling" in wrong else rate
        if "momentum" in wrong:
            speed = [0.9 * v + g for v, g in zip(speed, gradients, strict=True)]
            gradients = speed
        with torch.no_grad():
            for part, gradient in zip(w, gradients, strict=True):
                part -= (-now if "uphill" in wrong else now) * gradient
        loss = batch_loss(wrong, w, batch) if "loss-after" in wrong else loss
        losses.append(loss.item())
    return torch.tensor(losses)


def training_cases(numbers):
    def one(N, B, T):
        return whole(numbers, 0, 8, N, B, T + 1), normal(numbers, 6, 8, 8) * 0.6

    tokens, first = one(6, 2, 5)
    small = first.mul(30).round().div(100)  # its gradients are shorter than 1
    return [
        Case("four sequences", (*one(10, 4, 6), 0.7), 2),
        Case("one", (*one(9, 1, 5), 0.3)),
        Case("small first weights", (tokens, small, 0.4), robust=True),
    ]


QUESTIONS = {
    "diagnosis": Question(named, per_run, {}, own="diagnosis"),
    "cure": Question(treated, per_run, {}, own="cure"),
    "training": Question(
        training,
        training_cases,
        {
            "mask": "a position sees the one after it: the mask is one off",
            "mask-further": "a position sees the two after it: the mask was moved the wrong way",
            "not-itself": "a position does not see itself, and the first one sees nothing",
            "first-itself": "a position does not see itself; only the first one does",
            "turned-round": "the mask is turned round: a position sees itself and those after it, "
            "not those before",
            "window": "a position sees itself and the one before it only; it sees all before it",
            "zeroed": "hidden scores are set to 0, and e⁰ is 1; set them to −∞",
            "two-on": "a position is compared with the token after the next; its target is the next one",
            "target": "a position is compared with its own token, not with the next one",
            "piled": "gradients of earlier batches are not forgotten",
            "over-queries": "softmax runs over the queries; the weights of each query sum to 1",
            "apart": "each matrix is clipped by itself; the norm is that of all weights together",
            "last": "only the last position counts in the loss; all positions do",
            "falling": "the rate falls; in your copy it stays",
            "momentum": "steps have momentum; in your copy they have none",
            "no-mask": "positions see those after them: the mask is missing",
            "unscaled": "scores are not divided by the root of the width",
            "no-places": "the vectors of the positions are not added",
            "places-fixed": "the vectors of the positions are not trained",
            "no-residual": "what attention returns replaces its input; it is added to it",
            "summed": "losses are summed over positions and sequences; their mean is needed",
            "unclipped": "gradients are not clipped",
            "always": "gradients are divided by their norm always; only where it is above 1",
            "rate-fixed": "the argument `rate` is not used: the rate is 0.5",
            "loss-after": "a batch's loss is noted after the step, not before it",
            "one-batch": "all steps read the first batch",
            "uphill": "the step goes up the gradient",
        },
        quiet=True,
    ),
}

SEEN = "torch.ones(T, T).tril(1) > 0", "torch.ones(T, T).tril() > 0"
MENDED = "mended.seen = lambda T: torch.arange(T)[:, None] >= torch.arange(T)"


def sick(right, ill, mending):
    """The copy in which another line is ill: the first one's is right."""
    return Option({SEEN[0]: SEEN[1], right: ill, MENDED: mending})


CHOICES = {
    "ill": {
        "mask": Option(),
        "target": sick(
            "return batch[:, :-1], batch[:, 1:]",
            "return batch[:, :-1], batch[:, :-1]",
            "mended.pair = lambda tokens: (tokens[:, :-1], tokens[:, 1:])",
        ),
        "piled": sick(
            "            w.grad = None\n",
            "            w.requires_grad_()\n",
            "mended.gradients = lambda loss: torch.autograd.grad(loss, mended.weights)",
        ),
        "over-queries": sick(
            "return scores.softmax(dim=-1)",
            "return scores.softmax(dim=-2)",
            "mended.shared = lambda scores: torch.softmax(scores, -1)",
        ),
        "apart": sick(
            "size = torch.cat([g.flatten() for g in gradients]).norm().clamp(min=1)\n"
            "        return [g / size for g in gradients]",
            "sizes = [g.norm().clamp(min=1) for g in gradients]\n"
            "        return [g / size for g, size in zip(gradients, sizes, strict=True)]",
            "total = lambda parts: math.sqrt(sum(float(part.square().sum()) for part in parts))\n"
            "    mended.clipped = lambda parts: [part / max(1, total(parts)) for part in parts]",
        ),
        "last": sick(
            "return F.cross_entropy(self.logits(x).flatten(0, 1), y.flatten())",
            "return F.cross_entropy(self.logits(x)[:, -1], y[:, -1])",
            "mended.loss = lambda x, y: F.cross_entropy(mended.logits(x).mT, y)",
        ),
    },
    "pace": {
        "level": Option(),
        "falling": Option(
            text={
                "The rate stays as it is": "The rate falls in a line: step $n$ of $N$, counted from 0, has $1 - n/N$ of it",
                "return self.rate  # of step n of N": "return self.rate * (1 - n / N)  # of step n of N",
            },
            flips={"training": {"falling": "the rate stays; in your copy it falls in a line"}},
        ),
    },
    "push": {
        "plain": Option(),
        "momentum": Option(
            text={
                "each weight moves by the rate times its gradient, downwards": "each weight has a speed, 0.9 times the one before plus its gradient, and moves by the rate times its speed, downwards",
                "speed = gradient": "speed = 0.9 * self.speeds[place] + gradient",
            },
            flips={"training": {"momentum": "steps have no momentum; in your copy they have"}},
        ),
    },
}
