"""What each family of transformers may look at, and that caches and padding change nothing."""

import itertools

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attnbook.attention import length_mask
from attnbook.positions import Learned, Sinusoidal
from attnbook.recipes import bert, gpt2, llama, vaswani_2017
from attnbook.transformer import Embed

V, C, T = 13, 12, 7
CAUSAL = {
    "gpt2": lambda: gpt2(V, T=9, width=C, depth=2, heads=3),
    "llama": lambda: llama(V, width=C, depth=2, heads=3, kv_heads=1),
}


def lively(model):
    """Weights large enough that everything depends on everything, and no dropout."""
    torch.manual_seed(2)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.5)
    return model.eval()


def translator():
    return lively(vaswani_2017(V, 11, width=C, depth=2, heads=3, hidden=17))


def slopes_at(embed, logits_of):
    """How much one number of `logits_of()` depends on each position of what `embed` gives out."""
    given_out = []
    handle = embed.register_forward_hook(lambda _, inputs, x: given_out.append(x))
    number = logits_of()
    handle.remove()
    return torch.autograd.grad(number, given_out[0])[0].abs().sum(-1)


@pytest.fixture(params=CAUSAL)
def model(request):
    return lively(CAUSAL[request.param]())


@pytest.fixture
def tokens():
    return torch.tensor([[3, 12, 0, 5, 5, 8, 1], [1, 4, 4, 2, 7, 0, 9]])


# -- tokens become vectors --------------------------------------------------------------------


def test_a_token_is_what_it_is_times_the_scale_plus_where_it_stands():
    embed = Embed(V, C, Sinusoidal(C), scale=3.0)
    there = embed(torch.tensor([[4, 8]]), start=5)[0]
    positions = Sinusoidal(C)(7)
    assert_close(there[0], 3 * embed.tokens.weight[4] + positions[5])
    assert_close(there[1], 3 * embed.tokens.weight[8] + positions[6])


def test_norm_comes_before_dropout():
    embed = Embed(V, C, norm=nn.LayerNorm(C), dropout=0.5)
    x = embed(torch.arange(V)[None])
    kept = x != 0
    assert 0.3 < kept.float().mean() < 0.7
    assert_close(x[kept], 2 * embed.eval()(torch.arange(V)[None])[kept])


@pytest.mark.parametrize("wrong", [V, V + 6, -1])
def test_a_token_outside_of_the_vocabulary_is_named_with_its_size(wrong):
    with pytest.raises(ValueError, match=rf"token {wrong} is not in the vocabulary of {V}"):
        Embed(V, C)(torch.tensor([[0, wrong, 3]]))


def test_every_model_refuses_an_unknown_token(tokens):
    unknown, mask = tokens + V, torch.ones(2, T, dtype=torch.bool)
    for call in (
        lambda: lively(CAUSAL["gpt2"]())(unknown),
        lambda: lively(bert(V, T, C, 1, 3))(unknown),
        lambda: translator()(unknown, mask, tokens[:, :3]),
        lambda: translator()(tokens, mask, unknown),
    ):
        with pytest.raises(ValueError, match="not in the vocabulary of"):
            call()


def test_a_sequence_longer_than_the_table_is_refused_by_both_lengths(tokens):
    for model in (CAUSAL["gpt2"](), bert(V, 9, C, 1, 3)):
        model(tokens)
        with pytest.raises(ValueError, match=r"of 14 tokens is longer than the table of 9"):
            model(torch.cat((tokens, tokens), 1))


def test_the_limit_is_the_length_of_the_table():
    assert CAUSAL["gpt2"]().limit == 9 and CAUSAL["llama"]().limit is None


def test_parameters_in_half_precision_stay_so(tokens):
    """Sines are computed in float32; they must not pull everything with them."""
    mask = torch.ones(2, T, dtype=torch.bool)
    logits = translator().to(torch.bfloat16)(tokens, mask, tokens[:, 4:])
    assert logits.dtype == torch.bfloat16


# -- a decoder alone --------------------------------------------------------------------------


@pytest.mark.parametrize("t", range(T))
def test_the_future_cannot_leak(model, tokens, t):
    slopes = slopes_at(model.embed, lambda: model(tokens)[0, t].square().sum())
    assert (slopes[0, : t + 1] > 0).all() and (slopes[0, t + 1 :] == 0).all()
    assert (slopes[1] == 0).all()  # nor does another sequence


