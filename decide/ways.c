/* ways.c - two plans of @train, or of what generates, and which of them is better; see ways.h. */
#include "decide/ways.h"

#include "decide/make.h"
#include "plan/place/place.h"

#include <math.h>

typedef struct Price {
    double seconds; /* of a step; INFINITY: there is no plan */
    bool fits;
} Price;

static Price price_of(const Module *module, const Device *d, const Layout *as, const char *after)
{
    Arena *a = arena_new();
    const char *only = module_fn(module, "train") ? "train" : NULL;
    Module *m = module_copy(module, only, diag_silent(module->diag, a), a);
    m->layout = *as;
    m->layout.overlap = true; /* collectives have the room to run beside the rest */
    for (int k = 0; k < OFFLOAD_count; k++)
        m->layout.offload[k] = LEVEL_device;
    m->layout.optimizer = OPTIMIZER_device;
    PlanJob job = plan_compared(m, d, a, after);
    job.rough = true;
    Price price = {.seconds = INFINITY};
    if (plan_timed(&job)) {
        price.fits = plan_bytes(job.plan) <= plan_budget(m, d);
        price.seconds = plan_judged(job.plan)->seconds;
    }
    arena_free(a);
    return price;
}

Device ways_device(const Device *d)
{
    Device concurrent = *d;
    concurrent.collectives_wait = false;
    return concurrent;
}

LayoutRule *ways_rule(Layout *l, size_t rule, Arena *a)
{
    const Layout was = *l;
    l->rules.data = NULL;
    l->rules.n = l->rules.cap = 0;
    for (size_t k = 0; k < was.rules.n; k++)
        vec_push(a, &l->rules, was.rules.data[k]);
    return &l->rules.data[rule];
}

int ways_better(const Module *m, const Device *d, const Layout as[2], const char *after,
                double seconds[2])
{
    Price price[2];
    for (int k = 0; k < 2; k++) {
        price[k] = price_of(m, d, &as[k], after);
        seconds[k] = price[k].seconds;
    }
    return price[1].fits != price[0].fits ? price[1].fits : price[1].seconds < price[0].seconds;
}
