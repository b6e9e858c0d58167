"""Lab 10 as students write it: right in unusual ways, and mistakes, alone and in pairs.

The measured numbers are those of the copy that names nobody, as they stand in the lab's notebook;
tests/labs/test_specimen.py finds them again by the module that students measure with.
"""

import ast
import re
from pathlib import Path

import nbformat
from mistaken import each_and_pairs

OWN = True  # questions whose right answers are each student's own: tests/labs/test_specimen.py
BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"
CONTEXT = {}
LAB = Path(__file__).parents[3] / "labs" / "10-inside.ipynb"
CELLS = {cell.id: cell.source for cell in nbformat.read(LAB, as_version=4).cells}
FOUND = {
    name: ast.literal_eval(re.search(r"found = (\[.*?\n?    \]|\[.*?\])\n", CELLS[name], re.S)[1])
    for name in ("suspects", "prices", "carried", "probed")
}


# What comes out with each slip, in the copy that names nobody
SLIPS = {
    "suspects": {
        "exchanged": [(3, 3, 0.924), (2, 0, 0.756)],
        "counted-from-1": [(3, 1, 0.756), (4, 4, 0.924)],
        "itself": [(2, 2, 0.262), (0, 0, 0.04)],
        "one-on": [(2, 1, 0.226), (3, 2, 0.061)],
        "all-queries": [(2, 0, 0.753), (3, 3, 0.924)],
        "unrepeated": [(2, 0, 0.761), (3, 3, 0.044)],
    },
    "prices": {
        "zeros": [9.948, 0.702, 9.171, 0.608],
        "own-mean": [9.087, 0.616, 9.628, -0.128],
        "not-the-rise": [9.474, 0.973, 10.078, 0.222],
        "fallen": [-9.103, -0.602, -9.707, 0.148],
        "both-copies": [3.854, 0.293, 4.504, 0.183],
        "first-three": [8.207, 0.464, 8.767, -0.139],
    },
    "carried": {
        "raw": [
            (16.373, -9.403, -9.393, -9.398, -9.357, -9.286),
            (16.317, -9.323, -9.738, -6.403, -9.244, -9.408),
            (16.156, -9.215, -9.391, -9.525, -8.772, -9.552),
            (-9.382, 16.409, -9.378, -9.445, -9.271, 16.001),
        ],
        "from-zero": [
            (0.998, -0.573, -0.572, -0.573, -0.57, -0.566),
            (0.994, -0.568, -0.593, -0.39, -0.563, -0.573),
            (0.985, -0.562, -0.572, -0.58, -0.535, -0.582),
            (-0.572, 1.0, -0.572, -0.576, -0.565, 0.975),
        ],
        "rise-only": [
            (25.755, -0.021, -0.011, -0.016, 0.025, 0.095),
            (25.699, 0.059, -0.356, 2.979, 0.138, -0.026),
            (25.538, 0.167, -0.009, -0.143, 0.61, -0.17),
            (0.0, 25.791, 0.003, -0.063, 0.11, 25.383),
        ],
        "noised": [
            (0.998, 0.0, 0.006, 0.0, 0.001, 0.004),
            (0.997, 0.002, 0.005, 0.033, -0.005, -0.015),
            (0.993, 0.009, 0.003, -0.006, 0.045, 0.007),
            (0.0, 1.0, 0.001, -0.006, 0.014, 0.991),
        ],
        "noised-as-is": [
            (0.002, 1.0, 0.994, 1.0, 0.999, 0.996),
            (0.003, 0.998, 0.995, 0.967, 1.005, 1.015),
            (0.007, 0.991, 0.997, 1.006, 0.955, 0.993),
            (1.0, 0.0, 0.999, 1.006, 0.986, 0.009),
        ],
        "places-exchanged": [
            (-0.001, 0.999, 0.0, -0.001, 0.001, 0.004),
            (0.002, 0.996, -0.014, 0.115, 0.005, -0.001),
            (0.006, 0.99, 0.0, -0.006, 0.024, -0.007),
            (1.0, 0.0, 0.0, -0.002, 0.004, 0.984),
        ],
        "lost": [
            (0.001, 1.001, 1.0, 1.001, 0.999, 0.996),
            (0.004, 0.998, 1.014, 0.885, 0.995, 1.001),
            (0.01, 0.994, 1.0, 1.006, 0.976, 1.007),
            (1.0, 0.0, 1.0, 1.002, 0.996, 0.016),
        ],
        "before-layer": [
            (1.0, 0.0, 0.0, -0.001, 0.001, 0.004),
            (0.999, -0.001, -0.014, 0.115, 0.005, -0.001),
            (0.996, 0.002, 0.0, -0.006, 0.024, -0.007),
            (0.99, 0.006, 0.0, -0.002, 0.004, 0.984),
        ],
    },
    "probed": {
        "control-minus-task": [
            (0.035, 0.175, 0.14),
            (0.058, 0.207, 0.149),
            (0.942, 0.844, -0.098),
            (0.993, 0.942, -0.051),
            (0.826, 0.633, -0.194),
        ],
        "order": [
            (0.175, 0.035, -0.14),
            (0.207, 0.058, -0.149),
            (0.844, 0.942, 0.098),
            (0.942, 0.993, 0.051),
            (0.633, 0.826, 0.194),
        ],
        "this-token": [
            (1.0, 0.175, 0.825),
            (1.0, 0.207, 0.793),
            (1.0, 0.844, 0.156),
            (1.0, 0.942, 0.058),
            (0.999, 0.633, 0.366),
        ],
        "control-this": [
            (0.035, 1.0, -0.965),
            (0.058, 1.0, -0.942),
            (0.942, 1.0, -0.058),
            (0.993, 1.0, -0.007),
            (0.826, 0.934, -0.108),
        ],
        "both-this": [
            (1.0, 1.0, 0.0),
            (1.0, 1.0, 0.0),
            (1.0, 1.0, 0.0),
            (1.0, 1.0, 0.0),
            (0.999, 0.934, 0.065),
        ],
        "on-training": [
            (0.147, 0.309, -0.161),
            (0.97, 0.892, 0.078),
            (1.0, 1.0, 0.0),
            (1.0, 1.0, 0.0),
            (1.0, 0.998, 0.002),
        ],
        "next-place": [
            (0.058, 0.207, -0.149),
            (0.942, 0.844, 0.098),
            (0.993, 0.942, 0.051),
            (0.826, 0.633, 0.194),
            (0.826, 0.633, 0.194),
        ],
        "ratio": [
            (0.035, 0.175, 0.199),
            (0.058, 0.207, 0.281),
            (0.942, 0.844, 1.116),
            (0.993, 0.942, 1.054),
            (0.826, 0.633, 1.306),
        ],
    },
}


