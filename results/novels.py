"""Language models of up to 25 million parameters on stories: a line of sizes, and three parts.

    python results/novels_corpus.py --out novels
    python results/novels.py prepare --text novels      # tokens, some minutes
    python results/novels.py run --text novels          # minutes on a GPU; resumed run by run
    python results/novels.py counts --text novels
    python results/novels.py store --text novels
    python results/novels.py ship --text novels         # the weights of `--long`, in four bits

The model is the book's (`attnbook.models.book`: Llama's block with normed queries and keys), its
4,096 tokens were learned from a quarter of the text, windows have 512 of them, a batch 32 windows.
Up for a twentieth of the steps, full rate, and down to 0 in a straight line over the last two
fifths. Held out are eleven whole books; what is stored is bits for a byte of them.

Questions. How does the loss fall with size, and with the length of training? And what do three
parts of today's models change at a size of more than ten million: **Muon** for the hidden matrices
in place of AdamW for all; **grouped keys**, two for six heads, the network wider so that there are
as many parameters; **windows** of 128 in five of the six layers, the last one sees all?
Budget. Sizes: 5, 20 and 80 million tokens for seven widths, the largest 5 and 20 only. Parts: 13.8
million parameters, 20 million tokens.
Grid. The rate, by held-out bits after 5 million tokens with seed 100, for each of the parts: a grid
grows where its end is best. The sizes have the rate of the parts' base, as the book's model has
one for all; a model of 1.8 and one of 25 million at half and twice the rate show what that costs.
Reporting seeds 0 to 2 for the parts, 0 for the sizes.
Baselines. For each part the base: Muon, a key for each head, everything seen. For the sizes counts
of strings of up to 8 and 16 characters as 7-zip's PPMd blends them: by how much its file grows if
the held-out books stand behind the text to train on (`counts`; needs `pyppmd`).
No gain. Muon gains, keys and windows cost, only if the interval of the difference leaves 0 out.
The run of `--long` is 13.8 million parameters on 80 million tokens: its weights are kept.
Left out, since the GPU's time was up: the sizes at other rates, and at 80 million tokens.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import shutil
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from book_corpus import END
from novels_corpus import AUTHORS
from tokenizers import Tokenizer
from torch import Tensor, nn

from attnbook import device
from attnbook.data import text
from attnbook.decoder_config import DecoderConfig
from attnbook.feedforward import swiglu_hidden
from attnbook.generate.sampling import generate, sample, temperature, top_p
from attnbook.losses import parameters
from attnbook.models.book import book_lm
from attnbook.provenance import provenance, write
from attnbook.quantise import quantised_file
from attnbook.quantise.rounding import quantised
from attnbook.scores import Score
from attnbook.shipped.language import FOLDER, load, widened
from attnbook.train.cli.corpus import byte_pairs
from attnbook.train.loop import train, trapezoid
from attnbook.train.optimizers import muon_and_adamw
from attnbook.transformer import LanguageModel
from bookkit.results import study
from bookkit.results.protocol import Study, committed
from bookkit.results.statistics import difference, interval

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "novels.json"
V, T, B = 4096, 512, 32
SIZES = ((64, 2), (96, 3), (128, 4), (192, 4), (256, 6), (384, 6), (512, 8))  # width, depth
BASE: dict[str, Any] = {
    "width": 384,
    "depth": 6,
    "kv_heads": 6,
    "window": None,
    "optimizer": "muon",
}
PARTS: dict[str, dict[str, Any]] = {
    "base": {},
    "AdamW": {"optimizer": "adamw"},
    "grouped keys": {"kv_heads": 2},
    "windows": {"window": 128},
}
TOKENS, SHORT, LONG = 20_000_000, 5_000_000, 80_000_000
STUDY = Study(
    name="novels",
    question="What do size, length of training, and three parts do to the loss on stories?",
    budget="20 million tokens, 13.8 million parameters for the parts",
    grid={
        "rate of muon": (0.005, 0.01, 0.02, 0.04),
        "rate of adamw": (0.001, 0.002, 0.004, 0.008),
    },
    choosing_seeds=(100,),
    reporting_seeds=range(3),
    baselines=("Muon, a key for each head, everything seen", "counts, by PPMd"),
    no_gain="the interval of the difference from the base contains 0",
)
PROMPTS = ("Once upon a time there was a little girl who", '"Who is there?" cried the captain.')


def settings(tokens: int, lr: float, seed: int, **changes: Any) -> dict[str, Any]:
    """Everything that a run depends on."""
    return BASE | {"tokens": tokens, "lr": lr, "seed": seed} | changes


def named(config: dict[str, Any]) -> str:
    """The name of the file in which the run is stored."""
    name = "{width}x{depth}.kv{kv_heads}.window{window}.{optimizer}".format(**config)
    return name + ".{tokens}.rate{lr:g}.seed{seed}".format(**config)


def build(config: dict[str, Any]) -> LanguageModel:
    """The model of a run: heads of 64 channels; as many parameters with grouped keys as without."""
    width, depth = config["width"], config["depth"]
    heads = width // 32 if width < 192 else width // 64
    kv_heads = config["kv_heads"] if width == BASE["width"] else heads
    D = width // heads
    hidden = swiglu_hidden(width) + round(2 * (heads - kv_heads) * D / 3)
    windows = [None] if config["window"] is None else [config["window"]] * (depth - 1) + [None]
    model = book_lm(DecoderConfig(V, width, depth, heads, kv_heads, hidden), windows)
    for part in model.modules():
        if isinstance(part, Score):
            part.flex = False  # a mask of 512 × 512 is no burden; kernels are not what is compared
    return model


def optimizer_of(model: nn.Module, config: dict[str, Any]) -> torch.optim.Optimizer:
    if config["optimizer"] == "muon":
        return muon_and_adamw(
            model, config["lr"], config["lr"], weight_decay=0.1, precision=torch.bfloat16
        )
    return study.adamw(model, config | {"betas": (0.9, 0.95), "weight_decay": 0.1})


@cache
def tokens_of(folder: str, part: str, place: str) -> Tensor:
    return torch.from_numpy(np.load(Path(folder) / f"{part}.npy").astype(np.int64)).to(place)


def measure(config: dict[str, Any], checkpoint: Path, folder: str, keep: str = "") -> dict:
    """Train and evaluate as `config` says; what is returned is what is stored."""
    here = device.choose(config["seed"])
    place = str(here.device)
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    model = build(config).to(here.device)
    steps = config["tokens"] // (B * T)
    known, unseen = tokens_of(folder, "train", place), tokens_of(folder, "held-out", place)
    held_out = text.consecutive(unseen, T)
    loss = torch.compile(study.next_token_loss) if place == "cuda" else study.next_token_loss
    evaluate = partial(held_out_loss, held_out=held_out, here=here, loss=loss)
    began = time.perf_counter()
    history = study.complete(
        train(
            model,
            text.windows(known, T, B),
            loss,
            steps=steps,
            optimizer=optimizer_of(model, config),
            schedule=trapezoid(steps, max(1, steps // 20), 2 * steps // 5),
            seed=config["seed"],
            evaluate=evaluate,
            every=max(1, steps // 4),
            checkpoint=None if place == "cuda" else checkpoint,  # a minute there, hours here
            precision=here.autocast,
            progress=False,
        )
    )
    if place == "cuda":
        torch.cuda.synchronize()
    nats = history.evaluations[-1][1]["value"]
    plain = all(config[name] == BASE[name] for name in ("kv_heads", "window", "optimizer"))
    writer = plain and config["tokens"] >= TOKENS and not config["seed"]
    last = history.loss[-max(1, steps // 20) :]
    found = {
        "config": config,
        "parameters": parameters(model),
        "without_tables": parameters(model.body),
        "nats_per_token": round(nats, 4),
        "training_nats": round(sum(last) / len(last), 4),
        "curve": study.curve(history),
        "seconds": round(time.perf_counter() - began, 1),
        "writes": [writes(model, tokenizer, prompt, here) for prompt in PROMPTS if writer],
        "provenance": provenance(here, "tokenizers"),
    }
    if keep:
        quantised_file.save(quantised(model.cpu(), bits=8), keep)
    return found


def held_out_loss(
    model: nn.Module, held_out: tuple[Tensor, Tensor], here: device.Here, loss: Any
) -> float:
    """Mean nats for a token of the held-out books, in windows that know nothing of each other."""
    whole = len(held_out[0]) // B * B  # one shape only: nothing is compiled twice
    total = torch.zeros((), device=here.device, dtype=torch.float64)
    with torch.no_grad(), here.autocast():
        for x, y in zip(held_out[0][:whole].split(B), held_out[1][:whole].split(B), strict=True):
            total += loss(model, (x, y)).double()
    return (total / (whole // B)).item()


def writes(model: nn.Module, tokenizer: Tokenizer, prompt: str, here: device.Here) -> str:
    """A beginning and 120 tokens more, at temperature 0.8 from the likeliest 95 %."""
    start = torch.tensor([tokenizer.encode(prompt).ids], device=here.device)
    draw = sample(
        temperature(0.8), top_p(0.95), generator=torch.Generator(here.device).manual_seed(0)
    )
    with torch.no_grad():
        made = generate(model, start, 120, draw)
    return tokenizer.decode(made[0].tolist(), skip_special_tokens=False)


def job(config: dict[str, Any], out: str, folder: str, keep: str = "") -> dict[str, Any]:
    """One run in a process of its own, or the stored one."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.recompile_limit = 64  # one process meets many shapes
    path = Path(out) / f"{named(config)}.json"
    run = study.measured(path, config, partial(measure, folder=folder, keep=keep))
    print(f"{path.stem}: {run['nats_per_token']} nats, {run['seconds']} s", flush=True)
    return run


