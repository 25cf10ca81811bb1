"""Initial values by formula: each element is what the formula says, in double, under every layout; one that is no number is told."""

import math
import struct
import unittest

import mgctest
from mgctest import some
from test_evaluation import rows

MODEL = """dim batch = 4, wide = 6, heads = 4, head = 2, layers = 4
model m(x[batch, wide], w[batch, wide]) {
    decay : param[heads, head] = log(1 + index(heads) + 10 * index(head)) as "A" [(head heads)]
    dt    : param[heads] = log(exp(exp(uniform(log(0.001), log(0.1)))) - 1) as "dt"
    one   : param[heads] = uniform(1, 16) as "one"
    other : param[heads] ~ uniform(1, 16) as "other"
    z = x * sum(decay) + sum(dt) + sum(one) + sum(other)
    repeat layers as "l.{}" {
        s : param[wide, heads] = select(index(wide) < 3, -1, sign(normal(2))) * max(uniform(1, 16), 2 + normal(0.5)) as "s"
        z = tanh(z @ s over wide) @ s over heads
    }
    d = z - w
    loss = mean(d * d)
}
train {
    optimizer adamw()
    lr        constant(peak = 1e-3, steps = 1)
    precision PRECISION
}
layout {
    device cpu
"""
LAYOUTS = ("", "    mesh dp = 2\n    batch -> dp\n    state, grads, params -> dp\n", "    mesh tp = 2\n    heads -> tp\n    wide -> tp\n",
           "    mesh pp = 2\n    layers -> pp (schedule = 1f1b)\n    microbatch 2\n", "    mesh tp = 4\n    heads -> tp\n")
WORD, LONG = (1 << 32) - 1, (1 << 64) - 1


def words(name, e, which, seed):
    """The first two words that the element draws: Philox4x32-10 under the FNV of the name."""
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001B3 & LONG
    key ^= seed
    k0, k1 = key & WORD, key >> 32
    c = (e, 0, which, 0)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = ((p1 >> 32) ^ c[1] ^ k0, p1 & WORD, (p0 >> 32) ^ c[3] ^ k1, p0 & WORD)
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return c[:2]


def uniform(at, low, high):
    return low + (high - low) * (words(*at)[0] / 2**32)


def normal(at, deviation):
    a, b = words(*at)
    return deviation * math.sqrt(-2 * math.log((a + 1) / 2**32)) * math.cos(2 * math.pi * b / 2**32)


def wanted(seed):
    """name -> values in double"""
    def s(name, e):
        sign = -1 if e // 4 < 3 else math.copysign(1, normal((name, e, 0, seed), 2))
        return sign * max(uniform((name, e, 1, seed), 1, 16), 2 + normal((name, e, 2, seed), 0.5))

    dt = [uniform(("dt", e, 0, seed), math.log(0.001), math.log(0.1)) for e in range(4)]
    return {"A": [math.log(1 + e % 4 + 10 * (e // 4)) for e in range(8)],
            "dt": [math.log(math.exp(math.exp(u)) - 1) for u in dt],
            "one": [uniform(("one", e, 0, seed), 1, 16) for e in range(4)],
            "other": [uniform(("other", e, 0, seed), 1, 16) for e in range(4)]} | {
                f"l.{i}.s": [s(f"l.{i}.s", e) for e in range(24)] for i in range(4)}


class Initial(mgctest.Case):
    def parameters(self, layout, precision, seed):
        self.write("m.mg", MODEL.replace("PRECISION", precision) + layout + "}\n")
        self.compiles("m.mg", "-o", "p")
        self.write("d", rows(8, 1))
        out = f"run-{abs(hash((layout, precision, seed)))}"
        self.trains("./p", "--data", "d", "--steps", 1, "--lr", 0, "--seed", seed, "--out", out)
        return self.read(f"{out}/ckpt/step-00000001/model.safetensors")

    def test_values(self):
        import json
        for precision, seed in some((("f32", 0), ("f64", 7), ("f32", 3))):
            data = self.parameters("", precision, seed)
            (n,) = struct.unpack_from("<Q", data)
            header, want = json.loads(data[8:8 + n]), wanted(seed)
            header.pop("__metadata__", None)
            self.assertEqual(set(header), set(want))
            for name, values in want.items():
                a, b = (8 + n + x for x in header[name]["data_offsets"])
                got = struct.unpack(f"<{len(values)}{'d' if precision == 'f64' else 'f'}", data[a:b])
                for x, y in zip(got, values, strict=True):
                    self.assertLessEqual(abs(x - y), abs(y) * (1e-14 if precision == "f64" else 2**-24), (name, got, values))

    def test_layouts(self):
        """Ranks that each have a part, or some layers, begin with the same bytes."""
        whole = self.parameters("", "f32", 5)
        for layout in some(LAYOUTS[1:], 2):
            self.assertEqual(self.parameters(layout, "f32", 5), whole, layout)

    def test_no_number(self):
        self.write("m.mg", MODEL.replace("PRECISION", "f32").replace("log(1 + index(heads)", "log(index(heads)") + "}\n")
        self.compiles("m.mg", "-o", "p")
        self.write("d", rows(8, 1))
        r = self.trains("./p", "--data", "d", "--steps", 1, "--out", "run", code=1)
        self.assertIn("A: the initial value of element 0 is -inf", r.err)


if __name__ == "__main__":
    unittest.main()
