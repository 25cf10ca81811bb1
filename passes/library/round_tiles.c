/* round_tiles.c - products of halves become products of fp8 whose operands have a scale for each
 * tile; part of pass emulate, for devices that multiply those.
 *
 *   before:  %y: bf16 = dot %x, %w {over=[k], fp8=1, tiles=3}
 *   after:   %q: e4m3, %f: f32[tiles, rows] = round_tiles %x {over=[k], at=1, every=128}
 *            %r: e4m3, %g: f32[rows, tiles] = round_tiles %w {over=[k], at=128, every=128}
 *            %y: bf16 = dot_scaled %q, %r, %f, %g {over=[k], tiles=3}
 *
 * A rounded operand is a matrix whose rows are along what is summed, in the order in which the
 * result has them: as tensor cores read it, so that nothing turns it again. A value is rounded once
 * for all products that read the same matrix of it, where the value is: of a loop's slice of a
 * parameter in each iteration, of what a loop is given before it.
 *
 * With scales of mx, of tiles of 1 x 32 of both operands, these are e8m0 (tiles=4).
 *
 * Matrices of multiples of 16 rows and columns (of mx of 32) are taken, of single products; tiles
 * of two sides if the result has the rows in their own order, in which they are counted. The others
 * stay products of halves. */
#include "passes/library/product.h"
#include "passes/library/tiles.h"

static bool same_list(const DimList *a, const DimList *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = a->dim[i].name == b->dim[i].name;
    return same;
}

static int64_t elements(const DimList *l)
{
    int64_t n = 1;
    for (int i = 0; i < l->n; i++)
        n *= l->dim[i].size;
    return n;
}

/* The dims of `from` that t has, and the other operand has not. */
static DimList rows_of(const Type *from, const Type *t, const Type *other)
{
    DimList l = {0};
    for (int i = 0; i < from->rank; i++) {
        const int at = type_find(t, from->dims[i].name);
        if (at >= 0 && type_find(other, from->dims[i].name) < 0)
            l.dim[l.n++] = t->dims[at];
    }
    return l;
}

static Type matrix(const RoundedMatrix *x)
{
    Type t = {.dtype = x->dtype};
    for (int i = 0; i < x->rows.n; i++)
        t.dims[t.rank++] = x->rows.dim[i];
    for (int i = 0; i < x->over.n; i++)
        t.dims[t.rank++] = x->over.dim[i];
    return t;
}

/* Operand k of the product i as a matrix; false: it has a dim of several products, or tiles whose
 * rows the result has in another order. */
static bool describe(const Rounded *r, const Ins *i, int k, RoundedMatrix *x)
{
    const Train *train = &r->m->train;
    const Type *t = type_of(r->m, i->in[k]), *other = type_of(r->m, i->in[1 - k]);
    const bool large = i->attrs.tiles == (k ? TILES_second : TILES_first);
    const bool gradient = k == 0 && i->attrs.fp8 == FP8_gradient;
    const DimList own = rows_of(t, t, other);
    *x = (RoundedMatrix){.of = i->in[k],
                         .rows = rows_of(type_of(r->m, i->out[0]), t, other),
                         .over = i->attrs.over,
                         .high = large ? FP8_TILE : 1,
                         .dtype = gradient ? train->fp8_gradients : train->fp8};
    return t->dtype == DT_bf16 && x->rows.n + x->over.n == t->rank &&
           elements(&x->over) % (i->attrs.tiles == TILES_mx ? FP8_MX : FP8_SIDE) == 0 &&
           elements(&x->rows) % FP8_SIDE == 0 && (!large || same_list(&own, &x->rows));
}

/* Is it one product where the matrices lie densely? */
static bool is_one(const Module *m, const Ins *i, const RoundedMatrix x[2])
{
    const Type t[3] = {matrix(&x[0]), matrix(&x[1]), *type_of(m, i->out[0])};
    Strided s[3] = {{.type = &t[0]}, {.type = &t[1]}, {.type = &t[2]}};
    Product p;
    for (int k = 0; k < 3; k++)
        strides_dense(&t[k], s[k].stride);
    return product_match(&s[0], &s[1], &s[2], &i->attrs.over, &p) && p.desc.batch == 1;
}

/* A dim of scales. A product has those of two operands, in which a name has one size. */
static Dim counted(const Module *m, const char *what, int64_t size)
{
    const char *name = arena_printf(m->arena, "%s_%lld", what, (long long)size);
    return (Dim){.name = name_intern(m->names, name), .size = size};
}

