"""The boxes of a chapter: predict, answer, result, summary, pitfall, deeper, history.

    :::{predict}
    **Predict.** What does the verb fetch?

    - the same twice
    - two different vectors
    :::

A list at its end becomes radio buttons. A comment `<!-- right: 2 -->` at the head of the answer,
which no reader of the notebook sees, says which of them it is, and the page says so to whoever has
chosen; without it the page only remembers. The code cells with the tag `answer` and the boxes
`answer` that follow directly are moved into the box, under "Compare". JupyterLab and Colab show
the text of such a directive as it is: so each begins with a bold word, which here becomes the
box's title.
"""

import re
from typing import Any, ClassVar

from cell_folds import fold, summary
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective, SphinxTranslator

RIGHT = re.compile(r"\s*<!--\s*right:\s*(\d+)\s*-->\s*")


class box(nodes.General, nodes.Element):
    """An `<aside>` with a title."""


class choices(nodes.General, nodes.Element):
    """Radio buttons; its children are of the class `choice`."""


class choice(nodes.Part, nodes.TextElement):
    """One of them."""


class shortly(nodes.General, nodes.Element):
    """Where the page's results are said once more."""


class Box(SphinxDirective):
    """A box of the kind that the directive is called; `:name:` makes it a target."""

    has_content = True
    option_spec: ClassVar = {"name": directives.unchanged, "class": directives.class_option}

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        node = box("", kind=self.name, classes=["box", self.name, *self.options.get("class", [])])
        self.set_source_info(node)
        self.add_name(node)
        node += nodes.paragraph("", self.name.capitalize(), classes=["box-title"])
        self.state.nested_parse(self.content, self.content_offset, node)
        drop_bold_title(node, self.name)
        return [node]


def drop_bold_title(node: nodes.Element, name: str) -> None:
    """Take away the bold word at the beginning that is there for those who read the source."""
    first = next((n for n in node.children[1:] if isinstance(n, nodes.paragraph)), None)
    if first is None:
        return
    inside = said(first)
    if not inside or not isinstance(inside[0], nodes.strong):
        return
    if inside[0].astext().strip(" .:").lower() == name:
        rest = inside[1:]
        if rest and isinstance(rest[0], nodes.Text):
            rest[0] = nodes.Text(rest[0].lstrip(" .:\n"))
        first[:] = rest


def said(paragraph: nodes.Element) -> list[nodes.Node]:
    """What a paragraph holds, without the empty texts that the parser puts around markup."""
    return [n for n in paragraph.children if not isinstance(n, nodes.Text) or n.astext()]


class Predict(Box):
    def run(self) -> list[nodes.Node]:
        (node,) = super().run()
        last = node.children[-1]
        if isinstance(last, nodes.bullet_list):
            if not 2 <= len(last) <= 4:
                raise self.error(f"a prediction offers two to four choices, not {len(last)}")
            name = f"predict-{self.env.new_serialno('predict')}"
            holder = choices("", name=name)
            for item in last:
                inside = [n for part in item for n in said(part)]  # of its paragraphs
                holder += choice("", "", *inside)
            node.replace(last, holder)
        return [node]


