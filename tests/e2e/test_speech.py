"""Programs that speak text: prompts, stops, conversations and batches by a tokenizer, against token ids and mgc tok."""

import array
import base64
import gzip
import json
import os
import re
import shutil
import subprocess

import mgctest

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tok/golden")
DECODE = os.path.join(mgctest.BUILD, "bin/tok_decode")
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 1024, "hidden_size": 32, "intermediate_size": 48,
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
          "rope_theta": 10000.0, "tie_word_embeddings": False}
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LLAMA = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                                          {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
DECODERS = {"gpt2": BYTES, "llama3": BYTES, "llama2": LLAMA}
GREEDY = ("--temperature", 0)


def screen(text):
    """As the program shows it: controls that a terminal acts on are escaped."""
    out = ""
    for c in text:
        acts = ord(c) < 32 and c not in "\n\t" or 0x7F <= ord(c) < 0xA0
        out += "".join(f"\\x{b:02x}" for b in c.encode()) if acts else c
    return out


class Speech(mgctest.Case):
    def tokenizer(self, name="gpt2", template=CHATML, folder="hf", **more):
        with open(os.path.join(GOLDEN, name + ".json"), encoding="utf-8") as f:
            t = json.load(f)
        t["decoder"] = DECODERS[name]
        size = max([*t["model"]["vocab"].values(), *(a["id"] for a in t["added_tokens"])]) + 1
        t["added_tokens"] += [{"id": size + i, "content": c, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False} for i, c in enumerate(("<|im_start|>", "<|im_end|>"))]
        t.update(more)
        self.write(folder + "/tokenizer.json", json.dumps(t))
        self.write(folder + "/tokenizer_config.json", json.dumps({"eos_token": "<|im_end|>", "model_max_length": 10**30}))
        if template:
            self.write(folder + "/chat_template.jinja", template)
        return t

    def model(self, *options, seed=1, config=CONFIG):
        """./gen, and hf, a folder with random weights."""
        os.makedirs(self.path("hf"), exist_ok=True)
        self.write("hf/config.json", json.dumps(config))
        self.compiles_hf()
        self.compiles("m.mg", "--generate", *options, "-o", "gen")
        shutil.rmtree(self.path("made"), ignore_errors=True)
        self.says("--sample", 1, "--seed", seed, "--export", "made")
        os.replace(self.path("made/model.safetensors"), self.path("hf/model.safetensors"))

    def compiles_hf(self):
        r = self.mgc("import-hf", "hf", "-o", "m.mg")
        self.assertEqual(r.returncode, 0, r.err)

    def says(self, *args, program="./gen", **how):
        return self.trains(program, *args, **how)

    def ids(self, text, file="hf/tokenizer.json"):
        """By mgc tok."""
        self.write("text.jsonl", json.dumps({"text": text}) + "\n")
        r = self.mgc("tok", "--tokenizer", file, "-o", "ids", "text.jsonl")
        self.assertEqual(r.returncode, 0, r.err)
        return list(array.array("H", self.read("ids.bin")))

    def text(self, ids, file="hf/tokenizer.json"):
        r = subprocess.run([DECODE, self.path(file)], input=json.dumps(ids) + "\n", capture_output=True, text=True, check=True)
        return "".join(json.loads(r.stdout))

    def answers(self, records, *args, code=0):
        self.write("q.jsonl", "".join(json.dumps(q) + "\n" for q in records))
        r = self.says("--init", "hf", "--batch", "q.jsonl", "--answers", "a.jsonl", *args, code=code)
        return r.err if code else [json.loads(line) for line in self.read("a.jsonl").decode().split("\n")[:-1]]

    def test_prompts(self):
        """The text of a text's ids, one alone (as it comes) and several side by side (at their ends)."""
        self.model("--sequences", 2)
        prompts = ["In the beginning", " Héllo 世界 "]
        for name in mgctest.some(DECODERS, 2):
            self.tokenizer(name)
            for draws in (("--seed", 4), GREEDY):
                want = []
                for k, prompt in enumerate(prompts):
                    ids = self.ids(prompt)
                    out = self.says("--init", "hf", "--ids", "--sample", 40, "--prompt", " ".join(map(str, ids)), *draws).out
                    more = [int(x) for x in out.split()]
                    self.assertEqual(len(more), 40)
                    end = next(a["id"] for a in self.tokenizer(name)["added_tokens"] if a["content"] == "<|im_end|>")
                    more = more[:more.index(end)] if end in more else more
                    before, both = self.text(ids), self.text(ids + more)
                    self.assertTrue(both.startswith(before))
                    want.append(screen(both[len(before):]) + "\n")
                    self.assertEqual(self.says("--init", "hf", "--sample", 40, "--prompt", prompt, *draws).out, want[k], name)
            together = self.says("--init", "hf", "--sample", 40, "--prompt", prompts[0], "--prompt", prompts[1], *GREEDY).out
            self.assertEqual(together, "== 1\n" + want[0] + "== 2\n" + want[1])

    def test_sentencepiece(self):
        """A folder with tokenizer.model alone: prompts and text by it."""
        with gzip.open(os.path.join(GOLDEN, "sentencepiece.json.gz")) as f:
            golden = json.load(f)["kinds"]["llama"]["model"]
        self.model()
        with open(self.path("hf/tokenizer.model"), "wb") as f:
            f.write(base64.b64decode(golden))
        ids = self.ids("In the beginning", "hf/tokenizer.model")
        self.assertEqual(self.text(ids, "hf/tokenizer.model"), "In the beginning")
        more = [int(x) for x in self.says("--init", "hf", "--ids", "--sample", 30, "--prompt", " ".join(map(str, ids)), *GREEDY).out.split()]
        both = self.text(ids + more, "hf/tokenizer.model")
        self.assertEqual(self.says("--init", "hf", "--sample", 30, "--prompt", "In the beginning", *GREEDY).out, screen(both[len("In the beginning"):]) + "\n")

    def test_choices(self):
        """--batch of a program of groups: each record is answered as often; answer j of record i is that of its line alone, with the seed of its number."""
        self.model("--sequences", 4, "--choices", 2, "--precision", "f64")
        self.tokenizer()
        records = [{"prompt": "In the beginning God"}, {"prompt": "a"}, {"messages": [{"role": "user", "content": "Why?"}]}]
        got = self.answers(records, "--seed", 5, "--sample", 12)
        self.assertEqual([(x["record"], x["choice"]) for x in got], [(i, j) for i in range(3) for j in range(2)])
        self.assertEqual(len({x["answer"] for x in got}), 6)
        self.model("--precision", "f64")
        for x in got:
            i, j = x["record"], x.pop("choice")
            one, = self.answers(records[i:i + 1], "--seed", 5 + 2 * i + j, "--sample", 12)
            self.assertEqual(one | {"record": i}, x)

    def test_ends(self):
        """eos_token_id of generation_config.json (a number or a list) and of config.json; a stop of several tokens is not shown."""
        self.model()
        self.tokenizer()
        args = ("--init", "hf", "--sample", 30, "--prompt", "In the", *GREEDY)
        ids = [int(x) for x in self.says("--ids", "--init", "hf", "--sample", 30, *GREEDY, "--prompt", " ".join(map(str, self.ids("In the")))).out.split()]
        whole = self.says(*args).out
        third = ids.index(ids[9])
        until = screen(self.text(self.ids("In the") + ids[:third])[len("In the"):]) + "\n"
        self.assertTrue(len(until) < len(whole))
        for eos in (ids[9], [1023, ids[9]]):
            self.write("hf/generation_config.json", json.dumps({"eos_token_id": eos}))
            self.assertEqual(self.says(*args).out, until)
        os.remove(self.path("hf/generation_config.json"))
        self.write("hf/config.json", json.dumps({**CONFIG, "eos_token_id": ids[9]}))
        self.assertEqual(self.says(*args).out, until)
        self.write("hf/generation_config.json", json.dumps({"eos_token_id": "x"}))
        self.assertIn("is no id", self.says(*args, code=65).err)
        os.remove(self.path("hf/generation_config.json"))
        self.write("hf/config.json", json.dumps(CONFIG))
        stop = whole[7:10]
        self.assertEqual(self.says(*args, "--stop", stop, "--stop", "~no~").out, whole[:whole.index(stop)] + "\n")

    def test_chat(self):
        """Turn after turn says what the whole conversation as a batch says; also where the template rewrites earlier answers."""
        self.model("--precision", "f64")
        rewriting = CHATML.replace("+ m.content +", "+ (m.content if m.role == 'user' or loop.last else 'x') +")
        for name, template in (("gpt2", CHATML), ("llama2", CHATML), ("gpt2", rewriting)):
            self.tokenizer(name, template)
            self.write("lines", "Hi\n\nWhat is this?\nAnd that\n")
            out = self.trains("sh", "-c", "./gen --init hf --chat --system 'Be brief.' --sample 12 --temperature 0 <lines").out
            talk, want = [{"role": "system", "content": "Be brief."}], ""
            for line in ("Hi", "What is this?", "And that"):
                talk.append({"role": "user", "content": line})
                answer = self.answers([{"messages": talk}], "--sample", 12, *GREEDY)[0]["answer"]
                talk.append({"role": "assistant", "content": answer})
                want += screen(answer) + "\n"
            self.assertEqual(out, want)

    def test_cut_back(self):
        """Where the template rewrites answers, what stands before them is not computed again: of caches of keys and values, of latent rows, of rings that
        have not been full; all of it is where a ring has, and with the state of a recurrence. The answers are the same."""
        rewriting = CHATML.replace("+ m.content +", "+ (m.content if m.role == 'user' or loop.last else 'x') +")
        lines = ("Hi", "What is this?", "And that", "So be it")
        deepseek = CONFIG | {"model_type": "deepseek_v2", "num_key_value_heads": 4, "moe_intermediate_size": 24, "first_k_dense_replace": 1, "n_routed_experts": 4,
                             "n_shared_experts": 2, "num_experts_per_tok": 2, "kv_lora_rank": 16, "q_lora_rank": None, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
                             "v_head_dim": 12}
        mamba = {"model_type": "mamba2", "vocab_size": 1024, "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 1,
                 "chunk_size": 8}
        mistral = CONFIG | {"model_type": "mistral"}
        for config, cut in ((CONFIG, True), (deepseek, True), (mistral | {"sliding_window": 200}, True), (mistral | {"sliding_window": 16}, False), (mamba, False)):
            with self.subTest(config=config):
                for folder in ("made", "hf"):
                    shutil.rmtree(self.path(folder), ignore_errors=True)
                self.model("--precision", "f64", *(("-D", "seq=256") if config is mamba else ()), config=config)
                for template in (CHATML, rewriting):
                    self.tokenizer("gpt2", template)
                    self.write("lines", "".join(x + "\n" for x in lines))
                    r = self.trains("sh", "-c", "./gen --init hf --chat --sample 6 --temperature 0 <lines")
                    talk, want, prompts, answers = [], "", [], []
                    for line in lines:
                        talk.append({"role": "user", "content": line})
                        (a,) = self.answers([{"messages": talk}], "--sample", 6, *GREEDY)
                        said = [m["role"] + "\n" + (m["content"] if m["role"] == "user" or template == CHATML else "x") for m in talk]
                        prompts.append(len(self.ids("".join(f"<|im_start|>{x}<|im_end|>\n" for x in said) + "<|im_start|>assistant\n")))
                        answers.append(a["tokens"] + (a["ended"] == "end"))
                        talk.append({"role": "assistant", "content": a["answer"]})
                        want += screen(a["answer"]) + "\n"
                    self.assertEqual(r.out, want)
                    turns, computed, all_of_it = (int(x) for x in re.search(r"(\d+) turns: (\d+) tokens computed, of (\d+)", r.err).groups())
                    each = [p + n - 1 for p, n in zip(prompts, answers, strict=True)]
                    self.assertEqual((turns, all_of_it), (4, sum(each)))
                    if template == rewriting:
                        self.assertEqual(computed, prompts[-1] + sum(n - 1 for n in answers) if cut else sum(each))

    def test_no_template(self):
        """Then the line is the prompt, as it is, and an answer is a line."""
        self.model()
        self.tokenizer(template=None)
        self.write("lines", "Hi\n")
        self.assertEqual(self.trains("sh", "-c", "./gen --init hf --chat --sample 9 --stop '~~~' --seed 2 <lines").out,
                         self.says("--init", "hf", "--sample", 9, "--prompt", "Hi\n", "--seed", 2, "--stop", "~~~").out)
        self.assertIn("no chat template", self.trains("sh", "-c", "./gen --init hf --chat --system x <lines", code=65).err)
        self.assertIn("q.jsonl:1: it has 'messages'", self.answers([{"messages": [{"role": "user", "content": "x"}]}], code=65))
        self.write("t.jinja", CHATML)
        self.assertEqual(len(self.answers([{"messages": [{"role": "user", "content": "x"}]}], "--chat-template", "t.jinja", "--sample", 3)), 1)

    def test_batch(self):
        """Record i of seed s is record 0 of seed s + i, whatever stands beside it; in order, of any number; of lengths of their own."""
        self.model("--sequences", 3)
        self.tokenizer()
        records = [{"messages": [{"role": "user", "content": "x" * (7 * k % 11)}]} if k % 3 else {"prompt": "In the " + "y " * k} for k in range(8)]
        stops = ("--stop", "e", "--sample", 20)
        all_ = self.answers(records, "--seed", 5, *stops)
        self.assertEqual([a["record"] for a in all_], list(range(8)))
        self.assertGreater(len({a["tokens"] for a in all_}), 2)
        for k, record in enumerate(records):
            alone = self.answers([record], "--seed", 5 + k, *stops)[0]
            self.assertEqual({**alone, "record": k}, all_[k])
            self.assertEqual(alone["ended"] == "length", alone["tokens"] == 20 and "e" not in alone["answer"])
        self.assertEqual(self.says("--init", "hf", "--sample", 20, "--seed", 5, "--prompt", "In the ", "--stop", "e").out, screen(all_[0]["answer"]) + "\n")

    def test_while_training(self):
        """--prompts and --sample of a program that trains."""
        os.makedirs(self.path("hf"))
        self.write("hf/config.json", json.dumps(CONFIG))
        self.compiles_hf()
        self.compiles("m.mg", "-D", "batch=2", "-D", "seq=64", "-o", "train")
        self.tokenizer()
        self.write("p.txt", "In the\n")
        self.write("a.txt", " ".join(map(str, range(1000))))
        self.write("a.bin", array.array("H", [k * 7 % 700 for k in range(2000)]).tobytes())
        self.trains("./train", "--data", "u16:a.bin", "--steps", 2, "--prompts", "p.txt", "--sample-every", 1, "--sample", 6, "--tokenizer", "hf", "--out", "run")
        samples = [x for x in self.metrics("run") if "samples" in x or "sample" in json.dumps(x)]
        self.assertIn("In the", json.dumps(samples))
        text = self.says("--resume", "--out", "run", "--sample", 6, "--prompt", "In the", "--tokenizer", "hf/tokenizer.json", program="./train").out
        self.assertRegex(text, "[a-z]")

    def test_linked(self):
        """A program that generates has the tokenizers in it and needs no library for them; one that does not has none."""
        self.model()
        self.compiles(mgctest.model("mlp.mg"), "-o", "samples")
        self.compiles(mgctest.model("vit.mg"), "-o", "looks")
        for name, has in (("gen", True), ("samples", True), ("looks", False)):
            symbols = subprocess.run(["nm", self.path(name)], capture_output=True, text=True, check=True).stdout
            self.assertEqual(any(line.endswith(" tok_parse") for line in symbols.split("\n")), has, name)
            self.assertEqual("pcre2_match" in symbols, has, name)
            self.assertNotIn("jansson", subprocess.run(["ldd", self.path(name)], capture_output=True, text=True, check=True).stdout)

    def test_refused(self):
        """What is missing, damaged or another model's, with its file and both numbers."""
        self.model()
        t = self.tokenizer()
        args = ("--init", "hf", "--sample", 3, "--prompt", "1 2")

        def why(wrong, *more, code=65):
            self.write("hf/tokenizer.json", wrong if isinstance(wrong, str) else json.dumps(wrong))
            err = self.says(*args, *more, code=code).err
            self.assertEqual(self.says(*args, "--ids").err, "")  # ids need none of it
            return err
        self.assertIn("hf/tokenizer.json:1:", why("{\"model\": "))
        self.assertIn("no JSON object", why("[]"))
        self.assertIn("model.type is Magic", why({**t, "model": {"type": "Magic"}}))
        self.assertIn("'CTC' is not built: --ids", why({**t, "decoder": {"type": "CTC"}}))
        large = {**t, "added_tokens": t["added_tokens"] + [{"id": 1024, "content": "<x>"}]}
        err = why(large)
        self.assertIn("ids up to 1024", err)
        self.assertIn("a vocabulary of 1024", err)
        os.remove(self.path("hf/tokenizer.json"))
        self.assertEqual(self.says(*args).err, "")
        self.assertIn("no tokenizer beside the weights", self.says("--init", "hf", "--chat", "--system", "x", code=2).err)
        self.assertIn("has no tokenizer.json and no tokenizer.model", self.says(*args, "--tokenizer", "hf", code=65).err)
        self.assertIn("none/x", self.says(*args, "--tokenizer", "none/x", code=65).err)
        self.assertIn("--tokenizer DIR names", self.says("--init", "hf", "--sample", 3, "--prompt", "Hello", code=2).err)
        self.tokenizer(template="{% for m in messages %}{{ m.content }}{% endfor %}\n{{ raise_exception('no roles') }}")
        self.write("lines", "Hi\n")
        self.assertIn("chat_template.jinja:2:", self.trains("sh", "-c", "./gen --init hf --chat <lines", code=65).err)
        self.tokenizer(template="{% if %}")
        self.assertIn("chat_template.jinja:1:", self.trains("sh", "-c", "./gen --init hf --chat <lines", code=65).err)
        self.tokenizer()
        for record, said in (({"text": "x"}, "neither 'messages' nor"), ({"messages": []}, "no list, or empty"), ({"messages": [{}]}, "without a 'role'"),
                             ({"messages": [{"role": "assistant", "content": "x"}]}, "nothing to answer"), ({"prompt": ""}, "no token")):
            self.assertIn("q.jsonl:2: " if said != "x" else "", self.answers([{"prompt": "a"}, record], "--sample", 2, code=65))
            self.assertIn(said, self.answers([record], "--sample", 2, code=65))
        for wrong, said in ((("--batch", "x"), "go together"), (("--batch", "x", "--answers", "y", "--chat"), "without --chat"),
                            (("--system", "x", "--sample", 3), "of conversations"), (("--ids", "--sample", 3, "--tokenizer", "hf"), "--ids goes without"),
                            (("--ids", "--info"), "is of texts")):
            self.assertIn(said, self.says(*wrong, code=2).err)


if __name__ == "__main__":
    mgctest.main()
