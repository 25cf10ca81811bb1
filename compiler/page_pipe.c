/* page_pipe.c - the pipeline of a step in the page of --report: its grid, rank by rank. */
#include "compiler/page_pipe.h"
#include "compiler/trace.h"
#include "ir/mesh.h"
#include "passes/pipe_time.h"

/* "#0087d7" of one of xterm's 216 colours, so that the page has those of the terminal. */
static json_t *color_json(int shade)
{
    static const unsigned char level[] = {0, 95, 135, 175, 215, 255};
    const int n = shade - 16;
    return json_sprintf("#%02x%02x%02x", level[n / 36], level[n / 6 % 6], level[n % 6]);
}

static json_t *colors_json(void)
{
    json_t *all = json_object();
    for (PipeKind k = PIPE_F; k <= PIPE_W; k++) {
        json_t *of = json_array();
        for (int chunk = 0; chunk < PIPE_SHADES; chunk++)
            json_array_append_new(of, color_json(pipe_shade(k, chunk)));
        json_object_set_new(all, pipe_kind(k), of);
    }
    return all;
}

static void add_cell(void *ctx, const TraceSlice *s)
{
    json_t *row = json_array_get(ctx, (size_t)s->rank);
    if (s->of && pipe_computes(s->of->kind))
        json_array_append_new(json_object_get(row, "cells"),
                              json_pack("[s, i, i, f, f]", pipe_kind(s->of->kind), s->of->stage,
                                        s->of->microbatch, s->begin, s->seconds));
    else if (!s->of && !s->action)
        json_object_set_new(row, "rest",
                            json_pack("[I, f, f]", (json_int_t)s->rounds, s->begin, s->seconds));
}

json_t *page_pipeline(const Plan *p)
{
    const Program *g = p->train;
    const Pipe *pipe = g->pipe;
    Arena *tmp = arena_new();
    const PipeClock *k = pipe ? pipe_run(p, g, tmp) : NULL;
    json_t *out = NULL;
    if (k) {
        json_t *ranks = json_array();
        for (int rank = 0; rank < pipe->ranks; rank++) {
            const double idle = k->step - k->busy[rank];
            json_array_append_new(ranks, json_pack("{s:f, s:f, s:i, s:[]}", "busy", k->busy[rank],
                                                   "idle", idle > 0 ? idle : 0, "slots",
                                                   pipe->slots[rank], "cells"));
        }
        trace_walk(p, add_cell, ranks);
        const Loop *micro = &g->loops.data[pipe->loop];
        out =
            json_pack("{s:s, s:s, s:i, s:I, s:f, s:f, s:f, s:o, s:o}", "axis",
                      mesh_axes_text(p->module, pipe->axis), "schedule", pipe->program->table->name,
                      "stages", pipe->stages, "microbatches", (json_int_t)micro->dim.size, "begin",
                      g->actions.data[micro->begin].begin, "step", k->step, "message",
                      pipe->message_seconds, "colors", colors_json(), "ranks", ranks);
    }
    arena_free(tmp);
    return out;
}
