"""Models in GGUF files, written here by the package `gguf`, are those of `transformers`."""

import pytest
import torch
from family_cases import GEMMA, GROUPED, PLAIN, V
from torch.testing import assert_close

from attnbook.models.gguf_file import BOTH_SIDES, NAMES
from attnbook.models.hub import load, load_tokenizer

gguf = pytest.importorskip("gguf", reason="GGUF is read with the extra `real`")
transformers = pytest.importorskip("transformers")
TOKENS = torch.randint(3, V, (2, 9), generator=torch.Generator().manual_seed(0))
KINDS = {
    "llama": ("LlamaForCausalLM", transformers.LlamaConfig, GROUPED | PLAIN),
    "qwen2": ("Qwen2ForCausalLM", transformers.Qwen2Config, GROUPED | PLAIN),
    "qwen3": ("Qwen3ForCausalLM", transformers.Qwen3Config, GROUPED | PLAIN | {"head_dim": 10}),
    "gemma3": (
        "Gemma3ForCausalLM",
        transformers.Gemma3TextConfig,
        GROUPED
        | GEMMA
        | {"query_pre_attn_scalar": 10, "tie_word_embeddings": True, "num_hidden_layers": 6},
    ),
}


def written(kind, path):
    """A small model of `transformers`, and its file as llama.cpp's converter writes it."""
    name, config_of, settings = KINDS[kind]
    config = config_of(**settings)
    torch.manual_seed(0)
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.3)
    file = gguf.GGUFWriter(path, kind)
    file.add_embedding_length(24)
    file.add_block_count(config.num_hidden_layers)
    file.add_feed_forward_length(20)
    file.add_head_count(6)
    file.add_head_count_kv(2)
    file.add_key_length(getattr(config, "head_dim", 4))
    file.add_context_length(64)
    file.add_layer_norm_rms_eps(config.rms_norm_eps)
    ropes = config.rope_parameters
    far = ropes if "rope_theta" in ropes else ropes["full_attention"]
    file.add_rope_freq_base(far["rope_theta"])
    if kind == "gemma3":
        file.add_sliding_window(3)
    file.add_tokenizer_model("llama")
    specials = ["<unk>", "<s>", "▁", "a", "b", "ab", "▁ab"]
    file.add_token_list(specials + [f"w{i}" for i in range(len(specials), V)])
    file.add_token_scores([0.0, 0.0, -3.0, -4.0, -5.0, -1.0, -2.0] + [-9.0] * (V - 7))
    file.add_token_types([2, 3] + [1] * (V - 2))
    file.add_bos_token_id(1)
    file.add_unk_token_id(0)
    table = NAMES | (BOTH_SIDES if kind == "gemma3" else {})
    there = {theirs: short for short, theirs in table.items()}
    for full, tensor in model.state_dict().items():
        if full == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, _, last = full.rpartition(".")
        block = stem.split(".")[2] if stem.startswith("model.layers.") else None
        own = there[stem if block is None else stem.split(".", 3)[3]]
        if kind == "llama" and own in ("attn_q", "attn_k"):  # pairs are neighbours there
            D = config.head_dim
            tensor = tensor.view(-1, 2, D // 2, 24).transpose(1, 2).reshape(tensor.shape)
        if kind == "gemma3" and "norm" in own:
            tensor = tensor + 1
        name = f"{own}.{last}" if block is None else f"blk.{block}.{own}.{last}"
        file.add_tensor(name, tensor.float().numpy().copy())
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return model


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_file_gives_the_logits_of_what_was_written(kind, tmp_path):
    theirs = written(kind, tmp_path / "small.gguf")
    expected = theirs(TOKENS).logits
    assert expected.std() > 0.05
    for source in (tmp_path / "small.gguf", tmp_path):
        assert_close(load(source)(TOKENS), expected, rtol=1e-5, atol=2e-5)


def test_its_tokenizer_joins_the_pieces_of_the_highest_score_first(tmp_path):
    written("llama", tmp_path / "small.gguf")
    tokenizer = load_tokenizer(tmp_path / "small.gguf")
    assert tokenizer.encode("ab ab").tokens == ["<s>", "▁ab", "▁ab"]
    assert tokenizer.decode(tokenizer.encode("ab ab").ids) == "ab ab"


def test_an_architecture_that_is_not_read_and_a_damaged_file_are_named(tmp_path):
    file = gguf.GGUFWriter(tmp_path / "other.gguf", "mamba")
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    with pytest.raises(ValueError, match="architecture 'mamba' can be read here; there are llama"):
        load(tmp_path / "other.gguf")
    (tmp_path / "cut.gguf").write_bytes((tmp_path / "other.gguf").read_bytes()[:20])
    with pytest.raises(ValueError, match=r"cut\.gguf is damaged or incomplete"):
        load(tmp_path / "cut.gguf")
