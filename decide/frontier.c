/* frontier.c - what repeats keep for the backward part, for the memory there is.
 *
 * Each option of a repeat (passes/autodiff/remat_candidates.c) is planned for all its iterations,
 * and once more in segments of two, which prices it (decide/price.c); from prices alone the best
 * ranges follow for any memory (decide/choose.c). What was chosen is planned too: where that needs
 * more than was computed, the choice is made again with as much less. */
#include "decide/frontier_open.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/quantity.h"
#include "decide/make.h"
#include "plan/levels.h"
#include "plan/order/order.h"
#include "plan/place/place.h"

enum {
    SEGMENT_MAX = 32,
    TRIES = 8,
    OFFLOADED = 6 /* options that are looked at on another level: those of the fewest bytes */
};

/* ---- plans ----------------------------------------------------------------------------------- */

/* All iterations of one repeat take an option, in segments or not (an iteration that is left over
 * by itself); those of the others their last, the fastest. */
static KeepPlan *uniform(const Frontier *f, int loop, int option, int64_t segment, bool here)
{
    KeepPlan *kept = NEW(f->a, KeepPlan);
    *kept = (KeepPlan){0};
    for (int l = 0; l < f->loops; l++) {
        KeepRanges ranges = {0};
        const bool *keep = f->option[l][l == loop ? option : f->options[l] - 1].keep;
        int64_t iterations = f->loop[l]->attrs.dim.size,
                rest = l == loop ? iterations % segment : 0;
        vec_push(f->a, &ranges,
                 ((KeepRange){.iterations = iterations - rest,
                              .segment = l == loop ? segment : 1,
                              .keep = keep,
                              .here = here && l == loop}));
        if (rest)
            vec_push(f->a, &ranges,
                     ((KeepRange){.iterations = rest, .segment = 1, .keep = keep, .here = here}));
        vec_push(f->a, &kept->loops, ranges);
    }
    return kept;
}

/* Bytes on the level of what is kept that are left for it. */
static int64_t room_of(const Frontier *f, const Plan *p, const KeepPrice *price)
{
    const Level l = f->m->layout.offload[OFFLOAD_kept];
    int64_t kept = 0;
    for (int k = 0; k < f->loops; k++)
        kept += price->range[k].far * f->problem.iterations[k];
    return levels_share(f->m, f->d, l).memory - (p->level_bytes[l] - kept);
}

/* A way to treat a repeat, planned by itself; or the whole program, by default. */
typedef struct Asked {
    int loop, option;
    int64_t segment;
    bool here;
    bool whole;
} Asked;

/* The plan says so. */
typedef struct Answer {
    bool ok;
    KeepPrice price;
    int64_t room;
    KeepWhole whole;
} Answer;

/* All ways that are planned at once. */
typedef struct Question {
    Frontier *f;
    Asked asked[2 * KEEP_OPTIONS + 1];
    int n;
    bool whole; /* the first is the whole program */
    ParallelMap *map;
} Question;

static void answer(void *ctx, int k, FILE *out)
{
    const Question *q = ctx;
    Frontier *f = q->f;
    const Asked *as = &q->asked[k];
    if (as->whole) {
        const Answer r = {.whole = frontier_whole(f->m, f->d, NULL, NULL)};
        fwrite(&r, sizeof r, 1, out);
        return;
    }
    const KeepPlan *kept = uniform(f, as->loop, as->option, as->segment, as->here);
    Answer r = {0};
    Arena *tmp = arena_new();
    int ranges = 0;
    for (size_t l = 0; l < kept->loops.n; l++)
        ranges += (int)kept->loops.data[l].n;
    Module *m = module_copy(f->m, NULL, diag_silent(f->m->diag, tmp), tmp);
    m->layout.overlap = f->offloads; /* transfers run beside the rest as far as there is room */
    /* Bytes are those of lifetimes; only what transfers wait for depends on the packing. No other
     * function than the step keeps anything. */
    Plan *plan =
        frontier_plan_upto(f->offloads ? "place" : "order", m, f->d, kept, "train", false, tmp);
    if (plan && f->offloads) {
        plan_streams(plan);
        plan_timeline(plan);
    }
    r.ok = plan && keep_price(plan, ranges, tmp, &r.price);
    if (r.ok && f->offloads)
        r.room = room_of(f, plan, &r.price);
    arena_free(tmp);
    fwrite(&r, sizeof r, 1, out);
}

