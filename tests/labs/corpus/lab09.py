"""Lab 9 as students write it: right in unusual ways, and mistakes, alone and in pairs.

The runs are those of the copy that names nobody: what is right there is found by the ward itself.
"""

import re
from functools import cache
from pathlib import Path

import nbformat

from attnlabs.lab09.faults import FAULTS, NAMES, drawn
from attnlabs.lab09.settings import NAMES as SETTINGS

TRAINS = OWN = True  # tried for other students in tests/labs/test_ward.py
BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"
LAB = Path(__file__).parents[3] / "labs" / "09-the-clinic.ipynb"
CELLS = {cell.id: cell.source for cell in nbformat.read(LAB, as_version=4).cells}
BEDS = drawn("")
HEALTHY = next(n for n, bed in enumerate(BEDS) if bed.name == "healthy")
ILL = [n for n in range(8) if n != HEALTHY]


def bed(name):
    """The place of the first run with that fault."""
    return next(n for n, each in enumerate(BEDS) if each.name == name)


CODES = [NAMES.index(each.name) for each in BEDS]
ROWS = [
    (SETTINGS.index(name.lower()), float(value), float(before), float(after))
    for name, value, before, after in re.findall(
        r"\(([A-Z]+), ([\d.]+), ([\d.]+), ([\d.]+)\)", CELLS["cure"]
    )
]


def diagnosed(**other):
    """`diagnosis` with other names for some runs, `run3=4`."""
    codes = [other.get(f"run{n}", code) for n, code in enumerate(CODES, start=1)]
    return f"def diagnosis(run):\n    return {codes}[run - 1]\n"


def cured(change):
    """`cure` with some rows changed: {place: row}."""
    rows = [change.get(n, row) for n, row in enumerate(ROWS)]
    text = str(rows).replace("inf", "math.inf")
    return f"def cure(run):\n    return {text}[run - 1]\n"


def other(n, **parts):
    """Row n with other parts."""
    names = ("setting", "value", "before", "after")
    return tuple(parts.get(name, old) for name, old in zip(names, ROWS[n], strict=True))


def claims():
    """Each name given wrongly to one run, and not so often that it is guessing."""
    for code, name in enumerate(NAMES):
        for n in (0, 3, 4, 6, 7):
            if CODES[n] != code and CODES.count(code) < 2:
                yield "diagnosis", diagnosed(**{f"run{n + 1}": code}), [f"not-{name}"]


ONE, TWO = bed("same-target"), bed("rate-high")
CLAIMED = [
    *claims(),
    ("diagnosis", "def diagnosis(run):\n    return 5\n", ["guessed"]),
    ("diagnosis", "def diagnosis(run):\n    return 0\n", ["guessed"]),
    ("diagnosis", "def diagnosis(run):\n    return (run - 1) % 2\n", ["guessed"]),
    ("diagnosis", diagnosed(run1=9), ["no-name"]),
    ("diagnosis", diagnosed(run1=-1), ["no-name"]),
    ("diagnosis", diagnosed(run2=2.5), ["no-name"]),
    ("diagnosis", diagnosed(run2=(1, 2)), ["no-number"]),
    ("diagnosis", diagnosed(run1=4, run5=3), ["not-loud-start", "not-decay-strong"]),
    ("diagnosis", diagnosed(run1=7, run2=12), ["not-never-zeroed", "no-name"]),
    ("diagnosis", "def diagnosis(run):\n    return {1: 5}.get(run, math.nan)\n", ["no-number"]),
]
TREATED = [
    *(("cure", cured({n: (0, 0.0, *ROWS[n][2:])}), ["untreated"]) for n in ILL[:4]),
    ("cure", cured({HEALTHY: other(HEALTHY, setting=1, value=0.02)}), ["overtreated"]),
    ("cure", cured({HEALTHY: other(HEALTHY, setting=2, value=30)}), ["overtreated"]),
    *(("cure", cured({n: other(n, setting=2, value=40)}), ["wrong-setting"]) for n in ILL[:5]),
    ("cure", cured({ONE: other(ONE, setting=5, value=0)}), ["wrong-setting"]),
    ("cure", cured({TWO: other(TWO, setting=4, value=1.0)}), ["wrong-setting"]),
    ("cure", cured({TWO: other(TWO, value=0.08)}), ["wrong-dose"]),
    ("cure", cured({TWO: other(TWO, value=0.001)}), ["wrong-dose"]),
    ("cure", cured({bed("rate-low"): other(bed("rate-low"), value=0.003)}), ["wrong-dose"]),
    ("cure", cured({bed("decay-strong"): other(bed("decay-strong"), value=3.0)}), ["wrong-dose"]),
    ("cure", cured({1: other(1, value=400)}), ["wrong-dose"]),
    ("cure", cured({0: other(0, value=2)}), ["wrong-dose"]),
    ("cure", cured({TWO: other(TWO, value=-0.01)}), ["no-value"]),
    ("cure", cured({TWO: other(TWO, value=1e300)}), ["no-value"]),
    ("cure", cured({1: other(1, value=24001)}), ["no-value"]),
    ("cure", cured({0: other(0, value=0.5)}), ["no-value"]),
    ("cure", cured({0: other(0, setting=9)}), ["no-setting"]),
    ("cure", cured({0: other(0, setting=1.5)}), ["no-setting"]),
    ("cure", cured({1: ROWS[1][:3]}), ["no-number"]),
    ("cure", cured({1: (*ROWS[1], 0.0)}), ["no-number"]),
    ("cure", cured({1: (1, 2, 3, 1e999)}), ["no-number"]),
    ("cure", cured({TWO: (*ROWS[TWO][:2], *ROWS[TWO][:1:-1])}), ["exchanged"]),
    ("cure", cured({0: (*ROWS[0][:2], *ROWS[0][:1:-1])}), ["exchanged"]),
    ("cure", cured({2: other(2, before=2.5)}), ["other-before"]),
    ("cure", cured({3: other(3, after=0.5)}), ["other-after"]),
    ("cure", cured({HEALTHY: other(HEALTHY, after=0.9)}), ["other-after"]),
    ("cure", cured({3: other(3, after=round(ROWS[3][3], 1) + 0.1)}), ["other-after"]),
    ("cure", "def cure(run):\n    return 1, 0.02, 2.0, 0.7\n", ["guessed"]),
    (
        "cure",
        cured({2: other(2, before=2.5), 3: other(3, value=0.09)}),
        ["other-before", "wrong-dose"],
    ),
]


