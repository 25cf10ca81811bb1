/* schedule_pipe.c - the loop over microbatches as a pipeline: its table, its phases, its messages.
 *
 * An iteration of the loop is written as if one rank ran all of it:
 *
 *   loop micro
 *     phase F    what comes before the layers; receive; loop layers; send
 *     phase B    what comes between; receive; loop layers, reverse; send; what comes after
 *
 * with the stages' own parts marked by where they are done (Action.on). The table says which phase
 * of which stage and microbatch a rank does when; a stage runs its layers' iterations alone. What
 * one phase leaves to the next lies in slots, as many as microbatches are under way. */
#include "plan/schedule/schedule.h"
#include "pipeline/pipe_layout.h"
#include "passes/view.h"

#include <string.h>

/* ---- relays ---------------------------------------------------------------------------------- */

bool pipe_is_relay(const Sched *s, const Ins *i)
{
    return s->m->layout.pipeline.axis && i->op == OP_repeat && i->attrs.relay;
}

bool pipe_chains(const Sched *s)
{
    return s->m->layout.pipeline.chunks == 1 && !ir_layers_differ(s->m);
}

bool pipe_runs_parts(const Sched *s, const Ins *i)
{
    const Pipeline *l = &s->m->layout.pipeline;
    return l->axis && !pipe_chains(s) && i->attrs.dim.name == l->dim;
}

static int relays_in(const Sched *s, const Region *r)
{
    int n = 0;
    for (size_t k = 0; k < r->ins.n; k++)
        n += pipe_is_relay(s, r->ins.data[k]);
    return n;
}

bool pipe_returns(const Sched *s, const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++)
        if (pipe_is_relay(s, r->ins.data[k]) && r->ins.data[k]->attrs.reverse)
            return true;
    return false;
}

bool pipe_begins_weights(const Sched *s, const Ins *i)
{
    const Pipe *p = s->prog->pipe;
    return p && p->phases == 2 && s->prog->loops.data[p->loop].end == 0 && !i->attrs.relay &&
           i->attrs.reverse && i->attrs.dim.name == s->m->layout.pipeline.dim &&
           pipe_returns(s, i->home);
}

/* ---- phases ---------------------------------------------------------------------------------- */

bool pipe_begin(Sched *s, const Ins *loop, int index)
{
    const Pipeline *l = &s->m->layout.pipeline;
    Arena *a = s->m->arena;
    int relays = relays_in(s, loop->body);
    if (!relays || !l->axis)
        return true;
    int ranks = (int)mesh_size(s->m, l->axis);
    int64_t iterations = loop->attrs.dim.size;
    const PipeTable *t = relays > 1 ? pipe_of_layout(s->m, iterations)
                                    : pipe_make_forward(a, ranks, l->chunks, (int)iterations);
    if (!t || !pipe_complete(t, s->m->diag))
        return false;
    Pipe *p = NEW(a, Pipe);
    PipeProgram *program = pipe_lower(a, t);
    PipeProof proof;
    if (!s->p->compared && !pipe_prove(s->tmp, program, s->m->diag, &proof))
        return false;
    *p = (Pipe){
        .loop = index, .axis = l->axis, .ranks = t->ranks, .stages = t->stages, .program = program};
    const PipeSlots *lies = pipe_slots(a, program);
    p->ops = NEW_ARRAY(a, mg_pipe_op *, t->ranks);
    p->slots = NEW_ARRAY(a, int, t->ranks);
    for (int rank = 0; rank < t->ranks; rank++) {
        p->ops[rank] = lies->rank[rank].op;
        p->slots[rank] = lies->rank[rank].slots;
    }
    memcpy(p->sends, lies->sends, sizeof p->sends);
    memcpy(p->receives, lies->receives, sizeof p->receives);
    s->prog->pipe = p;
    for (int k = 0; k < 2; k++)
        p->send_id[k] = p->receive_id[k] = UINT32_MAX;
    pipe_phase(s);
    return true;
}

void pipe_phase(Sched *s)
{
    Pipe *p = s->prog->pipe;
    if (p->phases == PIPE_PHASES)
        sched_bug(s, NULL, "a pipeline of more phases than there are");
    Action *a = action_new(s, ACT_phase, NULL, 0, NULL);
    p->begin[p->phases++] = (int)(a - s->prog->actions.data);
}

