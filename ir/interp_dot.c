/* interp_dot.c - the reference meaning of products, and of what they do at their end. */
#include "ir/interp.h"

#include <stdlib.h>

static const Type *in_type(const Interp *in, const Ins *i, uint32_t k)
{
    return type_of(in->m, i->in[k]);
}

/* The result's dims outside, the summed ones inside, each as a list of offsets: a product of two
 * matrices costs no more than its multiplications. */
void interp_dot(Interp *in, const Ins *i)
{
    double *y = interp_out(in, i, 0);
    const double *a = interp_in(in, i, 0), *b = interp_in(in, i, 1);
    const double *c = i->nin > 2 ? interp_in(in, i, 2) : NULL;
    Walk k = walk_start();
    int64_t depth = 1;
    for (int d = 0; d < i->attrs.over.n; d++) {
        const Type *t = in_type(in, i, 0);
        Dim dim = t->dims[type_find(t, i->attrs.over.dim[d].name)];
        walk_dim(&k, dim);
        depth *= dim.size;
    }
    walk_tensor(&k, in_type(in, i, 0));
    walk_tensor(&k, in_type(in, i, 1));
    int64_t *ka = interp_alloc(depth * 2, sizeof *ka), *kb = ka + depth;
    for (int64_t n = 0; n < depth; n++, walk_next(&k)) {
        ka[n] = k.at[0];
        kb[n] = k.at[1];
    }
    Walk w = walk_start();
    walk_dims(&w, type_of(in->m, i->out[0]));
    walk_tensor(&w, type_of(in->m, i->out[0]));
    walk_tensor(&w, in_type(in, i, 0));
    walk_tensor(&w, in_type(in, i, 1));
    if (c)
        walk_tensor(&w, in_type(in, i, 2));
    do {
        double sum = c ? c[w.at[3]] : 0;
        const double *pa = a + w.at[1], *pb = b + w.at[2];
        for (int64_t n = 0; n < depth; n++)
            sum += pa[ka[n]] * pb[kb[n]];
        y[w.at[0]] = sum;
    } while (walk_next(&w));
    free(ka);
}

/* Element by element, as the taps say. */
void interp_conv(Interp *in, const Ins *i)
{
    const Taps *taps = i->attrs.taps;
    double *y = interp_out(in, i, 0);
    const double *x = interp_in(in, i, 0), *b = interp_in(in, i, 1);
    const double *c = i->nin > 2 ? interp_in(in, i, 2) : NULL;
    Type plain = *in_type(in, i, 0); /* where the indices along tapped dims are 0 */
    int64_t stride[MAX_TAPS], left = 1;
    for (int k = 0; k < taps->n; k++) {
        const int at = type_find(&plain, taps->tap[k].dim.name);
        stride[k] = type_stride(in_type(in, i, 0), at);
    }
    for (int k = 0; k < taps->n; k++)
        plain.dims[type_find(&plain, taps->tap[k].dim.name)].name = 0;
    Walk w = walk_start();
    walk_dims(&w, type_of(in->m, i->out[0]));
    for (int k = 0; k < i->attrs.over.n; k++) {
        walk_dim(&w, i->attrs.over.dim[k]);
        left *= i->attrs.over.dim[k].size;
    }
    walk_tensor(&w, type_of(in->m, i->out[0]));
    walk_tensor(&w, &plain);
    walk_tensor(&w, in_type(in, i, 1));
    if (c)
        walk_tensor(&w, in_type(in, i, 2));
    for (int64_t n = 0, more = 1; more; n++) {
        int64_t at = w.at[1];
        bool there = true;
        for (int k = 0; k < taps->n; k++) {
            const Tap *t = &taps->tap[k];
            int64_t p = t->at;
            for (int d = 0; d < t->n; d++)
                p += t->by[d] * walk_index(&w, t->over[d].name);
            there &= p >= 0 && p % t->every == 0 && p / t->every < t->dim.size;
            at += p / t->every * stride[k];
        }
        if (n % left == 0)
            y[w.at[0]] = c ? c[w.at[3]] : 0;
        y[w.at[0]] += there ? x[at] * b[w.at[2]] : 0;
        more = walk_next(&w);
    }
}

void interp_dot_scaled(Interp *in, const Ins *i)
{
    Ins product = *i;
    if (i->attrs.tiles) {
        interp_tiled_product(in, i);
        return;
    }
    product.nin = 2;
    interp_dot(in, &product);
    const Type *t = type_of(in->m, i->out[0]);
    double *y = in->value[i->out[0]].data;
    const double scale = interp_in(in, i, 2)[0] * interp_in(in, i, 3)[0];
    Walk w = walk_start();
    walk_dims(&w, t);
    walk_tensor(&w, t);
    if (i->nin > 4)
        walk_tensor(&w, in_type(in, i, 4));
    do
        y[w.at[0]] = y[w.at[0]] * scale + (i->nin > 4 ? interp_in(in, i, 4)[w.at[1]] : 0);
    while (walk_next(&w));
}

/* A bias is added as what a product adds to is: broadcast along the dims that it lacks. */
void interp_dot_bias(Interp *in, const Ins *i)
{
    interp_dot(in, i);
}

void interp_dot_gelu(Interp *in, const Ins *i)
{
    interp_dot(in, i);
    double *y = in->value[i->out[0]].data;
    for (int64_t e = type_elements(type_of(in->m, i->out[0])); e-- > 0;)
        y[e] = op_evaluate(OP_gelu_tanh, y[e], 0, 0);
}

void interp_dot_gelu_aux(Interp *in, const Ins *i)
{
    interp_dot(in, i);
    double *z = interp_out(in, i, 1), *y = in->value[i->out[0]].data;
    Walk w = walk_start();
    walk_dims(&w, type_of(in->m, i->out[0]));
    walk_tensor(&w, type_of(in->m, i->out[1]));
    walk_tensor(&w, type_of(in->m, i->out[0]));
    do {
        z[w.at[0]] = y[w.at[1]];
        y[w.at[1]] = op_evaluate(OP_gelu_tanh, y[w.at[1]], 0, 0);
    } while (walk_next(&w));
}

void interp_dot_gelu_grad(Interp *in, const Ins *i)
{
    Ins product = *i;
    product.nin = 2;
    interp_dot(in, &product);
    double *y = in->value[i->out[0]].data;
    const double *z = interp_in(in, i, 2);
    Walk w = walk_start();
    walk_dims(&w, type_of(in->m, i->out[0]));
    walk_tensor(&w, type_of(in->m, i->out[0]));
    walk_tensor(&w, in_type(in, i, 2));
    do
        y[w.at[0]] *= op_evaluate(OP_gelu_tanh_slope, z[w.at[1]], 0, 0);
    while (walk_next(&w));
}

void interp_dot_sum(Interp *in, const Ins *i)
{
    interp_dot(in, i);
    double *y = interp_out(in, i, 1);
    const double *x = interp_in(in, i, 0);
    Walk w = walk_start();
    walk_dims(&w, in_type(in, i, 0));
    walk_tensor(&w, type_of(in->m, i->out[1]));
    walk_tensor(&w, in_type(in, i, 0));
    do
        y[w.at[0]] += x[w.at[1]];
    while (walk_next(&w));
}
