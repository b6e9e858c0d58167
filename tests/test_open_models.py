"""What open models are made of: the stored table is what their code says."""

import json

import pytest
import transformers

from attnbook.stored_run import stored_run


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


def test_proportions_are_those_of_the_configurations_and_of_the_table(stored, script):
    found = stored_run("proportions")
    if found["transformers"] != transformers.__version__:
        pytest.skip(f"read in transformers {found['transformers']}")
    proportions = script("results/proportions.py")
    cells = {model["name"]: model["cells"] for model in stored["models"]}
    assert found["models"].keys() == cells.keys()
    for model in proportions.MODELS:
        says = {name: cell["says"] for name, cell in cells[model.name].items()}
        numbers = found["models"][model.name]
        assert proportions.proportions(model, says["Experts"]) == numbers
        assert f"{numbers['vocabulary']:,}" == says["Vocabulary"]


def test_nine_experts_of_deepseek_v3_are_as_wide_as_its_first_networks():
    """No script wrote 18,432 down for the layers with experts: it is nine times 2,048."""
    assert stored_run("proportions")["models"]["DeepSeek-V3"]["network"] == 18_432
    config = transformers.DeepseekV3Config()
    assert 9 * config.moe_intermediate_size == config.intermediate_size == 18_432
