/* points.c - all points of a space, and the text of one; see space.h. */
#include "search/space.h"

#include <string.h>

#include "grammar/words.h"

enum {
    MICROBATCHES = 64, /* sequences at once, at most */
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

int64_t point_near(const Space *s, const Point *p)
{
    int64_t inside = 1; /* ranks that differ along axes inside that of experts */
    for (int i = ROLE_count - 1; i >= 0 && s->order[i] != ROLE_ep; i--)
        inside *= p->size[s->order[i]];
    const int64_t near = s->node / inside;
    const bool alike = inside <= s->node && s->node % inside == 0 && p->size[ROLE_ep] % near == 0;
    return alike && p->size[ROLE_ep] > near ? near : 0;
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

/* Are these the fewest stages, of `chunks` a rank, whose largest has so few layers? With the tables
 * at the ends as a layer each, or without: more stages wait longer for each other, and have no less
 * to do. */
static bool cuts_well(const Space *s, int64_t pp, int chunks)
{
    for (int64_t layers = s->nlayers; layers <= s->nlayers + 2; layers += 2) {
        const int64_t now = pp * chunks, fewer = now - pp;
        if ((layers + now - 1) / now < (layers + fewer - 1) / fewer)
            return true;
    }
    return false;
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
    const bool far = k->s->machines && point_near(k->s, &p);
    for (p.zero = 0; p.zero <= most; p.zero++) {
        p.offload = k->offload;
        p.once = false;
        vec_push(k->a, k->points, p);
        p.once = true;
        if (far)
            vec_push(k->a, k->points, p);
    }
}

static void with_schedule(const Maker *k, Point p)
{
    const int64_t pp = p.size[ROLE_pp], micro = point_microbatches(k->s, &p);
    p.schedule = PIPE_1F1B;
    p.chunks = 1;
    with_zero(k, p);
    if (pp == 1)
        return;
    p.schedule = PIPE_ZB_H1;
    with_zero(k, p);
    p.schedule = PIPE_INTERLEAVED; /* whose groups have as many microbatches as ranks */
    for (p.chunks = 2;
         micro >= pp && p.chunks * pp <= k->s->nlayers + 2 && p.chunks * pp <= MAX_STAGES;
         p.chunks++)
        if (cuts_well(k->s, pp, p.chunks))
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
        if (s->nbatch / ranks % n)
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

/* Of a list with commas, one more. */
static const char *and_also(Arena *a, const char *all, const char *one)
{
    return arena_printf(a, "%s%s%s", all, *all ? ", " : "", one);
}

static const char *mesh_text(const Space *s, const Point *p, Arena *a)
{
    const char *all = "";
    for (int i = 0; i < ROLE_count; i++) {
        const SearchRole r = s->order[i];
        const int64_t near = r == ROLE_ep && p->once ? point_near(s, p) : p->size[r];
        if (near < p->size[r])
            all = and_also(
                a, all, arena_printf(a, "%s = %lld", s->machines, (long long)(p->size[r] / near)));
        if (near > 1)
            all = and_also(a, all, arena_printf(a, "%s = %lld", s->axis[r], (long long)near));
    }
    return all;
}

/* Has a point the axis of a role? That of experts it has not where each machine has one rank of
 * them. */
static bool has_axis(const Space *s, const Point *p, SearchRole role)
{
    return role == ROLE_ep && p->once ? point_near(s, p) > 1 : p->size[role] > 1;
}

/* The axes of a rule that have ranks; "": none has. Machines come first in the rule of experts, and
 * last in that of batches, whose neighbours they have. */
static const char *axes_text(const Space *s, const Point *p, const SpaceRule *rule, Arena *a)
{
    const bool experts = s->experts && !strcmp(rule->dims, s->experts);
    const char *all = "";
    bool over = false;
    for (size_t i = 0; i < rule->axes.n; i++)
        over |= p->once && rule->axes.data[i].role == ROLE_ep;
    if (over && experts)
        all = arena_printf(a, "%s (%s)", s->machines, axis_options[AXIS_once]);
    for (size_t i = 0; i < rule->axes.n; i++) {
        const SpaceAxis *x = &rule->axes.data[i];
        if (!has_axis(s, p, x->role))
            continue;
        all = and_also(a, all, s->axis[x->role]);
        if (x->words)
            all = arena_printf(a, "%s (%s)", all, x->words);
    }
    return over && !experts ? and_also(a, all, s->machines) : all;
}

static const char *data_axes(const Space *s, const Point *p, Arena *a)
{
    const char *all = "";
    for (int i = 0; i < ROLE_count; i++) {
        const SearchRole r = s->order[i];
        if (r == ROLE_ep && p->once)
            all = and_also(a, all, s->machines);
        if ((r == ROLE_dp || r == ROLE_ep || r == ROLE_cp) && has_axis(s, p, r))
            all = and_also(a, all, s->axis[r]);
    }
    return all;
}

static const char *stages_text(const Space *s, const Point *p, Arena *a)
{
    const char *chunks =
        p->chunks > 1 ? arena_printf(a, ", %s = %d", axis_options[AXIS_chunks], p->chunks) : "";
    return arena_printf(a, "    %s -> %s (%s = %s%s)\n", s->layers, s->axis[ROLE_pp],
                        axis_options[AXIS_schedule], pipe_schedule_name(p->schedule), chunks);
}

/* ZeRO's classes up to a level: "state, grads". */
static const char *classes_text(int zero, Arena *a)
{
    const char *all = class_names[CLASS_state];
    for (int k = CLASS_state + 1; k <= zero; k++)
        all = arena_printf(a, "%s, %s", all, class_names[k]);
    return all;
}

const char *point_text(const Space *s, const Point *p, const char *name, const char *device,
                       Arena *a)
{
    const char *mesh = mesh_text(s, p, a);
    int64_t ranks = 1;
    for (int k = 0; k < ROLE_count; k++)
        ranks *= p->size[k];
    const char *all = arena_printf(a, "layout %s {\n", name);
    if (device)
        all = arena_printf(a, "%s    %s %s", all, setting_names[SETTING_device], device);
    if (device)
        all = ranks > 1 ? arena_printf(a, "%s x %lld\n", all, (long long)ranks)
                        : arena_printf(a, "%s\n", all);
    if (*mesh)
        all = arena_printf(a, "%s    %s %s\n", all, setting_names[SETTING_mesh], mesh);
    for (size_t i = 0; i < s->rules.n; i++) {
        const SpaceRule *rule = &s->rules.data[i];
        const char *axes = axes_text(s, p, rule, a);
        if (*axes && (p->sequence || !rule->optional))
            all = arena_printf(a, "%s    %s -> %s\n", all, rule->dims, axes);
    }
    if (p->size[ROLE_pp] > 1)
        all = arena_printf(a, "%s%s", all, stages_text(s, p, a));
    if (p->zero)
        all =
            arena_printf(a, "%s    %s -> %s\n", all, classes_text(p->zero, a), data_axes(s, p, a));
    all = arena_printf(a, "%s    %s %lld\n", all, setting_names[SETTING_microbatch],
                       (long long)p->microbatch);
    if (s->recompute)
        all = arena_printf(a, "%s    %s\n", all, s->recompute);
    else
        all = arena_printf(a, "%s    %s %s\n", all, setting_names[SETTING_recompute],
                           recompute_names[RECOMPUTE_auto]);
    if (s->offload)
        all = arena_printf(a, "%s    %s\n", all, s->offload);
    else
        all = arena_printf(a, "%s    %s %s\n", all, setting_names[SETTING_offload],
                           offload_ways[p->offload ? OFFLOAD_WAY_auto : OFFLOAD_WAY_none]);
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
        if (r == ROLE_ep && p->once)
            all = arena_printf(a, "%s %s", all, axis_options[AXIS_once]);
        if (r == ROLE_pp && p->schedule == PIPE_ZB_H1)
            all = arena_printf(a, "%s %s", all, pipe_schedule_name(p->schedule));
    }
    if (s->sequence && p->size[ROLE_tp] > 1)
        all = arena_printf(a, "%s%s", all, p->sequence ? " with positions" : " without positions");
    if (p->zero)
        all = arena_printf(a, "%s, ZeRO %d", all, p->zero);
    return arena_printf(a, "%s%smicrobatch %lld%s", all, *all ? ", " : "", (long long)p->microbatch,
                        p->offload ? arena_printf(a, ", %s %s", setting_names[SETTING_offload],
                                                  offload_ways[OFFLOAD_WAY_auto])
                                   : "");
}
