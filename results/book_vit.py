"""Train the vision transformer that ships with the book: CIFAR-10, by the speed run's recipe.

    python results/book_vit.py --work book-vit --epochs 24

It has a class token, whose attention to the 64 patches can be looked at. Muon for hidden matrices,
AdamW for the rest, products and attention in 16 bits, the rates down to 0 in a straight line; the
pictures are shifted and mirrored. 45,000 images train, the last 5,000 of the training set validate,
and the test set is read once, at the end. An interrupted run resumes where it was when the same
command is given again; all files go to the folder `--work`.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import TypedDict

import torch
from images import accuracy, divided, loss
from speedrun import ByProducts, scored

from attnbook import device
from attnbook.data import images
from attnbook.losses import parameters
from attnbook.provenance import provenance, write
from attnbook.shipped.vision import build
from attnbook.train.loop import train
from attnbook.train.optimizers import muon_and_adamw


class Plan(TypedDict):
    """How it is trained: what is stored with its sizes, its epochs and its seed."""

    batch: int
    lr: float
    rest: float
    weight_decay: float
    warmup: float
    smoothing: float
    shift: int
    flip: bool
    images: int


SIZES = {"patch": 4, "width": 128, "depth": 7, "heads": 4, "hidden": 384}
PLAN: Plan = {
    "batch": 128, "lr": 0.005, "rest": 0.003, "weight_decay": 0.1, "warmup": 0.02,
    "smoothing": 0.1, "shift": 4, "flip": True, "images": 45_000,
}  # fmt: skip


def measure(options: argparse.Namespace) -> dict:
    here = device.choose(options.seed)
    cpu = here.device.type == "cpu"
    if cpu:
        torch.set_num_threads(options.threads)
    data, validation = divided(images.load("cifar10"), PLAN["images"])
    torch.manual_seed(options.seed)
    model = build(**SIZES).to(here.device)
    if cpu:
        scored(model, ByProducts())
    epoch = PLAN["images"] // PLAN["batch"]
    steps = options.epochs * epoch
    warmup = round(PLAN["warmup"] * steps)
    right = partial(accuracy, data=data, device=here.device)
    rates = {"lr": PLAN["lr"], "rest": PLAN["rest"], "weight_decay": PLAN["weight_decay"]}
    history = train(
        model,
        images.sampler(data, PLAN["batch"], PLAN["shift"], PLAN["flip"]),
        partial(loss, smoothing=PLAN["smoothing"]),
        steps=steps,
        optimizer=muon_and_adamw(model, **rates, precision=torch.bfloat16),
        schedule=lambda step: min((step + 1) / warmup, (steps - step) / (steps - warmup)),
        seed=options.seed,
        evaluate=lambda model: right(model, *validation),
        every=epoch,
        checkpoint=options.work / "vit.pt",
        precision=partial(torch.autocast, here.device.type, torch.bfloat16),
    )
    if history.interrupted:
        raise SystemExit(f"stopped after {history.steps} steps; run again to go on")
    model.eval()
    torch.save(model.state_dict(), options.work / "vit-weights.pt")
    with torch.no_grad():
        tested = right(model, data.test, data.test_labels)
    return {
        "config": {**SIZES, **PLAN, "epochs": options.epochs, "seed": options.seed},
        "data": data.name,
        "parameters": parameters(model),
        "test_accuracy": round(tested, 4),
        "validation": [(at // epoch, round(v["value"], 4)) for at, v in history.evaluations],
        "training_seconds": round(history.seconds),
        "provenance": provenance(here),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    result = measure(options)
    write(options.work / "vit.json", result)
    print(f"{result['parameters']:,} parameters, {100 * result['test_accuracy']:.1f} %")


if __name__ == "__main__":
    main()
