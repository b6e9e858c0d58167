"""What all tests share: one thread, no display, the same examples in every run."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("book", deadline=None, derandomize=True)
settings.load_profile("book")


@pytest.fixture(scope="session")
def root():
    """The top folder of the repository."""
    return Path(__file__).parents[1]
