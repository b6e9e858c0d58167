"""What a student's check says, and that it says something whatever it is given."""

import gzip
import itertools
import json
import linecache
import time

import numpy as np
import pytest
import torch
from corpora import CORPORA

from attnlabs.check import check, sentence
from attnlabs.inside import fingerprints
from attnlabs.inside.fingerprints import alike, outcome
from attnlabs.judge import judge
from attnlabs.probes import FOLDER, packed, sheets
from attnlabs.question import copies, run


def said(capsys, name, function):
    check(name, function)  # one that never ended would meet the test's own limit
    return capsys.readouterr().out.strip()


def endless(*_):
    while True:
        pass


def leaves(*_):
    raise SystemExit


def changes(x):
    return x.sub_(x.amax(-1, keepdim=True)).exp_()


def stub(x):
    """To be written."""
    ...


def passes(x):
    pass


def not_done(x):
    raise NotImplementedError


class Odd:
    def __call__(self, *arguments):
        raise KeyboardInterrupt

    def __repr__(self):
        raise RuntimeError


STRANGE = {
    "not yet implemented": [stub, passes, not_done, None, ...],
    "too long": [endless],
    "SystemExit": [leaves],
    "in place": [changes],
    "a function is needed": [5, "softmax"],
    "KeyboardInterrupt": [Odd()],
    "return": [lambda x: print(end=""), lambda x: {}],
    "shape is (1,)": [lambda x: [1]],
    "TypeError": [lambda: 1, lambda x, y: x],
}
GIVEN = [(words, thing) for words, things in STRANGE.items() for thing in things]


@pytest.mark.parametrize("words,thing", GIVEN)
def test_it_never_raises_and_says_why(words, thing, capsys):
    assert words in said(capsys, "softmax", thing)


def test_an_unknown_name_lists_the_known_ones(capsys):
    assert "masked_softmax" in said(capsys, "sofmax", stub)
    said(capsys, None, stub)
    said(capsys, [], stub)
    said(capsys, Odd(), stub)


def test_the_scale_that_was_used_is_measured():
    text = sentence("scores", lambda q, k: q @ k.mT)
    assert "not divided by √D (the scale measured is 1, expected 0.354)" in text
    unknown = sentence("scores", lambda q, k: q @ k.mT / 5)
    assert "the scale measured is 0.2, expected 0.354" in unknown
    cosine = sentence("scores", lambda q, k: (q / q.norm(dim=-1, keepdim=True)) @ k.mT)
    assert "the queries are made 1 long" in cosine and "measured" not in cosine  # no one scale
    both = sentence(
        "scores", lambda q, k: torch.cosine_similarity(q[..., None, :], k[..., None, :, :], -1)
    )
    assert "which makes cosines" in both


def test_the_first_call_may_load_a_library_and_an_endless_one_is_still_named():
    calls = []

    def slow(x):
        calls.append(x)
        if len(calls) == 1:
            time.sleep(9)
        return x.softmax(-1)

    assert sentence("softmax", slow).startswith("right")


def test_dropout_is_named_and_a_right_answer_is_never_called_random():
    text = sentence("softmax", lambda x: torch.dropout(x.softmax(-1), 0.5, True))
    assert "asked twice with the same arguments it gives different answers" in text


@pytest.mark.parametrize(
    "code,words",
    [
        (lambda q, k: q @ k / 8**0.5, "must be transposed"),
        (lambda q, k: q @ k.T / 8**0.5, "count axes from the end, −1 and −2"),
        (lambda q, k: (q @ k.mT).reshape(7, 7), "as many numbers as there are"),
    ],
)
def test_errors_of_shapes_come_with_a_hint(code, words):
    assert words in sentence("scores", code)


@pytest.mark.slow
def test_what_is_right_to_one_in_a_thousand_is_right_in_check_and_grading(of):
    """Half precision, and the GELU by tanh that others use: one verdict in both."""
    half = lambda q, k: (q.half() @ k.half().mT / q.shape[-1] ** 0.5).float()  # noqa: E731
    for sheet in (sheets()["scores"], of(3).grader.sheets["scores"]):
        found = [outcome(half, copies(case.arguments)) for case in sheet.cases]
        assert judge(sheet, found).share == 1
    for number, name in ((5, "decoder_block"), (6, "encode")):
        program = of(number).lab.compared[name].program
        for sheet in (sheets()[name], of(number).grader.sheets[name]):
            found = run(program, frozenset({"tanh-gelu"}), sheet.cases)
            assert judge(sheet, found).share == 1
            found = run(program, frozenset({"tanh-gelu", "same-gain"}), sheet.cases)
            assert judge(sheet, found).mistakes == ("same-gain",)


