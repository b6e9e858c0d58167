"""Lab 6: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import math

import torch
from torch.nn import functional as F

from attnlabs.draws import normal, small
from attnlabs.question import Case, Option, Question


def gains(numbers, *shape):
    return 1 + small(numbers, *shape)


def patches(wrong, images, size):
    B, channels, rows, columns = images.shape
    if "reshape" in wrong:  # the numbers in memory order, in the right shape
        return images.reshape(B, -1, channels * size * size)
    if "overlapping" in wrong:
        return images.unfold(2, size, 1).unfold(3, size, 1).movedim(1, 3).flatten(3).flatten(1, 2)
    if "square" in wrong:
        images, columns = images[..., :rows], min(rows, columns)
    if wrong & {"first-channel", "grey"}:
        images, channels = images.mean(1) if "grey" in wrong else images[:, 0], 1
    if "size-for-number" in wrong:
        grid = images.reshape(B, channels, size, rows // size, size, columns // size)
        grid = grid.transpose(2, 3).transpose(4, 5)
    else:
        grid = images.reshape(B, channels, rows // size, size, columns // size, size)
    order = "rkcij"  # rows and columns of squares, channels, rows and columns inside
    if "pixel-first" in wrong:
        order = "rkijc"
    if "by-column" in wrong:
        order = order.replace("rk", "kr")
    if "turned" in wrong:
        order = order.replace("ij", "ji")
    if wrong & {"channels-apart", "channels-before"}:
        order = "c" + order.replace("c", "")
    cut = torch.einsum(f"bcrikj->b{order}", grid)
    return cut.reshape(B, -1, size * size * (1 if "channels-apart" in wrong else channels))


def patches_cases(numbers):
    colour, grey = normal(numbers, 2, 3, 4, 6), normal(numbers, 1, 1, 6, 9)
    return [
        Case("colours, patches of 2 × 2", (colour, 2), 2),
        Case("grey, patches of 3 × 3", (grey, 3)),
    ]


def embed(wrong, images, filters, bias, token, positions):
    C, _, size, _ = filters.shape
    cut = patches(wrong - {"turned"}, images, size)
    matrix = filters.mT if "turned" in wrong else filters
    matrix = matrix.permute(0, 2, 3, 1) if "filters-order" in wrong else matrix
    matrix = matrix.reshape(-1, C).T if "filters-mixed" in wrong else matrix.reshape(C, -1)
    x = torch.einsum("bpn,cn->bpc", cut, matrix)
    x = x if "no-bias" in wrong else x + bias
    front = token[None, None].repeat(len(x), 1, 1)
    if "no-positions" in wrong:
        positions = torch.zeros_like(positions)
    if "rolled" in wrong:
        positions = positions.roll(1, 0)
    if "own-token" in wrong:
        front = front * 0
    if "one-token" in wrong:
        front = torch.cat([front[:1], 0 * front[1:]])
    if "token-without" in wrong:
        positions = torch.cat([torch.zeros(1, C), positions[1:]])
    if "shifted" in wrong:
        positions = torch.cat([torch.zeros(1, C), positions[:-1]])
    if "bias-on-token" in wrong:
        front = front + bias
    if "multiplied" in wrong:
        return torch.cat([front, x], 1) * positions
    if "token-last" in wrong:
        return torch.cat([x, front], 1) + positions
    return torch.cat([front, x], 1) + positions


def embed_cases(numbers):
    def one(B, channels, rows, columns, size, C):
        P = rows * columns // size**2
        yield normal(numbers, B, channels, rows, columns)
        yield small(numbers, C, channels, size, size)
        yield from (normal(numbers, C), normal(numbers, C), normal(numbers, P + 1, C))

    return [
        Case("two colour pictures", tuple(one(2, 3, 4, 6, 2, 5)), 2),
        Case("one grey picture", tuple(one(1, 1, 6, 3, 3, 4))),
    ]


def normal_of(wrong, x, gain):
    """The layer norm with the mistakes that can be made in it."""
    if "gain-added" in wrong:
        return F.layer_norm(x, x.shape[-1:]) + gain
    if "all-tokens" in wrong and x.dim() > 2:
        return F.layer_norm(x, x.shape[1:]) * gain
    over = 0 if "batch-norm" in wrong else -1
    unbiased = "unbiased" in wrong
    mean = 0 if "rms" in wrong else x.mean(over, keepdim=True)
    spread = x.var(over, unbiased, keepdim=True)
    if "rms" in wrong:
        spread = x.pow(2).mean(over, keepdim=True)
    return (x - mean) / (spread + 1e-5).sqrt() * gain


def encode(wrong, x, gains, in_weight, out_weight, up, down, H):
    B, T, C = x.shape
    D = C // H
    late = "post-norm" in wrong

    def norm(x, which):
        if ("no-norm-network" if which else "no-norm") in wrong:
            return x
        which = 1 - which if "gains-exchanged" in wrong else which
        used = gains[0 if "same-gain" in wrong else which]
        bare = "no-gains" in wrong or f"no-gain-{which}" in wrong
        here = wrong | {"rms"} if f"rms-{which}" in wrong else wrong
        return normal_of(here, x, torch.ones_like(used) if bare else used)

    y = (x if late else norm(x, 0)) @ in_weight.T
    if wrong & {"mixed-heads", "mixed-cut"}:
        q, k, v = (part.reshape(B, H, T, D) for part in y.chunk(3, -1))
    else:
        q, k, v = (part.reshape(B, T, H, D).transpose(1, 2) for part in y.chunk(3, -1))
    scores = q @ k.mT / math.sqrt(C if "wide-scale" in wrong else D)
    scores = q @ k.mT if "unscaled" in wrong else scores
    if "causal" in wrong:
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf)
    weights = scores.softmax(-2 if "axis" in wrong else -1)
    looked = weights @ v
    looked = looked if wrong & {"mixed-heads", "mixed-join"} else looked.transpose(1, 2)
    looked = looked.reshape(B, T, C)
    if "no-out" not in wrong:
        looked = looked @ (out_weight if "out-turned" in wrong else out_weight.T)
    kept = norm(x, 0) if "skip-normed" in wrong else x
    first = looked if "no-skip" in wrong else kept + looked
    first = norm(first, 0) if late else first
    read = x if "beside" in wrong else first
    hidden = (read if late else norm(read, 1)) @ up.T
    gelu = F.gelu(hidden, approximate="tanh" if "tanh-gelu" in wrong else "none")
    hidden = F.relu(hidden) if "relu" in wrong else hidden if "no-gelu" in wrong else gelu
    thought = hidden @ down.T
    kept = norm(first, 1) if "skip-normed-network" in wrong else first
    last = thought if "no-skip-network" in wrong else kept + thought
    weights = weights.mean(1) if "heads-averaged" in wrong else weights
    return norm(last, 1) if late else last, scores if "scores" in wrong else weights


def encode_cases(numbers):
    def one(B, T, C, hidden, H):
        yield from (normal(numbers, B, T, C), gains(numbers, 2, C))
        yield from (small(numbers, 3 * C, C), small(numbers, C, C))
        yield from (small(numbers, hidden, C), small(numbers, C, hidden), H)

    return [
        Case("one picture, two heads", tuple(one(1, 4, 6, 9, 2)), 2),
        Case("two pictures, three heads", tuple(one(2, 5, 6, 8, 3))),
    ]


def classify(wrong, x, gain, weight, bias):
    def norm(x):
        used = torch.ones_like(gain) if "no-gain" in wrong else gain
        return x if "no-norm" in wrong else normal_of(wrong, x, used)

    def read(x):
        if "every-token" in wrong:
            return x
        if "first-picture" in wrong:
            return x[0]
        if "last" in wrong:
            return x[:, -1]
        if "mean-all" in wrong:
            return x.mean(1)
        return x[:, 1:].mean(1) if "mean-patches" in wrong else x[:, 0]

    logits = norm(read(x)) if "norm-after" in wrong else read(norm(x))
    logits = logits @ (weight if "transposed" in wrong else weight.T)
    if "no-bias" not in wrong:
        logits = logits + bias * (2 if "bias-twice" in wrong else 1)
    return logits.softmax(-1) if "softmax" in wrong else logits


def classify_cases(numbers):
    def one(B, T, C, classes):
        yield from (normal(numbers, B, T, C), gains(numbers, C))
        yield from (small(numbers, classes, C), normal(numbers, classes))

    return [
        Case("three pictures", tuple(one(3, 5, 6, 4)), 2),
        Case("two pictures, more classes", tuple(one(2, 10, 8, 8))),
    ]


def resize_positions(wrong, table, rows, columns, new_rows, new_columns):
    C = table.shape[1]
    token, rest = table[:1], table[1:]
    if "last-for-class" in wrong:
        rest, token = table[:-1], table[-1:]
    if "flat" in wrong:
        length = new_rows * new_columns
        rest = F.interpolate(rest.T[None], length, mode="linear")[0].T
    else:
        if "turned" in wrong:
            rows, columns = columns, rows
        grid = rest.reshape(rows, columns, C).permute(2, 0, 1)
        if "channels-mixed" in wrong:
            grid = rest.reshape(C, rows, columns)
        how = {"mode": "bicubic" if "bicubic" in wrong else "bilinear"}
        how["align_corners"] = "corners" in wrong
        if "nearest" in wrong:
            how = {"mode": "nearest"}
        if "new-turned" in wrong:
            new_rows, new_columns = new_columns, new_rows
        grid = F.interpolate(grid[None], (new_rows, new_columns), **how)[0]
        grid = grid.mT if "turned-back" in wrong else grid
        rest = grid.reshape(-1, C) if "row-mixed" in wrong else grid.flatten(1).T
    if "class-averaged" in wrong:
        token = rest.mean(0, keepdim=True)
    if "class-lost" in wrong:
        return rest
    return torch.cat([rest, token] if "class-last" in wrong else [token, rest])


def resize_positions_cases(numbers):
    return [
        Case("2 × 3 becomes 4 × 5", (normal(numbers, 7, 4), 2, 3, 4, 5), 2),
        Case("3 × 3 becomes 6 × 6", (normal(numbers, 10, 3), 3, 3, 6, 6)),
    ]


def looked_at(wrong, weights, rows, columns, size):
    if "divided-first" in wrong:
        weights = weights / weights[..., 1:].sum(-1, keepdim=True)
    if "largest" in wrong:
        weights = weights.amax(1)
    else:
        weights = weights[:, 0] if "one-head" in wrong else weights.mean(1)
    weights = weights.mT if "column" in wrong else weights
    kept = weights[..., :-1] if "own-kept" in wrong else weights[..., 1:]
    row = kept[:, 1:].mean(1) if "mean-rows" in wrong else kept[:, 0]
    row = kept.mean(1) if "all-rows" in wrong else row
    if "softmax" in wrong:
        row = row.softmax(-1)
    elif "by-largest" in wrong:
        row = row / row.amax(-1, keepdim=True)
    elif "all-pictures" in wrong:
        row = row / row.sum()
    elif "not-divided" not in wrong:
        row = row / row.sum(-1, keepdim=True) / (size**2 if "each-pixel" in wrong else 1)
    if "turned" in wrong:
        rows, columns = columns, rows
    grid = row.reshape(-1, rows, columns)
    if "not-enlarged" in wrong:
        return grid
    if "by-column" in wrong:
        grid = row.reshape(-1, columns, rows).mT
    if "tiled" in wrong:
        return grid.repeat(1, size, size)
    if "smooth" in wrong:
        new = rows * size, columns * size
        return F.interpolate(grid[:, None], new, mode="bilinear", align_corners=False)[:, 0]
    return grid[:, :, None, :, None].expand(-1, -1, size, -1, size).flatten(3).flatten(1, 2)


def looked_at_cases(numbers):
    def one(B, H, rows, columns, size):
        T = 1 + rows * columns
        return normal(numbers, B, H, T, T).mul(2).softmax(-1), rows, columns, size

    return [
        Case("2 × 3 patches of 2 × 2 pixels", one(2, 2, 2, 3, 2), 2),
        Case("3 × 2 patches of 3 × 3 pixels", one(1, 3, 3, 2, 3)),
    ]


ORDERS = (
    "the numbers of a patch and those of a filter stand in different orders: one goes channel by "
    "channel, the other pixel by pixel"
)
RESHAPE = (
    "cut by reshape alone, which takes whole rows of pixels: rows of squares and rows inside "
    "a square have to be told apart first"
)
BEFORE = (
    "the axis of the channels still stands before the squares at the last reshape, so a row holds "
    "pieces of several squares: move it behind their rows and columns"
)

CHANNELS = "the channels are reduced to one; a patch holds the numbers of all"
NORM = {
    "all-tokens": "one norm is taken over all tokens of a picture; each token has its own, over the "
    "last axis",
    "rms": "the mean is not subtracted in the norm: this is an RMS norm; here it is a layer norm",
    "unbiased": "the variance in the norm is divided by C − 1; in a layer norm it is by C",
    "gain-added": "the gain is added to the normalised numbers; it multiplies them",
}

QUESTIONS = {
    "patches": Question(
        patches,
        patches_cases,
        {
            "reshape": RESHAPE,
            "pixel-first": "the numbers of a patch come pixel by pixel; here they come channel by "
            "channel",
            "by-column": "the patches come column by column, not row by row: look at the order of "
            "the first two axes of the grid",
            "turned": "each patch is turned over: inside it columns come before rows",
            "channels-apart": "each channel is cut by itself; a patch holds all channels",
            "channels-before": BEFORE,
            "overlapping": "the squares overlap: each begins one pixel further, not a whole square",
            "size-for-number": "the size of a square and the number of squares are exchanged where rows and "
            "columns are cut, so pixels that lie far apart come together",
            "first-channel": CHANNELS,
            "grey": CHANNELS,
            "square": "the picture is taken to be square; its rows and columns need not be as many",
        },
    ),
    "embed": Question(
        embed,
        embed_cases,
        {
            "reshape": RESHAPE,
            "pixel-first": ORDERS,
            "filters-order": ORDERS,
            "channels-before": BEFORE,
            "by-column": "the patches come column by column, not row by row",
            "turned": "patches and filters do not lie alike: in one of the two columns come before "
            "rows",
            "filters-mixed": "the filters were brought by reshape alone into a matrix whose first "
            "axis is not C, which mixes different filters: make each filter a row, then transpose",
            "bias-on-token": "the bias is added to the class token, too; it belongs to the patches",
            "no-bias": "the bias is not added",
            "no-positions": "the positions are not added",
            "token-without": "the class token gets no position; the first row of the table is its",
            "shifted": "the positions were added before the class token was put in front: the "
            "first patch has the row of the class token",
            "rolled": "the positions are moved by one: the class token has the last row of the table; "
            "its own is the first",
            "multiplied": "the positions are multiplied; add them",
            "own-token": "zeros stand in front; `token` belongs there",
            "one-token": "only the first picture gets the class token; every picture has it in front",
            "token-last": "the class token stands behind the patches; it belongs in front",
        },
        banned=("conv2d", "Conv2d"),
        trained=("filters", "bias", "token", "positions"),
    ),
    "encode": Question(
        encode,
        encode_cases,
        {
            "causal": "a causal mask is used; in a picture every token may look at every other",
            "unscaled": "scores not divided by √D",
            "axis": "softmax over the queries (axis −2) instead of over the keys (axis −1)",
            "mixed-heads": "the axes of positions and heads are not exchanged: reshape alone mixes "
            "numbers of different tokens",
            "mixed-cut": "the heads are cut by reshape alone: with H before the positions it mixes "
            "numbers of different tokens; cut C into H and D, then exchange axes",
            "mixed-join": "the heads are joined by reshape alone: first exchange the axes of heads "
            "and positions back",
            "wide-scale": "scores divided by √C, the width of a token, not by √D, that of one head",
            "no-out": "what the heads found does not go through `out_weight`",
            "out-turned": "`out_weight` is not transposed; square as it is, it fits either way",
            "heads-averaged": "the weights returned are the mean over the heads; those of each are "
            "asked for",
            "scores": "the scores are returned; the weights are what softmax makes of them",
            "no-norm": "the attention reads x as it came in, without a norm",
            "no-norm-network": "the network reads its x without a norm",
            "skip-normed": "the attention's result is added to the normalised x; add it to x as it "
            "came in",
            "skip-normed-network": "the network's result is added to the normalised x; add it to x "
            "as the attention left it",
            "no-skip": "what came in is not added to what the attention made",
            "no-skip-network": "what came in is not added to what the network made",
            "post-norm": "normalised after adding; each half normalises what it reads",
            "same-gain": "the second norm has the gain of the first; its own is the second row",
            "gains-exchanged": "the two norms have each other's gain: the first row is the first "
            "norm's",
            **NORM,
            "beside": "the network reads what came into the block; it should read what the "
            "attention has made of it",
            "relu": "the network uses ReLU; here it is GELU",
            "no-gelu": "the network has no activation; here it is GELU",
            "no-gains": "the gains of the norms are not used",
            "no-gain-0": "the first norm has no gain",
            "no-gain-1": "the second norm has no gain",
            "rms-0": "the mean is not subtracted in the first norm; here it is a layer norm",
            "rms-1": "the mean is not subtracted in the second norm; here it is a layer norm",
        },
        banned=("scaled_dot_product_attention", "MultiheadAttention", "TransformerEncoderLayer"),
        also_right=("tanh-gelu",),
        trained=("x", "gains", "in_weight", "out_weight", "up", "down"),
    ),
    "classify": Question(
        classify,
        classify_cases,
        {
            "mean-patches": "read from the mean over the patches; here the class token is read",
            "mean-all": "read from the mean over all tokens, class token included",
            "last": "read from the last token",
            "no-norm": "the tokens are not normalised",
            **NORM,
            "batch-norm": "mean and variance are taken over the pictures; each token has its own, over "
            "the last axis",
            "every-token": "all tokens have logits here; each picture has one row of them",
            "first-picture": "only the first picture is read; each picture has its row of logits",
            "transposed": "`weight` is used the wrong way round: apply it as x @ weight.T",
            "bias-twice": "the bias is added twice",
            "no-gain": "the gain of the norm is not used",
            "norm-after": "normalised after the mean; each token is normalised before",
            "no-bias": "the bias is not added",
            "softmax": "these are probabilities; logits are asked for, without softmax",
        },
        trained=("x", "gain", "weight", "bias"),
    ),
    "resize_positions": Question(
        resize_positions,
        resize_positions_cases,
        {
            "flat": "interpolated along the row of positions; they are a grid with two axes",
            "turned": "rows and columns exchanged when the grid was laid out",
            "new-turned": "rows and columns of the new grid are exchanged",
            "channels-mixed": "the grid was laid out by reshape alone, which mixes places and "
            "channels: the axis of the channels has to be moved to the front first",
            "turned-back": "the new grid is put in a row column by column; row by row it came, "
            "row by row it goes",
            "row-mixed": "the new grid was put in a row by reshape alone, which mixes places and "
            "channels: the axis of the channels has to be moved to the end first",
            "corners": "the corners of the two grids fall together (align_corners=True); here "
            "their outer edges do (align_corners=False)",
            "nearest": "each new position is that of the nearest old one; interpolate between "
            "neighbours, bilinearly",
            "bicubic": "interpolated bicubically; here it is bilinear",
            "class-last": "the row of the class token stands at the end; it stays in front",
            "last-for-class": "the last row is taken for that of the class token; it is the first",
            "class-averaged": "the row of the class token is replaced by a mean; it stays as it is",
            "class-lost": "the row of the class token is lost",
        },
    ),
    "looked_at": Question(
        looked_at,
        looked_at_cases,
        {
            "mean-rows": "this is the mean over the rows of all patches; only the row of the class "
            "token is asked for",
            "all-rows": "this is the mean over all rows, the class token's and the patches' alike",
            "column": "the weights are read the wrong way round: a row says where a token looks, a "
            "column who looks at it",
            "own-kept": "the class token's own column is still there and the last patch is "
            "missing: all is one patch too far",
            "one-head": "only the first head is used; average over the heads",
            "largest": "the largest of the heads is taken; average over them",
            "not-divided": "the weights of the patches do not sum to 1: divide by their sum",
            "divided-first": "each head is divided by its own sum before the average; average first",
            "softmax": "a softmax is taken of the weights; divide them by their sum",
            "by-largest": "divided by the largest weight; divide by their sum",
            "all-pictures": "divided by the sum over all pictures; the patches of each sum to 1",
            "each-pixel": "the pixels of a map sum to 1; the weights of the patches should, before "
            "they are enlarged",
            "turned": "rows and columns exchanged when the grid was laid out",
            "by-column": "the weights were laid out column by column; they come row by row",
            "tiled": "the whole map is repeated; each number belongs beside itself, size times",
            "smooth": "interpolated between patches; each pixel gets the number of its patch",
            "not-enlarged": "the map has one number for each patch; each number stands at all pixels of its patch",
        },
    ),
}

CHOICES = {
    "inside": {
        "channels": Option(),
        "pixels": Option(
            text={
                "The numbers of a square come channel by channel, as a convolution stores its "
                "filters, and within a channel row by row.": "The numbers of a square come pixel "
                "by pixel, row by row, and each pixel brings one number for each channel. That is "
                "not the order in which a convolution stores its filters.",
                "windows.permute(0, 2, 3, 1, 4, 5)": "windows.permute(0, 2, 3, 4, 5, 1)",
                "matrix = filters.flatten(1)": "matrix = filters.permute(0, 2, 3, 1).flatten(1)",
            },
            flips={
                "patches": {
                    "pixel-first": "the numbers of a patch come channel by channel; here they come "
                    "pixel by pixel"
                }
            },
        ),
    },
    "readout": {
        "class token": Option(),
        "mean": Option(
            text={
                "read off the class token, multiply": "take the mean over the patches, without "
                "the class token, multiply",
                "normal[:, 0] @": "normal[:, 1:].mean(dim=1) @",
                "Where does the class token look?": "Where do the patches look? (Your model reads "
                "the mean over them.)",
                "average over the heads, and take the class token's row without its weight for "
                "itself.": "average over the heads, and over the rows of the patches; leave out "
                "the row and the column of the class token.",
                "weights.mean(dim=1)[:, 0, 1:]": "weights.mean(dim=1)[:, 1:, 1:].mean(dim=1)",
                "The class token stands in front, so with the mask it sees only itself, in every "
                "block: the logits are the same for every picture.": "Each patch then sees only "
                "itself, the class token and the patches before it, row by row. The mean still "
                "depends on every patch, but what an early patch adds to it knows nothing of the "
                "later ones.",
                "1 point: the class token, being first, sees only itself, so nothing of the "
                "picture is left;": "1 point: each patch sees only itself and earlier ones, so the "
                "mean depends on all patches, but the early ones know nothing of the later;",
            },
            flips={
                "classify": {
                    "mean-patches": "read from the class token; here the mean over the patches is "
                    "read"
                },
                "looked_at": {
                    "mean-rows": "this is one row only; the mean over the rows of all patches is "
                    "asked for"
                },
            },
        ),
    },
    "activation": {
        "gelu": Option(),
        "relu": Option(
            text={
                "GELU (`F.gelu`)": "ReLU (`F.relu`)",
                "F.gelu(F.layer_norm": "F.relu(F.layer_norm",
            },
            flips={"encode": {"relu": "the network uses another function than ReLU, such as GELU"}},
        ),
    },
    "corners": {
        "edges": Option(),
        "corners": Option(
            text={
                "Each position stands for the middle of its patch, so the outer edges of the two "
                "grids fall together, not the outermost positions (`align_corners=False`).": "The "
                "outermost positions stay where they are: the four corners of the two grids fall "
                "together (`align_corners=True`).",
                'mode="bilinear", align_corners=False': 'mode="bilinear", align_corners=True',
            },
            flips={
                "resize_positions": {
                    "corners": "the outer edges of the two grids fall together "
                    "(align_corners=False); here the corners do (align_corners=True)"
                }
            },
        ),
    },
    "picture": {
        "224": Option(),
        "384": Option(
            text={
                "224 × 224": "384 × 384",
                "14 · 14 = 196": "24 · 24 = 576",
                "197 tokens": "577 tokens",
                "197²": "577²",
                "38,809": "332,929",
                "785 tokens": "2,305 tokens",
                "785²": "2,305²",
                "616,225": "5,313,025",
            }
        ),
    },
}
