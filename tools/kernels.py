"""Run a command in which the kernels of notebooks start at once.

    python tools/kernels.py python -m pytest --nbval --nbval-kernel-name forked book/01-….ipynb

A kernel needs three seconds of a core until torch, matplotlib and IPython are imported. Here one
process imports them, and each kernel of the name `forked` is a copy of it that has run nothing yet.
Unix only, as `fork` is.
"""

import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

IMPORTS = "ipykernel.kernelapp", "matplotlib.figure", "matplotlib.backends.backend_agg", "torch"
ADDRESS = "ATTNBOOK_KERNELS"


def run(command: list[str]) -> int:
    """The command's exit status; the kernels end with it."""
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder, "socket"))
        kernel = Path(folder, "kernels", "forked", "kernel.json")
        kernel.parent.mkdir(parents=True)
        start = [sys.executable, "-S", "-E", __file__, "--kernel", "{connection_file}"]
        spec = {"argv": start, "display_name": "Python", "language": "python"}
        kernel.write_text(json.dumps(spec))
        ready, said = os.pipe()
        maker = os.fork()
        if not maker:
            os.close(ready)
            make_kernels(address, said)
        os.close(said)
        os.read(ready, 1)  # or nothing, if the maker has ended
        paths = os.pathsep.join(filter(None, [folder, os.environ.get("JUPYTER_PATH")]))
        try:
            asked = os.environ | {ADDRESS: address, "JUPYTER_PATH": paths}
            return subprocess.run(command, env=asked).returncode
        finally:
            os.kill(maker, signal.SIGTERM)
            os.waitpid(maker, 0)


def make_kernels(address: str, said: int) -> NoReturn:
    """Import what kernels need, then be copied whenever one is asked for."""
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as a kernel sets it
    sys.path.remove(str(Path(__file__).parent))
    for name in IMPORTS:
        __import__(name)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # what it has made ends with its starter
    door = socket.socket(socket.AF_UNIX)
    door.bind(address)
    door.listen()
    os.write(said, b"!")
    ready = selectors.DefaultSelector()
    ready.register(door, selectors.EVENT_READ)
    kernels: dict[int, socket.socket] = {}
    while True:
        for key, _ in ready.select(0.05):
            if key.fileobj is door:
                starter, _ = door.accept()
                asked, files, _, _ = socket.recv_fds(starter, 2**20, 3)
                pid = os.fork()
                if not pid:
                    be_kernel(json.loads(asked), files)
                for file in files:
                    os.close(file)
                kernels[pid] = starter
                ready.register(starter, selectors.EVENT_READ, pid)
            elif key.data in kernels:
                interrupted = kernels[key.data].recv(1)
                os.kill(key.data, signal.SIGINT if interrupted else signal.SIGKILL)
        while kernels and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            starter = kernels.pop(ended[0])
            ready.unregister(starter)
            starter.close()


def be_kernel(asked: dict, files: list[int]) -> NoReturn:
    """What `python -m ipykernel_launcher` does, once all is imported."""
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for file, number in zip(files, (0, 1, 2), strict=True):
            os.dup2(file, number)
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["folder"])
        random.seed()  # the copies are not to draw the same
        sys.modules["numpy"].random.seed()
        sys.modules["ipykernel.kernelapp"].launch_new_instance(argv=["-f", asked["connection"]])
        status = 0
    finally:
        os._exit(status)


def start_kernel(connection: str) -> None:
    """Ask for a kernel and stay as long as it does; what interrupts this interrupts it."""
    with socket.socket(socket.AF_UNIX) as maker:
        maker.connect(os.environ[ADDRESS])
        asked = {"connection": connection, "folder": os.getcwd(), "environment": dict(os.environ)}
        signal.signal(signal.SIGINT, lambda *_: maker.send(b"i"))
        socket.send_fds(maker, [json.dumps(asked).encode()], [0, 1, 2])
        maker.recv(1)  # until it is closed


if __name__ == "__main__":
    if sys.argv[1] == "--kernel":
        start_kernel(sys.argv[2])
    else:
        sys.exit(run(sys.argv[1:]))
