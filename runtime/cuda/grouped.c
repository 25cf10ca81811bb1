/* grouped.c - grouped products: launches the kernel that runtime/grouped.h chooses. */
#include "runtime/grouped.h"

#include "runtime/cuda/cuda.h"

static bool even(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

static void launch(mg_run *r, const mg_grouped_desc *d, bool weight, const void *a, const void *b,
                   const int32_t *end, void *to)
{
    mg_conv_desc c = mg_grouped_conv(d, weight);
    const mg_conv_way way = mg_grouped_way(d, weight, even(a), even(b));
    const int64_t width = mg_conv_step_terms(d->dtype);
    mg_conv_how how = {.batch = 1,
                       .m = (int)(weight ? d->k : mg_grouped_tiles(d)),
                       .n = (int)d->n,
                       .k = (int)way.k,
                       .splits = 1,
                       .steps = (int)((way.k + width - 1) / width),
                       .wide_x = way.wide_x,
                       .wide_w = way.wide_w,
                       .wide_y = d->out != d->dtype,
                       .pairs = d->n % 2 == 0 &&
                                (uintptr_t)to % (uintptr_t)(2 * mg_dtype_bytes(d->out)) == 0};
    const int shared = MG_CONV_SHARED(way.columns);
    char name[MG_CONV_NAME];
    if (mg_conv_counts(&c) > INT32_MAX)
        rt_die(RT_FAILED, "a grouped product that counts to %lld is not built; the limit is %d",
               (long long)mg_conv_counts(&c), INT32_MAX);
    mg_grouped_name(&way, weight, mg_conv_numbers(d->dtype, r->program->tf32), name);
    rt_cuda_launch(r, rt_cuda_named(r->cuda, name, shared),
                   mg_grouped_blocks(d, weight, way.columns), 1, MG_CONV_BLOCK, shared,
                   (void *[]){(void *)d, &c, &how, &a, &b, &end, &to});
}

void mg_grouped(mg_run *r, int action, const mg_grouped_desc *d, const void *z, const void *w,
                const int32_t *end, void *y)
{
    mg_begin(r, action);
    launch(r, d, false, z, w, end, y);
    mg_end(r, action);
    mg_output(r, action, y, d->groups * d->rows * d->n, d->out);
}

void mg_grouped_weight(mg_run *r, int action, const mg_grouped_desc *d, const void *z,
                       const void *y, const int32_t *end, void *w)
{
    mg_begin(r, action);
    launch(r, d, true, z, y, end, w);
    mg_end(r, action);
    mg_output(r, action, w, d->experts * d->k * d->n, d->out);
}
