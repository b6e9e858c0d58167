"""Starting values, and ties that hold whatever happens to a model.

What the starting values of the recipes are is tested with the recipes.
"""

import copy
import pickle

import pytest
import torch
from torch.func import functional_call
from torch.testing import assert_close

from attnbook.models.bert import bert
from attnbook.models.gpt2 import gpt2
from attnbook.positions import Alibi, Sinusoidal
from attnbook.transformer import Embed, Tied

TOKENS = torch.tensor([[1, 3, 0, 10], [4, 4, 2, 9]])


def gpt():
    torch.manual_seed(0)
    return gpt2(11, 6, 8, 2, 2, dropout=0.0)


def same_weight(model):
    return model.lm_head.weight is model.embed.tokens.weight


def emptied_and_loaded():
    with torch.device("meta"):
        model = gpt()
    model.to_empty(device="cpu").load_state_dict(gpt().state_dict())
    return model


def assigned():
    with torch.device("meta"):
        model = gpt()
    model.load_state_dict(gpt().state_dict(), assign=True)
    return model


WAYS = {
    "built": gpt,
    "to_empty": emptied_and_loaded,
    "assign": assigned,
    "deepcopy": lambda: copy.deepcopy(gpt()),
    "pickle": lambda: pickle.loads(pickle.dumps(gpt())),
    "there and back": lambda: gpt().double().float(),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_tie_holds(way):
    model = way()
    assert same_weight(model)
    assert_close(model(TOKENS), gpt()(TOKENS))
    before = model.embed.tokens.weight.detach().clone()
    model(TOKENS).square().mean().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    assert same_weight(model) and not torch.equal(before, model.lm_head.weight)


def test_a_tied_matrix_is_one_parameter_and_stored_once():
    model = gpt()
    assert "lm_head.weight" not in model.state_dict()
    assert sum(weight.shape == (11, 8) for weight in model.parameters()) == 1
    with_bias = bert(11, 6, 8, 2, 2)
    assert with_bias.lm_head[-1].weight is with_bias.embed.tokens.weight
    assert "lm_head.3.bias" in with_bias.state_dict()


def test_a_tie_holds_when_weights_are_put_in_from_outside():
    model = gpt()
    doubled = {"embed.tokens.weight": 2 * model.embed.tokens.weight.detach()}
    expected = copy.deepcopy(model)
    expected.embed.tokens.weight.data *= 2
    assert_close(functional_call(model, doubled, (TOKENS,)), expected(TOKENS))


def test_a_grown_vocabulary_is_grown_at_both_ends():
    embed = Embed(5, 4)
    lm_head = Tied(embed)
    assert isinstance(lm_head, Tied)
    embed.tokens = torch.nn.Embedding(7, 4)
    assert lm_head(torch.randn(2, 4)).shape == (2, 7)


@pytest.mark.parametrize("make", [lambda: Alibi(3), lambda: Sinusoidal(6)], ids=["ALiBi", "sine"])
def test_what_is_computed_is_right_after_any_loading(make):
    expected = make()(3, 4) if isinstance(make(), Alibi) else make()(4)
    with torch.device("meta"):
        bare = torch.nn.ModuleDict({"a": make(), "b": torch.nn.Linear(2, 2)})
    full = torch.nn.Linear(2, 2).state_dict(prefix="b.")
    emptied = copy.deepcopy(bare).to_empty(device="cpu")
    emptied.load_state_dict(full)
    bare.load_state_dict(full, assign=True)
    for part in (emptied["a"], bare["a"]):
        assert_close(part(3, 4) if isinstance(part, Alibi) else part(4), expected)
