"""The translator on paper: its steps are those of the module, its story that of the chapter."""

import pytest
import torch
from torch.testing import assert_close

from attnbook.attention import attend
from bookkit.experiments import on_paper

TOLD = on_paper.WRITES[:-1]


def by_hand(looks, tanh=True, most=6):
    """The words of greedy decoding, with nothing of the module."""
    states, rows = torch.tensor(on_paper.STATES), torch.tensor(on_paper.TO_VOCAB)
    s, word, words = torch.zeros(2), "<s>", []
    while word != "</s>" and len(words) < most:
        sums = s + states
        scores = 2 * (sums.tanh() if tanh else sums).sum(-1)
        context = scores.softmax(-1) @ states if looks else states[-1]
        s = torch.tanh(s + torch.tensor(on_paper.VECTORS[word]) + context)
        word = on_paper.WRITES[int((rows @ s).argmax())]
        words.append(word)
    return words, s


@pytest.mark.parametrize(
    ("how", "looks", "tanh"),
    [(None, False, True), (on_paper.score(), True, True), (on_paper.Straight(), True, False)],
)
def test_the_module_s_decoder_writes_what_four_lines_by_hand_write(how, looks, tanh):
    words, s = by_hand(looks, tanh)
    found = on_paper.steps(how, limit=6)
    assert [step.said for step in found] == words
    assert_close(found[-1].state, s)


def test_with_attention_it_translates_and_with_one_vector_it_repeats_itself():
    assert [step.said for step in on_paper.steps(on_paper.score())] == on_paper.WRITES
    assert [step.said for step in on_paper.steps(None, limit=5)] == ["ma", *["voiture"] * 4]


def test_two_queries_make_two_maps_and_without_tanh_all_queries_make_one():
    _, second, third, _ = on_paper.steps(on_paper.score(), TOLD)
    assert second.weights.argmax() == 2 and third.weights.argmax() == 1
    straight = torch.stack([step.weights for step in on_paper.steps(on_paper.Straight(), TOLD)])
    assert_close(straight, straight[:1].expand(4, 3))
    states = torch.tensor(on_paper.STATES)
    assert_close(
        attend(second.query[None], states, states, score=on_paper.score())[0][0], second.context
    )


def test_the_loss_of_the_word_that_the_vector_has_lost_is_the_largest():
    one, looks = (on_paper.losses(on_paper.steps(how, TOLD)) for how in (None, on_paper.score()))
    assert one.argmax() == 2 and one[2] > 2.6 and one[[0, 1, 3]].max() < 0.1
    assert looks.max() < 0.1


def test_words_without_a_vector_are_refused():
    with pytest.raises(ValueError, match="the decoder reads <s>, ma, voiture, rouge; got noire"):
        on_paper.steps(None, ["ma", "noire"])
