#!/usr/bin/env python3
"""All layouts of a space with a plan each, beside the one that mgc search finds.

    bench/exhaustive.py MODEL.mg DEVICE RANKS STATE.tsv [--mgc build/bin/mgc] [--minutes M] [--sample N] [options of mgc]

The space, with the text of each layout and its bounds, is what `mgc search --points` writes. Every layout is compiled by itself, as
`mgc MODEL.mg --layout ... --plan=json`, the most promising first; but for those that cannot be faster than the best, or have no room, by
a bound: of these every Nth is planned too, and must not be below its bound. STATE.tsv has a line for each that is done, and a second run
goes on behind it. Ends with a table.
"""

import argparse
import collections
import concurrent.futures
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("model")
    p.add_argument("device")
    p.add_argument("ranks")
    p.add_argument("state")
    p.add_argument("--mgc", default=os.path.join(os.path.dirname(__file__), "..", "build", "bin", "mgc"))
    p.add_argument("--minutes", type=float, default=1e9)
    p.add_argument("--sample", type=int, default=40)
    p.add_argument("--jobs", type=int, default=2)
    a, a.options = p.parse_known_args()
    return a


def space(a):
    """What the search says of all layouts; kept beside the state, so that a second run has the same."""
    path = a.state + ".points"
    if not os.path.exists(path):
        argv = [a.mgc, "search", a.model, "--device", a.device, "--ranks", a.ranks, *a.options, "--points", path + ".new"]
        begin = os.times()
        r = subprocess.run(argv, capture_output=True, text=True, check=False)
        if r.returncode:
            sys.exit(r.stderr)
        end = os.times()
        print(f"search: {end.children_user + end.children_system - begin.children_user - begin.children_system:.0f} s of processors")
        os.rename(path + ".new", path)
    with open(path, encoding="utf-8") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


def plan(a, point):
    """[seconds, bytes, code or "" or "failed"] of a compile of the layout."""
    with tempfile.NamedTemporaryFile("w", suffix=".mg", encoding="utf-8") as f:
        f.write(point["text"].replace("\\n", "\n"))
        f.flush()
        argv = ["nice", "-n", "19", a.mgc, a.model, "--device", a.device, "--layout", f.name, *a.options, "--plan=json"]
        r = subprocess.run(argv, capture_output=True, text=True, check=False)
    if r.returncode == 0:
        found = json.loads(r.stdout)
        return [repr(found["step_ms"] / 1e3), str(found["arena_bytes"]), ""]
    code = re.search(r"error\[(MG\d+)\]", r.stderr)
    return ["0", "0", code[1] if r.returncode in (1, 3) and code else f"failed ({r.returncode})"]


def main():
    a = arguments()
    points = space(a)
    done = {}
    if os.path.exists(a.state):
        with open(a.state, encoding="utf-8") as f:
            done = {r[0]: r[1:] for r in csv.reader(f, delimiter="\t") if len(r) == 4}
    found = min(float(p["whole_s"]) for p in points if p["state"] == "whole plan")
    best = min([found] + [float(d[0]) for d in done.values() if not d[2]])
    large = [p for p in points if p["state"] == "too large by a bound"]
    slow = [p for p in points if p not in large and float(p["bound_s"]) >= best]
    skipped = {p["layout"] for p in large + slow}
    pending = sorted((p for p in points if p["layout"] not in skipped), key=lambda p: float(p["expected_s"]))
    pending += large[::a.sample] + slow[::a.sample]
    pending = [p for p in pending if p["layout"] not in done]
    end = time.monotonic() + 60 * a.minutes
    with open(a.state, "a", encoding="utf-8") as out, concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        rest = iter(pending)
        running = {}
        while True:
            while len(running) < a.jobs and time.monotonic() < end and (p := next(rest, None)):
                running[pool.submit(plan, a, p)] = p
            if not running:
                break
            for f in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)[0]:
                p = running.pop(f)
                done[p["layout"]] = f.result()
                print(p["layout"], *done[p["layout"]], sep="\t", file=out, flush=True)
    tell(points, done, skipped, found)


def tell(points, done, skipped, found):
    planned = {p["layout"]: float(done[p["layout"]][0]) for p in points if p["layout"] in done and not done[p["layout"]][2]}
    sampled = [p for p in points if p["layout"] in skipped and p["layout"] in planned]
    codes = collections.Counter(d[2] for d in done.values() if d[2])
    left = [p for p in points if p["layout"] not in done and p["layout"] not in skipped]
    best = min(planned, key=planned.get)
    below = [p for p in points if p["layout"] in planned and planned[p["layout"]] < float(p["bound_s"]) * (1 - 1e-9)]
    small = [p for p in sampled if p["state"] == "too large by a bound"]
    print(f"layouts                                  {len(points)}")
    print(f"with a whole plan                        {len(planned) - len(sampled)}")
    print(f"refused, or their plan does not fit      {sum(codes.values())}: " + ", ".join(f"{n} by {c}" for c, n in codes.most_common()))
    print(f"out by a bound                           {len(skipped)}, of which {sum(p['layout'] in done for p in points if p['layout'] in skipped)} were planned all the same")
    print(f"plans below their bound in time          {len(below)} of {len(planned)}; that fit, though too large by a bound: {len(small)}")
    print(f"not planned                              {len(left)}" + (f", expected from {min(float(p['expected_s']) for p in left):.4g} s on" if left else ""))
    print(f"fastest of all                           {planned[best]:.6g} s: {best}")
    print(f"found by the search                      {found:.6g} s ({100 * (found / planned[best] - 1):+.2f}%)")
    for p in below[:5] + small[:5]:
        print(f"  {p['layout']}: {planned[p['layout']]} s, bound {p['bound_s']} s")


if __name__ == "__main__":
    main()
