import jaxtyping
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnbook.attention import AdditiveScores, attend
from attnbook.masks import length_mask
from attnbook.recurrent import GRUCell, Layer, LSTMCell, Stack
from attnbook.seq2seq import (
    AttentionContext,
    Decoder,
    Encoder,
    FixedContext,
    Maxout,
    Memory,
    ProjectedStart,
    Seq2Seq,
    SummaryStart,
    ZeroStart,
    bahdanau_2015,
    cho_2014,
)

B, Tk, Tq, V, E, W = 3, 5, 4, 11, 2, 7
BOTH = [cho_2014, bahdanau_2015]


def sentences():
    torch.manual_seed(0)
    lengths = torch.tensor([5, 2, 3])
    return torch.randint(4, V, (B, Tk)), length_mask(lengths), torch.randint(4, V, (B, Tq))


@pytest.mark.parametrize("recipe", BOTH)
def test_padding_changes_neither_logits_nor_translation(recipe):
    source, mask, target = sentences()
    model = recipe(V, V, E, W)
    logits, _ = model(source, mask, target)
    alone, _ = model(source[1:2, :2], mask[1:2, :2], target[1:2])
    assert_close(logits[1:2], alone)
    source[~mask] = 9
    assert_close(model(source, mask, target)[0], logits)


@pytest.mark.parametrize("recipe", BOTH)
def test_greedy_feeds_back_the_arg_max_of_teacher_forcing(recipe):
    source, mask, _ = sentences()
    model = recipe(V, V, E, W)
    tokens, _ = model.greedy(source, mask, begin=1, end=V, limit=6)  # V never occurs: no early end
    fed = torch.cat((torch.ones(B, 1, dtype=torch.long), tokens[:, :-1]), 1)
    assert_close(model(source, mask, fed)[0].argmax(-1), tokens)


def test_greedy_stops_each_sentence_at_its_end():
    source, mask, _ = sentences()
    model = bahdanau_2015(V, V, E, W)
    free, _ = model.greedy(source, mask, begin=1, end=V, limit=8)
    end = int(free[0, 2])
    tokens, weights = model.greedy(source, mask, begin=1, end=end, limit=8)
    for row, unstopped in zip(tokens, free, strict=True):
        stop = (unstopped == end).nonzero()
        length = int(stop[0]) if len(stop) else len(unstopped)
        assert_close(row[:length], unstopped[: min(length, len(row))])
        assert (row[length:] == end).all()
    assert weights.shape == (*tokens.shape, Tk)


def test_weights_lie_on_the_source_only_and_sum_to_one():
    source, mask, target = sentences()
    _, weights = bahdanau_2015(V, V, E, W)(source, mask, target)
    assert_close(weights.sum(-1), torch.ones(B, Tq))
    assert (weights.mT[~mask] == 0).all()


def test_the_first_step_is_the_papers_equations_by_hand():
    source, mask, target = sentences()
    model = bahdanau_2015(V, V, E, W)
    memory = model.encoder(source, mask)
    decoder = model.decoder
    s = torch.tanh(decoder.to_start.to_start(memory.summary))
    score = decoder.context.score
    energy = score.to_score(
        torch.tanh(score.from_query(s)[:, None] + score.from_key(memory.states))
    )
    alpha = energy[..., 0].masked_fill(~mask, -torch.inf).softmax(-1)
    c = torch.einsum("bj,bjc->bc", alpha, memory.states)
    y = decoder.embed(target[:, 0])
    cell = nn.GRUCell(E + 2 * W, W)
    cell.weight_ih, cell.bias_ih = decoder.cell.from_input.weight, decoder.cell.from_input.bias
    cell.weight_hh, cell.bias_hh = decoder.cell.from_state.weight, decoder.cell.from_state.bias
    s = cell(torch.cat((y, c), -1), s)
    logits, weights = model(source, mask, target)
    assert_close(weights[:, 0], alpha)
    assert_close(logits[:, 0], decoder.lm_head(torch.cat((s, c, y), -1)))


def test_the_target_future_cannot_leak():
    source, mask, target = sentences()
    model = bahdanau_2015(V, V, E, W)
    before, _ = model(source, mask, target)
    target[:, 2:] = 4 + (target[:, 2:] - 3) % 7
    after, _ = model(source, mask, target)
    assert_close(after[:, :2], before[:, :2])
    assert not torch.allclose(after[:, 2:], before[:, 2:])


def test_fixed_context_gives_the_decoder_nothing_but_the_summary():
    source, mask, target = sentences()
    model = cho_2014(V, V, E, W)
    memory = model.encoder(source, mask)
    scrambled = memory._replace(states=torch.randn_like(memory.states))
    assert_close(model.decoder(target, scrambled), model.decoder(target, memory))


def test_gradient_reaches_the_source_embedding_without_any_alignment_given():
    source, mask, target = sentences()
    model = bahdanau_2015(V, V, E, W)
    model(source, mask, target)[0].logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("cell", [GRUCell, LSTMCell])
@pytest.mark.parametrize("start", [ZeroStart(W), SummaryStart(), ProjectedStart(W, W)])
def test_any_start_goes_with_any_cell_and_context(cell, start):
    source, mask, target = sentences()
    for context in (FixedContext(), AttentionContext(AdditiveScores(W, W, 3))):
        encoder = Encoder(nn.Embedding(V, E), Stack(Layer(cell(E, W))))
        decoder = Decoder(
            nn.Embedding(V, E), cell(E + W, W), context, start, nn.Linear(2 * W + E, V)
        )
        logits, _ = Seq2Seq(encoder, decoder)(source, mask, target)
        assert logits.shape == (B, Tq, V)


def test_starts_are_what_they_say():
    summary = torch.linspace(-1, 1, W)[None]
    assert (ZeroStart(3)(summary) == 0).all() and ZeroStart(3)(summary).shape == (1, 3)
    assert_close(SummaryStart()(summary), summary)


def test_attention_context_is_attend_with_one_query():
    source, mask, _ = sentences()
    memory = bahdanau_2015(V, V, E, W).encoder(source, mask)
    score, h = AdditiveScores(3, 2 * W, 5), torch.randn(B, 3)
    context, weights = AttentionContext(score)(h, memory)
    expected = attend(h[:, None], memory.states, memory.states, mask[:, None], score)
    assert_close((context, weights), (expected[0][:, 0], expected[1][:, 0]))


def test_maxout_takes_the_larger_of_each_pair():
    layer = Maxout(2, 3)
    x = torch.tensor([[1.0, -2.0]])
    pairs = layer.to_pairs(x)[0]
    assert_close(layer(x)[0], torch.stack([pairs[i : i + 2].max() for i in (0, 2, 4)]))


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for the reader
    source, mask, _ = sentences()
    with pytest.raises(ValueError, match="limit is at least 1 token; got 0"):
        cho_2014(V, V, E, W).greedy(source, mask, 1, 2, limit=0)
    decoder = cho_2014(V, V, E, W).decoder
    decoder.to_start = SummaryStart()
    with pytest.raises(ValueError, match="start has width 14, the decoder's cell 7"):
        decoder.start(Memory(torch.zeros(B, Tk, 2 * W), torch.zeros(B, 2 * W), mask))
