"""Lab 5 as students write it: right in unusual ways, and typical mistakes, alone and in pairs."""

from mistaken import each_and_pairs

BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"

NORM = """
def norm(x, gain):
    return F.layer_norm(x, x.shape[-1:], gain)
"""
HEADS = """
def causal_heads(x, in_weight, out_weight, H):
    q, k, v = (a.unflatten(-1, (H, -1)).transpose(1, 2) for a in (x @ in_weight.T).chunk(3, -1))
    s = q @ k.mT / math.sqrt(q.shape[-1])
    see = torch.ones(s.shape[-2:], dtype=torch.bool).tril()
    w = s.masked_fill(~see, -math.inf).softmax(-1)
    return (w @ v).transpose(1, 2).flatten(2) @ out_weight.T, w
"""
CONTEXT = {"decoder_block": NORM + HEADS}

RIGHT = {
    "windows": [
        """
        def windows(ids, starts, length):
            cut = torch.stack([ids[s : s + length + 1] for s in starts.tolist()])
            return cut[:, :-1], cut[:, 1:]
        """,
        """
        def windows(ids, starts, length):
            every = ids.unfold(0, length + 1, 1)[starts]
            return every[:, :length], every[:, -length:]
        """,
        """
        def windows(ids, starts, length):
            inputs = np.zeros((len(starts), length), dtype=np.int64)
            targets = inputs.copy()
            for row in range(len(starts)):
                for t in range(length):
                    inputs[row, t] = ids[starts[row] + t]
                    targets[row, t] = ids[starts[row] + t + 1]
            return torch.from_numpy(inputs), torch.from_numpy(targets)
        """,
    ],
    "causal_heads": [
        """
        def causal_heads(x, in_weight, out_weight, H):
            B, T, C = x.shape
            D, out, maps = C // H, 0, []
            for h in range(H):
                q, k, v = (
                    F.linear(x, in_weight[n * C + h * D : n * C + (h + 1) * D]) for n in range(3)
                )
                s = torch.einsum("btd,bsd->bts", q, k) * D**-0.5
                s = s + torch.full((T, T), -math.inf).triu(1)
                maps.append(F.softmax(s, dim=2))
                out = out + maps[-1] @ v @ out_weight[:, h * D : (h + 1) * D].T
            return out, torch.stack(maps, 1)
        """,
        """
        def causal_heads(x, in_weight, out_weight, H):
            B, T, C = x.shape
            y = F.linear(x.double(), in_weight.double()).view(B, T, 3, H, C // H)
            q, k, v = y.permute(2, 0, 3, 1, 4).unbind(0)
            e = (q @ k.transpose(2, 3) / math.sqrt(C / H)).exp().tril()
            w = e / e.sum(-1, keepdim=True)
            y = torch.einsum("bhts,bhsd->bthd", w, v).reshape(B, T, C)
            return y @ out_weight.double().t(), w
        """,
        """
        def causal_heads(x, in_weight, out_weight, H):
            B, T, C = x.shape
            q, k, v = torch.einsum("btc,nhdc->nbhtd", x, in_weight.view(3, H, C // H, C))
            w = torch.zeros(B, H, T, T)
            for t in range(T):
                s = (k[:, :, : t + 1] @ q[:, :, t, :, None]).squeeze(-1) / q.size(-1) ** 0.5
                w[:, :, t, : t + 1] = s.softmax(-1)
            return torch.einsum("bhts,bhsd,ohd->bto", w, v, out_weight.view(C, H, C // H)), w
        """,
    ],
    "decoder_block": [
        """
        def decoder_block(x, gains, in_weight, out_weight, up, down, H):
            asks = F.layer_norm(x, (x.size(-1),)) * gains[0]
            x = x + causal_heads(asks, in_weight, out_weight, H)[0]
            z = F.linear(norm(x, gains[1]), up)
            z = z * (1 + torch.erf(z / math.sqrt(2))) / 2
            return x + F.linear(z, down)
        """,
        """
        def decoder_block(x, gains, in_weight, out_weight, up, down, H):
            def normed(x, gain):
                x = x - x.mean(-1, keepdim=True)
                return gain * x / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()

            out = x.clone()
            out += causal_heads(normed(out, gains[0]), in_weight, out_weight, H)[0]
            out += F.gelu(normed(out, gains[1]) @ up.T) @ down.T
            return out
        """,
        """
        def decoder_block(x, gains, in_weight, out_weight, up, down, H):
            for n, part in enumerate([
                lambda y: causal_heads(y, in_weight, out_weight, H)[0],
                lambda y: torch.einsum("bth,ch->btc", F.gelu(y @ up.T), down),
            ]):
                x = part(norm(x, gains[n])) + x
            return x
        """,
    ],
    "next_losses": [
        """
        def next_losses(logits, targets):
            z = logits - logits.detach().amax(-1, keepdim=True)
            z -= z.exp().sum(-1, keepdim=True).log()
            return -z.gather(-1, targets[..., None])[..., 0]
        """,
        """
        def next_losses(logits, targets):
            return -torch.log_softmax(logits, -1).gather(2, targets[:, :, None]).squeeze(2)
        """,
        """
        def next_losses(logits, targets):
            z = logits - logits.max(dim=-1, keepdim=True).values
            truth = F.one_hot(targets, logits.shape[-1]).to(z.dtype)
            return z.exp().sum(-1).log() - (z * truth).sum(-1)
        """,
        """
        def next_losses(logits, targets):
            out = torch.zeros(targets.shape, dtype=torch.float64)
            for b, row in enumerate(logits.double()):
                for t, z in enumerate(row):
                    out[b, t] = (z - z[targets[b, t]]).logsumexp(0)
            return out
        """,
    ],
    "next_distribution": [
        """
        def next_distribution(logits, temperature, p):
            rows = []
            for row in (logits.double() / temperature).softmax(-1):
                kept, total = torch.zeros_like(row), 0.0
                for v in sorted(range(len(row)), key=lambda v: -row[v]):
                    if total < p:
                        kept[v] = row[v]
                    total += float(row[v])
                rows.append(kept / kept.sum())
            return torch.stack(rows)
        """,
        """
        def next_distribution(logits, temperature, p):
            chances = torch.softmax(logits / temperature, dim=1)
            above = (chances[:, None, :] > chances[:, :, None]) * chances[:, None, :]
            kept = torch.where(above.sum(-1) < p, chances, torch.tensor(0.0))
            return F.normalize(kept, p=1, dim=1)
        """,
        """
        def next_distribution(logits, temperature, p):
            z, where = (logits / temperature).sort(descending=True)
            total = z.softmax(-1).cumsum(-1)
            drop = torch.cat([torch.zeros(len(z), 1), total[:, :-1]], 1) >= p
            z = torch.where(drop, -math.inf, z)
            return z.gather(1, where.argsort()).softmax(1)
        """,
    ],
    "append_next": [
        """
        def append_next(tokens, chances, luck, length):
            new = torch.searchsorted(chances.cumsum(1), luck[:, None], right=True)
            return torch.cat((tokens, new), 1)[:, -length:]
        """,
        """
        def append_next(tokens, chances, luck, length):
            rows = []
            for row, chance, point in zip(tokens.tolist(), chances, luck):
                v, total = 0, chance[0]
                while not total > point:
                    v += 1
                    total = total + chance[v]
                rows.append((row + [v])[-length:])
            return torch.tensor(rows)
        """,
        """
        def append_next(tokens, chances, luck, length):
            above = chances.double().numpy().cumsum(1) > luck.double().numpy()[:, None]
            longer = np.concatenate([tokens.numpy(), above.argmax(1)[:, None]], 1)
            return torch.from_numpy(longer[:, max(0, longer.shape[1] - length) :])
        """,
    ],
}

