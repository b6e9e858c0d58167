"""One run of training: what is asked for, where it stands, and what surrounds a step.

`Plan` is checked before the first step, `Run` keeps clock, Ctrl-C, evaluation and checkpoints, and
`History` is what is left of it besides the weights.
"""

import math
import operator
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from attnbook.checks import check_int, check_positive
from attnbook.device import device_of
from attnbook.train.checkpoint import (
    Checkpoint,
    FileCheckpoint,
    random_state,
    set_random_state,
    settings,
)
from attnbook.train.progress_bar import ProgressBar
from attnbook.train.strategy import SingleProcess

READ_EVERY = 10  # steps between two readings of losses from a GPU, each of which waits for it
Schedule: TypeAlias = Callable[[int], float]  # step to the factor of the learning rate
Evaluate: TypeAlias = Callable[[Any], Any]  # model to a number or a dictionary of numbers
if TYPE_CHECKING:
    Whole: TypeAlias = SupportsIndex  # int, or NumPy's
    Limit: TypeAlias = float | None
else:
    Whole = Limit = Any  # `Plan` checks these itself, and says in a sentence what it needs


class Callback:
    """What a caller adds to a run. Every method may be left as it is."""

    def on_start(self, run: "Run") -> None:
        """Before the first step; a resumed run stands where its checkpoint was."""

    def on_step(self, run: "Run") -> None:
        """After a step was recorded, before anything is evaluated or saved; `run.read()` makes sure
        that its loss is known."""

    def on_evaluation(self, run: "Run") -> None:
        """After an evaluation was recorded."""

    def on_end(self, run: "Run") -> None:
        """When the run ends, for whatever reason."""


@dataclass(frozen=True)
class OverBudget:
    """A schedule of progress: up in a straight line over `warmup` steps, then `decay` of the share
    of the budget that is spent, from 0 to 1, in steps or in seconds."""

    decay: Callable[[float], float]
    warmup: int = 0

    def factor(self, step: int, spent: float) -> float:
        """The factor of the learning rate."""
        return min(1.0, (step + 1) / max(1, self.warmup)) * self.decay(spent)


class NonFiniteLoss(RuntimeError):
    """The loss or its gradient is no longer a number; the weights are still those before, but on a
    GPU, where this is seen some steps later. `history` is what happened until then.
    """

    history: "History"


@dataclass
class History:
    """What happened in training.

    `loss` and `grad_norm` (before clipping) of each step, `evaluations` as pairs (step, {name:
    number}), `seconds` spent on steps, whether it was `interrupted`, and the number of the signal.
    `skipped` counts steps before a resumed run that are not listed.
    """

    loss: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)
    evaluations: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False
    signal: int = 0
    skipped: int = 0

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return self.skipped + len(self.loss)

    def evaluated(self, name: str = "value") -> tuple[list[int], list[float]]:
        """One evaluated number as a curve: (steps, values). A bare number is called "value"."""
        if self.evaluations and name not in self.evaluations[0][1]:
            names = ", ".join(self.evaluations[0][1])
            raise ValueError(f"nothing called {name!r} was evaluated; there is {names}")
        steps = [step for step, _ in self.evaluations]
        return steps, [values[name] for _, values in self.evaluations]

    def __repr__(self) -> str:
        return f"History: {self.steps} steps" + (", interrupted" if self.interrupted else "")


def as_numbers(value: Any) -> dict[str, float]:
    """An evaluation as {name: float}; a bare number is called "value"."""
    numbers = value if isinstance(value, dict) else {"value": value}
    try:
        return {name: float(number) for name, number in numbers.items()}
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"evaluate returned {value!r}; a number or a dictionary of numbers is needed"
        ) from error


