#!/usr/bin/env python3
"""test_gpu_bounds.py - the parts of scripts/gpu-bounds, without tools of CUDA: on machine code that make_golden.py wrote.

What must be true of a kernel's run is known from its source: the bytes that it moves, and the products of its tiles."""

import glob
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
from gpu_bounds import access, bounds, cards, contents, cubin, describe, descriptors, lanes, launches, lint, machine, occupancy, operations, order, pipes, sass, timeline  # noqa: E402

with open(os.path.join(HERE, "golden", "launches.json"), encoding="ascii") as file:
    GOLDEN = json.load(file)
MEMORY = [tuple(m) for m in GOLDEN["memory"]]


def golden(name):
    g = GOLDEN["kernels"][name]
    kernel = cubin.Kernel(name, g["machine"], g["registers"], 0, g["frame"], g["base"], [tuple(p) for p in g["places"]])
    launch = launches.Launch(g["action"], name, g["times"], tuple(g["grid"]), g["block"], g["shared"] if name.startswith("mg_flash") else 0,
                             bytes.fromhex(g["params"]))
    with open(os.path.join(HERE, "golden", name + ".sass"), encoding="ascii") as f:
        return machine.Program(sass.parse(f.read())[name]), kernel, launch


def block(name, at):
    """All warps of a block."""
    program, kernel, launch = golden(name)
    fill = contents.of(kernel, launch)
    return program, launch, [machine.Warp(program, kernel, launch, MEMORY, fill, at, w).run() for w in range(launch.block // 32)]


def moved(program, warps, op):
    """Bytes of all executions of an instruction."""
    return sum(a.bytes for w in warps for i, a in w.accesses.items() if isinstance(i, int) and program.code.ins[i].op == op)


def code(*lines, name="k"):
    text = "".join(f" /*{16 * i:04x}*/ {line} ;\n" if not line.endswith(":") else line + "\n"
                   for i, line in numbered(lines))
    return sass.parse(f".text.{name}:\n{text}")[name]


def numbered(lines):
    i = 0
    for line in lines:
        yield i, line
        i += not line.endswith(":")


def run(*lines, params=b"", block_size=32):
    program = machine.Program(code(*lines, "EXIT"))
    kernel = cubin.Kernel("k", 90, 32, 0, 0, 0x210, [(0, len(params))])
    launch = launches.Launch(0, "k", 1, (1, 1, 1), block_size, 0, params)
    return machine.Warp(program, kernel, launch, [(0, 1 << 40)], None, (0, 0, 0), 0).run()


class Descriptions(unittest.TestCase):
    def test_table_is_put_in_place(self):
        """The rest of the file stays as it was, and one without a list is refused."""
        row = {"kernels": "flash", "head": 64, "keys": 1024, "forward": 0.5, "gradient": 0.4}
        with open(cards.read("a100").path, encoding="utf-8") as f:
            text = f.read()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a100.json")
            for before, right in ((text, True), (text.replace("attention", "attentive"), False)):
                with open(path, "w", encoding="utf-8") as f:
                    f.write(before)
                if not right:
                    self.assertRaises(ValueError, describe.write, path, [row])
                    continue
                describe.write(path, [row])
                with open(path, encoding="utf-8") as f:
                    after = f.read()
                self.assertEqual(json.loads(after), {**json.loads(before), "attention": [row]})
                head = before[:before.index('"attention"')]
                self.assertTrue(after.startswith(head))

    def test_no_faster_than_products(self):
        card = cards.read("l40s")
        self.assertEqual(describe.capped(card, "flash", 0.9), card.description["product_share"])
        self.assertEqual(describe.capped(card, "flash_f32", 0.9), card.description["product_share_f32"])
        self.assertEqual(describe.capped(card, "flash", 0.2), 0.2)

    def test_rows_are_what_the_tool_writes(self):
        """Classes, heads and lengths of each description."""
        for path in sorted(glob.glob(os.path.join(cards.DEVICES, "*.json"))):
            with open(path, encoding="utf-8") as f:
                if json.load(f)["target"] != "cuda":
                    continue
            card = cards.read(path)
            rows = {(r["kernels"], r["head"], r["keys"]) for r in card.description["attention"]}
            self.assertEqual(rows, {(k, h, n) for k, h, lengths in describe.wanted(card) for n in lengths}, path)


class Text(unittest.TestCase):
    def test_instruction(self):
        with open(os.path.join(HERE, "golden", "d_gpt2_add.sass"), encoding="ascii") as f:
            first = sass.parse(f.read())["d_gpt2_add"].ins
        exit_ = next(i for i in first if i.op == "EXIT")
        self.assertEqual(exit_.guard, ("P0", False))
        self.assertEqual(first[1].operands, ["R6", "SR_CTAID.X"])
        self.assertEqual((first[1].write, first[1].stall), (0, 1))  # sets a barrier, which a reader waits for
        reader = next(i for i in first if i.op == "IMAD" and "R6" in i.operands)
        self.assertEqual(reader.wait & 1, 1)

    def test_blocks_and_loops(self):
        c = code("MOV R0, 0x4", ".L_1:", "IADD3 R0, R0, -0x1, RZ", "ISETP.NE.AND P0, PT, R0, RZ, PT", "@P0 BRA `(.L_1)", "EXIT")
        self.assertEqual(sass.blocks(c), [(0, 1), (1, 4), (4, 5)])
        self.assertEqual(sass.successors(c), [{1}, {1, 2}, set()])
        self.assertEqual(sass.loops(c), [{1, 2, 3}])


class Whole(unittest.TestCase):
    """Numbers: each against Python's own arithmetic."""

    def value(self, *lines, register=0):
        return run(*lines).R[register]

    def test_known_logic(self):
        for table, f in operations.KNOWN.items():
            for x, y, z in [(0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA), (5, 9, 12)]:
                self.assertEqual(f(x, y, z), operations.logic(x, y, z, table), f"{table:#x}")
        self.assertEqual(operations.logic(0xF0, 0xCC, 0xAA, 0xE2) & 0xFF, 0xE2)

    def test_carries(self):
        w = run("MOV R2, 0xffffffff", "MOV R3, 0x1", "IADD3 R0, P0, R2, 0x2, RZ", "IADD3.X R1, R3, RZ, RZ, P0, !PT")
        self.assertEqual((w.R[0], w.R[1]), (1, 2))
        w = run("MOV R2, 0x5", "IADD3 R0, P0, -R2, 0x3, RZ", "IADD3.X R1, RZ, -0x1, RZ, P0, !PT")
        self.assertEqual(w.R[0] | w.R[1] << 32, (3 - 5) % 2**64)

    def test_wide(self):
        w = run("MOV R2, 0xfffffffe", "MOV R4, 0x7", "MOV R5, 0x1", "IMAD.WIDE R0, R2, 0x3, R4", "IMAD.WIDE.U32 R6, R2, 0x3, R4")
        self.assertEqual(w.R[0] | w.R[1] << 32, (1 << 32 | 7) - 6)
        self.assertEqual(w.R[6] | w.R[7] << 32, (1 << 32 | 7) + 3 * 0xFFFFFFFE)

    def test_sums_of_64_bits(self):
        w = run("MOV R2, 0xffffffff", "MOV R3, 0x1", "MOV R4, 0x2", "MOV R5, 0x7", "IADD.64 R0, R2, R4", "IADD.64 R6, R2, RZ")
        self.assertEqual((w.R[0], w.R[1]), (1, 9))
        self.assertEqual((w.R[6], w.R[7]), (0xFFFFFFFF, 1))

    def test_spilled(self):
        """What a lane stores in local memory it loads again; a word that nobody stored, or that may have been overwritten, is unknown."""
        w = run("S2R R2, SR_TID.X", "MOV R3, 0x7", "STL.64 [R1+0x8], R2", "MOV R2, RZ", "LDL R4, [R1+0xc]", "LDL.64 R6, [R1+0x8]", "LDL R8, [R1]")
        self.assertEqual((w.R[4], w.R[6], w.R[7], w.R[8]), (7, list(range(32)), 7, None))
        w = run("MOV R2, 0x7", "STL [R1], R2", "LDG.E R3, [R4.64]", "STL [R3], R2", "LDL R0, [R1]")
        self.assertIsNone(w.R[0])

    def test_grid(self):
        """Where the sizes of the grid lie, by the machine."""
        for kind, at in ((90, "0xc"), (100, "0x370"), (120, "0x370")):
            program = machine.Program(code(f"LDC.64 R0, c[0x0][{at}]", "EXIT"))
            kernel = cubin.Kernel("k", kind, 32, 0, 0, 0x380, [])
            w = machine.Warp(program, kernel, launches.Launch(0, "k", 1, (3, 5, 7), 32, 0, b""), [], None, (0, 0, 0), 0).run()
            self.assertEqual((w.R[0], w.R[1]), (3, 5), kind)

    def test_conversions_without_kind(self):
        self.assertEqual(self.value("MOV R0, 0x3", "I2F.RP R0, R0"), 0x40400000)  # signed
        self.assertIsNone(self.value("MOV R0, 0x80000000", "I2F R0, R0"))

    def test_lanes_and_shifts(self):
        w = run("S2R R0, SR_TID.X", "SHF.L.U32 R1, R0, 0x3, RZ", "LEA.HI R2, R0, R0, RZ, 0x1f", "SHF.R.U64 R3, R0, 0x4, R0")
        self.assertEqual(w.R[1], [8 * t for t in range(32)])
        self.assertEqual(w.R[2], [t + (t >> 1) for t in range(32)])
        self.assertEqual(w.R[3], [(t << 32 | t) >> 4 & 0xFFFFFFFF for t in range(32)])

    def test_constants_by_halves(self):
        self.assertEqual(self.value("HFMA2.MMA R0, -RZ, RZ, 0, 5.9604644775390625e-08"), 1)
        self.assertEqual(self.value("HFMA2.MMA R0, -RZ, RZ, 1.875, 0"), 0x3F800000)

    def test_unknown(self):
        w = run("MUFU.EX2 R2, R3", "FADD R0, R2, R2", "IADD3 R1, R0, 0x1, RZ", "LOP3.LUT R4, R0, RZ, RZ, 0xc0, !PT")
        self.assertEqual((w.R[0], w.R[1], w.R[4]), (None, None, 0))


class Ways(unittest.TestCase):
    def counts(self, *lines):
        return run(*lines).counts

    def test_loop(self):
        self.assertEqual(self.counts("MOV R0, 0x7", ".L_1:", "IADD3 R0, R0, -0x1, RZ", "ISETP.NE.AND P0, PT, R0, RZ, PT", "@P0 BRA `(.L_1)"),
                         [1, 7, 7, 7, 1])

    def test_lanes_part_and_meet(self):
        c = self.counts("S2R R0, SR_TID.X", "ISETP.GE.AND P0, PT, R0, 0x8, PT", "BSSY B0, `(.L_2)", "@P0 BRA `(.L_1)", "NOP", "BRA `(.L_1)",
                        ".L_1:", "BSYNC B0", ".L_2:", "NOP")
        self.assertEqual(c[4], 1)       # one way alone
        self.assertEqual(c[7:], [1, 1])  # together again

    def test_slow_path_is_not_taken(self):
        c = self.counts("FSETP.GT.AND P0, PT, R2, R3, PT", "@!P0 BRA `(.L_1)", "CALL.REL.NOINC `(.L_2)", ".L_1:", "EXIT", ".L_2:", "NOP")
        self.assertEqual(c[2], 0)

    def test_data_goes_both_ways(self):
        c = self.counts("FSETP.GT.AND P0, PT, R2, R3, PT", "BSSY B0, `(.L_2)", "@P0 BRA `(.L_1)", "NOP", "BRA `(.L_3)", ".L_1:", "NOP",
                        ".L_3:", "BSYNC B0", ".L_2:", "NOP")
        self.assertEqual((c[3], c[5], c[7]), (1, 1, 1))

    def test_wrong_address_is_told(self):
        with self.assertRaisesRegex(machine.Stuck, r"k: 0x0010 LDG.*outside"):
            run("MOV R3, 0xffff", "LDG.E R0, desc[UR4][R2.64]")


class Memory(unittest.TestCase):
    def test_banks(self):
        for stride, size, want in [(4, 4, 1), (8, 4, 2), (128, 4, 32), (0, 4, 1), (16, 16, 4), (32, 16, 8), (0, 16, 1), (8, 8, 2), (132, 4, 1)]:
            self.assertEqual(access.wavefronts([stride * k for k in range(32)], size)[0], want, f"{stride} {size}")
        self.assertEqual(access.wavefronts([16 * k for k in range(32)], 16), (4, 4))
        rows = [128 * (k % 8) + 16 * (k // 8) for k in range(32)]  # the lanes of each quarter in the same banks
        self.assertEqual(access.wavefronts(rows, 16), (32, 4))

    def test_matrices(self):
        self.assertEqual(access.matrices([128 * k for k in range(32)], 4), (32, 4))  # rows of 128 bytes: all in the same banks
        self.assertEqual(access.matrices([128 * k + (k % 8) * 16 for k in range(32)], 4), (4, 4))

    def test_sectors(self):
        for stride, size, want in [(4, 4, 4), (16, 16, 16), (128, 4, 32), (2, 2, 2)]:
            a = access.Access()
            access.note_global(a, [4096 + stride * k for k in range(32)], lanes.ALL, size, [(0, 1 << 20)])
            self.assertEqual(a.sectors, want)


class Occupancy(unittest.TestCase):
    def test_best_practices_guide(self):
        """CUDA C++ Best Practices Guide, on register pressure: 37 registers are 75% of 64 warps with blocks of 128 threads, and 63% with
        320."""
        self.assertEqual(occupancy.of(80, 128, 37, 0)[:2], (12, 48))
        self.assertEqual(occupancy.of(80, 320, 37, 0)[:2], (4, 40))

    def test_toolkit(self):
        """What the CUDA Toolkit's calculator says (occupancy.c)."""
        with open(os.path.join(HERE, "golden", "occupancy.txt"), encoding="ascii") as f:
            rows = [tuple(map(int, line.split())) for line in f]
        self.assertEqual({r[0] for r in rows}, set(occupancy.LIMITS))
        for arch, threads, registers, shared, blocks in rows:
            self.assertEqual(occupancy.of(arch, threads, registers, shared).blocks, blocks, (arch, threads, registers, shared))

    def test_limits(self):
        self.assertEqual(occupancy.of(90, 256, 32, 0)[:2], (8, 64))
        self.assertEqual(occupancy.of(89, 256, 32, 0)[:2], (6, 48))
        self.assertEqual(occupancy.of(90, 128, 255, 0)[:2], (2, 8))
        self.assertEqual(occupancy.of(90, 128, 32, 112 * 1024), (2, 8, "shared memory"))
        self.assertEqual(occupancy.of(90, 128, 32, 113 * 1024)[0], 2)
        self.assertEqual(occupancy.of(90, 128, 32, 114 * 1024)[0], 1)  # 1 KiB more for each block
        self.assertEqual(occupancy.of(89, 128, 32, 100 * 1024)[0], 0)


SCATTER = "mg_scatter_add_f32"
ATTENTION = "mg_flash90_forward_bf16_all_64_64"  # a block for 128 queries of each of 12 heads: 8 blocks a head


class Descriptors(unittest.TestCase):
    NAMES = ["mg_gather_desc", "mg_experts_desc", "mg_xent_desc", "mg_attention_desc", "mg_grouped_desc"]

    def test_compiler(self):
        """A C compiler lays them out in the same way."""
        lines = [f'printf("{n} {f} %zu\\n", offsetof({n}, {f}));' for n in self.NAMES for f in descriptors.layout(n)[0]]
        lines += [f'printf("{n} all %zu\\n", sizeof({n}));' for n in self.NAMES]
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "a.c"), os.path.join(folder, "a")
            with open(source, "w", encoding="ascii") as f:
                f.write('#include "runtime/abi.h"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {' + "\n".join(lines) + "}\n")
            subprocess.run(["cc", "-I", os.path.join(HERE, "..", ".."), source, "-o", program], check=True)
            said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        ours = {(n, f): at for n in self.NAMES for f, at in [*descriptors.layout(n)[0].items(), ("all", descriptors.layout(n)[1])]}
        self.assertEqual({tuple(line.split()[:2]): int(line.split()[2]) for line in said.splitlines()}, ours)

    def test_golden(self):
        """The committed launches are of these descriptors: if not, make_golden.py is to be run again."""
        for name, which in (("mg_gather_16", 0), (SCATTER, 0), (ATTENTION, 3)):
            self.assertEqual(golden(name)[1].params[0][1], descriptors.layout(self.NAMES[which])[1], name)


class Kernels(unittest.TestCase):
    def test_add(self):
        """192 vectors of 16 bytes: two are read, one is written."""
        program, _, warps = block("d_gpt2_add", (0, 0, 0))
        self.assertEqual((moved(program, warps, "LDG"), moved(program, warps, "STG")), (2 * 192 * 16, 192 * 16))
        self.assertEqual(sum(a.unknown for w in warps for a in w.accesses.values()), 0)

    def test_gather(self):
        """A block copies 8 rows of 768 floats, and reads an index in each lane."""
        program, launch, warps = block("mg_gather_16", (3, 0, 0))
        self.assertEqual(contents.field(launch, "mg_gather_desc", "indices"), 1024)
        self.assertEqual(moved(program, warps, "STG"), 8 * 768 * 4)
        self.assertEqual(moved(program, warps, "LDG"), 8 * 768 * 4 + 256 * 4)

    def test_scatter(self):
        """The eight blocks of the first 128 columns read each of 1024 rows once, and write a row of the table for each different index.
        The rest that they read is these rows of the table and the sorted positions."""
        _, _, launch = golden(SCATTER)
        self.assertEqual((contents.field(launch, "mg_gather_desc", "indices"), contents.rows(launch)), (1024, 50304))
        index = contents.all_placed(launch)
        runs, row, read, written = len({index(8 * i + 4) for i in range(1024)}), 128 * 4, 0, 0
        self.assertEqual(launch.grid[0], 768 // 128 * 8)
        for x in range(8):
            program, _, warps = block(SCATTER, (x, 0, 0))
            read, written = read + moved(program, warps, "LDG"), written + moved(program, warps, "STG")
        self.assertEqual(written, runs * row)
        self.assertGreaterEqual(read, (1024 + runs) * row)
        self.assertLess(read, 1.35 * (1024 + runs) * row)

    def test_attention(self):
        """A block of 128 queries sees two more tiles of 64 keys than the one before; each tile is two products of 128 x 64 x 64."""
        for x in (0, 3, 7):
            grid = order.of(*golden(ATTENTION)[1:])
            program, _, warps = block(ATTENTION, grid.block(x, 5))
            tiles = 2 * (8 - x)  # the longest first
            flops = sum(n * pipes.shape(program.code.ins[i]) / 4 for w in warps for i, n in enumerate(w.counts) if program.code.ins[i].op == "HGMMA")
            self.assertEqual(flops, tiles * 2 * 2 * 128 * 64 * 64)
            copied = moved(program, warps, "LDGSTS")
            self.assertEqual(copied, 128 * 128 + tiles * 2 * 64 * 128)  # queries, and tiles of keys and values
            for w in warps:
                for i, a in w.accesses.items():
                    self.assertFalse(a.least and a.wavefronts > a.least, f"bank conflicts: {i}")

    def test_order(self):
        """Blocks are numbered as flash_place_of has them: each once, and as many heads as the L2 cache holds take turns."""
        _, kernel, launch = golden(ATTENTION)
        for section, columns in ((1, [0, 1] * 5), (3, [0, 0, 0, 1, 1, 1, 0, 0, 1, 1]), (9, [0] * 5 + [1] * 5)):
            grid = order.Turns(launch._replace(grid=(10, 1, 1)), 5, section)
            self.assertEqual(grid.columns(100), columns)
            self.assertEqual({grid.block(x, y)[0]: x for x in range(2) for y in range(5)}, dict(enumerate(columns)))
        self.assertEqual(order.of(kernel, launch).section, 12)  # 64 heads of 1024 keys in 16 MiB

    def test_products_not_reached(self):
        """A block that ends before its products, as by a number that is not known: the bound is refused."""
        program, kernel, launch = golden(ATTENTION)
        leave = next(s for s in program.steps if s[2].op == "EXIT" and s[0] is None)
        program.steps[0] = leave
        self.assertRaisesRegex(machine.Stuck, "none of its products", bounds.of_launch, program, kernel, launch, MEMORY, cards.read("h100"))

    def test_bound(self):
        program, kernel, launch = golden(ATTENTION)
        card = cards.read("h100")
        b = bounds.of_launch(program, kernel, launch, MEMORY, card)
        tiles = 12 * sum(2 * (k + 1) for k in range(8))
        self.assertAlmostEqual(b.flops, tiles * 4 * 128 * 64 * 64, delta=1)
        busy = launch.grid[0] * launch.grid[1]  # fewer blocks than multiprocessors
        self.assertLess(busy, card.processors)
        self.assertAlmostEqual(b.seconds["tensor"], b.flops / (card.flops * card.clock * busy), delta=1e-9)
        self.assertGreater(b.expected, max(b.seconds.values()))
        self.assertEqual(list(lint.of_bound(program, b)) + list(lint.of_code(kernel, program.code)), [])


class Footprint(unittest.TestCase):
    """What DRAM gives and takes."""

    def bytes(self, *lines):
        a = access.Access()
        a.sectors, a.low, a.high = 4, 0, 128
        warp = types.SimpleNamespace(accesses={0: a, 1: a})
        return bounds.footprint(machine.Program(code(*lines, "EXIT")), [types.SimpleNamespace(warps=[warp])], 8)

    def test_in_place(self):
        load, store = "LDG.E R0, desc[UR4][R2.64]", "STG.E desc[UR4][R2.64], R0"
        self.assertEqual(self.bytes(load, store), 256)  # it is read, and it is written
        self.assertEqual(self.bytes(load, load), 128)   # the cache has it the second time

    def again(self, resident, same=False, reads=2):
        """Of two blocks, each of which loads a range of 64 KB `reads` times: its own, or the same."""
        samples = []
        for k in range(2):
            a = access.Access()
            a.low, a.sectors = 0 if same else k << 20, 2048
            a.high = a.low + 65536
            samples.append(types.SimpleNamespace(warps=[types.SimpleNamespace(accesses={(0, n): a}) for n in range(reads)], scale=1))
        program = machine.Program(code(*["LDG.E R0, desc[UR4][R2.64]"] * 2, "EXIT"))
        return bounds.read_again(program, samples, resident, types.SimpleNamespace(cache=40e6))

    def test_what_the_cache_lost(self):
        """Blocks read their own again: from the cache, if what all of them have fits."""
        self.assertEqual(self.again(400), [0, 0])
        twice = self.again(2 * 32_000_000 // 65536)
        self.assertAlmostEqual(twice[0], 32768, delta=100)
        self.assertEqual(twice[0], twice[1])
        self.assertEqual(self.again(4000, same=True), [0, 0])  # others keep it there
        self.assertEqual(self.again(4000, reads=1), [0, 0])

    def test_both_ends_run(self):
        for grid in ((1, 1, 1), (3, 170, 1), (1, 33, 1), (4096, 1, 1)):
            some = bounds.sample_blocks(grid, bounds.SAMPLES)
            self.assertEqual((some[0], some[-1]), ((0, 0, 0), (grid[0] - 1, grid[1] - 1, 0)))
            self.assertLessEqual(len(some), bounds.SAMPLES)


class Timeline(unittest.TestCase):
    def cycles(self, *lines, warps=1):
        c = code(*lines)
        program = machine.Program(c)
        return timeline.run(timeline.Costs(program, 90, 4096, {}), [list(range(len(c.ins)))] * warps, 1)

    def test_issue_and_pipes(self):
        some = ["FFMA R0, R1, R2, R3"] * 100
        self.assertAlmostEqual(self.cycles(*some), 100, delta=3)
        self.assertAlmostEqual(self.cycles(*["LOP3.LUT R0, R1, R2, RZ, 0xc0, !PT"] * 100), 200, delta=6)  # half of the lanes
        self.assertAlmostEqual(self.cycles(*["MUFU.EX2 R0, R1"] * 100), 800, delta=16)
        self.assertAlmostEqual(self.cycles(*some, warps=4), 400, delta=120)


class Lint(unittest.TestCase):
    def finding(self, *lines, counts=100):
        program = machine.Program(code(*lines))
        kernel = cubin.Kernel("k", 90, 32, 0, 0, 0x210, [])
        b = bounds.Bound(None, kernel, None, {}, 0, "", 0, 0, 0, 0, [], [counts] * len(program.code.ins), set())
        return [*lint.of_code(kernel, program.code), *lint.of_bound(program, b)]

    def test_narrow_loads(self):
        loop = [".L_1:", "LDG.E.U16 R0, desc[UR4][R2.64]", "@P0 BRA `(.L_1)", "EXIT"]
        self.assertIn("16 bits", self.finding(*loop)[0].what)
        self.assertEqual(self.finding(*loop, counts=2), [])
        self.assertEqual(self.finding("LDG.E.U16 R0, desc[UR4][R2.64]", "EXIT"), [])
        self.assertEqual(self.finding(".L_1:", "LDG.E.128 R0, desc[UR4][R2.64]", "@P0 BRA `(.L_1)", "EXIT"), [])

    def test_divisions(self):
        self.assertIn("64 bits", self.finding(".L_1:", "CALL.REL.NOINC `($__internal_0_$__cuda_sm20_div_s64)", "@P0 BRA `(.L_1)", "EXIT")[0].what)
        self.assertIn("64 bits", self.finding("I2F.U64.RP R0, R2", "EXIT")[0].what)

    def test_local_memory(self):
        self.assertIn("local memory", self.finding("STL [R1], R0", "EXIT")[0].what)

    def test_conflicts(self):
        program = machine.Program(code("LDS R0, [R2]", "EXIT"))
        a = access.Access()
        a.times, a.wavefronts, a.least = 10, 40, 10
        kernel = cubin.Kernel("k", 90, 32, 0, 0, 0x210, [])
        b = bounds.Bound(None, kernel, None, {}, 0, "", 0, 0, 0, 0, [{0: a}], [10, 1], set())
        self.assertIn("4.00 times", next(lint.of_bound(program, b)).what)
        self.assertEqual(list(lint.of_bound(program, b._replace(drawn={0}))), [])


if __name__ == "__main__":
    unittest.main()
