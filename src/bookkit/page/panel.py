"""Controls above a figure that Python draws again; where no Python runs, the figure stays."""

import base64
import html
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ipywidgets
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from bookkit.page import plots

VIEW = "application/vnd.jupyter.widget-view+json"


class Panel:
    """Controls, and the figure that `draw` makes of their values."""

    def __init__(self, draw: Callable[..., Any], controls: Mapping[str, Any]):
        self.draw, self.controls = draw, controls
        for name, control in controls.items():
            control.description = control.description or name
            control.style.description_width = "initial"
            if control.has_trait("continuous_update"):
                control.continuous_update = False
            control.observe(self.redraw, names="value")
        with drawn(draw, self.values) as figure:
            self.still, width = png(figure), round(100 * figure.get_figwidth())
            self.page = plots.html(figure)
        layout = {"width": f"{width}px", "max_width": "100%"}
        self.image = ipywidgets.Image(value=self.still, format="png", layout=layout)
        self.message = ipywidgets.HTML()
        self.box = ipywidgets.VBox([*controls.values(), self.message, self.image])
        self.text = "Panel: " + ", ".join(
            f"{name} = {value}" for name, value in self.values.items()
        )

    @property
    def values(self) -> dict[str, Any]:
        """What the controls stand at."""
        return {name: control.value for name, control in self.controls.items()}

    def redraw(self, _: object) -> None:
        """Draw anew, as a control was moved; an error takes the figure's place."""
        self.message.value = "computing …"
        try:
            with drawn(self.draw, self.values) as figure:
                self.image.value = png(figure)
        except Exception as error:
            self.image.layout.visibility = "hidden"
            self.message.value = f"<pre>{html.escape(f'{type(error).__name__}: {error}')}</pre>"
        else:
            self.image.layout.visibility = "visible"
            self.message.value = ""

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """The live view and the still. On Colab the view alone: it is not documented which of
        the two would be shown."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.box.model_id}
        bundle = {"text/plain": self.text, VIEW: view}
        if "google.colab" in sys.modules:
            return bundle
        if self.page is None:
            return bundle | {"image/png": base64.b64encode(self.still).decode()}
        return bundle | {"text/html": self.page}


def panel(draw: Any, **controls: Any) -> Panel:
    """Let the reader move `controls` and see the figure that `draw(**values)` makes of them.

    Each control is an ipywidgets widget. The first figure is drawn with the values they have;
    it is the picture that remains on a page without Python.
    """
    check(draw, controls)
    return Panel(draw, controls)


def check(draw: object, controls: Mapping[str, object]) -> None:
    """A ValueError unless `draw` can be called and each control has a value."""
    if not callable(draw):
        kind = type(draw).__name__
        raise ValueError(f"draw is of type {kind}; a function that returns a figure is needed")
    if not controls:
        raise ValueError("a panel needs a control: panel(draw, size=ipywidgets.IntSlider(3))")
    for name, control in controls.items():
        if not isinstance(control, ipywidgets.ValueWidget):
            kind = type(control).__name__
            raise ValueError(f"the control {name} is of type {kind}, not a widget with a value")


@contextmanager
def drawn(draw: Callable[..., Any], values: Mapping[str, Any]) -> Iterator[Figure]:
    """The figure of these values. None stays open, whatever `draw` does."""
    before = set(plt.get_fignums())
    try:
        figure = draw(**values)
        figure = getattr(figure, "figure", figure)
        if not hasattr(figure, "savefig"):
            raise ValueError(f"draw returned a {type(figure).__name__}; it must return a figure")
        yield figure
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)


def png(figure: Figure) -> bytes:
    """What a live panel shows of the figure."""
    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight", metadata={"Software": None})
    return out.getvalue()
