#!/usr/bin/env python3
"""wheel - packs an installation and the Python module into a wheel, which pip installs without building anything.

    packaging/wheel.py --build BUILD --version 0.1.0 --out DIR

The tree of `cmake --install` becomes mgc/prefix in the package, with the programs of BUILD/portable in place of its own: they have
the libraries of others in them, or beside them in lib/mgc/libs. Man pages and completions of shells are data files, which pip puts under
share/ of the environment, where man and shells look. Debugging information is stripped. The same build gives the
same bytes: files are sorted, and their time is $SOURCE_DATE_EPOCH. The tag of the platform is the glibc of this machine, whose headers
all of it was compiled with; what needs a newer one, or a library that is neither glibc's nor inside, is refused."""

import argparse
import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAME = "mgc_compiler"
# Of glibc and of GCC's own runtime, which every machine of the tag's glibc has.
OUTSIDE = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libgcc_s.so.1"}
PORTABLE = {"mgc": "bin/mgc", "libmgc_llvm.so": "lib/mgc/libmgc_llvm.so", "libmgc_watch.so": "lib/mgc/libmgc_watch.so"}
DATA = ("man", "bash-completion", "zsh", "fish")  # folders of share/
BRINGS = {"libmgc_watch.so"}  # finds shared libraries in lib/mgc/libs, with what they need
# Their objects are in the programs of BUILD/portable: the Debian packages that have their licences.
LINKED = ["llvm-19-dev", "libjansson-dev", "libyaml-dev", "zlib1g-dev", "libzstd-dev", "libpcre2-dev", "libutf8proc-dev", "libstdc++-12-dev", "liburing-dev"]


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def libraries(path):
    """What the dynamic linker would load for a file, by name, with where it lies on this machine."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+) \(", output("ldd", path), re.M))


def needs(path):
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", "-W", path)))


def glibc_of(path):
    versions = re.findall(r"\bGLIBC_(\d+)\.(\d+)", output("readelf", "-V", "-W", path))
    return max(((int(a), int(b)) for a, b in versions), default=(0, 0))


def stage(build, prefix, data):
    """The installation, stripped, with portable programs and the libraries beside them; what others look for goes to data."""
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    os.remove(os.path.join(prefix, "lib/mgc/installed.txt"))
    os.makedirs(os.path.join(data, "share"))
    for folder in DATA:
        os.rename(os.path.join(prefix, "share", folder), os.path.join(data, "share", folder))
    shutil.rmtree(os.path.join(prefix, "share/doc"))
    libs = os.path.join(prefix, "lib/mgc/libs")
    inside = {}
    for name, place in PORTABLE.items():
        file = os.path.join(build, "portable", name)
        if not os.path.exists(file):
            sys.exit(f"wheel: {file} is missing; scripts/package wheel builds it")
        if name in BRINGS:
            inside.update({n: p for n, p in libraries(file).items() if n not in OUTSIDE})
        shutil.copyfile(file, os.path.join(prefix, place))
        subprocess.run(["strip", os.path.join(prefix, place)], check=True)
    os.makedirs(libs)
    for name, path in inside.items():
        shutil.copyfile(path, os.path.join(libs, name))
    for folder, _, names in os.walk(os.path.join(prefix, "lib/mgc")):
        arch = os.path.relpath(folder, os.path.join(prefix, "lib/mgc"))
        for name in (n for n in names if n.endswith(".a")):
            strip = "strip" if arch == "." else f"{arch}-linux-gnu-strip"
            subprocess.run([strip, "--strip-debug", "--enable-deterministic-archives", os.path.join(folder, name)], check=True)
    return inside


def check(prefix, limit):
    """All programs and libraries find what they need inside, or in glibc of at most this version."""
    libs = os.path.join(prefix, "lib/mgc/libs")
    inside = set(os.listdir(libs))
    found = {os.path.join(prefix, place): OUTSIDE | (inside if name in BRINGS else set()) for name, place in PORTABLE.items()}
    found.update({os.path.join(libs, name): OUTSIDE | inside for name in inside})
    for file, there in found.items():
        missing = needs(file) - there
        if missing:
            sys.exit(f"wheel: {file} needs {', '.join(sorted(missing))}, which a machine need not have")
        if glibc_of(file) > limit:
            sys.exit(f"wheel: {file} needs glibc {'.'.join(map(str, glibc_of(file)))}; the tag is of {'.'.join(map(str, limit))}")
    for name in inside:
        if "RUNPATH" in output("readelf", "-d", "-W", os.path.join(libs, name)):
            sys.exit(f"wheel: {name} has a RUNPATH, so that libraries beside it are not found")


def licences(inside):
    """Debian's files of licences, by package."""
    packages = set(LINKED)
    for path in inside.values():
        real = os.path.realpath(path)
        found = subprocess.run(["dpkg", "-S", path, real, real.replace("/usr/lib/", "/lib/", 1)], capture_output=True, text=True, check=False).stdout
        packages |= set(re.findall(r"^([^:\s]+)[:\w]*: ", found, re.M))
    files = {p: f"/usr/share/doc/{p}/copyright" for p in sorted(packages)}
    return {p: f for p, f in files.items() if os.path.exists(f)}


