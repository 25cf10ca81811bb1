"""mgc search, mgc scale and `layout auto`: what is found is the fastest of all that is planned one by one, the same every time,
and the compiler takes the text that is told."""

import csv
import fcntl
import json
import os
import re
import signal
import subprocess
import time
import xml.etree.ElementTree
from html.parser import HTMLParser

import mgctest

MODEL = """dim layers = 4, hidden = 64, kv_heads = 4, group = 1, head = 16, ffn = 128
dim vocab = 256, seq = 64, batch = 16

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(0.02) as "q_proj.weight"
    wk : param[hidden, kv_heads, head]        ~ normal(0.02) as "k_proj.weight"
    wv : param[hidden, kv_heads, head]        ~ normal(0.02) as "v_proj.weight"
    wo : param[kv_heads, group, head, hidden] ~ normal(0.02) as "o_proj.weight"
    q = rope(x @ wq over hidden, along seq, over head, theta = 10000)
    k = rope(x @ wk over hidden, along seq, over head, theta = 10000)
    mixed = attention(q, k, x @ wv over hidden, along seq, over head, causal)
    return mixed @ wo over (kv_heads, group, head)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.02) as "up_proj.weight"
    down : param[ffn, hidden] ~ normal(0.02) as "down_proj.weight"
    return silu(x @ up over hidden) @ down over ffn
}

model mini(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    x = embed[tokens]
    repeat layers as "layers.{}" {
        x = x + attend(norm(x) as "norm1") as "attn"
        x = x + mlp(norm(x) as "norm2") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(0.02) as "unembed.weight"
    loss = cross_entropy(x @ unembed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 1e-3, warmup = 5, steps = 50, floor = 1e-4)
    clip      1.0
    precision bf16
}
"""

RULES = """
layout {
    device cpu
    mesh   data = 1, tensor = 1
    batch                -> data
    kv_heads, ffn, vocab -> tensor
}
"""

SMALL = ("--device", "h100", "--ranks", "2", "--microbatch", "4")


def one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.data = ""

    def handle_data(self, data):
        self.data += data


