"""A quantised model in a file: small, the same bit for bit, and refused where it does not fit."""

import pytest
import torch
from safetensors.torch import save_file

from attnbook.models.gpt2 import gpt2
from attnbook.models.llama import llama
from attnbook.quantise.quantised_file import load, save
from attnbook.quantise.rounding import quantised


def gpt(seed=1, width=12):
    torch.manual_seed(seed)
    return gpt2(V=11, T=7, width=width, depth=2, heads=3, dropout=0.0).eval()


def little(seed=1):
    torch.manual_seed(seed)
    return llama(V=11, width=12, depth=1, heads=3, hidden=20)


TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


@pytest.mark.parametrize("recipe", [gpt, little])
@pytest.mark.parametrize(("bits", "group"), [(8, None), (8, 5), (4, 4), (3, None)])
def test_a_file_gives_the_same_model_bit_for_bit(tmp_path, recipe, bits, group):
    written = quantised(recipe(), bits, group)
    save(written, tmp_path / "few.safetensors")
    read = load(recipe(seed=2), tmp_path / "few.safetensors")
    assert torch.equal(written(TOKENS), read(TOKENS))
    assert written.state_dict().keys() == read.state_dict().keys()
    save(read, tmp_path / "again.safetensors")
    first, second = (tmp_path / f"{name}.safetensors" for name in ("few", "again"))
    assert first.read_bytes() == second.read_bytes()


def test_what_was_tied_is_stored_once_and_tied_again(tmp_path):
    save(quantised(gpt()), tmp_path / "few.safetensors")
    read = load(gpt(seed=2), tmp_path / "few.safetensors")
    assert read.lm_head.matrix is read.embed.tokens.matrix


def test_a_file_has_a_byte_a_weight(tmp_path):
    made = llama(V=97, width=96, depth=2, heads=3, hidden=256)
    weights = sum(weight.numel() for weight in made.parameters())
    save(quantised(made), tmp_path / "few.safetensors")
    assert (tmp_path / "few.safetensors").stat().st_size < 1.1 * weights


def test_only_what_was_quantised_is(tmp_path):
    written = quantised(little(), 4, where=lambda name, part: "feedforward" in name)
    save(written, tmp_path / "few.safetensors")
    assert torch.equal(load(little(2), tmp_path / "few.safetensors")(TOKENS), written(TOKENS))


def test_another_models_file_is_refused_and_nothing_is_changed(tmp_path):
    save(quantised(gpt()), tmp_path / "few.safetensors")
    other = gpt(width=15)
    before = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    with pytest.raises(ValueError, match=r"of another model: .*\(12,\) there, \(15,\) here"):
        load(other, tmp_path / "few.safetensors")
    after = other.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[n], after[n]) for n in before)
    with pytest.raises(ValueError, match="of another model"):
        load(little(), tmp_path / "few.safetensors")


def test_half_a_file_and_a_strangers_are_refused(tmp_path):
    save(quantised(gpt()), tmp_path / "few.safetensors")
    whole = (tmp_path / "few.safetensors").read_bytes()
    (tmp_path / "half.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a complete safetensors file"):
        load(gpt(), tmp_path / "half.safetensors")
    save_file({"a": torch.ones(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="was not written by"):
        load(gpt(), tmp_path / "other.safetensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "few.safetensors",
        "half.safetensors",
        "other.safetensors",
    ]
