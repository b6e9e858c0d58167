"""Lab 8, level 3: orthogonal steps (Muon), and a table of counts as a second opinion.

What level 2 does and this one does not: it leaves all matrices to Adam, and it lets the network
predict alone. Here the probabilities are a mixture of the network's and those of a table of the
last three tokens; its share is fitted on the last part of the text, which trains neither.

This file goes on where 08-level-2.py ends: the leaderboard runs both as one, and what is defined
again holds.
"""

import numpy as np

TEAM = "level 3"
RATES = {"matrices": 0.02, "others": 4e-3}
ORDER, FITTED = 3, 4096  # tokens that the table looks back; tokens on which its share is fitted


@torch.no_grad()
def orthogonal(matrix):
    """Nearly the nearest matrix with all singular values 1 (Jordan et al. 2024, Muon)."""
    x = matrix / (matrix.norm() + 1e-7)
    x = x.mT if len(matrix) > matrix.shape[1] else x
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (2.0315 * square @ square - 4.775 * square) @ x
    return x.mT if len(matrix) > matrix.shape[1] else x


class Muon:
    """Momentum of Nesterov, made orthogonal, for the matrices between the layers."""

    def __init__(self, parameters, momentum=0.95):
        self.parameters, self.momentum = list(parameters), momentum
        self.means = [torch.zeros_like(each) for each in self.parameters]

    @torch.no_grad()
    def step(self, lr):
        for each, mean in zip(self.parameters, self.means, strict=True):
            mean.lerp_(each.grad, 1 - self.momentum)
            new = orthogonal(each.grad.lerp(mean, self.momentum))
            each.add_(new, alpha=-lr * max(1, each.shape[0] / each.shape[1]) ** 0.5)


def learn(tokens, over):
    """A model trained until `over()`, which goes from 0 to 1."""
    torch.manual_seed(0)
    model, steps = Model(**SIZES), 0
    inner = [each for each in model.blocks.parameters() if each.dim() == 2]
    outer = [model.tokens.weight, model.head.weight]
    muon = Muon(inner)
    adam = torch.optim.AdamW(outer, betas=(0.9, 0.95), weight_decay=0.0)
    while (used := over()) < 1:
        steps += 1
        share = min(1, steps / 40, LEAST + (1 - LEAST) * (1 - used) * 2)
        adam.param_groups[0]["lr"] = RATES["others"] * share
        windows = tokens[torch.randint(len(tokens) - T, (B, 1)) + torch.arange(T + 1)]
        logits = model(windows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        adam.step()
        muon.step(RATES["matrices"] * share)
    return model


class Counts:
    """What followed the last 0, 1, 2 and 3 tokens; longer contexts first (Witten and Bell 1991)."""

    def __init__(self, tokens, V):
        self.V, self.tables = V, [defaultdict(Counter) for _ in range(ORDER + 1)]
        for n, token in enumerate(tokens):
            for length in range(min(ORDER, n) + 1):
                self.tables[length][tuple(tokens[n - length : n])][token] += 1

    def after(self, context):
        p = np.full(self.V, 1 / self.V)
        for length in range(min(ORDER, len(context)) + 1):
            row = self.tables[length].get(tuple(context[len(context) - length :]))
            if row is None:
                break
            total = row.total()
            p *= len(row) / (total + len(row))
            p[list(row)] += np.array(list(row.values())) / (total + len(row))
        return p


def mixed(log_net, table, share):
    return torch.logaddexp(log_net + np.log(1 - share), torch.log(table) + np.log(share))


def fitted(model, tokens):
    """The table's share that is best on the last tokens, when neither has been trained on them."""
    known, last = tokens[:-FITTED], tokens[-FITTED:]
    counts, rows = Counts(known.tolist(), SIZES["V"]), last.view(-1, 64)
    log_net = model(rows[:, :-1]).log_softmax(-1).flatten(0, 1)
    seen = [counts.after(row[: n + 1]) for row in rows.tolist() for n in range(len(row) - 1)]
    here, table = rows[:, 1:].flatten()[:, None], torch.tensor(np.array(seen)).float()
    net, table = log_net.gather(1, here), table.gather(1, here)
    return min((0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5), key=lambda s: -mixed(net, table, s).mean())


def submit(text, seconds):
    started = time.process_time()
    tokens = torch.tensor(encode(text, vocabulary := train_bpe(text, SIZES["V"])))
    last = 0.98 * seconds - 5  # the table of counts takes some seconds

    model = learn(tokens[:-FITTED], lambda: (time.process_time() - started) / last)
    with torch.no_grad():
        share = fitted(model, tokens)
    more = {"text": tokens, "share": torch.tensor(share)}
    return vocabulary, {**model.state_dict(), **more}


def predictor(vocabulary, weights):
    counts, share = Counts(weights.pop("text").tolist(), len(vocabulary)), weights.pop("share")
    model = Model(**SIZES)
    model.load_state_dict(weights)

    def predict(ids):
        log_net = model(ids[:, -T:])[:, -1].log_softmax(-1)
        seen = [counts.after(row) for row in ids[:, -ORDER:].tolist()]
        return mixed(log_net, torch.tensor(np.array(seen)).float(), share)

    return predict
