"""A progress bar where somebody is watching; nothing of it stays in a stored notebook."""

import sys
import time
from collections.abc import Sequence
from typing import Any


def output_kind() -> str | None:
    """Is somebody watching, and where: "notebook", "terminal" or None.

    With each cell, a front end says whether it could put a question to a person ("allow_stdin"
    of Jupyter's messaging protocol). What executes notebooks unattended, such as nbconvert and
    nbval, says no: nothing may be displayed then, since everything displayed is stored.
    """
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if hasattr(shell, "kernel"):
        try:
            return "notebook" if shell.kernel.get_parent()["content"]["allow_stdin"] else None
        except (AttributeError, KeyError, TypeError):
            return None
    return "terminal" if sys.stderr is not None and sys.stderr.isatty() else None


class ProgressBar:
    """How far it is and how long it will take; gone at the end."""

    def __init__(self, steps: Any, wanted: bool = True, pause: int | float = 0.25):
        wanted = wanted and steps is not None  # nobody knows the end of a run by the clock
        self.steps, self.pause, self.where = steps, pause, output_kind() if wanted else None
        self.first: int | None = None
        self.handle: Any = None
        self.width = 0
        self.started = self.drawn = time.perf_counter()

    def draw(self, step: int, loss: Sequence[float] = ()) -> None:
        """Show that `step` steps are done, with the last `loss`, unless that was only just done."""
        now = time.perf_counter()
        self.first = step if self.first is None else self.first
        if self.where is None or step == self.first or now - self.drawn < self.pause:
            return
        self.drawn = now
        left = (now - self.started) / (step - self.first) * (self.steps - step)
        text = f"step {step} of {self.steps} · about {left:.0f} s left"
        self.write(text + (f" · loss {loss[-1]:.3f}" if loss else ""), step)

    def write(self, text: str, step: int) -> None:
        """Put this text in the place of the last."""
        if self.where == "terminal":
            sys.stderr.write("\r" + text.ljust(self.width))
            sys.stderr.flush()
            self.width = len(text)
            return
        from IPython.display import HTML, display

        bar = f'<progress value="{step}" max="{self.steps}" aria-label="training"></progress> '
        if self.handle is None:
            self.handle = display(HTML(bar + text), display_id=True)
        else:
            self.handle.update(HTML(bar + text if text else ""))

    def close(self) -> None:
        """Take away what was drawn."""
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
        elif self.handle is not None:
            self.write("", self.steps)
