"""Digits that are read aloud and digits that are made: three tasks with a sequence of patches."""

import torch
from jaxtyping import Float, Int
from sklearn.svm import SVC
from torch import Tensor
from torch.nn import functional as F

from attnbook.data import small
from attnbook.losses import token_loss
from attnbook.masks import causal
from attnbook.modalities.body import Adapted, fit
from attnbook.modalities.captioner import Captioner
from attnbook.modalities.diffusion import DiffusionTransformer, drawn, flow_loss, pasted
from attnbook.modalities.quantiser import Tokeniser
from attnbook.vision import cut

Digits = tuple[Float[Tensor, "B 8 8"], Int[Tensor, " B"]]


def reader(seed: int, steps: int = 1000, hidden: bool = False) -> Captioner:
    """A captioner of strips of one to four handwritten digits, drawn anew in every batch.

    With `hidden` every picture is blank, in training too: what can be learned of captions alone.
    """
    pixels, labels = small.handwriting()

    def loss(model: Captioner, batch: small.Strips) -> Tensor:
        return model.loss(batch.images * (not hidden), batch.captions)

    return fit(
        lambda: Captioner(4, 20, small.MOST + 1, len(small.WORDS), small.BEGIN),
        lambda generator: small.strips(pixels, labels, 64, generator),
        loss,
        steps,
        seed,
        3e-3,
    )


def unseen_strips(count: int) -> small.Strips:
    """So many strips of digits that training has not seen; always the same."""
    digits = small.handwriting(training=False)
    return small.strips(*digits, count, torch.Generator().manual_seed(99))


def exact(model: Captioner, count: int = 1000) -> list[float]:
    """The share of captions without any error, on strips of unseen digits: of 1, 2, 3, 4 digits."""
    strips = unseen_strips(count)
    said = model.write(strips.images, small.MOST + 1)
    whole = (said == strips.captions).all(1).float()
    return [whole[strips.lengths == n].mean().item() for n in range(1, small.MOST + 1)]


@torch.no_grad()
def read(model: Captioner, count: int = 1000, hidden: bool = False) -> dict[str, float]:
    """Shares that are right on strips of unseen digits, or on blank ones if `hidden`.

    "captions": without any error. "number": captions of as many words. "digits": the words of these
    captions. "next": the next word, `END` included, after the true words before it.
    """
    strips = unseen_strips(count)
    images, truth = strips.images * (not hidden), strips.captions
    said = model.write(images, small.MOST + 1)
    as_many = ((said == small.END) == (truth == small.END)).all(1)
    digit = (truth != small.END) & as_many[:, None]
    first = torch.full_like(truth[:, :1], small.BEGIN)
    after = model(images, torch.cat((first, truth[:, :-1]), 1)).argmax(-1)
    asked = torch.arange(small.MOST + 1) <= strips.lengths[:, None]
    return {
        "captions": (said == truth).all(1).float().mean().item(),
        "number": as_many.float().mean().item(),
        "digits": (said == truth)[digit].float().mean().item(),
        "next": (after == truth)[asked].float().mean().item(),
    }


def mistakes(model: Captioner, count: int = 1000) -> dict[str, float]:
    """Of the captions with an error, on strips of unseen digits: the share of each kind.

    "too few or too many": of another number of words. "order": the right words in another order.
    "one digit": of as many words, one of them wrong. They need not add up to 1.
    """
    strips = unseen_strips(count)
    said, truth = model.write(strips.images, small.MOST + 1), strips.captions
    wrong = (said != truth).any(1)
    said, truth = said[wrong], truth[wrong]
    as_many = ((said == small.END) == (truth == small.END)).all(1)
    same_words = (said.sort(1).values == truth.sort(1).values).all(1)
    kinds = {
        "too few or too many": ~as_many,
        "order": as_many & same_words,
        "one digit": as_many & ((said != truth).sum(1) == 1),
    }
    return {name: kind.float().mean().item() if len(kind) else 0.0 for name, kind in kinds.items()}


