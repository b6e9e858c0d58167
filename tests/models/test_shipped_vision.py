"""The shipped vision transformer: small, as good as its card says, and able to look."""

import os
from pathlib import Path

import pytest
import torch

from attnbook.data import images
from attnbook.losses import parameters
from attnbook.shipped.vision import PLACE, build, load


@pytest.fixture(scope="module")
def book():
    return load()


def test_what_is_shipped_is_small_and_complete(book):
    assert {path.name for path in PLACE.iterdir()} == {
        "card.json",
        "pictures.png",
        "weights.safetensors",
    }
    assert sum(path.stat().st_size for path in PLACE.iterdir()) < 1.5e6
    assert parameters(book.model) == book.card["parameters"]


def test_a_new_model_finds_all_classes_equally_likely():
    assert build(width=8, depth=1, heads=2, hidden=8)(torch.randn(2, 3, 32, 32)).eq(0).all()


def test_it_recognises_the_pictures_that_were_not_chosen_because_it_does_not(book):
    said = [name for name, _ in book.says(book.pictures)]
    labels = book.card["pictures"]["labels"]
    assert sum(a == b for a, b in zip(said[:10], labels[:10], strict=True)) >= 5
    assert all(a != b for a, b in zip(said[10:], labels[10:], strict=True))


def test_eight_bits_cost_next_to_nothing(book):
    found = book.card["measured"]
    assert abs(found["first 500"] - found["first 500, 32 bits"]) < 0.01


@pytest.mark.slow
def test_its_right_answers_are_those_on_its_card(book):
    here = Path(os.environ.get("ATTNBOOK_DATA") or "nowhere")
    copies = {"cifar10-jpeg": "cifar10-jpeg/cifar10_jpeg.npz"}
    copies["cifar10"] = "cifar10/cifar-10-python.tar.gz"
    if not (here / copies[book.card["training"]["data"]]).exists():
        pytest.skip("CIFAR-10, in the copy that the card names, is not in ATTNBOOK_DATA")
    data = images.load("cifar10")
    with torch.no_grad():
        said = book.model(book.standardised(data.test[:100])).argmax(-1)
    right = (said == data.test_labels[:100]).float().mean().item()
    assert right == pytest.approx(book.card["measured"]["first 100"], abs=0.011)
    for n, pixels in zip(book.card["pictures"]["numbers"], book.pictures, strict=True):
        assert torch.equal(data.test[n], pixels)
