"""Attribution patching is the slope of activation patching, and the heads' shares add up."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnbook.inside.attribution import attribution_patching, head_attribution
from attnbook.inside.circuits import Side, edited, lens, record, replaced, share
from attnbook.models.bert import albert
from attnbook.models.gemma import gemma2, gemma3
from attnbook.models.gemma3n import gemma3n
from attnbook.models.gpt2 import gpt2
from attnbook.models.granite import granite
from attnbook.models.llama import llama
from attnbook.models.t5 import t5

SIZES = {"V": 11, "width": 16, "depth": 2, "heads": 4, "kv_heads": 2, "hidden": 24}
MODELS = {
    "llama": lambda: llama(**SIZES),
    "gpt2": lambda: gpt2(V=11, T=8, width=16, depth=2, heads=4, dropout=0.0),
    "gemma2": lambda: gemma2(D=4, windows=(3, None), **SIZES),
    "gemma3": lambda: gemma3(D=4, windows=(3, None), **SIZES),
    "granite": lambda: granite(**SIZES),
}
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
OTHER = torch.tensor([[2, 7, 1, 8, 2, 8], [1, 6, 1, 8, 0, 3]])


def made(name):
    """Numbers large enough for every part to matter, biases too."""
    torch.manual_seed(0)
    model = MODELS[name]()
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    return model.eval()


def lead(logits):
    """By how much token 3 leads token 5 at the last position, for each row."""
    return logits[:, -1, 3] - logits[:, -1, 5]


def patched(model, other, layer, head, position, step):
    """The measure when a head's output has gone this part of the way to the other run's."""
    run = record(model, TOKENS)
    output = run.heads[layer][:, head].clone()
    output[:, position] += step * (other.heads[layer][:, head] - output)[:, position]
    with torch.no_grad(), replaced(model, {(layer, head): output}):
        return (lead(model(TOKENS)) - lead(run.logits)) / step


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "gemma3"])
def test_it_is_what_small_patches_change(name):
    model = made(name).double()
    other = record(model, OTHER)
    found = attribution_patching(model, TOKENS, other, lead)
    assert found.heads.shape == (2, 2, 4, 6) and found.stream.shape == (3, 2, 6)
    for layer, head, position in ((0, 1, 2), (0, 3, 5), (1, 0, 5), (0, 2, 0)):
        exact = patched(model, other, layer, head, position, 1e-6)
        assert_close(found.heads[layer, :, head, position], exact, rtol=1e-4, atol=1e-7)


def test_blocks_that_share_their_weights_have_an_estimate_each():
    torch.manual_seed(0)
    model = albert(V=11, T=8, narrow=6, width=16, depth=3, heads=4, hidden=24).double().eval()
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    other = record(model, OTHER)
    found = attribution_patching(model, TOKENS, other, lead)
    assert found.heads.shape == (3, 2, 4, 6) and found.stream.shape == (4, 2, 6)
    for layer in range(3):
        exact = patched(model, other, layer, 1, 2, 1e-6)
        assert_close(found.heads[layer, :, 1, 2], exact, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("layer", "position"), [(0, 4), (1, 0), (1, 5), (2, 5)])
def test_it_is_what_a_small_step_of_the_stream_changes(layer, position):
    model = made("gemma3").double()
    run, other = record(model, TOKENS), record(model, OTHER)
    step = torch.zeros_like(run.stream[layer])
    step[:, position] = 1e-6 * (other.stream - run.stream)[layer, :, position]
    with torch.no_grad(), edited(model, layer, step.add):
        exact = (lead(model(TOKENS)) - lead(run.logits)) / 1e-6
    found = attribution_patching(model, TOKENS, other, lead).stream[layer, :, position]
    assert exact.abs().max() > 0.01
    assert_close(found, exact, rtol=1e-4, atol=1e-7)


def test_it_is_the_patch_itself_where_nothing_bends():
    """The last block's heads, with neither a network nor a norm behind them."""
    model = made("llama")
    nn.init.zeros_(model.body.blocks[1].feedforward.sublayer.down.weight)
    model.body.norm = nn.Identity()
    other = record(model, OTHER)
    found = attribution_patching(model, TOKENS, other, lead)
    assert found.heads[1, :, :, :-1].abs().max() == 0  # what stands before the end is not read out
    for head in range(4):
        exact = patched(model, other, 1, head, -1, 1.0)
        assert exact.abs().max() > 0.01
        assert_close(found.heads[1, :, head, -1], exact)
    before = lead(record(model, TOKENS).logits)
    with torch.no_grad(), edited(model, 2, lambda x: other.stream[2]):
        exact = lead(model(TOKENS)) - before
    assert_close(found.stream[2].sum(-1), exact)


