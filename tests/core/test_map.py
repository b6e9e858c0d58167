"""The package's docstring names every module and folder, and a chapter that speaks of it."""

import ast
import json
import re

import pytest

import attnbook

ENTRY = re.compile(r"^- ((?:`\w+`(?:, )?)+): .*\(chapters? ([\d and]+)\)$", re.M)
BELOW = {"checks", "device", "files", "memo", "provenance", "shell", "cli"}


def entries():
    return [
        (name, chapters.split(" and "))
        for names, chapters in ENTRY.findall(attnbook.__doc__)
        for name in re.findall(r"\w+", names)
    ]


@pytest.fixture(scope="module")
def package(root):
    return root / "src/attnbook"


def test_every_module_and_folder_is_named_once(package):
    there = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    there |= {path.name for path in package.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert sorted(re.findall(r"`(\w+)`", attnbook.__doc__)) == sorted(there)
    assert {name for name, _ in entries()} == there - BELOW


def classes_of(path):
    """The classes of a module, or of all in a folder."""
    for file in [path.with_suffix(".py")] if not path.is_dir() else path.rglob("*.py"):
        for part in ast.parse(file.read_text()).body:
            if isinstance(part, ast.ClassDef):
                yield part.name


@pytest.mark.parametrize(("name", "chapters"), entries())
def test_the_chapters_speak_of_what_they_are_said_to_explain(name, chapters, root, package):
    for chapter in chapters:
        pages = sorted(root.glob(f"book/{int(chapter):02}-*.ipynb"))
        assert pages, f"there is no chapter {chapter}"
        cells = [cell for page in pages for cell in json.loads(page.read_text())["cells"]]
        text = "\n".join("".join(cell["source"]) for cell in cells)
        if name != "weights":  # files of numbers; `shipped` reads them
            words = {f"attnbook.{name}", *classes_of(package / name)}
            assert any(re.search(rf"\b{re.escape(word)}\b", text) for word in words)


def defined(body):
    """The names that a module defines: not those that it imports."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.If | ast.Try):
            yield from defined([*node.body, *node.orelse])
        else:
            inside = (part for part in ast.walk(node) if isinstance(part, ast.Name))
            yield from (part.id for part in inside if isinstance(part.ctx, ast.Store))


def programs(root):
    """The code of every file and of every cell."""
    for folder in ("src", "tests", "results", "benchmarks", "tools", "book", "labs"):
        for path in (root / folder).rglob("*.py"):
            yield path, path.read_text("utf-8")
        for path in (root / folder).rglob("*.ipynb"):
            for cell in json.loads(path.read_text("utf-8"))["cells"]:
                if cell["cell_type"] == "code":
                    yield path, re.sub(r"(?m)^( *)[%!].*", r"\1pass", "".join(cell["source"]))


def test_a_name_is_imported_from_the_file_that_defines_it(root):
    """One name, one address: what is exported twice, nobody knows where to look up."""
    there = {}
    for path in (root / "src").rglob("*.py"):
        words = path.relative_to(root / "src").with_suffix("").parts
        name = ".".join(words).removesuffix(".__init__")
        there[name] = {*defined(ast.parse(path.read_text("utf-8")).body)}
    elsewhere = []
    for path, code in programs(root):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module in there and not node.level:
                names = {each.name for each in node.names} - there[node.module]
                wrong = [name for name in names if f"{node.module}.{name}" not in there]
                elsewhere += [f"{path.relative_to(root)}: {node.module}.{n}" for n in wrong]
    assert elsewhere == []
