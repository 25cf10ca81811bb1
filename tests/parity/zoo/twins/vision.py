"""Images: convolutions, patches, and a classifier over them."""

import torch
import torch.nn.functional as F

from .twin import Twin, attend, join_heads, kind, layer_norm, split_heads


def images(draw, *shape):
    """x and, of four classes, y."""
    return {"x": torch.randn(shape, generator=draw), "y": torch.randint(0, 4, shape[:1], generator=draw)}


@kind
class Convnet(Twin):
    row, colour, first, second, classes, batch = 8, 2, 8, 8, 4, 4

    def shapes(self):
        last = (self.row // 4) ** 2 * self.second
        return {"conv1.weight": (self.first, self.colour, 3, 3), "conv1.bias": (self.first,),
                "conv2.weight": (self.second, self.first, 3, 3), "conv2.bias": (self.second,),
                "head.weight": (self.classes, last), "head.bias": (self.classes,)}

    def inputs(self, draw):
        return images(draw, self.batch, self.colour, self.row, self.row)

    def loss(self, w, d):
        h = d["x"]
        for n in ("conv1", "conv2"):
            h = F.max_pool2d(F.relu(F.conv2d(h, w[n + ".weight"], w[n + ".bias"], padding=1)), 2)
        return F.cross_entropy(h.flatten(1) @ w["head.weight"].T + w["head.bias"], d["y"])


def linear(x, w, name):
    return F.linear(x, w[name + ".weight"], w[name + ".bias"])


def linear_shapes(name, out, into):
    return {name + ".weight": (out, into), name + ".bias": (out,)}


@kind
class Vit(Twin):
    layers, hidden, heads, ffn, patches, pixels, classes, batch = 2, 16, 2, 16, 4, 12, 4, 4

    def shapes(self):
        h = self.hidden
        s = linear_shapes("patch", h, self.pixels) | linear_shapes("head", self.classes, h)
        s |= {"cls.bias": (h,), "pos.weight": (self.patches + 1, h), "norm.weight": (h,), "norm.bias": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.{n}.{part}": (h,) for n in ("ln1", "ln2") for part in ("weight", "bias")}
            s |= {f"{i}.attn.{n}.weight": (h, h) for n in "qkvo"}
            s |= linear_shapes(f"{i}.mlp.up", self.ffn, h) | linear_shapes(f"{i}.mlp.down", h, self.ffn)
        return s

    def inputs(self, draw):
        return images(draw, self.batch, self.patches, self.pixels)

    def loss(self, w, d):
        x = linear(d["x"], w, "patch")
        x = torch.cat((w["cls.bias"].expand(len(x), 1, -1), x), 1) + w["pos.weight"]
        for i in range(self.layers):
            a = layer_norm(x, w, f"{i}.ln1", 1e-6)
            q, k, v = (split_heads(a @ w[f"{i}.attn.{n}.weight"].T, self.heads) for n in "qkv")
            x = x + join_heads(attend(q, k, v, causal=False)) @ w[f"{i}.attn.o.weight"].T
            u = F.gelu(linear(layer_norm(x, w, f"{i}.ln2", 1e-6), w, f"{i}.mlp.up"))
            x = x + linear(u, w, f"{i}.mlp.down")
        return F.cross_entropy(linear(layer_norm(x[:, 0], w, "norm", 1e-6), w, "head"), d["y"])


@kind
class Mixer(Twin):
    layers, hidden, patches, pixels, tokens_mlp, ffn, classes, batch = 2, 16, 4, 12, 8, 16, 4, 8

    def shapes(self):
        h = self.hidden
        s = linear_shapes("patch", h, self.pixels) | linear_shapes("head", self.classes, h)
        s |= {"norm.weight": (h,), "norm.bias": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.{n}.{part}": (h,) for n in ("ln1", "ln2") for part in ("weight", "bias")}
            for n, wide, size in (("tokens", self.tokens_mlp, self.patches), ("channels", self.ffn, h)):
                s |= linear_shapes(f"{i}.{n}.up", wide, size) | {f"{i}.{n}.down.weight": (size, wide)}
        return s

    def inputs(self, draw):
        return images(draw, self.batch, self.patches, self.pixels)

    def logits(self, w, d):
        x = linear(d["x"], w, "patch")
        for i in range(self.layers):
            u = layer_norm(x, w, f"{i}.ln1", 1e-6).transpose(1, 2)
            u = F.gelu(linear(u, w, f"{i}.tokens.up")) @ w[f"{i}.tokens.down.weight"].T
            x = x + u.transpose(1, 2)
            u = layer_norm(x, w, f"{i}.ln2", 1e-6)
            x = x + F.gelu(linear(u, w, f"{i}.channels.up")) @ w[f"{i}.channels.down.weight"].T
        return linear(layer_norm(x, w, "norm", 1e-6).mean(1), w, "head")

    def loss(self, w, d):
        return F.cross_entropy(self.logits(w, d), d["y"])

    def metrics(self, w, d):
        z = self.logits(w, d)
        of_three = (z.topk(3, dim=-1).indices == d["y"][:, None]).any(-1)
        return {"accuracy": (z.argmax(-1) == d["y"]).double().mean(), "of_three": of_three.double().mean()}
