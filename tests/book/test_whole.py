"""The website is built once, and again as soon as any file is another."""

import subprocess
import sys

import pytest


@pytest.fixture
def whole(root, tmp_path):
    """Asks, in a repository with one page that was built and noted."""

    def ask(*arguments):
        command = [sys.executable, root / "tools/whole.py", *arguments]
        return subprocess.run(command, cwd=tmp_path).returncode == 0

    (tmp_path / "page.md").write_text("# Page\n")
    (tmp_path / ".gitignore").write_text("_build\n")
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "_build/html").mkdir(parents=True)
    (tmp_path / "_build/html/index.html").write_text("built")
    assert not ask()  # not noted
    assert ask("--note") and ask() and not ask("whole")
    assert ask("--note", "whole") and ask() and ask("whole")
    return ask


def test_what_git_ignores_changes_nothing(whole, tmp_path):
    (tmp_path / "_build/html/other.html").write_text("built")
    assert whole() and whole("whole")


@pytest.mark.parametrize("name", ["page.md", "new.md", "_build/html/index.html"])
def test_a_file_that_changed_came_or_went_does(whole, tmp_path, name):
    path = tmp_path / name
    if path.suffix == ".html":
        path.unlink()
    else:
        path.write_text("# Another\n")
    assert not whole() and not whole("whole")


def test_without_git_it_is_never_whole(whole, tmp_path):
    (tmp_path / ".git").rename(tmp_path / "_build/git")
    assert not whole() and not whole("whole")
    assert whole("--note") and not whole()
    assert whole("--note", "whole") and not whole("whole")
