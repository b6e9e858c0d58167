"""The stream is a sum, and a head that is made anew from its stream is the head."""

import copy
from typing import TypeVar

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnbook.block import Block, PreNorm
from attnbook.feedforward import MLP
from attnbook.inside.circuits import (
    Side,
    edited,
    head_from,
    lens,
    reading_at,
    record,
    replaced,
    written,
)
from attnbook.inside.watch import without_heads
from attnbook.models.bart import bart
from attnbook.models.bert import albert, bert
from attnbook.models.clip import clip
from attnbook.models.cohere import cohere
from attnbook.models.deepseek import latent_attention
from attnbook.models.falcon import falcon
from attnbook.models.gemma import gemma2, gemma3
from attnbook.models.glm import glm4
from attnbook.models.gpt2 import gpt2
from attnbook.models.gpt_neox import gpt_neox
from attnbook.models.granite import granite
from attnbook.models.jamba import jamba
from attnbook.models.llama import llama
from attnbook.models.mamba import mamba
from attnbook.models.olmo import olmo2
from attnbook.models.parts import decoder
from attnbook.models.qwen3_next import qwen3_next
from attnbook.models.t5 import t5
from attnbook.models.vit import vit
from attnbook.models.whisper import whisper
from attnbook.models.zamba2 import zamba2
from attnbook.norms import RMSNorm
from attnbook.positions import Rotary
from attnbook.transformer import LanguageModel, MaskedLanguageModel

TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])


Model = TypeVar("Model", bound=nn.Module)


def small() -> LanguageModel:
    torch.manual_seed(0)
    return drawn(llama(V=11, width=16, depth=3, heads=4, kv_heads=2, hidden=24))


def with_biases() -> LanguageModel:
    torch.manual_seed(1)
    return drawn(gpt2(V=11, T=8, width=16, depth=3, heads=4, dropout=0.0))


def drawn(model: Model) -> Model:
    """Numbers large enough for every part to matter, biases too."""
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    return model.eval()


models = pytest.mark.parametrize("model", [small(), with_biases()], ids=["llama", "gpt2"])


@models
def test_recording_changes_nothing_and_the_last_stream_gives_the_logits(model):
    run = record(model, TOKENS)
    assert_close(run.logits, model(TOKENS))
    assert_close(lens(model, run.stream[-1]), run.logits)
    assert run.stream.shape == (4, 2, 6, 16) and run.weights.shape == (3, 2, 4, 6, 6)


@models
def test_logits_of_the_last_position_alone_are_those_and_the_rest_of_a_run_is_the_same(model):
    whole, output = record(model, TOKENS), torch.randn(2, 6, 4)
    with replaced(model, {(1, 0): output}):
        changed = model(TOKENS)
    with reading_at(model):
        run = record(model, TOKENS)
        with replaced(model, {(1, 0): output}):
            assert_close(model(TOKENS), changed[:, -1:])
    assert_close(run.logits, whole.logits[:, -1:])
    assert_close(run.stream, whole.stream)
    with reading_at(model, slice(2, 4)):
        assert_close(model(TOKENS), whole.logits[:, 2:4])
    assert_close(model(TOKENS), whole.logits)


def test_positions_are_chosen_of_logits_only():
    model = vit((8, 8), 4, 5, 16, 2, 4)
    with pytest.raises(ValueError, match="VisionTransformer has no lm_head"), reading_at(model):
        pass


@models
def test_what_the_heads_write_is_what_attention_adds_to_the_stream(model):
    run = record(model, TOKENS)
    for layer in range(3):
        parts = [written(model, (layer, h), run.heads[layer][:, h]) for h in range(4)]
        bias = model.body.blocks[layer].attention.sublayer.to_out.bias
        added = sum(parts) if bias is None else sum(parts) + bias
        assert_close(run.stream[layer] + added, run.middle[layer])


@models
def test_a_head_made_anew_from_its_own_stream_is_the_head(model):
    run = record(model, TOKENS)
    for layer, head in ((0, 0), (1, 3), (2, 2)):
        x = run.stream[layer]
        assert_close(head_from(model, (layer, head), x, x, x), run.heads[layer][:, head])
        other = head_from(model, (layer, head), x, x + torch.randn_like(x), x)
        assert not torch.allclose(other, run.heads[layer][:, head], atol=1e-3)


