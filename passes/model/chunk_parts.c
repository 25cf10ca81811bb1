/* chunk_parts.c - scans in chunks under a layout that splits their dim; see chunk_parts.h. */
#include "passes/model/chunk_parts.h"

#include "passes/dim_rules.h"

#include <string.h>

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
    const int64_t unit = rules_unit(x->m, x->loop->attrs.dim);
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
