"""Drafts from the model's own hidden state: no second reading, and no change of what is written."""

import pytest
import torch
from scipy.stats import chi2
from torch import nn
from torch.nn import functional as F

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm
from attnbook.feedforward import SwiGLU
from attnbook.generate.multi_token import (
    ChainDraft,
    Heads,
    HeadsDraft,
    MultiToken,
    Watched,
    heads_loss,
)
from attnbook.generate.sampling import generate, temperature, top_k
from attnbook.generate.speculative import after, certain, speculative
from attnbook.masks import causal, local
from attnbook.models.llama import llama
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.recurrence.gated_delta import GatedDelta

V, WIDTH = 11, 12
PROMPT = torch.tensor([3, 1, 4, 1, 5])


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def strong(part):
    """Weights large enough to prefer some tokens."""
    for weight in part.parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=0.5)
    return part


def model(seed=1):
    torch.manual_seed(seed)
    return strong(llama(V=V, width=WIDTH, depth=2, heads=2, kv_heads=1, hidden=20))


def block():
    attention = MultiHeadAttention(WIDTH, 3, rotate=Rotary(4), bias=False)
    inside = Block(PreNorm(attention, RMSNorm(WIDTH)), PreNorm(SwiGLU(WIDTH, 20), RMSNorm(WIDTH)))
    return strong(MultiToken(WIDTH, inside, *(RMSNorm(WIDTH) for _ in range(3))))


def heads_of(watched, chances):
    return HeadsDraft(watched, strong(Heads(watched.model.lm_head, 4)), chances)


def chain_of(watched, chances):
    return ChainDraft(watched, block(), V, chances)


KINDS = pytest.mark.parametrize("draft_of", [heads_of, chain_of])


@KINDS
@pytest.mark.parametrize("K", [1, 2, 4])
def test_greedy_is_what_generate_writes(draft_of, K):
    watched = Watched(model())
    expected = generate(watched.model, PROMPT[None], 13)[0]
    written = speculative(watched, draft_of(watched, certain), PROMPT, 13, K, generator=rng())
    assert torch.equal(written.tokens, expected)
    assert written.calls + written.kept == 13 and written.proposed > 0


@pytest.mark.slow
@KINDS
def test_drawn_text_has_the_distribution_of_sampled_text(draft_of):
    """The second and the third new token, which are drafted: χ² against sums over what may stand
    before them, computed exactly."""
    how, N = after(temperature(1.5), top_k(4)), 200
    watched, g = Watched(model()), rng(3)
    propose = draft_of(watched, how)
    two = torch.cartesian_prod(torch.arange(V), torch.arange(V))
    with torch.no_grad():
        logits = watched.model(torch.cat((PROMPT.expand(V * V, -1), two), 1))
    first, then, last = (how(logits[:, i]).view(V, V, V) for i in (-3, -2, -1))
    both = first[0, 0][:, None] * then[:, 0]  # the chances of the first two
    runs = [speculative(watched, propose, PROMPT, 4, 2, how, g) for _ in range(N)]
    written = torch.stack([run.tokens for run in runs])[:, len(PROMPT) :]
    assert N / 5 < sum(run.kept for run in runs) < sum(run.proposed for run in runs) - N / 5
    for place, p in ((1, both.sum(0)), (2, (both[..., None] * last).sum((0, 1)))):
        found, expected = written[:, place].bincount(minlength=V), N * p
        often = expected > 5
        distance = ((found - expected).square() / expected)[often].sum()
        assert distance < chi2.ppf(0.999, int(often.sum()))


@KINDS
def test_the_model_is_called_no_more_often_than_speculative_counts(draft_of, monkeypatch):
    """The hidden state is that of the checking call; nothing reads a token twice for a draft."""
    target, read = model(), []
    body = target.body.forward
    monkeypatch.setattr(
        target.body, "forward", lambda x, **n: read.append(len(x[0])) or body(x, **n)
    )
    watched = Watched(target)
    written = speculative(watched, draft_of(watched, certain), PROMPT, 13, 3, generator=rng())
    assert len(read) == written.calls
    assert sum(read) == len(PROMPT) + written.calls - 1 + written.proposed


def test_the_kept_hidden_states_are_those_of_a_reading_from_the_start():
    watched = Watched(model())
    written = speculative(watched, heads_of(watched, certain), PROMPT, 9, 3, generator=rng())
    kept = watched.before_last(written.tokens)
    expected = watched.model.body(watched.model.embed(written.tokens[None]), mask=causal)[0, :-1]
    assert torch.allclose(kept, expected, atol=1e-5)


