"""What open models are made of: the stored table is what their code says."""

import json

import pytest
import transformers

from bookkit.results.stored_run import stored_run


@pytest.fixture(scope="module")
def stored(root):
    return json.loads((root / "results/open_models.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "step", [7, pytest.param(1, marks=pytest.mark.weekly)], ids=["three of them", "all"]
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
    assert cells["DeepSeek-V3"]["Cache, per token"]["says"] == f"{61 * 576 * 2 / 1000:.3g} kB"
    full = 61 * 128 * (192 + 128) * 2 / 1000
    assert 61 * 576 * 2 / 1000 < full / 30


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


@pytest.mark.parametrize(
    ("name", "column", "says"),
    [
        ("Kimi Linear 48B-A3B", "Layers", "20 × delta rule + 7 × full"),
        ("MiniMax-M2", "Positions", "rotary, 50% of the channels"),
        ("OLMo Hybrid 7B", "Positions", "none"),
    ],
)
def test_where_a_release_differs_from_its_code_s_defaults_the_release_counts(
    stored, name, column, says
):
    """The released config.json has other layers, channels and no rotation: see `RELEASED`."""
    model = next(model for model in stored["models"] if model["name"] == name)
    assert model["cells"][column]["says"] == says and model["released"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Ministral 3 8B", "scores scaled with the position"),  # a setting of its rotation
        ("OLMo Hybrid 7B", "gate on the output"),  # of its delta layers
    ],
)
def test_a_part_is_found_where_a_model_has_another_name_for_it(stored, name, says):
    model = next(model for model in stored["models"] if model["name"] == name)
    assert says in model["cells"]["Further"]["says"]


def test_what_the_book_says_of_all_twenty_is_counted_in_the_table(root, stored):
    """General sentences about published models: each page's words, and what they claim."""
    cells = {
        model["name"]: {column: cell["says"] for column, cell in model["cells"].items()}
        for model in stored["models"]
    }

    def those(column, holds):
        return {name for name, says in cells.items() if holds(says[column])}

    assert len(cells) == 20
    assert len(those("Norms", lambda says: "RMSNorm" in says)) == 20
    assert len(those("Network", lambda says: "GLU" in says)) == 20
    own = those("Attention", lambda says: says.startswith("MHA"))
    assert own == {"OLMo 2 7B", "OLMo 3 7B", "OLMo Hybrid 7B"}
    still = those("Positions", lambda says: says == "none")
    assert still == {"Kimi Linear 48B-A3B", "OLMo Hybrid 7B"}
    assert len(those("Positions", lambda says: "%" in says)) == 9
    assert len(those("Experts", lambda says: says != "dense")) == 13
    said = {
        "open-models.md": "Thirteen have experts.",
        "09-deeper-norms.ipynb": "All twenty of {ref}`the open models <open-models>` use it.",
        "09-modern-tweaks.ipynb": "All twenty models of {ref}`the table <open-models>` but Kimi",
        "18-many-machines.ipynb": "Thirteen of the twenty models in",
    }
    for page, words in said.items():
        assert words in (root / "book" / page).read_text("utf-8"), page
