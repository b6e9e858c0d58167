"""Lab 1: what each question is compared with, and the mistakes it knows (see labs/README.md)."""

import torch

from attnlabs.draws import normal
from attnlabs.question import Case, Option, Question


def rnn_step(wrong, x, h, W, U, b):
    if "exchanged" in wrong and W.shape == U.shape:
        W, U = U, W
    if "transposed" in wrong:
        U = U.T
    if "input-transposed" in wrong:
        W = W.T
    read, kept = x @ W.T, h @ U.T
    read = read * 0 if "no-input" in wrong else read
    kept = kept * 0 if "no-state" in wrong else kept
    added = b * 0 if "no-bias" in wrong else b * 2 if "bias-twice" in wrong else b
    tanh = torch.sigmoid if "sigmoid" in wrong else torch.tanh
    tanh = torch.clone if "no-tanh" in wrong else tanh
    if "input-tanh" in wrong:
        return tanh(read) + kept + added
    if "state-tanh" in wrong:
        return read + tanh(kept) + added
    if "apart" in wrong:
        return tanh(read) + tanh(kept) + added
    return tanh(read + kept) + added if "bias-late" in wrong else tanh(read + kept + added)


def step_arguments(numbers, B, C, D, gates=1):
    weights = normal(numbers, gates * D, C), normal(numbers, gates * D, D).div(2)
    return normal(numbers, B, C), normal(numbers, B, D), *weights, normal(numbers, gates * D)


def rnn_step_cases(numbers):
    return [
        Case("a batch of three", step_arguments(numbers, 3, 4, 5), 2),
        Case("input as wide as the state", step_arguments(numbers, 3, 4, 4)),
    ]


def unroll(wrong, x, W, U, b):
    x = x.transpose(0, 1) if "along-batch" in wrong else x
    h, states = x.new_zeros(len(x), len(U)), []
    if "ones" in wrong:
        h = h + 1
    back = wrong & {"backwards", "backwards-placed"}
    steps = reversed(range(x.shape[1])) if back else range(x.shape[1])
    step = wrong & {"transposed", "no-bias", "no-tanh"}
    for t in steps:
        new = rnn_step(step, x[:, t], h, W, U, b)
        states.append(h if "before" in wrong else new)
        h = h if "not-carried" in wrong else new
    if "backwards-placed" in wrong:
        states.reverse()
    if "runs-on" in wrong:
        h, states = x.new_zeros(1, len(U)), []
        for step_of_one in x.flatten(0, 1):
            h = rnn_step(step, step_of_one[None], h, W, U, b)
            states.append(h[0])
        return torch.stack(states).unflatten(0, x.shape[:2])
    if "one-place" in wrong:
        states = [h] * len(states)
    if "first-too" in wrong:
        states.insert(0, x.new_zeros(len(x), len(U)))
    if "last-only" in wrong:
        return states[-1]
    if "cut" in wrong:
        return torch.stack(states).reshape(len(x), len(states), -1)
    return torch.stack(states, 0 if {"time-first", "along-batch"} & wrong else 1)


def unroll_cases(numbers):
    def one(B, T, C, D):
        weights = normal(numbers, D, C), normal(numbers, D, D).div(2), normal(numbers, D)
        return normal(numbers, B, T, C), *weights

    return [Case("five steps", one(3, 5, 4, 6), 2), Case("one step", one(3, 1, 3, 4))]


