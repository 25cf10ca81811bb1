/* cuda_limits.c - sizes that the kernels of kernels/cuda do not count to: refused when a program is
 * compiled. */
#include "codegen/cuda/cuda.h"
#include "runtime/grouped.h"

enum { WARP = 32, BLOCK = 128 /* threads, at least; a row has a warp at most */ };

/* Indices, and rows of a table, are counted in 32 bits. Elements of tables are counted in 64. */
static bool look_up_fits(const Plan *p, const Action *a)
{
    const mg_gather_desc *d = &a->gather;
    const int64_t blocks = d->indices <= INT32_MAX ? d->indices * d->outer * WARP / BLOCK : 0;
    const int64_t rows = d->n <= INT32_MAX ? d->tables * d->n : d->n;
    if (d->indices <= INT32_MAX && rows <= INT32_MAX && blocks <= INT32_MAX)
        return true;
    diag_error(p->module->diag, a->span, 525,
               "a look-up of %lld indices in %lld x %lld rows; a GPU counts to %lld",
               (long long)d->indices, (long long)d->outer, (long long)rows, (long long)INT32_MAX);
    diag_help(p->module->diag,
              "a smaller microbatch, or more ranks along the batch, look up fewer at once");
    return false;
}

/* Offsets in the operands of a convolution, and indices, are 32 bits. */
static bool convolution_fits(const Plan *p, const Action *a)
{
    const int64_t most = mg_conv_counts(&a->conv);
    if (most <= INT32_MAX)
        return true;
    diag_error(p->module->diag, a->span, 526,
               "a convolution of %lld elements, with its borders; a GPU counts to %lld",
               (long long)most, (long long)INT32_MAX);
    diag_help(p->module->diag, "a smaller microbatch, or more ranks along the batch, have fewer");
    return false;
}

/* Those of what an expert's rows and its matrix are, and blocks, too. */
static bool grouped_fits(const Plan *p, const Action *a)
{
    const bool weight = a->kind == ACT_grouped_weight;
    const mg_conv_desc c = mg_grouped_conv(&a->grouped, weight);
    const int64_t reach = mg_conv_counts(&c), blocks = mg_grouped_blocks(&a->grouped, weight, 64);
    const int64_t most = reach > blocks ? reach : blocks;
    if (most <= INT32_MAX)
        return true;
    diag_error(p->module->diag, a->span, 526,
               "a grouped product of %lld elements, or blocks; a GPU counts to %lld",
               (long long)most, (long long)INT32_MAX);
    diag_help(p->module->diag, "a shorter sequence, or more ranks along what a row is, have fewer");
    return false;
}

bool codegen_cuda_fits(const Plan *p)
{
    Program *const *const all = p->programs;
    for (size_t k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; all[k] && i < all[k]->actions.n; i++) {
            const Action *a = &all[k]->actions.data[i];
            if ((a->kind == ACT_gather || a->kind == ACT_scatter_add || a->kind == ACT_put) &&
                !look_up_fits(p, a))
                return false;
            if (a->kind == ACT_conv && !convolution_fits(p, a))
                return false;
            if ((a->kind == ACT_grouped || a->kind == ACT_grouped_weight) && !grouped_fits(p, a))
                return false;
        }
    return true;
}