def test_a_chain_proposes_what_its_block_says_when_it_reads_all_anew():
    watched = Watched(model())
    draft = chain_of(watched, certain)
    text = speculative(watched, draft, PROMPT, 9, 2, generator=rng()).tokens
    embed, lm_head = watched.model.embed, watched.model.lm_head
    for tokens in (text, text[:9]):  # the second has been read, and more
        with torch.no_grad():
            hidden = watched.model.body(embed(tokens[None]), mask=causal)[:, :-1]
            embedded, expected = embed(tokens[None, 1:]), []
            for _ in range(3):
                state = draft.block(hidden, embedded)
                expected.append(lm_head(state[0, -1]).argmax())
                hidden = torch.cat((hidden, state[:, -1:]), 1)
                embedded = torch.cat((embedded, embed(expected[-1].view(1, 1))), 1)
        assert draft(tokens, 3)[0].tolist() == [int(token) for token in expected]


@KINDS
def test_another_text_than_was_read_is_proposed_nothing(draft_of):
    watched = Watched(model())
    draft = draft_of(watched, certain)
    assert not len(draft(PROMPT, 3)[0])  # nothing was read yet
    watched(PROMPT[None])
    assert len(draft(torch.cat((PROMPT, PROMPT[:1])), 3)[0]) == 3
    assert len(draft(PROMPT, 3)[0]) == 3 and not len(draft(PROMPT, 0)[0])
    assert not len(draft(torch.tensor([3, 2, 4]), 3)[0]) and not len(draft(PROMPT[:1], 3)[0])


def windowed(made):
    for one in made.body.blocks:
        one.attention.sublayer.pattern = local(4) & causal
    return made


def hybrid(made):
    made.body.blocks[0].attention.sublayer = GatedDelta(12, (2, 6))
    return made


@KINDS
@pytest.mark.parametrize("changed", [windowed, hybrid])
def test_windows_and_recurrent_states_change_nothing(changed, draft_of):
    watched = Watched(changed(model()))
    expected = generate(watched.model, PROMPT[None], 9)[0]
    written = speculative(watched, draft_of(watched, certain), PROMPT, 9, generator=rng())
    assert torch.equal(written.tokens, expected)


def test_new_heads_say_what_the_model_says():
    made = model()
    hidden = torch.randn(5, WIDTH)
    assert torch.allclose(Heads(made.lm_head, 3)(hidden), made.lm_head(hidden).expand(3, -1, -1))


def test_the_loss_is_the_formula():
    made = model()
    heads = strong(Heads(made.lm_head, 2))
    tokens = torch.randint(V, (2, 7), generator=rng(1))
    hidden, expected = made.body(made.embed(tokens), mask=causal), 0.0
    for k in (1, 2):
        own = hidden + F.silu(hidden @ heads.W[k - 1])
        logits = (own @ heads.lm_head[k - 1].T)[:, : 7 - 3]
        targets = tokens[:, k + 1 : k + 5]
        expected += 0.8**k * F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss = heads_loss(made, heads, tokens)
    loss.backward()
    assert torch.allclose(loss, expected)
    assert all(weight.grad is None for weight in made.parameters())
    assert heads.W.grad is not None and heads.lm_head.grad is not None


def test_trained_on_text_that_counts_both_are_nearly_always_right():
    """In a text that counts round, one call in four writes all the rest."""
    made, g = model(), rng(2)
    optimizer = torch.optim.Adam(made.parameters(), lr=0.01)

    def text():
        return (torch.arange(9) + torch.randint(V, (16, 1), generator=g)) % V

    for _ in range(80):
        tokens = text()
        loss = F.cross_entropy(made(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    heads = Heads(made.lm_head, 3)
    optimizer = torch.optim.Adam(heads.parameters(), lr=0.01)
    for _ in range(80):
        loss = heads_loss(made, heads, text())
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    watched = Watched(made)
    written = speculative(watched, HeadsDraft(watched, heads), torch.tensor([3, 4]), 9, K=3)
    assert written.tokens.tolist() == [3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2]
    assert written.kept == written.proposed == 6 and written.calls == 3


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="at least 1 head; got K = 0"):
        Heads(model().lm_head, 0)
    with pytest.raises(ValueError, match="3 tokens are too few to look 3 ahead"):
        heads_loss(model(), Heads(model().lm_head, 2), torch.ones(1, 3, dtype=torch.long))
