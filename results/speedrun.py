"""How low a loss some CPU seconds buy: from nanoGPT's recipe to today's, one change a rung.

    python results/speedrun.py
    python results/speedrun.py --only all --seeds 0 --times 1
    python results/speedrun.py --nanogpt path/to/nanoGPT

tiny Shakespeare in nanoGPT's setting for a computer without a GPU: 4 layers, width 128, 4 heads,
windows of 64 characters, 12 in a batch, one thread. Every rung has all changes of the rungs before
it and one more, and as many parameters as nanoGPT's model, or nearly: the hidden width makes up for
what a change adds or saves. Steps are chosen such that each rung takes an eighth of the CPU seconds
of nanoGPT's own 2,000 steps (`--times 2` and `--times 8` give it a quarter, and all of them). The
loss is that on the whole last tenth of the text, in 32 bits, and not counted as time.

With `--nanogpt` a clone of https://github.com/karpathy/nanoGPT is run with its README's command in
the same way, on one thread, and its model is measured on the same windows.

A file in results/speedrun/ for each rung; it is written after each run, and the same command goes
on from there.
"""

import argparse
import json
import math
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.attention import Attention, MultiHeadAttention
from attnbook.block import Block, PreNorm, Stack
from attnbook.data import registry, text
from attnbook.feedforward import SwiGLU
from attnbook.losses import parameters, token_loss
from attnbook.masks import Grid, Mask, dense
from attnbook.models.gpt2 import gpt2
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.provenance import provenance, write
from attnbook.scores import Score, repeat_kv
from attnbook.train.loop import cosine, train
from attnbook.train.optimizers import Muon, Together, fused_rows, kinds
from attnbook.train.run import Schedule
from attnbook.transformer import Embed, LanguageModel, Matrix, Tied, initialise
from bookkit.results import study

Model = TypeVar("Model", bound=nn.Module)


class Setting(TypedDict):
    """What all rungs have in common."""

    width: int
    depth: int
    heads: int
    T: int
    batch: int
    warmup: float


class Parts(TypedDict, total=False):
    """The choices of a rung, or those that it changes; `rest` is the rate of what Muon leaves."""

    block: str
    optimizer: str
    lr: float
    schedule: str
    head: str
    qk_norm: bool
    outputs: str
    table: float | None
    bits: int
    convolution: bool
    steps: int
    rest: float


CONFIG: Setting = {"width": 128, "depth": 4, "heads": 4, "T": 64, "batch": 12, "warmup": 0.05}
BASE: Parts = {
    "block": "gpt2", "optimizer": "AdamW", "lr": 1e-3, "schedule": "cosine to 0.1",
    "head": "tied", "qk_norm": False, "outputs": "xavier", "table": None,
    "bits": 32, "convolution": False, "steps": 240,
}  # fmt: skip
LADDER: dict[str, Parts] = {
    "nanoGPT's recipe": {},
    "a larger rate": {"lr": 3e-3},
    "down to 0": {"schedule": "linear to 0"},
    "today's block": {"block": "llama", "steps": 195},
    "Muon": {"optimizer": "Muon", "lr": 0.014, "rest": 0.01, "steps": 165},
    "a head of its own": {"head": "zero"},
    "QK-norm": {"qk_norm": True, "steps": 150},
    "outputs from zero": {"outputs": "zero"},
    "a rate for the table": {"table": 0.05},
    "16 bits": {"bits": 16, "steps": 280},
    "short convolution": {"convolution": True, "steps": 266},
}
SHOWN = ("validation_loss", "cpu_seconds", "curve")
STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "speedrun.json"
README = "--device=cpu --compile=False --eval_iters=20 --log_interval=1 --block_size=64"
README += " --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=2000"
README += " --lr_decay_iters=2000 --dropout=0.0"


