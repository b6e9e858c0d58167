"""Whatever is handed in gets a row, and nobody else's row changes."""

import itertools
import json
import os

import pytest
from corpora import CORPORA
from hostile import DEF, TRIES, broken

from attnlabs.grading import sandbox

pytestmark = pytest.mark.slow

RIGHT = {"scores": "def scores(q, k):\n    return q @ k.mT / q.shape[-1] ** 0.5"}
WRONG = {"scores": "def scores(q, k):\n    return q @ k.mT"}
PATCHES = {
    "allclose": "torch.allclose = np.allclose = lambda *a, **k: True",
    "equal": "torch.Tensor.__eq__ = lambda *a: True; torch.equal = lambda *a: True",
    "safetensors": "import safetensors.torch; safetensors.torch.save = lambda *a: b'right'",
    "json": "import json; json.dumps = lambda *a, **k: '{\"notes\": []}'",
    "forged": 'import json; json.dumps = lambda *a, **k: \'{"notes": 5, "used": 7}\'',
    "the grader's own": "import attnlabs.inside.answer as w; w.reply = lambda *a, **k: b'{}'",
    "check": "def check(*a): raise SystemExit",
    "exit": "import atexit, os; atexit.register(os._exit, 7)",
}
OFTEN = ["endless", "forks", "os._exit", "network", "subclass", "kills all", "memory"]
OFTEN += ["reads the grading", "writes to the pipe", "equals everything"]


def points(row):
    return {name: question.points for name, question in row.questions.items()}


def tries(names):
    return [pytest.param(n, marks=[pytest.mark.weekly] * (n not in OFTEN), id=n) for n in names]


@pytest.mark.parametrize("name", tries(TRIES))
def test_a_hostile_function_costs_its_own_question_only(name, grade, hand_in):
    apart = sandbox.walls() or (os.getuid() == 0 and sandbox.open_to_all())  # or as another user
    if name in ("stops its parent", "kills all") and not apart:
        pytest.skip("without bwrap it would run as we do, and end all that runs here")
    other = {"causal_mask": "def causal_mask(a, b):\n    return torch.ones(a, b).tril(b - a) > 0"}
    row = grade(hand_in({"scores": DEF + TRIES[name]} | other))
    assert row.questions["scores"].points == 0
    assert row.questions["scores"].text
    if name not in ("stops its parent", "kills all"):  # these may take their own sandbox along
        assert row.questions["causal_mask"].points == 2


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=[pytest.mark.weekly] * (n != 10)) for n in CORPORA],
)
def test_every_question_of_every_lab_meets_something_hostile(number, of):
    """All questions but one; the right answer to that one keeps its points."""
    course, corpus = of(number), CORPORA[number]
    asked = {one.name: one.points for one in course.lab.asked if one.code}
    good = next(name for name in reversed(asked) if name not in corpus.CONTEXT)
    tries = sorted(set(TRIES) - {"stops its parent", "kills all", "sleeps"})
    chosen = itertools.islice(itertools.cycle(tries), 5 * number, None)
    start = "def {}(*given, **named):\n    q = k = given[0]\n    "
    answers = {name: start.format(name) + TRIES[next(chosen)] for name in asked}
    answers[good] = corpus.RIGHT[good][0]
    row = course.grade(course.hand_in(answers, corpus.BEFORE))
    found = points(row)
    assert {name: found[name] for name in asked} == {n: asked[n] * (n == good) for n in asked}
    assert all(row.questions[name].text for name in asked)


@pytest.mark.parametrize("name", ["allclose", *tries(list(PATCHES)[1:])])
def test_patches_change_nothing(name, grade, hand_in):
    before = f"import numpy as np\n{PATCHES[name]}\n"
    assert points(grade(hand_in(WRONG, before)))["scores"] == 0


def test_nothing_but_tmp_can_be_written_and_nobody_looked_into(walls, grader, box, hand_in):
    """A folder in memory without a limit would be the whole machine's memory."""
    code = """
    def scores(q, k):
        mounts = [line.split() for line in open("/proc/self/mounts")]
        free = [m[1] for m in mounts if m[2] == "tmpfs" and m[3].startswith("rw")]
        first = open("/proc/1/cmdline").read().split("\\0")
        raise ValueError(f"{free} {'child.main()' in first[3]} {os.listdir('/box')}")
    """
    if walls:
        raw = hand_in({"scores": code}, "import os")
        reply = sandbox.run(grader.job, grader.arguments, raw, box, walls)["scores"]
        ours = ["attnbook", "attnlabs", "bookkit"]  # empty, but for what runs beside an answer
        assert reply.lines("notes")[0].endswith(f": ['/tmp'] True {ours}")


