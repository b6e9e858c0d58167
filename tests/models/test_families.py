"""Every family computes here what it computes in `transformers`: logits, gradients, files."""

import json
import re
import sys
from functools import partial

import pytest
import torch
from family_cases import CASES, GAP, YARN, V, config_of, inputs
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.testing import assert_close

from attnbook.attention import Attention, Projection
from attnbook.inside.circuits import Side, edited, record, replaced
from attnbook.inside.watch import watch
from attnbook.losses import parameters
from attnbook.models.apertus import apertus
from attnbook.models.bart import bart
from attnbook.models.bert import bert, distilbert, roberta
from attnbook.models.bloom import bloom
from attnbook.models.checkpoint import checkpoint, shape_of
from attnbook.models.clip import clip
from attnbook.models.cohere import cohere, cohere2
from attnbook.models.deepseek import deepseek_v2, deepseek_v3
from attnbook.models.deit import deit
from attnbook.models.detr import detr, sines_of_places
from attnbook.models.esm import esm2
from attnbook.models.exaone import exaone4
from attnbook.models.falcon import falcon
from attnbook.models.gemma import embedding_gemma, gemma, gemma2, gemma3
from attnbook.models.gemma3n import gemma3n
from attnbook.models.glm import glm, glm4
from attnbook.models.gpt_neo import gpt_neo
from attnbook.models.gpt_neox import gpt_neox
from attnbook.models.gpt_oss import gpt_oss
from attnbook.models.gptj import gptj
from attnbook.models.granite import granite
from attnbook.models.hub import load, save, where
from attnbook.models.hunyuan import NormedLast
from attnbook.models.jamba import jamba
from attnbook.models.layout import Place, by_group
from attnbook.models.llama import mistral, smollm3
from attnbook.models.mamba import mamba, mamba2
from attnbook.models.modernbert import modernbert
from attnbook.models.mpt import mpt
from attnbook.models.nanochat import nanochat
from attnbook.models.olmo import olmo2, olmo3, olmoe
from attnbook.models.olmo_hybrid import olmo_hybrid
from attnbook.models.opt import opt
from attnbook.models.persimmon import persimmon
from attnbook.models.phi import phi, phi3
from attnbook.models.qwen import qwen2, qwen2_moe, qwen3, qwen3_moe
from attnbook.models.qwen3_next import qwen3_next
from attnbook.models.registry import FAMILIES, Family, families
from attnbook.models.sam import sam_encoder
from attnbook.models.sam2 import sam2_encoder
from attnbook.models.siglip import siglip
from attnbook.models.stablelm import stablelm
from attnbook.models.starcoder2 import starcoder2
from attnbook.models.t5 import t5
from attnbook.models.wav2vec2 import wav2vec2
from attnbook.models.whisper import whisper
from attnbook.models.zamba2 import zamba2
from attnbook.positions import Rotary
from attnbook.transformer import Tied

transformers = pytest.importorskip("transformers")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


# what transformers calls the answer, where it is not "logits"
ANSWERS = {
    "siglip": "pooler_output",
    "embedding_gemma": "last_hidden_state",
    "sam": "last_hidden_state",
    "sam2": "fpn_hidden_states",
    "clip": "logits_per_image",
    "clip pictures": "image_embeds",
    "clip texts": "text_embeds",
}


def published(case, **changes):
    """A small model of `transformers`, every weight random."""
    architecture, config = CASES[case][1], config_of(transformers, case, **changes)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = getattr(transformers, architecture)(config).eval()
    if case == "detr":  # whose convolutions transformers does not train
        model.model.unfreeze_backbone()
    with torch.no_grad():  # norms and biases too: ones and zeros hide mistakes
        for weight in [*model.parameters(), *balance_biases(model)]:
            weight.normal_(std=0.1 if weight.dim() == 4 else 0.3)
            weight.fill_(2.0) if weight.dim() == 0 else None  # the logarithm of CLIP's scale
        for name, number in model.named_buffers():  # of frozen norms
            if "normalization." in name and number.is_floating_point():
                number.uniform_(0.5, 1.5)
    return model


def balance_biases(model):
    return [b for name, b in model.named_buffers() if name.endswith("correction_bias")]


def answered(case, theirs, given, **named):
    """All that transformers' model answers."""
    if case.startswith(("t5", "bart")):
        return theirs(input_ids=given[0], decoder_input_ids=given[2], **named)
    if case == "whisper":
        return theirs(given[0], decoder_input_ids=given[1], **named)
    return theirs(*given, **named)


def both(case, theirs, ours, given=None):
    """What the two models answer to the same input."""
    given = inputs(case) if given is None else given
    answer = answered(case, theirs, given)
    if case == "detr":
        return torch.cat((answer.logits, answer.pred_boxes), -1), torch.cat(ours(*given), -1)
    answers = getattr(answer, ANSWERS.get(case.split(",")[0], "logits")), ours(*given)
    if case == "sam2":  # pictures of three sizes
        return tuple(torch.cat([x.flatten(1) for x in pictures], 1) for pictures in answers)
    return answers


