/* warpgroup.cc - the tensor cores of a warpgroup: wgmma.
 *
 * A product reads shared memory by the async proxy, at some time between its issue and the wait for
 * its group: when is drawn. Its sums are aside until the wait, and their registers hold NaN. At the
 * issue it is checked
 *   that whoever wrote what it reads has fenced the proxy since (fence.proxy.async), and that no
 * copy there is under way; that wgmma.fence came after the last write to its registers by other
 * instructions. Who writes to what it reads until the wait is found (Shared::readers).
 *
 * Fragments are those of mma.sync; warp w of the group has rows 16w .. 16w + 15. Descriptors and
 * layouts: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". */
#include "tests/ptx/convert.h"
#include "tests/ptx/lanes.h"

#include <math.h>
#include <string.h>

namespace ptx
{

enum { ROWS = 16, DEPTH = 16, COLUMNS = 256, HALF = 2 };

/* ---- operands in shared memory ------------------------------------------------------------ */

struct Descriptor {
    uint32_t start, leading, stride;
    unsigned swizzle; /* bytes of a row: 128, 64, 32, or 16: none */
};

static Descriptor descriptor_of(uint64_t x)
{
    static const unsigned bytes[] = {16, 128, 64, 32};
    if (x >> 49 & 7)
        throw Fault("a descriptor with a base offset is not known");
    return Descriptor{(uint32_t)(x & 0x3fff) << 4, (uint32_t)(x >> 16 & 0x3fff) << 4,
                      (uint32_t)(x >> 32 & 0x3fff) << 4, bytes[x >> 62]};
}

/* The bits of an address below 128 bytes that a swizzle changes, by those above. */
static uint32_t swizzled(uint32_t at, unsigned bytes)
{
    const uint32_t mask = (bytes / 16 - 1) << 4;
    return at ^ (at >> 3 & mask);
}

/* Element i of the operand's rows (a) or columns (b) at place k of the sum. If it is not turned, k
 * is what is contiguous: groups of eight i are `stride` apart, chunks of 16 bytes along k lie side
 * by side within a row of the swizzle, without one `leading` apart. If it is turned, i is
 * contiguous: rows of the swizzle along i, then `leading`; groups of eight k are `stride` apart.
 * Without a swizzle the two change places. */
static uint32_t place_of(const Descriptor &d, bool turned, unsigned i, unsigned k)
{
    uint32_t at = d.start;
    if (!turned) {
        at += i % 8 * d.swizzle + i / 8 * d.stride;
        at += d.swizzle == 16 ? k / 8 * d.leading + k % 8 * HALF : k * HALF;
    } else {
        const unsigned across = d.swizzle / HALF; /* elements of a row */
        at += i % across * HALF + k % 8 * d.swizzle;
        at += d.swizzle == 16 ? i / across * d.stride + k / 8 * d.leading
                              : i / across * d.leading + k / 8 * d.stride;
    }
    return swizzled(at, d.swizzle);
}

/* 16 bytes from `at` on are read by a product. */
static void check_read(Shared &s, uint32_t at, unsigned thread)
{
    for (uint32_t i = at; i < at + 16; i++) {
        if (i >= s.flags.size() || !(s.flags[i] & Shared::THERE))
            throw Fault("a product of a warpgroup reads shared memory at " + hex(i) +
                        ", beside what the kernel has");
        if (s.flags[i] & Shared::COPIED)
            throw Fault("a product of a warpgroup reads shared memory at " + hex(i) +
                        " while a copy to it is under way: nobody waited for it");
        if (s.writer[i])
            throw Fault("a product of a warpgroup reads shared memory at " + hex(i) +
                        ", which thread " + std::to_string(s.writer[i] - 1) +
                        " wrote without a fence.proxy.async after it (" + std::to_string(thread) +
                        " reads)");
    }
}

/* Pieces of 16 bytes of an operand of n rows or columns, from `first` on. */
static void pieces(uint64_t descriptor, bool turned, unsigned first, unsigned n,
                   std::vector<uint32_t> &to)
{
    const Descriptor d = descriptor_of(descriptor);
    for (unsigned i = first; i < first + n; i += turned ? 8 : 1)
        for (unsigned k = 0; k < DEPTH; k += turned ? 1 : 8)
            to.push_back(place_of(d, turned, i, k));
}

static float half_of(bool bf16, uint16_t h)
{
    return bf16 ? from_bf16(h) : from_f16(h);
}

static void load(const Shared &s, const Product &p, uint64_t descriptor, bool turned,
                 unsigned first, unsigned n, float (*to)[DEPTH])
{
    const Descriptor d = descriptor_of(descriptor);
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < DEPTH; k++) {
            uint16_t h;
            memcpy(&h, &s.bytes[place_of(d, turned, first + i, k)], sizeof h);
            to[i][k] = half_of(p.form.bf16, h);
        }
}

