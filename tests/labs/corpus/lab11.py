"""Lab 11 as students write it: right in unusual ways, and mistakes, alone and in pairs."""

from mistaken import each_and_pairs

BEFORE = "import numpy as np\nimport math, torch\n"
BEFORE += "from torch import nn\nfrom torch.nn import functional as F\n"
CONTEXT = {}

GOOD = {
    "adapted": """
        def adapted(x, weight, A, B, alpha):
            rank = A.shape[0]
            scale = alpha / rank
            change = scale * B @ A
            y = x @ weight.T + x @ change.T
            merged = weight + change
            learned = A.numel() + B.numel()
            return y, merged, torch.tensor(float(learned))
        """,
    "tuned": """
        def tuned(x, goal, weight, A, B, rate, steps):
            weight = weight.clone().requires_grad_()
            parts, losses = [A.clone().requires_grad_(), B.clone().requires_grad_()], []
            for step in range(steps):
                A, B = parts
                loss = ((x @ weight.T + x @ A.T @ B.T - goal) ** 2).mean()
                losses.append(loss.detach().item())
                weight.grad = A.grad = B.grad = None
                loss.backward()
                with torch.no_grad():
                    A -= rate * A.grad
                    B -= rate * B.grad
            return A.detach(), B.detach(), torch.tensor(losses)
        """,
    "answer_nats": """
        def answer_nats(logits, tokens, roles):
            wanted, who = tokens[:, 1:], roles[:, 1:]
            logs = logits[:, :-1].log_softmax(-1)
            nats = -logs.gather(-1, wanted[..., None])[..., 0]
            counts = (who == 2).float()
            many = counts.sum()
            return nats * counts / many
        """,
    "dpo_by_hand": """
        def dpo_by_hand(better, worse, better_before, worse_before, beta):
            m = (better - better_before) - (worse - worse_before)
            loss = -torch.log(torch.sigmoid(beta * m))
            held = torch.sigmoid(-beta * m)
            slope = beta * held / len(better)
            return loss, -slope, slope
        """,
    "sum_advantages": """
        def sum_advantages(pairs, answers):
            right = answers == (pairs[:, 0] + pairs[:, 1])[:, None]
            reward = right.float()
            mean = reward.mean(1, keepdim=True)
            spread = reward.std(1, keepdim=True)
            return (reward - mean) / (spread + 1e-4)
        """,
}
CHANGES = {
    "adapted": {
        "unscaled": ("scale = alpha / rank", "scale = 1.0"),
        "output-minus": ("weight.T + x @ change.T", "weight.T - x @ change.T"),
        "twice-scaled": ("change = scale *", "change = scale**2 *"),
        "no-rank": ("alpha / rank", "alpha"),
        "upside-down": ("alpha / rank", "rank / alpha"),
        "root": ("alpha / rank", "alpha / math.sqrt(rank)"),
        "alpha-fixed": ("alpha / rank", "16.0 / rank"),
        "output-bare": ("+ x @ change.T", "+ x @ A.T @ B.T"),
        "all-scaled": (
            "return y, merged",
            "y, merged = scale * x @ (weight + B @ A).T, scale * (weight + B @ A)\n"
            "            return y, merged",
        ),
        "output-scaled": ("x @ weight.T + x @ change.T", "scale * F.linear(x, weight + B @ A)"),
        "not-read": ("change = scale * B @ A", "change = 0 * B @ A"),
        "alone": ("x @ weight.T + x @ change.T", "x @ change.T"),
        "merged-bare": ("merged = weight + change", "merged = weight + B @ A"),
        "merged-change": ("merged = weight + change", "merged = change"),
        "not-merged": ("merged = weight + change", "merged = weight"),
        "unmerged": ("merged = weight + change", "merged = weight - change"),
        "merged-turned": ("merged = weight + change", "merged = (weight + change).T"),
        "nothing-learns": ("A.numel() + B.numel()", "0"),
        "A-frozen": ("A.numel() + B", "B"),
        "B-frozen": ("A.numel() + B.numel()", "A.numel()"),
        "not-frozen": ("B.numel()", "B.numel() + weight.numel()"),
        "ranks-counted": ("A.numel() + B.numel()", "A.shape[0] + B.shape[1]"),
    },
    "tuned": {
        "all-move": ("A -= rate * A.grad", "A -= rate * A.grad; weight -= rate * weight.grad"),
        "loss-summed": ("loss.detach().item()", "loss.item() * goal.numel()"),
        "only-B": ("A -= rate * A.grad\n", "pass\n"),
        "only-A": ("B -= rate * B.grad\n", "pass\n"),
        "in-turn": (
            "A -= rate * A.grad\n                    B -= rate * B.grad\n",
            "gap = x @ weight.T + x @ A.T @ B.T - goal\n"
            "                    B -= rate * B.grad\n"
            "                    A -= rate * 2 / gap.numel() * B.T @ gap.T @ x\n",
        ),
        "summed": ("** 2).mean()", "** 2).sum()"),
        "half-loss": ("** 2).mean()", "** 2).mean() / 2"),
        "sum-of-rows": ("** 2).mean()", "** 2).sum(1).mean()"),
        "absolute": (" ** 2).mean()", ".abs()).mean()"),
        "root": ("losses.append(loss.detach()", "losses.append(loss.detach().sqrt()"),
        "W-left-out": ("x @ weight.T + x @", "x @"),
        "scaled": ("+ x @ A.T", "+ 16.0 / A.shape[0] * x @ A.T"),
        "A-first": (
            "A -= rate * A.grad\n                    B -= rate * B.grad\n",
            "gap = x @ weight.T + x @ A.T @ B.T - goal\n"
            "                    A -= rate * A.grad\n"
            "                    B -= rate * 2 / gap.numel() * gap.T @ (x @ A.T)\n",
        ),
        "adam": (
            "A -= rate * A.grad\n                    B -= rate * B.grad\n",
            "adam = adam if step else torch.optim.Adam(parts, lr=rate)\n"
            "                    adam.step()\n",
        ),
        "one-short": (
            "loss.backward()\n",
            "loss.backward()\n                if step == steps - 1: break\n",
        ),
        "one-loss-more": (
            "            return A.detach()",
            "            A, B = parts\n"
            "            losses += [((x @ weight.T + x @ A.T @ B.T - goal) ** 2).mean().item()]\n"
            "            return A.detach()",
        ),
        "last-loss": ("torch.tensor(losses)", "torch.tensor(losses[-1])"),
        "half": (
            "    A -= rate * A.grad\n                    B -= rate * B.grad\n",
            "    A -= rate / 2 * A.grad\n                    B -= rate / 2 * B.grad\n",
        ),
        "per-row": (
            "    A -= rate * A.grad\n                    B -= rate * B.grad\n",
            "    A -= rate * len(goal.T) * A.grad\n"
            "                    B -= rate * len(goal.T) * B.grad\n",
        ),
        "piled": ("weight.grad = A.grad = B.grad = None\n", "pass\n"),
        "uphill": (
            "A -= rate * A.grad\n                    B -= rate * B.grad\n",
            "A += rate * A.grad\n                    B += rate * B.grad\n",
        ),
        "loss-after": (
            "            return A.detach()",
            "            A, B = parts\n"
            "            losses = losses[1:] + [((x @ weight.T + x @ A.T @ B.T - goal) ** 2)"
            ".mean().item()]\n"
            "            return A.detach()",
        ),
    },
    "answer_nats": {
        "no-end": ("(who == 2)", "((who == 2) & (wanted != 1))"),
        "user-too": ("(who == 2)", "(who > 0)"),
        "padding-too": ("(who == 2)", "(who != 1)"),
        "everything": ("(who == 2)", "(who >= 0)"),
        "user-only": ("(who == 2)", "(who == 1)"),
        "early": ("roles[:, 1:]", "roles[:, :-1]"),
        "own-token": ("tokens[:, 1:]", "tokens[:, :-1]"),
        "logits-late": ("logits[:, :-1]", "logits[:, 1:]"),
        "over-positions": ("log_softmax(-1)", "log_softmax(1)"),
        "softmax-twice": ("log_softmax(-1)", "softmax(-1).log_softmax(-1)"),
        "no-log": ("nats = -logs", "nats = 1 - logs.exp()"),
        "bits": ("log_softmax(-1)", "log_softmax(-1) / math.log(2)"),
        "sign": ("nats = -logs", "nats = logs"),
        "last-answer": (
            "many = counts",
            "for row, said in zip(counts, who):\n"
            "                row[: max(n for n, one in enumerate([1, *said]) if one == 1)] = 0\n"
            "            many = counts",
        ),
        "first-answer": (
            "many = counts",
            "for row, said in zip(counts, who.tolist()):\n"
            "                n = 0\n"
            "                while n < len(said) and said[n] != 2:\n"
            "                    n += 1\n"
            "                while n < len(said) and said[n] == 2:\n"
            "                    n += 1\n"
            "                row[n:] = 0\n"
            "            many = counts",
        ),
        "counted-before": ("counts.sum()", "(roles == 2).sum()"),
        "by-own-count": ("counts.sum()", "counts.sum(1)[:, None]"),
        "by-rows": ("counts.sum()", "len(roles)"),
        "wide": ("return nats * counts / many", "return F.pad(nats * counts / many, (1, 0))"),
        "added-up": ("return nats * counts / many", "return (nats * counts).sum() / many"),
        "per-dialogue": ("counts.sum()", "counts.sum(1, keepdim=True) * len(counts)"),
        "all-places": ("counts.sum()", "counts.numel()"),
        "undivided": (" / many", ""),
    },
    "dpo_by_hand": {
        "loss-without-beta": (
            "loss = -torch.log(torch.sigmoid(beta * m))",
            "loss = -F.logsigmoid(m)",
        ),
        "loss-bare": ("-torch.log(torch.sigmoid(beta * m))", "-torch.sigmoid(beta * m)"),
        "no-reference": ("(better - better_before) - (worse - worse_before)", "better - worse"),
        "exchanged": (
            "m = (better - better_before)",
            "better, worse = worse, better\n"
            "            better_before, worse_before = worse_before, better_before\n"
            "            m = (better - better_before)",
        ),
        "added": (") - (worse", ") + (worse"),
        "reference-sign": ("worse - worse_before", "worse + worse_before"),
        "same-sign": ("return loss, -slope, slope", "return loss, -slope, -slope"),
        "crossed": (
            "(better - better_before) - (worse - worse_before)",
            "(better - worse_before) - (worse - better_before)",
        ),
        "margins-averaged": (
            "            loss =",
            "            m = 0 * m + m.mean()\n            loss =",
        ),
        "by-beta": ("m = (", "beta = 1 / beta\n            m = ("),
        "loss-sign": ("loss = -torch.log", "loss = torch.log"),
        "mean-loss": ("return loss,", "return loss.mean(),"),
        "bare-sigmoid": (
            "return loss, -slope",
            "slope = slope * torch.sigmoid(beta * m)\n"
            "            loss = -torch.sigmoid(beta * m)\n            return loss, -slope",
        ),
        "hinge": (
            "return loss, -slope",
            "slope = beta * (1 - beta * m > 0) / len(m)\n"
            "            loss = F.relu(1 - beta * m)\n            return loss, -slope",
        ),
        "sigmoid-slope": ("held = torch", "held = torch.sigmoid(beta * m) * torch"),
        "by-answers": ("len(better)", "(2 * len(better))"),
        "no-beta": ("m = (", "beta = 1.0\n            m = ("),
        "beta-outside": ("-torch.log(torch.sigmoid(beta * m))", "-beta * F.logsigmoid(m)"),
        "no-log": ("-torch.log(torch.sigmoid(beta * m))", "1 - torch.sigmoid(beta * m)"),
        "sure": ("held = torch.sigmoid(-beta", "held = torch.sigmoid(beta"),
        "slope-without-beta": ("slope = beta * held", "slope = held"),
        "slopes-summed": (" / len(better)", ""),
        "uphill": ("return loss, -slope, slope", "return loss, slope, -slope"),
        "one-side": ("return loss, -slope, slope", "return loss, -slope, 0 * slope"),
    },
    "sum_advantages": {
        "not-spread": (" / (spread + 1e-4)", ""),
        "population": (
            "reward.std(1, keepdim=True)",
            "reward.std(1, keepdim=True, unbiased=False)",
        ),
        "mean-of-all": ("reward.mean(1, keepdim=True)", "reward.mean()"),
        "mean-across": ("reward.mean(1, keepdim=True)", "reward.mean(0, keepdim=True)"),
        "spread-of-all": ("reward.std(1, keepdim=True)", "reward.std()"),
        "variance": ("reward.std(1, keepdim=True)", "reward.var(1, keepdim=True)"),
        "others": (
            "mean = reward.mean(1, keepdim=True)",
            "mean = (reward.sum(1, True) - reward) / (reward.shape[1] - 1)",
        ),
        "right-only": ("(reward - mean)", "reward * (reward - mean)"),
        "guard-inside": ("(spread + 1e-4)", "(spread**2 + 1e-4) ** 0.5"),
        "large-guard": ("1e-4", "1e-2"),
        "small-guard": ("1e-4", "1e-6"),
        "never-right": ("(pairs[:, 0] + pairs[:, 1])", "(pairs[:, 0] * pairs[:, 1])"),
        "any-sum": (
            "right = answers == (pairs[:, 0] + pairs[:, 1])[:, None]",
            "right = (answers[..., None] == pairs.sum(1)).any(-1)",
        ),
        "one-a-question": (
            "return (reward - mean) / (spread + 1e-4)",
            "return ((reward - mean) / (spread + 1e-4)).mean(1)",
        ),
        "one-group": (
            "mean = reward.mean(1, keepdim=True)\n            spread = reward.std(1, keepdim=True)",
            "mean, spread = reward.mean(), reward.std()",
        ),
        "across": (
            "mean = reward.mean(1, keepdim=True)\n            spread = reward.std(1, keepdim=True)",
            "mean, spread = reward.mean(0), reward.std(0)",
        ),
        "not-centred": ("(reward - mean)", "reward"),
        "unguarded": ("(spread + 1e-4)", "spread"),
        "units": (
            "right = answers == (pairs[:, 0] + pairs[:, 1])[:, None]",
            "right = answers % 10 == ((pairs[:, 0] + pairs[:, 1]) % 10)[:, None]",
        ),
        "distance": (
            "reward = right.float()",
            "reward = -(answers - pairs.sum(1, True)).abs().float()",
        ),
        "wrong-paid": ("right.float()", "(~right).float()"),
    },
}
PAIRS = {
    "adapted": [("no-rank", "not-frozen"), ("alone", "merged-bare"), ("root", "merged-change")],
    "tuned": [("only-B", "summed"), ("uphill", "piled")],
    "answer_nats": [("user-too", "own-token"), ("early", "undivided"), ("no-end", "all-places")],
    "dpo_by_hand": [("no-reference", "slopes-summed"), ("no-log", "one-side"), ("added", "uphill")],
    "sum_advantages": [("population", "units"), ("one-group", "not-spread")],
}
WRONG = each_and_pairs(GOOD, CHANGES, PAIRS)