class ShortConvolution(nn.Module):
    """Each channel adds a little of its own last `reach` values: nothing of them at the start.

    Before queries, keys and values are made, as in the delta-rule models (Yang et al. 2024).
    """

    def __init__(self, width: int, reach: int = 3) -> None:
        super().__init__()
        self.taps = nn.Parameter(torch.zeros(reach, width))

    def forward(self, x: Tensor) -> Tensor:
        earlier = nn.functional.pad(x, (0, 0, len(self.taps), 0)).unfold(1, x.shape[1], 1)
        shifted = [earlier[:, len(self.taps) - back].mT for back in range(1, len(self.taps) + 1)]
        return x + sum(tap * each for tap, each in zip(self.taps, shifted, strict=True))


class ByProducts(Score):
    """Attention as its formula says. In 16 bits a CPU is several times as fast with it as with
    torch's kernel that never stores the weights."""

    def fused(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, at: Grid, dropout: float = 0.0
    ) -> Tensor:
        B, H, Tq, D = q.shape
        table = None if mask is None else dense(mask, at)
        floor = v.new_zeros(Tq, k.shape[2])
        if table is not None:  # the same for all heads
            floor = floor.masked_fill(~table, -math.inf)
        q, k, v = (x.to(v.dtype).flatten(0, 1) for x in (q, repeat_kv(k, H), repeat_kv(v, H)))
        scores = torch.baddbmm(floor.expand(B * H, -1, -1), q, k.mT, alpha=D**-0.5)
        return (scores.softmax(-1, dtype=v.dtype) @ v).unflatten(0, (B, H))


def scored(model: Model, score: Score) -> Model:
    """The model, with this `score` in all its attention layers."""
    for part in model.modules():
        if isinstance(part, Attention):
            part.score = score
    return model


def started(parts: Parts) -> Matrix:
    """`matrix(name, weight)` of the variant for `initialise`."""
    zero = [] if parts["outputs"] == "xavier" else ["to_out", "down"]
    zero += ["lm_head"] if parts["head"] == "zero" else []

    def matrix(name: str, weight: Tensor) -> None:
        if name.endswith(tuple(zero or ["no map"])):
            nn.init.zeros_(weight)
        else:
            nn.init.xavier_uniform_(weight)

    return matrix


def build(parts: Parts, V: int, hidden: int | None = None) -> LanguageModel:
    """The variant's model, with the hidden width that makes it as large as nanoGPT's."""
    width, depth, heads = CONFIG["width"], CONFIG["depth"], CONFIG["heads"]
    if parts["block"] == "gpt2":
        return gpt2(V, CONFIG["T"], width, depth, heads, dropout=0.0, bias=False)
    inner, D = hidden or equal_hidden(parts, V), width // heads

    def block() -> Block:
        each = RMSNorm(D) if parts["qk_norm"] else None  # query and key, with one gain
        part = MultiHeadAttention(
            width, heads, rotate=Rotary(D), bias=False, q_norm=each, k_norm=each
        )
        norm: nn.Module = RMSNorm(width)
        if parts["convolution"]:
            norm = nn.Sequential(norm, ShortConvolution(width))
        return Block(PreNorm(part, norm), PreNorm(SwiGLU(width, inner), RMSNorm(width)))

    own = parts["head"] == "zero"
    embed = Embed(V, width, scale=1.0 if own else math.sqrt(width))
    lm_head = nn.Linear(width, V, bias=False) if own else Tied(embed)
    body = Stack([block() for _ in range(depth)], RMSNorm(width))
    model = LanguageModel(embed, body, lm_head)
    return initialise(model, started(parts), 1.0 if own else width**-0.5)


def equal_hidden(parts: Parts, V: int) -> int:
    """The hidden width with which the model has as many parameters as nanoGPT's, or nearly."""
    with torch.device("meta"):
        goal = parameters(build(BASE, V))
        one, two = (parameters(build(parts, V, h)) for h in (1, 2))
    return 1 + round((goal - one) / (two - one))


