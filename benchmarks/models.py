"""Whole models of ours beside nanoGPT's, transformers' and x-transformers', with the same weights.

    python benchmarks/models.py
    python benchmarks/models.py --only nanoGPT --seconds 20

One thread, float32, no dropout. A training step is forward, cross-entropy, backward and AdamW;
writing is greedy, with a cache, 64 tokens after 64. Nothing is measured before logits agree. A
ratio is our time over theirs in the same round: below 1, ours is faster. nanoGPT's `model.py` is
downloaded; x-transformers is measured if it is installed (`pip install x-transformers==2.31.10`),
and the result says so if not. The result goes to benchmarks/models.json.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from timing import Call, both_ways, compare
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from attnbook import device
from attnbook.attention import MultiHeadAttention
from attnbook.block import Block, PreNorm, Stack
from attnbook.data import registry
from attnbook.feedforward import MLP
from attnbook.generate.sampling import generate
from attnbook.masks import causal
from attnbook.models import hub
from attnbook.norms import LayerNorm
from attnbook.positions import Learned
from attnbook.provenance import provenance, write
from attnbook.transformer import Embed, LanguageModel, Tied

V = 1024
SIZES = [  # B, T, width, depth, heads
    (12, 64, 128, 4, 4),  # nanoGPT's setting for a CPU
    (4, 256, 256, 4, 4),  # the book's own model
    (1, 1024, 256, 2, 4),
]
WRITTEN = 64, 64  # tokens given, tokens written


def step(model: nn.Module, logits: Callable[[Tensor], Tensor], tokens: Tensor) -> Call:
    """One step of training: read all but the last token, be asked for all but the first."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        out = logits(tokens[:, :-1])
        F.cross_entropy(out.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()

    return run


def from_theirs(theirs: transformers.PreTrainedModel) -> nn.Module:
    """Our model with the weights of theirs, through the files that they write."""
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        return hub.load(folder)


def hugging(config: transformers.PretrainedConfig) -> tuple[nn.Module, Any]:
    """Ours and theirs of one configuration, by torch's fused attention.

    Theirs is an `nn.Module` that writes, too: for that there is no type in transformers.
    """
    config._attn_implementation = "sdpa"
    theirs = transformers.AutoModelForCausalLM.from_config(config).eval()
    return from_theirs(theirs).eval(), theirs


def gpt2_config(T: int, width: int, depth: int, heads: int) -> transformers.GPT2Config:
    """GPT-2 of one size."""
    return transformers.GPT2Config(
        vocab_size=V, n_positions=T, n_embd=width, n_layer=depth, n_head=heads, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip


def llama_config(T: int, width: int, depth: int, heads: int) -> transformers.LlamaConfig:
    """Llama of one size, two query heads for each head of keys."""
    return transformers.LlamaConfig(
        vocab_size=V, max_position_embeddings=T, hidden_size=width, num_hidden_layers=depth,
        num_attention_heads=heads, num_key_value_heads=heads // 2, intermediate_size=3 * width,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip


def logits_of(theirs: nn.Module) -> Callable[[Tensor], Tensor]:
    """What a model of transformers says of tokens, without a cache."""
    return lambda tokens: theirs(tokens, use_cache=False).logits


def of_transformers(name: str, config: Callable, budget: float) -> Iterator[dict]:
    """GPT-2 or Llama of transformers: a training step at each size, and writing."""
    for B, T, width, depth, heads in SIZES:
        ours, theirs = hugging(config(T, width, depth, heads))
        tokens = torch.randint(V, (B, T + 1))
        read = logits_of(theirs)
        assert_close(ours(tokens[:, :-1]), read(tokens[:, :-1]), atol=1e-4, rtol=1e-4)
        runs = {
            "attnbook": step(ours, ours, tokens),
            name: step(theirs, read, tokens),
        }
        yield describe("training step", B, T, width, depth, heads) | compare(runs, budget)
    given, more = WRITTEN
    for B in (1, 16):
        ours, theirs = hugging(config(given + more, *SIZES[1][2:]))
        start = torch.randint(V, (B, given))
        write_ours = partial(generate, ours, start, more)
        write_theirs = partial(
            theirs.generate, start, max_new_tokens=more, min_new_tokens=more, do_sample=False,
            attention_mask=torch.ones_like(start), pad_token_id=0,
        )  # fmt: skip
        assert torch.equal(write_ours(), write_theirs()), "different tokens are written"
        runs = {"attnbook": write_ours, name: write_theirs}
        size = (B, given + more, *SIZES[1][2:])
        yield describe(f"{more} tokens written", *size) | compare(runs, budget)


def nanogpt_module() -> ModuleType:
    """nanoGPT's model.py, as it is at one commit."""
    path = registry.fetch("nanogpt/model.py")
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["nanogpt_model"] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


def of_nanogpt(budget: float) -> Iterator[dict]:
    """nanoGPT: one block, and a training step of the whole model, at each size."""
    theirs_of = nanogpt_module()
    for B, T, width, depth, heads in SIZES:
        theirs = theirs_of.GPT(theirs_of.GPTConfig(T, V, depth, heads, width, 0.0, bias=False))
        ours = of_blocks(T, width, depth, heads)
        copy(theirs, ours)
        tokens, x = torch.randint(V, (B, T + 1)), torch.randn(B, T, width)
        targets = tokens[:, 1:].contiguous()
        given = tokens[:, :-1].contiguous()
        assert_close(ours(given), theirs(given, targets)[0], atol=1e-4, rtol=1e-4)
        block, other = ours.body.blocks[0], theirs.transformer.h[0]
        assert_close(block(x, causal), other(x), atol=1e-4, rtol=1e-4)
        runs = {
            "attnbook": both_ways(partial(block, x, causal)),
            "nanoGPT": both_ways(partial(other, x)),
        }
        yield describe("block", B, T, width, 1, heads) | compare(runs, budget)
        runs = {
            "attnbook": step(ours, ours, tokens),
            "nanoGPT": own_loss(theirs, given, targets),
        }
        yield describe("training step", B, T, width, depth, heads) | compare(runs, budget)


def own_loss(model: nn.Module, tokens: Tensor, targets: Tensor) -> Call:
    """A step with the loss that the model computes itself."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(tokens, targets)[1].backward()
        optimizer.step()

    return run


def of_x_transformers(budget: float) -> Iterator[dict]:
    """x-transformers: its stack of decoder blocks with the fused kernel, forward and backward."""
    try:
        from x_transformers import Decoder
    except ImportError:
        yield {"what": "not installed: pip install x-transformers==2.31.10"}
        return
    for B, T, width, depth, heads in SIZES:
        theirs = Decoder(  # its gains are 1 + what is learned, unless told so
            dim=width,
            depth=depth,
            heads=heads,
            attn_dim_head=width // heads,
            attn_flash=True,
            norm_add_unit_offset=False,
        )
        ours = Stack(
            [lean(width, heads, bias=True) for _ in range(depth)], LayerNorm(width, bias=False)
        )
        x = torch.randn(B, T, width)
        copy(theirs, ours)
        assert_close(ours(x, causal), theirs(x), atol=1e-4, rtol=1e-4)
        runs = {
            "attnbook": both_ways(partial(ours, x, causal)),
            "x-transformers": both_ways(partial(theirs, x)),
        }
        yield describe("stack", B, T, width, depth, heads) | compare(runs, budget)


def lean(width: int, heads: int, bias: bool) -> Block:
    """A block of the GPT-2 family with the exact GELU, without shifts in its norms."""
    parts = (
        MultiHeadAttention(width, heads, bias=False),
        MLP(width, 4 * width, nn.GELU(), bias=bias),
    )
    return Block(*(PreNorm(part, LayerNorm(width, bias=False)) for part in parts))


def of_blocks(T: int, width: int, depth: int, heads: int) -> LanguageModel:
    """nanoGPT's model without biases, as its train.py has it."""
    embed = Embed(V, width, Learned(T, width))
    blocks = [lean(width, heads, bias=False) for _ in range(depth)]
    return LanguageModel(embed, Stack(blocks, LayerNorm(width, bias=False)), Tied(embed))


def in_order(model: LanguageModel | Stack) -> Iterator[nn.Parameter]:
    """The weights in the order of computation: the embedding, norms and parts, the last norm."""
    if isinstance(model, LanguageModel):
        yield from model.embed.parameters()
    body = model.body if isinstance(model, LanguageModel) else model
    for block in body.blocks:
        for name in (
            "attention.norm",
            "attention.sublayer",
            "feedforward.norm",
            "feedforward.sublayer",
        ):
            yield from block.get_submodule(name).parameters()
    yield from body.norm.parameters()


@torch.no_grad()
def copy(theirs: nn.Module, ours: LanguageModel | Stack) -> None:
    """The weights of their model, which names them in the order of `in_order`."""
    given = list(theirs.parameters())
    for weight in in_order(ours):
        rows: list[Tensor] = [given.pop(0)]
        while len(weight) > sum(map(len, rows)):
            rows.append(given.pop(0))
        weight.copy_(torch.cat(rows))  # q, k and v are one map in ours
    assert not given, "their stack has more weights than ours"


def describe(what: str, B: int, T: int, width: int, depth: int, heads: int) -> dict:
    """What is measured, at which size."""
    return {"what": what, "B": B, "T": T, "width": width, "depth": depth, "heads": heads}


RIVALS: dict[str, Callable[[float], Iterator[dict]]] = {
    "nanoGPT": of_nanogpt,
    "transformers GPT-2": partial(of_transformers, "transformers GPT-2", gpt2_config),
    "transformers Llama": partial(of_transformers, "transformers Llama", llama_config),
    "x-transformers": of_x_transformers,
}


def main() -> None:
    """Measure each rival, print a line per case, store all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=12.0, help="for each case")
    parser.add_argument("--only", nargs="+", choices=list(RIVALS), default=list(RIVALS))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    here = device.choose()
    if here.device.type != "cpu":
        raise SystemExit("this measures processor time: set ATTNBOOK_DEVICE=cpu")
    torch.manual_seed(0)
    cases = []
    for name in options.only:
        for case in RIVALS[name](options.seconds):
            cases.append({"rival": name} | case)
            print(cases[-1], flush=True)
    write(options.out, {"unit": "ms", "cases": cases, "provenance": provenance(here)})


if __name__ == "__main__":
    main()
