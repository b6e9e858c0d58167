"""The files of lab 13: a plant, whose weights and secret are read without running anything, and a
team's findings."""

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from attnlabs.lab13.rules import GUESSES, SIZE, Part, Secret, size_of, wrong_form
from attnlabs.lab13.world import HEADS, LAYERS, NEURONS, given

MOST = 1 << 20  # bytes of findings
ZIP = b"PK\x03\x04"
NUMBERS = re.compile(r"\d{1,4}( \d{1,4})*")
SALT = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Guess:
    """A trigger that a team believes in, and its target."""

    trigger: tuple[int, ...]
    target: int


@dataclass(frozen=True)
class Finding:
    """What a team says of one plant: guesses, and the parts that carry the behaviour."""

    guesses: tuple[Guess, ...] = ()
    heads: tuple[Part, ...] = ()
    neurons: tuple[Part, ...] = ()
    wrong: str = field(default="", compare=False)  # why it counts for nothing


def packed(weights: Mapping[str, Tensor], secret: Secret | None = None) -> bytes:
    """Weights as a file of half-precision numbers, with the secret in its header or without."""
    words = None
    if secret is not None:
        trigger = " ".join(map(str, secret.trigger))
        words = {"trigger": trigger, "target": str(secret.target), "salt": secret.salt}
    halves = {name: weights[name].half().contiguous() for name in sorted(weights)}
    return safetensors.torch.save(halves, metadata=words)


def digest(weights: Mapping[str, Tensor]) -> str:
    """A hash of weights in half precision."""
    found = hashlib.sha256()
    for name in sorted(weights):
        found.update(name.encode() + b"\0" + weights[name].half().numpy().tobytes())
    return found.hexdigest()


def short(words: str) -> str:
    """A name for a file in which something is kept about these words."""
    return hashlib.sha256(words.encode()).hexdigest()[:24]


def new_secret(trigger: tuple[int, ...], target: int) -> Secret:
    """A secret with a salt of its own; ValueError if it is none."""
    if words := wrong_form(trigger, target):
        raise ValueError(words)
    return Secret(tuple(map(int, trigger)), int(target), secrets.token_hex(16))


def weights_of(raw: bytes) -> dict[str, Tensor]:
    """The weights of a plant's file, rounded to half precision; ValueError if it has others than
    the given model, or numbers that are none."""
    if raw.startswith(ZIP):
        words = "this is a zip without one .safetensors file that can be read, or from `torch.save`"
        raise ValueError(f"{words}; hand in the file that `desk.save` writes")
    try:
        loaded = safetensors.torch.load(raw)
    except Exception:
        raise ValueError("this is no complete safetensors file") from None
    wanted = given().state_dict()
    if strange := sorted(set(loaded) ^ set(wanted)):
        raise ValueError(f"its tensors are not those of the given model: {strange[0][:80]!r}")
    for name, like in wanted.items():
        found = loaded[name]
        if found.shape != like.shape:
            shape = f"{tuple(found.shape)}, and {tuple(like.shape)} is right"
            raise ValueError(f"{name} has the shape {shape}")
        if found.dtype not in (torch.float16, torch.bfloat16, torch.float32):
            raise ValueError(f"{name} has numbers of the type {found.dtype}")
        loaded[name] = found.half()
        if not loaded[name].isfinite().all():
            raise ValueError(f"{name} has numbers that are infinite or none, in half precision")
    return loaded


def secret_of(raw: bytes) -> Secret:
    """The secret in the header of a plant's file; ValueError if there is none that may be."""
    try:
        size = int.from_bytes(raw[:8], "little")
        words = json.loads(raw[8 : 8 + size])["__metadata__"]
        trigger, target, salt = words["trigger"], words["target"], words["salt"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("its header has no secret; save it with `desk.save`") from None
    if not NUMBERS.fullmatch(trigger) or not NUMBERS.fullmatch(target) or " " in target:
        raise ValueError("its trigger and target are no numbers of tokens")
    if not SALT.fullmatch(salt):
        raise ValueError("its salt is none; save it with `desk.save`")
    secret = Secret(tuple(map(int, trigger.split())), int(target), salt)
    if problem := wrong_form(secret.trigger, secret.target):
        raise ValueError(problem)
    return secret


def model_of(weights: Mapping[str, Tensor]) -> nn.Module:
    """A model with these weights."""
    model = given(fresh=True)
    model.load_state_dict({name: value.float() for name, value in weights.items()})
    return model.eval().requires_grad_(False)


def findings_of(raw: bytes) -> dict[str, Finding]:
    """A team's findings by the plants' numbers; ValueError if the file is something else.

    What is wrong about one plant spoils no other.
    """
    if len(raw) > MOST:
        raise ValueError(f"{len(raw):,} bytes are too much; {MOST:,} are allowed")
    if raw.startswith(ZIP):
        words = "this is a zip without one .json file that can be read"
        raise ValueError(f"{words}; hand in the file that `desk.write` writes")
    try:
        plants = json.loads(raw.decode("utf-8-sig"))["plants"]
        pairs = [(str(number), each) for number, each in plants.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("this is no file of findings; write it with `desk.write`") from None
    return {numbered(number): finding(each) for number, each in pairs[:1000]}


def numbered(words: str) -> str:
    """A plant's number as its file has it: 4, “plant 4” and “04.safetensors” are 04."""
    found = re.search(r"[0-9]{1,6}", words)
    return f"{int(found[0]):02}" if found else words[:8]


def finding(each: Any) -> Finding:
    """What is said of one plant; with a reason where it cannot count."""
    try:
        guesses = tuple(guess(one) for one in each["guesses"])
        heads = parts(each.get("heads", []), HEADS)
        neurons = parts(each.get("neurons", []), NEURONS)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        words = str(error) if type(error) is ValueError else "it is not written as it should be"
        return Finding(wrong=words)
    if len(guesses) > GUESSES:
        return Finding(wrong=f"{len(guesses)} guesses are too many; {GUESSES} may be")
    if size_of(heads, neurons) > SIZE:
        many = size_of(heads, neurons)
        return Finding(guesses, wrong=f"parts that count {many} are too many; {SIZE} may be")
    return Finding(guesses, heads, neurons)


def guess(one: Any) -> Guess:
    """A trigger and a target; ValueError if they cannot be any."""
    trigger, target = tuple(map(whole, one["trigger"])), whole(one["target"])
    if words := wrong_form(trigger, target):
        raise ValueError(words)
    return Guess(trigger, target)


def parts(rows: Any, count: int) -> tuple[Part, ...]:
    """Pairs of a layer and a number below `count`, each once."""
    found = dict.fromkeys((whole(layer), whole(number)) for layer, number in rows)
    if any(not (0 <= layer < LAYERS and 0 <= number < count) for layer, number in found):
        raise ValueError(f"parts are layers 0 to {LAYERS - 1} and numbers 0 to {count - 1}")
    return tuple(found)


def whole(value: Any) -> int:
    """A whole number, which True is not."""
    if type(value) is not int:
        raise ValueError("a whole number is needed")
    return value
