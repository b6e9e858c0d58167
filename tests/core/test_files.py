"""A file that is replaced is the old one or the new one, whatever happens in between."""

import errno

import pytest

from attnbook.files import replacing, store


def test_text_and_bytes_are_stored_whole(tmp_path):
    path = tmp_path / "a.txt"
    store(path, "∞\n")
    assert path.read_bytes() == "∞\n".encode()
    store(path, b"\0")
    assert path.read_bytes() == b"\0" and list(tmp_path.iterdir()) == [path]


def test_who_is_stopped_half_way_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    store(path, "old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as draft:
        draft.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_names_the_file_that_was_wanted(tmp_path):
    path = tmp_path / "a.txt"
    expected = pytest.raises(OSError, match=r"No space left on device: '.*a\.txt'")
    with expected, replacing(path) as draft:
        draft.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_draft_may_lie_in_another_folder(tmp_path):
    """Whatever lies beside the file may be handed on with it, as by nbgrader."""
    (tmp_path / "lab").mkdir()
    with replacing(tmp_path / "lab" / "a.txt", tmp_path) as draft:
        draft.write_text("new")
        assert draft.parent == tmp_path and not list((tmp_path / "lab").iterdir())
    assert (tmp_path / "lab" / "a.txt").read_text() == "new"
