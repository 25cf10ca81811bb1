/* overlap.c - whether collectives and transfers take memory to run beside the rest, and what is
 * reduced, gathered and fetched where there is a rest: by plans that are made with it.
 *
 *   1  as it is: what the program needs anyway is all there is
 *   2  with what the device has left, what a collective or a transfer touches is alive as long as
 *      it may run
 *   3  and gradients of layers are reduced in the iterations that make them (buckets.c)
 *   4  and what is waited for, of gathers and fetches, comes an iteration ahead
 *      (prefetch_gathers.c), in the better of these; and, if some are waited for still, into a
 *      place of its own
 *   5  and what is sent is made earlier, by kernels that read more (fuse_delay.c)
 *   6  and small collectives stand in one line with all others, in the best of these: beside a long
 *      message they are slower, behind it they begin later
 *
 * The fastest that fits is taken, by times in which collectives take half as long again
 * (PLAN_LATE). So a program that fits does so still. */
#include "decide/overlap.h"

#include <string.h>

#include "base/parallel.h"
#include "decide/make.h"
#include "ir/collective.h"
#include "plan/levels.h"
#include "plan/order/streams.h"
#include "plan/place/place.h"

/* Of a gather's time: what has to be waited for. */
static const double WORTH = 0.1;
/* Of a step has to be saved, for it may take as much memory as all gradients, or a copy of what a
 * layer gathers. */
static const double WORTH_MEMORY = 0.01;

static void collectives_are_late(Program *g)
{
    for (size_t i = 0; g && i < g->actions.n; i++)
        if (g->actions.data[i].kind == ACT_comm)
            g->actions.data[i].seconds *= PLAN_LATE;
}

/* A way, and its module on the way: what differs later alone goes on from there. */
typedef struct Way {
    Layout as;
    Module *assembled, *fused; /* behind those passes; NULL: they refuse it */
} Way;

/* Ways that are tried, and for whom. */
typedef struct Tries {
    Module *m;
    const Device *d;
    Arena *a;
    double best; /* seconds of the best so far, whose layout is m's */
    Way taken;   /* as m's layout is */
} Tries;

/* A copy of a module goes on through passes. NULL: they refuse it. */
static Module *passed(const Tries *t, const Module *from, const Layout *as, const char *after,
                      const char *upto)
{
    if (!from)
        return NULL;
    Module *m = module_copy(from, NULL, diag_silent(from->diag, t->a), t->a);
    if (as)
        m->layout = *as;
    PlanJob job = plan_compared(m, t->d, t->a, after);
    job.upto = upto;
    return plan_make(&job) == PASS_ok ? job.m : NULL;
}

static Module *fuse(const Tries *t, Module *assembled, double send_flops)
{
    if (assembled)
        assembled->layout.send_flops = send_flops;
    return passed(t, assembled, NULL, "assemble", "fuse");
}

static Way way_of(const Tries *t, const Layout *as)
{
    Way w = {*as, passed(t, t->m, as, "overlap", "assemble"), NULL};
    w.fused = fuse(t, w.assembled, as->send_flops);
    return w;
}

/* A way, as its plan says. */
typedef struct Seen {
    bool any; /* there is a plan */
    double seconds;
    int64_t bytes;
    double
        send_flops; /* FLOPs that are computed while a byte of gradients is added up over ranks */
    bool lines;     /* collectives stand in several lines: small ones, or near ones */
    bool waiting;   /* gathers or fetches in loops are waited for, an iteration ahead or not */
    size_t waits;   /* those that are not ahead yet, ... */
    const Value *wait; /* ... of these */
} Seen;

static Plan *plan_of(const Tries *t, const Way *w, Arena *a)
{
    Module *m = module_copy(w->fused, NULL, diag_silent(w->fused->diag, a), a);
    m->layout.overlap = w->as.overlap; /* which no pass reads, nor the other */
    m->layout.one_line = w->as.one_line;
    PlanJob job = plan_compared(m, t->d, a, "fuse");
    job.rough = true;
    plan_make(&job); /* what does not fit is timed as well */
    if (!job.plan)
        return NULL;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        collectives_are_late(job.plan->programs[k]);
    job.after = "place";
    job.upto = "timeline";
    plan_make(&job);
    return job.plan;
}

