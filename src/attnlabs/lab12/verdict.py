"""Judges lab 12: the ledger of a plan, the forecast that was committed to, and the method of it.

A ledger is proven by what it holds: the first loss of each run is computed once more, and some runs
are trained again. A method is tried on ledgers of other plans, moved and stretched by random
numbers, whose large runs are stored.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from attnlabs import errors
from attnlabs.inside.fingerprints import Outcome, outcome
from attnlabs.lab12 import forecasts, plan, scores
from attnlabs.lab12.family import Run, Trained, first_loss, train
from attnlabs.lab12.plan import BUDGET, COLUMNS, LARGEST, TARGET
from attnlabs.question import Case

TARGETS = Path(__file__).parents[3] / "labs" / "12-ten-times-larger.json"
PRACTICE = Path(__file__).parent / "stored" / "practice.json"
QUESTIONS = ("ledger", "committed", "forecast")
Judged: TypeAlias = tuple[float, tuple[str, ...], str]  # share, names of mistakes, sentences
World: TypeAlias = Mapping[str, Any]
MOST = 200  # rows of a ledger
FIRST, AGAIN = 2e-3, 0.03  # nats: how far a first loss, and a last one, may be on another machine
REPLAYED = 12.0  # gigaflops that grading trains again of a ledger
SHIFT = 0.1  # nats: by which all losses of a ledger are higher, to see whether a forecast follows
RECIPES = 6  # on the target's menu
NOISE = 0.01  # nats: a recipe so near to the best one is as good
SLIPS = {
    "no-floor": "this is what a power law without an irreducible term gives, A·C^−α: on a "
    "logarithmic scale the losses of growing runs do not lie on a line",
    "straight": "this is a straight line in log C, which would go below 0 some day; a power law "
    "with an irreducible term bends",
    "no-extrapolation": "this is the best loss that is there already, not that of a larger run",
    "in-bits": "the numbers are larger than the truth by 1/ln 2: bits, where nats are asked for",
    "by-runs": "each run has one vote in the fit, also those with a bad learning rate; the law "
    "holds for the best run of each compute",
}


def stored() -> dict[str, World]:
    """Texts whose large runs are known, by name; empty where grading has none."""
    return json.loads(TARGETS.read_text("utf-8")) if TARGETS.exists() else {}


@cache
def practice() -> World:
    """The text whose large runs students know."""
    return json.loads(PRACTICE.read_text("utf-8"))


def one_loss(world: str, run: Run) -> float:
    """The loss that a target reached."""
    known = (run.width, run.layers, run.rate, run.steps)
    return next(row[-1] for row in stored()[world]["targets"] if tuple(row[:4]) == known)


# The ledger


def table(result: Outcome) -> np.ndarray | None:
    """A ledger as a table of finite numbers, or None if it is something else."""
    if isinstance(result, str) or len(result) != 1 or result[0].ndim != 2:
        return None
    rows = result[0].astype(np.float64)
    fits = 1 <= len(rows) <= MOST and rows.shape[1] == len(COLUMNS) and np.isfinite(rows).all()
    return rows if fits else None


def run_of(row: Sequence[float] | np.ndarray) -> Run:
    """The run of a row; its learning rate to six digits, as it was typed."""
    width, layers, rate, steps, seed = row[:5]
    return Run(int(width), int(layers), float(f"{rate:.6g}"), int(steps), int(seed))


def faults(world: str, student: str, rows: np.ndarray) -> Iterator[tuple[str, str]]:
    """What is wrong with a ledger as such, by name and in words; the first one ends it."""
    runs = [run_of(row) for row in rows]
    for n, (run, row) in enumerate(zip(runs, rows, strict=True), start=1):
        if words := plan.wrong_with(run):
            yield "outside", f"row {n} is outside of the family: {words}."
            return
        cost = plan.gigaflops(world, run)
        if abs(cost - row[5]) > 0.002 * cost + 0.001:
            yield "other-cost", f"row {n} costs another number of gigaflops than it says."
            return
        if cost > LARGEST * (1 + 1e-6):
            yield "too-large", f"row {n} is larger than {LARGEST} gigaflops, which no run may be."
            return
    total = sum(plan.gigaflops(world, run) for run in runs)
    if total > BUDGET * (1 + 1e-6):
        yield "overspent", f"the budget of {BUDGET} gigaflops is overspent."
        return
    if len(set(runs)) < len(runs):
        yield "twice", "a run stands in it twice."
        return
    for n, (run, row) in enumerate(zip(runs, rows, strict=True), start=1):
        if abs(first_of(world, owned(student, run)) - row[6]) > FIRST:
            words = "its first loss is not that of this size and seed in your copy"
            yield "another-s", f"row {n} is not a run of yours: {words}."
            return


def owned(student: str, run: Run) -> Run:
    """The run with the seed that stands behind the student's."""
    return Run(run.width, run.layers, run.rate, run.steps, plan.seed_of(student, run.seed))


