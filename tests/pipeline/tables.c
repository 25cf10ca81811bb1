/* tables.c - see tables.h. */
#include "tests/pipeline/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Nobody tries remedies here: all are told. */
static bool each_works(void *ctx, const Remedy *r, int code, Span at)
{
    (void)ctx, (void)r, (void)code, (void)at;
    return true;
}

void bench_open(Bench *b)
{
    *b = (Bench){.arena = arena_new()};
    b->out = open_memstream(&b->said, &b->size);
    b->diag = diag_new(b->arena, b->out, false);
    diag_on_remedy(b->diag, each_works, NULL);
}

void bench_close(Bench *b)
{
    fclose(b->out);
    free(b->said);
    arena_free(b->arena);
}

const char *bench_said(Bench *b)
{
    fflush(b->out);
    return b->said;
}

PipeTable *built_in(Bench *b, PipeSchedule s, int ranks, int chunks, int microbatches)
{
    return pipe_make(b->arena, b->diag, &(PipeForm){s, ranks, chunks, microbatches, 0, false});
}

PipeTable *read_text(Bench *b, const char *text)
{
    return pipe_read(b->arena, b->diag, diag_add_file(b->diag, "t.csv", text, strlen(text)));
}

char *printed(Bench *b, const PipeTable *t)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    pipe_print(t, f);
    fclose(f);
    char *kept = arena_strndup(b->arena, text, size);
    free(text);
    return kept;
}

bool proved(Bench *b, const PipeTable *t, PipeProof *proof)
{
    return pipe_complete(t, b->diag) &&
           pipe_prove(b->arena, pipe_lower(b->arena, t), b->diag, proof);
}

/* ---- at random ------------------------------------------------------------------------------ */

