"""The command `attnbook`: what it writes, and one line when it cannot."""

from attnbook import cli


def test_release_writes_the_student_s_copy(root, tmp_path, capsys):
    words = ["labs", "release", "3", "--to", str(tmp_path), "--labs", str(root / "labs")]
    assert not cli.main(words)
    (path,) = tmp_path.iterdir()
    assert capsys.readouterr().out.strip() == str(path)
    assert "SOLUTION" not in path.read_text(encoding="utf-8")


def test_an_empty_folder_is_no_class(root, tmp_path, capsys):
    assert cli.main(["labs", "grade", "3", str(tmp_path), "--labs", str(root / "labs")]) == 1
    assert "there are no files" in capsys.readouterr().err


def test_wrong_arguments_are_one_line(capsys, tmp_path):
    assert cli.main(["labs", "release", "9", "--to", str(tmp_path), "--labs", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "lab 9" in told
