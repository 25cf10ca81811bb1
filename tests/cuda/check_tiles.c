/* check_tiles.c - matrices that are rounded to fp8 in tiles, against loops, to the bit: the
 * numbers, the scales where cuBLASLt reads them, and nothing behind either; part of check_kernels.
 */
#include "tests/cuda/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"
#include "runtime/fp8.h"
#include "runtime/half.h"

enum { SIDE = 128, BEHIND = 64 /* bytes that nothing writes */, LEFT = 0xa5 };

/* A place on the device, in the arena, and the bytes that it should have. */
typedef struct Bytes {
    int64_t offset, n;
    unsigned char *p;
} Bytes;

static Bytes bytes_of(Bench *b, int64_t n)
{
    Bytes x = {take(b, n + BEHIND), n, malloc((size_t)(n + BEHIND))};
    memset(x.p, LEFT, (size_t)(n + BEHIND));
    rt_put(&b->run, x.offset, x.p, n + BEHIND);
    return x;
}

static void *on_device(Bench *b, const Bytes *x)
{
    return b->run.arena + x->offset;
}

static unsigned char *back(Bench *b, const Bytes *x)
{
    unsigned char *p = malloc((size_t)(x->n + BEHIND));
    rt_get(&b->run, x->offset, p, x->n + BEHIND);
    return p;
}

/* Of all sizes; a zero now and then, few that are not finite. */
static uint16_t some_half(Bench *b, bool finite)
{
    static const uint16_t odd[] = {0x7f80, 0xff80, 0x7fc0, 0x0001, 0x8000, 0x7f7f};
    if (!finite && draw_int(b, 0, 4000) == 0)
        return odd[draw_int(b, 0, 5)];
    return draw_int(b, 0, 30)
               ? (uint16_t)draw_int(b, 0x3000, 0x47ff) | (uint16_t)(draw_int(b, 0, 1) << 15)
               : 0;
}

/* The number that a tile's numbers are multiplied by. */
static float scale_at(const mg_round_tiles_desc *d, const uint16_t *x, int64_t row, int64_t column)
{
    double top = 0;
    row -= row % d->tile_rows;
    column -= column % d->tile_columns;
    for (int64_t r = row; r < d->rows && r < row + d->tile_rows; r++)
        for (int64_t c = column; c < d->columns && c < column + d->tile_columns; c++) {
            const uint16_t bits = x[r * d->row_stride + c * d->column_stride] & 0x7fff;
            if (bits >= 0x7f80)
                return NAN;
            top = fmax(top, (double)mg_from_bf16(bits));
        }
    double unit = 0x1p-127; /* the least power of two that is not below it */
    while (d->power && unit < (double)((float)top * (float)(1 / d->largest)))
        unit *= 2;
    return d->power ? (float)(1 / unit) : (float)(d->largest / fmax(top, 1e-12));
}

static bool is_code(uint8_t got, float x, mg_dtype t)
{
    if (isnan(x)) /* of either sign */
        return t == MG_E4M3 ? (got & 0x7f) == 0x7f : (got & 0x7f) > 0x7c;
    return got == (t == MG_E4M3 ? mg_to_e4m3(x) : mg_to_e5m2(x));
}

/* The place of a tile's scale. */
static int64_t place(const mg_round_tiles_desc *d, int64_t r, int64_t t)
{
    const int64_t wide = (d->columns + SIDE - 1) / SIDE, all = (wide + 3) / 4 * 4;
    if (d->power) /* blocks of 128 rows and 4 tiles: of every 32nd row those of four after another
                   */
        return ((r / SIDE * wide + t / 4) * 32 + r % 32) * 16 + r % SIDE / 32 * 4 + t % 4;
    return d->tile_rows > 1 ? r / SIDE * all + t : t * d->rows + r;
}

