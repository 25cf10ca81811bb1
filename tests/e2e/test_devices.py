"""The descriptions that are shipped: each plans a model that fits, refuses one that does not, and is documented."""

import json
import os
import re

import mgctest
from mgctest import TINY, model, some

FOLDER = os.path.join(mgctest.SOURCE, "compiler/devices")
NAMES = sorted(f.removesuffix(".json") for f in os.listdir(FOLDER))


def description(name):
    with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as f:
        return json.load(f)


GPUS = [name for name in NAMES if description(name)["target"] == "cuda"]


class Devices(mgctest.Case):
    def test_a_small_model_fits(self):
        for name in NAMES:
            d = description(name)
            p = json.loads(self.compiles(model("llama_mini.mg"), "--device", name, "--plan=json").out)
            self.assertEqual((d["name"], p["device"]), (name, name))
            if d["memory"] != "host":
                self.assertEqual(p["capacity_bytes"], d["memory"])
            self.assertLess(p["arena_bytes"] + p["scratch_bytes"], p["capacity_bytes"])
            self.assertGreater(p["step_ms"], 0)

    def test_a_large_model_does_not(self):
        """The message has both numbers."""
        for name in some(NAMES, 4):
            r = self.mgc(model("llama3_405b.mg"), "--device", name, "--check")
            self.assertEqual(r.returncode, 3, r.err)
            said = re.search(r"the plan needs (\d+) bytes \([^)]*\) and the device has (\d+)", r.err)
            self.assertIsNotNone(said, r.err)
            needs, has = int(said[1]), int(said[2])
            self.assertGreater(needs, has)
            if description(name)["memory"] != "host":
                self.assertEqual(has, description(name)["memory"])

    def test_a_larger_card_is_proposed(self):
        """Of those with room the smallest: of the descriptions, not of a list."""
        r = self.mgc(model("llama_mini.mg"), "--device", "rtx5060ti", "-D", "batch=4096", "--microbatch", 4096, "--recompute", "none",
                     "--offload", "none", "--check")
        self.assertEqual(r.returncode, 3, r.err)
        needs = int(re.search(r"needs (\d+) bytes", r.err)[1])
        room = sorted((description(name)["memory"], name) for name in GPUS if description(name)["memory"] >= needs)
        self.assertTrue(room)
        self.assertIn("--device " + room[0][1], r.err)

    def test_layouts_name_them(self):
        for name in GPUS:
            self.write("m.mg", re.sub(r"device +cpu", "device " + name, TINY))
            self.assertIn(f"device {name}", self.compiles("m.mg", "--plan").out)

    def test_documented(self):
        """docs/devices.md has a row for each, with the numbers that the description has."""
        with open(os.path.join(mgctest.SOURCE, "docs/devices.md"), encoding="utf-8") as f:
            rows = {m[1]: [c.strip() for c in m[2].split("|")] for m in re.finditer(r"(?m)^\| `(\w+)` \|(.*)\|$", f.read())}
        for name in GPUS:
            d, row = description(name), rows[name]
            peak = [float(cell) for cell in row[2].split(", ")]
            for key, value in zip(("bf16", "tf32", "f32", "f64"), peak, strict=True):
                self.assertAlmostEqual(d[f"flops_{key}_per_thread"] * d["threads"] / 1e12, value, delta=value / 100, msg=name + " " + key)
            eights = 0 if name in ("a100", "rtx3090") else 2 * d["flops_bf16_per_thread"]  # as the text above the table says
            self.assertAlmostEqual(d.get("flops_fp8_per_thread", 0), eights, delta=eights / 50, msg=name)
            self.assertEqual((round(float(row[0]) * 1e9), int(row[1])), (d["memory"], d["threads"]), name)
            self.assertAlmostEqual(float(row[3]), d["bandwidth"] / 1e9, delta=1, msg=name)
            self.assertEqual(float(row[4]), d["product_share"], name)
            self.assertEqual(row[5], f"{d.get('product_share_f32', '-')}, {d.get('product_share_tf32', '-')}", name)
            self.assertEqual([float(x) for x in row[6].split(", ")], [d["link_bandwidth"] / 1e9, d["node_ranks"], d["node_bandwidth"] / 1e9], name)
            self.assertEqual(row[7], str(d.get("architecture", "-")), name)

    def test_attention_is_documented(self):
        """docs/devices.md has for each card the rows of two heads at two lengths; and every description has these."""
        with open(os.path.join(mgctest.SOURCE, "docs/devices.md"), encoding="utf-8") as f:
            rows = dict(re.findall(r"(?m)^\| (\w+), attention \| (.*) \|$", f.read()))
        for name in GPUS:
            table = description(name)["attention"]
            best = "flash_sm90" if description(name).get("warpgroups") else "flash"
            cells = []
            for head, keys in ((64, 1024), (64, 4096), (128, 1024), (128, 4096)):
                r = next(r for r in table if (r["kernels"], r["head"], r["keys"]) == (best, head, keys))
                cells.append(f"{r['forward']}, {r['gradient']}")
            self.assertEqual(rows[name], " | ".join(cells), name)
            for r in table:  # longer is never slower, and no head has a length that another of its class has not
                shorter = [o for o in table if (o["kernels"], o["head"]) == (r["kernels"], r["head"]) and o["keys"] < r["keys"]]
                for key in ("forward", "gradient"):
                    self.assertTrue(all(o[key] <= r[key] * 1.01 for o in shorter), (name, r))

    def attention_ms(self, rows, *options, kind="attention", device="a100", source=model("gpt2_124m.mg")):
        """Milliseconds of a step that the plan gives to attention (its gradient), by a table of its own."""
        good = description(device)
        self.write("d.json", json.dumps({**good, "attention": rows, "launch_seconds": 0}))
        out = self.compiles(source, "--device", "./d.json", "--precision", "bf16", "--recompute", "none", *options, "--plan").out
        return float(re.search(rf"(?m)^  {kind} +([\d.]+) ms", out)[1])

    def test_attention_by_head_and_keys(self):
        """Between rows the share is on a line, beyond them that of the nearest, and each class takes its own."""
        def row(head, keys, share, kernels="flash"):
            return {"kernels": kernels, "head": head, "keys": keys, "forward": share, "gradient": share / 2}

        long = ("-D", "seq=2048", "-D", "batch=4")
        one = self.attention_ms([row(64, 2048, 0.2)], *long)
        for rows, share in (([row(64, 2048, 0.4)], 0.4),
                            ([row(64, 1024, 0.2), row(64, 4096, 0.4)], 0.3),               # the middle of the logarithms
                            ([row(64, 4096, 0.4), row(64, 1024, 0.2)], 0.3),               # in any order
                            ([row(32, 2048, 0.2), row(96, 2048, 0.4)], 0.3),
                            ([row(32, 1024, 0.1), row(32, 4096, 0.3), row(128, 512, 0.5)], 0.3),  # a third of the way from 0.2 to 0.5
                            ([row(128, 4096, 0.4)], 0.4), ([row(32, 512, 0.4)], 0.4),      # beyond
                            ([row(64, 2048, 0.4), row(64, 2048, 0.1, "flash_sm90")], 0.4)):
            self.assertAlmostEqual(one / self.attention_ms(rows, *long), share / 0.2, delta=0.02, msg=rows)
            self.assertAlmostEqual(2 * one * 2.5 / self.attention_ms(rows, *long, kind="attention_grad"), share / 0.2, delta=0.02, msg=rows)
        on_sm90 = [row(64, 2048, 0.4), row(64, 2048, 0.1, "flash_sm90")]
        slow = self.attention_ms(on_sm90, *long, device="h100")
        fast = self.attention_ms([on_sm90[0]], *long, device="h100")  # a class without rows takes those of flash
        self.assertAlmostEqual(slow / fast, 4, delta=0.05)

    def test_long_heads_take_the_kernels_of_sm90(self):
        """Up to 192 columns."""
        rows = [{"kernels": k, "head": 64, "keys": 1024, "forward": share, "gradient": share / 2}
                for k, share in (("flash", 0.1), ("flash_sm90", 0.4))]
        for head, times in ((136, 4), (192, 4), (200, 1)):
            for kind in ("attention", "attention_grad"):
                before, now = (self.attention_ms(r, "-D", f"head={head}", "-D", "heads=4", "-D", "batch=16", "--microbatch", "16", kind=kind, device="h100")
                               for r in (rows[:1], rows))
                self.assertAlmostEqual(before / now, times, delta=0.1, msg=(head, kind))

    def test_attention_with_a_bias_takes_the_kernels_of_before_sm90(self):
        with open(model("gpt2_124m.mg"), encoding="utf-8") as f:
            text, n = re.subn(r"attention\(q, k, v, along seq, over head, causal\)",
                              "attention(q, k[seq -> key], v[seq -> key], along seq, along key, over head, causal, bias = far)", f.read())
        text, m = re.subn(r"(?m)^block attend\(.*", r"\g<0>\n    far : param[heads, seq, key] = 0\n", text)
        self.assertEqual((n, m), (1, 1))
        self.write("biased.mg", "dim key = 1024\n" + text)
        rows = [{"kernels": k, "head": 64, "keys": 1024, "forward": share, "gradient": share / 2}
                for k, share in (("flash", 0.1), ("flash_sm90", 0.4))]
        for kind in ("attention", "attention_grad"):
            plain, biased = (self.attention_ms(rows, "-D", "seq=1024", "-D", "batch=16", "--microbatch", "16", kind=kind, device="h100", **more)
                             for more in ({}, {"source": "biased.mg"}))
            self.assertAlmostEqual(biased / plain, 4, delta=0.1)

    def test_attention_is_not_slower_with_a_larger_share(self):
        times = [self.attention_ms([{"kernels": "flash", "head": 64, "keys": 1024, "forward": s, "gradient": s}]) for s in (0.1, 0.2, 0.5, 0.9)]
        self.assertEqual(times, sorted(times, reverse=True))

    def test_wrong_tables_of_attention(self):
        """Refused with the file, the line, and what is wrong."""
        good = {"kernels": "flash", "head": 64, "keys": 1024, "forward": 0.5, "gradient": 0.4}
        lines = lambda *rows: ",\n".join(json.dumps(r) for r in rows)
        for rows, line, what in ((lines(good, {**good, "keys": 2048, "forward": 2}), 4, "row 2: 'forward' is a number from 1e-06 to 1.5"),
                                 (lines(good, good), 4, "row 2 is for the same as row 1"),
                                 (lines({**good, "kernels": "flesh"}), 3, "row 1: 'kernels' is"),
                                 (lines({**good, "more": 1}), 3, "row 1: a row has 'kernels', 'head', 'keys', 'forward' and 'gradient'"),
                                 (lines({**good, "head": "64"}), 3, "row 1: 'head' is a number from 1 to 256"),
                                 ("7", 2, "row 1: a row has"), ("", 2, "is a list of rows"),
                                 (lines({**good, "kernels": "flash_sm90"}), 2, "has no row of the kernels \"flash\"")):
            rest = {k: v for k, v in description("a100").items() if k != "attention"}
            self.write("d.json", '{\n"attention": [\n' + rows + "\n],\n" + json.dumps(rest)[1:])
            r = self.mgc(model("llama_mini.mg"), "--device", "./d.json", "--check")
            self.assertEqual(r.returncode, 2, r.err)
            self.assertIn(f"error[MG0563]: ./d.json:{line}: 'attention' {what}", r.err)
        for name, extra, what in (("cpu2t", {"attention": [good]}, "'attention' is of target \"cuda\""),
                                  ("a100", {"operations_per_thread": 1e9}, "'operations_per_thread' is of target \"host\""),
                                  ("a100", {"attention_share": 0.5}, "'attention_share' is of target \"host\"")):
            self.write("d.json", json.dumps({**description(name), **extra}))
            self.assertIn(what, self.mgc(model("llama_mini.mg"), "--device", "./d.json", "--check").err)
        self.write("d.json", json.dumps({k: v for k, v in description("a100").items() if k != "attention"}))
        self.assertIn("'attention' is missing", self.mgc(model("llama_mini.mg"), "--device", "./d.json", "--check").err)

    def test_products_of_a_precision_have_their_own_share(self):
        """Half of the share is twice the time of the products, in that precision alone."""
        good = description("rtx4090")
        for key, precision in (("product_share_f32", "f32"), ("product_share_f64", "f64"), ("product_share_tf32", "tf32")):
            ms = {}
            for share in (0.02, 0.01):
                self.write("d.json", json.dumps({**good, key: share, "launch_seconds": 0}))
                for p in (precision, "bf16"):
                    r = self.compiles(model("llama_mini.mg"), "--device", "./d.json", "--precision", p, "--recompute", "none", "--plan")
                    ms[share, p] = float(re.search(r"(?m)^  product +([\d.]+) ms", r.out)[1])
            self.assertAlmostEqual(ms[0.01, precision] / ms[0.02, precision], 2, delta=0.1, msg=key)
            self.assertEqual(ms[0.01, "bf16"], ms[0.02, "bf16"])

    def test_an_nvlink_domain_of_several_machines(self):
        """Tensor parallelism of 16 ranks goes over links; a host's memory is shared by four of them."""
        self.write("l.mg", "layout l {\n device gb200\n mesh dp = 8, tp = 16\n batch -> dp\n kv_heads, ffn, vocab -> tp\n"
                           " seq -> tp\n state -> dp\n microbatch 1\n offload state -> host\n}\n")
        tp, room = {}, {}
        for name, change in (("domain", {}), ("boards", {"node_ranks": 8, "machine_ranks": 8})):
            self.write(name + ".json", json.dumps({**description("gb200"), **change}))
            p = json.loads(self.compiles(model("llama3_8b.mg"), "--layout", "l.mg", "--device", f"./{name}.json", "-D", "kv_heads=16", "-D", "group=2",
                                         "-D", "batch=8", "-D", "seq=4096", "--precision", "bf16", "--pieces=none", "--plan=json").out)
            tp[name] = sum(c["ms"] for c in p["collectives"] if c["axis"] == "tp")
            room[name] = p["levels"]["host"]["ranks"]
        self.assertGreater(tp["boards"], 1.4 * tp["domain"])
        self.assertEqual(room, {"domain": 4, "boards": 8})

    def test_pods(self):
        """Gradients that are added up in several pods wait for the narrower network between them, and no others."""
        wide = description("h100")
        narrow = {**wide, "pod_ranks": 16, "pod_bandwidth": wide["node_bandwidth"] / 7, "pod_seconds": 2 * wide["node_seconds"]}
        for ranks, slower in ((16, 1), (32, 3.4)):  # two ranks of a pod share its links
            self.write("l.mg", f"layout l {{\n device h100\n mesh dp = {ranks // 8}, tp = 8\n batch -> dp\n kv_heads, ffn, vocab -> tp\n microbatch 1\n}}\n")
            ms = []
            for d in (wide, narrow):
                self.write("d.json", json.dumps(d))
                p = json.loads(self.compiles(model("llama3_8b.mg"), "--layout", "l.mg", "--device", "./d.json", "-D", "batch=4", "-D", "seq=4096",
                                             "--precision", "bf16", "--overlap=none", "--plan=json").out)
                ms.append(sum(c["ms"] for c in p["collectives"] if c["axis"] == "dp" and not c["scalars"]))
            (self.assertGreater if slower > 1 else self.assertEqual)(ms[1], slower * ms[0])

    def test_wrong_places(self):
        good = description("h100")
        for more, what in (({"machine_ranks": 3}, "'machine_ranks' 3 does not divide 'node_ranks', 8"),
                           ({"pod_ranks": 16}, "'pod_ranks', 'pod_bandwidth' and 'pod_seconds' belong together"),
                           ({"pod_ranks": 12, "pod_bandwidth": 1e9, "pod_seconds": 1e-4}, "'pod_ranks' 12 is not two or more times 'node_ranks', 8"),
                           ({"pod_ranks": 8, "pod_bandwidth": 1e9, "pod_seconds": 1e-4}, "'pod_ranks' 8 is not two or more times 'node_ranks', 8"),
                           ({"pod_ranks": 16, "pod_bandwidth": 1e12, "pod_seconds": 1e-4}, "'pod_bandwidth' 1e+12 is more than 'node_bandwidth', 4.6e+10"),
                           ({"pod_ranks": 16, "pod_bandwidth": 1e9, "pod_seconds": 1e-9}, "'pod_seconds' 1e-09 is less than 'node_seconds', 1.4e-05")):
            self.write("d.json", json.dumps({**good, **more}, indent=1))
            r = self.mgc(model("llama_mini.mg"), "--device", "./d.json", "--check")
            self.assertEqual(r.returncode, 2, r.err)
            self.assertIn("error[MG0563]: ./d.json:", r.err)
            self.assertIn(what, r.err)
        for name in ("rtx4090", "cpus"):
            self.write("d.json", json.dumps({**description(name), "switch_bandwidth": 1e11}))
            self.assertIn("'switch_bandwidth' is of GPUs with links of their own",
                          self.mgc(model("llama_mini.mg"), "--device", "./d.json", "--check").err)
        self.write("d.json", json.dumps({**description("rtx4090"), "machine_ranks": 4}))
        self.assertIn("links through a host join its own ranks", self.mgc(model("llama_mini.mg"), "--device", "./d.json", "--check").err)

    def test_architecture(self):
        """The kernels are compiled for the card that a description names, else for all; later ones have PTX."""
        if not os.path.exists(os.path.join(mgctest.BUILD, "lib/mgc/libmgrt_cuda.a")):
            self.skipTest("no CUDA Toolkit")
        self.write("m.mg", TINY)
        for name in ("h200", "rtx3090", "rtx4090", "rtx5090", "gh200"):
            self.compiles("m.mg", "--device", name, "--emit=source", "-o", name)
            with open(os.path.join(self.path(name), "Makefile"), encoding="utf-8") as f:
                code = re.search(r"(?m)^CODE .*", f.read())[0]
            self.assertIn("compute_80", re.search(r"compute_80,code=(\S+)", code)[1])
            which = description(name).get("architecture")
            exact = f"sm_{which}" + ("a" if which == 90 else "")
            self.assertEqual(sorted(re.findall(r"sm_\w+", code)), [exact] if which else ["sm_80", "sm_90a"])
        self.compiles("m.mg", "--device", "rtx5090", "-o", "train")


if __name__ == "__main__":
    mgctest.main()
