"""Sequences that grow: rows of their own, caches of every kind, broken off and gone on with."""

import jaxtyping
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnbook.attention import Attention, MultiHeadAttention, Projection
from attnbook.block import Block, PreNorm, Stack
from attnbook.efficient.latent import LatentAttention
from attnbook.efficient.sparse import Sparse, hubs
from attnbook.feedforward import MLP
from attnbook.generate.sampling import DecodingSession, generate, sample, start_translation, stream
from attnbook.generate.search import beam_search, greedy_search
from attnbook.masks import length_mask, local
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.models.mixtral import mixtral
from attnbook.models.vaswani import vaswani_2017
from attnbook.norms import LayerNorm, RMSNorm
from attnbook.positions import Alibi, Learned, RelativeBias, Rotary, Sinusoidal
from attnbook.recurrence.gated_delta import GatedDelta
from attnbook.scores import Score
from attnbook.transformer import Embed, LanguageModel

V, C, H, T = 13, 12, 3, 24


def decoder(*attentions, positions=None):
    """A decoder with these attentions, one in each block."""
    blocks = [
        Block(PreNorm(part, LayerNorm(C)), PreNorm(MLP(C, 7), LayerNorm(C))) for part in attentions
    ]
    return LanguageModel(Embed(V, C, positions), Stack(blocks), nn.Linear(C, V))


def plain(**options):
    return [MultiHeadAttention(C, H, **options) for _ in range(2)]


def windowed(window, rotate=None, score=None):
    return Attention(Projection(C, H), nn.Linear(C, C), rotate, score, local(window))


def latent():
    return LatentAttention(C, H, 6, Rotary(2), RMSNorm(6))


MODELS = {
    "learned": lambda: gpt2(V, T, C, 2, H),
    "rotary": lambda: llama(V, C, 2, H, kv_heads=1),
    "experts": lambda: mixtral(V, C, 2, H, H, 10, 50.0, 4, 2),
    "alibi": lambda: decoder(*plain(relative=Alibi(H))),
    "buckets": lambda: decoder(*plain(relative=RelativeBias(H, 8, 6, both_ways=False))),
    "sinusoidal": lambda: decoder(*plain(), positions=Sinusoidal(C)),
    "none": lambda: decoder(*plain()),
    "window": lambda: decoder(windowed(3, Rotary(4)), *plain(), windowed(2)),
    "window, learned": lambda: decoder(windowed(4), windowed(4), positions=Learned(T, C)),
    "window, alibi": lambda: decoder(windowed(3, score=Score(relative=Alibi(H))), windowed(2)),
    "hubs": lambda: decoder(Sparse(plain()[0], local(2) | hubs(1)), *plain(rotate=Rotary(4))),
    "latent": lambda: decoder(latent(), latent()),
    "state": lambda: decoder(GatedDelta(C, (2, 6)), *plain(rotate=Rotary(4))),
}
LENGTHS = torch.tensor([5, 2, 4])


def lively(model):
    torch.manual_seed(3)
    for name, weight in model.named_parameters():
        nn.init.normal_(weight, std=0.0 if name == "lm_head.bias" else 0.5)
    return model.eval()


def restless(logits):
    """A choice that a small difference in the logits changes: what is written does not settle."""
    return (7 * logits).sin().argmax(-1)


