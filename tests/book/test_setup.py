"""The first minute of a newcomer: what make says when something is missing, and what it keeps."""

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata

import bootstrap as tool
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# What the interpreter is told before bootstrap.py runs in it.
OLD = "sys.version_info = (3, 9, 18)"
NO_VENV = "sys.modules['ensurepip'] = None"


@pytest.fixture
def project(root, tmp_path):
    """Makefile and bootstrap.py with locks that name nothing, so that installing is quick."""
    shutil.copy(root / "Makefile", tmp_path)
    (tmp_path / "tools").mkdir()
    shutil.copy(root / "tools" / "bootstrap.py", tmp_path / "tools")
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "requirements.txt").write_text("# nothing\n")
    (tmp_path / "requirements.txt").write_text("-r book/requirements.txt\n")
    return tmp_path


def run(command, folder, **environment):
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHON", "MAKEFLAGS")}
    return subprocess.run(
        command, cwd=folder, env=kept | environment, capture_output=True, text=True, timeout=100
    )


def bootstrap(folder, level="book", before="", **environment):
    program = f"import runpy, sys; sys.argv[1:] = ['{level}']; {before}\n"
    program += "runpy.run_path('tools/bootstrap.py', run_name='__main__')"
    return run([sys.executable, "-c", program], folder, **environment)


def assert_one_sentence(answer, *words):
    said = answer.stderr.strip()
    assert answer.returncode != 0
    assert "Traceback" not in said
    for word in words:
        assert word in said, said


def test_missing_python(project):
    answer = run(["make", "book", "PYTHON=no-such-python"], project)
    assert_one_sentence(answer, "there is no no-such-python", "3.10")


def test_old_python(project):
    answer = bootstrap(project, before=OLD)
    assert_one_sentence(answer, "Python 3.10 or newer is needed", "3.9", "PYTHON=")
    assert answer.stderr.count("\n") == 1
    assert not (project / ".venv").exists()


def test_no_venv_module(project):
    answer = bootstrap(project, before=NO_VENV)
    assert_one_sentence(answer, "no venv module", "python3-venv")
    assert answer.stderr.count("\n") == 1


@pytest.mark.slow
def test_no_network(project):
    (project / "book" / "requirements.txt").write_text("a-package-of-the-book==1.0\n")
    nowhere = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_RETRIES": "1"}
    answer = bootstrap(project, PIP_INDEX_URL="http://127.0.0.1:9/simple", **nowhere)
    assert_one_sentence(answer, "is there a network?", ".venv/install.log")
    assert answer.stderr.count("\n") == 1
    assert "a-package-of-the-book" in (project / ".venv" / "install.log").read_text()
    assert not (project / ".venv" / "complete").exists()


RETRY = "WARNING: Retrying: Failed to establish a new connection: /simple/numpy/"
STEP = "Collecting numpy==1.0"
CLASH = "ERROR: these versions do not fit together"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([RETRY, "ERROR: No matching distribution found"], "is there a network?"),
        ([STEP, "ERROR: OSError: Max retries exceeded with url: /numpy"], "is there a network?"),
        ([RETRY, STEP, CLASH], CLASH),
        (["  Downloading Connection-1.0.whl", CLASH], CLASH),
        ([STEP, "ERROR: No matching distribution found"], "no build for this Python"),
        ([], "exit status 3"),
    ],
)
def test_a_failure_is_explained_by_what_was_said_last(said, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / tool.LOG).write_text(RETRY + "\n")  # of an earlier run
    program = f"import sys; print(*{said!r}, sep='\\n'); sys.exit(3)"
    with pytest.raises(tool.Failure, match=re.escape(reason)):
        tool.run([sys.executable, "-c", program])


def test_notebooks_are_compared_on_a_cpu_unless_another_device_is_named(project):
    (project / "say.mk").write_text("say:;@echo $$ATTNBOOK_DEVICE $$ATTNBOOK_THREADS\n")
    command = ["make", "--no-print-directory", "-f", "Makefile", "-f", "say.mk", "say"]
    named = run(command, project, ATTNBOOK_DEVICE="cuda", ATTNBOOK_THREADS="2")
    assert named.stdout == "cuda 2\n"
    unnamed = run(["env", "-u", "ATTNBOOK_DEVICE", "-u", "ATTNBOOK_THREADS", *command], project)
    assert unnamed.stdout == "cpu 1\n"


def test_parses_on_any_python(root):
    """Syntax newer than Python 2.7 would hide the sentence about the version."""
    tree = ast.parse((root / "tools" / "bootstrap.py").read_text(encoding="utf-8"))
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.Nonlocal, ast.Starred, ast.AsyncFor)
    found = [node for node in ast.walk(tree) if isinstance(node, newer)]
    found += [node for node in ast.walk(tree) if isinstance(node, ast.arg) and node.annotation]
    found += [node for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.cause]
    assert not [f"line {node.lineno}" for node in found]


