"""Only the right file counts, whatever happens on the way. The server is on this machine."""

import hashlib
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pooch
import pytest

from attnbook.data import registry

CONTENT = bytes(range(256)) * 200
OTHER = CONTENT[:-1] + b"?"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `content` in one of several ways and counts how often it was asked."""

    content, announced, status, stalls, asked = CONTENT, len(CONTENT), 200, False, 0

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.release, self.started = threading.Event(), threading.Event()


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.asked += 1
        self.send_response(server.status)
        if server.announced is not None:
            self.send_header("Content-Length", str(server.announced))
        self.end_headers()
        half = len(server.content) // 2
        self.wfile.write(server.content[:half])
        self.wfile.flush()
        if server.stalls:
            server.started.set()
            server.release.wait(20)
        self.wfile.write(server.content[half:])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.release.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def file(server, tmp_path, monkeypatch):
    """A registered file whose address is the local server's, and an empty cache."""
    address = f"http://127.0.0.1:{server.server_port}/small.bin"
    file = registry.File("toy/small.bin", address, len(CONTENT), SHA256, "none", "nobody")
    monkeypatch.setattr(registry, "FILES", {file.name: file})
    monkeypatch.setattr(registry, "cache", lambda: tmp_path / "cache")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("ATTNBOOK_DATA", raising=False)
    return file


def kept(tmp_path):
    """All files in the cache."""
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_file_is_downloaded_once_with_a_progress_bar(file, server, tmp_path, capfd):
    paths = [registry.fetch(file.name) for _ in range(3)]
    assert paths == [tmp_path / "cache" / "toy" / "small.bin"] * 3
    assert paths[0].read_bytes() == CONTENT and server.asked == 1
    assert "100%" in capfd.readouterr().err


def test_own_folder_is_searched_first(file, server, tmp_path, monkeypatch):
    registry.fetch(file.name)  # now it is in the cache too
    own = tmp_path / "own" / file.name
    own.parent.mkdir(parents=True)
    own.write_bytes(CONTENT)
    monkeypatch.setenv("ATTNBOOK_DATA", str(tmp_path / "own"))
    assert registry.fetch(file.name) == own and server.asked == 1


def test_a_file_that_the_own_folder_lacks_comes_from_the_cache(file, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNBOOK_DATA", str(tmp_path))
    assert registry.fetch(file.name).is_relative_to(tmp_path / "cache")


def test_a_wrong_file_in_the_own_folder_is_refused_and_left_alone(
    file, server, tmp_path, monkeypatch
):
    own = tmp_path / "own" / file.name
    own.parent.mkdir(parents=True)
    own.write_bytes(OTHER)
    monkeypatch.setenv("ATTNBOOK_DATA", str(tmp_path / "own"))
    with pytest.raises(ValueError) as error:
        registry.fetch(file.name)
    for part in (str(own), SHA256, hashlib.sha256(OTHER).hexdigest(), file.address):
        assert part in str(error.value)
    assert own.read_bytes() == OTHER and server.asked == 0 and not kept(tmp_path)


@pytest.mark.parametrize("content", [OTHER, CONTENT[:999], b""], ids=["other", "short", "empty"])
def test_wrong_content_is_refused_with_both_hashes_and_not_kept(file, server, tmp_path, content):
    server.content, server.announced = content, None
    with pytest.raises(ValueError) as error:
        registry.fetch(file.name)
    assert SHA256 in str(error.value) and hashlib.sha256(content).hexdigest() in str(error.value)
    assert not kept(tmp_path)


def test_a_transfer_that_breaks_off_never_counts_and_the_next_one_does(file, server, tmp_path):
    server.content = CONTENT[: len(CONTENT) // 3]  # fewer bytes than announced
    with pytest.raises((FileNotFoundError, ValueError)):
        registry.fetch(file.name)
    assert not kept(tmp_path)
    server.content = CONTENT
    assert registry.fetch(file.name).read_bytes() == CONTENT


def test_ctrl_c_leaves_nothing_and_the_next_call_downloads(file, server, tmp_path, monkeypatch):
    def interrupted(self, url, output_file, *_):
        with open(output_file, "wb") as half:
            half.write(CONTENT[:1000])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pooch.HTTPDownloader, "__call__", interrupted)
        registry.fetch(file.name)
    assert not kept(tmp_path)
    assert registry.fetch(file.name).read_bytes() == CONTENT


def test_what_a_killed_process_left_behind_never_counts(file, server, tmp_path):
    program = (
        "import sys; from pathlib import Path; from attnbook.data import registry\n"
        "name, address, sha256, cache = sys.argv[1:]\n"
        "registry.FILES = {name: registry.File(name, address, 1, sha256, '', '')}\n"
        "registry.cache = lambda: Path(cache)\n"
        "registry.fetch(name)\n"
    )
    server.stalls = True
    arguments = [file.name, file.address, SHA256, str(tmp_path / "cache")]
    process = subprocess.Popen([sys.executable, "-c", program, *arguments])
    assert server.started.wait(20)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.stalls = False
    server.release.set()
    assert tmp_path / "cache" / file.name not in kept(tmp_path)
    assert registry.fetch(file.name).read_bytes() == CONTENT


def test_several_fetches_at_once_all_get_the_whole_file(file, server):
    together = threading.Barrier(5)

    def fetch(_):
        together.wait()
        return registry.fetch(file.name).read_bytes()

    with ThreadPoolExecutor(5) as pool:
        assert list(pool.map(fetch, range(5))) == [CONTENT] * 5


def test_a_damaged_file_in_the_cache_is_downloaded_again(file, server):
    path = registry.fetch(file.name)
    path.write_bytes(OTHER)
    assert registry.fetch(file.name).read_bytes() == CONTENT and server.asked == 2


def test_without_network_one_error_says_what_to_do(file, tmp_path, monkeypatch, server):
    away = replace(file, address="http://127.0.0.1:9/small.bin")  # nobody listens on port 9
    monkeypatch.setattr(registry, "FILES", {file.name: away})
    with pytest.raises(FileNotFoundError) as error:
        registry.fetch(file.name)
    place = str(tmp_path / "cache" / "toy" / "small.bin")
    for part in (file.name, away.address, place, "ATTNBOOK_DATA", f"{len(CONTENT):,} bytes"):
        assert part in str(error.value)
    assert not kept(tmp_path)


def test_an_address_that_is_gone_is_the_same_error(file, server, tmp_path):
    server.status = 404
    with pytest.raises(FileNotFoundError, match=re.escape(file.address)):
        registry.fetch(file.name)
    assert not kept(tmp_path)


def test_an_unknown_name_is_answered_with_the_known_ones(file):
    with pytest.raises(ValueError, match=r"'toy/large.bin'.*'toy/small.bin'"):
        registry.fetch("toy/large.bin")


def test_a_missing_own_folder_is_not_passed_over(file, server, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNBOOK_DATA", str(tmp_path / "typo"))
    with pytest.raises(ValueError, match="typo"):
        registry.fetch(file.name)
    assert server.asked == 0


@pytest.mark.parametrize("name", registry.FILES)
def test_an_entry_says_all_that_a_reader_needs(name):
    file = registry.FILES[name]
    assert name == file.name and file.address.startswith("https://")
    assert file.address.rsplit("/", 1)[1] == name.rsplit("/", 1)[1]
    assert re.fullmatch("[0-9a-f]{64}", file.sha256) and file.size > 0
    assert file.licence and file.cite


def test_the_registry_describes_the_real_files(real_data):
    for name, file in registry.FILES.items():
        if (real_data / name).exists():
            assert registry.fetch(name).stat().st_size == file.size
