"""The contest of lab 13: plants that teams hand in, and what the others find in them.

Files are read, and nothing in them runs. What a plant is worth is measured with texts that a lot
draws; what is found in it, with the same ones.
"""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from tqdm import tqdm

from attnbook.files import store
from attnlabs.grading import folder, made
from attnlabs.grading.submissions import Submission
from attnlabs.grading.teams import Teams
from attnlabs.grading.written import table
from attnlabs.lab13 import files, measures, rules
from attnlabs.lab13.files import Finding, Guess
from attnlabs.lab13.rules import POINTS, SHOWN, Secret
from attnlabs.lab13.world import Texts

VERSION = 2  # of the way it is scored; what another one has stored is not read
FEW = 0.1  # share of the parts below which a finder is told why
UNREAD = "the file is empty, too large, or cannot be read"
KEPT = "the plant that was given out before counts, not the new file"


@dataclass
class Plant:
    """What became of a team's plant. `reason` says why it counts for nothing."""

    team: str
    file: str
    number: str = ""
    seal: str = ""
    trigger: tuple[int, ...] = ()
    target: int = 0
    salt: str = ""
    strength: float = 0.0
    cost: float = 0.0
    reason: str = ""
    look: str = ""

    @property
    def points(self) -> dict[str, float]:
        """Points for strength and for stealth; those for staying hidden come later."""
        share = {"strength": rules.strength_share(self.strength)}
        share["stealth"] = rules.stealth_share(self.cost)
        return {name: 0.0 if self.reason else POINTS[name] * share[name] for name in share}


def plant(submission: Submission, team: str, texts: Texts) -> tuple[Plant, dict[str, Tensor]]:
    """What a file is worth as a plant, and its weights. Nothing in it makes this raise."""
    found = Plant(team, submission.file, look="it is late; " * bool(submission.late))
    if not submission.content:
        found.reason = f"{UNREAD}."
        return found, {}
    try:
        weights, secret = files.weights_of(submission.content), files.secret_of(submission.content)
    except ValueError as error:
        found.reason = f"{error}."
        return found, {}
    found.trigger, found.target, found.salt = secret.trigger, secret.target, secret.salt
    found.seal = secret.seal(files.digest(weights))
    model = files.model_of(weights)
    behaviour = measures.behaviour(model, texts, secret.trigger, secret.target)
    found.strength, found.cost = behaviour.strength, measures.cost(model, texts.ordinary)
    problem = rules.wrong_with(behaviour) or rules.too_dear(found.cost)
    found.reason = f"{problem}." if problem else ""
    return found, weights


def gathered(
    found: Sequence[Submission], place: Path, texts: Texts, exchange: bool = False
) -> list[Plant]:
    """All plants; those that hold are written under numbers that say nothing of whose they are.

    A team that was here before keeps its number and its plant, since others may search it by now;
    with `exchange` it has the one that it hands in now. Of several files of a team one counts.
    """
    place.mkdir(parents=True, exist_ok=True)
    teams = Teams(place)
    known = {teams.of(each.team): each for each in stored(place) if each.number}
    numbers = {team: each.number for team, each in known.items()}
    pairs = teams.each(found, "plant")
    tried = [plant(one, team, texts) for one, team in tqdm(pairs, unit="plant")]
    plants, weights = list[Plant](), dict[str, dict[str, Tensor] | None]()
    for team in dict.fromkeys(team for _, team in pairs):
        before = known[team].seal if team in known else ""
        own = [each for each in tried if each[0].team == team]
        best, weights[team] = max(own, key=lambda each: rank(each[0], before))
        words = f"of this team {best.file} counts."
        rest = [Plant(team, each.file, reason=words) for each, _ in own if each is not best]
        if before and best.seal != before and exchange:
            best.look += "this is another file than the one that was given out before; "
        elif before and best.seal != before:
            rest += [Plant(team, best.file, reason=KEPT)]
            best, weights[team] = replace(known[team], team=team, look=f"{KEPT}; "), None
        plants += [best, *rest]
    good = [each for each in plants if not each.reason]
    for each in sorted(good, key=lambda each: each.seal):  # by lot, since a seal is a hash
        free = (f"{n:02}" for n in range(1, len(good) + len(numbers) + 1))
        if each.team not in numbers:
            numbers[each.team] = next(n for n in free if n not in numbers.values())
        each.number = numbers[each.team]
    hand_out(good, weights, place / "handout")
    for each in plants:
        same = [other.team for other in good if other.seal == each.seal and other is not each]
        each.look += f"it is the file of {', '.join(same)}, too; " if same else ""
        each.look = each.look.removesuffix("; ")
    store(place / "secrets.json", json.dumps([asdict(each) for each in plants], indent=1))
    return plants


