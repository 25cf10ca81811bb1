"""mgc gguf: every field and tensor is what the package gguf makes of the same directory (tests/parity/gguf/golden.py); what
has no form in llama.cpp is refused by its name."""

import hashlib
import json
import os
import shutil
import sys

import mgctest

HERE = os.path.join(mgctest.SOURCE, "tests/parity/gguf")
sys.path.insert(0, HERE)
import cases  # noqa: E402

with open(os.path.join(HERE, "golden.json"), encoding="utf-8") as golden_file:
    GOLDEN = json.load(golden_file)


class Gguf(mgctest.Case):
    def made(self, name, *argv, files=1, code=0):
        folder = self.path(name)
        if not os.path.isdir(folder):
            cases.make(folder, name, files)
        r = self.mgc("gguf", name, "-o", name + ".gguf", *(argv or ("--type", cases.CASES[name][3])))
        self.assertEqual(r.returncode, code, r.err)
        return r

    def same(self, name):
        meta, tensors = cases.read(self.path(name + ".gguf"))
        want = GOLDEN[name]
        self.assertEqual(set(meta), set(want["meta"]))
        for key, value in want["meta"].items():
            same = isinstance(value, float) or (isinstance(value, list) and value and isinstance(value[0], float))
            if same:
                pairs = zip(value, meta[key], strict=True) if isinstance(value, list) else [(value, meta[key])]
                self.assertTrue(all(abs(a - b) <= 1e-6 * abs(a) for a, b in pairs), key)
            else:
                self.assertEqual(meta[key], value, key)
        got = {k: [t, dims, hashlib.sha256(data).hexdigest()] for k, (t, dims, data) in tensors.items()}
        self.assertEqual(got, want["tensors"])

    def test_families(self):
        for name in cases.CASES:
            with self.subTest(name):
                self.made(name)
                self.same(name)

    def test_several_files(self):
        self.made("llama3", files=3)
        self.same("llama3")

    def test_default_is_f16(self):
        self.made("llama", "--type", "f16")
        first = self.read("llama.gguf")
        r = self.mgc("gguf", "llama", "-o", "again.gguf")
        self.assertEqual(r.returncode, 0, r.err)
        self.assertEqual(first, self.read("again.gguf"))

    def refused(self, name, code, words, **config):
        shutil.rmtree(self.path(name), ignore_errors=True)
        cases.make(self.path(name), name)
        path = self.path(f"{name}/config.json")
        with open(path, encoding="utf-8") as f:
            had = json.load(f)
        with open(path, "w", encoding="utf-8") as f:
            json.dump({**had, **config}, f)
        r = self.mgc("gguf", name, "-o", "no.gguf")
        self.assertEqual(r.returncode, 1, r.err)
        self.assertIn(f"MG{code:04}", r.err)
        self.assertIn(words, r.err)
        self.assertEqual([f for f in os.listdir(self.dir) if "no.gguf" in f], [])

    def test_configs_are_refused(self):
        self.refused("llama", 610, "the model_type is \"gpt2\"".replace('"', ""), model_type="gpt2")
        self.refused("llama", 610, '"hidden_act" is "gelu"', hidden_act="gelu")
        self.refused("llama", 610, "'longrope' are not written", rope_scaling={"rope_type": "longrope"})
        self.refused("llama", 610, '"beta_fast" of the rotary', rope_scaling={"type": "yarn", "factor": 2.0, "beta_fast": 30})
        self.refused("llama", 610, "hidden_size", hidden_size=None)
        self.refused("llama", 610, "partial_rotary_factor", partial_rotary_factor=0.5)
        self.refused("llama", 611, "rows", num_attention_heads=8)
        self.refused("llama", 611, "model.layers.2.self_attn.q_proj.weight is missing", num_hidden_layers=3)
        self.refused("llama", 611, "model.layers.1", num_hidden_layers=1)
        self.refused("qwen2", 610, "use_sliding_window", use_sliding_window=True)
        self.refused("qwen3", 611, "model.layers.0.self_attn.q_norm.weight", model_type="llama", rope_scaling=None)
        self.refused("gemma2", 610, "query_pre_attn_scalar", query_pre_attn_scalar=64)
        self.refused("gemma2", 610, "attn_logit_softcapping", attn_logit_softcapping=None)
        self.refused("mixtral", 611, "model.layers.0.block_sparse_moe.experts.4.w1.weight is missing", num_local_experts=5)
        self.refused("mixtral", 611, "model.layers.0.block_sparse_moe.experts.3.w1.weight is a tensor", num_local_experts=3)
        self.refused("mixtral", 610, "there are fewer experts", num_experts_per_tok=5)
        self.refused("mixtral", 610, "num_local_experts", num_local_experts=None)
        self.refused("qwen2_moe", 610, "norm_topk_prob", norm_topk_prob=True)
        self.refused("qwen3_moe", 610, "norm_topk_prob", norm_topk_prob=False)
        self.refused("qwen3_moe", 610, "mlp_only_layers", mlp_only_layers=[0])
        self.refused("qwen3_moe", 610, "decoder_sparse_step", decoder_sparse_step=2)
        self.refused("gemma3", 610, "layer_types", layer_types=["full_attention"] * 7)
        self.refused("gemma3", 610, "rope_local_base_freq", rope_local_base_freq=5000.0)

    def test_tokenizers_are_refused(self):
        def change(f):
            return lambda file: f(file) or file

        for words, name, edit in (
                ("pre_tokenizer", "llama", change(lambda t: t["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex=r"\w+"))),
                ("normalizer", "llama", change(lambda t: t.update(normalizer={"type": "Lowercase"}))),
                ("ignore_merges", "llama", change(lambda t: t["model"].update(ignore_merges=False))),
                ("model.type is not BPE", "llama", change(lambda t: t["model"].update(type="WordPiece"))),
                ("config.json says 300 tokens", "llama", change(lambda t: t["model"]["vocab"].update(more=300))),
                ("byte fallback", "llama5", change(lambda t: t.update(normalizer={"type": "NFC"})))):
            with self.subTest(words):
                cases.make(self.path(name), name)
                path = self.path(f"{name}/tokenizer.json")
                with open(path, encoding="utf-8") as f:
                    file = json.load(f)
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(edit(file), f)
                r = self.mgc("gguf", name, "-o", "no.gguf")
                self.assertEqual(r.returncode, 1, r.err)
                self.assertIn("MG0613", r.err)
                self.assertIn(words, r.err)
        os.remove(self.path("llama/tokenizer.json"))
        r = self.mgc("gguf", "llama", "-o", "no.gguf")
        self.assertIn("has no tokenizer.json, and 300 tokens", r.err)

    def test_damage(self):
        cases.make(self.path("llama"), "llama")
        whole = self.read("llama/model.safetensors")
        for text, words in ((whole[:-1], "does not fit"), (whole[:100], "its header does not fit"), (b"", "header"),
                            (whole[:8] + b"[" + whole[9:], "MG0611")):
            self.write("llama/model.safetensors", text)
            r = self.mgc("gguf", "llama", "-o", "no.gguf")
            self.assertEqual(r.returncode, 1, r.err)
            self.assertIn(words, r.err)
        os.remove(self.path("llama/model.safetensors"))
        self.assertIn("holds no model.safetensors", self.mgc("gguf", "llama", "-o", "no.gguf").err)
        os.remove(self.path("llama/config.json"))
        self.assertIn("has no config.json", self.mgc("gguf", "llama", "-o", "no.gguf").err)
        self.assertFalse(os.path.exists(self.path("no.gguf")))

    def test_numbers_that_do_not_fit(self):
        tensors = cases.make(self.path("llama"), "llama")
        kind, shape, data = tensors["model.layers.0.mlp.up_proj.weight"]
        tensors["model.layers.0.mlp.up_proj.weight"] = (kind, shape, b"\x00\x00\x80\x47" + data[4:])  # 65536
        cases.write_tensors(self.path("llama/model.safetensors"), tensors)
        r = self.mgc("gguf", "llama", "-o", "no.gguf")
        self.assertEqual(r.returncode, 1)
        self.assertIn("model.layers.0.mlp.up_proj.weight has a number that f16 cannot hold", r.err)
        self.assertFalse(os.path.exists(self.path("no.gguf")))
        self.made("llama", "--type", "bf16")

    def test_usage(self):
        for argv in (("gguf",), ("gguf", "x"), ("gguf", "x", "-o", "y", "--type", "q4_0"), ("gguf", "x", "-o", "y", "--plan"),
                     ("tok", "--type", "f16", "--tokenizer", "x", "-o", "y", "z")):
            self.assertEqual(self.mgc(*argv).returncode, 2, argv)


if __name__ == "__main__":
    mgctest.main()
