/* schedule_begin.c - sums over a loop's iterations that begin with a write.
 *
 *   zero     G                             loop micro
 *   loop micro                     ->        product  G  = a b    in the first iteration
 *     product  G += a b                               G += a b    in all others
 *   end                                    end
 *
 * A sum that a loop carries starts from zeros. Where the first that touches them is a product or a
 * head, which can write as well as add, nobody has to write them: it saves a whole write of the
 * gradients and the first read. A sum of another action's (a scattered one, a kernel's) keeps its
 * zeros.
 *
 * The zeros are followed from the loop that carries them down to those that add: through the slices
 * that a loop over layers takes of them, and through windows that together are all of them. A value
 * with another reader keeps its zeros, and so does one of which some action reads a copy. In a
 * pipeline the first iteration is the one that the table has first for the stage. */
#include "plan/schedule/schedule.h"

#include <string.h>

enum { MAX_WRITERS = 64, MAX_VALUES = 256 };

typedef struct Writer {
    const Ins *ins;
    int nloops;
    uint32_t loop[MAX_BEGINS];
    int action;
} Writer;

/* One zero, and who writes first what was to be added to it. */
typedef struct Begin {
    Sched *s;
    const Uses *uses;
    int zero; /* index of its action */
    int nwriters, nvalues;
    Writer writer[MAX_WRITERS];
    Value value[MAX_VALUES]; /* that are zeros: none is ever read */
} Begin;

/* The uses of v by instructions of its own region, from `from` on; NULL: no further one. */
static const Ins *next_user(const Sched *s, Value v, size_t *from, uint32_t *operand)
{
    const Region *r = s->m->values.data[v].home;
    for (; *from < r->ins.n; ++*from) {
        const Ins *i = r->ins.data[*from];
        for (uint32_t k = 0; k < i->nin; k++)
            if (i->in[k] == v) {
                ++*from;
                *operand = k;
                return i;
            }
    }
    return NULL;
}

static bool follow(Begin *b, Value v, const uint32_t *loop, int nloops);

/* Do the windows of v, which are all its uses, put together all of it? */
static bool follow_windows(Begin *b, Value v, const uint32_t *loop, int nloops)
{
    const Sched *s = b->s;
    const Type *t = type_of(s->m, v);
    int64_t covered = 0, size = -1;
    uint32_t found = 0;
    for (bool more = true; more;) {
        const Ins *i;
        size_t from = 0;
        uint32_t k;
        more = false;
        while ((i = next_user(s, v, &from, &k))) {
            if (i->op != OP_window || i->attrs.at != covered)
                continue;
            const Dim along = i->attrs.along;
            size = t->dims[type_find(t, along.name)].size;
            covered += type_of(s->m, i->out[0])
                           ->dims[type_find(type_of(s->m, i->out[0]), along.name)]
                           .size;
            found++;
            more = true;
            if (!follow(b, i->out[0], loop, nloops))
                return false;
        }
    }
    return covered == size && found == b->uses->count[v];
}

static bool follow_loop(Begin *b, const Ins *i, uint32_t k, const uint32_t *loop, int nloops)
{
    Sched *s = b->s;
    const Value arg = i->body->args.data[k];
    const Pipe *pipe = s->prog->pipe;
    const int index = loop_plan(s, i)->index;
    uint32_t inner[MAX_BEGINS];
    if (k >= (uint32_t)i->attrs.carried) /* slices: of all iterations, or some are never written */
        return !pipe_runs_parts(s, i) && follow(b, arg, loop, nloops);
    if (nloops == MAX_BEGINS || pipe_is_relay(s, i) ||
        (pipe && pipe->loop != index && i->attrs.dim.name == s->m->layout.pipeline.dim))
        return false;
    for (int n = 0; n < nloops; n++)
        inner[n] = loop[n];
    inner[nloops] = (uint32_t)index;
    return follow(b, arg, inner, nloops + 1);
}

/* Zeros go on in v: is all of it written before it is read? */
static bool follow(Begin *b, Value v, const uint32_t *loop, int nloops)
{
    const Sched *s = b->s;
    size_t from = 0;
    uint32_t k = 0;
    const Ins *i = next_user(s, v, &from, &k);
    if (!i || b->nvalues == MAX_VALUES)
        return false;
    b->value[b->nvalues++] = v;
    if (i->op == OP_window)
        return follow_windows(b, v, loop, nloops);
    if (b->uses->count[v] != 1)
        return false;
    if (i->op == OP_repeat)
        return follow_loop(b, i, k, loop, nloops);
    if (i->op == OP_split || i->op == OP_merge || i->op == OP_rename)
        return follow(b, i->out[0], loop, nloops);
    if ((!op_is_product(i->op) && i->op != OP_head) || (int)k != ins_added(i) || !nloops ||
        b->nwriters == MAX_WRITERS)
        return false;
    Writer w = {.ins = i, .nloops = nloops, .action = -1};
    memcpy(w.loop, loop, (size_t)nloops * sizeof *loop);
    b->writer[b->nwriters++] = w;
    return true;
}

/* ---- actions --------------------------------------------------------------------------------- */

static Operand *sum_of(Action *a)
{
    return &a->operand[a->kind == ACT_head ? 6 : 2];
}

