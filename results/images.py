"""Train one classifier of CIFAR-10, test it once on the whole test set, store the run.

    python results/images.py --model vit
    python results/images.py --model cnn
    python results/images.py --model linear

Setting "cpu" is a small vision transformer, a convolutional network of about as many parameters,
and logistic regression. The larger two take some ten minutes each on one processor core.

Setting "gpu" has the size of the model in UvA's deep learning course, tutorial 15 (patches of
4 × 4, width 256, hidden width 512, 8 heads, 6 layers, batches of 128; published: 75.6 % after 180
epochs), and a tenth of its epochs:

    python results/images.py --setting gpu --model vit
    python results/images.py --setting gpu --model cnn

As there, 45,000 images train and the other 5,000 of the training set validate. All models have the
same optimiser, schedule and augmentation. The model tested is the last one, not the best. The
result goes to results/images/ and names the copy of CIFAR-10 that was read. An interrupted run
resumes where it was when the same command is given again.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from attnbook import device
from attnbook.block import Stack
from attnbook.data import images
from attnbook.feedforward import MLP
from attnbook.losses import parameters, token_loss
from attnbook.models.vit import vit
from attnbook.provenance import provenance
from attnbook.train.loop import cosine, train
from attnbook.transformer import initialise, normal
from attnbook.vision import MeanPool, VisionTransformer
from bookkit.results import study
from bookkit.results.study import Config

SETTINGS = {
    "cpu": {"patch": 4, "width": 64, "hidden": 256, "heads": 4, "depth": 4}
    | {"dropout": 0.0, "batch": 128, "epochs": 5, "lr": 1e-3},
    "gpu": {"patch": 4, "width": 256, "hidden": 512, "heads": 8, "depth": 6}
    | {"dropout": 0.0, "batch": 128, "epochs": 18, "lr": 1e-3},
}
PLAN = {"weight_decay": 0.05, "smoothing": 0.1, "warmup": 0.05, "floor": 0.01}
PLAN |= {"shift": 4, "flip": True, "images": 45_000}


def small_vit(config: Config) -> VisionTransformer:
    """The recipe `vit` for images of 32 × 32, with the setting's hidden width, pooled by a mean."""
    sizes = {name: config[name] for name in ("patch", "width", "depth", "heads", "dropout")}
    model = vit((32, 32), classes=10, pool=MeanPool(), **sizes)
    assert isinstance(model.body, Stack)
    for block in model.body.blocks:
        block.get_submodule("feedforward").sublayer = MLP(
            config["width"], config["hidden"], nn.GELU()
        )
    return initialise(model, normal)


def cnn(config: Config) -> nn.Module:
    """Six convolutions of 3 × 3, as wide as makes it about as large as `vit`."""
    with torch.device("meta"):
        goal = parameters(small_vit(config))
        width = min(range(8, 200), key=lambda width: abs(parameters(convolutions(width)) - goal))
    return convolutions(width)


def convolutions(width: int) -> nn.Sequential:
    """Two convolutions each at 32 × 32, 16 × 16 and 8 × 8 pixels; then the mean over the places."""
    layers: list[nn.Module] = []
    channels = 3
    for stage in (width, 2 * width, 4 * width):
        layers += [nn.MaxPool2d(2)] if layers else []
        for _ in range(2):
            layers += [nn.Conv2d(channels, stage, 3, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(stage), nn.ReLU()]
            channels = stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def linear(config: Config) -> nn.Module:
    """Logistic regression on the pixels: what any network has to beat."""
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))


MODELS: dict[str, Callable[[Config], nn.Module]] = {"vit": small_vit, "cnn": cnn, "linear": linear}


def loss(model: nn.Module, batch: tuple[Tensor, Tensor], smoothing: float) -> Tensor:
    """Mean cross-entropy of the class, in nats; with smoothing in training only."""
    return token_loss(model(batch[0]), batch[1], smoothing=smoothing)