@cache
def trained(changes):
    """The handed-out training with the pieces of `changes` replaced, as an answer."""
    code = f"{CELLS['sick']}\n\n\n{CELLS['sick-steps']}".replace("tril(1)", "tril()")
    for old, new in changes:
        assert old in code, old
        code = code.replace(old, new)
    return (
        code
        + "\n\ndef training(tokens, first, rate):\n    return SickRun(first, rate).run(tokens)\n"
    )


FALSE = {
    "mask": ("tril() > 0", "tril(1) > 0"),
    "mask-further": ("tril() > 0", "tril(2) > 0"),
    "not-itself": ("tril() > 0", "tril(-1) > 0"),
    "first-itself": (
        "tril() > 0",
        "tril(-1) + (torch.arange(T) + torch.arange(T)[:, None] == 0) > 0",
    ),
    "turned-round": ("tril() > 0", "triu() > 0"),
    "window": ("tril() > 0", "tril().triu(-1) > 0"),
    "zeroed": ("(x.shape[1]), -math.inf)", "(x.shape[1]), 0.0)"),
    "two-on": ("batch[:, :-1], batch[:, 1:]", "batch[:, :-2], batch[:, 2:]"),
    "target": ("batch[:, 1:]", "batch[:, :-1]"),
    "piled": ("            w.grad = None\n", "            pass\n"),
    "over-queries": ("softmax(dim=-1)", "softmax(dim=-2)"),
    "apart": (
        "return [g / size for g in gradients]",
        "return [g / g.norm().clamp(min=1) for g in gradients]",
    ),
    "last": (
        "self.logits(x).flatten(0, 1), y.flatten()",
        "self.logits(x)[:, -1], y[:, -1]",
    ),
    "falling": ("return self.rate  #", "return self.rate * (1 - n / N)  #"),
    "momentum": ("speed = gradient", "speed = 0.9 * self.speeds[place] + gradient"),
    "no-mask": ("scores = scores.masked_fill(~self.seen(x.shape[1]), -math.inf)", ""),
    "unscaled": (" / math.sqrt(h.shape[-1])", ""),
    "no-places": ("place[: x.shape[1]]", "0.0 * place[: x.shape[1]]"),
    "places-fixed": (
        "place[: x.shape[1]]",
        "(0.0 * place + place.detach())[: x.shape[1]]",
    ),
    "no-residual": (
        "(h + self.shared(scores) @ (h @ value))",
        "(self.shared(scores) @ (h @ value))",
    ),
    "summed": ("y.flatten())", 'y.flatten(), reduction="sum")'),
    "always": (".norm().clamp(min=1)", ".norm()"),
    "rate-fixed": ("data -= rate", "data -= 0.5"),
    "loss-after": ("losses.append(loss", "losses.append(self.loss(*self.pair(batch))"),
    "unclipped": ("return [g / size for g in gradients]", "return gradients"),
    "one-batch": ("self.pair(batch)", "self.pair(tokens[0])"),
    "uphill": ("data -= rate", "data += rate"),
}
PAIRS = [
    ("mask", "falling"),
    ("mask", "unclipped"),
    ("target", "momentum"),
    ("piled", "unclipped"),
    ("over-queries", "unscaled"),
    ("apart", "falling"),
    ("last", "momentum"),
    ("summed", "unclipped"),
]
LISTS = [[name] for name in FALSE] + [list(pair) for pair in PAIRS]
TRAINED = [("training", trained(tuple(FALSE[one] for one in each)), each) for each in LISTS]
WRONG = [*CLAIMED, *TREATED, *TRAINED]


