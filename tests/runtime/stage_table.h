/* stage_table.h - tables of pipelines as an emitted program has them, and what goes through them;
 * for test_pipe.c (processors) and tests/cuda/check_comm.c.
 *
 * All rows follow one order of time in which a message is a moment, between two things that its
 * ranks compute: so nobody can wait for himself. What that order is, the schedule says, or it is
 * drawn. */
#ifndef MG_TEST_STAGE_TABLE_H
#define MG_TEST_STAGE_TABLE_H

#include <stdlib.h>
#include <string.h>

#include "runtime/run.h"

typedef enum stage_order { GPIPE, ONE_ONE, INTERLEAVED, DRAWN } stage_order;

enum { TABLE_RANKS = 8, TABLE_BUFFERS = 200 };

typedef struct stage_row {
    mg_pipe_op *op;
    int n, room;
    int done;           /* in the order of its schedule */
    int begun[10][512]; /* by step: operations not yet waited for, in order */
    int first[10], last[10];
    bool taken[2][TABLE_BUFFERS], sent[2][TABLE_BUFFERS]; /* buffers in use, by way */
} stage_row;

/* Of a stage and a microbatch. */
typedef struct stage_cell {
    bool has_f, has_b, has_w;
    bool f_goes, b_goes;      /* what it makes is still to be sent */
    int f_out, b_out;         /* its buffer */
    bool f_came, b_came;      /* what it needs */
    int f_in, b_in;           /* its buffer */
    int f_receive, b_receive; /* the operation that began it */
    bool splits;              /* I and W */
} stage_cell;

typedef struct stage_table {
    int ranks, chunks, microbatches, stages;
    stage_row row[TABLE_RANKS];
    stage_cell *cell;
    const mg_pipe_op *ops[TABLE_RANKS];
    int buffers; /* each way, of those that are sent and of those received */
} stage_table;

static inline stage_cell *table_cell(const stage_table *t, int stage, int microbatch)
{
    return &t->cell[stage * t->microbatches + microbatch];
}

static inline void table_put(stage_row *r, mg_pipe_op op)
{
    if (r->n == r->room)
        r->op = rt_grow(r->op, (size_t)(r->room = 2 * r->room + 64), sizeof *r->op);
    r->op[r->n++] = op;
}

static inline int table_buffer(stage_table *t, bool *in_use)
{
    int k = 0;
    while (in_use[k])
        k++;
    if (k >= TABLE_BUFFERS)
        abort();
    in_use[k] = true;
    t->buffers = k >= t->buffers ? k + 1 : t->buffers;
    return k;
}

/* Of the oldest of that kind; returns which operation began it. */
static inline int table_wait(stage_row *r, int of)
{
    int began = r->begun[of][r->first[of]++ % 512];
    table_put(r, (mg_pipe_op){.step = MG_PIPE_WAIT,
                              .of = (uint8_t)of,
                              .stage = r->op[began].stage,
                              .microbatch = r->op[began].microbatch});
    return began;
}

static inline void table_begin(stage_row *r, mg_pipe_op op)
{
    r->begun[op.step][r->last[op.step]++ % 512] = r->n;
    table_put(r, op);
}

static inline void table_need(stage_row *r, int of, int began)
{
    while (r->first[of] < r->last[of] && r->begun[of][r->first[of] % 512] <= began)
        table_wait(r, of);
}

/* A buffer for what is sent: at most two are under way. */
static inline int table_out(stage_table *t, stage_row *r, int way)
{
    int of = way ? MG_PIPE_SEND_B : MG_PIPE_SEND_F;
    while (r->last[of] - r->first[of] >= 2) {
        int began = table_wait(r, of);
        r->sent[way][r->op[began].out] = false;
    }
    return table_buffer(t, r->sent[way]);
}

static inline bool table_may(const stage_table *t, int step, int stage, int mb)
{
    const stage_cell *c = table_cell(t, stage, mb);
    if (step == MG_PIPE_F)
        return !c->has_f && (stage == 0 || c->f_came);
    if (step == MG_PIPE_W)
        return c->has_b && c->splits && !c->has_w;
    return c->has_f && !c->has_b && (stage == t->stages - 1 || c->b_came);
}

