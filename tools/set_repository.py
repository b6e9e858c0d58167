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


def configured(root=Path()):
    """The repository's address, from `_config.yml`."""
    return CONFIGURED.search((root / "_config.yml").read_text(encoding="utf-8"))[1]


def forms(address):
    """The ways in which a text may name the repository."""
    match = ADDRESS.fullmatch(address)
    if not match or address.endswith(".git"):
        raise ValueError(f"{address!r} is not of the form https://github.com/owner/name")
    owner, name = match.groups()
    return [
        f"github.com/{owner}/{name}",
        f".com/github/{owner}/{name}",
        f"{owner}.github.io/{name}",
    ]


def set_repository(new, root=Path()):
    """Rewrite every tracked text that names the repository; return the paths that changed."""
    pairs = list(zip(forms(configured(root)), forms(new), strict=True))
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, stdout=subprocess.PIPE, text=True, check=True
    )
    changed = []
    for path in map(root.joinpath, filter(None, listed.stdout.split("\0"))):
        before = path.read_bytes()
        after = before
        for old, wanted in pairs:
            after = re.sub(re.escape(old).encode() + rb"(?![\w-])", wanted.encode(), after)
        if after != before:
            path.write_bytes(after)
            changed.append(path)
    return changed


def main():
    try:
        changed = set_repository(sys.argv[1])
    except ValueError as error:
        sys.exit(f"make set-repository: {error}")
    for path in changed:
        print(path)
    print(f"{len(changed)} files now follow {configured()}")


if __name__ == "__main__":
    main()
