"""The repository's address stands in `_config.yml`, and everything that repeats it follows."""

import json
import shutil
import subprocess

import pytest
import set_repository

NEW = "/".join(["https://github.com", "a-faculty", "attention-2027"])  # not to be found as a text


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


def test_there_and_back_changes_nothing(copy):
    texts = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    old = set_repository.configured(copy)
    set_repository.set_repository(NEW, root=copy)
    set_repository.set_repository(old, root=copy)
    assert not [path for path, text in texts.items() if path.read_bytes() != text]


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
