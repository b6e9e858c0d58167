"""The leaderboard: honest projects are scored, cheats gain nothing, and each file has its row."""

import csv
import dataclasses
import io
import math
import re

import numpy as np
import pytest
import torch

from attnbook.data import text
from attnlabs import cli, leaderboard, nats, parts, source
from attnlabs.grading import board, contest, stages
from attnlabs.grading.row import Answer, Row
from attnlabs.grading.submissions import Submission
from attnlabs.inside import project

pytestmark = pytest.mark.slow

BYTES = "import torch\nBYTES = [bytes([n]) for n in range(256)]\n"
UNIFORM = (
    BYTES
    + """
def submit(text, seconds):
    return BYTES, {"w": torch.zeros(256)}
def encode(text, vocabulary):
    return list(text)
def predictor(vocabulary, weights):
    return lambda ids: weights["w"].expand(len(ids), 256).log_softmax(-1)
"""
)
HONEST = (
    BYTES
    + """
TEAM = "six bytes"
def made():
    return torch.nn.Sequential(torch.nn.Embedding(256, 16), torch.nn.Flatten(),
        torch.nn.Linear(96, 128), torch.nn.ReLU(), torch.nn.Linear(128, 256))
def submit(text, seconds):
    data = torch.tensor(list(text))
    torch.manual_seed(0)
    model = made()
    step = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for _ in range(400):
        rows = data[torch.randint(len(data) - 6, (256, 1)) + torch.arange(7)]
        loss = torch.nn.functional.cross_entropy(model(rows[:, :6]), rows[:, 6])
        step.zero_grad()
        loss.backward()
        step.step()
    return BYTES, model.state_dict()
def encode(text, vocabulary):
    return list(text)
def predictor(vocabulary, weights):
    model = made()
    model.load_state_dict(weights)
    return lambda ids: model(ids[:, -6:]).log_softmax(-1)
"""
)
# What encodes has the text, and leaves it wherever it may write; what predicts looks there, and
# through all files that it can read.
LEAKS = (
    UNIFORM
    + """
import os
def encode(text, vocabulary):
    for place in ("/tmp/leak", "/box/leak", "/dev/shm/leak"):
        try:
            open(place, "ab").write(text)
        except OSError:
            pass
    return list(text)
def found():
    for folder in ("/tmp", "/box", "/dev/shm", "/home", "/root", "/work", "/mnt", "/srv"):
        for here, _, names in os.walk(folder):
            for name in names:
                try:
                    if b"held-out words" in open(os.path.join(here, name), "rb").read(1 << 20):
                        return True
                except OSError:
                    pass
    return False
def predictor(vocabulary, weights):
    if found():
        raise ValueError("it was there")
    return lambda ids: weights["w"].expand(len(ids), 256).log_softmax(-1)
"""
)
WRONG = {
    "sum to": UNIFORM.replace(".log_softmax(-1)", ""),
    "took more than": UNIFORM.replace("return BYTES, {", "while True: pass\n    return BYTES, {"),
    "killed by signal": UNIFORM.replace(
        "return BYTES, {", "__import__('os').abort()\n    return {"
    ),
    "no cell defines submit": "x = 1",
    "ZeroDivisionError (line 2 of submit)": UNIFORM.replace("return BYTES, {", "1 / 0; return {"),
    "do not spell": UNIFORM.replace("return list(text)", "return list(text)[1:]"),
    "hand in the notebook itself": "{",
}


@pytest.fixture(scope="module")
def small(walls):
    """A contest of seconds; without walls a project may see what it should not."""
    if walls is None:
        pytest.skip("bubblewrap is not here")
    found = text.load("python-docs")
    held_out = (b"held-out words " + found.validation.encode())[:12_000]
    passages = tuple(nats.blocks(held_out, 8, 32, 48, seed=3))
    return contest.Contest(found.train.encode()[:200_000], passages, 3.0, walls, other=20.0)


def handed_in(code, file="one.py"):
    return Submission(file, code.encode())


def test_an_honest_project_is_better_than_the_counts_of_pairs(small, box):
    """It trains for a number of steps, so that a slow machine says the same."""
    patient = dataclasses.replace(small, seconds=120.0)
    entry = contest.scored(patient, handed_in(HONEST), box)
    assert entry.reason == "" and entry.team == "six bytes" and entry.vocabulary == 256
    single, pairs = (small.mean(nats.counted(small.train, small.passages, n))[0] for n in (0, 1))
    assert entry.nats < pairs < single < nats.CHANCE
    assert 0 < entry.cpu < 120


def test_what_predicts_finds_the_text_nowhere(small, box):
    marked = nats.Block(b"held-out words, ", b"which are the held-out words")
    other = contest.Contest(small.train, (marked,), 3.0, small.program, other=20.0)
    entry = contest.scored(other, handed_in(LEAKS), box)
    assert entry.reason == "" and entry.nats == pytest.approx(nats.CHANCE)


