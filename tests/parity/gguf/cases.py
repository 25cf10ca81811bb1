"""Directories as Hugging Face's of the families that mgc gguf writes: made by the standard library, the same each time."""

import array
import json
import os
import random
import struct

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 300, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 20000.0, "hidden_act": "silu",
         "bos_token_id": 297, "eos_token_id": [298, 299], "tie_word_embeddings": False}
GEMMA = {**SIZES, "head_dim": 32, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
BEFORE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
BEHIND = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# name: config, type of the stored tensors, tokenizer, --type
CASES = {
    "llama": ({**SIZES, "model_type": "llama"}, "F32", "llama-bpe", "f16"),
    "llama3": ({**SIZES, "model_type": "llama", "rope_scaling": LLAMA3, "head_dim": 32, "attention_bias": True, "mlp_bias": True}, "BF16", "gpt-2", "q8_0"),
    "llama5": ({**SIZES, "model_type": "llama", "rope_theta": None, "tie_word_embeddings": True,
                "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}}, "F64", "fallback", "f32"),
    "mistral": ({**SIZES, "model_type": "mistral", "sliding_window": 48, "hidden_size": 40, "head_dim": 16}, "F16", "metaspace", "q8_0"),
    "qwen2": ({**SIZES, "model_type": "qwen2", "use_sliding_window": False, "sliding_window": 32}, "BF16", "qwen2", "bf16"),
    "qwen3": ({**SIZES, "model_type": "qwen3", "head_dim": 32, "rope_scaling": {"type": "yarn", "factor": 4.0,
               "original_max_position_embeddings": 16}}, "BF16", "smollm", "q8_0"),
    "gemma": ({**GEMMA, "model_type": "gemma"}, "BF16", "gemma", "f16"),
    "gemma2": ({**GEMMA, "model_type": "gemma2", "query_pre_attn_scalar": 32, "sliding_window": 16, "attn_logit_softcapping": 50.0,
                "final_logit_softcapping": 30.0}, "F32", "gemma", "q8_0"),
    "gemma3": ({**GEMMA, "model_type": "gemma3_text", "query_pre_attn_scalar": 32, "sliding_window": 16, "num_hidden_layers": 7,
                "rope_theta": 1e6, "rope_local_base_freq": 10000.0,
                "layer_types": ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]}, "F32", "gemma", "f32"),
    "mixtral": ({**SIZES, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}, "BF16", "fallback", "q8_0"),
    "qwen2_moe": ({**SIZES, "model_type": "qwen2_moe", "num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "norm_topk_prob": False,
                   "shared_expert_intermediate_size": 64, "decoder_sparse_step": 1, "mlp_only_layers": [], "use_sliding_window": False}, "BF16", "qwen2", "q8_0"),
    "qwen3_moe": ({**SIZES, "model_type": "qwen3_moe", "head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                   "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}, "F32", "qwen2", "bf16"),
    "bytes": ({**SIZES, "model_type": "llama", "vocab_size": 256, "bos_token_id": None, "eos_token_id": None}, "F32", None, "q8_0"),
}


def chars():
    """The characters that stand for bytes in byte-level tokens."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, extra = {}, 256
    for b in range(256):
        table[b] = chr(b if b in keep else extra)
        extra += b not in keep
    return table


def tokenizer(kind):
    """tokenizer.json and tokenizer_config.json of 300 tokens, of which config.json may say more."""
    special = [{"id": 297 + i, "content": c, "special": i < 2} for i, c in enumerate(("<s>", "</s>", "<tool>"))]
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    config = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": "{{ messages }}"}
    if kind in ("fallback", "metaspace", "gemma"):
        vocab = {"<unk>": 0, **{f"<0x{b:02X}>": b + 1 for b in range(256)}}
        for piece in ("\u2581", "t", "h", "e", "th", "the", "\u2581the", "he"):
            vocab[piece] = len(vocab)
        merges = ["t h", "h e", "th e", "t he", "\u2581 the"]
        file = {"model": {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>", "vocab": vocab,
                          "merges": [m.split(" ") for m in merges] if kind == "gemma" else merges}}
        blank = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
        if kind == "fallback":
            file["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, blank]}
        elif kind == "gemma":
            file["normalizer"] = blank
            file["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
        else:
            file["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    else:
        vocab = {c: b for b, c in chars().items()}
        pairs = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("i", "n")]
        for a, b in pairs:
            vocab[a + b] = len(vocab)
        merges = [f"{a} {b}" for a, b in pairs] if kind == "gpt-2" else [list(p) for p in pairs]
        level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": kind in ("gpt-2", "smollm")}
        first = {"llama-bpe": {"type": "Split", "pattern": {"Regex": BEFORE + "{1,3}" + BEHIND}, "behavior": "Isolated", "invert": False},
                 "qwen2": {"type": "Split", "pattern": {"Regex": BEFORE + BEHIND}, "behavior": "Isolated", "invert": False},
                 "smollm": {"type": "Digits", "individual_digits": True}}.get(kind)
        file = {"model": {"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": kind == "llama-bpe"},
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": [first, level]} if first else level,
                "normalizer": {"type": "NFC"} if kind == "qwen2" else None}
        if kind == "qwen2":
            single, config = single[1:], {"eos_token": "</s>"}
    file["added_tokens"] = special
    template = {"type": "TemplateProcessing", "single": single}
    file["post_processor"] = {"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]} if kind == "llama-bpe" else template
    return file, config


def experts(config):
    """The tensors of a sparse layer in place of its three matrices."""
    h, kind = config["hidden_size"], config["model_type"]
    if kind == "mixtral":
        f, n, gate, one = config["intermediate_size"], config["num_local_experts"], "block_sparse_moe.gate.weight", "block_sparse_moe.experts.{}.{}.weight"
        names = "w1", "w3", "w2"
    else:
        f, n, gate, one = config["moe_intermediate_size"], config["num_experts"], "mlp.gate.weight", "mlp.experts.{}.{}.weight"
        names = "gate_proj", "up_proj", "down_proj"
    out = {gate: [n, h]}
    for e in range(n):
        out.update({one.format(e, names[0]): [f, h], one.format(e, names[1]): [f, h], one.format(e, names[2]): [h, f]})
    if kind == "qwen2_moe":
        s = config["shared_expert_intermediate_size"]
        out.update({"mlp.shared_expert.gate_proj.weight": [s, h], "mlp.shared_expert.up_proj.weight": [s, h], "mlp.shared_expert.down_proj.weight": [h, s],
                    "mlp.shared_expert_gate.weight": [1, h]})
    return out


def shapes(config):
    h, f, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    d = config.get("head_dim") or h // config["num_attention_heads"]
    q, kv = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    kind, out = config["model_type"], {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h]}
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = [v, h]
    for i in range(config["num_hidden_layers"]):
        p = f"model.layers.{i}."
        each = {"self_attn.q_proj.weight": [q, h], "self_attn.k_proj.weight": [kv, h], "self_attn.v_proj.weight": [kv, h],
                "self_attn.o_proj.weight": [h, q], "mlp.gate_proj.weight": [f, h], "mlp.up_proj.weight": [f, h],
                "mlp.down_proj.weight": [h, f], "input_layernorm.weight": [h], "post_attention_layernorm.weight": [h]}
        if kind in ("gemma2", "gemma3_text"):
            each.update({"pre_feedforward_layernorm.weight": [h], "post_feedforward_layernorm.weight": [h]})
        if kind in ("mixtral", "qwen2_moe", "qwen3_moe"):
            each = {k: s for k, s in each.items() if not k.startswith("mlp.")} | experts(config)
        if kind in ("qwen3", "gemma3_text", "qwen3_moe"):
            each.update({"self_attn.q_norm.weight": [d], "self_attn.k_norm.weight": [d]})
        if kind in ("qwen2", "qwen2_moe") or config.get("attention_bias"):
            each.update({"self_attn.q_proj.bias": [q], "self_attn.k_proj.bias": [kv], "self_attn.v_proj.bias": [kv]})
        if config.get("attention_bias"):
            each["self_attn.o_proj.bias"] = [h]
        if config.get("mlp_bias"):
            each.update({"mlp.gate_proj.bias": [f], "mlp.up_proj.bias": [f], "mlp.down_proj.bias": [h]})
        out.update({p + k: s for k, s in each.items()})
    return out


def stored(shape, dtype, r):
    n = 1
    for s in shape:
        n *= s
    values = [r.gauss(0, 0.5 if len(shape) > 1 else 1) for _ in range(n)]
    if len(shape) > 1:
        values[:32] = [0.0] * 32  # a block of zeros
        values[40] = 2.0 ** -20   # a subnormal of f16
    if dtype == "F32":
        return array.array("f", values).tobytes()
    if dtype == "F64":
        return array.array("d", values).tobytes()
    if dtype == "F16":
        return struct.pack(f"<{n}e", *values)
    return b"".join(struct.pack("<f", v)[2:] for v in values)


def write_tensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def make(folder, name, files=1):
    """The directory of a case; of two files with an index, if so asked."""
    config, dtype, kind, _ = CASES[name]
    os.makedirs(folder, exist_ok=True)
    r = random.Random(name)
    tensors = {k: (dtype, s, stored(s, dtype, r)) for k, s in shapes(config).items()}
    texts = {"config.json": config}
    if kind:
        texts["tokenizer.json"], texts["tokenizer_config.json"] = tokenizer(kind)
    if files > 1:
        names, where = list(tensors), {}
        for i in range(files):
            file = f"model-{i + 1:05}-of-{files:05}.safetensors"
            part = {k: tensors[k] for k in names[i::files]}
            write_tensors(os.path.join(folder, file), part)
            where.update(dict.fromkeys(part, file))
        texts["model.safetensors.index.json"] = {"metadata": {}, "weight_map": where}
    else:
        write_tensors(os.path.join(folder, "model.safetensors"), tensors)
    for file, text in texts.items():
        with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
            json.dump(text, f)
    return tensors


def read(path):
    """A GGUF file: its metadata, and name -> (type, dims, bytes) with the outermost dim first."""
    with open(path, "rb") as f:
        data = f.read()
    at = 0

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value[0]

    def word():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode()

    def value(kind):
        if kind == 9:
            of, n = take("I"), take("Q")
            return [value(of) for _ in range(n)]
        return word() if kind == 8 else bool(take("B")) if kind == 7 else take({4: "I", 5: "i", 6: "f"}[kind])

    assert data[:4] == b"GGUF"
    at = 4
    version, tensors, keys = take("I"), take("Q"), take("Q")
    assert version == 3
    meta = {}
    for _ in range(keys):
        key = word()
        assert key not in meta, key
        meta[key] = value(take("I"))
    infos = []
    for _ in range(tensors):
        name = word()
        dims = [take("Q") for _ in range(take("I"))]
        infos.append((name, dims[::-1], take("I"), take("Q")))
    begin, end, out = (at + 31) // 32 * 32, 0, {}
    for name, dims, kind, offset in infos:
        assert offset == (end + 31) // 32 * 32, (name, "tensors follow one another")
        n = 1
        for d in dims:
            n *= d
        size = {0: 4 * n, 1: 2 * n, 8: n // 32 * 34, 30: 2 * n}[kind]
        end = offset + size
        out[name] = (kind, dims, data[begin + offset:begin + end])
    assert len(data) == begin + (end + 31) // 32 * 32
    return meta, out