def bptt(wrong, states, told, U):
    T = len(told)
    back, grad = torch.zeros_like(told[0]), torch.zeros_like(U)
    steps = range(T - ("end-left-out" in wrong), "start-left-out" in wrong, -1)
    for t in reversed(steps) if "forwards" in wrong else steps:
        own = told[t % T if "told-late" in wrong else t - 1] * (
            0 if "last-only" in wrong and t < T else 1
        )
        back = back * 0 if "no-carry" in wrong else back
        now = t - 1 if "shifted" in wrong else t
        value = states[now - 1] if "slope-before" in wrong else states[now]
        value = value.tanh() if "tanh-again" in wrong else value
        slope = 1 - (value if "no-square" in wrong else value**2)
        slope = value * (1 - value) if "sigmoid-slope" in wrong else slope
        slope = torch.ones_like(slope) if "no-slope" in wrong else slope
        inner = (own + back) * slope
        if "own-slope" in wrong:
            inner = own * slope + back
        if "back-slope" in wrong:
            inner = own + back * slope
        before = states[now] if "this-state" in wrong else states[now - 1]
        outer = torch.mul if "by-numbers" in wrong else torch.outer
        part = outer(own + back if "outer-early" in wrong else inner, before)
        grad = part if "overwritten" in wrong else grad + part
        back = own + back if "back-early" in wrong else inner
        if "no-weights" not in wrong:
            back = back @ (U.T if "carry-transposed" in wrong else U)
    grad = grad / T if "averaged" in wrong else grad
    return grad.T if "transposed" in wrong else grad


def bptt_cases(numbers):
    def one(T, D, started=False):
        states = normal(numbers, T + 1, D).tanh().mul(1e4).round().div(1e4)
        return (
            states if started else states.index_fill(0, torch.tensor([0]), 0.0),
            normal(numbers, T, D),
            normal(numbers, D, D),
        )

    return [
        Case("four steps", one(4, 3), 2),
        Case("seven steps", one(7, 4, started=True)),
        Case("two steps", one(2, 5)),
    ]


def clip(wrong, grad, limit):
    def length(of, **along):
        if "no-root" in wrong:
            return of.pow(2).sum(**along)
        if "absolute" in wrong:
            return of.abs().sum(**along)
        if "mean" in wrong:
            return of.pow(2).mean(**along).sqrt()
        return of.abs().amax(**along) if "largest" in wrong else of.pow(2).sum(**along).sqrt()

    if "each" in wrong:
        return grad.clamp(-limit, limit)
    size = length(grad, dim=-1, keepdim=True) if "rows" in wrong else length(grad)
    factor = size / limit if "upside-down" in wrong else limit / size
    factor = 1 / size if "to-one" in wrong else factor
    decides = grad.abs().max() if "by-entries" in wrong else size
    decides = decides**2 if "square-decides" in wrong else decides
    long = decides < limit if "reversed" in wrong else decides > limit
    long = decides == decides if "always" in wrong else long
    clipped = grad if "never" in wrong else torch.where(long, grad * factor, grad)
    return clipped / (size / size) if "zero-nan" in wrong else clipped


def clip_cases(numbers):
    large, close = 4 * normal(numbers, 4, 5), normal(numbers, 2, 6)
    return [
        Case("a large gradient", (large, 1.5), 2),
        Case("a small one", (normal(numbers, 3, 4).div(10), 2.5)),
        Case("one a little shorter than the limit", (2.2 * close / close.norm(), 2.5)),
        Case("a long one of small numbers", (normal(numbers, 5, 3).tanh(), 1.2)),
        Case("a gradient of zeros", (torch.zeros(3, 4), 0.5), robust=True),
    ]