def tensors(folder):
    """By name; ESM's norms have the names of the first files still."""
    found = {n: x for path in folder.glob("*.safetensors") for n, x in load_file(path).items()}
    last = {".gamma": ".weight", ".beta": ".bias"}
    old = r"(?i)(?<=norm)\.(gamma|beta)$"
    return {re.sub(old, lambda m: last[m[0]], n): x for n, x in found.items()}


def gradients_in_place(model):
    """The gradients take the weights' places, so that they can be saved and compared by name."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.zeros_like(weight) if weight.grad is None else weight.grad)


@pytest.mark.parametrize("case", CASES)
def test_logits_and_gradients_are_those_of_transformers(case, tmp_path):
    theirs = published(case)
    theirs.save_pretrained(tmp_path / "weights")
    ours = load(tmp_path / "weights")
    expected, found = both(case, theirs, ours)
    assert expected.std() > 0.05
    assert_close(found, expected, rtol=1e-5, atol=1e-5)

    compare_gradients(theirs, ours, expected, found, tmp_path / "gradients", 1e-5)


def compare_gradients(theirs, ours, expected, found, folder, most):
    """Of each weight, by its published name, for one random sum of what both models answered."""
    direction = torch.randn_like(expected)
    (expected * direction).sum().backward()
    (found * direction).sum().backward()
    for model in (theirs, ours):
        gradients_in_place(model)
    theirs.save_pretrained(folder)
    stored = tensors(folder)
    family = families()[json.loads((folder / "config.json").read_text())["model_type"]]
    for name, place in where(ours, family).items():
        true = stored[name if name in stored else name.removeprefix(family.prefix)]
        size = max(1.0, float(true.abs().max()))
        assert_close(place.get() / size, true / size, rtol=most, atol=most, msg=name)


class Wide:
    """torch, whose float32 is float64."""

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@pytest.mark.parametrize(("case", "most"), [("detr", 1e-8), ("zamba2", 1e-12)])
def test_where_float32_is_ill_conditioned_gradients_differ_by_rounding_alone(
    case, most, tmp_path, monkeypatch
):
    """In float64 they agree, as far as DETR's places go, which are float32 there and here."""
    theirs = published(case, **({"use_mem_rope": False} if case == "zamba2" else {}))
    theirs.save_pretrained(tmp_path / "weights")
    theirs, ours = theirs.double(), load(tmp_path / "weights").double()
    monkeypatch.setattr("transformers.models.zamba2.modeling_zamba2.torch", Wide())
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    given = [x.double() if x.is_floating_point() else x for x in inputs(case)]
    expected, found = both(case, theirs, ours, given)
    assert_close(found, expected, rtol=most, atol=most)
    compare_gradients(theirs, ours, expected, found, tmp_path / "gradients", most)


# one case of each class, and what it calls its activation
ACTIVATIONS = "hidden_act", "activation_function", "hidden_activation", "activation"
EACH_KIND = list({CASES[case][0]: case for case in reversed(CASES)}.values())
ACTIVE = [
    (case, name)
    for case in EACH_KIND
    for name in ACTIVATIONS
    if hasattr(config_of(transformers, case), name)
]


@pytest.mark.parametrize(("case", "name"), ACTIVE)
def test_another_activation_is_computed_or_refused(case, name, tmp_path):
    usual = getattr(config_of(transformers, case), name)
    change = {name: "gelu_new" if usual == "relu" else "relu"}
    config = config_of(transformers, case, **change).to_dict()
    try:
        families()[config["model_type"]].build(config)
    except ValueError as error:
        assert f"config.json has {name} = " in str(error)
        return
    theirs = published(case, **change)
    theirs.save_pretrained(tmp_path)
    with torch.no_grad():
        expected, found = both(case, theirs, load(tmp_path))
    assert_close(found, expected, rtol=1e-5, atol=1e-5)


# -- what runs inside -------------------------------------------------------------------------

CROSS = ("decoder", "cross_attention")
SIDES = ("encoder",), ("decoder",), CROSS
SEVERAL = {  # the cases with more than one stream, and what their sides are called
    **dict.fromkeys(("t5", "t5 v1.1", "bart", "whisper", "detr"), SIDES),
    **dict.fromkeys(("clip", "clip, first files"), (("pictures",), ("texts",))),
}
OF_THEIR_OWN = {"gemma3n", "zamba2"}  # whose attention does not write to the stream itself


