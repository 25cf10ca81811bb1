/* rules_tiles.c - the type rules of tile_scale and round_tiles, and where their tiles are. */
#include "ir/mesh.h"
#include "ir/rules.h"

enum { MAX_SIDE = 256 }; /* elements of a side of a tile, for which kernels have room */

const char *type_tile_scale(Rule *r)
{
    const Attrs *a = r->attrs;
    const Type *x = r->in[0];
    const char *wrong = rule_all_have(r, x, &a->over, "the operand");
    if (wrong)
        return wrong;
    if (a->at < 1 || a->at > a->over.n)
        WRONG(r, "%lld of %d dims are no side of a tile", (long long)a->at, a->over.n);
    if (a->every < 1 || a->every > MAX_SIDE)
        WRONG(r, "a side of a tile has 1 to %d elements, not %lld", MAX_SIDE, (long long)a->every);
    if (!(a->value >= 1 && a->value <= 0x1p64))
        WRONG(r, "no largest number of a tile becomes %g", a->value);
    if (x->dtype != DT_bf16)
        WRONG(r, "the operand is %s where bf16 is wanted", dtype_name(x->dtype));
    r->out[0] = *x;
    r->out[0].dtype = DT_f32;
    return NULL;
}

static const char *no_parts(Rule *r, const Type *t)
{
    const Axes axes = type_axes(t);
    if (axes)
        WRONG(r, "tiles of what is split on %s", rule_axes(r, axes));
    return NULL;
}

/* Rows of the matrix of t, of what is in `over`, and its columns. */
static void matrix(const Type *t, const DimList *over, int64_t *rows, int64_t *columns)
{
    *rows = *columns = 1;
    for (int i = 0; i < t->rank; i++)
        *(dims_have(over, t->dims[i].name) ? columns : rows) *= t->dims[i].size;
}

/* The scales of a matrix, in the order in which they lie: of tiles of one row those of all rows for
 * each tile along them; of larger ones along that, in whole words of 16 bytes; of mx in blocks of
 * 128 rows and 4 tiles. tiles, rows: names. */
static Type scales(int64_t rows, int64_t columns, int64_t kind, bool large, Name tiles, Name down)
{
    const bool mx = kind == TILES_mx, words = mx || large;
    Type t = {.dtype = mx ? DT_e8m0 : DT_f32, .rank = 2};
    int64_t wide = (columns + (mx ? FP8_MX : FP8_TILE) - 1) / (mx ? FP8_MX : FP8_TILE);
    if (words)
        rows = (rows + FP8_TILE - 1) / FP8_TILE, wide = (wide + 3) / 4 * (mx ? 4 * FP8_TILE : 4);
    t.dims[words] = (Dim){.name = tiles, .size = wide};
    t.dims[!words] = (Dim){.name = down, .size = rows};
    return t;
}

const char *type_round_tiles(Rule *r)
{
    const Attrs *a = r->attrs;
    const Type *x = r->in[0];
    int64_t rows, columns;
    const char *wrong = rule_all_have(r, x, &a->over, "the operand");
    wrong = wrong ? wrong : no_parts(r, x);
    if (wrong)
        return wrong;
    if (a->every != (a->power ? FP8_MX : FP8_TILE) ||
        (a->at != 1 && (a->power || a->at != FP8_TILE)))
        WRONG(r, "no tile has %lld rows and %lld columns", (long long)a->at, (long long)a->every);
    const bool e4m3 = a->value == dtype_largest(DT_e4m3);
    if (!e4m3 && a->value != dtype_largest(DT_e5m2))
        WRONG(r, "no type of fp8 has %g as its largest number", a->value);
    matrix(x, &a->over, &rows, &columns);
    const Type f =
        scales(rows, columns, a->power ? TILES_mx : TILES_rows, a->at > 1, a->dim.name, a->to.name);
    const Dim tiles = f.dims[a->power || a->at > 1], down = f.dims[!a->power && a->at == 1];
    if (a->dim.size != tiles.size || a->to.size != down.size || a->dim.name == a->to.name)
        WRONG(r, "%lld and %lld scales where the tiles want %lld and %lld", (long long)a->dim.size,
              (long long)a->to.size, (long long)tiles.size, (long long)down.size);
    if (x->dtype != DT_bf16)
        WRONG(r, "the operand is %s where bf16 is wanted", dtype_name(x->dtype));
    r->out[0] = (Type){.dtype = e4m3 ? DT_e4m3 : DT_e5m2};
    wrong = rule_add_dims(r, &r->out[0], x, &a->over);
    for (int k = 0; k < a->over.n; k++)
        r->out[0].dims[r->out[0].rank++] = x->dims[type_find(x, a->over.dim[k].name)];
    r->out[1] = f;
    return wrong;
}

const char *rule_tiles(Rule *r)
{
    const int64_t kind = r->attrs->tiles;
    const DimList *over = &r->attrs->over;
    if (kind > TILES_mx)
        WRONG(r, "no tiles of kind %lld", (long long)kind);
    for (int k = 0; k < 2; k++) {
        const Type *x = r->in[k], *other = r->in[1 - k], *s = r->in[2 + k];
        const bool large = kind == (k ? TILES_second : TILES_first);
        int64_t rows, columns;
        const char *wrong = no_parts(r, x);
        if (wrong)
            return wrong;
        for (int d = 0; d < x->rank; d++)
            if (!dims_have(over, x->dims[d].name) && type_find(other, x->dims[d].name) >= 0)
                WRONG(r, "dim '%s' of several products, whose operands have scales of tiles",
                      rule_dim(r, x->dims[d].name));
        matrix(x, over, &rows, &columns);
        const Type f = scales(rows, columns, kind, large, 0, 0);
        if (s->dtype != f.dtype || s->rank != 2 || s->dims[0].size != f.dims[0].size ||
            s->dims[1].size != f.dims[1].size)
            WRONG(r, "the scales of operand %d are no %s[%lld, %lld]", k, dtype_name(f.dtype),
                  (long long)f.dims[0].size, (long long)f.dims[1].size);
    }
    return NULL;
}

/* A piece of a dim that a rank has, times what is further in, is a number of tiles: then they begin
 * and end with it. */
int ir_cut_tiles(const Module *m, const Attrs *a, const Type *t)
{
    int64_t inner = 1;
    for (int k = a->over.n; k-- > 0;) {
        const Dim d = t->dims[type_find(t, a->over.dim[k].name)];
        const int64_t whole = dim_whole(m, d), piece = whole / mesh_unit(m, d);
        if (d.axes && inner * piece % a->every)
            return k;
        inner = k == a->at ? 1 : inner * whole;
    }
    return -1;
}

bool ir_cuts_product(const Module *m, const Attrs *a, const Type *x, const Type *y)
{
    const Type *const t[2] = {x, y};
    bool cut = false;
    for (int k = 0; k < 2; k++) {
        Attrs tiles = {
            .over = a->over, .at = a->over.n, .every = a->tiles == TILES_mx ? FP8_MX : FP8_TILE};
        cut |= ir_cut_tiles(m, &tiles, t[k]) >= 0;
        tiles.over.n = 0;
        for (int d = 0; d < t[k]->rank; d++)
            if (!dims_have(&a->over, t[k]->dims[d].name))
                tiles.over.dim[tiles.over.n++] = t[k]->dims[d];
        tiles.at = tiles.over.n;
        cut |= a->tiles == (k ? TILES_second : TILES_first) && ir_cut_tiles(m, &tiles, t[k]) >= 0;
    }
    return cut;
}
