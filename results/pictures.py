"""Small classifiers of digits: what a vision transformer has to learn that a convolution knows.

    python results/pictures.py     # all runs, resumed one by one: a quarter of an hour on one core

The two networks of chapter 8 (`bookkit.experiments.classify`) and a third, whose queries and keys
are turned by row and column in place of a table of positions, with 240 steps of 64 digits. Each has
its own learning rate for each size of the training set: the best of three by 300 training pictures
that were held out, with seed 9. Then nine other seeds, that draw pictures and first weights, on the
test set: all sizes; patches or pixels in another order (155 pictures); and with all pictures: moved
by a pixel (mean colour at the edge), larger, some patches only. Five seeds: a masked autoencoder of
all pictures without labels, then tuned or read by logistic regression with few labels."""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook import device
from attnbook.block import Stack
from attnbook.data import images
from attnbook.data.images import Images
from attnbook.provenance import provenance, write
from attnbook.train.loop import cosine, train
from attnbook.transformer import initialise, xavier
from attnbook.vision import (
    MaskedAutoencoder,
    VisionTransformer,
    cut,
    gap_loss,
    partial_logits,
    resize,
    some_patches,
    tokens_of,
)
from bookkit.experiments import classify
from bookkit.experiments.classify import fit, looked_at, rearranged, right

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "pictures.json"
SEEDS, FEW, TUNE = range(9), range(5), 9
RATES = (2e-3, 4e-3, 8e-3)
TUNED_RATES = (5e-4, 2e-3, 8e-3)  # of what was trained before
SIZES = (51, 155, 466, 1400)
HELD_OUT = 300
PAINTING, KEPT = 1500, 4  # steps of the masked autoencoder; patches of 16 that it reads
P = 16
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "ViT": classify.transformer,
    "CNN": classify.convnet,
    "ViT, rotary": partial(classify.transformer, rotary=True),
}
DATA = images.load("digits")
Runs = dict[str, Any]


class Drafts:
    """What was measured so far, kept in a file; a run that is there is not measured again."""

    def __init__(self, draft: Path) -> None:
        self.draft = draft
        self.found: Runs = json.loads(draft.read_text("utf-8")) if draft.exists() else {}

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        if key not in self.found:
            self.found[key] = compute()
            write(self.draft, self.found)
            print(key, str(self.found[key])[:100], flush=True)
        return self.found[key]


def held_out(size: int, seed: int) -> Images:
    """`size` training pictures, at most 1,100, tested on the 300 that no run of these trains on."""
    count = len(DATA.train) - HELD_OUT
    rest = DATA.train[count:], DATA.train_labels[count:]
    kept = replace(DATA, train=DATA.train[:count], train_labels=DATA.train_labels[:count])
    return replace(kept.some(min(size, count), seed), test=rest[0], test_labels=rest[1])


def rate(runs: Drafts, name: str, size: int) -> float:
    """The best of three learning rates for this network and so many pictures."""

    def tried(lr: float) -> float:
        few = held_out(size, TUNE)
        return right(fit(NETWORKS[name], few, TUNE, lr), few)

    found = {lr: runs.get(f"rate/{name}/{size}/{lr}", partial(tried, lr)) for lr in RATES}
    return max(RATES, key=lambda lr: found[lr])


def subsets(model: VisionTransformer) -> dict[str, list[float]]:
    """Right answers from 2, 4, … 16 patches: the most looked at, random ones, the least."""
    x = DATA.standardised(DATA.test)
    most = looked_at(model, x).argsort(descending=True)
    anyhow = torch.rand(len(x), P, generator=torch.Generator().manual_seed(0)).argsort()
    found = {}
    for name, order in {"most": most, "random": anyhow, "least": most.flip(1)}.items():
        with torch.no_grad():
            said = [partial_logits(model, x, order[:, :n]).argmax(-1) for n in range(2, P + 1, 2)]
        found[name] = [(one == DATA.test_labels).float().mean().item() for one in said]
    return found


def likeness(model: VisionTransformer) -> dict[str, float]:
    """Mean cosine of learned positions that are neighbours, farther apart, and on the two edges."""
    table = model.get_parameter("positions.table").detach()[1:]
    like = F.cosine_similarity(table[:, None], table[None], dim=-1)
    places = torch.cartesian_prod(torch.arange(4), torch.arange(4)).float()
    apart, edge = torch.cdist(places, places), (places[:, 1] == 0) | (places[:, 1] == 3)
    pairs = {"near": apart == 1, "far": apart > 1.5}
    pairs |= {"edges": edge[:, None] & edge & (apart > 0), "mixed": edge[:, None] & ~edge}
    return {name: like[pair].mean().item() for name, pair in pairs.items()}


