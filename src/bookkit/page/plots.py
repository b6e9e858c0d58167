"""A plot as the page shows it: SVG with its text as text, in the drawings' colours, twice.

The first layout is the author's. In the second, for a phone, panels that stood side by side stand
below each other and letters keep their size. Colours of the palette are its roles, others get a
partner for the dark theme. What holds a photograph stays a picture of dots.
"""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, cast
from zlib import crc32

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.ticker import FixedLocator, NullFormatter

from bookkit.drawings import drawing
from bookkit.drawings.palette import LIGHT

PHOTO = 4_000  # pixels of a coloured image that is no drawing
CELLS = 900  # of a map: with more it is sent as dots
APART = 3.0  # points between two numbers at the ticks
NARROW = 4.1  # inches: at a phone's width ten points are eleven pixels and more
HOPELESS = 1_500_000  # bytes of what matplotlib writes for one, of which a third at best is left
HEAVY = 150_000  # bytes of both layouts: beyond, the cells of maps are dots, or all is
NIGHT = "html[data-theme=dark], html[theme=dark], body[data-jp-theme-light=false]"
STYLE = (
    f"{drawing.STYLE}.plot{{--d-day:100%;--d-grid:#dde1e6}}"
    ".drawing.plot text{text-anchor:start}"  # matplotlib's own, where it names none
    ".drawing.plot .wide{display:block}.drawing.plot .tall{display:none}"
    "@container (max-width:480px){.drawing.plot .wide{display:none}"
    ".drawing.plot .tall{display:block}}"
    f"@media screen{{:is({NIGHT}) .plot{{--d-day:0%;--d-grid:#333b46}}"
    f":is({NIGHT}) .plot .dots{{filter:invert(.93) hue-rotate(180deg)}}}}"
)
SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
ET.register_namespace("", SVG[1:-1])
ET.register_namespace("xlink", LINK[1:-5])
RC: Any = {"svg.fonttype": "none", "svg.hashsalt": "plot", "path.simplify_threshold": 0.25}
ROLES = {colour.lower(): f"var(--d-{role})" for role, colour in reversed(LIGHT.items())}
INK = {"#262626": "var(--d-ink)", "#222222": "var(--d-ink)", "#666666": "var(--d-muted)"}
INK |= {"#dddddd": "var(--d-grid)", "#000000": "var(--d-ink)", "#ffffff": "var(--d-paper)"}
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
INHERITED = {"stroke-linejoin": "round", "stroke-linecap": "square", "stroke-miterlimit": "100000"}


def html(figure: Figure) -> str | None:
    """The plot as HTML, or None where dots are better: photographs, and very many marks."""
    if is_photo(figure):
        return None
    found = layouts_of(figure, CELLS)
    maps = (mesh for ax in figure.axes for mesh in ax.collections if isinstance(mesh, QuadMesh))
    return found or (layouts_of(figure, 0) if any(maps) else None)


def layouts_of(figure: Figure, cells: int) -> str | None:
    """Both layouts, maps of more than so many cells as dots; None where they are too heavy."""
    with matplotlib.rc_context(RC), light(figure, cells):
        again(figure)
        with thinned(figure):
            layouts = {"wide": svg(figure)}
        if len(layouts["wide"]) > HOPELESS:
            return None
        with narrow(figure) as changed:
            if changed:
                with thinned(figure):
                    layouts["tall"] = svg(figure)
    name = f"p{crc32(layouts['wide'].encode()):08x}"
    looks = list(layouts) if len(layouts) > 1 else ["only"]
    parts = [
        small(text, look, f"{name}{look[0]}")
        for look, text in zip(looks, layouts.values(), strict=True)
    ]
    if sum(map(len, parts)) > HEAVY:
        return None
    return f'<div class="drawing plot"><style>{STYLE}</style>{"".join(parts)}</div>'


def is_photo(figure: Figure) -> bool:
    images = [image.get_array() for ax in figure.axes for image in ax.images]
    return any(
        image is not None and image.ndim == 3 and image.shape[0] * image.shape[1] > PHOTO
        for image in images
    )


def svg(figure: Figure) -> str:
    """What matplotlib writes, trimmed to what is drawn."""
    out = io.BytesIO()
    about = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(
        out, format="svg", bbox_inches="tight", pad_inches=0.02, transparent=True, metadata=about
    )
    return out.getvalue().decode()


