/* test_scales.c - scales of tiles against their definition, with zeros and subnormal numbers; and
 * against those of torchao (tests/passes/quantize_tiles.txt). */
#include "tests/kernels/cm.h"
#include "runtime/fp8.h"
#include "tests/kernels/pool.h"
#include "tests/passes/golden_tiles.h"

#include <math.h>

/* Of the tile that begins at row i and column j of tensor o. */
static double largest(const mg_tile_scale_desc *d, const Buffer *x, int64_t o, int64_t i, int64_t j)
{
    double top = 0;
    for (int64_t r = i; r < d->rows && r < i + d->tile_rows; r++)
        for (int64_t c = j; c < d->columns && c < j + d->tile_columns; c++)
            top = fmax(top, fabs(at(x, (o * d->rows + r) * d->columns + c)));
    return top;
}

static double wanted(const mg_tile_scale_desc *d, double top)
{
    double unit = 0x1p-127;
    while (d->power && unit < (double)((float)top * (float)(1 / d->largest)))
        unit *= 2;
    return d->power ? 1 / unit : (double)(float)(d->largest / fmax(top, 1e-12));
}

static double drawn(uint64_t *seed, bool sparse)
{
    if (sparse && in_range(seed, 0, 9))
        return 0;
    return ldexp((double)in_range(seed, -255, 255), (int)in_range(seed, -140, 119));
}

static void test_scales(void **state)
{
    (void)state;
    uint64_t seed = 71;
    for (int n = 0; n < 200; n++) {
        static const int64_t sides[] = {1, 3, 8, 32, 128, 256};
        mg_tile_scale_desc d = {.dtype = MG_BF16,
                                .outer = in_range(&seed, 1, 3),
                                .rows = in_range(&seed, 1, 40),
                                .columns = in_range(&seed, 1, n % 4 ? 60 : 400),
                                .tile_rows = sides[in_range(&seed, 0, 5)],
                                .tile_columns = sides[in_range(&seed, 0, 5)],
                                .largest = n % 2 ? 448 : 57344,
                                .power = n / 2 % 2};
        const int64_t all = d.outer * d.rows * d.columns;
        Buffer x = buffer_new(MG_BF16, all), y = buffer_new(MG_F32, all);
        for (int64_t e = 0; e < all; e++)
            put(&x, e, drawn(&seed, n % 5 == 0));
        mg_run r = {.threads = 1 + n % 3, .cuts = (uint64_t)n};
        mg_tile_scale(&r, 0, &d, x.p, y.p);
        double want = 0;
        for (int64_t e = 0; e < all; e++) {
            const int64_t row = e / d.columns, i = row % d.rows, j = e % d.columns;
            const int64_t top = i - i % d.tile_rows, left = j - j % d.tile_columns;
            if (j == left) /* else it is as before */
                want = wanted(&d, largest(&d, &x, row / d.rows, top, left));
            assert_true(at(&y, e) == want);
        }
        buffer_free(&x);
        buffer_free(&y);
    }
}

/* A tile that has an infinite number or none at all is NaN as a whole, and no other is. */
static void test_not_finite(void **state)
{
    (void)state;
    uint64_t seed = 72;
    static const uint16_t bad[] = {0x7f80, 0xff80, 0x7fc0, 0xffff, 0x7f81}; /* infinite; NaN */
    for (int n = 0; n < 40; n++) {
        const mg_tile_scale_desc d = {.dtype = MG_BF16,
                                      .outer = 1,
                                      .rows = 40,
                                      .columns = 300,
                                      .tile_rows = n % 2 ? 1 : 16,
                                      .tile_columns = n % 3 ? 32 : 128,
                                      .largest = 448,
                                      .power = n / 2 % 2};
        Buffer x = buffer_new(MG_BF16, d.rows * d.columns), y = buffer_new(MG_F32, x.n);
        for (int64_t e = 0; e < x.n; e++)
            put(&x, e, (double)in_range(&seed, -100, 100));
        const int64_t row = in_range(&seed, 0, d.rows - 1),
                      column = in_range(&seed, 0, d.columns - 1);
        ((uint16_t *)x.p)[row * d.columns + column] = bad[n % 5];
        mg_run r = {.threads = 1 + n % 3, .cuts = (uint64_t)n, .not_finite = true};
        mg_tile_scale(&r, 0, &d, x.p, y.p);
        for (int64_t e = 0; e < y.n; e++) {
            const bool same = e / d.columns / d.tile_rows == row / d.tile_rows &&
                              e % d.columns / d.tile_columns == column / d.tile_columns;
            assert_true(same ? isnan(at(&y, e)) : at(&y, e) > 0 && isfinite(at(&y, e)));
        }
        buffer_free(&x);
        buffer_free(&y);
    }
}

