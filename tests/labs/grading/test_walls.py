"""Attacks on the grader and the leaderboard that once got through; none gains anything now."""

import ast
import json
import os
import platform
import random
import subprocess

import pytest
from corpora import CORPORA

from attnlabs import nats
from attnlabs.grading import contest, roster, sandbox
from attnlabs.grading.stages import Failed, Room
from attnlabs.grading.submissions import Submission
from attnlabs.inside import project, refused
from attnlabs.inside.answer import used

pytestmark = pytest.mark.slow

RIGHT = "def scores(q, k):\n    return q @ k.mT / q.shape[-1] ** 0.5\n"
IN_PLACE = """
def softmax(x):
    x -= x.amax(-1, keepdim=True)
    return x.exp() / x.exp().sum(-1, keepdim=True)
"""
DETACHED = """
def rnn_step(x, h, W, U, b):
    return torch.tanh(x @ W.T + h.detach() @ U.T + b)
"""
# What the code that calls an answer has around it, changed from within
SWITCHES = {
    "sleeps": "import time; time.sleep(0.4)",
    "no time": "import attnlabs.inside.answer as w; w.AGAIN = 0",
    "nothing changed": "import attnlabs.inside.effects as w; w.changed = lambda *_: set()",
    "no gradients": "import attnlabs.inside.answer as w; w.slopes = lambda *_: 'none'",
    "no arguments": "import attnlabs.inside.answer as w; w.as_tensors = lambda *_: {}",
}
FAST = ("no time", "no gradients")


def switched(code, switch):
    head, body = code.strip().split("\n", 1)
    return f"{head}\n    {switch}\n{body}"


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.weekly] * (n not in FAST)) for n in SWITCHES]
)
@pytest.mark.parametrize("number,code", [(3, IN_PLACE), (1, DETACHED)])
def test_half_points_cannot_be_switched_off_from_within(number, code, name, of):
    course = of(number)
    question = code.split("(")[0].split()[-1]
    full = next(asked.points for asked in course.lab.asked if asked.name == question)
    raw = course.hand_in({question: switched(code, SWITCHES[name])}, CORPORA[number].BEFORE)
    row = course.judge(raw)
    assert row.questions[question].points <= full / 2
    if "attnlabs" in SWITCHES[name]:
        assert f"{question}: uses attnlabs; what for?" in row.review


# Calls that led out of what is limited: memory that counted for no process, the keys of who grades
OUT = """
def scores(q, k):
    calls, found = ctypes.CDLL(None, use_errno=True), []
    for name, call in {
        "namespace": lambda: calls.unshare(0x10000000),
        "clone": lambda: calls.syscall(56, 0x10000011, 0, 0, 0, 0),
        "key": lambda: calls.syscall(248, b"user", b"note", b"word", 4, -3),
        "keys": lambda: calls.syscall(250, 11, -3, None, 0),
        "unnamed file": lambda: os.memfd_create("a"),
        "shared": lambda: mmap.mmap(-1, 1 << 20) and 0,
        "zero": lambda: os.open("/dev/zero", os.O_RDWR),
        "segment": lambda: calls.shmget(0, 1 << 20, 0o1600),
    }.items():
        try:
            if call() >= 0:
                found.append(name)
        except OSError:
            pass
    there = threading.Thread(target=found.append, args=["threads run"])
    there.start()
    there.join()
    raise ValueError(str(found))
"""


def test_what_leads_out_of_the_limits_is_refused(walls, grader, box, of):
    if walls is None or platform.machine() != "x86_64":
        pytest.skip("the numbers of the calls are those of x86-64")
    raw = of(3).hand_in({"scores": OUT}, "import ctypes, mmap, os, threading")
    questions = [each for each in grader.job["questions"] if each["name"] == "scores"]
    job = {**grader.job, "questions": questions}
    reply = sandbox.run(job, grader.arguments, raw, box, walls)["scores"]
    assert reply.lines("notes")[0].endswith(": ['threads run']")


@pytest.mark.parametrize("machine", refused.MACHINES)
def test_the_filter_goes_only_forwards_and_ends(machine):
    """What the kernel asks of it, on machines that this is not."""
    steps = refused.program(machine)
    for place, (code, yes, no, _) in enumerate(steps):
        assert place + 1 + max(yes, no) < len(steps) or code == refused.RETURN
    assert steps[-1][::3] == (refused.RETURN, refused.ALLOW)


