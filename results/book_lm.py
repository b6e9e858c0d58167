"""Train the language model that ships with the book, in two phases, each of which can be resumed.

    python results/book_corpus.py --out book-corpus
    python results/book_lm.py trunk --corpus book-corpus --work book-lm --seconds 7200
    python results/book_lm.py finish --corpus book-corpus --work book-lm --seconds 3600
    python results/book_lm.py ship --corpus book-corpus --work book-lm

The trunk runs at a constant rate for as long as there is time: stop it whenever you like, give the
same command again to go on. `finish` takes a copy of the trunk and lets the rates fall to 0 in a
straight line (WSD: warm up, stay, decay). `ship` rounds the weights to eight bits, measures what is
left, and writes them with their card into the package. All other files go to the folder `--work`.
"""

import argparse
import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from book_corpus import DOCS, PLAYS
from speedrun import ByProducts, scored
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn

from attnbook import device
from attnbook.data import text
from attnbook.data.repeats import repeats
from attnbook.inside.watch import watch
from attnbook.losses import parameters, token_loss
from attnbook.models.book import SHIPPED, book_lm
from attnbook.provenance import provenance, write
from attnbook.quantise import quantised_file
from attnbook.quantise.rounding import quantised
from attnbook.shipped.language import FOLDER, BookModel, load, nats_per_byte
from attnbook.train.loop import train
from attnbook.train.optimizers import Together, muon_and_adamw
from attnbook.train.run import History, Schedule

SPECIALS = ["<|pad|>", "<|end|>", "<|user|>", "<|book|>"]
T, LR, REST, DECAY, WARMUP = 256, 0.01, 0.01, 0.05, 50
B = {"trunk": 16, "finish": 8}
NO_TARGET = -100  # what torch's cross-entropy leaves out
STEPS = 10**6  # more than there will be time for
TEXTS = ("shakespeare", "python-docs")
SOURCES = {
    name: f"https://github.com/{where}, commit {commit}"
    for name, (where, commit) in {"shakespeare": PLAYS, "python-docs": DOCS}.items()
}
Pair = tuple[Tensor, Tensor]  # tokens, and what follows each
Sampler = Callable[[torch.Generator], Pair]
CHECKED = 8000  # characters of python-docs' validation text that a test reads again


def tokenizer_of(path: Path, corpus: Path) -> Tokenizer:
    """Byte-pair encoding learned from the training text, stored at `path`."""
    if not path.exists():
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = [chr(c) for c in range(32, 127)]
        trainer = trainers.BpeTrainer(
            vocab_size=SHIPPED.V,
            special_tokens=SPECIALS,
            initial_alphabet=alphabet,
            show_progress=False,
        )
        tokenizer.train([str(corpus / f"{name}.txt") for name in TEXTS], trainer)
        tokenizer.save(str(path))
    return Tokenizer.from_file(str(path))


def encode(tokenizer: Tokenizer, passage: str) -> Tensor:
    return torch.tensor(tokenizer.encode(passage).ids)


def loss(model: nn.Module, batch: Pair) -> Tensor:
    return token_loss(model(batch[0]).float(), batch[1])


def prepare(options: argparse.Namespace) -> tuple[Tokenizer, Tensor, dict[str, str]]:
    options.work.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizer_of(options.work / "tokenizer.json", options.corpus)
    stored = options.work / "tokens.pt"
    if not stored.exists():
        parts = [(options.corpus / f"{name}.txt").read_text() for name in TEXTS]
        torch.save(encode(tokenizer, "".join(parts)).to(torch.int16), stored)
    tokens = torch.load(stored).long()
    held_out = {name: text.load(name).validation for name in TEXTS}
    return tokenizer, tokens, held_out


