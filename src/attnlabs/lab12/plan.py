"""Lab 12's rules: compute of a run and of a plan, the target's menu, and what a student is given.

A ledger is a table with a row for each run, in the columns of `COLUMNS`.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from itertools import product

from attnlabs.lab12.family import HEAD, WORLDS, Run, corpus, flops

GIGA = 10**9
LARGEST, TARGET, BUDGET = 10, 100, 100  # gigaflops: of one run, of the target, of all runs
COLUMNS = ("width", "layers", "rate", "steps", "seed", "gigaflops", "first", "loss")
WIDTHS, LAYERS, SEEDS = (HEAD, 8 * HEAD), (1, 6), (0, 9)  # from, to
RATES, STEPS = (1e-5, 1.0), (10, 100_000)
MENU_SIZES = ((32, 1), (48, 1))
MENU_RATES = (0.008, 0.016, 0.032)
PRACTICE, *OWN = WORLDS


def number(student: str, word: str) -> int:
    """A whole number that a student's name decides."""
    digest = hashlib.sha256(f"lab12/{word}/{student}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def world_of(student: str) -> str:
    """The text that a student's models are trained on; for nobody ("") it is the first one."""
    return OWN[number(student, "world") % len(OWN)] if student else OWN[0]


def seed_of(student: str, seed: int) -> int:
    """The seed that a student's seed 0 to 9 stands for: the same run comes out differently for a
    friend."""
    return number(student, "seed") % 10**6 * 10 + 1000 + seed if student else seed


def gigaflops(world: str, run: Run) -> float:
    """What a run costs, in gigaflops, to three places."""
    return round(flops(run, corpus(world)[2]) / GIGA, 3)


def steps_for(world: str, width: int, layers: int, most: int | float) -> int:
    """So many steps of a model cost at most so many gigaflops."""
    return math.floor(most * GIGA / flops(Run(width, layers, 1.0, 1), corpus(world)[2]))


def wrong_with(run: Run) -> str:
    """What is wrong with the settings of a run, in words; "" if nothing is."""
    if run.width % HEAD or not WIDTHS[0] <= run.width <= WIDTHS[1]:
        return f"the width is a multiple of {HEAD} from {WIDTHS[0]} to {WIDTHS[1]}, not {run.width}"
    if not LAYERS[0] <= run.layers <= LAYERS[1]:
        return f"there are {LAYERS[0]} to {LAYERS[1]} layers, not {run.layers}"
    if not RATES[0] <= run.rate <= RATES[1]:
        return f"the learning rate is from {RATES[0]:g} to {RATES[1]:g}, not {run.rate:g}"
    if not STEPS[0] <= run.steps <= STEPS[1]:
        return f"there are {STEPS[0]} to {STEPS[1]:,} steps, not {run.steps}"
    if not SEEDS[0] <= run.seed <= SEEDS[1]:
        return f"seeds are {SEEDS[0]} to {SEEDS[1]}, not {run.seed}"
    return ""


def menu(world: str) -> Iterator[Run]:
    """The recipes of the target: each size at each rate, with the steps that the compute allows.

    Of the practice text there is one rate.
    """
    rates = MENU_RATES if world in OWN else MENU_RATES[1:2]
    for (width, layers), rate in product(MENU_SIZES, rates):
        yield Run(width, layers, rate, steps_for(world, width, layers, TARGET))


def on_the_menu(world: str, recipe: Sequence[float]) -> Run | None:
    """The recipe (width, layers, rate) as it stands on the menu, or None."""
    for run in menu(world):
        width, layers, rate = recipe
        if (run.width, run.layers) == (width, layers) and math.isclose(
            run.rate, rate, rel_tol=1e-5
        ):
            return run
    return None


def seal(numbers: Sequence[float]) -> str:
    """Eight letters that stand for a commitment, and for no other one."""
    text = " ".join(f"{value:.4f}" for value in numbers)
    return hashlib.sha256(f"lab12 {text}".encode()).hexdigest()[:8]
