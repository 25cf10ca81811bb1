"""Programs that generate: the texts of whole windows, alone and side by side; chat, stops, choices; what is refused."""

import unittest

import mgctest

PROMPTS = ["In the beginning God created the heaven and the earth. ", "abc", "And God said, Let there be light: and there was light. " * 3]
MODELS = {"llama_mini": (), "gemma2": (), "mixtral_mini": (), "bamba": ()}


class Generate(mgctest.Case):
    def program(self, model, *more, out="gen"):
        self.compiles(f"{mgctest.SOURCE}/models/{model}.mg", *more, "--generate", "-o", out)

    def says(self, *args, program="./gen", **how):
        return self.trains(program, *args, **how)

    def test_as_whole_windows(self):
        """--sample of a program that trains computes all positions for each token: the same text, in f64."""
        for model in mgctest.some(MODELS, 2):
            self.compiles(f"{mgctest.SOURCE}/models/{model}.mg", "--precision", "f64", "-o", "train")
            self.program(model, "--precision", "f64", "--prefill", 16)
            for prompt in PROMPTS[:2]:
                args = ("--sample", 24, "--prompt", prompt, "--top-k", 20)
                self.assertEqual(self.says(*args, program="./train").out, self.says(*args).out, model)

    def test_side_by_side(self):
        """Text k of a run is the text of a run with the seed seed + k: byte for byte, on any number of threads; in halves too."""
        for precision in ("f32", "bf16"):
            self.program("llama_mini", "--precision", precision, "--sequences", 3)
            weights = "weights-" + precision
            self.says("--sample", 1, "--export", weights)
            more = ["--init", weights] + [x for p in PROMPTS for x in ("--prompt", p)]
            together = self.says("--sample", 40, "--seed", 5, "--min-p", 0.01, *more).out
            parts = together.split("== ")[1:]
            self.assertEqual([p[0] for p in parts], ["1", "2", "3"])
            for k, prompt in enumerate(PROMPTS):
                one = self.says("--sample", 40, "--seed", 5 + k, "--min-p", 0.01, "--init", weights, "--prompt", prompt, "--threads", 1 + k % 2).out
                self.assertEqual(one, parts[k][2:], precision)

    def test_choices(self):
        """The likeliest, whichever way it is said; a penalty that never repeats; a stop that is not shown; room that is left."""
        self.program("llama_mini")
        likeliest = self.says("--sample", 30, "--prompt", "abc", "--temperature", 0).out
        for same in (("--top-k", 1), ("--top-p", 1e-9), ("--min-p", 1)):
            self.assertEqual(self.says("--sample", 30, "--prompt", "abc", *same).out, likeliest)
        logits = self.says("--sample", 60, "--prompt", "abc", "--temperature", 0, "--repetition-penalty", 1e5, "--logits", "l.st")
        self.assertEqual(logits.err, "")
        self.assertEqual(len(self.says("--sample", 200, "--prompt", "x" * 120, "--temperature", 0).out) > 200, True)  # more than 128

    def test_groups(self):
        """--choices G: a prompt is read once for G texts, which are, in f64, those of a program that reads it for each; also of
        recurrences, whose rest of a prompt is read one by one, of rings, of experts that count, and of texts that outgrow their room."""
        prompts = [PROMPTS[0], "And God said, Let there be light: and there was light. And God saw", "abc"]
        for model in mgctest.some(MODELS, 2):
            self.program(model, "--precision", "f64", "--prefill", 16, "--sequences", 12, "--choices", 4, out="many")
            self.program(model, "--precision", "f64", "--prefill", 16, "--sequences", 12, out="each")
            self.says("--sample", 1, "--export", "w-" + model, program="./each")
            args = ("--init", "w-" + model, "--top-k", 20, "--sample", 90 if model == "llama_mini" else 30)
            many = self.says(*args, *(x for p in prompts for x in ("--prompt", p)), program="./many").out
            each = self.says(*args, *(x for p in prompts for _ in range(4) for x in ("--prompt", p)), program="./each").out
            self.assertEqual(many, each, model)
            self.assertEqual(len(set(many.split("== ")[1:])), 12)
        for wrong, why in ((("--chat",), "4 times"), (("--sample", 3) + 4 * ("--prompt", "x"), "3 texts at once"),
                           (("--sample", 3, "--logits", "l"), "--choices")):
            self.assertIn(why, self.says(*wrong, program="./many", code=2).err)
        r = self.mgc(f"{mgctest.SOURCE}/models/llama_mini.mg", "--generate", "--check", "--sequences", 6, "--choices", 4)
        self.assertIn("MG0600", r.err)
        self.assertIn("--sequences 8", r.err)
        self.assertEqual(self.mgc(f"{mgctest.SOURCE}/models/llama_mini.mg", "--choices", 2, "--check").returncode, 2)

    def test_chat(self):
        """A line is answered, and the text goes on: as if both lines and the first answer were the prompt."""
        self.program("llama_mini")
        self.write("lines", "In the\nbeginning\n")
        r = self.trains("sh", "-c", "./gen --chat --sample 8 --temperature 0 --stop '~~~' <lines")
        answers = r.out.split("\n")
        self.assertEqual(len([a for a in answers if a]), 2, r.out)
        self.assertEqual(self.says("--sample", 8, "--temperature", 0, "--prompt", "In the\n", "--stop", "~~~").out.split("\n")[0], answers[0])

    def test_refused(self):
        """What cannot be said or done, with its reason."""
        r = self.mgc(f"{mgctest.SOURCE}/models/mlp.mg", "--generate", "--check")
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("mlp.mg:13:28: error[MG0535]", r.err)
        r = self.mgc(f"{mgctest.SOURCE}/models/vit.mg", "--generate", "--check")
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("MG0536", r.err)
        for wrong in (("--sequences", 0), ("--sequences", "8x"), ("--prefill", -1), ("--report", "r.html")):
            self.assertEqual(self.mgc(f"{mgctest.SOURCE}/models/llama_mini.mg", "--generate", "--check", *wrong).returncode, 2, wrong)
        self.assertEqual(self.mgc(f"{mgctest.SOURCE}/models/llama_mini.mg", "--sequences", 2, "--check").returncode, 2)
        self.program("llama_mini", "--sequences", 2)
        for wrong, why in (((), "--sample N or --chat"), (("--data", "x"), "does not train"),
                           (("--sample", 3, "--top-p", 2), "probabilities"), (("--sample", 3, "--min-p", 0), "probabilities"),
                           (("--sample", 3, "--repetition-penalty", 0), "repetition-penalty"),
                           (("--chat", "--prompt", "x"), "standard input"),
                           (("--sample", 3) + 3 * ("--prompt", "x"), "2 texts at once"),
                           (("--sample", 3, "--prompt", "a", "--prompt", "b", "--logits", "l"), "one text")):
            self.assertIn(why, self.says(*wrong, code=2).err)


if __name__ == "__main__":
    unittest.main()
