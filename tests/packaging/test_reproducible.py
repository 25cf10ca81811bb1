"""The same sources in two folders of different names become the same bytes: objects in every run, packages (MGC_FULL=1) in the full one."""

import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest
import zipfile

SOURCE = os.environ["MGC_SOURCE"]
# Without a cache of compilers: its hits would be the same file twice.
ENV = {**{k: v for k, v in os.environ.items() if "COMPILER_LAUNCHER" not in k and k != "MGC_BUILD"}, "CCACHE_DISABLE": "1"}


class Twice(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mgc-twice-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE, capture_output=True, check=True)
        files = [f for f in listed.stdout.decode().split("\0") if f and os.path.isfile(os.path.join(SOURCE, f))]
        self.trees = [os.path.join(self.folder, place, "mgc") for place in ("one", "another/and/deeper")]
        for tree in self.trees:
            for f in files:
                os.makedirs(os.path.dirname(os.path.join(tree, f)), exist_ok=True)
                shutil.copyfile(os.path.join(SOURCE, f), os.path.join(tree, f))
                shutil.copymode(os.path.join(SOURCE, f), os.path.join(tree, f))

    def run_in(self, tree, *words, **env):
        r = subprocess.run(words, cwd=tree, capture_output=True, text=True, check=False, env={**ENV, **env})
        self.assertEqual(r.returncode, 0, r.stdout[-3000:] + r.stderr[-3000:])
        return r.stdout

    def same(self, paths):
        data = []
        for path in paths:
            with open(path, "rb") as f:
                data.append(f.read())
        for tree in self.trees:
            self.assertNotIn(os.path.dirname(tree).encode(), data[0] + data[1], f"{paths[0]} holds the folder of its sources")
        if data[0] != data[1] and paths[0].endswith(".whl"):
            each = [{i.filename: i.CRC for i in zipfile.ZipFile(p).infolist()} for p in paths]
            self.assertEqual([n for n in each[0] if each[0][n] != each[1].get(n)], [])
        self.assertEqual(*[hashlib.sha256(d).hexdigest() for d in data], os.path.basename(paths[0]))
        return data[0]

    def test_objects(self):
        """An archive of objects, a generated parser among them, with their debugging information."""
        for tree in self.trees:
            self.run_in(tree, "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug")
            self.run_in(tree, "ninja", "-C", "build", "mgc_base", "mgc_parse")
        self.same([f"{t}/build/base/libmgc_base.a" for t in self.trees])
        self.same([f"{t}/build/grammar/libmgc_parse.a" for t in self.trees])

    @unittest.skipUnless(os.environ.get("MGC_FULL"), "two builds of everything: in the full run")
    def test_packages(self):
        made = [self.run_in(t, "scripts/package", "deb", "wheel", SOURCE_DATE_EPOCH="1700000000", TZ=zone).split()
                for t, zone in zip(self.trees, ("UTC", "Asia/Tokyo"))]
        self.assertEqual(*[[os.path.basename(p) for p in m[-2:]] for m in made])
        for pair in zip(*(m[-2:] for m in made)):
            self.same(pair)


if __name__ == "__main__":
    unittest.main()
