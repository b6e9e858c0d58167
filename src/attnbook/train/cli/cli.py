"""The commands `attnbook train lm` and `attnbook write`."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from attnbook.train.cli import config

ABOUT = """Train a decoder on a text, for as long as you like.

What is written to the folder --out: config.json, the tokenizer, the text's tokens, checkpoints,
log.jsonl, and at the end weights and a card, so that `attnbook write FOLDER "Once"` goes on from
there and attnbook.shipped.language.load("FOLDER") opens it. Ctrl-C and SIGTERM save first; --resume
goes on where it was, with the numbers of a run that was never stopped. """
EXAMPLES = """examples:
  attnbook train lm --steps 300 --out runs/docs                  the embedded text
  attnbook train lm --data poems.txt --minutes 30 --out runs/poems
  attnbook train lm --data texts/ --width 512 --depth 8 --heads 8 --vocabulary 8192 \\
      --steps 20000 --batch 64 --accumulate 4 --dtype bfloat16 --compile --out runs/big
  attnbook train lm --resume --out runs/big                      go on where it was
  attnbook train lm --resume --steps 30000 --out runs/big        and longer
  torchrun --nproc-per-node 2 -m attnbook train lm --parallel fsdp --steps 20000 --out runs/two
  tensorboard --logdir runs                                      look at it
