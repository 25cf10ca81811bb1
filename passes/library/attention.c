/* attention.c - whether the operands of attention lie as its descriptor can say; see attention.h.
 */
#include "passes/library/attention.h"

#include <string.h>

/* Elements of a group, and its stride in a value if it steps through it evenly: dims of one element
 * step nowhere. */
bool group_stride(const Type *t, const int64_t *stride, const Group *g, int64_t *out)
{
    int64_t expect = 0; /* of the next dim outwards; 0: any */
    *out = 0;
    for (int i = g->n - 1; i >= 0; i--) {
        int at = type_find(t, g->dim[i].name);
        if (at < 0 || (g->dim[i].size > 1 && expect && stride[at] != expect))
            return false;
        if (g->dim[i].size == 1)
            continue;
        if (!expect)
            *out = stride[at];
        expect = stride[at] * g->dim[i].size;
    }
    return true;
}

static int64_t group_size(const Group *g)
{
    int64_t n = 1;
    for (int i = 0; i < g->n; i++)
        n *= g->dim[i].size;
    return n;
}

/* Strides of batch, along, kv and group in an operand; group may be absent (keys). */
static bool attention_strides(const Strided *o, const Group g[3], Name along, int64_t out[4])
{
    out[1] = stride_of(o->type, o->stride, along);
    return group_stride(o->type, o->stride, &g[0], &out[0]) &&
           group_stride(o->type, o->stride, &g[1], &out[2]) &&
           (!g[2].n || group_stride(o->type, o->stride, &g[2], &out[3]));
}

static bool describe_attention(const Ins *i, const Strided *q, const Strided *k, const Strided *v,
                               const Strided *o, const Strided *lse, const Group g[3],
                               mg_attention_desc *d)
{
    const Name along = i->attrs.along.name, sequence = attention_keys(&i->attrs);
    Group keys[3] = {g[0], g[1], {0}};
    int64_t ks[4], vs[4];
    if (!attention_strides(q, g, along, d->q) || !attention_strides(k, keys, sequence, ks) ||
        !attention_strides(v, keys, sequence, vs) || !attention_strides(o, g, along, d->o) ||
        !attention_strides(lse, g, along, d->lse))
        return false;
    memcpy(d->k, ks, sizeof d->k);
    memcpy(d->v, vs, sizeof d->v);
    d->batch = group_size(&g[0]);
    d->kv = group_size(&g[1]);
    d->group = group_size(&g[2]);
    d->queries = q->type->dims[type_find(q->type, along)].size;
    d->keys = k->type->dims[type_find(k->type, sequence)].size;
    const DimList values = attention_value_head(&i->attrs, k->type, v->type);
    if (values.n != 1 || i->attrs.over.n != 1)
        return false;
    const Name head = i->attrs.over.dim[0].name, own = values.dim[0].name;
    d->head = q->type->dims[type_find(q->type, head)].size;
    d->vhead = values.dim[0].size;
    return stride_of(q->type, q->stride, head) == 1 && stride_of(k->type, k->stride, head) == 1 &&
           stride_of(v->type, v->stride, own) == 1 && stride_of(o->type, o->stride, own) == 1;
}

/* Numbers of queries have all dims of the batch, or none, and none of the heads. */
static bool describe_numbers(const Ins *i, const Strided *x, const Group g[3], int64_t out[2])
{
    int has = 0;
    for (int k = 0; k < g[1].n; k++)
        if (g[1].dim[k].size > 1 && type_find(x->type, g[1].dim[k].name) >= 0)
            return false;
    for (int k = 0; k < g[0].n; k++)
        has += type_find(x->type, g[0].dim[k].name) >= 0;
    out[1] = stride_of(x->type, x->stride, i->attrs.along.name);
    out[0] = 0;
    return !has || group_stride(x->type, x->stride, &g[0], &out[0]);
}

/* Strides of a bias, or of its gradient: batch, query, kv, group, key; 0 along what it lacks. It
 * has all dims of a group, or none. */
