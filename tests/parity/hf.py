"""Models of transformers in mgc and back: hf.py [NAME...].

Needs torch and transformers; not run by scripts/test. Small models of each family are made and
saved by transformers, imported (mgc import-hf) or those of models/, compiled, and started from their weights (--init):

  logits    of the next token after prompts of several lengths
  gradients of every parameter for one batch, against float64
  export    a checkpoint of step 0 holds the bytes that went in, under the same names (values, where
            the source was bf16 or f16), and loads in transformers as it is, with the same logits
  training  20 steps go on from there, and that checkpoint loads too, with the logits mgc has
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import torch
import transformers as hf
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
MGC = os.path.join(os.environ.get("MGC_BUILD", os.path.join(HERE, "../../build")), "mgc")
LOGITS = 1e-4  # relative to the largest
GRADIENT = {"relative": 1e-5, "of_all": 1e-7}

SHARE = 0.3  # of the loss of the token after the next


class DeepseekV3Ahead(hf.DeepseekV3ForCausalLM):
    """DeepSeek-V3 with the layer of its multi-token prediction, under the names of the published files."""

    def __init__(self, config):
        super().__init__(config)
        layer = type(self.model.layers[-1])(config, config.num_hidden_layers)
        size, norm = config.hidden_size, type(self.model.norm)
        layer.enorm, layer.hnorm, layer.shared_head = norm(size), norm(size), torch.nn.Module()
        layer.eh_proj, layer.shared_head.norm = torch.nn.Linear(2 * size, size, bias=False), norm(size)
        self.model.layers.append(layer)
        self.post_init()

    def training_loss(self, batch):
        kept, seq, layer = [], batch.shape[1] - 2, self.model.layers[-1]
        hook = self.model.norm.register_forward_pre_hook(lambda _, args: kept.append(args[0]))
        loss = next_token(self(batch[:, :seq]).logits, batch[:, 1:seq + 1])
        hook.remove()
        known = self.model.embed_tokens(batch[:, 1:seq + 1])
        x = layer.eh_proj(torch.cat((layer.enorm(known), layer.hnorm(kept[0])), -1))
        hidden = torch.full((seq, seq), -torch.inf, dtype=x.dtype).triu(1)[None, None]
        turns = self.model.rotary_emb(x, torch.arange(seq)[None])
        x = layer(x, attention_mask=hidden, position_embeddings=turns)
        return loss + SHARE * next_token(self.lm_head(layer.shared_head.norm(x)), batch[:, 2:])


def next_token(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


SHAPE = {"vocab_size": 256, "hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
LLAMA31 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 32}
GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8, "pad_token_id": None}
SHIPPED = {"layers": 5, "hidden": 32, "ffn": 80, "kv_heads": 2, "group": 2, "head": 16, "seq": 64, "batch": 8, "near": 8}
MODELS = {
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig, SHAPE, {}),
    "llama-mha-tied": (hf.LlamaForCausalLM, hf.LlamaConfig,
                       {**SHAPE, "num_key_value_heads": 4, "tie_word_embeddings": True}, {}),
    "llama31-bf16-sharded": (hf.LlamaForCausalLM, hf.LlamaConfig,
                             {**SHAPE, "rope_theta": 5e5, "rope_scaling": LLAMA31},
                             {"dtype": torch.bfloat16, "max_shard_size": "20KB"}),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config, {**SHAPE, "tie_word_embeddings": True}, {}),
    "qwen3-f16": (hf.Qwen3ForCausalLM, hf.Qwen3Config, {**SHAPE, "head_dim": 16}, {"dtype": torch.float16}),
    "mistral": (hf.MistralForCausalLM, hf.MistralConfig, {**SHAPE, "sliding_window": None}, {}),
    "mixtral": (hf.MixtralForCausalLM, hf.MixtralConfig,
                {**SHAPE, "intermediate_size": 48, "num_local_experts": 4, "num_experts_per_tok": 2,
                 "sliding_window": None}, {}),
    "phi3": (hf.Phi3ForCausalLM, hf.Phi3Config, {**SHAPE, "pad_token_id": None, "eos_token_id": 0}, {}),
    "phi3-partial-window-tied": (hf.Phi3ForCausalLM, hf.Phi3Config,
                                 {**SHAPE, "hidden_size": 64, "pad_token_id": None, "eos_token_id": 0, "sliding_window": 9,
                                  "tie_word_embeddings": True, "rope_parameters": {
                                      "rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.75}},
                                 {"max_shard_size": "20KB"}),
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config,
             {"vocab_size": 256, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64,
              "bos_token_id": 0, "eos_token_id": 0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}, {}),
    "gemma2": (hf.Gemma2ForCausalLM, hf.Gemma2Config, {**SHAPE, **GEMMA, "num_hidden_layers": 5}, {"shipped": SHIPPED}),
    "gemma3": (hf.Gemma3ForCausalLM, hf.Gemma3TextConfig, {**SHAPE, **GEMMA, "num_hidden_layers": 8},
               {"shipped": {**SHIPPED, "layers": 8}}),
    "deepseek": (hf.DeepseekV2ForCausalLM, hf.DeepseekV2Config,
                 {**SHAPE, "moe_intermediate_size": 24, "first_k_dense_replace": 1, "n_routed_experts": 4, "n_shared_experts": 2,
                  "num_experts_per_tok": 2, "kv_lora_rank": 16, "q_lora_rank": None, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
                  "v_head_dim": 12, "num_key_value_heads": 4, "routed_scaling_factor": 1.0, "topk_method": "greedy",
                  "aux_loss_alpha": 0.0},
                 {"shipped": {"layers": 3, "hidden": 32, "heads": 4, "still": 8, "turn": 4, "value": 12, "latent": 16, "wide": 80,
                              "ffn": 24, "experts": 4, "slot": "seq", "seq": 64, "batch": 8, "balancing": 0}}),
    "deepseek_v3": (DeepseekV3Ahead, hf.DeepseekV3Config,
                    {**SHAPE, "moe_intermediate_size": 24, "first_k_dense_replace": 1, "n_routed_experts": 8, "n_shared_experts": 1,
                     "num_experts_per_tok": 2, "n_group": 4, "topk_group": 2, "kv_lora_rank": 16, "q_lora_rank": 12, "qk_nope_head_dim": 8,
                     "qk_rope_head_dim": 4, "v_head_dim": 12, "num_key_value_heads": 4},
                    {"shipped": {"layers": 3, "hidden": 32, "heads": 4, "still": 8, "turn": 4, "value": 12, "latent": 16, "narrow": 12,
                                 "wide": 80, "ffn": 24, "slot": "seq", "seq": 64, "batch": 8, "balancing": 0},
                     "more": 1, "loads": hf.DeepseekV3ForCausalLM}),
    "mamba2": (hf.Mamba2ForCausalLM, hf.Mamba2Config,
               {"vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 3, "num_heads": 4, "head_dim": 16, "state_size": 16,
                "n_groups": 1, "chunk_size": 16, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0,
                "pad_token_id": 0},
               {"shipped": {"layers": 3, "hidden": 32, "heads": 4, "head": 16, "state": 16, "seq": 64, "batch": 8}}),
    "mamba2-imported": (hf.Mamba2ForCausalLM, hf.Mamba2Config,
                        {"vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 3, "num_heads": 4, "head_dim": 16, "state_size": 16,
                         "n_groups": 1, "chunk_size": 16, "conv_kernel": 3, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0},
                        {"seq": 64}),
    "bamba-imported": (hf.BambaForCausalLM, hf.BambaConfig,
                       {**SHAPE, "num_hidden_layers": 6, "hidden_size": 64, "attn_layer_indices": [0, 3], "mamba_n_heads": 8,
                        "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 16, "pad_token_id": None,
                        "tie_word_embeddings": True}, {}),
    "bamba": (hf.BambaForCausalLM, hf.BambaConfig,
              {**SHAPE, "num_hidden_layers": 5, "head_dim": 8, "attn_layer_indices": [2, 4], "mamba_n_heads": 4, "mamba_d_head": 16,
               "mamba_d_state": 16, "mamba_n_groups": 1, "mamba_chunk_size": 16, "pad_token_id": None},
              {"shipped": {"layers": 5, "hidden": 32, "kv_heads": 2, "group": 2, "size": 8, "ffn": 80, "heads": 4, "head": 16,
                           "state": 16, "seq": 64, "batch": 8, "every": 2}}),
}
PLAIN = {"attn_implementation": "eager", "experts_implementation": "eager"}  # which take float64
PROMPTS = ["A", "mgc trains", "The quick brown fox jumps over the lazy dog, and then it rests...."[:64]]


def run(folder, *argv):
    r = subprocess.run([str(a) for a in argv], cwd=folder, capture_output=True, check=False)
    if r.returncode:
        sys.exit(f"{' '.join(map(str, argv))}: exit code {r.returncode}\n{r.stderr.decode()}")


def make(name, folder):
    cls, config, shape, more = MODELS[name]
    torch.manual_seed(len(name))
    model = cls(config(**shape))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.05)
        for n, b in model.named_buffers():
            if n.endswith("e_score_correction_bias"):
                b.add_(torch.randn_like(b) * 0.05)
    model = model.to(more.get("dtype", torch.float32)).eval()
    model.save_pretrained(folder, **({"max_shard_size": more["max_shard_size"]} if "max_shard_size" in more else {}))


def tokens(text):
    return torch.tensor([list(text.encode())])


def logits_of(folder, program, *start):
    """mgc's logits of the token after each prompt."""
    rows = []
    for p in PROMPTS:
        run(folder, program, *start, "--sample", 1, "--prompt", p, "--logits", "logits.safetensors")
        rows.append(load_file(os.path.join(folder, "logits.safetensors"))["logits"][0].double())
    return rows


