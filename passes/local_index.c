/* local_index.c - which elements of a dim a rank has, as instructions on its place; see mesh_index
 * and mesh_below in ir/mesh.c for the same as numbers. Larger indices here are larger ones there.
 */
#include "passes/local.h"

static Value number(Builder *b, int64_t x)
{
    return build_const(b, DT_i32, (double)x);
}

/* x + place * each + more */
static Value moved(Builder *b, Value x, Value place, int64_t each, int64_t more)
{
    Value by = build2(b, OP_mul, place, number(b, each));
    if (more)
        by = build2(b, OP_add, by, number(b, more));
    return build2(b, OP_add, x, by);
}

Value local_positions(Local *l, Builder *b, Dim d, DType t)
{
    Dim here = {.name = d.name, .size = d.size};
    if (!d.zigzag) {
        Value first = build2(b, OP_mul, local_place(l, d.axes), number(b, d.size));
        return build2(b, OP_add, build_iota(b, t, here), build_cast(b, first, t));
    }
    Value x = build_iota(b, DT_i32, here);
    int64_t size = d.size;
    for (size_t a = l->m->layout.mesh.n; a-- > 0;) {
        int64_t n = l->m->layout.mesh.data[a].size, half = size / 2;
        if (!(d.axes >> a & 1))
            continue;
        Value place = local_place(l, (Axes)1 << a);
        if (d.zigzag >> a & 1) {
            Value in[3] = {build2(b, OP_lt, x, number(b, half)), moved(b, x, place, half, 0),
                           moved(b, x, place, -half, (2 * n - 2) * half)};
            x = build(b, OP_select, NULL, 3, in);
        } else {
            x = moved(b, x, place, size, 0);
        }
        size *= n;
    }
    return build_cast(b, x, t);
}

/* x within [0, most] */
static Value within(Builder *b, Value x, int64_t most)
{
    return build2(b, OP_min, build2(b, OP_max, x, number(b, 0)), number(b, most));
}

Value local_below(Local *l, Builder *b, Dim d, Value end, const Value *place)
{
    int64_t size = dim_whole(l->m, d);
    for (size_t a = 0; a < l->m->layout.mesh.n; a++) {
        int64_t n = l->m->layout.mesh.data[a].size;
        if (!(d.axes >> a & 1))
            continue;
        Value p = place ? place[a] : local_place(l, (Axes)1 << a);
        size /= n;
        if (d.zigzag >> a & 1) {
            int64_t half = size / 2;
            Value low = within(b, moved(b, end, p, -half, 0), half);
            Value high = within(b, moved(b, end, p, half, -(2 * n - 1) * half), half);
            end = build2(b, OP_add, low, high);
        } else {
            end = within(b, moved(b, end, p, -size, 0), size);
        }
    }
    return end;
}
