/* check_ranks.c - P7, P8: nobody waits for ever, by running what ranks do together.
 *
 * Each rank goes through the program as it is emitted: a loop's body once (all ranks of a group
 * make the same iterations), a pipeline by its table. It stands still at a collective until all of
 * its group are there, at the same, and where it waits for a message until both ends have begun;
 * the n-th that one rank sends another is the n-th that that one receives from it. If in the end
 * some stand still, or meet at different collectives, the plan is wrong.
 *
 * Ranks that differ in other axes than that of stages run the same rows of the table, and meet
 * along those axes in the order of the program: so one of each place along the axis of stages
 * stands for all (folded). Of meshes of up to 64 ranks all are run, too: that has to come to the
 * same. What is beside the table is run where the table lets it begin, as if the rank waited for it
 * there: in its own stream it holds up less. */
#include "plan/check/check_run.h"

#include <string.h>

enum { UNFOLDED = 64 };

/* Messages from one rank to another: of each end, what it has begun. */
typedef struct Channel {
    VEC(const mg_pipe_op *) end[2]; /* sends, receives */
} Channel;

typedef struct Rank {
    int64_t number;
    int place;               /* along the axis of stages */
    int at;                  /* the next action */
    int end;                 /* of the phase that runs, or of the program */
    const mg_pipe_op *op;    /* in a pipeline */
    int phases;              /* that the operation still has to run, the one that runs included */
    const Action *meets;     /* the collective it stands at */
    size_t waited[2][2];     /* by way, sends and receives: how many were waited for, */
    VEC(size_t) index[2][2]; /* and of those begun, which message of its channel each is */
} Rank;

typedef struct Ranks {
    Check *c;
    const Pipe *pipe;
    Rank *rank;
    int n;
    bool folded;
    Channel *channel; /* [from * n + to] */
    bool told;
} Ranks;

static StageSet stage_set_of(int place, int n)
{
    StageSet at = (StageSet)((place == 0 ? AT_FIRST : 0) | (place == n - 1 ? AT_LAST : 0));
    return at ? at : AT_MIDDLE;
}

static bool does(const Ranks *r, const Rank *x, const Action *a)
{
    const Module *m = r->c->m;
    if (a->chunk && x->op && a->chunk - 1 != x->op->stage / r->pipe->ranks)
        return false;
    if (x->op && !a->chunk)
        return a->on & stage_set_of(x->op->stage, r->pipe->stages);
    return !m->layout.pipeline.axis ||
           (a->on & stage_set_of(x->place, (int)mesh_size(m, m->layout.pipeline.axis)));
}

/* ---- collectives ----------------------------------------------------------------------------- */

static bool same_collective(const Action *a, const Action *b)
{
    const mg_comm_desc *x = &a->comm, *y = &b->comm;
    return x->kind == y->kind && x->dtype == y->dtype && x->axes == y->axes && x->n == y->n &&
           x->outer * x->size * x->inner == y->outer * y->size * y->inner && x->max == y->max &&
           x->tree == y->tree && x->root == y->root && x->piece == y->piece;
}

static bool in_group(const Ranks *r, const Rank *x, const Rank *y, Axes axes)
{
    return mesh_place(r->c->m, x->number, ~axes) == mesh_place(r->c->m, y->number, ~axes);
}

/* All of its group are at a collective along the same axes: they go on. */
static bool meet(Ranks *r, Rank *x)
{
    const Action *a = x->meets;
    for (int k = 0; k < r->n; k++) {
        const Rank *y = &r->rank[k];
        if (!in_group(r, x, y, a->comm.axes))
            continue;
        if (!y->meets || y->meets->comm.axes != a->comm.axes)
            return false;
        if (!same_collective(a, y->meets) && !r->told) {
            r->told = true;
            broken(r->c, 7, "rank %lld does '%s' where rank %lld does '%s'", (long long)x->number,
                   name_str(r->c->m->names, a->name), (long long)y->number,
                   name_str(r->c->m->names, y->meets->name));
        }
    }
    for (int k = 0; k < r->n; k++)
        if (in_group(r, x, &r->rank[k], a->comm.axes) && &r->rank[k] != x) {
            r->rank[k].meets = NULL;
            r->rank[k].at++;
        }
    x->meets = NULL;
    x->at++;
    return true;
}

