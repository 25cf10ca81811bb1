/* beside.c - what a step gathers and reduces once, beside a pipeline's table.
 *
 *   computes  | F0 F0 F0 F0 | F1 F1 F1 F1 | ... | B1 B1 B1 B1 | B0 B0 B0 B0 |
 *   beside    [u0][u1]                                        [-- r1 --]    [-- r0 --]
 *
 * With ZeRO 1 and 2, and with plain data parallelism, parameters are gathered and gradients reduced
 * once a step: before all microbatches and behind them. A chunk of a rank's layers needs its own
 * parameters alone, with its first microbatch, and its gradients are whole with its last. So these
 * collectives are in a stream of their own, beside the chunks that compute, and beside a rank that
 * waits for its first microbatch, or for the ranks behind it. Without chunks only the latter is
 * left.
 *
 * In the program they stay where they are, so that its order still is its meaning: the gathers
 * first of all, the reductions right behind the loop. A collective may leave its place if it
 * touches what the phases of one chunk alone touch (Action.chunk), and nothing else runs along its
 * axes meanwhile, for one communicator takes one thing after the other. The table says when
 * (lower.c). check_beside.c proves it, and shares nothing with this file. */
#include "plan/order/order.h"
#include "plan/order/streams.h"
#include "pipeline/pipeline.h"

#include <string.h>

typedef struct Beside {
    const Plan *p;
    Program *g;
    const Loop *micro;
    const Pipeline *layout;
} Beside;

/* The bytes of a buffer that an operand is in, where a loop over layers goes through those of one
 * chunk. */
static Bytes bytes_of_chunk(const Beside *s, const Operand *o, int chunk)
{
    Bytes b = {o->at.offset, o->at.offset + dtype_bytes(o->type.dtype)};
    for (int i = 0; i < o->type.rank; i++)
        b.hi += (o->type.dims[i].size - 1) * o->stride[i] * dtype_bytes(o->type.dtype);
    for (int i = 0; i < o->at.nloops; i++) {
        const Dim *d = &s->g->loops.data[o->at.loop[i].loop].dim;
        const bool layers = d->name == s->layout->dim;
        const int64_t first = layers ? chunk * s->layout->max_layers : 0;
        const int64_t last = layers ? first + s->layout->max_layers - 1 : d->size - 1;
        const int64_t x = o->at.loop[i].stride * first, y = o->at.loop[i].stride * last;
        b.lo += x < y ? x : y;
        b.hi += x < y ? y : x;
    }
    return b;
}

/* The chunks in which an action of the loop is done, as a set. */
static uint32_t chunks_with(const Beside *s, StageSet on)
{
    const uint32_t last = 1u << (s->layout->chunks - 1);
    return on & AT_MIDDLE ? 2 * last - 1 : (on & AT_FIRST ? 1 : 0) | (on & AT_LAST ? last : 0);
}

/* The chunks whose phases write what two operands have in common, or read what is written there. */
static uint32_t common_chunks(const Beside *s, const Operand *of, const Action *a, const Operand *o)
{
    const Bytes x = operand_bytes(s->p, s->g, of, false);
    uint32_t all = 0;
    if (of->at.buffer != o->at.buffer || (!of->write && !o->write))
        return 0;
    for (int chunk = 0; chunk < s->layout->chunks; chunk++) {
        const Bytes y = bytes_of_chunk(s, o, chunk);
        if (chunks_with(s, a->on) >> chunk & 1 && x.lo < y.hi && y.lo < x.hi)
            all |= 1u << chunk;
    }
    return all;
}

static uint32_t touched_by(const Beside *s, const Action *of)
{
    uint32_t all = 0;
    for (int i = s->micro->begin + 1; i < s->micro->end; i++) {
        const Action *a = &s->g->actions.data[i];
        for (int k = 0; k < a->noperands; k++)
            for (int n = 0; n < of->noperands; n++)
                all |= common_chunks(s, &of->operand[n], a, &a->operand[k]);
    }
    return all;
}

/* Does another collective of actions [from, to) go along the same axes? */
static bool axes_are_used(const Beside *s, const Action *of, int from, int to)
{
    for (int i = from; i < to; i++) {
        const Action *a = &s->g->actions.data[i];
        if (action_sends(a) && !a->chunk && !a->comm.small && a->comm.axes == of->comm.axes)
            return true;
    }
    return false;
}

static bool may_be_beside(const Beside *s, const Action *a)
{
    return action_sends(a) && a->around < 0 && !(a->comm.axes & s->layout->axis) &&
           !axes_are_used(s, a, s->micro->begin, s->micro->end);
}

/* The number of a set's only chunk, 1 for the first; 0: there are several, or none. */
static int only_chunk(uint32_t set)
{
    int n = 0;
    while (set >> n)
        n++;
    return set && set == 1u << (n - 1) ? n : 0;
}

/* Of the stretch [from, end): those that may leave it. What they need of it leaves with them, and
 * so does what of it needs the same bytes. */
