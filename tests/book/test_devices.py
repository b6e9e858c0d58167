"""What a page or the module defines computes on the device of its input: nothing is left behind.

Recipes and families are run on another device (`tests/core/test_compiled.py`); here the code of
every other part is read, and that of each cell and each solution, which are taken away from a page.
"""

import ast
import json
import re
import textwrap

import pytest
from devices import bases, faults

MODULE = """
class Causal(nn.Module):
    def __init__(self, T):
        super().__init__()
        self.register_buffer("first", torch.zeros(T))
        self.scale = nn.Parameter(torch.ones(()))
        {kept}

    def forward(self, x):
        future = {made}
        return x.masked_fill(future, 0) + shifted(x)

def shifted(x):
    return x + {called}
"""
RIGHT = {"kept": "self.T = T", "made": "torch.ones_like(x)", "called": "x.new_zeros(3)"}
WRONG = {
    "made": "torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)",
    "called": "torch.arange(len(x))",
    "kept": "self.mask = torch.ones(T, T).tril()",
}


@pytest.fixture(scope="module")
def trees(root):
    paths = sorted(root.glob("src/attnbook/**/*.py"))
    return {path.as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


@pytest.fixture(scope="module")
def modules(trees):
    """The name of every class of the package that is a module."""
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    known = {"Module"}
    while new := {node.name for node in classes if bases(node) & known} - known:
        known |= new
    return known


@pytest.mark.parametrize("where", WRONG)
def test_a_tensor_without_a_device_is_found(where):
    assert faults(ast.parse(MODULE.format(**RIGHT))) == []
    (found,) = faults(ast.parse(MODULE.format(**RIGHT | {where: WRONG[where]})))
    assert WRONG[where].split(".t")[0] in found


def test_no_module_of_the_package_makes_a_tensor_elsewhere(trees, modules):
    found = {name: faults(tree, modules) for name, tree in trees.items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_no_definition_of_a_page_makes_a_tensor_elsewhere(root, modules):
    found = {}
    for path in sorted(root.glob("book/*.ipynb")):
        body = [statement for code in offered(path) for statement in parsed(code)]
        found[path.name] = faults(ast.Module(body, []), modules)
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def offered(path):
    """The code of a page's cells, and what its solutions show."""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            yield re.sub(r"(?m)^[%!].*", "", text)
        else:
            yield from re.findall(r"(?ms)^```python\n(.*?)^```", text)


def parsed(code):
    try:
        return ast.parse(textwrap.dedent(code)).body
    except SyntaxError:  # a piece of a definition
        return []
