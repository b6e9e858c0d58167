"""Lab 8, level 2: the parts of chapter 9, a rate that follows the clock, and a tokenizer in seconds.

What level 1 does and this one does not: it counts all pairs anew for each merge, keeps one rate to
the end, and gives each place a vector of its own.
"""

import itertools
import re
import time
from collections import Counter, defaultdict

import torch
from torch import nn
from torch.nn import functional as F

TEAM = "level 2"
SIZES = {"V": 768, "C": 128, "H": 4, "layers": 3}
T, B, RATE, LEAST = 96, 8, 4e-3, 0.05  # window, windows at a time, the rate and its last share
PIECES = re.compile(rb" ?[A-Za-z]+|\s+|[^A-Za-z\s]+")


def joined(parts, token):
    out = []
    for part in parts:
        if out and out[-1] + part == token:
            out[-1] = token
        else:
            out.append(part)
    return out


def train_bpe(text, size):
    """Counts are kept up to date: a merge touches only the words in which it happens."""
    vocabulary = [bytes([n]) for n in range(256)]
    words = Counter(PIECES.findall(text))
    cut = {word: [bytes([b]) for b in word] for word in words}
    pairs, where = Counter(), defaultdict(set)

    def count(word, sign):
        for left, right in itertools.pairwise(cut[word]):
            pairs[left + right] += sign * words[word]
            where[left + right].add(word)

    for word in words:
        count(word, 1)
    while len(vocabulary) < size and pairs:
        token = max(pairs, key=lambda pair: (pairs[pair], pair))
        vocabulary.append(token)
        for word in where.pop(token):
            count(word, -1)
            cut[word] = joined(cut[word], token)
            count(word, 1)
        del pairs[token]
    return vocabulary


def encode(text, vocabulary):
    rank, known, ids = {token: n for n, token in enumerate(vocabulary)}, {}, []
    for word in PIECES.findall(text):
        if word not in known:
            parts = [bytes([b]) for b in word]
            while len(parts) > 1:
                pairs = [a + b for a, b in itertools.pairwise(parts)]
                token = min(pairs, key=lambda pair: rank.get(pair, len(rank)))
                if token not in rank:
                    break
                parts = joined(parts, token)
            known[word] = [rank[part] for part in parts]
        ids += known[word]
    return ids


def turned(x):
    """Rotary positions: the two halves of each head are the coordinates of D/2 points."""
    D = x.shape[-1]
    angles = torch.arange(x.shape[-2])[:, None] * 1000 ** -torch.linspace(0, 1, D // 2)
    a, b = x.chunk(2, -1)
    c, s = angles.cos(), angles.sin()
    return torch.cat([a * c - b * s, a * s + b * c], -1)


def normed(x):
    return F.rms_norm(x, x.shape[-1:])


class Block(nn.Module):
    def __init__(self, C, H):
        super().__init__()
        self.H, hidden = H, 8 * C // 3
        self.qkv, self.out = nn.Linear(C, 3 * C, bias=False), nn.Linear(C, C, bias=False)
        self.up, self.down = nn.Linear(C, 2 * hidden, bias=False), nn.Linear(hidden, C, bias=False)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.down.weight)

    def attend(self, x):
        parts = self.qkv(x).unflatten(-1, (3, self.H, -1)).transpose(1, 3).unbind(2)
        q, k, v = parts
        seen = F.scaled_dot_product_attention(
            turned(normed(q)), turned(normed(k)), v, is_causal=True, scale=0.25
        )
        return self.out(seen.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(normed(x))
        gate, up = self.up(normed(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, V, C, H, layers):
        super().__init__()
        self.tokens = nn.Embedding(V, C)
        self.blocks = nn.Sequential(*(Block(C, H) for _ in range(layers)))
        self.head = nn.Linear(C, V, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.05)
        nn.init.zeros_(self.head.weight)

    def forward(self, ids):
        return self.head(normed(self.blocks(normed(self.tokens(ids)))))


class AdamW:
    """As in level 1, all tensors at a time."""

    def __init__(self, parameters, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1):
        self.parameters, self.betas, self.eps = list(parameters), betas, eps
        self.lr, self.weight_decay, self.steps = 0.0, weight_decay, 0
        self.means = [torch.zeros_like(each) for each in self.parameters]
        self.squares = [torch.zeros_like(each) for each in self.parameters]

    @torch.no_grad()
    def step(self):
        self.steps += 1
        (first, second), gradients = self.betas, [each.grad for each in self.parameters]
        torch._foreach_lerp_(self.means, gradients, 1 - first)
        torch._foreach_mul_(self.squares, second)
        torch._foreach_addcmul_(self.squares, gradients, gradients, 1 - second)
        sizes = torch._foreach_sqrt(self.squares)
        torch._foreach_div_(sizes, (1 - second**self.steps) ** 0.5)
        torch._foreach_add_(sizes, self.eps)
        torch._foreach_mul_(self.parameters, 1 - self.lr * self.weight_decay)
        scale = -self.lr / (1 - first**self.steps)
        torch._foreach_addcdiv_(self.parameters, self.means, sizes, scale)


def submit(text, seconds):
    started = time.process_time()
    vocabulary = train_bpe(text, SIZES["V"])
    tokens = torch.tensor(encode(text, vocabulary))
    torch.manual_seed(0)
    model = Model(**SIZES)
    optimiser = AdamW(model.parameters())
    while (used := (time.process_time() - started) / (0.98 * seconds - 0.2)) < 1:
        optimiser.lr = RATE * min(
            1, (optimiser.steps + 1) / 40, LEAST + (1 - LEAST) * (1 - used) * 2
        )
        windows = tokens[torch.randint(len(tokens) - T, (B, 1)) + torch.arange(T + 1)]
        logits = model(windows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return vocabulary, model.state_dict()


def predictor(vocabulary, weights):
    model = Model(**SIZES)
    model.load_state_dict(weights)
    return lambda ids: model(ids[:, -T:])[:, -1].log_softmax(-1)
