"""Published weights in this module's models, and back: `load` reads what others trained, `save`
writes what `transformers` reads.

A folder's config.json says which family a model is of and how large; the recipe of that family is
built without weights, and each published tensor takes its place. What the recipe does not compute
is refused by name, before any tensor is read. A checkpoint that ends earlier, such as one for
vectors or one with a classifier, gives a model that ends where it ends, and a line says so.
"""

import json
import os
import re
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from attnbook.models import gguf_file
from attnbook.models.checkpoint import checkpoint, configuration, find, read_or_refuse, shape_of
from attnbook.models.layout import Place, places
from attnbook.models.parts import EncoderAlone
from attnbook.models.registry import Family, families
from attnbook.transformer import EncoderDecoder

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
SHOWN = 5  # names of a fault's tensors that a message lists
BUFFERS = ("*.attn.bias", "*.masked_bias", "*.inv_freq", "*.position_ids", "*.token_type_ids")
# endings of the names of classes in transformers that have the head of our recipe, or none
OWN_HEADS: tuple[str, ...] = (
    *("Model", "CausalLM", "MaskedLM", "LMHeadModel", "DoubleHeadsModel", "PreTraining"),
    *("ConditionalGeneration", "ImageClassification", "WithTeacher"),
)


def load(
    source: str | Path,
    dtype: torch.dtype | str = torch.float32,
    kind: str | None = None,
    head: bool = True,
) -> nn.Module:
    """A published model with its weights, in evaluation mode.

    `source` is a folder with config.json and its weights (model.safetensors, in several files too,
    or pytorch_model.bin), the path of one of these files, a GGUF file, or the name of a Hugging
    Face repository, which is fetched. `dtype` may be its name, "bfloat16". `kind` is the model_type
    that is expected, and taken for granted where config.json names none.

    A checkpoint whose last part is of another task, or that has none, gives the model without a
    head: its output are the vectors, (B, T, C). So does `head=False`. A warning names what was left
    out. Raises a ValueError that names what does not fit, before anything is copied.

    Dropout, for training on, has the rates of config.json where the recipe has it; other families
    train without.
    """
    dtype = of_name(dtype)
    config = configuration(source, kind)
    family = family_of({"model_type": kind} | config)
    with without_weights():
        model = family.build(config)
    tensors, headed = checkpoint(source), bool(head_of(model))
    # A tied head has no weights that could be missing: the class says that it is of another task.
    name = (config.get("architectures") or [family.architecture])[0]
    own = name == family.architecture or name.endswith(OWN_HEADS)
    candidates = [model] if own and (head or not head_of(model)) else []
    more = bool(candidates) and name != family.architecture
    faults = faults_of(model, tensors, family, more) if candidates else {}
    if "missing" in faults or not candidates:
        for shorter in truncate(model):
            found = faults_of(shorter, tensors, family, True)
            if not found:
                model, faults = shorter, {}
                break
            faults = faults or found
    refuse(faults, f"the checkpoint, a {name}, does not fit, nothing was copied")
    chosen = sources(where(model, family), tensors, family)
    refuse(not_numbers(chosen, tensors), "the checkpoint is damaged, nothing was copied")
    unused = set(tensors) - set(chosen.values())
    whole = bool(head_of(model)) or not headed
    left = sorted(n for n in unused if not harmless(n, tensors, family, poolers=whole))
    with_memory(model, dtype)
    for there, place in where(model, family).items():
        if there in chosen:
            place.take(tensors[chosen[there]])
    ends = "" if whole else "the model ends with vectors, (B, T, C); "
    if head and (left or ends):
        warnings.warn(f"{source}: {ends}left out: {first_few(left) or 'nothing'}", stacklevel=2)
    return model.to(dtype).eval()


def load_tokenizer(source: str | Path) -> Tokenizer:
    """The tokenizer beside a published model: its tokenizer.json, or what its GGUF file holds."""
    path = gguf_file.of(source)
    if path is not None:
        return gguf_file.tokenizer(path)
    return read_or_refuse(
        find(source, "tokenizer.json"), lambda path: Tokenizer.from_file(str(path))
    )


ON_META: ContextVar[bool] = ContextVar("parameters go to the meta device", default=False)
BUILDING = threading.Lock()  # torch's generator is one for all threads


