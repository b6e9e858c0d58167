"""What surrounds the training loop: clock, Ctrl-C, evaluation, and when to save."""

import math
import signal
import threading
import time
from dataclasses import asdict

import torch

from attnbook.checkpoint import Checkpoint, random_state, set_random_state, settings
from attnbook.history import History, NonFiniteLoss, named
from attnbook.options import check_loss, checked
from attnbook.progress import Bar


class Run:
    """One training run, from its first step or its checkpoint to its end."""

    def __init__(self, model, optimizer, schedule, **options):
        options = checked(model, optimizer, options)
        self.model, self.optimizer, self.schedule = model, optimizer, schedule
        self.steps, self.every, self.seconds = (
            options[name] for name in ("steps", "every", "seconds")
        )
        self.evaluate, seed = options["evaluate"], options["seed"]
        self.device = next(model.parameters()).device
        self.rates = [float(group["lr"]) for group in optimizer.param_groups]
        self.generator = torch.Generator().manual_seed(seed)
        self.history, self.saved_at, self.file = History(), None, None
        if options["checkpoint"]:
            probe = [float(schedule(step)) for step in (0, self.steps // 2, self.steps - 1)]
            plan = {"steps": self.steps, "seed": seed, "clip": options["clip"], "schedule": probe}
            plan |= {"lr": self.rates} | settings(optimizer)
            self.file = Checkpoint(options["checkpoint"], plan, model, optimizer)
        found = self.file.load() if self.file else None
        torch.manual_seed(seed)
        if found:
            self.history = History(**found["history"])
            self.saved_at = self.history.steps
            set_random_state(found["random"], self.generator, self.device)
        self.random = random_state(self.generator, self.device)
        self.torn = self.asked_to_stop = False
        self.bar = Bar(self.steps, options["progress"])

    def __enter__(self):
        self.modes = modes(self.model)
        self.model.train()
        self.old_handler = None
        if threading.current_thread() is threading.main_thread():
            self.old_handler = signal.signal(signal.SIGINT, self.on_interrupt)
        return self

    def __exit__(self, kind, error, trace):
        """Put back modes, rates and what Ctrl-C does; a Ctrl-C itself ends here and is noted.

        The weights stay changed, and so do torch's global random numbers, which `seed` started.
        """
        self.history.interrupted = isinstance(error, KeyboardInterrupt)
        try:
            if self.history.interrupted and not self.torn:
                self.save()
        finally:
            if self.old_handler is not None:
                signal.signal(signal.SIGINT, self.old_handler)
            put_back(self.modes)
            self.set_rates(1.0)
            self.bar.close()
        check_loss(error)
        return self.history.interrupted

    def on_interrupt(self, *_):
        """The first Ctrl-C waits until weights and optimizer agree again; the second does not."""
        if self.asked_to_stop:
            raise KeyboardInterrupt
        self.asked_to_stop = True

    def stop_if_asked(self):
        if self.asked_to_stop:
            raise KeyboardInterrupt

    def goes_on(self) -> bool:
        """Evaluate and save if it is time. Is there another step to take?"""
        self.stop_if_asked()
        step = self.history.steps
        over = step >= self.steps
        late = self.seconds is not None and self.history.seconds >= self.seconds
        if step and (over or step % self.every == 0):
            self.measure()
            self.save()
        elif late:
            self.save()  # first: an uninterrupted run is not evaluated at this step
            self.measure()
        self.stop_if_asked()  # during the evaluation
        self.set_rates(self.schedule(min(step, self.steps - 1)))
        self.bar.draw(step, self.history.loss)
        self.clock = time.perf_counter()
        return not (over or late)

    def set_rates(self, factor):
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * float(factor)

    def to_device(self, batch):
        """The batch on the model's device; tuples, lists and dictionaries are entered."""
        if hasattr(batch, "to"):
            return batch.to(self.device)
        if isinstance(batch, dict):
            return {name: self.to_device(part) for name, part in batch.items()}
        if isinstance(batch, (tuple, list)):
            parts = [self.to_device(part) for part in batch]
            return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
        return batch

    def check_finite(self, value, norm):
        """Raise NonFiniteLoss, with step, loss and gradient norm, unless both are finite."""
        self.found = value.item(), norm.item()
        if not all(map(math.isfinite, self.found)):
            error = NonFiniteLoss(
                f"step {self.history.steps + 1}: loss {self.found[0]}, gradient norm "
                f"{self.found[1]}; the weights are those before this step"
            )
            error.history = self.history
            raise error
        self.torn = True  # until the step is complete, weights and optimizer may disagree

    def record(self):
        """The step is complete: write it down, and where the random numbers stand."""
        self.history.seconds += time.perf_counter() - self.clock
        self.history.loss.append(self.found[0])
        self.history.grad_norm.append(self.found[1])
        if self.file:
            self.random = random_state(self.generator, self.device)
        self.torn = False

    def measure(self):
        """Evaluate without gradients and in evaluation mode; training does not notice."""
        step, done = self.history.steps, self.history.evaluations
        if self.evaluate is None or (done and done[-1][0] == step):
            return
        before, random = modes(self.model), random_state(self.generator, self.device)
        self.model.eval()
        try:
            with torch.no_grad():
                value = self.evaluate(self.model)
        finally:
            put_back(before)
            set_random_state(random, self.generator, self.device)
        done.append((step, named(value)))

    def save(self):
        if self.file and self.saved_at != self.history.steps:
            self.file.save(asdict(self.history), self.random)
            self.saved_at = self.history.steps


def modes(model):
    """Each part of the model with its mode, training or evaluation."""
    return [(module, module.training) for module in model.modules()]


def put_back(modes):
    for module, training in modes:
        module.training = training
