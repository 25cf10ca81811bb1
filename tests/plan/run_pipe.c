/* run_pipe.c - the loop over microbatches of a plan as its table says; see run_plan.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/plan/runner.h"

/* A rank's walk through its table, and the messages on the way to it: begun and not taken yet, by
 * kind, the oldest first. A message is taken as late as may be: when one of its ends is waited for.
 */
enum { PENDING = 64 };
typedef struct Walker {
    const mg_pipe_op *op;
    /* Beside the table: chunks that were gathered, and those whose reductions have begun, of which
     * so many are done. */
    int gathered, reduced, nreduces, reduces[PENDING];
    const mg_pipe_op *begun[MG_PIPE_WAIT][PENDING];
    int nbegun[MG_PIPE_WAIT];
    int waited[MG_PIPE_WAIT], taken[MG_PIPE_WAIT];
} Walker;

static void run_phase(Runner *r, const mg_pipe_op *o, int phase)
{
    const Pipe *p = r->prog->pipe;
    int end = phase < p->phases - 1 && phase < PIPE_PHASES - 1 ? p->begin[phase + 1]
                                                               : r->prog->loops.data[p->loop].end;
    r->op = o;
    r->iteration[p->loop] = o->microbatch;
    run_range(r, p->begin[phase] + 1, end);
    r->op = NULL;
}

static void run_compute(Runner *r, const mg_pipe_op *o)
{
    const Pipe *p = r->prog->pipe;
    if (o->step == MG_PIPE_F)
        run_phase(r, o, 0);
    if (o->step == MG_PIPE_B || o->step == MG_PIPE_I)
        run_phase(r, o, 1);
    if (o->step == MG_PIPE_W || (o->step == MG_PIPE_B && p->phases == 3))
        run_phase(r, o, 2);
}

/* Actions of the program, of one of a pair. */
static void run_of(Runner *r, int which, int from, int to)
{
    r->op = &r->pair[which];
    r->iteration[r->prog->pipe->loop] = r->op->microbatch;
    run_range(r, from, to);
}

/* The layers of one of a pair from its n-th on, of those that it computes. */
static int64_t layer(const Runner *r, int which, int64_t n)
{
    const Pipeline *stages = &r->p->module->layout.pipeline;
    const mg_pipe_op *o = &r->pair[which];
    const Loop *l = &r->prog->loops.data[r->prog->pipe->join->loop[which]];
    const int64_t has = stages->layers.data[o->stage];
    return o->stage / r->prog->pipe->ranks * stages->max_layers + (l->reverse ? has - 1 - n : n);
}

static void run_joined(Runner *r, int64_t n)
{
    const Program *whole = r->prog;
    const PipeJoin *join = whole->pipe->join;
    for (int k = 0; k < 2; k++)
        r->iteration[join->loop[k]] = layer(r, k, n);
    r->prog = join->body;
    if (r->order)
        run_disordered(r, 1, (int)join->body->actions.n - 1);
    for (int i = 1; !r->order && i < (int)join->body->actions.n - 1; i++)
        run_one(r, &join->body->actions.data[i]);
    r->prog = whole;
}

/* The F and the B of a pair beside each other, as PipeJoin says. */
static void run_pair(Runner *r, const mg_pipe_op *o)
{
    const Pipe *p = r->prog->pipe;
    const Loop *of[2] = {&r->prog->loops.data[p->join->loop[0]],
                         &r->prog->loops.data[p->join->loop[1]]};
    const int64_t *has = r->p->module->layout.pipeline.layers.data;
    const int end[2] = {p->begin[1], r->prog->loops.data[p->loop].end};
    int64_t n = 0;
    r->pair = o;
    for (int k = 0; k < 2; k++)
        run_of(r, k, p->begin[k] + 1, of[k]->begin);
    for (; n < has[o[0].stage] && n < has[o[1].stage]; n++)
        run_joined(r, n);
    for (int k = 0; k < 2; k++)
        for (int64_t more = n; more < has[o[k].stage]; more++) {
            r->iteration[p->join->loop[k]] = layer(r, k, more);
            run_of(r, k, of[k]->begin + 1, of[k]->end);
        }
    for (int k = 0; k < 2; k++)
        run_of(r, k, of[k]->end + 1, end[k]);
    r->pair = r->op = NULL;
}

static int other_end(int step)
{
    return step == MG_PIPE_SEND_F   ? MG_PIPE_RECV_F
           : step == MG_PIPE_RECV_F ? MG_PIPE_SEND_F
           : step == MG_PIPE_SEND_B ? MG_PIPE_RECV_B
                                    : MG_PIPE_SEND_B;
}

