"""`python -m attnbook` is the command `attnbook`: torchrun starts a module, not a command."""

import runpy
import sys

import pytest


def test_the_module_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attnbook", "train", "lm", "--width", "wide", "--out", "x"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("attnbook", run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
