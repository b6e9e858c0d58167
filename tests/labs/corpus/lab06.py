"""Lab 6 as students write it: right in unusual ways, and typical mistakes, alone and in pairs."""

from mistaken import each_and_pairs

BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"

CUT = """
def patches(images, size):
    return F.unfold(images, size, stride=size).transpose(1, 2)
"""
CONTEXT = {"embed": CUT}

RIGHT = {
    "patches": [
        """
        def patches(images, size):
            return F.unfold(images, size, stride=size).transpose(1, 2)
        """,
        """
        def patches(images, size):
            B, channels, rows, columns = images.shape
            out = []
            for r in range(0, rows, size):
                for c in range(0, columns, size):
                    out.append(images[:, :, r : r + size, c : c + size].reshape(B, -1))
            return torch.stack(out, dim=1)
        """,
        """
        def patches(images, size):
            B, c, R, K = images.shape
            x = images.numpy().reshape(B, c, R // size, size, K // size, size)
            x = np.transpose(x, (0, 2, 4, 1, 3, 5))
            return torch.from_numpy(x.reshape(B, (R // size) * (K // size), -1))
        """,
        """
        def patches(images, size):
            strips = torch.stack(images.split(size, dim=2), dim=1)
            squares = torch.stack(strips.split(size, dim=-1), dim=2)
            return squares.flatten(3).flatten(1, 2)
        """,
    ],
    "embed": [
        """
        def embed(images, filters, bias, token, positions):
            x = F.linear(patches(images, filters.size(-1)), filters.reshape(len(filters), -1), bias)
            x = torch.cat((token.repeat(len(x), 1, 1), x), 1)
            x += positions
            return x
        """,
        """
        def embed(images, filters, bias, token, positions):
            size = filters.shape[2]
            x = images.unfold(2, size, size).unfold(3, size, size)
            x = torch.einsum("bcrkij,ocij->brko", x, filters) + bias
            out = positions.repeat(len(images), 1, 1)
            out[:, 0] += token
            out[:, 1:] += x.flatten(1, 2)
            return out
        """,
        """
        def embed(images, filters, bias, token, positions):
            size = filters.shape[-1]
            rows, columns = images.shape[2] // size, images.shape[3] // size
            out = torch.zeros(len(images), len(positions), len(token), dtype=torch.float64)
            for b in range(len(images)):
                out[b, 0] = token + positions[0]
                for n in range(rows * columns):
                    r, c = n // columns * size, n % columns * size
                    square = images[b, :, r : r + size, c : c + size]
                    seen = (filters * square).double().sum((1, 2, 3))
                    out[b, n + 1] = seen + bias + positions[n + 1]
            return out
        """,
    ],
    "encode": [
        """
        def own_norm(x, gain):
            mean = x.mean(-1, keepdim=True)
            variance = ((x - mean) ** 2).mean(-1, keepdim=True)
            return gain * (x - mean) / torch.sqrt(variance + 1e-5)


        def encode(x, gains, in_weight, out_weight, up, down, H):
            x = x.double()
            gains, in_weight, out_weight = gains.double(), in_weight.double(), out_weight.double()
            B, T, C = x.shape
            y = own_norm(x, gains[0]) @ in_weight.T
            q, k, v = (a.reshape(B, T, H, -1) for a in y.chunk(3, -1))
            s = torch.einsum("bihd,bjhd->bhij", q, k) / (C / H) ** 0.5
            w = torch.exp(s - s.amax(-1, keepdim=True))
            w = w / w.sum(-1, keepdim=True)
            x = x + torch.einsum("bhij,bjhd->bihd", w, v).reshape(B, T, C) @ out_weight.T
            z = own_norm(x, gains[1]) @ up.T.double()
            z = z * 0.5 * (1 + torch.erf(z / math.sqrt(2)))
            return x + z @ down.T.double(), w
        """,
    ],
    "classify": [
        """
        def classify(x, gain, weight, bias):
            return F.linear(F.layer_norm(x[:, 0], (x.shape[-1],), gain), weight, bias)
        """,
        """
        def classify(x, gain, weight, bias):
            rows = []
            for picture in x.double():
                token = picture[0]
                token = (token - token.mean()) / (token.var(unbiased=False) + 1e-5).sqrt()
                rows.append(torch.stack([(token * gain) @ w for w in weight.double()]) + bias)
            return torch.stack(rows)
        """,
        """
        def classify(x, gain, weight, bias):
            x = F.layer_norm(x, x.shape[2:])
            return torch.einsum("bc,c,oc->bo", x.select(1, 0), gain, weight).add(bias)
        """,
    ],
    "resize_positions": [
        """
        def resize_positions(table, rows, columns, new_rows, new_columns):
            grid = table[1:].view(1, rows, columns, -1).permute(0, 3, 1, 2)
            grid = F.interpolate(grid, size=(new_rows, new_columns), mode="bilinear")
            grid = grid.permute(0, 2, 3, 1).reshape(new_rows * new_columns, -1)
            return torch.vstack([table[0], grid])
        """,
        """
        def between(old, new):
            spread = torch.zeros(new, old)
            for n in range(new):
                place = min(max((n + 0.5) * old / new - 0.5, 0), old - 1)
                left = min(int(place), old - 1)
                right = min(left + 1, old - 1)
                spread[n, left] += 1 - (place - left)
                spread[n, right] += place - left
            return spread


        def resize_positions(table, rows, columns, new_rows, new_columns):
            grid = table[1:].reshape(rows, columns, -1)
            down, across = between(rows, new_rows), between(columns, new_columns)
            grid = torch.einsum("nr,mk,rkc->nmc", down, across, grid)
            return torch.cat([table[:1], grid.flatten(0, 1)])
        """,
        """
        def resize_positions(table, rows, columns, new_rows, new_columns):
            out = torch.empty(1 + new_rows * new_columns, table.shape[1])
            out[0] = table[0]
            for c in range(table.shape[1]):
                one = table[1:, c].double().reshape(1, 1, rows, columns)
                how = {"mode": "bilinear", "align_corners": False, "antialias": True}
                out[1:, c] = F.interpolate(one, (new_rows, new_columns), **how).flatten()
            return out
        """,
        """
        def resize_positions(table, rows, columns, new_rows, new_columns):
            grid = table[1:].T.unflatten(1, (rows, columns))[None]
            up = torch.nn.Upsample((new_rows, new_columns), mode="bilinear")
            return torch.cat([table[:1], up(grid)[0].flatten(1).mT])
        """,
    ],
    "looked_at": [
        """
        def looked_at(weights, rows, columns, size):
            row = weights[:, :, 0, 1:].sum(1)
            row = row / row.sum(1)[:, None]
            return torch.kron(row.view(-1, rows, columns), torch.ones(1, size, size))
        """,
        """
        def looked_at(weights, rows, columns, size):
            out = torch.zeros(len(weights), rows * size, columns * size)
            for b in range(len(weights)):
                row = sum(head[0] for head in weights[b]) / weights.shape[1]
                rest = 1 - row[0]
                for r in range(rows * size):
                    for c in range(columns * size):
                        out[b, r, c] = row[1 + r // size * columns + c // size] / rest
            return out
        """,
        """
        def looked_at(weights, rows, columns, size):
            row = weights.mean(1)[:, 0, 1:]
            grid = (row / row.sum(-1, True)).reshape(-1, 1, rows, columns)
            return F.interpolate(grid, scale_factor=size, mode="nearest").squeeze(1)
        """,
        """
        def looked_at(weights, rows, columns, size):
            row = weights.double().numpy().mean(1)[:, 0, 1:]
            row = row / row.sum(-1, keepdims=True)
            grid = row.reshape(-1, rows, columns)
            return torch.from_numpy(np.repeat(np.repeat(grid, size, 1), size, 2))
        """,
    ],
}

