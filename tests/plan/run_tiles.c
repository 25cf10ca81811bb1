/* run_tiles.c - what mg_tile_scale and mg_round_tiles mean, and scales of products, in loops; see
 * run_plan.h. */
#include "tests/plan/run_calls.h"

#include <math.h>

#include "tests/plan/run_plan.h"

/* The least power of two that is not below x, of those that a scale can be. */
static double power_above(double x)
{
    double unit = 0x1p-127;
    while (unit < x)
        unit *= 2;
    return unit;
}

/* The place of the scale of 32 numbers of a row of so many. */
static int64_t block_place(int64_t row, int64_t column, int64_t columns)
{
    const int64_t block = row / 128 * ((columns + 127) / 128) + column / 128;
    return block * 512 + row % 32 * 16 + row / 32 % 4 * 4 + column / 32 % 4;
}

/* p: x y */
void run_tile_scale(const mg_tile_scale_desc *d, void *const *p)
{
    for (int64_t o = 0; o < d->outer; o++)
        for (int64_t i = 0; i < d->rows; i++)
            for (int64_t j = 0; j < d->columns; j++) {
                double top = 0;
                for (int64_t r = i / d->tile_rows * d->tile_rows, n = 0;
                     r < d->rows && n < d->tile_rows; r++, n++)
                    for (int64_t c = j / d->tile_columns * d->tile_columns, k = 0;
                         c < d->columns && k < d->tile_columns; c++, k++)
                        top = fmax(top, fabs(number_at(p[0], DT_bf16,
                                                       (o * d->rows + r) * d->columns + c)));
                const double unit = power_above((double)((float)top * (float)(1 / d->largest)));
                number_put(p[1], DT_f32, (o * d->rows + i) * d->columns + j,
                           d->power ? 1 / unit : d->largest / fmax(top, 1e-12));
            }
}

/* The largest number of the tile that begins there. */
static double top_of(const mg_round_tiles_desc *d, const void *x, int64_t row, int64_t column)
{
    double top = 0;
    for (int64_t r = row; r < d->rows && r < row + d->tile_rows; r++)
        for (int64_t c = column; c < d->columns && c < column + d->tile_columns; c++)
            top = fmax(top, fabs(number_at(x, DT_bf16, r * d->row_stride + c * d->column_stride)));
    return top;
}

/* p: x q f */
void run_round_tiles(const mg_round_tiles_desc *d, void *const *p)
{
    const DType to = d->to == MG_E4M3 ? DT_e4m3 : DT_e5m2;
    const int64_t wide = (d->columns + 127) / 128, wide4 = (wide + 3) / 4 * 4;
    const DType scales = d->power ? DT_e8m0 : DT_f32;
    for (int64_t k = 0; d->power && k < (d->rows + 127) / 128 * wide * 512; k++)
        number_put(p[2], scales, k, 0);
    for (int64_t k = 0; d->tile_rows > 1 && k < (d->rows + 127) / 128 * wide4; k++)
        number_put(p[2], DT_f32, k, 0);
    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t c = 0; c < d->columns; c++) {
            const int64_t row = r - r % d->tile_rows, column = c - c % d->tile_columns;
            const double top = top_of(d, p[0], row, column);
            const float s = d->power
                                ? (float)(1 / power_above((float)top * (float)(1 / d->largest)))
                                : (float)(d->largest / fmax(top, 1e-12));
            const double x = number_at(p[0], DT_bf16, r * d->row_stride + c * d->column_stride);
            number_put(p[1], to, r * d->columns + c, (double)((float)x * s));
            number_put(p[2], scales,
                       d->power           ? block_place(r, c, d->columns)
                       : d->tile_rows > 1 ? r / 128 * wide4 + c / 128
                                          : c / 128 * d->rows + r,
                       (double)(1 / s));
        }
}

double run_scales(const mg_gemm_desc *d, void *const *s, int64_t i, int64_t j, int64_t k)
{
    if (d->tiles == MG_TILES_MX)
        return number_at(s[0], DT_e8m0, block_place(i, k, d->k)) *
               number_at(s[1], DT_e8m0, block_place(j, k, d->k));
    const int64_t tile = k / 128, wide = ((d->k + 127) / 128 + 3) / 4 * 4;
    const int64_t a = d->tiles == MG_TILES_NONE ? 0
                      : d->tiles == MG_TILES_A  ? i / 128 * wide + tile
                                                : tile * d->m + i;
    const int64_t b = d->tiles == MG_TILES_NONE ? 0
                      : d->tiles == MG_TILES_B  ? j / 128 * wide + tile
                                                : tile * d->n + j;
    return number_at(s[0], DT_f32, a) * number_at(s[1], DT_f32, b);
}
