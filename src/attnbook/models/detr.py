"""DETR: objects in a picture, as a set."""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import Attention, KeysAndValues, SplitProjection, split_heads
from attnbook.block import Block, CrossBlock, PostNorm, Stack
from attnbook.feedforward import MLP
from attnbook.masks import Mask
from attnbook.models.config import Config, only, read
from attnbook.models.layout import Names, Table, one_by_one
from attnbook.models.registry import family
from attnbook.models.resnet import ResNet, resnet_names
from attnbook.models.vit import classes
from attnbook.norms import LayerNorm
from attnbook.positions import sinusoidal
from attnbook.transformer import add_query_axis, initialise, xavier


class PlacedProjection(SplitProjection):
    """Queries and keys of vectors with their places, values of the vectors alone. Both stand side
    by side in the input, (B, T, 2C). Carion et al. 2020, section 3.2 and appendix A.3."""

    def __init__(self, heads: int, to_q: nn.Linear, to_k: nn.Linear, to_v: nn.Linear):
        super().__init__(heads, to_q, to_k, to_v)
        self.width, self.memory_width = 2 * self.width, 2 * self.memory_width

    def queries(self, x: Float[Tensor, "B Tq C2"]) -> Float[Tensor, "B H Tq D"]:
        content, place = x.chunk(2, -1)
        return super().queries(content + place)

    def keys(self, memory: Float[Tensor, "B Tk C2"]) -> KeysAndValues:
        content, place = memory.chunk(2, -1)
        k, v = self.to_k(content + place), self.to_v(content)
        return split_heads(k, self.D), split_heads(v, self.D)


class Placed(nn.Module):
    """An attention whose input gets its `place` beside it."""

    def __init__(self, attention: nn.Module):
        super().__init__()
        self.attention = attention

    def forward(
        self, x: Float[Tensor, "B T C"], *given: Tensor, place: Tensor, **named: Any
    ) -> Float[Tensor, "B T C"]:
        return self.attention(torch.cat((x, place), -1), *given, **named)


class PlacedBlock(Block):
    """An encoder's block in which each attention is told the places anew."""

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "B T C"],
        place: Float[Tensor, "B T C"],
        mask: Mask | None = None,
        cache: None = None,
    ) -> Float[Tensor, "B T C"]:
        return self.feedforward(self.attention(x, place=place, mask=mask))


class DetrDecoderBlock(CrossBlock):
    """A decoder's block in which each attention is told the places anew; those of the memory stand
    beside it."""

    def forward(  # type: ignore[override]
        self,
        x: Float[Tensor, "B Tq C"],
        memory: Float[Tensor, "B Tk C2"],
        place: Float[Tensor, "B Tq C"],
        memory_mask: Mask | None = None,
        cache: None = None,
    ) -> Float[Tensor, "B Tq C"]:
        x = self.attention(x, place=place)
        return self.feedforward(self.cross_attention(x, memory, place=place, mask=memory_mask))


class Detector(nn.Module):
    """What objects are in a picture, and where? Each of a fixed number of learned queries looks at
    what an encoder made of the picture, and answers with one object, or none.

    Carion et al. 2020, figure 2.
    """

    def __init__(
        self,
        backbone: ResNet,
        encoder: Stack,
        decoder: Stack,
        queries: int,
        width: int,
        classes: int,
    ):
        super().__init__()
        self.backbone, self.to_width = backbone, nn.Linear(backbone.out, width)
        self.encoder, self.decoder = encoder, decoder
        self.queries = nn.Parameter(torch.randn(queries, width))
        self.classifier = nn.Linear(width, classes + 1)  # the last is: no object
        layers = nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        self.to_box = nn.Sequential(*layers, nn.Linear(width, 4))

    def forward(
        self,
        images: Float[Tensor, "B 3 rows columns"],
        mask: Bool[Tensor, "B rows columns"] | None = None,
    ) -> tuple[Float[Tensor, "B N classes1"], Float[Tensor, "B N 4"]]:
        """Logits of each query's class, and its box: centre, width and height as parts of the
        picture's. `mask` is False at pixels that are padding, at the right and at the bottom."""
        seen = self.backbone(images)  # (B channels R K)
        there = torch.ones_like(seen[:, 0], dtype=torch.bool)
        if mask is not None:
            there = F.interpolate(mask[None].float(), there.shape[1:])[0].bool()
        keys = None if mask is None else add_query_axis(there.flatten(1))
        x = self.to_width(seen.flatten(2).mT)  # (B, R·K, C)
        place = sines_of_places(there, x.shape[-1]).to(x.dtype)
        memory = torch.cat((self.encoder(x, place=place, mask=keys), place), -1)
        asks = self.queries.expand(images.shape[0], -1, -1)
        x = self.decoder(torch.zeros_like(asks), memory, place=asks, memory_mask=keys)
        return self.classifier(x), self.to_box(x).sigmoid()


