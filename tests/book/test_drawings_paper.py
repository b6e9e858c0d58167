"""The drawings of the translator on paper print what its decoder computes."""

from html import escape

import pytest
import torch

from bookkit.drawings.looking import three_scores, two_looks
from bookkit.drawings.pen import printed, read
from bookkit.drawings.translating import decoding_step, encoder_decoder, token_losses
from bookkit.experiments import on_paper

ONE = on_paper.steps(None, on_paper.WRITES[:-1])
LOOKS = on_paper.steps(on_paper.score())


def agrees(table, tensor):
    cells = torch.tensor([[read(words) for words in row] for row in table])
    return cells.shape == tensor.shape and bool(((cells - tensor).abs() <= 0.00501).all())


def both(drawing):
    return drawing.wide, drawing.tall


def test_the_last_state_is_the_context_and_every_word_is_read_and_said():
    for pen in both(encoder_decoder(ONE)):
        assert pen.tables["c"] == pen.tables["h3"] == [["2"], ["0"]]
        marks = "".join(pen.marks)
        assert all(f">{escape(word)}<" in marks for word in (*on_paper.READS, *on_paper.WRITES))
        assert all(marks.count(f">{word}<") == 2 for word in ("ma", "voiture", "rouge"))
    with pytest.raises(ValueError, match="four steps of the decoder fit; got 3"):
        encoder_decoder(ONE[:3])


def test_a_step_prints_its_sum_its_state_and_its_probabilities():
    step = ONE[1]
    for pen in both(decoding_step(step)):
        total = step.query + step.y + step.context
        assert agrees(pen.tables["sum"], total[:, None])
        assert agrees(pen.tables["state"], total.tanh()[:, None])
        assert agrees(pen.tables["p"], step.p[None])
        assert agrees([pen.tables[f"logit{n}"][0] for n in range(4)], step.logits[:, None])


def test_each_loss_is_that_of_the_framed_probability():
    for pen in both(token_losses(ONE)):
        for n, step in enumerate(ONE):
            assert agrees(pen.tables[f"target{n}"], torch.eye(4)[:, n : n + 1])
            assert agrees(pen.tables[f"predicted{n}"], step.p[:, None])
            nat = -float(step.p[n].log())
            assert f"= {printed(nat)}<" in "".join(pen.marks)
        assert f"their mean, {printed(on_paper.losses(ONE).mean().item())} nats<" in "".join(
            pen.marks
        )


def test_two_looks_print_scores_contexts_and_states_of_their_steps():
    for pen in both(two_looks(*LOOKS[1:3])):
        for name, step in zip(("first", "second"), LOOKS[1:3], strict=True):
            scores = [pen.tables[f"{name} score{n}"][0] for n in range(3)]
            assert agrees(scores, step.scores[:, None])
            assert agrees(pen.tables[f"{name} context"], step.context[None])
            assert agrees(pen.tables[f"{name} state"], step.state[None])
        assert pen.tables["first state"] == pen.tables["second query"]
    with pytest.raises(ValueError, match="one has no weights"):
        two_looks(LOOKS[1], ONE[2])


def test_three_scores_of_one_pair():
    s, h = torch.tensor([-1.0, 1.0]), torch.tensor([2.0, 0.0])
    expected = (s @ h, -s @ h, 2 * (s + h).tanh().sum())
    for pen in both(three_scores()):
        for name, score in zip(("dot", "general", "additive"), expected, strict=True):
            assert agrees(pen.tables[f"{name} score"], score.reshape(1, 1))
    with pytest.raises(ValueError, match="a query and a key of two numbers fit; got 3 and 2"):
        three_scores((1, 2, 3))
