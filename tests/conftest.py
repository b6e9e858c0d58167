"""What all tests share: one thread, no display, the same examples in every run."""

import os
import shutil
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


@pytest.fixture(scope="session")
def need():
    """`need(condition, reason)` skips, or fails where the browser checks are required."""
    required = os.environ.get("ATTNBOOK_REQUIRE_BROWSER") == "1"

    def check(condition, reason):
        if not condition:
            (pytest.fail if required else pytest.skip)(reason)

    return check


@pytest.fixture(scope="session")
def chromium(need):
    """This machine's Chromium, driven by playwright, without its calls home."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    need(program, "no Chromium on this machine: install one or name it in CHROMIUM")
    api = pytest.importorskip("playwright.sync_api")
    silent = ["background-networking", "component-update", "gpu", "quic", "sync"]
    flags = ["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in silent)]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()