def run(
    options: argparse.Namespace,
    tokenizer: Tokenizer,
    tokens: Tensor,
    held_out: dict[str, str],
    model: nn.Module,
    optimizer: Together,
    **settings: Any,
) -> History:
    """`train` with what both phases share, and a line in the log for each evaluation."""
    began = time.time()

    def evaluate(model: nn.Module) -> dict[str, float]:
        values = {
            name: nats_per_byte(model, tokenizer, passage[: options.characters])
            for name, passage in held_out.items()
        }
        line: dict[str, Any] = {"at": time.strftime("%H:%M:%S")}
        line |= {"elapsed": round(time.time() - began), "cpu": round(time.process_time())}
        line |= {name: round(value, 4) for name, value in values.items()}
        with open(options.work / f"{options.phase}.log", "a") as log:
            log.write(json.dumps(line) + "\n")
        return values

    return train(
        scored(model, ByProducts()),
        SAMPLERS[options.phase](tokens),
        loss,
        optimizer=optimizer,
        seed=options.seed,
        evaluate=evaluate,
        every=options.every,
        progress=False,
        precision=partial(torch.autocast, "cpu", torch.bfloat16),
        **settings,
    )


def optimizer_of(model: nn.Module) -> Together:
    return muon_and_adamw(model, LR, REST, weight_decay=DECAY, precision=torch.bfloat16)


def trunk(options: argparse.Namespace) -> None:
    tokenizer, tokens, held_out = prepare(options)
    print(f"{len(tokens):,} tokens to train on", flush=True)
    torch.manual_seed(options.seed)
    model = book_lm()
    print(f"{parameters(model):,} parameters", flush=True)
    history = run(
        options,
        tokenizer,
        tokens,
        held_out,
        model,
        optimizer_of(model),
        steps=STEPS,
        schedule=lambda step: min(1.0, (step + 1) / WARMUP),
        seconds=options.seconds,
        checkpoint=options.work / "trunk.pt",
    )
    print(f"{history.steps} steps, {history.seconds:.0f} s")


def with_repeats(tokens: Tensor) -> Sampler:
    """Windows of text, and one row of random tokens that come again and again (`data.repeats`).

    Of that row only what is certain counts. In text alone, a model of this size has not learned in
    so few steps to look up what followed the same token before.
    """
    passages = text.windows(tokens, T, B["finish"] - 1)
    again = repeats(1, T + 1, SHIPPED.V, 8, 64)

    def sample(generator: torch.Generator) -> Pair:
        inputs, targets = passages(generator)
        row, certain = again(generator)
        known = row[:, 1:].masked_fill(~certain, NO_TARGET)
        return torch.cat((inputs, row[:, :-1])), torch.cat((targets, known))

    return sample


SAMPLERS: dict[str, Callable[[Tensor], Sampler]] = {
    "trunk": lambda tokens: text.windows(tokens, T, B["trunk"]),
    "finish": with_repeats,
}


