"""The module is built in layers: what stands low never imports what stands above it."""

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "attnbook"

PARTS = {
    "step",
    "tables",
    "patterns",
    "text_patterns",
    "masks",
    "frequencies",
    "rotary",
    "projection",
    "learned_scores",
    "score",
    "flex",
    "routing",
    "experts",
    "attention",
    "positions",
    "norms",
    "feedforward",
    "cache",
    "kept",
    "recurrent",
    "block",
    "heads",
    "efficient",
    "recurrence",
}
MODELS = {"seq2seq", "transformer", "initial", "recipes", "vit"}
WRITING = {"generate", "continued", "prompts", "search"}
DRAWING = {"figures", "sharp", "panel", "show", "explore", "drawings"}

# a file or folder of the module: the others it may import
MAY_IMPORT = {
    "step": set(),
    "tables": set(),
    "patterns": {"tables"},
    "text_patterns": {"patterns", "tables"},
    "masks": {"patterns", "step", "tables", "text_patterns"},
    "frequencies": set(),
    "rotary": {"frequencies", "step"},
    "positions": {"frequencies", "masks", "rotary", "step"},
    "norms": {"rotary"},
    "routing": set(),
    "experts": {"routing"},
    "feedforward": {"experts"},
    "kept": {"masks"},
    "cache": {"kept", "masks", "step"},
    "projection": set(),
    "learned_scores": set(),
    "score": {"flex", "masks"},
    "flex": {"masks", "step"},
    "attention": {"cache", "kept", "learned_scores", "masks", "projection", "rotary", "score"},
    "block": {"cache", "masks", "step"},
    "efficient": {"attention", "cache", "masks", "norms", "rotary"},
    "recurrent": {"attention"},
    "recurrent_logits": {"recurrent"},
    "seq2seq": {"attention", "recurrent"},
    "heads": {"attention"},
    "transformer": PARTS,
    "initial": {"transformer"},
    "recipes": PARTS | {"initial"} | {"transformer", "vit"},
    "vit": PARTS,
    "prompts": set(),
    "search": {"prompts"},
    "continued": {"prompts"},
    "generate": {"continued", "prompts", "search"},
    "optimizers": set(),
    "quantise": set(),
    "quantised_file": {"files", "quantise"},
    "lora": {"optimizers", "quantise"},
    "calibrated": {"masks", "quantise"},
    "autoencoder": set(),
    "circuits": {"attention", "cache", "heads", "masks", "patterns", "transformer"},
    "speculative": {"cache"},
    "streams": {"block", "cache", "masks"},
    "automata": set(),
    "json_automaton": {"automata"},
    "constrained": {"automata", "generate"},
    "qk_clip": {"attention", "projection", "score"},
    "lookup_memory": set(),
    "multitoken": {"cache", "masks", "speculative", "train", "transformer"},
    "adaln": {"cache", "masks"},
    "anything": PARTS | {"adaln", "data", "train", "vit"},
    "drafts": {"speculative"},
    "hidden_drafts": {
        "cache",
        "drafts",
        "masks",
        "multitoken",
        "speculative",
        "train",
        "transformer",
    },
    "recurrence": {"cache", "masks", "norms"},
    "measured": set(),
    "published": set(),
    "families": PARTS | MODELS | {"published"},
    "pretrained": MODELS | {"published", "families"},
    "models": PARTS
    | {"initial", "recipes", "transformer", "generate", "quantise", "quantised_file"},
    "book_vit": PARTS | MODELS | {"models", "quantised_file"},
    "book_translator": PARTS | MODELS | WRITING | {"data", "models", "quantised_file", "train"},
    "shipped": {"book_translator", "book_vit", "models"},
    "classify": PARTS | MODELS | {"data", "train"},
    "mae": PARTS | {"vit"},
    "data": set(),
    "device": set(),
    "training": {"files"},
    "train": {"training"},
    "sharp": set(),
    "stored_run": {"device"},
    "scaling_law": set(),
    "seating": PARTS | {"data", "train"},
    "translators": PARTS | {"data", "seq2seq", "train"},
    "on_paper": PARTS | {"seq2seq"},
    "recalling": PARTS | {"data", "train"},
    "post_training": set(),
    "rlhf": set(),
    "adder_rlhf": MODELS | {"adder", "post_training", "rlhf", "train"},
    "adder": MODELS | {"data", "generate", "post_training", "train"},
    "figures": DRAWING,
    "panel": DRAWING,
    "show": DRAWING,
    "clinic": PARTS | MODELS | {"data", "train"},
    "explore": DRAWING
    | PARTS
    | {"clinic", "data", "generate", "on_paper", "planner", "scaling_law", "stored_run"},
    "drawings": DRAWING
    | PARTS
    | MODELS
    | {
        "anything",
        "calibrated",
        "clinic",
        "on_paper",
        "parallel",
        "post_training",
        "quantise",
        "serving",
        "stored_run",
        "train",
    },
    "files": set(),
    "provenance": {"device", "files"},
    "study": {"data", "device", "provenance", "train", "training"},
    "labs": {"data", "files", "generate", "models", "transformer"},
    "trainer": {
        "data",
        "device",
        "files",
        "models",
        "optimizers",
        "provenance",
        "quantised_file",
        "train",
        "training",
    },
    "planner": {"training"},
    "ledger": set(),
    "parallel": PARTS | MODELS | {"train", "training"},
    "serving": {"cache", "generate", "kept", "masks", "models"},
    "cli": {"labs", "ledger", "planner", "serving", "trainer"},
    "__main__": {"cli"},
}
FILES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
FULL = [path for path in FILES if path.name != "__init__.py"]


