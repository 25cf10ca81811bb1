/* check_pipe.c - P8: iterations of a pipeline may run in the order of its table.
 *
 * check.c executes each iteration as if one rank ran all of it, with as many layers as that has a
 * stage (check_depth.c), and where a rank has several stages once more all that is on each of them.
 * That another order of whole phases means the same follows if phases share
 * nothing but what has slots, and what is only added to in one of them; if a slot is nobody else's
 * from the first phase of a stage and microbatch to the last; and if a message stays where it is
 * until it has been used. Here the table is walked for it.
 */
#include "plan/check/check_run.h"

#include <string.h>

static const char *buffer_name(const Check *c, const Buffer *b)
{
    return name_str(c->m->names, b->name);
}

static int phase_of(const Pipe *p, int action)
{
    int phase = 0;
    for (int k = 1; k < p->phases; k++)
        phase += action > p->begin[k];
    return phase;
}

/* ---- what phases share ----------------------------------------------------------------------- */

/* The stride with which a place moves from layer to layer, 0: it does not. */
static int64_t layer_stride(const Check *c, const Place *at)
{
    for (int k = 0; k < at->nloops; k++)
        if (c->prog->loops.data[at->loop[k].loop].dim.name == c->m->layout.pipeline.dim)
            return at->loop[k].stride;
    return 0;
}

static void check_place(Check *c, const Buffer *b, const Operand *o)
{
    const Pipeline *l = &c->m->layout.pipeline;
    int64_t stride = layer_stride(c, &o->at);
    if (b->by_layer ? stride * l->max_layers != b->slot : stride && l->chunks > 1)
        broken(c, 8, "'%s' is in slots of %lld bytes and moves by %lld from layer to layer",
               buffer_name(c, b), (long long)b->slot, (long long)stride);
    if (b->program != c->program || b->persistent)
        broken(c, 8, "'%s' has slots, and is of more than this program", buffer_name(c, b));
}

/* A phase runs the layers of one stage. Where a rank has several, what a phase has written of all
 * its layers is not whole: nothing but the loop over them touches it. */
static void check_layers(Check *c, const bool *written)
{
    const Program *g = c->prog;
    const Loop *micro = &g->loops.data[g->pipe->loop];
    for (int i = micro->begin + 1; i < micro->end && c->m->layout.pipeline.chunks > 1; i++)
        for (int k = 0; k < g->actions.data[i].noperands; k++) {
            const Operand *o = &g->actions.data[i].operand[k];
            c->at = i;
            if (written[o->at.buffer] && type_find(&o->type, c->m->layout.pipeline.dim) >= 0)
                broken(c, 8, "'%s' is of all layers of a rank, of which a phase has one stage's",
                       buffer_name(c, &c->p->buffers.data[o->at.buffer]));
        }
    c->at = -1;
}

