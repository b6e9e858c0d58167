"""Train language models of growing size alike, and store how surprised each is by unseen text.

    python results/scaling.py                       # the whole plan, under an hour on one core
    python results/scaling.py --width 48 --seed 3   # one run

Characters of tiny Shakespeare, read as results/shakespeare.py reads them. A model is the recipe
`llama` with two blocks and heads of 16 channels (one head below 32); only its width grows. All see
as many characters in the same order, in batches of 16 windows of 64. Warm-up is a twentieth of the
steps, then half a cosine down to a tenth. The learning rate is 0.3 / width: pilots at widths 8, 32,
96 and 160 over at most 1,000 steps had their best rates near that line. `--rate` multiplies it, for
the runs that show what the rule costs.

`--cell lstm` trains an LSTM of one layer in the same way, forget gates opened with a bias of 1, and
the rate 1.5 / width: of those tried at widths 16 and 96 over 300 steps the largest were the best,
1.6 and 1.9 / width.

Each run goes to a file in results/scaling/. A run that is there is not run again, and one that was
interrupted is resumed. When the whole plan is there, what chapter 12 reads of it is written to
src/bookkit/runs/scaling.json.
"""

import argparse
import json
import math
from functools import partial
from pathlib import Path

import torch
from torch import nn

from attnbook import device
from attnbook.data import text
from attnbook.feedforward import swiglu_hidden
from attnbook.losses import parameters
from attnbook.models.llama import llama
from attnbook.provenance import provenance, write
from attnbook.recurrent import Logits, LSTMCell, language_model
from attnbook.train.loop import cosine, train
from attnbook.transformer import LanguageModel
from bookkit.results import study
from bookkit.results.study import Config, adamw, held_out_loss, next_token_loss

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "scaling.json"
WIDTHS = (6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192)
LSTM_WIDTHS = (12, 20, 32, 52, 84, 136)
PLAN = {"depth": 2, "T": 64, "batch": 16, "floor": 0.1, "betas": [0.9, 0.99], "weight_decay": 0.1}
STEPS = 2000
GRID_WIDTHS = (8, 12, 16, 24, 32, 48, 64, 96, 128)
GRID_STEPS = (125, 250, 500, 1000, 4000)  # and the 2,000 of the sizes
GRID_WORK = 64 * 4000  # the largest width times steps that the grid asks for


def plan() -> list[dict]:
    """All runs of the study: sizes, then data at two sizes, other learning rates, more seeds."""
    sizes = [{"width": width} for width in WIDTHS]
    data = [{"width": w, "steps": s} for w in (16, 64) for s in (250, 500, 1000, 4000)]
    rates = [{"width": width, "rate": rate} for width in (8, 32, 96) for rate in (0.5, 2.0)]
    rates += [{"width": width, "rate": 0.5} for width in (64, 128, 192)]
    again = [{"width": width, "seed": 1} for width in WIDTHS if width <= 64]
    recurrent = [{"width": width, "cell": "lstm"} for width in LSTM_WIDTHS]
    return [settings(**changes) for changes in sizes + recurrent + data + rates + again] + grid()


def grid() -> list[dict]:
    """What sizes and data lack of a grid in both, the short runs first; none is in them twice."""
    pairs = [(w, s) for s in GRID_STEPS for w in GRID_WIDTHS if w * s <= GRID_WORK]
    return [settings(w, s) for w, s in pairs if w not in (16, 64) or s == GRID_STEPS[0]]


def settings(
    width: int, steps: int = STEPS, rate: float = 1.0, seed: int = 0, cell: str | None = None
) -> dict:
    """Everything that a run depends on. `cell` is named where the model is a recurrent one."""
    lr = rate * (1.5 if cell else 0.3) / width
    config = {"width": width, "steps": steps, "rate": rate, "seed": seed, "lr": lr} | PLAN
    return config | ({"cell": cell, "depth": 1} if cell else {})