def inside(case, side, *more):
    """A test of one stream; of most families that have no other it is slow."""
    quick = case in SEVERAL or case in OF_THEIR_OWN or case in ("gpt2", "sam", "wav2vec2")
    marks = () if quick else (pytest.mark.slow,)
    return pytest.param(case, side, *more, marks=marks, id=" ".join((case, *side)))


def theirs_inside(answer, side):
    """The stream before each layer and behind the last, and the weights of each attention."""
    if side == CROSS:
        return answer.decoder_hidden_states, answer.cross_attentions
    if side in SIDES:
        return answer[f"{side[0]}_hidden_states"], answer[f"{side[0]}_attentions"]
    towers = {("texts",): "text_model_output", ("pictures",): "vision_model_output"}
    found = answer[towers[side]] if side else answer
    return found.hidden_states, found.get("attentions", ())


@pytest.mark.parametrize(
    ("case", "side"),
    [inside(c, side) for c in CASES if c != "sam2" for side in SEVERAL.get(c, [()])],
)
@torch.no_grad()
def test_streams_and_weights_are_those_of_transformers(case, side, tmp_path):
    theirs, given = published(case), inputs(case)
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path)
    memory = case.startswith("mamba")  # without attention; and transformers keeps no embedding
    shown = {"output_hidden_states": True} | ({} if memory else {"output_attentions": True})
    (*before, last), weights = theirs_inside(answered(case, theirs, given, **shown), side)
    model = Side(ours, *side) if side else ours
    run = record(model, *given)
    for found, true in zip(run.stream[int(memory) :], before, strict=False):
        assert_close(found, true.reshape(found.shape), rtol=1e-5, atol=1e-5)
    assert len(before) == len(model.body.blocks)
    end = model.body.norm(run.stream[-1])  # which some show and others do not
    last = last.reshape(end.shape if last.numel() == end.numel() else run.stream[-1].shape)
    assert any(torch.allclose(x, last, 1e-5, 1e-5) for x in (end, run.stream[-1]))
    seen = [found for found in run.weights if found.isfinite().any()]
    windows = case == "sam"  # whose weights, in windows, are of another shape
    true = [there for there in weights if there is not None][int(windows) :]
    for found, there in zip(seen, true, strict=True):
        assert_close(found, there.reshape(found.shape), rtol=1e-5, atol=1e-5)


def theirs_at(case, side):
    """Where transformers' model has the blocks of a side, and a block the map behind its heads."""
    cross = side == CROSS
    if case.startswith("t5"):
        names = ("layer.1.EncDecAttention" if cross else "layer.0.SelfAttention"), "o"
        return f"{side[0]}.block", ".".join(names)
    if case.startswith("clip"):
        tower = {"texts": "text_model", "pictures": "vision_model"}[side[0]]
        return f"{tower}.encoder.layers", "self_attn.out_proj"
    if case in OF_THEIR_OWN:
        inside = "shared_transformer." if case == "zamba2" else ""
        return "model.layers", f"{inside}self_attn.o_proj"
    to_out = "o_proj" if case == "detr" else "out_proj"
    return f"model.{side[0]}.layers", f"{'encoder_attn' if cross else 'self_attn'}.{to_out}"


@pytest.mark.parametrize(
    ("case", "side"),
    [inside(c, side) for c in [*SEVERAL, *sorted(OF_THEIR_OWN)] for side in SEVERAL.get(c, [()])],
)
@torch.no_grad()
def test_a_changed_stream_or_head_does_what_a_hook_of_torch_does_there(case, side, tmp_path):
    theirs, given = published(case), inputs(case)
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path)
    model = Side(ours, *side) if side else ours
    run, plain = record(model, *given), both(case, theirs, ours)[1]
    layer = 3 if case == "zamba2" else 1  # where the map behind the heads is that of layer 0
    blocks, to_out = theirs_at(case, side)
    block = theirs.get_submodule(f"{blocks}.{layer}")
    shift = torch.randn(run.stream.shape[-2:])

    def shifted(_, args, kwargs):
        if args:
            return (args[0] + shift, *args[1:]), kwargs
        return args, kwargs | {"hidden_states": kwargs["hidden_states"] + shift}

    handle = block.register_forward_pre_hook(shifted, with_kwargs=True)
    with edited(model, layer, lambda x: x + shift):
        expected, found = both(case, theirs, ours)
    handle.remove()
    assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found, plain, atol=1e-3)

    D, heads = run.heads.shape[-1], []

    def silent(_, args):
        heads.append(args[0])
        return args[0].index_fill(-1, torch.arange(D, 2 * D), 0.0)

    handle = block.get_submodule(to_out).register_forward_pre_hook(silent)
    with replaced(model, {(layer, 1): torch.zeros(D)}):
        expected, found = both(case, theirs, ours)
    handle.remove()
    assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found, plain, atol=1e-3)
    (true,) = heads
    assert_close(run.heads[layer].transpose(1, 2).flatten(2), true, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("sam2", "Hiera is no model with one stream, .*inside.watch` shows where it looks"),
        ("t5", r"give Side\(model, 'encoder'\) or Side\(model, 'decoder'\)"),
        ("clip", r"give Side\(model, 'pictures'\) or Side\(model, 'texts'\)"),
    ],
)
def test_a_model_that_has_not_one_stream_says_what_can_be_studied(case, said):
    config = config_of(transformers, case).to_dict()
    model = families()[config["model_type"]].build(config)
    with pytest.raises(ValueError, match=said):
        record(model, *inputs(case))
    with pytest.raises(ValueError, match=f"has no stream 'middle'; .*{said[-12:]}"):
        Side(model, "middle")
    with watch(model) as weights, torch.no_grad():
        model(*inputs(case))
    assert weights


