"""Interleaved pipelines: each stage has several short pieces of the stack, and waits less."""

from functools import partial

from attnbook.parallel.pipeline import Job, check_pipeline
from attnbook.parallel.timeline import Bar, timeline


def interleaved(stages: int, stage: int, micro: int, chunks: int) -> list[Job]:
    """What a stage does, one after the other. Narayanan et al. 2021, section 2.2.2.

    Piece c of stage s is number c · stages + s from below. As many micro-batches as there are
    stages pass one piece, then the next; `micro` is a multiple of `stages`. One backward follows
    each forward pass as soon as the last piece can go back.
    """
    check_pipeline(stages, stage, micro)
    if chunks < 1 or micro % stages:
        raise ValueError(
            f"a stage has 1 piece or more, and micro-batches come in groups of {stages}; got "
            f"{chunks} and {micro}"
        )
    total = micro * chunks
    behind = stages - stage - 1
    ahead = min(behind if chunks == 1 else 2 * behind + (chunks - 1) * stages, total)
    places = [place(n, stages, chunks) for n in range(total)]
    forward = [Job("forward", m, c) for m, c in places]
    back = [Job("backward", m, chunks - 1 - c) for m, c in places]
    found = forward[:ahead]
    for n in range(total - ahead):
        found += [forward[ahead + n], back[n]]
    return found + back[total - ahead :]


def place(n: int, stages: int, chunks: int) -> tuple[int, int]:
    """Micro-batch and piece of the n-th forward pass of a stage."""
    group, rest = divmod(n, stages * chunks)
    return group * stages + rest % stages, rest // stages


def interleaved_timeline(
    stages: int, micro: int, chunks: int, forward: int = 1, backward: int = 2
) -> list[list[Bar]]:
    """The bars of each stage, if a piece takes `forward` or `backward`; sending takes no time."""
    order = partial(interleaved, chunks=chunks)
    return timeline(order, stages, micro, forward, backward, chunks)
