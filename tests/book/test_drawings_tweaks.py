"""The drawings of chapter 9 print what the book's language model computes at one token."""

import re

import pytest
import torch
from torch import nn

from attnbook.attention import MultiHeadAttention, split_heads
from attnbook.block import Block, PreNorm, Stack
from attnbook.data import text
from attnbook.efficient.sparse import Sparse
from attnbook.feedforward import MLP, SwiGLU
from attnbook.inside.watch import watch
from attnbook.losses import token_loss
from attnbook.masks import causal_mask, local
from attnbook.norms import RMSNorm
from attnbook.scores import Score, repeat_kv
from attnbook.shipped.language import load
from attnbook.train.optimizers import Muon
from bookkit.drawings.bounded import Dial, bounded_scores
from bookkit.drawings.directions import half, relative, step_directions
from bookkit.drawings.gallery import GALLERY
from bookkit.drawings.gated import gated_units
from bookkit.drawings.pen import read
from bookkit.drawings.windows import T, kept, layer, ways, window_stacks
from bookkit.experiments import one_line


@pytest.fixture(scope="module")
def lm():
    return one_line.model()


def last(lm):
    """The last block of the model."""
    return lm.model.body.blocks[-1]


def row(pen, name):
    return torch.tensor([read(words) for words in pen.tables[name][0]]).double()


def near(numbers, tensor, digits=2):
    """Every number printed is the tensor's, half a digit off at most."""
    return bool(((numbers - tensor).abs() <= 0.5 * 10**-digits + 1e-5).all())


# -- a gate -------------------------------------------------------------------------------------


def test_the_bars_of_a_gate_multiply_to_what_the_module_s_network_narrows(lm):
    network = last(lm).feedforward.sublayer
    assert isinstance(network, SwiGLU)
    place = one_line.words(lm).index(" king")
    narrowed = []
    handle = network.down.register_forward_pre_hook(lambda _, given: narrowed.append(given[0]))
    with torch.no_grad():
        lm.model(lm.encode(one_line.LINE))
    handle.remove()
    inside = narrowed[0][0, place]
    drawing = gated_units(*one_line.hidden(lm), "king")
    for pen in (drawing.wide, drawing.tall):
        assert near(row(pen, "SwiGLU goes on"), inside[:8])
        assert pen.tables["SwiGLU value"] == pen.tables["ReLU value"]
        assert not near(row(pen, "ReLU goes on"), inside[:8])  # this test can fail


def test_without_a_gate_the_bars_are_those_of_an_mlp_with_the_same_matrix(lm):
    network = last(lm).feedforward.sublayer
    plain = MLP(256, 640, bias=False).double()
    plain.up.weight = network.up.weight
    x = one_line.given(lm, network)[one_line.words(lm).index(" king")]
    drawing = gated_units(*one_line.hidden(lm), "king")
    with torch.no_grad():
        y = plain.activation(plain.up(x))
    assert near(row(drawing.wide, "ReLU goes on"), y[:8])
    assert f"of 640 values {int((y > 0).sum())} pass<" in "".join(drawing.wide.marks)
    with torch.no_grad():
        gates = torch.nn.functional.silu(network.gate(x))
    words = f"of 640 gates {int((gates > 0.5).sum())} over ½, {int((gates < 0).sum())} below 0<"
    assert words in "".join(drawing.tall.marks)


def test_a_gate_needs_as_many_values():
    with pytest.raises(ValueError, match="at least 8 units fit; got \\(7,\\), \\(7,\\)"):
        gated_units(torch.randn(7), torch.randn(7), "it")


# -- scores with a bound ------------------------------------------------------------------------


def dials(lm):
    plain, normed = one_line.looks(lm, head=3)
    return bounded_scores(plain, normed, one_line.gain(lm), one_line.words(lm)[:12])


