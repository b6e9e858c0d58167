"""SAM's encoder of pictures: a vision transformer that looks in windows."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.attention import Attention, Heads, Projection
from attnbook.block import Block, PreNorm, Stack
from attnbook.feedforward import MLP
from attnbook.models.config import Config, only, read
from attnbook.models.layout import Layout, Names, Owner, Piece, Table, convolution, one_by_one
from attnbook.models.registry import family
from attnbook.models.vit import of_pictures
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.scores import Score
from attnbook.transformer import initialise, normal
from attnbook.vision import MeanPool, Patches, VisionTransformer, grid_of, tokens_of


class GridProjection(Projection):
    """Queries, keys and values of the places of a grid, where a score grows by what a query makes
    of the key's distance in rows, and of that in columns: q · r(row − row') + q · c(column −
    column').

    Both are channels more: of a query, its products with the vectors of all rows and columns that
    a key may stand in; of a key, a 1 at its row and one at its column. So the scores are one
    product, and their scale, 1/√D, is in the queries. Li et al. 2022, "MViTv2", section 4.1.
    """

    def __init__(self, width: int, heads: int, grid: tuple[int, int]):
        super().__init__(width, heads)
        self.grid = grid
        self.rows, self.columns = (nn.Parameter(torch.zeros(2 * n - 1, self.D)) for n in grid)

    def forward(
        self, x: Float[Tensor, "B P C"], memory: Float[Tensor, "B P C"] | None = None
    ) -> Heads:
        """Of queries and keys D + rows + columns channels, of values D."""
        q, k, v = super().forward(x, memory)
        placed = q.unflatten(2, self.grid)  # (B H R K D)
        by_row = torch.einsum("bhrkd,rsd->bhrks", placed, self.rows[apart(self.grid[0], x.device)])
        by_column = torch.einsum(
            "bhrkd,ksd->bhrks", placed, self.columns[apart(self.grid[1], x.device)]
        )
        q = torch.cat((q * self.D**-0.5, torch.cat((by_row, by_column), -1).flatten(2, 3)), -1)
        row, column = (torch.eye(n, dtype=k.dtype, device=k.device) for n in self.grid)
        R, K = self.grid
        at = torch.cat((row.repeat_interleave(K, 0), column.repeat(R, 1)), -1)  # (P, R + K)
        return q, torch.cat((k, at.expand(*k.shape[:2], -1, -1)), -1), v


def apart(n: int, device: torch.device) -> Int[Tensor, "n n"]:
    """Which of 2n − 1 distances lies between each two of n places, query first."""
    at = torch.arange(n, device=device)
    return at[:, None] - at + n - 1


class Windowed(nn.Module):
    """A part that sees each window of `size` × `size` places by itself. Where the grid does not
    divide into windows, zeros stand at its end. The part may answer with one place for each
    `step` × `step`. Li et al. 2022, "ViTDet", section 3."""

    def __init__(self, part: nn.Module, grid: tuple[int, int], size: int, step: int = 1):
        super().__init__()
        self.part, self.grid, self.size, self.step = part, grid, size, step

    def forward(self, x: Float[Tensor, "B P C"], **named: Any) -> Float[Tensor, "B Q D"]:
        (R, K), n = self.grid, self.size
        x = F.pad(x.unflatten(1, self.grid), (0, 0, 0, -K % n, 0, -R % n))
        cut = x.unflatten(2, (-1, n)).unflatten(1, (-1, n)).transpose(2, 3)  # (B r k n n C)
        shape = cut.shape
        seen = self.part(cut.flatten(3, 4).flatten(0, 2), **named)  # (windows, n·n, C)
        few = n // self.step
        whole = seen.view(*shape[:3], few, few, -1).transpose(2, 3).flatten(3, 4).flatten(1, 2)
        return whole[:, : R // self.step, : K // self.step].flatten(1, 2)


class PictureEncoder(VisionTransformer):
    """A vision transformer whose answer is a picture: what each patch has become, and its neck."""

    def forward(
        self, images: Float[Tensor, "B channels rows columns"]
    ) -> Float[Tensor, "B width R K"]:
        return self.classifier(self.body(tokens_of(self, images)))


class Neck(nn.Module):
    """From patches back to a picture of `width` channels: a map of each, then a convolution of
    3 × 3, each with a norm of all channels. Kirillov et al. 2023, appendix A."""

    def __init__(self, channels: int, width: int, grid: tuple[int, int]):
        super().__init__()
        self.grid = grid
        self.to_width = nn.Linear(channels, width, bias=False)
        self.smooth = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.first, self.second = LayerNorm(width, 1e-6), LayerNorm(width, 1e-6)

    def forward(self, x: Float[Tensor, "B P C"]) -> Float[Tensor, "B width rows columns"]:
        x = self.first(self.to_width(x)).mT.unflatten(2, self.grid)
        return self.second(self.smooth(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def sam_encoder(
    image: tuple[int, int] = (1024, 1024),
    patch: int = 16,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    window: int = 14,
    full: Sequence[int] = (2, 5, 8, 11),
    out: int = 256,
    eps: float = 1e-6,
) -> PictureEncoder:
    """Kirillov et al. 2023, "Segment anything", section 3 and appendix A, base: a ViT with windows
    in all blocks but the `full` ones, and distances in rows and columns in all. Its output is a
    picture of `out` channels, one number each for every patch."""
    norm, grid = partial(LayerNorm, width, eps), grid_of(image, patch)

    def block(i: int) -> Block:
        seen = grid if i in full else (window, window)
        project = GridProjection(width, heads, seen)
        attention: nn.Module = Attention(project, nn.Linear(width, width), score=Score(1.0))
        attention = attention if i in full else Windowed(attention, grid, window)
        return Block(PreNorm(attention, norm()), PreNorm(MLP(width, hidden, nn.GELU()), norm()))

    body, places = Stack([block(i) for i in range(depth)]), Learned(grid[0] * grid[1], width)
    ends = Patches(patch, width, 3), MeanPool(), places, body, Neck(width, out, grid)
    return initialise(PictureEncoder(image, *ends), normal)


def on_grid(grid: tuple[int, int]) -> Layout:
    """A table of places, stored row by row: (1, rows, columns, C)."""

    def pieces(name: str, weight: Tensor, owner: Owner) -> Iterable[Piece]:
        yield Piece(name, (1, *grid, weight.shape[1]), tuple(weight.shape), (), weight)

    return pieces


def sam_names(model: nn.Module) -> Names:
    """SAM's names: those of the attention are the same inside a window."""
    assert isinstance(model, PictureEncoder)
    layer, neck = "vision_encoder.layers.{i}", "vision_encoder.neck"
    attention = {
        "project.to_qkv": "attn.qkv",
        "project.rows": "attn.rel_pos_h",
        "project.columns": "attn.rel_pos_w",
        "to_out": "attn.proj",
    }
    names: Table = {
        f"attention.sublayer.{inside}{ours}": f"{layer}.{theirs}"
        for inside in ("", "part.")
        for ours, theirs in attention.items()
    }
    return names | {
        "patches.to_width": ("vision_encoder.patch_embed.projection", convolution),
        "positions.table": ("vision_encoder.pos_embed", on_grid(model.grid)),
        "attention.norm": f"{layer}.layer_norm1",
        "feedforward.norm": f"{layer}.layer_norm2",
        "feedforward.sublayer.up": f"{layer}.mlp.lin1",
        "feedforward.sublayer.down": f"{layer}.mlp.lin2",
        "classifier.to_width": (f"{neck}.conv1", one_by_one),
        "classifier.smooth": f"{neck}.conv2",
        "classifier.first": f"{neck}.layer_norm1",
        "classifier.second": f"{neck}.layer_norm2",
    }


@family("sam_vision_model", sam_names, "SamVisionModel", prefix="vision_encoder.")
def build_sam_encoder(config: Config) -> nn.Module:
    only(config, "hidden_act", "gelu")
    only(config, "use_abs_pos", True)
    only(config, "use_rel_pos", True)
    window, full, out = read(config, "window_size", "global_attn_indexes", "output_channels")
    sizes = of_pictures(config)
    sizes["hidden"] = config.get("mlp_dim") or sizes["hidden"]
    eps = config.get("layer_norm_eps", 1e-6)
    return sam_encoder(window=window, full=tuple(full), out=out, eps=eps, **sizes)


@family("sam", sam_names, "SamVisionModel", prefix="vision_encoder.")
def build_sam(config: Config) -> nn.Module:
    """The encoder alone, of a file that has the decoder of masks, too."""
    return build_sam_encoder(read(config, "vision_config")[0])
