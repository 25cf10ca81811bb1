/* text.c - tables as text: PyTorch's grammar of actions, as its pipelining writes and loads it.
 *
 *   file    one line a rank, in order; blank lines, and what follows a '#', are left out
 *   line    actions with commas or blanks between them; an empty cell (a rank that waits) is none
 *   action  stage, kind, microbatch: 0F0 3B12 1SEND_F0
 *   pair    (2F5;5B1)OVERLAP_F_B: a forward and the backward of another microbatch that overlap
 *
 * Kinds are F B I W SEND_F RECV_F SEND_B RECV_B. PyTorch once wrote BW for the whole backward and B
 * for the input's gradient: a file in which BW occurs is read that way. What is printed is read
 * back the same. */
#include "pipeline/pipeline.h"

#include "base/names.h"

#include <string.h>

static const char *const kinds[PIPE_KINDS] = {
    [PIPE_F] = "F",           [PIPE_B] = "B",           [PIPE_I] = "I",
    [PIPE_W] = "W",           [PIPE_SEND_F] = "SEND_F", [PIPE_RECV_F] = "RECV_F",
    [PIPE_SEND_B] = "SEND_B", [PIPE_RECV_B] = "RECV_B",
};

#define OVERLAP ")OVERLAP_F_B"
#define KINDS   "kinds are F, B, I, W, SEND_F, RECV_F, SEND_B and RECV_B"

const char *pipe_kind(PipeKind k)
{
    return k < PIPE_KINDS ? kinds[k] : k == PIPE_UNSHARD ? "UNSHARD" : "REDUCE_GRAD";
}

PipeName pipe_name(PipeAction a)
{
    PipeName n;
    if (a.kind >= PIPE_KINDS)
        snprintf(n.text, sizeof n.text, "%d%s", a.stage, pipe_kind(a.kind));
    else
        snprintf(n.text, sizeof n.text, "%d%s%d", a.stage, kinds[a.kind], a.microbatch);
    return n;
}

Span pipe_span(const PipeTable *t, PipeAction a)
{
    if (!t->file)
        return (Span){0};
    return (Span){t->file, a.at, a.at + (uint32_t)strlen(pipe_name(a).text)};
}

/* ---- out ------------------------------------------------------------------------------------ */

void pipe_print(const PipeTable *t, FILE *out)
{
    for (int rank = 0; rank < t->ranks; rank++) {
        const PipeRow *row = &t->row[rank];
        for (size_t i = 0; i < row->n; i++) {
            fprintf(out, "%s", i ? "," : "");
            if (pipe_together(row, i) == 2) {
                fprintf(out, "(%s;%s" OVERLAP, pipe_name(row->data[i]).text,
                        pipe_name(row->data[i + 1]).text);
                i++;
            } else
                fputs(pipe_name(row->data[i]).text, out);
        }
        fputc('\n', out);
    }
}

/* ---- in ------------------------------------------------------------------------------------- */

enum { ACTIONS_MAX = PIPE_CELLS_MAX * 7 }; /* F, I, W, two sends, two receives */

typedef struct Reader {
    Arena *arena;
    Diag *diag;
    uint32_t file;
    const char *text;
    size_t size, at;
    size_t actions;
    bool old; /* BW was seen */
    PipeTable *table;
    VEC(PipeRow) rows;
    VEC(uint32_t) row_at;
} Reader;

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool ends_word(char c)
{
    return blank(c) || c == ',' || c == '\n' || c == '#';
}

/* A word as it can be shown: bytes that a terminal would act on are '?'. */
static const char *shown(Reader *r, size_t from, size_t end)
{
    enum { LONGEST = 40 };
    size_t n = end - from;
    char *s = arena_strndup(r->arena, r->text + from, n < LONGEST ? n : LONGEST);
    for (size_t i = 0; i < n && i < LONGEST; i++)
        if (s[i] < 32 || s[i] > 126)
            s[i] = '?';
    return n > LONGEST ? arena_printf(r->arena, "%s...", s) : s;
}

enum { NO_NUMBER = -1, TOO_LARGE = -2 };

/* Decimal digits from *p on, as long as they last: a number below `limit`. That it is too large is
 * told, that there is none is not. */
static int number(Reader *r, size_t *p, size_t end, const char *what, int limit)
{
    size_t from = *p;
    int64_t n = 0;
    while (*p < end && r->text[*p] >= '0' && r->text[*p] <= '9') {
        n = n <= limit ? n * 10 + (r->text[*p] - '0') : n;
        ++*p;
    }
    if (*p == from)
        return NO_NUMBER;
    if (n < limit)
        return (int)n;
    diag_error(r->diag, (Span){r->file, (uint32_t)from, (uint32_t)*p}, 583,
               "%s %s is too large: they are counted from 0 to %d", what, shown(r, from, *p),
               limit - 1);
    return TOO_LARGE;
}

static void no_action(Reader *r, size_t from, size_t end)
{
    diag_error(r->diag, (Span){r->file, (uint32_t)from, (uint32_t)end}, 582, "'%s' is no action",
               shown(r, from, end));
    diag_help(r->diag, "stage, kind and microbatch, such as 2F0; " KINDS);
}