uint64_t any(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int any_of(uint64_t *seed, int n)
{
    return (int)(any(seed) % (uint64_t)n);
}

/* A run that is made up as it goes: what has been computed, and what has arrived. */
typedef struct Draft {
    Bench *b;
    PipeTable *t;
    bool *done[PIPE_KINDS]; /* by cell; of B and I both are set */
    bool *split;            /* the backward is I and W */
    bool *listed[PIPE_KINDS];
    VEC(PipeAction) can; /* what may come next */
} Draft;

static bool is_done(const Draft *d, PipeKind kind, int stage, int k)
{
    return d->done[kind][pipe_cell(d->t, stage, k)];
}

static bool apart(const Draft *d, int stage, int other)
{
    return pipe_rank(d->t, stage) != pipe_rank(d->t, other);
}

/* An input for `to` from a neighbour stage is there once made, or once sent if the table has sends
 * and they are on two ranks. */
static bool arrived(const Draft *d, PipeKind made, PipeKind sent, int stage, int to, int k)
{
    return stage < 0 || stage >= d->t->stages ||
           is_done(d, d->t->comms && apart(d, stage, to) ? sent : made, stage, k);
}

static bool possible(const Draft *d, PipeAction a)
{
    int s = a.stage, k = a.microbatch;
    bool split = d->split[pipe_cell(d->t, s, k)];
    if (is_done(d, a.kind, s, k))
        return false;
    switch (a.kind) {
    case PIPE_F:
        return arrived(d, PIPE_F, PIPE_SEND_F, s - 1, s, k);
    case PIPE_B:
    case PIPE_I:
        return split == (a.kind == PIPE_I) && is_done(d, PIPE_F, s, k) &&
               arrived(d, PIPE_B, PIPE_SEND_B, s + 1, s, k);
    case PIPE_W:
        return split && is_done(d, PIPE_I, s, k);
    case PIPE_SEND_F:
        return d->t->comms && s + 1 < d->t->stages && apart(d, s, s + 1) &&
               is_done(d, PIPE_F, s, k);
    case PIPE_SEND_B:
        return d->t->comms && s > 0 && apart(d, s, s - 1) && is_done(d, PIPE_B, s, k);
    case PIPE_RECV_F:
    case PIPE_RECV_B:
    case PIPE_KINDS: /* and PIPE_UNSHARD */
    case PIPE_REDUCE:
        break;
    }
    return false;
}

/* Lists the actions of a stage that have become possible. */
static void list(Draft *d, int stage, int k)
{
    if (stage < 0 || stage >= d->t->stages)
        return;
    for (int kind = 0; kind < PIPE_KINDS; kind++) {
        PipeAction a = {(PipeKind)kind, stage, k, 0, false};
        bool *listed = &d->listed[kind][pipe_cell(d->t, stage, k)];
        if (*listed || !possible(d, a))
            continue;
        *listed = true;
        vec_push(d->b->arena, &d->can, a);
    }
}

static void take(Draft *d, PipeAction a)
{
    PipeTable *t = d->t;
    size_t cell = pipe_cell(t, a.stage, a.microbatch);
    vec_push(d->b->arena, &t->row[pipe_rank(t, a.stage)], a);
    d->done[a.kind][cell] = true;
    if (a.kind == PIPE_B || a.kind == PIPE_I)
        d->done[PIPE_B][cell] = d->done[PIPE_I][cell] = true;
    if (a.kind == PIPE_SEND_F)
        vec_push(d->b->arena, &t->row[pipe_rank(t, a.stage + 1)],
                 (PipeAction){PIPE_RECV_F, a.stage + 1, a.microbatch, 0, false});
    if (a.kind == PIPE_SEND_B)
        vec_push(d->b->arena, &t->row[pipe_rank(t, a.stage - 1)],
                 (PipeAction){PIPE_RECV_B, a.stage - 1, a.microbatch, 0, false});
}

PipeTable *random_built_in(Bench *b, uint64_t *seed)
{
    int s = any_of(seed, PIPE_SCHEDULES), p = 1 + any_of(seed, 8), m = 1 + any_of(seed, 16);
    int v = pipe_schedule_chunks((PipeSchedule)s) + (s == PIPE_INTERLEAVED ? any_of(seed, 2) : 0);
    if (s == PIPE_INTERLEAVED)
        m = p * (1 + any_of(seed, 16 / p));
    if (s == PIPE_DUALPIPE_V)
        m = m < 2 * p ? 2 * p : m;
    return built_in(b, (PipeSchedule)s, p, v, m);
}

PipeTable *random_table(Bench *b, uint64_t *seed)
{
    PipeTable *t = NEW(b->arena, PipeTable);
    t->name = "random";
    t->ranks = 1 + any_of(seed, 8);
    t->stages = t->ranks * (1 + any_of(seed, 3));
    if (t->stages == 2 * t->ranks && t->ranks > 1 && any_of(seed, 2))
        t->placement = MG_V;
    t->microbatches = 1 + any_of(seed, 16);
    t->comms = t->ranks > 1 && any_of(seed, 2);
    t->row = NEW_ARRAY(b->arena, PipeRow, t->ranks);
    t->row_at = NEW_ARRAY(b->arena, uint32_t, t->ranks);
    size_t cells = pipe_cells(t);
    Draft d = {.b = b, .t = t, .split = NEW_ARRAY(b->arena, bool, cells)};
    for (int k = 0; k < PIPE_KINDS; k++) {
        d.done[k] = NEW_ARRAY(b->arena, bool, cells);
        d.listed[k] = NEW_ARRAY(b->arena, bool, cells);
    }
    for (size_t i = 0; i < cells; i++)
        d.split[i] = any_of(seed, 2);
    for (int k = 0; k < t->microbatches; k++)
        list(&d, 0, k);
    while (d.can.n) {
        int i = any_of(seed, (int)d.can.n);
        PipeAction a = d.can.data[i];
        d.can.data[i] = d.can.data[--d.can.n];
        take(&d, a);
        for (int s = a.stage - 1; s <= a.stage + 1; s++)
            list(&d, s, a.microbatch);
    }
    return t;
}

/* ---- messages at random --------------------------------------------------------------------- */

/* Of one message, before which action of the row each end stands; at first where it may at most. */
typedef struct Mail {
    PipeAction send, recv;
    size_t sent, received;
} Mail;
typedef VEC(Mail) Mails;

/* Whether an action needs a receive. */
static bool needs(PipeAction a, PipeAction recv)
{
    bool forward = recv.kind == PIPE_RECV_F;
    return a.stage == recv.stage && a.microbatch == recv.microbatch &&
           (forward ? a.kind == PIPE_F : a.kind == PIPE_B || a.kind == PIPE_I);
}

static size_t consumer(const PipeTable *t, PipeAction recv)
{
    const PipeRow *row = &t->row[pipe_rank(t, recv.stage)];
    size_t i = 0;
    while (!needs(row->data[i], recv))
        i++;
    return i;
}

static Mails mails_between(Bench *b, const PipeTable *t, int from, int to)
{
    Mails all = {0};
    const PipeRow *row = &t->row[from];
    for (size_t i = 0; i < row->n; i++) {
        Mail m = {.sent = i + 1};
        if (!pipe_send_of(t, row->data[i], &m.send))
            continue;
        m.recv = pipe_peer(m.send);
        m.received = consumer(t, m.recv);
        if (pipe_rank(t, m.recv.stage) == to)
            vec_push(b->arena, &all, m);
    }
    return all;
}

/* Mostly as soon, or as late, as may be. */
static size_t between(uint64_t *seed, size_t often, size_t other)
{
    size_t min = often < other ? often : other, max = often < other ? other : often;
    return any_of(seed, 24) ? often : min + (size_t)any_of(seed, (int)(max - min) + 1);
}

PipeTable *with_messages(Bench *b, const PipeTable *t, uint64_t *seed)
{
    PipeTable *c = NEW(b->arena, PipeTable);
    *c = *t;
    c->comms = t->ranks > 1;
    c->row = NEW_ARRAY(b->arena, PipeRow, t->ranks);
    PipeRow **gap = NEW_ARRAY(b->arena, PipeRow *, t->ranks); /* before each action */
    for (int rank = 0; rank < t->ranks; rank++)
        gap[rank] = NEW_ARRAY(b->arena, PipeRow, t->row[rank].n + 1);
    for (int i = 0; i < t->ranks * t->ranks; i++) {
        int from = i / t->ranks, to = i % t->ranks;
        Mails m = mails_between(b, t, from, to);
        for (size_t k = m.n; k-- > 1;) /* a receive is before those that come after it */
            if (m.data[k].received < m.data[k - 1].received)
                m.data[k - 1].received = m.data[k].received;
        size_t sent = 0, received = 0;
        for (size_t k = 0; k < m.n; k++) {
            size_t soon = m.data[k].sent > sent ? m.data[k].sent : sent;
            sent = between(seed, soon, t->row[from].n);
            received = between(seed, m.data[k].received, received);
            vec_push(b->arena, &gap[from][sent], m.data[k].send);
            vec_push(b->arena, &gap[to][received], m.data[k].recv);
        }
    }
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t i = 0; i <= t->row[rank].n; i++) {
            for (size_t k = 0; k < gap[rank][i].n; k++)
                vec_push(b->arena, &c->row[rank], gap[rank][i].data[k]);
            if (i < t->row[rank].n) {
                PipeAction a = t->row[rank].data[i];
                a.pair = false; /* messages may stand between the two */
                vec_push(b->arena, &c->row[rank], a);
            }
        }
    return c;
}

