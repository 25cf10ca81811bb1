/* volume.c - what ranks send each other in a step, by axis and kind, and how long it takes.
 *
 * The row of each kind in ir/ops.def says how much it sends: a ring over n ranks sends (n - 1) / n
 * of a tensor to gather, to scatter or to exchange it, and twice that to add it up whole. Numbers
 * alone (a loss, a norm) are counted apart. The timeline has the time that nothing hides
 * (timeline.c). */
#include "plan/volume.h"

#include "ir/collective.h"

#include <string.h>

double volume_of(const mg_comm_desc *d)
{
    double x = (double)(d->outer * d->size * d->inner) * (double)mg_dtype_bytes(d->dtype);
    return collective_bytes(d->kind, x, (double)d->n);
}

double volume_bytes(const Action *a)
{
    return volume_of(&a->comm);
}

const char *volume_formula(const Volume *v)
{
    return v->kind ? collective_of_kind(v->kind)->formula : "B";
}

const char *volume_name(const Volume *v)
{
    return v->kind ? op_info[collective_of_kind(v->kind)->op].name : "send";
}

static Volume *entry(const Module *m, Volumes *all, const Action *a)
{
    const mg_comm_desc *d = &a->comm;
    bool scalar =
        d->outer * d->size * d->inner == 1 || (d->dtype == MG_F64 && m->train.compute != DT_f64);
    for (int i = 0; i < all->n; i++) {
        Volume *v = &all->of[i];
        if (v->axes == d->axes && v->kind == d->kind && v->scalar == scalar && v->tree == d->tree &&
            v->copies == (d->piece > 0))
            return v;
    }
    if (all->n == VOLUMES_MAX)
        return NULL;
    all->of[all->n] = (Volume){.axes = d->axes,
                               .kind = d->kind,
                               .scalar = scalar,
                               .tree = d->tree,
                               .copies = d->piece > 0,
                               .ranks = d->n};
    return &all->of[all->n++];
}

/* Messages between the stages of a pipeline, for a rank on average. */
static void add_messages(const Program *g, Volumes *all)
{
    const Pipe *p = g->pipe;
    const double iterations = (double)g->loops.data[p->loop].dim.size;
    const double count = iterations * (p->stages - 1) / p->ranks;
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
        if (!action_sends(a))
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
