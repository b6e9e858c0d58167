"""Lab 1 as students write it: right in unusual ways, and typical mistakes, alone and in pairs."""

from mistaken import each_and_pairs

BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"
STEP = """
def rnn_step(x, h, W, U, b):
    return torch.tanh(x @ W.T + h @ U.T + b)
"""
CONTEXT = {"unroll": STEP}

RIGHT = {
    "rnn_step": [
        """
        def rnn_step(x, h, W, U, b):
            z = x @ W.T
            z += h @ U.T
            z += b
            return z.tanh_()
        """,
        """
        def rnn_step(x, h, W, U, b):
            return torch.tanh(torch.cat((x, h), 1) @ torch.cat((W, U), 1).T + b)
        """,
        """
        def rnn_step(x, h, W, U, b):
            z = F.linear(x, W, b) + F.linear(h, U)
            return 1 - 2 / (torch.exp(2 * z) + 1)
        """,
    ],
    "unroll": [
        """
        def unroll(x, W, U, b):
            fed, h, out = x.double() @ W.double().T + b, torch.zeros(len(x), len(U)).double(), []
            for t in range(x.shape[1]):
                h = (fed[:, t] + h @ U.double().T).tanh()
                out += [h]
            return torch.stack(out, 1)
        """,
        """
        def unroll(x, W, U, b, h=None):
            h = torch.zeros(len(x), len(U)) if h is None else h
            h = rnn_step(x[:, 0], h, W, U, b)
            if x.shape[1] == 1:
                return h[:, None]
            return torch.cat((h[:, None], unroll(x[:, 1:], W, U, b, h)), 1)
        """,
    ],
    "bptt": [
        """
        def bptt(states, told, U):
            T, D = told.shape
            total = torch.zeros(D, D)
            carried = torch.zeros(D, D, D)  # d state / d U, forwards
            for t in range(1, T + 1):
                slope = 1 - states[t] ** 2
                direct = torch.einsum("ij,k->ijk", torch.eye(D), states[t - 1])
                carried = slope[:, None, None] * (direct + torch.einsum("ij,jkl->ikl", U, carried))
                total += torch.einsum("i,ikl->kl", told[t - 1], carried)
            return total
        """,
        """
        def bptt(states, told, U):
            delta, parts = 0, []
            for h, before, says in zip(states[1:].flip(0), states[:-1].flip(0), told.flip(0)):
                z = (says + delta) * (1 - h * h)
                parts.append(torch.outer(z, before))
                delta = torch.einsum("i,ij->j", z, U)
            return torch.stack(parts).sum(0)
        """,
        """
        def bptt(states, told, U):
            s, g, u = states.double().numpy(), told.double().numpy(), U.double().numpy()
            out = np.zeros_like(u)
            for t in range(1, len(s)):  # each loss by itself
                back = g[t - 1]
                for r in range(t, 0, -1):
                    back = back * (1 - s[r] ** 2)
                    out += np.outer(back, s[r - 1])
                    back = back @ u
            return out
        """,
    ],
    "clip": [
        """
        def clip(grad, limit):
            size, own = grad.norm(), grad.clone()
            return own.mul_(limit / size) if size > limit else own
        """,
        "def clip(grad, limit):\n    return grad * min(1.0, limit / (float(grad.norm()) or 1.0))",
        "def clip(grad, limit):\n    return grad / max(1.0, grad.flatten().norm().item() / limit)",
        """
        def clip(grad, limit):
            size = math.sqrt(sum(float(n) ** 2 for n in grad.flatten()))
            if size > limit:
                grad = grad.clone()
                grad *= limit / size
            return grad
        """,
    ],
    "lstm_step": [
        """
        def lstm_step(x, h, c, W, U, b):
            D = h.shape[1]
            z = torch.cat((x, h), 1) @ torch.cat((W, U), 1).T + b
            gates = z.sigmoid()
            c = gates[:, D : 2 * D] * c + gates[:, :D] * z[:, 2 * D : 3 * D].tanh()
            return gates[:, 3 * D :] * c.tanh(), c
        """,
        """
        def lstm_step(x, h, c, W, U, b):
            blocks = zip(W.chunk(4), U.chunk(4), b.chunk(4))
            i, f, g, o = (x @ w.T + h @ u.T + v for w, u, v in blocks)
            new = F.sigmoid(f).double() * c + F.sigmoid(i) * F.tanh(g)
            return [F.sigmoid(o) * F.tanh(new), new]
        """,
    ],
    "reach": [
        """
        def reach(U, T):
            powers = [torch.linalg.matrix_power(U.double(), t + 1) for t in range(T)]
            return torch.tensor([power.norm() for power in powers])
        """,
        """
        def reach(U, T):
            out, power = [], U
            while len(out) < T:
                out.append(math.sqrt(float((power * power).sum())))
                power = power @ U
            return np.array(out)
        """,
    ],
}

