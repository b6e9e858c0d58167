"""What is asked for and answered, in the words of OpenAI's completions API.

https://platform.openai.com/docs/api-reference/completions, the part that a model of plain text
needs: `prompt`, `max_tokens`, `temperature`, `top_p`, `seed`, `stream`.
"""

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from attnbook.generate import greedy, sample, temperature, top_p
from attnbook.models import BookModel
from attnbook.serving.engine import Choose, Request

# field: what it may be, in words; the smallest and the largest
NUMBERS: dict[str, tuple[type, str, float, float]] = {
    "max_tokens": (int, "a whole number of at least 1", 1, float("inf")),
    "temperature": (float, "a number from 0 to 2", 0, 2),
    "top_p": (float, "a number above 0, at most 1", 1e-9, 1),
    "seed": (int, "a whole number", 0, 2**63 - 1),
}
KNOWN = {"model", "prompt", "stream", *NUMBERS}
DEFAULTS = {"max_tokens": 16, "temperature": 1.0, "top_p": 1.0, "seed": 0}


class BadRequest(ValueError):
    """What was asked for cannot be done. `param` is the field that is wrong."""

    def __init__(self, message: str, param: str | None = None, status: int = 400):
        super().__init__(message)
        self.param, self.status = param, status

    def body(self) -> dict[str, Any]:
        """As the API says it."""
        kind = "invalid_request_error"
        told = {"message": str(self), "type": kind, "param": self.param, "code": None}
        return {"error": told}


@dataclass(frozen=True)
class Asked:
    """A request that was read and found possible."""

    request: Request
    stream: bool


def read_body(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request's body."""
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest(f"the body is a JSON object; got a {type(body).__name__}")
    return body


def asked(body: dict[str, Any], book: BookModel) -> Asked:
    """The request that a body asks for; BadRequest says which field is wrong, and how."""
    body = {name: given for name, given in body.items() if given is not None}
    for name in body.keys() - KNOWN:
        raise BadRequest(f"there is no field {name!r}; there are {', '.join(sorted(KNOWN))}", name)
    if body.get("model", book.card["name"]) != book.card["name"]:
        raise BadRequest(f"the model here is {book.card['name']!r}; got {body['model']!r}", "model")
    if not isinstance(body.get("stream", False), bool):
        raise BadRequest(f"stream is true or false; got {body['stream']!r}", "stream")
    found = {name: number(body, name) for name in NUMBERS}
    prompt, limit = encoded(body.get("prompt"), book), book.card["context"]
    if len(prompt) + found["max_tokens"] > limit:
        raise BadRequest(
            f"the model reads {limit} tokens at most; prompt and max_tokens are {len(prompt)} and "
            f"{found['max_tokens']}",
            "max_tokens",
        )
    end = book.tokenizer.token_to_id("<|end|>")
    ends = frozenset() if end is None else frozenset({end})
    request = Request(prompt, int(found["max_tokens"]), chooser(found), ends)
    return Asked(request, body.get("stream", False))


def number(body: dict[str, Any], name: str) -> int | float:
    """A field that is a number, or what it is without being said."""
    kind, words, low, high = NUMBERS[name]
    given = body.get(name, DEFAULTS[name])
    right = isinstance(given, int if kind is int else (int, float)) and not isinstance(given, bool)
    if not right or not low <= given <= high:
        raise BadRequest(f"{name} is {words}; got {json.dumps(given)}", name)
    return given


def encoded(prompt: Any, book: BookModel) -> list[int]:
    """The tokens of a prompt, at least one."""
    if not isinstance(prompt, str):
        raise BadRequest(f"prompt is a string; got {json.dumps(prompt)[:80]}", "prompt")
    tokens = book.tokenizer.encode(prompt).ids
    if not tokens:
        raise BadRequest("the prompt is empty: there is nothing to go on from", "prompt")
    return tokens


def chooser(found: dict[str, Any]) -> Choose:
    """How to choose a token: the likeliest at temperature 0."""
    if found["temperature"] == 0:
        return greedy
    dice = torch.Generator().manual_seed(int(found["seed"]))
    return sample(temperature(found["temperature"]), top_p(found["top_p"]), generator=dice)


def pieces(tokens: Iterable[int], book: BookModel) -> Iterator[str]:
    """The text of the tokens as it grows. A character of several tokens comes once it is whole."""
    sent, seen = "", list[int]()
    for token in tokens:
        seen.append(token)
        text = book.tokenizer.decode(seen)
        if not text.endswith("\N{REPLACEMENT CHARACTER}"):
            yield text[len(sent) :]
            sent = text
    yield book.tokenizer.decode(seen)[len(sent) :]


class Reply:
    """The answer to one request, whole or in pieces; all pieces have one id."""

    def __init__(self, name: str):
        self.head = {
            "id": f"cmpl-{uuid.uuid4().hex[:24]}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": name,
        }

    def piece(self, text: str, reason: str | None = None) -> dict[str, Any]:
        """One piece of a stream."""
        choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}
        return {**self.head, "choices": [choice]}

    def whole(self, text: str, request: Request) -> dict[str, Any]:
        """All of it, with the tokens counted."""
        counts = len(request.prompt), len(request.written)
        names = "prompt_tokens", "completion_tokens", "total_tokens"
        usage = dict(zip(names, (*counts, sum(counts)), strict=True))
        return {**self.piece(text, request.reason), "usage": usage}
