"""Lab 2 as students write it: right in unusual ways, and typical mistakes, alone and in pairs."""

from mistaken import each_and_pairs

BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"

PARTS = """
def additive_scores(query, keys, to_query, to_key, v):
    return torch.tanh((query @ to_query.T)[:, None] + keys @ to_key.T) @ v


def look_back(scores, states, mask):
    w = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return torch.einsum("bt,btc->bc", w, states), w


def gru_step(x, s, W, U, b):
    (xr, xz, xn), (sr, sz, sn) = (x @ W.T + b).chunk(3, -1), (s @ U.T).chunk(3, -1)
    z = torch.sigmoid(xz + sz)
    return z * s + (1 - z) * torch.tanh(xn + torch.sigmoid(xr + sr) * sn)
"""
STEP = """
def decoder_step(y, s, states, mask, to_query, to_key, v, W, U, b):
    c, w = look_back(additive_scores(s, states, to_query, to_key, v), states, mask)
    return gru_step(torch.cat([y, c], -1), s, W, U, b), c, w
"""
CONTEXT = {"decoder_step": PARTS, "teacher_forced": PARTS + STEP}


def own(code, mark):
    """The code with helpers of names of its own: no other cell's take their place."""
    for name in ("additive_scores", "look_back", "gru_step", "decoder_step"):
        code = code.replace(name, f"{mark}_{name}")
    return code