/* ---- products ----------------------------------------------------------------------------- */

static Sums *sums_of(Groups &g, int number)
{
    for (Sums &s : g.sums)
        if (s.number == number)
            return &s;
    return nullptr;
}

static void compute(Warp &w, Product &p)
{
    static float a[ROWS][DEPTH], b[COLUMNS][DEPTH];
    Sums &s = *sums_of(w.groups, p.sums);
    if (p.computed)
        return;
    p.computed = true;
    if (p.form.in_registers) {
        for (unsigned r = 0; r < 4; r++)
            for (unsigned lane = 0; lane < LANES; lane++)
                for (unsigned k = 0; k < 2; k++)
                    a[lane / 4 + r % 2 * 8][r / 2 * 8 + lane % 4 * 2 + k] =
                        half_of(p.form.bf16, (uint16_t)(p.registers[r][lane] >> 16 * k));
    } else {
        load(w.block->shared, p, p.a, p.form.turned_a, (unsigned)w.number % 4 * ROWS, ROWS, a);
    }
    load(w.block->shared, p, p.b, p.form.turned_b, 0, p.form.n, b);
    for (unsigned j = 0; j < p.form.n / 2; j++)
        for (unsigned lane = 0; lane < LANES; lane++) {
            const unsigned row = lane / 4 + j / 2 % 2 * 8,
                           column = j / 4 * 8 + lane % 4 * 2 + j % 2;
            float &to = s.x[j * LANES + lane];
            double sum = 0;
            for (unsigned k = 0; k < DEPTH; k++)
                sum += (double)a[row][k] * (double)b[column][k];
            to = (float)((p.add ? (double)to : 0.0) + sum * (double)p.scale_a * (double)p.scale_b);
        }
}

/* The first n of those under way. */
static void compute_some(Warp &w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        compute(w, w.groups.products[i]);
}

/* The element that a register holds of sums that are under way; -1: none. */
static int element_of(const Sums &s, Slot slot)
{
    for (size_t i = 0; i < s.registers.size(); i++)
        if (s.registers[i] == slot)
            return (int)i;
    for (const auto &c : s.copies)
        if (c.first == slot)
            return (int)c.second;
    return -1;
}

void note_copied(Warp &w, Slot to, Slot from)
{
    for (Sums &s : w.groups.sums) {
        const int i = element_of(s, from);
        if (i >= 0)
            s.copies.push_back({to, (unsigned)i});
    }
}

/* A register is written: not while a product reads it or adds to it. */
static void written(Warp &w, Slot slot, uint64_t now)
{
    Groups &g = w.groups;
    g.written[slot] = now;
    for (const Sums &s : g.sums)
        for (Slot r : s.registers)
            if (r == slot)
                throw Fault("a register is written while a product of a warpgroup adds to it");
    for (const Product &p : g.products)
        for (int r = 0; p.form.in_registers && r < 4; r++)
            if (p.operands[r] == slot)
                throw Fault("a register is written while a product of a warpgroup reads it");
}

/* Sums that a mov takes from one register to another stay those of their products. */
static bool moves_sums(Warp &w, const Op &o)
{
    if (o.text->words[0] != "mov")
        return false;
    for (const Sums &s : w.groups.sums)
        if (element_of(s, o.a) >= 0)
            return true;
    return false;
}

