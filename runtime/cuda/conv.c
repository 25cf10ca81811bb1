/* conv.c - convolutions: launches, for each part that one comes apart into, the kernel that
 * runtime/conv.h chooses, and where sums are cut the one that adds them up. */
#include "runtime/conv.h"

#include "runtime/cuda/cuda.h"

static bool even(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

/* Are two neighbours in a row of y always at a multiple of their size? */
static bool in_pairs(const mg_conv_desc *d, const void *y)
{
    int64_t all = 0;
    for (int i = 0; i < mg_conv_first_column(d); i++)
        all |= d->y[i];
    return (all | mg_conv_size(d, mg_conv_first_column(d), d->columns)) % 2 == 0 &&
           (uintptr_t)y % (uintptr_t)(2 * mg_dtype_bytes(d->out)) == 0;
}

static void launch(mg_run *r, mg_conv_part *p, const char *x, const char *w, char *y, void *work)
{
    mg_conv_desc *d = &p->d;
    const int64_t in = mg_dtype_bytes(d->dtype);
    const char *numbers = mg_conv_numbers(d->dtype, r->program->tf32);
    char name[MG_CONV_NAME];
    x += p->x * in;
    w += p->w * in;
    y += p->y * mg_dtype_bytes(d->out);
    const mg_conv_way way = mg_conv_way_of(d, even(x), even(w));
    if (mg_conv_idle(d, &way))
        return;
    for (; d->axes < MG_CONV_AXES; d->axes++) /* kernels have all of them */
        d->axis[d->axes] = (mg_conv_axis){.size = 1, .every = 1};
    const int64_t width = mg_conv_step_terms(d->dtype),
                  steps = (way.k + width * way.splits - 1) / (width * way.splits);
    mg_conv_how how = {.batch = (int)way.batch,
                       .m = (int)way.m,
                       .n = (int)way.n,
                       .k = (int)way.k,
                       .splits = way.splits,
                       .steps = (int)steps,
                       .wide_x = way.wide_x,
                       .wide_w = way.wide_w,
                       .wide_y = d->out != d->dtype,
                       .pairs = in_pairs(d, y)};
    const int shared = MG_CONV_SHARED(way.columns);
    mg_conv_name(&way, numbers, name);
    rt_cuda_launch(r, rt_cuda_named(r->cuda, name, shared), mg_conv_tiles(&way) * way.splits, 1,
                   MG_CONV_BLOCK, shared, (void *[]){d, &how, &x, &w, &y, &work});
    if (way.splits == 1)
        return;
    snprintf(name, sizeof name, "mg_conv_sum_%s", numbers);
    rt_cuda_launch(r, rt_cuda_named(r->cuda, name, 0),
                   (way.batch * way.m * way.n + MG_CONV_BLOCK - 1) / MG_CONV_BLOCK, 1,
                   MG_CONV_BLOCK, 0, (void *[]){d, &how, &work, &y});
}

static void report(mg_run *r, int action, const mg_conv_desc *d, const char *y)
{
    const int64_t rows = mg_conv_size(d, 0, mg_conv_first_column(d)),
                  n = mg_conv_size(d, mg_conv_first_column(d), d->columns);
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = 0, left = row;
        for (int i = mg_conv_first_column(d) - 1; i >= 0; i--) {
            at += left % d->size[i] * d->y[i];
            left /= d->size[i];
        }
        mg_output(r, action, y + at * mg_dtype_bytes(d->out), n, d->out);
    }
}

void mg_conv(mg_run *r, int action, const mg_conv_desc *d, const void *x, const void *w, void *y,
             void *work)
{
    mg_conv_parts parts = mg_conv_cut(d, 0, 0, 0);
    mg_conv_part part;
    if (mg_conv_counts(d) > INT32_MAX)
        rt_die(RT_FAILED, "a convolution that counts to %lld is not built; the limit is %d",
               (long long)mg_conv_counts(d), INT32_MAX);
    mg_begin(r, action);
    while (mg_conv_next(&parts, &part))
        launch(r, &part, x, w, y, work);
    mg_end(r, action);
    if (r->watch & RT_WATCH_OUTPUTS)
        report(r, action, d, y);
}
