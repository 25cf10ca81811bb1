"""lint_symbols.py - the walls as the linker sees them: part of scripts/lint.

An #include is what a file asks for; a symbol is what it gets. From the objects of a build (nm) and the
prototypes of headers follows what includes cannot tell:

  - a function that another room defines is declared by a header that the caller may include, not by a
    prototype of the caller's own;
  - a header declares functions of its own room alone. The contracts of runtime/ are defined there and
    in kernels/;
  - two rooms do not define one symbol.
"""

import os
import re
import subprocess

# Names that the text of a header does not spell, for a table's rows make them.
PROGRAM = {"runtime", "runtime/speech", "kernels"}  # rooms that keep the contracts
MADE_BY_TABLES = re.compile(r"pass_\w+|cost_\w+|mgc_llvm_module|mgc_watch_module")


def objects(build):
    """(source relative to the project, path of its object): of the rooms, not of tests and benches."""
    for folder, _, files in os.walk(build):
        m = re.search(r"(?:^|/)CMakeFiles/(\w[\w-]*)\.dir(?:/(.*))?$", os.path.relpath(folder, build))
        if not m:
            continue
        room = os.path.relpath(folder, build).split("CMakeFiles/")[0].rstrip("/")
        for f in files:
            inner = os.path.join(m.group(2) or "", f)
            if not re.search(r"\.c\.o$", f) or "__" in inner:
                continue
            yield os.path.normpath(os.path.join(room, inner[:-2])), os.path.join(folder, f)


def symbols(paths):
    """{path: (defined, wanted)}: the global names of objects."""
    out = subprocess.run(["nm", "-gA", *paths], capture_output=True, text=True, check=True).stdout if paths else ""
    of = {path: (set(), set()) for path in paths}
    for line in out.splitlines():
        path, rest = line.split(".o:", 1)
        kind, name = rest.split()[-2:]
        if kind in "TDRBCGU":
            of[path + ".o"][kind == "U"].add(name)
    return of


def declarations(text):
    """Names that a header declares as functions or extern objects, at file scope."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
    names, depth, start = set(), 0, 0
    for at, c in enumerate(text):
        if c == "{":
            depth += 1
        elif c == "}":
            depth -= 1
            if not depth:
                start = at + 1
        elif c == ";" and not depth:
            one = text[start:at]
            start = at + 1
            if "typedef" in one or re.search(r"\bstatic\b", one):
                continue
            one = re.sub(r"__attribute__\s*\(\(.*?\)\)(?=\s*$)", "", one, flags=re.S)
            call = re.match(r"[\w\s*]*?\b(\w+)\s*\(", one)
            if call:
                names.add(call.group(1))
            elif re.match(r"\s*extern\b", one):
                names |= {m.group(1) for d in one.split(",") if (m := re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", d))}
    return names


def check(root, build, texts, room_of, may, contract):
    """Yields what is wrong. may: room -> what it may include; contract: headers others define, too."""
    defined_in, wanted_by = {}, {}
    source_of = {path: source for source, path in objects(build)
                 if room_of(source) in may and os.path.exists(os.path.join(root, source))}
    for path, (defined, wanted) in symbols(list(source_of)).items():
        source = source_of[path]
        wanted_by.setdefault(source, set()).update(wanted)
        for name in defined:
            defined_in.setdefault(name, set()).add(source)
    if not defined_in:
        yield f"{build}: there are no objects: build first"
        return
    declared_by = {}
    for header, text in texts.items():
        if header.endswith(".h") and room_of(header) in may:
            for name in declarations(text):
                declared_by.setdefault(name, set()).add(header)

    def allowed(room, header):
        return any(header == a or (a.endswith("/") and header.startswith(a)) for a in may[room])

    defined_in.pop("main", None)
    for name, sources in sorted(defined_in.items()):
        rooms = {room_of(s) for s in sources}
        if len(rooms) > 1 and not rooms <= PROGRAM:
            yield f"{name} is defined in {' and in '.join(sorted(sources))}"
        for header in sorted(declared_by.get(name, ())):
            if room_of(header) not in rooms and not (header in contract and rooms <= PROGRAM):
                yield f"{header} declares {name}, which is defined in {sorted(sources)[0]}"
    for source, wanted in sorted(wanted_by.items()):
        room = room_of(source)
        for name in sorted(wanted & defined_in.keys()):
            rooms = {room_of(s) for s in defined_in[name]}
            if room in rooms or MADE_BY_TABLES.fullmatch(name) and any(r in may[room] or r + "/" in may[room] for r in rooms):
                continue
            if not any(allowed(room, h) for h in declared_by.get(name, ())):
                yield f"{source}: {room}/ may not call {name} of {sorted(defined_in[name])[0]}"
