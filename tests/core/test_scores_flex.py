"""FlexAttention's scores are the written-out ones, and it is used where it is worth while.

Here torch computes it plainly and without gradients; the kernel that is compiled needs a GPU.
"""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from unchecked import as_readers_have_it, without_checks

with without_checks():
    from attnbook import scores as flex
    from attnbook.attention import Attention, Projection
    from attnbook.masks import (
        FunctionMask,
        Grid,
        PerRow,
        causal,
        chunked,
        document,
        local,
        padding,
        prefix,
    )
    from attnbook.models.llama import llama
    from attnbook.positions import Alibi, RelativeBias
    from attnbook.scores import Score

pytestmark = pytest.mark.usefixtures("as_readers_have_it")
__all__ = ["as_readers_have_it"]
kernel = flex.eager_flex
B, T, C, H, KV, D = 2, 7, 10, 4, 2, 16
IDS = torch.tensor([[0, 0, 0, 1, 1, 1, 2], [5, 5, 5, 5, 5, 3, 3]])
THERE = torch.tensor([[False, True, True, True, True, True, True], [True] * 7])
MASKS = {
    "none": None,
    "causal": causal,
    "window": causal & local(3),
    "documents": causal & document(IDS),
    "prefix and padding": (causal | prefix(2)) & padding(THERE),
    "padding among tokens": causal & padding(THERE & (torch.arange(T) != 3)),
    "table": torch.ones(T, T).bool().tril(1),
}
OPTIONS = {
    "plain": dict,
    "capped": lambda: {"cap": 0.7, "scale": 0.3},
    "alibi": lambda: {"relative": Alibi(H)},
    "sinks": lambda: {"sinks": H},
    "all": lambda: {"cap": 0.7, "relative": RelativeBias(H, 8, 5), "sinks": H},
}


@pytest.fixture
def calls(monkeypatch):
    """How often FlexAttention was asked."""
    calls = []
    monkeypatch.setattr(flex, "eager_flex", lambda *q, **n: calls.append(1) or kernel(*q, **n))
    return calls


def with_flex(model):
    for part in model.modules():
        if isinstance(part, Score):
            part.flex = True
    return model


@pytest.mark.slow
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_is_written_out(options, mask, calls):
    torch.manual_seed(0)
    project, to_out = Projection(C, H, KV, D), nn.Linear(H * D, C)
    layer = Attention(project, to_out, score=Score(**options()))
    for weight in layer.score.parameters():
        nn.init.normal_(weight)
    x = torch.randn(B, T, C)
    flexible = with_flex(copy.deepcopy(layer))
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


