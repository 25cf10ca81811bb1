/* lower.c - from a table to what each rank runs: computing, sends and receives that begin, waits.
 *
 *   row       1F1  1B0  1F2                        of rank 1 of 3
 *   runs      wait 1RECV_F1, 1F1
 *             start 1SEND_F1 1RECV_B0              one issue
 *             wait 1RECV_B0, 1B0
 *             start 1RECV_F2 1SEND_B0
 *             wait 1RECV_F2, 1F2 ...
 *
 * One rule puts in the sends and receives of a table that has none. In a run in which F, I and W
 * take one unit each, B two, and messages none,
 *
 *   a send stands right behind the action that makes it;
 *   its receive stands as late as it may: before the first action that begins, in that run, no
 *   sooner than the action that needs it, or the one with which the sender goes on;
 *   what stands between two actions that compute is one issue: all of it begins together; but of
 *   two sends to one rank, or two receives from it, the second begins another issue.
 *
 * All rows then follow one order of time in which a message is a moment, so that no rank waits for
 * what comes after it there; receives come in the order in which they are needed, unless a sender
 * would stand still for it; and from one rank to another they come in the order of the sends. Put
 * right before what needs them instead, receives of interleaved leave all ranks waiting for each
 * other to receive.
 *
 * So in an issue nothing waits for anything else of it. NCCL does the second send to a rank of a
 * group when the first is through and the first receive from there, too, whose sender may be
 * waiting for that second send.
 *
 * A table with sends and receives runs as it stands; neighbours are one issue there, too.
 *
 * A receive is waited for by what needs it. What a rank sends lies in two buffers each way: the
 * action that would fill a third waits for the send before the last. At the end all are waited for.
 * A table whose own sends stand later than that needs more buffers; how many is counted.
 *
 * A row begins, where stages are gathered and reduced beside (PipeTable.unshards), with all its
 * gathers, chunk by chunk, and a stage's first F waits for its own. A chunk is reduced on all ranks
 * at one time of that run, when the last of them is through with it: what computes beside it is
 * slower, and were each rank to begin when it is through, one microbatch after the other would be
 * slowed by all ranks in turn, and all wait for it. A rank that has no more to compute begins at
 * once. */
#include "pipeline/cells.h"

#include <stdlib.h>

/* ---- operations of a rank ------------------------------------------------------------------- */

/* Sends of one direction that nobody has waited for yet, and what was made to be sent. */
typedef struct Sending {
    VEC(uint32_t) op;
    size_t first, made;
} Sending;

typedef struct Lower {
    Arena *arena, *tmp;
    const PipeTable *t;
    PipeProgram *program;
    Cells *started;        /* 1 + the operation that starts a receive */
    Sending (*sending)[2]; /* a rank, by direction */
    uint32_t *issues;      /* of a rank so far */
    uint32_t *gathers; /* 1 + the operation that begins to gather a stage; 0: it was waited for */
    size_t *left;      /* actions of a stage that still have to come */
    int32_t *through;  /* when all ranks are through with a chunk; NULL: no run says it */
    /* The stages that a rank is through with, in that order, and how many of these are reduced. */
    int **done, *ndone, *reduced;
} Lower;

static void put(Lower *l, int rank, PipeOp op)
{
    vec_push(l->arena, &l->program->rank[rank], op);
}

static void put_wait(Lower *l, int rank, uint32_t of)
{
    PipeAction a = l->program->rank[rank].data[of].action;
    put(l, rank, (PipeOp){.step = PIPE_WAIT, .action = a, .of = of});
}

static void wait_sends(Lower *l, int rank, int direction, size_t leave)
{
    Sending *s = &l->sending[rank][direction];
    while (s->op.n - s->first > leave)
        put_wait(l, rank, s->op.data[s->first++]);
}

/* Has the issue that a rank began last a message to, or from, the same rank as this one? */
static bool is_second(const Lower *l, const PipeOps *ops, PipeAction a)
{
    const int peer = pipe_rank(l->t, pipe_peer(a).stage);
    for (size_t i = ops->n; i-- > 0 && ops->data[i].step == PIPE_START;) {
        const PipeAction b = ops->data[i].action;
        if (ops->data[i].issue != ops->data[ops->n - 1].issue)
            break;
        if (pipe_sends(a.kind) == pipe_sends(b.kind) && pipe_rank(l->t, pipe_peer(b).stage) == peer)
            return true;
    }
    return false;
}

static void put_start(Lower *l, int rank, PipeAction a)
{
    const PipeOps *ops = &l->program->rank[rank];
    if (!ops->n || ops->data[ops->n - 1].step != PIPE_START || is_second(l, ops, a))
        l->issues[rank]++;
    if (pipe_sends(a.kind))
        vec_push(l->tmp, &l->sending[rank][a.kind == PIPE_SEND_B].op, (uint32_t)ops->n);
    else
        cells_enter(l->t, l->started, a, ops->n);
    put(l, rank, (PipeOp){.step = PIPE_START, .action = a, .issue = l->issues[rank] - 1});
}

