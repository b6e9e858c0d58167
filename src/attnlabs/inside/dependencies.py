"""Which names a statement of a notebook gives a meaning to, changes, and uses."""

import ast
import re
import symtable
from collections.abc import Collection, Iterable
from functools import lru_cache

# What a call of a module's function leaves otherwise: `torch.manual_seed(0)`, `np.seterr(…)`
SETTING = re.compile(r"seed|^set|^use_|^enable|^disable|^register|filter$|filterwarnings$")
DEFINES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
LEAST = 6  # letters of a name that may stand in a longer one: conv2d in LazyConv2d
PLAIN = ast.Assign | ast.AugAssign | ast.Expr | ast.expr
SCOPES = ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@lru_cache(maxsize=1 << 16)  # asked for each function of a notebook
def binds(statement: ast.AST) -> frozenset[str]:
    """Names that a statement gives a meaning to, at the top level of the notebook."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset({statement.name})
    names = set()
    for node in walk(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return frozenset(names)


def touches(statement: ast.AST, modules: Collection[str] = ()) -> set[str]:
    """`binds`, and names whose object it changes: `table["a"] = 1`, `table.append(1)`.

    A call of a function out of `modules` is no change of the module, unless it sets something, as
    `torch.manual_seed(0)` does; of its arguments it changes what `random.shuffle(words)` does.
    """
    names = set(binds(statement))
    if isinstance(statement, DEFINES):
        return names | sets(statement)
    for node in walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, what = base(node.func), node.func.attr
            names |= {owner} if owner not in modules or SETTING.search(what) else set()
            if owner in modules and (what.endswith("_") or what == "shuffle"):
                names |= {base(argument) for argument in node.args}
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            names |= {base(node)}
    return names - {""}


def imported(statements: Iterable[ast.AST]) -> set[str]:
    """Names that imports give: of modules, and of what is in them."""
    nodes = [node for statement in statements for node in walk(statement)]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return set().union(*map(binds, imports))


def sets(function: ast.AST) -> set[str]:
    """Names that a function sets outside of itself, by `global`."""
    found = [node.names for node in ast.walk(function) if isinstance(node, ast.Global)]
    return set().union(*found)


def called(statement: ast.AST) -> set[str]:
    """Names of functions that run when the statement does."""
    calls = [node for node in walk(statement) if isinstance(node, ast.Call)]
    return {getattr(call.func, "id", "") for call in calls}


@lru_cache(maxsize=1 << 16)  # asked several times for each statement of a notebook
def walk(statement: ast.AST) -> tuple[ast.AST, ...]:
    """A statement and all that is in it, but for the inside of functions and classes."""
    found, waiting = [], [statement]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return tuple(found)


def base(node: ast.AST) -> str:
    """The name that `a.b[0].c` begins with, or ""."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def uses(statement: ast.AST) -> set[str]:
    """Names of the notebook that a statement uses; what a function has for itself is none."""
    nodes = walk(statement) if isinstance(statement, PLAIN) else ()
    if nodes and not any(isinstance(node, SCOPES) for node in nodes):
        return {node.id for node in nodes if isinstance(node, ast.Name)}
    try:
        table = symtable.symtable(ast.unparse(statement), "notebook", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    names = {symbol.get_name() for symbol in table.get_symbols()}
    waiting = list(table.get_children())
    while waiting:
        inner = waiting.pop()
        names |= {symbol.get_name() for symbol in inner.get_symbols() if symbol.is_global()}
        waiting += inner.get_children()
    return names


def reached(statements: Iterable[ast.AST], name: str) -> set[str]:
    """What the function `name` stands on, by names; only definitions say so, and not what was
    tried out besides."""
    by_name: dict[str, list[ast.AST]] = {}
    for statement in statements:
        if isinstance(statement, DEFINES | ast.Assign | ast.AnnAssign):
            for bound in binds(statement):
                by_name.setdefault(bound, []).append(statement)
    found, waiting = {name}, [name]
    while waiting:
        about = by_name.get(waiting.pop(), [])
        definitions = [statement for statement in about if isinstance(statement, DEFINES)]
        new = set().union(*map(uses, definitions or about)) - found
        found |= new
        waiting += new
    return found - {name}


def breaks(statements: Iterable[ast.AST], name: str, banned: Collection[str]) -> set[str]:
    """Which rules are broken: a name that is ruled out is taken out of a module or object, or, by
    "x.flip", the function `name` calls that of its own argument x."""
    statements = list(statements)
    found = mentions(statements) & set(banned)
    taken = {bare(name) for name in of_libraries(statements)}
    long = {rule: bare(rule) for rule in banned if len(bare(rule)) >= LEAST}
    found |= {rule for rule, word in long.items() if any(word in name for name in taken)}
    for rule in (rule for rule in banned if "." in rule):
        owner, method = rule.split(".")
        own = [each for each in statements if isinstance(each, DEFINES) and each.name == name]
        nodes = [node for each in own for node in ast.walk(each) if isinstance(node, ast.Call)]
        calls = [node for node in nodes if getattr(node.func, "attr", "") == method]
        of = [(getattr(call.func, "value", None), *call.args[:1]) for call in calls]
        if any(getattr(one, "id", "") == owner for several in of for one in several):
            found.add(rule)
    return found


def of_libraries(statements: Iterable[ast.AST]) -> set[str]:
    """Names that are taken out of imported modules, and of torch under its usual names."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {"torch", "F", "nn"}.union(*map(binds, imports))
    names = {
        node.attr for node in nodes if isinstance(node, ast.Attribute) and base(node) in modules
    }
    froms = [node for node in imports if isinstance(node, ast.ImportFrom)]
    return names | {alias.name for node in froms for alias in node.names}


def bare(name: str) -> str:
    """A name by which a function, its module and its private form are the same: log_softmax,
    LogSoftmax and _log_softmax."""
    return name.replace("_", "").lower()


def mentions(statements: Iterable[ast.AST]) -> set[str]:
    """Names that the statements take out of a module or object, as softmax in `F.softmax`."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