class Pool:
    """Runs side by side, on a GPU seven, each once."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        context = multiprocessing.get_context("spawn")
        self.processes = ProcessPoolExecutor(options.workers, mp_context=context)
        self.asked: dict[str, Future] = {}

    def ask(self, config: dict[str, Any], keep: str = "") -> Future:
        name = named(config)
        if name not in self.asked:
            arguments = str(self.options.out), str(self.options.text), keep
            self.asked[name] = self.processes.submit(job, config, *arguments)
        return self.asked[name]


def chosen_rate(pool: Pool, name: str) -> float:
    """The rate of a part: the best of its grid with the choosing seeds."""
    change = PARTS[name]
    what = f"rate of {change.get('optimizer', 'muon')}"

    def score(lr: float, seed: int) -> float:
        return pool.ask(settings(SHORT, lr, seed, **change)).result()["nats_per_token"]

    for lr in STUDY.grid[what]:  # all at once
        for seed in STUDY.choosing_seeds:
            pool.ask(settings(SHORT, lr, seed, **change))
    return STUDY.choose(what, score)[0]


def size_runs(rate: float) -> list[dict[str, Any]]:
    """The line of sizes, two of them with other rates, then shorter and longer runs."""
    line = [(width, depth, TOKENS, rate) for width, depth in reversed(SIZES)]
    line += [(w, d, TOKENS, rate * by) for w, d in (SIZES[6], SIZES[3]) for by in (0.5, 2.0)]
    line += [(width, depth, LONG, rate) for width, depth in SIZES[3:0:-1]]
    line += [(width, depth, SHORT, rate) for width, depth in reversed(SIZES)]
    line += [(width, depth, LONG, rate) for width, depth in (SIZES[4], SIZES[0])]
    return [settings(n, lr, 0, width=w, depth=d) for w, d, n, lr in line]


def run(options: argparse.Namespace) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    print("declared in commit", options.declared or committed())
    pool = Pool(options)
    with ThreadPoolExecutor(len(PARTS)) as threads:
        chosen = {name: threads.submit(chosen_rate, pool, name) for name in options.parts}
        rate = options.rate or chosen["base"].result()
        if options.long:  # first, since it takes longest
            pool.ask(settings(LONG, rate, 0), str(options.out / "long.safetensors"))
        rates = {name: each.result() for name, each in chosen.items()}
    print("rates", rates, flush=True)
    for seed in STUDY.reporting_seeds:
        for name, lr in rates.items():
            pool.ask(settings(TOKENS, lr, seed, **PARTS[name]))
    for config in size_runs(rate) if options.sizes else []:
        pool.ask(config)
    for each in list(pool.asked.values()):
        each.result()


def prepare(options: argparse.Namespace) -> None:
    """Learn the tokens from a quarter of the books, and store both texts in them."""
    parts = {n: (options.text / f"{n}.txt").read_text().split(f"\n{END}\n") for n in FILES}
    random.Random(0).shuffle(parts["train"])
    tokenizer = byte_pairs(parts["train"][: len(parts["train"]) // 4], V)
    tokenizer.save(str(options.text / "tokenizer.json"))
    end = tokenizer.token_to_id(END)
    for name, books in parts.items():
        ids = [np.array([*tokenizer.encode(book).ids, end], dtype=np.uint16) for book in books]
        np.save(options.text / f"{name}.npy", np.concatenate(ids))
        print(f"{name}: {sum(map(len, ids)):,} tokens")


FILES = ("train", "held-out")


def counts(options: argparse.Namespace) -> None:
    """Bits for a byte of the held-out books by PPMd that has read the text to train on."""
    import pyppmd

    known, unseen = ((options.text / f"{name}.txt").read_bytes() for name in FILES)
    found = {}
    for order in (8, 16):
        sizes = [
            len(pyppmd.compress(data, max_order=order, mem_size=2_000_000_000, variant="H"))
            for data in (known, known + unseen)
        ]
        found[str(order)] = round(8 * (sizes[1] - sizes[0]) / len(unseen), 4)
        print(order, found, flush=True)
    write(options.out / "counts" / "ppmd.json", found)


def bits_per_byte(options: argparse.Namespace) -> float:
    """What a nat for a token of the held-out books is in bits for a byte of them."""
    card = json.loads((options.text / "card.json").read_text())
    count = len(np.load(options.text / "held-out.npy"))
    return count / card["files"]["held-out"]["bytes"] / math.log(2)


def store(options: argparse.Namespace) -> None:
    """What the chapters read: sizes, parts with their differences, and what was written."""
    unit = bits_per_byte(options)
    runs = [json.loads(path.read_text()) for path in sorted(options.out.glob("*.json"))]
    by_name = {named(run["config"]): run for run in runs}

    def bits(config: dict[str, Any]) -> float | None:
        run = by_name.get(named(config))
        return None if run is None else round(run["nats_per_token"] * unit, 4)

    found: dict[str, Any] = {"declared": STUDY.declared(), "parts": {}, "sizes": [], "writes": {}}
    found["counts"] = json.loads((options.out / "counts" / "ppmd.json").read_text())
    for name, change in PARTS.items():
        what = f"rate of {change.get('optimizer', 'muon')}"
        tried = {
            run["config"]["lr"]: round(run["nats_per_token"] * unit, 4)
            for run in runs
            if run["config"] == settings(SHORT, run["config"]["lr"], 100, **change)
        }
        rate = min(tried, key=lambda lr: tried[lr])
        values = [bits(settings(TOKENS, rate, seed, **change)) for seed in STUDY.reporting_seeds]
        found["parts"][name] = {"grid": what, "tried": tried, "rate": rate, "bits": values}
        config = settings(TOKENS, rate, 0, **change)
        found["parts"][name]["parameters"] = by_name[named(config)]["parameters"]
    base = found["parts"]["base"]
    for each in found["parts"].values():
        each["interval"] = vars(interval(each["bits"]))
        if each is not base:
            each["difference"] = difference(each["bits"], base["bits"], paired=True).as_dict()
    rate = base["rate"]
    for config in [*size_runs(rate), settings(LONG, rate, 0)]:
        if named(config) in by_name:
            run = by_name[named(config)]
            row = {k: config[k] for k in ("width", "depth", "tokens", "lr")}
            row |= {k: run[k] for k in ("parameters", "without_tables", "seconds")}
            row["bits"] = bits(config)
            row["flops"] = 6 * (run["parameters"] - V * config["width"]) * config["tokens"]
            found["sizes"].append(row)
            if config["tokens"] in (TOKENS, LONG) and config["lr"] == rate:
                key = f"{config['width']}x{config['depth']}, {config['tokens']}"
                found["writes"][key] = run["writes"]
    card = json.loads((options.text / "card.json").read_text())
    found["text"] = {
        "source": card["source"],
        **{n: {"bytes": card["files"][n]["bytes"], "sha256": card["files"][n]["sha256"],
               "tokens": len(np.load(options.text / f"{n}.npy")),
               "books": len(card["files"][n]["books"])} for n in FILES},
    }  # fmt: skip
    last = max((run["provenance"] for run in runs), key=lambda origin: origin["date"])
    commit = options.declared or last["commit"]
    command = "python results/novels.py run, then store"
    found["provenance"] = last | {"command": command, "commit": commit}
    write(STORE, found)


def ship(options: argparse.Namespace) -> None:
    """Round the weights of `--long` to four bits, and write them with their card and tokenizer."""
    runs = [json.loads(path.read_text()) for path in options.out.glob("*.json")]
    run = next(run for run in runs if run["config"]["tokens"] == LONG)
    model = build(run["config"])
    few = quantised_file.load(model, options.out / "long.safetensors")
    model = build(run["config"])
    model.load_state_dict(widened(few))
    folder = FOLDER / "book-stories"
    folder.mkdir(parents=True, exist_ok=True)
    quantised_file.save(quantised(model, bits=4, group=64), folder / "weights.safetensors")
    shutil.copy(options.text / "tokenizer.json", folder / "tokenizer.json")
    kept = json.loads((options.text / "card.json").read_text())
    width = BASE["width"]
    sizes = DecoderConfig(V, width, BASE["depth"], width // 64, width // 64, swiglu_hidden(width))
    card: dict[str, Any] = {
        "name": "book-stories",
        "what": "A language model of children's and adventure books in English",
        "sizes": vars(sizes),
        "context": T,
        "parameters": run["parameters"],
        "licence": "weights: MIT, as the book. Books: Project Gutenberg's, in the public domain",
        "data": {
            "held_out": f"{len(kept['files']['held-out']['books'])} whole books",
            "source": kept["source"],
            "authors": AUTHORS,
            "files": {
                name: {key: each[key] for key in ("bytes", "sha256")}
                for name, each in kept["files"].items()
            },
        },
        "recipe": {
            "optimizer": "Muon for hidden matrices, AdamW for the rest; bfloat16, one H200",
            "rate": run["config"]["lr"],
            "schedule": "up for a twentieth, stays, to 0 over the last two fifths",
            "windows": T,
            "batch": B,
            "tokens_seen": LONG,
            "seed": 0,
        },
        "bits_per_byte_before_rounding": round(run["nats_per_token"] * bits_per_byte(options), 4),
        "command": "python results/novels.py run, then ship",
        "provenance": run["provenance"]
        | {"command": "python results/novels.py run --text novels", "commit": options.declared},
    }
    write(folder / "card.json", card)
    shipped = load("book-stories")
    unseen = (options.text / "held-out.txt").read_text()
    passage = unseen[100_000:104_000]
    card["nats_per_byte"] = {"stories": round(shipped.nats_per_byte(unseen[:400_000]), 4)}
    card["check"] = {
        "passage": passage,
        "nats_per_byte": round(shipped.nats_per_byte(passage), 4),
    }
    card["samples"] = {start: shipped.write(start, 120, seed=0) for start in PROMPTS}
    write(folder / "card.json", card)
    print(card["nats_per_byte"], card["check"]["nats_per_byte"])


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["prepare", "run", "counts", "store", "ship"])
    parser.add_argument(
        "--text", type=Path, default=Path("novels"), help="novels_corpus.py's --out"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "novels")
    parser.add_argument("--workers", type=int, default=7 if torch.cuda.is_available() else 2)
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no seeds after these"
    )
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--sizes", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--long", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--rate", type=float, help="of the sizes; default: the base's")
    parser.add_argument("--declared", help="the commit of this file, where there is no git")
    return parser


if __name__ == "__main__":
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
    asked = arguments().parse_args()
    for do in (prepare, run, counts, store, ship):
        if do.__name__ == asked.what:
            do(asked)
