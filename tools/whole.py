"""Say whether the website in _build was made from nothing, of the files as they are now.

    python tools/whole.py          exit status 0 if so
    python tools/whole.py --note   after such a build: note the files

Then it need not be built from nothing again. Outside a git repository it is never so.
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
    now = files()
    if "--note" in sys.argv[1:]:
        NOTE.write_text(now, encoding="utf-8")
        return
    noted = NOTE.read_text(encoding="utf-8") if NOTE.exists() and PAGE.exists() else ""
    sys.exit(0 if now and now == noted else 1)


if __name__ == "__main__":
    main()
