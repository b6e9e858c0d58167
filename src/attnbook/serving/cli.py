"""The command `attnbook serve`: a model behind an OpenAI-style endpoint on this machine."""

import argparse
from typing import Any

import torch

from attnbook.models import load
from attnbook.serving.server import Server

EXAMPLES = """examples:
  attnbook serve                                   the book's model, at http://127.0.0.1:8000
  attnbook serve runs/docs --port 8080             a model that `attnbook train lm` wrote
  curl http://127.0.0.1:8000/v1/completions \\
      -d '{"prompt": "KING HENRY:", "max_tokens": 30, "temperature": 0}'
"""


def add(parts: Any) -> None:
    """Add `serve` to the command's parts."""
    serve = parts.add_parser(
        "serve",
        help="answer requests over HTTP, on this machine",
        description=run.__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("model", nargs="?", default="book-lm", help="a folder, or a name (book-lm)")
    serve.add_argument("--port", type=int, default=8000, help="0 for a free one (8000)")
    serve.add_argument("--most", type=int, default=16, help="requests that run at a time (16)")
    serve.add_argument("--pages", type=int, default=512, help="pages of 16 positions (512)")
    serve.add_argument("--threads", type=int, help="of the CPU; without it torch decides")
    serve.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Serve a model at /v1/completions, to this machine only, until Ctrl-C."""
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    with Server(load(options.model), options.port, options.most, options.pages) as server:
        print(f"{server.book.card['name']} at {server.url}/v1/completions", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped")
