"""What is stored of learned sparse attention, of compressed keys, of windows put in afterwards."""

import importlib

import pytest
import torch

from attnbook.data.recall import T, pairs
from attnbook.efficient.indexer import best
from attnbook.masks import causal, pattern_mask
from bookkit.results.stored_run import stored_run


@pytest.fixture
def sparse(root, monkeypatch):
    """The script of `results/`."""
    monkeypatch.syspath_prepend(str(root / "results"))
    return importlib.import_module("sparse")


def test_each_way_to_choose_was_run_with_five_seeds_at_the_best_of_three_rates(sparse):
    found = stored_run("sparse")
    groups = {f"{study}/{name}": rates for study, name, _, rates in sparse.groups()}
    assert found["compared"].keys() == groups.keys()
    for key, one in found["compared"].items():
        assert len(one["seeds"]) == 5 and list(map(float, one["tried"])) == list(groups[key])
        last = {float(rate): run[-1] for rate, run in one["tried"].items()}
        assert last[one["rate"]] == max(last.values())
    assert found["provenance"]["command"] == "python results/sparse.py"


@pytest.mark.slow
def test_a_run_with_a_window_is_repeated(sparse):
    found = stored_run("sparse")["compared"]["chosen/window/8"]
    again = sparse.at_chosen("window", 8, 4, found["rate"], 0)
    assert again == pytest.approx(found["seeds"][0], abs=0.02)


@pytest.mark.parametrize("choice", ["window", "chance", "own scores", "indexer"])
def test_after_the_first_half_a_query_sees_as_many_keys_as_it_may(sparse, choice):
    torch.manual_seed(0)
    model = sparse.Few(choice, 8, begin=1)
    scores, own = torch.randn(2, 3, T, T)
    assert torch.equal(model.chosen(scores, own).expand(3, T, T), sparse.PAST.expand(3, T, T))
    sparse.loss(model, pairs()(torch.Generator().manual_seed(0), 3))
    seen = model.chosen(scores, own).expand(3, T, T)
    assert (seen.sum(-1) == torch.arange(1, T + 1).clamp(max=8)).all()
    assert not (seen & ~pattern_mask(causal, T)).any()


def test_the_indexer_is_trained_by_its_own_loss_and_by_nothing_else(sparse):
    torch.manual_seed(0)
    batch = pairs()(torch.Generator().manual_seed(0), 3)
    for choice in ("indexer", "own scores"):
        model = sparse.Few(choice, 8)
        sparse.loss(model, batch).backward()
        grads = [p.grad for p in model.indexer.parameters()]
        moved = any(grad is not None and bool(grad.any()) for grad in grads)
        assert moved == (choice == "indexer")


def test_a_choice_names_the_highest_scores(sparse):
    scores = torch.randn(1, T, T, generator=torch.Generator().manual_seed(1))
    model = sparse.Few("indexer", 8)
    seen = model.chosen(scores, scores)
    index = best(scores, 8, sparse.PAST)[0, -1]
    assert set(index.tolist()) == set(seen[0, -1].nonzero()[:, 0].tolist())
