"""The endpoint: what a client of OpenAI's completions API sends and gets."""

import http.client
import json
import threading
import time

import pytest

from attnbook.generate import generate
from attnbook.models import load
from attnbook.serving import cli
from attnbook.serving.api import pieces
from attnbook.serving.load import arrivals, ask, under_load
from attnbook.serving.server import Server

BOOK = load()


@pytest.fixture(scope="module")
def server():
    with Server(BOOK, most=4, pages=64) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def send(server, body, path="/v1/completions", method="POST"):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, raw)
    response = connection.getresponse()
    found = response.status, json.loads(response.read())
    connection.close()
    return found


def greedy(prompt, count):
    tokens = BOOK.encode(prompt)
    return BOOK.decode(generate(BOOK.model, tokens, count)[:, tokens.shape[1] :])


def test_a_completion_is_what_generate_writes_with_the_tokens_counted(server):
    body = {"model": "book-lm", "prompt": "KING HENRY:\n", "max_tokens": 9, "temperature": 0}
    status, found = send(server, body)
    assert status == 200 and found["object"] == "text_completion"
    assert found["choices"][0]["text"] == greedy("KING HENRY:\n", 9)
    assert found["choices"][0]["finish_reason"] == "length"
    assert found["usage"] == {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}


def test_a_stream_brings_the_same_text_in_pieces(server):
    timing = ask(server.url, {"prompt": "The list", "max_tokens": 12, "temperature": 0})
    assert timing.text == greedy("The list", 12) and len(timing.pieces) > 6
    assert timing.sent < timing.pieces[0] <= timing.pieces[-1]
    assert 0 < timing.to_first and 0 < timing.between


def test_many_at_a_time_each_get_their_own_text(server):
    starts = ["KING", "The list", "A string", "QUEEN:\n", "def f", "Return"]
    bodies = [{"prompt": p, "max_tokens": 10, "temperature": 0} for p in starts]
    found = under_load(server.url, bodies, arrivals(200, len(bodies)))
    assert [timing.text for timing in found] == [greedy(p, 10) for p in starts]


def test_a_seed_repeats_a_draw_and_another_does_not(server):
    body = {"prompt": "KING", "max_tokens": 12, "temperature": 1.2, "top_p": 0.95}
    texts = [send(server, {**body, "seed": s})[1]["choices"][0]["text"] for s in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_the_model_is_listed_and_the_server_is_well(server):
    assert send(server, b"", "/v1/models", "GET")[1]["data"][0]["id"] == "book-lm"
    assert send(server, b"", "/health", "GET") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        (b"{", None, "not JSON"),
        (b"[1]", None, "got a list"),
        ({"max_tokens": 3}, "prompt", "a string; got null"),
        ({"prompt": ""}, "prompt", "nothing to go on from"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens", "at least 1; got 0"),
        ({"prompt": "a", "max_tokens": True}, "max_tokens", "got true"),
        ({"prompt": "a", "max_tokens": 999}, "max_tokens", "256 tokens at most"),
        ({"prompt": "a", "temperature": -1}, "temperature", "from 0 to 2; got -1"),
        ({"prompt": "a", "top_p": 0}, "top_p", "above 0"),
        ({"prompt": "a", "model": "gpt-4"}, "model", "'book-lm'; got 'gpt-4'"),
        ({"prompt": "a", "best_of": 4}, "best_of", "there is no field 'best_of'"),
        ({"prompt": "a", "stream": 1}, "stream", "true or false"),
    ],
)
def test_bad_input_is_refused_with_the_field_and_the_reason(server, body, param, message):
    status, found = send(server, body)
    assert status == 400 and found["error"]["type"] == "invalid_request_error"
    assert found["error"]["param"] == param and message in found["error"]["message"]


def test_what_is_not_there_is_said_with_what_is(server):
    status, found = send(server, {}, "/v1/chat/completions")
    assert status == 404 and "POST /v1/completions" in found["error"]["message"]


def test_a_field_that_is_null_is_as_one_that_is_not_said(server):
    assert send(server, {"prompt": "a", "max_tokens": 2, "seed": None, "user": None})[0] == 200


def test_whoever_hangs_up_is_not_written_for_any_longer(server):
    before = server.engine.steps
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    body = json.dumps({"prompt": "KING", "max_tokens": 240, "temperature": 0, "stream": True})
    connection.request("POST", "/v1/completions", body)
    connection.getresponse().readline()
    connection.sock.close() if connection.sock else None
    connection.close()
    deadline = time.monotonic() + 10
    while server.engine.running and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not server.engine.running and server.engine.pages.used == 0
    assert server.engine.steps - before < 241


def test_a_character_of_several_tokens_is_sent_when_it_is_whole():
    tokens = BOOK.encode("naïve — café ☃")[0].tolist()
    parts = list(pieces(tokens, BOOK))
    assert "".join(parts) == BOOK.tokenizer.decode(tokens)
    assert not any("\N{REPLACEMENT CHARACTER}" in part for part in parts)


def test_a_closed_server_leaves_no_thread_behind():
    server = Server(BOOK)
    server.server_close()
    assert not server.worker.thread.is_alive()


def test_arrivals_come_at_the_rate_that_is_asked_for():
    times = arrivals(5.0, 2000)
    assert times[0] == 0 and times == sorted(times)
    assert 1999 / times[-1] == pytest.approx(5, rel=0.1)
    with pytest.raises(ValueError, match="got 3 at 0"):
        arrivals(0, 3)
    with pytest.raises(ValueError, match="got 1 and 2"):
        under_load("http://127.0.0.1:9", [{}], [0.0, 1.0])


def test_nobody_listening_is_an_error_of_the_request():
    assert "refused" in str(ask("http://127.0.0.1:9", {"prompt": "a"}).error)


def test_the_command_says_what_it_serves(capsys, monkeypatch):
    def stopped(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", stopped)
    from attnbook.cli import main

    assert main(["serve", "--port", "0"]) is None
    assert capsys.readouterr().out.startswith("book-lm at http://127.0.0.1:")
    assert main(["serve", "nothing-there", "--port", "0"]) == 1
    assert "there is no model" in capsys.readouterr().err
    assert cli.EXAMPLES
