/* test_faults.cc - each check of the interpreter finds the mistake that it is for, and lets the
 * same kernel without it run. */
#include "tests/ptx/launch.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

extern "C" {
#include <cmocka.h>
}

using ptx::global_ranges;

/* A kernel of two pointers around some instructions. %tid.x is in %r0. */
static std::string kernel(const std::string &body)
{
    return ".version 9.0\n.target sm_90a\n.address_size 64\n"
           ".visible .entry k(.param .u64 a, .param .u64 b)\n{\n"
           ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .f32 %f<40>; .reg .b64 %rd<16>;\n"
           ".shared .align 1024 .b8 s[8192];\n"
           "ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; mov.u32 %r0, %tid.x;\n" +
           body + "\nret;\n}\n";
}

static std::string run(const std::string &body, void *a, void *b, unsigned threads = 32,
                       uint64_t seed = 1)
{
    ptx::Module m(kernel(body));
    void *args[] = {&a, &b};
    ptx::Launch l;
    l.grid = ptx::Dim{1, 1, 1};
    l.block = ptx::Dim{threads, 1, 1};
    l.args = args;
    l.seed = seed;
    return ptx::launch(*m.find("k"), l);
}

static void finds(const std::string &wrong, const char *what)
{
    if (wrong.find(what) == std::string::npos)
        fail_msg("'%s' is not in '%s'", what, wrong.c_str());
}

/* ---- accesses ----------------------------------------------------------------------------- */

static char *memory; /* of the device: SIZE bytes */
enum { SIZE = 4096 };

static std::string at_offset(int offset)
{
    return "mul.wide.u32 %rd2, %r0, 16; add.s64 %rd2, %rd2, %rd0;\n"
           "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd2+" +
           std::to_string(offset) + "];";
}

static void misaligned(void **)
{
    assert_string_equal(run(at_offset(16), memory, memory).c_str(), "");
    finds(run(at_offset(4), memory, memory), "no multiple");
    finds(run(at_offset(8), memory, memory), "no multiple");
}

static void out_of_bounds(void **)
{
    assert_string_equal(run(at_offset(SIZE - 512), memory, memory).c_str(), "");
    finds(run(at_offset(SIZE - 496), memory, memory), "in no allocation, 0 bytes behind the end");
    finds(run(at_offset(-16), memory, memory), "16 bytes before");
    finds(run("st.shared.u32 [s+8192], %r0;", memory, memory), "beside what the kernel has");
    finds(run("ld.param.u64 %rd3, [b+8];", memory, memory), "a parameter at");
}

/* Logits of llama7b.mg: 32,000 columns; row 100,000 is beyond 2^31 elements. */
static void overflow(void **)
{
    const uint64_t rows = 100001, columns = 32000, bytes = rows * columns * 4;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    assert_true(p != MAP_FAILED);
    global_ranges().add(p, bytes);
    const std::string store = "shl.b64 %rd3, %rd3, 2; add.s64 %rd3, %rd3, %rd0;"
                              "st.global.u32 [%rd3], %r0;";
    assert_string_equal(run("mov.u32 %r1, 100000; mul.wide.s32 %rd3, %r1, 32000;"
                            "cvt.u64.u32 %rd4, %r0; add.s64 %rd3, %rd3, %rd4;" +
                                store,
                            p, p)
                            .c_str(),
                        "");
    assert_int_equal(((uint32_t *)p)[100000 * columns + 31], 31);
    finds(run("mov.u32 %r1, 100000; mul.lo.s32 %r1, %r1, 32000; add.s32 %r1, %r1, %r0;"
              "cvt.s64.s32 %rd3, %r1;" +
                  store,
              p, p),
          "in no allocation");
    global_ranges().remove(p);
    munmap(p, bytes);
}

/* ---- what is under way -------------------------------------------------------------------- */

static std::string copied(const char *wait)
{
    return std::string("shl.b32 %r1, %r0, 4; mov.u32 %r2, s; add.s32 %r2, %r2, %r1;"
                       "cvt.u64.u32 %rd2, %r1; add.s64 %rd2, %rd2, %rd0;"
                       "cp.async.cg.shared.global [%r2], [%rd2], 16, 16; cp.async.commit_group;") +
           wait +
           "ld.shared.u32 %r3, [%r2]; add.s64 %rd4, %rd1, %rd2; sub.s64 %rd4, %rd4, %rd0;"
           "st.global.u32 [%rd4], %r3;";
}

static void missing_wait(void **)
{
    assert_string_equal(run(copied("cp.async.wait_group 0;"), memory, memory + 2048).c_str(), "");
    finds(run(copied(""), memory, memory + 2048), "nobody waited for it");
    finds(run(copied("cp.async.wait_group 1;"), memory, memory + 2048), "nobody waited for it");
}