/* Folded, those of other axes are not among the ranks that run. */
static bool is_met(const Ranks *r, const Action *a)
{
    Axes stages = r->c->m->layout.pipeline.axis;
    return action_sends(a) && (!r->folded || (a->comm.axes & stages));
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool sends(int step)
{
    return step == MG_PIPE_SEND_F || step == MG_PIPE_SEND_B;
}

static int way_of(int step)
{
    return step == MG_PIPE_SEND_B || step == MG_PIPE_RECV_B;
}

/* The rank at the other end of a message: the next or the one before along the axis of stages. */
static int peer_of(const Ranks *r, const Rank *x, int step)
{
    const Module *m = r->c->m;
    const int n = r->pipe->ranks, by = sends(step) == !way_of(step) ? 1 : n - 1;
    const Axes rest = ~m->layout.pipeline.axis;
    for (int k = 0; k < r->n; k++)
        if (r->rank[k].place == (x->place + by) % n &&
            mesh_place(m, r->rank[k].number, rest) == mesh_place(m, x->number, rest))
            return k;
    return -1;
}

static Channel *channel_of(const Ranks *r, const Rank *x, int step)
{
    int me = (int)(x - r->rank), peer = peer_of(r, x, step);
    return &r->channel[sends(step) ? me * r->n + peer : peer * r->n + me];
}

/* Is what is received what was sent? */
static bool agree(const mg_pipe_op *sent, const mg_pipe_op *received)
{
    return way_of(sent->step) == way_of(received->step) &&
           sent->microbatch == received->microbatch &&
           received->stage == sent->stage + (way_of(sent->step) ? -1 : 1);
}

static void begin(Ranks *r, Rank *x, const mg_pipe_op *o)
{
    Channel *c = channel_of(r, x, o->step);
    const int way = way_of(o->step), side = !sends(o->step);
    const size_t k = c->end[side].n;
    vec_push(r->c->tmp, &c->end[side], o);
    vec_push(r->c->tmp, &x->index[way][side], k);
    if (k < c->end[!side].n && !agree(c->end[0].data[k], c->end[1].data[k]) && !r->told) {
        r->told = true;
        broken(r->c, 8,
               "message %zu from stage %d, of microbatch %d, is received at stage %d as %d", k,
               c->end[0].data[k]->stage, (int)c->end[0].data[k]->microbatch,
               c->end[1].data[k]->stage, (int)c->end[1].data[k]->microbatch);
    }
}

/* The oldest of its kind that was not waited for: have both ends begun? */
static bool has_come(Ranks *r, Rank *x, const mg_pipe_op *o)
{
    const int way = way_of(o->of), side = !sends(o->of);
    size_t *waited = &x->waited[way][side];
    if (*waited >= x->index[way][side].n)
        return false;
    const Channel *c = channel_of(r, x, o->of);
    if (c->end[!side].n <= x->index[way][side].data[*waited])
        return false;
    ++*waited;
    return true;
}

/* ---- one rank -------------------------------------------------------------------------------- */

static void run_phase(Ranks *r, Rank *x, int phase)
{
    const Pipe *p = r->pipe;
    x->at = p->begin[phase] + 1;
    x->end = phase < PIPE_PHASES - 1 && phase + 1 < p->phases ? p->begin[phase + 1]
                                                              : r->c->prog->loops.data[p->loop].end;
}

/* The operation that is next; false: it has to wait. */
static bool walk_table(Ranks *r, Rank *x)
{
    const Pipe *p = r->pipe;
    const mg_pipe_op *o = x->op;
    if (!o->step) {
        x->op = NULL;
        x->at = pipe_behind(r->c->prog);
        x->end = (int)r->c->prog->actions.n;
        return true;
    }
    if (o->step == MG_PIPE_WAIT) {
        if (!has_come(r, x, o))
            return false;
        x->op++;
    } else if (o->step == MG_PIPE_REDUCE) {
        x->phases = 1;
        x->at = r->c->prog->loops.data[p->loop].end + 1;
        x->end = pipe_behind(r->c->prog);
    } else if (o->step == MG_PIPE_UNSHARDED) {
        x->op++;
    } else if (o->step > MG_PIPE_W) {
        begin(r, x, o);
        x->op++;
    } else {
        x->phases = o->step == MG_PIPE_B && p->phases == 3 ? 2 : 1;
        run_phase(r, x, o->step == MG_PIPE_F ? 0 : o->step == MG_PIPE_W ? 2 : 1);
    }
    return true;
}

/* As far as it comes; false: not a step. */
static bool advance(Ranks *r, Rank *x)
{
    bool any = false;
    for (;;) {
        if (x->meets)
            return meet(r, x) || any;
        if (x->at >= x->end && !x->op)
            return any;
        if (x->op && !x->phases) {
            if (!walk_table(r, x))
                return any;
        } else if (x->at >= x->end) {
            if (--x->phases)
                run_phase(r, x, 2);
            else
                x->op++;
        } else {
            const Action *a = &r->c->prog->actions.data[x->at];
            if (r->pipe && !x->op && a->kind == ACT_loop && (int)a->loop == r->pipe->loop)
                x->op = r->pipe->ops[x->place];
            else if (is_met(r, a) && does(r, x, a))
                x->meets = a;
            else
                x->at++;
        }
        any = true;
    }
}

static void tell_standing(const Ranks *r)
{
    for (int k = 0; k < r->n; k++) {
        const Rank *x = &r->rank[k];
        if (!x->meets && !x->op)
            continue;
        if (x->meets)
            broken(r->c, 7, "rank %lld waits for ever in '%s'", (long long)x->number,
                   name_str(r->c->m->names, x->meets->name));
        else
            broken(r->c, 8, "rank %lld waits for ever for a message of stage %d, microbatch %d",
                   (long long)x->number, x->op->stage, (int)x->op->microbatch);
        return;
    }
}

static void run(Check *c, const int64_t *numbers, int n, bool folded)
{
    const Module *m = c->m;
    Ranks r = {.c = c, .pipe = c->prog->pipe, .n = n, .folded = folded};
    r.rank = NEW_ARRAY(c->tmp, Rank, n);
    r.channel = NEW_ARRAY(c->tmp, Channel, n * n);
    for (int k = 0; k < n; k++)
        r.rank[k] = (Rank){.number = numbers[k],
                           .place = (int)mesh_place(m, numbers[k], m->layout.pipeline.axis),
                           .end = (int)c->prog->actions.n};
    for (bool any = true; any && !r.told;) {
        any = false;
        for (int k = 0; k < n; k++)
            any |= advance(&r, &r.rank[k]);
    }
    if (!r.told)
        tell_standing(&r);
}

/* The first of each place along the axis of stages; or all. */
void check_ranks(Check *c, bool folded)
{
    const Module *m = c->m;
    const Axes axis = m->layout.pipeline.axis;
    const int64_t all = mesh_ranks(m), places = axis ? mesh_size(m, axis) : 1;
    int64_t *numbers = NEW_ARRAY(c->tmp, int64_t, folded ? places : all);
    int n = 0;
    c->at = -1;
    for (int64_t k = 0; k < all && (!folded || n < places); k++)
        if (!folded || (mesh_place(m, k, axis) == n && mesh_place(m, k, ~axis) == 0))
            numbers[n++] = k;
    run(c, numbers, n, folded);
}

bool check_unfolds(const Module *m)
{
    return mesh_ranks(m) > 1 && mesh_ranks(m) <= UNFOLDED;
}
