"""What surrounds the training loop: clock, Ctrl-C, evaluation, and when to save."""

import math
import signal
import threading
import time
from dataclasses import asdict
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from attnbook.training.checkpoint import Checkpoint, random_state, set_random_state, settings
from attnbook.training.history import History, NonFiniteLoss, named
from attnbook.training.plan import Plan, check_parts
from attnbook.training.progress import Bar


class Run:
    """One training run, from its first step or its checkpoint to its end."""

    def __init__(self, model: nn.Module, optimizer: Optimizer, plan: Plan):
        check_parts(model, optimizer)
        self.model, self.optimizer, self.plan = model, optimizer, plan
        self.steps, self.seed = int(plan.steps), int(plan.seed)
        self.device = next(model.parameters()).device
        self.rates = [float(group["lr"]) for group in optimizer.param_groups]
        self.generator = torch.Generator().manual_seed(self.seed)
        self.history = History()
        self.saved_at: int | None = None  # the step that the checkpoint's file holds
        self.file: Checkpoint | None = None
        self.resume()
        self.random = random_state(self.generator, self.device)
        self.last = math.nan, math.nan  # loss and gradient norm of the step under way
        self.half_done = False  # weights changed, and the optimizer's state perhaps not yet
        self.asked_to_stop = False
        self.bar = Bar(self.steps, plan.progress)

    def resume(self) -> None:
        """Go on where the checkpoint stopped, if there is one; else start from the seed."""
        stored = None
        if self.plan.checkpoint:
            agreed = self.plan.to_dict() | {"lr": self.rates} | settings(self.optimizer)
            self.file = Checkpoint(self.plan.checkpoint, agreed, self.model, self.optimizer)
            stored = self.file.load()
        torch.manual_seed(self.seed)
        if stored:
            self.history = History(**stored["history"])
            self.saved_at = self.history.steps
            set_random_state(stored["random"], self.generator, self.device)

    def __enter__(self) -> "Run":
        self.modes = modes(self.model)
        self.model.train()
        self.old_handler: Any = None
        if threading.current_thread() is threading.main_thread():
            self.old_handler = signal.signal(signal.SIGINT, self.on_interrupt)
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
        try:
            if self.history.interrupted and not self.half_done:
                self.save()
        finally:
            if self.old_handler is not None:
                signal.signal(signal.SIGINT, self.old_handler)
            put_back(self.modes)
            self.set_rates(1.0)
            self.bar.close()
        check_loss(error)
        return self.history.interrupted

    def on_interrupt(self, *_: object) -> None:
        """The first Ctrl-C waits until weights and optimizer agree again; the second does not."""
        if self.asked_to_stop:
            raise KeyboardInterrupt
        self.asked_to_stop = True

    def stop_if_asked(self) -> None:
        if self.asked_to_stop:
            raise KeyboardInterrupt

    def goes_on(self) -> bool:
        """Evaluate and save if it is time. Is there another step to take?"""
        self.stop_if_asked()
        step = self.history.steps
        over = step >= self.steps
        late = self.plan.seconds is not None and self.history.seconds >= self.plan.seconds
        if step and (over or step % int(self.plan.every) == 0):
            self.measure()
            self.save()
        elif late:
            self.save()  # first: an uninterrupted run is not evaluated at this step
            self.measure()
        self.stop_if_asked()  # during the evaluation
        self.set_rates(float(self.plan.schedule(min(step, self.steps - 1))))
        self.bar.draw(step, self.history.loss)
        self.clock = time.perf_counter()
        return not (over or late)

    def set_rates(self, factor: int | float) -> None:
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

    def check_finite(self, value: Tensor, norm: Tensor) -> None:
        """Raise NonFiniteLoss, with step, loss and gradient norm, unless both are finite."""
        self.last = value.item(), norm.item()
        if not all(map(math.isfinite, self.last)):
            error = NonFiniteLoss(
                f"step {self.history.steps + 1}: loss {self.last[0]}, gradient norm "
                f"{self.last[1]}; the weights are those before this step"
            )
            error.history = self.history
            raise error
        self.half_done = True

    def record(self) -> None:
        """The step is complete: write it down, and where the random numbers stand."""
        self.history.seconds += time.perf_counter() - self.clock
        self.history.loss.append(self.last[0])
        self.history.grad_norm.append(self.last[1])
        if self.file:
            self.random = random_state(self.generator, self.device)
        self.half_done = False

    def measure(self) -> None:
        """Evaluate without gradients and in evaluation mode; training does not notice."""
        step, done = self.history.steps, self.history.evaluations
        if self.plan.evaluate is None or (done and done[-1][0] == step):
            return
        before, random = modes(self.model), random_state(self.generator, self.device)
        self.model.eval()
        try:
            with torch.no_grad():
                value = self.plan.evaluate(self.model)
        finally:
            put_back(before)
            set_random_state(random, self.generator, self.device)
        done.append((step, named(value)))

    def save(self) -> None:
        if self.file and self.saved_at != self.history.steps:
            self.file.save(asdict(self.history), self.random)
            self.saved_at = self.history.steps


def modes(model: nn.Module) -> list[tuple[nn.Module, bool]]:
    """Each part of the model with its mode, training or evaluation."""
    return [(module, module.training) for module in model.modules()]


def put_back(modes: list[tuple[nn.Module, bool]]) -> None:
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
