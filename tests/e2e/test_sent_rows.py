"""Rows of experts that are sent to the ranks of their experts (`experts -> ep (rows)`): against one rank, and, where a bound drops
rows, against capacity, which drops the same where each rank has one expert; what is dropped is counted."""

import re

import mgctest
from test_dropless import MIXTRAL, tensors


class Sent(mgctest.Case):
    def setUp(self):
        super().setUp()
        with open(MIXTRAL, encoding="utf-8") as f:
            text = f.read().replace("slot = 12", "slot = seq")
        self.slots = re.sub(r"(?s)optimizer .*?\n", "optimizer sgd(momentum = 0.9)\n", text, count=1).replace("precision f32", "precision f64")
        self.rows = mgctest.dropless(self.slots)
        self.text(6000)

    def sends(self, name, options, *, word="rows", **dims):
        """The model in sorted rows, which are sent as the rule says."""
        self.write(f"{name}.mg", self.rows.replace("experts              -> ep", f"experts              -> ep ({word})"))
        self.compiles(f"{name}.mg", *(a for d in options for a in ("-D", d)), "--microbatch", dims.get("microbatch", 1),
                      "--recompute", dims.get("recompute", "auto"), "-o", name)
        return self.trained(name)

    def trained(self, name, steps=4):
        """Losses, parameters and the shares of rows that were dropped."""
        r = self.run_program(f"./{name}", "--data", "text1.txt", "--steps", steps, "--log-every", 1, "--out", f"run-{name}")
        self.assertEqual(r.returncode, 0, r.stderr[-2000:])
        lines = [m for m in self.metrics(f"run-{name}") if "loss" in m]
        return [m["loss"] for m in lines], tensors(self.read(f"run-{name}/ckpt/step-{steps:08}/model.safetensors")), [m.get("dropped") for m in lines]

    def near(self, a, b, bound=1e-12):
        for x, y in zip(a[0], b[0], strict=True):
            self.assertLess(abs(x - y), bound * abs(x))
        size = max(map(abs, a[1]))
        self.assertLess(max(abs(x - y) for x, y in zip(a[1], b[1], strict=True)), bound * size)

    def one(self, text, *options):
        self.write("one.mg", text)
        self.compiles("one.mg", *options, "-o", "one")
        return self.trained("one")

    def test_all(self):
        """Without a bound nothing is dropped: losses and parameters of one rank, in any layout."""
        one = self.one(self.rows)
        for layout in mgctest.some((("ep=2",), ("ep=4",), ("dp=2", "ep=2"), ("ep=2", "tp=2"), ("ep=2", "cp=2"), ("pp=2", "ep=2")), 3):
            with self.subTest(layout=layout):
                sent = self.sends("sent", layout, recompute="all" if layout == ("ep=4",) else "auto")
                self.near(one, sent)
                self.assertEqual(sent[2], [None] * 4)

    def test_once(self):
        """Rows that are sent once to each machine, slots of a capacity and sorted rows: losses and parameters of one rank."""
        more = ("node = 2, ep = 2;experts -> node (once), ep{};batch -> ep, node;state -> node, ep",
                "node = 2, ep = 2;experts -> node (once), ep{};batch -> ep, node;recompute all",
                "dp = 2, node = 2, ep = 2;experts -> node (once), ep{};batch -> dp, ep, node;state, grads, params -> dp",
                "node = 2, dp = 2, ep = 2;experts -> node (once), ep{};batch -> dp, ep, node",
                "node = 2, ep = 2, tp = 2;experts -> node (once), ep{};batch -> ep, node;kv_heads, ffn, vocab -> tp;seq -> tp",
                "pp = 2, node = 2, ep = 2;experts -> node (once), ep{};batch -> ep, node;layers -> pp (schedule = 1f1b)")
        for text, word in ((self.slots, ""), (self.rows, " (rows)")):
            one = self.one(text, "-D", "batch=8")
            for k, layout in enumerate(mgctest.some(more, 3)):
                with self.subTest(layout=layout, word=word):
                    self.write("m.mg", text)
                    self.write("l.mg", "layout l {\n    mesh " + layout.format(word).replace(";", "\n    ") + "\n    microbatch 1\n}\n")
                    self.compiles("m.mg", "--layout", "./l.mg", "-D", "batch=8", "-o", f"once{k}")
                    self.near(one, self.trained(f"once{k}"))

    def test_bound(self):
        """A rank with one expert takes the rows that an expert with as many slots takes; the rest is dropped and counted."""
        for bound, slots in mgctest.some(((1, 12), (1.25, 15), (1.5, 18)), 2):
            with self.subTest(bound=bound):
                one = self.one(self.slots.replace("slot = seq", f"slot = {slots}"))
                sent = self.sends("sent", ("ep=4",), word=f"rows, bound = {bound}")
                self.near(one, sent)
                self.assertTrue(all(0 < x < 0.5 for x in sent[2]), sent[2])
                again = self.sends("again", ("ep=4",), word=f"rows, bound = {bound}", recompute="all")
                self.assertEqual(again[2], sent[2])
                self.near(again, sent)
        wide = self.sends("wide", ("ep=4",), word="rows, bound = 9")  # as many as there may be: none is counted
        self.near(self.one(self.rows), wide)
        self.assertEqual(wide[2], [None] * 4)

    def test_two_experts(self):
        """Two experts a rank share its places: microbatches, threads and the axes of data change nothing of what is dropped."""
        first = self.sends("first", ("ep=2",), word="rows, bound = 1", microbatch=2)
        self.assertTrue(all(0 < x < 0.5 for x in first[2]), first[2])
        other = self.sends("other", ("ep=2", "dp=2"), word="rows, bound = 1")
        self.near(first, other)
        for x, y in zip(first[2], other[2], strict=True):
            self.assertAlmostEqual(x, y, delta=1e-12)

    def test_plan(self):
        """--plan says what is sent; either way may be asked for."""
        for word, says in (("rows", "rows are sent on ep, 24 places"), ("rows, bound = 1.5", "18 places of a group on each rank, others are dropped")):
            self.write("m.mg", self.rows.replace("experts              -> ep", f"experts              -> ep ({word})"))
            self.assertIn(says, self.compiles("m.mg", "-D", "ep=4", "--microbatch", 1, "--plan").out)
        self.write("l.mg", "layout l {\n    mesh node = 2, ep = 2\n    experts -> node (once), ep (rows)\n    batch -> ep, node\n    microbatch 1\n}\n")
        self.assertRegex(self.compiles("m.mg", "--layout", "./l.mg", "--plan").out, "experts +experts: rows are sent once on node, and rows are sent on ep, 24 places of a group on each rank")
        self.write("m.mg", self.rows)
        self.assertRegex(self.compiles("m.mg", "-D", "ep=4", "--microbatch", 1, "--plan").out, "experts +experts: (rows are sent|matrices are gathered) on ep.*by plans")

    def test_refused(self):
        for rule, what in (("experts -> ep (rows, bound = 0.5)", r"MG0348.*bound = 0.5: a rank would take 0.5 of each 1 row"),
                           ("experts -> ep (bound = 2)", "MG0348.*a bound of what is not sent"),
                           ("experts -> ep (rows, gather)", "MG0348.*'gather' beside 'rows'"),
                           ("experts -> ep (rows, zigzag)", "MG0348.*'zigzag' beside 'rows'"),
                           ("experts -> ep, tp (rows)", "MG0348.*more than one axis"),
                           ("batch -> ep (rows)", "MG0348.*no grouped product")):
            with self.subTest(rule=rule):
                self.write("m.mg", self.rows.replace("experts              -> ep", rule))
                r = self.mgc("m.mg", "-D", "ep=2", "-D", "tp=2", "--microbatch", 1, "--check")
                self.assertNotEqual(r.returncode, 0)
                self.assertRegex(r.err, what)
        for mesh, rules, slots, what in (
                ("node = 2, ep = 2", "hidden -> node (once), ep;batch -> ep, node", True, "MG0348.*rows of 'hidden' are not sent once over node: nothing is dispatched"),
                ("node = 2, ep = 2", "state -> node (once)", True, "MG0348.*'once' in a rule for 'state'"),
                ("node = 2, ep = 2", "batch -> ep, node;experts -> node (once), ep", True, "MG0348.*the rule of 'batch' takes the axis before"),
                ("ep = 2, node = 2", "experts -> ep, node (once);batch -> ep, node", True, "MG0348.*split over another axis outside of it"),
                ("node = 2, ep = 2", "experts -> node (once), ep;batch -> node, ep", True, "MG0348.*'batch' is split over it outside of other axes(?s:.*)help: batch -> ep, node"),
                ("node = 2, ep = 2", "experts -> node (once), ep;batch -> ep", True, "MG0348.*no rule splits positions over node, and each of its 2 ranks"),
                ("node = 2, ep = 2", "experts -> node (once), ep;batch -> ep, node", False, r"MG0348.*sorted by expert, and no axis of the rule says `\(rows\)`"),
                ("node = 2, ep = 2, tp = 2", "experts -> node (once), ep (rows), tp;batch -> ep, node", False, "MG0348.*more than one axis besides"),
                ("node = 2, ep = 2", "experts -> ep, node;batch -> ep, node", True, "MG0339.*names 'ep' before 'node'")):
            with self.subTest(rules=rules):
                self.write("m.mg", self.slots if slots else self.rows)
                self.write("l.mg", f"layout l {{\n    mesh {mesh}\n    " + rules.replace(";", "\n    ") + "\n    microbatch 1\n}\n")
                r = self.mgc("m.mg", "--layout", "./l.mg", "-D", "experts=8", "--check")
                self.assertNotEqual(r.returncode, 0)
                self.assertRegex(r.err, what)
        looks = self.rows.replace("return combine(y", "y = y + mean(y, over rows)\n    return combine(y")
        self.write("m.mg", looks.replace("experts              -> ep", "experts              -> ep (rows)"))
        self.assertRegex(self.mgc("m.mg", "-D", "ep=2", "--microbatch", 1, "--check").err, "MG0348.*it looks at rows by their places")
        self.write("m.mg", looks)  # where nothing is said, matrices are gathered
        self.compiles("m.mg", "-D", "ep=2", "--microbatch", 1, "--check")


if __name__ == "__main__":
    mgctest.unittest.main()
