"""From a shipped model to a trained one: the summary, the log, the checkpoint, the sample."""

import csv
import json
import os
import re
import struct

import mgctest
from mgctest import TINY, model


class Run(mgctest.Case):
    def test_summary(self):
        r = self.compiles(model("mlp.mg"), "-o", "train")
        self.assertEqual(len(r.out.splitlines()), 1)
        self.assertRegex(r.out, r"^mlp: 1 rank, layout default on cpu in f32; peak .+ of .+; step .+ predicted; MFU \d+%; "
                                r"no communication$")
        self.assertEqual(os.listdir(self.dir), ["train"])
        self.assertEqual(self.compiles(model("mlp.mg"), "--check").out, r.out)

    def test_loss_falls(self):
        """A model on a text with structure learns it: the loss goes well below that of guessing."""
        self.compiles(model("mlp.mg"), "-o", "train")
        data = self.text(60_000)
        self.trains("./train", "--data", data, "--val-fraction", "0.1", "--steps", 120, "--out", "run")
        rows = self.metrics("run")
        steps = [m for m in rows if "grad_norm" in m]
        self.assertEqual([m["step"] for m in steps], list(range(1, 121)))
        for key in ("loss", "grad_norm", "lr", "step_ms", "tokens_per_s"):
            self.assertTrue(all(isinstance(m[key], (int, float)) for m in steps), key)
        self.assertAlmostEqual(steps[0]["loss"], 5.545, delta=0.15)  # ln 256
        self.assertLess(steps[-1]["loss"], 2.9)  # the entropy of single letters is above
        self.assertIn(b"<svg", self.read("run/loss.svg"))
        kept = sorted(os.listdir(self.path("run/ckpt")))
        self.assertEqual(kept[-1], "step-00000120")
        r = self.trains("./train", "--resume", "--out", "run", "--sample", 200, "--prompt", "the ")
        self.assertGreater(len(r.out), 200)

    def test_short_run(self):
        """A run that ends within the warm-up of its schedule says what its rate comes to."""
        self.compiles(self.write("tiny.mg", TINY), "-o", "train")
        data = self.text(2000)
        r = self.trains("./train", "--data", data, "--steps", 3, "--out", "short")
        self.assertIn("the learning rate rises for 5 steps, of which this run has 3: it ends at 0.006 instead of 0.01", r.out)
        self.assertAlmostEqual(self.metrics("short")[-1]["lr"], 0.006)
        self.assertNotIn("rises", self.trains("./train", "--data", data, "--steps", 6, "--out", "run").out)

    def test_one_thread_or_two(self):
        """How many threads work changes no bit, nor does which run it is."""
        self.compiles(model("llama_mini.mg"), "-D", "layers=2", "-o", "train")
        data, losses = self.text(20_000), []
        for run, threads in (("a", 1), ("b", 2), ("c", 2), ("d", 5)):
            self.trains("./train", "--data", data, "--steps", 4, "--threads", threads, "--out", run)
            losses.append([(m["loss"], m["grad_norm"]) for m in self.metrics(run) if "grad_norm" in m])
        for other in losses[1:]:
            self.assertEqual(losses[0], other)

    def test_microbatch_is_no_mathematics(self):
        """Two microbatches of two sequences are one of four, up to the order of sums."""
        data, losses = self.text(20_000), []
        for n in (4, 2, 1):
            f = self.write("m.mg", TINY.replace("microbatch 4", f"microbatch {n}"))
            self.compiles(f, "-o", "train")
            self.trains("./train", "--data", data, "--steps", 10, "--out", f"run{n}")
            losses.append([m["loss"] for m in self.metrics(f"run{n}") if "grad_norm" in m])
        for other in losses[1:]:
            for a, b in zip(losses[0], other):
                self.assertAlmostEqual(a, b, delta=2e-5 * a)

    def test_layout_from_a_file_and_by_name(self):
        extra = TINY + "\nlayout small : default {\n    microbatch 2\n}\n"
        f = self.write("m.mg", extra)
        self.assertIn("microbatch 2", self.compiles(f, "--layout=small", "--print-after=lower").out)
        self.assertIn("microbatch 4", self.compiles(f, "--print-after=lower").out)
        self.write("l.mg", "layout mine : default {\n    microbatch 1\n}\n")
        self.assertIn("microbatch 1", self.compiles(f, "--layout=l.mg", "--print-after=lower").out)
        self.assertEqual(self.mgc(f, "--layout=large", "--check").returncode, 1)

    def test_does_not_fit(self):
        """Too much memory is an error that names who holds it; exit 3, and no program."""
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/cpu2t.json"), encoding="utf-8") as d:
            small = {**json.load(d), "name": "small", "memory": 4 << 20, "threads": 2}
        self.write("small.json", json.dumps(small))
        r = self.mgc(model("llama_mini.mg"), "--device=small.json", "-o", "train")
        self.assertEqual(r.returncode, 3, r.err)
        self.assertRegex(r.err, r"MG05\d\d")
        self.assertIn("llama_mini.mg:", r.err)
        self.assertEqual(os.listdir(self.dir), ["small.json"])

    def test_plan_json(self):
        p = json.loads(self.compiles(model("llama_mini.mg"), "--plan=json", "--device=cpu2t").out)
        for key in ("ranks", "mesh", "params", "flops_per_step", "arena_bytes", "live_bound_bytes", "memory",
                    "capacity_bytes", "step_ms", "mfu", "bubble", "exposed_comm_ms", "collectives"):
            self.assertIn(key, p)
        for owner in ("params", "grads", "optimizer", "activations", "comm", "workspace"):
            self.assertIn(owner, p["memory"])
        c = dict(layers=4, hidden=160, heads=10, kv=5, head=16, ffn=432, vocab=256)
        layer = c["hidden"] * c["head"] * (2 * c["heads"] + 2 * c["kv"]) + 3 * c["hidden"] * c["ffn"] + 2 * c["hidden"]
        params = c["layers"] * layer + 2 * c["vocab"] * c["hidden"] + c["hidden"]
        self.assertEqual(p["params"], params)
        self.assertEqual(p["memory"]["params"] // 4 * 4, p["memory"]["params"])
        self.assertGreaterEqual(p["memory"]["params"], 4 * params)
        self.assertLess(p["memory"]["params"], 4 * params + 64 * 16)
        self.assertGreaterEqual(p["arena_bytes"], p["live_bound_bytes"])
        self.assertEqual((p["ranks"], p["collectives"], p["exposed_comm_ms"]), (1, [], 0))
        self.assertGreater(p["flops_per_step"], 6 * (params - 256 * 160) * 16 * 128)
        self.assertTrue(0 < p["mfu"] <= 1)

    def test_trace(self):
        self.compiles(model("mlp.mg"), "--trace", "t.json", "--check")
        events = [e for e in json.loads(self.read("t.json"))["traceEvents"] if e["ph"] == "X"]
        self.assertGreater(len(events), 10)
        end = max(e["ts"] + e["dur"] for e in events)
        plan = json.loads(self.compiles(model("mlp.mg"), "--plan=json").out)
        self.assertAlmostEqual(end / 1e3, plan["step_ms"], delta=0.01 * plan["step_ms"])

    def test_dump(self):
        """The results of actions in the first step: sizes are those of the schedule, and one of them is the loss."""
        self.write("tiny.mg", TINY)
        self.compiles("tiny.mg", "--precision", "f64", "-o", "train")
        self.text(2000)
        for out in ("a", "b"):
            self.trains("./train", "--data", "text1.txt", "--steps", 2, "--out", out, "--dump", "*")
        files = sorted(os.listdir(self.path("a/dump/rank-0")))
        self.assertEqual(files, sorted(os.listdir(self.path("b/dump/rank-0"))))
        found = {name: self.read(f"a/dump/rank-0/{name}") for name in files}
        self.assertEqual(found, {name: self.read(f"b/dump/rank-0/{name}") for name in files})
        self.assertIn(4 * 8 * 16 * 8, [len(data) for data in found.values()])  # x
        loss = next(l["loss"] for l in self.metrics("a") if "loss" in l)
        self.assertIn(struct.pack("<d", loss), found.values())
        r = self.run_program("./train", "--data", "text1.txt", "--steps", 1, "--out", "c", "--dump", "nothing.*")
        self.assertEqual(r.returncode, 2)
        self.assertIn(b"--dump nothing.*: no action of tiny has such a name", r.stderr)

    def test_tracks(self):
        """One for each stream, and nothing overlaps on one."""
        self.compiles(model("llama_mini.mg"), "--device", "h200", "--trace", "t.json", "--check")
        tracks = {}
        for e in json.loads(self.read("t.json"))["traceEvents"]:
            if e["ph"] == "X":
                tracks.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"]))
        self.assertTrue({0, 1} <= set(tracks))
        for slices in tracks.values():
            slices.sort()
            for (_, end), (begin, _) in zip(slices, slices[1:]):
                self.assertLessEqual(end, begin + 0.002)  # written to a nanosecond

    def test_memory(self):
        """The input of a packer, and the plan's offsets: no two buffers that are live together overlap."""
        for name in "mlp.mg", "gpt2_124m.mg":
            self.compiles(model(name), "--device", "cpu2t", "--memory", "m.csv", "--check")
            rows = list(csv.DictReader(self.read("m.csv").decode().splitlines()))
            self.assertEqual(list(rows[0]), ["id", "lower", "upper", "size", "offset"])
            self.assertEqual(len({r["id"] for r in rows}), len(rows))
            boxes = [tuple(int(r[k]) for k in ("lower", "upper", "offset", "size")) for r in rows]
            for i, (lower, upper, offset, size) in enumerate(boxes):
                self.assertTrue(0 <= lower < upper and offset >= 0 and size > 0)
                for l, u, o, s in boxes[:i]:
                    self.assertTrue(upper <= l or u <= lower or offset + size <= o or o + s <= offset)
            plan = json.loads(self.compiles(model(name), "--device", "cpu2t", "--plan=json").out)
            self.assertEqual(max(o + s for _, _, o, s in boxes), plan["arena_bytes"])
            live = max(sum(s for l, u, _, s in boxes if l <= t < u) for t in range(max(b[1] for b in boxes)))
            self.assertEqual(live, plan["live_bound_bytes"])
        r = self.mgc(model("mlp.mg"), "--memory", "no/such/m.csv", "--check")
        self.assertEqual((r.returncode, r.out), (4, ""))

    def test_emitted_llvm(self):
        r = self.compiles(model("mlp.mg"), "--emit=llvm")
        self.assertTrue(re.search(r"(?m)^define .*@k_", r.out))
        self.compiles(model("mlp.mg"), "--emit=llvm", "-o", "k.ll")
        self.assertEqual(self.read("k.ll").decode(), r.out)

    def test_halves_of_rope_are_loaded_whole(self):
        """Neighbours in memory are neighbours to the vectoriser: each half of 32 is no gather."""
        r = self.compiles(model("llama_56m.mg"), "--emit=llvm")
        self.assertIn("@k_rope", r.out)
        self.assertNotIn("masked.gather", r.out)

    def test_short_rows_are_asked_for_ahead(self):
        """A norm goes over its row again and again: units ask for rows of 256 bytes some units on, of 4 KiB the processor does."""
        for hidden, ahead in (64, True), (1024, False):
            source = mgctest.TINY.replace("model tiny", f"block norm(x) {{\n    gain : param[hidden] = 1\n"
                                          "    return rmsnorm(x, gain, over hidden, eps = 1e-5)\n}\nmodel tiny")
            source = source.replace("tanh(embed[tokens])", "norm(tanh(embed[tokens]))").replace("hidden = 16", f"hidden = {hidden}")
            r = self.compiles(self.write("m.mg", source), "--emit=llvm")
            units = re.findall(r"(?ms)^define [^\n]*@k_[a-z_]*rmsnorm[a-z_]*\.unit\b.*?^}", r.out)
            self.assertTrue(units)
            for unit in units:
                self.assertEqual("@llvm.prefetch" in unit, ahead, unit)


if __name__ == "__main__":
    mgctest.main()
