"""A bare Debian in a folder: what debootstrap makes of the mirror that this machine uses, entered by chroot in namespaces of its own."""

import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request

SUITE = "bookworm"
INSIDE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
# Notes of package managers and of the system about what happened: no files of a package.
KEPT = re.compile(r"(proc|sys|dev|run|tmp|root|var/(lib/(dpkg|apt|systemd|pam)|cache|log|tmp))(/|$)|etc/ld\.so\.cache$|etc/(passwd|group|g?shadow|subuid|subgid)-?$")


def mirror():
    """The mirror of this machine's sources, in any of the two forms of their files."""
    for folder, _, names in sorted(os.walk("/etc/apt")):
        for name in sorted(names):
            if not name.endswith((".list", ".sources")):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                found = re.findall(r"(?:^deb |^URIs: )(?:\[[^\]]*\] )?(https?://\S+/debian)/?(?:\s|$)", f.read(), re.M)
            if found:
                return found[0]
    return None


def missing():
    """Why no root can be made here, or None."""
    if os.geteuid() != 0:
        return "chroot takes root"
    for tool in ("debootstrap", "unshare", "chroot"):
        if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            return f"{tool} is not installed"
    at = mirror()
    if not at:
        return "no mirror of Debian in /etc/apt"
    try:
        urllib.request.urlopen(f"{at}/dists/{SUITE}/Release", timeout=20).close()
    except (OSError, urllib.error.URLError) as e:
        return f"the mirror does not answer: {e}"
    return None


class Root:
    def __init__(self, folder):
        self.folder = folder
        done = subprocess.run(["debootstrap", "--variant=minbase", SUITE, folder, mirror()], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
        if done.returncode:
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
        shutil.copyfile("/etc/resolv.conf", self.path("etc/resolv.conf"))
        with open(self.path("etc/dpkg/dpkg.cfg.d/unsafe-io"), "w", encoding="utf-8") as f:
            f.write("force-unsafe-io\n")  # the folder is removed at the end: no file has to reach the disk
        os.makedirs(self.path("work"))

    def path(self, name):
        return os.path.join(self.folder, name.lstrip("/"))

    def run(self, command, cwd="/work", **env):
        """A line for the shell, as root of that system. Its mounts and processes end with it."""
        enter = f"mount -t proc proc {self.folder}/proc && mount --rbind /dev {self.folder}/dev && exec chroot {self.folder} /bin/sh -c \"$1\""
        return subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private",
                               "/bin/sh", "-c", enter, "sh", f"cd {cwd} && {command}"], capture_output=True, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, check=False, timeout=1800, env={**INSIDE, **env})

    def must(self, command, **more):
        r = self.run(command, **more)
        if r.returncode:
            raise AssertionError(f"{command}: exit code {r.returncode}\n{r.stdout[-3000:]}\n{r.stderr[-3000:]}")
        return r

    def files(self):
        found = set()
        for at, folders, names in os.walk(self.folder):
            inside = os.path.relpath(at, self.folder)
            folders[:] = [d for d in folders if not KEPT.match(os.path.normpath(os.path.join(inside, d)))]
            found |= {os.path.normpath(os.path.join(inside, n)) for n in names}
        return {f for f in found if not KEPT.match(f) and not f.startswith("work/")}
