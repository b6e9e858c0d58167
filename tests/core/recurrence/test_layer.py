"""What recurrent layers share: a causal convolution that goes on, a state, and masks they heed."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnbook.attention import MultiHeadAttention
from attnbook.cache import KVCache
from attnbook.generate.sampling import generate
from attnbook.masks import causal, local, padding
from attnbook.models.llama import llama
from attnbook.recurrence.gated_delta import GatedDelta, decay_per_head
from attnbook.recurrence.layer import (
    ShortConvolution,
    StateCache,
    hide_padding,
    softplus_inverse,
    unit,
    wide,
)
from attnbook.recurrence.min_gru import MinGRU


def x(T=7):
    return torch.randn(2, T, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("bias", [True, False])
def test_the_convolution_is_torchs_made_causal(bias):
    torch.manual_seed(1)
    theirs = nn.Conv1d(5, 5, 3, groups=5, padding=2, bias=bias)
    ours = ShortConvolution(5, 3, bias)
    ours.weight.data = theirs.weight.data[:, 0]
    if bias:
        ours.bias.data = theirs.bias.data
    given = x().requires_grad_()
    one, two = ours(given), theirs(given.mT)[..., :7].mT
    assert torch.allclose(one, two, atol=1e-6)
    weights = ours.weight, theirs.weight
    slopes = [
        torch.autograd.grad(y.square().sum(), w) for y, w in zip((one, two), weights, strict=True)
    ]
    assert torch.allclose(slopes[0][0], slopes[1][0][:, 0], atol=1e-4)


@pytest.mark.parametrize("pieces", [[1] * 7, [2, 5], [6, 1]])
@pytest.mark.parametrize("kernel", [1, 2, 4])
def test_in_pieces_it_is_the_same(pieces, kernel):
    convolve, cache = ShortConvolution(5, kernel), StateCache()
    found = [convolve(piece, cache) for piece in x().split(pieces, 1)]
    assert torch.allclose(torch.cat(found, 1), convolve(x()), atol=1e-6)
    assert cache.recent.shape[-1] == kernel - 1


def test_padding_is_hidden_and_the_past_is_not():
    table, there = torch.ones(7, 7, dtype=torch.bool).tril(), torch.rand(2, 9) > 0.5
    for mask in (None, table, causal, causal & causal):
        assert torch.equal(hide_padding(x(), mask), x())
    for mask in (padding(there), causal & padding(there)):  # of 9 positions the last 7 are new
        assert torch.equal(hide_padding(x(), mask), x() * there[:, 2:, None])
    for mask in (local(3) & causal, torch.ones(2, 1, 7, dtype=torch.bool)):
        with pytest.raises(ValueError, match="its mask is causal, and may hide padding"):
            hide_padding(x(), mask)


KINDS = {
    "delta": lambda: GatedDelta(12, (2, 5), decay=decay_per_head(12, 2)),
    "min_gru": lambda: MinGRU(12, 7),
}


@pytest.fixture(params=KINDS)
def model(request):
    """A language model with a recurrent layer in its first block, attention in its second."""
    torch.manual_seed(2)
    made = llama(V=11, width=12, depth=2, heads=3, hidden=20)
    made.body.blocks[0].attention.sublayer = KINDS[request.param]()
    return made


def test_a_hybrid_writes_the_same_with_its_caches(model):
    start = torch.tensor([[3, 1, 4], [1, 5, 9]])
    kinds = [type(cache) for cache in model.caches()]
    assert kinds == [StateCache, KVCache]
    assert torch.equal(generate(model, start, 6), generate(model, start, 6, cached=False))


def test_padding_on_the_left_changes_nothing(model):
    tokens, there = torch.tensor([[0, 0, 3, 1, 4]]), torch.tensor([[0, 0, 1, 1, 1]]).bool()
    expected = model(tokens[:, 2:])
    assert torch.allclose(model(tokens, mask=there)[:, 2:], expected, atol=1e-5)


def test_attention_refuses_a_state():
    with pytest.raises(ValueError, match="give it to the layer that made it"):
        MultiHeadAttention(12, 3)(torch.randn(2, 4, 12), cache=StateCache())


def test_a_unit_vector_has_length_one_and_no_direction_stays_none():
    assert torch.allclose(unit(x()), F.normalize(x(), dim=-1), atol=1e-5)
    assert not unit(torch.zeros(3)).any()


def test_numbers_are_at_least_32_bits_wide():
    kinds = [torch.bfloat16, torch.float16, torch.float32, torch.float64]
    assert [wide(x().to(kind)).dtype for kind in kinds] == [torch.float32] * 3 + [torch.float64]


def test_softplus_is_undone():
    steps = torch.tensor([0.001, 0.1, 3.0])
    assert torch.allclose(F.softplus(softplus_inverse(steps)), steps)
