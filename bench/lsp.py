#!/usr/bin/env python3
"""How long mgc lsp takes to answer, as an editor sees it: median and worst of many requests on one file, as a table.

    bench/lsp.py [MODEL.mg] [--layout NAME] [--times N] [--mgc PATH]

Every answer is waited for. "after an edit" is from the edit of one character to the diagnostics of the text that it
made, or to an answer about that text; all else is with the facts there. Says the processor and the load beside it."""

import argparse
import os
import statistics
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from editor import Editor, uri_of  # noqa: E402


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "?")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", nargs="?", default=os.path.join(ROOT, "models/llama3_405b.mg"))
    p.add_argument("--layout")
    p.add_argument("--times", type=int, default=40)
    p.add_argument("--mgc", default=os.path.join(ROOT, "build/mgc"))
    o = p.parse_args()
    with open(o.model, encoding="utf-8") as f:
        text = f.read()
    path, rows = os.path.abspath(o.model), {}

    def timed(name, action, *args):
        begin = time.perf_counter()
        result = action(*args)
        rows.setdefault(name, []).append(1e3 * (time.perf_counter() - begin))
        return result

    with Editor(o.mgc, ["--layout", o.layout] if o.layout else []) as e:
        here = {"textDocument": {"uri": uri_of(path)}}
        begin = time.perf_counter()
        e.open(path, text)
        timed("opened: first diagnostics", e.diagnostics, path)
        e.diagnostics(path)
        rows["opened: plan, or proposals"] = [1e3 * (time.perf_counter() - begin)]
        asked = {
            "hover": e.at(path, "q = rope"), "definition": e.at(path, "wq over"),
            "references": e.at(path, "hidden", context={"includeDeclaration": True}),
            "documentHighlight": e.at(path, "hidden"), "completion": e.at(path, "wq over hidden"),
            "signatureHelp": e.at(path, "wq over hidden"), "semanticTokens/full": here,
            "rename": e.at(path, "hidden", newName="wide"), "documentSymbol": here, "codeLens": here,
            "formatting": {**here, "options": {}}, "codeAction": {**e.at(path, "hidden"), "range": {
                "start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}, "context": {"diagnostics": []}}}
        for _ in range(o.times):
            for method, params in asked.items():
                timed(method, e.ask, "textDocument/" + method, params)
        for k in range(o.times):
            e.change(path, 0, 0, f"# {k}\n")
            timed("after an edit: hover", e.ask, "textDocument/hover", e.at(path, "q = rope"))
            e.change(path, 0, 0, "#\n")
            timed("after an edit: diagnostics", e.diagnostics, path)
            e.change(path, 0, 0, "#")
            timed("after an edit: completion", e.ask, "textDocument/completion", e.at(path, "wq over hidden"))
        for k in range(o.times):
            at = e.texts[path].index("dim layers")
            e.change(path, at, at + 3, "dm")
            timed("after an edit: an error of syntax", e.diagnostics, path)
            e.change(path, at, at + 2, "dim")
            timed("undone: diagnostics", e.diagnostics, path)
        begin = time.perf_counter()
        e.change(path, 0, 0, "# rests\n")
        e.diagnostics(path, times=2)
        rows["after an edit: plan, or proposals"] = [1e3 * (time.perf_counter() - begin)]
    print(f"{os.path.basename(o.model)}{', layout ' + o.layout if o.layout else ''}; {processor()}, load {os.getloadavg()[0]:.1f}\n")
    print("| | median, ms | worst, ms | of |\n|---|---|---|---|")
    for name, all_ in rows.items():
        print(f"| {name} | {statistics.median(all_):.1f} | {max(all_):.1f} | {len(all_)} |")


main()
