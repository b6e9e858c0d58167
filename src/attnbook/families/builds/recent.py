"""What a published config.json says of decoders of 2024 and 2025: the model of that size.

What has no place in it is refused.
"""

from torch import nn

from attnbook.families import recent
from attnbook.families.builds.decoders import of_llama
from attnbook.families.settings import Config, head_width, near_and_far, rotation, windows_of
from attnbook.published import only
from attnbook.rotary import neighbours


def build_gemma(config: Config) -> nn.Module:
    # "gelu" in the first files meant its approximation, too
    only(config, "hidden_act", "gelu_pytorch_tanh", "gelu")
    only(config, "hidden_activation", "gelu_pytorch_tanh", None)
    only(config, "attention_bias", False)
    only(config, "use_bidirectional_attention", False, None)
    only(config, "tie_word_embeddings", True)
    sizes = of_llama(dict(config) | {"hidden_act": "silu"})
    del sizes["tie"]
    D = head_width(config, sizes["width"], sizes["heads"])
    return recent.gemma(D=D, rotate=rotation(config, D), **sizes)


def build_glm4(config: Config) -> nn.Module:
    sizes = of_llama(config)
    D = head_width(config, sizes["width"], sizes["heads"])
    rotate = rotation({"partial_rotary_factor": 0.5} | dict(config), D, pairs=neighbours)
    bias = config.get("attention_bias", True)
    return recent.glm4(D=D, rotate=rotate, bias=bias, **sizes)


def build_apertus(config: Config) -> nn.Module:
    only(config, "hidden_act", "xielu")
    only(config, "qk_norm", True)
    only(config, "post_norm", False)
    only(config, "attention_bias", False)
    sizes = of_llama(dict(config) | {"hidden_act": "silu"})
    D = head_width(config, sizes["width"], sizes["heads"])
    return recent.apertus(D=D, rotate=rotation(config, D), **sizes)


def build_olmo3(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "attention_bias", False)
    bases = [("rope_theta", 500_000.0)] * 2
    rotations = near_and_far(config, sizes["width"] // sizes["heads"], *bases)
    del sizes["depth"]
    return recent.olmo3(windows=windows_of(config, every=4), rotations=rotations, **sizes)


def build_exaone4(config: Config) -> nn.Module:
    sizes = of_llama(config)
    only(config, "reorder_and_qk_norm", True)
    D = head_width(config, sizes["width"], sizes["heads"])
    del sizes["depth"]
    windows = windows_of(config, every=4)
    return recent.exaone4(D=D, windows=windows, rotate=rotation(config, D), **sizes)
