/* attend.c - how fast a GPU computes attention.
 *
 * runtime/attend.h says which class of kernels the runtime will take. The device's description has
 * the share of the peak of halves that the card's best class for them reaches. The factors below
 * are guesses: no kernel was measured.
 *
 *   flash_sm90.h   that share
 *   flash.h        that share; half of it on a card that has the other (FlashAttention-2 makes 350
 *                  to 400 TFLOP/s of an H100 where FlashAttention-3 makes 550 to 740; Shah et al.,
 *                  2024, figures 5 and 6)
 *   tf32           half of that share, of the peak of tf32: the second product reads its operand
 *                  number by number
 *   f32            that share, of the peak of f32
 *   a warp a row   1% of the peak of f32: half of the instructions load, 4 bytes a lane
 *
 * Tiles have 32, 64, 80, 96, 128, 192 or 256 columns; those behind the head are computed too. */
#include "plan/attend.h"

#include "runtime/attend.h"

/* Are the places of an action's tensors multiples of 16 bytes? Indices and statistics do not
 * count. */
static bool lies_even(const Action *a)
{
    int64_t all = 0;
    const int n = a->kind == ACT_attention ? 4 : 9;
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
    return mg_attend_of(&a->attention, a->kind == ACT_attention ? MG_ATTEND_FORWARD : MG_ATTEND_DQ,
                        false, t->tf32, d->warpgroups, lies_even(a));
}

double attention_rate(const Device *d, const Train *t, const Action *a, double share)
{
    const mg_attention_desc *of = &a->attention;
    const mg_attend x = attend_of(d, t, a);
    const double f64 = share * d->flops_f64, slow = 0.01 * d->flops_f32;
    double rate = 0;
    switch (x.class_) {
    case MG_ATTEND_WARP:
        return of->dtype == MG_F64 && f64 < slow ? f64 : slow;
    case MG_ATTEND_FLOATS:
        rate = share * d->flops_f32;
        break;
    case MG_ATTEND_TF32:
        rate = 0.5 * share * d->flops_tf32;
        break;
    case MG_ATTEND_FLASH:
    case MG_ATTEND_FLASH90:
        rate = share * (of->dtype == MG_BF16 ? d->flops_bf16 : d->flops_f16);
        rate *= x.class_ == MG_ATTEND_FLASH && d->warpgroups ? 0.5 : 1;
        break;
    }
    return rate * (double)(of->head + of->vhead) / (x.head + x.vhead);
}

/* The reason why no tile fits. */
static const char *reason(const Action *a)
{
    return a->attention.dtype == MG_F64 ? "its numbers are f64"
           : a->attention.head % 8 || a->attention.vhead % 8
               ? "the head of halves is no multiple of 8"
               : "rows of its operands do not begin at multiples of 16 bytes";
}

static bool is_attention(const Action *a)
{
    return a->kind == ACT_attention || a->kind == ACT_attention_grad;
}

/* True if a program has a head that no kernel of a GPU computes; it is told. */
static bool too_long(const Plan *p, const Program *prog)
{
    for (size_t i = 0; prog && i < prog->actions.n; i++) {
        const Action *a = &prog->actions.data[i];
        const int64_t head = a->attention.head, vhead = a->attention.vhead;
        const int64_t most = is_attention(a) ? head > vhead ? head : vhead : 0;
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
    if (too_long(p, p->train) || too_long(p, p->eval) || too_long(p, p->sample))
        return false;
    if (!p->train)
        return true;
    for (size_t i = 0; i < p->train->actions.n; i++) {
        const Action *a = &p->train->actions.data[i];
        if (!is_attention(a) || attend_of(p->device, t, a).class_ != MG_ATTEND_WARP)
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
