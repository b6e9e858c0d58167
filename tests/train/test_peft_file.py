"""What peft writes is read here, and what is written here is read by peft: the same logits."""

import json

import pytest
import torch
from family_cases import GROUPED, NO_TOKENS, PART, PLAIN, TEXT, T, V
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from attnbook.models.hub import load
from attnbook.train.lora import adapters, wrap
from attnbook.train.peft_file import SETTINGS, WEIGHTS, load_adapters, save_adapters

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
TOKENS = torch.randint(3, V, (2, 9), generator=torch.Generator().manual_seed(0))
GPT2 = {"vocab_size": V, "n_positions": T, "n_embd": 24, "n_layer": 2, "n_head": 6} | NO_TOKENS
CASES = {
    "llama": (
        transformers.LlamaForCausalLM,
        transformers.LlamaConfig(**GROUPED, **PLAIN),
        ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    ),
    "llama, two of three": (
        transformers.LlamaForCausalLM,
        transformers.LlamaConfig(**GROUPED, **PLAIN),
        ["q_proj", "v_proj"],
    ),
    "gpt2": (
        transformers.GPT2LMHeadModel,
        transformers.GPT2Config(**GPT2),
        ["c_attn", "c_fc", "c_proj"],
    ),
    "gpt_neox": (
        transformers.GPTNeoXForCausalLM,
        transformers.GPTNeoXConfig(**TEXT, **PART),
        ["query_key_value", "dense"],
    ),
}


def prepared(name, folder):
    """A model of transformers, ours with its weights, its config.json."""
    kind, config, targets = CASES[name]
    torch.manual_seed(0)
    theirs = kind(config).eval()
    for weight in theirs.parameters():
        weight.data.normal_(std=0.4)
    theirs.save_pretrained(folder)
    return theirs, load(folder), json.loads((folder / "config.json").read_text()), targets


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_what_peft_has_written_is_read(name, tmp_path):
    theirs, ours, config, targets = prepared(name, tmp_path)
    settings = peft.LoraConfig(r=2, lora_alpha=5, target_modules=targets)
    theirs = peft.get_peft_model(theirs, settings).eval()
    for key, weight in theirs.named_parameters():
        if "lora_" in key:
            weight.normal_(std=0.4)
    theirs.save_pretrained(tmp_path / "adapter")
    before = ours(TOKENS)
    load_adapters(ours, tmp_path / "adapter", config)
    assert not torch.allclose(ours(TOKENS), before, atol=0.1)
    assert_close(ours(TOKENS), theirs(TOKENS).logits, atol=1e-4, rtol=1e-4)
    learning = {key for key, weight in ours.named_parameters() if weight.requires_grad}
    assert learning and all(".down." in key or ".up." in key for key in learning)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox"])
@torch.no_grad()
def test_what_is_written_is_read_by_peft(name, tmp_path):
    theirs, ours, config, _ = prepared(name, tmp_path)
    wrap(ours, 2, alpha=5.0)
    for part in adapters(ours).values():
        part.up.weight.normal_(std=0.4)
    save_adapters(ours, tmp_path / "adapter", config)
    theirs = peft.PeftModel.from_pretrained(theirs, tmp_path / "adapter").eval()
    assert_close(theirs(TOKENS).logits, ours(TOKENS), atol=1e-4, rtol=1e-4)


def test_what_has_no_place_is_refused_and_nothing_is_changed(tmp_path):
    theirs, ours, config, targets = prepared("llama", tmp_path)
    with pytest.raises(ValueError, match="one rank and scale; there are 0"):
        save_adapters(ours, tmp_path / "adapter", config)
    settings = peft.LoraConfig(r=2, target_modules=targets)
    peft.get_peft_model(theirs, settings).save_pretrained(tmp_path / "adapter")
    tensors = load_file(tmp_path / "adapter" / WEIGHTS)
    more = {name.replace("layers.0", "layers.7"): x.clone() for name, x in tensors.items()}
    save_file(more | tensors, tmp_path / "adapter" / WEIGHTS)
    with pytest.raises(ValueError, match=r"no place for .*layers\.7"):
        load_adapters(ours, tmp_path / "adapter", config)
    assert not adapters(ours) and all(weight.requires_grad for weight in ours.parameters())
    path = tmp_path / "adapter" / SETTINGS
    path.write_text(json.dumps(json.loads(path.read_text()) | {"use_dora": True}))
    with pytest.raises(ValueError, match="use_dora"):
        load_adapters(ours, tmp_path / "adapter", config)
