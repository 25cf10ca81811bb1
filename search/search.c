/* search.c - the fastest layout of so many ranks, by plans of few of them.
 *
 * A point is thrown away by what is certain alone: the compiler refuses it, what lasts has no room
 * (bound_bytes), or no plan of it could be faster than one that is there (bound_seconds). The
 * others are planned in rounds, those first that the estimate says are fastest; after each round
 * the estimate is corrected by what plans of like points said. A round plans some points roughly,
 * the most promising of those planned so far quickly, and the most promising of these as a whole,
 * so there is a best after one round, and a good one after three. It ends when all is planned, or
 * the rest is expected to be far slower, and those that a plan says are nearly as fast as the best
 * have the next better one. Then the neighbours of the best are planned, whatever is expected of
 * them, until none of them is better. At last some that are slower, or no layouts at all, for want
 * of memory alone are tried with `offload auto`.
 *
 * Rounds are of one size whatever the number of processors, and nothing looks at a clock: what is
 * found depends on the input alone. */
#include "search/search.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Plans of one depth: of points in the state before it, the fastest first. */
typedef struct Depth {
    CandidateState from;
    int round, least, most; /* plans of a round, before what is expected may end it, and in all */
    double far;      /* times the fastest of the depth: a point that is expected above it is left */
    double thorough; /* the same of a thorough search, which makes any number of plans */
} Depth;

static const Depth depths[TRY_count] = {
    [TRY_rough] = {CANDIDATE_open, 32, 128, 480, 1.25, INFINITY},
    [TRY_quick] = {CANDIDATE_rough, 10, 16, 96, 1.15, 1.5},
    [TRY_whole] = {CANDIDATE_quick, 2, 4, 32, 1.02, 1.25}};
enum { ROUND = 64, FAMILIES = 512, OFFLOADED = 6 };

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
    return c->state == CANDIDATE_whole   ? &c->tried[TRY_whole]
           : c->state == CANDIDATE_quick ? &c->tried[TRY_quick]
                                         : NULL;
}

/* ---- the order ------------------------------------------------------------------------------- */

static int hashed(const unsigned *parts, size_t n)
{
    unsigned hash = 2166136261u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ parts[i]) * 16777619u;
    return (int)(hash % FAMILIES);
}

/* Points alike, of which the estimate is wrong by about as much. */
static int family(const Point *p)
{
    const unsigned parts[] = {(unsigned)p->size[ROLE_tp],
                              (unsigned)p->size[ROLE_cp],
                              (unsigned)p->size[ROLE_ep],
                              p->zero >= 2,
                              p->sequence,
                              p->once};
    return hashed(parts, sizeof parts / sizeof *parts);
}

/* Points alike, of which about as much lasts. */
static int kin(const Point *p)
{
    const unsigned parts[] = {(unsigned)p->size[ROLE_tp], (unsigned)p->size[ROLE_pp],
                              (unsigned)p->size[ROLE_ep], (unsigned)p->zero};
    return hashed(parts, sizeof parts / sizeof *parts);
}

typedef struct Correction {
    double sum[FAMILIES];              /* of logarithms */
    int n[FAMILIES];                   /* plans */
    int fit[FAMILIES], full[FAMILIES]; /* of kin: by quick plans, those that fit and that do not */
    double mean, least; /* of families' means: most plans are of those that the estimate flatters */
} Correction;

/* Seconds of a rough plan, with what is computed again for want of room. */
static double rough_seconds(const Search *s, const Candidate *k)
{
    return expected_seconds(s->basis, &k->tried[TRY_rough], k->point.offload);
}

static Correction correct(const Search *s)
{
    const double REFUSED = 2; /* so others alike wait: they may be, too */
    Correction c = {.least = INFINITY};
    int families = 0;
    for (size_t i = 0; i < s->all.n; i++) {
        const Candidate *k = &s->all.data[i];
        const double rough = k->tried[TRY_rough].seconds;
        if (k->tried[TRY_quick].seconds > 0)
            (k->state == CANDIDATE_full ? c.full : c.fit)[kin(&k->point)]++;
        const double seconds = rough > 0                       ? rough_seconds(s, k)
                               : k->state == CANDIDATE_refused ? REFUSED * k->estimate
                                                               : k->tried[TRY_whole].seconds;
        if (!(seconds > 0) || !(k->estimate > 0))
            continue;
        const int f = family(&k->point);
        c.sum[f] += log(seconds / k->estimate);
        c.n[f]++;
    }
    for (int f = 0; f < FAMILIES; f++)
        if (c.n[f]) {
            c.mean += c.sum[f] / c.n[f];
            c.least = fmin(c.least, c.sum[f] / c.n[f]);
            families++;
        }
    c.mean /= families ? families : 1;
    c.least = families ? c.least : 0;
    return c;
}

