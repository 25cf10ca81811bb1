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


@kind
class Resnet(Twin):
    row, colour, wide, groups, deep, classes, batch = 8, 3, 6, 2, 8, 4, 4

    def shapes(self):
        norms = {"n1": self.wide, "n2": self.wide, "n3": self.wide, "n4": self.deep}
        return {"stem.weight": (self.wide, self.colour, 3, 3), "a1.weight": (self.wide, self.wide, 3, 3),
                "a2.weight": (self.wide, self.wide, 3, 3), "strided.weight": (self.deep, self.wide, 3, 3),
                "short.weight": (self.deep, self.wide), "groups.weight": (self.deep, self.deep // self.groups, 3, 3),
                "ones.weight": (self.deep, 3, 3), "head.weight": (self.classes, self.deep), "head.bias": (self.classes,),
                **{f"{n}.{p}": (size,) for n, size in norms.items() for p in ("weight", "bias")}}

    def inputs(self, draw):
        return images(draw, self.batch, self.colour, self.row, self.row)

    def loss(self, w, d):
        def norm(x, n):
            x = F.layer_norm(x.movedim(1, -1), x.shape[1:2], w[n + ".weight"], w[n + ".bias"], 1e-5)
            return F.relu(x.movedim(-1, 1))

        h = F.conv2d(d["x"], w["stem.weight"], padding=1)
        z = norm(F.conv2d(norm(h, "n1"), w["a1.weight"], padding=1), "n2")
        h = h + F.conv2d(z, w["a2.weight"], padding=1)
        z = norm(h, "n3")
        short = F.conv2d(z, w["short.weight"][..., None, None], stride=2)
        z = norm(F.conv2d(z, w["strided.weight"], stride=2, padding=1), "n4")
        h = short + F.conv2d(z, w["groups.weight"], padding=2, dilation=2, groups=self.groups)
        h = h + F.conv2d(F.relu(h), w["ones.weight"][:, None], padding=1, groups=self.deep)
        return F.cross_entropy(F.relu(h).mean((2, 3)) @ w["head.weight"].T + w["head.bias"], d["y"])


@kind
class Whisper(Twin):
    mel, time, hidden, before, classes, batch = 5, 12, 8, 4, 4, 4

    def shapes(self):
        return {"conv1.weight": (self.hidden, self.mel, 3), "conv1.bias": (self.hidden,),
                "conv2.weight": (self.hidden, self.hidden, 3), "conv2.bias": (self.hidden,),
                "causal.weight": (self.hidden, self.before), "causal.bias": (self.hidden,),
                "head.weight": (self.classes, self.hidden)}

    def inputs(self, draw):
        return images(draw, self.batch, self.mel, self.time)

    def loss(self, w, d):
        h = F.gelu(F.conv1d(d["x"], w["conv1.weight"], w["conv1.bias"], padding=1))
        h = F.gelu(F.conv1d(h, w["conv2.weight"], w["conv2.bias"], stride=2, padding=1))
        past = F.pad(h, (self.before - 1, 0))
        h = F.silu(F.conv1d(past, w["causal.weight"].flip(1)[:, None], w["causal.bias"], groups=self.hidden))
        return F.cross_entropy(h.mean(2) @ w["head.weight"].T, d["y"])