def test_the_weights_of_the_normed_dial_are_those_of_the_model_s_attention(lm):
    with torch.no_grad(), watch(lm.model) as seen:
        lm.model(lm.encode(one_line.LINE))
    weights = list(seen.values())[-1][0, 3, 11, :12]
    normed = one_line.looks(lm, head=3)[1]
    torch.testing.assert_close(normed.scores.softmax(-1), weights)
    drawing = dials(lm)
    for pen in (drawing.wide, drawing.tall):
        assert near(row(pen, "with QK-norm"), normed.scores, digits=1)
        assert f"its weight {weights.max():.2f}<".replace("0.", ".") in "".join(pen.marks)


def test_without_the_norm_the_same_head_would_score_as_the_left_dial_says(lm):
    other = one_line.model()
    attention = last(other).attention.sublayer
    attention.project.q_norm = attention.project.k_norm = None  # of the last block
    with torch.no_grad(), watch(other.model) as seen:
        other.model(other.encode(one_line.LINE))
    plain = one_line.looks(lm, head=3)[0]
    weights = list(seen.values())[-1][0, 3, 11, :12]
    torch.testing.assert_close(plain.scores.softmax(-1), weights)
    assert near(row(dials(lm).wide, "without a norm"), plain.scores, digits=0)


@torch.no_grad()
def test_head_and_query_have_the_largest_score_of_the_line_were_there_no_norm(lm):
    attention = last(lm).attention.sublayer
    project, turn = attention.project, attention.rotate
    parts = project.to_qkv(one_line.given(lm, attention)[None]).split(project.widths, -1)
    q, k, _ = (split_heads(part, project.D) for part in parts)
    scores = Score()(turn(q), repeat_kv(turn(k), q.shape[1]))[0]
    scores = scores.masked_fill(~causal_mask(scores.shape[-1]), 0)
    head, query, _ = torch.unravel_index(scores.abs().argmax(), scores.shape)
    assert (head, query) == (3, one_line.words(lm).index(" king"))


def test_a_key_s_tip_is_as_far_right_as_its_score_and_as_far_out_as_its_length():
    q, k = torch.tensor([3.0, 0, 0, 0]), torch.tensor([[2.0, 2, 0, 0], [-1, 0, 1, 0]])
    dial = Dial(q, k, digits=1)
    assert dial.tip(0, (0, 0), 1) == pytest.approx((3, -3))
    assert dial.tip(1, (100, 50), 10) == pytest.approx((85, 35))
    assert (dial.best, dial.least) == (0, 1)


def test_no_weights_lead_beyond_the_bound(lm):
    norm = last(lm).attention.sublayer.project.q_norm
    bound = one_line.gain(lm) ** 2 * 8
    q, k = (norm(1000 * torch.randn(500, 64).double()) for _ in range(2))
    loud = torch.zeros(64).double()
    loud[norm.weight.abs().argmax()] = 9.0  # everything on the channel of the largest gain
    with torch.no_grad():
        assert ((q @ k.T).abs() / 8).max() < bound
        assert (norm(loud) @ norm(loud)) / 8 == pytest.approx(bound)
    with pytest.raises(ValueError, match="within the bound"):
        bounded_scores(*one_line.looks(lm, head=3), 1.0, one_line.words(lm)[:12])


# -- windows ------------------------------------------------------------------------------------


def stacked(windows):
    layers = [MultiHeadAttention(8, 2) for _ in windows]
    parts = [
        Sparse(one, local(window)) if window else one
        for one, window in zip(layers, windows, strict=True)
    ]
    blocks = [Block(PreNorm(p, RMSNorm(8)), PreNorm(SwiGLU(8, 21), RMSNorm(8))) for p in parts]
    return Stack(blocks)


@pytest.mark.parametrize("windows", [[3, 3, 3, 3], [3, 3, 3, None], [3, None]])
def test_a_cone_holds_the_inputs_that_have_a_gradient(windows):
    torch.manual_seed(0)
    x = torch.randn(1, T, 8, requires_grad=True)
    stacked(windows)(x, mask=causal_mask(T))[0, -1].sum().backward()
    counts = ways([layer(window) for window in windows])[0]
    assert ((x.grad[0].norm(dim=-1) > 0) == (counts > 0)).all()


