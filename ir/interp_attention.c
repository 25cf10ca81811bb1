/* interp_attention.c - the reference meaning of attention and of its gradient; where its keys are
 * split over ranks, of all ranks together. */
#include "ir/interp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A call: offsets of a head's elements in q and k, and in o and v. */
typedef struct Attention {
    const Interp *of;
    const Attrs *attrs;
    const Type *q, *k, *v, *o, *lse;
    const Tensor64 *sink;         /* one more score of each query; NULL: there is none */
    const Tensor64 *bias;         /* added to the scores; NULL: there is none */
    const Tensor64 *seen, *first; /* of each query: how many keys it sees, and from which on; NULL:
                                     as the mask says */
    int64_t keys, heads, vheads;  /* number of keys; elements of a head */
    int64_t kstride, vstride;     /* between keys in k and v */
    int64_t bstride;              /* ... in the bias; 0: it is the same for all */
    int64_t *qhead, *khead, *ohead, *vhead;
} Attention;

/* Offsets of all indices of the dims in two tensors that have them. */
static int64_t head_offsets(const DimList *dims, const Type *x, const Type *y, int64_t **of_x,
                            int64_t **of_y)
{
    Walk w = walk_start();
    int64_t n = 1;
    for (int d = 0; d < dims->n; d++) {
        Dim dim = x->dims[type_find(x, dims->dim[d].name)];
        walk_dim(&w, dim);
        n *= dim.size;
    }
    walk_tensor(&w, x);
    walk_tensor(&w, y);
    *of_x = interp_alloc(n, sizeof **of_x);
    *of_y = interp_alloc(n, sizeof **of_y);
    for (int64_t h = 0; h < n; h++, walk_next(&w)) {
        (*of_x)[h] = w.at[0];
        (*of_y)[h] = w.at[1];
    }
    return n;
}

/* nin operands, of which the first n are tensors of the attention, but for the bias. */
static Attention attention_start(const Interp *of, const Attrs *attrs, int nin, int n,
                                 const Tensor64 *in, const Type *o, const Type *lse)
{
    const int mask = n + attrs->biased;
    Attention a = {.of = of,
                   .attrs = attrs,
                   .q = &in[0].type,
                   .k = &in[1].type,
                   .v = &in[2].type,
                   .o = o,
                   .lse = lse,
                   .sink = attrs->sunk ? &in[n - 1] : NULL,
                   .bias = attrs->biased ? &in[n] : NULL,
                   .seen = nin - attrs->within > mask ? &in[mask] : NULL,
                   .first = attrs->within ? &in[nin - 1] : NULL};
    int at = type_find(a.k, attention_keys(attrs));
    a.keys = a.k->dims[at].size;
    a.kstride = type_stride(a.k, at);
    a.vstride = type_stride(a.v, type_find(a.v, attention_keys(attrs)));
    at = a.bias ? type_find(&a.bias->type, attrs->keys.name) : -1;
    a.bstride = at >= 0 ? type_stride(&a.bias->type, at) : 0;
    const DimList head = attention_value_head(attrs, a.k, a.v);
    a.heads = head_offsets(&attrs->over, a.q, a.k, &a.qhead, &a.khead);
    a.vheads = head_offsets(&head, a.o, a.v, &a.ohead, &a.vhead);
    return a;
}

static void attention_end(const Attention *a)
{
    free(a->qhead), free(a->khead), free(a->ohead), free(a->vhead);
}

/* A type without the steps of the keys. */
static Type at_key_0(const Attention *a, const Type *t)
{
    Type k0 = *t;
    const int at = type_find(&k0, attention_keys(a->attrs));
    if (at >= 0)
        k0.dims[at].name = 0;
    return k0;
}

enum { AT_q, AT_k, AT_v, AT_o, AT_lse, AT_more };

/* Walks queries: tensors are q, k and v (at key 0), o, lse, then of these what there is: the bias
 * (at key 0), the first keys, the sink, the numbers of keys. */