@contextmanager
def light(figure: Figure, cells: int = CELLS) -> Iterator[None]:
    """Images by their own dots, maps of many cells as one; ticks that were set stand alone."""
    changed: list[tuple[Any, Any]] = []
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            if axis.get_scale() == "log" and isinstance(axis.get_major_locator(), FixedLocator):
                changed.append((axis.set_minor_formatter, axis.get_minor_formatter()))
                axis.set_minor_formatter(NullFormatter())
        for image in ax.images:
            if image.get_interpolation() in ("antialiased", "auto", "nearest", None):
                changed.append((image.set_interpolation, image.get_interpolation()))
                image.set_interpolation("none")
            shown, alpha = image.get_array(), cast(Any, image.get_alpha())
            if shown is not None and shown.ndim == 2 and np.ndim(alpha):
                changed.append((image.set_data, shown))
                image.set_data(image.to_rgba(shown, alpha))  # an image's own dots forget it else
        for mesh in ax.collections:
            values = mesh.get_array()
            if isinstance(mesh, QuadMesh) and values is not None and values.size > cells:
                changed.append((mesh.set_rasterized, mesh.get_rasterized()))
                mesh.set_rasterized(True)
    yield
    for back, value in changed:
        back(value)


@contextmanager
def thinned(figure: Figure) -> Iterator[None]:
    """Numbers at the ticks that would touch are left out: every second, every third one."""
    hidden: list[Any] = []
    for ax in figure.axes:
        if not (ax.get_visible() and ax.axison):
            continue
        for axis, (start, end), apart in (
            (ax.xaxis, ("x0", "x1"), APART),
            (ax.yaxis, ("y0", "y1"), 0.0),
        ):
            labels = [tick.label1 for tick in [*axis.get_minor_ticks(), *axis.get_major_ticks()]]
            labels = [label for label in labels if label.get_visible() and label.get_text()]
            boxes = [(label, label.get_window_extent()) for label in labels]
            boxes.sort(key=lambda each: getattr(each[1], start))
            step = 1
            while step < len(boxes) and any(
                getattr(two, start) - getattr(one, end) < apart * figure.dpi / 72
                for (_, one), (_, two) in pairwise(boxes[::step])
            ):
                step += 1
            hidden += [label for at, (label, _) in enumerate(boxes) if at % step]
    for label in hidden:
        label.set_visible(False)
    yield
    for label in hidden:
        label.set_visible(True)


# ---- the layout for a phone ----


