/* check_tiles.c - what cuBLASLt takes of fp8; and, do the numbers of a descriptor describe the
 * tiles that an instruction says? The dims of a tile stand together in a dense tensor. Tiles of two
 * sides are rows by columns, and innermost; those of one side are columns of rows or, if they are
 * innermost, parts of a row. */
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

static const char *tile_scale_wrong(const Action *a, const Ins *i)
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

/* ---- matrices -------------------------------------------------------------------------------- */

/* Is o a dense matrix, whose rows are these dims in their order? */
static bool is_matrix(const Operand *o, const DimList *over)
{
    const int rows = o->type.rank - over->n;
    int64_t size;
    int at = rows;
    return rows >= 0 && check_is_dense(o) && stand_at(&o->type, &at, over, 0, over->n, &size);
}

/* Do indices along dims `from` to `to` of q, counted as one, step through x by that much? */
static bool steps(const Operand *x, const Type *q, int from, int to, int64_t step)
{
    for (int k = to; k-- > from; step *= q->dims[k].size) {
        const int at = type_find(&x->type, q->dims[k].name);
        if (at < 0 || (q->dims[k].size > 1 && x->stride[at] != step))
            return false;
    }
    return true;
}

/* Are these the scales of a matrix, where cuBLASLt reads them: of tiles of one row, those of all
 * rows for each tile along what is summed; of squares, along that, in rows of a multiple of 4; of
 * mx, blocks of 512 bytes of 128 rows and 128 numbers of each? */
static bool are_scales(const Operand *f, bool squares, bool mx, int64_t rows, int64_t columns)
{
    const int64_t tiles = (columns + FP8_TILE - 1) / FP8_TILE;
    const int64_t slow = squares || mx ? (rows + FP8_TILE - 1) / FP8_TILE : tiles;
    const int64_t fast = mx ? tiles * 512 : squares ? (tiles + 3) / 4 * 4 : rows;
    return f->type.dtype == (mx ? DT_e8m0 : DT_f32) && f->type.rank == 2 &&
           f->type.dims[0].size == slow && f->type.dims[1].size == fast && check_is_dense(f);
}

static const char *round_tiles_wrong(const Action *a, const Ins *i)
{
    const mg_round_tiles_desc *d = &a->round_tiles;
    const Operand *x = &a->operand[0], *q = &a->operand[1], *f = &a->operand[2];
    const Attrs *is = &i->attrs;
    const int rows = q->type.rank - is->over.n;
    if (d->dtype != check_dtype(x->type.dtype) || d->to != check_dtype(q->type.dtype))
        return "the type of its numbers";
    if (!is_matrix(q, &is->over) || q->type.rank != x->type.rank)
        return "rows that are not along what is summed";
    if (d->largest != is->value || d->tile_rows != is->at || d->tile_columns != is->every ||
        d->power != is->power)
        return "what tiles are";
    if (d->rows != product(&q->type, 0, rows) ||
        d->columns != product(&q->type, rows, q->type.rank) ||
        !steps(x, &q->type, 0, rows, d->row_stride) ||
        !steps(x, &q->type, rows, q->type.rank, d->column_stride))
        return "sizes or strides of the matrix";
    return are_scales(f, d->tile_rows > 1, d->power, d->rows, d->columns) ? NULL
                                                                          : "where its scales lie";
}

const char *tiles_wrong(const Action *a, const Ins *i)
{
    return a->kind == ACT_round_tiles ? round_tiles_wrong(a, i) : tile_scale_wrong(a, i);
}

/* ---- products -------------------------------------------------------------------------------- */

static bool begins_whole(const Place *at)
{
    bool whole = at->offset % FP8_SIDE == 0;
    for (int i = 0; i < at->nloops; i++)
        whole &= at->loop[i].stride % FP8_SIDE == 0;
    return whole;
}

/* Tiles are counted along rows and columns of single products, whose operands are whole matrices:
 * so scale number n of an operand is that of its row n. */
static const char *scales_wrong(const Action *a, const Ins *i)
{
    const mg_gemm_desc *d = &a->gemm;
    const int64_t tiles = i->attrs.tiles;
    const bool turned = a->operand[0].value != i->in[0];
    const mg_tiles want = tiles == TILES_none                ? MG_TILES_NONE
                          : tiles == TILES_mx                ? MG_TILES_MX
                          : tiles == TILES_rows              ? MG_TILES_ROWS
                          : (tiles == TILES_first) != turned ? MG_TILES_A
                                                             : MG_TILES_B;
    if (d->tiles != want)
        return "whose tiles are which";
    if (want && (d->batch != 1 || d->m % FP8_SIDE || (want == MG_TILES_MX && d->k % FP8_MX) ||
                 d->lda != d->k || d->ldb != d->k || !is_matrix(&a->operand[0], &i->attrs.over) ||
                 !is_matrix(&a->operand[1], &i->attrs.over)))
        return "a matrix whose tiles have scales";
    for (int k = 0; want && k < 2; k++)
        if (!are_scales(&a->operand[3 + k], want == (k ? MG_TILES_B : MG_TILES_A),
                        want == MG_TILES_MX, k ? d->n : d->m, d->k) ||
            !begins_whole(&a->operand[3 + k].at))
            return "where scales of tiles lie";
    return NULL;
}

/* Tensor cores and cuBLASLt take of fp8, on all devices that have it, operands whose numbers follow
 * each other along what is summed, in rows and at places that are whole words of 16 bytes. */
const char *fp8_wrong(const Action *a, const Ins *i)
{
    const mg_gemm_desc *d = &a->gemm;
    const int64_t out = mg_dtype_bytes(d->out);
    if (d->ta || !d->tb)
        return "an operand of fp8 that is not summed along its rows";
    if (d->k % FP8_SIDE || d->n % FP8_SIDE || d->lda % FP8_SIDE || d->ldb % FP8_SIDE ||
        d->sa % FP8_SIDE || d->sb % FP8_SIDE || d->ldc * out % FP8_SIDE || d->sc * out % FP8_SIDE)
        return "rows of a product of fp8";
    for (int k = 0; k < 3; k++)
        if (!begins_whole(&a->operand[k].at))
            return "where an operand of fp8 begins";
    return scales_wrong(a, i);
}
