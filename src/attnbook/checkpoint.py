"""What must be kept to resume training as if it had never stopped, and a file that is never half written."""
import os
from pathlib import Path

import torch


class Checkpoint:
    """One file that holds a training run. It is read only if it belongs to the same plan and the same model."""

    def __init__(self, path, plan, model, optimizer):
        self.path, self.plan, self.model, self.optimizer = Path(path), plan, model, optimizer
        if self.path.is_dir():
            raise ValueError(f"checkpoint {self.path} is a folder; the name of a file is needed")
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def load(self):
        """Fill model and optimizer and return the rest, or None where there is no file. All is compared before anything is filled."""
        if not self.path.exists():
            return None
        try:
            found = torch.load(self.path, map_location="cpu", weights_only=True)
            plan, shapes = found["plan"], {name: tuple(tensor.shape) for name, tensor in found["model"].items()}
        except Exception as error:
            raise ValueError(f"{self.path} is not a checkpoint that can be read ({type(error).__name__}); remove it to start afresh") from error
        mine = {name: tuple(tensor.shape) for name, tensor in self.model.state_dict().items()}
        wrong = [f"{name} {there} there, {here} here" for name, there, here in _differences(plan, self.plan)]
        wrong += [f"{name} {there} there, {here} here" for name, there, here in _differences(shapes, mine)]
        if wrong:
            more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            raise ValueError(f"{self.path} belongs to another run: {'; '.join(wrong[:3])}{more}. Choose another file, or remove it")
        self.model.load_state_dict(found["model"])
        self.optimizer.load_state_dict(found["optimizer"])
        return found

    def save(self, history, random):
        """Write beside the file, then replace it in one act: whoever is killed in between leaves the old one whole."""
        partial = self.path.with_name(self.path.name + ".partial")
        with open(partial, "wb") as out:
            torch.save({"plan": self.plan, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                        "history": history, "random": random}, out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, self.path)


def _differences(there, here):
    return [(name, there.get(name, "absent"), here.get(name, "absent")) for name in {**here, **there} if there.get(name) != here.get(name)]


def random_state(generator, device):
    """Where every source of random numbers stands: the sampler's generator, torch's, and the device's own."""
    state = {"generator": generator.get_state(), "cpu": torch.get_rng_state()}
    if device.type in ("cuda", "mps"):
        state["device"] = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.mps.get_rng_state()
    return state


def set_random_state(state, generator, device):
    """Put every source of random numbers back to where it stood."""
    generator.set_state(state["generator"])
    torch.set_rng_state(state["cpu"])
    if "device" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["device"], device)
    elif "device" in state and device.type == "mps":
        torch.mps.set_rng_state(state["device"])


def modes(model):
    """Each module of the model with its mode (training or evaluation), to be put back later."""
    return [(module, module.training) for module in model.modules()]
