"""Small translators: what counts as right, what training teaches, and where they look."""

import pytest
import torch
from torch import nn

from attnbook import seq2seq
from attnbook.attention import AdditiveScores
from attnbook.data import digits, pairs
from attnbook.data.vocabulary import END
from attnbook.recurrent import GRUCell, Layer
from bookkit.experiments import translators

TOY = pairs.load("toy")
STRINGS = digits.by_length(digits.reverse, [4], B=6)[4]


class Says(nn.Module):
    """A model that writes these tokens, whatever it reads."""

    def __init__(self, tokens):
        super().__init__()
        self.tokens = tokens

    def greedy(self, source, mask, begin, end, limit):
        return self.tokens[:, :limit], None


def attention():
    return seq2seq.AttentionContext(AdditiveScores(48, 48, 48))


def test_an_answer_is_right_if_all_of_it_is():
    truth = STRINGS.target_out
    assert translators.right(Says(truth), STRINGS).all()
    wrong = truth.clone()
    wrong[2, 3] = digits.FIRST + (wrong[2, 3] - digits.FIRST + 1) % 10
    assert translators.right(Says(wrong), STRINGS).tolist() == [n != 2 for n in range(6)]


def test_an_answer_that_stops_early_is_wrong_and_padding_does_not_count():
    truth = STRINGS.target_out
    assert not translators.right(Says(truth[:, :3]), STRINGS).any()
    mixed = digits.reverse(20, 2, 5)(torch.Generator().manual_seed(0))
    filled = mixed.target_out.masked_fill(~mixed.target_mask, END)
    assert translators.right(Says(filled), mixed).all()


def test_the_loss_is_low_for_a_model_that_knows_and_padding_does_not_count():
    mixed = digits.reverse(20, 2, 5)(torch.Generator().manual_seed(0))

    class Knows(nn.Module):
        def forward(self, source, mask, target_in):
            sure = 9.0 * nn.functional.one_hot(mixed.target_out, digits.V)
            return torch.where(mixed.target_mask[..., None], sure, -sure), None

    assert translators.loss(Knows(), mixed) < 0.01


def test_the_seed_decides_and_a_few_steps_teach_something():
    build = lambda: seq2seq.bahdanau_2015(digits.V, digits.V, 8, 8)  # noqa: E731
    strings = digits.reverse(16, 2, 3)
    (one, losses), (two, same), (_, other) = (
        translators.fit(build, strings, steps=25, seed=seed) for seed in (0, 0, 1)
    )
    assert losses == same != other
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    assert losses[-1] < losses[0] - 0.2


@pytest.mark.parametrize(
    ("body", "start"),
    [
        (None, None),
        (Layer(GRUCell(32, 48)), seq2seq.SummaryStart()),
        (None, seq2seq.ZeroStart(48)),
    ],
)
def test_parts_fit_together(body, start):
    model = translators.assemble(TOY, attention(), body, start)
    share = translators.right_pairs(model, TOY, TOY.test[:7])
    assert share.shape == (7,) and share.max() <= 1


def test_a_map_has_a_row_for_each_word_written_and_a_column_for_each_word_read():
    weights, words = translators.align(translators.assemble(TOY, attention()), TOY, ["my", "car"])
    assert weights.shape == (len(words), 2)
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(words)))


def test_what_cannot_be_aligned_is_named():
    model = translators.assemble(TOY, attention())
    with pytest.raises(ValueError, match="unknown: theorem"):
        translators.align(model, TOY, ["my", "theorem"])
    with pytest.raises(ValueError, match="unknown: none"):
        translators.align(model, TOY, [])
    fixed = translators.assemble(TOY, seq2seq.FixedContext())
    with pytest.raises(ValueError, match="one context for all words"):
        translators.align(fixed, TOY, ["my", "car"])
