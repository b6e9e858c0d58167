"""What the exercises inside the chapters are compared with: `check` in their solutions.

The same form as a lab's file (see labs/README.md), but without points: nobody hands these in.
"""

import math

import torch

from attnlabs.draws import look, normal, small, whole
from attnlabs.question import Case, Question

# Chapter 1


def elman_jacobian(wrong, U, x):
    h, factors = torch.zeros(len(U)), []
    for x_t in x:
        before, h = h, torch.tanh(x_t + U @ h)
        slope = torch.diag(1 - (before if "old-slope" in wrong else h) ** 2)
        if "no-slope" in wrong:
            slope = torch.eye(len(U))
        factors.append(U @ slope if "slope-right" in wrong else slope @ U)
    if "order" not in wrong:
        factors.reverse()  # the last step stands on the left
    product = torch.linalg.multi_dot(factors)
    return product.T if "transposed" in wrong else product


def elman_cases(numbers):
    return [
        Case("three steps", (normal(numbers, 3, 3), normal(numbers, 3, 3))),
        Case("five steps", (small(numbers, 4, 4), normal(numbers, 5, 4))),
    ]


def ppmi(wrong, together):
    total, rows, columns = together.sum(), together.sum(1), together.sum(0)
    chance = rows[:, None] * columns / total
    if "no-chance" in wrong:
        chance = torch.ones_like(together)
    if "no-total" in wrong:
        chance = chance * total
    ratio = together / chance
    found = ratio.log2() if "bits" in wrong else ratio.log()
    return found if "negative" in wrong else found.clamp(min=0)


def ppmi_cases(numbers):
    def counts(V):
        half = whole(numbers, 0, 9, V, V)
        return (half + half.T + torch.eye(V, dtype=torch.int64)).float()

    return [
        Case("five words", (counts(5),)),
        Case("a pair that never meets", (counts(6) * (1 - torch.eye(6).flip(0)),)),
    ]


# Chapter 2


def additive_look(wrong, s, h, mask, W, U, v):
    hidden = (s @ W.T)[:, None] + h @ U.T
    scores = (hidden if "no-tanh" in wrong else hidden.tanh()) @ v
    mask = ~mask if "polarity" in wrong else mask
    seen = mask | torch.tensor(bool(wrong & {"mask-ignored", "masked-late"}))
    powers = scores.exp() * seen
    total = powers.sum(0 if "axis" in wrong else -1, keepdim=True)
    weights = powers if "not-normalised" in wrong else powers / total
    if "masked-late" in wrong:
        weights = weights * mask
    return (weights[..., None] * h).sum(1), weights


def additive_cases(numbers):
    def one(B, Tk, D, C, A):
        s, h, mask = normal(numbers, B, D), normal(numbers, B, Tk, C), look(numbers, B, Tk)
        return s, h, mask, normal(numbers, A, D), normal(numbers, A, C), normal(numbers, A)

    return [
        Case("two sequences", one(2, 5, 3, 4, 6)),
        Case("three sequences", one(3, 4, 5, 2, 7)),
    ]


def uniform_context(wrong, h, mask):
    there = (mask | ("mask-ignored" in wrong))[..., None]
    count = torch.full_like(there.sum(1), h.shape[1]) if "all-places" in wrong else there.sum(1)
    summed = (h * there).sum(1)
    return summed if "sum" in wrong else summed / count


def uniform_cases(numbers):
    return [
        Case("three sequences", (normal(numbers, 3, 5, 4), look(numbers, 3, 5))),
        Case("two sequences", (normal(numbers, 2, 6, 5), look(numbers, 2, 6))),
    ]


# Chapter 3


def plain_look(wrong, q, keys, values):
    size = len(keys) if "scale-count" in wrong else len(q)
    scores = keys @ q / (1 if "unscaled" in wrong else size**0.5)
    weights = scores.softmax(0)
    if "best-only" in wrong:
        weights = (scores == scores.max()).float()
    if "not-normalised" in wrong:
        weights = (scores - scores.max()).exp()
    return weights @ (keys if "keys" in wrong else values)


def plain_cases(numbers):
    def one(Tk, size=1):
        q = normal(numbers, 10) * size
        return q, normal(numbers, Tk, 10), normal(numbers, Tk, 10)

    return [
        Case("three keys", one(3)),
        Case("seven keys", one(7)),
        Case("scores of a thousand", one(4, size=1000), robust=True),
    ]


# Chapter 4