def part(path):
    return path.parts[0].removesuffix(".py")


def imported(path):
    """Dotted names of everything a file imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse((SOURCE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the import out, from attnbook"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FULL, ids=str)
def test_imports_only_what_stands_below(path):
    here = part(path)
    assert here in MAY_IMPORT, f"{here} has no place in the table of layers yet"
    parts = {name.split(".")[1] for name in imported(path) if name.startswith("attnbook.")}
    assert parts <= MAY_IMPORT[here] | {here}


@pytest.mark.parametrize("here", MAY_IMPORT)
def test_the_table_names_what_is_there(here):
    assert {here} <= {part(path) for path in FULL}
    assert MAY_IMPORT[here] <= set(MAY_IMPORT)


@pytest.mark.parametrize(
    "path", [path for path in FULL if part(path) in PARTS | MODELS | WRITING], ids=str
)
def test_models_stand_on_torch_alone(path):
    outside = {name.split(".")[0] for name in imported(path)} - sys.stdlib_module_names
    assert outside <= {"torch", "jaxtyping", "attnbook"}


def ours(folder):
    """What the files of a folder import of the module: {"labs.inside.cells.binds", …}."""
    files = [path for path in FULL if path.is_relative_to(folder)]
    assert files
    names = [name for path in files for name in imported(path)]
    return {name.removeprefix("attnbook.") for name in names if name.startswith("attnbook.")}


def test_what_runs_beside_students_code_imports_nothing_but_itself():
    """The sandbox copies this folder alone; whatever lay outside would be missing or readable."""
    assert all(name.startswith("labs.inside.") for name in ours("labs/inside"))


def test_grading_is_not_needed_by_a_student():
    """`check` in a student's notebook knows fingerprints; `own` what labs 9 and 10 measure."""
    students = {"check", "draws", "errors", "judge", "probes", "question", "variants"}
    students |= {"inside", "own", "specimen", "ward"}
    for path in FULL:
        if path.parts[0] == "labs" and path.parts[1].removesuffix(".py") in students:
            labs = {name.split(".")[2] for name in imported(path) if ".labs." in name}
            assert labs <= students, path


@pytest.mark.parametrize("path", sorted(set(FILES) - set(FULL)), ids=str)
def test_a_package_file_is_empty(path):
    """`from attnbook.attention import attend` tells where to look; `from attnbook` would not."""
    assert (SOURCE / path).read_text(encoding="utf-8").strip() == ""


@pytest.mark.parametrize("path", FULL, ids=str)
def test_every_file_has_its_tests(path, root):
    own = root / "tests" / path.parent / f"test_{path.name}"
    whole_part = root / "tests" / f"test_{'train' if part(path) == 'training' else part(path)}.py"
    assert own.exists() or whole_part.exists(), f"{own.relative_to(root)} is missing"


def test_the_table_has_no_circle():
    """Outside of one group, of two parts at most one may import the other."""
    for low, allowed in MAY_IMPORT.items():
        for other in allowed:
            together = {low, other} <= DRAWING
            assert together or low not in MAY_IMPORT[other], f"{low} and {other}"
