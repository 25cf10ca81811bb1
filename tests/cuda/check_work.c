/* check_work.c - how much the kernels of tables compute, as the number of indices grows: counted in
 * basic blocks, which the compiler instruments (see CMakeLists.txt), so that no clock is asked. Of
 * kernels that are run from PTX instructions are counted.
 * Four times the indices may take at most five times the blocks, however often an index occurs. */
#include "runtime/sizes.h"
#include "tests/cuda/check.h"
#include "tests/cuda_shim/shim.h"

#include <inttypes.h>
#include <stdlib.h>

static uint64_t blocks;
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    blocks++;
}

enum { SAME, MANY, FEW, CASES };
static const char *const names[CASES] = {"all the same", "many", "few"};

static uint64_t work_of(Bench *b, int64_t n, int kind)
{
    mg_gather_desc d = {.dtype = MG_F32,
                        .indices = n,
                        .tables = 1,
                        .outer = 1,
                        .n = kind == FEW ? 9 : 50257,
                        .inner = 8,
                        .index_inner = n,
                        .index_outer = n,
                        .accumulate = true};
    Array rows = numbers(b, n * d.inner), table = numbers(b, d.n * d.inner);
    Array index = indices(b, n, kind == SAME ? 1 : d.n),
          work = numbers(b, mg_scatter_work(&d) / 4 + 1);
    blocks = 0;
    const uint64_t before = shim_ptx_instructions();
    mg_scatter_add(&b->run, 0, &d, at(b, &rows), at(b, &index), at(b, &table), at(b, &work));
    mg_gather(&b->run, 0, &d, at(b, &table), at(b, &index), at(b, &rows));
    rt_device_wait(&b->run);
    const uint64_t all = blocks + shim_ptx_instructions() - before;
    done(b, 4, (Array *[]){&rows, &table, &index, &work});
    return all;
}

int main(void)
{
    Bench b = {.run = {.program = &mg_main, .threads = 1}, .rng = 12345, .t = MG_F32};
    int failed = 0;
    rt_device_open(&b.run);
    rt_arena_map(&b.run);
    for (int kind = 0; kind < CASES; kind++) {
        const uint64_t some = work_of(&b, 2048, kind), more = work_of(&b, 8192, kind);
        const bool fails = !some || more > 5 * some;
        printf("%s %s: %" PRIu64 " basic blocks for 2048 indices, %" PRIu64 " for 8192\n",
               fails ? "FAILED" : "ok    ", names[kind], some, more);
        failed += fails;
    }
    rt_device_close(&b.run);
    return failed != 0;
}
