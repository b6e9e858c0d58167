"""Drafted and checked: exactly the model's own distribution, from fewer calls."""

from collections import Counter

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import nn

from attnbook.generate.sampling import generate, temperature, top_k
from attnbook.generate.speculative import (
    Copy,
    ModelDraft,
    NGrams,
    Reader,
    after,
    certain,
    common,
    judge,
    overlap,
    residual,
    speculative,
)
from attnbook.masks import causal, local
from attnbook.models.llama import llama
from attnbook.recurrence.gated_delta import GatedDelta

V = 11


def model(seed, width=12):
    """Weights large enough to prefer some tokens."""
    torch.manual_seed(seed)
    made = llama(V=V, width=width, depth=2, heads=2, kv_heads=1, hidden=20)
    for weight in made.parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=0.5)
    return made


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


PROMPT = torch.tensor([3, 1, 4, 1, 5])
DRAFTS = {
    "small model": lambda: ModelDraft(Reader(model(2, 8), after()), V),
    "greedy small model": lambda: ModelDraft(Reader(model(2, 8)), V),
    "table": lambda: NGrams(torch.randint(V, (200,), generator=rng()), V, 3),
    "copy": lambda: Copy(V, 1),
    "nothing": lambda: Copy(V, 50),
}


def chances(numbers):
    return torch.tensor(numbers, dtype=torch.float64).softmax(0)


@given(*[st.lists(st.floats(-9, 9), min_size=7, max_size=7)] * 2)
def test_accepted_and_residual_together_are_exactly_the_models_distribution(a, b):
    p, q = chances(a), chances(b)
    kept = overlap(p, q)
    total = torch.minimum(p, q) + (1 - kept) * residual(p, q)
    assert (total - p).abs().max() < 1e-9


def test_draws_have_the_models_distribution():
    """Two tokens of a chain, however the draft differs: χ² over all 25 pairs."""
    g = rng(1)
    first, then = torch.randn(5, generator=g).softmax(0), torch.randn(5, 5, generator=g).softmax(-1)
    q1, q2 = torch.randn(5, generator=g).softmax(0), torch.randn(5, 5, generator=g).softmax(-1)
    counts, N = Counter(), 2000
    for _ in range(N):
        a = torch.multinomial(q1, 1, generator=g)
        b = torch.multinomial(q2[a[0]], 1, generator=g)
        p = torch.stack((first, then[a[0]], torch.ones(5)))
        written = judge(p, torch.stack((q1, q2[a[0]])), torch.cat((a, b)), g).tolist()
        if len(written) == 1:  # the second is the model's, in a next call
            written += torch.multinomial(then[written[0]], 1, generator=g).tolist()
        counts[tuple(written[:2])] += 1
    expected = N * first[:, None] * then
    found = torch.tensor([[float(counts[i, j]) for j in range(5)] for i in range(5)])
    assert ((found - expected).square() / expected).sum() < chi2.ppf(0.999, 24)


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("K", [1, 4])
def test_greedy_is_what_generate_writes(draft, K):
    target = model(1)
    expected = generate(target, PROMPT[None], 13)[0]
    written = speculative(target, DRAFTS[draft](), PROMPT, 13, K, generator=rng())
    assert torch.equal(written.tokens, expected)
    assert written.calls + written.kept == 13


def test_a_model_that_drafts_for_itself_is_always_right():
    target = model(1)
    for how in (certain, after()):
        draft = ModelDraft(Reader(target, how), V)
        written = speculative(target, draft, PROMPT, 24, K=3, chances=how, generator=rng())
        assert written.kept == written.proposed and written.calls == 24 // 4