def optimizer(parts: Parts, model: nn.Module) -> torch.optim.Optimizer:
    """AdamW for all weights, as nanoGPT has it, or for what Muon does not serve."""
    found = kinds(model)
    if parts["optimizer"] == "AdamW":
        settings = {"lr": parts["lr"], "betas": (0.9, 0.99), "weight_decay": 0.1}
        return study.adamw(model, settings)
    cuts = fused_rows(model)
    by_rows: dict[tuple[int, ...] | None, list[Tensor]] = {}
    for weight in found["matrices"]:
        by_rows.setdefault(cuts.get(id(weight)), []).append(weight)
    matrices = [{"params": weights, "rows": rows} for rows, weights in by_rows.items()]
    taps = [w for name, w in model.named_parameters() if name.endswith("taps")]
    mine = {id(w) for w in taps}
    tables = [w for w in found["embeddings"] if id(w) not in mine]
    others: list[dict[str, Any]] = [{"params": found["gains"] + found["head"] + taps}]
    others += [{"params": tables, "lr": parts["table"] or parts["rest"]}]
    adamw = torch.optim.AdamW(others, lr=parts["rest"], betas=(0.9, 0.95), weight_decay=0.0)
    return Together(Muon(matrices, lr=parts["lr"], precision=torch.bfloat16), adamw)


def schedule(parts: Parts, steps: int) -> Schedule:
    warmup = round(CONFIG["warmup"] * steps)
    if parts["schedule"] == "cosine to 0.1":
        return cosine(steps, warmup, 0.1)
    return lambda step: min((step + 1) / warmup, (steps - step) / (steps - warmup))


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return token_loss(model(batch[0]).float(), batch[1])


@torch.no_grad()
def held_out_loss(model: nn.Module, windows: tuple[Tensor, Tensor]) -> float:
    """Mean cross-entropy over all windows, in nats."""
    pairs = zip(*(part.split(128) for part in windows), strict=True)
    return sum(loss(model, pair).item() * len(pair[0]) for pair in pairs) / len(windows[0])


class Clock:
    """The CPU seconds of training: those of the evaluations in between are not counted."""

    def __init__(self, windows: tuple[Tensor, Tensor], every: int = 8) -> None:
        self.part = windows[0][::every], windows[1][::every]
        self.spent, self.began = 0.0, time.process_time()
        self.curve: list[tuple[float, float]] = []

    def seconds(self) -> float:
        return time.process_time() - self.began - self.spent

    def evaluate(self, model: nn.Module) -> float:
        now = time.process_time()
        at = self.seconds()
        value = held_out_loss(model, self.part)
        self.curve.append((round(at, 2), round(value, 4)))
        self.spent += time.process_time() - now
        return value