RIGHT = {
    "adapted": [
        GOOD["adapted"],
        """
        class Thin(nn.Module):
            def __init__(self, base, rank, alpha):
                super().__init__()
                for p in base.parameters():
                    p.requires_grad = False
                self.base, self.factor = base, alpha / rank
                self.down = nn.Linear(base.in_features, rank, bias=False)
                self.up = nn.Linear(rank, base.out_features, bias=False)
                nn.init.zeros_(self.up.weight)
            def forward(self, x):
                return self.base(x) + self.factor * self.up(self.down(x))
            def merged(self):
                return self.base.weight + self.factor * self.up.weight.mm(self.down.weight)
        def adapted(x, weight, A, B, alpha):
            R, C = weight.shape
            base = nn.Linear(C, R, bias=False)
            base.weight.data.copy_(weight)
            layer = Thin(base, len(A), alpha)
            layer.down.weight.data, layer.up.weight.data = A, B
            count = sum(p.numel() for p in layer.parameters() if p.requires_grad)
            return layer(x), layer.merged(), count
        """,
        """
        def adapted(x, weight, A, B, alpha):
            x, weight, A, B = (part.double().numpy() for part in (x, weight, A, B))
            big = weight + alpha / len(A) * (B @ A)
            return np.einsum("rc,...c->...r", big, x), big, A.size + B.size
        """,
        """
        class LoRA(nn.Module):
            def __init__(self, base, rank, alpha=16.0):
                super().__init__()
                self.register_buffer("W", base.weight.detach().clone())
                self.A = nn.Parameter(torch.randn(rank, base.in_features))
                self.B = nn.Parameter(torch.zeros(base.out_features, rank))
                self.alpha, self.rank = alpha, rank
            def merged(self):
                return torch.addmm(self.W, self.B, self.A, alpha=self.alpha / self.rank)
            def forward(self, x):
                return F.linear(x, self.merged())
        def adapted(x, weight, A, B, alpha):
            base = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            base.weight.data = weight
            layer = LoRA(base, A.shape[0], alpha)
            layer.A.data, layer.B.data = A, B
            learned = sum(p.numel() for p in layer.parameters() if p.requires_grad)
            return layer(x), layer.merged(), torch.tensor(float(learned))
        """,
    ],
    "tuned": [
        GOOD["tuned"],
        """
        def tuned(x, goal, weight, A, B, rate, steps):
            losses = []
            for _ in range(steps):
                gap = x @ (weight + B @ A).T - goal
                G = 2 / gap.numel() * gap.T @ x
                A, B = A - rate * B.T @ G, B - rate * G @ A.T
                losses.append((gap * gap).mean())
            return A, B, torch.stack(losses)
        """,
        """
        def tuned(x, goal, weight, A, B, rate, steps):
            down, up, losses = nn.Parameter(A.double()), nn.Parameter(B.double()), []
            for _ in range(steps):
                out = F.linear(x.double(), weight.double() + up @ down)
                loss = F.mse_loss(out, goal.double())
                slopes = torch.autograd.grad(loss, (down, up))
                for part, slope in zip((down, up), slopes):
                    part.data -= rate * slope
                losses.append(float(loss.detach()))
            return down, up, np.array(losses)
        """,
    ],
    "answer_nats": [
        GOOD["answer_nats"],
        """
        def answer_nats(logits, tokens, roles):
            B, T, V = logits.shape
            goal = torch.where(roles == 2, tokens, -100)[:, 1:]
            nats = F.cross_entropy(
                logits[:, :-1].reshape(-1, V), goal.reshape(-1), ignore_index=-100, reduction="none"
            )
            return nats.view(B, T - 1) / (goal != -100).sum()
        """,
    ],
    "dpo_by_hand": [
        GOOD["dpo_by_hand"],
        """
        def dpo_by_hand(better, worse, better_before, worse_before, beta):
            w, l = (part.clone().requires_grad_() for part in (better, worse))
            losses = F.softplus(-beta * (w - l - better_before + worse_before))
            losses.mean().backward()
            return losses, w.grad, l.grad
        """,
        """
        def dpo_by_hand(better, worse, better_before, worse_before, beta):
            parts = (better, worse, better_before, worse_before)
            w, l, w0, l0 = (part.double().numpy() for part in parts)
            rewards = beta * np.stack([w - w0, l - l0])
            p = np.exp(rewards[0]) / np.exp(rewards).sum(0)
            return -np.log(p), -beta * (1 - p) / p.size, beta * (1 - p) / p.size
        """,
    ],
    "sum_advantages": [
        GOOD["sum_advantages"],
        """
        def sum_advantages(pairs, answers):
            out = []
            for (a, b), row in zip(pairs.tolist(), answers.tolist()):
                rewards = [float(said == a + b) for said in row]
                mean = sum(rewards) / len(rewards)
                spread = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1))
                out.append([(r - mean) / (spread + 1e-4) for r in rewards])
            return out
        """,
        """
        def sum_advantages(pairs, answers):
            r = np.equal(answers.numpy(), pairs.numpy().sum(-1)[:, None]).astype(float)
            return (r - r.mean(1)[:, None]) / (r.std(1, ddof=1)[:, None] + 1e-4)
        """,
    ],
}

