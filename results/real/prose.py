"""Text that no published model has read: the prose of chapters of this book, as of one commit."""

import json
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMIT = "1b787c3"  # its chapters do not change when the book does
CHAPTERS = (
    "03-queries-keys-values", "06-the-transformer", "08-vision-transformers", "09-modern-tweaks",
    "10-the-cost-of-attention", "12-why-it-works", "15-recurrence-returns",
)  # fmt: skip


@cache
def prose(chapters: tuple[str, ...] = CHAPTERS) -> str:
    """The paragraphs of these chapters, without formulas, boxes and references."""
    found = []
    for chapter in chapters:
        path = f"{COMMIT}:book/{chapter}.ipynb"
        shown = subprocess.run(["git", "show", path], cwd=ROOT, capture_output=True, check=True)
        cells = json.loads(shown.stdout)["cells"]
        for cell in cells:
            if cell["cell_type"] == "markdown":
                found += paragraphs("".join(cell["source"]))
    return "\n\n".join(found)


def paragraphs(source: str) -> list[str]:
    """The paragraphs of plain prose in a cell: sixty characters or more, only words."""
    source = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", source.replace("**", ""))
    whole = [part.strip() for part in source.split("\n\n")]
    odd = ("#", ":", "(", "<", "|", "-", "$")
    return [
        p for p in whole if len(p) > 60 and not p.startswith(odd) and not re.search(r"[${}\\]", p)
    ]
