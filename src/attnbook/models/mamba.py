"""Mamba and Mamba-2: no attention, a memory of fixed size in each block."""

from collections.abc import Mapping
from functools import partial

from torch import nn

from attnbook.block import PreNorm
from attnbook.models.config import Config, Sizes, only, read
from attnbook.models.layout import Table, filters
from attnbook.models.parts import decoder
from attnbook.models.registry import family
from attnbook.norms import RMSNorm
from attnbook.recurrence.selective import Mamba, Mamba2
from attnbook.transformer import LanguageModel


def mamba(
    V: int = 50_280,
    width: int = 768,
    depth: int = 24,
    state: tuple[int, int, int] = (1536, 16, 48),
    kernel: int = 4,
    biases: tuple[bool, bool] = (True, False),
    eps: float = 1e-5,
    tie: bool = True,
) -> LanguageModel:
    """Gu and Dao 2023, "Mamba", section 3.4 and table 12, 130M: blocks of one part. `state` are the
    channels, the numbers that each keeps, and the rank of the steps."""
    norm = partial(RMSNorm, width, eps)
    blocks = [PreNorm(Mamba(width, *state, kernel, biases=biases), norm()) for _ in range(depth)]
    return decoder(V, width, blocks, norm(), tie)


def mamba2(
    V: int = 32_768,
    width: int = 4096,
    depth: int = 64,
    heads: tuple[int, int] = (128, 64),
    keys: tuple[int, int] = (8, 128),
    kernel: int = 4,
    limits: tuple[float, float] = (0.0, float("inf")),
    biases: tuple[bool, bool] = (True, False),
    eps: float = 1e-5,
    tie: bool = False,
) -> LanguageModel:
    """Dao and Gu 2024, "Transformers are SSMs", section 7; sizes of Mamba-Codestral 7B, Mistral AI
    2024. `keys` are the groups of heads that share them, and their width."""
    norm = partial(RMSNorm, width, eps)
    groups, state = keys
    blocks = [
        PreNorm(Mamba2(width, heads, state, groups, kernel, limits, biases, eps), norm())
        for _ in range(depth)
    ]
    return decoder(V, width, blocks, norm(), tie)


def mamba2_names(ours: str, theirs: str) -> Table:
    """What the parts of a Mamba-2 layer are called."""
    return {
        f"{ours}.to_inner": f"{theirs}.in_proj",
        f"{ours}.convolve": (f"{theirs}.conv1d", filters),
        f"{ours}.shift": f"{theirs}.dt_bias",
        f"{ours}.log_speed": f"{theirs}.A_log",
        f"{ours}.skip": f"{theirs}.D",
        f"{ours}.norm": f"{theirs}.norm",
        f"{ours}.to_out": f"{theirs}.out_proj",
    }


def mamba_names(ours: str, theirs: str) -> Table:
    """What the parts of a Mamba layer are called."""
    names = mamba2_names(ours, theirs) | {
        f"{ours}.to_selection": f"{theirs}.x_proj",
        f"{ours}.to_step": f"{theirs}.dt_proj",
        f"{ours}.shift": f"{theirs}.dt_proj.bias",
    }
    del names[f"{ours}.norm"]
    return names


ENDS: Table = {
    "embed.tokens": "backbone.embeddings",
    "norm": "backbone.layers.{i}.norm",
    "body.norm": "backbone.norm_f",
    "lm_head": "lm_head",
}
MAMBA = ENDS | mamba_names("sublayer", "backbone.layers.{i}.mixer")
MAMBA2 = ENDS | mamba2_names("sublayer", "backbone.layers.{i}.mixer")
OLDER = ((".embedding.weight", ".embeddings.weight"),)


def of_mamba(config: Config) -> Sizes:
    """The settings that both share."""
    only(config, "hidden_act", "silu")
    V, width, depth, kernel = read(
        config, "vocab_size", "hidden_size", "num_hidden_layers", "conv_kernel"
    )
    return {
        **{"V": V, "width": width, "depth": depth, "kernel": kernel},
        "biases": (config.get("use_conv_bias", True), config.get("use_bias", False)),
        "eps": config.get("layer_norm_epsilon", 1e-5),
    }


@family("mamba", MAMBA, "MambaForCausalLM", prefix="backbone.", older=OLDER)
def build_mamba(config: Config) -> nn.Module:
    sizes = of_mamba(config)
    expand, numbers, rank = read(config, "expand", "state_size", "time_step_rank")
    rank = -(-sizes["width"] // 16) if rank == "auto" else rank
    inner = config.get("intermediate_size") or expand * sizes["width"]
    return mamba(state=(inner, numbers, rank), tie=config.get("tie_word_embeddings", True), **sizes)


def number(written: float | Mapping[str, str]) -> float:
    """A number, also one that JSON does not know: transformers writes {"__float__": "Infinity"}."""
    return float(written["__float__"] if isinstance(written, Mapping) else written)


@family("mamba2", MAMBA2, "Mamba2ForCausalLM", prefix="backbone.", older=OLDER)
def build_mamba2(config: Config) -> nn.Module:
    sizes = of_mamba(config)
    heads = read(config, "num_heads", "head_dim")
    if heads[0] * heads[1] != config.get("expand", 2) * sizes["width"]:
        raise ValueError(f"{heads[0]} heads of {heads[1]} do not make the inner width")
    keys = read(config, "n_groups", "state_size")
    low, high = (number(end) for end in config.get("time_step_limit") or (0.0, float("inf")))
    return mamba2(
        heads=tuple(heads),
        keys=tuple(keys),
        limits=(low, high),
        tie=config.get("tie_word_embeddings", False),
        **sizes,
    )
