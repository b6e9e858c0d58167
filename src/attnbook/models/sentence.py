"""One vector for a text, as sentence-transformers stores its models: an encoder, a rule that makes
one vector of all, maps behind it, length 1."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.models.checkpoint import PICKLED, SAFE, SafeTensors, find, read_or_refuse, unpickle
from attnbook.models.hub import load, of_name

Vectors = Float[Tensor, "B T C"]
There = Bool[Tensor, "B T"]


def mean(x: Vectors, there: There) -> Float[Tensor, "B C"]:
    """The average of all tokens that are there. Reimers and Gurevych 2019, section 3."""
    weights = there[..., None].to(x.dtype)
    return (x * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


def first(x: Vectors, there: There) -> Float[Tensor, "B C"]:
    """What the first token has become, such as BERT's [CLS]."""
    return x[:, 0]


def last(x: Vectors, there: There) -> Float[Tensor, "B C"]:
    """What the last token has become that is there: in a decoder it has seen all others."""
    at = there.shape[1] - 1 - there.flip(1).int().argmax(1)
    return x[torch.arange(len(x), device=x.device), at]


def largest(x: Vectors, there: There) -> Float[Tensor, "B C"]:
    """The largest number of each channel."""
    return x.masked_fill(~there[..., None], -torch.inf).amax(1)


POOLS: dict[str, Callable[[Vectors, There], Float[Tensor, "B C"]]] = {
    "mean_tokens": mean,
    "cls_token": first,
    "lasttoken": last,
    "max_tokens": largest,
}
ACTIVATIONS: dict[str, type[nn.Module]] = {"Identity": nn.Identity, "Tanh": nn.Tanh}


class SentenceEncoder(nn.Module):
    """One vector for each text: `pool` makes it of an encoder's vectors, `maps` follow, and, with
    `unit`, its length becomes 1, so that dot products are cosines.

    Reimers and Gurevych 2019, "Sentence-BERT", section 3.
    """

    def __init__(
        self,
        encoder: nn.Module,
        pool: Callable[[Vectors, There], Float[Tensor, "B C"]] = mean,
        maps: Sequence[nn.Module] = (),
        unit: bool = True,
    ):
        super().__init__()
        self.encoder, self.pool, self.maps, self.unit = encoder, pool, nn.Sequential(*maps), unit

    def forward(
        self, tokens: Int[Tensor, "B T"], mask: There | None = None
    ) -> Float[Tensor, "B S"]:
        """`mask` is True at tokens, False at padding."""
        there = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
        x = self.maps(self.pool(self.encoder(tokens, mask=mask), there))
        return F.normalize(x, dim=-1) if self.unit else x


def load_sentence_encoder(
    source: str | Path, dtype: torch.dtype | str = torch.float32
) -> SentenceEncoder:
    """A published model that makes one vector of a text, in evaluation mode: a folder with
    modules.json, or the name of a Hugging Face repository. Its encoder is read by `load`.

    Raises a ValueError if there is a part that is not computed here.
    """
    parts = settings(source, "modules.json")
    kinds = [part["type"].rpartition(".")[2] for part in parts]
    if kinds[:2] != ["Transformer", "Pooling"] or parts[0]["path"]:
        raise ValueError(
            f"an encoder comes first, then a pool; modules.json has {', '.join(kinds)}"
        )
    maps: list[nn.Module] = []
    for kind, part in zip(kinds[2:], parts[2:], strict=True):
        if kind == "Dense":
            maps.extend(dense(source, part["path"]))
        elif kind != "Normalize" or part is not parts[-1]:
            raise ValueError(
                f"modules.json has a {kind} at {part['path']}: it is not computed here"
            )
    model = load(source, dtype, head=False)
    pool = pooling(settings(source, f"{parts[1]['path']}/config.json"))
    encoder = SentenceEncoder(model, pool, maps, kinds[-1] == "Normalize")
    return encoder.to(of_name(dtype)).eval()


def settings(source: str | Path, path: str) -> Any:
    """What a file of settings says."""
    return read_or_refuse(find(source, path), lambda file: json.loads(file.read_bytes()))


def pooling(config: dict[str, Any]) -> Callable[[Vectors, There], Float[Tensor, "B C"]]:
    """The one rule that the settings say, or a ValueError."""
    name = "pooling_mode_"
    chosen = [n.removeprefix(name) for n in config if n.startswith(name) and config[n] is True]
    if len(chosen) != 1 or chosen[0] not in POOLS:
        raise ValueError(
            f"pooled by {' and '.join(chosen)}; supported is one of {', '.join(POOLS)}"
        )
    return POOLS[chosen[0]]


def dense(source: str | Path, path: str) -> list[nn.Module]:
    """A linear map and its activation."""
    config = settings(source, f"{path}/config.json")
    kind = config.get("activation_function", "").rpartition(".")[2]
    if kind not in ACTIVATIONS:
        raise ValueError(f"{path} has the activation {kind!r}; there are {', '.join(ACTIVATIONS)}")
    try:
        tensors = dict(SafeTensors([find(source, f"{path}/{SAFE}")]))
    except OSError:
        tensors = read_or_refuse(find(source, f"{path}/{PICKLED}"), unpickle)
    linear = nn.Linear(config["in_features"], config["out_features"], config.get("bias", True))
    linear.load_state_dict({name.removeprefix("linear."): x for name, x in tensors.items()})
    return [linear, ACTIVATIONS[kind]()]
