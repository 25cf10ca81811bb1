/* keep_more.c - what the default is better off with, where it fits: values beside those that it
 * keeps, which are there anyway (a product may write two results), and which cost time to compute
 * again.
 *
 * Only programs in halves have products with two results.
 *
 * The default is a rule of thumb that needs no prices. Each further value is planned by itself; of
 * those that make the step faster, the best first, each stays if it still does so beside the others
 * and the plan fits. In the end all halves are tried that the backward part reads, instead of what
 * leads to them; and with them parameters as layers gather them, where ranks have parts, so that
 * the backward part gathers none. So the step is never slower than the default's. */
#include "decide/frontier.h"

#include <math.h>
#include <string.h>

#include "decide/settled.h"
#include "plan/place/place.h"

/* A gain of less is no reason to keep anything. */
static const double WORTH = 0.001;

typedef struct More {
    const Module *m;
    const Device *d;
    Arena *a;
    int loops;
    const Ins *loop[KEEP_LOOPS];
    KeepOption kept[KEEP_LOOPS]; /* what is decided so far */
    double seconds;              /* of that */
    WholeWay whole;              /* with that, once it was gone; else settled: NULL */
} More;

/* Every repeat keeps what is decided, and repeat l this option. */
static KeepPlan *with(const More *f, int l, const KeepOption *option)
{
    KeepPlan *plan = NEW(f->a, KeepPlan);
    *plan = (KeepPlan){0};
    for (int n = 0; n < f->loops; n++) {
        KeepRanges ranges = {0};
        const KeepOption *o = n == l ? option : &f->kept[n];
        vec_push(f->a, &ranges,
                 ((KeepRange){f->loop[n]->attrs.dim.size, 1, o->keep, o->names, false}));
        vec_push(f->a, &plan->loops, ranges);
        vec_push(f->a, &plan->dims, f->loop[n]->attrs.dim.name);
    }
    return plan;
}

/* Seconds of a step, or -1 if it does not fit. */
static double seconds_with(const More *f, const KeepPlan *plan)
{
    Arena *tmp = arena_new();
    Plan *p = frontier_plan(f->m, f->d, plan, NULL, tmp);
    double seconds = -1;
    if (p && p->train && plan_bytes(p) <= plan_budget(f->m, f->d))
        seconds = p->train->seconds;
    arena_free(tmp);
    return seconds;
}

static bool faster(const More *f, double seconds)
{
    return seconds >= 0 && seconds < f->seconds * (1 - WORTH);
}

/* All that is decided so far, and one option's values beside it. */
static KeepOption both(const More *f, int l, const KeepOption *one)
{
    KeepOption o = {.keep = NEW_ARRAY(f->a, bool, f->m->values.n)};
    for (size_t v = 0; v < f->m->values.n; v++)
        o.keep[v] = f->kept[l].keep[v] || one->keep[v];
    o.names =
        arena_printf(f->a, "%s%s%s", f->kept[l].names, *f->kept[l].names ? " " : "", one->names);
    return o;
}

/* The options of repeat l, the one that makes the step fastest by itself first. */
static void add_best(More *f, int l, const KeepOption *option, int n)
{
    double alone[KEEP_OPTIONS];
    for (int k = 0; k < n; k++) {
        const KeepOption o = both(f, l, &option[k]);
        alone[k] = seconds_with(f, with(f, l, &o));
    }
    for (;;) {
        int best = -1;
        for (int k = 0; k < n; k++)
            if (faster(f, alone[k]) && (best < 0 || alone[k] < alone[best]))
                best = k;
        if (best < 0)
            return;
        const KeepOption o = both(f, l, &option[best]);
        const double seconds = seconds_with(f, with(f, l, &o));
        alone[best] = -1;
        if (faster(f, seconds)) {
            f->kept[l] = o;
            f->seconds = seconds;
            f->whole.settled = NULL;
        }
    }
}

/* All halves, instead of what is decided, if that is faster, also with what memory is left then. */
static void try_halves(More *f, int l, bool gathered)
{
    KeepOption all;
    if (!keep_halves(f->m, l, f->d, gathered, f->a, &all))
        return;
    const KeepPlan *halves = with(f, l, &all);
    const double seconds = seconds_with(f, halves);
    if (!faster(f, seconds))
        return;
    Layout as[2] = {f->m->layout, f->m->layout};
    WholeWay way[2] = {f->whole};
    as[0].plan = with(f, -1, NULL);
    as[1].plan = halves;
    const int known = f->whole.settled != NULL;
    whole_ways(f->m, f->d, "frontier", as + known, 2 - known, f->a, way + known);
    f->whole = way[0];
    if (isinf(way[1].seconds) || way[1].seconds >= way[0].seconds * (1 - WORTH))
        return;
    f->kept[l] = all;
    f->seconds = seconds;
    f->whole = way[1];
}

const KeepPlan *frontier_more(const Module *m, const Device *d, Arena *a, const Settled **settled)
{
    More f = {.m = m, .d = d, .a = a};
    KeepOption option[KEEP_LOOPS][KEEP_OPTIONS];
    int n[KEEP_LOOPS], all = 0;
    f.loops = m->train.half ? keep_loops(m, f.loop, KEEP_LOOPS) : 0;
    for (int l = 0; l < f.loops; l++) {
        KeepOption halves;
        n[l] = keep_additions(m, l, d, a, &f.kept[l], option[l]);
        all += n[l] + keep_halves(m, l, d, true, a, &halves);
    }
    if (!all)
        return NULL;
    f.seconds = seconds_with(&f, with(&f, -1, NULL));
    const double usual = f.seconds;
    for (int l = 0; l < f.loops && usual >= 0; l++) {
        add_best(&f, l, option[l], n[l]);
        try_halves(&f, l, false);
        try_halves(&f, l, true);
    }
    *settled = f.seconds < usual ? f.whole.settled : NULL;
    return f.seconds < usual ? with(&f, -1, NULL) : NULL;
}

const KeepPlan *frontier_nothing(const Module *m, Arena *a)
{
    More f = {.m = m, .a = a};
    f.loops = keep_loops(m, f.loop, KEEP_LOOPS);
    for (int l = 0; l < f.loops; l++)
        f.kept[l] = (KeepOption){NEW_ARRAY(a, bool, m->values.n), "nothing"};
    return with(&f, -1, NULL);
}
