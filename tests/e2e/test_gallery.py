"""The stories of examples/: their texts always; with MGC_FULL each is run, and every row of the table of checks in its README.md is
compared with what came out."""

import json
import os
import re
import resource
import subprocess
import unittest
import xml.etree.ElementTree

import mgctest
from mgctest import FULL, MGC, SOURCE

EXAMPLES = os.path.join(SOURCE, "examples")
STORIES = sorted(n for n in os.listdir(EXAMPLES) if os.path.exists(os.path.join(EXAMPLES, n, "run")))
LINES = 60  # of a .mg file


def text_of(*path):
    with open(os.path.join(EXAMPLES, *path), encoding="utf-8") as f:
        return f.read()


def checks_of(story):
    """The rows of the README's table of checks: name -> (relation, bound)."""
    rows = re.findall(r"^\| `(\w+)`[^|]*\| ([<>=]) ([\d.e-]+) \|", text_of(story, "README.md"), re.M)
    return {name: (relation, float(bound)) for name, relation, bound in rows}


class Texts(mgctest.Case):
    def test_table(self):
        """Each story has a row in the table of examples/README.md, and each row a story."""
        rows = re.findall(r"^\| \[(\w+)\]\((\w+)/README\.md\) ", text_of("README.md"), re.M)
        self.assertEqual(sorted(rows), [(n, n) for n in STORIES])
        self.assertGreaterEqual(len(STORIES), 10)

    def test_readme(self):
        for story in STORIES:
            with self.subTest(story):
                readme = text_of(story, "README.md")
                self.assertIn(f"examples/{story}/run", readme)
                self.assertTrue(checks_of(story), "no table of checks")
                self.assertIn(f"def check_{story}(", text_of("..", "tests", "e2e", "test_gallery.py"))

    def test_models(self):
        """Each model is in the standard form, is short, and compiles without a warning."""
        for story in STORIES:
            for name in os.listdir(os.path.join(EXAMPLES, story)):
                if name.endswith(".mg"):
                    with self.subTest(name):
                        path = os.path.join(EXAMPLES, story, name)
                        self.assertLessEqual(text_of(story, name).count("\n"), LINES)
                        self.assertEqual(self.mgc("fmt", "--check", path).returncode, 0)
                        self.assertEqual(self.compiles(path, "--check").err, "")

    def test_commands(self):
        """Each run is a script of the plain shell, and says what is wrong with how it is started."""
        for story in STORIES:
            with self.subTest(story):
                run = os.path.join(EXAMPLES, story, "run")
                self.assertEqual(self.run_program("sh", "-n", run).returncode, 0)
                self.write("something", "")
                r = self.run_program(run, self.dir, env={"MGC": MGC})
                self.assertEqual(r.returncode, 73)
                self.assertIn(b"is not empty", r.stderr)
                r = self.run_program(run, "a", "b", env={"MGC": MGC})
                self.assertEqual(r.returncode, 64)
                r = self.run_program(run, self.path("new"), env={"MGC": "/nowhere/mgc"})
                self.assertEqual(r.returncode, 69)
                self.assertIn(b"there is no compiler at /nowhere/mgc", r.stderr)
                self.assertFalse(os.path.exists(self.path("new")))
                os.makedirs(self.path("scratch"), exist_ok=True)
                r = self.run_program(run, env={"MGC": "/bin/false", "TMPDIR": self.path("scratch")})
                self.assertNotEqual(r.returncode, 0)
                self.assertIn(b"which is removed at the end", r.stdout)
                self.assertEqual(os.listdir(self.path("scratch")), [])


def tree():
    """The files of the examples, to which a story adds none."""
    return sorted(os.path.join(d, n) for d, _, names in os.walk(EXAMPLES) for n in names)


