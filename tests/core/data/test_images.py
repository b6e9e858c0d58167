"""Pictures: nothing is lost or mixed up between the file and the batch that a model reads."""

import io
import pickle
import tarfile

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import datasets
from torch.testing import assert_close

from attnbook.data import images, registry


def numbered(N=7, channels=2, rows=4, columns=5):
    """Random pictures whose label is their place."""
    generator = torch.Generator().manual_seed(3)
    size = (N, channels, rows, columns)
    pixels = torch.randint(256, size, generator=generator, dtype=torch.uint8)
    return images.Images("toy", pixels, torch.arange(N), pixels[:1], torch.arange(1), "abcdefg")


def test_digits_are_scikit_learns_each_once_and_with_its_label():
    data, theirs = images.digits(), datasets.load_digits()
    assert (len(data.train), len(data.test)) == (1400, 397)
    ours = [
        (tuple(picture.flatten().tolist()), int(label))
        for pixels, labels in [(data.train, data.train_labels), (data.test, data.test_labels)]
        for picture, label in zip(pixels, labels, strict=True)
    ]
    expected = [
        (tuple(row), label)
        for row, label in zip(theirs.data.astype(int).tolist(), theirs.target, strict=True)
    ]
    assert sorted(ours) == sorted(expected)
    assert (data.test_labels.bincount(minlength=10) > 25).all()  # no class is missing
    assert torch.equal(data.train, images.load().train)  # the same division every time


def test_standardised_pixels_have_mean_0_and_variance_1_in_each_channel():
    data = numbered()
    x = data.standardised(data.train)
    assert x.dtype == torch.float32
    assert_close(x.mean((0, 2, 3)), torch.zeros(2), atol=1e-6, rtol=0)
    assert_close(x.var((0, 2, 3), correction=0), torch.ones(2))


def test_a_photograph_is_colours_first_and_from_0_to_1():
    photo, theirs = images.photograph("flower.jpg"), datasets.load_sample_image("flower.jpg")
    assert photo.shape == (3, 427, 640) and photo.dtype == torch.float32
    assert np.array_equal((255 * photo).round().numpy(), theirs.transpose(2, 0, 1))


# -- batches ------------------------------------------------------------------------------------


@given(st.integers(1, 7), st.integers(0, 99))
def test_a_batch_holds_different_pictures_each_with_its_label(B, seed):
    data = numbered()
    x, labels = images.sampler(data, B)(torch.Generator().manual_seed(seed))
    assert len(set(labels.tolist())) == B
    assert torch.equal(x, data.standardised(data.train[labels]))


@given(st.integers(0, 2), st.booleans(), st.integers(0, 99))
def test_a_moved_picture_is_the_picture_elsewhere(shift, flip, seed):
    data = numbered()
    x, labels = images.sampler(data, 5, shift, flip)(torch.Generator().manual_seed(seed))
    wide = torch.nn.functional.pad(data.standardised(data.train), (shift,) * 4)
    for picture, label in zip(x, labels, strict=True):
        places = [(r, c) for r in range(2 * shift + 1) for c in range(2 * shift + 1)]
        windows = [wide[label, :, r : r + 4, c : c + 5] for r, c in places]
        windows += [window.flip(-1) for window in windows] if flip else []
        assert any(torch.equal(picture, window) for window in windows)


def test_every_move_and_both_sides_occur_and_one_picture_moves_as_a_whole():
    data = numbered(N=1, channels=2)
    sample, generator = images.sampler(data, 1, 1, True), torch.Generator().manual_seed(0)
    assert len({tuple(sample(generator)[0].flatten().tolist()) for _ in range(400)}) == 18


def test_the_middle_window_changes_nothing():
    x = torch.randn(3, 2, 4, 5)
    assert torch.equal(images.move(x, torch.full((3, 2), 2), 2), x)
    down = images.move(x, torch.tensor([[0, 1]]).expand(3, 2), 1)  # window up, content down
    assert torch.equal(down[:, :, 1:], x[:, :, :-1]) and (down[:, :, 0] == 0).all()


def test_the_sampler_continues_bitwise_from_the_generators_state():
    generator = torch.Generator().manual_seed(5)
    sample = images.sampler(numbered(), 3, 1, True)
    sample(generator)
    state = generator.get_state()
    first = sample(generator)
    generator.set_state(state)
    for one, other in zip(first, images.sampler(numbered(), 3, 1, True)(generator), strict=True):
        assert torch.equal(one, other)


