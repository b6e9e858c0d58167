"""A quantised model as one small file: whole numbers and scales, as they are in memory."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from attnbook.checks import check_same
from attnbook.files import replacing
from attnbook.quantise.rounding import (
    Product,
    QuantisedEmbedding,
    QuantisedLinear,
    QuantisedMatrix,
    maps_and_tables,
    replace_weights,
    unpacked,
)

NOTES = "attnbook"  # where the file's metadata say what is quantised, and what is tied


def save(model: nn.Module, path: str | Path) -> None:
    """Write the model to one `.safetensors` file, never half a one. What is tied is stored once."""
    names: dict[int, str] = {}
    tied, tensors = {}, {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        first = names.setdefault(id(tensor), name)
        if first == name:
            tensors[name] = tensor.detach().contiguous()
        else:
            tied[name] = first
    bits = {
        name: [part.matrix.bits, part.matrix.group]
        for name, part in model.named_modules(remove_duplicate=False)
        if isinstance(part, (QuantisedLinear, QuantisedEmbedding))
    }
    with replacing(Path(path)) as draft:
        save_file(tensors, draft, {NOTES: json.dumps({"quantised": bits, "tied": tied})})


def load(model: nn.Module, path: str | Path, product: Product = unpacked) -> nn.Module:
    """Fill a model of the same recipe, changed in place, with what `save` wrote, bit for bit.

    Raises ValueError, before anything is changed, unless names and shapes are the file's.
    """
    tensors, bits = read(path)
    check(model, tensors, bits, path)

    def matrix(name: str, W: Tensor) -> QuantisedMatrix:
        stored, scales = (tensors[f"{name}.matrix.{part}"] for part in ("stored", "scales"))
        return QuantisedMatrix(stored.to(W.device), scales.to(W.device), W.shape[1], *bits[name])

    replace_weights(model, list(bits), matrix, product).load_state_dict(tensors)
    return model


def read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, list[int]]]:
    """All tensors of a file under all their names; and bits and group of what is quantised."""
    try:
        with safe_open(path, framework="pt") as file:
            names, notes = file.keys(), (file.metadata() or {}).get(NOTES)
            tensors = {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise ValueError(f"{path} is not a complete safetensors file ({error})") from error
    if notes is None:
        raise ValueError(f"{path} was not written by attnbook.quantise.quantised_file.save")
    notes = json.loads(notes)
    tensors |= {name: tensors[first] for name, first in notes["tied"].items()}
    return tensors, notes["quantised"]


def check(
    model: nn.Module, tensors: dict[str, Tensor], bits: dict[str, list[int]], path: str | Path
) -> None:
    """Raise a ValueError unless the model has each tensor of the file, in its shape."""
    parts = dict(maps_and_tables(model))
    here = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name, (width, group) in bits.items():
        if name in parts:
            here.pop(f"{name}.weight", None)  # a tied head has none of its own
            R, C = tuple(parts[name].get_parameter("weight").shape)
            here[f"{name}.matrix.stored"] = (R, -(-C // 2) if width <= 4 else C)
            here[f"{name}.matrix.scales"] = (R, -(-C // group))
    there = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    check_same(f"{path} is of another model", there, here)