static void put_beside(Lower *l, int rank, PipeKind kind, int stage)
{
    const PipeAction a = {.kind = kind, .stage = stage};
    put(l, rank, (PipeOp){.step = PIPE_BESIDE, .action = a});
}

/* Begins to gather a rank's stages, and counts what there is to do of them. */
static void put_gathers(Lower *l, int rank)
{
    const PipeTable *t = l->t;
    for (int chunk = 0; chunk < t->stages / t->ranks && t->unshards; chunk++) {
        const int stage = pipe_stage(t, rank, chunk);
        put_beside(l, rank, PIPE_UNSHARD, stage);
        l->gathers[stage] = (uint32_t)l->program->rank[rank].n;
    }
    for (size_t i = 0; i < t->row[rank].n; i++)
        l->left[t->row[rank].data[i].stage] += pipe_computes(t->row[rank].data[i].kind);
}

/* The parameters and the message that an action needs, and a buffer for what it makes. */
static void put_waits(Lower *l, int rank, PipeAction a)
{
    PipeAction message;
    if (l->gathers[a.stage])
        put_wait(l, rank, l->gathers[a.stage] - 1);
    l->gathers[a.stage] = 0;
    if (pipe_recv_of(l->t, a, &message))
        put_wait(l, rank, cells_find(l->t, l->started, message) - 1);
    if (pipe_send_of(l->t, a, &message)) {
        int direction = message.kind == PIPE_SEND_B;
        Sending *s = &l->sending[rank][direction];
        wait_sends(l, rank, direction, 1);
        int filled = (int)(++s->made - s->first), *max = &l->program->buffers[rank][direction];
        *max = filled > *max ? filled : *max;
    }
}

/* Reduces what a rank is through with, of chunks with which all are by this time. */
static void put_reductions(Lower *l, int rank, int32_t now)
{
    for (int *k = &l->reduced[rank]; *k < l->ndone[rank]; ++*k) {
        const int stage = l->done[rank][*k];
        if (now < INT32_MAX && l->through[stage / l->t->ranks] > now)
            return;
        put_beside(l, rank, PIPE_REDUCE, stage);
    }
}

/* The action of a row at *at, or the pair; *at is then behind it. It ends at a time of the run. */
static void put_compute(Lower *l, int rank, const PipeRow *row, size_t *at, int32_t end)
{
    const size_t n = pipe_together(row, *at), from = *at;
    for (size_t k = 0; k < n; k++)
        put_waits(l, rank, row->data[*at + k]);
    for (size_t k = 0; k < n; k++)
        put(l, rank, (PipeOp){.step = PIPE_COMPUTE, .action = row->data[(*at)++]});
    for (size_t k = from; k < *at; k++)
        if (!--l->left[row->data[k].stage] && l->t->reduces)
            l->done[rank][l->ndone[rank]++] = row->data[k].stage;
    bool more = false;
    for (size_t k = *at; k < row->n && !more; k++)
        more = pipe_computes(row->data[k].kind);
    put_reductions(l, rank, more && l->through ? end : INT32_MAX);
}

static void put_end(Lower *l, int rank)
{
    wait_sends(l, rank, 0, 0);
    wait_sends(l, rank, 1, 0);
}

/* ---- a run in units ------------------------------------------------------------------------- */

/* When each action of each row begins. */
typedef struct Run {
    const PipeTable *t;
    Cells *cells;
    int32_t **begin;    /* [rank][index]; what stands still never begins */
    int32_t *free;      /* a rank, since when */
    size_t *at;         /* its next action */
    int *ready, nready; /* ranks that may go on */
    bool *queued;
} Run;

static int32_t units(PipeKind k)
{
    return k == PIPE_B ? 2 : 1;
}

/* A pair begins and ends together. */
static int32_t end_of(const Run *r, int rank, size_t i)
{
    const PipeRow *row = &r->t->row[rank];
    const size_t first = i && row->data[i - 1].pair ? i - 1 : i;
    int32_t end = r->begin[rank][first];
    for (size_t k = 0; k < pipe_together(row, first); k++)
        end += units(row->data[first + k].kind);
    return end;
}

/* Whether an action of a row has been run; then *end, by when at the earliest. */
static bool has_run(const Run *r, PipeAction a, int32_t *end)
{
    int rank = pipe_rank(r->t, a.stage);
    uint32_t i = cells_find(r->t, r->cells, a);
    if (!i || i > r->at[rank])
        return false;
    int32_t e = end_of(r, rank, i - 1);
    *end = e > *end ? e : *end;
    return true;
}

