/* check_near.c - P7: collectives that run beside those over the network (Action.near).
 *
 * Ranks never wait for each other for ever as check_small.c has it: the order in which ranks launch
 * what is sent is that of the program, in each stream, and what stands in two streams has room on a
 * GPU at the same time. For a communicator is in one of these streams alone: all collectives along
 * a set of axes are near, or none is. And it says what it is: of the ranks of one machine, by NCCL.
 */
#include "plan/check/check_run.h"

#include "ir/mesh.h"

/* Has each group along these axes its ranks in one machine? By the numbers of its first and last.
 */
static bool in_a_machine(const Check *c, Axes axes)
{
    const int64_t ranks = mesh_ranks(c->m), node = c->p->device->node_ranks;
    for (int64_t rank = 0; rank < ranks; rank++) {
        int64_t first = rank, last = rank, stride = 1;
        for (int x = (int)c->m->layout.mesh.n - 1; x >= 0; x--) {
            const int64_t size = c->m->layout.mesh.data[x].size,
                          at = mesh_coordinate(c->m, rank, x);
            if (axes >> x & 1) {
                first -= stride * at;
                last += stride * (size - 1 - at);
            }
            stride *= size;
        }
        if (first / node != last / node)
            return false;
    }
    return true;
}

static const char *near_wrong(const Check *c, const Action *a)
{
    if (c->p->device->target != TARGET_cuda)
        return "only GPUs have a stream of them";
    if (a->comm.piece)
        return "it is made by copies through the host";
    return in_a_machine(c, (Axes)a->comm.axes) ? NULL : "its ranks are in several machines";
}

void check_near(Check *c)
{
    const Plan *p = c->p;
    Arena *tmp = arena_new();
    VEC(Axes) near = {0}, far = {0};
    c->at = -1;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; p->programs[k] && i < p->programs[k]->actions.n; i++) {
            const Action *a = &p->programs[k]->actions.data[i];
            if (a->near && (!action_sends(a) || a->comm.small))
                broken(c, 7, "'%s' is near, and %s", name_str(c->m->names, a->name),
                       action_sends(a) ? "small" : "sends nothing");
            if (!action_sends(a) || a->comm.small)
                continue;
            bool known = false;
            for (size_t n = 0; n < (a->near ? near.n : far.n); n++)
                known |= (a->near ? near.data[n] : far.data[n]) == a->comm.axes;
            if (known)
                continue;
            if (a->near)
                vec_push(tmp, &near, (Axes)a->comm.axes);
            else
                vec_push(tmp, &far, (Axes)a->comm.axes);
            const char *why = a->near ? near_wrong(c, a) : NULL;
            if (why)
                broken(c, 7, "'%s' is no near collective: %s", name_str(c->m->names, a->name), why);
        }
    for (size_t n = 0; n < near.n; n++)
        for (size_t f = 0; f < far.n; f++)
            if (near.data[n] == far.data[f])
                broken(c, 7, "some collectives along %s are near, and others are not",
                       mesh_axes_text(c->m, near.data[n]));
    arena_free(tmp);
}
