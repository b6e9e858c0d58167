from functools import partial

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from transformers import T5Config
from transformers.activations import QuickGELUActivation, XIELUActivation
from transformers.models.t5.modeling_t5 import T5DenseGatedActDense

from attnbook.experts import MixtureOfExperts, active_parameters, balance_loss, expert_shares
from attnbook.feedforward import MLP, XIELU, GatedMLP, QuickGELU, SquaredReLU, SwiGLU, swiglu_hidden
from attnbook.inside.watch import watch

B, T, C, HIDDEN = 2, 3, 5, 7
ACTIVATIONS = [None, nn.GELU(), nn.GELU(approximate="tanh")]


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_an_mlp_is_two_convolutions_of_width_one(activation, bias):
    mlp = MLP(C, HIDDEN, activation, bias)
    wide, narrow = nn.Conv1d(C, HIDDEN, 1, bias=bias), nn.Conv1d(HIDDEN, C, 1, bias=bias)
    for conv, linear in ((wide, mlp.up), (narrow, mlp.down)):
        conv.weight.data = linear.weight.data[..., None].clone()
        if bias:
            conv.bias.data = linear.bias.data.clone()
    x, y = (torch.arange(B * T * C).view(B, T, C).cos().requires_grad_() for _ in range(2))
    ours, theirs = mlp(x), narrow((activation or F.relu)(wide(y.mT))).mT
    assert_close(ours, theirs)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    assert_close(x.grad, y.grad)
    assert_close(mlp.up.weight.grad, wide.weight.grad[..., 0])
    assert_close(mlp.down.weight.grad, narrow.weight.grad[..., 0])


def test_an_mlp_by_hand():
    mlp = MLP(1, 2)
    mlp.up.weight.data, mlp.up.bias.data = torch.tensor([[1.0], [-1.0]]), torch.tensor([0.0, -1])
    mlp.down.weight.data, mlp.down.bias.data = torch.tensor([[1.0, 2.0]]), torch.tensor([0.5])
    x = torch.tensor([[3.0], [-3.0], [-0.5]])
    assert_close(mlp(x), torch.tensor([[3.5], [4.5], [0.5]]))


def test_swiglu_is_its_formula():
    swiglu, x = SwiGLU(C, HIDDEN).double(), torch.randn(B, T, C, dtype=torch.float64)
    W, V, W2 = swiglu.gate.weight, swiglu.up.weight, swiglu.down.weight
    for b in range(B):
        for t in range(T):
            z = W @ x[b, t]
            assert_close(swiglu(x)[b, t], W2 @ (z / (1 + torch.exp(-z)) * (V @ x[b, t])))
    assert torch.autograd.gradcheck(swiglu, x.requires_grad_())
    assert not [name for name, _ in swiglu.named_parameters() if "bias" in name]


@pytest.mark.parametrize(
    ("activation", "config"),
    [
        (nn.GELU(approximate="tanh"), T5Config(feed_forward_proj="gated-gelu")),
        (nn.SiLU(), T5Config(feed_forward_proj="gated-silu")),
    ],
)
def test_a_gated_network_is_t5s(activation, config):
    config.d_model, config.d_ff, config.dropout_rate = C, HIDDEN, 0.0
    theirs, mine = T5DenseGatedActDense(config), GatedMLP(C, HIDDEN, activation)
    mine.gate.weight.data = theirs.wi_0.weight.data
    mine.up.weight.data = theirs.wi_1.weight.data
    mine.down.weight.data = theirs.wo.weight.data
    x = torch.randn(B, T, C)
    assert_close(mine(x), theirs(x))
    assert [part.bias is None for part in (mine.gate, mine.up, mine.down)] == [True] * 3
    assert GatedMLP(C, HIDDEN, activation, bias=True).down.bias is not None


@pytest.mark.parametrize("part", [MLP(C, HIDDEN), SwiGLU(C, HIDDEN)])
def test_a_position_is_worked_on_alone(part):
    x = torch.randn(1, T, C)
    jacobian = torch.autograd.functional.jacobian(part, x)[0, :, :, 0].abs().amax((1, 3))
    assert ((jacobian > 0) == torch.eye(T, dtype=torch.bool)).all()


@given(st.integers(1, 300), st.integers(1, 64))
def test_three_matrices_cost_what_two_did_rounded_up(width, multiple):
    hidden = swiglu_hidden(width, multiple)
    assert hidden % multiple == 0
    more = 3 * width * hidden - 8 * width * width
    assert 0 <= more < 3 * width * multiple


def test_swiglus_hidden_sizes_that_were_published():
    assert swiglu_hidden(4096, 256) == 11008  # Llama 7B
    assert swiglu_hidden(6) == 16
    assert count(SwiGLU(6, swiglu_hidden(6))) == count(MLP(6, 24, bias=False))


