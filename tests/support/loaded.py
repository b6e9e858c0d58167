"""A process that has torch already and forks for each submission: the sandbox without its walls.

For what is said about answers, not about walls: in a new process each submission waits a second
for torch. What runs is the same `inside/child.py`, with the same limits and a process for each
question, and what it can import is the same `box`.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

FORKS = """
import os, socket, sys
sys.path.insert(0, sys.argv[1])
from attnlabs.inside import child
asked = socket.socket(fileno=os.dup(0))
while True:
    word, given, *_ = socket.recv_fds(asked, 1, 2)
    if not word:
        break
    source, out = given
    if os.fork() == 0:
        asked.close()
        os.dup2(source, 0)
        os.dup2(out, 1)
        os.close(source)
        os.close(out)
        child.main()
        os._exit(0)
    os.close(source)
    os.close(out)
    while os.waitpid(-1, os.WNOHANG)[0]:
        pass
"""
LONGEST = 900  # seconds; a busy machine takes ten times as long, and a test counts on no clock


class Loaded:
    """`received` takes the place of the sandbox's."""

    def __init__(self, folder):
        self.asked, theirs = socket.socketpair()
        line = [sys.executable, "-I", "-c", FORKS, str(folder)]
        settings = {"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(line, stdin=theirs, env=settings | {"HOME": "/tmp"})
        theirs.close()

    def received(self, line, source, settings, questions, limits):
        """Everything that a process forked for this submission sends."""
        reads, writes = os.pipe()
        socket.send_fds(self.asked, [b"1"], [source.fileno(), writes])
        os.close(writes)
        sent, deadline = b"", time.monotonic() + LONGEST
        with os.fdopen(reads, "rb", 0) as pipe:
            while select.select([pipe], [], [], max(0, deadline - time.monotonic()))[0]:
                piece = pipe.read(1 << 16)
                if not piece:
                    return sent
                sent += piece
        raise TimeoutError(f"no end after {LONGEST} s: {sent[-200:]!r}")


@contextmanager
def loaded(folder):
    """The process, until nobody needs it any more."""
    one = Loaded(folder)
    try:
        yield one
    finally:
        one.asked.close()
        with suppress(ProcessLookupError):
            one.process.send_signal(signal.SIGKILL)
        one.process.wait()
