"""What each family of transformers may look at, and that caches and padding change nothing."""

import copy
import itertools
import pickle

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attnbook.attention import Attention, MultiHeadAttention, Projection
from attnbook.block import Block, PreNorm, Stack
from attnbook.feedforward import MLP
from attnbook.generate.sampling import generate
from attnbook.masks import DenseMask, document, length_mask, local
from attnbook.models.bert import bert
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.models.vaswani import vaswani_2017
from attnbook.norms import LayerNorm
from attnbook.positions import Alibi, Learned, Rotary, Sinusoidal
from attnbook.transformer import Embed, LanguageModel

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


@pytest.mark.parametrize("make", [bert, gpt2])
def test_a_row_of_tokens_alone_is_refused(monkeypatch, tokens, make):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for the reader
    with pytest.raises(ValueError, match=r"tokens are \(B, T\), one row alone.*got \(7,\)"):
        make(V, 9, C, 1, 3)(tokens[0])


def test_a_table_of_positions_is_learned():
    embed = Embed(V, C, Learned(9, C))
    embed(torch.tensor([[3, 3, 3]])).sum().backward()
    assert (embed.positions.table.grad[:3] == 1).all() and (
        embed.positions.table.grad[3:] == 0
    ).all()


# -- rows of their own, patterns, blocks without attention --------------------------------------


def with_alibi():
    torch.manual_seed(0)
    blocks = [
        Block(PreNorm(MultiHeadAttention(C, 3, relative=Alibi(3)), LayerNorm(C)), nn.Identity())
        for _ in range(2)
    ]
    return LanguageModel(Embed(V, C), Stack(blocks), nn.Linear(C, V))


