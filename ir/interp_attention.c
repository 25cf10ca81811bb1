/* interp_attention.c - the reference meaning of attention and of its gradient; where its keys are
 * split over ranks, of all ranks together. */
#include "ir/interp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One query: every index of q but the head dims and the keys. */
typedef struct Attention {
    const Attrs *attrs;
    const Type *q, *k, *lse;
    const double *seen;     /* per query: how many keys it sees; NULL: as the mask says */
    int64_t keys, heads;    /* number of keys; elements of a head */
    int64_t kstride;        /* between keys in k */
    int64_t *qhead, *khead; /* offsets of a head's elements */
} Attention;

static Attention attention_start(const Attrs *attrs, const Tensor64 *in, const Type *lse)
{
    Attention a = {.attrs = attrs, .q = &in[0].type, .k = &in[1].type, .lse = lse};
    int at = type_find(a.k, attrs->along.name);
    a.keys = a.k->dims[at].size;
    a.kstride = type_stride(a.k, at);
    Walk w = walk_start();
    a.heads = 1;
    for (int d = 0; d < attrs->over.n; d++) {
        Dim dim = a.q->dims[type_find(a.q, attrs->over.dim[d].name)];
        walk_dim(&w, dim);
        a.heads *= dim.size;
    }
    walk_tensor(&w, a.q);
    walk_tensor(&w, a.k);
    a.qhead = interp_alloc(a.heads * 2, sizeof *a.qhead);
    a.khead = a.qhead + a.heads;
    for (int64_t h = 0; h < a.heads; h++, walk_next(&w)) {
        a.qhead[h] = w.at[0];
        a.khead[h] = w.at[1];
    }
    return a;
}

/* Walks queries: tensors are q (and o), k (at key 0), lse. */
static Walk attention_walk(const Attention *a)
{
    Type k0 = *a->k;
    k0.dims[type_find(&k0, a->attrs->along.name)].name = 0;
    Walk w = walk_start();
    walk_dims(&w, a->lse);
    walk_tensor(&w, a->q);
    walk_tensor(&w, &k0);
    walk_tensor(&w, a->lse);
    return w;
}

static double score(const Attention *a, const double *q, const double *k)
{
    double s = 0;
    for (int64_t h = 0; h < a->heads; h++)
        s += q[a->qhead[h]] * k[a->khead[h]];
    return s * a->attrs->scale;
}

static int64_t visible(const Attention *a, const Walk *w)
{
    int64_t s = walk_index(w, a->attrs->along.name);
    if (a->seen)
        return (int64_t)a->seen[s];
    return a->attrs->causal && s + 1 < a->keys ? s + 1 : a->keys;
}

/* A copy of x in the dims and order of `t`, so that one set of offsets serves. */
static double *in_order(const Tensor64 *x, const Type *t)
{
    double *y = interp_alloc(type_elements(t), sizeof *y);
    Walk w = walk_start();
    walk_dims(&w, t);
    walk_tensor(&w, t);
    walk_tensor(&w, &x->type);
    do
        y[w.at[0]] = x->data[w.at[1]];
    while (walk_next(&w));
    return y;
}

static void put_in_order(const Tensor64 *y, const double *x, const Type *t)
{
    Walk w = walk_start();
    walk_dims(&w, t);
    walk_tensor(&w, t);
    walk_tensor(&w, &y->type);
    do
        y->data[w.at[1]] = x[w.at[0]];
    while (walk_next(&w));
}

/* A query that sees no key gives 0, and -1e30 for the log of nothing. */
static void attend(const Attrs *attrs, int nin, const Tensor64 *in, const Tensor64 *out)
{
    Attention a = attention_start(attrs, in, &out[1].type);
    a.seen = nin > 3 ? in[3].data : NULL;
    double *v = in_order(&in[2], a.k), *o = interp_alloc(type_elements(a.q), sizeof *o);
    const double *q = in[0].data, *k = in[1].data;
    Walk w = attention_walk(&a);
    double *s = interp_alloc(a.keys, sizeof *s);
    do {
        int64_t n = visible(&a, &w);
        double top = -INFINITY, sum = 0;
        for (int64_t t = 0; t < n; t++) {
            s[t] = score(&a, q + w.at[0], k + w.at[1] + t * a.kstride);
            top = s[t] > top || isnan(s[t]) ? s[t] : top;
        }
        for (int64_t t = 0; t < n; t++)
            sum += s[t] = exp(s[t] - top);
        out[1].data[w.at[2]] = n > 0 ? top + log(sum) : -1e30;
        for (int64_t h = 0; h < a.heads; h++) {
            double y = 0;
            for (int64_t t = 0; t < n; t++)
                y += s[t] / sum * v[w.at[1] + t * a.kstride + a.khead[h]];
            o[w.at[0] + a.qhead[h]] = y;
        }
    } while (walk_next(&w));
    put_in_order(&out[0], o, a.q);
    free(s), free(v), free(o), free(a.qhead);
}

