"""BERT and what became of it: RoBERTa, DistilBERT, ELECTRA, ALBERT. Encoders that fill gaps."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PostNorm, Stack
from attnbook.feedforward import MLP
from attnbook.models.config import SIZES, Config, Sizes, activation, only, or_default, read
from attnbook.models.parts import OffsetLearned
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.transformer import Embed, MaskedLanguageModel, Positions, Tied, initialise, normal


def bert(
    V: int = 30_522,
    T: int = 512,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    dropout: float = 0.1,
    token_types: int = 0,
    hidden: int | None = None,
    eps: float = 1e-12,
    activation: nn.Module | None = None,
    positions: Positions | None = None,
    attention_dropout: float = 0.0,
) -> MaskedLanguageModel:
    """Devlin et al. 2019, section 3, BERT-base with the head of its first task: 110 million
    parameters. With `token_types` = 2 it is told in which of two texts each token stands.
    `hidden` is 4 × width. `dropout` acts on the embedding and on what is added to the residual
    path, `attention_dropout` on the weights."""
    gelu, norm = or_default(activation, nn.GELU()), LayerNorm(width, eps)
    positions = Learned(T, width) if positions is None else positions
    embed = Embed(V, width, positions, norm=norm, dropout=dropout, token_types=token_types)
    inner = 4 * width if hidden is None else hidden
    rates = dropout, attention_dropout
    body = Stack([post_norm(width, heads, inner, gelu, eps, *rates) for _ in range(depth)])
    return initialise(MaskedLanguageModel(embed, body, head(embed, width, eps, gelu)), normal)


def post_norm(
    width: int,
    heads: int,
    hidden: int,
    activation: nn.Module,
    eps: float,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
) -> Block:
    """The block that BERT and its heirs share: a norm behind each sum. Devlin et al. 2019,
    section 3."""

    def post(part: nn.Module) -> PostNorm:
        return PostNorm(part, LayerNorm(width, eps), dropout)

    attention = MultiHeadAttention(width, heads, dropout=attention_dropout)
    return Block(post(attention), post(MLP(width, hidden, activation)))


def head(embed: Embed, width: int, eps: float, activation: nn.Module) -> nn.Sequential:
    """Back to the vocabulary, by way of one more layer. Devlin et al. 2019, appendix A.2."""
    narrow = embed.tokens.embedding_dim
    return nn.Sequential(
        nn.Linear(width, narrow), activation, LayerNorm(narrow, eps), Tied(embed, bias=True)
    )


def roberta(
    V: int = 50_265,
    T: int = 512,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    dropout: float = 0.1,
    token_types: int = 1,
    hidden: int | None = None,
    eps: float = 1e-5,
    activation: nn.Module | None = None,
    attention_dropout: float = 0.0,
) -> MaskedLanguageModel:
    """Liu et al. 2019, section 4: BERT, trained longer, without the question which text is which.
    Its positions begin at 2."""
    sizes = V, T, width, depth, heads, dropout, token_types, hidden
    return bert(*sizes, eps, activation, OffsetLearned(T, width, first=2), attention_dropout)


def distilbert(
    V: int = 30_522,
    T: int = 512,
    width: int = 768,
    depth: int = 6,
    heads: int = 12,
    dropout: float = 0.1,
    hidden: int | None = None,
    eps: float = 1e-12,
    activation: nn.Module | None = None,
    attention_dropout: float = 0.0,
) -> MaskedLanguageModel:
    """Sanh et al. 2019, section 3: every other layer of BERT, and nothing about two texts."""
    sizes = V, T, width, depth, heads, dropout, 0, hidden
    return bert(*sizes, eps, activation, attention_dropout=attention_dropout)


class NarrowEmbed(Embed):
    """`Embed` of fewer numbers than the blocks have, then a map to their width: a large vocabulary
    costs less. Lan et al. 2020, section 3.1, "factorized embedding parameterization"."""

    def __init__(
        self,
        V: int,
        narrow: int,
        width: int,
        positions: Positions,
        norm: nn.Module,
        token_types: int,
        dropout: float = 0.1,
    ):
        super().__init__(V, narrow, positions, norm=norm, dropout=dropout, token_types=token_types)
        self.to_width = nn.Linear(narrow, width)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        start: int | Int[Tensor, "..."] = 0,
        token_types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """As `Embed`."""
        return self.to_width(super().forward(tokens, start, token_types))


def electra(
    V: int = 30_522,
    T: int = 512,
    narrow: int = 128,
    width: int = 256,
    depth: int = 12,
    heads: int = 4,
    hidden: int = 1024,
    token_types: int = 2,
    eps: float = 1e-12,
    activation: nn.Module | None = None,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
) -> MaskedLanguageModel:
    """Clark et al. 2020, section 2, the small generator: BERT with a narrow embedding, which fills
    gaps with tokens that another model learns to find out."""
    norm = LayerNorm(narrow, eps)
    embed = NarrowEmbed(V, narrow, width, Learned(T, narrow), norm, token_types, dropout)
    gelu = or_default(activation, nn.GELU())
    rates = dropout, attention_dropout
    body = Stack([post_norm(width, heads, hidden, gelu, eps, *rates) for _ in range(depth)])
    model = MaskedLanguageModel(embed, body, head(embed, width, eps, nn.GELU()))
    return initialise(model, normal)


def albert(
    V: int = 30_000,
    T: int = 512,
    narrow: int = 128,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    token_types: int = 2,
    eps: float = 1e-12,
    activation: nn.Module | None = None,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
) -> MaskedLanguageModel:
    """Lan et al. 2020, section 3.1, base: BERT with a narrow embedding, and one block's weights
    for all depths."""
    gelu, norm = or_default(activation, nn.GELU(approximate="tanh")), LayerNorm(narrow, eps)
    embed = NarrowEmbed(V, narrow, width, Learned(T, narrow), norm, token_types, dropout)
    block = post_norm(width, heads, hidden, gelu, eps, dropout, attention_dropout)
    body = Stack([block] * depth)
    return initialise(MaskedLanguageModel(embed, body, head(embed, width, eps, gelu)), normal)


def bert_names(prefix: str) -> dict[str, str]:
    """What BERT's layers are called, behind this prefix."""
    layer = f"{prefix}.encoder.layer.{{i}}"
    return {
        "embed.tokens": f"{prefix}.embeddings.word_embeddings",
        "embed.token_types": f"{prefix}.embeddings.token_type_embeddings",
        "embed.positions": f"{prefix}.embeddings.position_embeddings",
        "embed.norm": f"{prefix}.embeddings.LayerNorm",
        "attention.sublayer.project.to_qkv": f"{layer}.attention.self.query key value",
        "attention.sublayer.to_out": f"{layer}.attention.output.dense",
        "attention.norm": f"{layer}.attention.output.LayerNorm",
        "feedforward.sublayer.up": f"{layer}.intermediate.dense",
        "feedforward.sublayer.down": f"{layer}.output.dense",
        "feedforward.norm": f"{layer}.output.LayerNorm",
    }


