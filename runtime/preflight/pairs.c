/* pairs.c - bytes between each two ranks, by the device's own way: of processors from the arena of
 * a rank of the same machine, which is where their collectives read; of GPUs by NCCL, also to other
 * machines. Pairs of a round are disjoint and measure at once. */
#include <math.h>
#include <stdlib.h>

#include "runtime/preflight/flight.h"

enum { MOST = 64 << 20, TIMES = 5, STEPS = 64 };

/* Bytes/s between this rank and another, or 0: they have no such way. */
static double measure(mg_run *r, int other, int64_t bytes)
{
    double best = 0;
    for (int i = 0; i < TIMES; i++) {
        const double seconds = rt_device_exchange(r, other, bytes);
        if (seconds > 0)
            best = fmax(best, (double)bytes / seconds);
    }
    return best;
}

/* Seconds of what a collective of ranks of one machine costs at least, between two of them. */
static double step_here(rt_flight *f)
{
    mg_run *r = f->run;
    double best = 1e9;
    for (int i = 0; i < STEPS; i++) {
        const int64_t began = rt_now_ns();
        rt_meet(r, RT_ALL_AXES);
        rt_meet(r, RT_ALL_AXES);
        best = fmin(best, 1e-9 * (double)(rt_now_ns() - began));
    }
    const int here = f->ranks[f->host[r->rank]];
    return here > 1 ? best / (here - 1) : 0;
}

void rt_pairs(rt_flight *f)
{
    mg_run *r = f->run;
    double *all = r->rank ? NULL : rt_alloc((size_t)f->n, sizeof *all);
    const double step = rt_arenas_are_shared ? step_here(f) : 0;
    const int64_t half = r->program->arena_bytes / 2;
    f->exchanged = half < MOST ? half : MOST;
    if (!r->rank)
        f->step = step;
    for (int round = 0; round < rt_rounds(f->n); round++) {
        const int other = rt_partner(f->n, round, r->rank);
        const double mine = other < 0 ? 0 : measure(r, other, f->exchanged);
        rt_meet(r, RT_ALL_AXES);
        rt_gather_to_leader(r, &mine, all, sizeof mine);
        for (int i = 0; !r->rank && i < f->n; i++) {
            const int k = rt_partner(f->n, round, i);
            if (k <= i || all[i] <= 0)
                continue;
            f->pair = rt_grow(f->pair, (size_t)f->npairs + 1, sizeof *f->pair);
            f->pair[f->npairs++] = (rt_pair){i, k, fmin(all[i], all[k])};
        }
    }
    free(all);
}
