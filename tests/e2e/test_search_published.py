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
MORE = ["qwen0.5b_4090", "qwen1.5b_4090_fp8", "qwen3b_4090", "qwen7b_4090", "nemo8b_64", "nemo70b_64", "llama3_70b_tp", "nemotron15b_64", "qwen30b_8", "llama3_8b_tp", "gptoss120b_pp4", "llama70b_128_fp8", "nemogpt175b_128", "llama3_405b_16k",
        "qwen14b_4x4090", "qwen32b_4x4090"]


def predict():
    loader = importlib.machinery.SourceFileLoader("predict", os.path.join(mgctest.SOURCE, "scripts", "predict"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("predict", loader))
    loader.exec_module(module)
    return module


class Published(mgctest.Case):
    def test_rows(self):
        p = predict()
        table = {row["name"]: row for row in p.table()}
        names = SMALL + MORE if mgctest.FULL else mgctest.some(SMALL)
        self.assertGreater(len(names), 0)
        for name in names:
            row, predictor = dict(table[name], streams=3, own=True), p.Predictor(self.dir, [])
            published = predictor.plan(row, row["batch"])["step_ms"]
            text, argv = predictor.model(row, row["batch"])
            self.compiles("search", text, *argv, "--ranks", str(p.gpus_of(row)), "-o", "found.mg", timeout=3000)
            found = json.loads(self.compiles(text, *argv, "--layout", "found.mg", "--plan=json").out)["step_ms"]
            self.assertLessEqual(found, published * 1.0001, name)


if __name__ == "__main__":
    mgctest.main()
