"""The decoder of the book's own language models: Llama's block with normed queries and keys."""

from collections.abc import Sequence

from torch import Tensor, nn

from attnbook.attention import Projection
from attnbook.decoder_config import DecoderConfig
from attnbook.models.llama import llama
from attnbook.transformer import LanguageModel, initialise

SHIPPED = DecoderConfig(V=1024, width=256, depth=4, heads=4, kv_heads=2, hidden=640)


def book_lm(
    config: DecoderConfig = SHIPPED, windows: Sequence[int | None] = (None,)
) -> LanguageModel:
    """`llama` with normed queries and keys, as the book trains its language models.

    In each block one norm, with one gain, serves queries and keys; Qwen3 has one for each. What a
    block adds starts at zero, and so do the logits: at first all tokens are equally likely.
    """
    model = llama(**vars(config), windows=windows, qk_norm=True)
    for part in model.modules():
        if isinstance(part, Projection):
            part.k_norm = part.q_norm
    return initialise(model, zero_or_xavier, embedding_std=1.0)


def zero_or_xavier(name: str, weight: Tensor) -> None:
    """Zeros for the maps that end on the residual path and for the head, else Glorot and Bengio's
    uniform numbers."""
    if name.endswith(("to_out", "down", "lm_head")):
        nn.init.zeros_(weight)
    else:
        nn.init.xavier_uniform_(weight)
