/* test_conv.c - convolutions against plain loops in double: random dims, strides, axes and types.
 */
#include "tests/kernels/cm.h"
#include "tests/kernels/pool.h"
#include "tests/conv_case.h"
#include "tests/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case {
    ConvCase of;
    Buffer x, w, y, old;
} Case;

static void fill(Case *c, uint64_t *seed)
{
    const mg_conv_desc *d = &c->of.d;
    int64_t index[MG_CONV_DIMS] = {0};
    const int term = mg_conv_dims(d) - d->terms;
    c->x = buffer_random(d->dtype, c->of.nx, seed);
    c->w = buffer_random(d->dtype, c->of.nw, seed);
    c->y = buffer_new(d->out, c->of.ny);
    c->old = buffer_random(d->out, c->of.ny, seed);
    memset(index, 0, sizeof index);
    do
        if (d->accumulate)
            put(&c->y, conv_place(d, d->y, index), at(&c->old, conv_place(d, d->y, index)));
    while (conv_step(d, index, 0, term));
}

static void check(const Case *c)
{
    const mg_conv_desc *d = &c->of.d;
    int64_t index[MG_CONV_DIMS] = {0};
    const int term = mg_conv_dims(d) - d->terms;
    const double k = (double)mg_conv_size(d, term, d->terms);
    const double tolerance = (d->dtype == MG_F64 ? 1e-15 : 1e-6) * (k + 4);
    do {
        const int64_t y = conv_place(d, d->y, index);
        double sum = d->accumulate ? at(&c->old, y) : 0;
        do {
            const int64_t x = conv_seen(d, index);
            if (x >= 0)
                sum += at(&c->x, x) * at(&c->w, conv_place(d, d->w, index));
        } while (conv_step(d, index, term, mg_conv_dims(d)));
        if (!(fabs(at(&c->y, y) - sum) <= tolerance + roundoff(d->out) * fabs(sum)))
            fail_msg("type %d: y[%ld] is %g, not %g", (int)d->dtype, (long)y, at(&c->y, y), sum);
    } while (conv_step(d, index, 0, term));
}

static void run(Case *c, int threads)
{
    mg_run r = {
        .threads = threads, .scratch = mg_conv_scratch(&c->of.d), .cuts = (uint64_t)threads};
    mg_conv(&r, 0, &c->of.d, c->x.p, c->w.p, c->y.p, NULL);
    assert_int_equal(r.outputs, c->of.ny);
}

static void drop(Case *c)
{
    buffer_free(&c->x);
    buffer_free(&c->w);
    buffer_free(&c->y);
    buffer_free(&c->old);
}

static const mg_dtype types[6][2] = {{MG_F32, MG_F32}, {MG_F64, MG_F64},  {MG_BF16, MG_BF16},
                                     {MG_F16, MG_F16}, {MG_BF16, MG_F32}, {MG_F16, MG_F32}};

static void random_convolutions(void **state)
{
    (void)state;
    for (mgk_level level = 0; level <= pool_best(); level++) {
        pool_level(level);
        for (int i = 0; i < 300; i++) {
            if (!sampled((uint64_t)i, 3)) /* each case has numbers of its own */
                continue;
            uint64_t seed = (uint64_t)(level * 1000 + i + 1);
            Case c = {.of = conv_case(&seed, types[i % 6][0], types[i % 6][1])};
            fill(&c, &seed);
            run(&c, 1 + i % 3);
            check(&c);
            drop(&c);
        }
    }
}

/* Any number of threads gives the same bits. */
static void threads(void **state)
{
    (void)state;
    uint64_t seed = 12;
    pool_level(pool_best());
    for (int i = 0; i < 30; i++) {
        Case c = {.of = conv_case(&seed, types[i % 6][0], types[i % 6][1])}, one;
        fill(&c, &seed);
        one = c;
        one.y = buffer_new(c.of.d.out, c.of.ny);
        for (int64_t e = 0; e < c.of.ny && c.of.d.accumulate; e++)
            put(&one.y, e, at(&c.old, e));
        run(&c, 3);
        run(&one, 1);
        assert_true(same_bits(&c.y, &one.y));
        buffer_free(&one.y);
        drop(&c);
    }
}

/* Images of whole tiles of positions and colours, which are packed once for many taps. `turned`:
 * rows are taps and colours (dw). `outside`: x has its colours outermost, so that nothing is a run,
 * and tiles are packed one by one. */
typedef struct Shape {
    int64_t images, high, wide, down, across, colours, columns;
    int32_t stride, apart; /* of positions, of taps */
    bool turned;
} Shape;

