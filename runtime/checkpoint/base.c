/* base.c - see base.h. A matrix is four items of the catalog, with names of one beginning:
 *
 *   NAME                 codes, u8: byte j of block k has elements 64 k + j and 64 k + 32 + j
 *   NAME.absmax          of each block, dynamic8, in units of its scale, off the offset
 *   NAME.nested_absmax   scales, each of a run of blocks that lie in one group of 256
 *   NAME.offset          of the matrix
 *
 * Each has its elements in the order of the file's, so that runs of the last are groups of the one
 * before. */
#include "runtime/checkpoint/base.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/nf4_blocks.h"
#include "runtime/half.h"
#include "runtime/number.h"

enum { HALF = NF4_BLOCK / 2 };

struct rt_base {
    mg_run *r;
    const rt_external *x;
    char **stored;
    float *absmax; /* of all blocks */
    uint8_t *bytes;
    const char *dtype, *in; /* of the piece at hand */
    int64_t at;
};

bool rt_base_beside(const rt_external *x)
{
    return x->form->tensor->coded > MG_BASE_CODES;
}

static bool is_codes(const rt_external *x)
{
    return x->form->tensor->coded == MG_BASE_CODES;
}

mg_dtype rt_file_dtype(const rt_external *x)
{
    return is_codes(x) ? x->form->tensor->wide : x->form->tensor->dtype;
}

int64_t rt_file_elements(const rt_external *x)
{
    return x->form->whole * (is_codes(x) ? 2 : 1);
}

int64_t rt_file_size(const rt_external *x, int dim)
{
    return x->form->shape[dim] * (is_codes(x) && dim == x->form->rank - 1 ? 2 : 1);
}

static const rt_external *beside(const mg_run *r, const rt_external *x, const char *end)
{
    char *name = rt_printf("%s.%s", x->name, end);
    const int found = rt_catalog_find(&r->params, name);
    if (found < 0)
        rt_die(RT_MISFIT, "there is no %s: this program was not made by its compiler", name);
    free(name);
    return &r->params.item[found];
}

static int64_t blocks_of(const rt_external *x)
{
    return x->form->whole / HALF;
}

/* ---- making -----------------------------------------------------------------------------------
 */

rt_base *rt_base_begin(mg_run *r, const rt_external *x)
{
    rt_base *b = rt_alloc(1, sizeof *b);
    *b = (rt_base){.r = r, .x = x, .stored = rt_whole_open(r, x, false)};
    b->absmax = rt_alloc((size_t)blocks_of(x), sizeof *b->absmax);
    b->bytes = rt_alloc(RT_CHUNK, 1);
    return b;
}

static void make_blocks(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const rt_base *b = ctx;
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

void rt_base_put(rt_base *b, const char *dtype, const char *in, int64_t at, int64_t n)
{
    b->dtype = dtype;
    b->in = in;
    b->at = at;
    rt_pool_run(b->r->pool, n / NF4_BLOCK, 64, make_blocks, b);
}

static void put_all(mg_run *r, const rt_external *x, const void *values)
{
    char **stored = rt_whole_open(r, x, false);
    rt_whole_put(x, stored, 0, x->form->whole, values);
    rt_whole_close(r, x, stored, true);
}

/* Floats as the type in which the program computes. */
static void put_floats(mg_run *r, const rt_external *x, const float *values)
{
    const int64_t n = x->form->whole;
    if (x->form->tensor->dtype != MG_F64) {
        put_all(r, x, values);
        return;
    }
    double *wide = rt_alloc((size_t)n, sizeof *wide);
    for (int64_t i = 0; i < n; i++)
        wide[i] = (double)values[i];
    put_all(r, x, wide);
    free(wide);
}

void rt_base_end(rt_base *b)
{
    const rt_external *absmax = beside(b->r, b->x, "absmax"),
                      *scales = beside(b->r, b->x, "nested_absmax"),
                      *offset = beside(b->r, b->x, "offset");
    const int64_t blocks = blocks_of(b->x), runs = scales->form->whole;
    const float mean = mg_nf4_offset(b->absmax, blocks);
    uint8_t *bits = rt_alloc((size_t)blocks, 1);
    float *scale = rt_alloc((size_t)runs, sizeof *scale);
    rt_whole_close(b->r, b->x, b->stored, true);
    for (int64_t k = 0; k < blocks; k += NF4_NESTED) {
        const int64_t n = blocks - k < NF4_NESTED ? blocks - k : NF4_NESTED;
        const float s = mg_nf4_nested(b->absmax + k, n, mean, bits + k);
        for (int64_t i = k * runs / blocks; i < runs && i * (blocks / runs) < k + n; i++)
            scale[i] = s;
    }
    put_all(b->r, absmax, bits);
    put_floats(b->r, scales, scale);
    put_floats(b->r, offset, &mean);
    free(bits);
    free(scale);
    free(b->absmax);
    free(b->bytes);
    free(b);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static void *get_all(mg_run *r, const rt_external *x)
{
    void *values = rt_alloc((size_t)x->form->whole, (size_t)mg_dtype_bytes(x->form->tensor->dtype));
    char **stored = rt_whole_open(r, x, true);
    rt_whole_get(x, stored, 0, x->form->whole, values);
    rt_whole_close(r, x, stored, false);
    return values;
}

static double number_at(const rt_external *x, const void *values, int64_t i)
{
    return rt_number(rt_dtype_name(x->form->tensor->dtype), values, i);
}

/* The number that the program computes, in its order: floats are rounded where it rounds them. */
static double dequantised(float number, float unit, double scale, double offset, mg_dtype wide)
{
    if (wide == MG_F64)
        return (double)number * ((double)unit * scale + offset);
    const float product = unit * (float)scale, absmax = product + (float)offset;
    const float x = number * absmax;
    return (double)(wide == MG_BF16 ? mg_from_bf16(mg_to_bf16(x)) : x);
}

double *rt_base_values(mg_run *r, const rt_external *x)
{
    const rt_external *scales = beside(r, x, "nested_absmax"), *offset = beside(r, x, "offset");
    const int64_t blocks = blocks_of(x), each = blocks / scales->form->whole;
    uint8_t *bytes = get_all(r, x), *bits = get_all(r, beside(r, x, "absmax"));
    void *scale = get_all(r, scales), *mean = get_all(r, offset);
    double *values = rt_alloc((size_t)rt_file_elements(x), sizeof *values);
    const double at = number_at(offset, mean, 0);
    for (int64_t k = 0; k < blocks; k++) {
        const float unit = mg_from_dynamic8(bits[k]);
        const double s = number_at(scales, scale, k / each);
        for (int64_t i = 0; i < NF4_BLOCK; i++) {
            const float number = mg_nf4f(bytes[k * HALF + i % HALF], i >= HALF);
            values[k * NF4_BLOCK + i] = dequantised(number, unit, s, at, x->form->tensor->wide);
        }
    }
    free(bytes);
    free(bits);
    free(scale);
    free(mean);
    return values;
}

int64_t rt_base_bytes(const mg_run *r)
{
    int64_t most = 0;
    for (int i = 0; i < r->params.n; i++) {
        const rt_external *x = &r->params.item[i];
        if (is_codes(x) && blocks_of(x) > most)
            most = blocks_of(x);
    }
    return most ? most * (int64_t)(2 * sizeof(float) + sizeof(double) + 1) + RT_CHUNK : 0;
}
