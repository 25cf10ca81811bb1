/* interp_tiles.c - the reference meaning of tile_scale, of round_tiles, and of a product of what
 * that gives. */
#include "ir/interp.h"

#include <math.h>
#include <stdlib.h>

double interp_power(double x)
{
    int exponent;
    if (!isfinite(x))
        return NAN;
    const double part = frexp(fmin(fmax(fabs(x), 0x1p-127), 0x1p127), &exponent);
    return ldexp(1, part == 0.5 ? exponent - 1 : exponent);
}

/* The first element of the tile that the walk is in. */
static int64_t first_of_tile(const Walk *w, const Attrs *a, const Type *t)
{
    int64_t at = w->at[0];
    for (int side = 0; side < 2; side++) {
        const int from = side ? (int)a->at : 0, to = side ? a->over.n : (int)a->at;
        int64_t number = 0;
        for (int k = from; k < to; k++)
            number = number * a->over.dim[k].size + walk_index(w, a->over.dim[k].name);
        number -= number % a->every;
        for (int k = to; k-- > from;) {
            const Dim d = a->over.dim[k];
            const int64_t stride = type_stride(t, type_find(t, d.name));
            at += (number % d.size - walk_index(w, d.name)) * stride;
            number /= d.size;
        }
    }
    return at;
}

/* The largest number becomes at most `value` of fp8. */
static double scale_of(double largest, const Attrs *a)
{
    int exponent;
    if (!isfinite(largest))
        return NAN;
    if (!a->power)
        return a->value / fmax(largest, 1e-12);
    const double unit = fmax((double)((float)largest * (float)(1 / a->value)), 0x1p-127);
    const double part = frexp(unit, &exponent);
    return ldexp(1, part == 0.5 ? 1 - exponent : -exponent);
}

void interp_tile_scale(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    const double *x = interp_in(in, i, 0);
    const Type *t = type_of(in->m, i->in[0]);
    double *largest = interp_alloc(type_elements(t), sizeof *largest);
    for (int pass = 0; pass < 2; pass++) {
        Walk w = walk_start();
        walk_dims(&w, type_of(in->m, i->out[0]));
        walk_tensor(&w, t);
        walk_tensor(&w, type_of(in->m, i->out[0]));
        do {
            double *top = &largest[first_of_tile(&w, &i->attrs, t)];
            const double size = fabs(x[w.at[0]]);
            if (pass)
                y[w.at[1]] = scale_of(*top, &i->attrs);
            else if (!(size <= *top) && !isnan(*top)) /* a NaN wins, and stays */
                *top = size;
        } while (walk_next(&w));
    }
    free(largest);
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* The row and the column that a walk is at: of the dims of t that are not summed, and of those that
 * are. */
static int64_t row_of(const Walk *w, const Type *t, const DimList *over)
{
    int64_t n = 0;
    for (int k = 0; k < t->rank; k++)
        if (!dims_have(over, t->dims[k].name))
            n = n * t->dims[k].size + walk_index(w, t->dims[k].name);
    return n;
}

static int64_t column_of(const Walk *w, const Type *t, const DimList *over)
{
    int64_t n = 0;
    for (int k = 0; k < over->n; k++)
        n = n * t->dims[type_find(t, over->dim[k].name)].size + walk_index(w, over->dim[k].name);
    return n;
}

/* The place of a tile's scale among those of an operand, of type s. */
static int64_t place(const Type *s, bool large, int64_t row, int64_t column)
{
    const int64_t n = s->dims[1].size, tile = column / FP8_TILE;
    if (s->dtype == DT_e8m0) { /* blocks of 128 rows: 32 times 4 of every 32nd, of 4 tiles each */
        const int64_t in = row % FP8_TILE, part = column / FP8_MX;
        return row / FP8_TILE * n + part / 4 * 512 + (in % 32 * 4 + in / 32) * 4 + part % 4;
    }
    return large ? row / FP8_TILE * n + tile : tile * n + row;
}

void interp_round_tiles(Interp *in, const Ins *i)
{
    double *q = interp_out(in, i, 0), *f = interp_out(in, i, 1);
    const double *x = interp_in(in, i, 0);
    const Type *t = type_of(in->m, i->in[0]), *to = type_of(in->m, i->out[0]);
    const Type *s = type_of(in->m, i->out[1]);
    const int64_t n = type_elements(s);
    double *top = interp_alloc(n, sizeof *top);
    for (int64_t k = 0; k < n; k++)
        top[k] = -1; /* no tile has it */
    for (int pass = 0; pass < 2; pass++) {
        Walk w = walk_start();
        walk_dims(&w, to);
        walk_tensor(&w, t);
        walk_tensor(&w, to);
        do {
            const int64_t at = place(s, i->attrs.at > 1, row_of(&w, to, &i->attrs.over),
                                     column_of(&w, t, &i->attrs.over));
            const double size = fabs(x[w.at[0]]);
            if (pass)
                q[w.at[1]] =
                    interp_rounded((double)((float)x[w.at[0]] * (float)top[at]), to->dtype);
            else if (!(size <= top[at]) && !isnan(top[at]))
                top[at] = size;
        } while (walk_next(&w));
        for (int64_t k = 0; k < n && !pass; k++) {
            const double none = s->dtype == DT_e8m0 ? 0x1p-127 : 0; /* whose bits are 0 */
            const bool has = !(top[k] < 0);
            top[k] = has ? (double)(float)scale_of(top[k], &i->attrs) : 0;
            f[k] = has ? (double)(1 / (float)top[k]) : none;
        }
    }
    free(top);
}

void interp_tiled_product(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    const DimList *over = &i->attrs.over;
    const Type *t = type_of(in->m, i->out[0]);
    const Type *type[4];
    const double *x[4];
    Walk w = walk_start();
    for (int k = 0; k < 4; k++) {
        type[k] = type_of(in->m, i->in[k]);
        x[k] = interp_in(in, i, (uint32_t)k);
    }
    walk_dims(&w, t);
    for (int k = 0; k < over->n; k++)
        walk_dim(&w, type[0]->dims[type_find(type[0], over->dim[k].name)]);
    walk_tensor(&w, t);
    walk_tensor(&w, type[0]);
    walk_tensor(&w, type[1]);
    if (i->nin > 4)
        walk_tensor(&w, type_of(in->m, i->in[4]));
    do {
        double term = x[0][w.at[1]] * x[1][w.at[2]];
        const int64_t column = column_of(&w, type[0], over);
        for (int k = 0; k < 2; k++)
            term *= x[2 + k][place(type[2 + k], i->attrs.tiles == (k ? TILES_second : TILES_first),
                                   row_of(&w, type[k], over), column)];
        if (column == 0)
            y[w.at[0]] = i->nin > 4 ? interp_in(in, i, 4)[w.at[3]] : 0;
        y[w.at[0]] += term;
    } while (walk_next(&w));
}