/* A family without plans is hoped to be as the best of the others, so that it soon has one. */
static double corrected(const Correction *c, const Candidate *k)
{
    const int f = family(&k->point);
    return k->estimate * exp(c->n[f] ? (c->sum[f] + c->mean) / (c->n[f] + 1) : c->least);
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

/* Points of which whole plans save as much beside quick ones: pipelines with several stages a rank
 * most, for their layers may be cut otherwise. */
enum { KINDS = 3 };
static int kind_of(const Point *p)
{
    return p->size[ROLE_pp] == 1 ? 0 : p->chunks == 1 ? 1 : 2;
}

/* The most that plans of a depth saved so far, as a part of what was expected of them: of whole
 * plans beside quick ones, and of quick ones beside rough ones that have room and that have not. */
typedef struct Savings {
    double whole[KINDS], quick[KINDS][2];
    int n[KINDS][2];
} Savings;

static Savings best_savings(const Search *s)
{
    Savings v = {0};
    for (int k = 0; k < KINDS; k++)
        v.whole[k] = v.quick[k][0] = v.quick[k][1] = 1;
    for (size_t i = 0; i < s->all.n; i++) {
        const Candidate *c = &s->all.data[i];
        const Tried *t = c->tried;
        const int k = kind_of(&c->point), room = t[TRY_rough].fits;
        if (t[TRY_whole].seconds > 0 && t[TRY_quick].seconds > 0)
            v.whole[k] = fmin(v.whole[k], t[TRY_whole].seconds / t[TRY_quick].seconds);
        if (!(t[TRY_quick].seconds > 0 && t[TRY_rough].seconds > 0) || c->point.offload)
            continue;
        v.quick[k][room] = fmin(v.quick[k][room], t[TRY_quick].seconds / rough_seconds(s, c));
        v.n[k][room]++;
    }
    return v;
}

/* Known: what the plans so far say of the others. */
typedef struct Known {
    Correction correction;
    Savings savings;
} Known;

/* Times what `offload auto` is expected to take: more where there is hardly room for what lasts, or
 * was none for the kin's. So others are tried first. */
static double doubt(const Search *s, const Correction *c, const Candidate *k)
{
    const double TIGHT = 2;
    const Tried *rough = &k->tried[TRY_rough];
    if (!k->point.offload)
        return 1;
    const int64_t micro = point_microbatches(s->space, &k->point);
    const double lasts = rough->seconds > 0 ? (double)(rough->bytes - rough->kept)
                                            : bound_bytes(s->basis, &k->point, micro);
    const int of = kin(&k->point);
    const double full = (double)c->full[of] / (1 + c->full[of] + c->fit[of]);
    return (is_tight(s->basis, s->ranks, lasts) ? TIGHT : 1) * (1 + full);
}

/* Sets what all candidates are expected to take, by the best that is known of each. */
static void expect(Search *s, Known *known)
{
    const Correction c = known->correction = correct(s);
    const Savings v = known->savings = best_savings(s);
    for (size_t i = 0; i < s->all.n; i++) {
        Candidate *k = &s->all.data[i];
        const Tried *t = k->tried;
        const double guess = t[TRY_rough].seconds > 0 ? rough_seconds(s, k) : corrected(&c, k),
                     streams = streams_seconds(s->basis, s->space, &k->point);
        k->expected = t[TRY_whole].seconds > 0 ? t[TRY_whole].seconds
                      : t[TRY_quick].seconds > 0
                          ? t[TRY_quick].seconds * v.whole[kind_of(&k->point)]
                          : fmax(guess, streams) * doubt(s, &c, k);
    }
}

/* Candidates of a state, the fastest first. */
static size_t ranked(const Search *s, CandidateState state, Ranked *out)
{
    size_t n = 0;
    for (size_t i = 0; i < s->all.n; i++)
        if (s->all.data[i].state == state)
            out[n++] = (Ranked){s->all.data[i].expected, (int)i};
    qsort(out, n, sizeof *out, by_seconds);
    return n;
}

/* ---- a round --------------------------------------------------------------------------------- */

typedef struct Round {
    const Search *s;
    int n, number[ROUND];
    TryDepth depth[ROUND];
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
    try_write(s->elaborate, s->ctx, text, r->depth[k], out);
    arena_free(a);
}

static void take(Search *s, Candidate *c, TryDepth depth, const Tried *t)
{
    static const CandidateState fit[TRY_count] = {CANDIDATE_rough, CANDIDATE_quick,
                                                  CANDIDATE_whole},
                                not[TRY_count] = {CANDIDATE_rough, CANDIDATE_full, CANDIDATE_lost};
    c->tried[depth] = *t;
    s->plans[depth]++;
    c->state = t->failed ? CANDIDATE_failed
               : t->code ? CANDIDATE_refused
               : t->fits ? fit[depth]
                         : not[depth];
    c->code = t->code;
}

static void run_round(Search *s, Round *r)
{
    Arena *a = arena_new();
    Tried *t = NEW_ARRAY(a, Tried, r->n);
    const char **why = NEW_ARRAY(a, const char *, r->n);
    try_all(r->n, try_one, r, a, t, why);
    for (int k = 0; k < r->n; k++) {
        Candidate *c = &s->all.data[r->number[k]];
        if (!t[k].bytes && !t[k].code && !t[k].failed)
            continue; /* it was stopped */
        take(s, c, r->depth[k], &t[k]);
        c->why = why[k] ? arena_strdup(s->arena, why[k]) : NULL;
    }
    arena_free(a);
}

static double best_seconds(const Search *s)
{
    return s->best < 0 ? INFINITY : s->all.data[s->best].tried[TRY_whole].seconds;
}

/* True: there is another best. */
static bool note_best(Search *s)
{
    const int was = s->best;
    for (size_t i = 0; i < s->all.n; i++)
        if (s->all.data[i].state == CANDIDATE_whole &&
            s->all.data[i].tried[TRY_whole].seconds < best_seconds(s))
            s->best = (int)i;
    return s->best != was;
}

/* Of those that no plan of can be faster than the best. */
static void prune(Search *s)
{
    for (size_t i = 0; i < s->all.n; i++) {
        Candidate *c = &s->all.data[i];
        const bool waits = c->state == CANDIDATE_open || c->state == CANDIDATE_rough ||
                           c->state == CANDIDATE_quick;
        if (waits && c->bound >= best_seconds(s) && !s->exhaustive)
            c->state = CANDIDATE_slow;
    }
}

/* ---- the search ------------------------------------------------------------------------------ */

static void make_candidates(Search *s)
{
    Points points = {0};
    const Basis *b = s->basis;
    const double room = room_bytes(b, s->ranks, s->offload);
    space_points(s->space, s->ranks, s->offload, s->arena, &points);
    for (size_t i = 0; i < points.n; i++) {
        Candidate c = {.point = points.data[i]};
        const int64_t micro = point_microbatches(s->space, &c.point);
        c.bound = bound_seconds(b, &c.point, micro);
        c.estimate = estimate_seconds(b, s->space, &c.point);
        if (!s->space->offload && bound_bytes(b, &c.point, micro) > room)
            c.state = CANDIDATE_large;
        vec_push(s->arena, &s->all, c);
    }
}

/* The fastest that a depth, or a better one, says. */
static double fastest_of(const Search *s, TryDepth depth)
{
    double fastest = INFINITY;
    for (size_t i = 0; i < s->all.n; i++) {
        const Candidate *c = &s->all.data[i];
        const bool fits = c->state != CANDIDATE_full && c->state != CANDIDATE_lost;
        for (int k = depth; fits && k < TRY_count; k++)
            if (c->tried[k].seconds > 0)
                fastest = fmin(fastest, k < TRY_whole ? c->expected : c->tried[k].seconds);
    }
    return fastest;
}

/* Does a point differ from another in one step? In the ZeRO level and in the sequences at once, by
 * a factor of two or less; or in the stages a rank and the schedule; or in positions along tp; or
 * in how rows go to machines; or in the ranks of two axes, of which one has as many times more as
 * the other has less. */
static bool is_neighbour(const Point *p, const Point *q)
{
    int axes = 0;
    for (int r = 0; r < ROLE_count; r++)
        axes += p->size[r] != q->size[r];
    const bool far = p->microbatch > 2 * q->microbatch || q->microbatch > 2 * p->microbatch;
    const int steps = (p->zero != q->zero || p->microbatch != q->microbatch) +
                      (p->schedule != q->schedule || p->chunks != q->chunks) +
                      (p->sequence != q->sequence) + (p->once != q->once) + (axes > 0);
    return p->offload == q->offload && steps == 1 && axes <= 2 && !far;
}

static bool is_around(const Search *s, const Candidate *c)
{
    return s->around >= 0 && is_neighbour(&s->all.data[s->around].point, &c->point);
}

/* How far above the fastest a candidate may be expected to be, and yet have a plan of a depth.
 * Rough: the further, the fewer plans there are of its family. Quick: where enough quick plans
 * say what such plans save at most, a little more than that. */
static double reach(const Search *s, const Known *known, TryDepth depth, const Candidate *c)
{
    enum { TELLING = 8 };
    const double MORE = 1.02, UNSEEN = 1.6, FEW = 0.2, AROUND[] = {INFINITY, 1.3, 1.02};
    const Depth *d = &depths[depth];
    const Savings *v = &known->savings;
    const int k = kind_of(&c->point), room = c->tried[TRY_rough].fits;
    const int alike = known->correction.n[family(&c->point)];
    if (s->thorough)
        return d->thorough;
    if (is_around(s, c))
        return AROUND[depth];
    if (depth == TRY_rough)
        return alike ? d->far + FEW / alike : UNSEEN;
    if (depth != TRY_quick || c->point.offload || v->n[k][room] < TELLING)
        return d->far;
    return fmin(d->far, MORE / (v->quick[k][room] * v->whole[k]));
}

/* Those of n candidates, in order, that are worth a plan of a depth come to the front: how many. */
static size_t worth(const Search *s, const Known *known, TryDepth depth, Ranked *of, size_t n)
{
    const Depth *d = &depths[depth];
    const double fastest = fastest_of(s, depth);
    const int made = s->plans[depth], /* more of those that offload turn out to have no room */
        most = s->offload ? d->most * 3 / 2 : d->most + (s->offloaded ? OFFLOADED : 0);
    size_t k = 0;
    if (s->exhaustive)
        return n;
    for (size_t i = 0; i < n; i++) {
        const Candidate *c = &s->all.data[of[i].number];
        const bool may = s->thorough || made + (int)k < most || is_around(s, c);
        if (may &&
            (made + (int)k < d->least || of[i].seconds <= reach(s, known, depth, c) * fastest))
            of[k++] = of[i];
    }
    return k;
}

/* Of its pipeline's table. */
static int64_t cells_of(const Search *s, int number)
{
    const Point *p = &s->all.data[number].point;
    return p->size[ROLE_pp] > 1 ? p->size[ROLE_pp] * p->chunks * point_microbatches(s->space, p)
                                : 0;
}

/* Does a plan of a candidate say more than those of this round? Of points alike, of which none has
 * a plan, one is enough to correct the estimate of all; of others some are. Quick plans of those
 * that offload say whether points alike have room. */
static bool is_new(const Search *s, const Correction *c, TryDepth depth, int *of_family, int number)
{
    enum { ALIKE = 8, QUICK = 4 };
    const int f = family(&s->all.data[number].point);
    if (s->exhaustive || s->thorough || depth == TRY_whole || (depth == TRY_quick && !s->offload))
        return true;
    return of_family[f]++ < (depth == TRY_quick ? QUICK : c->n[f] ? ALIKE : 1);
}

/* Before anything is tried, some have whole plans at once, so that there is a best soon: of the
 * promising those whose pipelines have least to plan. They come to the front. */
static int bring_first(const Search *s, Ranked *of, size_t n)
{
    enum { FIRST = 2, PROMISING = 24 };
    int k = 0;
    for (; k < FIRST && (size_t)k < n && !s->plans[TRY_rough] && !s->plans[TRY_whole]; k++) {
        size_t least = (size_t)k;
        for (size_t i = (size_t)k; i < n && i < PROMISING; i++)
            if (cells_of(s, of[i].number) < cells_of(s, of[least].number))
                least = i;
        const Ranked chosen = of[least];
        memmove(of + k + 1, of + k, (least - (size_t)k) * sizeof chosen);
        of[k] = chosen;
    }
    return k;
}

/* Plans that are worth making, of all depths; those of one round go to *r. */
static size_t next_round(Search *s, const Known *known, Ranked *scratch, Round *r)
{
    int of_family[TRY_count][FAMILIES] = {0};
    size_t all = 0;
    for (int depth = TRY_count - 1; depth >= 0; depth--) { /* what takes longest first */
        const size_t n = ranked(s, depths[depth].from, scratch);
        const size_t k = worth(s, known, (TryDepth)depth, scratch, n);
        const int first = s->exhaustive ? 0 : bring_first(s, scratch, depth ? 0 : k);
        const int before = r->n, room = s->exhaustive ? ROUND : depths[depth].round;
        for (size_t i = 0; i < k && r->n - before < room; i++)
            if (is_new(s, &known->correction, (TryDepth)depth, of_family[depth], scratch[i].number))
                add(r, scratch[i].number,
                    s->exhaustive || r->n < first ? TRY_whole : (TryDepth)depth);
        all += k;
    }
    return all;
}

/* Would it be faster than the best by what its rough plan says, were there room for what it keeps?
 */
static bool lacks_memory(const Search *s, const Candidate *c)
{
    const double WORTH = 0.99;
    const Tried *whole = &c->tried[TRY_whole], *quick = &c->tried[TRY_quick];
    const double again = whole->seconds > 0 ? whole->parts.again : quick->parts.again;
    const bool planned = c->state == CANDIDATE_full || c->state == CANDIDATE_lost ||
                         c->state == CANDIDATE_rough || again > 0;
    return planned && !c->tried[TRY_rough].fits && c->tried[TRY_rough].seconds > 0 &&
           c->tried[TRY_rough].seconds < WORTH * best_seconds(s);
}

/* Those with `offload auto`, as candidates of their own that have a rough plan. Whether there are
 * any. */
static bool add_offloaded(Search *s, Ranked *scratch)
{
    size_t n = 0;
    if (!s->levels || s->offloaded || s->best < 0)
        return false;
    s->offloaded = true;
    for (size_t i = 0; i < s->all.n; i++)
        if (lacks_memory(s, &s->all.data[i]))
            scratch[n++] = (Ranked){s->all.data[i].tried[TRY_rough].seconds, (int)i};
    qsort(scratch, n, sizeof *scratch, by_seconds);
    for (size_t i = 0; i < n && i < OFFLOADED; i++) {
        Candidate c = s->all.data[scratch[i].number];
        c.point.offload = true;
        c.state = CANDIDATE_rough;
        c.tried[TRY_quick] = c.tried[TRY_whole] = (Tried){0};
        vec_push(s->arena, &s->all, c);
    }
    return n > 0;
}

void search_run(Search *s)
{
    const double begin = now();
    s->best = s->around = -1;
    make_candidates(s);
    Ranked *scratch = NEW_ARRAY(s->arena, Ranked, s->all.n + OFFLOADED + 1);
    Known *known = NEW(s->arena, Known);
    while (!stop_asked) {
        Round r = {.s = s};
        expect(s, known);
        prune(s);
        const size_t left = next_round(s, known, scratch, &r);
        if (!r.n && s->around != s->best && !s->exhaustive && !s->thorough) {
            s->around = s->best;
            continue;
        }
        if (!r.n && add_offloaded(s, scratch))
            continue;
        if (!r.n)
            break;
        const double round = now();
        run_round(s, &r);
        s->spent = now() - begin;
        const bool better = note_best(s);
        if (s->progress)
            s->progress(s, (double)(left - (size_t)r.n) / r.n * (now() - round), better);
    }
    expect(s, known);
    s->stopped = stop_asked != 0;
    s->spent = now() - begin;
    for (size_t i = 0; i < s->all.n; i++)
        s->count[s->all.data[i].state]++;
}
