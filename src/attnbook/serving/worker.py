"""The engine on a thread of its own: others hand in requests, and take tokens as they come."""

import queue
import threading
from collections.abc import Iterator

from attnbook.serving.engine import Engine, Request

Inbox = queue.SimpleQueue[int | None]


class Worker:
    """Steps the engine as long as somebody waits for tokens. `close` ends its thread."""

    def __init__(self, engine: Engine):
        self.engine, self.inboxes = engine, dict[Request, Inbox]()
        self.changed, self.open = threading.Condition(), True
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def tokens(self, request: Request) -> Iterator[int]:
        """The request's tokens, each as soon as it is written. Whoever stops asking ends the
        request. A ValueError, before the first token, if it could never fit."""
        inbox: Inbox = queue.SimpleQueue()
        with self.changed:
            self.engine.add(request)
            self.inboxes[request] = inbox
            self.changed.notify()
        return self.taken(request, inbox)

    def taken(self, request: Request, inbox: Inbox) -> Iterator[int]:
        try:
            while (token := inbox.get()) is not None:
                yield token
        finally:
            with self.changed:
                self.engine.leave(request)
                self.inboxes.pop(request, None)

    def work(self) -> None:
        """The thread: wait until there is something to do, then step."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.inboxes or not self.open)
                if not self.open:
                    return
                for request in self.engine.step():
                    self.hand_out(request)

    def hand_out(self, request: Request) -> None:
        """Pass on the last token; None after the last of all."""
        if (inbox := self.inboxes.get(request)) is not None:
            inbox.put(request.written[-1])
            if request.reason is not None:
                inbox.put(None)
                del self.inboxes[request]

    def close(self) -> None:
        """Stop; whoever still waits gets no more tokens."""
        with self.changed:
            self.open = False
            for inbox in self.inboxes.values():
                inbox.put(None)
            self.changed.notify()
        self.thread.join()
