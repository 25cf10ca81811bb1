/* check_copies.c - P9: collectives by copies through the host (mg_comm_desc.piece).
 *
 * They are among GPUs that their description links through the host; of kinds and numbers that the
 * runtime has; with all ranks of a group in one node, which all ranks are asked for; and in no
 * program with stages, whose ranks come to collectives in orders of their own. Pieces are whole
 * numbers, at most what the plan says of the largest, by which the memory that the ranks exchange
 * through is made. */
#include "plan/check/check_run.h"

#include "runtime/sizes.h"

enum { WHOLE = 16 }; /* bytes: no number is longer */

/* The first rank of the group along these axes to which a rank belongs. */
static int64_t first_of(const Check *c, int64_t rank, Axes axes)
{
    int64_t stride = 1, first = rank;
    for (int x = (int)c->m->layout.mesh.n - 1; x >= 0; x--) {
        if (axes >> x & 1)
            first -= stride * mesh_coordinate(c->m, rank, x);
        stride *= c->m->layout.mesh.data[x].size;
    }
    return first;
}

static bool leaves_node(const Check *c, Axes axes)
{
    const int64_t node = c->p->device->node_ranks;
    for (int64_t rank = 0; rank < mesh_ranks(c->m); rank++)
        if (rank / node != first_of(c, rank, axes) / node)
            return true;
    return false;
}

static const char *copies_wrong(const Check *c, const Action *a)
{
    const mg_comm_desc *d = &a->comm;
    const Device *device = c->p->device;
    if (!action_sends(a) || !mg_copies_may(d))
        return "its kind, or its numbers, are not made by copies";
    if (device->target != TARGET_cuda || !device->through_host)
        return "the device's links do not go through the host";
    if (c->m->layout.pipeline.axis)
        return "ranks of stages have orders of their own";
    if (d->piece < WHOLE || d->piece % WHOLE)
        return "its pieces are not of whole numbers";
    if (d->piece > c->p->outside.piece)
        return "its pieces are larger than the memory for them";
    return NULL;
}

void check_copies(Check *c)
{
    const Plan *p = c->p;
    Axes within[MG_GROUPS_MAX];
    int n = 0;
    c->at = -1;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; p->programs[k] && i < p->programs[k]->actions.n; i++) {
            const Action *a = &p->programs[k]->actions.data[i];
            int g = 0;
            if (a->kind != ACT_comm || !a->comm.piece)
                continue;
            const char *why = copies_wrong(c, a);
            while (g < n && within[g] != a->comm.axes)
                g++;
            if (g == n && leaves_node(c, a->comm.axes))
                why = "some of its ranks are in another node";
            else if (g == n && n < MG_GROUPS_MAX)
                within[n++] = a->comm.axes;
            if (why)
                broken(c, 9, "'%s' is made by copies through the host: %s",
                       name_str(c->m->names, a->name), why);
        }
}
