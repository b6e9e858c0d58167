"""Lab 7 as students write it: right in unusual ways, and typical mistakes, alone and in pairs."""

from mistaken import each_and_pairs

BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"
CONTEXT = {}

RIGHT = {
    "rms_norm": [
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
        """
        def rms_norm(x, gain, eps=1e-5):
            if x.dim() > 1:
                return torch.stack([rms_norm(row, gain, eps) for row in x])
            size = math.sqrt(sum(float(n) ** 2 for n in x) / len(x) + eps)
            return torch.tensor([float(n) / size for n in x]) * gain
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
        """
        def swiglu(x, gate, up, down):
            x, gate, up, down = (a.double().numpy() for a in (x, gate, up, down))
            z = x @ gate.T
            return (z / (1 + np.exp(-z)) * (x @ up.T)) @ down.T
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
CHANGES = {
    "rms_norm": {
        "centred": ("square =", "x = x - x.mean(-1, keepdim=True)\n    square ="),
        "eps-outside": ("(square + eps).sqrt()", "(square.sqrt() + eps)"),
        "no-root": (".sqrt()", ""),
        "sum": ("mean(-1", "sum(-1"),
        "no-gain": (" * gain", ""),
        "axis": ("mean(-1", "mean(-2"),
    },
    "swiglu": {
        "sigmoid": ("F.silu(z)", "z.sigmoid()"),
        "relu": ("F.silu(z)", "z.relu()"),
        "no-activation": ("F.silu(z)", "z"),
        "exchanged": ("z, u = x", "u, z = x"),
        "added": ("* u", "+ u"),
        "no-down": (" @ down.T", ""),
    },
    "rotate": {
        "neighbours": (
            "x[..., : D // 2], x[..., D // 2 :]\n    return torch.cat(",
            "x[..., 0::2], x[..., 1::2]\n    return interleave(",
        ),
        "backwards": ("[:, None] * w", "[:, None] * -w"),
        "no-start": ("(start, start + T)", "(T)"),
        "half-frequencies": ("-2 * torch", "-torch"),
        "added": ("return torch", "return x + torch.cat((phi.sin(), phi.cos()), -1)\n    torch"),
    },
    "cached": {
        "forgets": ("    k, v = torch.cat((old_k, k), -2), torch.cat((old_v, v), -2)\n", ""),
        "in-front": (
            "(old_k, k), -2), torch.cat((old_v, v)",
            "(k, old_k), -2), torch.cat((v, old_v)",
        ),
        "no-mask": ("~see", "~see & False"),
        "no-offset": ("tril(s.shape[-1] - s.shape[-2])", "tril()"),
        "unscaled": (" / math.sqrt(q.shape[-1])", ""),
        "new-only": ("@ v, k, v", "@ v, k[..., -Tq:, :], v[..., -Tq:, :]"),
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
    },
    "mixture": {
        "transposed": ("experts.mT", "experts"),
        "unweighted": ("weights.T", "(weights > 0).float().T"),
        "best-only": ("weights.T", "(weights * (weights == weights.amax(1, keepdim=True))).T"),
        "averaged": ("(weights.T[..., None] * answers).sum(0)", "answers.mean(0)"),
        "residual": ("return ", "return x + "),
    },
}
PAIRS = {
    "rms_norm": [("centred", "no-gain"), ("sum", "eps-outside"), ("no-root", "no-gain")],
    "swiglu": [("sigmoid", "exchanged"), ("relu", "added"), ("sigmoid", "no-down")],
    "rotate": [("backwards", "no-start"), ("half-frequencies", "backwards")],
    "cached": [("no-mask", "unscaled"), ("in-front", "unscaled"), ("no-offset", "new-only")],
    "route": [("lowest", "equal"), ("only-one", "not-shared")],
    "mixture": [("transposed", "unweighted"), ("best-only", "residual")],
}


WRONG = each_and_pairs(GOOD, CHANGES, PAIRS)
