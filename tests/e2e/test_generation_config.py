"""generation_config.json beside the weights: how tokens are chosen by default in a program that generates, as transformers means it
(tests/parity/generation_config.py); options come first; what is not done is named; what is wrong ends the program."""

import json
import os
import re
import shutil
import tempfile
import unittest

import mgctest

GOLDEN = os.path.join(mgctest.SOURCE, "tests/parity/golden/generation_config.json")
BYTES = os.path.join(mgctest.SOURCE, "examples/finetune/bytes")
SETTINGS = ("do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty")
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": False}


class GenerationConfig(mgctest.Case):
    @classmethod
    def setUpClass(cls):
        """./gen and plain, a folder with random weights."""
        cls.made = tempfile.TemporaryDirectory(prefix="mgc-test-")
        case = cls("test_golden")
        case.dir = cls.made.name
        os.mkdir(case.path("hf"))
        case.write("hf/config.json", json.dumps(CONFIG))
        case.compiles("import-hf", "hf", "-o", "m.mg")
        case.compiles("m.mg", "--generate", "-o", "gen")
        case.trains("./gen", "--sample", 1, "--export", "plain")

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def setUp(self):
        super().setUp()
        shutil.copytree(os.path.join(self.made.name, "plain"), self.path("hf"))

    def says(self, *args, init="hf", said=None, code=0):
        if said is not None:
            self.write("hf/generation_config.json", said if isinstance(said, str) else json.dumps(said))
        init = self.path("hf") if init == "hf" else os.path.join(self.made.name, init)
        return self.trains(os.path.join(self.made.name, "gen"), "--init", init, "--sample", 40, "--seed", 5, "--prompt", "In the", *args, code=code)

    def explicit(self, means):
        """The same by options."""
        more = ("--temperature", means["temperature"], "--repetition-penalty", means["repetition_penalty"])
        more += ("--top-k", means["top_k"]) if means["top_k"] else ()
        more += ("--min-p", means["min_p"]) if means["min_p"] else ()
        return (*more, "--top-p", means["top_p"])

    def test_golden(self):
        """Each file chooses as the options that say what transformers makes of it; one that says nothing of it leaves it to the program."""
        with open(GOLDEN, encoding="utf-8") as f:
            cases = json.load(f)
        plain, texts = self.says(init="plain"), set()
        self.assertEqual(plain.err, "")
        for case in cases:
            r, means = self.says(said=case["file"]), case["means"]
            told = [k for k in SETTINGS if case["file"].get(k) is not None]
            want = self.says(*self.explicit(means), init="plain").out if told else plain.out
            self.assertEqual(r.out, want, case)
            texts.add(r.out)
            line = [x for x in r.err.splitlines() if "generation_config.json: " in x]
            for key, nothing in (("temperature", 1), ("top_k", 0), ("top_p", 1), ("min_p", 0), ("repetition_penalty", 1)):
                value = means[key]
                shown = re.search(rf"\b{key} ([\d.]+)", " ".join(line))
                if told and value != nothing and (means["draws"] or key == "repetition_penalty"):
                    self.assertEqual(float(shown[1]), value, r.err)
                else:
                    self.assertIsNone(shown, r.err)
            self.assertEqual("the likeliest token" in " ".join(line), bool(told) and not means["draws"], r.err)
            self.assertLessEqual(len(line), 1)
            self.assertNotIn("not built", r.err)
        self.assertGreater(len(texts), 7)

    def test_options_first(self):
        """An option takes the place of what the file says of the same; one of draws, that of no draws."""
        qwen = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95}
        for given, left in ((("--temperature", 1.5), ("--top-k", 20, "--top-p", 0.95)), (("--top-k", 3), ("--temperature", 0.6, "--top-p", 0.95)),
                            (("--top-p", 0.5), ("--temperature", 0.6, "--top-k", 20)), (("--temperature", 1, "--top-k", 256, "--top-p", 1), ())):
            r = self.says(*given, said=qwen)
            self.assertEqual(r.out, self.says(*given, *left, init="plain").out)
            for name in given[0::2]:
                self.assertNotIn(name[2:].replace("-", "_"), r.err)
        self.assertEqual(self.says("--temperature", 0, said=qwen).out, self.says("--temperature", 0, init="plain").out)
        for given in (("--temperature", 0.9), ("--top-k", 7), ("--top-p", 0.4), ("--min-p", 0.3)):
            self.assertEqual(self.says(*given, said={"do_sample": False, "top_k": 4}).out, self.says(*given, init="plain").out)

    def test_left_out(self):
        """Keys that change what comes, and are not built, are named, and those that nobody knows; those at their neutral values are not."""
        r = self.says(said={"num_beams": 4, "no_repeat_ngram_size": 3, "typical_p": 1.0, "guidance_scale": None, "suppress_tokens": [5], "my_own": 1, "other": None,
                            "num_return_sequences": 1, "use_cache": False, "max_new_tokens": 9, "epsilon_cutoff": 0.0, "token_healing": False})
        self.assertIn("generation_config.json: num_beams, no_repeat_ngram_size, suppress_tokens, my_own: not built, or not known", r.err)
        self.assertEqual(r.out, self.says(init="plain").out)

    def test_wrong(self):
        for said, words in (({"temperature": "x"}, "temperature is no number"), ({"top_p": 1.5}, "top_p is no probability"), ({"top_p": 0}, "top_p is no probability"),
                            ({"top_k": -1}, "top_k is no whole number"), ({"top_k": 1.5}, "top_k is no whole number"), ({"min_p": 2}, "min_p is no probability"),
                            ({"repetition_penalty": 0}, "repetition_penalty is not above 0"), ({"temperature": -1}, "temperature is below 0"), ({"do_sample": 1}, "do_sample is no true or false"),
                            ({"temperature": [1]}, "temperature is no number"), ("[1]", "byte 1"), ('{"a": }', "byte 7"), ("", "byte 1"), ('{"top_k": 1e400}', "")):
            r = self.says(said=said, code=65)
            self.assertIn("hf/generation_config.json", r.err)
            self.assertIn(words, r.err, said)
        os.remove(self.path("hf/generation_config.json"))
        os.mkdir(self.path("hf/generation_config.json"))
        self.assertIn("generation_config.json", self.says(code=65).err)

    def test_conversations(self):
        """--chat and --batch take it, too, and say it once, with the ids that end texts."""
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(BYTES, name), self.path("hf"))
        self.write("hf/generation_config.json", json.dumps({"do_sample": True, "top_k": 3, "eos_token_id": [4, 7]}))
        self.write("q.jsonl", '{"messages": [{"role": "user", "content": "x"}]}\n')
        gen = os.path.join(self.made.name, "gen")
        for args in (("--batch", "q.jsonl", "--answers", "a.jsonl"), ("--chat", "--stop", "~~"), ("--prompt", "x")):
            r = self.trains("sh", "-c", f"echo Hi | {gen} --init hf --sample 5 {' '.join(args)}")
            self.assertEqual(r.err.count("hf/generation_config.json: top_k 3, texts end at 4, 7\n"), 1, r.err)
        self.assertEqual(self.trains("sh", "-c", f"{gen} --init hf --sample 5 --ids").err.count("texts end"), 0)

    def test_training_programs(self):
        """The sample of a program that trains is as its options say."""
        self.compiles(os.path.join(self.made.name, "m.mg"), "-D", "seq=16", "-D", "batch=2", "-o", "train")
        self.write("hf/generation_config.json", json.dumps({"do_sample": False}))
        r = self.trains("./train", "--init", "hf", "--sample", 8, "--seed", 3)
        self.assertNotIn("generation_config", r.err)
        self.assertNotEqual(r.out, self.trains("./train", "--init", "hf", "--sample", 8, "--temperature", 0).out)


if __name__ == "__main__":
    unittest.main()
