"""The files of a published model are found or it is said what is missing; damage names the file."""

import json

import huggingface_hub
import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from attnbook.models.checkpoint import checkpoint, configuration
from attnbook.models.config import only, read


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 8}))
    save_file({"a": torch.arange(3.0), "b": torch.eye(2)}, tmp_path / "model.safetensors")
    return tmp_path


@pytest.fixture
def hub(folder, monkeypatch):
    """huggingface.co as far as it is used here: one repository with the files of `folder`."""
    asked, here = [], set()

    def download(repository, name, local_files_only=False):
        if local_files_only and name not in here:
            raise FileNotFoundError("not in the cache")
        here.add(name)
        return str(folder / name)

    def metadata(url):
        asked.append(url.rsplit("/", 1)[-1])
        if "an/unknown" in url or not (folder / asked[-1]).exists():
            raise RuntimeError("404 Client Error")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", metadata)
    return asked


def in_parts(folder):
    """The same checkpoint in two files with an index."""
    (folder / "model.safetensors").unlink()
    names = {"a": "part-1.safetensors", "b": "part-2.safetensors"}
    save_file({"a": torch.arange(3.0)}, folder / names["a"])
    save_file({"b": torch.eye(2)}, folder / names["b"])
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def test_a_checkpoint_in_several_files_is_the_one_in_a_single_file(folder):
    whole = {name: tensor.clone() for name, tensor in checkpoint(folder).items()}
    in_parts(folder)
    assert_close(checkpoint(str(folder)), whole)


def test_tensors_stay_on_the_disk_until_they_are_used(folder):
    """1 GB of zeros is opened without taking memory."""
    big = folder / "model.safetensors"
    head = json.dumps({"x": {"dtype": "F32", "shape": [2**28], "data_offsets": [0, 2**30]}})
    with big.open("wb") as file:  # sparse: the zeros take no room on the disk either
        file.write(len(head).to_bytes(8, "little") + head.encode())
        file.truncate(8 + len(head) + 2**30)
    before = resident()
    tensor = checkpoint(folder)["x"]
    assert tensor.shape == (2**28,) and resident() - before < 2**26


def resident():
    """How many bytes of memory this process occupies; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


def test_only_what_is_needed_is_fetched_and_only_once(folder, hub):
    assert configuration("somebody/model", "gpt2")["n_embd"] == 8
    assert checkpoint("somebody/model").keys() == {"a", "b"}
    assert hub == ["config.json", "model.safetensors"]
    configuration("somebody/model", "gpt2"), checkpoint("somebody/model")
    assert hub == ["config.json", "model.safetensors"]


def test_a_checkpoint_in_several_files_is_fetched_by_its_index(folder, hub):
    in_parts(folder)
    assert checkpoint("somebody/model").keys() == {"a", "b"}
    assert hub == [
        *("model.safetensors", "model.safetensors.index.json"),
        *("part-1.safetensors", "part-2.safetensors"),
    ]


def test_what_cannot_be_fetched_says_what_was_tried_and_that_a_folder_will_do(hub):
    words = r"(?s)an/unknown is no folder here.*config.json.*huggingface.co.*give a folder.*404"
    with pytest.raises(OSError, match=words):
        configuration("an/unknown", "gpt2")


def test_without_network_it_says_so_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OSError, match=r"(?s)openai-community/gpt2 is no folder here.*offline"):
        configuration("openai-community/gpt2", "gpt2")


def test_a_folder_without_the_files_names_the_first_one(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(OSError, match=r"the folder .* has no model\.safetensors$"):
        checkpoint(folder)
    (folder / "config.json").unlink()
    with pytest.raises(OSError, match=r"has no config\.json$"):
        configuration(folder, "gpt2")


def test_a_missing_part_is_named(folder):
    in_parts(folder)
    (folder / "part-2.safetensors").unlink()
    with pytest.raises(OSError, match=r"has no part-2\.safetensors$"):
        checkpoint(folder)


@pytest.mark.parametrize("kept", [0, 5, 60, -1])
def test_a_truncated_file_is_named(folder, kept):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged or incomplete: "):
        checkpoint(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_damaged_json_is_named(folder, name):
    in_parts(folder)
    (folder / name).write_text('{"model_type": "gp')
    with pytest.raises(ValueError, match=rf"{name} is damaged or incomplete: "):
        configuration(folder, "gpt2"), checkpoint(folder)


def test_another_kind_of_model_is_refused(folder):
    with pytest.raises(ValueError, match=r"model_type = 'gpt2'; supported is 'llama'"):
        configuration(folder, "llama")


def test_compressed_weights_are_refused(folder):
    config = {"model_type": "gpt2", "quantization_config": {"bits": 4}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"quantization_config = .*bits.*; supported is None"):
        configuration(folder, "gpt2")


def test_settings_are_read_or_named():
    assert read({"a": 1, "b": 2}, "b", "a") == [2, 1]
    with pytest.raises(ValueError, match="does not say what these are: b, c"):
        read({"a": 1}, "a", "b", "c")


def test_a_setting_that_is_not_there_is_the_usual_one():
    only({}, "bias", False)
    only({"bias": False}, "bias", False)
    with pytest.raises(ValueError, match="bias = True; supported is False or None"):
        only({"bias": True}, "bias", False, None)