def patterned():
    """A window, everything, a window: as many models are built since 2025."""
    torch.manual_seed(0)
    rotate = Rotary(C // 3)

    def block(pattern, rotate):
        part = Attention(Projection(C, 3), nn.Linear(C, C), rotate, pattern=pattern)
        return Block(PreNorm(part, LayerNorm(C)), PreNorm(MLP(C, 7), LayerNorm(C)))

    blocks = [block(local(3), rotate), block(None, None), block(local(2), rotate)]
    return LanguageModel(Embed(V, C), Stack(blocks), nn.Linear(C, V))


def sinusoids():
    model = with_alibi()
    model.embed.positions = Sinusoidal(C)
    return model


ROWS = CAUSAL | {"alibi": with_alibi, "patterned": patterned, "sinusoidal": sinusoids}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_different_lengths_are_read_as_each_alone(name, side, tokens):
    model, lengths = lively(ROWS[name]()), [7, 4]
    there = length_mask(torch.tensor(lengths))
    there = there.flip(1) if side == "left" else there
    logits = model(torch.where(there, tokens, 12), mask=there)
    for row in range(2):
        alone = model(tokens[row, there[row]][None])[0]
        assert_close(logits[row, there[row]], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("room", [None, 9])
@pytest.mark.parametrize("name", ROWS)
def test_padded_prompts_go_on_with_a_cache(name, room, side, tokens):
    model, lengths = lively(ROWS[name]()), [5, 2]
    prompt = length_mask(torch.tensor(lengths))
    prompt = prompt.flip(1) if side == "left" else prompt
    caches = model.caches(room)
    there = nn.functional.pad(prompt, (0, 4 if room else 0), value=True)
    read = [model(tokens[:, :5], caches, there)]
    for t in (5, 6):
        there = nn.functional.pad(prompt, (0, 4 if room else t - 4), value=True)
        read.append(model(tokens[:, t : t + 1], caches, there))
    logits = torch.cat(read, 1)
    whole = nn.functional.pad(prompt, (0, 2), value=True)
    for row in range(2):
        alone = model(tokens[row, whole[row]][None])[0]
        assert_close(logits[row, whole[row]], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_packed_documents_are_read_as_each_alone(name, tokens):
    model, ids = lively(CAUSAL[name]()), torch.tensor([0, 0, 0, 1, 1, 1, 1])
    where = torch.tensor([0, 1, 2, 0, 1, 2, 3])
    logits = model(tokens, mask=document(ids), positions=where)
    for piece in (slice(3), slice(3, 7)):
        assert_close(logits[:, piece], model(tokens[:, piece]), atol=1e-5, rtol=1e-5)


class Conv(nn.Module):
    """A first block that looks at nobody: it has no use for a mask or a cache."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(C, C)

    def forward(self, x, mask=None, cache=None):
        return x + self.map(x)


@pytest.mark.parametrize("room", [None, 7])
def test_the_first_block_may_have_no_attention(room, tokens):
    model = lively(CAUSAL["gpt2"]())
    model.body.blocks.insert(0, Conv())
    caches = model.caches(room)
    read = [model(tokens[:, :4], caches), *(model(x, caches) for x in tokens[:, 4:].split(1, 1))]
    assert_close(torch.cat(read, 1), model(tokens), atol=1e-5, rtol=1e-5)


def test_torchs_own_embedding_and_one_of_ones_own_will_do(tokens):
    model = lively(CAUSAL["llama"]())
    expected = model(tokens)
    model.embed = model.embed.tokens
    assert_close(model(tokens), expected)
    assert model.limit is None
    caches = model.caches()
    read = [model(tokens[:, :4], caches), model(tokens[:, 4:], caches)]
    assert_close(torch.cat(read, 1), expected, atol=1e-5, rtol=1e-5)


class Counted(nn.Module):
    """An embedding of one's own: it says how far it reaches, and is told where tokens stand."""

    limit = 9

    def __init__(self):
        super().__init__()
        self.map = nn.Embedding(V * self.limit, C)

    def forward(self, tokens, start=0):
        return self.map(tokens * self.limit + start + torch.arange(tokens.shape[1]))


def test_an_embedding_of_ones_own_says_its_limit_and_hears_where_tokens_stand(tokens):
    model = lively(CAUSAL["llama"]())
    model.embed = lively(Counted())
    assert model.limit == 9
    caches = model.caches()
    read = [model(tokens[:, :4], caches), model(tokens[:, 4:], caches)]
    assert_close(torch.cat(read, 1), model(tokens), atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="9"):
        generate(model, tokens, 5)


def test_each_head_may_have_a_mask_of_its_own(tokens):
    """A table (1, H, T, T) as a part of a pattern."""
    model = lively(CAUSAL["llama"]())
    heads = torch.rand(1, 3, T, T, generator=torch.Generator().manual_seed(0)) < 0.5
    heads |= torch.eye(T).bool()
    seen = []
    for block in model.body.blocks:
        block.attention.sublayer.on_weights = seen.append
    model(tokens, mask=DenseMask(heads))
    allowed = heads & torch.ones(T, T).bool().tril()
    assert len(seen) == 2
    for weights in seen:
        assert torch.equal(weights > 0, allowed.expand_as(weights))


def test_a_translation_is_written_with_caches_as_without(pair):
    model = translator()
    source, mask, target = pair
    memory = model.encode(source, mask)
    for room in (None, 6):
        caches = model.caches(room)
        read = [model.decode(new, memory, mask, caches) for new in target.split([2, 1, 1], 1)]
        assert_close(torch.cat(read, 1), model(source, mask, target), atol=1e-5, rtol=1e-5)
    for cache in caches:
        cache.select(torch.tensor([1, 0]))
    assert caches[0].memory.stored[0].shape[0] == 2
    with pytest.raises(ValueError, match=r"mask \(2, 6\) does not fit scores \(2, 7\)"):
        lively(CAUSAL["llama"]())(torch.ones(2, 7).long(), mask=torch.ones(2, 6).bool())


# -- nothing in the way of torch; what compiles is in test_compiled.py --------------------------


@pytest.mark.parametrize("name", ROWS)
def test_no_number_is_read_back_from_the_device(name, tokens):
    """On meta tensors there is no number to read."""
    with torch.device("meta"):
        model = ROWS[name]()
    logits = model(tokens.to("meta"))
    assert logits.shape == (2, T, V) and logits.is_meta
    caches = model.caches()
    assert model(tokens[:, :3].to("meta"), caches).is_meta
    assert model(tokens[:, 3:4].to("meta"), caches).is_meta


@pytest.mark.parametrize("name", ROWS)
def test_built_without_memory_and_filled_it_is_the_model(name, tokens):
    model = lively(ROWS[name]())
    for assign in (False, True):
        with torch.device("meta"):
            bare = ROWS[name]()
        bare = bare if assign else bare.to_empty(device="cpu")
        bare.load_state_dict(model.state_dict(), assign=assign)
        assert_close(bare.eval()(tokens), model(tokens))


@pytest.mark.parametrize("name", ROWS)
def test_it_is_pickled_and_copied(name, tokens):
    model = lively(ROWS[name]())
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_close(twin(tokens), model(tokens))


@pytest.mark.parametrize("name", ROWS)
def test_the_default_precision_changes_nothing(name, tokens):
    model = lively(ROWS[name]())
    expected = model(tokens)
    try:
        torch.set_default_dtype(torch.bfloat16)
        assert_close(model(tokens), expected)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", ROWS)
def test_quantised_by_torch_it_is_close(name, tokens):
    model = lively(ROWS[name]()).eval()
    small = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    expected = model(tokens)
    assert (small(tokens) - expected).abs().mean() < 0.1 * expected.std()


def test_the_last_logits_alone_are_those_of_all():
    model = gpt2(V=11, T=8, width=8, depth=2, heads=2).eval()
    tokens = torch.randint(11, (2, 6))
    assert_close(model(tokens, last=2), model(tokens)[:, -2:])
    seen = []
    model.lm_head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model(tokens, last=1)
    assert [x.shape[1] for x in seen] == [1]  # the output layer meets one position, not the prompt
    model(tokens[:1], last=1)
    for x in seen:  # with other strides a frozen matrix of 16 bits is copied, for each row
        assert x.stride() == torch.empty(x.shape).stride()


@pytest.mark.parametrize("make", [llama, gpt2])
def test_positions_that_do_not_fit_are_named_before_any_work(monkeypatch, tokens, make):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for the reader
    model = make(V, width=C, depth=1, heads=3)
    monkeypatch.setattr(model, "embed", None)
    for wrong in (torch.arange(T - 1), torch.arange(1), torch.zeros(3, T).long()):
        with pytest.raises(ValueError, match=r"positions \(.*\) do not fit tokens \(2, 7\)"):
            model(tokens, positions=wrong)
