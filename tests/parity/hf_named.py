"""Models of models/ that read inputs by name, beside transformers': hf_named.py [NAME...].

Needs torch and transformers; not run by scripts/test. Small models are made and saved by transformers;
the model of models/ in the same sizes starts from their weights (--init):

  loss       of one batch, against float64
  gradients  of every parameter for that batch, against float64
  export     a checkpoint of step 0 holds the bytes that went in, under the same names
  training   20 steps go on from there, and that checkpoint loads in transformers, with the loss mgc has
"""

import json
import os
import re
import sys
import tempfile

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from hf import GRADIENT, MGC, run, same_tensors, write_sized

ROWS = 32
LOSS = 1e-5
FROZEN = {"model.encoder.embed_positions.weight"}  # as Whisper's authors have it


def images(rows):
    return torch.randn(rows, 3, 16, 16)


def vit_data(rows):
    return {"image": images(rows), "label": torch.randint(0, 10, (rows,))}


def vit_loss(model, x):
    return torch.nn.functional.cross_entropy(model(x["image"]).logits, x["label"])


def clip_data(rows):
    text = torch.randint(0, 254, (rows, 12))
    for n, row in enumerate(text):
        row[3 + n % 9:] = 255  # an end, and behind it pads, which are ends too
    return {"image": images(rows), "text": text}


def clip_loss(model, x):
    return model(input_ids=x["text"], pixel_values=x["image"], return_loss=True).loss


def whisper_data(rows):
    weight = (torch.arange(12) < 4 + torch.arange(rows)[:, None] % 9).float()
    # No pad (255) in the text: torch gives its row of the table no gradient.
    return {"features": torch.randn(rows, 8, 32), "text": torch.randint(0, 255, (rows, 12)),
            "target": torch.randint(0, 256, (rows, 12)), "weight": weight}


def whisper_loss(model, x):
    out = model(input_features=x["features"], decoder_input_ids=x["text"]).logits
    each = torch.nn.functional.cross_entropy(out.transpose(1, 2), x["target"], reduction="none")
    return (each * x["weight"]).sum() / x["weight"].sum()


TOWER = {"num_hidden_layers": 3, "num_attention_heads": 2, "projection_dim": 16}
MODELS = {
    "vit": (hf.ViTForImageClassification,
            hf.ViTConfig(hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64, image_size=16, patch_size=4,
                         num_labels=10),
            {"layers": 3, "hidden": 32, "heads": 2, "head": 16, "ffn": 64, "row": 16, "batch": ROWS, "classes": 10}, vit_data, vit_loss),
    "clip": (hf.CLIPModel,
             hf.CLIPConfig(text_config={**TOWER, "hidden_size": 32, "intermediate_size": 128, "vocab_size": 256, "eos_token_id": 255,
                                        "bos_token_id": 254, "pad_token_id": 0, "max_position_embeddings": 12},
                           vision_config={**TOWER, "hidden_size": 48, "intermediate_size": 192, "image_size": 16, "patch_size": 4},
                           projection_dim=16),
             {"layers": 3, "hidden": 48, "heads": 2, "head": 24, "depth": 3, "width": 32, "parts": 2, "size": 16, "row": 16, "word": 12,
              "shared": 16, "batch": ROWS}, clip_data, clip_loss),
    "whisper": (hf.WhisperForConditionalGeneration,
                hf.WhisperConfig(vocab_size=256, num_mel_bins=8, encoder_layers=2, decoder_layers=3, encoder_attention_heads=2,
                                 decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, d_model=32,
                                 max_source_positions=16, max_target_positions=12, pad_token_id=255, bos_token_id=255,
                                 eos_token_id=255, decoder_start_token_id=255),
                {"layers": 2, "depth": 3, "hidden": 32, "heads": 2, "head": 16, "ffn": 64, "mel": 8, "sound": 16, "word": 12,
                 "batch": ROWS}, whisper_data, whisper_loss),
}


def doubled(rows):
    return {n: t.double() if t.is_floating_point() else t for n, t in rows.items()}


def first_loss(folder, program, source, out):
    run(folder, program, "--init", source, "--data", "rows.safetensors", "--steps", 1, "--out", out)
    with open(os.path.join(folder, out, "metrics.jsonl"), encoding="utf-8") as f:
        return next(line["loss"] for line in map(json.loads, f) if "loss" in line)


