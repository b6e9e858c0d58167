"""Explorable: nine training runs without their names; look at the instruments and say the fault."""

import math
from collections.abc import Iterator
from typing import Any

from bookkit.experiments.clinic.faults import FAULTS
from bookkit.explore.element import Explorable
from bookkit.explore.inside import SIGNS
from bookkit.explore.still import Still
from bookkit.results.stored_run import stored_run

# Who lies in which bed, and what stands beside "not yet" and "tell me" among the answers.
PATIENTS = (
    "shifted-mask",
    "no-warm-up",
    "rate-low",
    "too-little-text",
    "loud-start",
    "healthy",
    "never-zeroed",
    "same-target",
    "rate-high",
)
OPEN = ("none", "tell")
TITLES = {"healthy": "nothing: it is healthy"} | {name: one.title for name, one in FAULTS.items()}
ANSWERS = {
    "healthy": "healthy",
    "rate-high": "rate too high",
    "rate-low": "rate too low",
    "no-warm-up": "no warm-up",
    "loud-start": "weights too large",
    "shifted-mask": "mask leaks",
    "same-target": "target not shifted",
    "never-zeroed": "never zeroed",
    "too-little-text": "too little text",
}
LOSSES = (0.0, 6.0, math.log(94))
# reading: what it is called, its lowest and highest value, a mark; logarithmic where lowest > 0
INSTRUMENTS: dict[str, tuple[str, float, float, float | None]] = {
    "loss": ("batch loss", *LOSSES),
    "held out": ("held-out loss", *LOSSES),
    "in use": ("prefix loss", *LOSSES),
    "gradient": ("gradient norm", 0.01, 30.0, 1.0),
    "update": ("update / weight", 1e-5, 1.0, 1e-3),
    "stream": ("activation scale", 0.1, 200.0, None),
    "entropy": ("attention entropy", 0.0, 1.0, None),
    "dead": ("dead units", 0.0, 0.5, None),
    "rate": ("learning rate", 1e-6, 0.3, None),
}
LEVELS = len(SIGNS) - 1
SEEDS = 2


def height(reading: str, value: float) -> float:
    """Where a value stands between the foot and the top of its panel, 0 to 1."""
    _, low, high, _ = INSTRUMENTS[reading]
    if low > 0:
        share = math.log(max(value, low) / low) / math.log(high / low)
    else:
        share = (value - low) / (high - low)
    return min(1.0, max(0.0, share))


