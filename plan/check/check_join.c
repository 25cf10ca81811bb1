/* check_join.c - P12: the two of a pair, beside each other, compute what they do one after the
 * other.
 *
 * The phases touch no byte of each other that one of them writes, but in slots, of which each
 * has its own while both are under way (P8). So only the order within each matters: what stands
 * before its layers, layer by layer, and behind, is as it was, and within a layer what touches the
 * same bytes keeps its order, in streams too (check_streams.c, of the body). Each action of the two
 * loops is there once. All ranks that do a collective together walk the same row of the table, and
 * so come to the body's in one order. */
#include "plan/check/check_run.h"

#include <string.h>

/* The bytes of an operand, in all iterations. */
static void bytes_of(const Check *c, const Operand *o, int64_t *lo, int64_t *hi)
{
    *lo = *hi = buffer_address(&c->p->buffers.data[o->at.buffer]) + o->at.offset;
    for (int i = 0; i < o->at.nloops; i++) {
        int64_t far = o->at.loop[i].stride * (c->prog->loops.data[o->at.loop[i].loop].dim.size - 1);
        *(far < 0 ? lo : hi) += far;
    }
    for (int i = 0; i < o->type.rank; i++)
        *hi += (o->type.dims[i].size - 1) * o->stride[i] * dtype_bytes(o->type.dtype);
    *hi += dtype_bytes(o->type.dtype);
}

/* In a buffer with slots, or of messages, all of it: the table says where. */
static bool widen(const Check *c, const Operand *o, int64_t *lo, int64_t *hi)
{
    const Buffer *b = &c->p->buffers.data[o->at.buffer];
    const Pipe *pipe = c->prog->pipe;
    bool moves = b->slot != 0;
    for (int way = 0; way < 2 && pipe->message[way]; way++)
        moves |= o->at.buffer == pipe->sent[way] || o->at.buffer == pipe->received[way];
    if (moves) {
        *lo = buffer_address(b);
        *hi = *lo + b->bytes;
    }
    return moves;
}

static void check_apart(Check *c, const Operand *x, const Operand *y)
{
    int64_t a, b, from, to;
    const Buffer *of = c->p->buffers.data;
    if ((!x->write && !y->write) || !(of[x->at.buffer].at & of[y->at.buffer].at))
        return; /* or no rank has both */
    bytes_of(c, x, &a, &b);
    bytes_of(c, y, &from, &to);
    const bool slots = widen(c, x, &a, &b) & widen(c, y, &from, &to);
    if (a < to && from < b && !(slots && x->at.buffer == y->at.buffer))
        broken(c, 12, "both phases of a pair touch byte %lld, and one writes it",
               (long long)(a > from ? a : from));
}

/* Nothing of one phase touches what the other writes. */
static void check_phases(Check *c)
{
    const Action *act = c->prog->actions.data;
    const Pipe *p = c->prog->pipe;
    const int end = c->prog->loops.data[p->loop].end;
    for (int i = p->begin[0] + 1; i < p->begin[1]; i++)
        for (int k = p->begin[1] + 1; k < end && c->broken < CHECK_TOLD; k++)
            for (int x = 0; x < act[i].noperands; x++)
                for (int y = 0; y < act[k].noperands; y++) {
                    c->at = k;
                    check_apart(c, &act[i].operand[x], &act[k].operand[y]);
                }
    c->at = -1;
}

/* A loop over layers with nothing in it at which streams meet, in its phase, and the only one. */
static bool check_loop(Check *c, int phase)
{
    const Program *g = c->prog;
    const int index = g->pipe->join->loop[phase];
    const int from = g->pipe->begin[phase];
    const int to = phase ? g->loops.data[g->pipe->loop].end : g->pipe->begin[1];
    bool good = index >= 0 && (size_t)index < g->loops.n;
    const Loop *l = good ? &g->loops.data[index] : NULL;
    good = good && l->begin > from && l->end < to && l->dim.name == c->m->layout.pipeline.dim &&
           l->parent == g->pipe->loop && l->reverse == (phase == 1);
    for (int i = from + 1; i < to && good; i++) {
        const Action *a = &g->actions.data[i];
        const bool inside = i > l->begin && i < l->end;
        good = !inside || !(a->kind == ACT_loop || a->kind == ACT_end || a->kind == ACT_phase ||
                            a->kind == ACT_guard);
        good &= a->kind != ACT_loop || (int)a->loop == index ||
                g->loops.data[a->loop].dim.name != l->dim.name;
    }
    if (!good)
        broken(c, 12, "a pair's loop over layers is not one of its phase alone");
    return good;
}

