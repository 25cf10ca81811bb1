/* offload.c - what is offloaded, by plans that are made with it.
 *
 * Each way is planned with what the backward part keeps best then (frontier.c): where something
 * leaves, layers may keep more, so transfers are weighed against what is computed again. What moves
 * once a step leaves before what moves with each microbatch; of that, what is kept, of which the
 * frontier takes as many layers as it wants; then parameters, which only come; then gradients,
 * which come and go. The fastest that fits is taken. If nothing has to leave and next to nothing is
 * computed again, no other way is tried, for transfers only take time. As many ways are planned at
 * once as there are processors; what is taken is what one after the other would take. */
#include "decide/offload.h"

#include <string.h>

#include "base/parallel.h"
#include "decide/frontier.h"
#include "decide/make.h"
#include "passes/levels/levels.h"
#include "plan/levels.h"
#include "plan/order/order.h"
#include "plan/place/place.h"

/* Of a step's time: what is computed again that is not worth another try. */
static const double LITTLE = 0.01;

enum {
    STATE = 1 << OFFLOAD_state,
    MASTERS = 1 << OFFLOAD_masters,
    PARAMETERS = 1 << OFFLOAD_parameters,
    GRADIENTS = 1 << OFFLOAD_gradients,
    KEPT = 1 << OFFLOAD_kept
};

/* The ways, as sets of classes, behind nothing. */
static const unsigned ways[] = {
    STATE,
    MASTERS,
    STATE | MASTERS,
    STATE | MASTERS | KEPT,
    STATE | MASTERS | KEPT | PARAMETERS,
    STATE | MASTERS | KEPT | GRADIENTS,
    STATE | MASTERS | KEPT | PARAMETERS | GRADIENTS,
    STATE | MASTERS | PARAMETERS | GRADIENTS, /* where the level below has no room for more */
};

enum { WAYS = sizeof ways / sizeof *ways };

typedef struct Way {
    Level level[OFFLOAD_count];
} Way;

typedef struct Tried {
    bool fits;
    double seconds, again;
    int64_t always; /* bytes that no way to recompute changes: parameters, state and gradients */
    int64_t of[OFFLOAD_count]; /* of those, of each class; what is kept is not counted */
    bool planned;
} Tried;

/* The ways that are tried, in order. */
typedef struct Search {
    const Module *m;
    const Device *d;
    int n, first; /* ways, and of those that are being planned the first */
    unsigned which[WAYS];
    Way way[WAYS];
} Search;

static Layout with(const Module *m, const Way *w)
{
    Layout l = m->layout;
    for (int k = 0; k < OFFLOAD_count; k++)
        l.offload[k] = w->level[k];
    l.offload_auto = false;
    return l;
}

static void count(const Plan *p, Tried *t)
{
    t->planned = true;
    t->always = p->persistent_bytes + p->memory[OWN_grads];
    for (size_t k = 0; k < p->module->tensors.n; k++) {
        const Tensor *x = &p->module->tensors.data[k];
        const OffloadClass class = levels_class(x);
        if (class < OFFLOAD_count)
            t->of[class] += p->buffers.data[p->tensor_buffer.data[k]].bytes;
        if (x->stacked && !x->slot) /* sums of gradients are f32 at most, or f64 as all is */
            t->of[OFFLOAD_gradients] += type_elements(&x->type) * (x->type.dtype == DT_f64 ? 8 : 4);
    }
    if (t->of[OFFLOAD_gradients] > p->memory[OWN_grads])
        t->of[OFFLOAD_gradients] = p->memory[OWN_grads];
}

static bool fits(const Plan *p, const Module *m, const Device *d)
{
    return p && p->train && plan_bytes(p) <= plan_budget(m, d) && levels_fit(p) &&
           levels_asserted(p);
}

/* The least fits? Where what is kept leaves, nothing needs less than to keep no more than each
 * layer's input. */
static bool least_fits(const Module *module, const Device *d, Arena *a)
{
    Module *m = module_copy(module, NULL, module->diag, a);
    m->layout.recompute = RECOMPUTE_all;
    return fits(frontier_plan(m, d, NULL, NULL, a), m, d);
}

/* kept: what the backward part keeps best then, in a. */
static Tried try(const Module *module, const Device *d, const Way *w, Arena *a,
                 const KeepPlan **kept)
{
    Arena *tmp = arena_new();
    Module *m = module_copy(module, NULL, diag_silent(module->diag, tmp), tmp);
    m->layout = with(module, w);
    const bool open = m->layout.recompute == RECOMPUTE_auto && module_fn(m, "train");
    *kept = NULL;
    if (open && w->level[OFFLOAD_kept] && !least_fits(m, d, tmp)) {
        arena_free(tmp);
        return (Tried){0};
    }
    if (open)
        *kept = frontier_choose(m, d, a);
    Plan *p = frontier_plan(m, d, *kept, NULL, tmp);
    Tried t = {.fits = fits(p, m, d)};
    if (p)
        count(p, &t);
    if (t.fits) {
        plan_streams(p);
        plan_timeline(p);
        t.seconds = p->train->seconds;
        t.again = p->train->again;
    }
    arena_free(tmp);
    return t;
}

