/* rules.c - the rules of a mesh, by plans; see rules.h.
 *
 * First each axis by itself, as if the others had one rank: each list of splits.c has a plan
 * without decisions, and lists stay that are no other's better in both time and bytes. What one
 * axis leaves and takes of one rank's time and bytes, another leaves and takes of that, about: so
 * lists of all axes are put together, and the most promising are planned with the decisions of what
 * is kept. The best of them is improved by one change after the other, as long as that helps, and
 * the best few have whole plans. */
#include "search/rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRONT = 10,   /* lists of an axis that are put together with those of others */
    PARTIAL = 96, /* lists of some axes that are put together with those of the next */
    TOGETHER = 24,
    ROUNDS = 8,
    WHOLE = 4
};
static const double THIN = 0.01; /* shares that are no difference: of an axis by itself, */
static const double GAIN = 1e-3; /* ... and of a change */

/* Rules of all axes, with what is known of them. */
typedef struct Try {
    RuleList list[MAX_AXES];
    const char *text; /* NULL: no order of rules says so */
    double seconds, bytes;
    Tried plan;
} Try;
typedef VEC(Try) Tries;

typedef struct Finder {
    Rules *r;
    Arena *a;
    Splits splits;
    uint64_t allowed;
    Tries front[MAX_AXES];
} Finder;

/* ---- text ------------------------------------------------------------------------------------ */

static const char *axes_of(const Finder *f, const Try *t, int token, Arena *a)
{
    const char *all = "";
    for (size_t x = 0; x < f->r->axes.n; x++)
        for (int k = 0; k < t->list[x].n; k++) {
            const Token *on = &f->splits.tokens.data[t->list[x].token[k]];
            if (on->plain != token)
                continue;
            all = arena_printf(a, "%s%s%s", all, *all ? ", " : "", f->r->axes.data[x].name);
            if (on->words)
                all = arena_printf(a, "%s (%s)", all, on->words);
        }
    return all;
}

/* May this dim's rule be the next? All that stand before it on any axis have had theirs. */
static bool is_next(const Finder *f, const Try *t, int token, uint64_t done)
{
    bool there = false;
    for (size_t x = 0; x < f->r->axes.n; x++)
        for (int k = 0; k < t->list[x].n; k++) {
            const int at = f->splits.tokens.data[t->list[x].token[k]].plain;
            if (at == token) {
                there = true;
                break;
            }
            if (!(done >> at & 1) && list_has(&t->list[x], token))
                return false;
        }
    return there;
}

/* Rules of all axes, one a line: those of a dim are one, and of neighbours on the same axes, too.
 * NULL: one axis has a dim before another, and a second axis the other way round. */
static const char *rules_text(const Finder *f, const Try *t, Arena *a)
{
    const char *all = "", *line = NULL, *on = "";
    uint64_t done = 0, wanted = 0;
    for (size_t x = 0; x < f->r->axes.n; x++)
        for (int k = 0; k < t->list[x].n; k++)
            wanted |= (uint64_t)1 << f->splits.tokens.data[t->list[x].token[k]].plain;
    while (done != wanted) {
        int next = -1;
        for (size_t k = 0; k < f->splits.tokens.n && next < 0; k++)
            if ((wanted >> k & 1) && !(done >> k & 1) && is_next(f, t, (int)k, done))
                next = (int)k;
        if (next < 0)
            return NULL;
        done |= (uint64_t)1 << next;
        const char *axes = axes_of(f, t, next, a), *dim = f->splits.tokens.data[next].dim;
        if (line && !strcmp(axes, on)) {
            line = arena_printf(a, "%s, %s", line, dim);
            continue;
        }
        if (line)
            all = arena_printf(a, "%s    %s -> %s\n", all, line, on);
        line = dim;
        on = axes;
    }
    return line ? arena_printf(a, "%s    %s -> %s\n", all, line, on) : all;
}

/* Lines of a layout: the mesh with the axes that have rules, and these. */
static const char *lines_of(const Finder *f, const Try *t, Arena *a)
{
    const char *rules = rules_text(f, t, a), *mesh = "";
    for (size_t x = 0; x < f->r->axes.n; x++)
        mesh = arena_printf(a, "%s%s%s = %lld", mesh, *mesh ? ", " : "", f->r->axes.data[x].name,
                            (long long)(t->list[x].n ? f->r->axes.data[x].size : 1));
    return rules ? arena_printf(a, "    mesh %s\n%s", mesh, rules) : NULL;
}

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct Batch {
    const Finder *f;
    Tries *tries;
    TryDepth depth;
    int64_t stride; /* ranks between neighbours of the only axis; 1: as they are */
} Batch;

