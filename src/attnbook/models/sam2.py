"""SAM 2's encoder of pictures: Hiera, whose grid grows coarser, and a pyramid of its stages."""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import Attention, Projection
from attnbook.block import Block, PreNorm
from attnbook.feedforward import MLP
from attnbook.masks import Grid
from attnbook.models.config import Config, only, read
from attnbook.models.layout import Table, one_by_one, reshaped
from attnbook.models.registry import family
from attnbook.models.sam import Windowed
from attnbook.norms import LayerNorm
from attnbook.transformer import initialise, normal
from attnbook.vision import grid_of

Size = tuple[int, int]  # rows and columns of places


def strongest(x: Float[Tensor, "*batch P C"], grid: Size) -> Float[Tensor, "*batch Q C"]:
    """Of each 2 × 2 places of a grid one, with the largest number of each channel."""
    R, K = grid
    return x.unflatten(-2, (R // 2, 2, K // 2, 2)).amax((-4, -2)).flatten(-3, -2)


class PooledAttention(Attention):
    """Attention of a grid's places in which the queries are pooled: one answers for 2 × 2.

    Ryali et al. 2023, "Hiera"; Fan et al. 2021, "Multiscale vision transformers", section 3.1.
    """

    def __init__(self, project: Projection, to_out: nn.Linear, grid: Size):
        super().__init__(project, to_out)
        self.grid = grid

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "B P C"], mask: None = None, cache: None = None
    ) -> Float[Tensor, "B Q D"]:
        q, k, v = self.project(x)
        q = strongest(q, self.grid)
        heads = self.mix(q, k, v, None, Grid(x.shape[0], q.shape[2], k.shape[2], x.device))
        return self.to_out(heads.transpose(1, 2).flatten(2))


class PooledBlock(Block):
    """The first block of a stage, from one grid and width to the next: what the attention's answer
    is added to is a map of the normalised input, the strongest of each 2 × 2 places."""

    attention: PreNorm

    def __init__(self, attention: PreNorm, feedforward: PreNorm, shortcut: nn.Linear, grid: Size):
        super().__init__(attention, feedforward)
        self.shortcut, self.grid = shortcut, grid

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "B P C"], mask: None = None, cache: None = None
    ) -> Float[Tensor, "B Q D"]:
        seen = self.attention.norm(x)
        x = strongest(self.shortcut(seen), self.grid) + self.attention.sublayer(seen)
        return self.feedforward(x)


