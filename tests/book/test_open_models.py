"""What open models are made of: the stored table is what their releases and their code say."""

import json
import os
import re
from pathlib import Path

import pytest
import transformers

from bookkit.results.stored_run import stored_run


@pytest.fixture(scope="module")
def stored(root):
    return json.loads((root / "src/bookkit/runs/open_models.json").read_text("utf-8"))


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
        numbers = found["models"][model.name]
        assert proportions.proportions(model, cells[model.name]) == numbers
        assert f"{numbers['vocabulary']:,}" == cells[model.name]["Vocabulary"]["says"]


def test_nine_experts_of_deepseek_v3_are_as_wide_as_its_first_networks():
    """No script wrote 18,432 down for the layers with experts: it is nine times 2,048."""
    assert stored_run("proportions")["models"]["DeepSeek-V3"]["network"] == 18_432
    config = transformers.DeepseekV3Config()
    assert 9 * config.moe_intermediate_size == config.intermediate_size == 18_432


@pytest.fixture(scope="module")
def releases(root):
    return json.loads((root / "results/releases.json").read_text("utf-8"))["models"]


def test_every_row_has_evidence_with_an_address_and_a_hash(stored, releases, script):
    sources = script("results/releases.py").SOURCES
    assert [model["name"] for model in stored["models"]] == list(releases) == list(sources)
    for model in stored["models"]:
        source = model["source"]
        assert source == releases[model["name"]]["source"]
        assert re.fullmatch(r"[0-9a-f]{40}", source["commit"]), model["name"]
        if model["name"] == "Hy4 preview":  # a card that was read as text
            assert (source["date"], source["sha256"]) == ("", "")
            continue
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", source["date"]), model["name"]
        assert re.fullmatch(r"[0-9a-f]{64}", source["sha256"]), model["name"]


def number(text):
    return int(text.replace(",", ""))


def test_every_row_agrees_with_the_numbers_of_its_release(stored, releases):
    """By the released settings alone, not by what the library makes of them."""
    for model in stored["models"]:
        says = {column: cell["says"] for column, cell in model["cells"].items()}
        released = releases[model["name"]]["settings"]
        layers = sum(map(int, re.findall(r"(\d+) ×", says["Layers"])))
        heads = re.search(r"(?:MHA|GQA|MQA|MLA), (\d+)", says["Attention"])[1]
        keys = re.search(r"over (\d+)", says["Attention"])
        of_all = re.match(r"(\d+), (\d+) at a time", says["Experts"])
        found = {
            "num_hidden_layers": layers,
            "num_attention_heads": int(heads),
            "vocab_size": number(says["Vocabulary"]),
        }
        if keys:
            found["num_key_value_heads"] = int(keys[1])
        if of_all:
            found["num_experts_per_tok"] = int(of_all[2])
            names = "n_routed_experts", "num_local_experts", "num_experts"
            found |= {name: int(of_all[1]) for name in names}
        for name in found.keys() & released.keys():
            assert found[name] == released[name], (model["name"], name)


@pytest.mark.parametrize(
    ("name", "column", "says"),
    [
        ("Kimi Linear 48B-A3B", "Layers", "20 × delta rule + 7 × full"),
        ("MiniMax-M2", "Positions", "rotary, 50% of the channels"),
        ("OLMo Hybrid 7B", "Positions", "none"),
        ("GLM-5.2", "Layers", "78 × chosen by an indexer, 2,048, chosen anew in 21"),
        ("MiMo-V2-Flash", "Layers", "39 × window of 129 + 9 × full"),
    ],
)
def test_where_a_release_differs_from_its_code_s_defaults_the_release_counts(
    stored, name, column, says
):
    model = next(model for model in stored["models"] if model["name"] == name)
    assert model["cells"][column]["says"] == says


def test_kinds_of_layers_are_counted_in_the_released_lists(stored, releases):
    says = {model["name"]: model["cells"]["Layers"]["says"] for model in stored["models"]}
    ratios = releases["DeepSeek-V4 Flash"]["settings"]["compress_ratios"]
    assert len(ratios) == 44 and ratios[-1] == 0  # the last is that of the head for a second token
    kinds = [ratios[:-1].count(ratio) for ratio in (4, 128, 0)]
    assert kinds == [21, 20, 2] == list(map(int, re.findall(r"(\d+) ×", says["DeepSeek-V4 Flash"])))
    pattern = releases["MiMo-V2-Flash"]["settings"]["hybrid_layer_pattern"]
    assert says["MiMo-V2-Flash"].startswith(f"{sum(pattern)} × window")
    chosen = releases["GLM-5.2"]["settings"]["indexer_types"].count("full")
    assert says["GLM-5.2"].endswith(f"chosen anew in {chosen}")


def test_copies_of_the_releases_are_what_was_stored(releases, script):
    """With git copies of the repositories in the folder that ATTNBOOK_RELEASES names."""
    if "ATTNBOOK_RELEASES" not in os.environ:
        pytest.skip("ATTNBOOK_RELEASES names no folder with git copies")
    folder = Path(os.environ["ATTNBOOK_RELEASES"])
    module = script("results/releases.py")
    for name, before in releases.items():
        assert module.entry(name, folder, before) == before, name


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


