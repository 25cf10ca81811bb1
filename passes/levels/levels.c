/* levels.c - what the layout offloads is stored on another level of memory.
 *
 * why here: types say no more how values lie over the mesh, so that pieces are of what a rank has;
 * before kernels are made, which are then a piece's. */
#include "passes/levels/levels.h"
#include "passes/passes.h"

OffloadClass levels_class(const Tensor *t)
{
    if (t->slot && !tensor_is_rounded(t))
        return OFFLOAD_state;
    if (t->master || t->ahead)
        return OFFLOAD_masters;
    return t->stacked ? OFFLOAD_parameters : OFFLOAD_count;
}

PassStatus pass_levels(Job *j)
{
    Module *m = j->m;
    bool any = false;
    for (int k = 0; k < OFFLOAD_count; k++)
        any |= m->layout.offload[k] != LEVEL_device;
    for (size_t t = 0; t < m->tensors.n; t++) {
        const OffloadClass class = levels_class(&m->tensors.data[t]);
        m->tensors.data[t].type.level =
            class < OFFLOAD_count ? m->layout.offload[class] : LEVEL_device;
    }
    for (size_t f = 0; f < m->fns.n && any; f++) {
        levels_mark(m, m->fns.data[f], j->tmp);
        levels_transfer(m, m->fns.data[f], j->tmp);
    }
    return PASS_ok;
}
