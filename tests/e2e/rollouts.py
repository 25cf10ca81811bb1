"""What tests of programs with rollouts have in common: a small model, prompts, a command of rewards."""

import json
import os
import re

import mgctest

CONFIG = {"model_type": "llama", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": False, "pad_token_id": 0}
SHARE = "import sys, json\nfor line in sys.stdin:\n    a = json.loads(line)['answer_tokens']\n    print(sum(t == 101 for t in a) / len(a))\n"
COMMAND = ("--reward", "python3 reward.py")
SIZES = ("-D", "seq=24", "-D", "batch=16")


class Case(mgctest.Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("given"))
        self.write("given/config.json", json.dumps(CONFIG))
        self.write("p.jsonl", "".join(json.dumps({"prompt": f"say {i}: ", "key": [i, "a"]}) + "\n" for i in range(6)))
        self.write("reward.py", SHARE)

    def source(self, objective, rate="3e-3", **more):
        self.compiles("import-hf", "given", "--objective", objective, "-o", "m.mg")
        text = self.read("m.mg").decode()
        self.write("m.mg", re.sub(r"(?m)^    lr .*", f"    lr {rate}", text))
        self.compiles("m.mg", *SIZES, "-o", "train", **more)

    def run_one(self, steps, out, *argv, code=0, **more):
        return self.trains("./train", "--data", "p.jsonl", *COMMAND, "--steps", steps, "--out", out, *argv, code=code, timeout=300, **more)

    def of(self, out, key):
        return [x[key] for x in self.metrics(out) if key in x]

    def keeping(self):
        """A command that keeps the lines that it is given."""
        self.write("reward.py", SHARE.replace("for line", "f = open(sys.argv[1], 'a')\nfor line").replace("    a =", "    print(line, end='', file=f, flush=True)\n    a ="))

    def lines(self, path):
        return [json.loads(x) for x in self.read(path).decode().splitlines()]