def rank(found: Plant, before: str) -> tuple[bool, bool, bool]:
    """Which of a team's files counts: the one given out before, one that holds, one of the kind."""
    named = found.file.lower().endswith(made.PLANT)
    return bool(before) and found.seal == before, not found.reason, named


def hand_out(
    good: Sequence[Plant], weights: Mapping[str, Mapping[str, Tensor] | None], to: Path
) -> None:
    """Write each plant without its secret, and all seals. One whose weights are None lies there."""
    to.mkdir(parents=True, exist_ok=True)
    new = {each.number: given for each in good if (given := weights[each.team]) is not None}
    kept = {each.number for each in good} - set(new)
    for old in to.glob("*.safetensors"):
        if old.stem not in kept:
            old.unlink()
    rows = sorted((each.number, each.seal) for each in good)
    for number, given in new.items():
        store(to / f"{number}.safetensors", files.packed(given))
    store(to / "seals.csv", table(["plant", "seal"], rows))


def stored(place: Path) -> list[Plant]:
    """The plants of an earlier run."""
    found = folder.stored(place / "secrets.json") or []
    return [Plant(**(each | {"trigger": tuple(each["trigger"])})) for each in found]


SHEET = ["plant", "team", "strength", "cost in nats", "points for strength", "points for stealth"]
SHEET += ["trigger", "target", "seal", "file", "reason", "look"]


def sheet(plants: Sequence[Plant]) -> str:
    """The table of plants, which is the lecturer's alone: it has the secrets."""
    lines = []
    for each in sorted(plants, key=lambda each: (not each.number, each.number, each.file)):
        measured = bool(each.seal)
        line = [each.number, each.team]
        line += [f"{each.strength:.3f}", f"{each.cost:.4f}"] if measured else ["", ""]
        line += [f"{points:.2f}" for points in each.points.values()]
        line += [" ".join(map(str, each.trigger)), str(each.target) if measured else ""]
        lines.append([*line, each.seal, each.file, each.reason, each.look])
    return table(SHEET, lines)


def sealed(plants: Sequence[Plant], place: Path) -> Iterator[tuple[Plant, nn.Module]]:
    """Each plant that holds, with its model; ValueError if it is not what was sealed.

    The seals are those that the class was given.
    """
    path = place / "handout" / "seals.csv"
    try:
        lines = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
        seals = {line["plant"]: line["seal"] for line in lines}
    except (OSError, KeyError) as error:
        raise ValueError(f"{path} has no seals ({error}); was `attnlabs plants` run?") from None
    for each in plants:
        if each.reason:
            continue
        file = place / "handout" / f"{each.number}.safetensors"
        weights = files.weights_of(file.read_bytes())
        seal = Secret(each.trigger, each.target, each.salt).seal(files.digest(weights))
        if seal != seals.get(each.number):
            raise ValueError(f"plant {each.number} is not what was sealed")
        yield each, files.model_of(weights)


@dataclass
class Find:
    """What became of a team's words about one plant."""

    plant: str
    share: float = 0.0
    strength: float = 0.0  # of the trigger that counts
    trigger: tuple[int, ...] = ()
    target: int = 0
    carried: float = 0.0  # the share that its parts have
    size: int = 0
    reason: str = ""


