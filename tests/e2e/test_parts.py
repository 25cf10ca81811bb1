"""Parameters that are parts of one tensor of a checkpoint: its bytes under any layout, --init, --resume, killed runs."""

import os
import random
import signal
import subprocess
import time

import layouts
import mgctest
import shim
from layouts import LAYOUTS
from mgctest import some
from test_weights import packed, read_safetensors, safetensors

MODEL = """dim layers = 4, hidden = 16, kv_heads = 4, group = GROUP, head = 4, ffn = 24, qkv = 3
dim vocab = 256, seq = 16, batch = 8

block attend(x[hidden]) {
ATTEND
    return attention(rope(q, along seq, over head), rope(k, along seq, over head), v, along seq, over head, causal)
           @ wo over (kv_heads, group, head)
}

block gated(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.1) as "gate_up.weight" [hidden, ffn at 0]
    up   : param[hidden, ffn] ~ normal(0.1) as "gate_up.weight" [hidden, ffn at ffn]
    down : param[ffn, hidden] ~ normal(0.1) as "down.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed.weight"
    x = embed[tokens]
    repeat layers as "layers.{}" {
        x = x + attend(x) as "attn"
        x = x + gated(x) as "mlp"
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer OPTIMIZER
    lr        1e-2
}
"""
HEAD = "    wo : param[kv_heads, group, head, hidden] ~ normal(0.1) as \"o.weight\" [hidden, (kv_heads group head)]\n"
PARTS = HEAD + """    wq : param[hidden, kv_heads, group, head] ~ normal(0.1) as "qkv.weight" [(kv_heads group head) at 0, hidden]
    wk : param[hidden, kv_heads, head] ~ normal(0.1) as "qkv.weight" [(kv_heads head) at kv_heads * group * head, hidden]
    bv : param[kv_heads, head] ~ normal(0.1) as "qkv.bias" [(kv_heads head) at (group + 1) * kv_heads * head]
    bk : param[kv_heads, head] ~ normal(0.1) as "qkv.bias" [(kv_heads head) at kv_heads * group * head]
    bq : param[kv_heads, group, head] ~ normal(0.1) as "qkv.bias" [(kv_heads group head) at 0]
    wv : param[hidden, kv_heads, head] ~ normal(0.1) as "qkv.weight" [(kv_heads head) at (group + 1) * kv_heads * head, hidden]
    q = x @ wq over hidden + bq
    k = x @ wk over hidden + bk
    v = x @ wv over hidden + bv"""
WHOLE = HEAD + """    w : param[hidden, qkv, kv_heads, head] ~ normal(0.1) as "qkv.weight" [(qkv kv_heads head), hidden]
    b : param[qkv, kv_heads, head] ~ normal(0.1) as "qkv.bias" [(qkv kv_heads head)]
    y = x @ w over hidden + b
    q = y[qkv = 0]
    k = y[qkv = 1]
    v = y[qkv = 2]"""
ADAMW = "adamw(betas = (0.9, 0.95), eps = 1e-8)"
STEPS = 6


def source(attend=PARTS, group=2, optimizer=ADAMW, more=""):
    text = MODEL.replace("ATTEND", attend).replace("GROUP", str(group)).replace("OPTIMIZER", optimizer)
    if group == 1:
        text = text.replace("kv_heads, group, head", "kv_heads, head").replace("(kv_heads group head)", "(kv_heads head)")
    return text.replace("    lr ", more + "    lr ")


