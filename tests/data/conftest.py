"""Where the tests find downloaded corpora: `ATTNBOOK_DATA`, or a folder beside the repository."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def real_data(monkeypatch):
    """The folder of real corpora; a test that asks for it is skipped where there is none."""
    folder = Path(os.environ.get("ATTNBOOK_DATA") or BESIDE)
    if not folder.is_dir():
        pytest.skip("no downloaded corpora here: ATTNBOOK_DATA names no folder")
    monkeypatch.setenv("ATTNBOOK_DATA", str(folder))
    return folder