/* An action of the same rank stands before those that need it in the row: T3. */
static bool may_run(const Run *r, PipeAction a, int32_t *since)
{
    PipeAction from = a;
    if (a.kind == PIPE_F && a.stage > 0) {
        from.stage--;
        return has_run(r, from, since);
    }
    if ((a.kind == PIPE_B || a.kind == PIPE_I) && a.stage + 1 < r->t->stages)
        return has_run(r, cells_backward(r->t, r->cells, a.stage + 1, a.microbatch), since);
    return true;
}

static void wake(Run *r, int rank)
{
    if (!r->queued[rank])
        r->ready[r->nready++] = rank;
    r->queued[rank] = true;
}

static void run_rank(Run *r, int rank)
{
    const PipeRow *row = &r->t->row[rank];
    while (r->at[rank] < row->n) {
        const size_t at = r->at[rank], n = pipe_together(row, at);
        int32_t since = r->free[rank];
        for (size_t k = 0; k < n; k++)
            if (!may_run(r, row->data[at + k], &since))
                return;
        for (size_t k = 0; k < n; k++)
            r->begin[rank][r->at[rank]++] = since;
        r->free[rank] = end_of(r, rank, at);
        for (size_t k = 0; k < n; k++) {
            const int stage = row->data[at + k].stage;
            if (stage + 1 < r->t->stages)
                wake(r, pipe_rank(r->t, stage + 1));
            if (stage > 0)
                wake(r, pipe_rank(r->t, stage - 1));
        }
    }
}

/* False: some stand still. */
static bool run(Run *r, Arena *a, const PipeTable *t)
{
    size_t n = (size_t)t->ranks;
    *r = (Run){.t = t,
               .cells = cells_of(a, t),
               .begin = NEW_ARRAY(a, int32_t *, n),
               .free = NEW_ARRAY(a, int32_t, n),
               .at = NEW_ARRAY(a, size_t, n),
               .ready = NEW_ARRAY(a, int, n),
               .queued = NEW_ARRAY(a, bool, n)};
    for (int rank = 0; rank < t->ranks; rank++) {
        r->begin[rank] = NEW_ARRAY(a, int32_t, t->row[rank].n);
        wake(r, rank);
    }
    while (r->nready) {
        int rank = r->ready[--r->nready];
        r->queued[rank] = false;
        run_rank(r, rank);
    }
    for (int rank = 0; rank < t->ranks; rank++)
        if (r->at[rank] < t->row[rank].n)
            return false;
    return true;
}

/* ---- messages, in the order of time --------------------------------------------------------- */

typedef struct Message {
    PipeAction send;
    int32_t time;
} Message;

/* When the one that needs it begins, or the one that its sender goes on with. */
static int32_t time_of(const Run *r, int rank, size_t i, PipeAction send)
{
    PipeAction to = pipe_peer(send);
    PipeAction need = {PIPE_F, to.stage, to.microbatch, 0, false};
    if (to.kind == PIPE_RECV_B)
        need = cells_backward(r->t, r->cells, to.stage, to.microbatch);
    int32_t time = r->begin[pipe_rank(r->t, to.stage)][cells_find(r->t, r->cells, need) - 1];
    const size_t next = i + pipe_together(&r->t->row[rank], i);
    if (next < r->t->row[rank].n && r->begin[rank][next] < time)
        time = r->begin[rank][next];
    return time;
}

/* Sorted by time, those of one time by rank: a bucket for each moment. */
static Message *messages(const Run *r, Arena *a, size_t *count)
{
    const PipeTable *t = r->t;
    int32_t end = 0;
    size_t n = 0;
    for (int rank = 0; rank < t->ranks; rank++)
        end = r->free[rank] > end ? r->free[rank] : end;
    size_t *bucket = NEW_ARRAY(a, size_t, end + 2);
    Message *unsorted = NEW_ARRAY(a, Message, 2 * pipe_cells(t));
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t i = 0; i < t->row[rank].n; i++) {
            Message *m = &unsorted[n];
            if (!pipe_send_of(t, t->row[rank].data[i], &m->send))
                continue;
            m->time = time_of(r, rank, i, m->send);
            bucket[m->time + 1]++;
            n++;
        }
    for (int32_t i = 0; i < end; i++)
        bucket[i + 1] += bucket[i];
    Message *sorted = NEW_ARRAY(a, Message, n);
    for (size_t i = 0; i < n; i++)
        sorted[bucket[unsorted[i].time]++] = unsorted[i];
    *count = n;
    return sorted;
}

