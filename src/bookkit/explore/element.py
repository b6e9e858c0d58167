"""Explorables: pictures that a reader moves in the browser, with no Python behind them.

An explorable is one custom element. The state in which it starts travels as JSON in an attribute,
its script is inlined, its picture lives in a shadow root so that no page style leaks in or out.
What it computes Python computes too (`result`), and a test compares the two in a real browser.
"""

import html
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

from bookkit.drawings.palette import CSS, DARK, LIGHT

SWITCHES = (
    "html[data-theme=dark]",  # the website
    "html[theme=dark]",  # Colab
    "body[data-jp-theme-light=false]",  # JupyterLab
    "body.vscode-dark",
)
UNSAID = "html:not([data-theme],[theme]) body:not([data-jp-theme-light],.vscode-light)"


@cache
def source(name: str) -> str:
    """The text of a file beside this one."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def script(tag: str, *needs: str) -> str:
    """The JavaScript of one element, with the parts it needs in front, as one closed scope.

    Indentation, comments and needless line breaks are left out: they are read in the files.
    """
    names = ("shared", *needs, tag.replace("-", "_"))
    text = "\n".join(source(f"{name}.js") for name in names)
    text = re.sub(r"^ *//.*\n|^ +| +// .*$", "", text, flags=re.MULTILINE)
    return "(() => {\n" + re.sub(r"(?<=[\[{(,;])\n+", "", text) + "})();"


# Behind numbers each role has a fill, always a light theme's tone, and a strength it may reach.
FILLS = re.findall(r"\.drawing \.(\w+) {.*?--f: (.*?); --r: (.*?); }", CSS)


@cache
def palette(theme: str) -> dict[str, str]:
    """The colours of a theme, "light" or "dark", as the drawings have them: variable → value."""
    found = {
        f"--d-{role}": colour for role, colour in {"light": LIGHT, "dark": DARK}[theme].items()
    }
    grey, most = found.pop("--d-grey", None), re.findall(r"--d-reach: ([.\d]+)", CSS)[0]
    for role, fill, reach in FILLS:
        found[f"--d-{role}-reach"] = most if theme == "dark" else reach
        colour = re.findall(r"#\w+", fill)[0]
        if theme == "light" or (grey and "grey" in fill):
            found[f"--d-{role}-fill"] = grey or colour
    return found


@cache
def style() -> str:
    """The colours as a style sheet that follows the page: its switch first, then the system's."""
    light, dark = (
        "".join(f"{name}:{value};" for name, value in palette(theme).items())
        for theme in ("light", "dark")
    )
    light, dark = f"{light}color-scheme:light", f"{dark}color-scheme:dark"
    chosen = ",".join(f"{place} .attn" for place in SWITCHES)
    return (
        f".attn{{display:block;{light}}}"
        f"@media screen{{{chosen}{{{dark}}}}}"
        f"@media screen and (prefers-color-scheme:dark){{{UNSAID} .attn{{{dark}}}}}"
        # on a phone a page's indents are room for fingers
        "@media screen and (max-width:480px){.attn{width:calc(100vw - 20px);"
        "margin:1rem calc(50% - 50vw + 10px)}:has(>.attn){overflow:visible!important}}"
    )


class Explorable:
    """Base class. A subclass names its element, says where it starts, and computes its results.

    `tag` names the element `<attn-tag>` and its script `tag.js`, `needs` the scripts it stands on.
    Results agree to `near`, relative; what a finger touches is at least `target` pixels wide.
    A state and a result are what JSON can hold. Where scripts are switched off, and in print,
    `picture()` is seen, an SVG of the start, and `sentence()` below it.
    """

    tag = ""
    needs: tuple[str, ...] = ("maths",)
    near = 1e-9
    target = 32

    @property
    def question(self) -> str:
        """What stands above the picture; most give it as an attribute of the class."""
        raise NotImplementedError

    def start(self) -> dict:
        """The state in which it starts: what the reader can change, with its first values."""
        raise NotImplementedError

    def fixed(self) -> dict:
        """What the script needs and the reader cannot change, such as words."""
        return {}

    def result(self, state: dict) -> dict:
        """What the browser must compute in this state, computed by the module."""
        raise NotImplementedError

    def cases(self) -> Iterator[dict]:
        """Changes to the start, for which the test compares the results."""
        raise NotImplementedError

    def picture(self) -> str:
        """The SVG of the start."""
        raise NotImplementedError

    def sentence(self) -> str:
        """What is said below the picture at the start."""
        raise NotImplementedError

    def still(self) -> str:
        """What is seen without scripts: question, picture, sentence."""
        ask, say = html.escape(self.question), html.escape(self.sentence())
        return f"<p><b>{ask}</b></p>{self.picture()}<p>{say}</p>"

    def _repr_html_(self) -> str:
        numbers = {"question": self.question, "start": self.start(), **self.fixed()}
        data = json.dumps(numbers, ensure_ascii=False, separators=(",", ":"))
        data = html.escape(data, quote=False).replace("'", "&#39;")
        name = f"attn-{self.tag}"
        return (
            f"<style>{style()}</style>"
            f"<{name} class=attn data-numbers='{data}'>{self.still()}</{name}>\n"
            f"<script>{script(self.tag, *self.needs)}</script>"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}: move it in the browser"
