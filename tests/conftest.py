"""What all tests share: one thread, no display, the same examples in every run."""

import gc
import importlib.util
import ipaddress
import os
import shutil
import socket
import sys
import threading
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("book", deadline=None, derandomize=True)
settings.load_profile("book")
gc.set_threshold(50_000, 20, 20)  # of all that a worker has imported little is garbage


def of_this_machine(host):
    """Is the host this machine, by a name or an address?"""
    host = host.decode() if isinstance(host, bytes) else host
    if host in (None, "", "localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@pytest.fixture(autouse=True)
def nobody_else_is_asked(request, monkeypatch):
    """A test that reaches for another machine fails, wherever it runs and whatever is caught on the
    way: it would say something else tomorrow. One marked `network` may."""
    if request.node.get_closest_marker("network"):
        return
    look_up, connect = socket.getaddrinfo, socket.socket.connect

    def refuse(host):
        pytest.fail(f"this test asks {host}; if it has to, it is marked `network`")

    def look_up_here(host, *args, **kwargs):
        return look_up(host, *args, **kwargs) if of_this_machine(host) else refuse(host)

    def connect_here(self, address):
        other = self.family in (socket.AF_INET, socket.AF_INET6) and not of_this_machine(address[0])
        return refuse(address[0]) if other else connect(self, address)

    monkeypatch.setattr(socket, "getaddrinfo", look_up_here)
    monkeypatch.setattr(socket.socket, "connect", connect_here)


@pytest.fixture(autouse=True)
def numbers_are_printed_as_torch_prints_them():
    """Whatever a test before this one, a notebook's cell perhaps, set in the same process."""
    if torch := sys.modules.get("torch"):
        torch.set_printoptions(profile="default")


def pytest_collection_modifyitems(items):
    """What is looked at in Chromium is marked so: a quick `make test` leaves it out. On a busy
    machine the browser may draw later than a test looks: one that fails is tried once more, and
    the last line counts it as `rerun`. What is slow may take minutes there."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
            item.add_marker(pytest.mark.flaky(reruns=1))
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


def pytest_collection_finish():
    """What is there by now stays, and need not be looked through again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def root():
    """The top folder of the repository."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def script(root):
    """`script("results/images.py")` imports a program as Python would start it."""

    @cache
    def load(name):
        path = root / name
        spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(path.parent))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(path.parent))
        return module

    return load


@pytest.fixture(scope="session")
def need():
    """`need(condition, reason)` skips, or fails where the browser checks are required."""
    required = os.environ.get("ATTNBOOK_REQUIRE_BROWSER") == "1"

    def check(condition, reason):
        if not condition:
            (pytest.fail if required else pytest.skip)(reason)

    return check


@pytest.fixture(scope="session")
def chromium(need):
    """This machine's Chromium, driven by playwright, without its calls home."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    need(program, "no Chromium on this machine: install one or name it in CHROMIUM")
    api = pytest.importorskip("playwright.sync_api")
    silent = ["background-networking", "component-update", "gpu", "quic", "sync"]
    flags = ["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in silent)]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def blank(chromium):
    """`with blank(width=390) as page`: an empty page of a context with these settings.

    To open a context takes Chromium half a second, so it is kept for the next who asks for the
    same. What the page was is gone with its address: its scripts, its clocks, its elements.
    """
    kept = {}

    @contextmanager
    def blank(width=1200, height=844, color_scheme="light", **settings):
        free = kept.setdefault((color_scheme, *sorted(settings.items())), [])
        if not free:
            context = chromium.new_context(color_scheme=color_scheme, **settings)
            free.append(context.new_page())
        page = free.pop()
        page.set_viewport_size({"width": width, "height": height})
        try:
            yield page
            page.goto("about:blank")
            page.mouse.move(0, 0)
            page.emulate_media(media="screen", color_scheme=color_scheme)
        except BaseException:  # in whatever state it is left, nobody else gets it
            page.context.close()
            raise
        free.append(page)

    return blank


@pytest.fixture(scope="session")
def site(need, root):
    """The folder of the built website."""
    folder = Path(os.environ.get("ATTNBOOK_SITE", root / "_build/html")).resolve()
    need((folder / "index.html").exists(), f"there is no site in {folder}: make book")
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def visit(chromium, site):
    """`with visit("book/index.html") as page`: a page of the site, from a server of this machine.

    `page.requests` are all addresses that it asked for.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ready = "async () => { if (window.MathJax?.startup) await MathJax.startup.promise }"

    @contextmanager
    def visit(name, width=1366, height=900, init="", wait=True, **settings):
        size = {"width": width, "height": height}
        context = chromium.new_context(viewport=size, reduced_motion="reduce", **settings)
        context.add_init_script(init)
        page = context.new_page()
        page.requests = []
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(f"http://127.0.0.1:{server.server_port}/{name}")
        if wait:
            page.evaluate(ready)
        yield page
        context.close()

    yield visit
    server.shutdown()
