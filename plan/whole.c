/* whole.c - what a step of the whole mesh is made of, whatever the number of ranks: all run one
 * program on one schedule, so one rank's timeline is that of all.
 *
 * A rank that computes slower is waited for by all others in the next collective, and they send no
 * sooner than it does: the step takes what the timeline of that rank takes, in which collectives
 * last as long as before. With stages on several ranks that is the schedule's affair
 * (pipe_time.c), and so is the bubble. */
#include "plan/whole.h"

#include "base/quantity.h"
#include "plan/order/streams.h"
#include "plan/stragglers.h"
#include "plan/volume.h"
#include "plan/order/order.h"

#include <string.h>

static const double TENTH = 0.1;

/* The actions of a microbatch: those of the outermost loop over microbatches, or all. */
typedef struct Microbatch {
    int from, end;
    int64_t times;
    double begin, seconds; /* of all microbatches */
    double each;
} Microbatch;

static Microbatch microbatch_of(const Plan *p, const Program *g)
{
    Microbatch r = {0, (int)g->actions.n, 1, 0, g->seconds, g->seconds};
    for (size_t i = 0; i < g->loops.n; i++) {
        const Loop *l = &g->loops.data[i];
        if (l->parent >= 0 || strcmp(name_str(p->module->names, l->dim.name), "micro"))
            continue;
        return (Microbatch){l->begin + 1,
                            l->end,
                            l->dim.size,
                            g->actions.data[l->begin].begin,
                            g->pipe ? g->pipe->step : (double)l->dim.size * l->seconds,
                            l->seconds};
    }
    return r;
}

static int after(const Program *g, int i)
{
    const Action *a = &g->actions.data[i];
    return a->kind == ACT_loop ? g->loops.data[a->loop].end + 1 : i + 1;
}

/* Of a loop: if something in it does. */
static bool goes_backward(const Program *g, int i)
{
    bool any = false;
    for (int k = i; k < after(g, i); k++)
        any |= g->actions.data[k].backward;
    return any;
}

/* The last loop forward: before the first loop backward, or, where there is none, before the last
 * action backward. Behind it may be loops of the update. */
static int last_forward(const Program *g, const Microbatch *r)
{
    int behind = r->from, forward = r->from;
    for (int i = r->from; i < r->end; i = after(g, i))
        if (goes_backward(g, i)) {
            behind = i;
            if (g->actions.data[i].kind == ACT_loop)
                break;
        }
    for (int i = r->from; i < behind; i = after(g, i))
        if (g->actions.data[i].kind == ACT_loop && !goes_backward(g, i))
            forward = i;
    return forward;
}

/* The backward pass begins with its first action behind the last loop forward (constants of it may
 * stand before), and ends with its last. */
static void split_microbatch(const Program *g, const Microbatch *r, Whole *w)
{
    double begin = -1, end = 0;
    const int forward = last_forward(g, r);
    for (int i = forward; i < r->end; i = after(g, i)) {
        const Action *a = &g->actions.data[i];
        if (!goes_backward(g, i))
            continue;
        begin = begin < 0 || a->begin < begin ? a->begin : begin;
        end = a->end > end ? a->end : end;
    }
    double microbatch = r->each;
    bool all = r->from == 0; /* no loop: what comes before is forward, what follows is not */
    w->forward = begin < 0 ? microbatch : begin;
    w->backward = begin < 0 ? 0 : (all ? end : microbatch) - begin;
    w->before = r->begin;
    w->after = all ? microbatch - end : g->seconds - r->begin - r->seconds;
}

static void by_axes(const Module *m, const Program *g, Whole *w)
{
    const Volumes all = plan_volumes(m, g);
    for (int i = 0; i < all.n; i++) {
        const Volume *v = &all.of[i];
        int k = 0;
        while (k < w->naxes && w->along[k].axes != v->axes)
            k++;
        if (k == AXES_SETS)
            continue;
        w->naxes += k == w->naxes;
        w->along[k].axes = v->axes;
        w->along[k].seconds += v->seconds;
        w->along[k].exposed += v->exposed;
    }
}

static double with_slow_rank(const Plan *p)
{
    Arena *tmp = arena_new();
    const Program *g = p->train;
    Program slow = *g;
    slow.actions.data = NEW_ARRAY(tmp, Action, g->actions.n);
    slow.loops.data = NEW_ARRAY(tmp, Loop, g->loops.n + 1);
    memcpy(slow.actions.data, g->actions.data, g->actions.n * sizeof *g->actions.data);
    if (g->loops.n)
        memcpy(slow.loops.data, g->loops.data, g->loops.n * sizeof *g->loops.data);
    for (size_t i = 0; i < slow.actions.n; i++) {
        Action *a = &slow.actions.data[i];
        a->seconds *= needs_links(a) ? 1 : 1 + TENTH;
    }
    Plan like = {.module = p->module, .device = p->device, .train = &slow};
    plan_timeline(&like);
    arena_free(tmp);
    return slow.seconds;
}

/* The rank that is slow is where that costs most (with stages), and costs as much for each part
 * that it is slower. */
static void with_stragglers(const Plan *p, Whole *w)
{
    const int64_t ranks = mesh_ranks(p->module);
    const double of_deviation = w->slower / TENTH * p->device->rank_spread;
    if (ranks < 2 || of_deviation <= 0)
        return;
    w->half = w->step + of_deviation * stragglers_slowest(ranks, 0.5);
    w->most = w->step + of_deviation * stragglers_slowest(ranks, 0.95);
}

const char *whole_microbatches_text(const Whole *w, Arena *a)
{
    return arena_printf(a, "%s forward, %s backward; %lld microbatch%s, and %s outside of %s",
                        text_seconds(a, w->forward), text_seconds(a, w->backward),
                        (long long)w->microbatches, w->microbatches > 1 ? "es" : "",
                        text_seconds(a, w->before + w->after), w->microbatches > 1 ? "them" : "it");
}

const char *whole_stragglers_text(const Plan *p, const Whole *w, Arena *a)
{
    return arena_printf(
        a, "ranks differ by %.2g%%: the slowest of %lld makes it %s, in one of 20 meshes %s",
        100 * p->device->rank_spread, (long long)mesh_ranks(p->module), text_seconds(a, w->half),
        text_seconds(a, w->most));
}

Whole plan_parts(const Plan *p)
{
    const Program *g = p->train;
    Whole w = {.step = g->seconds};
    const Microbatch r = microbatch_of(p, g);
    w.microbatches = r.times;
    split_microbatch(g, &r, &w);
    by_axes(p->module, g, &w);
    if (g->pipe) /* microbatches are of several ranks at once */
        w.after = g->seconds - w.before - g->pipe->step;
    w.bubble = g->pipe ? g->pipe->bubble * g->pipe->step / w.step : 0;
    return w;
}

Whole plan_whole(const Plan *p)
{
    const Program *g = p->train;
    Whole w = plan_parts(p);
    w.slower = g->pipe ? pipe_slowest(p, g, TENTH) : with_slow_rank(p) - w.step;
    with_stragglers(p, &w);
    return w;
}
