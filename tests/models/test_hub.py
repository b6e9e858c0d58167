"""Published weights compute here what they compute in `transformers`; wrong ones change nothing."""

import copy
import json
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from attnbook.generate.sampling import generate
from attnbook.masks import length_mask
from attnbook.models.hub import fill, load, where
from attnbook.models.registry import families

transformers = pytest.importorskip("transformers")
transformers.utils.logging.disable_progress_bar()

V, T = 17, 11
SPECIAL = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
CONFIGS = {
    "gpt2": transformers.GPT2Config(
        vocab_size=V,
        n_positions=T,
        n_embd=12,
        n_layer=2,
        n_head=3,
        layer_norm_epsilon=0.02,
    ),
    "bert": transformers.BertConfig(
        vocab_size=V,
        max_position_embeddings=T,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=48,
        layer_norm_eps=0.02,
    ),
    "llama": transformers.LlamaConfig(
        vocab_size=V,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        intermediate_size=20,
        rms_norm_eps=0.02,
        rope_parameters={"rope_type": "default", "rope_theta": 50.0},
    ),
}
CONFIGS["tied"] = copy.deepcopy(CONFIGS["llama"])
CONFIGS["tied"].tie_word_embeddings = True
FAMILIES = {
    "gpt2": (transformers.GPT2LMHeadModel, partial(load, kind="gpt2"), families()["gpt2"]),
    "bert": (transformers.BertForMaskedLM, partial(load, kind="bert"), families()["bert"]),
    "llama": (transformers.LlamaForCausalLM, partial(load, kind="llama"), families()["llama"]),
    "tied": (transformers.LlamaForCausalLM, partial(load, kind="llama"), families()["llama"]),
}
CAUSAL = ["gpt2", "llama", "tied"]


def published(name, folder, dtype=torch.float32, **options):
    """A small model of `transformers`, every weight random, and its files."""
    kind, load, family = FAMILIES[name]
    config = copy.deepcopy(CONFIGS[name])
    config.update(SPECIAL)
    torch.manual_seed(0)
    model = kind(config).eval()
    with torch.no_grad():
        for weight in model.parameters():  # norms and biases too: ones and zeros hide mistakes
            weight.normal_(std=0.5)
    model.to(dtype).save_pretrained(folder, **options)
    return SimpleNamespace(model=model, folder=folder, load=load, kind=family)


@pytest.fixture(params=FAMILIES)
def family(request, tmp_path):
    return published(request.param, tmp_path)


@pytest.fixture
def tokens():
    return torch.tensor([[3, 16, 0, 5, 9, 5, 2], [1, 4, 4, 13, 8, 0, 11]])


def rewrite(folder, change):
    """Change the tensors of a checkpoint, on the disk."""
    path = folder / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    save_file(change(tensors) or tensors, path)