def sines_of_places(there: Bool[Tensor, "B R K"], width: int) -> Float[Tensor, "B P C"]:
    """Sines of each place's row and column, counted from 1 to the last that is there, which is 2π.

    Carion et al. 2020, appendix A.4, after Vaswani et al. 2017, section 3.5.
    """
    row, column = there.float().cumsum(1), there.float().cumsum(2)
    row = 2 * math.pi * row / (row[:, -1:] + 1e-6)
    column = 2 * math.pi * column / (column[:, :, -1:] + 1e-6)
    both = (sinusoidal(count, width // 2) for count in (row, column))  # each (B R K C/2)
    return torch.cat(tuple(both), -1).flatten(1, 2)


def detr(
    classes: int = 91,
    queries: int = 100,
    width: int = 256,
    depth: tuple[int, int] = (6, 6),
    heads: tuple[int, int] = (8, 8),
    hidden: tuple[int, int] = (2048, 2048),
    backbone: ResNet | None = None,
    dropout: float = 0.1,
) -> Detector:
    """Carion et al. 2020, "End-to-end object detection with transformers", section 4, with
    ResNet-50. Pairs are of encoder and decoder."""

    def post(part: nn.Module) -> PostNorm:
        return PostNorm(part, LayerNorm(width), dropout)

    def attention(heads: int) -> PostNorm:
        project = PlacedProjection(heads, *(nn.Linear(width, width) for _ in range(3)))
        return post(Placed(Attention(project, nn.Linear(width, width))))

    def network(hidden: int) -> PostNorm:
        return post(MLP(width, hidden))

    reads = [PlacedBlock(attention(heads[0]), network(hidden[0])) for _ in range(depth[0])]
    asks = [
        DetrDecoderBlock(attention(heads[1]), attention(heads[1]), network(hidden[1]))
        for _ in range(depth[1])
    ]
    stacks = Stack(reads), Stack(asks, LayerNorm(width))
    model = Detector(backbone or ResNet(), *stacks, queries, width, classes)
    return initialise(model, xavier)


DETR: Table = {
    "to_width": ("model.input_projection", one_by_one),
    "queries": "model.query_position_embeddings.weight",
    "decoder.norm": "model.decoder.layernorm",
    "classifier": "class_labels_classifier",
    **{f"to_box.{2 * n}": f"bbox_predictor.layers.{n}" for n in range(3)},
}
for _stack in ("encoder", "decoder"):
    _layer = f"model.{_stack}.layers.{{i}}"
    for _part, _name in (("attention", "self_attn"), ("cross_attention", "encoder_attn")):
        _ours = f"{_stack}.{_part}.sublayer.attention"
        DETR[f"{_stack}.{_part}.norm"] = f"{_layer}.{_name}_layer_norm"
        DETR[f"{_ours}.to_out"] = f"{_layer}.{_name}.out_proj"
        DETR |= {f"{_ours}.project.to_{n}": f"{_layer}.{_name}.{n}_proj" for n in "qkv"}
    DETR[f"{_stack}.feedforward.norm"] = f"{_layer}.final_layer_norm"
    DETR[f"{_stack}.feedforward.sublayer.up"] = f"{_layer}.fc1"
    DETR[f"{_stack}.feedforward.sublayer.down"] = f"{_layer}.fc2"


def detr_names(model: nn.Module) -> Names:
    """DETR's names, with those of its backbone."""
    backbone = model.get_submodule("backbone")
    assert isinstance(backbone, ResNet)
    return DETR | resnet_names(backbone, "backbone", "model.backbone.conv_encoder.model")


DEPTHS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}


def build_backbone(config: Config) -> ResNet:
    """The backbone that the settings name; those of timm's are its name alone."""
    given = config.get("backbone_config") or {}
    only(config, "dilation", False)
    if given.get("model_type") != "resnet":
        name = given.get("backbone") or config.get("backbone") or "resnet50"
        only({"backbone": name}, "backbone", *DEPTHS)
        return ResNet(depths=DEPTHS[name])
    only(given, "layer_type", "bottleneck")
    only(given, "hidden_act", "relu")
    only(given, "downsample_in_first_stage", False)
    only(given, "downsample_in_bottleneck", False)
    stem, widths, depths = read(given, "embedding_size", "hidden_sizes", "depths")
    return ResNet(stem, widths, depths, timm=False)


@family("detr", detr_names, "DetrForObjectDetection", extra=("*.num_batches_tracked",))
def build_detr(config: Config) -> nn.Module:
    queries, width = read(config, "num_queries", "d_model")
    only(config, "activation_function", "relu")
    only(config, "position_embedding_type", "sine")
    only(config, "num_channels", 3)
    sides = ("encoder", "decoder")
    depth, heads, hidden = (
        tuple(read(config, *(f"{side}_{size}" for side in sides)))
        for size in ("layers", "attention_heads", "ffn_dim")
    )
    sizes = classes(config), queries, width, depth, heads, hidden
    return detr(*sizes, build_backbone(config), config.get("dropout", 0.1))