/* An axis by itself has the links that it has where the others are inside of it. */
static Module *elaborate(void *ctx, const char *layout, Arena *a, Device *d, int *code)
{
    const Batch *b = ctx;
    const Rules *r = b->f->r;
    Module *m = r->elaborate(r->ctx, layout, a, d, code);
    int *const spans[] = {&d->node_ranks, &d->pod_ranks, &d->machine_ranks};
    for (int k = 0; m && k < 3; k++)
        if (*spans[k] > 1 && b->stride > 1)
            *spans[k] = *spans[k] > b->stride ? (int)(*spans[k] / b->stride) : 1;
    return m;
}

static void try_one(void *ctx, int k, FILE *out)
{
    Batch *b = ctx;
    const Try *t = &b->tries->data[k];
    if (t->text)
        try_write(elaborate, b, t->text, b->depth, out);
}

/* Plans all of them, and takes out those that have no plan. */
static void plan_all(Finder *f, Tries *tries, TryDepth depth, int64_t stride)
{
    Arena *a = arena_new();
    Batch b = {f, tries, depth, stride};
    Tried *tried = NEW_ARRAY(a, Tried, tries->n + 1);
    const char **why = NEW_ARRAY(a, const char *, tries->n + 1);
    size_t n = 0;
    try_all((int)tries->n, try_one, &b, a, tried, why);
    f->r->plans += (int)tries->n;
    for (size_t k = 0; k < tries->n; k++) {
        Try t = tries->data[k];
        t.plan = tried[k];
        if (t.plan.failed && !f->r->failed++)
            f->r->why = arena_printf(f->r->arena, "%s\n%s", why[k] ? why[k] : "", t.text);
        t.seconds = t.plan.seconds;
        t.bytes = (double)t.plan.bytes;
        if (!t.plan.failed && t.plan.bytes && t.plan.seconds > 0)
            tries->data[n++] = t;
    }
    tries->n = n;
    arena_free(a);
}

static Try try_of(const Finder *f, Try t)
{
    t.text = lines_of(f, &t, f->a);
    return t;
}

/* ---- one axis -------------------------------------------------------------------------------- */

static int by_seconds(const void *x, const void *y)
{
    const Try *a = x, *b = y;
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->text, b->text);
}

static int by_product(const void *x, const void *y)
{
    const Try *a = x, *b = y;
    const double p = a->seconds * a->bytes, q = b->seconds * b->bytes;
    return p != q ? (p < q ? -1 : 1) : by_seconds(x, y);
}

/* Leaves those that are no other's better in both, and of many those with the least product. */
static void keep_front(Tries *t, size_t most)
{
    size_t n = 0;
    if (t->n)
        qsort(t->data, t->n, sizeof *t->data, by_seconds);
    double least = INFINITY;
    for (size_t k = 0; k < t->n; k++)
        if (t->data[k].bytes < least * (1 - THIN)) {
            least = t->data[k].bytes;
            t->data[n++] = t->data[k];
        }
    t->n = n;
    if (n > most) {
        qsort(t->data + 1, n - 1, sizeof *t->data, by_product); /* the fastest stays */
        t->n = most;
    }
}

/* The order of a causal mask, where a dim of the inputs is split that has one. */
static void add_zigzag(Finder *f, Tries *t)
{
    const size_t n = t->n;
    for (size_t k = 0; k < n; k++)
        for (size_t x = 0; x < f->r->axes.n; x++)
            for (int at = 0; at < t->data[k].list[x].n; at++)
                for (size_t w = 0; w < f->splits.tokens.n; w++) {
                    Try with = t->data[k];
                    const Token *token = &f->splits.tokens.data[w];
                    if (!token->words || token->plain != with.list[x].token[at])
                        continue;
                    with.list[x].token[at] = (uint8_t)w;
                    vec_push(f->a, t, try_of(f, with));
                }
}

