"""wav2vec 2.0 and HuBERT, which listen to samples and not to a spectrogram."""

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PostNorm, PreNorm, Stack
from attnbook.feedforward import MLP
from attnbook.models.config import SIZES, Config, activation, only, or_default, read
from attnbook.models.layout import Table
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.transformer import add_query_axis, initialise, normal

Step = tuple[int, int, int]  # width, kernel and stride of a convolution over time
USUAL: tuple[Step, ...] = ((512, 10, 5), *((512, 3, 2),) * 4, *((512, 2, 2),) * 2)


class AcrossChannels(LayerNorm):
    """A norm of all channels of each frame, for vectors that stand in columns."""

    def forward(self, x: Float[Tensor, "B C T"]) -> Float[Tensor, "B C T"]:
        return super().forward(x.mT).mT


class Frames(nn.Module):
    """A convolution over time, a norm if there is one, GELU."""

    def __init__(self, channels: int, step: Step, norm: nn.Module, bias: bool):
        super().__init__()
        width, self.kernel, self.stride = step
        self.convolve = nn.Conv1d(channels, width, self.kernel, self.stride, bias=bias)
        self.norm = norm

    def forward(self, x: Float[Tensor, "B channels T"]) -> Float[Tensor, "B C n"]:
        return F.gelu(self.norm(self.convolve(x)))

    def count(self, samples: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
        """How many frames so many inputs give."""
        return (samples - self.kernel) // self.stride + 1


class ConvolutionalPositions(nn.Module):
    """Where a frame stands is told by the frames around it: a convolution in `groups`, then GELU.

    Its weights are a direction, of length 1 at each tap, times a learned length. Mohamed et al.
    2019, section 2; Baevski et al. 2020, section 2; Salimans and Kingma 2016, equation 2.
    """

    def __init__(self, width: int, kernel: int = 128, groups: int = 16):
        super().__init__()
        if width % groups:
            raise ValueError(f"{width} channels do not divide into {groups} groups")
        self.groups = groups
        self.direction = nn.Parameter(torch.randn(width, width // groups, kernel))
        self.length = nn.Parameter(torch.ones(1, 1, kernel))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        weight = self.length * self.direction / self.direction.norm(dim=(0, 1), keepdim=True)
        around = weight.shape[-1] // 2
        found = F.conv1d(x.mT, weight, self.bias, padding=around, groups=self.groups)
        return F.gelu(found[..., : x.shape[1]].mT)


class Waveform(nn.Module):
    """Sound as samples to vectors: convolutions that make one frame of some 400 samples, a map to
    the width of the blocks, and positions. Baevski et al. 2020, section 2."""

    def __init__(
        self, frames: Sequence[Frames], to_width: nn.Module, positions: nn.Module, after: nn.Module
    ):
        super().__init__()
        self.blocks, self.to_width = nn.ModuleList(frames), to_width
        self.positions, self.after = positions, after

    def forward(
        self, sound: Float[Tensor, "B samples"], mask: Bool[Tensor, "B samples"] | None = None
    ) -> tuple[Float[Tensor, "B T C"], Bool[Tensor, "B T"] | None]:
        """The frames, and which of them are there: `mask` is False at samples that are padding, at
        the end."""
        x = sound[:, None]
        count = None if mask is None else mask.sum(-1)
        for block in self.blocks:
            assert isinstance(block, Frames)
            x = block(x)
            count = None if count is None else block.count(count)
        x, there = self.to_width(x.mT), None
        if count is not None:
            there = torch.arange(x.shape[1], device=x.device) < count[:, None]
            x = x * there[..., None]
        return self.after(x + self.positions(x)), there


class CTCModel(nn.Module):
    """Which letter is said in each frame of sound, or none: an encoder, and a map to the letters.

    Repeated letters are one, and those between which "none" stands are two: connectionist temporal
    classification, Graves et al. 2006, section 3.
    """

    def __init__(self, embed: Waveform, body: Stack, lm_head: nn.Module):
        super().__init__()
        self.embed, self.body, self.lm_head = embed, body, lm_head

    def forward(
        self, sound: Float[Tensor, "B samples"], mask: Bool[Tensor, "B samples"] | None = None
    ) -> Float[Tensor, "B T V"]:
        """Logits of each frame. `mask` is True at samples, False at padding behind them."""
        x, there = self.embed(sound, mask)
        return self.lm_head(self.body(x, mask=add_query_axis(there)))


def wav2vec2(
    V: int = 32,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    steps: Sequence[Step] = USUAL,
    positions: tuple[int, int] = (128, 16),
    pre_norm: bool = False,
    norms: bool = False,
    bias: bool = False,
    activation: nn.Module | None = None,
    eps: float = 1e-5,
    dropout: float = 0.1,
) -> CTCModel:
    """Baevski et al. 2020, section 4.2, base, with its head for letters. `positions` are the kernel
    and the groups of theirs. The larger models have the norm before each part (`pre_norm`) and
    `norms`, and a `bias`, in all `steps`; else only the first has a norm, of each channel."""
    norm, gelu = partial(LayerNorm, width, eps), or_default(activation, nn.GELU())

    def block() -> Block:
        parts = MultiHeadAttention(width, heads), MLP(width, hidden, gelu)
        wrap = PreNorm if pre_norm else PostNorm
        return Block(*(wrap(part, norm(), dropout) for part in parts))

    def frames(i: int) -> Frames:
        channels, out = 1 if i == 0 else steps[i - 1][0], steps[i][0]
        first = nn.GroupNorm(out, out) if i == 0 else nn.Identity()
        return Frames(channels, steps[i], AcrossChannels(out) if norms else first, bias)

    to_width = nn.Sequential(LayerNorm(steps[-1][0], eps), nn.Linear(steps[-1][0], width))
    place, ends = ConvolutionalPositions(width, *positions), (nn.Identity(), norm())
    before, after = ends if pre_norm else ends[::-1]
    embed = Waveform([frames(i) for i in range(len(steps))], to_width, place, before)
    body = Stack([block() for _ in range(depth)], after)
    return initialise(CTCModel(embed, body, nn.Linear(width, V)), normal)


def names_in(prefix: str) -> Table:
    """What wav2vec 2.0's parts are called behind this prefix."""
    layer, place = f"{prefix}.encoder.layers.{{i}}", f"{prefix}.encoder.pos_conv_embed.conv"
    return {
        "embed.convolve": f"{prefix}.feature_extractor.conv_layers.{{i}}.conv",
        "embed.norm": f"{prefix}.feature_extractor.conv_layers.{{i}}.layer_norm",
        "embed.after": f"{prefix}.encoder.layer_norm",
        "body.norm": f"{prefix}.encoder.layer_norm",
        "embed.to_width.0": f"{prefix}.feature_projection.layer_norm",
        "embed.to_width.1": f"{prefix}.feature_projection.projection",
        "embed.positions.length": f"{place}.parametrizations.weight.original0",
        "embed.positions.direction": f"{place}.parametrizations.weight.original1",
        "embed.positions.bias": f"{place}.bias",
        "attention.sublayer.project.to_qkv": f"{layer}.attention.q_proj k_proj v_proj",
        "attention.sublayer.to_out": f"{layer}.attention.out_proj",
        "attention.norm": f"{layer}.layer_norm",
        "feedforward.sublayer.up": f"{layer}.feed_forward.intermediate_dense",
        "feedforward.sublayer.down": f"{layer}.feed_forward.output_dense",
        "feedforward.norm": f"{layer}.final_layer_norm",
        "lm_head": "lm_head",
    }


def build_wav2vec2(config: Config) -> CTCModel:
    """The settings of wav2vec 2.0 and HuBERT."""
    V, width, depth, heads, hidden = read(config, *SIZES, "intermediate_size")
    steps = zip(*read(config, "conv_dim", "conv_kernel", "conv_stride"), strict=True)
    only(config, "feat_extract_activation", "gelu")
    only(config, "feat_extract_norm", "group", "layer")
    only(config, "add_adapter", False)
    only(config, "adapter_attn_dim", None)
    only(config, "feat_proj_layer_norm", True)
    only(config, "conv_pos_batch_norm", False)
    places = read(config, "num_conv_pos_embeddings", "num_conv_pos_embedding_groups")
    return wav2vec2(
        *(V, width, depth, heads, hidden, list(steps), tuple(places)),
        config.get("do_stable_layer_norm", False),
        config.get("feat_extract_norm", "group") == "layer",
        config.get("conv_bias", False),
        activation(config.get("hidden_act", "gelu")),
        config.get("layer_norm_eps", 1e-5),
        config.get("hidden_dropout", 0.1),
    )


_LENGTH = ".parametrizations.weight.original"
OLDER = (".weight_g", f"{_LENGTH}0"), (".weight_v", f"{_LENGTH}1")
for _kind, _architecture in (("wav2vec2", "Wav2Vec2ForCTC"), ("hubert", "HubertForCTC")):
    family(
        _kind,
        names_in(_kind),
        _architecture,
        prefix=f"{_kind}.",
        extra=("*.masked_spec_embed", "masked_spec_embed"),
        older=OLDER,
    )(build_wav2vec2)