@pytest.fixture(scope="module")
def cells(stored):
    return {
        model["name"]: {column: cell["says"] for column, cell in model["cells"].items()}
        for model in stored["models"]
    }


def test_what_the_chapters_say_of_all_models_is_counted_in_the_table(root, cells):
    """General sentences about published models: each page's words, and what they claim."""

    def those(column, holds):
        return {name for name, says in cells.items() if holds(says[column])}

    count = len(cells)
    assert len(those("Norms", lambda says: "RMSNorm" in says)) == count
    silu = those("Network", lambda says: says.startswith("SwiGLU"))
    assert cells.keys() - silu == {"Gemma 3 27B"}
    assert cells["Gemma 3 27B"]["Network"] == "GeGLU"
    still = those("Positions", lambda says: says == "none")
    assert still == {"Kimi Linear 48B-A3B", "OLMo Hybrid 7B"}
    partly = those("Positions", lambda says: "%" in says)
    shares = {int(re.search(r"(\d+)%", cells[name]["Positions"])[1]) for name in partly}
    assert len(partly) == 13 and (min(shares), max(shares)) == (12, 50)
    skipping = those("Positions", lambda says: "none in" in says)
    assert skipping == {"SmolLM3 3B", "Llama 4 Scout"}
    patterns = those("Layers", lambda says: "window" in says or "chunks" in says)
    without = {name for name in patterns if "full" not in cells[name]["Layers"]}
    assert without == {"DeepSeek-V4 Flash"}
    matrix = those("Layers", lambda says: "delta rule" in says)
    assert len(matrix) == 4 and all("× full" in cells[name]["Layers"] for name in matrix)
    for name in matrix:
        states, others = map(int, re.findall(r"(\d+) ×", cells[name]["Layers"]))
        assert 0.7 < states / (states + others) <= 0.75, name
    known = r"full|window of|chunks of|delta rule|chosen by an indexer|(four|128) tokens in one"
    for says in (says["Layers"] for says in cells.values()):
        assert all(re.match(rf"\d+ × ({known})", part) for part in says.split(" + ")), says
    experts = len(those("Experts", lambda says: says != "dense"))
    said = {
        "09-deeper-norms.ipynb": f"All {count} {{ref}}`open models <open-models>` use it.",
        "09-modern-tweaks.ipynb": f"Of the {count} open models {len(silu)} have",
        "10-deeper-zoo.ipynb": "Performer, Linformer and Reformer occur in none of the",
        "15-recurrence-returns.ipynb": "Four {ref}`open models <open-models>` of 2025 and 2026",
        "10-the-cost-of-attention.ipynb": "in the other layers except in DeepSeek-V4",
        "18-many-machines.ipynb": f"in [our table](open-models.ipynb), {experts} have",
        "index.md": f"a table of {count} models",
    }
    for page, words in said.items():
        assert words in (root / "book" / page).read_text("utf-8"), page
    page = (root / "book/09-modern-tweaks.ipynb").read_text("utf-8")
    assert f"All {count} models of {{ref}}`the table <open-models>` but Kimi" in page
    assert "Thirteen models rotate only an eighth to a half" in page


def test_what_the_page_says_of_its_table_is_counted_in_it(root, stored, cells):
    page = (root / "book/open-models.ipynb").read_text("utf-8")
    numbers = stored_run("proportions")["models"]
    months = sorted(each["month"] for each in numbers.values())
    assert f"The table has {len(cells)} models" in page
    assert (months[0], months[-1]) == ("2024-07", "2026-08")
    assert "from Llama 3.1 (July 2024) to Hy4 preview (August 2026)" in page
    kinds = [model["source"]["kind"] for model in stored["models"]]
    assert [kinds.count(k) for k in ("release", "kin", "makers", "quoted")] == [15, 1, 7, 2]
    for words in ("Fifteen rows follow a copy", "Seven rows follow", "Two, Kimi Linear and Hy3,"):
        assert words in page
    full = {name: each["full"] == each["layers"] for name, each in numbers.items()}
    early = [full[name] for name, each in numbers.items() if each["month"] <= "2025-07"]
    late = [name for name, each in numbers.items() if each["month"] >= "2026"]
    assert f"{sum(early)} of {len(early)} models; of the {len(late)} models of 2026 one has" in page
    assert [name for name in late if full[name]] == ["Hy3"]
    of = {"heads": [], "latents": [], "others": []}
    for name, each in numbers.items():
        kind = "latents" if "MLA" in cells[name]["Attention"] else "heads"
        of[kind if kind == "latents" or full[name] else "others"].append(each["cache"])
    low = {kind: (round(min(kept)), round(max(kept))) for kind, kept in of.items()}
    assert low == {"heads": (74, 524), "latents": (8, 110), "others": (7, 137)}
    for words in ("keep 74 to 524 kB", "Latents keep 8 to 110 kB", "summaries 7 to 137 kB"):
        assert words in page