def typed(name, rows):
    """The function with these numbers typed in."""
    return f"def {name}(n):\n    return {rows}[n]\n"


def changed(name, n, row):
    """The lab's numbers with another row n."""
    return typed(name, [row if k == n else old for k, old in enumerate(FOUND[name])])


def rounded(row, places=3):
    row = [round(value, places) for value in row]
    return row[0] if len(row) == 1 else tuple(row)


def slips(name, n, *names):
    """Row n with each of these slips."""
    for slip in names:
        yield name, changed(name, n, SLIPS[name][slip][n]), [slip]


def whole(name, *names):
    """All rows with each of these slips."""
    for slip in names:
        yield name, typed(name, SLIPS[name][slip]), [slip]


L2, L3 = FOUND["carried"][2:]
MEASURED = [
    *whole("suspects", "exchanged", "counted-from-1", "itself", "one-on"),
    *slips("suspects", 0, "all-queries", "unrepeated", "exchanged"),
    *slips("suspects", 1, "unrepeated", "counted-from-1"),
    ("suspects", changed("suspects", 0, (1, 0, 0.43)), ["another-head"]),
    ("suspects", changed("suspects", 1, (3, 3, 0.9)), ["another-number"]),
    ("suspects", changed("suspects", 0, (2, 0)), ["no-number"]),
    ("suspects", changed("suspects", 0, "2.0"), ["no-number"]),
    (
        "suspects",
        typed("suspects", [(1, 0, 0.43), (3, 3, 0.9)]),
        ["another-head", "another-number"],
    ),
    *whole("prices", "zeros", "own-mean", "not-the-rise", "fallen", "both-copies", "first-three"),
    *slips("prices", 2, "zeros", "own-mean", "not-the-rise", "fallen"),
    ("prices", changed("prices", 3, 0.0), ["another-number"]),
    ("prices", changed("prices", 2, 9.1), ["another-number"]),
    ("prices", changed("prices", 0, (9.103, 0)), ["no-number"]),
    ("prices", changed("prices", 0, float("nan")).replace("nan", "math.nan"), ["no-number"]),
    *whole("carried", "raw", "from-zero", "rise-only", "noised-as-is", "places-exchanged", "lost"),
    *slips("carried", 1, "noised", "raw"),
    *slips("carried", 3, "before-layer", "places-exchanged", "noised-as-is"),
    ("carried", changed("carried", 2, L2[:2]), ["no-number"]),
    ("carried", changed("carried", 3, (*L3[:5], 0.9)), ["another-number"]),
    ("carried", changed("carried", 3, (*L3[:2], *L3[:1:-1])), ["another-number"]),
    *whole("probed", "control-minus-task", "order", "control-this"),
    *slips("probed", 0, "this-token", "both-this"),
    *slips("probed", 1, "on-training", "next-place", "ratio"),
    ("probed", changed("probed", 1, (0.2, 0.3, -0.1)), ["another-number"]),
    ("probed", changed("probed", 2, (0.94, 1.0)), ["no-number"]),
]

