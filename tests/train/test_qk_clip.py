"""Clipped heads have their largest score at τ, the others are left alone."""

import pytest
import torch
from torch import nn

from attnbook.attention import Attention, MultiHeadAttention, Projection, SplitProjection
from attnbook.masks import causal
from attnbook.models.llama import llama
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.scores import Score
from attnbook.train.qk_clip import largest_scores, qk_clip

WIDTH = 12


def x(seed=0):
    return 3 * torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(seed))


def split():
    maps = [nn.Linear(WIDTH, n) for n in (16, 8, 8)]
    return Attention(SplitProjection(4, *maps), nn.Linear(16, WIDTH), Rotary(4))


LAYERS = {
    "full": lambda: MultiHeadAttention(WIDTH, 3, rotate=Rotary(4)),
    "grouped": lambda: MultiHeadAttention(WIDTH, 6, 2, rotate=Rotary(2), bias=False),
    "split": split,
}


def written_out(layer):
    """The largest score of each head among the allowed, from the projections alone."""
    q, k, _ = layer.project(x())
    q, k = layer.rotate(q, 0), layer.rotate(k, 0)
    k = k.repeat_interleave(layer.heads // layer.kv_heads, 1)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.masked_fill(~torch.ones(7, 7).tril().bool(), -torch.inf).amax((0, 2, 3))


@pytest.fixture(params=LAYERS)
def layer(request):
    torch.manual_seed(1)
    made = LAYERS[request.param]()
    for weight in made.project.parameters():
        nn.init.normal_(weight, std=0.5)
    return made


def test_the_largest_allowed_scores_are_found(layer):
    with largest_scores(layer) as found:
        expected = layer(x(), mask=causal)
    assert torch.allclose(found[""], written_out(layer), atol=1e-4)
    assert layer.on_weights is None and torch.allclose(layer(x(), mask=causal), expected, atol=1e-4)


def test_over_several_calls_the_largest_counts():
    torch.manual_seed(1)
    layer = LAYERS["full"]()
    with largest_scores(layer) as both:
        layer(x(0)), layer(x(1))
    with largest_scores(layer) as one:
        layer(x(0))
    with largest_scores(layer) as two:
        layer(x(1))
    assert torch.equal(both[""], torch.maximum(one[""], two[""]))


def test_every_head_ends_at_the_limit_or_where_it_was(layer):
    before = written_out(layer).detach()
    tau = float(before.median())
    values = layer.project(x())[2]
    clipped = qk_clip(layer, {"": before}, tau)
    assert clipped == (before > tau).sum() > 0
    assert torch.allclose(written_out(layer), before.clamp(max=tau), rtol=1e-4)
    assert torch.equal(layer.project(x())[2], values)


def test_a_whole_model_by_the_names_of_its_layers():
    torch.manual_seed(0)
    made = llama(V=11, width=WIDTH, depth=2, heads=3, hidden=20)
    nn.init.normal_(made.body.blocks[1].attention.sublayer.project.to_qkv.weight, std=2)
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    with largest_scores(made) as found:
        made(tokens)
    assert sorted(found) == [f"body.blocks.{i}.attention.sublayer" for i in (0, 1)]
    assert qk_clip(made, found, tau=5.0) > 0
    with largest_scores(made) as after:
        made(tokens)
    assert after["body.blocks.1.attention.sublayer"].max() < 5.001
    assert qk_clip(made, after, tau=5.01) == 0


def test_where_it_would_do_nothing_or_something_else_it_is_refused():
    norms = {"q_norm": RMSNorm(4), "k_norm": RMSNorm(4)}
    normed = Attention(Projection(WIDTH, 3, **norms), nn.Linear(WIDTH, WIDTH))
    capped = Attention(Projection(WIDTH, 3), nn.Linear(WIDTH, WIDTH), score=Score(cap=5.0))
    for layer, message in (
        (normed, "normalises"),
        (capped, "caps"),
        (nn.Identity(), "no projection"),
    ):
        with pytest.raises(ValueError, match=message):
            qk_clip(layer, {"": torch.tensor([200.0] * 3)})
    with pytest.raises(ValueError, match="tau is 0"):
        qk_clip(normed, {}, 0.0)
