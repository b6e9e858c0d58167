"""A measured number says where it comes from."""

import json
import subprocess
import sys

import pytest
import torch

from attnbook import device, provenance

HERE = device.Here(torch.device("cpu"), torch.float32, "cpu")


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A script in a fresh checkout, as the program that is running."""
    path = tmp_path / "results" / "run.py"
    path.parent.mkdir()
    path.write_text("")
    monkeypatch.setattr(sys, "argv", [str(path), "--text", "two words", "--out", "/a/place/here"])
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], [*name, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return path


def test_the_command_can_be_given_again_from_the_top_of_the_checkout(script):
    found = provenance.provenance(HERE)
    assert found["command"] == "python results/run.py --text 'two words' --out here"
    assert found["device"] == str(HERE) and found["versions"] == {"torch": torch.__version__}


def test_what_was_not_committed_is_said(script):
    clean = provenance.provenance(HERE)["commit"]
    assert clean and not clean.endswith("-dirty")
    script.write_text("changed = True")
    assert provenance.provenance(HERE)["commit"] == f"{clean}-dirty"


def test_outside_of_a_checkout_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "run.py")])
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance.provenance(HERE)["commit"] == "not in a git checkout"


def test_versions_are_those_that_are_installed(script):
    assert set(provenance.provenance(HERE, "numpy")["versions"]) == {"torch", "numpy"}


def test_a_result_is_stored_as_json_in_a_new_folder(tmp_path):
    path = tmp_path / "a" / "b.json"
    provenance.write(path, {"loss": 1.5, "text": "∞"})
    assert json.loads(path.read_text("utf-8")) == {"loss": 1.5, "text": "∞"}
    assert list(path.parent.iterdir()) == [path]
