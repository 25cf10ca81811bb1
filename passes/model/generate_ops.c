/* generate_ops.c - instructions that look at other positions, for some positions alone: attention
 * is generate_attend.c's, elements at computed places keep the last ones. See generate.h. */
#include "passes/model/generate.h"
#include "passes/walk.h"

#include <string.h>

static bool has(const Generate *g, Value v, Name d)
{
    return type_find(type_of(g->m, v), d) >= 0;
}

bool generate_enter(Generate *g, const Ins *i, uint32_t k, Image image, Value v)
{
    g->m->values.data[v].name = g->m->values.data[i->out[k]].name;
    map_set(g->m, &g->image[image], i->out[k], v);
    return true;
}

Type generate_in_cache(const Generate *g, const Type *t, const DimList *last, Dim to)
{
    Type r = {.dtype = t->dtype, .rank = 1, .dims = {g->batch}};
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < t->rank; k++) {
            const Name d = t->dims[k].name;
            if (d != g->batch.name && d != g->seq && dims_have(last, d) == (pass == 1))
                r.dims[r.rank++] = t->dims[k];
        }
        if (!pass)
            r.dims[r.rank++] = to;
    }
    return r;
}

/* ---- elements at computed places ---------------------------------------------------------------
 */

/* x[seq - tap] and the like: the number of elements before its own that a position reads; -1:
 * refused. */
static int64_t reads_back(Generate *g, const Ins *i)
{
    const Attrs *a = &i->attrs;
    int64_t low = a->at, high = a->at;
    bool own = false;
    for (int k = 0; k < a->over.n; k++) {
        const int64_t most = (a->over.dim[k].size - 1) * a->factors.by[k];
        if (a->over.dim[k].name == g->seq) {
            own = a->factors.by[k] == 1;
            continue;
        }
        low += most < 0 ? most : 0;
        high += most > 0 ? most : 0;
    }
    if (!own || a->every != 1) {
        generate_refuse(g, i, "it does not go along with the positions");
        return -1;
    }
    if (high > 0) {
        generate_refuse(g, i, "it reads later positions");
        return -1;
    }
    return -low;
}

/* Behind what was kept come the new elements; the last ones are kept. */
static bool read_back(Generate *g, Frame *f, const Ins *i)
{
    Module *m = g->m;
    const int64_t back = reads_back(g, i);
    Value x = back < 0 ? 0 : generate_image(g, f, i->in[0], NEAR);
    if (!x)
        return false;
    if (!dtype_is_float(type_of(m, x)->dtype))
        return generate_refuse(g, i, "it reads indices of positions before");
    const Name line =
        name_intern(m->names, arena_printf(m->arena, "%s.line", name_str(m->names, g->seq)));
    const Name lag =
        name_intern(m->names, arena_printf(m->arena, "%s.lag", name_str(m->names, g->seq)));
    const Dim old = {.name = line, .size = back}, all = {.name = line, .size = back + g->n};
    Builder b = builder_at(m, f->to, i);
    Attrs a = generate_attrs(g, &i->attrs, NEAR);
    const Attrs rename = {.dim = {.name = g->seq, .size = g->n},
                          .to = {.name = line, .size = g->n}};
    Type t = generate_in_cache(g, type_of(m, x), &(DimList){0}, (Dim){.name = line, .size = g->n});
    x = build(&b, OP_rename, &rename, 1, (Value[]){generate_each(g, &b, x)});
    x = build_as(&b, x, t);
    if (back) {
        size_t number;
        t.dims[t.rank - 1] = old;
        const Value was = generate_cache(g, f, &t, &number);
        g->cuts = 0;
        const Value none = build_const(&b, t.dtype, 0);
        Value from = build(&b, OP_select, NULL, 3, (Value[]){g->fresh, none, was});
        from = build_as(&b, from, t);
        x = build(&b, OP_join, &(Attrs){.dim = all}, 2, (Value[]){from, x});
        const Value places =
            build2(&b, OP_add, g->count, build_iota(&b, DT_i32, (Dim){.name = lag, .size = back}));
        Value last = build(&b, OP_gather, &(Attrs){.dim = all}, 2, (Value[]){x, places});
        last =
            build(&b, OP_rename, &(Attrs){.dim = {.name = lag, .size = back}, .to = old}, 1, &last);
        generate_leave(g, f, number, build_as(&b, last, t));
    }
    a.dim = all;
    a.at += back;
    return generate_enter(g, i, 0, NEAR, build(&b, OP_reindex, &a, 1, &x));
}

/* ---- experts -----------------------------------------------------------------------------------
 */

/* A choice has a slot if fewer than there are of them were made before it: of the new positions,
 * and of those before, which were counted. */
