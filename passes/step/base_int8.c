/* base_int8.c - matrices of a frozen base in 8 bits.
 *
 *   w: f32[layers, out, in]
 *     c: u8[layers, out, in]     codes, with 128 added
 *     a: f32[layers, out]        the largest magnitude in each row
 *
 *   %w = cast (mul (mul (sub (cast %c) 128) %a) 1/127)
 *
 * The numbers are those of bitsandbytes' int8_vectorwise_quant, of LLM.int8: a row is that of the
 * file's matrix, whatever part of it a rank has. Codes have the matrix' own dims, so a layout
 * splits them as it splits the matrix, and rows' numbers with its rows. */
#include "ir/external.h"
#include "passes/step/base.h"
#include "runtime/int8.h"

static bool no_rows(const Module *m, const Tensor *t, const char *why)
{
    diag_error(m->diag, t->span, 360, "'%s', %lld x %lld, cannot be kept in 8 bits: %s",
               name_str(m->names, t->external), (long long)external_size(t, 0),
               (long long)external_size(t, 1), why);
    diag_note(m->diag, m->train.base_span, "asked for here");
    diag_help(m->diag, "leave out `base = int8`");
    return false;
}

bool base_int8_lie(Module *m, const Tensor *t, Lie *l)
{
    const int n = t->type.rank - t->stacked;
    if (t->part_of)
        return no_rows(m, t, "it is a part of a tensor of files");
    for (int i = t->stacked; i < t->type.rank; i++)
        if (t->valid[i] != t->type.dims[i].size)
            return no_rows(m, t, "it is padded");
    *l = (Lie){.stacked = t->stacked,
               .parts = 2,
               .part = {BASE_bytes, BASE_scale},
               .end = {"", ".absmax"},
               .type = {{.dtype = DT_u8}, {.dtype = t->type.dtype}}};
    for (int k = 0; k < l->parts; k++) {
        Type *to = &l->type[k];
        for (int i = 0; i < t->stacked; i++)
            to->dims[to->rank++] = t->type.dims[i];
        for (int p = 0; p < (k ? t->merge[0] : n); p++)
            to->dims[to->rank++] = t->type.dims[t->order[p]];
    }
    return true;
}

Value base_int8_matrix(Builder *b, const Lie *l, const Value *part, DType to)
{
    const DType wide = b->m->train.compute;
    const Value zero = build_const(b, wide, MG_INT8_ZERO);
    const Value code = build2(b, OP_sub, build_cast(b, part[0], wide), zero);
    const Value unit = build_const(b, wide, (double)MG_INT8_UNIT);
    (void)l;
    return build_cast(b, build2(b, OP_mul, build2(b, OP_mul, code, part[1]), unit), to);
}
