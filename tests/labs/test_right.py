"""Right answers in unusual ways get all points: loops, einsum, other precision, copies, classes."""

import pytest

from attnbook.labs.check import sentence

BEFORE = "import numpy as np\nimport math, torch\nfrom torch.nn import functional as F\n"

RIGHT = {
    "scores": [
        """
        def scores(q, k):
            return torch.einsum("...id,...jd->...ij", q, k) * q.size(-1) ** -0.5
        """,
        """
        def scores(q, k):
            rows = [(k * q[..., i : i + 1, :]).sum(-1) for i in range(q.shape[-2])]
            return torch.stack(rows, dim=-2) / math.sqrt(q.shape[-1])
        """,
        """
        root = lambda x: x**0.5
        scores = lambda q, k: q.double() @ (k.double() / root(k.shape[-1])).mT
        """,
        """
        def scores(q, k):
            return np.matmul(q.numpy(), np.swapaxes(k.numpy(), -1, -2)) / np.sqrt(k.shape[-1])
        """,
        """
        def scores(q: torch.Tensor, k: torch.Tensor, *, scale: float | None = None) -> torch.Tensor:
            scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
            return (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1).mul_(scale)
        """,
    ],
    "softmax": [
        """
        def softmax(x):
            x = x - x.max(dim=-1, keepdim=True).values
            return (x - x.exp().sum(-1, keepdim=True).log()).exp()
        """,
        """
        def softmax(x):
            x = x.clone()
            x -= x.amax(-1, keepdim=True)
            x.exp_()
            x /= x.sum(-1, keepdim=True)
            return x
        """,
        """
        def softmax(x):
            if x.dim() > 1:
                return torch.stack([softmax(row) for row in x])
            e = [math.exp(float(s - max(x))) for s in x]
            return torch.tensor([n / sum(e) for n in e])
        """,
        """
        def softmax(x):
            return 1 / (x.unsqueeze(-2) - x.unsqueeze(-1)).exp().sum(-1)
        """,
        """
        class Softmax:
            def __call__(self, x):
                e = np.exp(x.double().numpy() - x.double().numpy().max(-1, keepdims=True))
                return torch.from_numpy(e / e.sum(-1, keepdims=True))
        softmax = Softmax()
        """,
    ],
    "masked_softmax": [
        """
        def masked_softmax(x, mask):
            e = torch.where(mask, torch.exp(x - x.amax(-1, keepdim=True)), 0.0)
            top = x.masked_fill(~mask, -1e30).amax(-1, keepdim=True)
            e = torch.exp((x - top).clamp(max=0)) * mask
            return e / e.sum(-1, keepdim=True).clamp(min=1e-30)
        """,
        """
        def masked_softmax(x, mask):
            low = torch.where(mask, x, float("-inf"))
            e = (low - low.max(-1, keepdim=True)[0]).exp()
            return torch.nan_to_num(e / e.sum(-1, keepdim=True), nan=0.0)
        """,
        """
        def masked_softmax(x, mask):
            mask = mask.expand(x.shape)
            out = torch.zeros(x.shape).reshape(-1, x.shape[-1])
            for n, (row, see) in enumerate(zip(x.reshape(out.shape), mask.reshape(out.shape))):
                if see.any():
                    e = torch.exp(row[see] - row[see].max())
                    out[n, see] = e / e.sum()
            return out.view(x.shape)
        """,
        """
        def masked_softmax(x, mask):
            x = x.double().masked_fill(mask.logical_not(), -1e12)
            e = torch.exp(x - x.amax(-1, keepdim=True))
            return (e / e.sum(-1, keepdim=True)) * mask
        """,
    ],
    "causal_mask": [
        "def causal_mask(Tq, Tk):\n    return torch.ones(Tq, Tk).tril(diagonal=Tk - Tq).bool()",
        """
        def causal_mask(Tq, Tk):
            return torch.tensor([[j <= i + Tk - Tq for j in range(Tk)] for i in range(Tq)])
        """,
        "def causal_mask(Tq, Tk):\n    return ~torch.ones(Tk, Tk, dtype=torch.bool).triu(1)[-Tq:]",
        "def causal_mask(Tq, Tk):\n    return np.tri(Tq, Tk, Tk - Tq, dtype=bool)",
        "def causal_mask(Tq, Tk):\n    return torch.eye(Tk).cumsum(0)[-Tq:] > 0",
    ],
    "attend": [
        """
        def attend(q, k, v, mask=None):
            x = torch.einsum("...id,...jd->...ij", q, k) / q.shape[-1] ** 0.5
            if mask is None:
                mask = torch.ones_like(x, dtype=torch.bool)
            top = x.masked_fill(~mask, -1e9).amax(-1, keepdim=True)
            e = torch.exp((x - top).clamp(max=0)) * mask
            w = e / e.sum(-1, keepdim=True).clamp_min(1e-20)
            return torch.einsum("...ij,...jd->...id", w, v), w
        """,
        """
        def attend(query, key, value, mask=None, drop=0.0):
            def one(q, k, v):
                out, weights = torch.zeros(len(q), v.shape[1]), torch.zeros(len(q), len(k))
                for i in range(len(q)):
                    see = [j for j in range(len(k)) if mask is None or mask[i, j]]
                    s = [float(q[i] @ k[j]) / math.sqrt(q.shape[1]) for j in see]
                    e = [math.exp(n - max(s)) for n in s]
                    for j, n in zip(see, e):
                        weights[i, j] = n / sum(e)
                        out[i] += n / sum(e) * v[j]
                return out, weights
            if query.dim() == 2:
                return one(query, key, value)
            parts = [attend(*three, mask) for three in zip(query, key, value)]
            return tuple(torch.stack(part) for part in zip(*parts))
        """,
        """
        def attend(q, k, v, mask=None):
            q, k, v = q.double(), k.double(), v.double()
            scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)
            if mask is not None:
                scores = scores.masked_fill(~mask, -1e18)
            e = torch.exp(scores - scores.max(-1, keepdim=True).values)
            weights = e / e.sum(-1, keepdim=True)
            if mask is not None:
                weights = weights * mask.any(-1, keepdim=True)
            return [weights @ v, weights]
        """,
    ],
    "reverse": [
        """
        def reverse(x):
            T = len(x)
            return attend(50 * torch.fliplr(torch.eye(T)), 50 * torch.eye(T), x)[0]
        """,
        """
        def reverse(x):
            places = torch.eye(x.shape[0], dtype=torch.float64) * 1000
            turned = places[torch.arange(x.shape[0]).sort(descending=True).indices]
            return attend(turned, places, x.double())[0]
        """,
    ],
}
NOTEBOOKS = max(map(len, RIGHT.values()))
FULL = {"scores": 2, "softmax": 3, "masked_softmax": 3, "causal_mask": 2, "attend": 4, "reverse": 2}
ALL = [(name, n) for name, ways in RIGHT.items() for n in range(len(ways))]


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[pytest.mark.slow] * (n > 2)) for n in range(NOTEBOOKS)]
)
def test_every_right_answer_gets_all_points(number, grade, hand_in):
    answers = {name: ways[number % len(ways)] for name, ways in RIGHT.items()}
    row = grade(hand_in(answers, BEFORE))
    texts = {name: row["questions"][name]["text"] for name in FULL}
    assert {name: row["questions"][name]["points"] for name in FULL} == FULL, texts
    assert row["review"] == []


@pytest.mark.parametrize("name,number", [one for one in ALL if one[0] != "reverse"])
def test_the_check_says_right(name, number, define):
    assert sentence(name, define(BEFORE, RIGHT[name][number])[name]).startswith("right")


def test_the_lab_s_own_solutions_are_right(grade, lab):
    row = grade(lab.path.read_bytes())
    assert {name: row["questions"][name]["points"] for name in FULL} == FULL
    assert row["status"] == "graded" and row["review"] == []
