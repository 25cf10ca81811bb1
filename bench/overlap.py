#!/usr/bin/env python3
"""Communication that a step waits for, with --overlap=auto and none, between hosts that are network namespaces with a
limited link.

    bench/overlap.py [BUILD] [--hosts 2] [--rate 2gbit] [--by tcp|openmpi|mpich] [--runs 5] [--steps 12]
                     [--update together|as_ready] [--device cpu.json] [LAYOUT...]

Takes root, ip and tc. One rank with one thread a host. A layout is dp, zero3, tp (of a wider model, in which the layers of two
ranks compute as long as they send) or ep (of a model with eight experts). Where more hosts share a layer, or a link is slower than
2 Gbit/s, the model is as many times wider, or a rank has as many times the sequences: what takes less time than to send hides little. Exposed is the median step less that of
`alone`: as many programs of one rank, each with a rank's share of the batch, that run at the same time on the same
hosts and say nothing to each other; of each step the slower one's, as ranks that train together are as fast as the slowest.
--update: the model without clipping, and its updates when they say. --device: what mgc calibrate wrote here, whose speeds say how
layers are cut.
`waits` is by --trace: of each collective of a step the time of the rank that was in it least, since one that comes earlier waits for
what the other computes, not for the link; the copies to sockets and the sums that are made meanwhile are in it. `rank 0` is all that
this rank was in communication for. The three are run in turn, runs times; what is printed are medians.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LLAMA, EXPERTS = (os.path.join(ROOT, "models", name) for name in ("llama_mini.mg", "mixtral_mini.mg"))
SIZES = {"layers": 6, "hidden": 384, "kv_heads": 2, "group": 3, "head": 64, "ffn": 1536, "seq": 256}
EACH = 3  # sequences of a rank: computing takes two to three times as long as what is sent
WIDE = {"layers": 6, "hidden": 1024, "kv_heads": 4, "group": 4, "head": 64, "ffn": 4096, "seq": 256}  # of two hosts at 2 Gbit/s
SPARSE = {"layers": 4, "hidden": 384, "kv_heads": 2, "group": 3, "head": 64, "ffn": 1024, "seq": 256}
RULES = {"dp": "    batch -> dp\n", "zero3": "    batch -> dp\n    state, grads, params -> dp\n",
         "tp": "    kv_heads, ffn, vocab -> tp\n    seq -> tp\n", "ep": "    experts -> ep\n    batch -> ep\n"}
# Axis, model, its sizes, sequences at once.
WAYS = {"dp": ("dp", LLAMA, SIZES, EACH), "zero3": ("dp", LLAMA, SIZES, EACH), "tp": ("tp", LLAMA, WIDE, 4), "ep": ("ep", EXPERTS, SPARSE, 4)}
# Bits a second that --rate may say; without a limit a bridge of this kernel carries some 10 Gbit.
LINKS = {"none": 10e9, "250mbit": 250e6, "500mbit": 500e6, "1gbit": 1e9, "2gbit": 2e9, "5gbit": 5e9}
# Of a description: how fast a processor computes.
COMPUTES = ("flops", "product", "attention", "exponentials", "operations", "bandwidth", "weights")
TAG = f"mgo{os.getpid() % 10000}"
NET = f"10.98.{os.getpid() % 200}"


def ip(*argv):
    subprocess.run(["ip", *argv], check=True)


class Hosts:
    """Namespaces with an interface each, on one bridge."""

    def __init__(self, n, rate):
        self.n = n
        ip("link", "add", f"{TAG}b", "type", "bridge")
        ip("addr", "add", f"{NET}.254/24", "dev", f"{TAG}b")
        ip("link", "set", f"{TAG}b", "up")
        for i in range(n):
            h = f"{TAG}h{i}"
            ip("netns", "add", h)
            ip("link", "add", f"{TAG}v{i}", "type", "veth", "peer", "name", "eth0", "netns", h)
            ip("link", "set", f"{TAG}v{i}", "master", f"{TAG}b", "up")
            ip("-n", h, "addr", "add", f"{NET}.{i + 1}/24", "dev", "eth0")
            ip("-n", h, "link", "set", "eth0", "up")
            ip("-n", h, "link", "set", "lo", "up")
            if rate != "none":
                ip("netns", "exec", h, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "512kb",
                   "latency", "50ms")

    def close(self):
        for i in range(self.n):
            subprocess.run(["ip", "netns", "del", f"{TAG}h{i}"], check=False)
        subprocess.run(["ip", "link", "del", f"{TAG}b"], check=False)

    def on(self, i, argv, env):
        """A command on host i."""
        h = f"{TAG}h{i}"
        return subprocess.Popen(["ip", "netns", "exec", h, "unshare", "--uts", "sh", "-c", f'hostname {h}; exec "$@"', "sh", *argv],
                                env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Bench:
    def __init__(self, o):
        self.o = o
        self.port = 21000 + os.getpid() % 9000
        with open("text", "wb") as f:
            f.write(open(os.path.join(ROOT, "docs/language.md"), "rb").read() * 4)
        with open(os.path.join(ROOT, "compiler/devices/cpus.json"), encoding="utf-8") as f:
            device = json.load(f)
        if o.device:
            with open(o.device, encoding="utf-8") as f:
                device.update({k: v for k, v in json.load(f).items() if k.startswith(COMPUTES)})
        link = LINKS[o.rate] * 0.94 / 8  # what frames and headers leave
        device.update(name="hosts", threads=1, link_bandwidth=link, node_bandwidth=link)
        with open("hosts.json", "w", encoding="utf-8") as f:
            json.dump(device, f)

    def compile(self, layout, ranks, name, *more):
        axis, file, model, each = WAYS[layout]
        data = axis != "tp"
        slower = max(1, round(2e9 / LINKS[self.o.rate]))
        wider = slower * self.o.hosts // 2
        if data:
            each *= slower
        else:
            model = {k: v * wider if k in ("hidden", "kv_heads", "ffn") else max(2, v // wider) if k == "layers" else v for k, v in model.items()}
        with open("layout.mg", "w", encoding="utf-8") as f:
            f.write(f"layout it {{\n    device cpu\n    mesh {axis} = {ranks}\n{RULES[layout]}    microbatch {each}\n    recompute none\n}}\n")
        share = {} if ranks > 1 or data else {k: model[k] // self.o.hosts for k in ("kv_heads", "ffn")}
        sizes = [w for k, v in {**model, **share, "batch": each * (ranks if data else 1)}.items() for w in ("-D", f"{k}={v}")]
        with open(file, encoding="utf-8") as f:
            text = f.read()
        if self.o.update and text.count("    clip      1.0\n") != 1:
            sys.exit(f"overlap.py: {file} does not clip where --update would go")
        with open("model.mg", "w", encoding="utf-8") as f:
            f.write(text.replace("    clip      1.0\n", f"    update    {self.o.update}\n") if self.o.update else text)
        r = subprocess.run([os.path.join(self.o.build, "mgc"), "model.mg", "--layout", "./layout.mg", "--device", "./hosts.json", *sizes,
                            *more, "-o", name], capture_output=True, text=True, check=False)
        if r.returncode:
            sys.exit(r.stderr)
        return r.stdout.strip()

    def run(self, hosts, name, alone, trace=False):
        """Median milliseconds of a step; with trace, also those that rank 0 is in communication for."""
        argv = [os.path.abspath(name), "--data", "text", "--threads", "1", "--steps", str(self.o.steps)]
        argv += ["--trace", f"3:{self.o.steps}"] if trace else []
        shutil.rmtree("out", ignore_errors=True)
        self.port += 2
        if alone or self.o.by == "tcp":
            started = []
            for i in range(hosts.n):
                env = {} if alone else {"RANK": str(i), "WORLD_SIZE": str(hosts.n), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                                        "MASTER_ADDR": f"{NET}.1", "MASTER_PORT": str(self.port), "MGC_SECRET": "5" * 32}
                started.append(hosts.on(i, [*argv, "--out", f"out/{i}" if alone else "out/0"], env))
        else:
            started = [self.mpirun(hosts, [*argv, "--out", "out/0"])]
        for p in started:
            err = p.communicate(timeout=600)[1]
            if p.returncode:
                sys.exit(err.decode())
        all_ms, losses = [], []
        for i in range(hosts.n if alone else 1):
            with open(f"out/{i}/metrics.jsonl", encoding="utf-8") as f:
                steps = [s for s in map(json.loads, f) if "step_ms" in s]
            all_ms.append([s["step_ms"] for s in steps][2:])
            losses = [s["loss"] for s in steps]
        waited = statistics.median(s["wait_ms"]["0"] for s in steps[2:]) if not alone and self.o.by == "tcp" else 0
        return statistics.median(map(max, zip(*all_ms, strict=True))), losses, [*self.waits(), waited] if trace else None

    def mpirun(self, hosts, argv):
        with open("agent", "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nh=$1; shift\n'
                    'exec ip netns exec "$h" unshare --uts sh -c "hostname $h; $*"\n')
        os.chmod("agent", 0o755)
        agent, n = os.path.abspath("agent"), str(hosts.n)
        names = [f"{TAG}h{i}" for i in range(hosts.n)]
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if self.o.by == "mpich":
            start = ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", agent, "-hosts", ",".join(names), "-iface", f"{TAG}b", "-genv",
                     "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0", "-n", n, "-ppn", "1"]
        else:
            with open("hostfile", "w", encoding="utf-8") as f:
                f.write("".join(f"{h} slots=1\n" for h in names))
            mca = {"plm": "rsh", "plm_rsh_agent": agent, "oob_tcp_if_include": f"{NET}.0/24", "btl_tcp_if_include": f"{NET}.0/24",
                   "btl": "self,vader,tcp", "pml": "ob1"}
            start = ["mpirun.openmpi", "--hostfile", "hostfile", *(w for k, v in mca.items() for w in ("--mca", k, v)), "--bind-to",
                     "none", "-n", n]
        return subprocess.Popen([*start, *argv], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def waits(self):
        """Milliseconds of a step in communication: of the rank that comes last to each collective, and of rank 0."""
        with open("out/0/trace.json", encoding="utf-8") as f:
            events = [e for e in json.load(f)["traceEvents"] if e.get("tid") == 0 and e.get("cat") == "communication"]
        spent = {}  # by step and action, of each rank
        for e in events:
            of = spent.setdefault(e["args"]["step"], {}).setdefault(e["args"]["action"], [0] * self.o.hosts)
            of[e["pid"]] += e["dur"] / 1e3
        return [statistics.median(sum(map(which, step.values())) for step in spent.values()) for which in (min, lambda ranks: ranks[0])]

    def layout(self, hosts, layout):
        self.compile(layout, 1, "alone")
        said = {o: self.compile(layout, hosts.n, f"ranks-{o}", f"--overlap={o}") for o in ("none", "auto")}
        steps = {"alone": [], "none": [], "auto": []}
        waits, rank_0, blocked = ({"none": [], "auto": []} for _ in range(3))
        losses = set()
        for _ in range(self.o.runs):
            for k, v in steps.items():
                v.append(self.run(hosts, "alone" if k == "alone" else f"ranks-{k}", k == "alone")[0])
            for k, v in waits.items():
                _, loss, (last, first, still) = self.run(hosts, f"ranks-{k}", False, trace=True)
                v.append(last)
                rank_0[k].append(first)
                blocked[k].append(still)
                losses.add(tuple(loss))
        m = {k: statistics.median(v) for k, v in steps.items()}
        w, r, b = ({k: statistics.median(v) for k, v in of.items()} for of in (waits, rank_0, blocked))
        # Of each round its own `alone`: what else runs on the machine is the same then.
        exposed = {o: statistics.median(x - a for x, a in zip(steps[o], steps["alone"])) for o in waits}
        for o in waits:
            print(f"{layout} {o}: {said[o].splitlines()[0]}")
        print(f"{layout}: {hosts.n} hosts, {self.o.rate}, {self.o.by}: step alone {m['alone']:.1f} ms, none {m['none']:.1f}, auto "
              f"{m['auto']:.1f}; exposed {exposed['none']:.1f} and {exposed['auto']:.1f} ms: {exposed['auto'] / exposed['none']:.0%}; "
              f"waits {w['none']:.1f} and {w['auto']:.1f} ms: {w['auto'] / w['none']:.0%} (rank 0: {r['none']:.1f} and {r['auto']:.1f}, of which it could not go on for {b['none']:.1f} and {b['auto']:.1f}); the same losses: "
              f"{'yes' if len(losses) == 1 else 'NO'}", flush=True)
        print("    rounds:", "; ".join(f"{a:.0f} {n:.0f} {t:.0f}" for a, n, t in zip(*steps.values())), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    p.add_argument("layouts", nargs="*", default=["dp", "zero3"])
    p.add_argument("--hosts", type=int, default=2)
    p.add_argument("--rate", choices=LINKS, default="2gbit", help="none: no limit")
    p.add_argument("--by", choices=("tcp", "openmpi", "mpich"), default="tcp")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--update", choices=("together", "as_ready"))
    p.add_argument("--device", type=os.path.abspath)
    p.add_argument("--keep", action="store_true", help="the programs and the last run stay")
    o = p.parse_args()
    o.build = os.path.abspath(o.build)
    here = tempfile.mkdtemp(prefix="mgc-overlap-")
    os.chdir(here)
    hosts = None
    try:
        hosts = Hosts(o.hosts, o.rate)
        for layout in o.layouts:
            Bench(o).layout(hosts, layout)
    finally:
        if hosts:
            hosts.close()
        os.chdir(ROOT)
        if o.keep:
            print(f"left in {here}")
        else:
            shutil.rmtree(here)


if __name__ == "__main__":
    main()
