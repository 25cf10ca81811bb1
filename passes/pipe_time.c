/* pipe_time.c - how long a step of a pipeline takes: what each phase of each stage costs, from the
 * timeline of a round, and then its table run with those costs. */
#include "passes/pipeline/pipeline.h"
#include "passes/streams.h"

#include <math.h>

static bool done_at(Stations on, int stage, int stages)
{
    Stations here = (Stations)((stage == 0 ? AT_FIRST : 0) | (stage == stages - 1 ? AT_LAST : 0));
    return on & (here ? here : AT_MIDDLE);
}

/* Seconds of the actions [from, to) that a stage does; of the layers' loops, its share. */
static double phase_seconds(const Plan *p, const Program *g, int from, int to, int stage)
{
    const Pipeline *l = &p->module->layout.pipeline;
    const int stages = g->pipe->stages;
    double all = 0;
    for (int i = from; i < to; i++) {
        const Action *a = &g->actions.data[i];
        if (a->kind == ACT_loop) {
            const Loop *loop = &g->loops.data[a->loop];
            double rounds =
                loop->dim.name == l->dim ? (double)l->layers.data[stage] : (double)loop->dim.size;
            all += rounds * loop->seconds;
            i = loop->end;
        } else if (a->kind != ACT_phase && done_at(a->on, stage, stages)) {
            all += a->stream ? a->exposed : a->seconds;
        }
    }
    return all;
}

/* One message: the links' time for what it has. */
static double message_seconds(const Plan *p, const Pipe *pipe)
{
    int64_t bytes = pipe->message[0] > pipe->message[1] ? pipe->message[0] : pipe->message[1];
    return (double)bytes / p->device->link_bandwidth + p->device->link_seconds;
}

/* A run of the table with what its phases cost. NULL: it cannot be run, which its proof excludes.
 */
static PipeClock *run(const Plan *p, const Program *g, Arena *a, double slower, double *worst)
{
    const Pipe *pipe = g->pipe;
    const Loop *micro = &g->loops.data[pipe->loop];
    double *cost[PIPE_PHASES];
    for (int k = 0; k < PIPE_PHASES; k++) {
        int to = k + 1 < pipe->phases ? pipe->begin[k + 1] : micro->end;
        cost[k] = NEW_ARRAY(a, double, pipe->stages);
        for (int s = 0; s < pipe->stages && k < pipe->phases; s++)
            cost[k][s] = phase_seconds(p, g, pipe->begin[k], to, s);
    }
    PipeCosts c = {cost[0], cost[1], cost[2], message_seconds(p, pipe)};
    PipeProof proof;
    if (!pipe_prove(a, pipe->program, p->module->diag, &proof))
        return NULL;
    PipeClock *k = pipe_clock(a, proof.graph[PIPE_BY_KIND], &c);
    if (slower > 0) {
        double *by = pipe_slower(a, proof.graph[PIPE_BY_KIND], &c, k, slower);
        for (int rank = 0; rank < pipe->ranks; rank++)
            *worst = fmax(*worst, by[rank] * slower * k->busy[rank]);
    }
    return k;
}

void pipe_time(Plan *p, Program *g)
{
    const Loop *micro = &g->loops.data[g->pipe->loop];
    Arena *tmp = arena_new();
    const PipeClock *k = run(p, g, tmp, 0, NULL);
    if (k) {
        g->pipe->step = k->step;
        g->pipe->bubble = k->bubble;
        g->seconds += k->step - (double)micro->dim.size * micro->seconds;
    }
    arena_free(tmp);
}

double pipe_slowest(const Plan *p, const Program *g, double factor)
{
    Arena *tmp = arena_new();
    double worst = 0;
    run(p, g, tmp, factor, &worst);
    arena_free(tmp);
    return worst + factor * (g->seconds - g->pipe->step);
}
