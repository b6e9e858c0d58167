"""Whisper, which listens."""

import math
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import Attention, SplitProjection
from attnbook.block import Block, CrossBlock, PreNorm, Stack
from attnbook.feedforward import MLP
from attnbook.masks import causal
from attnbook.models.config import Config, only, read
from attnbook.models.registry import family
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.transformer import Embed, EncoderDecoder, Tied, initialise, normal


class Listen(nn.Module):
    """Sound to vectors: two convolutions over time, the second of which halves it, and sines.

    Radford et al. 2022, section 2.2.
    """

    def __init__(self, bands: int, width: int, limit: int):
        super().__init__()
        self.first = nn.Conv1d(bands, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.positions = Learned(limit, width)
        half = width // 2
        speed = torch.exp(-math.log(10_000.0) / (half - 1) * torch.arange(half))
        angles = torch.arange(limit)[:, None] * speed
        sines = torch.cat((angles.sin(), angles.cos()), -1)
        self.positions.table = nn.Parameter(sines, requires_grad=False)

    def forward(self, sound: Float[Tensor, "B bands frames"]) -> Float[Tensor, "B T C"]:
        x = F.gelu(self.second(F.gelu(self.first(sound)))).mT
        return x + self.positions(x.shape[1])


class SpeechToText(EncoderDecoder):
    """An encoder–decoder whose source is sound, (B, bands, frames): nothing of it is padding."""

    def forward(  # type: ignore[override]  # sound takes the place of source and its mask
        self, sound: Float[Tensor, "B bands frames"], target_in: Int[Tensor, "B Tq"]
    ) -> Float[Tensor, "B n V"]:
        """Logits of the token after each target token."""
        memory = self.encoder(self.source_embed(sound))
        x = self.decoder(self.target_embed(target_in), memory, mask=causal)
        return self.lm_head(x)


def whisper(
    V: int = 51_865,
    T: int = 448,
    frames: int = 1500,
    width: int = 384,
    depth: tuple[int, int] = (4, 4),
    heads: int = 6,
    hidden: int = 1536,
    bands: int = 80,
) -> SpeechToText:
    """Radford et al. 2022, section 2.2 and table 1, tiny: pre-norm, GELU, no bias for keys."""
    norm = partial(LayerNorm, width)

    def attention() -> PreNorm:
        maps = (nn.Linear(width, width, bias=bias) for bias in (True, False, True))
        project = SplitProjection(heads, *maps)
        return PreNorm(Attention(project, nn.Linear(width, width)), norm())

    def network() -> PreNorm:
        return PreNorm(MLP(width, hidden, nn.GELU()), norm())

    reads = [Block(attention(), network()) for _ in range(depth[0])]
    writes = [CrossBlock(attention(), attention(), network()) for _ in range(depth[1])]
    listen, embed = Listen(bands, width, frames), Embed(V, width, Learned(T, width))
    stacks = Stack(reads, norm()), Stack(writes, norm())
    model = SpeechToText(listen, stacks[0], embed, stacks[1], Tied(embed))
    return initialise(model, normal)


WHISPER = {
    "source_embed.first": "model.encoder.conv1",
    "source_embed.second": "model.encoder.conv2",
    "source_embed.positions": "model.encoder.embed_positions",
    "target_embed.tokens": "model.decoder.embed_tokens",
    "target_embed.positions": "model.decoder.embed_positions",
}
for _stack in ("encoder", "decoder"):
    _layer = f"model.{_stack}.layers.{{i}}"
    for _part, _name in (("attention", "self_attn"), ("cross_attention", "encoder_attn")):
        WHISPER[f"{_stack}.{_part}.norm"] = f"{_layer}.{_name}_layer_norm"
        WHISPER[f"{_stack}.{_part}.sublayer.to_out"] = f"{_layer}.{_name}.out_proj"
        for _map in "qkv":
            to = f"{_stack}.{_part}.sublayer.project.to_{_map}"
            WHISPER[to] = f"{_layer}.{_name}.{_map}_proj"
    WHISPER[f"{_stack}.feedforward.norm"] = f"{_layer}.final_layer_norm"
    WHISPER[f"{_stack}.feedforward.sublayer.up"] = f"{_layer}.fc1"
    WHISPER[f"{_stack}.feedforward.sublayer.down"] = f"{_layer}.fc2"
    WHISPER[f"{_stack}.norm"] = f"model.{_stack}.layer_norm"


@family("whisper", WHISPER, "WhisperForConditionalGeneration", prefix="model.")
def build_whisper(config: Config) -> nn.Module:
    names = "vocab_size", "max_target_positions", "max_source_positions", "d_model"
    V, T, frames, width = read(config, *names)
    only(config, "activation_function", "gelu")
    only(config, "encoder_ffn_dim", config["decoder_ffn_dim"])
    only(config, "encoder_attention_heads", config["decoder_attention_heads"])
    only(config, "scale_embedding", False)
    depth = config["encoder_layers"], config["decoder_layers"]
    heads, hidden = config["encoder_attention_heads"], config["encoder_ffn_dim"]
    return whisper(V, T, frames, width, depth, heads, hidden, bands=config["num_mel_bins"])
