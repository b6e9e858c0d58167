"""Lab 4 as students write it: right in unusual ways, and typical mistakes, alone and in pairs."""

from mistaken import written

BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"

PARTS = """
def split_heads(x, H):
    return x.reshape(*x.shape[:-1], H, -1).transpose(-2, -3)


def merge_heads(x):
    return x.transpose(-2, -3).flatten(-2)


def project(x, weight, bias):
    q, k, v = (x @ weight.T + bias).chunk(3, -1)
    return q, k, v
"""
OWN = PARTS.replace("def ", "def _")
CONTEXT = {"multi_head": PARTS, "cross": PARTS}

RIGHT = {
    "split_heads": [
        """
        def split_heads(x, H):
            return torch.stack(x.chunk(H, dim=-1), dim=-3)
        """,
        """
        def split_heads(x, H):
            D = x.shape[-1] // H
            return torch.stack([x[..., h * D : (h + 1) * D] for h in range(H)], -3)
        """,
        """
        def split_heads(x, H):
            return torch.from_numpy(np.moveaxis(x.numpy().reshape(*x.shape[:-1], H, -1), -2, -3))
        """,
    ],
    "merge_heads": [
        """
        def merge_heads(x):
            return torch.cat(list(x.unbind(-3)), dim=-1)
        """,
        """
        def merge_heads(x):
            T, D = x.shape[-2:]
            out = torch.zeros(*x.shape[:-3], T, x.shape[-3] * D)
            for h in range(x.shape[-3]):
                out[..., h * D : (h + 1) * D] = x[..., h, :, :]
            return out
        """,
        "def merge_heads(x):\n    return x.double().movedim(-3, -2).flatten(-2).to(x.dtype)",
    ],
    "project": [
        """
        def project(x, weight, bias):
            return tuple(F.linear(x, w, b) for w, b in zip(weight.chunk(3), bias.chunk(3)))
        """,
        """
        def project(x, weight, bias):
            C = x.shape[-1]
            y = torch.einsum("...c,oc->...o", x, weight) + bias
            return y[..., :C], y[..., C : 2 * C], y[..., 2 * C :]
        """,
        """
        def project(x, weight, bias):
            y = x.double() @ weight.double().t()
            y += bias
            return list(torch.split(y, x.shape[-1], dim=-1))
        """,
    ],
    "multi_head": [
        """
        def multi_head(x, in_weight, in_bias, out_weight, out_bias, H, mask=None):
            B, T, C = x.shape
            y = F.linear(x, in_weight, in_bias).view(B, T, 3, H, C // H)
            q, k, v = y.permute(2, 0, 3, 1, 4)
            if mask is not None and mask.dim() == 3:
                mask = mask[:, None]
            y = F.scaled_dot_product_attention(q, k, v, mask)
            return F.linear(y.transpose(1, 2).reshape(B, T, C), out_weight, out_bias)
        """,
        """
        def multi_head(x, in_weight, in_bias, out_weight, out_bias, H, mask=None):
            q, k, v = project(x, in_weight, in_bias)
            D, out = x.shape[-1] // H, 0
            for h in range(H):
                part = slice(h * D, (h + 1) * D)
                s = q[..., part] @ k[..., part].mT * D**-0.5
                if mask is not None:
                    s = s + torch.where(mask, 0.0, -1e9)
                out = out + s.softmax(-1) @ v[..., part] @ out_weight[:, part].T
            return out + out_bias
        """,
        """
        def multi_head(x, in_weight, in_bias, out_weight, out_bias, H, mask=None):
            x, in_weight, in_bias, out_weight, out_bias = (
                a.double() for a in (x, in_weight, in_bias, out_weight, out_bias)
            )
            q, k, v = (split_heads(a, H) for a in project(x, in_weight, in_bias))
            s = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
            e = s.exp() if mask is None else s.exp() * mask.view(-1, 1, *mask.shape[-2:])
            w = e / e.sum(-1, keepdim=True)
            return merge_heads(torch.einsum("bhij,bhjd->bhid", w, v)) @ out_weight.T + out_bias
        """,
    ],
    "cross": [
        """
        def cross(x, memory, in_weight, in_bias, out_weight, out_bias, H):
            C = x.shape[-1]
            q = F.linear(x, in_weight[:C], in_bias[:C])
            k, v = F.linear(memory, in_weight[C:], in_bias[C:]).chunk(2, -1)
            q, k, v = (split_heads(a, H) for a in (q, k, v))
            y = merge_heads(F.scaled_dot_product_attention(q, k, v))
            return F.linear(y, out_weight, out_bias)
        """,
        """
        def cross(x, memory, in_weight, in_bias, out_weight, out_bias, H):
            rows = []
            for b in range(len(x)):
                q = project(x[b], in_weight, in_bias)[0]
                _, k, v = project(memory[b], in_weight, in_bias)
                heads = []
                for a, c, d in zip(q.chunk(H, -1), k.chunk(H, -1), v.chunk(H, -1)):
                    heads.append(F.softmax(a @ c.T / math.sqrt(a.shape[-1]), dim=1) @ d)
                rows.append(torch.cat(heads, -1) @ out_weight.T + out_bias)
            return torch.stack(rows)
        """,
    ],
    "grouped": [
        """
        def grouped(q, k, v, mask=None):
            B, H, T, D = q.shape
            q = q.view(B, k.shape[1], -1, T, D)
            s = q @ k[:, :, None].mT / math.sqrt(D)
            if mask is not None:
                s = torch.where(mask, s, torch.tensor(-math.inf))
            return (s.softmax(-1) @ v[:, :, None]).flatten(1, 2)
        """,
        """
        def grouped(q, k, v, mask=None):
            out, share = torch.zeros_like(q), q.shape[1] // k.shape[1]
            for h in range(q.shape[1]):
                s = q[:, h] @ k[:, h // share].mT / q.shape[-1] ** 0.5
                s = s if mask is None else s.masked_fill(mask == False, -1e12)
                out[:, h] = s.softmax(-1) @ v[:, h // share]
            return out
        """,
        """
        def grouped(q, k, v, mask=None):
            H, G = q.size(1), k.size(1)
            index = torch.arange(H) // (H // G)
            return F.scaled_dot_product_attention(q, k[:, index], v[:, index], mask)
        """,
    ],
    "contributions": [
        """
        def contributions(heads, out_weight):
            B, H, T, D = heads.shape
            alone = torch.zeros(B, H, T, H * D)
            for h in range(H):
                one = torch.zeros_like(heads)
                one[:, h] = heads[:, h]
                alone[:, h] = one.transpose(1, 2).flatten(2) @ out_weight.T
            return alone
        """,
        """
        def contributions(heads, out_weight):
            return heads @ out_weight.T.reshape(heads.shape[1], heads.shape[3], -1)
        """,
        """
        def contributions(heads, out_weight):
            parts = out_weight.double().split(heads.shape[-1], dim=1)
            return torch.stack([heads[:, h].double() @ w.T for h, w in enumerate(parts)], dim=1)
        """,
    ],
}

