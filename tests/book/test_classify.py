"""Small classifiers of digits: what they read, how they are moved, and what was stored of them."""

import pytest
import torch
from torch.testing import assert_close

from attnbook.data import images
from attnbook.losses import parameters
from attnbook.vision import MeanPool, cut, partial_logits, tokens_of
from bookkit.experiments import classify
from bookkit.results.stored_run import stored_run


@pytest.fixture(scope="module")
def data():
    return images.load("digits")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return classify.transformer().eval()


def test_both_networks_are_equally_large():
    sizes = [parameters(build()) for build in (classify.transformer, classify.convnet)]
    assert sizes == [26_538, 24_970]


@pytest.mark.parametrize("pool", [None, MeanPool()])
def test_all_patches_in_any_order_are_the_whole_picture(data, pool):
    model = classify.transformer(pool=pool)
    x = data.standardised(data.test[:3])
    order = torch.stack([torch.randperm(16) for _ in range(3)])
    assert_close(partial_logits(model, x, order), model(x))


def test_a_patch_that_is_left_out_cannot_leak(data, model):
    x, kept = data.standardised(data.test[:2]), torch.tensor([[0, 5], [3, 15]])
    hidden = torch.ones(2, 16).scatter(1, kept, 0.0).bool()
    other = cut(x, 2)
    other[hidden] = 7.0
    other = other.view(2, 4, 4, 2, 2).transpose(2, 3).reshape(2, 1, 8, 8)
    assert_close(partial_logits(model, other, kept), partial_logits(model, x, kept))
    assert tokens_of(model, x, kept).shape == (2, 3, 32)


def test_a_model_turned_by_row_and_column_has_no_positions_of_its_own(data):
    """Shuffled patches with their places shuffled alike are the same to it only with a table."""
    model = classify.transformer(rotary=True)
    assert not any("table" in name for name, _ in model.named_parameters())
    x = data.standardised(data.test[:2])
    mixed = x.roll(2, -1)  # by a whole patch, around the edge
    assert (model(mixed) - model(x)).abs().max() > 1e-3


def test_white_paper_comes_in_where_a_digit_moves(data):
    x = data.standardised(data.test[:5])
    right = classify.by_pixels(0, 1)(x)
    assert_close(right[..., 1:], x[..., :-1])
    assert (right[..., 0] == x.min()).all()
    up = classify.by_pixels(-2, 0)(x)
    assert_close(up[..., :-2, :], x[..., 2:, :]) and (up[..., -2:, :] == x.min()).all()


def test_a_teacher_is_asked_for_the_picture_as_it_was_moved(data):
    seen = []

    class Teacher(torch.nn.Module):
        def forward(self, x):
            seen.append(x)
            return torch.eye(10)[torch.zeros(len(x), dtype=torch.long)]

    few = data.some(51)
    model = classify.fit(classify.convnet, few, seed=0, steps=25, shift=1, teacher=Teacher())
    assert len(seen) == 25
    assert (model(few.standardised(few.test)).argmax(-1) == 0).float().mean() > 0.9


def test_the_stored_runs_have_nine_seeds_and_the_best_of_three_rates():
    run = stored_run("pictures")
    for name in ("ViT", "CNN"):
        assert len(run["whole"][name]) == 9
        assert {len(found) for found in run["sizes"][name].values()} == {9}
        assert {len(found) for found in run["shuffled"][name].values()} == {9}


@pytest.mark.slow
def test_a_stored_run_is_found_again(data):
    """One network of the study, trained again; machines differ in the last digits."""
    run = stored_run("pictures")
    tried = {float(k.split("/")[-1]): v for k, v in run["rates"].items() if "/CNN/51/" in k}
    lr = max(tried, key=lambda lr: tried[lr])
    few = data.some(51, 0)
    found = classify.right(classify.fit(classify.convnet, few, 0, lr), few)
    assert found == pytest.approx(run["sizes"]["CNN"]["51"][0], abs=0.04)
