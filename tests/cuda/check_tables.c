/* check_tables.c - look-ups in a table of more elements than 32 bits count, and their sums. The
 * table is address space, of which only the pages of some rows are ever there. */
#include "runtime/sizes.h"
#include "tests/cuda/check.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { INNER = 4100, INDICES = 41, OUTER = 2 };
#define ROWS ((int64_t)1 << 20)

/* The first and the last row, and those around 2^31 and 2^32 elements; outer index 1 is behind
 * them. */
static const int32_t some[] = {0, 523773, 523774, 1047546, 1047547, (int32_t)ROWS - 1};
enum { SOME = sizeof some / sizeof *some };

static float value(int64_t o, int64_t row, int64_t j)
{
    return (float)((o * 7919 + row * 31 + j * 17) % 4099);
}

/* The element j of row some[k] of the outer index o. */
static float *element(float *table, int64_t o, int k, int64_t j)
{
    return table + (o * ROWS + some[k]) * INNER + j;
}

static int compare_all(Bench *b, const Array *y, const Array *index, float *table)
{
    double *got = download(b, y);
    int64_t wrong = 0;
    int times[SOME] = {0};
    for (int i = 0; i < INDICES; i++)
        for (int o = 0; o < OUTER; o++)
            for (int64_t j = 0; j < INNER; j++)
                wrong += got[((int64_t)i * OUTER + o) * INNER + j] !=
                         (double)value(o, (int64_t)index->x[i], j);
    printf("%s gather: %lld of %lld elements are wrong\n", wrong ? "FAILED" : "ok    ",
           (long long)wrong, (long long)y->n);
    free(got);
    int64_t off = 0;
    for (int i = 0; i < INDICES; i++)
        for (int k = 0; k < SOME; k++)
            times[k] += some[k] == (int32_t)index->x[i];
    /* Integers below 2^24: each row got itself as often as an index named it. */
    for (int o = 0; o < OUTER; o++)
        for (int k = 0; k < SOME; k++)
            for (int64_t j = 0; j < INNER; j++)
                off += *element(table, o, k, j) != (float)(1 + times[k]) * value(o, some[k], j);
    printf("%s scatter_add: %lld elements are wrong\n", off ? "FAILED" : "ok    ", (long long)off);
    return wrong || off;
}

int main(void)
{
    Bench b = {.run = {.program = &mg_main, .threads = 1}, .rng = 12345, .t = MG_F32};
    const size_t bytes = (size_t)(OUTER * ROWS * INNER) * sizeof(float);
    float *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        rt_die(RT_FAILED, "no address space for a table of %zu bytes", bytes);
    rt_device_open(&b.run);
    rt_arena_map(&b.run);
    mg_gather_desc d = {.dtype = MG_F32,
                        .indices = INDICES,
                        .tables = 1,
                        .outer = OUTER,
                        .n = ROWS,
                        .inner = INNER,
                        .index_inner = INDICES,
                        .index_outer = INDICES,
                        .accumulate = true};
    for (int o = 0; o < OUTER; o++)
        for (int k = 0; k < SOME; k++)
            for (int64_t j = 0; j < INNER; j++)
                *element(table, o, k, j) = value(o, some[k], j);
    Array y = numbers(&b, (int64_t)INDICES * OUTER * INNER), index = indices(&b, INDICES, SOME),
          work = numbers(&b, mg_scatter_work(&d) / 4 + 1);
    int32_t row[INDICES];
    for (int i = 0; i < INDICES; i++)
        index.x[i] = row[i] = some[(int)index.x[i]];
    rt_put(&b.run, index.offset, row, sizeof row);
    mg_gather(&b.run, 0, &d, table, at(&b, &index), at(&b, &y));
    mg_scatter_add(&b.run, 0, &d, at(&b, &y), at(&b, &index), table, at(&b, &work));
    rt_device_wait(&b.run);
    const int failed = compare_all(&b, &y, &index, table);
    done(&b, 3, (Array *[]){&y, &index, &work});
    rt_device_close(&b.run);
    return failed;
}
