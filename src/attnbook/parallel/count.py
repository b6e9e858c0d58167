"""How many bytes a process sends in one step, by formula, for each kind of parallelism.

N parameters, P processes, numbers of `size` bytes; `activations` are the numbers of one batch's
vectors, B · T · C. Collectives go around a ring (`attnbook.parallel.collectives`).
"""

from attnbook.checks import check_int


def ring(numbers: int, P: int, size: int = 4) -> int:
    """To gather or to scatter numbers: (P − 1)/P of them, filled up until P divides them."""
    check_int("numbers", numbers, 0)
    check_int("P", P, 1)
    return (P - 1) * -(-numbers // P) * size


def data(N: int, P: int, size: int = 4) -> int:
    """Gradients are summed: scattered and gathered."""
    return 2 * ring(N, P, size)


def sharded(N: int, P: int, stage: int, size: int = 4) -> int:
    """ZeRO: stages 1 and 2 scatter gradients and gather weights, stage 3 gathers twice.

    Rajbhandari et al. 2020, section 7.2.
    """
    if stage not in (1, 2, 3):
        raise ValueError(f"stage is {stage}; something is dealt out in the stages 1, 2 and 3")
    return (3 if stage == 3 else 2) * ring(N, P, size)


def tensor(activations: int, P: int, layers: int, size: int = 4) -> int:
    """Four sums a block: after attention and network, forward and backward.

    Shoeybi et al. 2019, section 3.
    """
    return 4 * layers * 2 * ring(activations, P, size)


def pipeline(activations: int, P: int, stage: int, size: int = 4) -> int:
    """Activations on to the next stage, gradients back to the one before."""
    if not 0 <= stage < P:
        raise ValueError(f"of {P} stages there are 0 to {P - 1}; got {stage}")
    return ((stage < P - 1) + (stage > 0)) * activations * size


def context(activations: int, P: int, layers: int, shared: int = 1, size: int = 4) -> int:
    """Keys and values of a P-th of the text go P − 1 steps around the ring in each layer, their
    gradients go back; `shared` queries have one key and value. Liu et al. 2023, section 3."""
    return 2 * layers * 2 * ring(activations, P, size) // shared


def experts(out: int, back: int, C: int, P: int, size: int = 4) -> int:
    """`out` vectors of C numbers leave for experts elsewhere, `back` arrive from elsewhere: their
    answers, and the gradients of both, make it twice the two. With each goes its expert's number,
    and before them how many there are, 8 bytes each. Lepikhin et al. 2021, section 3.2."""
    return 2 * (out + back) * C * size + 8 * out + 8 * (P - 1)
