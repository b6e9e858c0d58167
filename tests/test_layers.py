"""The module is built in layers: what stands low never imports what stands above it."""

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "attnbook"

EFFICIENT = {"flash", "sparse", "linear", "hashing", "reversible"}
PARTS = {
    "attention",
    "positions",
    "norms",
    "feedforward",
    "cache",
    "recurrent",
    "block",
    "heads",
    "latent",
    *EFFICIENT,
}
MODELS = {"seq2seq", "transformer", "recipes", "vit"}
DRAWING = {"figures", "panel", "show", "explore"}
TRAINING = {"train", "run", "history", "options", "checkpoint", "progress"}

# part of the module: the other parts it may import
MAY_IMPORT = {
    "attention": set(),
    "positions": set(),
    "norms": set(),
    "feedforward": set(),
    "cache": set(),
    "block": set(),
    **{efficient: {"attention"} for efficient in EFFICIENT},
    "recurrent": {"attention"},
    "seq2seq": {"attention", "recurrent"},
    "heads": {"attention"},
    "latent": {"attention"},
    "transformer": PARTS,
    "recipes": PARTS | {"transformer", "vit"},
    "vit": PARTS,
    "generate": set(),
    "published": set(),
    "pretrained": MODELS | {"published"},
    "data": set(),
    "device": set(),
    "memory": set(),
    **dict.fromkeys(TRAINING, TRAINING),
    "figures": DRAWING,
    "panel": DRAWING,
    "show": DRAWING,
    "explore": DRAWING | {"attention"},
    "labs": PARTS | MODELS | {"generate", "data", "train", "device"} | DRAWING,
    "cli": {"labs", "data", "train", "device"},
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


@pytest.mark.parametrize(
    "path", [path for path in FULL if part(path) in PARTS | MODELS | {"generate"}], ids=str
)
def test_models_stand_on_torch_alone(path):
    outside = {name.split(".")[0] for name in imported(path)} - sys.stdlib_module_names
    assert outside <= {"torch", "jaxtyping", "attnbook"}


@pytest.mark.parametrize("path", sorted(set(FILES) - set(FULL)), ids=str)
def test_a_package_file_is_empty(path):
    """`from attnbook.attention import attend` tells where to look; `from attnbook` would not."""
    assert (SOURCE / path).read_text(encoding="utf-8").strip() == ""


@pytest.mark.parametrize("path", FULL, ids=str)
def test_every_file_has_its_tests(path, root):
    own = root / "tests" / path.parent / f"test_{path.name}"
    whole_part = root / "tests" / f"test_{'train' if part(path) in TRAINING else part(path)}.py"
    assert own.exists() or whole_part.exists(), f"{own.relative_to(root)} is missing"


def test_the_table_has_no_circle():
    """Outside of one group, of two parts at most one may import the other."""
    groups = [TRAINING, DRAWING]
    for low, allowed in MAY_IMPORT.items():
        for other in allowed:
            together = any({low, other} <= group for group in groups)
            assert together or low not in MAY_IMPORT[other], f"{low} and {other}"
