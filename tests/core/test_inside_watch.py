import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, CrossBlock, PreNorm, Stack
from attnbook.experts import MixtureOfExperts
from attnbook.feedforward import MLP
from attnbook.inside.watch import watch, without_heads
from attnbook.masks import causal_mask
from attnbook.norms import LayerNorm

B, Tq, Tk, C, H = 2, 3, 5, 12, 3


def pre(part):
    return PreNorm(part, LayerNorm(C))


def attention(**options):
    return MultiHeadAttention(C, H, **options)


def decoder(depth=2):
    torch.manual_seed(0)
    return Stack(
        [CrossBlock(pre(attention()), pre(attention()), pre(MLP(C, 7))) for _ in range(depth)]
    )


def test_every_attention_is_seen_under_its_name():
    model, x, memory = decoder(), torch.randn(B, Tq, C), torch.randn(B, Tk, C)
    with watch(model) as seen:
        model(x, memory, mask=causal_mask(Tq))
    assert set(seen) == {
        f"blocks.{i}.{which}.sublayer" for i in (0, 1) for which in ("attention", "cross_attention")
    }
    for name, weights in seen.items():
        assert weights.shape == (B, H, Tq, Tk if "cross" in name else Tq)
        assert_close(weights.sum(-1), torch.ones(B, H, Tq))
        assert "cross" in name or (weights[..., ~causal_mask(Tq)] == 0).all()


def test_watching_changes_no_output_and_a_later_call_replaces_an_earlier():
    model, x, memory = decoder(), torch.randn(B, Tq, C), torch.randn(B, Tk, C)
    before = model(x, memory)
    with watch(model) as seen:
        assert_close(model(x, memory), before)
        model(x, memory[:, :2])
    assert seen["blocks.0.cross_attention.sublayer"].shape == (B, H, Tq, 2)


def test_seen_weights_can_be_differentiated():
    layer, x = attention(), torch.randn(B, Tq, C, requires_grad=True)
    with watch(layer) as seen:
        layer(x)
    assert torch.autograd.grad(seen[""][0, 0, 0, 0], x)[0].abs().max() > 0


def test_after_watching_nothing_is_kept_even_after_an_error():
    model, x = decoder(), torch.randn(B, Tq, C)
    with watch(model) as seen:
        model(x, x)
    seen.clear()
    model(x, x)
    with pytest.raises(KeyError), watch(model):
        raise KeyError
    assert not seen
    assert all(part.on_weights is None for part in model.modules() if hasattr(part, "see"))


def test_one_may_watch_a_part_of_what_another_watches():
    model, x = decoder(), torch.randn(B, Tq, C)
    with watch(model) as outer:
        with watch(model.blocks[0]) as inner:
            model(x, x)
        assert set(inner) == {"attention.sublayer", "cross_attention.sublayer"}
        model(x, x)
    assert len(outer) == 4


def test_without_all_heads_only_the_bias_is_left():
    layer, x = attention(), torch.randn(B, Tq, C)
    with without_heads(layer, range(H)):
        assert_close(layer(x), layer.to_out.bias.expand(B, Tq, C))


@pytest.mark.parametrize("options", [{}, {"kv_heads": 1}, {"bias": False}])
def test_a_head_is_off_if_its_columns_in_to_out_are_zeros(options):
    layer, x = attention(**options), torch.randn(B, Tq, C)
    with without_heads(layer, [0, 2]):
        off = layer(x)
        with watch(layer) as seen:
            assert_close(layer(x), off)
    assert_close(seen[""].sum(-1), torch.ones(B, H, Tq))  # it looks, but nobody hears
    with torch.no_grad():
        layer.to_out.weight.view(C, H, -1)[:, [0, 2]] = 0
    assert_close(layer(x), off)


def test_a_head_that_is_off_sends_no_gradient():
    layer, x = attention(), torch.randn(B, Tq, C)
    with without_heads(layer, [1]):
        layer(x).square().sum().backward()
    by_head = layer.to_qkv.weight.grad.view(3, H, -1).abs().amax(-1)
    assert (by_head[:, 1] == 0).all() and (by_head[:, [0, 2]] > 0).all()


def test_heads_are_on_again_afterwards_even_after_an_error():
    layer, x = attention(), torch.randn(B, Tq, C)
    before = layer(x)
    with without_heads(layer, [0]), without_heads(layer, [1, 2]):
        assert_close(layer(x), layer.to_out.bias.expand(B, Tq, C))
    with pytest.raises(KeyError), without_heads(layer, [0]):
        raise KeyError
    assert_close(layer(x), before)
    with without_heads(layer, []):
        assert_close(layer(x), before)


def test_other_layers_that_show_something_are_watched_by_their_kind():
    model = Stack([Block(pre(attention()), pre(MixtureOfExperts([MLP(C, 7), MLP(C, 7)], C)))])
    with watch(model, MixtureOfExperts) as chances, watch(model) as weights:
        model(torch.randn(B, Tq, C))
    assert set(chances) == {"blocks.0.feedforward.sublayer"}
    assert set(weights) == {"blocks.0.attention.sublayer"}
    assert_close(chances["blocks.0.feedforward.sublayer"].sum(-1), torch.ones(B, Tq))
    with pytest.raises(ValueError, match="no MixtureOfExperts in this Linear"):
        watch(nn.Linear(2, 3), MixtureOfExperts).__enter__()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"heads \[3, -1\] do not exist: .* heads 0 to 2"):
        without_heads(attention(), [0, 3, -1]).__enter__()
    for model in (nn.Linear(2, 3), Block(nn.Identity(), nn.Identity())):
        with pytest.raises(ValueError, match=f"no Attention in this {type(model).__name__}"):
            watch(model).__enter__()
