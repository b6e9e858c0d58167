"""Take the README's picture of the book, from the website as it was built: `make picture`."""

import io
import math
import os
import re
import shutil
import sys
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Locator, sync_playwright

PAGE = Path("_build/html/book/03-queries-keys-values.html")
PICTURE = Path(".github/book.png")
NAMES = ("chromium", "chromium-browser", "google-chrome")
LINKS = "nav.bd-links a.internal"


TALL = "document.querySelector('.bd-sidebar-primary').scrollHeight"


def taken(program: str, width: int = 1600, height: int = 980) -> tuple[bytes, list[str]]:
    """The page on a screen as high as its margin, and the pages that its margin names."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="light"
        )
        page = context.new_page()
        page.goto(PAGE.resolve().as_uri())
        page.wait_for_load_state("networkidle")
        height = max(height, page.evaluate(TALL))
        page.set_viewport_size({"width": max(width, math.ceil(1.5 * height)), "height": height})
        page.wait_for_timeout(500)
        links = [link.get_attribute("href") for link in page.locator(LINKS).all() if visible(link)]
        png = page.screenshot()
        browser.close()
    names = [Path(link).stem or PAGE.stem for link in links if link is not None]
    names = [PAGE.stem if name == "#" else name for name in names]
    return png, names


def visible(link: Locator) -> bool:
    """Is the whole link on the screen?"""
    box, screen = link.bounding_box(), link.page.viewport_size
    if box is None or screen is None:
        return False
    return 0 <= box["y"] and box["y"] + box["height"] <= screen["height"]


def main() -> None:
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        sys.exit("make picture: there is no Chromium here; install one or name it in CHROMIUM")
    if not PAGE.exists():
        sys.exit(f"make picture: {PAGE} is missing; make book builds it")
    png, names = taken(program)
    chapters = [name for name in names if re.match(r"\d\d-(?!deeper)", name)]
    image = Image.open(io.BytesIO(png)).convert("P", palette=Image.Palette.ADAPTIVE, colors=256)
    told = PngInfo()
    told.add_text("chapters", " ".join(chapters))
    told.add_text("pages", " ".join(names))
    image.save(PICTURE, optimize=True, pnginfo=told)
    print(f"{PICTURE}: {image.width} × {image.height}, {len(names)} pages in the margin")


if __name__ == "__main__":
    main()