def test_a_run_of_another_length_is_refused():
    model = made("gemma3")
    with pytest.raises(ValueError, match=r"the other run is of \(2, 4, 16\), this one of"):
        attribution_patching(model, TOKENS, record(model, OTHER[:, :4]), lead)


@pytest.mark.parametrize("name", ["llama", "gemma3", "granite"])
def test_heads_embedding_and_networks_add_up_to_the_logits(name):
    model = made(name)
    run = record(model, TOKENS)
    direction = torch.zeros(2, 11)
    direction[:, 3], direction[:, 5], direction[1, 2] = 1.0, -1.0, 0.5
    found = head_attribution(model, run, direction)
    others = run.stream[0] + (run.stream[1:] - run.middle).sum(0)  # embedding and networks
    rest = share(model.body.norm, others, run.stream[-1])
    rest = (model.lm_head(rest) * direction[:, None]).sum(-1)
    expected = (run.logits * direction[:, None]).sum(-1)
    assert found.abs().max() > 1e-4
    assert_close(found.sum((0, 2)) + rest, expected)


def test_bent_logits_have_no_shares():
    model = made("gemma2")
    with pytest.raises(ValueError, match="not one linear map"):
        head_attribution(model, record(model, TOKENS), torch.ones(11))


def test_each_of_gemma_3ns_streams_has_an_estimate_and_so_have_its_heads():
    torch.manual_seed(0)
    sizes = {"hidden": (24,) * 3, "windows": (3, None, 3), "sharing": 1, "sparse": (0.7, 0.0, 0.0)}
    model = gemma3n(11, 16, 4, 2, 6, **sizes, layers=(9, 5), rank=3, streams=3).double().eval()
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    run, other = record(model, TOKENS), record(model, OTHER)
    assert_close(lens(model, run.stream[-1]), run.logits)
    found = attribution_patching(model, TOKENS, other, lead)
    assert found.heads.shape == (3, 2, 4, 6) and found.stream.shape == (4, 3, 2, 6)
    assert_close(
        found.heads[0, :, 1, 4], patched(model, other, 0, 1, 4, 1e-6), rtol=1e-4, atol=1e-7
    )
    step = torch.zeros_like(run.stream[1])
    step[2, :, 4] = 1e-6 * (other.stream - run.stream)[1, 2, :, 4]
    with torch.no_grad(), edited(model, 1, lambda x: x + step):
        exact = (lead(model(TOKENS)) - lead(run.logits)) / 1e-6
    assert min(exact.abs().max(), found.heads[0, :, 1, 4].abs().max()) > 1e-4
    assert_close(found.stream[1, 2, :, 4], exact, rtol=1e-4, atol=1e-7)


# -- an encoder and a decoder ----------------------------------------------------------------------

IS_TOKEN = torch.ones(2, 6).bool()
TARGET = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])


@pytest.mark.parametrize("side", [("encoder",), ("decoder",), ("decoder", "cross_attention")])
def test_heads_of_each_side_have_an_estimate_and_those_of_a_decoder_a_share_in_the_logits(side):
    torch.manual_seed(0)
    model = t5(V=11, width=16, depth=(2, 3), heads=4, D=5).double().eval()
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    part = Side(model, *side)
    here, there = (record(part, tokens, IS_TOKEN, TARGET) for tokens in (TOKENS, OTHER))
    found = attribution_patching(part, TOKENS, there, lead, IS_TOKEN, TARGET)
    for layer, head, position in ((len(here.heads) - 2, 1, 2), (len(here.heads) - 1, 3, 3)):
        output = here.heads[layer][:, head].clone()
        output[:, position] += 1e-6 * (there.heads[layer][:, head] - output)[:, position]
        with torch.no_grad(), replaced(part, {(layer, head): output}):
            exact = (lead(model(TOKENS, IS_TOKEN, TARGET)) - lead(here.logits)) / 1e-6
        assert exact.abs().max() > 1e-5
        assert_close(found.heads[layer, :, head, position], exact, rtol=1e-4, atol=1e-7)
    direction = torch.zeros(11).double().index_fill(0, torch.tensor([3]), 1.0)
    if side == ("encoder",):
        with pytest.raises(ValueError, match="no head has a share in them"):
            head_attribution(part, here, direction)
        return
    before = here.stream
    if len(side) == 2:
        before = record(Side(model, "decoder"), TOKENS, IS_TOKEN, TARGET).middle
    size = (here.stream[-1].square().mean(-1, keepdim=True) + model.decoder.norm.eps).sqrt()
    for layer, shares in enumerate(head_attribution(part, here, direction)):
        added = model.decoder.norm.weight * (here.middle[layer] - before[layer]) / size
        assert_close(shares.sum(1), model.lm_head(added)[..., 3])