@cache
def first_of(world: str, run: Run) -> float:
    return first_loss(world, run)


@cache
def again(world: str, run: Run) -> Trained:
    return train(world, run)


def replays(world: str, student: str, rows: np.ndarray, most: float, lot: int = 0) -> str:
    """A sentence if a run that is trained again ends elsewhere.

    The class's `lot` and a run's settings decide which ones are trained, for at most so many
    gigaflops. Not the losses: who makes some of them up could try last digits, until the lot falls
    on the others.
    """
    left = most

    def place(n: int) -> bytes:
        return hashlib.sha256(f"{lot} {student} {run_of(rows[n])}".encode()).digest()

    for n in sorted(range(len(rows)), key=place):
        run = run_of(rows[n])
        cost = plan.gigaflops(world, run)
        if cost > left:
            continue
        left -= cost
        if abs(again(world, owned(student, run)).loss - rows[n][7]) > AGAIN:
            return f"row {n + 1}, trained again, ends at another loss."
    return ""


def design(rows: np.ndarray) -> Iterator[tuple[str, str]]:
    """What a good plan has and this one lacks, by name and in words."""
    cost, best = rows[:, 5], dict[tuple[float, ...], dict[float, list[float]]]()
    levels = {round(math.log2(value)) for value in cost}
    if len(levels) < 4 or cost.min() > LARGEST / 8 or cost.max() < 0.75 * LARGEST:
        yield (
            "narrow",
            f"its runs span too little compute for a law: at least four levels, from "
            f"{LARGEST / 8:g} gigaflops or less up to nearly {LARGEST}, are needed.",
        )
    for row in rows:
        best.setdefault((row[0], row[1], row[3]), {}).setdefault(row[2], []).append(row[7])
    inside = edge = False
    for tried in best.values():
        rates = apart(tried)
        if len(rates) >= 3:
            means = {rate: float(np.mean(losses)) for rate, losses in rates.items()}
            lowest = min(means, key=lambda rate: means[rate])
            within = min(means) < lowest < max(means)
            inside, edge = inside or within, edge or not within
    if not inside:
        why = "the best learning rate is the last one tried, so a better one may lie beyond"
        yield (
            "rate-at-the-end" if edge else "no-rates",
            (
                f"{why}: go on until it lies inside."
                if edge
                else "no size has three learning rates at equal steps, each a tenth above the last "
                "or more, so none was looked for."
            ),
        )
    seeds: dict[tuple[float, ...], set[float]] = {}
    for row in rows:
        seeds.setdefault(tuple(row[:4]), set()).add(row[4])
    if max(map(len, seeds.values())) < 2:
        yield "one-seed", "each setting has one seed, so nobody knows how far chance moves a loss."


def apart(tried: Mapping[float, Sequence[float]]) -> dict[float, list[float]]:
    """The losses by learning rates, of which those less than a tenth apart count as one: between
    0.0319 and 0.0321 nothing is found."""
    rates: dict[float, list[float]] = {}
    for rate in sorted(tried):
        same = next((other for other in rates if rate < 1.1 * other), rate)
        rates.setdefault(same, []).extend(tried[rate])
    return rates


