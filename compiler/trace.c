/* trace.c - the predicted timeline of one training step, as Chrome's trace JSON (Perfetto opens
 * it). A track for each stream, one for each depth of loops. Loops are shown round by round up to a
 * limit; a loop with more rounds is shown by its first ones and one slice for the rest, so that the
 * file stays small whatever the depth. */
#include "compiler/session.h"

enum { ROUNDS = 4 }; /* of a loop that are shown one by one */

typedef struct Tracer {
    const Plan *p;
    const Program *program;
    FILE *out;
    double now; /* seconds since the step began */
    int depth;  /* loops around */
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

static void slice(Tracer *t, int track, const char *name, const char *kind, double begin,
                  double seconds, double flops, double bytes, Span at)
{
    int line, column;
    diag_locate(t->p->module->diag, at, &line, &column);
    fprintf(
        t->out,
        "%s\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\",\"name\":",
        t->any ? "," : "", track, begin * 1e6, seconds * 1e6, kind);
    put_string(t->out, name);
    fprintf(t->out, ",\"args\":{\"flops\":%.0f,\"bytes\":%.0f,\"line\":%d}}", flops, bytes, line);
    t->any = true;
}

static void walk(Tracer *t, size_t from, size_t to);

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

static void walk_loop(Tracer *t, const Loop *l, const Action *a)
{
    const char *name = name_str(t->p->module->names, l->dim.name);
    double begin = t->now, round = seconds_of(t->program, (size_t)l->begin + 1, (size_t)l->end);
    slice(t, LOOPS + t->depth, name, "loop", begin, (double)l->dim.size * round, 0, 0, a->span);
    t->depth++;
    for (int64_t i = 0; i < l->dim.size && i < ROUNDS; i++)
        walk(t, (size_t)l->begin + 1, (size_t)l->end);
    t->depth--;
    t->now = begin + (double)l->dim.size * round;
    if (l->dim.size > ROUNDS) {
        double shown = ROUNDS * round;
        char text[128];
        snprintf(text, sizeof text, "%lld more rounds", (long long)(l->dim.size - ROUNDS));
        slice(t, 0, text, "loop", begin + shown, t->now - begin - shown, 0, 0, a->span);
    }
}

static void walk(Tracer *t, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const Action *a = &t->program->actions.data[i];
        if (a->kind == ACT_loop) {
            const Loop *l = &t->program->loops.data[a->loop];
            walk_loop(t, l, a);
            i = (size_t)l->end;
            continue;
        }
        if (a->kind == ACT_end)
            continue;
        slice(t, a->stream, name_str(t->p->module->names, a->name),
              a->backward ? "backward" : "forward", t->now, a->seconds, a->flops, a->bytes_moved,
              a->span);
        t->now += a->seconds;
    }
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
    Tracer t = {.p = p, .program = p->train, .out = out};
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    name_tracks(&t);
    walk(&t, 0, p->train->actions.n);
    fputs("\n]}\n", out);
}