def binary_code(wrong, place, digits):
    place = place + ("from-one" in wrong)
    bits = torch.stack([place // 2**n % 2 for n in range(digits)], -1)
    if "highest-first" in wrong:
        bits = bits.flip(-1)
    code = bits if "zeros" in wrong else 2 * bits - 1
    return -code if "turned" in wrong else code


def binary_cases(numbers):
    return [
        Case("the first places", (torch.arange(6), 4)),
        Case("places anywhere", (whole(numbers, 0, 32, 7), 5)),
    ]


def alibi_by_key(wrong, scores, slopes):
    slopes = slopes[:1].expand_as(slopes) if "one-slope" in wrong else slopes
    places = torch.arange(scores.shape[-1]) * (-1 if "sign" in wrong else 1)
    places = places[:, None] if "by-query" in wrong else places
    raised = scores + slopes[:, None, None] * places
    if "no-mask" not in wrong:
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        raised = raised.masked_fill(hidden, -math.inf)
    return raised.softmax(-2 if "axis" in wrong else -1)


def alibi_cases(numbers):
    slopes = [whole(numbers, 1, 9, H) / 8 + torch.arange(H) for H in (2, 3)]
    return [
        Case("two heads", (normal(numbers, 2, 5, 5), slopes[0])),
        Case("three heads", (normal(numbers, 3, 4, 4), slopes[1])),
    ]


def left_places(wrong, padding, T):
    t = torch.arange(T).expand(len(padding), T)
    if "from-edge" in wrong:
        return t
    if "right" in wrong:
        return torch.where(t < T - padding[:, None], t, 0)
    places = t - padding[:, None] + ("from-one" in wrong)
    return places if "negative" in wrong else places.clamp(min=0)


def left_cases(numbers):
    return [
        Case("two texts", (torch.tensor([3, 1]), 6)),
        Case("one without padding", (torch.tensor([0, 4, 2]), 7)),
    ]


def window_cells(wrong, T, w):
    triangle = w * (w - 1) // 2 if "no-diagonal" in wrong else w * (w + 1) // 2
    if "no-start" in wrong:
        return T * w
    return triangle + (T if "twice" in wrong else T - w) * w


def window_cases(numbers):
    return [
        Case("a window of 3", (whole(numbers, 5, 40, 12), 3)),
        Case("a window of 5", (whole(numbers, 9, 90, 10), 5)),
    ]


# Chapter 5


def head_sum(wrong, x, qkv_weight, out_weight, H):
    C = x.shape[-1]
    q, k, v = (x @ qkv_weight.T).chunk(3, -1)
    q, k = (k, q) if "order" in wrong else (q, k)
    out_weight = out_weight.T if "transposed" in wrong else out_weight
    size, total = C if "scale-width" in wrong else C // H, 0
    for h in range(H):
        own = slice(h, None, H) if "interleaved" in wrong else slice(h * C // H, (h + 1) * C // H)
        scores = q[..., own] @ k[..., own].mT
        scores = scores if "unscaled" in wrong else scores / math.sqrt(size)
        weights = scores.softmax(-2 if "axis" in wrong else -1)
        total = total + weights @ v[..., own] @ out_weight[:, own].T
    return total / H if "averaged" in wrong else total


def head_sum_cases(numbers):
    def one(B, T, C):
        return normal(numbers, B, T, C), small(numbers, 3 * C, C), small(numbers, C, C)

    return [
        Case("two heads", (*one(1, 4, 6), 2)),
        Case("three heads", (*one(2, 3, 12), 3)),
    ]


def circuits(wrong, qkv_weight, out_weight, H):
    C = out_weight.shape[0]
    W_q, W_k, W_v = qkv_weight.view(3, H, C // H, C)
    W_q, W_k = (W_k, W_q) if "order" in wrong else (W_q, W_k)
    out_weight = out_weight.T if "transposed" in wrong else out_weight
    W_o = out_weight.view(C, H, C // H).permute(1, 2, 0)
    qk, ov = W_q.mT @ W_k, W_v.mT @ W_o
    if "scaled" in wrong:
        qk = qk / math.sqrt(C // H)
    ov = ov.mT if "backwards" in wrong else ov
    return (ov, qk) if "exchanged" in wrong else (qk, ov)


def circuits_cases(numbers):
    def one(C):
        return normal(numbers, 3 * C, C), normal(numbers, C, C)

    return [Case("two heads", (*one(6), 2)), Case("three heads", (*one(12), 3))]


def grouped_heads(wrong, q, k, v):
    share = q.shape[1] // k.shape[1]
    widen = "repeat" if "interleaved" in wrong else "repeat_interleave"
    k, v = (
        part.repeat(1, share, 1, 1) if widen == "repeat" else part.repeat_interleave(share, 1)
        for part in (k, v)
    )
    scores = q @ k.mT if "unscaled" in wrong else q @ k.mT / math.sqrt(q.shape[-1])
    return scores.softmax(-2 if "axis" in wrong else -1) @ v


def grouped_cases(numbers):
    def one(B, H, G, T, D):
        return normal(numbers, B, H, T, D), normal(numbers, B, G, T, D), normal(numbers, B, G, T, D)

    return [
        Case("four heads, two keys", one(1, 4, 2, 3, 4)),
        Case("six heads, three keys", one(2, 6, 3, 4, 5)),
    ]


# Chapter 6


def memory_terms(wrong, z, up, down):
    found = z @ up.T
    if "softmax" in wrong:
        found = found.softmax(-1)
    elif "no-relu" not in wrong:
        found = found.clamp(min=0)
    terms = found[..., None] * (up if "keys-added" in wrong else down.T)
    return terms.sum(-2) if "summed" in wrong else terms


def memory_cases(numbers):
    def one(C, F, *batch):
        return normal(numbers, *batch, C), normal(numbers, F, C), normal(numbers, C, F)

    return [
        Case("five hidden numbers", one(3, 5, 4)),
        Case("a batch", one(4, 6, 2, 3)),
    ]


def block_work(wrong, T, C):
    attention = 8 * T * C**2
    network = 0 if "no-network" in wrong else (8 if "network-once" in wrong else 16) * T * C**2
    quadratic = (2 if "one-product" in wrong else 4) * T**2 * C
    counted = attention + network, quadratic
    if "pairs" in wrong:
        counted = tuple(part // 2 for part in counted)
    return counted[::-1] if "exchanged" in wrong else counted


def work_cases(numbers):
    return [
        Case("width 4", (whole(numbers, 3, 40, 8), 4)),
        Case("width 7", (whole(numbers, 20, 90, 6), 7)),
    ]


def joint_mask(wrong, S, T):
    places = torch.arange(S + T)
    source = places < S
    past = places < places[:, None] if "not-itself" in wrong else places <= places[:, None]
    past = torch.ones_like(past) if "future" in wrong else past
    mask = (past & ~source) | source  # the source for all, the target for what comes later
    mask = past if "source-causal" in wrong else mask
    ahead = source[:, None] & ~source  # a source token that looks at the target
    mask = mask | ahead if "source-asks" in wrong else mask & ~ahead
    if "no-cross" in wrong:
        mask = mask & ~(~source[:, None] & source)
    mask = mask.T if "exchanged" in wrong else mask
    mask = ~mask if "polarity" in wrong else mask
    return mask.float() if "numbers" in wrong else mask


def joint_cases(numbers):
    return [
        Case("a source of four, a target of five", (4, 5)),
        Case("a source of six, a target of three", (6, 3)),
        Case("no source", (0, 6), robust=True),
        Case("no target", (5, 0), robust=True),
    ]


# Chapter 7


def band_mask(wrong, T, before):
    step = torch.arange(T)[:, None] - torch.arange(T)  # how far the key lies behind the query
    step = -step if "ahead" in wrong else step
    before = before + ("one-more" in wrong) - ("one-less" in wrong)
    near = step >= -before if "both-sides" in wrong else step >= 0
    near = torch.ones_like(near) if "later" in wrong else near
    mask = near if "no-end" in wrong else near & (step <= before)
    mask = ~mask if "polarity" in wrong else mask
    return mask.float() if "numbers" in wrong else mask


def band_cases(numbers):
    return [
        Case("two before", (6, 2)),
        Case("three before", (9, 3)),
        Case("more before than there are", (4, 6), robust=True),
    ]


def tempered_losses(wrong, logits, targets, temperatures):
    losses = []
    for tau in temperatures:
        scaled = logits * tau if "multiplied" in wrong else logits / tau
        logp = logits.log_softmax(-1) / tau if "late" in wrong else scaled.log_softmax(-1)
        loss = -logp.gather(-1, targets[..., None])
        losses.append(loss.sum() if "sum" in wrong else loss.mean())
    return torch.stack(losses) / (math.log(2) if "bits" in wrong else 1)


def tempered_cases(numbers):
    taus = torch.linspace(0.5, 1.5, 11)
    return [
        Case("one text", (normal(numbers, 1, 5, 4), whole(numbers, 0, 4, 1, 5), taus)),
        Case("three texts", (normal(numbers, 3, 4, 6), whole(numbers, 0, 6, 3, 4), taus[1:])),
    ]


def nucleus(wrong, p, share):
    ordered, index = p.sort(-1, descending=True)
    if "unsorted" in wrong:
        ordered, index = p, torch.arange(p.shape[-1]).expand_as(p)
    reached = ordered.cumsum(-1)
    before = reached if "short" in wrong else reached - ordered
    stays = before < share
    if "one-more" in wrong:
        stays = torch.cat([stays[..., :1], stays[..., :-1]], -1)
    kept = stays if "ranks" in wrong else torch.zeros_like(stays).scatter(-1, index, stays)
    cut = p * kept
    return cut if "unscaled" in wrong else cut / cut.sum(-1, keepdim=True)


def nucleus_cases(numbers):
    def rows(*p, count):
        orders = [torch.randperm(len(p), generator=numbers) for _ in range(count)]
        return torch.tensor(p)[torch.stack(orders)]

    eight = (0.30, 0.22, 0.16, 0.12, 0.09, 0.06, 0.04, 0.01)
    seven = (0.55, 0.20, 0.11, 0.06, 0.04, 0.03, 0.01)
    return [
        Case("three rows of eight tokens", (rows(*eight, count=3), 0.755)),
        Case("four rows of seven tokens", (rows(*seven, count=4), 0.905)),
    ]


def cached_look(wrong, q, k, v, keys, values):
    if "alone" in wrong:
        joined, held = keys, values
    elif "in-front" in wrong:
        joined, held = torch.cat([k, keys]), torch.cat([v, values])
    else:
        joined, held = torch.cat([keys, k]), torch.cat([values, v])
    scores = q @ joined.mT / (1 if "unscaled" in wrong else q.shape[-1] ** 0.5)
    if "future" not in wrong and "alone" not in wrong:
        past = 0 if "from-zero" in wrong else len(keys)
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1 + past)
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ held


def cached_cases(numbers):
    def five(new, past, D):
        return tuple(normal(numbers, rows, D) for rows in (new, new, new, past, past))

    return [
        Case("three new positions after four", five(3, 4, 6)),
        Case("four new positions after two", five(4, 2, 5)),
    ]


def answer_weights(wrong, tokens):
    weights, turn, speaks = torch.zeros(len(tokens)), 0, False
    turns = torch.zeros(len(tokens), dtype=torch.int64)
    for i, token in enumerate(tokens.tolist()):
        if token == 3:
            turns[i] = turn if "user-too" in wrong else 0
            turn, speaks = turn + 1, True
            turns[i] = turn if "mark" in wrong else turns[i]
            continue
        if token == 2 and "user-too" not in wrong:
            speaks = False
        if speaks and not (token == 1 and "no-end" in wrong):
            turns[i] = turn
        if token == 1 and "user-too" not in wrong:
            speaks = False
    for one in range(1, turn + 1):
        weights[turns == one] = 1 / (turns == one).sum()
    if "alike" in wrong:
        weights = (turns > 0) * (turn / (turns > 0).sum())
    return weights


def answer_cases(numbers):
    def dialogue(*lengths):
        parts = []
        for asked, answered in lengths:
            words = [whole(numbers, 4, 50, n) for n in (asked, answered)]
            for mark, said in zip((2, 3), words, strict=True):
                parts += [torch.tensor([mark]), said, torch.tensor([1])]
        return torch.cat(parts)

    return [
        Case("two turns", (dialogue((4, 3), (5, 7)),)),
        Case("three turns", (dialogue((2, 6), (4, 1), (3, 4)),)),
    ]


# Chapter 8


def pixel_first(wrong, images, size):
    B, channels, R, K = images.shape
    if "strips" in wrong:
        return images.permute(0, 2, 3, 1).reshape(B, -1, size * size * channels)
    rows, columns = range(0, R, size), range(0, K, size)
    corners = [(r, k) for r in rows for k in columns]
    if "down" in wrong:
        corners = [(r, k) for k in columns for r in rows]
    squares = torch.stack([images[..., r : r + size, k : k + size] for r, k in corners], 1)
    squares = squares.mT if "pixels-down" in wrong else squares
    return (squares if "channels" in wrong else squares.movedim(2, -1)).flatten(2)


def pixel_cases(numbers):
    return [
        Case("two rows of three patches", (normal(numbers, 1, 3, 4, 6), 2)),
        Case("two pictures", (normal(numbers, 2, 2, 6, 3), 3)),
    ]


def shuffled_columns(wrong, weight, order):
    order = order.argsort() if "inverse" in wrong else order
    pixels, channels = len(order), weight.shape[1] // len(order)
    if "pixel-first" in wrong:
        return weight.unflatten(1, (pixels, channels))[:, order].flatten(1)
    last = 1 if "one-channel" in wrong else channels
    moved = [weight[:, c * pixels : (c + 1) * pixels][:, order] for c in range(last)]
    return torch.cat([*moved, weight[:, last * pixels :]], 1)


def shuffled_cases(numbers):
    turns = torch.tensor([2, 0, 3, 1]), torch.tensor([4, 7, 0, 2, 8, 1, 5, 3, 6])
    return [
        Case("three channels", (normal(numbers, 2, 12), turns[0])),
        Case("patches of 3 × 3", (normal(numbers, 3, 18), turns[1])),
    ]


def decoder_input(wrong, read, kept, gap, places):
    at = torch.arange(kept.shape[1]).expand_as(kept) if "in-order" in wrong else kept
    x = (0 * gap if "zeros" in wrong else gap).expand(len(read), *places.shape)
    there = torch.zeros(len(read), len(places), 1).scatter(1, at[..., None], 1.0)
    x = x.scatter(1, at[..., None].expand_as(read), read)
    placed = (0 if "read-alike" in wrong else there) + (0 if "gaps-alike" in wrong else 1 - there)
    return x + placed * places


def decoder_cases(numbers):
    def case(name, B, n, P, C):
        kept = torch.rand(B, P, generator=numbers).argsort(-1)[:, :n]
        parts = normal(numbers, B, n, C), kept, normal(numbers, C), normal(numbers, P, C)
        return Case(name, parts)

    return [case("two pictures, 2 patches of 6", 2, 2, 6, 4), case("4 of 9", 1, 4, 9, 6)]


def student_gradient(wrong, student, teacher, centre, tau_s, tau_t):
    tau_t = tau_s if "one-temperature" in wrong else tau_t
    teacher = teacher if "not-centred" in wrong else teacher - centre
    student = student - centre if "both-centred" in wrong else student
    found = (student / tau_s).softmax(-1) - (teacher / tau_t).softmax(-1)
    found = found if "no-factor" in wrong else found / tau_s
    found = found / len(student) if "mean" in wrong else found
    return -found if "sign" in wrong else found


def student_cases(numbers):
    def parts(B, K):
        return normal(numbers, B, K), normal(numbers, B, K), normal(numbers, K)

    return [
        Case("three pictures", (*parts(3, 8), 0.5, 0.25)),
        Case("two pictures, a colder teacher", (*parts(2, 12), 0.8, 0.2)),
    ]


# Chapter 9


def centred_norm(wrong, x, eps):
    over = -2 if "positions" in wrong else -1
    mean = x.mean(over, keepdim=True)
    centred = x if "not-centred" in wrong else x - mean
    measured = x if "size-before" in wrong else centred
    spread = measured.square().mean(over, keepdim=True)
    if "sample" in wrong:
        spread = spread * x.shape[over] / (x.shape[over] - 1)
    root = spread.sqrt() + eps if "eps-outside" in wrong else (spread + eps).sqrt()
    return centred / root


def centred_cases(numbers):
    return [
        Case("four vectors", (normal(numbers, 4, 6) + 1, 0.1)),
        Case("a batch", (2 * normal(numbers, 2, 3, 5) - 1, 0.3)),
    ]


def full_turns(wrong, D, T, base):
    pair = torch.arange(D // 2)
    speed = base ** (-(1 if "half-speed" in wrong else 2) * pair / D)
    speed = 1 / speed if "wavelength" in wrong else speed
    return T * speed / (1 if "radians" in wrong else math.pi if "half-turns" in wrong else math.tau)


def turn_cases(numbers):
    return [
        Case("base 100", (20, 40, 100.0)),
        Case("base 1000", (24, 90, 1000.0)),
    ]


# Chapter 10


def merge_parts(wrong, m1, z1, u1, m2, z2, u2):
    m = m1 if "first-maximum" in wrong else torch.maximum(m1, m2)
    sign = -1 if "upside-down" in wrong else 1
    a, b = ((sign * (own - m)).exp() for own in (m1, m2))
    z = z1 + z2 if wrong & {"z-as-it-is", "as-they-are"} else a * z1 + b * z2
    u = u1 + u2 if wrong & {"u-as-it-is", "as-they-are"} else a * u1 + b * u2
    return m, z, u / z if "divided" in wrong else u


def merge_cases(numbers):
    def part(Tq, Dv):
        z = whole(numbers, 10, 40, Tq, 1) / 10
        return normal(numbers, Tq, 1), z, normal(numbers, Tq, Dv)

    far = part(3, 4), part(3, 4)
    return [
        Case("three queries", (*part(3, 5), *part(3, 5))),
        Case("one query", (*part(1, 8), *part(1, 8))),
        Case("a part with large scores", (*far[0], far[1][0] + 900, *far[1][1:]), robust=True),
    ]


def forgetting(wrong, q, k, v, gamma):
    k, v = (v, k) if "exchanged" in wrong else (k, v)
    t = torch.arange(len(q))
    apart = t[:, None] - t
    kept = gamma ** ((apart.abs() + ("new-too" in wrong)) * ("no-decay" not in wrong)).float()
    weights = q @ k.T * (kept if "future" in wrong else kept * (apart >= 0))
    if "divided" in wrong:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights @ v


def forgetting_cases(numbers):
    return [
        Case("five steps", (*normal(numbers, 3, 5, 3), 0.5)),
        Case("seven steps", (*normal(numbers, 3, 7, 4), 0.8)),
    ]


# Chapter 11


def knows_of(wrong, mask, layers):
    layers = layers + ("one-more" in wrong) - ("one-less" in wrong)
    step = mask.double().T if "transposed" in wrong else mask.double()
    ways = step if "one-layer" in wrong else torch.linalg.matrix_power(step, layers)
    found = (ways > 0).float() if "numbers" in wrong else ways > 0
    return ways if "counts" in wrong else found


def graph_cases(numbers):
    def graph(T):
        mask = torch.rand(T, T, generator=numbers) < 0.5 / T
        t = torch.arange(T)
        mask[t, t], mask[t[1:], t[:-1]] = True, True
        return mask

    return [
        Case("two layers", (graph(7), 2)),
        Case("four layers", (graph(9), 4)),
    ]


def mean_of_each(wrong, samples, n):
    if "kept" in wrong:
        return samples[::n]
    if "apart" in wrong:
        return samples.reshape(n, -1).mean(0)
    found = samples.reshape(-1, n).sum(1)
    return found if "sum" in wrong else found / n


def mean_cases(numbers):
    return [
        Case("pieces of 4", (normal(numbers, 40), 4)),
        Case("pieces of 3", (normal(numbers, 33), 3)),
    ]


# Chapter 12


def least_kept(wrong, n, margin):
    others = n if "all" in wrong else n - 1
    ahead = math.exp(margin if "sign" in wrong else -margin)
    kept = 1 / (others * ahead + (0 if "itself" in wrong else 1))
    return 1 - kept if "lost" in wrong else kept


def kept_cases(numbers):
    return [
        Case("two ahead", (torch.arange(2, 14), 2.0)),
        Case("three and a half ahead", (whole(numbers, 3, 60, 10), 3.5)),
    ]


def aloud_tokens(wrong, bits):
    odd = bits.cumsum(-1) % 2
    said = bits if "last-bit" in wrong else odd
    if "leak" not in wrong:
        said = said.roll(1, -1).clone()
        if "wraps" not in wrong:
            said[:, 0] = "starts-odd" in wrong
    return 2 * bits + said if "exchanged" in wrong else bits + 2 * said


def aloud_cases(numbers):
    return [
        Case("two sequences", (torch.tensor([[1, 0, 1, 1, 0], [0, 1, 1, 0, 1]]),)),
        Case("three sequences", (whole(numbers, 0, 2, 3, 12),)),
    ]


# Chapter 13


def mean_head(wrong, heads, head):
    over = [0] * ("positions-only" not in wrong) + [1] * ("sequences-only" not in wrong)
    over = over + [3] * ("channels" in wrong)
    mean = heads.mean(over, keepdim=True) if over else heads
    mean = torch.zeros_like(heads) if "zeros" in wrong else mean.expand_as(heads)
    chosen = torch.arange(heads.shape[2]) == head
    return torch.where(chosen[:, None] | ("all-heads" in wrong), mean, heads)


def head_cases(numbers):
    return [
        Case("the first of two", (normal(numbers, 2, 3, 2, 4), 0)),
        Case("one of three", (normal(numbers, 3, 4, 3, 2), 1)),
    ]


def rollout(wrong, maps):
    steps = maps[..., 0, :, :] if "one-head" in wrong else maps.mean(-3)
    if "no-residual" not in wrong:
        steps = (steps + torch.eye(maps.shape[-1])) / (1 if "unhalved" in wrong else 2)
    found = steps[0]
    for step in steps[1:]:
        found = found @ step if "order" in wrong else step @ found
    return found


def rollout_cases(numbers):
    def maps(*shape):
        return normal(numbers, *shape).softmax(-1)

    return [
        Case("two blocks", (maps(2, 2, 4, 4),)),
        Case("three blocks, a batch", (maps(3, 2, 3, 5, 5),)),
    ]


# Chapter 14


def first_losses(wrong, V, real):
    loss = V.log2() if "bits" in wrong else V.log()
    share = 1 - real if "padding" in wrong else real
    if "all-count" in wrong:
        share = torch.ones_like(real)
    return loss / share if "divided" in wrong else loss * share


def first_cases(numbers):
    return [
        Case("large", (whole(numbers, 9000, 99_000, 13).float(), whole(numbers, 11, 90, 13) / 100)),
        Case("small", (whole(numbers, 30, 300, 11).float(), whole(numbers, 11, 90, 11) / 100)),
    ]


def update_ratio(wrong, rate, std):
    std = std**2 if "variance" in wrong else std
    return std / rate if "turned" in wrong else rate / std


def update_cases(numbers):
    return [
        Case("0.0001", (0.0001, whole(numbers, 5, 200, 13) / 1000)),
        Case("0.003", (0.003, whole(numbers, 5, 200, 11) / 1000)),
    ]


def one_too_many(wrong, x):
    T = x.shape[1]
    ahead = 1 if "so-far" in wrong else 2
    wanted = torch.arange(ahead, T + ahead)
    count = torch.full_like(wanted, T) if "window" in wrong else wanted.clamp(max=T)
    size = torch.arange(1, T + 1) if "divisor" in wrong else wanted if "end" in wrong else count
    mean = x.cumsum(1)[:, count - 1] / size[:, None]
    return mean if "mean-only" in wrong else x - mean


def too_many_cases(numbers):
    return [
        Case("five places", (normal(numbers, 2, 5, 4),)),
        Case("seven places", (normal(numbers, 3, 7, 2),)),
    ]


def steps_to_half(wrong, G, beta2):
    start = (1 if "whole" in wrong else 1 - beta2) * (G if "not-squared" in wrong else G**2)
    limit = 4 if "own-one" in wrong else 1 if "square" in wrong else 3
    steps = (start / limit).log() / math.log(beta2)
    return steps if "sign" in wrong else -steps


def half_cases(numbers):
    return [
        Case("0.9", (torch.linspace(50, 150, 11), 0.9)),
        Case("0.99", (whole(numbers, 100, 2000, 9).float(), 0.99)),
    ]


def draws_needed(wrong, share, sure):
    if "on-average" in wrong:
        draws = 1 / share
    else:
        inside = (share if "turned" in wrong else 1 - share).log()
        draws = math.log(sure if "not-missed" in wrong else 1 - sure) / inside
    if "not-whole" in wrong:
        return draws
    return draws.floor() if "down" in wrong else draws.ceil()


def draws_cases(numbers):
    return [
        Case("0.95", (whole(numbers, 11, 460, 13) / 1000, 0.95)),
        Case("0.6", (whole(numbers, 11, 300, 11) / 1000, 0.6)),
    ]


AXIS = "softmax over the queries (axis −2) instead of over the keys (axis −1)"
UNSCALED = "scores not divided by √D"
POLARITY = "the mask keeps what it should hide: True means that looking is allowed"
NUMBERS = "0 and 1 are returned; True and False are asked for"

# Chapter 15


def delta_write(wrong, S, k, v, beta):
    old = S @ k if "rows" in wrong else S.T @ k
    gap = v + old if "sign" in wrong else v if "added" in wrong else v - old
    step = 2 * beta if "doubled" in wrong else 1.0 if "no-strength" in wrong else beta
    if "value-only" in wrong:
        return S + torch.outer(k, beta * v - old)
    return S + step * torch.outer(k, gap)


def delta_write_cases(numbers):
    def one(k, beta):
        k = torch.tensor(k)
        return normal(numbers, len(k), len(k)), k, normal(numbers, len(k)), beta

    return [
        Case("a key of length 1", one([0.6, 0.8, 0.0], 0.5)),
        Case("four channels", one([0.5, -0.5, 0.5, 0.5], 1.5)),
        Case("a longer key", one([1.0, 2.0, -1.0], 0.25)),
    ]


def kept_numbers(wrong, T, layers, every, heads, D):
    full = layers if "all-full" in wrong else layers // every
    cache = (1 if "keys-only" in wrong else 2) * T * heads * D
    state = heads * D * (1 if "no-matrix" in wrong else D) * (T if "per-token" in wrong else 1)
    rest = layers if "all-state" in wrong else layers - full
    return full * cache + (0 if "no-state" in wrong else rest * state)


def kept_cases_of_hybrids(numbers):
    lengths = 100 * torch.arange(1, 13)
    return [
        Case("eight layers, one of four full", (lengths, 8, 4, 2, 16)),
        Case("twelve layers, one of six full", (lengths, 12, 6, 3, 8)),
    ]


# Chapter 16


def group_advantages(wrong, rewards):
    axis = 0 if "columns" in wrong else 1
    mean = rewards.mean() if "batch" in wrong else rewards.mean(axis, keepdim=True)
    better = rewards - mean
    if "not-divided" in wrong:
        return better
    spread = rewards.std(axis, keepdim=True, unbiased="biased" not in wrong)
    if "variance" in wrong:
        spread = spread.square()
    return better / (spread + (0 if "no-least" in wrong else 1e-4))


def group_advantage_cases(numbers):
    some = whole(numbers, 0, 1, 4, 6).float()
    some[:, 0], some[:, 1] = 1.0, 0.0
    alike = some.clone()
    alike[1] = 1.0
    return [
        Case("four groups of six", (some,)),
        Case("a group of equals", (alike,)),
        Case("rewards of any size", (normal(numbers, 3, 5),)),
    ]


def clipped_gain(wrong, ratio, advantage, low, high):
    top = low if "one-side" in wrong else high
    held = ratio.clamp(1 - low, 1 + top)
    if "no-low" in wrong:
        held = ratio.clamp(max=1 + top)
    if "no-min" in wrong:
        return held * advantage
    pick = torch.maximum if "max" in wrong else torch.minimum
    return pick(ratio * advantage, held * advantage)


def clipped_gain_cases(numbers):
    ratio = torch.arange(0.1, 2.0, 0.05)
    signs = torch.where(torch.arange(len(ratio)) % 2 == 0, 1.0, -1.0)
    return [
        Case("better answers", (ratio, torch.ones(len(ratio)), 0.2, 0.28)),
        Case("worse answers", (ratio, -torch.ones(len(ratio)), 0.2, 0.28)),
        Case("both", (ratio, 2 * signs, 0.1, 0.4)),
    ]


def one_of_k(wrong, n, c, k):
    if "back" in wrong:
        return 1 - (1 - c / n) ** k
    left = c if "all" in wrong else n - c
    found = torch.ones(len(c))
    for i in range(k):
        found = found * (left - i).clamp(min=0) / (n - i)
    return found if "none" in wrong or "all" in wrong else 1 - found


def one_of_k_cases(numbers):
    counts = torch.arange(0, 13)
    return [
        Case("12 answers, 4 drawn", (12, counts, 4)),
        Case("16 answers, 7 drawn", (16, counts + 2, 7)),
        Case("two are drawn", (20, counts + 1, 2)),
    ]


# Chapter 17


def round_to_nearest(wrong, W, bits, group):
    pieces = W.view(1, 1, -1) if "matrix" in wrong else W.view(len(W), -1, group)
    if "row" in wrong:
        pieces = W.view(len(W), 1, -1)
    top = 2 ** (bits - 1) - ("one-more" not in wrong)
    s = pieces.abs().amax(-1, keepdim=True) / top
    levels = (pieces / s).floor() if "floor" in wrong else (pieces / s).round()
    return (levels if "levels" in wrong else s * levels).view_as(W)


def round_to_nearest_cases(numbers):
    return [
        Case("four bits, groups of four", (normal(numbers, 3, 8), 4, 4)),
        Case("three bits, groups of two", (normal(numbers, 2, 8), 3, 2)),
        Case("eight bits, a row", (normal(numbers, 4, 6), 8, 6)),
    ]


def obs_update(wrong, w, H, j, q):
    start = 0 if "before" in wrong else j
    inverse = H[start:, start:] if "hessian" in wrong else torch.linalg.inv(H[start:, start:])
    row, change = inverse[j - start], q - w[j]
    moved = w.clone()
    step = change * row / (1 if "not-divided" in wrong else row[j - start])
    moved[start:] += -step if "sign" in wrong else step
    moved[j] = q
    return moved


def obs_update_cases(numbers):
    def inputs(n, C):
        x = normal(numbers, n, C)
        return x.T @ x / n + 0.1 * torch.eye(C, dtype=x.dtype)

    return [
        Case("the first of ten", (normal(numbers, 10), inputs(30, 10), 0, 1.0)),
        Case("the fourth of twelve", (normal(numbers, 12), inputs(40, 12), 3, -1.0)),
        Case("the seventh of eleven", (normal(numbers, 11), inputs(30, 11), 6, 0.0)),
    ]


def step_seconds(wrong, rows, length, weights, position, bandwidth):
    cache = rows * length * position
    if "one-cache" in wrong:
        cache = length * position + 0 * rows
    if "no-length" in wrong:
        cache = rows * position
    read = weights * rows if "weights-each" in wrong else weights
    if "longest" in wrong:
        return torch.maximum(cache, torch.full_like(cache, weights)) / bandwidth
    return (read + cache) / bandwidth


def step_seconds_cases(numbers):
    rows = torch.arange(1.0, 40.0)
    return [
        Case("a short text", (rows, 1000.0, 1.2, 1e-4, 1.0)),
        Case("a long text", (rows, 8000.0, 14.0, 1e-3, 2.0)),
        Case("others", (rows, 64.0, 3.0, 0.01, 0.5)),
    ]


def pages_used(wrong, prompts, sizes):
    return torch.tensor([pages_of(wrong, prompts.tolist(), size) for size in sizes.tolist()])


def pages_of(wrong, prompts, size):
    full, rest = set(), 0
    for n, prompt in enumerate(prompts):
        ends = list(range(size, len(prompt) + 1, size))
        if "part" in wrong and len(prompt) % size:
            ends.append(len(prompt))
        for end in ends:
            begin = end - size if "inside" in wrong else 0
            full.add((*prompt[begin:end], *([-1 - n] if "alone" in wrong else [])))
        rest += "part" not in wrong and "full-only" not in wrong and len(prompt) % size > 0
    return len(full) + rest


def pages_used_cases(numbers):
    alike = whole(numbers, 0, 9, 1, 8).repeat(3, 1)
    alike[:, 6:] = torch.arange(6).view(3, 2) + 10
    places = whole(numbers, 0, 9, 1, 4).repeat(2, 2)
    places[1, :4] += 10
    twice = whole(numbers, 0, 9, 1, 7).repeat(2, 1)
    sizes = torch.arange(1, 14)
    return [
        Case("three that begin alike", (alike, sizes)),
        Case("the same tokens at two places", (places, sizes)),
        Case("the same prompt twice", (twice, sizes)),
    ]


# Chapter 18


def zero_bytes(wrong, parameters, replicas):
    each = parameters / replicas
    states = 8 if "no-copy" in wrong else 12
    first = (4 + states * ("whole" in wrong)) * parameters + states * each
    second = (4 if "gradients" in wrong else 2) * parameters
    second = second + (states if "gradients" in wrong else states + 2) * each
    third = 2 * parameters * ("weights" in wrong) + (4 + states) * each
    return torch.stack([(4 + states) * parameters, first, second, third], -1)


def zero_bytes_cases(numbers):
    replicas = torch.tensor([1.0, 2.0, 8.0, 64.0, 512.0])
    return [
        Case("five groups", (torch.tensor([7.5, 1.0, 8.0, 70.0, 405.0]), replicas)),
        Case("others", (whole(numbers, 1, 99, 5).float(), replicas + 2)),
    ]


def idle_share(wrong, stages, micro):
    waits = stages if "one-more" in wrong else stages - 1
    if "of-work" in wrong:
        return waits / micro
    if "too-few" in wrong:
        return waits / (micro + stages)
    return micro / (micro + waits) if "busy" in wrong else waits / (micro + stages - 1)


def idle_share_cases(numbers):
    return [
        Case("4 stages", (4, torch.arange(1, 31))),
        Case("16 stages", (16, torch.arange(3, 90, 3))),
        Case("2 stages", (2, torch.arange(1, 40))),
    ]


def group_speed(wrong, sizes, neighbours, near, far):
    cards = torch.full(sizes.shape, float(far if "one-card" in wrong else neighbours * far))
    if "own" in wrong:
        cards = (sizes * far).float()
    if "no-limit" not in wrong:
        cards = cards.clamp(max=near)
    fits = sizes < neighbours if "strict" in wrong else sizes <= neighbours
    return torch.where(fits & ("network" not in wrong), float(near), cards)


def group_speed_cases(numbers):
    sizes = torch.arange(1, 41)
    return [
        Case("eight in a machine", (sizes, 8, 450.0, 50.0)),
        Case("more cards than NVLink", (sizes, 8, 300.0, 50.0)),
        Case("two in a machine", (sizes, 2, 450.0, 50.0)),
    ]


def zig_zag_positions(wrong, P, T):
    if "neighbours" in wrong:
        return torch.arange(T).view(P, -1)
    pieces = torch.arange(T).view(2 * P, -1)
    back = pieces[P:] if "not-turned" in wrong else pieces[P:].flip(0)
    if "stripes" in wrong:
        return torch.arange(T).view(-1, P).T
    if "falling" in wrong:
        return torch.cat([back, pieces[:P]], 1)
    return torch.cat([pieces[:P], back], 1)


def zig_zag_cases(numbers):
    return [
        Case("4 processes, 16 positions", (4, 16)),
        Case("2 processes, 12 positions", (2, 12)),
        Case("3 processes, 24 positions", (3, 24)),
    ]


QUESTIONS = {
    "elman_jacobian": Question(
        elman_jacobian,
        elman_cases,
        {
            "no-slope": "the slope of tanh is missing in each factor",
            "slope-right": "the slope stands to the right of U; it scales the rows, so it belongs "
            "to the left",
            "old-slope": "the slope is taken at the state before the step instead of after it",
            "order": "the factors stand in the wrong order: the last step belongs to the left",
            "transposed": "transposed: row i is for number i of the last state",
        },
    ),
    "ppmi": Question(
        ppmi,
        ppmi_cases,
        {
            "negative": "negative logarithms are kept; they become 0",
            "bits": "the logarithm has base 2",
            "no-chance": "the counts are not compared with what chance would give",
            "no-total": "everything becomes 0: what chance would give is too large; p(w) and p(c) are "
            "counts over the total",
        },
    ),
    "additive_look": Question(
        additive_look,
        additive_cases,
        {
            "no-tanh": "the tanh is missing",
            "mask-ignored": "the mask is not used",
            "polarity": POLARITY,
            "masked-late": "hidden places are taken away after the division, so the rest does not "
            "sum to 1",
            "axis": "the weights sum to 1 over the sequences instead of over the places",
            "not-normalised": "the powers are not divided by their sum",
        },
    ),
    "uniform_context": Question(
        uniform_context,
        uniform_cases,
        {
            "mask-ignored": "padding is averaged too",
            "all-places": "divided by the number of all places, padding included",
            "sum": "the states are added and not divided by their number",
        },
    ),
    "plain_look": Question(
        plain_look,
        plain_cases,
        {
            "unscaled": UNSCALED,
            "scale-count": "scores divided by the root of the number of keys instead of by √D",
            "not-normalised": "the weights do not sum to 1",
            "best-only": "only the best key counts",
            "keys": "the keys are averaged instead of the values",
        },
    ),
    "binary_code": Question(
        binary_code,
        binary_cases,
        {
            "zeros": "the digits are 0 and 1 instead of −1 and 1",
            "highest-first": "the highest digit stands first; the lowest belongs there",
            "from-one": "counted from 1: the first place is place 0",
            "turned": "the signs are turned round: a digit 1 is 1",
        },
    ),
    "alibi_by_key": Question(
        alibi_by_key,
        alibi_cases,
        {
            "sign": "what is added falls with the key's place, so far keys are preferred; it rises",
            "by-query": "added by the query's place, which no softmax feels; the key's counts",
            "one-slope": "all heads have the first one's slope",
            "no-mask": "the causal mask is missing",
            "axis": AXIS,
        },
    ),
    "left_places": Question(
        left_places,
        left_cases,
        {
            "from-edge": "padding is counted too",
            "from-one": "the first real token has place 1; it is place 0",
            "negative": "padding has negative places; give it 0",
            "right": "the padding is looked for on the right",
        },
    ),
    "window_cells": Question(
        window_cells,
        window_cases,
        {
            "no-start": "the first rows see fewer than w tokens",
            "no-diagonal": "each token sees itself, too",
            "twice": "the first w rows are counted twice",
        },
    ),
    "head_sum": Question(
        head_sum,
        head_sum_cases,
        {
            "unscaled": UNSCALED,
            "scale-width": "scores divided by √C, the width of all heads, instead of √D, the width "
            "of one",
            "axis": AXIS,
            "order": "queries and keys exchanged",
            "interleaved": "a head gets every H-th channel instead of D neighbouring ones",
            "transposed": "the output matrix is used the wrong way round",
            "averaged": "divided by the number of heads; heads add up, they are not averaged",
        },
    ),
    "circuits": Question(
        circuits,
        circuits_cases,
        {
            "order": "queries and keys exchanged",
            "scaled": "QK has no √D in it; the scores divide by it",
            "transposed": "the output matrix is used the wrong way round",
            "backwards": "OV is transposed: a row y of the input comes first",
            "exchanged": "QK comes first, then OV",
        },
    ),
    "grouped_heads": Question(
        grouped_heads,
        grouped_cases,
        {
            "interleaved": "neighbouring query heads share a key head; here every G-th one does",
            "unscaled": UNSCALED,
            "axis": AXIS,
        },
    ),
    "memory_terms": Question(
        memory_terms,
        memory_cases,
        {
            "no-relu": "the ReLU is missing",
            "softmax": "a softmax instead of the ReLU: that would be attention",
            "keys-added": "the keys are added; they are what z is compared with, the values are "
            "what is added",
            "summed": "the terms are added already; keep them apart",
        },
    ),
    "block_work": Question(
        block_work,
        work_cases,
        {
            "no-network": "the feed-forward network is missing",
            "network-once": "one of the network's two matrices is missing",
            "one-product": "there are two products with T²: scores, and weights with values",
            "pairs": "a multiplication and an addition are counted as one; they are two",
            "exchanged": "the quadratic part stands first; it belongs behind the other",
        },
    ),
    "joint_mask": Question(
        joint_mask,
        joint_cases,
        {
            "source-causal": "the source is read from left to right; an encoder sees all of it",
            "future": "the target sees its own future",
            "not-itself": "a target token does not see itself",
            "source-asks": "the source sees the target",
            "no-cross": "the target does not see the source: that is the cross-attention",
            "exchanged": "queries and keys exchanged: a row is who looks",
            "polarity": POLARITY,
            "numbers": NUMBERS,
        },
    ),
    "band_mask": Question(
        band_mask,
        band_cases,
        {
            "one-more": "one position too many is seen",
            "one-less": "one position too few: itself and as many before it",
            "both-sides": "as many positions after it are seen as before it",
            "later": "all that comes later is seen too",
            "ahead": "it looks ahead instead of back",
            "no-end": "the whole past is seen",
            "polarity": POLARITY,
            "numbers": NUMBERS,
        },
    ),
    "tempered_losses": Question(
        tempered_losses,
        tempered_cases,
        {
            "multiplied": "the logits are multiplied by the temperature; they are divided",
            "late": "divided after the softmax, so the probabilities no longer sum to 1",
            "sum": "the losses of the tokens are added; take their mean",
            "bits": "the logarithm has base 2",
        },
    ),
    "nucleus": Question(
        nucleus,
        nucleus_cases,
        {
            "short": "the token that reaches the share is cut as well; it stays",
            "one-more": "one token too many stays",
            "unscaled": "what stays is not scaled up: it must sum to 1",
            "unsorted": "the first tokens of the row are kept, not the likeliest",
            "ranks": "cut are places of the sorted row; bring them back to those of the tokens",
        },
    ),
    "cached_look": Question(
        cached_look,
        cached_cases,
        {
            "alone": "the new positions see what was kept, and not themselves",
            "in-front": "the new keys and values stand before the old ones",
            "unscaled": "the scores are not divided by √D",
            "future": "a new position sees later new ones",
            "from-zero": "the mask counts from 0, as if nothing had been kept",
        },
    ),
    "answer_weights": Question(
        answer_weights,
        answer_cases,
        {
            "user-too": "after the first answer, what the user says counts too",
            "mark": "<|book|> itself counts; the model need not learn to say it",
            "no-end": "<|end|> does not count, so it is never learned when to stop",
            "alike": "every token counts the same, so a long answer more than a short one",
        },
    ),
    "pixel_first": Question(
        pixel_first,
        pixel_cases,
        {
            "channels": "channel by channel, as `cut` has it; pixel by pixel is asked for",
            "strips": "the picture is cut into strips of a row; patches are squares",
            "down": "the patches come column by column instead of row by row",
            "pixels-down": "the pixels in a patch come column by column instead of row by row",
        },
    ),
    "shuffled_columns": Question(
        shuffled_columns,
        shuffled_cases,
        {
            "inverse": "the permutation is used the wrong way round",
            "one-channel": "only the first channel's columns are moved",
            "pixel-first": "the columns are read pixel by pixel; they go channel by channel",
        },
    ),
    "decoder_input": Question(
        decoder_input,
        decoder_cases,
        {
            "in-order": "the vectors stand at the first places; `kept` says where each belongs",
            "zeros": "the gaps are zeros; they hold the learned vector `gap`",
            "read-alike": "what was read has no position; the decoder needs it once more",
            "gaps-alike": "the gaps have no position, so all of them would be filled alike",
        },
    ),
    "student_gradient": Question(
        student_gradient,
        student_cases,
        {
            "not-centred": "the centre is not subtracted from the teacher's logits",
            "both-centred": "the student's logits are centred, too; only the teacher's are",
            "one-temperature": "the teacher has the student's temperature instead of its own",
            "no-factor": "the factor 1/tau_s of the chain rule is missing",
            "mean": "divided by the number of pictures; each one's own loss is asked for",
            "sign": "this is the way down; the gradient has the other sign",
        },
    ),
    "centred_norm": Question(
        centred_norm,
        centred_cases,
        {
            "not-centred": "the mean is not subtracted",
            "size-before": "the size is that of the vector before the mean was subtracted",
            "sample": "the variance is divided by C − 1 instead of by C",
            "eps-outside": "eps is added to the root; it belongs inside",
            "positions": "mean and size are taken over the positions instead of the channels",
        },
    ),
    "full_turns": Question(
        full_turns,
        turn_cases,
        {
            "radians": "radians are not turns: divide by 2π",
            "half-turns": "half turns are counted: a turn is 2π",
            "half-speed": "the exponent is i/D; it is 2i/D",
            "wavelength": "the speeds rise from pair to pair; they fall",
        },
    ),
    "merge_parts": Question(
        merge_parts,
        merge_cases,
        {
            "as-they-are": "the parts are added as they are, though each belongs to a maximum of "
            "its own",
            "z-as-it-is": "u is brought to the common maximum, z is not",
            "u-as-it-is": "z is brought to the common maximum, u is not",
            "upside-down": "the correction is upside down: exp(m_part − m)",
            "first-maximum": "the maximum is the first part's, not the larger one",
            "divided": "u is divided by z already; then it cannot be merged again",
        },
    ),
    "forgetting": Question(
        forgetting,
        forgetting_cases,
        {
            "no-decay": "nothing is forgotten: the factor is missing",
            "new-too": "the new pair is multiplied by the factor too; only the old state is",
            "future": "later pairs are used too",
            "exchanged": "keys and values exchanged",
            "divided": "divided by the sum of the weights; here there is no denominator",
        },
    ),
    "knows_of": Question(
        knows_of,
        graph_cases,
        {
            "one-layer": "the number of layers is not used",
            "one-more": "one layer too many",
            "one-less": "one layer too few",
            "transposed": "transposed: row i is what node i knows of",
            "counts": "these are numbers of ways; whether there is one is asked for",
            "numbers": NUMBERS,
        },
    ),
    "mean_of_each": Question(
        mean_of_each,
        mean_cases,
        {
            "kept": "each n-th sample is kept, as before; average each piece",
            "apart": "samples far apart are averaged; a piece is n neighbours",
            "sum": "the pieces are added and not divided by n",
        },
    ),
    "least_kept": Question(
        least_kept,
        kept_cases,
        {
            "all": "n others are counted; there are n − 1",
            "sign": "the others are ahead: they weigh e to the minus margin",
            "itself": "the key's own weight is missing in the sum",
            "lost": "this is what is lost at most; what is kept is the rest",
        },
    ),
    "aloud_tokens": Question(
        aloud_tokens,
        aloud_cases,
        {
            "leak": "the answer of this step is given away; it is that of the step before",
            "last-bit": "the bit before is shown instead of the answer before",
            "starts-odd": "before the first bit the answer is 0",
            "wraps": "the first step is shown the last answer",
            "exchanged": "bit and answer exchanged: the answer counts twice",
        },
    ),
    "mean_head": Question(
        mean_head,
        head_cases,
        {
            "zeros": "the head gives zeros; the mean is asked for",
            "positions-only": "each sequence has a mean of its own; one for all is asked for",
            "sequences-only": "each position has a mean of its own; one for all is asked for",
            "channels": "the channels are averaged too; the mean is a vector",
            "all-heads": "all heads give their mean; only one should",
        },
    ),
    "rollout": Question(
        rollout,
        rollout_cases,
        {
            "order": "the first block stands leftmost; the last belongs there",
            "no-residual": "the residual connection is not counted",
            "unhalved": "map and identity are added, but not halved",
            "one-head": "only the first head's map is used; take their mean",
        },
    ),
    "first_losses": Question(
        first_losses,
        first_cases,
        {
            "bits": "the loss is in nats: ln, not the logarithm to base 2",
            "padding": "`real` is the share that is no padding",
            "all-count": "positions of padding add 0, so only the share `real` of the loss is left",
            "divided": "all positions are in the divisor: the mean gets smaller, not larger",
        },
    ),
    "update_ratio": Question(
        update_ratio,
        update_cases,
        {
            "variance": "`std` is the standard deviation already, not squared",
            "turned": "the wrong way round: length of the step over length of the matrix",
        },
    ),
    "one_too_many": Question(
        one_too_many,
        too_many_cases,
        {
            "so-far": "the next vector is missing from the mean: this is the repair",
            "window": "each mean is over the whole window, not over one vector too many",
            "divisor": "the sum has one vector more, so its divisor is one larger, too",
            "end": "the last position has no next one: its mean is over T vectors",
            "mean-only": "the means themselves are returned; x less the mean is asked for",
        },
    ),
    "steps_to_half": Question(
        steps_to_half,
        half_cases,
        {
            "not-squared": "v holds squares: G enters as G²",
            "whole": "the giant enters v with the factor 1 − β₂, which is missing",
            "own-one": "v also holds the 1 of the ordinary gradients: 4 is 1 and 3",
            "square": "the step is half when the root of v is 2, so v is 4",
            "sign": "the number of steps is negative: the logarithm of β₂ is",
        },
    ),
    "draws_needed": Question(
        draws_needed,
        draws_cases,
        {
            "on-average": "1 / share is how many draws it takes on average, not to be this sure",
            "turned": "the share is that of the good ones; all draws miss them with (1 − share)ⁿ",
            "not-missed": "`sure` is the chance of a hit; all draws may miss with 1 − sure",
            "not-whole": "draws are whole numbers: round up",
            "down": "rounded down, the chance is still below what was asked for: round up",
        },
    ),
    "delta_write": Question(
        delta_write,
        delta_write_cases,
        {
            "added": "key times value is added; what the memory answers already must go first",
            "sign": "the old answer is added instead of taken away",
            "no-strength": "the strength β is not used",
            "doubled": "the step is twice as long; the ½ in the loss takes the 2 away",
            "value-only": "only the new value is multiplied by β; the old answer is, too",
            "rows": "the memory is asked with S k; it answers Sᵀ k",
        },
    ),
    "kept_numbers": Question(
        kept_numbers,
        kept_cases_of_hybrids,
        {
            "all-full": "every layer has a cache; only one of `every` is full attention",
            "keys-only": "keys or values are missing in the cache; both are kept",
            "no-matrix": "a state is a matrix of D × D for each head, not a vector",
            "per-token": "a state is counted for every token; there is one per layer and head",
            "all-state": "full layers have no state",
            "no-state": "the states of the other layers are missing",
        },
    ),
    "group_advantages": Question(
        group_advantages,
        group_advantage_cases,
        {
            "columns": "answers to different questions are compared; a group is a row",
            "batch": "the mean is that of all rewards; each group has its own",
            "not-divided": "the difference is not divided by the group's standard deviation",
            "biased": "the standard deviation divides by G; by G − 1 is asked for",
            "variance": "the difference is divided by the variance, not by its root",
            "no-least": "nothing is added to the standard deviation, and equals divide 0 by 0",
        },
    ),
    "clipped_gain": Question(
        clipped_gain,
        clipped_gain_cases,
        {
            "one-side": "above 1 the ratio is held at 1 + high, below at 1 − low",
            "no-low": "the ratio is held from below as well",
            "no-min": "the smaller of the two products counts, not the held one always",
            "max": "the smaller of the two products counts, not the larger",
        },
    ),
    "one_of_k": Question(
        one_of_k,
        one_of_k_cases,
        {
            "back": "answers are put back after each draw; they are drawn without that",
            "none": "the chance that none is right is returned; one minus it is asked for",
            "all": "the chance that all are right is returned; one of them is enough",
        },
    ),
    "round_to_nearest": Question(
        round_to_nearest,
        round_to_nearest_cases,
        {
            "matrix": "one scale serves the whole matrix; each group of a row has its own",
            "row": "one scale serves a whole row; each group has its own",
            "one-more": "the largest level is 2^(bits − 1); it is one less",
            "floor": "rounded down; to the nearest level is asked for",
            "levels": "the levels are returned; times their scale is asked for",
        },
    ),
    "obs_update": Question(
        obs_update,
        obs_update_cases,
        {
            "before": "weights before j move as well; they are rounded already and stay",
            "hessian": "H itself is used; the inverse of what is left of it is needed",
            "not-divided": "the row of the inverse is not divided by its entry at j",
            "sign": "the others move to the wrong side and make the error larger",
        },
    ),
    "step_seconds": Question(
        step_seconds,
        step_seconds_cases,
        {
            "one-cache": "each row reads a cache of its own",
            "no-length": "each row reads its whole cache, not one position of it",
            "weights-each": "the weights are read once for all rows",
            "longest": "weights and caches are read one after the other: add them",
        },
    ),
    "pages_used": Question(
        pages_used,
        pages_used_cases,
        {
            "inside": "pages with the same tokens are shared whatever stands before them",
            "alone": "nothing is shared between prompts",
            "part": "pages that are not full are shared, too",
            "full-only": "pages that are not full are not counted",
        },
    ),
    "zero_bytes": Question(
        zero_bytes,
        zero_bytes_cases,
        {
            "no-copy": "the optimizer keeps 12 bytes: two averages, and a copy in 32 bits",
            "whole": "the optimizer's 12 bytes stay whole in stage 1; they are dealt out",
            "gradients": "stage 2 deals out the gradients as well",
            "weights": "stage 3 deals out the weights as well; nothing stays whole",
        },
    ),
    "idle_share": Question(
        idle_share,
        idle_share_cases,
        {
            "one-more": "one stage too many waits: the first starts at once",
            "of-work": "the share is of all time, not of the time of work",
            "too-few": "all stages together take micro + stages − 1 slots",
            "busy": "this is the share of work; the share of waiting is asked for",
        },
    ),
    "group_speed": Question(
        group_speed,
        group_speed_cases,
        {
            "one-card": "all cards of the group in a machine work for it, not one of them",
            "own": "only the GPUs in one machine leave it together, not the whole group",
            "no-limit": "no GPU sends faster than NVLink, however many cards there are",
            "strict": "a group that just fits into a machine uses NVLink as well",
            "network": "a group inside one machine uses NVLink",
        },
    ),
    "zig_zag_positions": Question(
        zig_zag_positions,
        zig_zag_cases,
        {
            "neighbours": "each process has neighbouring positions; the last one works most",
            "not-turned": "the pieces of the back go in the other order: 2P − 1 − p to process p",
            "stripes": "positions are dealt out one by one; pieces are asked for",
            "falling": "the positions of a process are in rising order",
        },
    ),
}
