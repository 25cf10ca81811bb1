"""The layout that mgc search finds is at least as fast, by its own prediction, as that of a published run of the same model on as many
ranks of the same device, with mgc's own choice of all that layouts leave open."""

import importlib.machinery
import importlib.util
import json
import os

import mgctest

# Rows of bench/published/published.tsv, small ones first: the first are tried in turns, the others in full runs. Rows whose experts have parts
# of a sequence (part=2 of tp 2) are left out: that is a size of the model, which a search does not change.
SMALL = ["qwen1.5b_4090", "qwen0.5b_4090_fp8", "gpt2_1.6b", "nemo8b_8", "llama8b_fsdp_fp8"]
MORE = ["qwen0.5b_4090", "qwen1.5b_4090_fp8", "qwen3b_4090", "qwen7b_4090", "nemo8b_64", "nemo70b_64", "llama3_70b_tp", "nemotron15b_64", "qwen30b_8", "llama70b_128_fp8", "nemogpt175b_128", "llama3_405b_16k"]


def predict():
    loader = importlib.machinery.SourceFileLoader("predict", os.path.join(mgctest.SOURCE, "scripts", "predict"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("predict", loader))
    loader.exec_module(module)
    return module


class Published(mgctest.Case):
    def arguments(self, p, row):
        """The model's file and the options that predict plans it with."""
        text = next(t for t in (os.path.join(d, row["model"] + ".mg") for d in (p.PUBLISHED, p.MODELS)) if os.path.exists(t))
        with open(text, encoding="utf-8") as file:
            source = file.read()
        kept = dict(d.split("=") for d in row["define"].split() if d.split("=")[0] in p.KEPT)
        self.write("m.mg", p.with_kept(source, kept) if kept else source)
        argv = ["-D", f"batch={row['batch']}", "--device", "device.json"]
        for d in row["define"].split():
            if d.split("=")[0] not in p.KEPT:
                argv += ["--precision", d.split("=")[1]] if d.startswith("precision=") else ["-D", d]
        return argv + ([] if "precision bf16" in source or "precision=" in row["define"] else ["--precision", "bf16"])

    def test_rows(self):
        p = predict()
        table = {row["name"]: row for row in p.table()}
        names = SMALL + MORE if mgctest.FULL else mgctest.some(SMALL)
        self.assertGreater(len(names), 0)
        for name in names:
            row = dict(table[name], streams=3, own=True)
            published = p.Predictor(self.dir, []).plan(row, row["batch"])["step_ms"]
            argv = self.arguments(p, row)
            self.compiles("search", "m.mg", *argv, "--ranks", str(p.gpus_of(row)), "-o", "found.mg", timeout=3000)
            found = json.loads(self.compiles("m.mg", *argv, "--layout", "found.mg", "--plan=json").out)["step_ms"]
            self.assertLessEqual(found, published * 1.0001, name)


if __name__ == "__main__":
    mgctest.main()