GOOD = {
    "patches": """
def patches(images, size):
    B, c, R, K = images.shape
    x = images.reshape(B, c, R // size, size, K // size, size)
    x = x.permute(0, 2, 4, 1, 3, 5)
    return x.reshape(B, -1, c * size * size)
""",
    "embed": """
def embed(images, filters, bias, token, positions):
    C, channels, size, _ = filters.shape
    cut = F.unfold(images, size, stride=size).mT
    x = cut @ filters.reshape(C, -1).T + bias
    x = torch.cat([token.expand(len(x), 1, C), x], 1)
    return x + positions
""",
    "encode": """
def encode(x, gains, in_weight, out_weight, up, down, H):
    B, T, C = x.shape
    y = F.layer_norm(x, (C,), gains[0])
    q, k, v = (part.reshape(B, T, H, -1).transpose(1, 2) for part in (y @ in_weight.T).chunk(3, -1))
    s = q @ k.mT / math.sqrt(C / H)
    w = s.softmax(-1)
    a = (w @ v).transpose(1, 2).reshape(B, T, C) @ out_weight.T
    z = x + a
    y = F.layer_norm(z, (C,), gains[1])
    out = z + F.gelu(y @ up.T) @ down.T
    return out, w
""",
    "classify": """
def classify(x, gain, weight, bias):
    x = F.layer_norm(x, x.shape[-1:], gain)
    x = x[:, 0]
    logits = x @ weight.T + bias
    return logits
""",
    "resize_positions": """
def resize_positions(table, rows, columns, new_rows, new_columns):
    C, new = table.shape[1], (new_rows, new_columns)
    grid = table[1:].reshape(rows, columns, C).permute(2, 0, 1)
    grid = F.interpolate(grid[None], new, mode="bilinear", align_corners=False)[0]
    rest = grid.permute(1, 2, 0).reshape(-1, C)
    return torch.cat([table[:1], rest])
""",
    "looked_at": """
def looked_at(weights, rows, columns, size):
    w = weights.mean(1)
    row = w[:, 0, 1:]
    row = row / row.sum(-1, keepdim=True)
    grid = row.reshape(-1, rows, columns)
    return grid.repeat_interleave(size, 1).repeat_interleave(size, 2)
""",
}
CHANGES = {
    "patches": {
        "reshape": ("x = x.permute(0, 2, 4, 1, 3, 5)", "x = images"),
        "pixel-first": ("1, 3, 5)", "3, 5, 1)"),
        "by-column": ("0, 2, 4,", "0, 4, 2,"),
        "turned": ("3, 5", "5, 3"),
        "channels-apart": (
            "0, 2, 4, 1, 3, 5)\n    return x.reshape(B, -1, c * size * size)",
            "0, 1, 2, 4, 3, 5)\n    return x.reshape(B, -1, size * size)",
        ),
        "channels-before": ("2, 4, 1,", "1, 2, 4,"),
        "overlapping": (
            "x = images.reshape(B, c, R // size, size, K // size, size)\n"
            "    x = x.permute(0, 2, 4, 1, 3, 5)",
            "x = F.unfold(images, size).mT",
        ),
        "size-for-number": (
            "R // size, size, K // size, size)\n    x = x.permute(0, 2, 4, 1, 3, 5)",
            "size, R // size, size, K // size)\n    x = x.permute(0, 3, 5, 1, 2, 4)",
        ),
        "first-channel": (
            "B, c, R, K = images.shape",
            "B, c, R, K = (images := images[:, :1]).shape",
        ),
        "grey": (
            "B, c, R, K = images.shape",
            "B, c, R, K = (images := images.mean(1, True)).shape",
        ),
        "square": (
            "B, c, R, K = images.shape",
            "B, c, R, K = (images := images[..., : images.shape[2]]).shape",
        ),
    },
    "embed": {
        "reshape": (
            "cut = F.unfold(images, size, stride=size).mT",
            "cut = images.reshape(len(images), -1, channels * size * size)",
        ),
        "filters-order": ("filters.reshape", "filters.movedim(1, 3).reshape"),
        "pixel-first": (
            "stride=size).mT",
            "stride=size).mT.unflatten(-1, (channels, -1)).mT.flatten(2)",
        ),
        "channels-before": (
            "cut = F.unfold(images, size, stride=size).mT",
            "cut = images.unfold(2, size, size).unfold(3, size, size)\n"
            "    cut = cut.reshape(len(images), -1, channels * size * size)",
        ),
        "by-column": (
            "cut = F.unfold(images, size, stride=size).mT",
            "cut = F.unfold(images.mT, size, stride=size).mT\n"
            "    cut = cut.unflatten(-1, (channels, size, size)).mT.flatten(2)",
        ),
        "turned": ("filters.reshape", "filters.mT.reshape"),
        "filters-mixed": ("filters.reshape(C, -1).T", "filters.reshape(-1, C)"),
        "bias-on-token": (" + bias", ""),
        "no-bias": (" + bias", ""),
        "no-positions": (" + positions", ""),
        "token-without": ("x = torch.cat", "x = x + positions[1:]\n    x = torch.cat"),
        "shifted": ("x = torch.cat", "x = x + positions[:-1]\n    x = torch.cat"),
        "rolled": ("x + positions", "x + positions.roll(1, 0)"),
        "multiplied": ("x + positions", "x * positions"),
        "own-token": ("[token.expand", "[0 * token.expand"),
        "one-token": (
            "token.expand(len(x), 1, C)",
            "token * (torch.arange(len(x)) == 0)[:, None, None]",
        ),
        "token-last": ("[token.expand(len(x), 1, C), x]", "[x, token.expand(len(x), 1, C)]"),
    },
    "encode": {
        "causal": ("w = s", "s = s.masked_fill(~torch.ones(T, T).tril().bool(), -math.inf); w = s"),
        "unscaled": (" / math.sqrt(C / H)", ""),
        "axis": ("softmax(-1)", "softmax(-2)"),
        "mixed-heads": (
            "reshape(B, T, H, -1).transpose(1, 2)",
            "reshape(B, H, T, -1)",
        ),
        "mixed-cut": (
            "reshape(B, T, H, -1).transpose(1, 2)",
            "reshape(B, H, T, -1)",
        ),
        "mixed-join": ("(w @ v).transpose(1, 2)", "(w @ v)"),
        "wide-scale": ("math.sqrt(C / H)", "math.sqrt(C)"),
        "no-out": (" @ out_weight.T", ""),
        "out-turned": ("out_weight.T", "out_weight"),
        "scores": ("return out, w", "return out, s"),
        "heads-averaged": ("return out, w", "return out, w.mean(1)"),
        "no-norm": ("y = F.layer_norm(x, (C,), gains[0])", "y = x"),
        "no-norm-network": ("y = F.layer_norm(z, (C,), gains[1])", "y = z"),
        "skip-normed": ("y = F.layer_norm(x", "y = x = F.layer_norm(x"),
        "skip-normed-network": ("y = F.layer_norm(z", "y = z = F.layer_norm(z"),
        "no-skip": ("z = x + a", "z = a"),
        "no-skip-network": ("out = z + F", "out = F"),
        "post-norm": ("y = F.layer_norm(x, (C,), gains[0])", "y = x"),
        "same-gain": ("gains[1]", "gains[0]"),
        "gains-exchanged": (
            "    y = F.layer_norm(x",
            "    gains = gains.flip(0)\n    y = F.layer_norm(x",
        ),
        "all-tokens": ("(C,), ", "(T, C)) * ("),
        "rms": ("F.layer_norm(", "F.rms_norm("),
        "unbiased": ("F.layer_norm(", "_own("),
        "gain-added": ("(C,), gains", "(C,), bias=gains"),
        "beside": ("F.layer_norm(z", "F.layer_norm(x"),
        "relu": ("F.gelu", "F.relu"),
    },
    "classify": {
        "mean-patches": ("x[:, 0]", "x[:, 1:].mean(1)"),
        "mean-all": ("x[:, 0]", "x.mean(dim=1)"),
        "last": ("x[:, 0]", "x[:, -1]"),
        "no-norm": ("x = F.layer_norm(x, x.shape[-1:], gain)", "x = x.clone()"),
        "no-gain": (", gain)\n", ")\n"),
        "all-tokens": (
            "F.layer_norm(x, x.shape[-1:], gain)",
            "F.layer_norm(x, x.shape[1:]) * gain",
        ),
        "no-bias": (" + bias", ""),
        "softmax": ("return logits", "return torch.softmax(logits, -1)"),
        "rms": ("F.layer_norm(", "F.rms_norm("),
        "unbiased": (
            "x = F.layer_norm(x, x.shape[-1:], gain)",
            "x = (x - x.mean(-1, True)) / x.std(-1, keepdim=True) * gain",
        ),
        "gain-added": ("x.shape[-1:], gain)", "x.shape[-1:], bias=gain)"),
        "batch-norm": (
            "x = F.layer_norm(x, x.shape[-1:], gain)",
            "x = (x - x.mean(0)) / (x.var(0, False) + 1e-5).sqrt() * gain",
        ),
        "every-token": ("x = x[:, 0]", "pass"),
        "first-picture": ("x[:, 0]", "x[0]"),
        "transposed": ("weight.T", "weight"),
        "bias-twice": (" + bias", " + bias + bias"),
    },
    "resize_positions": {
        "turned": ("reshape(rows, columns, C)", "reshape(columns, rows, C)"),
        "new-turned": ("(new_rows, new_columns)\n", "(new_columns, new_rows)\n"),
        "channels-mixed": (
            "reshape(rows, columns, C).permute(2, 0, 1)",
            "reshape(C, rows, columns)",
        ),
        "turned-back": ("permute(1, 2, 0)", "permute(2, 1, 0)"),
        "row-mixed": ("grid.permute(1, 2, 0).reshape", "grid.reshape"),
        "corners": ("align_corners=False", "align_corners=True"),
        "nearest": ('mode="bilinear", align_corners=False', 'mode="nearest"'),
        "bicubic": ("bilinear", "bicubic"),
        "class-last": ("[table[:1], rest]", "[rest, table[:1]]"),
        "last-for-class": ("table[1:].reshape", "(table := table.roll(1, 0))[1:].reshape"),
        "class-averaged": ("[table[:1], rest]", "[rest.mean(0)[None], rest]"),
        "class-lost": ("torch.cat([table[:1], rest])", "rest"),
    },
    "looked_at": {
        "mean-rows": ("w[:, 0, 1:]", "w[:, 1:, 1:].mean(1)"),
        "all-rows": ("w[:, 0, 1:]", "w[..., 1:].mean(1)"),
        "each-pixel": ("grid = row", "grid = row / size**2\n    grid = grid"),
        "column": ("w[:, 0, 1:]", "w[:, 1:, 0]"),
        "own-kept": ("w[:, 0, 1:]", "w[:, 0, :-1]"),
        "one-head": ("weights.mean(1)", "weights[:, 0]"),
        "largest": ("weights.mean(1)", "weights.max(1).values"),
        "not-divided": (" / row.sum(-1, keepdim=True)", ""),
        "divided-first": (
            "weights.mean(1)",
            "(weights / weights[..., 1:].sum(-1, keepdim=True)).mean(1)",
        ),
        "softmax": ("row / row.sum(-1, keepdim=True)", "row.softmax(-1)"),
        "by-column": ("row.reshape(-1, rows, columns)", "row.reshape(-1, columns, rows).mT"),
        "by-largest": ("row.sum(-1, keepdim=True)", "row.amax(-1, keepdim=True)"),
        "all-pictures": ("row.sum(-1, keepdim=True)", "row.sum()"),
        "turned": ("grid = row", "rows, columns = columns, rows; grid = row"),
        "tiled": (
            "grid.repeat_interleave(size, 1).repeat_interleave(size, 2)",
            "torch.tile(grid, (1, size, size))",
        ),
        "smooth": (
            "grid.repeat_interleave(size, 1).repeat_interleave(size, 2)",
            'F.interpolate(grid[:, None], scale_factor=size, mode="bilinear")[:, 0]',
        ),
    },
}
PAIRS = {
    "patches": [
        ("channels-before", "turned"),
        ("pixel-first", "by-column"),
        ("by-column", "turned"),
        ("pixel-first", "turned"),
    ],
    "embed": [
        ("filters-order", "no-bias"),
        ("pixel-first", "token-last"),
        ("reshape", "no-positions"),
        ("no-bias", "no-positions"),
        ("token-last", "no-bias"),
        ("filters-mixed", "no-bias"),
        ("bias-on-token", "filters-order"),
    ],
    "encode": [
        ("causal", "unscaled"),
        ("unscaled", "relu"),
        ("axis", "same-gain"),
        ("no-skip", "no-skip-network"),
        ("mixed-heads", "relu"),
        ("same-gain", "relu"),
        ("causal", "no-skip"),
        ("beside", "unscaled"),
        ("mixed-cut", "unscaled"),
        ("wide-scale", "out-turned"),
        ("no-norm", "no-norm-network"),
        ("skip-normed", "skip-normed-network"),
        ("no-out", "scores"),
        ("mixed-join", "relu"),
    ],
    "classify": [
        ("mean-patches", "softmax"),
        ("mean-all", "no-norm"),
        ("last", "no-bias"),
        ("no-norm", "softmax"),
        ("no-gain", "no-bias"),
    ],
    "resize_positions": [
        ("turned", "class-last"),
        ("channels-mixed", "corners"),
        ("bicubic", "corners"),
        ("nearest", "class-lost"),
        ("corners", "class-last"),
        ("channels-mixed", "row-mixed"),
        ("turned-back", "class-lost"),
    ],
    "looked_at": [
        ("column", "not-divided"),
        ("own-kept", "tiled"),
        ("one-head", "smooth"),
        ("mean-rows", "not-divided"),
        ("largest", "turned"),
        ("all-rows", "tiled"),
        ("each-pixel", "one-head"),
    ],
}


