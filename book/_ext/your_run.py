"""The tables of "Your run, and ours", made from results/ when the website is built.

    ```{measured} shakespeare
    ```

is a table of the runs in results/shakespeare, one row for each setting with the numbers of all its
seeds, then the machine and the commands. `{measured-notebooks}` has a row for each notebook with
its time, `{budgets}` one for each line of a notebook with `here.pick(cpu=…, gpu=…)`.
"""

import ast
import json
import statistics
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

Run = dict[str, Any]  # one stored run
Rows = Iterator[tuple[str, list[Any], int | None, float]]  # what, numbers, parameters, seconds
ROOT = Path(__file__).parents[2]


def characters(run: Run) -> Rows:
    """One file holds all models and seeds."""
    config = run["config"]
    for name, model in run["models"].items():
        what = f"{name}, width {model['width']}, {config['steps']:,} steps of {config['batch']}"
        what += f" × {config['T']} characters"
        seconds = statistics.mean(model["seconds"])
        yield what, model["losses"], model["parameters"], seconds


def translation(run: Run) -> Rows:
    config = run["config"]
    what = f"{config['corpus']}, {config['model']}, {run['steps']:,} steps, "
    yield f"{what}greedy", [run["bleu"]], run["parameters"], run["training_seconds"]
    if "bleu_beams" in run:
        beams = f"{what}{config['beams']} beams"
        yield beams, [run["bleu_beams"]], run["parameters"], run["training_seconds"]


def shakespeare(run: Run) -> Rows:
    config = run["config"]
    what = f"{config['setting']}, {config['recipe']}, rate {config['lr']:g}, "
    what += f"{config['steps']:,} steps"
    yield what, [run["validation_loss"]], run["parameters"], run["training_seconds"]


def images(run: Run) -> Rows:
    config = run["config"]
    what = f"{config['setting']}, {config['model']}, {config['images']:,} images, "
    what += f"{config['epochs']} epochs, rate {config['lr']:g} ({run['data']})"
    accuracy = 100 * run["test_accuracy"]
    yield what, [accuracy], run["parameters"], run["training_seconds"]


def tweaks(run: Run) -> Rows:
    seconds = statistics.mean(each["cpu_seconds_per_step"] for each in run["runs"])
    found = run["summary"]
    what = f"{run['variant']}, rate {found['lr']:g}, {run['config']['steps']} steps"
    yield what, found["values"], run["parameters"], seconds * run["config"]["steps"]


def speedrun(run: Run) -> Rows:
    """A rung with its seeds; nanoGPT itself was run once."""
    runs = run.get("runs", [run])
    what = f"{run['rung']}, {runs[0]['steps']:,} steps" if "rung" in run else "nanoGPT itself"
    seconds = statistics.mean(each["cpu_seconds"] for each in runs)
    yield what, [each["validation_loss"] for each in runs], runs[0]["parameters"], seconds


def scaling(run: Run) -> Rows:
    config = run["config"]
    what = f"{config.get('cell', 'llama')}, width {config['width']}, {config['steps']:,} steps, "
    what += f"{config['rate']:g} × the rate"
    yield what, [run["validation_loss"]], run["parameters"], run["training_seconds"]


def grading(run: Run) -> Rows:
    what = f"lab 3, {run['files']} files, {run['workers']} at a time"
    yield what, [run["seconds"]], None, run["seconds"] / run["files"]


def leaderboard(run: Run) -> Rows:
    config = run["config"]
    what = f"{config['level']}, {config['minutes']:g} min of one thread, {run['vocabulary']} tokens"
    yield what, [run["nats_per_byte"]], run["parameters"], run["training_seconds"]


# What is measured, how it is read, with how many decimals it is shown.
LOSS = "held-out loss, nats"
SHOWN = {
    "characters": (characters, LOSS, 3),
    "translation": (translation, "BLEU, test", 1),
    "shakespeare": (shakespeare, LOSS, 3),
    "images": (images, "right, test, %", 1),
    "tweaks": (tweaks, LOSS, 3),
    "speedrun": (speedrun, LOSS, 3),
    "scaling": (scaling, LOSS, 3),
    "leaderboard": (leaderboard, "held out, nats per byte", 3),
    "grading": (grading, "seconds", 0),
}


def stored(folder: str) -> dict[Path, Run]:
    """The files of a folder of results/, by their numbers and not by their letters."""
    paths = sorted((ROOT / "results" / folder).glob("*.json"))
    if not paths:
        raise ExtensionError(f"there is nothing in results/{folder}")
    return {path: json.loads(path.read_text("utf-8")) for path in paths}