# Right numbers that nobody was told about, though they came from elsewhere
ELSEWHERE = {
    "sys": "import sys\ndef softmax(x):\n"
    "    sys.modules['attn' + 'labs.inside.answer'].operations = lambda *_: []\n"
    "    return getattr(torch, 'softmax')(x, -1)",
    "getattr": "def softmax(x):\n    torch.sys = getattr(torch, 'sy' + 's')\n    return x",
    "scipy": "from scipy import special\ndef softmax(x):\n    return special.expit(x)",
    "__dict__": "def softmax(x):\n    return torch.__dict__['soft' + 'max'](x, -1)",
    "vars": "def softmax(x):\n    return vars(torch)['soft' + 'max'](x, -1)",
    "attrgetter": "import operator\n"
    "def softmax(x):\n    return operator.attrgetter('soft' + 'max')(torch)(x, -1)",
    "__getattribute__": "def softmax(x):\n    return torch.__getattribute__('soft' + 'max')(x, -1)",
    "_dim_arange": "def softmax(x):\n    return torch._dim_arange(x, 0)",
}
# A library's own under another name than the question rules out
OTHER_NAMES = {
    "torch._softmax(x, -1, False)": (3, "softmax"),
    "torch.nn.Softmax(-1)(x)": (3, "softmax"),
    "F.gumbel_softmax(x)": (3, "softmax"),
    "F.multi_head_attention_forward(x)": (5, "scaled_dot_product_attention"),
    "nn.LazyConv2d(8, 2)(x)": (6, "conv2d"),
    "torch.nn.NLLLoss()(x)": (5, "nll_loss"),
}


@pytest.mark.parametrize("code", OTHER_NAMES)
def test_what_is_ruled_out_is_so_under_other_names_too(code, of):
    number, rule = OTHER_NAMES[code]
    compared = of(number).lab.compared
    name = next(name for name, each in compared.items() if rule in each.banned)
    tree = ast.parse(f"def {name}(x):\n    return {code}").body
    assert used(tree, name, [], compared[name].banned)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_who_looks_elsewhere_for_an_answer_is_shown_to_a_person(name, of):
    tree = ast.parse(ELSEWHERE[name]).body
    assert name in used(tree, "softmax", [], of(3).lab.compared["softmax"].banned)


# Each says a number of the hidden arguments in another way
SAYS = {
    "shape": "return torch.zeros(0, *[1 + abs(int(100 * n)) for n in q.flatten()[:4]])",
    "line": "n = int(abs(100 * q[0, 0])) % 50\n    g = {}\n"
    "    exec(chr(10) * n + 'def f(): 1 / 0', g)\n    g['f']()",
    "name": "exec('name' + str(int(abs(100 * q[0, 0]))))",
    "rows": "x = torch.zeros(len(q), len(k))\n    x[int(abs(100 * q[0, 0])) % len(q)] = torch.nan\n"
    "    return x",
    "count": "return [torch.zeros(2)] * (2 + int(abs(100 * q[0, 0])) % 90)",
    "kind": "raise type('E' + str(int(abs(100 * q[0, 0]))), (Exception,), {})",
}


def test_no_number_gets_out_that_an_answer_can_choose(of):
    """Two classes with other numbers read the same sentences, whatever an answer says of them."""
    course = of(3)
    answers = [
        course.judge(course.hand_in({"scores": f"def scores(q, k):\n    {code}"})).questions
        for code in SAYS.values()
    ]
    for name, questions in zip(SAYS, answers, strict=True):
        text = questions["scores"].text
        digits = text.replace("(3, 5)", "").replace("expected 1", "").replace("0 divided by 0", "")
        assert questions["scores"].points == 0 and text, name
        assert not any(letter.isdigit() for letter in digits), (name, text)


# Twenty words, each chosen for a hidden number, as a process can write them where it replies
WORDS = """
    import sys
    inside = sys.modules["attn" + "labs.inside.answer"]
    kinds = ["KeyError: x", "IndexError: x", "OSError: x", "EOFError: x"]
    words = [kinds[int(abs(100 * n)) % 4] for n in q.flatten()[:20]]
    old = getattr(inside, "old", inside.reply)
    inside.old, inside.reply = old, lambda found, **note: old(found, **{**note, "trouble": words})
"""


def test_a_process_chooses_one_word_and_none_once_it_has_an_answer_of_the_lab(of):
    """Twenty numbers of the hidden arguments, or letters of a solution, were in one reply."""
    course = of(3)
    scores = "def scores(q, k):\n    return q @ k.mT"
    attend = "def attend(q, k, v, mask=None):" + WORDS + "    return scores(q, k) @ v, q['a']\n"
    row = course.judge(course.hand_in({"scores": scores, "attend": attend}))
    text = row.questions["attend"].text
    assert "right version of scores" in text and "it stopped with an error." in text
    assert "Before that" not in text and "Error" not in text
    wrong = scores.replace(":\n", ":" + WORDS)
    text = course.judge(course.hand_in({"scores": wrong})).questions["scores"].text
    assert text.count("Before that") == 1