# Weights that are made, drawn and dropped, as stored runs have drawn them: by a tied output layer,
# for the embedding's; by Zamba2, Whisper and wav2vec 2.0, a little.
DROPPED = {"zamba2", "whisper", "wav2vec2, large"}


@pytest.mark.parametrize("case", [case for case in CASES if case not in DROPPED])
def test_every_weight_that_is_made_is_kept(case):
    """A recipe that makes a part and replaces it takes the memory of both."""
    config = config_of(transformers, case).to_dict()
    made = {}  # by identity, and kept alive: no two have the same one

    def register(owner, _, weight):
        if not isinstance(owner, Tied):
            made[id(weight)] = weight

    hook = register_module_parameter_registration_hook(register)
    try:
        with torch.device("meta"):
            model = families()[config["model_type"]].build(config)
    finally:
        hook.remove()
    tied = [part.bias for part in model.modules() if isinstance(part, Tied)]
    kept = {id(weight) for weight in model.parameters()} - set(map(id, tied))
    assert made.keys() == kept


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_is_saved_is_read_by_transformers(case, tmp_path):
    theirs = published(case)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load(tmp_path / "theirs")
    config = json.loads((tmp_path / "theirs/config.json").read_text())
    save(ours, tmp_path / "ours", config)
    again = type(theirs).from_pretrained(tmp_path / "ours", attn_implementation="eager").eval()
    with torch.no_grad():
        expected, found = both(case, again, ours)
    assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert sorted(path.name for path in (tmp_path / "ours").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]


@torch.no_grad()
def test_sound_of_two_lengths_is_padded_and_older_files_name_its_weights_otherwise(tmp_path):
    theirs, (sound,) = published("wav2vec2, large"), inputs("wav2vec2")
    there = torch.arange(70) < torch.tensor([[70], [41]])
    expected = theirs(sound, attention_mask=there.long()).logits
    theirs.save_pretrained(tmp_path)
    for new, old in (("original0", "g"), ("original1", "v")):
        weights = load_file(tmp_path / "model.safetensors")
        names = {n: n.replace(f"parametrizations.weight.{new}", f"weight_{old}") for n in weights}
        renamed = {names[n]: x for n, x in weights.items()}
        assert renamed.keys() != weights.keys()
        save_file(renamed, tmp_path / "model.safetensors")
    found = load(tmp_path)(sound, there)
    assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5)
    assert_close(found[1, :6], expected[1, :6], rtol=1e-5, atol=1e-5)  # what 41 samples give


