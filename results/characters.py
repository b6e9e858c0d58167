"""Train the character models of chapter 1 with its larger budget, store their held-out losses.

    python results/characters.py

The result goes to results/characters/.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.data import text
from attnbook.losses import parameters, token_loss
from attnbook.provenance import provenance, write
from attnbook.recurrent import GRUCell, LSTMCell, RNNCell, language_model
from attnbook.train.loop import cosine, train

# Cell and width. The wider RNN has as many parameters as the LSTM.
MODELS = {
    "RNN": (RNNCell, 96),
    "wider RNN": (RNNCell, 173),
    "GRU": (GRUCell, 96),
    "LSTM": (LSTMCell, 96),
}


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross-entropy of the next character, in nats."""
    return token_loss(model(batch[0])[0], batch[1])


def measure(options: argparse.Namespace) -> dict:
    """For each model and seed the loss on held-out windows of 128 characters, after training."""
    here = device.choose()
    docs = text.load(options.corpus)
    encode, V = docs.characters.encode, len(docs.characters)
    sampler = text.windows(encode(docs.train), options.T, options.batch)
    x, y = text.consecutive(encode(docs.validation), 128)
    held_out = x.to(here.device), y.to(here.device)
    schedule = cosine(options.steps, warmup=20, floor=0.01)
    plan = {"steps": options.steps, "lr": options.lr, "schedule": schedule}
    plan |= {"evaluate": lambda model: loss(model, held_out), "every": options.steps}
    models: dict[str, dict[str, Any]] = {}
    for name, (cell, width) in MODELS.items():
        found = models.setdefault(name, {"width": width, "losses": [], "seconds": []})
        for seed in options.seeds:
            torch.manual_seed(seed)
            model = language_model(cell, V, width).to(here.device)
            history = train(model, sampler, loss, seed=seed, precision=here.autocast, **plan)
            if history.interrupted:
                raise SystemExit(f"stopped in {name}, seed {seed}; nothing was stored")
            found["parameters"] = parameters(model)
            found["losses"].append(round(history.evaluated()[1][-1], 4))
            found["seconds"].append(round(history.seconds))
            print(f"{name:9} seed {seed}: {found['losses'][-1]:.3f} nats per character")
    config = {name: value for name, value in vars(options).items() if name != "out"}
    chance = round(math.log(V), 4)
    return {"config": config, "chance": chance, "models": models, "provenance": provenance(here)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", default="python-docs", choices=sorted(text.CORPORA))
    parser.add_argument("--T", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--lr", type=float, default=2e-2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "characters")
    options = parser.parse_args()
    write(options.out / f"{options.corpus}.json", measure(options))


if __name__ == "__main__":
    main()
