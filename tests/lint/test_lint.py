#!/usr/bin/env python3
"""Each rule of scripts/lint finds what breaks it: violations are planted in a copy of the tree, and in a
copy of its objects.

    tests/lint/test_lint.py BUILD
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(sys.argv.pop())

# A violation: a file, the text appended to it or the text of a new file, and lint's message.
PLANTED = [
    ("passes/walk.c", '#include "plan/plan.h"\n', 'passes/ may not include "plan/plan.h"'),
    ("base/arena.c", '#include "ir/ir.h"\n', 'base/ may not include "ir/ir.h"'),
    ("plan/check/check.c", '#include "plan/schedule/schedule.h"\n', 'plan/check/ may not include "plan/schedule/schedule.h"'),
    ("plan/check/check_run.c", '#include "passes/view.h"\n', 'plan/check/ may not include "passes/view.h"'),
    ("plan/volume.c", '#include "decide/frontier.h"\n', 'plan/ may not include "decide/frontier.h"'),
    ("codegen/link/link.c", '#include "compiler/session.h"\n', 'codegen/ may not include "compiler/session.h"'),
    ("runtime/train.c", '#include "ir/ir.h"\n', 'runtime/ may not include "ir/ir.h"'),
    ("kernels/gemm.c", '#include "runtime/run.h"\n', 'kernels/ may not include "runtime/run.h"'),
    ("ir/copy.c", '#include "ir.h"\n', '"ir.h" is not written from the root of the project'),
    ("ir/build.c", '#include "ir/gone.h"\n', '"ir/gone.h" does not exist'),
    ("ir/walk.c", "/* TO" "DO: later */\n", "unfinished: "),
    ("ir/cost.c", "/* " "What it costs. */\n", "a comment begins with its subject"),
    ("ir/mesh.h", "/* It costs little.\n *\n * Where it does not, it waits. */\n", "a comment begins with its subject"),
    ("ir/mesh.c", "int spaced; \n", "space at the end of the line"),
    ("grammar/expr.c", "void leave(void) { exit(1); }\n", "only compiler/main.c ends the process"),
    ("plan/times.c", "\n" * 600, "600 are the limit"),
    ("plan/new.c", "int x;\n", "plan/new.c:1: a file begins by saying what it is"),
    ("attic/old.c", "/* old.c - of no room. */\n", "attic/ is no room"),
    ("compiler/errors.def", 'ERROR(199, "never reported", "")\n', "nothing reports MG0199"),
    ("runtime/options.def", 'OPTION_FLAG(x, "Run", "x", "", "in each round")\n', "'round' is no word of docs/glossary.md"),
    ("grammar/scope.c", 'void told(Diag *d, Span s) { diag_error(d, s, 198, "no row"); }\n', "MG0198 has no row"),
    ("docs/plan.md", "`plan/gone.c` does it.\n", "there is no plan/gone.c"),
    ("scripts/lint", None, "decide/ may include grammar/, and does not"),
]

# New objects: their folder in the build, the source they stand for, its text, and what lint has to say.
OBJECTS = [
    ("plan/CMakeFiles/mgc_check.dir/check/", "plan/check/check_planted.c",
     "/* check_planted.c - asks the planner behind the headers' back. */\nint plan_times(void *);\n"
     "int check_planted(void *p);\nint check_planted(void *p)\n{\n    return plan_times(p);\n}\n",
     "plan/check/check_planted.c: plan/check/ may not call plan_times of plan/times.c"),
    ("ir/CMakeFiles/mgc_ir.dir/", "ir/planted.c",
     "/* planted.c - asks a pass. */\nint pass_find(const char *);\nint planted(void);\n"
     'int planted(void)\n{\n    return pass_find("fuse");\n}\n',
     "ir/planted.c: ir/ may not call pass_find of passes/run.c"),
    ("base/CMakeFiles/mgc_base.dir/", "base/twice.c",
     "/* twice.c - defines what another room does. */\nint passes_run(const char *n);\n"
     "int passes_run(const char *n)\n{\n    return n != 0;\n}\n",
     "passes_run is defined in base/twice.c and in passes/run.c"),
]
HEADER = ("base/arena.h", "int last_uses(const char *name);\n",
          "base/arena.h declares last_uses, which is defined in ")


def copy_tree(to):
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                           capture_output=True, check=True).stdout.decode().split("\0")
    for name in names:
        if name and os.path.isfile(os.path.join(ROOT, name)):
            os.makedirs(os.path.dirname(os.path.join(to, name)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, name), os.path.join(to, name))
    subprocess.run(["git", "init", "-q"], cwd=to, check=True)


def lint(root, *options, program=None):
    done = subprocess.run([sys.executable, program or os.path.join(root, "scripts", "lint"), *options], cwd=root,
                          env={**os.environ, "MGC_LINT_ROOT": root}, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class Lint(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.tree)
        copy_tree(self.tree)

    def plant(self, path, text):
        path = os.path.join(self.tree, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a", encoding="utf-8") as f:
            f.write(text)

    def test_the_tree_is_clean(self):
        self.assertEqual(lint(self.tree, "--build", BUILD), (0, ""))

    def test_violations_of_the_text(self):
        for path, text, _ in PLANTED:
            if text:
                self.plant(path, text)
        table = os.path.join(self.tree, "scripts", "lint")
        with open(table, encoding="utf-8") as f:
            rows = f.read()
        with open(table, "w", encoding="utf-8") as f:
            f.write(rows.replace('"decide": [', '"decide": ["grammar/", '))
        code, out = lint(self.tree)
        self.assertEqual(code, 1)
        for path, _, said in PLANTED:
            with self.subTest(path):
                self.assertTrue(any(said in line and path in line for line in out.splitlines()), f"{said}\n--\n{out}")

    def test_violations_of_the_symbols(self):
        build = os.path.join(self.tree, "objects")
        for folder, source, text, _ in OBJECTS:
            self.plant(source, text)
            os.makedirs(os.path.join(build, folder), exist_ok=True)
            subprocess.run(["cc", "-c", os.path.join(self.tree, source), "-o",
                            os.path.join(build, folder, os.path.basename(source) + ".o")], check=True)
        for room in ("plan", "passes"):  # those that are called
            for folder, _, files in os.walk(os.path.join(BUILD, room)):
                for f in files:
                    to = os.path.join(build, os.path.relpath(folder, BUILD))
                    if f.endswith(".o"):
                        os.makedirs(to, exist_ok=True)
                        shutil.copy2(os.path.join(folder, f), to)
        self.plant(HEADER[0], HEADER[1])
        code, out = lint(self.tree, "--build", build)
        self.assertEqual(code, 1)
        for said in [said for *_, said in OBJECTS] + [HEADER[2]]:
            with self.subTest(said):
                self.assertIn(said, out)

    def test_no_objects(self):
        code, out = lint(self.tree, "--build", os.path.join(self.tree, "nothing"))
        self.assertEqual(code, 1)
        self.assertIn("there are no objects", out)


if __name__ == "__main__":
    unittest.main()