static bool is(const char *word, const char *text, size_t n)
{
    return strlen(word) == n && !memcmp(word, text, n);
}

/* Actions of PyTorch's tables that a table here does not have, with the reason. */
static const char *left_out(const char *text, size_t n)
{
    if (is("UNSHARD", text, n) || is("RESHARD", text, n))
        return "parameters are gathered where the layout says";
    return is("REDUCE_GRAD", text, n) ? "gradients are added up where the layout says" : NULL;
}

enum { OLD_WHOLE = PIPE_KINDS, NO_KIND };

/* The kind in [from, end), of an action that begins at `word`; NO_KIND after telling that there is
 * none. */
static int kind_of(Reader *r, size_t word, size_t from, size_t end)
{
    const char *text = r->text + from;
    size_t n = end - from;
    for (int k = 0; k < PIPE_KINDS; k++)
        if (is(kinds[k], text, n))
            return k;
    if (is("BW", text, n))
        return OLD_WHOLE;
    Span span = {r->file, (uint32_t)word, (uint32_t)end};
    const char *why = left_out(text, n), *near = NULL;
    if (why) {
        diag_error(r->diag, span, 582, "'%s' is not for a table: %s", shown(r, from, end), why);
        diag_help(r->diag, "leave it out");
        return NO_KIND;
    }
    if (n > 1)
        near = name_nearest(shown(r, from, end), kinds, PIPE_KINDS);
    diag_error(r->diag, span, 582, "'%s' is no kind of action", shown(r, from, end));
    Span kind = {r->file, (uint32_t)from, (uint32_t)end};
    if (!near || !diag_remedy(r->diag, &(Remedy){1, {{kind, near}}}, "did you mean %s?", near))
        diag_help(r->diag, "%s", KINDS);
    return NO_KIND;
}

static void read_action(Reader *r, PipeRow *row, size_t from, size_t end)
{
    size_t p = from;
    int stage = number(r, &p, end, "stage", PIPE_STAGES_MAX);
    if (stage == TOO_LARGE)
        return;
    size_t letters = p;
    while (p < end && ((r->text[p] >= 'A' && r->text[p] <= 'Z') || r->text[p] == '_'))
        p++;
    if (stage == NO_NUMBER || p == letters) {
        no_action(r, from, end);
        return;
    }
    int kind = kind_of(r, from, letters, p);
    if (kind == NO_KIND)
        return;
    int microbatch = number(r, &p, end, "microbatch", PIPE_MICROBATCHES_MAX);
    if (microbatch == TOO_LARGE)
        return;
    if (microbatch == NO_NUMBER || p < end) {
        no_action(r, from, end);
        return;
    }
    r->old |= kind == OLD_WHOLE;
    PipeKind now = kind == OLD_WHOLE ? PIPE_B : (PipeKind)kind;
    vec_push(r->arena, row, (PipeAction){now, stage, microbatch, (uint32_t)from, false});
    r->actions++;
}

/* Two actions at once. */
static void read_pair(Reader *r, PipeRow *row, size_t from, size_t end)
{
    const size_t n = strlen(OVERLAP), first = row->n;
    const int errors = diag_errors(r->diag);
    const char *half = memchr(r->text + from, ';', end - from);
    if (half && end - from > n && is(OVERLAP, r->text + end - n, n)) {
        const size_t at = (size_t)(half - r->text);
        read_action(r, row, from + 1, at);
        read_action(r, row, at + 1, end - n);
        if (diag_errors(r->diag) > errors)
            return;
        const PipeAction f = row->data[first], b = row->data[first + 1];
        if (f.kind == PIPE_F && (b.kind == PIPE_B || b.kind == PIPE_I) &&
            f.microbatch != b.microbatch) {
            row->data[first].pair = true;
            return;
        }
    }
    diag_error(r->diag, (Span){r->file, (uint32_t)from, (uint32_t)end}, 582,
               "'%s' is no pair of actions", shown(r, from, end));
    diag_help(r->diag, "a forward, and the backward of another microbatch: (2F5;5B1)OVERLAP_F_B");
}

/* False: there is no sense in going on. */
static bool read_line(Reader *r)
{
    PipeRow row = {0};
    size_t begin = r->at;
    int errors = diag_errors(r->diag);
    bool empty = true;
    while (r->at < r->size && r->text[r->at] != '\n' && r->text[r->at] != '#') {
        size_t from = r->at;
        if (blank(r->text[from]) || r->text[from] == ',') {
            empty &= r->text[from] != ',';
            r->at++;
            continue;
        }
        while (r->at < r->size && !ends_word(r->text[r->at]))
            r->at++;
        (r->text[from] == '(' ? read_pair : read_action)(r, &row, from, r->at);
        empty = false;
        if (diag_enough(r->diag))
            return false;
        if (r->actions > ACTIONS_MAX) {
            diag_error(r->diag, (Span){r->file, (uint32_t)from, (uint32_t)r->at}, 583,
                       "more than %d actions: that is 7 for each of %d cells", ACTIONS_MAX,
                       PIPE_CELLS_MAX);
            return false;
        }
    }
    while (r->at < r->size && r->text[r->at] != '\n')
        r->at++;
    r->at += r->at < r->size;
    if (empty)
        return true;
    if (r->rows.n == PIPE_RANKS_MAX) {
        diag_error(r->diag, (Span){r->file, (uint32_t)begin, (uint32_t)begin + 1}, 583,
                   "more than %d rows: there is one a rank", PIPE_RANKS_MAX);
        return false;
    }
    if (!row.n && diag_errors(r->diag) == errors) {
        diag_error(r->diag, (Span){r->file, (uint32_t)begin, (uint32_t)begin + 1}, 584,
                   "rank %zu has no actions", r->rows.n);
        return true;
    }
    vec_push(r->arena, &r->rows, row);
    vec_push(r->arena, &r->row_at, (uint32_t)begin);
    return true;
}

