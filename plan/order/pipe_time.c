/* pipe_time.c - how long a step of a pipeline takes: what each phase of each stage costs, from the
 * timeline of an iteration, and then its table run with those costs. */
#include "plan/order/pipe_time.h"
#include "plan/network.h"
#include "plan/order/streams.h"
#include "plan/order/order.h"

#include <math.h>

bool pipe_does(StageSet on, int at, int n)
{
    StageSet here = (StageSet)((at == 0 ? AT_FIRST : 0) | (at == n - 1 ? AT_LAST : 0));
    return on & (here ? here : AT_MIDDLE);
}

int64_t pipe_iterations(const Plan *p, const Loop *l, int stage)
{
    const Pipeline *of = &p->module->layout.pipeline;
    return l->dim.name == of->dim ? of->layers.data[stage] : l->dim.size;
}

double pipe_adds(const Action *a)
{
    return a->stream ? a->exposed : a->seconds;
}

/* Seconds of the actions [from, to) that a stage does; of the layers' loops, its share. */
static double phase_seconds(const Plan *p, const Program *g, int from, int to, int stage)
{
    const int stages = g->pipe->stages;
    double all = 0;
    for (int i = from; i < to; i++) {
        const Action *a = &g->actions.data[i];
        if (a->kind == ACT_loop) {
            const Loop *loop = &g->loops.data[a->loop];
            all += (double)pipe_iterations(p, loop, stage) * loop->seconds;
            i = loop->end;
        } else if (a->kind != ACT_phase && pipe_does(a->on, stage, stages)) {
            all += pipe_adds(a);
        }
    }
    return all;
}

/* One message: the links' time for what it has. */
double pipe_message(const Plan *p, const Pipe *pipe)
{
    int64_t bytes = pipe->message[0] > pipe->message[1] ? pipe->message[0] : pipe->message[1];
    return network_message(p->module, p->device, p->module->layout.pipeline.axis, (double)bytes);
}

/* By stage, seconds of what is beside the table, of actions [from, to). */
static const double *beside_seconds(const Program *g, Arena *a, int from, int to)
{
    const Pipe *pipe = g->pipe;
    double *seconds = NEW_ARRAY(a, double, pipe->stages);
    for (int s = 0; s < pipe->stages; s++)
        for (int i = from; i < to; i++) {
            const Action *x = &g->actions.data[i];
            if (x->chunk - 1 == s / pipe->ranks && pipe_does(x->on, s % pipe->ranks, pipe->ranks))
                seconds[s] += x->seconds;
        }
    return seconds;
}

static bool leaves_node(const Plan *p, const Action *a)
{
    return network_node(p->module, p->device, a->comm.axes) < a->comm.n;
}

/* Seconds of a step in which a rank's phases use the links that what is beside them uses. */
static double sent_there(const Plan *p, const Program *g)
{
    const Loop *micro = &g->loops.data[g->pipe->loop];
    bool uses[2] = {false, false};
    double seconds = 0;
    for (size_t i = 0; i < g->actions.n; i++)
        if (g->actions.data[i].chunk)
            uses[leaves_node(p, &g->actions.data[i])] = true;
    for (int i = micro->begin; i < micro->end; i++) {
        const Action *a = &g->actions.data[i];
        seconds += action_sends(a) && uses[leaves_node(p, a)] ? a->seconds * a->times : 0;
    }
    return seconds;
}

/* Of the time of what is beside, by how much that computes longer which computes meanwhile: it is
 * slower, and waits longer for what it sends itself over the same links. A processor's thread does
 * one after the other. (Messages between stages, which are short, are taken to be as fast.) */
static double beside_slows(const Plan *p, const Program *g)
{
    const Loop *micro = &g->loops.data[g->pipe->loop];
    const double all = micro->seconds * (double)micro->dim.size;
    if (p->device->target != TARGET_cuda)
        return 1;
    return 1 - 1 / p->device->link_slowdown + (all > 0 ? fmin(1, sent_there(p, g) / all) : 0);
}

/* The costs of a table's phases and messages, and the graph that says who waits for whom, with a
 * queue each for computing, sending and receiving. NULL: it cannot be run, which its proof
 * excludes. */
