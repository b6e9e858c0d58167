"""The page for lecturers, and the labs' README: their examples do what they say."""

import builtins
import json
import math
import re
import time

import nbformat
import pytest
import torch

from attnlabs import cli, errors, question, release, source
from attnlabs.check import effects
from attnlabs.grading import grade, submissions
from attnlabs.inside.fingerprints import outcome
from attnlabs.judge import judge

NORMAL = "import torch\nfrom attnlabs.question import Case, Option, Question\nQUESTIONS = {}\n"
NORMAL += "def normal(numbers, *shape):\n    return torch.randn(*shape, generator=numbers)\n"


@pytest.fixture
def guide(root):
    return (root / "book" / "teaching.md").read_text(encoding="utf-8")


@pytest.fixture
def readme(root):
    return (root / "labs" / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def lab(readme, tmp_path):
    """A lab made of the README's example: heading, cell, the file beside it, the choice."""
    cell, compared, choice = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    heading = re.search(r"``(## Question .*?)``", readme)[1].replace("Question 2", "Question 1")
    new = nbformat.v4
    first = "import torch\n\nfrom attnlabs.check import check"
    cells = [new.new_markdown_cell("# Lab 8: an example"), new.new_code_cell(first)]
    cells += [new.new_markdown_cell(heading), new.new_code_cell(cell.strip())]
    nbformat.write(new.new_notebook(cells=cells), tmp_path / "08-example.ipynb")
    (tmp_path / "08-example.py").write_text(NORMAL + compared + choice, encoding="utf-8")
    return source.find(8, tmp_path)


@pytest.mark.slow
def test_the_example_of_a_new_question_is_a_lab(lab, box, walls):
    grader = grade.Grader(lab, 7, walls)
    right = lab.path.read_bytes()
    wrong = right.replace(b"torch.maximum", b"torch.minimum")
    points = []
    for raw in (right, wrong):
        row = grader.row(submissions.Submission("a.ipynb", raw), box)
        points.append(row.questions["relu"])
    assert (points[0].points, points[1].points) == (3, 0)
    assert "negative numbers are kept" in points[1].text
    assert "..." in release.text(release.student_copy(lab))


def test_its_choice_turns_right_and_wrong_round(lab):
    other = lab.variant({"side": "below"})
    assert "torch.minimum" in other.notebook.cells[-1].source
    cases = question.drawn(lab.compared["relu"], 1)
    sheet = question.sheet(lab.compared["relu"], cases, other.flips("relu"))
    assert all((torch.tensor(part) <= 0).all() for answer in sheet.answers for part in answer)
    assert sheet.mistakes["upside-down"].startswith("positive numbers are kept, not")


def test_the_time_for_a_class_is_the_measured_one(guide, root):
    stored = json.loads((root / "results/grading/lab3.200.json").read_text(encoding="utf-8"))
    assert f"Two hundred notebooks of lab 3 took {stored['seconds']} seconds on two" in guide
    assert (stored["files"], stored["workers"], stored["seconds"] < 300) == (200, 2, True)
    assert stored["rows"] == stored["rows_after"] == 200 and stored["tables_equal"]
    assert 0 < stored["killed_at"] < 200 and stored["graded_again"] == 0


def test_the_time_for_a_leaderboard_is_the_measured_one(guide, root):
    """And two of the three faulty projects have no score; of the third the rest counts."""
    stored = json.loads((root / "results/class_of_twenty.json").read_text(encoding="utf-8"))
    minutes = sum(stored["seconds"]) / 60
    assert f"at one minute each, took {minutes:.0f} minutes on two processors" in guide
    assert stored["config"] == {"projects": 20, "minutes": 1.0, "workers": 2} and minutes < 60
    rows = [row for row in stored["table"] if row["level"] == "project"]
    unscored = {row["file"]: row["reason"] for row in rows if not row["nats per byte"]}
    assert len(rows) == 20 and set(unscored) == {"student-stops.py", "student-sums.py"}
    assert (
        "RuntimeError" in unscored["student-stops.py"] and "sum to" in unscored["student-sums.py"]
    )


def test_how_well_others_submissions_are_graded_is_what_came_out(guide, root):
    """Written by people who had not seen the checks; what is listed adds up to what is counted."""
    stored = json.loads((root / "labs/held_out.json").read_text(encoding="utf-8"))
    every = stored["all"]
    assert all(sum(lab[key] for lab in stored["labs"].values()) == every[key] for key in every)
    assert every["questions"] == every["right"] + every["wrong"]
    graded = every["right_credited"] + every["wrong_lost"]
    assert len(stored["wrong_verdicts"]) == every["questions"] - graded
    assert len(stored["names_missed"]) == every["wrong_lost"] - every["named"]
    assert len(stored["arguable"]) == every["arguable"]
    share = round(100 * every["named"] / every["wrong_lost"])
    assert f"{graded} of {every['questions']} answers were graded rightly" in guide
    assert f"that lost points {share} % had their mistake named" in guide
    assert f"wrote {every['files']} notebooks of labs" in guide
    kinds = "in place|[Dd]etaches|cannot compute gradients"
    beside = [one for one in stored["arguable"] if re.search(kinds, one["key"])]
    said = f"Not counted are {every['arguable']} arguable answers, of which {len(beside)} changed"
    assert said in guide


def test_how_many_slips_of_another_hand_are_named_is_what_came_out(guide, root):
    stored = json.loads((root / "labs/held_out_slips.json").read_text(encoding="utf-8"))
    counts, kinds = stored["counts"], [slip["named"] for slip in stored["slips"]]
    keys = {"yes": "named", "no": "not named"}
    assert all(kinds.count(kind) == counts[keys.get(kind, kind)] for kind in set(kinds))
    assert counts["written"] == len(kinds) + counts["no slip"]
    share = round(100 * counts["named"] / counts["wrong"])
    assert f"{counts['wrong']} single mistakes in six labs all lost points" in guide
    assert f"and {share} % were named" in guide
    assert counts["wrong"] == counts["lost"]


def test_what_a_further_writer_s_slips_were_called_is_what_came_out(guide, root):
    """At first, before anything was mended, and now."""
    stored = json.loads((root / "labs/held_out_more.json").read_text(encoding="utf-8"))
    counts, slips = stored["counts"], stored["slips"]
    first = [slip["named"] for slip in slips]
    now = [slip.get("named now", slip["named"]) for slip in slips]
    keys = {"yes": "named", "no": "not named"}
    for kind in {*first, *now}:
        assert first.count(kind) == counts[keys.get(kind, kind)]
        assert now.count(kind) == counts.get(f"{keys.get(kind, kind)} now", 0)
    assert counts["written"] == len(slips) == counts["lost"] + counts["credited"]
    assert all(sum(lab[key] for lab in stored["labs"].values()) == counts[key] for key in LAB)
    share, later = counts["named"] / counts["lost"], counts["named now"] / counts["written"]
    assert f"{len(slips)} in eleven labs all but one lost points and {share:.0%}" in guide.replace(
        " %", "%"
    )
    assert f"each loses points and {math.floor(100 * later)} % are named" in guide
    assert len(stored["labs"]) == 11 and "misleading" not in now and "credited" not in now


LAB = ("written", "named", "named now")
SLIPS = [
    pytest.param("held_out_slips", marks=pytest.mark.slow),
    pytest.param("held_out_more", marks=pytest.mark.weekly),
]


@pytest.mark.parametrize("file", SLIPS)
def test_slips_of_another_hand_lose_points_and_keep_their_names(file, root, define):
    stored = json.loads((root / f"labs/{file}.json").read_text(encoding="utf-8"))
    sheets, wrong = {}, []
    for slip in stored["slips"]:
        number, name = slip["lab"], slip["question"]
        if (number, name) not in sheets:
            asked = source.find(number, root / "labs").compared[name]
            cases = question.drawn(asked, stored["seed"])
            sheets[number, name] = question.sheet(asked, cases)
        sheet = sheets[number, name]
        function = define(stored["before"][str(number)], slip["code"])[name]
        beside = effects(sheet, function, time.monotonic() + 9)
        results = [outcome(function, question.copies(case.arguments)) for case in sheet.cases]
        verdict = judge(sheet, results, effects=beside)
        right = slip["named"] == "right after all"
        kind = slip.get("named now", "yes" if "said now" in slip else slip["named"])
        hinted = verdict.mistakes or "Hint: " in verdict.text
        if (verdict.share == 1) != right or (kind == "yes" and not (hinted or random(slip))):
            wrong.append((number, name, slip["slip"], verdict.text))
    assert wrong == []


def random(slip):
    """Found by asking twice, which is not done here."""
    return slip.get("said now", slip["said"]).startswith("asked twice")


def test_what_an_answer_can_say_with_the_errors_it_chooses_is_what_the_guide_says(guide, root):
    """Kinds, hints and the functions that one may come from; one before a case and one in it."""
    errors_of = [each for each in vars(builtins).values() if isinstance(each, type)]
    kinds = sum(issubclass(each, BaseException) for each in errors_of) + 1
    places = len(source.find(3, root / "labs").compared) + 2
    bits = 2 * math.log2(kinds * (len(errors.HINTS) + 1) * places)
    assert f"up to {bits:.0f} bits of the hidden numbers for each question" in guide


def test_every_command_of_the_page_and_the_readme_is_one(guide, readme, root):
    blocks = re.findall(r"```bash\n(.*?)```", guide + readme, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    commands = [line for line in lines if line.startswith("attnlabs ")]
    assert len(commands) >= 6
    for line in commands:
        cli.parser().parse_args(line.split()[1:])  # exits if it is none
    targets = (root / "Makefile").read_text(encoding="utf-8")
    for name in (line.split()[1] for line in lines if line.startswith("make ")):
        assert re.search(rf"^[\w -]*\b{name}\b[\w -]*:", targets, re.MULTILINE)


def test_labs_take_as_long_as_the_guide_says(guide, readme, root):
    said = re.compile(r"\*\*Time\*\* (?:about )?(\d+)(?: to (\d+))? minutes")
    texts = [path.read_text(encoding="utf-8") for path in (root / "labs/student").glob("*.ipynb")]
    times = [int(n) for text in texts for span in said.findall(text) for n in span if n]
    assert len(times) > 12
    span = f"takes {min(times)} to {max(times)} minutes"
    assert span in guide and span in readme
