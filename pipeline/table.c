/* table.c - the schedules that are built in: who computes what in which order; see pipeline.h.
 *
 * Of four ranks and six microbatches, one chunk each:
 *
 *   gpipe   rank 0   F0 F1 F2 F3 F4 F5 B0 B1 B2 B3 B4 B5         all forward, then all back
 *   1f1b    rank 0   F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5         at most four are held
 *           rank 2   F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5         at most two
 *   zb-h1   rank 2   F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 I5 W3 W4 W5
 *
 * zb-h1 puts W off by as many microbatches as there are ranks before: the later a rank has its
 * first F, the later it has its last I, and what it put off fills the wait at the end. So every
 * rank holds as many microbatches as rank 0 of 1f1b does. interleaved is 1f1b over chunks, in
 * Megatron's order: a group of microbatches through the first chunk, then the same through the
 * second, and so on. The schedules of a V are in table_v.c. */
#include "pipeline/rows.h"

typedef struct Schedule {
    const char *name;
    void (*row)(Row r, const PipeForm *f, int rank);
    int chunks;
    mg_placement placement;
} Schedule;

static void row_gpipe(Row r, const PipeForm *f, int rank);
static void row_1f1b(Row r, const PipeForm *f, int rank);
static void row_interleaved(Row r, const PipeForm *f, int rank);
static void row_zb_h1(Row r, const PipeForm *f, int rank);

static const Schedule schedules[PIPE_SCHEDULES] = {
    [PIPE_GPIPE] = {"gpipe", row_gpipe, 1, MG_LOOP},
    [PIPE_1F1B] = {"1f1b", row_1f1b, 1, MG_LOOP},
    [PIPE_INTERLEAVED] = {"interleaved", row_interleaved, 2, MG_LOOP},
    [PIPE_ZB_H1] = {"zb-h1", row_zb_h1, 1, MG_LOOP},
    [PIPE_ZB_V] = {"zb-v", row_zb_v, 2, MG_V},
    [PIPE_DUALPIPE_V] = {"dualpipe-v", row_dualpipe_v, 2, MG_V}};

const char *pipe_schedule_name(PipeSchedule s)
{
    return schedules[s].name;
}

const char *pipe_schedule_names(Arena *a)
{
    const char *all = schedules[0].name;
    for (int s = 1; s < PIPE_SCHEDULES; s++)
        all = arena_printf(a, "%s, %s", all, schedules[s].name);
    return all;
}

