"""The layouts under which the small models are run by real ranks: mesh and rules, by name."""

TP = "    {heads}, ffn, vocab -> tp\n"
SP = TP + "    seq -> tp\n"
Z1, Z2, Z3 = "    state -> dp\n", "    state, grads -> dp\n", "    state, grads, params -> dp\n"
DP = "    batch -> dp\n"
RING = "    seq -> cp (ring)\n"
ZIGZAG = "    seq -> cp (ring, zigzag)\n"
HEADS = "    seq -> cp (heads)\n"
PADDED = "    pad {heads} to 4\n"
LAYOUTS = {
    "dp2": ("dp = 2", DP),
    "dp4": ("dp = 4", DP),
    "dp2_zero1": ("dp = 2", DP + Z1),
    "dp2_zero2": ("dp = 2", DP + Z2),
    "dp2_zero3": ("dp = 2", DP + Z3),
    "dp4_zero1": ("dp = 4", DP + Z1),
    "dp4_zero3": ("dp = 4", DP + Z3),
    "tp2": ("tp = 2", TP),
    "tp2_sp": ("tp = 2", SP),
    "dp2_tp2": ("dp = 2, tp = 2", DP + TP),
    "tp2_dp2": ("tp = 2, dp = 2", DP + TP),
    "dp2_tp2_sp": ("dp = 2, tp = 2", DP + SP),
    "zero1_tp2": ("dp = 2, tp = 2", DP + TP + Z1),
    "zero2_tp2_sp": ("dp = 2, tp = 2", DP + SP + Z2),
    "zero3_tp2": ("dp = 2, tp = 2", DP + TP + Z3),
    "zero3_tp2_sp": ("dp = 2, tp = 2", DP + SP + Z3),
    "hybrid": ("replica = 2, dp = 2", "    batch -> replica, dp\n" + Z3),
    "within": ("out = 2, dp = 2", "    batch -> dp, out\n" + Z3),  # neighbours of a batch are on the outer axis
    "cp2": ("cp = 2", "    seq -> cp\n"),
    "cp2_ring": ("cp = 2", RING),
    "cp2_heads": ("cp = 2", HEADS),
    "cp2_heads_tp2": ("cp = 2, tp = 2", TP + PADDED + "    seq -> cp (heads), tp\n"),
    "tp2_cp2_heads": ("tp = 2, cp = 2", TP + PADDED + HEADS),
    "zero3_cp2_heads": ("dp = 2, cp = 2", DP + HEADS + Z3),
    "cp2_again2_heads": ("cp = 2, again = 2", "    seq -> cp (ring, zigzag), again (heads)\n"),
    "cp2_zigzag": ("cp = 2", ZIGZAG),
    "cp4_zigzag": ("cp = 4", ZIGZAG),
    "cp2_dp2": ("dp = 2, cp = 2", DP + RING),
    "cp2_dp2_zigzag": ("dp = 2, cp = 2", DP + ZIGZAG),
    "zero3_cp2": ("dp = 2, cp = 2", DP + ZIGZAG + Z3),
    "dp2_cp2_tp2": ("dp = 2, cp = 2, tp = 2", DP + TP + "    seq -> cp (ring), tp\n"),
    "tp2_cp2_dp2": ("dp = 2, cp = 2, tp = 2", DP + TP + "    seq -> cp (ring, zigzag), tp\n"),
    "dp4_tp2": ("dp = 4, tp = 2", DP + SP + Z1),
    "hidden": ("tp = 2", "    hidden -> tp\n"),
}


def PP(schedule):
    return f"    layers -> pp (schedule = {schedule})\n"


