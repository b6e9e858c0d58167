"""Each notebook alone, as on Colab: torch and numpy are there, attnbook is not.

One runs whole, a student's copy; once a week a chapter, too. Of the others, whose first
cell is the same to the letter, the set-up runs after one installation, and every import of every
later cell: that is what differs there, all else nbval runs here. With `ATTNBOOK_COLAB=whole` all
run whole, as they do once a week in Colab's own image.

Beside the notebook lies a folder `attnbook`, as where somebody has cloned the repository: Python
can import that, with nothing in it, and must not take it for the package.

The first cell installs from the repository's address; git is told to take that from this
working copy, so what is tested is the last commit here. Needs network: the packages that
Colab has and the fresh environment lacks come from the package index.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import venv
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
import set_repository
from nbclient import NotebookClient
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(ROOT.glob("book/*.ipynb")) + sorted(ROOT.glob("labs/student/*.ipynb"))
WHOLE = ("03-queries-keys-values", "03-attention-by-hand")
OFTEN = WHOLE[1:]
IMPORTS = (ast.Import, ast.ImportFrom)
THERE = ["torch", "numpy", "matplotlib", "ipykernel", "transformers"]
EVERYTHING = os.environ.get("ATTNBOOK_COLAB") == "whole"
TRY = """
import json, sys
failed = {}
for name, code in json.load(sys.stdin).items():
    try:
        exec(compile(code, name, "exec"), {"__name__": "__main__"})
    except Exception as error:
        failed[name] = repr(error)
print(json.dumps(failed))
"""
REPORT = """
import attnbook.attention, json, numpy, torch
print(json.dumps([torch.__version__, numpy.__version__, attnbook.attention.__file__]))
"""

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(900)]


def with_dependencies(names):
    """The installed distributions of these names and of all that they need here."""
    found, waiting = {}, list(names)
    while waiting:
        distribution = metadata.distribution(waiting.pop())
        if distribution.name in found:
            continue
        found[distribution.name] = distribution
        for text in distribution.requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(needed.name)
    return found.values()


def link(distribution, target):
    """Let another environment have an installed distribution without copying it."""
    source = Path(distribution.locate_file(""))
    for name in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
        if not (target / name).exists():
            (target / name).symlink_to(source / name)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A fresh environment with what Colab has; what the book needs besides is installed once."""
    home = tmp_path_factory.mktemp("colab") / "environment"
    venv.create(home, with_pip=True, symlinks=True)
    packages = next(home.glob("lib/python*/site-packages"))
    for distribution in with_dependencies(THERE):
        link(distribution, packages)
    assert has(home / "bin" / "python", "torch") and not has(home / "bin" / "python", "seaborn")
    return home


@pytest.fixture
def python(place):
    """The interpreter of that environment, in which there is no attnbook (any more)."""
    python = place / "bin" / "python"
    remove = [python, "-m", "pip", "uninstall", "-q", "-y", "attnbook"]
    subprocess.run(remove, check=True, capture_output=True)
    return python


@pytest.fixture
def as_on_colab(tmp_path, python, monkeypatch):
    """Jupyter knows the fresh environment by the name `fresh`; the address leads to this copy."""
    kernel = tmp_path / "jupyter" / "kernels" / "fresh"
    kernel.mkdir(parents=True)
    start = [str(python), "-m", "ipykernel_launcher", "--log-level=ERROR"]
    spec = {"argv": [*start, "-f", "{connection_file}"], "display_name": "", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{ROOT.as_uri()}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", set_repository.configured(ROOT))
    monkeypatch.delenv("PYTHONPATH", raising=False)


def has(python, module):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run([python, "-c", f"import {module}"], check=False, **quiet).returncode == 0


def set_up_and_imports(path):
    """The code of a notebook's set-up without its installation, and what later cells import."""
    lines = []
    for cell in nbformat.read(path, as_version=4).cells[1:]:
        if cell.cell_type != "code":
            continue
        code = "\n".join(line for line in cell.source.split("\n") if line[:1] not in ("%", "!"))
        if "set-up" not in cell.metadata.get("tags", []):
            found = [part for part in ast.walk(ast.parse(code)) if isinstance(part, IMPORTS)]
            code = "\n".join(map(ast.unparse, found))
        lines.append(code)
    return "\n".join(lines)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if path.stem in OFTEN else [pytest.mark.weekly])
        for path in NOTEBOOKS
        if EVERYTHING or path.stem in WHOLE
    ],
    ids=lambda path: path.stem,
)
def test_a_notebook_alone_runs_even_beside_a_clone(path, python, as_on_colab, tmp_path):
    assert not has(python, "attnbook")
    folder = tmp_path / "alone"
    (folder / "attnbook").mkdir(parents=True)
    shutil.copy(path, folder)

    notebook = nbformat.read(folder / path.name, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, kernel_name="fresh", resources=where).execute()

    torch, numpy, file = json.loads(subprocess.check_output([python, "-c", REPORT], cwd=folder))
    assert torch == metadata.version("torch"), "installing the book replaced torch"
    assert numpy == metadata.version("numpy"), "installing the book replaced numpy"
    assert (python.parents[1] / "lib") in Path(file).parents, "not installed, only found"
    packages = next(python.parents[1].glob("lib/python*/site-packages"))
    assert (packages / "torch").is_symlink() and (packages / "numpy").is_symlink()


def test_after_one_installation_every_notebook_sets_up(python, as_on_colab, tmp_path):
    first = {nbformat.read(path, as_version=4).cells[0].source for path in NOTEBOOKS}
    assert len(first) == 1
    (address,) = re.findall('install -q "(.*)"', first.pop())
    subprocess.run([python, "-m", "pip", "install", "-q", address], check=True, cwd=tmp_path)
    codes = {path.stem: set_up_and_imports(path) for path in NOTEBOOKS}
    ours = re.compile("^(from|import) (attnbook|attnlabs|bookkit)", re.M)
    without = [name for name, code in codes.items() if not ours.search(code)]
    assert without == ["14-deeper-projects"]  # nothing of the module
    found = subprocess.run(
        [python, "-c", TRY], input=json.dumps(codes), capture_output=True, text=True, cwd=tmp_path
    )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout.splitlines()[-1]) == {}
