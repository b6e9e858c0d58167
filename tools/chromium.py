"""This machine's Chromium, for what the website is printed with: book, slides, cards."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
SILENT = ("background-networking", "component-update", "gpu", "quic", "sync")


def program() -> str:
    """Its path: CHROMIUM, or what is found under one of the usual names."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        raise SystemExit("no Chromium on this machine: install one or name it in CHROMIUM")
    return found


@contextmanager
def browser() -> Iterator["Browser"]:
    """A browser that asks nobody for anything; it ends with the block."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--no-first-run", "--allow-file-access-from-files"]
    flags += [f"--disable-{name}" for name in SILENT]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program(), args=flags)
        yield opened
        opened.close()


def say(text: str, last: bool = False) -> None:
    """A line of progress: over the last one in a terminal, below it in a log."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="\n" if last else "", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def site_of(path: Path) -> Path:
    """The built website, or an error that says how to build it."""
    if not (path / "search.html").exists():
        raise SystemExit(f"there is no website in {path}; first: make book")
    return path.resolve()
