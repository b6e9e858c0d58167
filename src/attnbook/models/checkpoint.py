"""The files of a published model: found in a folder or fetched, read, and refused if damaged."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from attnbook.models.config import only

SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"


def configuration(source: str | Path, kind: str | None = None) -> dict[str, Any]:
    """What config.json says, or the head of a GGUF file, if it is about a model of this kind, with
    weights as they are."""
    from attnbook.models import gguf_file

    path = gguf_file.of(source)
    if path is not None:
        config = gguf_file.configuration(path)
    else:
        path = find(source, "config.json")
        config = read_or_refuse(path, lambda path: json.loads(path.read_bytes()))
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds no settings but {config!r}")
    if kind is not None:
        only(config, "model_type", kind)
    only(config, "quantization_config", None)
    return config


def checkpoint(source: str | Path) -> Mapping[str, Tensor]:
    """All tensors by name, from one file or several. They stay on the disk until they are used."""
    from attnbook.models import gguf_file

    path = gguf_file.of(source)
    if path is not None:
        return gguf_file.Tensors(path)
    try:
        return SafeTensors(files(source, SAFE))
    except OSError as missing:
        try:
            paths = files(source, PICKLED)
        except OSError:
            raise missing from None
    return {
        name: tensor for path in paths for name, tensor in read_or_refuse(path, unpickle).items()
    }


def files(source: str | Path, name: str) -> list[Path]:
    """The file with the weights, or all of them: a large model comes in several files, and an index
    says in which. OSError if there is neither."""
    try:
        return [find(source, name)]
    except OSError as error:
        try:
            index = find(source, f"{name}.index.json")
        except OSError:
            raise error from None
    parts = read_or_refuse(index, lambda path: json.loads(path.read_bytes())["weight_map"].values())
    return [find(source, part) for part in sorted(set(parts))]


class SafeTensors(Mapping[str, Tensor]):
    """The tensors of safetensors files by name. Each is mapped from the disk when it is asked for,
    and let go with the last who uses it: beside these, `ENOUGH` bytes of one file stay in memory at
    most. `shapes` are known from the files' heads."""

    ENOUGH = 2**24  # one file is open, and anew after so many bytes, since that takes time as well

    def __init__(self, paths: Iterable[Path]):
        from safetensors import safe_open

        def shapes(path: Path) -> dict[str, tuple[int, ...]]:
            with safe_open(path, "pt") as file:
                names = file.keys()
                return {name: tuple(file.get_slice(name).get_shape()) for name in names}

        self.paths: dict[str, Path] = {}
        self.open: tuple[Path, Any, int] | None = None  # and what it has been asked for, in bytes
        self.shapes: dict[str, tuple[int, ...]] = {}
        for path in paths:
            found = read_or_refuse(path, shapes)
            self.paths |= dict.fromkeys(found, path)
            self.shapes |= found

    def __getitem__(self, name: str) -> Tensor:
        from safetensors import safe_open

        path = self.paths[name]
        if self.open is None or self.open[0] != path or self.open[2] >= self.ENOUGH:
            self.open = path, safe_open(path, "pt"), 0
        _, file, asked = self.open
        tensor: Tensor = file.get_tensor(name)
        self.open = path, file, asked + tensor.nbytes
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)


def shape_of(tensors: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """A tensor's shape, without its numbers where these have to be made first."""
    known = getattr(tensors, "shapes", None)
    return tuple(tensors[name].shape) if known is None else known[name]


def unpickle(path: Path) -> dict[str, Tensor]:
    """The tensors of a file in torch's own format. It may hold nothing else: what would run code
    when it is read is refused."""
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:  # files before torch 1.6 cannot be mapped
        found = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, Tensor)}


def read_or_refuse(path: Path, read: Callable[[Path], Any]) -> Any:
    """What `read` makes of a file, or a ValueError that names the file."""
    try:
        return read(path)
    except OSError:
        raise
    except Exception as error:  # each format has its own
        raise ValueError(f"{path} is damaged or incomplete: {error}") from error


def find(source: str | Path, name: str) -> Path:
    """Where a published file is: in a local folder, or where it was put when it was fetched.

    The path of a file in the folder stands for the folder. An OSError says what was looked for, and
    where.
    """
    folder = Path(source).expanduser()
    folder = folder.parent if folder.is_file() else folder
    if folder.is_dir():
        if not (folder / name).is_file():
            raise FileNotFoundError(f"the folder {folder} has no {name}")
        return folder / name
    if looks_like_a_path(str(source)):
        raise FileNotFoundError(f"there is no folder {folder}")
    return fetch(str(source), name)


def looks_like_a_path(source: str) -> bool:
    """A repository is called owner/name, or name alone; everything else can only be a path."""
    return source.startswith((".", "/", "~")) or source.count("/") > 1 or "\\" in source


def fetch(repository: str, name: str) -> Path:
    """The file from a Hugging Face repository, downloaded once."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

    try:
        return Path(hf_hub_download(repository, name, local_files_only=True))
    except (OSError, ValueError):
        pass  # not here yet, or no repository's name
    try:
        # Without network this says so at once; a download would try again for half a minute.
        get_hf_file_metadata(hf_hub_url(repository, name))
        return Path(hf_hub_download(repository, name))
    except Exception as error:  # no network, no such repository or file, a licence to accept first
        raise OSError(
            f"{repository} is no folder here, and its {name} could not be had from huggingface.co. "
            "Without network, give a folder that holds config.json and model.safetensors. "
            f"What was answered: {error}"
        ) from error
