"""The bytes that a rank sends in a step, and holds of the model, against closed formulas: gpt2_124m and llama7b over
eight and four devices. P: parameters; M: microbatches; n: ranks, each of which sends (n - 1) / n of a tensor to gather
or to scatter it, and twice that to add it up whole."""

import json

import mgctest

M, FLOAT, HALF = 4, 4, 2
DP, TP = "    batch -> dp\n", "    {heads}, ffn, vocab -> tp\n"
Z1, Z2, Z3 = "    state -> dp\n", "    state, grads -> dp\n", "    state, grads, params -> dp\n"


class Model:
    """whole: elements of the tensors that eight ranks do not split, as parts would have fewer than 256 elements of a
    layer; gains: of those that do not grow with what tp splits; twice: of tables that a microbatch uses twice."""

    def __init__(self, name, layers, hidden, seq, vocab, heads, whole, gains, tables, tied):
        self.name, self.layers, self.hidden, self.seq, self.vocab = name, layers, hidden, seq, vocab
        self.heads, self.whole, self.gains, self.tables, self.tied = heads, whole, gains, tables, tied


GPT2 = Model("gpt2_124m", 12, 768, 1024, 50304, "heads", whole=(6 * 12 + 2) * 768, gains=(6 * 12 + 2) * 768,
             tables=50304 * 768, tied=True)
LLAMA = Model("llama7b", 32, 4096, 4096, 32000, "kv_heads", whole=0, gains=65 * 4096, tables=2 * 32000 * 4096, tied=False)