def test_values_from_elsewhere_change_the_output_and_not_the_weights():
    model, other = small(), TOKENS.flip(1)
    run, instead = record(model, TOKENS), record(model, other)
    x, y = run.stream[1], instead.stream[1]
    mixed = head_from(model, (1, 0), x, x, y)
    v = model.body.blocks[1].attention.sublayer.project(model.body.blocks[1].attention.norm(y))[2]
    assert_close(mixed, run.weights[1][:, 0] @ v[:, 0])


def test_zeros_in_place_of_a_head_are_its_ablation_and_its_own_output_is_nothing_new():
    model = small()
    run = record(model, TOKENS)
    with replaced(model, {(1, 2): torch.zeros(4)}):
        off = model(TOKENS)
    with without_heads(model.body.blocks[1].attention.sublayer, [2]):
        assert_close(off, model(TOKENS))
    with replaced(model, {(n, h): run.heads[n][:, h] for n in range(3) for h in range(4)}):
        assert_close(model(TOKENS), run.logits)
    assert_close(model(TOKENS), run.logits)  # outside all is as before


def test_patching_all_of_a_stream_gives_the_other_run():
    model, other = small(), TOKENS.flip(1)
    instead = record(model, other)
    with edited(model, 2, lambda x: instead.stream[2]):
        assert_close(model(TOKENS), instead.logits)
    with edited(model, 0, lambda x: x + 1):
        assert not torch.allclose(model(TOKENS), instead.logits, atol=1e-3)


def test_an_edit_at_one_position_cannot_be_felt_before_it():
    model = small()
    before = model(TOKENS)
    shift = torch.zeros(6, 16)
    shift[3] = 2.0
    with edited(model, 1, lambda x: x + shift):
        after = model(TOKENS)
    assert_close(after[:, :3], before[:, :3])
    assert not torch.allclose(after[:, 3:], before[:, 3:], atol=1e-3)


def test_what_does_not_exist_is_refused_by_name():
    model, x = small(), torch.zeros(1, 2, 16)
    refused = r"there is no head \(3, 0\): layers 0 to 2, heads 0 to 3"
    with pytest.raises(ValueError, match=refused), replaced(model, {(3, 0): torch.zeros(4)}):
        pass
    with pytest.raises(ValueError, match="positions 0 to 3; got 4"), edited(model, 4, lambda x: x):
        pass
    with pytest.raises(ValueError, match=r"there is no head \(0, 4\)"):
        head_from(model, (0, 4), x, x, x)


# -- a norm or a scale behind the attention, blocks in parallel, encoders --------------------------

SIZES = {"V": 11, "width": 16, "depth": 2, "heads": 4, "kv_heads": 2, "hidden": 24}
BEHIND = {
    "gemma2": lambda: gemma2(D=4, windows=(3, None), **SIZES),
    "gemma3": lambda: gemma3(D=4, windows=(3, None), **SIZES),
    "olmo2": lambda: olmo2(**SIZES),
    "glm4": lambda: glm4(D=4, **SIZES),
    "granite": lambda: granite(**SIZES),
}
PARALLEL = {
    "gpt_neox": lambda: gpt_neox(V=11, width=16, depth=2, heads=2, hidden=24),
    "falcon": lambda: falcon(V=11, width=16, depth=2, heads=4, hidden=24),
    "cohere": lambda: cohere(**SIZES),
}


def made(recipe) -> LanguageModel:
    torch.manual_seed(2)
    return drawn(recipe())


@pytest.mark.parametrize("name", [*BEHIND, *PARALLEL])
def test_the_heads_of_a_run_add_up_to_what_attention_added(name):
    model = made((BEHIND | PARALLEL)[name])
    run = record(model, TOKENS)
    assert_close(run.logits, model(TOKENS))
    for layer, heads in enumerate(run.heads):
        parts = [written(model, (layer, h), heads[:, h], run) for h in range(heads.shape[1])]
        bias = 0 if name != "gpt_neox" else model.body.blocks[layer].attention.to_out.bias
        assert run.middle[layer].std() > 0.1
        assert_close(run.stream[layer] + sum(parts) + bias, run.middle[layer])


@pytest.mark.parametrize("name", [*BEHIND, *PARALLEL])
def test_a_head_made_anew_reads_what_the_attention_reads(name):
    model = made((BEHIND | PARALLEL)[name])
    run = record(model, TOKENS)
    for layer, head in ((0, 0), (1, 1)):
        x = run.stream[layer]
        assert_close(head_from(model, (layer, head), x, x, x), run.heads[layer][:, head])