def settings(folder: str) -> dict[str, tuple[list[Any], int | None, list[float]]]:
    """The rows of a table: {what: (numbers, parameters, seconds of each)}."""
    read = SHOWN[folder][0]
    found: dict[str, tuple[list[Any], int | None, list[float]]] = {}
    for run in stored(folder).values():
        for what, numbers, parameters, seconds in read(run):
            before = found.setdefault(what, ([], parameters, []))
            before[0].extend(numbers)
            before[2].append(seconds)
    return found


def all_of(numbers: list[float | None], digits: int) -> str:
    """Up to three numbers, or any where one is missing, as they are; more as mean ± standard
    deviation."""
    there = [n for n in numbers if n is not None]
    if len(numbers) <= 3 or len(there) < len(numbers):
        return ", ".join("diverged" if n is None else f"{n:.{digits}f}" for n in numbers)
    mean, spread = statistics.mean(there), statistics.stdev(there)
    return f"{mean:.{digits}f} ± {spread:.{digits}f} ({len(numbers)} seeds)"


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def count(parameters: int | None) -> str:
    return "–" if parameters is None else f"{parameters:,}"


def origin_of(run: Run) -> dict[str, Any]:
    """Where a file's numbers come from; if each of its runs says it apart, what the first says."""
    return run["provenance"] if "provenance" in run else run["runs"][0]["provenance"]


def machine(run: Run) -> str:
    """In words: processor, threads, torch."""
    origin = origin_of(run)
    where = origin["processor"]
    if origin.get("device", "cpu").startswith("cpu"):
        where = f"{origin['threads']} thread{'s' * (origin['threads'] > 1)} of an {where}"
    return f"{where}, torch {origin['versions']['torch'].partition('+')[0]}"


def table(name: str, head: Sequence[str], rows: list[Any]) -> nodes.table:
    """A table with a name for tests; a cell is a text, or a list of nodes."""
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in head), cols=len(head))
    group += nodes.thead("", row_of(head))
    group += nodes.tbody("", *map(row_of, rows))
    return nodes.table("", group, classes=[name])


def row_of(cells: Sequence[Any]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *inside(c))) for c in cells))


def inside(cell: Any) -> list[nodes.Node]:
    return [nodes.Text(cell)] if isinstance(cell, str) else cell


class Measured(SphinxDirective):
    """{measured} shakespeare: the runs of results/shakespeare."""

    required_arguments = 1
    option_spec: ClassVar = {"command": str}  # where one command repeats what several made

    def run(self) -> list[nodes.Node]:
        folder = self.arguments[0]
        runs = stored(folder)
        for path in runs:
            self.env.note_dependency(str(path))
        _, unit, digits = SHOWN[folder]
        rows = [
            (what, all_of(numbers, digits), count(parameters), duration(statistics.mean(seconds)))
            for what, (numbers, parameters, seconds) in settings(folder).items()
        ]
        machines = sorted({machine(run) for run in runs.values()})
        given = dict.fromkeys(origin_of(run)["command"] for run in runs.values())
        commands = self.options.get("command") or "\n".join(given)
        return [
            table(f"measured-{folder}", ("setting", unit, "parameters", "time of one"), rows),
            nodes.paragraph("", f"Measured on {'; '.join(machines)}."),
            nodes.literal_block(commands, commands, language="text"),
        ]


class Notebooks(SphinxDirective):
    """{measured-notebooks}: how long each chapter takes."""

    def run(self) -> list[nodes.Node]:
        runs, rows = stored("notebooks"), []
        for path, run in runs.items():
            self.env.note_dependency(str(path))
            rows.append((run["notebook"], run["budget"], f"{run['cpu_seconds']:.0f} s"))
        machines = sorted({machine(run) for run in runs.values()})
        return [
            table("measured-notebooks", ("notebook", "budget", "processor time"), rows),
            nodes.paragraph("", f"Measured on {'; '.join(machines)}."),
        ]


def picks(path: Path) -> Iterator[str]:
    """The statements of a notebook that take another value with another budget."""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and "here.pick" in source:
            for statement in ast.walk(ast.parse(source)):
                text = ast.get_source_segment(source, statement) or ""
                if isinstance(statement, ast.Assign | ast.Expr) and "here.pick" in text:
                    yield " ".join(text.split())


class Budgets(SphinxDirective):
    """{budgets}: what the larger budget changes, in each chapter."""

    def run(self) -> list[nodes.Node]:
        rows = []
        for path in sorted(ROOT.glob("book/[0-9]*.ipynb")):
            self.env.note_dependency(str(path))
            rows += [(str(int(path.name[:2])), [nodes.literal("", text)]) for text in picks(path)]
        return [table("budgets", ("chapter", "line"), rows)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("measured", Measured)
    app.add_directive("measured-notebooks", Notebooks)
    app.add_directive("budgets", Budgets)
    version = zlib.crc32(Path(__file__).read_bytes())
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": version}
