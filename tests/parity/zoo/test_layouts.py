"""Models of many kinds under random layouts, by real ranks: losses, norms and gradients are those of the golden files, or
the layout is refused by an error of its own. Three ranks divide few of their dims: these are padded. CI takes a few layouts of a few models, which turn with the commit; MGC_FULL=1 takes
EACH layouts of all."""

import collections
import random
import re
import unittest

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

    def test_random_layouts(self):
        for name in mgctest.some(MODELS, 4):
            with self.subTest(model=name):
                self.follow(name)


if __name__ == "__main__":
    unittest.main()