static Walk attention_walk(const Attention *a)
{
    const Type k0 = at_key_0(a, a->k), v0 = at_key_0(a, a->v);
    Walk w = walk_start();
    walk_dims(&w, a->lse);
    walk_tensor(&w, a->q);
    walk_tensor(&w, &k0);
    walk_tensor(&w, &v0);
    walk_tensor(&w, a->o);
    walk_tensor(&w, a->lse);
    if (a->bias) {
        const Type b0 = at_key_0(a, &a->bias->type);
        walk_tensor(&w, &b0);
    }
    if (a->first)
        walk_tensor(&w, &a->first->type);
    if (a->sink)
        walk_tensor(&w, &a->sink->type);
    if (a->seen)
        walk_tensor(&w, &a->seen->type);
    return w;
}

/* A score, and its slope by q . k. */
typedef struct Score {
    double x, slope;
} Score;

static Score score(const Attention *a, const double *q, const double *k, double bias)
{
    double s = 0;
    for (int64_t h = 0; h < a->heads; h++)
        s += q[a->qhead[h]] * k[a->khead[h]];
    s *= a->attrs->scale;
    if (a->attrs->cap == 0)
        return (Score){s + bias, a->attrs->scale};
    double t = tanh(s / a->attrs->cap);
    return (Score){a->attrs->cap * t + bias, a->attrs->scale * (1 - t * t)};
}

/* The keys that a query sees: [first, end). */
typedef struct Keys {
    int64_t first, end;
} Keys;

/* Queries that are split over ranks, whose keys are whole, know their positions. */
static int64_t position(const Attention *a, const Walk *w)
{
    const int64_t s = walk_index(w, a->attrs->along.name);
    return a->attrs->keys.name && a->attrs->along.axes
               ? mesh_index(a->of->m, a->of->rank, a->attrs->along, s)
               : s;
}

static Keys visible(const Attention *a, const Walk *w)
{
    const int64_t s = position(a, w), window = a->attrs->window;
    Keys keys = {0, a->keys};
    if (a->seen)
        keys.end =
            (int64_t)a->seen
                ->data[w->at[AT_more + (a->bias != NULL) + (a->first != NULL) + (a->sink != NULL)]];
    else if (a->attrs->causal && s + 1 < a->keys)
        keys.end = s + 1;
    if (window > 0 && s - window + 1 > 0)
        keys.first = s - window + 1;
    if (a->first && (int64_t)a->first->data[w->at[AT_more + (a->bias != NULL)]] > keys.first)
        keys.first = (int64_t)a->first->data[w->at[AT_more + (a->bias != NULL)]];
    return keys;
}

/* The score beside those of keys. */
static double sink_of(const Attention *a, const Walk *w)
{
    return a->sink->data[w->at[AT_more + (a->bias != NULL) + (a->first != NULL)]];
}

