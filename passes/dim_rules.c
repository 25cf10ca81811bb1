/* dim_rules.c - dims that passes make of a dim that a layout splits; see dim_rules.h. */
#include "passes/dim_rules.h"

int64_t rules_unit(const Module *m, Dim d)
{
    Axes all = 0;
    for (size_t r = 0; r < m->layout.rules.n; r++)
        for (int k = 0; k < m->layout.rules.data[r].n && m->layout.rules.data[r].dim == d.name; k++)
            all |= (Axes)1 << m->layout.rules.data[r].axis[k];
    const int64_t unit = mesh_unit(m, mesh_ruled(m, d.name, all));
    return d.size % unit ? 1 : unit;
}

void rules_extend(Module *m, Name d, const Name *more, int n)
{
    const Layout was = m->layout; /* copies of the module have the same rules */
    for (size_t r = 0; r < was.rules.n; r++)
        for (int k = 0; k < n; k++)
            if (was.rules.data[r].dim == more[k])
                return;
    m->layout.rules.data = NULL;
    m->layout.rules.n = m->layout.rules.cap = 0;
    for (size_t r = 0; r < was.rules.n; r++) {
        const LayoutRule *rule = &was.rules.data[r];
        for (int k = 0; k < n && !rule->of && rule->dim == d; k++) {
            LayoutRule like = *rule;
            like.dim = more[k];
            like.heads = like.ring = 0; /* of attention, which runs along none of these */
            vec_push(m->arena, &m->layout.rules, like);
        }
        vec_push(m->arena, &m->layout.rules, *rule);
    }
}

Dim dim_part(Module *m, Dim d, const char *part, int64_t size)
{
    const char *name = arena_printf(m->arena, "%s.%s", name_str(m->names, d.name), part);
    return (Dim){.name = name_intern(m->names, name), .size = size};
}
