"""Random layouts on (pretended) machines against one rank, in double precision: what is sent beside what computes, and
from one collective to the next, over TCP and MPI. The full run has 300 of them."""

import os
import random
import shutil

import mgctest
import test_launch
from mgctest import FULL, TURN

MODELS = {"dense": test_launch.MODEL, "experts": test_launch.EXPERTS}
CASES = 300 if FULL else 4
AXES = ("dp", "cp", "tp")


def draw(seed):
    """The model, the number of ranks, the layout's lines and the number of machines."""
    r = random.Random(seed)
    kind = r.choice(("dense", "dense", "experts"))
    sizes = {a: 1 for a in AXES}
    n = r.choice((2, 4, 4))
    for _ in range({2: 1, 4: 2}[n]):
        sizes[r.choice(AXES)] *= 2
    mesh = [a for a in sizes if sizes[a] > 1]
    r.shuffle(mesh)
    split = [a for a in mesh if a != "tp"]
    lines = []
    over = [a for a in split if a == "dp" or r.random() < 0.3]  # cp may split the batch, too
    if over:
        lines.append(f"batch -> {', '.join(over)}")
    if "tp" in mesh:
        lines.append(f"{'experts' if kind == 'experts' and r.random() < 0.6 else 'kv_heads, ffn, vocab'} -> tp")
    along = [a for a in mesh if a not in over and (a == "cp" or r.random() < 0.5)]
    if along:
        lines.append(f"seq -> {', '.join(a + r.choice((' (zigzag)', '')) if a == 'cp' else a for a in along)}")
    if r.random() < 0.8:
        classes = ("state", "state, grads", "state, grads, params")[r.randrange(3)]
        lines.append(f"{classes} -> {', '.join(split or mesh)}")
    if n == 4 and r.random() < 0.15:
        mesh, sizes = ["dp", "pp"], {"dp": 2, "pp": 2}
        lines = ["batch -> dp", f"layers -> pp (schedule = {r.choice(('1f1b', 'gpipe'))})", "state -> dp"]
    lines.append(f"microbatch {r.choice((1, 2, 4))}")
    lines.append(f"recompute {r.choice(('auto', 'none', 'all'))}")
    return kind, n, [f"mesh {', '.join(f'{a} = {sizes[a]}' for a in mesh)}", *lines], r.choice((2, 4) if n == 4 else (2,))


class Machines(mgctest.Case):
    run_it, by_hand, start = (getattr(test_launch.Launch, f) for f in ("run_it", "by_hand", "start"))

    def argv(self, program, out):
        return [f"./{program}", "--data", "text1.txt", "--steps", "4", "--out", out, "--threads", "1"]

    def losses(self, out):
        found = [(m["loss"], m["grad_norm"]) for m in self.metrics(out) if "loss" in m]
        shutil.rmtree(self.path(out))
        return found

    def run_on(self, carrier, n, hosts):
        if carrier == "tcp":
            self.by_hand(test_launch.tcp(hosts), self.argv("many", "run"), size=n)
        else:
            self.run_it([*test_launch.MPIS[carrier], "-n", str(n), *self.argv("many", "run")], {"MGC_FAKE_HOSTS": str(hosts)})
        return self.losses("run")

    def one_rank(self, kind):
        self.compiles(MODELS[kind], "-D", "batch=8", "--precision", "f64", "-o", "one")
        self.run_it(self.argv("one", "run"))
        return self.losses("run")

    def test_random_layouts(self):
        self.text(6000)
        want = {kind: self.one_rank(kind) for kind in MODELS}
        carriers = ["tcp", *(k for k in test_launch.MPIS if shutil.which(test_launch.MPIS[k][0]))]
        ran, refused, seed = 0, 0, TURN * 1000
        while ran < CASES:
            self.assertLess(refused, 20 + 2 * ran, "most layouts are refused")
            seed += 1
            kind, n, lines, hosts = draw(seed)
            self.write("it.mg", "layout it {\n device cpus\n " + "\n ".join(lines) + "\n}\n")
            r = self.mgc(MODELS[kind], "--layout", "./it.mg", "-D", "batch=8", "--precision", "f64", "-o", "many")
            if r.returncode:
                self.assertEqual(r.returncode, 1, (lines, r.err))
                refused += 1
                continue
            carrier = carriers[ran % len(carriers)]
            have = self.run_on(carrier, n, hosts)
            self.assertEqual(len(have), len(want[kind]))
            for a, b in zip(have, want[kind]):
                for x, y in zip(a, b):
                    self.assertLess(abs(x - y), 1e-9 * abs(y), (seed, kind, carrier, hosts, lines, have, want[kind]))
            ran += 1
        print(f"{ran} layouts follow one rank, {refused} refused", flush=True)


if __name__ == "__main__":
    mgctest.main()
