/* local_index.c - which elements of a dim a rank has, as instructions on its place; see mesh_index
 * and mesh_below in ir/mesh.c for the same as numbers. Larger indices here are larger ones there.
 */
#include "passes/spmd/local.h"

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

/* x counts what a rank has of so many blocks, `each` of one: with what n ranks have of all. */
static Value in_blocks(Builder *b, Value x, Value place, int64_t each, int64_t blocks, int64_t n)
{
    Value all = moved(b, x, place, each, 0);
    for (int64_t k = 1; k < blocks; k++) {
        Value in[3] = {build2(b, OP_ge, x, number(b, k * each)), number(b, (n - 1) * each),
                       number(b, 0)};
        all = build2(b, OP_add, all, build(b, OP_select, NULL, 3, in));
    }
    return all;
}

Value local_positions(Local *l, Builder *b, Dim d, DType t)
{
    Dim here = {.name = d.name, .size = d.size};
    if (d.axes & l->m->layout.pipeline.axis)
        return build_cast(b, local_layer(l, b, build_iota(b, DT_i32, here)), t);
    if (!d.zigzag && !d.inner && !d.blocks) {
        Value first = build2(b, OP_mul, local_place(l, d.axes), number(b, d.size));
        return build2(b, OP_add, build_iota(b, t, here), build_cast(b, first, t));
    }
    Value x = build_iota(b, DT_i32, here);
    int64_t size = d.size, blocks = d.blocks;
    int axis[MAX_AXES];
    for (int i = mesh_nested(l->m, d, axis); i-- > 0;) {
        const int a = axis[i];
        int64_t n = l->m->layout.mesh.data[a].size, half = size / 2;
        Value place = local_place(l, (Axes)1 << a);
        if (blocks) {
            x = in_blocks(b, x, place, size / blocks, blocks, n);
        } else if (d.zigzag >> a & 1) {
            Value in[3] = {build2(b, OP_lt, x, number(b, half)), moved(b, x, place, half, 0),
                           moved(b, x, place, -half, (2 * n - 2) * half)};
            x = build(b, OP_select, NULL, 3, in);
        } else {
            x = moved(b, x, place, size, 0);
        }
        blocks = 0;
        size *= n;
    }
    return build_cast(b, x, t);
}

/* Layers before stage s are s * n0, and where the stages from k on have more or fewer than those
 * before, so many more or fewer of each of those. */
static Value layers_before(Builder *b, const Pipeline *p, Value stage)
{
    const int64_t *n = p->layers.data;
    Value sum = build2(b, OP_mul, stage, number(b, n[0]));
    for (size_t k = 1; k < p->layers.n; k++) {
        if (n[k] == n[k - 1])
            continue;
        Value beyond = build2(b, OP_sub, stage, number(b, (int64_t)k));
        beyond = build2(b, OP_max, beyond, number(b, 0));
        sum = build2(b, OP_add, sum, build2(b, OP_mul, beyond, number(b, n[k] - n[k - 1])));
    }
    return sum;
}

Value local_layer(Local *l, Builder *b, Value index)
{
    const Pipeline *p = &l->m->layout.pipeline;
    int64_t ranks = mesh_size(l->m, p->axis);
    Value stage = local_place(l, p->axis), inside = index;
    for (int c = 1; c < p->chunks; c++) { /* room for each is the same */
        Value beyond = build2(b, OP_ge, index, number(b, c * p->max_layers));
        Value in[3] = {beyond, number(b, 1), number(b, 0)};
        Value one = build(b, OP_select, NULL, 3, in);
        stage = build2(b, OP_add, build2(b, OP_mul, one, number(b, ranks)), stage);
        inside = build2(b, OP_sub, inside, build2(b, OP_mul, one, number(b, p->max_layers)));
    }
    return build2(b, OP_add, inside, layers_before(b, p, stage));
}

Value local_in_order(Local *l, Builder *b, const Ins *gather)
{
    const Pipeline *p = &l->m->layout.pipeline;
    int64_t ranks = mesh_size(l->m, p->axis);
    Value x = build(b, OP_all_gather, &gather->attrs, 1, gather->in);
    if (p->chunks == 1)
        return x;
    Dim layer = {.name = p->dim, .size = p->chunks * p->max_layers};
    Dim rank = {.name = name_intern(l->m->names, "stage.rank"), .size = ranks};
    Dim chunk = {.name = name_intern(l->m->names, "stage.chunk"), .size = p->chunks};
    Attrs by_rank = {.dim = layer, .to = rank};
    x = build(b, OP_split, &by_rank, 1, &x);
    layer.size = p->max_layers;
    Attrs by_chunk = {.dim = layer, .to = chunk};
    x = build(b, OP_split, &by_chunk, 1, &x);
    Type t = *type_of(l->m, x);
    int at = type_find(&t, rank.name); /* the chunk is behind it */
    Dim first = t.dims[at];
    t.dims[at] = t.dims[at + 1];
    t.dims[at + 1] = first;
    x = build_as(b, x, t);
    Attrs stages = {.dim = layer, .to = rank};
    x = build(b, OP_merge, &stages, 1, &x);
    layer.size *= ranks;
    Attrs all = {.dim = layer, .to = chunk};
    return build(b, OP_merge, &all, 1, &x);
}

/* x within [0, most] */
static Value within(Builder *b, Value x, int64_t limit)
{
    return build2(b, OP_min, build2(b, OP_max, x, number(b, 0)), number(b, limit));
}

Value local_below(Local *l, Builder *b, Dim d, Value end, const Value *place)
{
    int64_t size = dim_whole(l->m, d);
    int axis[MAX_AXES];
    for (int i = 0, split = mesh_nested(l->m, d, axis); i < split; i++) {
        const int a = axis[i];
        int64_t n = l->m->layout.mesh.data[a].size;
        Value p = place ? place[a] : local_place(l, (Axes)1 << a);
        size /= n;
        if (d.blocks && !(d.axes >> a >> 1)) { /* the last */
            const int64_t each = size / d.blocks;
            Value all = number(b, 0);
            for (int64_t k = 0; k < d.blocks; k++)
                all =
                    build2(b, OP_add, all, within(b, moved(b, end, p, -each, -k * n * each), each));
            end = all;
        } else if (d.zigzag >> a & 1) {
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