def larger(model: VisionTransformer, rotary: bool) -> dict[str, list[float]]:
    """Right answers for digits enlarged to 12 and 16 pixels a side."""
    found: dict[str, list[float]] = {}
    for size in (12, 16):

        def enlarged(x: Tensor, size: int = size) -> Tensor:
            return F.interpolate(x, (size, size), mode="bicubic", antialias=True)

        side = size // 2
        for way in ("as trained", "stretched") if rotary else ("resized", "no positions"):
            other = resize(copy_of(model), (size, size))
            if rotary:
                classify.turn(other, (side, side), 4 / side if way == "stretched" else 1.0)
            elif way == "no positions":
                other.get_parameter("positions.table").data[1:] = 0
            found.setdefault(way, []).append(right(other, DATA, enlarged))
    return found


def copy_of(model: VisionTransformer) -> VisionTransformer:
    """The same weights in a model of its own."""
    rotary = isinstance(model.positions, classify.Nowhere)
    other = classify.transformer(rotary=rotary)
    other.load_state_dict(model.state_dict())
    assert isinstance(other, VisionTransformer)
    return other.eval()


def whole(name: str, seed: int, lr: float) -> Runs:
    """One network trained on all pictures, and all that is asked of it."""
    model = fit(NETWORKS[name], DATA, seed, lr)
    found: Runs = {"right": right(model, DATA), "moved": moved_right(model)}
    x = DATA.standardised(DATA.train)
    with torch.no_grad():
        found["train"] = (model(x).argmax(-1) == DATA.train_labels).float().mean().item()
    if isinstance(model, VisionTransformer):
        found["larger"] = larger(model, "rotary" in name)
    if name == "ViT":
        assert isinstance(model, VisionTransformer)
        found |= {"subsets": subsets(model), "likeness": likeness(model)}
    return found