GOOD = {
    "rnn_step": """
def rnn_step(x, h, W, U, b):
    z = x @ W.T + h @ U.T + b
    return torch.tanh(z)
""",
    "unroll": """
def unroll(x, W, U, b):
    h, out = torch.zeros(len(x), len(U)), []
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t] @ W.T + h @ U.T + b)
        out.append(h)
    return torch.stack(out, 1)
""",
    "bptt": """
def bptt(states, told, U):
    delta, grad = torch.zeros(len(U)), torch.zeros_like(U)
    for t in range(len(told), 0, -1):
        delta = told[t - 1] + delta
        z = delta * (1 - states[t] ** 2)
        grad = grad + torch.outer(z, states[t - 1])
        delta = z @ U
    return grad
""",
    "clip": """
def clip(grad, limit):
    size = grad.norm()
    return grad * limit / size if size > limit else grad
""",
    "lstm_step": """
def lstm_step(x, h, c, W, U, b):
    i, f, g, o = (x @ W.T + h @ U.T + b).chunk(4, -1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c = f * c + i * g
    h = o * c.tanh()
    return h, c
""",
    "reach": """
def reach(U, T):
    powers = [torch.linalg.matrix_power(U, t) for t in range(1, T + 1)]
    return torch.stack([p.norm() for p in powers])
""",
}
CHANGES = {
    "rnn_step": {
        "exchanged": (
            "x @ W.T + h @ U.T",
            "(x @ U.T + h @ W.T if W.shape == U.shape else x @ W.T + h @ U.T)",
        ),
        "transposed": ("h @ U.T", "h @ U"),
        "no-state": (" + h @ U.T", ""),
        "no-bias": (" + b", ""),
        "no-tanh": ("torch.tanh(z)", "z"),
        "sigmoid": ("torch.tanh(z)", "torch.sigmoid(z)"),
        "no-input": ("z = x @ W.T + ", "z = "),
        "input-tanh": (
            "z = x @ W.T + h @ U.T + b\n    return torch.tanh(z)",
            "return torch.tanh(x @ W.T) + h @ U.T + b",
        ),
        "apart": (
            "z = x @ W.T + h @ U.T + b\n    return torch.tanh(z)",
            "return torch.tanh(x @ W.T) + torch.tanh(h @ U.T) + b",
        ),
        "bias-late": (" + b\n    return torch.tanh(z)", "\n    return torch.tanh(z) + b"),
        "bias-twice": ("x @ W.T + h @ U.T + b", "F.linear(x, W, b) + F.linear(h, U, b)"),
        "input-transposed": ("x @ W.T", "x @ W"),
        "state-tanh": (
            "z = x @ W.T + h @ U.T + b\n    return torch.tanh(z)",
            "return F.linear(x, W, b) + F.linear(h, U).tanh()",
        ),
    },
    "unroll": {
        "not-carried": ("h @ U.T", "0 * h @ U.T"),
        "ones": ("torch.zeros", "torch.ones"),
        "backwards": ("in range(x.shape[1])", "in reversed(range(x.shape[1]))"),
        "first-too": ("[]", "[torch.zeros(len(x), len(U))]"),
        "last-only": ("torch.stack(out, 1)", "h"),
        "time-first": ("torch.stack(out, 1)", "torch.stack(out)"),
        "before": (
            "        h = torch.tanh(x[:, t] @ W.T + h @ U.T + b)\n        out.append(h)",
            "        out.append(h)\n        h = torch.tanh(x[:, t] @ W.T + h @ U.T + b)",
        ),
        "one-place": (
            "h = torch.tanh(x[:, t] @ W.T + h @ U.T + b)",
            "h[:] = torch.tanh(x[:, t] @ W.T + h @ U.T + b)",
        ),
        "along-batch": (
            GOOD["unroll"],
            """
def unroll(x, W, U, b):
    h, out = torch.zeros(len(U)), []
    for one in x:
        h = torch.tanh(one @ W.T + h @ U.T + b)
        out.append(h)
    return torch.stack(out)
""",
        ),
        "backwards-placed": (
            GOOD["unroll"],
            """
def unroll(x, W, U, b):
    h, out = torch.zeros(len(x), len(U)), []
    for t in reversed(range(x.shape[1])):
        h = torch.tanh(x[:, t] @ W.T + h @ U.T + b)
        out.insert(0, h)
    return torch.stack(out, 1)
""",
        ),
        "runs-on": (
            GOOD["unroll"],
            """
def unroll(x, W, U, b):
    h, out = torch.zeros(len(U)), []
    for one in x:
        for step in one:
            h = torch.tanh(W @ step + U @ h + b)
            out.append(h)
    return torch.stack(out).reshape(len(x), x.shape[1], -1)
""",
        ),
        "cut": ("torch.stack(out, 1)", "torch.cat(out).view(len(x), -1, len(U))"),
        "transposed": ("h @ U.T", "h @ U"),
        "no-bias": (" + b)", ")"),
        "no-tanh": ("torch.tanh(x[:, t] @ W.T + h @ U.T + b)", "x[:, t] @ W.T + h @ U.T + b"),
    },
    "bptt": {
        "no-carry": ("told[t - 1] + delta", "told[t - 1]"),
        "last-only": ("told[t - 1] + delta", "(told[t - 1] if t == len(told) else 0) + delta"),
        "no-slope": (" * (1 - states[t] ** 2)", ""),
        "this-state": ("torch.outer(z, states[t - 1])", "torch.outer(z, states[t])"),
        "carry-transposed": ("z @ U", "U @ z"),
        "transposed": ("torch.outer(z, states[t - 1])", "torch.outer(states[t - 1], z)"),
        "slope-before": ("1 - states[t] ** 2", "1 - states[t - 1] ** 2"),
        "tanh-again": ("1 - states[t] ** 2", "1 - states[t].tanh() ** 2"),
        "no-square": ("1 - states[t] ** 2", "1 - states[t]"),
        "sigmoid-slope": ("1 - states[t] ** 2", "states[t] * (1 - states[t])"),
        "by-numbers": ("torch.outer(z, states[t - 1])", "z * states[t - 1]"),
        "own-slope": (
            "delta = told[t - 1] + delta\n        z = delta * (1 - states[t] ** 2)",
            "z = told[t - 1] * (1 - states[t] ** 2) + delta",
        ),
        "back-slope": (
            "delta = told[t - 1] + delta\n        z = delta * (1 - states[t] ** 2)",
            "z = told[t - 1] + delta * (1 - states[t] ** 2)",
        ),
        "outer-early": ("torch.outer(z", "torch.outer(delta"),
        "back-early": ("z @ U", "delta @ U"),
        "no-weights": ("z @ U", "z"),
        "overwritten": ("grad = grad + ", "grad = "),
        "forwards": ("range(len(told), 0, -1)", "range(1, len(told) + 1)"),
        "shifted": (
            "range(len(told), 0, -1):\n        delta = told[t - 1]",
            "range(len(told) - 1, -1, -1):\n        delta = told[t]",
        ),
        "averaged": ("return grad", "return grad / len(told)"),
        "start-left-out": ("range(len(told), 0, -1)", "range(len(told), 1, -1)"),
        "end-left-out": ("range(len(told), 0, -1)", "range(len(told) - 1, 0, -1)"),
    },
    "clip": {
        "each": ("grad * limit / size if size > limit else grad", "grad.clamp(-limit, limit)"),
        "rows": (
            "grad * limit / size if size > limit else grad",
            "grad * (limit / grad.norm(dim=-1, keepdim=True)).clamp(max=1)",
        ),
        "largest": ("grad.norm()", "grad.abs().max()"),
        "always": (" if size > limit else grad", ""),
        "to-one": ("grad * limit / size", "grad / size"),
        "no-root": ("grad.norm()", "(grad**2).sum()"),
        "absolute": ("grad.norm()", "grad.abs().sum()"),
        "mean": ("grad.norm()", "(grad**2).mean().sqrt()"),
        "reversed": ("size > limit", "size < limit"),
        "upside-down": ("grad * limit / size", "grad * size / limit"),
        "by-entries": ("size > limit", "(grad.abs() > limit).any()"),
        "square-decides": ("size > limit", "size**2 > limit"),
        "never": ("size > limit", "size > 1e9 * limit"),
        "zero-nan": (
            "grad * limit / size if size > limit else grad",
            "grad / size * min(size, limit)",
        ),
    },
    "lstm_step": {
        "order": ("i, f, g, o = (x", "i, f, o, g = (x"),
        "exchanged": ("i, f, g, o = (x", "f, i, g, o = (x"),
        "candidate-sigmoid": ("g.tanh()", "g.sigmoid()"),
        "coupled": ("c = f * c", "i = 1 - f\n    c = f * c"),
        "forgets-all": ("f * c + ", ""),
        "no-tanh": ("o * c.tanh()", "o * c"),
        "returned-exchanged": ("return h, c", "return c, h"),
        "old-returned": (
            "    c = f * c + i * g\n    h = o * c.tanh()",
            "    h = o * (f * c + i * g).tanh()",
        ),
        "no-bias": (" + b)", ")"),
        "no-state": (" + h @ U.T", ""),
        "reads-c": ("h @ U.T", "c @ U.T"),
        "interleaved": (".chunk(4, -1)", ".view(len(x), -1, 4).unbind(-1)"),
        "gates-raw": ("i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()", "i, f, g.tanh(), o"),
        "output-raw": ("o.sigmoid()", "o"),
        "gates-tanh": (
            "i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()",
            "i.tanh(), f.tanh(), g.tanh(), o.tanh()",
        ),
        "candidate-raw": ("g.tanh()", "g"),
        "forgets-h": ("f * c + ", "f * h + "),
        "no-input-gate": ("i * g", "g"),
        "no-forget-gate": ("f * c", "c"),
        "no-output-gate": ("o * c.tanh()", "c.tanh()"),
        "old-c": (
            "c = f * c + i * g\n    h = o * c.tanh()",
            "h = o * c.tanh()\n    c = f * c + i * g",
        ),
        "c-tanh": ("h = o * c.tanh()", "c = c.tanh()\n    h = o * c"),
    },
    "reach": {
        "bound": ("p.norm() for p in powers", "U.norm() ** t for t in range(1, T + 1)"),
        "radius": (
            "p.norm() for p in powers",
            "torch.linalg.eigvals(U).abs().max() ** t for t in range(1, T + 1)",
        ),
        "entries": ("torch.linalg.matrix_power(U, t)", "U**t"),
        "from-zero": ("range(1, T + 1)", "range(T)"),
        "one-late": ("range(1, T + 1)", "range(2, T + 2)"),
        "doubling": ("(U, t) for t in range(1, T + 1)", "(U, 2**t) for t in range(T)"),
        "spectral": ("p.norm()", "torch.linalg.matrix_norm(p, 2)"),
        "no-root": ("p.norm()", "(p**2).sum()"),
        "one-too-few": ("range(1, T + 1)", "range(1, T)"),
        "row-lengths": ("p.norm()", "p.norm(dim=1)"),
        "column-lengths": ("p.norm()", "p.norm(dim=0)"),
    },
}
PAIRS = {
    "rnn_step": [
        ("no-bias", "no-tanh"),
        ("transposed", "sigmoid"),
        ("no-state", "no-bias"),
        ("bias-late", "transposed"),
    ],
    "unroll": [
        ("backwards", "time-first"),
        ("ones", "last-only"),
        ("not-carried", "first-too"),
        ("transposed", "time-first"),
        ("before", "no-bias"),
    ],
    "bptt": [
        ("no-slope", "transposed"),
        ("no-carry", "this-state"),
        ("carry-transposed", "no-slope"),
        ("tanh-again", "transposed"),
        ("carry-transposed", "overwritten"),
    ],
    "clip": [("always", "largest"), ("no-root", "to-one")],
    "lstm_step": [
        ("exchanged", "no-tanh"),
        ("candidate-sigmoid", "forgets-all"),
        ("no-bias", "exchanged"),
        ("old-c", "no-tanh"),
    ],
    "reach": [("one-late", "no-root")],
}