def test_numbers_are_close_as_numpy_says():
    numbers = [0.0, 1.0, 1.0005, 1.01, -1.0, np.nan, np.inf, -np.inf, 1e9, 1e9 + 1e5, 1e-5]
    pairs = [np.array(pair) for pair in itertools.product(numbers, repeat=2)]
    for one, other in itertools.product(pairs, pairs):
        assert fingerprints.close(one, other) == np.allclose(one, other, **fingerprints.CLOSE)
    assert fingerprints.close(np.zeros(0), np.zeros(0))
    assert not fingerprints.close(np.array([True, False]), np.array([True, True]))


def test_numbers_beyond_all_measure_are_not_right():
    """The square of one is infinite, and so is what its sums may be off by."""
    text = sentence("softmax", lambda x: torch.full(x.shape, 1e200, dtype=torch.float64))
    assert not text.startswith("right")


def test_hidden_places_and_rows_of_nan_are_pointed_out():
    hidden = sentence("masked_softmax", lambda x, mask: (3 * x).softmax(-1))
    assert "mask hides has weight" in hidden

    def bad(x, mask):
        weights = x.masked_fill(~mask, -torch.inf).softmax(-1)
        return weights.masked_fill(~mask & ~weights.isnan(), 0) + 0.0

    assert "a row that sees nothing becomes NaN" in sentence("masked_softmax", bad)


def test_wrong_numbers_are_no_weights_and_whole_numbers_no_masks():
    doubled = sentence("split_heads", lambda x, H: 2 * x.unflatten(-1, (H, -1)).transpose(-2, -3))
    assert doubled.endswith("right but for a factor.")
    assert sentence("grouped", lambda q, k, v, mask=None: 2 * q).endswith("the numbers are wrong.")


# Nearly right: a question, an answer, the mistake and words of what is said
NEARLY = {
    "scores": {
        "lambda q, k: (q @ k.mT / q.shape[-1] ** 0.5)[..., None]": ("axis-of-one", "too many"),
        "lambda q, k: q @ k.transpose(0, 1) / q.shape[-1] ** 0.5": ("axes", "from the end"),
    },
    "reach": {
        "lambda U, T: torch.stack([U.matrix_power(t + 1).norm() for t in range(T)])[None]": (
            "axis-of-one",
            "but not their shape (1, 9), expected (9,)",
        )
    },
    "softmax": {"lambda x: 0.97 * x.softmax(-1)": ("row-sums", "right but for its sum")},
    "unroll": {
        "lambda x, W, U, b: -unroll(x, W, U, b)": ("right-negated", "right but for the sign"),
        "lambda x, W, U, b: unroll(x, W, U, b).mT": ("right-axes-exchanged", "axes −2 and −1"),
        "lambda x, W, U, b: unroll(x, W, U, b).flatten(1)": (
            "right-other-shape",
            "in another shape",
        ),
        "lambda x, W, U, b: unroll(x, W, U, b) / x.shape[1]": (
            "right-factor",
            "too small by the length of axis −2 of `x`",
        ),
        "lambda x, W, U, b: unroll(x, W, U, b)[:, None].expand(-1, 4, -1, -1)": (
            "right-not-averaged",
            "right once the mean is taken along axis −3",
        ),
    },
    "merge_heads": {
        "lambda x: x.flatten(-2)": ("other-axis", "is as long as axis −3 of `x`"),
    },
    "attend": {
        "lambda q, k, v, mask=None: attend(q, k, v, mask | mask)": (
            "optional",
            "Where `mask` is given it is right",
        )
    },
    "embed": {
        "lambda images, *rest: embed(images.reshape(-1, 3, 4, 6), *rest)": (
            "lengths",
            "which has other lengths, is right",
        )
    },
    "windows": {
        "lambda ids, starts, length: (ids[starts[:, None] + torch.arange(8) * 0],) * 2": (
            "lengths",
            "An axis is as long in all cases",
        )
    },
}
EACH_NEARLY = [
    (name, code, *said) for name, codes in NEARLY.items() for code, said in codes.items()
]
OF = {"attend": 3, "embed": 6, "unroll": 1}  # the lab of those that begin with a right answer


@pytest.mark.parametrize("name,code,mistake,words", EACH_NEARLY)
def test_what_is_nearly_right_is_told_how(name, code, mistake, words, define):
    """Whatever the question is, in the student's check; in grading without what a student chose."""
    corpus = CORPORA[OF.get(name, 1)]
    right = [corpus.CONTEXT.get(name, ""), corpus.RIGHT[name][0]] if name in OF else []
    function = eval(code, define(corpus.BEFORE, *right))
    assert words in sentence(name, function)
    sheet = sheets()[name]
    found = [outcome(function, copies(case.arguments)) for case in sheet.cases]
    for private in (False, True):
        verdict = judge(sheet, found, private=private)
        assert verdict.mistakes == (mistake,) and verdict.text.count("expected") < 2