/* The same but for streams, what it waits for, and when it runs. */
static bool is_same(const Action *a, const Action *b)
{
    Action x = *a, y = *b;
    x.stream = y.stream = 0;
    x.joined = y.joined = 0;
    memset(x.wait, 0, sizeof x.wait);
    memset(y.wait, 0, sizeof y.wait);
    x.begin = x.end = x.exposed = y.begin = y.end = y.exposed = 0;
    return !memcmp(&x, &y, sizeof x);
}

/* Each action of both loops is in the body once, and two of a phase that touch the same bytes, one
 * writing, in their order. */
static bool check_body(Check *c)
{
    const Program *g = c->prog;
    const PipeJoin *j = g->pipe->join;
    const Program *b = j->body;
    size_t want = 2;
    bool *seen = NEW_ARRAY(c->tmp, bool, g->actions.n);
    for (int k = 0; k < 2; k++)
        want += (size_t)(g->loops.data[j->loop[k]].end - g->loops.data[j->loop[k]].begin - 1);
    bool good = b->actions.n == want && b->loops.n == g->loops.n &&
                b->actions.data[0].kind == ACT_loop && b->actions.data[want - 1].kind == ACT_end;
    for (size_t i = 1; good && i + 1 < want; i++) {
        const Action *a = &b->actions.data[i];
        const Loop *l =
            a->joined == 1 || a->joined == 2 ? &g->loops.data[j->loop[a->joined - 1]] : NULL;
        const int from = j->from[i];
        good = l && from > l->begin && from < l->end && !seen[from] &&
               is_same(a, &g->actions.data[from]);
        if (good)
            seen[from] = true;
    }
    if (!good) {
        broken(c, 12, "a pair's layers are not the actions of both loops, each once");
        return false;
    }
    for (size_t i = 1; i + 1 < want; i++)
        for (size_t k = i + 1; k + 1 < want; k++)
            if (b->actions.data[i].joined == b->actions.data[k].joined && j->from[k] < j->from[i] &&
                check_conflict(c, &b->actions.data[i], &b->actions.data[k])) {
                broken(c, 12, "actions %d and %d of a pair touch the same bytes, and change places",
                       j->from[k], j->from[i]);
                return false;
            }
    return true;
}

/* An F says that it is of a pair where the B behind it is of another microbatch or stage. */
static void check_rows(Check *c)
{
    for (int rank = 0; rank < c->prog->pipe->ranks; rank++)
        for (const mg_pipe_op *o = c->prog->pipe->ops[rank]; o->step; o++)
            if (o->step == MG_PIPE_F && o->with &&
                (o->with != 1 || o[1].step != MG_PIPE_B ||
                 (o[1].stage == o->stage && o[1].microbatch == o->microbatch)))
                broken(c, 12, "rank %d of the pipeline: F of microbatch %d is in no pair", rank,
                       o->microbatch);
}

void check_join(Check *c)
{
    const Program *g = c->prog;
    if (!g->pipe || !g->pipe->join)
        return;
    check_rows(c);
    if (g->pipe->phases != 2) {
        broken(c, 12, "a pair of a pipeline of %d phases", g->pipe->phases);
        return;
    }
    if (!check_loop(c, 0) || !check_loop(c, 1))
        return;
    check_phases(c);
    if (!check_body(c))
        return;
    c->prog = g->pipe->join->body;
    check_streams(c);
    c->prog = g;
}