LAYOUTS |= {
    "pp2": ("pp = 2", PP("1f1b")),
    "pp2_gpipe_dp2": ("pp = 2, dp = 2", DP + PP("gpipe")),
    "dp2_pp2_zb": ("dp = 2, pp = 2", DP + PP("zb-h1")),
    "pp2_zero1": ("pp = 2, dp = 2", DP + PP("1f1b") + Z1),
    "pp2_zb_zero3": ("pp = 2, dp = 2", DP + PP("zb-h1") + Z3),
    "pp2_chunks_dp2_zero2": ("pp = 2, dp = 2", DP + PP("interleaved, chunks = 2") + Z2),
    "pp2_tp2_sp": ("pp = 2, tp = 2", SP + PP("1f1b")),
    "tp2_pp2_zb": ("tp = 2, pp = 2", TP + PP("zb-h1")),
    "pp2_cp2_zigzag": ("pp = 2, cp = 2", ZIGZAG + PP("1f1b")),
    "pp2_cp2_heads": ("pp = 2, cp = 2", HEADS + PP("1f1b")),
    "pp2_said": ("pp = 2", PP("1f1b, stages = [layers, 0]")),
    "pp2_chunks_said_dp2_zero1": ("pp = 2, dp = 2", DP + PP("interleaved, chunks = 2, stages = [0, layers - 1, 1, 0]") + Z1),
    "pp2_dp2_tp2": ("pp = 2, dp = 2, tp = 2", DP + SP + PP("1f1b") + Z2),
}
EP = "    experts -> ep\n    batch -> dp, ep\n"
ONCE = "    experts -> node (once), ep\n    batch -> ep, node\n"  # rows are sent once to each machine
SENT = {  # of sorted rows
    "ep2_rows": ("ep = 2", "    experts -> ep (rows)\n    batch -> ep\n"),
    "ep2_bound": ("ep = 2", "    experts -> ep (rows, bound = 1)\n    batch -> ep\n"),
    "ep4_rows_zero1": ("dp = 2, ep = 4", "    experts -> ep (rows)\n    batch -> dp, ep\n" + Z1),
    "ep2_rows_tp2": ("ep = 2, tp = 2", "    experts -> ep (rows)\n    batch -> ep\n" + SP),
    "node2_ep2_rows": ("node = 2, ep = 2", ONCE.replace("ep\n    batch", "ep (rows)\n    batch")),
    "node2_ep2_bound_zero1": ("node = 2, dp = 2, ep = 2", ONCE.replace("ep\n    batch -> ep", "ep (rows, bound = 1)\n    batch -> dp, ep") + Z1),
    "ep2_rows_pp2": ("pp = 2, ep = 2", "    experts -> ep (rows)\n    batch -> ep\n" + PP("zb-h1")),
}
EXPERTS = {
    "ep2": ("dp = 1, ep = 2", EP),
    "dp2_ep2": ("dp = 2, ep = 2", EP),
    "ep2_dp2_zero1": ("ep = 2, dp = 2", EP.replace("dp, ep", "ep, dp") + Z1),
    "dp2_ep2_zero3": ("dp = 2, ep = 2", EP + Z3),
    "ep4": ("dp = 1, ep = 4", EP),
    "ep2_tp2": ("dp = 1, ep = 2, tp = 2", EP + TP),
    "dp2_ep2_tp2_sp": ("dp = 2, ep = 2, tp = 2", EP + SP),
    "ep2_cp2": ("dp = 1, ep = 2, cp = 2", EP + "    seq -> cp\n"),
    "pp2_ep2": ("pp = 2, dp = 1, ep = 2", EP + PP("1f1b")),
    "node2_ep2": ("node = 2, ep = 2", ONCE),
    "node2": ("node = 2", "    experts -> node (once)\n    batch -> node\n"),
    "node2_ep2_zero3": ("node = 2, ep = 2", ONCE + Z3.replace("dp", "node, ep")),
    "node2_ep2_tp2_sp": ("node = 2, ep = 2, tp = 2", ONCE + SP),
    "pp2_node2_ep2": ("pp = 2, node = 2, ep = 2", ONCE + PP("1f1b")),
    "tp_of_experts": ("tp = 2", "    {heads}, ffn, vocab, experts -> tp\n    batch -> tp\n"),
}
# Of a model of linear scans: the chunks of a sequence are on several ranks.
SCANS = {
    "scan_cp4": ("cp = 4", "    seq -> cp\n"),
    "scan_cp2_dp2_zero1": ("dp = 2, cp = 2", DP + "    seq -> cp\n" + Z1),
    "scan_cp2_tp2": ("cp = 2, tp = 2", "    heads, vocab -> tp\n    seq -> cp, tp\n"),
    "scan_pp2_cp2": ("pp = 2, cp = 2", PP("1f1b") + "    seq -> cp\n"),
}


def text(name, device="cpu", heads="kv_heads", more=""):
    """The layout as a file has it."""
    mesh, rules = (LAYOUTS | EXPERTS | SENT | SCANS)[name] if name != "one" else ("dp = 1", "")
    return f"layout {name} {{\n    device {device}\n    mesh {mesh}\n{rules.format(heads=heads)}    microbatch 1\n{more}}}\n"
