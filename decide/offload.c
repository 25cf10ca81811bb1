/* offload.c - what is offloaded, by plans that are made with it.
 *
 * Each way is planned with what the backward part keeps best then (frontier.c): where something
 * leaves, layers may keep more, so transfers are weighed against what is computed again. What moves
 * once a step leaves before what moves with each microbatch; of that, what is kept, of which the
 * frontier takes as many layers as it wants; then parameters, which only come; then gradients,
 * which come and go. The fastest that fits is taken. If nothing has to leave and next to nothing is
 * computed again, no other way is tried, for transfers only take time. */
#include "decide/offload.h"
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

typedef struct Way {
    Level level[OFFLOAD_count];
} Way;

typedef struct Tried {
    bool fits;
    double seconds, again;
    int64_t always; /* bytes that no way to recompute changes: parameters, state and gradients */
    int64_t of[OFFLOAD_count]; /* of those, of each class */
} Tried;

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

static Tried try(const Module *module, const Device *d, const Way *w)
{
    Arena *a = arena_new();
    Module *m = module_copy(module, NULL, diag_silent(module->diag, a), a);
    m->layout = with(module, w);
    const bool open = m->layout.recompute == RECOMPUTE_auto && module_fn(m, "train");
    if (open && w->level[OFFLOAD_kept] && !least_fits(m, d, a)) {
        arena_free(a);
        return (Tried){0};
    }
    const KeepPlan *kept = open ? frontier_choose(m, d, a) : NULL;
    Plan *p = frontier_plan(m, d, kept, NULL, a);
    Tried t = {.fits = fits(p, m, d)};
    if (p)
        count(p, &t);
    if (t.fits) {
        plan_streams(p);
        plan_timeline(p);
        t.seconds = p->train->seconds;
        t.again = p->train->again;
    }
    arena_free(a);
    return t;
}

/* The level below the device's memory that is nearest; LEVEL_device: there is none. */
static Level below(const Device *d)
{
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++)
        if (d->level[l].memory)
            return (Level)l;
    return LEVEL_device;
}

/* Could it fit, if all bytes of the classes of a way left the device? `nothing` was tried. */
static bool may_fit(const Module *m, const Device *d, const Tried *nothing, unsigned which)
{
    int64_t left = nothing->always;
    for (int k = 0; k < OFFLOAD_count; k++)
        left -= which >> k & 1 ? nothing->of[k] : 0;
    return left <= plan_budget(m, d);
}

static bool has_masters(const Module *m)
{
    return m->train.half != DT_none; /* pass round makes them of what is rounded */
}

void offload_choose(Module *m, const Device *d)
{
    const Level to = below(d);
    Way best = {0};
    if (!m->layout.offload_auto)
        return;
    const Tried nothing = to ? try(m, d, &best) : (Tried){0};
    Tried least = nothing;
    for (size_t n = 0; to && n < sizeof ways / sizeof *ways; n++) {
        unsigned which = ways[n];
        Way w = {0};
        const bool last = n + 1 == sizeof ways / sizeof *ways;
        if (least.fits && (last || least.again <= LITTLE * least.seconds))
            break;
        if (!has_masters(m)) {
            if (which == MASTERS || which == (STATE | MASTERS))
                continue;
            which &= ~(unsigned)MASTERS;
        }
        if (!may_fit(m, d, &nothing, which))
            continue;
        for (int k = 0; k < OFFLOAD_count; k++)
            w.level[k] = which >> k & 1 ? to : LEVEL_device;
        const Tried t = try(m, d, &w);
        if (t.fits && (!least.fits || t.seconds < least.seconds)) {
            least = t;
            best = w;
        }
    }
    m->layout = with(m, &best);
}
