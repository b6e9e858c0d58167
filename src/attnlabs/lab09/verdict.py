"""Judges the two answers about a ward: the diagnoses, and the cures with their numbers.

The runs are trained once more; what a student measured is compared with what comes out here.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence

from attnlabs import errors
from attnlabs.inside.fingerprints import Outcome
from attnlabs.lab09 import faults, settings
from attnlabs.lab09.faults import FAULTS, TITLES, WELL, Patient, drawn
from attnlabs.lab09.settings import Settings, changed
from attnlabs.lab09.signs import against
from attnlabs.lab09.training import ends, examine, in_use

NEAR = 0.02  # nats: for numbers that were typed in, and for another machine
DIGITS = (
    6  # of a setting: a number in float32 is the one that was written, 0.01 and not 0.0099999998
)
MOST = {"diagnosis": 2, "cure": 3}  # runs that can have the same name, or the same setting ill
COUNT = {"diagnosis": 1, "cure": 4}  # numbers of an answer
Judged = tuple[float, tuple[str, ...], str]  # share, names of mistakes, sentences


def numbers(result: Outcome, count: int) -> list[float]:
    """An answer as so many finite numbers; empty if it is something else."""
    if isinstance(result, str):
        return []
    flat = [float(value) for part in result for value in part.ravel()[: count + 1]]
    return flat if len(flat) == count and all(map(math.isfinite, flat)) else []


def place(number: float, names: Sequence[str]) -> str:
    """The name in that place, or "" if there is none."""
    return names[int(number)] if number in range(len(names)) else ""


def judged(name: str, student: str, results: Sequence[Outcome]) -> Judged:
    """The share of the points, the mistakes by name, and a sentence for each run that has one."""
    patients, ways = drawn(student), {"diagnosis": diagnosis, "cure": cure}
    answers = [numbers(result, COUNT[name]) for result in results]
    first = Counter(answer[0] for answer in answers if answer)
    shares, wrong, lines = [], [], []
    for number, (patient, answer) in enumerate(zip(patients, answers, strict=True), start=1):
        share, mistake, words = ways[name](patient, answer)
        guessed = bool(answer) and first[answer[0]] > MOST[name]
        if guessed:
            share, mistake, words = 0.0, "guessed", ""
        shares.append(share)
        wrong += [mistake] if mistake else []
        lines += [f"Run {number}: {words}."] if words else []
    if "guessed" in wrong:
        lines.insert(0, GUESSED[name])
    right = sum(share == 1 for share in shares)
    head = "right: all 8 runs." if right == len(shares) else f"{right} of 8 runs are right."
    return sum(shares) / len(shares), tuple(dict.fromkeys(wrong)), " ".join([head, *lines])


GUESSED = {
    "diagnosis": "A name that is given to more than two runs counts for none of them, since no "
    "fault is there so often.",
    "cure": "A setting that is changed in more than three runs counts for none of them, since none "
    "is ill so often.",
}
Way = Callable[[Patient, list[float]], tuple[float, str, str]]


def diagnosis(patient: Patient, answer: list[float]) -> tuple[float, str, str]:
    """Share, mistake and words about the name given to one run."""
    if not answer:
        return 0.0, "no-number", "one of the handed-out names is needed"
    claimed = place(answer[0], faults.NAMES)
    if not claimed:
        return 0.0, "no-name", f"{answer[0]:g} is none of the handed-out names"
    if claimed == patient.name:
        return 1.0, "", ""
    why = against(claimed, examine(patient.settings, patient.seed))
    return 0.0, f"not-{claimed}", f"not “{TITLES[claimed]}”: {why}"


def cure(patient: Patient, answer: list[float]) -> tuple[float, str, str]:
    """Share, mistake and words about one run's change, and the numbers before and after it."""
    if not answer:
        return 0.0, "no-number", "four numbers are needed: setting, value, before, after"
    number, value, before, after = answer
    value = float(f"{value:.{DIGITS}g}")
    name, seed = place(number, settings.NAMES), patient.seed
    if not name:
        return 0.0, "no-setting", f"{number:g} is none of the handed-out settings"
    if name == "nothing":
        if patient.name != "healthy":
            return 0.0, "untreated", "it is ill, and nothing is changed"
        return shown(before, after, patient, patient.settings)
    try:
        mended = changed(patient.settings, name, value)
    except ValueError as error:
        return 0.0, "no-value", str(error)
    if patient.name == "healthy":
        return 0.0, "overtreated", "nothing was wrong with it, and a setting is changed"
    if name != FAULTS[patient.name].setting:
        return 0.0, "wrong-setting", wrong_setting(name, in_use(mended, seed))
    if not in_use(mended, seed) <= WELL:
        words = f"{name} is to be changed, but with {value:g} its loss in use stays above {WELL:g}"
        return 0.0, "wrong-dose", words
    return shown(before, after, patient, mended)


def wrong_setting(name: str, after: float) -> str:
    """What is said of a change of something that was not ill."""
    if after <= WELL:
        return f"it recovers, but {name} was not what was wrong: the fault is covered, not mended"
    return f"{name} is not what is wrong: its loss in use stays above {WELL:g}"


def shown(
    before: float, after: float, patient: Patient, mended: Settings
) -> tuple[float, str, str]:
    """Half of a run is its mending; the other half are the losses in use before and after."""
    sick, well = (ends(s, patient.seed) for s in (patient.settings, mended))
    truth = sick["in use"][-1], well["in use"][-1]

    def fits(one: float, other: float) -> bool:
        return abs(before - one) <= NEAR and abs(after - other) <= NEAR

    if fits(*truth):
        return 1.0, "", ""
    if fits(*reversed(truth)):
        return 0.5, "exchanged", "mended, but the losses before and after are exchanged"
    for reading in ("loss", "held out"):
        if fits(sick[reading][-1], well[reading][-1]):
            words = f"mended, but the numbers are those of “{reading}”, which the fault can deceive"
            return 0.5, f"{reading.replace(' ', '-')}-read", words
    if fits(sick["in use"][0], well["in use"][0]):
        return 0.5, "first-reading", "mended, but the numbers are those of the first reading"
    what = "before" if abs(before - truth[0]) > NEAR else "after"
    words = f"mended, but the loss in use {what} it is another one when the run is trained again"
    return 0.5, f"other-{what}", words


def form(name: str, results: Sequence[Outcome]) -> str:
    """What the student's check says: nothing about right and wrong, which grading tells."""
    if isinstance(results[0], str):
        return errors.quoted(results[0])
    fine = [len(numbers(result, COUNT[name])) == COUNT[name] for result in results]
    if not all(fine):
        needed = "one number, a name" if name == "diagnosis" else "four numbers"
        return f"run {1 + fine.index(False)} has no answer in the form needed: {needed}."
    firsts = Counter(numbers(result, COUNT[name])[0] for result in results)
    if max(firsts.values()) > MOST[name]:
        return GUESSED[name]
    return "right in form only: all 8 runs have an answer. Which of them are right, grading tells."
