"""Routers: whom they choose, as transformers' do; the bias that gives everybody work."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers import DeepseekV2Config, DeepseekV3Config, GptOssConfig
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2TopkRouter
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3TopkRouter
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssTopKRouter

from attnbook.experts import (
    BiasBalance,
    MixtureOfExperts,
    Router,
    SigmoidTopK,
    SoftmaxTopK,
    TopKSoftmax,
)

N, C, E, A = 7, 5, 8, 3


def tokens():
    torch.manual_seed(0)
    return torch.randn(N, C)


def same_choice(mine, share, chosen):
    """The same experts with the same shares, whatever the order."""
    for ours, theirs in ((mine[1], share), (mine[2], chosen)):
        assert ours.shape == theirs.shape
    dense = torch.zeros(N, E)
    assert_close(dense.scatter(1, mine[2], mine[1]), dense.scatter(1, chosen, share))


def test_a_softmax_over_the_chosen_is_a_softmax_over_all_made_to_sum_to_one():
    first, x = SoftmaxTopK(C, E, A), tokens()
    second = TopKSoftmax(C, E, A, bias=False)
    second.weight = first.weight
    one, other = first.choose(x), second.choose(x)
    same_choice(one, other[1], other[2])
    assert_close(one[0], other[0])
    as_it_is = SoftmaxTopK(C, E, A, sum_to_one=False)
    as_it_is.weight = first.weight
    assert_close(as_it_is.choose(x)[1], one[0].gather(1, one[2]))


def test_topk_then_softmax_is_gpt_oss():
    theirs = GptOssTopKRouter(
        GptOssConfig(hidden_size=C, num_local_experts=E, num_experts_per_tok=A)
    )
    mine = TopKSoftmax(C, E, A)
    theirs.weight.data, theirs.bias.data = mine.weight.data, mine.bias.data
    _, share, chosen = theirs(tokens())
    same_choice(mine.choose(tokens()), share, chosen)


@pytest.mark.parametrize(("groups", "kept"), [(1, 1), (4, 2), (8, 5), (2, 1)])
def test_a_softmax_within_the_best_groups_is_deepseek_v2s(groups, kept):
    config = DeepseekV2Config(
        hidden_size=C,
        num_attention_heads=1,
        n_routed_experts=E,
        num_experts_per_tok=A,
        n_group=groups,
        topk_group=kept,
        topk_method="group_limited_greedy",
        routed_scaling_factor=2.5,
    )
    theirs, mine = DeepseekV2TopkRouter(config), SoftmaxTopK(C, E, A, False, 2.5, groups, kept)
    theirs.weight = mine.weight
    _, share, chosen = theirs(tokens())
    same_choice(mine.choose(tokens()), share, chosen)


@pytest.mark.parametrize(("groups", "kept"), [(1, 1), (4, 2), (2, 1)])
def test_sigmoids_with_a_correction_are_deepseek_v3s(groups, kept):
    config = DeepseekV3Config(
        hidden_size=C,
        n_routed_experts=E,
        num_experts_per_tok=A,
        n_group=groups,
        topk_group=kept,
        routed_scaling_factor=2.5,
        norm_topk_prob=True,
    )
    theirs, mine = DeepseekV3TopkRouter(config), SigmoidTopK(C, E, A, 2.5, groups, kept)
    mine.correction.normal_()
    theirs.weight.data = mine.weight.data
    theirs.e_score_correction_bias.data = mine.correction
    _, share, chosen = theirs(tokens())
    same_choice(mine.choose(tokens()), share, chosen)
    assert_close(mine.choose(tokens())[1].sum(-1), torch.full((N,), 2.5))


def test_a_correction_chooses_and_does_not_count():
    mine, x = SigmoidTopK(C, E, 1), tokens()
    mine.correction[3] = 2.0
    chances, share, chosen = mine.choose(x)
    assert (chosen == 3).all()
    assert_close(chances, mine(x).sigmoid())
    assert_close(share, torch.ones(N, 1))
    assert "correction" in mine.state_dict() and not mine.correction.requires_grad


def unequal(balanced):
    """Tokens that all like expert 0: its largest share of the work after some steps."""
    torch.manual_seed(1)
    router = SigmoidTopK(C, E, A)
    nn.init.normal_(router.weight)
    router.weight.data[0] = 1.0
    layer = MixtureOfExperts([nn.Identity() for _ in range(E)], router=router)
    balance, shares = BiasBalance(layer, rate=0.02), []
    for _ in range(150):
        layer(torch.rand(200, C))
        shares.append(balance.loads[0] / (200 * A / E))
        if balanced:
            balance.step()
        else:
            balance.loads[0].zero_()
    return shares[-1].max().item()


def test_the_bias_gives_all_experts_work():
    assert unequal(balanced=False) > 2.6
    assert unequal(balanced=True) < 1.7


def test_only_training_counts_and_a_step_is_by_the_sign_of_the_load():
    router = SigmoidTopK(C, 2, 1)
    nn.init.zeros_(router.weight)
    layer = MixtureOfExperts([nn.Identity(), nn.Identity()], router=router)
    balance = BiasBalance(layer, rate=0.25)
    layer.eval()
    layer(tokens())
    assert balance.loads[0].sum() == 0
    layer.train()
    layer(tokens())
    balance.step()
    assert sorted(router.correction.tolist()) == [-0.25, 0.25]
    assert balance.loads[0].sum() == 0
    copy.deepcopy(layer)


def test_bad_input_is_named():
    for make, message in [
        (lambda: SoftmaxTopK(C, E, 9), "a token cannot go to 9 of 8 experts"),
        (lambda: TopKSoftmax(C, E, 0), "a token cannot go to 0 of 8 experts"),
        (lambda: SigmoidTopK(C, E, 2, 1.0, 3, 1), "8 experts cannot keep 1 of 3 groups"),
        (lambda: SigmoidTopK(C, E, 3, 1.0, 4, 1), "1 of 4 groups leave no 3 of 8 experts"),
        (lambda: SigmoidTopK(C, E, 3, 1.0, 8, 5), "8 groups of 8 experts have no two best"),
        (lambda: SoftmaxTopK(C, E, 3, True, 1.0, 4, 1), "1 of 4 groups leave no 3 of 8 experts"),
        (lambda: BiasBalance(nn.Linear(2, 2)), "no router in this Linear has a correction"),
        (lambda: MixtureOfExperts([nn.Identity()] * 2), "needs a width, or a router"),
        (
            lambda: MixtureOfExperts([nn.Identity()] * 2, router=SoftmaxTopK(C, E, A)),
            "a router for 8 experts does not fit 2",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(NotImplementedError, match="Router does not say"):
        Router(C, E, A).choose(tokens())
