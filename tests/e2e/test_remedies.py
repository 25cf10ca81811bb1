"""A program that does not fit gets remedies, and each does what was said of it."""

import json
import os
import re

import mgctest
from mgctest import model

HELP = re.compile(r"help: (.+): (\d+) bytes \([^)]*\), \S+ \S+ a step, (\S+) tokens/s")


def pairs(options):
    return [word for pair in options.items() for word in pair]


class Remedies(mgctest.Case):
    def device(self, like, **fields):
        with open(os.path.join(mgctest.SOURCE, "compiler/devices", like + ".json"), encoding="utf-8") as f:
            d = json.load(f)
        self.write("d.json", json.dumps({**d, "name": "d", **fields}))

    def check(self, name, memory, like="cpu2t", **options):
        """The remedies told, each of which was taken, and all that was said."""
        self.device(like, memory=memory)
        given = {"--device": "d.json", **options}
        r = self.mgc(model(name), *pairs(given), "--check")
        self.assertEqual(r.returncode, 3, r.err)
        told = HELP.findall(r.err)
        rates = [float(rate) for _, _, rate in told]
        self.assertEqual(rates, sorted(rates, reverse=True))
        for remedy, size, rate in told:
            words = remedy.split()
            argv = (model(name), *pairs({**given, **dict(zip(words[::2], words[1::2], strict=True))}))
            p = json.loads(self.compiles(*argv, "--plan=json").out)
            self.assertEqual(p["arena_bytes"] + p["scratch_bytes"] + p.get("outside", {}).get("bytes", 0), int(size), remedy)
            self.assertLessEqual(int(size), p["capacity_bytes"])
            said = re.search(r"([0-9.e+-]+) tokens/s", self.compiles(*argv, "--plan").out)
            self.assertAlmostEqual(float(said[1]), float(rate), delta=1e-9 * float(rate))
        return [remedy for remedy, _, _ in told], r.err

    def beside(self, name):
        """Bytes that its program takes of an h200 beside the arena."""
        return json.loads(self.compiles(model(name), "--device", "h200", "--plan=json").out)["outside"]["bytes"]

    def test_a_smaller_microbatch(self):
        told, _ = self.check("llama_mini.mg", 180 << 20)
        self.assertIn("--microbatch 16", told)
        self.assertTrue(any(t.startswith("-D seq=") for t in told))

    def test_recompute(self):
        told, _ = self.check("llama_mini.mg", 200 << 20, **{"--recompute": "none"})
        self.assertIn("--recompute auto", told)

    def test_halves_and_a_larger_device(self):
        told, _ = self.check("llama7b.mg", 105_000_000_000, "h200", **{"--precision": "f32"})
        self.assertIn("--device h200", told)
        told, _ = self.check("llama_mini.mg", (80 << 20) + self.beside("llama_mini.mg"), "h200", **{"--precision": "f32"})
        self.assertIn("--precision bf16", told)

    def test_together(self):
        """If no change does alone, the message proposes all of them; if they do not either, how far they go."""
        options = {"--recompute": "none", "-D": "seq=129"}
        told, _ = self.check("llama_mini.mg", 77_000_000, **options)
        self.assertEqual(told, ["--microbatch 1 --recompute auto"])
        told, err = self.check("llama_mini.mg", 25 << 20, **options)
        self.assertEqual(told, [])
        self.assertIn("even --microbatch 1 --recompute auto: ", err)

    def test_asserted(self):
        """No device helps where the layout asserts the peak."""
        with open(model("llama_mini.mg"), encoding="utf-8") as f:
            text = f.read()
        limit = (80 << 20) + self.beside("llama_mini.mg")
        self.write("m.mg", re.sub(r"(?m)^( *)recompute .*", rf"\1assert peak < {limit} B", text))
        r = self.mgc("m.mg", "--device", "h200", "--precision", "f32", "--check")
        self.assertEqual(r.returncode, 3)
        self.assertIn("MG0551", r.err)
        self.assertNotIn("--device", r.err)
        self.compiles("m.mg", "--device", "h200", "--precision", "f32", "--check", "--microbatch", 16)

    def test_nothing(self):
        """Not one rank: parameters and state alone are too much."""
        told, err = self.check("llama3_405b.mg", 141_000_000_000, "h200")
        self.assertEqual(told, [])
        self.assertIn("parameters, optimizer state and inputs alone take 56", err)

    def test_refused(self):
        for argv, says in ((("--microbatch", "x"), "no whole number"), (("--microbatch", "0"), "no whole number"),
                           (("--microbatch", "99999999999999999999"), "no whole number"),
                           (("--microbatch", "5"), "help: --microbatch 4"), (("--recompute", "some"), "auto|none")):
            r = self.mgc(model("llama_mini.mg"), "--check", *argv)
            self.assertIn(r.returncode, (1, 2))
            self.assertIn(says, r.err)
        self.assertEqual(self.mgc("fmt", model("llama_mini.mg"), "--microbatch", "4").returncode, 2)
        self.write("dump.mgir", self.compiles(model("mlp.mg"), "--print-after=lower").out)
        for option in ("--microbatch", "1"), ("--recompute", "none"), ("--precision", "f64"):
            self.assertEqual(self.mgc("--from=dump.mgir", "--check", *option).returncode, 2)


if __name__ == "__main__":
    mgctest.main()
