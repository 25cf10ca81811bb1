"""Pages of reference/, written of the tables that mgc and programs are made with, and the changelog: nothing on them is by hand."""

import glob
import json
import os
import re

SPECIAL = re.compile(r"([\\*_\[\]<>#|~])")


def prose(text):
    """Plain text as Markdown: what stands in `...` stays as it is."""
    parts = re.split(r"(`[^`\n]*`)", text)
    return "".join(p if p.startswith("`") else SPECIAL.sub(r"\\\1", p) for p in parts)


def code(text):
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def cell(text):
    return text.replace("|", "\\|")


def form(option, program):
    argument = option["argument"]
    if option["value"] == "maybe":
        return f"--{option['name']}[={argument}]"
    if option["value"] == "flag":
        return f"--{option['name']}"
    return f"--{option['name']}{' ' if program else '='}{argument}"


def option_text(option, commands, program):
    out = [f"### `--{option['name']}`", "", code(form(option, program)), ""]
    if option["letter"]:
        short = f"-{option['letter']}" + (f" {option['argument']}" if option["argument"] else "")
        out[2] += f", {code(short)}"
    out += [prose(option["help"][0].upper() + option["help"][1:]) + ".", ""]
    if option["repeats"]:
        out += ["It may be given several times.", ""]
    if commands:
        out += ["Of: " + ", ".join(commands) + ".", ""]
    return out


def options(title, lead, table, takes, program):
    out, group = [f"# {title}", "", lead, ""], None
    for o in table:
        if o["group"] != group:
            group = o["group"]
            out += [f"## {group} options", ""]
        of = [c for c in takes if o["name"] in takes[c].split()]
        names = ["a compile (`mgc F.mg`)" if not c else f"[mgc {c}](commands.md#mgc-{c})" for c in of]
        out += option_text(o, names, program)
    return "\n".join(out) + "\n"


def commands(tables):
    out = ["# Commands", "", "`mgc F.mg` compiles a model; its options are those of [a compile](mgc.md). All else begins with a command.", ""]
    seen = None
    for c in tables["commands"]:
        if c["name"] != seen:
            seen = c["name"]
            out += [f"## mgc {seen}", ""]
        out += [code(f"mgc {c['name']} {c['arguments']}".strip()), "", prose(c["help"][0].upper() + c["help"][1:]) + ".", ""]
        last = c is tables["commands"][-1] or tables["commands"][tables["commands"].index(c) + 1]["name"] != seen
        taken = tables["takes"][seen].split()
        if last and taken:
            order = [o["name"] for o in tables["mgc"] if o["name"] in taken]
            out += ["Options: " + ", ".join(f"[`--{o}`](mgc.md#--{o})" for o in order) + ".", ""]
    return "\n".join(out) + "\n"


CLASSES = {1: "Reading the source", 2: "Names, dims and types", 3: "Train, layout, device", 4: "IR text", 5: "Plan, memory, tools",
           6: "Files of others"}


def errors(tables):
    out = ["# Errors", "", "Each code that mgc reports, as `mgc explain CODE` has it.", ""]
    kind = 0
    for e in tables["codes"]:
        if e["number"] // 100 != kind:
            kind = e["number"] // 100
            out += [f"## {CLASSES[kind]}", ""]
        out += [f"### MG{e['number']:04d}", "", f"**{prose(e['title'])}**", ""]
        if re.search(r"(?m)^\s", e["text"]):  # an example stands apart in it
            out += ["```text", e["text"].rstrip("\n"), "```", ""]
        else:
            out += [prose(e["text"]), ""]
    return "\n".join(out) + "\n"


def environment(tables):
    out = ["# Environment and exit codes", ""]
    for of, name in ("mgc", "mgc"), ("train", "an emitted program"):
        out += [f"## Exit codes of {name}", "", "| code | when |", "|---|---|"]
        out += [f"| {e['name']} | {cell(prose(e['text']))} |" for e in tables["exits"] if e["of"] == of] + [""]
    for of, name in ("mgc", "mgc"), ("train", "an emitted program"):
        out += [f"## Variables of {name}", ""]
        for v in (v for v in tables["variables"] if v["of"] == of):
            out += [f"**{code(v['name'])}**: {prose(v['text'])}.", ""]
    return "\n".join(out) + "\n"