@mgctest.in_turns_of(2)
class Search(mgctest.Case):
    def setUp(self):
        super().setUp()
        self.write("m.mg", MODEL)

    def mgc(self, *argv, **more):
        """Dozens of plans, of which a machine that others use makes one in some seconds."""
        return super().mgc(*argv, **{"timeout": 900, **more})

    def points(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))

    def layout_of(self, out):
        return re.search(r"(?m)^layout \w+ \{\n(?:    .*\n)+\}\n", out)[0]

    def step(self, *argv):
        return json.loads(self.compiles("m.mg", *argv, "--plan=json").out)["step_ms"] / 1e3

    def test_best_of_all(self):
        """The best is within 0.5% of the fastest of all whole plans, bounds are below plans, and what bounds leave out is slower."""
        some = self.compiles("search", "m.mg", *SMALL, "--points", "some.tsv")
        self.compiles("search", "m.mg", *SMALL, "--exhaustive", "--points", "all.tsv")
        chosen, every = self.points("some.tsv"), self.points("all.tsv")
        self.assertEqual([p["layout"] for p in chosen], [p["layout"] for p in every])
        planned = [p for p in every if p["state"] == "whole plan"]
        self.assertGreater(len(planned), 10)
        self.assertEqual({p["state"] for p in every} - {"whole plan", "refused"}, set())
        best = min(float(p["whole_s"]) for p in planned)
        found = min(float(p["whole_s"]) for p in chosen if p["state"] == "whole plan")
        self.assertLessEqual(found, best * 1.005)
        for p, q in zip(chosen, every):
            if q["state"] == "whole plan":
                self.assertLessEqual(float(q["bound_s"]), float(q["whole_s"]), q["layout"])
                self.assertLessEqual(int(q["bound_bytes"]), int(q["whole_bytes"]), q["layout"])
                self.assertGreater(int(q["bound_bytes"]), 10 * 4 * 64 * 128)  # what a layer's matrices have, split in two
            if p["state"] == "slower by a bound":
                self.assertGreaterEqual(float(q["whole_s"]), found, q["layout"])
            if p["state"] == "whole plan":
                self.assertEqual(p["whole_s"], q["whole_s"], p["layout"])
        self.assertIn(f"{len(every)} layouts", some.out)

    def test_text(self):
        """The text that is told is a layout with the step that is told, which -o writes, too; one core finds the same."""
        r = self.compiles("search", "m.mg", *SMALL, "-o", "found.mg", "--points", "p.tsv", "--report", "page.html")
        text = self.read("found.mg").decode()
        self.assertEqual(self.layout_of(r.out), text)
        best = min(float(p["whole_s"]) for p in self.points("p.tsv") if p["state"] == "whole plan")
        self.assertAlmostEqual(self.step("--layout", "found.mg") / best, 1, delta=1e-6)
        self.write("m.mg", MODEL + "\n" + text)
        self.assertAlmostEqual(self.step("--layout", "found") / best, 1, delta=1e-6)
        self.assertEqual(self.compiles("m.mg", "--layout", "found", "--check").returncode, 0)
        page = Page()
        page.feed(self.read("page.html").decode())
        self.assertIn(text, page.data)
        svg = re.search(r"(?s)<svg.*</svg>", self.read("page.html").decode())[0]
        dots = [e for e in xml.etree.ElementTree.fromstring(svg) if e.tag == "circle"]
        fits = [p for p in self.points("p.tsv") if p["state"] in ("whole plan", "quick plan")]
        self.assertEqual(len(dots), len(fits))
        self.write("m.mg", MODEL)
        alone = self.run_program(mgctest.MGC, "search", "m.mg", *SMALL, preexec=one_core)
        self.assertEqual(alone.stdout.decode(), r.out)

    def test_template(self):
        """Rules of the file say what lies where, by their names; what they do not say is by convention."""
        self.write("m.mg", MODEL + RULES)
        r = self.compiles("search", "m.mg", *SMALL, "--exhaustive", "--points", "p.tsv")
        labels = [p["layout"] for p in self.points("p.tsv")]
        for name in ("data 2", "tensor 2", "cp 2", "pp 2"):
            self.assertTrue(any(name in label for label in labels), name)
        self.assertFalse(any(re.search(r"\b[dt]p 2", label) for label in labels))
        self.assertIn("mesh", self.layout_of(r.out))

    def test_once(self):
        """Rows go once to each machine in layouts of their own, whose axis a file may name; a machine has all ranks of experts, or none goes so."""
        with open(os.path.join(mgctest.SOURCE, "bench/published/qwen3_moe.mg"), encoding="utf-8") as f:
            model = f.read()
        sizes = ("--device", "h100", "-D", "layers=2", "-D", "hidden=256", "-D", "ffn=256", "-D", "vocab=1024", "-D", "batch=32")
        rules = """
layout wide {
    device h100
    mesh machine = 2, spot = 8
    experts -> machine (once), spot
    batch   -> spot, machine
}
"""
        label = "{0} 16 once, ZeRO 1, microbatch 1"
        for named, axes in ((), ("node", "ep")), (("--layout", "wide"), ("machine", "spot")):
            self.write("m.mg", model + rules)
            r = self.mgc("search", "m.mg", *sizes, *named, "--ranks", "16", "--search-time", "0.001", "--points", "p.tsv")
            self.assertEqual(r.returncode, 5, r.err)
            points = {p["layout"]: p for p in self.points("p.tsv")}
            self.assertEqual({p.replace(" once", "") for p in points if " once" in p} - set(points), set())
            found = points[label.format(axes[1])]["text"].replace("\\n", "\n")
            self.assertIn("    mesh {} = 2, {} = 8\n    experts -> {} (once), {}\n    batch -> {}, {}\n    state -> {}, {}\n".format(*axes, *axes, *axes[::-1], *axes), found)
            self.write("found.mg", found)
            plan = json.loads(self.compiles("m.mg", *sizes, "--layout", "found.mg", "--plan=json").out)
            self.assertEqual(plan["ranks"], 16)
        r = self.mgc("search", "m.mg", *sizes, "--ranks", "8", "--search-time", "0.001", "--points", "p.tsv")
        self.assertEqual(r.returncode, 5, r.err)
        self.assertFalse(any(" once" in p["layout"] for p in self.points("p.tsv")))

    def test_stopped(self):
        """Ctrl-C: the best so far is told, with an exit code of its own; so it is when its time is over."""
        argv = [mgctest.MGC, "search", "m.mg", "--device", "h100", "--ranks", "16", "-D", "batch=256"]
        p = subprocess.Popen(argv, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = p.stderr.readline()
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=300)
        self.assertRegex(first, r"^search 16 ranks: [\d.]+ s, \d+ plans, about \d+ s left: .* a step, ")
        self.assertEqual(p.returncode, 5, err)
        self.assertIn("The search was stopped before its end.", out)
        self.write("found.mg", self.layout_of(out))
        self.assertGreater(self.step("--layout", "found.mg"), 0)
        r = self.mgc(*argv[1:], "--search-time", "0.001")
        self.assertEqual(r.returncode, 5, r.err)
        self.assertIn("MG0693", r.err)

    def test_stopped_at_its_end(self):
        """Ctrl-C when a search has ended, and what it found is being told: all of it is told."""
        argv = [mgctest.MGC, "search", "m.mg", *SMALL]
        want = self.compiles(*argv[1:]).out
        reader, writer = os.pipe()
        full = fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ)
        os.write(writer, bytes(full))  # so that mgc waits with its first line
        p = subprocess.Popen(argv, cwd=self.dir, stdout=writer, stderr=subprocess.DEVNULL)
        os.close(writer)
        waits = 0
        while waits < 5 and p.poll() is None:
            with open(f"/proc/{p.pid}/stat", encoding="ascii") as f:
                sleeps = f.read().rsplit(")", 1)[1].split()[0] == "S"
            with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
                waits = waits + 1 if sleeps and not f.read() else 0
            time.sleep(0.1)
        p.send_signal(signal.SIGINT)
        with os.fdopen(reader, "rb") as f:
            told = f.read()[full:]
        self.assertEqual(p.wait(), 0)
        self.assertEqual(re.sub(rb"[\d.]+ s\b", b"", told), re.sub(rb"[\d.]+ s\b", b"", want.encode()))

    def test_auto(self):
        """`layout auto` is searched when it is compiled: with numbers that it gives, and all else that it says."""
        self.write("m.mg", MODEL + "\nlayout auto {\n    device h100 x 2\n    microbatch 4\n    assert peak < 70 GB\n}\n")
        r = self.compiles("m.mg", "--plan=json")
        text = self.layout_of(r.err)
        self.assertIn("    assert peak < 70 GB\n", text)
        self.assertIn("device h100 x 2", text)
        self.assertEqual(json.loads(r.out)["ranks"], 2)
        self.compiles("search", "m.mg", *SMALL, "--points", "p.tsv")
        best = min(float(p["whole_s"]) for p in self.points("p.tsv") if p["state"] == "whole plan")
        self.assertAlmostEqual(json.loads(r.out)["step_ms"] / 1e3 / best, 1, delta=1e-6)
        self.write("m.mg", MODEL + RULES + "\nlayout auto {\n    device h100 x 4\n    mesh tensor = 2\n    microbatch 4\n    offload none\n}\n")
        r = self.compiles("m.mg", "--layout", "auto", "--check")
        self.assertIn("tensor = 2", self.layout_of(r.err))
        self.assertEqual(self.layout_of(r.err).count("offload"), 1)
        self.assertNotIn("layout auto", self.compiles("m.mg", "--check").err)  # the default is chosen

    def test_auto_precisions(self):
        """The precisions that `layout auto` allows: the program has the fastest of them, --precision takes one, and what is none is refused."""
        layout = "\nlayout auto {\n    device h100 x 2\n    microbatch 4\n    precision "
        self.write("m.mg", MODEL + layout + "f32, bf16\n}\n")
        r = self.compiles("m.mg", "--plan=json")
        self.assertRegex(r.err, r"note: layout auto: f32 [\d.]+ [mu]?s, bf16 [\d.]+ [mu]?s: the fastest is for --precision bf16\n")
        self.assertNotIn("precision", self.layout_of(r.err))
        self.write("found.mg", self.layout_of(r.err))
        found = json.loads(r.out)["step_ms"]
        self.assertAlmostEqual(self.step("--layout", "found.mg", "--precision", "bf16") * 1e3 / found, 1, delta=1e-6)
        slow = self.compiles("m.mg", "--plan=json", "--precision", "f32")
        self.assertNotIn("the fastest is", slow.err)
        self.assertGreater(json.loads(slow.out)["step_ms"], found)
        self.refused("MG0591", "m.mg", "--check", "--precision", "fp8", exit_code=1, said="--precision fp8, and the layout allows f32, bf16")
        for line, said in (("bf16, fp7", "there is no precision 'fp7'"), ("bf16, bf16", "precision 'bf16' is there twice"),
                           ("bf16(master = bf16)", "'bf16' has arguments")):
            self.write("m.mg", MODEL + layout + line + "\n}\n")
            self.refused(said, "m.mg", "--check", exit_code=1, said="    precision " + line)
        self.write("m.mg", MODEL + layout.replace("auto", "two") + "bf16\n}\n")
        self.refused("MG0357", "m.mg", "--check", exit_code=1, said="`layout auto` alone")

    def test_space(self):
        """Points that published layouts have: stages of layers of several kinds, an uneven cut, each microbatch that divides."""
        thin = """block thin(x[hidden]) {
    gain : param[hidden] = 1 as "gain_proj.weight"
    return x * gain
}

model mini("""
        layers = 'select(l < 1, thin(norm(x) as "norm2") as "mlp", mlp(norm(x) as "norm2") as "mlp")'
        kinds = MODEL.replace("model mini(", thin).replace('mlp(norm(x) as "norm2") as "mlp"', layers).replace("repeat layers as", "repeat layers at l as")
        for model, options, there, missing in (
                (kinds, ("-D", "layers=13"), {"pp 4 x 3, microbatch 1", "pp 8, microbatch 1", "pp 8 zb-h1, microbatch 1", "pp 2 x 6, dp 4, microbatch 2"},
                 {"pp 4 x 4, microbatch 1"}),
                (MODEL, ("-D", "layers=13"), {"pp 2 x 4, dp 4, microbatch 1", "pp 4 x 2, dp 2, microbatch 2", "pp 2 x 7, dp 4, microbatch 1"},
                 {"pp 2 x 6, dp 4, microbatch 1"}),
                (MODEL, ("-D", "batch=96"), {f"dp 8, microbatch {n}" for n in (1, 2, 3, 4, 6, 12)}, {"dp 8, microbatch 8", "dp 8, microbatch 5"})):
            self.write("m.mg", model)
            ranks = "4" if "pp 4 x 3, microbatch 1" in there else "8"
            for n in {ranks, "8"}:
                r = self.mgc("search", "m.mg", "--device", "h100", "--ranks", n, *options, "--search-time", "0.001", "--points", f"p{n}.tsv")
                self.assertEqual(r.returncode, 5, r.err)
            labels = {p["layout"] for n in {ranks, "8"} for p in self.points(f"p{n}.tsv")}
            self.assertEqual(there - labels, set())
            self.assertEqual(missing & labels, set())

    def test_offload(self):
        """Before a plan is made: what no level has room for is thrown away, and what is moved for each of many microbatches counts."""
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/rtx4090.json"), encoding="utf-8") as f:
            card = json.load(f)
        moved = 4 * 2 * 32.76e9 / 4 / card["host_in"]  # 32.76e9 parameters in halves, and sums of their gradients, to and from a rank of four
        for host, large, there in (500e9, {"dp 4", "dp 4, ZeRO 1"}, {"dp 4, ZeRO 2", "dp 4, ZeRO 3"}), (2e12, set(), {"dp 4", "dp 4, ZeRO 3"}):
            self.write("card.json", json.dumps({k: v for k, v in {**card, "host_memory": int(host)}.items() if not k.startswith("disk")}))
            r = self.mgc("search", mgctest.model("qwen2.5_14b.mg"), "--device", "./card.json", "-D", "layers=64", "-D", "ffn=27648", "-D", "batch=512", "--ranks", "4",
                         "--offload", "auto", "--search-time", "0.001", "--points", "p.tsv")
            self.assertEqual(r.returncode, 5, r.err)
            of = {p["layout"]: p for p in self.points("p.tsv")}
            for kind in large | there:
                self.assertEqual(of[f"{kind}, microbatch 8, offload auto"]["state"], "too large by a bound" if kind in large else "not planned", (host, kind))
            for layout, n in ("dp 4, ZeRO 3, microbatch 1", 128), ("pp 2, tp 2 with positions, microbatch 1", 512):
                self.assertGreater(float(of[f"{layout}, offload auto"]["expected_s"]), 0.99 * n * moved, layout)

    def test_scale(self):
        argv = ("m.mg", "--device", "h100", "--microbatch", "4", "--tokens", "1M")
        r = self.compiles("scale", *argv, "--ranks", "1..2")
        self.assertEqual(re.findall(r"(?m)^(strong|weak) scaling", r.out), ["strong", "weak"])
        self.assertEqual(re.findall(r"(?m)^ +(\d+) +[\d.]+ [mu]?s ", r.out), ["1", "2", "1", "2"])
        self.assertEqual(len(re.findall(r"[\d.]+ h, [\d.e-]+ GPU hours, [\d.]+ kWh", r.out)), 4)
        self.assertRegex(r.out, r"that stops paying; |up to 2 ranks it pays")
        r = self.compiles("search", *argv, "--ranks", "1..2", "--budget", "1000")
        self.assertRegex(r.out, r"the fastest of at most 1000 GPU hours: \d ranks")
        self.assertIn("layout found {", r.out)
        r = self.compiles("search", *argv, "--ranks", "1..1", "--budget", "1e-9")
        self.assertIn("none takes 0 GPU hours or less", r.out)
        self.assertRegex(self.compiles("search", *argv, "--ranks", "2").out, r"1M tokens: [\d.]+ h, [\d.e-]+ GPU hours")

    def page(self, name):
        html = self.read(name).decode()
        page = Page()
        page.feed(html)
        self.assertNotRegex(html, r"(?:src|href)=")
        return page.data, [xml.etree.ElementTree.fromstring(svg) for svg in re.findall(r"(?s)<svg.*?</svg>", html)]

    def test_scale_page(self):
        """The page has the table's numbers, a chart with a dot for each size, and energy as the description says; none without watts."""
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/h100.json"), encoding="utf-8") as f:
            device = json.load(f)
        argv = ("m.mg", "--device", "d.json", "--microbatch", "4", "--tokens", "1G", "--ranks", "1..2")
        self.write("d.json", json.dumps(device))
        r = self.compiles("scale", *argv, "--report", "scale.html")
        text, charts = self.page("scale.html")
        self.assertEqual([len([e for e in svg if e.tag == "circle"]) for svg in charts if svg.find("circle") is not None], [2] * 10)
        for step in re.findall(r"(?m)^ +\d+ +([\d.]+ [mu]?s) ", r.out):
            self.assertIn(step, text)
        self.assertIn(self.layout_of(self.compiles("search", "m.mg", "--device", "d.json", "--microbatch", "4", "--ranks", "2").out).split("mesh")[1], text)
        kwh = [float(x) for x in re.findall(r"([\d.]+) kWh", r.out)]
        hours = [float(x) for x in re.findall(r"([\d.]+) h, ", r.out)]
        self.assertEqual((len(kwh), len(hours)), (4, 4))
        # One rank waits for nobody: 700 W for as long as it takes, in which hours have one digit behind the point.
        self.assertLess(abs(kwh[0] / 0.7 - hours[0]), 0.06 + 0.01 * hours[0])
        self.assertLess(kwh[1], 2 * 0.7 * (hours[1] + 0.06))
        self.assertGreater(kwh[1], 2 * 0.14 * (hours[1] - 0.06))
        device.pop("watts")
        self.write("d.json", json.dumps(device))
        self.refused("belong together", "scale", *argv)
        device.pop("idle_watts")
        self.write("d.json", json.dumps(device))
        self.assertNotIn("kWh", self.compiles("search", *argv[:-2], "--ranks", "1").out)
        self.write("d.json", json.dumps(dict(device, watts=10, idle_watts=11)))
        self.refused("11 is more than 'watts', 10", "scale", *argv)

    def test_precisions(self):
        """Of several precisions the faster one is told, with what a search in each of them finds."""
        steps = {}
        for name in ("f32", "bf16"):
            self.compiles("search", "m.mg", *SMALL, "--precision", name, "--points", "p.tsv")
            steps[name] = min(float(p["whole_s"]) for p in self.points("p.tsv") if p["state"] == "whole plan")
        self.assertLess(steps["bf16"], steps["f32"])
        r = self.compiles("search", "m.mg", *SMALL, "--precisions", "f32,bf16", "--points", "p.tsv", "-o", "found.mg", "--report", "page.html")
        self.assertRegex(r.out, r"(?m)^precision    f32 [\d.]+ [mu]s, bf16 [\d.]+ [mu]s: the fastest is for --precision bf16$")
        self.assertEqual(min(float(p["whole_s"]) for p in self.points("p.tsv") if p["state"] == "whole plan"), steps["bf16"])
        self.assertAlmostEqual(self.step("--layout", "found.mg", "--precision", "bf16") / steps["bf16"], 1, delta=1e-6)
        self.assertIn("m.mg, bf16, on 2 ranks", self.page("page.html")[0])
        for wrong, said in (("bf16,", "'' is no precision"), ("bf16,f7", "'f7' is no precision"), ("f32,f32", "'f32' is there twice")):
            self.refused(said, "search", "m.mg", *SMALL, "--precisions", wrong)
        self.refused("--precision beside --precisions", "search", "m.mg", *SMALL, "--precisions", "f32", "--precision", "f32")
        self.refused("one number of ranks", "search", "m.mg", *SMALL[:3], "1..2", "--precisions", "f32,bf16")
        self.refused("the form is: mgc scale", "scale", "m.mg", *SMALL, "--precisions", "f32,bf16")
        self.refused("--thorough beside --exhaustive", "search", "m.mg", *SMALL, "--thorough", "--exhaustive")

    def refused(self, code, *argv, exit_code=2, said=""):
        r = self.mgc(*argv)
        self.assertEqual(r.returncode, exit_code, r.err)
        self.assertIn(code, r.err)
        self.assertIn(said, r.err)
        self.assertEqual(r.out, "")

    def test_refused(self):
        device = ("--device", "h100")
        for ranks in ("0", "-4", "x", "8..4", "8..", "4x", "99999999999999999999"):
            self.refused("MG0690", "search", "m.mg", *device, f"--ranks={ranks}")
        self.refused("the form is: mgc search", "search", "m.mg", "--ranks", "2")
        self.refused("the form is: mgc search", "search", "m.mg", *device)
        self.refused("the form is: mgc search", "search", *device, "--ranks", "2")
        self.refused("the form is: mgc search", "search", "m.mg", *device, "--ranks", "2", "--plan")
        self.refused("the form is: mgc scale", "scale", "m.mg", *device, "--ranks", "2", "-o", "x.mg")
        self.refused("MG0562", "search", "m.mg", "--device", "h1000", "--ranks", "2", said="unknown device 'h1000'")
        self.refused("MG0320", "search", "m.mg", *device, "--ranks", "2", "--layout", "none", exit_code=1)
        self.refused("MG0691", "search", "m.mg", *device, "--ranks", "1009", exit_code=3, said="--ranks 960")
        self.refused("MG0691", "search", "m.mg", *device, "--ranks", "7", exit_code=3)
        self.refused("no number above 0", "search", "m.mg", *device, "--ranks", "2", "--tokens", "many")
        self.refused("no number above 0", "search", "m.mg", *device, "--ranks", "2", "--search-time=-1")
        self.refused("--tokens is not given", "search", "m.mg", *device, "--ranks", "2", "--budget", "100")
        self.refused("of one number of ranks", "search", "m.mg", *device, "--ranks", "1..2", "-o", "r.mg")
        self.refused("no plain file", "search", "m.mg", *device, "--ranks", "2", "-o", self.dir)
        self.refused("microbatch", "search", "m.mg", *device, "--ranks", "2", "--microbatch", "0")
        self.refused("--points, --tokens and --budget are options of mgc search", "m.mg", "--check", "--points", "p.tsv")
        self.refused("the form is: mgc fmt", "fmt", "m.mg", "--exhaustive")
        self.refused("", "search", mgctest.model("llama3_405b.mg"), *device, "--ranks", "1", "--offload", "none", exit_code=3,
                     said="too large for the memory by a bound")
        self.write("m.mg", MODEL + "\nlayout auto {\n    microbatch 4\n}\n")
        self.refused("MG0694", "m.mg", "--check", exit_code=1, said="layout auto { device h100 x 64 }")
        for line in ("mesh tp = 2 * 1", "mesh xp = 2", "microbatch batch"):
            self.write("m.mg", MODEL + "\nlayout auto {\n    device h100 x 2\n    " + line + "\n}\n")
            self.refused("MG0694", "m.mg", "--check", exit_code=1, said="gives whole numbers of axes")
        self.write("m.mg", MODEL.split("model mini")[0])
        self.refused("MG0692", "search", "m.mg", *device, "--ranks", "2", exit_code=1)
        self.write("m.mg", MODEL.replace("batch = 16", "batch = 16 +"))
        self.refused("MG01", "search", "m.mg", *device, "--ranks", "2", exit_code=1)


if __name__ == "__main__":
    mgctest.main()
