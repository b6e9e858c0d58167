"""Answers that share their question in one row: equal to rows of their own, and what is refused."""

import pytest
import torch
from torch.testing import assert_close

from attnbook.models.gemma import gemma3
from attnbook.models.gpt2 import gpt2
from attnbook.train.preferences import advantages, answer_log_probs, policy_loss
from attnbook.train.shared_prefix import tree, tree_logits

EXAMPLES, QUESTIONS = [2, 7, 1, 8], [[5, 3], [6, 6, 4]]
ANSWERS = [[[9, 1], [4]], [[4, 2, 2], [9, 1]]]  # of each question
SEGMENTS = [EXAMPLES, *QUESTIONS, *(answer for some in ANSWERS for answer in some)]
PARENTS = [-1, 0, 0, 1, 1, 2, 2]
PACKED = tree(SEGMENTS, PARENTS)
IN_ANSWERS = PACKED.segment > 2


def family(name, window=64):
    torch.manual_seed(0)
    if name == "gpt2":  # learned positions
        return gpt2(V=11, T=16, width=12, depth=2, heads=3, dropout=0.0)
    sizes = {"width": 16, "depth": 2, "heads": 2, "kv_heads": 1, "D": 8, "hidden": 24}
    return gemma3(V=11, windows=(window, None), scale=8**-0.5, **sizes)


def together(model, packed=PACKED):
    """log p of the answers' tokens, from one row."""
    logits = tree_logits(model, packed, packed.before[IN_ANSWERS])
    return logits.log_softmax(-1).gather(1, packed.tokens[0, IN_ANSWERS][:, None])[:, 0]


def apart(model):
    """log p of the answers' tokens, each text in a row of its own."""
    found = []
    for question, answers in zip(QUESTIONS, ANSWERS, strict=True):
        for answer in answers:
            row = torch.tensor([[*EXAMPLES, *question, *answer]])
            wanted = torch.arange(row.shape[1])[None] >= row.shape[1] - len(answer)
            found.append(answer_log_probs(model, row, wanted)[0, -len(answer) :])
    return found


@pytest.mark.parametrize("name", ["gemma3", "gpt2"])
def test_a_packed_row_says_what_rows_of_their_own_say(name):
    model = family(name)
    assert_close(together(model), torch.cat(apart(model)))


@pytest.mark.parametrize("name", ["gemma3", "gpt2"])
def test_the_gradient_of_the_policy_loss_is_that_of_rows_of_their_own(name):
    model, A = family(name), advantages(torch.tensor([[1.0, 0], [0, 1]])).flatten()
    each, gradients = A[PACKED.segment[IN_ANSWERS] - 3][None], []
    for log_probs in (together(model), torch.cat(apart(model))):
        model.zero_grad()
        policy_loss(log_probs[None], each, torch.ones_like(each, dtype=torch.bool)).backward()
        gradients.append([w.grad.clone() for w in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert_close(one, other)
    assert any(g.abs().max() > 1e-3 for g in gradients[0])


def test_vectors_that_are_given_are_not_looked_up():
    model = family("gemma3")
    x = model.embed(PACKED.tokens, PACKED.positions)
    expected = tree_logits(model, PACKED, PACKED.ends)
    assert torch.equal(tree_logits(model, PACKED, PACKED.ends, x), expected)
    assert not torch.equal(tree_logits(model, PACKED, PACKED.ends, 2 * x.roll(1, 1)), expected)


def test_an_answer_does_not_see_another():
    model = family("gemma3")
    other = tree([*SEGMENTS[:-1], [3, 10]], PARENTS)
    before, after = (together(model, x) for x in (PACKED, other))
    assert_close(before[:-2], after[:-2])
    assert not torch.allclose(before[-2:], after[-2:])


def test_positions_are_counted_along_each_text():
    expected = [0, 1, 2, 3, 4, 5, 4, 5, 6, 6, 7, 6, 7, 8, 9, 7, 8]
    assert PACKED.positions.tolist() == expected


@pytest.mark.parametrize(
    ("segments", "parents", "message"),
    [
        ([[1], []], [-1, 0], "segment 1 is empty"),
        ([[1], [2]], [-1, 1], "continues an earlier one"),
        ([[1], [2]], [-1], "a parent for each segment; got 1 for 2"),
    ],
)
def test_what_is_no_tree_is_refused(segments, parents, message):
    with pytest.raises(ValueError, match=message):
        tree(segments, parents)


def test_a_window_shorter_than_the_row_is_refused():
    with pytest.raises(ValueError, match="sees 16 tokens of the row, which has 17"):
        together(family("gemma3", window=16))


def test_a_place_outside_the_row_is_refused():
    with pytest.raises(ValueError, match="places are those of one or more tokens"):
        tree_logits(family("gemma3"), PACKED, PACKED.before)  # nothing stands before the first


def test_the_last_tokens_of_segments_are_where_answers_begin():
    assert PACKED.tokens[0, PACKED.ends[:3]].tolist() == [8, 3, 4]
    first = torch.tensor([n for n in range(len(PACKED.segment)) if PACKED.segment[n] == 5])[0]
    assert PACKED.before[first] == PACKED.ends[2]
