"""Programs that learn what they generate (GRPO): a toy learns; its answers are those of a program that generates alone; a run that is resumed has
the same bits; several updates with a reference; the memory is that of the plan, where caches lie over a step's activations; and a command of
rewards that fails says what to do, and nothing hangs. The numbers of TRL: tests/parity/objectives."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import mgctest
import rollouts
from rollouts import COMMAND, CONFIG, SHARE, SIZES

BYTES = os.path.join(mgctest.SOURCE, "examples/finetune/bytes")


class Rollouts(rollouts.Case):
    def test_learns(self):
        """The reward is the share of a byte: it rises from chance."""
        self.compiles("tune", "given", "--objective", "grpo,group=8,tokens=12", "-D", "batch=64", "-D", "seq=24", "-o", "first")
        self.assertIn("rollout", self.read("first.mg").decode())
        self.write("m.mg", re.sub(r"(?m)^    lr .*", "    lr 3e-3", self.read("first.mg").decode()))
        self.compiles("m.mg", "-D", "batch=64", "-D", "seq=24", "-o", "train")
        began = time.monotonic()
        self.assertIn(", 0 bytes over", self.run_one(60, "r").out)
        reward = self.of("r", "reward")
        self.assertLess(reward[0], 0.05)
        self.assertGreater(min(reward[-5:]), 0.5)
        self.assertEqual(self.of("r", "length"), [12] * 60)
        self.assertLess(time.monotonic() - began, 240)  # a machine that is not busy takes some seconds

    def test_speaks(self):
        """With a tokenizer prompts are texts or messages, and a command is told the answers' texts; --stop is a text, which may lie across tokens."""
        shutil.copytree(BYTES, self.path("hub"))
        self.compiles("import-hf", "hub", "--objective", "grpo,group=4,tokens=10", "-o", "m.mg")
        self.compiles("m.mg", "-D", "seq=79", "-D", "batch=16", "-o", "train")
        talk = [{"role": "user", "content": "What of the sea, \u00e9?"}]
        self.write("p.jsonl", "".join(json.dumps(x) + "\n" for x in ({"prompt": "Of \u00e9 and "}, {"messages": talk}, {"tokens": [65, 66, 67]}, {"prompt": "A"})))
        self.keeping()
        self.trains("./train", "--data", "p.jsonl", "--reward", "python3 reward.py one", "--steps", 1, "--out", "r", "--tokenizer", "hub", "--stop", "e", "--temperature", "1")
        lines = self.lines("one")
        prompts = {x["prompt"] for x in lines}
        self.assertEqual(len(prompts), 4)
        self.assertTrue({"Of \u00e9 and ", "ABC", "A"} < prompts, prompts)
        (said,) = prompts - {"Of \u00e9 and ", "ABC", "A"}
        self.assertIn("What of the sea, \u00e9?", said)
        self.assertNotEqual(said.strip(), talk[0]["content"])  # by the template, with the beginning of an answer
        for x in lines:
            self.assertEqual(x["answer"], bytes(x["answer_tokens"]).decode("utf-8", "replace"))
            self.assertEqual(x["ended"], "e" in x["answer"] or x["answer_tokens"][-1] in self.ends_of("hub"), x)
            self.assertLessEqual(len(x["answer_tokens"]), 10)
        self.write("p.jsonl", '{"messages": [{"role": "user"}]}\n')
        self.assertIn("p.jsonl:1:", self.run_one(1, "s", "--tokenizer", "hub", code=65).err)

    def ends_of(self, folder):
        end = json.loads(self.read(f"{folder}/config.json")).get("eos_token_id")
        return end if isinstance(end, list) else [end]

    def test_answers(self):
        """What a command is given: rows in order, their bytes as text, how they ended, and the line of the prompt."""
        self.source("grpo,group=4,tokens=10")
        self.keeping()
        self.trains("./train", "--data", "p.jsonl", "--reward", "python3 reward.py one", "--steps", 3, "--out", "r1", "--stop", "e", "--top-k", 150)
        lines = self.lines("one")
        self.assertEqual([x["rollout"] for x in lines], [0] * 16 + [1] * 16 + [2] * 16)
        self.assertEqual([x["row"] for x in lines], list(range(16)) * 3)
        self.assertEqual([x["group"] for x in lines], [i // 4 for i in range(16)] * 3)
        for x in lines:
            self.assertEqual(x["prompt"].encode(), bytes(x["prompt_tokens"]))
            self.assertEqual((x["record"]["prompt"], x["record"]["key"][1]), (x["prompt"], "a"))
            self.assertEqual(x["ended"], x["answer_tokens"][-1] == ord("e"))
            self.assertNotIn(ord("e"), x["answer_tokens"][:-1])
            self.assertTrue(x["ended"] or len(x["answer_tokens"]) == 10)
            if all(b < 128 for b in x["answer_tokens"] if b):
                self.assertEqual(x["answer"].replace("\ufffd", "\0").encode(), bytes(x["answer_tokens"]))
        self.assertTrue(any(x["ended"] for x in lines) and not all(x["ended"] for x in lines))
        self.assertNotEqual([x["answer_tokens"] for x in lines[:16]], [x["answer_tokens"] for x in lines[16:32]])
        first = {x["prompt"] for x in lines}  # 12 prompts of an endless sequence of 6: each twice
        self.assertEqual(len(first), 6)

    def test_generates_alone(self):
        """Token for token the answers of a program that generates alone, with the same weights and seed, also behind some steps."""
        self.write("given/config.json", json.dumps(CONFIG | {"vocab_size": 300}))
        self.source("grpo,group=4,tokens=10,temperature=0.7", rate="1e-1")
        self.write("p.jsonl", "".join(json.dumps({"tokens": [i, 290 - i, 3][:1 + i % 3]}) + "\n" for i in range(5)))
        self.keeping()
        run = ("./train", "--data", "p.jsonl", "--seed", 3)
        self.trains(*run, "--reward", "python3 reward.py one", "--steps", 3, "--out", "r1")
        self.trains(*run, "--reward", "python3 reward.py two", "--steps", 1, "--out", "r2", "--top-p", 0.9, "--stop", "41", "--init", "r1/ckpt/step-00000003")
        self.compiles("m.mg", *SIZES, "--generate", "--sequences", 16, "-o", "gen")
        given = []
        for path, more in (("one", ()), ("two", ("--top-p", 0.9, "--stop", "41", "--init", "r1/ckpt/step-00000003"))):
            lines = self.lines(path)[:16]
            self.assertNotIn("answer", lines[0])
            prompts = [x for p in lines for x in ("--prompt", " ".join(map(str, p["prompt_tokens"])))]
            r = self.trains("./gen", "--sample", 10, "--seed", 3, "--temperature", 0.7, *prompts, *more)
            shown = [[int(t) for t in x.split("\n", 1)[1].split()] for x in r.out.split("== ")[1:]]
            given.append([x["answer_tokens"][:-1] if x["ended"] else x["answer_tokens"] for x in lines])
            self.assertEqual(shown, given[-1])
        self.assertNotEqual(given[0], given[1])

    def test_resume(self):
        """A run that goes on from a checkpoint has the bits of one that was not stopped; several updates an answer, and a reference."""
        self.source("grpo,group=4,tokens=10,updates=2,beta=0.05", rate="1e-2")
        self.run_one(8, "r1", "--save-every", 4, "--keep", 0)
        kl, clipped = self.of("r1", "kl"), self.of("r1", "clipped")
        self.assertEqual((len(kl), kl[0], clipped[0], clipped[2]), (8, 0, 0, 0))  # before the first update
        self.assertGreater(kl[1], 0)
        self.assertGreater(max(clipped), 0)
        reward = self.of("r1", "reward")
        self.assertEqual(reward[0::2], reward[1::2])
        self.assertGreater(len(set(reward)), 1)
        self.run_one(8, "r2", "--resume=r1/ckpt/step-00000004", "--threads", 1)
        for name in ("model", "optimizer"):
            self.assertEqual(self.read(f"r1/ckpt/step-00000008/{name}.safetensors"), self.read(f"r2/ckpt/step-00000008/{name}.safetensors"))
        self.assertEqual([x["loss"] for x in self.metrics("r1") if x["step"] > 4], self.of("r2", "loss"))
        self.assertIn("learns the same answers in 2 steps", self.run_one(7, "r3", code=2).err)
        self.assertIn("--save-every 6", self.run_one(8, "r3", "--save-every", 5, code=2).err)

    def test_adapter(self):
        """The reference is the base, and no parameter more."""
        self.compiles("tune", "given", "--objective", "grpo,group=4,tokens=8,beta=0.1,updates=2,loss=grpo", "--lora", "rank=2", *SIZES, "-o", "train")
        self.write("reward.py", SHARE.replace("sum(t == 101 for t in a)", "sum(a) / 256"))
        self.run_one(4, "r", "--lr", "1")
        kl = self.of("r", "kl")
        self.assertEqual(kl[0], 0)
        self.assertGreater(kl[1], 0)

    def test_memory(self):
        """Caches lie over the activations of a step, which are dead then; dead bytes as NaN change nothing; the run has the memory of the plan."""
        self.source("grpo,group=4,tokens=10,updates=2")
        r = self.compiles("m.mg", *SIZES, "--plan")
        self.assertRegex(r.out, r"rollouts +16 answers of at most 10 tokens, 16 at once: .*; caches 120 KiB")
        self.assertRegex(r.out, r"whole step +\d")
        self.run_one(4, "r1")
        self.run_one(4, "r2", "--poison")
        self.assertEqual(self.of("r1", "loss"), self.of("r2", "loss"))
        text = self.read("m.mg").decode()
        self.write("few.mg", text.replace("tokens = 10", "tokens = 10, texts = 4"))
        self.write("plain.mg", re.sub(r"(?m)^    rollout .*\n", "", text))
        self.write("none.mg", text.replace("tokens = 10", "tokens = 10, texts = 5"))
        few, plain = (self.compiles(f, *SIZES, "--microbatch", 16, "--plan").out for f in ("few.mg", "plain.mg"))
        caches, logits, arena = (4 + 1) * 24 * 2 * 2 * 2 * 8 * 4, (4 + 1) * 256 * 4, [int(re.search(r"arena (\d+) bytes", x)[1]) for x in (few, plain)]
        self.assertIn("caches 30 KiB", few)
        self.assertNotRegex(few, r"(?m)^  caches")  # a step has none at its peak
        more = arena[0] - arena[1]
        self.assertLess(more, caches)
        self.assertGreaterEqual(more, logits)
        self.assertIn("MG0594", self.mgc("none.mg", *SIZES, "--check").err)
        self.compiles("few.mg", *SIZES, "--microbatch", 16, "-o", "train")
        self.run_one(4, "r3")
        self.assertEqual(self.of("r1", "reward")[:2], self.of("r3", "reward")[:2])

    def test_commands(self):
        """Commands that fail: each is an error in time."""
        self.source("grpo,group=4,tokens=4")
        reads = "import sys, json, time, os\nlines = iter(sys.stdin.readline, '')\n"
        for script, code, words in (
                (reads + "for k, line in enumerate(lines):\n    print(1 if k < 3 else 'good')\n", 65, ("line 4 of its output, 'good', is no number", "one number, as 0.5")),
                (reads + "for line in lines:\n    print('NaN')\n", 65, ("line 1 of its output, 'NaN'",)),
                (reads + "for line in lines:\n    print(1)\n    print(2)\n", 65, ("more than was asked for",)),
                (reads + "next(lines)\nprint(0.5, flush=True)\nsys.exit(3)\n", 1, ("exit code 3 after 1 of 16 answers",)),
                (reads + "next(lines)\nos.kill(os.getpid(), 9)\n", 1, ("exit code 137",)),
                (reads + "next(lines)\ntime.sleep(100)\n", 1, ("gave no number for 1 s, after 0 of 16", "--reward-timeout")),
                (reads + "all = list(lines)\n", 1, ("gave no number for 1 s",))):
            self.write("reward.py", script)
            r = self.run_one(2, "r", "--reward-timeout", 1, code=code)
            for w in words:
                self.assertIn(w, r.err, script)
        self.assertIn("exit code 127", self.trains("./train", "--data", "p.jsonl", "--reward", "no-such-command", "--steps", 1, "--out", "r", code=1).err)
        self.write("reward.py", SHARE)
        self.assertIn("--reward 'python3 reward.py'", self.trains("./train", "--data", "p.jsonl", "--steps", 1, "--out", "r", code=2).err)
        self.assertIn("--temperature 0.5", self.run_one(1, "r", "--temperature", 0.5, code=2).err)
        for line, words in (('{"prompt": ""}', "a prompt without tokens"), ('{"prompt": "%s"}' % ("a" * 22), "a prompt of 22 tokens"), ('{"key": 1}', "has none"),
                            ('{"prompt": "a", "tokens": [1]}', "has several"), ('{"tokens": [256]}', "takes 0 to 255"), ('["a"]', "p.jsonl:2:1"), ('{"prompt": 1}', "p.jsonl:2:")):
            self.write("p.jsonl", '{"prompt": "a"}\n' + line + "\n")
            self.assertIn(words, self.run_one(1, "r", code=65).err, line)

    def test_whole_batches(self):
        """A command that reads all lines of a step before it writes a number."""
        self.source("grpo,group=4,tokens=4")
        self.write("reward.py", "import sys, json\nrows = []\nfor line in iter(sys.stdin.readline, ''):\n    rows.append(json.loads(line))\n"
                   "    if len(rows) == 16:\n        print('\\n'.join(str(r['row'] % 4) for r in rows))\n        rows = []\n")
        self.run_one(3, "r")
        self.assertEqual(self.of("r", "reward"), [1.5] * 3)

    def test_stopped(self):
        """A signal ends the run with a checkpoint, also while a command says nothing; the command ends, too."""
        self.source("grpo,group=4,tokens=4")
        self.write("reward.py", "import sys, json, time, os\nopen('pid', 'w').write(str(os.getpid()))\nfor k, line in enumerate(iter(sys.stdin.readline, '')):\n"
                   "    if k >= 32:\n        open('waits', 'w').close()\n        time.sleep(1000)\n    print(0.5)\n")
        p = subprocess.Popen(["./train", "--data", "p.jsonl", *COMMAND, "--steps", "100", "--out", "r"], cwd=self.dir, stdout=subprocess.DEVNULL)
        for _ in range(600):
            if os.path.exists(self.path("waits")):
                break
            time.sleep(0.1)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(timeout=60), 75)
        self.assertTrue(os.path.isdir(self.path("r/ckpt/step-00000002")))
        try:
            with open(f"/proc/{int(self.read('pid'))}/stat", encoding="utf-8") as f:
                self.assertEqual(f.read().rsplit(")", 1)[1].split()[0], "Z")  # ended, and nobody has asked how
        except FileNotFoundError:
            pass


if __name__ == "__main__":
    mgctest.main()
