"""One vector for a text, as sentence-transformers would make it of the same files."""

import json

import pytest
import torch
from family_cases import SIZES, T, V
from safetensors.torch import save_file
from torch.nn import functional as F
from torch.testing import assert_close

from attnbook.models.sentence import POOLS, load_sentence_encoder

transformers = pytest.importorskip("transformers")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
TOKENS = torch.randint(3, V, (2, 9), generator=torch.Generator().manual_seed(0))
THERE = torch.tensor([[True] * 9, [True] * 5 + [False] * 4])
KIND = "sentence_transformers.models"


@pytest.fixture
def folder(tmp_path):
    """A small BERT, the mean of its vectors, one map with tanh, length 1."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**SIZES, max_position_embeddings=T)
    theirs = transformers.BertModel(config, add_pooling_layer=False)
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.normal_(std=0.3)
    theirs.save_pretrained(tmp_path)
    parts = ("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3", "Normalize")
    modules = [{"path": path, "type": f"{KIND}.{kind}"} for path, kind in parts]
    put(tmp_path / "modules.json", modules)
    flags = {f"pooling_mode_{name}": name == "mean_tokens" for name in POOLS}
    put(tmp_path / "1_Pooling/config.json", {"word_embedding_dimension": 24} | flags)
    activation = "torch.nn.modules.activation.Tanh"
    sizes = {"in_features": 24, "out_features": 7, "bias": True}
    put(tmp_path / "2_Dense/config.json", sizes | {"activation_function": activation})
    weights = {"linear.weight": torch.randn(7, 24), "linear.bias": torch.randn(7)}
    save_file(weights, tmp_path / "2_Dense/model.safetensors")
    return tmp_path


def put(path, settings):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(settings))


@torch.no_grad()
def test_encoder_pool_map_and_length_are_those_of_the_files(folder):
    from safetensors.torch import load_file

    theirs = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    x = theirs(TOKENS, attention_mask=THERE.long()).last_hidden_state
    means = torch.stack([x[0].mean(0), x[1, :5].mean(0)])
    dense = load_file(folder / "2_Dense/model.safetensors")
    expected = F.normalize((means @ dense["linear.weight"].T + dense["linear.bias"]).tanh(), dim=-1)
    assert_close(load_sentence_encoder(folder)(TOKENS, THERE), expected, rtol=1e-5, atol=1e-5)


def test_each_pool_looks_at_tokens_alone():
    x = torch.arange(24.0).view(2, 4, 3).flip(1)
    there = torch.tensor([[True, True, True, True], [False, True, True, False]])
    expected = {
        "mean_tokens": [x[0].mean(0), x[1, 1:3].mean(0)],
        "cls_token": [x[0, 0], x[1, 0]],
        "lasttoken": [x[0, 3], x[1, 2]],
        "max_tokens": [x[0, 0], x[1, 1]],
    }
    for name, pool in POOLS.items():
        assert_close(pool(x, there), torch.stack(expected[name]), msg=name)


def test_what_is_not_computed_is_refused(folder):
    config = folder / "1_Pooling/config.json"
    settings = json.loads(config.read_text())
    put(config, settings | {"pooling_mode_mean_sqrt_len_tokens": True})
    with pytest.raises(ValueError, match="pooled by mean_tokens and mean_sqrt_len_tokens"):
        load_sentence_encoder(folder)
    put(config, settings)
    modules = json.loads((folder / "modules.json").read_text())
    put(folder / "modules.json", [*modules[:3], {"path": "3", "type": f"{KIND}.LSTM"}])
    with pytest.raises(ValueError, match="has a LSTM at 3: it is not computed here"):
        load_sentence_encoder(folder)
