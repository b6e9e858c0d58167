"""Round the book's vision transformer to eight bits, measure what is left, and ship it.

    python results/ship_vit.py --work book-vit

`--work` is the folder of `book_vit.py`, with vit-weights.pt and vit.json. Measured on the first 500
test pictures of CIFAR-10, with the rounded weights: all of them; some of their patches, those that
the class token looks at most, random ones, those it looks at least; moved by some pixels, with the
mean colour at the edge; with their patches in another order; and the first 500 and the whole test
set with the weights as they were trained.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from attnbook import device
from attnbook.data import images
from attnbook.data.images import Images
from attnbook.inside.watch import watch
from attnbook.provenance import provenance, write
from attnbook.quantise import quantised_file
from attnbook.quantise.rounding import quantised
from attnbook.shipped.vision import PLACE, BookVit, build, load
from attnbook.vision import VisionTransformer, cut, partial_logits
from bookkit.experiments.classify import looked_at

COUNT, SOME = 500, (4, 8, 16, 32, 48, 64)
LOOKS = 100  # pictures whose attention is measured


def share(logits: Tensor, data: Images) -> float:
    """Right answers among the first pictures of the test set."""
    return (logits.argmax(-1) == data.test_labels[: len(logits)]).float().mean().item()


def said(model: VisionTransformer, x: Tensor) -> Tensor:
    return torch.cat([model(part) for part in x.split(100)])


def chosen(book: BookVit, data: Images) -> list[int]:
    """The first test picture of each class, and the first two others that are not recognised."""
    firsts = [data.test_labels.tolist().index(label) for label in range(10)]
    wrong = (
        said(book.model, data.standardised(data.test[:200])).argmax(-1) != data.test_labels[:200]
    )
    return firsts + [n for n in wrong.nonzero().flatten().tolist() if n not in firsts][:2]


def subsets(model: VisionTransformer, x: Tensor, data: Images) -> dict[str, list[float]]:
    """Right answers from some patches, for each count of `SOME`."""
    most = torch.cat([looked_at(model, part) for part in x.split(100)]).argsort(descending=True)
    anyhow = torch.rand(most.shape, generator=torch.Generator().manual_seed(0)).argsort()
    orders = {"most": most, "random": anyhow, "least": most.flip(1)}
    return {
        name: [share(partial_logits(model, x, order[:, :n]), data) for n in SOME]
        for name, order in orders.items()
    }


def distances(model: VisionTransformer, x: Tensor) -> list[list[float]]:
    """How many patches away a patch looks on average, for each block and head, sorted in a block.

    Dosovitskiy et al. 2021, figure 7, right.
    """
    places = torch.cartesian_prod(torch.arange(8), torch.arange(8)).float()
    apart = torch.cdist(places, places)
    with watch(model) as seen:
        model(x)
    found = []
    for weights in seen.values():
        patches = weights[:, :, 1:, 1:]
        patches = patches / patches.sum(-1, keepdim=True)
        mean = (patches * apart).sum(-1).mean((0, 2))  # (H,)
        found.append(sorted(round(one, 3) for one in mean.tolist()))
    return found


def norms(model: VisionTransformer, x: Tensor) -> list[dict[str, float]]:
    """Lengths of the patches' vectors after each block: median, and the largest of a picture."""
    found: list[dict[str, float]] = []

    def keep(_: Any, __: Any, out: Tensor) -> None:
        long = out[:, 1:].norm(dim=-1)
        largest = (long.amax(1) / long.median()).mean().item()
        found.append({"median": round(long.median().item(), 3), "largest": round(largest, 3)})

    blocks = model.get_submodule("body.blocks")
    handles = [block.register_forward_hook(keep) for block in blocks.children()]
    model(x)
    for handle in handles:
        handle.remove()
    return found


def measured(book: BookVit, exact: VisionTransformer, data: Images) -> dict[str, Any]:
    """All that is said of the shipped model."""
    model, pixels = book.model, data.test[:COUNT]
    x = data.standardised(pixels)
    moved = {}
    for pixels_ in (1, 2, 4):
        corner = torch.tensor([pixels_, 2 * pixels_]).expand(COUNT, 2)
        moved[pixels_] = share(said(model, images.move(x, corner, pixels_)), data)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    mixed = F.fold(cut(x, 4)[:, order].mT, (32, 32), 4, stride=4)
    return {
        "first 100": share(said(model, x[:100]), data),
        "first 500": share(said(model, x), data),
        "first 500, 32 bits": share(said(exact, x), data),
        "some": {"counts": SOME, **subsets(model, x, data)},
        "moved": moved,
        "patches shuffled": share(said(model, mixed), data),
        "distances": distances(model, x[:LOOKS]),
        "norms": norms(model, x[:LOOKS]),
    }


def described(result: dict[str, Any], sizes: dict[str, int], data: Images) -> dict[str, Any]:
    """The card before anything is measured."""
    mean, std = (moment.tolist() for moment in data.moments)
    return {
        "name": "book-vit",
        "what": "A vision transformer for the ten classes of CIFAR-10",
        "sizes": sizes,
        "classes": data.classes,
        "mean": mean,
        "std": std,
        "licence": "weights: MIT, as the book. Pictures: from CIFAR-10's test set "
        "(Krizhevsky 2009); they are not under the book's licence",
        "training": result,
        "parameters": result["parameters"],
    }


@torch.no_grad()
def ship(work: Path) -> dict[str, Any]:
    """Write weights and pictures; returns the card."""
    result = json.loads((work / "vit.json").read_text("utf-8"))
    data = images.load("cifar10")
    data = replace(data, train=data.train[: result["config"]["images"]])  # for mean and deviation
    sizes = {n: result["config"][n] for n in ("patch", "width", "depth", "heads", "hidden")}
    exact, rounded = build(**sizes).eval(), build(**sizes).eval()
    weights = torch.load(work / "vit-weights.pt", weights_only=True)
    for model in (exact, rounded):
        model.load_state_dict(weights)
    PLACE.mkdir(exist_ok=True)
    quantised_file.save(quantised(rounded, bits=8), PLACE / "weights.safetensors")
    card = described(result, sizes, data)
    write(PLACE / "card.json", card)
    save(data.test[:12])  # so that it can be loaded; then those that are kept
    which = chosen(load(), data)
    save(data.test[which])
    labels = [data.classes[int(data.test_labels[n])] for n in which]
    card["pictures"] = {"numbers": which, "labels": labels}
    write(PLACE / "card.json", card)
    return card | {"measured": measured(load(), exact, data)}


def save(pictures: Tensor) -> None:
    """The pictures side by side."""
    row = torch.cat(list(pictures), dim=2).permute(1, 2, 0).contiguous()
    Image.fromarray(row.numpy()).save(PLACE / "pictures.png", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    work = parser.parse_args().work
    torch.set_num_threads(1)
    write(PLACE / "card.json", ship(work) | {"provenance": provenance(device.choose(0))})


if __name__ == "__main__":
    main()