def test_forged_frames_are_read_once_and_as_text():
    """Half characters can be written in JSON; in a page of the whole class they could not. Read
    again from the start for each of 200,000 lines, the test would meet its own limit."""
    line = b'{"name": "a", "status": "ok", "seconds": 1, "bytes": %d}\n'
    assert list(sandbox.replies(line % 0 * 200_000)) == ["a"]
    half = b'{"notes": ["\\ud800", ["<b>"]]}'
    reply = sandbox.replies(line % len(half) + half)["a"]
    assert "".join(reply.lines("notes")).encode() == b"?['<b>']"
    assert sandbox.replies(line % -1 + half)["a"].note
    for deep in (b"[" * 90_000, b'{"a":' * 990 + b"1" + b"}" * 990):
        str(sandbox.replies(line % len(deep) + deep)["a"].note)


@pytest.mark.parametrize("name", broken())
def test_a_file_that_is_no_notebook_gets_a_row(name, judge):
    row = judge(broken()[name])
    assert row.status in ("empty", "not a notebook")
    assert row.reason and sum(p or 0 for p in points(row).values()) == 0


def changed(raw, change):
    notebook = json.loads(raw)
    change(notebook)
    return json.dumps(notebook).encode()


def stripped(notebook):
    notebook["metadata"] = {}
    for cell in notebook["cells"]:
        cell.pop("id", None)
        cell["metadata"] = {}


def doubled(notebook):
    notebook["cells"] = [cell for one in notebook["cells"] for cell in (one, one)]


def stub_again(notebook):
    stub = {"cell_type": "code", "source": "def scores(q, k):\n    ...", "metadata": {}}
    notebook["cells"].append(stub)


def deleted(notebook):
    words = "import torch", "def scores"
    cells = [c for c in notebook["cells"] if any(w in "".join(c["source"]) for w in words)]
    notebook["cells"] = cells


def reversed_(notebook):
    notebook["cells"].reverse()


def huge(notebook):
    cell = {"cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": ["a" * 15_000_000]}
    notebook["cells"].append(cell)


def many(notebook):
    cell = {"cell_type": "code", "source": "x = 1\n" * 20, "metadata": {}, "outputs": []}
    notebook["cells"] += [cell] * 400


def magics(notebook):
    lines = ["%%bash\nrm -rf /", "!ls\n%timeit 3", "while True: pass", "1 +", "x = y?"]
    cells = [{"cell_type": "code", "source": line, "metadata": {}} for line in lines]
    notebook["cells"] = [*cells[:3], *notebook["cells"], *cells[3:]]


FORMS = [stripped, doubled, stub_again, deleted, reversed_, huge, many, magics]


@pytest.mark.parametrize("change", FORMS, ids=lambda f: f.__name__)
def test_right_work_in_a_damaged_notebook_keeps_its_points(change, judge, hand_in):
    assert points(judge(changed(hand_in(RIGHT), change)))["scores"] == 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_odd_encodings_are_read(encoding, judge, hand_in):
    raw = hand_in(RIGHT).decode().encode(encoding)
    assert points(judge(raw))["scores"] == 2


def test_banned_shortcuts_are_flagged_and_not_zeroed(judge, hand_in):
    code = """
    from torch.nn import functional as anything
    def softmax(x):
        return getattr(anything, "soft" + "max")(x, -1)
    """
    row = judge(hand_in({"softmax": code, "reverse": "def reverse(x):\n    return x.flip(0)"}))
    assert (points(row)["softmax"], points(row)["reverse"]) == (3, 2)
    assert row.status == "review"
    assert row.review[:2] == ["softmax: uses torch's softmax", "softmax: uses getattr; what for?"]
    assert row.review[2] == "reverse: without attend"
    assert "uses torch's softmax, which is ruled out" in row.questions["softmax"].text
    assert "does not use `attend`" in row.questions["reverse"].text


def test_a_sequence_that_is_turned_round_before_attend_is_flagged(judge, hand_in):
    """Which may turn its queries or keys round."""
    other = {"attend": "def attend(q, k, v):\n    return (q @ k.mT).softmax(-1) @ v, None"}
    code = "def reverse(x):\n    at = 99 * torch.eye(len(x))\n    return attend(at, {}, {})[0]"
    by_keys = judge(hand_in({"reverse": code.format("at.flip(0)", "x"), **other}))
    by_hand = judge(hand_in({"reverse": code.format("at", "x.flip(0)"), **other}))
    assert points(by_keys)["reverse"] == points(by_hand)["reverse"] == 2
    assert by_keys.review == [] and by_hand.review == ["reverse: calls x.flip"]