RIGHT = {
    "additive_scores": [
        """
        def additive_scores(query, keys, to_query, to_key, v):
            out = torch.zeros(keys.shape[:2])
            for b in range(len(keys)):
                for t in range(keys.shape[1]):
                    inner = to_query @ query[b] + to_key @ keys[b, t]
                    out[b, t] = (v * inner.tanh()).sum()
            return out
        """,
        """
        def additive_scores(query, keys, to_query, to_key, v):
            query, keys, to_query, to_key, v = (
                a.double() for a in (query, keys, to_query, to_key, v)
            )
            e = torch.einsum("bd,ad->ba", query, to_query)[:, None, :]
            e = 1 - 2 / (torch.exp(2 * (e + torch.einsum("btc,ac->bta", keys, to_key))) + 1)
            return torch.einsum("bta,a->bt", e, v).float()
        """,
        """
        def additive_scores(query, keys, to_query, to_key, v):
            asking = query.unsqueeze(1).expand(-1, keys.size(1), -1)
            both = F.linear(torch.cat([asking, keys], dim=2), torch.cat([to_query, to_key], dim=1))
            return F.linear(both.tanh_(), v[None]).squeeze(2)
        """,
    ],
    "look_back": [
        """
        def look_back(scores, states, mask):
            weights = scores.clone().masked_fill_(~mask, -math.inf).softmax(1)
            return (weights[:, None] @ states)[:, 0], weights
        """,
        """
        def look_back(scores, states, mask):
            largest = scores.where(mask, -math.inf).amax(1, keepdim=True)
            powers = torch.where(mask, (scores - largest).exp(), 0.0)
            weights = powers / powers.sum(1, keepdim=True)
            return torch.bmm(weights[:, None], states)[:, 0], weights
        """,
        """
        def look_back(scores, states, mask):
            scores = scores.clone()
            scores[mask == False] = -1e9
            w = F.log_softmax(scores.double(), dim=1).exp().float()
            return (w.unsqueeze(1) @ states).squeeze(1), w
        """,
    ],
    "gru_step": [
        """
        def gru_step(x, s, W, U, b):
            D = s.shape[1]
            r = torch.sigmoid(F.linear(x, W[:D], b[:D]) + F.linear(s, U[:D]))
            z = torch.sigmoid(F.linear(x, W[D:-D], b[D:-D]) + F.linear(s, U[D:-D]))
            n = torch.tanh(F.linear(x, W[-D:], b[-D:]) + r * F.linear(s, U[-D:]))
            return torch.lerp(n, s, z)
        """,
        """
        def gru_step(x, s, W, U, b):
            x, s, W, U, b = (a.double() for a in (x, s, W, U, b))
            D = s.size(1)
            gates = torch.cat([x, s], 1) @ torch.cat([W, U], 1)[: 2 * D].T + b[: 2 * D]
            gates = 1 / (1 + torch.exp(-gates))
            n = torch.tanh(x @ W[2 * D :].T + gates[:, :D] * (s @ U[2 * D :].T) + b[2 * D :])
            return (n + gates[:, D:] * (s - n)).float()
        """,
        """
        def gru_step(x, s, W, U, b):
            new = torch.empty_like(s)
            D = s.shape[1]
            for i in range(len(x)):
                a, c = W @ x[i] + b, U @ s[i]
                for d in range(D):
                    r = (a[d] + c[d]).sigmoid()
                    z = (a[D + d] + c[D + d]).sigmoid()
                    n = (a[2 * D + d] + r * c[2 * D + d]).tanh()
                    new[i, d] = z * s[i, d] + n - z * n
            return new
        """,
    ],
    "decoder_step": [
        """
        def decoder_step(y, s, states, mask, *weights):
            c, w = look_back(additive_scores(s, states, *weights[:3]), states, mask)
            return [gru_step(torch.hstack([y, c]), s, *weights[3:]), c, w]
        """,
        """
        def decoder_step(y, s, states, mask, to_query, to_key, v, W, U, b):
            e = torch.tanh(F.linear(s, to_query).unsqueeze(1) + F.linear(states, to_key)) @ v
            a = torch.softmax(e + torch.zeros_like(e).masked_fill(mask.logical_not(), -1e12), 1)
            c = (a[..., None] * states).sum(1)
            E, D = y.shape[1], s.shape[1]
            inner = y @ W[:, :E].T + c @ W[:, E:].T + b
            outer = s @ U.T
            r, z = (inner + outer)[:, : 2 * D].sigmoid().split(D, 1)
            n = (inner[:, 2 * D :] + r * outer[:, 2 * D :]).tanh()
            return (1 - z) * n + z * s, c, a
        """,
        """
        def decoder_step(y, s, states, mask, to_query, to_key, v, W, U, b):
            rows = []
            for i in range(len(y)):
                h = states[i : i + 1, mask[i]]
                everything = torch.ones(1, h.shape[1], dtype=torch.bool)
                e = additive_scores(s[i : i + 1], h, to_query, to_key, v)
                c, w = look_back(e, h, everything)
                new = gru_step(torch.cat([y[i : i + 1], c], 1), s[i : i + 1], W, U, b)
                rows.append((new, c, F.pad(w, (0, states.shape[1] - w.shape[1]))))
            return tuple(torch.cat(parts) for parts in zip(*rows))
        """,
    ],
    "teacher_forced": [
        """
        def teacher_forced(target, begin, s, states, mask, *weights):
            B, Tq, _ = target.shape
            all_s, all_c = torch.zeros(B, Tq, s.shape[1]), torch.zeros(B, Tq, states.shape[2])
            all_w = torch.zeros(B, Tq, states.shape[1])
            for i in range(Tq):
                y = target[:, i - 1] if i else begin.repeat(B, 1)
                s, all_c[:, i], all_w[:, i] = decoder_step(y, s, states, mask, *weights)
                all_s[:, i] = s
            return all_s, all_c, all_w
        """,
        """
        def teacher_forced(target, begin, s, states, mask, *weights):
            begins = torch.broadcast_to(begin, (len(target), 1, len(begin)))
            inputs = torch.cat([begins, target], 1)[:, :-1].transpose(0, 1)
            found = []
            for y in inputs:
                found.append(decoder_step(y, s, states, mask, *weights))
                s = found[-1][0]
            return [torch.stack([one[n] for one in found]).transpose(0, 1) for n in range(3)]
        """,
        """
        def teacher_forced(target, begin, s, states, mask, to_query, to_key, v, W, U, b):
            first = begin.expand(target.shape[0], -1)
            parts = decoder_step(first, s, states, mask, to_query, to_key, v, W, U, b)
            parts = tuple(part.unsqueeze(1) for part in parts)
            if target.shape[1] == 1:
                return parts
            after = parts[0][:, 0]
            for token in target[:, :-1].unbind(1):
                more = decoder_step(token, after, states, mask, to_query, to_key, v, W, U, b)
                after = more[0]
                parts = tuple(torch.cat([old, new[:, None]], 1) for old, new in zip(parts, more))
            return parts
        """,
    ],
    "read_alignment": [
        """
        def read_alignment(weights, target_mask):
            spread = torch.special.entr(weights).sum(-1) / math.log(2)
            coverage = torch.einsum("bqk,bq->bk", weights, target_mask.to(weights.dtype))
            return weights.max(-1).indices, spread, coverage
        """,
        """
        def read_alignment(weights, target_mask):
            B, Tq, Tk = weights.shape
            place, spread = torch.zeros(B, Tq, dtype=torch.long), torch.zeros(B, Tq)
            coverage = torch.zeros(B, Tk)
            for b in range(B):
                for i in range(Tq):
                    row = weights[b, i].tolist()
                    place[b, i] = row.index(max(row))
                    spread[b, i] = sum(-a * math.log2(a) for a in row if a > 0)
                    if target_mask[b, i]:
                        coverage[b] += weights[b, i]
            return place, spread, coverage
        """,
        """
        def read_alignment(weights, target_mask):
            w = weights.double().numpy()
            with np.errstate(all="ignore"):
                parts = np.nan_to_num(w * np.log2(w))
            covered = np.where(target_mask.numpy()[..., None], w, 0).sum(1)
            return torch.from_numpy(w.argmax(-1)), -torch.from_numpy(parts).sum(-1), covered
        """,
        """
        def read_alignment(weights, target_mask):
            spread = -torch.xlogy(weights, weights).sum(2) / math.log(2)
            counted = weights.clone()
            counted[~target_mask] = 0
            return weights.argsort(-1, descending=True)[..., 0], spread, counted.sum(1)
        """,
    ],
}

