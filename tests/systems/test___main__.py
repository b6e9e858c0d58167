"""`python -m attnbook` is the command `attnbook`: torchrun starts a module, not a command."""

import os
import runpy
import subprocess
import sys

import pytest


def test_the_module_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attnbook", "train", "lm", "--width", "wide", "--out", "x"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("attnbook", run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_help_is_there_at_once():
    """Torch, which takes seconds to import, is left to the commands that compute."""
    program = "import sys; from attnbook import cli; cli.parser(); print('torch' in sys.modules)"
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "False\n"
