"""A transformer that reads a whole table: rows with labels, rows without, one forward pass.

A prior-data fitted network. A row is a token; the rows with labels are a prefix that every row
sees, and nobody sees the others. Müller et al. 2022; Hollmann et al. 2023 (TabPFN, first version).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.modalities.body import shared_body


class TableTransformer(nn.Module):
    """The shared body between a map of a row, to which a label is added, and a map to classes.

    There are no positions, so the order of the labelled rows says nothing.
    """

    def __init__(
        self, columns: int = 10, classes: int = 3, width: int = 64, blocks: int = 3, heads: int = 4
    ):
        super().__init__()
        self.embed = nn.Linear(columns, width)
        self.label = nn.Linear(classes, width, bias=False)
        self.body, self.output = shared_body(width, blocks, heads), nn.Linear(width, classes)

    def forward(
        self, x: Float[Tensor, "B T columns"], y: Int[Tensor, "B n"]
    ) -> Float[Tensor, "B queries classes"]:
        """Logits of the rows behind the first `n`, which are the ones with labels `y`."""
        n = y.shape[1]
        given = self.label(F.one_hot(y, self.label.in_features).float())
        rows = self.embed(x) + F.pad(given, (0, 0, 0, x.shape[1] - n))
        labelled = torch.arange(x.shape[1], device=x.device) < n
        return self.output(self.body(rows, mask=labelled[None])[:, n:])


def prepare(
    x: Float[Tensor, "B T any"], n: int, columns: int, there: Int[Tensor, " B"] | None = None
) -> Float[Tensor, "B T {columns}"]:
    """Columns with mean 0 and deviation 1 over the first `n` rows, cut at ±5; then zeros.

    The columns that a table has, `there` if behind them x is zero, are multiplied, so that rows of
    a narrow table are as long as those of a wide one. ValueError for more than the model has.
    """
    if not 0 < x.shape[-1] <= columns:
        raise ValueError(f"the model reads up to {columns} columns; the table has {x.shape[-1]}")
    mean, std = x[:, :n].mean(1, keepdim=True), x[:, :n].std(1, keepdim=True, correction=0)
    x = ((x - mean) / std.where(std > 1e-6, 1)).clamp(-5, 5)
    share = x.shape[-1] / columns if there is None else there[:, None, None] / columns
    return F.pad(x, (0, columns - x.shape[-1])) / share


@torch.no_grad()
def predict(
    model: TableTransformer,
    x: Float[Tensor, "n columns"],
    y: Int[Tensor, " n"],
    queries: Float[Tensor, "m columns"],
    orders: int = 8,
    seed: int = 0,
) -> Float[Tensor, "m classes"]:
    """Probabilities of each query's class, of those that `y` has up to its largest.

    The mean over some orders of the columns and names of the classes, since neither says anything
    of the table, as in Hollmann et al. 2023.
    """
    columns, most = model.embed.in_features, model.label.in_features
    classes, draw = int(y.max()) + 1, torch.Generator().manual_seed(seed)
    if classes > most:
        raise ValueError(f"the model knows up to {most} classes; the table has {classes}")
    rows, found = torch.cat((x, queries))[None], []
    for _ in range(orders):
        order = torch.randperm(x.shape[1], generator=draw)
        name = torch.randperm(classes, generator=draw)
        logits = model(prepare(rows[..., order], len(x), columns), name[y][None])
        found.append(logits[0, :, name].softmax(-1))
    return torch.stack(found).mean(0)