GOOD = {
    "windows": """
def windows(ids, starts, length):
    places = starts[:, None] + torch.arange(length)
    x, y = ids[places], ids[places + 1]
    return x, y
""",
    "causal_heads": """
def causal_heads(x, in_weight, out_weight, H):
    B, T, C = x.shape
    q, k, v = (cut(a, H) for a in (x @ in_weight.T).chunk(3, -1))
    s = q @ k.mT / math.sqrt(q.shape[-1])
    see = torch.ones(T, T, dtype=torch.bool).tril()
    s = s.masked_fill(~see, -math.inf)
    w = s.softmax(-1)
    y = join(w @ v)
    return y @ out_weight.T, w


def cut(a, H):
    B, T, C = a.shape
    return a.reshape(B, T, H, C // H).transpose(1, 2)


def join(a):
    B, H, T, D = a.shape
    return a.transpose(1, 2).reshape(B, T, H * D)
""",
    "decoder_block": HEADS.replace("causal_heads", "look")
    + """

def decoder_block(x, gains, in_weight, out_weight, up, down, H):
    y = x + look(norm(x, gains[0]), in_weight, out_weight, H)[0]
    return y + F.gelu(norm(y, gains[1]) @ up.T) @ down.T
""",
    "next_losses": """
def next_losses(logits, targets):
    log_p = logits.log_softmax(-1)
    losses = -log_p.gather(-1, targets[..., None])[..., 0]
    return losses
""",
    "next_distribution": """
def next_distribution(logits, temperature, p):
    z = logits / temperature
    share, which = z.softmax(-1).sort(-1, descending=True)
    keep = share.cumsum(-1) - share < p
    here = torch.zeros_like(keep).scatter(-1, which, keep)
    out = z.masked_fill(~here, -math.inf).softmax(-1)
    return out
""",
    "append_next": """
def append_next(tokens, chances, luck, length):
    new = (chances.cumsum(1) <= luck[:, None]).sum(1, keepdim=True)
    longer = torch.cat([tokens, new], 1)
    return longer[:, -length:]
""",
}
CHANGES = {
    "windows": {
        "same": ("places + 1", "places"),
        "one-short": ("torch.arange(length)", "torch.arange(length - 1)"),
        "behind": ("places + 1", "places + length"),
        "before": ("places + 1", "places - 1"),
        "two-later": ("places + 1", "places + 2"),
        "rolled": ("ids[places + 1]", "ids[places].roll(-1, 1)"),
        "places": ("ids[places], ids[places + 1]", "places, places + 1"),
        "last-only": ("return x, y", "return x, y[:, -1:]"),
        "last-alone": ("return x, y", "return x, ids[starts + length]"),
        "exchanged": ("x, y = ids", "y, x = ids"),
        "starts-ignored": (
            "starts[:, None]",
            "torch.arange(len(starts))[:, None] * length",
        ),
        "first-start": (
            "starts[:, None]",
            "(starts[0] + torch.arange(len(starts)) * length)[:, None]",
        ),
        "transposed": ("    return x, y", "    x, y = x.mT, y.mT\n    return x, y"),
    },
    "causal_heads": {
        "future": ("s = s.masked_fill(~see, -math.inf)", "pass"),
        "not-itself": (".tril()", ".tril(-1)"),
        "one-ahead": (".tril()", ".tril(1)"),
        "polarity": ("~see", "see"),
        "upside-down": (".tril()", ".triu()"),
        "future-only": ("~see, -math.inf", "see, -1e9"),
        "zeros": ("-math.inf", "0"),
        "after": (
            "s = s.masked_fill(~see, -math.inf)\n    w = s.softmax(-1)",
            "w = s.softmax(-1).tril()",
        ),
        "unscaled": (" / math.sqrt(q.shape[-1])", ""),
        "scale-width": ("math.sqrt(q.shape[-1])", "math.sqrt(C)"),
        "no-root": ("math.sqrt(q.shape[-1])", "q.shape[-1]"),
        "axis": ("s.softmax(-1)", "s.softmax(-2)"),
        "order": ("q @ k.mT", "k @ q.mT"),
        "parts-per-head": (
            "(cut(a, H) for a in (x @ in_weight.T).chunk(3, -1))",
            "(x @ in_weight.T).view(B, T, H, -1).transpose(1, 2).chunk(3, -1)",
        ),
        "interleaved": (
            "(B, T, H, C // H).transpose(1, 2)",
            "(B, T, C // H, H).permute(0, 3, 1, 2)",
        ),
        "mixed-heads": ("(B, T, H, C // H).transpose(1, 2)", "(B, H, T, C // H)"),
        "merged-mixed": ("return a.transpose(1, 2)", "return a"),
        "no-output": ("y @ out_weight.T", "y"),
        "averaged": ("out_weight.T, w", "out_weight.T, w.mean(1)"),
        "untransposed": ("out_weight.T", "out_weight"),
    },
    "decoder_block": {
        "post-norm": (
            "x + look(norm(x, gains[0]), in_weight, out_weight, H)[0]\n"
            "    return y + F.gelu(norm(y, gains[1]) @ up.T) @ down.T",
            "norm(x + look(x, in_weight, out_weight, H)[0], gains[0])\n"
            "    return norm(y + F.gelu(y @ up.T) @ down.T, gains[1])",
        ),
        "stream-normed": (
            "y = x + look(norm(x, gains[0]), in_weight, out_weight, H)[0]\n"
            "    return y + F.gelu(norm(y, gains[1]) @ up.T)",
            "x = norm(x, gains[0])\n"
            "    y = norm(x + look(x, in_weight, out_weight, H)[0], gains[1])\n"
            "    return y + F.gelu(y @ up.T)",
        ),
        "attention-normed": ("y = x + ", "y = norm(x, gains[0]) + "),
        "mlp-normed": ("return y + ", "return norm(y, gains[1]) + "),
        "mlp-first": (
            "y = x + look(norm(x, gains[0]), in_weight, out_weight, H)[0]\n"
            "    return y + F.gelu(norm(y, gains[1]) @ up.T) @ down.T",
            "y = x + F.gelu(norm(x, gains[1]) @ up.T) @ down.T\n"
            "    return y + look(norm(y, gains[0]), in_weight, out_weight, H)[0]",
        ),
        "attention-alone": ("y = x + ", "y = "),
        "mlp-alone": ("return y + ", "return "),
        "attention-lost": ("return y + ", "return x + "),
        "attention-unnormed": ("look(norm(x, gains[0])", "look(x"),
        "mlp-unnormed": ("norm(y, gains[1])", "y"),
        "side-by-side": ("F.gelu(norm(y, ", "F.gelu(norm(x, "),
        "same-gain": ("gains[1]", "gains[0]"),
        "second-gain": ("gains[0]", "gains[1]"),
        "gains-exchanged": (
            "    y = x",
            "    gains = gains[[1, 0]]\n    y = x",
        ),
        "relu": ("F.gelu", "F.relu"),
        "no-activation": ("F.gelu", ""),
    },
    "next_losses": {
        "sign": ("-log_p", "log_p"),
        "bits": ("return losses", "return losses / math.log(2)"),
        "not-normalised": ("logits.log_softmax(-1)", "logits"),
        "averaged": ("[..., 0]", "[..., 0].mean()"),
        "shifted-again": (
            "    log_p",
            "    logits, targets = logits[:, :-1], targets[:, 1:]\n    log_p",
        ),
        "rolled-again": ("    log_p", "    targets = targets.roll(-1, 1)\n    log_p"),
        "positions": ("log_softmax(-1)", "log_softmax(1)"),
        "probability": ("-log_p", "log_p.exp()"),
        "other-probability": ("-log_p.gather", "1 - log_p.exp().gather"),
        "entropy": (
            "-log_p.gather(-1, targets[..., None])[..., 0]",
            "-(log_p.exp() * log_p).sum(-1)",
        ),
        "likeliest": ("-log_p.gather(-1, targets[..., None])[..., 0]", "-log_p.amax(-1)"),
        **{
            f"bounded-{n}": ("log_softmax(-1)", f"softmax(-1).clamp_min(1e-{n}).log()")
            for n in (5, 6, 7, 8, 9, 10, 12, 15, 20)
        },
        "overflow": (
            "logits.log_softmax(-1)",
            "logits - logits.exp().sum(-1, keepdim=True).log()",
        ),
        "underflow": ("log_softmax(-1)", "softmax(-1).log()"),
    },
    "next_distribution": {
        "multiplied": ("logits / temperature", "logits * temperature"),
        "temperature-ignored": ("logits / temperature", "logits"),
        "cut-first": ("z.softmax(-1).sort", "logits.softmax(-1).sort"),
        "too-few": ("- share < p", "<= p"),
        "too-few-kept": ("- share < p", "<= p\n    keep[:, 0] = True"),
        "too-many": (
            "    here",
            "    keep[:, 1:] = keep[:, :-1].clone()\n    here",
        ),
        "no-cut": ("share < p", "share < 1"),
        "ascending": ("descending=True", "descending=False"),
        "each": ("share.cumsum(-1) - share < p", "share >= p"),
        "each-rest": (
            "share.cumsum(-1) - share < p",
            "share >= 1 - p\n    keep[:, 0] = True",
        ),
        "not-shared": (
            "z.masked_fill(~here, -math.inf).softmax(-1)",
            "z.softmax(-1) * here",
        ),
        "ranked-back": ("return out", "return out.gather(1, which).gather(1, which)"),
        "sorted": ("return out", "return out.gather(1, which)"),
        "unplaced": ("torch.zeros_like(keep).scatter(-1, which, keep)", "keep"),
        "fetched": ("torch.zeros_like(keep).scatter(-1, which, keep)", "keep.gather(1, which)"),
        "forgotten": ("out = z.", "out = logits."),
        "zeros": ("-math.inf", "0"),
        "twice": ("out = z.", "out = z.softmax(-1)."),
        "overflow": (
            "z.masked_fill(~here, -math.inf).softmax(-1)",
            "(e := z.exp() * here) / e.sum(-1, keepdim=True)",
        ),
    },
    "append_next": {
        "greedy": (
            "(chances.cumsum(1) <= luck[:, None]).sum(1, ",
            "chances.argmax(1, ",
        ),
        "border": ("<= luck", "< luck"),
        "one-early": ("keepdim=True)", "keepdim=True) - 1"),
        "one-late": ("keepdim=True)", "keepdim=True) + 1"),
        "one-late-last": (
            "keepdim=True)",
            "keepdim=True) + 1\n    new = new.clamp(max=chances.shape[1] - 1)",
        ),
        "batch-sums": ("cumsum(1)", "cumsum(0)"),
        "batch-sums-last": (
            "(chances.cumsum(1) <= luck[:, None]).sum(1, keepdim=True)",
            "(chances.cumsum(0) <= luck[:, None]).sum(1, True).clamp(max=chances.shape[1] - 1)",
        ),
        "first-dropped": ("[tokens, new]", "[tokens[:, 1:], new]"),
        "not-summed": (
            "(chances.cumsum(1) <= luck[:, None]).sum(1, ",
            "(chances > luck[:, None]).int().argmax(1, ",
        ),
        "sorted": (
            "    new = (chances.cumsum(1) <= luck[:, None]).sum(1, keepdim=True)",
            "    share, which = chances.sort(1, descending=True)\n"
            "    new = which.gather(1, (share.cumsum(1) <= luck[:, None]).sum(1, keepdim=True))",
        ),
        "same-luck": ("luck[:, None]", "luck[0]"),
        "no-crop": ("longer[:, -length:]", "longer"),
        "crop-first": (
            "([tokens, new], 1)\n    return longer[:, -length:]",
            "([tokens[:, -length:], new], 1)\n    return longer",
        ),
        "wrong-end": ("[:, -length:]", "[:, :length]"),
        "in-front": ("[tokens, new]", "[new, tokens]"),
    },
}
PAIRS = {
    "windows": [
        ("one-short", "exchanged"),
        ("same", "one-short"),
        ("behind", "transposed"),
        ("last-only", "starts-ignored"),
    ],
    "causal_heads": [
        ("future", "unscaled"),
        ("future", "no-output"),
        ("not-itself", "scale-width"),
        ("zeros", "unscaled"),
        ("after", "no-output"),
        ("mixed-heads", "future"),
        ("mixed-heads", "merged-mixed"),
        ("order", "unscaled"),
    ],
    "decoder_block": [
        ("post-norm", "relu"),
        ("attention-alone", "mlp-alone"),
        ("attention-unnormed", "mlp-unnormed"),
        ("attention-alone", "same-gain"),
        ("side-by-side", "no-activation"),
        ("same-gain", "relu"),
        ("stream-normed", "no-activation"),
    ],
    "next_losses": [
        ("bits", "sign"),
        ("averaged", "bits"),
        ("shifted-again", "sign"),
        ("positions", "bits"),
        ("bits", "underflow"),
        ("averaged", "shifted-again"),
    ],
    "next_distribution": [
        ("multiplied", "cut-first"),
        ("too-few", "sorted"),
        ("each", "not-shared"),
        ("temperature-ignored", "not-shared"),
        ("cut-first", "sorted"),
    ],
    "append_next": [
        ("greedy", "no-crop"),
        ("one-early", "wrong-end"),
        ("same-luck", "crop-first"),
        ("in-front", "greedy"),
    ],
}


