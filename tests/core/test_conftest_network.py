"""No test asks another machine, though what it tests may catch every error on the way."""

import socket
from contextlib import suppress
from urllib.request import urlopen

import pytest


@pytest.mark.parametrize("host", ["example.org", "192.0.2.1", "2001:db8::1"])
def test_another_machine_cannot_be_asked(host):
    asks = pytest.raises(pytest.fail.Exception, match=f"this test asks {host}")
    with asks, suppress(Exception):
        socket.create_connection((host, 80), timeout=0.01)


def test_a_download_fails_by_name():
    with pytest.raises(pytest.fail.Exception, match=r"asks example\.org"):
        urlopen("http://example.org", timeout=0.01)


def test_this_machine_answers():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1])).close()


@pytest.mark.network
def test_one_that_is_marked_may_ask():
    with socket.socket() as plain, pytest.raises(OSError):
        plain.settimeout(0.01)
        plain.connect(("192.0.2.1", 9))  # an address that nobody has: RFC 5737
