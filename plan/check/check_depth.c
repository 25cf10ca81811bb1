/* check_depth.c - ranks whose stages have different numbers of layers.
 *
 * Every rank has room for as many layers a stage as the deepest stage has, and a phase runs those
 * that there are. So a loop over layers leaves out the iterations of layers that the rank has not,
 * and what it stacks for them is written by nobody. Each rank that differs from the others of its
 * place along the axis of stages is executed by itself. */
#include "plan/check/check_run.h"

static int64_t stage_of(const Check *c, int rank, int chunk)
{
    return mg_stage_of_rank(MG_LOOP, c->prog->pipe->ranks, rank, chunk);
}

static bool in_pipe(const Check *c, const Ins *loop)
{
    const Ins *micro = c->loop_ins[c->prog->pipe->loop];
    for (const Region *r = loop->home; r->owner; r = r->parent)
        if (r->owner == micro)
            return true;
    return false;
}

bool check_leaves_out(const Check *c, const Ins *loop)
{
    const Pipeline *l = &c->m->layout.pipeline;
    if (!c->prog->pipe || loop->attrs.dim.name != l->dim)
        return false;
    for (int chunk = 0; chunk < l->chunks; chunk++)
        if (l->layers.data[stage_of(c, c->rank, chunk)] != l->max_layers)
            return in_pipe(c, loop);
    return false;
}

bool check_runs(const void *ctx, const Ins *loop, int64_t i)
{
    const Check *c = ctx;
    const Pipeline *l = &c->m->layout.pipeline;
    return !check_leaves_out(c, loop) ||
           i % l->max_layers < l->layers.data[stage_of(c, c->rank, (int)(i / l->max_layers))];
}

StageSet check_stage_set(int rank, int ranks)
{
    return rank == 0 ? AT_FIRST : rank == ranks - 1 ? AT_LAST : AT_MIDDLE;
}

bool check_is_another(const Check *c, int rank, int ranks)
{
    const Pipeline *l = &c->m->layout.pipeline;
    for (int before = 0; before < rank; before++) {
        bool same = check_stage_set(before, ranks) == check_stage_set(rank, ranks);
        for (int chunk = 0; same && c->prog->pipe && chunk < l->chunks; chunk++)
            same = l->layers.data[stage_of(c, before, chunk)] ==
                   l->layers.data[stage_of(c, rank, chunk)];
        if (same)
            return false;
    }
    return true;
}
