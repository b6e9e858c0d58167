"""nanoGPT's setting for a GPU: its own recipe whole, and the ladder of the speed run beside it.

    make gpu
    python results/gpu.py --steps 50 --whole 200    # a look at whether it runs

tiny Shakespeare as in nanoGPT's config/train_shakespeare_char.py: 6 layers, width 384, 6 heads,
windows of 256 characters, 64 in a batch. First its recipe with all of its 5,000 steps and its
dropout (`results/shakespeare.py --setting gpu`), then each rung of `results/speedrun.py`, as large
as nanoGPT's model, with an eighth of the steps. All have as many; what they cost is measured. The
rung that changes how a CPU computes (16 bits) is left out: a GPU computes in bfloat16 from the
first rung on, where it has it. The learning rates are those found at width 128, not tuned anew.

Evaluation is not counted as time. A file for each rung in --out, written after each run; the same
command goes on from there, and the table of all is printed at the end.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import speedrun
import torch

from attnbook import device
from attnbook.data import text
from attnbook.device import Here
from attnbook.losses import parameters
from attnbook.provenance import provenance, write
from attnbook.train.loop import train
from bookkit.results.study import complete, curve, held_out_loss

GPU: speedrun.Setting = {
    "width": 384, "depth": 6, "heads": 6, "T": 256, "batch": 64, "warmup": 0.05,
}  # fmt: skip
STEPS = 5000 // 8
TEXT = "shakespeare"
ROOT = Path(__file__).resolve().parents[1]


class Clock:
    """The seconds of training on a device that works behind: those of evaluations do not count."""

    def __init__(self, here: Here) -> None:
        self.here, self.spent = here, 0.0
        self.began = self.now()

    def now(self) -> float:
        if self.here.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def seconds(self) -> float:
        return self.now() - self.began - self.spent

    def stopped(self, evaluate: partial[float], model: torch.nn.Module) -> float:
        """What `evaluate(model)` says, while the clock stands still."""
        before = self.now()
        value = evaluate(model)
        self.spent += self.now() - before
        return value


def rungs() -> dict[str, speedrun.Parts]:
    """The ladder's variants that are about the model and its optimiser, each with all before it."""
    found = {name: parts for name, parts in speedrun.variants().items() if name != "16 bits"}
    return {name: {**parts, "bits": 32} for name, parts in found.items()}


def measure(parts: speedrun.Parts, seed: int, steps: int, here: Here) -> dict[str, Any]:
    """One run: its seconds, its loss on the whole last tenth of the text, and that on the way."""
    corpus = text.load(TEXT)
    encode = corpus.characters.encode
    held_out = text.consecutive(encode(corpus.validation), GPU["T"])
    batches = text.windows(encode(corpus.train), GPU["T"], GPU["batch"])
    torch.manual_seed(seed)
    model = speedrun.build(parts, len(corpus.characters)).to(here.device)
    evaluate = partial(held_out_loss, windows=held_out, here=here)
    clock = Clock(here)
    run = train(
        model, batches, speedrun.loss, steps=steps, optimizer=speedrun.optimizer(parts, model),
        schedule=speedrun.schedule(parts, steps), seed=seed, precision=here.autocast,
        evaluate=partial(clock.stopped, evaluate), every=max(1, steps // 5),
    )  # fmt: skip
    seconds = clock.seconds()
    found: dict[str, Any] = {"seed": seed, "steps": steps, "seconds": round(seconds, 2)}
    found |= {"validation_loss": round(evaluate(model.eval()), 4)}
    return found | {"curve": curve(complete(run)), "parameters": parameters(model)}


def climb(options: argparse.Namespace, here: Here) -> None:
    """Each rung and seed that is not there yet."""
    for number, (name, parts) in enumerate(rungs().items()):
        path = options.out / f"{number:02}-{speedrun.slug(name)}.json"
        config = {**GPU, **parts, "steps": options.steps}
        result: dict[str, Any] = {"rung": name, "config": config, "runs": []}
        if path.exists():
            result = json.loads(path.read_text())
            if result["config"] != config:
                raise SystemExit(f"{path} holds a run of {result['config']}; move it away")
        for seed in set(options.seeds) - {run["seed"] for run in result["runs"]}:
            run = measure(parts, seed, options.steps, here)
            result["runs"].append(run | {"provenance": provenance(here)})
            write(path, result)


def table(folder: Path) -> str:
    """All that is stored in the folder: steps, seconds and the loss of each."""
    lines = [f"{'':24}{'steps':>6}{'seconds':>9}{'nats':>8}  seeds"]
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        if "rung" in found:
            name, runs = found["rung"], found["runs"]
        else:
            name = "nanoGPT's, with dropout"
            runs = [
                found | {"steps": found["config"]["steps"], "seconds": found["training_seconds"]}
            ]
        seconds, nats = (
            statistics.mean(run[key] for run in runs) for key in ("seconds", "validation_loss")
        )
        lines += [f"{name:24}{runs[0]['steps']:6}{seconds:9.1f}{nats:8.3f}  {len(runs)}"]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=STEPS, help="of each rung")
    parser.add_argument("--whole", type=int, default=5000, help="steps of nanoGPT's own recipe")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=ROOT / "_build" / "gpu")
    options = parser.parse_args()
    if options.steps < 20 or options.whole <= 100:
        parser.error("a rung needs 20 steps or more, nanoGPT's recipe more than its warm-up of 100")
    try:
        here = device.choose()
    except ValueError as error:
        parser.error(str(error))
    speedrun.CONFIG.update(GPU)
    command = [sys.executable, str(ROOT / "results/shakespeare.py"), "--setting", "gpu"]
    command += ["--steps", str(options.whole), "--every", str(max(1, options.whole // 10))]
    options.out.mkdir(parents=True, exist_ok=True)
    subprocess.run([*command, "--out", str(options.out)], check=True)
    climb(options, here)
    print(table(options.out))


if __name__ == "__main__":
    main()
