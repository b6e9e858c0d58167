"""A class of files: one row each, in order, resumable, in the forms that platforms import."""

import csv
import io
import json
import zipfile

import pytest

from attnbook import cli
from attnbook.labs import grade as grading
from attnbook.labs import gradescope, release, report, roster, submissions

CODE = {
    "right": "def scores(q, k):\n    return q @ k.mT / q.shape[-1] ** 0.5",
    "wrong": "def scores(q, k):\n    return q @ k.mT",
    "leaves": "def scores(q, k):\n    import os; os._exit(0)",
}


@pytest.fixture(scope="module")
def submitted(hand_in):
    return {
        "Ada Lovelace_101_assignsubmission_file_/lab 3.ipynb": hand_in({"scores": CODE["right"]}),
        "turingalan_LATE_202_9_three.ipynb": hand_in({"scores": CODE["wrong"]}),
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
    words = ["labs", "grade", "3", str(handed_in), "--out", str(out), "--labs", str(root / "labs")]
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
    summary = (graded[1].with_suffix("") / "summary.html").read_text()
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


@pytest.fixture
def read_by_hand(lab, tmp_path):
    """A reported file with one written answer: its table of grades, and the one to fill in."""

    def report_again():
        nothing = {"points": 0, "text": "", "mistakes": []}
        row = {"file": "a.ipynb", "student": "", "status": "graded", "reason": "", "review": []}
        row |= {"questions": {asked.name: dict(nothing) for asked in lab.asked}, "seconds": 1}
        row |= {"answers": {"7": "Variances add.", "8": ""}}
        report.write(lab, [submissions.Submission("a.ipynb", b"")], [row], tmp_path / "grades.csv")
        return rows(tmp_path / "grades.csv")[0]

    report_again()
    return report_again, tmp_path / "grades" / "written.csv"


def test_points_for_written_answers_are_taken_over(read_by_hand):
    again, table = read_by_hand
    row = again()
    assert row["scale"] == "" and row["open"] == "1" and row["nothing to see"] == "0"
    assert "variances add" in rows(table)[0]["rubric"]
    table.write_text(table.read_text().replace("scale,,2", "scale,1.5,2"))
    assert again()["scale"] == "1.5" and again()["points"] == "1.5"


def test_a_table_from_a_spreadsheet_with_semicolons_is_read(read_by_hand):
    again, table = read_by_hand
    lines = list(csv.reader(io.StringIO(table.read_text(), newline="")))
    lines[1][2] = "1,5"
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=";").writerows(lines)
    table.write_text(text.getvalue(), encoding="utf-8-sig")
    assert again()["scale"] == "1.5"


@pytest.mark.parametrize("points", ["two", "3", "-1", "1.5.2"])
def test_points_that_are_none_are_refused_before_anything_is_written(points, read_by_hand):
    again, table = read_by_hand
    text = table.read_text().replace("scale,,2", f"scale,{points},2")
    table.write_text(text)
    with pytest.raises(ValueError, match=r"a.ipynb, scale: '.*' is not a number of points"):
        again()
    assert table.read_text() == text


def test_points_of_a_file_that_is_not_here_now_stay(read_by_hand):
    again, table = read_by_hand
    table.write_text(table.read_text() + "gone.ipynb,scale,2,2,Long ago.,\n")
    again()
    assert rows(table)[-1] == rows(table)[-1] | {"file": "gone.ipynb", "points": "2"}


def test_points_for_an_answer_that_was_handed_in_anew_are_kept_and_flagged(read_by_hand):
    again, table = read_by_hand
    text = table.read_text().replace("scale,,2,Variances add.", "scale,1,2,Variances grow.")
    table.write_text(text)
    for row in (again(), again()):
        assert row["scale"] == "1" and row["status"] == "review"
        assert "the points are for an earlier answer" in row["review"]
        assert rows(table)[0]["answer"] == "Variances grow."
    table.write_text(table.read_text().replace("scale,1,2", "scale,,2"))
    assert again()["review"] == "" and rows(table)[0]["answer"] == "Variances add."


