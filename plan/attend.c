/* attend.c - how fast a GPU computes attention.
 *
 * runtime/attend.h says which class of kernels the runtime will take. The device's description has
 * shares of the peak that a class reaches, for some heads and numbers of keys (docs/devices.md).
 * Between them the share is on a line: of the logarithm of the keys, then of the head; beyond them
 * it is that of the nearest. A class that has no rows takes those of `flash`; a warp a row makes 1%
 * of the peak of f32, because half of its instructions load, 4 bytes a lane.
 *
 * Tiles have 32, 64, 80, 96, 128, 192 or 256 columns; those behind the head are computed too. */
#include "plan/attend.h"

#include "runtime/attend.h"

#include <math.h>

/* Are the places of an action's tensors multiples of 16 bytes? Indices and statistics do not
 * count. */
static bool lies_even(const Action *a)
{
    int64_t all = 0;
    const int n = a->kind == ACT_attention ? 4 : a->kind == ACT_attention_grad ? 9 : 6;
    for (int k = 0; k < n && k < a->noperands; k++) {
        const Place *at = &a->operand[k].at;
        if (k == 4)
            continue;
        all |= at->offset;
        for (int i = 0; i < at->nloops; i++)
            all |= at->loop[i].stride;
    }
    return all % 16 == 0;
}

static mg_attend attend_of(const Device *d, const Train *t, const Action *a)
{
    const mg_attend_pass pass = a->kind == ACT_attention        ? MG_ATTEND_FORWARD
                                : a->kind == ACT_attention_grad ? MG_ATTEND_DQ
                                                                : MG_ATTEND_DBIAS;
    return mg_attend_of(&a->attention, pass, false, t->tf32, d->warpgroups, lies_even(a));
}

static bool has_rows(const Device *d, AttentionKernels k)
{
    for (int i = 0; i < d->nattention; i++)
        if (d->attention[i].kernels == k)
            return true;
    return false;
}

static double on_line(double x, double x0, double y0, double x1, double y1)
{
    return x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : y0;
}

/* Of the rows of one head. */
static double at_keys(const Device *d, AttentionKernels k, double head, double keys, bool grad)
{
    const AttentionShare *below = NULL, *above = NULL;
    for (int i = 0; i < d->nattention; i++) {
        const AttentionShare *r = &d->attention[i];
        if (r->kernels != k || r->head < head || r->head > head)
            continue;
        if (r->keys <= keys && (!below || r->keys > below->keys))
            below = r;
        if (r->keys >= keys && (!above || r->keys < above->keys))
            above = r;
    }
    below = below ? below : above;
    above = above ? above : below;
    return on_line(log(keys), log(below->keys), grad ? below->gradient : below->forward,
                   log(above->keys), grad ? above->gradient : above->forward);
}

/* The share of the peak. */
static double share_of(const Device *d, AttentionKernels k, double head, double keys, bool grad)
{
    double below = 0, above = 0; /* heads that have rows */
    k = has_rows(d, k) ? k : ATTENTION_flash;
    for (int i = 0; i < d->nattention; i++) {
        const AttentionShare *r = &d->attention[i];
        if (r->kernels != k)
            continue;
        if (r->head <= head && r->head > below)
            below = r->head;
        if (r->head >= head && (above <= 0 || r->head < above))
            above = r->head;
    }
    below = below > 0 ? below : above;
    above = above > 0 ? above : below;
    return on_line(head, below, at_keys(d, k, below, keys, grad), above,
                   at_keys(d, k, above, keys, grad));
}

double attention_rate(const Device *d, const Train *t, const Action *a, double keys)
{
    const mg_attention_desc *of = &a->attention;
    const mg_attend x = attend_of(d, t, a);
    const double half = of->dtype == MG_BF16 ? d->flops_bf16 : d->flops_f16;
    const struct {
        AttentionKernels kernels;
        double peak;
    } class_[] = {
        [MG_ATTEND_FLOATS] = {ATTENTION_flash_f32, d->flops_f32},
        [MG_ATTEND_TF32] = {ATTENTION_flash_tf32, d->flops_tf32},
        [MG_ATTEND_FLASH] = {ATTENTION_flash, half},
        [MG_ATTEND_FLASH90] = {ATTENTION_flash_sm90, half},
    };
    if (x.class_ == MG_ATTEND_WARP)
        return of->dtype == MG_F64 ? fmin(d->flops_f64, 0.01 * d->flops_f32) : 0.01 * d->flops_f32;
    const double share = share_of(d, class_[x.class_].kernels, 0.5 * (x.head + x.vhead),
                                  keys > 1 ? keys : 1, a->kind != ACT_attention);
    return share * class_[x.class_].peak * (double)(of->head + of->vhead) / (x.head + x.vhead);
}

/* The reason why no tile fits. */
static const char *reason(const Action *a)
{
    return a->attention.dtype == MG_F64 ? "its numbers are f64"
           : a->attention.head % 8 || a->attention.vhead % 8
               ? "the head of halves is no multiple of 8"
               : "rows of its operands do not begin at multiples of 16 bytes";
}

/* True if a program has a head that no kernel of a GPU computes; it is told. */
static bool too_long(const Plan *p, const Program *prog)
{
    for (size_t i = 0; prog && i < prog->actions.n; i++) {
        const Action *a = &prog->actions.data[i];
        const int64_t head = a->attention.head, vhead = a->attention.vhead;
        const int64_t most = action_attends(a) ? head > vhead ? head : vhead : 0;
        if (most <= MG_ATTENTION_HEAD)
            continue;
        diag_error(p->module->diag, a->span, 555,
                   "a head of %lld is not built on a GPU; the limit is %d", (long long)most,
                   MG_ATTENTION_HEAD);
        diag_help(p->module->diag, "more heads that are shorter have as many parameters");
        return true;
    }
    return false;
}

bool attention_built(const Plan *p)
{
    const Train *t = &p->module->train;
    const Action *first = NULL;
    double seconds = 0;
    if (p->device->target != TARGET_cuda)
        return true;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        if (too_long(p, p->programs[k]))
            return false;
    if (!p->train)
        return true;
    for (size_t i = 0; i < p->train->actions.n; i++) {
        const Action *a = &p->train->actions.data[i];
        if (!action_attends(a) || attend_of(p->device, t, a).class_ != MG_ATTEND_WARP)
            continue;
        first = first ? first : a;
        seconds += a->seconds * (double)a->times;
    }
    if (!first)
        return true;
    diag_warning(p->module->diag, first->span, 554,
                 "attention takes kernels without tiles: %.4g ms, %.1f%% of the step; %s",
                 seconds * 1e3, 100 * seconds / p->train->seconds, reason(first));
    return true;
}