@dataclass(frozen=True)
class Plan:
    """What a run is asked to do; `train` says what each field means.

    The numbers become Python's own; a ValueError names one that makes no sense.
    """

    steps: Whole | None
    schedule: Schedule | OverBudget
    seed: Whole = 0
    clip: Limit = 1.0
    every: Whole = 100
    seconds: Limit = None
    evaluate: Evaluate | None = None
    checkpoint: str | Path | Checkpoint | None = None
    progress: bool = True
    accumulate: Whole = 1
    save_every: Whole | None = None
    save_seconds: Limit = None

    def __post_init__(self) -> None:
        if self.steps is None and self.seconds is None:
            raise ValueError("a run needs an end: say steps or seconds")
        if self.save_every is None:
            object.__setattr__(self, "save_every", self.every)
        least = {"steps": 1, "every": 1, "seed": 0, "accumulate": 1, "save_every": 1}
        for name, low in least.items():
            if name != "steps" or self.steps is not None:
                object.__setattr__(self, name, check_int(name, getattr(self, name), low))
        for name in ("clip", "seconds", "save_seconds"):
            object.__setattr__(self, name, check_positive(name, getattr(self, name)))

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint must agree with: of the schedule its start, middle and end."""
        last = operator.index(self.steps or 1) - 1
        probe = [self.factor(step, step / (last + 1)) for step in (0, (last + 1) // 2, last)]
        return {"steps": self.steps, "seed": self.seed, "clip": self.clip, "schedule": probe}

    def factor(self, step: int, spent: float) -> float:
        """Of the learning rate, at a step and at this share of the budget."""
        if isinstance(self.schedule, OverBudget):
            return self.schedule.factor(step, spent)
        return float(self.schedule(step))


def check_parts(model: nn.Module, optimizer: Optimizer) -> None:
    """A ValueError unless the model can be trained, on one device, by this optimizer."""
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ValueError("the model has no parameter that can be trained")
    devices = sorted({str(weight.device) for weight in model.parameters()})
    if len(devices) > 1:
        raise ValueError(f"the model lies on {len(devices)} devices: {', '.join(devices)}")
    mine = {id(weight) for weight in model.parameters()}
    theirs = [id(weight) for group in optimizer.param_groups for weight in group["params"]]
    strangers = len([weight for weight in theirs if weight not in mine])
    if strangers:
        raise ValueError(
            f"{strangers} of the optimizer's {len(theirs)} tensors are not the model's"
        )


class Run:
    """One training run, from its first step or its checkpoint to its end."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        plan: Plan,
        strategy: SingleProcess | None = None,
        callbacks: Sequence[Callback] = (),
    ):
        check_parts(model, optimizer)
        self.model, self.optimizer, self.plan, self.callbacks = model, optimizer, plan, callbacks
        self.seed = int(plan.seed)
        self.device = device_of(model)
        self.strategy = strategy or SingleProcess(self.device)
        self.rates = [float(group["lr"]) for group in optimizer.param_groups]
        self.generator = torch.Generator().manual_seed(self.seed)
        self.history = History()
        self.saved_at: int | None = None  # the step that the checkpoint holds
        self.file: Checkpoint | None = None
        self.resume()
        self.random = random_state(self.generator, self.device)
        self.saved_seconds = self.history.seconds
        self.value = torch.zeros(())  # the loss of the step under way, over its micro-batches
        self.last = math.nan, math.nan  # the loss and the gradient norm that were read last
        self.read_every = 1 if self.device.type == "cpu" else READ_EVERY
        self.unread: list[tuple[int, Tensor, Tensor]] = []  # step, loss, norm: still on the device
        self.half_done = False  # weights changed, and the optimizer's state perhaps not yet
        self.signal = 0  # the one that came
        self.agreed = self.strategy.world_size == 1  # whether all processes stop here
        self.bar = ProgressBar(plan.steps, plan.progress)

    def resume(self) -> None:
        """Go on where the checkpoint stopped, if there is one; else start from the seed."""
        stored = None
        if isinstance(self.plan.checkpoint, str | Path):
            agreed = self.plan.to_dict() | {"lr": self.rates} | settings(self.optimizer)
            self.file = FileCheckpoint(self.plan.checkpoint, agreed, self.model, self.optimizer)
        else:
            self.file = self.plan.checkpoint
        if self.file:
            stored = self.file.load()
        torch.manual_seed(self.seed)
        if stored:
            self.history = History(**stored["history"])
            self.saved_at = self.history.steps
            if stored["random"]:
                set_random_state(stored["random"], self.generator, self.device)

    def __enter__(self) -> "Run":
        self.modes = modes(self.model)
        self.model.train()
        self.old_handler: Any = None
        if threading.current_thread() is threading.main_thread():
            self.old_handler = signal.signal(signal.SIGINT, self.on_signal)
        for callback in self.callbacks:
            callback.on_start(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Put back modes, rates and what Ctrl-C does; a Ctrl-C itself ends here and is noted.

        The weights stay changed, and so do torch's global random numbers, which `seed` started.
        """
        self.history.interrupted = isinstance(error, KeyboardInterrupt)
        self.history.signal = self.signal if self.history.interrupted else 0
        try:
            if error is None or self.history.interrupted:
                self.read()
            if self.history.interrupted and self.agreed and not self.half_done:
                self.save()
        finally:
            for callback in self.callbacks:
                callback.on_end(self)
            if self.old_handler is not None:
                signal.signal(signal.SIGINT, self.old_handler)
            put_back(self.modes)
            self.set_rates(1.0)
            self.bar.close()
        check_loss(error)
        return self.history.interrupted

    def on_signal(self, number: int, _: object = None) -> None:
        """The first Ctrl-C waits until weights and optimizer agree again; the second does not."""
        if self.signal == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number

    def stop_if_asked(self) -> None:
        """All processes end after the same step, by the clock of the slowest."""
        number, seconds = self.strategy.all_reduce_max(self.signal, self.history.seconds)
        self.history.seconds = max(seconds, self.history.seconds)
        if number:
            self.signal, self.agreed = int(number), True
            raise KeyboardInterrupt

    @property
    def spent(self) -> float:
        """The share of the budget that is spent, of steps if they are counted, else of seconds."""
        if self.plan.steps is not None:
            return self.history.steps / operator.index(self.plan.steps)
        return self.history.seconds / float(self.plan.seconds or 0)

    def goes_on(self) -> bool:
        """Evaluate and save if it is time. Is there another step to take?"""
        self.stop_if_asked()
        step, plan = self.history.steps, self.plan
        late = plan.seconds is not None and self.history.seconds >= plan.seconds
        over = self.spent >= 1
        if step and (over or step % operator.index(plan.every) == 0):
            self.measure()
        if step and (over or late or self.save_is_due()):
            self.save()
        if late and not over:  # after saving: an uninterrupted run is not evaluated at this step
            self.measure()
        self.stop_if_asked()  # during the evaluation
        if not over:
            self.set_rates(plan.factor(step, self.spent))
        self.bar.draw(step, () if self.unread else self.history.loss)
        self.clock = time.perf_counter()
        return not (over or late)

    def save_is_due(self) -> bool:
        """After so many steps, and after so many seconds of steps."""
        since, plan = self.history.seconds - self.saved_seconds, self.plan
        timed = plan.save_seconds is not None and since >= plan.save_seconds
        return timed or self.history.steps % operator.index(plan.save_every or 1) == 0

    def micro_batches(self, sampler: Callable[[torch.Generator], Any]) -> Iterator[Any]:
        """The batches of one step, `accumulate` of them, drawn and brought to the model's device;
        gradients are synchronised after the last one."""
        self.value = torch.zeros((), device=self.device)
        count = operator.index(self.plan.accumulate)
        for number in range(1, count + 1):
            with self.strategy.no_sync(self.model, last=number == count):
                yield self.to_device(sampler(self.generator))

    def backward(self, value: Any) -> None:
        """Add the gradients of one micro-batch's loss, scaled to a mean over all of them."""
        count = operator.index(self.plan.accumulate)
        value = value / count if count > 1 and isinstance(value, Tensor) else value
        value.backward()
        self.value = self.value + value.detach() if count > 1 else value.detach()

    def set_rates(self, factor: int | float) -> None:
        """The learning rates of now: those of the optimizer times `factor`."""
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor

    def to_device(self, batch: Any) -> Any:
        """The batch on the model's device; tuples, lists and dictionaries are entered."""
        if hasattr(batch, "to"):
            return batch.to(self.device)
        if isinstance(batch, dict):
            return {name: self.to_device(part) for name, part in batch.items()}
        if isinstance(batch, (tuple, list)):
            parts = [self.to_device(part) for part in batch]
            return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
        return batch

    def record_loss(self, norm: Tensor) -> None:
        """Keep loss and gradient norm of the step under way, and `read` them if it is time: raises
        NonFiniteLoss then, unless all are finite."""
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm  # of shards
        loss = self.strategy.mean(self.value).reshape(()).to(norm.device)
        self.unread.append((self.history.steps, loss, norm))
        if len(self.unread) >= self.read_every:
            self.read()
        self.half_done = True

    def read(self) -> None:
        """Bring losses and gradient norms from the device, all at once since the last time.

        Raises NonFiniteLoss, with step, loss and gradient norm, unless all are finite.
        """
        if not self.unread:
            return
        steps, losses, norms = zip(*self.unread, strict=True)
        self.unread = []
        history, read = self.history, torch.stack((torch.stack(losses), torch.stack(norms)))
        for step, loss, norm in zip(steps, *read.tolist(), strict=True):
            place, self.last = step - history.skipped, (loss, norm)
            if not (math.isfinite(loss) and math.isfinite(norm)):
                found = "before this step" if step == history.steps else "after it, spoilt"
                del history.loss[place:], history.grad_norm[place:]
                error = NonFiniteLoss(
                    f"step {step + 1}: loss {loss}, gradient norm {norm}; the weights are those "
                    f"{found}"
                )
                error.history = history
                raise error
            if place < len(history.loss):
                history.loss[place], history.grad_norm[place] = loss, norm

    def record(self) -> None:
        """The step is complete: write it down, and where the random numbers stand."""
        self.history.seconds += time.perf_counter() - self.clock
        loss, norm = (math.nan, math.nan) if self.unread else self.last  # `read` fills them in
        self.history.loss.append(loss)
        self.history.grad_norm.append(norm)
        if self.file:
            self.random = random_state(self.generator, self.device)
        self.half_done = False
        for callback in self.callbacks:
            callback.on_step(self)

    def measure(self) -> None:
        """Evaluate without gradients and in evaluation mode; random numbers are put back."""
        step, done = self.history.steps, self.history.evaluations
        if self.plan.evaluate is None or (done and done[-1][0] == step):
            return
        self.read()
        before, random = modes(self.model), random_state(self.generator, self.device)
        self.model.eval()
        try:
            with torch.no_grad():
                value = self.plan.evaluate(self.model)
        finally:
            put_back(before)
            set_random_state(random, self.generator, self.device)
        done.append((step, as_numbers(value)))
        for callback in self.callbacks:
            callback.on_evaluation(self)

    def save(self) -> None:
        """Write the checkpoint, if there is one and it is not of this step already."""
        if self.file and self.saved_at != self.history.steps:
            self.read()
            self.file.save(asdict(self.history), self.random)
            self.saved_at, self.saved_seconds = self.history.steps, self.history.seconds


def modes(model: nn.Module) -> list[tuple[nn.Module, bool]]:
    """Each part of the model with its mode, training or evaluation."""
    return [(module, module.training) for module in model.modules()]


def put_back(modes: list[tuple[nn.Module, bool]]) -> None:
    """Restore each module's training or evaluation mode, as `modes` found it."""
    for module, training in modes:
        module.training = training


def check_loss(error: BaseException | None) -> None:
    """Where `error` came of a loss that has no gradient to follow back, say it in plain words."""
    if isinstance(error, AttributeError) and error.name == "backward":
        kind = "None" if error.obj is None else f"a {type(error.obj).__name__}"
        got = f"{kind}, not a tensor"
    elif isinstance(error, RuntimeError) and "only for scalar outputs" in str(error):
        got = "a tensor of another size: take its mean or its sum"
    else:
        return
    raise ValueError(f"the loss must be one number; got {got}") from error
