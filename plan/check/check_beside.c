/* check_beside.c - P7, P8: what a step gathers and reduces once may run beside its pipeline's
 * table.
 *
 * The program in its order, which check_run.c executes, gathers before all microbatches and reduces
 * behind them. It means the same that a chunk's gathers end before its first phase, and its
 * reductions begin behind its last, whatever the rank computes meanwhile, if
 *
 *   - on each rank, of the bytes that these collectives write nobody touches any, and of those that
 *     they read nobody writes any, but the phases of that chunk; before the loop, nobody at all;
 *   - of one another's bytes none touches any but in their order, in which their stream has them:
 *     gathers in that of the program, then reductions, a chunk's in that of the program, chunks in
 *     any;
 *   - each row of the table waits for a chunk's gathers before its first phase, and reduces once,
 *     behind its last;
 *   - and nothing else is sent along their axes meanwhile, where another stream could be first.
 *
 * All have ended where the loop ends. */
#include "plan/check/check_run.h"

typedef struct Range {
    int64_t lo, hi;
} Range;

/* The bytes of an operand, where a loop over layers goes through those of one chunk. */
static Range range_of(const Check *c, const Operand *o, int chunk)
{
    const Pipeline *l = &c->m->layout.pipeline;
    const int64_t width = dtype_bytes(o->type.dtype);
    Range r = {buffer_address(&c->p->buffers.data[o->at.buffer]) + o->at.offset, 0};
    r.hi = r.lo + width;
    for (int i = 0; i < o->type.rank; i++)
        r.hi += (o->type.dims[i].size - 1) * o->stride[i] * width;
    for (int i = 0; i < o->at.nloops; i++) {
        const Dim *d = &c->prog->loops.data[o->at.loop[i].loop].dim;
        const bool layers = d->name == l->dim;
        const int64_t stride = o->at.loop[i].stride, size = layers ? l->max_layers : d->size;
        const int64_t begin = stride * (layers ? chunk * l->max_layers : 0);
        const int64_t far = stride * (size - 1);
        r.lo += begin + (far < 0 ? far : 0);
        r.hi += begin + (far > 0 ? far : 0);
    }
    return r;
}

/* A byte that both touch, one of them writing, with `b` in a chunk; -1: there is none. */
static int64_t common_byte(const Check *c, const Action *a, const Action *b, int chunk)
{
    for (int i = 0; i < a->noperands; i++)
        for (int k = 0; k < b->noperands; k++) {
            const Range x = range_of(c, &a->operand[i], 0), y = range_of(c, &b->operand[k], chunk);
            if (a->chunk && b->chunk && !a->operand[i].value && !b->operand[k].value)
                continue; /* one stream's work space */
            if ((a->operand[i].write || b->operand[k].write) && x.lo < y.hi && y.lo < x.hi)
                return x.lo > y.lo ? x.lo : y.lo;
        }
    return -1;
}

static bool is_on(StageSet on, int at, int n)
{
    const StageSet here = (StageSet)((at == 0 ? AT_FIRST : 0) | (at == n - 1 ? AT_LAST : 0));
    return on & (here ? here : AT_MIDDLE);
}

/* By the communicator of these axes? Small collectives have others. */
static bool goes_along(const Action *b, Axes axes)
{
    return action_sends(b) && b->comm.axes == axes && !b->comm.small;
}

/* On a rank: what the phases of other chunks touch, and send. */
static bool check_phases(Check *c, const Action *a, int rank)
{
    const Pipe *p = c->prog->pipe;
    const Loop *micro = &c->prog->loops.data[p->loop];
    for (int i = micro->begin + 1; i < micro->end; i++) {
        const Action *b = &c->prog->actions.data[i];
        for (int chunk = 0; chunk < p->stages / p->ranks; chunk++) {
            if (!is_on(b->on, chunk * p->ranks + rank, p->stages))
                continue;
            const int64_t byte = chunk + 1 == a->chunk ? -1 : common_byte(c, a, b, chunk);
            if (byte >= 0) {
                broken(c, 8, "chunk %d is beside it, whose action %d touches byte %lld, too", chunk,
                       i, (long long)byte);
                return false;
            }
            if (goes_along(b, a->comm.axes)) {
                broken(c, 7, "action %d is beside it, along the same axes", i);
                return false;
            }
        }
    }
    return true;
}

/* Of what stands outside of the loop: before it, what is gathered meanwhile; reductions of chunks
 * have no order. */