class Chain(nn.Module):
    """A model whose next token depends on the last one alone."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(2 * torch.randn(V, V, generator=rng(9)))

    def forward(self, tokens):
        return self.table[tokens]


@pytest.mark.parametrize("draft", ["table", "copy"])
def test_written_text_has_the_distribution_of_sampled_text(draft):
    """The third new token, whose chances a product of matrices gives exactly."""
    target, propose, g, N = Chain(), DRAFTS[draft](), rng(3), 300
    how = after(temperature(1.5), top_k(6))
    steps = how(target.table.detach())
    expected = N * (steps @ steps @ steps)[PROMPT[-1]]
    runs = [speculative(target, propose, PROMPT, 3, 2, how, g) for _ in range(N)]
    found = torch.stack([run.tokens[-1] for run in runs]).bincount(minlength=V)
    assert sum(run.calls for run in runs) < 3 * N  # the draft did help
    often = expected > 5
    distance = ((found - expected).square() / expected)[often].sum()
    assert distance < chi2.ppf(0.999, int(often.sum()))


def test_as_many_are_accepted_as_the_two_overlap():
    g = rng(2)
    p, q = (torch.randn(7, generator=g).mul(2).softmax(0) for _ in range(2))
    p = torch.stack((p, p))
    drawn = torch.multinomial(q, 2000, replacement=True, generator=g)
    kept = sum(len(judge(p, q[None], token[None], g)) - 1 for token in drawn)
    assert abs(kept / 2000 - overlap(p[0], q)) < 0.04


def test_a_reader_with_caches_says_what_a_reading_from_the_start_says():
    target = model(1)
    read = Reader(target, after())
    for tokens in ([3, 1, 4], [3, 1, 4, 1, 5], [3, 1, 7, 7], [3, 1, 7, 7, 2], [3, 1, 7], [9, 9]):
        tokens = torch.tensor(tokens)
        expected = target(tokens[None])[0, -2:].softmax(-1)
        assert torch.allclose(read(tokens, 2), expected, atol=1e-5)


def test_a_model_without_caches_is_read_anew():
    written = speculative(Chain(), DRAFTS["table"](), PROMPT, 9, generator=rng())
    assert torch.equal(written.tokens, generate(Chain(), PROMPT[None], 9, cached=False)[0])


def windowed(made):
    for block in made.body.blocks:
        block.attention.sublayer.pattern = local(4) & causal
    return made


def hybrid(made):
    made.body.blocks[0].attention.sublayer = GatedDelta(12, (2, 6))
    return made


@pytest.mark.parametrize("changed", [windowed, hybrid])
def test_windows_and_recurrent_states_change_nothing(changed):
    target = changed(model(1))
    expected = generate(target, PROMPT[None], 9)[0]
    written = speculative(target, DRAFTS["small model"](), PROMPT, 9, generator=rng())
    assert torch.equal(written.tokens, expected)
    drafted = ModelDraft(Reader(changed(model(1))), V)
    assert torch.equal(speculative(target, drafted, PROMPT, 9, generator=rng()).tokens, expected)


def test_it_stops_after_its_end():
    target = model(1)
    whole = generate(target, PROMPT[None], 20)[0]
    end = int(whole[9])
    first = whole[5:].tolist().index(end) + 6
    written = speculative(target, DRAFTS["copy"](), PROMPT, 20, eos=end, generator=rng())
    assert torch.equal(written.tokens, whole[:first])


def test_the_common_beginning():
    a = torch.tensor([1, 2, 3])
    assert [common(a, torch.tensor(b)) for b in ([1, 2, 3], [1, 2], [1, 3, 3], [2])] == [3, 2, 1, 0]


def test_what_cannot_be_is_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    for tokens, steps, K in (
        (PROMPT[None], 3, 1),
        (PROMPT[:0], 3, 1),
        (PROMPT, -1, 1),
        (PROMPT, 3, 0),
    ):
        with pytest.raises(ValueError, match="needs one sequence of at least 1 token"):
            speculative(model(1), Copy(V), tokens, steps, K)


def test_certain_is_one_hot():
    assert certain(torch.tensor([[1.0, 3.0, 2.0]])).tolist() == [[0, 1, 0]]


def test_no_more_positions_than_are_asked_for_go_through_the_output_layer():
    lm, read = model(1), []
    lm.lm_head.register_forward_pre_hook(lambda _, given: read.append(given[0].shape[1]))
    reader = Reader(lm)
    reader(PROMPT, 1)
    reader(torch.cat((PROMPT, torch.tensor([9, 2]))), 3)
    assert read == [1, 3]
