"""What open models are made of: the stored table is what their code says."""

import json

import pytest
import transformers


@pytest.fixture(scope="module")
def stored(root):
    return json.loads((root / "results/open_models.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "step", [7, pytest.param(1, marks=pytest.mark.slow)], ids=["three of them", "all"]
)
def test_every_cell_is_what_the_code_says(stored, script, step):
    models = script("results/open_models.py")
    if stored["transformers"] != transformers.__version__:
        pytest.skip(f"read in transformers {stored['transformers']}")
    assert [models.row(model) for model in models.MODELS[::step]] == stored["models"][::step]


def test_a_size_that_is_not_that_of_the_name_is_refused(script):
    models = script("results/open_models.py")
    wrong = models.MODELS[0]._replace(billions=70.0)
    with pytest.raises(ValueError, match=r"Llama 3\.1 8B has 70\.0 B parameters, this is 8\.03 B"):
        models.row(wrong)


def test_every_cell_has_a_source(stored):
    for model in stored["models"]:
        assert all(cell["says"] and cell["source"] for cell in model["cells"].values())


def test_latent_keys_keep_less_than_a_thirtieth_of_full_heads(stored):
    """The cell is arithmetic: DeepSeek-V3 keeps 576 numbers in each of 61 layers."""
    cells = {model["name"]: model["cells"] for model in stored["models"]}
    assert cells["DeepSeek-V3"]["Cache, per token"]["says"] == f"{61 * 576 * 2 / 1024:.3g} kB"
    full = 61 * 128 * (192 + 128) * 2 / 1024
    assert 61 * 576 * 2 / 1024 < full / 30
