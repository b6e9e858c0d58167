"""A class of files: one row each, in order, resumable, in the forms that platforms import."""

import csv
import io
import json
import os
import zipfile

import pytest
import torch

from attnlabs import cli, gradescope, release
from attnlabs.grading import grade as grading
from attnlabs.grading import sandbox, submissions
from attnlabs.grading.row import Row

pytestmark = pytest.mark.slow

CODE = {
    "right": "def scores(q, k):\n    return q @ k.mT / q.shape[-1] ** 0.5",
    "wrong": "def scores(q, k):\n    return q @ k.mT",
    "leaves": "def scores(q, k):\n    import os; os._exit(0)",
}


@pytest.fixture(scope="module")
def submitted(hand_in):
    return {
        "Ada Lovelace_101_assignsubmission_file_/lab 3.ipynb": hand_in({"scores": CODE["right"]}),
        "turingalan_LATE_202_90123_three.ipynb": hand_in({"scores": CODE["wrong"]}),
        "=cmd|x.ipynb": hand_in({"scores": CODE["leaves"]}),
        "notes.txt": b"sorry, late",
        "empty.ipynb": b"",
    }


@pytest.fixture(scope="module")
def handed_in(submitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("class") / "submissions.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in submitted.items():
            archive.writestr(name, raw)
        archive.writestr("__MACOSX/._x.ipynb", b"")
        archive.writestr(".DS_Store", b"")
    return path


@pytest.fixture(scope="module")
def graded(root, handed_in):
    """The command as a lecturer gives it; then the folder with everything it wrote."""
    out = handed_in.with_name("grades.csv")
    words = ["grade", "3", str(handed_in), "--out", str(out), "--labs", str(root / "labs")]
    assert not cli.main([*words, "--workers", "1"])
    return words, out


def rows(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def test_one_row_for_each_file(graded, submitted):
    table = {row["file"].lstrip("'"): row for row in rows(graded[1])}
    assert set(table) == set(submitted)
    ada, alan, left, notes, empty = (table[name] for name in submitted)
    assert (ada["name"], ada["number"], ada["scores"]) == ("Ada Lovelace", "101", "2")
    assert (alan["name"], alan["number"], alan["scores"]) == ("turingalan", "202", "0")
    assert "scores not divided by √D" in alan["reason"]
    assert (ada["scale"], ada["nothing to see"]) == ("0", "0")  # the question is no answer to it
    assert left["scores"] == "0" and "ended without an answer" in left["reason"]
    assert [row["status"] for row in (ada, notes, empty)] == ["graded", "not a notebook", "empty"]
    assert all(row["points"] == "0" for row in (notes, empty))


def test_tables_for_moodle_and_canvas(graded):
    folder = graded[1].with_suffix("")
    moodle = {row["Full name"]: row for row in rows(folder / "moodle.csv")}
    assert moodle["Ada Lovelace"]["Identifier"] == "Participant 101"
    assert moodle["Ada Lovelace"]["Grade"] == "2"
    assert "Last modified (grade)" in moodle["Ada Lovelace"]  # Moodle refuses a worksheet without
    assert "scores not divided by √D" in moodle["turingalan"]["Feedback comments"]
    first, *others = rows(folder / "canvas.csv")
    assert first["Student"].strip() == "Points Possible"
    assert first["Lab 3: attention by hand"] == "20"
    assert {"turingalan": "202"}.items() <= {row["Student"]: row["ID"] for row in others}.items()


def test_nothing_in_a_table_is_a_formula(graded):
    for path in [graded[1], *graded[1].with_suffix("").glob("*.csv")]:
        for line in csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")):
            assert not [cell for cell in line if cell.startswith(("=", "+", "@"))]


def test_feedback_tells_the_mistake_and_no_hidden_number(graded):
    page = next(graded[1].with_suffix("").glob("feedback/*turingalan*")).read_text()
    assert "scores not divided by √D" in page and "tensor" not in page
    summary = graded[1].with_suffix(".html").read_text()
    assert "<td>1</td><td>scores not divided by √D</td>" in summary


def test_what_is_stored_is_not_graded_again(graded, root, monkeypatch):
    """Two rows are lost as by a kill; the same command grades these two and no other."""
    words, out = graded
    before, folder = rows(out), out.with_suffix("") / "rows"
    lost = sorted(folder.glob("*.json"))[:2]
    lost[0].unlink()
    lost[1].write_text(lost[1].read_text()[:20])  # half a file
    again, real = [], grading.Grader.row

    def counted(self, submission, *more):
        again.append(submission.file)
        return real(self, submission, *more)

    monkeypatch.setattr(grading.Grader, "row", counted)
    assert not cli.main(words)
    assert len(again) == 2
    same = [{k: v for k, v in row.items() if k != "seconds"} for row in before]
    assert same == [{k: v for k, v in row.items() if k != "seconds"} for row in rows(out)]


def test_another_lab_is_not_mistaken_for_a_bad_one(of):
    raw = release.text(release.student_copy(of(4).lab)).encode()
    row = of(3).grade(raw)
    assert row.status == "review"
    assert row.review == ["it has none of the functions; is it another lab?"]


def test_a_fault_of_ours_costs_one_row_no_points(grader, tmp_path, monkeypatch):
    def broken(self, submission, *more):
        if submission.file == "b":
            raise RuntimeError
        return Row(submission.file)

    monkeypatch.setattr(grading.Grader, "row", broken)
    three = [submissions.Submission(name, b"x") for name in "abc"]
    found = grading.grade(grader, three, tmp_path, quiet=True)
    assert [row.file for row in found] == ["a", "b", "c"]
    assert found[1].status == "error" and found[1].questions["scores"].points is None
    assert "RuntimeError" in found[1].reason


def test_without_bubblewrap_it_grades_too_and_warns(
    lab, hand_in, box, monkeypatch, tmp_path, root, capsys
):
    code = CODE["right"] + "\nwhile True:\n    pass"
    other = "def softmax(x):\n    from attnbook.attention import masked_softmax as f; return f(x)"
    raw = hand_in({"scores": code, "softmax": other, "reverse": "def reverse(x):\n    exit()"})
    row = grading.Grader(lab, 7).row(submissions.Submission("a.ipynb", raw), box)
    assert row.questions["scores"].points == 2
    assert "ModuleNotFoundError" in row.questions["softmax"].text
    assert row.questions["reverse"].points == 0

    monkeypatch.setattr(sandbox, "walls", lambda: None)
    (tmp_path / "empty.ipynb").touch()
    words = [
        "grade",
        "3",
        str(tmp_path),
        "--labs",
        str(root / "labs"),
        "--as-root",
        "--out",
    ]
    assert not cli.main([*words, str(tmp_path / "out.csv")])
    assert "bubblewrap (bwrap) is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("python", ["everybody's", "root's alone"])
def test_as_root_and_without_walls_it_refuses_before_anything_is_written(
    python, monkeypatch, tmp_path, root, capsys
):
    monkeypatch.setattr(sandbox, "walls", lambda: None)
    monkeypatch.setattr(sandbox, "open_to_all", lambda: python == "everybody's")
    monkeypatch.setattr(os, "getuid", lambda: 0)

    def begin(*_):
        raise ValueError("it would begin now")

    monkeypatch.setattr(grading, "grade", begin)
    (tmp_path / "empty.ipynb").touch()
    words = ["grade", "3", str(tmp_path), "--labs", str(root / "labs"), "--out"]
    assert cli.main([*words, str(tmp_path / "out.csv")])
    said = capsys.readouterr().err
    assert ("students' code would run as root" in said) == (python == "root's alone")
    assert (
        ("it would begin now" in said) == (tmp_path / "out").exists() == (python != "root's alone")
    )


NAMED = {
    "Ada Lovelace_12_assignsubmission_file_/lab.ipynb": ("Ada Lovelace", "12"),
    "Ada Lovelace_12_assignsubmission_file_lab.ipynb": ("Ada Lovelace", "12"),
    "class/Ada_12_assignsubmission_file_/Bob_13_assignsubmission_file_.ipynb": ("Ada", "12"),
    "Group_7-Team B_81_assignsubmission_file_/lab3.ipynb": ("Group_7-Team B", "81"),
    "A_b_1_assignsubmission_file_x_9_assignsubmission_file_.ipynb": ("A_b", "1"),
    "lovelaceada_12_34567_lab.ipynb": ("lovelaceada", "12"),
    "lovelaceada_LATE_12_34567_x_99_assignsubmission_file_.ipynb": ("lovelaceada", "12"),
    "hw_3_2_ada.ipynb": ("hw_3_2_ada", ""),
}


@pytest.mark.parametrize("file", NAMED)
def test_who_handed_in_is_what_the_platform_put_in_front(file):
    """However a student calls a file, it is not taken for somebody else's."""
    assert submissions.Submission(file, b"").owner == NAMED[file]


OWNED = {
    "one folder with one person": (["zoe/lab3.ipynb"], ["zoe"]),
    "a folder for each": (["ada/lab3.ipynb", "zoe/lab3.ipynb"], ["ada", "zoe"]),
    "one folder for all": (["week3/ada.ipynb", "week3/zoe.ipynb"], ["ada", "zoe"]),
    "zips of their own": (["x/zoe.zip/lab3.ipynb", "x/ada.zip/lab3.ipynb"], ["zoe", "ada"]),
    "groups of two": (
        ["a/zoe/lab3.ipynb", "b/zoe/lab3.ipynb"],
        ["a/zoe/lab3.ipynb", "b/zoe/lab3.ipynb"],
    ),
    "no folder": (["lab3.ipynb"], ["lab3"]),
}


@pytest.mark.parametrize("kind", OWNED)
def test_a_folder_with_one_file_says_whose_it_is(kind):
    files, names = OWNED[kind]
    found = submissions.owners([submissions.Submission(file, b"") for file in files])
    assert [owner.name for owner in found] == names


def test_a_name_that_no_copy_has_is_flagged(grade, hand_in):
    raw = hand_in({"scores": CODE["right"]}, 'check_for("<b>ada")')
    row = grade(raw)
    assert row.status == "review" and "no copy is made for a name such as" in row.review[0]


def test_a_file_that_claims_to_be_small_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../bomb.ipynb", bytes(submissions.LARGEST + 5))
    (one,) = submissions.collect(path)
    assert one.content is None and not (tmp_path.parent / "bomb.ipynb").exists()


def test_a_damaged_zip_is_named_and_a_damaged_file_is_not_empty(tmp_path):
    path = tmp_path / "class.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.ipynb", b"0123456789" * 99)
        archive.writestr("b.ipynb", b"right")
    raw = path.read_bytes()
    path.write_bytes(raw[:37] + b"\xff" * 9 + raw[46:])
    assert [one.content for one in submissions.collect(path)] == [None, b"right"]
    path.write_bytes(raw.replace(b"PK\x01\x02", b"PK\x01\x03"))
    with pytest.raises(ValueError, match=r"class\.zip is a damaged zip"):
        submissions.collect(path)


def test_gradescope_gets_what_its_documentation_asks_for(lab, submitted, tmp_path, monkeypatch):
    path = gradescope.write(lab, tmp_path / "autograder.zip")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert {"setup.sh", "run_autograder"} <= set(names)
        assert archive.getinfo("run_autograder").external_attr >> 16 & 0o111
        assert archive.read("run_autograder").startswith(b"#!")
        archive.extractall(tmp_path / "source")
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission" / "a.ipynb").write_bytes(next(iter(submitted.values())))
    gradescope.main(tmp_path)
    found = json.loads((tmp_path / "results" / "results.json").read_text(encoding="utf-8"))
    assert found["stdout_visibility"] == "hidden"
    first = found["tests"][0]
    assert (first["name"], first["score"], first["max_score"]) == ("scores", 2, 2)
    assert first["status"] == "passed" and len(found["tests"]) == 6


@pytest.mark.parametrize("number,same", [(3, False), (12, True)])
def test_on_gradescope_each_file_meets_numbers_of_its_own(number, same, of):
    """What the feedback on one says of them is of no use to the next. Lab 12's lot stays: who hands
    in again would draw another."""
    lab = of(number).lab
    known = 2**100 + 7  # too many to be tried one after the other
    one, again, other = (gradescope.seed(lab, known, raw) for raw in (b"one", b"one", b"other"))
    assert one == again and (one == other) is same and one < 2**31
    assert gradescope.seed(lab, 8, b"one") != one  # only who has the zip's seed can foresee it


def test_on_gradescope_python_may_be_older_and_students_are_kept_out(lab, tmp_path):
    path = gradescope.write(lab, tmp_path / "autograder.zip", "--index-url x")
    with zipfile.ZipFile(path) as archive:
        setup, run = (archive.read(name).decode() for name in ("setup.sh", "run_autograder"))
        assert int(archive.read("seed")) > 2**64  # nobody tries them all
    (line,) = (line for line in setup.splitlines() if " install --index-url x " in line)
    assert [word for word in line.split() if "=" in word] == [
        f"torch=={torch.__version__.split('+')[0]}"
    ]
    assert "numpy" in line.split()  # the one here may ask for a newer Python than Ubuntu 22.04 has
    assert "chmod o= /autograder/source /autograder/results" in run
