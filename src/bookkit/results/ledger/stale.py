"""Which stored runs are stale, since their study asks for something else now.

Code under a run changes every day, names most of all, and tests say that what it computes does not.
So a run is stale where a setting of its script is another, such as the steps or the rates to try;
which code it depends on, and what of that is another, is told apart.
"""

import ast
import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bookkit.results.ledger.records import Record

PACKAGES = {"attnbook", "attnlabs", "bookkit"}


@cache
def dependencies(root: Path, script: Path) -> frozenset[Path]:
    """The script and all files of this checkout that it imports, and those that these import.

    Paths are from the root. Imports inside of functions count; of a package its `__init__`, too.
    """
    found: set[Path] = set()
    waiting = [script]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        tree = ast.parse((root / path).read_text(encoding="utf-8"))
        waiting += [p for name in imported(tree) for p in located(root, name, script.parent)]
    return frozenset(found)


def imported(tree: ast.Module) -> set[str]:
    """The modules that a file imports; of `from a import b` both a and a.b, since b may be one."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def located(root: Path, module: str, beside: Path) -> list[Path]:
    """The files of a module of the package, or of a script in the same folder; none of others."""
    parts = module.split(".")
    base = Path("src") if parts[0] in PACKAGES else beside
    found = [base.joinpath(*parts[:n], "__init__.py") for n in range(1, len(parts) + 1)]
    found.append(base.joinpath(*parts).with_suffix(".py"))
    return [path for path in found if (root / path).is_file()]


def commit_of(root: Path, record: Record) -> str:
    """The commit whose code made a run: its own, or, where that had changes or is not in the
    history, the one that stored the run. "" where that cannot be told: outside of git, for a run
    not yet committed, in a clone without its history."""
    then = git(root, "rev-parse", "--verify", f"{record.commit}^{{commit}}")
    return then or git(root, "rev-list", "-1", "HEAD", "--", str(record.path))


def stale(root: Path, record: Record) -> list[str] | None:
    """The settings of the run's script that are others now than when it was made: constants in
    capitals, its own and those that it names of scripts beside it, by the numbers and words in
    them. None where that cannot be told.

    A setting that is new, gone or called otherwise is none that changed.
    """
    then = commit_of(root, record)
    if not then:
        return None
    scripts = [path for path in dependencies(root, record.script) if path.parts[0] != "src"]
    its, found = names_in(text_of(root, "", str(record.script))), []
    for path in sorted(scripts):
        before, now = (settings(text_of(root, commit, str(path))) for commit in (then, ""))
        same = before.keys() & now.keys() & its
        found += [f"{path}: {name}" for name in sorted(same) if before[name] != now[name]]
    return found


def names_in(text: str) -> set[str]:
    """Every name that a script defines, uses or imports."""
    nodes = [*ast.walk(ast.parse(text))]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return names | {node.name for node in nodes if isinstance(node, ast.alias)}


def settings(text: str) -> dict[str, list[str]]:
    """The numbers and words in each constant of a script, in any order: a table that is written in
    another way is the same. Where files lie is no setting."""
    found: dict[str, list[str]] = {}
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign | ast.AugAssign) and statement.value:
            targets, value = [statement.target], statement.value
        else:
            continue
        for target in targets:
            for name, its in pairs(target, value):
                found.setdefault(name, []).extend(words_in(its))
    return {name: sorted(words) for name, words in found.items()}


def pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Each constant of an assignment and what it is set to; `A, B = 1, 2` sets two."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from pairs(one, its)
    elif isinstance(target, ast.Name) and target.id.isupper() and "Path(" not in ast.unparse(value):
        yield target.id, value


def words_in(value: ast.expr) -> list[str]:
    """The numbers and words of an expression."""
    nodes = ast.walk(value)
    return [repr(node.value) for node in nodes if isinstance(node, ast.Constant)]


def changed(root: Path, record: Record) -> Iterator[Path]:
    """Files that the run depends on whose code is another now than when it was made. Comments and
    docstrings are no code."""
    then = commit_of(root, record)
    own = record.path.stem.split(".")[0]
    asked = {Path(word) for word in record.command if word.endswith(f"{own}.ipynb")}
    needed = sorted(str(path) for path in dependencies(root, record.script) | asked)
    touched = git(root, "diff", "--name-only", then, "--", *needed).splitlines() if then else []
    return (Path(name) for name in touched if code(root, then, name) != code(root, "", name))


def declared(root: Path, record: Record) -> bool | None:
    """Whether the run's study was committed before its result; None where it declares none, or
    where the history here does not tell.
    """
    path = root / record.path
    if "study" not in json.loads(path.read_text(encoding="utf-8")):
        return None
    script, result = (first(root, one) for one in (record.script, record.path))
    if not script or not result:
        return None
    return script != result and git(root, "merge-base", script, result) == script


def first(root: Path, path: Path) -> str:
    """The commit that brought a file, wherever it lay then; "" without a history of it."""
    found = git(root, "log", "--follow", "--diff-filter=A", "--format=%H", "--", str(path))
    return found.splitlines()[-1] if found else ""


@cache
def text_of(root: Path, commit: str, name: str) -> str:
    """A file as it was then, or is now if commit is ""; "" if it is not there."""
    if commit:
        return git(root, "show", f"{commit}:{name}")
    return (root / name).read_text(encoding="utf-8") if (root / name).exists() else ""


@cache
def code(root: Path, commit: str, name: str) -> str:
    """A file's code without comments and docstrings, as it was then, or is now if commit is ""."""
    text = text_of(root, commit, name)
    if name.endswith(".ipynb"):
        cells = json.loads(text)["cells"] if text else []
        return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and is_text(body[0]):
            node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.dump(tree)


def is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def git(root: Path, *words: str) -> str:
    """What git says in this checkout; "" if it has nothing to say or is not there."""
    try:
        answer = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
