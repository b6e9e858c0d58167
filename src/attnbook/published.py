"""The files of a published model: found in a folder or fetched, read, and refused if damaged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor


def configuration(source: str | Path, kind: str) -> dict[str, Any]:
    """What config.json says, if it is about a model of this kind."""
    config = undamaged(find(source, "config.json"), lambda path: json.loads(path.read_bytes()))
    only(config, "model_type", kind)
    only(config, "quantization_config", None)
    return config


def read(config: dict[str, Any], *names: str) -> list[Any]:
    """These settings, or a ValueError that says which are missing."""
    missing = [name for name in names if name not in config]
    if missing:
        raise ValueError(f"config.json does not say what these are: {', '.join(missing)}")
    return [config[name] for name in names]


def only(config: dict[str, Any], name: str, *values: Any) -> None:
    """Raise a ValueError unless the setting is one of the values, or not there at all."""
    if name in config and config[name] not in values:
        supported = " or ".join(repr(value) for value in values)
        raise ValueError(f"config.json has {name} = {config[name]!r}; supported is {supported}")


def checkpoint(source: str | Path) -> dict[str, Tensor]:
    """All tensors by name, from one file or several. They stay on the disk until they are used."""
    from safetensors.torch import load_file

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

    An OSError says what was looked for, and where.
    """
    if Path(source).is_dir():
        if not (Path(source) / name).is_file():
            raise FileNotFoundError(f"the folder {source} has no {name}")
        return Path(source) / name
    return fetch(str(source), name)


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
