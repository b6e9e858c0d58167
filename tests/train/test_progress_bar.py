"""The bar is there while somebody watches, and leaves nothing behind."""

import io
import sys

import pytest
from jupyter_client.manager import start_new_kernel

from attnbook.train import progress_bar

LOOP = """
from attnbook.train.progress_bar import ProgressBar
bar = ProgressBar(3, pause=0)
for step in range(4):
    bar.draw(step, [0.5])
bar.close()
"""


class Terminal(io.StringIO):
    def isatty(self):
        return True


def draw(steps, pause=0.0, wanted=True):
    bar = progress_bar.ProgressBar(steps, wanted=wanted, pause=pause)
    for step in range(steps + 1):
        bar.draw(step, [1.25])
    bar.close()


def test_in_a_terminal_one_line_is_rewritten_and_at_the_end_empty(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress_bar, "output_kind", lambda: "terminal")
    draw(12)
    frames = sys.stderr.getvalue().split("\r")
    assert frames[1].startswith("step 1 of 12 · about") and frames[1].endswith("loss 1.250")
    assert frames[12].startswith("step 12 of 12 · about 0 s left")
    assert frames[-2].strip() == "" and frames[-1] == ""
    assert len(frames[-2]) >= max(len(frame.rstrip()) for frame in frames[10:13])


def test_it_is_not_drawn_more_often_than_anybody_reads(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress_bar, "output_kind", lambda: "terminal")
    draw(500, pause=60)
    assert sys.stderr.getvalue() == ""


def test_it_is_not_drawn_where_it_is_not_wanted(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress_bar, "output_kind", lambda: "terminal")
    draw(5, wanted=False)
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize(("stream", "where"), [(Terminal(), "terminal"), (io.StringIO(), None)])
def test_a_terminal_is_watched_and_a_file_is_not(monkeypatch, stream, where):
    monkeypatch.setattr(sys, "stderr", stream)
    assert progress_bar.output_kind() == where


@pytest.fixture(scope="module")
def kernel():
    manager, client = start_new_kernel(kernel_name="python3")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def outputs(kernel, code, person):
    """What a cell leaves behind, and how often it was redrawn."""
    stored, updates = [], 0

    def hook(message):
        nonlocal updates
        kind, content = message["msg_type"], message["content"]
        if kind == "update_display_data":
            updates += 1
            stored[-1] = content["data"]
        elif kind in ("display_data", "execute_result", "stream", "error", "clear_output"):
            stored.append(content.get("data", content))

    kernel.execute_interactive(code, allow_stdin=person, output_hook=hook, timeout=60)
    return stored, updates


def test_a_person_before_a_notebook_sees_it_until_it_is_done(kernel):
    stored, updates = outputs(kernel, LOOP, person=True)
    assert updates == 3  # steps 2 and 3, and the empty end
    assert [bundle["text/html"] for bundle in stored] == [""]


def test_a_notebook_that_nobody_watches_stores_no_trace_of_it(kernel):
    assert outputs(kernel, LOOP, person=False) == ([], 0)
