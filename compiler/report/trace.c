/* trace.c - the predicted timeline of one training step, as Chrome's trace JSON (Perfetto opens
 * it). A track for each lane (trace.h), one for each depth of loops. With a pipeline a process for
 * each place along the axis of stages; phases lie in the track of the first stream, with their
 * actions in them, and messages in two tracks of their own, with an arrow from each send to its
 * receive. Of a long loop only some iterations are shown: trace_walk.c chooses them. */
#include "compiler/session.h"
#include "compiler/report/trace.h"
#include "ir/mesh.h"
#include "pipeline/pipeline.h"

#include <string.h>

typedef struct Tracer {
    const Plan *p;
    FILE *out;
    TraceLanes lanes;
    bool any;
} Tracer;

/* Tracks: lanes from 0, then loops by depth, then messages. */
enum { LOOPS = MAX_STREAMS * LEVEL_count, SENDS = LOOPS + MAX_NEST, RECEIVES };

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

/* The beginning of an event, up to its name. */
static void put_event(Tracer *t, int rank, int track, double begin, double seconds,
                      const char *kind)
{
    fprintf(t->out,
            "%s\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\","
            "\"name\":",
            t->any ? "," : "", rank, track, begin * 1e6, seconds * 1e6, kind);
    t->any = true;
}

/* From the beginning of a send to just before the end of its receive: arrows go from slice to
 * slice. */
static void put_arrow(Tracer *t, const TraceSlice *s)
{
    const bool sends = pipe_sends(s->of->kind);
    const PipeAction to = sends ? pipe_peer(*s->of) : *s->of;
    const size_t id = 2 * pipe_cell(t->p->train->pipe->program->table, to.stage, to.microbatch) +
                      (to.kind == PIPE_RECV_B);
    fprintf(t->out,
            ",\n{\"ph\":\"%s\",%s\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"id\":%zu,\"cat\":\"message\","
            "\"name\":\"message\"}",
            sends ? "s" : "f", sends ? "" : "\"bp\":\"e\",", s->rank, sends ? SENDS : RECEIVES,
            1e6 * (s->begin + (sends ? 0 : s->seconds)) - (sends ? 0 : 0.001), id);
}

static void put_phase(Tracer *t, const TraceSlice *s)
{
    const PipeAction a = *s->of;
    const bool computes = pipe_computes(a.kind);
    put_event(t, s->rank,
              computes             ? 0
              : pipe_sends(a.kind) ? SENDS
                                   : RECEIVES,
              s->begin, s->seconds, computes ? "phase" : "message");
    fprintf(t->out, "\"%s\",\"args\":{\"kind\":\"%s\",\"stage\":%d,\"microbatch\":%d}}",
            pipe_name(a).text, pipe_kind(a.kind), a.stage, a.microbatch);
    if (!computes)
        put_arrow(t, s);
}

static void put_slice(void *ctx, const TraceSlice *s)
{
    Tracer *t = ctx;
    const Module *m = t->p->module;
    const Action *a = s->action;
    if (s->of) {
        put_phase(t, s);
        return;
    }
    if (!a) {
        put_event(t, s->rank, 0, s->begin, s->seconds, "phase");
        fprintf(t->out, "\"%lld more phases\",\"args\":{}}", (long long)s->iterations);
        return;
    }
    int line, column,
        track = !s->loop  ? trace_lane_of(&t->lanes, a)
                : s->rest ? 0
                          : LOOPS + s->depth;
    diag_locate(m->diag, a->span, &line, &column);
    put_event(t, s->rank, track, s->begin, s->seconds,
              s->loop       ? "loop"
              : a->backward ? "backward"
                            : "forward");
    put_string(t->out,
               s->rest   ? arena_printf(m->arena, "%lld more iterations", (long long)s->iterations)
               : s->loop ? name_str(m->names, s->loop->dim.name)
                         : name_str(m->names, a->name));
    fprintf(t->out, ",\"args\":{\"flops\":%.0f,\"bytes\":%.0f,\"line\":%d}}",
            s->loop ? 0 : a->flops, s->loop ? 0 : a->bytes_moved, line);
}

static void name_it(Tracer *t, const char *what, int rank, int track, const char *name)
{
    fprintf(t->out, "%s\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":",
            t->any ? "," : "", rank, track, what);
    put_string(t->out, name);
    fputs("}}", t->out);
    t->any = true;
}

static void name_tracks(Tracer *t, int rank)
{
    Arena *a = t->p->module->arena;
    for (int i = 0; i < t->lanes.n; i++)
        name_it(t, "thread_name", rank, i, trace_lane_name(&t->lanes.lane[i], a));
    for (int i = 0; i < MAX_NEST; i++)
        name_it(t, "thread_name", rank, LOOPS + i, arena_printf(a, "loops %d", i));
}

static void name_rank(Tracer *t, int rank)
{
    const Pipe *pipe = t->p->train->pipe;
    const Module *m = t->p->module;
    Arena *a = m->arena;
    const char *stages = "";
    for (int chunk = 0; chunk < pipe->stages / pipe->ranks; chunk++)
        stages = arena_printf(a, "%s%s%d", stages, *stages ? ", " : "",
                              pipe_stage(pipe->program->table, rank, chunk));
    name_it(t, "process_name", rank, 0,
            arena_printf(a, "%s %d: stage%s %s", mesh_axes_text(m, pipe->axis), rank,
                         strchr(stages, ',') ? "s" : "", stages));
    name_it(t, "thread_name", rank, SENDS, "sends");
    name_it(t, "thread_name", rank, RECEIVES, "receives");
}

void trace_print(const Plan *p, FILE *out)
{
    Tracer t = {.p = p, .out = out, .lanes = trace_lanes(p)};
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    for (int rank = 0; rank < trace_ranks(p); rank++) {
        if (p->train->pipe)
            name_rank(&t, rank);
        name_tracks(&t, rank);
    }
    trace_walk(p, trace_all, put_slice, &t);
    fputs("\n]}\n", out);
}
