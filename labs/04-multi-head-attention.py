"""Lab 4: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import math

import torch

from attnbook.labs.question import Case, Option, Question


def normal(numbers, *shape):
    return torch.randn(*shape, generator=numbers).mul(100).round().div(100)


def small(numbers, *shape):
    """Weights of a usual size: a layer's outputs stay of order 1."""
    return normal(numbers, *shape).mul(50).round().div(100)


def look(numbers, *shape):
    """A random mask in which each query sees something and something is hidden from each."""
    mask = torch.rand(*shape, generator=numbers) < 0.6
    for row in range(shape[-2]):
        mask[..., row, row % shape[-1]], mask[..., row, (row + 2) % shape[-1]] = True, False
    return mask


def split_heads(wrong, x, H):
    *batch, T, C = x.shape
    if "no-transpose" in wrong:  # the numbers in memory order, in the right shape
        return x.reshape(*batch, H, T, C // H)
    heads = x.reshape(*batch, T, H, C // H)
    if "interleaved" in wrong:
        heads = x.reshape(*batch, T, C // H, H).mT
    return heads if "heads-after" in wrong else heads.transpose(-2, -3)


def split_cases(numbers):
    batch = normal(numbers, 2, 3, 4, 6)
    return [
        Case("one sequence", (normal(numbers, 5, 6), 2), 2),
        Case("batches in front", (batch, 3)),
    ]


def merge_heads(wrong, x):
    *batch, H, T, D = x.shape
    if "no-transpose" in wrong:
        return x.reshape(*batch, T, H * D)
    if "interleaved" in wrong:
        return x.movedim(-3, -1).reshape(*batch, T, D * H)
    if "averaged" in wrong:
        return x.mean(-3)
    return x.transpose(-2, -3).reshape(*batch, T, H * D)


def merge_cases(numbers):
    batch = normal(numbers, 2, 3, 4, 5)
    return [
        Case("one sequence", (normal(numbers, 2, 5, 3),), 2),
        Case("batches in front", (batch,)),
    ]


def project(wrong, x, weight, bias):
    if "transposed" in wrong:
        weight = weight.reshape(weight.shape[1], weight.shape[0]).T
    y = x @ weight.T
    if "no-bias" not in wrong:
        y = y + bias
    parts = list(y.split(y.shape[-1] // 3, -1))
    if "every-third" in wrong:
        parts = [y[..., n::3] for n in range(3)]
    if "order" in wrong:
        parts = [parts[1], parts[0], parts[2]]
    return y if "not-split" in wrong else tuple(parts)


def project_cases(numbers):
    def one(C, *batch):
        return normal(numbers, *batch, C), small(numbers, 3 * C, C), normal(numbers, 3 * C)

    return [Case("one sequence", one(4, 5), 2), Case("a batch", one(6, 2, 3))]


def heads_of(wrong, q, k, v, H, mask):
    """Attention in each head, and the heads side by side again."""
    split = {"no-transpose"} if "mixed-heads" in wrong else set()
    q, k, v = (split_heads(split, part, H) for part in (q, k, v))
    scale = q.shape[-1] * (H if "scale-width" in wrong else 1)
    scores = q @ k.mT
    if "unscaled" not in wrong:
        scores = scores / math.sqrt(scale)
    if mask is not None and "mask-ignored" not in wrong:
        mask = ~mask if "polarity" in wrong else mask
        scores = scores.masked_fill(~mask[..., None, :, :], -math.inf)
    weights = scores.softmax(-2 if "axis" in wrong else -1)
    return merge_heads(split, weights @ v)


def multi_head(wrong, x, in_weight, in_bias, out_weight, out_bias, H, mask=None):
    heads = heads_of(wrong, *project(wrong & {"order"}, x, in_weight, in_bias), H, mask)
    if "no-output" in wrong:
        return heads
    out = heads @ (out_weight if "out-transposed" in wrong else out_weight.T)
    return out if "no-out-bias" in wrong else out + out_bias


def layer(numbers, C):
    in_weight, in_bias = small(numbers, 3 * C, C), normal(numbers, 3 * C)
    return in_weight, in_bias, small(numbers, C, C), normal(numbers, C)


def multi_head_cases(numbers):
    x, one = normal(numbers, 1, 5, 6), normal(numbers, 2, 4, 12)
    masks = look(numbers, 4, 4), look(numbers, 2, 4, 4)
    return [
        Case("no mask", (x, *layer(numbers, 6), 2), 2),
        Case("three heads", (one, *layer(numbers, 12), 3)),
        Case("one mask for all", (one, *layer(numbers, 12), 3, masks[0])),
        Case("a mask for each sequence", (one, *layer(numbers, 12), 3, masks[1])),
    ]


def cross(wrong, x, memory, in_weight, in_bias, out_weight, out_bias, H):
    asks, told = (memory, x) if "swapped" in wrong else (x, memory)
    if "self" in wrong:
        told = asks
    q = project(set(), asks, in_weight, in_bias)[0]
    _, k, v = project(set(), told, in_weight, in_bias)
    if "values-from-x" in wrong and asks.shape == told.shape:
        v = project(set(), asks, in_weight, in_bias)[2]
    heads = heads_of(wrong, q, k, v, H, None)
    return heads @ out_weight.T + out_bias


def cross_cases(numbers):
    x, memory = normal(numbers, 2, 3, 6), normal(numbers, 2, 5, 6)
    same = normal(numbers, 1, 4, 8), normal(numbers, 1, 4, 8)
    return [
        Case("three ask, five answer", (x, memory, *layer(numbers, 6), 2), 2),
        Case("as many as there are answers", (*same, *layer(numbers, 8), 2)),
    ]


def grouped(wrong, q, k, v, mask=None):
    H, G = q.shape[-3], k.shape[-3]
    if "first-only" in wrong:
        k, v = k[..., :1, :, :], v[..., :1, :, :]
    elif "tiled" in wrong:
        k, v = (part.repeat(1, H // G, 1, 1) for part in (k, v))
    else:
        k, v = (part.repeat_interleave(H // G, -3) for part in (k, v))
    if "values-tiled" in wrong:
        v = v.reshape(v.shape[0], G, -1, *v.shape[-2:]).transpose(1, 2).reshape(v.shape)
    scores = q @ k.mT
    if "unscaled" not in wrong:
        scores = scores / math.sqrt(q.shape[-1])
    if mask is not None and "mask-ignored" not in wrong:
        scores = scores.masked_fill(mask if "polarity" in wrong else ~mask, -math.inf)
    return scores.softmax(-2 if "axis" in wrong else -1) @ v


def grouped_cases(numbers):
    def qkv(B, H, G, T, D):
        shapes = (B, H, T, D), (B, G, T, D), (B, G, T, D)
        return tuple(normal(numbers, *shape) for shape in shapes)

    return [
        Case("four heads, two of keys", qkv(2, 4, 2, 3, 5), 2),
        Case("a mask", (*qkv(1, 6, 2, 4, 3), look(numbers, 4, 4))),
        Case("one head of keys for all", qkv(1, 4, 1, 3, 2)),
    ]


def contributions(wrong, heads, out_weight):
    H, D = heads.shape[-3], heads.shape[-1]
    columns = out_weight if "transposed" not in wrong else out_weight.T
    parts = [columns[:, h * D : (h + 1) * D].T for h in range(H)]
    if "interleaved" in wrong:
        parts = [columns[:, h::H].T for h in range(H)]
    if "same-part" in wrong:
        parts = [parts[0]] * H
    added = torch.stack([heads[..., h, :, :] @ parts[h] for h in range(H)], -3)
    if "averaged" in wrong:
        added = added / H
    return added.sum(-3) if "summed" in wrong else added


def contributions_cases(numbers):
    one = normal(numbers, 1, 2, 5, 3), small(numbers, 6, 6)
    return [
        Case("two heads", one, 2),
        Case("three heads", (normal(numbers, 2, 3, 4, 2), small(numbers, 6, 6))),
    ]


ATTENTION = {
    "unscaled": "scores not divided by √D",
    "axis": "softmax over the queries (axis −2) instead of over the keys (axis −1)",
}
MASK = {
    "mask-ignored": "the mask is not used",
    "polarity": "the mask keeps what it should hide: True means that looking is allowed",
}
HEADS = {
    "no-transpose": "the axes of positions and heads are not exchanged: reshape alone mixes "
    "numbers of different positions",
    "interleaved": "a head gets every H-th channel instead of D neighbouring ones",
}

QUESTIONS = {
    "split_heads": Question(
        split_heads,
        split_cases,
        HEADS | {"heads-after": "the heads stand behind the positions; they belong before them"},
    ),
    "merge_heads": Question(
        merge_heads,
        merge_cases,
        HEADS | {"averaged": "the heads are averaged; they belong side by side"},
    ),
    "project": Question(
        project,
        project_cases,
        {
            "order": "queries and keys exchanged: the first third of the rows makes the queries",
            "no-bias": "the bias is not added",
            "every-third": "every third channel is taken; q, k and v are three blocks one after "
            "the other",
            "transposed": "the matrix is read the wrong way round: a row of it makes one channel",
            "not-split": "q, k and v are still one tensor; return three",
        },
    ),
    "multi_head": Question(
        multi_head,
        multi_head_cases,
        ATTENTION
        | MASK
        | {
            "scale-width": "scores divided by √C, the width of all heads, instead of √D, the width "
            "of one",
            "mixed-heads": "heads cut out by reshape alone: each mixes several positions",
            "no-output": "the heads are not multiplied by the output matrix",
            "out-transposed": "the output matrix is used the wrong way round",
            "no-out-bias": "the bias of the output is not added",
            "order": "queries and keys exchanged",
        },
        banned=("MultiheadAttention", "multi_head_attention_forward"),
    ),
    "cross": Question(
        cross,
        cross_cases,
        {
            "swapped": "the memory asks and x answers; it is the other way round",
            "self": "keys and values come from x instead of from the memory",
            "values-from-x": "the values come from x instead of from the memory",
            "unscaled": ATTENTION["unscaled"],
            "scale-width": "scores divided by √C instead of √D",
            "axis": ATTENTION["axis"],
        },
        banned=("MultiheadAttention", "multi_head_attention_forward"),
    ),
    "grouped": Question(
        grouped,
        grouped_cases,
        ATTENTION
        | MASK
        | {
            "tiled": "queries 0, 1, 2, … use heads 0, 1, 0, 1 of the keys; neighbours belong "
            "together: 0, 0, 1, 1",
            "first-only": "all queries use the first head of keys",
            "values-tiled": "keys and values are not shared in the same way",
        },
    ),
    "contributions": Question(
        contributions,
        contributions_cases,
        {
            "transposed": "the output matrix is used the wrong way round",
            "interleaved": "a head meets every H-th column of the matrix; its own are D neighbours",
            "same-part": "all heads meet the same part of the matrix",
            "averaged": "divided by the number of heads; heads add up, they are not averaged",
            "summed": "the heads are added already; keep them apart",
        },
    ),
}

CHOICES = {
    "sharing": {
        "neighbours": Option(),
        "in turn": Option(
            text={
                "the\nfirst `H/G` query heads use the first head of keys and values, the next `H/G` the second, and so on.": "query heads take\nthem in turn: with G = 2, query heads 0, 2, 4, … use the first head of keys and values, 1, 3, 5, … the second.",
                "in which neighbouring query heads share keys and values": "in which query heads take keys and values in turn",
                "k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)": "k.repeat(1, share, 1, 1), v.repeat(1, share, 1, 1)",
            },
            flips={
                "grouped": {
                    "tiled": "neighbouring queries use the same head of keys; here they take them "
                    "in turn: 0, 1, 0, 1"
                }
            },
        ),
    },
    "stored": {
        "(out, in)": Option(),
        "(in, out)": Option(
            text={
                "`out_weight`: (C, C) with C = H·D.": "`out_weight`: (C, C) with C = H·D, in this question stored as GPT-2 stores it, (in, out), and applied as `merged @ out_weight`.",
                "out_weight.T.unflatten(": "out_weight.unflatten(",
            },
            flips={
                "contributions": {
                    "transposed": "the output matrix is used the wrong way round: in this question "
                    "it is stored (in, out)"
                }
            },
        ),
    },
    "heads": {
        "8 of 512": Option(),
        "12 of 768": Option(
            {
                "Eight heads have eight times": "Twelve heads have twelve times",
                "what do eight heads have": "what do twelve heads have",
                "width 512 first: one head, eight heads": "width 768 first: one head, twelve heads",
                "4·512² + 4·512": "4·768² + 4·768",
                "Eight heads have eight softmaxes": "Twelve heads have twelve softmaxes",
                "D = C/8": "D = C/12",
            }
        ),
        "16 of 1024": Option(
            {
                "Eight heads have eight times": "Sixteen heads have sixteen times",
                "what do eight heads have": "what do sixteen heads have",
                "width 512 first: one head, eight heads": "width 1024 first: one head, sixteen heads",
                "4·512² + 4·512": "4·1024² + 4·1024",
                "Eight heads have eight softmaxes": "Sixteen heads have sixteen softmaxes",
                "D = C/8": "D = C/16",
            }
        ),
    },
}
