"""Lab 3 as students write it: right in unusual ways, and typical mistakes, alone and in pairs.

All of these were written out by hand, apart from the programs they are compared with.
"""

from mistaken import written

BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"

RIGHT = {
    "scores": [
        """
        def scores(q, k):
            return torch.einsum("...id,...jd->...ij", q, k) * q.size(-1) ** -0.5
        """,
        """
        def scores(q, k):
            rows = [(k * q[..., i : i + 1, :]).sum(-1) for i in range(q.shape[-2])]
            return torch.stack(rows, dim=-2) / math.sqrt(q.shape[-1])
        """,
        """
        root = lambda x: x**0.5
        scores = lambda q, k: q.double() @ (k.double() / root(k.shape[-1])).mT
        """,
        """
        def scores(q, k):
            return np.matmul(q.numpy(), np.swapaxes(k.numpy(), -1, -2)) / np.sqrt(k.shape[-1])
        """,
        """
        def scores(q: torch.Tensor, k: torch.Tensor, *, scale: float | None = None) -> torch.Tensor:
            scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
            return (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1).mul_(scale)
        """,
    ],
    "softmax": [
        """
        def softmax(x):
            x = x.clone()
            x -= x.amax(-1, keepdim=True)
            x.exp_()
            x /= x.sum(-1, keepdim=True)
            return x
        """,
        """
        def softmax(x):
            x = x - x.max(dim=-1, keepdim=True).values
            return (x - x.exp().sum(-1, keepdim=True).log()).exp()
        """,
        """
        def softmax(x):
            x = x.clone()
            x -= x.amax(-1, keepdim=True)
            x.exp_()
            x /= x.sum(-1, keepdim=True)
            return x
        """,
        """
        def softmax(x):
            if x.dim() > 1:
                return torch.stack([softmax(row) for row in x])
            e = [math.exp(float(s - max(x))) for s in x]
            return torch.tensor([n / sum(e) for n in e])
        """,
        """
        def softmax(x):
            return 1 / (x.unsqueeze(-2) - x.unsqueeze(-1)).exp().sum(-1)
        """,
        """
        class Softmax:
            def __call__(self, x):
                e = np.exp(x.double().numpy() - x.double().numpy().max(-1, keepdims=True))
                return torch.from_numpy(e / e.sum(-1, keepdims=True))
        softmax = Softmax()
        """,
    ],
    "masked_softmax": [
        """
        def masked_softmax(x, mask):
            e = torch.where(mask, torch.exp(x - x.amax(-1, keepdim=True)), 0.0)
            top = x.masked_fill(~mask, -1e30).amax(-1, keepdim=True)
            e = torch.exp((x - top).clamp(max=0)) * mask
            return e / e.sum(-1, keepdim=True).clamp(min=1e-30)
        """,
        """
        def masked_softmax(x, mask):
            low = torch.where(mask, x, float("-inf"))
            e = (low - low.max(-1, keepdim=True)[0]).exp()
            return torch.nan_to_num(e / e.sum(-1, keepdim=True), nan=0.0)
        """,
        """
        def masked_softmax(x, mask):
            mask = mask.expand(x.shape)
            out = torch.zeros(x.shape).reshape(-1, x.shape[-1])
            for n, (row, see) in enumerate(zip(x.reshape(out.shape), mask.reshape(out.shape))):
                if see.any():
                    e = torch.exp(row[see] - row[see].max())
                    out[n, see] = e / e.sum()
            return out.view(x.shape)
        """,
        """
        def masked_softmax(x, mask):
            x = x.double().masked_fill(mask.logical_not(), -1e12)
            e = torch.exp(x - x.amax(-1, keepdim=True))
            return (e / e.sum(-1, keepdim=True)) * mask
        """,
    ],
    "causal_mask": [
        "def causal_mask(Tq, Tk):\n    return torch.ones(Tq, Tk).tril(diagonal=Tk - Tq).bool()",
        """
        def causal_mask(Tq, Tk):
            return torch.tensor([[j <= i + Tk - Tq for j in range(Tk)] for i in range(Tq)])
        """,
        "def causal_mask(Tq, Tk):\n    return ~torch.ones(Tk, Tk, dtype=torch.bool).triu(1)[-Tq:]",
        "def causal_mask(Tq, Tk):\n    return np.tri(Tq, Tk, Tk - Tq, dtype=bool)",
        "def causal_mask(Tq, Tk):\n    return torch.eye(Tk).cumsum(0)[-Tq:] > 0",
    ],
    "attend": [
        """
        def attend(q, k, v, mask=None):
            x = torch.einsum("...id,...jd->...ij", q, k) / q.shape[-1] ** 0.5
            if mask is None:
                mask = torch.ones_like(x, dtype=torch.bool)
            top = x.masked_fill(~mask, -1e9).amax(-1, keepdim=True)
            e = torch.exp((x - top).clamp(max=0)) * mask
            w = e / e.sum(-1, keepdim=True).clamp_min(1e-20)
            return torch.einsum("...ij,...jd->...id", w, v), w
        """,
        """
        def attend(query, key, value, mask=None, drop=0.0):
            def one(q, k, v):
                out, weights = torch.zeros(len(q), v.shape[1]), torch.zeros(len(q), len(k))
                for i in range(len(q)):
                    see = [j for j in range(len(k)) if mask is None or mask[i, j]]
                    s = [float(q[i] @ k[j]) / math.sqrt(q.shape[1]) for j in see]
                    e = [math.exp(n - max(s)) for n in s]
                    for j, n in zip(see, e):
                        weights[i, j] = n / sum(e)
                        out[i] += n / sum(e) * v[j]
                return out, weights
            if query.dim() == 2:
                return one(query, key, value)
            parts = [attend(*three, mask) for three in zip(query, key, value)]
            return tuple(torch.stack(part) for part in zip(*parts))
        """,
        """
        def attend(q, k, v, mask=None):
            q, k, v = q.double(), k.double(), v.double()
            scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)
            if mask is not None:
                scores = scores.masked_fill(~mask, -1e18)
            e = torch.exp(scores - scores.max(-1, keepdim=True).values)
            weights = e / e.sum(-1, keepdim=True)
            if mask is not None:
                weights = weights * mask.any(-1, keepdim=True)
            return [weights @ v, weights]
        """,
    ],
    "reverse": [
        """
        def reverse(x):
            T = len(x)
            return attend(50 * torch.fliplr(torch.eye(T)), 50 * torch.eye(T), x)[0]
        """,
        """
        def reverse(x):
            places = torch.eye(x.shape[0], dtype=torch.float64) * 1000
            turned = places[torch.arange(x.shape[0]).sort(descending=True).indices]
            return attend(turned, places, x.double())[0]
        """,
    ],
}
ATTEND = """
def attend(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    w = e / e.sum(-1, keepdim=True)
    if mask is not None:
        w = w.masked_fill(~mask, 0)
    return w @ v, w
"""
MASKED = """
def masked_softmax(x, mask):
    x = x.masked_fill(~mask, -math.inf)
    e = torch.exp(x - x.amax(-1, keepdim=True))
    w = e / e.sum(-1, keepdim=True)
    return w.masked_fill(~mask, 0)
"""
# In a right program, these replacements make these mistakes.
SCALES = {
    "unscaled": ("/ math.sqrt(q.shape[-1])", ""),
    "scale-d": ("math.sqrt(q.shape[-1])", "q.shape[-1]"),
    "scale-keys": ("math.sqrt(q.shape[-1])", "math.sqrt(k.shape[-2])"),
    "scale-queries": ("math.sqrt(q.shape[-1])", "math.sqrt(q.shape[-2])"),
    "scale-up": ("/ math", "* math"),
}
BAD_ROW = {
    "nan-row": ("w = w.masked_fill(~mask, 0)", "pass"),
    "overflow": (" - s.amax(-1, keepdim=True)", ""),
}
SEES = "if mask is None:\n        mask = torch.ones(*q.shape[:-1], k.shape[-2], dtype=torch.bool)."
IN_ATTEND = (
    SCALES
    | BAD_ROW
    | {
        "axis": ("(-1, keepdim", "(-2, keepdim"),
        "polarity": ("~mask", "mask"),
        "keys-for-values": ("w @ v", "w @ k"),
        "only-output": ("return w @ v, w", "return w @ v"),
        "exchanged": ("return w @ v, w", "return w, w @ v"),
        "mask-ignored": ("mask is not None", "False"),
        "mask-zero": ("s = s.masked_fill(~mask, -math.inf)", "s, mask = s * mask, None"),
        "mask-added": ("s = s.masked_fill(~mask, -math.inf)", "s, mask = s + mask, None"),
        "mask-after": ("s = s.masked_fill(~mask, -math.inf)", "pass"),
        "uniform-row": (
            "s = s.masked_fill(~mask, -math.inf)",
            "s, mask = s.masked_fill(~mask, -1e9), None",
        ),
        "values-for-keys": ("k.mT", "v.mT"),
        "scale-values": ("q.shape[-1]", "v.shape[-1]"),
        "scale-axis-1": ("q.shape[-1]", "q.shape[1]"),
        "reshaped": ("k.mT", "k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])"),
        "no-softmax": (
            "return w @ v, w",
            "s = q @ k.mT / math.sqrt(q.shape[-1])\n    return s @ v, s",
        ),
        "average": ("return w @ v, w", "return q @ k.mT / math.sqrt(q.shape[-1]) @ v, w"),
        "scores-back": ("return w @ v, w", "return w @ v, q @ k.mT / math.sqrt(q.shape[-1])"),
        "twice": ("s = s.masked_fill", "s = s.softmax(-1).masked_fill"),
        "causal": ("s = q", SEES + "tril(k.shape[-2] - q.shape[-2])\n    s = q"),
        "causal-first": ("s = q", SEES + "tril()\n    s = q"),
        "penalty": (
            "s = s.masked_fill(~mask, -math.inf)",
            "s, mask = s - 1e9 * ~mask, mask.any(-1, keepdim=True)",
        ),
    }
)
IN_MASKED = {
    "axis": ("(-1, keepdim", "(-2, keepdim"),
    "polarity": ("~mask", "mask"),
    "nan-row": ("return w.masked_fill(~mask, 0)", "return w"),
    "overflow": (" - x.amax(-1, keepdim=True)", ""),
    "mask-ignored": ("~mask", "False & mask"),
    "mask-zero": ("x = x.masked_fill(~mask, -math.inf)", "x, mask = x * mask, x > -1e9"),
    "mask-after": ("x = x.masked_fill(~mask, -math.inf)", "pass"),
    "mask-added": ("x = x.masked_fill(~mask, -math.inf)", "x, mask = x + mask, x > -1e9"),
    "uniform-row": ("return w.masked_fill(~mask, 0)", "return w.nan_to_num(1 / x.shape[-1])"),
    "not-low": ("-math.inf", "-100"),
    "penalty": (
        "x = x.masked_fill(~mask, -math.inf)",
        "x, mask = x - 1e9 * ~mask, mask.any(-1, keepdim=True)",
    ),
    "all-or-nothing": ("x = x.masked", "if (~mask).all(-1).any(): return 0 * x\n    x = x.masked"),
    "by-count": ("e / e.sum(-1, keepdim=True)", "e / mask.sum(-1, keepdim=True)"),
}
# Hidden places that are dropped after e was raised to the scores
DROPPED = """
def masked_softmax(x, mask):
    e = torch.exp(x - x.amax(-1, keepdim=True)) * mask
    return (e / e.sum(-1, keepdim=True)).nan_to_num(0)
"""
LINES_MASKED = {
    "(e := (x - x.masked_fill(~mask, -math.inf).amax(-1, True).nan_to_num(neginf=0)).exp() * mask)"
    " / e.sum(-1, keepdim=True).clamp(min=1e-12)": ["hidden-power"],
    "plain(x * mask) * mask": ["mask-zero", "mask-after"],
    "plain(x.masked_fill(~mask, 0)) * mask": ["mask-zero", "mask-after"],
    "(plain(x) * mask) / (plain(x) * mask).sum(-1, keepdim=True).clamp(min=1e-9)": ["hidden-max"],
    "plain(x.masked_fill(~mask, -10_000)) * mask": ["not-low"],
    "plain(x.masked_fill(~mask, -100))": ["uniform-row", "not-low"],
    "plain(x + (1 - mask.float()) * -math.inf)": ["zero-times"],
    "(x.exp() * mask / (x.exp() * mask).sum(-1, keepdim=True)).nan_to_num(0)": [
        "overflow",
        "hushed",
    ],
}
PLAIN = """
def plain(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)
"""
PAIRS = [
    ("unscaled", "polarity"),
    ("unscaled", "keys-for-values"),
    ("unscaled", "axis"),
    ("unscaled", "nan-row"),
    ("unscaled", "overflow"),
    ("scale-d", "polarity"),
    ("scale-d", "exchanged"),
    ("scale-keys", "only-output"),
    ("scale-keys", "nan-row"),
    ("scale-up", "mask-ignored"),
    ("scale-up", "keys-for-values"),
    ("axis", "keys-for-values"),
    ("axis", "only-output"),
    ("polarity", "exchanged"),
    ("nan-row", "overflow"),
    ("mask-ignored", "keys-for-values"),
    ("mask-zero", "scale-d"),
    ("values-for-keys", "keys-for-values"),
    ("unscaled", "values-for-keys"),
    ("reshaped", "unscaled"),
    ("mask-added", "exchanged"),
    ("twice", "only-output"),
]
DEF = {
    "scores": "def scores(q, k):\n    return ",
    "softmax": "def softmax(x):\n    return ",
    "causal_mask": "def causal_mask(Tq, Tk):\n    return ",
    "reverse": "def reverse(x):\n    T = len(x)\n    return ",
}
LINES = {
    "scores": {
        "q @ k.mT": ["unscaled"],
        "torch.einsum('...id,...jd->...ij', q, k)": ["unscaled"],
        "q @ k.mT / q.shape[-1]": ["scale-d"],
        "q @ k.mT / math.sqrt(k.shape[-2])": ["scale-keys"],
        "q @ k.mT * q.shape[-1] ** 0.5": ["scale-up"],
        "k @ q.mT / q.shape[-1] ** 0.5": ["swapped"],
        "k @ q.mT": ["unscaled", "swapped"],
        "k @ q.mT / q.shape[-1]": ["scale-d", "swapped"],
        "q @ k.mT / math.sqrt(q.shape[-2])": ["scale-queries"],
        "q @ k.mT / k.shape[-2]": ["scale-d", "scale-keys"],
        "q @ k.mT / math.sqrt(q.shape[1])": ["scale-axis-1"],
        "q @ k.reshape(*k.shape[:-2], -1, k.shape[-2]) / k.shape[-1] ** 0.5": ["reshaped"],
        "q @ k.view(*k.shape[:-2], k.shape[-1], k.shape[-2])": ["unscaled", "reshaped"],
        "(q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)": ["softmax"],
        "F.softmax(q @ k.mT, dim=-1)": ["unscaled", "softmax"],
        "F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT": ["cosine"],
    },
    "softmax": {
        "x.exp() / x.exp().sum(-1, keepdim=True)": ["overflow"],
        "(x - x.amax(-2, keepdim=True)).exp() / (x - x.amax(-2, keepdim=True)).exp()"
        ".sum(-2, keepdim=True)": ["axis"],
        "torch.exp(x - x.max()) / torch.exp(x - x.max()).sum(-1, keepdim=True)": ["global-max"],
        "torch.exp(x - x.amax(-1, keepdim=True))": ["not-normalised"],
        "torch.exp(x)": ["not-normalised", "overflow"],
        "torch.exp(x - x.max()) / torch.exp(x - x.max()).sum()": ["all-sum", "global-max"],
        "x / x.sum(-1, keepdim=True)": ["no-exp"],
        "2 ** (x - x.amax(-1, True)) / (2 ** (x - x.amax(-1, True))).sum(-1, True)": ["base-two"],
        "2**x / (2**x).sum(-1, keepdim=True)": ["base-two", "overflow"],
        "x.exp() / x.exp().sum(-2, keepdim=True)": ["axis", "overflow"],
        "x / x.sum(-2, keepdim=True)": ["axis", "no-exp"],
        "torch.exp(x - x.amax(-2, keepdim=True)) / torch.exp(x - x.amax(-2, keepdim=True))"
        ".sum(-1, keepdim=True)": ["max-axis"],
        "torch.exp(x - x.amax(-1, keepdim=True)) / torch.exp(x - x.amax(-1, keepdim=True))"
        ".sum(-2, keepdim=True)": ["sum-axis"],
        "(x - x.amax(-1, keepdim=True)).exp() / x.exp().sum(-1, keepdim=True)": ["not-below"],
        "x.exp() / (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)": ["not-above"],
        "torch.exp(x - x.mean(-1, keepdim=True)) / torch.exp(x - x.mean(-1, keepdim=True))"
        ".sum(-1, keepdim=True)": ["mean"],
        "1 / (x.unsqueeze(-1) - x.unsqueeze(-2)).exp().sum(-1)": ["negated"],
        "torch.exp(-x) / torch.exp(-x).sum(-1, keepdim=True)": ["overflow", "negated"],
        "x - x.logsumexp(-1, keepdim=True)": ["logarithm"],
        "(x.exp() / x.exp().sum(-1, keepdim=True)).nan_to_num(0)": ["overflow", "hushed"],
        "x.clamp(-50, 50).exp() / x.clamp(-50, 50).exp().sum(-1, keepdim=True)": ["clamped"],
        "x.clamp(-9, 60).exp() / x.clamp(-9, 60).exp().sum(-1, keepdim=True)": ["clamped"],
        "(x - x.amax(-1, True)).exp() / (x - x.amax(-1, True)).exp().sum(-1)": ["no-keepdim"],
        "(x - x.amax(-1)).exp() / (x - x.amax(-1)).exp().sum(-1, True)": ["max-no-keepdim"],
        "x.double().exp() / x.double().exp().sum(-1, keepdim=True)": ["overflow"],
    },
    "causal_mask": {
        "torch.ones(Tq, Tk, dtype=torch.bool).triu(Tk - Tq)": ["upper"],
        "torch.ones(Tq, Tk, dtype=torch.bool).tril()": ["no-offset"],
        "torch.ones(Tq, Tk, dtype=torch.bool).tril(Tk - Tq - 1)": ["no-diagonal"],
        "torch.ones(Tq, Tk, dtype=torch.bool).tril(Tk - Tq + 1)": ["one-ahead"],
        "torch.ones(Tq, Tk, dtype=torch.bool).triu(Tk - Tq + 1)": ["polarity"],
        "torch.tril(torch.ones(Tq, Tk), Tk - Tq)": ["float"],
        "torch.tril(torch.ones(Tq, Tk))": ["no-offset", "float"],
        "torch.ones(Tq, Tk).triu(1).bool()": ["no-offset", "polarity"],
        "torch.ones(Tq, Tk).triu().bool()": ["upper", "no-offset"],
        "torch.triu(torch.ones(Tq, Tk), Tk - Tq + 1)": ["polarity", "float"],
        "torch.ones(Tq, Tk).tril(Tq - Tk).bool()": ["wrong-way"],
        "torch.ones(Tq, Tk).triu(Tq - Tk).bool()": ["upper", "wrong-way"],
        "torch.ones(Tq, Tk).tril(Tq - Tk)": ["float", "wrong-way"],
        "F.pad(torch.ones(Tq, Tq).tril().bool(), (Tk - Tq, 0))": ["none-before"],
        "torch.ones(Tq, Tk).tril(Tk).bool()": ["all"],
        "torch.zeros(Tq, Tk) > 0": ["none"],
        "torch.ones(Tq, Tq).tril().bool()": ["square"],
        "torch.ones(Tk, Tk).tril() > 0": ["square-all"],
        "torch.zeros(Tq, Tk).fill_(-math.inf).triu(Tk - Tq + 1)": ["additive"],
        "torch.zeros(Tq, Tk).fill_(-math.inf).triu(1)": ["no-offset", "additive"],
    },
    "reverse": {
        "attend(100 * torch.eye(T), 100 * torch.eye(T), x)[0]": ["copied"],
        "attend(torch.eye(T).flip(0), torch.eye(T), x)[0]": ["blurred"],
        "attend(100 * torch.eye(T).flip(0).roll(-1, 0), 100 * torch.eye(T), x)[0]": ["off-by-one"],
        "x.flip(1)": ["features"],
        "attend(torch.eye(T), torch.eye(T), x)[0]": ["copied", "blurred"],
        "attend(10 * torch.eye(T).flip(0), torch.eye(T), x)[0]": ["blurred-10"],
        "attend(3 * torch.eye(T).flip(0), 3 * torch.eye(T), x)[0]": ["blurred-9"],
        "attend(5 * torch.eye(T), torch.eye(T), x)[0]": ["copied", "blurred-5"],
        "attend(99 * torch.eye(T)[[(T - n) % T for n in range(T)]], torch.eye(T), x)[0]": [
            "one-later"
        ],
        "attend(x.flip(0), x, x)[0]": ["content"],
        "attend(x, x, x)[0]": ["copied", "content"],
        "attend(99 * torch.eye(T).flip(0), torch.eye(T), x)": ["both"],
        "attend(99 * torch.eye(T).flip(0), torch.eye(T), x)[1]": ["weights"],
    },
}


