"""The drawings of what attention costs say what is counted and what patterns really reach."""

import re

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnbook.attention import attend
from attnbook.efficient.memory import Ledger
from bookkit.drawings import fewer, hierarchy, reorder, roofline
from bookkit.drawings.gallery import GALLERY


def counted(run, *shapes):
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        run(*(torch.empty(shape) for shape in shapes))
    return counter.get_total_flops()


def test_operations_of_both_brackets_are_those_that_torch_counts():
    shapes = [(reorder.T, reorder.D)] * 3
    assert counted(lambda q, k, v: (q @ k.T) @ v, *shapes) == reorder.operations(True)
    assert counted(lambda q, k, v: q @ (k.T @ v), *shapes) == reorder.operations(False)


def test_tables_and_matrices_have_the_bytes_that_torch_holds():
    with torch.device("meta"), Ledger() as ledger:
        kept = [torch.empty(hierarchy.LONG, hierarchy.D, dtype=torch.float16) for _ in range(4)]
        assert ledger.held == hierarchy.kept()
        scores = kept[0] @ kept[1].T
    assert scores.nbytes == hierarchy.table()


def test_intensities_are_operations_over_bytes():
    T, D, H = roofline.T, roofline.D, roofline.HEADS
    reading = counted(lambda q, k, v: attend(q, k, v), *[(T, D)] * 3)
    assert roofline.in_tiles() == reading / (4 * T * D * 2)
    assert roofline.written_out() == pytest.approx(reading / (4 * T * D * 2 + 4 * T * T * 2))
    writing = counted(lambda q, k, v: attend(q, k, v), (8, D), (T, D), (T, D))
    assert roofline.by_head(8) == writing / (2 * T * D * 2)
    both = roofline.LATENT + roofline.ROTATED
    shapes = (H, both), (T, both), (T, roofline.LATENT)
    assert roofline.latent() == counted(lambda q, k, v: attend(q, k, v), *shapes) / (T * both * 2)


def test_nothing_is_above_the_roof():
    for case in roofline.CASES:
        speed = roofline.reached(case.intensity)
        assert speed <= roofline.PEAK and speed <= roofline.BANDWIDTH * case.intensity


def heard(table, i, layers):
    """Whom a position has heard of, by walking from one to the next."""
    reached = {i}
    for _ in range(layers):
        reached = {j for k in reached for j in range(fewer.T) if table[k, j]}
    return reached


@pytest.mark.parametrize("name", list(fewer.PATTERNS))
def test_layers_until_all_are_found_by_walking_too(name):
    table, _ = fewer.PATTERNS[name]
    everybody = set(range(fewer.T))
    causal = not table.triu(1).any()
    for layers in range(1, fewer.T + 1):
        known = [heard(table, i, layers) for i in range(fewer.T)]
        if all(k >= (set(range(i + 1)) if causal else everybody) for i, k in enumerate(known)):
            assert fewer.layers_until_all(table) == layers
            return
    assert fewer.layers_until_all(table) is None


@pytest.mark.parametrize("name", ["tiles", "roofline", "sparse_patterns", "reorder"])
def test_both_layouts_say_the_same_numbers(name):
    said = [
        set(re.findall(r"\d[\d,.]*", re.sub("<[^>]*>", " ", svg.split("</desc>")[1])))
        for svg in GALLERY[name]().layouts.values()
    ]
    assert len(said) == 2 and {n.strip(",.") for n in said[0]} == {n.strip(",.") for n in said[1]}
