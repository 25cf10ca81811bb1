/* choose.c - the fastest ranges of iterations that fit in a memory: exactly for loops of up to 32
 * iterations, and for longer ones within half a percent of what recomputing takes, or the best of
 * what a bounded search sees; see recompute.h.
 *
 * Let P be what is stored when a range runs, its own included. It needs P plus its transient bytes,
 * and all of it stays until it has run backward; so a later range with a larger transient should
 * have stood before (an exchange of two neighbours shows it), and each kind occurs once: the order
 * is known, only the lengths are sought.
 *
 * Dynamic programming over kinds in that order, a segment at a time; a state is how many iterations
 * are given to ranges and what that stores, takes and needed at its peak. A state is left out if
 * another with as many iterations beats it, or if even the relaxed problem from there on (one price
 * for all bytes, iterations in fractions: Lagrange's bound) is slower than the best that is known:
 * of two ranges, or from a first pass that keeps few states. */
#include "decide/frontier.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 24, EXACT = 32, WORK = 100000 };

typedef struct State {
    int64_t stored, peak, time; /* bytes, bytes, picoseconds */
    int ranges;
    uint32_t number, before; /* its own; that of the state that its last range was added to */
    int loop, kind;          /* of its last range */
    int64_t iterations;
} State;

typedef VEC(State) List;

typedef struct Chooser {
    const KeepProblem *p;
    Arena *tmp;
    int order[KEEP_LOOPS][KEEP_KINDS]; /* kinds, the largest transient first */
    double price;                      /* of a byte, in picoseconds */
    double least[KEEP_LOOPS];          /* of an iteration: time and price of bytes, at least */
    double after[KEEP_LOOPS + 1];      /* ... of all iterations of the loops from this one on */
    double least_stored[KEEP_LOOPS];   /* bytes of an iteration, at least */
    double stored_after[KEEP_LOOPS + 1];
    int64_t best;     /* picoseconds */
    double slack;     /* ... that a choice has to be better by to be looked for */
    int64_t over;     /* bytes that are needed beside all that is stored, at least */
    List states;      /* by number */
    size_t limit;     /* states in a list */
    int64_t work;     /* states that may still be made */
    KeepChoice known; /* as fast as `best`, if that is not INT64_MAX */
} Chooser;

static int64_t picoseconds(double seconds)
{
    return llround(seconds * 1e12);
}

static const KeepKind *kind_of(const Chooser *c, int loop, int kind)
{
    return &c->p->kind[loop][kind];
}