static void try_way(void *ctx, int k, FILE *out)
{
    const Search *s = ctx;
    Arena *tmp = arena_new();
    const KeepPlan *kept;
    const Tried t = try(s->m, s->d, &s->way[s->first + k], tmp, &kept);
    fwrite(&t, sizeof t, 1, out);
    keep_write(out, kept, s->m->values.n);
    arena_free(tmp);
}

/* The level below the device's memory that is nearest; LEVEL_device: there is none. */
static Level below(const Device *d)
{
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++)
        if (d->level[l].memory)
            return (Level)l;
    return LEVEL_device;
}

/* Could it fit, if all bytes of the classes of a way left the device for a level? `nothing` was
 * tried. Tensors leave as a whole; of gradients the bytes there are an estimate. Stages of a
 * pipeline have each their own, so that the level's are not the sum. */
static bool may_fit(const Module *m, const Device *d, const Tried *nothing, unsigned which,
                    Level to)
{
    int64_t left = nothing->always, there = 0;
    for (int k = 0; k < OFFLOAD_count; k++) {
        const int64_t bytes = which >> k & 1 ? nothing->of[k] : 0;
        left -= bytes;
        there += k == OFFLOAD_gradients ? 0 : bytes;
    }
    return left <= plan_budget(m, d) &&
           (m->layout.pipeline.axis || there <= levels_share(m, d, to).memory);
}

static bool has_masters(const Module *m)
{
    return m->train.half != DT_none; /* pass round makes them of what is rounded */
}

/* The ways that may fit, each once: a class that has no bytes is in none. */
static void list_ways(Search *s, const Tried *nothing, Level to)
{
    for (int n = 0; n < WAYS; n++) {
        unsigned which = ways[n];
        bool tried = false;
        if (!has_masters(s->m))
            which &= ~(unsigned)MASTERS;
        for (int k = 0; k < OFFLOAD_count; k++)
            if (nothing->planned && k != OFFLOAD_kept && !nothing->of[k])
                which &= ~(1u << k);
        for (int i = 0; i < s->n; i++)
            tried = tried || s->which[i] == which;
        if (tried || !which || !may_fit(s->m, s->d, nothing, which, to))
            continue;
        for (int k = 0; k < OFFLOAD_count; k++)
            s->way[s->n].level[k] = which >> k & 1 ? to : LEVEL_device;
        s->which[s->n++] = which;
    }
}

/* No other way is worth a try: of the last, which keeps nothing below, only whether it fits counts.
 */
static bool enough(const Search *s, int n, const Tried *least)
{
    const unsigned way = s->which[n];
    const bool last = way & (PARAMETERS | GRADIENTS) && !(way & KEPT);
    return least->fits && (last || least->again <= LITTLE * least->seconds);
}

/* As many of the next ways as are planned at once: the last one waits for what the others give. */
static int at_once(const Search *s, int n)
{
    int count = 1;
    while (count < parallel_most() && n + count < s->n && s->which[n + count] & KEPT)
        count++;
    return count;
}

/* The faster of `least` and what was tried with a way. */
static void take(const Search *s, int n, const Written *w, Tried *least, Way *best, Arena *a,
                 const KeepPlan **kept)
{
    Tried t;
    const KeepPlan *k;
    if (w->n < sizeof t)
        return;
    memcpy(&t, w->bytes, sizeof t);
    if (!t.fits || (least->fits && t.seconds >= least->seconds))
        return;
    if (!keep_read(w->bytes + sizeof t, w->n - sizeof t, s->m->values.n, a, &k))
        return;
    *least = t;
    *best = s->way[n];
    *kept = k;
}

bool offload_choose(Module *m, const Device *d, Arena *a, const KeepPlan **kept)
{
    const Level to = below(d);
    Way best = {0};
    *kept = NULL;
    if (!m->layout.offload_auto)
        return false;
    if (to) {
        Arena *tmp = arena_new();
        Search s = {.m = m, .d = d};
        Tried least = try(m, d, &best, a, kept);
        list_ways(&s, &least, to);
        for (int count; s.first < s.n && !enough(&s, s.first, &least); s.first += count) {
            Written w[WAYS];
            count = at_once(&s, s.first);
            parallel_map(count, try_way, &s, tmp, w);
            for (int k = 0; k < count && !enough(&s, s.first + k, &least); k++)
                take(&s, s.first + k, &w[k], &least, &best, a, kept);
        }
        arena_free(tmp);
    }
    m->layout = with(m, &best);
    return to && m->layout.recompute == RECOMPUTE_auto && module_fn(m, "train");
}
