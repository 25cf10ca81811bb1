"""README.md is short, begins with the two commands, and shows the model that is shipped. (Its commands and links: test_docs*.py.)"""

import os
import re
import unittest

import mgctest
from mgctest import SOURCE


def text_of(page):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
        return f.read()


class Readme(mgctest.Case):
    def test_is_short_and_begins_with_two_commands(self):
        text = text_of("README.md")
        self.assertLessEqual(text.count("\n"), 120)
        self.assertEqual(re.findall(r"(?m)^\S+", re.search(r"(?ms)^```sh\n(.*?)^```", text)[1]), ["scripts/demo", "scripts/test"])
        for picture in re.findall(r'(?:srcset|src)="([^"]+)"', text):
            self.assertLess(os.path.getsize(os.path.join(SOURCE, picture)), 64 << 10)

    def test_model(self):
        (shown,) = re.findall(r"(?ms)^```mg\n(.*?)^```", text_of("README.md"))
        shipped = re.sub(r"(?m)^#.*\n", "", text_of("models/mlp.mg"))
        self.assertTrue(shipped.startswith(shown), "the model of README.md is models/mlp.mg")


if __name__ == "__main__":
    mgctest.main()
