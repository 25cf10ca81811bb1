/* complete.c - what a row shows by itself: T1 to T4 of pipeline.h. Nothing that this passes can
 * leave a gradient out or add it up twice. */
#include "pipeline/cells.h"

/* ---- messages ------------------------------------------------------------------------------- */

PipeAction pipe_peer(PipeAction a)
{
    static const PipeKind other[PIPE_KINDS] = {[PIPE_SEND_F] = PIPE_RECV_F,
                                               [PIPE_RECV_F] = PIPE_SEND_F,
                                               [PIPE_SEND_B] = PIPE_RECV_B,
                                               [PIPE_RECV_B] = PIPE_SEND_B};
    bool later = a.kind == PIPE_SEND_F || a.kind == PIPE_RECV_B;
    return (PipeAction){other[a.kind], a.stage + (later ? 1 : -1), a.microbatch, a.at, false};
}

static bool is_stage(const PipeTable *t, int stage)
{
    return stage >= 0 && stage < t->stages;
}

/* Whether two stages that exist are on one rank: what one makes for the other is not sent. */
static bool together(const PipeTable *t, int a, int b)
{
    return pipe_rank(t, a) == pipe_rank(t, b);
}

/* Whether a send or receive has another end, on another rank. */
static bool crosses(const PipeTable *t, PipeAction a)
{
    int peer = pipe_peer(a).stage;
    return is_stage(t, peer) && !together(t, a.stage, peer);
}

bool pipe_send_of(const PipeTable *t, PipeAction a, PipeAction *send)
{
    *send = a;
    send->pair = false;
    send->kind = a.kind == PIPE_F ? PIPE_SEND_F : PIPE_SEND_B;
    return pipe_computes(a.kind) && a.kind != PIPE_W && crosses(t, *send);
}

bool pipe_recv_of(const PipeTable *t, PipeAction a, PipeAction *recv)
{
    *recv = a;
    recv->pair = false;
    recv->kind = a.kind == PIPE_F ? PIPE_RECV_F : PIPE_RECV_B;
    return pipe_computes(a.kind) && a.kind != PIPE_W && crosses(t, *recv);
}

/* ---- cells ---------------------------------------------------------------------------------- */

Cells *cells_new(Arena *a, const PipeTable *t)
{
    Cells *c = NEW(a, Cells);
    for (int k = 0; k < PIPE_KINDS; k++)
        c->at[k] = NEW_ARRAY(a, uint32_t, pipe_cells(t));
    return c;
}

void cells_enter(const PipeTable *t, Cells *c, PipeAction a, size_t index)
{
    uint32_t *at = &c->at[a.kind][pipe_cell(t, a.stage, a.microbatch)];
    if (!*at)
        *at = (uint32_t)index + 1;
}

Cells *cells_of(Arena *a, const PipeTable *t)
{
    Cells *c = cells_new(a, t);
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t i = 0; i < t->row[rank].n; i++)
            cells_enter(t, c, t->row[rank].data[i], i);
    return c;
}

/* ---- what stands where ---------------------------------------------------------------------- */

typedef struct Check {
    const PipeTable *t;
    Diag *diag;
    Cells *cells;
} Check;

static Span row_span(const PipeTable *t, int rank)
{
    return t->file ? (Span){t->file, t->row_at[rank], t->row_at[rank] + 1} : (Span){0};
}

/* Of two chunks a rank, the table may have been meant as a loop or as a V. */
static void wrong_rank(const Check *c, int rank, PipeAction a)
{
    const PipeTable *t = c->t;
    const int n = t->ranks, loop = mg_rank_of_stage(MG_LOOP, n, a.stage),
              v = mg_rank_of_stage(MG_V, n, a.stage);
    const bool either = t->stages == 2 * n && t->file;
    Span span = pipe_span(t, a);
    if (either && loop != v)
        diag_error(c->diag, span, 585,
                   "%s is in the row of rank %d: of %d ranks, stage %d is on rank %d in a loop, on "
                   "rank %d in a V",
                   pipe_name(a).text, rank, n, a.stage, loop, v);
    else
        diag_error(c->diag, span, 585,
                   "%s is in the row of rank %d: of %d ranks, stage %d is on rank %d",
                   pipe_name(a).text, rank, n, a.stage, pipe_rank(t, a.stage));
    if (either)
        diag_help(c->diag,
                  "here belong stages %d and %d in a loop (stage s is on rank s mod %d), stages %d "
                  "and %d in a V (stages s and %d - s are on rank s)",
                  rank, rank + n, n, rank, 2 * n - 1 - rank, 2 * n - 1);
    else
        diag_help(c->diag, "stage s is on rank s mod %d: here belong stages %d, %d, ...", n, rank,
                  rank + n);
}

