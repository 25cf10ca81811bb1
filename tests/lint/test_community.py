"""What the project says to others is true: the files are there, their links lead somewhere, the commands of CONTRIBUTING.md and of
the workflows exist, each room has a row, each library a notice. The argument is the build folder."""

import os
import re
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    yaml = None

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(sys.argv.pop() if len(sys.argv) > 1 else os.path.join(SOURCE, "build"))
FILES = ["CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "THIRD_PARTY_NOTICES.md", "LICENSE", ".editorconfig",
         ".github/pull_request_template.md", "examples/README.md"]
WORKFLOWS, FORMS = ".github/workflows", ".github/ISSUE_TEMPLATE"


def text_of(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        return f.read()


def listed(*pattern):
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *pattern]
    out = subprocess.run(git, cwd=SOURCE, capture_output=True, check=True).stdout.decode()
    return sorted(f for f in out.split("\0") if f and os.path.exists(os.path.join(SOURCE, f)))


def anchors(path):
    """The names of a page's headings, as the sites that show it make them."""
    plain = re.sub(r"^```.*?^```", "", text_of(path), flags=re.M | re.S)
    found = set()
    for heading in re.findall(r"^#+ (.*)$", plain, re.M):
        name = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        name, n = re.sub(r"[^\w\- ]", "", name).strip().replace(" ", "-"), 0
        while name + (f"-{n}" if n else "") in found:
            n += 1
        found.add(name + (f"-{n}" if n else ""))
    return found


class Commands:
    """What a command line of a page or of a workflow names in this project exists."""

    def __init__(self, case):
        self.case = case

    def check(self, line):
        words = [w for w in line.split() if not re.match(r"[A-Z_]+=", w)]
        if words[0].startswith(("scripts/", ".ci/")):
            self.case.assertTrue(os.access(os.path.join(SOURCE, words[0]), os.X_OK), f"{line}: there is no such program")
            for option in words[1:]:
                if re.fullmatch(r"--[a-z]+|quick|full", option):
                    self.case.assertIn(option, text_of(words[0]), line)
        elif words[0] == "ninja":
            for target in words[3:]:
                self.case.assertRegex(self.ninja(), rf"(?m)^{re.escape(target)}: ", line)
        elif words[0] == "ctest":
            self.case.assertEqual(words[1:4], ["--test-dir", "build", "-R"])
            out = self.run("ctest", "--test-dir", BUILD, "-N", "-R", words[4])
            self.case.assertGreater(int(re.search(r"Total Tests: (\d+)", out).group(1)), 0, line)
        elif words[0] == "python3":
            self.case.assertTrue(os.path.exists(os.path.join(SOURCE, words[1])), line)
        else:
            self.case.assertIn(words[0], ("cmake", "cpack", "apt-get", "git", "mkdir", "cat", "cd", "mgc", "./train"), line)

    def ninja(self):
        return self.run("ninja", "-C", BUILD, "-t", "targets", "all")

    def run(self, *argv):
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


class Community(unittest.TestCase):
    def test_files(self):
        for path in FILES:
            self.assertGreater(os.path.getsize(os.path.join(SOURCE, path)), 200, path)
        self.assertRegex(text_of("LICENSE"), r"^\s+Apache License\n\s+Version 2\.0, January 2004")
        debian = "/usr/share/common-licenses/Apache-2.0"
        if os.path.exists(debian):
            with open(debian, encoding="utf-8") as f:
                self.assertEqual(text_of("LICENSE"), f.read())

    def test_links(self):
        """A link of a page into the project leads to a file, and to a heading of it."""
        seen = 0
        for page in sorted({*(f for f in FILES if f.endswith(".md")), *listed("examples/*.md")}):
            plain = re.sub(r"^```.*?^```|`[^`\n]*`", "", text_of(page), flags=re.M | re.S)
            for target in re.findall(r"\]\(([^)\s]+)\)", plain):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                with self.subTest(page=page, target=target):
                    self.assertTrue(os.path.exists(os.path.join(SOURCE, path)), "there is no such file")
                    if anchor:
                        self.assertIn(anchor, anchors(path))
                seen += 1
        self.assertGreater(seen, 20)

    def test_commands(self):
        lines = "\n".join(re.findall(r"^```sh\n(.*?)^```", text_of("CONTRIBUTING.md"), re.M | re.S)).split("\n")
        commands = Commands(self)
        self.assertGreater(len(lines), 8)
        for line in filter(None, lines):
            with self.subTest(line):
                commands.check(line)

    def test_site(self):
        """The site's workflow builds what the page about it says."""
        (build,) = re.findall(r"(?m)^ninja .*", text_of("docs/howto/site.md"))
        self.assertIn(build, text_of(f"{WORKFLOWS}/site.yml"))

    def test_rooms(self):
        """Every room of scripts/lint is a row of the table where a change goes."""
        table = text_of("CONTRIBUTING.md").partition("## Where a change goes")[2].partition("\n## ")[0]
        (rooms,) = re.findall(r"^MAY = \{\n(.*?)^\}", text_of("scripts/lint"), re.M | re.S)
        rooms = re.findall(r'^    "([a-z]+)":', rooms, re.M)
        self.assertGreater(len(rooms), 12)
        for room in [*rooms, "models", "examples"]:
            self.assertIn(f"`{room}/", table)
        for path in re.findall(r"`([a-z]\w*/[a-z][\w/]*/)`", table):
            self.assertTrue(os.path.isdir(os.path.join(SOURCE, path)), path)

    def test_notices(self):
        """Each library that scripts/setup installs to build mgc is in the notices."""
        notices = text_of("THIRD_PARTY_NOTICES.md").lower()
        (packages,) = re.findall(r'# to build\npackages="([^"]*)"', text_of("scripts/setup"))
        libraries = [p for p in packages.split() if p.endswith("-dev")]
        self.assertGreater(len(libraries), 8)
        for package in libraries:
            name = {"llvm-19-dev": "libllvm19", "libc6-dev": "`libc6`"}.get(package, "`" + package[:-4])
            self.assertIn(name, notices, package)


