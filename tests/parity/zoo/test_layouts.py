"""Models of many kinds under random layouts, by real ranks: losses, norms and gradients are those of the golden files, or
the layout is refused by an error of its own. Three ranks divide few of their dims: these are padded. CI takes a few layouts of a few models, which turn with the commit; MGC_FULL=1 takes
EACH layouts of all."""

import collections
import random
import re
import unittest
from unittest import mock

from zoo import MODELS, Golden, mgctest, random_layouts

EACH = 20 if mgctest.FULL else 5
TRIES = 10  # for each that is wanted


def dims_of(source):
    """The dims of a model that a layout may split: all that its file gives, but the batch."""
    with open(source, encoding="utf-8") as f:
        text = re.sub(r"#.*", "", f.read())
    names = re.findall(r"(\w+) = [^,\n]+", " ".join(re.findall(r"^dim (.*)", text, re.M)))
    layers = tuple(dict.fromkeys(re.findall(r"^ *repeat (\w+)", text, re.M)))
    free = [n for n in names if n not in ("batch", "seq", *layers)]
    attends = "attention(" in re.sub(r"block \w+", "", text)
    return random_layouts.Dims(free, seq="seq" if "seq" in names else "", zigzag=attends, heads=attends, layers=layers,
                               most_rules=3, two_axes=0.15, thirds=("tp", "tp", "cp"))


PACKING = (  # of documents packed into windows: each way that attention runs along a sequence, and what cuts the batch or the layers
    ("mesh dp = 2", "batch -> dp", "state, grads -> dp", "microbatch 1", "recompute all"),
    ("mesh cp = 2", "seq -> cp (ring)", "microbatch 2", "recompute none"),
    ("mesh cp = 2", "seq -> cp (ring, zigzag)", "microbatch 4", "recompute all"),
    ("mesh cp = 2", "seq -> cp (heads)", "microbatch 2", "recompute auto"),
    ("mesh cp = 3", "seq -> cp (ring)", "microbatch 2", "recompute all"),
    ("mesh tp = 2", "kv_heads, ffn, vocab -> tp", "seq -> tp", "microbatch 2", "recompute none"),
    ("mesh pp = 2", "layers -> pp (schedule = 1f1b)", "microbatch 1", "recompute all"),
    ("mesh pp = 2, cp = 2", "layers -> pp (schedule = zb-h1)", "seq -> cp (zigzag)", "microbatch 2", "recompute none"),
    ("mesh dp = 2, cp = 2", "batch -> dp", "seq -> cp (ring, zigzag)", "state, grads, params -> dp", "microbatch 1", "recompute auto"))


class Layouts(mgctest.Case):
    def one(self, golden, data, lines, seed):
        """Whether the layout ran; the code of what it was refused for."""
        self.write("it.mg", random_layouts.text(lines))
        r = self.mgc(golden.source, "--layout", "./it.mg", "-o", "program")
        if r.returncode:
            codes = re.findall(r"error\[(MG03\d\d|MG02\d\d|MG0522|MG0581)\]", r.err)
            self.assertTrue(r.returncode == 1 and codes, (golden.name, seed, lines, r.returncode, r.err))
            return codes[0]
        self.assertEqual(golden.run(self, "program", f"run-{seed}", data), [], (golden.name, seed, lines))
        return ""

    def follow(self, name):
        golden, ran, refused = Golden(name), 0, collections.Counter()
        data, dims = golden.prepare(self), dims_of(golden.source)
        for seed in range(mgctest.TURN * 1000, mgctest.TURN * 1000 + TRIES * EACH):
            if ran == EACH:
                break
            r = random.Random(f"{name} {seed}")
            _, lines = random_layouts.draw(r, dims, ranks=(2, 3, 4, 4, 6, 8) if mgctest.FULL else (2, 3, 4), stages=0.3)
            with self.subTest(model=name, seed=seed, layout=lines):
                code = self.one(golden, data, lines, seed)
                ran += not code
                refused.update([code] if code else [])
        print(f"{name}: {ran} layouts follow, {sum(refused.values())} refused ({dict(refused)})", flush=True)
        self.assertGreater(ran, 0, "every layout is refused: nothing was tested")

    def test_packing(self):
        """Losses, norms and gradients of packed documents are the sums of those of each alone, to 1e-12, under every kind of layout."""
        golden = Golden("packing")
        data = golden.prepare(self)
        with mock.patch.multiple("zoo", LOSS=1e-12, NORM=1e-12, GRADIENT=1e-12):
            for seed, lines in enumerate(mgctest.some(PACKING, 3)):
                with self.subTest(layout=lines):
                    self.assertEqual(self.one(golden, data, lines, seed), "")

    def test_random_layouts(self):
        for name in mgctest.some(MODELS, 4):
            with self.subTest(model=name):
                self.follow(name)


if __name__ == "__main__":
    unittest.main()
