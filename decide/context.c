/* context.c - along a dim that is split, whether keys go round a ring or heads are exchanged
 * (passes/spmd/shard_heads.c), by plans that are made with both.
 *
 * A ring sends keys and values n - 1 times, and their gradients; an exchange sends a part of
 * queries, keys, values and results once. In a ring without zigzag order the last rank computes
 * twice as long as others. Where machines are between ranks an exchange goes through the link of
 * each, and a ring through one at a time. So the plan's seconds decide, with what the backward pass
 * keeps by default, as the frontier is chosen afterwards. An exchange has positions in their order:
 * where it is taken, `zigzag` goes.
 *
 * Two plans are made for a rule of a dim that attention runs along, and none for others. What they
 * say must not depend on what changes no bit: on waits for collectives (--overlap=none), on levels
 * of memory. */
#include "decide/context.h"

#include "decide/make.h"
#include "passes/spmd/shard_heads.h"
#include "plan/place/place.h"

#include <math.h>

enum { RING, HEADS };

typedef struct Price {
    double seconds; /* of a step; INFINITY: there is no plan */
    bool fits;
} Price;

static Price price_of(const Module *module, const Device *d, const Layout *as)
{
    Arena *a = arena_new();
    Module *m = module_copy(module, "train", diag_silent(module->diag, a), a);
    m->layout = *as;
    m->layout.overlap = true; /* collectives have the room to run beside the rest */
    for (int k = 0; k < OFFLOAD_count; k++)
        m->layout.offload[k] = LEVEL_device;
    m->layout.optimizer = OPTIMIZER_device;
    PlanJob job = plan_compared(m, d, a, "context");
    job.rough = true;
    Price price = {.seconds = INFINITY};
    plan_make(&job); /* what does not fit is timed as well */
    if (job.plan) {
        price.fits = plan_bytes(job.plan) <= plan_budget(m, d);
        job.after = "place";
        job.upto = "timeline";
        plan_make(&job);
        price.seconds = job.plan->train->seconds;
    }
    arena_free(a);
    return price;
}

/* The rules of a layout, of which one is to be changed. */
static LayoutRule *own_rules(Layout *l, size_t rule, Arena *a)
{
    const Layout was = *l;
    l->rules.data = NULL;
    l->rules.n = l->rules.cap = 0;
    for (size_t k = 0; k < was.rules.n; k++)
        vec_push(a, &l->rules, was.rules.data[k]);
    return &l->rules.data[rule];
}

/* Does another rule split a dim in zigzag order there? It follows this one: what lies along both is
 * dealt out alike. */
static bool others_zigzag(const Layout *l, size_t rule, Axes axis)
{
    bool any = false;
    for (size_t k = 0; k < l->rules.n; k++)
        any |= k != rule && (l->rules.data[k].zigzag & axis);
    return any;
}

static void choose(Module *m, const Device *d, size_t rule, Axes axis)
{
    Layout as[2] = {m->layout, m->layout};
    LayoutRule *ring = own_rules(&as[RING], rule, m->arena),
               *heads = own_rules(&as[HEADS], rule, m->arena);
    ring->ring |= axis;
    heads->heads |= axis;
    heads->zigzag &= ~axis;
    Module with = *m;
    with.layout = as[HEADS];
    if ((ring->zigzag & axis && others_zigzag(&m->layout, rule, axis)) ||
        !exchange_is_possible(&with, heads, axis))
        return;
    Price price[2];
    for (int k = 0; k < 2; k++)
        price[k] = price_of(m, d, &as[k]);
    const bool better = price[HEADS].fits != price[RING].fits
                            ? price[HEADS].fits
                            : price[HEADS].seconds < price[RING].seconds;
    LayoutRule *taken = better ? heads : ring;
    for (int k = 0; k < 2; k++)
        taken->compared[k] = price[k].seconds;
    m->layout = as[better ? HEADS : RING];
}

void context_choose(Module *m, const Device *device)
{
    Device concurrent = *device;
    concurrent.collectives_wait = false;
    for (size_t r = 0; r < m->layout.rules.n && module_fn(m, "train"); r++)
        for (int k = 0; k < m->layout.rules.data[r].n; k++) {
            const LayoutRule *rule = &m->layout.rules.data[r];
            const Axes axis = (Axes)1 << rule->axis[k];
            if (!rule->of && !(rule->heads | (rule->ring & axis)))
                choose(m, &concurrent, r, axis);
        }
}
