/* check_small.c - P7: collectives that may run beside any other (mg_comm_desc.small).
 *
 * On GPUs NCCL makes them, each set of axes with a communicator for them alone. That ranks never
 * wait for each other for ever follows from three things. All ranks of a communicator launch what
 * is sent in the program's order, or in that of one row of a pipeline's table; whatever a launch
 * waits for, in its stream, by an event or in a queue of the hardware, was launched before it, so
 * it stands before it in that order; and all that may be under way at once has room on the GPU. So
 * of what is launched and not done, the first in that order is waiting for nothing but the same
 * launch of other ranks, and ends. The order is check_streams.c's, of all streams; room is there
 * because a small collective is one block of a GPU, and what it stands beside is no more than it
 * was.
 *
 * So it has to be what it says: of few bytes, one that the runtime has so, and on a GPU. */
#include "plan/check/check_run.h"

#include "runtime/sizes.h"

static const char *small_wrong(const Check *c, const Action *a)
{
    const mg_comm_desc *d = &a->comm;
    if (c->p->device->target != TARGET_cuda)
        return "only GPUs have communicators";
    if (d->piece)
        return "it is made by copies through the host";
    if (d->kind != MG_ALL_REDUCE || !d->max)
        return "it is not the largest of numbers";
    if (type_bytes(&a->operand[0].type) > MG_SMALL_BYTES)
        return "it has more bytes";
    return NULL;
}

void check_small(Check *c)
{
    const Plan *p = c->p;
    c->at = -1;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; p->programs[k] && i < p->programs[k]->actions.n; i++) {
            const Action *a = &p->programs[k]->actions.data[i];
            const char *why = a->kind == ACT_comm && a->comm.small ? small_wrong(c, a) : NULL;
            if (why)
                broken(c, 7, "'%s' is no small collective: %s", name_str(c->m->names, a->name),
                       why);
        }
}