@pytest.mark.parametrize("part", [MLP(C, HIDDEN), SwiGLU(C, HIDDEN)])
def test_autocast_is_close(part):
    x = torch.randn(B, T, C)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = part(x)
    assert output.dtype == torch.bfloat16
    assert_close(output.float(), part(x), atol=0.03, rtol=0)


# -- a mixture of experts -----------------------------------------------------------------------

E = 4


def mixture(active=2, experts=E, hidden=HIDDEN):
    torch.manual_seed(0)
    layer = MixtureOfExperts([SwiGLU(C, hidden) for _ in range(experts)], C, active)
    with torch.no_grad():
        layer.router.weight.normal_()
    return layer


def all_on_all(layer, x):
    """Every expert works on every token; what was not chosen is multiplied by 0."""
    logits = layer.router(x)
    kept = logits >= logits.topk(layer.active).values[..., -1:]
    shares = logits.masked_fill(~kept, -torch.inf).softmax(-1)
    return sum(shares[..., e, None] * expert(x) for e, expert in enumerate(layer.experts))


@pytest.mark.parametrize("active", [1, 2, 3, 4])
def test_a_mixture_is_all_experts_on_all_tokens_with_most_shares_zero(active):
    layer = mixture(active).double()
    x, y = (torch.randn(B, T, C, dtype=torch.float64) for _ in range(2))
    y = x.clone().requires_grad_()
    x.requires_grad_()
    assert_close(layer(x), all_on_all(layer, y))
    probe = torch.randn_like(x)
    ours = torch.autograd.grad((layer(x) * probe).sum(), [x, *layer.parameters()])
    theirs = torch.autograd.grad((all_on_all(layer, y) * probe).sum(), [y, *layer.parameters()])
    assert_close(ours, theirs)


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(1, 30), st.integers(0, 10**6), st.data())
def test_an_expert_works_only_on_the_tokens_that_chose_it(experts, N, seed, data):
    active = data.draw(st.integers(1, experts))
    layer, rows = mixture(active, experts), [0] * experts
    for e, expert in enumerate(layer.experts):
        expert.register_forward_pre_hook(
            lambda _, inputs, e=e: rows.__setitem__(e, len(inputs[0]))  # how many tokens came
        )
    x = torch.randn(N, C, generator=torch.Generator().manual_seed(seed))
    with watch(layer, MixtureOfExperts) as seen:
        layer(x)
    assert sum(rows) == active * N
    assert_close(torch.tensor(rows) / N, expert_shares(seen[""], active))


def test_a_mixture_by_hand():
    """Two experts: x and -10 x. The router's logits are x and 0."""
    layer = MixtureOfExperts([nn.Linear(1, 1, bias=False) for _ in range(2)], 1, active=1)
    layer.experts[0].weight.data, layer.experts[1].weight.data = torch.eye(1), -10 * torch.eye(1)
    layer.router.weight.data = torch.tensor([[1.0], [0.0]])
    x = torch.tensor([[3.0], [-2.0]])
    assert_close(layer(x), torch.tensor([[3.0], [20.0]]))
    layer.active = 2
    share = 1 / (1 + torch.exp(-x))
    assert_close(layer(x), share * x - (1 - share) * 10 * x)


def test_equal_experts_are_one_expert():
    layer, x = mixture(), torch.randn(B, T, C)
    for expert in layer.experts:
        expert.load_state_dict(layer.experts[0].state_dict())
    assert_close(layer(x), layer.experts[0](x))


def test_watching_a_mixture_shows_its_chances_and_changes_nothing():
    model, x = nn.Sequential(mixture(), mixture(3)), torch.randn(B, T, C)
    before = model(x)
    with watch(model, MixtureOfExperts) as seen:
        assert_close(model(x), before)
    assert set(seen) == {"0", "1"}
    assert_close(seen["0"], model[0].router(x).softmax(-1))
    assert model[0].on_weights is None


def test_only_the_chosen_get_a_gradient():
    layer, x = mixture(active=1, experts=3), torch.randn(1, C)
    chosen = layer.router(x).argmax().item()
    layer(x).sum().backward()
    for e, expert in enumerate(layer.experts):
        assert (expert.down.weight.grad.abs().max() > 0) == (e == chosen)


def test_balance_by_hand():
    """All four tokens to the first expert, with chance 1: as uneven as it gets. Then two each."""
    one = torch.tensor([[1.0, 0.0]]).expand(4, 2)
    assert balance_loss(one, 1) == 2 and expert_shares(one, 1).tolist() == [1, 0]
    half = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).repeat(2, 1)
    assert_close(balance_loss(half, 1), torch.tensor(1.0))
    assert expert_shares(half, 1).tolist() == [0.5, 0.5]
    assert_close(balance_loss(half, 2), torch.tensor(2.0))


