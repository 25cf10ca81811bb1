/* check_queue.c - P6 and P7 where collectives are a queue: by running the program as a processor
 * does, with each collective taken to end as late as it may.
 *
 * One thread computes, and puts collectives into the queue, whose rules are runtime/queue.h: those
 * that whoever carries it on asks. Waiting for an action means that what of the queue it put there
 * the last time it ran is done, and all before that; one in the queue that waits enters only then,
 * and so does all behind it. So nothing that computes may touch bytes of what is in the queue, one
 * of them writing, nor one in the queue those of another that may be under way at once (P6); no
 * collective may be made beside the queue while there is one in it (P7); and the guard, and who
 * comes after the program, find it empty.
 *
 * Of a loop the first two iterations and the last two are run: what is in the queue at the top of
 * the second is there at the top of all others. */
#include "plan/check/check_run.h"
#include "runtime/queue.h"

enum { EDGE = 2 }; /* iterations at either end of a loop */

typedef struct Sent {
    size_t action;
    int64_t number;
    int64_t *lo, *hi; /* per operand: its bytes, in that iteration */
} Sent;

typedef struct Queue {
    Check *c;
    VEC(Sent) sent;      /* in order, and not known to be done */
    int64_t begun, done; /* numbers of the last that is there, and that is known to be done */
    int64_t after;       /* what is put there next enters when that one is done */
    int64_t *number;     /* per action: of what it put there the last time, or 0 */
} Queue;

static void bytes_of(const Check *c, const Operand *o, int64_t *lo, int64_t *hi)
{
    *lo = *hi = buffer_address(&c->p->buffers.data[o->at.buffer]) + o->at.offset;
    for (int i = 0; i < o->at.nloops; i++) {
        int64_t far = o->at.loop[i].stride * c->iteration[o->at.loop[i].loop];
        *lo += far;
        *hi += far;
    }
    for (int i = 0; i < o->type.rank; i++)
        *hi += (o->type.dims[i].size - 1) * o->stride[i] * dtype_bytes(o->type.dtype);
    *hi += dtype_bytes(o->type.dtype);
}

static void check_touch(const Queue *q, const Action *a, const Sent *s)
{
    Check *c = q->c;
    const Action *sent = &c->prog->actions.data[s->action];
    for (int i = 0; i < a->noperands; i++) {
        int64_t lo, hi;
        bytes_of(c, &a->operand[i], &lo, &hi);
        for (int k = 0; k < sent->noperands; k++)
            if ((a->operand[i].write || sent->operand[k].write) && lo < s->hi[k] && s->lo[k] < hi) {
                broken(c, 6, "collective %zu may still be in the queue, and both touch byte %lld",
                       s->action, (long long)(lo > s->lo[k] ? lo : s->lo[k]));
                return;
            }
    }
}

/* The least that is done when the last that was put into the queue enters it. */
static int64_t least_done(const Queue *q)
{
    int64_t done = q->done;
    while (done < q->begun - 1 && !mg_queue_enters((uint64_t)q->begun, (uint64_t)q->begun - 1,
                                                   (uint64_t)done, (uint64_t)q->after))
        done++;
    return done;
}

static void put(Queue *q, size_t at)
{
    const Action *a = &q->c->prog->actions.data[at];
    Sent s = {.action = at, .number = ++q->begun};
    s.lo = NEW_ARRAY(q->c->tmp, int64_t, a->noperands + 1);
    s.hi = NEW_ARRAY(q->c->tmp, int64_t, a->noperands + 1);
    for (int k = 0; k < a->noperands; k++)
        bytes_of(q->c, &a->operand[k], &s.lo[k], &s.hi[k]);
    const int64_t done = least_done(q);
    for (size_t k = 0; k < q->sent.n; k++)
        if (q->sent.data[k].number > done)
            check_touch(q, a, &q->sent.data[k]);
    vec_push(q->c->tmp, &q->sent, s);
    q->number[at] = s.number;
}

static void done_up_to(Queue *q, int64_t number)
{
    size_t n = 0;
    q->done = number > q->done ? number : q->done;
    while (n < q->sent.n && q->sent.data[n].number <= number)
        n++;
    for (size_t k = n; k < q->sent.n; k++)
        q->sent.data[k - n] = q->sent.data[k];
    q->sent.n -= n;
}

static bool run_one(Queue *q, size_t at)
{
    Check *c = q->c;
    const Action *a = &c->prog->actions.data[at];
    const bool last = at + 1 == c->prog->actions.n;
    c->at = (int)at;
    if (a->stream && (!action_sends(a) || a->stream >= MAX_STREAMS || last)) {
        broken(c, 6, "it is in the queue of collectives");
        return false;
    }
    for (int s = 0; s < MAX_STREAMS; s++) {
        const uint32_t w = a->wait[s];
        if (w && (w > c->prog->actions.n || !c->prog->actions.data[w - 1].stream)) {
            broken(c, 6, "it waits for action %u, which is not in the queue", w - 1);
            return false;
        }
        if (w && a->stream)
            q->after = q->number[w - 1] > q->after ? q->number[w - 1] : q->after;
        else if (w)
            done_up_to(q, q->number[w - 1]);
    }
    if (a->stream) {
        put(q, at);
        return true;
    }
    for (size_t k = 0; k < q->sent.n; k++)
        check_touch(q, a, &q->sent.data[k]);
    if (q->sent.n && action_sends(a))
        broken(c, 7, "collective %zu may still be in the queue", q->sent.data[0].action);
    if (q->sent.n && (a->kind == ACT_guard || last))
        broken(c, 6, "it does not wait for collective %zu", q->sent.data[q->sent.n - 1].action);
    return true;
}

/* Actions [from, to), whole loops. */
static bool run(Queue *q, size_t from, size_t to)
{
    const Program *p = q->c->prog;
    for (size_t i = from; i < to; i++) {
        if (!run_one(q, i))
            return false;
        if (p->actions.data[i].kind != ACT_loop)
            continue;
        const uint32_t number = p->actions.data[i].loop;
        const Loop *l = &p->loops.data[number];
        for (int64_t k = 0, n = l->dim.size; k < n;
             k = k == EDGE - 1 && n > 2 * EDGE ? n - EDGE : k + 1) {
            q->c->iteration[number] = l->reverse ? n - 1 - k : k;
            if (!run(q, i + 1, (size_t)l->end + 1))
                return false;
        }
        q->c->iteration[number] = 0;
        i = (size_t)l->end;
    }
    return true;
}

void check_queue(Check *c)
{
    Queue q = {.c = c, .number = NEW_ARRAY(c->tmp, int64_t, c->prog->actions.n + 1)};
    const bool queues = c->p->device->products_wait && !c->prog->pipe;
    if (queues)
        run(&q, 0, c->prog->actions.n);
    else
        broken(c, 6, "there is no queue of collectives");
    c->at = -1;
}
