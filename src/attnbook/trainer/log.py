"""What a run writes down while it goes on: lines of JSON, and TensorBoard's files if it is here."""

import json
from pathlib import Path
from typing import Any

from attnbook.files import store

FILE = "log.jsonl"
NO_TENSORBOARD = f"TensorBoard is not installed (pip install tensorboard): only {FILE} is written"


class Log:
    """Numbers by step. What was written of steps that are taken again, after `step`, is dropped."""

    def __init__(self, folder: Path, step: int = 0):
        self.path = folder / FILE
        kept = [line for line in lines(self.path) if line["step"] <= step]
        store(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self.board = board(folder, step)

    def add(self, step: int, **numbers: Any) -> None:
        """One line, and one point of each curve."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step} | numbers) + "\n")
        for name, number in numbers.items():
            if self.board is not None:
                self.board.add_scalar(name, number, step)

    def close(self) -> None:
        if self.board is not None:
            self.board.close()


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; the last one may have been cut off when the power went."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return found


def board(folder: Path, step: int) -> Any:
    """A writer of TensorBoard's files, or None where it is not installed; it says so."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        print(NO_TENSORBOARD, flush=True)
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
