/* graph.c - captures a program's launches as CUDA graphs: thousands of launches then cost the host
 * one call.
 *
 * Addresses in the arena are the same in every step, so the launches of a program are the same too.
 * The first run of a program is not captured: libraries load code then, and algorithms of products,
 * work space, streams and events are made, which a capture forbids. Where the guard refuses, what
 * is behind it has not run yet, so such a run does not count as the first. The next run is
 * captured; later runs launch the graphs: one up to the guard, where the host reads loss and norm,
 * and one after it. A program with very many nodes is never captured: its kernels are long enough
 * to hide the time of the host. The plan knows how many there are, and how much memory they take.
 */
#include "runtime/cuda/cuda.h"

#include <stdlib.h>

enum { PARTS = 2 };

typedef struct graph {
    enum { FRESH, RAN, CAPTURED, PLAIN } state;
    cudaGraphExec_t part[PARTS];
    int parts;
    bool guarded;
    int action; /* the guard's action and operands */
    const double *loss, *norm;
} graph;

struct rt_graphs {
    graph of[RT_PROGRAMS];
    graph *capturing; /* or NULL */
    bool whole;       /* the running program was not ended by its guard */
};

rt_graphs *rt_graphs_new(void)
{
    return rt_alloc(1, sizeof(rt_graphs));
}

static void forget(graph *g)
{
    for (int i = 0; i < g->parts; i++)
        cudaGraphExecDestroy(g->part[i]);
    *g = (graph){.state = RAN};
}

void rt_graphs_free(rt_graphs *g)
{
    for (int i = 0; i < RT_PROGRAMS; i++)
        forget(&g->of[i]);
    free(g);
}

static void begin(const rt_cuda *c)
{
    rt_cuda_must(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal),
                 "capturing a graph");
}

/* Ends the capture of the current part, and launches it. */
static void end(const rt_cuda *c, graph *g)
{
    cudaGraph_t captured;
    rt_cuda_must(cudaStreamEndCapture(c->stream, &captured), "capturing a graph");
    rt_cuda_must(cudaGraphInstantiate(&g->part[g->parts], captured, 0), "making a graph");
    rt_cuda_must(cudaGraphDestroy(captured), "making a graph");
    rt_cuda_must(cudaGraphLaunch(g->part[g->parts++], c->stream), "launching a graph");
}

bool rt_graphs_guard(mg_run *r, int action, const double *loss, const double *norm)
{
    const rt_cuda *c = r->cuda;
    graph *g = c->graphs->capturing;
    if (!g)
        return c->graphs->whole = rt_cuda_guard(r, action, loss, norm);
    end(c, g);
    g->guarded = true;
    g->action = action;
    g->loss = loss;
    g->norm = norm;
    bool good = rt_cuda_guard(r, action, loss, norm);
    if (good)
        begin(c);
    else
        c->graphs->capturing = NULL; /* the second part was not captured */
    return good;
}

static void capture(mg_run *r, graph *g, void (*program)(mg_run *))
{
    rt_graphs *all = r->cuda->graphs;
    all->capturing = g;
    begin(r->cuda);
    program(r);
    if (all->capturing) {
        end(r->cuda, g);
        g->state = CAPTURED;
    } else {
        forget(g);
    }
    all->capturing = NULL;
}

static void replay(mg_run *r, const graph *g)
{
    cudaStream_t s = r->cuda->stream;
    rt_cuda_must(cudaGraphLaunch(g->part[0], s), "launching a graph");
    if (g->guarded && rt_cuda_guard(r, g->action, g->loss, g->norm))
        rt_cuda_must(cudaGraphLaunch(g->part[1], s), "launching a graph");
}

void rt_device_run(mg_run *r, rt_program which)
{
    void (*const program[])(mg_run *) = {r->step,
                                         r->eval,
                                         r->sample,
                                         r->round,
                                         r->program->run_prefill,
                                         r->program->run_decode,
                                         r->program->run_spread};
    const mg_program *p = r->program;
    const int64_t nodes[] = {p->step.nodes,    p->eval.nodes,   p->sample.nodes, p->round.nodes,
                             p->prefill.nodes, p->decode.nodes, p->spread.nodes};
    rt_graphs *all = r->cuda->graphs;
    graph *g = &all->of[which];
    if (r->watch || g->state == FRESH || g->state == PLAIN) {
        all->whole = true;
        program[which](r);
        rt_products_save(r->cuda->products);
        if (g->state == FRESH && all->whole)
            g->state = nodes[which] <= MG_NODES_MAX ? RAN : PLAIN;
    } else if (g->state == RAN) {
        capture(r, g, program[which]);
    } else {
        replay(r, g);
    }
}
