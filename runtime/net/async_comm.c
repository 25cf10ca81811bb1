/* async_comm.c - runs collectives while the rank computes, in a program whose ranks are on several
 * machines.
 *
 * The plan says where a collective begins and which action waits for it (plan/order/queue.c). The
 * collectives that have begun form a queue. One thread computes and also drives the queue: between
 * actions (mg_progress), between parts of its share of a parallel loop, and while it waits. A
 * collective is sent in pieces. A few pieces are in flight at a time, each in its own memory:
 *
 *   enter: meet (the operand x is ready on all ranks of this machine) | pieces: messages, then sums
 *   | parts of sums | end: meet
 *
 * All ranks run the same program text. Between two ranks, the messages of a collective therefore
 * follow the messages of the collective before it, and may begin while the earlier ones are still
 * in flight. A collective that touches what an earlier one writes, or writes what an earlier one
 * reads, enters when the earlier one is done: the program says so by a wait in the queue's own
 * stream. queue.h has these rules. In pipelines, and beside transfers, collectives are a stream
 * like others and no queue (plan/order/queue.c): there each enters when the one before it is done,
 * and the program says nothing of it. A rank that waits drives the whole queue, so no other rank
 * waits for work that this rank has begun and then left alone.
 *
 * Sums are the sums of comm.c, element by element: the same bits. If all ranks are on one
 * machine, collectives run synchronously, because communication there is work for the
 * processors. */
#include <string.h>

#include "runtime/net/async_comm.h"
#include "runtime/net/comm.h"
#include "runtime/queue.h"
#include "runtime/sizes.h"
#include "runtime/streams.h"

enum { DEPTH = 128, PIECES = 8, ALIGN = 64 };
enum { IN, PARTS, OUT };       /* barriers among the ranks of this machine */
enum { PATIENCE_NS = 500000 }; /* between two looks at the queue */
typedef enum comm_phase {
    AT_START,
    AT_PIECES,
    AT_PARTS,
    AT_SUMS
} comm_phase; /* the next step of a collective */

typedef struct task {
    rt_comm c;
    int action;
    comm_phase phase;
    uint64_t after;                /* the number that must be done before it enters */
    int64_t at;                    /* bytes whose messages have begun */
    int pieces;                    /* pieces of this collective that are in flight */
    uint32_t meeting[RT_MEETINGS]; /* its number on its axes; 0: not reached yet */
} task;

typedef struct piece {
    task *of;
    bool given; /* its messages are still to be combined into y */
    rt_ticket messages;
    int64_t begin, end;
    const char *came[MG_RANKS_MAX];
} piece;

struct rt_async_comm {
    mg_run *run;
    bool in_order; /* each enters when the one before it is done */
    bool busy;     /* carry_on is running: parallel work inside it must not call it again */
    /* Numbers in the queue (queue.h): the last collective that is done, that has begun all its
     * messages, that has entered, and that was put into the queue. */
    uint64_t done, posted, entered, begun;
    uint64_t after;     /* the next collective enters after this number */
    int first, npieces; /* a ring; `first` is the oldest */
    int64_t looked;     /* ns */
    piece piece[PIECES];
    task task[DEPTH];
};

/* number: counted from 1. */
static task *task_at(struct rt_async_comm *b, uint64_t number)
{
    return &b->task[number % DEPTH];
}

/* ---- the ranks of this machine --------------------------------------------------------------- */

static _Atomic uint32_t *meetings(const mg_run *r, int rank, uint32_t axes, int which)
{
    const struct rt_ranks *k = r->ranks;
    int64_t sets = (int64_t)1 << r->program->naxes;
    axes &= (uint32_t)(sets - 1);
    return &k->meetings[(rank * sets + axes) * RT_MEETINGS + which];
}

/* Marks that this rank has reached the meeting. */
static void come(task *t, int which)
{
    const rt_comm *c = &t->c;
    _Atomic uint32_t *mine = meetings(c->run, c->run->rank, c->d->axes, which);
    if (t->meeting[which])
        return;
    t->meeting[which] = *mine + 1;
    rt_word_next(mine);
}

/* The counter of a rank that has not reached the meeting, and its value in *says; NULL: all
 * ranks have reached it. */
static _Atomic uint32_t *late(const task *t, int which, uint32_t *says)
{
    const rt_comm *c = &t->c;
    for (int i = 0; i < c->d->n; i++) {
        if (!c->here[i] || i == c->me)
            continue;
        _Atomic uint32_t *theirs = meetings(c->run, c->member[i], c->d->axes, which);
        *says = *theirs;
        if ((int32_t)(*says - t->meeting[which]) < 0)
            return theirs;
    }
    return NULL;
}

