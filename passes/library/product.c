/* product.c - matches strided tensors to a batched matrix product; see product.h. */
#include "passes/library/product.h"

#include <string.h>

/* One dim of the contraction: its size and strides in a, b and c; -1 where it does not occur. */
typedef struct Index {
    Name name;
    int64_t size, stride[3];
} Index;

enum { BATCH, M, N, K, GROUPS };

typedef struct Groups {
    int n[GROUPS];
    Index dim[GROUPS][3 * MAX_RANK];
} Groups;

/* Several dims as one. */
typedef struct Merged {
    int64_t size, stride[3];
} Merged;

mg_dtype abi_dtype(DType t)
{
    static const mg_dtype code[DT_count] = {
        [DT_f32] = MG_F32,   [DT_f64] = MG_F64,           [DT_bf16] = MG_BF16,
        [DT_f16] = MG_F16,   [DT_e4m3] = MG_E4M3,         [DT_e5m2] = MG_E5M2,
        [DT_e8m0] = MG_E8M0, [DT_i32] = MG_I32,           [DT_i64] = MG_I64,
        [DT_bool] = MG_BOOL, [DT_dynamic8] = MG_DYNAMIC8, [DT_udynamic8] = MG_UDYNAMIC8,
        [DT_u8] = MG_U8};
    return code[t];
}

static bool classify(const Strided *const t[3], Groups *g)
{
    memset(g, 0, sizeof *g);
    for (int which = 0; which < 3; which++)
        for (int i = 0; i < t[which]->type->rank; i++) {
            Dim d = t[which]->type->dims[i];
            bool seen = d.size == 1;
            for (int w = 0; w < which; w++)
                seen |= type_find(t[w]->type, d.name) >= 0;
            if (seen)
                continue;
            Index x = {.name = d.name, .size = d.size};
            for (int w = 0; w < 3; w++) {
                int k = type_find(t[w]->type, d.name);
                x.stride[w] = k < 0 ? -1 : t[w]->stride[k];
            }
            bool a = x.stride[0] >= 0, b = x.stride[1] >= 0, c = x.stride[2] >= 0;
            int group = a && b && c ? BATCH : a && c ? M : b && c ? N : a && b ? K : GROUPS;
            if (group == GROUPS)
                return false; /* summed in one operand only: no product does that */
            g->dim[group][g->n[group]++] = x;
        }
    return true;
}

/* Outermost first, as they lie in tensor `by`. */
static void sort_by(Index *dim, int n, int by)
{
    for (int i = 1; i < n; i++) {
        Index x = dim[i];
        int k = i;
        for (; k > 0 && dim[k - 1].stride[by] < x.stride[by]; k--)
            dim[k] = dim[k - 1];
        dim[k] = x;
    }
}

/* Outermost first, as in a list. */
static void sort_as(Index *dim, int n, const DimList *list)
{
    int at = 0;
    for (int k = 0; k < list->n; k++)
        for (int i = at; i < n; i++)
            if (dim[i].name == list->dim[k].name) {
                Index x = dim[i];
                memmove(&dim[at + 1], &dim[at], (size_t)(i - at) * sizeof *dim);
                dim[at++] = x;
            }
}

static bool merge(const Index *dim, int n, Merged *m)
{
    *m = (Merged){.size = 1};
    for (int i = 0; i < n; i++) {
        m->size *= dim[i].size;
        for (int w = 0; w < 3; w++) {
            if (i + 1 < n && dim[i].stride[w] >= 0 &&
                dim[i].stride[w] != dim[i + 1].stride[w] * dim[i + 1].size)
                return false;
            m->stride[w] = dim[i].stride[w];
        }
    }
    return true;
}

/* How a matrix of rows x columns with these strides is handed over: as it is, or transposed. */
static bool leading(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride,
                    bool *transposed, int64_t *ld)
{
    if (columns == 1 || column_stride == 1) {
        *transposed = false;
        *ld = rows == 1 ? columns : row_stride;
        return *ld >= columns;
    }
    if (rows == 1 || row_stride == 1) {
        *transposed = true;
        *ld = column_stride;
        return *ld >= rows;
    }
    return false;
}

