"""Faults that are planted into recordings and programs: each is found, by the rule that is for it."""

import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../e2e")]
import layouts  # noqa: E402
from mgctest import TURN  # noqa: E402
from kernel_text import read  # noqa: E402
from recorded import Case, Program  # noqa: E402

PARITY = os.path.join(HERE, "../parity")
LOOK_UP = 72  # bytes of mg_gather_desc
STREAM, KERNEL, GRID, BLOCK, SHARED, PARAMETERS = 2, 3, 4, 7, 10, 11  # fields of a launch's line


def pointers(text):
    return list(struct.unpack(f"<{len(text) // 16}Q", bytes.fromhex(text)))


def hexadecimal(values):
    return struct.pack(f"<{len(values)}Q", *values).hex()


class Recording:
    """The lines of a recording, as lists of words."""

    def __init__(self, lines):
        self.lines = [line if isinstance(line, list) else line.split() for line in lines]

    def copy(self):
        return Recording([list(line) for line in self.lines])

    def at(self, word, good=lambda line: True, behind=0):
        """The first such line."""
        return next(i for i in range(behind, len(self.lines)) if self.lines[i][0] == word and good(self.lines[i]))

    def launch(self, kernel, good=lambda line: True):
        return self.at("launch", lambda line: re.match(kernel, line[KERNEL]) and good(line), self.at("program"))

    def text(self):
        return "\n".join(" ".join(line) for line in self.lines) + "\n"


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="mgc-test-")
        cls.one = cls.program("one", os.path.join(PARITY, "gpt2_small.mg"), "--precision", "bf16", "--device", "h100")
        with open(os.path.join(cls.folder.name, "many.mg"), "w", encoding="utf-8") as f:
            f.write(layouts.text("pp2_dp2_tp2", "h200", "kv_heads").replace("layout pp2_dp2_tp2", "layout many"))
        cls.many = cls.program("many", os.path.join(PARITY, "llama_small.mg"), "--precision", "bf16", "-D", "batch=8", "--layout",
                               os.path.join(cls.folder.name, "many.mg"), rank=3)
        with open(os.path.join(cls.folder.name, "copies.mg"), "w", encoding="utf-8") as f:
            f.write(layouts.text("dp2_zero3", "rtx4090", "kv_heads").replace("layout dp2_zero3", "layout copies"))
        cls.copies = cls.program("copies", os.path.join(PARITY, "llama_small.mg"), "--precision", "bf16", "-D", "batch=8", "--collectives", "copies",
                                 "--layout", os.path.join(cls.folder.name, "copies.mg"), rank=1)
        cls.eights = cls.program("eights", os.path.join(PARITY, "llama_small.mg"), "--precision", "fp8", "--device", "rtx4090")
        cls.tiles = cls.program("tiles", cls.scaled("tile"), "-D", "ffn=144", "--device", "h100")
        cls.powers = cls.program("powers", cls.scaled("mx"), "-D", "ffn=160", "--device", "rtx5090")
        cls.images = cls.program("images", os.path.join(PARITY, "zoo/resnet.mg"), "--precision", "bf16", "--device", "h100")

    @classmethod
    def scaled(cls, scales):
        """A model of fp8 whose operands have such scales."""
        to = os.path.join(cls.folder.name, scales + ".mg")
        with open(os.path.join(PARITY, "llama_small.mg"), encoding="utf-8") as f, open(to, "w", encoding="utf-8") as g:
            g.write(re.sub(r"(?m)^( *precision +)\w+.*$", rf"\1fp8(scales = {scales})", f.read()))
        return to

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def program(cls, name, *options, rank=0):
        folder = os.path.join(cls.folder.name, name)
        os.mkdir(folder)
        p = Program(Case(options[0], options[1:]), folder)
        p.rank = rank
        with open(p.record(rank), encoding="ascii") as f:
            p.recording = Recording(f)
        return p

    def check(self, p, recording, argv=()):
        with open(p.path("planted"), "w", encoding="ascii") as f:
            f.write(recording.text())
        r = subprocess.run([*p.check_argv(p.path("planted")), *argv], capture_output=True, text=True, check=False)
        self.assertIn(r.returncode, (0, 1), r.stderr)
        return r.stdout

    def finds(self, rule, p, change, argv=()):
        """`change` plants a fault into a copy of the recording."""
        planted = p.recording.copy()
        change(planted)
        said = self.check(p, planted, argv)
        self.assertRegex(said, rf"(?m)^{rule}", said[-2000:])

    def test_nothing(self):
        for p in (self.one, self.many, self.copies, self.images, self.eights, self.tiles, self.powers):
            self.assertIn(" 0 findings", self.check(p, p.recording))
            self.assertEqual(p.problems, [])

    # ---- alignment, bounds, buffers ----

    def moved(self, kernel, number, by):
        """A launch's pointer is moved."""
        def change(r):
            line = r.lines[r.launch(kernel)]
            p = pointers(line[PARAMETERS])
            p[number] += by
            line[PARAMETERS] = hexadecimal(p)
        return change

    def product(self, field, value, good=lambda line: True):
        """A field of a product's line: 6 beta; 7..13 A: address, type, rows, columns, ld, batch, stride; 14.. B; 21.. C; 28.. D; 35
        epilogue, vector, matrix, its ld; 39 work space, its bytes; 41 alignments of the algorithm; 45 its shapes; 46 its bytes;
        47 scales of A and B, 49 their modes."""
        def change(r):
            line = r.lines[r.at("product", good)]
            line[field] = str(value(int(line[field])) if callable(value) else value)
        return change

    def test_alignment(self):
        self.finds("alignment", self.one, self.moved("k_layers_x", 0, 2))
        self.finds("alignment: .*B is at", self.one, self.product(14, lambda x: x + 2))
        self.finds("alignment: .*work space", self.one, self.product(39, lambda x: x + 16))
        self.finds("alignment: .* q is at", self.one, lambda r: self.shift_attention(r, "mg_flash90_forward", 0, 8))
        self.finds("alignment: .*sorted", self.one, lambda r: self.shift(r, "mg_scatter_add_f32", LOOK_UP + 4, 4))

    def convolution(self, at, form, change, good=lambda numbers: True):
        """A number of a convolution's parameters, `at` from the first of its four pointers: 0 x, 8 w, 16 y, 24 parts; before them ten whole
        numbers, from -40 on: batch, m, n, k, splits, steps, wide x, w and y, pairs. good: which launch, by these."""
        def fits(line):
            return good(struct.unpack_from("<10i", bytes.fromhex(line[PARAMETERS]), len(line[PARAMETERS]) // 2 - 72))

        def plant(r):
            line = r.lines[r.launch("mg_conv_bf16_", fits)]
            data = bytearray(bytes.fromhex(line[PARAMETERS]))
            place = len(data) - 32 + at
            struct.pack_into(form, data, place, change(struct.unpack_from(form, data, place)[0]))
            line[PARAMETERS] = data.hex()
        return plant

    def test_convolutions(self):
        def wide(numbers):
            return numbers[6] and numbers[7]

        self.finds("alignment: .* x is at", self.images, self.convolution(0, "<Q", lambda x: x + 8, wide))
        self.finds("alignment: .* w is at", self.images, self.convolution(8, "<Q", lambda x: x + 8, wide))
        self.finds("bounds: ", self.images, self.convolution(8, "<Q", lambda x: x + (1 << 40)))
        self.finds(".*a part of a sum has no terms", self.images, self.convolution(-24, "<i", lambda n: 1000 * n))

    def shift(self, r, kernel, at, by):
        """The pointer at a byte of a kernel's parameters."""
        line = r.lines[r.launch(kernel)]
        data = bytearray(bytes.fromhex(line[PARAMETERS]))
        data[at:at + 8] = struct.pack("<Q", struct.unpack("<Q", data[at:at + 8])[0] + by)
        line[PARAMETERS] = data.hex()

    def shift_attention(self, r, kernel, number, by):
        """A pointer behind the descriptor and the mask."""
        line = r.lines[r.launch(kernel)]
        count = {"mg_flash90_forward": 5}[kernel]
        self.shift(r, kernel, len(line[PARAMETERS]) // 2 - 8 * count + 8 * number, by)

    def test_bounds(self):
        def smaller(r):
            line = r.lines[r.at("malloc")]
            line[3] = str(int(line[3]) - 256)
            r.lines[r.at("planned", lambda x: x[2] == "arena")][3] = line[3]
        self.finds("bounds", self.one, smaller)
        self.finds("bounds", self.one, lambda r: r.lines[r.at("set")].__setitem__(4, str(1 << 40)))
        self.finds("bounds", self.one, self.moved("k_layers_x", 0, 1 << 40))
        self.finds("bounds: .* table is NULL", self.one, self.null_table)
        self.finds("bounds", self.many, lambda r: r.lines[r.at("nccl", lambda x: x[4] == "allreduce")].__setitem__(7, str(1 << 40)))
        self.finds("bounds: .*a copy of kind 1: to is no such memory", self.one, lambda r: r.lines[r.at("copy")].__setitem__(3, r.lines[r.at("pin")][2]))

    def null_table(self, r):
        line = r.lines[r.launch("mg_gather_")]
        at = 2 * (LOOK_UP + 4)
        line[PARAMETERS] = line[PARAMETERS][:at] + "0" * 16 + line[PARAMETERS][at + 16:]

    def test_buffers(self):
        """Within the arena, and behind the end of a buffer; or in a buffer of another time."""
        step = lambda r: r.at("set", behind=r.at("program"))  # noqa: E731
        self.finds("buffer", self.one, lambda r: r.lines[step(r)].__setitem__(4, str(int(r.lines[step(r)][4]) + 256)))
        self.finds("buffer", self.one, lambda r: r.lines[r.launch("k_layers_x")].__setitem__(1, "0"))

    # ---- operands of a call, calls at the same time ----

    def test_aliasing(self):
        def same(r):
            line = r.lines[r.launch("k_layers_x")]
            p = pointers(line[PARAMETERS])
            line[PARAMETERS] = hexadecimal([p[-1], *p[1:]])
        self.finds("aliasing", self.one, same)
        self.finds("aliasing: .*a product", self.one, lambda r: self.product(28, int(r.lines[r.at("product")][7]))(r))
        self.finds("aliasing: .*a copy", self.many, lambda r: r.lines[r.at("copy", lambda x: x[6] == "3")].__setitem__(
            4, r.lines[r.at("copy", lambda x: x[6] == "3")][3]))

        def group(r):
            recv = r.at("nccl", lambda x: x[4] == "recv", r.at("program"))
            r.lines.insert(recv, list(r.lines[recv]))
        self.finds("aliasing: .*a group", self.many, group)

    def dropped(self, p, word, each):
        """Each so-manieth line with this word of a program's first run, by turn, and those without which nothing is found."""
        first = p.recording.at("program", lambda x: x[2] == "step")
        end = p.recording.at("program", behind=first + 1)
        lines = [i for i in range(first, end) if p.recording.lines[i][0] == word]
        lines = lines[TURN % each::each]
        missed = []
        for i in lines:
            planted = Recording([line for k, line in enumerate(p.recording.lines) if k != i])
            if not re.search(r"(?m)^(race|event|capture)", self.check(p, planted)):
                missed.append(p.recording.lines[i])
        return lines, missed

    def test_waits(self):
        """Without any one wait of a step there is a race. Of several ranks some waits are for messages whose memory nobody uses
        again, or that a later message has waited for."""
        lines, missed = self.dropped(self.one, "wait", 2)
        self.assertGreater(len(lines), 10)
        self.assertEqual(missed, [])
        lines, missed = self.dropped(self.many, "wait", 5)
        self.assertGreater(len(lines), 25)
        self.assertLess(len(missed), len(lines) / 3)

    def test_copies(self):
        """Of collectives by copies: words outside the memory that ranks share, or not at multiples of 4; batches and pitches that CUDA
        refuses; and waits between their streams and those that compute. Some waits are for the order that keeps ranks going, and no race."""
        def field(word, k, change, good=lambda line: True):
            def plant(r):
                line = r.lines[r.at(word, good, r.at("program"))]
                line[k] = str(change(int(line[k])))
            return plant
        self.finds("bounds", self.copies, field("words", 5, lambda at: at + (1 << 40)))
        self.finds("alignment", self.copies, field("words", 5, lambda at: at + 2))
        self.finds("launch: .*a batch of 256 words", self.copies, field("words", 3, lambda n: 256))

        def rows(pitch, height):
            """A copy of two rows, or otherwise, in place of one to the host."""
            def plant(r):
                at = r.at("copy", lambda line: line[6] == "2", r.at("program"))
                _, action, stream, to, of, size, kind = r.lines[at]
                half = int(size) // 2
                r.lines[at] = ["rows", action, stream, to, str(half - pitch), of, str(half), str(half), str(height), kind]
            return plant
        planted = self.copies.recording.copy()
        rows(0, 2)(planted)
        self.assertIn(" 0 findings", self.check(self.copies, planted))
        self.finds("launch: .*rows of", self.copies, rows(2, 2))
        self.finds("bounds", self.copies, rows(0, 1 << 20))
        lines, missed = self.dropped(self.copies, "wait", 16)
        self.assertGreater(len(lines), 6)
        self.assertLess(len(missed), 3 * len(lines) / 4)

    def test_streams(self):
        def other(r):
            made = max(i for i, x in enumerate(r.lines) if x[0] == "stream")
            line = r.lines[r.at("launch", lambda x: x[STREAM] != r.lines[made][2] and x[KERNEL].startswith("d_"), made)]
            line[STREAM] = r.lines[made][2]
        self.finds("race", self.one, other)

    def test_host(self):
        """Pinned memory that a copy may still read; memory that is freed before its users are done."""
        def again(r):
            first = r.at("copy", lambda x: x[6] == "1", r.at("program"))
            r.lines[r.at("copy", lambda x: x[6] == "1", first + 1)][4] = r.lines[first][4]
        self.finds("host", self.one, again)
        self.finds("lifetime: .*memory is freed while", self.one, lambda r: setattr(r, "lines", [
            x for i, x in enumerate(r.lines) if x[0] != "sync" or i < r.at("graph")]))

    # ---- limits ----

    def test_launches(self):
        def field(kernel, k, value):
            return lambda r: r.lines[r.launch(kernel)].__setitem__(k, str(value))
        self.finds("launch: .*65536 blocks along y", self.one, field("mg_gather_", GRID + 1, 65536))
        self.finds("launch: .*2147483648 blocks along x", self.one, field("mg_xent|mg_head_rows", GRID, 1 << 31))
        self.finds("launch: .*0 blocks", self.one, field("mg_gather_", GRID, 0))
        self.finds("launch: .*2048 threads", self.one, field("mg_gather_", BLOCK, 2048))
        self.finds("launch: .*65 threads along z", self.one, field("mg_gather_", BLOCK + 2, 65))
        self.finds("launch: .*the program's table", self.one, field("k_layers_x", GRID, 3))
        self.finds("launch: .*without the attribute", self.one, field("mg_flash90_forward", SHARED, 1 << 17))
        self.finds("launch: .*is to have", self.one, lambda r: r.lines[r.at("shared")].__setitem__(3, str(228 << 10)))
        self.finds("launch: .*is to have", self.one, lambda r: r.lines[r.at("shared")].__setitem__(3, str(100 << 10)), ("--capability", "89"))
        self.finds("launch: .*rank 9 of", self.many, lambda r: r.lines[r.at("nccl", lambda x: x[4] == "recv", r.at("program"))].__setitem__(3, r.lines[r.at("comm")][2])
                   or r.lines[r.at("nccl", lambda x: x[4] == "recv", r.at("program"))].__setitem__(9, "9"))
        self.finds("launch: .*a copy of 0 bytes", self.one, lambda r: r.lines[r.at("copy")].__setitem__(5, "0"))
        self.finds("unknown", self.one, lambda r: r.lines[r.launch("k_layers_x")].__setitem__(KERNEL, "k_other"))

    def test_numbers(self):
        """Indices that 32 bits do not count: the second number of a look-up's descriptor."""
        def many(r):
            line = r.lines[r.launch("mg_gather_")]
            line[PARAMETERS] = line[PARAMETERS][:16] + struct.pack("<q", 1 << 31).hex() + line[PARAMETERS][32:]
        self.finds("32 bits: .*indices is 2147483648", self.one, many)

    def test_products(self):
        self.finds("product: .*A has a leading dimension", self.one, self.product(11, 1))
        self.finds("product: .* is not ", self.one, self.product(16, lambda x: x + 1))
        self.finds("product: .*A has 0 rows", self.one, self.product(9, 0))
        self.finds("product: .*types", self.one, self.product(8, 0))
        self.finds("product: .*batches", self.one, self.product(33, 2))
        self.finds("product: .*work space, and has 16", self.one, self.product(40, 16))
        self.finds("product: .*other shapes", self.one, self.product(45, 0))
        self.finds("product: .*C is not D", self.one, self.product(21, lambda x: x + 256))
        self.finds("product: .*epilogue's matrix", self.one, self.product(38, lambda x: x + 1, lambda x: int(x[35]) & 128))
        self.finds("alignment: .*epilogue's matrix", self.one, self.product(37, lambda x: x + 2, lambda x: int(x[35]) & 128))

    def test_eights(self):
        """Of fp8: the library's table of layouts and types, whole words, and where the scales are."""
        def of(line):
            return line[8] in ("28", "29")
        self.finds("product: .*A as it is", self.eights, self.product(3, 0, of))
        self.finds("product: .*B transposed", self.eights, self.product(4, 1, of))
        self.finds("product: .*types 29, 29", self.eights, self.product(8, 29, lambda x: x[8] == "28" and x[15] == "29"))
        self.finds("product: .*types 28, 14", self.eights, self.product(15, 14, of))
        self.finds("alignment: .*B of fp8", self.eights, self.product(14, lambda x: x + 8, of))
        self.finds("alignment: .*scale", self.eights, self.product(47, lambda x: x + 2, of))
        self.finds("bounds: .*scale", self.eights, self.product(48, lambda x: x + (1 << 40), of))
        self.finds("product: .*type 14 have a scale", self.eights, self.product(47, 4096, lambda x: x[8] == "14"))

    def test_tiles(self):
        """Scales of tiles: their number and place, the modes of both operands; and the kernel that makes them."""
        def of(line):
            return line[8] in ("28", "29")
        self.finds("alignment: .*scales", self.tiles, self.product(47, lambda x: x + 4, of))
        self.finds("bounds: .*scales", self.tiles, self.product(48, lambda x: x + (1 << 40), of))
        self.finds("product: .*scales of mode 5 beside those of mode 5", self.tiles,
                   lambda r: [self.product(k, 5, of)(r) for k in (49, 50)])
        self.finds("product: .*scales of mode 0 beside", self.tiles, self.product(49, 0, lambda x: of(x) and x[50] == "4"))
        self.finds("product: .*scales of tiles are NULL", self.tiles, self.product(47, 0, of))
        for kernel in ("mg_round_rows_", "mg_round_squares_"):
            for number in (9, 10, 11):  # behind the descriptor
                self.finds("(bounds|buffer): ", self.tiles, self.moved(kernel, number, 1 << 40))
            self.finds("alignment: .*q", self.tiles, self.moved(kernel, 10, 1))
        self.finds("alignment: .*scales", self.powers, self.product(47, lambda x: x + 8, of))
        self.finds("bounds: .*scales", self.powers, self.product(48, lambda x: x + (1 << 40), of))
        self.finds("product: .*scales of mode 2 beside those of mode 4", self.powers, self.product(50, 4, of))
        self.finds("product: .*sums of 112 in tiles of 32", self.powers, self.product(9, 112, lambda x: of(x) and x[9] == "160"))
        for number in (9, 10, 11):
            self.finds("(bounds|buffer): ", self.powers, self.moved("mg_round_mx_", number, 1 << 40))

    # ---- lifetimes, captures, the plan ----

    def test_lifetimes(self):
        def earlier(word, p=self.one):
            def change(r):
                recorded = {x[2] for x in r.lines if x[0] == "record"}
                line = r.lines.pop(r.at(word, lambda x: word != "eventend" or x[2] in recorded))
                r.lines.insert(r.at("record", lambda x: x[2] == line[2]) if word == "eventend" else r.at("graph") + 1, line)
            return lambda: self.finds("lifetime", p, change)
        earlier("streamend")()
        earlier("eventend")()
        earlier("execend")()
        earlier("commend", self.many)()
        self.finds("lifetime: .*was freed", self.one, lambda r: r.lines.insert(r.at("program"), r.lines.pop(r.at(
            "free", lambda x: x[2] == r.lines[r.at("malloc")][2]))))
        self.finds("lifetime: .*not allocated", self.one, lambda r: r.lines.insert(-1, r.lines[r.at("free", lambda x: x[2] != "0")]))
        self.finds("lifetime: .*other kind", self.one, lambda r: r.lines[r.at("free", lambda x: x[2] != "0")].__setitem__(0, "unpin"))
        self.finds("lifetime: .*was not asked for", self.one, lambda r: r.lines.pop(r.at("kernel", lambda x: x[2] == "k_layers_x")))
        for word, p in (("streamend", self.one), ("eventend", self.one), ("execend", self.one), ("graphend", self.one), ("unpin", self.one),
                        ("commend", self.many), ("done", self.one)):
            self.finds("left", p, lambda r, word=word: r.lines.pop(r.at(word)))
        self.finds("left", self.one, lambda r: r.lines.pop(r.at("free", lambda x: x[2] != "0")))

    def test_captures(self):
        inside = lambda r: r.at("begin") + 3  # noqa: E731
        for line in ("malloc -1 77 8", "sync -1 {s}", "pin -1 78 8", "kernel -1 k_layers_x"):
            self.finds("capture: .* while a stream is captured", self.one, lambda r, line=line: r.lines.insert(
                inside(r), line.format(s=r.lines[r.at("stream")][2]).split()))
        self.finds("left: .*capture did not end", self.one, lambda r: r.lines.pop(max(i for i, x in enumerate(r.lines) if x[0] == "end")))
        self.finds("capture: .*not joined", self.one, self.unjoined)
        self.finds("event: .*never recorded", self.one, lambda r: setattr(r, "lines", [x for x in r.lines if x[0] != "record"]))
        self.finds("group: .*did not end", self.many, lambda r: r.lines.pop(max(i for i, x in enumerate(r.lines) if x[0] == "groupend")))

    def unjoined(self, r):
        """The last work of a graph goes into the stream that nobody waits for any more."""
        begin = r.at("begin", behind=r.at("program", lambda x: x[2] == "step"))
        end = r.at("end", behind=begin)
        last = max(i for i in range(end) if r.lines[i][0] == "launch")
        other = next(x[2] for x in r.lines if x[0] == "wait" and x[2] != r.lines[begin][2])
        r.lines[last][STREAM] = other

    def test_plan(self):
        def less(name):
            return lambda r: r.lines[r.at("planned", lambda x: x[2] == name)].__setitem__(3, "1")
        self.finds("plan: .*are allocated at once", self.one, less("work_space_of_products"))
        self.finds("plan: .*step has", self.one, less("nodes.step"))
        self.finds("plan: .*nodes of graphs", self.one, less("CUDA_graphs"))

    # ---- programs and kernels' text ----

    def test_program(self):
        """A wait that the emitted program lacks; a slot that is counted in 32 bits."""
        text = self.one.read("program.c")
        waits = list(re.finditer(r"    mg_wait\(r, \d+\);\n", text))
        found = 0
        for m in waits[:4]:
            self.one.write("program.c", text[:m.start()] + text[m.end():])
            self.one.compile()
            found += self.one.check(0).findings > 0
        self.one.write("program.c", text)
        self.one.compile()
        self.assertGreater(found, 0)
        self.assertIn("(int64_t)o->slot * ", self.many.read("program.c"))

    def text_problems(self, change):
        p = self.one
        cuda = p.read("kernels.cu")
        planted = change(cuda)
        self.assertNotEqual(cuda, planted)
        p.contracts(read(planted, p.read("program.c")))
        problems = p.problems
        said = self.check(p, p.recording)
        p.contracts(read(cuda, p.read("program.c")))
        return said + "\n".join(problems)

    def test_text(self):
        """An index past the end; a vector at no multiple; an int that overflows; a constant that is written; a line that is unknown."""
        store = re.compile(r"(k_layers_x\(.*?)(p\d)\[i0\] = ", re.S)
        self.assertRegex(self.text_problems(lambda t: store.sub(r"\1\2[i0 + 1048576] = ", t, 1)), "(?m)^(bounds|buffer)")
        self.assertIn("is a vector of", self.text_problems(lambda t: store.sub(r"\1\2[i0 + 1] = ", t, 1)))
        self.assertIn("an int may be", self.text_problems(lambda t: re.sub(
            r"(k_layers_x\(.*?const int i0 = at \*) (\d);", r"\1 \g<2>00000000;", t, 1, re.S)))
        self.assertIn("is constant and written", self.text_problems(lambda t: re.sub(
            r"(k_layers_x\(.*?)(mg_bf16 \*__restrict__ p\d)(\)\n)", lambda m: m.group(1) + "const " + m.group(2) + m.group(3), t, 1, re.S)))
        with self.assertRaisesRegex(Exception, "goto"):
            self.text_problems(lambda t: t.replace("const int at = (int)n;", "goto out;", 1))
        with self.assertRaises(Exception):
            self.text_problems(lambda t: t.replace("const int at = (int)n;", "const int at = (int)n & 7;", 1))


if __name__ == "__main__":
    unittest.main()
