"""A diffusion transformer: pictures as sequences of patches that are made out of noise.

Peebles and Xie 2023 (DiT) is the network; the path from noise to picture is a straight line, as in
Liu et al. 2023 (rectified flow) and Lipman et al. 2023 (flow matching), and in Esser et al. 2024
(Stable Diffusion 3).
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention
from attnbook.feedforward import MLP
from attnbook.modalities.adaln import AdaHead, AdaNorm, ConditionedBlock, TimeEmbedding
from attnbook.positions import Learned
from attnbook.vision import cut, grid_of

Pictures = Float[Tensor, "B channels rows columns"]


def pasted(patches: Float[Tensor, "B P numbers"], like: Pictures, size: int) -> Pictures:
    """The picture of which these are the patches: `cut` undone."""
    rows, columns = grid_of(tuple(like.shape[-2:]), size)
    parts = patches.unflatten(2, (like.shape[1], size, size)).unflatten(1, (rows, columns))
    return parts.permute(0, 3, 1, 4, 2, 5).reshape(like.shape)


class DiffusionTransformer(nn.Module):
    """The velocity at time t of each pixel: where a noisy picture of a class should go.

    Patches are tokens; class and time act through adaptive norms that start as the identity
    (adaLN-Zero). Class number `classes` means "any". Peebles and Xie 2023, section 3.2.
    """

    def __init__(
        self, classes: int, places: int, size: int, width: int = 64, blocks: int = 3, heads: int = 4
    ):
        super().__init__()
        self.classes, self.size = classes, size
        self.embed, self.places = nn.Linear(size * size, width), Learned(places, width)
        nn.init.normal_(self.places.table, std=0.5)
        self.time, self.kind = TimeEmbedding(width, 64), nn.Embedding(classes + 1, width)

        def ada(part: nn.Module) -> AdaNorm:
            return AdaNorm(part, nn.LayerNorm(width, elementwise_affine=False), width, width)

        self.blocks = nn.ModuleList(
            ConditionedBlock(
                ada(MultiHeadAttention(width, heads)), ada(MLP(width, 4 * width, nn.GELU()))
            )
            for _ in range(blocks)
        )
        norm = nn.LayerNorm(width, elementwise_affine=False)
        self.output = AdaHead(norm, width, width, size * size)

    def forward(self, x: Pictures, time: Float[Tensor, " B"], kind: Int[Tensor, " B"]) -> Pictures:
        condition = self.time(time) + self.kind(kind)
        tokens = self.embed(cut(x, self.size))
        tokens = tokens + self.places(tokens.shape[1])
        for block in self.blocks:
            tokens = block(tokens, condition)
        return pasted(self.output(tokens, condition), x, self.size)


def flow_loss(model: Any, batch: Any, dropped: float = 0.1) -> Float[Tensor, ""]:
    """How far the predicted velocity is from picture − noise, at a random time of each.

    `batch` is (pictures, classes); a share `dropped` of the classes is replaced by "any", for
    guidance. Liu et al. 2023, equation 1; Ho and Salimans 2022, algorithm 1.
    """
    pictures, kind = batch
    time = torch.rand(len(pictures), device=pictures.device)
    noise, at = torch.randn_like(pictures), time[:, None, None, None]
    kind = torch.where(torch.rand(len(kind), device=kind.device) < dropped, model.classes, kind)
    found = model((1 - at) * noise + at * pictures, time, kind)
    return (found - (pictures - noise)).square().mean()


@torch.no_grad()
def drawn(
    model: Any,
    noise: Pictures,
    kind: Int[Tensor, " B"],
    steps: int = 20,
    guidance: float = 1.0,
) -> list[Pictures]:
    """From noise to pictures of these classes in equal steps; all stages, the noise first.

    `model(x, time, kind)` is a velocity, and kind `model.classes` means "any". With `guidance`
    w the velocity is v(any) + w · (v(class) − v(any)): at 1 as trained, above it more typical and
    less varied. Ho and Salimans 2022, equation 6, with w there one less.
    """
    if steps < 1:
        raise ValueError(f"at least 1 step leads from noise to a picture; got {steps}")
    stages, anything = [noise], torch.full_like(kind, model.classes)
    for step in range(steps):
        x, time = stages[-1], torch.full((len(noise),), step / steps, device=noise.device)
        velocity = model(x, time, kind)
        if guidance != 1.0:
            free = model(x, time, anything)
            velocity = free + guidance * (velocity - free)
        stages.append(x + velocity / steps)
    return stages