int pipe_schedule_chunks(PipeSchedule s)
{
    return schedules[s].chunks;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* ---- what numbers there can be -------------------------------------------------------------- */

static bool in_range(Diag *d, const char *what, int n, int limit)
{
    if (n >= 1 && n <= limit)
        return true;
    diag_error(d, (Span){0}, 581, "a pipeline has 1 to %d %s, not %d", limit, what, n);
    return false;
}

/* Microbatches go in groups; what is left over has to keep all ranks busy once around. */
static bool divides(const PipeForm *f, int microbatches)
{
    int rest = microbatches % f->group;
    return microbatches >= f->group && (!rest || rest >= f->ranks);
}

static bool legal_groups(Diag *d, const PipeForm *f)
{
    if (f->group < f->ranks) {
        diag_error(d, (Span){0}, 581,
                   "a group of %d microbatches is less than one for each of %d ranks", f->group,
                   f->ranks);
        return false;
    }
    int m = f->microbatches;
    if (divides(f, m))
        return true;
    if (m < f->group)
        diag_error(d, (Span){0}, 581,
                   "interleaved takes microbatches in groups of %d, and there are %d", f->group, m);
    else
        diag_error(d, (Span){0}, 581,
                   "interleaved takes microbatches in groups of %d, and of %d the last group has "
                   "%d: too few for %d ranks",
                   f->group, m, m % f->group, f->ranks);
    return false;
}

static bool legal(Diag *d, PipeForm *f)
{
    if (!in_range(d, "ranks", f->ranks, PIPE_RANKS_MAX) ||
        !in_range(d, "chunks a rank", f->chunks, PIPE_STAGES_MAX / f->ranks) ||
        !in_range(d, "microbatches", f->microbatches, PIPE_MICROBATCHES_MAX))
        return false;
    int stages = f->ranks * f->chunks, limit = PIPE_CELLS_MAX / stages;
    if (f->microbatches > limit) {
        diag_error(d, (Span){0}, 583, "%d stages of %d microbatches are more than %d cells", stages,
                   f->microbatches, PIPE_CELLS_MAX);
        return false;
    }
    if (f->schedule == PIPE_INTERLEAVED) {
        if (f->chunks < 2) {
            diag_error(d, (Span){0}, 581, "interleaved has at least 2 chunks a rank, not %d",
                       f->chunks);
            diag_help(d, "1f1b is the schedule with one chunk a rank");
            return false;
        }
        if (!f->group)
            f->group = f->ranks;
        return legal_groups(d, f);
    }
    const Schedule *s = &schedules[f->schedule];
    if (f->pairs && f->schedule != PIPE_1F1B) {
        diag_error(d, (Span){0}, 581, "%s has no pairs: 1f1b and interleaved can have", s->name);
        return false;
    }
    if (f->chunks != s->chunks) {
        if (s->placement == MG_V)
            diag_error(d, (Span){0}, 581, "%s has 2 chunks a rank, there and back, not %d", s->name,
                       f->chunks);
        else
            diag_error(d, (Span){0}, 581, "%s has one chunk a rank, not %d", s->name, f->chunks);
        diag_help(d, "interleaved is the schedule with any number of chunks from 2 on");
        return false;
    }
    if (f->group) {
        diag_error(d, (Span){0}, 581, "%s has no groups of microbatches: interleaved has", s->name);
        return false;
    }
    f->group = f->pairs ? f->microbatches : 0;
    if (f->schedule == PIPE_DUALPIPE_V && f->microbatches < stages) {
        diag_error(d, (Span){0}, 581,
                   "dualpipe-v has at least as many microbatches as stages: %d of %d ranks, not %d",
                   stages, f->ranks, f->microbatches);
        return false;
    }
    return true;
}

bool pipe_legal(const PipeForm *form)
{
    Arena *a = arena_new();
    PipeForm f = *form;
    bool yes = legal(diag_new(a, NULL, false), &f);
    arena_free(a);
    return yes;
}

int pipe_legal_microbatches(const PipeForm *form, int step)
{
    PipeForm f = *form;
    for (f.microbatches += step; f.microbatches > 0 && f.microbatches <= PIPE_CELLS_MAX;
         f.microbatches += step)
        if (pipe_legal(&f))
            return f.microbatches;
    return 0;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void row_gpipe(Row r, const PipeForm *f, int rank)
{
    for (int k = 0; k < f->microbatches; k++)
        row_act(r, PIPE_F, rank, k);
    for (int k = 0; k < f->microbatches; k++)
        row_act(r, PIPE_B, rank, k);
}

/* The k-th forward of a rank, or backward: of which chunk, counted as it goes, and microbatch. */
static PipeAction nth(const PipeForm *f, int rank, int k, PipeKind kind)
{
    int turn = f->group * f->chunks, first = k / turn * f->group;
    int size = least(f->group, f->microbatches - first), in = k - first * f->chunks;
    int chunk = kind == PIPE_F ? in / size : f->chunks - 1 - in / size;
    return (PipeAction){kind, chunk * f->ranks + rank, first + in % size, 0, false};
}

/* In pairs a microbatch is a pair longer under way on each rank, there and back: a rank begins two
 * F before the one behind it, as where it has several chunks, and one more, since no microbatch is
 * in both of a pair. */
static void row_interleaved(Row r, const PipeForm *f, int rank)
{
    int n = f->microbatches * f->chunks;
    int warm_up = least(2 * (f->ranks - rank - 1) + (f->chunks - 1) * f->group + f->pairs, n);
    for (int k = 0; k < warm_up; k++)
        vec_push(r.arena, r.row, nth(f, rank, k, PIPE_F));
    for (int k = 0; k < n; k++) {
        if (k + warm_up < n) {
            PipeAction forward = nth(f, rank, k + warm_up, PIPE_F);
            forward.pair = f->pairs;
            vec_push(r.arena, r.row, forward);
        }
        vec_push(r.arena, r.row, nth(f, rank, k, PIPE_B));
    }
}

static void row_1f1b(Row r, const PipeForm *f, int rank)
{
    int m = f->microbatches, warm_up = least(f->ranks - rank - 1, m);
    if (f->pairs) {
        row_interleaved(r, f, rank);
        return;
    }
    for (int k = 0; k < warm_up; k++)
        row_act(r, PIPE_F, rank, k);
    for (int k = 0; k < m; k++) {
        if (k + warm_up < m)
            row_act(r, PIPE_F, rank, k + warm_up);
        row_act(r, PIPE_B, rank, k);
    }
}

static void row_zb_h1(Row r, const PipeForm *f, int rank)
{
    int m = f->microbatches, warm_up = least(f->ranks - rank - 1, m), late = rank;
    for (int k = 0; k < warm_up; k++)
        row_act(r, PIPE_F, rank, k);
    for (int k = 0; k < m; k++) {
        if (k + warm_up < m)
            row_act(r, PIPE_F, rank, k + warm_up);
        row_act(r, PIPE_I, rank, k);
        if (k >= late)
            row_act(r, PIPE_W, rank, k - late);
    }
    for (int k = m > late ? m - late : 0; k < m; k++)
        row_act(r, PIPE_W, rank, k);
}

PipeTable *pipe_make(Arena *a, Diag *d, const PipeForm *form)
{
    PipeForm f = *form;
    if (!legal(d, &f))
        return NULL;
    PipeTable *t = NEW(a, PipeTable);
    t->name = schedules[f.schedule].name;
    t->placement = schedules[f.schedule].placement;
    t->ranks = f.ranks;
    t->stages = f.ranks * f.chunks;
    t->microbatches = f.microbatches;
    t->row = NEW_ARRAY(a, PipeRow, f.ranks);
    t->row_at = NEW_ARRAY(a, uint32_t, f.ranks);
    for (int rank = 0; rank < f.ranks; rank++)
        schedules[f.schedule].row((Row){a, &t->row[rank]}, &f, rank);
    return t;
}

/* ---- what is held --------------------------------------------------------------------------- */

PipeHeld pipe_held(const PipeTable *t, int rank)
{
    PipeHeld now = {0}, peak = {0};
    for (size_t i = 0; i < t->row[rank].n; i++) {
        PipeKind k = t->row[rank].data[i].kind;
        now.to_input += (k == PIPE_F) - (k == PIPE_B || k == PIPE_I);
        now.to_weight += (k == PIPE_F) - (k == PIPE_B || k == PIPE_W);
        peak.to_input = now.to_input > peak.to_input ? now.to_input : peak.to_input;
        peak.to_weight = now.to_weight > peak.to_weight ? now.to_weight : peak.to_weight;
    }
    return peak;
}

static void forward_in_loop(Row r, const PipeTable *t, int rank)
{
    for (int first = 0; first < t->microbatches; first += t->ranks)
        for (int stage = rank; stage < t->stages; stage += t->ranks)
            for (int k = first; k < least(first + t->ranks, t->microbatches); k++)
                row_act(r, PIPE_F, stage, k);
}

PipeTable *pipe_make_forward(Arena *a, int ranks, int chunks, int microbatches)
{
    PipeTable *t = NEW(a, PipeTable);
    *t = (PipeTable){.name = "forward",
                     .ranks = ranks,
                     .stages = ranks * chunks,
                     .microbatches = microbatches,
                     .placement = MG_LOOP,
                     .forward = true};
    t->row = NEW_ARRAY(a, PipeRow, ranks);
    for (int rank = 0; rank < ranks; rank++)
        forward_in_loop((Row){a, &t->row[rank]}, t, rank);
    return t;
}
