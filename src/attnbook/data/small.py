"""Small real data that come with installed packages: a club, tumours, brain waves, share prices.

Nothing is downloaded: networkx, scikit-learn and matplotlib bring the files.
"""

import csv
import io
from pathlib import Path
from typing import Any, NamedTuple

import networkx
import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from matplotlib import cbook
from sklearn import datasets
from torch import Tensor

from attnbook.data import images


class Club(NamedTuple):
    """Who met whom, and which of two groups each member joined when the club broke up."""

    adjacency: Bool[Tensor, "N N"]
    group: Int[Tensor, " N"]


class Table(NamedTuple):
    """Rows of measured numbers, standardised over all of them; a class for each; column names."""

    rows: Float[Tensor, "N columns"]
    label: Int[Tensor, " N"]
    columns: list[str]


def sample(name: str) -> bytes:
    """A file of matplotlib's sample data, whole."""
    file: Any = cbook.get_sample_data(name, asfileobj=False)
    return Path(file).read_bytes()


def karate() -> Club:
    """34 members of a karate club and 78 friendships; the club split in two. Zachary 1977."""
    graph = networkx.karate_club_graph()
    adjacency = networkx.to_numpy_array(graph, weight=None) > 0
    group = [int(graph.nodes[node]["club"] == "Officer") for node in graph]
    return Club(torch.from_numpy(adjacency), torch.tensor(group))


def tumours() -> Table:
    """569 breast tumours, thirty measurements of the nuclei of their cells; 1 is benign.

    Wolberg, Mangasarian, Street and Street 1995, in scikit-learn.
    """
    found = datasets.load_breast_cancer()
    rows = torch.from_numpy(found.data)
    rows = ((rows - rows.mean(0)) / rows.std(0)).float()
    return Table(rows, torch.from_numpy(found.target).long(), list(map(str, found.feature_names)))


def brain_waves() -> Float[Tensor, "T channels"]:
    """800 moments of an electroencephalogram, four channels of variance 1; matplotlib's."""
    found = np.frombuffer(sample("eeg.dat"), dtype="<f8").reshape(800, 4)
    waves = torch.from_numpy(found.copy())
    return ((waves - waves.mean(0)) / waves.std(0)).float()


def share_returns() -> Float[Tensor, " months"]:
    """By how many per cent the S&P 500 rose, each month from 1990 on (logarithms of ratios).

    matplotlib's copy, from Yahoo Finance.
    """
    lines = sample("Stocks.csv").decode().splitlines()
    table = csv.DictReader(io.StringIO("\n".join(lines[1:])))
    months = [row for row in table if row["Date"].endswith("-01") and row["^GSPC"]]
    price = torch.tensor([float(row["^GSPC"]) for row in months], dtype=torch.float64)
    return (100 * price.log().diff()).float()


class Strips(NamedTuple):
    """Strips of handwritten digits side by side, their captions, and how many digits there are."""

    images: Float[Tensor, "B 1 rows columns"]
    captions: Int[Tensor, "B T"]
    lengths: Int[Tensor, " B"]


WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
WORDS += ["<begin>", "<end>"]
BEGIN, END = 10, 11
MOST, COLUMNS = 4, 40  # digits on a strip at most, and its columns


def strips(
    pixels: Float[Tensor, "N 8 8"], labels: Int[Tensor, " N"], B: int, generator: torch.Generator
) -> Strips:
    """One to four handwritten digits in a row, with gaps of random width, and what they say.

    A caption is the digits' words and `END` to its end: (B, 5). Grey values from 0 to 1.
    """
    lengths = torch.randint(1, MOST + 1, (B,), generator=generator)
    chosen = torch.randint(len(pixels), (B, MOST), generator=generator)
    gaps = torch.rand(B, MOST + 1, generator=generator)
    there = torch.arange(MOST) < lengths[:, None]
    gaps[:, 1:] = torch.where(there, gaps[:, 1:], 0)
    free = COLUMNS - 8 * lengths[:, None]  # columns that no digit needs
    starts = (gaps / gaps.sum(1, keepdim=True) * free)[:, :MOST].cumsum(1).long()
    starts = starts + 8 * torch.arange(MOST)
    strip = torch.zeros(B, 8, COLUMNS + 8 * MOST)
    at = (starts[..., None] + torch.arange(8)).clamp(max=COLUMNS + 8 * MOST - 1)  # (B, MOST, 8)
    for place in range(MOST):
        shown = pixels[chosen[:, place]] * there[:, place, None, None]
        strip.scatter_add_(2, at[:, place, None].expand(-1, 8, -1), shown)
    captions = torch.where(there, labels[chosen], END)
    captions = torch.cat((captions, torch.full((B, 1), END)), 1)
    return Strips(strip[:, None, :, :COLUMNS], captions, lengths)


def handwriting(
    training: bool = True,
) -> tuple[Float[Tensor, "N 8 8"], Int[Tensor, " N"]]:
    """The digits of `images.digits()`, from 0 to 1, and what they are."""
    found = images.digits()
    pixels, labels = (
        (found.train, found.train_labels) if training else (found.test, found.test_labels)
    )
    return pixels[:, 0].float() / 16, labels
