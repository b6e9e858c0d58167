"""`load` reads what people have: files without a head, with another one, pickled, in GGUF."""

import json
import os
import pickle
import warnings
from pathlib import Path

import pytest
import torch
from family_cases import GROUPED, NO_TOKENS, PICTURE, PLAIN, SIZES, T5, TEXT, T, V
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from attnbook.models.checkpoint import SafeTensors, checkpoint
from attnbook.models.hub import load, load_tokenizer, save

transformers = pytest.importorskip("transformers")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
TOKENS = torch.randint(3, V, (2, 9), generator=torch.Generator().manual_seed(0))
IMAGES = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))
SOUND = torch.randn(2, 7, 18, generator=torch.Generator().manual_seed(0))
READER = SIZES | {"max_position_embeddings": T}
WHISPER = {
    **{"vocab_size": V, "d_model": 24, "encoder_layers": 2, "decoder_layers": 1, "pad_token_id": 0},
    **{"encoder_attention_heads": 6, "decoder_attention_heads": 6, "num_mel_bins": 7},
    **{"encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_source_positions": 9},
    **{"max_target_positions": T, "eos_token_id": 2, "decoder_start_token_id": 1},
}
DISTIL = {"vocab_size": V, "max_position_embeddings": T, "dim": 24, "n_layers": 2, "n_heads": 6}
GPT2 = {"vocab_size": V, "n_positions": T, "n_embd": 24, "n_layer": 2, "n_head": 6} | NO_TOKENS
# class, config, settings, what is given, what the line says was left out
ENDS = {
    "BertModel": ("Bert", READER, TOKENS, "pooler.dense"),
    "BertForSequenceClassification": ("Bert", READER, TOKENS, "classifier.bias"),
    "RobertaForTokenClassification": (
        "Roberta",
        READER | {"max_position_embeddings": T + 2},
        TOKENS,
        "classifier.bias",
    ),
    "DistilBertForQuestionAnswering": ("DistilBert", DISTIL, TOKENS, "qa_outputs"),
    "ModernBertModel": (
        "ModernBert",
        TEXT | {"local_attention": 4, "max_position_embeddings": T, "cls_token_id": None}
        | {"sep_token_id": None},
        TOKENS,
        "nothing",
    ),
    "LlamaModel": ("Llama", GROUPED | PLAIN, TOKENS, "nothing"),
    "LlamaForSequenceClassification": ("Llama", GROUPED | PLAIN, TOKENS, "score.weight"),
    "LlamaForTokenClassification": ("Llama", GROUPED | PLAIN, TOKENS, "score"),
    "GPT2ForSequenceClassification": ("GPT2", GPT2 | {"pad_token_id": 0}, TOKENS, "score.weight"),
    "ViTModel": ("ViT", PICTURE, IMAGES, "pooler.dense"),
    "ViTForMaskedImageModeling": ("ViT", PICTURE, IMAGES, "decoder"),
    "T5EncoderModel": ("T5", T5, TOKENS, "nothing"),
    "WhisperForAudioClassification": ("Whisper", WHISPER, SOUND, "projector"),
}  # fmt: skip


def published(name, folder):
    kind, settings, _, _ = ENDS[name]
    config = getattr(transformers, f"{kind}Config")(**settings)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.3)
    model.save_pretrained(folder)
    return model


def vectors(name, model, given):
    """The last hidden states of what transformers has there."""
    if name.startswith("Whisper"):
        return model.encoder(given).last_hidden_state
    if name == "T5EncoderModel":
        return model(given).last_hidden_state
    found = model.base_model(given).last_hidden_state
    return found[:, 0] if name.startswith("ViT") else found


@pytest.mark.parametrize("name", ENDS)
@torch.no_grad()
def test_a_model_ends_where_its_checkpoint_ends_and_a_line_says_so(name, tmp_path):
    theirs = published(name, tmp_path)
    given, left = ENDS[name][2:]
    with pytest.warns(UserWarning, match="the model ends with vectors.*left out: ") as said:
        ours = load(tmp_path)
    message = str(said[0].message)
    assert left in message and "\n" not in message
    expected = vectors(name, theirs, given)
    assert expected.std() > 0.05
    assert_close(ours(given), expected, rtol=1e-5, atol=1e-5)
    save(ours, tmp_path / "again", json.loads((tmp_path / "config.json").read_text()))
    assert_close(load(tmp_path / "again", head=False)(given), ours(given))


