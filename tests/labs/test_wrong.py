"""Typical mistakes, alone and in pairs: each loses points on its question and is named.

All of these were written out as a student would, apart from the programs they are compared with.
"""

import pytest

from attnbook.labs.judge import judge
from attnbook.labs.prints import outcome
from attnbook.labs.probes import sheets
from attnbook.labs.question import copies

BEFORE = "import math, torch\n"
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
    "scale-up": ("/ math", "* math"),
}
BAD_ROW = {
    "nan-row": ("w = w.masked_fill(~mask, 0)", "pass"),
    "overflow": (" - s.amax(-1, keepdim=True)", ""),
}
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
}
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
    },
    "reverse": {
        "attend(100 * torch.eye(T), 100 * torch.eye(T), x)[0]": ["copied"],
        "attend(torch.eye(T).flip(0), torch.eye(T), x)[0]": ["blurred"],
        "attend(100 * torch.eye(T).flip(0).roll(-1, 0), 100 * torch.eye(T), x)[0]": ["off-by-one"],
        "x.flip(1)": ["features"],
        "attend(torch.eye(T), torch.eye(T), x)[0]": ["copied", "blurred"],
    },
}


def written(right, changes, wrong):
    """A program with these mistakes, out of the right one."""
    for name in wrong:
        assert changes[name][0] in right, f"{name}: nothing to replace"
        right = right.replace(*changes[name])
    return right


WRONG = [(name, DEF[name] + line, wrong) for name in DEF for line, wrong in LINES[name].items()]
WRONG += [("attend", written(ATTEND, IN_ATTEND, [one]), [one]) for one in IN_ATTEND]
WRONG += [("attend", written(ATTEND, IN_ATTEND, pair), list(pair)) for pair in PAIRS]
WRONG += [("masked_softmax", written(MASKED, IN_MASKED, [one]), [one]) for one in IN_MASKED]
PARTS = ["scores", "softmax", "masked_softmax", "causal_mask", "attend", "reverse"]


def label(one):
    return f"{one[0]}-{'+'.join(one[2])}"


@pytest.mark.parametrize("name,code,wrong", WRONG, ids=map(label, WRONG))
def test_the_check_names_the_mistake(name, code, wrong, define, grader):
    """With the stored fingerprints, and with the lecturer's other numbers alike."""
    function = define(BEFORE, ATTEND, code)[name]
    for sheet in (sheets()[name], grader.sheets[name]):
        verdict = judge(sheet, [outcome(function, copies(case.arguments)) for case in sheet.cases])
        assert sorted(verdict.mistakes) == sorted(wrong), verdict.text
        assert verdict.share < 1 and "consistent with" in verdict.text


BATCHES = max(sum(one[0] == name for one in WRONG) for name in PARTS)


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.slow] * (n > 1)) for n in range(BATCHES)]
)
def test_graded_each_loses_points_on_its_own_question(number, grade, hand_in, lab):
    """Six mistakes to a notebook, one for each question, in the sandbox."""
    by_name = {name: [one for one in WRONG if one[0] == name] for name in PARTS}
    chosen = {name: ones[number % len(ones)] for name, ones in by_name.items()}
    good = written(ATTEND, {}, []).replace("def attend", "def _attend")
    codes = {name: one[1] for name, one in chosen.items()}
    codes["reverse"] = good + codes["reverse"].replace("attend(", "_attend(")
    row = grade(hand_in(codes))
    for asked in lab.asked:
        if asked.code:
            question = row["questions"][asked.name]
            assert sorted(question["mistakes"]) == sorted(chosen[asked.name][2]), question["text"]
            assert question["points"] < asked.points