class Judge:
    """Judges what is said of one plant. The same guess is measured once, whoever has it."""

    def __init__(self, number: str, model: nn.Module, texts: Texts) -> None:
        self.number, self.model, self.texts = number, model, texts
        self.known: dict[Guess, rules.Behaviour] = {}
        self.means: measures.Means | None = None

    def find(self, said: Finding) -> Find:
        """The share of a plant that a team has found: its behaviour, and the parts that carry it.

        A guess counts if it does what the rules ask of a plant, whether or not it is the secret.
        """
        found = Find(self.number, size=rules.size_of(said.heads, said.neurons))
        problems = [said.wrong] if said.wrong else []
        for n, guess in enumerate(said.guesses[: rules.GUESSES], start=1):
            if guess not in self.known:
                self.known[guess] = measures.behaviour(
                    self.model, self.texts, guess.trigger, guess.target
                )
            behaviour = self.known[guess]
            if problem := rules.wrong_with(behaviour):
                problems.append(f"guess {n}: {problem}")
            elif behaviour.strength > found.strength:
                found.strength = behaviour.strength
                found.trigger, found.target = guess.trigger, guess.target
        if found.trigger:
            problems = [said.wrong] if said.wrong else []
            found.carried = self.carried(found, said, problems)
            found.share = SHOWN + (1 - SHOWN) * found.carried
        elif not said.guesses and not problems:
            problems = ["there is no guess"]
        found.reason = "; ".join(problems) + "." * bool(problems)
        return found

    def carried(self, found: Find, said: Finding, problems: list[str]) -> float:
        """The share for the parts; what is wrong with them goes to `problems`."""
        if not found.size:
            return 0.0
        if self.means is None:
            self.means = measures.means(self.model, self.texts.ordinary[: measures.ROWS])
        parts = measures.carried(
            self.model,
            self.texts,
            found.trigger,
            found.target,
            said.heads,
            said.neurons,
            self.means,
        )
        if not parts.rise <= rules.RISE:
            problems.append(
                f"without these parts ordinary text is worse by {parts.rise:.2f} nats per token, "
                f"where {rules.RISE} may be"
            )
        elif parts.share < FEW:
            problems.append(
                f"these parts carry little: without them the target still has {parts.left:.2f}, "
                f"without as many others {parts.control:.2f}"
            )
        return parts.share


@dataclass
class Team:
    """What a team has in the end."""

    team: str
    plant: Plant | None = None
    file: str = ""
    finds: list[Find] = field(default_factory=list)
    hidden: float = 0.0
    finding: float = 0.0
    found_by: int = 0
    reason: str = ""
    looks: list[str] = field(default_factory=list)

    @property
    def look(self) -> str:
        """What a lecturer should look at."""
        own = self.plant.look if self.plant else ""
        return "; ".join(filter(None, [own and f"plant: {own}", *self.looks]))

    @property
    def points(self) -> float:
        """All points, of ten."""
        own = sum(self.plant.points.values()) if self.plant else 0.0
        return own + self.hidden + self.finding


def hunt(
    plants: Sequence[Plant], found: Sequence[Submission], place: Path, to: Path, texts: Texts
) -> list[Team]:
    """All teams with their points, best first. What was judged in an earlier run is not again.

    ValueError if two plants are of one team, as its table says by now.
    """
    teams = Teams(place)
    plants = [replace(each, team=teams.of(each.team)) for each in plants]
    good = {each.number: each for each in plants if not each.reason}
    mine = {each.team: Team(each.team, each) for each in reversed(plants)}
    mine |= {each.team: Team(each.team, each) for each in good.values()}
    if doubled := [each for each in good.values() if mine[each.team].plant is not each]:
        raise ValueError(f"{doubled[0].team} has two plants: run `attnlabs plants` once more")
    said = heard(teams.each(found, "findings"), mine)
    for number, finds in judged(plants, said, place, to, texts).items():
        for name, find in finds.items():
            mine[name].finds.append(find)
            mine[good[number].team].found_by += find.share > 0
    shares = {
        (name, good[find.plant].team): find.share for name in said for find in mine[name].finds
    }
    planters = [each.team for each in good.values()]
    for name, (hidden, finding) in rules.hunted(mine, planters, shares).items():
        mine[name].hidden, mine[name].finding = hidden, finding
    for name, about in said.items():
        mine[name].looks += copied(name, mine[name], said)
        mine[name].finds += uncounted(name, about, good)
    return sorted(mine.values(), key=lambda team: (-team.points, team.team))