static bool describe(const Merged m[GROUPS], bool swap, Product *p)
{
    const Merged *rows = &m[swap ? N : M], *columns = &m[swap ? M : N], *sum = &m[K];
    int a = swap ? 1 : 0, b = swap ? 0 : 1;
    mg_gemm_desc *d = &p->desc;
    bool tc;
    p->swap = swap;
    d->m = rows->size;
    d->n = columns->size;
    d->k = sum->size;
    d->alpha = 1;
    d->beta = 0;
    d->batch = m[BATCH].size;
    d->sa = m[BATCH].stride[a];
    d->sb = m[BATCH].stride[b];
    d->sc = m[BATCH].stride[2];
    return leading(d->m, rows->stride[a], d->k, sum->stride[a], &d->ta, &d->lda) &&
           leading(d->k, sum->stride[b], d->n, columns->stride[b], &d->tb, &d->ldb) &&
           leading(d->m, rows->stride[2], d->n, columns->stride[2], &tc, &d->ldc) && !tc;
}

/* Makes the outer `count` dims of group `from` batch dims, the other operand standing still. */
static void to_batch(Groups *g, int from, int count)
{
    for (int i = 0; i < count; i++) {
        Index x = g->dim[from][i];
        x.stride[from == M ? 1 : 0] = 0;
        g->dim[BATCH][g->n[BATCH]++] = x;
    }
    g->n[from] -= count;
    memmove(g->dim[from], g->dim[from] + count, sizeof(Index) * (size_t)g->n[from]);
}

static bool match_groups(const Groups *given, int m_batch, int n_batch, Product *p)
{
    Groups g = *given;
    Merged m[GROUPS];
    to_batch(&g, M, m_batch);
    to_batch(&g, N, n_batch);
    sort_by(g.dim[BATCH], g.n[BATCH], 2);
    for (int k = 0; k < GROUPS; k++)
        if (!merge(g.dim[k], g.n[k], &m[k]))
            return false;
    return describe(m, false, p) || describe(m, true, p);
}

/* Small products, many of them, cost more than a copy that makes one of them. */
static bool worth_it(const Product *p, int moved)
{
    const mg_gemm_desc *d = &p->desc;
    return moved == 0 || d->batch <= 16 || (double)d->m * (double)d->n * (double)d->k >= 32768;
}

/* Tensor cores before sm_100, and those of sm_120, read fp8 along what is summed alone, and the
 * library takes matrices of whole words of 16 bytes. */
static bool takes_fp8(const mg_gemm_desc *d)
{
    const int64_t out = mg_dtype_bytes(d->out);
    const int64_t steps[] = {d->n, d->k, d->lda, d->ldb, d->sa, d->sb, d->ldc * out, d->sc * out};
    bool whole = true;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        whole &= steps[i] % FP8_SIDE == 0;
    return whole && !d->ta && d->tb;
}

bool product_match(const Strided *a, const Strided *b, const Strided *c, const DimList *over,
                   Product *p)
{
    const Strided *const t[3] = {a, b, c};
    Groups g;
    memset(p, 0, sizeof *p);
    const bool fp8 = dtype_is_fp8(a->type->dtype);
    p->desc.out = abi_dtype(c->type->dtype);
    if (!classify(t, &g))
        return false;
    for (int k = 0; k < K; k++)
        sort_by(g.dim[k], g.n[k], 2);
    sort_as(g.dim[K], g.n[K], over);
    for (int moved = 0; moved <= g.n[M] + g.n[N]; moved++)
        for (int of_m = 0; of_m <= moved && of_m <= g.n[M]; of_m++)
            if (moved - of_m <= g.n[N] && match_groups(&g, of_m, moved - of_m, p) &&
                worth_it(p, moved) && (!fp8 || takes_fp8(&p->desc))) {
                p->desc.dtype = abi_dtype((p->swap ? b : a)->type->dtype);
                p->desc.other = fp8 ? abi_dtype((p->swap ? a : b)->type->dtype) : 0;
                return true;
            }
    return false;
}
