"""What Jupyter Book leaves open: nothing from other hosts, light pages, links to Colab."""

import gc
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfile
from typing import Any

from docutils import nodes
from pybtex.plugin import find_plugin, register_plugin
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import ReferenceRole

# What a page with TeX can ask for: the renderer in its parts, its fonts, TeX extensions loaded by
# name, and, when somebody asks for it (page.js), the menu with the spoken form of a formula.
MATHJAX = (
    "startup.js",
    "core.js",
    "input/tex.js",
    "output/chtml.js",
    "output/chtml/fonts/tex.js",
    "output/chtml/fonts/woff-v2/*.woff",
    "ui/menu.js",
    "input/tex/extensions/*.js",
    "input/mml.js",  # the spoken form is made of MathML
    "input/mml/*.js",
    "a11y/*.js",
    "sre/mathmaps/base.json",
    "sre/mathmaps/en.json",
)


class Colab(ReferenceRole):
    """{colab}`words <01-name>`: opens that notebook on Colab; its address is in `_config.yml`.

    A chapter goes by its name alone, other notebooks by their path in the repository.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        theme = self.config.html_theme_options
        repository = theme["repository_url"].removeprefix("https://github.com/")
        path = self.target if "/" in self.target else f"book/{self.target}"
        notebook = f"{theme['repository_branch']}/{path}.ipynb"
        address = f"{theme['launch_buttons']['colab_url']}/github/{repository}/blob/{notebook}"
        return [nodes.reference(self.rawtext, self.title, refuri=address)], []


def copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    """Copy the needed part of MathJax (4 MB of 24) from its package into `_static/mathjax`.

    Not through `html_static_path`: every script found there is added to every page.
    """
    if error or app.builder.format != "html":
        return
    package = find_spec("sphinx-mathjax-offline")
    if package is None or package.origin is None:
        raise ExtensionError(
            "the site needs the package sphinx-mathjax-offline: pip install sphinx-mathjax-offline"
        )
    source = Path(package.origin).parent / "static/mathjax"
    for pattern in MATHJAX:
        for file in source.glob(pattern):
            target = Path(app.outdir, "_static/mathjax", file.relative_to(source))
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                copyfile(file, target)


def keep_plain_text() -> None:
    """Each citation asks for this plugin anew, which reads the metadata of all packages: 10 s."""
    group, name = "pybtex.backends", "plaintext"
    register_plugin(group, name, find_plugin(group, name), force=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    import pipeline  # names this module, too

    keep_plain_text()
    gc.set_threshold(100_000, 20, 50)  # pages are trees of small objects: a third of the seconds
    app.add_role("colab", Colab())
    pipeline.connect(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