def noted(code, name):
    """A function whose code is at hand, as in a notebook."""
    linecache.cache[code] = len(code), None, code.splitlines(keepends=True), code
    names = {"__name__": "__main__"}
    exec(
        compile("import torch\nfrom torch.nn.functional import softmax as other\n", "", "exec"),
        names,
    )
    exec(compile(code, code, "exec"), names)
    return names[name]


RULED_OUT = {
    "def softmax(x):\n    return x.softmax(-1)": "uses torch's softmax",
    "def softmax(x):\n    return other(x, -1)": "uses torch's softmax",
    "def softmax(x):\n    return torch.nn.Softmax(-1)(x)": "uses torch's softmax",
    "def part(x):\n    return x.logsumexp(-1, True)\n"
    "def softmax(x):\n    return (x - part(x)).exp()": "uses torch's logsumexp",
    "def reverse(x):\n    return x.flip(0)": "does not use `attend`",
    "def attend(q, k, v):\n    return (q @ k.mT * 99).softmax(-1) @ v, 0\n"
    "def reverse(x):\n    e = torch.eye(len(x))\n"
    "    return attend(e, e, x.flip(0))[0]": "calls x.flip",
}


@pytest.mark.parametrize("code", RULED_OUT)
def test_what_a_question_rules_out_is_told(code):
    name = "softmax" if "def softmax" in code else "reverse"
    said = sentence(name, noted(code, name))
    assert said.startswith("right: ") and RULED_OUT[code] in said
    assert said.endswith("whoever grades decides about the points.")


def test_what_is_the_student_s_own_is_not_ruled_out():
    code = """
def exp(x):
    return (x - x.amax(-1, keepdim=True)).exp()
def softmax(x):
    if x.dim() > 2:
        return torch.stack([softmax(part) for part in x])
    return exp(x) / exp(x).sum(-1, keepdim=True)
"""
    assert sentence("softmax", noted(code, "softmax")) == "right: all 4 cases pass."


# Lab 9's runs are trained again weekly: they take as long as all others together.
LABS = pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.weekly] * (n == 9)) for n in CORPORA]
)


@pytest.mark.slow
@LABS
def test_stored_probes_are_those_of_the_lab(number, of):
    """With all its choices. After a change in its file: attnlabs probes 3"""
    lab = of(number).lab
    path = FOLDER / f"lab{number:02}.probes.gz"
    stored = json.loads(gzip.decompress(path.read_bytes()))
    assert stored["lab"] == number
    assert stored["choices"] == {choice: list(options) for choice, options in lab.choices.items()}
    assert set(stored["questions"]) == set(lab.compared)
    for name, question in lab.compared.items():
        kept, fresh = stored["questions"][name], packed(name, question, lab.choices)
        names = [[case["name"] for case in one["cases"]] for one in (kept, fresh)]
        assert names[0] == names[1] and kept["choices"] == fresh["choices"]
        assert set(kept["sheets"]) == set(fresh["sheets"])
        for way, one in kept["sheets"].items():
            alike_sheets(one, fresh["sheets"][way])


def alike_sheets(one, other):
    assert one["mistakes"] == other["mistakes"] and one["shapes"] == other["shapes"]
    assert all(map(alike, one["right"], other["right"]))
    assert [names for names, _ in one["known"]] == [list(names) for names, _ in other["known"]]
    for (_, known), (_, fresh) in zip(one["known"], other["known"], strict=True):
        assert all(map(alike, known, fresh))


@pytest.mark.weekly
@LABS
def test_fingerprints_hold_fewer_numbers_than_an_answer(number, of):
    lab = of(number).lab
    for name, question in lab.compared.items():
        known = sheets()[name]
        assert "answers" not in packed(name, question, {})["sheets"][""] and known.answers == []
        for shapes, print_ in zip(known.shapes, known.right, strict=True):
            assert len(print_) - 1 < sum(torch.Size(shape).numel() for shape in shapes) / 2


def test_a_library_is_loaded_whole_however_long_it_takes(tmp_path, monkeypatch):
    """Half of one would stay in the notebook, and every later cell would fail."""
    (tmp_path / "heavy.py").write_text("import time\ntime.sleep(1)\nwhole = True\n")
    monkeypatch.syspath_prepend(tmp_path)

    def softmax(x):
        import heavy

        assert heavy.whole
        return x.softmax(-1)

    assert sentence("softmax", softmax).startswith("right")
