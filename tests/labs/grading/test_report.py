"""What a lecturer takes home: points given by hand, tables for platforms, pages for students."""

import csv
import errno
import io
import json
from pathlib import Path

import pytest

from attnlabs.grading import report, roster, submissions, written
from attnlabs.grading.row import Answer, Row

pytestmark = pytest.mark.slow


def rows(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def nothing(lab):
    """No points for any question."""
    return {asked.name: Answer(0, "") for asked in lab.asked}


@pytest.fixture
def read_by_hand(lab, tmp_path):
    """A reported file with one written answer: its table of grades, and the one to fill in."""

    def report_again():
        row = Row("a.ipynb", questions=nothing(lab), answers={"7": "Variances add.", "8": ""})
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


def test_what_is_no_notebook_gets_no_number_not_even_0(lab, tmp_path):
    """A platform keeps what it has where a cell is empty; and a notebook goes before a PDF."""
    files = {"Ada_101": ("c.pdf", "not a notebook"), "Bob_102": ("a.ipynb", "empty")}
    files |= {"Cleo_103": ("a.ipynb", "graded")}
    found = [
        Row(f"{who}_assignsubmission_file_/{name}", status=status, questions=nothing(lab))
        for who, (name, status) in files.items()
    ]
    found.append(Row("Ada_101_assignsubmission_file_/d.ipynb", questions=nothing(lab)))
    given = [submissions.Submission(row.file, b"") for row in found]
    report.write(lab, given, found, tmp_path / "grades.csv")
    expected = {"Ada": "0", "Bob": "", "Cleo": "0"}
    moodle = rows(tmp_path / "grades" / "moodle.csv")
    assert {row["Full name"]: row["Grade"] for row in moodle} == expected
    _, *canvas = rows(tmp_path / "grades" / "canvas.csv")
    assert {row["Student"]: row[lab.title] for row in canvas} == expected


def test_of_several_files_the_best_is_passed_on(lab, tmp_path):
    """A PDF beside the notebook must not become the grade; a fault of ours is no grade at all."""
    found, points = [], {"a.ipynb": 1, "b.ipynb": 2, "c.pdf": 0}
    for name, worth in points.items():
        status = "not a notebook" if name.endswith("pdf") else "graded"
        questions = nothing(lab) | {"scores": Answer(worth, "")}
        file = f"Ada_101_assignsubmission_file_/{name}"
        found.append(Row(file, status=status, questions=questions))
    file = "Bob_102_assignsubmission_file_/a.ipynb"
    found.append(Row(file, status="error", questions=nothing(lab)))
    files = [submissions.Submission(row.file, b"") for row in found]
    roster.compare(found, files)
    assert [row.status for row in found] == ["graded", "graded", "not a notebook", "error"]
    assert "also handed in" in found[0].notes[0] and not found[0].review  # no one has to look
    report.write(lab, files, found, tmp_path / "grades.csv")
    assert [row["Grade"] for row in rows(tmp_path / "grades" / "moodle.csv")] == ["2"]
    assert len(rows(tmp_path / "grades.csv")) == 4

    report.write(lab, files[1:], found[1:], tmp_path / "grades.csv")
    pages = [path.name for path in (tmp_path / "grades" / "feedback").iterdir()]
    assert len(pages) == 3  # none of the earlier run
    assert "001-Ada_101_assignsubmission_file__b.ipynb.html" in pages  # as Moodle takes it back


def test_the_page_of_a_file_that_is_no_notebook_says_so_once(lab, tmp_path):
    row = Row("a.pdf", status="not a notebook", reason="it is a PDF.")
    row.questions = {asked.name: Answer(0, row.reason) for asked in lab.asked}
    report.write(lab, [submissions.Submission("a.pdf", b"")], [row], tmp_path / "grades.csv")
    page = next((tmp_path / "grades" / "feedback").iterdir()).read_text(encoding="utf-8")
    assert page.count("it is a PDF.") == 1 and "0 of 20 points" in page


def test_names_in_no_known_encoding_or_too_long_are_no_obstacle(lab, tmp_path):
    names = ["J\udcf6rg.ipynb", "作" * 80 + ".ipynb", "d" * 200 + "/" + "e" * 200, "two\nlines"]
    found = [Row(name, questions=nothing(lab)) for name in names]
    files = [submissions.Submission(name, b"") for name in names]
    report.write(lab, files, found, tmp_path / "grades.csv")
    assert len(rows(tmp_path / "grades.csv")) == 4
    assert len(list((tmp_path / "grades" / "feedback").iterdir())) == 4


def test_excel_is_told_that_tables_are_utf_8(read_by_hand):
    _, table = read_by_hand
    for path in (table, table.parent.with_suffix(".csv")):
        assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert not (table.parent / "canvas.csv").read_bytes().startswith(b"\xef")


def test_a_full_disk_costs_no_table_and_is_named(read_by_hand, monkeypatch):
    again, table = read_by_hand
    before = table.read_bytes()

    def full(path, content):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*written\.csv'"):
        again()
    assert table.read_bytes() == before and not list(table.parent.glob("*.draft"))


def test_a_quotation_mark_left_open_is_one_line_that_names_the_table(read_by_hand):
    """Python's csv refuses a cell of more than 131,072 characters: the rest of a long table."""
    again, table = read_by_hand
    table.write_text(table.read_text() + 'b.ipynb,scale,2,2,"open' + "x" * 140_000)
    with pytest.raises(ValueError, match=r"written\.csv, line \d+: field larger than field limit"):
        again()
    list_ = table.with_name("list.csv")
    list_.write_text('student,number,name\nada,1,"' + "x" * 140_000)
    with pytest.raises(ValueError, match=r"list\.csv, line 2: field larger than field limit"):
        roster.read(list_)


@pytest.mark.parametrize("cell", ["=a\0b", "\0=a", "+\0", "a\0b", "", "-1"])
def test_no_cell_holds_what_csv_refuses_or_a_spreadsheet_runs(cell):
    text = written.safe(cell)
    assert "\0" not in text and not text.startswith(("=", "+", "-"))
    assert text.removeprefix("'") == cell.replace("\0", "")


def test_no_name_turns_a_line_of_a_table_round():
    """Shown, it would be another file's: what stands behind the sign is read from the right."""
    assert written.safe("ada\u202eipynb.") == "ada\ufffdipynb."
    assert written.safe("مریم‌السادات, שלום") == "مریم‌السادات, שלום"  # a name as it is written


def test_a_row_is_read_as_it_was_stored(lab):
    row = Row("a.ipynb", "ada", "review", "why", nothing(lab), {"7": "So."}, ["look"], 1.5)
    row.questions["scores"] = Answer(None, "to be read", ["transposed"], "Other.")
    assert Row.from_dict(json.loads(json.dumps(row.to_dict()))) == row
