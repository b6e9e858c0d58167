import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from attnbook.attention import MultiHeadAttention
from attnbook.block import (
    Block,
    CrossBlock,
    ParallelBlock,
    PostNorm,
    PreNorm,
    Residual,
    Stack,
)
from attnbook.cache import KVCache
from attnbook.feedforward import MLP, SwiGLU
from attnbook.masks import And, causal, causal_mask, length_mask, local
from attnbook.norms import LayerNorm, RMSNorm
from attnbook.positions import Rotary
from attnbook.transformer import Embed

B, Tq, Tk, C, H, HIDDEN = 2, 3, 5, 12, 3, 7
WAYS = pytest.mark.parametrize("way", [PostNorm, PreNorm])


def attention(**options):
    return MultiHeadAttention(C, H, **options)


def block(way, **options):
    return Block(way(attention(**options), LayerNorm(C)), way(MLP(C, HIDDEN), LayerNorm(C)))


def cross_block(way):
    parts = (attention(), attention(), MLP(C, HIDDEN))
    return CrossBlock(*(way(part, LayerNorm(C)) for part in parts))


def decoder_like(way):
    """A block of a modern decoder: fewer key heads, rotary positions, RMSNorm, SwiGLU."""
    layer = attention(kv_heads=1, rotate=Rotary(C // H), bias=False)
    return Block(way(layer, RMSNorm(C)), way(SwiGLU(C, HIDDEN), RMSNorm(C)))


def torchs(ours, way):
    """torch's layer with the weights of ours."""
    cross = isinstance(ours, CrossBlock)
    layer = nn.TransformerDecoderLayer if cross else nn.TransformerEncoderLayer
    theirs = layer(C, H, HIDDEN, dropout=0.0, batch_first=True, norm_first=way is PreNorm)
    for mine, other in zip(ours.parameters(), in_our_order(theirs), strict=True):
        mine.data.normal_(std=0.3)  # norms too: a gain of 1 would hide one that is missing
        other.data = mine.data.clone()
    return theirs


def in_our_order(theirs):
    """The parameters of torch's layer: each part, then its norm."""
    parts = [theirs.self_attn, theirs.norm1]
    if isinstance(theirs, nn.TransformerDecoderLayer):
        parts += [theirs.multihead_attn, theirs.norm2]
    last = theirs.norm3 if isinstance(theirs, nn.TransformerDecoderLayer) else theirs.norm2
    parts += [theirs.linear1, theirs.linear2, last]
    return [parameter for part in parts for parameter in part.parameters()]


def assert_same_gradients(ours, theirs, mine, others):
    weights = torch.randn_like(ours)
    for found, expected in zip(
        torch.autograd.grad((ours * weights).sum(), mine),
        torch.autograd.grad((theirs * weights).sum(), others),
        strict=True,
    ):
        assert_close(found, expected, atol=1e-5, rtol=1e-5)


@WAYS
@pytest.mark.parametrize("kind", ["all", "causal", "padding"])
def test_a_block_is_torchs_encoder_layer(way, kind):
    torch.manual_seed(0)
    ours = block(way)
    theirs = torchs(ours, way)
    x = torch.randn(B, Tk, C, requires_grad=True)
    there = length_mask(torch.tensor([3, Tk]), Tk)
    mask, named = {
        "all": (None, {}),
        "causal": (causal_mask(Tk), {"src_mask": ~causal_mask(Tk)}),
        "padding": (there[:, None], {"src_key_padding_mask": ~there}),
    }[kind]
    output, expected = ours(x, mask), theirs(x, **named)
    assert_close(output, expected)
    mine, others = [x, *ours.parameters()], [x, *in_our_order(theirs)]
    assert_same_gradients(output, expected, mine, others)


@WAYS
def test_a_cross_block_is_torchs_decoder_layer(way):
    torch.manual_seed(0)
    ours = cross_block(way)
    theirs = torchs(ours, way)
    x = torch.randn(B, Tq, C, requires_grad=True)
    memory = torch.randn(B, Tk, C, requires_grad=True)
    there = length_mask(torch.tensor([3, Tk]), Tk)
    output = ours(x, memory, causal_mask(Tq), there[:, None])
    expected = theirs(x, memory, tgt_mask=~causal_mask(Tq), memory_key_padding_mask=~there)
    assert_close(output, expected)
    mine = [x, memory, *ours.parameters()]
    assert_same_gradients(output, expected, mine, [x, memory, *in_our_order(theirs)])


def test_a_stack_is_its_blocks_one_after_the_other_and_a_norm():
    blocks, norm = [cross_block(PreNorm) for _ in range(3)], LayerNorm(C)
    x, memory, mask = torch.randn(B, Tq, C), torch.randn(B, Tk, C), causal_mask(Tq)
    expected = x
    for part in blocks:
        expected = part(expected, memory, mask)
    assert_close(Stack(blocks)(x, memory, mask=mask), expected)
    assert_close(Stack(blocks, norm)(x, memory, mask=mask), norm(expected))


def test_where_the_norm_stands():
    part, norm, x = nn.Linear(C, C), LayerNorm(C), torch.randn(B, Tq, C)
    assert_close(PostNorm(part, norm)(x), norm(x + part(x)))
    assert_close(PreNorm(part, norm)(x), x + part(norm(x)))


def test_with_a_silent_part_pre_norm_is_the_identity_and_post_norm_is_not():
    silent, x = nn.Linear(C, C), 3 * torch.randn(B, Tq, C)
    nn.init.zeros_(silent.weight), nn.init.zeros_(silent.bias)
    assert_close(PreNorm(silent, LayerNorm(C))(x), x)
    assert_close(PostNorm(silent, LayerNorm(C))(x), LayerNorm(C)(x))


@WAYS
def test_dropout_falls_on_what_the_part_found_and_only_in_training(way):
    torch.manual_seed(0)
    wrapped, x = way(nn.Linear(C, C), nn.Identity(), dropout=0.4), torch.randn(500, Tq, C)
    found = (wrapped(x) - x) / wrapped.sublayer(x)
    zero = found.abs() < 1e-3
    assert zero.float().mean() == pytest.approx(0.4, abs=0.02)
    assert_close(found[~zero], torch.full_like(found[~zero], 1 / 0.6), rtol=1e-2, atol=0)
    assert_close(wrapped.eval()(x), x + wrapped.sublayer(x))


@pytest.mark.parametrize("make", [block, decoder_like])
@WAYS
def test_the_future_cannot_leak_through_a_stack(make, way):
    torch.manual_seed(0)
    stack, x = Stack([make(way), make(way)], LayerNorm(C)), torch.randn(1, Tk, C)
    jacobian = torch.autograd.functional.jacobian(lambda x: stack(x, mask=causal_mask(Tk)), x)
    influence = jacobian[0, :, :, 0].abs().amax((1, 3))
    assert ((influence > 0) == causal_mask(Tk)).all()


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.sampled_from([block, decoder_like]),
    st.sampled_from([PostNorm, PreNorm]),
)
def test_a_stack_in_pieces_with_caches_is_the_stack_at_once(sizes, make, way):
    stack = Stack([make(way), make(way)], LayerNorm(C)).double()
    x = torch.randn(B, sum(sizes), C, dtype=torch.float64)
    caches, length, outputs = [KVCache(), KVCache()], 0, []
    with torch.no_grad():
        for piece in x.split(sizes, 1):
            length += piece.shape[1]
            outputs.append(stack(piece, mask=causal_mask(piece.shape[1], length), caches=caches))
        assert_close(torch.cat(outputs, 1), stack(x, mask=causal_mask(length)))
        assert [cache.length for cache in caches] == [length, length]


@WAYS
def test_without_positions_a_block_moves_with_its_tokens(way):
    part, x = block(way).double(), torch.randn(B, Tk, C, dtype=torch.float64)
    order = torch.tensor([3, 0, 4, 1, 2])
    assert_close(part(x[:, order]), part(x)[:, order])


@pytest.mark.parametrize("make", [block, decoder_like])
@WAYS
def test_autocast_is_close(make, way):
    torch.manual_seed(0)
    stack, x = Stack([make(way)], RMSNorm(C)), torch.randn(B, Tk, C)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = stack(x, mask=causal_mask(Tk))
    assert_close(output.float(), stack(x, mask=causal_mask(Tk)), atol=0.1, rtol=0)
    output.float().square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in stack.parameters())