static bool give_slots(Generate *g, Frame *f, const Ins *i)
{
    Module *m = g->m;
    const Attrs a = generate_attrs(g, &i->attrs, NEAR);
    const Value expert = generate_image(g, f, i->in[0], NEAR);
    if (!expert)
        return false;
    Builder b = builder_at(m, f->to, i);
    DimList gone = a.over;
    gone.dim[gone.n++] = a.along;
    Type counts = {.dtype = DT_f32};
    for (int k = 0; k < type_of(m, expert)->rank; k++)
        if (!dims_have(&gone, type_of(m, expert)->dims[k].name))
            counts.dims[counts.rank++] = type_of(m, expert)->dims[k];
    counts.dims[counts.rank++] = a.dim;
    if (type_find(&counts, g->batch.name) < 0)
        return generate_refuse(g, i, "what it chooses does not depend on the text");
    size_t number;
    const Value before = generate_cache(g, f, &counts, &number);
    g->cuts = 0;
    const Value slot = build(&b, OP_slots, &a, 1, &expert);
    const Attrs look = {.dim = a.dim}, add = {.over = gone, .dim = a.dim};
    const Value earlier = build(&b, OP_gather, &look, 2, (Value[]){before, expert});
    const Value all = build2(&b, OP_add, earlier, build_cast(&b, slot, DT_f32));
    const Value room = build2(&b, OP_lt, all, build_const(&b, DT_f32, (double)i->attrs.to.size));
    Type t = *type_of(m, slot);
    const Value none = build_const(&b, DT_i32, -1);
    m->values.data[none].type.indexes = t.indexes;
    const Value got =
        build_typed(&b, OP_select, NULL, 3, (Value[]){room, slot, none}, 1, &t, NULL)->out[0];
    Type ones = *type_of(m, expert);
    ones.dtype = DT_f32;
    ones.indexes = 0;
    Value one = build(&b, OP_select, NULL, 3,
                      (Value[]){g->valid, build_const(&b, DT_f32, 1), build_const(&b, DT_f32, 0)});
    one = build_as(&b, one, ones);
    const Value after =
        build_typed(&b, OP_scatter_add, &add, 3, (Value[]){one, expert, before}, 1, &counts, NULL)
            ->out[0];
    generate_leave(g, f, number, after);
    return generate_enter(g, i, 0, NEAR, got);
}

/* ---- others ---------------------------------------------------------------------------------- */

static bool count_positions(Generate *g, const Ins *i, Image image)
{
    const Name d = i->attrs.dim.name;
    if (d != g->seq && (image == FAR || !generate_is_alias(g, d)))
        return true;
    const DType t = type_of(g->m, i->out[0])->dtype;
    return generate_enter(g, i, 0, image, generate_place(g, t));
}

/* Logits at a position: of each sequence at its last new one. */
static bool choose(Generate *g, Frame *f, const Ins *i, Image image)
{
    const ValueInfo *index = &g->m->values.data[i->in[1]];
    const int k = index->def ? -1 : arg_index(g->m, i->in[1]);
    if (index->home != g->from->body || k < 0 || g->from->args.data[k].role != ARG_pos)
        return generate_refuse(g, i, "it looks up other positions");
    Builder b = builder_at(g->m, f->to, i);
    const Dim seq = {.name = g->seq, .size = g->n};
    Value x = generate_image(g, f, i->in[0], image);
    if (!x)
        return false;
    if (g->n == 1)
        return generate_enter(g, i, 0, image, build(&b, OP_pick, &(Attrs){.dim = seq}, 1, &x));
    Value at = build2(&b, OP_sub, g->count, build_const(&b, DT_i32, 1));
    at = build2(&b, OP_max, at, build_const(&b, DT_i32, 0));
    return generate_enter(g, i, 0, image,
                          build(&b, OP_gather, &(Attrs){.dim = seq}, 2, (Value[]){x, at}));
}

/* Does it sum, cut or move along a dim? */
static bool works_along(const Ins *i, Name d)
{
    const Attrs *a = &i->attrs;
    return a->dim.name == d || a->to.name == d || a->keys.name == d || dims_have(&a->over, d) ||
           (i->op == OP_window && a->along.name == d);
}

static bool mixes(Generate *g, const Ins *i, Image image)
{
    if (works_along(i, g->seq))
        return true;
    for (size_t k = 0; k < g->alias.n; k++)
        if (works_along(i, g->alias.data[k]) && !(image == FAR && i->op == OP_iota))
            return true;
    return false;
}

bool generate_special(Generate *g, Frame *f, const Ins *i, Image image, bool *done)
{
    const Attrs *a = &i->attrs;
    *done = true;
    if (i->op == OP_attention && a->along.name == g->seq && generate_own_keys(g, a))
        return generate_attention(g, f, i);
    if (i->op == OP_rename && a->dim.name == g->seq && image == NEAR) {
        const Value x = generate_image(g, f, i->in[0], NEAR);
        return x && generate_enter(g, i, 0, NEAR, x);
    }
    if (i->op == OP_rename && generate_is_alias(g, a->dim.name) && a->to.name == g->seq) {
        const Value x = generate_image(g, f, i->in[0], NEAR);
        return x && generate_enter(g, i, 0, NEAR, x);
    }
    if (i->op == OP_rename && a->dim.name == g->seq)
        return generate_refuse(g, i,
                               "a bias, or what takes the place of attention, reads tokens of all "
                               "positions");
    if (i->op == OP_reindex && a->dim.name == g->seq)
        return read_back(g, f, i);
    if (i->op == OP_slots && a->along.name == g->seq && !a->sorted && a->to.size < a->along.size)
        return give_slots(g, f, i);
    if (i->op == OP_gather && a->dim.name == g->seq)
        return choose(g, f, i, image);
    if (i->op == OP_random && has(g, i->out[0], g->seq))
        return generate_refuse(g, i, "noise of each position is that of a whole window");
    if ((i->op == OP_random && has(g, i->out[0], g->batch.name)) ||
        (i->op == OP_iota && a->dim.name == g->batch.name))
        return generate_refuse(g, i, "it tells texts apart by their place");
    if (i->op == OP_iota) {
        *done = a->dim.name == g->seq || (image == NEAR && generate_is_alias(g, a->dim.name));
        return count_positions(g, i, image);
    }
    if (mixes(g, i, image))
        return generate_refuse(g, i, "it mixes positions, and not in the order of the text");
    if (works_along(i, g->batch.name))
        return generate_refuse(g, i, "it mixes texts, of which each is generated by itself");
    *done = false;
    return true;
}
