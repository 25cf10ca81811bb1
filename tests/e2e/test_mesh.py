"""A layout that says a mesh and no rules: rules are found for it, and a step with them is as fast by the plan as with those that
people wrote; the program trains as that of one rank; the same rules are found with one processor and with several."""

import json
import os
import re
import shutil

import mgctest

MODELS = os.path.join(mgctest.SOURCE, "models")
# Model, layout (or a mesh for the default one), sizes that make it small. By hand: the rules of the file.
SHIPPED = [
    ("mlp.mg", "cpu", {"dp": 2}, {}),
    ("llama_mini.mg", "h100", {"tp": 2}, {"layers": 2}),
    ("llama_mini.mg", "h100", {"dp": 2, "tp": 2}, {"layers": 2}),
    ("mixtral_mini.mg", "h100", {"dp": 2, "ep": 2}, {"layers": 2}),
    ("mamba2.mg", "h100", {"dp": 2, "tp": 2}, {"layers": 2}),
    ("vit.mg", "h100", {"dp": 4}, {}),
    ("whisper.mg", "h100", {"dp": 2, "tp": 2}, {}),
    ("gpt2_124m.mg", "h100", {"dp": 2, "tp": 4}, {}),
    ("llama7b.mg:node8", "h100", {"dp": 2, "tp": 4}, {}),
    ("llama7b.mg:node8_tp8", "h100", {"tp": 8}, {}),
    ("llama7b.mg:node8_zero3", "h100", {"dp": 8}, {}),
    ("llama3_8b.mg:node8", "h100", None, {}),
    ("mistral_7b.mg:node8", "h100", None, {}),
    ("mixtral_8x7b.mg:node64", "h100", {"dp": 8, "ep": 8}, {}),
    ("qwen2.5_14b.mg:rtx4090x4", "rtx4090", None, {}),
]
QUICK = 2  # of them always, one more in turns, all with MGC_FULL
TURN = int(os.environ.get("MGC_TURN", "0"))


class Mesh(mgctest.Case):
    def plan(self, *args):
        r = self.mgc(*args, "--plan=json", timeout=1500)
        self.assertEqual(r.returncode, 0, f"{args}: {r.stderr[-3000:]}")
        return json.loads(r.stdout), r.err

    def bare(self, model, device, mesh, microbatch):
        """The model without its layouts, and one that has a mesh alone. Axes have names that say nothing."""
        with open(os.path.join(MODELS, model), encoding="utf-8") as f:
            text = re.sub(r"(?m)^layout[^{]*\{[^}]*\}", "", f.read())
        axes = ", ".join(f"axis{k} = {n}" for k, n in enumerate(mesh))
        ranks = 1
        for n in mesh:
            ranks *= n
        self.write(model, f"{text}\nlayout {{\n    device {device} x {ranks}\n    mesh {axes}\n    microbatch {microbatch}\n}}\n")

    def compare(self, name, device, mesh, sizes):
        model, _, layout = name.partition(":")
        defines = [x for k, v in sizes.items() for x in ("-D", f"{k}={v}")]
        path = os.path.join(MODELS, model)
        given = ["--layout", layout] if layout else [x for k, v in mesh.items() for x in ("-D", f"{k}={v}")] + ["--device", device]
        hand, said = self.plan(path, *given, *defines)
        self.assertNotIn("says no rules", said)
        with open(path, encoding="utf-8") as f:
            layouts = re.findall(r"(?m)^layout[^{]*\{[^}]*\}", f.read())
        microbatch = next((m.group(1) for m in (re.search(r"microbatch (\d+)", x) for x in layouts) if m), "1")
        sizes_of = [n for n in hand["mesh"].values() if n > 1]
        self.bare(model, device, sizes_of, microbatch)
        found, said = self.plan(model, *defines)
        self.assertIn("says no rules", said)
        self.assertLessEqual(found["step_ms"], 1.005 * hand["step_ms"], f"{name}\n{said}")
        return found["step_ms"] / hand["step_ms"]

    def test_as_good_as_by_hand(self):
        cases = SHIPPED if os.environ.get("MGC_FULL") else SHIPPED[:QUICK] + [SHIPPED[QUICK + TURN % (len(SHIPPED) - QUICK)]]
        for case in cases:
            with self.subTest(case[0]):
                print(f"{case[0]}: {self.compare(*case):.3f} of the time by hand")

    def test_same(self):
        """With one processor and with all, the same text is found."""
        self.bare("mlp.mg", "h100", [2, 2], 4)
        texts = [self.plan("mlp.mg")[1] for _ in range(2)]
        self.assertEqual(texts[0], texts[1])
        if shutil.which("taskset"):
            r = self.run_program("taskset", "-c", "0", mgctest.MGC, "mlp.mg", "--plan=json", timeout=1500)
            self.assertEqual((r.returncode, r.stderr.decode()), (0, texts[0]))

    def test_sizes(self):
        """-D says how large an axis is, also where it is one rank, and there is nothing to find."""
        self.bare("mlp.mg", "cpu", [2, 2], 4)
        found, said = self.plan("mlp.mg", "-D", "axis0=1", "--device", "h100")
        self.assertEqual(found["ranks"], 2)
        self.assertIn("mesh axis1 = 2;", said)
        found, said = self.plan("mlp.mg", "-D", "axis0=1", "-D", "axis1=1", "--device", "h100")
        self.assertEqual((found["ranks"], len(said)), (1, 0))

    def test_nothing_divides(self):
        """Where nothing can be split, it is the error of a mesh that no rule uses."""
        self.bare("mlp.mg", "h100", [509], 1)
        r = self.mgc("mlp.mg", "--check", timeout=600)
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn("MG0333", r.err)

    def test_trains(self):
        """Ranks under the rules that were found learn what one rank learns."""
        with open(os.path.join(MODELS, "llama_mini.mg"), encoding="utf-8") as f:
            text = re.sub(r"(?m)^layout[^{]*\{[^}]*\}", "", f.read()).replace("precision f32", "precision f64")
        self.text(6000)
        losses = []
        for ranks in (1, 4):
            mesh = f"mesh a = {ranks // 2 or 1}, b = {min(ranks, 2)}"
            self.write("m.mg", f"{text}\nlayout {{\n    device cpu\n    {mesh}\n    microbatch 1\n}}\n")
            self.compiles("m.mg", "-D", "layers=2", "-D", "batch=4", "--precision", "f64", "-o", "train")
            r = self.run_program("./train", "--data", "text1.txt", "--steps", "3", "--out", f"run{ranks}")
            self.assertEqual(r.returncode, 0, r.stderr[-2000:])
            losses.append([m["loss"] for m in self.metrics(f"run{ranks}") if "loss" in m])
        for x, y in zip(*losses, strict=True):
            self.assertLess(abs(x - y), 1e-12 * abs(x))


if __name__ == "__main__":
    mgctest.unittest.main()
