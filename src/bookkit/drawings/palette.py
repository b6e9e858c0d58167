"""The book's palette, read from the drawings' style sheet: one colour for each role."""

import re
from importlib.resources import files

CSS = files("bookkit.drawings").joinpath("style.css").read_text(encoding="utf-8")


def colours(block: str) -> dict[str, str]:
    """The colour of each role that a block of the sheet names: `--d-query: #17539B`."""
    return dict(re.findall(r"--d-(\w+): (#[0-9A-F]{6})", block))


LIGHT, DARK = (colours(block) for block in re.findall(r"\.drawing \{(.*?)\}", CSS, re.S)[:2])
ROLES = ("query", "key", "value", "weight", "output", "position", "state", "gradient")
