import jaxtyping
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from attnbook.masks import length_mask
from attnbook.recurrent import BothWays, GRUCell, Layer, LSTMCell, RNNCell, Stack, language_model

B, T, C, W, V = 3, 5, 2, 7, 11
PAIRS = [(RNNCell, nn.RNN), (LSTMCell, nn.LSTM), (GRUCell, nn.GRU)]


def copy_from_torch(cell, theirs, suffix="_l0"):
    for ours, name in ((cell.from_input, "ih"), (cell.from_state, "hh")):
        ours.weight.data = getattr(theirs, f"weight_{name}{suffix}").data.clone()
        ours.bias.data = getattr(theirs, f"bias_{name}{suffix}").data.clone()


def hidden(end):
    return end[0] if isinstance(end, tuple) else end


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_layer_is_torchs_forward_and_gradient(ours, theirs):
    torch.manual_seed(0)
    layer, reference = Layer(ours(C, W)), theirs(C, W, batch_first=True)
    copy_from_torch(layer.cell, reference)
    x, y = (torch.arange(B * T * C).view(B, T, C).sin().requires_grad_() for _ in range(2))
    (outputs, state), (expected, end) = layer(x), reference(y)
    assert_close(outputs, expected)
    for mine, last in zip(state, end if isinstance(end, tuple) else (end,), strict=True):
        assert_close(mine, last[0])
    outputs.square().sum().backward()
    expected.square().sum().backward()
    assert_close(x.grad, y.grad)
    assert_close(layer.cell.from_state.weight.grad, reference.weight_hh_l0.grad)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_two_bidirectional_layers_over_padded_sentences_are_torchs_packed_ones(ours, theirs):
    torch.manual_seed(0)
    reference = theirs(C, W, num_layers=2, bidirectional=True, batch_first=True)
    layers = [BothWays(Layer(ours(width, W)), Layer(ours(width, W))) for width in (C, 2 * W)]
    for i, layer in enumerate(layers):
        copy_from_torch(layer.ahead.cell, reference, f"_l{i}")
        copy_from_torch(layer.back.cell, reference, f"_l{i}_reverse")
    lengths = torch.tensor([5, 2, 3])
    x = torch.randn(B, T, C)
    outputs, states = Stack(*layers)(x, length_mask(lengths))
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, end = reference(packed)
    expected, _ = pad_packed_sequence(expected, batch_first=True)
    there = length_mask(lengths)
    assert_close(outputs[there], expected[there])
    assert_close(states[-1][0], torch.cat((hidden(end)[-2], hidden(end)[-1]), -1))


@pytest.mark.parametrize("cell", [RNNCell, LSTMCell, GRUCell])
def test_reading_in_two_parts_is_reading_at_once(cell):
    stack = Stack(Layer(cell(C, W)), Layer(cell(W, W)))
    x = torch.randn(B, T, C)
    whole, end = stack(x)
    first, state = stack(x[:, :2])
    second, state = stack(x[:, 2:], state=state)
    assert_close(torch.cat((first, second), 1), whole)
    assert_close(state, end)


@pytest.mark.parametrize("cell", [RNNCell, LSTMCell, GRUCell])
def test_a_cell_alone_is_one_step_of_its_layer(cell):
    cell = cell(C, W)
    x = torch.randn(B, 1, C)
    assert_close(Layer(cell)(x)[1], cell(x[:, 0], cell.start(B)))


def test_the_future_cannot_leak_into_a_recurrent_output():
    model = language_model(GRUCell, V, W, layers=2)
    embedded = torch.randn(1, T, W, requires_grad=True)
    model.body(embedded)[0][0, 2].sum().backward()
    assert (embedded.grad[0, 3:] == 0).all() and (embedded.grad[0, :3] != 0).all()


def test_padding_leaves_the_state_alone():
    layer = Layer(LSTMCell(C, W))
    x = torch.randn(1, T, C)
    mask = length_mask(torch.tensor([3]), T)
    assert_close(layer(x, mask)[1], layer(x[:, :3])[1])


def test_open_gates_carry_the_state_through_unchanged():
    cell = GRUCell(C, W)
    nn.init.zeros_(cell.from_state.bias)
    cell.from_input.bias.data[W : 2 * W] = 50.0  # keep = 1
    state = (torch.linspace(-1, 1, W).expand(B, W),)
    assert_close(cell(torch.randn(B, C), state), state)


def test_parameters_are_in_the_ratio_of_the_gates():
    count = {cell: sum(p.numel() for p in cell(5, 13).parameters()) for cell, _ in PAIRS}
    assert count[LSTMCell] == 4 * count[RNNCell] and count[GRUCell] == 3 * count[RNNCell]


def test_samples_follow_the_model_and_repeat_with_the_generator():
    model = language_model(RNNCell, V, W)
    nn.init.zeros_(model.lm_head.weight)
    model.lm_head.bias.data = torch.tensor([0.0, 3.0] + [-100.0] * (V - 2))
    start = torch.zeros(2, 1, dtype=torch.long)
    drawn = model.sample(start, 400, torch.Generator().manual_seed(1))
    assert_close(drawn, model.sample(start, 400, torch.Generator().manual_seed(1)))
    expected = torch.tensor([0.0, 3.0]).softmax(0)[1].item()
    assert drawn.float().mean() == pytest.approx(expected, abs=0.03)
    cold = model.sample(start, 50, torch.Generator().manual_seed(1), temperature=0.05)
    assert (cold == 1).all()


def test_a_language_model_learns_what_a_bigram_table_cannot():
    """The next of 0 0 1 1 0 0 1 1 … depends on the two tokens before."""
    torch.manual_seed(0)
    tokens = torch.tensor([0, 0, 1, 1] * 6)[None]
    model = language_model(RNNCell, 2, 8)
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    for _ in range(120):
        logits, _ = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits[0, 1:], tokens[0, 2:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1  # the best bigram table has ln 2 = 0.69


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as for the reader
    with pytest.raises(ValueError, match="got input 0, state 3"):
        GRUCell(0, 3)
    with pytest.raises(ValueError, match="at least 1 layer; got 0"):
        language_model(GRUCell, V, W, layers=0)
    with pytest.raises(ValueError, match=r"mask \(3, 4\) does not fit \(B, T\) = \(3, 5\)"):
        Layer(GRUCell(C, W))(torch.zeros(B, T, C), torch.ones(B, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"width 2 is needed; got x \(3, 5, 3\)"):
        Layer(GRUCell(C, W))(torch.zeros(B, T, 3))
    with pytest.raises(ValueError, match=r"at least 1 step .* got x \(3, 0, 2\)"):
        Layer(GRUCell(C, W))(torch.zeros(B, 0, C))
    with pytest.raises(ValueError, match="a state of LSTMCell holds 2 tensors; got 1"):
        Layer(LSTMCell(C, W))(torch.zeros(B, T, C), state=(torch.zeros(B, W),))
    with pytest.raises(ValueError, match="at least 1 layer; got 0"):
        Stack()
    for steps, temperature in ((1, 0.0), (0, 1.0)):
        with pytest.raises(ValueError, match=f"got {steps}, {temperature}"):
            model = language_model(GRUCell, V, W)
            start = torch.zeros(1, 1, dtype=torch.long)
            model.sample(start, steps, torch.Generator(), temperature)
    with pytest.raises(ValueError, match="takes no state"):
        both = BothWays(Layer(GRUCell(C, W)), Layer(GRUCell(C, W)))
        both(torch.zeros(B, T, C), state=(torch.zeros(B, W),))
