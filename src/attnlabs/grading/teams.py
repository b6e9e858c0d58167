"""Which team of lab 13 has handed a file in.

A team is who the platform says has handed in, and may go by several names: members who hand in for
it, a name that is written in two ways. `names.csv`, in the folder of the plants, has a line for
each name; a lecturer writes the team's beside it, and all commands of the contest go by that.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from attnbook.files import store
from attnlabs.grading.roster import alike
from attnlabs.grading.submissions import Submission, groups, named
from attnlabs.grading.written import lines, safe, table

FILE = "names.csv"
COLUMNS = ["name", "team", "handed in"]
EXCEL = "\ufeff"  # as in other tables


class Teams:
    """The teams by the names that hand in, as the table in a folder has them."""

    def __init__(self, place: Path) -> None:
        self.path = place / FILE
        known = lines(self.path, COLUMNS[:2]) if self.path.exists() else ()
        self.lines = {
            key(line["name"]): {name: line.get(name, "").strip() for name in COLUMNS}
            for _, line in known
            if line["name"].strip()
        }

    def of(self, name: str) -> str:
        """The team of a name; the name itself if the table says nothing else."""
        seen = set[str]()
        while (at := key(name)) in self.lines and at not in seen:
            seen.add(at)
            name = self.lines[at]["team"] or self.lines[at]["name"]
        spelt = (line["team"] for line in self.lines.values())
        return next((team for team in spelt if key(team) == key(name)), name)

    def each(self, found: Sequence[Submission], what: str) -> list[tuple[Submission, str]]:
        """Each file and its team; what several members of it have handed in is there once."""
        pairs = dict[tuple[str, bytes | None], tuple[Submission, str]]()
        for one, team in zip(found, self.handed_in(found, what), strict=True):
            pairs.setdefault((team, one.content), (one, team))
        return list(pairs.values())

    def handed_in(self, found: Sequence[Submission], what: str) -> list[str]:
        """The team of each file; names that are new get a line in the table."""
        names, members = named(found), groups(found)
        for name in names:
            line = self.lines.setdefault(
                key(name), {"name": safe(name), "team": members.get(name, ""), "handed in": ""}
            )
            kinds = line["handed in"].split(", ") if line["handed in"] else []
            line["handed in"] = ", ".join(dict.fromkeys([*kinds, what]))
        rows = [[line[column] for column in COLUMNS] for line in self.lines.values()]
        store(self.path, EXCEL + table(COLUMNS, rows))
        return [self.of(name) for name in names]


def key(name: str) -> str:
    """The same for names that are told apart by capitals, spaces or a spreadsheet alone."""
    return alike(" ".join(safe(name).split()))


def alone(what: Mapping[str, Iterable[str]], path: Path) -> list[str]:
    """What to tell of teams that have handed in one thing and not the other, {"a plant": teams}."""
    found = [f"{kind}: {', '.join(names)}" for kind, each in what.items() if (names := list(each))]
    return [*found, f"if two of these names are one team, say so in {path}"] if found else []