GOOD = {
    "head_scores": """
        def head_scores(weights):
            half = weights.shape[-1] // 2
            maps = weights.mean(1)
            t = torch.arange(half, 2 * half)
            to_before = maps[..., t, t - 1].mean(-1)
            to_next = maps[..., t, t - half + 1].mean(-1)
            return torch.stack([to_before, to_next])
        """,
    "mean_ablated": """
        def mean_ablated(heads, other, chosen):
            mean = other.mean((1, 3), keepdim=True)
            lost = torch.zeros(heads.shape[0], heads.shape[2], dtype=torch.bool)
            for layer, head in chosen:
                lost[layer, head] = True
            lost = lost[:, None, :, None, None]
            return torch.where(lost, mean, heads)
        """,
    "linear_probe": """
        def linear_probe(x, labels, K, new, ridge):
            table = torch.eye(K)[labels]
            centre, level = x.mean(0), table.mean(0)
            inputs = x - centre
            square = inputs.T @ inputs + ridge * torch.eye(x.shape[1])
            slopes = torch.linalg.solve(square, inputs.T @ (table - level))
            return (new - centre) @ slopes + level
        """,
}
CHANGES = {
    "head_scores": {
        "exchanged": ("[to_before, to_next]", "[to_next, to_before]"),
        "all-queries": ("maps[..., t, t - 1].mean(-1)", "maps.diagonal(-1, -2, -1).mean(-1)"),
        "same-token": ("t - half + 1]", "t - half]"),
        "itself": ("t, t - 1]", "t, t]"),
        "two-before": ("t, t - 1]", "t, t - 2]"),
        "follows-summed": ("t - half + 1].mean(-1)", "t - half + 1].sum(-1)"),
        "two-on": ("t - half + 1]", "t - half + 2]"),
        "one-back": ("t - half + 1]", "t - half - 1]"),
        "one-late": ("torch.arange(half, ", "torch.arange(half + 1, "),
        "last-query": ("torch.arange(half, ", "torch.arange(2 * half - 1, "),
        "largest": (
            "return torch.stack([to_before, to_next])",
            "both = [weights[..., t, t - 1], weights[..., t, t - half + 1]]\n"
            "            return torch.stack([each.amax(-1).mean(1) for each in both])",
        ),
        "block": (
            "return torch.stack([to_before, to_next])",
            "both = [maps[..., half:, half - 1 : -1], maps[..., half:, 1 : half + 1]]\n"
            "            return torch.stack([each.mean((-1, -2)) for each in both])",
        ),
        "heads-averaged": ("weights.mean(1)", "weights.mean(2)"),
        "length-fixed": (
            "return torch.stack([to_before, to_next])",
            "second = weights[..., 18:, :].mean(1)\n"
            "            lines = [second.diagonal(at, -2, -1)[..., :18] for at in (17, 1)]\n"
            "            return torch.stack([line.mean(-1) for line in lines])",
        ),
        "keys": ("weights.mean(1)", "weights.mean(1).mT"),
        "summed": ("weights.mean(1)", "weights.sum(1)"),
        "one-row": ("weights.mean(1)", "weights[:, 0]"),
        "one-more": (
            "t - 1].mean(-1)",
            "t - 1].sum(-1).add(maps[..., half - 1, half - 2]).div(half + 1)",
        ),
        "queries-summed": (
            "torch.stack([to_before, to_next])",
            "torch.stack([to_before, to_next]) * half",
        ),
        "one-early": ("maps[..., t, t - 1]", "maps[..., t - half + 1, t - half]"),
        "by-length": (
            "torch.stack([to_before, to_next])",
            "torch.stack([to_before, to_next]) * half / (2 * half)",
        ),
        "first-copy": (
            "maps[..., t, t - 1].mean(-1)",
            "maps[..., :half, :half].diagonal(-1, -2, -1).mean(-1)",
        ),
    },
    "mean_ablated": {
        "others": ("torch.where(lost, mean, heads)", "torch.where(lost, heads, mean)"),
        "zeros": ("torch.where(lost, mean, heads)", "heads.masked_fill(lost, 0.0)"),
        "own-rows": ("other.mean((1, 3)", "heads.mean((1, 3)"),
        "by-place": ("other.mean((1, 3)", "other.mean((1,)"),
        "one-row": ("other.mean((1, 3)", "other[:, :1].mean((1, 3)"),
        "by-row": ("other.mean((1, 3)", "other.mean((3,)"),
        "mean-of-last": ("other.mean((1, 3)", "other[..., -1:, :].mean((1, 3)"),
        "median": (
            "other.mean((1, 3), keepdim=True)",
            "other.transpose(1, 2).flatten(2, 3).median(2).values[:, None, :, None]",
        ),
        "first-only": ("in chosen:", "in chosen[:1]:"),
        "last-only": ("in chosen:", "in chosen[-1:]:"),
        "grid": ("in chosen:", "in [(i, j) for i in chosen[:, 0] for j in chosen[:, 1]]:"),
        "last-place": (
            "return torch.where(lost, mean, heads)",
            "out = heads.clone()\n"
            "            out[..., -1:, :] = torch.where(lost, mean, heads)[..., -1:, :]\n"
            "            return out",
        ),
        "chosen-alone": (
            "return torch.where(lost, mean, heads)",
            "out = torch.where(lost, mean, heads)\n"
            "            return torch.stack([out[i, :, j] for i, j in chosen])",
        ),
        "one-number": ("other.mean((1, 3)", "other.mean((1, 3, 4)"),
        "across-heads": ("other.mean((1, 3)", "other.mean((1, 2, 3)"),
        "all-layers": ("lost[layer, head]", "lost[:, head]"),
        "whole-layer": ("lost[layer, head]", "lost[layer]"),
        "pair-exchanged": ("lost[layer, head]", "lost[head, layer]"),
        "first-row-lost": (
            "return torch.where(lost, mean, heads)",
            "out = heads.clone()\n"
            "            out[:, 0] = torch.where(lost, mean, heads)[:, 0]\n            return out",
        ),
        "taken-away": ("torch.where(lost, mean, heads)", "torch.where(lost, heads - mean, heads)"),
    },
    "linear_probe": {
        "fit-not-centred": ("inputs = x - centre", "inputs = x"),
        "no-ridge": ("square, ", "square - ridge * torch.eye(x.shape[1]), "),
        "times-rows": ("+ ridge *", "+ len(x) * ridge *"),
        "squared": ("+ ridge *", "+ ridge**2 *"),
        "no-constant": ("x.mean(0), table.mean(0)", "0.0, 0.0"),
        "shrunk-constant": (
            "centre, level = x.mean(0), table.mean(0)",
            "x, new = (torch.cat([each, torch.ones(len(each), 1)], 1) for each in (x, new))\n"
            "            centre, level = 0.0, 0.0",
        ),
        "not-centred": ("x.mean(0), table", "0.0, table"),
        "new-not-centred": ("(new - centre)", "new"),
        "columns": (
            "return (new - centre) @ slopes + level",
            "centre, level = x.mean(1, keepdim=True), table.mean(1, keepdim=True)\n"
            "            a = x - centre\n"
            "            square = a.T @ a + ridge * torch.eye(x.shape[1])\n"
            "            slopes = torch.linalg.solve(square, a.T @ (table - level))\n"
            "            return (new - new.mean(1, keepdim=True)) @ slopes + 1 / K",
        ),
        "standardised": (
            "table = torch",
            "x, new = x / x.std(0), new / x.std(0)\n            table = torch",
        ),
        "labels-as-numbers": ("torch.eye(K)[labels]", "labels[:, None].float().repeat(1, K)"),
        "learned-rows": ("(new - centre)", "(x - centre)"),
        "ridge-fixed": ("ridge * torch", "1.0 * torch"),
        "own-centre": ("(new - centre)", "(new - new.mean(0))"),
        "no-level": ("@ slopes + level", "@ slopes"),
        "every-entry": ("ridge * torch.eye(x.shape[1])", "ridge"),
        "best-label": (
            "return (new - centre) @ slopes + level",
            "return ((new - centre) @ slopes + level).argmax(1)",
        ),
        "last-unseen": ("torch.eye(K)", "torch.eye(int(labels.max()) + 1)"),
        "signs": ("torch.eye(K)[labels]", "2 * torch.eye(K)[labels] - 1"),
        "softmax": (
            "return (new - centre) @ slopes + level",
            "return ((new - centre) @ slopes + level).softmax(1)",
        ),
    },
}
PAIRS = {
    "head_scores": [("exchanged", "same-token"), ("summed", "two-on"), ("one-row", "by-length")],
    "mean_ablated": [("others", "own-rows"), ("whole-layer", "by-place"), ("zeros", "all-layers")],
    "linear_probe": [("no-ridge", "signs"), ("own-centre", "no-level"), ("times-rows", "softmax")],
}
WRONG = [*each_and_pairs(GOOD, CHANGES, PAIRS), *MEASURED]


