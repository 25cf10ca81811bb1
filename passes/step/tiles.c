/* tiles.c - products that are marked read operands that are rounded to fp8 in tiles, each with a
 * scale; part of pass quantize.
 *
 *   before:  y: bf16 = dot x, w {over=[k], fp8=1}
 *   after:   s = tile_scale x {over=[k], at=1, every=128}          once, for all that sum x over k
 *            q: e4m3 = cast (mul (cast x) s)
 *            x8: f32 = mul (cast q) (div 1, s)                     what q stands for
 *            (the same of w, whose tiles are of 128 x 128: {over=[k, n], at=1})
 *            y: bf16 = cast (dot x8, w8 {over=[k]})                 a sum in f32
 *
 * With scales that are powers of two (mx) what q stands for is a bf16: products read and give
 * these.
 *
 * Tiles go along the dims that a product sums over, so a tensor is rounded anew for each set of
 * these: an activation for the product and for the gradient of the parameter. A parameter's tiles
 * of two sides are the same in both of its products.
 *
 * Summed dims are counted as one, in the order in which the parameter has them; of the gradient of
 * a parameter, which is a product of a gradient and an activation, that of the activation. So both
 * operands have their tiles at the same places, as hardware wants them.
 *
 * The whole stack of a parameter is rounded, once a step; loops take slices.
 *
 * A device that multiplies tiles has them rounded later, each rank its part of what it multiplies
 * (pass emulate, library/round_tiles.c). For it the product stays one of halves that says which
 * operand has tiles of two sides, and in which order summed dims are counted:
 *
 *            y: bf16 = dot x, w {over=[k], fp8=1, tiles=3} */
#include "passes/step/quantize.h"
#include "passes/view.h"
#include "passes/walk.h"

static bool same_list(const DimList *a, const DimList *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = a->dim[i].name == b->dim[i].name && a->dim[i].size == b->dim[i].size;
    return same;
}

static Value known(const Quantize *q, const Tiled *t)
{
    for (size_t k = q->tiled.n; k-- > 0;) {
        const Tiled *x = &q->tiled.data[k];
        if (x->of == t->of && x->dtype == t->dtype && x->side == t->side &&
            same_list(&x->over, &t->over))
            return x->is;
    }
    return 0;
}

static Value tiled(Quantize *q, Value v, Tiled like);

/* Of a slice of a stack the slice of what the stack is; through views that drop or cut a dim that
 * no tile has, the view of it. 0: of neither. */
static Value seen_through(Quantize *q, Value v, const Tiled *t)
{
    Module *m = q->m;
    const ValueInfo x = m->values.data[v];
    Value stacked;
    if (!quantize_is_parameter(q, v))
        return 0;
    if (!x.def && slice_loop(m, v, &stacked)) {
        const Value all = tiled(q, stacked, *t);
        return repeat_slice(m, x.home->owner, all);
    }
    const bool apart =
        x.def && (x.def->op == OP_pick ||
                  (x.def->op == OP_window && !dims_have(&t->over, x.def->attrs.along.name)));
    if (!apart)
        return 0;
    const Value all = tiled(q, x.def->in[0], *t);
    Builder b = builder_at(m, x.home, x.def);
    Type seen = *type_of(m, v);
    seen.dtype = type_of(m, all)->dtype;
    return build_typed(&b, x.def->op, &x.def->attrs, 1, &all, 1, &seen, NULL)->out[0];
}

static Value round_in_tiles(Quantize *q, Value v, const Tiled *t)
{
    Module *m = q->m;
    const bool mx = m->train.fp8_scales == SCALES_mx;
    const ValueInfo x = m->values.data[v];
    const Attrs a = {.over = t->over,
                     .at = t->side,
                     .every = mx ? FP8_MX : FP8_TILE,
                     .value = dtype_largest(t->dtype),
                     .power = mx};
    Builder b = builder_at(m, x.home, x.def ? x.def : q->dot);
    const Value scale = build(&b, OP_tile_scale, &a, 1, &v);
    Value r = build_cast(&b, v, DT_f32);
    r = build_cast(&b, build2(&b, OP_mul, r, scale), t->dtype);
    m->values.data[r].name = x.name;
    const Value inverse = build2(&b, OP_div, build_const(&b, DT_f32, 1), scale);
    r = build2(&b, OP_mul, build_cast(&b, r, DT_f32), inverse);
    r = build_cast(&b, r, mx ? m->train.half : DT_f32);
    m->values.data[r].name = x.name;
    return r;
}