@pytest.fixture
def prompts():
    return torch.randint(V, (3, 5), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def each_alone(prompts):
    """What a model writes after each prompt, given alone and without padding."""

    def write(model, steps):
        rows = zip(prompts, LENGTHS.tolist(), strict=True)
        alone = [generate(model, row[None, :n], steps, restless, cached=False) for row, n in rows]
        return torch.stack([row[0, -steps:] for row in alone])

    return write


def padded(prompts, side):
    """The prompts with padding at their end, or the same rows pushed to the right."""
    mask = length_mask(LENGTHS, 7 if side == "wide" else 5)
    tokens = nn.functional.pad(prompts, (0, mask.shape[1] - 5)).masked_fill(~mask, 12)
    if side == "left":
        rows = zip(tokens, (5 - LENGTHS).tolist(), strict=True)
        return torch.stack([row.roll(n) for row, n in rows]), mask.flip(1)
    return tokens, mask


OFTEN = ("learned", "window, alibi", "latent", "state")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in OFTEN else pytest.mark.slow) for n in MODELS]
)
def test_rows_of_different_lengths_are_written_as_each_alone(name, prompts, each_alone):
    model, steps = lively(MODELS[name]()), 7
    expected = each_alone(model, steps)
    assert len(expected.unique()) > 3
    for side in ("left", "right", "wide"):
        tokens, mask = padded(prompts, side)
        for cached in (True, False):
            found = generate(model, tokens, steps, restless, cached, mask=mask)
            assert torch.equal(found[:, : tokens.shape[1]], tokens)
            assert torch.equal(found[:, tokens.shape[1] :], expected), (side, cached)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_caches_of_fixed_room_write_the_same(name, prompts, each_alone):
    model, steps = lively(MODELS[name]()), 7
    expected = each_alone(model, steps)
    for side in ("left", "right"):
        tokens, mask = padded(prompts, side)
        read = DecodingSession(model, model.caches(max_len=11), mask)
        assert torch.equal(generate(read, tokens, steps, restless)[:, 5:], expected)
    with pytest.raises(
        ValueError, match="5 tokens and 8 new need caches of 12 positions; these have 11"
    ):
        generate(DecodingSession(model, model.caches(max_len=11), mask), tokens, 8)


def test_padding_takes_no_position(prompts):
    """A table of 9 positions is enough for 5 tokens and 5 steps, however much padding there is."""
    model = lively(gpt2(V, 9, C, 1, H))
    tokens, mask = padded(prompts, "wide")
    generate(model, tokens, 5, mask=mask)
    with pytest.raises(ValueError, match="5 tokens and 6 new: the model would read 10"):
        generate(model, tokens, 6, mask=mask)


@pytest.mark.parametrize("name", ["rotary", "window", "learned"])
def test_a_sliding_window_of_padded_rows_is_that_of_each_alone(name, prompts):
    model = lively(MODELS[name]())
    tokens, mask = padded(prompts, "right")
    found = generate(model, tokens, 9, restless, window=4, mask=mask)[:, 5:]
    for row, n in enumerate(LENGTHS.tolist()):
        alone = generate(model, prompts[row : row + 1, :n], 9, restless, window=4)
        assert torch.equal(found[row], alone[0, n:])


def test_a_cached_window_of_padded_rows_keeps_no_more_than_a_window(prompts):
    model = lively(MODELS["window, learned"]())
    tokens, mask = padded(prompts, "right")
    caches = model.caches()
    generate(DecodingSession(model, caches, mask), tokens, 7)
    assert [cache.keys.shape[2] for cache in caches] == [3, 3]


# -- broken off, and gone on with ---------------------------------------------------------------


@pytest.mark.parametrize("room", [None, 14])
@pytest.mark.parametrize("name", ["learned", "window", "latent"])
def test_who_breaks_off_goes_on_where_it_was(name, room, prompts):
    model = lively(MODELS[name]())
    tokens, mask = padded(prompts, "right")
    expected = generate(model, tokens, 9, restless, mask=mask)
    lengths = []
    model.register_forward_pre_hook(lambda _, inputs: lengths.append(inputs[0].shape[1]))
    read = DecodingSession(model, model.caches(room), mask)
    for step, new in enumerate(stream(read, tokens, 9, restless)):
        tokens = torch.cat((tokens, new[:, None]), 1)
        if step == 3:
            break
    assert torch.equal(generate(read, tokens, 5, restless), expected)
    assert lengths == [5] + 8 * [1]  # nothing was read twice


def test_a_question_is_put_in_between(prompts):
    """What was written, and new tokens of somebody else, are read on from where it was."""
    model = lively(MODELS["window"]())
    read = DecodingSession(model, model.caches())
    said = torch.cat((generate(read, prompts, 3), prompts[:, :2]), 1)
    assert torch.equal(generate(read, said, 4), generate(model, said, 4, cached=False))


