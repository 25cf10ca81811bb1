/* slots.c - which of several equal buffers each operation of a rank uses; see pipeline.h. */
#include "pipeline/cells.h"

/* Numbers that are in use; the lowest free one is taken. */
typedef struct Pool {
    VEC(bool) used;
} Pool;

static uint16_t take(Arena *a, Pool *p)
{
    size_t k = 0;
    while (k < p->used.n && p->used.data[k])
        k++;
    if (k == p->used.n)
        vec_push(a, &p->used, true);
    p->used.data[k] = true;
    return (uint16_t)k;
}

static void give(Pool *p, uint16_t k)
{
    p->used.data[k] = false;
}

/* One rank, operation by operation. Per cell: the numbers in use. */
typedef struct Slots {
    Arena *tmp;
    const PipeProgram *p;
    const PipeOps *ops;
    PipeOpsRow *row;
    Pool slot, send[2], receive[2];
    uint16_t *slot_of, *sent_from[2], *came_in[2];
    uint32_t next[PIPE_KINDS]; /* behind the last that was begun of a kind and waited for */
} Slots;

static int way_of(PipeKind k)
{
    return k == PIPE_SEND_B || k == PIPE_RECV_B;
}

static size_t cell(const Slots *s, PipeAction a)
{
    return pipe_cell(s->p->table, a.stage, a.microbatch);
}

static mg_pipe_op of_action(PipeAction a)
{
    static const uint8_t steps[PIPE_KINDS] = {
        [PIPE_F] = MG_PIPE_F,           [PIPE_B] = MG_PIPE_B,
        [PIPE_I] = MG_PIPE_I,           [PIPE_W] = MG_PIPE_W,
        [PIPE_SEND_F] = MG_PIPE_SEND_F, [PIPE_RECV_F] = MG_PIPE_RECV_F,
        [PIPE_SEND_B] = MG_PIPE_SEND_B, [PIPE_RECV_B] = MG_PIPE_RECV_B};
    return (mg_pipe_op){
        .step = steps[a.kind], .stage = (uint16_t)a.stage, .microbatch = a.microbatch};
}

static void put(Slots *s, mg_pipe_op op)
{
    s->row->op[s->row->n++] = op;
}

static void compute(Slots *s, PipeAction a)
{
    const PipeTable *t = s->p->table;
    size_t c = cell(s, a);
    mg_pipe_op op = of_action(a);
    PipeAction message;
    if (a.kind == PIPE_F)
        s->slot_of[c] = take(s->tmp, &s->slot);
    op.slot = s->slot_of[c];
    op.with = a.pair;
    if (a.kind == PIPE_B || a.kind == PIPE_W || t->forward)
        give(&s->slot, op.slot);
    if (pipe_recv_of(t, a, &message)) {
        int way = way_of(message.kind);
        op.in = (uint8_t)s->came_in[way][cell(s, message)];
        give(&s->receive[way], op.in);
    }
    if (pipe_send_of(t, a, &message)) {
        int way = way_of(message.kind);
        uint16_t k = s->sent_from[way][cell(s, message)] = take(s->tmp, &s->send[way]);
        op.out = (uint8_t)k;
    }
    put(s, op);
}

static void start(Slots *s, size_t i)
{
    const PipeOp *op = &s->ops->data[i];
    PipeAction a = op->action;
    int way = way_of(a.kind);
    mg_pipe_op to = of_action(a);
    for (size_t k = i + 1;
         k < s->ops->n && s->ops->data[k].step == PIPE_START && s->ops->data[k].issue == op->issue;
         k++)
        to.with++;
    if (pipe_sends(a.kind))
        to.out = (uint8_t)s->sent_from[way][cell(s, a)];
    else
        to.in = (uint8_t)(s->came_in[way][cell(s, a)] = take(s->tmp, &s->receive[way]));
    put(s, to);
}

static void wait(Slots *s, PipeAction a)
{
    int way = way_of(a.kind);
    mg_pipe_op to = of_action(a);
    to.of = to.step;
    to.step = MG_PIPE_WAIT;
    if (pipe_sends(a.kind)) {
        to.out = (uint8_t)s->sent_from[way][cell(s, a)];
        give(&s->send[way], to.out);
    } else {
        to.in = (uint8_t)s->came_in[way][cell(s, a)];
    }
    put(s, to);
}

/* A program gathers before its table. */
static void beside(Slots *s, PipeAction a)
{
    if (a.kind == PIPE_REDUCE)
        put(s, (mg_pipe_op){.step = MG_PIPE_REDUCE, .stage = (uint16_t)a.stage});
}

/* A wait for one action is a wait for all before it. */
static void waits(Slots *s, const PipeOp *op)
{
    if (op->action.kind == PIPE_UNSHARD) {
        put(s, (mg_pipe_op){.step = MG_PIPE_UNSHARDED, .stage = (uint16_t)op->action.stage});
        return;
    }
    uint32_t *k = &s->next[op->action.kind];
    for (; *k <= op->of; ++*k) {
        const PipeOp *begun = &s->ops->data[*k];
        if (begun->step == PIPE_START && begun->action.kind == op->action.kind)
            wait(s, begun->action);
    }
}

static void more(int *max, const Pool *p)
{
    *max = (int)p->used.n > *max ? (int)p->used.n : *max;
}

PipeSlots *pipe_slots(Arena *a, const PipeProgram *p)
{
    PipeSlots *r = NEW(a, PipeSlots);
    r->rank = NEW_ARRAY(a, PipeOpsRow, p->table->ranks);
    Arena *tmp = arena_new();
    Slots all = {.tmp = tmp, .p = p};
    all.slot_of = NEW_ARRAY(tmp, uint16_t, pipe_cells(p->table));
    for (int way = 0; way < 2; way++) {
        all.sent_from[way] = NEW_ARRAY(tmp, uint16_t, pipe_cells(p->table));
        all.came_in[way] = NEW_ARRAY(tmp, uint16_t, pipe_cells(p->table));
    }
    for (int rank = 0; rank < p->table->ranks; rank++) {
        Slots s = all; /* cells are a rank's own */
        s.ops = &p->rank[rank];
        s.row = &r->rank[rank];
        s.row->op = NEW_ARRAY(a, mg_pipe_op, s.ops->n + 1);
        for (size_t i = 0; i < s.ops->n; i++) {
            const PipeOp *op = &s.ops->data[i];
            if (op->step == PIPE_COMPUTE)
                compute(&s, op->action);
            else if (op->step == PIPE_START)
                start(&s, i);
            else if (op->step == PIPE_BESIDE)
                beside(&s, op->action);
            else
                waits(&s, op);
        }
        s.row->slots = (int)s.slot.used.n;
        for (int way = 0; way < 2; way++) {
            more(&r->sends[way], &s.send[way]);
            more(&r->receives[way], &s.receive[way]);
        }
    }
    arena_free(tmp);
    return r;
}
