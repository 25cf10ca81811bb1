/* check_streams.c - P6: actions that touch the same bytes in one iteration of the loops around
 * them, one of them writing, run in their order, for iterations do; P7: so do collectives, whatever
 * they touch; small ones among themselves, near ones likewise, and all others.
 *
 * An action comes after what stands before it in its stream, after what it waits for, and after
 * what that comes after; loops' ends, the guard and a program's last action come after everything.
 * So the program in its order, which check_run.c executes, stands for every order in which the
 * streams may run it. All ranks run one program: each meets the others' collectives in its own
 * order of them. On a processor the thread that computes does everything at once but collectives
 * and transfers, each kind in its stream: another action there would not wait (runtime/streams.c).
 */
#include "plan/check/check_run.h"

#include <string.h>

/* Per action of a stretch, per stream: 1 + the last action there that is done before it begins. */
typedef struct Done {
    uint32_t upto[MAX_STREAMS];
} Done;

/* Of a processor: is it in the stream of its kind? */
static bool runs_beside(const Action *a)
{
    return a->stream == MG_STREAM_COLLECTIVES ? action_sends(a)
           : a->stream == MG_STREAM_FETCHES
               ? a->kind == ACT_fetch
               : a->stream == MG_STREAM_OFFLOADS && a->kind == ACT_offload;
}

static bool meets(const Action *a)
{
    return a->kind == ACT_loop || a->kind == ACT_end || a->kind == ACT_guard;
}

static void join(Done *d, const Done *other)
{
    for (int s = 0; s < MAX_STREAMS; s++)
        if (other->upto[s] > d->upto[s])
            d->upto[s] = other->upto[s];
}

/* Of one iteration of the loops around, the first (once), or of all. */
static void range(const Check *c, const Operand *o, bool once, int64_t *lo, int64_t *hi)
{
    *lo = *hi = buffer_address(&c->p->buffers.data[o->at.buffer]) + o->at.offset;
    for (int i = 0; i < o->at.nloops && !once; i++) {
        int64_t far = o->at.loop[i].stride * (c->prog->loops.data[o->at.loop[i].loop].dim.size - 1);
        *(far < 0 ? lo : hi) += far;
    }
    for (int i = 0; i < o->type.rank; i++)
        *hi += (o->type.dims[i].size - 1) * o->stride[i] * dtype_bytes(o->type.dtype);
    *hi += dtype_bytes(o->type.dtype);
}

/* Is one operand as far from the other in each iteration of the loops around both as in the first?
 */
static bool stays_beside(const Operand *x, const Operand *y)
{
    if (x->at.nloops != y->at.nloops)
        return false;
    for (int i = 0; i < x->at.nloops; i++)
        if (x->at.loop[i].loop != y->at.loop[i].loop ||
            x->at.loop[i].stride != y->at.loop[i].stride)
            return false;
    return true;
}

/* The first byte that one action writes and the other touches; -1: there is none. once: both are of
 * one iteration of the loops around them, and what is returned is of the first. */
static int64_t common_byte(const Check *c, const Action *a, const Action *b, bool once)
{
    if (a->joined != b->joined) /* phases of a pair: check_join.c */
        return -1;
    for (int i = 0; i < a->noperands; i++)
        for (int k = 0; k < b->noperands; k++) {
            int64_t lo, hi, from, to;
            if (!a->operand[i].write && !b->operand[k].write)
                continue;
            const bool one = once && stays_beside(&a->operand[i], &b->operand[k]);
            range(c, &a->operand[i], one, &lo, &hi);
            range(c, &b->operand[k], one, &from, &to);
            if (lo < to && from < hi)
                return lo > from ? lo : from;
        }
    return -1;
}

/* `last`: per stream 1 + its last action in the stretch so far. */
static bool wait_for_all(Check *c, const Action *a, const Done *before, const uint32_t *last)
{
    if (a->stream)
        broken(c, 6, "stream %d where all streams meet", a->stream);
    for (int s = 1; s < MAX_STREAMS && !a->stream; s++)
        if (last[s] > before->upto[s]) {
            broken(c, 6, "it does not wait for action %u of stream %d", last[s] - 1, s);
            return false;
        }
    return a->stream == 0;
}

bool check_conflict(const Check *c, const Action *a, const Action *b)
{
    return common_byte(c, a, b, false) >= 0;
}

/* Fills what is done before action `at` of the stretch that begins at `from`. It may wait for what
 * meets all streams there. */
static bool follow(Check *c, size_t from, size_t at, const Done *done, const uint32_t *last,
                   Done *before)
{
    const Action *a = &c->prog->actions.data[at];
    *before = (Done){0};
    if (a->stream >= MAX_STREAMS) {
        broken(c, 6, "stream %d", a->stream);
        return false;
    }
    if (a->stream && c->p->device->products_wait && !runs_beside(a)) {
        broken(c, 6, "no action of its kind runs in stream %d", a->stream);
        return false;
    }
    if (last[a->stream]) {
        join(before, &done[last[a->stream] - 1]);
        before->upto[a->stream] = last[a->stream];
    }
    for (int s = 0; s < MAX_STREAMS; s++) {
        uint32_t w = a->wait[s];
        if (!w)
            continue;
        const bool meeting = s == 0 && from && w == from && meets(&c->prog->actions.data[w - 1]);
        if ((w - 1 < from && !meeting) || w - 1 >= at || c->prog->actions.data[w - 1].stream != s) {
            broken(c, 6, "it waits for action %u, which is not before it in stream %d", w - 1, s);
            return false;
        }
        join(before, &done[w - 1]);
        if (w > before->upto[s])
            before->upto[s] = w;
    }
    if (a->stream && !before->upto[0]) {
        broken(c, 6, "stream %d begins before what came before it is done", a->stream);
        return false;
    }
    return true;
}

static void check_order(Check *c, size_t from, size_t at, const Done *before)
{
    const Action *act = c->prog->actions.data;
    for (size_t k = from; k < at; k++) {
        if (act[k].stream == act[at].stream || k + 1 <= before->upto[act[k].stream])
            continue;
        int64_t byte = common_byte(c, &act[k], &act[at], true);
        if (action_sends(&act[k]) && action_sends(&act[at]) &&
            act[k].comm.small == act[at].comm.small && act[k].near == act[at].near)
            broken(c, 7, "collective %zu of stream %d may still be running", k, act[k].stream);
        if (byte >= 0)
            broken(c, 6, "action %zu of stream %d may still be running, and both touch byte %lld",
                   k, act[k].stream, (long long)byte);
    }
}

void check_streams(Check *c)
{
    const Program *p = c->prog;
    Done *done = NEW_ARRAY(c->tmp, Done, p->actions.n + 1);
    uint32_t last[MAX_STREAMS] = {0};
    size_t from = 0;
    bool beside = false;
    for (size_t i = 0; i < p->actions.n; i++) {
        const Action *a = &p->actions.data[i];
        c->at = (int)i;
        if (a->chunk) { /* check_beside.c */
            from = i + 1;
            continue;
        }
        if (!follow(c, from, i, done, last, &done[i]))
            return;
        if (meets(a) || i + 1 == p->actions.n) {
            if (!wait_for_all(c, a, &done[i], last))
                return;
            memset(last, 0, sizeof last);
            from = i + 1;
            beside = false;
            continue;
        }
        beside |= a->stream != 0;
        if (beside)
            check_order(c, from, i, &done[i]);
        last[a->stream] = (uint32_t)i + 1;
    }
    c->at = -1;
}
