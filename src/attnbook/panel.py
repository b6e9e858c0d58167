"""A panel: controls above a figure that Python draws again; without a kernel the figure stands alone."""
import base64
import html
import io
import sys

import ipywidgets
import matplotlib.pyplot as plt

VIEW = "application/vnd.jupyter.widget-view+json"


class Panel:
    """Controls and the figure that `draw` makes of their values. Shown as live widgets, stored as a still picture."""

    def __init__(self, draw, controls):
        _check(draw, controls)
        self.draw, self.controls = draw, controls
        for name, control in controls.items():
            control.description = control.description or name
            control.style.description_width = "initial"
            if control.has_trait("continuous_update"):
                control.continuous_update = False
            control.observe(self._redraw, names="value")
        self.still, width = _png(draw, self.values)
        self.image = ipywidgets.Image(value=self.still, format="png", layout={"width": f"{width}px", "max_width": "100%"})
        self.message = ipywidgets.HTML()
        self.box = ipywidgets.VBox([*controls.values(), self.message, self.image])
        self.text = "Panel: " + ", ".join(f"{name} = {value}" for name, value in self.values.items())

    @property
    def values(self) -> dict:
        return {name: control.value for name, control in self.controls.items()}

    def _redraw(self, _change):
        self.message.value = "computing …"
        try:
            self.image.value, _ = _png(self.draw, self.values)
        except Exception as error:
            self.image.layout.visibility = "hidden"
            self.message.value = f"<pre>{html.escape(f'{type(error).__name__}: {error}')}</pre>"
        else:
            self.image.layout.visibility = "visible"
            self.message.value = ""

    def __repr__(self):
        return self.text

    def _repr_mimebundle_(self, **_):
        """The live view and the still. On Colab the view alone: which of the two it would choose is nowhere documented."""
        bundle = {"text/plain": self.text, VIEW: {"version_major": 2, "version_minor": 0, "model_id": self.box.model_id}}
        if "google.colab" not in sys.modules:
            bundle["image/png"] = base64.b64encode(self.still).decode()
        return bundle


def panel(draw, **controls) -> Panel:
    """Let the reader move `controls` (ipywidgets) and see what `draw(**values)`, which returns a figure, makes of them.

    The first figure is drawn with the controls as they are, and is the picture that remains where no Python runs.
    """
    return Panel(draw, controls)


def _check(draw, controls):
    if not callable(draw):
        raise ValueError(f"draw is of type {type(draw).__name__}; a function that returns a figure is needed")
    if not controls:
        raise ValueError("a panel needs a control: panel(draw, radius=ipywidgets.FloatSlider(...))")
    for name, control in controls.items():
        if not isinstance(control, ipywidgets.ValueWidget):
            raise ValueError(f"the control {name} is of type {type(control).__name__}; a widget with a value is needed, such as ipywidgets.FloatSlider")


def _png(draw, values):
    """The drawn figure as PNG bytes and its width on the page. No figure stays open, whatever `draw` does."""
    before = set(plt.get_fignums())
    try:
        figure = draw(**values)
        figure = getattr(figure, "figure", figure)
        if not hasattr(figure, "savefig"):
            raise ValueError(f"draw returned an object of type {type(figure).__name__}; it must return a figure")
        out = io.BytesIO()
        figure.savefig(out, format="png", bbox_inches="tight", metadata={"Software": None})
        return out.getvalue(), round(100 * figure.get_figwidth())
    finally:
        for number in set(plt.get_fignums()) - before:
            plt.close(number)
