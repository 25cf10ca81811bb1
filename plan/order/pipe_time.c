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

/* A loop before the layers is the first stage's alone. */
static bool pipe_has(const Program *g, const Loop *l, int stage)
{
    bool any = false;
    for (int i = l->begin + 1; i < l->end && !any; i++)
        any = !action_is_mark(&g->actions.data[i]) &&
              pipe_does(g->actions.data[i].on, stage, g->pipe->stages);
    return any;
}

int64_t pipe_iterations(const Plan *p, const Program *g, const Loop *l, int stage)
{
    const Pipeline *of = &p->module->layout.pipeline;
    if (!pipe_has(g, l, stage))
        return 0;
    return l->dim.name == of->dim ? of->layers.data[stage] : l->dim.size;
}

double pipe_adds(const Action *a)
{
    return a->stream ? a->exposed : a->seconds;
}

/* Seconds of the actions [from, to) that a stage does: of each layer that it has, and of the rest.
 */
typedef struct PhaseTime {
    double layer, rest;
} PhaseTime;

static PhaseTime phase_time(const Plan *p, const Program *g, int from, int to, int stage)
{
    const int stages = g->pipe->stages;
    PhaseTime all = {0};
    for (int i = from; i < to; i++) {
        const Action *a = &g->actions.data[i];
        if (a->kind == ACT_loop) {
            const Loop *loop = &g->loops.data[a->loop];
            if (loop->dim.name == p->module->layout.pipeline.dim)
                all.layer += pipe_has(g, loop, stage) ? loop->seconds : 0;
            else
                all.rest += (double)pipe_iterations(p, g, loop, stage) * loop->seconds;
            i = loop->end;
        } else if (a->kind != ACT_phase && pipe_does(a->on, stage, stages)) {
            all.rest += pipe_adds(a);
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

struct PipeCuts {
    const Plan *plan;
    const Pipe *pipe;
    PhaseTime *of[PIPE_PHASES]; /* of a stage */
    double *cost[PIPE_PHASES];  /* ... with its layers */
    PipeCosts costs;
    PipeWalk *walk; /* of pipe_cuts() alone */
    const PipeGraph *graph;
};

/* The costs of a table's phases with so many layers in each stage. */
static void price(PipeCuts *c, const int64_t *layers)
{
    c->costs.layers = layers;
    for (int k = 0; k < PIPE_PHASES; k++)
        for (int s = 0; s < c->pipe->stages; s++)
            c->cost[k][s] = c->of[k][s].rest + (double)layers[s] * c->of[k][s].layer;
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

/* The times of phases and messages, and the graph that says who waits for whom, with a queue each
 * for computing, sending and receiving. NULL: it cannot be run, which its proof excludes. */
static PipeCuts *cuts_of(const Plan *p, const Program *g, Arena *a)
{
    const Pipe *pipe = g->pipe;
    const Loop *micro = &g->loops.data[pipe->loop];
    PipeCuts *c = NEW(a, PipeCuts);
    *c = (PipeCuts){.plan = p, .pipe = pipe};
    for (int k = 0; k < PIPE_PHASES; k++) {
        int to = k + 1 < pipe->phases ? pipe->begin[k + 1] : micro->end;
        c->of[k] = NEW_ARRAY(a, PhaseTime, pipe->stages);
        c->cost[k] = NEW_ARRAY(a, double, pipe->stages);
        for (int s = 0; s < pipe->stages && k < pipe->phases; s++)
            c->of[k][s] = phase_time(p, g, pipe->begin[k], to, s);
    }
    c->costs = (PipeCosts){.forward = c->cost[0],
                           .input = c->cost[1],
                           .weight = c->cost[2],
                           .send = pipe_message(p, pipe),
                           .unshard = beside_seconds(g, a, 0, pipe->ahead),
                           .reduce = beside_seconds(g, a, micro->end + 1, pipe_behind(g)),
                           .slows = beside_slows(p, g),
                           .hidden = pipe->join ? pipe->join->hides : 0};
    price(c, p->module->layout.pipeline.layers.data);
    PipeProof proof;
    if (p->compared)
        c->graph = pipe_graph(a, pipe->program, PIPE_BY_KIND);
    else if (pipe_prove(a, pipe->program, p->module->diag, &proof))
        c->graph = proof.graph[PIPE_BY_KIND];
    return c->graph ? c : NULL;
}

PipeCuts *pipe_cuts(const Plan *p, Arena *a)
{
    PipeCuts *c = p->train->pipe ? cuts_of(p, p->train, a) : NULL;
    if (c)
        c->walk = pipe_walk(a, c->graph);
    return c;
}

double pipe_cut_seconds(PipeCuts *c, const int64_t *layers)
{
    price(c, layers);
    return c->plan->train->seconds - c->pipe->step + pipe_walk_step(c->walk, &c->costs);
}

double pipe_cut_work(const PipeCuts *c, const int64_t *layers, int rank)
{
    double all = 0;
    for (int s = rank; s < c->pipe->stages; s += c->pipe->ranks)
        for (int k = 0; k < PIPE_PHASES; k++)
            all += c->of[k][s].rest + (double)layers[s] * c->of[k][s].layer;
    return all;
}

const PipeClock *pipe_run(const Plan *p, const Program *g, Arena *a)
{
    const PipeCuts *c = cuts_of(p, g, a);
    return c ? pipe_clock(a, c->graph, &c->costs) : NULL;
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

/* In layers of a pair what is waited for is that of their order (join.c), in all others that of
 * their phase. */
static void tell_joined(Program *g)
{
    const PipeJoin *j = g->pipe->join;
    double all = 0, paired = 0;
    for (int rank = 0; j && rank < g->pipe->ranks; rank++)
        for (const mg_pipe_op *o = g->pipe->ops[rank]; o->step; o++) {
            all += o->step == MG_PIPE_F;
            paired += o->step == MG_PIPE_F && o->with;
        }
    for (size_t i = 0; all > 0 && i < j->body->actions.n; i++) {
        Action *a = j->from[i] >= 0 ? &g->actions.data[j->from[i]] : NULL;
        if (a)
            a->exposed += paired / all * (j->body->actions.data[i].exposed - a->exposed);
    }
}

void pipe_time(Plan *p, Program *g)
{
    const Loop *micro = &g->loops.data[g->pipe->loop];
    Arena *tmp = arena_new();
    const PipeCuts *c = cuts_of(p, g, tmp);
    if (c) {
        const PipeClock *k = pipe_clock(tmp, c->graph, &c->costs);
        g->pipe->message_seconds = c->costs.send;
        g->pipe->step = k->step;
        g->pipe->bubble = k->bubble;
        tell_times(g->pipe, k, g->actions.data[micro->begin].begin);
        g->seconds += k->step - (double)micro->dim.size * micro->seconds;
        tell_exposed(g, c->graph, c->costs, tmp);
        tell_joined(g);
    }
    arena_free(tmp);
}

double pipe_slowest(const Plan *p, const Program *g, double factor)
{
    Arena *tmp = arena_new();
    double worst = 0;
    const PipeCuts *c = cuts_of(p, g, tmp);
    if (c) {
        const PipeClock *k = pipe_clock(tmp, c->graph, &c->costs);
        const double *by = pipe_slower(tmp, c->graph, &c->costs, k, factor).longer;
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
    const PipeClock *k = g && g->pipe ? pipe_run(p, g, tmp) : NULL;
    if (k && !pipe_print_grid(g->pipe->program, k, color, out, &columns))
        fprintf(out,
                "the grid would have %.0f columns, and the limit is %d: fewer microbatches show "
                "the same order\n",
                columns, PIPE_COLUMNS_MAX);
    arena_free(tmp);
}