def build(config: Config, V: int) -> LanguageModel | Logits:
    """The recipe `llama` in this width, or a recurrent network."""
    width = config["width"]
    if "cell" in config:
        model = language_model(LSTMCell, V, width)
        for layer in model.body.layers:
            bias = layer.get_parameter("cell.from_input.bias")
            nn.init.constant_(bias.chunk(4)[1], 1.0)
        return Logits(model)
    heads = max(1, width // 16)
    return llama(V, width, config["depth"], heads, hidden=swiglu_hidden(width))


def measure(config: Config, checkpoint: Path) -> dict:
    """Train and evaluate as `config` says; what is returned is what is stored."""
    here = device.choose(config["seed"])
    corpus = text.load("shakespeare")
    encode, T, steps = corpus.characters.encode, config["T"], config["steps"]
    model = build(config, len(corpus.characters)).to(here.device)
    held_out = text.consecutive(encode(corpus.validation), T)
    history = study.complete(
        train(
            model,
            text.windows(encode(corpus.train), T, config["batch"]),
            next_token_loss,
            steps=steps,
            optimizer=adamw(model, config),
            schedule=cosine(steps, steps // 20, config["floor"]),
            seed=config["seed"],
            evaluate=partial(held_out_loss, windows=held_out, here=here),
            every=steps // 4,
            checkpoint=checkpoint,
            precision=here.autocast,
            progress=False,
        )
    )
    curve = study.curve(history)
    return {
        "config": config,
        "parameters": parameters(model.body),
        "all_parameters": parameters(model),
        "characters": steps * config["batch"] * T,
        "passes": round(steps * config["batch"] * T / len(corpus.train), 2),
        "symbols": len(corpus.characters),
        "chance": round(math.log(len(corpus.characters)), 4),
        "training_loss": round(sum(history.loss[-steps // 10 :]) / (steps // 10), 4),
        "validation_loss": curve[-1][1],
        "validation": curve,
        "training_seconds": round(history.seconds, 1),
        "provenance": provenance(here),
    }


def named(config: Config) -> str:
    """The name of the file in which the run is stored."""
    name = "width{width:03}.steps{steps}.rate{rate:g}.seed{seed}".format(**config)
    return f"{config['cell']}.{name}" if "cell" in config else name


def collected(folder: Path) -> dict:
    """What the chapter reads: one row for each run of the plan, and where they come from."""
    rows, origins = [], []
    for config in plan():
        run = json.loads((folder / f"{named(config)}.json").read_text("utf-8"))
        rows.append(
            {name: config[name] for name in ("width", "steps", "rate", "seed")}
            | {"cell": config.get("cell", "attention"), "N": run["parameters"]}
            | {"all": run["all_parameters"], "D": run["characters"]}
            | {"loss": run["validation_loss"], "training": run["training_loss"]}
            | {"way": run["validation"]}
        )
        origins.append(run["provenance"])
    last = max(origins, key=lambda origin: origin["date"])
    return {"runs": rows, "provenance": last | {"command": "python results/scaling.py"}}


def chosen(options: argparse.Namespace) -> list[dict]:
    """The one run that is asked for, or the plan."""
    if options.width is None:
        return plan()
    return [settings(options.width, options.steps, options.rate, options.seed, options.cell)]


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--width", type=int, help="one run with this width; default: the plan")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rate", type=float, default=1.0, help="times the rule's learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cell", choices=["lstm"], help="a recurrent network, not a transformer")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "scaling")
    return parser


def main() -> None:
    parser = arguments()
    options = parser.parse_args()
    for config in chosen(options):
        name = named(config)
        run = study.run_or_explain(parser, options.out / f"{name}.json", config, measure)
        print(f"{name}: {run['parameters']:,} parameters, {run['validation_loss']} nats")
    if options.width is None and options.out == Path(__file__).parent / "scaling":
        write(STORE, collected(options.out))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
