"""Lab 7 as students write it: right in unusual ways, and typical mistakes, alone and in pairs."""

from mistaken import each_and_pairs

BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"
CONTEXT = {}

RIGHT = {
    "rms_norm": [
        """
        def rms_norm(x, gain, eps=1e-5):
            y = x.clone()
            y /= (x.square().mean(-1, keepdim=True) + eps).sqrt()
            return y.mul_(gain)
        """,
        """
        def rms_norm(x, gain, eps=1e-5):
            return x * torch.rsqrt((x * x).sum(-1, keepdim=True) / x.size(-1) + eps) * gain
        """,
        """
        def rms_norm(x, gain, eps=1e-5):
            x = x.double()
            length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
            return gain * x / (length**2 / x.shape[-1] + eps) ** 0.5
        """,
    ],
    "swiglu": [
        """
        def swiglu(x, gate, up, down):
            return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)
        """,
        """
        def swiglu(x, gate, up, down):
            z, u = torch.einsum("...c,shc->s...h", x, torch.stack([gate, up]))
            return torch.einsum("...h,ch->...c", z / (1 + torch.exp(-z)) * u, down)
        """,
    ],
    "rotate": [
        """
        def rotate(x, start=0, base=10_000.0):
            T, D = x.shape[-2:]
            t = torch.arange(start, start + T, dtype=torch.float64)
            w = base ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
            turn = torch.polar(torch.ones(T, D // 2).double(), t[:, None] * w)
            z = torch.complex(*x.double().chunk(2, -1)) * turn
            return torch.cat([z.real, z.imag], -1)
        """,
        """
        def rotate(x, start=0, base=10_000.0):
            D = x.shape[-1]
            out = torch.zeros_like(x)
            for t in range(x.shape[-2]):
                for i in range(D // 2):
                    phi = (start + t) * base ** (-2 * i / D)
                    a, b = x[..., t, i], x[..., t, i + D // 2]
                    out[..., t, i] = a * math.cos(phi) - b * math.sin(phi)
                    out[..., t, i + D // 2] = a * math.sin(phi) + b * math.cos(phi)
            return out
        """,
        """
        def rotate(x, start=0, base=10_000.0):
            D = x.shape[-1]
            w = torch.exp(-math.log(base) * torch.arange(0, D, 2) / D).repeat(2)
            phi = (torch.arange(x.shape[-2]) + start)[:, None] * w
            turned = torch.cat([-x[..., D // 2 :], x[..., : D // 2]], -1)
            return x * phi.cos() + turned * phi.sin()
        """,
    ],
    "cached": [
        """
        def cached(q, k, v, old_k, old_v):
            k, v = torch.cat((old_k, k), 2), torch.cat((old_v, v), 2)
            s = q @ k.mT * q.size(-1) ** -0.5
            hidden = torch.ones(s.shape[-2:]).triu(1 + s.shape[-1] - s.shape[-2]).bool()
            return torch.softmax(s.masked_fill(hidden, -1e9), -1) @ v, k, v
        """,
        """
        def cached(q, k, v, old_k, old_v):
            outputs = []
            for t in range(q.shape[2]):
                old_k = torch.cat([old_k, k[:, :, t : t + 1]], 2)
                old_v = torch.cat([old_v, v[:, :, t : t + 1]], 2)
                s = (q[:, :, t : t + 1] * old_k).sum(-1) / math.sqrt(q.shape[-1])
                outputs.append((s.softmax(-1).unsqueeze(-1) * old_v).sum(2))
            return torch.stack(outputs, 2), old_k, old_v
        """,
    ],
    "route": [
        """
        def route(logits, active):
            least = logits.topk(active).values[:, -1:]
            return logits.masked_fill(logits < least, -math.inf).softmax(-1)
        """,
        """
        def route(logits, active):
            out = torch.zeros(logits.shape)
            for t, row in enumerate(logits.tolist()):
                best = sorted(range(len(row)), key=lambda e: -row[e])[:active]
                total = sum(math.exp(row[e]) for e in best)
                for e in best:
                    out[t, e] = math.exp(row[e]) / total
            return out
        """,
        """
        def route(logits, active):
            chances = logits.double().softmax(-1)
            share, who = chances.topk(active)
            return torch.zeros_like(chances).scatter(1, who, share / share.sum(1, keepdim=True))
        """,
    ],
    "mixture": [
        """
        def mixture(x, weights, experts):
            return torch.einsum("te,edc,tc->td", weights, experts, x)
        """,
        """
        def mixture(x, weights, experts):
            rows = []
            for t in range(len(x)):
                used = weights[t].nonzero().flatten()
                rows.append(sum(weights[t, e] * (experts[e] @ x[t]) for e in used))
            return torch.stack(rows)
        """,
    ],
}