def on_meta(module: nn.Module, name: str, value: nn.Parameter) -> nn.Parameter | None:
    """The parameter without memory, where this thread is inside `without_weights`; else None, which
    means: as it is. Called by torch for each parameter that a module is given."""
    if not ON_META.get() or value.is_meta:
        return None
    return nn.Parameter(value.detach().to("meta"), requires_grad=value.requires_grad)


register_module_parameter_registration_hook(on_meta)  # type: ignore[arg-type]  # None: as it is


@contextmanager
def without_weights() -> Iterator[None]:
    """Inside this context modules are made without memory for their parameters, and torch's
    generator stands afterwards where it stood. What is computed and not learned is there. Modules
    of other threads are made as ever; one thread at a time is inside."""
    with BUILDING, torch.random.fork_rng(devices=[]), NothingDrawn():
        opened = ON_META.set(True)
        try:
            yield
        finally:
            ON_META.reset(opened)


class NothingDrawn(TorchFunctionMode):
    """Random starting values are not asked for where there is no memory for them: torch would load
    its compiler for that, which takes a second."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name.endswith(("normal_", "uniform_")):
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        return func(*args, **kwargs)


def with_memory(model: nn.Module, dtype: torch.dtype) -> None:
    """Give the parameters memory, with whatever stands there; what was one stays one."""
    made: dict[nn.Parameter, nn.Parameter] = {}
    for part in model.modules():
        for name, old in part._parameters.items():
            if old is not None and old.is_meta:
                if old not in made:
                    kind = dtype if old.is_floating_point() else old.dtype
                    data = torch.empty(old.shape, dtype=kind)
                    made[old] = nn.Parameter(data, requires_grad=old.requires_grad)
                part._parameters[name] = made[old]


def head_of(model: nn.Module) -> str | None:
    """The name of the part that turns vectors into the model's answer, if there is one."""
    for name in ("lm_head", "classifier"):
        if not isinstance(getattr(model, name, nn.Identity()), nn.Identity):
            return name
    return None


def truncate(model: nn.Module) -> Iterator[nn.Module]:
    """The model without its head, then the encoder of an encoder–decoder alone."""
    name = head_of(model)
    if name is not None:
        setattr(model, name, nn.Identity())
        yield model
    if isinstance(model, EncoderDecoder):
        yield EncoderAlone(model.source_embed, model.encoder)


def save(model: nn.Module, folder: str | Path, config: Mapping[str, Any]) -> None:
    """The inverse of `load`: a folder that `transformers` can read.

    `config` is that of the model, as config.json has it; sizes that do not fit are refused. A model
    without its head is written as one that never had it.
    """
    from safetensors.torch import save_file

    config = dict(config)
    family = family_of(config)
    bare = not head_of(model) and any(head in family.architecture for head in ("For", "LMHead"))
    with without_weights():
        built = family.build(config)
    if bare:  # of the same kind, without a head
        built = next((m for m in truncate(built) if type(m) is type(model)), built)
    sizes = {name: p.shape for name, p in where(built, family).items()}
    tensors = {name: place.get().contiguous() for name, place in where(model, family).items()}
    wrong = [name for name in sizes.keys() | tensors if name not in tensors or name not in sizes]
    wrong += [n for n in sizes.keys() & tensors if tuple(tensors[n].shape) != sizes[n]]
    if wrong:
        raise ValueError(
            f"the config is of another model: {first_few(sorted(wrong))} would not fit"
        )
    if bare:
        tensors = {name.removeprefix(family.prefix): x for name, x in tensors.items()}
        name = str((config.get("architectures") or [""])[0])
        usual = re.sub("(For|LMHead).*", "Model", family.architecture)
        config["architectures"] = [name if name.endswith("Model") else usual]
    else:
        config["architectures"] = [family.architecture]
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
    known = families()
    if kind not in known:
        there = ", ".join(sorted(known))
        raise ValueError(
            f"no model of type {kind!r} can be read here; to add it, (1) write recipe, names and "
            f"the reader of its config.json into one file of attnbook/models, under "
            f"@family({kind!r}, …), and (2) add a case to tests/support/family_cases.py; there are "
            f"{there}"
        )
    return known[kind]


def where(model: nn.Module, family: Family) -> dict[str, Place]:
    """Published name: where in the model this tensor belongs."""
    return places(model, family.names(model) if callable(family.names) else family.names)