def accuracy(
    model: nn.Module,
    pixels: Tensor,
    labels: Tensor,
    data: images.Images,
    device: torch.device,
    B: int = 250,
) -> float:
    """The share of these images that is classified as labelled."""
    parts = zip(pixels.split(B), labels.split(B), strict=True)
    right = sum(
        (model(data.standardised(part).to(device)).argmax(-1).cpu() == label).sum().item()
        for part, label in parts
    )
    return right / len(labels)


def position_similarity(model: VisionTransformer) -> list[list[float]]:
    """Mean cosine of two learned positions, by how many rows and columns they are apart."""
    table = model.get_parameter("positions.table").detach().float().cpu()
    rows, columns = model.grid
    unit = nn.functional.normalize(table, dim=-1).view(rows, columns, -1)
    return [
        [
            round((unit[: rows - r, : columns - c] * unit[r:, c:]).sum(-1).mean().item(), 3)
            for c in range(columns)
        ]
        for r in range(rows)
    ]


def similarity(model: nn.Module) -> dict:
    """`position_similarity`, to be stored, of a model that has positions."""
    if not isinstance(model, VisionTransformer):
        return {}
    return {"position_similarity": position_similarity(model)}


def divided(data: images.Images, count: int) -> tuple[images.Images, tuple[Tensor, Tensor]]:
    """The first `count` images to train; the last 5,000 of the training set, and their labels."""
    kept = replace(data, train=data.train[:count], train_labels=data.train_labels[:count])
    return kept, (data.train[-5000:], data.train_labels[-5000:])


def measure(config: Config, checkpoint: Path) -> dict:
    """Train, validate and test as `config` says; what is returned is what is stored."""
    here = device.choose(config["seed"])
    data, validation = divided(images.load("cifar10"), config["images"])
    model = MODELS[config["model"]](config).to(here.device)
    epoch = config["images"] // config["batch"]
    steps = config["epochs"] * epoch
    right = partial(accuracy, data=data, device=here.device)
    history = study.complete(
        train(
            model,
            images.sampler(data, config["batch"], config["shift"], config["flip"]),
            partial(loss, smoothing=config["smoothing"]),
            steps=steps,
            optimizer=study.adamw(model, config),
            schedule=cosine(steps, int(config["warmup"] * steps), config["floor"]),
            seed=config["seed"],
            evaluate=lambda model: right(model, *validation),
            every=epoch,
            checkpoint=checkpoint,
            precision=here.autocast,
        )
    )
    model.eval()
    with torch.no_grad():
        tested = right(model, data.test, data.test_labels)
    return {
        "config": config,
        "data": data.name,
        "parameters": parameters(model),
        "steps": steps,
        "chance": 1 / len(data.classes),
        "test_accuracy": round(tested, 4),
        "validation": study.curve(history, epoch),
        **similarity(model),
        "training_seconds": round(history.seconds),
        "provenance": provenance(here),
    }


CHANGES = {"epochs": int, "images": int, "lr": float, "dropout": float}


def chosen(options: argparse.Namespace) -> dict:
    """The run's settings: those given, and the setting's for the others."""
    given = study.changes(options, CHANGES)
    config = {"setting": options.setting, "model": options.model}
    return config | SETTINGS[options.setting] | PLAN | given | {"seed": options.seed}


def named(config: Config) -> str:
    """The name of the file in which the run is stored."""
    return "{setting}.{model}.images{images}.epochs{epochs}.lr{lr:g}.seed{seed}".format(**config)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--setting", default="cpu", choices=sorted(SETTINGS))
    parser.add_argument("--model", default="vit", choices=sorted(MODELS))
    for name, kind in CHANGES.items():
        parser.add_argument(f"--{name}", type=kind, help="default: the setting's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images")
    parser.add_argument("--checkpoint", type=Path, help="default: beside the result")
    return parser


def main() -> None:
    parser = arguments()
    options = parser.parse_args()
    config = chosen(options)
    name = named(config)
    path = options.out / f"{name}.json"
    run = study.run_or_explain(parser, path, config, measure, options.checkpoint)
    print(f"{name}: {run['parameters']:,} parameters, {100 * run['test_accuracy']:.1f} %")


if __name__ == "__main__":
    main()
