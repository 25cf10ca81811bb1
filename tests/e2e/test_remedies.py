"""A program that does not fit gets remedies, and each does what was said of it."""

import json
import os
import re

import mgctest
from mgctest import model

HELP = re.compile(r"help: (.+): (\d+) bytes \([^)]*\), \S+ \S+ a step, (\S+) tokens/s")


def pairs(options):
    return [word for pair in options.items() for word in pair]


@mgctest.in_turns_of(2)
class Remedies(mgctest.Case):
    def device(self, like, **fields):
        with open(os.path.join(mgctest.SOURCE, "compiler/devices", like + ".json"), encoding="utf-8") as f:
            d = json.load(f)
        self.write("d.json", json.dumps({**d, "name": "d", **fields}))

    def takes(self, path, given, proposal):
        """What is compiled when a proposal is taken: its edits of the source, and its options in the place of those that were given."""
        with open(path, "rb") as f:
            text = f.read()
        options = dict(given)
        for e in sorted(proposal["edits"], key=lambda e: -e.get("begin", 0)):
            if "option" in e:
                name, value = e["option"].split(" ", 1)
                options[name] = value
            else:
                self.assertEqual(e["file"], path)
                text = text[:e["begin"]] + e["with"].encode() + text[e["end"]:]
        return self.write("taken.mg", text), pairs(options)

    def check(self, path, memory, like="cpu2t", levels=None, code=3, only="", **options):
        """The remedies told, each of which (with `only` in it) was taken, and all that was said."""
        path = path if path.startswith("/") else model(path)
        self.device(like, memory=memory, **(levels or {}))
        given = {"--device": "d.json", **options}
        r = self.mgc(path, *pairs(given), "--check", "--proposals", "p.json")
        self.assertEqual(r.returncode, code, r.err)
        told = HELP.findall(r.err)
        rates = [float(rate) for _, _, rate in told]
        self.assertEqual(rates, sorted(rates, reverse=True))
        proposals = {re.match(r"(.+): \d+ bytes", p["help"])[1]: p for p in json.loads(self.read("p.json")) if " bytes (" in p["help"]}
        for remedy, size, rate in (t for t in told if only in t[0]):
            taken, argv = self.takes(path, given, proposals[remedy])
            p = json.loads(self.compiles(taken, *argv, "--plan=json").out)
            self.assertEqual(p["arena_bytes"] + p["scratch_bytes"] + p.get("outside", {}).get("bytes", 0), int(size), remedy)
            self.assertLessEqual(int(size), p["capacity_bytes"])
            said = re.search(r"([0-9.e+-]+) tokens/s", self.compiles(taken, *argv, "--plan").out)
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
        told, _ = self.check("llama7b.mg", 105_000_000_000, "h200", **{"--precision": "f32", "--offload": "none"})
        self.assertIn("--device h200", told)
        told, _ = self.check("llama_mini.mg", (80 << 20) + self.beside("llama_mini.mg"), "h200",
                             **{"--precision": "f32", "--offload": "none"})
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

    HOST = {"host_in": 25e9, "host_out": 25e9, "host_both": 40e9, "host_seconds": 1e-5}

    def test_offload(self):
        """Its price is said: a step of a device that has room for all, which takes less time."""
        with open(model("llama_mini.mg"), encoding="utf-8") as f:
            text = f.read()
        for dim, size in (("hidden", 512), ("kv_heads", 16), ("ffn", 2048)):
            text, n = re.subn(rf"\b{dim} = \d+", f"{dim} = {size}", text, count=1)
            self.assertEqual(n, 1, dim)
        path, options = self.write("m.mg", text), {"--microbatch": "1", "--recompute": "all"}
        self.device("h200")
        plan = json.loads(self.compiles(path, *pairs({"--device": "d.json", **options}), "--plan=json").out)
        memory = plan["arena_bytes"] + plan["outside"]["bytes"] - plan["memory"]["optimizer"] // 2
        told, err = self.check(path, memory, "h200", {"host_memory": 1 << 36, **self.HOST}, only="auto", **options, **{"--offload": "none"})
        self.assertIn("--offload auto", told)
        m = re.search(r"--offload auto: .*, (\S+) (\S+) a step, .* tokens/s; with room for all on the device (\S+) (\S+) a step", err)
        self.assertTrue(m, err)
        units = {"us": 1e-6, "ms": 1e-3, "s": 1}
        beside = float(m[3]) * units[m[4]]
        self.assertLess(beside, float(m[1]) * units[m[2]])
        self.assertAlmostEqual(plan["step_ms"] / 1e3 / beside, 1, delta=1e-2)

    def test_small_host(self):
        """A host too small for state, masters and sums in f32: in bf16 they fit. As little as does is proposed, as edits of the source."""
        with open(model("llama_mini.mg"), encoding="utf-8") as f:
            text = f.read().replace("clip      1.0", "clip      1.0\n    precision bf16")
        text += "layout off {\n    device h200\n    microbatch 1\n    offload state, masters, gradients -> host\n}\n"
        path, options = self.write("m.mg", text), {"--layout": "off"}
        self.device("h200", host_memory=1 << 30, **self.HOST)
        plan = json.loads(self.compiles(path, *pairs({"--device": "d.json", **options}), "--plan=json").out)
        host = plan["levels"]["host"]["bytes"]
        # of 16 bytes a parameter 8 are state, 4 the master, 4 the sum of gradients
        each = ((0.8, "state = bf16"), (0.55, "state = bf16, master = bf16"), (0.45, "state = bf16, master = bf16, reduce = bf16"))
        for part, want in mgctest.some(each):
            told, err = self.check(path, 141_000_000_000, "h200", {"host_memory": int(host * part), **self.HOST}, code=1, only="state", **options)
            self.assertIn("MG0556", err)
            self.assertEqual([t for t in told if "bf16" in t], [want])
            self.assertIn("--offload none", told)
        self.device("h200", host_memory=1 << 20, **self.HOST)
        r = self.mgc(path, *pairs({"--device": "d.json", **options}), "--check")
        self.assertEqual(r.returncode, 1, r.err)
        self.assertNotIn("= bf16", r.err)

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
