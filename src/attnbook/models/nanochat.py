"""nanochat."""

from functools import partial

from torch import nn

from attnbook.attention import Attention, Projection
from attnbook.block import Stack
from attnbook.feedforward import MLP, SquaredReLU
from attnbook.models.config import Config, Sizes, decoder_config, only
from attnbook.models.gemma import Cap
from attnbook.models.layout import Table
from attnbook.models.llama import ATTENTION, ENDS
from attnbook.models.parts import pre_norm
from attnbook.models.registry import family
from attnbook.positions import Rotary, linear
from attnbook.transformer import Embed, LanguageModel, initialise, normal


def nanochat(
    V: int = 65_536,
    width: int = 2048,
    depth: int = 32,
    heads: int = 16,
    kv_heads: int = 16,
    hidden: int = 8192,
    base: float = 10_000.0,
    cap: float | None = 15.0,
    eps: float = 1e-6,
) -> LanguageModel:
    """Karpathy 2025, nanochat, "d32": norms without weights, one of them behind the embedding, two
    for queries and keys; a squared ReLU, logits with a soft cap, no biases. Pairs turn clockwise,
    so their frequencies are negative."""
    D, norm = width // heads, partial(nn.RMSNorm, eps=eps, elementwise_affine=False)
    rotate = Rotary(D, frequencies=-linear(D, base))

    def parts() -> tuple[nn.Module, nn.Module]:
        project = Projection(width, heads, kv_heads, D, False, norm(D), norm(D))
        attention = Attention(project, nn.Linear(width, width, bias=False), rotate)
        return attention, MLP(width, hidden, SquaredReLU(), bias=False)

    embed = Embed(V, width, norm=norm(width))
    body = Stack(pre_norm(parts, depth, partial(norm, width)), norm(width))
    to_logits = nn.Linear(width, V, bias=False)
    lm_head = to_logits if cap is None else nn.Sequential(to_logits, Cap(cap))
    return initialise(LanguageModel(embed, body, lm_head), normal)


NANOCHAT: Table = (
    ATTENTION
    | ENDS
    | {
        "feedforward.sublayer.up": "model.layers.{i}.mlp.fc1",
        "feedforward.sublayer.down": "model.layers.{i}.mlp.fc2",
    }
)


@family("nanochat", NANOCHAT, "NanoChatForCausalLM", prefix="model.")
def build_nanochat(config: Config) -> nn.Module:
    only(config, "hidden_act", "relu2")
    only(config, "attention_bias", False)
    only(config, "tie_word_embeddings", False)
    rope = config.get("rope_parameters") or {}
    only(rope, "rope_type", "default")
    sizes: Sizes = vars(decoder_config(config)) | {"base": float(rope.get("rope_theta", 10_000.0))}
    del sizes["tie"]
    cap, eps = config.get("final_logit_softcapping", 15.0), config.get("rms_norm_eps", 1e-6)
    return nanochat(cap=cap, eps=eps, **sizes)
