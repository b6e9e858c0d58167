"""What resuming needs to be the same as never having stopped, in a file never half written."""

import os
from pathlib import Path
from pickle import UnpicklingError

import torch


class Checkpoint:
    """One file for one training run. It is read only by the run that it belongs to."""

    def __init__(self, path, plan, model, optimizer):
        self.path, self.plan, self.model, self.optimizer = Path(path), plan, model, optimizer
        if self.path.is_dir():
            raise ValueError(f"checkpoint {self.path} is a folder; the name of a file is needed")
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def load(self):
        """Fill model and optimizer and return the rest; None where there is no file.

        Everything is compared before anything is filled: ValueError names what differs.
        """
        if not self.path.exists():
            return None
        try:
            found = torch.load(self.path, map_location="cpu", weights_only=True)
            there = found["plan"] | shapes(found["model"])
        except Exception as error:
            reason = type(error).__name__
            raise ValueError(
                f"{self.path} is not a readable checkpoint ({reason}); remove it to start anew"
            ) from error
        here = self.plan | shapes(self.model.state_dict())
        wrong = [
            f"{name} {there.get(name, 'absent')} there, {here.get(name, 'absent')} here"
            for name in here | there
            if there.get(name) != here.get(name)
        ]
        if wrong:
            more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            raise ValueError(f"{self.path} is of another run: {'; '.join(wrong[:3])}{more}")
        self.model.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])
        return found

    def save(self, history, random):
        """Write beside the file, then replace it in one act: it is the old one or the new one."""
        content = {"plan": self.plan, "model": self.model.state_dict()}
        content |= {"optimizer": self.optimizer.state_dict(), "history": history, "random": random}
        content["optimizer"]["param_groups"] = plain(content["optimizer"]["param_groups"])
        partial = self.path.with_name(self.path.name + ".partial")
        try:
            with open(partial, "wb") as out:
                torch.save(content, out)
                out.flush()
                os.fsync(out.fileno())
            torch.load(partial, map_location="cpu", weights_only=True)  # as `load` will
            os.replace(partial, self.path)
        except UnpicklingError as error:
            raise ValueError(f"{self.path} could not be read again, so it is not kept") from error
        finally:
            partial.unlink(missing_ok=True)


def settings(optimizer):
    """What an optimizer does, for a plan: its kind and settings, without the rates."""
    groups = optimizer.param_groups
    names = sorted(set().union(*groups) - {"params", "lr", "initial_lr"})
    found = {f"optimizer's {name}": [plain(group.get(name)) for group in groups] for name in names}
    return {"optimizer": type(optimizer).__name__} | found


def plain(value):
    """The same in Python's own types: a file read with `weights_only` may hold no others."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        parts = [plain(part) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    return value.tolist() if hasattr(value, "tolist") else value


def shapes(state):
    return {f"weights {name}": tuple(tensor.shape) for name, tensor in state.items()}


def random_state(generator, device):
    """Where each source of random numbers stands: the sampler's, torch's, the device's own."""
    state = {"generator": generator.get_state(), "cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["device"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        state["device"] = torch.mps.get_rng_state()
    return state


def set_random_state(state, generator, device):
    """Put each source of random numbers back to where it stood."""
    generator.set_state(state["generator"])
    torch.set_rng_state(state["cpu"])
    if "device" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["device"], device)
    elif "device" in state and device.type == "mps":
        torch.mps.set_rng_state(state["device"])
