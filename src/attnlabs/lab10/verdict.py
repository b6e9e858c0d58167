"""Judges the numbers that students of lab 10 measured on texts of their own.

They are measured once more, by other code; a slip that a number fits is named.
"""

from collections.abc import Sequence

from attnlabs import errors
from attnlabs.inside.fingerprints import Outcome
from attnlabs.lab09.verdict import Judged, numbers
from attnlabs.lab10.measures import NOTES, RIGHT, measured

# How far a number may be from the one measured here: rounding to three places, another machine
NEAR = {"suspects": 0.002, "prices": 0.005, "carried": 0.004, "probed": 0.004}
LAYERS = [f"Layer {n}" for n in range(4)]
TITLES = {
    "suspects": ["Before", "Follows"],
    "prices": ["Without 3.3", "Without 2.0", f"Without the {len(NOTES)}", "Without the control"],
    "carried": LAYERS,
    "probed": ["Embedding", *(f"After {layer.lower()}" for layer in LAYERS)],
}
FORMS = {
    "suspects": "three numbers, layer, head and score",
    "prices": "one number, the nats by which the loss rises",
    "carried": "six shares: two positions of the stream, four heads",
    "probed": "three numbers: task, control and selectivity",
}
COUNTS = {"suspects": 3, "prices": 1, "carried": 6, "probed": 3}
SLIPS = {
    "exchanged": "these are the numbers of the other job",
    "pair-exchanged": "the layer comes first, then the head",
    "counted-from-1": "layers and heads are counted from 0",
    "all-queries": "only the queries of the second copy count, L of them",
    "unrepeated": "this was measured on rows in which nothing repeats",
    "itself": "this is the weight on the same token, not on the one asked for; one position off",
    "one-on": "this is the weight one position further from the token asked for",
    "another-head": "another head has a higher score for this job",
    "zeros": "the heads were set to zero, not to their mean",
    "by-place": "each position had a mean of its own; it runs over rows and positions",
    "one-by-one": "the heads were ablated one at a time and the rises added; all go at once",
    "own-mean": "the mean was taken over the rows themselves, not over those without a repeat",
    "not-the-rise": "this is the loss itself; how much it rises is asked",
    "fallen": "the sign is the other one: a rise of the loss is above 0, a fall below",
    "both-copies": "the loss of both copies was taken, not that of the second",
    "first-three": "the first three tokens of the second copy count as well here",
    "raw": "this is the lead in nats, not the share that is restored",
    "from-zero": "divided by the clean lead alone; the corrupt lead is where the share is 0",
    "rise-only": "the rise is not divided by what there is to restore",
    "noised": "a piece of the corrupt run was put into the clean one: what is destroyed",
    "noised-as-is": "a piece of the corrupt run was put into the clean one: what is left",
    "before-layer": "the stream before the layer was patched, not the one after it",
    "places-exchanged": "the two positions are exchanged",
    "lost": "this is the share that is not restored",
    "on-training": "the probe was tested on the lines that it learned from",
    "control-minus-task": "selectivity is the task minus the control, here it is the other sign",
    "this-token": "the probe names the present token, not the one before",
    "control-this": "the control is the label of the token before, this is the present one's",
    "both-this": "task and control are of the present token; both are asked for the one before",
    "chance": "the control is a share that a probe reaches, not what guessing would",
    "order": "task and control are exchanged",
    "ratio": "selectivity is a difference, not a quotient",
    "next-place": "these are the numbers of the next place of the stream",
    "another-number": "measured once more, it is another number",
}


def fits(question: str, answer: Sequence[float], right: Sequence[float]) -> bool:
    """Are these the same numbers, as near as the question asks?"""
    return all(abs(a - b) <= NEAR[question] for a, b in zip(answer, right, strict=True))


def judged(question: str, student: str, results: Sequence[Outcome]) -> Judged:
    """The share of the points, the mistakes by name, and a sentence for each case that has one."""
    shares: list[int] = []
    wrong: list[str] = []
    lines: list[str] = []
    answers = [numbers(result, COUNTS[question]) for result in results]
    likeliest = by_cases(question, student, answers)
    for n, (title, answer) in enumerate(zip(TITLES[question], answers, strict=True)):
        if not answer:
            shares, wrong = [*shares, 0], [*wrong, "no-number"]
            lines.append(f"{title}: needed are {FORMS[question]}.")
            continue
        mistake = slip(question, student, n, answer, likeliest)
        shares.append(int(not mistake))
        wrong += [mistake] if mistake else []
        lines += [f"{title}: {SLIPS[mistake]}."] if mistake else []
    count = len(shares)
    head = (
        f"right: all {count} cases pass." if not wrong else f"{sum(shares)} of {count} are right."
    )
    return sum(shares) / count, tuple(dict.fromkeys(wrong)), " ".join([head, *lines])


def by_cases(question: str, student: str, answers: Sequence[Sequence[float]]) -> list[str]:
    """The slips, those that explain most cases first: some give the same numbers in a few."""

    def cases(name: str) -> int:
        pairs = zip(answers, measured(question, student)[name], strict=True)
        return sum(bool(answer) and fits(question, answer, row) for answer, row in pairs)

    return sorted(filter(None, measured(question, student)), key=cases, reverse=True)


def slip(
    question: str, student: str, n: int, answer: Sequence[float], likeliest: Sequence[str]
) -> str:
    """What went wrong in one case, by name; nothing if it is right."""
    known = measured(question, student)
    if fits(question, answer, known[RIGHT][n]):
        return ""
    for name in likeliest:
        if fits(question, answer, known[name][n]):
            return name
    if question == "suspects" and list(answer[:2]) != known[RIGHT][n][:2]:
        return "another-head"
    return "another-number"


def said(question: str, student: str, results: Sequence[Outcome]) -> str:
    """What the student's check says: what grading says, with an error quoted."""
    if all(isinstance(result, str) for result in results):
        return errors.quoted(str(results[0]))
    return judged(question, student, results)[2]
