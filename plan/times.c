/* times.c - how often an action is executed in a step: loops multiplied out; in a pipeline by the
 * ranks along its axis on average, of which each does its stages' parts. */
#include "plan/plan.h"
#include "plan/times.h"

static bool is_at(StageSet at, int place, int n)
{
    StageSet here = (StageSet)((place == 0 ? AT_FIRST : 0) | (place == n - 1 ? AT_LAST : 0));
    return at & (here ? here : AT_MIDDLE);
}

static double share(StageSet at, int n)
{
    int many = 0;
    for (int k = 0; k < n; k++)
        many += is_at(at, k, n);
    return many;
}

/* Iterations that a loop makes when it is come to: over layers, those of a stage on average. */
static double iterations_of(const Module *m, const Program *g, const Loop *l, bool inside)
{
    const Pipeline *p = &m->layout.pipeline;
    int64_t layers = 0;
    if (!inside || l->dim.name != p->dim)
        return (double)l->dim.size;
    for (size_t s = 0; s < p->layers.n; s++)
        layers += p->layers.data[s];
    return (double)layers / g->pipe->stages;
}

void plan_times(Plan *p)
{
    Program *const *const all = p->programs;
    const Module *m = p->module;
    const Axes axis = m->layout.pipeline.axis;
    const int ranks = axis ? (int)mesh_size(m, axis) : 1;
    for (int k = 0; k < PLAN_PROGRAMS; k++) {
        Program *g = all[k];
        double times = 1;
        bool inside = false;
        for (size_t i = 0; g && i < g->actions.n; i++) {
            Action *a = &g->actions.data[i];
            bool pipe = g->pipe && (a->kind == ACT_loop || a->kind == ACT_end) &&
                        (int)a->loop == g->pipe->loop;
            if (a->kind == ACT_loop)
                times *= iterations_of(m, g, &g->loops.data[a->loop], inside);
            if (pipe && a->kind == ACT_loop) { /* of each iteration a stage of each chunk */
                inside = true;
                times *= (double)g->pipe->stages / ranks;
            }
            a->times = times;
            if (!action_is_mark(a) && axis)
                a->times *= inside ? share(a->on, g->pipe->stages) / g->pipe->stages
                                   : share(a->on, ranks) / ranks;
            if (pipe && a->kind == ACT_end) {
                inside = false;
                times /= (double)g->pipe->stages / ranks;
            }
            if (a->kind == ACT_end)
                times /= iterations_of(m, g, &g->loops.data[a->loop], inside);
        }
    }
}
