/* base_nf4.c - matrices in NF4, four items of the catalog each, with names of one beginning:
 *
 *   NAME                 codes, u8: byte j of block k has elements 64 k + j and 64 k + 32 + j
 *   NAME.absmax          of each block, dynamic8, in units of its scale, off the offset
 *   NAME.nested_absmax   scales, each of a run of blocks that lie in one group of 256
 *   NAME.offset          of the matrix
 *
 * Each has its elements in the order of the file's, so that runs of the last are groups of the one
 * before. */
#include <stdlib.h>

#include "runtime/checkpoint/base_kinds.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/nf4_blocks.h"
#include "runtime/half.h"
#include "runtime/number.h"

enum { HALF = NF4_BLOCK / 2 };

typedef struct making {
    mg_run *r;
    const rt_external *x;
    char **stored;
    float *absmax; /* of all blocks */
    uint8_t *bytes;
    const char *dtype, *in; /* of the piece at hand */
    int64_t at;
} making;

static int64_t blocks_of(const rt_external *x)
{
    return x->form->whole / HALF;
}

/* ---- making -----------------------------------------------------------------------------------
 */

static void *begin(mg_run *r, const rt_external *x, char **stored)
{
    making *b = rt_alloc(1, sizeof *b);
    *b = (making){.r = r, .x = x, .stored = stored};
    b->absmax = rt_alloc((size_t)blocks_of(x), sizeof *b->absmax);
    b->bytes = rt_alloc(RT_CHUNK, 1);
    return b;
}

static void make_blocks(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const making *b = ctx;
    const int64_t first = b->at / NF4_BLOCK;
    (void)scratch;
    for (int64_t k = begin; k < end; k++) {
        float x[NF4_BLOCK];
        uint8_t code[NF4_BLOCK];
        for (int64_t i = 0; i < NF4_BLOCK; i++)
            x[i] = (float)rt_number(b->dtype, b->in, k * NF4_BLOCK + i);
        b->absmax[first + k] = mg_nf4_block(x, NF4_BLOCK, code);
        for (int64_t i = 0; i < HALF; i++)
            b->bytes[k * HALF + i] = (uint8_t)(code[i] << 4 | code[HALF + i]);
    }
    rt_whole_put(b->x, b->stored, (first + begin) * HALF, (end - begin) * HALF,
                 b->bytes + begin * HALF);
}

static void put(void *of, const char *dtype, const char *in, int64_t at, int64_t n)
{
    making *b = of;
    b->dtype = dtype;
    b->in = in;
    b->at = at;
    rt_pool_run(b->r->pool, n / NF4_BLOCK, 64, make_blocks, b);
}

static void end(void *of)
{
    making *b = of;
    const rt_external *absmax = rt_base_part(b->r, b->x, "absmax"),
                      *scales = rt_base_part(b->r, b->x, "nested_absmax"),
                      *offset = rt_base_part(b->r, b->x, "offset");
    const int64_t blocks = blocks_of(b->x), runs = scales->form->whole;
    const float mean = mg_nf4_offset(b->absmax, blocks);
    uint8_t *bits = rt_alloc((size_t)blocks, 1);
    float *scale = rt_alloc((size_t)runs, sizeof *scale);
    for (int64_t k = 0; k < blocks; k += NF4_NESTED) {
        const int64_t n = blocks - k < NF4_NESTED ? blocks - k : NF4_NESTED;
        const float s = mg_nf4_nested(b->absmax + k, n, mean, bits + k);
        for (int64_t i = k * runs / blocks; i < runs && i * (blocks / runs) < k + n; i++)
            scale[i] = s;
    }
    rt_base_put_all(b->r, absmax, bits);
    rt_base_put_floats(b->r, scales, scale);
    rt_base_put_floats(b->r, offset, &mean);
    free(bits);
    free(scale);
    free(b->absmax);
    free(b->bytes);
    free(b);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* The number that the program computes, in its order: floats are rounded where it rounds them. */
static double dequantised(float number, float unit, double scale, double offset, mg_dtype wide)
{
    if (wide == MG_F64)
        return (double)number * ((double)unit * scale + offset);
    const float product = unit * (float)scale, absmax = product + (float)offset;
    const float x = number * absmax;
    return (double)(wide == MG_BF16 ? mg_from_bf16(mg_to_bf16(x)) : x);
}

static void values(mg_run *r, const rt_external *x, double *to)
{
    const rt_external *scales = rt_base_part(r, x, "nested_absmax"),
                      *offset = rt_base_part(r, x, "offset");
    const int64_t blocks = blocks_of(x), each = blocks / scales->form->whole;
    uint8_t *bytes = rt_base_get_all(r, x),
            *bits = rt_base_get_all(r, rt_base_part(r, x, "absmax"));
    void *scale = rt_base_get_all(r, scales), *mean = rt_base_get_all(r, offset);
    const double at = rt_base_number(offset, mean, 0);
    for (int64_t k = 0; k < blocks; k++) {
        const float unit = mg_from_dynamic8(bits[k]);
        const double s = rt_base_number(scales, scale, k / each);
        for (int64_t i = 0; i < NF4_BLOCK; i++) {
            const float number = mg_nf4f(bytes[k * HALF + i % HALF], i >= HALF);
            to[k * NF4_BLOCK + i] = dequantised(number, unit, s, at, x->form->tensor->wide);
        }
    }
    free(bytes);
    free(bits);
    free(scale);
    free(mean);
}

static int64_t bytes(const rt_external *x)
{
    return blocks_of(x) * (int64_t)(2 * sizeof(float) + sizeof(double) + 1) + RT_CHUNK;
}

const rt_base_kind rt_base_nf4 = {2, begin, put, end, values, bytes};