@unittest.skipUnless(FULL, "MGC_FULL=1 runs the stories")
class Stories(mgctest.Case):
    """check_NAME returns what README.md of the story has bounds for, by name."""

    def setUp(self):
        super().setUp()
        self.dir = self.path("work")

    def tell(self, story):
        before = tree()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        r = subprocess.run([os.path.join(EXAMPLES, story, "run"), self.dir], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=3000, env={**os.environ, "MGC": MGC}, check=False)
        used = [b - a for a, b in zip(used[:2], resource.getrusage(resource.RUSAGE_CHILDREN)[:2])]
        self.assertEqual(r.returncode, 0, r.stdout[-5000:])
        self.assertEqual(tree(), before)
        self.out = r.stdout
        measured, claimed = getattr(self, "check_" + story)(), checks_of(story)
        print(f"{story}: {sum(used):.0f} processor seconds, {json.dumps(measured)}", flush=True)
        self.assertEqual(sorted(measured), sorted(claimed))
        for name, (relation, bound) in claimed.items():
            value = measured[name]
            good = value < bound if relation == "<" else value > bound if relation == ">" else value == bound
            self.assertTrue(good, f"{name} is {value}, and README.md says {relation} {bound}")

    def losses(self, run):
        return [line["loss"] for line in self.metrics(run) if "loss" in line]

    def last(self, run, name):
        return [line[name] for line in self.metrics(run) if name in line][-1]

    def check_bible(self):
        sample = self.out.rsplit("\n$ ", 1)[1].partition("\n")[2]  # behind the last command
        known = set(re.findall(r"[a-z]+", self.read("bible.txt").decode().lower()))
        words = re.findall(r"[a-z]+", sample.lower())[:-1]
        self.assertGreater(len(words), 50)
        return {"val_bits": self.last("run", "val_bits"), "val_accuracy": self.last("run", "val_accuracy"),
                "words": sum(w in known for w in words) / len(words)}

    def check_licences(self):
        def caches(seq):
            r = self.compiles(os.path.join(EXAMPLES, "licences/licences.mg"), "--generate", "-D", f"seq={seq}", "--plan")
            return re.search(r"(?m)^  caches +(.*)$", r.out).group(1)
        self.assertIn("chunks", re.search(r"(?m)^scans .*$", self.out).group())
        return {"val_loss": self.last("run", "val_loss"), "same_caches": int(caches(100) == caches(100000))}

    def check_digits(self):
        return {"val_accuracy": max(line["val_accuracy"] for line in self.metrics("run") if "val_accuracy" in line),
                "val_top2": self.last("run", "val_top2")}

    def check_addition(self):
        seen = self.read("train.jsonl").decode().splitlines()
        new = self.read("test.jsonl").decode().splitlines()
        self.assertEqual((len(seen), len(new), len(set(seen) & set(new))), (20000, 1000, 0))
        for line in map(json.loads, seen[:100] + new[:100]):
            a, b = map(int, line["question"][:-1].split("+"))
            self.assertEqual(int(line["answer"][3::-1]), a + b)
        return {"val_sums": self.last("run", "val_sums"), "val_digits": self.last("run", "val_digits"),
                "answer": int("9750" in self.out[self.out.rindex("123+456="):])}

    def check_swirl(self):
        (noise, *_), (samples, *parts) = (
            [float(n) for n in re.findall(r"[\d.]+", line)] for line in re.findall(r"^(?:noise|samples): (.*)$", self.out, re.M))
        dots = xml.etree.ElementTree.fromstring(self.read("samples.svg")).findall("{http://www.w3.org/2000/svg}circle")
        self.assertEqual(len(dots), 600)
        return {"distance": samples, "noise": noise, "fewest": min(parts)}

    def check_adapters(self):
        plain, loud = (self.read(f"{name}.txt").decode() for name in ("plain", "loud"))
        size = {name: os.path.getsize(self.path(name)) for name in (
            "base_hf/model.safetensors", "plain/ckpt/step-00000200/adapter_model.safetensors")}
        base, adapter = size.values()
        return {"plain": int("It is blue" in plain) + int("It is white" in plain),
                "loud": int("BLUE" in loud) + int("WHITE" in loud), "share": adapter / base}

    def check_preferences(self):
        def long_share(name):
            answers = [json.loads(line)["answer"] for line in self.read(f"{name}.jsonl").decode().splitlines()]
            self.assertEqual(len(answers), 30)
            return sum(a.startswith("The ") for a in answers) / len(answers)
        first, last = re.search(r"(?m)^40 steps in .*, loss ([\d.]+) -> ([\d.]+)", self.out).groups()
        return {"first_loss": float(first), "last_loss": float(last), "before": long_share("before"), "after": long_share("after")}

    def saved(self, run, step, *names):
        return [self.read(f"{run}/ckpt/step-{step:08d}/{name}.safetensors") for name in names]

    def check_ranks(self):
        one, dp, tp = (self.losses(f"run-{name}") for name in ("dp=1", "dp=2", "tp=2"))
        both = [self.saved(f"run-{name}", 40, "model", "optimizer") for name in ("dp=1", "dp=2")]
        return {"dp_same_bits": int(both[0] == both[1] and one == dp), "tp_differs": max(abs(a - b) for a, b in zip(one, tp)),
                "last_loss": one[-1]}

    def check_pipeline(self):
        one, four = self.losses("run-1"), self.losses("run-4")
        self.assertEqual(len(one), len(four))
        self.assertGreater(len(one), 5)
        idle = dict(re.findall(r"^([\w-]+): 4 ranks.*\n.*bubble ([\d.]+)%", self.out, re.M))
        self.assertRegex(self.read("schedule.txt").decode(), r"(?m)^rank 3 .* I7 .*W7[ .]*$")
        return {"differs": max(abs(a - b) / a for a, b in zip(one, four)), "last_loss": four[-1],
                **{name.replace("-", "_") + "_idle": float(percent) for name, percent in idle.items()}}

    def check_offload(self):
        self.assertIn("MG0550", self.out)
        same = self.saved("run", 30, "model", "optimizer") == self.saved("run-small", 30, "model", "optimizer")
        return {"same_bits": int(same), "last_loss": self.losses("run-small")[-1]}


def add(story):
    setattr(Stories, f"test_{story}", lambda self: self.tell(story))


for _story in STORIES:
    add(_story)

if __name__ == "__main__":
    mgctest.main()
