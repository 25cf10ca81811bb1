/* check_tiles.c - do the numbers of a descriptor describe the tiles that an instruction says? The
 * dims of a tile stand together in a dense tensor. Tiles of two sides are rows by columns, and
 * innermost; those of one side are columns of rows or, if they are innermost, parts of a row. */
#include "plan/check/check.h"

/* The dims of a list from `from` up to `to`, at place `at` of a type, one after the other. */
static bool stand_at(const Type *t, int *at, const DimList *l, int from, int to, int64_t *size)
{
    *size = 1;
    for (int k = from; k < to; k++, ++*at) {
        if (*at >= t->rank || t->dims[*at].name != l->dim[k].name)
            return false;
        *size *= t->dims[*at].size;
    }
    return true;
}

static int64_t product(const Type *t, int from, int to)
{
    int64_t n = 1;
    for (int k = from; k < to; k++)
        n *= t->dims[k].size;
    return n;
}

const char *tiles_wrong(const Action *a, const Ins *i)
{
    const mg_tile_scale_desc *d = &a->tile_scale;
    const Operand *x = &a->operand[0], *y = &a->operand[1];
    const Type *t = &x->type;
    const DimList *over = &i->attrs.over;
    const int side = (int)i->attrs.at;
    const int64_t every = i->attrs.every;
    int64_t one, other;
    int at = 0;
    if (!check_is_dense(x) || !check_is_dense(y) || t->rank != y->type.rank)
        return "an operand that is not dense";
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k].name != y->type.dims[k].name)
            return "the order of the elements";
    if (d->dtype != check_dtype(t->dtype) || y->type.dtype != DT_f32)
        return "the type of its numbers";
    if (d->largest != i->attrs.value || d->power != i->attrs.power)
        return "what scales are";
    while (at < t->rank && t->dims[at].name != over->dim[0].name)
        at++;
    const int64_t before = product(t, 0, at);
    if (!stand_at(t, &at, over, 0, side, &one) || !stand_at(t, &at, over, side, over->n, &other))
        return "the dims of a tile";
    const int64_t behind = product(t, at, t->rank);
    if (side < over->n && behind > 1)
        return "dims behind those of a tile";
    const bool plane = side < over->n && d->outer == before && d->rows == one &&
                       d->columns == other && d->tile_rows == every && d->tile_columns == every;
    const bool column = side == over->n && d->outer == before && d->rows == one &&
                        d->columns == behind && d->tile_rows == every && d->tile_columns == 1;
    const bool row = side == over->n && behind == 1 && d->outer == 1 && d->rows == before &&
                     d->columns == one && d->tile_rows == 1 && d->tile_columns == every;
    return plane || column || row ? NULL : "tiles or sizes";
}
