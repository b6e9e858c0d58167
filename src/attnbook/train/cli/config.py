"""The configuration of a training run: checked before any work, printed, and stored as JSON."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from attnbook.checks import check_choice, check_int, check_positive
from attnbook.decoder_config import DecoderConfig
from attnbook.files import store

FILE = "config.json"
OPTIMIZERS = ("adamw", "muon")
SCHEDULES = ("constant", "cosine", "trapezoid")
DTYPES = ("float32", "bfloat16")
PARALLEL = ("none", "ddp", "fsdp")
DEVICES = ("auto", "cpu", "cuda", "mps")
USUAL = {"V": 1024, "width": 256, "depth": 4, "heads": 4}  # of the decoder


@dataclass(frozen=True)
class OptimConfig:
    """Batches, optimizer and schedule. `batch` counts windows of `context` tokens, of all processes
    together; `lr` is 0.001 for AdamW and 0.01 for Muon unless given; `warmup` counts steps."""

    batch: int = 16
    context: int = 256
    lr: float | None = None
    optimizer: str = "adamw"
    schedule: str = "cosine"
    warmup: int = 20
    weight_decay: float = 0.05
    clip: float = 1.0

    def __post_init__(self) -> None:
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("schedule", self.schedule, SCHEDULES)
        if self.lr is None:
            object.__setattr__(self, "lr", 0.01 if self.optimizer == "muon" else 0.001)
        check_int("batch", self.batch, 1)
        check_int("context", self.context, 1)
        check_int("warmup", self.warmup, 0)
        check_positive("lr", self.lr)
        check_positive("clip", self.clip)
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay is {self.weight_decay}; a number of 0 or more")


@dataclass(frozen=True)
class TrainConfig:
    """Stopping rule (`steps` or `minutes`), and intervals of checkpoints, evaluations and log."""

    steps: int | None = None
    minutes: float | None = None
    save_every: int = 200
    save_minutes: float = 2.0
    evaluate_every: int = 200
    log_every: int = 10

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise ValueError("how long? say either --steps or --minutes")
        if self.steps is not None:
            check_int("steps", self.steps, 1)
        check_positive("minutes", self.minutes)
        check_positive("save_minutes", self.save_minutes)
        for name in ("save_every", "evaluate_every", "log_every"):
            check_int(name, getattr(self, name), 1)


@dataclass(frozen=True)
class HardwareConfig:
    """Hardware options. `accumulate`: gradient-accumulation steps per process; `threads=None`:
    torch's default."""

    device: str = "auto"
    dtype: str = "float32"
    compile: bool = False
    parallel: str = "none"
    accumulate: int = 1
    threads: int | None = None

    def __post_init__(self) -> None:
        check_choice("device", self.device, DEVICES)
        check_choice("dtype", self.dtype, DTYPES)
        check_choice("parallel", self.parallel, PARALLEL)
        check_int("accumulate", self.accumulate, 1)
        if self.threads is not None:
            check_int("threads", self.threads, 1)


@dataclass(frozen=True)
class Config:
    """All of a run. `data` is the name of a text, or a path."""

    train: TrainConfig
    model: DecoderConfig
    data: str = "python-docs"
    seed: int = 0
    optim: OptimConfig = field(default_factory=OptimConfig)
    hardware: HardwareConfig = field(default_factory=HardwareConfig)

    def __post_init__(self) -> None:
        check_int("seed", self.seed, 0)
        if not 260 <= self.model.V <= 65_536:
            raise ValueError(
                f"vocabulary is {self.model.V}; from 260 (256 bytes and four special tokens) to "
                "65,536 is possible"
            )
        if self.model.D % 2:
            raise ValueError(f"heads have a width of {self.model.D}; an even one can be rotated")
        if self.optim.optimizer == "muon" and self.hardware.parallel == "fsdp":
            raise ValueError(
                "muon works on whole matrices, and fsdp cuts them: take --optimizer adamw, or ddp"
            )
        if self.train.steps is not None and self.optim.warmup >= self.train.steps > 1:
            raise ValueError(
                f"warmup of {self.optim.warmup} does not fit into {self.train.steps} steps"
            )


PARTS = {
    "train": TrainConfig,
    "model": DecoderConfig,
    "optim": OptimConfig,
    "hardware": HardwareConfig,
}
PART_OF = {each.name: part for part, kind in PARTS.items() for each in fields(kind)}
FREE = {each.name for kind in (TrainConfig, HardwareConfig) for each in fields(kind)} - {"dtype"}


def from_flat(given: dict[str, Any]) -> Config:
    """A config from a flat {name: value}; what is not given has its default: as many `kv_heads` as
    heads, and `hidden` 2.5 times the width."""
    parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    rest: dict[str, Any] = {}
    for name, value in given.items():
        (parts[PART_OF[name]] if name in PART_OF else rest)[name] = value
    sizes = USUAL | parts["model"]
    unsaid = {"kv_heads": sizes["heads"], "hidden": 5 * sizes["width"] // 2}
    parts["model"] = unsaid | sizes
    return Config(**{part: PARTS[part](**named) for part, named in parts.items()}, **rest)


def to_flat(config: Config) -> dict[str, Any]:
    """The inverse of `from_flat`: every {name: value}."""
    found: dict[str, Any] = {}
    for name, value in asdict(config).items():
        found |= value if isinstance(value, dict) else {name: value}
    return found


def save(config: Config, folder: Path) -> None:
    """Write config.json."""
    store(folder / FILE, json.dumps(to_flat(config), indent=1) + "\n")


def load(folder: Path) -> dict[str, Any]:
    """The stored config of the run in this folder, flat; ValueError where there is none."""
    try:
        return json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no run in {folder}: it has no {FILE}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{folder / FILE} is damaged: {error}") from error


def resume(stored: dict[str, Any], given: dict[str, Any]) -> Config:
    """The stored config with what is given anew: how long, and what changes no number of the run.
    ValueError names what differs otherwise."""
    wrong = [
        f"{name} {stored.get(name)} there, {value} here"
        for name, value in given.items()
        if name not in FREE and stored.get(name) != value
    ]
    if wrong:
        raise ValueError(f"the stored run is another one: {'; '.join(wrong)}")
    clock = {"steps", "minutes"}
    kept = {n: v for n, v in stored.items() if n not in clock or not clock & set(given)}
    return from_flat(kept | given)