def forms(name):
    """The lab's numbers as four students give them."""
    rows = FOUND[name]
    cut = [rounded([row] if isinstance(row, float) else row) for row in rows]
    return [
        typed(name, rows),
        typed(name, f"torch.tensor({rows}, dtype=torch.float64)"),
        f"my_{name} = {dict(enumerate(cut))}\n"
        f"def {name}(which):\n    return np.array(my_{name}[which])\n",
        f"{name} = {cut}.__getitem__\n",
    ]


RIGHT = {name: forms(name) for name in FOUND} | {
    "head_scores": [
        GOOD["head_scores"],
        """
        def head_scores(weights):
            N, B, H, T, _ = weights.shape
            L, out = T // 2, torch.zeros(2, N, H)
            for t in range(L, 2 * L):
                out[0] += weights[:, :, :, t, t - 1].sum(1) / (B * L)
                out[1] += weights[:, :, :, t, t - L + 1].sum(1) / (B * L)
            return out
        """,
        """
        def head_scores(weights):
            w = weights.double().numpy().mean(axis=1)
            L = w.shape[-1] // 2
            before = np.diagonal(w, -1, -2, -1)[..., L - 1:].mean(-1)
            follows = np.diagonal(w, 1 - L, -2, -1)[..., 1:].mean(-1)
            return np.stack([before, follows])
        """,
        """
        def head_scores(weights):
            L = weights.size(-1) // 2
            second = weights[..., L:, :]
            at = torch.arange(L)
            look = [F.one_hot(at + L - 1, 2 * L), F.one_hot(at + 1, 2 * L)]
            return torch.stack([(second * one).sum(-1).mean((1, 3)) for one in look])
        """,
    ],
    "mean_ablated": [
        GOOD["mean_ablated"],
        """
        def mean_ablated(heads, other, chosen):
            N, B, H, T, D = other.shape
            average = other.transpose(1, 2).reshape(N, H, B * T, D).mean(2)
            changed = heads.clone()
            layers, numbers = chosen.unbind(1)
            changed[layers, :, numbers] = average[layers, numbers][:, None, None]
            return changed
        """,
        """
        def mean_ablated(heads, other, chosen):
            out = heads.double().numpy().copy()
            for layer, head in chosen.numpy():
                out[layer, :, head] = other[layer, :, head].numpy().mean(axis=(0, 1))
            return out
        """,
    ],
    "linear_probe": [
        GOOD["linear_probe"],
        """
        def linear_probe(x, labels, K, new, ridge):
            table = F.one_hot(labels, K).double()
            x, new = x.double(), new.double()
            centre, level = x.mean(0), table.mean(0)
            heavy = torch.cat([x - centre, math.sqrt(ridge) * torch.eye(x.shape[1]).double()])
            goal = torch.cat([table - level, torch.zeros(x.shape[1], K).double()])
            return (new - centre) @ torch.linalg.lstsq(heavy, goal).solution + level
        """,
        """
        def linear_probe(x, labels, K, new, ridge):
            x, new, y = x.numpy(), new.numpy(), labels.numpy()
            table = np.zeros((len(y), K))
            table[np.arange(len(y)), y] = 1
            a = x - x.mean(0)
            inner = np.linalg.solve(a @ a.T + ridge * np.eye(len(a)), table - table.mean(0))
            return (new - x.mean(0)) @ a.T @ inner + table.mean(0)
        """,
    ],
}

# Right numbers, and something wrong beside them
WRONG += [
    (
        "mean_ablated",
        """
        def mean_ablated(heads, other, chosen):
            mean = other.mean((1, 3))
            for layer, head in chosen.tolist():
                heads[layer, :, head] = mean[layer, head]
            return heads
        """,
        ["in-place"],
    ),
    (
        "linear_probe",
        """
        def linear_probe(x, labels, K, new, ridge):
            table = F.one_hot(labels, K).float()
            centre, level = x.mean(0), table.mean(0)
            x -= centre
            square = x.T @ x + ridge * torch.eye(x.shape[1])
            return (new - centre) @ torch.linalg.solve(square, x.T @ (table - level)) + level
        """,
        ["in-place"],
    ),
]
