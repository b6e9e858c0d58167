"""The chapters' exercises as readers write them: right in an unusual way, and every mistake.

A mistake is a change of that text, (old, new), independent of the program in labs/chapters.py.
"""

BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"

RIGHT = {
    "elman_jacobian": """
def elman_jacobian(U, x):
    h, product = torch.zeros(len(U)), torch.eye(len(U))
    for x_t in x:
        h = torch.tanh(x_t + U @ h)
        product = (1 - h * h)[:, None] * U @ product
    return product
""",
    "ppmi": """
def ppmi(together):
    p = together.double() / together.sum()
    out = torch.zeros_like(p)
    for w in range(len(p)):
        for c in range(len(p)):
            chance = p[w].sum() * p[:, c].sum()
            out[w, c] = max(0, math.log(p[w, c] / chance)) if p[w, c] > 0 else 0
    return out
""",
    "additive_look": """
def additive_look(s, h, mask, W, U, v):
    contexts, rows = [], []
    for b in range(len(s)):
        e = torch.stack([torch.tanh(W @ s[b] + U @ state) @ v for state in h[b]])
        e[~mask[b]] = -math.inf
        rows.append(F.softmax(e, dim=0))
        contexts.append(rows[-1] @ h[b])
    return torch.stack(contexts), torch.stack(rows)
""",
    "uniform_context": """
def uniform_context(h, mask):
    return torch.stack([states[seen].mean(0) for states, seen in zip(h, mask)])
""",
    "plain_look": """
def plain_look(q, keys, values):
    q, keys, values = (np.array(part.tolist()) for part in (q, keys, values))
    scores = (keys * q).sum(1) / math.sqrt(len(q))
    powers = np.exp(scores - scores.max())
    return (powers[:, None] * values).sum(0) / powers.sum()
""",
    "binary_code": """
def binary_code(place, digits):
    rows = []
    for t in place.tolist():
        written = format(int(t), "b").zfill(digits)[::-1]
        rows.append([1.0 if digit == "1" else -1.0 for digit in written])
    return torch.tensor(rows)
""",
    "alibi_by_key": """
def alibi_by_key(scores, slopes):
    out = torch.zeros_like(scores)
    for n, m in enumerate(slopes.tolist()):
        for i in range(scores.shape[1]):
            seen = scores[n, i, : i + 1] + m * torch.arange(i + 1)
            out[n, i, : i + 1] = seen.softmax(0)
    return out
""",
    "left_places": """
def left_places(padding, T):
    real = torch.arange(T).expand(len(padding), T) >= padding[:, None]
    return F.relu(real.cumsum(1) - 1)
""",
    "window_cells": """
def window_cells(T, w):
    early = sum(range(1, w + 1))
    late = (T - w) * w
    return early + late
""",
    "head_sum": """
def head_sum(x, qkv_weight, out_weight, H):
    (B, T, C), out = x.shape, 0
    for h in range(H):
        rows = torch.arange(C // H) + h * (C // H)
        q, k, v = (F.linear(x, part[rows]) for part in qkv_weight.chunk(3))
        w = (torch.einsum("btd,bsd->bts", q, k) / math.sqrt(len(rows))).softmax(2)
        out = out + F.linear(w @ v, out_weight[:, rows])
    return out
""",
    "circuits": """
def circuits(qkv_weight, out_weight, H):
    C = len(out_weight)
    D, QK, OV = C // H, [], []
    W_q, W_k, W_v = qkv_weight.chunk(3)
    for h in range(H):
        own = slice(h * D, (h + 1) * D)
        QK.append(torch.einsum("dc,de->ce", W_q[own], W_k[own]))
        OV.append(torch.einsum("dc,ed->ce", W_v[own], out_weight[:, own]))
    return torch.stack(QK), torch.stack(OV)
""",
    "grouped_heads": """
def grouped_heads(q, k, v):
    B, H, T, D = q.shape
    own = torch.arange(H) // (H // k.shape[1])
    w = F.softmax(torch.einsum("bhtd,bhsd->bhts", q, k[:, own]) / math.sqrt(D), 3)
    return torch.einsum("bhts,bhsd->bhtd", w, v[:, own])
""",
    "memory_terms": """
def memory_terms(z, up, down):
    found = F.relu(torch.einsum("...c,fc->...f", z, up))
    return torch.stack([found[..., i, None] * down[:, i] for i in range(len(up))], -2)
""",
    "block_work": """
def block_work(T, C):
    projections = 4 * T * C * C
    network = 2 * T * C * (4 * C)
    pairs = 2 * T * T * C
    return 2 * (projections + network), 2 * pairs
""",
    "joint_mask": """
def joint_mask(S, T):
    mask = torch.zeros(S + T, S + T, dtype=torch.bool)
    mask[:S, :S] = torch.ones(S, S).bool()
    mask[S:, :S] = True
    mask[S:, S:] = torch.ones(T, T).tril().bool()
    return mask
""",
    "band_mask": """
def band_mask(T, before):
    mask = torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        mask[i, max(0, i - before) : i + 1] = True
    return mask
""",
    "tempered_losses": """
def tempered_losses(logits, targets, temperatures):
    losses = []
    for t in temperatures.tolist():
        p = (logits / t).exp()
        p = p / p.sum(-1, keepdim=True)
        losses.append(-p.gather(-1, targets.unsqueeze(-1)).log().mean().item())
    return torch.tensor(losses)
""",
    "nucleus": """
def nucleus(p, share):
    new = torch.zeros_like(p)
    for r, row in enumerate(p.tolist()):
        total = 0
        for rank, i in enumerate(sorted(range(len(row)), key=lambda i: -row[i])):
            if total >= share:
                break
            total += row[i]
            new[r, i] = row[i]
        new[r] = new[r] / new[r].sum()
    return new
""",
    "cached_look": """
def cached_look(q, k, v, keys, values):
    rows, t = [], len(keys)
    for i in range(len(q)):
        seen, held = [
            torch.cat([old, new])[: t + i + 1] for old, new in ((keys, k), (values, v))
        ]
        rows.append(torch.softmax(seen @ q[i] / math.sqrt(q.shape[1]), 0) @ held)
    return torch.stack(rows)
""",
    "answer_weights": """
def answer_weights(tokens):
    said, answers, mine = tokens.tolist(), [], []
    for i, before in enumerate([0] + said[:-1]):
        if before == 3:
            mine = []
            answers.append(mine)
        if before in (1, 2):
            mine = []
        mine.append(i)
    weights = torch.zeros(len(said))
    for answer in answers:
        for i in answer:
            weights[i] = 1 / len(answer)
    return weights
""",
    "pixel_first": """
def pixel_first(images, size):
    patches = images.unfold(2, size, size).unfold(3, size, size)
    return patches.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
""",
    "shuffled_columns": """
def shuffled_columns(weight, order):
    parts = weight.split(len(order), dim=1)
    return torch.cat([part @ torch.eye(len(order))[order].T for part in parts], dim=1)
""",
    "decoder_input": """
def decoder_input(read, kept, gap, places):
    rows = []
    for vectors, numbers in zip(read, kept):
        at = {int(n): v for n, v in zip(numbers, vectors)}
        rows.append(torch.stack([at.get(p, gap) + places[p] for p in range(len(places))]))
    return torch.stack(rows)
""",
    "student_gradient": """
def student_gradient(student, teacher, centre, tau_s, tau_t):
    student = student.detach().double().requires_grad_()
    aim = ((teacher - centre) / tau_t).double().exp()
    aim = aim / aim.sum(-1, keepdim=True)
    each = -(aim * F.log_softmax(student / tau_s, dim=-1)).sum(-1)
    each.sum().backward()
    return student.grad
""",
    "centred_norm": """
def centred_norm(x, eps):
    x = x.double()
    x = x - x.mean(-1, keepdim=True)
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps)
""",
    "full_turns": """
def full_turns(D, T, base):
    return torch.tensor([T / (2 * math.pi * base ** (2 * i / D)) for i in range(D // 2)])
""",
    "merge_parts": """
def merge_parts(m1, z1, u1, m2, z2, u2):
    m = torch.stack([m1, m2]).amax(0)
    a, b = torch.exp(m1 - m), torch.exp(m2 - m)
    z, u = z1 * a + z2 * b, u1 * a + u2 * b
    return [m, z, u]
""",
    "forgetting": """
def forgetting(q, k, v, gamma):
    out = torch.zeros_like(v)
    for i in range(len(q)):
        for j in range(i + 1):
            out[i] += gamma ** (i - j) * (q[i] @ k[j]) * v[j]
    return out
""",
    "knows_of": """
def knows_of(mask, layers):
    reach = torch.eye(len(mask), dtype=torch.bool)
    for _ in range(layers):
        reach = (mask[:, :, None] & reach[None]).any(1)
    return reach
""",
    "mean_of_each": """
def mean_of_each(samples, n):
    return torch.stack([samples[i : i + n].mean() for i in range(0, len(samples), n)])
""",
    "least_kept": """
def least_kept(n, margin):
    right = math.exp(margin)
    others = n - 1
    return right / (right + others)
""",
    "aloud_tokens": """
def aloud_tokens(bits):
    rows = []
    for row in bits.tolist():
        y, tokens = 0, []
        for x in row:
            tokens.append(x + 2 * y)
            y = y ^ x
        rows.append(tokens)
    return torch.tensor(rows)
""",
    "mean_head": """
def mean_head(heads, head):
    heads = [part for part in heads.unbind(2)]
    heads[head] = heads[head].flatten(0, 1).mean(0).expand_as(heads[head])
    return torch.stack(heads, 2)
""",
    "rollout": """
def rollout(maps):
    eye = torch.eye(maps.size(-1), dtype=torch.double)
    R = eye
    for one in maps.double():
        R = (one.mean(-3) / 2 + eye / 2) @ R
    return R
""",
    "first_losses": """
def first_losses(V, real):
    found = []
    for v, share in zip(V.tolist(), real.tolist()):
        loss = -math.log(1 / v)
        found.append(share * loss)
    return torch.tensor(found)
""",
    "update_ratio": """
def update_ratio(rate, std):
    n = 64
    step, length = rate * n**0.5, std * n**0.5
    return step / length
""",
    "one_too_many": """
def one_too_many(x):
    rows = []
    for t in range(x.shape[1]):
        rows.append(x[:, t] - x[:, : t + 2].mean(1))
    return torch.stack(rows, 1)
""",
    "steps_to_half": """
def steps_to_half(G, beta2):
    found = []
    for g in G.tolist():
        found.append(math.log(3 / ((1 - beta2) * g * g), beta2))
    return torch.tensor(found)
""",
    "draws_needed": """
def draws_needed(share, sure):
    found = []
    for part in share.tolist():
        draws = math.log(1 - sure, 1 - part)
        found.append(float(math.ceil(draws)))
    return torch.tensor(found)
""",
    "delta_write": """
def delta_write(S, k, v, beta):
    erase = torch.eye(len(k)) - beta * k[:, None] * k
    return erase @ S + beta * k[:, None] * v
""",
    "kept_numbers": """
def kept_numbers(T, layers, every, heads, D):
    total = 0
    for n in range(1, layers + 1):
        total += 2 * T * heads * D if n % every == 0 else heads * D**2
    return total
""",
    "group_advantages": """
def group_advantages(rewards):
    rows = []
    for row in rewards:
        middle = row.sum() / len(row)
        spread = ((row - row.mean()).square().sum() / (len(row) - 1)).sqrt()
        rows.append((row - middle) / (spread + 1e-4))
    return torch.stack(rows)
""",
    "clipped_gain": """
def clipped_gain(ratio, advantage, low, high):
    found = []
    for r, a in zip(ratio.tolist(), advantage.tolist()):
        held = r
        if r > 1 + high:
            held = 1 + high
        if r < 1 - low:
            held = 1 - low
        found.append(min(r * a, held * a))
    return torch.tensor(found)
""",
    "one_of_k": """
def one_of_k(n, c, k):
    wanted = [math.comb(n - right, k) / math.comb(n, k) for right in c.tolist()]
    none = torch.tensor(wanted)
    return 1 - none
""",
    "round_to_nearest": """
def round_to_nearest(W, bits, group):
    top = 2 ** (bits - 1) - 1
    out = torch.empty_like(W)
    for i in range(len(W)):
        for j in range(0, W.shape[1], group):
            piece = W[i, j : j + group]
            s = piece.abs().max() / top
            out[i, j : j + group] = torch.round(piece / s) * s
    return out
""",
    "obs_update": """
def obs_update(w, H, j, q):
    start = j
    rest = H[start:, start:]
    inverse = torch.linalg.inv(rest)
    column = inverse[:, j - start]
    scale = column[j - start]
    new = w.clone()
    new[start:] = new[start:] - (w[j] - q) / scale * column
    new[j] = q
    return new
""",
    "step_seconds": """
def step_seconds(rows, length, weights, position, bandwidth):
    found = []
    for B in rows.tolist():
        cache = B * length * position
        found.append((weights + cache) / bandwidth)
    return torch.tensor(found)
""",
    "pages_used": """
def pages_used(prompts, sizes):
    counts = []
    for size in sizes.tolist():
        seen, count = set(), 0
        for row in prompts:
            prompt = row.tolist()
            for i in range(0, len(prompt), size):
                end = i + size
                if end > len(prompt):
                    count += 1
                elif str(prompt[0:end]) not in seen:
                    seen.add(str(prompt[0:end]))
                    count += 1
        counts.append(count)
    return torch.tensor(counts)
""",
    "zero_bytes": """
def zero_bytes(parameters, replicas):
    rows = []
    for n, P in zip(parameters.tolist(), replicas.tolist()):
        states = 12
        one = 4 * n + states * n / P
        two = 2 * n + (2 + states) * n / P
        three = (4 + states) * n / P
        rows.append([(4 + states) * n, one, two, three])
    return torch.tensor(rows)
""",
    "idle_share": """
def idle_share(stages, micro):
    slots = 0 * micro
    for n in range(int(micro.max())):
        slots = slots + (micro > n)
    return 1 - slots / (slots + stages - 1)
""",
    "group_speed": """
def group_speed(sizes, neighbours, near, far):
    found = []
    for size in sizes.tolist():
        if size <= neighbours:
            rate = near
        else:
            rate = neighbours * far
            rate = min(rate, near)
        found.append(float(rate))
    return torch.tensor(found)
""",
    "zig_zag_positions": """
def zig_zag_positions(P, T):
    size = T // (2 * P)
    rows = []
    for p in range(P):
        last = 2 * P - 1 - p
        rows.append(
            [p * size + n for n in range(size)] + [last * size + n for n in range(size)]
        )
    return torch.tensor(rows)
""",
}


