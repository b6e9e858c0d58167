"""A class as a lecturer has it: who is missing or late, what was decided, and the page of all."""

import csv
import io
import json
import re
import zipfile

import pytest

from attnlabs.grading import by_hand, formats, report, roster, submissions
from attnlabs.grading.resubmissions import successors
from attnlabs.grading.row import Answer, Row
from attnlabs.grading.submissions import Owner, Submission
from attnlabs.inside import cells

pytestmark = pytest.mark.slow

NOTEBOOK = json.dumps({"cells": [{"cell_type": "code", "source": "a = 1"}]}).encode()


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def row_of(lab, file, points, status="graded", mistakes=()):
    """A row with these points for `scores` and all others."""
    questions = {asked.name: Answer(asked.points, "") for asked in lab.asked}
    questions["scores"] = Answer(points, "scores not divided by √D", list(mistakes))
    return Row(file, status=status, questions=questions)


def zipped(**files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in files.items():
            archive.writestr(name.replace("__", "/").replace("DOT", "."), raw)
    return content.getvalue()


PEOPLE = {name: Owner("", str(n)) for n, name in enumerate(["ada", "bob", "eve", "joe"], 101)}


def test_who_is_missing_is_asked_by_number_and_unreadable_files_stand_apart(lab):
    files = ["Ada_101_assignsubmission_file_/a.ipynb", "Bob_102_assignsubmission_file_/b.ipynb"]
    files += ["Eve_103_assignsubmission_file_/e.pdf"]
    found = [row_of(lab, file, 2) for file in files]
    found[2].status = "not a notebook"
    given = [Submission(file, b"") for file in files]
    absent = roster.compare(found, given, PEOPLE)
    assert (absent.nothing, absent.unreadable) == (["joe"], ["eve"])
    assert [row.review for row in found] == [[], [], []]  # nobody got a copy of his own


def test_who_does_not_say_whose_copy_it_is_stands_out_only_where_others_do(lab):
    files = [f"A_{n}_assignsubmission_file_/a.ipynb" for n in (101, 102, 103)]
    found = [row_of(lab, file, 2) for file in files]
    found[0].student, found[1].student = "ada", "bob"
    roster.compare(found, [Submission(file, b"") for file in files], PEOPLE)
    assert [len(row.review) for row in found] == [0, 0, 1]


def test_notebooks_in_a_zip_of_one_s_own_are_found(tmp_path):
    inner = zipped(lab__aDOTipynb=NOTEBOOK, notesDOTtxt=b"x")
    outer = {"Ada_101_assignsubmission_file_/mine.zip": inner, "x_LATE_9_12345_b.zip": inner}
    outer |= {"only.zip": zipped(aDOTtxt=b"hello"), "c.ipynb": NOTEBOOK}
    path = tmp_path / "class.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in outer.items():
            archive.writestr(name, raw)
    found = {one.file: one for one in submissions.collect(path)}
    ada = found["Ada_101_assignsubmission_file_/mine.zip/lab/a.ipynb"]
    late = found["x_LATE_9_12345_b.zip/lab/a.ipynb"]
    assert ada.content == NOTEBOOK and ada.owner == ("Ada", "101") and ada.late == 0
    assert late.owner == ("x", "9") and late.late == 1
    assert set(found) == {ada.file, late.file, "only.zip", "c.ipynb"}
    assert "a zip without a notebook" in formats.why_none(found["only.zip"].content)


def test_a_zip_of_one_s_own_is_one_submission_in_size(tmp_path):
    """Twenty files of twenty megabytes took some kilobytes, and 400 MB of who grades."""
    several = {f"{n}.ipynb": bytes(submissions.LARGEST // 2) for n in "abc"}
    (tmp_path / "ada.zip").write_bytes(zipped(**several))
    (tmp_path / "bob.zip").write_bytes(zipped(**{"a.ipynb": several["a.ipynb"]}))
    (tmp_path / "eve.zip").write_bytes(
        zipped(**{f"{n}.zip": zipped(**{f"{n}.ipynb": several["a.ipynb"]}) for n in "abc"})
    )
    found = [one.file for one in submissions.collect(tmp_path)]
    assert found == ["ada.zip", "bob.zip/a.ipynb", "eve.zip"]


def test_a_folder_that_holds_the_platform_s_zip_is_the_class(tmp_path):
    names = [f"Student {n}_{n}_assignsubmission_file_/lab.ipynb" for n in range(100, 125)]
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        for name in names:
            archive.writestr(name, NOTEBOOK)
    assert [one.file for one in submissions.collect(tmp_path)] == names
    (tmp_path / "class.zip").rename(tmp_path / "x_9_12345_b.zip")  # one student's own
    (one,) = submissions.collect(tmp_path)
    assert one.owner == Owner("x", "9") and "more than 20" in formats.why_none(one.content)


def test_a_zip_in_a_zip_is_opened_and_one_in_that_is_not(tmp_path):
    twice = zipped(handinDOTzip=zipped(lab__aDOTipynb=NOTEBOOK))
    (tmp_path / "x_9_12345_b.zip").write_bytes(twice)
    (tmp_path / "y_8_12346_c.zip").write_bytes(zipped(mineDOTzip=twice))
    mine, other = submissions.collect(tmp_path)
    assert mine.file == "x_9_12345_b.zip/handin.zip/lab/a.ipynb" and mine.content == NOTEBOOK
    assert mine.owner == Owner("x", "9")
    assert "a zip without a notebook" in formats.why_none(other.content)


SCRIPTS = {
    "Colab": (
        '# -*- coding: utf-8 -*-\n"""lab\n\nmade by Colab\n"""\n\n# !pip install x\nimport torch'
        '\n\ndef scores(q, k):\n    """Words."""\n\n    return q\n\ncheck("scores", scores)\n\n'
        '"""## Question 7 · scale (2 points)\n\nVariances add.\n"""\n'
    ),
    "Jupyter": (
        "#!/usr/bin/env python\n# coding: utf-8\n\n# # Lab\n\n# In[1]:\n\n\nimport torch\n"
        "\n\n# In[2]:\n\n\ndef scores(q, k):\n    return q\n\n\n# ## Question 7 · scale (2 points)"
        "\n# \n# Variances add."
        "\n\n# In[ ]:\n"
    ),
    "an editor": "# %%\nimport torch\n# %%\ndef scores(q, k):\n    return q\n# %% [markdown]\n"
    "# ## Question 7 · scale (2 points)\n# Variances add.\n",
    "a broken one": "import torch\n\ndef scores(q, k):\n    return q\n\ndef softmax(x:\n    return"
    " x\n\n"
    "# ## Question 7 · scale (2 points)\n# Variances add.\n",
}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_script_is_read_as_the_notebook_it_was(kind):
    raw = formats.for_the_sandbox("lab.PY", SCRIPTS[kind].encode())
    pairs = cells.read(raw)
    tree, _ = cells.statements(pairs)
    assert [s.name for s in cells.needed(tree, "scores")] == ["scores"]
    assert cells.missing(tree, [], "scores") == "" and cells.answer(pairs, 7).endswith("add.")


def test_a_script_is_graded(grade):
    row = grade(b"def scores(q, k):\n    return q @ k.mT / q.shape[-1] ** 0.5\n", "Ada.py")
    assert row.questions["scores"].points == 2


@pytest.mark.parametrize(
    "raw,words",
    [
        (b"%PDF-1.7", "a PDF"),
        (b'{"cells": [', "damaged"),
        (b"<!doctype html>", "a web page"),
        (zipped(word__documentDOTxml=b""), "a document of a word processor"),
        (b"my answers are in the mail", "not a notebook"),
    ],
)
def test_what_cannot_be_read_is_said_in_plain_words(raw, words):
    text = formats.why_none(raw)
    assert words in text and "ends in .ipynb" in text and "Error" not in text


@pytest.fixture
def class_of_two(lab, tmp_path):
    """Two files of a class, reported with what a day late costs."""

    def again(percent=0, raw=b"first", ada="ada_LATE_101_98765_a.ipynb"):
        files = [ada, "bob_102_98766_b.ipynb"]
        given = [Submission(file, raw) for file in files]
        found = [row_of(lab, file, 1, mistakes=["unscaled"]) for file in files]
        for row in found:
            row.answers = {"7": "So.", "8": ""}
        roster.compare(found, given)
        by_hand.days_late(given, found, percent)
        strange = report.write(lab, given, found, tmp_path / "grades.csv")
        return rows_of(tmp_path / "grades.csv"), strange

    return again, tmp_path / "grades" / "by-hand.csv"


def test_being_late_costs_what_the_lecturer_says(class_of_two):
    again, table = class_of_two
    ada, bob = again()[0]
    assert (ada["late"], bob["late"], ada["points"]) == ("1", "0", bob["points"])
    ada, bob = again(10)[0]
    assert float(ada["points"]) == pytest.approx(0.9 * float(bob["points"]))
    table.write_text("file,question,points,why\nada_LATE_101_98765_a.ipynb,late,3,ill\n")
    assert again(10)[0][0]["% off"] == "30" and again(40)[0][0]["points"] == "0"


def test_points_set_by_hand_survive_and_a_new_file_is_pointed_out(class_of_two):
    again, table = class_of_two
    again()
    assert table.read_text(encoding="utf-8-sig").startswith("file,question,points,why")
    line = "bob_102_98766_b.ipynb,scores,2,it is right\nnobody.ipynb,1,2,\n"
    table.write_text(f"file,question,points,why\n{line}")
    for _ in range(2):
        (_, bob), strange = again()
        assert bob["scores"] == "2" and bob["review"] == "" and len(strange) == 1
    (_, bob), _ = again(raw=b"second")
    assert bob["scores"] == "2" and "set by hand for an earlier file" in bob["review"]
    assert rows_of(table)[1]["file"] == "nobody.ipynb"


def test_decisions_and_points_go_along_when_the_platform_names_the_file_anew(class_of_two):
    again, table = class_of_two
    again()
    old, new = "ada_LATE_101_98765_a.ipynb", "ada_LATE_101_99001_a-1.ipynb"
    answers = table.with_name("written.csv")
    answers.write_text(answers.read_text().replace(f"{old},scale,,", f"{old},scale,1.5,"))
    lines = f"{old},scores,2,the idea is right\n{old},late,3,\n"
    table.write_text(f"file,question,points,why\n{lines}")
    assert again()[0][0]["scores"] == "2"
    (ada, _), strange = again(ada=new)
    assert (ada["file"], ada["scores"], ada["scale"], ada["late"]) == (new, "2", "1.5", "3")
    assert not strange and "scores: set by hand for an earlier file" in ada["review"]
    assert "without that line it has 1;" in ada["review"] and "earlier answer" not in ada["review"]
    assert [line["file"] for line in rows_of(table)] == [new, new]
    table.write_text(f"file,question,points,why\n{new},scores,0,\n{lines}")
    (ada, _), strange = again(ada=new)
    assert ada["scores"] == "0" and ada["late"] == "3" and strange == [[old, "", "by hand"]]


def test_a_folder_for_each_student_tells_files_of_one_name_apart(lab, tmp_path):
    files = ["ada/lab3.ipynb", "bob/lab3.ipynb", "eve.ipynb"]
    given = [Submission(file, file.encode()) for file in files]
    report.write(lab, given, [row_of(lab, file, 1) for file in files], tmp_path / "grades.csv")
    names = [row["name"] for row in rows_of(tmp_path / "grades.csv")]
    assert names == ["ada", "bob", "eve"]  # one file each: the folder says whose it is
    page = (tmp_path / "grades.html").read_text(encoding="utf-8")
    assert "3 files of 3 people" in page and "handed in more than once" not in page


def test_of_whom_there_are_two_files_no_decision_is_moved():
    files = ["x_9_12345_a.ipynb", "x_9_12346_b.ipynb", "y_8_12347_c.ipynb", "z.ipynb"]
    given = [Submission(file, b"") for file in files]
    successor = successors(given, [Row(file) for file in files])
    assert successor("x_9_11111_a.ipynb") is None and successor("y_8_12347_c.ipynb") is None
    assert successor("y_8_11111_a.ipynb") == files[2] and successor("w.ipynb") is None


def test_a_flag_goes_once_a_person_has_decided_about_the_question(lab):
    row = row_of(lab, "a.ipynb", 2)
    row.look_at(["scores: uses torch's softmax", "softmax: uses torch's softmax"])
    row.settled("scores")
    assert row.status == "review" and row.review == ["softmax: uses torch's softmax"]
    row.settled("softmax")
    assert row.status == "graded" and len(row.notes) == 2


@pytest.mark.parametrize(
    "line,words",
    [
        ("sores,1,", "there is no question 'sores'; there are scores, "),
        ("scores,3,", "'3' is not a number of points from 0 to 2"),
        ("late,soon,", "'soon' is no number of days"),
    ],
)
def test_a_decision_that_is_none_is_refused(line, words, class_of_two):
    again, table = class_of_two
    again()
    table.write_text(f"file,question,points,why\nbob_102_98766_b.ipynb,{line}\n")
    with pytest.raises(ValueError, match=re.escape(words)):
        again()


def test_unanswered_questions_are_not_among_those_to_read(class_of_two):
    again, table = class_of_two
    again()
    lines = rows_of(table.with_name("written.csv"))
    assert [line["question"] for line in lines] == ["scale", "scale"]


def test_the_page_of_the_class_has_what_a_lecturer_asks_for(class_of_two):
    again, table = class_of_two
    again()
    page = table.parents[1] / "grades.html"
    text = page.read_text(encoding="utf-8")
    assert "2 files of 2 people" in text and "<svg" in text and "1 came late" in text
    assert "<td>2</td><td>scores not divided by √D</td>" in text
    assert "<h2>Who needs a look</h2><p>Nobody.</p>" in text and "hand-in" not in text
    again(raw=b"second")
    assert "2 handed in more than once" in page.read_text(encoding="utf-8")


def test_the_page_of_the_class_fits_a_telephone_in_the_dark(class_of_two, chromium):
    again, table = class_of_two
    again()
    page = chromium.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
    page.goto((table.parents[1] / "grades.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    back = page.evaluate("getComputedStyle(document.querySelector('.full')).backgroundColor")
    assert back == "rgb(86, 180, 233)"
    page.close()
