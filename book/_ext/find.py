"""Finding things: index, search, glossary; and what leads people here."""

from pathlib import Path
from shutil import copyfile
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

HERE = Path(__file__).parent
TEMPLATES = "book/_templates"


def use_templates(app: Sphinx, config: Config) -> None:
    if TEMPLATES not in config.templates_path:
        config.templates_path.append(TEMPLATES)


def copy_scripts(app: Sphinx, error: Exception | None) -> None:
    """Scripts that a page asks for when it needs them: what lies in `_static` is on every page."""
    if error or app.builder.format != "html":
        return
    target = Path(app.outdir, "_static/find")
    target.mkdir(parents=True, exist_ok=True)
    for script in (HERE / "scripts").iterdir():
        copyfile(script, target / script.name)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_css_file("find.css")
    app.add_js_file("find.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