/* ---- mistakes ------------------------------------------------------------------------------- */

static void insert(Bench *b, PipeRow *row, size_t at, PipeAction a)
{
    vec_push(b->arena, row, a);
    memmove(row->data + at + 1, row->data + at, (row->n - 1 - at) * sizeof a);
    row->data[at] = a;
}

static PipeAction take_out(PipeRow *row, size_t at)
{
    PipeAction a = row->data[at];
    memmove(row->data + at, row->data + at + 1, (--row->n - at) * sizeof a);
    return a;
}

/* Exchanges one with the next of its kind: crossed sends, reordered receives. */
static void exchange(PipeRow *row, size_t i)
{
    size_t k = i + 1;
    while (k < row->n && row->data[k].kind != row->data[i].kind)
        k++;
    if (k == row->n)
        return;
    PipeAction a = row->data[i];
    row->data[i] = row->data[k];
    row->data[k] = a;
}

/* A send stands later, a receive anywhere before what needs it: the row shows nothing wrong. */
static void displace(Bench *b, PipeRow *row, size_t i, uint64_t *seed)
{
    PipeAction a = row->data[i];
    if (pipe_computes(a.kind))
        return;
    take_out(row, i);
    size_t end = i;
    while (end < row->n && (pipe_sends(a.kind) || !needs(row->data[end], a)))
        end++;
    size_t from = pipe_sends(a.kind) ? i : 0;
    insert(b, row, from + (size_t)any_of(seed, (int)(end - from) + 1), a);
}

PipeTable *with_mistake(Bench *b, const PipeTable *t, uint64_t *seed)
{
    PipeTable *c = NEW(b->arena, PipeTable);
    *c = *t;
    c->row = NEW_ARRAY(b->arena, PipeRow, t->ranks);
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t i = 0; i < t->row[rank].n; i++)
            vec_push(b->arena, &c->row[rank], t->row[rank].data[i]);
    PipeRow *row = &c->row[any_of(seed, c->ranks)], *other = &c->row[any_of(seed, c->ranks)];
    if (!row->n)
        return c;
    size_t n = row->n, i = (size_t)any_of(seed, (int)n), k = (size_t)any_of(seed, (int)n);
    switch (any_of(seed, 11)) {
    case 10: /* overlaps, or does not any more */
        row->data[i].pair = !row->data[i].pair;
        break;
    case 0: /* dropped */
        take_out(row, i);
        break;
    case 1: /* doubled */
        insert(b, row, k, row->data[i]);
        break;
    case 2: /* moved */
        insert(b, row, k, take_out(row, i));
        break;
    case 3: /* moved by one */
        insert(b, row, i ? i - 1 : n - 1, take_out(row, i));
        break;
    case 4:
    case 5:
        exchange(row, i);
        break;
    case 6:
    case 7:
        displace(b, row, i, seed);
        break;
    case 8: /* on another rank */
        insert(b, other, (size_t)any_of(seed, (int)other->n + 1), take_out(row, i));
        break;
    default: /* misspelt */
        if (any_of(seed, 2))
            row->data[i].microbatch = any_of(seed, c->microbatches);
        else
            row->data[i].kind = (PipeKind)any_of(seed, c->comms ? PIPE_KINDS : PIPE_W + 1);
    }
    c->comms = false;
    for (int rank = 0; rank < c->ranks; rank++)
        for (size_t j = 0; j < c->row[rank].n; j++)
            c->comms |= !pipe_computes(c->row[rank].data[j].kind);
    return c;
}
