"""When each stage of a pipeline works, and how long it waits."""

from typing import NamedTuple

from attnbook.parallel.pipeline import Job, Order


class Bar(NamedTuple):
    """A job of a stage, from its start to its end."""

    job: Job
    start: int
    end: int


def timeline(
    order: Order, stages: int, micro: int, forward: int = 1, backward: int = 2
) -> list[list[Bar]]:
    """The bars of each stage, if a job takes `forward` or `backward` and sending takes no time.

    A stage does its jobs in their order, each as soon as what it needs is there: forward, the stage
    before; backward, the stage after, and its own forward pass.
    """
    takes = {"forward": forward, "backward": backward}
    jobs = [list(reversed(order(stages, stage, micro))) for stage in range(stages)]
    bars: list[list[Bar]] = [[] for _ in range(stages)]
    ended: dict[tuple[int, Job], int] = {}
    while any(jobs):
        before = len(ended)
        for stage in range(stages):
            while jobs[stage] and (ready := start_of(ended, stages, stage, jobs[stage][-1])) >= 0:
                job = jobs[stage].pop()
                start = max(ready, bars[stage][-1].end if bars[stage] else 0)
                bars[stage].append(Bar(job, start, start + takes[job.kind]))
                ended[stage, job] = bars[stage][-1].end
        if len(ended) == before:
            raise ValueError("each stage waits for another one: this order never ends")
    return bars


def start_of(ended: dict[tuple[int, Job], int], stages: int, stage: int, job: Job) -> int:
    """When what a job needs is there, or −1."""
    needs = []
    if job.kind == "forward" and stage > 0:
        needs = [(stage - 1, job)]
    if job.kind == "backward":
        needs = [(stage, Job("forward", job.micro))]
        needs += [(stage + 1, job)] if stage < stages - 1 else []
    return (
        max((ended.get(need, -1) for need in needs), default=0)
        if all(need in ended for need in needs)
        else -1
    )


def idle(bars: list[list[Bar]]) -> float:
    """The share of all stages' time in which they wait: the bubble."""
    length = max(bar.end for stage in bars for bar in stage)
    busy = sum(bar.end - bar.start for stage in bars for bar in stage)
    return 1 - busy / (length * len(bars))


def under_way(bars: list[Bar]) -> int:
    """How many micro-batches a stage keeps activations of, at most."""
    now = most = 0
    for bar in bars:
        now += 1 if bar.job.kind == "forward" else -1
        most = max(most, now)
    return most