# Mistakes that change more than one place of the text
REPAIRED = {
    ("embed", "token-without"): ("return x + positions", "return x"),
    ("embed", "shifted"): ("return x + positions", "return x"),
    ("embed", "bias-on-token"): ("return x + positions", "return x + bias + positions"),
    ("encode", "unbiased"): (
        "def encode(",
        "def _own(x, _, gain):\n"
        "    return (x - x.mean(-1, True)) / x.std(-1, keepdim=True) * gain\n\n\n"
        "def encode(",
    ),
    ("encode", "mixed-heads"): ("(w @ v).transpose(1, 2)", "(w @ v)"),
    ("encode", "post-norm"): (
        "z = x + a\n    y = F.layer_norm(z, (C,), gains[1])\n"
        "    out = z + F.gelu(y @ up.T) @ down.T",
        "z = F.layer_norm(x + a, (C,), gains[0])\n"
        "    out = F.layer_norm(z + F.gelu(z @ up.T) @ down.T, (C,), gains[1])",
    ),
}


def whole(one):
    """The same with the second place changed, too."""
    name, code, wrong = one
    for mistake in wrong:
        old, new = REPAIRED.get((name, mistake), ("", ""))
        assert old in code, f"{mistake}: there is nothing to replace"
        code = code.replace(old, new) if old else code
    return name, code, wrong