def dosed(values, after):
    """`cure` with other values that mend as well, and what they end at."""
    change = {}
    for n, each in enumerate(BEDS):
        setting = FAULTS[each.name].setting if each.name in FAULTS else ""
        if setting in values:
            change[n] = other(n, value=values[setting], after=after[n])
    return cured(change)


DICTIONARY = dict(enumerate(CODES, start=1))
RIGHT = {
    "diagnosis": [
        diagnosed(),
        f"ward = {DICTIONARY}\ndef diagnosis(run):\n    return ward[run]\n",
        f"diagnosis = {DICTIONARY}.get\n",
        f"def diagnosis(run):\n    return torch.tensor({CODES})[int(run) - 1]\n",
        f"def diagnosis(run):\n    return np.array({CODES}, dtype=np.int8)[run - 1]\n",
        f"def diagnosis(run, found=tuple({CODES})):\n    return float(found[run - 1])\n",
        f"from enum import IntEnum\nclass Found(IntEnum):\n    A = {CODES[0]}\n"
        f"def diagnosis(run):\n    return Found.A if run == 1 else {CODES}[run - 1]\n",
    ],
    "cure": [
        cured({}),
        f"def cure(run):\n    return torch.tensor({ROWS}, dtype=torch.float64)[run - 1]\n",
        f"def cure(run):\n    return np.array({ROWS})[run - 1]\n",
        f"def cure(run):\n    return [torch.tensor(n) for n in {ROWS}[run - 1]]\n",
        cured({n: tuple(round(part, 2) for part in row) for n, row in enumerate(ROWS)}),
        dosed(
            {"rate": 0.015, "decay": 0.2, "characters": 6000},
            {1: 0.74, 3: 0.85, 4: 0.72, 6: 0.69},
        ),
        dosed(
            {"rate": 0.01, "decay": 0.01, "characters": 3000},
            {1: 0.759, 3: 0.876, 4: 0.839, 6: 0.667},
        ),
    ],
    "training": [
        trained(()),
        """
        def training(tokens, first, rate):
            w = [part.clone().requires_grad_() for part in first]
            step = torch.optim.SGD(w, lr=rate)
            losses = []
            for x, y in zip(tokens[:, :, :-1], tokens[:, :, 1:]):
                T = x.shape[1]
                h = w[0][x] + w[1][None, :T]
                mixed = F.scaled_dot_product_attention(h @ w[2], h @ w[3], h @ w[4], is_causal=True)
                loss = F.cross_entropy(((h + mixed) @ w[5]).mT, y)
                step.zero_grad()
                loss.backward()
                size = torch.stack([part.grad.norm() for part in w]).norm()
                for part in w:
                    part.grad /= max(1.0, size)
                step.step()
                losses.append(loss.item())
            return losses
        """,
        """
        def training(tokens, first, rate):
            w, losses = first.clone().double(), []
            for batch in tokens:
                w.requires_grad_()
                embed, place, query, key, value, out = w
                x, T = batch[:, :-1], batch.shape[1] - 1
                h = F.one_hot(x, 8).double() @ embed + place[:T]
                scores = torch.einsum("btc,buc->btu", h @ query, h @ key) / 8**0.5
                scores = scores + torch.full((T, T), -math.inf).triu(1)
                mixed = h + scores.softmax(-1) @ (h @ value)
                logs = (mixed @ out).log_softmax(-1)
                loss = -logs.gather(-1, batch[:, 1:, None]).mean()
                (slope,) = torch.autograd.grad(loss, w)
                w = (w - rate * slope / slope.norm().clamp(min=1)).detach()
                losses.append(loss.item())
            return np.array(losses)
        """,
    ],
}
CONTEXT = {}