/* A gather or a fetch in a loop that nothing, or next to nothing, runs beside. */
static bool is_waited_for(const Action *a)
{
    const bool brings =
        a->kind == ACT_fetch || (a->kind == ACT_comm && a->comm.kind == MG_ALL_GATHER);
    return brings && a->around >= 0 && a->exposed > WORTH * a->seconds;
}

typedef VEC(Value) Values;

/* Is anything waited for? Notes what of it m, the module before the way's passes, has as well: what
 * passes put ahead it has not. */
static bool note_waits(const Module *m, const Plan *p, Values *wait, Arena *a)
{
    bool any = false;
    for (int k = 0; k < PLAN_PROGRAMS; k++) {
        const Program *g = p->programs[k] != p->round ? p->programs[k] : NULL;
        for (size_t i = 0; g && i < g->actions.n; i++) {
            const Action *x = &g->actions.data[i];
            if (!is_waited_for(x))
                continue;
            any = true;
            if (x->operand[1].value < m->values.n)
                vec_push(a, wait, x->operand[1].value);
        }
    }
    return any;
}

static double send_flops(const Program *g)
{
    double flops = 0, computes = 0, bytes = 0, sends = 0;
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        if (a->kind == ACT_gemm) {
            flops += a->flops;
            computes += a->seconds;
        }
        if (a->kind == ACT_comm && op_is(collective_of_kind(a->comm.kind)->op, SUMS)) {
            bytes += (double)type_bytes(&a->operand[0].type);
            sends += a->seconds;
        }
    }
    return computes > 0 && bytes > 0 ? flops / computes * sends / bytes : 0;
}

/* Has it collectives that do not stand in one line with the others? */
static bool has_lines(const Plan *p)
{
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; p->programs[k] && i < p->programs[k]->actions.n; i++) {
            const Resource r = resource_of(&p->programs[k]->actions.data[i]);
            if (r == RESOURCE_small || r == RESOURCE_near)
                return true;
        }
    return false;
}

/* Ways that are planned at once. */
typedef struct Ways {
    const Tries *t;
    const Way *way;
} Ways;

static void tell_seen(void *ctx, int k, FILE *out)
{
    const Ways *ways = ctx;
    const Tries *t = ways->t;
    Arena *tmp = arena_new();
    const Plan *p = plan_of(t, &ways->way[k], tmp);
    Seen s = {.any = p != NULL};
    Values wait = {0};
    if (p) {
        const Program *judged = plan_judged(p);
        const bool any = note_waits(t->m, p, &wait, tmp);
        s = (Seen){.any = true,
                   .seconds = judged->seconds,
                   .bytes = plan_bytes(p),
                   .send_flops = send_flops(judged),
                   .lines = has_lines(p),
                   .waiting = any,
                   .waits = wait.n};
    }
    fwrite(&s, sizeof s, 1, out);
    if (wait.n)
        fwrite(wait.data, sizeof *wait.data, wait.n, out);
    arena_free(tmp);
}

/* Plans n ways at once. Those that passes refuse are none. */
static void look(const Tries *t, const Way *way, int n, Seen *seen)
{
    Written *w = NEW_ARRAY(t->a, Written, n + 1);
    for (int k = 0; k < n; k++)
        seen[k] = (Seen){0};
    if (!way->fused) /* all are behind the same passes */
        return;
    parallel_map(n, tell_seen, &(Ways){t, way}, t->a, w);
    for (int k = 0; k < n; k++) {
        if (w[k].n < sizeof *seen)
            continue;
        memcpy(&seen[k], w[k].bytes, sizeof *seen);
        seen[k].wait = arena_copy(t->a, w[k].bytes + sizeof *seen, w[k].n - sizeof *seen);
    }
}