class Deeper(SphinxDirective):
    """{deeper} one line that teases: folded; `:minutes: 5` says how long it takes."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = {
        "name": directives.unchanged,
        "minutes": directives.positive_int,
    }

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        node = fold("", classes=["fold", "box", "deeper"])
        self.set_source_info(node)
        self.add_name(node)
        words, messages = self.state.inline_text(self.arguments[0], self.lineno)
        head = summary("", "", nodes.inline("", "Deeper", classes=["box-title"]), nodes.Text(" "))
        head += words
        if "minutes" in self.options:
            minutes = f"{self.options['minutes']} min"
            head += [nodes.Text(" "), nodes.inline("", minutes, classes=["minutes"])]
        node += head
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node, *messages]


class Summary(SphinxDirective):
    """{summary}: the first sentence or two of each result box of the page, linked to it."""

    has_content = True  # a sentence for those who read the source

    def run(self) -> list[nodes.Node]:
        node = shortly("")
        self.set_source_info(node)
        return [node]


def gather(app: Sphinx, doctree: nodes.document) -> None:
    """Give each prediction its answer, and each summary the results."""
    for node in list(doctree.findall(box)):
        if node["kind"] == "predict":
            take_answer(node)
    for node in list(doctree.findall(box)):
        if node["kind"] == "answer" and not isinstance(node.parent, fold):
            raise ExtensionError(f"{place(node)}: an answer follows a prediction, or its cells")
    results = [node for node in doctree.findall(box) if node["kind"] == "result"]
    for node in list(doctree.findall(shortly)):
        if not results:
            raise ExtensionError(f"{place(node)}: a summary needs result boxes, here are none")
        node.replace_self(repeated(results, doctree))


def place(node: nodes.Element) -> str:
    return f"{node.source or 'somewhere'}:{node.line or 0}"


def take_answer(node: nodes.Element) -> None:
    """Move what follows and is an answer under "Compare"."""
    siblings = node.parent.children
    after = siblings[siblings.index(node) + 1 :]
    answer = fold("", classes=["fold", "compare"])
    answer += summary("", "Compare")
    for each in after:
        if not is_answer(each):
            break
        each.parent.remove(each)
        answer += each
    if len(answer.children) > 1:
        node += answer
    mark_right(node, answer)


def mark_right(node: nodes.Element, answer: nodes.Element) -> None:
    """Mark the choice that the answer's comment says is right."""
    said = [(raw, RIGHT.fullmatch(raw.astext())) for raw in answer.findall(nodes.raw)]
    found = [(raw, int(match[1])) for raw, match in said if match]
    offered = list(node.findall(choice))
    for raw, number in found:
        if len(found) > 1 or not 1 <= number <= len(offered):
            raise ExtensionError(f"{place(node)}: right is one of {len(offered)}, not {number}")
        offered[number - 1]["right"] = True
        raw.parent.remove(raw)


def is_answer(node: nodes.Element) -> bool:
    if isinstance(node, box):
        return node["kind"] == "answer"
    return "tag_answer" in node.get("classes", []) if isinstance(node, nodes.container) else False


def repeated(results: list[nodes.Node], doctree: nodes.document) -> list[nodes.Node]:
    """A list of the results; a link in each leads to its box."""
    found = nodes.bullet_list("", bullet="-", classes=["summary"])
    for result in results:
        if not result["ids"]:
            doctree.set_id(result)
        texts = [n for n in result.children[1:] if isinstance(n, nodes.paragraph)]
        line = nodes.paragraph("", "", *[part.deepcopy() for part in texts[0].children])
        link = nodes.reference("", "↑", refid=result["ids"][0], internal=True, classes=["back"])
        link["reftitle"] = "where this is shown"
        line += [nodes.Text(" "), link]
        found += nodes.list_item("", line)
    return found


def visit_box(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append(self.starttag(node, "aside" if node["kind"] == "history" else "div"))


def depart_box(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append("</aside>\n" if node["kind"] == "history" else "</div>\n")


def visit_choices(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append('<fieldset class="choices"><legend class="visually-hidden">Choices</legend>\n')


def depart_choices(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append("</fieldset>\n")


def visit_choice(self: SphinxTranslator, node: nodes.Element) -> None:
    name, right = node.parent["name"], ' data-right=""' if node.get("right") else ""
    self.body.append(f'<label{right}><input type="radio" name="{name}"/><span>')


def depart_choice(self: SphinxTranslator, node: nodes.Element) -> None:
    self.body.append("</span></label>\n")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    for kind in ("answer", "result", "pitfall", "history"):
        app.add_directive(kind, Box)
    app.add_directive("predict", Predict)
    app.add_directive("deeper", Deeper)
    app.add_directive("summary", Summary)
    app.add_node(box, html=(visit_box, depart_box))
    app.add_node(choices, html=(visit_choices, depart_choices))
    app.add_node(choice, html=(visit_choice, depart_choice))
    app.add_node(shortly)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}