@contextmanager
def narrow(figure: Figure) -> Iterator[bool]:
    """The figure as narrow as a phone, panels below each other; afterwards as it was."""
    width, height = figure.get_size_inches()
    columns, rows = grid(figure)
    placed = [ax for ax in figure.axes if ax.get_subplotspec() is not None]
    wordless = columns > 1 and not any(ax.axison for ax in placed)
    if width <= NARROW + 0.3 or columns > (8 if wordless else 4):
        yield False
        return
    before = [(ax, ax.get_subplotspec(), ax.get_ylabel(), numbered(ax)) for ax in placed]
    fewer = 1 if columns < 4 else 2
    size = (NARROW, height * NARROW / width if wordless else height)
    if columns > 1 and not wordless:
        stacked = -(-len(placed) // fewer)
        each = height / rows * min(1.0, NARROW / fewer / (width / columns) * 1.15)
        size = (NARROW, stacked * each)
        sheet = GridSpec(stacked, fewer, figure=figure)
        for at, ax in enumerate(in_reading_order(placed)):
            ax.set_subplotspec(sheet[at // fewer, at % fewer])
            say_again(ax, placed)
    figure.set_size_inches(*size)
    again(figure)
    try:
        yield True
    finally:
        figure.set_size_inches(width, height)
        for ax, spec, label, ticks in before:
            if spec is not None:
                ax.set_subplotspec(spec)
            ax.set_ylabel(label)
            ax.tick_params(axis="both", **ticks)
        again(figure)


def numbered(ax: Axes) -> dict[str, bool]:
    """Whether the ticks at the left and below have their numbers."""
    left, bottom = ax.yaxis.get_tick_params(), ax.xaxis.get_tick_params()
    return {"labelleft": left["labelleft"], "labelbottom": bottom["labelbottom"]}


def grid(figure: Figure) -> tuple[int, int]:
    """Columns and rows of the figure's panels; many where they are not on one grid."""
    specs = [ax.get_subplotspec() for ax in figure.axes]
    sheets = {id(spec.get_gridspec()): spec.get_gridspec() for spec in specs if spec is not None}
    if len(sheets) != 1:
        return (1, 1) if len(figure.axes) == 1 else (99, 99)
    if any(spec.num1 != spec.num2 for spec in specs if spec is not None):
        return 99, 99
    (sheet,) = sheets.values()
    return sheet.ncols, sheet.nrows


def in_reading_order(axes: list[Axes]) -> list[Axes]:
    return sorted(axes, key=lambda ax: cast(Any, ax.get_subplotspec()).num1)


def say_again(ax: Axes, others: list[Axes]) -> None:
    """A panel that no longer stands beside the one it shares an axis with says it itself."""
    if not ax.get_visible() or not ax.axison:
        return
    first = in_reading_order(others)[0]
    if ax is not first and ax.get_shared_y_axes().joined(ax, first):
        ax.tick_params(labelleft=True)
        if not ax.get_ylabel():
            ax.set_ylabel(first.get_ylabel())
    last = in_reading_order(others)[-1]
    if ax is not last and ax.get_shared_x_axes().joined(ax, last):
        ax.tick_params(labelbottom=True)


def again(figure: Figure) -> None:
    """Place the panels, then the names at the ends of their lines."""
    from bookkit.page import figures  # which asks for this module

    figure.draw_without_rendering()
    for ax in figure.axes:
        figures.place_names(ax)
    figure.draw_without_rendering()


# ---- fewer bytes, and the page's colours ----


def small(text: str, look: str, name: str) -> str:
    """The SVG with classes for styles, short numbers, ids of its own, and nothing invisible."""
    root = ET.fromstring(re.sub(r"<!DOCTYPE.*?>", "", text, count=1, flags=re.DOTALL))
    for above in list(root.iter()):
        for node in list(above):
            if node.tag in (f"{SVG}metadata", f"{SVG}style") or is_empty(node):
                above.remove(node)
    for above in list(root.iter()):
        flatten(above)
    rules: dict[str, str] = {}
    ids = used_ids(root)
    new = {old: f"{name}{at}" for at, old in enumerate(ids)}
    for node in root.iter():
        tidy(node, new, rules)
    width = float(root.get("viewBox", "0 0 100 100").split()[2])
    box = " ".join(f"{float(part):.1f}" for part in root.get("viewBox", "0 0 100 100").split())
    root.attrib = {"class": look, "id": name, "viewBox": box}
    root.set("style", f"max-width:{round(width * 1.45)}px")
    sheet = "".join(f"#{name} .{key}{{{rule}}}" for rule, key in rules.items())
    style = ET.Element(f"{SVG}style")
    style.text = sheet
    root.insert(0, style)
    said = ET.tostring(root, encoding="unicode")
    return re.sub(r"\s*\n\s*", "", said)


def is_empty(node: ET.Element) -> bool:
    """Whether nothing of a node is seen: a background that is transparent, say."""
    style = node.get("style", "")
    if node.tag == f"{SVG}path" and "fill: none" in style and "stroke" not in style:
        return True
    if node.tag == f"{SVG}path" and re.search(r"opacity: 0(;|$)", style):
        return True
    return node.tag == f"{SVG}g" and len(node) == 0


def flatten(above: ET.Element) -> None:
    """Groups that say nothing are replaced by what they hold."""
    for at, node in reversed(list(enumerate(above))):
        if node.tag == f"{SVG}g" and not set(node.attrib) - {"id"}:
            flatten(node)
            above.remove(node)
            for step, child in enumerate(list(node)):
                above.insert(at + step, child)


def used_ids(root: ET.Element) -> list[str]:
    found = []
    for node in root.iter():
        for value in node.attrib.values():
            found += re.findall(r"url\(#([^)]+)\)", value)
        if node.get(LINK, "").startswith("#"):
            found.append(node.attrib[LINK][1:])
    return list(dict.fromkeys(found))


def tidy(node: ET.Element, new: dict[str, str], rules: dict[str, str]) -> None:
    """One node: its id, its numbers, its style as a class."""
    if node.tag == f"{SVG}text" and len(node):
        relax(node)
    style = node.attrib.pop("style", "")
    own = node.attrib.pop("id", None)
    if own in new:
        node.set("id", new[own])
    for key, value in list(node.attrib.items()):
        if "url(#" in value:
            node.set(key, re.sub(r"#([^)]+)", lambda found: f"#{new[found[1]]}", value))
        elif key == LINK and value.startswith("#"):
            node.set(key, f"#{new[value[1:]]}")
        elif key == "d":
            node.set(key, path(value))
        elif key not in ("id", "viewBox", LINK):
            node.set(key, shorter(value))
    if node.tag == f"{SVG}image":
        node.set("class", "dots")
    rule = styled(style)
    if rule:
        node.set("class", rules.setdefault(rule, "q" + letters(len(rules))))


def relax(text: ET.Element) -> None:
    """A formula's letters as words: in another font their measured places would be wrong."""
    found = []
    for part in text:
        sized = re.search(r"([\d.]+)px", part.get("style", ""))
        size = sized[1] if sized else ""
        rows = part.get("y", "0").split()
        for letter, x in zip(part.text or "", part.get("x", "0").split(), strict=False):
            found.append((float(x), float(rows[0]), size, letter))
    found.sort(key=lambda glyph: glyph[0])
    at = {key: place for key in ("x", "y") if (place := text.get(key))}
    text[:] = []
    text.attrib.update(at)
    base, before = 0.0, (0.0, "")
    last: ET.Element | None = None
    for _, y, size, letter in found:
        if last is None or (y, size) != before:
            last = ET.SubElement(text, f"{SVG}tspan")
            last.text = ""
            if abs(y - base) > 0.3:
                last.set("dy", f"{y - base:.1f}")
                base = y
            if size:
                last.set("style", f"font-size:{size}px")
            before = y, size
        last.text = (last.text or "") + letter


def path(value: str) -> str:
    """A path of straight lines by its steps, other paths with short numbers."""
    parts = re.findall(r"([A-Za-z])([^A-Za-z]*)", value)
    if any(kind not in "MLz" for kind, _ in parts):
        return re.sub(r" ?([A-Za-z]) ?", r"\1", shorter(value))
    line, x, y = [], 0, 0
    for kind, numbers in parts:
        if kind == "z":
            line.append("z")
            continue
        to_x, to_y = (round(10 * float(number)) for number in numbers.split())
        step = (to_x, to_y) if kind == "M" else (to_x - x, to_y - y)
        if kind == "M" or step != (0, 0):
            line.append(("M" if kind == "M" else "l") + pair(*step))
        x, y = to_x, to_y
    return "".join(line)


def pair(x: int, y: int) -> str:
    """Two tenths as short as SVG reads them: `-.5 12`."""
    first, second = (re.sub(r"^(-?)0\.", r"\1.", f"{part / 10:g}") for part in (x, y))
    return f"{first}{second}" if second.startswith("-") else f"{first} {second}"


def letters(at: int) -> str:
    return (letters(at // 26 - 1) if at >= 26 else "") + chr(97 + at % 26)


def shorter(value: str) -> str:
    """Numbers with one decimal, in a path without what separates them for the eye."""
    value = NUMBER.sub(lambda found: f"{round(float(found[0]), 1):g}", value)
    return " ".join(value.split())


def styled(style: str) -> str:
    """The style of a node in the page's colours and letters."""
    parts = dict(re.findall(r"([\w-]+):\s*([^;]+)", style))
    parts.pop("font-family", None)
    if "font" in parts:
        font = parts.pop("font")
        size = re.search(r"([\d.]+)px", font)
        if "Mono" in font or "monospace" in font:
            parts["font-family"] = "monospace"
        if weight := re.search(r"\b(bold|700)\b", font):
            parts["font-weight"] = weight[1]
        parts["font-size"] = f"{float(size[1]):g}px" if size else "10px"
        parts.setdefault("fill", "#262626")
    for key in ("fill", "stroke"):
        if parts.get(key, "").startswith("#"):
            parts[key] = themed(parts[key])
    for key, value in INHERITED.items():
        if parts.get(key) == value and key != "stroke-linecap":
            del parts[key]
    return ";".join(f"{key}:{shorter(value)}" for key, value in parts.items())


def themed(colour: str) -> str:
    """A colour by its role, or together with the one that the dark theme has in its place."""
    colour = to_hex(colour).lower()
    if known := ROLES.get(colour) or INK.get(colour):
        return known
    return f"color-mix(in srgb,{colour} var(--d-day),{at_night(colour)})"


def at_night(colour: str) -> str:
    """White becomes the dark page, black its ink, and hues stay: as a browser would filter it."""
    red, green, blue = (1 - (0.93 * part + 0.07 * (1 - part)) for part in to_rgb(colour))
    turned = (
        -0.574 * red + 1.430 * green + 0.144 * blue,
        0.426 * red + 0.430 * green + 0.144 * blue,
        0.426 * red + 1.430 * green - 0.856 * blue,
    )
    red, green, blue = (min(1.0, max(0.0, part)) for part in turned)
    return to_hex((red, green, blue))