class WindowPositions(nn.Module):
    """Where each place of a grid stands: a coarse table of the whole picture, interpolated, and one
    of a window's places, the same in every window: "absolute win". Bolya et al. 2023, "Window
    attention is bugged"."""

    def __init__(self, width: int, coarse: Size, window: int, grid: Size):
        super().__init__()
        self.grid = grid
        self.coarse = nn.Parameter(torch.zeros(width, *coarse))
        self.window = nn.Parameter(torch.zeros(width, window, window))

    def forward(self) -> Float[Tensor, "P C"]:
        coarse = F.interpolate(self.coarse[None], self.grid, mode="bicubic")[0]
        window = self.window.tile([n // self.window.shape[1] for n in self.grid])
        return (coarse + window).flatten(1).T


class Pyramid(nn.Module):
    """Each stage's places as a picture of `width` channels; to the third the fourth is added,
    doubled in rows and columns, and only there the fourth is heard. Lin et al. 2017, "Feature
    pyramid networks", section 3; Ravi et al. 2024, section 4."""

    def __init__(self, widths: Sequence[int], width: int):
        super().__init__()
        self.to_width = nn.ModuleList([nn.Linear(channels, width) for channels in widths])

    def forward(
        self, stages: Sequence[Float[Tensor, "B _ _"]], grids: Sequence[Size]
    ) -> tuple[Float[Tensor, "B width _ _"], ...]:
        """Three pictures, the finest first."""
        *finer, last, top = (
            map_(x).mT.unflatten(2, grid)
            for map_, x, grid in zip(self.to_width, stages, grids, strict=True)
        )
        return *finer, last + top.repeat_interleave(2, 2).repeat_interleave(2, 3)


class Hiera(nn.Module):
    """A transformer of stages, each with a grid half as fine and wider vectors than the one before,
    and a pyramid of what all have made of a picture. `ends` are the last blocks of the stages."""

    def __init__(
        self,
        image: Size,
        patches: nn.Conv2d,
        positions: WindowPositions,
        blocks: Sequence[Block],
        ends: Sequence[int],
        neck: Pyramid,
    ):
        super().__init__()
        self.image, self.patches, self.positions = image, patches, positions
        self.blocks, self.ends, self.neck = nn.ModuleList(blocks), tuple(ends), neck

    def forward(
        self, images: Float[Tensor, "B 3 rows columns"]
    ) -> tuple[Float[Tensor, "B width _ _"], ...]:
        """Three pictures of a quarter, an eighth and a sixteenth of the rows and columns. The
        places that SAM 2 adds to them where it looks at them are DETR's `sines_of_places`."""
        if tuple(images.shape[1:]) != (3, *self.image):
            raise ValueError(
                f"images are (B, 3, {self.image[0]}, {self.image[1]}) for this model; got "
                f"{tuple(images.shape)}"
            )
        x = self.patches(images).flatten(2).mT + self.positions()  # (B P C)
        stages = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in self.ends:
                stages.append(x)
        R, K = self.positions.grid
        return self.neck(stages, [(R >> s, K >> s) for s in range(len(stages))])


def sam2_encoder(
    image: Size = (1024, 1024),
    widths: Sequence[int] = (112, 224, 448, 896),
    depths: Sequence[int] = (2, 3, 16, 3),
    heads: Sequence[int] = (2, 4, 8, 16),
    windows: Sequence[int] = (8, 4, 14, 7),
    full: Sequence[int] = (12, 16, 20),
    coarse: Size = (14, 14),
    out: int = 256,
    eps: float = 1e-6,
) -> Hiera:
    """Ravi et al. 2024, "SAM 2", section 4, base plus: Hiera with windows in all blocks but the
    `full` ones. There is one width, depth, number of heads and window for each of four stages; the
    first block of a stage still has the windows of the stage before, and pools its queries."""
    check_sizes(image, windows)
    (R, K), norm = grid_of(image, 4), partial(LayerNorm, eps=eps)

    def block(s: int, i: int) -> Block:
        before = s - (s > 0 and i == starts[s])  # the stage whose grid, width and windows come in
        grid, window = (R >> before, K >> before), windows[before]
        width, wide, step = widths[before], widths[s], 1 + s - before
        project = Projection(width, heads[s], D=wide // heads[s])
        parts, seen = (project, nn.Linear(wide, wide)), grid if i in full else (window, window)
        attention: nn.Module = Attention(*parts) if step == 1 else PooledAttention(*parts, seen)
        attention = attention if i in full else Windowed(attention, grid, window, step)
        mlp = PreNorm(MLP(wide, 4 * wide, nn.GELU()), norm(wide))
        parts_of_block = PreNorm(attention, norm(width)), mlp
        if step == 1:
            return Block(*parts_of_block)
        return PooledBlock(*parts_of_block, nn.Linear(width, wide), grid)

    starts = [0, *accumulate(depths)]
    blocks = [block(s, i) for s, ends in enumerate(pairwise(starts)) for i in range(*ends)]
    patches = nn.Conv2d(3, widths[0], 7, 4, 3)
    positions = WindowPositions(widths[0], coarse, windows[0], (R, K))
    last, neck = [end - 1 for end in starts[1:]], Pyramid(widths, out)
    return initialise(Hiera(image, patches, positions, blocks, last, neck), normal)


def check_sizes(image: Size, windows: Sequence[int]) -> None:
    """Raise a ValueError unless grids halve three times, and windows where they are pooled."""
    grid_of(image, 32)
    fine = grid_of(image, 4)
    if any(n % windows[0] for n in fine):
        raise ValueError(
            f"a grid of {fine[0]} × {fine[1]} does not divide into windows of {windows[0]}"
        )
    if any(window % 2 for window in windows[:-1]):
        raise ValueError(f"windows that are pooled have an even size; got {tuple(windows)}")


def sam2_names(prefix: str) -> Table:
    """What the encoder's parts are called behind this prefix."""
    trunk, layer = f"{prefix}backbone", f"{prefix}backbone.blocks.{{i}}"
    names: Table = {
        "patches": f"{trunk}.patch_embed.projection",
        "positions.coarse": (f"{trunk}.pos_embed", reshaped(1)),
        "positions.window": (f"{trunk}.pos_embed_window", reshaped(1)),
        "attention.norm": f"{layer}.layer_norm1",
        "shortcut": f"{layer}.proj",
        "feedforward.norm": f"{layer}.layer_norm2",
        "feedforward.sublayer.up": f"{layer}.mlp.proj_in",
        "feedforward.sublayer.down": f"{layer}.mlp.proj_out",
    }
    for inside in ("", "part."):  # a window's
        names[f"attention.sublayer.{inside}project.to_qkv"] = f"{layer}.attn.qkv"
        names[f"attention.sublayer.{inside}to_out"] = f"{layer}.attn.proj"
    for n in range(4):
        names[f"neck.to_width.{3 - n}"] = (f"{prefix}neck.convs.{n}", one_by_one)
    return names


FIXED = {  # what the recipe computes, and all published files have
    **{"num_channels": 3, "query_stride": [2, 2], "num_query_pool_stages": 3},
    **{"patch_kernel_size": [7, 7], "patch_stride": [4, 4], "patch_padding": [3, 3]},
    **{"mlp_ratio": 4.0, "hidden_act": "gelu"},
}
FIXED_NECK = {
    **{"fpn_kernel_size": 1, "fpn_stride": 1, "fpn_padding": 0},
    **{"fpn_top_down_levels": [2, 3], "num_feature_levels": 3},
}


@family("sam2_vision_model", sam2_names(""), "Sam2VisionModel")
def build_sam2_encoder(config: Config) -> nn.Module:
    (trunk,) = read(config, "backbone_config")
    for name, value in FIXED.items():
        only(trunk, name, value)
    for name, value in FIXED_NECK.items():
        only(config, name, value)
    image, coarse = read(trunk, "image_size", "window_positional_embedding_background_size")
    stages = ("embed_dim", "blocks", "num_attention_heads", "window_size")
    widths, depths, heads, windows = read(trunk, *(f"{name}_per_stage" for name in stages))
    return sam2_encoder(
        (image, image) if isinstance(image, int) else tuple(image),
        *(widths, depths, heads, windows),
        read(trunk, "global_attention_blocks")[0],
        tuple(coarse),
        config.get("fpn_hidden_size", 256),
        trunk.get("layer_norm_eps", 1e-6),
    )


@family("sam2", sam2_names("vision_encoder."), "Sam2VisionModel", prefix="vision_encoder.")
@family("sam2_video", sam2_names("vision_encoder."), "Sam2VisionModel", prefix="vision_encoder.")
def build_sam2(config: Config) -> nn.Module:
    """The encoder alone, of a file that has the memory and the decoder of masks, too."""
    return build_sam2_encoder(read(config, "vision_config")[0])