/* 64 x 8 sums of tiles of ones, each part between bars may be left out. */
static std::string product(const std::string &fence, const std::string &begin,
                           const std::string &wait, const std::string &between = "")
{
    return "mov.u32 %r1, s; shl.b32 %r2, %r0, 4; add.s32 %r2, %r2, %r1; mov.u32 %r3, 0x3f803f80;"
           "st.shared.v4.u32 [%r2], {%r3, %r3, %r3, %r3};"
           "st.shared.v4.u32 [%r2+2048], {%r3, %r3, %r3, %r3};" +
           fence +
           "bar.sync 0;"
           "mov.u64 %rd3, 0x4000004000010040; setp.ne.u32 %p0, %r0, %r0;" +
           begin +
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, {%r3, %r3, "
           "%r3, %r3},"
           " %rd3, %p0, 1, 1, 0; wgmma.commit_group.sync.aligned;" +
           between + wait +
           "shl.b32 %r4, %r0, 4; cvt.u64.u32 %rd4, %r4; add.s64 %rd4, %rd4, %rd0;"
           "st.global.v4.f32 [%rd4], {%f0, %f1, %f2, %f3};";
}

static void products(void **)
{
    const char *fence = "fence.proxy.async.shared::cta;", *begin = "wgmma.fence.sync.aligned;";
    const char *wait = "wgmma.wait_group.sync.aligned 0;";
    for (uint64_t seed = 1; seed <= 8; seed++) {
        assert_string_equal(run(product(fence, begin, wait), memory, memory, 128, seed).c_str(),
                            "");
        for (int i = 0; i < 512; i++)
            assert_true(((float *)memory)[i] == 16);
        finds(run(product("", begin, wait), memory, memory, 128, seed),
              "without a fence.proxy.async");
        finds(run(product(fence, "", wait), memory, memory, 128, seed), "no wgmma.fence");
        finds(run(product(fence, begin, ""), memory, memory, 128, seed), "before the products");
        finds(run(product(fence, std::string(begin) + "mov.u32 %r3, 0;", wait), memory, memory, 128,
                  seed),
              "written after the last wgmma.fence");
        finds(run(product(fence, begin, wait, "st.shared.u32 [%r2], %r0;"), memory, memory, 128,
                  seed),
              "while a product of a warpgroup reads it");
        finds(
            run(product(fence, begin, wait, "mov.f32 %f1, 0f00000000;"), memory, memory, 128, seed),
            "while a product of a warpgroup adds to it");
    }
}

/* Who reads sums before the wait gets no numbers. */
static void sums_before_the_wait(void **)
{
    const std::string early = product("fence.proxy.async;", "wgmma.fence.sync.aligned;", "") +
                              "wgmma.wait_group.sync.aligned 0;";
    assert_string_equal(run(early, memory, memory, 128).c_str(), "");
    for (int i = 0; i < 512; i++)
        assert_true(((float *)memory)[i] != ((float *)memory)[i]);
}

/* ---- threads that wait -------------------------------------------------------------------- */

static void barriers(void **)
{
    finds(run("setp.lt.u32 %p0, %r0, 40; @%p0 bra $L; ret; $L: bar.sync 0;", memory, memory, 64),
          "40 threads are at a barrier, 24 have ended");
    finds(run("setp.lt.u32 %p0, %r0, 3; @%p0 bra $L;"
              "shfl.sync.bfly.b32 %r1|%p1, %r0, 1, 31, -1; $L: ret;",
              memory, memory),
          "29 lanes wait for others of their warp");
}

/* A warp is not taken to run in step: without bar.warp.sync some order shows another's number. */
static void warp_in_step(void **)
{
    for (int synced = 0; synced < 2; synced++) {
        int bad = 0;
        for (uint64_t seed = 1; seed < 40; seed++) {
            const std::string wrong =
                run(std::string(
                        "shl.b32 %r1, %r0, 2; mov.u32 %r2, s; add.s32 %r3, %r2, %r1;"
                        "st.shared.u32 [%r3], %r0; xor.b32 %r4, %r1, 124; add.s32 %r4, %r4, %r2;") +
                        (synced ? "bar.warp.sync -1;" : "") +
                        "ld.shared.u32 %r5, [%r4]; cvt.u64.u32 %rd2, %r1; add.s64 %rd2, %rd2, %rd0;"
                        "st.global.u32 [%rd2], %r5;",
                    memory, memory, 32, seed);
            assert_string_equal(wrong.c_str(), "");
            for (unsigned i = 0; i < 32; i++)
                bad += ((uint32_t *)memory)[i] != 31 - i;
        }
        assert_true(synced ? bad == 0 : bad > 0);
    }
}

/* ---- what is not known -------------------------------------------------------------------- */

static void unknown(void **)
{
    for (const char *what :
         {"frobnicate.b32 %r1, %r2;", "add.f16 %r1, %r2, %r3;", "add.s32.strange %r1, %r2, %r3;",
          "cp.async.bulk.tensor.2d.shared.global [%r1], [%rd0];", "call.uni f;"}) {
        ptx::Module m(kernel(what));
        try {
            m.find("k");
            fail_msg("%s is known", what);
        } catch (const ptx::Unknown &e) {
            finds(e.what(), "not known: ");
        }
    }
}

static int set_up(void **)
{
    memory = (char *)aligned_alloc(256, SIZE);
    memset(memory, 0, SIZE);
    global_ranges().add(memory, SIZE);
    return 0;
}
static int take_down(void **)
{
    global_ranges().remove(memory);
    free(memory);
    return 0;
}

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test(misaligned), cmocka_unit_test(out_of_bounds),
        cmocka_unit_test(overflow),   cmocka_unit_test(missing_wait),
        cmocka_unit_test(products),   cmocka_unit_test(sums_before_the_wait),
        cmocka_unit_test(barriers),   cmocka_unit_test(warp_in_step),
        cmocka_unit_test(unknown)};
    return cmocka_run_group_tests(tests, set_up, take_down);
}
