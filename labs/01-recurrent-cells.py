"""Lab 1: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import torch

from attnbook.labs.question import Case, Option, Question


def normal(numbers, *shape):
    return torch.randn(*shape, generator=numbers).mul(100).round().div(100)


def rnn_step(wrong, x, h, W, U, b):
    if "exchanged" in wrong and W.shape == U.shape:
        W, U = U, W
    if "transposed" in wrong:
        U = U.T
    z = x @ W.T
    if "no-state" not in wrong:
        z = z + h @ U.T
    if "no-bias" not in wrong:
        z = z + b
    if "sigmoid" in wrong:
        return z.sigmoid()
    return z if "no-tanh" in wrong else z.tanh()


def step_arguments(numbers, B, C, D, gates=1):
    weights = normal(numbers, gates * D, C), normal(numbers, gates * D, D).div(2)
    return normal(numbers, B, C), normal(numbers, B, D), *weights, normal(numbers, gates * D)


def rnn_step_cases(numbers):
    return [
        Case("a batch of three", step_arguments(numbers, 3, 4, 5), 2),
        Case("input as wide as the state", step_arguments(numbers, 3, 4, 4)),
    ]


def unroll(wrong, x, W, U, b):
    h, states = x.new_zeros(len(x), len(U)), []
    if "ones" in wrong:
        h = h + 1
    steps = reversed(range(x.shape[1])) if "backwards" in wrong else range(x.shape[1])
    for t in steps:
        new = rnn_step(set(), x[:, t], h, W, U, b)
        h = h if "not-carried" in wrong else new
        states.append(new)
    if "first-too" in wrong:
        states.insert(0, x.new_zeros(len(x), len(U)))
    if "last-only" in wrong:
        return states[-1]
    return torch.stack(states, 0 if "time-first" in wrong else 1)


def unroll_cases(numbers):
    def one(B, T, C, D):
        weights = normal(numbers, D, C), normal(numbers, D, D).div(2), normal(numbers, D)
        return normal(numbers, B, T, C), *weights

    return [Case("five steps", one(3, 5, 4, 6), 2), Case("one step", one(3, 1, 3, 4))]


def bptt(wrong, states, told, U):
    T = len(told)
    delta, grad = torch.zeros_like(told[0]), torch.zeros_like(U)
    for t in range(T, 0, -1):
        delta = told[t - 1] + (0 if "no-carry" in wrong else delta)
        if "last-only" in wrong and t < T:
            delta = delta - told[t - 1]
        inner = delta if "no-slope" in wrong else delta * (1 - states[t] ** 2)
        before = states[t] if "this-state" in wrong else states[t - 1]
        grad = grad + torch.outer(inner, before)
        delta = inner @ (U.T if "carry-transposed" in wrong else U)
    return grad.T if "transposed" in wrong else grad


def bptt_cases(numbers):
    def one(T, D):
        states = normal(numbers, T + 1, D).tanh().mul(1e4).round().div(1e4)
        return (
            states.index_fill(0, torch.tensor([0]), 0.0),
            normal(numbers, T, D),
            normal(numbers, D, D),
        )

    return [
        Case("four steps", one(4, 3), 2),
        Case("seven steps", one(7, 4)),
        Case("two steps", one(2, 5)),
    ]


def clip(wrong, grad, limit):
    size = grad.abs().max() if "largest" in wrong else grad.norm()
    if "each" in wrong:
        return grad.clamp(-limit, limit)
    if "rows" in wrong:
        size = grad.norm(dim=-1, keepdim=True)
    if "always" in wrong:
        return grad * limit / size
    if "to-one" in wrong:
        return torch.where(size > limit, grad / size, grad)
    return grad * (limit / size).clamp(max=1)


def clip_cases(numbers):
    large = 3 * normal(numbers, 4, 5)
    return [
        Case("a large gradient", (large, 2.5), 2),
        Case("a small one", (normal(numbers, 3, 4).div(10), 2.5)),
    ]


def lstm_step(wrong, x, h, c, W, U, b):
    i, f, g, o = (x @ W.T + h @ U.T + b).chunk(4, -1)
    if "order" in wrong:
        g, o = o, g
    if "exchanged" in wrong:
        i, f = f, i
    i, f, o = i.sigmoid(), f.sigmoid(), o.sigmoid()
    g = g.sigmoid() if "candidate-sigmoid" in wrong else g.tanh()
    if "coupled" in wrong:
        i = 1 - f
    c = i * g if "forgets-all" in wrong else f * c + i * g
    h = o * (c if "no-tanh" in wrong else c.tanh())
    return (c, h) if "returned-exchanged" in wrong else (h, c)


def lstm_step_cases(numbers):
    def one(B, C, D):
        x, h, W, U, b = step_arguments(numbers, B, C, D, gates=4)
        return x, h, normal(numbers, B, D), W, U, b

    return [Case("a batch of three", one(3, 4, 5), 2), Case("another size", one(2, 6, 4))]


def reach(wrong, U, T):
    if "entries" in wrong:
        return torch.stack([(U**t).norm(p=2) for t in range(1, T + 1)])
    powers = [torch.linalg.matrix_power(U, t) for t in range(1, T + 1)]
    if "bound" in wrong:
        return torch.stack([U.norm() ** t for t in range(1, T + 1)])
    if "radius" in wrong:
        return torch.stack([torch.linalg.eigvals(U).abs().max() ** t for t in range(1, T + 1)])
    if "from-zero" in wrong:
        powers = [torch.eye(len(U)), *powers[:-1]]
    return torch.stack([power.norm() for power in powers])


def reach_cases(numbers):
    tall = torch.tensor([[0.5, 4.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.3, 0.8]])
    tall = tall * (1 + normal(numbers, 3, 3).abs() / 10)
    return [
        Case("a matrix that grows first", (tall, 11), 2),
        Case("a random one", (normal(numbers, 4, 4).div(2), 14)),
    ]


QUESTIONS = {
    "rnn_step": Question(
        rnn_step,
        rnn_step_cases,
        {
            "exchanged": "W and U exchanged: W reads the input, U the last state",
            "transposed": "U is used the wrong way round: a row of it makes one unit",
            "no-state": "the last state is not used",
            "no-bias": "the bias is not added",
            "no-tanh": "the tanh is missing",
            "sigmoid": "a sigmoid in place of tanh",
        },
        banned=("rnn_tanh", "RNN", "RNNCell"),
    ),
    "unroll": Question(
        unroll,
        unroll_cases,
        {
            "not-carried": "the state is not carried on: every step starts from the first state",
            "ones": "the first state is ones; it should be zeros",
            "backwards": "the sequence is read from its end",
            "first-too": "the state before the first step is among the states",
            "last-only": "only the last state is returned; return all of them",
            "time-first": "steps and batch exchanged: the batch comes first",
        },
    ),
    "bptt": Question(
        bptt,
        bptt_cases,
        {
            "no-carry": "what later steps say is not carried back: each step is on its own",
            "last-only": "only the last step's loss counts; every step has one",
            "no-slope": "the slope of tanh, 1 − h², is missing",
            "this-state": "the state of this step is used where U met the one before",
            "carry-transposed": "what is carried back goes through Uᵀ; rows go through U",
            "transposed": "the gradient has rows and columns exchanged",
        },
        banned=("backward", "autograd"),
    ),
    "clip": Question(
        clip,
        clip_cases,
        {
            "each": "each number is clipped for itself, which turns the gradient; scale all alike",
            "rows": "each row is scaled for itself; there is one length for the whole gradient",
            "largest": "measured by the largest number instead of the length",
            "always": "small gradients are made larger; leave them alone",
            "to-one": "scaled to length 1 instead of the limit",
        },
        banned=("clip_grad_norm_", "clip_grad_norm"),
    ),
    "lstm_step": Question(
        lstm_step,
        lstm_step_cases,
        {
            "order": "candidate and output gate exchanged: input, forget, candidate, output",
            "exchanged": "input gate and forget gate exchanged",
            "candidate-sigmoid": "the candidate goes through a sigmoid; it should be tanh",
            "coupled": "the input gate is made of the forget gate; it has numbers of its own",
            "forgets-all": "the old cell state is lost",
            "no-tanh": "the new h is made of c; it should be made of tanh c",
            "returned-exchanged": "returned as c, h instead of h, c",
        },
        banned=("lstm_cell", "lstm", "LSTM", "LSTMCell"),
    ),
    "reach": Question(
        reach,
        reach_cases,
        {
            "bound": "powers of the norm, a bound only; the norm of the powers is asked for",
            "radius": "powers of the spectral radius: right in the long run only",
            "entries": "the entries are raised to the power; multiply the matrix by itself",
            "from-zero": "the first power is 0; it should be 1",
        },
    ),
}

CHOICES = {
    "blocks": {
        "candidate third": Option(),
        "candidate last": Option(
            text={
                "input gate, forget gate, candidate, output gate. Gates": "input gate, forget gate, output gate, candidate. Gates",
                "take, forget, candidate, reveal": "take, forget, reveal, candidate",
            },
            flips={
                "lstm_step": {
                    "order": "candidate and output gate exchanged: here the order is input, "
                    "forget, output, candidate"
                }
            },
        ),
    },
    "length": {
        "all squares": Option(),
        "largest": Option(
            text={
                "Length is the root of the sum of all squares.": "Length here is the largest absolute value in it, the *maximum norm*.",
                "grad.pow(2).sum().sqrt()": "grad.abs().max()",
            },
            flips={"clip": {"largest": "measured by all squares; here the largest number counts"}},
        ),
    },
    "bias": {
        "3": Option(),
        "4": Option(
            {
                "a bias of 3": "a bias of 4",
                "With bias 3 it is 0.953, and 0.953 to the power 50 is about 0.09: a tenth is left": "With bias 4 it is 0.982, and 0.982 to the power 50 is about 0.4: two fifths are left",
                "½ and about 0.95": "½ and about 0.98",
                "against about 0.09": "against about 0.4",
            }
        ),
        "5": Option(
            {
                "a bias of 3": "a bias of 5",
                "With bias 3 it is 0.953, and 0.953 to the power 50 is about 0.09: a tenth is left": "With bias 5 it is 0.993, and 0.993 to the power 50 is about 0.7: most of it is left",
                "½ and about 0.95": "½ and about 0.99",
                "against about 0.09": "against about 0.7",
            }
        ),
    },
}
