"""What *Through the model* shows before a reader has loaded the model.

`python -m bookkit.explore.through` writes `stored/through.json`: the book's language
model on one line, rounded. `through.js` computes the same from the weights, for any line; a test
compares both with the module.
"""

import json
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnbook.inside.circuits import Recorded, lens, record
from attnbook.shipped.language import BookModel, load

FILE = Path(__file__).parent / "stored/through.json"
LINE = "Romeo, Romeo, wherefore art"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
POOL, HIDDEN = 16, 8  # so many weights each way, so many hidden numbers, become one
STRONG, ACTIVE = 4.0, 4.0  # full colour: times the mean size of a matrix; of a hidden number
LIKELY, RAISED = 8, 5
MATRICES = {
    "attention.sublayer": ("project.to_qkv", "to_out"),
    "feedforward.sublayer": ("gate", "up", "down"),
}


def packed(shares: Tensor) -> str:
    """Numbers from 0 to 1 as letters, in steps of 1/63."""
    levels = (63 * shares.flatten().clamp(0, 1)).round().int().tolist()
    return "".join(LETTERS[level] for level in levels)


def pooled(weight: Float[Tensor, "rows columns"]) -> str:
    """The mean size of the weights in each square, beside that of the whole matrix."""
    size = weight.abs()
    squares = torch.nn.functional.avg_pool2d(size[None], POOL)[0]
    return packed(squares / (STRONG * size.mean()))


def stages(run: Recorded) -> Float[Tensor, "S T C"]:
    """The stream of a run's one row before and after each part of each block."""
    found = [run.stream[0, 0]]
    for middle, end in zip(run.middle[:, 0], run.stream[1:, 0], strict=True):
        found += [middle, end]
    return torch.stack(found)


def likeliest(chances: Tensor, count: int, digits: int) -> list[tuple[int, float]]:
    """(token, chance) of the largest, rounded."""
    top = chances.topk(count)
    pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
    return [(token, round(chance, digits)) for token, chance in pairs]


@torch.no_grad()
def hidden(book: BookModel, run: Recorded) -> Float[Tensor, "N T hidden"]:
    """What stands between the two maps of each network."""
    found = []
    for block, middle in zip(book.model.body.blocks, run.middle[:, 0], strict=True):
        network = block.get_submodule("feedforward")
        part = network.get_submodule("sublayer")
        read = network.get_submodule("norm")(middle)
        gate, up = (part.get_submodule(name)(read) for name in ("gate", "up"))
        found.append(torch.nn.functional.silu(gate) * up)
    return torch.stack(found)


@torch.no_grad()
def start(book: BookModel, line: str = LINE) -> dict[str, Any]:
    """All that is shown of a line without the model's weights."""
    tokens = book.encode(line)
    run = record(book.model, tokens)
    stream = stages(run)
    chances = lens(book.model, stream).softmax(-1)  # (S, T, V)
    rises = chances.diff(dim=0)
    T, line_tokens = tokens.shape[1], tokens[0].tolist()
    numbers: dict[str, Any] = {
        "line": line,
        "tokens": line_tokens,
        # of each stage and token: the likeliest there, how large the stream is
        "says": [[likeliest(row, 1, 3)[0] for row in stage] for stage in chances],
        "sizes": [[round(x, 2) for x in row] for row in stream.square().mean(-1).sqrt().tolist()],
        # of each part and token: which chances it raises most
        "raises": [[likeliest(row, RAISED, 3) for row in part] for part in rises],
        "next": [likeliest(row, LIKELY, 4) for row in chances[-1]],
        # of each block, head and token: where it attends; of each block and token: hidden numbers
        "looks": [
            [[packed(head[t, : t + 1]) for t in range(T)] for head in layer]
            for layer in run.weights[:, 0]
        ],
        "hidden": [
            [packed(row.abs().unflatten(0, (-1, HIDDEN)).amax(-1) / ACTIVE) for row in layer]
            for layer in hidden(book, run)
        ],
        "weights": squares(book),
    }
    used = {*line_tokens, *(token for row in numbers["next"] for token, _ in row)}
    used |= {token for stage in numbers["says"] for token, _ in stage}
    used |= {token for part in numbers["raises"] for row in part for token, _ in row}
    decode = book.tokenizer.decode
    return {"words": {n: decode([n], skip_special_tokens=False) for n in sorted(used)}, **numbers}


def squares(book: BookModel) -> list[str]:
    """All matrices of weights, as `pooled`: table, those of each block, output layer."""
    model = book.model
    found = [model.embed.get_parameter("tokens.weight")]
    for block in model.body.blocks:
        for part, names in MATRICES.items():
            found += [block.get_parameter(f"{part}.{name}.weight") for name in names]
    return [pooled(weight) for weight in (*found, model.lm_head.get_parameter("weight"))]


if __name__ == "__main__":
    text = json.dumps(start(load("book-lm")), ensure_ascii=False, separators=(",", ":"))
    FILE.write_text(text + "\n", "utf-8")
