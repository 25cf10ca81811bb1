/* chunk_parts.c - scans in chunks under a layout that splits their dim; see chunk_parts.h. */
#include "passes/model/chunk_parts.h"

#include <string.h>

static Axes axes_of_rules(const Module *m, Name d)
{
    Axes all = 0;
    for (size_t r = 0; r < m->layout.rules.n; r++)
        for (int k = 0; k < m->layout.rules.data[r].n && m->layout.rules.data[r].dim == d; k++)
            all |= (Axes)1 << m->layout.rules.data[r].axis[k];
    return all;
}

int64_t scan_unit(const Module *m, Dim d)
{
    const int64_t unit = mesh_unit(m, axes_of_rules(m, d.name), mesh_zigzag(m, d.name));
    return d.size % unit ? 1 : unit;
}

/* Do the rules leave an axis to the scan's dim, beside those of a state? */
static bool splits(const Linear *x, int state)
{
    const Type *t = type_of(x->m, x->loop->in[state]);
    bool fixed[MAX_RANK + 1] = {false};
    Axes axes[MAX_RANK + 1];
    Dim dims[MAX_RANK + 1];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    dims[t->rank] = x->loop->attrs.dim;
    mesh_walk(x->m, dims, t->rank + 1, fixed, axes);
    return axes[t->rank] != 0;
}

int64_t scan_parts(const Linear *x)
{
    const int64_t unit = scan_unit(x->m, x->loop->attrs.dim);
    bool any = false, fits = true;
    for (int k = 0; k < x->states; k++) {
        Read r = {0};
        any |= splits(x, k);
        if (x->solved[k] >= 0)
            linear_read(x, x->read[k], &r);
        fits &= type_of(x->m, x->loop->in[k])->rank + r.over.n + 1 < MAX_RANK;
    }
    return !any || unit == 1 ? 1 : fits ? unit : 0;
}

void scan_rules(Module *m, Dim d, Dim n, Dim p)
{
    const Name more[] = {p.name, n.name};
    for (size_t r = 0; r < m->layout.rules.n; r++)
        if (m->layout.rules.data[r].dim == n.name)
            return; /* of another function, or another scan along it */
    const Layout was = m->layout; /* copies of the module have the same rules */
    m->layout.rules.data = NULL;
    m->layout.rules.n = m->layout.rules.cap = 0;
    for (size_t r = 0; r < was.rules.n; r++) {
        const LayoutRule *rule = &was.rules.data[r];
        for (size_t k = 0; k < 2 && !rule->of && rule->dim == d.name; k++) {
            LayoutRule like = *rule;
            like.dim = more[k];
            vec_push(m->arena, &m->layout.rules, like);
        }
        vec_push(m->arena, &m->layout.rules, *rule);
    }
}
