/* join.c - the two of a pair beside each other: an iteration of F's loop over layers and one of B's
 * as one stretch (PipeJoin).
 *
 *   one after the other   F: attend | to experts | up down | back    B: ... | to experts | dup ...
 *   as one stretch        compute   F attend  B dup ddown  F up down  B dup' ...
 *                         links     B to experts  F to experts  B back  F back ...
 *
 * So one microbatch sends while another computes. The order is that of any stretch
 * (arrange.c), of buffers that have their places: what touches the same bytes keeps its order
 * within a phase, and phases have nothing in common (place.c puts what they make in bytes of their
 * own). Streams and waits are chosen as everywhere, and proved as everywhere (check_join.c). */
#include "plan/order/streams.h"
#include "plan/order/order.h"

#include <string.h>

/* The part of a pair's time that has to be saved. */
static const double WORTH = 0.005;

static bool has_pairs(const Pipe *pipe)
{
    for (int rank = 0; rank < pipe->ranks; rank++)
        for (const mg_pipe_op *o = pipe->ops[rank]; o->step; o++)
            if (o->step == MG_PIPE_F && o->with)
                return true;
    return false;
}

/* The one loop over a stage's layers between two actions, if it has no loop in it; else -1. */
static int layers_between(const Plan *p, const Program *g, int from, int to)
{
    int found = -1;
    for (int i = from; i < to; i++) {
        const Action *a = &g->actions.data[i];
        if (a->kind != ACT_loop)
            continue;
        const Loop *l = &g->loops.data[a->loop];
        if (l->dim.name != p->module->layout.pipeline.dim)
            continue;
        if (found >= 0)
            return -1;
        found = (int)a->loop;
        for (int k = l->begin + 1; k < l->end; k++)
            if (meets_all(&g->actions.data[k]))
                return -1;
    }
    return found;
}

bool pipe_joins(const Plan *p, const Program *g, int loop[2])
{
    const Pipe *pipe = g->pipe;
    if (!pipe || pipe->phases != 2 || p->device->streams < 2 || p->device->collectives_wait ||
        !has_pairs(pipe))
        return false;
    loop[0] = layers_between(p, g, pipe->begin[0], pipe->begin[1]);
    loop[1] = layers_between(p, g, pipe->begin[1], g->loops.data[pipe->loop].end);
    return loop[0] >= 0 && loop[1] >= 0;
}

int pipe_joined(const Program *g, int action)
{
    const Loop *micro = &g->loops.data[g->pipe->loop];
    if (action <= g->pipe->begin[0] || action >= micro->end)
        return 0;
    return action > g->pipe->begin[1] ? 2 : action < g->pipe->begin[1] ? 1 : 0;
}

static void add(const Plan *p, PipeJoin *j, const Program *g, int action, int joined)
{
    Action a = g->actions.data[action];
    a.stream = 0;
    a.joined = joined;
    memset(a.wait, 0, sizeof a.wait);
    vec_push(p->module->arena, &j->body->actions, a);
}

static PipeJoin *both_bodies(const Plan *p, const Program *g, const int *loop)
{
    PipeJoin *j = NEW(p->module->arena, PipeJoin);
    const Loop *of[2] = {&g->loops.data[loop[0]], &g->loops.data[loop[1]]};
    j->body = NEW(p->module->arena, Program);
    j->body->fn = g->fn;
    j->body->pipe = g->pipe;
    for (size_t l = 0; l < g->loops.n; l++)
        vec_push(p->module->arena, &j->body->loops, g->loops.data[l]);
    memcpy(j->loop, loop, sizeof j->loop);
    add(p, j, g, of[0]->begin, 0);
    for (int k = 0; k < 2; k++)
        for (int i = of[k]->begin + 1; i < of[k]->end; i++)
            add(p, j, g, i, k + 1);
    add(p, j, g, of[0]->end, 0);
    return j;
}

/* Sets which action of the program each is: ids are of one action each. */
static void find_from(const Plan *p, PipeJoin *j, const Program *g)
{
    const size_t n = j->body->actions.n;
    j->from = NEW_ARRAY(p->module->arena, int, n);
    for (size_t i = 0; i < n; i++) {
        const Action *a = &j->body->actions.data[i];
        const Loop *l = &g->loops.data[j->loop[a->joined == 2]];
        j->from[i] = -1;
        for (int k = l->begin + 1; k < l->end && a->joined; k++)
            if (g->actions.data[k].id == a->id)
                j->from[i] = k;
    }
}

/* Seconds of an iteration as the streams are. */
static double alone(const Plan *p, Program *g, int loop)
{
    const Loop *l = &g->loops.data[loop];
    return timeline_stretch(p, g, l->begin + 1, l->end, 0);
}

static void join(const Plan *p, Program *g)
{
    int loop[2];
    if (!g || !pipe_joins(p, g, loop))
        return;
    Arena *tmp = arena_new();
    PipeJoin *j = both_bodies(p, g, loop);
    const int end = (int)j->body->actions.n - 1;
    arrange_stretch(p, j->body, PLACED, 1, end, INT64_MAX, tmp);
    stretch_streams(p, j->body, 1, (size_t)end);
    const double apart = alone(p, g, loop[0]) + alone(p, g, loop[1]);
    j->hides = apart - timeline_stretch(p, j->body, 1, end, 0);
    if (j->hides > WORTH * apart) {
        find_from(p, j, g);
        g->pipe->join = j;
    }
    arena_free(tmp);
}

void pipe_join(Plan *p)
{
    join(p, p->train);
}
