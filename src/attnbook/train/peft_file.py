"""LoRA's weights in the format of the library `peft`: what was learned here is used by
`transformers`, and the other way about.

A map of ours may be several of theirs: queries, keys and values share one matrix here, and so one
thin `down`. Written, each of theirs has a copy of it, which is exact. Read, theirs stand beside
each other: three of rank r are one of rank 3 r here.
"""

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from attnbook.models.config import only, read
from attnbook.models.hub import family_of
from attnbook.models.layout import Place, one_after_the_other, template, transposed
from attnbook.models.registry import Family
from attnbook.quantise.rounding import QuantisedLinear
from attnbook.train.lora import LowRank, adapters

WEIGHTS, SETTINGS = "adapter_model.safetensors", "adapter_config.json"


def save_adapters(model: nn.Module, folder: str | Path, config: Mapping[str, Any]) -> None:
    """Write the low-rank parts of `model` as peft reads them into the model of transformers whose
    config.json is `config`. Raises a ValueError where peft could not."""
    family, parts = family_of(config), adapters(model)
    kinds = {(part.down.out_features, part.scale) for part in parts.values()}
    if len(kinds) != 1:
        raise ValueError(f"all low-rank parts need one rank and scale; there are {len(kinds)}")
    ((rank, scale),) = kinds
    tensors: dict[str, Tensor] = {}
    targets: set[str] = set()
    for name, part in parts.items():
        places = published_maps(model, name, part.up.weight, family)
        whole = all(sum(p.ours.numel() for p in x.pieces) == prod(x.shape) for x in places.values())
        if not places or not whole:
            raise ValueError(f"{name} is no map by itself in the published files")
        for theirs, place in places.items():
            tensors[key_of(theirs, "A")] = part.down.weight.detach().clone()
            tensors[key_of(theirs, "B")] = place.get()
        targets |= set(places)
    tensors = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    settings = {
        **{"peft_type": "LORA", "r": rank, "lora_alpha": scale * rank, "lora_dropout": 0.0},
        **{"bias": "none", "target_modules": sorted(targets)},
        "fan_in_fan_out": config["model_type"] == "gpt2",  # its maps are stored transposed
    }
    folder = Path(folder).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


@torch.no_grad()
def load_adapters(model: nn.Module, folder: str | Path, config: Mapping[str, Any]) -> nn.Module:
    """The model, changed in place, with what peft has written: a `LowRank` beside each map that the
    folder has something for. `config` is the model's. Raises a ValueError for what is not LoRA, and
    for what has no place in the model, before anything is changed."""
    folder, family = Path(folder).expanduser(), family_of(config)
    settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    tensors = load_file(folder / WEIGHTS)
    rank, alpha = read(settings, "r", "lora_alpha")
    only(settings, "peft_type", "LORA")
    for name in ("use_dora", "use_rslora", "lora_bias"):
        only(settings, name, False)
    for name in ("rank_pattern", "alpha_pattern", "modules_to_save"):
        only(settings, name, None, {}, [])
    if adapters(model):
        raise ValueError("the model has low-rank parts already: merge them first")
    chosen: dict[str, tuple[nn.Linear | QuantisedLinear, list[str]]] = {}
    used: set[str] = set()
    for name, base in model.named_modules():
        if isinstance(base, (nn.Linear, QuantisedLinear)):
            known = published_maps(model, name, torch.empty(base.out_features, rank), family)
            there = [theirs for theirs in known if key_of(theirs, "A") in tensors]
            chosen |= {name: (base, there)} if there else {}
            used |= {key_of(theirs, letter) for theirs in there for letter in "AB"}
    if used != set(tensors):
        wrong = ", ".join(sorted(used ^ set(tensors))[:3])
        raise ValueError(f"the model has no place for {wrong}, or the file lacks it")
    model.requires_grad_(False)
    for name, (base, there) in chosen.items():
        part = LowRank(base, len(there) * rank, len(there) * float(alpha)).train(model.training)
        for i, theirs in enumerate(there):
            columns = slice(i * rank, (i + 1) * rank)
            part.down.weight[columns] = tensors[key_of(theirs, "A")].to(part.down.weight)
            place = published_maps(model, name, part.up.weight[:, columns], family)[theirs]
            place.put(tensors[key_of(theirs, "B")])
        model.set_submodule(name, part)
    return model


def key_of(theirs: str, letter: str) -> str:
    """What peft calls the thin matrix A or B of a published map."""
    return f"base_model.model.{theirs}.lora_{letter}.weight"


def published_maps(model: nn.Module, name: str, up: Tensor, family: Family) -> dict[str, Place]:
    """The published maps that ours of this name is made of, and where in `up`, whose rows are
    those of the map, the rows of each stand. Empty if none is published as a matrix. Those that
    are stored transposed have adapters that are not."""
    names = family.names(model) if callable(family.names) else family.names
    key, i, e = template(name)
    entry = names.get(key)
    if entry is None:
        return {}
    stem, layout = (entry, one_after_the_other) if isinstance(entry, str) else entry
    layout = one_after_the_other if layout is transposed else layout
    owner = model.get_submodule(name.rpartition(".")[0])
    found: dict[str, Place] = {}
    for piece in layout(f"{stem.format(i=i, e=e)}.weight", up, owner):
        theirs = piece.name.removesuffix(".weight")
        found.setdefault(theirs, Place(piece.shape)).pieces.append(piece)
    flat = all(len(x.shape) == 2 and x.shape[1] == up.shape[1] for x in found.values())
    return found if flat else {}