static void check_shared(Check *c)
{
    const Program *g = c->prog;
    const Pipe *p = g->pipe;
    const Loop *micro = &g->loops.data[p->loop];
    unsigned *touched = NEW_ARRAY(c->tmp, unsigned, c->p->buffers.n);
    bool *written = NEW_ARRAY(c->tmp, bool, c->p->buffers.n);
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        bool inside = (int)i > micro->begin && (int)i < micro->end;
        c->at = (int)i;
        for (int k = 0; k < a->noperands; k++) {
            const Operand *o = &a->operand[k];
            const Buffer *b = &c->p->buffers.data[o->at.buffer];
            if (inside) {
                touched[o->at.buffer] |= 1u << phase_of(p, (int)i);
                written[o->at.buffer] |= o->write;
            }
            if (b->slot && !inside)
                broken(c, 8, "'%s' has slots, and is used outside of the pipeline",
                       buffer_name(c, b));
            if (b->slot)
                check_place(c, b, o);
        }
    }
    c->at = -1;
    check_layers(c, written);
    for (size_t k = 0; k < c->p->buffers.n; k++) {
        const Buffer *b = &c->p->buffers.data[k];
        if (written[k] && (touched[k] & (touched[k] - 1)) && !b->slot)
            broken(c, 8, "'%s' is handed from phase to phase, and has no slots", buffer_name(c, b));
        if (b->slot && b->program == c->program &&
            (b->first > micro->begin || b->last < micro->end))
            broken(c, 8, "'%s' has slots, and is not alive all the time", buffer_name(c, b));
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The holder of each of some equal places: 1 + a cell, or 0. */
typedef struct Holders {
    size_t *by;
    bool *come; /* received: it was waited for */
    int n;
    const char *what;
} Holders;

static void hold(Check *c, int rank, Holders *h, int k, size_t cell)
{
    if (k < 0 || k >= h->n)
        broken(c, 8, "rank %d of the pipeline: there is no %s %d", rank, h->what, k);
    else if (h->by[k])
        broken(c, 8, "rank %d of the pipeline: %s %d is in use", rank, h->what, k);
    else
        h->by[k] = cell + 1;
}

static void release(Check *c, int rank, Holders *h, int k, size_t cell, bool free)
{
    if (k < 0 || k >= h->n || h->by[k] != cell + 1)
        broken(c, 8, "rank %d of the pipeline: %s %d is not what is meant", rank, h->what, k);
    else if (free)
        h->by[k] = 0;
}

/* A message belongs to a stage and a microbatch: to the cell whose F or B makes it. */
static bool came_from(const mg_pipe_op *o, int stages)
{
    return o->step == MG_PIPE_F ? o->stage > 0 : o->step != MG_PIPE_W && o->stage + 1 < stages;
}

static bool goes_on(const mg_pipe_op *o, int stages)
{
    return o->step == MG_PIPE_F ? o->stage + 1 < stages : o->step != MG_PIPE_W && o->stage > 0;
}

static void compute(Check *c, int rank, const mg_pipe_op *o, Holders *slot, Holders *in,
                    Holders *out, size_t cell)
{
    const Pipe *p = c->prog->pipe;
    const int way = o->step != MG_PIPE_F;
    if (o->step == MG_PIPE_F)
        hold(c, rank, slot, o->slot, cell);
    release(c, rank, slot, o->slot, cell,
            o->step == MG_PIPE_B || o->step == MG_PIPE_W || p->phases == 1);
    if (came_from(o, p->stages)) {
        if (o->in < in[way].n && !in[way].come[o->in])
            broken(c, 8, "rank %d of the pipeline: what comes to buffer %d is not waited for", rank,
                   o->in);
        release(c, rank, &in[way], o->in, cell, true);
    }
    if (goes_on(o, p->stages))
        hold(c, rank, &out[way], o->out, cell);
}

static void receive(Check *c, int rank, const mg_pipe_op *o, Holders *in, size_t cell)
{
    const bool waits = o->step == MG_PIPE_WAIT;
    if (waits)
        release(c, rank, in, o->in, cell, false);
    else
        hold(c, rank, in, o->in, cell);
    if (o->in < in->n)
        in->come[o->in] = waits;
}

static void walk_rank(Check *c, int rank)
{
    const Pipe *p = c->prog->pipe;
    Holders slot = {NEW_ARRAY(c->tmp, size_t, p->slots[rank] + 1), NULL, p->slots[rank], "slot"};
    Holders out[2], in[2];
    for (int way = 0; way < 2; way++) {
        out[way] = (Holders){NEW_ARRAY(c->tmp, size_t, p->sends[way] + 1), NULL, p->sends[way],
                             "buffer of what is sent"};
        in[way] = (Holders){NEW_ARRAY(c->tmp, size_t, p->receives[way] + 1),
                            NEW_ARRAY(c->tmp, bool, p->receives[way] + 1), p->receives[way],
                            "buffer of what is received"};
    }
    for (const mg_pipe_op *o = p->ops[rank]; o->step; o++) {
        const int what = o->step == MG_PIPE_WAIT ? o->of : o->step;
        const int way = what == MG_PIPE_SEND_B || what == MG_PIPE_RECV_B;
        const bool sends = what == MG_PIPE_SEND_F || what == MG_PIPE_SEND_B;
        size_t cell = (size_t)o->microbatch * (size_t)p->stages + o->stage;
        if (o->step > MG_PIPE_WAIT)
            continue; /* check_beside.c */
        if (o->step <= MG_PIPE_W)
            compute(c, rank, o, &slot, in, out, cell);
        else if (sends)
            release(c, rank, &out[way], o->out, cell, o->step == MG_PIPE_WAIT);
        else
            receive(c, rank, o, &in[way], cell);
    }
    const Holders *all[] = {&slot, &out[0], &out[1], &in[0], &in[1]};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        for (int i = 0; i < all[k]->n; i++)
            if (all[k]->by[i]) /* the next step would begin with it in use */
                broken(c, 8, "rank %d of the pipeline: %s %d is in use at the end", rank,
                       all[k]->what, i);
}

/* ---- room ------------------------------------------------------------------------------------ */

static bool is_at(StageSet at, int rank, int ranks)
{
    StageSet here = (StageSet)((rank == 0 ? AT_FIRST : 0) | (rank == ranks - 1 ? AT_LAST : 0));
    return at & (here ? here : AT_MIDDLE);
}

static void check_room(Check *c)
{
    const Pipe *p = c->prog->pipe;
    const int ranks = p->ranks;
    for (size_t k = 0; k < c->p->buffers.n; k++) {
        const Buffer *b = &c->p->buffers.data[k];
        for (int rank = 0; rank < ranks && b->program == c->program; rank++)
            if (b->slot && is_at(b->at, rank, ranks) && b->bytes < b->slot * p->slots[rank])
                broken(c, 8, "'%s' has %lld bytes for %d slots of %lld", buffer_name(c, b),
                       (long long)b->bytes, p->slots[rank], (long long)b->slot);
    }
    for (int way = 0; way < 2; way++) {
        if (!p->message[way])
            continue;
        if (p->message[way] > p->stride[way] ||
            c->p->buffers.data[p->sent[way]].bytes < p->stride[way] * p->sends[way] ||
            c->p->buffers.data[p->received[way]].bytes < p->stride[way] * p->receives[way])
            broken(c, 8, "messages have no room");
    }
}

void check_pipe(Check *c)
{
    const Program *g = c->prog;
    c->at = -1;
    if (!g->pipe)
        return;
    if (g->pipe->ranks != mesh_size(c->m, c->m->layout.pipeline.axis) ||
        g->pipe->stages != mesh_stages(c->m)) {
        broken(c, 8, "%d stages on %d ranks are not those of the layout", g->pipe->stages,
               g->pipe->ranks);
        return;
    }
    check_shared(c);
    check_room(c);
    for (int rank = 0; rank < g->pipe->ranks && c->broken < CHECK_TOLD; rank++)
        walk_rank(c, rank);
}

/* ---- what a rank does of it ------------------------------------------------------------------ */

/* The values that a relay begins with come from the stage before, which ended with them. */
void check_pass(Check *c, const Action *a)
{
    const Operand *o = &a->operand[0], *message = &a->operand[1];
    bool receive = a->kind == ACT_receive;
    const Ins *relay = NULL; /* of its way: both may begin with one value, zeros */
    for (size_t l = 0; l < c->prog->loops.n && !relay; l++) {
        const Ins *i = c->loop_ins[l];
        for (int64_t k = 0; i->attrs.relay && i->attrs.reverse == a->way && k < i->attrs.carried;
             k++)
            if (o->value == (receive ? i->in[k] : i->out[k]))
                relay = i;
    }
    if (a->noperands != 2 || !relay || message->value || o->write != receive ||
        o->read == receive || message->write == receive ||
        !type_equal(&o->type, type_of(c->m, o->value)) || a->bytes != type_bytes(&o->type) ||
        !type_equal(&message->type, &o->type) || run_length(o) != type_elements(&o->type) ||
        run_length(message) != run_length(o) || message->at.offset != a->part) {
        broken(c, 8, "a message is not what a relay carries");
        return;
    }
    if (receive)
        write_operand(c, o);
    else
        expect_operand(c, o);
}

/* Of a broadcast along the axis of stages only the rank that has it looks at what it gives. */
bool check_gives(const Check *c, const Action *a)
{
    if (a->kind != ACT_comm || a->comm.kind != MG_BROADCAST ||
        a->comm.axes != c->m->layout.pipeline.axis)
        return true;
    return c->stages & (a->comm.root == 0               ? AT_FIRST
                        : a->comm.root == a->comm.n - 1 ? AT_LAST
                                                        : AT_MIDDLE);
}
