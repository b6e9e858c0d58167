"""Pictures with a label each: handwritten digits, CIFAR-10, and one photograph.

Pixels are kept as they were stored, whole numbers in one byte; models read them standardised.
"""

import io
import os
import pickle
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from sklearn import datasets
from torch import Tensor
from torch.nn import functional as F

from attnbook.data import registry

Pixels = UInt8[Tensor, "N channels rows columns"]


@dataclass(frozen=True, repr=False)
class Images:
    """Labelled pictures, to train and to test; `classes` names what label 0, 1, … stands for.

    `name` says what was read: for "cifar10" it is "cifar10-jpeg" where the compressed copy was.
    """

    name: str
    train: Pixels
    train_labels: Int[Tensor, " N"]
    test: UInt8[Tensor, "M channels rows columns"]
    test_labels: Int[Tensor, " M"]
    classes: Sequence[str]

    def __repr__(self) -> str:
        channels, rows, columns = self.train.shape[1:]
        sizes = f"{len(self.train):,} to train, {len(self.test):,} to test"
        return f"Images({self.name!r}: {sizes}; {rows} × {columns} × {channels})"

    @cached_property
    def moments(self) -> tuple[Float[Tensor, " channels"], Float[Tensor, " channels"]]:
        """Mean and standard deviation of the training pixels, of each channel."""
        value = torch.arange(256, dtype=torch.float64)
        found = []
        for channel in self.train.unbind(1):  # counted, so exact and without a copy in floats
            share = torch.bincount(channel.flatten(), minlength=256) / channel.numel()
            mean = (share * value).sum()
            found.append((mean, (share * (value - mean) ** 2).sum().sqrt()))
        mean, std = torch.tensor(found, dtype=torch.float32).T
        return mean, std

    def standardised(self, pixels: Pixels) -> Float[Tensor, "N channels rows columns"]:
        """What a model reads: mean 0 and variance 1 in each channel, over the training set."""
        mean, std = (moment[:, None, None].to(pixels.device) for moment in self.moments)
        return (pixels - mean) / std

    def some(self, count: int, seed: int = 0) -> "Images":
        """The same with only `count` training pictures, chosen by `seed`; the test is the same."""
        if not 1 <= count <= len(self.train):
            raise ValueError(f"there are {len(self.train)} training images, not {count}")
        rows = torch.randperm(len(self.train), generator=torch.Generator().manual_seed(seed))
        rows = rows[:count]
        return replace(self, train=self.train[rows], train_labels=self.train_labels[rows])


def digits() -> Images:
    """1,797 handwritten digits of 8 × 8 pixels, 0 to 16: 1,400 to train, chosen once, 397 to test.

    From scikit-learn, which took them from the UCI repository (Alpaydin and Kaynak 1998).
    """
    found = datasets.load_digits()
    order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
    pixels = torch.from_numpy(found.images).to(torch.uint8)[order][:, None]
    labels = torch.from_numpy(found.target).long()[order]
    classes = tuple(map(str, range(10)))
    return Images("digits", pixels[:1400], labels[:1400], pixels[1400:], labels[1400:], classes)


ARCHIVE = registry.FILES["cifar10/cifar-10-python.tar.gz"]
JPEG = replace(
    ARCHIVE,
    name="cifar10-jpeg/cifar10_jpeg.npz",
    size=55792569,
    sha256="147522a66edd80574995abc300f9a79f10997c5fd4f8a5ed838bda05660c0fa5",
)


def cifar10() -> Images:
    """60,000 photographs of 32 × 32 pixels in 10 classes, 50,000 to train (Krizhevsky 2009).

    The archive of its author, 170 MB, downloaded once; or, where the folder `ATTNBOOK_DATA` has no
    such archive but `cifar10-jpeg/cifar10_jpeg.npz`, that: the same pictures, compressed, with
    losses. The name of what is returned says which.
    """
    own = Path(os.environ.get("ATTNBOOK_DATA") or "nowhere")
    if (own / JPEG.name).exists() and not (own / ARCHIVE.name).exists():
        registry.refuse_other_content(own / JPEG.name, JPEG)
        return _from_jpeg(own / JPEG.name)
    return _from_archive(registry.fetch(ARCHIVE.name))


