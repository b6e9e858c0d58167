"""What one process sends to another, every byte of it counted."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

PATIENCE = 60  # seconds until a neighbour counts as lost
Found = TypeVar("Found")


class Wire(ABC):
    """The way from one of `size` processes, number `rank`, to the others.

    `sent` counts the bytes that were handed to `send`, on this process alone. What is sent is
    numbers: gradients do not travel back by themselves.
    """

    def __init__(self, rank: int, size: int):
        if not 0 <= rank < size:
            raise ValueError(f"of {size} processes the ranks are 0 to {size - 1}; got {rank}")
        self.rank, self.size, self.sent = rank, size, 0

    def send(self, tensor: Tensor, to: int) -> None:
        """Hand a tensor over to process `to`, without waiting until it is received."""
        if to == self.rank or not 0 <= to < self.size:
            raise ValueError(f"process {self.rank} of {self.size} cannot send to {to}")
        self.sent += tensor.numel() * tensor.element_size()
        if tensor.numel():
            self.put(tensor.detach().contiguous(), to)

    def receive(self, like: Tensor, source: int) -> Tensor:
        """Wait for the next tensor from process `source`; it has the shape and type of `like`."""
        buffer = torch.empty_like(like, memory_format=torch.contiguous_format, requires_grad=False)
        return self.take(buffer, source) if like.numel() else buffer

    @abstractmethod
    def put(self, tensor: Tensor, to: int) -> None:
        """Send, uncounted."""

    @abstractmethod
    def take(self, buffer: Tensor, source: int) -> Tensor:
        """Receive into `buffer`, or something as large."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until all that was sent is received."""


class Processes(Wire):
    """Between the processes that torchrun has started, over torch.distributed with gloo (CPU).

    Li et al. 2020, section 3.1.
    """

    def __init__(self) -> None:
        if not dist.is_initialized():
            dist.init_process_group("gloo")
        super().__init__(dist.get_rank(), dist.get_world_size())
        self.under_way: list[tuple[dist.Work | None, Tensor]] = []

    def put(self, tensor: Tensor, to: int) -> None:
        self.under_way.append((dist.isend(tensor, to), tensor))

    def take(self, buffer: Tensor, source: int) -> Tensor:
        dist.recv(buffer, source)
        return buffer

    def flush(self) -> None:
        for work, _ in self.under_way:
            if work is not None:
                work.wait()
        self.under_way.clear()


Boxes = dict[tuple[int, int], Queue]


class Threads(Wire):
    """Between threads of one process: as many as you like, for tests and for trying things out."""

    def __init__(self, rank: int, size: int, boxes: Boxes):
        super().__init__(rank, size)
        self.boxes = boxes

    def put(self, tensor: Tensor, to: int) -> None:
        self.boxes[self.rank, to].put(tensor.clone())

    def take(self, buffer: Tensor, source: int) -> Tensor:
        try:
            found = self.boxes[source, self.rank].get(timeout=PATIENCE)
        except Empty:
            found = None
        if found is None:
            raise ConnectionError(f"process {self.rank} waits for {source}, which sends nothing")
        if found.shape != buffer.shape or found.dtype != buffer.dtype:
            raise ValueError(
                f"process {self.rank} expects {tuple(buffer.shape)} of {buffer.dtype} from "
                f"{source}, which sent {tuple(found.shape)} of {found.dtype}"
            )
        return found

    def flush(self) -> None:
        """Nothing to wait for: a box holds what was put into it."""


def crew(size: int, work: Callable[[Wire], Found]) -> list[Found]:
    """What `work(wire)` returns on each of `size` threads that can send to each other.

    All share what the function refers to, so let each make its own copy of a model.
    """
    if size < 1:
        raise ValueError(f"a crew has 1 member or more; got {size}")
    boxes: Boxes = {(a, b): Queue() for a in range(size) for b in range(size)}

    def one(rank: int) -> Found:
        try:
            return work(Threads(rank, size, boxes))
        except BaseException:
            for other in range(size):
                boxes[rank, other].put(None)  # nobody has to wait for this one
            raise

    with ThreadPoolExecutor(size) as pool:
        running = [pool.submit(one, rank) for rank in range(size)]
    wrong = [error for error in (job.exception() for job in running) if error is not None]
    wrong.sort(key=lambda error: isinstance(error, ConnectionError))  # the cause comes first
    if wrong:
        raise wrong[0]
    return [job.result() for job in running]
