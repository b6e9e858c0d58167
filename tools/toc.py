"""The pages of the book in their order, from `_toc.yml`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml


def pages(root: Path) -> list[str]:
    """The first page, then all others, those below a page too: paths without their ending."""
    toc = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))
    return [toc["root"], *below(toc["parts"])]


def below(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The pages of these entries, and those below them."""
    for entry in entries:
        yield from filter(None, [entry.get("file")])
        yield from below(entry.get("chapters", []) + entry.get("sections", []))
