"""Weights of others: --init, config.json, mgc import-hf. What transformers makes of them is the
business of tests/parity/hf.py; here files are made by hand."""

import array
import json
import os
import random
import struct

import mgctest
from mgctest import TINY, few, model

SHAPES = {"embed.weight": [256, 16], "head.weight": [16, 256]}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
         "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
         "tie_word_embeddings": False, "eos_token_id": [1, 2], "torch_dtype": "bfloat16"}


def numbers(shape, seed):
    r = random.Random(seed)
    n = 1
    for s in shape:
        n *= s
    return [struct.unpack("f", struct.pack("f", r.gauss(0, 0.1)))[0] for _ in range(n)]


def packed(values, dtype):
    if dtype == "F32":
        return array.array("f", values).tobytes()
    if dtype == "F64":
        return array.array("d", values).tobytes()
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    return b"".join(struct.pack("<f", v)[2:] for v in values)  # bf16, cut off


def safetensors(tensors):
    """tensors: name -> (dtype, shape, bytes)"""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values())


def read_safetensors(data):
    (n,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {k: (t["dtype"], t["shape"], data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for k, t in header.items()}


def llama_tensors(config):
    h, f, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    kv = config["num_key_value_heads"] * h // config["num_attention_heads"]
    shapes = {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h], "lm_head.weight": [v, h]}
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        shapes.update({at + "self_attn.q_proj.weight": [h, h], at + "self_attn.k_proj.weight": [kv, h],
                       at + "self_attn.v_proj.weight": [kv, h], at + "self_attn.o_proj.weight": [h, h],
                       at + "mlp.gate_proj.weight": [f, h], at + "mlp.up_proj.weight": [f, h],
                       at + "mlp.down_proj.weight": [h, f], at + "input_layernorm.weight": [h],
                       at + "post_attention_layernorm.weight": [h]})
    return shapes


class Weights(mgctest.Case):
    def setUp(self):
        super().setUp()
        self.write("tiny.mg", TINY)
        self.compiles("tiny.mg", "-o", "train")
        self.data = self.text(5000)

    def make(self, dtype="F32", shapes=None, seed=0):
        return {n: (dtype, s, packed(numbers(s, seed + i), dtype)) for i, (n, s) in
                enumerate((shapes or SHAPES).items())}

    def exported(self, *init, out):
        self.trains("./train", "--init", *init, "--data", self.data, "--steps", 0, "--out", out)
        return read_safetensors(self.read(f"{out}/ckpt/step-00000000/model.safetensors"))

    def refused(self, source, *words):
        r = self.trains("./train", "--init", source, "--data", self.data, "--steps", 0, "--out", "none", code=65)
        for word in words:
            self.assertIn(word, r.err)
        self.assertFalse(os.path.exists(self.path("none")))

    def folder_of(self, name, **files):
        os.mkdir(self.path(name))
        for file, text in files.items():
            self.write(f"{name}/{file.replace('__', '-').replace('_', '.')}", text)
        return self.path(name)

    def test_a_file(self):
        t = self.make()
        self.write("w.safetensors", safetensors(t))
        self.assertEqual(self.exported("w.safetensors", out="a"), t)

    def test_types(self):
        for dtype in ("F64", "F16", "BF16"):
            t = self.make(dtype)
            self.write("w.safetensors", safetensors(t))
            got = self.exported("w.safetensors", out=dtype)
            for name, shape in SHAPES.items():
                data = t[name][2]
                if dtype == "F64":
                    want = array.array("d", data)
                elif dtype == "F16":
                    want = struct.unpack(f"<{len(data) // 2}e", data)
                else:
                    want = [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
                self.assertEqual(got[name], ("F32", shape, array.array("f", want).tobytes()))

    def test_special_halves(self):
        """Subnormal, zero, the largest: every exponent of a half, both signs."""
        t = self.make("F16")
        halves = [s | e << 10 | f for s in (0, 0x8000) for e in range(31) for f in (0, 1, 511, 1023)]
        data = struct.pack(f"<{len(halves)}H", *halves)
        t["head.weight"] = ("F16", [16, 256], (data * 40)[:16 * 256 * 2])
        self.write("w.safetensors", safetensors(t))
        got = self.exported("w.safetensors", out="h")["head.weight"][2]
        want = struct.unpack(f"<{16 * 256}e", t["head.weight"][2])
        self.assertEqual(got, array.array("f", want).tobytes())

    def test_shards(self):
        t = self.make()
        index = {"metadata": {"total_size": 1}, "weight_map": {"embed.weight": "a.safetensors",
                                                               "head.weight": "b.safetensors"}}
        self.folder_of("shards", **{"a_safetensors": safetensors({"embed.weight": t["embed.weight"]}),
                                    "b_safetensors": safetensors({"head.weight": t["head.weight"]}),
                                    "model_safetensors_index_json": json.dumps(index)})
        self.assertEqual(self.exported("shards", out="s"), t)

    def test_all_that_is_wrong(self):
        t = self.make()
        t["embed.weight"] = ("F32", [128, 32], t["embed.weight"][2])
        t["extra"] = ("F32", [2], b"\0" * 8)
        del t["head.weight"]
        t["more"] = ("I64", [1], b"\0" * 8)
        self.write("w.safetensors", safetensors(t))
        self.refused("w.safetensors", "embed.weight is [128, 32] there; this program has [256, 16]",
                     "head.weight is missing: [16, 256]", "extra [2] is not in this program",
                     "more [1] is not in this program", "tiny.mg:4")

    def test_type_that_is_not_read(self):
        t = self.make()
        t["head.weight"] = ("I32", [16, 256], t["head.weight"][2])
        self.write("w.safetensors", safetensors(t))
        self.refused("w.safetensors", "head.weight is of type I32")

    def test_copies_and_buffers(self):
        """A second name of the same bytes, and what older files carry along, are no surplus."""
        t = self.make()
        t["again.weight"] = t["head.weight"]
        t["h.0.attn.bias"] = ("F32", [1, 1, 2, 2], b"\0" * 16)
        t["layers.0.rotary_emb.inv_freq"] = ("F32", [2], b"\0" * 8)
        self.write("w.safetensors", safetensors(t))
        got = self.exported("w.safetensors", out="c")
        self.assertEqual(got, {n: t[n] for n in SHAPES})
        t["again.weight"] = ("F32", [16, 256], packed(numbers([16, 256], 99), "F32"))
        self.write("w.safetensors", safetensors(t))
        self.refused("w.safetensors", "again.weight [16, 256] is not in this program")

    def test_hostile(self):
        t = self.make()
        whole = safetensors(t)
        self.refused("nowhere", "No such file")
        self.refused(self.folder_of("empty"), "holds neither model.safetensors nor")
        self.write("short.safetensors", whole[:-1])
        self.refused("short.safetensors", "short.safetensors")
        self.write("huge.safetensors", struct.pack("<Q", 2 ** 63) + b"{}")
        self.refused("huge.safetensors", "huge.safetensors")
        self.write("deep.safetensors", struct.pack("<Q", 1_000_000) + b'{"a":' + b"[" * 999_995)
        self.refused("deep.safetensors", "deep.safetensors")
        for k, name in enumerate(("../w.safetensors", "/etc/passwd", "", ".hidden", "a/b")):
            index = {"weight_map": {"embed.weight": name}}
            path = self.folder_of(f"index{k}", model_safetensors_index_json=json.dumps(index))
            self.refused(path, "is not the name of a file beside it")
        for k, text in enumerate(("{", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {}}', '{"weight_map": {}, "weight_map": {}}',
                                  '{"weight_map": {"a": 1}}', '{"a": ' + "[" * 100000)):
            path = self.folder_of(f"json{k}", model_safetensors_index_json=text)
            self.refused(path, "model.safetensors.index.json")
        index = {"weight_map": {"other": "a.safetensors"}}
        path = self.folder_of("lies", **{"a_safetensors": whole, "model_safetensors_index_json": json.dumps(index)})
        self.refused(path, "other is not in")

    def test_resumed_run_keeps_its_own(self):
        self.write("w.safetensors", safetensors(self.make()))
        argv = ("./train", "--init", "w.safetensors", "--data", self.data, "--out", "r", "--resume")
        r = self.trains(*argv, "--steps", 3)
        self.assertIn("weights of w.safetensors: 2 tensors", r.out)
        self.write("w.safetensors", b"")  # is not looked at any more
        r = self.trains(*argv, "--steps", 5)
        self.assertIn("resumed from", r.out)
        self.assertNotIn("weights of", r.out)

    def test_sample_and_logits(self):
        self.write("w.safetensors", safetensors(self.make()))
        self.trains("./train", "--init", "w.safetensors", "--sample", 3, "--logits", "l.safetensors", "--prompt", "a")
        dtype, shape, _ = read_safetensors(self.read("l.safetensors"))["logits"]
        self.assertEqual((dtype, shape), ("F32", [3, 256]))
        self.trains("./train", "--logits", "x", "--data", self.data, code=2)


class Config(mgctest.Case):
    def test_config_json(self):
        self.write("tiny.mg", TINY + 'config {\n    hidden_size = hidden * 2\n    name = "x"\n    a = {b = [1, 0.5], c = null}\n}\n')
        self.compiles("tiny.mg", "-D", "hidden=24", "-o", "train")
        self.trains("./train", "--data", self.text(5000), "--steps", 1, "--out", "r")
        got = json.loads(self.read("r/ckpt/step-00000001/config.json"))
        self.assertEqual(got, {"hidden_size": 48, "name": "x", "a": {"b": [1, 0.5], "c": None}})
        self.write("r/ckpt/step-00000001/config.json", b"{}")
        r = self.trains("./train", "--data", self.text(5000), "--steps", 2, "--out", "r", "--resume", code=65)
        self.assertIn("config.json", r.err)

    def imports(self, config, tensors=None, code=0):
        if not os.path.isdir(self.path("hf")):
            os.mkdir(self.path("hf"))
        self.write("hf/config.json", config if isinstance(config, str) else json.dumps(config))
        if tensors is not None:
            self.write("hf/model.safetensors",
                       safetensors({n: ("F32", s, packed(numbers(s, 1), "F32")) for n, s in tensors.items()}))
        r = self.mgc("import-hf", "hf", "-o", "m.mg")
        self.assertEqual(r.returncode, code, r.err)
        return r

    def test_there_and_back(self):
        tensors = llama_tensors(LLAMA)
        self.imports(LLAMA, tensors)
        self.assertEqual(self.mgc("fmt", "--check", "m.mg").returncode, 0)
        self.compiles("m.mg", "-o", "train")
        self.trains("./train", "--init", "hf", "--data", self.text(5000), "--steps", 0, "--out", "r")
        self.assertEqual(read_safetensors(self.read("r/ckpt/step-00000000/model.safetensors")),
                         read_safetensors(self.read("hf/model.safetensors")))
        got = json.loads(self.read("r/ckpt/step-00000000/config.json"))
        self.assertEqual(got, {**LLAMA, "torch_dtype": "float32"})

    def test_disagreement(self):
        tensors = llama_tensors(LLAMA)
        del tensors["model.norm.weight"]
        tensors["model.layers.1.mlp.up_proj.weight"] = [16, 24]
        tensors["score.weight"] = [3, 16]
        r = self.imports(LLAMA, tensors, code=1)
        for word in ("model.norm.weight is missing: [16]", "up_proj.weight is [16,24]; config.json makes it [24, 16]",
                     "score.weight is not in such a model"):
            self.assertIn(word, r.err)
        self.assertFalse(os.path.exists(self.path("m.mg")))

    def test_biases_are_not_decayed(self):
        """`where rank >= 2` counts external dims: a bias of queries, stored as three, is not decayed."""
        self.imports({**LLAMA, "model_type": "qwen2", "tie_word_embeddings": True})
        text = self.read("m.mg").decode()
        results = []
        for decay in ("0.5", "0"):
            self.write("m.mg", text.replace("decay = 0.1", f"decay = {decay}"))
            self.compiles("m.mg", "-o", "train")
            self.trains("./train", "--data", self.text(5000), "--steps", 1, "--out", "r" + decay)
            results.append(read_safetensors(self.read(f"r{decay}/ckpt/step-00000001/model.safetensors")))
        self.assertEqual(len(results[0]), 2 * 12 + 2)
        for name, tensor in results[0].items():
            (self.assertEqual if len(tensor[1]) == 1 else self.assertNotEqual)(tensor, results[1][name], name)

    def test_what_is_not_built(self):
        for key, value in (("model_type", "no_family"), ("model_type", "../llama"), ("hidden_act", "prelu"), ("mlp_bias", 1),
                           ("attention_dropout", 1.5), ("rope_scaling", {"rope_type": "ntk", "factor": 2}),
                           ("rope_scaling", {"rope_type": "linear"}), ("quantization_config", {"bits": 4}), ("clip_qkv", 8.0),
                           ("rope_scaling", {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "other": 1}),
                           ("rope_scaling", {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0, 2.0]}),
                           ("num_attention_heads", 3), ("num_key_value_heads", 3), ("hidden_size", 2 ** 40),
                           ("hidden_size", -1), ("rms_norm_eps", "x"), ("vocab_size", 0),
                           ("layer_types", ["sliding_attention"]),
                           ("rope_scaling", {"rope_type": "llama3", "factor": 8})):
            r = self.imports({**LLAMA, key: value}, code=1)
            self.assertIn("MG0570", r.err)
            self.assertIn(key if key != "rope_scaling" else "factor" if "factor" in r.err else "rope_scaling.", r.err)
        for key, value in (("num_local_experts", 0), ("num_experts_per_tok", 9), ("router_jitter_noise", 0.1),
                           ("router_aux_loss_coef", -1)):
            self.assertIn("MG0570", self.imports({**LLAMA, "model_type": "mixtral", key: value}, code=1).err)
        for text in ("", "{", "[]", "{}", "[" * 100000, '{"a": 1, "a": 2}'):
            self.assertIn("MG0570", self.imports(text, code=1).err)
        self.assertFalse(os.path.exists(self.path("m.mg")))

    def test_phi3(self):
        """One tensor of q, k and v, one of gate and up; heads that turn in part, a window."""
        phi3 = {**LLAMA, "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 32, "sliding_window": 5,
                "partial_rotary_factor": 0.75, "rope_scaling": None}
        tensors = {n: s for n, s in llama_tensors(phi3).items() if not n.endswith(
            ("q_proj.weight", "k_proj.weight", "v_proj.weight", "gate_proj.weight", "up_proj.weight"))}
        for i in range(2):
            tensors.update({f"model.layers.{i}.self_attn.qkv_proj.weight": [64, 32], f"model.layers.{i}.mlp.gate_up_proj.weight": [48, 32]})
        self.imports(phi3, tensors)
        self.assertEqual(self.mgc("fmt", "--check", "m.mg").returncode, 0)
        self.compiles("m.mg", "-D", "tp=2", "-D", "batch=4", "-o", "train")
        self.trains("./train", "--init", "hf", "--data", self.text(5000), "--steps", 0, "--out", "r")
        self.assertEqual(read_safetensors(self.read("r/ckpt/step-00000000/model.safetensors")),
                         read_safetensors(self.read("hf/model.safetensors")))
        got = json.loads(self.read("r/ckpt/step-00000000/config.json"))
        self.assertEqual(got, {**phi3, "torch_dtype": "float32"})
        lacking = {n: s for n, s in tensors.items() if n != "model.layers.1.self_attn.qkv_proj.weight"}
        r = self.imports(phi3, {**lacking, "model.layers.0.mlp.gate_up_proj.weight": [24, 32]}, code=1)
        for word in ("model.layers.1.self_attn.qkv_proj.weight is missing: [64, 32]",
                     "model.layers.0.mlp.gate_up_proj.weight is [24,32]; config.json makes it [48, 32]"):
            self.assertIn(word, r.err)
            self.assertEqual(r.err.count(word), 1)
        for key, value, word in (("rope_scaling", {"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}, "short_factor"),
                                 ("rope_scaling", {"type": "linear", "factor": 2.0}, "'longrope'"),
                                 ("sliding_window", 0, "sliding_window"), ("partial_rotary_factor", 0.2, "partial_rotary_factor"),
                                 ("partial_rotary_factor", 2, "partial_rotary_factor"), ("attention_bias", True, "attention_bias"),
                                 ("attention_dropout", 0.1, "attention_dropout")):
            r = self.imports({**phi3, key: value}, code=1)
            self.assertIn("MG0570", r.err)
            self.assertIn(word, r.err)

    def test_mixers(self):
        """Mamba 2 in all layers, or beside attention (Bamba); a limit of time steps that is Infinity, as Python writes it."""
        mixer = {"A_log": [4], "D": [4], "dt_bias": [4], "norm.weight": [32], "in_proj.weight": [84, 16], "out_proj.weight": [16, 32],
                 "conv1d.weight": [48, 1, 3], "conv1d.bias": [48]}
        mamba = {"model_type": "mamba2", "hidden_size": 16, "num_hidden_layers": 2, "num_heads": 4, "head_dim": 8, "state_size": 8,
                 "conv_kernel": 3, "n_groups": 1, "vocab_size": 256, "tie_word_embeddings": True}
        tensors = {f"backbone.layers.{i}.mixer.{n}": shape for i in range(2) for n, shape in mixer.items()}
        tensors |= {f"backbone.layers.{i}.norm.weight": [16] for i in range(2)}
        tensors |= {"backbone.embeddings.weight": [256, 16], "backbone.norm_f.weight": [16]}
        limited = json.dumps({**mamba, "time_step_limit": [0.0, float("inf")]})
        self.assertIn("[0.0, Infinity]", limited)
        bamba = {**LLAMA, "model_type": "bamba", "num_hidden_layers": 3, "attn_layer_indices": [1], "mamba_n_heads": 4,
                 "mamba_d_head": "auto", "mamba_d_state": 8, "mamba_d_conv": 3, "mamba_n_groups": 1, "rope_scaling": None}
        hybrid = {n.replace("post_attention_layernorm", "pre_ff_layernorm").replace("mlp", "feed_forward")
                  .replace("model.norm", "model.final_layernorm"): shape for n, shape in llama_tensors(bamba).items()}
        hybrid = {n: shape for n, shape in hybrid.items() if "self_attn" not in n or "layers.1." in n}
        hybrid |= {f"model.layers.{i}.mamba.{n}": shape for i in (0, 2) for n, shape in mixer.items()}
        for config, files in ((limited, tensors), (bamba, hybrid)):
            self.imports(config, files)
            self.assertEqual(self.mgc("fmt", "--check", "m.mg").returncode, 0)
            self.compiles("m.mg", "-D", "seq=16", "-D", "dp=2", "-D", "batch=4", "-o", "train")
            self.trains("./train", "--init", "hf", "--data", self.text(5000), "--steps", 0, "--out", "r")
            self.assertEqual(read_safetensors(self.read("r/ckpt/step-00000000/model.safetensors")),
                             read_safetensors(self.read("hf/model.safetensors")))
        for config in ([{**mamba, key: value} for key, value in (
                ("n_groups", 8), ("rms_norm", False), ("expand", 3), ("hidden_act", "prelu"),
                ("time_step_limit", [0.0]), ("num_heads", 0))] + [{**bamba, key: value} for key, value in (
                    ("mamba_n_groups", 3), ("mamba_expand", "x"), ("mamba_d_head", 7),
                    ("attn_layer_indices", [-1]), ("attn_layer_indices", 3), ("z_loss_coefficient", 0.1),
                    ("rope_scaling", {"rope_type": "llama3", "factor": 8}))]):
            with self.subTest(config=config):
                self.assertIn("MG0570", self.imports(config, code=1).err)

    def test_mixtral(self):
        """Experts of a mixture: none is dropped, and the loss counts the router's scores where it did."""
        mixtral = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 3,
                   "router_jitter_noise": 0.0, "router_aux_loss_coef": 0.01}
        for asked in (False, True):
            self.imports({**mixtral, "output_router_logits": asked})
            text = self.read("m.mg").decode()
            self.assertIn("dim experts = 4, choice = experts, best = 3, rows = best * seq\n", text)
            self.assertIn("num_local_experts = experts\n", text)
            self.assertIn("router_jitter_noise = 0.0\n", text)
            self.assertEqual("+ balancing * uneven" in text, asked)
            self.compiles("m.mg", "--check", "-D", "ep=2", "-D", "batch=4")

    def test_templates(self):
        """A family is added by a file; what is wrong with one is told with its place."""
        home = self.path("home")
        os.makedirs(home + "/hf")
        for f in os.listdir(os.path.join(mgctest.BUILD, "lib/mgc")):
            if f != "hf":
                os.symlink(os.path.join(mgctest.BUILD, "lib/mgc", f), os.path.join(home, f))
        small = """%key wide : whole = 3 only 3, 5 as wide
%key words : list = [l % 3 == 1 ? "a" : "b" for l < 7]
%let half = wide // 2, where_a = where(words, "a")
dim wide = $wide, vocab = 8, seq = 4, batch = 2
# $(where_a), $half, $(steps([1, 1, 2.5], "i")), $(-7 // 2), $(-7 % 3), $(not (1 > 2 or false) ? "yes" : nothing)
model $model_type(tokens[batch, seq] : token(vocab)) {
%if wide == 3 and not has("words")
    table : param[vocab, wide] ~ normal(0.1)
%elif false
    this is never read
%else
    table : param[vocab, wide] ~ normal(0.2)
%end
    loss = cross_entropy(table[tokens] @ table[vocab -> _c] over wide, next(tokens))
}
train {
    optimizer adamw()
    lr 1e-3
}
""".replace("table[vocab -> _c]", "out").replace("    loss", "    out : param[wide, vocab] ~ normal(0.1)\n    loss")
        self.write("home/hf/small.mg", small)
        env = {"MGC_HOME": home}

        def imports(config, code):
            os.makedirs(self.path("hf"), exist_ok=True)
            self.write("hf/config.json", json.dumps(config))
            r = self.run_program(mgctest.MGC, "import-hf", "hf", "-o", "m.mg", env=env)
            self.assertEqual(r.returncode, code, r.stderr)
            return r.stderr.decode()

        imports({"model_type": "small"}, 0)
        text = self.read("m.mg").decode()
        self.assertIn("# l % 3 == 1, 1, select(i < 2, 1, 2.5), -4, 2, yes\n", text)
        self.assertIn("normal(0.1)", text)
        imports({"model_type": "small", "wide": 5, "words": ["b", "a"] * 3 + ["b"]}, 0)
        text = self.read("m.mg").decode()
        for part in ("# l % 2 == 1, 2,", "normal(0.2)", "    wide = wide\n", '    words = ["b", "a", "b"'):
            self.assertIn(part, text)
        self.assertIn('"wide" is 4; what is built is 3, 5', imports({"model_type": "small", "wide": 4}, 1))
        self.assertIn('"depth" is 1: what it changes is not known of \'small\'', imports({"model_type": "small", "depth": 1}, 1))
        self.assertIn("there is: small", imports({"model_type": "tiny"}, 1))
        for line, says in (("%key x", "':' is expected here"), ("%key x : size", "there is no type 'size'"), ("%let y = (1", "')' is expected here"),
                           ("%let y = z", "there is no key and no value 'z'"), ("%let y = 1 / 0", "is no number"), ("%let y = f(1)", "no function 'f'"),
                           ("%let y = len(1, 2)", "'len' does not take these values"), ("%let y = 1 2", "the line ends here"),
                           ("%let y = 1 < true", "are not compared"), ("%end", "there is no %if before this"), ("%if 1", "has no %end"),
                           ("%what", "no such instruction"), ("# $words", "is not text of a model"), ("%let y = \"a", "has no end"),
                           ("%include \"small.mg\"", "more than 8 deep"), ("%let y = " + "(" * 70, "too deep")):
            with self.subTest(line=line):
                self.write("home/hf/small.mg", "%let words = [1]\n" + line + "\n" if "$" in line or "include" in line else small + line + "\n")
                err = imports({"model_type": "small"}, 1)
                self.assertIn("MG0575", err)
                self.assertIn(says, err)
                self.assertRegex(err, r"small.mg:\d+:\d+: error")
                self.assertIn("^", err)

    def test_shipped(self):
        """The shipped models are what import-hf makes of the published configs: blocks, model, config."""
        here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hf")
        for file in sorted(os.listdir(here)):
            with open(os.path.join(here, file), encoding="utf-8") as f:
                self.imports(json.load(f))
            with open(model(file.replace(".json", ".mg")), encoding="utf-8") as f:
                shipped = f.read()
            for begin, end in (("const ", "train {"), ("config {", None)):
                parts = [t[t.index("\n" + begin):t.index("\n" + end) if end else None]
                         for t in (shipped, self.read("m.mg").decode())]
                self.assertEqual(*parts, file)
            self.compiles(model(file.replace(".json", ".mg")), "--check", "--device=cpu2t", *few(file))

    def test_config_alone(self):
        self.assertIn("were not checked", self.imports(LLAMA).err)


if __name__ == "__main__":
    mgctest.main()
