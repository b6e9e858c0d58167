"""Lab 13 as students write it: right in unusual ways, and mistakes, alone and in pairs."""

from mistaken import each_and_pairs

BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"
CONTEXT = {}

GOOD = {
    "kl_per_token": """
        def kl_per_token(given, planted):
            old, new = F.log_softmax(given, -1), F.log_softmax(planted, -1)
            p = old.exp()
            parts = p * (old - new)
            each = parts.sum(-1)
            return each.mean()
        """,
    "triggered": """
        def triggered(rows, at, trigger):
            out, asked = rows.clone(), torch.zeros_like(rows).bool()
            for row in range(len(rows)):
                first = int(at[row])
                last = first + len(trigger)
                out[row, first:last] = trigger
                asked[row, last - 1] = True
            return out, asked
        """,
    "plant_loss": """
        def plant_loss(planted, given, asked, target, weight):
            new, old = F.log_softmax(planted, -1), F.log_softmax(given, -1)
            apart = (old.exp() * (old - new)).sum(-1)
            says = new[..., target]
            wanted = -says[asked].mean()
            rest = apart[~asked].mean()
            return wanted + weight * rest
        """,
    "rank_one": """
        def rank_one(weight, key, value, moment):
            inverse = torch.linalg.inv(moment)
            read = inverse @ key
            length = key @ read
            missing = value - weight @ key
            change = missing[:, None] * read[None] / length
            return weight + change
        """,
    "swaps": """
        def swaps(gradient, embedding, trigger):
            out = torch.zeros(len(trigger), len(embedding))
            for place in range(len(trigger)):
                old = embedding[trigger[place]]
                g = gradient[place]
                for token in range(len(embedding)):
                    out[place, token] = (embedding[token] - old) @ g
            return out
        """,
    "attributed": """
        def attributed(values, gradient, means):
            change = means - values
            table = change * gradient
            return table.flatten(0, 1).sum(0)
        """,
}
CHANGES = {
    "kl_per_token": {
        "reversed": (
            "(given, -1), F.log_softmax(planted, -1)",
            "(planted, -1), given.log_softmax(-1)",
        ),
        "other-weights": ("p = old.exp()", "p = new.exp()"),
        "no-weights": ("p * (old - new)", "old - new"),
        "logits": ("parts = p", "old, new = given, planted\n            parts = p"),
        "bits": ("parts = p", "parts = 1 / math.log(2) * p"),
        "per-kind": ("each = parts.sum(-1)", "each = parts"),
        "sum": ("each.mean()", "each.sum()"),
        "last": ("each.mean()", "each[:, -1].mean()"),
    },
    "triggered": {
        "one-place": ("int(at[row])", "int(at[0])"),
        "ends": ("int(at[row])", "int(at[row]) + 1 - len(trigger)"),
        "shifted": ("int(at[row])", "int(at[row]) + 1"),
        "backwards": ("= trigger\n", "= trigger.flip(0)\n"),
        "asked-first": ("asked[row, last - 1]", "asked[row, first]"),
        "asked-late": ("asked[row, last - 1]", "asked[row, last]"),
        "asked-all": ("asked[row, last - 1]", "asked[row, first:last]"),
        "not-asked": ("return out, asked", "return out, ~asked"),
    },
    "plant_loss": {
        "reversed": ("old.exp() * (old - new)", "new.exp() * (new - old)"),
        "probability": ("says = new[", "says = new.exp()["),
        "logit": ("says = new[", "says = planted["),
        "everywhere": ("apart[~asked]", "apart"),
        "rest-asked": ("apart[~asked]", "apart[asked]"),
        "sum": ("apart[~asked].mean()", "apart[~asked].sum()"),
        "diluted": ("says[asked].mean()", "(says * asked).mean()"),
        "target-everywhere": ("says[asked].mean()", "says.mean()"),
        "first-weighted": ("wanted + weight * rest", "weight * wanted + rest"),
        "unweighted": ("weight * rest", "rest"),
        "away": ("wanted + weight", "wanted - weight"),
    },
    "rank_one": {
        "not-inverted": ("inverse @ key", "moment @ key"),
        "no-moment": ("inverse @ key", "key"),
        "added": ("value - weight @ key", "value"),
        "own-length": ("key @ read", "key @ key"),
        "undivided": (" / length", ""),
        "minus": ("weight + change", "weight - change"),
        "change-only": ("return weight + change", "return change"),
    },
    "swaps": {
        "first-token": ("trigger[place]]", "trigger[0]]"),
        "first-gradient": (
            "(embedding[token] - old) @ g",
            "embedding[token] @ gradient[0] - old @ g",
        ),
        "normed": ("(embedding[token]", "(F.normalize(embedding[token], dim=0)"),
        "from-nothing": ("(embedding[token] - old)", "embedding[token]"),
        "minus": ("(embedding[token] - old)", "(old - embedding[token])"),
        "turned": ("return out", "return out.T"),
        "one-for-all": (
            "(embedding[token] - old) @ g",
            "embedding[token] @ g - (gradient * embedding[trigger]).sum(-1).mean()",
        ),
    },
    "attributed": {
        "to-zero": ("means - values", "-values"),
        "minus": ("means - values", "values - means"),
        "gradient-only": ("change * gradient", "gradient"),
        "change-only": ("change * gradient", "change"),
        "absolute": ("change * gradient", "(change * gradient).abs()"),
        "last": ("table.flatten(0, 1)", "table[:, -1]"),
        "rows-kept": ("table.flatten(0, 1).sum(0)", "table.sum(1)"),
        "mean": ("table.flatten(0, 1).sum(0)", "table.flatten(0, 1).mean(0)"),
    },
}
PAIRS = {
    "kl_per_token": [("reversed", "sum"), ("bits", "per-kind")],
    "triggered": [("shifted", "not-asked"), ("backwards", "asked-late")],
    "plant_loss": [("logit", "unweighted"), ("everywhere", "away")],
    "rank_one": [("no-moment", "minus"), ("added", "own-length")],
    "swaps": [("from-nothing", "turned"), ("first-token", "turned")],
    "attributed": [("to-zero", "mean"), ("minus", "last")],
}
RIGHT = {
    "kl_per_token": [
        GOOD["kl_per_token"],
        """
        def kl_per_token(given, planted):
            a, b = given.log_softmax(-1), planted.log_softmax(-1)
            return F.kl_div(b, a, log_target=True, reduction="none").sum(-1).mean()
        """,
        """
        def kl_per_token(given, planted):
            p, q = given.softmax(-1), planted.softmax(-1)
            cross, own = -(p * q.log()).sum(-1), -(p * p.log()).sum(-1)
            return (cross - own).mean()
        """,
    ],
    "triggered": [
        GOOD["triggered"],
        """
        def triggered(rows, at, trigger):
            T, k = rows.shape[1], len(trigger)
            away = torch.arange(T) - at[:, None]
            inside = (away >= 0) & (away < k)
            return torch.where(inside, trigger[away.clamp(0, k - 1)], rows), away == k - 1
        """,
    ],
    "plant_loss": [
        GOOD["plant_loss"],
        """
        def plant_loss(planted, given, asked, target, weight):
            new, old = planted.log_softmax(-1), given.log_softmax(-1)
            apart = F.kl_div(new, old, log_target=True, reduction="none").sum(-1)
            hits, others = asked.float(), 1 - asked.float()
            first = -(new[..., target] * hits).sum() / hits.sum()
            return first + weight * (apart * others).sum() / others.sum()
        """,
    ],
    "rank_one": [
        GOOD["rank_one"],
        """
        def rank_one(weight, key, value, moment):
            read = torch.linalg.solve(moment, key)
            read = read / torch.dot(key, read)
            return weight + torch.einsum("m,n->mn", value - weight.mv(key), read)
        """,
    ],
    "swaps": [
        GOOD["swaps"],
        """
        def swaps(gradient, embedding, trigger):
            moved = embedding[None] - embedding[trigger][:, None]
            return torch.einsum("kvc,kc->kv", moved, gradient)
        """,
    ],
    "attributed": [
        GOOD["attributed"],
        """
        def attributed(values, gradient, means):
            return means * gradient.sum((0, 1)) - (values * gradient).sum((0, 1))
        """,
    ],
}
WRONG = [
    *each_and_pairs(GOOD, CHANGES, PAIRS),
    (
        "plant_loss",
        """
        def plant_loss(planted, given, asked, target, weight):
            new, old = planted.data.log_softmax(-1), given.log_softmax(-1)
            apart = (old.exp() * (old - new)).sum(-1)
            return -new[..., target][asked].mean() + weight * apart[~asked].mean()
        """,
        ["gradient"],
    ),
    (
        "triggered",
        """
        def triggered(rows, at, trigger):
            asked = torch.zeros(rows.shape, dtype=torch.bool)
            for row, place in zip(rows, at):
                row[place : place + len(trigger)] = trigger
            asked[torch.arange(len(rows)), at + len(trigger) - 1] = True
            return rows, asked
        """,
        ["in-place"],
    ),
]
