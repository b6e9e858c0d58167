"""By how much two results differ, number by number."""

from dataclasses import dataclass, field
from typing import Any

from bookkit.results.ledger.records import leaves

OWN = ("provenance", "seconds", "training_seconds", "cpu_seconds")  # differ from machine to machine


@dataclass
class Comparison:
    """What two results have in common, and where they differ.

    `numbers` pairs each place with the stored and the new number, the largest relative difference
    first; `words` are places where something else than a number differs; `lost` and `new` are
    places that only the stored, or only the new one has.
    """

    equal: int = 0
    numbers: list[tuple[str, float, float]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.equal} values are equal"]
        if self.numbers:
            lines.append(f"{len(self.numbers)} numbers differ; by most, stored → now:")
            for place, old, now in self.numbers[:5]:
                lines.append(f"  {place}: {old:g} → {now:g} ({100 * apart(old, now):.2g} %)")
        for said, places in (
            ("words differ", self.words),
            ("values were not made again", self.lost),
            ("values are new", self.new),
        ):
            if places:
                lines.append(f"{len(places)} {said}: {', '.join(places[:3])}")
        return "\n".join(lines)


def apart(old: float, now: float) -> float:
    """The difference of two numbers as a share of the larger."""
    return abs(old - now) / max(abs(old), abs(now), 1e-12)


def compare(stored: dict[str, Any], again: dict[str, Any]) -> Comparison:
    """Compare two results; where they come from and how long they took is left out."""
    old, now = (
        {place: value for place, value in leaves(data) if not set(place.split(".")) & set(OWN)}
        for data in (stored, again)
    )
    found = Comparison(
        lost=[place for place in old if place not in now],
        new=[place for place in now if place not in old],
    )
    for place in old.keys() & now.keys():
        one, other = old[place], now[place]
        if one == other:
            found.equal += 1
        elif all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (one, other)):
            found.numbers.append((place, float(one), float(other)))
        else:
            found.words.append(place)
    found.numbers.sort(key=lambda entry: -apart(*entry[1:]))
    return found
