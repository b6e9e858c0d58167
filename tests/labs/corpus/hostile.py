"""What a student may hand in to disturb a grading, or by mistake: code, and files."""

DEF = "def scores(q, k):\n    "
# What a function may try; each would get 0 points on its question, the next question all of them.
TRIES = {
    "endless": "while True: pass",
    "sleeps": "import time; time.sleep(1000)",
    "catches everything": "\n    while True:\n        try:\n            while True: pass\n"
    "        except BaseException: pass",
    "forks": "import os\n    while True: os.fork()",
    "memory": "return [bytearray(1 << 28) for _ in range(100)]",
    "tensors": "return torch.ones(1 << 20, 1 << 12)",
    "shared memory": "import mmap\n    held = mmap.mmap(-1, 3 << 30)\n    block = bytes(1 << 26)\n"
    "    for n in range(48): held[n << 26 : n + 1 << 26] = block\n    return q @ k.mT",
    "memory of many": "import os, time\n    for _ in range(5):\n        if os.fork() == 0:\n"
    "            held = bytearray(b'a') * (900 << 20); time.sleep(9)\n    time.sleep(9); return q",
    "large result": "return torch.ones(1 << 22)",
    "os._exit": "import os; os._exit(0)",
    "sys.exit": "raise SystemExit(0)",
    "crash": "import ctypes; ctypes.string_at(0)",
    "recursion": "return scores(q, k)",
    "deep recursion": "import sys; sys.setrecursionlimit(10**9); return scores(q, k)",
    "stops its parent": "import os; os.kill(os.getppid(), 19); return q @ k.mT",
    "kills all": "import os, signal; os.kill(-1, signal.SIGKILL); return q @ k.mT",
    "prints": "[print('a' * 10**6) for _ in range(100)]; return q",
    "fills the disk": "[open(f'/tmp/{n}', 'wb').write(bytes(1 << 24)) for n in range(100)]",
    "equals everything": "\n    class Yes:\n        shape = (3, 5)\n"
    "        def __eq__(self, other): return True\n        def __array__(self, *a): return self\n"
    "    return Yes()",
    "subclass": "\n    class T(torch.Tensor):\n        __torch_function__ = classmethod(print)\n"
    "    return torch.zeros(3, 5).as_subclass(T)",
    "writes to the pipe": "import os\n    for fd in range(3, 64):\n        try: os.write(fd, b'{}')"
    "\n        except OSError: pass\n    return q @ k.mT",
    "reads the grader": "import attnlabs.question\n    return q",
    "reads the grading": "import attnlabs.grading.grade\n    return q",
    "reads answers": "from attnbook.attention import scaled_dot_scores as f; return f(q, k)",
    "network": "import socket; socket.create_connection(('1.1.1.1', 53), 2)",
    "objects": "return [object(), 'right', None]",
    "nothing": "return None",
}


def broken():
    """Files that are no notebook, or hardly one."""
    deep = b'{"cells": ' + b"[" * 100_000
    return {
        "empty": b"",
        "spaces": b"   \n",
        "text": b"my answers are in the mail",
        "half": b'{"cells": [{"cell_type": "code", "sou',
        "deep": deep,
        "no cells": b'{"nbformat": 4}',
        "a list": b"[1, 2, 3]",
        "cells of nothing": b'{"cells": [null, 3, {}]}',
        "binary": bytes(range(256)) * 40,
        "pdf": b"%PDF-1.7 \xff\xfe",
        "latin": '{"cells": "é"}'.encode("latin-1"),
    }
