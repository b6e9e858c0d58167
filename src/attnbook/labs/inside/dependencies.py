"""Which names a statement of a notebook gives a meaning to, changes, and uses."""

import ast
from collections.abc import Iterable, Iterator


def binds(statement: ast.AST) -> set[str]:
    """Names that a statement gives a meaning to, at the top level of the notebook."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    names = set()
    for node in walk(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return names


def touches(statement: ast.AST) -> set[str]:
    """`binds`, and names whose object it changes: `table["a"] = 1`, `torch.manual_seed(0)`."""
    names = binds(statement)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return names | sets(statement)
    for node in walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names |= {base(node.func)}
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            names |= {base(node)}
    return names - {""}


def sets(function: ast.AST) -> set[str]:
    """Names that a function sets outside of itself, by `global`."""
    found = [node.names for node in ast.walk(function) if isinstance(node, ast.Global)]
    return set().union(*found)


def called(statement: ast.AST) -> set[str]:
    """Names of functions that run when the statement does."""
    calls = [node for node in walk(statement) if isinstance(node, ast.Call)]
    return {getattr(call.func, "id", "") for call in calls}


def walk(statement: ast.AST) -> Iterator[ast.AST]:
    """A statement and all that is in it, but for the inside of functions and classes."""
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
                waiting.append(child)


def base(node: ast.AST) -> str:
    """The name that `a.b[0].c` begins with, or ""."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def uses(statement: ast.AST) -> set[str]:
    """All names in a statement."""
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def mentions(statements: Iterable[ast.AST]) -> set[str]:
    """Names that the statements take out of a module or object, as softmax in `F.softmax`."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