"""
KINDS: dict[str, Any] = {
    "data": (str, "python-docs (embedded), shakespeare, a text file, or a folder of .txt and .md"),
    "V": (int, "tokens of the byte-pair encoding that is learned from the text"),
    "width": (int, "channels"),
    "depth": (int, "blocks"),
    "heads": (int, "heads of attention"),
    "kv_heads": (int, "heads of keys and values, if fewer"),
    "hidden": (int, "width of the feed-forward network; 2.5 times the width"),
    "context": (int, "tokens of a window"),
    "steps": (int, "how long, in steps"),
    "minutes": (float, "how long, in minutes of steps; the schedule then follows the clock"),
    "batch": (int, "windows of a step, of all processes together"),
    "accumulate": (int, "micro-batches of a step, per process, to save memory"),
    "lr": (float, "learning rate; 0.001, with muon 0.01"),
    "optimizer": (str, config.OPTIMIZERS),
    "schedule": (str, config.SCHEDULES),
    "warmup": (int, "steps until the full rate"),
    "weight_decay": (float, "of matrices"),
    "clip": (float, "longest gradient"),
    "seed": (int, "of the first weights and of the windows' order"),
    "device": (str, config.DEVICES),
    "dtype": (str, config.DTYPES),
    "parallel": (str, config.PARALLEL),
    "threads": (int, "threads of the CPU; without it torch decides"),
    "save_every": (int, "steps between checkpoints"),
    "save_minutes": (float, "minutes of steps between checkpoints, if those take longer"),
    "evaluate_every": (int, "steps between evaluations on the held-out text"),
    "log_every": (int, "steps between lines of the log"),
}


def add(parts: Any) -> None:
    """Add `train lm` and `write` to the command's parts."""
    train = parts.add_parser("train", help="train a model", description="Train a model.")
    lm = train.add_subparsers(required=True).add_parser(
        "lm",
        help="a decoder, on a text",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    lm.add_argument("--out", type=Path, required=True, help="the run's folder")
    lm.add_argument("--resume", action="store_true", help="go on with the run in --out")
    add_config(lm)
    lm.set_defaults(run=run_train)
    write = parts.add_parser("write", help="generate text", description=run_write.__doc__)
    write.add_argument(
        "model",
        help="a name such as book-lm, the folder of a run or a published model, a GGUF file",
    )
    write.add_argument("start", help="the prompt")
    write.add_argument("--tokens", type=int, default=100, help="how many more (100)")
    write.add_argument("--temperature", type=float, default=0.8, help="of sampling (0.8)")
    write.add_argument("--seed", type=int, default=0)
    write.set_defaults(run=run_write)


def add_config(lm: argparse.ArgumentParser) -> None:
    """An argument for each setting; only what is given comes out."""
    default = config.to_flat(config.from_flat({"steps": 100}))
    told = ("steps", "minutes", "lr", "hidden", "kv_heads", "threads")  # in words, or no default
    for name, (kind, about) in KINDS.items():
        help = ", ".join(about) if isinstance(about, tuple) else about
        help += "" if name in told else f" ({default[name]})"
        flag = "--vocabulary" if name == "V" else f"--{name.replace('_', '-')}"
        given = {"dest": name, "type": kind, "default": argparse.SUPPRESS, "metavar": "X"}
        lm.add_argument(flag, **given, help=help)
    switch = argparse.BooleanOptionalAction
    lm.add_argument("--compile", action=switch, default=argparse.SUPPRESS, help="torch.compile")


def run_train(options: argparse.Namespace) -> int:
    """Train; 0 when it is done, 128 and the signal's number when one came."""
    from attnbook.train.cli import job

    named = vars(options)
    given = {name: named[name] for name in (*KINDS, "compile") if name in named}
    try:
        number = job.run(job.check(given, options.out, options.resume), options.out)
    except KeyboardInterrupt:
        print("attnbook: stopped at once; --resume goes on from what is saved", file=sys.stderr)
        return 130
    except ConnectionError:
        if first_to_say(options.out):
            raise
        return 1
    except (ValueError, OSError):
        if int(os.environ.get("RANK", 0)) == 0:
            raise
        return 1
    if int(os.environ.get("RANK", 0)) == 0:
        said = "stopped and saved; --resume goes on" if number else "done"
        print(f'{said}: attnbook write {options.out} "Once"', flush=True)
    return 128 + number if number else 0


def first_to_say(out: Path) -> bool:
    """Whether no other process of this job has said yet that one is gone."""
    name = f".gone-{os.environ.get('TORCHELASTIC_RUN_ID')}-{os.getppid()}"
    try:
        (out / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def run_write(options: argparse.Namespace) -> None:
    """Print a prompt and a model's continuation of it."""
    from attnbook.shipped.language import load

    if options.tokens < 1 or not options.temperature > 0:
        raise ValueError("--tokens is 1 or more, and --temperature above 0")
    sampling = options.tokens, options.temperature, options.seed
    if is_published(options.model):
        print(continued(options.model, options.start, *sampling))
    else:
        print(load(options.model).write(options.start, *sampling))


def is_published(source: str) -> bool:
    """Whether this is a GGUF file, or a folder whose config.json says what family it is of."""
    from attnbook.models import gguf_file

    settings = Path(source).expanduser() / "config.json"
    if not settings.is_file():
        return gguf_file.of(source) is not None
    return "model_type" in json.loads(settings.read_text(encoding="utf-8"))


def continued(source: str, start: str, tokens: int, heat: float, seed: int) -> str:
    """A prompt and its continuation by a published model, sampled from the likeliest 95 %; it ends
    where the model ends it."""
    import torch

    from attnbook.generate.sampling import generate, sample, temperature, top_p
    from attnbook.models.checkpoint import configuration
    from attnbook.models.hub import load, load_tokenizer
    from attnbook.transformer import LanguageModel

    tokenizer, model = load_tokenizer(source), load(source)
    if not isinstance(model, LanguageModel):
        raise ValueError(f"{source} does not write: it is no language model")
    prompt = torch.tensor([tokenizer.encode(start).ids], dtype=torch.long)
    if not prompt.numel():
        raise ValueError("the start is empty; the model needs at least one token to go on from")
    generator = torch.Generator().manual_seed(seed)
    sampler = sample(temperature(heat), top_p(0.95), generator=generator)
    ends = configuration(source).get("eos_token_id")
    eos = set(ends) if isinstance(ends, list) else ends
    return tokenizer.decode(generate(model, prompt, tokens, sampler, eos=eos)[0].tolist())