GOOD = {
    "additive_scores": """
def additive_scores(query, keys, to_query, to_key, v):
    asked = query @ to_query.T
    told = keys @ to_key.T
    inner = asked.unsqueeze(1) + told
    return torch.tanh(inner) @ v
""",
    "look_back": """
def look_back(scores, states, mask):
    hidden = ~mask
    w = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=1)
    c = (w[:, :, None] * states).sum(1)
    return c, w
""",
    "gru_step": """
def gru_step(x, s, W, U, b):
    Wr, Wz, Wn = W.chunk(3)
    Ur, Uz, Un = U.chunk(3)
    br, bz, bn = b.chunk(3)
    r = torch.sigmoid(x @ Wr.T + s @ Ur.T + br)
    z = torch.sigmoid(x @ Wz.T + s @ Uz.T + bz)
    n = torch.tanh(x @ Wn.T + r * (s @ Un.T) + bn)
    return z * s + (1 - z) * n
""",
    "decoder_step": own(PARTS + STEP, "my").replace("my_decoder_step", "decoder_step"),
    "teacher_forced": own(PARTS + STEP, "our")
    + """
def teacher_forced(target, begin, s, states, mask, *weights):
    y, start, steps = begin.expand(len(target), -1), s, []
    for i in range(target.shape[1]):
        before = s
        s, c, w = our_decoder_step(y, before, states, mask, *weights)
        steps.append((s, c, w))
        y = target[:, i]
    return tuple(torch.stack(parts, 1) for parts in zip(*steps))
""",
    "read_alignment": """
def read_alignment(weights, target_mask):
    place = weights.argmax(-1)
    spread = -(weights * torch.log2(weights + (weights == 0))).sum(-1)
    counted = weights * target_mask[:, :, None]
    return place, spread, counted.sum(1)
""",
}
RENEW = ("z * s + (1 - z) * ", "(1 - z) * s + z * ")
CHANGES = {
    "additive_scores": {
        "no-tanh": ("torch.tanh(inner)", "inner"),
        "tanh-last": ("torch.tanh(inner) @ v", "torch.tanh(inner @ v)"),
        "apart": ("torch.tanh(inner)", "(asked.tanh()[:, None] + told.tanh())"),
        "query-tanh": ("torch.tanh(inner)", "(torch.tanh(asked)[:, None] + told)"),
        "product": (".unsqueeze(1) + told", ".unsqueeze(1) * told"),
        "no-query": ("asked.unsqueeze(1) + told", "told"),
        "sigmoid": ("torch.tanh(inner)", "torch.sigmoid(inner)"),
        "v-left-out": ("torch.tanh(inner) @ v", "torch.tanh(inner).sum(dim=2)"),
        "v-inside": ("torch.tanh(inner) @ v", "torch.tanh(inner * v).sum(2)"),
        "one-query": ("asked.unsqueeze(1)", "asked[0]"),
        "averaged": ("torch.tanh(inner) @ v", "(torch.tanh(inner) * v).mean(2)"),
        "softmax": ("torch.tanh(inner) @ v", "torch.softmax(torch.tanh(inner) @ v, dim=1)"),
        "scaled": ("@ v", "@ v / math.sqrt(v.shape[0])"),
        "query-to-place": ("asked.unsqueeze(1)", "asked"),
        "swapped": (
            "    asked =",
            "    to_key, to_query = to_query, to_key\n    asked =",
        ),
        "transposed": (
            "    asked =",
            "    to_query, to_key = to_query.T, to_key.T\n    asked =",
        ),
    },
    "look_back": {
        "mask-ignored": ("hidden = ~mask", "hidden = mask & ~mask"),
        "polarity": ("hidden = ~mask", "hidden = mask"),
        "zero-score": ('float("-inf")', "0.0"),
        "after": (
            'softmax(scores.masked_fill(hidden, float("-inf")), dim=1)',
            "softmax(scores, dim=1).masked_fill(hidden, 0)",
        ),
        "finite": ('float("-inf")', "-20.0"),
        "repaired": (
            'torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=1)',
            "torch.softmax(scores, dim=1) * mask\n    w = w / w.sum(dim=1)[:, None]",
        ),
        "axis": ("dim=1", "dim=0"),
        "mean": (
            "w[:, :, None] * states",
            "(~hidden / (~hidden).sum(1)[:, None])[..., None] * states",
        ),
        "averaged": ("states).sum(1)", "states).mean(1)"),
        "results-order": ("return c, w", "return w, c"),
        "global-max": (
            'torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=1)',
            "torch.exp(scores - scores[mask].max()) * ~hidden\n    w = w / w.sum(1, keepdim=True)",
        ),
        "no-shift": (
            'torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=1)',
            "torch.exp(scores) * ~hidden\n    w = w / w.sum(1, keepdim=True)",
        ),
    },
    "gru_step": {
        "renew": RENEW,
        "on-all": ("x @ Wn.T + r * (s @ Un.T) + bn", "r * (x @ Wn.T + s @ Un.T + bn)"),
        "order": (
            "Wr, Wz, Wn = W.chunk(3)",
            "D = s.shape[1]\n    at = torch.arange(3 * D).reshape(3, D)[[1, 0, 2]].flatten()\n"
            "    W, U, b = W[at], U[at], b[at]\n    Wr, Wz, Wn = W.chunk(3)",
        ),
        "reset-first": ("r * (s @ Un.T)", "(r * s) @ Un.T"),
        "bias-inside": ("r * (s @ Un.T) + bn", "r * (s @ Un.T + bn)"),
        "on-input": ("x @ Wn.T + r * (s @ Un.T)", "r * (x @ Wn.T) + s @ Un.T"),
        "no-reset": ("r * (s @ Un.T)", "(s @ Un.T)"),
        "no-content-bias": (" + bn", ""),
        "whole-content": ("(1 - z) * n", "n"),
        "no-bias": ("br, bz, bn = b.chunk(3)", "br = bz = bn = 0"),
        "no-sigmoid": ("torch.sigmoid(", "("),
        "no-tanh": ("torch.tanh(", "("),
        "sigmoid": ("torch.tanh(", "torch.sigmoid("),
    },
    "decoder_step": {
        "context-first": ("[y, c]", "[c, y]"),
        "mask-ignored": (", mask)\n", ", torch.ones_like(mask))\n"),
        "asks-with-token": ("additive_scores(s, states", "additive_scores(y, states"),
        "asks-after": (
            "    return my_gru_step(torch.cat([y, c], -1), s, W, U, b), c, w",
            "    s = my_gru_step(torch.cat([y, c], -1), s, W, U, b)\n"
            "    return s, *my_look_back("
            "my_additive_scores(s, states, to_query, to_key, v), states, mask)",
        ),
        "asks-ahead": (
            "additive_scores(s, states",
            "additive_scores(my_gru_step(torch.cat([y, 0 * states[:, 0]], -1), s, W, U, b), states",
        ),
        "projected": ("v), states, mask", "v), states @ to_key.T, mask"),
        "softmax-twice": ("v), states, mask", "v).softmax(-1), states, mask"),
        "scores-back": (
            "b), c, w",
            "b), c, my_additive_scores(s, states, to_query, to_key, v)",
        ),
        "cell-from-zeros": ("-1), s, W", "-1), 0 * s, W"),
        "context-added": ("-1), s, W", "-1), s + c, W"),
        "old-state": (
            "return my_gru_step(torch.cat([y, c], -1), s, W, U, b)",
            "return s",
        ),
        "results-order": ("b), c, w", "b), w, c"),
        "state-last": (
            "return my_gru_step(torch.cat([y, c], -1), s, W, U, b), c, w",
            "return c, w, my_gru_step(torch.cat([y, c], -1), s, W, U, b)",
        ),
        "renew": RENEW,
    },
    "teacher_forced": {
        "unshifted": (
            "        before = s\n",
            "        before = s\n        y = target[:, i]\n",
        ),
        "skipped": (
            "        before = s\n",
            "        before = s\n        y = target[:, i] if i else y\n",
        ),
        "no-begin": (
            "        before = s\n",
            "        before = s\n        y = target[:, i - 1]\n",
        ),
        "always-begin": ("        y = target[:, i]\n    return", "    return"),
        "zeros": ("begin.expand(len(target), -1)", "torch.zeros(len(target), len(begin))"),
        "two-late": (
            "        y = target[:, i]\n    return",
            "        y = target[:, i - 1] if i else y\n    return",
        ),
        "ahead": (
            "        y = target[:, i]\n    return",
            "        y = target[:, (i + 2) % target.shape[1]]\n    return",
        ),
        "one-too-few": ("range(target.shape[1])", "range(target.shape[1] - 1)"),
        "state-lost": ("before = s\n", "before = start\n"),
        "old-states": ("steps.append((s, c, w))", "steps.append((before, c, w))"),
        "mask-ignored": ("scores.masked_fill(~mask, -math.inf)", "scores"),
        "steps-first": ("torch.stack(parts, 1)", "torch.stack(parts)"),
        "last-only": ("torch.stack(parts, 1)", "parts[-1]"),
        "looked-once": (
            "tuple(torch.stack(parts, 1) for parts in zip(*steps))",
            "torch.stack([one[0] for one in steps], 1), c, w",
        ),
        "context-first": ("[y, c]", "[c, y]"),
        "renew": RENEW,
    },
    "read_alignment": {
        "nats": ("torch.log2(", "torch.log("),
        "negative": ("spread = -", "spread = "),
        "perplexity": ("    counted", "    spread = 2**spread\n    counted"),
        "place-axis": ("argmax(-1)", "argmax(1)"),
        "from-one": ("weights.argmax(-1)", "weights.argmax(-1) + 1"),
        "value": ("weights.argmax(-1)", "weights.max(-1).values"),
        "results-order": ("return place, spread,", "return spread, place,"),
        "blanked": (
            "    counted =",
            "    place, spread = place * target_mask, spread * target_mask\n    counted =",
        ),
        "coverage-axis": ("counted.sum(1)", "counted.sum(2)"),
        "coverage-mean": ("counted.sum(1)", "counted.mean(1)"),
        "padding-counts": ("weights * target_mask[:, :, None]", "weights"),
        "zero-nan": ("weights + (weights == 0)", "weights"),
        "shifted": ("weights + (weights == 0)", "weights + 0.01"),
        "shifted-little": ("weights + (weights == 0)", "weights + 1e-3"),
    },
}
PAIRS = {
    "additive_scores": [
        ("no-tanh", "scaled"),
        ("tanh-last", "query-to-place"),
        ("product", "swapped"),
        ("scaled", "transposed"),
        ("apart", "scaled"),
        ("transposed", "softmax"),
    ],
    "look_back": [
        ("polarity", "results-order"),
        ("zero-score", "axis"),
        ("mask-ignored", "axis"),
        ("mean", "results-order"),
        ("after", "results-order"),
        ("polarity", "axis"),
        ("no-shift", "results-order"),
        ("repaired", "results-order"),
    ],
    "gru_step": [
        ("renew", "no-bias"),
        ("renew", "reset-first"),
        ("no-bias", "no-tanh"),
        ("no-reset", "sigmoid"),
        ("order", "renew"),
        ("renew", "bias-inside"),
        ("no-sigmoid", "bias-inside"),
    ],
    "decoder_step": [
        ("context-first", "mask-ignored"),
        ("renew", "context-first"),
        ("asks-with-token", "results-order"),
        ("projected", "mask-ignored"),
        ("mask-ignored", "results-order"),
        ("mask-ignored", "state-last"),
    ],
    "teacher_forced": [
        ("unshifted", "steps-first"),
        ("always-begin", "state-lost"),
        ("old-states", "renew"),
        ("context-first", "unshifted"),
        ("skipped", "steps-first"),
        ("no-begin", "renew"),
        ("renew", "context-first"),
    ],
    "read_alignment": [
        ("nats", "padding-counts"),
        ("nats", "negative"),
        ("place-axis", "coverage-mean"),
        ("negative", "zero-nan"),
        ("padding-counts", "coverage-mean"),
        ("blanked", "zero-nan"),
        ("nats", "results-order"),
    ],
}
WRONG = each_and_pairs(GOOD, CHANGES, PAIRS)