static ConvCase shaped(const Shape *s, mg_dtype t, bool outside)
{
    ConvCase c = {.d = {.dtype = t, .out = t, .rows = 3, .columns = 1, .terms = 3, .axes = 2}};
    mg_conv_desc *d = &c.d;
    const int position = s->turned ? 4 : 0, tap = s->turned ? 0 : 4, column = 3;
    const int64_t high = s->high * s->stride, wide = s->wide * s->stride, n = s->columns;
    const int64_t size[3] = {s->images, s->high, s->wide}, k = s->colours;
    const int64_t shown[3] = {s->down, s->across, k}, all = s->images * high * wide;
    for (int i = 0; i < 3; i++) {
        d->size[position + i] = size[i];
        d->size[tap + i] = shown[i];
    }
    d->size[column] = n;
    d->x[position] = outside ? high * wide : high * wide * k;
    d->x[tap + 2] = outside ? all : 1;
    for (int x = 0; x < 2; x++) {
        mg_conv_axis *a = &d->axis[x];
        *a = (mg_conv_axis){.size = x ? wide : high, .every = 1, .at = -s->apart};
        a->stride = (x ? 1 : wide) * (outside ? 1 : k);
        a->by[position + 1 + x] = s->stride;
        a->by[tap + x] = s->apart;
    }
    int64_t *of_terms = d->w, *of_rows = d->y;
    of_terms[column] = of_rows[column] = 1;
    for (int i = 2, next = (int)n, then = (int)n; i >= 0; i--) {
        of_terms[4 + i] = next, next *= (int)d->size[4 + i];
        of_rows[i] = then, then *= (int)d->size[i];
    }
    c.nx = all * k;
    c.nw = mg_conv_size(d, 4, 3) * n;
    c.ny = mg_conv_size(d, 0, 3) * n;
    return c;
}

/* Gives x's element (place, colour) to where the other layout has it. */
static void lay_outside(const Shape *s, const Buffer *x, Buffer *to, int64_t elements)
{
    const int64_t k = s->colours, places = elements / k;
    for (int64_t p = 0; p < places; p++)
        for (int64_t c = 0; c < k; c++)
            put(to, c * places + p, at(x, p * k + c));
}

/* Both ways have the same bits; the sums are checked where they are few. */
static void once_as_each(const Shape *s, mg_dtype t, bool sums, int threads)
{
    uint64_t seed = (uint64_t)(s->images * 31 + s->wide * 7 + s->colours);
    Case c = {.of = shaped(s, t, false)}, each = {.of = shaped(s, t, true)};
    fill(&c, &seed);
    fill(&each, &seed);
    lay_outside(s, &c.x, &each.x, c.of.nx);
    for (int64_t i = 0; i < c.of.nw; i++)
        put(&each.w, i, at(&c.w, i));
    run(&c, threads);
    run(&each, 1);
    assert_true(same_bits(&c.y, &each.y));
    if (sums)
        check(&c);
    drop(&c);
    drop(&each);
}

static void packed_once(void **state)
{
    (void)state;
    const mg_dtype of[] = {MG_F32, MG_F16, MG_BF16};
    pool_level(pool_best());
    for (int i = 0; i < 36; i++) {
        uint64_t seed = (uint64_t)i + 77;
        Shape s = {.images = conv_draw(&seed, 1, 3), .high = conv_draw(&seed, 1, 9)};
        s.wide = 16 * conv_draw(&seed, 1, 4);
        s.down = conv_draw(&seed, 1, 3);
        s.across = conv_draw(&seed, 1, 3);
        s.colours = conv_draw(&seed, 0, 2) ? 32 * conv_draw(&seed, 1, 3) : 16;
        s.columns = conv_draw(&seed, 1, 50);
        s.stride = (int32_t)conv_draw(&seed, 1, 2);
        s.apart = (int32_t)conv_draw(&seed, 1, 2);
        s.turned = conv_draw(&seed, 0, 1);
        if (sampled((uint64_t)i, 2))
            once_as_each(&s, of[i % 3], true, 1 + i % 3);
    }
    /* Blocks of more rows than are packed tile by tile, of which some cannot be packed once. */
    const Shape many = {4, 16, 16, 3, 3, 256, 40, 1, 1, true};
    once_as_each(&many, MG_F32, false, 2);
    const Shape long_sums = {2, 16, 32, 3, 3, 128, 72, 1, 1, false};
    once_as_each(&long_sums, MG_F32, false, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_convolutions),
        cmocka_unit_test(threads),
        cmocka_unit_test(packed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
