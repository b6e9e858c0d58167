"""Say whether the website in _build was made of the files as they are now.

    python tools/whole.py          exit status 0 if so
    python tools/whole.py whole    … and from nothing
    python tools/whole.py --note [whole]   after such a build: note the files

Then it need not be built again. Outside a git repository it is never so.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

NOTE, PAGE = Path("_build/whole"), Path("_build/html/index.html")


def files() -> str:
    """A digest of the name and the content of each file that git does not ignore, or ""."""
    asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(asked, capture_output=True, text=True)
    digest = hashlib.sha256()
    for path in sorted(set(found.stdout.split("\0")) - {""}):
        content = Path(path).read_bytes() if Path(path).is_file() else b"removed"
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return "" if found.returncode else digest.hexdigest()


def main() -> None:
    """Note the files, or compare them with the note."""
    now, whole = files(), sys.argv[-1] == "whole"
    if "--note" in sys.argv[1:]:
        NOTE.write_text(f"{now} whole" if whole else now, encoding="utf-8")
        return
    noted = NOTE.read_text(encoding="utf-8") if NOTE.exists() and PAGE.exists() else ""
    sys.exit(0 if now and noted in [f"{now} whole", now][: 1 if whole else 2] else 1)


if __name__ == "__main__":
    main()