BERT = bert_names("bert") | {
    "lm_head.0": "cls.predictions.transform.dense",
    "lm_head.2": "cls.predictions.transform.LayerNorm",
    "lm_head.3": "cls.predictions",
}
ROBERTA = bert_names("roberta") | {
    "lm_head.0": "lm_head.dense",
    "lm_head.2": "lm_head.layer_norm",
    "lm_head.3": "lm_head",
}
DISTILBERT = {
    "embed.tokens": "distilbert.embeddings.word_embeddings",
    "embed.positions": "distilbert.embeddings.position_embeddings",
    "embed.norm": "distilbert.embeddings.LayerNorm",
    **{
        f"attention.sublayer.{ours}": f"distilbert.transformer.layer.{{i}}.attention.{theirs}"
        for ours, theirs in (("project.to_qkv", "q_lin k_lin v_lin"), ("to_out", "out_lin"))
    },
    "attention.norm": "distilbert.transformer.layer.{i}.sa_layer_norm",
    "feedforward.sublayer.up": "distilbert.transformer.layer.{i}.ffn.lin1",
    "feedforward.sublayer.down": "distilbert.transformer.layer.{i}.ffn.lin2",
    "feedforward.norm": "distilbert.transformer.layer.{i}.output_layer_norm",
    "lm_head.0": "vocab_transform",
    "lm_head.2": "vocab_layer_norm",
    "lm_head.3": "vocab_projector",
}
ELECTRA = bert_names("electra") | {
    "embed.to_width": "electra.embeddings_project",
    "lm_head.0": "generator_predictions.dense",
    "lm_head.2": "generator_predictions.LayerNorm",
    "lm_head.3": "generator_lm_head",
}
_LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0"
ALBERT = bert_names("albert") | {
    "embed.to_width": "albert.encoder.embedding_hidden_mapping_in",
    "attention.sublayer.project.to_qkv": f"{_LAYER}.attention.query key value",
    "attention.sublayer.to_out": f"{_LAYER}.attention.dense",
    "attention.norm": f"{_LAYER}.attention.LayerNorm",
    "feedforward.sublayer.up": f"{_LAYER}.ffn",
    "feedforward.sublayer.down": f"{_LAYER}.ffn_output",
    "feedforward.norm": f"{_LAYER}.full_layer_layer_norm",
    "lm_head.0": "predictions.dense",
    "lm_head.2": "predictions.LayerNorm",
    "lm_head.3": "predictions",
}
OTHER_TASKS = ("*.pooler.*", "pooler.*", "cls.seq_relationship.*", "*.decoder.bias")