def test_a_table_in_another_encoding_is_refused_by_name(read_by_hand):
    again, table = read_by_hand
    table.write_text(table.read_text(), encoding="utf-16")
    with pytest.raises(ValueError, match=r"written\.csv is not in UTF-8"):
        again()


def test_of_several_files_the_best_is_passed_on(lab, tmp_path):
    """A PDF beside the notebook must not become the grade; a fault of ours is no grade at all."""
    found, points = [], {"a.ipynb": 1, "b.ipynb": 2, "c.pdf": 0}
    for name, worth in points.items():
        status = "not a notebook" if name.endswith("pdf") else "graded"
        row = {"file": f"Ada_101_assignsubmission_file_/{name}", "student": "", "status": status}
        said = {"points": worth, "text": "", "mistakes": []}
        nothing = {asked.name: {"points": 0, "text": "", "mistakes": []} for asked in lab.asked}
        row |= {"questions": nothing | {"scores": said}, "answers": {}, "seconds": 1}
        found.append(row | {"reason": "", "review": []})
    found.append({**found[0], "file": "Bob_102_assignsubmission_file_/a.ipynb", "status": "error"})
    files = [submissions.Submission(row["file"], b"") for row in found]
    roster.compare(found, files)
    assert [row["status"] for row in found] == ["review", "review", "not a notebook", "error"]
    assert "also handed in" in found[0]["review"][0]
    report.write(lab, files, found, tmp_path / "grades.csv")
    assert [row["Grade"] for row in rows(tmp_path / "grades" / "moodle.csv")] == ["2"]
    assert len(rows(tmp_path / "grades.csv")) == 4

    report.write(lab, files[1:], found[1:], tmp_path / "grades.csv")
    pages = [path.name for path in (tmp_path / "grades" / "feedback").iterdir()]
    assert len(pages) == 3  # none of the earlier run
    assert "001-Ada_101_assignsubmission_file__b.ipynb.html" in pages  # as Moodle takes it back


def test_another_lab_is_not_mistaken_for_a_bad_one(of):
    raw = release.text(release.student_copy(of(4).lab)).encode()
    row = of(3).grade(raw)
    assert row["status"] == "review" and row["review"] == [
        "it has none of the functions; is it another lab?"
    ]


def test_a_fault_of_ours_costs_one_row_no_points(grader, tmp_path, monkeypatch):
    def broken(self, submission, *more):
        if submission.file == "b":
            raise RuntimeError
        return {"file": submission.file}

    monkeypatch.setattr(grading.Grader, "row", broken)
    three = [submissions.Submission(name, b"x") for name in "abc"]
    found = grading.grade(grader, three, tmp_path, quiet=True)
    assert [row["file"] for row in found] == ["a", "b", "c"]
    assert found[1]["status"] == "error" and found[1]["questions"]["scores"]["points"] is None
    assert "RuntimeError" in found[1]["reason"]


def test_without_bubblewrap_it_grades_too_and_warns(
    lab, hand_in, box, monkeypatch, tmp_path, root, capsys
):
    code = CODE["right"] + "\nwhile True:\n    pass"
    other = "def softmax(x):\n    from attnbook.attention import masked_softmax as f; return f(x)"
    raw = hand_in({"scores": code, "softmax": other, "reverse": "def reverse(x):\n    exit()"})
    row = grading.Grader(lab, 7).row(submissions.Submission("a.ipynb", raw), box)
    assert row["questions"]["scores"]["points"] == 2
    assert "ModuleNotFoundError" in row["questions"]["softmax"]["text"]
    assert row["questions"]["reverse"]["points"] == 0

    monkeypatch.setattr(cli.sandbox, "walls", lambda: None)
    (tmp_path / "empty.ipynb").touch()
    words = ["labs", "grade", "3", str(tmp_path), "--labs", str(root / "labs"), "--out"]
    assert not cli.main([*words, str(tmp_path / "out.csv")])
    assert "bubblewrap (bwrap) is not installed" in capsys.readouterr().err


def test_a_file_that_claims_to_be_small_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../bomb.ipynb", bytes(submissions.LARGEST + 5))
    (one,) = submissions.collect(path)
    assert one.content is None and not (tmp_path.parent / "bomb.ipynb").exists()


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