static inline void table_compute(stage_table *t, int step, int stage, int mb)
{
    stage_row *r = &t->row[stage % t->ranks];
    stage_cell *c = table_cell(t, stage, mb);
    mg_pipe_op op = {.step = (uint8_t)step, .stage = (uint16_t)stage, .microbatch = mb};
    if (step == MG_PIPE_F) {
        if (stage > 0) {
            table_need(r, MG_PIPE_RECV_F, c->f_receive);
            op.in = (uint8_t)c->f_in;
            r->taken[0][c->f_in] = false;
        }
        if ((c->f_goes = stage < t->stages - 1))
            op.out = (uint8_t)(c->f_out = table_out(t, r, 0));
        c->has_f = true;
    } else if (step == MG_PIPE_W) {
        c->has_w = true;
    } else {
        if (stage < t->stages - 1) {
            table_need(r, MG_PIPE_RECV_B, c->b_receive);
            op.in = (uint8_t)c->b_in;
            r->taken[1][c->b_in] = false;
        }
        if ((c->b_goes = stage > 0))
            op.out = (uint8_t)(c->b_out = table_out(t, r, 1));
        c->has_b = true;
    }
    table_put(r, op);
}

static inline void table_message(stage_table *t, int way, int stage, int mb)
{
    int to = way ? stage - 1 : stage + 1;
    stage_row *sender = &t->row[stage % t->ranks], *taker = &t->row[to % t->ranks];
    stage_cell *from = table_cell(t, stage, mb), *c = table_cell(t, to, mb);
    mg_pipe_op op = {.step = way ? MG_PIPE_SEND_B : MG_PIPE_SEND_F,
                     .out = (uint8_t)(way ? from->b_out : from->f_out),
                     .stage = (uint16_t)stage,
                     .microbatch = mb};
    table_begin(sender, op);
    op.step++;
    op.out = 0;
    op.stage = (uint16_t)to;
    op.in = (uint8_t)table_buffer(t, taker->taken[way]);
    *(way ? &c->b_in : &c->f_in) = op.in;
    *(way ? &c->b_receive : &c->f_receive) = taker->n;
    *(way ? &c->b_came : &c->f_came) = true;
    *(way ? &from->b_goes : &from->f_goes) = false;
    table_begin(taker, op);
}

/* ---- the order ------------------------------------------------------------------------------- */

/* The k-th of a rank's forward (or backward) passes. */
static inline void table_nth(const stage_table *t, int rank, int k, bool back, int *stage, int *mb)
{
    int each = t->ranks * t->chunks, chunk = k % each / t->ranks;
    if (t->chunks == 1) {
        *stage = rank;
        *mb = k;
        return;
    }
    chunk = back ? t->chunks - 1 - chunk : chunk;
    *stage = chunk * t->ranks + rank;
    *mb = k / each * t->ranks + k % t->ranks;
}

/* The next one of a rank's schedule; false: there is none. */
static inline bool table_next(const stage_table *t, stage_order order, int rank, int *step,
                              int *stage, int *mb)
{
    int all = t->microbatches * t->chunks, k = t->row[rank].done, first = t->ranks - rank - 1;
    if (order == GPIPE)
        first = all;
    else if (order == INTERLEAVED)
        first = 2 * first + (t->chunks - 1) * t->ranks;
    first = first > all ? all : first;
    if (k >= 2 * all)
        return false;
    bool back = k >= first && (k >= 2 * all - first || (k - first) % 2);
    int nth = k < first ? k : k >= 2 * all - first ? k - all : (k - first) / 2 + (back ? 0 : first);
    *step = back ? MG_PIPE_B : MG_PIPE_F;
    table_nth(t, rank, nth, back, stage, mb);
    return true;
}

/* A rank computes one thing at a time, all at once; then what they made is sent. */
static inline void table_follow(stage_table *t, stage_order order)
{
    for (bool some = true; some;) {
        int step[TABLE_RANKS], stage[TABLE_RANKS], mb[TABLE_RANKS];
        bool goes[TABLE_RANKS];
        some = false;
        for (int r = 0; r < t->ranks; r++)
            goes[r] = table_next(t, order, r, &step[r], &stage[r], &mb[r]) &&
                      table_may(t, step[r], stage[r], mb[r]);
        for (int r = 0; r < t->ranks; r++)
            if (goes[r]) {
                table_compute(t, step[r], stage[r], mb[r]);
                t->row[r].done++;
                some = true;
            }
        for (int r = 0; r < t->ranks; r++)
            for (int way = 0; way < 2 && goes[r]; way++)
                if (way ? table_cell(t, stage[r], mb[r])->b_goes
                        : table_cell(t, stage[r], mb[r])->f_goes)
                    table_message(t, way, stage[r], mb[r]);
    }
}

