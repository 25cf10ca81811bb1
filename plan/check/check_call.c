/* check_call.c - do the numbers of a descriptor describe the instruction on these operands?
 *
 * A descriptor walks each tensor by a few indices (batch, row, column, ...), each of which stands
 * for some of the instruction's dims, merged. An index is right if there is one way to take it
 * apart into its dims that gives the strides of every tensor it walks. */
#include "ir/collective.h"
#include "plan/check/check_run.h"
#include "runtime/sizes.h"

#include <string.h>

enum { TENSORS = 11 };

/* One index of a descriptor: how many values it takes, and its stride in each tensor. */
typedef struct Index {
    int64_t size, stride[TENSORS];
} Index;

/* The dims given to it. */
typedef struct Dims {
    int n;
    Dim dim[2 * MAX_RANK];
} Dims;

static int64_t stride_of(const Operand *o, Name d)
{
    int at = type_find(&o->type, d);
    return at < 0 ? 0 : o->stride[at];
}

/* Does index x, taken apart into `dims` in some order, step through the operands as they lie? */
static bool index_is(const Index *x, const Dims *dims, const Operand *const *o, int n)
{
    bool used[2 * MAX_RANK] = {false};
    int64_t weight = 1;
    for (int step = 0; step < dims->n; step++) {
        int found = -1;
        for (int d = 0; d < dims->n && found < 0; d++) {
            bool fits = !used[d];
            for (int t = 0; t < n && fits; t++)
                fits = stride_of(o[t], dims->dim[d].name) == weight * x->stride[t];
            if (fits)
                found = d;
        }
        if (found < 0)
            return false;
        used[found] = true;
        weight *= dims->dim[found].size;
    }
    return weight == x->size;
}

static void take(Dims *to, Dim d)
{
    if (d.size > 1)
        to->dim[to->n++] = d;
}

bool check_is_dense(const Operand *o)
{
    int64_t run = 1;
    for (int i = o->type.rank - 1; i >= 0; i--) {
        if (o->type.dims[i].size > 1 && o->stride[i] != run)
            return false;
        run *= o->type.dims[i].size;
    }
    return true;
}

mg_dtype check_dtype(DType t)
{
    return t == DT_f32         ? MG_F32
           : t == DT_f64       ? MG_F64
           : t == DT_bf16      ? MG_BF16
           : t == DT_f16       ? MG_F16
           : t == DT_e4m3      ? MG_E4M3
           : t == DT_e5m2      ? MG_E5M2
           : t == DT_e8m0      ? MG_E8M0
           : t == DT_i32       ? MG_I32
           : t == DT_i64       ? MG_I64
           : t == DT_dynamic8  ? MG_DYNAMIC8
           : t == DT_udynamic8 ? MG_UDYNAMIC8
           : t == DT_u8        ? MG_U8
                               : MG_BOOL;
}

/* ---- products -------------------------------------------------------------------------------- */

enum { BATCH, ROWS, COLUMNS, SUM };

/* Tries each way of giving the dims of rows and columns to the batch index instead. */
static bool product_is(const mg_gemm_desc *d, const Dims g[4], const Operand *const *o, int n)
{
    Index batch = {d->batch, {d->sa, d->sb, d->sc}};
    Index rows = {d->m, {d->ta ? 1 : d->lda, 0, d->ldc}};
    Index columns = {d->n, {0, d->tb ? d->ldb : 1, 1}};
    for (int t = 3; t < n; t++) { /* a bias or sums, then a matrix */
        rows.stride[t] = t == n - 1 && d->epilogue & (MG_AUX | MG_GELU_GRAD) ? d->ldx : 0;
        columns.stride[t] = 1;
    }
    Index sum = {d->k, {d->ta ? d->lda : 1, d->tb ? 1 : d->ldb, 0}};
    int both = g[ROWS].n + g[COLUMNS].n;
    for (unsigned choice = 0; choice < 1u << both; choice++) {
        Dims group[3] = {g[BATCH], {0}, {0}};
        for (int i = 0; i < both; i++) {
            bool of_rows = i < g[ROWS].n;
            Dim dim = of_rows ? g[ROWS].dim[i] : g[COLUMNS].dim[i - g[ROWS].n];
            take(&group[choice >> i & 1 ? BATCH : of_rows ? ROWS : COLUMNS], dim);
        }
        if (index_is(&batch, &group[BATCH], o, n) && index_is(&rows, &group[ROWS], o, n) &&
            index_is(&columns, &group[COLUMNS], o, n) && index_is(&sum, &g[SUM], o, n))
            return true;
    }
    return false;
}

