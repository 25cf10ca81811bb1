/* fetches.c - where what is fetched for the next iteration comes in this one.
 *
 *   compute   dw(down) ------- ... ------------- dx(down) ------ ... ------- end
 *   fetches   x  wq  wk        gate   up               a   b   down'     (here, not first)
 *
 * Fetches run one after the other, in the order of the program. One that an action of the stretch
 * reads has to be there in time; one for the next iteration may begin once the last action is done
 * that reads what lies in its place, and ends with the stretch. It goes before the first of the
 * others that waits long enough for all of them to come in time all the same. Times are those of
 * what computes, one action after the other. */
#include "plan/order/streams.h"

#include <math.h>
#include <string.h>

typedef struct Fetch {
    int at;            /* in the stretch */
    double ready, due; /* seconds: when its place is free; when it is read: INFINITY: not here */
    double latest;     /* of the urgent ones: to begin, so that all after it are in time, too */
    int behind;        /* the action whose end makes its place free, in the stretch; -1: none */
    bool done;
} Fetch;

typedef struct Stretch {
    const Action *act;
    int n;
    const double *begin; /* per action: when it begins, by what computes before it */
    VEC(Fetch) all;
    VEC(int) order; /* of actions, by place in the stretch */
} Stretch;

static Fetch fetch_at(const Plan *p, const Program *g, const Stretch *s, int at)
{
    Fetch f = {.at = at, .due = INFINITY, .behind = -1};
    for (int k = 0; k < s->n; k++) {
        if (k == at || !conflict(p, g, &s->act[k], &s->act[at], false))
            continue;
        if (k < at) {
            f.behind = k;
            f.ready = s->begin[k] + s->act[k].seconds;
        } else {
            f.due = s->begin[k];
            break;
        }
    }
    return f;
}

static void read_fetches(const Plan *p, const Program *g, Stretch *s, Arena *tmp)
{
    double *begin = NEW_ARRAY(tmp, double, s->n + 1), now = 0;
    for (int i = 0; i < s->n; i++) {
        begin[i] = now;
        now += action_transfers(&s->act[i]) ? 0 : s->act[i].seconds;
    }
    s->begin = begin;
    for (int i = 0; i < s->n; i++)
        if (s->act[i].kind == ACT_fetch)
            vec_push(tmp, &s->all, fetch_at(p, g, s, i));
    double latest = INFINITY;
    for (size_t k = s->all.n; k-- > 0;) {
        Fetch *f = &s->all.data[k];
        if (isinf(f->due))
            continue;
        f->latest = latest = fmin(f->due, latest) - s->act[f->at].seconds;
    }
}

/* Fetches for the next iteration that come before an urgent one: those that delay nothing. */
static double come_before(Stretch *s, const Fetch *urgent, double now, Arena *tmp)
{
    for (size_t k = 0; k < s->all.n; k++) {
        Fetch *f = &s->all.data[k];
        const double seconds = s->act[f->at].seconds;
        if (f->done || !isinf(f->due) || f->behind >= urgent->at ||
            fmax(now, f->ready) + seconds > urgent->latest)
            continue;
        now = fmax(now, f->ready) + seconds;
        f->done = true;
        vec_push(tmp, &s->order, f->at);
    }
    return now;
}

/* The urgent fetch at place `at`, or NULL if none is there. */
static Fetch *urgent_at(const Stretch *s, int at)
{
    for (size_t k = 0; k < s->all.n; k++)
        if (s->all.data[k].at == at && !isinf(s->all.data[k].due))
            return &s->all.data[k];
    return NULL;
}

static bool is_for_next(const Stretch *s, int at)
{
    return s->act[at].kind == ACT_fetch && !urgent_at(s, at);
}

bool place_fetches(const Plan *p, Program *g, int from, int end, Arena *tmp)
{
    Stretch s = {.act = g->actions.data + from, .n = end - from};
    bool moved = false;
    read_fetches(p, g, &s, tmp);
    double now = 0;
    for (int i = 0; i < s.n; i++) {
        const Fetch *f = urgent_at(&s, i);
        if (is_for_next(&s, i))
            continue;
        if (f) {
            now = come_before(&s, f, now, tmp);
            now = fmax(now, f->ready) + s.act[i].seconds;
        }
        vec_push(tmp, &s.order, i);
    }
    for (size_t k = 0; k < s.all.n; k++)
        if (!s.all.data[k].done && isinf(s.all.data[k].due))
            vec_push(tmp, &s.order, s.all.data[k].at);
    Action *was = NEW_ARRAY(tmp, Action, s.n + 1);
    memcpy(was, s.act, sizeof *was * (size_t)s.n);
    for (int i = 0; i < s.n; i++) {
        moved |= s.order.data[i] != i;
        g->actions.data[from + i] = was[s.order.data[i]];
    }
    return moved;
}