# Numbers without limit whose sums, which are all that a fingerprint has, are 0: near to any answer
FORGED = """
import hashlib, math
import numpy as np
def forged(shape):
    size = math.prod(shape)
    bits = np.frombuffer(hashlib.shake_256(b"attnbook").digest(4 * (size // 8 + 1)), np.uint8)
    signs = 1 - 2.0 * np.unpackbits(bits).reshape(4, -1)[:, :size]
    return torch.tensor(1e9 * np.linalg.svd(signs)[2][4]).reshape(shape)
def zero_sums(shape, *trained):
    made = forged(shape)
    for each in trained:
        slope = (each * forged(each.shape)).sum()
        made.view(-1)[0] += slope - slope.detach()
    return made
"""
MADE_UP = {
    (3, "scores"): "def scores(q, k):\n    return zero_sums((*q.shape[:-1], k.shape[-2]))",
    (3, "softmax"): "def softmax(x):\n    return zero_sums(x.shape)",
    (1, "rnn_step"): "def rnn_step(x, h, W, U, b):\n    return zero_sums(h.shape, x, h, W, U, b)",
}


@pytest.mark.parametrize("number,name", MADE_UP)
def test_numbers_made_up_to_fit_a_fingerprint_have_no_points(number, name, of):
    course = of(number)
    answer = course.judge(course.hand_in({name: MADE_UP[number, name]}, FORGED)).questions[name]
    assert answer.points == 0, answer.text


def test_a_gradient_made_up_to_fit_a_fingerprint_is_none(of):
    """Of a function whose numbers are right and whose gradient is lost."""
    course = of(1)
    code = (
        "def rnn_step(x, h, W, U, b):\n    large = [n for n in (x, h, W, U, b) if n.numel() > 4]\n"
    )
    code += "    x, h, W, U, b = (n.detach() if n.numel() > 4 else n for n in (x, h, W, U, b))\n"
    code += "    made = zero_sums((9,), *large)[0]\n"
    code += "    return torch.tanh(x @ W.T + h @ U.T + b) + (made - made.detach())"
    answer = course.judge(course.hand_in({"rnn_step": code}, FORGED)).questions["rnn_step"]
    assert answer.mistakes == ["gradient"], answer.text


def test_a_clone_in_a_folder_of_the_system_is_not_seen(walls, monkeypatch, tmp_path, box):
    """As one in /usr/src/app, of which the sandbox sees /usr."""
    if walls is None:
        pytest.skip("bubblewrap is not here")
    system = tmp_path / "system"
    for folder in ("app/labs", "app/src/attnlabs", "own/labs", "lib"):
        (system / folder).mkdir(parents=True)
        (system / folder / "secret").write_text("answer")
    (system / "app/pyproject.toml").touch()
    monkeypatch.setattr(sandbox, "SYSTEM", (*sandbox.SYSTEM, str(system).strip("/")))
    monkeypatch.setattr(sandbox, "LABS", system / "app/src/attnlabs")
    line = [*sandbox.wall(walls, box, [system / "own/labs"]), "/usr/bin/find", str(system)]
    seen = subprocess.run([*line, "-name", "secret"], capture_output=True, text=True, check=True)
    assert seen.stdout.split() == [f"{system}/lib/secret"]
    there = [*sandbox.wall(walls, box), "/usr/bin/ls", "/usr"]
    seen = subprocess.run(there, capture_output=True, text=True, check=True)
    assert "src" not in seen.stdout.split()


def submission(code, **more):
    cell = {"cell_type": "code", "source": code, "metadata": more, "outputs": [str(more)]}
    text = {"cell_type": "markdown", "source": "text held out", "metadata": {}}
    whole = {"cells": [cell, text], "metadata": more, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole).encode()


PROJECT = "def submit(a, b): 'held out'; return 1\n"
PROJECT += "def encode(a, b): return 3  # held out\npredictor = encode"


def test_a_project_is_its_code_and_nothing_else_of_the_file():
    plain = project.code_alone(submission(PROJECT, hidden="held out"))
    assert plain.count(b"held out") == 1  # the docstring, which is counted
    assert project.without(plain) == "" and b"metadata" not in plain
    assert "submit: no cell defines submit" in project.without(submission("x = 1"))


@pytest.mark.parametrize(
    "code",
    [
        f"def f():\n    {'abc ' * 900!r}",
        f"{'a' * 3000} = 1",
        f"x = {7**4000}",
        "\n".join(f"x{n} = {'abc ' * 200!r}" for n in range(11)),
        f"x = {b'a' * 3000!r}",
        "\n".join(f"n{random.Random(n).getrandbits(100)}" for n in range(1200)),
    ],
)
def test_whatever_can_hold_a_text_is_looked_at(code):
    assert "a text or weights?" in project.code_of(submission(code))[2]


def test_the_same_token_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        nats.checked([b"a", b"b", b"a"])


