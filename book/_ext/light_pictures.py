"""Pictures of the built site as WebP: every dot as it was, a third fewer bytes.

What a notebook stores stays a PNG. A plot or a drawing becomes lossless WebP; a photograph, which
is what has more than `FEW` colours, WebP of quality 95 with as many dots. `_images` keeps a PNG
only where a WebP would be heavier.
"""

import os
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from PIL import Image
from sphinx.application import Sphinx

# An address of a picture: where it is shown, and the link to it alone.
ADDRESS = re.compile(r'\b((?:src|href)=")([^"]+/|)([^"/]+)\.png(")')
FEW = 4096


def lighter(source: Path, target: Path) -> bool:
    """Write a PNG as WebP, or nothing if that is no gain; whether it was."""
    with Image.open(source) as image:
        solid = image.mode not in ("RGBA", "LA") and "transparency" not in image.info
        solid = solid or (image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255))
        plain = image.convert("RGB" if solid else "RGBA")
        lossless = plain.getcolors(FEW) is not None
        draft = target.with_suffix(f".{os.getpid()}.draft")
        plain.save(draft, "WEBP", lossless=lossless, quality=80 if lossless else 95, method=4)
    if draft.stat().st_size >= source.stat().st_size:
        draft.unlink()
        return False
    os.replace(draft, target)
    return True


def convert(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Let the page's pictures be their WebP."""
    if doctree is None or "body" not in context:
        return
    sources = {name: Path(app.srcdir, path) for path, name in app.builder.images.items()}
    folder = Path(app.outdir, app.builder.imagedir)
    folder.mkdir(parents=True, exist_ok=True)

    def converted(tag: re.Match[str]) -> str:
        source, target = sources.get(f"{tag[3]}.png"), folder / f"{tag[3]}.webp"
        if source is None:
            return tag[0]
        fresh = target.exists() and target.stat().st_mtime >= source.stat().st_mtime
        if not fresh and not lighter(source, target):
            return tag[0]
        return f"{tag[1]}{tag[2]}{tag[3]}.webp{tag[4]}"

    context["body"] = ADDRESS.sub(converted, context["body"])


def tidy(app: Sphinx, error: Exception | None) -> None:
    """The copies that Sphinx made of pictures that are there as WebP."""
    if error or app.builder.format != "html":
        return
    for picture in Path(app.outdir, app.builder.imagedir).glob("*.webp"):
        picture.with_suffix(".png").unlink(missing_ok=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    return {"parallel_read_safe": True, "parallel_write_safe": True}
