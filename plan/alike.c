/* alike.c - which actions of a step make the same bits on all ranks along the batch's axes, if
 * these get the same rows. The runtime lets them compute that, and compares (--health).
 *
 * Some things differ along an axis nevertheless: parameters and state of which each rank has a
 * part, what a collective cuts, and all that is computed of either. A collective that brings all
 * together, or adds up, makes it the same again. Once over the actions is not enough, because loops
 * carry values from one iteration to the next: so until nothing changes. Buffers stand for the
 * values in them, and keep what any of them had, which may leave an action out but lets none in. */
#include "plan/alike.h"

/* The axes along which the result differs of what differs along `in`. */
static Axes through(const mg_comm_desc *d, Axes in)
{
    switch (d->kind) {
    case MG_ALL_REDUCE:
    case MG_ALL_GATHER:
    case MG_BROADCAST:
        return in & ~d->axes;
    case MG_REDUCE_SCATTER:
    case MG_ALL_TO_ALL:
    case MG_SHARD:
        return in | d->axes;
    case MG_RING_SHIFT:
        break;
    }
    return in;
}

/* The axes along which an action's results differ. */
static Axes result(const Program *g, const Action *a, const Axes *differs)
{
    Axes in = 0;
    for (int k = 0; k < a->noperands; k++)
        if (a->operand[k].read)
            in |= differs[a->operand[k].at.buffer];
    if (a->kind == ACT_receive)
        for (int way = 0; way < 2; way++)
            in |= g->pipe->message[way] ? differs[g->pipe->sent[way]] : 0;
    return a->kind == ACT_comm ? through(&a->comm, in) : in;
}

static size_t guard_of(const Program *g)
{
    size_t n = 0;
    while (n < g->actions.n && g->actions.data[n].kind != ACT_guard)
        n++;
    return n < g->actions.n ? n : 0;
}

bool *plan_alike(Arena *arena, const Plan *p)
{
    const Program *g = p->train;
    if (!g || !g->batch_axes)
        return NULL;
    const size_t guard = guard_of(g);
    Axes *differs = NEW_ARRAY(arena, Axes, p->buffers.n + 1);
    bool *alike = NEW_ARRAY(arena, bool, p->nactions + 1);
    for (size_t i = 0; i < p->module->tensors.n; i++)
        for (int k = 0; k < MAX_RANK; k++)
            differs[p->tensor_buffer.data[i]] |= p->module->tensors.data[i].axes[k] & g->batch_axes;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < guard; i++) {
            const Action *a = &g->actions.data[i];
            const Axes out = result(g, a, differs) & g->batch_axes;
            if (a->id < p->nactions)
                alike[a->id] = !out;
            for (int k = 0; k < a->noperands; k++) {
                Axes *at = &differs[a->operand[k].at.buffer];
                if (!a->operand[k].write || (*at | out) == *at)
                    continue;
                *at |= out;
                more = true;
            }
        }
    }
    return alike;
}
