"""Whom 32 characters go to while a mixture of experts is trained: a picture of chapter 9.

    python results/router.py      # a minute and a half

The language model of `parts.py` with two blocks of eight experts, of which two work on a token,
chosen by a sigmoid; its bias is moved by 0.01 after each step, or not at all. Three seeds of each,
at the learning rate that `parts.py` found best for both. At some steps: the upper router's numbers
for 32 characters of the held-out text, and what share of 8,192 characters each expert gets. The
characters are the second half of the first 64 of the first line that has so many and is prose.
"""

import base64
import re
from pathlib import Path
from typing import Any

import torch
from parts import STEPS, batches, build, held_out, language, trained
from recurrence import SEEDS
from torch import Tensor, nn

from attnbook import device
from attnbook.data import text
from attnbook.experts import BiasBalance, MixtureOfExperts
from attnbook.provenance import provenance, write

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "router.json"
AT = (0, 10, 20, 50, 100, STEPS)
SHOWN, UNIT, RATE = 32, 1 / 16, 0.02
BIASES = {"off": 0.0, "on": 0.01}


def line() -> str:
    """The first 64 characters of the first line of prose in the second half of the held-out."""
    held = text.load().validation
    found = re.search(r"^[A-Z][a-z ,]{63}", held[len(held) // 2 :], re.MULTILINE)
    if found is None:
        raise ValueError("no line of prose in the held-out text")
    return found[0]


@torch.no_grad()
def numbers(model: nn.Module, x: Tensor) -> Tensor:
    """The upper router's numbers for all tokens of x, (N, E)."""
    found: list[Tensor] = []
    router = upper(model).router
    hook = router.register_forward_hook(lambda _, given, logits: found.append(logits))
    model.eval()(x)
    hook.remove()
    model.train()
    return found[0]


def upper(model: nn.Module) -> Any:
    """The last mixture of experts."""
    return [part for part in model.modules() if isinstance(part, MixtureOfExperts)][-1]


class Watched:
    """The loss of a language model; notes at some steps what the router says, and to whom."""

    def __init__(self, model: nn.Module, rate: float) -> None:
        self.bias, self.step = BiasBalance(model, rate), 0
        self.found: list[dict[str, Any]] = []
        self.shown = text.load().characters.encode(line())[None]
        self.many = batches()[2][0]

    def __call__(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        if self.step:
            self.bias.step()  # after the optimizer's last step
        if self.step in AT:
            self.note(model)
        self.step += 1
        return language(model, batch)

    def note(self, model: nn.Module) -> None:
        correction, active = upper(model).router.correction, upper(model).active
        levels = (numbers(model, self.shown)[-SHOWN:] / UNIT).round().clamp(-128, 127) + 128
        chosen = (numbers(model, self.many).sigmoid() + correction).topk(active).indices
        share = chosen.flatten().bincount(minlength=len(correction)) / chosen.shape[0]
        self.found.append(
            {
                "levels": base64.b64encode(bytes(levels.int().flatten().tolist())).decode(),
                "bias": [round(b, 2) for b in correction.tolist()],
                "share": [round(s, 3) for s in share.tolist()],
            }
        )


def run(rate: float, seed: int) -> dict[str, Any]:
    """What was noted on the way, and the loss on held-out text at the end."""
    torch.manual_seed(seed)
    kind = {"experts": True, "bias": rate}
    model = build([kind, kind])
    watched = Watched(model, rate)
    trained(model, RATE, seed, STEPS, loss=watched)
    watched.bias.step()
    watched.note(model)
    return {"loss": held_out(model, batches()[2]), "path": watched.found}


def main() -> None:
    torch.set_num_threads(1)
    found: dict[str, Any] = {"text": line()[-SHOWN:], "at": AT, "unit": UNIT}
    for name, rate in BIASES.items():
        found[name] = [run(rate, seed) for seed in SEEDS[:3]]
        print(name, [one["loss"] for one in found[name]], flush=True)
    write(STORE, found | {"provenance": provenance(device.choose(0))})


if __name__ == "__main__":
    main()