static bool check_others(Check *c, int at, int rank)
{
    const Program *g = c->prog;
    const Action *a = &g->actions.data[at];
    const Loop *micro = &g->loops.data[g->pipe->loop];
    const bool gathers = at < g->pipe->ahead;
    const int from = gathers ? g->pipe->ahead : micro->end + 1;
    const int to = gathers ? micro->begin : at;
    for (int i = from; i < to; i++) {
        const Action *b = &g->actions.data[i];
        if (!is_on(b->on, rank, g->pipe->ranks) || (!gathers && b->chunk == a->chunk))
            continue;
        const int64_t byte = common_byte(c, a, b, 0);
        if (byte >= 0) {
            broken(c, 6, "action %d is beside it, and both touch byte %lld", i, (long long)byte);
            return false;
        }
        if (gathers && goes_along(b, a->comm.axes)) {
            broken(c, 7, "action %d is beside it, along the same axes", i);
            return false;
        }
    }
    return true;
}

/* Ranks between the first and the last have the same. */
static void check_bytes_beside(Check *c, int at)
{
    const Action *a = &c->prog->actions.data[at];
    const int n = c->prog->pipe->ranks;
    const int ranks[] = {0, n / 2, n - 1};
    for (int k = 0; k < 3; k++)
        if (is_on(a->on, ranks[k], n) &&
            (!check_phases(c, a, ranks[k]) || !check_others(c, at, ranks[k])))
            return;
}

static bool is_sound(Check *c, const Action *a)
{
    const Pipe *p = c->prog->pipe;
    const bool gpu = c->p->device->target == TARGET_cuda;
    bool waits = false;
    for (int s = 0; s < MAX_STREAMS; s++)
        waits |= a->wait[s] != 0;
    if (!action_sends(a) || a->comm.small || a->around >= 0 || a->chunk > p->stages / p->ranks ||
        (a->comm.axes & p->axis))
        broken(c, 8, "it is no collective that may be beside the table");
    else if (waits || a->stream != (gpu ? MG_STREAM_BESIDE : MG_STREAM_REST))
        broken(c, 6, "what is beside the table has its own stream, and waits in the table alone");
    else
        return true;
    return false;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* A row's stage of a chunk: how often it waits for what is gathered, and reduces, where. */
static void check_row(Check *c, int rank, int chunk, bool gathers, bool reduces)
{
    const Pipe *p = c->prog->pipe;
    const int stage = chunk * p->ranks + rank;
    bool has = !gathers;
    int reduced = 0;
    for (const mg_pipe_op *o = p->ops[rank]; o->step; o++) {
        if (o->stage != stage)
            continue;
        has |= o->step == MG_PIPE_UNSHARDED;
        reduced += o->step == MG_PIPE_REDUCE;
        if (o->step <= MG_PIPE_W && (!has || reduced)) {
            broken(c, 8, "rank %d of the pipeline: stage %d computes %s", rank, stage,
                   has ? "when its gradients are reduced" : "before its parameters are gathered");
            return;
        }
    }
    if (reduced != reduces)
        broken(c, 8, "rank %d of the pipeline: the gradients of stage %d are reduced %d times",
               rank, stage, reduced);
}

static void check_table(Check *c)
{
    const Program *g = c->prog;
    const Pipe *p = g->pipe;
    for (int chunk = 0; chunk < p->stages / p->ranks; chunk++) {
        bool gathers = false;
        for (int i = 0; i < p->ahead; i++)
            gathers |= g->actions.data[i].chunk == chunk + 1;
        for (int rank = 0; rank < p->ranks && c->broken < CHECK_TOLD; rank++)
            check_row(c, rank, chunk, gathers, p->behind > 0);
    }
}

void check_beside(Check *c)
{
    const Program *g = c->prog;
    const Pipe *p = g->pipe;
    const int end = p ? g->loops.data[p->loop].end + 1 : 0, n = (int)g->actions.n;
    if (p && (p->ahead < 0 || p->behind < 0 || p->ahead > g->loops.data[p->loop].begin ||
              p->behind > n - end)) {
        broken(c, 8, "%d and %d actions are beside the table", p->ahead, p->behind);
        return;
    }
    for (int i = 0; i < n && c->broken < CHECK_TOLD; i++) {
        const Action *a = &g->actions.data[i];
        const bool here = p && (i < p->ahead || (i >= end && i < end + p->behind));
        c->at = i;
        if (here != (a->chunk > 0))
            broken(c, 8, "it is beside the table, or stands there, and not both");
        if (here && a->chunk && is_sound(c, a))
            check_bytes_beside(c, i);
    }
    c->at = -1;
    if (p)
        check_table(c);
}
