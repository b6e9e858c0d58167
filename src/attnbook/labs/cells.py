"""What of a submitted notebook belongs to one question. Runs in the sandbox; standard library only.

Nothing is expected of metadata, cell ids or the order of cells. A function is found by its name,
and with it go only the statements it needs: imports, and what binds or changes a name that is
used. So an endless loop in one cell is nobody's business but its own.
"""

import ast
import json
import re

HEADING = r"^#+ *Question {0}\b.*$"
MAGIC = re.compile(r"^(\s*)([%!].*|.*\?\s*)$", re.MULTILINE)


def read(raw):
    """The cells as pairs (type, text). Whatever JSON it is, what looks like a cell is taken."""
    text = (
        raw.decode("utf-8-sig", errors="strict") if b"\0" not in raw[:4] else raw.decode("utf-16")
    )
    notebook = json.loads(text)
    cells = notebook.get("cells")
    if cells is None:  # format 3
        cells = [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
    pairs = []
    for cell in cells:
        source = cell.get("source", cell.get("input", ""))
        source = "".join(source) if isinstance(source, list) else str(source)
        pairs.append((cell.get("cell_type", "code"), source))
    return pairs


def statements(pairs):
    """All statements of all code cells that are Python, and what was wrong with the others."""
    found, wrong = [], []
    for kind, source in pairs:
        if kind != "code":
            continue
        try:
            found += parsed(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            wrong.append((source, f"{type(error).__name__}: {error}"))
    return found, wrong


def parsed(source):
    if re.match(r"\s*%%(?!time)", source):
        return []
    try:
        return ast.parse(source).body
    except SyntaxError:
        return ast.parse(MAGIC.sub(r"\1pass", source)).body


def needed(tree, name):
    """The statements that the function `name` needs, itself included, in their order."""
    tree = [s for s in tree if not is_stub(s) or not others(tree, s)]
    bound = [touches(statement) for statement in tree]
    wanted, chosen = {name}, set()
    while True:
        new = {
            n
            for n, statement in enumerate(tree)
            if n not in chosen and (bound[n] & wanted or is_general(statement))
        }
        if not new:
            return [tree[n] for n in sorted(chosen)]
        chosen |= new
        for n in new:
            wanted |= uses(tree[n])


def is_general(statement):
    """Imports of a module's names count always: `from math import *` binds one cannot see."""
    return isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"


def only_shows(text):
    """Of a statement that the lab hands out: does it show something, and define nothing?"""
    return isinstance(ast.parse(text).body[0], ast.Expr | ast.If | ast.For | ast.While | ast.With)


def is_stub(statement):
    """A function whose body is `...`, after a docstring perhaps."""
    if not isinstance(statement, ast.FunctionDef):
        return False
    values = [getattr(part, "value", None) for part in statement.body]
    return all(isinstance(v, ast.Constant) and isinstance(v.value, str | type(...)) for v in values)


def others(tree, stub):
    """Is a function of that name written somewhere else?"""
    return any(stub.name in binds(s) and not is_stub(s) for s in tree)


def binds(statement):
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


def touches(statement):
    """`binds`, and names whose object it changes: `table["a"] = 1`, `torch.manual_seed(0)`."""
    names = binds(statement)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return names
    for node in walk(statement):
        inside = isinstance(node, ast.Attribute | ast.Subscript)
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if (inside and not isinstance(node.ctx, ast.Load)) or called:
            names |= {base(node.func if called else node)}
    return names - {None}


def walk(statement):
    """A statement and all that is in it, but for the inside of functions and classes."""
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
                waiting.append(child)


def base(node):
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def uses(statement):
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def mentions(statements):
    """Names that the statements take out of a module or object, as softmax in `F.softmax`."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def signed(statements):
    """The names of students whose copy the notebook says it is: `check_for("ada")`."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    calls = [node for node in nodes if isinstance(node, ast.Call) and len(node.args) == 1]
    names = [call.args[0] for call in calls if getattr(call.func, "id", "") == "check_for"]
    texts = [name.value for name in names if isinstance(name, ast.Constant)]
    return list(dict.fromkeys(text[:60] for text in texts if isinstance(text, str)))


def why_missing(tree, wrong, name):
    """A sentence when a notebook has no function of this name."""
    pattern = re.compile(rf"\bdef\s+{re.escape(name)}\b|^{re.escape(name)}\s*=", re.MULTILINE)
    for source, error in wrong:
        if pattern.search(source):
            return f"the cell that defines {name} is not Python: {error}"
    return f"no cell defines {name}."


def answer(pairs, number):
    """The text written below a question's heading, up to the next heading; None without one."""
    here, lines = False, None
    for kind, source in pairs:
        if re.search(HEADING.format(number), source, re.MULTILINE) and kind != "code":
            here, lines = True, [] if lines is None else lines
            source = re.split(HEADING.format(number), source, maxsplit=1, flags=re.MULTILINE)[1]
        elif re.search(r"^#+ ", source, re.MULTILINE) and kind != "code":
            here = False
        if here:
            lines.append(source)
    return None if lines is None else "\n\n".join(lines)