def test_ways_are_shares_if_every_layer_averages_what_it_sees():
    windows = [3, 3, 3]
    counts = ways([layer(window) for window in windows])[0]
    mean = torch.eye(T)
    for window in windows:
        mask = layer(window).float()
        mean = (mask / mask.sum(-1, keepdim=True)) @ mean
    torch.testing.assert_close(mean[-1], counts / 3**3)


def test_a_stack_says_its_ways_its_reach_and_its_keys():
    for pen in (window_stacks().wide, window_stacks().tall):
        marks = "".join(pen.marks)
        assert row(pen, "4 windows of 3 ways").tolist() == [0, 0, 0, 1, 4, 10, 16, 19, 16, 10, 4, 1]
        assert "reach 9 of 12, 12 of 48 keys kept<" in marks
        assert "reach 12 of 12, 21 of 48 keys kept<" in marks
        squares = len(re.findall('class="key f"[^>]* width="12"', marks))
        assert squares == kept([3, 3, 3, 3]) + kept([3, 3, 3, None]) == 33
    with pytest.raises(ValueError, match="2 to 4 layers fit; got 5"):
        window_stacks(5)


# -- directions ---------------------------------------------------------------------------------


def stepped(matrix, make):
    """What one step of an optimizer adds to a matrix whose gradient is this one."""
    weight = nn.Parameter(torch.zeros_like(matrix))
    weight.grad = matrix.clone()
    make([weight]).step()
    return weight.detach()


def test_the_profiles_are_those_of_the_optimizers_first_steps(lm):
    gradient = one_line.gradient(lm)
    adam = stepped(gradient, lambda params: torch.optim.Adam(params, lr=1.0, eps=1e-20))
    muon = stepped(gradient, lambda params: Muon(params, lr=1.0))
    drawing = step_directions(gradient)
    steps = {"gradient": gradient, "Adam's first step": adam, "Muon's first step": muon}
    for name, step in steps.items():
        values = relative(step)
        for pen in (drawing.wide, drawing.tall):
            strongest, strong = (read(words) for words in pen.tables[name][0])
            assert strongest == pytest.approx(values[0].item(), abs=0.051)
            assert strong == half(values)
    with pytest.raises(ValueError, match="at least 8 directions"):
        step_directions(torch.randn(7, 9))


def test_the_gradient_is_that_of_the_loss(lm):
    """A step against it lowers the loss by its squared length, to first order."""
    tokens = torch.tensor(lm.tokenizer.encode(text.load().train[:20_000]).ids)
    x, y = (tokens[i : i + 1024].view(8, 128) for i in (0, 1))
    gradient, matrix = one_line.gradient(lm), last(lm).feedforward.sublayer.gate.weight
    with torch.no_grad():
        before = token_loss(lm.model(x), y)
        matrix -= 1e-3 * gradient
        after = token_loss(lm.model(x), y)
        matrix += 1e-3 * gradient
    assert (before - after).item() == pytest.approx(1e-3 * gradient.square().sum().item(), rel=0.01)


def test_half_of_the_squared_length():
    assert half(torch.tensor([2.0, 1, 1, 1])) == 1
    assert half(torch.ones(10)) == 5
    assert relative(torch.diag(torch.tensor([4.0, 3, 0]))).tolist() == pytest.approx(
        [4 * 3**0.5 / 5, 3 * 3**0.5 / 5, 0], abs=1e-6
    )


# -- the same everywhere ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gated_units", "bounded_scores", "step_directions"])
def test_a_float_s_error_does_not_move_a_mark(lm, name, monkeypatch):
    """Nothing that is drawn lies so near to a border that another machine would round it away."""
    first = GALLERY[name]().html()
    torch.manual_seed(0)

    def shaken():
        other = load("book-lm")
        other.model.double()
        with torch.no_grad():
            for weight in other.model.parameters():
                weight *= 1 + 1e-9 * torch.randn_like(weight)
        return other

    monkeypatch.setattr(one_line, "model", shaken)
    assert GALLERY[name]().html() == first