static double bias_of(const Attention *a, const Walk *w, int64_t key)
{
    return a->bias ? a->bias->data[w->at[AT_more] + key * a->bstride] : 0;
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
static void attend(const Interp *of, const Ins *i, const Tensor64 *in, const Tensor64 *out)
{
    Attention a = attention_start(of, &i->attrs, (int)i->nin, 3 + i->attrs.sunk, in, &out[0].type,
                                  &out[1].type);
    const double *q = in[0].data, *k = in[1].data, *v = in[2].data;
    Walk w = attention_walk(&a);
    double *s = interp_alloc(a.keys, sizeof *s);
    do {
        const Keys see = visible(&a, &w);
        double top = a.sink ? sink_of(&a, &w) : -INFINITY, sum = 0;
        for (int64_t t = see.first; t < see.end; t++) {
            s[t] = score(&a, q + w.at[AT_q], k + w.at[AT_k] + t * a.kstride, bias_of(&a, &w, t)).x;
            top = s[t] > top || isnan(s[t]) ? s[t] : top;
        }
        for (int64_t t = see.first; t < see.end; t++)
            sum += s[t] = exp(s[t] - top);
        sum += a.sink ? exp(sink_of(&a, &w) - top) : 0;
        out[1].data[w.at[AT_lse]] = see.end > see.first || a.sink ? top + log(sum) : -1e30;
        for (int64_t h = 0; h < a.vheads; h++) {
            double y = 0;
            for (int64_t t = see.first; t < see.end; t++)
                y += s[t] / sum * v[w.at[AT_v] + t * a.vstride + a.vhead[h]];
            out[0].data[w.at[AT_o] + a.ohead[h]] = y;
        }
    } while (walk_next(&w));
    free(s);
    attention_end(&a);
}

/* D = do . o; P = exp(x - lse); dv += P do; dB = P (do . v - D); dX = dB slope; dq += dX k; dk +=
 * dX q; db, if asked for, += dB. */
static void attend_back(const Interp *of, const Ins *i, const Tensor64 *in, const Tensor64 *out)
{
    Attention a = attention_start(of, &i->attrs, (int)i->nin, 6, in, &in[3].type, &in[4].type);
    double *db = i->op == OP_attention_bias_grad ? out[0].data : NULL;
    double *g = in_order(&in[5], a.o);
    const double *q = in[0].data, *k = in[1].data, *v = in[2].data, *o = in[3].data;
    double *dq = interp_alloc(type_elements(a.q), sizeof *dq);
    double *dk = interp_alloc(type_elements(a.k), sizeof *dk);
    double *dv = interp_alloc(type_elements(a.v), sizeof *dv);
    if (db)
        memset(db, 0, (size_t)type_elements(&out[0].type) * sizeof *db);
    Walk w = attention_walk(&a);
    do {
        const int64_t at = w.at[AT_o];
        const Keys see = visible(&a, &w);
        double delta = 0;
        for (int64_t h = 0; h < a.vheads; h++)
            delta += g[at + a.ohead[h]] * o[at + a.ohead[h]];
        for (int64_t t = see.first; t < see.end; t++) {
            const int64_t kt = w.at[AT_k] + t * a.kstride, vt = w.at[AT_v] + t * a.vstride;
            const Score x = score(&a, q + w.at[AT_q], k + kt, bias_of(&a, &w, t));
            double p = exp(x.x - in[4].data[w.at[AT_lse]]), gv = 0;
            for (int64_t h = 0; h < a.vheads; h++) {
                gv += g[at + a.ohead[h]] * v[vt + a.vhead[h]];
                dv[vt + a.vhead[h]] += p * g[at + a.ohead[h]];
            }
            if (db)
                db[w.at[AT_more] + t * a.bstride] += p * (gv - delta);
            double ds = p * (gv - delta) * x.slope;
            for (int64_t h = 0; h < a.heads; h++) {
                int64_t qh = w.at[AT_q] + a.qhead[h], kh = kt + a.khead[h];
                dq[qh] += ds * k[kh];
                dk[kh] += ds * q[qh];
            }
        }
    } while (walk_next(&w));
    if (!db) {
        put_in_order(&out[0], dq, a.q);
        put_in_order(&out[1], dk, a.k);
        put_in_order(&out[2], dv, a.v);
    }
    free(g), free(dq), free(dk), free(dv);
    attention_end(&a);
}

enum { MAX_IN = 9, MAX_OUT = 3 };

static void compute(const Interp *of, const Ins *i, const Tensor64 *in, const Tensor64 *out)
{
    if (i->op == OP_attention)
        attend(of, i, in, out);
    else
        attend_back(of, i, in, out);
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
    compute(in, i, x, y);
}

void interp_attention_grad(Interp *in, const Ins *i)
{
    interp_attention(in, i);
}

void interp_attention_bias_grad(Interp *in, const Ins *i)
{
    interp_attention(in, i);
}

/* ---- of all ranks ---------------------------------------------------------------------------- */

/* The value as it is along a dim on all ranks that share it. */
static Type whole_along(const Module *m, Type t, Name along)
{
    Dim *d = &t.dims[type_find(&t, along)];
    d->size = dim_whole(m, *d);
    *d = dim_lying_as(*d, (Dim){0});
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
        compute(&in[r], i, x, y);
        for (uint32_t k = 0; k < i->nout; k++) {
            interp_out(&in[r], i, k);
            copy_rows(m, in[r].rank, &in[r].value[i->out[k]], &y[k], along.name, true);
            free(y[k].data);
        }
        for (uint32_t k = 0; k < i->nin; k++)
            free(x[k].data);
    }
}
