"""Parameters that follow others: how they begin, evaluation and export with averages, under any layout, and from a checkpoint on."""

import json
import struct
import unittest
from array import array

import mgctest

TEACHER = """dim hidden = 16, vocab = 256, seq = 8, batch = 4, layers = 2

block encoder(x[hidden]) {
    repeat layers as "layers.{}" {
        w : param[hidden, wide] ~ normal(0.3) as "weight" [wide, hidden]
        x = x + tanh(x @ w over hidden)[wide -> hidden]
    }
    return x
}

model taught(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed.weight"
    head  : param[hidden, vocab] ~ normal(0.1) as "head.weight" [vocab, hidden]
    online : block encoder as "online"
    target : block encoder as "target" follows online by 0.9
    stale  : block encoder as "last" follows target every 2
    x = embed[tokens]
    y = online(x)
    off = y - target(x) - 0.5 * stale(x)
    loss = cross_entropy(y @ head over hidden, next(tokens)) + mean(off * off)
}

dim wide = hidden

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8)
    lr        1e-2
    average   0.9
    precision f32
}

"""
ONE = "layout {\n device cpu\n microbatch 1\n}\n"


def tensors(path):
    """name -> numbers, of f32"""
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack_from("<Q", data)
    return {name: array("f", data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in json.loads(data[8:8 + n]).items() if name != "__metadata__"}


class Followers(mgctest.Case):
    def setUp(self):
        super().setUp()
        self.write("text", bytes((7 * i * i + 3 * i) % 251 for i in range(600)))

    def program(self, name, layout=ONE, text=TEACHER, *options):
        self.write(name + ".mg", text + layout)
        self.compiles(name + ".mg", "-o", name, *options)

    def run_to(self, program, steps, out, *argv):
        self.trains("./" + program, "--data", "text", "--steps", steps, "--keep", 0, "--out", out, *argv)
        return [m for m in self.metrics(out) if "lr" in m]

    def saved(self, out, step):
        path = self.path(f"{out}/ckpt/step-{step:08d}/")
        return tensors(path + "model.safetensors") | tensors(path + "optimizer.safetensors")

    def test_beginning(self):
        """They begin as copies: of initial values, or of those of --init, unless that has them."""
        self.program("train")
        self.run_to("train", 1, "run", "--lr", 0)  # so that nothing changes
        at = self.saved("run", 1)
        self.assertGreater(max(at["online.layers.1.weight"]), 0.1)
        for i in range(2):
            for name in (f"target.layers.{i}.weight", f"last.layers.{i}.weight", f"average.online.layers.{i}.weight"):
                self.close(at[name], at[f"online.layers.{i}.weight"], 1e-6)
        self.assertNotEqual(at["online.layers.0.weight"], at["online.layers.1.weight"])
        names = [n for n in at if n.split(".")[0] in ("embed", "head", "online")] + ["target.layers.1.weight"]
        other = {n: array("f", [0.5 * x for x in at[n]]) for n in names}
        other["target.layers.1.weight"] = array("f", [0.25] * 256)
        self.save("start.safetensors", other, at)
        self.run_to("train", 1, "init", "--lr", 0, "--init", "start.safetensors")
        now = self.saved("init", 1)
        for name, like in (("target.layers.0.weight", "online.layers.0.weight"), ("last.layers.0.weight", "online.layers.0.weight"),
                           ("average.embed.weight", "embed.weight"), ("last.layers.1.weight", "target.layers.1.weight")):
            self.close(now[name], other[like], 1e-6)
        self.close(now["target.layers.1.weight"], [0.9 * 0.25 + 0.1 * x for x in other["online.layers.1.weight"]], 1e-6)
        del other["online.layers.0.weight"]
        self.save("start.safetensors", other, at)
        r = self.execute("./train", "--data", "text", "--init", "start.safetensors", "--out", "none")
        self.assertIn("online.layers.0.weight is missing", r.err)

    def execute(self, *argv):
        r = self.run_program(*argv)
        r.out, r.err = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
        return r

    def save(self, name, values, like):
        shapes = {"embed.weight": [256, 16], "head.weight": [256, 16]}
        header, at = {}, 0
        for n, v in values.items():
            header[n] = {"dtype": "F32", "shape": shapes.get(n, [16, 16]), "data_offsets": [at, at + 4 * len(v)]}
            at += 4 * len(v)
        text = json.dumps(header).encode()
        self.write(name, struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in values.values()))

    def close(self, a, b, within):
        self.assertEqual(len(a), len(b))
        self.assertLessEqual(max(abs(x - y) for x, y in zip(a, b)), within)

    def test_evaluation(self):
        """With averages: the loss of a program that begins with the export of them. Training has the same bits with and without."""
        self.program("train")
        val = ["--val", "text", "--eval-every", 2]
        with_them = ["--eval-with", "average"]
        self.run_to("train", 6, "plain", *val)
        self.run_to("train", 6, "average", *val, *with_them, "--best-by", "val_loss:min", "--export", "averages")
        for file in ("model.safetensors", "optimizer.safetensors"):
            a, b = (self.read(f"{out}/ckpt/step-00000006/{file}") for out in ("plain", "average"))
            self.assertEqual(a, b)
        exported, at = tensors(self.path("averages/model.safetensors")), self.saved("plain", 6)
        self.assertEqual(set(exported), {n for n in at if not n.startswith(("exp_avg", "average"))})
        for name, x in exported.items():
            self.assertEqual(x, at.get("average." + name, at[name]), name)
        self.assertNotEqual(exported["embed.weight"], at["embed.weight"])
        losses = {out: [m["val_loss"] for m in self.metrics(out) if "val_loss" in m] for out in ("plain", "average")}
        self.assertEqual([len(v) for v in losses.values()], [3, 3])
        self.assertNotEqual(losses["plain"], losses["average"])
        self.run_to("train", 1, "exported", "--lr", 0, "--init", "averages", "--val", "text")
        (loss,) = [m["val_loss"] for m in self.metrics("exported") if "val_loss" in m]
        self.assertLess(abs(loss - losses["average"][-1]), 2e-4 * loss)  # target and last moved once
        r = self.execute("./train", "--resume", "--out", "plain", *with_them, "--export", "again")
        self.assertEqual(r.returncode, 0, r.err)
        self.assertEqual(self.read("again/model.safetensors"), self.read("averages/model.safetensors"))
        r = self.execute("./train", "--resume", "--out", "plain", "--export", "again")
        self.assertNotEqual(r.returncode, 0)  # it is there
        words = [self.execute("./train", "--resume", "--out", "plain", "--sample", 12, "--temperature", 0, *more).out
                 for more in ((), with_them)]
        self.assertTrue(all(words))

    def test_refused(self):
        """Averages that are not kept; what an evaluation cannot be made with."""
        self.program("train", ONE, TEACHER.replace("    average   0.9\n", ""))
        run = ["./train", "--data", "text", "--val", "text", "--eval-with"]
        r = self.execute(*run, "average")
        self.assertEqual(r.returncode, 2)
        self.assertIn("keeps no averages; `average 0.999` in its train block makes it", r.err)
        self.assertIn("--eval-with ema: it is average, or left out", self.execute(*run, "ema").err)

    def test_layouts(self):
        """Two steps of one rank, then two of each layout: losses, parameters, followers and averages are those of one rank."""
        self.program("one")
        want = self.run_to("one", 6, "whole", "--save-every", 2, "--val", "text", "--eval-every", 3, "--eval-with", "average")
        val = [m["val_loss"] for m in self.metrics("whole") if "val_loss" in m]
        for name, layout in {
                "zero1": "mesh dp = 2\n batch -> dp\n state -> dp\n",
                "zero3": "mesh dp = 2\n batch -> dp\n state, grads, params -> dp\n recompute all\n",
                "tensor": "mesh dp = 2, tp = 2\n batch -> dp\n hidden, vocab -> tp\n state -> dp\n"}.items():
            with self.subTest(layout=name):
                self.program(name, f"layout {{\n device cpu\n {layout} microbatch 1\n}}\n")
                out = name + "-run"
                self.run_to("one", 2, out)
                got = self.run_to(name, 6, out, "--resume", "--val", "text", "--eval-every", 3, "--eval-with", "average")
                for a, b in zip(want, got, strict=True):
                    self.assertLess(abs(a["loss"] - b["loss"]), 1e-5 * a["loss"])
                mine = [m["val_loss"] for m in self.metrics(out) if "val_loss" in m]
                for a, b in zip(val, mine, strict=True):
                    self.assertLess(abs(a - b), 1e-5 * a)
                a, b = self.saved("whole", 6), self.saved(out, 6)
                for key, x in a.items():
                    self.close(x, b[key], 2e-4)

    def test_resume(self):
        """A run that goes on from a checkpoint ends with the bits of one that was not interrupted."""
        self.program("train")
        self.run_to("train", 5, "whole")
        self.run_to("train", 3, "parts")
        self.run_to("train", 5, "parts", "--resume")
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(*(self.read(f"{out}/ckpt/step-00000005/{file}") for out in ("whole", "parts")))

    def test_precisions(self):
        """In bf16 and f16, with all gradients first or not: followers are f32, and their steps those of f32 to rounding."""
        self.program("f32")
        want = self.run_to("f32", 4, "f32-run")
        for precision, more in mgctest.some((("bf16", ""), ("f16", ""), ("bf16", " update as_ready\n"))):
            with self.subTest(precision=precision, more=more):
                text = TEACHER.replace("precision f32", f"precision {precision}\n{more}")
                self.program("half", ONE, text)
                out, sample = "half" + precision + str(len(more)), ["--sample", 2, "--temperature", 0, "--prompt", "a", "--logits"]
                got = self.run_to("half", 4, out, "--val", "text", "--eval-with", "average", "--export", out + "-average")
                for a, b in zip(want, got, strict=True):
                    self.assertLess(abs(a["loss"] - b["loss"]), 1e-2 * a["loss"])
                self.trains("./half", "--resume", "--out", out, *sample, "mine", "--eval-with", "average")
                self.trains("./half", "--init", out + "-average", *sample, "its")
                self.trains("./half", "--resume", "--out", out, *sample, "other")
                self.assertEqual(self.read("mine"), self.read("its"))  # what is read of an average is rounded as well
                self.assertNotEqual(self.read("mine"), self.read("other"))

    def test_stages(self):
        """Under stages of a pipeline: followers, averages, evaluations and exports with these are one rank's."""
        val = ["--val", "text", "--eval-every", 2, "--eval-with", "average"]
        (kind,) = mgctest.some(("1f1b", "gpipe", "zb-h1", "interleaved, chunks = 2"))[:1]
        self.program("one")
        self.program("stages", f"layout {{\n device cpu\n mesh pp = 2\n layers -> pp (schedule = {kind})\n microbatch 1\n}}\n")
        losses = []
        for out in ("one", "stages"):
            self.run_to(out, 4, out + "-run", *val, "--export", out + "-average")
            losses.append([m["val_loss"] for m in self.metrics(out + "-run") if "val_loss" in m])
        self.assertEqual(len(losses[0]), 2)
        for a, b in zip(*losses, strict=True):
            self.assertLess(abs(a - b), 1e-5 * a)
        for a, b in ((self.saved("one-run", 4), self.saved("stages-run", 4)),
                     [tensors(self.path(f"{out}-average/model.safetensors")) for out in ("one", "stages")]):
            self.assertEqual(set(a), set(b))
            self.assertIn("last.layers.1.weight", a)
            for key, x in a.items():
                self.close(x, b[key], 2e-4)
        self.run_to("stages", 2, "parts")
        self.run_to("stages", 4, "parts", "--resume")
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(*(self.read(f"{out}/ckpt/step-00000004/{file}") for out in ("stages-run", "parts")))


if __name__ == "__main__":
    unittest.main()