@mgctest.in_turns_of(2)
class Parts(shim.Case):
    def make(self, name, layout="one", precision="f64", **more):
        self.write(f"{name}.mg", source(**more))
        self.write(f"{layout}.mg", layouts.text(layout))
        self.compiles(f"{name}.mg", "--layout", f"./{layout}.mg", "--precision", precision, "-o", f"{name}-{layout}")
        return f"./{name}-{layout}"

    def setUp(self):
        super().setUp()
        self.write("data.txt", bytes(random.Random(4).choices(range(256), k=4000)))

    def steps(self, program, out, steps, *argv, **more):
        self.trains(program, "--data", "data.txt", "--out", out, "--steps", steps, "--threads", 1, "--keep", 0, *argv, **more)
        return [l["loss"] for l in self.metrics(out) if "loss" in l]

    def saved(self, out, step, file="model"):
        return self.read(f"{out}/ckpt/step-{step:08d}/{file}.safetensors")

    def assert_near(self, a, b, bound):
        self.assertEqual(len(a), len(b))
        self.assertLess(max(abs(x - y) for x, y in zip(a, b)), bound)

    def test_as_one_tensor(self):
        """The model that has one parameter in their place: the same file, and the same steps."""
        parts, whole = self.make("parts", group=1), self.make("whole", group=1, attend=WHOLE)
        self.assert_near(self.steps(parts, "p", STEPS, "--save-every", 1), self.steps(whole, "w", STEPS), 1e-12)
        self.steps(whole, "w0", 0)
        self.steps(parts, "p0", 0)
        self.assertEqual(self.saved("p0", 0), self.saved("w0", 0))
        a, b = (read_safetensors(self.saved(out, STEPS, "optimizer")) for out in "pw")
        self.assertEqual({n: t[:2] for n, t in a.items()}, {n: t[:2] for n, t in b.items()})
        self.assertEqual(a["exp_avg.layers.3.attn.qkv.weight"][1], [48, 16])
        self.steps(parts, "init", 0, "--init", "w/ckpt/step-%08d/model.safetensors" % STEPS)
        self.assertEqual(self.saved("init", 0), self.saved("w", STEPS))

    def test_layouts(self):
        """One file under all layouts; each goes on from another's checkpoint."""
        one = self.make("m")
        want = self.steps(one, "one", STEPS, "--save-every", 3)
        self.steps(one, "zero", 0)
        for name in some([n for n in LAYOUTS if n != "hidden"], 4):
            with self.subTest(layout=name):
                program = self.make("m", name)
                self.steps(program, name + "-0", 0)
                self.assertEqual(self.saved(name + "-0", 0), self.saved("zero", 0))
                there = self.steps(program, name, STEPS, "--resume=one/ckpt/step-00000003")
                self.assert_near(there, want[3:], 1e-9)
                back = self.steps(one, name + "-back", STEPS + 1, f"--resume={name}/ckpt/step-{STEPS:08d}", "--save-every", 1)
                self.assertEqual(len(back), 1)
                self.steps(program, name + "-same", STEPS, f"--resume={name}/ckpt/step-{STEPS:08d}")

    def test_gpus(self):
        """A GPU, or four, write the file of a processor, and go on from each other's (in the shim)."""
        one = self.make("m", precision="f32")
        self.steps(one, "cpu", 3)
        self.steps(one, "cpu-0", 0)
        for number, layout in some(((4, "zero3_tp2"), (1, "one"))):
            self.write("gpu.mg", layouts.text(layout, device="h200"))
            self.gpu("m.mg", "--layout", "./gpu.mg", "--precision", "f32", device=())
            gpus = {"SHIM_GPUS": str(number)}
            self.steps("./gpu", f"{number}-0", 0, env=gpus)
            self.assertEqual(self.saved(f"{number}-0", 0), self.saved("cpu-0", 0))
            there = self.steps("./gpu", f"{number}", STEPS, "--resume=cpu/ckpt/step-00000003", env=gpus)
            back = self.steps(one, f"{number}-back", STEPS, "--resume=cpu/ckpt/step-00000003")
            self.assert_near(there, back, 1e-5)
            self.steps(one, f"{number}-on", STEPS + 1, f"--resume={number}/ckpt/step-{STEPS:08d}")

    def test_killed(self):
        program = self.make("m", some(("pp2_tp2_sp", "zero3_tp2", "pp2_zb_zero3"))[0], precision="f32")
        self.steps(program, "whole", 60)
        r, resume, killed = random.Random(3), [], 0
        for _ in range(4):
            p = subprocess.Popen([program, "--data", "data.txt", "--out", "killed", "--steps", "60", "--threads", "1",
                                  "--save-every", "1", *resume], cwd=self.dir, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
            while not os.path.isdir(self.path("killed/ckpt")) and p.poll() is None:
                time.sleep(0.01)
            time.sleep(r.uniform(0, 0.1))
            os.killpg(p.pid, signal.SIGKILL)
            killed += p.wait(60) == -signal.SIGKILL
            time.sleep(0.4)  # until the ranks are gone, too, and with them the lock
            resume = ["--resume"]
        self.assertGreater(killed, 1)
        self.steps(program, "killed", 60, "--resume")
        for file in ("model", "optimizer"):
            self.assertEqual(self.saved("killed", 60, file), self.saved("whole", 60, file), file)

    def test_init(self):
        """From several files, of other types; what does not fit names all parts."""
        one = self.make("m", precision="f32")
        self.steps(one, "a", 0)
        tensors = read_safetensors(self.saved("a", 0))
        os.mkdir(self.path("hf"))
        half = len(tensors) // 2
        names = sorted(tensors)
        for k, part in enumerate((names[:half], names[half:])):
            self.write(f"hf/{k}.safetensors", safetensors({n: tensors[n] for n in part}))
        index = ", ".join(f'"{n}": "{int(i >= half)}.safetensors"' for i, n in enumerate(names))
        self.write("hf/model.safetensors.index.json", '{"weight_map": {%s}}' % index)
        self.steps(self.make("m", "zero3_tp2", precision="f32"), "b", 0, "--init", "hf", "--seed", 7)
        self.assertEqual(self.saved("b", 0), self.saved("a", 0))
        name = "layers.2.attn.qkv.weight"
        lacking = {n: t for n, t in tensors.items() if n != name}
        short = {**tensors, name: ("F32", [16, 16], packed([0.0] * 256, "F32"))}
        lines = source().splitlines()
        places = ", ".join(f"m.mg:{i + 1}" for w in ("wq :", "wk :", "wv :") for i, l in enumerate(lines) if w in l)
        for bad, words in ((lacking, f"{name} is missing: [64, 16] ({places})"),
                           (short, f"{name} is [16, 16] there; this program has [64, 16] ({places})")):
            self.write("bad.safetensors", safetensors(bad))
            r = self.trains(one, "--data", "data.txt", "--init", "bad.safetensors", "--out", "c", code=65)
            self.assertIn(words, r.err)

    def test_frozen_part(self):
        """State that a part has not is 0 in the tensor of all, and is not read."""
        one = self.make("m", more="    frozen where group\n")
        losses = self.steps(one, "a", STEPS, "--save-every", 3)
        state = read_safetensors(self.saved("a", STEPS, "optimizer"))["exp_avg.layers.1.attn.qkv.weight"]
        self.assertEqual(state[1], [64, 16])
        q = 32 * 16 * 8
        self.assertEqual(state[2][:q], bytes(q))
        self.assertNotIn(0.0, memoryview(state[2][q:]).cast("d").tolist())
        moved = self.steps(self.make("m", "zero3_tp2", more="    frozen where group\n"), "b", STEPS, "--resume=a/ckpt/step-00000003")
        self.assert_near(moved, losses[3:], 1e-9)

    def test_means(self):
        """Adafactor's means along the dim of the parts: a row for each part."""
        rule = "adafactor(decay = 0.1)"
        one = self.make("m", optimizer=rule)
        losses = self.steps(one, "a", STEPS, "--save-every", 3)
        state = read_safetensors(self.saved("a", STEPS, "optimizer"))
        shapes = {n.split(".")[0]: t[1] for n, t in state.items() if n.endswith("layers.0.attn.qkv.weight")}
        self.assertEqual(sorted(shapes.values()), [[3, 16], [64]])
        moved = self.steps(self.make("m", "zero3_tp2", optimizer=rule), "b", STEPS, "--resume=a/ckpt/step-00000003")
        self.assert_near(moved, losses[3:], 1e-9)


if __name__ == "__main__":
    mgctest.main()