# what is asked for, and whether a GPU should compute it by FlexAttention
LONG = 130
TURNS = {
    "nothing forbidden": ({}, None, False),
    "plain causal": ({}, causal, False),
    "a window": ({}, causal & local(3), True),
    "a window of the layer": ({"pattern": local(3)}, causal, True),
    "a window that reaches everything": ({"pattern": local(LONG)}, causal, False),
    "documents": ({}, causal & document(torch.arange(LONG) // 50), True),
    "a table": ({}, torch.ones(LONG, LONG).bool().tril(1), False),
    "a table and causal": ({}, causal & torch.ones(LONG, LONG).bool().tril(1), False),
    "a cap": ({"score": Score(cap=2.0)}, causal, True),
    "sinks": ({"score": Score(sinks=H)}, causal, False),
    "sinks in a window": ({"score": Score(sinks=H)}, causal & local(3), True),
    "a bias": ({"score": Score(relative=Alibi(H))}, causal & local(3), False),
    "few queries": ({}, causal & local(3), False),
    "narrow heads": ({}, causal & local(3), False),
    "dropout": ({"dropout": 0.1}, causal & local(3), False),
}


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_on_a_gpu_patterns_go_to_flex_and_plain_causal_does_not(name, calls, monkeypatch):
    options, mask, expected = TURNS[name]
    width = 8 if name == "narrow heads" else D
    layer = Attention(Projection(C, H, KV, width), nn.Linear(H * width, C), **options)
    x = torch.randn(1, 20 if name == "few queries" else LONG, C)
    with torch.no_grad():
        before = layer(x, mask=mask)
        assert not calls  # there is no GPU here
        monkeypatch.setattr(flex, "on_gpu", lambda q: True)
        after = layer(x, mask=mask)
    assert bool(calls) is expected
    if not layer.dropout:
        assert_close(after, before, atol=1e-5, rtol=1e-4)


def test_one_step_makes_one_mask_of_blocks_for_all_layers(monkeypatch, calls):
    made, make = [], flex.block_mask
    monkeypatch.setattr(flex, "block_mask", lambda *q, **n: made.append(1) or make(*q, **n))
    monkeypatch.setattr(flex, "on_gpu", lambda q: True)
    model = llama(13, 64, 3, 4, 1, 20).eval()
    ids = (torch.arange(LONG) // 50)[None]
    with torch.no_grad():
        model(torch.randint(13, (1, LONG)), mask=document(ids))
    assert (len(made), len(calls)) == (1, 3)


def test_causal_with_keys_of_before_is_no_plain_causal(calls, monkeypatch):
    """A long prompt is read in pieces: the second has more keys than queries."""
    monkeypatch.setattr(flex, "on_gpu", lambda q: True)
    model = llama(13, 32, 1, 2, 1, 20).eval()
    tokens = torch.randint(13, (1, 2 * LONG))
    with torch.no_grad():
        caches = model.caches()
        read = [model(piece, caches) for piece in tokens.split(LONG, 1)]
        assert len(calls) == 1
        assert_close(torch.cat(read, 1), model(tokens), atol=1e-5, rtol=1e-4)


LARGE = 300  # neither this nor the number of keys is a multiple of a block
DOCUMENTS = torch.arange(LARGE) // 70
STARTS = torch.stack((torch.arange(LARGE) // 40, torch.arange(LARGE) // 129))
TOKENS = torch.stack((torch.arange(LARGE) >= 140, torch.arange(LARGE) < 260))
RULES = {
    "causal": causal,
    "window": causal & local(50),
    "a window both ways": local(20),
    "prefix": causal | prefix(140),
    "a prefix for each row": causal | prefix(torch.tensor([3, 200])),
    "documents": causal & document(DOCUMENTS),
    "documents of each row": causal & document(STARTS),
    "padding": causal & padding(TOKENS),
    "and, or": (causal & (local(30) | prefix(10))) | (document(STARTS) & padding(TOKENS)),
    "chunks": causal & chunked(128),
    "tokens counted": PerRow(causal & local(60), TOKENS.long().cumsum(-1)),
    "a function": FunctionMask(lambda i, j: (i + j) % 3 == 0),
    "nothing": FunctionMask(lambda i, j: (i < 0) & (j < 0)),
}


@pytest.mark.parametrize("strip", [1, 2**24])
@pytest.mark.parametrize("Tq", [1, 128, 260, LARGE])
@pytest.mark.parametrize("name", RULES)
def test_blocks_are_those_that_torch_makes_of_a_table(name, Tq, strip, monkeypatch):
    monkeypatch.setattr(flex, "STRIP", strip)
    rule, grid = RULES[name], Grid(2, Tq, LARGE, torch.device("cpu"))
    mod, rows = flex.mask_mod(rule), 2 if rule.by_row else 1
    expected = flex.create_block_mask(
        lambda b, h, i, j: mod(b, i + LARGE - Tq, j), rows, None, Tq, LARGE, device="cpu"
    )
    found = flex.block_mask(rule, grid)
    assert found.shape == expected.shape
    for part in ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices",
                 "q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices"):  # fmt: skip
        assert torch.equal(getattr(found, part), getattr(expected, part)), part


def test_a_mask_of_blocks_never_holds_a_table_of_all_pairs():
    seen = []

    def watched(i, j):
        allowed = (j <= i) & (i - j < 1000)
        seen.append(allowed.numel())
        return allowed

    T = 8192
    blocks = flex.block_mask(FunctionMask(watched), Grid(1, T, T, torch.device("cpu")))
    assert max(seen) == flex.STRIP and sum(seen) == T * T
    assert int(blocks.kv_num_blocks.sum() + blocks.full_kv_num_blocks.sum()) == 64 * 9 - 36
