"""The repository's address stands in `_config.yml`, and everything that repeats it follows."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import set_repository

pytestmark = pytest.mark.slow

HOST, OWNER = "https://github.com", "a-faculty"
NEW = f"{HOST}/{OWNER}/attention-2027"
NEW_AT_THE_TOP = f"{HOST}/{OWNER}/{OWNER}.github.io"  # GitHub publishes it without a path


@pytest.fixture
def copy(root, tmp_path):
    """The tracked files as they are now, in a repository of their own."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=root, text=True)
    for name in filter(None, listed.split("\0")):
        if (root / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, tmp_path / name)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def naming(root, address):
    """Tracked files with any form of the address in them."""
    words = [word for form in set_repository.forms(address) for word in ("-e", form)]
    found = subprocess.run(
        ["git", "grep", "-l", "-F", *words], cwd=root, stdout=subprocess.PIPE, text=True
    )
    return set(found.stdout.split())


def test_everything_follows_the_new_address(copy):
    old = set_repository.configured(copy)
    before = naming(copy, old)
    assert {"_config.yml", "README.md", "CITATION.cff"} <= before
    changed = {
        str(path.relative_to(copy)) for path in set_repository.set_repository(NEW, root=copy)
    }
    assert changed == before
    assert naming(copy, old) == set()
    assert naming(copy, NEW) == before
    assert set_repository.configured(copy) == NEW


@pytest.mark.parametrize("new", [NEW, NEW_AT_THE_TOP])
def test_there_and_back_changes_nothing(new, copy):
    texts = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    old = set_repository.configured(copy)
    set_repository.set_repository(new, root=copy)
    assert set_repository.configured(copy) == new
    set_repository.set_repository(old, root=copy)
    assert not [path for path, text in texts.items() if path.read_bytes() != text]


def test_the_website_of_a_repository_named_like_its_owner_has_no_path(copy):
    set_repository.set_repository(NEW_AT_THE_TOP, root=copy)
    citation = (copy / "CITATION.cff").read_text(encoding="utf-8")
    assert f"url: https://{OWNER}.github.io\n" in citation
    set_repository.set_repository(f"{HOST}/Other/{OWNER}.github.io", root=copy)
    citation = (copy / "CITATION.cff").read_text(encoding="utf-8")
    assert f"repository-code: {HOST}/Other/{OWNER}.github.io\n" in citation
    assert f"url: https://Other.github.io/{OWNER}.github.io\n" in citation


def test_a_neighbour_with_a_similar_name_is_left_alone(copy):
    old = set_repository.configured(copy)
    others = f"{old}-labs {old}.github.io not-{old.split('/', 3)[3].replace('/', '.github.io/')}"
    (copy / "README.md").write_text(f"{others} {old}.git {old}. {old}")
    set_repository.set_repository(NEW, root=copy)
    assert (copy / "README.md").read_text() == f"{others} {NEW}.git {NEW}. {NEW}"


def test_a_tracked_file_that_is_missing_stops_it_before_anything_is_written(copy):
    notebook = min(copy.glob("book/*.ipynb"))
    notebook.unlink()
    texts = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=f"{notebook.name}, which is not there"):
        set_repository.set_repository(NEW, root=copy)
    assert not [path for path, text in texts.items() if path.read_bytes() != text]


def test_what_was_interrupted_is_finished_by_the_same_command(copy, monkeypatch):
    old = set_repository.configured(copy)
    before, write = naming(copy, old), Path.write_bytes

    def full(path, content):
        if path.name == "README.md":
            raise OSError("No space left on device")
        write(path, content)

    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(Path, "write_bytes", full)
        set_repository.set_repository(NEW, root=copy)
    set_repository.set_repository(NEW, root=copy)
    assert naming(copy, old) == set() and naming(copy, NEW) == before


def test_outside_git_one_sentence_says_what_to_do(copy):
    shutil.rmtree(copy / ".git")
    tool = Path(set_repository.__file__)
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(copy.parent)}
    answer = subprocess.run(
        [sys.executable, tool, NEW], cwd=copy, env=environment, capture_output=True, text=True
    )
    assert answer.returncode != 0 and answer.stderr.count("\n") == 1
    assert "git init" in answer.stderr and "Traceback" not in answer.stderr


def test_only_the_configured_address_is_named(root):
    """A notebook, the README or the citation that names another repository of ours is stale."""
    address = set_repository.configured(root)
    for path in sorted(root.glob("book/*.ipynb")):
        source = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
        assert source.count("git+https://") == source.count(f"git+{address}") == 1
    assert f"{address}\n" in (root / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "github.com/a/b",
        "https://github.com/a",
        f"{NEW}.git",
        f"{NEW}/",
        "https://gitlab.com/a/b",
    ],
)
def test_a_wrong_address_changes_nothing(address, copy):
    before = (copy / "_config.yml").read_bytes()
    with pytest.raises(ValueError, match="not of the form"):
        set_repository.set_repository(address, root=copy)
    assert (copy / "_config.yml").read_bytes() == before
