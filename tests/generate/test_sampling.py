"""Choosing a token is what the papers say, by brute force; searches find what they should."""

import itertools
import math

import jaxtyping
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attnbook.generate.sampling import (
    LogProbs,
    generate,
    greedy,
    min_p,
    repetition_penalty,
    sample,
    stream,
    temperature,
    top_k,
    top_p,
)
from attnbook.generate.search import beam_search, greedy_search, penalty
from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama

# chances 0.5, 0.25, 0.15, 0.1, in an order of no help
LOGITS = torch.tensor([[0.15, 0.5, 0.1, 0.25], [0.25, 0.1, 0.5, 0.15]]).log()
SEVEN = st.lists(st.integers(-400, 400).map(lambda n: n / 50), min_size=7, max_size=7)


def kept(logits):
    """Which tokens of each row may still be chosen."""
    return [row.isfinite().nonzero()[:, 0].tolist() for row in logits]


# -- one token --------------------------------------------------------------------------------


def test_greedy_takes_the_likeliest():
    assert greedy(LOGITS).tolist() == [1, 2]


def test_temperature_two_takes_the_root_of_each_chance():
    roots = torch.tensor([0.15, 0.5, 0.1, 0.25]).sqrt()
    assert_close(temperature(2.0)(LOGITS)[0].softmax(-1), roots / roots.sum())
    assert_close(temperature(1.0)(LOGITS), LOGITS)
    assert temperature(0.01)(LOGITS).softmax(-1).max(-1).values.min() > 0.999


@pytest.mark.parametrize(
    ("k", "expected"),
    [(1, [[1], [2]]), (2, [[1, 3], [0, 2]]), (4, [[0, 1, 2, 3]] * 2), (9, [[0, 1, 2, 3]] * 2)],
)
def test_top_k_keeps_the_k_likeliest(k, expected):
    assert kept(top_k(k)(LOGITS)) == expected


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (1e-9, [[1], [2]]),  # the likeliest always stays
        (0.49, [[1], [2]]),
        (0.51, [[1, 3], [0, 2]]),
        (0.76, [[0, 1, 3], [0, 2, 3]]),
        (0.91, [[0, 1, 2, 3]] * 2),
        (1.0, [[0, 1, 2, 3]] * 2),
    ],
)
def test_top_p_keeps_the_fewest_that_reach_p(p, expected):
    assert kept(top_p(p)(LOGITS)) == expected


def test_what_ties_with_the_last_of_k_stays():
    assert kept(top_k(2)(torch.tensor([[1.0, 3.0, 1.0, 0.0]]))) == [[0, 1, 2]]


def test_top_p_of_1_drops_nothing_however_unlikely():
    logits = torch.tensor([[30.0, 0.0, -80.0] + [5.0] * 500])
    assert kept(top_p(1.0)(logits)) == [list(range(503))]


@given(SEVEN, st.floats(0.01, 0.99))
def test_top_p_takes_one_by_one_until_it_has_p(logits, p):
    chances = torch.tensor(logits).double().softmax(0).tolist()
    expected, together = [], 0.0
    for token in sorted(range(7), key=lambda token: -chances[token]):
        assume(abs(together - p) > 1e-5)  # on the edge, rounding decides
        if together < p:
            expected.append(token)
        together += chances[token]
    assume(len(set(logits)) == 7)
    assert kept(top_p(p)(torch.tensor([logits])))[0] == sorted(expected)


def test_min_p_keeps_what_is_likely_enough_beside_the_likeliest():
    logits = torch.tensor([0.5, 0.3, 0.149, 0.051]).log()[None]
    assert kept(min_p(0.3)(logits)) == [[0, 1]]
    assert kept(min_p(0.29)(logits)) == [[0, 1, 2]]
    assert kept(min_p(0.0)(logits)) == [[0, 1, 2, 3]]
    assert kept(min_p(1.0)(LOGITS)) == [[1], [2]]


@settings(max_examples=30)
@given(SEVEN, st.integers(1, 9), st.floats(0.01, 0.99), st.floats(0.1, 5))
def test_filters_are_those_of_transformers(logits, k, p, t):
    theirs = pytest.importorskip("transformers.generation.logits_process")
    logits = torch.tensor([logits])
    assert_close(temperature(t)(logits), theirs.TemperatureLogitsWarper(t)(None, logits))
    assert_close(top_k(k)(logits), theirs.TopKLogitsWarper(k)(None, logits))
    shares = logits.softmax(-1).sort(descending=True).values.cumsum(-1)
    assume(logits.unique().numel() == 7 and (shares - p).abs().min() > 1e-5)
    assert_close(top_p(p)(logits), theirs.TopPLogitsWarper(p)(None, logits))
    chances = logits.softmax(-1)
    assume((chances / chances.max() - p).abs().min() > 1e-5)
    assert_close(min_p(p)(logits), theirs.MinPLogitsWarper(p)(None, logits))


