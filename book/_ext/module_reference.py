"""The module reference, read from the source as text: the website's environment has no torch.

    ```{module-entries}
    attnbook.attention
    ```

becomes a section: what the module's docstring says, one line for each definition, then each
definition with its signature, docstring and a link to its source. Its anchor is its full name.
A definition without a docstring is an inner matter of its file and left out, except that
`forward` always says which shapes a part takes and returns.
"""

import ast
import copy
import re
import zlib
from collections.abc import Collection, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
SOURCE = Path(__file__).parents[2] / "src"
PACKAGES = ("attnbook", "bookkit", "attnlabs")
DEFINITIONS = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
LONG = ast.Starred, ast.JoinedStr, ast.comprehension, ast.Lambda
MARKS = {"classmethod", "staticmethod"}


class Module:
    """One file of the package: its tree, and what the names in it stand for."""

    def __init__(self, name: str) -> None:
        path = SOURCE / name.replace(".", "/")
        self.path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        self.name, self.tree = name, ast.parse(self.path.read_text("utf-8"))
        self.doc = ast.get_docstring(self.tree) or ""
        self.definitions = [node for node in self.tree.body if is_documented(node)]
        self.names = {node.name: f"{name}.{node.name}" for node in self.definitions}
        for node in self.tree.body:
            if (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").partition(".")[0] in PACKAGES
            ):
                for alias in node.names:
                    self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def full_name(self, name: str) -> str | None:
        """The definition that a name means in this file, such as `Block.forward`, or None."""
        first, *rest = name.split(".")
        full = ".".join([self.names.get(first, ""), *rest])
        return full if full in everything() else None


@cache
def module(name: str, _stamp: int) -> Module:
    return Module(name)


def read(name: str) -> Module:
    """The module of that name, read anew when its file has changed."""
    path = SOURCE / name.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return module(name, path.stat().st_mtime_ns)


def modules() -> Iterator[str]:
    """The names of all modules that hold something."""
    for path in sorted(p for name in PACKAGES for p in SOURCE.glob(f"{name}/**/*.py")):
        if path.name == "__main__.py" or not path.stat().st_size:
            continue
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def named(lines: list[str]) -> Iterator[str]:
    """The modules that a directive asks for; `attnbook.data.*` means all in that folder."""
    for name in " ".join(lines).split():
        found = [each for each in modules() if fnmatch(each, name)]
        if not found:
            raise ExtensionError(f"there is no module {name}")
        yield from found


@cache
def everything() -> set[str]:
    """The full names of all definitions that have an entry; each build asks once."""
    found = set()
    for name in modules():
        for node in read(name).definitions:
            found.add(f"{name}.{node.name}")
            found.update(f"{name}.{node.name}.{method.name}" for method in methods(node))
    return found


def is_documented(node: ast.AST) -> TypeGuard[Definition]:
    """Whether a definition is for others to use."""
    return (
        isinstance(node, DEFINITIONS)
        and not node.name.startswith("_")
        and (ast.get_docstring(node) is not None or node.name == "forward")
    )


def methods(node: Definition) -> list[Definition]:
    """What a class has of its own to be called from outside."""
    body = node.body if isinstance(node, ast.ClassDef) else ()
    return [part for part in body if is_documented(part)]


def marks(node: Definition) -> set[str]:
    """The last words of a definition's decorators: {"dataclass", "property", …}."""
    calls = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    return {ast.unparse(name).split(".")[-1] for name in calls}


def arguments(node: Function) -> str:
    """The arguments in one line; a default that is not plain becomes `...`."""
    args = copy.deepcopy(node.args)
    args.defaults = [ast.Constant(...) if is_long(value) else value for value in args.defaults]
    args.kw_defaults = [ast.Constant(...) if is_long(v) else v for v in args.kw_defaults]
    return f"({ast.unparse(args)})"


def is_long(value: ast.expr | None) -> bool:
    return value is not None and any(isinstance(part, LONG) for part in ast.walk(value))


def signature(node: Definition) -> str:
    """The arguments and what is returned, as they would be written in one line."""
    if not isinstance(node, ast.ClassDef):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{arguments(node)}{returns}"
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    start = [part for part in methods if part.name == "__init__"]
    if start:
        return arguments(start[0])
    if "dataclass" in marks(node) or any(ast.unparse(base) == "NamedTuple" for base in node.bases):
        return (
            f"({', '.join(field(part) for part in node.body if isinstance(part, ast.AnnAssign))})"
        )
    return ""