void note_written(Warp &w, const Op &o)
{
    const uint64_t now = ++w.groups.time;
    if (w.groups.open() && moves_sums(w, o))
        return;
    if (o.d != NO_SLOT)
        written(w, o.d, now);
    for (unsigned i = 0; i < o.writes; i++)
        written(w, o.list[i], now);
}

/* The sums that these registers are, new ones if they are not under way. */
static Sums &begin_sums(Warp &w, const Slot *registers, unsigned n, bool add)
{
    Groups &g = w.groups;
    for (Sums &s : g.sums) {
        if (element_of(s, registers[0]) < 0)
            continue;
        for (unsigned i = 0; i < n; i++)
            if (s.registers.size() != n || element_of(s, registers[i]) != (int)i)
                throw Fault("a product adds to some of the registers of another under way");
        s.registers.assign(registers, registers + n);
        s.copies.clear(); /* of what they were before */
        return s;
    }
    g.sums.push_back(Sums{g.numbers++, std::vector<int32_t>(registers, registers + n), {}, {}});
    Sums &s = g.sums.back();
    s.x.resize((size_t)n * LANES);
    for (unsigned i = 0; i < n; i++) {
        float *at = w.at<float>(registers[i]);
        if (add)
            memcpy(&s.x[i * LANES], at, LANES * sizeof *at);
        memset(at, 0xff, LANES * sizeof *at);
    }
    return s;
}

static void check_fenced(Warp &w, Slot s)
{
    auto at = w.groups.written.find(s);
    if (at != w.groups.written.end() && at->second > w.groups.fenced)
        throw Fault(
            "a register of a product of a warpgroup was written after the last wgmma.fence");
}

/* list: the sums, then a if it is in registers; a, b: descriptors; c: the predicate that says that
 * it adds; how: 1: a is turned, 2: b is, 4: bf16, 8: -a, 16: -b. count: of the sums. */
static void run_product(Warp &w, const Op &o)
{
    Groups &g = w.groups;
    const unsigned sums = o.target, n = 2 * sums;
    if (w.active != ALL_LANES)
        throw Fault("not all 32 lanes of the warp are there");
    if (w.block->threads < ((unsigned)w.number / 4 + 1) * 4 * LANES)
        throw Fault("the warpgroup has less than four warps");
    if (!g.fenced)
        throw Fault("products of a warpgroup that no wgmma.fence is before");
    for (Slot s : o.list)
        check_fenced(w, s);
    const unsigned adds = *w.at<unsigned>(o.c);
    if (adds && adds != ALL_LANES)
        throw Fault("lanes do not agree whether a product adds");
    Product p = {};
    p.group = g.group;
    p.add = adds != 0;
    p.scale_a = o.how & 8 ? -1 : 1;
    p.scale_b = o.how & 16 ? -1 : 1;
    p.form = {o.a == NO_SLOT, (o.how & 1) != 0, (o.how & 2) != 0, (o.how & 4) != 0, n};
    if (o.a == NO_SLOT) {
        for (unsigned r = 0; r < 4; r++) {
            p.operands[r] = o.list[sums + r];
            memcpy(p.registers[r], w.at<uint32_t>(p.operands[r]), sizeof p.registers[r]);
        }
    } else {
        p.a = w.at<uint64_t>(o.a)[0];
        pieces(p.a, p.form.turned_a, (unsigned)w.number % 4 * ROWS, ROWS, p.reads);
    }
    p.b = w.at<uint64_t>(o.b)[0];
    pieces(p.b, p.form.turned_b, 0, n, p.reads);
    for (uint32_t at : p.reads) {
        check_read(w.block->shared, at, w.thread(0));
        for (uint32_t i = at; i < at + 16; i++)
            w.block->shared.readers[i]++;
    }
    p.sums = begin_sums(w, o.list.data(), sums, p.add).number;
    g.products.push_back(p);
    if (w.block->draw(2)) /* some at once, some when they are waited for */
        compute_some(w, w.block->draw((unsigned)g.products.size() + 1));
}

static void run_fence(Warp &w, const Op &)
{
    w.groups.fenced = ++w.groups.time;
}
static void run_commit(Warp &w, const Op &)
{
    w.groups.group++;
}