@pytest.mark.slow
def test_a_complete_environment_is_kept_and_an_unfinished_one_is_not(project):
    first = bootstrap(project)
    assert first.returncode == 0 and "Installing" in first.stdout, first.stderr
    leftover = project / ".venv" / "leftover"
    leftover.touch()

    assert bootstrap(project).stdout == ""  # nothing to do
    more = bootstrap(project, "test")  # the website's packages stay, the rest is added
    assert more.returncode == 0 and "Installing" in more.stdout
    assert bootstrap(project).stdout == bootstrap(project, "test").stdout == ""
    assert leftover.exists()

    (project / ".venv" / "complete").unlink()  # as if the installation had been interrupted
    again = bootstrap(project)
    assert again.returncode == 0 and "Installing" in again.stdout
    assert not leftover.exists()

    leftover.touch()
    (project / "book" / "requirements.txt").write_text("# nothing, newly\n")
    assert "Installing" in bootstrap(project).stdout
    assert not leftover.exists()


@pytest.mark.skipif(
    not (os.environ.get("CI") and os.path.exists(os.path.join(sys.prefix, "complete"))),
    reason="only CI's .venv is new: to another, somebody may have added tools",
)
def test_the_lock_is_complete(root):
    """Nothing is installed that the lock does not name, in the version that it names."""
    locked = set()
    for lock in ("requirements.txt", "book/requirements.txt"):
        locked |= set(re.findall(r"^([\w.-]+==[^\s;]+)", (root / lock).read_text(), re.MULTILINE))
    installed = set()
    for distribution in metadata.distributions():
        name = canonical(distribution.metadata["Name"])
        version = distribution.version.partition("+")[0]
        installed.add(f"{name}=={version}")
    cuda = re.compile(r"(nvidia-|cuda-|triton|attnbook|pip=)")
    assert not {name for name in installed - locked if not cuda.match(name)}
    subprocess.run([sys.executable, "-m", "pip", "check"], check=True)


def test_whatever_the_module_imports_is_declared(root):
    """What comes along with another package today need not come along tomorrow."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    own, more = {"attnbook", "attnlabs", "bookkit"}, project["optional-dependencies"]
    core = named(project["dependencies"])
    for package, extras in {
        "attnbook": ("data", "book", "real"),
        "attnlabs": ("labs",),
        "bookkit": ("book", "data"),
    }.items():
        declared = core.union(*(named(more[extra]) for extra in extras))
        assert not undeclared(root.glob(f"src/{package}/**/*.py"), declared, own=own)


def test_the_field_needs_five_packages_to_be_imported(root):
    """What chapters, downloads and the grader need on top is asked for by name."""
    code = """
import importlib, pkgutil, sys
ASKED = {"matplotlib", "seaborn", "sklearn", "networkx", "pooch", "PIL", "IPython", "scipy",
         "ipywidgets", "nbformat", "tqdm", "huggingface_hub", "transformers"}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ASKED:
            raise ImportError(f"asked for {name}")
sys.meta_path.insert(0, Refuse())
import attnbook
for found in pkgutil.walk_packages(attnbook.__path__, "attnbook."):
    if not found.name.startswith(("attnbook.data", "attnbook.shipped", "attnbook.__main__")):
        importlib.import_module(found.name)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def named(requirements):
    """The packages of a list of requirements."""
    return {canonical(re.split(r"[<>=\[]", each)[0]) for each in requirements}


def test_the_website_is_built_from_what_its_own_lock_names(root):
    """`make book` on a new machine installs this lock alone: neither torch nor the module."""
    lock = (root / "book" / "requirements.txt").read_text("utf-8")
    locked = {canonical(name) for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    extensions = [*root.glob("book/_ext/*.py")]
    named = {path.stem for path in extensions}
    used = {root / "tools" / f"{name}.py" for name in imports(extensions)}
    used = [path for path in used if path.exists()]
    assert root / "tools" / "measured_tables.py" in used
    assert root / "src/bookkit/explore/element.py" in (kit := of_the_package(root, extensions))
    own = named | {path.stem for path in used} | {"bookkit"}
    assert not undeclared([*extensions, *used, *kit], locked, own)


def of_the_package(root, paths):
    """The files of `bookkit` that these files import, and those that they import."""
    found, waiting = set(), list(paths)
    while waiting:
        for node in ast.walk(ast.parse(waiting.pop().read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bookkit"):
                path = root / "src" / (node.module.replace(".", "/") + ".py")
                if path.exists() and path not in found:
                    found.add(path)
                    waiting.append(path)
    return found


def imports(paths):
    """The top-level names that are imported."""
    names = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module.split(".")[0])
    return names


def undeclared(paths, declared, own):
    """What these files import that is neither Python's, nor theirs, nor of a declared package."""
    packages = metadata.packages_distributions()
    outside = imports(paths) - sys.stdlib_module_names - own
    return {
        name for name in outside if not {*map(canonical, packages.get(name, [name]))} & declared
    }


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()
