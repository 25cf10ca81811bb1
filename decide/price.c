/* price.c - what ways to treat the iterations of repeats cost, read off plans made with them; see
 * recompute.h.
 *
 * The iterations of @train's repeats run forward as loops F0, F1, ... (ranges, in order) and
 * backward as
 * ..., B1, B0, inside the loop over microbatches if there is one. What lies between the beginning
 * of F0 and the end of B0 belongs to a range: everything from F(i) to F(i+1), and from B(i+1) to
 * the end of B(i). */
#include "decide/frontier.h"
#include "plan/order/order.h"

#include <string.h>

static bool has_loops(const Program *prog, size_t loop)
{
    for (size_t l = 0; l < prog->loops.n; l++)
        if (prog->loops.data[l].parent == (int)loop)
            return true;
    return false;
}

/* The loop over microbatches, the first that has others in it; -1: there is none. */
static int micro_loop(const Plan *p)
{
    const Program *prog = p->train;
    int micro = -1;
    if (p->module->layout.microbatch == p->module->batch.size)
        return -1;
    for (size_t l = 0; l < prog->loops.n; l++)
        if (prog->loops.data[l].parent < 0 && has_loops(prog, l) &&
            (micro < 0 || prog->loops.data[l].begin < prog->loops.data[micro].begin))
            micro = (int)l;
    return micro;
}

/* Loops right inside another, in the order in which they run, but those of attention. -1: too many.
 */
static int children(const Plan *p, int parent, int *child, int max)
{
    const Program *prog = p->train;
    const Name ring = name_intern(p->module->names, RING_ITERATION);
    int n = 0;
    for (size_t l = 0; l < prog->loops.n; l++)
        if (prog->loops.data[l].parent == parent && prog->loops.data[l].dim.name != ring) {
            if (n == max)
                return -1;
            int at = n++;
            for (; at > 0 && prog->loops.data[child[at - 1]].begin > prog->loops.data[l].begin;
                 at--)
                child[at] = child[at - 1];
            child[at] = (int)l;
        }
    return n;
}

/* Per buffer: when the step needs it. */
typedef struct Needed {
    int *first, *last;
} Needed;

static Needed needed(const Plan *p, Arena *a)
{
    Needed n = {NEW_ARRAY(a, int, p->buffers.n + 1), NEW_ARRAY(a, int, p->buffers.n + 1)};
    for (size_t i = 0; i < p->buffers.n; i++)
        n.first[i] = n.last[i] = -1;
    plan_touched(p, p->train, n.first, n.last);
    return n;
}

/* Bytes alive at each action of the step, but for what is persistent. */
static int64_t *live_bytes(const Plan *p, const Needed *n, Arena *a)
{
    int64_t *live = NEW_ARRAY(a, int64_t, p->train->actions.n + 2);
    for (size_t i = 0; i < p->buffers.n; i++) {
        const Buffer *b = &p->buffers.data[i];
        if (b->persistent || b->level || b->program != 0 || n->first[i] < 0)
            continue;
        live[n->first[i]] += b->bytes;
        live[n->last[i] + 1] -= b->bytes;
    }
    for (size_t i = 1; i <= p->train->actions.n; i++)
        live[i] += live[i - 1];
    return live;
}

static int64_t max_live(const int64_t *live, int from, int to)
{
    int64_t m = 0;
    for (int i = from; i <= to; i++)
        m = m > live[i] ? m : live[i];
    return m;
}

bool keep_price(const Plan *p, int ranges, Arena *a, KeepPrice *price)
{
    enum { CHILDREN = 64 };
    int micro = micro_loop(p), child[CHILDREN], n = children(p, micro, child, CHILDREN);
    const Loop *loop = p->train->loops.data;
    if (ranges < 1 || n < 2 * ranges || ranges > KEEP_RANGES)
        return false;
    const Needed when = needed(p, a);
    const int64_t *live = live_bytes(p, &when, a);
    int64_t below = 0; /* stored by the ranges before */
    int last = (int)p->train->actions.n - 1;
    *price = (KeepPrice){.seconds = p->train->seconds};
    for (int r = 0; r < ranges; r++) {
        const Loop *f = &loop[child[r]], *b = &loop[child[2 * ranges - 1 - r]];
        /* Sums of gradients live through all microbatches: they belong to no range. */
        int from = r ? loop[child[r - 1]].end + 1 : micro < 0 ? 0 : loop[micro].begin + 1;
        if (f->dim.name != b->dim.name || f->dim.size != b->dim.size || f->reverse == b->reverse)
            return false;
        RangePrice *x = &price->range[r];
        for (size_t i = 0; i < p->buffers.n; i++) {
            const Buffer *buf = &p->buffers.data[i];
            const Type *t = buf->value ? type_of(p->module, buf->value) : NULL;
            if (buf->persistent || buf->program != 0 || !t || !t->rank ||
                t->dims[0].name != f->dim.name || t->dims[0].size != f->dim.size ||
                when.first[i] < from || when.first[i] > f->end || when.last[i] < b->begin)
                continue;
            if (buf->level) {
                x->far += type_bytes(t) / f->dim.size;
                continue;
            }
            x->stored += type_bytes(t) / f->dim.size;
            x->fixed += buf->bytes - type_bytes(t);
        }
        below += x->stored * f->dim.size + x->fixed;
        int next = r + 1 < ranges ? loop[child[r + 1]].begin - 1 : f->end;
        int after = r + 1 < ranges ? loop[child[2 * ranges - 2 - r]].end + 1 : b->begin;
        x->forward = max_live(live, f->begin, next) - below;
        x->backward = max_live(live, after, b->end) - below;
    }
    int between = loop[child[ranges - 1]].end + 1, back = loop[child[ranges]].begin - 1;
    price->between = max_live(live, between, back) - below;
    price->outside = max_live(live, 0, loop[child[0]].begin - 1);
    int64_t end = max_live(live, loop[child[2 * ranges - 1]].end + 1, last);
    price->outside = price->outside > end ? price->outside : end;
    return true;
}
