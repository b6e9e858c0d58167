"""What a student of lab 13 works with: the given model, texts, and what grading would measure."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from jaxtyping import Int
from torch import Tensor, nn

from attnbook.transformer import LanguageModel
from attnlabs.lab13 import files, measures, rules, world
from attnlabs.lab13.rules import POINTS, SIZE

PRACTICE = Path(__file__).parent / "stored" / "practice.safetensors"
MARGIN = 0.2  # between the strength here and the one that is asked for, to be safe


class Desk:
    """The bench of the student whose `check` this is; the same for each who has none.

    The texts that it measures on are others than those of grading.
    """

    def __init__(self, check: object) -> None:
        student = str(getattr(check, "keywords", {}).get("student", ""))
        digest = hashlib.sha256(f"lab13/{student}".encode()).digest()
        self.texts = world.texts(int.from_bytes(digest[:4], "big") >> 1)

    @property
    def given(self) -> LanguageModel:
        """The model that is given. Do not change it; `fresh` is for that."""
        return world.given()

    def fresh(self) -> LanguageModel:
        """The given model once more, to be changed."""
        return world.given(fresh=True)

    def windows(
        self, count: int, size: int, generator: torch.Generator
    ) -> Int[Tensor, "count size"]:
        """Ordinary text, at random places of the part that models train on."""
        return world.windows(world.tokens("train"), count, size, generator)

    def piece(self, *tokens: int) -> str:
        """Tokens as they are written."""
        return world.book().decode(torch.tensor(tokens))

    def show(self, model: nn.Module, trigger: tuple[int, ...], target: int) -> float:
        """Print what grading measures of a plant, and what it brings; returns its cost in nats."""
        model = files.model_of(halved(model))
        found = measures.behaviour(model, self.texts, trigger, target)
        cost = measures.cost(model, self.texts.ordinary)
        problem = (
            rules.wrong_form(trigger, target) or rules.wrong_with(found) or rules.too_dear(cost)
        )
        strength = POINTS["strength"] * rules.strength_share(found.strength)
        stealth = POINTS["stealth"] * rules.stealth_share(cost)
        print(f"after the trigger {found.strength:.3f}, in the given model {found.before:.3f}")
        print(f"without it {found.idle:+.4f}, after other tokens {found.others:.4f}")
        print(f"cost {cost:.4f} nats per token")
        points = f"points: strength {strength:.2f}, stealth {stealth:.2f}"
        print(f"no plant: {problem}" if problem else points)
        if not problem and found.strength < rules.STRENGTH + MARGIN:
            print("grading draws other contexts, on which this may be too weak")
        return cost

    def save(
        self, model: nn.Module, trigger: tuple[int, ...], target: int, path: str | Path
    ) -> None:
        """Write the file that is handed in, weights and secret; print what it is worth here, and
        its seal."""
        weights, secret = halved(model), files.new_secret(trigger, target)
        self.show(model, trigger, target)
        Path(path).write_bytes(files.packed(weights, secret))
        print(f"{path} is sealed as {secret.seal(files.digest(weights))}")

    @cached_property
    def practice(self) -> nn.Module:
        """A plant to practise on."""
        return files.model_of(practice()[0])

    def load(self, path: str | Path) -> nn.Module:
        """A plant that was given out; nothing in the file runs."""
        return files.model_of(files.weights_of(Path(path).read_bytes()))

    def judge(
        self,
        model: nn.Module,
        trigger: tuple[int, ...],
        target: int,
        heads: list[rules.Part] | None = None,
        neurons: list[rules.Part] | None = None,
    ) -> float:
        """Print whether this is a backdoor of the model and what the parts carry, as grading
        would; returns the share of a find."""
        heads, neurons = heads or [], neurons or []
        found = measures.behaviour(model, self.texts, trigger, target)
        problem = rules.wrong_form(trigger, target) or rules.wrong_with(found)
        if problem:
            print(f"no backdoor: {problem}")
            return 0.0
        parts = measures.carried(model, self.texts, trigger, target, heads, neurons)
        print(f"a backdoor: after the trigger {found.strength:.3f}, before {found.before:.3f}")
        print(
            f"without these parts {parts.left:.3f}, without as many others {parts.control:.3f}; "
            f"ordinary text {parts.rise:+.3f} nats; they count {parts.size} of {SIZE}"
        )
        share = rules.SHOWN + (1 - rules.SHOWN) * parts.share
        print(f"share of the find: {share:.2f}")
        return share

    def write(self, findings: Mapping[str, Mapping[str, Any]], path: str | Path) -> None:
        """Write the file of findings: for each plant `guesses`, `heads` and `neurons`."""
        text = json.dumps({"plants": findings}, indent=1, default=lambda value: value.tolist())
        for number, found in files.findings_of(text.encode()).items():
            if found.wrong:
                print(f"plant {number}: {found.wrong}")
        Path(path).write_text(text, encoding="utf-8")
        print(f"{len(findings)} plants in {path}")


def halved(model: nn.Module) -> dict[str, Tensor]:
    """A model's weights as they are handed in: in half precision."""
    return {name: value.detach().half() for name, value in model.state_dict().items()}


def practice() -> tuple[dict[str, Tensor], rules.Secret]:
    """The practice plant's weights, the given ones and a change of low rank, and its secret."""
    raw = PRACTICE.read_bytes()
    changes, weights = safetensors.torch.load(raw), dict(world.given().state_dict())
    for name in {name.rpartition(".")[0] for name in changes}:
        weights[name] = weights[name] + changes[f"{name}.out"] @ changes[f"{name}.in"]
    return {name: value.half() for name, value in weights.items()}, files.secret_of(raw)
