"""What two small networks make of ten digits, moved by up to two pixels: a picture of chapter 8.

    python results/patches.py      # ten seconds

The vision transformer and the convolutional network of `bookkit.experiments.classify`, each trained
on all 1,400 digits for 240 steps with the learning rate that `pictures.py` found best, seed 0. Of
the test set the first picture of each class; for each of 25 moves the ten probabilities of both
networks, in per cent, and how much of the whole test set each recognises when it is moved so."""

from pathlib import Path

import torch

from attnbook import device
from attnbook.data import images
from attnbook.provenance import provenance, write
from bookkit.experiments import classify

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "patches.json"
MOST = 2  # pixels


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    data = images.load("digits")
    labels = data.test_labels.tolist()
    which = [labels.index(label) for label in range(10)]
    builds = {"vit": classify.transformer, "cnn": classify.convnet}
    with torch.enable_grad():
        networks = {name: classify.fit(build, data, 0) for name, build in builds.items()}
    moves = [(r, c) for r in range(-MOST, MOST + 1) for c in range(-MOST, MOST + 1)]
    found: dict = {name: [] for name in networks} | {"right": {name: [] for name in networks}}
    for rows, columns in moves:
        x = classify.by_pixels(rows, columns)(data.standardised(data.test))
        for name, model in networks.items():
            chances = model(x).softmax(-1)
            hit = (chances.argmax(-1) == data.test_labels).float().mean().item()
            found["right"][name].append(round(hit, 3))
            found[name].append((100 * chances[which]).round().int().tolist())
    digits = data.test[which, 0].tolist()
    write(STORE, {"digits": digits, **found, "provenance": provenance(device.choose(0))})


if __name__ == "__main__":
    main()