WHOLE = (
    OWN
    + """
def multi_head(x, in_weight, in_bias, out_weight, out_bias, H, mask=None):
    q, k, v = _project(x, in_weight, in_bias)
    q, k, v = (_split_heads(part, H) for part in (q, k, v))
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask[..., None, :, :], -math.inf)
    heads = _merge_heads(s.softmax(-1) @ v)
    return heads @ out_weight.T + out_bias
"""
)
IN_WHOLE = {
    "unscaled": (" / math.sqrt(q.shape[-1])", ""),
    "scale-width": ("math.sqrt(q.shape[-1])", "math.sqrt(x.shape[-1])"),
    "axis": ("s.softmax(-1)", "s.softmax(-2)"),
    "mask-ignored": ("mask is not None", "False"),
    "polarity": ("~mask", "mask"),
    "no-output": ("heads @ out_weight.T + out_bias", "heads"),
    "out-transposed": ("out_weight.T +", "out_weight +"),
    "no-out-bias": (" + out_bias", ""),
    "order": ("q, k, v = _project", "k, q, v = _project"),
    "queries-values": ("q, k, v = _project", "v, k, q = _project"),
    "values-raw": ("s = q", "v = _split_heads(x, H); s = q"),
    "skip": (" + out_bias", " + out_bias + x"),
    "causal": ("if mask is", "mask = torch.ones(s.shape[-2:]).tril() > 0\n    if mask is"),
    "by-head": (
        "(_split_heads(part, H) for part in (q, k, v))",
        "F.linear(x, in_weight, in_bias).unflatten(-1, (H, 3, -1)).permute(3, 0, 2, 1, 4)",
    ),
    "every-third": (
        "q, k, v = _project(x, in_weight, in_bias)",
        "q, k, v = F.linear(x, in_weight, in_bias).unflatten(-1, (-1, 3)).unbind(-1)",
    ),
    "axis-heads-low": (
        "-math.inf)\n    heads = _merge_heads(s.softmax(-1) @ v)",
        "-1e30)\n    heads = _merge_heads(s.softmax(1) @ v)",
    ),
    "mask-by-heads": ("mask[..., None, :, :]", "mask"),
    "first-mask": ("~mask[..., None, :, :]", "~mask.reshape(-1, *mask.shape[-2:])[0]"),
    "mask-transposed": ("~mask", "~mask.mT"),
    "mask-added": ("s.masked_fill(~mask[..., None, :, :], -math.inf)", "s + mask[..., None, :, :]"),
    "hidden-zero": ("-math.inf", "1e-9"),
    "mask-after": (
        "s = s.masked_fill(~mask[..., None, :, :], -math.inf)\n    heads",
        "v = s.softmax(-1) * mask[..., None, :, :] @ v\n"
        "    else:\n        v = s.softmax(-1) @ v\n    s = torch.eye(len(x[0])).log()\n    heads",
    ),
}
# Mistakes in what stands in both functions
IN_BOTH = {
    "axis-heads": ("s.softmax(-1)", "s.softmax(1)"),
    "axis-batch": ("s.softmax(-1)", "s.softmax(0)"),
    "no-softmax": ("s.softmax(-1)", "s"),
    "weights-turned": ("s.softmax(-1)", "s.softmax(-1).mT"),
    "divided-by-width": ("math.sqrt(q.shape[-1])", "q.shape[-1]"),
    "multiplied": ("/ math.sqrt", "* math.sqrt"),
    "scale-heads": ("q.shape[-1])", "q.shape[1])"),
    "scale-positions": ("q.shape[-1])", "q.shape[-2])"),
}
IN_LAYER = {
    "mixed-heads": (
        "x.reshape(*x.shape[:-1], H, -1).transpose(-2, -3)",
        "x.reshape(len(x), H, -1, x.shape[-1] // H)",
    ),
    "mixed-merge": ("x.transpose(-2, -3).flatten(-2)", "x.reshape(len(x), x.shape[2], -1)"),
    "interleaved": (
        "x.reshape(*x.shape[:-1], H, -1).transpose(-2, -3)",
        "x.reshape(*x.shape[:-1], -1, H).permute(0, 3, 1, 2)",
    ),
    "interleaved-merge": ("x.transpose(-2, -3).flatten(-2)", "x.permute(0, 2, 3, 1).flatten(-2)"),
    "one-head": ("_split_heads(part, H)", "_split_heads(part, 1)"),
    "as-width": ("_split_heads(part, H)", "_split_heads(part, x.shape[-1] // H)"),
    "only-bias": (" @ out_weight.T + out_bias", " + out_bias"),
    "no-out-bias": (" @ out_weight.T + out_bias", " @ out_weight.T"),
    "out-transposed": ("out_weight.T", "out_weight"),
    "no-output": (" @ out_weight.T + out_bias", ""),
    "no-in-bias": ("(x @ weight.T + bias)", "(x @ weight.T)"),
    "one-bias": ("weight.T + bias)", "weight.T + bias[: x.shape[-1]].repeat(3))"),
    "thirds-transposed": (
        "x @ weight.T + bias",
        "torch.cat([x @ w for w in weight.chunk(3)], -1) + bias",
    ),
    "keys-values": ("return q, k, v", "return q, v, k"),
    "keys-twice": ("return q, k, v", "return q, k, k"),
}
CROSS = (
    OWN
    + """
def cross(x, memory, in_weight, in_bias, out_weight, out_bias, H):
    asks, told = x, memory
    q = _project(asks, in_weight, in_bias)[0]
    k = _project(told, in_weight, in_bias)[1]
    v = _project(told, in_weight, in_bias)[2]
    q, k, v = (_split_heads(part, H) for part in (q, k, v))
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return _merge_heads(s.softmax(-1) @ v) @ out_weight.T + out_bias
"""
)
IN_CROSS = {
    "swapped": ("asks, told = x, memory", "asks, told = memory, x"),
    "self": ("asks, told = x, memory", "asks, told = x, x"),
    "unscaled": (" / math.sqrt(q.shape[-1])", ""),
    "scale-width": ("math.sqrt(q.shape[-1])", "math.sqrt(x.shape[-1])"),
    "axis": ("s.softmax(-1)", "s.softmax(-2)"),
    "values-from-x": ("v = _project(told", "v = _project(x"),
    "keys-from-x": ("k = _project(told", "k = _project(x"),
    "joined": ("told = x, memory", "told = x, torch.cat([x, memory], 1)"),
    "first-rows": (
        "k = _project(told, in_weight, in_bias)[1]\n    v = _project(told, in_weight, in_bias)[2]",
        "k, v, _ = _project(told, in_weight, in_bias)",
    ),
    "keys-first": (
        "k = _project(told, in_weight, in_bias)[1]",
        "k = _project(told, in_weight, in_bias)[0]",
    ),
    "memory-raw": ("for part in (q, k, v)", "for part in (q, memory, memory)"),
    "no-memory-bias": (
        "_project(told, in_weight, in_bias)",
        "_project(told, in_weight, 0 * in_bias)",
    ),
}
GROUPED = """
def grouped(q, k, v, mask=None):
    share = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(share, 1)
    v = v.repeat_interleave(share, 1)
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf)
    return s.softmax(-1) @ v
"""
IN_GROUPED = {
    "unscaled": (" / math.sqrt(q.shape[-1])", ""),
    "axis": ("s.softmax(-1)", "s.softmax(-2)"),
    "mask-ignored": ("mask is not None", "False"),
    "polarity": ("~mask", "mask"),
    "causal": (
        "    if mask is not None:\n        s",
        "    mask = torch.ones(s.shape[-2:], dtype=torch.bool).tril()\n    if True:\n        s",
    ),
    "tiled": ("repeat_interleave(share, 1)", "repeat(1, share, 1, 1)"),
    "first-only": ("share = q", "k, v = k[:, :1], v[:, :1]; share = q"),
    "divisor": (
        "k = k.repeat_interleave(share, 1)\n    v = v.repeat_interleave(share, 1)",
        "index = torch.arange(q.shape[1]) // k.shape[1]\n    k, v = k[:, index], v[:, index]",
    ),
    "keys-tiled": ("k.repeat_interleave(share, 1)", "k.repeat(1, share, 1, 1)"),
    "mask-transposed": ("~mask", "~mask.mT"),
    "mask-added": ("s.masked_fill(~mask, -math.inf)", "s + mask"),
    "hidden-zero": ("-math.inf", "0"),
    "mask-after": (
        "s.masked_fill(~mask, -math.inf)",
        "(s.exp() * mask / s.exp().sum(-1, True)).log()\n        return s.exp() @ v",
    ),
    "scale-width": ("math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-1] * q.shape[1])"),
    "axis-heads-low": (
        "-math.inf)\n    return s.softmax(-1) @ v",
        "-1e30)\n    return s.softmax(1) @ v",
    ),
    "queries-averaged": (
        "s = q",
        "q = q.unflatten(1, (-1, share)).mean(2).repeat_interleave(share, 1)\n    s = q",
    ),
    "groups-summed": ("s.softmax(-1) @ v", "(s.softmax(-1) @ v).unflatten(1, (-1, share)).sum(2)"),
    "groups-averaged": (
        "s.softmax(-1) @ v",
        "(s.softmax(-1) @ v).unflatten(1, (-1, share)).mean(2)",
    ),
    "values-tiled": ("v.repeat_interleave(share, 1)", "v.repeat(1, share, 1, 1)"),
}
DEF = {
    "split_heads": "def split_heads(x, H):\n    C = x.shape[-1]\n    return ",
    "merge_heads": "def merge_heads(x):\n    H, T, D = x.shape[-3:]\n    return ",
    "project": "def project(x, weight, bias):\n    C = x.shape[-1]\n    return ",
    "contributions": "def contributions(heads, out_weight):\n"
    "    _, H, _, D = heads.shape\n    return ",
}
LINES = {
    "split_heads": {
        "x.reshape(*x.shape[:-2], H, -1, C // H)": ["no-transpose"],
        "x.view(*x.shape[:-2], H, x.shape[-2], C // H)": ["no-transpose"],
        "x.reshape(*x.shape[:-1], H, C // H)": ["heads-after"],
        "x.reshape(*x.shape[:-1], H, C // H).transpose(1, 2)": ["from-front"],
        "x.reshape(*x.shape[:-1], H, C // H).mT": ["last-two"],
        "x.reshape(*x.shape[:-1], C // H, H).transpose(-2, -3)": ["as-width"],
        "torch.stack([x[..., h::H] for h in range(H)], -3)": ["interleaved"],
        "torch.stack([x[..., h::H] for h in range(H)], -2)": ["interleaved", "heads-after"],
        "torch.stack(x.chunk(H, -1)[::-1], -3)": ["heads-reversed"],
        "torch.stack(x.chunk(H, -2), -3)": ["positions-cut"],
    },
    "merge_heads": {
        "x.reshape(*x.shape[:-3], T, H * D)": ["no-transpose"],
        "x.mean(-3)": ["averaged"],
        "x.transpose(1, 2).reshape(*x.shape[:-3], T, H * D)": ["from-front"],
        "x.mT.reshape(*x.shape[:-3], T, H * D)": ["last-two"],
        "torch.stack(x.unbind(-3), -1).flatten(-2)": ["interleaved"],
        "x.sum(-3)": ["summed"],
        "torch.cat(x.unbind(-3), -2)": ["below"],
        "torch.cat(x.flip(-3).unbind(-3), -1)": ["heads-reversed"],
        "x.transpose(1, 2).flatten(-2)": ["from-front-joined"],
    },
    "project": {
        "(x @ weight.T).chunk(3, -1)": ["no-bias"],
        "F.linear(x, weight, bias)": ["not-split"],
        "F.linear(x, weight, bias).tensor_split([(n := x.shape[-2] // 3), 2 * n], -2)": [
            "positions-cut"
        ],
        "[F.linear(x, weight, bias)[..., n::3] for n in range(3)]": ["every-third"],
        "[F.linear(x, weight, bias)[..., C * n : C * (n + 1)] for n in (1, 0, 2)]": ["order"],
        "(x @ weight.reshape(C, 3 * C) + bias).chunk(3, -1)": ["transposed"],
        "[x @ w + b for w, b in zip(weight.chunk(3), bias.chunk(3))]": ["thirds-transposed"],
        "[x @ weight[n::3].T + b for n, b in enumerate(bias.chunk(3))]": ["rows-every-third"],
        "[x @ w.T + bias[:C] for w in weight.chunk(3)]": ["one-bias"],
        "[F.linear(x, weight, bias)[..., C * n : C * (n + 1)] for n in (0, 2, 1)]": ["keys-values"],
        "[F.linear(x, weight, bias)[..., C * n : C * n + C] for n in (2, 1, 0)]": [
            "queries-values"
        ],
        "[F.linear(x, weight, bias)[..., C * n : C * (n + 1)] for n in (0, 1, 1)]": ["keys-twice"],
        "[y / d for y, d in zip(F.linear(x, weight, bias).chunk(3, -1), (C**0.5, 1, 1))]": [
            "scaled"
        ],
        "[x @ w for w in weight.chunk(3)]": ["no-bias", "thirds-transposed"],
        "x @ weight.T": ["no-bias", "not-split"],
        "[(x @ weight.T)[..., n::3] for n in range(3)]": ["no-bias", "every-third"],
        "[(x @ weight.T).chunk(3, -1)[n] for n in (1, 0, 2)]": ["no-bias", "order"],
    },
    "contributions": {
        "heads @ out_weight.reshape(H, D, -1)": ["transposed"],
        "heads @ torch.stack([out_weight[:, h::H].T for h in range(H)])": ["interleaved"],
        "heads @ out_weight.T[:D]": ["same-part"],
        "heads @ torch.stack([out_weight.T[h : h + D] for h in range(H)])": ["overlap"],
        "heads @ out_weight.reshape(H, -1, D).mT": ["reshaped"],
        "torch.stack([torch.cat([heads[:, n] * (n != h) for n in range(H)], -1) for h in range(H)]"
        ", 1) @ out_weight.T": ["others"],
        "torch.stack([torch.stack([heads[:, n] * (n == h) for n in range(H)], 1).reshape("
        "len(heads), heads.shape[2], -1) for h in range(H)], 1) @ out_weight.T": ["mixed-merge"],
        "heads @ out_weight.T.reshape(H, D, -1) / H": ["averaged"],
        "(heads @ out_weight.T.reshape(H, D, -1)).sum(1)": ["summed"],
        "(heads @ out_weight.T.reshape(H, D, -1)).mean(1)": ["averaged", "summed"],
        "heads @ out_weight[:D]": ["transposed", "same-part"],
        "heads @ out_weight.T.reshape(H, D, -1).flip(0)": ["heads-reversed"],
        "heads @ torch.eye(H * D).reshape(H, D, -1)": ["placed"],
        "(heads @ out_weight.T.reshape(H, D, -1)).cumsum(1)": ["running-sum"],
        "(heads @ out_weight.T.reshape(H, D, -1)).transpose(1, 2)": ["heads-after"],
    },
}
PAIRS = {
    "multi_head": [
        ("unscaled", "no-out-bias"),
        ("unscaled", "polarity"),
        ("scale-width", "axis"),
        ("axis", "no-output"),
        ("polarity", "out-transposed"),
        ("mask-ignored", "order"),
        ("mask-ignored", "no-out-bias"),
        ("mixed-heads", "mixed-merge"),
        ("interleaved", "interleaved-merge"),
        ("divided-by-width", "hidden-zero"),
        ("keys-values", "mask-transposed"),
    ],
    "cross": [
        ("swapped", "axis"),
        ("self", "unscaled"),
        ("scale-width", "axis"),
        ("values-from-x", "unscaled"),
        ("no-in-bias", "no-out-bias"),
        ("mixed-heads", "mixed-merge"),
    ],
    "grouped": [
        ("tiled", "unscaled"),
        ("first-only", "polarity"),
        ("keys-tiled", "divided-by-width"),
        ("values-tiled", "mask-ignored"),
    ],
}


def apart(name, code):
    """Names of its own, or the helpers of another cell would take the place of these."""
    for part in ("_split_heads", "_merge_heads", "_project"):
        code = code.replace(part, f"_{name}{part}")
    return code


WRONG = [(name, DEF[name] + line, wrong) for name in DEF for line, wrong in LINES[name].items()]
for name, right, changes in (
    ("multi_head", WHOLE, IN_WHOLE | IN_BOTH | IN_LAYER),
    ("cross", CROSS, IN_CROSS | IN_BOTH | IN_LAYER),
    ("grouped", GROUPED, IN_GROUPED | IN_BOTH),
):
    chosen = [*([one] for one in changes), *map(list, PAIRS[name])]
    WRONG += [(name, apart(name, written(right, changes, wrong)), wrong) for wrong in chosen]

# Right numbers, and something wrong beside them
WRONG += [
    (
        "merge_heads",
        """
        def merge_heads(x):
            return x.transpose_(-2, -3).flatten(-2)
        """,
        ["in-place"],
    ),
]