class Volumes(mgctest.Case):
    def plan(self, m, mesh, rules):
        self.write("l.mg", f"layout l {{\n    device b200\n    mesh {mesh}\n{rules.format(heads=m.heads)}"
                           "    microbatch 1\n    recompute none\n}\n")
        batch = M * (8 if "dp" in mesh else 1)
        r = self.mgc(mgctest.model(m.name + ".mg"), "--layout", "./l.mg", "-D", f"batch={batch}", "-D", f"vocab={m.vocab}",
                     "--precision", "f32", "--plan=json")
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def sends(self, plan, **want):
        """All that is sent, numbers apart, by kind, in bytes."""
        sent = dict.fromkeys(("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "ring_shift"), 0)
        for v in plan["collectives"]:
            if not v["scalars"]:
                sent[v["kind"]] += v["bytes"]
            self.assertEqual(v["formula"], {"all_reduce": "2 (n - 1) / n B", "ring_shift": "B / n"}.get(v["kind"], "(n - 1) / n B"))
        self.assertEqual(sent, dict(dict.fromkeys(sent, 0), **want))

    def holds(self, plan, whole, split, n):
        """Of params, grads and optimizer: those in `split` on an n-th of the ranks, but for `whole` elements."""
        p = plan["params"]
        for what, each in (("params", 1), ("grads", 1), ("optimizer", 2)):
            part = (p - whole) // n + whole if what in split else p
            # At the moment of the peak a small gradient may be there twice, beside its sum over ranks.
            self.assertAlmostEqual(plan["memory"][what], each * part * FLOAT, delta=1 << 16 if what == "grads" else 0, msg=what)

    def test_data_parallel(self):
        for m in (GPT2, LLAMA):
            plan = self.plan(m, "dp = 8", DP)
            self.sends(plan, all_reduce=2 * 7 * plan["params"] * FLOAT // 8)
            self.holds(plan, 0, (), 8)

    def test_zero_1(self):
        """Once a step."""
        for m in (GPT2, LLAMA):
            plan = self.plan(m, "dp = 8", DP + Z1)
            split = 7 * (plan["params"] - m.whole) * FLOAT // 8
            self.sends(plan, reduce_scatter=split, all_gather=split, all_reduce=2 * 7 * m.whole * FLOAT // 8)
            self.holds(plan, m.whole, ("optimizer",), 8)

    def halves(self, precision, mesh, rules):
        with open(mgctest.model("llama7b.mg"), encoding="utf-8") as f:
            self.write("halves.mg", f.read().replace("    clip      1.0", f"    clip      1.0\n    precision {precision}"))
        self.write("l.mg", f"layout l {{\n    device b200\n    mesh {mesh}\n{rules.format(heads='kv_heads')}    microbatch 1\n"
                           "    recompute none\n}\n")
        r = self.mgc("./halves.mg", "--layout", "./l.mg", "-D", f"batch={8 * M}", "--plan=json")
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def test_sums_in_halves(self):
        """Parts of gradients that are rounded are added up once a step as well, in halves; to the nearest likewise, and once a
        microbatch under ZeRO 2. Sums take half of the bytes."""
        for rule, mesh, rules in (("bf16", "dp = 8", DP), ("bf16", "dp = 8", DP + Z1), ("bf16", "dp = 4, tp = 2", DP + TP),
                                  ("bf16", "dp = 8", DP + Z2), ("bf16_nearest", "dp = 8", DP), ("bf16_nearest", "dp = 8", DP + Z1),
                                  ("bf16_nearest", "dp = 8", DP + Z2), ("bf16_nearest", "dp = 4, tp = 2", DP + TP)):
            plan = self.halves(f"bf16(reduce = {rule})", mesh, rules)
            n, split = (4, 2) if "tp" in mesh else (8, 1)
            of_dp = sum(v["bytes"] for v in plan["collectives"] if v["axis"] == "dp" and not v["scalars"] and v["kind"] != "all_gather")
            each = (plan["params"] - LLAMA.gains) // split + LLAMA.gains
            times = M if Z2 in rules else 1 if Z1 in rules else 2
            self.assertEqual(of_dp, times * (n - 1) * each * HALF // n)
            if rules == DP:
                wide = self.halves("bf16", mesh, rules)["memory"]["grads"]
                self.assertAlmostEqual(2 * plan["memory"]["grads"], wide, delta=1 << 16)

    def test_gathers_in_8_bits(self):
        """What layers read in fp8 is gathered as it was rounded: once a step where state alone is split, twice a microbatch where
        parameters are; halves that they are rounded of lie in parts. The head is gathered in halves, the table and gains in f32,
        as they are updated."""
        table = LLAMA.tables // 2
        for rules, layers, head, wide in ((Z1, 1, 1, 1), (Z2, 1, 1, 1), (Z3, 2 * M, M, 0)):
            for kept in ("", "(master = bf16)"):
                plan = self.halves(f"fp8{kept}", "dp = 8", DP + rules)
                matrices = plan["params"] - 2 * table - LLAMA.gains
                sent = sum(v["bytes"] for v in plan["collectives"] if v["kind"] == "all_gather" and not v["scalars"])
                least = 7 * (layers * matrices + head * HALF * table) // 8
                self.assertGreaterEqual(sent, least)
                # The table, and gains of layers forward and backward.
                self.assertLessEqual(sent, least + 7 * max(wide, M) * FLOAT * (table + 3 * LLAMA.gains) // 8)

    def test_zero_2(self):
        """Gradients once a microbatch; a table that is looked up and multiplied by has two."""
        for m in (GPT2, LLAMA):
            plan = self.plan(m, "dp = 8", DP + Z2)
            split = 7 * (plan["params"] - m.whole) * FLOAT // 8
            again = 7 * m.tables * FLOAT // 8 if m.tied else 0
            self.sends(plan, reduce_scatter=M * (split + again), all_gather=split,
                       all_reduce=2 * 7 * m.whole * FLOAT // 8)

    def test_zero_3(self):
        """Parameters twice a microbatch, those outside of layers once."""
        plan = self.plan(LLAMA, "dp = 8", DP + Z3)
        split = 7 * plan["params"] * FLOAT // 8
        once = 7 * (LLAMA.tables + LLAMA.hidden) * FLOAT // 8
        self.sends(plan, reduce_scatter=M * split, all_gather=M * (2 * split - once))
        self.holds(plan, 0, ("params", "grads", "optimizer"), 8)
        self.assertLess(plan["exposed_comm_ms"], sum(v["ms"] for v in plan["collectives"]) / 10)

    def test_tensor_parallel(self):
        """Four reductions a layer, and two for the table and the head; three numbers a target for the loss."""
        for m in (GPT2, LLAMA):
            plan = self.plan(m, "tp = 4", TP)
            stream = m.seq * m.hidden * FLOAT
            self.sends(plan, all_reduce=2 * 3 * M * ((4 * m.layers + 2) * stream + 3 * m.seq * FLOAT) // 4)

    def test_sequence_parallel(self):
        """Four scatters and six gathers a layer: the inputs of split products are kept in parts."""
        for m in (GPT2, LLAMA):
            plan = self.plan(m, "tp = 4", TP + "    seq -> tp\n")
            stream, numbers = m.seq * m.hidden * FLOAT, m.seq * FLOAT
            self.sends(plan, reduce_scatter=3 * M * ((4 * m.layers + 2) * stream + 2 * numbers) // 4,
                       all_gather=3 * M * ((6 * m.layers + 2) * stream + 2 * numbers) // 4,
                       all_reduce=2 * 3 * (M * numbers + m.gains * FLOAT) // 4)
            if m is LLAMA:
                self.holds(plan, m.gains, ("params", "grads", "optimizer"), 4)

    def test_context_parallel(self):
        """A layer's keys and values go round once forward; backward again, and so do their gradients. Positions that are
        learned lie as the sequence does: nobody else has a gradient of them."""
        for m in (GPT2, LLAMA):
            for order in (" (ring)", " (ring, zigzag)"):
                plan = self.plan(m, "cp = 4", f"    seq -> cp{order}\n")
                keys_and_values = 2 * m.seq * m.hidden * FLOAT
                alike = plan["params"] - (m.seq * m.hidden if m is GPT2 else 0)
                self.sends(plan, ring_shift=3 * M * m.layers * 3 * keys_and_values // 4, all_reduce=2 * 3 * alike * FLOAT // 4)

    def test_exchange_of_heads(self):
        """Queries, keys, values and results change places once forward; backward the results again, their gradients and
        those of the other three. What attention reads is kept as it was exchanged."""
        for m in (GPT2, LLAMA):
            plan = self.plan(m, "cp = 4", "    seq -> cp (heads)\n")
            queries = m.seq * m.hidden * FLOAT
            alike = plan["params"] - (m.seq * m.hidden if m is GPT2 else 0)
            self.sends(plan, all_to_all=3 * M * m.layers * 9 * queries // 16, all_reduce=2 * 3 * alike * FLOAT // 4)
            self.assertEqual(plan["context"], [{"dim": "seq", "axes": "cp", "attention": "heads"}])

    def test_experts(self):
        """Rows go to their experts and back, and so do gradients: four times all slots. Where experts are, gradients are weighed, and
        those of weights made: two numbers a slot are sent for that, and no row of what experts give is sent a second time."""
        layers, experts, slot, hidden = 4, 8, 40, 128
        for n in (2, 4, 8):
            self.write("l.mg", f"layout l {{\n    device b200\n    mesh ep = {n}\n    experts -> ep\n    batch -> ep\n    microbatch 1\n"
                               "    recompute none\n}\n")
            for precision, size in (("f32", FLOAT), ("bf16", HALF)):
                r = self.mgc(mgctest.model("mixtral_mini.mg"), "--layout", "./l.mg", "-D", f"batch={M * n}", "--precision", precision,
                             "--pieces=none", "--plan=json")
                self.assertEqual(r.returncode, 0, r.stderr)
                sent = [v for v in json.loads(r.stdout)["collectives"] if v["kind"] == "all_to_all"]
                self.assertEqual(sum(v["count"] for v in sent), 6 * M * layers)
                self.assertEqual(sum(v["bytes"] for v in sent),
                                 (n - 1) * M * layers * experts * slot * (4 * hidden * size + 2 * FLOAT) // n)

    def test_experts_once(self):
        """Over machines a position's row goes once to each: x and the gradient of what experts give are gathered, and what they give, and the
        gradient of x, scattered; within a machine all slots go four times, as without. Beside them five numbers a choice are gathered
        (its expert and slot in both parts, its weight), and the gradient of its weight is scattered."""
        layers, experts, slot, hidden, seq, best = 4, 8, 40, 128, 128, 2
        for machines, n in ((2, 2), (4, 2), (2, 4)):
            self.write("l.mg", f"layout l {{\n    device b200\n    mesh node = {machines}, ep = {n}\n    experts -> node (once), ep\n"
                               "    batch -> ep, node\n    microbatch 1\n    recompute none\n}\n")
            r = self.mgc(mgctest.model("mixtral_mini.mg"), "--layout", "./l.mg", "-D", f"batch={M * n * machines}", "--precision", "f32",
                         "--pieces=none", "--plan=json")
            self.assertEqual(r.returncode, 0, r.stderr)
            sent = [v for v in json.loads(r.stdout)["collectives"] if not v["scalars"]]
            of = {k: sum(v["bytes"] for v in sent if (v["axis"], v["kind"]) == k) for k in (("ep", "all_to_all"), ("node", "all_gather"), ("node", "reduce_scatter"))}
            positions = (machines - 1) * M * layers * seq
            self.assertEqual(of, {("ep", "all_to_all"): (n - 1) * M * layers * experts * slot * (4 * hidden + 2) * FLOAT // n,
                                  ("node", "all_gather"): positions * (2 * hidden + 5 * best) * FLOAT,
                                  ("node", "reduce_scatter"): positions * (2 * hidden + best) * FLOAT})


if __name__ == "__main__":
    mgctest.main()
