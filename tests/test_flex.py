"""FlexAttention's scores are the written-out ones. Here torch computes them plainly and without
gradients; the kernel that is compiled needs a GPU."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from unchecked import as_readers_have_it, without_checks

with without_checks():
    from attnbook import flex
    from attnbook.attention import Attention
    from attnbook.flex import FlexScore, with_flex
    from attnbook.masks import causal, document, local, padding, prefix
    from attnbook.positions import Alibi, RelativeBias
    from attnbook.projection import Projection
    from attnbook.recipes import llama
    from attnbook.score import Score

pytestmark = pytest.mark.usefixtures("as_readers_have_it")
__all__ = ["as_readers_have_it"]
kernel = flex.flex_attention
B, T, C, H, KV, D = 2, 7, 10, 4, 2, 16
IDS = torch.tensor([[0, 0, 0, 1, 1, 1, 2], [5, 5, 5, 5, 5, 3, 3]])
THERE = torch.tensor([[False, True, True, True, True, True, True], [True] * 7])
MASKS = {
    "none": None,
    "causal": causal,
    "window": causal & local(3),
    "documents": causal & document(IDS),
    "prefix and padding": (causal | prefix(2)) & padding(THERE),
    "table": torch.ones(T, T).bool().tril(1),
}
OPTIONS = {
    "plain": dict,
    "capped": lambda: {"cap": 0.7, "scale": 0.3},
    "alibi": lambda: {"relative": Alibi(H)},
    "sinks": lambda: {"sinks": H},
    "all": lambda: {"cap": 0.7, "relative": RelativeBias(H, 8, 5), "sinks": H},
}


@pytest.fixture(autouse=True)
def few_queries_will_do(monkeypatch):
    monkeypatch.setattr(FlexScore, "least", 2)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_is_written_out(options, mask, monkeypatch):
    torch.manual_seed(0)
    project, to_out = Projection(C, H, KV, D), nn.Linear(H * D, C)
    layer = Attention(project, to_out, score=Score(**options()))
    for weight in layer.score.parameters():
        nn.init.normal_(weight)
    x = torch.randn(B, T, C)
    flexible = with_flex(copy.deepcopy(layer))
    assert type(flexible.score) is FlexScore
    calls = []
    monkeypatch.setattr(flex, "plain", lambda *q, **n: calls.append(1) or kernel(*q, **n))
    with torch.no_grad():
        assert_close(flexible(x, mask=mask), layer(x, mask=mask), atol=1e-5, rtol=1e-4)
    assert len(calls) == (0 if isinstance(mask, torch.Tensor) else 1)
    assert_close(flexible(x, mask=mask), layer(x, mask=mask), atol=1e-5, rtol=1e-4)
    assert len(calls) < 2  # a gradient may be wanted, which there is on a GPU alone


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_a_model_writes_the_same_with_it():
    torch.manual_seed(0)
    model = llama(13, 32, 2, 2, 1, 20).eval()
    tokens = torch.randint(13, (2, 9))
    flexible = with_flex(copy.deepcopy(model))
    with torch.no_grad():
        assert_close(flexible(tokens), model(tokens), atol=1e-5, rtol=1e-4)
        caches = flexible.caches()
        read = [flexible(piece, caches) for piece in tokens.split((4, 3, 1, 1), 1)]
        assert_close(torch.cat(read, 1), model(tokens), atol=1e-5, rtol=1e-4)
