/* check_grouped.c - grouped products and gradients of their matrices, against loops in double: of
 * experts with several tiles of rows, with a part of one, and with none. */
#include "tests/cuda/check.h"

#include <stdlib.h>

/* Ends of rows that are split anywhere; now and then some rows are left over. */
static Array draw_ends(Bench *b, const mg_grouped_desc *d)
{
    Array a = indices(b, d->groups * d->experts, 1);
    int32_t *end = malloc((size_t)a.n * sizeof *end);
    for (int64_t i = 0, last = 0; i < a.n; i++) {
        last = i % d->experts ? last : 0;
        if (draw_int(b, 0, 3))
            last += draw_int(b, 0, (d->rows - last) / draw_int(b, 1, 2));
        if (i % d->experts == d->experts - 1 && draw_int(b, 0, 3))
            last = d->rows;
        a.x[i] = end[i] = (int32_t)last;
    }
    rt_put(&b->run, a.offset, end, a.n * 4);
    free(end);
    return a;
}

static double *loops(const mg_grouped_desc *d, bool weight, const double *z, const double *other,
                     const Array *end, const Array *to)
{
    double *want = calloc((size_t)to->n, sizeof *want);
    for (int64_t i = 0; d->accumulate && i < to->n; i++)
        want[i] = to->x[i];
    for (int64_t r = 0; r < d->groups * d->rows; r++) {
        int64_t e = 0;
        while (e < d->experts && (double)(r % d->rows) >= end->x[r / d->rows * d->experts + e])
            e++;
        for (int64_t i = 0; i < d->k * d->n && e < d->experts; i++) {
            const int64_t k = i / d->n, n = i % d->n, one = e * d->k * d->n;
            if (weight)
                want[one + i] += z[r * d->k + k] * other[r * d->n + n];
            else
                want[r * d->n + n] += z[r * d->k + k] * other[one + (d->turned ? n * d->k + k : i)];
        }
    }
    return want;
}

/* Operands may begin anywhere in their buffers. */
static void check_case(Bench *b, const char *what, bool weight)
{
    const bool even = draw_int(b, 0, 1); /* rows that are read sixteen bytes at a time */
    mg_grouped_desc d = {.dtype = b->t, .out = draw_int(b, 0, 1) ? b->t : statistic(b->t)};
    d.turned = !weight && draw_int(b, 0, 1);
    d.accumulate = weight && draw_int(b, 0, 1);
    d.groups = draw_int(b, 1, 3);
    d.rows = draw_int(b, 1, 400);
    d.experts = draw_int(b, 1, 6);
    d.k = even ? 8 * draw_int(b, 1, 20) : draw_int(b, 1, 90);
    d.n = even ? 8 * draw_int(b, 1, 20) : draw_int(b, 1, 90);
    const int64_t way[] = {draw_int(b, 0, 3) ? 0 : draw_int(b, 1, 9),
                           draw_int(b, 0, 3) ? 0 : draw_int(b, 1, 9)};
    const int64_t ny = d.groups * d.rows * d.n, nw = d.experts * d.k * d.n;
    const int64_t width = mg_dtype_bytes(d.dtype);
    Array z = numbers(b, d.groups * d.rows * d.k + way[0]),
          other = numbers(b, (weight ? ny : nw) + way[1]), end = draw_ends(b, &d),
          to = numbers_of(b, weight ? nw : ny, d.out);
    const void *first = (char *)at(b, &z) + way[0] * width,
               *second = (char *)at(b, &other) + way[1] * width;
    double *want = loops(&d, weight, z.x + way[0], other.x + way[1], &end, &to);
    if (weight)
        mg_grouped_weight(&b->run, 0, &d, first, second, at(b, &end), at(b, &to));
    else
        mg_grouped(&b->run, 0, &d, first, second, at(b, &end), at(b, &to));
    compare(b, what, &to, want, (double)(weight ? d.groups * d.rows : d.k) + d.accumulate,
            weight ? (double)(d.groups - 1) : 0);
    free(want);
    done(b, 4, (Array *[]){&z, &other, &end, &to});
}

void check_grouped(Bench *b)
{
    const mg_program *was = b->run.program;
    mg_program tf32 = *was;
    tf32.tf32 = true;
    for (int i = 0; i < 4; i++)
        check_case(b, i % 2 ? "grouped_weight" : "grouped", i % 2);
    for (int i = 0; i < 2 && b->t == MG_F32; i++) {
        b->run.program = &tf32;
        check_case(b, i ? "grouped_weight, tf32" : "grouped, tf32", i);
        b->run.program = was;
    }
}
