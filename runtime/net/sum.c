/* sum.c - adds up the arrays of a group's members; see sum.h. The sum is made block by block, in
 * a buffer that stays in the nearest cache for any number of members. Each array is read once,
 * as a stream, and the sum is written once. Each inner loop reads one array, so that it
 * vectorises (CMakeLists.txt asks for that). */
#include "runtime/net/sum.h"

#include <string.h>

#include "runtime/half.h"

enum { BLOCK = 256, LEVELS = 10 };

static int64_t many_of(int64_t left)
{
    return left < BLOCK ? left : BLOCK;
}

/* ---- in the order of members ----------------------------------------------------------------- */

#define ADD_UP(name, T)                                                                            \
    static void name(bool max, int n, const char *const *from, T *to, int64_t elements)            \
    {                                                                                              \
        T sum[BLOCK];                                                                              \
        for (int64_t at = 0; at < elements; at += BLOCK) {                                         \
            const int64_t many = many_of(elements - at);                                           \
            memcpy(sum, (const T *)from[0] + at, (size_t)many * sizeof *to);                       \
            for (int k = 1; k < n; k++) {                                                          \
                const T *one = (const T *)from[k] + at;                                            \
                if (max)                                                                           \
                    for (int64_t e = 0; e < many; e++)                                             \
                        sum[e] = one[e] > sum[e] ? one[e] : sum[e];                                \
                else                                                                               \
                    for (int64_t e = 0; e < many; e++)                                             \
                        sum[e] += one[e];                                                          \
            }                                                                                      \
            memcpy(to + at, sum, (size_t)many * sizeof *to);                                       \
        }                                                                                          \
    }

ADD_UP(add_f32, float)
ADD_UP(add_f64, double)
ADD_UP(add_i32, int32_t)

static float widened(uint16_t h, mg_dtype t)
{
    return t == MG_BF16 ? mg_from_bf16(h) : mg_from_f16(h);
}

static uint16_t rounded(float x, mg_dtype t)
{
    return t == MG_BF16 ? mg_to_bf16(x) : mg_to_f16(x);
}

static void add_half(mg_dtype t, bool max, int n, const char *const *from, uint16_t *to,
                     int64_t elements)
{
    float sum[BLOCK];
    for (int64_t at = 0; at < elements; at += BLOCK) {
        const int64_t many = many_of(elements - at);
        for (int k = 0; k < n; k++) {
            const uint16_t *one = (const uint16_t *)from[k] + at;
            for (int64_t e = 0; e < many; e++) {
                const float x = widened(one[e], t);
                sum[e] = !k ? x : !max ? sum[e] + x : x > sum[e] ? x : sum[e];
            }
        }
        for (int64_t e = 0; e < many; e++)
            to[at + e] = rounded(sum[e], t);
    }
}

/* ---- in a tree ------------------------------------------------------------------------------- */

/* Adds ranks 0 and 1, 2 and 3, ..., then those pairs: a partial sum waits for its neighbour.
 * Each number is first added to 0: then no zero is negative, whichever rank or iteration it
 * comes from. */
#define ADD_TREE(name, T)                                                                          \
    static void name(int n, const char *const *from, T *to, int64_t elements)                      \
    {                                                                                              \
        T waiting[LEVELS][BLOCK];                                                                  \
        for (int64_t at = 0; at < elements; at += BLOCK) {                                         \
            const int64_t many = many_of(elements - at);                                           \
            int top = 0;                                                                           \
            for (int k = 0; k < n; k++, top++) {                                                   \
                for (int64_t e = 0; e < many; e++)                                                 \
                    waiting[top][e] = ((const T *)from[k])[at + e] + (T)0;                         \
                for (int pairs = k; pairs & 1; pairs >>= 1, top--)                                 \
                    for (int64_t e = 0; e < many; e++)                                             \
                        waiting[top - 1][e] += waiting[top][e];                                    \
            }                                                                                      \
            for (; top > 1; top--)                                                                 \
                for (int64_t e = 0; e < many; e++)                                                 \
                    waiting[top - 2][e] += waiting[top - 1][e];                                    \
            memcpy(to + at, waiting[0], (size_t)many * sizeof *to);                                \
        }                                                                                          \
    }

ADD_TREE(add_tree_f32, float)
ADD_TREE(add_tree_f64, double)

void rt_sum(const mg_comm_desc *d, const char *const *from, char *to, int64_t elements)
{
    const int n = (int)d->n;
    if (d->tree && d->dtype == MG_F64)
        add_tree_f64(n, from, (double *)(void *)to, elements);
    else if (d->tree)
        add_tree_f32(n, from, (float *)(void *)to, elements);
    else if (d->dtype == MG_F64)
        add_f64(d->max, n, from, (double *)(void *)to, elements);
    else if (d->dtype == MG_F32)
        add_f32(d->max, n, from, (float *)(void *)to, elements);
    else if (d->dtype == MG_I32)
        add_i32(d->max, n, from, (int32_t *)(void *)to, elements);
    else
        add_half(d->dtype, d->max, n, from, (uint16_t *)(void *)to, elements);
}