/* The epilogue that an op has, and of how many operands that lie as the result does. */
static int end_of(const Ins *i, int *n)
{
    *n = 4;
    if (i->op == OP_dot_bias)
        return MG_BIAS;
    if (i->op == OP_dot_sum)
        return MG_SUM;
    if (i->op == OP_dot_gelu_grad)
        return MG_GELU_GRAD;
    if (i->op == OP_dot_scaled)
        return *n = 3, MG_SCALES;
    if (i->op != OP_dot_gelu && i->op != OP_dot_gelu_aux)
        return *n = 3, MG_PLAIN;
    *n = (int)(i->nin + i->nout);
    return MG_GELU | (i->nin == 3 ? MG_BIAS : 0) | (i->op == OP_dot_gelu_aux ? MG_AUX : 0);
}

static const char *gemm_wrong(const Action *a, const Ins *i)
{
    const mg_gemm_desc *d = &a->gemm;
    const Operand *const o[5] = {&a->operand[0], &a->operand[1], &a->operand[2], &a->operand[3],
                                 &a->operand[4]};
    int n;
    const int end = end_of(i, &n);
    Dims g[4] = {0};
    for (int t = 0; t < 3; t++)
        for (int k = 0; k < o[t]->type.rank; k++) {
            Dim dim = o[t]->type.dims[k];
            bool in[3], seen = false;
            for (int w = 0; w < 3; w++) {
                in[w] = type_find(&o[w]->type, dim.name) >= 0;
                seen |= w < t && in[w];
            }
            if (!seen)
                take(&g[!in[2] ? SUM : !in[1] ? ROWS : !in[0] ? COLUMNS : BATCH], dim);
        }
    const bool fp8 = dtype_is_fp8(o[0]->type.dtype);
    if (d->dtype != check_dtype(o[0]->type.dtype) || d->out != check_dtype(o[2]->type.dtype) ||
        (fp8 ? d->other != check_dtype(o[1]->type.dtype)
             : d->other || o[1]->type.dtype != o[0]->type.dtype))
        return "the type of its numbers";
    if (d->alpha != 1 || d->beta != (ins_added(i) >= 0 ? 1 : 0))
        return "alpha or beta";
    if (d->tiles && !fp8)
        return "tiles of a product of halves";
    if (d->epilogue != end || (end && end != MG_SCALES && d->batch != 1))
        return "what is done at its end";
    if (i->op == OP_dot_sum && a->operand[1].value != i->in[0])
        return "whose columns are summed";
    if (!product_is(d, g, o, n))
        return "the sizes or strides of the product";
    /* A leading dimension below the columns would make rows overlap. */
    if (d->lda < (d->ta ? d->m : d->k) || d->ldb < (d->tb ? d->k : d->n) || d->ldc < d->n ||
        (end & (MG_AUX | MG_GELU_GRAD) ? d->ldx < d->n : d->ldx != 0))
        return "a leading dimension";
    return fp8 ? fp8_wrong(a, i) : NULL;
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Of a gradient dq, dk and dv too, or that of the bias. */
typedef struct Attend {
    const Operand *q, *k, *v, *o, *lse, *dq, *dk, *dv, *first, *seen, *bias, *dbias;
    bool grad;
    Dims shared, group;
    Dim along, keys, head, vhead;
} Attend;

/* One more tensor that an index walks, if there is one: the first keys, the bias, its gradient. */
static int also(Index *x, const Operand **o, int n, const Operand *more, int64_t stride)
{
    if (!more)
        return n;
    x->stride[n] = stride;
    o[n] = more;
    return n + 1;
}

static int also_bias(Index *x, const Operand **o, int n, const mg_attention_desc *d,
                     const Attend *a, int of)
{
    n = also(x, o, n, a->bias, d->bias[of]);
    return also(x, o, n, a->dbias, d->dbias[of]);
}

static bool attention_indices(const mg_attention_desc *d, const Attend *x, unsigned choice)
{
    const Operand *all[TENSORS] = {x->q, x->k, x->v, x->o, x->lse, x->dq, x->dk, x->dv};
    const Operand *heads[TENSORS] = {x->q, x->k, x->v, x->o, x->lse, x->dq, x->dk, x->dv};
    const Operand *own[TENSORS] = {x->q, x->o, x->lse, x->dq};
    Dims batch = {0}, kv = {0};
    for (int i = 0; i < x->shared.n; i++)
        take(choice >> i & 1 ? &kv : &batch, x->shared.dim[i]);
    Index b = {d->batch,
               {d->q[0], d->k[0], d->v[0], d->o[0], d->lse[0], d->dq[0], d->dk[0], d->dv[0]}};
    Index h = {d->kv,
               {d->q[2], d->k[2], d->v[2], d->o[2], d->lse[2], d->dq[2], d->dk[2], d->dv[2]}};
    Index g = {d->group, {d->q[3], d->o[3], d->lse[3], d->dq[3]}};
    int n = x->grad ? 8 : 5;
    int nh = also(&h, heads, n, x->first, 0), nb = also(&b, all, n, x->first, d->first[0]);
    nh = also_bias(&h, heads, also(&h, heads, nh, x->seen, 0), d, x, 2);
    nb = also_bias(&b, all, also(&b, all, nb, x->seen, d->seen[0]), d, x, 0);
    const int ng = also_bias(&g, own, x->grad ? 4 : 3, d, x, 3);
    return index_is(&b, &batch, all, nb) && index_is(&h, &kv, heads, nh) &&
           index_is(&g, &x->group, own, ng);
}

static const char *attention_steps(const mg_attention_desc *d, const Attend *x)
{
    const Operand *own[TENSORS] = {x->q, x->o, x->lse, x->dq};
    const Operand *theirs[TENSORS] = {x->k, x->v, x->dk, x->dv};
    const Operand *const heads[2] = {x->q, x->k};
    const Operand *const vheads[3] = {x->v, x->o, x->dv};
    const Operand *const gradients[2] = {x->dq, x->dk};
    Dims along = {0}, keys = {0}, head = {0}, vhead = {0};
    take(&along, x->along);
    take(&keys, x->keys);
    take(&head, x->head);
    take(&vhead, x->vhead);
    Index s = {d->queries, {d->q[1], d->o[1], d->lse[1], d->dq[1]}};
    Index t = {d->keys, {d->k[1], d->v[1], d->dk[1], d->dv[1]}};
    Index e = {d->head, {1, 1}}, f = {d->vhead, {1, 1, 1}};
    int n = also(&s, own, x->grad ? 4 : 3, x->first, d->first[1]);
    n = also(&s, own, n, x->seen, d->seen[1]);
    const int ns = also_bias(&s, own, n, d, x, 1);
    const int nt = also_bias(&t, theirs, x->grad ? 4 : 2, d, x, 4);
    if (!index_is(&s, &along, own, ns) || !index_is(&t, &keys, theirs, nt))
        return "queries or keys";
    if ((x->bias && d->bias[4] > 1) || (x->dbias && d->dbias[4] > 1))
        return "keys of the bias that are apart";
    if (!index_is(&e, &head, heads, 2) || !index_is(&f, &vhead, vheads, x->grad ? 3 : 2) ||
        (x->grad && !index_is(&e, &head, gradients, 2)))
        return "the head";
    for (unsigned choice = 0; choice < 1u << x->shared.n; choice++)
        if (attention_indices(d, x, choice))
            return NULL;
    return "batch, kv heads or group";
}

static bool lies_like(const Operand *a, const Operand *b)
{
    for (int i = 0; i < a->type.rank; i++)
        if (a->type.dims[i].size > 1 && stride_of(b, a->type.dims[i].name) != a->stride[i])
            return false;
    return true;
}

static const char *attention_wrong(const Action *a, const Ins *i)
{
    const mg_attention_desc *d = &a->attention;
    const Operand *o = a->operand;
    Attend x = {.q = &o[0], .k = &o[1], .v = &o[2], .o = &o[3], .lse = &o[4]};
    x.grad = a->kind == ACT_attention_grad;
    if (x.grad) {
        x.dq = &o[6];
        x.dk = &o[7];
        x.dv = &o[8];
    }
    const int tensors = a->kind == ACT_attention ? 5 : x.grad ? 9 : 7;
    if (a->kind == ACT_attention_bias_grad)
        x.dbias = &o[6];
    if (d->biased != i->attrs.biased || (x.dbias && !d->biased))
        return "the bias";
    if (d->biased)
        x.bias = &o[tensors];
    Name along = i->attrs.along.name, head = i->attrs.over.dim[0].name;
    if (i->attrs.over.n != 1)
        return "a head of several dims";
    for (int n = 0; n < x.q->type.rank; n++) {
        Dim dim = x.q->type.dims[n];
        if (dim.name == along)
            x.along = dim;
        else if (dim.name == head)
            x.head = dim;
        else
            take(type_find(&x.k->type, dim.name) < 0 ? &x.group : &x.shared, dim);
    }
    /* Values have the head of the keys, or another dim, which keys lack, in its place. */
    int heads = 0;
    for (int n = 0; n < x.v->type.rank; n++)
        if (x.v->type.dims[n].name == head || type_find(&x.k->type, x.v->type.dims[n].name) < 0) {
            x.vhead = x.v->type.dims[n];
            heads++;
        }
    if (heads != 1)
        return "the head of values";
    if (a->within != i->attrs.within)
        return "the first keys";
    if (a->within)
        x.first = &o[i->nin + i->nout - 1];
    const int seen = tensors + i->attrs.biased; /* the operand, if it is not the last's */
    if (seen + i->attrs.within < (int)(i->nin + i->nout))
        x.seen = &o[seen];
    const Name keys = i->attrs.keys.name ? i->attrs.keys.name : along;
    if (type_find(&x.k->type, keys) < 0)
        return "the keys' dim";
    x.keys = x.k->type.dims[type_find(&x.k->type, keys)];
    if (d->dtype != check_dtype(x.q->type.dtype) || d->causal != i->attrs.causal ||
        d->scale != i->attrs.scale || d->cap != i->attrs.cap || d->window != i->attrs.window)
        return "type, mask, scale, cap or window";
    const bool back = x.grad || x.dbias;
    if (back && !lies_like(x.o, &o[5]))
        return "a cotangent that lies unlike its result";
    const int work = (int)(i->nin + i->nout); /* after all others, where there is any */
    if (back && a->noperands > work && type_bytes(&o[work].type) < mg_attention_grad_work(d))
        return "too little work space";
    return attention_steps(d, &x);
}

/* ---- indices, cross-entropy ------------------------------------------------------------------ */

/* Is element r of t, row-major in its type, at (r / inner) * outer + r % inner? Dims that are not
 * cut by `inner` lie inside a run or outside of it. */
static bool rows_at(const Operand *t, int64_t inner, int64_t outer)
{
    bool even = outer == inner || type_elements(&t->type) <= inner;
    int64_t below = 1; /* rows that a step of dim i spans */
    if (inner < 1)
        return false;
    for (int i = t->type.rank - 1; i >= 0; i--) {
        int64_t size = t->type.dims[i].size, want = below;
        if (!even && below * size > inner) {
            if (below % inner)
                return false;
            want = below / inner * outer;
        }
        if (size > 1 && t->stride[i] != want)
            return false;
        below *= size;
    }
    return true;
}

/* Are the dims of `rows` those of t without `gone`, in its order? */
static bool ordered_like(const Type *rows, const Type *t, Name gone)
{
    int k = 0;
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i].name == gone)
            continue;
        if (k == rows->rank || rows->dims[k].name != t->dims[i].name)
            return false;
        k++;
    }
    return k == rows->rank;
}

