"""scripts/launch: each launcher's file starts a run to the bits of a bare start; manifests for Kubernetes are whole, and
what their pods run is run. kubernetes-validate (PyPI) checks them by Kubernetes' own schemas where it is installed;
slurm.sbatch is in test_slurm.py."""

import glob
import hashlib
import os
import re
import shutil
import signal
import subprocess
import time

import mgctest

try:
    import yaml
except ImportError:
    yaml = None
try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

HERE = os.path.join(mgctest.SOURCE, "scripts/launch")
MODEL = os.path.join(mgctest.SOURCE, "tests/parity/llama_small.mg")
LAYOUT = """layout many {
    device cpus
    mesh dp = DP, tp = 2
    batch -> dp
    kv_heads, ffn, vocab -> tp
    state, grads -> dp
    microbatch 1
}
"""
FOREIGN = ("OMPI_", "PMI", "MPI_", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_", "MGC_", "NNODES", "NODE_RANK", "NPROC")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN) or k in ("MGC_BUILD", "MGC_SOURCE")}
SECRET = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
PORT = 20000 + os.getpid() * 3 % 12000


def launch(name):
    return os.path.join(HERE, name)


class LaunchScripts(mgctest.Case):
    def program(self, ranks=4):
        self.write("many.mg", LAYOUT.replace("DP", str(ranks // 2)))
        self.compiles(MODEL, "--layout", "./many.mg", "-D", "batch=8", "--precision", "f32", "-o", "train")
        self.text(6000)
        self.trains(*self.command("bare"))

    def command(self, out, *more):
        return ["./train", "--data", "text1.txt", "--steps", "6", "--threads", "1", "--out", out, *more]

    def start(self, argv, env):
        p = subprocess.Popen(argv, cwd=self.dir, env={**CLEAN, **{k: str(v) for k, v in env.items()}}, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.kill)
        return p

    def ends(self, *started, code=0):
        said = [p.communicate(timeout=120)[0].decode(errors="replace") for p in started]
        self.assertEqual([p.returncode for p in started], [code] * len(started), said)
        return said

    def same(self, out):
        digests = []
        for run in ("bare", out):
            found = {}
            for path in glob.glob(self.path(run) + "/ckpt/step-00000006/*.safetensors"):
                with open(path, "rb") as f:
                    found[os.path.basename(path)] = hashlib.sha256(f.read()).hexdigest()
            self.assertEqual(len(found), 2, run)
            digests.append(found)
        self.assertEqual(*digests)

    # ---- by MPI -------------------------------------------------------------------------------------

    def by_mpi(self, script, program, env):
        if not shutil.which(program):
            self.skipTest(f"{program} is not installed")
        self.program()
        self.ends(self.start([launch(script), "4", *self.command("mpi")], env))
        self.same("mpi")
        said = self.ends(self.start([launch(script), "4", *self.command("mpi", "--preflight")], {**env, "MGC_FAKE_HOSTS": 2}))
        self.assertIn("4 ranks on 2 hosts, started by mpirun", said[0])

    def test_openmpi(self):
        self.by_mpi("openmpi.sh", "mpirun.openmpi", {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1,
                                                     "OPENMPI_OPTIONS": "--oversubscribe"})

    def test_mpich(self):
        self.by_mpi("mpich.sh", "mpirun.mpich", {})

    # ---- by torchrun's variables --------------------------------------------------------------------

    def on_hosts(self, hosts, each, command, **env):
        """The script on each of some pretended hosts."""
        return [self.start([launch("torchrun.sh"), *command], {
            "NNODES": hosts, "NODE_RANK": i, "NPROC": each, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": PORT, "MGC_SECRET": SECRET,
            "MGC_FAKE_HOSTS": hosts, **env}) for i in range(hosts)]

    def test_torchrun(self):
        self.program()
        self.ends(self.start([launch("torchrun.sh"), *self.command("one")], {"NPROC": 4}))
        self.same("one")
        self.ends(*self.on_hosts(2, 2, self.command("two")))
        self.same("two")
        # The code of a rank that ends badly is that of its host, and a signal goes to all of them.
        said = self.ends(*self.on_hosts(2, 2, ["./train", "--data", "nothing"]), code=65)
        self.assertIn("rank 0: error", said[0])
        p = self.start([launch("torchrun.sh"), *self.command("long", "--log-every", "1")[:4], "1000000", "--out", "long"], {"NPROC": 4})
        end = time.monotonic() + 60
        while not glob.glob(self.path("long") + "/metrics.jsonl") and time.monotonic() < end:
            time.sleep(0.1)
        p.send_signal(signal.SIGTERM)
        self.ends(p, code=75)
        self.assertEqual(len(glob.glob(self.path("long") + "/ckpt/step-*")), 1)

    def test_wrong_starts(self):
        for argv, env, word in ((["torchrun.sh"], {}, "a command is wanted"),
                                (["torchrun.sh", "true"], {"NODE_RANK": 2, "NNODES": 2}, "below NNODES"),
                                (["torchrun.sh", "true"], {"NNODES": 2}, "MGC_SECRET is not set"),
                                (["openmpi.sh"], {}, "the number of ranks"), (["mpich.sh"], {}, "the number of ranks"),
                                (["slurm.sbatch"], {}, "the command of the run is wanted")):
            p = self.start([launch(argv[0]), *argv[1:]], env)
            said = p.communicate(timeout=60)[0].decode()
            self.assertEqual(p.returncode, 2, said)
            self.assertIn(word, said)

    def test_shells(self):
        """Each script is read by the shell that its first line names."""
        for path in sorted(glob.glob(launch("*.sh")) + [launch("slurm.sbatch")]):
            with open(path, encoding="utf-8") as f:
                shell = f.readline().strip()[2:]
            self.assertTrue(os.access(path, os.X_OK), path)
            r = self.run_program(shell, "-n", path)
            self.assertEqual((r.returncode, r.stderr), (0, b""), path)

    # ---- Kubernetes ---------------------------------------------------------------------------------

    def read_manifest(self, name):
        if not yaml:
            self.skipTest("python3-yaml is not installed")
        with open(launch(name), encoding="utf-8") as f:
            return list(yaml.safe_load_all(f))

    def keys(self, what, allowed, needed=()):
        """All fields are known, and those that have to be there are."""
        self.assertEqual(set(what) - set(allowed), set(), what)
        self.assertEqual(set(needed) - set(what), set(), what)

    def check_job(self, spec):
        """A JobSpec of batch/v1 whose pods have an index; its pod."""
        self.keys(spec, ("completionMode", "completions", "parallelism", "backoffLimit", "podFailurePolicy", "template"),
                  ("completionMode", "completions", "parallelism", "template"))
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertEqual(spec["completions"], spec["parallelism"], "all pods run at once")
        pod = spec["template"]["spec"]
        self.keys(pod, ("subdomain", "restartPolicy", "terminationGracePeriodSeconds", "containers", "volumes"), ("restartPolicy", "containers"))
        self.assertEqual(pod["restartPolicy"], "Never")
        (container,) = pod["containers"]
        self.keys(container, ("name", "image", "args", "env", "resources", "volumeMounts"), ("name", "image", "args", "env"))
        volumes = {v["name"] for v in pod["volumes"]}
        self.assertEqual({m["name"] for m in container["volumeMounts"]}, volumes)
        self.assertIn("/dev/shm", [m["mountPath"] for m in container["volumeMounts"]])
        for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
            self.assertEqual(rule["onExitCodes"]["containerName"], container["name"])
            self.assertEqual(rule["onExitCodes"]["values"], sorted(set(rule["onExitCodes"]["values"]) - {0}))
        variables = {e["name"]: e for e in container["env"]}
        self.assertEqual(int(variables["NNODES"]["value"]), spec["completions"])
        self.assertEqual(variables["NODE_RANK"]["valueFrom"]["fieldRef"]["fieldPath"],
                         "metadata.annotations['batch.kubernetes.io/job-completion-index']")
        self.assertEqual(set(variables["MGC_SECRET"]["valueFrom"]["secretKeyRef"]), {"name", "key"})
        return pod, container, variables

    def run_pods(self, variables, out):
        """The entry point of the image, as each pod would have it."""
        hosts, each = int(variables["NNODES"]["value"]), int(variables["NPROC"]["value"])
        self.program(hosts * each)
        self.ends(*self.on_hosts(hosts, each, self.command(out, "--resume=auto")))
        self.same(out)

    def by_schema(self, documents):
        """Kubernetes' own schemas, of several versions, strictly."""
        if not kubernetes_validate:
            print("kubernetes-validate is not installed: manifests are checked by this test's own rules alone")
            return
        for version in ("1.29", "1.33", "1.37"):
            for d in documents:
                kubernetes_validate.validate(d, version, strict=True)
        wrong = {**documents[-1], "spec": {**documents[-1]["spec"], "completionsMode": "Indexed"}}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, "1.33", strict=True)

    def test_job(self):
        service, job = self.read_manifest("job-indexed.yaml")
        self.by_schema([service, job])
        self.assertEqual([(d["apiVersion"], d["kind"]) for d in (service, job)], [("v1", "Service"), ("batch/v1", "Job")])
        self.assertEqual((service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]), ("None", True))
        pod, _, variables = self.check_job(job["spec"])
        # Pod i is named JOB-i, in the domain of the service that its subdomain names and that selects its labels.
        self.assertEqual(pod["subdomain"], service["metadata"]["name"])
        self.assertEqual(service["spec"]["selector"], job["spec"]["template"]["metadata"]["labels"])
        self.assertEqual(variables["MASTER_ADDR"]["value"], f"{job['metadata']['name']}-0.{pod['subdomain']}")
        self.run_pods(variables, "pods")

    def test_jobset(self):
        (jobs,) = self.read_manifest("jobset.yaml")
        self.assertEqual((jobs["apiVersion"], jobs["kind"]), ("jobset.x-k8s.io/v1alpha2", "JobSet"))
        spec = jobs["spec"]
        self.keys(spec, ("network", "failurePolicy", "successPolicy", "replicatedJobs"))
        self.keys(spec["network"], ("enableDNSHostnames", "subdomain", "publishNotReadyAddresses"))
        self.keys(spec["failurePolicy"], ("maxRestarts",))
        self.assertEqual(spec["successPolicy"], {"operator": "All"})
        (replicated,) = spec["replicatedJobs"]
        self.keys(replicated, ("name", "replicas", "template"), ("name", "replicas", "template"))
        self.assertEqual(replicated["replicas"], 1)
        _, container, variables = self.check_job(replicated["template"]["spec"])
        # The set's job is one of batch/v1 as it stands.
        self.by_schema([{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "ranks"}, "spec": replicated["template"]["spec"]}])
        # A pod is named SET-JOB-number of the job-index.
        self.assertEqual(variables["MASTER_ADDR"]["value"],
                         f"{jobs['metadata']['name']}-{replicated['name']}-0-0.{spec['network']['subdomain']}")
        _, job = self.read_manifest("job-indexed.yaml")
        same = job["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual({k: v for k, v in container.items() if k != "env"}, {k: v for k, v in same.items() if k != "env"})

    def test_containerfile(self):
        """What it copies is there, and a program needs nothing of Debian but the C library."""
        with open(launch("Containerfile"), encoding="utf-8") as f:
            lines = [line.split() for line in f.read().splitlines() if line and not line.startswith("#")]
        self.assertEqual([line[0] for line in lines], ["ARG", "FROM", "ARG", "RUN", "COPY", "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT"])
        self.assertRegex(lines[0][1], r"/debian:12")
        self.assertTrue(os.path.exists(os.path.join(mgctest.SOURCE, lines[4][1])))
        self.assertEqual(lines[9][1:], ['["/usr/local/bin/torchrun.sh",', '"/usr/local/bin/train"]'])
        self.program()
        r = self.run_program("ldd", "./train")
        needs = set(re.findall(r"(?m)^\s*(\S+\.so\S*)", r.stdout.decode()))
        self.assertEqual({n for n in needs if not re.match(r"(/lib\S*/)?(linux-vdso|libc|libm|libmvec|ld-linux\S*)\.so", n)}, set())


if __name__ == "__main__":
    mgctest.main()
