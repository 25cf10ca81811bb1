"""Objectives by real programs: mgc tune writes and compiles one, from files of mgc tok; a frozen copy is in checkpoints and not in exports,
and under an adapter there is none; any layout computes what one rank does; a new head and one that is left out are said by name.
The numbers of TRL: tests/parity/objectives."""

import json
import math
import os
import re

import mgctest
from mgctest import some

CONFIG = {"model_type": "llama", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 32, "tie_word_embeddings": False, "pad_token_id": 0}
ROWS = [x for k in ("chosen", "rejected") for x in ("--data", f"{k}=0:p.{k}.bin", "--data", f"{k}_mask=2:p.{k}.weights.bin")]
LAYOUTS = {
    "dp2": "mesh dp = 2\n    batch -> dp",
    "zero3": "mesh dp = 2\n    batch -> dp\n    params, grads, state -> dp",
    "tp2": "mesh tp = 2\n    kv_heads, ffn, vocab -> tp",
    "pp2": "mesh pp = 2\n    layers -> pp (schedule = 1f1b)",
    "pp2_dp2": "mesh pp = 2, dp = 2\n    batch -> dp\n    layers -> pp (schedule = gpipe)",
}


class Objectives(mgctest.Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("given"))
        self.write("given/config.json", json.dumps(CONFIG))
        source = os.path.join(mgctest.SOURCE, "examples/finetune/bytes/tokenizer")
        self.write("p.jsonl", "".join(json.dumps({"prompt": f"{i}?", "chosen": "yes" * (1 + i % 3), "rejected": "no" * (1 + i % 2)}) + "\n"
                                      for i in range(12)))
        r = self.mgc("tok", "--tokenizer", source + ".json", "-o", "p", "p.jsonl")
        self.assertEqual(r.returncode, 0, r.err)

    def names(self, path):
        data = self.read(path)
        return {k: t["shape"] for k, t in json.loads(data[8:8 + int.from_bytes(data[:8], "little")]).items() if k != "__metadata__"}

    def run_one(self, program, steps, out, *argv):
        self.trains("./" + program, *ROWS, "--steps", steps, "--out", out, "--lr", "1e-2", *argv, timeout=300)
        return [x["loss"] for x in self.metrics(out) if "loss" in x]

    def test_whole(self):
        """A full fine-tuning: the copy stays as the base is, is resumed, and no export has it."""
        self.compiles("import-hf", "given", "-o", "lm.mg")
        self.compiles("lm.mg", "-D", "seq=32", "-o", "lm")
        self.trains("./lm", "--data", "p.jsonl", "--steps", 1, "--out", "r0", "--export", "hub")
        self.compiles("tune", "hub", "--objective", "dpo,beta=0.5", "-D", "seq=28", "-D", "batch=4", "-o", "dpo")
        losses = self.run_one("dpo", 6, "r1", "--init", "hub", "--save-every", 3, "--export", "out")
        self.assertLess(abs(losses[0] - math.log(2)), 1e-6)
        self.assertLess(losses[-1], losses[0])
        plain = self.names("hub/model.safetensors")
        self.assertEqual(self.names("out/model.safetensors"), plain)
        self.assertEqual(self.names("r1/ckpt/step-00000006/model.safetensors"), plain | {"reference." + k: v for k, v in plain.items()})
        self.assertEqual(self.run_one("dpo", 6, "r1", "--resume=r1/ckpt/step-00000003")[-3:], losses[3:])
        self.trains("./lm", "--init", "out", "--data", "p.jsonl", "--steps", 1, "--out", "r2")

    def test_adapter(self):
        """The reference is the base: no parameter more, and the first loss is that of no difference."""
        self.compiles("tune", "given", "--objective", "ipo,beta=0.5", "--lora", "rank=2", "-D", "seq=28", "-D", "batch=4", "-o", "ipo")
        losses = self.run_one("ipo", 5, "r1")
        self.assertLess(abs(losses[0] - 1), 1e-6)
        self.assertLess(losses[-1], losses[0])
        names = self.names("r1/ckpt/step-00000005/adapter_model.safetensors")
        self.assertTrue(all(".lora_" in k and "reference" not in k for k in names), names)
        text = self.read("ipo.mg").decode()
        for keep, copied in (("by 1", False), ("by 0.5", True)):
            self.write("other.mg", text.replace("by 1 ", keep + " ").replace("by 1\n", keep + "\n"))
            r = self.mgc("other.mg", "--plan", "-D", "seq=28", "-D", "batch=4")
            self.assertEqual(r.returncode, 0, r.err)
            base = sum(math.prod(x) for x in self.sizes())
            have = int(re.search(r"parameters +(\d+)", r.out)[1])
            self.assertEqual(have > 2 * base, copied, (have, base))

    @staticmethod
    def sizes():
        c = CONFIG
        h, f = c["hidden_size"], c["intermediate_size"]
        layer = [(h,), (h,), (h, h), (h // 2, h), (h // 2, h), (h, h), (f, h), (f, h), (h, f)]
        return [(c["vocab_size"], h)] * 2 + [(h,)] + layer * c["num_hidden_layers"]

    def test_layouts(self):
        """In f64 the losses of one rank within 1e-12, with a copy and with an adapter."""
        for kind, lora in (("dpo", ()), ("dpo", ("--lora", "rank=2"))):
            self.compiles("tune", "given", "--objective", kind, *lora, "-D", "seq=28", "-D", "batch=4", "--precision", "f64", "-o", "one")
            want = self.run_one("one", 4, "one-run")
            for name in some(LAYOUTS, 2):
                self.write("l.mg", f"layout {{\n    device cpu\n    {LAYOUTS[name]}\n    microbatch 2\n}}\n")
                self.compiles("one.mg", "-D", "seq=28", "-D", "batch=4", "--precision", "f64", "--layout", "./l.mg", "-o", name)
                got = self.run_one(name, 4, "run-" + name)
                with self.subTest(lora=lora, layout=name):
                    for a, b in zip(want, got, strict=True):
                        self.assertLess(abs(a - b), 1e-12)

    def test_heads(self):
        self.compiles("import-hf", "given", "-o", "lm.mg")
        self.compiles("lm.mg", "-D", "seq=32", "-o", "lm")
        self.trains("./lm", "--data", "p.jsonl", "--steps", 1, "--out", "r0", "--export", "hub")
        self.compiles("tune", "hub", "--objective", "reward", "-D", "seq=28", "-D", "batch=4", "-o", "reward")
        r = self.trains("./reward", *ROWS, "--init", "hub", "--steps", 2, "--out", "r1", code=65)
        self.assertIn("score.weight is missing: [1, 32]", r.err)
        self.assertIn("lm_head.weight [256, 32] is not in this program", r.err)
        r = self.trains("./reward", *ROWS, "--init", "hub", "--new", "scores.*", "--steps", 2, "--out", "r1", code=2)
        self.assertIn("no parameter of llama_reward has such a name", r.err)
        r = self.trains("./reward", *ROWS, "--new", "score.*", "--steps", 2, "--out", "r1", code=2)
        self.assertIn("are about the files of --init", r.err)
        losses = self.run_one("reward", 5, "r1", "--init", "hub", "--new", "score.*", "--without", "lm_head.*", "--export", "out")
        self.assertLess(losses[-1], losses[0])
        config = json.loads(self.read("out/config.json"))
        self.assertEqual(config["num_labels"], 1)
        self.assertNotIn("architectures", config)
        self.assertEqual(self.names("out/model.safetensors")["score.weight"], [1, 32])
        self.compiles("import-hf", "out", "--objective", "reward", "-o", "again.mg")  # the head is in the files now

    def test_head_beside_an_adapter(self):
        """The new head is trained in full, as PEFT's modules_to_save: in the adapter's files, resumed to the bit, read by --adapter, exported."""
        self.compiles("import-hf", "given", "-o", "lm.mg")
        self.compiles("lm.mg", "-D", "seq=32", "-o", "lm")
        self.trains("./lm", "--data", "p.jsonl", "--steps", 1, "--out", "r0", "--export", "hub")
        self.compiles("tune", "hub", "--objective", "reward", "--lora", "rank=2,alpha=4", "-D", "seq=28", "-D", "batch=4", "-o", "reward")
        base = ("--init", "hub", "--without", "lm_head.*")
        r = self.trains("./reward", *ROWS, *base, "--steps", 1, "--out", "r1", code=65)
        self.assertIn("score.weight is missing: [1, 32]", r.err)
        losses = self.run_one("reward", 6, "r1", *base, "--new", "score.*", "--save-every", 3, "--export", "out")
        self.assertLess(losses[-1], losses[0])
        last = "r1/ckpt/step-00000006/"
        config = json.loads(self.read(last + "adapter_config.json"))
        self.assertEqual((config["task_type"], config["modules_to_save"]), ("SEQ_CLS", ["score"]))
        names = self.names(last + "adapter_model.safetensors")
        self.assertEqual({k for k in names if ".lora_" not in k}, {"base_model.model.score.weight"})
        self.assertIn("exp_avg.base_model.model.score.weight", self.names(last + "optimizer.safetensors"))
        self.assertEqual(self.run_one("reward", 6, "r1", "--resume=r1/ckpt/step-00000003")[-3:], losses[3:])
        plain = self.names("hub/model.safetensors")
        plain.pop("lm_head.weight")
        self.assertEqual(self.names("out/model.safetensors"), plain | {"score.weight": [1, 32]})
        self.trains("./reward", *base, "--adapter", last.rstrip("/"), "--export", "again")
        self.assertEqual(self.read("again/model.safetensors"), self.read("out/model.safetensors"))
        r = self.mgc("merge", last.rstrip("/"), "--base", "hub", "-o", "merged")
        self.assertEqual(r.returncode, 1)
        self.assertIn("the program exports a new head: ./train --resume --export", r.err)

    def test_refused(self):
        for objective, code, says in (("dop", "MG0281", "there is: classify, distill, dpo, grpo, ipo, kto, orpo, reward, simpo"),
                                      ("../dpo", "MG0281", "there is no objective"), ("dpo,gamma=1", "MG0282", "there is: beta, smoothing, reference"),
                                      ("dpo,beta=0", "MG0282", "'beta' is not a number above 0"), ("dpo,beta", "MG0282", "one is NAME=VALUE"),
                                      ("dpo,beta=1,beta=2", "MG0282", "'beta' is set twice"), ("dpo,beta=x", "MG0282", "'beta' is not a number"),
                                      ("dpo,smoothing=0.5", "MG0282", "'smoothing' is no number from 0 to below 0.5"),
                                      ("ipo,reference=frozen", "MG0282", "what is built is 'start', 'stored'"),
                                      ("classify,labels=0", "MG0282", "'labels' is not a whole number of at least 1")):
            with self.subTest(objective):
                r = self.mgc("import-hf", "given", "--objective", objective)
                self.assertEqual(r.returncode, 1)
                self.assertIn(code, r.err)
                self.assertIn(says, r.err)
        for argv in (("import-hf", "given", "--packed", "--objective", "dpo"), ("tune", "given", "-o", "x"), ("tune", "given", "--objective", "dpo"),
                     ("tune", "given", "--objective", "dpo", "--on", "q_proj", "-o", "x"), ("lm.mg", "--objective", "dpo")):
            with self.subTest(argv):
                r = self.mgc(*argv)
                self.assertNotEqual(r.returncode, 0)
                self.assertIn("--objective", r.err)
        self.write("given/config.json", json.dumps({**CONFIG, "pad_token_id": None}))
        self.assertIn("is the token that fills rows up", self.mgc("import-hf", "given", "--objective", "classify").err)
        self.write("given/config.json", json.dumps({"model_type": "mamba", "vocab_size": 256}))
        self.assertIn("no other head", self.mgc("import-hf", "given", "--objective", "reward").err)


if __name__ == "__main__":
    mgctest.main()
