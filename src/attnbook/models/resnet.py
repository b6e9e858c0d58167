"""The residual network of convolutions that detectors read pictures with."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class FrozenBatchNorm(nn.Module):
    """Batch normalisation with the mean and variance, weight and bias of an earlier training, of
    which nothing is learned any more. Ioffe and Szegedy 2015, section 3.1."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        for name, start in (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1)):
            self.register_buffer(name, torch.full((channels,), float(start)))

    def forward(self, x: Float[Tensor, "B C rows columns"]) -> Float[Tensor, "B C rows columns"]:
        numbers = self.running_mean, self.running_var, self.weight, self.bias
        return F.batch_norm(x, *numbers, training=False, eps=self.eps)


class Convolved(nn.Module):
    """A convolution without bias, and its norm."""

    def __init__(self, channels: int, out: int, kernel: int = 1, stride: int = 1):
        super().__init__()
        self.convolve = nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)
        self.norm = FrozenBatchNorm(out)

    def forward(self, x: Float[Tensor, "B C rows columns"]) -> Float[Tensor, "B out R K"]:
        return self.norm(self.convolve(x))


class Bottleneck(nn.Module):
    """Fewer channels, a convolution of 3 × 3, more channels, and the sum with what came in.

    He et al. 2016, figure 5, right; steps are made by the middle one.
    """

    def __init__(self, channels: int, out: int, stride: int):
        super().__init__()
        narrow = out // 4
        self.first, self.second = Convolved(channels, narrow), Convolved(narrow, narrow, 3, stride)
        self.third = Convolved(narrow, out)
        same = channels == out and stride == 1
        self.shortcut = nn.Identity() if same else Convolved(channels, out, 1, stride)

    def forward(self, x: Float[Tensor, "B C rows columns"]) -> Float[Tensor, "B out R K"]:
        inner = F.relu(self.second(F.relu(self.first(x))))
        return F.relu(self.third(inner) + self.shortcut(x))


class Stage(nn.Module):
    """Bottlenecks of one width; the first of them makes the step."""

    def __init__(self, channels: int, out: int, depth: int, stride: int):
        super().__init__()
        first = Bottleneck(channels, out, stride)
        self.blocks = nn.ModuleList([first, *(Bottleneck(out, out, 1) for _ in range(depth - 1))])

    def forward(self, x: Float[Tensor, "B C rows columns"]) -> Float[Tensor, "B out R K"]:
        for block in self.blocks:
            x = block(x)
        return x


class ResNet(nn.Module):
    """A picture to a map of 1/32 of its rows and columns. He et al. 2016, table 1; with the
    defaults ResNet-50. `timm` says which of two libraries named the weights: timm or transformers.
    """

    def __init__(
        self,
        stem: int = 64,
        widths: Sequence[int] = (256, 512, 1024, 2048),
        depths: Sequence[int] = (3, 4, 6, 3),
        timm: bool = True,
    ):
        super().__init__()
        self.stem, self.timm, self.out = Convolved(3, stem, 7, 2), timm, widths[-1]
        sizes = zip([stem, *widths], widths, depths, strict=False)
        self.stages = nn.ModuleList(
            Stage(before, out, depth, 1 if i == 0 else 2)
            for i, (before, out, depth) in enumerate(sizes)
        )

    def forward(self, images: Float[Tensor, "B 3 rows columns"]) -> Float[Tensor, "B C R K"]:
        x = F.max_pool2d(F.relu(self.stem(images)), 3, 2, 1)
        for stage in self.stages:
            x = stage(x)
        return x


def resnet_names(model: ResNet, ours: str, theirs: str) -> dict[str, str]:
    """What the convolutions and norms are called: "conv1" and "bn1" by timm."""
    names: dict[str, str] = {}
    for here, convolve, norm in named_parts(model):
        names[f"{ours}.{here}.convolve"] = f"{theirs}.{convolve}"
        for number in ("weight", "bias", "running_mean", "running_var"):
            names[f"{ours}.{here}.norm.{number}"] = f"{theirs}.{norm}.{number}"
    return names


def named_parts(model: ResNet) -> Iterator[tuple[str, str, str]]:
    """Each part, and what its convolution and norm are called there."""

    def both(stem: str) -> tuple[str, str]:
        return f"{stem}.convolution", f"{stem}.normalization"

    yield ("stem", *(("conv1", "bn1") if model.timm else both("embedder.embedder")))
    for s in range(len(model.stages)):
        timm, layer = f"layer{s + 1}.{{i}}", f"encoder.stages.{s}.layers.{{i}}"
        for n, part in enumerate(("first", "second", "third")):
            short = f"{timm}.conv{n + 1}", f"{timm}.bn{n + 1}"
            yield (f"stages.{s}.{part}", *(short if model.timm else both(f"{layer}.layer.{n}")))
        short = f"{timm}.downsample.0", f"{timm}.downsample.1"
        yield (f"stages.{s}.shortcut", *(short if model.timm else both(f"{layer}.shortcut")))