/* Plans all ways, by all processors. The answers are in f->a. */
static const Answer *answers_to(Question *q)
{
    Answer *all = NEW_ARRAY(q->f->a, Answer, q->n + 1);
    const Written *w = parallel_finish(q->map ? q->map : parallel_begin(q->n, answer, q, q->f->a));
    for (int k = 0; k < q->n; k++)
        if (w[k].n == sizeof *all)
            memcpy(&all[k], w[k].bytes, sizeof *all);
    return all;
}

/* ---- prices ---------------------------------------------------------------------------------- */

/* A loop in a loop: there is room for one more level, and for one more dim of what it slices. */
static bool may_segment(const Frontier *f, int l)
{
    const Ins *loop = f->loop[l];
    if (loop->attrs.dim.size < 4)
        return false;
    for (size_t n = 0; n < loop->body->ins.n; n++)
        if (loop->body->ins.data[n]->op == OP_repeat)
            return false;
    for (uint32_t k = (uint32_t)loop->attrs.carried; k < loop->nin; k++)
        if (type_of(f->m, loop->in[k])->rank >= MAX_RANK)
            return false;
    return true;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The inputs of a range that is not a loop's first are copied there, for each microbatch. */
static double start_of(const Frontier *f, int64_t carried)
{
    double copy = 2 * (double)carried / f->d->bandwidth;
    double times = (double)mesh_microbatches(f->m);
    return times * (copy > f->d->launch ? copy : f->d->launch);
}

/* One option for all iterations, where it is stored. */
static void add_kind(Frontier *f, const Asked *as, const Answer *answer, double *least)
{
    const int l = as->loop;
    const double iterations = (double)f->problem.iterations[l];
    const KeepPrice p = answer->price;
    const RangePrice *r = &p.range[l];
    *least = f->problem.kinds[l] == 0 || p.seconds < *least ? p.seconds : *least;
    f->kind[l][f->problem.kinds[l]++] = (KeepKind){.option = as->option,
                                                   .segment = 1,
                                                   .stored = r->stored,
                                                   .fixed = r->fixed,
                                                   .transient = larger(r->forward, r->backward),
                                                   .far = r->far,
                                                   .here = as->here,
                                                   .seconds = p.seconds / iterations};
    f->problem.start[l] = start_of(f, r->fixed);
    f->problem.between = larger(f->problem.between, p.between);
    f->outside = larger(f->outside, p.outside);
    f->room = answer->room;
}

/* The question is what options of a repeat take; and if `whole`, what the whole program needs by
 * default: before them, as that takes longest. */
static Question *options_of(Frontier *f, int l, bool whole)
{
    Question *q = NEW(f->a, Question);
    *q = (Question){.f = f, .whole = whole};
    if (whole)
        q->asked[q->n++].whole = true;
    for (int o = 0; o < f->options[l]; o++) {
        q->asked[q->n++] = (Asked){l, o, 1, f->offloads, false};
        if (f->offloads && o < OFFLOADED)
            q->asked[q->n++] = (Asked){l, o, 1, false, false};
    }
    return q;
}

/* whole: NULL, or for what the whole program needs, if that is asked for. */
static bool price_options(Frontier *f, int l, double *least, KeepWhole *whole)
{
    Question *q = !l && f->first ? f->first : options_of(f, l, false);
    const Answer *answers = answers_to(q);
    if (q->whole && whole)
        *whole = answers[0].whole;
    bool ok = true;
    for (int k = q->whole; k < q->n && ok; k++) {
        ok = answers[k].ok;
        if (ok)
            add_kind(f, &q->asked[k], &answers[k], least);
    }
    for (int k = 0; k < f->problem.kinds[l]; k++)
        f->kind[l][k].seconds -= *least / (double)f->problem.iterations[l];
    return ok;
}

/* Options that another one beats in all that counts are left out. */
static void drop_beaten(Frontier *f, int l)
{
    KeepKind *kind = f->kind[l];
    int n = f->problem.kinds[l], left = 0;
    for (int k = 0; k < n; k++) {
        bool beaten = false;
        for (int i = 0; i < n && !beaten; i++) {
            bool as_good = kind[i].stored <= kind[k].stored && kind[i].far <= kind[k].far &&
                           kind[i].transient <= kind[k].transient &&
                           kind[i].seconds <= kind[k].seconds;
            bool same = kind[i].stored == kind[k].stored && kind[i].far == kind[k].far &&
                        kind[i].transient == kind[k].transient &&
                        kind[i].seconds == kind[k].seconds;
            beaten = i != k && as_good && (!same || i < k) && i >= left;
        }
        for (int i = 0; i < left && !beaten; i++)
            beaten = kind[i].stored <= kind[k].stored && kind[i].far <= kind[k].far &&
                     kind[i].transient <= kind[k].transient && kind[i].seconds <= kind[k].seconds;
        if (!beaten)
            kind[left++] = kind[k];
    }
    f->problem.kinds[l] = left;
}

/* Segments of two are planned; of k they keep what k - 2 iterations more of the option store. What
 * goes into a segment is copied twice: to run on from, and to run again from. */
static void price_segments(Frontier *f, int l)
{
    Question q = {.f = f, .n = may_segment(f, l) ? f->problem.kinds[l] : 0};
    int64_t iterations = f->problem.iterations[l];
    for (int o = 0; o < q.n; o++)
        q.asked[o] = (Asked){l, f->kind[l][o].option, 2, f->kind[l][o].here, false};
    const Answer *answers = answers_to(&q);
    for (int o = 0; o < q.n && answers[o].ok; o++) {
        const KeepKind plain = f->kind[l][o];
        const KeepPrice p = answers[o].price;
        const RangePrice *r = &p.range[l];
        double all = p.seconds - f->fastest;
        if (iterations % 2)
            all -= plain.seconds + f->problem.start[l];
        for (int64_t k = 2; k <= iterations && k <= SEGMENT_MAX; k++) {
            if (f->problem.kinds[l] == KEEP_KINDS)
                return;
            f->kind[l][f->problem.kinds[l]++] =
                (KeepKind){.option = plain.option,
                           .segment = k,
                           .stored = r->stored,
                           .fixed = r->fixed,
                           .transient = larger(r->forward, r->backward + (k - 2) * plain.stored),
                           .seconds = all / (double)(iterations - iterations % 2) +
                                      f->problem.start[l] * (2 / (double)k - 1)};
        }
    }
}

void frontier_close(Frontier *f)
{
    if (f->first && f->first->map)
        parallel_drop(f->first->map);
    arena_free(f->a);
}

/* Begins to ask for prices. NULL: there is nothing to choose. */
static Frontier *begin(const Module *m, const Device *d, bool whole)
{
    Arena *a = arena_new();
    Frontier *f = NEW(a, Frontier);
    *f = (Frontier){
        .a = a, .m = m, .d = d, .offloads = m->layout.offload[OFFLOAD_kept] != LEVEL_device};
    f->loops = keep_loops(m, f->loop, KEEP_LOOPS);
    f->problem.loops = f->loops;
    bool ok = f->loops > 0;
    for (int l = 0; l < f->loops && ok; l++) {
        f->problem.iterations[l] = f->loop[l]->attrs.dim.size;
        f->problem.kind[l] = f->kind[l];
        f->options[l] = keep_options(m, l, d, a, f->option[l]);
        ok = f->options[l] > 0;
    }
    if (ok) {
        f->first = options_of(f, 0, whole);
        f->first->map = parallel_begin(f->first->n, answer, f->first, a);
        return f;
    }
    frontier_close(f);
    return NULL;
}

/* Waits for the prices that it began to ask for, and asks for all others. NULL: there is nothing to
 * choose, and it is closed. whole: as price_options has it. */
static Frontier *finish(Frontier *f, KeepWhole *whole)
{
    bool ok = true;
    for (int l = 0; l < f->loops && ok; l++) {
        double least = 0;
        ok = price_options(f, l, &least, whole);
        f->first = NULL;
        drop_beaten(f, l);
        /* The others' fastest option is the last by estimate; what the plan says counts. */
        f->fastest = l == 0 || least < f->fastest ? least : f->fastest;
    }
    for (int l = 0; l < f->loops && ok && !f->offloads; l++)
        price_segments(f, l);
    if (ok)
        return f;
    frontier_close(f);
    return NULL;
}

Frontier *frontier_begin(const Module *m, const Device *d)
{
    return begin(m, d, true);
}

Frontier *frontier_open(const Module *m, const Device *d)
{
    Frontier *f = begin(m, d, false);
    return f ? finish(f, NULL) : NULL;
}

/* ---- choices --------------------------------------------------------------------------------- */

/* The problem without the kinds for which the level of what is kept has too little room, so many
 * bytes, if all iterations were of it. number: of each kind that is left, in f. */
static KeepProblem with_room(const Frontier *f, int64_t room, int *number[KEEP_LOOPS], Arena *tmp)
{
    KeepProblem p = f->problem;
    for (int l = 0; l < p.loops; l++) {
        p.kind[l] = NEW_ARRAY(tmp, KeepKind, f->problem.kinds[l] + 1);
        number[l] = NEW_ARRAY(tmp, int, f->problem.kinds[l] + 1);
        p.kinds[l] = 0;
        for (int k = 0; k < f->problem.kinds[l]; k++) {
            const KeepKind *kind = &f->kind[l][k];
            if (kind->far && kind->far * p.iterations[l] > room)
                continue;
            number[l][p.kinds[l]] = k;
            p.kind[l][p.kinds[l]++] = *kind;
        }
    }
    return p;
}

/* limit: bytes beside what is persistent. */
static bool choose_within(Frontier *f, int64_t limit, int64_t room, KeepChoice *c)
{
    if (limit < f->outside)
        return false;
    Arena *tmp = arena_new();
    int *number[KEEP_LOOPS];
    f->problem.limit = limit;
    const KeepProblem p = with_room(f, room, number, tmp);
    bool found = keep_choose(&p, c, tmp);
    for (int r = 0; found && r < c->n; r++)
        c->range[r].kind = number[c->range[r].loop][c->range[r].kind];
    arena_free(tmp);
    if (found)
        c->peak = larger(c->peak, f->outside);
    return found;
}

bool frontier_within(Frontier *f, int64_t limit, KeepChoice *c)
{
    return choose_within(f, limit, f->room, c);
}

/* Seconds less than a choice takes, had the level of what is kept any room. */
static double gain_of_room(Frontier *f, int64_t limit, const KeepChoice *c)
{
    KeepChoice any;
    return f->offloads && choose_within(f, limit, INT64_MAX / 4, &any) ? c->seconds - any.seconds
                                                                       : 0;
}

/* The choice with the least memory, to a thousandth of it, or a byte. */
bool frontier_least(Frontier *f, int64_t enough, KeepChoice *c)
{
    int64_t low = 0, high = enough;
    if (!frontier_within(f, enough, c))
        return false;
    high = c->peak;
    while (high - low > 1 + high / 1000) {
        int64_t limit = low + (high - low) / 2;
        KeepChoice one;
        if (frontier_within(f, limit, &one)) {
            *c = one;
            high = one.peak > low ? one.peak : limit;
        } else {
            low = limit;
        }
    }
    return true;
}

const KeepProblem *frontier_problem(const Frontier *f)
{
    return &f->problem;
}

KeepPlan *frontier_kept(const Frontier *f, const KeepChoice *c, Arena *a)
{
    KeepPlan *kept = NEW(a, KeepPlan);
    *kept = (KeepPlan){0};
    for (int l = 0; l < f->loops; l++) {
        KeepRanges ranges = {0};
        for (int r = 0; r < c->n; r++) {
            if (c->range[r].loop != l)
                continue;
            const KeepKind *k = &f->kind[l][c->range[r].kind];
            bool *keep = NEW_ARRAY(a, bool, f->m->values.n);
            memcpy(keep, f->option[l][k->option].keep, f->m->values.n * sizeof *keep);
            const char *says =
                arena_printf(a, "%s%s", f->option[l][k->option].names, k->far ? ", offloaded" : "");
            vec_push(a, &ranges,
                     ((KeepRange){c->range[r].iterations, k->segment, keep, says, k->here}));
        }
        vec_push(a, &kept->loops, ranges);
        vec_push(a, &kept->dims, f->loop[l]->attrs.dim.name);
    }
    return kept;
}

/* Prices as they are for another module, of which only what is alive outside of its repeats is not
 * the same. */
static Frontier *taken_over(Frontier *f, const Module *m, int64_t outside)
{
    f->m = m;
    keep_loops(m, f->loop, KEEP_LOOPS);
    f->outside = outside;
    return f;
}

const KeepPlan *frontier_choose(const Module *m, const Device *d, Arena *a, KeepAsk *ask)
{
    KeepAsk nobody = {0};
    ask = ask ? ask : &nobody;
    ask->plan = NULL;
    ask->settled = NULL;
    ask->gain_of_room = ask->gain_of_all = 0;
    KeepFit *fit = &ask->fit;
    if (m->layout.pipeline.axis)
        return frontier_alike(m, d, a, fit);
    const int64_t budget = plan_budget(m, d);
    const bool offloads = m->layout.offload[OFFLOAD_kept] != LEVEL_device;
    KeepWhole w = {0};
    /* Prices are asked for whatever the default needs, if only something is to fit. */
    const bool soon = ask->must_fit && offloads;
    Frontier *f = ask->begun ? ask->begun : soon ? frontier_begin(m, d) : NULL;
    f = f ? finish(f, &w) : NULL;
    if (!w.planned)
        w = frontier_whole(m, d, NULL, ask);
    *fit = frontier_fit(d, w.bytes, budget, w.persistent);
    if (w.bytes >= 0 && w.bytes <= budget && d->target == TARGET_cuda && !offloads) {
        const KeepPlan *more = frontier_more(m, d, a, &ask->settled);
        ask->plan = more ? NULL : ask->plan;
        return more;
    }
    const bool hopeless = ask->must_fit && w.persistent + w.outside > budget;
    if (hopeless)
        *fit = KEEP_hopeless;
    if ((w.bytes <= budget && !offloads) || w.persistent >= budget || hopeless) {
        if (f)
            frontier_close(f);
        return NULL; /* it fits, or nothing makes it fit, or the passes have something to say */
    }
    if (!f && !soon)
        f = ask->prices ? taken_over(ask->prices, m, w.outside) : frontier_open(m, d);
    if (!f)
        return NULL;
    const KeepPlan *kept = NULL;
    int64_t limit = budget - w.persistent;
    for (int k = 0; k < TRIES; k++) {
        KeepChoice c;
        if (!frontier_within(f, limit, &c)) {
            /* The error that follows is to show the least there is. */
            if (!ask->must_fit && frontier_least(f, INT64_MAX / 4, &c)) {
                kept = frontier_kept(f, &c, a);
                ask->plan = NULL;
            }
            *fit = KEEP_too_large;
            break;
        }
        kept = frontier_kept(f, &c, a);
        if (!k && ask->meanwhile)
            ask->meanwhile(ask->ctx);
        w = frontier_whole(m, d, kept, ask);
        *fit = frontier_fit(d, w.bytes, budget, w.persistent);
        if (w.bytes <= budget) {
            if (ask->plan &&
                levels_bytes(ask->plan, m->layout.offload[OFFLOAD_kept]) > ask->crowded)
                ask->gain_of_room = gain_of_room(f, limit, &c);
            ask->gain_of_all = c.seconds;
            break;
        }
        limit = (c.peak < limit ? c.peak : limit) - (w.bytes - budget);
    }
    if (ask->shares)
        ask->prices = f;
    else
        frontier_close(f);
    return kept;
}
