"""Finds tensors that would lie on the wrong device once a module is moved: by reading its code.

A method that makes a tensor says on which device, and a module keeps it as a parameter or a buffer.
What cannot be built without knowing its sizes, such as the modules that a page defines, is checked
as well as what can.
"""

import ast
from collections.abc import Collection, Iterator, Sequence

MAKES = {
    *("arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn"),
    *("randperm", "tensor", "tril_indices", "triu_indices", "zeros"),
}
MOVES = {"to", "type_as", "cuda"}


def faults(tree: ast.AST, modules: Collection[str] = ("Module",)) -> list[str]:
    """`Class.method: code` for each tensor without a device in the modules of some code, and in the
    functions of this code that their methods call. `modules` are names of known base classes."""
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    functions = {
        node.name: node for node in getattr(tree, "body", []) if isinstance(node, ast.FunctionDef)
    }
    known, found = set(modules), []
    while new := {name for name, node in classes.items() if bases(node) & known} - known:
        known |= new
    for name, node in classes.items():
        if name not in known:
            continue
        for method in node.body:
            if isinstance(method, ast.FunctionDef):
                here = strayed(method) if method.name == "__init__" else homeless(method)
                found += [f"{name}.{method.name}: {code}" for code in here]
        methods = [method for method in node.body if getattr(method, "name", "") != "__init__"]
        for called in reached(methods, functions):
            found += [f"{name} → {called.name}: {code}" for code in homeless(called)]
    return sorted(set(found))


def bases(node: ast.ClassDef) -> set[str]:
    """The last names of the classes that a class is made of."""
    return {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}


def reached(
    start: Sequence[ast.AST], functions: dict[str, ast.FunctionDef]
) -> list[ast.FunctionDef]:
    """The functions that some code calls by name, and those that these call."""
    found: dict[str, ast.FunctionDef] = {}
    waiting = [*start]
    while waiting:
        for name in {node.id for node in ast.walk(waiting.pop()) if isinstance(node, ast.Name)}:
            if name in functions and name not in found:
                found[name] = functions[name]
                waiting.append(functions[name])
    return list(found.values())


def homeless(method: ast.AST) -> list[str]:
    """Tensors that are made without saying on which device, nor moved at once."""
    moved = {
        id(node.func.value)
        for node in ast.walk(method)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in MOVES
    }
    return [ast.unparse(call) for call in made(method) if id(call) not in moved]


def strayed(method: ast.AST) -> list[str]:
    """Tensors that a constructor keeps as they are: no parameter and no buffer moves them."""
    found = []
    for node in ast.walk(method):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Attribute) for t in node.targets):
            inside = node.value
            while isinstance(inside, ast.Call) and isinstance(inside.func, ast.Attribute):
                if inside in made(inside):
                    found.append(ast.unparse(node))
                    break
                inside = inside.func.value
    return found


def made(node: ast.AST) -> Iterator[ast.Call]:
    """The calls that make a tensor without a device."""
    return (
        call
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in MAKES
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "torch"
        and not any(keyword.arg in ("device", None) for keyword in call.keywords)
    )