@WAYS
def test_a_block_learns_to_say_what_stood_three_places_before(way):
    """Chance is ln 5 = 1.61; without attention nothing better is possible."""
    torch.manual_seed(0)
    width, V, T = 16, 5, 8
    part = Block(
        way(MultiHeadAttention(width, 2), LayerNorm(width)), way(MLP(width, 32), LayerNorm(width))
    )
    where, embed, lm_head = torch.randn(T, width), nn.Embedding(V, width), nn.Linear(width, V)
    optimizer = torch.optim.Adam(nn.ModuleList((part, embed, lm_head)).parameters(), 1e-2)
    for _ in range(100):
        tokens = torch.randint(V, (32, T))
        logits = lm_head(part(embed(tokens) + where, mask=causal_mask(T)))
        loss = F.cross_entropy(logits[:, 3:].flatten(0, 1), tokens[:, :-3].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.5


@pytest.mark.parametrize("caches", [[], [KVCache()]])
def test_each_block_has_its_own_cache(caches):
    stack = Stack([block(PreNorm), block(PreNorm)])
    with pytest.raises(ValueError, match=f"2 blocks need a cache each; got {len(caches)}"):
        stack(torch.zeros(B, 1, C), caches=caches)


# -- the norm elsewhere, and side by side ------------------------------------------------------


def lively(part):
    for weight in part.parameters():
        nn.init.normal_(weight, std=0.5)
    return part.double()


def test_before_after_or_on_both_sides():
    x = torch.randn(B, Tq, C, dtype=torch.float64)
    part, before, after = lively(MLP(C, HIDDEN)), lively(RMSNorm(C)), lively(LayerNorm(C))
    assert_close(Residual(part)(x), x + part(x))
    assert_close(Residual(part, before)(x), PreNorm(part, before)(x))
    assert_close(Residual(part, after=after)(x), x + after(part(x)))
    assert_close(Residual(part, before, after)(x), x + after(part(before(x))))


def test_residuals_hand_masks_and_caches_on():
    layer = Residual(lively(attention()), after=lively(RMSNorm(C)))
    x = torch.randn(B, Tk, C, dtype=torch.float64)
    block, cache = Block(layer, nn.Identity()), KVCache()
    with torch.no_grad():
        pieces = [block(x[:, t : t + 1], cache=cache) for t in range(Tk)]
    assert_close(torch.cat(pieces, 1), block(x, mask=causal))


@pytest.mark.parametrize("norms", [1, 2])
def test_side_by_side_both_see_what_came_in(norms):
    parts = lively(attention()), lively(MLP(C, HIDDEN))
    first, second = lively(LayerNorm(C)), lively(LayerNorm(C)) if norms == 2 else None
    side_by_side = ParallelBlock(*parts, first, second)
    x = torch.randn(B, Tk, C, dtype=torch.float64)
    seen = first(x), (second or first)(x)
    expected = x + parts[0](seen[0], mask=causal) + parts[1](seen[1])
    assert_close(side_by_side(x, mask=causal), expected)
    where = torch.arange(4, 4 + Tk)
    turned = ParallelBlock(lively(attention(rotate=Rotary(C // H))), parts[1], first)
    assert_close(turned(x, mask=causal, positions=where), turned(x, mask=causal))  # only distances
    assert sum(p.numel() for p in side_by_side.parameters()) == sum(
        p.numel() for part in (*parts, first, second or nn.Identity()) for p in part.parameters()
    )


def test_a_part_that_is_empty_is_not_replaced():
    """An empty nn.Sequential counts as false."""
    assert isinstance(Stack([], nn.Sequential()).norm, nn.Sequential)
    assert isinstance(MLP(C, HIDDEN, nn.Sequential()).activation, nn.Sequential)
    linear = MLP(C, HIDDEN, nn.Sequential(), bias=False)
    x = torch.randn(B, C)
    assert_close(linear(x), x @ linear.up.weight.T @ linear.down.weight.T)
    assert isinstance(Embed(3, C, norm=nn.Sequential()).norm, nn.Sequential)


def test_a_dense_mask_is_made_once_per_step_and_pattern(monkeypatch):
    made, table = [], And.to_dense
    monkeypatch.setattr(And, "to_dense", lambda self, at: made.append(self) or table(self, at))
    layers = [attention() for _ in range(3)]
    stack = Stack([Block(PreNorm(layer, LayerNorm(C)), nn.Identity()) for layer in layers])
    x = torch.randn(B, Tk, C)
    stack(x, mask=causal & local(2))
    assert len(made) == 1
    stack(x, mask=causal & local(2))
    assert len(made) == 2
    patterns = (local(2), local(3), local(2))
    for layer, pattern in zip(layers, patterns, strict=True):
        layer.pattern = pattern
    stack(x, mask=causal)
    assert len(made) == 4
