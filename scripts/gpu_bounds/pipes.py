"""pipes - the parts of a multiprocessor that an instruction keeps busy, and for how long.

A multiprocessor has four quarters, each of which issues one instruction of a warp a cycle. Lanes a cycle of a multiprocessor are
those of the table "Throughput of Native Arithmetic Instructions" of the CUDA C++ Programming Guide; cycles here are of a quarter,
for an instruction of 32 lanes. What a pipe is called and which instruction takes which is not documented: GUESSES."""

from collections import namedtuple

QUARTERS = 4
TENSOR = ("HMMA", "HGMMA", "IMMA", "DMMA", "UTCHMMA")
GUESSES = [
    "which pipe an instruction takes (pipes.py), beyond the documented rates of its kind",
    "an HGMMA reads its operands from shared memory once, at 128 bytes a cycle",
    "mma.sync on sm_90 runs at 0.62 of the rate of wgmma",
]
# Lanes a cycle and multiprocessor: float, whole numbers (also shifts and comparisons), special functions, conversions to and from
# 64 bits and whole numbers, f64.
Rates = namedtuple("Rates", "f32 integer special convert f64")
RATES = {80: Rates(64, 64, 16, 16, 32), 86: Rates(128, 64, 16, 16, 2), 89: Rates(128, 64, 16, 16, 2),
         90: Rates(128, 64, 16, 16, 64), 100: Rates(128, 64, 16, 16, 64), 120: Rates(128, 64, 16, 16, 2)}
MMA_SYNC_SHARE = {90: 0.62}

FLOAT = {"FFMA", "FADD", "FMUL", "FFMA2", "HFMA2", "HADD2", "HMUL2", "FSWZADD"}
MULTIPLY = {"IMAD", "IDP", "IMUL"}
SPECIAL = {"MUFU"}
DOUBLE = {"DFMA", "DADD", "DMUL", "DSETP"}
MEMORY = {"LDG", "STG", "LDS", "STS", "LDSM", "STSM", "LDL", "STL", "LDGSTS", "ATOM", "ATOMS", "ATOMG", "RED", "REDG", "SHFL", "LD", "ST"}
SHARED = {"LDS", "STS", "LDSM", "STSM", "ATOMS"}
CONTROL = {"BRA", "EXIT", "BAR", "BSSY", "BSYNC", "NOP", "CALL", "RET", "WARPSYNC", "DEPBAR", "LDGDEPBAR", "WARPGROUP", "FENCE", "MEMBAR",
           "BREAK", "YIELD", "ERRBAR", "ENDCOLLECTIVE", "CCTL", "BMOV", "S2R", "S2UR", "LDC", "ULDC", "LDCU", "CS2R", "R2UR", "NANOSLEEP"}
PIPES = ("issue", "float", "integer", "special", "f64", "memory", "shared", "tensor")


def shape(ins):
    """Multiplications and additions of a product of a warp (HGMMA: of four warps)."""
    text = ins.mods[0]
    if ins.op == "HGMMA":
        m, n, k = (int(x) for x in text.split("x")) if text.count("x") == 2 else (64, int(text.split("x")[1]), 16)
        return 2 * m * n * k
    return 2 * {"16816": 16 * 8 * 16, "1688": 16 * 8 * 8, "884": 8 * 8 * 4, "168128": 16 * 8 * 128}[text]


def pipe_of(ins, machine):
    """(pipe, cycles of a quarter), without what it issues, its wavefronts and its products."""
    rates = RATES[machine]
    cycles = lambda lanes: 32 * QUARTERS / lanes
    if ins.op in FLOAT:
        return "float", cycles(rates.f32)
    if ins.op in MULTIPLY:
        return "float", cycles(rates.integer)
    if ins.op in SPECIAL:
        return "special", cycles(rates.special)
    if ins.op in DOUBLE:
        return "f64", cycles(rates.f64)
    if ins.op in ("F2F", "F2I", "I2F", "FRND", "POPC", "FLO", "BREV"):
        return "special", cycles(rates.convert)
    if ins.op in TENSOR:
        return "tensor", 0
    if ins.op in MEMORY:
        return "memory", QUARTERS  # one instruction a cycle for all quarters
    if ins.op in CONTROL or (ins.op[0] == "U" and ins.op != "UTMALDG"):
        return "issue", 0
    return "integer", cycles(rates.integer)


def tensor_cycles(ins, machine, flops_per_cycle):
    """Of a quarter's tensor core; flops_per_cycle of a multiprocessor."""
    if ins.op == "HGMMA":
        return shape(ins) / flops_per_cycle  # four tensor cores, a quarter of the rows each
    return shape(ins) * QUARTERS / flops_per_cycle / MMA_SYNC_SHARE.get(machine, 1)


def tensor_shared(ins):
    """Wavefronts by which an HGMMA reads its operands, for all four quarters."""
    if ins.op != "HGMMA":
        return 0
    n = int(ins.mods[0].split("x")[1])
    both = not any(o.startswith("R") for o in ins.operands[1:2])  # the first operand is in shared memory, too
    return (n * 16 * 2 + (64 * 16 * 2 if both else 0)) / 128