def examples(B: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Handwritten digits from −1 to 1, (B, 1, 8, 8), and what they are."""
    pixels, labels = small.handwriting()
    rows = torch.randint(len(pixels), (B,), generator=generator)
    return 2 * pixels[rows, None] - 1, labels[rows]


def painter(seed: int, steps: int = 400) -> DiffusionTransformer:
    """A diffusion transformer for digits: sixteen patches, width 64, three blocks."""
    return fit(
        lambda: DiffusionTransformer(10, 16, 2),
        lambda generator: examples(64, generator),
        flow_loss,
        steps,
        seed,
        2e-3,
    )


def painted(model: DiffusionTransformer, kind: Tensor, guidance: float = 1.0) -> Tensor:
    """Digits of these classes, grey values from 0 to 1, (B, 8, 8); always from the same noise."""
    noise = torch.randn(len(kind), 1, 8, 8, generator=torch.Generator().manual_seed(1))
    made = drawn(model, noise, kind, 20, guidance)[-1]
    return ((made + 1) / 2).clamp(0, 1)[:, 0]


def tokeniser(seed: int, entries: int = 32, steps: int = 400) -> Tokeniser:
    """Digits as sixteen words each, of a vocabulary of so many."""

    def loss(model: Tokeniser, batch: tuple[Tensor, Tensor]) -> Tensor:
        tokens = cut(batch[0], 2)
        back, found = model(tokens)
        return (back - tokens).square().mean() + found.loss

    return fit(
        lambda: Tokeniser(4, 16, entries),
        lambda generator: examples(64, generator),
        loss,
        steps,
        seed,
        3e-3,
    )


def as_tokens(numbers: Int[Tensor, "B T"], V: int) -> Float[Tensor, "B T V"]:
    """One-hot vectors as loud as their places."""
    return F.one_hot(numbers, V) * V**0.5


def writer(words: Tokeniser, seed: int, steps: int = 400) -> Adapted:
    """A language model of pictures: the digit's name, then its sixteen words, one by one."""
    entries = len(words.quantiser.codebook)

    def sampler(generator: torch.Generator) -> Tensor:
        pictures, labels = examples(64, generator)
        return torch.cat((entries + labels[:, None], words.encode(cut(pictures, 2))), 1)

    def loss(model: Adapted, rows: Tensor) -> Tensor:
        return token_loss(model(as_tokens(rows[:, :-1], entries + 10), causal), rows[:, 1:])

    return fit(lambda: Adapted(entries + 10, entries, 16, 64), sampler, loss, steps, seed, 3e-3)


@torch.no_grad()
def written(words: Tokeniser, model: Adapted, kind: Int[Tensor, " B"], seed: int = 1) -> Tensor:
    """Digits of these classes, word by word, and put together again: (B, 8, 8), from 0 to 1."""
    entries, generator = len(words.quantiser.codebook), torch.Generator().manual_seed(seed)
    rows = entries + kind[:, None]
    for _ in range(16):
        chances = model(as_tokens(rows, entries + 10), causal)[:, -1].softmax(-1)
        rows = torch.cat((rows, torch.multinomial(chances, 1, generator=generator)), 1)
    patches = words.decode(rows[:, 1:])
    return ((pasted(patches, torch.zeros(len(kind), 1, 8, 8), 2) + 1) / 2).clamp(0, 1)[:, 0]


def judge() -> SVC:
    """A classifier of handwritten digits that says whether a made one is what was asked for."""
    pixels, labels = small.handwriting()
    return SVC().fit(pixels.flatten(1), labels)


def frechet(made: Float[Tensor, "N 8 8"], real: Float[Tensor, "M 8 8"]) -> float:
    """How far apart the means and covariances of two sets of pictures are; 0 if they are equal.

    The squared distance of Fréchet between two normal distributions, here of the 64 grey values;
    with features of a large network it is the FID. Dowson and Landau 1982; Heusel et al. 2017.
    """
    a, b = (pictures.flatten(1).double() for pictures in (made, real))
    one, two = torch.cov(a.T), torch.cov(b.T)
    root = torch.linalg.eigvals(one @ two).real.clamp(min=0).sqrt().sum()
    moved = (a.mean(0) - b.mean(0)).square().sum()
    return (moved + one.trace() + two.trace() - 2 * root).item()


def nearest(made: Float[Tensor, "N 8 8"], real: Float[Tensor, "M 8 8"]) -> Float[Tensor, " N"]:
    """The distance of each picture to the most similar real one: 0 is a copy."""
    return torch.cdist(made.flatten(1), real.flatten(1)).min(1).values
