"""Scores that are learned are their papers' formulas, pair by pair."""

import jaxtyping
import pytest
import torch
from torch.testing import assert_close

from attnbook.attention import AdditiveScores, MultiplicativeScores

B, Tq, Tk, D = 2, 3, 5, 7


@pytest.fixture
def qk():
    torch.manual_seed(0)
    return torch.randn(B, Tq, D), torch.randn(B, Tk, 4)


def test_additive_scores_are_the_papers_formula_pair_by_pair(qk):
    q, k = qk
    score = AdditiveScores(query_width=D, key_width=4, width=6)
    W, U, v = score.from_query.weight, score.from_key.weight, score.to_score.weight[0]
    for b in range(B):
        for i in range(Tq):
            for j in range(Tk):
                by_hand = v @ torch.tanh(W @ q[b, i] + U @ k[b, j])
                assert_close(score(q, k)[b, i, j], by_hand)


def test_multiplicative_scores_are_q_W_k_pair_by_pair(qk):
    q, k = qk
    score = MultiplicativeScores(query_width=D, key_width=4)
    W = score.to_query.weight
    assert_close(score(q, k), torch.einsum("bid,de,bje->bij", q, W, k))


def test_bad_input_is_named(monkeypatch, qk):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for the reader
    for score in (AdditiveScores(D, 3, 4), MultiplicativeScores(D, 3)):
        with pytest.raises(ValueError, match="keys 4; this score was made for 7 and 3"):
            score(*qk)