@settings(max_examples=30)
@given(SEVEN, st.lists(st.integers(0, 6), min_size=1, max_size=9), st.floats(0.2, 5))
def test_the_repetition_penalty_is_that_of_transformers(logits, tokens, penalty):
    theirs = pytest.importorskip("transformers.generation.logits_process")
    logits, tokens = torch.tensor([logits, logits[::-1]]), torch.tensor([tokens, tokens[::-1]])
    expected = theirs.RepetitionPenaltyLogitsProcessor(penalty)(tokens, logits.clone())
    assert_close(repetition_penalty(penalty)(logits, tokens), expected)


def test_samples_come_as_often_as_they_are_likely():
    choose = sample(temperature(2.0), top_k(3), generator=torch.Generator().manual_seed(0))
    drawn = choose(LOGITS[:1].expand(20_000, 4))
    roots = torch.tensor([0.15, 0.5, 0.0, 0.25]).sqrt()
    found = drawn.bincount(minlength=4) / 20_000
    assert_close(found, roots / roots.sum(), atol=0.015, rtol=0)
    assert found[2] == 0


def test_filters_apply_from_left_to_right():
    """Half of the probability before or after three tokens were dropped: not the same two."""
    logits = torch.tensor([[0.3, 0.25, 0.2, 0.15, 0.1]]).log()
    one, other = (
        sample(*filters, generator=torch.Generator().manual_seed(0))
        for filters in ([top_k(2), top_p(0.5)], [top_p(0.5), top_k(2)])
    )
    many = logits.expand(200, 5)
    assert one(many).unique().tolist() == [0]
    assert other(many).unique().tolist() == [0, 1]


def test_the_same_generator_draws_the_same():
    draws = [sample(generator=torch.Generator().manual_seed(5))(LOGITS) for _ in range(2)]
    assert_close(*draws)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: temperature(0.0), "greater than 0; got 0"),
        (lambda: temperature(-1.0), "greater than 0; got -1"),
        (lambda: temperature(math.nan), "greater than 0; got nan"),
        (lambda: top_k(0), "got k = 0"),
        (lambda: top_p(0.0), "got p = 0"),
        (lambda: top_p(1.5), "got p = 1.5"),
        (lambda: min_p(1.5), "got 1.5"),
        (lambda: repetition_penalty(0.0), "greater than 0, 1 for none; got 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong()


# -- writing on -------------------------------------------------------------------------------


@pytest.fixture(params=["gpt2", "llama"])
def model(request):
    torch.manual_seed(1)
    if request.param == "gpt2":
        model = gpt2(V=13, T=11, width=12, depth=2, heads=3)
    else:
        model = llama(V=13, width=12, depth=2, heads=3, kv_heads=1)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.5)
    return model.eval()


@pytest.fixture
def tokens():
    return torch.tensor([[3, 12, 0, 5], [1, 4, 4, 2]])


def test_cached_writing_is_uncached_writing(model, tokens):
    written = generate(model, tokens, 7)
    assert written.shape == (2, 11) and (written[:, :4] == tokens).all()
    assert_close(written, generate(model, tokens, 7, cached=False))
    draws = [
        generate(model, tokens, 7, sample(generator=torch.Generator().manual_seed(2)), cached)
        for cached in (True, False)
    ]
    assert_close(*draws)


def test_each_token_is_chosen_from_the_logits_of_all_before(model, tokens):
    written = generate(model, tokens, 5)
    assert_close(model(written)[:, 3:-1].argmax(-1), written[:, 4:])


@pytest.mark.parametrize("cached", [True, False])
def test_a_process_knows_all_tokens_so_far(model, tokens, cached):
    """None is written twice if what was there once is forbidden."""

    def once(logits, tokens):
        return logits.scatter(1, tokens, -torch.inf)

    written = generate(model, tokens, 7, cached=cached, process=once)
    new = written[:, 4:]
    assert all(len(set(row.tolist())) == 7 for row in new)
    assert not (new[:, :, None] == tokens[:, None]).any()
    streamed = torch.stack([*stream(model, tokens, 7, cached=cached, process=once)], 1)
    assert torch.equal(streamed, new)