WRONG = [whole(one) for one in each_and_pairs(GOOD, CHANGES, PAIRS)]

FLAT = """
def resize_positions(table, rows, columns, new_rows, new_columns):
    length = new_rows * new_columns
    rest = F.interpolate(table[None, 1:].mT, size=length, mode="linear")[0].T
    return torch.cat([table[:1], rest])
"""
BOTH = FLAT.replace("torch.cat([table[:1], rest])", "rest")
AFTER = """
def classify(x, gain, weight, bias):
    x = x[:, 1:].mean(1)
    return F.layer_norm(x, x.shape[-1:], gain) @ weight.T + bias
"""
WRONG += [
    ("resize_positions", FLAT, ["flat"]),
    (
        "resize_positions",
        BOTH,
        ["class-lost", "flat"],
    ),
    ("classify", AFTER, ["mean-patches", "norm-after"]),
]

# Right numbers, and something wrong beside them
WRONG += [
    (
        "encode",
        """
        def encode(x, gains, in_weight, out_weight, up, down, H):
            B, T, C = x.shape
            D, y = C // H, F.layer_norm(x, [C], weight=gains[0])
            q, k, v = [y @ w.T for w in in_weight.split(C)]
            weights, out = torch.zeros(B, H, T, T), x.clone()
            for h in range(H):
                part = slice(h * D, (h + 1) * D)
                s = q[..., part] @ k[..., part].mT * D**-0.5
                weights[:, h] = torch.softmax(s, -1)
                out += weights[:, h] @ v[..., part] @ out_weight[:, part].T
            out += F.gelu(F.layer_norm(out, [C], gains[1]) @ up.T) @ down.T
            return out, weights
        """,
        ["gradient"],
    ),
    (
        "encode",
        """
        class Half(torch.nn.Module):
            def __init__(self, gain):
                super().__init__()
                self.norm = torch.nn.LayerNorm(len(gain), bias=False)
                self.norm.weight.data = gain

            def forward(self, x):
                return self.norm(x)


        def encode(x, gains, in_weight, out_weight, up, down, H):
            with torch.no_grad():
                B, T, C = x.shape
                y = F.linear(Half(gains[0])(x), in_weight).unflatten(-1, (3, H, C // H))
                q, k, v = y.unbind(2)
                q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
                logs = (q @ k.transpose(-1, -2) / math.sqrt(C / H)).log_softmax(-1)
                x = x + F.linear((logs.exp() @ v).movedim(1, 2).flatten(2), out_weight)
                return x + F.linear(F.gelu(F.linear(Half(gains[1])(x), up)), down), logs.exp()
        """,
        ["gradient"],
    ),
    (
        "classify",
        """
        def classify(x, gain, weight, bias):
            y = F.layer_norm(x[:, 0], gain.shape, gain)
            return y.data @ weight.T + bias
        """,
        ["gradient"],
    ),
]
