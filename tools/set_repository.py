"""Move the book to another repository: make set-repository URL=https://github.com/owner/name

The address stands in `_config.yml`. What must repeat it follows here: the first cell of each
notebook, the links in the README and in CITATION.cff, the addresses of Colab and of the website.
"""

import re
import subprocess
import sys
from pathlib import Path

ADDRESS = re.compile(r"https://github\.com/([\w-]+)/([\w.-]*[\w-])")
CONFIGURED = re.compile(r"^  url: *(\S+)", re.MULTILINE)


def configured(root: Path = Path()) -> str:
    """The repository's address, from `_config.yml`."""
    found = CONFIGURED.search((root / "_config.yml").read_text(encoding="utf-8"))
    if not found:
        raise ValueError("_config.yml has no line `  url: https://github.com/owner/name`")
    return found[1]


def forms(address: str) -> list[str]:
    """The ways in which a text may name the repository."""
    match = ADDRESS.fullmatch(address)
    if not match or address.endswith(".git"):
        raise ValueError(f"{address!r} is not of the form https://github.com/owner/name")
    owner, name = match.groups()
    pages = f"{owner}.github.io"  # where a repository of that very name is published, too
    return [
        f"github.com/{owner}/{name}",
        f"colab.research.google.com/github/{owner}/{name}",
        pages if name.lower() == pages.lower() else f"{pages}/{name}",
    ]


def tracked(root: Path) -> dict[Path, bytes]:
    """The contents of all files that git knows here: {path: bytes}."""
    command = ["git", "ls-files", "-z", "--", "."]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if "_config.yml" not in answer.stdout.split("\0"):
        raise ValueError("git knows no _config.yml here; first: git init && git add -A")
    paths = [root / name for name in answer.stdout.split("\0") if name]
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise ValueError(
            f"git knows {', '.join(missing)}, which is not there; "
            "bring it back (git restore) or remove it from git too (git rm)"
        )
    return {path: path.read_bytes() for path in paths}


def set_repository(new: str, root: Path = Path()) -> list[Path]:
    """Rewrite every tracked text that names the repository; return the paths that changed.

    Everything is read before anything is written, and `_config.yml`, which says what the old
    address was, is written last: what was interrupted is finished by the same command.
    """
    follows = dict(zip(forms(configured(root)), forms(new), strict=True))
    old = "|".join(map(re.escape, follows)).encode()
    name = re.compile(rb"(?<![\w-])(" + old + rb")(?![\w-]|\.(?!git\b)\w)")
    changed = {}
    for path, before in tracked(root).items():
        after = name.sub(lambda match: follows[match[0].decode()].encode(), before)
        if after != before:
            changed[path] = after
    for path in sorted(changed, key=lambda path: path == root / "_config.yml"):
        path.write_bytes(changed[path])
    return list(changed)


def main() -> None:
    try:
        changed = set_repository(sys.argv[1])
    except (ValueError, OSError) as error:
        sys.exit(f"make set-repository: {error}")
    for path in changed:
        print(path)
    print(f"{len(changed)} files now follow {configured()}")


if __name__ == "__main__":
    main()