def functions(root):
    with open(os.path.join(root, "grammar/builtin.def"), encoding="utf-8") as f:
        usages = re.findall(r'(?m)^BUILTIN\((\w+),.*"([^"]*)"\)$', f.read())
    with open(os.path.join(root, "ir/ops.def"), encoding="utf-8") as f:
        ops = re.findall(r"(?m)^(?:PRIMITIVE|COMPOSED)\((\w+),\s*(\d), \w+,\s*FUNCTION\b", f.read())
    with open(os.path.join(root, "grammar/prelude.mg"), encoding="utf-8") as f:
        prelude = f.read()
    out = ["# Functions and optimizers", "", "What a source may call. [The language](../language.md) says what each means.", "",
           "## Of each element", "", ", ".join(code(f"{n}({', '.join('abc'[:int(k)])})") for n, k in ops), "", "## Built in", ""]
    out += [f"- {code(usage)}" for _, usage in usages] + ["", "## Written in the language", "", "From `grammar/prelude.mg`:", ""]
    out += [f"- {code(head)}" for head in re.findall(r"(?m)^block (.*?) \{", prelude)] + ["", "## Optimizers", ""]
    out += [f"- {code(head)}" for head in re.findall(r"(?m)^optimizer (.*?) \{", prelude)]
    return "\n".join(out) + "\n"


def unwrapped(comment):
    return "\n".join(re.sub(r"^ ?\* ?", "", line.strip()).rstrip() for line in comment.strip().split("\n"))


def abi(root):
    with open(os.path.join(root, "runtime/abi.h"), encoding="utf-8") as f:
        text = f.read()
    number = re.search(r"#define MG_ABI +(\d+)", text).group(1)
    lead = unwrapped(re.match(r"/\* (?:.*? - )?(.*?)\*/", text, re.S).group(1))
    out = ["# ABI", "", f"Number {number}. From `runtime/abi.h`, which programs include.", "", prose(lead), ""]
    for section in re.split(r"(?m)^/\* -{4,} ", text)[1:]:
        name, _, body = section.partition(" -")
        body = body.split("*/", 1)[1].strip("\n")
        body = re.sub(r"(?m)^#(endif|ifdef|ifndef|if|else).*\n?", "", body)
        out += [f"## {name.strip().capitalize()}", "", "```c", body.strip("\n"), "```", ""]
    return "\n".join(out) + "\n"


def amount(x):
    return f"{x:.4g}" if isinstance(x, (int, float)) else str(x)


def descriptions(root):
    devices = []
    for path in sorted(glob.glob(os.path.join(root, "compiler/devices/*.json"))):
        with open(path, encoding="utf-8") as f:
            devices.append(json.load(f))
    out = ["# Device descriptions as shipped", "", "[Devices](../devices.md) says what each field is.", "",
           "| device | memory, GB | bf16, TFLOP/s | memory, GB/s | link, GB/s | ranks of a node |", "|---|---|---|---|---|---|"]
    for d in devices:
        own = isinstance(d["memory"], (int, float)) and isinstance(d["threads"], int)
        row = [f"[{d['name']}](#{d['name'].replace('_', '_')})", amount(d["memory"] / 1e9) if own else "this machine's",
               amount(d["flops_bf16_per_thread"] * d["threads"] / 1e12) if own else "by its cores",
               amount(d["bandwidth"] / 1e9), amount(d["link_bandwidth"] / 1e9), amount(d["node_ranks"])]
        out.append("| " + " | ".join(row) + " |")
    for d in devices:
        out += ["", f"## {d['name']}", "", "| field | value |", "|---|---|"]
        out += [f"| {code(k)} | {cell(prose(amount(v)))} |" for k, v in d.items() if not isinstance(v, list)]
        for rows in (v for v in d.values() if isinstance(v, list)):
            heads = list(rows[0])
            out += ["", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
            out += ["| " + " | ".join(amount(r.get(h, "")) for h in heads) + " |" for r in rows]
    return "\n".join(out) + "\n"


def changelog(root):
    with open(os.path.join(root, "CHANGELOG.md"), encoding="utf-8") as f:
        return f.read()


def write(root, tables_json, to):
    """All pages of reference/ into the folder `to`. tables_json: what `manual tables` wrote."""
    with open(tables_json, encoding="utf-8") as f:
        tables = json.load(f)
    takes = tables["takes"]
    every = [o["name"] for o in tables["mgc"] if o["name"] in ("help", "version", "proposals")]
    takes = {c: " ".join([takes[c], *every]) for c in takes}
    shown = {c: " ".join(o for o in takes[c].split() if o not in every) for c in takes}
    pages = {
        "mgc": options("Options of mgc", "Each option, with the commands that take it. `--help`, `--version` and `--proposals` are of all.",
                       tables["mgc"], shown, False),
        "train": options("Options of a program", "What `./train`, or whatever `-o` called it, takes. A program of `--generate` has those of texts.",
                         tables["train"], {}, True),
        "commands": commands(tables), "errors": errors(tables), "environment": environment(tables), "functions": functions(root),
        "abi": abi(root), "descriptions": descriptions(root), "changelog": changelog(root)}
    os.makedirs(to, exist_ok=True)
    for name, text in pages.items():
        with open(os.path.join(to, name + ".md"), "w", encoding="utf-8") as f:
            f.write(text)
    return pages
