/* scales.c - what the numbers of each tile of a tensor are multiplied by before they are rounded to
 * fp8; and a matrix that is rounded. The largest number of a tile is found among the bits of bf16
 * without their signs, which are in the order of the numbers, with infinity and then NaN above all
 * others. */
#include "kernels/isa.h"
#include "runtime/fp8.h"
#include "runtime/half.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256 }; /* columns at once: at least a tile's */

typedef struct Scales {
    const mg_tile_scale_desc *d;
    const uint16_t *x;
    float *y;
    int64_t bands; /* rows of tiles of a tensor */
} Scales;

static float scale_of(const mg_tile_scale_desc *d, int16_t largest)
{
    const float top = mg_from_bf16((uint16_t)largest);
    float unit = top * (float)(1 / d->largest);
    int exponent;
    if (!isfinite(top))
        return NAN;
    if (!d->power)
        return (float)(d->largest / fmax((double)top, 1e-12));
    unit = fmaxf(unit, 0x1p-127f);
    const float part = frexpf(unit, &exponent);
    return ldexpf(1, part == 0.5f ? 1 - exponent : -exponent);
}

/* One block of columns of a row of tiles, `rows` high. */
static void block(const mg_tile_scale_desc *d, const uint16_t *x, float *y, int64_t rows,
                  int64_t columns)
{
    int16_t top[BLOCK] = {0};
    float scale[BLOCK];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            const int16_t size = (int16_t)(x[r * d->columns + c] & 0x7fff);
            top[c] = size > top[c] ? size : top[c];
        }
    for (int64_t begin = 0; begin < columns; begin += d->tile_columns) {
        const int64_t left = columns - begin;
        const int64_t end = begin + (left < d->tile_columns ? left : d->tile_columns);
        int16_t all = 0;
        for (int64_t c = begin; c < end; c++)
            all = top[c] > all ? top[c] : all;
        const float s = scale_of(d, all);
        for (int64_t c = begin; c < end; c++)
            scale[c] = s;
    }
    for (int64_t r = 0; r < rows; r++)
        memcpy(y + r * d->columns, scale, (size_t)columns * sizeof *scale);
}

/* A unit is a row of tiles. */
static void scales(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Scales *s = ctx;
    const mg_tile_scale_desc *d = s->d;
    const int64_t width = BLOCK / d->tile_columns * d->tile_columns;
    for (int64_t u = begin; u < end; u++) {
        const int64_t first = u % s->bands * d->tile_rows, left = d->rows - first;
        const int64_t rows = left < d->tile_rows ? left : d->tile_rows;
        const int64_t at = (u / s->bands * d->rows + first) * d->columns;
        for (int64_t c = 0; c < d->columns; c += width)
            block(d, s->x + at + c, s->y + at + c, rows,
                  d->columns - c < width ? d->columns - c : width);
    }
}

void mg_tile_scale(mg_run *r, int action, const mg_tile_scale_desc *d, const void *x, void *y)
{
    const int64_t bytes = d->tile_rows * d->columns * 6;
    Scales s = {d, x, y, (d->rows + d->tile_rows - 1) / d->tile_rows};
    if (d->dtype != MG_BF16)
        mgk_fatal("mg_tile_scale", "only scales of bf16 are built");
    if (d->tile_columns > BLOCK)
        mgk_fatal("mg_tile_scale", "a side of a tile has at most 256 elements");
    mg_begin(r, action);
    mg_parallel(r, d->outer * s.bands, bytes >= 32768 ? 1 : 32768 / bytes + 1, scales, &s);
    mg_end(r, action);
    mg_output(r, action, y, d->outer * d->rows * d->columns, MG_F32);
}

/* ---- matrices -------------------------------------------------------------------------------- */

typedef struct Rounding {
    const mg_round_tiles_desc *d;
    const uint16_t *x;
    uint8_t *q;
    void *f; /* of floats; with power of e8m0 */
} Rounding;

static uint16_t element(const Rounding *s, int64_t row, int64_t column)
{
    return s->x[row * s->d->row_stride + column * s->d->column_stride];
}

/* A tile of rows from `row` to `end`: its scale and its numbers. Returns what is kept of the scale.
 */
static float round_tile(const Rounding *s, int64_t row, int64_t end, int64_t column)
{
    const mg_round_tiles_desc *d = s->d;
    const mg_tile_scale_desc like = {.largest = d->largest, .power = d->power};
    const int64_t left = d->columns - column;
    const int64_t stop = column + (left < d->tile_columns ? left : d->tile_columns);
    int16_t top = 0;
    for (int64_t r = row; r < end; r++)
        for (int64_t c = column; c < stop; c++) {
            const int16_t size = (int16_t)(element(s, r, c) & 0x7fff);
            top = size > top ? size : top;
        }
    const float scale = scale_of(&like, top);
    for (int64_t r = row; r < end; r++)
        for (int64_t c = column; c < stop; c++) {
            const float x = mg_from_bf16(element(s, r, c)) * scale;
            s->q[r * d->columns + c] = d->to == MG_E4M3 ? mg_to_e4m3(x) : mg_to_e5m2(x);
        }
    return 1 / scale;
}

/* A unit is a row of tiles. */
static void round_rows(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Rounding *s = ctx;
    const mg_round_tiles_desc *d = s->d;
    const int64_t wide = mg_round_tiles_row(d),
                  tiles = (d->columns + d->tile_columns - 1) / d->tile_columns;
    float *all = s->f;
    for (int64_t u = begin; u < end; u++) {
        const int64_t row = u * d->tile_rows, left = d->rows - row;
        const int64_t stop = row + (left < d->tile_rows ? left : d->tile_rows);
        for (int64_t t = 0; t < tiles; t++) {
            const float f = round_tile(s, row, stop, t * d->tile_columns);
            if (d->power)
                ((uint8_t *)s->f)[row / 128 * wide + mg_block_place(row, t)] = mg_to_e8m0(f);
            else
                all[d->tile_rows > 1 ? u * wide + t : t * wide + u] = f;
        }
        for (int64_t t = tiles; d->tile_rows > 1 && t < wide; t++)
            all[u * wide + t] = 0;
    }
}

void mg_round_tiles(mg_run *r, int action, const mg_round_tiles_desc *d, const void *x, void *q,
                    void *f)
{
    const int64_t down = (d->rows + d->tile_rows - 1) / d->tile_rows;
    const int64_t bytes = d->tile_rows * d->columns * 3;
    Rounding s = {d, x, q, f};
    if (d->dtype != MG_BF16)
        mgk_fatal("mg_round_tiles", "only tiles of bf16 are built");
    const int64_t scales = mg_round_tiles_rows(d) * mg_round_tiles_row(d);
    mg_begin(r, action);
    if (d->power)
        memset(f, 0, (size_t)scales);
    mg_parallel(r, down, bytes >= 32768 ? 1 : 32768 / bytes + 1, round_rows, &s);
    mg_end(r, action);
    mg_output(r, action, q, d->rows * d->columns, d->to);
    mg_output(r, action, f, scales, d->power ? MG_E8M0 : MG_F32);
}
