"""What is wrong with a declaration of the prelude ends the build, with its place: optimizer_table on changed preludes.

    test_optimizer_table.py OPTIMIZER_TABLE
"""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
SGD = "optimizer sgd(momentum = 0, decay = 0, nesterov = 0) {"
LION = "optimizer lion(betas = (0.9, 0.99), decay = 0) {\n"
STATE = 'state m as "exp_avg"\n    move'
MUON = "optimizer muon(momentum = 0.95, "

# (text, instead of it, message)
WRONG = [
    ("setting 0 < eps < 1\n", "", "there is no `setting` that says the range of 'eps'"),
    ("setting nesterov\n", "setting nesterov\nsetting nesterov\n", "'nesterov' is there already"),
    ("setting nesterov\n", "setting nesterov\nsetting rank\n", "'rank' is there already"),
    ("setting nesterov\n", "setting nesterov\nsetting slow\n", "no optimizer has the setting 'slow'"),
    ("setting 0 < eps < 1", "setting 1 < eps < 2", "a number may be above 0, and at least others"),
    ("setting 0 < eps < 1", "setting eps < 1", "MG0105"),
    (SGD, SGD.replace("momentum = 0", "momentum = 1"), "the default of 'momentum' is no number of its range"),
    (SGD, SGD.replace("nesterov = 0", "nesterov = 2"), "the default of 'nesterov' is no number of its range"),
    (SGD, SGD.replace("decay = 0", "decay = 0.1"), "the default of 'decay' is no number of its range"),
    (SGD, SGD.replace("momentum = 0", "momentum = decay"), "the default of 'momentum' is no number of its range"),
    (SGD, SGD.replace("momentum = 0", "momentum ="), "the setting 'momentum' has no default"),
    (SGD, SGD.replace("decay = 0", "decay = 0, decay = 0"), "'decay' is a setting already"),
    (SGD, SGD.replace("decay = 0, ", ""), "the rule of 'sgd' reads 'decay', which is no setting or state of it"),
    (SGD, SGD.replace("decay = 0", "decay = 0, eps = 1e-8"), "no rule of 'sgd' reads its setting 'eps'"),
    (SGD, SGD.replace("sgd", "lion"), "there are two optimizers 'lion'"),
    (LION, LION.replace("(0.9, 0.99)", "0.9"), "'betas' are two numbers"),
    (LION, LION.replace("(0.9, 0.99)", "(0.9, 1)"), "the default of 'beta2' is no number of its range"),
    (STATE, 'state m[all]\n    move', "a state has all dims, [rows], [cols] or []"),
    (STATE, 'state m where beta1 == 1\n    move', "the condition of a state is `matrix == 0`, or `S != 0`"),
    (STATE, 'state m where momentum != 0\n    move', "the condition of a state is `matrix == 0`, or `S != 0`"),
    (STATE, 'state m, m\n    move', "'m' is there already"),
    (STATE, 'state m, rank\n    move', "'rank' is there already"),
    (STATE, 'state m, beta1\n    move', "'beta1' is there already"),
    (LION, LION + "    rank = 1\n", "'rank' is given; a rule does not change it"),
    (LION, LION + "    beta1 = 1\n", "'beta1' is given; a rule does not change it"),
    (STATE, 'state m, n\n    move', "the rule of 'lion' gives 'n' no new value"),
    (STATE, 'state m, n\n    n = g\n    move', "the rule of 'lion' does not read 'n': it needs no state"),
    (STATE, 'state m as "a b"\n    move', "a checkpoint cannot call a state 'a b'"),
    (STATE, 'state m as "rounded"\n    move', "a checkpoint cannot call a state 'rounded'"),
    (STATE, 'state m, n as "m"\n    n = n + g\n    move', "'m' is there already"),
    (LION, LION.replace("decay = 0", "decay = 0, lr = 1"), "'lr' is given to every rule"),
    (STATE, 'move', "the rule of 'lion' reads 'm', which is no setting or state of it"),
    (STATE, 'rest adam\n    ' + STATE, "'lion' has no setting 'eps', which the rule of its rest reads"),
    (STATE, 'rest muon\n    ' + STATE, "'muon' is an optimizer of hidden matrices"),
    (STATE, 'rest adamax\n    ' + STATE, "there is no optimizer 'adamax'"),
    ("    p = decayed(p, lr, decay = decay) - move\n    m", "    m", "the rule of 'lion' gives 'p' no new value"),
    ("move = sign(average(m, g, beta = beta1))", "move = sign(m)", "no rule of 'lion' reads its setting 'beta1'"),
    (LION, LION + "    return p\n", "a rule gives values to names, and no more"),
    (LION, LION + "    move = unknown\n", "the rule of 'lion' reads 'unknown', which is no setting or state of it"),
    (LION, "optimizer lion(decay = 0) {\n    state m\n    p = m * decay\n    m = p\n}\noptimizer lean(betas = (0.9, 0.99), decay = 0) {\n",
     "the rule of 'lion' does not read 'g'"),
    (MUON, "optimizer muon(", "the rule of 'muon' reads 'momentum', which is no setting or state of it"),
]


def main():
    (tool,) = sys.argv[1:]
    with open(os.path.join(ROOT, "grammar/prelude.mg"), encoding="utf-8") as f:
        prelude = f.read()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        source, table = os.path.join(folder, "prelude.mg"), os.path.join(folder, "optimizers.def")

        def run(text):
            with open(source, "w", encoding="utf-8") as f:
                f.write(text)
            return subprocess.run([tool, source, table], stderr=subprocess.PIPE, check=False, text=True)

        r = run(prelude)
        assert r.returncode == 0 and os.path.exists(table), r.stderr
        os.unlink(table)
        for was, becomes, says in WRONG:
            assert prelude.count(was) == 1, was
            r = run(prelude.replace(was, becomes))
            if r.returncode != 1 or os.path.exists(table) or \
                    not re.search(rf"(?m)^{re.escape(source)}:\d+:\d+: error.*{re.escape(says)}", r.stderr):
                failed += 1
                print(f"'{becomes.strip()}' instead of '{was.strip()}': exit code {r.returncode}, not '{says}' but\n{r.stderr}")
    print(f"{len(WRONG) - failed} wrong declarations are found, {failed} are not")
    return failed != 0


sys.exit(main())
