/* emit_beside.c - what a step gathers and reduces once, beside the table of its pipeline: at the
 * program's begin, and in two cases of the switch over a table's operations. On a processor the
 * thread that computes does it there, and nobody waits. */
#include "codegen/emit/writer.h"

/* Points behind those of the program's own waits: what a stream waits for when it goes beside, the
 * last reduction, and each chunk's gathers. */
enum { GOES, REDUCED, GATHERED };
_Static_assert(GATHERED == MG_POINTS_BESIDE, "the planner leaves room for these");

static int point_of(const Writer *w, int which)
{
    int n = w->points;
    for (size_t i = 0; i < w->p->actions.n; i++)
        n = w->point[i] > n ? w->point[i] : n;
    return n + which;
}

static void call(const Writer *w, const char *what, int number, int depth)
{
    fprintf(w->e->out, "%*s%s(r, %d);\n", depth * 4, "", what, number);
}

/* Does another stream do it? */
static bool goes_beside(const Writer *w, int from, int to)
{
    return from < to && w->p->actions.data[from].stream;
}

/* The stream of what is beside comes behind all that was done so far. */
static void go_beside(const Writer *w, int depth)
{
    call(w, "mg_record", point_of(w, GOES), depth);
    call(w, "mg_stream", MG_STREAM_BESIDE, depth);
    call(w, "mg_wait", point_of(w, GOES), depth);
    call(w, "mg_stream", MG_STREAM_REST, depth);
}

static void mark_beside(const Writer *w, int point, int depth)
{
    call(w, "mg_stream", MG_STREAM_BESIDE, depth);
    call(w, "mg_record", point, depth);
    call(w, "mg_stream", MG_STREAM_REST, depth);
}

/* Gathers stand before the table, chunk by chunk. */
void emit_gathers(Writer *w, int depth)
{
    const int n = w->p->pipe ? w->p->pipe->ahead : 0;
    const bool beside = goes_beside(w, 0, n);
    if (beside)
        go_beside(w, depth);
    for (int i = 0; i < n; i++) {
        const Action *a = &w->p->actions.data[i];
        emit_call(w, a, depth);
        if (beside && (i + 1 == n || a[1].chunk != a->chunk))
            mark_beside(w, point_of(w, GATHERED + a->chunk - 1), depth);
    }
}

/* A stage is about to begin with what was gathered for it. */
static void emit_unsharded(const Writer *w, int depth)
{
    const Pipe *pipe = w->p->pipe;
    const int chunks = pipe->stages / pipe->ranks;
    bool has[32] = {false};
    if (!pipe->ahead)
        return;
    fprintf(w->e->out, "%*scase MG_PIPE_UNSHARDED:\n", depth * 4 - 4, "");
    for (int i = 0; i < pipe->ahead; i++)
        has[w->p->actions.data[i].chunk - 1] = true;
    for (int chunk = 0; chunk < chunks && goes_beside(w, 0, pipe->ahead); chunk++) {
        if (!has[chunk])
            continue;
        if (chunks > 1)
            fprintf(w->e->out, "%*sif (o->stage / %d == %d)\n", depth * 4, "", pipe->ranks, chunk);
        call(w, "mg_wait", point_of(w, GATHERED + chunk), depth + (chunks > 1));
    }
    fprintf(w->e->out, "%*sbreak;\n", depth * 4, "");
}

/* A stage is through: what it gave is reduced. */
static void emit_reduces(Writer *w, int depth)
{
    const Pipe *pipe = w->p->pipe;
    const int from = w->p->loops.data[pipe->loop].end + 1, to = from + pipe->behind;
    const bool beside = goes_beside(w, from, to), several = pipe->stages > pipe->ranks;
    const Action *act = w->p->actions.data;
    if (from == to)
        return;
    fprintf(w->e->out, "%*scase MG_PIPE_REDUCE:\n", depth * 4 - 4, "");
    if (beside)
        go_beside(w, depth);
    for (int i = from; i < to; i++) {
        if (several && (i == from || act[i].chunk != act[i - 1].chunk)) {
            fprintf(w->e->out, "%*sif (o->stage / %d == %d) {\n", depth * 4, "", pipe->ranks,
                    act[i].chunk - 1);
            w->block = ""; /* the source is quoted once more */
        }
        emit_call(w, &act[i], depth + several);
        if (several && (i + 1 == to || act[i].chunk != act[i + 1].chunk))
            fprintf(w->e->out, "%*s}\n", depth * 4, "");
    }
    if (beside)
        mark_beside(w, point_of(w, REDUCED), depth);
    fprintf(w->e->out, "%*sbreak;\n", depth * 4, "");
}

void emit_beside(Writer *w, int depth)
{
    emit_unsharded(w, depth);
    emit_reduces(w, depth);
}

void emit_beside_ends(const Writer *w, int depth)
{
    const int end = w->p->loops.data[w->p->pipe->loop].end + 1;
    if (goes_beside(w, end, pipe_behind(w->p)))
        call(w, "mg_wait", point_of(w, REDUCED), depth);
}