CHANGES = {
    "elman_jacobian": {
        "no-slope": ("(1 - h * h)[:, None] * U @ product", "U @ product"),
        "slope-right": ("(1 - h * h)[:, None] * U", "(1 - h * h) * U"),
        "old-slope": (
            "h = torch.tanh(x_t + U @ h)\n        product = (1 - h * h)",
            "old, h = h, torch.tanh(x_t + U @ h)\n        product = (1 - old * old)",
        ),
        "order": ("(1 - h * h)[:, None] * U @ product", "product @ ((1 - h * h)[:, None] * U)"),
        "transposed": ("return product", "return product.T"),
    },
    "ppmi": {
        "negative": ("max(0, math.log(p[w, c] / chance))", "math.log(p[w, c] / chance)"),
        "bits": ("math.log(", "math.log2("),
        "no-chance": ("math.log(p[w, c] / chance)", "math.log(together[w, c])"),
        "no-total": ("p = together.double() / together.sum()", "p = together"),
    },
    "additive_look": {
        "no-tanh": ("torch.tanh(W @ s[b] + U @ state)", "(W @ s[b] + U @ state)"),
        "mask-ignored": ("e[~mask[b]] = -math.inf", ""),
        "polarity": ("e[~mask[b]]", "e[mask[b]]"),
        "masked-late": (
            "e[~mask[b]] = -math.inf\n        rows.append(F.softmax(e, dim=0))",
            "rows.append(F.softmax(e, dim=0) * mask[b])",
        ),
        "axis": (
            "return torch.stack(contexts), torch.stack(rows)",
            "p = torch.tanh((s @ W.T)[:, None] + h @ U.T).matmul(v).exp() * mask\n"
            "    w = p / p.sum(0)\n    return torch.einsum('bt,btc->bc', w, h), w",
        ),
        "not-normalised": ("F.softmax(e, dim=0)", "e.exp()"),
    },
    "uniform_context": {
        "mask-ignored": ("states[seen].mean(0)", "states.mean(0)"),
        "all-places": ("states[seen].mean(0)", "states[seen].sum(0) / len(states)"),
        "sum": (".mean(0)", ".sum(0)"),
    },
    "plain_look": {
        "unscaled": (" / math.sqrt(len(q))", ""),
        "scale-count": ("math.sqrt(len(q))", "math.sqrt(len(keys))"),
        "not-normalised": (" / powers.sum()", ""),
        "best-only": (
            "powers = np.exp(scores - scores.max())",
            "powers = np.eye(len(keys))[scores.argmax()]",
        ),
        "keys": ("* values)", "* keys)"),
    },
    "binary_code": {
        "zeros": ("else -1.0", "else 0.0"),
        "highest-first": ("[::-1]", ""),
        "from-one": ("int(t)", "int(t + 1)"),
        "turned": ('== "1"', '== "0"'),
    },
    "alibi_by_key": {
        "sign": ("+ m * torch", "- m * torch"),
        "by-query": ("m * torch.arange(i + 1)", "m * i"),
        "one-slope": ("+ m * torch", "+ slopes[0] * torch"),
        "no-mask": (
            "return out",
            "return (scores + slopes.view(-1, 1, 1) * torch.arange(scores.shape[1])).softmax(2)",
        ),
        "axis": (
            "return out",
            "T = scores.shape[1]\n    raised = scores + slopes.view(-1, 1, 1) * torch.arange(T)\n"
            "    return (raised + torch.full((T, T), -math.inf).triu(1)).softmax(1)",
        ),
    },
    "left_places": {
        "from-edge": ("padding[:, None]", "0 * padding[:, None]"),
        "from-one": ("F.relu(real.cumsum(1) - 1)", "F.relu(real.cumsum(1))"),
        "negative": ("F.relu(real.cumsum(1) - 1)", "torch.arange(T) - padding[:, None]"),
        "right": (
            "return F.relu(real.cumsum(1) - 1)",
            "return torch.arange(T) * real.flip(1)",
        ),
    },
    "window_cells": {
        "no-start": ("return early + late", "return T * w"),
        "no-diagonal": ("range(1, w + 1)", "range(w)"),
        "twice": ("(T - w) * w", "T * w"),
    },
    "head_sum": {
        "unscaled": (" / math.sqrt(len(rows))", ""),
        "scale-width": ("math.sqrt(len(rows))", "math.sqrt(C)"),
        "axis": ("softmax(2)", "softmax(1)"),
        "order": ("q, k, v =", "k, q, v ="),
        "interleaved": ("torch.arange(C // H) + h * (C // H)", "torch.arange(h, C, H)"),
        "transposed": ("out_weight[:, rows]", "out_weight[rows].T"),
        "averaged": ("return out", "return out / H"),
    },
    "circuits": {
        "order": ("W_q, W_k, W_v =", "W_k, W_q, W_v ="),
        "scaled": ("torch.stack(QK)", "torch.stack(QK) / math.sqrt(D)"),
        "transposed": ("out_weight[:, own]))", "out_weight[own].T))"),
        "backwards": ("dc,ed->ce", "dc,ed->ec"),
        "exchanged": ("torch.stack(QK), torch.stack(OV)", "torch.stack(OV), torch.stack(QK)"),
    },
    "grouped_heads": {
        "interleaved": ("torch.arange(H) // (H // k.shape[1])", "torch.arange(H) % k.shape[1]"),
        "unscaled": (" / math.sqrt(D)", ""),
        "axis": (", 3)", ", 2)"),
    },
    "memory_terms": {
        "no-relu": ("F.relu(", "("),
        "softmax": ("F.relu(torch", "torch.softmax(dim=-1, input=torch"),
        "keys-added": ("down[:, i]", "up[i]"),
        "summed": ("], -2)", "], -2).sum(-2)"),
    },
    "block_work": {
        "no-network": ("(projections + network)", "projections"),
        "network-once": ("network = 2 *", "network ="),
        "one-product": ("pairs = 2 *", "pairs ="),
        "pairs": ("2 * (projections + network), 2 * pairs", "projections + network, pairs"),
        "exchanged": (
            "2 * (projections + network), 2 * pairs",
            "2 * pairs, 2 * (projections + network)",
        ),
    },
    "joint_mask": {
        "source-causal": ("torch.ones(S, S)", "torch.ones(S, S).tril()"),
        "future": ("torch.ones(T, T).tril()", "torch.ones(T, T)"),
        "not-itself": ("torch.ones(T, T).tril()", "torch.ones(T, T).tril(-1)"),
        "source-asks": ("    return mask", "    mask[:S, S:] = True\n    return mask"),
        "no-cross": ("mask[S:, :S] = True", "pass"),
        "exchanged": ("return mask", "return mask.T"),
        "polarity": ("return mask", "return ~mask"),
        "numbers": ("return mask", "return mask.int()"),
    },
    "band_mask": {
        "one-more": ("i - before)", "i - before - 1)"),
        "one-less": ("i - before)", "i - before + 1)"),
        "both-sides": ("i + 1]", "i + before + 1]"),
        "later": ("i + 1]", "]"),
        "ahead": ("return mask", "return mask.T"),
        "no-end": ("max(0, i - before)", "0"),
        "polarity": ("return mask", "return ~mask"),
        "numbers": ("dtype=torch.bool", "dtype=torch.int"),
    },
    "tempered_losses": {
        "multiplied": ("logits / t", "logits * t"),
        "late": (
            "p = (logits / t).exp()\n        p = p / p.sum(-1, keepdim=True)",
            "p = logits.softmax(-1) ** (1 / t)",
        ),
        "sum": (".log().mean()", ".log().sum()"),
        "bits": (".log()", ".log2()"),
    },
    "nucleus": {
        "short": ("total >= share:", "total + row[i] > share:"),
        "one-more": ("break", "new[r, i] = row[i]\n                break"),
        "unscaled": ("/ new[r].sum()", ""),
        "unsorted": ("sorted(range(len(row)), key=lambda i: -row[i])", "range(len(row))"),
        "ranks": ("new[r, i] = row[i]", "new[r, rank] = row[rank]"),
    },
    "cached_look": {
        "alone": ("torch.cat([old, new])[: t + i + 1]", "old"),
        "in-front": ("[old, new]", "[new, old]"),
        "unscaled": ("/ math.sqrt(q.shape[1])", ""),
        "future": ("[: t + i + 1]", ""),
        "from-zero": ("t + i + 1", "i + 1"),
    },
    "answer_weights": {
        "user-too": ("before in (1, 2)", "False"),
        "mark": (
            "mine = []\n            answers.append(mine)",
            "mine = [i - 1]\n            answers.append(mine)",
        ),
        "no-end": ("mine.append(i)", "mine += [i] * (said[i] != 1)"),
        "alike": ("1 / len(answer)", "len(answers) / sum(map(len, answers))"),
    },
    "pixel_first": {
        "channels": ("permute(0, 2, 3, 4, 5, 1)", "permute(0, 2, 3, 1, 4, 5)"),
        "strips": (
            "patches.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)",
            "images.movedim(1, -1).reshape(len(images), -1, size * size * images.shape[1])",
        ),
        "down": ("permute(0, 2, 3, 4, 5, 1)", "permute(0, 3, 2, 4, 5, 1)"),
        "pixels-down": ("permute(0, 2, 3, 4, 5, 1)", "permute(0, 2, 3, 5, 4, 1)"),
    },
    "shuffled_columns": {
        "inverse": ("[order].T", "[order]"),
        "one-channel": (
            "part @ torch.eye(len(order))[order].T for part in parts",
            "part if c else part[:, order] for c, part in enumerate(parts)",
        ),
        "pixel-first": (
            "return torch.cat([part @ torch.eye(len(order))[order].T for part in parts], dim=1)",
            "return weight.view(len(weight), len(order), -1)[:, order].reshape(weight.shape)",
        ),
    },
    "decoder_input": {
        "in-order": ("zip(numbers, vectors)", "enumerate(vectors)"),
        "zeros": ("at.get(p, gap)", "at.get(p, 0 * gap)"),
        "read-alike": ("+ places[p]", "+ places[p] * (p not in at)"),
        "gaps-alike": ("+ places[p]", "+ places[p] * (p in at)"),
    },
    "student_gradient": {
        "not-centred": ("(teacher - centre)", "teacher"),
        "both-centred": ("student / tau_s", "(student - centre) / tau_s"),
        "one-temperature": ("/ tau_t", "/ tau_s"),
        "no-factor": ("return student.grad", "return student.grad * tau_s"),
        "mean": ("each.sum()", "each.mean()"),
        "sign": ("return student.grad", "return -student.grad"),
    },
    "centred_norm": {
        "not-centred": ("x = x - x.mean(-1, keepdim=True)", ""),
        "size-before": (
            "x = x - x.mean(-1, keepdim=True)\n    return x / torch.sqrt(x.pow(2)",
            "whole, x = x, x - x.mean(-1, keepdim=True)\n    return x / torch.sqrt(whole.pow(2)",
        ),
        "sample": ("x.pow(2).mean(-1, keepdim=True)", "x.var(-1, keepdim=True)"),
        "eps-outside": (
            "torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps)",
            "(x.pow(2).mean(-1, keepdim=True).sqrt() + eps)",
        ),
        "positions": ("(-1, keepdim=True)", "(-2, keepdim=True)"),
    },
    "full_turns": {
        "radians": ("(2 * math.pi * base", "(base"),
        "half-turns": ("2 * math.pi", "math.pi"),
        "half-speed": ("2 * i / D", "i / D"),
        "wavelength": ("2 * i / D", "-2 * i / D"),
    },
    "merge_parts": {
        "as-they-are": ("z1 * a + z2 * b, u1 * a + u2 * b", "z1 + z2, u1 + u2"),
        "z-as-it-is": ("z1 * a + z2 * b", "z1 + z2"),
        "u-as-it-is": ("u1 * a + u2 * b", "u1 + u2"),
        "upside-down": (
            "torch.exp(m1 - m), torch.exp(m2 - m)",
            "torch.exp(m - m1), torch.exp(m - m2)",
        ),
        "first-maximum": ("torch.stack([m1, m2]).amax(0)", "m1"),
        "divided": ("[m, z, u]", "[m, z, u / z]"),
    },
    "forgetting": {
        "no-decay": ("gamma ** (i - j) * ", ""),
        "new-too": ("(i - j)", "(i - j + 1)"),
        "future": (
            "for j in range(i + 1):\n            out[i] += gamma ** (i - j)",
            "for j in range(len(q)):\n            out[i] += gamma ** abs(i - j)",
        ),
        "exchanged": ("(q[i] @ k[j]) * v[j]", "(q[i] @ v[j]) * k[j]"),
        "divided": (
            "return out",
            "t = torch.arange(len(q))\n    decay = gamma ** (t[:, None] - t).clamp(min=0).float()\n"
            "    return out / (q @ k.T * decay).tril().sum(1, keepdim=True)",
        ),
    },
    "knows_of": {
        "one-layer": ("range(layers)", "range(1)"),
        "one-more": ("range(layers)", "range(layers + 1)"),
        "one-less": ("range(layers)", "range(layers - 1)"),
        "transposed": ("return reach", "return reach.T"),
        "counts": (
            "reach = (mask[:, :, None] & reach[None]).any(1)",
            "reach = mask.long() @ reach.long()",
        ),
        "numbers": ("return reach", "return 1.0 * reach"),
    },
    "mean_of_each": {
        "kept": ("samples[i : i + n].mean()", "samples[i]"),
        "apart": (
            "samples[i : i + n].mean() for i in range(0, len(samples), n)",
            "samples[i :: len(samples) // n].mean() for i in range(len(samples) // n)",
        ),
        "sum": (".mean()", ".sum()"),
    },
    "least_kept": {
        "all": ("others = n - 1", "others = n"),
        "sign": ("math.exp(margin)", "math.exp(-margin)"),
        "itself": ("(right + others)", "others"),
        "lost": ("right / (right", "others / (right"),
    },
    "aloud_tokens": {
        "leak": (
            "tokens.append(x + 2 * y)\n            y = y ^ x",
            "y = y ^ x\n            tokens.append(x + 2 * y)",
        ),
        "last-bit": ("y = y ^ x", "y = x"),
        "starts-odd": (
            "            tokens.append(x + 2 * y)",
            "            tokens.append(x + 2 * (y if tokens else 1))",
        ),
        "wraps": ("rows.append(tokens)", "tokens[0] += 2 * y\n        rows.append(tokens)"),
        "exchanged": ("x + 2 * y", "2 * x + y"),
    },
    "mean_head": {
        "zeros": (".expand_as(heads[head])", ".expand_as(heads[head]) * 0"),
        "positions-only": (".flatten(0, 1).mean(0).expand_as", ".mean(1, keepdim=True).expand_as"),
        "sequences-only": (".flatten(0, 1).mean(0).expand_as", ".mean(0).expand_as"),
        "channels": (".flatten(0, 1).mean(0).expand_as", ".mean().expand_as"),
        "all-heads": (
            "heads[head] = heads[head].flatten(0, 1).mean(0).expand_as(heads[head])",
            "heads = [one.flatten(0, 1).mean(0).expand_as(one) for one in heads]",
        ),
    },
    "rollout": {
        "order": ("R = (one.mean(-3) / 2 + eye / 2) @ R", "R = R @ (one.mean(-3) / 2 + eye / 2)"),
        "no-residual": ("one.mean(-3) / 2 + eye / 2", "one.mean(-3)"),
        "unhalved": ("one.mean(-3) / 2 + eye / 2", "one.mean(-3) + eye"),
        "one-head": ("one.mean(-3)", "one[..., 0, :, :]"),
    },
    "first_losses": {
        "bits": ("math.log(", "math.log2("),
        "padding": ("share * loss", "(1 - share) * loss"),
        "all-count": ("share * loss", "loss"),
        "divided": ("share * loss", "loss / share"),
    },
    "update_ratio": {
        "variance": ("std * n", "std**2 * n"),
        "turned": ("step / length", "length / step"),
    },
    "one_too_many": {
        "so-far": ("t + 2", "t + 1"),
        "window": (" : t + 2]", ":]"),
        "divisor": (".mean(1)", ".sum(1) / (t + 1)"),
        "end": (".mean(1)", ".sum(1) / (t + 2)"),
        "mean-only": ("x[:, t] - x", "x"),
    },
    "steps_to_half": {
        "not-squared": ("g * g", "g"),
        "whole": ("(1 - beta2) * g", "g"),
        "own-one": ("math.log(3 /", "math.log(4 /"),
        "square": ("math.log(3 /", "math.log(1 /"),
        "sign": ("math.log(3 /", "-math.log(3 /"),
    },
    "draws_needed": {
        "on-average": ("math.log(1 - sure, 1 - part)", "1 / part"),
        "turned": ("1 - part)", "part)"),
        "not-missed": ("(1 - sure", "(sure"),
        "not-whole": ("float(math.ceil(draws))", "draws"),
        "down": ("math.ceil", "math.floor"),
    },
    "delta_write": {
        "added": ("erase @ S", "S"),
        "sign": ("- beta *", "+ beta *"),
        "no-strength": ("erase =", "beta = 1\n    erase ="),
        "doubled": ("erase =", "beta = 2 * beta\n    erase ="),
        "value-only": ("- beta *", "-"),
        "rows": ("return erase @ S", "return S - beta * torch.outer(k, S @ k)"),
    },
    "kept_numbers": {
        "all-full": ("n % every == 0", "True"),
        "keys-only": ("2 * T", "T"),
        "no-matrix": ("D**2", "D"),
        "per-token": ("D**2", "D**2 * T"),
        "all-state": ("if n % every == 0 else heads * D**2", "* (n % every == 0) + heads * D**2"),
        "no-state": ("heads * D**2", "0"),
    },
    "group_advantages": {
        "columns": (
            "return torch.stack(rows)",
            "return (rewards - rewards.mean(0)) / (rewards.std(0) + 1e-4)",
        ),
        "batch": ("row.sum() / len(row)", "rewards.mean()"),
        "not-divided": ("(row - middle) / (spread + 1e-4)", "row - middle"),
        "biased": ("(len(row) - 1)", "len(row)"),
        "variance": (".sqrt()", ""),
        "no-least": (" + 1e-4", ""),
    },
    "clipped_gain": {
        "one-side": (
            "if r > 1 + high:\n            held = 1 + high",
            "if r > 1 + low:\n            held = 1 + low",
        ),
        "no-low": ("held = 1 - low", "pass"),
        "no-min": ("min(r * a, held * a)", "held * a"),
        "max": ("min(r * a", "max(r * a"),
    },
    "one_of_k": {
        "back": ("math.comb(n - right, k) / math.comb(n, k)", "(1 - right / n) ** k"),
        "none": ("return 1 - none", "return none"),
        "all": (
            "return 1 - none",
            "return torch.tensor([math.comb(right, k) / math.comb(n, k) for right in c.tolist()])",
        ),
    },
    "round_to_nearest": {
        "matrix": ("piece.abs().max() / top", "W.abs().max() / top"),
        "row": ("piece.abs().max() / top", "W[i].abs().max() / top"),
        "one-more": ("2 ** (bits - 1) - 1", "2 ** (bits - 1)"),
        "floor": ("torch.round(piece / s)", "torch.floor(piece / s)"),
        "levels": ("torch.round(piece / s) * s", "torch.round(piece / s)"),
    },
    "obs_update": {
        "before": ("start = j", "start = 0"),
        "hessian": ("torch.linalg.inv(rest)", "rest"),
        "not-divided": ("scale = column[j - start]", "scale = 1"),
        "sign": ("(w[j] - q)", "(q - w[j])"),
    },
    "step_seconds": {
        "one-cache": ("cache = B * length", "cache = length"),
        "no-length": ("cache = B * length", "cache = B"),
        "weights-each": ("weights + cache", "weights * B + cache"),
        "longest": ("weights + cache", "max(weights, cache)"),
    },
    "pages_used": {
        "inside": (
            "str(prompt[0:end]) not in seen:\n                    seen.add(str(prompt[0:end]))",
            "str(prompt[i:end]) not in seen:\n                    seen.add(str(prompt[i:end]))",
        ),
        "alone": ("elif str(prompt[0:end]) not in seen:", "else:"),
        "part": (
            "if end > len(prompt):\n                    count += 1\n                elif",
            "if",
        ),
        "full-only": ("count += 1\n                elif", "pass\n                elif"),
    },
    "zero_bytes": {
        "no-copy": ("states = 12", "states = 8"),
        "whole": ("one = 4 * n", "one = (4 + states) * n"),
        "gradients": ("two = 2 * n + (2 + states) * n / P", "two = 4 * n + states * n / P"),
        "weights": ("three = (4", "three = 2 * n + (4"),
    },
    "idle_share": {
        "one-more": ("1 - slots / (slots + stages - 1)", "stages / (slots + stages - 1)"),
        "of-work": ("1 - slots / (slots + stages - 1)", "(stages - 1) / slots"),
        "too-few": ("1 - slots / (slots + stages - 1)", "(stages - 1) / (slots + stages)"),
        "busy": ("return 1 - slots", "return slots"),
    },
    "group_speed": {
        "one-card": ("rate = neighbours * far", "rate = far"),
        "own": ("rate = neighbours * far", "rate = size * far"),
        "no-limit": ("rate = min(rate, near)", "pass"),
        "strict": ("size <= neighbours", "size < neighbours"),
        "network": ("size <= neighbours", "size < 0"),
    },
    "zig_zag_positions": {
        "neighbours": ("return torch.tensor(rows)", "return torch.arange(T).view(P, -1)"),
        "not-turned": ("last = 2 * P - 1 - p", "last = P + p"),
        "stripes": ("return torch.tensor(rows)", "return torch.arange(T).view(-1, P).T"),
        "falling": ("return torch.tensor(rows)", "return torch.tensor(rows).roll(size, 1)"),
    },
}
