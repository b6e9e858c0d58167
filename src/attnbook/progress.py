"""A progress bar for whoever is watching, and nothing at all in a stored notebook."""
import sys
import time


def where():
    """Who is watching: "notebook", "terminal" or None.

    A front end with a person before it says so with each cell it sends: "allow_stdin", a question may be asked. What executes notebooks
    unattended (nbconvert, nbclient, nbval) says the opposite, so what it stores holds no trace of a bar.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if hasattr(shell, "kernel"):
        return "notebook" if _may_ask(shell.kernel) else None
    return "terminal" if sys.stderr is not None and sys.stderr.isatty() else None


def _may_ask(kernel):
    try:
        return bool(kernel.get_parent()["content"]["allow_stdin"])
    except (AttributeError, KeyError, TypeError):
        return False


class Bar:
    """How far it is and how long it will take: one line in a terminal, one output in a notebook, gone at the end."""

    def __init__(self, steps, wanted=True, pause=0.25):
        self.steps, self.pause, self.where = steps, pause, where() if wanted else None
        self.started = self.drawn = time.perf_counter()
        self.first, self.width, self.handle = None, 0, None

    def draw(self, step, loss=None):
        now = time.perf_counter()
        self.first = step if self.first is None else self.first
        if self.where is None or now - self.drawn < self.pause or step == self.first:
            return
        self.drawn = now
        left = (now - self.started) / (step - self.first) * (self.steps - step)
        self._write(f"step {step} of {self.steps} · about {left:.0f} s left" + ("" if loss is None else f" · loss {loss:.3f}"), step)

    def _write(self, text, step):
        if self.where == "terminal":
            sys.stderr.write("\r" + text.ljust(self.width))
            sys.stderr.flush()
            self.width = len(text)
            return
        from IPython.display import HTML, display

        html = HTML(f'<progress value="{step}" max="{self.steps}" aria-label="training"></progress> {text}' if text else "")
        if self.handle is None:
            self.handle = display(html, display_id=True)
        else:
            self.handle.update(html)

    def close(self):
        if self.where == "terminal" and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
        elif self.handle is not None:
            self._write("", 0)
