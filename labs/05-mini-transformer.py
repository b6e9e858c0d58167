"""Lab 5: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import math

import torch
from torch.nn import functional as F

from attnlabs.draws import normal, small, whole
from attnlabs.question import Case, Option, Question


def windows(wrong, ids, starts, length):
    if "one-short" in wrong:
        length = length - 1
    if "starts-ignored" in wrong:
        starts = length * torch.arange(len(starts))
    if "first-start" in wrong:
        starts = starts[0] + length * torch.arange(len(starts))
    places = starts[:, None] + torch.arange(length)
    places = places + 1 if "from-one" in wrong else places
    later = 0 if "same" in wrong else -1 if "before" in wrong else 2 if "two-later" in wrong else 1
    after = places + (length if "behind" in wrong else later)
    inputs, targets = (places, after) if "places" in wrong else (ids[places], ids[after])
    if "rolled" in wrong:
        targets = inputs.roll(-1, -1)
    if "last-only" in wrong:
        targets = targets[:, -1:]
    if "transposed" in wrong:
        inputs, targets = inputs.T, targets.T
    if "last-alone" in wrong:
        targets = targets[-1] if "transposed" in wrong else targets[:, -1]
    return (targets, inputs) if "exchanged" in wrong else (inputs, targets)


def windows_cases(numbers):
    text = torch.randperm(60, generator=numbers)
    return [
        Case("three windows", (text, torch.tensor([20, 3, 31]), 5), 2),
        Case("windows that overlap", (text.flip(0), 4 + whole(numbers, 0, 40, 6), 7)),
        Case("up to the last character", (text[:30], torch.tensor([25, 7]), 4)),
    ]


def causal_heads(wrong, x, in_weight, out_weight, H):
    B, T, C = x.shape
    parts = (x @ in_weight.T).split(C, -1)
    parts = parts[::-1] if "values-first" in wrong else parts
    if "parts-per-head" in wrong:
        parts = (x @ in_weight.T).reshape(B, T, H, 3, C // H).unbind(3)
    if "mixed-heads" in wrong:  # the numbers in memory order, in the right shape
        q, k, v = (part.reshape(B, H, T, C // H) for part in parts)
    elif "interleaved" in wrong:
        q, k, v = (part.reshape(B, T, C // H, H).permute(0, 3, 1, 2) for part in parts)
    else:
        q, k, v = (part.reshape(B, T, H, C // H).transpose(1, 2) for part in parts)
    k = k[:, :1] if "first-keys" in wrong else k
    scores = k @ q.mT if "order" in wrong else q @ k.mT
    if "unscaled" not in wrong:
        width = C if "scale-width" in wrong else C // H
        scores = scores / (width if "no-root" in wrong else math.sqrt(width))
    place = torch.arange(T)
    latest = place + int("one-ahead" in wrong)
    latest = latest - int(bool(wrong & {"not-itself", "not-itself-zero"}))
    see = place <= latest[:, None]
    if wrong & {"polarity", "future-only"}:
        see = ~see
    if "upside-down" in wrong:
        see = place >= place[:, None]
    axis = -2 if "axis" in wrong else -1
    if "future" in wrong:
        weights = scores.softmax(axis)
    elif "after" in wrong:
        weights = scores.softmax(axis) * see
    else:
        low = -1e9 if "future-only" in wrong else -math.inf
        weights = scores.masked_fill(~see, 0.0 if "zeros" in wrong else low).softmax(axis)
    weights = weights.nan_to_num(0) if "not-itself-zero" in wrong else weights
    heads = weights @ v
    weights = scores if "scores-back" in wrong else weights
    weights = weights.mean(1) if "averaged" in wrong else weights
    heads = heads if "merged-mixed" in wrong else heads.transpose(1, 2)
    heads = heads.reshape(B, T, C)
    if "no-output" in wrong:
        return heads, weights
    return heads @ (out_weight if "untransposed" in wrong else out_weight.T), weights


def causal_heads_cases(numbers):
    def one(B, T, C, H):
        return (
            normal(numbers, B, T, C),
            small(numbers, 3 * C, C),
            small(numbers, C, C),
            H,
        )

    return [
        Case("two heads", one(1, 5, 6, 2), 2),
        Case("three heads", one(2, 4, 12, 3)),
    ]


def norm(x, gain):
    return F.layer_norm(x, x.shape[-1:], gain)


def decoder_block(wrong, x, gains, in_weight, out_weight, up, down, H):
    def attention(x):
        return causal_heads(frozenset(), x, in_weight, out_weight, H)[0]

    def mlp(x):
        hidden = x @ up.T
        if "late-gelu" in wrong:
            return F.gelu(hidden @ down.T)
        if "silu" in wrong:
            return F.silu(hidden) @ down.T
        if "no-activation" in wrong:
            return hidden @ down.T
        gelu = F.gelu(hidden, approximate="tanh" if "tanh-gelu" in wrong else "none")
        return (hidden.relu() if "relu" in wrong else gelu) @ down.T

    def step(part, stream, asked, gain, name):
        """The stream after one part, which read `asked`."""
        if "post-norm" in wrong:
            return norm(stream + part(asked), gain)
        if wrong & {"stream-normed", f"{name}-normed"}:
            return norm(stream, gain) + part(norm(asked, gain))
        found = part(asked if f"{name}-unnormed" in wrong else norm(asked, gain))
        return found if f"{name}-alone" in wrong else stream + found

    first, second = gains.flip(0) if "gains-exchanged" in wrong else gains
    if "second-gain" in wrong:
        first = second
    parts = [(attention, first, "attention")]
    parts.append((mlp, first if "same-gain" in wrong else second, "mlp"))
    (one, gain, name), last = parts[::-1] if "mlp-first" in wrong else parts
    after = step(one, x, x, gain, name)
    asked = x if "side-by-side" in wrong else after
    stream = x if "attention-lost" in wrong else after
    one, gain, name = last
    result = step(one, stream, asked, gain, name)
    return result + x if "x-twice" in wrong else result


def decoder_block_cases(numbers):
    def one(B, T, C, H, hidden):
        weights = [(3 * C, C), (C, C), (hidden, C), (C, hidden)]
        gains = 1 + small(numbers, 2, C)
        x = 1 + 2 * normal(numbers, B, T, C)
        return x, gains, *(small(numbers, *shape) for shape in weights), H

    return [
        Case("two heads", one(1, 4, 6, 2, 8), 2),
        Case("a batch", one(2, 3, 8, 4, 5)),
    ]


# The least probability whose logarithm is taken, for each name
BOUNDED = {f"bounded-{n}": 10.0**-n for n in (5, 6, 7, 8, 9, 10, 12, 15, 20)}


def next_losses(wrong, logits, targets):
    if "shifted-again" in wrong:
        logits, targets = logits[:, :-1], targets[:, 1:]
    if "rolled-again" in wrong:
        targets = targets.roll(-1, 1)
    axis = 1 if "positions" in wrong else 0 if "batch" in wrong else -1
    log_p = logits.log_softmax(axis)
    if "overflow" in wrong and "underflow" in wrong:
        log_p = (logits.exp() / logits.exp().sum(axis, keepdim=True)).log()
    elif "overflow" in wrong:
        log_p = logits - logits.exp().sum(axis, keepdim=True).log()
    elif "underflow" in wrong:
        log_p = logits.softmax(axis).log()
    if "not-normalised" in wrong:
        log_p = logits
    for name, least in BOUNDED.items():
        log_p = log_p.exp().clamp_min(least).log() if name in wrong else log_p
    losses = -log_p.gather(-1, targets[..., None])[..., 0]
    if "probability" in wrong:
        return (-losses).exp()
    if "minus-probability" in wrong:
        return -(-losses).exp()
    if "other-probability" in wrong:
        return 1 - (-losses).exp()
    if "entropy" in wrong:
        losses = -(log_p.exp() * log_p).sum(-1)
    if "likeliest" in wrong:
        losses = -log_p.amax(-1)
    losses = losses / math.log(2) if "bits" in wrong else losses
    losses = -losses if "sign" in wrong else losses
    return losses.mean() if "averaged" in wrong else losses


def next_losses_cases(numbers):
    def one(B, T, V):
        return 2 * normal(numbers, B, T, V), whole(numbers, 0, V, B, T)

    hopeless, targets = one(2, 5, 6)
    hopeless = hopeless.scatter(-1, targets[..., None], -150.0)
    large = normal(numbers, 2, 5, 4) + 200, whole(numbers, 0, 4, 2, 5)
    return [
        Case("one window", one(1, 12, 5), 2),
        Case("a batch", one(3, 4, 6)),
        Case(
            "characters held to be impossible, with losses far above 100",
            (hopeless, targets),
            robust=True,
        ),
        Case("large logits", large, robust=True),
    ]


def next_distribution(wrong, logits, temperature, p):
    warmed = logits * temperature if "multiplied" in wrong else logits / temperature
    warmed = logits if "temperature-ignored" in wrong else warmed
    ranked = (logits if "cut-first" in wrong else warmed).softmax(-1)
    if "late-temperature" in wrong:
        warmed, ranked = logits, logits.softmax(-1) / temperature
    ordered, which = ranked.sort(-1, descending="ascending" not in wrong)
    total = ordered.cumsum(-1)
    keep = ordered >= p if "each" in wrong else total - ordered < p
    if "each-rest" in wrong:
        keep = ordered >= 1 - p
        keep[:, 0] = True
    keep = total <= p if wrong & {"too-few", "too-few-kept"} else keep
    keep[:, 0] |= "too-few-kept" in wrong
    if "too-many" in wrong:
        keep = torch.cat([keep[:, :1], keep[:, :-1]], 1)
    here = torch.zeros_like(keep).scatter(-1, which, keep)
    if "unplaced" in wrong:
        here = keep
    if "fetched" in wrong:
        here = keep.gather(-1, which)
    if "no-cut" in wrong:
        here = torch.ones_like(here)
    warmed = logits if "forgotten" in wrong else warmed
    warmed = warmed.softmax(-1) if "twice" in wrong else warmed
    if "overflow" in wrong:
        chances = warmed.exp() * here / (warmed.exp() * here).sum(-1, keepdim=True)
    else:
        chances = warmed.masked_fill(~here, 0 if "zeros" in wrong else -math.inf).softmax(-1)
    if "not-shared" in wrong:
        chances = warmed.softmax(-1) * here
    if "ranked-back" in wrong:
        return chances.gather(-1, which).gather(-1, which)
    return chances.gather(-1, which) if "sorted" in wrong else chances


def apart(numbers, B, V):
    """Logits of which no two are nearly equal: nobody has to decide about ties.

    The rows are ever more spread out, so that not all keep equally many.
    """
    levels = torch.stack([torch.randperm(V, generator=numbers) for _ in range(B)])
    spread = torch.linspace(0.3, 1.8, B)[:, None]
    logits = spread * (0.5 * levels + 0.3 * torch.rand(B, V, generator=numbers))
    return logits.mul(100).round().div(100)


def next_distribution_cases(numbers):
    return [
        Case("six rows, colder", (apart(numbers, 6, 7), 0.5, 0.85), 2),
        Case("hot", (apart(numbers, 3, 6), 2.0, 0.6)),
        Case("nothing cut off", (apart(numbers, 2, 5), 1.5, 1.0)),
        Case("cut very short", (apart(numbers, 3, 5), 0.5, 0.2)),
        Case("nearly no temperature", (apart(numbers, 2, 6), 0.01, 0.9), robust=True),
    ]


def append_next(wrong, tokens, chances, luck, length):
    if "same-luck" in wrong:
        luck = luck[:1].expand_as(luck)
    line = chances.sort(-1, descending=True).values if "sorted" in wrong else chances
    down = wrong & {"batch-sums", "batch-sums-last"}
    total = line.cumsum(0 if down else -1)
    below = total < luck[:, None] if "border" in wrong else total <= luck[:, None]
    new = below.sum(-1)
    if "sorted" in wrong:
        new = chances.argsort(-1, descending=True).gather(-1, new[:, None])[:, 0]
    if "not-summed" in wrong:
        new = (chances > luck[:, None]).int().argmax(-1)
    if "greedy" in wrong:
        new = chances.argmax(-1)
    if "batch-sums-found" in wrong:
        new = (line.cumsum(0) > luck[:, None]).int().argmax(-1)
    if "counted" in wrong:
        new = (~below).sum(-1) - 1
    if "other-end" in wrong:
        new = (chances.flip(-1).cumsum(-1) > luck[:, None]).int().argmax(-1)
    late = wrong & {"one-late", "one-late-last"}
    new = new - int("one-early" in wrong) + int(bool(late))
    if wrong & {"one-late-last", "batch-sums-last"}:
        new = new.clamp(max=chances.shape[1] - 1)
    if "one-early-first" in wrong:
        new = (new - 1).clamp(min=0)
    if "first-dropped" in wrong:
        tokens = tokens[:, 1:]
    if "crop-first" in wrong:
        tokens = tokens[:, -length:]
    parts = (new[:, None], tokens) if "in-front" in wrong else (tokens, new[:, None])
    longer = torch.cat(parts, 1)
    if {"no-crop", "crop-first"} & wrong:
        return longer
    return longer[:, :length] if "wrong-end" in wrong else longer[:, -length:]


def append_next_cases(numbers):
    def one(B, T, V, length):
        shares = 5 + whole(numbers, 0, 20, B, V)
        chances = (100 * shares / shares.sum(-1, keepdim=True)).floor()
        chances[:, -1] += 100 - chances.sum(-1)  # whole per cents: luck lies between their sums
        luck = (whole(numbers, 0, 100, B) + 0.5) / 100
        return whole(numbers, 0, V, B, T), chances / 100, luck, length

    quarters = torch.tensor([[0.0, 1, 2, 1], [2, 0, 1, 1], [1, 1, 1, 1], [0, 0, 3, 1]])
    borders = torch.tensor([0.0, 0.5, 0.25, 0.0])
    return [
        Case("a full window", one(6, 5, 7, 5), 2),
        Case("a window with room", one(8, 3, 6, 9)),
        Case("more than a window", one(5, 7, 5, 4)),
        Case(
            "luck on a border", (whole(numbers, 0, 4, 4, 3), quarters / 4, borders, 5), robust=True
        ),
    ]


LAST = "only the last position has a target; each position has one"
EACH = "each character's own probability decides whether it is kept; the sum down to it does"
LATE = "the character just after the right one is taken"
DOWN = "the sums run down the batch; they run along the characters of a row"

QUESTIONS = {
    "windows": Question(
        windows,
        windows_cases,
        {
            "first-start": "only the first start is used; the other windows follow one behind the other",
            "same": "the targets are the inputs; they are what comes one later",
            "one-short": "the windows are one too short: length + 1 characters are needed for "
            "inputs and targets of `length`",
            "behind": "the targets are the characters behind the window; each target comes one "
            "after its own input",
            "two-later": "the targets come two later than the inputs; they are what comes one "
            "later",
            "before": "the targets come one earlier than the inputs; they are what comes one later",
            "rolled": "the last target of each window is its first character; it is the one behind "
            "the window",
            "places": "these are places in the text; what stands there, `ids[…]`, is asked for",
            "last-only": LAST,
            "last-alone": LAST,
            "exchanged": "inputs and targets are exchanged",
            "starts-ignored": "`starts` is not used: the windows stand one after another",
            "transposed": "positions and windows are exchanged: a row is a window",
            "from-one": "the windows begin one place too late: a window holds what stands at its start, too",
        },
    ),
    "causal_heads": Question(
        causal_heads,
        causal_heads_cases,
        {
            "future": "a position sees what comes after it: the causal mask is missing",
            "not-itself": "a position does not see itself; it may",
            "one-ahead": "a position sees the one after it: the mask begins one place too late",
            "polarity": "the mask keeps what it should hide: only what comes later is seen",
            "future-only": "the mask keeps what it should hide: only what comes later is seen",
            "upside-down": "the mask is the wrong way round: what came before is hidden, and what "
            "comes later is seen",
            "zeros": "hidden scores are set to 0, and e⁰ is 1; set them to −∞",
            "after": "the mask comes after the softmax: rows of weights no longer sum to 1",
            "unscaled": "scores not divided by √D",
            "scale-width": "scores divided by √C, the width of all heads, instead of √D, the width "
            "of one",
            "no-root": "scores divided by the width itself, not by its root",
            "axis": "softmax over the positions that look instead of over those looked at (the "
            "last axis)",
            "order": "queries and keys are exchanged",
            "parts-per-head": "`in_weight` is read as query, key and value of one head after "
            "another; it has first the queries of all heads, then all keys, then all values",
            "interleaved": "a head gets every H-th channel instead of D neighbouring ones",
            "mixed-heads": "heads cut out by reshape alone: each mixes several positions",
            "merged-mixed": "heads put side by side by reshape alone: exchange the axes of heads "
            "and positions first",
            "no-output": "the heads are not multiplied by the output matrix",
            "averaged": "the weights are averaged over the heads; those of each head are returned",
            "untransposed": "`out_weight` is stored as (out, in): apply it with .T",
            "values-first": "queries and values are exchanged: the first C rows of `in_weight` make the queries, the last the values",
            "first-keys": "all heads use the keys of the first head; each has its own",
            "not-itself-zero": "a position does not see itself; it may",
            "scores-back": "the scores are returned instead of the weights",
        },
        banned=("scaled_dot_product_attention", "MultiheadAttention"),
        trained=("x", "in_weight", "out_weight"),
    ),
    "decoder_block": Question(
        decoder_block,
        decoder_block_cases,
        {
            "post-norm": "the norm stands behind the sum; it belongs on what a part reads",
            **dict.fromkeys(
                ("stream-normed", "attention-normed", "mlp-normed"),
                "x itself is normalised before something is added to it; only the copy that a part "
                "reads is normalised",
            ),
            "mlp-first": "the MLP comes first and the attention second; it is the other way round",
            "attention-alone": "what the attention finds takes the place of x; it is added to x",
            "mlp-alone": "what the MLP finds is returned alone; it is added to what was there",
            "attention-lost": "at the end what the attention found is missing: the MLP's is added "
            "to x alone",
            "attention-unnormed": "the attention reads x itself, not a normalised copy",
            "mlp-unnormed": "the MLP reads what is not normalised",
            "side-by-side": "the MLP reads what the attention read; it reads the sum after it",
            "same-gain": "the second norm has the gain of the first",
            "second-gain": "the first norm has the gain of the second",
            "gains-exchanged": "the two norms have each other's gain",
            "relu": "the MLP has a ReLU; it should be GELU",
            "no-activation": "the MLP has no activation",
            "x-twice": "x is added once more at the end; the sum after the attention holds it already",
            "late-gelu": "the activation comes after the second matrix; it stands between the two",
            "silu": "the MLP has a SiLU; it should be GELU",
        },
        also_right=("tanh-gelu",),
        trained=("x", "gains", "in_weight", "out_weight", "up", "down"),
    ),
    "next_losses": Question(
        next_losses,
        next_losses_cases,
        {
            "sign": "the sign is wrong: a loss is minus a logarithm, and never below 0",
            "bits": "the losses are in bits, by logarithms to base 2; they should be in nats",
            "not-normalised": "minus the logit is no loss: the logarithm of the sum over all "
            "characters is missing",
            "averaged": "the losses are averaged; keep one for each position",
            "shifted-again": "targets are moved by one once more; `windows` has done so",
            "rolled-again": "the targets are shifted once more; they are already what comes one later",
            "positions": "softmax over the positions instead of over the characters (the last "
            "axis)",
            "other-probability": "this is 1 minus the probability of the target; a loss is minus a "
            "logarithm",
            "entropy": "this is the mean surprise that the model expects, its entropy; the surprise at "
            "the target is asked for",
            "likeliest": "this is the loss of the likeliest character; that of the target is asked for",
            "probability": "this is the probability of the target; its logarithm is missing",
            "overflow": "the exponential overflows for large logits: subtract the largest first",
            **dict.fromkeys(
                BOUNDED,
                "the probability is kept above a small number, so no loss can be as large as it is: "
                "stay with logarithms",
            ),
            "underflow": "a probability becomes 0 before its logarithm is taken, and the loss "
            "infinite: stay with logarithms",
            "minus-probability": "this is minus the probability of the target; minus its logarithm is asked for",
            "batch": "softmax over the batch instead of over the characters (the last axis)",
        },
        banned=("cross_entropy", "CrossEntropyLoss", "cross_entropy_loss", "nll_loss"),
        trained=("logits",),
    ),
    "next_distribution": Question(
        next_distribution,
        next_distribution_cases,
        {
            "multiplied": "logits multiplied by the temperature; they are divided by it",
            "temperature-ignored": "the temperature is not used",
            "cut-first": "it is decided before the temperature what is kept; the temperature comes "
            "first",
            "too-few": "the character with which the sum reaches p is cut off; it stays",
            "too-few-kept": "the character with which the sum reaches p is cut off; it stays",
            "too-many": "one character more is kept than it takes to reach p",
            "no-cut": "nothing is cut off: p is not used",
            "ascending": "ordered from unlikely to likely; the likeliest come first",
            "each": EACH,
            "each-rest": EACH,
            "not-shared": "what is left does not sum to 1",
            "ranked-back": "the sorted probabilities are brought back with gather at their order, which "
            "goes the other way: use scatter, or gather at the argsort of the order",
            "sorted": "the probabilities are sorted; each belongs back in the place of its "
            "character",
            "unplaced": "what is kept was found in sorted order, but is applied to the characters "
            "as they stand: bring it back to their places",
            "fetched": "what is kept is brought back with gather, which goes the other way: use "
            "scatter, or gather at the argsort of the order",
            "forgotten": "after the cut the temperature is forgotten",
            "zeros": "logits cut off are set to 0, and e⁰ is 1; set them to −∞",
            "twice": "probabilities go through the softmax once more; the logits should",
            "overflow": "the exponential overflows at low temperatures: subtract the largest first",
            "late-temperature": "the probabilities are divided by the temperature; the logits are, before the softmax",
        },
    ),
    "append_next": Question(
        append_next,
        append_next_cases,
        {
            "greedy": "the likeliest character is taken, whatever `luck` says",
            "border": "the first sum that is at least `luck` is taken; it is the first one above it",
            "one-early": "the character just before the right one is taken: count those whose sum "
            "is not above `luck`",
            "one-late": LATE,
            "one-late-last": LATE,
            "batch-sums": DOWN,
            "batch-sums-last": DOWN,
            "batch-sums-found": DOWN,
            "not-summed": "each character's own probability is compared with `luck`; the sum up to "
            "it is",
            "sorted": "the line is laid out from likely to unlikely; it begins with character 0",
            "same-luck": "all rows have the luck of the first one",
            "no-crop": "the result is not cut to the window",
            "first-dropped": "the first token is dropped even where there is room; only what does not fit "
            "is cut",
            "crop-first": "cut first and longer by one afterwards: append, then cut",
            "wrong-end": "the beginning is kept and the end cut off; keep the end",
            "in-front": "the new character stands in front; it belongs at the end",
            "counted": "the characters above `luck` are counted, which counts from the other end; the first of them is drawn",
            "other-end": "the line is laid from the last character on; it begins with character 0",
            "one-early-first": "the character just before the right one is taken",
        },
    ),
}

CHOICES = {
    "block": {
        "in turn": Option(),
        "side by side": Option(
            text={
                "$y = x + \\text{attention}(\\text{norm}(x))$, then $y + \\text{mlp}(\\text{norm}"
                "(y))$": "$x + \\text{attention}(\\text{norm}(x)) + \\text{mlp}(\\text{norm}(x))$",
                "One after the other, as in GPT-2.": "Side by side, as in GPT-NeoX: both read the "
                "same x.",
                "inner = norm(y, gains[1]) @ up.T": "inner = norm(x, gains[1]) @ up.T",
            },
            flips={
                "decoder_block": {
                    "side-by-side": "the MLP reads the sum after the attention; here both read x"
                }
            },
        ),
    },
    "unit": {
        "nats": Option(),
        "bits": Option(
            text={
                "nats": "bits",
                "$-\\ln p$": "$-\\log_2 p$",
                "    return normaliser - of_target": "    return (normaliser - of_target) / "
                "math.log(2)",
            },
            flips={
                "next_losses": {
                    "bits": "the losses are in nats, by natural logarithms; they should be in bits"
                }
            },
        ),
    },
    "cut": {
        "after the temperature": Option(),
        "before the temperature": Option(
            text={
                "with the probabilities after the temperature: first the temperature, then the "
                "cut": "with the probabilities before the temperature, those of the logits as they "
                "are: first the cut, then the temperature",
                "ranked, which = colder.softmax(": "ranked, which = logits.softmax(",
            },
            flips={
                "next_distribution": {
                    "cut-first": "it is decided after the temperature what is kept; here the cut "
                    "comes first"
                }
            },
        ),
    },
    "numbers": {
        "3.0, 2.2, 1.6": Option(),
        "2.8, 2.0, 1.4": Option(
            text={
                "3.0 after one character, 2.2 after two and 1.6": "2.8 after one character, 2.0 "
                "after two and 1.4",
                "1.66 and 1.85": "1.46 and 1.65",
                "3.0 + 2.2 + 30 · 1.6": "2.8 + 2.0 + 30 · 1.4",
                "6 · 1.6": "6 · 1.4",
            }
        ),
    },
}
