"""The chapter's example: one small decoder and one batch, the same on every process."""

from threading import Lock

import torch
from jaxtyping import Int
from torch import Tensor

from attnbook.models.llama import llama
from attnbook.models.mixtral import mixtral
from attnbook.transformer import LanguageModel

V, C, LAYERS, HEADS, HIDDEN = 256, 64, 4, 4, 160
B, T = 8, 32
ONE = Lock()  # torch has one generator for all threads
Batch = tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]


def decoder() -> LanguageModel:
    """Four blocks of width 64 with four heads, rotary positions and a SwiGLU network."""
    with ONE, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return llama(V, C, LAYERS, HEADS, hidden=HIDDEN)


def mixture() -> LanguageModel:
    """The same with eight experts in each block, of which a token chooses two."""
    with ONE, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return mixtral(V, C, LAYERS, HEADS, kv_heads=HEADS, hidden=HIDDEN, experts=8, active=2)


def batch() -> Batch:
    """Eight windows of 32 tokens, and the token that follows each."""
    tokens = torch.randint(V, (B, T + 1), generator=torch.Generator().manual_seed(0))
    return tokens[:, :-1], tokens[:, 1:]