static const PipeGraph *graph_of(const Plan *p, const Program *g, Arena *a, PipeCosts *c)
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
    *c = (PipeCosts){.forward = cost[0],
                     .input = cost[1],
                     .weight = cost[2],
                     .send = pipe_message(p, pipe),
                     .unshard = beside_seconds(g, a, 0, pipe->ahead),
                     .reduce = beside_seconds(g, a, micro->end + 1, pipe_behind(g)),
                     .slows = beside_slows(p, g)};
    PipeProof proof;
    return pipe_prove(a, pipe->program, p->module->diag, &proof) ? proof.graph[PIPE_BY_KIND] : NULL;
}

const PipeClock *pipe_run(const Plan *p, const Program *g, Arena *a)
{
    PipeCosts c;
    const PipeGraph *graph = graph_of(p, g, a, &c);
    return graph ? pipe_clock(a, graph, &c) : NULL;
}

/* Computing actions have the same order in a program's row as in the table it was made from. */
static void tell_times(const Pipe *pipe, const PipeClock *k, double since)
{
    for (int rank = 0; rank < pipe->ranks; rank++) {
        const PipeOps *ops = &pipe->program->rank[rank];
        mg_pipe_op *to = pipe->ops[rank];
        for (size_t i = 0; i < ops->n; i++) {
            if (ops->data[i].step != PIPE_COMPUTE)
                continue;
            while (to->step > MG_PIPE_W)
                to++;
            to->at = (float)(1e6 * (since + k->begin[rank][i]));
            to->lasts = (float)(1e6 * (k->end[rank][i] - k->begin[rank][i]));
            to++;
        }
        while (to->step)
            to++;
        to->at = (float)(1e6 * (since + k->step));
    }
}

/* Collectives beside the table are exposed by as much as the step is longer for them: each for its
 * part of the time. */
static void tell_exposed(Program *g, const PipeGraph *graph, PipeCosts c, Arena *tmp)
{
    double all = 0;
    for (size_t i = 0; i < g->actions.n; i++)
        all += g->actions.data[i].chunk ? g->actions.data[i].seconds * g->actions.data[i].times : 0;
    c.unshard = c.reduce = NEW_ARRAY(tmp, double, g->pipe->stages);
    const double longer = all > 0 ? g->pipe->step - pipe_clock(tmp, graph, &c)->step : 0;
    for (size_t i = 0; i < g->actions.n; i++) {
        Action *a = &g->actions.data[i];
        if (a->chunk)
            a->exposed = a->seconds * fmin(1, longer / all);
    }
}

void pipe_time(Plan *p, Program *g)
{
    const Loop *micro = &g->loops.data[g->pipe->loop];
    Arena *tmp = arena_new();
    PipeCosts c;
    const PipeGraph *graph = graph_of(p, g, tmp, &c);
    if (graph) {
        const PipeClock *k = pipe_clock(tmp, graph, &c);
        g->pipe->message_seconds = c.send;
        g->pipe->step = k->step;
        g->pipe->bubble = k->bubble;
        tell_times(g->pipe, k, g->actions.data[micro->begin].begin);
        g->seconds += k->step - (double)micro->dim.size * micro->seconds;
        tell_exposed(g, graph, c, tmp);
    }
    arena_free(tmp);
}

double pipe_slowest(const Plan *p, const Program *g, double factor)
{
    Arena *tmp = arena_new();
    PipeCosts c;
    double worst = 0;
    const PipeGraph *graph = graph_of(p, g, tmp, &c);
    if (graph) {
        const PipeClock *k = pipe_clock(tmp, graph, &c);
        const double *by = pipe_slower(tmp, graph, &c, k, factor).longer;
        for (int rank = 0; rank < g->pipe->ranks; rank++)
            worst = fmax(worst, by[rank] * factor * k->busy[rank]);
    }
    arena_free(tmp);
    return worst + factor * (g->seconds - g->pipe->step);
}

void plan_print_grid(const Plan *p, bool color, FILE *out)
{
    const Program *g = p->train;
    Arena *tmp = arena_new();
    double columns;
    const PipeClock *k = g->pipe ? pipe_run(p, g, tmp) : NULL;
    if (k && !pipe_print_grid(g->pipe->program, k, color, out, &columns))
        fprintf(out,
                "the grid would have %.0f columns, and the limit is %d: fewer microbatches show "
                "the same order\n",
                columns, PIPE_COLUMNS_MAX);
    arena_free(tmp);
}
