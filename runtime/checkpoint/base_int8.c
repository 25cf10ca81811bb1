/* base_int8.c - matrices in int8, two items of the catalog each:
 *
 *   NAME          codes, u8, with 128 added
 *   NAME.absmax   of each row of the file's matrix
 *
 * A row is made once all of it is there. Pieces end where they like, so what is left of one begins
 * the next. */
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/base_kinds.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/int8_rows.h"
#include "runtime/half.h"
#include "runtime/number.h"

enum { PIECE = RT_CHUNK / 8 }; /* elements of a piece at most */

typedef struct making {
    mg_run *r;
    const rt_external *x;
    char **stored;
    int64_t row, done, left; /* elements of a row; rows that are made; elements held of the next */
    float *absmax, *held;    /* held: from `done` rows on */
    uint8_t *bytes;
    const char *dtype, *in; /* of the piece at hand */
} making;

static void *begin(mg_run *r, const rt_external *x, char **stored)
{
    making *b = rt_alloc(1, sizeof *b);
    *b = (making){.r = r, .x = x, .stored = stored, .row = x->form->shape[1]};
    b->absmax = rt_alloc((size_t)x->form->shape[0], sizeof *b->absmax);
    b->held = rt_alloc((size_t)(PIECE + b->row), sizeof *b->held);
    b->bytes = rt_alloc((size_t)(PIECE + b->row), 1);
    return b;
}

static void hold(void *ctx, int64_t from, int64_t to, void *scratch)
{
    const making *b = ctx;
    (void)scratch;
    for (int64_t i = from; i < to; i++)
        b->held[b->left + i] = (float)rt_number(b->dtype, b->in, i);
}

static void make_rows(void *ctx, int64_t from, int64_t to, void *scratch)
{
    const making *b = ctx;
    (void)scratch;
    for (int64_t k = from; k < to; k++) {
        uint8_t *code = b->bytes + k * b->row;
        b->absmax[b->done + k] = mg_int8_row(b->held + k * b->row, b->row, (int8_t *)code);
        for (int64_t i = 0; i < b->row; i++)
            code[i] = (uint8_t)((int8_t)code[i] + MG_INT8_ZERO);
    }
    rt_whole_put(b->x, b->stored, (b->done + from) * b->row, (to - from) * b->row,
                 b->bytes + from * b->row);
}

static void put(void *of, const char *dtype, const char *in, int64_t at, int64_t n)
{
    making *b = of;
    (void)at; /* each piece begins where the last one ended */
    b->dtype = dtype;
    b->in = in;
    rt_pool_run(b->r->pool, n, 16384, hold, b);
    b->left += n;
    const int64_t rows = b->left / b->row;
    rt_pool_run(b->r->pool, rows, 1, make_rows, b);
    b->done += rows;
    b->left -= rows * b->row;
    memmove(b->held, b->held + rows * b->row, (size_t)b->left * sizeof *b->held);
}

static void end(void *of)
{
    making *b = of;
    rt_base_put_floats(b->r, rt_base_part(b->r, b->x, "absmax"), b->absmax);
    free(b->absmax);
    free(b->held);
    free(b->bytes);
    free(b);
}

/* The numbers that the program computes, in its order: floats are rounded where it rounds them. */
static void values(mg_run *r, const rt_external *x, double *to)
{
    const rt_external *scales = rt_base_part(r, x, "absmax");
    const mg_dtype wide = x->form->tensor->wide;
    uint8_t *code = rt_base_get_all(r, x);
    void *absmax = rt_base_get_all(r, scales);
    const int64_t row = x->form->shape[1];
    for (int64_t i = 0; i < x->form->whole; i++) {
        const double s = rt_base_number(scales, absmax, i / row);
        const int c = code[i] - MG_INT8_ZERO;
        const float v = mg_int8_number((int8_t)c, (float)s);
        to[i] = wide == MG_F64    ? c * s * (double)MG_INT8_UNIT
                : wide == MG_BF16 ? (double)mg_from_bf16(mg_to_bf16(v))
                                  : (double)v;
    }
    free(code);
    free(absmax);
}

static int64_t bytes(const rt_external *x)
{
    return (PIECE + x->form->shape[1]) * (int64_t)(sizeof(float) + 1) +
           x->form->shape[0] * (int64_t)(sizeof(float) + sizeof(double));
}

const rt_base_kind rt_base_int8 = {1, begin, put, end, values, bytes};
