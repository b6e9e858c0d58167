"""Lab 8's parts, tried by grading and by the student's check: a mistake loses points by name."""

import json
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnlabs import errors, parts, project, source
from attnlabs.grading import board, report
from attnlabs.grading.row import Answer, Row
from attnlabs.grading.submissions import Submission
from attnlabs.inside import cells
from attnlabs.inside import parts as inside
from attnlabs.inside.answer import executed
from attnlabs.inside.fingerprints import outcome

NAMES = ("train_bpe", "encode", "decode", "tiny", "AdamW", "train", "save", "load", "sample")
APART = set(parts.ASKS) - {"checkpoint"}  # that one leaves this process


@pytest.fixture(scope="module")
def lab(root):
    return source.find(8, root / "labs")


@pytest.fixture(scope="module")
def text(lab):
    """The code of the lab with its solutions."""
    return "\n".join(cell.source for cell in lab.notebook.cells if cell.cell_type == "code")


def own(text):
    """What the code defines of a project."""
    tree, _ = cells.statements([("code", re.sub(r"^\s*%.*$", "    pass", text, flags=re.M))])
    wanted = {id(part) for name in NAMES for part in cells.needed(tree, name)}
    names, trouble = executed([part for part in tree if id(part) in wanted], set(NAMES), {})
    assert not trouble
    return names


def said(kind, names, seed=7):
    ask = json.loads(json.dumps(parts.ASKS[kind](seed)))
    found = {}
    for case, call in inside.CASES[kind](names, ask).items():
        result = outcome(call, ())
        found[case] = errors.quoted(result) if isinstance(result, str) else result
    return parts.judged(kind, ask, found)


@pytest.mark.parametrize("seed", range(4))
def test_the_solutions_hold_whatever_is_drawn(text, seed):
    names = own(text)
    for kind in APART:
        one = said(kind, names, seed)
        assert (one.share, one.lines) == (1, []), kind


# A part, what is replaced in the solution, and the mistake that it makes
PROBABILITIES = "self.head(self.norm(self.blocks(x))).softmax(-1)"
INSIDE = "(square / (1 - second**self.steps) + self.eps).sqrt()"
SLIPS = [
    ("tokenizer", "words[word]", "1", "each-once"),
    ("tokenizer", "key=lambda pair: (pairs[pair], pair)", "key=pairs.get", "first-seen"),
    ("tokenizer", "for word in PIECES.findall(text):", "for word in [text]:", "across"),
    ("tokenizer", "vocabulary[number] for", "vocabulary[number][:1] for", "lossy"),
    ("model", "self.head(self.norm(self.blocks(x)))", PROBABILITIES, "softmax"),
    ("model", "is_causal=True", "is_causal=False", "future"),
    ("model", "seen.transpose(1, 2).reshape", "v.transpose(1, 2).reshape", "alone"),
    ("model", "std=0.02", "std=2.0", "sure"),
    ("optimiser", "if each.grad is not None:", "if True:", "without-gradient"),
    ("optimiser", "1 - self.lr * self.weight_decay", "1 - self.weight_decay", "decay-without-rate"),
    ("optimiser", "each.mul_(1 - self.lr * self.weight_decay)", "pass", "no-decay"),
    ("optimiser", "-self.lr / (1 - first**self.steps)", "-self.lr", "first-uncorrected"),
    ("optimiser", "(square / (1 - second**self.steps)).sqrt() + self.eps", INSIDE, "eps-inside"),
    ("optimiser", ".sqrt() + self.eps", ".sqrt()", "no-eps"),
    ("optimiser", "first, second = self.betas", "second, first = self.betas", "betas-exchanged"),
    ("loop", "each.grad = None", "pass", "piled"),
    ("loop", "optimiser.lr = lr", "pass", "rate"),
    ("loop", "lr = rate(step)", "lr = rate(max(step - 1, first))", "rate"),
    ("loop", "model(inputs).flatten(0, 1)", "model(inputs).flatten(0, 1).softmax(-1)", "softmax"),
    ("loop", "        optimiser.step()\n", "", "no-step"),
    ("loop", "losses.append(loss.item())", "losses.append(0.1)", "losses"),
    ("loop", "        if lr is None:\n            break\n", "        lr = lr or 0.0\n", "end"),
    ("sampling", "/ temperature", "/ 1.0", "warm"),
    ("sampling", ", generator=dice", "", "dice"),
    ("sampling", "ids[:, -T:]", "ids", "stopped"),
]
IN_THE_NOTEBOOK = {"piled", "rate", "softmax", "without-gradient", "across"}


@pytest.mark.parametrize("kind,old,new,mistake", SLIPS)
def test_a_slip_loses_points_by_name(text, kind, old, new, mistake):
    assert old in text
    names = own(text.replace(old, new))
    one = said(kind, names)
    assert one.share < 1
    assert mistake in one.mistakes or (mistake == "warm" and "cold" in one.mistakes), one
    if mistake in IN_THE_NOTEBOOK:
        assert not checked(kind, names).startswith("right")


def checked(kind, names):
    """What the check in the notebook says."""
    bpe = (names["train_bpe"], names["encode"], names["decode"])
    if kind == "tokenizer":
        return project.tokens(*bpe, b"The cat sat on the mat with the other cats. " * 600)
    if kind == "model":
        return project.model(names["tiny"], 50, 16)
    if kind == "optimiser":
        return project.adamw(names["AdamW"])
    return project.overfits(names["tiny"], names["AdamW"], names["train"], 50, 16)


