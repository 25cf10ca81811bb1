/* streams.c - what may run beside the rest: products whose results nobody waits for.
 *
 *   stream 0   ... dy ------ dx ------ norm' ------ add ------ ... ---- the next that touches its
 * bytes stream 1          \-- dw ------------------------------/
 *
 * Gradients of weights are needed at the end of a round, those of activations at once: while a
 * product of the first kind computes, kernels that only move bytes run beside it. Where things lie
 * is decided before (place.c); a product goes to stream 1 if enough such kernels come before
 * another action touches its bytes, and that one waits for it. So streams cost no memory. Loops and
 * the guard meet all streams.
 *
 * check_streams.c proves the result, and shares nothing with this file but ir/plan.h. */
#include "passes/streams.h"

/* Of a product's own time: what kernels that move bytes have to take beside it. */
static const double WORTH = 0.1;

Bytes operand_bytes(const Plan *p, const Program *g, const Operand *o, bool placed)
{
    Bytes b = {o->at.offset + (placed ? p->buffers.data[o->at.buffer].offset : 0), 0};
    b.hi = b.lo + dtype_bytes(o->type.dtype);
    for (int i = 0; i < o->type.rank; i++)
        b.hi += (o->type.dims[i].size - 1) * o->stride[i] * dtype_bytes(o->type.dtype);
    for (int i = 0; i < o->at.nloops; i++) {
        int64_t far = o->at.loop[i].stride * (g->loops.data[o->at.loop[i].loop].dim.size - 1);
        *(far < 0 ? &b.lo : &b.hi) += far;
    }
    return b;
}

static bool conflict(const Plan *p, const Program *g, const Action *a, const Action *b)
{
    for (int i = 0; i < a->noperands; i++)
        for (int k = 0; k < b->noperands; k++) {
            if (!a->operand[i].write && !b->operand[k].write)
                continue;
            Bytes x = operand_bytes(p, g, &a->operand[i], true);
            Bytes y = operand_bytes(p, g, &b->operand[k], true);
            if (x.lo < y.hi && y.lo < x.hi)
                return true;
        }
    return false;
}

bool meets_all(const Action *a)
{
    return a->kind == ACT_loop || a->kind == ACT_end || a->kind == ACT_guard;
}

/* Two products side by side only share what one alone would have. */
Resource resource_of(const Action *a)
{
    return a->kind == ACT_kernel || a->kind == ACT_copy || a->kind == ACT_zero ||
                   a->kind == ACT_gather || a->kind == ACT_scatter_add || a->kind == ACT_dispatch ||
                   a->kind == ACT_combine || a->kind == ACT_combine_weight
               ? RES_bandwidth
               : RES_arithmetic;
}

/* Their time from the action after `at` until its bytes are touched, or all streams meet. */
static double time_beside(const Plan *p, const Program *g, size_t at, size_t end)
{
    const Action *act = g->actions.data;
    double t = 0;
    for (size_t i = at + 1; i < end && !conflict(p, g, &act[at], &act[i]); i++)
        t += resource_of(&act[i]) == RES_bandwidth ? act[i].seconds : 0;
    return t;
}

/* Whom action i of stream 1 waits for: 1 + the last of stream 0, from `since` on, that it conflicts
 * with; to begin the stream at all, the first there is; 0: it need not wait. */
static uint32_t begins_after(const Plan *p, const Program *g, size_t from, size_t since, size_t i,
                             bool begun)
{
    const Action *act = g->actions.data;
    uint32_t first = 0;
    for (size_t k = i; k-- > since;)
        if (!act[k].stream) {
            if (conflict(p, g, &act[k], &act[i]))
                return (uint32_t)k + 1;
            first = (uint32_t)k + 1;
        }
    return begun || since > from ? 0 : first;
}

/* Actions [from, end), of which the last is followed by one that meets all streams. */
static void choose(const Plan *p, const Program *g, size_t from, size_t end, int *points)
{
    Action *act = g->actions.data;
    size_t since[2] = {from, from}; /* what stands before it in the other stream is done */
    size_t beside = end;            /* the last of stream 1; `end`: none */
    for (size_t i = from; i < end; i++) {
        Action *a = &act[i];
        if (a->kind == ACT_gemm && *points + 2 <= MG_POINTS_MAX &&
            time_beside(p, g, i, end) >= WORTH * a->seconds) {
            uint32_t wait = begins_after(p, g, from, since[1], i, beside != end);
            if (wait || beside != end) {
                a->stream = 1;
                a->wait[0] = wait;
                since[1] = wait > since[1] ? wait : since[1];
                beside = i;
                *points += 2; /* who it waits for, and it */
                continue;
            }
        }
        for (size_t k = i; k-- > since[0];)
            if (act[k].stream == 1 && conflict(p, g, &act[k], a)) {
                a->wait[1] = (uint32_t)k + 1;
                since[0] = k + 1;
                break;
            }
    }
    if (beside != end && beside >= since[0])
        act[end].wait[1] = (uint32_t)beside + 1;
}

static void choose_all(const Plan *p, const Program *g)
{
    size_t from = 0;
    int points = 0;
    for (size_t i = 0; g && i < g->actions.n; i++)
        if (meets_all(&g->actions.data[i])) {
            choose(p, g, from, i, &points);
            from = i + 1;
        }
}

void plan_streams(Plan *p)
{
    if (p->device->streams < 2)
        return;
    choose_all(p, p->train);
    choose_all(p, p->eval);
    choose_all(p, p->sample);
}