static Seen look_at(const Tries *t, const Way *w)
{
    Seen s;
    look(t, w, 1, &s);
    return s;
}

/* Takes a way if its plan is faster than `least`, and fits. */
static bool is_better(Tries *t, const Seen *s, const Way *w, double least)
{
    if (!s->any || s->seconds >= least || s->bytes > plan_budget(t->m, t->d))
        return false;
    t->m->layout = w->as;
    t->taken = *w;
    t->best = s->seconds;
    return true;
}

int64_t message_least(const Device *d)
{
    /* Times what a message costs at least, its bytes have to take. */
    const double WORTH_SENDING = 4;
    return 1 + (int64_t)(WORTH_SENDING * d->link_seconds * d->link_bandwidth);
}

/* The way with what is waited for an iteration ahead, in the place of what was there or in one of
 * its own, beside a way as s says, if that is taken; else s. */
static Seen with_ahead(Tries *t, const Way *w, const Seen *s)
{
    Layout as = w->as;
    for (size_t k = 0; k < s->waits; k++)
        vec_push(t->m->arena, &as.ahead, s->wait[k]);
    if (!as.ahead.n)
        return *s;
    const Way ahead = way_of(t, &as);
    const Seen with = look_at(t, &ahead);
    const bool better = is_better(t, &with, &ahead, t->best);
    const Seen *best = better ? &with : s;
    if (!with.any || !with.waiting)
        return *best;
    as.ahead_apart = true;
    const Way apart = way_of(t, &as);
    const Seen beside = look_at(t, &apart);
    return is_better(t, &beside, &apart, (1 - WORTH_MEMORY) * t->best) ? beside : *best;
}

/* The best so far, with all collectives in one line. */
static void try_one_line(Tries *t)
{
    Way w = t->taken;
    w.as.one_line = true;
    const Seen s = look_at(t, &w);
    is_better(t, &s, &w, t->best);
}

static void try_all(Tries *t)
{
    Way way[2] = {way_of(t, &t->m->layout)};
    Seen seen[2];
    way[1] = way[0];
    way[1].as.overlap = true;
    look(t, way, 2, seen);
    t->taken = way[0];
    if (!seen[0].any)
        return;
    t->best = seen[0].seconds;
    Way w = way[1];
    Seen s = seen[1];
    is_better(t, &s, &w, t->best);
    if (s.any && mesh_ranks(t->m) > 1 && t->d->streams > 1) {
        Layout as = w.as;
        as.bucket = message_least(t->d);
        const Way bucketed = way_of(t, &as);
        const Seen with = look_at(t, &bucketed);
        if (is_better(t, &with, &bucketed, (1 - WORTH_MEMORY) * t->best)) {
            s = with;
            w = bucketed;
        }
    }
    if (!s.any)
        return;
    s = with_ahead(t, &w, &s);
    Way sends = t->taken;
    sends.as.send_flops = s.send_flops;
    if (sends.as.send_flops > 0) {
        sends.fused = fuse(t, sends.assembled, sends.as.send_flops);
        const Seen with = look_at(t, &sends);
        is_better(t, &with, &sends, t->best);
    }
    if (s.lines)
        try_one_line(t);
}

Module *overlap_choose(Module *m, const Device *d, Arena *a)
{
    if (!levels_used(m) && (d->streams < 2 || d->collectives_wait || !m->layout.mesh.n))
        return NULL;
    Tries t = {.m = m, .d = d, .a = a ? a : arena_new()};
    try_all(&t);
    if (!a)
        arena_free(t.a);
    Module *fused = a ? t.taken.fused : NULL;
    if (fused) {
        fused->layout.overlap = m->layout.overlap;
        fused->layout.one_line = m->layout.one_line;
        fused->layout.optimizer = m->layout.optimizer; /* which is not decided yet */
    }
    return fused;
}