def test_another_optimiser_and_another_bound_are_not_wrong(text):
    """Question 4 asks for a loop, not for that one: a bound of its own, other steps."""
    names = own(text.replace("(model.parameters(), 1.0)", "(model.parameters(), 0.1)"))
    assert said("loop", names).share == 1

    class Sign(torch.optim.Optimizer):
        def __init__(self, parameters, lr, betas=(0.9, 0.95), eps=0.0, weight_decay=0.1):
            super().__init__(parameters, {})
            self.lr = lr

        @torch.no_grad()
        def step(self):
            for each in self.param_groups[0]["params"]:
                each -= self.lr * each.grad.sign()

    assert said("loop", {**names, "AdamW": Sign}).share == 1


def test_a_model_that_only_reads_whole_windows_is_told(text):
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(16, 50))

        def forward(self, ids):
            return self.w + F.one_hot(ids, 50)

    one = said("model", {"tiny": Whole})
    assert one.share == 0 and one.lines


def test_what_a_checkpoint_forgets_is_named():
    """By what comes back: step, losses, later losses, first weights, at three, straight, again."""
    whole = [torch.tensor([3.0]), torch.arange(6.0), torch.arange(3.0, 6.0), *torch.eye(4)]
    step, losses, later, first, three, last, _ = (part.double().numpy() for part in whole)
    good = [step, losses, later, first, three, last, last]
    assert parts.resumes(tuple(good)) is None
    for place, other, name in [
        (0, step + 1, "step"),
        (2, later + 1, "dice"),
        (4, first, "not-loaded"),
        (6, three, "optimiser"),
    ]:
        bad = [*good[:place], other, *good[place + 1 :]]
        assert parts.resumes(tuple(bad))[0] == name


PATIENT = {"seconds": 60}  # time enough on a machine that has other work


@pytest.mark.slow
def test_most_points_need_no_reader_and_a_file_that_does_not_parse_is_not_graded(of, lab):
    """Twelve points by what was tried, two by the leaderboard; the rest is read."""
    raw = lab.path.read_bytes()
    by_part = {asked.name: asked.points for asked in lab.asked if asked.code}
    assert sum(by_part.values()) == 14
    broken = json.loads(raw)
    cell = next(c for c in broken["cells"] if "def submit" in "".join(c["source"]))
    cell["source"] = "def submit(text, seconds:\n    return"
    row = of(8).judge(json.dumps(broken).encode(), **PATIENT)
    assert row.status == "review" and any("is not Python" in line for line in row.review)
    assert row.questions["on the leaderboard"].points == 0
    assert row.questions["sampling"].points == 1


@pytest.mark.slow
def test_a_part_that_never_ends_costs_its_own_points_only(of, lab):
    raw = json.loads(lab.path.read_bytes())
    cell = next(c for c in raw["cells"] if "def train(" in "".join(c["source"]))
    cell["source"] = "def train(*given):\n    while True: pass"
    row = of(8).judge(json.dumps(raw).encode(), seconds=4)
    points = {name: row.questions[name].points for name in lab.parts}
    assert points["the loop and its checkpoints"] == 0 and points["sampling"] == 1
    assert "endless loop" in row.questions["the loop and its checkpoints"].text
    assert sum(n or 0 for n in points.values()) == 9


@pytest.mark.slow
def test_the_lab_s_own_project_has_all_points_that_need_no_reader(of, lab):
    row = of(8).grade(lab.path.read_bytes(), **PATIENT)
    assert {n: row.questions[n].text for n in lab.parts if row.questions[n].points == 0} == {}
    assert sum(row.questions[name].points or 0 for name in lab.parts) == 12
    empty = of(8).grade(of(8).hand_in({}), **PATIENT)
    assert sum(empty.questions[name].points or 0 for name in lab.parts) == 0


def test_the_page_of_the_class_has_what_was_said_of_each_part(lab, tmp_path):
    row = Row("a.ipynb", questions={asked.name: Answer(0, "") for asked in lab.asked})
    row.questions["sampling"] = Answer(0, "it samples the likeliest.", ["greedy"])
    row.questions["on the leaderboard"] = Answer(0, "no score on the leaderboard: late")
    report.write(lab, [Submission("a.ipynb", b"")], [row], tmp_path / "lab8.csv")
    page = (tmp_path / "lab8.html").read_text(encoding="utf-8")
    assert "it samples the likeliest." in page and "no score" not in page


def test_the_leaderboard_s_points_come_from_its_table(lab, tmp_path):
    path = tmp_path / "leaderboard.csv"
    lines = [
        "file,team,nats per byte,level,reason",
        "a.ipynb,A,1.9,project,",
        "b.ipynb,B,2.6,project,",
        "c.ipynb,C,,project,late",
    ]
    lines += [",counts of pairs of bytes,2.5,no learning,"]
    path.write_text("\n".join(lines), encoding="utf-8")
    rows = [Row(f"{n}.ipynb", questions={}) for n in "abcd"]
    for row in rows:
        row.questions = {asked.name: Answer(None, board.WAITS) for asked in lab.asked[5:6]}
        row.questions |= {asked.name: Answer(1, "") for asked in lab.asked if asked.number != 6}
    board.credit(lab, rows, path)
    points = [row.questions["on the leaderboard"].points for row in rows]
    assert points == [2, 0, 0, None] and [board.waits(row) for row in rows] == [0, 0, 0, 1]
    path.write_text("file,team,nats per byte,level,reason\n", encoding="utf-8")
    with pytest.raises(ValueError, match="leaderboard's table"):
        board.credit(lab, rows, path)