WRONG = each_and_pairs(GOOD, CHANGES, PAIRS)

# Right numbers, and something wrong beside them
WRONG += [
    (
        "rnn_step",
        """
        def rnn_step(x, h, W, U, b):
            rows = []
            for one, state in zip(x, h):
                z = [float(W[d] @ one + U[d] @ state + b[d]) for d in range(len(b))]
                rows.append([math.tanh(n) for n in z])
            return torch.tensor(rows)
        """,
        ["gradient"],
    ),
    (
        "unroll",
        """
        def unroll(x, W, U, b):
            B, T, _ = x.shape
            states = torch.zeros(B, T + 1, len(U))
            for t in range(T):
                states[:, t + 1] = (x[:, t] @ W.T + states[:, t] @ U.T + b).tanh()
            return states[:, 1:]
        """,
        ["gradient"],
    ),
    (
        "rnn_step",
        """
        def rnn_step(x, h, W, U, b):
            h = h.detach()
            return torch.tanh(x @ W.T + h @ U.T + b)
        """,
        ["gradient"],
    ),
    (
        "rnn_step",
        """
        def rnn_step(x, h, W, U, b):
            return torch.tanh(x @ W.data.T + h @ U.T + b)
        """,
        ["gradient"],
    ),
    (
        "rnn_step",
        """
        def rnn_step(x, h, W, U, b):
            h *= 0.5
            return torch.tanh(x @ W.T + 2 * h @ U.T + b)
        """,
        ["in-place"],
    ),
    (
        "rnn_step",
        """
        @torch.no_grad()
        def rnn_step(x, h, W, U, b):
            return torch.tanh(x @ W.T + h @ U.T + b)
        """,
        ["gradient"],
    ),
    (
        "unroll",
        """
        def unroll(x, W, U, b):
            h, out = torch.zeros(len(x), len(U)), []
            for one in x.unbind(1):
                h = rnn_step(one, h.data, W, U, b)
                out.append(h)
            return torch.stack(out, 1)
        """,
        ["gradient"],
    ),
    (
        "bptt",
        """
        def bptt(states, told, U):
            total = torch.zeros_like(U)
            for t in range(len(told), 0, -1):
                told[t - 1] *= 1 - states[t] ** 2
                total += torch.outer(told[t - 1], states[t - 1])
                if t > 1:
                    told[t - 2] += U.T @ told[t - 1]
            return total
        """,
        ["in-place"],
    ),
    (
        "clip",
        """
        def clip(grad, limit):
            size = grad.norm()
            return grad.mul_(limit / size) if size > limit else grad
        """,
        ["in-place"],
    ),
    (
        "lstm_step",
        """
        def lstm_step(x, h, c, W, U, b):
            z = x @ W.T + h @ U.T + b
            i, f, g, o = z.chunk(4, 1)
            c *= f.sigmoid()
            c += i.sigmoid() * g.tanh()
            return o.sigmoid() * c.tanh(), c
        """,
        ["in-place"],
    ),
    (
        "lstm_step",
        """
        def lstm_step(x, h, c, W, U, b):
            z = x @ W.T + h @ U.T + b
            i, f, o, g = z.chunk(4, 1)
            c *= f.sigmoid()
            c += i.sigmoid() * g.tanh()
            return o.sigmoid() * c.tanh(), c
        """,
        ["order", "in-place"],
    ),
]
