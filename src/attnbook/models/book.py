"""The decoder of the book's own language models: Llama's block with normed queries and keys."""

from torch import Tensor, nn

from attnbook.decoder_config import DecoderConfig
from attnbook.models.llama import llama
from attnbook.norms import QKNorm, RMSNorm
from attnbook.positions import Rotary
from attnbook.transformer import LanguageModel, initialise

SHIPPED = DecoderConfig(V=1024, width=256, depth=4, heads=4, kv_heads=2, hidden=640)


def book_lm(config: DecoderConfig = SHIPPED) -> LanguageModel:
    """`llama` with normed queries and keys, as the book trains its language models.

    What a block adds starts at zero, and so do the logits: at first all tokens are equally likely.
    """
    turn = [QKNorm(RMSNorm(config.D), Rotary(config.D)) for _ in range(config.depth)]
    model = llama(**vars(config), rotations=turn)
    return initialise(model, zero_or_xavier, embedding_std=1.0)


def zero_or_xavier(name: str, weight: Tensor) -> None:
    """Zeros for the maps that end on the residual path and for the head, else Glorot and Bengio's
    uniform numbers."""
    if name.endswith(("to_out", "down", "lm_head")):
        nn.init.zeros_(weight)
    else:
        nn.init.xavier_uniform_(weight)