def test_log_probabilities_are_those_of_reading_what_was_written(model, tokens):
    sampler = LogProbs(sample(top_k(3), generator=torch.Generator().manual_seed(0)))
    written = generate(model, tokens, 5, sampler)
    again = model(written)[:, 3:-1].log_softmax(-1).gather(-1, written[:, 4:, None])[..., 0]
    assert_close(torch.stack(sampler.log_p, 1), again)


def test_a_cache_is_fed_each_token_once(model, tokens):
    seen = []
    model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[1]))
    generate(model, tokens, 5)
    assert seen == [4, 1, 1, 1, 1]


def test_no_steps_write_nothing(model, tokens):
    assert_close(generate(model, tokens, 0), tokens)


def test_a_full_table_is_refused_before_any_work(tokens):
    model = gpt2(V=13, T=11, width=12, depth=1, heads=3).eval()
    generate(model, tokens, 8)  # reads 11: the last token is only written
    model.register_forward_pre_hook(lambda *_: pytest.fail("it began to work"))
    with pytest.raises(ValueError, match=r"would read 12 tokens, .* 11 positions; with window=11"):
        generate(model, tokens, 9)
    with pytest.raises(ValueError, match=r"would read 12 tokens, it has learned 11"):
        generate(model, tokens, 3, window=12)


def test_a_window_forgets_what_is_further_back(model, tokens):
    written = generate(model, tokens, 20, window=3)
    assert written.shape == (2, 24)
    for end in (4, 9, 23):
        assert_close(model(written[:, end - 3 : end])[:, -1].argmax(-1), written[:, end])
    if model.limit is None:
        assert generate(model, tokens, 20).shape == (2, 24)


def test_a_start_of_nothing_and_steps_backwards_are_refused(model, tokens):
    with pytest.raises(ValueError, match="got 4 and -1"):
        generate(model, tokens, -1)
    with pytest.raises(ValueError, match="got 0 and 2"):
        generate(model, tokens[:, :0], 2)
    with pytest.raises(ValueError, match="at least 1 token; got 0"):
        generate(model, tokens, 2, window=0)


# -- searching --------------------------------------------------------------------------------

BEGIN, END = 0, 1


def random_language(seed, V, T=6):
    """A random chance for every token after every beginning: looked up, nothing learned."""
    generator = torch.Generator().manual_seed(seed)
    table = 1.5 * torch.randn((V,) * T, generator=generator)

    def next_logits(tokens):
        tokens = torch.nn.functional.pad(tokens, (T - 1 - tokens.shape[1], 0), value=BEGIN)
        return table[tuple(tokens.T)]

    return next_logits


def chance(next_logits, start, written):
    """log p of one sequence."""
    total, tokens = 0.0, start
    for token in written:
        total += next_logits(tokens)[0].log_softmax(-1)[token].item()
        tokens = torch.cat((tokens, torch.tensor([[token]])), 1)
    return total


def exhaustive(next_logits, start, V, limit, alpha):
    """The best of all sequences that end, or reach the limit."""
    every = itertools.product(range(V), repeat=limit)
    cut = {s[: s.index(END) + 1] if END in s else s for s in every}
    return max(cut, key=lambda s: chance(next_logits, start, s) / ((5 + len(s)) / 6) ** alpha)


def without_tail(row):
    row = tuple(row.tolist())
    return row[: row.index(END) + 1] if END in row else row


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 3), st.sampled_from([0.0, 0.6, 2.0]))
def test_a_beam_as_wide_as_everything_is_exhaustive_search(seed, V, alpha):
    language, start = random_language(seed, V), torch.tensor([[BEGIN]])
    found = beam_search(language, start, END, max_new_tokens=4, beams=V**4, alpha=alpha)
    assert without_tail(found[0]) == exhaustive(language, start, V, 4, alpha)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.6, 2.0]))
def test_one_beam_is_greedy_search(seed, alpha):
    language, start = random_language(seed, V=5), torch.tensor([[2], [3], [4]])
    one = beam_search(language, start, END, max_new_tokens=5, beams=1, alpha=alpha)
    assert_close(one, greedy_search(language, start, END, max_new_tokens=5))


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_a_batch_is_its_sentences_one_by_one(seed, beams):
    language, starts = random_language(seed, V=5), torch.tensor([[2, 0], [3, 2], [4, 4]])
    for search in (
        lambda start: beam_search(language, start, END, 4, beams),
        lambda start: greedy_search(language, start, END, 4),
    ):
        together = [without_tail(row) for row in search(starts)]
        assert together == [without_tail(search(start[None])[0]) for start in starts]


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_after_its_end_a_row_holds_nothing_else(seed, beams):
    language, starts = random_language(seed, V=4), torch.tensor([[0], [2], [3]])
    for found in (
        beam_search(language, starts, END, 5, beams),
        greedy_search(language, starts, END, 5),
    ):
        for row in found.tolist():
            if END in row:
                assert set(row[row.index(END) :]) == {END}