static void choose(const Beside *s, int from, int end)
{
    Action *act = s->g->actions.data;
    for (int i = from; i < end; i++) {
        uint32_t chunks = may_be_beside(s, &act[i]) ? touched_by(s, &act[i]) : 0;
        bool stays = false;
        for (int k = from; k < i; k++) {
            if (!conflict(s->p, s->g, &act[k], &act[i], false))
                continue;
            stays |= !act[k].chunk;
            chunks |= act[k].chunk ? 1u << (act[k].chunk - 1) : 0;
        }
        act[i].chunk = may_be_beside(s, &act[i]) && !stays ? only_chunk(chunks) : 0;
    }
}

/* Before the loop nothing of the rest may touch what is gathered, or go along its axes. */
static void keep_apart(const Beside *s, int end)
{
    Action *act = s->g->actions.data;
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < end; i++) {
            bool stays = act[i].chunk && axes_are_used(s, &act[i], 0, end);
            for (int k = 0; k < end && act[i].chunk; k++)
                stays |= !act[k].chunk && conflict(s->p, s->g, &act[k], &act[i], false);
            any |= stays;
            act[i].chunk = stays ? 0 : act[i].chunk;
        }
    }
}

/* Brings the chosen of [from, end) to its beginning: by chunk, from the first on or the last;
 * returns how many they are. */
static int bring(const Beside *s, int from, int end, bool up, Arena *tmp)
{
    const int n = end - from, chunks = s->layout->chunks;
    Action *act = s->g->actions.data + from, *was = NEW_ARRAY(tmp, Action, n + 1);
    int to = 0, chosen = 0;
    memcpy(was, act, (size_t)n * sizeof *act);
    for (int c = 0; c <= chunks; c++) {
        const int chunk = c == chunks ? 0 : up ? c + 1 : chunks - c;
        for (int i = 0; i < n; i++)
            if (was[i].chunk == chunk)
                act[to++] = was[i];
        chosen = chunk ? to : chosen;
    }
    return chosen;
}

/* One stream does actions [from, to) one after the other: their work spaces are one, the largest.
 */
static void share_work(const Beside *s, int from, int to)
{
    Buffer *largest = NULL, *buffer = s->p->buffers.data;
    for (int both = 0; both < 2; both++)
        for (int i = from; i < to; i++) {
            Action *a = &s->g->actions.data[i];
            for (int k = 0; k < a->noperands; k++) {
                Buffer *b = &buffer[a->operand[k].at.buffer];
                if (a->operand[k].value)
                    continue;
                if (both && b != largest) {
                    largest->at |= b->at;
                    a->operand[k].at.buffer = (uint32_t)(largest - buffer);
                    b->bytes = b->offset = 0; /* nobody has it */
                } else if (!largest || b->bytes > largest->bytes) {
                    largest = b;
                }
            }
        }
}

static void tell_table(const Beside *s)
{
    Pipe *pipe = s->g->pipe;
    Arena *a = s->p->module->arena;
    PipeTable *t = NEW(a, PipeTable);
    *t = *pipe->program->table;
    t->unshards = pipe->ahead > 0;
    t->reduces = pipe->behind > 0;
    pipe->program = pipe_lower(a, t);
    const PipeSlots *lies = pipe_slots(a, pipe->program);
    for (int rank = 0; rank < t->ranks; rank++)
        pipe->ops[rank] = lies->rank[rank].op;
}

static int next_meeting(const Program *g, int at)
{
    while (at < (int)g->actions.n && !meets_all(&g->actions.data[at]))
        at++;
    return at;
}

void pipe_alone(const Plan *p, Program *g)
{
    const Beside s = {p, g, &g->loops.data[g->pipe->loop], &p->module->layout.pipeline};
    for (size_t i = 0; i < g->actions.n; i++)
        g->actions.data[i].chunk = 0;
    g->pipe->ahead = g->pipe->behind = 0;
    tell_table(&s);
}

bool pipe_beside(const Plan *p, Program *g, Arena *tmp)
{
    if (!g->pipe)
        return false;
    const Beside s = {p, g, &g->loops.data[g->pipe->loop], &p->module->layout.pipeline};
    Pipe *pipe = g->pipe;
    const int behind = s.micro->end + 1, end = next_meeting(g, behind);
    if (pipe->phases < 2 || p->device->streams < 2 || p->device->collectives_wait ||
        s.layout->chunks > 24)
        return false;
    choose(&s, behind, end);
    pipe->behind = bring(&s, behind, end, false, tmp);
    if (next_meeting(g, 0) == s.micro->begin) {
        choose(&s, 0, s.micro->begin);
        keep_apart(&s, s.micro->begin);
        pipe->ahead = bring(&s, 0, s.micro->begin, true, tmp);
    }
    if (!pipe->ahead && !pipe->behind)
        return false;
    share_work(&s, 0, pipe->ahead);
    share_work(&s, behind, behind + pipe->behind);
    tell_table(&s);
    return true;
}