GOOD = {
    "rms_norm": """
def rms_norm(x, gain, eps=1e-5):
    square = x.pow(2).mean(-1, keepdim=True)
    return x / (square + eps).sqrt() * gain
""",
    "swiglu": """
def swiglu(x, gate, up, down):
    z, u = x @ gate.T, x @ up.T
    return (F.silu(z) * u) @ down.T
""",
    "rotate": """
def interleave(parts, axis):
    return torch.stack(parts, -1).flatten(-2)


def rotate(x, start=0, base=10_000.0):
    T, D = x.shape[-2:]
    w = base ** (-2 * torch.arange(D // 2) / D)
    phi = torch.arange(start, start + T)[:, None] * w
    a, b = x[..., : D // 2], x[..., D // 2 :]
    return torch.cat((a * phi.cos() - b * phi.sin(), b * phi.cos() + a * phi.sin()), -1)
""",
    "cached": """
def cached(q, k, v, old_k, old_v):
    Tq = q.shape[-2]
    k, v = torch.cat((old_k, k), -2), torch.cat((old_v, v), -2)
    s = q @ k.mT / math.sqrt(q.shape[-1])
    see = torch.ones(s.shape[-2:], dtype=torch.bool).tril(s.shape[-1] - s.shape[-2])
    s = s.masked_fill(~see, -math.inf)
    return s.softmax(-1) @ v, k, v
""",
    "route": """
def route(logits, active):
    values, who = logits.topk(active)
    here = torch.zeros_like(logits).scatter(-1, who, 1.0) > 0
    return logits.masked_fill(~here, -math.inf).softmax(-1)
""",
    "mixture": """
def mixture(x, weights, experts):
    answers = x @ experts.mT
    return (weights.T[..., None] * answers).sum(0)
""",
}
TURN = """
    def turn(x):
        T, D = x.shape[-2:]
        phi = torch.arange(old_k.shape[-2], old_k.shape[-2] + T)[:, None] * 10000.0 ** (
            -2 * torch.arange(D // 2) / D
        )
        a, b = x[..., : D // 2], x[..., D // 2 :]
        return torch.cat((a * phi.cos() - b * phi.sin(), b * phi.cos() + a * phi.sin()), -1)

"""
CHANGES = {
    "rms_norm": {
        "centred": ("square =", "x = x - x.mean(-1, keepdim=True)\n    square ="),
        "eps-outside": ("(square + eps).sqrt()", "(square.sqrt() + eps)"),
        "no-root": (".sqrt()", ""),
        "sum": ("mean(-1", "sum(-1"),
        "no-gain": (" * gain", ""),
        "by-position": ("mean(-1", "mean(-2"),
        "all-vectors": ("mean(-1, keepdim=True)", "mean()"),
        "spread": ("x.pow(2).mean(", "x.var("),
        "variance": ("x.pow(2).mean(-1,", "x.var(-1, unbiased=False,"),
        "above": ("return x /", "return (x - x.mean(-1, keepdim=True)) /"),
        "mean-first": ("x.pow(2).mean(-1, keepdim=True)", "x.mean(-1, keepdim=True) ** 2"),
        "no-square": (".pow(2)", ""),
        "absolute": ("x.pow(2).mean(-1, keepdim=True)", "x.abs().mean(-1, keepdim=True) ** 2"),
        "mean": ("x / (square + eps).sqrt()", "x / (x.mean(-1, keepdim=True) + eps)"),
        "multiplied": ("x / ", "x * "),
        "gain-below": ("(square + eps).sqrt() * gain", "((square + eps).sqrt() * gain)"),
        "gain-added": (" * gain", " + gain"),
        "gain-plus-one": (" * gain", " * (gain + 1)"),
        "one-fewer": (
            "x.pow(2).mean(-1, keepdim=True)",
            "x.pow(2).sum(-1, True) / (len(gain) - 1)",
        ),
        "gain-first": ("square =", "x, gain = x * gain, 1.0\n    square ="),
        "no-eps": ("square + eps", "square + 1e-6"),
    },
    "swiglu": {
        "sigmoid": ("F.silu(z)", "z.sigmoid()"),
        "relu": ("F.silu(z)", "z.relu()"),
        "no-activation": ("F.silu(z)", "z"),
        "exchanged": ("z, u = x", "u, z = x"),
        "added": ("* u", "+ u"),
        "no-down": (" @ down.T", ""),
        "gelu": ("F.silu(z)", "F.gelu(z)"),
        "tanh": ("F.silu(z)", "z.tanh()"),
        "times-tanh": ("F.silu(z)", "z * z.tanh()"),
        "times-softmax": ("F.silu(z)", "z * z.softmax(-1)"),
        "softmax": ("F.silu(z)", "z.softmax(-1)"),
        "sign": ("F.silu(z)", "z / (1 + torch.exp(z))"),
        "no-up": (" * u)", ")"),
        "no-gate": ("F.silu(z) * u", "u"),
        "gate-twice": ("x @ up.T", "x @ gate.T"),
        "up-twice": ("x @ gate.T", "x @ up.T"),
        "both": (" * u", " * F.silu(u)"),
        "late": ("F.silu(z) * u", "F.silu(z * u)"),
        "before": ("(F.silu(z)", "(F.silu(x) @ gate.T"),
        "residual": ("return ", "return x + "),
        "reshaped": (
            "z, u",
            "gate, up, down = [w.reshape(w.shape[::-1]).T for w in (gate, up, down)]\n    z, u",
        ),
    },
    "rotate": {
        "neighbours": (
            "x[..., : D // 2], x[..., D // 2 :]\n    return torch.cat(",
            "x[..., 0::2], x[..., 1::2]\n    return interleave(",
        ),
        "first-axis": (
            "torch.arange(start, start + T)[:, None]",
            "torch.arange(start, start + len(x)).reshape(-1, *[1] * (x.dim() - 1))",
        ),
        "backwards": ("[:, None] * w", "[:, None] * -w"),
        "no-start": ("(start, start + T)", "(T)"),
        "half-frequencies": ("-2 * torch", "-torch"),
        "added": ("return torch", "return x + torch.cat((phi.sin(), phi.cos()), -1)\n    torch"),
        "base-fixed": ("base **", "10000.0 **"),
        "from-one": ("(start, start + T)", "(start + 1, start + T + 1)"),
        "start-times-length": ("(start, start + T)", "(start * T, (start + 1) * T)"),
        "double-frequencies": ("torch.arange(D // 2)", "torch.arange(0, D, 2)"),
        "pairs-from-one": ("torch.arange(D // 2)", "torch.arange(1, D // 2 + 1)"),
        "rising": ("(-2 *", "(2 *"),
        "one-speed": ("[:, None] * w", "[:, None]"),
        "no-position": ("torch.arange(start, start + T)[:, None] * w", "w.repeat(T, 1)"),
        "start-only": ("torch.arange(start, start + T)[:, None]", "start"),
        "cos-sin": (
            "torch.cat((a * phi.cos() - b * phi.sin(), b * phi.cos() + a * phi.sin()), -1)",
            "torch.cat((a * phi.sin() - b * phi.cos(), b * phi.sin() + a * phi.cos()), -1)",
        ),
        "plus": ("() - b *", "() + b *"),
        "minus": ("() + a *", "() - a *"),
        "overwritten": (
            "    return torch.cat((a * phi.cos() - b * phi.sin(),",
            "    a = a * phi.cos() - b * phi.sin()\n    return torch.cat((a,",
        ),
        "one-turned": (", b * phi.cos() + a * phi.sin())", ", b)"),
        "swapped": (
            "(a * phi.cos() - b * phi.sin(), b * phi.cos() + a * phi.sin())",
            "(b * phi.cos() + a * phi.sin(), a * phi.cos() - b * phi.sin())",
        ),
        "put-back": ("return torch.cat", "return interleave"),
        "angle-order": (
            "    return torch.cat((a * phi.cos() - b * phi.sin(), b * phi.cos() "
            "+ a * phi.sin()), -1)",
            "    phi = phi.repeat_interleave(2, -1)\n"
            "    return x * phi.cos() + torch.cat((-b, a), -1) * phi.sin()",
        ),
    },
    "cached": {
        "rotated": ("    k, v = torch", TURN + "    q, k = turn(q), turn(k)\n    k, v = torch"),
        "rotated-all": (
            "    k, v = torch",
            TURN + "    q, k, v = turn(q), turn(k), turn(v)\n    k, v = torch",
        ),
        "forgets": ("    k, v = torch.cat((old_k, k), -2), torch.cat((old_v, v), -2)\n", ""),
        "in-front": (
            "(old_k, k), -2), torch.cat((old_v, v)",
            "(k, old_k), -2), torch.cat((v, old_v)",
        ),
        "no-mask": ("~see", "~see & False"),
        "no-offset": ("tril(s.shape[-1] - s.shape[-2])", "tril()"),
        "unscaled": (" / math.sqrt(q.shape[-1])", ""),
        "new-only": ("@ v, k, v", "@ v, k[..., -Tq:, :], v[..., -Tq:, :]"),
        "new-seen-only": (
            "return s.softmax(-1) @ v",
            "return s[..., -Tq:].softmax(-1) @ v[:, :, -Tq:]",
        ),
        "old-seen-only": (
            "return s.softmax(-1) @ v",
            "return s[..., : old_k.shape[2]].softmax(-1) @ old_v",
        ),
        "self-hidden": ("s.shape[-2])", "s.shape[-2] - 1)"),
        "one-more": ("s.shape[-2])", "s.shape[-2] + 1)"),
        "upper": (".tril(", ".triu("),
        "later": (
            "    s = s.mask",
            "    see = see.clone()\n"
            "    see[:, -Tq:] = torch.ones(Tq, Tq, dtype=torch.bool).triu()\n    s = s.mask",
        ),
        "alone": (
            "    s = s.mask",
            "    see = see.clone()\n"
            "    see[:, -Tq:] = torch.eye(Tq, dtype=torch.bool)\n    s = s.mask",
        ),
        "no-softmax": (
            "s = s.masked_fill(~see, -math.inf)\n    return s.softmax(-1)",
            "return s.tril(s.shape[-1] - s.shape[-2])",
        ),
        "inverted": ("~see", "see"),
        "zeroed": ("s.masked_fill(~see, -math.inf)", "s * see"),
        "late-mask": (
            "s = s.masked_fill(~see, -math.inf)\n    return s.softmax(-1)",
            "return s.softmax(-1).masked_fill(~see, 0)",
        ),
        "full-width": ("math.sqrt(q.shape[-1])", "q.shape[-1]"),
        "multiplied": ("/ math.sqrt", "* math.sqrt"),
        "by-length": ("math.sqrt(q.shape[-1])", "math.sqrt(k.shape[2])"),
        "old-only": ("@ v, k, v", "@ v, old_k, old_v"),
        "wide-scale": ("math.sqrt(q.shape[-1])", "math.sqrt(q.shape[1] * q.shape[-1])"),
        "reshaped": ("k.mT", "k.reshape(*k.shape[:2], k.shape[3], k.shape[2])"),
        "over-queries": ("softmax(-1)", "softmax(-2)"),
        "over-heads": ("softmax(-1)", "softmax(1)"),
        "values-in-front": ("(old_v, v)", "(v, old_v)"),
        "old-k-twice": ("(old_v, v)", "(old_k, v)"),
        "keys-mixed": ("@ v, k, v", "@ k, k, v"),
        "exchanged": ("@ v, k, v", "@ v, v, k"),
    },
    "route": {
        "all": ("logits.masked_fill(~here, -math.inf)", "logits"),
        "only-one": ("topk(active)", "topk(1)"),
        "lowest": ("topk(active)", "topk(active, largest=False)"),
        "equal": ("logits.masked_fill(~here, -math.inf).softmax(-1)", "here / active"),
        "not-hidden": ("-math.inf", "0"),
        "not-shared": (
            "logits.masked_fill(~here, -math.inf).softmax(-1)",
            "logits.softmax(-1) * here",
        ),
        "by-batch": (
            "logits.masked_fill(~here, -math.inf).softmax(-1)",
            "(w := logits.softmax(-1) * here) / w.sum(0).clamp(min=1e-9)",
        ),
        "over-tokens": (".softmax(-1)", ".softmax(0)"),
        "over-ranks": (
            "logits.masked_fill(~here, -math.inf).softmax(-1)",
            "torch.zeros_like(logits).scatter(-1, who, values.softmax(0))",
        ),
        "columns": (
            "    values, who = logits.topk(active)\n"
            "    here = torch.zeros_like(logits).scatter(-1, who, 1.0) > 0\n"
            "    return logits.masked_fill(~here, -math.inf).softmax(-1)",
            "    values, who = logits.topk(active, dim=0)\n"
            "    return torch.zeros_like(logits).scatter(0, who, values.softmax(0))",
        ),
        "always-two": ("topk(active)", "topk(2)"),
        "one-more": ("topk(active)", "topk(active + 1)"),
        "one-threshold": ("here = ", "here = logits >= values[0, -1]\n    _ = "),
        "sigmoid": (
            "logits.masked_fill(~here, -math.inf).softmax(-1)",
            "torch.where(here, logits.sigmoid(), 0)",
        ),
        "one-fewer": (
            "    return",
            "    here = logits > values[:, -1:]\n    return",
        ),
        "zeros": (
            "logits.masked_fill(~here, -math.inf).softmax(-1)",
            "(w := torch.zeros_like(logits), w.scatter(-1, who, values.softmax(-1)))[0]",
        ),
        "exponentials": ("logits.masked_fill(~here, -math.inf).softmax(-1)", "logits.exp() * here"),
        "ones": ("logits.masked_fill(~here, -math.inf).softmax(-1)", "here * 1.0"),
        "raw": ("logits.masked_fill(~here, -math.inf).softmax(-1)", "logits * here"),
        "linear": (
            "logits.masked_fill(~here, -math.inf).softmax(-1)",
            "(w := logits * here) / w.sum(-1, keepdim=True)",
        ),
        "twice": ("    values", "    logits = logits.softmax(-1)\n    values"),
        "only-chosen": ("logits.masked_fill(~here, -math.inf).softmax(-1)", "values.softmax(-1)"),
        "ranked": (
            "logits.masked_fill(~here, -math.inf).softmax(-1)",
            "F.pad(values.softmax(-1), (0, logits.shape[1] - active))",
        ),
    },
    "mixture": {
        "transposed": ("experts.mT", "experts"),
        "unweighted": ("weights.T", "(weights > 0).float().T"),
        "best-only": ("weights.T", "(weights * (weights == weights.amax(1, keepdim=True))).T"),
        "averaged": ("(weights.T[..., None] * answers).sum(0)", "answers.mean(0)"),
        "residual": ("return ", "return x + "),
        "zeros": (
            "return (weights.T[..., None] * answers).sum(0)",
            "out = torch.zeros_like(x)\n"
            "    for w, answer in zip(weights.T, answers):\n"
            "        out + w[:, None] * answer\n"
            "    return out",
        ),
        "all-added": ("weights.T[..., None] * ", ""),
        "equal": ("weights.T", "((weights > 0) / (weights > 0).sum(1, keepdim=True)).T"),
        "twice": ("weights.T", "(weights**2).T"),
        "tokens-averaged": ("weights.T", "weights.mean(0).expand(weights.shape).T"),
        "tokens-added": (".sum(0)", ".sum((0, 1))"),
        "divided": (" * answers).sum(0)", " * answers).mean(0)"),
        "softmax-again": ("weights.T", "weights.softmax(1).T"),
        "last-only": (".sum(0)", "[-1]"),
        "first-only": (".sum(0)", "[0]"),
        "skips-last": (".sum(0)", "[:-1].sum(0)"),
        "skips-first": (".sum(0)", "[1:].sum(0)"),
        "chained": (
            "return (weights.T[..., None] * answers).sum(0)",
            "for w, expert in zip(weights.T, experts):\n"
            "        x = x + w[:, None] * (x @ expert.T)\n"
            "    return x",
        ),
        "reshaped": (
            "(weights.T[..., None] * answers).sum(0)",
            "(weights[..., None] * answers.reshape(len(x), len(experts), -1)).sum(1)",
        ),
    },
}
PAIRS = {
    "rms_norm": [
        ("centred", "no-gain"),
        ("sum", "eps-outside"),
        ("no-root", "no-gain"),
        ("spread", "eps-outside"),
        ("above", "no-gain"),
        ("by-position", "no-gain"),
        ("sum", "no-eps"),
    ],
    "swiglu": [
        ("sigmoid", "exchanged"),
        ("relu", "added"),
        ("sigmoid", "no-down"),
        ("gelu", "exchanged"),
        ("sign", "residual"),
        ("no-activation", "reshaped"),
    ],
    "rotate": [
        ("backwards", "no-start"),
        ("half-frequencies", "backwards"),
        ("double-frequencies", "no-start"),
        ("from-one", "base-fixed"),
        ("plus", "no-start"),
        ("overwritten", "double-frequencies"),
    ],
    "cached": [
        ("no-mask", "unscaled"),
        ("in-front", "unscaled"),
        ("no-offset", "new-only"),
        ("zeroed", "no-offset"),
        ("full-width", "no-mask"),
        ("reshaped", "unscaled"),
        ("exchanged", "no-offset"),
    ],
    "route": [("lowest", "equal"), ("only-one", "not-shared"), ("lowest", "raw")],
    "mixture": [
        ("transposed", "unweighted"),
        ("best-only", "residual"),
        ("transposed", "divided"),
        ("skips-last", "residual"),
    ],
}


