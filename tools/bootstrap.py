"""Make .venv hold what a make target needs: python tools/bootstrap.py book|test

`book` installs book/requirements.txt, `test` adds requirements.txt. A stamp written at the
very end says what .venv holds; without it .venv is taken for unfinished and made anew.
This file runs before anything is installed and must parse on any Python, however old.
"""

from __future__ import print_function

import hashlib
import os
import shlex
import shutil
import subprocess
import sys

OLDEST = (3, 10)
LOCKS = {"book": ["book/requirements.txt"], "test": ["book/requirements.txt", "requirements.txt"]}
PYTHON = os.path.join(".venv", "bin", "python")
STAMP = os.path.join(".venv", "complete")
LOG = os.path.join(".venv", "install.log")
NO_NETWORK = "the package index cannot be reached; is there a network?"
REASONS = [  # what pip or the system says, and what it means
    ("No space left on device", "the disk is full"),
    ("Failed to establish a new connection", NO_NETWORK),
    ("Failed to resolve", NO_NETWORK),
    ("Temporary failure in name resolution", NO_NETWORK),
    ("Max retries exceeded", NO_NETWORK),
    ("timed out", NO_NETWORK),
    ("No matching distribution", "a package in the lock has no build for this Python or system"),
]
# With these words pip begins a step: whatever it complained of before has been overcome.
STEPS = ("Collecting", "Downloading", "Using cached", "Obtaining", "Processing", "Installing")


class Failure(Exception):
    """Says in one sentence what is wrong and what to do."""


def check_python():
    version = sys.version_info[:2]
    if version < OLDEST:
        raise Failure(
            "Python %d.%d or newer is needed and %s is %d.%d; if there is a newer one, name it: "
            "make %s PYTHON=python3.12" % (OLDEST + (sys.executable,) + version + (sys.argv[1],))
        )
    try:
        import ensurepip  # noqa: F401  (Debian ships venv without it)
        import venv  # noqa: F401
    except ImportError:
        raise Failure(
            "%s has no venv module; on Debian or Ubuntu: sudo apt install python3-venv"
            % sys.executable
        )


def wanted(level):
    """What the stamp says when .venv holds this level: it changes with the locks and the place."""
    digest = hashlib.sha256(os.getcwd().encode("utf-8"))
    for lock in LOCKS[level]:
        with open(lock, "rb") as file:
            digest.update(file.read())
    return "%s %s" % (level, digest.hexdigest())


def held():
    """The stamp, or None: no .venv, an unfinished one, or another Python than the one asked for."""
    library = os.path.join(".venv", "lib", "python%d.%d" % sys.version_info[:2])
    if os.environ.get("PYTHON") and not os.path.isdir(library):
        return None
    if not os.path.exists(PYTHON) or not os.path.exists(STAMP):
        return None
    with open(STAMP) as file:
        return file.read()


def run(command):
    """Run a command: all its messages go to the log, a terminal shows the step it is at."""
    said = [""]  # since the last step
    with open(LOG, "a") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True
        )
        for line in process.stdout:
            log.write(line)
            if line.strip().startswith(STEPS):
                said = []
                show("  " + line.strip())
            said.append(line.strip())
        show("")
    if process.wait():
        text = "\n".join(said).strip()
        last = text.split("\n")[-1] or "exit status %d" % process.returncode
        reason = next((why for sign, why in REASONS if sign in text), last)
        raise Failure("installing failed: %s (all messages: %s)" % (reason, LOG))


def show(line):
    if sys.stdout.isatty():
        print("\r\033[K" + line[:78], end="")
        sys.stdout.flush()


def ensure(level):
    before = held()
    if before in (wanted(level), wanted("test")):
        return
    check_python()
    print("Installing into .venv, once (all messages: %s)" % LOG)
    sys.stdout.flush()
    if before == wanted("book"):
        os.remove(STAMP)
    else:
        shutil.rmtree(".venv", ignore_errors=True)
        os.mkdir(".venv")
        run([sys.executable, "-m", "venv", ".venv"])
    arguments = shlex.split(os.environ.get("PIP_ARGS", ""))
    install = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--no-input"]
    run(install + ["-r", LOCKS[level][-1]] + arguments)
    with open(STAMP, "w") as file:
        file.write(wanted(level))


if __name__ == "__main__":
    try:
        ensure(sys.argv[1])
    except (Failure, EnvironmentError) as failure:
        sys.exit("make %s: %s" % (sys.argv[1], failure))
    except KeyboardInterrupt:
        sys.exit("\nStopped. The next make starts the installation over.")
