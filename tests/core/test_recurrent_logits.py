import pytest
import torch
from torch.testing import assert_close

from attnbook.generate.sampling import DecodingSession, generate, sample, temperature
from attnbook.generate.search import beam_search
from attnbook.recurrent import GRUCell, Logits, LSTMCell, RNNCell, language_model

V, B, T = 7, 3, 5


def model(cell=LSTMCell, layers=2):
    torch.manual_seed(0)
    return language_model(cell, V, 8, layers)


def tokens(T=T):
    return torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("cell", [RNNCell, GRUCell, LSTMCell])
def test_caches_hold_what_the_model_returns_as_its_state(cell):
    plain, given = model(cell), tokens()
    cached = Logits(plain)
    caches = cached.caches()
    parts = [cached(part, caches) for part in (given[:, :2], given[:, 2:4], given[:, 4:])]
    logits, states = plain(given)
    assert_close(torch.cat(parts, 1), logits)
    assert_close(cached(given), logits)
    for cache, state in zip(caches, states, strict=True):
        assert cache.length == T
        assert_close(cache.state, state)


def test_generate_writes_what_sample_writes():
    plain, start = model(), tokens(2)
    drawn = plain.sample(start, 6, torch.Generator().manual_seed(2), temperature=0.7)
    choose = sample(temperature(0.7), generator=torch.Generator().manual_seed(2))
    written = generate(Logits(plain), start, 6, choose)
    assert written[:, 2:].tolist() == drawn.tolist()


def test_a_search_among_beams_reads_only_what_is_new():
    cached, start = Logits(model()), tokens(2)
    alone = beam_search(DecodingSession(cached), start, V - 1, 5, 3)
    assert beam_search(DecodingSession(cached, cached.caches()), start, V - 1, 5, 3).equal(alone)


def test_a_state_cannot_forget_its_last_tokens():
    cached = Logits(model(layers=1))
    (cache,) = caches = cached.caches()
    cached(tokens(), caches)
    with pytest.raises(ValueError, match="state of 5 tokens cannot be cut to 3"):
        cache.cut(3)
    cache.cut(0)
    assert_close(cached(tokens(), caches), cached(tokens()))


def test_caches_of_another_model_are_refused():
    with pytest.raises(ValueError, match="2 layers need a cache each; got 1"):
        Logits(model())(tokens(), Logits(model(layers=1)).caches())