@torch.no_grad()
def test_pictures_of_two_sizes_are_padded_and_timm_names_the_backbone_otherwise(tmp_path):
    theirs, (images,) = published("detr"), inputs("detr")
    for weight in theirs.parameters():
        weight.mul_(3 if weight.dim() == 4 else 1)  # so that places differ
    there = torch.ones(2, 64, 96, dtype=torch.bool)
    there[1, :, 40:] = False
    answer = theirs(images, pixel_mask=there.long())
    theirs.save_pretrained(tmp_path)
    ours = load(tmp_path)
    logits, boxes = ours(images, there)
    assert_close(logits, answer.logits, rtol=1e-5, atol=1e-5)
    assert_close(boxes, answer.pred_boxes, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(logits, ours(images)[0], atol=1e-3)
    with torch.device("meta"):
        names = where(detr(), families()["detr"])
    stem = "model.backbone.conv_encoder.model"  # as in the files that are published
    for name in ("conv1", "bn1", "layer1.0.downsample.0", "layer4.2.conv3", "layer3.5.bn2"):
        assert f"{stem}.{name}.weight" in names, name


@torch.no_grad()
def test_of_a_whole_sam2_the_encoder_is_read_and_a_line_says_what_was_left_out(tmp_path):
    fewer = {"num_hidden_layers": 1, "mlp_dim": 8, "num_multimask_outputs": 1}
    parts = {"vision_config": config_of(transformers, "sam2"), "mask_decoder_config": fewer}
    torch.manual_seed(0)
    whole = transformers.Sam2Model(transformers.Sam2Config(**parts)).eval()
    for weight in whole.vision_encoder.parameters():
        weight.normal_(std=0.1)
    whole.save_pretrained(tmp_path)
    rewrite(tmp_path, model_type="sam2_video")  # as the published files of pictures and videos say
    with pytest.warns(UserWarning, match=r"left out: mask_decoder.* and \d+ more") as said:
        ours, (images,) = load(tmp_path), inputs("sam2")
    assert len(said) == 1, [str(one.message) for one in said]
    expected, found = whole.vision_encoder(images), ours(images)
    places = expected.fpn_position_encoding
    for picture, there, place in zip(found, expected.fpn_hidden_states, places, strict=True):
        assert_close(picture, there, rtol=1e-5, atol=1e-5)
        here = torch.ones_like(picture[:, 0]).bool()
        assert_close(sines_of_places(here, 8).mT.unflatten(2, place.shape[2:]), place)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"image": (64, 72)}, "64 × 72 does not divide into patches of 32 × 32"),
        ({"image": (32, 64), "windows": (6, 4, 14, 7)}, "8 × 16 does not divide into windows of 6"),
        ({"windows": (8, 4, 7, 7)}, r"an even size; got \(8, 4, 7, 7\)"),
    ],
)
def test_sizes_that_do_not_halve_are_refused_before_a_block_is_made(sizes, said):
    with torch.device("meta"), pytest.raises(ValueError, match=said):
        sam2_encoder(**sizes)


@torch.no_grad()
def test_gaps_of_a_protein_are_counted_among_its_amino_acids_and_not_its_padding(tmp_path):
    theirs, (tokens,) = published("esm"), inputs("esm")
    tokens[:, 2], tokens[0, 4], tokens[1, 6:] = GAP, GAP, 1
    theirs.save_pretrained(tmp_path)
    there = tokens != 1
    expected = theirs(tokens, attention_mask=there.long()).logits
    found = load(tmp_path)(tokens, there)
    assert_close(found[there], expected[there], rtol=1e-5, atol=1e-5)
    alone = load(tmp_path)(tokens[1:, :6])
    assert_close(alone[0], expected[1, :6], rtol=1e-5, atol=1e-5)


MEMORIES = ["gemma3n", "qwen3_next", "olmo_hybrid", "jamba", "mamba", "mamba2", "zamba2"]


@pytest.mark.parametrize("case", MEMORIES)
@torch.no_grad()
def test_a_memory_goes_on_where_it_was_and_padding_is_not_in_it(case):
    config = config_of(transformers, case).to_dict()
    model, (tokens,) = families()[config["model_type"]].build(config).eval(), inputs(case)
    torch.manual_seed(2)
    for weight in model.parameters():
        weight.normal_(std=0.3)
    whole, caches = model(tokens), model.caches()
    pieces = [model(tokens[:, some], caches) for some in (slice(4), slice(4, 5), slice(5, 9))]
    assert_close(torch.cat(pieces, 1), whole, rtol=1e-4, atol=1e-5)
    if case != "gemma3n":  # whose windows cannot be cut back to the start
        for cache in caches:
            cache.cut(0)
            cache.select(torch.tensor([1]))
        assert_close(model(tokens[1:], caches), whole[1:], rtol=1e-4, atol=1e-5)
    padded = torch.cat((torch.zeros(2, 3, dtype=torch.long), tokens), 1)
    found = model(padded, mask=torch.arange(12) > torch.tensor([[2], [2]]))
    assert_close(found[:, 3:], whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ["opt", "mamba2"])  # whose weights begin with random numbers
def test_loading_and_saving_leave_the_random_generator_where_it_stood(case, tmp_path):
    published(case).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    before = torch.get_rng_state()
    save(load(tmp_path), tmp_path, config)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def folder(tmp_path):
    published("llama").save_pretrained(tmp_path)
    return tmp_path


def rewrite(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_bare_model_without_the_prefix_of_its_head_is_read(tmp_path):
    theirs = published("gpt2")
    theirs.transformer.save_pretrained(tmp_path)
    ours = load(tmp_path)
    tokens = torch.randint(V, (1, 5))
    assert_close(ours(tokens), theirs(tokens).logits, rtol=1e-5, atol=1e-5)


def test_a_bare_bart_has_its_head_all_the_same(tmp_path):
    theirs = published("bart")
    theirs.model.save_pretrained(tmp_path)
    assert "final_logits_bias" not in tensors(tmp_path)
    expected, found = both("bart", theirs, load(tmp_path))
    assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_many_wrong_names_are_a_short_message(folder):
    weights = load_file(folder / "model.safetensors")
    save_file({f"other.{n}": x for n, x in weights.items()}, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"missing: .* and \d+ more") as error:
        load(folder)
    assert len(str(error.value)) < 1000


def test_the_shapes_of_files_are_read_without_their_numbers(folder, monkeypatch):
    found = checkpoint(folder)
    expected = {name: tuple(x.shape) for name, x in tensors(folder).items()}
    monkeypatch.setattr(type(found), "__getitem__", None)
    assert {name: shape_of(found, name) for name in found} == expected


def test_weights_that_are_not_numbers_are_refused(folder):
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][3] = float("nan")
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"not a number in: model\.norm\.weight"):
        load(folder)


