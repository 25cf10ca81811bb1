/* test_meaning.cc - instructions that no kernel of today has: each against a loop over the lanes. All
 * others are tested by the checks of kernels (kernels.sh). */
#include "tests/ptx/launch.h"
#include "tests/ptx/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

extern "C" {
#include <cmocka.h>
}

using ptx::global_ranges;

enum { WORDS = 4096, LANES = 32 };
static uint32_t memory[WORDS]; /* of the device */

/* %r0 is %tid.x, %rd0 the memory's address, %rd1 that of word %tid.x; s is shared memory. */
static std::string run(const std::string &body, unsigned threads = LANES, uint64_t seed = 1)
{
    ptx::Module m(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n"
        ".reg .pred %p<8>; .reg .b32 %r<32>; .reg .f32 %f<32>; .reg .b64 %rd<16>;\n"
        ".shared .align 1024 .b8 s[8192];\n"
        "ld.param.u64 %rd0, [a]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4;"
        "add.s64 %rd1, %rd1, %rd0;\n" +
        body + "\nret;\n}\n");
    void *a = memory;
    void *args[] = {&a};
    ptx::Launch l;
    l.grid = ptx::Dim{1, 1, 1};
    l.block = ptx::Dim{threads, 1, 1};
    l.args = args;
    l.seed = seed;
    return ptx::launch(*m.find("k"), l);
}

static void runs(const std::string &body, unsigned threads = LANES, uint64_t seed = 1)
{
    assert_string_equal(run(body, threads, seed).c_str(), "");
}

static void finds(const std::string &wrong, const char *what)
{
    if (wrong.find(what) == std::string::npos)
        fail_msg("'%s' is not in '%s'", what, wrong.c_str());
}

/* ---- dp2a, dp4a --------------------------------------------------------------------------- */

/* The PTX ISA's: halves of a with the lower or upper two bytes of b, bytes with bytes; and c. */
static void dots(void **)
{
    static const struct {
        const char *of;
        uint32_t is;
    } cases[] = {
        {"dp2a.lo.u32.u32", 7 + 0xfffeu * 0x02 + 0x8001u * 0xfd},
        {"dp2a.hi.u32.u32", 7 + 0xfffeu * 0x05 + 0x8001u * 0x80},
        {"dp2a.lo.s32.u32", 7 + (uint32_t)(-2 * 0x02 - 0x7fff * 0xfd)},
        {"dp2a.hi.s32.s32", 7 + (uint32_t)(-2 * 0x05 - 0x7fff * -0x80)},
        {"dp4a.u32.u32", 7 + 0xfeu * 0x02 + 0xffu * 0xfd + 0x01u * 0x05 + 0x80u * 0x80},
        {"dp4a.s32.s32", 7 + (uint32_t)(-2 * 0x02 + -1 * -3 + 1 * 5 + -0x80 * -0x80)},
        {"dp4a.u32.s32", 7 + (uint32_t)(0xfe * 0x02 + 0xff * -3 + 1 * 5 + 0x80 * -0x80)},
    };
    for (const auto &c : cases) {
        memset(memory, 0, sizeof memory);
        runs(std::string("mov.u32 %r1, 0x8001fffe; mov.u32 %r2, 0x8005fd02; ") + c.of +
             " %r3, %r1, %r2, 7; atom.global.max.u32 %r2, [%rd0], %r3;");
        assert_int_equal(memory[0], c.is);
    }
}

/* ---- atom, red ---------------------------------------------------------------------------- */

static void clear(uint32_t first)
{
    memset(memory, 0, sizeof memory);
    memory[0] = first;
}