@pytest.mark.parametrize("name", CAUSAL)
@settings(max_examples=20)
@given(st.sets(st.integers(1, T - 1)))
def test_reading_in_parts_with_caches_is_reading_at_once(name, cuts):
    model, tokens = lively(CAUSAL[name]()), torch.arange(2 * T).view(2, T) % V
    caches, read = model.caches(), []
    for start, end in itertools.pairwise([0, *sorted(cuts), T]):
        read.append(model(tokens[:, start:end], caches))
    assert_close(torch.cat(read, 1), model(tokens), atol=1e-5, rtol=1e-5)
    assert len(caches) == 2 and all(cache.length == T for cache in caches)


# -- an encoder alone -------------------------------------------------------------------------


def test_a_masked_language_model_sees_both_sides(tokens):
    model = lively(bert(V, 9, C, 2, 3))
    slopes = slopes_at(model.embed, lambda: model(tokens)[0, 3].square().sum())
    assert (slopes[0] > 0).all() and (slopes[1] == 0).all()


def test_a_masked_language_model_ignores_padding(tokens):
    model, lengths = lively(bert(V, 9, C, 2, 3)), [7, 4]
    mask = length_mask(torch.tensor(lengths))
    logits = model(tokens, mask)
    assert_close(model(torch.where(mask, tokens, 11), mask)[mask], logits[mask])
    for row, length in enumerate(lengths):
        assert_close(logits[row, :length], model(tokens[row, :length][None])[0])
    slopes = slopes_at(model.embed, lambda: model(tokens, mask)[1, 2].square().sum())
    assert (slopes[1, 4:] == 0).all() and (slopes[1, :4] > 0).all()


def test_without_positions_it_reads_a_bag_of_words(tokens):
    model = lively(bert(V, 9, C, 2, 3))
    model.embed.positions = None
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    assert_close(model(tokens[:, order]), model(tokens)[:, order])


# -- both -------------------------------------------------------------------------------------


@pytest.fixture
def pair():
    source = torch.tensor([[3, 12, 0, 5, 5], [1, 4, 9, 9, 9]])
    return source, length_mask(torch.tensor([5, 3]), 5), torch.tensor([[1, 2, 8, 6], [1, 7, 3, 0]])


def test_the_translation_so_far_cannot_see_what_follows(pair):
    model = translator()
    source, mask, target = pair
    memory = model.encode(source, mask)
    for t in range(4):
        slopes = slopes_at(
            model.target_embed,
            lambda t=t: model.decode(target, memory, mask)[0, t].square().sum(),
        )
        assert (slopes[0, : t + 1] > 0).all() and (slopes[0, t + 1 :] == 0).all()


def test_every_translated_token_may_use_all_of_the_source_and_no_padding(pair):
    model = translator()
    source, mask, target = pair
    for t in range(4):
        slopes = slopes_at(
            model.source_embed, lambda t=t: model(source, mask, target)[:, t].square().sum()
        )
        assert ((slopes > 0) == mask).all()


def test_padding_cannot_change_a_translation(pair):
    model = translator()
    source, mask, target = pair
    logits = model(source, mask, target)
    assert_close(model(torch.where(mask, source, 6), mask, target), logits)
    alone = model(source[1:, :3], mask[1:, :3], target[1:])
    assert_close(logits[1:], alone)
    longer = nn.functional.pad(source, (0, 4)), nn.functional.pad(mask, (0, 4))
    assert_close(model(*longer, target), logits)


def test_encoding_and_decoding_is_the_whole(pair):
    model = translator()
    source, mask, target = pair
    assert_close(
        model.decode(target, model.encode(source, mask), mask), model(source, mask, target)
    )


def test_a_mask_of_numbers_is_refused(monkeypatch, tokens):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=r"a mask is boolean.*float32"):
        lively(bert(V, 9, C, 1, 3))(tokens, torch.ones(2, T))


def test_a_table_of_positions_is_learned():
    embed = Embed(V, C, Learned(9, C))
    embed(torch.tensor([[3, 3, 3]])).sum().backward()
    assert (embed.positions.table.grad[:3] == 1).all() and (
        embed.positions.table.grad[3:] == 0
    ).all()
