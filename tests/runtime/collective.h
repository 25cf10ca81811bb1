/* collective.h - random collectives and what they give, by their definition in abi.h; for
 * test_comm.c (processors) and tests/cuda/check_comm.c. */
#ifndef MG_TEST_COLLECTIVE_H
#define MG_TEST_COLLECTIVE_H

#include <math.h>

#include "runtime/half.h"
#include "runtime/run.h"

/* Element i of the x of a rank, exact in every type, and different for each. */
static double value(int rank, int64_t i)
{
    return (double)((i * 7 + rank * 3) % 61);
}

static void put(mg_dtype t, char *at, int64_t i, double v)
{
    if (t == MG_F64)
        ((double *)at)[i] = v;
    else if (t == MG_F32)
        ((float *)at)[i] = (float)v;
    else if (t == MG_BF16 || t == MG_F16)
        ((uint16_t *)at)[i] = t == MG_BF16 ? mg_to_bf16((float)v) : mg_to_f16((float)v);
    else
        ((int32_t *)at)[i] = (int32_t)v;
}

static double get(mg_dtype t, const char *at, int64_t i)
{
    return t == MG_F64    ? ((const double *)at)[i]
           : t == MG_F32  ? ((const float *)at)[i]
           : t == MG_BF16 ? mg_from_bf16(((const uint16_t *)at)[i])
           : t == MG_F16  ? mg_from_f16(((const uint16_t *)at)[i])
                          : ((const int32_t *)at)[i];
}

/* A dim of an index: [outer, size, inner]. */
static int64_t along(int64_t i, int64_t size, int64_t inner)
{
    return i / inner % size;
}

/* The same index where that dim has another size and place. */
static int64_t moved(int64_t i, int64_t size, int64_t inner, int64_t to_size, int64_t to)
{
    return (i / (inner * size) * to_size + to) * inner + i % inner;
}

/* The place in the whole dim of place `at` in the part of rank `me`; a part is half..half. */
static int64_t in_whole(const mg_comm_desc *d, int64_t part, int me, int64_t at)
{
    int64_t half = part / 2;
    if (!d->zigzag)
        return me * part + at;
    return at < half ? me * half + at : (2 * d->n - 1 - me) * half + at - half;
}

/* Finds the rank whose part has place `at` of the whole dim. Returns the place in that part. */
static int64_t in_part(const mg_comm_desc *d, int64_t part, int64_t at, int *rank)
{
    for (*rank = 0;; ++*rank)
        for (int64_t p = 0; p < part; p++)
            if (in_whole(d, part, *rank, p) == at)
                return p;
}

/* Element i of a whole sum or maximum. */
static double summed(const mg_comm_desc *d, const int *member, int64_t i)
{
    double sum = 0;
    for (int k = 0; k < d->n; k++) {
        double v = value(member[k], i);
        sum = !k ? v : d->max ? fmax(sum, v) : sum + v;
    }
    return sum;
}

/* Of element i of a rank's part of x: its number in x. */
static int64_t of_part(const mg_comm_desc *d, int me, int64_t i)
{
    int64_t part = d->size / d->n;
    return moved(i, part, d->inner, d->size, in_whole(d, part, me, along(i, part, d->inner)));
}

/* y has the gathered dim n times as long; in all_to_all the other is cut, and may be inside. */
static double gathered(const mg_comm_desc *d, const int *member, int me, int64_t i)
{
    bool turned = d->kind == MG_ALL_TO_ALL, inside = turned && d->outer * d->size <= d->to_outer;
    int64_t inner = inside ? d->inner / d->n : d->inner, all = d->size * d->n;
    int k;
    int64_t at = in_part(d, d->size, along(i, all, inner), &k);
    i = moved(i, all, inner, d->size, at);
    if (turned) {
        /* Now only the other dim is cut: put it where it is in x. */
        int64_t cut = d->to_size / d->n;
        i = moved(i, cut, d->to_inner, d->to_size, me * cut + along(i, cut, d->to_inner));
    }
    return value(member[k], i);
}

/* Element i of y, by the definition. */
static double expected(const mg_comm_desc *d, const int *member, int me, int64_t i)
{
    switch (d->kind) {
    case MG_ALL_REDUCE:
        return summed(d, member, i);
    case MG_REDUCE_SCATTER:
        return summed(d, member, of_part(d, me, i));
    case MG_ALL_GATHER:
    case MG_ALL_TO_ALL:
        return gathered(d, member, me, i);
    case MG_SHARD:
        return value(member[me], of_part(d, me, i));
    case MG_RING_SHIFT:
        return value(member[(me + (int)d->n - 1) % (int)d->n], i);
    case MG_BROADCAST:
        return value(member[d->root], i);
    }
    return NAN;
}

static uint64_t draw_bits(uint64_t *seed)
{
    return rt_mix64(++*seed);
}

static int64_t any(uint64_t *seed, int64_t n)
{
    return 1 + (int64_t)(draw_bits(seed) % (uint64_t)n);
}

/* On a mesh of `naxes` axes of two ranks each. */
static mg_comm_desc random_desc(uint64_t *seed, int naxes)
{
    static const mg_dtype types[] = {MG_F32, MG_F64, MG_I32};
#define MG_KIND(number, kind, does) kind,
    static const mg_comm_kind kinds[] = {MG_COLLECTIVES(MG_KIND)};
#undef MG_KIND
    mg_comm_desc d = {.kind = kinds[any(seed, sizeof kinds / sizeof *kinds) - 1],
                      .dtype = types[any(seed, 3) - 1],
                      .axes = (uint32_t)any(seed, (1 << naxes) - 1)};
    bool sums = d.kind == MG_ALL_REDUCE || d.kind == MG_REDUCE_SCATTER;
    d.n = 1 << __builtin_popcount(d.axes);
    d.root = (int)any(seed, d.n) - 1;
    d.max = d.kind == MG_ALL_REDUCE && any(seed, 2) == 1;
    d.tree = sums && !d.max && d.dtype != MG_I32 && any(seed, 3) == 1;
    d.zigzag = (d.kind == MG_REDUCE_SCATTER || d.kind == MG_ALL_GATHER || d.kind == MG_SHARD) &&
               any(seed, 3) == 1;
    int64_t big = any(seed, 4) == 1 ? 40 : 4;
    if (d.kind != MG_ALL_TO_ALL) {
        d.outer = any(seed, 5);
        d.size = any(seed, big) * d.n * (d.zigzag ? 2 : 1);
        d.inner = any(seed, 12);
        if (any(seed, 6) == 1) { /* few long pieces */
            d.outer = any(seed, 3);
            d.size = (d.kind == MG_ALL_GATHER ? 1 : d.n) * (d.zigzag ? 2 : 1);
            d.inner += 6000;
        }
        return d;
    }
    /* dims: outside, one, between, other, inside; sizes of 1 too */
    int64_t o = any(seed, 3), a = any(seed, 3), m = any(seed, 3), b = any(seed, 3) * d.n;
    int64_t i = any(seed, 4);
    bool first = any(seed, 2) == 1; /* is the gathered dim the outer one? */
    int64_t one = first ? a : b, other = first ? b : a;
    mg_comm_desc outer = {.outer = o, .size = one, .inner = m * other * i};
    mg_comm_desc within = {.outer = o * one * m, .size = other, .inner = i};
    d.outer = first ? outer.outer : within.outer;
    d.size = a;
    d.inner = first ? outer.inner : within.inner;
    d.to_outer = first ? within.outer : outer.outer;
    d.to_size = b;
    d.to_inner = first ? within.inner : outer.inner;
    return d;
}

#endif
