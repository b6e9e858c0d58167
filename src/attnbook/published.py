"""The files of a published model: found in a folder or fetched, read, and refused if damaged."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor


def configuration(source: str | Path, kind: str | None = None) -> dict[str, Any]:
    """What config.json says, if it is about a model of this kind, with weights as they are."""
    path = find(source, "config.json")
    config = undamaged(path, lambda path: json.loads(path.read_bytes()))
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds no settings but {config!r}")
    if kind is not None:
        only(config, "model_type", kind)
    only(config, "quantization_config", None)
    return config


def read(config: Mapping[str, Any], *names: str) -> list[Any]:
    """These settings, or a ValueError that says which are missing."""
    missing = [name for name in names if name not in config]
    if missing:
        raise ValueError(f"config.json does not say what these are: {', '.join(missing)}")
    return [config[name] for name in names]


def only(config: Mapping[str, Any], name: str, *values: Any) -> None:
    """Raise a ValueError unless the setting is one of the values, or not there at all."""
    if name in config and config[name] not in values:
        supported = " or ".join(repr(value) for value in values)
        raise ValueError(f"config.json has {name} = {config[name]!r}; supported is {supported}")


def checkpoint(source: str | Path) -> dict[str, Tensor]:
    """All tensors by name, from one file or several. They stay on the disk until they are used."""
    from safetensors.torch import load_file

    refuse_pickles(source)
    try:
        paths = [find(source, "model.safetensors")]
    except OSError as error:  # a large model comes in several files, and an index says in which
        try:
            index = find(source, "model.safetensors.index.json")
        except OSError:
            raise error from None
        names = undamaged(index, lambda path: json.loads(path.read_bytes())["weight_map"].values())
        paths = [find(source, name) for name in sorted(set(names))]
    return {name: tensor for path in paths for name, tensor in undamaged(path, load_file).items()}


def undamaged(path: Path, read: Callable[[Path], Any]) -> Any:
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


def refuse_pickles(source: str | Path) -> None:
    """Raise a ValueError if a folder holds weights in the old format alone, which can run code."""
    folder = Path(source).expanduser()
    folder = folder.parent if folder.is_file() else folder
    old = sorted(folder.glob("pytorch_model*.bin")) if folder.is_dir() else []
    if old and not any(folder.glob("*.safetensors")):
        raise ValueError(
            f"{folder} has its weights in {old[0].name} alone, a format that can run code when it "
            "is read; write them anew as model.safetensors (transformers: from_pretrained, then "
            "save_pretrained)"
        )


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