@pytest.mark.parametrize("name", ["gemma2", "olmo2", "glm4"])
def test_one_head_behind_a_norm_has_no_share_without_the_others(name):
    model = made(BEHIND[name])
    run = record(model, TOKENS)
    with pytest.raises(ValueError, match=r"RMSNorm stands behind the attention.*give the run"):
        written(model, (0, 0), run.heads[0][:, 0])


def test_an_encoder_and_a_vision_transformer_are_recorded():
    torch.manual_seed(3)
    reads = drawn(bert(V=11, T=8, width=16, depth=2, heads=4))
    there = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    run = record(reads, TOKENS, there)
    assert_close(run.logits, reads(TOKENS, there))
    assert_close(lens(reads, run.stream[-1]), run.logits)
    assert run.weights[:, 1, :, :, 4:].abs().max() == 0
    sees = drawn(vit((8, 8), 4, 3, width=16, depth=2, heads=4))
    images = torch.randn(2, 3, 8, 8)
    run = record(sees, images)
    assert_close(run.logits, sees(images))
    assert run.stream.shape == (3, 2, 5, 16) and run.weights.shape == (2, 2, 4, 5, 5)
    for model, layer, given in ((reads, 1, (TOKENS,)), (sees, 1, (images,))):
        run = record(model, *given)
        x = run.stream[layer]
        assert_close(head_from(model, (layer, 2), x, x, x), run.heads[layer][:, 2])
    with pytest.raises(ValueError, match="a norm stands behind the sum"):
        written(reads, (0, 0), record(reads, TOKENS).heads[0][:, 0])
    with edited(sees, 0, torch.zeros_like):
        assert_close(sees(images)[0], sees(2 * images)[0])


# -- blocks that share their weights, keys made of short vectors ----------------------------------


def shared() -> MaskedLanguageModel:
    """ALBERT: three blocks that are one module."""
    torch.manual_seed(4)
    return drawn(albert(V=11, T=8, narrow=6, width=16, depth=3, heads=4, hidden=24))


def apart(model: MaskedLanguageModel) -> MaskedLanguageModel:
    """The same model with a copy of its block for each depth."""
    twin = copy.deepcopy(model)
    twin.body.blocks = nn.ModuleList(copy.deepcopy(block) for block in twin.body.blocks)
    return twin


def test_blocks_that_share_their_weights_are_recorded_as_if_each_had_its_own():
    model = shared()
    run, other = record(model, TOKENS), record(apart(model), TOKENS)
    assert run.stream.shape == (4, 2, 6, 16) and run.weights.shape == (3, 2, 4, 6, 6)
    for name, found in vars(run).items():
        assert_close(found, getattr(other, name), msg=name)
    assert not torch.allclose(run.weights[0], run.weights[2], atol=1e-2)


@pytest.mark.parametrize("layer", [0, 1, 2])
@torch.no_grad()
def test_one_of_the_blocks_that_share_their_weights_is_changed_and_no_other(layer):
    model, heads = shared(), {(layer, 1): torch.zeros(1), (2, 3): torch.ones(1)}
    twin, plain = apart(model), model(TOKENS)
    for context in (
        lambda m: replaced(m, heads),
        lambda m: edited(m, layer, torch.neg),
        lambda m: edited(m, layer + 1, torch.neg),
    ):
        with context(model), context(twin):
            for _ in range(2):  # the next call begins at the first block again
                assert_close(model(TOKENS), twin(TOKENS))
                assert not torch.allclose(model(TOKENS), plain, atol=1e-2)
        assert_close(model(TOKENS), plain)


def test_a_head_whose_keys_are_made_of_short_vectors_is_made_anew():
    torch.manual_seed(5)
    rotate = Rotary(4)
    sizes = 16, 4, (None, 6), (5, 4, 3)

    def block() -> Block:
        attention = latent_attention(*sizes, rotate, 0.3)
        return Block(PreNorm(attention, RMSNorm(16)), PreNorm(MLP(16, 24, nn.GELU()), RMSNorm(16)))

    model = drawn(decoder(11, 16, [block() for _ in range(2)], RMSNorm(16)))
    run = record(model, TOKENS)
    for layer, head in ((0, 0), (1, 3)):
        x = run.stream[layer]
        assert_close(head_from(model, (layer, head), x, x, x), run.heads[layer][:, head])


# -- blocks without attention ----------------------------------------------------------------------

