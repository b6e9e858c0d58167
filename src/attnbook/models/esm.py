"""ESM-2, which fills gaps in proteins."""

from functools import partial

from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import Attention, Projection
from attnbook.block import Stack
from attnbook.feedforward import MLP
from attnbook.models.bert import head
from attnbook.models.config import SIZES, Config, only, read, rotation
from attnbook.models.layout import Table
from attnbook.models.parts import pre_norm
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Rotary
from attnbook.transformer import Embed, MaskedLanguageModel, initialise, normal

TRAINED = 0.15 * 0.8  # the share of tokens that were gaps in training


class GapEmbed(Embed):
    """`Embed` in which a gap is a vector of zeros, and the others are larger the more gaps there
    are, as after dropout: their sum is that of training, whatever the share of gaps. Rives et al.
    2021, in the code; Lin et al. 2023."""

    def __init__(self, V: int, width: int, gap: int, pad: int):
        super().__init__(V, width)
        self.gap, self.pad = gap, pad

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        start: int | Int[Tensor, "..."] = 0,
        token_types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """As `Embed`."""
        x, gaps = super().forward(tokens, start, token_types), tokens == self.gap
        share = gaps.sum(1).float() / (tokens != self.pad).sum(1)
        factor = (1 - TRAINED) / (1 - share)
        return x.masked_fill(gaps[..., None], 0.0) * factor[:, None, None].to(x.dtype)


def esm2(
    V: int = 33,
    width: int = 1280,
    depth: int = 33,
    heads: int = 20,
    hidden: int = 5120,
    gap: int | None = 32,
    pad: int = 1,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
) -> MaskedLanguageModel:
    """Lin et al. 2023, "Evolutionary-scale prediction of atomic-level protein structure", 650
    million parameters: a pre-norm BERT with rotary positions. Tokens are amino acids. `gap` and
    `pad` are tokens; without a `gap` it has a vector as any other."""
    norm, turn = partial(LayerNorm, width, eps), rotate or Rotary(width // heads)

    def parts() -> tuple[nn.Module, nn.Module]:
        attention = Attention(Projection(width, heads), nn.Linear(width, width), turn)
        return attention, MLP(width, hidden, nn.GELU())

    embed = Embed(V, width) if gap is None else GapEmbed(V, width, gap, pad)
    body = Stack(pre_norm(parts, depth, norm), norm())
    model = MaskedLanguageModel(embed, body, head(embed, width, eps, nn.GELU()))
    return initialise(model, normal)


_LAYER = "esm.encoder.layer.{i}"
ESM: Table = {
    "embed.tokens": "esm.embeddings.word_embeddings",
    "attention.norm": f"{_LAYER}.attention.LayerNorm",
    "attention.sublayer.project.to_qkv": f"{_LAYER}.attention.self.query key value",
    "attention.sublayer.to_out": f"{_LAYER}.attention.output.dense",
    "feedforward.norm": f"{_LAYER}.LayerNorm",
    "feedforward.sublayer.up": f"{_LAYER}.intermediate.dense",
    "feedforward.sublayer.down": f"{_LAYER}.output.dense",
    "body.norm": "esm.encoder.emb_layer_norm_after",
    "lm_head.0": "lm_head.dense",
    "lm_head.2": "lm_head.layer_norm",
    "lm_head.3": "lm_head",
}
# a map from attention to contacts, a table of positions that nobody uses, a pooler
BESIDE = ("*contact_head.*", "*.position_embeddings.weight", "*.pooler.*", "pooler.*")


@family("esm", ESM, "EsmForMaskedLM", prefix="esm.", extra=BESIDE)
def build_esm(config: Config) -> nn.Module:
    V, width, depth, heads, hidden = read(config, *SIZES, "intermediate_size")
    only(
        {"position_embedding_type": "absolute"} | dict(config), "position_embedding_type", "rotary"
    )
    only(config, "emb_layer_norm_before", False, None)
    only(config, "is_folding_model", False)
    only(config, "is_decoder", False)
    only(config, "add_cross_attention", False)
    only(config, "tie_word_embeddings", True)
    gap, pad = read(config, "mask_token_id", "pad_token_id")
    return esm2(
        *(V, width, depth, heads, hidden),
        gap=gap if config.get("token_dropout") else None,
        pad=pad,
        rotate=rotation(config, width // heads),
        eps=config.get("layer_norm_eps", 1e-12),
    )