/* In a file with BW, B is the gradient of the input. */
static void respell(Reader *r)
{
    for (size_t i = 0; i < r->rows.n; i++)
        for (size_t k = 0; k < r->rows.data[i].n; k++) {
            PipeAction *a = &r->rows.data[i].data[k];
            const char *kind = r->text + a->at;
            while (*kind >= '0' && *kind <= '9')
                kind++;
            if (a->kind == PIPE_I) {
                diag_error(r->diag, (Span){r->file, a->at, a->at + 1}, 582,
                           "'%s' beside BW: where BW is the whole backward, B is the gradient of "
                           "the input, and there is no I",
                           pipe_name(*a).text);
                diag_help(r->diag, "write B for the whole backward everywhere, and I for the "
                                   "gradient of the input");
                return;
            }
            if (a->kind == PIPE_B && kind[1] != 'W')
                a->kind = PIPE_I;
        }
}

/* How many stages and microbatches, by the largest of each. */
static void measure(Reader *r)
{
    PipeTable *t = r->table;
    for (size_t i = 0; i < r->rows.n; i++)
        for (size_t k = 0; k < r->rows.data[i].n; k++) {
            PipeAction a = r->rows.data[i].data[k];
            t->stages = a.stage >= t->stages ? a.stage + 1 : t->stages;
            t->microbatches = a.microbatch >= t->microbatches ? a.microbatch + 1 : t->microbatches;
            t->comms |= !pipe_computes(a.kind);
        }
}

static bool fits(Reader *r)
{
    const PipeTable *t = r->table;
    Span all = {r->file, 0, 1};
    if (!t->ranks) {
        diag_error(r->diag, all, 584, "there are no actions: a table has a row for each rank");
        diag_help(r->diag, "mgc pipeline 1f1b --ranks=4 --microbatches=8 prints one");
        return false;
    }
    if (t->stages % t->ranks) {
        int below = t->stages / t->ranks * t->ranks;
        diag_error(r->diag, all, 584,
                   "%d rows, one a rank, and %d stages: every rank has as many stages as the "
                   "others",
                   t->ranks, t->stages);
        if (below)
            diag_help(r->diag, "%d stages, or %d", below, below + t->ranks);
        else
            diag_help(r->diag, "%d stages, or %d rows", t->ranks, t->stages);
        return false;
    }
    if (pipe_cells(t) > PIPE_CELLS_MAX) {
        diag_error(r->diag, all, 583, "%d stages of %d microbatches are more than %d cells",
                   t->stages, t->microbatches, PIPE_CELLS_MAX);
        diag_help(r->diag, "%d microbatches at most", PIPE_CELLS_MAX / t->stages);
        return false;
    }
    return true;
}

/* Of two chunks a rank, a loop or a V: whichever leaves fewer actions in a row of another rank. */
static mg_placement placement_of(const Reader *r)
{
    const PipeTable *t = r->table;
    size_t wrong[] = {[MG_LOOP] = 0, [MG_V] = 0};
    if (t->stages != 2 * t->ranks)
        return MG_LOOP;
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t k = 0; k < t->row[rank].n; k++) {
            const int stage = t->row[rank].data[k].stage;
            wrong[MG_LOOP] += mg_rank_of_stage(MG_LOOP, t->ranks, stage) != rank;
            wrong[MG_V] += mg_rank_of_stage(MG_V, t->ranks, stage) != rank;
        }
    return wrong[MG_V] < wrong[MG_LOOP] ? MG_V : MG_LOOP;
}

PipeTable *pipe_read(Arena *a, Diag *d, uint32_t file)
{
    Reader r = {.arena = a, .diag = d, .file = file, .table = NEW(a, PipeTable)};
    int errors = diag_errors(d);
    r.text = diag_text(d, file, &r.size);
    while (r.at < r.size && read_line(&r))
        ;
    if (diag_errors(d) > errors)
        return NULL;
    if (r.old)
        respell(&r);
    *r.table = (PipeTable){.name = diag_path(d, file),
                           .ranks = (int)r.rows.n,
                           .file = file,
                           .row = r.rows.data,
                           .row_at = r.row_at.data};
    measure(&r);
    if (diag_errors(d) > errors || !fits(&r))
        return NULL;
    r.table->placement = placement_of(&r);
    return r.table;
}