/* A copy is given what it is a copy of, unless it was written since. */
static void give(Warp &w, const Sums &s)
{
    uint32_t none[LANES];
    memset(none, 0xff, sizeof none);
    for (size_t i = 0; i < s.registers.size(); i++)
        memcpy(w.file + s.registers[i], &s.x[i * LANES], LANES * sizeof(float));
    for (const auto &c : s.copies)
        if (!memcmp(w.file + c.first, none, sizeof none))
            memcpy(w.file + c.first, &s.x[c.second * LANES], LANES * sizeof(float));
}

static void run_wait(Warp &w, const Op &o)
{
    Groups &g = w.groups;
    std::vector<Sums> left;
    size_t done = 0;
    while (done < g.products.size() && g.products[done].group + (uint64_t)o.offset < g.group)
        done++;
    compute_some(w, done);
    for (size_t i = 0; i < done; i++)
        for (uint32_t at : g.products[i].reads)
            for (uint32_t k = at; k < at + 16; k++)
                w.block->shared.readers[k]--;
    g.products.erase(g.products.begin(), g.products.begin() + (long)done);
    for (Sums &s : g.sums) {
        bool open = false;
        for (const Product &p : g.products)
            open |= p.sums == s.number;
        if (open)
            left.push_back(s);
        else
            give(w, s);
    }
    g.sums.swap(left);
}

/* ---- decoding ----------------------------------------------------------------------------- */

/* The numbers behind scale-d: scales of a and b, which are turned. */
static void imm(Decoder &d, Op &o, size_t from, bool in_registers)
{
    const size_t n = in_registers ? 3 : 4;
    d.expect(d.now->operands.size() == from + n);
    for (size_t i = 0; i < n; i++) {
        d.expect(d.operand(from + i).kind == Operand::INTEGER);
        const int64_t x = (int64_t)d.operand(from + i).number;
        d.expect(i < 2 ? x == 1 || x == -1 : x == 0 || x == 1);
        if (i < 2 && x < 0)
            o.how = (uint8_t)(o.how | 8 << i);
        if (i >= 2 && x)
            o.how = (uint8_t)(o.how | (in_registers || i == 3 ? 2 : 1));
    }
}

static bool product(Decoder &d, Op &o)
{
    const std::vector<std::string> &w = d.now->words;
    d.expect(w.size() == 8 && w[2] == "sync" && w[3] == "aligned" && w[5] == "f32" && w[6] == w[7]);
    d.expect(w[7] == "bf16" || w[7] == "f16");
    o.how = w[7] == "bf16" ? 4 : 0;
    o.list = d.vector(d.operand(0), 4, true);
    o.target = (uint32_t)o.list.size();
    d.expect(w[4] == "m64n" + std::to_string(2 * o.target) + "k16" && 2 * o.target % 8 == 0 &&
             2 * o.target <= COLUMNS);
    if (d.operand(1).kind == Operand::VECTOR) {
        const std::vector<Slot> a = d.vector(d.operand(1), 4, false);
        d.expect(a.size() == 4);
        o.list.insert(o.list.end(), a.begin(), a.end());
    } else {
        o.a = d.read(d.operand(1), 8);
    }
    o.b = d.read(d.operand(2), 8);
    o.c = d.predicate(d.operand(3));
    imm(d, o, 4, o.a == NO_SLOT);
    o.run = run_product;
    d.kernel.asynchronous = true;
    d.kernel.watched.insert(d.kernel.watched.end(), o.list.begin(), o.list.end());
    return true;
}

bool warpgroup_group(Decoder &d, Op &o)
{
    const std::vector<std::string> &w = d.now->words;
    if (w[0] != "wgmma")
        return false;
    d.expect(w.size() >= 4);
    o.kind = Op::MEET;
    if (w[1] == "mma_async")
        return product(d, o);
    d.expect(w.size() == 4 && w[2] == "sync" && w[3] == "aligned");
    if (w[1] == "fence") {
        o.run = run_fence;
    } else if (w[1] == "commit_group") {
        o.run = run_commit;
    } else {
        d.expect(w[1] == "wait_group" && d.operand(0).kind == Operand::INTEGER);
        o.offset = (int64_t)d.operand(0).number;
        o.run = run_wait;
    }
    return true;
}

} // namespace ptx
