"""What a published config.json says of decoders with a memory: the model of that size.

What has no place in it is refused.
"""

from torch import nn

from attnbook.families import hybrids
from attnbook.families.builds.experts import of_mixture
from attnbook.families.settings import Config, rotation
from attnbook.published import only, read


def build_qwen3_next(config: Config) -> nn.Module:
    sizes = of_mixture(config)
    only(config, "tie_word_embeddings", False)
    (D,) = read(config, "head_dim")
    keys, values = (
        tuple(read(config, f"linear_num_{kind}_heads", f"linear_{kind}_head_dim"))
        for kind in ("key", "value")
    )
    depth, every = config["num_hidden_layers"], config.get("full_attention_interval", 4)
    kinds = config.get("layer_types")
    full = [(i + 1) % every == 0 for i in range(depth)]
    return hybrids.qwen3_next(
        *(sizes["V"], sizes["width"], (sizes["heads"], sizes["kv_heads"], D), keys, values),
        tuple(read(config, "moe_intermediate_size", "shared_expert_intermediate_size")),
        sizes["experts"],
        full if kinds is None else [kind == "full_attention" for kind in kinds],
        rotation({"partial_rotary_factor": 0.25} | dict(config), D),
        sizes["eps"],
        sizes["sum_to_one"],
        config["linear_conv_kernel_dim"],
    )