void pipe_end(Sched *s, int index)
{
    Pipe *p = s->prog->pipe;
    bool splits;
    if (p && p->loop == index && p->phases == 2 && pipe_layout_splits_wgrad(s->m, &splits) &&
        splits)
        pipe_phase(s);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Bytes of a message: all values that a relay carries, one behind the other. */
static int64_t message_bytes(const Sched *s, const Ins *i)
{
    int64_t bytes = 0;
    for (int64_t k = 0; k < i->attrs.carried; k++)
        bytes += device_round(s->p->device, type_bytes(type_of(s->m, i->out[k])));
    return bytes;
}

static void make_buffers(Sched *s, const Ins *i, int way)
{
    Pipe *p = s->prog->pipe;
    const char *const names[2][2] = {{"forward.sent", "forward.received"},
                                     {"back.sent", "back.received"}};
    p->message[way] = p->stride[way] = message_bytes(s, i);
    p->sent[way] = buffer_new(s, names[way][0], OWN_comm, p->stride[way] * p->sends[way], -1, 0);
    p->received[way] =
        buffer_new(s, names[way][1], OWN_comm, p->stride[way] * p->receives[way], -1, 0);
}

/* Between the message and where the carried value v is: `at`. */
static void pass(Sched *s, const Ins *i, ActionKind kind, Value v, const Loc *at, int64_t part)
{
    bool receive = kind == ACT_receive;
    int way = i->attrs.reverse;
    const Pipe *p = s->prog->pipe;
    Operand op[2] = {operand_of(s, v, !receive, receive),
                     {.at.buffer = receive ? p->received[way] : p->sent[way],
                      .type = *type_of(s->m, v),
                      .read = receive,
                      .write = !receive}};
    op[0].at = at->at;
    memcpy(op[0].stride, at->stride, sizeof op[0].stride);
    memcpy(op[1].stride, at->stride, sizeof op[1].stride);
    op[1].at.offset = part;
    if (!strides_are_dense(&op[0].type, at->stride))
        sched_bug(s, i, "a relay carries what is not dense");
    Action *a = action_new(s, kind, i, 2, op);
    a->bytes = type_bytes(&op[0].type);
    a->way = way;
    a->part = part;
    /* The first stage begins with what it has, the last ends with what it has; backwards likewise.
     */
    a->on = AT_ALL & (StageSet) ~(receive == !way ? AT_FIRST : AT_LAST);
    price(s, a, (Cost){.bytes = 2 * (double)a->bytes});
    uint32_t *id = receive ? &s->prog->pipe->receive_id[way] : &s->prog->pipe->send_id[way];
    *id = *id == UINT32_MAX ? a->id : *id;
}

void pipe_receive(Sched *s, const LoopPlan *lp)
{
    const Ins *i = lp->ins;
    int64_t part = 0;
    make_buffers(s, i, i->attrs.reverse);
    for (int64_t k = 0; k < i->attrs.carried; k++) {
        pass(s, i, ACT_receive, i->in[k], &lp->start[k], part);
        part += device_round(s->p->device, type_bytes(type_of(s->m, i->out[k])));
    }
}

void pipe_send(Sched *s, const LoopPlan *lp)
{
    const Ins *i = lp->ins;
    int64_t part = 0;
    for (int64_t k = 0; k < i->attrs.carried; k++) {
        pass(s, i, ACT_send, i->out[k], &lp->out[k], part);
        part += device_round(s->p->device, type_bytes(type_of(s->m, i->out[k])));
    }
}

/* ---- slots ----------------------------------------------------------------------------------- */

static int phase_of(const Pipe *p, int action)
{
    int k = p->phases - 1;
    while (k > 0 && action < p->begin[k])
        k--;
    return k;
}

/* Does an operation of the table run this phase? B is both halves of the backward pass. */
static bool runs_phase(const Pipe *p, const mg_pipe_op *o, int phase)
{
    return o->step == MG_PIPE_F   ? phase == 0
           : o->step == MG_PIPE_B ? phase > 0
           : o->step == MG_PIPE_I ? phase == 1
           : o->step == MG_PIPE_W ? phase == p->phases - 1
                                  : false;
}

bool pipe_begins_in_order(const Sched *s, int action)
{
    const Pipe *p = s->prog->pipe;
    const int phase = phase_of(p, action);
    bool *begun = NEW_ARRAY(s->tmp, bool, p->stages);
    for (int rank = 0; rank < p->ranks; rank++)
        for (const mg_pipe_op *o = p->ops[rank]; o->step; o++) {
            if (!runs_phase(p, o, phase))
                continue;
            if (!begun[o->stage] && o->microbatch)
                return false;
            begun[o->stage] = true;
        }
    return true;
}

/* A place that moves with the loop over a stage's layers. */
static bool by_layer(const Sched *s, const Place *at)
{
    for (int k = 0; k < at->nloops; k++)
        if (at->loop[k].stride &&
            s->prog->loops.data[at->loop[k].loop].dim.name == s->m->layout.pipeline.dim)
            return true;
    return false;
}

/* The most slots that the ranks have who have this buffer. */
static int64_t slots_at(const Pipe *p, StageSet at)
{
    int n = p->ranks, max = 1;
    for (int rank = 0; rank < n; rank++) {
        StageSet here = (StageSet)((rank == 0 ? AT_FIRST : 0) | (rank == n - 1 ? AT_LAST : 0));
        if ((at & (here ? here : AT_MIDDLE)) && p->slots[rank] > max)
            max = p->slots[rank];
    }
    return max;
}

void pipe_slots_of_buffers(Sched *s)
{
    const Program *g = s->prog;
    const Pipe *p = g->pipe;
    const Layout *l = &s->m->layout;
    if (!p)
        return;
    unsigned *phases = NEW_ARRAY(s->tmp, unsigned, s->p->buffers.n);
    const Loop *micro = &g->loops.data[p->loop];
    for (int i = micro->begin; i <= micro->end; i++)
        for (int k = 0; k < g->actions.data[i].noperands; k++) {
            const Operand *o = &g->actions.data[i].operand[k];
            Buffer *b = &s->p->buffers.data[o->at.buffer];
            phases[o->at.buffer] |= 1u << phase_of(p, i);
            if (b->home == p->loop)
                b->by_layer |= by_layer(s, &o->at);
        }
    for (size_t k = 0; k < s->p->buffers.n; k++) {
        Buffer *b = &s->p->buffers.data[k];
        if (b->program != s->program || b->home != p->loop)
            continue;
        if (!(phases[k] & (phases[k] - 1))) {
            b->by_layer = false;
            continue;
        }
        b->by_layer &= l->pipeline.chunks > 1;
        int64_t whole = b->value ? type_bytes(type_of(s->m, b->value)) : b->bytes;
        b->slot = b->by_layer ? whole / l->pipeline.chunks : b->bytes;
        b->bytes = device_round(s->p->device, b->slot * slots_at(p, b->at));
    }
}
