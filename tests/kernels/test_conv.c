/* test_conv.c - convolutions against plain loops in double: random dims, strides, axes and types.
 */
#include "tests/kernels/cm.h"
#include "tests/kernels/pool.h"
#include "runtime/sizes.h"
#include "tests/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case {
    mg_conv_desc d;
    int64_t nx, nw, ny;
    Buffer x, w, y, old;
} Case;

static int dims(const mg_conv_desc *d)
{
    return d->batch + d->rows + d->columns + d->terms;
}

/* Gives the dims of one operand, in a random order, the strides of a dense tensor. */
static int64_t lay(uint64_t *seed, const mg_conv_desc *d, int64_t *stride, const bool *has,
                   int last)
{
    int order[MG_CONV_DIMS], n = 0;
    int64_t run = 1;
    for (int i = dims(d) - 1; i >= 0; i--)
        if (has[i])
            order[n++] = i;
    for (int i = n - 1; i > last; i--) { /* those before `last` stay innermost */
        const int k = (int)in_range(seed, last, i), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    for (int i = 0; i < n; i++) {
        stride[order[i]] = run;
        run *= d->size[order[i]];
    }
    return run;
}

/* A convolution of one to three axes: rows are positions and some others, terms are taps and
 * colours; or, with `turned`, rows are taps and colours, and terms positions (dw). `every` above 1:
 * dx of one with a stride. */
static Case make(uint64_t *seed, mg_dtype t, mg_dtype out)
{
    Case c = {.d = {.dtype = t, .out = out}};
    mg_conv_desc *d = &c.d;
    const bool turned = in_range(seed, 0, 2) == 0;
    d->axes = (int)in_range(seed, 1, 2);
    d->batch = (int)in_range(seed, 0, 3) == 0;
    const int images = 1, colours = 1;
    const int positions = d->axes + images, taps = d->axes + colours;
    d->rows = turned ? taps : positions;
    d->terms = turned ? positions : taps;
    d->columns = (int)in_range(seed, 1, 2);
    d->accumulate = in_range(seed, 0, 2) == 0;
    const int row = d->batch, column = row + d->rows, term = column + d->columns;
    const int position = turned ? term : row, tap = turned ? row : term;
    bool of_x[MG_CONV_DIMS] = {0}, of_w[MG_CONV_DIMS] = {0}, of_y[MG_CONV_DIMS] = {0};
    for (int i = 0; i < dims(d); i++) {
        d->size[i] = in_range(seed, 1, 4);
        of_x[i] = i < row || i == position || i == tap + d->axes;
        of_w[i] = i < row || i >= column;
        of_y[i] = i < term;
    }
    for (int x = 0; x < d->axes; x++) {
        d->size[position + images + x] = in_range(seed, 1, 11);
        d->size[tap + x] = in_range(seed, 1, 4);
    }
    d->size[tap + d->axes] = in_range(seed, 0, 2) ? in_range(seed, 1, 20) : in_range(seed, 60, 70);
    d->size[term - 1] = in_range(seed, 1, 40);
    const bool inside = in_range(seed, 0, 1); /* axes inside, as of images whose colours are not */
    int64_t run = 1;
    const int64_t others = lay(seed, d, d->x, of_x, in_range(seed, 0, 1));
    if (!inside)
        run = others;
    for (int x = 0; x < d->axes; x++) {
        mg_conv_axis *a = &d->axis[x];
        a->size = in_range(seed, 1, 12);
        a->every = in_range(seed, 0, 1) ? 1 : in_range(seed, 2, 3);
        a->at = in_range(seed, -3, 3);
        a->by[position + images + x] =
            (int32_t)(in_range(seed, 0, 3) ? in_range(seed, 1, 3) : in_range(seed, -2, -1));
        a->by[tap + x] = (int32_t)(in_range(seed, 0, 1) ? 1 : in_range(seed, 0, 1) ? -1 : 2);
        a->stride = run;
        run *= a->size;
    }
    for (int i = 0; i < dims(d) && inside; i++)
        d->x[i] *= run;
    c.nx = inside ? run * others : run;
    c.nw = lay(seed, d, d->w, of_w, 0);
    c.ny = lay(seed, d, d->y, of_y, d->columns);
    return c;
}

static int64_t place(const mg_conv_desc *d, const int64_t *stride, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < dims(d); i++)
        at += stride[i] * index[i];
    return at;
}

/* The place of x at some indices; -1: outside. */
static int64_t seen(const mg_conv_desc *d, const int64_t *index)
{
    int64_t at = place(d, d->x, index);
    for (int x = 0; x < d->axes; x++) {
        int64_t p = d->axis[x].at;
        for (int i = 0; i < dims(d); i++)
            p += d->axis[x].by[i] * index[i];
        if (p < 0 || p % d->axis[x].every || p / d->axis[x].every >= d->axis[x].size)
            return -1;
        at += p / d->axis[x].every * d->axis[x].stride;
    }
    return at;
}

static bool step(const mg_conv_desc *d, int64_t *index, int first, int end)
{
    for (int i = end - 1; i >= first; i--) {
        if (++index[i] < d->size[i])
            return true;
        index[i] = 0;
    }
    return false;
}

static void fill(Case *c, uint64_t *seed)
{
    const mg_conv_desc *d = &c->d;
    int64_t index[MG_CONV_DIMS] = {0};
    const int term = dims(d) - d->terms;
    c->x = buffer_random(d->dtype, c->nx, seed);
    c->w = buffer_random(d->dtype, c->nw, seed);
    c->y = buffer_new(d->out, c->ny);
    c->old = buffer_random(d->out, c->ny, seed);
    memset(index, 0, sizeof index);
    do
        if (d->accumulate)
            put(&c->y, place(d, d->y, index), at(&c->old, place(d, d->y, index)));
    while (step(d, index, 0, term));
}

static void check(const Case *c)
{
    const mg_conv_desc *d = &c->d;
    int64_t index[MG_CONV_DIMS] = {0};
    const int term = dims(d) - d->terms;
    const double k = (double)mg_conv_size(d, term, d->terms);
    const double tolerance = (d->dtype == MG_F64 ? 1e-15 : 1e-6) * (k + 4);
    do {
        const int64_t y = place(d, d->y, index);
        double sum = d->accumulate ? at(&c->old, y) : 0;
        do {
            const int64_t x = seen(d, index);
            if (x >= 0)
                sum += at(&c->x, x) * at(&c->w, place(d, d->w, index));
        } while (step(d, index, term, dims(d)));
        if (!(fabs(at(&c->y, y) - sum) <= tolerance + roundoff(d->out) * fabs(sum)))
            fail_msg("type %d: y[%ld] is %g, not %g", (int)d->dtype, (long)y, at(&c->y, y), sum);
    } while (step(d, index, 0, term));
}

static void run(Case *c, int threads)
{
    mg_run r = {.threads = threads, .scratch = mg_conv_scratch(&c->d), .cuts = (uint64_t)threads};
    mg_conv(&r, 0, &c->d, c->x.p, c->w.p, c->y.p, NULL);
    assert_int_equal(r.outputs, c->ny);
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
            Case c = make(&seed, types[i % 6][0], types[i % 6][1]);
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
        Case c = make(&seed, types[i % 6][0], types[i % 6][1]), one;
        fill(&c, &seed);
        one = c;
        one.y = buffer_new(c.d.out, c.ny);
        for (int64_t e = 0; e < c.ny && c.d.accumulate; e++)
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
