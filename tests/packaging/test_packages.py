"""Packages on a machine that has nothing: a bare Debian, made by debootstrap. Each installs, compiles, trains, and leaves no file. The tests
share that machine, in the order of their names: that of the wheel leaves a compiler there."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import bare

SOURCE, BUILD = os.environ["MGC_SOURCE"], os.environ["MGC_BUILD"]
TEXT = "/usr/share/common-licenses/GPL-3"  # every Debian has it
SECONDS = 180


def work():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@unittest.skipIf(bare.missing(), bare.missing())
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = subprocess.run([os.path.join(SOURCE, "scripts/package"), "deb", "wheel"], capture_output=True, text=True, check=False,
                              env={**os.environ, "MGC_BUILD": BUILD})
        if made.returncode:
            raise AssertionError(made.stdout[-2000:] + made.stderr[-4000:])
        cls.deb, cls.wheel = made.stdout.split()[-2:]
        cls.folder = tempfile.mkdtemp(prefix="mgc-bare-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.root = bare.Root(os.path.join(cls.folder, "root"))
        cls.root.must("apt-get update -q")
        for package in (cls.deb, cls.wheel):
            shutil.copy(package, cls.root.path("work"))

    def leaves_nothing(self, before, under=""):
        left = {f for f in self.root.files() - before if f.startswith(under)}
        self.assertEqual(sorted(left)[:50], [])

    def losses(self, run):
        import json
        with open(self.root.path(f"work/{run}/metrics.jsonl"), encoding="utf-8") as f:
            return [line["loss"] for line in map(json.loads, f) if "loss" in line]

    @unittest.skipUnless(shutil.which("buildah"), "buildah is not installed")
    def test_container(self):
        """The image of packaging/Containerfile, on this Debian as its base: built, and mgc in it plans and compiles."""
        def buildah(*words):
            r = subprocess.run(["buildah", "--root", f"{self.folder}/images", "--runroot", f"{self.folder}/run", "--storage-driver", "vfs", *words],
                               capture_output=True, text=True, check=False)
            self.assertEqual(r.returncode, 0, r.stdout[-2000:] + r.stderr[-2000:])
            return r.stdout.strip()
        context = os.path.join(self.folder, "context")
        os.mkdir(context)
        shutil.copy(self.deb, context)
        base = buildah("from", "scratch")
        buildah("copy", "-q", base, self.root.folder, "/")
        buildah("commit", "-q", base, "localhost/debian:12")
        buildah("build", "--isolation", "chroot", "--pull-never", "--build-arg", "BASE=localhost/debian:12", "-t", "mgc",
                "-f", os.path.join(SOURCE, "packaging/Containerfile"), context)
        inside = buildah("from", "--pull-never", "localhost/mgc")
        self.assertEqual(buildah("inspect", "--format", "{{.OCIv1.Config.Entrypoint}}", inside), "[mgc]")
        self.assertIn("llama: 1 rank", buildah("run", "--isolation", "chroot", inside, "--", "mgc", "models/llama_mini.mg", "-o", "train"))
        self.assertIn("--data", buildah("run", "--isolation", "chroot", inside, "--", "./train", "--help"))

    def test_deb(self):
        """From nothing to a trained llama_mini by three commands."""
        r, before = self.root, self.root.files()
        began, used = time.monotonic(), work()
        r.must(f"apt-get install -q -y --no-install-recommends ./{os.path.basename(self.deb)}")
        r.must("mgc models/llama_mini.mg -o train")
        r.must(f"./train --data {TEXT} --steps 20 --out run")
        used, lasted = work() - used, time.monotonic() - began
        losses = self.losses("run")
        print(f"deb: {os.path.getsize(self.deb)} bytes; installed, compiled and trained 20 steps in {lasted:.0f} s "
              f"({used:.0f} s of processors), loss {losses[0]:.3f} to {losses[-1]:.3f}", file=sys.stderr)
        self.assertEqual(len(losses), 20)
        self.assertLess(losses[-1], losses[0] - 0.5)
        self.assertLess(used, SECONDS)
        # All that mgc loads by itself is there.
        self.assertIn("LLVM 19", r.must("mgc env").stdout)
        self.assertIn("20", r.must("mgc watch run --once").stdout)
        r.must("apt-get purge -q -y mgc && apt-get autoremove -q -y --purge")
        self.leaves_nothing(before)

    def test_wheel(self):
        r = self.root
        r.must("apt-get install -q -y --no-install-recommends python3-venv")
        r.must("python3 -m venv /opt/venv")
        before = r.files()
        where = ("man/man1/mgc.1", "man/man1/mgc-train.1", "bash-completion/completions/mgc", "zsh/site-functions/_mgc", "fish/vendor_completions.d/mgc.fish")
        r.must(f"/opt/venv/bin/pip install -q --no-index ./{os.path.basename(self.wheel)}")
        for name in where:
            self.assertTrue(os.path.exists(r.path("opt/venv/share/" + name)), name)
        mgc = "/opt/venv/bin/mgc"
        self.assertIn("arena", r.must(f"{mgc} models/llama_mini.mg --plan").stdout)
        refused = r.run(f"{mgc} models/llama_mini.mg -o none")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("error[MG0598]: no C compiler: 'cc' cannot be run", refused.stderr)
        self.assertIn("apt-get install gcc libc6-dev", refused.stderr)
        r.must("apt-get install -q -y --no-install-recommends gcc")
        refused = r.run(f"{mgc} models/llama_mini.mg -o none")
        self.assertIn("error[MG0599]", refused.stderr)
        r.must("apt-get install -q -y --no-install-recommends libc6-dev")
        with open(r.path("work/it.py"), "w", encoding="utf-8") as f:
            f.write("import mgc\n"
                    "program = mgc.compile('models/llama_mini.mg', D={'layers': 2})\n"
                    f"run = program.build('small').run(data='{TEXT}', steps=3, out='small-run')\n"
                    "print([line['loss'] for line in run if 'loss' in line])\n"
                    "print(mgc.version(), mgc.load(run.checkpoints()[-1]).shape('model.embed_tokens.weight'))\n")
        said = r.must("/opt/venv/bin/python it.py").stdout
        self.assertEqual(said.count(","), 3, said)
        self.assertIn("3", r.must(f"{mgc} watch small-run --once").stdout)
        r.must("/opt/venv/bin/pip uninstall -q -y mgc-compiler")
        self.leaves_nothing(before, "opt/")


if __name__ == "__main__":
    unittest.main()
