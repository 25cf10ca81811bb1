"""--export: the parameters alone, in the type asked for, in files of a limited size, with what the directory of --init has for
tokens. That transformers loads such directories is tried by hand (tests/parity/hf.py)."""

import json
import os
import struct

import mgctest
from test_weights import LLAMA, llama_tensors, numbers, packed, read_safetensors, safetensors

BESIDE = {"tokenizer.json": "{}", "tokenizer_config.json": '{"a": 1}', "generation_config.json": '{"b": 2}', "merges.txt": "x y\n",
          "chat_template.jinja": "{{ x }}"}


class Export(mgctest.Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("hf"))
        self.write("hf/config.json", json.dumps(LLAMA))
        self.tensors = {n: ("F32", s, packed(numbers(s, i), "F32")) for i, (n, s) in enumerate(llama_tensors(LLAMA).items())}
        self.write("hf/model.safetensors", safetensors(self.tensors))
        for name, text in BESIDE.items():
            self.write("hf/" + name, text)
        self.write("hf/notes.txt", "not copied")
        self.compiles("import-hf", "hf", "-o", "m.mg")
        self.compiles("m.mg", "-D", "seq=16", "--precision", "f32", "-o", "m")

    def exported(self, out, *argv, code=0):
        return self.trains("./m", "--init", "hf", "--export", out, *argv, code=code)

    def values(self, dtype, data):
        if dtype == "BF16":
            return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
        return struct.unpack(f"<{len(data) // {'F32': 4, 'F16': 2}[dtype]}{ {'F32': 'f', 'F16': 'e'}[dtype]}", data)

    def test_as_it_is(self):
        self.exported("e")
        self.assertEqual(sorted(os.listdir(self.path("e"))), sorted([*BESIDE, "README.md", "config.json", "model.safetensors"]))
        for name, text in BESIDE.items():
            self.assertEqual(self.read("e/" + name).decode(), text)
        self.assertEqual(read_safetensors(self.read("e/model.safetensors")), self.tensors)
        config = json.loads(self.read("e/config.json"))
        self.assertEqual(config["torch_dtype"], "float32")
        self.assertEqual(config["model_type"], "llama")

    def test_types(self):
        for word, dtype, torch, eps in (("f32", "F32", "float32", 0), ("bf16", "BF16", "bfloat16", 2 ** -8), ("f16", "F16", "float16", 2 ** -11)):
            self.exported(word, "--export-type", word)
            got = read_safetensors(self.read(f"{word}/model.safetensors"))
            self.assertEqual(set(got), set(self.tensors))
            for name, (kind, shape, data) in got.items():
                self.assertEqual((kind, shape), (dtype, self.tensors[name][1]))
                for a, b in zip(self.values("F32", self.tensors[name][2]), self.values(dtype, data), strict=True):
                    self.assertLessEqual(abs(a - b), eps * abs(a) + 1e-7 * (word == "f16"))
            self.assertEqual(json.loads(self.read(f"{word}/config.json"))["torch_dtype"], torch)
        # And it is what a program begins with.
        self.trains("./m", "--init", "bf16", "--export", "again", "--export-type", "bf16")
        self.assertEqual(self.read("bf16/model.safetensors"), self.read("again/model.safetensors"))

    def test_files(self):
        self.exported("one")
        for size in ("20KB", "6000", "1"):
            self.exported(size, "--export-shard", size)
            index = json.loads(self.read(f"{size}/model.safetensors.index.json"))
            files = sorted(set(index["weight_map"].values()))
            self.assertEqual(files, [f"model-{k + 1:05}-of-{len(files):05}.safetensors" for k in range(len(files))])
            self.assertFalse(os.path.exists(self.path(f"{size}/model.safetensors")))
            got, total = {}, 0
            for file in files:
                part = read_safetensors(self.read(f"{size}/{file}"))
                self.assertTrue(all(index["weight_map"][n] == file for n in part))
                bytes_ = sum(len(t[2]) for t in part.values())
                self.assertTrue(bytes_ <= {"20KB": 20000}.get(size, int(size.strip("KB"))) or len(part) == 1)
                got, total = {**got, **part}, total + bytes_
            self.assertEqual((got, index["metadata"]["total_size"]), (self.tensors, total))
            self.assertEqual(len(files), len(self.tensors) if size == "1" else len(files))
            self.trains("./m", "--init", size, "--export", size + "-again")
            self.assertEqual(self.read(size + "-again/model.safetensors"), self.read("one/model.safetensors"))

    def test_of_a_run(self):
        """Resumed, --init says where the tokenizer is; the weights are the run's."""
        self.text(2000)
        self.trains("./m", "--init", "hf", "--data", "text1.txt", "--steps", 2, "--export", "first")
        self.trains("./m", "--resume", "--export", "plain")
        self.trains("./m", "--resume", "--init", "hf", "--export", "full")
        self.assertEqual(sorted(os.listdir(self.path("plain"))), ["README.md", "config.json", "loss.svg", "model.safetensors"])
        self.assertTrue(set(BESIDE) <= set(os.listdir(self.path("full"))))
        self.assertEqual(len({self.read(d + "/model.safetensors") for d in ("first", "plain", "full")}), 1)
        self.assertNotEqual(read_safetensors(self.read("full/model.safetensors")), self.tensors)

    def test_refused(self):
        for argv, words in ((("--export-type", "f64"), "it is f32, bf16 or f16"), (("--export-shard", "5XB"), "a size is 5GB"),
                            (("--export-shard", "0"), "a size is 5GB"), (("--export-shard", "-1"), "a size is")):
            self.assertIn(words, self.exported("no", *argv, code=2).err)
        self.assertIn("need --export", self.trains("./m", "--init", "hf", "--sample", 1, "--export-type", "f32", code=2).err)
        self.assertFalse(os.path.exists(self.path("no")))
        self.exported("e")
        self.assertIn("File exists", self.exported("e", code=74).err)
        name = "model.norm.weight"
        self.write("hf/model.safetensors", safetensors({**self.tensors, name: ("F32", [16], packed([7e4] * 16, "F32"))}))
        self.assertIn("which f16 cannot hold", self.exported("big", "--export-type", "f16", code=1).err)
        self.exported("big16", "--export-type", "bf16")


if __name__ == "__main__":
    mgctest.main()
