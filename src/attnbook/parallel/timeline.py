"""When each stage of a pipeline works, and how long it waits."""

from typing import NamedTuple

from attnbook.parallel.pipeline import Job, Order


class Bar(NamedTuple):
    """A job of a stage, from its start to its end."""

    job: Job
    start: int
    end: int


def timeline(
    order: Order, stages: int, micro: int, forward: int = 1, backward: int = 2, chunks: int = 1
) -> list[list[Bar]]:
    """The bars of each stage, if a job takes `forward` or `backward` and sending takes no time.

    A stage does its jobs in their order, each as soon as what it needs is there. With `chunks`
    pieces a stage, piece c of stage s is number c · stages + s from below.
    """
    takes = {"forward": forward, "backward": backward}
    jobs = [list(reversed(order(stages, stage, micro))) for stage in range(stages)]
    bars: list[list[Bar]] = [[] for _ in range(stages)]
    ended: dict[tuple[str, int, int], int] = {}  # kind, micro-batch, piece from below
    while any(jobs):
        before = len(ended)
        for stage in range(stages):
            while jobs[stage]:
                job = jobs[stage][-1]
                at = job.chunk * stages + stage
                needed = needs(job, at, at == stages * chunks - 1)
                if not all(need in ended for need in needed):
                    break
                own = bars[stage][-1].end if bars[stage] else 0
                start = max([own, *(ended[need] for need in needed)])
                bars[stage].append(Bar(jobs[stage].pop(), start, start + takes[job.kind]))
                ended[job.kind, job.micro, at] = bars[stage][-1].end
        if len(ended) == before:
            raise ValueError("each stage waits for another one: this order never ends")
    return bars


def needs(job: Job, at: int, top: bool) -> list[tuple[str, int, int]]:
    """What must have ended before the job of piece `at`, counted from below: forward, the piece
    below; backward, its own forward pass and, unless it is the top, the piece above."""
    if job.kind == "forward":
        return [("forward", job.micro, at - 1)] if at else []
    return [("forward", job.micro, at)] + [("backward", job.micro, at + 1)] * (not top)


def idle(bars: list[list[Bar]]) -> float:
    """The share of all stages' time in which they wait: the bubble."""
    length = max(bar.end for stage in bars for bar in stage)
    busy = sum(bar.end - bar.start for stage in bars for bar in stage)
    return 1 - busy / (length * len(bars))


def under_way(bars: list[Bar]) -> int:
    """Of how many micro-batches (pieces, if it has several) a stage keeps activations, at most."""
    now = most = 0
    for bar in bars:
        now += 1 if bar.job.kind == "forward" else -1
        most = max(most, now)
    return most