# What an answer calls that stands in another cell.
CONTEXT = {"reverse": ATTEND}
GOOD = ATTEND.replace("def attend", "def _attend")


def alone(name, line):
    """The function, with a right `attend` of its own if it needs one."""
    code = DEF[name] + line
    return GOOD + code.replace("attend(", "_attend(") if name == "reverse" else code


WRONG = [(name, alone(name, line), wrong) for name in DEF for line, wrong in LINES[name].items()]
WRONG += [("attend", written(ATTEND, IN_ATTEND, [one]), [one]) for one in IN_ATTEND]
WRONG += [("attend", written(ATTEND, IN_ATTEND, pair), list(pair)) for pair in PAIRS]
WRONG += [("masked_softmax", written(MASKED, IN_MASKED, [one]), [one]) for one in IN_MASKED]
WRONG += [
    ("masked_softmax", DROPPED, ["hidden-max"]),
    ("masked_softmax", DROPPED.replace(".nan_to_num(0)", ""), ["hidden-max", "nan-row"]),
]
WRONG += [
    ("masked_softmax", f"{PLAIN}def masked_softmax(x, mask):\n    return {line}", wrong)
    for line, wrong in LINES_MASKED.items()
]

# Right numbers, and something wrong beside them
WRONG += [
    (
        "scores",
        """
        def scores(q, k):
            q /= math.sqrt(q.shape[-1])
            return q @ k.mT
        """,
        ["in-place"],
    ),
    (
        "softmax",
        """
        def softmax(x):
            x -= x.amax(-1, keepdim=True)
            return x.exp() / x.exp().sum(-1, keepdim=True)
        """,
        ["in-place"],
    ),
    (
        "masked_softmax",
        """
        def masked_softmax(x, mask):
            x.masked_fill_(~mask, -1e30)
            powers = (x - x.amax(-1, keepdim=True)).exp() * mask
            return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)
        """,
        ["in-place"],
    ),
]