def fill(targets: Mapping[str, Place], tensors: Mapping[str, Tensor], family: Family) -> None:
    """Copy each published tensor to its place in a model: all of them, or none if one is wrong."""
    chosen = sources(targets, tensors, family)
    faults = faults_in(targets, tensors, family) | not_numbers(chosen, tensors)
    refuse(faults, "the checkpoint does not fit, nothing was copied")
    for name, there in chosen.items():
        targets[name].put(tensors[there])


def sources(
    targets: Mapping[str, Place], tensors: Mapping[str, Tensor], family: Family
) -> dict[str, str]:
    """For each published name of today the name in these files, where they have it: the first files
    called a norm's parts gamma and beta, a family may have older names, and a bare model's lack the
    prefix of the model with its head."""
    return {new: old for old, new in rename(tensors, targets, family).items() if new in targets}


def rename(names: Iterable[str], targets: Mapping[str, Place], family: Family) -> dict[str, str]:
    """What a tensor in the files is called today."""
    new = {}
    for old in names:
        name = old
        for first, now in ((".gamma", ".weight"), (".beta", ".bias"), *family.older):
            if name.endswith(first) and name not in targets:
                name = name.removesuffix(first) + now
        for prefix in (family.prefix, f"{family.prefix}encoder."):
            if name not in targets and prefix + name in targets:
                name = prefix + name
        new[old] = name
    return new


def faults_of(
    model: nn.Module, tensors: Mapping[str, Tensor], family: Family, more: bool
) -> dict[str, list[str]]:
    """What is wrong with these files for this model. With `more`, parts beside its body may be in
    them, which are left out."""
    targets = where(model, family)
    faults = faults_in(targets, tensors, family)
    if more and "unexpected" in faults:
        inside = f"{family.prefix}encoder." if isinstance(model, EncoderAlone) else family.prefix
        body = {name.removeprefix(inside).split(".")[0] for name in targets}
        within = [
            name
            for name in faults["unexpected"]
            if (inside and name.startswith(inside)) or name.split(".")[0] in body
        ]
        faults = {fault: names for fault, names in faults.items() if fault != "unexpected"}
        faults |= {"unexpected": within} if within else {}
    return faults


def faults_in(
    targets: Mapping[str, Place], tensors: Mapping[str, Tensor], family: Family
) -> dict[str, list[str]]:
    """What is missing, unexpected, or of another shape; nothing is read but the shapes."""
    chosen = sources(targets, tensors, family)
    unused = sorted(set(tensors) - set(chosen.values()))
    shapes = {name: shape_of(tensors, there) for name, there in chosen.items()}
    faults = {
        "missing": [n for n in targets if n not in chosen and n not in family.lacking],
        "unexpected": [name for name in unused if not harmless(name, tensors, family)],
        "misshapen": [
            f"{name} is {shapes[name]}, the model needs {targets[name].shape}"
            for name in chosen
            if shapes[name] != targets[name].shape
        ],
    }
    return {fault: names for fault, names in faults.items() if names}


def not_numbers(chosen: Mapping[str, str], tensors: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """The vectors, such as norms and biases, that hold something that is not a number: a training
    that failed leaves it everywhere, and matrices need not be read for it."""
    vectors = {n: there for n, there in chosen.items() if len(shape_of(tensors, there)) == 1}
    wrong = [name for name, there in vectors.items() if tensors[there].isnan().any()]
    return {"not a number in": wrong} if wrong else {}


def refuse(faults: Mapping[str, list[str]], why: str) -> None:
    """Raise a ValueError that lists the faults, if there are any."""
    if faults:
        lines = [f"{fault}: {first_few(names)}" for fault, names in faults.items()]
        raise ValueError("\n".join([why, *lines]))


def harmless(
    name: str, tensors: Mapping[str, Tensor], family: Family, poolers: bool = True
) -> bool:
    """Is this tensor a buffer, a second copy of a tied one, or, with `poolers`, one of those that a
    whole model of this family does without?"""
    patterns = (*BUFFERS, *family.extra) if poolers else BUFFERS
    if any(fnmatch(name, pattern) for pattern in patterns):
        return True
    shape = shape_of(tensors, name)
    if len(shape) != 2:
        return False
    same = [n for n in tensors if n != name and shape_of(tensors, n) == shape]
    own = tensors[name]
    return any(torch.equal(tensors[n], own) for n in same)


def first_few(names: list[str]) -> str:
    """The first of many names, and how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
