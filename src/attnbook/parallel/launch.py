"""Start a function on several processes: as a file, with torchrun, as a run over many machines."""

import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch.distributed as dist

from attnbook.parallel.wire import Processes, Wire

RESULTS = "ATTNBOOK_RESULTS"
Work = Callable[[Wire], Any]


def script(work: Work) -> str:
    """The file that torchrun starts: the imports that a function needs, the functions of the same
    notebook that it calls, itself, and a call. What a module holds is imported."""
    assert isinstance(work, FunctionType)
    here = work.__module__ == "__main__"
    functions, imports = list(functions_in(work)) if here else [], []
    if not here:
        imports.append(f"from {work.__module__} import {work.__name__}")
    for function in functions:
        imports += [line for line in import_lines(function) if line not in imports]
    imports.append("from attnbook.parallel.launch import report")
    plain = sorted(line for line in imports if line.startswith("import"))
    ours = sorted(line for line in imports if line.startswith("from"))
    sources = [inspect.getsource(function).strip() for function in functions]
    head = "\n".join([*plain, *[""] * bool(plain), *ours])
    return "\n\n\n".join([head, *sources, f"report({work.__name__})\n"])


def names(code: CodeType) -> Iterator[str]:
    """All names that a function's code looks up outside."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from names(inner)


def names_in(function: FunctionType) -> dict[str, Any]:
    """What a function looks up in its file, by name."""
    found = {name: function.__globals__.get(name) for name in names(function.__code__)}
    return {name: thing for name, thing in found.items() if thing is not None}


def functions_in(function: FunctionType) -> Iterator[FunctionType]:
    """The functions of the same file that it calls, those first that others call; then itself."""
    for thing in names_in(function).values():
        same = isinstance(thing, FunctionType) and thing.__module__ == function.__module__
        if same and thing is not function:
            yield from functions_in(thing)
    yield function


def import_lines(function: FunctionType) -> Iterator[str]:
    """The lines that import what a function uses; ValueError for what no line can import."""
    for name, thing in names_in(function).items():
        if isinstance(thing, ModuleType):
            yield f"import {thing.__name__}" + (f" as {name}" if thing.__name__ != name else "")
        elif getattr(thing, "__module__", None) not in (None, function.__module__):
            yield f"from {thing.__module__} import {name}"
        elif not isinstance(thing, FunctionType):
            raise ValueError(f"{name} is neither a function nor imported: give it another way")


def torchrun(work: Work, processes: int = 2, seconds: int = 120) -> list[Any]:
    """What `work(wire)` returns on each of so many processes of this machine, rank by rank.

    The function is written to a file of its own (`script`) and started by torchrun; what it returns
    comes back as JSON. Raises RuntimeError with the last lines that were said if one fails.
    """
    if processes < 1:
        raise ValueError(f"1 process or more; got {processes}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "work.py")
        file.write_text(script(work), encoding="utf-8")
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        done = subprocess.run(
            [*start, "--nproc-per-node", str(processes), str(file)],
            env=os.environ | {"OMP_NUM_THREADS": "1", RESULTS: folder},
            capture_output=True, text=True, timeout=seconds,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"a process failed:\n{done.stderr[-3000:]}")
        found = [Path(folder, f"{rank}.json").read_text() for rank in range(processes)]
    return [json.loads(text) for text in found]


def report(work: Work) -> None:
    """Do this process' part, write down what it returns, and end the process at once.

    A group of gloo is not taken down: its destructor may end a process that has done all its work
    with "terminate called without an active exception" (torch 2.13).
    """
    wire = Processes()
    found = json.dumps(work(wire))
    wire.flush()
    Path(os.environ.get(RESULTS, "."), f"{wire.rank}.json").write_text(found, encoding="utf-8")
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)
