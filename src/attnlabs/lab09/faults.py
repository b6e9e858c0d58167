"""Eight faults of the ward's runs, three strengths of each, and which ones a student gets."""

import hashlib
from dataclasses import dataclass

from attnlabs.lab09.settings import Settings, changed

WELL = 1.0  # nats: a run whose loss in use ends at most here counts as well


@dataclass(frozen=True)
class Fault:
    """`setting` is what is ill, and `values` how ill it may be; `title` is the diagnosis."""

    title: str
    setting: str
    values: tuple[float, ...]


FAULTS: dict[str, Fault] = {
    "rate-high": Fault("learning rate too high", "rate", (0.1, 0.15, 0.2)),
    "rate-low": Fault("learning rate too low", "rate", (1e-4, 2e-4, 4e-4)),
    "decay-strong": Fault("weight decay too strong", "decay", (4.0, 8.0, 16.0)),
    "loud-start": Fault("first weights too large", "scale", (5.0, 6.0, 8.0)),
    "shifted-mask": Fault("mask lets the next letter through", "diagonal", (1.0,)),
    "same-target": Fault("target not shifted", "shift", (0.0,)),
    "never-zeroed": Fault("gradients never set to zero", "zeroed", (0.0,)),
    "too-little-text": Fault("too little training text", "characters", (200.0, 250.0, 300.0)),
}
NAMES = ("healthy", *FAULTS)  # a diagnosis's number is its place in here
TITLES = {"healthy": "nothing wrong"} | {name: fault.title for name, fault in FAULTS.items()}
RUNS, KINDS, SEEDS = 8, 6, 6


@dataclass(frozen=True)
class Patient:
    """One run: the name of its fault or "healthy", how strong it is, and the run's seed."""

    name: str
    strength: int
    seed: int

    @property
    def settings(self) -> Settings:
        """The settings it is trained with."""
        if self.name == "healthy":
            return Settings()
        fault = FAULTS[self.name]
        return changed(Settings(), fault.setting, fault.values[self.strength])


def drawn(student: str) -> list[Patient]:
    """The eight runs of one student, by a hash: one healthy; six faults, one of them twice.

    The same student always gets the same ones, so nothing has to be stored.
    """

    def number(word: str) -> int:
        digest = hashlib.sha256(f"ward/{student}/{word}".encode()).digest()
        return int.from_bytes(digest[:8], "big")

    kinds = sorted(FAULTS, key=number)[:KINDS]
    twice = kinds[number("twice") % KINDS]
    beds = [*kinds, f"{twice}+", "healthy"]
    found = []
    for bed in sorted(beds, key=lambda bed: number(f"order/{bed}")):
        name = bed.rstrip("+")
        strengths = len(FAULTS[name].values) if name in FAULTS else 1
        seed = number(f"{bed}/seed") % SEEDS
        if bed.endswith("+"):  # the second of a kind differs at least in its seed
            seed = (number(f"{name}/seed") + 1 + number(f"{bed}/seed") % (SEEDS - 1)) % SEEDS
        found.append(Patient(name, number(f"{bed}/strength") % strengths, seed))
    return found
