"""How many ranks does the change have that fine-tuning makes? And how many has the model itself?

    python results/low_rank.py

The book's language model is tuned on dialogues with all its weights (`results/after.py`, at a rate
of 0.001), three seeds. Of each hidden matrix: the share of the squared change that its best
approximation of each rank keeps, and the same of the matrix as it was (Eckart and Young 1936). Of
one matrix, 8 × 8 numbers of the change and of the matrix, as products of singular vectors.
"""

from pathlib import Path

import torch
from after import tune
from torch import Tensor, nn

from attnbook import device
from attnbook.provenance import provenance, write
from attnbook.shipped.language import load
from attnbook.train import lora

STORE = Path(__file__).parents[1] / "src" / "bookkit" / "runs" / "low_rank.json"
SEEDS, RATE, RANKS, SHOWN, CROP = range(3), 1e-3, (1, 2, 4, 8, 16, 32, 64), 48, 8
NAME = "body.blocks.3.feedforward.sublayer.down"


def matrices(model: nn.Module) -> dict[str, Tensor]:
    """The hidden matrices by name."""
    return {
        name: part.weight.detach().clone()
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear) and lora.hidden(name, part)
    }


def kept(matrix: Tensor) -> Tensor:
    """The share of its squares that the best matrix of rank 1, 2, … keeps."""
    squares = torch.linalg.svdvals(matrix).square()
    return squares.cumsum(0) / squares.sum()


def cropped(matrix: Tensor) -> dict[str, list]:
    """Shares by rank; and factors of a corner: left (8 × 48), right (48 × 8), and the corner."""
    U, s, V = torch.linalg.svd(matrix)
    corner, unit = matrix[:CROP, :CROP], matrix[:12, :12].abs().max()

    def few(x: Tensor) -> list:
        return [[round(v, 3) for v in row] for row in x.tolist()]

    left, right = U[:CROP, :SHOWN] * s[:SHOWN] / unit, V[:SHOWN, :CROP]
    shares = kept(matrix)[:SHOWN].tolist()
    return {
        "kept": [round(x, 4) for x in shares],
        "left": few(left),
        "right": few(right),
        "corner": few(corner / unit),
    }


def main() -> None:
    torch.set_num_threads(1)
    before, changed = matrices(load().model), []
    for seed in SEEDS:
        after = matrices(tune("full", RATE, seed).model)
        changed.append({name: after[name] - before[name] for name in before})
    ranks = torch.tensor(RANKS) - 1

    def means(found: dict[str, Tensor]) -> list[float]:
        shares = torch.stack([kept(matrix)[ranks] for matrix in found.values()])
        return [round(x, 4) for x in shares.mean(0).tolist()]

    found = {
        "ranks": list(RANKS),
        "change": [means(one) for one in changed],
        "model": means(before),
        "shown": {"name": NAME, "change": cropped(changed[0][NAME]),
                  "model": cropped(before[NAME]), "shape": list(before[NAME].shape)},
    }  # fmt: skip
    write(STORE, found | {"provenance": provenance(device.choose(0))})


if __name__ == "__main__":
    main()
