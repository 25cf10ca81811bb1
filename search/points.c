/* points.c - all points of a space, and the text of one; see space.h. */
#include "search/space.h"

#include <string.h>

enum {
    MICROBATCHES = 64, /* sequences at once, at most */
    SMALL = 4,         /* of a microbatch: up to here every number, then powers of two alone */
    CONTEXT = 64       /* ranks that share a sequence, at most */
};

int64_t point_data(const Point *p)
{
    return p->size[ROLE_dp] * p->size[ROLE_ep] * p->size[ROLE_cp];
}

int64_t point_microbatches(const Space *s, const Point *p)
{
    return s->nbatch / (p->size[ROLE_dp] * p->size[ROLE_ep] * p->microbatch);
}

static bool power_of_two(int64_t n)
{
    return (n & (n - 1)) == 0;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Ranks of a role in any layout that could be legal, at most. That more heads than there are do not
 * divide, and the like, the compiler finds. */
static int64_t most_of(const Space *s, SearchRole role)
{
    if (!s->axis[role] || (role == ROLE_ep && !s->nexperts))
        return 1;
    return role == ROLE_pp   ? s->nlayers + 2
           : role == ROLE_dp ? s->nbatch
           : role == ROLE_ep ? s->nexperts
           : role == ROLE_cp ? CONTEXT
                             : 2 * s->node; /* whose sums are of every layer: two neighbours' */
}

static bool may_have(const Space *s, SearchRole role, int64_t n)
{
    if (s->fixed[role])
        return n == s->fixed[role];
    return n == 1 ||
           ((role != ROLE_ep || s->nexperts % n == 0) && (role != ROLE_cp || s->nseq % n == 0));
}

/* Stages that layers are cut into evenly, or but for two at the ends, which have the tables. */
static bool cuts_evenly(const Space *s, int64_t stages)
{
    return stages <= s->nlayers + 2 && stages <= MAX_STAGES &&
           (s->nlayers % stages == 0 || (s->nlayers + 2) % stages == 0);
}

typedef struct Maker {
    const Space *s;
    Arena *a;
    Points *points;
    bool offload;
} Maker;

static void with_zero(const Maker *k, Point p)
{
    const int most = point_data(&p) > 1 ? 3 : 0;
    for (p.zero = 0; p.zero <= most; p.zero++) {
        p.offload = k->offload;
        vec_push(k->a, k->points, p);
    }
}

static void with_schedule(const Maker *k, Point p)
{
    const int64_t pp = p.size[ROLE_pp], micro = point_microbatches(k->s, &p);
    p.schedule = SCHEDULE_1f1b;
    p.chunks = 1;
    with_zero(k, p);
    if (pp == 1)
        return;
    p.schedule = SCHEDULE_zb_h1;
    with_zero(k, p);
    p.schedule = SCHEDULE_interleaved; /* whose groups have as many microbatches as ranks */
    for (p.chunks = 2;
         micro >= pp && p.chunks * pp <= k->s->nlayers + 2 && p.chunks * pp <= MAX_STAGES;
         p.chunks++)
        if (cuts_evenly(k->s, p.chunks * pp))
            with_zero(k, p);
}

static void with_microbatch(const Maker *k, Point p)
{
    const Space *s = k->s;
    const int64_t ranks = p.size[ROLE_dp] * p.size[ROLE_ep];
    if (s->nbatch % ranks)
        return;
    const int64_t most = s->microbatch ? s->microbatch : MICROBATCHES;
    for (int64_t n = s->microbatch ? most : 1; n <= most && n <= s->nbatch / ranks; n++) {
        if (s->nbatch / ranks % n || (!s->microbatch && n > SMALL && !power_of_two(n)))
            continue;
        p.microbatch = n;
        p.sequence = false;
        if (p.size[ROLE_tp] > 1 && s->sequence) {
            with_schedule(k, p);
            p.sequence = true;
        }
        with_schedule(k, p);
    }
}

static void with_axes(const Maker *k, Point p, int role, int64_t ranks)
{
    if (role == ROLE_count) {
        if (ranks == 1)
            with_microbatch(k, p);
        return;
    }
    const int64_t most = most_of(k->s, (SearchRole)role);
    for (int64_t n = 1; n <= ranks && n <= most; n++) {
        if (ranks % n || !may_have(k->s, (SearchRole)role, n))
            continue;
        p.size[role] = n;
        with_axes(k, p, role + 1, ranks / n);
    }
}

void space_points(const Space *s, int64_t ranks, bool offload, Arena *a, Points *points)
{
    const Maker k = {s, a, points, offload};
    with_axes(&k, (Point){0}, 0, ranks);
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *const schedule_words[SCHEDULE_count] = {"1f1b", "interleaved", "zb-h1"};

static const char *mesh_text(const Space *s, const Point *p, Arena *a)
{
    const char *all = "";
    for (int i = 0; i < ROLE_count; i++) {
        const SearchRole r = s->order[i];
        if (p->size[r] > 1)
            all = arena_printf(a, "%s%s%s = %lld", all, *all ? ", " : "", s->axis[r],
                               (long long)p->size[r]);
    }
    return all;
}

/* The axes of a rule that have ranks; "": none has. */
static const char *axes_text(const Space *s, const Point *p, const SpaceRule *rule, Arena *a)
{
    const char *all = "";
    for (size_t i = 0; i < rule->axes.n; i++) {
        const SpaceAxis *x = &rule->axes.data[i];
        if (p->size[x->role] == 1)
            continue;
        all = arena_printf(a, "%s%s%s", all, *all ? ", " : "", s->axis[x->role]);
        if (x->words)
            all = arena_printf(a, "%s (%s)", all, x->words);
    }
    return all;
}

static const char *data_axes(const Space *s, const Point *p, Arena *a)
{
    const char *all = "";
    for (int i = 0; i < ROLE_count; i++) {
        const SearchRole r = s->order[i];
        if ((r == ROLE_dp || r == ROLE_ep || r == ROLE_cp) && p->size[r] > 1)
            all = arena_printf(a, "%s%s%s", all, *all ? ", " : "", s->axis[r]);
    }
    return all;
}

static const char *stages_text(const Space *s, const Point *p, Arena *a)
{
    const char *chunks = p->chunks > 1 ? arena_printf(a, ", chunks = %d", p->chunks) : "";
    return arena_printf(a, "    %s -> %s (schedule = %s%s)\n", s->layers, s->axis[ROLE_pp],
                        schedule_words[p->schedule], chunks);
}

const char *point_text(const Space *s, const Point *p, const char *name, const char *device,
                       Arena *a)
{
    static const char *const classes[] = {"", "state", "state, grads", "state, grads, params"};
    const char *mesh = mesh_text(s, p, a);
    int64_t ranks = 1;
    for (int k = 0; k < ROLE_count; k++)
        ranks *= p->size[k];
    const char *all = arena_printf(a, "layout %s {\n", name);
    if (device && ranks > 1)
        all = arena_printf(a, "%s    device %s x %lld\n", all, device, (long long)ranks);
    else if (device)
        all = arena_printf(a, "%s    device %s\n", all, device);
    if (*mesh)
        all = arena_printf(a, "%s    mesh %s\n", all, mesh);
    for (size_t i = 0; i < s->rules.n; i++) {
        const SpaceRule *rule = &s->rules.data[i];
        const char *axes = axes_text(s, p, rule, a);
        if (*axes && (p->sequence || !rule->optional))
            all = arena_printf(a, "%s    %s -> %s\n", all, rule->dims, axes);
    }
    if (p->size[ROLE_pp] > 1)
        all = arena_printf(a, "%s%s", all, stages_text(s, p, a));
    if (p->zero)
        all = arena_printf(a, "%s    %s -> %s\n", all, classes[p->zero], data_axes(s, p, a));
    all = arena_printf(a, "%s    microbatch %lld\n    %s\n    %s\n", all, (long long)p->microbatch,
                       s->recompute ? s->recompute : "recompute auto",
                       s->offload   ? s->offload
                       : p->offload ? "offload auto"
                                    : "offload none");
    for (size_t i = 0; i < s->settings.n; i++)
        all = arena_printf(a, "%s    %s\n", all, s->settings.data[i]);
    return arena_printf(a, "%s}\n", all);
}

const char *point_label(const Space *s, const Point *p, Arena *a)
{
    const char *all = "";
    for (int i = 0; i < ROLE_count; i++) {
        const SearchRole r = s->order[i];
        if (p->size[r] == 1)
            continue;
        all = arena_printf(a, "%s%s%s %lld", all, *all ? ", " : "", s->axis[r],
                           (long long)p->size[r]);
        if (r == ROLE_pp && p->chunks > 1)
            all = arena_printf(a, "%s x %d", all, p->chunks);
        if (r == ROLE_pp && p->schedule == SCHEDULE_zb_h1)
            all = arena_printf(a, "%s zb-h1", all);
    }
    if (s->sequence && p->size[ROLE_tp] > 1)
        all = arena_printf(a, "%s%s", all, p->sequence ? " with positions" : " without positions");
    if (p->zero)
        all = arena_printf(a, "%s, ZeRO %d", all, p->zero);
    return arena_printf(a, "%s%smicrobatch %lld%s", all, *all ? ", " : "", (long long)p->microbatch,
                        p->offload ? ", offload auto" : "");
}
