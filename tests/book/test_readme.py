"""What the README shows is what happens, and what it points at is there."""

import contextlib
import io
import re
import struct
from pathlib import Path

import pytest
import yaml
from PIL import Image

KINDS = ("python", "text")


@pytest.fixture(scope="module")
def readme(root):
    return (root / "README.md").read_text("utf-8")


def test_its_code_prints_what_stands_below_it(readme):
    code, output = (re.findall(rf"```{kind}\n(.*?)```", readme, re.DOTALL) for kind in KINDS)
    assert len(code) == len(output) == 1
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code[0], {})
    assert printed.getvalue() == output[0]


def test_every_chapter_opens_on_colab_by_its_name(readme, root):
    rows = re.findall(
        r"^\| \[(.+?)\]\(https://colab\S*/(book/\S+\.ipynb)\) \|", readme, re.MULTILINE
    )
    assert [path for _, path in rows] == sorted(
        path.relative_to(root).as_posix()
        for path in root.glob("book/[0-9][0-9]-*.ipynb")
        if "deeper" not in path.name
    )
    assert [name.split(".")[0] for name, _ in rows] == [str(n + 1) for n in range(len(rows))]


def test_its_links_lead_somewhere(readme, root):
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", readme)
    assert len(links) > 10
    assert not [link for link in links if not (root / link).exists()]


def test_every_folder_of_the_repository_is_on_its_map(readme, root):
    folders = {path.name for path in root.iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert {folder for folder in folders if f"[{folder}/" in readme or folder == "src"} == folders


def test_its_picture_is_wide_and_shows_all_chapters(root):
    """`make picture` writes into the file which chapters it saw in the page's margin."""
    png = (root / ".github" / "book.png").read_bytes()
    width, height = struct.unpack(">II", png[16:24])
    assert width >= 1.5 * height and len(png) < 500_000
    toc = re.findall(r"file: book/(\d\d-\S+)", (root / "_toc.yml").read_text("utf-8"))
    chapters = [name for name in toc if "deeper" not in name]
    assert b"chapters\0" + " ".join(chapters).encode() in png
    with Image.open(root / ".github" / "book.png") as picture:
        named = picture.text["pages"].split()
    parts = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))["parts"]
    top = [Path(page["file"]).name for part in parts for page in part["chapters"]]
    assert set(top) <= set(named), "not the whole margin: make picture"


def test_its_numbers_are_those_of_the_stored_runs(readme, script):
    tool = script("tools/readme.py")
    (table,) = tool.BETWEEN.findall(readme)
    assert table == tool.table(), "run tools/readme.py"


def test_a_number_that_is_another_is_another_in_the_readme(script, monkeypatch):
    tool = script("tools/readme.py")
    card = tool.stored(tool.MODEL)
    card["nats_per_byte"]["shakespeare"] = 9.87
    monkeypatch.setattr(tool, "stored", lambda path: card)
    assert "plays 9.87" in tool.model()[1]
