/* check.c - see check.h. */
#include "tests/cuda/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/number.h"

static const char *const names[] = {
    [MG_F32] = "F32", [MG_F64] = "F64", [MG_BF16] = "BF16", [MG_F16] = "F16", [MG_I32] = "I32"};

bool is_half(mg_dtype t)
{
    return t == MG_BF16 || t == MG_F16;
}

mg_dtype statistic(mg_dtype t)
{
    return is_half(t) ? MG_F32 : t;
}

/* The nearest half, ties to even; |x| is far from the ends of the range. */
static uint16_t half_of(double x, mg_dtype t)
{
    int exponent, bits = t == MG_BF16 ? 7 : 10, bias = t == MG_BF16 ? 127 : 15;
    if (isnan(x))
        return 0x7fff;
    if (isinf(x))
        return (uint16_t)((x < 0 ? 0x8000 : 0) | (2 * bias + 1) << bits);
    double f = frexp(fabs(x), &exponent) * 2; /* in [1, 2) */
    exponent += bias - 1;
    int64_t m = exponent > 0 ? (int64_t)exponent << bits : 0;
    m += (int64_t)nearbyint(exponent > 0 ? ldexp(f - 1, bits) : ldexp(fabs(x), bias - 1 + bits));
    return (uint16_t)((x < 0 ? 0x8000 : 0) | m);
}

double draw(Bench *b)
{
    b->rng ^= b->rng >> 12;
    b->rng ^= b->rng << 25;
    b->rng ^= b->rng >> 27;
    return (double)(b->rng * 0x2545F4914F6CDD1Du >> 11) * 0x1p-53;
}

int64_t draw_int(Bench *b, int64_t min, int64_t max)
{
    return min + (int64_t)(draw(b) * (double)(max - min + 1));
}

void *at(Bench *b, const Array *a)
{
    return b->run.arena + a->offset;
}

int64_t take(Bench *b, int64_t bytes)
{
    int64_t offset = b->used;
    b->used += (bytes + 255) / 256 * 256;
    if (b->used > ARENA)
        rt_die(RT_FAILED, "the arena of the check is too small");
    return offset;
}

/* x[i] as the device has it, at p. */
static void put_number(char *p, int64_t i, mg_dtype t, double x)
{
    if (t == MG_F64)
        ((double *)p)[i] = x;
    else if (t == MG_F32)
        ((float *)p)[i] = (float)x;
    else
        ((uint16_t *)p)[i] = half_of(x, t);
}

void upload(Bench *b, Array *a)
{
    char *bytes = malloc((size_t)(a->n * mg_dtype_bytes(a->t)));
    for (int64_t i = 0; i < a->n; i++) {
        put_number(bytes, i, a->t, a->x[i]);
        a->x[i] = rt_number(names[a->t], bytes, i);
    }
    rt_put(&b->run, a->offset, bytes, a->n * mg_dtype_bytes(a->t));
    free(bytes);
}

Array numbers_of(Bench *b, int64_t n, mg_dtype t)
{
    Array a = {take(b, n * mg_dtype_bytes(t)), n, malloc((size_t)n * sizeof(double)), t};
    for (int64_t i = 0; i < n; i++)
        a.x[i] = 2 * draw(b) - 1;
    upload(b, &a);
    return a;
}

Array numbers(Bench *b, int64_t n)
{
    return numbers_of(b, n, b->t);
}

Array indices(Bench *b, int64_t n, int64_t limit)
{
    Array a = {take(b, n * 4), n, malloc((size_t)n * sizeof(double)), MG_I32};
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    for (int64_t i = 0; i < n; i++)
        a.x[i] = ids[i] = (int32_t)draw_int(b, 0, limit - 1);
    rt_put(&b->run, a.offset, ids, n * 4);
    free(ids);
    return a;
}

double *download(Bench *b, const Array *a)
{
    double *x = malloc((size_t)a->n * sizeof *x);
    char *bytes = malloc((size_t)(a->n * mg_dtype_bytes(a->t)));
    rt_get(&b->run, a->offset, bytes, a->n * mg_dtype_bytes(a->t));
    for (int64_t i = 0; i < a->n; i++)
        x[i] = rt_number(names[a->t], bytes, i);
    free(bytes);
    return x;
}

void compare_numbers(Bench *b, const Compared *c)
{
    double off = 0, size = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const double away = fabs(c->x[i] - c->want[i]);
        if (c->want[i] == NOTHING) {
            off = away <= 1e-6 * -NOTHING ? off : INFINITY;
            continue;
        }
        size = fmax(size, fabs(c->want[i]));
        off = isfinite(c->x[i]) ? fmax(off, away) : INFINITY;
        if (c->zero && c->zero[i] && c->x[i] != 0)
            off = INFINITY;
    }
    double unit = statistic(c->t) == MG_F64 ? 0x1p-52 : 0x1p-23;
    if (size == 0)
        size = 1;
    double bound = unit * (16 + c->terms) * fmax(size, c->term); /* some for exp and log */
    if (is_half(b->t))
        bound += (b->t == MG_BF16 ? 0x1p-8 : 0x1p-11) * (c->roundings + is_half(c->t)) *
                 fmax(size, c->size);
    bool good = off <= bound;
    printf("%s %-21s %-4s off by %.1e of %.1e, bound %.1e\n", good ? "ok  " : "FAIL", c->what,
           names[b->t], off, size, bound);
    *(good ? &b->passed : &b->failed) += 1;
}

void compare(Bench *b, const char *what, const Array *a, const double *want, double terms,
             double roundings)
{
    double *x = download(b, a);
    compare_numbers(b, &(Compared){.what = what,
                                   .t = a->t,
                                   .n = a->n,
                                   .x = x,
                                   .want = want,
                                   .terms = terms,
                                   .roundings = roundings});
    free(x);
}

void done(Bench *b, int n, Array *const *a)
{
    for (int i = 0; i < n; i++)
        free(a[i]->x);
    b->used = 0;
}
