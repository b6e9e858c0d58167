"""Where the tests find downloaded corpora: in the folder that `ATTNBOOK_DATA` names."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def real_data():
    """The folder of real corpora; a test that asks for it is skipped where there is none."""
    folder = os.environ.get("ATTNBOOK_DATA")
    if not folder:
        pytest.skip("set ATTNBOOK_DATA to a folder with the files of attnbook.data.registry")
    assert Path(folder).is_dir(), f"ATTNBOOK_DATA names {folder!r}, which is no folder"
    return Path(folder)
