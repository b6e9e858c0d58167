"""EXAONE 4."""

from collections.abc import Sequence

from torch import nn

from attnbook.models.config import Config, head_width, only, rotation, windows_of
from attnbook.models.llama import of_llama
from attnbook.models.olmo import AFTER, normed_after
from attnbook.models.registry import family
from attnbook.positions import Rotary
from attnbook.transformer import LanguageModel


def exaone4(
    V: int = 102_400,
    width: int = 5120,
    heads: int = 40,
    kv_heads: int = 8,
    D: int = 128,
    hidden: int = 27_392,
    windows: Sequence[int | None] = (4096, 4096, 4096, None) * 16,
    rotate: Rotary | None = None,
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """LG AI Research 2025, "EXAONE 4.0", section 2.1, 32B: norms behind the parts, and blocks that
    see everything do not turn what they see, if others have a window."""
    rotate, mixed = rotate or Rotary(D, 1_000_000.0), any(windows)
    seen = [(None if mixed and window is None else rotate, window) for window in windows]
    return normed_after(V, width, heads, kv_heads, D, hidden, seen, False, eps, tie)


@family("exaone4", AFTER, "Exaone4ForCausalLM", prefix="model.")
def build_exaone4(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "reorder_and_qk_norm", True)
    D = head_width(config, sizes["width"], sizes["heads"])
    del sizes["depth"]
    windows = windows_of(config, every=4)
    return exaone4(D=D, windows=windows, rotate=rotation(config, D), **sizes)
