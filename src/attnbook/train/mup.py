"""μP, the maximal update parametrisation: the best learning rate stays as a model gets wider.

Its rates are those of `attnbook.train.optimizers.groups`, with `growth`; here are the start and the
scores.
"""

import math
from typing import cast

import torch

from attnbook.attention import Attention, Projection
from attnbook.train.optimizers import kinds
from attnbook.transformer import Model


def maximal_update(model: Model, growth: float, D_growth: float | None = None) -> Model:
    """Give a fresh model, `growth` times as wide as the one that was tuned, the start and the
    scores of μP, in place. With `groups(model, lr, growth=growth)` its best rate is that of the
    narrow one. Yang et al. 2021, table 3.

    Before, matrices and head start with a standard deviation like 1/√width, the embedding with the
    same at every width. The head then starts like 1/width, and scores are like q · k / D: each is
    divided by another √growth. `D_growth` is how many times wider a head of the attention is: as
    the model, unless given (1: there are more heads instead). At `growth` 1 nothing changes.
    """
    D_growth = growth if D_growth is None else D_growth
    if not min(growth, D_growth) > 0:
        raise ValueError(f"growths are {growth} and {D_growth}; numbers above 0 are needed")
    head = kinds(model)["head"]
    if not head:
        raise ValueError("a tied head would shrink the embedding with it: untie it for μP")
    with torch.no_grad():
        for weight in head:
            weight.div_(math.sqrt(growth))
    for part in model.modules():
        if isinstance(part, Attention):
            scale = part.score.scale or cast(Projection, part.project).D ** -0.5
            part.score.scale = scale / math.sqrt(D_growth)
    return model