def test_some_are_different_pictures_with_their_labels_and_the_test_stays():
    data = numbered()
    few = data.some(4, seed=1)
    assert len(set(few.train_labels.tolist())) == 4
    assert torch.equal(few.train, data.train[few.train_labels]) and few.test is data.test
    assert not torch.equal(few.train_labels, data.some(4, seed=2).train_labels)


# -- CIFAR-10 -------------------------------------------------------------------------------------


def archive(path):
    """A file in the form of the published one: five batches of two, one to test, and the names."""
    pixels = np.random.default_rng(0).integers(0, 256, (12, 3072), dtype=np.uint8)
    parts = {
        f"data_batch_{n + 1}": {b"data": pixels[2 * n : 2 * n + 2], b"labels": [n, n + 1]}
        for n in range(5)
    }
    parts["test_batch"] = {b"data": pixels[10:], b"labels": [7, 8]}
    parts["batches.meta"] = {b"label_names": [f"class {n}".encode() for n in range(10)]}
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as file:
        for name, part in parts.items():
            content = pickle.dumps(part)
            entry = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return pixels


def test_the_archive_is_read_in_order_red_green_blue(tmp_path, monkeypatch):
    path = tmp_path / images.ARCHIVE.name
    pixels = archive(path)
    monkeypatch.setattr(registry, "refuse_other_content", lambda *_: None)
    monkeypatch.setenv("ATTNBOOK_DATA", str(tmp_path))
    data = images.load("cifar10")
    assert data.name == "cifar10" and data.classes[9] == "class 9"
    assert np.array_equal(data.train.flatten(1).numpy(), pixels[:10])
    assert np.array_equal(data.test.flatten(1).numpy(), pixels[10:])
    assert data.train_labels.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert data.test_labels.tolist() == [7, 8]
    assert data.train[0, 1, 2, 3] == pixels[0, 1024 + 2 * 32 + 3]  # green, row 2, column 3


def test_a_wrong_archive_is_refused_before_it_is_unpickled(tmp_path, monkeypatch):
    archive(tmp_path / images.ARCHIVE.name)
    monkeypatch.setenv("ATTNBOOK_DATA", str(tmp_path))
    monkeypatch.setattr(pickle, "loads", lambda *_, **__: pytest.fail("unpickled"))
    with pytest.raises(ValueError, match=images.ARCHIVE.sha256):
        images.cifar10()


def test_a_wrong_compressed_copy_is_refused(tmp_path, monkeypatch):
    (tmp_path / images.JPEG.name).parent.mkdir()
    (tmp_path / images.JPEG.name).write_bytes(b"?")
    monkeypatch.setenv("ATTNBOOK_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=images.JPEG.sha256):
        images.cifar10()


@pytest.mark.slow
def test_the_real_images_say_which_copy_was_read(real_data):
    if not any((real_data / file.name).exists() for file in (images.ARCHIVE, images.JPEG)):
        pytest.skip("neither the archive nor its compressed copy is in ATTNBOOK_DATA")
    data = images.cifar10()
    assert data.name == (
        "cifar10" if (real_data / images.ARCHIVE.name).exists() else "cifar10-jpeg"
    )
    assert data.train.shape == (50_000, 3, 32, 32) and data.test.shape == (10_000, 3, 32, 32)
    assert data.train_labels.bincount().tolist() == [5000] * 10
    assert data.test_labels.bincount().tolist() == [1000] * 10
    assert list(data.classes[:2]) == ["airplane", "automobile"]
    assert_close(data.moments[0], torch.tensor([125.3, 123.0, 113.9]), atol=0.3, rtol=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: images.sampler(numbered(), 8), "batch of 8 cannot be drawn from 7 images"),
        (lambda: images.sampler(numbered(), 0), "batch of 0 cannot be drawn from 7 images"),
        (lambda: images.sampler(numbered(), 2, -1), "0 or more, not -1"),
        (lambda: numbered().some(8), "there are 7 training images, not 8"),
        (lambda: images.load("imagenet"), "no images 'imagenet'; there are 'digits', 'cifar10'"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
