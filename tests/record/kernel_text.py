"""kernel_text - what generated kernels read and write, found in their text.

Each index that a kernel computes is an interval and a number that divides it. Blocks and threads are within the launch that the
program's table has; a loop's variable is within its bounds; behind a condition its variables are within what it says. So the bytes of
each pointer that any thread may touch are known, at which multiples vectors are, and whether an int can overflow.

The text is a small language (codegen/cuda writes it): a line that is not known is refused, not skipped."""

import math
import re
from collections import namedtuple

INT = (-1 << 31, (1 << 31) - 1)
WIDTH = {"float": 4, "double": 8, "mg_bf16": 2, "mg_e4m3": 1, "mg_e5m2": 1, "mg_f16": 2, "int32_t": 4, "int64_t": 8, "uint8_t": 1}
Access = namedtuple("Access", "pointer writes lo hi multiple")  # elements: the first, behind the last; bytes
Pointer = namedtuple("Pointer", "does lo hi multiple")  # does: r, w, rw; bytes; the address has to be a multiple
Kernel = namedtuple("Kernel", "name grid block pointers problems")


class Unknown(Exception):
    """A line that this file cannot read."""


# ---- intervals ------------------------------------------------------------------------------------------------------------------

class Number(namedtuple("Number", "lo hi divisor wide")):
    """lo..hi, both included; all of them multiples of divisor (0: it is 0). wide: of 64 bits."""

    def also(self, lo=-math.inf, hi=math.inf):
        """The multiples that are within these bounds, too."""
        n = self.divisor or 1
        lo = lo if math.isinf(lo) else -(-lo // n) * n
        hi = hi if math.isinf(hi) else hi // n * n
        return self._replace(lo=max(self.lo, lo), hi=min(self.hi, hi))


def constant(x, wide=False):
    return Number(x, x, abs(x), wide or not INT[0] <= x <= INT[1])


def quotient(a, by):
    return a // by if a >= 0 else -(-a // by)


def combine(op, a, b):
    wide = a.wide or b.wide
    if op == "+":
        return Number(a.lo + b.lo, a.hi + b.hi, math.gcd(a.divisor, b.divisor), wide)
    if op == "-":
        return Number(a.lo - b.hi, a.hi - b.lo, math.gcd(a.divisor, b.divisor), wide)
    if op == "*":
        ends = [x * y for x in a[:2] for y in b[:2]]
        return Number(min(ends), max(ends), a.divisor * b.divisor, wide)
    if b.lo != b.hi or b.lo <= 0:
        raise Unknown("a division by what is not a constant")
    by = b.lo
    if op == "/":
        return Number(quotient(a.lo, by), quotient(a.hi, by), a.divisor // by if a.divisor % by == 0 else 1, wide)
    if a.lo >= 0 and a.hi < by:
        return a._replace(wide=wide)
    return Number(0 if a.lo >= 0 else 1 - by, by - 1 if a.hi > 0 else 0, math.gcd(a.divisor, by), wide)


# ---- expressions ----------------------------------------------------------------------------------------------------------------

TOKEN = re.compile(r"\s*(?:INT64_C\((\d+)\)|(\d+)(?![.\w])|\((int|int64_t)\)|((?:threadIdx|blockIdx|gridDim)\.[xy]|[A-Za-z_]\w*)|"
                   r"(<=|>=|==|&&|[-+*/%<>?:()]))")
LEVELS = [["&&"], ["<", "<=", ">", ">=", "=="], ["+", "-"], ["*", "/", "%"]]


def tokens(text):
    at, found = 0, []
    while text[at:].strip():
        m = TOKEN.match(text, at)
        if not m:
            raise Unknown(text)
        wide, number, cast, name, sign = m.groups()
        found.append(("wide", int(wide)) if wide else ("number", int(number)) if number else ("cast", cast) if cast else
                     ("name", name) if name else ("sign", sign))
        at = m.end()
    return found


def parse(text):
    """A tree of tuples: equal expressions are equal trees."""
    left = tokens(text)

    def take(sign):
        if left and left[0] == ("sign", sign):
            return left.pop(0)
        return None

    def atom():
        kind, what = left.pop(0)
        if kind in ("wide", "number", "name"):
            return kind, what
        if kind == "cast":
            return "cast", what, atom()
        if what == "-":
            return "-", ("number", 0), atom()
        if what != "(":
            raise Unknown(text)
        inner = choice()
        if not take(")"):
            raise Unknown(text)
        return inner

    def level(k):
        if k == len(LEVELS):
            return atom()
        a = level(k + 1)
        while left and left[0][0] == "sign" and left[0][1] in LEVELS[k]:
            a = left.pop(0)[1], a, level(k + 1)
        return a

    def choice():
        a = level(0)
        if not take("?"):
            return a
        b = choice()
        if not take(":"):
            raise Unknown(text)
        return "?", a, b, choice()

    try:
        tree = choice()
    except IndexError as e:
        raise Unknown(text) from e
    if left:
        raise Unknown(text)
    return tree


class Scope:
    """Variables, and what conditions said of expressions."""

    def __init__(self, variables, problems):
        self.variables, self.facts, self.problems, self.dead = dict(variables), {}, problems, False

    def inner(self):
        s = Scope(self.variables, self.problems)
        s.facts, s.dead = dict(self.facts), self.dead  # dead: no thread comes here
        return s

    def fact(self, tree, lo=-math.inf, hi=math.inf):
        old = self.facts.get(tree, (-math.inf, math.inf))
        self.facts[tree] = max(lo, old[0]), min(hi, old[1])
        if tree[0] == "+" and tree[2][0] == "number":  # of what is before the constant, too
            self.fact(tree[1], lo - tree[2][1], hi - tree[2][1])

    def assume(self, tree, true=True):
        op = tree[0]
        if op == "&&" and true:
            self.assume(tree[1])
            self.assume(tree[2])
        if op not in ("<", ">=", "=="):
            return
        b = self.value(tree[2])
        if op == "==" and true:
            self.fact(tree[1], b.lo, b.hi)
        elif op != "==" and (op == "<") == true:
            self.fact(tree[1], hi=b.hi - 1)
        elif op != "==":
            self.fact(tree[1], lo=b.lo)

    def value(self, tree):
        x = self.compute(tree)
        if tree in self.facts:
            x = x.also(*self.facts[tree])
        if x.lo == x.hi:
            x = x._replace(divisor=abs(x.lo))
        if not x.wide and not self.dead and x.lo <= x.hi and not INT[0] <= x.lo <= x.hi <= INT[1]:
            self.problems.append(f"an int may be {x.lo} to {x.hi}: {tree}")
        return x

    def compute(self, tree):
        op = tree[0]
        if op in ("number", "wide"):
            return constant(tree[1], op == "wide")
        if op == "name":
            if tree[1] not in self.variables:
                raise Unknown(tree[1])
            return self.variables[tree[1]]
        if op == "cast":
            return self.value(tree[2])._replace(wide=tree[1] == "int64_t")
        if op == "?":
            return self.choose(*tree[1:])
        return combine(op, self.value(tree[1]), self.value(tree[2]))

    def choose(self, condition, a, b):
        sides = []
        for tree, true in ((a, True), (b, False)):
            s = self.inner()
            s.assume(condition, true)
            sides.append(s.value(tree))
        x, y = sides
        if condition[0] == "<" and condition[1][0] == "-" and (a, b) == (condition[1][1], ("+", condition[1][2], condition[2])):
            hi = min(x.hi, y.hi)  # x - k < c ? x : k + c is the smaller of both
        else:
            hi = max(x.hi, y.hi)
        return Number(min(x.lo, y.lo), hi, math.gcd(x.divisor, y.divisor), x.wide or y.wide)


# ---- lines ----------------------------------------------------------------------------------------------------------------------

HEAD = re.compile(r'extern "C" __global__ void __launch_bounds__\((\d+), \d+\) (\w+)\((.*)\)$')
PARAMETER = re.compile(r"(const )?(\w+) \*__restrict__ (p\d+)$")
FOR = re.compile(r"for \((?:(int|int64_t) (\w+) = (.*?))?; (\w+) < (.*); (\w+)(?:\+\+| \+= (.*))\) \{$")
INTEGER = re.compile(r"(?:const )?(int|int64_t) ([a-z]+\d*) = (.*);$")
# An element that is counted by indices: whether there is one, and which; else the first one is read, and not taken.
THERE = re.compile(r"const bool (v\d+) = \w+ >= 0\b.* < (\d+);$")
ELEMENT = re.compile(r"const (int|int64_t) (v\d+) = (v\d+) \? .* : 0;$")
VECTOR = re.compile(r"\*\((?:const )?mg_vec<(\w+), (\d+)> \*\)&(p\d+)\[")
SCALAR = re.compile(r"\b(p\d+)\[")
# Lines without an index of memory: numbers, sums, registers, barriers.
PLAIN = re.compile(r"(const \w+ [vs]\d+ = |(float|double|int32_t|int64_t|bool) s\d+(\[\d+\])? = |s\d+(\[\w+\])? (\+=|=) |mg_vec<\w+, \d+> r\d+\[\d+\];$|"
                   r"const mg_vec<\w+, \d+> q\d+ = |r\d+\[\w+\] = |\*\(mg_vec|p\d+\[|__sync|MG_UNROLL|\{$|$)")


def inside(text, at):
    """What is between brackets that open before `at`."""
    depth, end = 1, at
    while depth:
        depth += {"[": 1, "]": -1}.get(text[end], 0)
        end += 1
    return text[at:end - 1], end


class Reader:
    def __init__(self, head, grid):
        m = HEAD.match(head)
        self.block, self.name = int(m.group(1)), m.group(2)
        self.parameters = [PARAMETER.match(p).groups() for p in m.group(3).split(", ")]
        self.type = {name: of for _, of, name in self.parameters}
        self.problems, self.found, self.limits = [], [], {}
        unsigned = {"threadIdx.x": self.block - 1, "blockIdx.x": grid[0] - 1, "blockIdx.y": grid[1] - 1}
        first = Scope({n: Number(0, hi, 1, False) for n, hi in unsigned.items()}, self.problems)
        first.variables.update({"gridDim.x": constant(grid[0]), "gridDim.y": constant(grid[1])})
        self.scopes, self.after, self.test, self.grid = [first], [], None, grid

    @property
    def scope(self):
        return self.scopes[-1]

    def value(self, text):
        return self.scope.value(parse(text))

    def accesses(self, line):
        stores = re.match(r"(\*\(mg_vec<\w+, \d+> \*\)&)?p\d+\[.*\] = ", line)
        vectors = {m.end() for m in VECTOR.finditer(line)}
        for m in SCALAR.finditer(line):
            index, _ = inside(line, m.end())
            lanes, pointer = 1, m.group(1)
            if m.end() in vectors:
                of = next(v for v in VECTOR.finditer(line) if v.end() == m.end())
                lanes = int(of.group(2))
            x = self.value(index)
            width = WIDTH[self.type[pointer]]
            if self.scope.dead or x.lo > x.hi:
                continue
            if x.divisor * width % (lanes * width):
                self.problems.append(f"{pointer}[{index}] is a vector of {lanes}, at multiples of {x.divisor}")
            writes = bool(stores) and m.start() < stores.end()
            self.found.append(Access(pointer, writes, x.lo, x.hi + lanes, lanes * width))

    def loop(self, m):
        kind, declared, start, name, bound, _, step = m.groups()
        outer = self.scope
        begin = outer.value(parse(start)) if declared else outer.variables[name]
        end, by = self.value(bound), constant(1) if step is None else self.value(step)
        s = outer.inner()
        whole = math.gcd(begin.divisor, by.divisor)
        s.variables[name] = Number(begin.lo, end.hi - 1, whole, begin.wide or kind == "int64_t")
        s.dead |= begin.lo > end.hi - 1
        if not declared:  # what it is behind the loop
            outer.variables[name] = Number(begin.lo, max(begin.hi, begin.hi if s.dead else end.hi - 1 + by.hi), whole, begin.wide)
        self.scopes.append(s)

    def line(self, line):
        if self.test is not None:  # the line behind an if without braces
            if line != "break;":
                raise Unknown(line)
            self.scope.assume(self.test, False)
            self.test = None
        elif line == "}":
            self.scopes.pop()
        elif m := FOR.match(line):
            self.loop(m)
        elif m := re.match(r"if \((.*)\)( \{)?$", line):
            if m.group(2):
                self.scopes.append(self.scope.inner())
                self.scope.assume(parse(m.group(1)))
            else:
                self.test = parse(m.group(1))
        elif m := THERE.match(line):
            self.limits[m.group(1)] = int(m.group(2))
        elif (m := ELEMENT.match(line)) and m.group(3) in self.limits:
            self.scope.variables[m.group(2)] = Number(0, self.limits[m.group(3)] - 1, 1, m.group(1) == "int64_t")
        elif re.match(r"const int from = \d+, to = \d+;$", line):
            a, b = map(int, re.findall(r"= (\d+)", line))
            self.scope.variables.update({"from": constant(a), "to": constant(b)})
        elif (m := INTEGER.match(line)) and not SCALAR.search(line) and self.is_index(m.group(3)):
            x = self.value(m.group(3))
            if m.group(1) == "int" and x.wide and not self.scope.dead and x.lo <= x.hi and not INT[0] <= x.lo <= x.hi <= INT[1]:
                self.problems.append(f"{m.group(2)} may be {x.lo} to {x.hi}")
            self.scope.variables[m.group(2)] = x._replace(wide=m.group(1) == "int64_t")
        elif PLAIN.match(line):
            self.accesses(line)
            if line == "{":
                self.scopes.append(self.scope.inner())
        else:
            raise Unknown(line)

    def is_index(self, text):
        """Not a number that was computed from what is stored: such values are in no index."""
        try:
            return all(kind != "name" or what in self.scope.variables for kind, what in tokens(text))
        except Unknown:
            return False

    def kernel(self):
        pointers = []
        for const, of, name in self.parameters:
            mine = [a for a in self.found if a.pointer == name]
            does = ("r" if any(not a.writes for a in mine) else "") + ("w" if any(a.writes for a in mine) else "")
            lo, hi = min((a.lo for a in mine), default=0), max((a.hi for a in mine), default=0)
            if lo < 0:
                self.problems.append(f"{name} is read from {lo} on")
            if const and "w" in does:
                self.problems.append(f"{name} is constant and written")
            pointers.append(Pointer(does or "r", max(lo, 0) * WIDTH[of], hi * WIDTH[of], max((a.multiple for a in mine), default=1)))
        return Kernel(self.name, self.grid, self.block, pointers, self.problems)


# ---- files ----------------------------------------------------------------------------------------------------------------------

def launches(program):
    """Grid and block of each kernel, from the table of an emitted program."""
    rows = re.findall(r'\{\.name = "(\w+)", \.grid_x = (\d+), \.grid_y = (\d+), \.block = (\d+)', program)
    return {name: (int(x), int(y), int(block)) for name, x, y, block in rows}


def read(cuda, program):
    """The generated kernels of an emitted program: the texts of --emit=cuda and of --emit=c."""
    table, found, reader = launches(program), [], None
    for raw in cuda.splitlines():
        line = raw.strip()
        if HEAD.match(line):
            x, y, block = table[HEAD.match(line).group(2)]
            reader = Reader(line, (x, y))
            if reader.block != block:
                reader.problems.append(f"a block has {block} threads, and the kernel has {reader.block}")
        elif reader and line.startswith("MG_EXPORT"):
            found.append(reader.kernel())
            reader = None
        elif reader:
            reader.line(line)
    if {k.name for k in found} != set(table):
        raise Unknown("the program's table has other kernels")
    return found


def write(kernels, f):
    """For record-check --kernels."""
    for k in kernels:
        f.write(f"kernel {k.name} {k.grid[0]} {k.grid[1]} {k.block}\n")
        f.writelines(f"pointer {p.does} {p.lo} {p.hi} {p.multiple}\n" for p in k.pointers)
