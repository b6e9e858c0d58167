"""The command `attnlabs`: what it writes, and one line when it cannot."""

import subprocess
import sys

import pytest

from attnlabs import cli
from attnlabs.grading import grade


def test_help_does_not_wait_for_torch():
    code = "import sys; from attnlabs import cli; cli.parser(); print({*sys.modules} & {*HEAVY})"
    code = code.replace("HEAVY", "('torch', 'numpy', 'nbformat')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_release_writes_the_student_s_copy(root, tmp_path, capsys):
    words = ["release", "3", "--to", str(tmp_path), "--labs", str(root / "labs")]
    assert not cli.main(words)
    (path,) = tmp_path.iterdir()
    assert capsys.readouterr().out.strip() == str(path)
    assert "SOLUTION" not in path.read_text(encoding="utf-8")


def test_an_empty_folder_is_no_class(root, tmp_path, capsys):
    assert cli.main(["grade", "3", str(tmp_path), "--labs", str(root / "labs")]) == 1
    assert "there are no files" in capsys.readouterr().err


def test_a_path_that_leads_nowhere_is_told_in_full(root, tmp_path, capsys, monkeypatch):
    """`../submissions.zip` from another folder: where it was looked for."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["grade", "3", "hand-ins.zip", "--labs", str(root / "labs")]) == 1
    told = capsys.readouterr().err
    assert "there is no such file or folder" in told and str(tmp_path / "hand-ins.zip") in told


def test_gradescope_gets_a_zip_whatever_it_is_to_be_called(root, tmp_path, capsys):
    for to in ("", "three", "four.zip"):
        words = ["gradescope", "3", "--labs", str(root / "labs"), "--to", str(tmp_path / to)]
        assert not cli.main(words)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["autograder.zip", "four.zip", "three.zip"]


@pytest.mark.parametrize("name", ["release", "gradescope", "nbgrader"])
def test_help_says_what_to_is(name, capsys):
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    last = capsys.readouterr().out.split("--to TO")[-1]
    assert "folder" in last.split("--")[0]


def test_wrong_arguments_are_one_line(capsys, tmp_path):
    assert cli.main(["release", "9", "--to", str(tmp_path), "--labs", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "lab 9" in told


@pytest.fixture
def words(root, tmp_path):
    """A lecturer's command, and the folder with one file that was handed in."""
    folder = tmp_path / "handed in"
    folder.mkdir()
    (folder / "empty.ipynb").touch()
    more = ["--labs", str(root / "labs")]
    return lambda lab, to: ["grade", lab, str(folder), "--out", str(to), *more]


def test_a_folder_for_copies_is_made(root, tmp_path, capsys):
    to = tmp_path / "new" / "handout"
    words = ["release", "3", "--to", f"{to}/", "--labs", str(root / "labs")]
    assert not cli.main(words)
    assert [path.name for path in to.iterdir()] == ["03-attention-by-hand.ipynb"]
    words[3] = str(tmp_path / "another" / "lab.ipynb")
    assert not cli.main(words) and (tmp_path / "another" / "lab.ipynb").is_file()


@pytest.mark.parametrize("out", ["", "grades", "handed in.csv"])
def test_a_place_where_tables_cannot_go_is_named_before_grading(out, words, tmp_path, capsys):
    before = sorted(tmp_path.rglob("*"))
    assert cli.main(words("3", tmp_path / out)) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "--out" in told
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
def test_tables_among_what_was_handed_in_are_no_submissions(words, tmp_path, capsys):
    for _ in range(2):
        assert not cli.main(words("3", tmp_path / "handed in" / "grades.csv"))
        assert "1 rows" in capsys.readouterr().out


@pytest.mark.slow
def test_one_folder_holds_one_lab(words, tmp_path, capsys):
    assert not cli.main(words("3", tmp_path / "grades.csv"))
    before = (tmp_path / "grades.csv").read_bytes()
    assert cli.main(words("4", tmp_path / "grades.csv")) == 1
    assert "has the grades of lab 3; give those of lab 4 another --out" in capsys.readouterr().err
    assert (tmp_path / "grades.csv").read_bytes() == before


@pytest.mark.slow
def test_ctrl_c_is_one_line_and_loses_nothing(words, tmp_path, capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(grade, "as_completed", stopped)
    assert cli.main(words("3", tmp_path / "grades.csv")) == 130
    assert "stopped; the same command goes on where it was" in capsys.readouterr().err
    monkeypatch.undo()
    assert not cli.main(words("3", tmp_path / "grades.csv"))