STATE = 32, 4, 3
HYBRIDS = {
    "qwen3_next": lambda: qwen3_next(
        V=11, width=16, heads=(4, 2, 8), keys=(2, 6), values=(4, 4), hidden=(12, 14),
        experts=(3, 2), full=[False, True, False],
    ),
    "jamba": lambda: jamba(
        V=11, width=16, heads=4, kv_heads=2, hidden=12, experts=(3, 2),
        blocks=[(False, False), (True, True), (False, True)], state=STATE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HYBRIDS)
@torch.no_grad()
def test_of_blocks_without_attention_the_stream_is_kept_and_no_head(name):
    model = made(HYBRIDS[name])
    run = record(model, TOKENS)
    assert_close(run.logits, model(TOKENS))
    assert_close(lens(model, run.stream[-1]), run.logits)
    for found in (run.heads, run.weights):
        assert found[[0, 2]].isnan().all() and not found[1].isnan().any()
    assert not run.middle.isnan().any()
    parts = [written(model, (1, h), run.heads[1][:, h], run) for h in range(4)]
    assert_close(run.stream[1] + sum(parts), run.middle[1])
    x = run.stream[1]
    assert_close(head_from(model, (1, 2), x, x, x), run.heads[1][:, 2])
    with replaced(model, {(1, 2): torch.zeros(1)}):
        assert not torch.allclose(model(TOKENS), run.logits, atol=1e-3)
    refused = r"there is no head \(0, 0\): layers \[1\], heads 0 to 3"
    with pytest.raises(ValueError, match=refused), replaced(model, {(0, 0): torch.zeros(1)}):
        pass


def test_a_model_without_any_attention_has_a_stream():
    model = made(lambda: mamba(V=11, width=16, depth=2, state=STATE))
    run = record(model, TOKENS)
    assert run.heads.shape == (2, 2, 0, 6, 0) and run.middle.isnan().all()
    assert_close(lens(model, run.stream[-1]), run.logits)
    with torch.no_grad(), edited(model, 1, torch.zeros_like):
        assert_close(model(TOKENS)[0], model(TOKENS)[1])


# -- models of several streams -------------------------------------------------------------------

SOURCE = torch.tensor([[2, 7, 1, 8], [1, 6, 1, 3]])
IS_TOKEN = torch.tensor([[True] * 4, [True] * 3 + [False]])
WRITTEN = {  # a model, and what it is given
    "t5": (lambda: t5(V=11, width=16, depth=(2, 3), heads=4, D=5), (SOURCE, IS_TOKEN, TOKENS)),
    "bart": (
        lambda: bart(V=11, T=8, width=16, depth=(2, 3), heads=(4, 2), hidden=(12, 12)),
        (SOURCE, IS_TOKEN, TOKENS),
    ),
    "whisper": (
        lambda: whisper(V=11, T=8, frames=4, width=16, depth=(2, 3), heads=4, hidden=24, bands=3),
        (torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0)), TOKENS),
    ),
}


def written_by(name):
    """The model, what it is given, and its three sides."""
    recipe, given = WRITTEN[name]
    model = made(recipe)
    cross = Side(model, "decoder", "cross_attention")
    return model, given, (Side(model, "encoder"), Side(model, "decoder"), cross)


@pytest.mark.parametrize("name", WRITTEN)
def test_both_sides_of_an_encoder_decoder_are_recorded_and_the_decoders_end_gives_the_logits(name):
    model, given, sides = written_by(name)
    reads, writes, looks = (record(side, *given) for side in sides)
    for run in (reads, writes, looks):
        assert_close(run.logits, model(*given))
    assert reads.weights.shape[3:] == (4, 4) and looks.weights.shape[3:] == (6, 4)
    assert_close(looks.stream, writes.stream)
    assert_close(lens(sides[1], writes.stream[-1]), writes.logits)
    with reading_at(sides[1]):
        assert_close(model(*given), writes.logits[:, -1:])
    with pytest.raises(ValueError, match="no logits are read from this stream"):
        lens(sides[0], reads.stream[-1])
    if name != "whisper":
        assert looks.weights[:, 1, :, :, 3].abs().max() == 0  # padding


