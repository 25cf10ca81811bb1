"""Pictures of explain/plan.md and proof.md, drawn of what mgc says of real plans."""

import csv
import json
import os
import re
import subprocess
import tempfile
from xml.sax.saxutils import escape

WIDTH = 800
STYLE = ("<style>text{font:12px sans-serif;fill:#333}.fixed{fill:#7a9cc6}.kept{fill:#e0a458}.short{fill:#9cb380}"
         ".F{fill:#7a9cc6}.B{fill:#e0a458}.W{fill:#9cb380}.o{fill:#ddd}rect{stroke:#fff;stroke-width:.4}</style>")


def svg(height, title, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"><title>{escape(title)}</title>{STYLE}'
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>\n')


def rect(x, y, w, h, kind, title):
    return f'<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{max(w, 0.5):.2f}" height="{max(h, 0.5):.2f}"><title>{escape(title)}</title></rect>'


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def buffers(mgc, model, folder):
    """Rows of --memory: name, actions, bytes."""
    path = os.path.join(folder, "m.csv")
    subprocess.run([mgc, model, "--memory", path], check=True, stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as f:
        return [{k: v if k == "id" else int(v) for k, v in r.items()} for r in csv.DictReader(f)]


def shared(mgc, models, folder):
    """Buffers of a step that are not alive throughout, with their names: the same bytes serve several of them."""
    rows = buffers(mgc, os.path.join(models, "mlp.mg"), folder)
    end = max(r["upper"] for r in rows)
    rows = [r for r in rows if r["upper"] - r["lower"] < end]
    low, top = min(r["offset"] for r in rows), max(r["offset"] + r["size"] for r in rows)
    left, height, parts = 70, 400, []
    for k, r in enumerate(rows):
        x, w = left + (WIDTH - left - 10) * r["lower"] / end, (WIDTH - left - 10) * (r["upper"] - r["lower"]) / end
        h = (height - 30) * r["size"] / (top - low)
        y = height - (height - 30) * (r["offset"] - low) / (top - low) - h
        name = r["id"].split("#")[0]
        parts.append(rect(x, y, w, h, ("fixed", "kept", "short")[k % 3], f"{name}: {r['size']} bytes at {r['offset']}, actions {r['lower']} to {r['upper'] - 1}"))
        if h > 14 and w > 7 * len(name) + 6:
            parts.append(text(x + 4, y + h / 2 + 4, name))
    parts += [text(left - 4, 40, f"{top / 2**20:.1f} MiB", "end"), text(left - 4, height, f"{low / 2**20:.1f} MiB", "end"), text(left, height + 18, "action 0"),
              text(WIDTH - 10, height + 18, f"action {end - 1}", "end"), text(left, 18, "each rectangle is a buffer, from the action that writes it to the last that reads it")]
    return svg(height + 26, "Buffers of a step of models/mlp.mg that are not alive throughout", parts)


def memory(mgc, models, folder):
    """Buffers over actions and addresses."""
    rows = buffers(mgc, os.path.join(models, "llama_mini.mg"), folder)
    end, top = max(r["upper"] for r in rows), max(r["offset"] + r["size"] for r in rows)
    left, height = 60, 380
    parts = []
    for r in sorted(rows, key=lambda r: r["lower"] - r["upper"]):
        length = r["upper"] - r["lower"]
        kind = "fixed" if length >= end else "kept" if length > end / 8 else "short"
        x, w = left + (WIDTH - left - 10) * r["lower"] / end, (WIDTH - left - 10) * length / end
        h = (height - 30) * r["size"] / top
        parts.append(rect(x, height - (height - 30) * r["offset"] / top - h, w, h, kind, f"{r['id']}: {r['size']} bytes, actions {r['lower']} to {r['upper'] - 1}"))
    parts += [text(left - 4, 40, f"{top / 2**20:.0f} MiB", "end"), text(left - 4, height, "0", "end"), text(left, height + 18, "action 0"),
              text(WIDTH - 10, height + 18, f"action {end - 1}", "end"), text(left, 18, "parameters and state: blue; long-lived: orange; short-lived: green")]
    return svg(height + 26, "Buffers of a step of models/llama_mini.mg", parts)


def timeline(mgc, models, folder):
    """Actions over time, a lane for each stream."""
    path = os.path.join(folder, "t.json")
    subprocess.run([mgc, os.path.join(models, "llama_56m.mg"), "--device", "h100", "-D", "dp=4", "-D", "batch=32", "--precision", "bf16", "--trace", path],
                   check=True, stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    events = [e for e in events if e.get("ph") in "XM"]
    first = min(e["pid"] for e in events if e["ph"] == "X")
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] == first}
    done = [e for e in events if e["ph"] == "X" and e["pid"] == first]
    lanes = sorted({e["tid"] for e in done})
    begin, end = min(e["ts"] for e in done), max(e["ts"] + e["dur"] for e in done)
    left, lane, parts = 110, 46, []
    for k, tid in enumerate(lanes):
        parts.append(text(left - 8, 30 + lane * k + 22, str(names.get(tid, tid)), "end"))
        for e in (e for e in done if e["tid"] == tid):
            x, w = left + (WIDTH - left - 10) * (e["ts"] - begin) / (end - begin), (WIDTH - left - 10) * e["dur"] / (end - begin)
            parts.append(rect(x, 30 + lane * k, w, lane - 10, "FBW"[k % 3], f"{e['name']}: {e['dur']:.1f} us"))
    bottom = 30 + lane * len(lanes)
    parts += [text(left, bottom + 14, "0"), text(WIDTH - 10, bottom + 14, f"{(end - begin) / 1000:.2f} ms", "end")]
    return svg(bottom + 24, "Predicted timeline of a step of models/llama_56m.mg on four h100", parts)


def pipeline(mgc, _models, _folder):
    """The grid of a schedule."""
    out = subprocess.run([mgc, "pipeline", "1f1b", "--ranks=4", "--microbatches=8", "--grid"], check=True, capture_output=True, text=True).stdout
    rows = [re.findall(r"\S+", line)[2:] for line in out.split("\n") if re.match(r"rank \d+ +\S+ ", line) and re.search(r"[FB]\d", line)]
    columns = max(map(len, rows))
    left, lane, wide, parts = 60, 34, (WIDTH - 70) / columns, []
    for k, row in enumerate(rows):
        parts.append(text(left - 8, 14 + lane * k + 18, f"rank {k}", "end"))
        for at, cell in enumerate(row):
            if cell == "-":
                continue
            n = 1
            while at + n < len(row) and row[at + n] == "-":
                n += 1
            parts.append(rect(left + at * wide, 14 + lane * k, n * wide, lane - 8, cell[0] if cell[0] in "FBW" else "o", cell if cell != "." else "idle"))
            if cell != ".":
                parts.append(text(left + (at + n / 2) * wide, 14 + lane * k + 18, cell, "middle"))
    return svg(20 + lane * len(rows), "1f1b of four ranks and eight microbatches", parts)


PICTURES = {"memory.svg": memory, "bytes.svg": shared, "timeline.svg": timeline, "pipeline.svg": pipeline}


def write(mgc, models, to):
    os.makedirs(to, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mgc-site-") as folder:
        for name, draw in PICTURES.items():
            with open(os.path.join(to, name), "w", encoding="utf-8") as f:
                f.write(draw(mgc, models, folder))
