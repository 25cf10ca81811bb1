/* page_pipe.c - the pipeline of a step in the page of --report: its grid, rank by rank. */
#include "compiler/report/page_pipe.h"
#include "ir/mesh.h"
#include "plan/order/pipe_time.h"

#include <math.h>

enum { CELLS = 1 << 16 }; /* of all ranks together */

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

static json_int_t nanoseconds(double seconds)
{
    return (json_int_t)llround(1e9 * seconds);
}

/* The cells of a rank: the first ones, how many more there are, and when those begin. */
static json_t *rank_json(const Pipe *pipe, const PipeClock *k, int rank, double since)
{
    const PipeOps *ops = &pipe->program->rank[rank];
    const size_t limit = (size_t)(CELLS / pipe->ranks);
    json_t *cells = json_array();
    size_t n = 0;
    double end = 0;
    for (size_t i = 0; i < ops->n; i++) {
        const PipeAction a = ops->data[i].action;
        if (ops->data[i].step != PIPE_COMPUTE || n++ >= limit)
            continue;
        end = k->end[rank][i];
        json_array_append_new(cells, json_pack("[s, i, i, I, I]", pipe_kind(a.kind), a.stage,
                                               a.microbatch, nanoseconds(since + k->begin[rank][i]),
                                               nanoseconds(end - k->begin[rank][i])));
    }
    json_t *row =
        json_pack("{s:f, s:f, s:i, s:o}", "busy", k->busy[rank], "idle",
                  fmax(0, k->step - k->busy[rank]), "slots", pipe->slots[rank], "cells", cells);
    if (n > limit)
        json_object_set_new(row, "rest",
                            json_pack("[I, I, I]", (json_int_t)(n - limit),
                                      nanoseconds(since + end), nanoseconds(k->step - end)));
    return row;
}

json_t *page_pipeline(const Plan *p)
{
    const Program *g = p->train;
    const Pipe *pipe = g->pipe;
    Arena *tmp = arena_new();
    const PipeClock *k = pipe ? pipe_run(p, g, tmp) : NULL;
    json_t *out = NULL;
    if (k) {
        const Loop *micro = &g->loops.data[pipe->loop];
        const double since = g->actions.data[micro->begin].begin;
        json_t *ranks = json_array();
        for (int rank = 0; rank < pipe->ranks; rank++)
            json_array_append_new(ranks, rank_json(pipe, k, rank, since));
        out = json_pack("{s:s, s:s, s:i, s:I, s:f, s:f, s:f, s:o, s:o}", "axis",
                        mesh_axes_text(p->module, pipe->axis), "schedule",
                        pipe->program->table->name, "stages", pipe->stages, "microbatches",
                        (json_int_t)micro->dim.size, "begin", since, "step", k->step, "message",
                        pipe->message_seconds, "colors", colors_json(), "ranks", ranks);
    }
    arena_free(tmp);
    return out;
}