def test_the_home_directory_and_the_path_of_a_file_are_understood(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    tokens = torch.randint(V, (1, 5))
    expected = load(folder)(tokens)
    for source in (f"~/{folder.name}", folder / "model.safetensors", folder / "config.json"):
        assert_close(load(source)(tokens), expected)


def test_a_path_that_is_not_there_is_no_repository(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        load(tmp_path / "nothing" / "here")


def test_a_dtype_may_be_named(folder):
    assert {p.dtype for p in load(folder, "bfloat16").parameters()} == {torch.bfloat16}
    with pytest.raises(ValueError, match=r"float32, float16, bfloat16; got 'bf16'"):
        load(folder, "bf16")


def test_a_bert_that_is_a_decoder_is_refused(tmp_path):
    published("bert").save_pretrained(tmp_path)
    rewrite(tmp_path, is_decoder=True)
    with pytest.raises(ValueError, match="is_decoder = True"):
        load(tmp_path)


def test_an_unknown_family_is_refused_with_those_that_are_known(folder):
    rewrite(folder, model_type="retnet")
    with pytest.raises(ValueError, match=r"'retnet'.*bert, bloom"):
        load(folder)


def test_a_family_registered_elsewhere_stands_before_the_one_here(monkeypatch):
    own = Family(lambda config: mpt(7, 12, 1, 3), {}, "MptForCausalLM")
    monkeypatch.setitem(FAMILIES, "mpt", own)
    monkeypatch.delitem(sys.modules, "attnbook.models.mpt")  # as if nobody had read it yet
    assert families()["mpt"] is own


# What the recipes do not compute, though files of the family might say it.
REFUSED = [
    ("qwen3_moe", {"mlp_only_layers": [1]}),
    ("qwen2_moe", {"decoder_sparse_step": 2}),
    ("qwen2_moe", {"use_sliding_window": True}),
    ("qwen3_next", {"mlp_only_layers": [0]}),
    ("olmoe", {"clip_qkv": 8.0}),
    ("deepseek_v2", {"norm_topk_prob": True}),
    ("deepseek_v3", {"moe_layer_freq": 2}),
    ("llama4", {"layer_types": ["full_attention", "full_attention"]}),
    ("gemma", {"use_bidirectional_attention": True}),
    ("apertus", {"post_norm": True}),
    ("exaone4", {"reorder_and_qk_norm": False}),
    ("cohere2", {"attention_bias": True}),
    ("glm4", {"hidden_act": "gelu"}),
    ("modernbert", {"norm_bias": True}),
    ("bart", {"normalize_before": True}),
    ("mpt", {"expansion_ratio": 2}),
    ("persimmon", {"hidden_act": "relu"}),
    ("nanochat", {"attention_bias": True}),
    ("hunyuan", {"use_qk_norm": False}),
    ("jamba", {"hidden_act": "gelu"}),
    ("olmo_hybrid", {"attention_bias": True}),
    ("wav2vec2", {"adapter_attn_dim": 16}),
    ("clip pictures", {"num_channels": 1}),
    ("zamba2", {"use_long_context": True}),
    ("mamba2", {"hidden_act": "gelu"}),
    ("sam", {"use_rel_pos": False}),
    ("sam2", {"num_feature_levels": 2}),
    ("detr", {"dilation": True}),
    ("gemma3n", {"altup_active_idx": 1}),
    ("embedding_gemma", {"final_logit_softcapping": 30.0}),
    ("gpt_neo", {"tie_word_embeddings": False}),
    ("esm", {"position_embedding_type": "absolute"}),
    ("esm", {"emb_layer_norm_before": True}),
]


@pytest.mark.parametrize(("case", "change"), REFUSED)
def test_what_is_not_computed_is_refused_by_name(case, change):
    config = config_of(transformers, case).to_dict()
    build = families()[config["model_type"]].build
    build(config)
    ((name, value),) = change.items()
    with pytest.raises(ValueError, match=rf"config\.json has {name} = .*supported is"):
        build(config | {name: value})


def test_each_dropout_of_gpt2_has_the_rate_of_its_config():
    build = families()["gpt2"].build
    sizes = {"vocab_size": 7, "n_positions": 5, "n_embd": 12, "n_layer": 2, "n_head": 3}
    model = build(sizes | {"resid_pdrop": 0.2, "attn_pdrop": 0.3, "embd_pdrop": 0.4})
    attention = model.body.blocks[1].attention
    rates = attention.dropout.p, attention.sublayer.dropout, model.embed.dropout.p
    assert rates == (0.2, 0.3, 0.4)
    assert build(sizes).body.blocks[0].attention.sublayer.dropout == 0.1  # as transformers has it


def rates(model):
    """The rates at which a model drops anything in training."""
    found = {part.p for part in model.modules() if isinstance(part, nn.Dropout)}
    return (found | {part.dropout for part in model.modules() if isinstance(part, Attention)}) - {0}


def with_dropout(case, rate):
    """A config of the case in which `rate(name)` is that of every setting that names a dropout."""
    config = config_of(transformers, case).to_dict()
    drops = [name for name, value in config.items() if "drop" in name and isinstance(value, float)]
    return config | {name: rate(name) for name in drops}


@pytest.mark.parametrize("case", EACH_KIND)
def test_what_a_config_does_not_drop_is_not_dropped(case):
    config = with_dropout(case, lambda name: 0.0)
    assert rates(families()[config["model_type"]].build(config)) == set()


BERTS = ["bert", "roberta", "distilbert", "electra", "albert", "vit"]
DROPS = {case: {0.2, 0.3} for case in BERTS}  # on the residual path, and on the weights
DROPS |= {case: {0.2} for case in ("bart", "detr", "opt", "wav2vec2", "hubert")}


@pytest.mark.parametrize("case", DROPS)
def test_what_a_config_drops_is_dropped(case):
    config = with_dropout(case, lambda name: 0.3 if "att" in name else 0.2)
    build = families()[config["model_type"]].build
    assert rates(build(config)) == DROPS[case]
    usual = config_of(transformers, case).to_dict()
    silent = {name: value for name, value in usual.items() if "drop" not in name}
    assert rates(build(silent)) == rates(build(usual))  # what no file says is as in transformers


def test_quantised_weights_are_refused(folder):
    rewrite(folder, quantization_config={"quant_method": "gptq"})
    with pytest.raises(ValueError, match="quantization_config"):
        load(folder)


def test_unknown_frequencies_are_refused_before_a_tensor_is_read(folder):
    rewrite(folder, rope_parameters={"rope_type": "spiral", "rope_theta": 50.0})
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="'spiral' are unknown here"):
        load(folder)


# Names that published files had before `layer_types` and `rope_parameters`.
OLDER = {
    "gemma2": {"rope_theta": 50.0},
    "gemma3": {"rope_theta": 40.0, "rope_local_base_freq": 7.0, "sliding_window_pattern": 3},
    "cohere2": {"rope_theta": 50.0, "sliding_window_pattern": 3},
    "modernbert": {
        "global_rope_theta": 40.0,
        "local_rope_theta": 7.0,
        "global_attn_every_n_layers": 2,
    },
    "glm4": {"rope_theta": 50.0, "partial_rotary_factor": 0.5},
    "olmo3": {
        "rope_theta": 500_000.0,
        "rope_scaling": {name: YARN[name] for name in YARN if name != "rope_theta"},
    },
}


@pytest.mark.parametrize("case", OLDER)
def test_settings_in_older_files_mean_what_transformers_reads_there(case, tmp_path):
    published(case).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    new = {name: config.pop(name, None) for name in ("layer_types", "rope_parameters")}
    path.write_text(json.dumps(config | {"rope_parameters": None} | OLDER[case]))
    architecture = getattr(transformers, CASES[case][1])
    theirs = architecture.from_pretrained(tmp_path, attn_implementation="eager").eval()
    assert new["rope_parameters"] is not None
    with torch.no_grad():
        expected, found = both(case, theirs, load(tmp_path))
    assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_config_of_another_size_saves_nothing(folder, tmp_path):
    model = load(folder)
    config = json.loads((folder / "config.json").read_text()) | {"intermediate_size": 21}
    with pytest.raises(ValueError, match="the config is of another model"):
        save(model, tmp_path / "new", config)
    assert not (tmp_path / "new").exists()


def test_two_texts_are_told_apart(tmp_path):
    theirs = published("bert")
    theirs.save_pretrained(tmp_path)
    tokens, token_types = torch.randint(3, V, (2, 7)), torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * 2)
    expected = theirs(tokens, token_type_ids=token_types).logits
    ours = load(tmp_path)
    assert_close(ours(tokens, token_types=token_types), expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(ours(tokens), expected, atol=1e-2)


# Counted in the published files, in millions; two of them without parts that are not built here.
PUBLISHED_SIZES = [
    (clip, 151.3),
    (embedding_gemma, 302.9),
    (mpt, 6649.3),
    (persimmon, 9397.2),
    (jamba, 51_570.3),
    (mamba, 129.1),
    (mamba2, 7285.4),
    (zamba2, 1215.1),
    (sam_encoder, 89.7),
    (sam2_encoder, 69.1),
    (detr, 41.5),
    (gemma3n, 6835.2),
    (olmo_hybrid, 7430.9),
    (glm, 9400.0),
    (wav2vec2, 94.4),
    (qwen2, 7615.6),
    (qwen3, 8190.7),
    (mistral, 7241.7),
    (smollm3, 3075.1),
    (gemma2, 2614.3),
    (gemma3, 3880.3),
    (olmo2, 7298.6),
    (gpt_oss, 20914.8),
    (phi3, 3821.1),
    (granite, 8170.8),
    (stablelm, 2795.4),
    (starcoder2, 3030.4),
    (opt, 125.2),
    (gptj, 6050.9),
    (phi, 2779.7),
    (nanochat, 1879.0),
    (cohere, 34980.8),
    (gpt_neo, 1315.6),
    (gpt_neox, 20554.6),
    (falcon, 6921.7),
    (bloom, 176247.3),
    (partial(bert, token_types=2), 109.5),
    (roberta, 124.7),
    (distilbert, 67.0),
    (modernbert, 149.7),
    (esm2, 651.0),
    (bart, 406.3),
    (gemma, 8537.7),
    (glm4, 9400.3),
    (apertus, 8053.3),
    (olmo3, 7298.0),
    (exaone4, 32003.2),
    (cohere2, 8028.0),
    (t5, 60.5),
    (whisper, 37.2),
    (deit, 87.3),
    (siglip, 92.9),
]


@pytest.mark.parametrize(("recipe", "millions"), PUBLISHED_SIZES)
def test_the_defaults_are_the_published_sizes(recipe, millions):
    with torch.device("meta"):
        assert parameters(recipe()) / 1e6 == pytest.approx(millions, rel=1e-3)


# as above, of how many blocks, and how many of them are not like the others
MIXTURES = [
    (deepseek_v3, 671_026.4, 61, 3),
    (deepseek_v2, 235_741.4, 60, 1),
    (qwen2_moe, 14_315.8, 24, 0),
    (qwen3_moe, 30_532.1, 48, 0),
    (olmoe, 6919.2, 16, 0),
]


@pytest.mark.parametrize(("recipe", "millions", "depth", "other"), MIXTURES)
def test_mixtures_have_their_published_sizes(recipe, millions, depth, other):
    """58 blocks of 257 experts are 45,000 modules: one is built, the others are the same."""
    with torch.device("meta"):
        without, one = (parameters(recipe(depth=some)) for some in (other, other + 1))
    found = without + (depth - other) * (one - without)
    assert found / 1e6 == pytest.approx(millions, rel=1e-5)


def test_qwen3_next_has_80_billion_parameters():
    with torch.device("meta"):
        ends, memory, attention = (
            parameters(qwen3_next(full=some)) for some in ([], [False], [True])
        )
    assert ends + 36 * (memory - ends) + 12 * (attention - ends) == pytest.approx(80e9, rel=5e-3)


def test_a_model_as_published_is_built_on_no_memory_and_keeps_its_ties():
    with torch.device("meta"):
        model = gemma2(depth=2)
    assert model.lm_head[0].weight is model.embed.tokens.weight


def test_a_learned_norm_after_the_rotation_lets_the_position_into_the_score():
    torch.manual_seed(0)
    attention = NormedLast(Projection(8, 2), nn.Identity(), Rotary(4), eps=1e-6)
    x = torch.randn(1, 1, 8).expand(1, 9, 8)  # the same token everywhere

    def spread():
        """Of the scores of tokens that stand three positions apart."""
        q, k, _ = attention.placed(x)
        scores = (q[:, :, 3:] * k[:, :, :-3]).sum(-1)
        return float((scores.amax(-1) - scores.amin(-1)).min())

    with torch.no_grad():
        assert spread() < 1e-5  # weights of one
        attention.q_norm.weight.copy_(torch.tensor([2.0, 0.5, 2.0, 0.5]))
        assert spread() < 1e-5  # one weight for a pair of channels that turns
        attention.q_norm.weight[0] = 1.0
        assert spread() > 0.01


def test_queries_keys_and_values_by_group_come_back_as_they_were():
    owner = Projection(12, 6, 2, D=4, bias=True)
    for weight in owner.to_qkv.parameters():
        pieces = list(by_group("qkv", weight, owner))
        place = Place(pieces[0].shape, pieces)
        before, stored = weight.detach().clone(), place.get()
        assert not torch.equal(stored, before)
        with torch.no_grad():
            weight.zero_()
        place.put(stored)
        assert torch.equal(weight, before)
