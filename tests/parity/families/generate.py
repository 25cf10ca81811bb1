"""Golden files of families, from transformers: generate.py [FAMILY...]. Needs torch and transformers; run by hand.

With --published it writes the numbers of parameters of published models (published.py) instead. With --export it writes nothing: each case is imported and compiled, a checkpoint of step 0 has the tensors of the source bit by bit,
AutoModelForCausalLM loads it, and both give the same logits.
"""

import contextlib
import json
import os
import sys
import tempfile

import configs
import published
import test_families as mgc
import tiny
import torch
import transformers as hf
from safetensors.torch import load_file

PLAIN = {"attn_implementation": "eager", "experts_implementation": "eager"}  # which take float64


@contextlib.contextmanager
def all_in_float64():
    """What transformers computes in float32 whatever a model's type is (rates of rotary positions, recurrences, scores) is float64, too."""
    was = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = was
        torch.set_default_dtype(torch.float32)


def source(family, keys, folder):
    """The directory of a case; config and shapes as in the golden file."""
    config = hf.AutoConfig.for_model(family, **keys)
    hf.AutoModelForCausalLM.from_config(config).save_pretrained(f"{folder}/init")
    with open(f"{folder}/init/config.json", encoding="utf-8") as f:
        config = json.load(f)
    shapes = {n: [list(t.shape), round(float(t.float().mean()), 2) if t.ndim < 2 else 0]
              for n, t in sorted(load_file(f"{folder}/init/model.safetensors").items())}
    tiny.directory(f"{folder}/source", config, shapes)
    tiny.directory(f"{folder}/exact", config, shapes, "F64")  # torch.float32 is another type below
    return config, shapes


def loss_of(model, rows):
    """The mean over sequences, of each with its loss of balance where the config asks for that."""
    asks = bool(getattr(model.config, "output_router_logits", False))
    loss = 0
    for row in rows:
        out = model(row[None, :-1], use_cache=False, **({"output_router_logits": True} if asks else {}))
        loss = loss + torch.nn.functional.cross_entropy(out.logits[0], row[1:])
        if asks:
            loss = loss + model.router_aux_loss_coef * out.aux_loss
    return loss / len(rows)


def gradients(model, folder):
    """Under the names of files: saved in the place of the weights."""
    kept = {n: p.data for n, p in model.named_parameters()}
    for p in model.parameters():
        p.data = torch.zeros_like(p) if p.grad is None else p.grad.clone()
    learned = {n for n, _ in model.named_parameters()}
    buffers = {n: b.clone() for n, b in model.named_buffers() if n not in learned}
    for n, b in model.named_buffers():
        if n in model.state_dict():
            b.zero_()
    model.save_pretrained(f"{folder}/gradients")
    for n, p in model.named_parameters():
        p.data = kept[n]
    for n, b in model.named_buffers():
        b.copy_(buffers[n])
    return load_file(f"{folder}/gradients/model.safetensors")


def numbers(folder, vocab):
    model = hf.AutoModelForCausalLM.from_pretrained(f"{folder}/exact", dtype=torch.float64, **PLAIN)
    model.eval()
    rows = torch.tensor(tiny.tokens(vocab))
    loss = loss_of(model, rows)
    loss.backward()
    found = {}
    for n, g in sorted(gradients(model, folder).items()):
        g = g.double().flatten()
        found[n] = [float(g.norm()), float((g * torch.tensor(tiny.signs(n, g.numel()))).sum())]
    learn = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in learn if p.ndim >= 2], "weight_decay": 0.1},
                                   {"params": [p for p in learn if p.ndim < 2], "weight_decay": 0}],
                                  lr=tiny.RATE, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for _ in range(tiny.STEPS):
        optimizer.zero_grad()
        step = loss_of(model, rows)
        losses.append(float(step.detach()))
        step.backward()
        torch.nn.utils.clip_grad_norm_(learn, 1.0)
        optimizer.step()
    return {"loss": float(loss.detach()), "gradients": found, "losses": losses}


def generate(family):
    cases = {}
    for name, keys in configs.CONFIGS[family].items():
        with tempfile.TemporaryDirectory() as folder:
            config, shapes = source(family, keys, folder)
            cases[name] = {"config": config, "tensors": shapes}
            with all_in_float64():
                cases[name].update(numbers(folder, config["vocab_size"]))
    text = json.dumps(cases, separators=(",", ":")).replace('},"', '},\n"').replace('],"', '],\n"')
    with open(os.path.join(mgc.HERE, "golden", family + ".json"), "w", encoding="utf-8") as f:
        f.write(text + "\n")


def count(config):
    """Parameters of a published model, which needs no memory for them."""
    config = hf.AutoConfig.for_model(**{k: v for k, v in config.items() if k != "architectures"})
    with torch.device("meta"):
        model = hf.AutoModelForCausalLM.from_config(config)
    corrections = sum(b.numel() for n, b in model.named_buffers() if n.endswith("e_score_correction_bias"))  # parameters in mgc
    return sum(p.numel() for p in model.parameters()) + corrections


def publish():
    cases = {n: {"config": c, "parameters": count(c)} for n, c in published.CONFIGS.items()}
    with open(os.path.join(mgc.HERE, "golden", "published.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(cases, separators=(",", ":")).replace('},"', '},\n"') + "\n")


def export(family):
    good = True
    for name, keys in configs.CONFIGS[family].items():
        with tempfile.TemporaryDirectory() as folder:
            _, shapes = source(family, keys, folder)
            mgc.tiny_model(folder)
            mgc.run(folder, "mgc", "m.mg", "-o", "train")
            mgc.run(folder, "./train", "--init", "source", "--export", "out")
            was, now = load_file(f"{folder}/source/model.safetensors"), load_file(f"{folder}/out/model.safetensors")
            same = set(was) == set(now) and all(torch.equal(was[n], now[n]) for n in was)
            first = hf.AutoModelForCausalLM.from_pretrained(f"{folder}/source", dtype=torch.float64, **PLAIN).eval()
            back = hf.AutoModelForCausalLM.from_pretrained(f"{folder}/out", dtype=torch.float64, **PLAIN).eval()
            rows = torch.tensor(tiny.tokens(first.config.vocab_size))[:, :-1]
            with torch.no_grad():
                off = float((first(rows).logits - back(rows).logits).abs().max())
            ok = same and off == 0 and type(first) is type(back)
            print(f"{family} {name}: {len(shapes)} tensors {'the same' if same else 'DIFFER'}, logits of the export off by {off}"
                  f"{'' if ok else ' NO'}", flush=True)
            good &= ok
    return good


def main():
    torch.set_num_threads(1)
    hf.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    names = [a for a in sys.argv[1:] if not a.startswith("--")] or list(configs.CONFIGS)
    if "--export" in sys.argv:
        sys.exit(0 if all([export(n) for n in names]) else 1)
    if "--published" in sys.argv:
        publish()
        return
    for n in names:
        generate(n)


if __name__ == "__main__":
    main()