# Right numbers, and something wrong beside them
WRONG += [
    (
        "answer_nats",
        """
        def answer_nats(logits, tokens, roles):
            out = np.zeros((tokens.shape[0], tokens.shape[1] - 1))
            for b, row in enumerate(roles.tolist()):
                for t in range(1, len(row)):
                    if row[t] == 2:
                        scores = logits[b, t - 1].double().numpy()
                        out[b, t - 1] = np.log(np.exp(scores).sum()) - scores[tokens[b, t]]
            return out / (roles[:, 1:] == 2).sum().item()
        """,
        ["gradient"],
    ),
    (
        "answer_nats",
        """
        def answer_nats(logits, tokens, roles):
            nats = F.cross_entropy(logits[:, :-1].mT.data, tokens[:, 1:], reduction="none")
            own = roles[:, 1:] == 2
            return nats * own / own.sum()
        """,
        ["gradient"],
    ),
    (
        "dpo_by_hand",
        """
        def dpo_by_hand(better, worse, better_before, worse_before, beta):
            w, l = better.requires_grad_(), worse.requires_grad_()
            losses = F.softplus(-beta * ((w - better_before) - (l - worse_before)))
            losses.mean().backward()
            return losses.detach(), w.grad, l.grad
        """,
        ["in-place"],
    ),
]
