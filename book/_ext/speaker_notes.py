"""{notes}: what a lecturer says beside the slide before it; only *Present* shows it."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Notes(SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        self.assert_has_content()
        node = nodes.container("", classes=["notes"])
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("notes", Notes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
