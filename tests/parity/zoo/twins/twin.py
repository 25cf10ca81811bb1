"""Common parts of the twins: the form of a model's description, and functions that several are made of.

A twin is a class: `shapes()` names its parameters as checkpoints do, `inputs(draw)` gives the data of one batch, and
`loss(w, d)` computes the loss of parameters and data, in plain torch.
"""

import math
import re

import torch
import torch.nn.functional as F

KINDS = {}


def kind(cls):
    """Enters a twin under the name of its .mg file: SharedExperts is the twin of shared_experts.mg."""
    KINDS[re.sub(r"(?<!^)([A-Z])", r"_\1", cls.__name__).lower()] = cls()
    return cls


class Twin:
    draws = False  # whether it draws numbers, by d["step"]: -1 in an evaluation. d["steps"]: those before this one

    def inputs(self, draw):
        """Windows of seq + 1 tokens; models with inputs by name give those."""
        tokens = torch.randint(0, self.vocab, (self.batch, self.seq + 1), generator=draw)
        tokens[:, 1::3] = tokens[:, :1]  # so that there is something to find
        return {"tokens": tokens}

    def metrics(self, w, d):
        """What the model's `metric`s are of the batch."""
        return {}

    def learns(self, name):
        """Whether a parameter is trained."""
        return True

    def follow(self, w, averages, step):
        """What follows other parameters, after the update of a step: in place. `averages` is empty before the first step."""

    def losses(self, w, d):
        """The losses by name; a model has one, or gives several and says which its parameters follow."""
        return {"loss": self.loss(w, d)}

    def follows(self, name):
        """The loss that a parameter follows."""
        return "loss"

    def optimizer(self, loss, weights):
        """The optimizer of the parameters that follow a loss; the rate of a step, and the norm to which gradients are clipped."""
        return torch.optim.SGD(weights, lr=0.1, momentum=0.9), (lambda step: 0.1), math.inf


def rms(x, gain, eps=1e-6):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * gain


def layer_norm(x, w, name, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], eps)


def split_heads(x, n):
    """(batch, seq, n * head) -> (batch, n, seq, head)"""
    return x.reshape(*x.shape[:2], n, -1).transpose(1, 2)


def join_heads(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def rope(x, theta=10000.0):
    """Halves of the last dim turn together; positions are the dim before it."""
    half = x.shape[-1] // 2
    rate = theta ** (-torch.arange(half, dtype=x.dtype) / half)
    angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * rate
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)


def hidden_from(t):
    """The mask of keys that a query does not see: those behind it."""
    return torch.ones(t, t, dtype=torch.bool).triu(1)


def attend(q, k, v, scale=None, causal=True):
    """(batch, heads, seq, head); keys and values may have fewer heads, each for several of the queries'."""
    if k.shape[1] != q.shape[1]:
        k, v = (z.repeat_interleave(q.shape[1] // k.shape[1], 1) for z in (k, v))
    s = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if causal:
        s = s.masked_fill(hidden_from(q.shape[2]), -math.inf)
    return torch.softmax(s, -1) @ v


def cross_entropy(z, y):
    return F.cross_entropy(z.reshape(-1, z.shape[-1]), y.reshape(-1).long())


def next_token(z, tokens):
    return cross_entropy(z, tokens[:, 1:])


def sizes(**dims):
    """{"a.weight": (8, 4)} out of a = (8, 4)"""
    return {name.replace("__", ".") + ".weight": shape for name, shape in dims.items()}