# Right numbers, and something wrong beside them
WRONG += [
    (
        "additive_scores",
        """
        def additive_scores(query, keys, to_query, to_key, v):
            query, keys, W, U, v = (a.numpy() for a in (query, keys, to_query, to_key, v))
            return torch.from_numpy(np.tanh((query @ W.T)[:, None] + keys @ U.T) @ v)
        """,
        ["gradient"],
    ),
    (
        "look_back",
        """
        def look_back(scores, states, mask):
            weights = torch.zeros_like(scores)
            context = torch.zeros(len(states), states.shape[2])
            for b in range(len(scores)):
                weights[b, mask[b]] = scores[b, mask[b]].softmax(0)
                for t in range(scores.shape[1]):
                    context[b] += weights[b, t] * states[b, t]
            return context, weights
        """,
        ["gradient"],
    ),
    (
        "look_back",
        """
        def look_back(scores, states, mask):
            largest = np.array([max(r[m]) for r, m in zip(scores.numpy(), mask.numpy())])
            with np.errstate(over="ignore"):
                e = np.exp(scores.double().numpy() - largest[:, None])
            e[~mask.numpy()] = 0
            e /= e.sum(1, keepdims=True)
            mixed = (e[..., None] * states.numpy()).sum(1)
            return torch.tensor(mixed).float(), torch.tensor(e).float()
        """,
        ["gradient"],
    ),
    (
        "look_back",
        """
        def look_back(scores, states, mask):
            scores.masked_fill_(~mask, -math.inf)
            weights = scores.softmax(1)
            return (weights[:, None] @ states)[:, 0], weights
        """,
        ["in-place"],
    ),
    (
        "look_back",
        """
        def look_back(scores, states, mask):
            weights = scores.masked_fill(~mask, -math.inf).softmax(1)
            return (weights.detach()[:, None] @ states)[:, 0], weights
        """,
        ["gradient"],
    ),
    (
        "additive_scores",
        """
        def additive_scores(query, keys, to_query, to_key, v):
            inner = torch.tanh((query @ to_query.T)[:, None] + keys @ to_key.T)
            return inner @ torch.tensor(v.tolist())
        """,
        ["gradient"],
    ),
    (
        "gru_step",
        """
        def gru_step(x, s, W, U, b):
            D = s.shape[1]
            r = torch.sigmoid(x @ W[:D].T + s @ U[:D].T + b[:D])
            z = torch.sigmoid(x @ W[D:-D].T + s @ U[D:-D].T + b[D:-D]).detach()
            n = torch.tanh(x @ W[-D:].T + r * (s @ U[-D:].T) + b[-D:])
            return (1 - z) * n + z * s
        """,
        ["gradient"],
    ),
]