static const char *xent_wrong(const mg_xent_desc *d, const Ins *i, const Operand *target,
                              const Operand *dloss, const Type *like, Name gone, int64_t classes)
{
    if (d->rows != type_elements(&target->type) || d->vocab != classes ||
        d->valid != i->attrs.valid || d->valid > classes)
        return "rows or classes";
    if (!ordered_like(&target->type, like, gone) ||
        !rows_at(target, d->target_inner, d->target_outer))
        return "where the targets are";
    if (!dloss)
        return NULL;
    bool one = type_elements(&dloss->type) == 1;
    if (!check_is_dense(dloss) || (!one && !ordered_like(&dloss->type, like, gone)) ||
        (d->dloss_stride != (one ? 0 : 1) && d->rows > 1))
        return "the loss's cotangent";
    return NULL;
}

static const char *cross_entropy_wrong(const Action *a, const Ins *i)
{
    const Operand *o = a->operand;
    const Type *z = &o[0].type;
    Name classes = i->attrs.over.dim[0].name;
    int last = z->rank - 1;
    bool grad = a->kind == ACT_xent_grad;
    if (a->xent.dtype != check_dtype(z->dtype))
        return "the type of its numbers";
    if (i->attrs.over.n != 1 || z->dims[last].name != classes)
        return "classes that are not innermost";
    for (int k = 0; k < a->noperands; k++)
        if (k != 1 && !check_is_dense(&o[k]))
            return "an operand that is not dense";
    if (!grad && (!ordered_like(&o[2].type, z, classes) || !ordered_like(&o[3].type, z, classes)))
        return "the order of the losses";
    if (grad && (!ordered_like(&o[2].type, z, classes) || !type_equal(&o[4].type, z)))
        return "the order of the gradients";
    return xent_wrong(&a->xent, i, &o[1], grad ? &o[3] : NULL, z, classes, z->dims[last].size);
}

