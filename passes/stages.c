/* stages.c - how many layers each stage of a pipeline has; see shard.h. */
#include "passes/shard.h"

static int64_t layers_of(const Module *m)
{
    for (size_t k = 0; k < m->tensors.n; k++) {
        const Type *t = &m->tensors.data[k].type;
        int at = type_find(t, m->layout.pipeline.dim);
        if (at >= 0)
            return t->dims[at].size;
    }
    return 0;
}

bool stages_choose(Module *m)
{
    Pipeline *p = &m->layout.pipeline;
    if (!p->axis)
        return true;
    int n = mesh_stages(m);
    int64_t layers = layers_of(m);
    p->layers.n = 0;
    p->most = 0;
    for (int s = 0; s < n; s++) {
        int64_t mine = layers * (s + 1) / n - layers * s / n;
        vec_push(m->arena, &p->layers, mine);
        p->most = mine > p->most ? mine : p->most;
    }
    return true;
}