@pytest.mark.parametrize("name", ["t5", "whisper"])
def test_heads_of_both_attentions_add_up_to_what_a_decoders_block_adds(name):
    _, given, (reads, writes, looks) = written_by(name)
    for side, begin in ((reads, None), (writes, None), (looks, writes)):
        run = record(side, *given)
        before = run.stream if begin is None else record(begin, *given).middle
        for layer, heads in enumerate(run.heads):
            parts = [written(side, (layer, h), heads[:, h]) for h in range(4)]
            to_out = getattr(side.body.blocks[layer], side.attention).sublayer.to_out
            added = sum(parts) if to_out.bias is None else sum(parts) + to_out.bias
            assert_close(before[layer] + added, run.middle[layer])


@pytest.mark.parametrize("name", WRITTEN)
def test_a_head_of_each_attention_is_made_anew(name):
    _, given, (reads, writes, looks) = written_by(name)
    run, own, cross = (record(side, *given) for side in (reads, writes, looks))
    memory = reads.body.norm(run.stream[-1])
    there = None if name == "whisper" else IS_TOKEN[:, None]
    for head in ((0, 0), (1, 1)):
        (layer, number), x, y = head, run.stream[head[0]], own.stream[head[0]]
        assert_close(head_from(reads, head, x, x, x, there), run.heads[layer][:, number])
        assert_close(head_from(writes, head, y, y, y), own.heads[layer][:, number])
        asked = own.middle[layer]
        found = head_from(looks, head, asked, memory, memory, there)
        assert_close(found, cross.heads[layer][:, number])
        other = head_from(looks, head, asked, 9 * memory.flip(1), memory, there)
        assert not torch.allclose(other, found, atol=1e-3)


@pytest.mark.parametrize("name", WRITTEN)
@torch.no_grad()
def test_a_patched_encoder_or_all_heads_that_look_at_it_give_the_run_on_the_other_source(name):
    model, (source, *given), (reads, _, looks) = written_by(name)
    other = source.flip(1)
    instead = record(reads, other, *given)
    with edited(reads, 1, lambda x: instead.stream[1]):
        assert_close(model(source, *given), model(other, *given))
    run = record(looks, other, *given)
    heads = range(run.heads.shape[2])
    with replaced(looks, {(n, h): run.heads[n][:, h] for n in range(3) for h in heads}):
        assert_close(model(source, *given), model(other, *given))
    assert_close(model(source, *given), record(looks, source, *given).logits)


@torch.no_grad()
def test_each_tower_of_clip_is_recorded_and_changes_its_own_axis_of_the_logits():
    seen = {"image": (8, 8), "patch": 4, "width": 16, "depth": 2, "heads": 4, "hidden": 20}
    texts = {"V": 11, "T": 8, "width": 12, "depth": 3, "heads": 3, "hidden": 20, "shared": 10}
    model = made(lambda: clip(seen | {"shared": 10}, texts))
    given = TOKENS, torch.randn(3, 3, 8, 8)
    plain = model(*given)
    for name, axis, shape in (("texts", 1, (4, 2, 6, 12)), ("pictures", 0, (3, 3, 5, 16))):
        side = Side(model, name)
        run = record(side, *given)
        assert run.stream.shape == shape and run.logits.shape == (3, 2)
        x = run.stream[1]
        assert_close(head_from(side, (1, 2), x, x, x), run.heads[1][:, 2])
        row = torch.zeros(shape[1], 1, 1)
        row[1] = 1.0
        shift = row * torch.randn(shape[-1])
        with edited(side, 1, lambda x, shift=shift: x + shift):
            changed = (model(*given) - plain).abs() > 1e-4
        assert changed.any(1 - axis).tolist() == [n == 1 for n in range(plain.shape[axis])]


def test_where_heads_do_not_write_to_the_stream_they_are_replaced_and_have_no_share():
    model = made(lambda: zamba2(11, 16, 4, hidden=20, hybrid=(True, False, True), memory=STATE))
    run = record(model, TOKENS)
    assert_close(lens(model, run.stream[-1]), run.logits)
    assert run.middle.isnan().all() and run.heads[1].isnan().all()
    assert not run.heads[[0, 2]].isnan().any()
    for layer in (0, 2):  # which share their maps
        with torch.no_grad(), replaced(model, {(layer, 1): torch.zeros(1)}):
            changed = record(model, TOKENS)
        same = [torch.allclose(changed.heads[n], run.heads[n]) for n in (0, 2)]
        assert same == [layer == 2, False]
    for use in (
        lambda: written(model, (0, 1), run.heads[0][:, 1]),
        lambda: head_from(model, (0, 1), *[run.stream[0]] * 3),
    ):
        with pytest.raises(ValueError, match="in a SharedBlock "):
            use()