static const char *head_wrong(const Action *a, const Ins *i)
{
    const mg_head_desc *d = &a->head;
    const Operand *o = a->operand;
    const bool grad = a->kind == ACT_head, weight = i->op == OP_head;
    const Type *x = &o[0].type, *w = &o[1].type;
    Name hidden = i->attrs.over.dim[0].name, classes = i->attrs.dim.name;
    for (int k = 0; k < a->noperands - 1; k++)
        if (k != 2 && !check_is_dense(&o[k]))
            return "an operand that is not dense";
    if (i->attrs.over.n != 1 || w->rank != 2 || x->dims[x->rank - 1].name != hidden ||
        d->w_by_vocab != (w->dims[0].name == classes) || type_find(w, classes) < 0 ||
        type_find(w, hidden) < 0)
        return "how the weight lies";
    if (d->xent.dtype != check_dtype(x->dtype) || d->hidden != x->dims[x->rank - 1].size ||
        d->chunk < 1 || d->dw_accumulate != (weight && i->nin == 5) ||
        d->frozen != (grad && !weight))
        return "the hidden size, the chunk, or what is added to";
    if (a->operand[a->noperands - 1].type.rank != 1 ||
        type_bytes(&o[a->noperands - 1].type) < mg_head_work(d))
        return "too little work space";
    if (!ordered_like(&o[grad ? 4 : 3].type, x, hidden) || (grad && !type_equal(&o[5].type, x)) ||
        (weight && (!type_same_dims(&o[6].type, w) || !ordered_like(&o[6].type, w, 0))))
        return "the order of a result";
    if (weight && d->dw != check_dtype(o[6].type.dtype))
        return "the type of the weight's gradient";
    return xent_wrong(&d->xent, i, &o[2], grad ? &o[3] : NULL, x, hidden,
                      w->dims[type_find(w, classes)].size);
}

