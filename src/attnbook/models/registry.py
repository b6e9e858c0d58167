"""The families of published models that can be read.

Each stands in a file of its own: its recipe, a table of names, and a function of config.json
that is registered here by `family`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

from torch import nn

from attnbook import models
from attnbook.models.config import Config
from attnbook.models.layout import Names


@dataclass(frozen=True)
class Family:
    """How a model_type is built of its config, and what its tensors are called.

    `prefix` is that of the published model with its head: files of the bare model lack it.
    `extra` are tensors that the files may hold and the model does not need: buffers, second copies;
    `lacking` those that files may lack, for the model begins with their numbers. `older` are
    endings of names in other files of the family, and what the table calls them.
    """

    build: Callable[[Config], nn.Module]
    names: Names | Callable[[nn.Module], Names]
    architecture: str
    prefix: str = ""
    extra: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    older: tuple[tuple[str, str], ...] = ()


Build = TypeVar("Build", bound=Callable[[Config], nn.Module])
FAMILIES: dict[str, Family] = {}


def family(
    model_type: str,
    names: Names | Callable[[nn.Module], Names],
    architecture: str,
    **more: Any,
) -> Callable[[Build], Build]:
    """Register the function below as the one that builds models of this `model_type`, with the
    table of its `names` and the class of transformers; `more` is that of `Family`."""

    def register(build: Build) -> Build:
        build.__doc__ = build.__doc__ or (
            f"The {architecture} that a config.json of model_type {model_type!r} describes, with "
            "random weights; ValueError for what the recipe does not compute."
        )
        FAMILIES[model_type] = Family(build, names, architecture, **more)
        return build

    return register


def families() -> dict[str, Family]:
    """All families, by the model_type that config.json says: each file here is read once. What was
    registered elsewhere stands before what is here."""
    elsewhere = dict(FAMILIES)
    for module in iter_modules(models.__path__, "attnbook.models."):
        import_module(module.name)
    FAMILIES.update(elsewhere)
    return FAMILIES