static bool have_come(const task *t, int which)
{
    uint32_t says;
    return !late(t, which, &says);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static int64_t piece_bytes(const rt_comm *c)
{
    return RT_POST / PIECES / (c->d->n - 1) / ALIGN * ALIGN;
}

/* NULL: enough messages are in flight. */
static piece *new_piece(struct rt_async_comm *b, task *t)
{
    int messages = 2 * (int)(t->c.d->n - 1);
    for (int i = 0; i < b->npieces; i++)
        messages += b->piece[(b->first + i) % PIECES].messages.left;
    if (b->npieces == PIECES || messages > RT_WIRE_PENDING - RT_WIRE_PIPE)
        return NULL;
    piece *p = &b->piece[(b->first + b->npieces++) % PIECES];
    p->of = t;
    p->given = false;
    p->messages = (rt_ticket){0};
    t->pieces++;
    return p;
}

static bool begin_piece(struct rt_async_comm *b, task *t)
{
    struct rt_ranks *k = b->run->ranks;
    rt_comm *c = &t->c;
    piece *p = new_piece(b, t);
    if (!p)
        return false;
    if (t->phase == AT_SUMS) {
        rt_comm_post_sums(c, t->at, &p->messages);
        t->at += RT_WIRE_MAX;
    } else if (rt_comm_moves(c)) {
        rt_comm_post_move(c, t->at, &p->messages);
        t->at += RT_WIRE_MAX;
    } else {
        int64_t room = (p - b->piece) * (RT_POST / PIECES);
        rt_comm_post(c, t->at, piece_bytes(c), k->in + room, k->out + room, &p->messages);
        t->at += piece_bytes(c);
        p->given = true;
        p->begin = c->begin;
        p->end = c->end;
        memcpy(p->came, c->came, (size_t)c->d->n * sizeof *p->came);
    }
    return true;
}

static void part(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    rt_comm_take(ctx, begin, end);
}

/* Makes y from the chunk that arrived. free: the thread pool is free. */
static void take(rt_comm *c, bool free)
{
    enum { GRAIN = 1 << 15 };
    int64_t elements = (c->end - c->begin) / c->width;
    if (elements <= 0)
        return;
    if (free)
        mg_parallel(c->run, elements, GRAIN / c->width, part, c);
    else
        rt_comm_take(c, 0, elements);
}

static bool end_piece(struct rt_async_comm *b, bool free)
{
    piece *p = &b->piece[b->first];
    if (!b->npieces || p->messages.left)
        return false;
    rt_comm *c = &p->of->c;
    if (p->given) {
        c->begin = p->begin;
        c->end = p->end;
        memcpy(c->came, p->came, (size_t)c->d->n * sizeof *p->came);
        take(c, free);
    }
    p->of->pieces--;
    b->first = (b->first + 1) % PIECES;
    b->npieces--;
    return true;
}

/* ---- a collective ---------------------------------------------------------------------------- */

/* Runs a collective whose ranks are all on this machine. */
static bool make_here(task *t, bool free)
{
    rt_comm *c = &t->c;
    if (!free)
        return false; /* the copy or sum would hold up this thread for long */
    if (rt_comm_moves(c)) {
        rt_comm_copy(c);
    } else {
        c->begin = 0;
        c->end = c->mine.rows * c->mine.row;
        take(c, free);
    }
    t->at = INT64_MAX;
    return true;
}

static int64_t bytes_to_post(const task *t)
{
    return rt_comm_moves(&t->c) ? t->c.bytes : t->c.max_bytes;
}

/* Announces that the operands of the next collective are ready, once the collectives that it
 * depends on are done. */
static bool enter(struct rt_async_comm *b)
{
    const uint64_t next = b->entered + 1;
    if (next > b->begun || !mg_queue_enters(next, b->entered, b->done, task_at(b, next)->after))
        return false;
    come(task_at(b, next), IN);
    b->entered = next;
    return true;
}

/* Begins the next step of the first collective that has not begun all of its messages. */
static bool go_on(struct rt_async_comm *b, bool free)
{
    if (!mg_queue_sends(b->posted + 1, b->entered, b->posted))
        return false;
    task *t = task_at(b, b->posted + 1);
    rt_comm *c = &t->c;
    switch (t->phase) {
    case AT_START:
        if (!have_come(t, IN))
            return false;
        if (!c->all_here && rt_comm_moves(c)) {
            if (!free)
                return false;
            rt_comm_copy(c);
        }
        t->phase = AT_PIECES;
        return true;
    case AT_PIECES:
        if (t->at < bytes_to_post(t))
            return c->all_here ? make_here(t, free) : begin_piece(b, t);
        t->phase = AT_PARTS;
        if (!rt_comm_parts(c))
            b->posted++;
        return true;
    case AT_PARTS:
        if (t->pieces)
            return false;
        come(t, PARTS);
        if (!have_come(t, PARTS))
            return false;
        rt_comm_copy_sums(c);
        t->phase = AT_SUMS;
        t->at = 0;
        return true;
    case AT_SUMS:
        if (t->at < c->max_bytes && !c->all_here)
            return begin_piece(b, t);
        b->posted++;
        return true;
    }
    return false;
}

/* Ends the oldest collective, once no rank on this machine reads this rank's operand any more. */
static bool end_oldest(struct rt_async_comm *b)
{
    if (!mg_queue_ends(b->done + 1, b->posted, b->done))
        return false;
    task *t = task_at(b, b->done + 1);
    if (t->pieces)
        return false;
    come(t, OUT);
    if (!have_come(t, OUT))
        return false;
    b->done++;
    return true;
}

/* Drives the queue as far as possible without waiting. True if a step began or ended. */
static bool carry_on(struct rt_async_comm *b, bool free)
{
    bool any = false, moved;
    b->busy = true;
    do {
        rt_wire_go_on(b->run->ranks->wire);
        moved = false;
        while (end_piece(b, free) || enter(b) || go_on(b, free) || end_oldest(b))
            any = moved = true;
    } while (moved && b->done < b->begun);
    b->busy = false;
    return any;
}

/* Waits for a message of the oldest piece, or, if no piece is in flight, for a rank of this
 * machine. */
static void await(struct rt_async_comm *b)
{
    mg_run *r = b->run;
    rt_slot *slot = &r->ranks->shared->slot[r->rank];
    if (b->npieces) {
        rt_ticket *t = &b->piece[b->first].messages;
        for (int i = 0, peer; t->left && !rt_wire_done(r->ranks->wire, t, &peer); i++) {
            slot->peer = peer;
            rt_nap(i);
        }
        slot->peer = -1;
        return;
    }
    const task *t = task_at(b, b->done + 1);
    int which = b->done < b->posted ? OUT : t->phase == AT_START ? IN : PARTS;
    uint32_t says;
    _Atomic uint32_t *word = t->meeting[which] ? late(t, which, &says) : NULL;
    if (word)
        rt_word_await(r, word, says);
}

/* Waits until collective `number` is done. */
static void wait_for(struct rt_async_comm *b, uint64_t number)
{
    mg_run *r = b->run;
    while (b->done < number) {
        const uint64_t oldest = b->done;
        atomic_store_explicit(&r->action, task_at(b, oldest + 1)->action, memory_order_relaxed);
        rt_wait_begins(r, RT_AWAITS_RANKS);
        while (b->done == oldest)
            if (!carry_on(b, true))
                await(b);
        rt_wait_ends(r);
    }
}

static void finish(struct rt_async_comm *b, uint64_t number)
{
    if (b->done < number)
        carry_on(b, true);
    if (b->done >= number)
        return;
    int action = task_at(b, b->done + 1)->action;
    mg_begin(b->run, action);
    wait_for(b, number);
    mg_end(b->run, action);
}

/* ---- what emitted code and the pool call ----------------------------------------------------- */

/* Called by the pool while this thread runs its part of a parallel loop. */
static bool look(void *ctx)
{
    struct rt_async_comm *b = ctx;
    if (b->done == b->begun || b->busy)
        return false;
    int64_t now = rt_now_ns();
    if (now - b->looked > PATIENCE_NS) {
        carry_on(b, false);
        b->looked = now;
    }
    return true;
}

void rt_async_comm_open(mg_run *r)
{
    r->ranks->async_comm = rt_alloc(1, sizeof *r->ranks->async_comm);
    r->ranks->async_comm->run = r;
    r->ranks->async_comm->in_order = r->program->stages.axis || r->program->level_bytes[2];
    rt_streams_open(r);
    rt_pool_beside(r->pool, look, r->ranks->async_comm);
}

static struct rt_async_comm *of(const mg_run *r)
{
    return r->ranks ? r->ranks->async_comm : NULL;
}

bool rt_async_comm_begin(mg_run *r, int action, const mg_comm_desc *d, const void *x, void *y)
{
    struct rt_async_comm *b = of(r);
    if (!b || rt_stream(r) != MG_STREAM_COLLECTIVES || d->kind == MG_SHARD)
        return false;
    if (b->begun - b->done == DEPTH)
        finish(b, b->done + 1);
    task *t = task_at(b, b->begun + 1);
    mg_begin(r, action);
    t->action = action;
    t->phase = AT_START;
    t->after = b->in_order ? b->begun : b->after;
    t->at = 0;
    t->pieces = 0;
    memset(t->meeting, 0, sizeof t->meeting);
    rt_comm_set(&t->c, r, d, x, y);
    b->begun++;
    carry_on(b, true);
    if (r->watch & ~(unsigned)(RT_WATCH_TIME | RT_WATCH_COST))
        wait_for(b, b->begun); /* a run that watches values sees them in program order */
    mg_end(r, action);
    mg_output(r, action, y, mg_comm_elements(d), d->dtype);
    return true;
}

void mg_progress(mg_run *r)
{
    struct rt_async_comm *b = of(r);
    if (!b || b->done == b->begun)
        return;
    int64_t now = rt_now_ns();
    if (now - b->looked > PATIENCE_NS) {
        carry_on(b, true);
        b->looked = now;
    }
}

uint64_t rt_async_comm_begun(const mg_run *r)
{
    return of(r) ? of(r)->begun : 0;
}

void rt_async_comm_finish(mg_run *r, uint64_t number)
{
    if (of(r))
        finish(of(r), number);
}

void rt_async_comm_hold(mg_run *r, uint64_t number)
{
    struct rt_async_comm *b = of(r);
    if (b && number > b->after)
        b->after = number;
}