def reconfigure(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# -- equal to transformers --------------------------------------------------------------------


def test_logits_are_those_of_transformers(family, tokens):
    mine, theirs = family.load(family.folder)(tokens), family.model(tokens).logits
    assert theirs.std() > 0.5  # nothing is hidden by being small
    assert_close(mine, theirs, atol=1e-5, rtol=0)


def test_bert_ignores_padding_as_transformers_does(tmp_path, tokens):
    family = published("bert", tmp_path)
    mask = length_mask(torch.tensor([7, 4]))
    mine = family.load(tmp_path)(tokens, mask)
    theirs = family.model(tokens, attention_mask=mask.long()).logits
    assert_close(mine[mask], theirs[mask], atol=1e-5, rtol=0)
    assert not torch.allclose(theirs[1, :4], family.model(tokens).logits[1, :4], atol=1e-2)


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("cached", [True, False])
def test_greedy_writing_is_that_of_transformers(tmp_path, tokens, name, cached):
    family = published(name, tmp_path)
    theirs = family.model.generate(tokens, max_new_tokens=4, do_sample=False)
    assert generate(family.load(tmp_path), tokens, 4, cached=cached).tolist() == theirs.tolist()


# -- what is published looks in many ways -------------------------------------------------------


@pytest.mark.parametrize("name", CAUSAL)
def test_a_checkpoint_in_several_files(tmp_path, tokens, name):
    family = published(name, tmp_path, max_shard_size="2KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 3
    assert_close(family.load(tmp_path)(tokens), family.model(tokens).logits, atol=1e-5, rtol=0)


def test_gpt2_as_it_was_first_published(tmp_path, tokens):
    """Names without prefix, a buffer with each layer's mask, the few settings of those days."""
    family = published("gpt2", tmp_path)

    def old(tensors):
        masks = {f"h.{i}.attn.bias": torch.ones(1, 1, T, T) for i in range(2)}
        return {name.removeprefix("transformer."): x for name, x in tensors.items()} | masks

    rewrite(tmp_path, old)
    settings = json.loads((tmp_path / "config.json").read_text())
    kept = ["vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "layer_norm_epsilon"]
    (tmp_path / "config.json").write_text(json.dumps({name: settings[name] for name in kept}))
    assert_close(
        load(tmp_path, kind="gpt2")(tokens), family.model(tokens).logits, atol=1e-5, rtol=0
    )


def test_gpt2_with_another_hidden_width(tmp_path, tokens, monkeypatch):
    other = copy.deepcopy(CONFIGS["gpt2"])
    other.n_inner = 20
    monkeypatch.setitem(CONFIGS, "gpt2", other)
    family = published("gpt2", tmp_path)
    assert_close(
        load(tmp_path, kind="gpt2")(tokens), family.model(tokens).logits, atol=1e-5, rtol=0
    )


def test_bert_as_it_was_first_published(tmp_path, tokens):
    """Gamma and beta, and with the pooler and the head that the second task was trained with."""
    family = published("bert", tmp_path)

    def old(tensors):
        names = {
            name: name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")
            for name in tensors
        }
        return {names[name]: tensor for name, tensor in tensors.items()} | {
            "bert.embeddings.position_ids": torch.arange(T),
            "bert.pooler.dense.weight": torch.randn(12, 12),
            "cls.seq_relationship.bias": torch.randn(2),
            "cls.predictions.decoder.bias": tensors["cls.predictions.bias"].clone(),
        }

    rewrite(tmp_path, old)
    assert_close(
        load(tmp_path, kind="bert")(tokens), family.model(tokens).logits, atol=1e-5, rtol=0
    )


def test_llama_as_it_was_first_published(tmp_path, tokens):
    """The base of the angles stands alone in the settings, the angles in the checkpoint."""
    family = published("llama", tmp_path)
    angles = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2)}
    rewrite(tmp_path, lambda tensors: tensors | angles)
    reconfigure(tmp_path, rope_parameters=None, rope_theta=50.0, rope_scaling=None, head_dim=None)
    assert_close(
        load(tmp_path, kind="llama")(tokens), family.model(tokens).logits, atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32_unless_asked_otherwise(tmp_path, tokens, name, stored):
    family = published(name, tmp_path, dtype=stored)
    model = family.load(tmp_path)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    theirs = FAMILIES[name][0].from_pretrained(tmp_path, dtype=torch.float32)
    expected = theirs(tokens).logits
    assert_close(model(tokens), expected, atol=1e-5, rtol=0)
    half = family.load(tmp_path, dtype=stored)
    assert {weight.dtype for weight in half.parameters()} == {stored}
    assert_close(half(tokens).float(), expected, atol=0.15, rtol=0.15)


def test_the_model_is_ready_to_use_and_tied(family):
    model = family.load(family.folder)
    assert not any(part.training for part in model.modules())
    lm_head = model.lm_head[-1] if family.kind is families()["bert"] else model.lm_head
    tied = family.model.config.tie_word_embeddings
    assert (lm_head.weight is model.embed.tokens.weight) == tied


# -- what does not fit is refused ---------------------------------------------------------------


def test_a_wrong_checkpoint_is_listed_in_full_and_the_model_left_untouched(family):
    def wrong(tensors):
        names = sorted(name for name in tensors if tensors[name].dim() == 2)
        tensors["strange.tensor"] = tensors.pop(names[0])
        tensors["another.one"] = torch.ones(1)
        tensors[names[1]] = tensors[names[1]][:, 1:].clone()
        wrong.missing, wrong.shape = names[0], f"{names[1]} is "

    model = family.load(family.folder)
    before = copy.deepcopy(model.state_dict())
    rewrite(family.folder, wrong)
    with pytest.raises(ValueError, match="nothing was copied") as caught:
        family.load(family.folder)
    said = str(caught.value)
    assert f"missing: {wrong.missing}\n" in said
    assert "unexpected: " in said and "another.one" in said and "strange.tensor" in said
    assert wrong.shape in said and "the model needs" in said
    tensors = load_file(family.folder / "model.safetensors")
    with pytest.raises(ValueError, match="nothing was copied"):
        fill(where(model, family.kind), tensors, family.kind)
    assert_close(model.state_dict(), before, atol=0, rtol=0)


def test_both_shapes_are_named(tmp_path):
    published("gpt2", tmp_path)
    reconfigure(tmp_path, vocab_size=19)
    with pytest.raises(
        ValueError, match=r"misshapen: .*wte.weight is \(17, 12\).* needs \(19, 12\)"
    ):
        load(tmp_path, kind="gpt2")


def test_a_layer_too_few_and_a_layer_too_many_are_named(tmp_path):
    published("llama", tmp_path)
    reconfigure(tmp_path, num_hidden_layers=3)
    with pytest.raises(ValueError, match=r"missing: .*layers\.2\."):
        load(tmp_path, kind="llama")
    reconfigure(tmp_path, num_hidden_layers=1)
    with pytest.raises(ValueError, match=r"unexpected: .*layers\.1\."):
        load(tmp_path, kind="llama")


SCALED = {"rope_type": "ntk-by-hand", "factor": 8.0, "rope_theta": 5e5}
REFUSED = [
    ("gpt2", "activation_function", "relu"),
    ("gpt2", "tie_word_embeddings", False),
    ("gpt2", "scale_attn_weights", False),
    ("gpt2", "scale_attn_by_inverse_layer_idx", True),
    ("bert", "position_embedding_type", "relative_key"),
    ("bert", "tie_word_embeddings", False),
    ("llama", "hidden_act", "gelu"),
    ("llama", "attention_bias", True),
    ("llama", "mlp_bias", True),
    ("llama", "model_type", "mistral"),
]


@pytest.mark.parametrize(("name", "setting", "value"), REFUSED)
def test_a_setting_that_is_not_computed_here_is_refused_by_name(tmp_path, name, setting, value):
    family = published(name, tmp_path)
    reconfigure(tmp_path, **{setting: value})
    with pytest.raises(ValueError, match=f"{setting} = {value!r}; supported is "):
        family.load(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_parameters": SCALED},
        {"rope_parameters": None, "rope_scaling": SCALED},
        {"rope_parameters": None, "rope_scaling": {"type": "spiral", "factor": 2.0}},
    ],
)
def test_unknown_scalings_of_the_angles_are_refused(tmp_path, changes):
    published("llama", tmp_path)
    reconfigure(tmp_path, **changes)
    with pytest.raises(ValueError, match=r"kind '(ntk-by-hand|spiral)' are unknown here"):
        load(tmp_path, kind="llama")


def test_a_list_of_factors_that_does_not_fit_the_pairs_is_refused(tmp_path):
    published("llama", tmp_path)
    factors = {"short_factor": [1.0], "long_factor": [1.0]}
    longrope = {"rope_type": "longrope", "original_max_position_embeddings": 4, **factors}
    reconfigure(tmp_path, rope_parameters=longrope | {"rope_theta": 50.0})
    with pytest.raises(ValueError, match="each with a factor of its own; got 1"):
        load(tmp_path, kind="llama")


def test_a_size_that_is_not_given_is_named(family):
    (family.folder / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="does not say what these are: vocab_size, "):
        family.load(family.folder)
