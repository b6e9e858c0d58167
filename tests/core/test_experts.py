"""Mixtures: both ways to run one agree, shared experts, whole layers as transformers has them.

What a mixture is by hand, and its balance, is tested with the other feed-forward networks.
"""

from functools import partial

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.testing import assert_close
from transformers import DeepseekV3Config, GptOssConfig, Llama4TextConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssMLP
from transformers.models.llama4.modeling_llama4 import Llama4TextMoe

from attnbook.experts import (
    GatedExpert,
    MixtureOfExperts,
    SigmoidTopK,
    TopKSigmoid,
    TopKSoftmax,
    active_parameters,
    by_expert,
    everybody,
)
from attnbook.feedforward import ClampedSwiGLU, SwiGLU

B, T, C, HIDDEN, E, A = 2, 3, 6, 5, 4, 2


def mixture(run=by_expert, **options):
    torch.manual_seed(0)
    layer = MixtureOfExperts([SwiGLU(C, HIDDEN) for _ in range(E)], C, A, run=run, **options)
    nn.init.normal_(layer.router.weight)
    return layer


def inputs():
    torch.manual_seed(1)
    return torch.randn(B, T, C, requires_grad=True)


def gradients(layer, x):
    output = layer(x)
    loss = (output * torch.arange(output.numel()).view_as(output).sin()).sum()
    return output, *torch.autograd.grad(loss, (x, *layer.parameters()))


def test_everybody_working_on_everything_is_each_on_its_own():
    assert_close(gradients(mixture(everybody), inputs()), gradients(mixture(), inputs()))


def test_a_shared_expert_works_on_every_token():
    layer, x = mixture(shared=SwiGLU(C, 7)), inputs()
    assert_close(layer(x), mixture()(x) + layer.shared(x))
    assert (
        active_parameters(layer) == sum(p.numel() for p in layer.parameters()) - 2 * 3 * C * HIDDEN
    )
    gated = mixture(shared=GatedExpert(SwiGLU(C, 7), C))
    share = gated.shared.gate(x).sigmoid()
    assert_close(gated(x), mixture()(x) + share * gated.shared.expert(x))


def test_without_sizes_that_depend_on_numbers_it_runs_on_meta_and_in_vmap():
    layer, x = mixture(everybody), inputs().detach()
    assert layer.to_empty(device="meta")(x.to("meta")).shape == x.shape
    layer = mixture(everybody)
    weights = {name: weight.detach() for name, weight in layer.named_parameters()}

    def loss(weights, x):
        return functional_call(layer, weights, (x[None],)).square().sum()

    each = vmap(grad(loss), (None, 0))(weights, x)
    for b in range(B):
        for name, expected in grad(loss)(weights, x[b]).items():
            assert_close(each[name][b], expected)


def test_a_mixture_is_deepseek_v3s_layer():
    config = DeepseekV3Config(
        hidden_size=C,
        moe_intermediate_size=HIDDEN,
        n_routed_experts=E,
        n_shared_experts=2,
        num_experts_per_tok=A,
        n_group=2,
        topk_group=1,
        routed_scaling_factor=2.5,
    )
    theirs = DeepseekV3MoE(config)
    router, shared = SigmoidTopK(C, E, A, 2.5, 2, 1), SwiGLU(C, 2 * HIDDEN)
    mine = MixtureOfExperts([SwiGLU(C, HIDDEN) for _ in range(E)], router=router, shared=shared)
    for weight in (*theirs.parameters(), theirs.gate.e_score_correction_bias):
        nn.init.normal_(weight, std=0.3)
    router.weight.data = theirs.gate.weight.data.clone()
    router.correction = theirs.gate.e_score_correction_bias.data.clone()
    for name in ("gate", "up", "down"):
        other = getattr(theirs.shared_experts, f"{name}_proj")
        getattr(shared, name).weight.data = other.weight.data.clone()
    for e, expert in enumerate(mine.experts):
        expert.gate.weight.data, expert.up.weight.data = theirs.experts.gate_up_proj[e].chunk(2)
        expert.down.weight.data = theirs.experts.down_proj[e].data
    x, y = inputs(), inputs()
    assert_close(mine(x), theirs(y))
    assert_close(
        *(torch.autograd.grad(m(z).sin().sum(), z)[0] for m, z in ((mine, x), (theirs, y)))
    )


def test_a_mixture_is_gpt_oss_layer():
    config = GptOssConfig(
        hidden_size=C, intermediate_size=HIDDEN, num_local_experts=E, num_experts_per_tok=A
    )
    theirs = GptOssMLP(config)
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=3.0)  # some of it is clamped
    experts = [ClampedSwiGLU(C, HIDDEN) for _ in range(E)]
    mine = MixtureOfExperts(experts, router=TopKSoftmax(C, E, A))
    mine.router.load_state_dict(theirs.router.state_dict())
    for e, expert in enumerate(experts):
        for kind in ("weight", "bias"):
            end = "" if kind == "weight" else "_bias"
            both = (
                getattr(theirs.experts, f"gate_up_proj{end}")[e].data.mT
                if not end
                else (theirs.experts.gate_up_proj_bias[e].data)
            )
            down = getattr(theirs.experts, f"down_proj{end}")[e].data
            getattr(expert.gate, kind).data, getattr(expert.up, kind).data = both[::2], both[1::2]
            getattr(expert.down, kind).data = down.mT if not end else down
    x = inputs()
    expected = theirs(x)
    assert_close(mine(x), expected[0] if isinstance(expected, tuple) else expected)


def test_shares_before_the_experts_are_llama_4s_layer():
    config = Llama4TextConfig(
        hidden_size=C, intermediate_size=HIDDEN, num_local_experts=E, num_experts_per_tok=A
    )
    theirs = Llama4TextMoe(config)
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.6)
    *experts, shared = [SwiGLU(C, HIDDEN) for _ in range(E + 1)]
    mine = MixtureOfExperts(
        experts, router=TopKSigmoid(C, E, A), shared=shared, run=partial(by_expert, before=True)
    )
    mine.router.weight = theirs.router.weight
    for e, expert in enumerate(experts):
        expert.gate.weight.data, expert.up.weight.data = theirs.experts.gate_up_proj[e].mT.chunk(2)
        expert.down.weight.data = theirs.experts.down_proj[e].mT
    for part in ("gate", "up", "down"):
        getattr(shared, part).weight = getattr(theirs.shared_expert, f"{part}_proj").weight
    x = inputs()
    assert_close(mine(x), theirs(x)[0].view_as(x))


@pytest.mark.parametrize("run", [by_expert, everybody, partial(by_expert, before=True)])
def test_in_half_precision_it_is_close(run):
    layer, x = mixture(run), inputs().detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = layer(x)
    assert_close(half.float(), layer(x), atol=0.05, rtol=0.05)
