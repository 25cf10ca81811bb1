"""What the package gguf makes of the directories of cases.py, for the tests, which need no package:

    python3 tests/parity/gguf/golden.py              writes golden.json
    python3 tests/parity/gguf/golden.py --read MGC   reads the files of this mgc with GGUFReader, and dequantizes them

Tensors go by the package's table of names and its quantization, rows of queries and keys as llama.cpp's converter
orders them. Metadata are written here by hand, from what that converter writes for a config."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

import cases
import gguf
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ARCH = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma": "gemma", "gemma2": "gemma2", "gemma3_text": "gemma3",
        "mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe"}
TYPES = {"f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16, "bf16": gguf.GGMLQuantizationType.BF16,
         "q8_0": gguf.GGMLQuantizationType.Q8_0}
FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16, "bf16": gguf.LlamaFileType.MOSTLY_BF16,
              "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}


def numbers(dtype, shape, data):
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(data, {"F32": "<f4", "F64": "<f8", "F16": "<f2"}[dtype]).astype(np.float32).reshape(shape)


def permute(w, heads):
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def tensors_of(name, stored):
    config, _, _, kind = cases.CASES[name]
    arch = ARCH[config["model_type"]]
    number = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    table = gguf.get_tensor_name_map(number, config["num_hidden_layers"])
    out, experts = {}, {}
    for k, t in stored.items():
        w = numbers(*t)
        of = re.fullmatch(r"(.*\.experts)\.(\d+)\.(\w+)\.weight", k)
        if of:  # of all experts one tensor, as the converter stacks them
            experts.setdefault(f"{of[1]}.{of[3]}.weight", []).append((int(of[2]), w))
            continue
        out.update(tensor_of(table, config, arch, kind, k, w))
    for k, parts in experts.items():
        out.update(tensor_of(table, config, arch, kind, k, np.stack([w for _, w in sorted(parts, key=lambda p: p[0])])))
    out.update(rope_factors(config))
    return out


def tensor_of(table, config, arch, kind, k, w):
    w = w.squeeze()
    if arch == "llama" and re.search(r"q_proj|k_proj", k):
        w = permute(w, config["num_attention_heads"] if "q_proj" in k else config["num_key_value_heads"])
    if arch.startswith("gemma") and k.endswith("norm.weight"):
        w = w + np.float32(1)
    written = table.get_name(k, try_suffixes=(".weight", ".bias"))
    type_ = TYPES["f32"] if w.ndim < 2 or "ffn_gate_inp" in written else TYPES["f16"] if kind == "q8_0" and w.shape[-1] % 32 else TYPES[kind]
    return {written: (type_, list(w.shape), gguf.quants.quantize(w, type_).tobytes())}


def rope_factors(config):
    scaling = config.get("rope_scaling") or {}
    if scaling.get("rope_type") != "llama3":
        return {}
    d = config["head_dim"]
    freqs = 1.0 / config["rope_theta"] ** (np.arange(0, d, 2, dtype=np.float64) / d)
    low, high, old = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["original_max_position_embeddings"]
    factors = []
    for wave in 2 * np.pi / freqs:
        smooth = (old / wave - low) / (high - low)
        factors.append(1 if wave < old / high else scaling["factor"] if wave > old / low else 1 / ((1 - smooth) / scaling["factor"] + smooth))
    return {"rope_freqs.weight": (TYPES["f32"], [d // 2], np.array(factors, np.float32).tobytes())}


def meta_of(name):
    config, _, kind, type_ = cases.CASES[name]
    arch = ARCH[config["model_type"]]
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    m = {"general.architecture": arch, "general.type": "model", "general.quantization_version": gguf.GGML_QUANT_VERSION,
         "general.file_type": int(FILE_TYPES[type_]), ".vocab_size": config["vocab_size"],
         ".context_length": 48 if name == "mistral" else config["max_position_embeddings"], ".embedding_length": config["hidden_size"],
         ".block_count": config["num_hidden_layers"], ".feed_forward_length": config["intermediate_size"],
         ".attention.head_count": config["num_attention_heads"], ".attention.head_count_kv": config["num_key_value_heads"],
         ".attention.key_length": head, ".attention.value_length": head, ".rope.dimension_count": head,
         ".attention.layer_norm_rms_epsilon": config["rms_norm_eps"], ".rope.freq_base": rope.get("rope_theta") or config["rope_theta"]}
    scaling = rope.get("rope_type") or rope.get("type")
    if scaling in ("linear", "yarn"):
        m.update({".rope.scaling.type": scaling, ".rope.scaling.factor": rope["factor"]})
    if scaling == "yarn":
        m[".rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
    if arch.endswith("moe") or name == "mixtral":
        m.update({".expert_count": config.get("num_experts") or config["num_local_experts"], ".expert_used_count": config["num_experts_per_tok"]})
    if arch.endswith("moe"):
        m[".expert_feed_forward_length"] = config["moe_intermediate_size"]
    if arch == "qwen2moe":
        m[".expert_shared_feed_forward_length"] = config["shared_expert_intermediate_size"]
    if arch == "gemma2":
        m.update({".attn_logit_softcapping": 50.0, ".final_logit_softcapping": 30.0})
    if arch in ("gemma2", "gemma3"):
        m[".attention.sliding_window"] = 16
    m = {(arch + k if k[0] == "." else k): v for k, v in m.items()}
    if not kind:
        tokens, types = list(cases.chars().values()), [gguf.TokenType.NORMAL] * 256
        return {**m, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
                "tokenizer.ggml.token_type": [int(t) for t in types], "tokenizer.ggml.merges": [], "tokenizer.ggml.add_bos_token": False,
                "tokenizer.ggml.add_eos_token": False}
    file, settings = cases.tokenizer(kind)
    vocab, merges = file["model"]["vocab"], file["model"]["merges"]
    tokens = [f"[PAD{i}]" for i in range(config["vocab_size"])]
    types = [gguf.TokenType.UNUSED] * len(tokens)
    for text, i in vocab.items():
        tokens[i] = text
        byte = file["model"].get("byte_fallback") and re.fullmatch("<0x[0-9A-F]{2}>", text)
        types[i] = gguf.TokenType.BYTE if byte else gguf.TokenType.UNKNOWN if text == "<unk>" else gguf.TokenType.NORMAL
    for t in file["added_tokens"]:
        tokens[t["id"]], types[t["id"]] = t["content"], gguf.TokenType.CONTROL if t["special"] else gguf.TokenType.USER_DEFINED
    pairs = [m if isinstance(m, str) else " ".join(m) for m in merges]
    if file["model"].get("byte_fallback"):
        first = {}
        for i, pair in enumerate(pairs):
            first.setdefault(pair.replace(" ", ""), -(i + 1.0))
        m.update({"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default", "tokenizer.ggml.add_space_prefix": kind != "gemma",
                  "tokenizer.ggml.scores": [first.get(t, -1e9) if types[i] == gguf.TokenType.NORMAL else 0.0 for i, t in enumerate(tokens)]})
    else:
        m.update({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": kind, "tokenizer.ggml.merges": pairs})
    m.update({"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [int(t) for t in types],
              "tokenizer.ggml.bos_token_id": 297, "tokenizer.ggml.eos_token_id": 298,
              "tokenizer.ggml.add_bos_token": kind != "qwen2", "tokenizer.ggml.add_eos_token": False})
    if "chat_template" in settings:
        m["tokenizer.chat_template"] = settings["chat_template"]
    return m


def write():
    golden = {}
    with tempfile.TemporaryDirectory() as d:
        for name in cases.CASES:
            stored = cases.make(os.path.join(d, name), name)
            tensors = {k: [int(t), shape, hashlib.sha256(data).hexdigest()] for k, (t, shape, data) in tensors_of(name, stored).items()}
            golden[name] = {"meta": meta_of(name), "tensors": tensors}
    with open(os.path.join(HERE, "golden.json"), "w", encoding="utf-8") as f:
        json.dump(golden, f, indent=0, sort_keys=True)
        f.write("\n")


def read(mgc):
    for name, (_, _, _, type_) in cases.CASES.items():
        with tempfile.TemporaryDirectory() as d:
            stored = cases.make(os.path.join(d, "in"), name)
            path = os.path.join(d, "out.gguf")
            subprocess.run([mgc, "gguf", os.path.join(d, "in"), "-o", path, "--type", type_], check=True)
            reader, want = gguf.GGUFReader(path), tensors_of(name, stored)
            assert {t.name for t in reader.tensors} == set(want), name
            for t in reader.tensors:
                kind, shape, data = want[t.name]
                assert t.tensor_type == kind and list(t.shape)[::-1] == shape and t.data.tobytes() == data, (name, t.name)
                got = gguf.quants.dequantize(t.data, kind) if kind != TYPES["f32"] else t.data
                assert np.isfinite(got).all() and got.size == np.prod(shape), (name, t.name)
            fields = {k: v.contents() for k, v in reader.fields.items() if not k.startswith("GGUF.")}
            for key, value in meta_of(name).items():
                close = np.allclose(fields[key], value) if isinstance(value, float) else fields[key] == value
                assert close, (name, key, fields[key], value)
            assert set(fields) == set(meta_of(name)), set(fields) ^ set(meta_of(name))
        print(f"{name}: {len(want)} tensors, {len(fields)} fields")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read(sys.argv[2])
    else:
        write()