def lstm_step(wrong, x, h, c, W, U, b):
    state = 0 if "no-state" in wrong else (c if "reads-c" in wrong else h) @ U.T
    z = x @ W.T + state + (0 if "no-bias" in wrong else b)
    blocks = z.unflatten(-1, (-1, 4)).unbind(-1) if "interleaved" in wrong else z.chunk(4, -1)
    i, f, g, o = blocks
    if "order" in wrong:
        g, o = o, g
    if "exchanged" in wrong:
        i, f = f, i
    gate = torch.tanh if "gates-tanh" in wrong else torch.sigmoid
    gate = torch.clone if "gates-raw" in wrong else gate
    i, f = i if "input-raw" in wrong else gate(i), f if "forget-raw" in wrong else gate(f)
    o = o if "output-raw" in wrong else gate(o)
    if "candidate-raw" not in wrong:
        g = g.sigmoid() if "candidate-sigmoid" in wrong else g.tanh()
    if "coupled" in wrong:
        i = 1 - f
    i = 1 if "no-input-gate" in wrong else i
    f = 1 if "no-forget-gate" in wrong else f
    o = 1 if "no-output-gate" in wrong else o
    new = i * g if "forgets-all" in wrong else f * (h if "forgets-h" in wrong else c) + i * g
    shown = c if "old-c" in wrong else new
    h = o * (shown if "no-tanh" in wrong else shown.tanh())
    new = new.tanh() if "c-tanh" in wrong else c if "old-returned" in wrong else new
    return (new, h) if "returned-exchanged" in wrong else (h, new)


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
    if "one-late" in wrong:
        powers = [power @ U for power in powers]
    if "doubling" in wrong:
        powers = [torch.linalg.matrix_power(U, 2**t) for t in range(T)]
    if "spectral" in wrong:
        return torch.stack([torch.linalg.matrix_norm(power, 2) for power in powers])
    if "one-too-few" in wrong:
        powers = powers[:-1]
    along = 1 if "row-lengths" in wrong else 0 if "column-lengths" in wrong else None
    if "added" in wrong:
        return torch.stack([power.sum() for power in powers])
    lengths = torch.stack([power.norm(dim=along) for power in powers])
    return lengths**2 if "no-root" in wrong else lengths


def reach_cases(numbers):
    tall = torch.tensor([[0.5, 4.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.3, 0.8]])
    tall = tall * (1 + normal(numbers, 3, 3).abs() / 10)
    return [
        Case("a matrix that grows first", (tall, 9), 2),
        Case("a random one", (normal(numbers, 4, 4).div(3), 9)),
    ]


LENGTHS = "rows or columns are measured one by one; each power has one length, of all its entries"

