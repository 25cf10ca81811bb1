"""README.md of a run and of an export: the head that Hugging Face's site reads, the data with hashes, what was planned and
measured; and nothing that says where and by whom."""

import hashlib
import json
import os
import re
import socket

import mgctest
from mgctest import TINY
from test_weights import LLAMA, llama_tensors, numbers, packed, safetensors


class Card(mgctest.Case):
    def card(self, folder):
        text = self.read(folder + "/README.md").decode()
        m = re.fullmatch(r"---\n(.*?)---\n\n(# .*)", text, re.S)
        self.assertTrue(m, text)
        for secret in (self.dir, os.path.basename(self.dir), os.path.expanduser("~") + "/", socket.gethostname() + "/", "/tmp"):
            self.assertNotIn(secret, text)
        head = {}
        for line in m[1].splitlines():
            if line.startswith("- "):
                head[key].append(line[2:])
            else:
                key, value = re.fullmatch(r"(\w+):(?: (.*))?", line).groups()
                head[key] = value or []
        rows = dict(re.findall(r"(?m)^\| ([^|]+) \| ((?:[^|\\]|\\.)*) \|$", m[2]))
        return head, rows, m[2]

    def hf(self, folder):
        os.makedirs(self.path(folder))
        self.write(folder + "/config.json", json.dumps(LLAMA))
        self.write(folder + "/model.safetensors", safetensors({n: ("F32", s, packed(numbers(s, i), "F32")) for i, (n, s)
                                                               in enumerate(llama_tensors(LLAMA).items())}))

    def test_run(self):
        self.write("m.mg", TINY)
        self.compiles("m.mg", "-o", "m")
        self.text(3000)
        self.text(900, 2)
        os.mkdir(self.path("deep"))
        os.rename(self.path("text2.txt"), self.path("deep/odd|name`.txt"))
        run = ("./m", "--data", self.path("text1.txt"), "--val", self.path("deep/odd*"), "--eval-every", 2, "--best-by", "val_loss")
        self.trains(*run, "--steps", 6, "--seed", 7)
        head, rows, text = self.card("run")
        self.assertEqual(head, {"tags": ["mgc"]})
        lines = self.metrics("run")
        val = [l for l in lines if "val_loss" in l]
        self.assertEqual(float(rows["val_loss"]), val[-1]["val_loss"])
        self.assertEqual(rows["best"], f"val_loss {min(l['val_loss'] for l in val)!r}, at step {min(val, key=lambda l: l['val_loss'])['step']}")
        self.assertEqual(rows["training loss"].split(",")[0], repr([l["loss"] for l in lines if "loss" in l][-1]))
        self.assertEqual((rows["steps"], rows["seed"]), ("6 of 6", "7"))
        for use, name, shown in (("training", "text1.txt", "text1.txt"), ("evaluation", "deep/odd|name`.txt", r"odd\|name\`.txt")):
            data = self.read(name)
            self.assertIn(f"| {use} | {shown} | {len(data)} | {len(data)} | {hashlib.sha256(data).hexdigest()} |", text)
        self.assertIn("![loss](loss.svg)", text)
        self.assertRegex(rows["step time"], r"predicted .* ms, measured .* ms")
        # Another run in its place moves it away; one that did not end has none.
        self.trains(*run, "--steps", 3)
        self.assertEqual(self.card("run/previous-1")[1]["steps"], "6 of 6")
        self.assertEqual(self.card("run")[1]["steps"], "3 of 3")

    def test_export(self):
        self.hf("models--Some--Small-1B/snapshots/abc")
        self.compiles("import-hf", "models--Some--Small-1B/snapshots/abc", "-o", "m.mg")
        self.compiles("m.mg", "-D", "seq=16", "-o", "m")
        self.text(3000)
        self.trains("./m", "--init", "models--Some--Small-1B/snapshots/abc", "--data", "text1.txt", "--steps", 3, "--save-every", 1,
                    "--export", "e")
        want = {"library_name": "transformers", "pipeline_tag": "text-generation", "base_model": "Some/Small-1B", "tags": ["mgc"]}
        for folder in ("run", "e"):
            head, rows, text = self.card(folder)
            self.assertEqual(head, want)
            self.assertEqual(rows["steps"], "3 of 3")
        self.assertIn("after step 3.", text)
        self.assertIn("AutoModelForCausalLM", text)
        self.assertEqual(self.read("e/loss.svg"), self.read("run/loss.svg"))
        # Of an earlier step, by another process: it says so, and what the run's card says.
        self.trains("./m", "--resume=run/ckpt/step-00000001", "--export", "early")
        head, rows, text = self.card("early")
        self.assertEqual((head, rows["steps"]), (want, "3 of 3"))
        self.assertIn("after step 1.", text)
        os.rename(self.path("run"), self.path("moved"))
        self.trains("./m", "--init", "models--Some--Small-1B/snapshots/abc", "--data", "text1.txt", "--steps", 2)
        self.trains("./m", "--resume=moved/ckpt/step-00000002", "--export", "second")
        self.assertEqual(self.card("second")[1]["steps"], "3 of 3")
        # A run that goes on knows its weights; weights alone are of no run.
        first = self.card("run")[1]["training loss"].split(" ")[-1]
        self.trains("./m", "--resume", "--data", "text1.txt", "--steps", 5)
        head, rows, _ = self.card("run")
        self.assertEqual((head, rows["training loss"].split(" ")[-1]), (want, first))
        self.trains("./m", "--resume", "--data", "text1.txt", "--steps", 5)  # nothing is left to do: its card stays
        self.assertEqual(self.card("run")[1], rows)
        self.trains("./m", "--init", "e", "--export", "plain")
        head, rows, text = self.card("plain")
        self.assertEqual((rows, "base_model" in head), ({}, False))
        self.assertIn("the weights of e.", text)

    def test_named_inputs(self):
        self.write("m.mg", """dim batch = 4, wide = 3, classes = 5
model m(x[batch, wide], y[batch] : token(classes)) {
    w : param[wide, classes] ~ normal(0.1) as "w"
    loss = cross_entropy(x @ w over wide, y)
}
train {
    optimizer sgd()
    lr        constant(peak = 1e-2, steps = 2)
}
""")
        self.compiles("m.mg", "-o", "m")
        data = safetensors({"x": ("F32", [8, 3], packed([0.5] * 24, "F32")), "y": ("I32", [8], bytes(32))})
        self.write("d.safetensors", data)
        self.trains("./m", "--data", "d.safetensors")
        head, rows, text = self.card("run")
        self.assertEqual((head, rows["rows"]), ({"tags": ["mgc"]}, "8, 4 a step"))
        self.assertIn(f"| training | d.safetensors | {len(data)} | 8 | {hashlib.sha256(data).hexdigest()} |", text)

    def test_adapter(self):
        self.hf("base")
        self.compiles("tune", "base", "--lora", "rank=2,alpha=4", "-o", "t", "-D", "seq=16")
        self.text(3000)
        self.trains("./t", "--init", "base", "--data", "text1.txt", "--steps", 2, "--export", "merged")
        head, _, text = self.card("run")
        self.assertEqual((head["library_name"], head["tags"]), ("peft", ["mgc", "lora"]))
        self.assertIn("the weights of base.", text)
        self.assertEqual(self.card("merged")[0]["library_name"], "transformers")


if __name__ == "__main__":
    mgctest.main()