/* When the last rank is through with each chunk. */
static int32_t *through(const Run *r, Arena *a)
{
    const PipeTable *t = r->t;
    int32_t *by = NEW_ARRAY(a, int32_t, t->stages / t->ranks);
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t i = 0; i < t->row[rank].n; i++) {
            int32_t *chunk = &by[t->row[rank].data[i].stage / t->ranks];
            const int32_t end = end_of(r, rank, i);
            *chunk = end > *chunk ? end : *chunk;
        }
    return by;
}

static void derive(Lower *l, const Run *r)
{
    const PipeTable *t = l->t;
    l->through = t->reduces ? through(r, l->tmp) : NULL;
    size_t n, *at = NEW_ARRAY(l->tmp, size_t, t->ranks);
    Message *m = messages(r, l->tmp, &n);
    for (size_t i = 0; i < n; i++) {
        PipeAction ends[] = {m[i].send, pipe_peer(m[i].send)};
        for (int k = 0; k < 2; k++) {
            int rank = pipe_rank(t, ends[k].stage);
            const PipeRow *row = &t->row[rank];
            while (at[rank] < row->n && r->begin[rank][at[rank]] < m[i].time)
                put_compute(l, rank, row, &at[rank], end_of(r, rank, at[rank]));
            put_start(l, rank, ends[k]);
        }
    }
    for (int rank = 0; rank < t->ranks; rank++)
        while (at[rank] < t->row[rank].n)
            put_compute(l, rank, &t->row[rank], &at[rank], end_of(r, rank, at[rank]));
}

/* ---- all ------------------------------------------------------------------------------------ */

/* A table that cannot be run has no order of time. What is put in only says who waits for whom. */
static void derive_stuck(Lower *l)
{
    for (int rank = 0; rank < l->t->ranks; rank++)
        for (size_t i = 0; i < l->t->row[rank].n;) {
            const PipeRow *row = &l->t->row[rank];
            const size_t from = i, end = i + pipe_together(row, i);
            PipeAction message;
            for (size_t k = from; k < end; k++)
                if (pipe_recv_of(l->t, row->data[k], &message))
                    put_start(l, rank, message);
            put_compute(l, rank, row, &i, 0);
            for (size_t k = from; k < end; k++)
                if (pipe_send_of(l->t, row->data[k], &message))
                    put_start(l, rank, message);
        }
}

static void take_over(Lower *l)
{
    for (int rank = 0; rank < l->t->ranks; rank++)
        for (size_t i = 0; i < l->t->row[rank].n;) {
            PipeAction a = l->t->row[rank].data[i];
            if (pipe_computes(a.kind))
                put_compute(l, rank, &l->t->row[rank], &i, 0);
            else {
                put_start(l, rank, a);
                i++;
            }
        }
}

PipeProgram *pipe_lower(Arena *a, const PipeTable *t)
{
    Arena *tmp = arena_new();
    PipeProgram *p = NEW(a, PipeProgram);
    p->table = t;
    p->rank = NEW_ARRAY(a, PipeOps, t->ranks);
    p->buffers = arena_array(a, (size_t)t->ranks, sizeof *p->buffers);
    Lower l = {.arena = a,
               .tmp = tmp,
               .t = t,
               .program = p,
               .started = cells_new(tmp, t),
               .sending = arena_array(tmp, (size_t)t->ranks, sizeof *l.sending),
               .issues = NEW_ARRAY(tmp, uint32_t, t->ranks),
               .gathers = NEW_ARRAY(tmp, uint32_t, t->stages),
               .left = NEW_ARRAY(tmp, size_t, t->stages),
               .done = NEW_ARRAY(tmp, int *, t->ranks),
               .ndone = NEW_ARRAY(tmp, int, t->ranks),
               .reduced = NEW_ARRAY(tmp, int, t->ranks)};
    for (int rank = 0; rank < t->ranks; rank++) {
        l.done[rank] = NEW_ARRAY(tmp, int, t->stages / t->ranks);
        put_gathers(&l, rank);
    }
    Run r;
    if (t->comms)
        take_over(&l);
    else if (run(&r, tmp, t))
        derive(&l, &r);
    else {
        p->stuck = true;
        derive_stuck(&l);
    }
    for (int rank = 0; rank < t->ranks; rank++)
        put_end(&l, rank);
    arena_free(tmp);
    return p;
}

PipeTable *pipe_with_comms(Arena *a, const PipeProgram *p)
{
    PipeTable *t = NEW(a, PipeTable);
    *t = *p->table;
    t->row = NEW_ARRAY(a, PipeRow, t->ranks);
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t i = 0; i < p->rank[rank].n; i++) {
            const PipeOp *op = &p->rank[rank].data[i];
            t->comms |= op->step == PIPE_START;
            if (op->step == PIPE_COMPUTE || op->step == PIPE_START)
                vec_push(a, &t->row[rank], op->action);
        }
    return t;
}