static void rounded(Rounded *r, const Builder *b, RoundedMatrix *x)
{
    Module *m = r->m;
    for (size_t k = 0; k < r->known.n; k++) {
        const RoundedMatrix *was = &r->known.data[k];
        if (was->of == x->of && was->high == x->high && was->dtype == x->dtype &&
            same_list(&was->rows, &x->rows) && same_list(&was->over, &x->over)) {
            *x = *was;
            return;
        }
    }
    const bool large = x->high > 1, mx = m->train.fp8_scales == SCALES_mx, blocks = large || mx;
    const int64_t every = mx ? FP8_MX : FP8_TILE, high = blocks ? FP8_TILE : 1;
    const int64_t wide = (elements(&x->over) + every - 1) / every;
    const Attrs a = {.over = x->over,
                     .dim = counted(m, "tiles",
                                    mx      ? (wide + 3) / 4 * 512
                                    : large ? (wide + 3) / 4 * 4
                                            : wide),
                     .to = counted(m, "rows", (elements(&x->rows) + high - 1) / high),
                     .at = x->high,
                     .every = every,
                     .value = dtype_largest(x->dtype),
                     .power = mx};
    const Type t[2] = {matrix(x),
                       {.dtype = mx ? DT_e8m0 : DT_f32,
                        .rank = 2,
                        .dims = {blocks ? a.to : a.dim, blocks ? a.dim : a.to}}};
    Builder at = *b;
    at.region = m->values.data[x->of].home;
    const Ins *made = build_typed(&at, OP_round_tiles, &a, 1, &x->of, 2, t, NULL);
    x->number = made->out[0];
    x->scales = made->out[1];
    m->values.data[x->number].name = m->values.data[x->of].name;
    vec_push(r->tmp, &r->known, *x);
}

bool round_tiles(Rounded *r, Builder *b, Ins *i)
{
    Module *m = r->m;
    RoundedMatrix x[2];
    const Value out = i->out[0], c = i->nin == 3 ? i->in[2] : 0;
    const bool fits = m->train.fp8_products && i->attrs.tiles && describe(r, i, 0, &x[0]) &&
                      describe(r, i, 1, &x[1]) && is_one(m, i, x);
    const Attrs a = {.over = i->attrs.over, .tiles = i->attrs.tiles};
    i->attrs.fp8 = i->attrs.tiles = 0;
    if (!fits)
        return false;
    for (int k = 0; k < 2; k++)
        rounded(r, b, &x[k]);
    const Value in[] = {x[0].number, x[1].number, x[0].scales, x[1].scales, c};
    const Type want = *type_of(m, out);
    const bool in_place = c && type_of(m, c)->dtype == DT_f32; /* else it is added afterwards */
    Type t = want;
    if (c)
        t.dtype = DT_f32;
    Ins *last = build_typed(b, OP_dot_scaled, &a, in_place ? 5 : 4, in, 1, &t, NULL);
    last->exact = i->exact;
    if (c && !in_place) {
        const Value sum[] = {last->out[0], build_cast(b, c, DT_f32)};
        last = build_typed(b, OP_add, NULL, 2, sum, 1, &t, NULL);
    }
    if (t.dtype != want.dtype)
        last = build_typed(b, OP_cast, NULL, 1, last->out, 1, &want, NULL);
    last->out[0] = out;
    m->values.data[out].def = last;
    return true;
}

/* ---- as a call ------------------------------------------------------------------------------- */

/* Indices of these dims as one, and how far it steps through x. */
static bool merge(const Strided *x, const Type *q, int from, int to, int64_t *size, int64_t *step)
{
    *size = *step = 1;
    for (int k = to; k-- > from;) {
        const Dim d = q->dims[k];
        const int64_t stride = stride_of(x->type, x->stride, d.name);
        if (d.size == 1)
            continue;
        if (*size == 1)
            *step = stride;
        else if (stride != *size * *step)
            return false;
        *size *= d.size;
    }
    return true;
}

bool round_tiles_match(const Attrs *a, const Strided *x, const Type *q, mg_round_tiles_desc *d)
{
    const int rows = q->rank - a->over.n;
    *d = (mg_round_tiles_desc){.dtype = abi_dtype(x->type->dtype),
                               .to = abi_dtype(q->dtype),
                               .tile_rows = a->at,
                               .tile_columns = a->every,
                               .largest = a->value,
                               .power = a->power};
    return merge(x, q, 0, rows, &d->rows, &d->row_stride) &&
           merge(x, q, rows, q->rank, &d->columns, &d->column_stride);
}