static void front_of(Finder *f, size_t axis)
{
    Tries *t = &f->front[axis], alone = {0};
    RuleLists lists = {0};
    int64_t stride = 1;
    for (size_t x = axis + 1; x < f->r->axes.n; x++)
        stride *= f->r->axes.data[x].size;
    for (size_t k = 0; k < f->splits.tokens.n; k++) {
        Try one = {.plan = {0}};
        one.list[axis] = (RuleList){.n = 1, .token = {(uint8_t)k}};
        if (f->splits.tokens.data[k].kind != TOKEN_class && !f->splits.tokens.data[k].words)
            vec_push(f->a, &alone, try_of(f, one));
    }
    plan_all(f, &alone, TRY_rough, stride);
    uint64_t allowed = 0;
    for (size_t k = 0; k < alone.n; k++)
        allowed |= (uint64_t)1 << alone.data[k].list[axis].token[0];
    for (size_t k = 0; k < f->splits.tokens.n; k++)
        if (f->splits.tokens.data[k].kind == TOKEN_class)
            allowed |= (uint64_t)1 << k;
    f->allowed |= allowed;
    splits_lists(&f->splits, allowed, f->a, &lists);
    for (size_t k = 0; k < lists.n; k++) {
        Try one = {.plan = {0}};
        one.list[axis] = lists.data[k];
        if (lists.data[k].n > 1)
            vec_push(f->a, t, try_of(f, one));
    }
    plan_all(f, t, TRY_rough, stride);
    for (size_t k = 0; k < alone.n; k++)
        vec_push(f->a, t, alone.data[k]);
    keep_front(t, FRONT);
    Tries more = {0};
    for (size_t k = 0; k < t->n; k++)
        vec_push(f->a, &more, t->data[k]);
    const size_t had = more.n;
    add_zigzag(f, &more);
    Tries turned = {0};
    for (size_t k = had; k < more.n; k++)
        vec_push(f->a, &turned, more.data[k]);
    plan_all(f, &turned, TRY_rough, stride);
    for (size_t k = 0; k < turned.n; k++)
        vec_push(f->a, t, turned.data[k]);
    keep_front(t, FRONT);
}

/* ---- all axes -------------------------------------------------------------------------------- */

/* The most promising of all axes: half by time of those that seem to fit, half by time and bytes.
 */
static void put_together(Finder *f, const Tried *one, double budget, Tries *all)
{
    Tries now = {0};
    const Try none = {.seconds = one->seconds, .bytes = (double)one->bytes, .text = ""};
    vec_push(f->a, &now, none);
    for (size_t x = 0; x < f->r->axes.n; x++) {
        Tries next = {0};
        for (size_t k = 0; k < now.n; k++)
            for (size_t i = 0; i < f->front[x].n; i++) {
                const Try *more = &f->front[x].data[i];
                Try t = now.data[k];
                t.list[x] = more->list[x];
                t.seconds *= more->seconds / one->seconds;
                t.bytes *= more->bytes / (double)one->bytes;
                t.text = lines_of(f, &t, f->a);
                if (t.text)
                    vec_push(f->a, &next, t);
            }
        if (next.n)
            qsort(next.data, next.n, sizeof *next.data, by_product);
        next.n = next.n < PARTIAL ? next.n : PARTIAL;
        now = next;
    }
    for (size_t k = 0; k < now.n && all->n < TOGETHER / 2; k++)
        vec_push(f->a, all, now.data[k]);
    if (now.n)
        qsort(now.data, now.n, sizeof *now.data, by_seconds);
    for (size_t k = 0; k < now.n && all->n < TOGETHER; k++) {
        bool there = now.data[k].bytes > 2 * budget; /* layers may keep less */
        for (size_t i = 0; i < all->n && !there; i++)
            there = !strcmp(all->data[i].text, now.data[k].text);
        if (!there)
            vec_push(f->a, all, now.data[k]);
    }
}

/* The faster one that fits; the one of fewer bytes if none does. */
static bool is_better(const Try *t, const Try *than, double gain)
{
    if (t->plan.fits != than->plan.fits)
        return t->plan.fits;
    const double x = t->plan.fits ? t->seconds : t->bytes,
                 y = than->plan.fits ? than->seconds : than->bytes;
    return x < y * (1 - gain) || (gain == 0 && x == y && strcmp(t->text, than->text) < 0);
}