/* Lane i brings a number; what lanes got before is what some order of them gives. */
static void atomic(void **)
{
    const std::string mine = "mad.lo.s32 %r1, %r0, 7, -50;"; /* -50, -43, ... 167 */
    clear(5);
    runs(mine + "atom.global.add.u32 %r2, [%rd0], %r1;");
    assert_int_equal((int32_t)memory[0], 5 + 7 * (31 * 32 / 2) - 50 * 32);
    clear(5);
    runs(mine + "atom.global.min.s32 %r2, [%rd0], %r1;");
    assert_int_equal((int32_t)memory[0], -50);
    clear(5);
    runs(mine + "atom.global.min.u32 %r2, [%rd0], %r1;"); /* -50 is large */
    assert_int_equal(memory[0], 5);
    clear(5);
    runs(mine + "atom.global.max.s32 %r2, [%rd0], %r1;");
    assert_int_equal((int32_t)memory[0], 167);
    clear(0xff00);
    runs("shl.b32 %r1, 1, %r0; atom.global.or.b32 %r2, [%rd0], %r1;");
    assert_int_equal(memory[0], 0xffffffff);
    clear(0xff00ff00);
    runs("shl.b32 %r1, 1, %r0; not.b32 %r1, %r1; atom.global.and.b32 %r2, [%rd0], %r1;");
    assert_int_equal(memory[0], 0);
    clear(0xf0);
    runs("shl.b32 %r1, 1, %r0; atom.global.xor.b32 %r2, [%rd0], %r1;");
    assert_int_equal(memory[0], ~0xf0u);
    float sum = 0.5f;
    clear(0);
    memcpy(memory, &sum, 4);
    runs("cvt.rn.f32.u32 %f0, %r0; red.global.add.f32 [%rd0], %f0;");
    memcpy(&sum, memory, 4);
    assert_true(sum == 0.5f + 31 * 32 / 2);
    /* 32 increments up to 20: 21 values, then again from 0; decrements go the other way. */
    clear(0);
    runs("atom.global.inc.u32 %r2, [%rd0], 20;");
    assert_int_equal(memory[0], 32 % 21);
    clear(0);
    runs("atom.global.dec.u32 %r2, [%rd0], 20;");
    assert_int_equal(memory[0], 21 - 32 % 21);
}

/* A counter gives each lane another number, in an order that the seed changes; one of those who
 * swap wins; in shared memory, too. */
static void atomic_orders(void **)
{
    uint32_t before[LANES], differ = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        clear(0);
        runs("mov.u32 %r3, s; setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [s], %r0;"
             "bar.warp.sync -1; atom.shared.add.u32 %r1, [s], 1; st.global.u32 [%rd1+256], %r1;"
             "add.s32 %r4, %r0, 1; atom.global.cas.b32 %r2, [%rd0], 0, %r4;"
             "st.global.u32 [%rd1+512], %r2;",
             LANES, seed);
        uint32_t seen = 0, won = 0;
        for (int i = 0; i < LANES; i++) {
            seen |= 1u << memory[64 + i];
            won += memory[128 + i] == 0;
            differ += seed > 1 && before[i] != memory[64 + i];
        }
        memcpy(before, memory + 64, sizeof before);
        assert_int_equal(seen, 0xffffffff);
        assert_int_equal(won, 1);
        assert_in_range(memory[0], 1, 32);
        assert_int_equal(memory[128 + memory[0] - 1], 0);
    }
    assert_true(differ > 0);
}

/* ---- lanes together ----------------------------------------------------------------------- */

static void reductions(void **)
{
    const struct {
        const char *of;
        uint32_t all;
    } cases[] = {{"add.u32", 7 * 496 - 50 * 32}, {"min.s32", (uint32_t)-50}, {"max.s32", 167},
                 {"min.u32", 6},                 {"max.u32", (uint32_t)-1}};
    for (const auto &c : cases) {
        clear(0);
        runs(std::string("mad.lo.s32 %r1, %r0, 7, -50; redux.sync.") + c.of +
             " %r2, %r1, -1; st.global.u32 [%rd1], %r2;");
        for (int i = 0; i < LANES; i++)
            assert_int_equal(memory[i], c.all);
    }
    clear(0);
    runs("add.s32 %r1, %r0, 64; redux.sync.or.b32 %r2, %r1, -1; redux.sync.and.b32 %r3, %r1, -1;"
         "redux.sync.xor.b32 %r4, %r0, -1; st.global.u32 [%rd1], %r2; st.global.u32 [%rd1+128], "
         "%r3; st.global.u32 [%rd1+256], %r4;");
    assert_int_equal(memory[9], 95);
    assert_int_equal(memory[32 + 9], 64);
    assert_int_equal(memory[64 + 9], 0);
    /* Half of the lanes: theirs alone. */
    clear(0);
    runs("setp.lt.u32 %p0, %r0, 16; @!%p0 bra $L; redux.sync.add.u32 %r2, %r0, 0xffff;"
         "elect.sync %r3|%p1, 0xffff; selp.u32 %r4, 1, 0, %p1; st.global.u32 [%rd1], %r2;"
         "st.global.u32 [%rd1+128], %r4; $L:");
    uint32_t leaders = 0;
    for (int i = 0; i < LANES; i++) {
        assert_int_equal(memory[i], i < 16 ? 120 : 0);
        leaders += memory[32 + i];
    }
    assert_int_equal(leaders, 1);
}

