/* trace.c - the predicted timeline of one training step, as Chrome's trace JSON (Perfetto opens
 * it). A track for each stream, one for each depth of loops. Loops are shown round by round up to a
 * limit; a loop with more rounds is shown by its first ones and one slice for the rest, so that the
 * file stays small whatever the depth. */
#include "compiler/session.h"

enum { ROUNDS = 4 }; /* of a loop that are shown one by one */

/* ---- in the order of time -------------------------------------------------------------------- */

typedef struct Walker {
    const Program *program;
    TraceFn *tell;
    void *ctx;
    double now; /* seconds since the step began */
    int depth;  /* loops around */
} Walker;

static double seconds_of(const Program *g, size_t from, size_t to)
{
    double sum = 0;
    for (size_t i = from; i < to; i++) {
        const Action *a = &g->actions.data[i];
        if (a->kind == ACT_loop) {
            const Loop *l = &g->loops.data[a->loop];
            sum += (double)l->dim.size * seconds_of(g, i + 1, (size_t)l->end);
            i = (size_t)l->end;
        } else
            sum += a->seconds;
    }
    return sum;
}

static void walk(Walker *w, size_t from, size_t to);

static void walk_loop(Walker *w, const Loop *l, const Action *a)
{
    double begin = w->now, round = seconds_of(w->program, (size_t)l->begin + 1, (size_t)l->end);
    TraceSlice s = {.action = a,
                    .loop = l,
                    .rounds = l->dim.size,
                    .begin = begin,
                    .seconds = (double)l->dim.size * round,
                    .depth = w->depth};
    w->tell(w->ctx, &s);
    w->depth++;
    for (int64_t i = 0; i < l->dim.size && i < ROUNDS; i++)
        walk(w, (size_t)l->begin + 1, (size_t)l->end);
    w->depth--;
    w->now = begin + s.seconds;
    if (l->dim.size <= ROUNDS)
        return;
    s.rounds -= ROUNDS;
    s.rest = true;
    s.begin += ROUNDS * round;
    s.seconds -= ROUNDS * round;
    w->tell(w->ctx, &s);
}

static void walk(Walker *w, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const Action *a = &w->program->actions.data[i];
        if (a->kind == ACT_loop) {
            const Loop *l = &w->program->loops.data[a->loop];
            walk_loop(w, l, a);
            i = (size_t)l->end;
            continue;
        }
        if (a->kind == ACT_end)
            continue;
        TraceSlice s = {.action = a, .begin = w->now, .seconds = a->seconds, .depth = w->depth};
        w->tell(w->ctx, &s);
        w->now += a->seconds;
    }
}

void trace_walk(const Plan *p, TraceFn *tell, void *ctx)
{
    Walker w = {.program = p->train, .tell = tell, .ctx = ctx};
    walk(&w, 0, p->train->actions.n);
}

/* ---- as text --------------------------------------------------------------------------------- */

typedef struct Tracer {
    const Plan *p;
    FILE *out;
    bool any;
} Tracer;

/* Tracks: streams from 0, then loops by depth. */
enum { LOOPS = MAX_STREAMS };

static void put_string(FILE *out, const char *s)
{
    putc('"', out);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 32 || c > 126)
            fprintf(out, "\\u%04x", c);
        else
            putc(c, out);
    }
    putc('"', out);
}

static void put_slice(void *ctx, const TraceSlice *s)
{
    Tracer *t = ctx;
    const Module *m = t->p->module;
    const Action *a = s->action;
    const char *kind = s->loop ? "loop" : a->backward ? "backward" : "forward", *name;
    int line, column, track = !s->loop ? a->stream : s->rest ? 0 : LOOPS + s->depth;
    diag_locate(m->diag, a->span, &line, &column);
    name = s->rest   ? arena_printf(m->arena, "%lld more rounds", (long long)s->rounds)
           : s->loop ? name_str(m->names, s->loop->dim.name)
                     : name_str(m->names, a->name);
    fprintf(
        t->out,
        "%s\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\",\"name\":",
        t->any ? "," : "", track, s->begin * 1e6, s->seconds * 1e6, kind);
    put_string(t->out, name);
    fprintf(t->out, ",\"args\":{\"flops\":%.0f,\"bytes\":%.0f,\"line\":%d}}",
            s->loop ? 0 : a->flops, s->loop ? 0 : a->bytes_moved, line);
    t->any = true;
}

static void name_tracks(Tracer *t)
{
    for (int i = 0; i < LOOPS + MAX_NEST; i++) {
        const char *what = i < LOOPS ? "stream" : "loops";
        if (i < t->p->device->streams || i >= LOOPS)
            fprintf(t->out,
                    "%s\n{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_name\",\"args\":{"
                    "\"name\":\"%s %d\"}}",
                    t->any ? "," : "", i, what, i < LOOPS ? i : i - LOOPS);
        t->any = true;
    }
}

void trace_print(const Plan *p, FILE *out)
{
    Tracer t = {.p = p, .out = out};
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    name_tracks(&t);
    trace_walk(p, put_slice, &t);
    fputs("\n]}\n", out);
}
