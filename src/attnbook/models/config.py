"""What a published config.json says: sizes, activations, positions and widths, as parts."""

from collections.abc import Callable, Mapping
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from attnbook.decoder_config import DecoderConfig
from attnbook.feedforward import QuickGELU, SquaredReLU
from attnbook.positions import (
    DynamicRotary,
    LongRotary,
    Pairs,
    Rotary,
    halves,
    linear,
    llama3,
    longrope,
    longrope_temperature,
    yarn,
    yarn_temperature,
)

Config = Mapping[str, Any]  # as config.json has it
Sizes = dict[str, Any]  # arguments of a recipe by name; the recipe's own types check them
SIZES = "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "relu2": SquaredReLU,
    "quick_gelu": QuickGELU,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "gelu_new": lambda: nn.GELU(approximate="tanh"),
    "gelu_pytorch_tanh": lambda: nn.GELU(approximate="tanh"),
}


def read(config: Mapping[str, Any], *names: str) -> list[Any]:
    """These settings, or a ValueError that says which are missing."""
    missing = [name for name in names if name not in config]
    if missing:
        raise ValueError(f"config.json does not say what these are: {', '.join(missing)}")
    return [config[name] for name in names]


def only(config: Mapping[str, Any], name: str, *values: Any) -> None:
    """Raise a ValueError unless the setting is one of the values, or not there at all."""
    if name in config and config[name] not in values:
        supported = " or ".join(repr(value) for value in values)
        raise ValueError(f"config.json has {name} = {config[name]!r}; supported is {supported}")


def or_default(part: nn.Module | None, usual: nn.Module) -> nn.Module:
    """The part, or the usual one if none is given: a part that holds nothing is false, too."""
    return usual if part is None else part


def activation(name: str) -> nn.Module:
    """The activation that transformers calls so."""
    if name not in ACTIVATIONS:
        raise ValueError(
            f"no activation is called {name!r} here; there are {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]()


def scaled_frequencies(
    rope: Config, D: int, base: float, limit: int | None
) -> tuple[Float[Tensor, " half"] | None, float]:
    """The table of frequencies that a rope entry asks for (None: plain), and what queries and keys
    are multiplied with, its attention factor."""
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None, 1.0
    factor = float(rope.get("factor", 1.0))
    if kind == "linear":
        return linear(D, base, factor), 1.0
    trained = rope.get("original_max_position_embeddings") or limit
    if kind not in ("llama3", "yarn"):
        raise ValueError(
            f"rotary frequencies of the kind {kind!r} are unknown here; there are default, linear, "
            "llama3, yarn, dynamic and longrope"
        )
    if trained is None:
        raise ValueError(f"config.json does not say for how long a text {kind} stretches")
    if kind == "llama3":
        low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
        return llama3(D, base, factor, low, high, trained), 1.0
    fast, slow = float(rope.get("beta_fast") or 32), float(rope.get("beta_slow") or 1)
    table = yarn(D, base, factor, trained, fast, slow, rope.get("truncate", True))
    return table, attention_factor(rope, factor)


def attention_factor(rope: Config, factor: float) -> float:
    """YaRN's attention factor, which DeepSeek gives by two strengths and others leave out."""
    if rope.get("attention_factor") is not None:
        return rope["attention_factor"]
    top, below = float(rope.get("mscale") or 0), float(rope.get("mscale_all_dim") or 0)
    if top and below:
        return yarn_temperature(factor, top) / yarn_temperature(factor, below)
    return yarn_temperature(factor)


def rotation(config: Config, D: int, kind: str | None = None, pairs: Pairs = halves) -> Rotary:
    """The rotation of a config: base, stretching, share; of a `kind` of layer, if they differ."""
    rope: Config = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if kind is not None and kind in rope:
        rope = rope[kind]
    base = float(rope.get("rope_theta", config.get("rope_theta", 10_000.0)))
    share = rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    turning = int(D * share)
    limit = config.get("max_position_embeddings")
    if rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope", "su"):
        return by_length(config, rope, D, turning, base, pairs)
    table, scale = scaled_frequencies(rope, turning, base, limit)
    if table is None:
        table = linear(turning, base)
    return Rotary(D, base, table, pairs, scale)


def by_length(
    config: Config, rope: Config, D: int, turning: int, base: float, pairs: Pairs
) -> Rotary:
    """The rotation of a config whose frequencies depend on the length of the text."""
    (limit,) = read(config, "max_position_embeddings")
    if rope.get("rope_type", rope.get("type")) == "dynamic":
        factor = float(read(rope, "factor")[0])
        return DynamicRotary(D, base, factor, limit, turning, pairs)
    short, long = read(rope, "short_factor", "long_factor")  # "su" is its name in older files
    trained = (
        rope.get("original_max_position_embeddings")
        or read(config, "original_max_position_embeddings")[0]
    )
    tables = longrope(turning, short, base), longrope(turning, long, base)
    stretch = rope.get("factor") or limit / trained
    scale = rope.get("attention_factor") or longrope_temperature(stretch, trained)
    return LongRotary(D, *tables, trained, pairs, scale)


def windows_of(config: Config, every: int) -> list[int | None]:
    """Each block's window, None where it sees everything: as `layer_types` says, or, in files that
    are older than it, all but each `every`-th block have one."""
    depth, kinds = config["num_hidden_layers"], config.get("layer_types")
    pattern = config.get("sliding_window_pattern") or every  # a number, or such as "LLLG"
    every = len(pattern) if isinstance(pattern, str) else pattern
    if kinds is None:
        kinds = ["sliding_attention" if (i + 1) % every else "full_attention" for i in range(depth)]
    return [config["sliding_window"] if kind == "sliding_attention" else None for kind in kinds]


def near_and_far(config: Config, D: int, *bases: tuple[str, float]) -> tuple[Rotary, Rotary]:
    """The rotations of blocks with a window and of those that see everything. Files older than
    `rope_parameters` have two numbers: `bases` are their names and what is usual."""
    kinds = "sliding_attention", "full_attention"
    if not config.get("rope_parameters"):
        near, far = (config.get(name, usual) for name, usual in bases)
        stretched = {"rope_theta": far} | dict(config.get("rope_scaling") or {})
        ropes = {kinds[0]: {"rope_theta": near}, kinds[1]: stretched}
        config = dict(config) | {"rope_parameters": ropes}
    near_one, far_one = (rotation(config, D, kind) for kind in kinds)
    return near_one, far_one


def head_width(config: Config, width: int, heads: int) -> int:
    """`head_dim`, or width ÷ heads where it is not said."""
    return config.get("head_dim") or width // heads


def decoder_config(config: Config, tie: bool = False) -> DecoderConfig:
    """The sizes of a decoder with grouped queries; `tie` is what is usual in its family."""
    V, width, depth, heads, hidden = read(config, *SIZES, "intermediate_size")
    kv_heads = config.get("num_key_value_heads") or heads
    tie = config.get("tie_word_embeddings", tie)
    return DecoderConfig(V, width, depth, heads, kv_heads, hidden, tie)


def frame(config: Config) -> Sizes:
    """Sizes and rotation of a decoder with grouped queries, for recipes other than `llama`."""
    sizes = decoder_config(config)
    rotate = rotation(config, head_width(config, sizes.width, sizes.heads))
    return vars(sizes) | {"rotate": rotate}
