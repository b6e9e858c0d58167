"""The vision transformer, and what its heirs share with it."""

from collections.abc import Sequence
from functools import partial

from torch import nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm, Stack
from attnbook.feedforward import MLP
from attnbook.models.config import SIZES, Config, Sizes, only, read
from attnbook.models.layout import Names, convolution, reshaped
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.transformer import initialise, normal
from attnbook.vision import ClassToken, Patches, Pool, VisionTransformer, grid_of


def vit(
    image: tuple[int, int] = (224, 224),
    patch: int = 16,
    classes: int = 1000,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    channels: int = 3,
    dropout: float = 0.1,
    pool: Pool | None = None,
    hidden: int | None = None,
    eps: float = 1e-6,
    attention_dropout: float = 0.0,
) -> VisionTransformer:
    """Dosovitskiy et al. 2021, table 1, "Base": 86 million parameters, and 0.8 for 1000 classes.
    It has a class token unless another `pool` is given. Dropout as in `bert`."""
    norm = partial(LayerNorm, width, eps)

    def pre(part: nn.Module) -> PreNorm:
        return PreNorm(part, norm(), dropout)

    def block() -> Block:
        attention = MultiHeadAttention(width, heads, dropout=attention_dropout)
        return Block(pre(attention), pre(MLP(width, inner, nn.GELU())))

    inner = 4 * width if hidden is None else hidden
    pool = ClassToken(width) if pool is None else pool
    rows, columns = grid_of(image, patch)
    positions = Learned(rows * columns + pool.extra, width)
    body = Stack([block() for _ in range(depth)], norm())
    patches, classifier = Patches(patch, width, channels), nn.Linear(width, classes)
    model = VisionTransformer(image, patches, pool, positions, body, classifier, dropout)
    return initialise(model, normal)


def tower(
    image: tuple[int, int],
    patch: int,
    blocks: Sequence[nn.Module],
    pool: Pool,
    positions: nn.Module,
    classifier: nn.Module,
    norm: LayerNorm,
) -> VisionTransformer:
    """A vision transformer of these parts, for pictures of three channels."""
    width = norm.weight.shape[0]
    patches = Patches(patch, width, 3)
    model = VisionTransformer(image, patches, pool, positions, Stack(blocks, norm), classifier)
    return initialise(model, normal)


def picture_names(prefix: str, layer: dict[str, str]) -> Names:
    """What a vision transformer's parts are called behind this prefix."""
    block = f"{prefix}.encoder.layer.{{i}}"
    return {
        "pool.token": (f"{prefix}.embeddings.cls_token", reshaped(1, 1)),
        "pool.teacher": (f"{prefix}.embeddings.distillation_token", reshaped(1, 1)),
        "pool.registers": (f"{prefix}.embeddings.register_tokens", reshaped(1)),
        "positions.table": (f"{prefix}.embeddings.position_embeddings", reshaped(1)),
        "patches.to_width": (f"{prefix}.embeddings.patch_embeddings.projection", convolution),
        "attention.sublayer.project.to_qkv": f"{block}.attention.attention.query key value",
        "attention.sublayer.to_out": f"{block}.attention.output.dense",
        "body.norm": f"{prefix}.layernorm",
        "classifier": "classifier",
        "classifier.own": "cls_classifier",
        "classifier.teacher": "distillation_classifier",
        **{ours: f"{block}.{theirs}" for ours, theirs in layer.items()},
    }


VIT_LAYER = {
    "attention.norm": "layernorm_before",
    "feedforward.norm": "layernorm_after",
    "feedforward.sublayer.up": "intermediate.dense",
    "feedforward.sublayer.down": "output.dense",
}


def of_pictures(config: Config) -> Sizes:
    """The settings that vision transformers share."""
    width, depth, heads, patch = read(config, *SIZES[1:], "patch_size")
    only(config, "num_channels", 3)
    only(config, "qkv_bias", True)
    image = config["image_size"]
    image = (image, image) if isinstance(image, int) else tuple(image)
    return {
        **{"image": image, "patch": patch, "width": width, "depth": depth, "heads": heads},
        "hidden": config.get("intermediate_size", int(width * config.get("mlp_ratio", 4))),
    }


def classes(config: Config) -> int:
    """How many classes the labels make: transformers leaves out the two that it expects."""
    return len(config.get("id2label") or {"0": 0, "1": 1})


@family(
    "vit",
    picture_names("vit", VIT_LAYER),
    "ViTForImageClassification",
    prefix="vit.",
    extra=("*.mask_token",),
)
def build_vit(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu")
    sizes = of_pictures(config)
    sizes["dropout"] = config.get("hidden_dropout_prob", 0.0)
    sizes["attention_dropout"] = config.get("attention_probs_dropout_prob", 0.0)
    eps = config.get("layer_norm_eps", 1e-12)
    return vit(classes=classes(config), eps=eps, **sizes)