def test_a_bare_model_that_is_saved_is_one_for_transformers(tmp_path):
    theirs = published("BertModel", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    save(load(tmp_path, head=False), tmp_path / "again", config)
    again = transformers.BertModel.from_pretrained(tmp_path / "again", add_pooling_layer=False)
    expected = theirs(TOKENS).last_hidden_state
    assert_close(again.eval()(TOKENS).last_hidden_state, expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_an_encoder_alone_reads_padding_and_sound(tmp_path):
    theirs = published("T5EncoderModel", tmp_path)
    there = torch.tensor([[True] * 9, [True] * 5 + [False] * 4])
    with pytest.warns(UserWarning, match="ends with vectors"):
        ours = load(tmp_path)
    expected = theirs(TOKENS, attention_mask=there.long()).last_hidden_state
    assert_close(ours(TOKENS, there)[there], expected[there], rtol=1e-5, atol=1e-5)
    whisper = published("WhisperForAudioClassification", tmp_path / "whole")
    whisper.encoder.save_pretrained(tmp_path / "encoder")
    with pytest.warns(UserWarning, match="ends with vectors"):
        ours = load(tmp_path / "encoder")
    assert_close(ours(SOUND), whisper.encoder(SOUND).last_hidden_state, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_the_head_may_be_left_out_and_nothing_is_said(tmp_path):
    config = transformers.LlamaConfig(**GROUPED, **PLAIN)
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = load(tmp_path, head=False)
        whole = load(tmp_path)
    assert_close(ours(TOKENS), theirs.model(TOKENS).last_hidden_state, rtol=1e-5, atol=1e-5)
    assert_close(whole(TOKENS), theirs(TOKENS).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["BertModel", "LlamaForSequenceClassification", "T5EncoderModel"])
def test_a_block_too_many_is_no_other_head(name, tmp_path):
    published(name, tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    layers = "num_layers" if name.startswith("T5") else "num_hidden_layers"
    path.write_text(json.dumps(config | {layers: 1}))
    with pytest.raises(ValueError, match=rf"a {name}, does not fit.*nothing was copied"):
        load(tmp_path)


# -- memory --------------------------------------------------------------------------------------


@pytest.fixture
def llama(tmp_path):
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED, **PLAIN)).eval()
    model.save_pretrained(tmp_path)
    return model


@torch.no_grad()
def test_no_random_weights_are_made_first(llama, tmp_path):
    before = torch.get_rng_state()
    ours = load(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(p.is_meta for p in ours.parameters())


@torch.no_grad()
def test_training_a_loaded_model_leaves_its_file_alone(llama, tmp_path):
    path = tmp_path / "model.safetensors"
    before = path.read_bytes()
    ours = load(tmp_path)
    for weight in ours.parameters():
        weight.add_(1)
    assert path.read_bytes() == before
    assert_close(load(tmp_path)(TOKENS), llama(TOKENS).logits, rtol=1e-5, atol=1e-5)


def held(name):
    """Bytes of this process' memory: VmRSS now, VmHWM at most since it was last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux' /proc")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loading_holds_little_more_than_the_weights(tmp_path, dtype):
    """Of a checkpoint in several files, in 16 bits; the maps of queries, keys and values are joined
    here, and what becomes float32 cannot stay in the files' own memory."""
    with torch.device("meta"):
        sizes = {"hidden_size": 480, "intermediate_size": 1400, "num_hidden_layers": 8}
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED | PLAIN | sizes))
    model = model.to_empty(device="cpu").bfloat16()
    for weight in model.parameters():
        weight.data.fill_(0.5)
    model.save_pretrained(tmp_path, max_shard_size="10MB")
    del model
    assert len(list(tmp_path.glob("*.safetensors"))) > 3
    load(tmp_path)  # what the first call imports is no weight
    Path("/proc/self/clear_refs").write_text("5")
    before = held("VmRSS")
    ours = load(tmp_path, dtype)
    most = held("VmHWM") - before
    assert most < 1.2 * sum(weight.nbytes for weight in ours.parameters()) + 4e6


def test_shapes_are_known_without_reading_a_tensor(llama, tmp_path):
    tensors = checkpoint(tmp_path)
    assert isinstance(tensors, SafeTensors) and len(tensors.shapes) == len(tensors)
    assert all(tuple(tensors[name].shape) == shape for name, shape in tensors.shapes.items())


# -- other files ---------------------------------------------------------------------------------


def pickled(folder, name="pytorch_model.bin"):
    tensors = load_file(folder / "model.safetensors")
    torch.save(tensors, folder / name)
    (folder / "model.safetensors").unlink()
    return tensors


@pytest.mark.parametrize("zipped", [True, False])
@torch.no_grad()
def test_weights_in_torchs_own_format_are_read(llama, tmp_path, zipped):
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    path = tmp_path / "pytorch_model.bin"
    torch.save(tensors, path, _use_new_zipfile_serialization=zipped)
    assert_close(load(tmp_path)(TOKENS), llama(TOKENS).logits, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_they_may_come_in_several_files(llama, tmp_path):
    tensors = pickled(tmp_path, "old.bin")
    (tmp_path / "old.bin").unlink()
    names = sorted(tensors)
    files = {"a.bin": names[:7], "b.bin": names[7:]}
    for file, own in files.items():
        torch.save({name: tensors[name] for name in own}, tmp_path / file)
    where = {name: file for file, own in files.items() for name in own}
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": where}))
    assert_close(load(tmp_path)(TOKENS), llama(TOKENS).logits, rtol=1e-5, atol=1e-5)


class Mean:
    """What a file could do to whoever reads it."""

    def __reduce__(self):
        return (print, ("it ran",))


def test_a_file_that_would_run_code_is_refused(llama, tmp_path, capsys):
    (tmp_path / "model.safetensors").unlink()
    torch.save({"model.norm.weight": Mean()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is damaged or incomplete"):
        load(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"model.norm.weight": Mean()}))
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is damaged or incomplete"):
        load(tmp_path)
    assert "it ran" not in capsys.readouterr().out


def test_a_tokenizer_comes_from_beside_the_model(llama, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    with pytest.raises(FileNotFoundError, match=r"has no tokenizer\.json"):
        load_tokenizer(tmp_path)
    words.save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(tmp_path).encode("b").ids == [1]
    assert load_tokenizer(tmp_path / "model.safetensors").encode("b").ids == [1]


def test_a_family_that_is_not_there_says_in_one_line_how_it_is_added(llama, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "retnet"}))
    with pytest.raises(ValueError, match=r"@family\('retnet', …\).*family_cases") as error:
        load(tmp_path)
    assert "\n" not in str(error.value)


def test_a_tensor_that_nobody_knows_is_refused_beside_a_whole_model(llama, tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(load_file(path) | {"strange.weight": torch.ones(3)}, path)
    with pytest.raises(ValueError, match=r"unexpected: strange\.weight"):
        load(tmp_path)