QUESTIONS = {
    "rnn_step": Question(
        rnn_step,
        rnn_step_cases,
        {
            "exchanged": "W and U exchanged: W reads the input, U the last state",
            "transposed": "U is used the wrong way round: a row of it makes one unit",
            "input-transposed": "W is used the wrong way round: apply it as x @ W.T",
            "no-state": "the last state is not used",
            "no-input": "the input is not used",
            "no-bias": "the bias is not added",
            "no-tanh": "the tanh is missing",
            "sigmoid": "a sigmoid in place of tanh",
            "input-tanh": "the tanh is taken of the input's part only; take it of the whole sum",
            "state-tanh": "the tanh is taken of the state's part only; take it of the whole sum",
            "apart": "each part has a tanh of its own; take one of the whole sum",
            "bias-late": "the bias is added after the tanh; it belongs inside",
            "bias-twice": "the bias is added twice",
        },
        banned=("rnn_tanh", "RNN", "RNNCell"),
        trained=("h", "W", "U", "b"),
    ),
    "unroll": Question(
        unroll,
        unroll_cases,
        {
            "not-carried": "the state is not carried on: every step starts from the first state",
            "ones": "the first state is ones; it should be zeros",
            "backwards": "the sequence is read from its end",
            "backwards-placed": "the sequence is read from its end",
            "runs-on": "a sequence of the batch starts from the last state of the one before it; each "
            "starts from zeros",
            "first-too": "the state before the first step is among the states",
            "last-only": "only the last state is returned; return all of them",
            "time-first": "steps and batch exchanged: the batch comes first",
            "before": "the states before each step are kept; those after it are asked for",
            "one-place": "the last state stands at every step: a state is written over",
            "along-batch": "it goes along the batch; the steps are the second axis of x",
            "cut": "the states are stacked, then cut anew by a reshape, which exchanges no axes",
            "transposed": "within the step, U is used the wrong way round",
            "no-bias": "within the step, the bias is not added",
            "no-tanh": "within the step, the tanh is missing",
        },
        trained=("W", "U", "b"),
    ),
    "bptt": Question(
        bptt,
        bptt_cases,
        {
            "no-carry": "what later steps say is not carried back: each step is on its own",
            "last-only": "only the last step's loss counts; every step has one",
            "no-slope": "the slope of tanh, 1 − h², is missing",
            "this-state": "the state of this step is used where U met the one before",
            "carry-transposed": "U is applied on the way back as on the way forwards; the way back "
            "goes through it in the other direction",
            "transposed": "the gradient has rows and columns exchanged",
            "slope-before": "the slope of tanh is taken at the state before, not at this step's",
            "tanh-again": "the states are values of tanh already: take no tanh of them for the slope",
            "no-square": "1 − h in place of 1 − h²",
            "sigmoid-slope": "the slope is that of a sigmoid, h (1 − h); the cell has a tanh",
            "by-numbers": "δ and the state are multiplied number by number; this is no outer product",
            "own-slope": "what comes back goes round the tanh; the slope is for the whole of δ",
            "back-slope": "this step's loss goes round the tanh; the slope is for the whole of δ",
            "outer-early": "the outer product takes δ as it is before the slope",
            "back-early": "what goes back to the step before lacks this step's slope",
            "no-weights": "what goes back does not pass through U",
            "overwritten": "only one step's outer product is left at the end; add them up",
            "forwards": "the steps are gone through from the first to the last; begin at the last",
            "shifted": "told and states do not fit together: told[t - 1] belongs to states[t]",
            "start-left-out": "the first step is left out; U met h₀ there",
            "end-left-out": "the last step is left out",
            "averaged": "divided by the number of steps; the loss is their sum, not their mean",
            "told-late": "at each step the loss of the step after it is read: that of step t is `told[t - 1]`",
        },
        banned=("backward", "autograd", "vjp", "jvp", "grad", "jacrev", "jacfwd"),
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
            "no-root": "measured by the sum of all squares, without its root",
            "absolute": "measured by the sum of all absolute values",
            "mean": "measured by the root of the mean of the squares",
            "reversed": "the short gradients are scaled and the long ones are not",
            "upside-down": "the factor is upside down: length / limit",
            "by-entries": "single numbers decide whether it is clipped; its length should",
            "square-decides": "the square of the length is compared with the limit",
            "never": "nothing is ever clipped",
            "zero-nan": "a gradient of zeros becomes NaN: its length 0 is divided by",
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
            "forgets-h": "the forget gate multiplies the old h; it multiplies the old c",
            "no-tanh": "the new h is made of c; it should be made of tanh c",
            "returned-exchanged": "returned as c, h instead of h, c",
            "no-bias": "the bias is not added",
            "no-state": "the last h is not used",
            "reads-c": "U reads the old c; it should read h",
            "interleaved": "every fourth number makes a block; a block is D numbers in a row",
            "gates-raw": "the gates lack their sigmoid",
            "output-raw": "the output gate lacks its sigmoid",
            "gates-tanh": "the gates go through tanh; it should be a sigmoid",
            "candidate-raw": "the candidate lacks its tanh",
            "no-input-gate": "the input gate is not used",
            "no-forget-gate": "the forget gate is not used",
            "no-output-gate": "the output gate is not used",
            "old-c": "the new h is made of the old c; it should be made of the new one",
            "c-tanh": "the new c is returned after tanh; only h is made of tanh c",
            "old-returned": "the old c is returned in place of the new one",
            "forget-raw": "the forget gate does not go through a sigmoid",
            "input-raw": "the input gate does not go through a sigmoid",
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
            "one-late": "the first power is 2; it should be 1",
            "doubling": "each power is squared, which gives 1, 2, 4, 8 …; multiply by U once a step",
            "spectral": "measured by the largest singular value; the root of the sum of all squares "
            "is asked for",
            "no-root": "the root is missing: these are squares of the lengths",
            "one-too-few": "the last power, T, is missing: `range` ends before its end",
            "row-lengths": LENGTHS,
            "column-lengths": LENGTHS,
            "added": "the entries are added up; the root of the sum of their squares is asked for",
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