class Wheel:
    def __init__(self, path, epoch):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.time = time.gmtime(max(epoch, 315532800))[:6]  # a zip begins in 1980
        self.record = []

    def add(self, name, data, program=False):
        info = zipfile.ZipInfo(name, self.time)
        info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
        info.external_attr = (0o100755 if program else 0o100644) << 16
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, name):
        self.add(name, "".join(f"{r}\n" for r in [*self.record, f"{name},,"]).encode())
        self.zip.close()


def read(path):
    with open(path, "rb") as f:
        return f.read()


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("build", "version", "out"):
        args.add_argument("--" + option, required=True)
    given = args.parse_args()
    kind, libc = os.confstr("CS_GNU_LIBC_VERSION").split()
    limit = tuple(int(n) for n in libc.split(".")[:2])
    if kind != "glibc":
        sys.exit(f"wheel: this machine has {kind}; wheels are made on glibc")
    tag = f"py3-none-manylinux_{limit[0]}_{limit[1]}_{platform.machine()}"
    info = f"{NAME}-{given.version}.dist-info"
    os.makedirs(given.out, exist_ok=True)
    path = os.path.join(given.out, f"{NAME}-{given.version}-{tag}.whl")
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "prefix")
        data = os.path.join(folder, "data")
        inside = stage(given.build, prefix, data)
        check(prefix, limit)
        for tree, to in (prefix, "mgc/prefix"), (data, f"{NAME}-{given.version}.data/data"):
            for at, _, names in os.walk(tree):
                for name in names:
                    file = os.path.join(at, name)
                    place = os.path.relpath(file, tree)
                    files[f"{to}/{place}"] = (read(file), place == "bin/mgc" or ".so" in name)
    module = os.path.join(SOURCE, "python/mgc")
    for name in os.listdir(module):
        if name.endswith((".py", ".typed")):
            files[f"mgc/{name}"] = (read(os.path.join(module, name)), False)
    for name in "packaging/copyright", "LICENSE", "THIRD_PARTY_NOTICES.md":
        files[f"{info}/licenses/{os.path.basename(name)}"] = (read(os.path.join(SOURCE, name)), False)
    for package, file in licences(inside).items():
        files[f"{info}/licenses/{package}"] = (read(file), False)
    about = read(os.path.join(SOURCE, "packaging/wheel.md")).decode()
    files[f"{info}/METADATA"] = ((f"Metadata-Version: 2.1\nName: {NAME.replace('_', '-')}\nVersion: {given.version}\n"
                                  "Summary: static dataflow compiler for training\nLicense: Apache-2.0\nRequires-Python: >=3.9\n"
                                  "Provides-Extra: numpy\nRequires-Dist: numpy; extra == \"numpy\"\n"
                                  f"Description-Content-Type: text/markdown\n\n{about}").encode(), False)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: mgc {given.version}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), False)
    files[f"{info}/entry_points.txt"] = (b"[console_scripts]\nmgc = mgc.__main__:main\n", False)
    wheel = Wheel(path + ".tmp", int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    for name in sorted(files, key=lambda n: (n.startswith(info), n)):
        wheel.add(name, *files[name])
    wheel.close(f"{info}/RECORD")
    os.replace(path + ".tmp", path)
    print(path)


main()
