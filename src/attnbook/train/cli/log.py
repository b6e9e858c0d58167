"""The log of a run: lines of JSON, and TensorBoard's files if it is installed."""

import json
from pathlib import Path
from typing import Any

from attnbook.files import store

FILE = "log.jsonl"
NO_TENSORBOARD = f"TensorBoard is not installed (pip install tensorboard): only {FILE} is written"


class Log:
    """Numbers by step. Lines after `step`, of steps that a resumed run takes again, are dropped."""

    def __init__(self, folder: Path, step: int = 0):
        self.path = folder / FILE
        kept = [line for line in read_lines(self.path) if line["step"] <= step]
        store(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self.board = tensorboard(folder, step)

    def add(self, step: int, **numbers: Any) -> None:
        """One line, and one point of each curve."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step} | numbers) + "\n")
        for name, number in numbers.items():
            if self.board is not None:
                self.board.add_scalar(name, number, step)

    def close(self) -> None:
        """Close the curves, if any are drawn."""
        if self.board is not None:
            self.board.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; the last one may have been cut off when the power went."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return found


def tensorboard(folder: Path, step: int) -> Any:
    """A writer of TensorBoard's files, or None where it is not installed; it says so."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        print(NO_TENSORBOARD, flush=True)
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