def apart(mine, model):
    """The largest difference of logits, relative to the largest logit."""
    with torch.no_grad():
        theirs = [model(tokens(p)).logits[0, -1].double() for p in PROMPTS]
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(mine, theirs))


def published(tensors, mixtral):
    """The tensors of files, of those that transformers has in memory: experts are one tensor there."""
    found = {}
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    for n, t in tensors.items():
        moe = n.replace(".mlp.", ".block_sparse_moe.") if mixtral else n
        if ".mlp.gate." in n and t.ndim == 2:
            found[moe] = t
        elif n.endswith("experts.gate_up_proj") or n.endswith("experts.down_proj"):
            for e, one in enumerate(t):
                parts = {down: one} if n.endswith("down_proj") else dict(zip((gate, up), one.chunk(2)))
                found |= {f"{moe[:moe.rindex('.')]}.{e}.{w}.weight": x for w, x in parts.items()}
        else:
            found[n] = t
    return found


def gradients(folder, source, model, more):
    """mgc's gradients out of the first moment after one step without clipping, beside float64's."""
    with open(os.path.join(folder, "m.mg"), encoding="utf-8") as f:
        text = re.sub(r" *clip .*\n", "", f.read())
    with open(os.path.join(folder, "plain.mg"), "w", encoding="utf-8") as f:
        f.write(text)
    run(folder, MGC, "plain.mg", "-o", "plain")
    generator = torch.Generator().manual_seed(3)
    batch = torch.randint(0, 256, (8, 65 + more), generator=generator)
    for i, row in enumerate(batch):
        with open(os.path.join(folder, f"{i}.window"), "wb") as f:
            f.write(bytes(row.tolist()))
    run(folder, "./plain", "--init", source, "--data", "*.window", "--steps", 1, "--out", "one")
    own = getattr(model, "training_loss", None)
    loss = own(batch) if own else next_token(model(batch[:, :-1]).logits, batch[:, 1:])
    loss.backward()
    mine = load_file(os.path.join(folder, "one/ckpt/step-00000001/optimizer.safetensors"))
    theirs = published({n: p.grad for n, p in model.named_parameters()}, isinstance(model, hf.MixtralForCausalLM))
    whole = sum(float(g.norm()) ** 2 for g in theirs.values()) ** 0.5
    worst = 0
    for n, g in theirs.items():
        d = float((mine["exp_avg." + n].double() / 0.1 - g).norm())
        worst = max(worst, d / (GRADIENT["relative"] * float(g.norm()) + GRADIENT["of_all"] * whole))
    with open(os.path.join(folder, "one/metrics.jsonl"), encoding="utf-8") as f:
        first = next(line["loss"] for line in map(json.loads, f) if "loss" in line)
    return worst, abs(first - float(loss.detach()))


