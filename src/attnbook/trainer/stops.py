"""Ctrl-C and SIGTERM end a run after the step that is under way, not in the middle of it."""

import signal
import threading
from types import TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stops:
    """Inside this context `asked` is the number of the signal that came, 0 if none did.

    A second Ctrl-C does not wait. Outside of the main thread, where Python receives none, it never
    is asked.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.before: dict[int, Any] = {}

    def __enter__(self) -> "Stops":
        if threading.current_thread() is threading.main_thread():
            self.before = {number: signal.signal(number, self.note) for number in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def note(self, number: int, _: object) -> None:
        if self.asked == number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = number
