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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_convolutions),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