def same_tensors(folder, source, checkpoint):
    """Names and values of what went in and what came out; how many are the same bytes."""
    was = {}
    for f in sorted(os.listdir(source)):
        if f.endswith(".safetensors"):
            was.update(load_file(os.path.join(source, f)))
    now = load_file(os.path.join(checkpoint, "model.safetensors"))
    assert set(was) == set(now), sorted(set(was) ^ set(now))
    return all(torch.equal(was[n].float(), now[n]) for n in was) and len(was)


def write_sized(name, sizes, path):
    """A model of models/ with other sizes."""
    with open(os.path.join(HERE, "../../models", name + ".mg"), encoding="utf-8") as f:
        text = f.read()
    for dim, size in sizes.items():
        text = re.sub(rf"(?m)^((?:dim|const) .*\b{dim}) = [^,\n]+", rf"\1 = {size}", text, count=1)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def shortened(path, seq):
    """An imported model whose config says no number of positions."""
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"\bseq = \d+", f"seq = {seq}", f.read(), count=1)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def check(name):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source")
        make(name, source)
        sizes = MODELS[name][3].get("shipped")
        if sizes:
            write_sized(name, sizes, os.path.join(folder, "m.mg"))
        else:
            run(folder, MGC, "import-hf", source, "-o", "m.mg")
            run(folder, MGC, "fmt", "--check", "m.mg")
            if "seq" in MODELS[name][3]:
                shortened(os.path.join(folder, "m.mg"), MODELS[name][3]["seq"])
        run(folder, MGC, "m.mg", "-o", "m")
        cls = MODELS[name][0]
        exact = cls.from_pretrained(source, dtype=torch.float64, **PLAIN).eval()
        first = apart(logits_of(folder, "./m", "--init", source), exact)
        worst, loss = gradients(folder, source, exact, MODELS[name][3].get("more", 0))
        run(folder, "./m", "--init", source, "--data", "*.window", "--steps", 0, "--out", "zero")
        zero = os.path.join(folder, "zero/ckpt/step-00000000")
        count = same_tensors(folder, source, zero)
        run(folder, "./m", "--init", source, "--data", "*.window", "--steps", 20, "--out", "run", "--lr", 1e-3)
        last = os.path.join(folder, "run/ckpt/step-00000020")
        back = []
        for saved in (zero, last):
            model = hf.AutoModelForCausalLM.from_pretrained(saved, **PLAIN).eval().double()
            assert type(model) is MODELS[name][3].get("loads", cls)
            back.append(apart(logits_of(folder, "./m", "--init", saved), model))
        with open(os.path.join(folder, "run/metrics.jsonl"), encoding="utf-8") as f:
            losses = [line["loss"] for line in map(json.loads, f) if "loss" in line]
        good = (first < LOGITS and worst < 1 and loss < 1e-5 and count and max(back) < LOGITS
                and losses[19] < losses[0])
        print(f"| {name} | {first:.1e} | {worst:.2f} | {count} the same | {back[0]:.1e} | {back[1]:.1e} | "
              f"{losses[0]:.3f} to {losses[19]:.3f} |{'' if good else ' NO'}", flush=True)
        return good


def main():
    hf.logging.set_verbosity_error()
    print("| model | logits off by | gradients, of their bound | tensors after import | logits of the export |"
          " logits after 20 steps | loss |\n|---|---|---|---|---|---|---|")
    if not all([check(n) for n in sys.argv[1:] or MODELS]):
        sys.exit(1)


if __name__ == "__main__":
    main()