/* D = do . o; P = exp(s - lse); dv += P do; dS = P (do . v - D); dq += dS k; dk += dS q. */
static void attend_back(const Attrs *attrs, int nin, const Tensor64 *in, const Tensor64 *out)
{
    Attention a = attention_start(attrs, in, &in[4].type);
    a.seen = nin > 6 ? in[6].data : NULL;
    double *v = in_order(&in[2], a.k), *o = in_order(&in[3], a.q), *g = in_order(&in[5], a.q);
    const double *q = in[0].data, *k = in[1].data, *lse = in[4].data;
    double *dq = interp_alloc(type_elements(a.q), sizeof *dq);
    double *dk = interp_alloc(type_elements(a.k), sizeof *dk);
    double *dv = interp_alloc(type_elements(a.k), sizeof *dv);
    Walk w = attention_walk(&a);
    do {
        double delta = 0;
        for (int64_t h = 0; h < a.heads; h++)
            delta += g[w.at[0] + a.qhead[h]] * o[w.at[0] + a.qhead[h]];
        for (int64_t t = 0, n = visible(&a, &w); t < n; t++) {
            int64_t kt = w.at[1] + t * a.kstride;
            double p = exp(score(&a, q + w.at[0], k + kt) - lse[w.at[2]]), gv = 0;
            for (int64_t h = 0; h < a.heads; h++)
                gv += g[w.at[0] + a.qhead[h]] * v[kt + a.khead[h]];
            double ds = p * (gv - delta) * attrs->scale;
            for (int64_t h = 0; h < a.heads; h++) {
                int64_t qh = w.at[0] + a.qhead[h], kh = kt + a.khead[h];
                dv[kh] += p * g[qh];
                dq[qh] += ds * k[kh];
                dk[kh] += ds * q[qh];
            }
        }
    } while (walk_next(&w));
    put_in_order(&out[0], dq, a.q);
    put_in_order(&out[1], dk, a.k);
    put_in_order(&out[2], dv, a.k);
    free(v), free(o), free(g), free(dq), free(dk), free(dv), free(a.qhead);
}

enum { MAX_IN = 7, MAX_OUT = 3 };

static void compute(const Ins *i, const Tensor64 *in, const Tensor64 *out)
{
    if (i->op == OP_attention)
        attend(&i->attrs, (int)i->nin, in, out);
    else
        attend_back(&i->attrs, (int)i->nin, in, out);
}

void interp_attention(Interp *in, const Ins *i)
{
    Tensor64 x[MAX_IN], y[MAX_OUT];
    for (uint32_t k = 0; k < i->nin; k++)
        x[k] = in->value[i->in[k]];
    for (uint32_t k = 0; k < i->nout; k++) {
        interp_out(in, i, k);
        y[k] = in->value[i->out[k]];
    }
    compute(i, x, y);
}

void interp_attention_grad(Interp *in, const Ins *i)
{
    interp_attention(in, i);
}

/* ---- of all ranks ---------------------------------------------------------------------------- */

/* The value as it is along a dim on all ranks that share it. */
static Type whole_along(const Module *m, Type t, Name along)
{
    Dim *d = &t.dims[type_find(&t, along)];
    d->size = dim_whole(m, *d);
    d->axes = d->zigzag = 0;
    return t;
}

/* Copies a rank's part of a tensor that is split along a dim into the whole tensor, or out of it.
 */
static void copy_rows(const Module *m, int64_t rank, const Tensor64 *part, const Tensor64 *whole,
                      Name along, bool out)
{
    int at = type_find(&part->type, along);
    Dim d = part->type.dims[at];
    int64_t inner = type_stride(&part->type, at), all = dim_whole(m, d);
    int64_t outer = type_elements(&part->type) / (inner * d.size);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < d.size; k++) {
            double *p = part->data + (o * d.size + k) * inner;
            double *w = whole->data + (o * all + mesh_index(m, rank, d, k)) * inner;
            memcpy(out ? p : w, out ? w : p, (size_t)inner * sizeof *p);
        }
}

/* Each rank computes the attention of all, and takes what it has of the results. Gradients of what
 * other dims are split on are those of its own, as without a ring. */
void interp_ring(Interp *in, int64_t ranks, const Ins *i)
{
    const Module *m = in->m;
    Dim along = i->attrs.along;
    for (int64_t r = 0; r < ranks; r++) {
        Tensor64 x[MAX_IN], y[MAX_OUT];
        for (uint32_t k = 0; k < i->nin; k++) {
            x[k].type = whole_along(m, *type_of(m, i->in[k]), along.name);
            x[k].data = interp_alloc(type_elements(&x[k].type), sizeof(double));
            for (int64_t s = 0; s < ranks; s++)
                if (interp_same_group(m, in[r].rank, in[s].rank, along.axes))
                    copy_rows(m, in[s].rank, &in[s].value[i->in[k]], &x[k], along.name, false);
        }
        for (uint32_t k = 0; k < i->nout; k++) {
            y[k].type = whole_along(m, *type_of(m, i->out[k]), along.name);
            y[k].data = interp_alloc(type_elements(&y[k].type), sizeof(double));
        }
        compute(i, x, y);
        for (uint32_t k = 0; k < i->nout; k++) {
            interp_out(&in[r], i, k);
            copy_rows(m, in[r].rank, &in[r].value[i->out[k]], &y[k], along.name, true);
            free(y[k].data);
        }
        for (uint32_t k = 0; k < i->nin; k++)
            free(x[k].data);
    }
}