static void test_torchao(void **state)
{
    (void)state;
    FILE *f = fopen(GOLDEN_TILES, "r");
    static GoldenTiles g;
    int tensors = 0;
    assert_non_null(f);
    for (; golden_read(f, &g); tensors++) {
        const mg_tile_scale_desc d = {.dtype = MG_BF16,
                                      .outer = 1,
                                      .rows = g.rows,
                                      .columns = g.columns,
                                      .tile_rows = g.height,
                                      .tile_columns = g.width,
                                      .largest = g.e5m2 ? 57344 : 448,
                                      .power = g.mx};
        Buffer y = buffer_new(MG_F32, d.rows * d.columns);
        mg_run r = {.threads = 2};
        mg_tile_scale(&r, 0, &d, g.number, y.p);
        for (int e = 0; e < g.rows * g.columns; e++)
            assert_true(1 / (float)at(&y, e) == g.inverse[e]);
        buffer_free(&y);
    }
    fclose(f);
    assert_int_equal(tensors, GOLDEN_TENSORS);
}

/* A matrix that is rounded has the scales that mg_tile_scale finds in it where it lies densely, and
 * the numbers that they make; however it lies. */
static void test_matrices(void **state)
{
    (void)state;
    uint64_t seed = 37;
    for (int n = 0; n < 120; n++) {
        const bool squares = n % 2, turned = n / 2 % 2;
        const int64_t rows = in_range(&seed, 1, squares ? 300 : 40);
        const int64_t columns = in_range(&seed, 1, n % 3 ? 300 : 700),
                      apart = in_range(&seed, 0, 3);
        const mg_round_tiles_desc d = {.dtype = MG_BF16,
                                       .to = n % 5 ? MG_E4M3 : MG_E5M2,
                                       .rows = rows,
                                       .columns = columns,
                                       .row_stride = turned ? 1 : columns + apart,
                                       .column_stride = turned ? rows + apart : 1,
                                       .tile_rows = squares ? 128 : 1,
                                       .tile_columns = 128,
                                       .largest = n % 5 ? 448 : 57344};
        const mg_tile_scale_desc like = {MG_BF16,     1,   rows,      columns,
                                         d.tile_rows, 128, d.largest, false};
        const int64_t across = (columns + 127) / 128, wide = (across + 3) / 4 * 4;
        const int64_t all = squares ? (rows + 127) / 128 * wide : across * rows;
        Buffer x = buffer_new(MG_BF16, rows * (columns + 3) + columns * 3);
        Buffer dense = buffer_new(MG_BF16, rows * columns), y = buffer_new(MG_F32, rows * columns);
        Buffer q = buffer_new(MG_BOOL, rows * columns), f = buffer_new(MG_F32, all);
        for (int64_t e = 0; e < rows * columns; e++) {
            put(&dense, e, drawn(&seed, n % 5 == 0));
            put(&x, e / columns * d.row_stride + e % columns * d.column_stride, at(&dense, e));
        }
        mg_run r = {.threads = 1 + n % 3, .cuts = (uint64_t)n};
        mg_tile_scale(&r, 0, &like, dense.p, y.p);
        mg_round_tiles(&r, 0, &d, x.p, q.p, f.p);
        for (int64_t e = 0; e < rows * columns; e++) {
            const int64_t row = e / columns, tile = e % columns / 128;
            const float scale = (float)at(&y, e), scaled = (float)at(&dense, e) * scale;
            const uint8_t code = d.to == MG_E4M3 ? mg_to_e4m3(scaled) : mg_to_e5m2(scaled);
            assert_int_equal(((const uint8_t *)q.p)[e], code);
            assert_true(at(&f, squares ? row / 128 * wide + tile : tile * rows + row) ==
                        (double)(1 / scale));
        }
        for (int64_t e = 0; squares && e < all; e++)
            assert_true(e % wide < across || at(&f, e) == 0);
        buffer_free(&x), buffer_free(&dense), buffer_free(&y), buffer_free(&q), buffer_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scales), cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_torchao)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