def of_bert(config: Config, dropout: float = 0.1) -> Sizes:
    """The settings of BERT and RoBERTa; `dropout` is the rate where config.json names none."""
    V, width, depth, heads, hidden, token_types = read(
        config, *SIZES, "intermediate_size", "type_vocab_size"
    )
    only(config, "position_embedding_type", "absolute", None)
    only(config, "is_decoder", False)
    only(config, "add_cross_attention", False)
    only(config, "tie_word_embeddings", True)
    return {
        **{"V": V, "width": width, "depth": depth, "heads": heads, "hidden": hidden},
        **{"token_types": token_types, "eps": config.get("layer_norm_eps", 1e-12)},
        "activation": activation(config.get("hidden_act", "gelu")),
        "dropout": config.get("hidden_dropout_prob", dropout),
        "attention_dropout": config.get("attention_probs_dropout_prob", dropout),
    }


@family("bert", BERT, "BertForMaskedLM", prefix="bert.", extra=OTHER_TASKS)
def build_bert(config: Config) -> nn.Module:
    sizes = of_bert(config)
    (T,) = read(config, "max_position_embeddings")
    return bert(T=T, **sizes)


@family("roberta", ROBERTA, "RobertaForMaskedLM", prefix="roberta.", extra=OTHER_TASKS)
def build_roberta(config: Config) -> nn.Module:
    (T,) = read(config, "max_position_embeddings")
    only(config, "pad_token_id", 1)
    only(config, "hidden_act", "gelu")  # its head has none other
    return roberta(T=T - 2, **of_bert(config))


@family("distilbert", DISTILBERT, "DistilBertForMaskedLM", prefix="distilbert.")
def build_distilbert(config: Config) -> nn.Module:
    names = "vocab_size", "max_position_embeddings", "dim", "n_layers", "n_heads", "hidden_dim"
    only(config, "tie_word_embeddings", True)
    gelu = activation(config.get("activation", "gelu"))
    V, T, width, depth, heads, hidden = read(config, *names)
    rates = config.get("dropout", 0.1), config.get("attention_dropout", 0.1)
    sizes = V, T, width, depth, heads, rates[0], hidden
    return distilbert(*sizes, activation=gelu, attention_dropout=rates[1])


@family("electra", ELECTRA, "ElectraForMaskedLM", prefix="electra.", extra=OTHER_TASKS)
def build_electra(config: Config) -> nn.Module:
    sizes = of_bert(config)
    T, narrow = read(config, "max_position_embeddings", "embedding_size")
    if narrow == sizes["width"]:  # nothing to map, so there is no map
        return bert(T=T, **sizes)
    return electra(T=T, narrow=narrow, **sizes)


@family("albert", ALBERT, "AlbertForMaskedLM", prefix="albert.", extra=OTHER_TASKS)
def build_albert(config: Config) -> nn.Module:
    T, narrow = read(config, "max_position_embeddings", "embedding_size")
    only(config, "num_hidden_groups", 1)
    only(config, "inner_group_num", 1)
    return albert(T=T, narrow=narrow, **of_bert(config, dropout=0.0))