def _from_archive(path: Path) -> Images:
    """Five files to train and one to test; unpickled only because the hash of all was checked."""
    parts = {}
    with tarfile.open(path) as archive:
        for name in [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch", "batches.meta"]:
            content = archive.extractfile(f"cifar-10-batches-py/{name}")
            assert content is not None, name  # a file, as in every copy of this hash
            parts[name] = pickle.loads(content.read(), encoding="bytes")
    classes = [name.decode() for name in parts.pop("batches.meta")[b"label_names"]]
    test = parts.pop("test_batch")
    pixels = np.concatenate([part[b"data"] for part in parts.values()])
    labels = [label for part in parts.values() for label in part[b"labels"]]
    tensors = (torch.from_numpy(x).view(-1, 3, 32, 32) for x in (pixels, test[b"data"]))
    train, test_pixels = tensors
    return Images(
        "cifar10", train, torch.tensor(labels), test_pixels, torch.tensor(test[b"labels"]), classes
    )


def _from_jpeg(path: Path) -> Images:
    with np.load(path) as file:
        joined, offsets = file["jpeg"].tobytes(), file["offsets"].tolist()
        labels, split = torch.from_numpy(file["labels"]).long(), int(file["train"])
        classes = tuple(map(str, file["classes"]))
    pixels = torch.empty(len(labels), 3, 32, 32, dtype=torch.uint8)
    for place, picture in enumerate(pixels):
        with Image.open(io.BytesIO(joined[offsets[place] : offsets[place + 1]])) as image:
            picture.copy_(torch.from_numpy(np.array(image)).permute(2, 0, 1))
    parts = pixels[:split], labels[:split], pixels[split:], labels[split:]
    return Images("cifar10-jpeg", *parts, classes)


CORPORA = {"digits": digits, "cifar10": cifar10}


def load(name: str = "digits") -> Images:
    """The pictures of that name: `digits` come with scikit-learn, `cifar10` is downloaded once."""
    if name not in CORPORA:
        raise ValueError(f"there are no images {name!r}; there are {', '.join(map(repr, CORPORA))}")
    return CORPORA[name]()


def photograph(name: str = "china.jpg") -> Float[Tensor, "3 rows columns"]:
    """A photograph of 427 × 640 pixels, from 0 to 1: scikit-learn's `china.jpg` or `flower.jpg`."""
    pixels = torch.from_numpy(datasets.load_sample_image(name).copy())
    return pixels.permute(2, 0, 1) / 255


def sampler(
    data: Images, B: int, shift: int = 0, flip: bool = False
) -> Callable[
    [torch.Generator], tuple[Float[Tensor, "B channels rows columns"], Int[Tensor, " B"]]
]:
    """A sampler of `B` different training pictures, standardised, and their labels.

    Each picture is moved by up to `shift` pixels up or down and left or right (what comes in from
    outside is of the mean colour) and, with `flip`, mirrored with probability ½.
    """
    if not 1 <= B <= len(data.train):
        raise ValueError(f"a batch of {B} cannot be drawn from {len(data.train)} images")
    if shift < 0:
        raise ValueError(f"a shift is a number of pixels, 0 or more, not {shift}")

    def sample(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        rows = torch.randperm(len(data.train), generator=generator)[:B]
        images = data.standardised(data.train[rows])
        if shift:
            images = move(images, torch.randint(2 * shift + 1, (B, 2), generator=generator), shift)
        if flip:
            mirror = torch.rand(B, 1, 1, 1, generator=generator) < 0.5
            images = torch.where(mirror, images.flip(-1), images)
        return images, data.train_labels[rows]

    return sample


def move(
    images: Float[Tensor, "B channels rows columns"], places: Int[Tensor, "B 2"], edge: int
) -> Float[Tensor, "B channels rows columns"]:
    """Cut from each image, after `edge` rows and columns of 0 around it, a window of the old size.

    `places` are the windows' upper left corners, (row, column): (edge, edge) changes nothing.
    """
    rows, columns = (torch.arange(size) for size in images.shape[-2:])
    rows, columns = places[:, :1] + rows, places[:, 1:] + columns
    which = torch.arange(len(images))[:, None, None]
    wide = F.pad(images, (edge,) * 4)
    return wide[which, :, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)
