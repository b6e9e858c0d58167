"""Files that are replaced at once: whoever is stopped leaves the old one or the new one, whole."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path, folder: Path | None = None) -> Iterator[Path]:
    """A draft to write to. When the block ends it takes the place of `path`, in one act.

    If the block raises, the draft goes and `path` stays as it was. The draft lies beside `path`,
    or in `folder`, which must be on the same disk. An OSError, such as a full disk, names `path`.
    """
    draft = (folder or path.parent) / f"{path.name}.draft"
    try:
        yield draft
        with open(draft, "rb+") as written:
            os.fsync(written.fileno())  # first what is in it, then the name: power may fail
        os.replace(draft, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def store(path: Path, content: str | bytes, folder: Path | None = None) -> None:
    """Replace a file by this text, in UTF-8, or these bytes; see `replacing`."""
    with replacing(path, folder) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)
