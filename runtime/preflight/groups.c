/* groups.c - the collectives of a step, each group of ranks at its planned size, by the calls that
 * the step makes. Equal ones are measured once. Operands lie at the begin of the arena, which has
 * room for them, as they are there together in the plan. */
#include <math.h>
#include <stdlib.h>

#include "runtime/preflight/flight.h"
#include "runtime/sizes.h"

/* Weak, so that programs without collectives, which measure none, link no NCCL for it. */
extern __typeof(mg_comm) mg_comm __attribute__((weak));

enum { LEAST_TIMES = 4, MOST_TIMES = 40, ALIGN = 256, TRIES = 4 };
#define ENOUGH 0.03 /* predicted seconds of the repetitions of one */

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Seconds of the fastest repetition. Their number is the same on all ranks. */
static double measure(mg_run *r, const mg_planned *p)
{
    const mg_comm_desc *d = p->comm;
    const double predicted = 1e-6 * r->program->actions[p->action].predicted_us;
    const double wanted = predicted > 0 ? ENOUGH / predicted : MOST_TIMES;
    const int times = wanted < LEAST_TIMES  ? LEAST_TIMES
                      : wanted > MOST_TIMES ? MOST_TIMES
                                            : (int)wanted;
    const int64_t width = mg_dtype_bytes(d->dtype);
    const int64_t x = aligned(d->outer * d->size * d->inner * width);
    const int64_t y = aligned(mg_comm_elements(d) * width);
    double best = 1e9;
    for (int i = 0; i <= times; i++) {
        const int64_t began = rt_now_ns();
        mg_comm(r, p->action, d, r->arena, r->arena + x, r->arena + x + y);
        rt_device_wait(r);
        if (i) /* the first is without a measure: connections are made, pages come */
            best = fmin(best, 1e-9 * (double)(rt_now_ns() - began));
    }
    r->action = -1;
    return best;
}

static bool fits(const mg_run *r, const mg_comm_desc *d)
{
    const int64_t width = mg_dtype_bytes(d->dtype);
    return aligned(d->outer * d->size * d->inner * width) + aligned(mg_comm_elements(d) * width) +
               (r->program->cuda_kernels ? mg_comm_work(d) : 0) <=
           r->program->arena_bytes;
}

/* The time of a group is that of its last rank. */
static rt_group judge(const rt_flight *f, const mg_planned *p, const double *of)
{
    const mg_program *program = f->run->program;
    const uint32_t others = ~p->comm->axes & (((uint32_t)1 << program->naxes) - 1);
    const int n = rt_ranks_of(program, others);
    double *group = rt_alloc((size_t)n, sizeof *group);
    rt_group g = {.planned = p, .groups = n, .slowest = -1};
    int slowest = 0;
    for (int i = 0; i < f->n; i++) {
        const int k = rt_place_of(program, i, others);
        group[k] = fmax(group[k], of[i]);
    }
    for (int k = 0; k < n; k++)
        slowest = group[k] > group[slowest] ? k : slowest;
    for (int i = f->n - 1; i >= 0; i--)
        g.slowest = rt_place_of(program, i, others) == slowest ? i : g.slowest;
    g.seconds = group[slowest];
    g.median = rt_median(group, n);
    free(group);
    return g;
}

static bool is_first(const mg_program *p, int k)
{
    for (int i = 0; i < k; i++)
        if (p->planned[i].comm == p->planned[k].comm)
            return false;
    return true;
}

/* One that seems late is measured again: other work of a machine may have held it up. */
static rt_group settle(rt_flight *f, const mg_planned *p, double *best, double *now)
{
    mg_run *r = f->run;
    rt_group g = {.planned = p};
    bool again = true;
    for (int k = 0; k < TRIES && again; k++) {
        rt_meet(r, RT_ALL_AXES);
        const double mine = measure(r, p);
        rt_gather_to_leader(r, &mine, now, sizeof mine);
        for (int i = 0; !r->rank && i < f->n; i++)
            best[i] = k ? fmin(best[i], now[i]) : now[i];
        if (!r->rank) {
            g = judge(f, p, best);
            again = rt_is_fault(f, &g);
        }
        rt_ranks_share(r, &again, sizeof again);
    }
    return g;
}

void rt_groups(rt_flight *f)
{
    const mg_program *p = f->run->program;
    double *all = rt_alloc((size_t)f->n, 2 * sizeof *all);
    for (int k = 0; k < p->nplanned; k++) {
        const mg_planned *one = &p->planned[k];
        if (!is_first(p, k) || !fits(f->run, one->comm))
            continue;
        const rt_group g = settle(f, one, all, all + f->n);
        if (f->run->rank)
            continue;
        f->group = rt_grow(f->group, (size_t)f->ngroups + 1, sizeof *f->group);
        f->group[f->ngroups++] = g;
    }
    free(all);
}
