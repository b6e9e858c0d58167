"""CLIP: one space for pictures and texts."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm, Stack
from attnbook.feedforward import MLP, QuickGELU
from attnbook.masks import causal
from attnbook.models.config import SIZES, Config, Sizes, activation, only, or_default, read
from attnbook.models.layout import Table, convolution
from attnbook.models.registry import family
from attnbook.models.vit import of_pictures
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.transformer import Embed, initialise, normal
from attnbook.vision import ClassToken, Patches, VisionTransformer, grid_of


class NormedStack(Stack):
    """Blocks with a norm before the first one, too."""

    def __init__(self, before: nn.Module, blocks: Sequence[nn.Module], norm: nn.Module):
        super().__init__(blocks, norm)
        self.before = before

    def forward(self, x: Float[Tensor, "B T C"], *given: Tensor, **named: Any) -> Tensor:
        return super().forward(self.before(x), *given, **named)


class TextTower(nn.Module):
    """One vector for a text: what its last token, `end`, has become. Each token sees the past.

    Without an `end` it is the token with the largest number, as in CLIP's vocabulary. Radford et
    al. 2021, section 2.4.
    """

    causal = True  # for who makes a head anew: attnbook.inside.circuits

    def __init__(self, embed: Embed, body: Stack, classifier: nn.Module, end: int | None = None):
        super().__init__()
        self.embed, self.body, self.classifier, self.end = embed, body, classifier, end

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B S"]:
        """What stands behind the end, such as padding, is seen by nobody."""
        x = self.body(self.embed(tokens), mask=causal)
        last = tokens if self.end is None else (tokens == self.end).int()
        rows = torch.arange(tokens.shape[0], device=tokens.device)
        return self.classifier(x[rows, last.argmax(-1)])


class TwoTowers(nn.Module):
    """How well does each picture fit each text? A tower for pictures and one for texts make vectors
    of one width; their cosine, times a learned number, is the logit.

    Radford et al. 2021, figure 3.
    """

    def __init__(self, pictures: VisionTransformer, texts: TextTower, log_scale: float = 2.6592):
        super().__init__()
        self.pictures, self.texts = pictures, texts
        self.log_scale = nn.Parameter(torch.tensor(log_scale))  # at first log 1 / 0.07

    def forward(
        self,
        tokens: Int[Tensor, "texts T"],
        images: Float[Tensor, "pictures channels rows columns"],
    ) -> Float[Tensor, "pictures texts"]:
        pictures = F.normalize(self.pictures(images), dim=-1)
        return self.log_scale.exp() * pictures @ F.normalize(self.texts(tokens), dim=-1).T


def tower_blocks(
    width: int, depth: int, heads: int, hidden: int, gelu: nn.Module, eps: float
) -> list[Block]:
    """The blocks of both towers: pre-norm, with biases."""
    norm = partial(LayerNorm, width, eps)
    return [
        Block(
            PreNorm(MultiHeadAttention(width, heads), norm()),
            PreNorm(MLP(width, hidden, gelu), norm()),
        )
        for _ in range(depth)
    ]


def clip_pictures(
    image: tuple[int, int] = (224, 224),
    patch: int = 32,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    shared: int = 512,
    activation: nn.Module | None = None,
    eps: float = 1e-5,
) -> VisionTransformer:
    """Radford et al. 2021, section 2.4 and table 20, ViT-B/32: a vision transformer with a norm
    before its blocks, too, and a map to the `shared` width in place of classes."""
    rows, columns = grid_of(image, patch)
    gelu = or_default(activation, QuickGELU())
    body = tower_blocks(width, depth, heads, hidden, gelu, eps)
    stack = NormedStack(LayerNorm(width, eps), body, LayerNorm(width, eps))
    positions, patches = Learned(rows * columns + 1, width), Patches(patch, width, 3, bias=False)
    to_shared = nn.Linear(width, shared, bias=False)
    model = VisionTransformer(image, patches, ClassToken(width), positions, stack, to_shared)
    return initialise(model, normal)


def clip_texts(
    V: int = 49_408,
    T: int = 77,
    width: int = 512,
    depth: int = 12,
    heads: int = 8,
    hidden: int = 2048,
    shared: int = 512,
    end: int | None = None,
    activation: nn.Module | None = None,
    eps: float = 1e-5,
) -> TextTower:
    """Radford et al. 2021, section 2.4 and table 20: a small GPT-2 that is read at its end."""
    gelu = or_default(activation, QuickGELU())
    body = Stack(tower_blocks(width, depth, heads, hidden, gelu, eps), LayerNorm(width, eps))
    embed, to_shared = Embed(V, width, Learned(T, width)), nn.Linear(width, shared, bias=False)
    return initialise(TextTower(embed, body, to_shared, end), normal)


def clip(pictures: Sizes | None = None, texts: Sizes | None = None) -> TwoTowers:
    """Radford et al. 2021, "Learning transferable visual models from natural language supervision",
    ViT-B/32. `pictures` and `texts` are the sizes of the two towers."""
    return TwoTowers(clip_pictures(**pictures or {}), clip_texts(**texts or {}))


def tower_names(ours: str, theirs: str) -> Table:
    """What the blocks of a tower are called."""
    layer = f"{theirs}encoder.layers.{{i}}"
    names = {
        "attention.sublayer.project.to_qkv": "self_attn.q_proj k_proj v_proj",
        "attention.sublayer.to_out": "self_attn.out_proj",
        "attention.norm": "layer_norm1",
        "feedforward.norm": "layer_norm2",
        "feedforward.sublayer.up": "mlp.fc1",
        "feedforward.sublayer.down": "mlp.fc2",
    }
    return {f"{ours}{part}": f"{layer}.{name}" for part, name in names.items()}


def picture_tower_names(ours: str, inside: str) -> Table:
    """What the tower for pictures is called; its blocks are `inside` of it here."""
    theirs = "vision_model."
    return tower_names(inside, theirs) | {
        f"{ours}pool.token": f"{theirs}embeddings.class_embedding",
        f"{ours}patches.to_width": (f"{theirs}embeddings.patch_embedding", convolution),
        f"{ours}positions": f"{theirs}embeddings.position_embedding",
        f"{ours}body.before": f"{theirs}pre_layrnorm",  # as it is spelled there
        f"{ours}body.norm": f"{theirs}post_layernorm",
        f"{ours}classifier": "visual_projection",
    }


def text_tower_names(ours: str, inside: str) -> Table:
    """What the tower for texts is called; its blocks are `inside` of it here."""
    theirs = "text_model."
    return tower_names(inside, theirs) | {
        f"{ours}embed.tokens": f"{theirs}embeddings.token_embedding",
        f"{ours}embed.positions": f"{theirs}embeddings.position_embedding",
        f"{ours}body.norm": f"{theirs}final_layer_norm",
        f"{ours}classifier": "text_projection",
    }


CLIP: Table = (
    picture_tower_names("pictures.", "pictures.body.")
    | text_tower_names("texts.", "texts.body.")
    | {"log_scale": "logit_scale"}
)


def of_pictures_tower(config: Config, shared: int | None = None) -> Sizes:
    """The settings of the tower for pictures."""
    only(config, "attention_dropout", 0.0)
    ends = {"shared": shared or read(config, "projection_dim")[0]}
    gelu = activation(config.get("hidden_act", "quick_gelu"))
    ends |= {"activation": gelu, "eps": config.get("layer_norm_eps", 1e-5)}
    return of_pictures(config) | ends


def of_texts_tower(config: Config, shared: int | None = None) -> Sizes:
    """The settings of the tower for texts. Files that say the end were token 2 are older than the
    setting: there the end is the token with the largest number."""
    V, width, depth, heads, hidden, T = read(
        config, *SIZES, "intermediate_size", "max_position_embeddings"
    )
    only(config, "attention_dropout", 0.0)
    sizes = {"V": V, "T": T, "width": width, "depth": depth, "heads": heads, "hidden": hidden}
    end = config.get("eos_token_id", 49_407)
    return sizes | {
        "shared": shared or read(config, "projection_dim")[0],
        "end": None if end == 2 else end,
        "activation": activation(config.get("hidden_act", "quick_gelu")),
        "eps": config.get("layer_norm_eps", 1e-5),
    }


@family("clip", CLIP, "CLIPModel", extra=("*.position_ids",))
def build_clip(config: Config) -> nn.Module:
    shared, texts, pictures = read(config, "projection_dim", "text_config", "vision_config")
    usual = {"vocab_size": 49_408, "max_position_embeddings": 77, "num_hidden_layers": 12}
    usual |= {"hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048}
    seen = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12}
    seen |= {"intermediate_size": 3072, "image_size": 224, "patch_size": 32}
    return clip(
        of_pictures_tower(seen | dict(pictures), shared),
        of_texts_tower(usual | dict(texts), shared),
    )


@family(
    "clip_vision_model",
    picture_tower_names("", ""),
    "CLIPVisionModelWithProjection",
    prefix="vision_model.",
)
def build_clip_pictures(config: Config) -> nn.Module:
    return clip_pictures(**of_pictures_tower(config))


@family(
    "clip_text_model", text_tower_names("", ""), "CLIPTextModelWithProjection", prefix="text_model."
)
def build_clip_texts(config: Config) -> nn.Module:
    return clip_texts(**of_texts_tower(config))
