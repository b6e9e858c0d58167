"""Muon goes as far in every direction; a pair of optimizers is one; each weight is of one kind."""

import contextlib
import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnbook.models.bert import bert
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.models.vit import vit
from attnbook.recurrence.gated_delta import GatedDelta
from attnbook.train.loop import train, trapezoid
from attnbook.train.optimizers import Muon, Together, groups, kinds, muon_and_adamw, orthogonalise


def gradients(weights, seed):
    generator = torch.Generator().manual_seed(seed)
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=generator)


def model(**sizes):
    torch.manual_seed(1)
    return llama(**({"V": 11, "width": 12, "depth": 2, "heads": 3, "hidden": 20} | sizes))


@pytest.mark.parametrize("shape", [(7, 13), (13, 7), (2, 5, 11)])
def test_orthogonalised_singular_values_are_near_one(shape):
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalise(torch.randn(shape)))
    assert values.min() > 0.65 and values.max() < 1.25


def test_orthogonalising_keeps_the_directions():
    torch.manual_seed(0)
    U, S, Vh = torch.linalg.svd(torch.randn(6, 9), full_matrices=False)
    after = U.T @ orthogonalise(U @ S.diag() @ Vh) @ Vh.T
    assert torch.allclose(after, after.diagonal().diag(), atol=1e-4)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch 2.9 is the first with Muon")
@pytest.mark.parametrize(("precision", "tolerance"), [(None, 1e-5), (torch.bfloat16, 3e-2)])
def test_muon_is_torchs(precision, tolerance, monkeypatch):
    if precision is None:  # torch's computes in bfloat16: make it do the same in float32
        monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    torch.manual_seed(2)
    start = [torch.randn(5, 9), torch.randn(9, 5), torch.randn(9, 5)]
    ours, theirs = ([nn.Parameter(w.clone()) for w in start] for _ in range(2))
    settings = {"lr": 0.03, "weight_decay": 0.1, "momentum": 0.9}
    one = Muon(ours, precision=precision, **settings)
    two = torch.optim.Muon(theirs, adjust_lr_fn="match_rms_adamw", **settings)
    for step in range(4):
        gradients(ours, step), gradients(theirs, step)
        one.step(), two.step()
    for mine, other, before in zip(ours, theirs, start, strict=True):
        assert (mine - other).norm() < tolerance * (other - before).norm()


def test_a_fused_matrix_moves_as_its_parts():
    torch.manual_seed(2)
    rows, start = (6, 2, 2), torch.randn(10, 7)
    fused = nn.Parameter(start.clone())
    parts = [nn.Parameter(part.clone()) for part in start.split(rows)]
    gradients([fused], 4)
    for part, grad in zip(parts, fused.grad.split(rows), strict=True):
        part.grad = grad.clone()
    Muon([{"params": [fused], "rows": rows}]).step()
    Muon(parts).step()
    assert torch.allclose(fused, torch.cat(parts), atol=1e-6)
    whole = nn.Parameter(start.clone())
    whole.grad = fused.grad
    Muon([whole]).step()
    assert not torch.allclose(whole, fused, atol=1e-3)


def test_a_model_gives_muon_its_hidden_matrices_cut_where_they_are_fused():
    torch.manual_seed(1)
    made = llama(V=11, width=12, depth=2, heads=3, kv_heads=1, hidden=20)
    optimizer = muon_and_adamw(made, lr=0.02, rest=0.003)
    rows = {group["rows"]: len(group["params"]) for group in optimizer.param_groups[:-1]}
    assert rows == {(12, 4, 4): 2, None: 2 * 4}
    rest = optimizer.param_groups[-1]
    assert rest["lr"] == 0.003 and made.lm_head.weight in set(rest["params"])
    total = sum(len(group["params"]) for group in optimizer.param_groups)
    assert total == len(list(made.parameters()))


def test_a_recurrent_layers_fused_map_is_cut_too():
    optimizer = muon_and_adamw(GatedDelta(12, (2, 5), (4, 3)))
    assert {group.get("rows") for group in optimizer.param_groups} == {(10, 10, 12), None}


def test_a_pair_steps_as_both():
    torch.manual_seed(2)
    one, two = ([nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(6))] for _ in range(2))
    with torch.no_grad():
        for a, b in zip(one, two, strict=True):
            b.copy_(a)
    pair = Together(Muon(one[:1], lr=0.1), torch.optim.AdamW(one[1:], lr=0.01))
    alone = Muon(two[:1], lr=0.1), torch.optim.AdamW(two[1:], lr=0.01)
    for step in range(3):
        gradients(one, step), gradients(two, step)
        pair.step()
        for optimizer in alone:
            optimizer.step()
        pair.param_groups[0]["lr"] = alone[0].param_groups[0]["lr"] = 0.05
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("copied", ["state_dict", "pickle"])
def test_a_pair_goes_on_from_what_was_stored(copied):
    here = model()
    optimizer = muon_and_adamw(here)
    for step in range(2):
        gradients(here.parameters(), step)
        optimizer.step()
    if copied == "pickle":
        there, other = pickle.loads(pickle.dumps((here, optimizer)))
    else:
        there = copy.deepcopy(here)
        other = muon_and_adamw(there)
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for step in range(2, 4):
        for weights, each in ((here, optimizer), (there, other)):
            gradients(weights.parameters(), step)
            each.step()
    assert all(map(torch.equal, here.parameters(), there.parameters()))


