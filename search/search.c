/* search.c - the fastest layout of so many ranks, by plans of few of them.
 *
 * A point is thrown away by what is certain alone: the compiler refuses it, what lasts has no room
 * (bound_bytes), or no plan of it could be faster than one that is there (bound_seconds). The
 * others are planned in rounds, those first that the estimate says are fastest; after each round
 * the estimate is corrected by what plans of like points said. A round plans some points quickly
 * and the most promising of those planned so far as a whole, so there is a best as soon as one
 * round is over. It ends when all is planned, or the rest is estimated to be far slower, and those
 * that quick plans say are nearly as fast as the best have whole plans.
 *
 * Rounds are of one size whatever the number of processors, and nothing looks at a clock: what is
 * found depends on the input alone. */
#include "search/search.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/parallel.h"

enum {
    QUICK_ROUND = 28, /* quick plans of a round, */
    WHOLE_ROUND = 4,  /* and whole ones */
    QUICK_LEAST = 96, /* before the estimate may end it */
    QUICK_MOST = 640,
    WHOLE_MOST = 40,
    FAMILIES = 512
};
/* Times the best: a rest that is estimated above it is not planned, and quick plans above it have
 * no whole plans. */
static const double FAR = 1.3, NEAR = 1.06;

static volatile sig_atomic_t stop_asked;

void search_stop(void)
{
    stop_asked = 1;
    parallel_stop();
}