def test_tokens_come_as_they_are_chosen(prompts):
    model, calls = lively(MODELS["rotary"]()), []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    for step, new in enumerate(stream(model, prompts, 4), start=1):
        assert len(calls) == step and new.shape == (3,)
        assert torch.is_grad_enabled()  # the reader's own computing is left alone
    assert step == 4


def test_gradients_are_not_kept(prompts):
    read = DecodingSession(lively(MODELS["rotary"]()))
    assert not read(prompts).requires_grad


# -- searches ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_search_with_caches_finds_what_one_without_finds(name, prompts):
    model = lively(MODELS[name]())
    tokens, mask = padded(prompts, "right")
    for end, alpha in ((3, 0.6), (7, 0.0)):
        once = beam_search(DecodingSession(model, None, mask), tokens, end, 5, 3, alpha)
        for room in (None, 10):
            read = DecodingSession(model, model.caches(room), mask)
            assert torch.equal(beam_search(read, tokens, end, 5, 3, alpha), once)
    greedy = greedy_search(DecodingSession(model, None, mask), tokens, 3, 5)
    cached = DecodingSession(model, model.caches(), mask)
    assert torch.equal(greedy_search(cached, tokens, 3, 5), greedy)


@pytest.mark.parametrize("room", [None, 8])
@pytest.mark.parametrize("beams", [1, 4])
def test_a_translation_with_caches_is_the_one_without(beams, room, prompts):
    model = lively(vaswani_2017(V, 11, width=C, depth=2, heads=H, hidden=17))
    mask, start = length_mask(LENGTHS), torch.zeros(3, 1, dtype=torch.long)
    lengths = []
    model.target_embed.register_forward_pre_hook(lambda _, given: lengths.append(given[0].shape[1]))
    for end in (1, 4, 6):
        plain = beam_search(start_translation(model, prompts, mask), start, end, 8, beams, 0.6)
        lengths.clear()
        caches = model.caches(room)
        cached = beam_search(
            start_translation(model, prompts, mask, caches), start, end, 8, beams, 0.6
        )
        assert torch.equal(cached, plain)
        assert set(lengths) == {1} and len(lengths) == plain.shape[1]


# -- what is refused ----------------------------------------------------------------------------


def test_what_cannot_be_is_refused(prompts, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    model = lively(MODELS["rotary"]())
    used = model.caches()
    model(prompts, used)
    with pytest.raises(ValueError, match="these caches have seen tokens"):
        DecodingSession(model, used)
    with pytest.raises(ValueError, match="it has no use for caches"):
        DecodingSession(model, model.caches(), window=3)
    read = DecodingSession(model, model.caches())
    with pytest.raises(ValueError, match="mask and window belong to the DecodingSession"):
        generate(read, prompts, 2, window=3)
    with pytest.raises(ValueError, match=r"a Linear has no caches\(\): say cached=False"):
        generate(nn.Linear(2, 2), prompts, 2)
    with pytest.raises(ValueError, match=r"mask for tokens \(3, 5\).*got \(3, 4\)"):
        generate(model, prompts, 2, mask=torch.ones(3, 4).bool())
    with pytest.raises(ValueError, match="row 1 of the prompt is nothing but padding"):
        generate(model, prompts, 2, mask=length_mask(torch.tensor([5, 0, 2]), 5))


@pytest.mark.parametrize("cached", [True, False])
def test_logits_that_are_no_numbers_are_refused_with_their_row(cached, prompts):
    model = lively(MODELS["rotary"]())
    prompts[0] = prompts[1] = 3
    prompts[2, 1] = 5
    with torch.no_grad():
        model.embed.tokens.weight[5] = torch.nan
    dice = torch.Generator().manual_seed(0)
    for choose in (lambda logits: logits.argmax(-1), sample(generator=dice)):
        with pytest.raises(ValueError, match=r"row 2: .* not a number \(NaN\)"):
            generate(model, prompts, 2, choose, cached)
    with pytest.raises(ValueError, match="row 2"):
        greedy_search(DecodingSession(model), prompts, 1, 3)
    assert_close(generate(model, prompts[:2], 0), prompts[:2])