def field(part: ast.AnnAssign) -> str:
    value = "" if part.value is None else f" = {ast.unparse(part.value)}"
    value = re.sub(r" = field\(default_factory=(list|dict)\)", r" = \1()", value)
    return f"{ast.unparse(part.target)}: {ast.unparse(part.annotation)}{value}"


def without_self(text: str) -> str:
    return re.sub(r"^\((self|cls)(, /)?(, |\))", lambda m: "(" + m[3].strip(", "), text)


def markup(name: str, node: Definition, outer: str = "") -> list[str]:
    """A definition and its methods in the words of Sphinx's Python domain, without docstrings."""
    kind, options = "function", [f":module: {name}"]
    text = signature(node)
    if isinstance(node, ast.ClassDef):
        kind, text = "class", without_self(text)
    elif outer:
        kind = "property" if marks(node) & {"property", "cached_property"} else "method"
        options += [f":{mark}:" for mark in sorted(MARKS & marks(node))]
        text = text if "staticmethod" in marks(node) else without_self(text)
    if kind == "property":
        text, returns = "", text.partition(" -> ")[2]
        options += [f":type: {returns}"] * bool(returns)
    inside = [line for part in methods(node) for line in markup(name, part, f"{node.name}.")]
    fence = "```" if outer else "````"
    return [f"{fence}{{py:{kind}}} {outer}{node.name}{text}", *options, "", *inside, fence, ""]


def paragraphs(doc: str, home: Module, mine: Collection[str] = ()) -> Iterator[nodes.Node]:
    """A docstring's paragraphs; what is indented is code, what stands in `backticks` a name."""
    for part in re.split(r"\n\s*\n", doc.strip()):
        if part.startswith("    "):
            code = "\n".join(line.removeprefix("    ") for line in part.split("\n"))
            yield nodes.literal_block(code, code, language="text")
        elif part:
            yield nodes.paragraph("", "", *words(" ".join(part.split()), home, mine))


def words(text: str, home: Module, mine: Collection[str] = ()) -> Iterator[nodes.Node]:
    """Text in which names stand in `backticks`; those that have an entry become links to it."""
    for index, part in enumerate(text.split("`")):
        if index % 2 == 0:
            yield nodes.Text(part)
            continue
        target = None if part in mine else home.full_name(part)
        yield link(target, nodes.literal(part, part)) if target else nodes.literal(part, part)


def link(target: str, *children: nodes.Node) -> addnodes.pending_xref:
    """A reference to a definition's entry; the build fails if there is none."""
    options = {"refdomain": "py", "reftype": "obj", "reftarget": target, "refexplicit": True}
    return addnodes.pending_xref("", *children, **options, refwarn=True)


def summary(doc: str, home: Module) -> Iterator[nodes.Node]:
    """The first sentence of a docstring, for a list."""
    first = doc.strip().split("\n\n")[0]
    return words(re.split(r"(?<=[.?])\s", " ".join(first.split()))[0], home)


def line_of(target: str, text: str, doc: str, home: Module) -> nodes.list_item:
    name = link(target, nodes.literal(text, text)) if "." in target else nodes.literal(text, text)
    return nodes.list_item("", nodes.paragraph("", "", name, nodes.Text(": "), *summary(doc, home)))


def source_link(config: Config, home: Module, node: Definition) -> nodes.paragraph:
    """A link to the lines of a definition in the repository."""
    theme = config.html_theme_options
    path = home.path.relative_to(SOURCE.parent).as_posix()
    address = f"{theme['repository_url']}/blob/{theme['repository_branch']}/{path}"
    address = f"{address}#L{first_line(node)}-L{node.end_lineno}"
    text = f"{home.path.name}, line {first_line(node)}"
    return nodes.paragraph("", "", nodes.reference(text, text, refuri=address), classes=["source"])


