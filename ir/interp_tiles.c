/* interp_tiles.c - the reference meaning of tile_scale. */
#include "ir/interp.h"

#include <math.h>
#include <stdlib.h>

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