/* rows (y of gather, dy of scatter, x of put) are index dims first, then the table's. Dims that the
 * table and the index both have come first in both. */
static const char *gather_wrong(const Action *a, const Ins *i)
{
    const mg_gather_desc *d = &a->gather;
    const Operand *o = a->operand;
    bool scatter = a->kind != ACT_gather;
    const Operand *table = &o[scatter ? 2 : 0], *rows = &o[scatter ? 0 : 2], *index = &o[1];
    int at = type_find(&table->type, i->attrs.dim.name), k = index->type.rank, shared = 0;
    int64_t tables = 1, outer = 1, inner = 1;
    while (shared < at && shared < index->type.rank &&
           table->type.dims[shared].name == index->type.dims[shared].name)
        tables *= table->type.dims[shared++].size;
    for (int n = shared; n < index->type.rank; n++) {
        const Name d = index->type.dims[n].name;
        if (d != i->attrs.dim.name && type_find(&table->type, d) >= 0)
            return "the order of dims that the table and the index have";
    }
    for (int n = shared; n < table->type.rank; n++) {
        if (n != at &&
            (k >= rows->type.rank || rows->type.dims[k++].name != table->type.dims[n].name))
            return "the order of the rows' dims";
        outer *= n < at ? table->type.dims[n].size : 1;
        inner *= n > at ? table->type.dims[n].size : 1;
    }
    for (int n = 0; n < index->type.rank; n++)
        if (rows->type.dims[n].name != index->type.dims[n].name)
            return "the order of the rows' dims";
    if (!check_is_dense(table) || !check_is_dense(rows))
        return "an operand that is not dense";
    if (d->dtype != check_dtype(table->type.dtype) || d->tables != tables || d->outer != outer ||
        d->inner != inner || d->n != table->type.dims[at].size ||
        d->indices != type_elements(&index->type))
        return "sizes";
    if (!rows_at(index, d->index_inner, d->index_outer))
        return "where the indices are";
    if (a->noperands > 3 && type_bytes(&o[3].type) < mg_scatter_work(d))
        return "too little work space";
    return d->accumulate == (a->kind == ACT_scatter_add && i->nin == 3) ? NULL : "what is added to";
}