FAST = ("sum to", "took more than", "hand in the notebook itself")


@pytest.mark.parametrize(
    "words", [pytest.param(w, marks=[pytest.mark.weekly] * (w not in FAST)) for w in WRONG]
)
def test_whatever_goes_wrong_is_a_row_with_its_reason(words, small, box):
    quick = contest.Contest(small.train[:999], small.passages[:2], 0.2, small.program, other=9.0)
    file = "one.ipynb" if words.startswith("hand in") else "one.py"
    entry = contest.scored(quick, handed_in(WRONG[words], file), box)
    assert entry.nats is None and words in entry.reason


def test_a_token_is_revealed_after_its_prediction_only():
    """The score of a table is what torch computes of it at once."""
    torch.manual_seed(0)
    table = torch.randn(5, 5).log_softmax(-1)
    hidden, asked = [[1, 2, 3, 4], [0, 0]], []

    def ask(ids):
        asked.append(ids.tolist())
        return table[ids[:, -1]].numpy()

    paid = nats.score(ask, [[9, 3], [4]], hidden, 5)
    for row, shown in enumerate((3, 4)):
        whole = torch.tensor([shown, *hidden[row]])
        assert paid[row] == pytest.approx(-float(table[whole[:-1], whole[1:]].sum()), rel=1e-6)
    assert asked[0] == [[3], [4]] and asked[2] == [[3, 1, 2], [4, 0, 0]]


@pytest.mark.parametrize("bad", [0.1, -0.1, math.inf, math.nan])
def test_probabilities_that_do_not_sum_to_one_are_refused(bad):
    found = np.full((2, 4), -math.log(4))
    assert nats.normalised(found, (2, 4)) == pytest.approx(found)
    found[1] += bad
    with pytest.raises(ValueError, match="predictor"):
        nats.normalised(found, (2, 4))


def test_passages_never_touch_and_a_short_text_is_refused():
    whole = bytes(n % 251 for n in range(10_000))
    found = nats.blocks(whole, 20, 30, 50, seed=1)
    assert found == nats.blocks(whole, 20, 30, 50, seed=1) != nats.blocks(whole, 20, 30, 50, 2)
    assert {(len(each.before), len(each.text)) for each in found} == {(30, 50)}
    with pytest.raises(ValueError, match="2,240 are needed"):
        nats.blocks(whole[:2000], 20, 30, 50, seed=1)


def test_a_table_of_counts_is_a_distribution():
    """The probabilities of all 256 bytes after the same context, summed."""
    passages = [nats.Block(b"ab", bytes([n])) for n in range(256)]
    for order in (0, 1, 4):
        paid = nats.counted(b"abcabdabcab", passages, order)
        assert np.exp(-paid).sum() == pytest.approx(1)
    assert nats.counted(b"abcabdabcab", [nats.Block(b"ab", b"c")], 2)[0] < 1


def test_code_is_weighed_and_a_hidden_text_is_looked_at(small, box):
    long = contest.scored(small, handed_in("x = 1\n" * 50_000), box)
    assert "characters of code" in long.reason
    hidden = handed_in(UNIFORM + f"KNOWN = {'abc ' * 900!r}\n")
    raw = contest.formats.for_the_sandbox(hidden.file, hidden.content)
    assert "constants of 3,602" in project.code_of(raw)[2]


def test_a_file_is_read_where_reading_has_limits(small, box, monkeypatch):
    """Two megabytes of `0;` take minutes and gigabytes, which were the grader's own."""
    monkeypatch.setattr(project.cells, "read", None)
    entry = contest.scored(small, handed_in("0;" * 1_000_000), box)
    assert "2,000,000 characters of code are too much" in entry.reason


@pytest.mark.parametrize("said", [b'{"bytes": Infinity}\n', b"[" * (stages.NOTE + 1)])
def test_a_note_that_would_cost_the_grader_is_refused(said):
    stage = stages.Stage.__new__(stages.Stage)
    stage.name, stage.left, stage.deadline = "encode", bytearray(said), 0.0
    with pytest.raises(stages.Failed, match=r"cannot be read|is too much"):
        stage.hear()


def test_tokens_are_counted_before_they_are_put_together():
    """A terabyte, which no machine has."""
    with pytest.raises(ValueError, match="do not spell"):
        nats.spelt([0] * (1 << 20), [b"a" * (1 << 20)], b"aa")


def test_training_where_it_is_to_predict_is_looked_at():
    """A text handed over as weights, and the two minutes of predicting, made a second training."""
    one = contest.Contest(b"", (), 60.0)
    assert contest.long_after(one, contest.Entry("a", predicting=25.0)) == ""
    words = contest.long_after(one, contest.Entry("a", predicting=90.0))
    assert "90 seconds" in words and "trained there?" in words