static int by_better(const void *x, const void *y)
{
    return is_better(x, y, 0) ? -1 : is_better(y, x, 0) ? 1 : 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* Is each class there only with those before it? */
static bool classes_hold(const Finder *f, const RuleList *l)
{
    const int first = (int)f->splits.tokens.n - 3;
    return (!list_has(l, first + 1) || list_has(l, first)) &&
           (!list_has(l, first + 2) || list_has(l, first + 1));
}

static void push_change(Finder *f, Tries *t, const Try *from, size_t axis, RuleList l)
{
    Try with = *from;
    with.list[axis] = l;
    with.text = l.n && classes_hold(f, &l) ? lines_of(f, &with, f->a) : NULL;
    for (size_t k = 0; k < t->n && with.text; k++)
        if (!strcmp(t->data[k].text, with.text))
            return;
    if (with.text)
        vec_push(f->a, t, with);
}

/* One dim less, or more: behind the others, or before those of the inputs. */
static void push_changes(Finder *f, Tries *t, const Try *from)
{
    for (size_t x = 0; x < f->r->axes.n; x++) {
        const RuleList l = from->list[x];
        for (int k = 0; k < l.n; k++) {
            RuleList less = l;
            memmove(&less.token[k], &less.token[k + 1], (size_t)(l.n - k - 1));
            less.n--;
            push_change(f, t, from, x, less);
        }
        for (size_t k = 0; k < f->splits.tokens.n && l.n < LIST_MAX; k++) {
            const Token *token = &f->splits.tokens.data[k];
            RuleList more = l;
            if (list_has(&l, (int)k) || token->words || !(f->allowed >> k & 1))
                continue;
            more.token[more.n++] = (uint8_t)k;
            push_change(f, t, from, x, more);
            int at = 0;
            while (at < l.n && f->splits.tokens.data[l.token[at]].kind == TOKEN_inner)
                at++;
            if (at == l.n || token->kind == TOKEN_class)
                continue;
            memmove(&more.token[at + 1], &more.token[at], (size_t)(more.n - at - 1));
            more.token[at] = (uint8_t)k;
            push_change(f, t, from, x, more);
        }
    }
}

/* Changes the best as long as that helps, a change a round. All that has a plan goes to `seen`. */
static void improve(Finder *f, Tries *seen)
{
    for (int round = 0; round < ROUNDS; round++) {
        Tries t = {0};
        size_t best = 0;
        for (size_t k = 1; k < seen->n; k++)
            if (is_better(&seen->data[k], &seen->data[best], 0))
                best = k;
        const Try from = seen->data[best];
        push_changes(f, &t, &from);
        size_t n = 0;
        for (size_t k = 0; k < t.n; k++) {
            bool known = false;
            for (size_t i = 0; i < seen->n && !known; i++)
                known = !strcmp(seen->data[i].text, t.data[k].text);
            if (!known)
                t.data[n++] = t.data[k];
        }
        t.n = n;
        plan_all(f, &t, TRY_quick, 1);
        bool better = false;
        for (size_t k = 0; k < t.n; k++) {
            better |= is_better(&t.data[k], &from, GAIN);
            vec_push(f->a, seen, t.data[k]);
        }
        if (!better)
            return;
    }
}

static Tried plan_of_one(Finder *f)
{
    Tries t = {0};
    vec_push(f->a, &t, try_of(f, (Try){.plan = {0}}));
    plan_all(f, &t, TRY_rough, 1);
    return t.n ? t.data[0].plan : (Tried){0};
}

static double budget_of(Rules *r)
{
    Arena *a = arena_new();
    Device d;
    int code = 0;
    Try none = {.plan = {0}};
    const Finder f = {.r = r, .a = a};
    const Module *m = r->elaborate(r->ctx, lines_of(&f, &none, a), a, &d, &code);
    const double bytes = m ? (double)d.memory : 0;
    arena_free(a);
    return bytes;
}

bool rules_find(Rules *r)
{
    Finder f = {.r = r, .a = r->arena};
    Tries all = {0};
    splits_of(&f.splits, r->one, f.a);
    const Tried one = plan_of_one(&f);
    if (!one.bytes || !r->axes.n || r->axes.n > MAX_AXES)
        return false;
    for (size_t x = 0; x < r->axes.n; x++)
        front_of(&f, x);
    put_together(&f, &one, budget_of(r), &all);
    plan_all(&f, &all, TRY_quick, 1);
    if (!all.n)
        return false;
    improve(&f, &all);
    qsort(all.data, all.n, sizeof *all.data, by_better);
    Tries whole = {0};
    for (size_t k = 0; k < all.n && k < WHOLE; k++)
        vec_push(f.a, &whole, all.data[k]);
    const Try first = whole.data[0];
    plan_all(&f, &whole, TRY_whole, 1);
    if (whole.n)
        qsort(whole.data, whole.n, sizeof *whole.data, by_better);
    const Try *best = whole.n && whole.data[0].plan.fits ? &whole.data[0] : &first;
    r->text = rules_text(&f, best, f.a);
    return true;
}