WRONG = each_and_pairs(GOOD, CHANGES, PAIRS)

# Right numbers, and something wrong beside them
WRONG += [
    (
        "rms_norm",
        """
        def rms_norm(x, gain, eps=1e-5):
            if x.dim() > 1:
                return torch.stack([rms_norm(row, gain, eps) for row in x])
            size = math.sqrt(sum(float(n) ** 2 for n in x) / len(x) + eps)
            return torch.tensor([float(n) / size for n in x]) * gain
        """,
        ["gradient"],
    ),
    (
        "swiglu",
        """
        def swiglu(x, gate, up, down):
            x, gate, up, down = (a.double().numpy() for a in (x, gate, up, down))
            z = x @ gate.T
            return (z / (1 + np.exp(-z)) * (x @ up.T)) @ down.T
        """,
        ["gradient"],
    ),
    (
        "rms_norm",
        """
        def rms_norm(x, gain, eps=1e-5):
            size = x.detach().square().mean(-1, keepdim=True)
            return gain * x * torch.rsqrt(size + eps)
        """,
        ["gradient"],
    ),
    (
        "rms_norm",
        """
        def rms_norm(x, gain, eps=1e-5):
            x /= (x.square().mean(-1, keepdim=True) + eps).sqrt()
            return gain * x
        """,
        ["in-place"],
    ),
    (
        "swiglu",
        """
        def swiglu(x, gate, up, down):
            inner = F.silu(x @ gate.T) * (x @ up.T)
            return inner @ down.clone().detach().T
        """,
        ["gradient"],
    ),
    (
        "cached",
        """
        def cached(q, k, v, old_k, old_v):
            k, v = torch.cat([old_k, k], -2), torch.cat([old_v, v], -2)
            Tq, Tk = q.shape[-2], k.shape[-2]
            q /= q.shape[-1] ** 0.5
            seen = torch.arange(Tk) <= torch.arange(Tk - Tq, Tk)[:, None]
            weights = (q @ k.mT).masked_fill(~seen, -math.inf).softmax(-1)
            return weights @ v, k, v
        """,
        ["in-place"],
    ),
]