def first_line(node: Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


class ModuleEntries(SphinxDirective):
    """{module-entries}: all that the reference says of the files it names."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        return [self.section(read(name)) for name in named(self.content)]

    def section(self, home: Module) -> nodes.section:
        self.env.note_dependency(str(home.path))
        title = nodes.title("", home.name)
        section = nodes.section("", title, ids=[home.name], names=[home.name])
        self.state.document.note_explicit_target(section)
        section += paragraphs(home.doc, home)
        rows = [
            line_of(f"{home.name}.{node.name}", node.name, ast.get_docstring(node) or "", home)
            for node in home.definitions
        ]
        section += nodes.bullet_list("", *rows, bullet="-") if rows else []
        for node in home.definitions:
            section += self.entry(home, node)
        return section

    def entry(self, home: Module, node: Definition) -> list[nodes.Node]:
        """A definition and its methods."""
        holder = nodes.Element()
        text = StringList(markup(home.name, node), source=str(home.path))
        self.state.nested_parse(text, self.content_offset, holder)
        parts = {f"{home.name}.{node.name}": node}
        parts |= {f"{home.name}.{node.name}.{part.name}": part for part in methods(node)}
        for entry in holder.findall(addnodes.desc):
            head, body = entry.children[0], entry.children[-1]
            part = parts[head["ids"][0]]
            said = paragraphs(ast.get_docstring(part) or "", home, parameters(part))
            body[:0] = [*said, *bases(home, part), source_link(self.config, home, part)]
            polish(head, home)
        return holder.children


def parameters(node: Definition) -> set[str]:
    """The names of a definition's parameters, of a class those of its `__init__`."""
    made = [part for part in getattr(node, "body", ()) if getattr(part, "name", "") == "__init__"]
    arguments = [part.args for part in (node, *made) if hasattr(part, "args")]
    return {each.arg for args in arguments for each in ast.walk(args) if isinstance(each, ast.arg)}


def bases(home: Module, node: Definition) -> Iterator[nodes.Node]:
    """A sentence that says which of our classes a class is a kind of."""
    known = [home.full_name(ast.unparse(base)) for base in getattr(node, "bases", ())]
    for name in filter(None, known):
        text = nodes.literal("", name.split(".")[-1])
        yield nodes.paragraph("", "", nodes.Text("A kind of "), link(name, text), nodes.Text("."))


def polish(head: nodes.Element, home: Module) -> None:
    """In a signature: our own types are links, shapes stand in the quotes that the source has."""
    for text in list(head.findall(addnodes.desc_sig_literal_string)):
        quoted = nodes.Text(re.sub(r"^'([^\"]*)'$", r'"\1"', text.astext()))
        text.replace_self(nodes.inline("", "", quoted, classes=["s"], support_smartquotes=False))
    for reference in list(head.findall(addnodes.pending_xref)):
        target = home.full_name(reference["reftarget"])
        text = nodes.Text(reference.astext())
        reference.replace_self(link(target, text) if target else text)


class ModuleList(SphinxDirective):
    """{module-list}: one line for each module it names, linked to its section."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        rows = []
        for name in named(self.content):
            home = read(name)
            self.env.note_dependency(str(home.path))
            options = {"refdomain": "std", "reftype": "ref", "reftarget": name}
            text = nodes.literal(name, name)
            name = addnodes.pending_xref("", text, **options, refexplicit=True, refwarn=True)
            line = nodes.paragraph("", "", name, nodes.Text(": "), *summary(home.doc, home))
            rows.append(nodes.list_item("", line))
        return [nodes.bullet_list("", *rows, bullet="-")]


def link_listings(app: Sphinx, doctree: nodes.document) -> None:
    """The full name above a listing made by `show` becomes a link to its entry."""
    for strong in list(doctree.findall(nodes.strong)):
        name = strong.astext()
        if strong.parent.astext() == name and re.fullmatch(
            r"(attnbook|bookkit|attnlabs)(\.\w+)+", name
        ):
            strong.replace_self(nodes.strong("", "", link(name, *strong.children)))


def lines_without_list(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document
) -> None:
    """Sphinx makes parameters, one per line, a list of descriptions without terms: undo that."""
    lines = re.compile(r'(<span class="sig-paren">\(</span>\s*)<dl>(.*?)</dl>', re.DOTALL)
    context["body"] = lines.sub(as_lines, context.get("body", ""))


def as_lines(match: re.Match[str]) -> str:
    inside = match[2].replace("<dd>", '<span class="parameter">').replace("</dd>", "</span>")
    return f"{match[1]}{inside}"


def forget(*_: object) -> None:
    """Files may have changed since the last build in this process."""
    everything.cache_clear()


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("module-entries", ModuleEntries)
    app.add_directive("module-list", ModuleList)
    # What was read before this file changed, or a module came or went, is read again.
    version = zlib.crc32(Path(__file__).read_bytes() + " ".join(modules()).encode())
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": version}
