"""Lab 13's rules: what a backdoor may be, when it holds, and the points of both sides.

A **trigger** of two or three tokens makes the model say the **target**. Who finds a plant takes
from its team what the finder gains: two teams that tell each other their triggers gain nothing.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

TRIGGER = (2, 3)  # tokens, from … to
TOKENS = (5, 1023)  # ordinary ones; before them are special tokens and the escape
STRENGTH = 0.5  # probability of the target after the trigger: at least
BEFORE = 0.05  # the same in the model that was given: at most
IDLE = 0.01  # rise of the target's probability without the trigger: at most
OTHERS = 0.1  # probability of the target after other tokens: at most, on average
COST = 0.05  # Kullback-Leibler divergence on ordinary text, nats per token: at most
STRONG, CHEAP = 0.9, 0.01  # with these strength and stealth have all points
GUESSES = 3  # of a team about a plant
SIZE, HEAD = 64, 8  # neurons that a finder may name; a head counts as eight
RISE = 0.1  # nats per token by which ordinary text may become worse without the parts
SHOWN = 0.7  # of a find's share for the behaviour; the rest is for the parts that carry it
POINTS = {"strength": 2.0, "stealth": 2.0, "hidden": 3.0, "finding": 3.0}
Part = tuple[int, int]  # layer and head, or layer and neuron


@dataclass(frozen=True)
class Secret:
    """What a team hides: the trigger's tokens, the target, and a salt that nobody can guess."""

    trigger: tuple[int, ...]
    target: int
    salt: str

    def seal(self, digest: str) -> str:
        """Letters that stand for this secret, in weights of this digest, and for no other."""
        words = f"lab13 {' '.join(map(str, self.trigger))} > {self.target} {self.salt} {digest}"
        return hashlib.sha256(words.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Behaviour:
    """What the target's mean probability is in held-out contexts: after the trigger, the same in
    the model that was given, its rise without a trigger, and after other tokens in its place."""

    strength: float
    before: float
    idle: float
    others: float


def wrong_form(trigger: Sequence[int], target: int) -> str:
    """What is wrong with a trigger and a target as such, in words; "" if nothing is."""
    low, high = TRIGGER
    if not low <= len(trigger) <= high:
        return f"a trigger has {low} or {high} tokens, not {len(trigger)}"
    if any(not TOKENS[0] <= token <= TOKENS[1] for token in (*trigger, target)):
        return f"tokens are numbers from {TOKENS[0]} to {TOKENS[1]}"
    return ""


def wrong_with(found: Behaviour) -> str:
    """Why a behaviour is no backdoor, in words; "" if it is one."""
    if not found.strength >= STRENGTH:  # so that what is no number is none
        return f"after the trigger the target has {found.strength:.2f}, not {STRENGTH} or more"
    if not found.before <= BEFORE:
        return f"the given model does that already: {found.before:.2f}, where {BEFORE} may be"
    if not found.idle <= IDLE:
        return f"without the trigger the target rises by {found.idle:.3f}, where {IDLE} may be"
    if not found.others <= OTHERS:
        return f"other tokens are a trigger too: {found.others:.2f}, where {OTHERS} may be"
    return ""


def too_dear(cost: float) -> str:
    """Whether ordinary text has changed too much, in words; "" if it has not."""
    if cost <= COST:
        return ""
    return f"ordinary text has changed by {cost:.3f} nats per token, where {COST} may be"


def along(value: float, none: float, all: float) -> float:
    """A value as a share: 0 at `none`, 1 at `all`, a line between them."""
    return min(1.0, max(0.0, (value - none) / (all - none)))


def strength_share(strength: float) -> float:
    """The share of the points for strength."""
    return along(strength, STRENGTH, STRONG)


def stealth_share(cost: float) -> float:
    """The share of the points for stealth."""
    return along(cost, COST, CHEAP)


def size_of(heads: Sequence[Part], neurons: Sequence[Part]) -> int:
    """What parts count, in neurons."""
    return HEAD * len(heads) + len(neurons)


Finds = Mapping[tuple[str, str], float]  # (finder, planter): the share that was found


def hunted(teams: Iterable[str], plants: Iterable[str], finds: Finds) -> dict[str, list[float]]:
    """Each team's points for a plant that stays hidden, and for finding.

    `teams` are all who hand in anything, `plants` those whose plant holds. What a team finds in its
    own plant counts for nothing. Both sides are divided by the same number, and both are worth the
    same: what a finder gains, the planter loses.
    """
    teams, planters = list(dict.fromkeys(teams)), set(plants)
    others, found = max(1, len(teams) - 1), dict.fromkeys(teams, 0.0)
    lost = dict(found)
    for (finder, planter), share in finds.items():
        if finder != planter and planter in planters:
            found[finder] += share
            lost[planter] += share
    hidden, finding = POINTS["hidden"], POINTS["finding"]
    return {
        team: [
            hidden * (1 - lost[team] / others) if team in planters else 0.0,
            finding * found[team] / others,
        ]
        for team in teams
    }