static const char *transfer_wrong(const Module *m, const Action *a, const Ins *i)
{
    const Type *t = type_of(m, i->in[0]);
    if ((a->kind == ACT_fetch) != (i->attrs.level == LEVEL_device))
        return "the way it goes";
    if (a->bytes != type_bytes(t) || run_length(&a->operand[0]) != type_elements(t) ||
        run_length(&a->operand[1]) != type_elements(t))
        return "its bytes";
    return NULL;
}

static const char *random_wrong(const Module *m, const Action *a, const Ins *i)
{
    uint64_t key = 14695981039346656037u; /* FNV-1a */
    for (const char *s = name_str(m->names, i->attrs.key); *s; s++)
        key = (key ^ (unsigned char)*s) * 1099511628211u;
    if (a->random.key != key || a->random.elements != type_elements(&a->operand[3].type) ||
        a->random.dtype != check_dtype(a->operand[3].type.dtype) || !check_is_dense(&a->operand[3]))
        return "key, type or number of elements";
    return NULL;
}

/* Elements of a type before, in and after one of its dims. */
static bool is_around(const Type *t, Name dim, int64_t outer, int64_t size, int64_t inner)
{
    int64_t before = 1, own = 1, after = 1;
    bool seen = false;
    for (int i = 0; i < t->rank; i++) {
        bool here = dim && t->dims[i].name == dim;
        if (here)
            own = t->dims[i].size;
        else if (seen || !dim)
            after *= t->dims[i].size;
        else
            before *= t->dims[i].size;
        seen |= here;
    }
    return before == outer && own == size && after == inner;
}

static const char *comm_wrong(const Module *m, const Action *a, const Ins *i)
{
    const mg_comm_desc *d = &a->comm;
    const Type *t = &a->operand[0].type;
    const Collective *of = collective_of(i->op);
    if (!of || d->kind != of->kind)
        return "what ranks do together";
    if (d->axes != i->attrs.axes || d->n != mesh_size(m, i->attrs.axes) ||
        d->root != (i->op == OP_broadcast ? (int)i->attrs.at : 0))
        return "which ranks do it together";
    if (d->dtype != check_dtype(t->dtype) || d->max != i->attrs.max || d->tree != i->attrs.tree ||
        d->zigzag != i->attrs.zigzag)
        return "type, sum, or order";
    if (!is_around(t, i->attrs.dim.name, d->outer, d->size, d->inner) ||
        !is_around(t, i->attrs.to.name, d->to_outer, d->to_size, d->to_inner))
        return "the dim that is cut or put together";
    if (a->noperands > 2 && type_bytes(&a->operand[2].type) < mg_comm_work(d))
        return "work space";
    return NULL;
}

const char *call_wrong(const Module *m, const Action *a, const Ins *i)
{
    switch (a->kind) {
    case ACT_gemm:
        return gemm_wrong(a, i);
    case ACT_conv:
        return conv_wrong(a, i);
    case ACT_attention:
    case ACT_attention_grad:
    case ACT_attention_bias_grad:
        return attention_wrong(a, i);
    case ACT_xent:
    case ACT_xent_grad:
        return cross_entropy_wrong(a, i);
    case ACT_head:
    case ACT_head_loss:
        return head_wrong(a, i);
    case ACT_gather:
    case ACT_scatter_add:
    case ACT_put:
        return gather_wrong(a, i);
    case ACT_top:
    case ACT_slots:
    case ACT_ends:
    case ACT_dispatch:
    case ACT_combine:
    case ACT_combine_weight:
        return experts_wrong(a, i);
    case ACT_grouped:
    case ACT_grouped_weight:
        return grouped_wrong(a, i);
    case ACT_fetch:
    case ACT_offload:
        return transfer_wrong(m, a, i);
    case ACT_tile_scale:
    case ACT_round_tiles:
        return tiles_wrong(a, i);
    case ACT_random:
        return random_wrong(m, a, i);
    case ACT_comm:
        return comm_wrong(m, a, i);
    case ACT_loop:
    case ACT_end:
    case ACT_kernel:
    case ACT_copy:
    case ACT_zero:
    case ACT_guard:
    case ACT_phase:
    case ACT_receive:
    case ACT_send:
    case ACT_count:
        break; /* they have no descriptor */
    }
    return NULL;
}
