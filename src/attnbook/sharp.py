"""Figures in a notebook, sharp on every screen: drawn twice as fine, stored in 256 colours."""

import base64
import io

import matplotlib
import matplotlib.pyplot as plt
from IPython import get_ipython
from IPython.core.pylabtools import print_figure
from matplotlib.figure import Figure
from PIL import Image, ImageChops, ImageStat

FINER = 2  # dots for each pixel of the page
SEEN = 1.0  # a mean difference, of 255, that an eye would notice


def install() -> None:
    """Let the notebook that runs us show every figure so; elsewhere nothing happens."""
    shell = get_ipython()
    if shell is None or not hasattr(shell, "display_formatter"):
        return

    def register(*_: object) -> None:
        shell.display_formatter.formatters["image/png"].for_type(Figure, png)
        if register in shell.events.callbacks["post_run_cell"]:
            shell.events.unregister("post_run_cell", register)

    # A notebook's backend sets its own way when it is loaded, at once or after the cell: so load it
    # now, and set ours now and then.
    plt.switch_backend(matplotlib.get_backend())
    register()
    shell.events.register("post_run_cell", register)


def png(figure: Figure) -> tuple[str, dict[str, int]]:
    """The figure as PNG in base64, and its size on the page in pixels."""
    dots = FINER * figure.dpi
    data = few_colours(print_figure(figure, "png", base64=False, dpi=dots), dots)
    width, height = Image.open(io.BytesIO(data)).size
    size = {"width": round(width / FINER), "height": round(height / FINER)}
    return base64.b64encode(data).decode("ascii"), size


def few_colours(data: bytes, dots: float) -> bytes:
    """The picture with a palette, a third of the bytes; as it is where that would be seen."""
    whole = Image.open(io.BytesIO(data)).convert("RGB")
    small = whole.quantize(colors=256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    difference = ImageStat.Stat(ImageChops.difference(whole, small.convert("RGB"))).mean
    if max(difference) > SEEN:
        return data
    out = io.BytesIO()
    small.save(out, "PNG", optimize=True, dpi=(dots, dots))
    return out.getvalue()
