"""Train one character model on Shakespeare as nanoGPT does, store its held-out loss on the way.

    python results/shakespeare.py --recipe gpt2
    python results/shakespeare.py --recipe llama --steps 1000 --every 100

Setting "cpu" is the command in nanoGPT's README for a computer without a GPU, "gpu" its file
config/train_shakespeare_char.py; AdamW, its schedule and what is decayed are nanoGPT's in both.
The text is divided as there: the last tenth validates, and all of it is read at each evaluation,
in windows as long as in training. `llama` gets the hidden width that makes it as large as `gpt2`;
the recipe has no dropout. On a GPU, each in some minutes:

    python results/shakespeare.py --setting gpu --recipe gpt2
    python results/shakespeare.py --setting gpu --recipe llama

The result goes to results/shakespeare/. An interrupted run resumes where it was when the same
command is given again.
"""

import argparse
import math
from functools import partial
from pathlib import Path

import torch
from torch import nn

from attnbook import device
from attnbook.data import text
from attnbook.generate.sampling import generate, sample, temperature
from attnbook.losses import parameters
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.norms import LayerNorm
from attnbook.provenance import provenance
from attnbook.train.loop import cosine, train
from bookkit.results import study
from bookkit.results.study import Config, adamw, held_out_loss, next_token_loss

SETTINGS = {
    "cpu": {"depth": 4, "heads": 4, "width": 128, "T": 64, "batch": 12, "dropout": 0.0}
    | {"steps": 2000, "every": 200},
    "gpu": {"depth": 6, "heads": 6, "width": 384, "T": 256, "batch": 64, "dropout": 0.2}
    | {"steps": 5000, "every": 250},
}
OPTIMISER = {"lr": 1e-3, "floor": 0.1, "warmup": 100, "betas": [0.9, 0.99], "weight_decay": 0.1}


def build(config: Config, V: int, hidden: int | None = None) -> nn.Module:
    """The recipe at the setting's size. No bias in linear maps, as in nanoGPT, but norms with a
    shift, which nanoGPT lacks: the stored runs were made so."""
    sizes = {name: config[name] for name in ("width", "depth", "heads")}
    if config["recipe"] == "gpt2":
        model = gpt2(V, config["T"], dropout=config["dropout"], bias=False, **sizes)
        for norm in (part for part in model.modules() if isinstance(part, LayerNorm)):
            norm.bias = nn.Parameter(torch.zeros_like(norm.weight))
        return model
    return llama(V, hidden=hidden or equal_hidden(config, V), **sizes)


def equal_hidden(config: Config, V: int) -> int:
    """The hidden width with which `llama` has as many parameters as `gpt2`, or nearly."""
    with torch.device("meta"):
        goal = parameters(build(config | {"recipe": "gpt2"}, V))
        one, two = (parameters(build(config | {"recipe": "llama"}, V, h)) for h in (1, 2))
    return 1 + round((goal - one) / (two - one))


def written(
    model: nn.Module,
    characters: text.Characters,
    config: Config,
    device: torch.device,
    count: int = 400,
) -> str:
    """What the model writes after a line's end, at temperature 0.8, seeing its last T tokens."""
    choose = sample(temperature(0.8), generator=torch.Generator().manual_seed(config["seed"]))
    start = characters.encode("\n")[None].to(device)
    tokens = generate(model, start, count, choose, cached=False, window=config["T"])
    return characters.decode(tokens[0])


def measure(config: Config, checkpoint: Path) -> dict:
    """Train and evaluate as `config` says; what is returned is what is stored."""
    here = device.choose(config["seed"])
    corpus = text.load("shakespeare")
    encode, T = corpus.characters.encode, config["T"]
    model = build(config, len(corpus.characters)).to(here.device)
    held_out = text.consecutive(encode(corpus.validation), T)
    history = study.complete(
        train(
            model,
            text.windows(encode(corpus.train), T, config["batch"]),
            next_token_loss,
            steps=config["steps"],
            optimizer=adamw(model, config),
            schedule=cosine(config["steps"], config["warmup"], config["floor"]),
            seed=config["seed"],
            evaluate=partial(held_out_loss, windows=held_out, here=here),
            every=config["every"],
            checkpoint=checkpoint,
            precision=here.autocast,
        )
    )
    model.eval()
    curve = study.curve(history)
    return {
        "config": config,
        "parameters": parameters(model),
        "hidden": equal_hidden(config, len(corpus.characters))
        if config["recipe"] == "llama"
        else 4 * config["width"],
        "symbols": len(corpus.characters),
        "chance": round(math.log(len(corpus.characters)), 4),
        "validation_loss": curve[-1][1],
        "best_validation_loss": min(value for _, value in curve),
        "validation": curve,
        "training_seconds": round(history.seconds),
        "sample": written(model, corpus.characters, config, here.device),
        "provenance": provenance(here),
    }


def chosen(options: argparse.Namespace) -> dict:
    """The run's settings: those given, and nanoGPT's for the others."""
    given = study.changes(options, CHANGES)
    config = {"setting": options.setting, "recipe": options.recipe}
    config |= SETTINGS[options.setting] | OPTIMISER | given | {"seed": options.seed}
    return config | ({"dropout": 0.0} if options.recipe == "llama" else {})


def named(config: Config) -> str:
    """The name of the file in which the run is stored."""
    return "{setting}.{recipe}.steps{steps}.lr{lr:g}.seed{seed}".format(**config)


CHANGES = {"steps": int, "every": int, "lr": float}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--setting", default="cpu", choices=sorted(SETTINGS))
    parser.add_argument("--recipe", default="gpt2", choices=["gpt2", "llama"])
    for name, kind in CHANGES.items():
        parser.add_argument(f"--{name}", type=kind, help="default: the setting's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "shakespeare")
    parser.add_argument("--checkpoint", type=Path, help="default: beside the result")
    return parser


def main() -> None:
    parser = arguments()
    options = parser.parse_args()
    config = chosen(options)
    name = named(config)
    path = options.out / f"{name}.json"
    run = study.run_or_explain(parser, path, config, measure, options.checkpoint)
    print(f"{name}: {run['parameters']:,} parameters, {run['validation_loss']} nats")


if __name__ == "__main__":
    main()