def ledger(student: str, results: Sequence[Outcome], most: float, lot: int = 0) -> Judged:
    """Two fifths for a ledger that is in order and proven, one for each thing a plan needs.

    `most` gigaflops of it are trained again, those that the `lot` falls on.
    """
    world, rows = plan.world_of(student), table(results[0])
    if not any(isinstance(part, str) or part.size for part in results[0]):
        return 0.0, ("no-ledger",), "there is no run in it yet."
    if rows is None:
        return 0.0, ("no-ledger",), f"a table with {len(COLUMNS)} columns is needed, a row a run."
    for name, words in faults(world, student, rows):
        return 0.0, (name,), words[0].upper() + words[1:]
    if words := replays(world, student, rows, most, lot):
        return 0.0, ("not-replayed",), words[0].upper() + words[1:]
    missing = list(design(rows))
    said = " ".join(words[0].upper() + words[1:] for _, words in missing)
    head = f"right: {len(rows)} runs, {rows[:, 5].sum():.0f} gigaflops." if not missing else ""
    return 1 - 0.2 * len(missing), tuple(name for name, _ in missing), head or said


# The commitment


def numbers(result: Outcome, count: int) -> list[float]:
    """An answer as so many finite numbers; empty if it is something else."""
    if isinstance(result, str):
        return []
    flat = [float(value) for part in result for value in part.ravel()[: count + 1]]
    return flat if len(flat) == count and all(map(math.isfinite, flat)) else []


def ill_formed(mean: float, low: float, high: float) -> tuple[str, str]:
    """What is wrong with a forecast as such, by name and in words."""
    if low > high:
        return "exchanged", "the interval's low end is above its high end."
    if not low <= mean <= high:
        return "mean-outside", "the forecast lies outside of its own interval."
    if low <= 0:
        return "negative", "the interval reaches down to 0 nats; no text can be known so well."
    return "", ""


def rows_of(result: Outcome) -> list[list[float]]:
    """A commitment as rows of six numbers, the one that counts and perhaps other recipes of the
    menu; empty if it is something else."""
    for count in range(1, RECIPES + 2):
        if flat := numbers(result, 6 * count):
            return [flat[n : n + 6] for n in range(0, len(flat), 6)]
    return []


def commitment(world: str, results: Sequence[Outcome]) -> tuple[Run | None, str, str]:
    """The recipe of a commitment that can be scored, or None; a mistake's name, a sentence."""
    answers = [rows_of(result)[:1] for result in results]
    if not all(answers):
        need = "six numbers are needed: width, layers, rate, forecast, low, high"
        return None, "no-commitment", f"{need}; or so many for each recipe, yours first."
    (first,), (second,) = answers
    recipe = plan.on_the_menu(world, first[:3])
    if recipe is None:
        ten = (
            f"its runs, of {TARGET} gigaflops, are ten times larger than the largest you may train"
        )
        return None, "off-the-menu", f"the recipe is not on the target's menu; {ten}."
    name, words = ill_formed(*first[3:])
    if name:
        return None, name, words
    moved = second[3] - first[3]
    if not 0.25 * SHIFT <= moved <= 2 * SHIFT:
        words = "had all your losses been higher, the forecast would have stayed or gone elsewhere"
        return None, "not-from-runs", f"{words}: it does not come from your runs."
    return recipe, "", ""


def committed(student: str, results: Sequence[Outcome]) -> Judged:
    """Five sevenths for the forecast of the run, two for how well the recipe did."""
    world = plan.world_of(student)
    recipe, name, words = commitment(world, results)
    if recipe is None:
        return 0.0, (name,), words[0].upper() + words[1:]
    answer = rows_of(results[0])[0]
    mean, low, high = answer[3:]
    targets = [row[-1] for row in stored()[world]["targets"]]
    seen = one_loss(world, recipe)
    best, middle = min(targets) + NOISE, float(np.median(targets))
    quality = scores.share(seen, best, max(middle, best + NOISE))
    found = scores.score(mean, low, high, seen)
    accuracy = scores.share(found)
    wrong = ["poor-recipe"] if quality < 1 else []
    wrong += ["far"] if not low <= seen <= high else ["wide"] if accuracy < 0.9 else []
    place = "inside" if low <= seen <= high else "above" if seen > high else "below"
    lines = [
        f"The run reached {seen:.3f} nats; your forecast was {mean:.3f}, and the run lies {place} "
        f"{'of ' * (place == 'inside')}your interval {low:.3f} to {high:.3f}. Score {found:.3f} "
        f"nats, {accuracy:.0%} of the points.",
        f"The best recipe of the menu reached {min(targets):.3f}: {quality:.0%} for yours.",
        f"Sealed as {plan.seal(answer)}.",
    ]
    return (5 * accuracy + 2 * quality) / 7, tuple(wrong), " ".join(lines)