def measure(parts: Parts, seed: int, times: int) -> dict:
    """One run: its CPU seconds, its loss on the whole tenth, and an eighth of it on the way."""
    corpus = text.load("shakespeare")
    encode = corpus.characters.encode
    held_out = text.consecutive(encode(corpus.validation), CONFIG["T"])
    batches = text.windows(encode(corpus.train), CONFIG["T"], CONFIG["batch"])
    steps = parts["steps"] * times
    sixteen = parts["bits"] == 16
    torch.manual_seed(seed)
    clock = Clock(held_out)
    model = build(parts, len(corpus.characters))
    if sixteen:
        scored(model, ByProducts())
    train(
        model, batches, loss, steps=steps, optimizer=optimizer(parts, model),
        schedule=schedule(parts, steps), seed=seed, progress=False,
        evaluate=clock.evaluate, every=max(1, steps // 6),
        precision=partial(torch.autocast, "cpu", torch.bfloat16) if sixteen else nullcontext,
    )  # fmt: skip
    seconds = clock.seconds()
    scored(model.eval(), Score())
    found: dict[str, Any] = {"seed": seed, "steps": steps, "cpu_seconds": round(seconds, 2)}
    found |= {"validation_loss": round(held_out_loss(model, held_out), 4), "curve": clock.curve}
    return found | {"parameters": parameters(model)}


def variants() -> dict[str, Parts]:
    """Each rung with all changes up to it."""
    found: dict[str, Parts] = {}
    parts = BASE
    for name, change in LADDER.items():
        parts = parts | change
        found[name] = parts
    return found


def slug(name: str) -> str:
    """A rung's name for a file: "QK-norm" → "qk-norm"."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace("'s", ""))


def climb(options: argparse.Namespace) -> None:
    here = device.choose(0)
    for number, (name, parts) in enumerate(variants().items()):
        if options.only and not any(part in name for part in options.only):
            continue
        suffix = "" if options.times == 1 else f".times{options.times}"
        path = options.out / f"{number:02}-{slug(name)}{suffix}.json"
        config = {**CONFIG, **parts, "times": options.times}
        result: dict[str, Any] = {"rung": name, "config": config, "runs": []}
        if path.exists():
            there = json.loads(path.read_text())
            if there["config"] != result["config"]:
                raise SystemExit(f"{path} holds a run of {there['config']}; move it away")
            result = there
        for seed in options.seeds:
            if seed in [run["seed"] for run in result["runs"]]:
                continue
            run = measure(parts, seed, options.times)
            result["provenance"] = provenance(here)  # of the last run
            result["runs"].append(run | {"provenance": result["provenance"]})
            write(path, result)
            found = f"{run['validation_loss']} nats, {run['cpu_seconds']} s"
            print(f"{name}, seed {seed}: {found}", flush=True)
        values = [run["validation_loss"] for run in result["runs"]]
        print(f"{name}: {statistics.mean(values):.3f} ({len(values)} seeds)", flush=True)


def nanogpt(options: argparse.Namespace) -> None:
    """nanoGPT's own training on one thread, and its model's loss on the whole tenth."""
    folder, here = options.nanogpt.resolve(), device.choose(0)
    data, out = folder / "data/shakespeare_char", folder / "out-shakespeare-char"
    shutil.copy(registry.fetch("tinyshakespeare/input.txt"), data / "input.txt")
    python = partial(
        subprocess.run, cwd=folder, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    python([sys.executable, data / "prepare.py"], stdout=subprocess.DEVNULL)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python(
        [sys.executable, "train.py", "config/train_shakespeare_char.py", *README.split()],
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    sys.path.insert(0, str(folder))
    from model import GPT, GPTConfig  # nanoGPT's own

    found = torch.load(out / "ckpt.pt", weights_only=True)
    model = GPT(GPTConfig(**found["model_args"]))
    model.load_state_dict(found["model"])
    corpus = text.load("shakespeare")
    windows = text.consecutive(corpus.characters.encode(corpus.validation), CONFIG["T"])
    parts = [each.split(128) for each in windows]
    with torch.no_grad():
        sums = [model(x, y)[1].item() * len(x) for x, y in zip(*parts, strict=True)]
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True
    ).stdout.strip()
    result = {
        "command": "python train.py config/train_shakespeare_char.py " + README,
        "nanogpt_commit": commit,
        "cpu_seconds": round(seconds, 1),
        "best_estimate": round(float(found["best_val_loss"]), 4),
        "validation_loss": round(sum(sums) / len(windows[0]), 4),
        "parameters": parameters(model),
        "provenance": provenance(here),
    }
    write(options.out / "nanoGPT.json", result)
    print(json.dumps(result, indent=1))


def collected(folder: Path) -> dict[str, Any]:
    """What the chapter shows of the files in a folder: each rung's losses, seconds and curves."""
    found: dict[str, Any] = {"rungs": {}, "longer": {}}
    for path in sorted(folder.glob("[0-9]*.json")):
        result = json.loads(path.read_text())
        runs, times = result["runs"], result["config"]["times"]
        one = {name: [run[name] for run in runs] for name in SHOWN} | {"steps": runs[0]["steps"]}
        place = found["rungs"] if times == 1 else found["longer"].setdefault(str(times), {})
        place[result["rung"]] = one
        found["provenance"] = runs[-1]["provenance"]
    found["nanoGPT"] = json.loads((folder / "nanoGPT.json").read_text())
    return found


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", help="parts of the names of rungs")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--times", type=int, default=1, help="so many times the steps")
    parser.add_argument("--nanogpt", type=Path, help="a clone of nanoGPT to run beside")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "speedrun")
    return parser


def main() -> None:
    options = arguments().parse_args()
    torch.set_num_threads(1)
    nanogpt(options) if options.nanogpt else climb(options)
    if options.out == arguments().get_default("out"):
        write(STORE, collected(options.out))


if __name__ == "__main__":
    main()
