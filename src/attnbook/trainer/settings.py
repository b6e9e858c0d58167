"""What a training run is asked to do: checked before any work, printed, and stored as JSON."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from attnbook.files import store
from attnbook.training.plan import above_zero, whole

FILE = "config.json"
OPTIMIZERS = ("adamw", "muon")
SCHEDULES = ("constant", "cosine", "trapezoid")
DTYPES = ("float32", "bfloat16")
PARALLEL = ("none", "ddp", "fsdp")
DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True)
class Sizes:
    """The decoder, `attnbook.models.book_lm`: as many key heads as heads, and 2.5 times the width
    inside the feed-forward network, unless said."""

    vocabulary: int = 1024
    width: int = 256
    depth: int = 4
    heads: int = 4
    kv_heads: int | None = None
    hidden: int | None = None
    context: int = 256

    def __post_init__(self) -> None:
        if self.kv_heads is None:
            object.__setattr__(self, "kv_heads", self.heads)
        if self.hidden is None:
            object.__setattr__(self, "hidden", 5 * self.width // 2)
        for each in fields(self):
            whole(each.name, getattr(self, each.name), 1)
        if not 260 <= self.vocabulary <= 65_536:
            raise ValueError(
                f"vocabulary is {self.vocabulary}; from 260 (256 bytes and four special tokens) "
                "to 65,536 is possible"
            )
        if self.width % self.heads or self.width // self.heads % 2:
            raise ValueError(
                f"width {self.width} does not divide into {self.heads} heads of an even width"
            )
        if self.heads % int(self.kv_heads or 1):
            raise ValueError(f"{self.heads} heads do not share {self.kv_heads} kv_heads evenly")

    def of_model(self) -> dict[str, Any]:
        """As `attnbook.models.book_lm` calls them."""
        named = {name: value for name, value in asdict(self).items() if name != "context"}
        return {"V": named.pop("vocabulary"), **named}


@dataclass(frozen=True)
class Recipe:
    """How each step is made. `batch` is the windows of one step, of all processes together; `lr` is
    0.001 for AdamW and 0.01 for Muon unless said; `warmup` counts steps."""

    batch: int = 16
    lr: float | None = None
    optimizer: str = "adamw"
    schedule: str = "cosine"
    warmup: int = 20
    weight_decay: float = 0.05
    clip: float = 1.0

    def __post_init__(self) -> None:
        one_of("optimizer", self.optimizer, OPTIMIZERS)
        one_of("schedule", self.schedule, SCHEDULES)
        if self.lr is None:
            object.__setattr__(self, "lr", 0.01 if self.optimizer == "muon" else 0.001)
        whole("batch", self.batch, 1)
        whole("warmup", self.warmup, 0)
        above_zero("lr", self.lr)
        above_zero("clip", self.clip)
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay is {self.weight_decay}; a number of 0 or more")


@dataclass(frozen=True)
class Budget:
    """How long: `steps` or `minutes`; and after how many steps something is written down."""

    steps: int | None = None
    minutes: float | None = None
    save_every: int = 200
    evaluate_every: int = 200
    log_every: int = 10

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise ValueError("how long? say either --steps or --minutes")
        if self.steps is not None:
            whole("steps", self.steps, 1)
        above_zero("minutes", self.minutes)
        for name in ("save_every", "evaluate_every", "log_every"):
            whole(name, getattr(self, name), 1)


@dataclass(frozen=True)
class Machine:
    """On what. `accumulate` cuts what a process has of a batch into so many pieces, one after the
    other; `threads` of None are as many as torch takes by itself."""

    device: str = "auto"
    dtype: str = "float32"
    compile: bool = False
    parallel: str = "none"
    accumulate: int = 1
    threads: int | None = None

    def __post_init__(self) -> None:
        one_of("device", self.device, DEVICES)
        one_of("dtype", self.dtype, DTYPES)
        one_of("parallel", self.parallel, PARALLEL)
        whole("accumulate", self.accumulate, 1)
        if self.threads is not None:
            whole("threads", self.threads, 1)


@dataclass(frozen=True)
class Settings:
    """All that is known of a run before it starts. `data` is the name of a text, or a path."""

    budget: Budget
    data: str = "python-docs"
    seed: int = 0
    sizes: Sizes = field(default_factory=Sizes)
    recipe: Recipe = field(default_factory=Recipe)
    machine: Machine = field(default_factory=Machine)

    def __post_init__(self) -> None:
        whole("seed", self.seed, 0)
        if self.recipe.optimizer == "muon" and self.machine.parallel == "fsdp":
            raise ValueError(
                "muon works on whole matrices, and fsdp cuts them: take --optimizer adamw, or ddp"
            )
        if self.budget.steps is not None and self.recipe.warmup >= self.budget.steps > 1:
            raise ValueError(
                f"warmup of {self.recipe.warmup} does not fit into {self.budget.steps} steps"
            )


PARTS = {"budget": Budget, "sizes": Sizes, "recipe": Recipe, "machine": Machine}
HOME = {each.name: part for part, kind in PARTS.items() for each in fields(kind)}
FREE = {each.name for kind in (Budget, Machine) for each in fields(kind)} - {"dtype"}


def one_of(name: str, value: str, there: tuple[str, ...]) -> None:
    """Raise a ValueError unless the value is one of these."""
    if value not in there:
        raise ValueError(f"{name} is {value!r}; it can be {', '.join(there)}")


def settings(given: dict[str, Any]) -> Settings:
    """From a flat {name: value}; what is not given stays as it is by itself."""
    parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    rest: dict[str, Any] = {}
    for name, value in given.items():
        (parts[HOME[name]] if name in HOME else rest)[name] = value
    return Settings(**{part: PARTS[part](**named) for part, named in parts.items()}, **rest)


def flat(chosen: Settings) -> dict[str, Any]:
    """The opposite of `settings`: {name: value}, all of them."""
    found: dict[str, Any] = {}
    for name, value in asdict(chosen).items():
        found |= value if isinstance(value, dict) else {name: value}
    return found


def write(chosen: Settings, folder: Path) -> None:
    store(folder / FILE, json.dumps(flat(chosen), indent=1) + "\n")


def read(folder: Path) -> dict[str, Any]:
    """What is stored of the run in this folder, flat; ValueError where there is none."""
    try:
        return json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no run in {folder}: it has no {FILE}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{folder / FILE} is damaged: {error}") from error


def resumed(stored: dict[str, Any], given: dict[str, Any]) -> Settings:
    """A run goes on as it was stored: only what does not change its numbers may be given anew, and
    how long it is. ValueError names what differs."""
    wrong = [
        f"{name} {stored.get(name)} there, {value} here"
        for name, value in given.items()
        if name not in FREE and stored.get(name) != value
    ]
    if wrong:
        raise ValueError(f"the stored run is another one: {'; '.join(wrong)}")
    clock = {"steps", "minutes"}
    kept = {n: v for n, v in stored.items() if n not in clock or not clock & set(given)}
    return settings(kept | given)