def test_uneven_work_can_have_less_balance_loss_than_even_work():
    """Two tokens go to the first expert by a hair, one goes to the second with near certainty."""
    chances = torch.tensor([[0.51, 0.49], [0.51, 0.49], [0.02, 0.98]])
    assert_close(expert_shares(chances, 1), torch.tensor([2 / 3, 1 / 3]))
    assert balance_loss(chances, 1) < 0.9 < balance_loss(torch.eye(2), 1)


@given(st.integers(1, 6), st.integers(0, 10**6), st.data())
def test_the_balance_loss_is_transformers_and_stays_in_its_bounds(experts, seed, data):
    theirs = pytest.importorskip("transformers.models.mixtral.modeling_mixtral")
    active = data.draw(st.integers(1, experts))
    logits = 3 * torch.randn(2, 5, experts, generator=torch.Generator().manual_seed(seed))
    loss = balance_loss(logits.softmax(-1), active)
    flat = logits.flatten(0, 1)
    assert_close(loss, theirs.load_balancing_loss_func((flat,), experts, active))
    assert expert_shares(logits.softmax(-1), active).sum() == pytest.approx(active)
    assert 0 <= loss <= experts + 1e-5


def test_one_step_down_the_balance_loss_takes_chance_from_the_busy_expert():
    logits = torch.tensor([[2.0, 0, 0], [2, 0, 0], [2, 0, 0], [0, 2, 0]], requires_grad=True)
    balance_loss(logits.softmax(-1), 1).backward()
    assert (logits.grad[:3, 0] > 0).all() and (logits.grad[:, 2] < 0).all()


def test_training_on_the_balance_loss_balances():
    layer = mixture(active=1).requires_grad_()
    x = torch.randn(200, C) + 2  # a shift that all tokens share sends most to the same expert
    optimizer = torch.optim.Adam([layer.router.weight], lr=0.03)
    busiest = []
    for _ in range(100):
        with watch(layer, MixtureOfExperts) as seen:
            layer(x)
        busiest.append(expert_shares(seen[""], 1).max().item())
        optimizer.zero_grad()
        balance_loss(seen[""], 1).backward()
        optimizer.step()
    assert busiest[0] > 0.6 and busiest[-1] < 0.4


def test_parameters_active_and_idle():
    layer = mixture(active=1, experts=3)
    one = count(layer.experts[0])
    assert count(layer) == 3 * one + 3 * C
    assert active_parameters(layer) == one + 3 * C
    assert active_parameters(nn.Sequential(MLP(C, 2), layer)) == count(MLP(C, 2)) + one + 3 * C


def test_autocast_is_close_in_a_mixture():
    layer, x = mixture(), torch.randn(B, T, C)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = layer(x)
    assert_close(output.float(), layer(x), atol=0.05, rtol=0)


def test_bad_input_is_named(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match="at least 1; got 0"):
        swiglu_hidden(8, 0)
    for active in (0, 3):
        with pytest.raises(ValueError, match=f"to {active} of 2 experts"):
            mixture(active, 2)
        with pytest.raises(ValueError, match=f"to {active} of 2 experts"):
            balance_loss(torch.ones(3, 2), active)
    odd = MixtureOfExperts([nn.Linear(2, 2, bias=False), nn.Linear(2, 2)], 2)
    with pytest.raises(ValueError, match="experts of 4 and 6 numbers"):
        active_parameters(odd)


def test_a_squared_relu_by_hand():
    assert SquaredReLU()(torch.tensor([-3.0, 0.0, 0.5, 3.0])).tolist() == [0.0, 0.0, 0.25, 9.0]


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [(QuickGELU, QuickGELUActivation), (XIELU, partial(XIELUActivation, dtype=torch.float32))],
)
def test_activations_are_those_of_transformers(mine, theirs):
    mine, theirs, x = mine(), theirs(), torch.linspace(-4, 4, 41).requires_grad_()
    with torch.no_grad():
        for ours, published in zip(mine.parameters(), theirs.parameters(), strict=True):
            assert_close(ours, published)
            published.copy_(ours.add_(0.3))
    found, expected = mine(x), theirs(x)
    assert_close(found, expected)
    assert_close(
        torch.autograd.grad(found.sin().sum(), (x, *mine.parameters())),
        torch.autograd.grad(expected.sin().sum(), (x, *theirs.parameters())),
    )


def test_an_xielu_of_large_numbers_has_gradients_and_impossible_curvatures_are_refused():
    x = torch.tensor([200.0, -200.0], requires_grad=True)
    (slopes,) = torch.autograd.grad(XIELU()(x).sum(), x)
    assert_close(slopes, torch.tensor([2 * 0.8 * 200 + 0.5, -0.8 + 0.5]))
    for wrong in ({"above": 0.0}, {"below": 0.5}):
        with pytest.raises(ValueError, match="curvatures are above 0 and above beta"):
            XIELU(**wrong)
