/* table_v.c - the schedules of a V: each rank has a chunk on the way there and one on the way back.
 *
 * Of three ranks and six microbatches (stages 0 to 5; of each rank, the second chunk with a '):
 *
 *   zb-v        rank 0   F0 F1 F2 F3 F4 F'0 I'0 W'0 F'1 I'1 W'1 F'2 I'2 W'2 F5 I0 W0 ...
 *               rank 2   F0 F'0 F1 F'1 F2 F'2 I'0 W'0 F3 I0 W0 ...
 *   dualpipe-v  rank 0   F0 F1 F2 F3 F4 F'0 I'0 W'0 F'1 I'1 W'1 F'2 F5 B'2 F'3 B0 B'3 ...
 *               rank 2   F0 F'0 F1 F'1 F2 F'2 F3 B'0 F'3 B0 F4 B'1 F'4 B1 ...
 *
 * The first rank has the first stage and the last, so a microbatch comes back to where it began,
 * and its backward goes the same way. A rank that gets its first F late computes the second chunk's
 * soon, and what it holds is the same on all ranks: 2p chunks at most in zb-v (Qi et al., Pipeline
 * Parallelism with Controllable Memory, 2024), 2p + 1 in dualpipe-v (DeepSeek's DualPipe, cut in
 * half), where an F and the B' behind it overlap, and an F' and the B behind it. */
#include "pipeline/rows.h"

/* A row under way: how many of each kind each chunk has had; and W that were put off, in order. */
typedef struct Turns {
    Row row;
    int stage[2], microbatches;
    int next[2][PIPE_W + 1];
    VEC(PipeAction) late;
} Turns;

static Turns turns_of(Row r, int ranks, int microbatches, int rank)
{
    return (Turns){
        .row = r,
        .stage = {mg_stage_of_rank(MG_V, ranks, rank, 0), mg_stage_of_rank(MG_V, ranks, rank, 1)},
        .microbatches = microbatches};
}

/* The next of a kind; beyond the last microbatch it is none. */
static void next(Turns *t, PipeKind kind, int chunk)
{
    const int k = t->next[chunk][kind]++;
    if (k < t->microbatches)
        row_act(t->row, kind, t->stage[chunk], k);
}

/* As Qi et al. have it for F, I and W that take equally long, in the terms of PyTorch's
 * ScheduleZBVZeroBubble. It is made for 2p - 1 microbatches or more: of fewer, those that there are
 * not are left out, which takes nothing from the order of the others. */
void row_zb_v(Row r, const PipeForm *f, int rank)
{
    const int p = f->ranks, behind = p - rank;
    const int m = f->microbatches < 2 * p - 1 ? 2 * p - 1 : f->microbatches;
    Turns t = turns_of(r, p, f->microbatches, rank);
    for (int k = 0; k < 2 * behind - 1; k++) /* until the first has come back */
        next(&t, PIPE_F, 0);
    for (int k = 0; k < rank; k++) {
        next(&t, PIPE_F, 1);
        next(&t, PIPE_F, 0);
    }
    for (int k = 0; k < behind; k++) {
        next(&t, PIPE_F, 1);
        next(&t, PIPE_I, 1);
        next(&t, PIPE_W, 1);
    }
    for (int k = p; k < m; k++)
        for (int chunk = 0; chunk < 2; chunk++) {
            next(&t, PIPE_F, chunk);
            next(&t, PIPE_I, chunk);
            next(&t, PIPE_W, chunk);
        }
    for (int k = 0; k < rank; k++) { /* no F is left, and others wait for I: W comes later */
        next(&t, PIPE_I, 0);
        next(&t, PIPE_I, 1);
    }
    for (int k = 0; k < behind; k++) {
        next(&t, PIPE_I, 0);
        next(&t, PIPE_W, 0);
    }
    for (int chunk = 1; chunk >= 0; chunk--)
        for (int k = 0; k < rank; k++)
            next(&t, PIPE_W, chunk);
}

/* ---- dualpipe-v ------------------------------------------------------------------------------ */

/* The next backward of a chunk: whole, or its I, with W put off. */
static void back(Turns *t, int chunk, bool apart)
{
    const PipeKind kind = apart ? PIPE_I : PIPE_B;
    const int k = t->next[chunk][PIPE_B]++;
    row_act(t->row, kind, t->stage[chunk], k);
    if (apart)
        vec_push(t->row.arena, &t->late, (PipeAction){PIPE_W, t->stage[chunk], k, 0, false});
}

/* The W that was put off first. */
static void late(Turns *t, size_t *done)
{
    vec_push(t->row.arena, t->row.row, t->late.data[(*done)++]);
}

/* The next forward of a chunk, which overlaps with the next backward of the other. */
static void pair(Turns *t, int chunk)
{
    next(t, PIPE_F, chunk);
    t->row.row->data[t->row.row->n - 1].pair = true;
    back(t, 1 - chunk, false);
}

/* In DeepSeek's steps. */
void row_dualpipe_v(Row r, const PipeForm *f, int rank)
{
    const int p = f->ranks, m = f->microbatches, after = p - rank - 1, both = rank + 1;
    Turns t = turns_of(r, p, m, rank);
    size_t done = 0;
    for (int k = 0; k < 2 * after; k++)
        next(&t, PIPE_F, 0);
    for (int k = 0; k < both; k++) {
        next(&t, PIPE_F, 0);
        next(&t, PIPE_F, 1);
    }
    for (int k = 0; k < after; k++) {
        back(&t, 1, true);
        late(&t, &done);
        next(&t, PIPE_F, 1);
    }
    for (int k = 0; k < m - 2 * p + both; k++) {
        if (after || k) {
            pair(&t, 0);
        } else { /* the last rank's first two do not overlap, so that others wait less */
            next(&t, PIPE_F, 0);
            back(&t, 1, false);
        }
        pair(&t, 1);
    }
    for (int k = 0; k < after; k++) {
        back(&t, 1, false);
        pair(&t, 1);
    }
    for (int k = 0; k < 2 * both; k++) /* of the second half W is put off */
        back(&t, (k + 1) % 2, k >= both);
    for (int k = 0; k < after; k++) {
        late(&t, &done);
        back(&t, 0, true);
    }
    for (int k = 0; k < both; k++)
        late(&t, &done);
}