/* How many numbers and scales are not those of loops; what no tile has is 0. */
static int64_t wrong(const mg_round_tiles_desc *d, const uint16_t *x, const unsigned char *q,
                     const unsigned char *f, int64_t scales)
{
    const int64_t every = d->tile_columns, tiles = (d->columns + every - 1) / every;
    const int64_t bytes = d->power ? 1 : 4;
    unsigned char *has = calloc((size_t)scales, 1);
    int64_t n = 0;
    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t t = 0; t < tiles; t++) {
            const float s = scale_at(d, x, r, t * every), want = 1 / s;
            const int64_t at = place(d, r, t);
            float got = d->power && f[at] != 255 ? ldexpf(1, f[at] - 127) : NAN;
            has[at] = 1;
            if (!d->power)
                memcpy(&got, &f[at * bytes], sizeof got);
            n += isnan(s) ? !isnan(got) : memcmp(&got, &want, sizeof got) != 0;
            for (int64_t c = t * every; c < d->columns && c < (t + 1) * every; c++) {
                const float half = mg_from_bf16(x[r * d->row_stride + c * d->column_stride]);
                n += !is_code(q[r * d->columns + c], half * s, d->to);
            }
        }
    for (int64_t i = 0; i < scales * bytes; i++)
        n += !has[i / bytes] && f[i];
    free(has);
    return n;
}

enum { ROWS, SQUARES, POWERS, WAYS };

static void check_matrix(Bench *b, int way, bool turned)
{
    static const char *const names[] = {"round_tiles, rows", "round_tiles, squares",
                                        "round_tiles, mx"};
    const bool squares = way == SQUARES;
    const int64_t whole = draw_int(b, 0, 1) ? 16 : 1, apart = whole * draw_int(b, 0, 2);
    const int64_t rows = draw_int(b, 1, 200 / whole) * whole,
                  columns = draw_int(b, 1, 400 / whole) * whole;
    const mg_dtype to = draw_int(b, 0, 1) ? MG_E4M3 : MG_E5M2;
    const mg_round_tiles_desc d = {.dtype = MG_BF16,
                                   .to = to,
                                   .rows = rows,
                                   .columns = columns,
                                   .row_stride = turned ? 1 : columns + apart,
                                   .column_stride = turned ? rows + apart : 1,
                                   .tile_rows = squares ? SIDE : 1,
                                   .tile_columns = way == POWERS ? 32 : SIDE,
                                   .largest = to == MG_E4M3 ? 448 : 57344,
                                   .power = way == POWERS};
    const int64_t wide = (columns + SIDE - 1) / SIDE, down = (rows + SIDE - 1) / SIDE;
    const int64_t scales = way == POWERS ? down * wide * 512
                           : squares     ? down * ((wide + 3) / 4 * 4)
                                         : wide * rows;
    const bool finite = draw_int(b, 0, 1);
    Bytes x = bytes_of(b, 2 * (turned ? columns * (rows + apart) : rows * (columns + apart)));
    Bytes q = bytes_of(b, rows * columns);
    Bytes f = bytes_of(b, way == POWERS ? scales : 4 * scales);
    for (int64_t i = 0; i < x.n / 2; i++)
        ((uint16_t *)x.p)[i] = some_half(b, finite);
    rt_put(&b->run, x.offset, x.p, x.n);
    mg_round_tiles(&b->run, 0, &d, on_device(b, &x), on_device(b, &q), on_device(b, &f));
    unsigned char *number = back(b, &q), *scale = back(b, &f);
    const int64_t off = wrong(&d, (uint16_t *)x.p, number, scale, scales);
    const bool beyond =
        memcmp(number + q.n, q.p + q.n, BEHIND) != 0 || memcmp(scale + f.n, f.p + f.n, BEHIND) != 0;
    printf("%s %-21s %-4s %lld x %lld%s, %lld are wrong%s\n", off || beyond ? "FAIL" : "ok  ",
           names[way], to == MG_E4M3 ? "E4M3" : "E5M2", (long long)rows, (long long)columns,
           turned ? ", turned" : "", (long long)off, beyond ? ", and bytes behind" : "");
    *(off || beyond ? &b->failed : &b->passed) += 1;
    free(number), free(scale);
    free(x.p), free(q.p), free(f.p);
    b->used = 0;
}

void check_tiles(Bench *b)
{
    for (int i = 0; i < 2 * WAYS && b->run.cuda->warpgroups; i++)
        check_matrix(b, i % WAYS, i / WAYS);
}
