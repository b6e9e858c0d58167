"""The book's model behind an endpoint that clients of OpenAI's completions API can ask.

`POST /v1/completions`, streamed or not, `GET /v1/models`, `GET /health`: on the standard library's
`http.server`, to be read, and for one's own machine. It has no keys, no limits of rate and no
encryption: engines for production are vLLM, SGLang, TensorRT-LLM, llama.cpp.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from attnbook.models import BookModel
from attnbook.serving.api import Asked, BadRequest, Reply, asked, pieces, read_body
from attnbook.serving.engine import Engine
from attnbook.serving.pages import Pages
from attnbook.serving.worker import Worker

LARGEST = 1_000_000  # bytes of a body


class Server(ThreadingHTTPServer):
    """Serves one model from a background thread: `with Server(book) as server: … server.url`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, book: BookModel, port: int = 0, most: int = 16, pages: int = 512):
        """On this machine only, at `port`, or at a free one. `most` requests run at a time."""
        self.book, self.engine = book, Engine(book.model, Pages(pages), most)
        self.worker = Worker(self.engine)
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except OSError:
            self.worker.close()
            raise
        self.url = f"http://127.0.0.1:{self.server_port}"

    def server_close(self) -> None:
        super().server_close()
        self.worker.close()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # small pieces of a stream are sent at once

    @property
    def ours(self) -> Server:
        return cast(Server, self.server)

    def do_GET(self) -> None:
        name = self.ours.book.card["name"]
        model = {"id": name, "object": "model", "created": 0, "owned_by": "attnbook"}
        match self.path:
            case "/health":
                self.answer({"status": "ok"})
            case "/v1/models":
                self.answer({"object": "list", "data": [model]})
            case _:
                self.refuse(self.unknown())

    def do_POST(self) -> None:
        try:
            if self.path != "/v1/completions":
                raise self.unknown()
            wanted = asked(read_body(self.body()), self.ours.book)
            try:
                tokens = self.ours.worker.tokens(wanted.request)
            except ValueError as error:
                raise BadRequest(str(error), "max_tokens") from error
        except BadRequest as error:
            return self.refuse(error)
        try:
            self.write(wanted, tokens)
        except ConnectionError:
            self.close_connection = True  # the client has gone, and the request with it
        finally:
            tokens.close()  # type: ignore[attr-defined]

    def write(self, wanted: Asked, tokens: Any) -> None:
        """The completion, as one object or piece by piece."""
        book, reply = self.ours.book, Reply(self.ours.book.card["name"])
        if not wanted.stream:
            return self.answer(reply.whole("".join(pieces(tokens, book)), wanted.request))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")  # the stream ends where the connection does
        self.end_headers()
        for text in pieces(tokens, book):
            self.event(json.dumps(reply.piece(text)))
        self.event(json.dumps(reply.piece("", wanted.request.reason)))
        self.event("[DONE]")

    def event(self, data: str) -> None:
        """A server-sent event."""
        self.wfile.write(f"data: {data}\n\n".encode())
        self.wfile.flush()

    def body(self) -> bytes:
        """The request's body; BadRequest if its length is not said or too large."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST:
            self.close_connection = True
            raise BadRequest(f"a body has a Content-Length of at most {LARGEST}; got {length!r}")
        return self.rfile.read(int(length))

    def unknown(self) -> BadRequest:
        self.close_connection = True  # a body, if there is one, was not read
        there = "POST /v1/completions, GET /v1/models, GET /health"
        return BadRequest(f"no {self.command} {self.path} here; there are {there}", None, 404)

    def refuse(self, error: BadRequest) -> None:
        self.answer(error.body(), error.status)

    def answer(self, body: dict[str, Any], status: int = 200) -> None:
        raw = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""