def batches(generator):
    return torch.randint(11, (4, 9), generator=generator)


def loss(made, tokens):
    logits = made(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def test_training_resumes_as_if_never_stopped(tmp_path):
    def run(path, steps):
        made = model()
        optimizer = muon_and_adamw(made)
        options = {"steps": 8, "every": 2, "checkpoint": path, "progress": False}
        with contextlib.suppress(RuntimeError):
            train(made, stopping(steps), loss, optimizer=optimizer, **options)
        return made

    def stopping(steps):
        drawn = []

        def sampler(generator):
            drawn.append(1)
            if len(drawn) > steps:
                raise RuntimeError("stopped")
            return batches(generator)

        return sampler

    whole = run(tmp_path / "whole", 8)
    run(tmp_path / "parts", 5)
    resumed = run(tmp_path / "parts", 4)
    assert all(map(torch.equal, whole.parameters(), resumed.parameters()))


def test_muon_also_learns_what_has_small_gradients():
    """Rebuild a matrix seen through one that weakens directions to 1/100, each at its best rate."""
    torch.manual_seed(0)
    U, _ = torch.linalg.qr(torch.randn(16, 16))
    weakened, target = U * torch.logspace(0, -2, 16) @ U.T, torch.randn(16, 16)

    def distance(optimizer, lr, steps=60):
        weight = nn.Parameter(torch.zeros(16, 16))
        optimizer, schedule = optimizer([weight], lr=lr), trapezoid(steps, decay=steps - 1)
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = lr * schedule(step)
            optimizer.zero_grad()
            ((weight - target) @ weakened).square().mean().backward()
            optimizer.step()
        return (weight - target).square().mean().item()

    rates = (0.1, 0.3, 1.0)
    adam = min(distance(torch.optim.Adam, lr) for lr in rates)
    assert min(distance(Muon, lr) for lr in rates) < adam / 2


def test_every_weight_is_of_one_kind():
    found = kinds(model())
    assert {kind: len(weights) for kind, weights in found.items()} == {
        "matrices": 2 * 5,
        "embeddings": 1,
        "gains": 2 * 2 + 1,
        "head": 1,
    }


def test_a_tied_head_is_an_embedding_and_a_bert_head_ends_with_one():
    gpt = gpt2(V=11, T=7, width=12, depth=1, heads=3)
    found = kinds(gpt)
    assert not found["head"] and gpt.lm_head.weight in set(found["embeddings"])
    assert len(found["embeddings"]) == 2  # and the positions
    made = bert(V=11, T=7, width=12, depth=1, heads=3)
    assert made.lm_head[0].weight in set(kinds(made)["matrices"])


def test_the_first_map_of_pictures_is_an_input():
    made = vit((8, 8), 4, 3, width=12, depth=1, heads=3)
    found = kinds(made)
    assert made.patches.to_width.weight in set(found["embeddings"])
    assert made.classifier.weight in set(found["head"])


def test_what_does_not_train_is_in_no_group():
    made = model()
    made.embed.requires_grad_(False)
    assert not kinds(made)["embeddings"]


def test_only_matrices_decay_and_slow_down_with_the_width():
    found = {group["name"]: group for group in groups(model(), 0.01, weight_decay=0.1, growth=4.0)}
    decays = {kind: group["weight_decay"] for kind, group in found.items()}
    assert decays == {"matrices": 0.1, "embeddings": 0, "gains": 0, "head": 0.1}
    rates = {kind: group["lr"] for kind, group in found.items()}
    assert rates == {"matrices": 0.0025, "embeddings": 0.01, "gains": 0.01, "head": 0.0025}
    torch.optim.AdamW(groups(model(), 0.01))


def test_a_vector_and_wrong_rows_are_refused():
    with pytest.raises(ValueError, match=r"matrices; got a tensor of shape \(5,\)"):
        Muon([nn.Parameter(torch.ones(5))])
    with pytest.raises(ValueError, match=r"\(2, 2\) rows do not make up 5"):
        Muon([{"params": [nn.Parameter(torch.ones(5, 3))], "rows": (2, 2)}])
    with pytest.raises(ValueError, match="at least 1 optimizer"):
        Together()
    with pytest.raises(ValueError, match="no hidden matrix"):
        muon_and_adamw(nn.Embedding(3, 5))
    with pytest.raises(ValueError, match="growth is 0"):
        groups(model(), 0.01, growth=0.0)