def falling(file: Path, seconds: float) -> Schedule:
    """A schedule: down to 0 in a straight line, by the clock: how fast a shared machine will be
    in the next hour nobody knows. `file` keeps when it began."""
    if not file.exists():
        file.write_text(str(time.time()))
    began = float(file.read_text())

    def factor(step: int) -> float:
        if step in (0, STEPS // 2, STEPS - 1):  # what a checkpoint compares a schedule by
            return 1.0
        return max(0.0, 1 - (time.time() - began) / seconds)

    return factor


def finish(options: argparse.Namespace) -> None:
    tokenizer, tokens, held_out = prepare(options)
    model = book_lm()
    optimizer = optimizer_of(model)
    if not (options.work / "finish.pt").exists():
        found = torch.load(options.work / "trunk.pt", weights_only=True)
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        torch.save(found, options.work / "trunk-finished-from.pt")
    options.seed += 1  # other windows than the trunk's first
    history = run(
        options,
        tokenizer,
        tokens,
        held_out,
        model,
        optimizer,
        steps=STEPS,
        schedule=falling(options.work / "began", options.seconds),
        seconds=0.97 * options.seconds,  # evaluations are not counted in it
        checkpoint=options.work / "finish.pt",
    )
    torch.save(model.state_dict(), options.work / "weights.pt")
    print(f"{history.steps} steps, {history.seconds:.0f} s")


def table_per_byte(corpus: Path, kappa: float = 8, longest: int = 6) -> dict[str, float]:
    """Held-out nats for each byte of chapter 7's blended counts of up to `longest` characters.

    They are counted on all that the model was trained on; so much the model has to beat.
    """
    known = "".join((corpus / f"{name}.txt").read_text() for name in TEXTS)
    held_out = {name: text.load(name).validation for name in TEXTS}
    size = len(set(known))
    p = {name: [1 / size] * len(passage) for name, passage in held_out.items()}
    shorter = {"": len(known)}
    for n in range(1, longest + 1):
        longer = Counter(known[i : i + n] for i in range(len(known) - n + 1))
        for name, passage in held_out.items():
            for i in range(n - 1, len(passage)):
                gram = passage[i - n + 1 : i + 1]
                found = longer.get(gram, 0), shorter.get(gram[:-1], 0)
                p[name][i] = (found[0] + kappa * p[name][i]) / (found[1] + kappa)
        shorter = longer
    return {
        name: -torch.tensor(chances, dtype=torch.float64).log().mean().item()
        for name, chances in p.items()
    }


@torch.no_grad()
def induction(model: nn.Module, row: int = 48, B: int = 50) -> dict:
    """Which heads look at what followed the same token before, as chapter 13 asks it.

    Rows of random tokens come twice; a head's score is its mean weight on the place after the
    first copy of the present token. Chance is about one in 72 places.
    """
    batch, _ = repeats(B, 2 * row + 2, SHIPPED.V, row, row)(torch.Generator().manual_seed(9))
    tokens = batch[:, : 2 * row]
    with watch(model) as seen:
        logits = model(tokens)
    maps = torch.stack([weights.mean(0) for weights in seen.values()])  # (layers, H, T, T)
    before = maps.diagonal(-1, 2, 3)[..., row - 1 :].mean(-1)
    follows = maps.diagonal(1 - row, 2, 3)[..., 1:].mean(-1)
    surprise = torch.nn.functional.cross_entropy(
        logits[:, :-1].mT, tokens[:, 1:], reduction="none"
    ).mean(0)
    return {
        "row": row,
        "previous_token": rounded(before),
        "induction": rounded(follows),
        "nats_first_copy": round(surprise[: row - 1].mean().item(), 3),
        "nats_second_copy": round(surprise[row:].mean().item(), 3),
    }


def rounded(scores: Tensor) -> list[list[float]]:
    """Scores by layer and head."""
    return [[round(score, 3) for score in layer] for layer in scores.tolist()]


def curve(work: Path) -> tuple[list[list], dict[str, int]]:
    """Held-out nats per byte on the way, [step, one for each text]; and the steps of each phase."""
    found: list[list] = []
    steps: dict[str, int] = {}
    for phase, file in (("trunk", "trunk-finished-from"), ("finish", "finish")):
        history = torch.load(work / f"{file}.pt", weights_only=True)["history"]
        before = sum(steps.values())
        for at, values in history["evaluations"]:
            found.append([before + at, *(round(value, 4) for value in values.values())])
        steps[phase] = len(history["loss"])
    return found, steps


def seconds(work: Path) -> float:
    """The CPU seconds of both phases: each process logs its own, counted from its start."""
    total = 0
    for phase in ("trunk", "finish"):
        lines = (work / f"{phase}.log").read_text().splitlines()
        spent = [json.loads(line)["cpu"] for line in lines]
        ends = [a for a, b in zip(spent, [*spent[1:], 0], strict=True) if b < a]
        total += sum(ends)
    return total


def ship(options: argparse.Namespace) -> None:
    """Round the weights, measure what is left of them, write them and their card."""
    tokenizer, tokens, held_out = prepare(options)
    model = book_lm()
    model.load_state_dict(torch.load(options.work / "weights.pt", weights_only=True))
    model.eval()
    folder = FOLDER / "book-lm"
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        exact = {n: nats_per_byte(model, tokenizer, held_out[n]) for n in TEXTS}
    quantised_file.save(quantised(model, bits=8), folder / "weights.safetensors")
    shutil.copy(options.work / "tokenizer.json", folder / "tokenizer.json")
    points, steps = curve(options.work)
    card: dict[str, Any] = {
        "name": "book-lm",
        "what": "A small language model of Shakespeare's plays and Python's documentation",
        "sizes": vars(SHIPPED),
        "context": T,
        "parameters": parameters(book_lm()),
        "licence": "weights: MIT, as the book. Plays: public domain. Documentation: Copyright "
        "Python Software Foundation, PSF License Agreement version 2",
        "data": {
            "held_out": "the last tenth of tiny Shakespeare; the validation part of python-docs",
            "sources": SOURCES,
            "files": {name: described(options.corpus / f"{name}.txt") for name in TEXTS},
            "tokens": len(tokens),
        },
        "recipe": {
            "optimizer": "Muon for hidden matrices, AdamW for the rest; bfloat16, CPU",
            "rates": [LR, REST],
            "weight_decay": DECAY,
            "warmup": WARMUP,
            "schedule": "warm up, stay, down to 0 in a straight line of the clock",
            "windows": T,
            "batch": B,
            "repeats": "one row of each batch of the decay, of random tokens over and over, from "
            f"its step {options.repeats_from} on",
            "steps": steps,
            "tokens_seen": sum(steps[phase] * B[phase] * T for phase in B),
            "seed": options.seed,
        },
        "cpu_hours": round(seconds(options.work) / 3600, 2),
        "command": "python results/book_corpus.py, then results/book_lm.py trunk, finish, ship",
        "bits_32": {name: round(value, 4) for name, value in exact.items()},
        "provenance": provenance(device.choose(0), "tokenizers", "safetensors"),
    }
    write(folder / "card.json", card)
    shipped = load("book-lm")
    with torch.no_grad():
        left = {n: shipped.nats_per_byte(held_out[n]) for n in TEXTS}
    card["nats_per_byte"] = {name: round(value, 4) for name, value in left.items()}
    part = held_out["python-docs"][:CHECKED]
    card["check"] = {"characters": CHECKED, "nats_per_byte": round(shipped.nats_per_byte(part), 4)}
    counted = once(options.work / "table.json", lambda: table_per_byte(options.corpus))
    card["table_of_counts"] = {name: round(value, 4) for name, value in counted.items()}
    card["heads"] = induction(shipped.model)
    card["samples"] = samples(shipped)
    card["curve"] = {"columns": ["step", *TEXTS], "points": points}
    write(folder / "card.json", card)
    print(json.dumps({k: card[k] for k in ("nats_per_byte", "bits_32", "table_of_counts")}))


def once(path: Path, make: Callable[[], dict]) -> dict:
    """What `make` returns; stored, because it takes minutes and stays as it is."""
    if not path.exists():
        write(path, make())
    return json.loads(path.read_text())


def described(path: Path) -> dict:
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def samples(shipped: BookModel) -> dict[str, str]:
    starts = ["ROMEO:\n", "KING HENRY:\n", "The following example", 'The "with" statement']
    return {start: shipped.write(start, 120, seed=0) for start in starts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("phase", choices=["trunk", "finish", "ship"])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=7200.0, help="of this phase")
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--characters", type=int, default=30_000, help="held out, on the way")
    parser.add_argument(
        "--repeats-from", type=int, default=0, help="for the card: the decay's step"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"trunk": trunk, "finish": finish, "ship": ship}[options.phase](options)


if __name__ == "__main__":
    main()