def strings(value):
    """All texts of a tree of YAML."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for v in value.values() if isinstance(value, dict) else value:
            yield from strings(v)


@unittest.skipUnless(yaml, "Python's yaml is not installed")
class Yaml(unittest.TestCase):
    def each(self, folder):
        names = sorted(n for n in os.listdir(os.path.join(SOURCE, folder)) if n.endswith(".yml"))
        self.assertTrue(names)
        return [(name, yaml.safe_load(text_of(f"{folder}/{name}"))) for name in names]

    def test_workflows(self):
        for name, flow in self.each(WORKFLOWS):
            with self.subTest(name):
                self.workflow(flow)

    def workflow(self, flow):
        """The form of a workflow, and what its steps run. (The whole form: check-jsonschema --builtin-schema vendor.github-workflows.)"""
        self.assertEqual(set(flow) - {"name", True, "permissions", "concurrency", "jobs", "env"}, set())
        self.assertTrue(set(flow[True]) <= {"push", "pull_request", "schedule", "workflow_dispatch"})
        self.assertEqual(flow["permissions"], {"contents": "read"}, "a workflow may read, a job may ask for more")
        for text in strings(flow):
            for inside in re.findall(r"\$\{\{(.*?)\}\}", text):
                self.assertRegex(inside, r"^ (github|steps|env)\.[\w.-]+ $")
        lines = []
        for job in flow["jobs"].values():
            self.assertIn("timeout-minutes", job)
            self.assertIn(job.get("needs", next(iter(flow["jobs"]))), flow["jobs"])
            container = job.get("container", "")
            self.assertIn(container["image"] if isinstance(container, dict) else container, ("", "debian:12"))
            for step in job["steps"]:
                self.assertEqual(("run" in step) + ("uses" in step), 1, step)
                self.assertRegex(step.get("uses", "actions/a@v1"), r"^actions/[\w-]+@v\d+$")
                self.assertEqual(subprocess.run(["sh", "-n"], input=step.get("run", "").encode(), check=False).returncode, 0)
                lines += [line.strip() for line in re.split(r"\n|&&", step.get("run", "")) if line.strip()]
        for script in (line.split()[0] for line in lines if line.startswith("scripts/")):
            if not os.path.exists(os.path.join(SOURCE, script)):
                self.skipTest(f"{script} is not in this tree")
        for line in lines:
            Commands(self).check(line)

    def test_forms(self):
        seen = 0
        for name, form in self.each(FORMS):
            if name == "config.yml":
                self.assertEqual(set(form), {"blank_issues_enabled"})
                continue
            self.assertEqual(set(form), {"name", "description", "labels", "body"})
            ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
            self.assertEqual(len(ids), len(set(ids)))
            self.assertTrue(any(part.get("validations", {}).get("required") for part in form["body"]))
            for part in form["body"]:
                self.assertIn(part["type"], ("markdown", "textarea", "input", "dropdown", "checkboxes"))
                self.assertIn("value" if part["type"] == "markdown" else "label", part["attributes"])
                self.assertEqual("options" in part["attributes"], part["type"] in ("dropdown", "checkboxes"))
            seen += 1
        self.assertGreaterEqual(seen, 3)


if __name__ == "__main__":
    unittest.main()