WRONG = each_and_pairs(GOOD, CHANGES, PAIRS)

# Right numbers, and something wrong beside them
WRONG += [
    (
        "next_losses",
        """
        def next_losses(logits, targets):
            z = logits.numpy().astype(np.float64)
            z = z - np.logaddexp.reduce(z, axis=-1, keepdims=True)
            B, T = targets.shape
            return -z[np.arange(B)[:, None], np.arange(T), targets.numpy()]
        """,
        ["gradient"],
    ),
    (
        "next_losses",
        """
        def next_losses(logits, targets):
            logits -= logits.logsumexp(-1, keepdim=True)
            return -logits.gather(-1, targets[..., None])[..., 0]
        """,
        ["in-place"],
    ),
    (
        "next_losses",
        """
        def next_losses(logits, targets):
            total = logits.logsumexp(-1).detach()
            return total - logits.gather(-1, targets[..., None])[..., 0]
        """,
        ["gradient"],
    ),
    (
        "next_losses",
        """
        def next_losses(logits, targets):
            rows = []
            for row, wanted in zip(logits, targets):
                z = torch.log_softmax(row, -1)
                rows.append(torch.tensor([-z[t, n].item() for t, n in enumerate(wanted)]))
            return torch.stack(rows)
        """,
        ["gradient"],
    ),
]
