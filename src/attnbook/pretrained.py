"""Published weights in this module's models, and back: `load` reads what others trained, `save`
writes what `transformers` reads.

A folder's config.json says which family a model is of and how large; the recipe of that family is
built, and each published tensor is copied to its place. What the recipe does not compute is refused
by name, before any tensor is read.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

import torch
from torch import Tensor, nn

from attnbook.families.layout import Place, places
from attnbook.families.table import BUFFERS, FAMILIES, Family
from attnbook.published import checkpoint, configuration

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
SHOWN = 5  # names of a fault's tensors that a message lists


def load(
    source: str | Path, dtype: torch.dtype | str = torch.float32, kind: str | None = None
) -> nn.Module:
    """A published model with its weights, in evaluation mode.

    `source` is a folder with config.json and model.safetensors, the path of one of these files, or
    the name of a Hugging Face repository, which is fetched. `dtype` may be its name, "bfloat16".
    `kind` is the model_type that is expected, and taken for granted where config.json names none.
    Raises a ValueError that names what does not fit, before anything is copied.
    """
    dtype = of_name(dtype)
    config = configuration(source, kind)
    family = family_of({"model_type": kind} | config)
    model = family.build(config).to(dtype).eval()
    fill(where(model, family), checkpoint(source), family)
    return model


def load_gpt2(
    source: str | Path = "openai-community/gpt2", dtype: torch.dtype | str = torch.float32
) -> nn.Module:
    """`load` for GPT-2, also of its first files, which do not say what they are."""
    return load(source, dtype, "gpt2")


def load_bert(
    source: str | Path = "google-bert/bert-base-uncased", dtype: torch.dtype | str = torch.float32
) -> nn.Module:
    """`load` for BERT with the head that fills gaps."""
    return load(source, dtype, "bert")


def load_llama(source: str | Path, dtype: torch.dtype | str = torch.float32) -> nn.Module:
    """`load` for Llama and for what calls itself so."""
    return load(source, dtype, "llama")


def save(model: nn.Module, folder: str | Path, config: Mapping[str, object]) -> None:
    """The inverse of `load`: a folder that `transformers` can read.

    `config` is that of the model, as config.json has it; sizes that do not fit are refused.
    """
    from safetensors.torch import save_file

    config = dict(config)
    family = family_of(config)
    with torch.device("meta"):
        sizes = {name: p.shape for name, p in where(family.build(config), family).items()}
    tensors = {name: place.get().contiguous() for name, place in where(model, family).items()}
    wrong = [name for name in sizes.keys() | tensors if name not in tensors or name not in sizes]
    wrong += [n for n in sizes.keys() & tensors if tuple(tensors[n].shape) != sizes[n]]
    if wrong:
        raise ValueError(f"the config is of another model: {listed(sorted(wrong))} would not fit")
    config |= {"architectures": [family.architecture]}
    folder = Path(folder).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as unfinished:  # all of it, or nothing
        save_file(tensors, Path(unfinished) / "model.safetensors", metadata={"format": "pt"})
        text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
        (Path(unfinished) / "config.json").write_text(text, encoding="utf-8")
        for name in ("model.safetensors", "config.json"):
            os.replace(Path(unfinished) / name, folder / name)


def of_name(dtype: torch.dtype | str) -> torch.dtype:
    """The dtype of this name."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in DTYPES:
        raise ValueError(f"dtype is one of {', '.join(DTYPES)}; got {dtype!r}")
    return DTYPES[dtype]


def family_of(config: Mapping[str, object]) -> Family:
    """The family that config.json names."""
    kind = config.get("model_type")
    if kind not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise ValueError(f"no model of type {kind!r} can be read here; there are {known}")
    return FAMILIES[kind]


def where(model: nn.Module, family: Family) -> dict[str, Place]:
    """Published name: where in the model this tensor belongs."""
    return places(model, family.names(model) if callable(family.names) else family.names)


def fill(targets: Mapping[str, Place], tensors: Mapping[str, Tensor], family: Family) -> None:
    """Copy each published tensor to its place in a model: all of them, or none if one is wrong."""
    tensors = renamed(tensors, targets, family)
    needed = [name for name in targets if name in tensors or name not in family.lacking]
    extra = [
        name for name in tensors if name not in targets and not harmless(name, tensors, family)
    ]
    shapes = [
        f"{name} is {tuple(tensors[name].shape)}, the model needs {place.shape}"
        for name, place in targets.items()
        if name in tensors and tuple(tensors[name].shape) != place.shape
    ]
    faults = {
        "missing": [name for name in needed if name not in tensors],
        "unexpected": extra,
        "misshapen": shapes,
        "not a number in": [n for n in targets if n in tensors and tensors[n].isnan().any()],
    }
    if any(faults.values()):
        lines = [f"{fault}: {listed(names)}" for fault, names in faults.items() if names]
        raise ValueError("\n".join(["the checkpoint does not fit, nothing was copied", *lines]))
    for name in needed:
        targets[name].put(tensors[name])


def renamed(
    tensors: Mapping[str, Tensor], targets: Mapping[str, Place], family: Family
) -> dict[str, Tensor]:
    """The tensors under the names of today: the first files called a norm's parts gamma and beta,
    and a bare model's files lack the prefix of the model with its head."""
    new = {}
    for name, tensor in tensors.items():
        for old, now in ((".gamma", ".weight"), (".beta", ".bias")):
            first = name.endswith(old) and name not in targets
            name = name.removesuffix(old) + now if first else name
        bare = family.prefix and family.prefix + name in targets and name not in targets
        new[family.prefix + name if bare else name] = tensor
    return new


def harmless(name: str, tensors: Mapping[str, Tensor], family: Family) -> bool:
    """Is this tensor a buffer, a part for other tasks, or a second copy of a tied one?"""
    if any(fnmatch(name, pattern) for pattern in (*BUFFERS, *family.extra)):
        return True
    same = [n for n in tensors if n != name and tensors[n].shape == tensors[name].shape]
    return any(torch.equal(tensors[n], tensors[name]) for n in same if tensors[name].dim() == 2)


def listed(names: list[str]) -> str:
    """The first of many names, and how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
