/* volume.c - what ranks send each other in a step, by axis and kind, and how long it takes.
 *
 * A ring over n ranks sends (n - 1) / n of a tensor to gather, to scatter or to exchange it, and
 * twice that to add it up whole; B: the bytes of the whole tensor on a rank.
 *   all_reduce                                  2 (n - 1) / n B
 *   reduce_scatter, all_gather, all_to_all        (n - 1) / n B
 *   ring_shift                                    B / n: of what goes round, a rank's part
 * Numbers alone (a loss, a norm) are counted apart. What of the time nothing hides is the
 * timeline's (timeline.c). */
#include "plan/volume.h"

#include <string.h>

double volume_bytes(const Action *a)
{
    const mg_comm_desc *d = &a->comm;
    double x = (double)(d->outer * d->size * d->inner) * (double)mg_dtype_bytes(d->dtype);
    double n = (double)d->n, share = (n - 1) / n;
    switch (d->kind) {
    case MG_ALL_REDUCE:
        return 2 * share * x;
    case MG_ALL_GATHER:
        return share * x * n;
    case MG_SHARD:
        return 0;
    case MG_RING_SHIFT:
        return x;
    case MG_BROADCAST: /* on a way through all ranks, of which the last sends nothing */
        return share * x;
    default:
        return share * x;
    }
}

const char *volume_formula(mg_comm_kind k)
{
    return k == MG_ALL_REDUCE   ? "2 (n - 1) / n B"
           : k == MG_RING_SHIFT ? "B / n"
           : k                  ? "(n - 1) / n B"
                                : "B";
}

const char *volume_kind(mg_comm_kind k)
{
    static const char *const names[] = {"send",       "all_reduce", "reduce_scatter", "all_gather",
                                        "all_to_all", "shard",      "ring_shift",     "broadcast"};
    return names[k];
}

static Volume *entry(const Module *m, Volumes *all, const Action *a)
{
    const mg_comm_desc *d = &a->comm;
    bool scalar =
        d->outer * d->size * d->inner == 1 || (d->dtype == MG_F64 && m->train.compute != DT_f64);
    for (int i = 0; i < all->n; i++) {
        Volume *v = &all->of[i];
        if (v->axes == d->axes && v->kind == d->kind && v->scalar == scalar && v->tree == d->tree)
            return v;
    }
    if (all->n == VOLUMES_MAX)
        return NULL;
    all->of[all->n] = (Volume){
        .axes = d->axes, .kind = d->kind, .scalar = scalar, .tree = d->tree, .ranks = d->n};
    return &all->of[all->n++];
}

/* What the stages of a pipeline hand on, of a rank on average. */
static void add_messages(const Program *g, Volumes *all)
{
    const Pipe *p = g->pipe;
    const double rounds = (double)g->loops.data[p->loop].dim.size;
    const double count = rounds * (p->stages - 1) / p->ranks;
    Volume v = {.axes = p->axis, .ranks = p->ranks};
    for (int way = 0; way < 2; way++) {
        v.bytes += count * (double)p->message[way];
        v.count += p->message[way] ? count : 0;
    }
    v.seconds = v.count * p->message_seconds;
    all->bytes += v.bytes;
    all->seconds += v.seconds;
    if (all->n < VOLUMES_MAX)
        all->of[all->n++] = v;
}

Volumes plan_volumes(const Module *m, const Program *g)
{
    Volumes all = {0};
    for (size_t i = 0; g && i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        const double times = a->times;
        if (a->kind != ACT_comm || a->comm.kind == MG_SHARD)
            continue;
        Volume *v = entry(m, &all, a);
        all.seconds += times * a->seconds;
        all.exposed += times * a->exposed;
        if (!v)
            continue;
        v->bytes += times * volume_bytes(a);
        v->count += times;
        v->seconds += times * a->seconds;
        v->exposed += times * a->exposed;
        all.bytes += times * volume_bytes(a);
    }
    if (g && g->pipe)
        add_messages(g, &all);
    return all;
}
