"""What a published config.json says of vision transformers: the model of that size.

What has no place in it is refused.
"""

from torch import nn

from attnbook.families import vision
from attnbook.families.settings import SIZES, Config, Sizes, with_eps
from attnbook.published import only, read
from attnbook.recipes import vit


def of_pictures(config: Config) -> Sizes:
    """The settings that vision transformers share."""
    width, depth, heads, patch = read(config, *SIZES[1:], "patch_size")
    only(config, "num_channels", 3)
    only(config, "qkv_bias", True)
    image = config["image_size"]
    image = (image, image) if isinstance(image, int) else tuple(image)
    return {
        **{"image": image, "patch": patch, "width": width, "depth": depth, "heads": heads},
        "hidden": config.get("intermediate_size", int(width * config.get("mlp_ratio", 4))),
    }


def classes(config: Config) -> int:
    """How many classes the labels make: transformers leaves out the two that it expects."""
    return len(config.get("id2label") or {"0": 0, "1": 1})


def build_vit(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu")
    sizes = of_pictures(config)
    return with_eps(vit(classes=classes(config), **sizes), config.get("layer_norm_eps", 1e-12))


def build_deit(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu")
    eps = config.get("layer_norm_eps", 1e-12)
    return vision.deit(classes=classes(config), eps=eps, **of_pictures(config))


def build_dinov2(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu")
    only(config, "use_swiglu_ffn", False)
    registers, eps = config.get("num_register_tokens", 0), config.get("layer_norm_eps", 1e-6)
    sizes = of_pictures(config)
    return vision.dinov2(classes=classes(config), registers=registers, eps=eps, **sizes)


def build_siglip(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu_pytorch_tanh")
    return vision.siglip(eps=config.get("layer_norm_eps", 1e-6), **of_pictures(config))
