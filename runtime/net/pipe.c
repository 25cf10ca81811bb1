/* pipe.c - passes messages between the stages of a pipeline: from a rank to its neighbours on the
 * ring of ranks along the stage axis.
 *
 * Messages from one rank to another are numbered in the order of sending and of receiving. Only
 * this number pairs a send with a receive. On one machine both ends of a message use a letter in
 * shared memory: the rank that comes second copies the message from arena to arena and marks it
 * done. No rank waits in order to begin a message, and each message is copied once. A message to
 * another machine goes over the wire with its own ticket, and makes progress while its rank waits
 * for anything (wait.c).
 *
 * The messages of one kind (SEND_F, ...) are waited for in the order in which they were begun. */
#include "runtime/net/pipe.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/machine.h"

enum { KINDS = 4, WAYS = 2, GRAIN = 1 << 15 };

/* More than a schedule can have in flight between two ranks: each message has a buffer, and a
 * direction has 256 buffers. */
enum { LETTERS = 2 * 256 };

/* The meeting point of the k-th send and the k-th receive of a channel; its index is k modulo
 * LETTERS. */
typedef struct letter {
    _Alignas(64) _Atomic uint32_t ends; /* ends that have come, of all messages of this letter */
    _Atomic uint32_t done;              /* messages that were copied */
    int64_t offset[2], bytes[2];        /* in the arena of the sender [0] and of the receiver [1] */
} letter;

/* The letters from a rank to one of its neighbours. */
typedef struct channel {
    letter letter[LETTERS];
} channel;

typedef struct message {
    letter *letter; /* NULL: the message is on the wire */
    uint32_t turn;  /* value of letter->done until the message is copied */
    rt_ticket ticket;
} message;

typedef struct queue {
    message of[LETTERS];
    unsigned first, n;
} queue;

struct rt_pipe {
    channel (*channels)[WAYS];        /* by sending rank */
    uint64_t sent[WAYS], taken[WAYS]; /* messages */
    queue begun[KINDS];               /* not yet waited for */
    int with;                         /* number of next operations that have begun already */
    int pieces;                       /* on the wire */
};

int64_t rt_pipe_shared_bytes(const mg_program *p)
{
    return p->stages.axis ? rt_ranks_of(p, RT_ALL_AXES) * (int64_t)sizeof(channel[WAYS]) : 0;
}

struct rt_pipe *rt_pipe_new(const mg_program *p, void *shared)
{
    if (!p->stages.axis)
        return NULL;
    struct rt_pipe *s = rt_alloc(1, sizeof *s);
    s->channels = shared;
    return s;
}

void rt_pipe_free(struct rt_pipe *p)
{
    free(p);
}

const mg_pipe_op *mg_pipe_ops(mg_run *r, const mg_pipe *p)
{
    struct rt_pipe *s = r->ranks ? r->ranks->pipe : NULL;
    if (!s || p->axis != r->program->stages.axis)
        rt_die(RT_MISFIT, "this program has a pipeline without stages: compile it again");
    s->with = 0;
    return p->ops[mg_place(r, p->axis)];
}

/* ---- a message ------------------------------------------------------------------------------- */

/* One end of a message. */
typedef struct end {
    int kind;   /* MG_PIPE_SEND_F, ... */
    bool takes; /* this end is the receive */
    int way;    /* forward 0, back 1 */
    int peer;   /* rank */
    int64_t offset, bytes;
} end;

static end end_of(const mg_run *r, const mg_pipe *p, const mg_pipe_op *o)
{
    end e = {.kind = o->step,
             .takes = o->step == MG_PIPE_RECV_F || o->step == MG_PIPE_RECV_B,
             .way = o->step == MG_PIPE_SEND_B || o->step == MG_PIPE_RECV_B};
    e.peer = rt_neighbour(r->program, r->rank, p->axis, e.takes == e.way ? 1 : -1);
    e.bytes = p->bytes[e.way];
    e.offset = e.takes ? p->receive[e.way] + o->in * p->stride[e.way]
                       : p->send[e.way] + o->out * p->stride[e.way];
    return e;
}

typedef struct copying {
    char *to;
    const char *from;
} copying;

