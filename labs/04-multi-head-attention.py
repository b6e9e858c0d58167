"""Lab 4: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import math

import torch

from attnlabs.draws import look, normal, small
from attnlabs.question import Case, Option, Question


def split_heads(wrong, x, H):
    *batch, T, C = x.shape
    H = C // H if "as-width" in wrong and "last-two" not in wrong else H
    if "no-transpose" in wrong:  # the numbers in memory order, in the right shape
        return x.reshape(*batch, H, T, C // H)
    heads = x.reshape(*batch, T, H, C // H)
    if "interleaved" in wrong:
        heads = x.reshape(*batch, T, C // H, H).mT
    if "heads-after" in wrong:
        return heads
    if "positions-cut" in wrong:
        return torch.stack(x.chunk(H, -2), -3)
    heads = heads.flip(-2) if "heads-reversed" in wrong else heads
    return heads.transpose(*exchanged(wrong))


def exchanged(wrong):
    """Which two axes change places: those of the positions and of the heads."""
    if "from-front" in wrong:
        return 1, 2
    return (-1, -2) if "last-two" in wrong else (-2, -3)


def split_cases(numbers):
    batch = normal(numbers, 2, 3, 9, 6)
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
    if wrong & {"averaged", "summed"}:
        return x.sum(-3) if "summed" in wrong else x.mean(-3)
    x = x.flip(-3) if "heads-reversed" in wrong else x
    if "below" in wrong:
        return x.flatten(-3, -2)
    if "from-front-joined" in wrong:
        return x.transpose(1, 2).flatten(-2)
    return x.transpose(*exchanged(wrong)).reshape(*batch, T, H * D)


def merge_cases(numbers):
    batch = normal(numbers, 2, 3, 4, 5)
    return [
        Case("one sequence", (normal(numbers, 2, 5, 3),), 2),
        Case("batches in front", (batch,)),
    ]


def project(wrong, x, weight, bias):
    if "transposed" in wrong:
        weight = weight.reshape(weight.shape[1], weight.shape[0]).T
    if "thirds-transposed" in wrong:
        weight = torch.cat([third.T for third in weight.chunk(3)])
    if "rows-every-third" in wrong:
        weight = torch.cat([weight[n::3] for n in range(3)])
    if "one-bias" in wrong:
        bias = bias.chunk(3)[0].repeat(3)
    y = x @ weight.T
    if not wrong & {"no-bias", "no-in-bias"}:
        y = y + bias
    parts = list(y.split(y.shape[-1] // 3, -1))
    if "positions-cut" in wrong:
        cut = y.shape[-2] // 3
        parts = [y[..., :cut, :], y[..., cut : 2 * cut, :], y[..., 2 * cut :, :]]
    if "every-third" in wrong:
        parts = [y[..., n::3] for n in range(3)]
    for name, (one, other) in EXCHANGED.items():
        if name in wrong:
            parts[one], parts[other] = parts[other], parts[one]
    if "scaled" in wrong:
        parts[0] = parts[0] / math.sqrt(x.shape[-1])
    if "keys-twice" in wrong:
        parts[2] = parts[1]
    return y if "not-split" in wrong else tuple(parts)


EXCHANGED = {"order": (0, 1), "keys-values": (1, 2), "queries-values": (0, 2)}


def project_cases(numbers):
    def one(C, *batch):
        return normal(numbers, *batch, C), small(numbers, 3 * C, C), normal(numbers, 3 * C)

    return [Case("one sequence", one(4, 5), 2), Case("a batch", one(6, 2, 3))]


def factor(wrong, H, T, D, groups=1):
    """What the dot products are multiplied by."""
    if "unscaled" in wrong:
        return 1
    if "divided-by-width" in wrong:
        return 1 / D
    if "multiplied" in wrong:
        return math.sqrt(D)
    if "scale-groups" in wrong:
        return 1 / math.sqrt(D * groups)
    if "scale-each" in wrong:
        return 1 / math.sqrt(D * H / groups)
    if "scale-heads" in wrong:
        return 1 / math.sqrt(H)
    if "scale-positions" in wrong:
        return 1 / math.sqrt(T)
    return 1 / math.sqrt(D * H if "scale-width" in wrong else D)


AXES = {"axis": -2, "axis-heads": 1, "axis-heads-low": 1, "axis-batch": 0}


def attend(wrong, q, k, v, H, mask, groups=1):
    """Attention in each head; `mask` has the axes of the scores or fewer."""
    scores, kept = q @ k.mT * factor(wrong, H, *q.shape[-2:], groups), 1
    if "causal" in wrong:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None and "mask-ignored" not in wrong:
        mask = mask.mT if "mask-transposed" in wrong else mask
        mask = ~mask if "polarity" in wrong else mask
        if "mask-after" in wrong:
            kept = mask
        elif "mask-added" in wrong:
            scores = scores + mask
        else:
            low = -1e30 if "axis-heads-low" in wrong else -math.inf
            scores = scores.masked_fill(~mask, 0 if "hidden-zero" in wrong else low)
    axes = [AXES[name] for name in AXES if name in wrong]
    weights = scores if "no-softmax" in wrong else scores.softmax(*axes[:1] or [-1])
    weights = weights * kept
    return (weights.mT if "weights-turned" in wrong else weights) @ v


def heads_of(wrong, q, k, v, H, mask):
    """Attention in each head, and the heads side by side again."""
    if "one-head" in wrong:
        H = 1
    if "as-width" in wrong:
        H = q.shape[-1] // H
    if mask is not None and mask.dim() > 2 and "first-mask" in wrong:
        mask = mask[0]
    mask = mask if mask is None or "mask-by-heads" in wrong else mask[..., None, :, :]
    if "no-exchange" in wrong:  # each position's heads look at each other
        q, k, v = (part.unflatten(-1, (H, part.shape[-1] // H)) for part in (q, k, v))
        return attend(wrong, q, k, v, H, mask).flatten(-2)
    cut = {"no-transpose": "mixed-heads", "interleaved": "interleaved"}
    cut = {name for name in cut if cut[name] in wrong}
    join = {"no-transpose": "mixed-merge", "interleaved": "interleaved-merge"}
    join = {name for name in join if join[name] in wrong}
    q, k, v = (split_heads(cut, part, H) for part in (q, k, v))
    return merge_heads(join, attend(wrong, q, k, v, H, mask))


def output(wrong, heads, out_weight, out_bias):
    if "no-output" in wrong:
        return heads
    if "only-bias" in wrong:
        return heads + out_bias
    out = heads @ (out_weight if "out-transposed" in wrong else out_weight.T)
    return out if "no-out-bias" in wrong else out + out_bias


def multi_head(wrong, x, in_weight, in_bias, out_weight, out_bias, H, mask=None):
    q, k, v = project(wrong, x, in_weight, in_bias)
    if "by-head" in wrong:
        y = torch.cat((q, k, v), -1).unflatten(-1, (H, 3, x.shape[-1] // H))
        q, k, v = y.movedim(-2, 0).flatten(-2)
    heads = heads_of(wrong, q, k, x if "values-raw" in wrong else v, H, mask)
    out = output(wrong, heads, out_weight, out_bias)
    return out + x if "skip" in wrong else out


def layer(numbers, C):
    in_weight, in_bias = small(numbers, 3 * C, C), normal(numbers, 3 * C)
    return in_weight, in_bias, small(numbers, C, C), normal(numbers, C)


def multi_head_cases(numbers):
    x, one = normal(numbers, 3, 4, 10), normal(numbers, 3, 5, 12)
    masks = look(numbers, 5, 5), look(numbers, 3, 5, 5)
    return [
        Case("no mask", (x, *layer(numbers, 10), 2), 2),
        Case("three heads", (one, *layer(numbers, 12), 3)),
        Case("one mask for all", (one, *layer(numbers, 12), 3, masks[0]), 2),
        Case("a mask for each sequence", (one, *layer(numbers, 12), 3, masks[1]), 2),
    ]


def cross(wrong, x, memory, in_weight, in_bias, out_weight, out_bias, H):
    asks, told = (memory, x) if "swapped" in wrong else (x, memory)
    if "self" in wrong:
        told = asks
    if "joined" in wrong:
        told = torch.cat((asks, told), 1)
    bare = wrong | {"no-bias"} if "no-query-bias" in wrong else wrong
    q, from_q, from_x = project(bare, asks, in_weight, in_bias)
    q = from_q if "queries-by-keys" in wrong else q
    bare = wrong | {"no-bias"} if "no-memory-bias" in wrong else wrong
    first, k, v = project(bare, told, in_weight, in_bias)
    if "first-rows" in wrong:
        k, v = first, k
    if "keys-first" in wrong:
        k = first
    if "memory-raw" in wrong:
        k = v = told
    if "keys-from-x" in wrong:
        k = from_q
    if "values-from-x" in wrong:
        v = from_x
    return output(wrong, heads_of(wrong, q, k, v, H, None), out_weight, out_bias)


def cross_cases(numbers):
    same = normal(numbers, 3, 4, 10), normal(numbers, 3, 4, 10)
    x, memory = normal(numbers, 2, 3, 8), normal(numbers, 2, 5, 8)
    return [
        Case("as many ask as answer", (*same, *layer(numbers, 10), 2)),
        Case("three ask, five answer", (x, memory, *layer(numbers, 8), 4), 2),
    ]


def grouped(wrong, q, k, v, mask=None):
    H, k_heads = q.shape[-3], k.shape[-3]
    tiled = "tiled" in wrong
    k = shared(k, H, tiled != ("keys-tiled" in wrong), "divisor" in wrong)
    v = shared(v, H, tiled != ("values-tiled" in wrong), "divisor" in wrong)
    if "first-only" in wrong:
        k, v = k[..., :1, :, :], v[..., :1, :, :]
    each = H // k_heads
    axis = 1 if tiled else 2  # of the heads of a group, once their axis is cut in two
    cut = (each, k_heads) if tiled else (k_heads, each)
    if "queries-averaged" in wrong:
        q = q.unflatten(1, cut).mean(axis, keepdim=True).expand(-1, *cut, -1, -1).flatten(1, 2)
    out = attend(wrong, q, k, v, H, mask, k_heads)
    if "outputs-averaged" in wrong:
        out = out.unflatten(1, cut).mean(axis, keepdim=True).expand(-1, *cut, -1, -1).flatten(1, 2)
    if wrong & {"groups-summed", "groups-averaged"}:
        out = out.unflatten(1, cut).sum(axis) / (each if "groups-averaged" in wrong else 1)
    return out


def shared(part, H, tiled, exchanged):
    """For each query head its head of keys or values; `exchanged` takes G for H / G."""
    G, each = part.shape[-3], H // part.shape[-3]
    G, each = (each, G) if exchanged else (G, each)
    return part[:, [h % G if tiled else h // each for h in range(H)]]


def grouped_cases(numbers):
    def qkv(B, H, G, T, D):
        shapes = (B, H, T, D), (B, G, T, D), (B, G, T, D)
        return tuple(normal(numbers, *shape) for shape in shapes)

    def uneven(mask):
        mask[0, 1], mask[1, 0] = True, False  # so that it is not its own transpose
        return mask

    return [
        Case("six heads, three of keys", qkv(2, 6, 3, 4, 5), 2),
        Case("a mask", (*qkv(2, 6, 2, 4, 3), uneven(look(numbers, 4, 4)))),
        Case("one head of keys for all", qkv(1, 4, 1, 3, 2)),
    ]


def contributions(wrong, heads, out_weight):
    H, D = heads.shape[-3], heads.shape[-1]
    columns = out_weight if "transposed" not in wrong else out_weight.T
    parts = [columns[:, h * D : (h + 1) * D].T for h in range(H)]
    if "interleaved" in wrong:
        parts = [columns[:, h::H].T for h in range(H)]
    if "overlap" in wrong:
        parts = [columns[:, h : h + D].T for h in range(H)]
    if "reshaped" in wrong:
        parts = columns.reshape(H, -1, D).mT
    if "same-part" in wrong:
        parts = [parts[0]] * H
    if "heads-reversed" in wrong:
        parts = parts[::-1]
    if "placed" in wrong:
        parts = torch.eye(H * D).split(D)
    added = torch.stack([heads[..., h, :, :] @ parts[h] for h in range(H)], -3)
    if "mixed-merge" in wrong:
        alone = [heads * (torch.arange(H) == h)[:, None, None] for h in range(H)]
        added = torch.stack([merge_heads({"no-transpose"}, one) @ columns.T for one in alone], -3)
    if "others" in wrong:
        added = added.sum(-3, keepdim=True) - added
    if "averaged" in wrong:
        added = added / H
    added = added.cumsum(-3) if "running-sum" in wrong else added
    added = added.transpose(-2, -3) if "heads-after" in wrong else added
    return added.sum(-3) if "summed" in wrong else added


def contributions_cases(numbers):
    one = normal(numbers, 1, 2, 5, 3), small(numbers, 6, 6)
    return [
        Case("two heads", one, 2),
        Case("three heads", (normal(numbers, 2, 3, 4, 2), small(numbers, 6, 6))),
    ]


ATTENTION = {
    "unscaled": "scores not divided by √D",
    "scale-width": "scores divided by √C, the width of all heads, instead of √D, the width of one",
    "axis": "softmax over the queries (axis −2) instead of over the keys (axis −1)",
    "axis-heads": "softmax over axis 1, the heads, instead of over the keys (axis −1)",
    "axis-heads-low": "softmax over axis 1, the heads, instead of over the keys (axis −1)",
    "axis-batch": "softmax over axis 0, the sequences, instead of over the keys (axis −1)",
    "no-softmax": "the scores themselves are used as weights, without a softmax",
    "weights-turned": "the weights are transposed before they meet the values; a row of them "
    "belongs to one query",
    "divided-by-width": "scores divided by D instead of √D",
    "multiplied": "scores multiplied by √D instead of divided by it",
    "scale-positions": "scores divided by √T, from the number of positions, instead of √D",
    "scale-heads": "scores divided by √H, from the number of heads, instead of √D",
}
MASK = {
    "mask-ignored": "the mask is not used",
    "polarity": "the mask keeps what it should hide: True means that looking is allowed",
    "mask-after": "the mask is used after the softmax, so rows no longer sum to 1; hide scores "
    "before it",
    "hidden-zero": "hidden scores become 0, or nearly, which is a score like any other; they "
    "must become −∞",
    "mask-added": "the mask is added as 0 and 1, which hides nothing; hidden scores become −∞",
    "mask-transposed": "the mask is used the wrong way round: a row of it belongs to one query",
}
HEADS = {
    "no-transpose": "the axes of positions and heads are not exchanged: reshape alone mixes "
    "numbers of different positions",
    "from-front": "axes 1 and 2 are exchanged; count from the end, −3 and −2, because any number "
    "of axes may stand in front",
    "last-two": "the last two axes are exchanged; those of positions and heads are −3 and −2",
}
LAYER = {
    "mixed-heads": "heads cut out by reshape alone: each mixes several positions",
    "mixed-merge": "heads put together by reshape alone: each position mixes several",
    "interleaved": "a head gets every H-th channel of q, k and v instead of D neighbouring ones",
    "interleaved-merge": "merged in such a way that the heads' channels alternate; those of one "
    "head belong together",
    "no-exchange": "the heads of one position look at each other; the axis of heads belongs before "
    "that of positions",
    "one-head": "not cut into heads: one head of width C",
    "as-width": "H is used as the width of a head; it is the number of heads",
    "no-output": "the heads are not multiplied by the output matrix",
    "only-bias": "the bias of the output is added, but the output matrix is not used",
    "out-transposed": "the output matrix is used the wrong way round",
    "no-out-bias": "the bias of the output is not added",
    "no-in-bias": "the bias of the projection to q, k and v is not added",
    "one-bias": "q, k and v all get the bias of the queries",
    "thirds-transposed": "each third of the fused matrix is used the wrong way round; a row of it "
    "makes one channel",
    "keys-values": "keys and values exchanged",
    "keys-twice": "the values are made with the rows of the keys",
}

REVERSED = "the heads stand in reverse order; head 0 has the first D channels"
TOGETHER = "the query heads that share keys are put together into one; all H are to be returned"

QUESTIONS = {
    "split_heads": Question(
        split_heads,
        split_cases,
        HEADS
        | {
            "interleaved": "a head gets every H-th channel instead of D neighbouring ones",
            "heads-after": "the heads stand behind the positions; they belong before them",
            "heads-reversed": REVERSED,
            "positions-cut": "the positions are cut into parts; cut the channels of each position",
            "as-width": "H is used as the width of a head; it is the number of heads",
        },
    ),
    "merge_heads": Question(
        merge_heads,
        merge_cases,
        HEADS
        | {
            "interleaved": "the heads' channels alternate; the D channels of one head belong "
            "together",
            "averaged": "the heads are averaged; they belong side by side",
            "summed": "the heads are added up; they belong side by side",
            "below": "the heads are put one below the other; they belong side by side",
            "heads-reversed": REVERSED,
            "from-front-joined": HEADS["from-front"],
        },
    ),
    "project": Question(
        project,
        project_cases,
        {
            "order": "queries and keys exchanged: the first third of the rows makes the queries",
            "keys-values": "keys and values exchanged: the last third of the rows makes the values",
            "queries-values": "queries and values exchanged: the last third of the rows makes the "
            "values",
            "no-bias": "the bias is not added",
            "one-bias": "all three get the bias of the queries; each has its third",
            "every-third": "every third channel is taken; q, k and v are three blocks one after "
            "the other",
            "rows-every-third": "every third row of the matrix is taken; its rows are three blocks "
            "one after the other",
            "transposed": "the matrix is read the wrong way round: a row of it makes one channel",
            "thirds-transposed": "each third of the matrix is used the wrong way round: a row of it "
            "makes one channel",
            "keys-twice": "the values are made with the rows of the keys",
            "scaled": "the queries are divided by a root already; the scores are, later",
            "positions-cut": "cut along the positions; q, k and v are parts of the last axis",
            "not-split": "q, k and v are still one tensor; return three",
        },
    ),
    "multi_head": Question(
        multi_head,
        multi_head_cases,
        ATTENTION
        | MASK
        | LAYER
        | {
            "causal": "the future is hidden, whatever the mask says",
            "mask-by-heads": "the masks of the sequences are used for the heads: with shape (B, T, T) a "
            "mask needs an axis for the heads, after that of the sequences",
            "first-mask": "the mask of the first sequence is used for all; each has its own",
            "order": "queries and keys exchanged",
            "queries-values": "queries and values exchanged",
            "by-head": "the 3C channels are cut into heads first and each head into q, k and v; "
            "cut out q, k and v first",
            "every-third": "q, k and v get every third channel; they are three blocks",
            "values-raw": "x itself is averaged in place of the values",
            "skip": "x is added to the output; that is the business of the block, not of this layer",
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
            "keys-from-x": "the keys come from x instead of from the memory",
            "joined": "x looks at itself and the memory together; the memory alone answers",
            "first-rows": "keys and values are made with the first 2C rows of the matrix; theirs "
            "are the last 2C",
            "keys-first": "the keys are made with the rows of the queries, the first C of the "
            "matrix; theirs are the next C",
            "no-memory-bias": "the biases of keys and values are not added",
            "memory-raw": "keys and values are the memory itself; it is to be projected",
            "no-query-bias": "the queries have no bias; theirs are the first C numbers of `in_bias`",
            "queries-by-keys": "the queries are made with the rows of the keys; the first C rows make them",
            "causal": "a causal mask is used; here every place of the memory may be looked at",
            "keys-twice": "the values are made with the rows of the keys; the last C rows make them",
        }
        | ATTENTION
        | LAYER,
        banned=("MultiheadAttention", "multi_head_attention_forward"),
    ),
    "grouped": Question(
        grouped,
        grouped_cases,
        ATTENTION
        | MASK
        | {
            "tiled": "the query heads take those of the keys in turn; neighbours belong "
            "together (if H = 4 and G = 2: 0, 0, 1, 1)",
            "divisor": "G and H/G are exchanged where the head of keys for a query head is chosen",
            "causal": "the future is hidden, whatever the mask says",
            "queries-averaged": "the query heads that share keys are averaged; each asks by itself",
            "groups-summed": TOGETHER,
            "groups-averaged": TOGETHER,
            "first-only": "all queries use the first head of keys",
            "values-tiled": "the query heads share the keys as asked, but the values otherwise",
            "keys-tiled": "the query heads share the values as asked, but the keys otherwise",
            "scale-groups": "scores divided by √(G D); D is the width of a head",
            "scale-each": "scores divided by √(D H / G); D is the width of a head",
            "outputs-averaged": "what the heads of a group find is averaged; each query head keeps its own",
        },
    ),
    "contributions": Question(
        contributions,
        contributions_cases,
        {
            "transposed": "the output matrix is used the wrong way round",
            "interleaved": "a head meets the part of the matrix for every H-th channel; its own "
            "are D neighbours",
            "same-part": "all heads meet the same part of the matrix",
            "overlap": "the parts of the matrix overlap: head h starts at h·D, not at h",
            "reshaped": "the matrix is cut by reshape alone, along the wrong axis",
            "mixed-merge": "heads put side by side by reshape alone: each position mixes several",
            "heads-reversed": "the heads meet the parts of the matrix in reverse order",
            "placed": "the heads are only put in their places; each goes through its part of the matrix",
            "running-sum": "each entry holds what the heads before it add, too; one head's is asked for",
            "others": "this is what the other heads add together; what head h adds is asked for",
            "averaged": "divided by the number of heads; heads add up, they are not averaged",
            "summed": "the heads are added already; keep them apart",
            "heads-after": "the heads stand behind the positions; they belong before them",
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
                    "in turn (if H = 4 and G = 2: 0, 1, 0, 1)"
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
