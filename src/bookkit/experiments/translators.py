"""The small translators of chapter 2: how they are trained, and how much they get right."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from attnbook.data.pairs import Batch, Pairs, batches_in_order
from attnbook.data.vocabulary import BEGIN, END, Pair
from attnbook.device import device_of
from attnbook.losses import token_loss
from attnbook.recurrent import BothWays, GRUCell, Layer, Stack
from attnbook.seq2seq import Decoder, Encoder, ProjectedStart, Seq2Seq
from attnbook.train.loop import cosine, train

Sampler = Callable[[torch.Generator], Batch]


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Mean cross-entropy of the target's tokens with teacher forcing, in nats."""
    logits, _ = model(batch.source, batch.source_mask, batch.target_in)
    return token_loss(logits, batch.target_out, batch.target_mask)


def fit(
    build: Callable[[], Seq2Seq],
    sampler: Sampler,
    steps: int,
    lr: float = 0.012,
    seed: int = 0,
    loss: Callable[[Any, Any], Tensor] = loss,
) -> tuple[Seq2Seq, list[float]]:
    """The model that `build` makes after `steps` batches, with Adam and a cosine; and its losses.

    The seed decides on the first weights and on the batches.
    """
    torch.manual_seed(seed)
    model, schedule = build(), cosine(steps)
    history = train(
        model, sampler, loss, steps=steps, lr=lr, schedule=schedule, seed=seed, progress=False
    )
    return model, history.loss


@torch.no_grad()
def right(model: Any, batch: Batch) -> Bool[Tensor, " B"]:
    """For each row of the batch: does greedy decoding write the whole target without a mistake?"""
    T = batch.target_out.shape[1]
    written: Tensor
    written, _ = model.greedy(batch.source, batch.source_mask, BEGIN, END, limit=T)
    written = pad(written, (0, T - written.shape[1]), value=END)
    return ((written == batch.target_out) | ~batch.target_mask).all(1)


def right_pairs(model: Seq2Seq, corpus: Pairs, part: Sequence[Pair]) -> Float[Tensor, " N"]:
    """For each sentence pair of `part`, 1 if the translation is exactly the target, else 0."""
    batches, where = batches_in_order(part, corpus.source, corpus.target, B=250), device_of(model)
    return torch.cat([right(model, batch.to(where)) for batch in batches]).float().cpu()


def assemble(
    corpus: Pairs,
    context: nn.Module,
    body: nn.Module | None = None,
    start: nn.Module | None = None,
    width: int = 48,
    embed: int = 32,
) -> Seq2Seq:
    """A translator out of parts: encoder states and decoder state have `width` numbers each.

    The encoder reads both ways, half of the width each, unless `body` reads; the decoder starts
    from a learned projection of the summary, unless `start` says otherwise.
    """
    body = body or BothWays(*(Layer(GRUCell(embed, width // 2)) for _ in range(2)))
    encoder = Encoder(nn.Embedding(len(corpus.source), embed), Stack(body))
    decoder = Decoder(
        embed=nn.Embedding(len(corpus.target), embed),
        cell=GRUCell(embed + width, width),
        context=context,
        start=start or ProjectedStart(width, width),
        lm_head=nn.Linear(2 * width + embed, len(corpus.target)),
    )
    return Seq2Seq(encoder, decoder)


def align(
    model: Seq2Seq, corpus: Pairs, english: Sequence[str], limit: int = 40
) -> tuple[Float[Tensor, "Tq Tk"], list[str]]:
    """What a model with attention makes of a sentence: the weights of each word, and the words.

    Its last word is `</s>`, unless `limit` was reached. Raises ValueError for unknown words and for
    a model without weights.
    """
    unknown = [word for word in english if word not in corpus.source]
    if unknown or not english:
        raise ValueError(f"words of the corpus are wanted; unknown: {', '.join(unknown) or 'none'}")
    numbers = [corpus.source.encode(english)]
    source: Int[Tensor, "1 Tk"] = torch.tensor(numbers, device=device_of(model))
    tokens, weights = model.greedy(source, torch.ones_like(source).bool(), BEGIN, END, limit)
    if weights is None:
        raise ValueError("this model has one context for all words, so it has no weights")
    return weights[0], [corpus.target.words[number] for number in tokens[0].tolist()]