def trap(tokens):
    """Token 2 looks better at first (0.6), but leads nowhere; after 3 (0.4) the end is certain."""
    after = {0: [0, 0, 0.6, 0.4], 2: [0.3, 0.3, 0.2, 0.2], 3: [0, 1, 0, 0]}
    return torch.tensor([after.get(token, [0, 1, 0, 0]) for token in tokens[:, -1].tolist()]).log()


def test_greedy_falls_into_a_trap_that_two_beams_avoid():
    start = torch.tensor([[BEGIN]])
    assert greedy_search(trap, start, END, 3)[0, 0] == 2
    assert without_tail(beam_search(trap, start, END, 3, beams=2, alpha=0.0)[0]) == (3, END)


def test_the_length_penalty_by_hand():
    """To end at once has log p = −1; four tokens together have −1.2."""
    log_p = torch.tensor([-1.0, -1.2])
    assert penalty(torch.tensor(1), 0.6) == 1
    divided = log_p / penalty(torch.tensor([1, 4]), 0.6)
    assert_close(divided, torch.tensor([-1.0, -1.2 / 1.5**0.6]))

    def next_logits(tokens):
        first = torch.tensor([0.0, math.exp(-1.0), math.exp(-1.2), 0.0])
        first[3] = 1 - first.sum()
        last = torch.eye(4)[END] if tokens.shape[1] == 4 else torch.eye(4)[2]
        certain = {2: last, 3: torch.full((4,), 0.25)}
        rows = [certain.get(token, first) for token in tokens[:, -1].tolist()]
        return torch.stack(rows).log()

    start = torch.tensor([[BEGIN]])
    short = beam_search(next_logits, start, END, 4, beams=3, alpha=0.0)
    long = beam_search(next_logits, start, END, 4, beams=3, alpha=0.6)
    assert without_tail(short[0]) == (END,)
    assert without_tail(long[0]) == (2, 2, 2, END)


def after_two(chances):
    """A language in which 2 comes first, or the end, and then 3 or 4; `chances` say what follows
    these."""
    table = torch.full((5, 70), 1 / 70)
    table[BEGIN] = torch.eye(70)[END] * 0.4 + torch.eye(70)[2] * 0.6
    table[2] = torch.eye(70)[3] * 0.51 + torch.eye(70)[4] * 0.49
    for token, what in chances.items():
        table[token] = torch.eye(70)[what]
    return lambda tokens: table[tokens[:, -1].clamp(max=4)].log()


def test_what_has_ended_is_kept_though_longer_ones_take_its_place():
    """After 3 and 4 everything is as likely: nothing longer turns out better than the end."""
    start = torch.tensor([[BEGIN]])
    for beams in (2, 3):
        assert beam_search(after_two({}), start, END, 3, beams, alpha=6.0)[0, 0] == END


def test_beginnings_are_ranked_with_the_length_penalty_on_the_way_too():
    """By log p alone the end and 2 3 would be the best two on the way; what is best at last begins
    with 2 4."""
    start, language = torch.tensor([[BEGIN]]), after_two({4: END})
    assert beam_search(language, start, END, 3, beams=2, alpha=6.0).tolist() == [[2, 4, END]]
    assert beam_search(language, start, END, 3, beams=2, alpha=0.0)[0, 0] == END


def test_searches_stop_when_all_rows_have_ended():
    calls = []

    def ends(tokens):
        calls.append(len(tokens))
        return torch.eye(3)[[END]].repeat(len(tokens), 1).log()

    start = torch.tensor([[0], [2]])
    assert greedy_search(ends, start, END, 50).tolist() == [[END], [END]]
    assert calls == [2]


def test_more_beams_than_tokens_are_no_trouble():
    language, start = random_language(3, V=3), torch.tensor([[BEGIN]])
    assert beam_search(language, start, END, 2, beams=50).shape[1] <= 2


@pytest.mark.parametrize(("beams", "limit"), [(0, 3), (2, 0)])
def test_searches_refuse_no_beams_and_no_tokens(monkeypatch, beams, limit):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    start = torch.tensor([[BEGIN]])
    with pytest.raises(ValueError, match="beams is 0" if not beams else "max_new_tokens is 0"):
        beam_search(trap, start, END, limit, beams)
    with pytest.raises(ValueError, match="max_new_tokens is 0"):
        greedy_search(trap, start, END, 0)