/* T1, and that a message goes anywhere. */
static bool belongs(const Check *c, int rank, PipeAction a)
{
    const PipeTable *t = c->t;
    Span span = pipe_span(t, a);
    if (a.stage < 0 || a.stage >= t->stages || a.microbatch < 0 ||
        a.microbatch >= t->microbatches) {
        diag_error(c->diag, span, 585, "%s: there are %d stages and %d microbatches",
                   pipe_name(a).text, t->stages, t->microbatches);
        return false;
    }
    if (pipe_rank(t, a.stage) != rank) {
        wrong_rank(c, rank, a);
        return false;
    }
    int peer = pipe_peer(a).stage;
    if (pipe_computes(a.kind) || crosses(t, a))
        return true;
    if (t->ranks == 1)
        diag_error(c->diag, span, 589, "%s: on one rank nothing is sent", pipe_name(a).text);
    else if (is_stage(t, peer))
        diag_error(c->diag, span, 589,
                   "%s: stages %d and %d are both on rank %d, and nothing is sent between them",
                   pipe_name(a).text, a.stage, peer, rank);
    else
        diag_error(c->diag, span, 589, "%s: there is no stage %d of %d", pipe_name(a).text, peer,
                   t->stages);
    return false;
}

static void told_twice(const Check *c, PipeAction a, PipeAction before, const char *why)
{
    diag_error(c->diag, pipe_span(c->t, a), 587, "%s%s", pipe_name(a).text, why);
    if (c->t->file)
        diag_note(c->diag, pipe_span(c->t, before), "%s is here", pipe_name(before).text);
}

/* T2: once. */
static void once(const Check *c, const PipeRow *row, PipeAction a)
{
    const PipeTable *t = c->t;
    uint32_t before = cells_find(t, c->cells, a);
    if (before) {
        told_twice(c, a, row->data[before - 1], " stands there twice");
        return;
    }
    PipeAction parts[3] = {a, a, a};
    int n = a.kind == PIPE_B ? 2 : a.kind == PIPE_I || a.kind == PIPE_W ? 1 : 0;
    parts[0].kind = n == 2 ? PIPE_I : PIPE_B;
    parts[1].kind = PIPE_W;
    for (int i = 0; i < n; i++)
        if ((before = cells_find(t, c->cells, parts[i]))) {
            told_twice(c, a, row->data[before - 1],
                       n == 2 ? " is the whole backward, and a part of it stands there, too"
                              : " is a part of the backward, which stands there as a whole, too");
            return;
        }
}

/* Rows in their order. False: actions stand where they do not belong, and more is not said. */
static bool enter_rows(const Check *c)
{
    bool good = true;
    for (int rank = 0; rank < c->t->ranks; rank++) {
        const PipeRow *row = &c->t->row[rank];
        for (size_t i = 0; i < row->n; i++) {
            if (!belongs(c, rank, row->data[i])) {
                good = false;
                break;
            }
            once(c, row, row->data[i]);
            cells_enter(c->t, c->cells, row->data[i], i);
        }
    }
    return good;
}

/* ---- what is missing ------------------------------------------------------------------------ */

/* Missing actions of a rank: the first one, and how many more. */
typedef struct Missing {
    PipeAction first;
    const char *why;
    int n;
} Missing;

static void note_missing(Missing *m, PipeKind kind, int stage, int microbatch, const char *why)
{
    if (!m->n++)
        *m = (Missing){{kind, stage, microbatch, 0, false}, why, 1};
}

static void cell_missing(const Check *c, Missing *m, int stage, int k)
{
    uint32_t *const *at = c->cells->at;
    size_t cell = pipe_cell(c->t, stage, k);
    if (!at[PIPE_F][cell])
        note_missing(m, PIPE_F, stage, k, "");
    if (at[PIPE_B][cell] || c->t->forward)
        return;
    if (!at[PIPE_I][cell] && !at[PIPE_W][cell])
        note_missing(m, PIPE_B, stage, k, ", and it is not there as I and W either");
    else if (!at[PIPE_I][cell])
        note_missing(m, PIPE_I, stage, k, ": W alone is no backward");
    else if (!at[PIPE_W][cell])
        note_missing(m, PIPE_W, stage, k, ": I alone is no backward");
}