static void barrier_reductions(void **)
{
    clear(0);
    runs("setp.lt.u32 %p0, %r0, 40; bar.red.popc.u32 %r1, 0, %p0; bar.red.and.pred %p1, 0, %p0;"
         "bar.red.or.pred %p2, 0, %p0; bar.red.and.pred %p3, 0, !%p0; selp.u32 %r2, 1, 0, %p1;"
         "selp.u32 %r3, 1, 0, %p2; selp.u32 %r4, 1, 0, %p3; shl.b32 %r2, %r2, 8;"
         "shl.b32 %r3, %r3, 9; shl.b32 %r4, %r4, 10; or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3;"
         "or.b32 %r1, %r1, %r4; st.global.u32 [%rd1], %r1;",
         64);
    for (int i = 0; i < 64; i++)
        assert_int_equal(memory[i], 40 | 1 << 9);
}

static void branch_by_index(void **)
{
    clear(0);
    runs("rem.u32 %r1, %r0, 3; $T: .branchtargets $A, $B, $C; brx.idx %r1, $T;"
         "$A: mov.u32 %r2, 10; bra $E; $B: mov.u32 %r2, 20; bra $E; $C: mov.u32 %r2, 30;"
         "$E: st.global.u32 [%rd1], %r2;");
    for (int i = 0; i < LANES; i++)
        assert_int_equal(memory[i], 10 * (i % 3 + 1));
}

/* ---- barriers in memory ------------------------------------------------------------------- */

/* The first warp waits until the second has written and arrived. */
static std::string meeting(const char *init, const char *wait)
{
    return std::string("setp.ne.u32 %p0, %r0, 0; @%p0 bra $I; ") + init +
           "$I: bar.sync 0; mov.u32 %r5, s; and.b32 %r6, %r0, 31; shl.b32 %r6, %r6, 2;"
           "add.s32 %r6, %r6, %r5; setp.lt.u32 %p1, %r0, 32; @%p1 bra $W;"
           "st.shared.u32 [%r6+64], %r0; mbarrier.arrive.shared.b64 %rd3, [s]; bra $E; $W: " +
           wait + "ld.shared.u32 %r7, [%r6+64]; st.global.u32 [%rd1], %r7; $E:";
}

static void barriers_in_memory(void **)
{
    const char *init = "mbarrier.init.shared.b64 [s], 32;";
    const char *wait = "mbarrier.try_wait.parity.shared.b64 %p2, [s], 0; @!%p2 bra $W;";
    int early = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        clear(0);
        runs(meeting(init, wait), 64, seed);
        for (uint32_t i = 0; i < LANES; i++)
            assert_int_equal(memory[i], i + 32);
        run(meeting(init, ""), 64, seed); /* it reads what nobody has written yet */
        for (uint32_t i = 0; i < LANES; i++)
            early += memory[i] != i + 32;
        memset(memory, 0, sizeof memory);
    }
    assert_true(early > 0);
    finds(run(meeting("", wait), 64), "nobody initialised it");
    finds(run(meeting("mbarrier.init.shared.b64 [s], 0;", wait), 64), "for 0 arrivals");
    /* 32 arrivals at one for 16 are two phases: its parity is 0 again, and nobody waits. */
    runs(meeting("mbarrier.init.shared.b64 [s], 16;",
                 "mbarrier.try_wait.parity.shared.b64 %p2, [s], 1; @!%p2 bra $W;"),
         64);
    finds(run(meeting("mbarrier.init.shared.b64 [s], 4;",
                      "mbarrier.arrive.shared.b64 %rd3, [s], 5; "),
              64),
          "more arrivals at a barrier than it is for");
}

/* ---- matrices ----------------------------------------------------------------------------- */

