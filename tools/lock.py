"""Write both lock files anew from pyproject.toml: `make lock`. The maintainer who does it needs uv.

book/requirements.txt holds what the website needs, requirements.txt the rest. Both hold for
Python 3.10 to 3.13 on Linux, which includes WSL, and on macOS. The CUDA packages of torch are
left out: pip takes them with torch's CUDA build, and a machine without GPU has no use for them.
"""

import re
import subprocess
from pathlib import Path

CONSTRAINTS = "torch==2.13.0\nnumpy<2.5"  # newer numpy has no Python 3.11
CUDA = re.compile(r"nvidia-|cuda-|triton=")
HEADER = "# {} Exact, for Python 3.10 to 3.13. Written by `make lock`.\n"


def resolve(*what: str) -> dict[str, list[str]]:
    """The packages needed, dependencies included: {name: its lines `name==version ; marker`}."""
    command = "uv pip compile --quiet --universal --python-version 3.10 --no-annotate --no-header"
    answer = subprocess.run(
        [*command.split(), "--constraint", "-", *what],
        input=CONSTRAINTS,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    packages: dict[str, list[str]] = {}
    for line in answer.stdout.splitlines():
        if not CUDA.match(line):
            packages.setdefault(line.split("==")[0], []).append(line)
    return packages


def main() -> None:
    everything = resolve("pyproject.toml", "--extra", "dev", "--group", "site")
    site = resolve("--group", "site")
    here = [line for name in everything if name in site for line in everything[name]]
    rest = [line for name in everything if name not in site for line in everything[name]]
    head = HEADER.format("What the website needs.")
    Path("book/requirements.txt").write_text(head + "\n".join(here) + "\n")
    head = HEADER.format("Everything: the website's packages, and the rest.")
    head += "-r book/requirements.txt\n--editable .\n"
    Path("requirements.txt").write_text(head + "\n".join(rest) + "\n")
    print(f"book/requirements.txt: {len(here)} lines, requirements.txt: {len(rest)} more")


if __name__ == "__main__":
    main()
