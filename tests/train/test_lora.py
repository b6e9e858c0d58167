"""Low rank: nothing changes at first, only the thin matrices learn, and a sum is one map."""

import copy

import pytest
import torch
from torch import nn

from attnbook.attention import MultiHeadAttention
from attnbook.losses import parameters
from attnbook.models.gpt2 import gpt2
from attnbook.quantise.rounding import QuantisedLinear, quantised
from attnbook.train.lora import LowRank, adapters, learnt, load_learnt, merge, unmerge, wrap


def model(seed=1):
    torch.manual_seed(seed)
    return gpt2(V=11, T=7, width=12, depth=2, heads=3, dropout=0.0)


def moved(wrapped, seed=3):
    """The same with thin matrices that are not 0."""
    generator = torch.Generator().manual_seed(seed)
    for part in adapters(wrapped).values():
        part.up.weight.data = 0.1 * torch.randn(part.up.weight.shape, generator=generator)
    return wrapped


TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def test_a_wrapped_model_starts_as_it_was():
    plain = model()
    expected = plain(TOKENS)
    assert torch.equal(wrap(plain, 2)(TOKENS), expected)


def test_only_thin_matrices_learn():
    wrapped = wrap(model(), 2)
    per_block = 2 * (12 + 36) + 2 * (12 + 12) + 2 * 2 * (12 + 48)
    assert parameters(wrapped) == 2 * per_block
    wrapped(TOKENS).square().sum().backward()
    graded = {name for name, weight in wrapped.named_parameters() if weight.grad is not None}
    assert graded == set(learnt(wrapped))
    assert not any("lm_head" in name or "embed" in name for name in graded)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_wrapped_model_is_pefts(dropout):
    peft = pytest.importorskip("peft")
    ours, theirs = wrap(model(), 3, alpha=5.0, dropout=dropout), model()
    maps = ["to_qkv", "to_out", "up", "down"]
    config = peft.LoraConfig(r=3, lora_alpha=5, lora_dropout=dropout, target_modules=maps)
    theirs = peft.get_peft_model(theirs, config)
    moved(ours)
    layers = dict(theirs.base_model.model.named_modules())
    for name, part in adapters(ours).items():
        layers[name].lora_A["default"].weight.data = part.down.weight.detach().clone()
        layers[name].lora_B["default"].weight.data = part.up.weight.detach().clone()
    for each in (ours, theirs):
        torch.manual_seed(4)  # of dropout
        each.train()(TOKENS).square().sum().backward()
    torch.manual_seed(4)
    expected = theirs(TOKENS)
    torch.manual_seed(4)
    assert torch.allclose(ours(TOKENS), expected, atol=1e-6)
    for name, part in adapters(ours).items():
        for mine, other in ((part.down, "lora_A"), (part.up, "lora_B")):
            grad = getattr(layers[name], other)["default"].weight.grad
            assert torch.allclose(mine.weight.grad, grad, rtol=1e-4, atol=1e-5)
    merge(ours.eval())
    assert torch.allclose(ours(TOKENS), theirs.merge_and_unload().eval()(TOKENS), atol=1e-5)


def test_merged_is_the_same_and_unmerged_is_exactly_as_before():
    wrapped = moved(wrap(model(), 2)).eval()
    expected, names = wrapped(TOKENS), {name for name, _ in model().named_parameters()}
    taken = merge(wrapped)
    assert {name for name, _ in wrapped.named_parameters()} == names
    assert torch.allclose(wrapped(TOKENS), expected, atol=1e-5)
    assert torch.equal(unmerge(wrapped, taken)(TOKENS), expected)


def test_an_adapter_works_in_cross_attention():
    torch.manual_seed(0)
    attention = MultiHeadAttention(12, 3, bias=True)
    wrapped = moved(wrap(copy.deepcopy(attention), 2))
    x, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
    expected = wrapped(x, memory)
    assert not torch.allclose(expected, attention(x, memory), atol=1e-3)
    expected.square().sum().backward()
    assert all(part.up.weight.grad.abs().sum() > 0 for part in adapters(wrapped).values())
    merge(wrapped)
    assert torch.allclose(wrapped(x, memory), expected, atol=1e-5)


def test_where_chooses():
    wrapped = wrap(model(), 2, where=lambda name, part: name.endswith("to_out"))
    assert [name.split(".")[-1] for name in adapters(wrapped)] == ["to_out"] * 2


def test_a_model_in_few_bits_learns_beside_them():
    few = wrap(quantised(model(), 4, 4), 2)
    base = next(iter(adapters(few).values())).base
    assert isinstance(base, QuantisedLinear)
    optimizer = torch.optim.Adam([w for w in few.parameters() if w.requires_grad], lr=0.03)
    losses = []
    for _ in range(15):
        loss = nn.functional.cross_entropy(few(TOKENS[:, :-1]).flatten(0, 1), TOKENS[:, 1:].ravel())
        optimizer.zero_grad(), loss.backward(), optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1
    with pytest.raises(ValueError, match="is stored in few bits"):
        merge(few)


def test_what_was_learnt_is_small_and_goes_into_the_same_model():
    one, other = moved(wrap(model(), 2)), wrap(model(), 2)
    state = learnt(one)
    assert sum(tensor.numel() for tensor in state.values()) == parameters(one)
    assert torch.equal(load_learnt(other, state)(TOKENS), one(TOKENS))
    with pytest.raises(ValueError, match=r"\(3, 12\) in the model, \(2, 12\) in what is loaded"):
        load_learnt(wrap(model(), 3), state)


def test_what_cannot_be_is_refused_and_nothing_is_changed():
    with pytest.raises(ValueError, match="from 7 to 5 numbers has ranks from 1 to 5; got 6"):
        LowRank(nn.Linear(7, 5), 6)
    plain = model()
    with pytest.raises(ValueError, match="got 13"):
        wrap(plain, 13)
    assert not adapters(plain) and all(weight.requires_grad for weight in plain.parameters())
    with pytest.raises(ValueError, match="nothing would learn"):
        wrap(plain, 2, where=lambda name, part: False)
    with pytest.raises(ValueError, match="already"):
        wrap(wrap(plain, 2), 2)
