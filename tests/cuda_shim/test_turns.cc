/* test_turns.cc - the order in which blocks of attention take their rows (kernels/cuda/flash.h): each
 * rows of each head once, and of the heads that take turns the first rows before the second. */
#include "tests/cuda_shim/cuda_shim.h"
#include "tests/cuda_shim/include/cuda_runtime_api.h"

#include <stdlib.h>
#include <vector>

extern "C" {
#include "tests/cuda_shim/shim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
}

#define MG_WITH_F64 /* of the library's types the fewest: it is made again here */
#include "kernels/cuda/library.h"

enum { EACH = 64 };

/* Of each block: batch, kv, group, and which rows. */
extern "C" __global__ void turns(int kv, int group, int rows, int section, int *out)
{
    const flash_place p = flash_place_of(kv, group, rows, EACH, (int)blockIdx.x, section);
    int *to = out + 5 * blockIdx.x;
    to[0] = (int)p.head.b, to[1] = (int)p.head.h, to[2] = (int)p.head.g, to[3] = p.at, to[4] = p.all;
}
MG_EXPORT(turns)

static void check(int batch, int kv, int group, int rows, int section)
{
    const int all = (rows + EACH - 1) / EACH, heads = batch * kv * group, n = heads * all;
    std::vector<int> out((size_t)n * 5, -1), seen((size_t)n);
    int *to = out.data();
    void *args[] = {&kv, &group, &rows, &section, &to};
    assert_null(shim_launch(shim_find("turns"), ShimDim{(unsigned)n, 1, 1}, ShimDim{1, 1, 1}, 0, args, 1));
    for (int i = 0, last = 0; i < n; i++) {
        const int *p = to + 5 * i, head = (p[0] * kv + p[1]) * group + p[2];
        assert_in_range(p[0], 0, batch - 1);
        assert_in_range(p[1], 0, kv - 1);
        assert_in_range(p[2], 0, group - 1);
        assert_in_range(p[3], 0, all - 1);
        assert_int_equal(p[4], all);
        assert_int_equal(seen[(size_t)(head * all + p[3])]++, 0);
        const int turn = head / section; /* no head's rows before the end of an earlier section */
        assert_true(i == 0 || turn == last / section || turn == last / section + 1);
        if (i > 0 && turn == last / section)
            assert_true(p[3] >= to[5 * i - 2]);
        last = head;
    }
}

static void each_once(void **)
{
    static const int sections[] = {1, 2, 3, 5, 8, 1000};
    for (int section : sections) {
        check(1, 1, 1, 1, section);
        check(1, 1, 1, 1000, section);
        check(2, 3, 1, 300, section);
        check(3, 2, 4, 129, section);
        check(1, 7, 1, 64, section);
        check(5, 1, 3, 640, section);
    }
}

/* Heads of so many bytes: as many as fit, and at least one; at most those that are there, however
 * small they are. */
static void sections(void **)
{
    assert_int_equal((flash_section<mg_bf16, 16 << 20>(4096, 256)), 8);
    assert_int_equal((flash_section<mg_bf16, 16 << 20>(4096, 128)), 16);
    assert_int_equal((flash_section<mg_bf16, 4 << 20>(1024, 128)), 16);
    assert_int_equal((flash_section<float, 4 << 20>(1 << 20, 512)), 1);
    check(2, 2, 2, 200, flash_section<mg_bf16, 16 << 20>(1, 16));
}

int main()
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_once), cmocka_unit_test(sections)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