static void comms_missing(const Check *c, Missing *m, int stage, int k)
{
    for (int kind = PIPE_SEND_F; kind <= PIPE_RECV_B; kind++) {
        PipeAction a = {(PipeKind)kind, stage, k, 0, false};
        if (crosses(c->t, a) && !cells_find(c->t, c->cells, a))
            note_missing(m, a.kind, stage, k,
                         cells_find(c->t, c->cells, pipe_peer(a))
                             ? ", and its other end waits for it"
                             : ": a table with sends or receives has all of them");
    }
}

static void tell_missing(const Check *c, int rank, int code, const Missing *m)
{
    if (!m->n)
        return;
    if (m->n == 1)
        diag_error(c->diag, row_span(c->t, rank), code, "%s is missing from the row of rank %d%s",
                   pipe_name(m->first).text, rank, m->why);
    else
        diag_error(c->diag, row_span(c->t, rank), code,
                   "%s and %d more are missing from the row of rank %d%s", pipe_name(m->first).text,
                   m->n - 1, rank, m->why);
}

static void find_missing(const Check *c)
{
    const PipeTable *t = c->t;
    for (int rank = 0; rank < t->ranks; rank++) {
        Missing computed = {0}, sent = {0};
        for (int i = 0; i < t->stages / t->ranks * t->microbatches; i++) {
            const int stage = pipe_stage(t, rank, i / t->microbatches), k = i % t->microbatches;
            cell_missing(c, &computed, stage, k);
            if (t->comms)
                comms_missing(c, &sent, stage, k);
        }
        tell_missing(c, rank, 586, &computed);
        tell_missing(c, rank, 589, &sent);
    }
}

/* ---- what comes too early ------------------------------------------------------------------- */

/* T3, T4: `need` is not behind `a` in the row where both stand. */
static void behind(const Check *c, PipeAction a, PipeAction need)
{
    const PipeTable *t = c->t;
    const PipeRow *row = &t->row[pipe_rank(t, a.stage)];
    uint32_t there = cells_find(t, c->cells, need);
    if (!there || there < cells_find(t, c->cells, a))
        return;
    need = row->data[there - 1];
    diag_error(c->diag, pipe_span(t, a), 588, "%s needs %s, which stands behind it",
               pipe_name(a).text, pipe_name(need).text);
    if (t->file)
        diag_note(c->diag, pipe_span(t, need), "%s is here", pipe_name(need).text);
}

static void in_order(const Check *c, PipeAction a)
{
    const PipeTable *t = c->t;
    PipeAction recv, need = a;
    bool back = a.kind == PIPE_B || a.kind == PIPE_I;
    if (back || a.kind == PIPE_SEND_F) {
        need.kind = PIPE_F;
        behind(c, a, need);
    } else if (a.kind == PIPE_W) {
        need.kind = PIPE_I;
        behind(c, a, need);
    } else if (a.kind == PIPE_SEND_B)
        behind(c, a, cells_backward(t, c->cells, a.stage, a.microbatch));
    if (pipe_recv_of(t, a, &recv))
        behind(c, a, recv);
    need.stage = a.stage - 1;
    if (a.kind == PIPE_F && a.stage > 0 && together(t, a.stage, need.stage))
        behind(c, a, need);
    if (back && a.stage + 1 < t->stages && together(t, a.stage, a.stage + 1))
        behind(c, a, cells_backward(t, c->cells, a.stage + 1, a.microbatch));
}

/* A pair has nothing of one microbatch to wait for. */
static void overlaps(const Check *c, const PipeRow *row, size_t i)
{
    const PipeAction a = row->data[i], b = row->data[i + 1 < row->n ? i + 1 : i];
    if (!a.pair || (a.kind == PIPE_F && (b.kind == PIPE_B || b.kind == PIPE_I) &&
                    a.microbatch != b.microbatch))
        return;
    diag_error(c->diag, pipe_span(c->t, a), 588,
               "%s overlaps with what is behind it, which is no backward of another microbatch",
               pipe_name(a).text);
}

bool pipe_complete(const PipeTable *t, Diag *d)
{
    Arena *tmp = arena_new();
    Check c = {t, d, cells_new(tmp, t)};
    int errors = diag_errors(d);
    if (enter_rows(&c)) {
        find_missing(&c);
        for (int rank = 0; rank < t->ranks; rank++)
            for (size_t i = 0; i < t->row[rank].n; i++) {
                in_order(&c, t->row[rank].data[i]);
                overlaps(&c, &t->row[rank], i);
            }
    }
    arena_free(tmp);
    return diag_errors(d) == errors;
}
