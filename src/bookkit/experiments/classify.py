"""The small classifiers of digits of chapter 8: how they are built, trained, moved and shuffled."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnbook.attention import MultiHeadAttention
from attnbook.block import Stack
from attnbook.data import images
from attnbook.data.images import Images
from attnbook.inside.watch import watch
from attnbook.losses import token_loss
from attnbook.models.vit import vit
from attnbook.positions import Rotary2d, Weightless
from attnbook.train.loop import cosine, train
from attnbook.transformer import initialise, xavier
from attnbook.vision import Pool, VisionTransformer

STEPS, WIDTH, HEADS = 240, 32, 4
Pictures = Float[Tensor, "B channels rows columns"]
Build = Callable[[], nn.Module]


class Nowhere(Weightless):
    """Positions that add nothing: for models whose queries and keys are turned."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, T: int, start: int = 0) -> Float[Tensor, "T C"]:
        return self.here.new_zeros(T, self.width)


def transformer(patch: int = 2, pool: Pool | None = None, rotary: bool = False) -> nn.Module:
    """`vit` for digits of 8 × 8: two blocks of width 32. With `rotary` queries and keys are turned
    by row and column, and no table of positions is added."""
    sizes = {"width": WIDTH, "depth": 2, "heads": HEADS, "channels": 1}
    model = vit((8, 8), patch, 10, pool=pool, dropout=0.0, **sizes)
    if rotary:
        model.positions = Nowhere(WIDTH)
        turn(model, model.grid)
    return initialise(model, xavier)


def turn(model: VisionTransformer, grid: tuple[int, int], shrink: float = 1.0) -> None:
    """Set the grid that a `rotary` model's queries and keys are turned by; `shrink` below 1 pulls
    its rows and columns together."""
    D, extra = WIDTH // HEADS, model.pool.extra
    speed = shrink * Rotary2d(D, grid).angles(torch.tensor([1 + grid[1]]))[0, : D // 4]
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.rotate = Rotary2d(D, grid, frequencies=speed, extra=extra)


def convnet() -> nn.Module:
    """Three convolutions of 3 × 3 for digits of 8 × 8, as large as `transformer`."""
    first, second = nn.Conv2d(1, 24, 3, padding=1), nn.Conv2d(24, 40, 3, padding=1)
    third = nn.Conv2d(40, 40, 3, padding=1)
    stages = [first, nn.ReLU(), second, nn.ReLU(), nn.MaxPool2d(2)]
    stages += [third, nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*stages, nn.Linear(4 * 40, 10))


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean cross-entropy of the class, in nats."""
    return token_loss(model(batch[0]), batch[1])


def fit(
    build: Build,
    data: Images,
    seed: int,
    lr: float = 4e-3,
    steps: int = STEPS,
    shift: int = 0,
    teacher: nn.Module | None = None,
) -> nn.Module:
    """The model that `build` makes after `steps` batches of 64, with Adam and a cosine.

    With `shift` each picture is moved by up to so many pixels. With a `teacher` the labels are the
    teacher's answers for the picture as it was moved ("hard distillation", Touvron et al. 2021).
    """
    sample = images.sampler(data, min(64, len(data.train)))

    def sampler(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x, labels = sample(generator)
        if shift:
            x = moved(x, torch.randint(2 * shift + 1, (len(x), 2), generator=generator), shift)
        if teacher is not None:
            with torch.no_grad():
                labels = teacher(x).argmax(-1)
        return x, labels

    torch.manual_seed(seed)
    model, plan = build(), cosine(steps, warmup=20, floor=0.01)
    train(model, sampler, loss, seed=seed, steps=steps, lr=lr, schedule=plan, progress=False)
    return model.eval()


@torch.no_grad()
def right(
    model: nn.Module, data: Images, change: Callable[[Pictures], Pictures] | None = None
) -> float:
    """The share of the test set that is classified as labelled, after `change` of its pictures."""
    x = data.standardised(data.test)
    x = x if change is None else change(x)
    said = torch.cat([model(part).argmax(-1) for part in x.split(500)])
    return (said == data.test_labels).float().mean().item()


def looked_at(model: nn.Module, x: Pictures) -> Float[Tensor, "B P"]:
    """How much the class token looks at each patch in the last block, mean over heads."""
    with torch.no_grad(), watch(model) as seen:
        model(x)
    return list(seen.values())[-1][:, :, 0, 1:].mean(1)


def moved(x: Pictures, corners: Int[Tensor, "B 2"], edge: int) -> Pictures:
    """`images.shifted` for digits: what comes in from outside is white paper."""
    paper = x.min()
    return images.move(x - paper, corners, edge) + paper


def by_pixels(rows: int, columns: int) -> Callable[[Pictures], Pictures]:
    """Moves pictures by so many pixels: `rows` down and `columns` to the right, or less than 0."""
    edge = max(abs(rows), abs(columns), 1)
    corner = torch.tensor([edge - rows, edge - columns])
    return lambda x: moved(x, corner.expand(len(x), 2), edge)


FOUR_WAYS = ((0, 1), (1, 0), (0, -1), (-1, 0))


def moved_right(model: nn.Module, data: Images) -> float:
    """The share of right answers when the test pictures are moved by a pixel: mean of 4 ways."""
    return sum(right(model, data, by_pixels(*way)) for way in FOUR_WAYS) / 4


def rearranged(x: Tensor, order: Int[Tensor, "..."]) -> Tensor:
    """Pictures with their pixels in another order, the same in each channel."""
    return x.flatten(2)[..., order.flatten()].view_as(x)


def blocks_of(model: VisionTransformer) -> Stack:
    """The blocks of a model, as a stack."""
    assert isinstance(model.body, Stack)
    return model.body