bool search_was_stopped(void)
{
    return stop_asked != 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const Tried *candidate_plan(const Candidate *c)
{
    return c->state == CANDIDATE_whole ? &c->whole : c->state == CANDIDATE_quick ? &c->quick : NULL;
}

/* ---- the order ------------------------------------------------------------------------------- */

/* Points alike, of which the estimate is wrong by about as much. */
static int family(const Point *p)
{
    const unsigned parts[] = {(unsigned)p->size[ROLE_tp], (unsigned)p->size[ROLE_cp],
                              (unsigned)p->size[ROLE_ep], p->zero >= 2, p->sequence};
    unsigned hash = 2166136261u;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = (hash ^ parts[i]) * 16777619u;
    return (int)(hash % FAMILIES);
}

typedef struct Correction {
    double sum[FAMILIES], all; /* of logarithms */
    int n[FAMILIES], nall;
} Correction;

static Correction correct(const Search *s)
{
    Correction c = {0};
    for (size_t i = 0; i < s->all.n; i++) {
        const Candidate *k = &s->all.data[i];
        if (!(k->quick.seconds > 0) || !(k->estimate > 0))
            continue;
        const double by = log(k->quick.seconds / k->estimate);
        const int f = family(&k->point);
        c.sum[f] += by;
        c.n[f]++;
        c.all += by;
        c.nall++;
    }
    return c;
}

static double corrected(const Correction *c, const Candidate *k)
{
    const int f = family(&k->point);
    const double mean = c->nall ? c->all / c->nall : 0;
    return k->estimate * exp((c->sum[f] + mean) / (c->n[f] + 1));
}

typedef struct Ranked {
    double seconds;
    int number;
} Ranked;

static int by_seconds(const void *x, const void *y)
{
    const Ranked *a = x, *b = y;
    return a->seconds != b->seconds ? (a->seconds < b->seconds ? -1 : 1) : a->number - b->number;
}

/* Candidates of a state, the fastest first: open ones by the estimate, others by quick plans. */
static size_t ranked(const Search *s, CandidateState state, Ranked *out)
{
    const Correction c = correct(s);
    size_t n = 0;
    for (size_t i = 0; i < s->all.n; i++) {
        const Candidate *k = &s->all.data[i];
        if (k->state == state)
            out[n++] =
                (Ranked){state == CANDIDATE_open ? corrected(&c, k) : k->quick.seconds, (int)i};
    }
    qsort(out, n, sizeof *out, by_seconds);
    return n;
}

/* ---- a round --------------------------------------------------------------------------------- */

typedef struct Round {
    const Search *s;
    int n, number[QUICK_ROUND + WHOLE_ROUND];
    TryDepth depth[QUICK_ROUND + WHOLE_ROUND];
} Round;

static void add(Round *r, int number, TryDepth depth)
{
    r->number[r->n] = number;
    r->depth[r->n++] = depth;
}

static void try_one(void *ctx, int k, FILE *out)
{
    const Round *r = ctx;
    const Search *s = r->s;
    Arena *a = arena_new();
    const Candidate *c = &s->all.data[r->number[k]];
    const char *text = point_text(s->space, &c->point, "found", NULL, a);
    const Tried t = try_point(s->elaborate, s->ctx, text, r->depth[k]);
    fwrite(&t, sizeof t, 1, out);
    arena_free(a);
}

static void take(Search *s, Candidate *c, TryDepth depth, const Tried *t)
{
    if (depth == TRY_quick) {
        c->quick = *t;
        s->quick_plans++;
        c->state = t->code ? CANDIDATE_refused : t->fits ? CANDIDATE_quick : CANDIDATE_full;
    } else {
        c->whole = *t;
        s->whole_plans++;
        c->state = t->code ? CANDIDATE_refused : t->fits ? CANDIDATE_whole : CANDIDATE_lost;
    }
    c->code = t->code;
}

static void run_round(Search *s, Round *r)
{
    Arena *a = arena_new();
    Written *w = NEW_ARRAY(a, Written, r->n);
    parallel_map(r->n, try_one, r, a, w);
    for (int k = 0; k < r->n; k++) {
        Tried t;
        if (w[k].n != sizeof t)
            continue; /* it was stopped */
        memcpy(&t, w[k].bytes, sizeof t);
        take(s, &s->all.data[r->number[k]], r->depth[k], &t);
    }
    arena_free(a);
}

static double best_seconds(const Search *s)
{
    return s->best < 0 ? INFINITY : s->all.data[s->best].whole.seconds;
}

/* True: there is another best. */
static bool note_best(Search *s)
{
    const int was = s->best;
    for (size_t i = 0; i < s->all.n; i++)
        if (s->all.data[i].state == CANDIDATE_whole &&
            s->all.data[i].whole.seconds < best_seconds(s))
            s->best = (int)i;
    return s->best != was;
}

/* Of those that no plan of can be faster than the best. */
static void prune(Search *s)
{
    for (size_t i = 0; i < s->all.n; i++) {
        Candidate *c = &s->all.data[i];
        if (c->state == CANDIDATE_open && c->bound >= best_seconds(s) && !s->exhaustive)
            c->state = CANDIDATE_slow;
    }
}

/* ---- the search ------------------------------------------------------------------------------ */

static void make_candidates(Search *s)
{
    Points points = {0};
    const Basis *b = s->basis;
    const double budget = b->budget / (b->shared ? (double)s->ranks : 1);
    space_points(s->space, s->ranks, s->offload, s->arena, &points);
    for (size_t i = 0; i < points.n; i++) {
        Candidate c = {.point = points.data[i]};
        const int64_t micro = point_microbatches(s->space, &c.point);
        c.bound = bound_seconds(b, &c.point, micro);
        c.estimate = estimate_seconds(b, s->space, &c.point);
        if (!s->offload && !s->space->offload && bound_bytes(b, &c.point, micro) > budget)
            c.state = CANDIDATE_large;
        vec_push(s->arena, &s->all, c);
    }
}

/* How many quick plans are worth more than the rest: of n in order. */
static size_t worth_planning(const Search *s, const Ranked *open, size_t n, double fastest)
{
    size_t most = QUICK_MOST > s->quick_plans ? (size_t)(QUICK_MOST - s->quick_plans) : 0, k = 0;
    if (s->exhaustive)
        return n;
    while (k < n && k < most &&
           (s->quick_plans + (int)k < QUICK_LEAST || open[k].seconds <= FAR * fastest))
        k++;
    return k;
}

/* Those with quick plans that are worth whole ones, of n in order. */
static size_t worth_whole(const Search *s, const Ranked *quick, size_t n, double fastest)
{
    size_t most = WHOLE_MOST > s->whole_plans ? (size_t)(WHOLE_MOST - s->whole_plans) : 0, k = 0;
    if (s->exhaustive)
        return n;
    while (k < n && k < most && quick[k].seconds <= NEAR * fastest)
        k++;
    return k;
}

/* The fastest quick plan, of candidates that have a whole one, too. */
static double fastest_quick(const Search *s)
{
    double fastest = INFINITY;
    for (size_t i = 0; i < s->all.n; i++) {
        const Candidate *c = &s->all.data[i];
        if ((c->state == CANDIDATE_quick || c->state == CANDIDATE_whole) && c->quick.fits)
            fastest = fmin(fastest, c->quick.seconds);
    }
    return fastest;
}

void search_run(Search *s)
{
    const double begin = now();
    s->best = -1;
    make_candidates(s);
    Ranked *open = NEW_ARRAY(s->arena, Ranked, s->all.n + 1);
    Ranked *quick = NEW_ARRAY(s->arena, Ranked, s->all.n + 1);
    for (;;) {
        prune(s);
        const double fastest = fastest_quick(s);
        const size_t nopen = worth_planning(s, open, ranked(s, CANDIDATE_open, open), fastest);
        const size_t nquick = worth_whole(s, quick, ranked(s, CANDIDATE_quick, quick), fastest);
        Round r = {.s = s};
        const size_t wholes = nopen ? WHOLE_ROUND : QUICK_ROUND + WHOLE_ROUND;
        for (size_t k = 0; k < nopen && k < QUICK_ROUND; k++)
            add(&r, open[k].number, TRY_quick);
        for (size_t k = 0; k < nquick && k < wholes; k++)
            add(&r, quick[k].number, TRY_whole);
        if (!r.n || stop_asked)
            break;
        const double round = now();
        run_round(s, &r);
        s->spent = now() - begin;
        const double left = (double)(nopen + nquick - (size_t)r.n) / r.n * (now() - round);
        const bool better = note_best(s);
        if (s->progress)
            s->progress(s, left, better);
    }
    s->stopped = stop_asked != 0;
    s->spent = now() - begin;
    for (size_t i = 0; i < s->all.n; i++)
        s->count[s->all.data[i].state]++;
}