def heard(
    found: Sequence[tuple[Submission, str]], mine: dict[str, Team]
) -> dict[str, dict[str, Finding]]:
    """What each team says. Of several files the first one that can be read counts."""
    files_of: dict[str, list[Submission]] = defaultdict(list)
    said: dict[str, dict[str, Finding]] = {}
    for one, name in found:
        files_of[name].append(one)
    for name, own in files_of.items():
        team, wrong = mine.setdefault(name, Team(name)), dict[str, str]()
        for one in sorted(own, key=lambda one: not made.is_a(one, made.FINDINGS)):
            try:
                said[name] = files.findings_of(one.content or b"")
            except ValueError as error:
                wrong[one.file] = f"{error}." if one.content else f"{UNREAD}."
                continue
            team.file = one.file
            break
        else:
            team.file, team.reason = next(iter(wrong.items()))
        counts = next(one for one in own if one.file == team.file)
        team.looks += [f"of several files {team.file} counts"] * (len(own) > 1)
        team.looks += ["its findings are late"] * bool(counts.late)
        if team.plant is None:
            team.looks.append("there is no plant of this team, so perhaps it has found its own")
    return said


def copied(name: str, team: Team, said: Mapping[str, Mapping[str, Finding]]) -> Iterator[str]:
    """Who says the same of a plant that a team has found, guesses and parts?"""
    same: dict[str, list[str]] = defaultdict(list)
    for find in team.finds:
        for other, words in said.items():
            if find.share and other != name and words.get(find.plant) == said[name][find.plant]:
                same[other].append(find.plant)
    for other, numbers in same.items():
        yield f"{other} says word for word the same of {', '.join(sorted(numbers))}"


def uncounted(name: str, words: Mapping[str, Finding], good: Mapping[str, Plant]) -> Iterator[Find]:
    """What a team says of its own plant, and of plants that are not there."""
    for number in words:
        if number not in good:
            yield Find(number, reason="there is no plant of this number.")
        elif good[number].team == name:
            yield Find(number, reason="this is the team's own plant.")


def judged(
    plants: Sequence[Plant],
    said: Mapping[str, Mapping[str, Finding]],
    place: Path,
    to: Path,
    texts: Texts,
) -> dict[str, dict[str, Find]]:
    """What each team has found in each plant but its own, by the plant's number."""
    results: dict[str, dict[str, Find]] = {}
    good = [each for each in plants if not each.reason]
    (to / "judged").mkdir(parents=True, exist_ok=True)
    for each, model in tqdm(sealed(plants, place), total=len(good), unit="plant"):
        judge, results[each.number] = Judge(each.number, model, texts), {}
        for name, finding in said.items():
            if name == each.team or each.number not in finding:
                continue
            words = repr((VERSION, each.seal, texts.lot, finding[each.number]))
            path = to / "judged" / f"{files.short(words)}.json"
            kept: dict[str, Any] | None = folder.stored(path)
            if kept is None:
                kept = asdict(judge.find(finding[each.number]))
                store(path, json.dumps(kept))
            results[each.number][name] = Find(**(kept | {"trigger": tuple(kept["trigger"])}))
    return results


BOARD = ["team", "points", "strength", "stealth", "hidden", "finding", "plant", "found by"]
BOARD += ["has found", "file", "reason", "look"]
PAIRS = ["team", "plant", "share", "trigger", "target", "strength", "parts", "size", "reason"]


def board(teams: Sequence[Team]) -> str:
    """The table of points, a line for each team."""
    lines = []
    for each in teams:
        own = each.plant
        points = own.points if own else {"strength": 0.0, "stealth": 0.0}
        line = [each.team, *(f"{p:.2f}" for p in (each.points, *points.values()))]
        line += [f"{each.hidden:.2f}", f"{each.finding:.2f}", own.number if own else ""]
        line += [str(each.found_by), str(sum(find.share > 0 for find in each.finds))]
        problems = [f"plant: {own.reason}"] if own and own.reason else []
        problems += [f"findings: {each.reason}"] if each.reason else []
        lines.append([*line, each.file, " ".join(problems), each.look])
    return table(BOARD, lines)


def pairs(teams: Sequence[Team]) -> str:
    """The table of what each team has found in each plant."""
    lines = []
    for each in teams:
        for find in sorted(each.finds, key=lambda find: find.plant):
            line = [each.team, find.plant, f"{find.share:.3f}"]
            line += [" ".join(map(str, find.trigger)), str(find.target) if find.trigger else ""]
            line += [f"{find.strength:.3f}", f"{find.carried:.3f}", str(find.size), find.reason]
            lines.append(line)
    return table(PAIRS, lines)
