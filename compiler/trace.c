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
    int depth; /* loops around */
} Walker;

static void walk(Walker *w, int from, int to, double since);

static void walk_loop(Walker *w, const Loop *l, const Action *a, double begin)
{
    TraceSlice s = {.action = a,
                    .loop = l,
                    .rounds = l->dim.size,
                    .begin = begin,
                    .seconds = (double)l->dim.size * l->seconds,
                    .depth = w->depth};
    w->tell(w->ctx, &s);
    w->depth++;
    for (int64_t i = 0; i < l->dim.size && i < ROUNDS; i++)
        walk(w, l->begin + 1, l->end, begin + (double)i * l->seconds);
    w->depth--;
    if (l->dim.size <= ROUNDS)
        return;
    s.rounds -= ROUNDS;
    s.rest = true;
    s.begin += ROUNDS * l->seconds;
    s.seconds -= ROUNDS * l->seconds;
    w->tell(w->ctx, &s);
}

/* Actions [from, to) of a round that began at `since`. */
static void walk(Walker *w, int from, int to, double since)
{
    for (int i = from; i < to; i++) {
        const Action *a = &w->program->actions.data[i];
        if (a->kind == ACT_loop) {
            const Loop *l = &w->program->loops.data[a->loop];
            walk_loop(w, l, a, since + a->begin);
            i = l->end;
            continue;
        }
        TraceSlice s = {.action = a,
                        .begin = since + a->begin,
                        .seconds = a->end - a->begin,
                        .depth = w->depth};
        w->tell(w->ctx, &s);
    }
}

void trace_walk(const Plan *p, TraceFn *tell, void *ctx)
{
    Walker w = {.program = p->train, .tell = tell, .ctx = ctx};
    walk(&w, 0, (int)p->train->actions.n, 0);
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
        if (i < plan_stream_count(t->p) || i >= LOOPS)
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