/* The oldest message of a kind that rank place `at` began, if its other end has begun, too. */
static bool take(Runner *r, Walker *w, int at, int step)
{
    const Pipe *p = r->prog->pipe;
    const Module *m = r->p->module;
    bool sends = step == MG_PIPE_SEND_F || step == MG_PIPE_SEND_B;
    int way = step == MG_PIPE_SEND_B || step == MG_PIPE_RECV_B,
        back = sends == way ? p->ranks - 1 : 1;
    int peer = (at + back) % p->ranks, other = other_end(step);
    Walker *from = sends ? &w[at] : &w[peer], *to = sends ? &w[peer] : &w[at];
    int s = sends ? step : other, t = sends ? other : step;
    if (!from->nbegun[s] || !to->nbegun[t])
        return false;
    const mg_pipe_op *o = from->begun[s][0], *x = to->begun[t][0];
    for (int64_t k = 0; k < r->ranks; k++)
        for (int64_t j = 0; j < r->ranks; j++) {
            Axes rest = ~m->layout.pipeline.axis;
            if (place_of(r, k) != (sends ? at : peer) || place_of(r, j) != (sends ? peer : at) ||
                mesh_place(m, k, rest) != mesh_place(m, j, rest))
                continue;
            memcpy(r->arenas[j] + r->p->buffers.data[p->received[way]].offset +
                       p->stride[way] * x->in,
                   r->arenas[k] + r->p->buffers.data[p->sent[way]].offset + p->stride[way] * o->out,
                   (size_t)p->message[way]);
        }
    memmove(from->begun[s], from->begun[s] + 1, sizeof from->begun[s][0] * (PENDING - 1));
    memmove(to->begun[t], to->begun[t] + 1, sizeof to->begun[t][0] * (PENDING - 1));
    from->nbegun[s]--, to->nbegun[t]--;
    from->taken[s]++, to->taken[t]++;
    return true;
}

/* Collectives beside the table go on in their order: so many chunks are gathered, then reduced. */
static void go_beside(Runner *r, Walker *w, int at, int gathered, int reduced)
{
    const Pipe *p = r->prog->pipe;
    const Action *behind = &r->prog->actions.data[r->prog->loops.data[p->loop].end + 1];
    r->stage = at;
    for (; w->gathered < gathered; w->gathered++)
        for (int i = 0; i < p->ahead; i++)
            if (r->prog->actions.data[i].chunk == w->gathered + 1)
                run_together(r, &r->prog->actions.data[i]);
    for (; w->reduced < reduced; w->reduced++)
        for (int i = 0; i < p->behind; i++)
            if (behind[i].chunk == w->reduces[w->reduced] + 1)
                run_together(r, &behind[i]);
    r->stage = -1;
}

/* As far as an operation needs it; or, in a random order, further, but no further than it may. */
static void walk_beside(Runner *r, Walker *w, int at, const mg_pipe_op *o)
{
    const Pipe *p = r->prog->pipe;
    const int chunks = p->stages / p->ranks;
    if (o->step == MG_PIPE_REDUCE)
        w->reduces[w->nreduces++] = o->stage / p->ranks;
    if (o->step == MG_PIPE_UNSHARDED)
        go_beside(r, w, at, o->stage / p->ranks + 1, 0);
    if (o->step == MG_PIPE_REDUCE && !r->order)
        go_beside(r, w, at, chunks, w->nreduces);
    if (r->order && draw_int(r->order, 3) == 0)
        go_beside(r, w, at, w->gathered + (w->gathered < chunks),
                  w->gathered == chunks ? w->nreduces : 0);
}

/* One operation of a place; false: it has to wait. */
static bool walk_on(Runner *r, Walker *w, int at)
{
    Walker *me = &w[at];
    const mg_pipe_op *o = me->op;
    walk_beside(r, me, at, o);
    if (o->step <= MG_PIPE_W) {
        const bool pair = r->prog->pipe->join && o->step == MG_PIPE_F && o->with;
        r->stage = at;
        if (pair)
            run_pair(r, o);
        else
            run_compute(r, o);
        r->stage = -1;
        me->op += pair;
    } else if (o->step < MG_PIPE_WAIT) {
        if (me->nbegun[o->step] == PENDING)
            abort();
        me->begun[o->step][me->nbegun[o->step]++] = o;
    } else if (o->step == MG_PIPE_WAIT) {
        while (me->taken[o->of] <= me->waited[o->of])
            if (!take(r, w, at, o->of))
                return false;
        me->waited[o->of]++;
    }
    me->op++;
    return true;
}

/* All places, in turn or in a random order, until none can go on. */
void run_pipe(Runner *r)
{
    const Pipe *p = r->prog->pipe;
    Walker *w = calloc((size_t)p->ranks, sizeof *w);
    bool any = true, all = true;
    for (int k = 0; k < p->ranks; k++)
        w[k].op = p->ops[k];
    while (any) {
        any = false;
        int first = r->order ? draw_int(r->order, p->ranks) : 0;
        for (int k = 0; k < p->ranks; k++) {
            int at = (first + k) % p->ranks;
            while (w[at].op->step && walk_on(r, w, at)) {
                any = true;
                if (r->order && draw_int(r->order, 3) == 0)
                    break;
            }
        }
    }
    for (int k = 0; k < p->ranks; k++) {
        all &= !w[k].op->step;
        go_beside(r, &w[k], k, p->stages / p->ranks, w[k].nreduces);
    }
    if (!all) {
        fputs("the pipeline stands still\n", stderr);
        abort();
    }
    free(w);
}