def moved_right(model: nn.Module) -> float:
    """Right answers when the test pictures are moved by a pixel, with the mean colour at the edge:
    the mean of four ways."""
    corners = torch.tensor([[1, 0], [0, 1], [1, 2], [2, 1]])

    def way(corner: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda x: images.move(x, corner.expand(len(x), 2), 1)

    return sum(right(model, DATA, way(corner)) for corner in corners) / 4


def orders() -> dict[str, Tensor]:
    """Pixel numbers in three orders: as they are, patches shuffled, all pixels shuffled."""
    numbers = torch.arange(64).view(1, 1, 8, 8)
    squares = cut(numbers.float(), 2)[0]
    generator = torch.Generator().manual_seed(0)
    shuffle = torch.randperm(P, generator=generator)
    apart = F.fold(squares[shuffle].T[None], (8, 8), 2, stride=2).long()
    return {"patches": apart, "pixels": torch.randperm(64, generator=generator)}


def shuffled(name: str, seed: int, lr: float, kind: str) -> float:
    """Right answers of a network trained on 155 pictures in another order of their pixels."""
    few, order = DATA.some(155, seed), orders()[kind]
    few = replace(few, train=rearranged(few.train, order), test=rearranged(few.test, order))
    return right(fit(NETWORKS[name], few, seed, lr), few)


def classics(size: int, seed: int) -> dict[str, float]:
    """Logistic regression and a support vector machine on the pixels."""
    few = DATA.some(size, seed)
    x, test = (few.standardised(x).flatten(1).numpy() for x in (few.train, few.test))
    makers = {"logistic regression": LogisticRegression(max_iter=1000), "SVM": SVC()}
    return {
        name: float(make.fit(x, few.train_labels.numpy()).score(test, few.test_labels.numpy()))
        for name, make in makers.items()
    }


def painter(seed: int) -> MaskedAutoencoder:
    """A masked autoencoder of all training pictures, that were not looked at with labels."""
    sample = images.sampler(DATA, 64, shift=1)

    def sampler(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x, _ = sample(generator)
        return x, some_patches(len(x), P, KEPT, generator)

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return gap_loss(model(*batch), *batch, size=2)

    torch.manual_seed(seed)
    reader, other = classify.transformer(), classify.transformer()
    assert isinstance(reader, VisionTransformer) and isinstance(other, VisionTransformer)
    small = Stack(list(classify.blocks_of(other).blocks)[:1], nn.LayerNorm(classify.WIDTH))
    model = initialise(MaskedAutoencoder(reader, small, classify.WIDTH), xavier)
    plan = cosine(PAINTING, warmup=100, floor=0.01)
    train(model, sampler, loss, seed=seed, steps=PAINTING, lr=4e-3, schedule=plan, progress=False)
    return model.eval()


def probe(model: VisionTransformer, size: int, seed: int) -> float:
    """Right answers of logistic regression on the mean of what the patches have become."""
    few = DATA.some(size, seed)

    def features(x: Tensor) -> Any:
        with torch.no_grad():
            return model.body(tokens_of(model, few.standardised(x)))[:, 1:].mean(1).numpy()

    found = LogisticRegression(max_iter=3000).fit(features(few.train), few.train_labels.numpy())
    return float(found.score(features(few.test), few.test_labels.numpy()))


def error(model: MaskedAutoencoder) -> list[float]:
    """Mean squared error in the gaps of the test set, and of the mean of each training pixel."""
    x, generator = DATA.standardised(DATA.test), torch.Generator().manual_seed(0)
    kept = some_patches(len(x), P, KEPT, generator)
    mean = DATA.standardised(DATA.train).mean(0, keepdim=True).expand_as(x)
    with torch.no_grad():
        painted = [model(x, kept), cut(mean, 2)]
    return [gap_loss(one, x, kept, 2).item() for one in painted]


def unlabelled(runs: Drafts, seed: int) -> Runs:
    """One masked autoencoder, and its reader with 51, 155 and all labels."""
    model = painter(seed)
    found: Runs = {"error": error(model), "probe": {}, "tuned": {}}
    torch.manual_seed(seed)
    fresh = classify.transformer()
    assert isinstance(fresh, VisionTransformer)
    for size in SIZES:
        one = {"painted": probe(model.encoder, size, seed), "untrained": probe(fresh, size, seed)}
        found["probe"][size] = one
        if size != 466:
            lr = tuned_rate(runs, size)
            tuned = fit(lambda: copy_of(model.encoder), few := DATA.some(size, seed), seed, lr)
            found["tuned"][size] = right(tuned, few)
    return found


TUNER: list[MaskedAutoencoder] = []


def tuned_rate(runs: Drafts, size: int) -> float:
    """The best of three learning rates to go on from a masked autoencoder's reader."""

    def tried(lr: float) -> float:
        if not TUNER:
            TUNER.append(painter(TUNE))
        few = held_out(size, TUNE)
        return right(fit(lambda: copy_of(TUNER[0].encoder), few, TUNE, lr), few)

    rates = {lr: runs.get(f"rate/painted/{size}/{lr}", partial(tried, lr)) for lr in TUNED_RATES}
    return max(TUNED_RATES, key=lambda lr: rates[lr])


def with_all(runs: Drafts, name: str, seeds: range) -> list[Runs]:
    """`whole` for each seed."""
    lr = rate(runs, name, 1400)
    return [runs.get(f"whole/{name}/{seed}", partial(whole, name, seed, lr)) for seed in seeds]


def of_size(runs: Drafts, name: str, size: int) -> list[float]:
    """Right answers of a network trained on so many pictures."""

    def one(seed: int) -> float:
        few = DATA.some(size, seed)
        return right(fit(NETWORKS[name], few, seed, rate(runs, name, size)), few)

    return [runs.get(f"sizes/{name}/{size}/{seed}", partial(one, seed)) for seed in SEEDS]


def in_order(runs: Drafts, name: str, kind: str) -> list[float]:
    """`shuffled` for each seed."""
    lr = rate(runs, name, 155)
    return [
        runs.get(f"shuffled/{name}/{kind}/{seed}", partial(shuffled, name, seed, lr, kind))
        for seed in SEEDS
    ]


BOTH = ("ViT", "CNN")
PARTS: dict[str, Callable[[Drafts], Any]] = {
    "whole": lambda runs: {name: with_all(runs, name, SEEDS) for name in BOTH},
    "sizes": lambda runs: {
        name: {size: of_size(runs, name, size) for size in SIZES[:-1]} for name in NETWORKS
    },
    "shuffled": lambda runs: {
        name: {kind: in_order(runs, name, kind) for kind in orders()} for name in BOTH
    },
    "classics": lambda runs: {size: [classics(size, seed) for seed in SEEDS] for size in SIZES},
    "unlabelled": lambda runs: [
        runs.get(f"unlabelled/{seed}", partial(unlabelled, runs, seed)) for seed in FEW
    ],
    "rotary": lambda runs: with_all(runs, "ViT, rotary", SEEDS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--draft", type=Path, default=Path(__file__).parent / "pictures.draft")
    options = parser.parse_args()
    only = options.only
    torch.set_num_threads(1)
    runs = Drafts(options.draft)
    found = {name: PARTS[name](runs) for name in PARTS if name in only}
    rates = {name: lr for name, lr in runs.found.items() if name.startswith("rate/")}
    if len(found) < len(PARTS):
        return print("the other parts are not there yet: nothing is stored")
    write(STORE, found | {"rates": rates, "provenance": provenance(device.choose(0))})


if __name__ == "__main__":
    main()