static bool describe_bias(const Ins *i, const Strided *bias, const Group g[3], int64_t out[5])
{
    static const int place[3] = {0, 2, 3};
    for (int n = 0; n < 3; n++) {
        int has = 0, lacks = 0;
        for (int k = 0; k < g[n].n; k++)
            if (g[n].dim[k].size > 1)
                *(type_find(bias->type, g[n].dim[k].name) < 0 ? &lacks : &has) += 1;
        out[place[n]] = 0;
        if (has && (lacks || !group_stride(bias->type, bias->stride, &g[n], &out[place[n]])))
            return false;
    }
    out[1] = stride_of(bias->type, bias->stride, i->attrs.along.name);
    out[4] = stride_of(bias->type, bias->stride, i->attrs.keys.name);
    return out[4] == 0 || out[4] == 1;
}

/* The gradients lie as they do, in the same groups of dims. */
static bool describe_gradients(const Ins *i, const Strided op[], const Group g[3],
                               mg_attention_desc *d)
{
    const Name along = i->attrs.along.name, sequence = attention_keys(&i->attrs);
    const Name head = i->attrs.over.dim[0].name;
    const DimList values = attention_value_head(&i->attrs, op[1].type, op[2].type);
    Group keys[3] = {g[0], g[1], {0}};
    int64_t dk[4], dv[4];
    if (!attention_strides(&op[6], g, along, d->dq) ||
        !attention_strides(&op[7], keys, sequence, dk) ||
        !attention_strides(&op[8], keys, sequence, dv))
        return false;
    memcpy(d->dk, dk, sizeof d->dk);
    memcpy(d->dv, dv, sizeof d->dv);
    return stride_of(op[6].type, op[6].stride, head) == 1 &&
           stride_of(op[7].type, op[7].stride, head) == 1 &&
           stride_of(op[8].type, op[8].stride, values.dim[0].name) == 1;
}

static bool describe(const Ins *i, const Strided op[], const AttentionMask *mask, const Group g[3],
                     mg_attention_desc *d)
{
    d->biased = mask->bias != NULL;
    return describe_attention(i, &op[0], &op[1], &op[2], &op[3], &op[4], g, d) &&
           (i->op != OP_attention_grad || describe_gradients(i, op, g, d)) &&
           (!mask->bias || describe_bias(i, mask->bias, g, d->bias)) &&
           (i->op != OP_attention_bias_grad || describe_bias(i, &op[6], g, d->dbias)) &&
           (!mask->seen || describe_numbers(i, mask->seen, g, d->seen)) &&
           (!mask->first || describe_numbers(i, mask->first, g, d->first));
}

/* Dims of q: shared with the keys (batch and kv heads), or its own (group). The shared ones are
 * batch and then heads, or, as the bias lacks some of them, any of them are heads. */
bool attention_match(const Ins *i, const Strided op[], const AttentionMask *mask,
                     mg_attention_desc *d)
{
    const Type *q = op[0].type, *k = op[1].type;
    Group shared = {0}, group = {0};
    for (int n = 0; n < q->rank; n++) {
        Dim dim = q->dims[n];
        if (dim.name == i->attrs.along.name || dims_have(&i->attrs.over, dim.name))
            continue;
        Group *g = type_find(k, dim.name) >= 0 ? &shared : &group;
        g->dim[g->n++] = dim;
    }
    for (int cut = shared.n > 0; cut <= shared.n; cut++) {
        Group g[3] = {shared, {0}, group};
        g[0].n = cut;
        g[1].n = shared.n - cut;
        memcpy(g[1].dim, shared.dim + cut, (size_t)g[1].n * sizeof g[1].dim[0]);
        if (describe(i, op, mask, g, d))
            return true;
    }
    for (unsigned heads = 0; mask->bias && heads < 1u << shared.n; heads++) {
        Group g[3] = {{0}, {0}, group};
        for (int n = 0; n < shared.n; n++) {
            Group *to = &g[heads >> n & 1];
            to->dim[to->n++] = shared.dim[n];
        }
        if (describe(i, op, mask, g, d))
            return true;
    }
    return false;
}
