/* apart.c - along which axes of the mesh the largest number of ranks is found apart, by what
 * collectives of one number take.
 *
 * With fp8 the scale of a tensor is made of its largest number, one of all ranks that have a part
 * of it, many times in each layer. Around a ring of all of them it goes as many steps as there are
 * ranks. Along the axes of the mesh, one after the other, it goes as many as the axes are long
 * together, and a rank sends once for each axis. Sums would differ in their last bits by that; the
 * largest number is the same. From the innermost axis on an axis joins those inside of it, unless
 * it is faster by itself. Processors meet once for all ranks, whatever the axes. */
#include "decide/apart.h"

#include "plan/network.h"

static double seconds_of(const Module *m, const Device *d, Axes axes)
{
    const mg_comm_desc c = {.kind = MG_ALL_REDUCE,
                            .dtype = MG_F32,
                            .max = true,
                            .axes = axes,
                            .n = mesh_size(m, axes),
                            .outer = 1,
                            .size = 1,
                            .inner = 1};
    return network_collective(m, d, &c);
}

void apart_choose(Module *m, const Device *d)
{
    Axes group = 0;
    for (size_t k = m->layout.mesh.n; k-- > 0;) {
        const Axes axis = (Axes)1 << k;
        m->layout.mesh.data[k].apart = false;
        if (axis == m->layout.pipeline.axis)
            continue;
        const bool apart =
            d->target == TARGET_cuda && group &&
            seconds_of(m, d, group) + seconds_of(m, d, axis) < seconds_of(m, d, group | axis);
        m->layout.mesh.data[k].apart = apart;
        group = apart ? axis : group | axis;
    }
}