static double stored_per_iteration(const KeepKind *k)
{
    return (double)k->stored / (double)k->segment;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static double least_of(const Chooser *c, int loop, double price)
{
    double least = INFINITY;
    for (int k = 0; k < c->p->kinds[loop]; k++) {
        const KeepKind *kind = kind_of(c, loop, k);
        least =
            fmin(least, (double)picoseconds(kind->seconds) + price * stored_per_iteration(kind));
    }
    return least;
}

static double bound_with(const Chooser *c, double price)
{
    double bound = price * (double)(c->over - c->p->limit);
    for (int l = 0; l < c->p->loops; l++)
        bound += (double)c->p->iterations[l] * least_of(c, l, price);
    return bound;
}

/* The price with the highest bound, which is concave in it: between 0 and one at which nothing but
 * bytes counts. */
static void find_price(Chooser *c)
{
    double low = 0, high = 0;
    for (int l = 0; l < c->p->loops; l++)
        for (int k = 0; k < c->p->kinds[l]; k++)
            high = fmax(high, (double)picoseconds(kind_of(c, l, k)->seconds));
    for (int n = 0; n < 100; n++) {
        double a = low + (high - low) / 3, b = high - (high - low) / 3;
        if (bound_with(c, a) < bound_with(c, b))
            low = a;
        else
            high = b;
    }
    c->price = (low + high) / 2;
    if (bound_with(c, 0) > bound_with(c, c->price))
        c->price = 0;
    for (int l = c->p->loops - 1; l >= 0; l--) {
        c->least[l] = least_of(c, l, c->price);
        c->after[l] = c->after[l + 1] + (double)c->p->iterations[l] * c->least[l];
        c->least_stored[l] = INFINITY;
        for (int k = 0; k < c->p->kinds[l]; k++)
            c->least_stored[l] = fmin(c->least_stored[l], stored_per_iteration(kind_of(c, l, k)));
        c->stored_after[l] =
            c->stored_after[l + 1] + (double)c->p->iterations[l] * c->least_stored[l];
    }
}

/* How much more than the bound any choice takes that has a segment of this kind. */
static double excess_of(const Chooser *c, int loop, const KeepKind *k)
{
    double iteration = (double)picoseconds(k->seconds) + c->price * stored_per_iteration(k);
    return (double)k->segment * (iteration - c->least[loop]);
}

/* Can a kind be part of a choice as good as the best that is known? */
static bool may_serve(const Chooser *c, int loop, const KeepKind *k)
{
    double bound = c->price * (double)(c->over - c->p->limit) + c->after[0];
    return excess_of(c, loop, k) <= (double)c->best - c->slack - bound + 0.5;
}

/* An iteration of it costs little more than the bound has for it. */
static bool likely(const Chooser *c, int loop, const KeepKind *k)
{
    return excess_of(c, loop, k) <= 0.1 * (double)k->segment * fabs(c->least[loop]) + 0.5;
}

/* A time that no completion of the state is below, which ends with `iterations` iterations of a
 * loop. */
static double bound_of(const Chooser *c, const State *s, int64_t iterations)
{
    double left = (double)(c->p->iterations[s->loop] - iterations);
    return (double)s->time + c->price * (double)(s->stored + c->over - c->p->limit) +
           left * c->least[s->loop] + c->after[s->loop + 1];
}

static bool may_fit(const Chooser *c, const State *s, int64_t iterations)
{
    double left = (double)(c->p->iterations[s->loop] - iterations);
    double stored =
        (double)s->stored + left * c->least_stored[s->loop] + c->stored_after[s->loop + 1];
    return stored + (double)c->over <= (double)c->p->limit && s->peak <= c->p->limit;
}

/* ---- states ---------------------------------------------------------------------------------- */

static int by_stored(const void *x, const void *y)
{
    const State *a = x, *b = y;
    if (a->stored != b->stored)
        return a->stored < b->stored ? -1 : 1;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->peak != b->peak ? (a->peak < b->peak ? -1 : 1) : a->ranges - b->ranges;
}

typedef struct Ranked {
    double bound;
    State state;
} Ranked;

static int by_bound(const void *x, const void *y)
{
    const Ranked *a = x, *b = y;
    return a->bound != b->bound ? (a->bound < b->bound ? -1 : 1) : by_stored(&a->state, &b->state);
}

/* The first pass keeps those that promise most. */
static void truncate_list(Chooser *c, List *l, int64_t iterations)
{
    Ranked *all = NEW_ARRAY(c->tmp, Ranked, l->n);
    for (size_t k = 0; k < l->n; k++)
        all[k] = (Ranked){bound_of(c, &l->data[k], iterations), l->data[k]};
    qsort(all, l->n, sizeof *all, by_bound);
    l->n = c->limit;
    for (size_t k = 0; k < l->n; k++)
        l->data[k] = all[k].state;
}

/* Leaves out what another one beats: no more stored, no more ranges, and less time, or as little
 * and no higher peak. */
static void prune(Chooser *c, List *l, int64_t iterations)
{
    int64_t time[KEEP_RANGES + 1], peak[KEEP_RANGES + 1];
    size_t left = 0;
    for (int r = 0; r <= KEEP_RANGES; r++)
        time[r] = INT64_MAX;
    if (!l->n)
        return;
    qsort(l->data, l->n, sizeof *l->data, by_stored);
    for (size_t k = 0; k < l->n; k++) {
        State s = l->data[k];
        if (s.time > time[s.ranges] || (s.time == time[s.ranges] && s.peak >= peak[s.ranges]))
            continue;
        for (int r = s.ranges; r <= KEEP_RANGES; r++)
            if (s.time < time[r] || (s.time == time[r] && s.peak < peak[r])) {
                time[r] = s.time;
                peak[r] = s.peak;
            }
        l->data[left++] = s;
    }
    l->n = left;
    if (l->n > c->limit)
        truncate_list(c, l, iterations);
}

/* One more segment for the last range of s, which is of kind k. */
static void extend(Chooser *c, List *to, State s, const KeepKind *k, int64_t iterations)
{
    s.iterations += k->segment;
    s.time += k->segment * picoseconds(k->seconds);
    s.stored += k->stored;
    int64_t need = s.stored + k->transient;
    s.peak = s.peak > need ? s.peak : need;
    if (c->work > 0 && may_fit(c, &s, iterations) &&
        bound_of(c, &s, iterations) <= (double)c->best - c->slack + 0.5) {
        vec_push(c->tmp, to, s);
        c->work--;
    }
}

/* A range of one kind after each state, or none: `open` are the states that have one. */
static void add_ranges(Chooser *c, List *list, int loop, int kind)
{
    const KeepKind *k = kind_of(c, loop, kind);
    int64_t n = c->p->iterations[loop];
    List *open = NEW_ARRAY(c->tmp, List, n + 1);
    for (int64_t r = k->segment; r <= n; r++) {
        for (size_t i = 0; i < open[r - k->segment].n; i++)
            extend(c, &open[r], open[r - k->segment].data[i], k, r);
        for (size_t i = 0; i < list[r - k->segment].n; i++) {
            State s = list[r - k->segment].data[i];
            if (s.ranges == KEEP_RANGES)
                continue;
            s.loop = loop;
            s.stored += k->fixed;
            s.time += r > k->segment ? picoseconds(c->p->start[loop]) : 0;
            s.iterations = 0;
            s.kind = kind;
            s.before = s.number;
            s.ranges++;
            extend(c, &open[r], s, k, r);
        }
        prune(c, &open[r], r);
    }
    for (int64_t r = k->segment; r <= n; r++) {
        for (size_t i = 0; i < open[r].n; i++)
            vec_push(c->tmp, &list[r], open[r].data[i]);
        prune(c, &list[r], r);
        for (size_t i = 0; i < list[r].n; i++) {
            State *s = &list[r].data[i];
            if (s->loop != loop || s->kind != kind || s->number != s->before)
                continue;
            s->number = (uint32_t)c->states.n;
            vec_push(c->tmp, &c->states, *s);
        }
    }
}

/* The best state with all iterations of all loops, or 0. */
static uint32_t search(Chooser *c)
{
    State none = {.peak = 0};
    c->states.n = 0;
    vec_push(c->tmp, &c->states, none); /* number 0: the beginning */
    List done = {0};
    vec_push(c->tmp, &done, none);
    for (int l = 0; l < c->p->loops; l++) {
        List *list = NEW_ARRAY(c->tmp, List, c->p->iterations[l] + 1);
        list[0] = done;
        for (int k = 0; k < c->p->kinds[l]; k++)
            if (may_serve(c, l, kind_of(c, l, c->order[l][k])))
                add_ranges(c, list, l, c->order[l][k]);
        done = list[c->p->iterations[l]];
    }
    uint32_t best = 0;
    for (size_t k = 0; k < done.n; k++) {
        State *s = &c->states.data[done.data[k].number];
        int64_t all = s->stored + c->p->between;
        s->peak = s->peak > all ? s->peak : all;
        const State *b = &c->states.data[best];
        if (!best || s->time < b->time || (s->time == b->time && s->peak < b->peak))
            best = done.data[k].number;
    }
    return best;
}

/* All that is stored is there between forward and backward, and when the last range runs. */
static int64_t needed_over(const KeepProblem *p)
{
    int last = p->loops - 1;
    int64_t least = INT64_MAX;
    for (int k = 0; k < p->kinds[last]; k++)
        least = least < p->kind[last][k].transient ? least : p->kind[last][k].transient;
    return least > p->between ? least : p->between;
}

static int by_transient(const KeepKind *kinds, int a, int b)
{
    if (kinds[a].transient != kinds[b].transient)
        return kinds[a].transient > kinds[b].transient ? -1 : 1;
    return a - b;
}

static void sort_kinds(Chooser *c, int loop)
{
    int *order = c->order[loop];
    for (int k = 0; k < c->p->kinds[loop]; k++) {
        int at = k;
        for (; at > 0 && by_transient(c->p->kind[loop], order[at - 1], k) > 0; at--)
            order[at] = order[at - 1];
        order[at] = k;
    }
}

/* The best of two ranges, for one loop: as good as there is, most often, or nearly. */
static void try_pairs(Chooser *c)
{
    const KeepProblem *p = c->p;
    for (int i = 0; i < p->kinds[0] && p->loops == 1; i++)
        for (int k = i; k < p->kinds[0]; k++) {
            const KeepKind *a = kind_of(c, 0, c->order[0][i]), *b = kind_of(c, 0, c->order[0][k]);
            if (!likely(c, 0, a) || !likely(c, 0, b))
                continue;
            for (int64_t n = 0; n <= p->iterations[0]; n += a->segment) {
                int64_t rest = p->iterations[0] - n;
                if (rest % b->segment)
                    continue;
                int64_t first = n ? n / a->segment * a->stored + a->fixed : 0;
                int64_t all = first + (rest ? rest / b->segment * b->stored + b->fixed : 0);
                int64_t time = n * picoseconds(a->seconds) + rest * picoseconds(b->seconds);
                time += n && rest ? picoseconds(p->start[0]) : 0;
                if (time < c->best && all + p->between <= p->limit &&
                    (!n || first + a->transient <= p->limit) &&
                    (!rest || all + b->transient <= p->limit)) {
                    c->best = time;
                    c->known = (KeepChoice){0};
                    for (int r = 0; r < 2; r++)
                        if (r ? rest : n) {
                            c->known.range[c->known.n].kind = c->order[0][r ? k : i];
                            c->known.range[c->known.n++].iterations = r ? rest : n;
                        }
                }
            }
        }
}

static void read_ranges(const Chooser *c, uint32_t at, KeepChoice *choice)
{
    const State *s = &c->states.data[at];
    *choice = (KeepChoice){.n = s->ranges};
    for (int k = s->ranges; k-- > 0; s = &c->states.data[s->before]) {
        choice->range[k].loop = s->loop;
        choice->range[k].kind = s->kind;
        choice->range[k].iterations = s->iterations;
    }
}

/* Searches with that many states a list; a better choice becomes the known one. */
static void search_with(Chooser *c, size_t limit)
{
    c->limit = limit;
    uint32_t at = search(c);
    if (!at || c->states.data[at].time > c->best)
        return;
    read_ranges(c, at, &c->known);
    c->best = c->states.data[at].time;
}

bool keep_choose(const KeepProblem *p, KeepChoice *choice, Arena *tmp)
{
    Chooser *c = NEW(tmp, Chooser);
    *c = (Chooser){.p = p, .tmp = tmp, .best = INT64_MAX, .work = INT64_MAX};
    bool many = false;
    c->over = needed_over(p);
    for (int l = 0; l < p->loops; l++) {
        sort_kinds(c, l);
        many |= p->iterations[l] > EXACT;
    }
    find_price(c);
    try_pairs(c);
    if (many || c->best == INT64_MAX)
        search_with(c, FEW);
    /* Of many iterations the last thousandths of what recomputing takes are not worth the search,
     * nor is any time: choices are almost as many as states. */
    if (many && c->best < INT64_MAX) {
        c->slack = 0.005 * (double)c->best;
        c->work = WORK;
    }
    search_with(c, SIZE_MAX);
    if (c->best == INT64_MAX)
        return false;
    *choice = c->known;
    keep_measure(p, choice);
    return true;
}

void keep_measure(const KeepProblem *p, KeepChoice *c)
{
    int64_t stored = 0, time = 0;
    c->peak = 0;
    for (int i = 0; i < c->n; i++) {
        const KeepKind *k = &p->kind[c->range[i].loop][c->range[i].kind];
        stored += c->range[i].iterations / k->segment * k->stored + k->fixed;
        time += c->range[i].iterations * picoseconds(k->seconds);
        if (i && c->range[i - 1].loop == c->range[i].loop)
            time += picoseconds(p->start[c->range[i].loop]);
        c->peak = c->peak > stored + k->transient ? c->peak : stored + k->transient;
    }
    c->peak = c->peak > stored + p->between ? c->peak : stored + p->between;
    c->seconds = (double)time * 1e-12;
}
