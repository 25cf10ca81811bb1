"""Recomputation in repeats: any policy and any memory give the same bits; what is asked for is what happens."""

import json
import os
import re
import shutil

import mgctest
from mgctest import model, some

SMALL = {"layers": 24, "hidden": 64, "heads": 4, "kv_heads": 2, "head": 16, "ffn": 160, "vocab": 256, "seq": 64,
         "batch": 4}


def small(name):
    """Options that make a shipped model small: those of SMALL that are dims of it."""
    with open(model(name), encoding="utf-8") as f:
        text = f.read()
    return [x for d, n in SMALL.items() if re.search(rf"(?m)^dim\b.*\b{d} *=", text) for x in ("-D", f"{d}={n}")]


@mgctest.in_turns
class Recompute(mgctest.Case):
    def layout(self, name, setting):
        """The model with another way to recompute, or an assertion."""
        with open(model(name), encoding="utf-8") as f:
            text = f.read()
        new = re.sub(r"(?m)^( *)recompute .*", rf"\1{setting}", text)
        self.assertNotEqual(new, text)
        return self.write("changed.mg", new)

    def plan(self, path, *options):
        return json.loads(self.compiles(path, *options, "--plan=json").out)

    def trained(self, path, *options):
        """The parameters after a few steps, as they are written."""
        self.compiles(path, *options, "-o", "t")
        self.trains("./t", "--data", "u16:w.bin", "--steps", 3, "--save-every", 0, "--out", "run")
        return self.read("run/ckpt/step-00000003/model.safetensors")

    def test_same_bits(self):
        names = ["gpt2_124m.mg", "llama_56m.mg"]
        self.write("w.bin", bytes(b for i in range(8192) for b in ((i * 7919 >> 3) % 256, 0)))
        for name in some(names):
            given = [*small(name), "--microbatch", "2"]
            usual = self.trained(model(name), *given)
            for policy in "none", "all":
                self.assertEqual(self.trained(model(name), *given, "--recompute", policy), usual, policy)
            p = self.plan(model(name), *given)
            most = p["arena_bytes"] + p["scratch_bytes"]
            least = self.floor(name, given)
            segments = ranges = False
            for part in range(4):
                budget = least + (most - least) * part // 4 + 1000
                path = self.layout(name, f"assert peak < {budget} B")
                p = self.plan(path, *given)
                kept = p["recompute"]["ranges"]
                segments |= any(r["segment"] > 1 for r in kept)
                ranges |= len(kept) > 1
                self.assertEqual(sum(r["iterations"] for r in kept), SMALL["layers"], (name, part, least, most, budget))
                self.assertLessEqual(p["arena_bytes"] + p["scratch_bytes"], budget)
                self.assertEqual(self.trained(path, *given), usual, kept)
            self.assertTrue(ranges, name)
            self.assertTrue(segments, name)

    # Rows that no vector divides, and each function of the language in a body whose values are kept or made again.
    ODD = """dim seq = {seq}, wide = {wide}, narrow = 17, layers = 3, vocab = 256, batch = 4

model odd(tokens[batch, seq] : token(vocab)) {{
    embed : param[vocab, wide] ~ normal(1)
    x = embed[tokens]
    repeat layers as "r.{{}}" {{
        a : param[wide, narrow] ~ normal(0.3)
        b : param[narrow]       ~ normal(0.3)
        c : param[narrow, wide] ~ normal(0.3)
        n = layernorm(x, 1.1, 0.1, over wide, eps = 0.1)
        h = n @ a over wide + b
        u = {function}
        m = max(u, over seq)
        s = softmax(u, over narrow)
        x = x * 0.7 + tanh((u + m) * s) @ c over narrow
    }}
    loss = cross_entropy(x @ embed over wide, next(tokens))
}}

train {{
    optimizer sgd()
    lr        constant(peak = 1, steps = 3)
    precision {precision}
}}

layout {{
    device cpu
    microbatch 2
    recompute  {recompute}
}}
"""
    FUNCTIONS = ["gelu_tanh(h)", "gelu(h)", "silu(h)", "sigmoid(h) * exp(0.1 * h)", "tanh(h) + 0.3 * erf(h)",
                 "log(1.5 + h * h)", "sin(h) * cos(0.3 * h)", "pow(1.5 + h * h, 0.7)", "rsqrt(1.5 + h * h) + sqrt(1.5 + h * h)",
                 "abs(h) + relu(h - 0.1)"]

    def test_same_bits_of_functions(self):
        """A recomputed value has the same bits: by a vector or by what is left of a row, in whichever kernel, on
        whichever thread."""
        self.write("w.bin", bytes(b for i in range(4096) for b in ((i * 7919 >> 3) % 256, 0)))
        cases = [(f, seq, wide, precision) for f in self.FUNCTIONS for seq, wide in ((9, 33), (5, 64), (16, 19), (3, 131))
                 for precision in ("f32", "f64", "bf16")]
        for function, seq, wide, precision in some(cases, 8):
            runs = {}
            for recompute in "none", "auto", "all":
                path = self.write("odd.mg", self.ODD.format(function=function, seq=seq, wide=wide, precision=precision,
                                                            recompute=recompute))
                self.compiles(path, "-o", "t")
                for threads in 1, 2:
                    out = f"run-{recompute}-{threads}"
                    self.trains("./t", "--data", "u16:w.bin", "--steps", 3, "--threads", threads, "--save-every", 0, "--out", out)
                    losses = [(m["loss"], m["grad_norm"]) for m in self.metrics(out) if "loss" in m]
                    runs[recompute, threads] = losses, self.read(f"{out}/ckpt/step-00000003/model.safetensors")
                    shutil.rmtree(self.path(out))
            for key, run in runs.items():
                self.assertEqual(run, runs["none", 1], (function, seq, wide, precision, key))

    def floor(self, name, given):
        """The least there is: what an assertion that nothing meets is told to take."""
        memory = self.plan(model(name), *given)["memory"]
        path = self.layout(name, f"assert peak < {memory['params'] + memory['optimizer'] + 1_200_000} B")
        r = self.mgc(path, *given, "--check")
        self.assertEqual(r.returncode, 3)
        return int(re.search(r"the plan needs (\d+) bytes", r.err)[1])

    def test_frontier(self):
        out = self.compiles(model("llama_56m.mg"), "--frontier", "--check").out
        options = re.findall(r"(?m)^ +([\d.]+) (\w+) +\S+(?: \w+)?  (.+)$", out)
        self.assertGreaterEqual(len(options), 6)
        rows = re.findall(r"(?m)^ +([\d.]+) MiB +([\d.]+) s +([\d.]+)%  layers 0\.\.", out)
        peaks, slower = [float(r[0]) for r in rows], [float(r[2]) for r in rows]
        self.assertGreaterEqual(len(rows), 8)
        self.assertEqual(peaks, sorted(peaks))
        self.assertEqual(slower, sorted(slower, reverse=True))
        self.assertEqual(slower[-1], 0)
        self.assertIn("in segments of", out)
        options = ("--recompute", "none", "--frontier", "--fusion", "--check")
        out = self.compiles(model("llama_mini.mg"), *options).out
        self.assertIn("layers: 4 iterations", out)
        self.assertRegex(out, r"(?m)^fuse: .*: apart: \w")
        self.write("fused.mgir", self.compiles(model("llama_mini.mg"), "--print-after=fuse").out)
        for option in "--frontier", "--fusion":
            self.assertEqual(self.mgc("--from=fused.mgir", option, "--check").returncode, 2)
        r = self.compiles(model("mlp.mg"), "--frontier", "--check")
        self.assertIn("there is no repeat", r.out)

    def test_arena(self):
        """The arena is within 1% of the largest live set, whatever is kept."""
        for name in mgctest.SHIPPED:
            for policy in "auto", "none", "all":
                r = self.mgc(model(name), "--device", "b200", "--recompute", policy, "--offload", "none", "--plan=json")
                if r.returncode == 3:
                    continue
                p = json.loads(r.out)
                self.assertLessEqual(p["arena_bytes"], 1.01 * p["live_bound_bytes"], (name, policy))

    def test_kinds_of_layers(self):
        """A pipeline's layers of two kinds are two repeats, and a device's memory between that of the plan with room for all and
        that of one that keeps nothing is enough for a plan that keeps some."""
        sizes = [x for d in ("layers=8", "hidden=1024", "heads=8", "narrow=256", "wide=2048", "ffn=512", "experts=8",
                                   "vocab=1024", "batch=64") for x in ("-D", d)]
        layout = self.write("pp.mg", "layout pp { device h100\n mesh pp = 2\n layers -> pp (schedule = 1f1b)\n microbatch 4\n"
                            " recompute auto }\n")
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/h100.json"), encoding="utf-8") as f:
            device = json.load(f)

        def plan(policy, memory):
            path = self.write("device.json", json.dumps(dict(device, name="less", memory=int(memory))))
            return self.plan(os.path.join(mgctest.SOURCE, "bench/published/deepseek.mg"), "--layout", layout, "--device", path, *sizes, "--recompute", policy, "--offload", "none")

        def needs(p):
            return p["arena_bytes"] + p["outside"]["bytes"]

        most, least = (needs(plan(policy, device["memory"])) for policy in ("auto", "all"))
        self.assertGreater(most, 1.2 * least)
        last = 0
        for memory in (least + (most - least) * part for part in (0.25, 0.5, 0.75)):
            p = plan("auto", memory)
            self.assertLessEqual(needs(p), memory)
            self.assertEqual(len({r["repeat"] for r in p["recompute"]["ranges"]}), 2)
            if last:
                self.assertLessEqual(p["recompute"]["again_ms"], last)
            last = p["recompute"]["again_ms"]

    def kept_by_a_layer(self, name, dims, split):
        """Bytes that a layer more makes of activations, on each of 8 ranks of tp that split the sequence, over seq * batch * hidden / 8."""
        layout = self.write("tp8.mg", f"layout tp8 {{ device h100\n mesh tp = 8\n {split}, ffn, vocab -> tp\n seq -> tp\n"
                            f" microbatch {dims['batch'] // 2}\n recompute auto }}\n")
        sizes = [x for d, n in dims.items() for x in ("-D", f"{d}={n}")]
        path = os.path.join(mgctest.SOURCE, "bench/published", name)
        few, more = (self.plan(path, "--layout", layout, *sizes, "-D", f"layers={n}") for n in (16, 18))
        # Nothing of a layer; the last norm may be, where the head's gather goes in pieces.
        self.assertEqual(more["recompute"]["again_ms"], few["recompute"]["again_ms"])
        kept = (more["memory"]["activations"] - few["memory"]["activations"]) / 2
        return kept / (dims["seq"] * dims["batch"] / 2 * dims["hidden"] / 8)

    def test_kept_as_published(self):
        """Korthikanti et al. 2022 (arXiv 2205.05198) need 34 sbh of each layer with selective recomputation and the sequence split; their
        norms' results, 4 sbh, are computed again where they are read, and there are no masks of dropout, 2 sbh. Of a Llama all is
        counted that a layer's products and norms read. Beside that there is a float of each row's softmax."""
        for dims in ({"hidden": 6144, "heads": 64, "seq": 2048, "batch": 8}, {"hidden": 12288, "heads": 96, "seq": 2048, "batch": 2}):
            kept = self.kept_by_a_layer("gpt_flash.mg", dims, "heads")
            self.assertAlmostEqual(kept, 28 + 4 * dims["heads"] / dims["hidden"], delta=0.05, msg=dims)
        for hidden, group, ffn, seq in ((4096, 1, 11008, 4096), (4096, 4, 14336, 8192), (8192, 8, 28672, 8192)):
            dims = {"hidden": hidden, "kv_heads": hidden // 128 // group, "group": group, "ffn": ffn, "seq": seq, "batch": 2}
            kept = self.kept_by_a_layer("llama.mg", dims, "kv_heads")
            read = {"both x": 4, "both norms": 4, "q": 2, "k, v": 4 / group, "mixed": 2, "gate, up and their product": 6 * ffn / hidden}
            self.assertAlmostEqual(kept, sum(read.values()) + 4 / 128, delta=0.05, msg=dims)

    def test_named(self):
        path = self.layout("llama_56m.mg", "recompute keep [attention, gate, up]")
        kept = self.plan(path)
        self.assertEqual(kept["recompute"]["policy"], "keep")
        usual = self.plan(model("llama_56m.mg"))
        everything = self.plan(model("llama_56m.mg"), "--recompute", "all")
        self.assertLess(kept["arena_bytes"], usual["arena_bytes"])
        self.assertGreater(kept["arena_bytes"], everything["arena_bytes"])
        self.assertLess(usual["recompute"]["again_ms"], kept["recompute"]["again_ms"])
        self.assertLess(kept["recompute"]["again_ms"], everything["recompute"]["again_ms"])
        for setting, says in (("keep [gete]", "did you mean 'gate'?"), ("keep", "takes names of values"),
                              ("all [gate]", "'all' takes no names"), ("keep [1 + 2]", "not the name of a value")):
            r = self.mgc(self.layout("llama_56m.mg", f"recompute {setting}"), "--check")
            self.assertEqual(r.returncode, 1, r.err)
            self.assertIn(says, r.err)


if __name__ == "__main__":
    mgctest.main()