/* stmatrix puts a fragment where ldmatrix finds it: row r of matrix m at lane 8 m + r's address;
 * lane 4 r + c has elements 2 c and 2 c + 1 of row r. */
static void store_matrices(void **)
{
    clear(0);
    runs("mov.u32 %r5, s; shl.b32 %r6, %r0, 4; add.s32 %r6, %r6, %r5; mul.lo.u32 %r1, %r0, 0x20002;"
         "add.s32 %r1, %r1, 0x10000; add.s32 %r2, %r1, 0x1000100; add.s32 %r3, %r1, 0x2000200;"
         "add.s32 %r4, %r1, 0x3000300;"
         "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r6], {%r1, %r2, %r3, %r4}; bar.warp.sync -1;"
         "ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r6]; shl.b32 %r11, %r0, 4;"
         "cvt.u64.u32 %rd3, %r11; add.s64 %rd3, %rd3, %rd0;"
         "st.global.v4.u32 [%rd3], {%r7, %r8, %r9, %r10};");
    const uint16_t *row = (const uint16_t *)memory;
    for (int m = 0; m < 4; m++)
        for (int r = 0; r < 8; r++)
            for (int c = 0; c < 8; c++)
                assert_int_equal(row[(8 * m + r) * 8 + c], 256 * m + 2 * (4 * r + c / 2) + c % 2);
}

/* d = a b + c of tf32, 16 x 8 x 8: fragments by the PTX ISA ("mma.m16n8k8", .tf32). */
static void products_of_tf32(void **)
{
    float a[16][8], b[8][8];
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 8; k++)
            a[i][k] = (float)((i * 5 + k * 3) % 11 - 5);
    for (int k = 0; k < 8; k++)
        for (int j = 0; j < 8; j++)
            b[k][j] = (float)((k * 7 + j * 2) % 13 - 6) / 4;
    float *in = (float *)memory;
    memset(memory, 0, sizeof memory);
    for (int lane = 0; lane < LANES; lane++) {
        const int g = lane / 4, t = lane % 4;
        const float mine[] = {a[g][t], a[g + 8][t],     a[g][t + 4], a[g + 8][t + 4],
                              b[t][g], b[t + 4][g], 100,         200};
        memcpy(in + 8 * lane, mine, sizeof mine);
    }
    runs("mul.wide.u32 %rd3, %r0, 32; add.s64 %rd3, %rd3, %rd0;"
         "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd3];"
         "ld.global.v2.u32 {%r5, %r6}, [%rd3+16]; ld.global.v2.f32 {%f0, %f1}, [%rd3+24];"
         "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4, %f5, %f6, %f7}, {%r1, %r2, %r3, "
         "%r4}, {%r5, %r6}, {%f0, %f1, %f0, %f1};"
         "shl.b32 %r7, %r0, 4; cvt.u64.u32 %rd4, %r7; add.s64 %rd4, %rd4, %rd0;"
         "st.global.v4.f32 [%rd4+4096], {%f4, %f5, %f6, %f7};");
    for (int lane = 0; lane < LANES; lane++)
        for (int e = 0; e < 4; e++) {
            const int i = lane / 4 + (e < 2 ? 0 : 8), j = lane % 4 * 2 + e % 2;
            float sum = e % 2 ? 200 : 100;
            for (int k = 0; k < 8; k++)
                sum += a[i][k] * b[k][j];
            assert_true(in[1024 + 4 * lane + e] == sum); /* all are small multiples of a quarter */
        }
}

static void registers(void **)
{
    runs("setmaxnreg.inc.sync.aligned.u32 232; setmaxnreg.dec.sync.aligned.u32 24;", 128);
}

static int set_up(void **)
{
    global_ranges().add(memory, sizeof memory);
    return 0;
}
static int take_down(void **)
{
    global_ranges().remove(memory);
    return 0;
}

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test(dots), cmocka_unit_test(atomic),           cmocka_unit_test(atomic_orders),
        cmocka_unit_test(reductions),       cmocka_unit_test(barrier_reductions),
        cmocka_unit_test(branch_by_index),  cmocka_unit_test(barriers_in_memory),
        cmocka_unit_test(store_matrices),   cmocka_unit_test(products_of_tf32),
        cmocka_unit_test(registers)};
    return cmocka_run_group_tests(tests, set_up, take_down);
}
