/* run_tiles.c - what mg_tile_scale means, in loops; see run_plan.h. */
#include "tests/plan/run_calls.h"

#include <math.h>

#include "tests/plan/run_plan.h"

/* p: x y */
void run_tile_scale(const mg_tile_scale_desc *d, void *const *p)
{
    for (int64_t o = 0; o < d->outer; o++)
        for (int64_t i = 0; i < d->rows; i++)
            for (int64_t j = 0; j < d->columns; j++) {
                double top = 0, unit = 0x1p-127;
                for (int64_t r = i / d->tile_rows * d->tile_rows, n = 0;
                     r < d->rows && n < d->tile_rows; r++, n++)
                    for (int64_t c = j / d->tile_columns * d->tile_columns, k = 0;
                         c < d->columns && k < d->tile_columns; c++, k++)
                        top = fmax(top, fabs(number_at(p[0], DT_bf16,
                                                       (o * d->rows + r) * d->columns + c)));
                while (d->power && unit < (double)((float)top * (float)(1 / d->largest)))
                    unit *= 2;
                number_put(p[1], DT_f32, (o * d->rows + i) * d->columns + j,
                           d->power ? 1 / unit : d->largest / fmax(top, 1e-12));
            }
}
