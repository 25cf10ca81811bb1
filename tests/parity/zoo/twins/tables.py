"""Models of categories and numbers."""

import torch
import torch.nn.functional as F

from .twin import Twin, kind
from .vision import linear, linear_shapes


@kind
class Dlrm(Twin):
    numbers, hidden, narrow, users, items, tags, bag, things, wide, batch = 4, 16, 8, 32, 64, 16, 3, 4, 16, 8

    def shapes(self):
        return {"user.weight": (self.users, self.narrow), "item.weight": (self.items, self.narrow),
                "tag.weight": (self.tags, self.narrow), "pairs.weight": (self.wide, self.things**2),
                "pairs.bias": (self.wide,), "direct.weight": (self.wide, self.narrow), "top.bias": (self.wide,),
                **linear_shapes("bottom1", self.hidden, self.numbers),
                **linear_shapes("bottom2", self.narrow, self.hidden)}

    def inputs(self, draw):
        def some(n, *shape):
            return torch.randint(0, n, (self.batch, *shape), generator=draw)

        return {"dense_in": torch.randn((self.batch, self.numbers), generator=draw), "user": some(self.users),
                "item": some(self.items), "tag": some(self.tags, self.bag), "y": some(2).float()}

    def loss(self, w, d):
        h = F.relu(linear(F.relu(linear(d["dense_in"], w, "bottom1")), w, "bottom2"))
        bags = F.embedding_bag(d["tag"], w["tag.weight"], mode="sum")
        x = torch.stack((h, w["user.weight"][d["user"]], w["item.weight"][d["item"]], bags), 1)
        met = torch.tril(x @ x.transpose(1, 2), -1).flatten(1)
        z = F.relu(met @ w["pairs.weight"].T + h @ w["direct.weight"].T + w["pairs.bias"]) @ w["top.bias"]
        return F.binary_cross_entropy_with_logits(z, d["y"])


@kind
class BatchNorm(Twin):
    features, hidden, classes, batch = 8, 16, 4, 8

    def shapes(self):
        h = self.hidden
        return {"fc1.weight": (h, self.features), "fc2.weight": (h, h)} | linear_shapes("fc3", self.classes, h) | {
            f"bn{i}.{part}": (h,) for i in (1, 2) for part in ("weight", "bias")}

    def inputs(self, draw):
        return {"x": torch.randn((self.batch, self.features), generator=draw),
                "y": torch.randint(0, self.classes, (self.batch,), generator=draw)}

    def loss(self, w, d):
        h = d["x"]
        for i in (1, 2):
            h = F.batch_norm(h @ w[f"fc{i}.weight"].T, None, None, w[f"bn{i}.weight"], w[f"bn{i}.bias"], training=True)
            h = torch.tanh(h)
        return F.cross_entropy(linear(h, w, "fc3"), d["y"])