static bool is_zeros(const Begin *b, Value v)
{
    for (int n = 0; v && n < b->nvalues; n++)
        if (b->value[n] == v)
            return true;
    return false;
}

/* Is the loop over a stage's layers around an action? */
static bool by_layers(const Sched *s, const Action *a)
{
    for (int l = a->around; l >= 0; l = s->prog->loops.data[l].parent)
        if (s->prog->loops.data[l].dim.name == s->m->layout.pipeline.dim)
            return true;
    return false;
}

/* In a pipeline: no stage of a rank adds to what another has written, and each begins with the
 * first microbatch. */
static bool fits_pipe(const Sched *s, const Writer *w)
{
    const Pipe *p = s->prog->pipe;
    const Action *a = &s->prog->actions.data[w->action];
    bool inside = false;
    for (int n = 0; p && n < w->nloops; n++)
        inside |= (int)w->loop[n] == p->loop;
    return !inside || (pipe_begins_in_order(s, w->action) &&
                       (p->stages == p->ranks || by_layers(s, a) || !(a->on & AT_MIDDLE)));
}

/* Finds the actions of the writers. They work where the zeros are, and nobody reads those. */
static bool find_actions(Begin *b)
{
    Sched *s = b->s;
    const uint32_t buffer = s->prog->actions.data[b->zero].operand[0].at.buffer;
    for (size_t i = 0; i < s->prog->actions.n; i++) {
        Action *a = &s->prog->actions.data[i];
        for (int k = 0; (int)i != b->zero && k < a->noperands; k++)
            if (is_zeros(b, a->operand[k].value))
                return false;
        for (int n = 0; n < b->nwriters && (a->kind == ACT_gemm || a->kind == ACT_head); n++) {
            const Operand *o = sum_of(a);
            if (!o->value || s->m->values.data[o->value].def != b->writer[n].ins)
                continue;
            if (!o->read || o->at.buffer != buffer || a->nbegins)
                return false;
            b->writer[n].action = (int)i;
        }
    }
    for (int n = 0; n < b->nwriters; n++)
        if (b->writer[n].action < 0 || !fits_pipe(s, &b->writer[n]))
            return false;
    return b->nwriters > 0;
}

/* The writer does not read what it adds to in one of so many iterations. */
static void mark(Sched *s, const Writer *w)
{
    Action *a = &s->prog->actions.data[w->action];
    double times = 1;
    a->nbegins = w->nloops;
    for (int n = 0; n < w->nloops; n++) {
        a->begins[n] = w->loop[n];
        times *= (double)s->prog->loops.data[w->loop[n]].dim.size;
    }
    const double saved = (double)type_bytes(&sum_of(a)->type) / times;
    a->bytes_moved -= saved;
    if (s->p->device->target == TARGET_host) /* where arithmetic and traffic follow each other */
        a->seconds -= saved / s->p->device->bandwidth;
}

static bool begins(Begin *b)
{
    const Action *z = &b->s->prog->actions.data[b->zero];
    if (z->kind != ACT_zero || !follow(b, z->operand[0].value, NULL, 0) || !find_actions(b))
        return false;
    for (int n = 0; n < b->nwriters; n++)
        mark(b->s, &b->writer[n]);
    return true;
}

/* Takes the marked actions out of the program; all that counts actions follows. */
static void drop(Sched *s, const bool *gone)
{
    Program *g = s->prog;
    Pipe *p = g->pipe;
    const size_t n = g->actions.n;
    int *moved = NEW_ARRAY(s->tmp, int, n + 1);
    uint32_t *fewer = NEW_ARRAY(s->tmp, uint32_t, s->p->nactions + 1), dropped = 0;
    g->actions.n = 0;
    for (size_t i = 0; i < n; i++) {
        Action a = g->actions.data[i];
        moved[i] = (int)g->actions.n;
        dropped += gone[i];
        if (gone[i])
            continue;
        if (a.id != UINT32_MAX) {
            fewer[a.id] = dropped;
            a.id -= dropped;
        }
        g->actions.data[g->actions.n++] = a;
    }
    s->p->nactions -= dropped;
    for (size_t l = 0; l < g->loops.n; l++) {
        g->loops.data[l].begin = moved[g->loops.data[l].begin];
        g->loops.data[l].end = moved[g->loops.data[l].end];
    }
    for (int k = 0; p && k < p->phases; k++)
        p->begin[k] = moved[p->begin[k]];
    for (int k = 0; p && k < 2; k++) {
        p->send_id[k] -= p->send_id[k] == UINT32_MAX ? 0 : fewer[p->send_id[k]];
        p->receive_id[k] -= p->receive_id[k] == UINT32_MAX ? 0 : fewer[p->receive_id[k]];
    }
}

void begin_with_writes(Sched *s, const Fn *f)
{
    const Uses uses = ir_uses(s->m, f->body, s->tmp);
    const size_t n = s->prog->actions.n;
    bool *gone = NEW_ARRAY(s->tmp, bool, n + 1);
    for (size_t i = 0; i < n; i++) {
        Begin b = {.s = s, .uses = &uses, .zero = (int)i};
        gone[i] = begins(&b);
    }
    drop(s, gone);
}