/* Anything that may be next, drawn. */
static inline void table_draw(stage_table *t, uint64_t *seed)
{
    static const int steps[] = {MG_PIPE_F, MG_PIPE_B, MG_PIPE_W};
    int cells = t->stages * t->microbatches;
    for (int i = 0; i < cells; i++)
        t->cell[i].splits = rt_mix64(++*seed) % 2;
    for (int missed = 0; missed < 5 * cells;) {
        int start = (int)(rt_mix64(++*seed) % (uint64_t)(5 * cells));
        for (missed = 0; missed < 5 * cells; missed++) {
            int k = (start + missed) % (5 * cells), stage = k % t->stages;
            int what = k / cells, mb = k % cells / t->stages;
            const stage_cell *c = table_cell(t, stage, mb);
            if (what < 3 && table_may(t, steps[what], stage, mb)) {
                int step = steps[what] == MG_PIPE_B && c->splits ? MG_PIPE_I : steps[what];
                table_compute(t, step, stage, mb);
                break;
            }
            if ((what == 3 && c->f_goes) || (what == 4 && c->b_goes)) {
                table_message(t, what - 3, stage, mb);
                break;
            }
        }
    }
}

/* The rank behind it or before it in the ring to which a message goes, or from which it comes. */
static inline int table_peer(const stage_table *t, int rank, const mg_pipe_op *o)
{
    const bool takes = o->step == MG_PIPE_RECV_F || o->step == MG_PIPE_RECV_B;
    const bool back = o->step == MG_PIPE_SEND_B || o->step == MG_PIPE_RECV_B;
    return (rank + (takes == back ? 1 : t->ranks - 1)) % t->ranks;
}

/* Groups sends and receives that stand side by side, so that they begin together: to each rank one
 * at most, and from each one, as programs have it (pipeline/lower.c). */
static inline void table_group(const stage_table *t, stage_row *r)
{
    for (int i = 0, n; i < r->n; i += n) {
        bool met[2][TABLE_RANKS] = {{false}};
        for (n = 0; i + n < r->n && r->op[i + n].step >= MG_PIPE_SEND_F &&
                    r->op[i + n].step <= MG_PIPE_RECV_B;
             n++) {
            const mg_pipe_op *o = &r->op[i + n];
            const bool takes = o->step == MG_PIPE_RECV_F || o->step == MG_PIPE_RECV_B;
            bool *one = &met[takes][table_peer(t, (int)(r - t->row), o)];
            if (*one)
                break;
            *one = true;
        }
        if (n)
            r->op[i].with = (uint16_t)(n - 1);
        n += !n;
    }
}

/* To be freed by table_free. */
static inline stage_table *table_new(int ranks, int chunks, int microbatches, stage_order order,
                                     uint64_t seed)
{
    stage_table *t = rt_alloc(1, sizeof *t);
    *t = (stage_table){
        .ranks = ranks, .chunks = chunks, .microbatches = microbatches, .stages = ranks * chunks};
    t->cell = rt_alloc((size_t)(t->stages * microbatches), sizeof *t->cell);
    if (order == DRAWN)
        table_draw(t, &seed);
    else
        table_follow(t, order);
    for (int i = 0; i < t->stages * microbatches; i++)
        if (!t->cell[i].has_b || (t->cell[i].splits && !t->cell[i].has_w))
            abort();
    for (int r = 0; r < ranks; r++) {
        for (int of = MG_PIPE_SEND_F; of <= MG_PIPE_RECV_B; of++)
            while (t->row[r].first[of] < t->row[r].last[of])
                table_wait(&t->row[r], of);
        table_group(t, &t->row[r]);
        table_put(&t->row[r], (mg_pipe_op){.step = MG_PIPE_END});
        t->ops[r] = t->row[r].op;
    }
    return t;
}

static inline void table_free(stage_table *t)
{
    for (int r = 0; r < t->ranks; r++)
        free(t->row[r].op);
    free(t->cell);
    free(t);
}

/* ---- what goes through it -------------------------------------------------------------------- */

/* Word i of the message that stage `stage` sends. */
static inline uint32_t table_word(int way, int stage, int mb, int salt, int64_t i)
{
    uint64_t key = (uint64_t)way << 62 ^ (uint64_t)stage << 40 ^ (uint64_t)mb << 20;
    return (uint32_t)rt_mix64(key ^ (uint64_t)salt << 50 ^ (uint64_t)i);
}

/* Is it the message that an operation that computes needs, and has it one that it makes? */
static inline bool table_takes(const stage_table *t, const mg_pipe_op *o)
{
    return o->step == MG_PIPE_F   ? o->stage > 0
           : o->step == MG_PIPE_W ? false
                                  : o->stage < t->stages - 1;
}

static inline bool table_makes(const stage_table *t, const mg_pipe_op *o)
{
    return o->step == MG_PIPE_F ? o->stage < t->stages - 1 : o->step != MG_PIPE_W && o->stage > 0;
}

#endif