def short(value: float) -> str:
    """Two significant digits: 4.7, 0.13, 86, 0.00024."""
    if value == 0:
        return "0"
    digits = max(0, 1 - math.floor(math.log10(value * (1 + 1e-12))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class Clinic(Explorable):
    """The dashboard of one of nine training runs of a small language model, eight of them sick.

    `patient` is a place in `PATIENTS`, `guess` a name of `FAULTS`, "healthy", "none" as long as
    nothing has been said, or "tell". The learning rate is shown once there is a guess. From the
    stored run of `results/clinic.py`.
    """

    tag = "clinic"
    needs = ()
    question = "Eight of these nine runs are sick. What is wrong with this one?"

    def __init__(self, patient: int = 0, guess: str = "none"):
        if not 0 <= patient < len(PATIENTS) or guess not in (*OPEN, *TITLES):
            raise ValueError(
                f"patients are 0 to {len(PATIENTS) - 1} and guesses "
                f"{', '.join((*OPEN, *TITLES))}; got {patient} and {guess!r}"
            )
        self.begin: dict[str, Any] = {"patient": patient, "seed": 0, "guess": guess}
        self.runs: dict[str, list[dict[str, list[float]]]] = stored_run("clinic")["runs"]

    def start(self) -> dict:
        return dict(self.begin)

    def line(self, patient: int, seed: int, reading: str) -> list[int]:
        """The heights of all readings, in steps of 1/63."""
        values = self.runs[PATIENTS[patient]][seed][reading]
        return [round(LEVELS * height(reading, value)) for value in values]

    def ends(self, patient: int, seed: int) -> list[list[str]]:
        """The first and the last number of each instrument."""
        found = self.runs[PATIENTS[patient]][seed]
        return [[short(found[name][0]), short(found[name][-1])] for name in INSTRUMENTS]

    def coded(self, patient: int, seed: int) -> str:
        """The lines of all instruments, a sign for each reading."""
        lines = [self.line(patient, seed, name) for name in INSTRUMENTS]
        return "".join(SIGNS[n] for line in lines for n in line)

    def fixed(self) -> dict:
        told = {
            name: [list(INSTRUMENTS).index(one.tells), f"{one.sign} Cure: {one.cure}"]
            for name, one in FAULTS.items()
        }
        runs = [
            [[self.coded(n, seed), self.ends(n, seed)] for n in range(len(PATIENTS))]
            for seed in range(SEEDS)
        ]
        marks = [mark and round(height(name, mark), 3) for name, (*_, mark) in INSTRUMENTS.items()]
        names = [one[0] for one in INSTRUMENTS.values()]
        return {"patients": PATIENTS, "titles": TITLES, "told": told, "names": names} | {
            "answers": ANSWERS,
            "marks": marks,
            "runs": runs,
        }

    def result(self, state: dict) -> dict:
        """The lines of all instruments, as heights from 0 to 1, their ends, and the verdict."""
        patient, seed, guess = state["patient"], state["seed"], state["guess"]
        verdict = {"none": "open", "tell": "told", PATIENTS[patient]: "right"}.get(guess, "wrong")
        return {
            "lines": [[n / LEVELS for n in self.line(patient, seed, r)] for r in INSTRUMENTS],
            "ends": self.ends(patient, seed),
            "verdict": verdict,
        }

    def cases(self) -> Iterator[dict]:
        for patient in range(len(PATIENTS)):
            yield {"patient": patient, "seed": patient % SEEDS}
            yield {"patient": patient, "guess": PATIENTS[patient]}
        yield {"guess": "rate-high"}
        yield {"patient": 3, "guess": "tell"}

    def picture(self) -> str:
        """Eight panels: this run dark, the healthy one pale."""
        state, picture = self.start(), Still(640, 330, self.sentence())
        healthy = PATIENTS.index("healthy")
        shown = [name for name in INSTRUMENTS if name != "rate"]
        ends = self.ends(state["patient"], state["seed"])
        for place, name in enumerate(shown):
            x, y = 8 + 158 * (place % 4), 8 + 162 * (place // 4)
            picture.text(x, y + 14, INSTRUMENTS[name][0], anchor="start", bold=True)
            first, last = ends[place]
            picture.text(x, y + 32, f"{first} → {last}", "muted", "start", 13)
            self.panel(picture, (x, y + 42), name, healthy, state["seed"])
            self.panel(picture, (x, y + 42), name, state["patient"], state["seed"])
        return picture.svg()

    def panel(
        self, picture: Still, corner: tuple[int, int], name: str, patient: int, seed: int
    ) -> None:
        """One line of one panel, 140 × 90, with its mark."""
        (x, y), line = corner, self.line(patient, seed, name)
        pale = PATIENTS[patient] == "healthy" and self.begin["patient"] != patient
        mark = INSTRUMENTS[name][3]
        if pale or mark is None:
            picture.line([(x, y + 90), (x + 140, y + 90)])
        if mark is not None:
            foot = y + 90 - 90 * height(name, mark)
            picture.line([(x, foot), (x + 140, foot)], "line", 1, "3 3")
        apart = 140 / (len(line) - 1)
        points = [(x + apart * i, y + 90 - 90 * n / LEVELS) for i, n in enumerate(line)]
        picture.line(points, "muted" if pale else "gradient", 1.4 if pale else 2.4)

    def sentence(self) -> str:
        state = self.start()
        last = self.ends(state["patient"], state["seed"])[1][1]
        well = self.ends(PATIENTS.index("healthy"), state["seed"])[1][1]
        return (
            f"Patient {'ABCDEFGHI'[state['patient']]} ends at a held-out loss of {last} nats, the "
            f"healthy run at {well}. What is it?"
        )