def credited(root, tmp_path, entries):
    """What the rows of two projects have for the leaderboard's question."""
    course = source.find(8, root / "labs")
    name = next(n for n, several in course.parts.items() if several[0].kind not in parts.ASKS)
    rows = [Row(entry.file) for entry in entries if not entry.level]
    for row in rows:
        row.questions = {asked.name: Answer(0, "") for asked in course.asked}
        row.questions[name] = Answer(None, board.WAITS)
    (tmp_path / "board.csv").write_text(board.sheet(entries, LEVELS))
    board.credit(course, rows, tmp_path / "board.csv")
    return [row.questions[name].points for row in rows]


@pytest.mark.parametrize("score", [1.5, None])
def test_a_team_that_calls_itself_a_reference_is_a_team(root, tmp_path, score):
    """It put the bar where nobody got over it, or ended the grading of all."""
    honest = contest.Entry("b.ipynb", "b", 1.75, 0.02)
    other = contest.Entry("a.ipynb", board.PAIRS, score, score and 0.02, "it has none")
    level = contest.Entry("b.ipynb", "level 1", 3.0, 0.02, level=True)
    assert credited(root, tmp_path, [level, honest, other]) == [2, 2 if score else 0]


ENTRIES = [
    contest.Entry("b.ipynb", "<b>", 1.75, 0.02, vocabulary=512, parameters=1000, cpu=9.0),
    contest.Entry("a.ipynb", "=ada", 1.5, 0.02, vocabulary=256, parameters=2000, cpu=9.0),
    contest.Entry("l.py", "level 2", 1.6, 0.02, level=True, vocabulary=9, parameters=9),
    contest.Entry("c.ipynb", "cleo", reason="submit: it took more than 2 seconds."),
]
LEVELS = {"chance: ln 256": (nats.CHANCE, 0.0), "counts of pairs of bytes": (2.5, 0.01)}


def test_table_and_page_say_the_same(small):
    lines = list(csv.DictReader(io.StringIO(board.sheet(ENTRIES, LEVELS))))
    order = ["'=ada", "level 2", "<b>", "counts of pairs of bytes", "chance: ln 256", "cleo"]
    assert [line["team"] for line in lines] == order
    assert [line["place"] for line in lines] == ["1", "", "2", "", "", ""]
    page = board.page(small, ENTRIES, LEVELS, "a <text>")
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page)
    scores = [re.search(r"<td>(\d\.\d{3})", row) for row in rows]
    assert [m[1] for m in scores if m] == [f"{float(x['nats per byte']):.3f}" for x in lines[:-1]]
    assert "<b>" not in page and "&lt;b&gt;" in page and "a &lt;text&gt;" in page
    assert "submit: it took more than 2 seconds." in page and "a.ipynb" not in page
    assert "prefers-color-scheme: dark" in page and page.count('scope="col"') == 7


def test_a_second_run_scores_nobody_again(root, tmp_path, monkeypatch, capsys):
    """With projects that are scored by hand, so that only the command itself is tried."""
    folder, seen = tmp_path / "in", []
    folder.mkdir()
    for name in ("ada", "bob"):
        (folder / f"{name}.py").write_text(UNIFORM + f"# {name}\n")

    def scored(one, submission, box, number=0):
        seen.append(submission.file)
        if submission.file == "bob.py" and len(seen) < 5:
            raise RuntimeError("ours")
        return contest.Entry(submission.file, submission.owner.name, 2.0, 0.1)

    monkeypatch.setattr(contest, "scored", scored)
    out = tmp_path / "board.csv"
    words = ["leaderboard", str(folder), "--out", str(out), "--text", "python-docs"]
    words += ["--no-levels", "--without-walls", "--labs", str(root / "labs")]
    assert not cli.main(words)
    assert "1 of 2 projects" in capsys.readouterr().out and "not scored, please look" in (
        out.read_text(encoding="utf-8")
    )
    seen += ["", "", ""]
    assert not cli.main(words)
    assert seen[-1] == "bob.py" and seen.count("ada.py") == 1
    assert "2 of 2 projects" in capsys.readouterr().out
    assert "chance: ln 256" in out.with_suffix(".html").read_text(encoding="utf-8")


def test_a_reference_goes_on_where_the_one_before_it_ends(root):
    first, second, third = leaderboard.levels(root / "labs")
    assert b"def train_bpe" in first.content and b"class Muon" not in second.content
    names: dict[str, object] = {}
    exec(third.content, names)
    assert third.content.startswith(second.content.rstrip()) and names["TEAM"] == "level 3"
    assert {"train_bpe", "encode", "Model", "Muon", "submit", "predictor"} <= names.keys()


@pytest.mark.parametrize("more", [["--text", "nowhere"], ["--out", "x.txt"]])
def test_what_cannot_be_is_refused_before_anything_runs(more, tmp_path, capsys):
    (tmp_path / "a.py").write_text("x = 1")
    words = ["leaderboard", str(tmp_path), "--out", str(tmp_path / "o.csv")]
    assert cli.main([*words, "--without-walls", *more]) == 1
    assert "--text nowhere" in capsys.readouterr().err or "--out" in more