static void copy(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const copying *c = ctx;
    (void)scratch;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

static void deliver(mg_run *r, letter *l, const end *e)
{
    int to = e->takes ? r->rank : e->peer, from = e->takes ? e->peer : r->rank;
    if (l->bytes[0] != l->bytes[1])
        rt_die(RT_FAILED, "rank %d sends %lld bytes where rank %d receives %lld", from,
               (long long)l->bytes[0], to, (long long)l->bytes[1]);
    copying c = {rt_image(r, l->offset[1], to), rt_image(r, l->offset[0], from)};
    mg_parallel(r, e->bytes, GRAIN, copy, &c);
    rt_word_next(&l->done);
}

/* Two neighbours have one channel for each direction of the ring. In a ring of two ranks, both
 * directions share one channel. */
static void begin_here(mg_run *r, const mg_pipe *p, const end *e, message *m)
{
    struct rt_pipe *s = r->ranks->pipe;
    const int way = rt_ranks_of(r->program, p->axis) > 2 ? e->way : 0;
    const uint64_t number = e->takes ? s->taken[way]++ : s->sent[way]++;
    m->letter = &s->channels[e->takes ? e->peer : r->rank][way].letter[number % LETTERS];
    m->turn = (uint32_t)(number / LETTERS);
    m->letter->offset[e->takes] = e->offset;
    m->letter->bytes[e->takes] = e->bytes;
    if (atomic_fetch_add(&m->letter->ends, 1) & 1)
        deliver(r, m->letter, e);
}

static void begin_there(mg_run *r, const end *e, message *m)
{
    struct rt_ranks *k = r->ranks;
    m->letter = NULL;
    for (int64_t at = 0, n; at < e->bytes; at += n) {
        n = e->bytes - at < RT_WIRE_MAX ? e->bytes - at : RT_WIRE_MAX;
        if (++k->pipe->pieces > RT_WIRE_PIPE)
            rt_die(RT_FAILED, "more than %d messages of a pipeline are on the wire", RT_WIRE_PIPE);
        if (e->takes)
            rt_wire_take(k->wire, e->peer, r->arena + e->offset + at, n, &m->ticket);
        else
            rt_wire_send(k->wire, e->peer, r->arena + e->offset + at, n, &m->ticket);
    }
}

static void begin(mg_run *r, const mg_pipe *p, const mg_pipe_op *o)
{
    const end e = end_of(r, p, o);
    const int action = p->action[e.kind - MG_PIPE_SEND_F];
    queue *q = &r->ranks->pipe->begun[e.kind - MG_PIPE_SEND_F];
    if (q->n == LETTERS)
        rt_die(RT_FAILED, "more than %d messages of a pipeline were begun", LETTERS);
    mg_begin(r, action);
    message *m = &q->of[(q->first + q->n++) % LETTERS];
    if (rt_is_here(r, e.peer))
        begin_here(r, p, &e, m);
    else
        begin_there(r, &e, m);
    mg_end(r, action);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void wait_here(mg_run *r, const message *m)
{
    if (m->letter->done != m->turn)
        return;
    rt_wait_begins(r, RT_AWAITS_RANKS);
    rt_word_await(r, &m->letter->done, m->turn);
    rt_wait_ends(r);
}

static void wait_there(mg_run *r, const message *m, int64_t bytes)
{
    rt_wire_wait(r, &m->ticket);
    r->ranks->pipe->pieces -= (int)((bytes + RT_WIRE_MAX - 1) / RT_WIRE_MAX);
}

static void finish(mg_run *r, const mg_pipe *p, int kind)
{
    queue *q = &r->ranks->pipe->begun[kind - MG_PIPE_SEND_F];
    if (!q->n)
        rt_die(RT_MISFIT, "a pipeline waits for a message that it has not begun");
    const message *m = &q->of[q->first];
    q->first = (q->first + 1) % LETTERS;
    q->n--;
    mg_begin(r, p->action[kind - MG_PIPE_SEND_F]);
    if (m->letter)
        wait_here(r, m);
    else
        wait_there(r, m, p->bytes[kind >= MG_PIPE_SEND_B]);
    mg_end(r, p->action[kind - MG_PIPE_SEND_F]);
}

void mg_pass(mg_run *r, const mg_pipe *p, const mg_pipe_op *o)
{
    struct rt_pipe *s = r->ranks->pipe;
    if (o->step == MG_PIPE_WAIT) {
        finish(r, p, o->of);
    } else if (s->with) {
        s->with--;
    } else {
        for (int i = 0; i <= o->with; i++)
            begin(r, p, o + i);
        s->with = o->with;
    }
}
