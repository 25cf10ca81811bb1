"""Golden tables of pipelines: schedules.py writes golden/schedules.json.

Needs torch; the test (check_schedules.py) does not. The rows are those of torch.distributed.pipelining, each as its CSV
has it. Its idle cells are left out. Before they are written, torch reads what build/mgc prints of the same schedule, and
its own simulation runs that (which takes no pairs that overlap).
"""

import json
import os
import subprocess
import sys

from torch.distributed.pipelining import schedules
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = {"interleaved": (schedules.ScheduleInterleaved1F1B, "loop"), "zb-v": (schedules.ScheduleZBVZeroBubble, "v"),
         "dualpipe-v": (schedules.ScheduleDualPipeV, "v")}


def rows(kind, ranks, chunks, microbatches):
    s = object.__new__(KINDS[kind][0])
    s.pp_group_size, s._n_microbatches = ranks, microbatches
    s.n_local_stages, s.num_stages = chunks, ranks * chunks
    s.number_of_rounds = max(1, microbatches // ranks)
    s.microbatches_per_round = microbatches // s.number_of_rounds
    all_rows = [s._calculate_single_rank_operations(r) for r in range(ranks)]
    return [",".join(str(a) for a in row if a is not None) for row in all_rows]


def is_loaded(mgc, kind, ranks, chunks, microbatches, *more):
    text = subprocess.run([mgc, "pipeline", kind, f"--ranks={ranks}", f"--chunks={chunks}",
                           f"--microbatches={microbatches}", *more], check=True, capture_output=True, text=True).stdout
    table = {r: [schedules._Action.from_str(a) for a in line.split(",")] for r, line in enumerate(text.splitlines()[:ranks])}
    place = generate_stage_to_rank_mapping(ranks, ranks * chunks, style=KINDS[kind][1]).__getitem__
    if not more:
        table = schedules._add_send_recv(table, stage_to_rank=place, num_stages=ranks * chunks)
    if kind != "dualpipe-v":
        schedules._simulate_comms_compute(table, stage_to_rank=place, num_stages=ranks * chunks)


def main():
    mgc = os.path.join(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../../build"), "mgc")
    golden = []
    for ranks in range(1, 7):
        for kind, chunks, microbatches in ([("interleaved", v, m * ranks) for v in (2, 3) for m in (1, 3)]
                                           + [("zb-v", 2, m) for m in sorted({1, ranks, 2 * ranks, 2 * ranks + 3})]
                                           + [("dualpipe-v", 2, m) for m in (2 * ranks, 2 * ranks + 3)]):
            form = kind, ranks, chunks, microbatches
            if ranks > 1:
                is_loaded(mgc, *form)
                is_loaded(mgc, *form, "--comms")
            golden.append({"kind": kind, "ranks": ranks, "chunks": chunks, "microbatches": microbatches,
                           "rows": rows(*form)})
    with open(os.path.join(HERE, "golden", "schedules.json"), "w", encoding="utf-8") as f:
        json.dump(golden, f, indent=0)
        f.write("\n")
    print(len(golden), "tables")


if __name__ == "__main__":
    main()