def table_of(student: str, results: Sequence[Outcome]) -> forecasts.Table:
    """Each recipe's forecast, interval, loss and score, the one committed to first; empty if there
    is no commitment that can be scored. The others count for nothing."""
    world = plan.world_of(student)
    if commitment(world, results)[0] is None:
        return []
    lines = [forecasts.HEAD]
    for n, row in enumerate(rows_of(results[0])):
        run = plan.on_the_menu(world, row[:3])
        if run is None or ill_formed(*row[3:])[0]:
            continue
        name = forecasts.name(run.width, run.layers, run.rate, TARGET)
        mine = " (committed)" if n == 0 else ""
        lines.append(forecasts.line(f"{name}{mine}", row[3:], one_loss(world, run)))
    return lines


# The method


def frontier(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The compute of each level, and the best loss there."""
    best: dict[int, tuple[float, float]] = {}
    for row in runs:
        level = round(2 * math.log2(row[5]))
        best[level] = min(best.get(level, (math.inf, 0.0)), (row[7], row[5]))
    pairs = [best[level] for level in sorted(best)]
    return np.array([cost for _, cost in pairs]), np.array([loss for loss, _ in pairs])


def line(x: np.ndarray, y: np.ndarray, at: float) -> float:
    """A straight line through points by least squares, read at a place."""
    slope, level = np.polyfit(x, y, 1)
    return float(slope * at + level)


def slips(runs: np.ndarray, target: np.ndarray, seen: float) -> dict[str, float]:
    """What typical mistakes forecast."""
    (C, L), goal = frontier(runs), math.log(target[4])
    return {
        "no-floor": math.exp(line(np.log(C), np.log(L), goal)),
        "straight": line(np.log(C), L, goal),
        "no-extrapolation": float(runs[:, 7].min()),
        "in-bits": seen / math.log(2),
        "by-runs": math.exp(line(np.log(runs[:, 5]), np.log(runs[:, 7]), goal)),
    }


def hidden(dice: torch.Generator, count: int = 2) -> Iterator[Case]:
    """Ledgers of texts whose large runs are known, moved and stretched, some runs left out."""
    for name, world in stored().items():
        for n in range(count):
            stretch = 0.8 + 0.45 * torch.rand(1, generator=dice).item()
            shift = 0.6 * torch.rand(1, generator=dice).item() - 0.3
            good = sorted(world["targets"], key=lambda row: row[-1])[: len(world["targets"]) // 2]
            row = good[int(torch.randint(len(good), (1,), generator=dice))]
            runs = torch.tensor(world["ledger"], dtype=torch.float64)
            kept = torch.rand(len(runs), generator=dice) > 0.15
            runs = runs[kept]
            runs[:, 6:] = (runs[:, 6:] * stretch + shift).mul(10_000).round().div(10_000)
            target = torch.tensor(row[:5], dtype=torch.float64)
            yield Case(f"text {list(stored()).index(name) * count + n + 1}", (runs, target))


def truth(runs: np.ndarray, target: np.ndarray, worlds: Mapping[str, World]) -> float | None:
    """What the target of a case of `hidden` reached, moved and stretched as its ledger was."""
    best: tuple[float, float | None] = (1e-3, None)
    for world in worlds.values():
        known = {tuple(row[:5]): row[7] for row in world["ledger"]}
        keys = [tuple(float(f"{value:.6g}") for value in row[:5]) for row in runs]
        seen = next((r[-1] for r in world["targets"] if np.allclose(r[:4], target[:4])), None)
        if seen is None or not all(key in known for key in keys):
            continue
        y = np.array([known[key] for key in keys])
        stretch, shift = np.polyfit(y, runs[:, 7], 1)
        apart = float(np.abs(stretch * y + shift - runs[:, 7]).max())
        if apart < best[0]:
            best = apart, float(stretch * seen + shift)
    return best[1]


Tried: TypeAlias = tuple[np.ndarray, np.ndarray, float, Outcome]  # runs, target, seen, answer


def method(tried: Sequence[Tried]) -> Judged:
    """The mean share over some ledgers whose targets are known, and what went wrong."""
    shares: list[float] = []
    wrong: list[str] = []
    lines: list[str] = []
    inside = 0
    answers = [numbers(answer, 3) for *_, answer in tried]
    for (_, _, seen, _), answer in zip(tried, answers, strict=True):
        if not answer:
            shares, wrong = [*shares, 0.0], [*wrong, "no-forecast"]
            lines.append("Three numbers are needed: forecast, low, high.")
            continue
        middle, low, high = answer
        name, words = ill_formed(middle, low, high)
        wrong += [name] if name else []
        lines += [words[0].upper() + words[1:]] if name else []
        shares.append(0.0 if name else scores.share(scores.score(middle, low, high, seen)))
        inside += low <= seen <= high
    share = sum(shares) / len(shares)
    if all(answers) and share < 0.9:
        for name, words in SLIPS.items():
            near = [
                abs(answer[0] - slips(runs, target, seen)[name]) < 0.006
                for (runs, target, seen, _), answer in zip(tried, answers, strict=True)
            ]
            if sum(near) >= 0.75 * len(near):
                wrong, lines = [*wrong, name], [*lines, f"Consistent with: {words}."]
                break
    lines = list(dict.fromkeys(lines))
    head = f"{inside} of {len(tried)} targets lie inside your intervals (80 % are meant to)"
    return (
        share,
        tuple(dict.fromkeys(wrong)),
        f"{head}; {share:.0%} of the points. " + " ".join(lines),
    )


def forecast(results: Sequence[Outcome], cases: Sequence[Case]) -> Judged:
    """The method, tried on hidden ledgers."""
    worlds, tried = stored(), list[Tried]()
    if not cases:
        raise ValueError("the ledgers that a method is tried on are grading's alone")
    for case, result in zip(cases, results, strict=True):
        runs, target = (np.asarray(argument, dtype=np.float64) for argument in case.arguments)
        seen = truth(runs, target, worlds)
        if seen is None:
            raise ValueError(f"no stored text has the ledger of the case {case.name!r}")
        tried.append((runs, target, seen, result))
    share, wrong, text = method(tried)
    return share, wrong, text.strip()


# What grading asks, and what the student's check says


def judged(
    question: str, student: str, results: Sequence[Outcome], cases: Sequence[Case]
) -> Judged:
    """The share of the points, the mistakes by name, and what is said."""
    if question == "ledger":
        most = float(os.environ.get("ATTNLABS_REPLAY", REPLAYED))
        return ledger(student, results, most, cases[0].lot if cases else 0)
    return committed(student, results) if question == "committed" else forecast(results, cases)


def said(
    question: str, student: str, results: Sequence[Outcome], function: Callable[..., Any]
) -> str:
    """What the check says: what can be known before the target is, and the practice text."""
    if question == "forecast":
        return rehearsed(function)
    if all(isinstance(result, str) for result in results):
        return errors.quoted(str(results[0]))
    if question == "ledger":
        share, _, text = ledger(student, results, 0.0)
        return text if share < 1 else f"{text} Grading trains some of them again."
    recipe, _, words = commitment(plan.world_of(student), results)
    if recipe is None:
        return words
    answer = rows_of(results[0])[0]
    return f"right in form, sealed as {plan.seal(answer)}. How good it is, grading tells."


def rehearsed(function: Callable[..., Any]) -> str:
    """How a method does on the practice text."""
    known, tried = practice(), list[Tried]()
    runs = torch.tensor(known["ledger"], dtype=torch.float64)
    for row in known["targets"]:
        target = torch.tensor(row[:5], dtype=torch.float64)
        tried.append(
            (runs.numpy(), target.numpy(), row[5], outcome(function, (runs.clone(), target)))
        )
    stops = next((answer for *_, answer in tried if isinstance(answer, str)), "")
    if stops:
        return errors.quoted(stops)
    return f"on the practice text {method(tried)[2]}".strip()
