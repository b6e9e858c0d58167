"""μP: a wide model's activations move as far as a narrow one's, at one rate."""

import math
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from attnbook.attention import Attention
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.train.mup import maximal_update
from attnbook.train.optimizers import groups
from attnbook.transformer import initialise, normal

NARROW, V = 16, 20


def fresh(width, heads=2):
    torch.manual_seed(3)
    made = llama(V, width, depth=1, heads=heads, hidden=2 * width)
    return initialise(made, partial(normal, std=0.5 / math.sqrt(width)), embedding_std=0.1)


def change_of_logits(width, mup):
    """How far five steps of Adam at one rate move the logits."""
    growth = width / NARROW
    model = maximal_update(fresh(width), growth) if mup else fresh(width)
    x = torch.randint(V, (16, 9), generator=torch.Generator().manual_seed(0))
    before = model(x[:, :-1]).detach()
    optimizer = torch.optim.Adam(groups(model, 0.01, growth=growth if mup else 1.0))
    for _ in range(5):
        optimizer.zero_grad()
        F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()).backward()
        optimizer.step()
    return (model(x[:, :-1]) - before).square().mean().sqrt().item()


def test_coordinate_check_logits_move_alike_at_every_width_and_without_mup_ever_more():
    standard, mup = ([change_of_logits(C, on) for C in (16, 64, 256)] for on in (False, True))
    assert standard[0] == pytest.approx(mup[0], rel=1e-5)
    assert mup[2] < mup[0] and mup[2] == pytest.approx(mup[1], rel=0.2)
    assert standard[1] > 1.5 * standard[0] and standard[2] > 1.5 * standard[1]


def test_start_and_scores_of_a_model_four_times_as_wide():
    plain, made = fresh(64), maximal_update(fresh(64), 4.0)
    assert torch.equal(made.lm_head.weight, plain.lm_head.weight / 2)
    others = [dict(model.named_parameters()) for model in (plain, made)]
    assert all(
        torch.equal(w, others[1][name]) for name, w in others[0].items() if "head" not in name
    )
    (attention,) = (part for part in made.modules() if isinstance(part, Attention))
    assert attention.score.scale == pytest.approx(math.sqrt(8) / 32)  # √D / D of width 16 times 1/D


def test_with_more_heads_in_place_of_wider_ones_scores_stay():
    made = maximal_update(fresh(64, heads=8), 4.0, D_growth=1.0)
    (attention,) = (part for part in made.modules() if isinstance(part, Attention))
    assert attention.score.scale == pytest.approx(1 / math.sqrt(8))


def test_at_growth_1_nothing_changes():
    x = torch.arange(6)[None]
    assert torch.equal(maximal_update(fresh(16), 1.0)(x), fresh(16)(x))


def test_a_tied_head_and_no_growth_are_refused():
    with pytest.raises(ValueError, match="untie it"):
        maximal_update(gpt2(V=11, T=7, width=12, depth=1, heads=3), 2.0)
    with pytest.raises(ValueError, match=r"growths are 0.0 and 0.0"):
        maximal_update(fresh(16), 0.0)
