"""Attention written out (`attend`) beside torch's fused kernel, as sequences grow.

    python benchmarks/attention.py

Forward and backward, one thread, float32, with a causal mask; time, and what is kept in memory
for the backward pass. The result goes to benchmarks/attention.json.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from timing import both_ways, compare
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from attnbook import device
from attnbook.attention import attend
from attnbook.masks import causal_mask
from attnbook.provenance import provenance, write

H, D = 4, 32


def kept(run: Callable[[], Tensor]) -> int:
    """Bytes that a forward pass keeps for its backward pass, tensors that were given included."""
    storages: dict[int, int] = {}

    def remember(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(remember, lambda tensor: tensor):
        output = run()
    del output
    return sum(storages.values())


def measure(T: int, budget: float) -> dict:
    """One length: times in ms, memory in MiB."""
    q, k, v = (torch.randn(1, H, T, D, requires_grad=True) for _ in range(3))
    mask = causal_mask(T)
    forward: dict[str, Callable[[], Tensor]] = {
        "attend": lambda: attend(q, k, v, mask)[0],
        "fused": lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
    }
    assert_close(forward["attend"](), forward["fused"]())
    steps = {name: both_ways(run) for name, run in forward.items()}
    found = {"T": T, "heads": H, "D": D} | compare(steps, budget)
    for name, run in forward.items():
        found[name]["MiB"] = round(kept(run) / 2**20, 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048])
    parser.add_argument("--seconds", type=float, default=4.0, help="for each length")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    here = device.choose()
    if here.device.type != "cpu":
        raise SystemExit("this measures processor time: set ATTNBOOK_DEVICE=cpu")
    cases = []
    for T in options.lengths:
        cases.append(measure(T, options.seconds))
        print(cases[-1], flush=True)
    write(options.out, {"unit": "ms", "cases": cases, "provenance": provenance(here)})


if __name__ == "__main__":
    main()
