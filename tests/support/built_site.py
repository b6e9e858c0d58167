"""The website as `make book` has built it, or lies in ATTNBOOK_SITE, for the tests that ask it."""

import os
import re
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from toc import pages

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("ATTNBOOK_SITE", ROOT / "_build/html")).resolve()
FILES = pages(ROOT)
CHAPTERS = [file for file in FILES if re.match(r"book/\d\d-", file)]

built = pytest.mark.skipif(  # where a browser is required, so is the site: its tests fail then
    not (SITE / "index.html").exists() and os.environ.get("ATTNBOOK_REQUIRE_BROWSER") != "1",
    reason=f"there is no site in {SITE}: make book",
)
todays_theme = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="the lock of Python 3.10 has an older theme"
)


@lru_cache(maxsize=32)
def read(page):
    """A page of the site, parsed."""
    return BeautifulSoup((SITE / f"{page}.html").read_text("utf-8"), "html.parser")