/* v as its tiles stand for it, made where v is, or as soon as something asks for it. */
static Value tiled(Quantize *q, Value v, Tiled like)
{
    like.of = v;
    like.is = known(q, &like);
    if (like.is)
        return like.is;
    like.is = seen_through(q, v, &like);
    if (!like.is)
        like.is = round_in_tiles(q, v, &like);
    vec_push(q->tmp, &q->tiled, like);
    return like.is;
}

/* ---- where tiles are ------------------------------------------------------------------------- */

/* The dims of t that are (or are not) summed, and are none that both operands keep. */
static DimList some_of(const Type *t, const Type *other, const DimList *over, bool summed)
{
    DimList l = {0};
    for (int i = 0; i < t->rank; i++) {
        const bool is = dims_have(over, t->dims[i].name);
        if (is == summed && (is || type_find(other, t->dims[i].name) < 0))
            l.dim[l.n++] = t->dims[i];
    }
    return l;
}

/* Both sides of the tiles of a parameter, the one whose first dim it has first before the other. */
static void in_planes(const Type *t, const DimList *over, const DimList *left, Tiled *like)
{
    const bool turned =
        left->n && type_find(t, left->dim[0].name) < type_find(t, over->dim[0].name);
    const DimList *side[2] = {turned ? left : over, turned ? over : left};
    like->over = *side[0];
    like->side = side[0]->n;
    for (int i = 0; i < side[1]->n; i++)
        like->over.dim[like->over.n++] = side[1]->dim[i];
}

/* The summed dims of the product at hand, in the order in which they are counted. */
static DimList summed(const Quantize *q)
{
    const Ins *i = q->dot;
    const int order =
        !quantize_is_parameter(q, i->in[1]) && quantize_is_parameter(q, i->in[0]) ? 0 : 1;
    return some_of(type_of(q->m, i->in[order]), type_of(q->m, i->in[1 - order]), &i->attrs.over,
                   true);
}

void quantize_mark_tiles(Quantize *q, Ins *i)
{
    const bool large[2] = {quantize_is_parameter(q, i->in[0]), quantize_is_parameter(q, i->in[1])};
    i->attrs.over = summed(q);
    const bool mx = q->m->train.fp8_scales == SCALES_mx;
    i->attrs.tiles = mx ? TILES_mx : large[0] ? TILES_first : large[1] ? TILES_second : TILES_rows;
    if (!mx && large[0] && large[1]) /* no device has that */
        i->attrs.fp8 = i->attrs.tiles = 0;
}

void quantize_in_tiles(Quantize *q, Region *r)
{
    Module *m = q->m;
    const Ins *i = q->dot;
    const bool planes = m->train.fp8_scales == SCALES_tile;
    const Type type[2] = {*type_of(m, i->in[0]), *type_of(m, i->in[1])};
    const DimList over = summed(q);
    Value in[2];
    for (int k = 0; k < 2; k++) {
        const DimList left = some_of(&type[k], &type[1 - k], &i->attrs.over, false);
        Tiled like = {.dtype = quantize_type(q, k), .over = over, .side = over.n};
        if (planes && quantize_is_parameter(q, i->in[k]))
            in_planes(&type[k], &over, &left, &like);
        in[k] = tiled(q, i->in[k], like);
    }
    Builder b = builder_at(m, r, i);
    const Type want = *type_of(m, i->out[0]);
    Type sum = want;
    if (type_of(m, in[0])->dtype == DT_f32)
        sum.dtype = DT_f32;
    const Attrs a = {.over = i->attrs.over};
    Ins *last = build_typed(&b, OP_dot, &a, 2, in, 1, &sum, NULL);
    last->exact = i->exact;
    if (want.dtype != sum.dtype)
        last = build_typed(&b, OP_cast, NULL, 1, last->out, 1, &want, NULL);
    quantize_gives(m, last, i->out[0]);
}
