/* fuse_delay.c - kernels apart, so that what is sent can be made earlier.
 *
 *   as one      ... dx3 | norm, its gradient |  dw1 | dw2 | dw3
 *                                                sends \----- dw1 --\-- dw2 --\-- dw3 --
 *   apart       ... norm | dw1 | dw2 | dw3 | dx1 | dx2 | dx3 | its gradient
 *                           sends \--- dw1 --\- dw2 -\- dw3 --
 *
 * A kernel begins when all that it reads is there. What it gives for a gradient of weights may have
 * to wait for what it reads besides; and so has the sum over ranks of that gradient, until nothing
 * is left in the iteration that could run beside it. Where that is so, it costs less to read a
 * tensor twice. Layout.send_flops says whether to look, and what a sum costs (overlap.c). */
#include "ir/cost.h"
#include "passes/fuse/fuse.h"
#include "passes/view.h"

enum { SETS = 64 }; /* reductions of a region that are looked at */

struct Delays {
    uint64_t *behind; /* per position: reductions that wait for it */
    int *calls;       /* ... calls on the longest path to it */
    double *flops;    /* ... its own, if it is a call */
    double bytes[SETS];
    bool *before; /* scratch */
};

static bool is_call(const Ins *i)
{
    return !fusible(i) && !fuse_leaf(i) && !op_is(i->op, VIEW);
}

/* Does nothing that computes much wait for what is made at a position? `leaves` says it of those
 * behind it. */
static bool only_leaves(const Fuse *f, int at, const bool *leaves)
{
    for (int k = 0; k < f->users[at].n; k++) {
        int u = f->users[at].at[k];
        if (u < f->n && (is_call(f->r->ins.data[u]) || !leaves[u]))
            return false;
    }
    return true;
}

void fuse_find_delays(Fuse *f)
{
    if (f->m->layout.send_flops <= 0)
        return;
    struct Delays *d = NEW(f->tmp, struct Delays);
    bool *leaves = NEW_ARRAY(f->tmp, bool, f->n);
    int sets = 0;
    d->behind = NEW_ARRAY(f->tmp, uint64_t, f->n);
    d->calls = NEW_ARRAY(f->tmp, int, f->n);
    d->flops = NEW_ARRAY(f->tmp, double, f->n);
    d->before = NEW_ARRAY(f->tmp, bool, f->n);
    for (int at = f->n - 1; at >= 0; at--) {
        const Ins *i = f->r->ins.data[at];
        leaves[at] = only_leaves(f, at, leaves);
        if (op_is(i->op, SUMS) && sets < SETS && leaves[at]) {
            d->bytes[sets] = (double)type_bytes(type_of(f->m, i->in[0]));
            d->behind[at] = (uint64_t)1 << sets++;
        }
        for (int k = 0; k < f->users[at].n; k++)
            if (f->users[at].at[k] < f->n)
                d->behind[at] |= d->behind[f->users[at].at[k]];
    }
    for (int at = 0; at < f->n; at++) {
        const Ins *i = f->r->ins.data[at];
        const bool call = is_call(i);
        d->flops[at] = call && !op_is(i->op, COMM) ? ir_cost(f->m, i).flops : 0;
        for (int k = 0; k < f->users[at].n; k++) {
            int u = f->users[at].at[k];
            if (u < f->n && d->calls[u] < d->calls[at] + call)
                d->calls[u] = d->calls[at] + call;
        }
    }
    f->delays = sets ? d : NULL;
}

/* ---- a pair --------------------------------------------------------------------------------- */

static int calls_before(const Fuse *f, const Cluster *c)
{
    int max = 0;
    for (int k = 0; k < c->n; k++)
        max = f->delays->calls[c->member[k]] > max ? f->delays->calls[c->member[k]] : max;
    return max;
}

static uint64_t sums_behind(const Fuse *f, const Cluster *c)
{
    uint64_t all = 0;
    for (int k = 0; k < c->n; k++)
        all |= c->extra[k] ? 0 : f->delays->behind[c->member[k]];
    return all;
}

/* Of the calls that need not come before a cluster, and make nothing for other sums: those have to
 * be begun early as well. */
static double flops_left(const Fuse *f, const Cluster *c, uint64_t sums)
{
    const struct Delays *d = f->delays;
    double left = 0;
    for (int at = f->n - 1; at >= 0; at--) {
        d->before[at] = cluster_has(c, at);
        for (int k = 0; k < f->users[at].n; k++)
            d->before[at] |= f->users[at].at[k] < f->n && d->before[f->users[at].at[k]];
        left += d->before[at] || d->behind[at] & ~sums ? 0 : d->flops[at];
    }
    return left;
}

static double bytes_of(const Fuse *f, uint64_t sums)
{
    double bytes = 0;
    for (int i = 0; i < SETS; i++)
        bytes += sums >> i & 1 ? f->delays->bytes[i] : 0;
    return bytes;
}

bool fuse_delays(const Fuse *f, const Cluster *a, const Cluster *b)
{
    if (!f->delays)
        return false;
    const int calls = calls_before(f, a), other = calls_before(f, b);
    const Cluster *early = calls < other ? a : b, *late = calls < other ? b : a;
    const uint64_t held = sums_behind(f, early), later = sums_behind(f, late);
    return calls != other && held & ~later &&
           flops_left(f, late, held | later) < f->m->layout.send_flops * bytes_of(f, held | later);
}