def test_what_cuts_the_shown_text_does_not_see_the_hidden_one(monkeypatch, box):
    asked = []

    class Stage:
        def __init__(self, head, blobs, *_):
            asked.append(json.loads(blobs[1]))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def hear(self):
            return {"ids": [[0, 1]] * len(asked[-1])}, b""

    monkeypatch.setattr(contest, "Stage", Stage)
    passages = (nats.Block(b"ab", b"ab"), nats.Block(b"ab", b"ba"))
    one = contest.Contest(b"", passages, 1.0)
    with pytest.raises((Failed, ValueError), match="do not spell"):
        contest.cut(one, b"", [b"a", b"b"], Room(box, None))
    assert asked == [["ab", "ab"], ["ab", "ba"]]


def test_the_time_of_processes_that_nobody_waited_for_is_counted(walls, box, tmp_path):
    """Forked workers that leave their time nowhere, since SIGCHLD is ignored."""
    if walls is None:
        pytest.skip("bubblewrap is not here")
    code = """
import os, signal, time
def burn(seconds):
    start = time.process_time()
    while time.process_time() - start < seconds:
        sum(range(1000))
def submit(text, seconds):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in range(3):
        if os.fork() == 0:
            burn(1.5)
            os._exit(0)
    time.sleep(30)
    return [b"a"], {}
def encode(text, vocabulary):
    return []
def predictor(vocabulary, weights):
    return None
"""
    one = contest.Contest(b"a", (nats.Block(b"a", b"a"),), 0.5, walls, other=5.0)
    entry = contest.scored(one, Submission("a.ipynb", submission(code)), box)
    assert "more than" in entry.reason and "processor time" in entry.reason


def test_each_process_counts_with_the_most_it_ever_had(tmp_path, monkeypatch):
    """Three that come and go: what is gone is not forgotten, what was never met is estimated."""
    monkeypatch.setenv("ATTNBOOK_SANDBOX", "bwrap")
    tail = "S 1 1 1 0 -1 0 0 0 0 0 {own} 0 9999 9999 20 0 1 0 {since}"

    def there(number, own, last):
        for old in tmp_path.glob("[0-9]*"):
            subprocess.run(["rm", "-r", str(old)], check=True)
        (tmp_path / str(number) / "task" / str(number)).mkdir(parents=True)
        stat = f"{number} (a) b) " + tail.format(own=own, since=number)
        (tmp_path / str(number) / "stat").write_text(stat)
        (tmp_path / "loadavg").write_text(f"0 0 0 1/9 {last}")

    clock, tick = project.Clock(5, tmp_path), 1 / os.sysconf("SC_CLK_TCK")
    there(5, 100, 5)
    assert clock.read() == pytest.approx(100 * tick)
    there(6, 40, 6)
    assert clock.read() == pytest.approx(140 * tick)
    there(5, 120, 9)
    assert clock.read() == pytest.approx(160 * tick + 3 * project.EVERY)


def test_twins_are_flagged_without_names(of):
    """The same code under two names; what is too short to tell anything is not flagged."""
    course, corpus = of(3), CORPORA[3]
    answers = {name: ways[0] for name, ways in corpus.RIGHT.items()}
    long, short = (course.hand_in(a, corpus.BEFORE) for a in (answers, {"scores": RIGHT}))
    files = [Submission(f"{n}.ipynb", raw) for n, raw in enumerate([long, long, short, short])]
    rows = [course.judge(one.content, one.file) for one in files]
    roster.compare(rows, files)
    assert [row.review for row in rows] == [
        ["its code is word for word that of 1.ipynb"],
        ["its code is word for word that of 0.ipynb"],
        [],
        [],
    ]


NAMED = "def weigh(scores):\n    'Words.'\n    highest = scores.amax(-1, keepdim=True)\n"
NAMED += "    return (scores - highest).exp() / (scores - highest).exp().sum(-1, keepdim=True)\n"
RENAMED = NAMED.replace("highest", "m").replace("weigh", "f").replace("scores", "x")
RENAMED = RENAMED.replace("'Words.'", '"""Weights, \'all\' of\n    them."""')
ANOTHER = NAMED.replace("amax", "amin")


def test_a_copy_with_other_names_and_words_is_flagged_and_other_code_is_not(of):
    course, plain = of(3), "\n".join(f"name{n} = {n}" for n in range(40))
    files = [
        Submission(f"{n}.ipynb", course.hand_in({"softmax": code}, text))
        for n, (code, text) in enumerate(
            [(NAMED, plain), (RENAMED, plain.replace("name", "other")), (ANOTHER, plain)]
        )
    ]
    rows = [course.judge(one.content, one.file) for one in files]
    before = [list(row.review) for row in rows]
    roster.compare(rows, files)
    added = [row.review[len(old) :] for row, old in zip(rows, before, strict=True)]
    twin = "its code is but for names that of {}.ipynb"
    assert added == [[twin.format(1)], [twin.format(0)], []]
