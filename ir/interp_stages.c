/* interp_stages.c - layers that are stages on several ranks, in the reference interpreter: one
 * stage after the other, each by the ranks that have it. */
#include "ir/interp.h"
#include "runtime/abi.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Hands the carried values to the rank that differs in its stage alone. */
static void hand_on(const Interp *from, const Group *to, const Ins *i)
{
    const Module *m = from->m;
    for (int64_t r = 0; r < to->n; r++) {
        if (!interp_same_group(m, from->rank, to->rank[r].rank, m->layout.pipeline.axis))
            continue;
        for (uint32_t k = 0; k < (uint32_t)i->attrs.carried; k++)
            interp_set(&to->rank[r], i->body->args.data[k],
                       from->value[i->body->args.data[k]].data);
    }
}

/* Stage after stage, each by the ranks that have it. */
void interp_stages(const Group *g, const Ins *i)
{
    const Module *m = g->rank->m;
    const Pipeline *p = &m->layout.pipeline;
    int64_t ranks = mesh_size(m, p->axis);
    int n = mesh_stages(m);
    Group now = {.rank = interp_alloc(g->n, sizeof *now.rank), .at = g->at};
    Group before = {.rank = interp_alloc(g->n, sizeof *before.rank)};
    for (int step = 0; step < n; step++) {
        int stage = i->attrs.reverse ? n - 1 - step : step;
        now.n = 0;
        for (int64_t r = 0; r < g->n; r++)
            if (mesh_place(m, g->rank[r].rank, p->axis) ==
                mg_rank_of_stage(MG_LOOP, (int)ranks, stage))
                now.rank[now.n++] = g->rank[r];
        for (int64_t r = 0; r < before.n; r++)
            hand_on(&before.rank[r], &now, i);
        if (now.n)
            interp_iterations(&now, i, stage / ranks * p->max_layers, p->layers.data[stage]);
        memcpy(before.rank, now.rank, (size_t)now.n * sizeof *now.rank);
        before.n = now.n;
    }
    free(now.rank);
    free(before.rank);
}

int64_t interp_position(const Interp *in, Dim d, int64_t k)
{
    const Module *m = in->m;
    if (!(d.axes & m->layout.pipeline.axis))
        return mesh_index(m, in->rank, d, k);
    return mesh_first_layer(m, mesh_stage(m, in->rank, k)) + k % m->layout.pipeline.max_layers;
}

/* ---- where values are ------------------------------------------------------------------------ */

bool interp_takes_part(const Group *g, const Interp *in, const Ins *i)
{
    StageSet at = i->nout ? 0 : AT_ALL;
    for (uint32_t k = 0; k < i->nout; k++)
        at |= g->at[i->out[k]];
    return (at & mesh_stage_set(in->m, in->rank)) != 0;
}

void interp_forget(Interp *in, Value v)
{
    double *x = interp_set(in, v, NULL);
    for (int64_t n = type_elements(type_of(in->m, v)); n-- > 0;)
        x[n] = NAN;
}

void interp_forget_others(const Group *g, Interp *in, const Ins *i)
{
    for (uint32_t k = 0; k < i->nout; k++)
        if (!(g->at[i->out[k]] & mesh_stage_set(in->m, in->rank)))
            interp_forget(in, i->out[k]);
}
