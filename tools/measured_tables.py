"""The tables that `bookkit.page.measured` has left in a notebook's stored outputs.

    python tools/measured_tables.py NOTEBOOK...

writes the means of each notebook's tables to src/bookkit/page/stored/, so that the package can show
them on Colab beside what was measured there. `tools/execute.py` does it, too.
"""

import json
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
STORED = ROOT / "src/bookkit/page/stored"
Table = dict[str, list[tuple[str, float]]]  # row → its mean, then each seed: as shown, exact


class Tables(HTMLParser):
    """Collects {name: {row: (mean, [each seed])}}, texts as they are shown."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, Table] = {}
        self.ends: dict[str, dict[str, str]] = {}  # of intervals, by table and row
        self.rows: Table | None = None
        self.row: str | None = None
        self.text: str | None = None
        self.interval = False  # in a cell whose numbers are those of an interval

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        known = dict(attributes)
        if tag == "table" and known.get("class") == "measured":
            name = known.get("data-name")
            self.rows = {} if name is None else self.found.setdefault(name, {})
            self.between = self.ends.setdefault(name or "", {})
        elif self.rows is not None and tag == "th" and known.get("scope") == "row":
            self.text = ""
        elif tag in ("td", "small"):
            if tag == "td" and (one := known.get("data-row")) and self.rows is not None:
                self.row, self.rows[one] = one, []  # of a matrix
            self.interval = known.get("class") == "interval"
            self.text = "" if self.interval else None
        elif tag == "data" and self.row is not None and not self.interval:
            self.text, self.value = "", float(known["value"] or "nan")
            self.title = known.get("title")  # of a dot

    def handle_data(self, data: str) -> None:
        if self.text is not None:
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        rows, row, text = self.rows, self.row, self.text
        if tag == "th" and rows is not None and text is not None:
            self.row, self.text = text, None
        elif tag in ("td", "small") and self.interval and row is not None:
            self.between[row], self.text, self.interval = text or "", None, False
        elif tag == "data" and row is not None and text is not None and not self.interval:
            if rows is not None:
                rows.setdefault(row, []).append((self.title or text, self.value))
            self.text = None
        elif tag == "tr":
            self.row = None
        elif tag == "table":
            self.rows = None


def tables(path: str | Path) -> dict[str, Table]:
    """The measured tables in a notebook's stored outputs that have a name."""
    found: dict[str, Table] = {}
    for reader in readers(path):
        twice = reader.found.keys() & found.keys()
        if twice:
            raise ValueError(f"{path}: two tables are called {twice.pop()!r}")
        found |= reader.found
    return found


def intervals(path: str | Path) -> dict[str, dict[str, str]]:
    """The intervals of these tables' rows, as they are shown: "0.95 to 1.00"."""
    found: dict[str, dict[str, str]] = {}
    for reader in readers(path):
        found |= reader.ends
    return found


def readers(path: str | Path) -> Iterator[Tables]:
    """What was read in each stored output that is a measured table."""
    for cell in json.loads(Path(path).read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            text = "".join(output.get("data", {}).get("text/html", ""))
            if '<table class="measured"' in text:
                reader = Tables()
                reader.feed(text)
                yield reader


def store(path: str | Path, folder: str | Path = STORED) -> None:
    """Write the package's copy of a notebook's means, or remove it where there are none."""
    means = {
        name: {row: numbers[0][0] for row, numbers in rows.items()}
        for name, rows in tables(path).items()
    }
    target = Path(folder) / f"{Path(path).stem}.json"
    if means:
        target.parent.mkdir(exist_ok=True)
        text = json.dumps(means, ensure_ascii=False, indent=1, sort_keys=True)
        target.write_text(text + "\n", encoding="utf-8")
    else:
        target.unlink(missing_ok=True)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        store(argument)