def gradients(folder, source, model, loss):
    """The worst difference of a gradient by its bound: mgc's is the first moment after one step without clipping."""
    with open(os.path.join(folder, "m.mg"), encoding="utf-8") as f:
        text = re.sub(r" *clip .*\n", "", f.read())
    with open(os.path.join(folder, "plain.mg"), "w", encoding="utf-8") as f:
        f.write(text)
    run(folder, MGC, "plain.mg", "-o", "plain")
    mine_loss = first_loss(folder, "./plain", source, "one")
    loss.backward()
    mine = load_file(os.path.join(folder, "one/ckpt/step-00000001/optimizer.safetensors"))
    theirs = {n: p.grad for n, p in model.named_parameters() if p.grad is not None and n not in FROZEN}
    renamed = {n: renamed_as_saved(n) for n in theirs}
    whole = sum(float(g.norm()) ** 2 for g in theirs.values()) ** 0.5
    worst = max(float((mine["exp_avg." + renamed[n]].double().reshape(g.shape) / 0.1 - g).norm()) /
                (GRADIENT["relative"] * float(g.norm()) + GRADIENT["of_all"] * whole) for n, g in theirs.items())
    assert sum(n.startswith("exp_avg.") for n in mine) == len(theirs)
    return worst, abs(mine_loss - float(loss.detach()))


def renamed_as_saved(name):
    """transformers' name in memory as it is in its files, where the two differ (ViT)."""
    for now, saved in ((r"^vit\.layers\.", "vit.encoder.layer."), (r"attention\.o_proj", "attention.output.dense"),
                       (r"(vit.*)attention\.q_proj", r"\1attention.attention.query"), (r"(vit.*)attention\.k_proj", r"\1attention.attention.key"),
                       (r"(vit.*)attention\.v_proj", r"\1attention.attention.value"), (r"(vit.*)mlp\.fc1", r"\1intermediate.dense"),
                       (r"(vit.*)mlp\.fc2", r"\1output.dense")):
        name = re.sub(now, saved, name)
    return name


def check(name):
    cls, config, sizes, data, loss_of = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(len(name))
        source = os.path.join(folder, "source")
        model = cls(config)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p) * 0.05)
        model.save_pretrained(source)
        rows = data(ROWS)
        save_file({n: t.contiguous() for n, t in rows.items()}, os.path.join(folder, "rows.safetensors"))
        write_sized(name, sizes, os.path.join(folder, "m.mg"))
        run(folder, MGC, "m.mg", "-o", "m")
        exact = cls.from_pretrained(source, dtype=torch.float64, attn_implementation="eager").eval()
        worst, off = gradients(folder, source, exact, loss_of(exact, doubled(rows)))
        run(folder, "./m", "--init", source, "--data", "rows.safetensors", "--steps", 0, "--out", "zero")
        count = same_tensors(folder, source, os.path.join(folder, "zero/ckpt/step-00000000"))
        run(folder, "./m", "--init", source, "--data", "rows.safetensors", "--steps", 20, "--out", "run", "--lr", 1e-3)
        with open(os.path.join(folder, "run/metrics.jsonl"), encoding="utf-8") as f:
            losses = [line["loss"] for line in map(json.loads, f) if "loss" in line]
        last = os.path.join(folder, "run/ckpt/step-00000020")
        back = cls.from_pretrained(last, dtype=torch.float64, attn_implementation="eager").eval()
        with torch.no_grad():
            after = abs(first_loss(folder, "./plain", last, "after") - float(loss_of(back, doubled(rows))))
        good = off < LOSS and worst < 1 and count and after < LOSS and losses[19] < losses[0]
        print(f"| {name} | {off:.1e} | {worst:.2f} | {count} the same | {after:.1e} | {losses[0]:.3f} to {losses[19]:.3f} |"
              f"{'' if good else ' NO'}", flush=True)
        return good


def main():
    hf.logging.set_verbosity_error()
    print("| model | loss off by | gradients, of their bound | tensors after import | loss after 20 steps off by | loss |\n"
          "|---|---|---|---|---|---|")
    if not all([check(n) for n in sys.argv[1:] or MODELS]):
        sys.exit(1)


if __name__ == "__main__":
    main()
