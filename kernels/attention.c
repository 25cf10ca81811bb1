/* attention.c - attention and its gradients: chooses the body, the number of units and the cut of
 * the backward pass. */
#include "kernels/attention.h"
#include "kernels/amx.h"
#include "kernels/output.h"

#define MGK_BODY "kernels/attention_body.h"
#include "kernels/each_isa.h"

static mg_task *const forward[][MGK_FLOATS] = MGK_TABLE(attention_forward);
static mg_task *const few[][MGK_FLOATS] = MGK_TABLE(attention_few);
static mg_task *const backward[][MGK_FLOATS] = MGK_TABLE(attention_backward);
static mg_task *const bias_backward[][MGK_FLOATS] = MGK_TABLE(attention_bias_backward);

/* Rows of one (batch, kv head) in a unit of the forward pass, at the level in use. */
static int64_t unit_rows(mg_dtype t)
{
    const mgk_level level = mgk_isa();
    const int64_t bytes = level == MGK_BASE ? 16 : level == MGK_V3 ? 32 : 64; /* of a vector */
    return MGK_STRIPS * MGK_STRIP_VECS * bytes / mg_dtype_bytes(mgk_wide(t));
}

void mg_attention_part(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                       const void *k, const void *v, void *o, void *lse, const void *bias,
                       const int32_t *seen, const int32_t *first)
{
    const int type = mgk_float(d->dtype, "mg_attention");
    mgk_attention x = {.d = d,
                       .q = q,
                       .k = k,
                       .v = v,
                       .bias = bias,
                       .seen = seen,
                       .first = first,
                       .o = o,
                       .lse = lse};
    const int64_t rows = unit_rows(d->dtype);
    const int64_t units = d->batch * d->kv * ((d->queries * d->group + rows - 1) / rows);
    const bool alone = seen && !bias && d->queries == 1 && d->group <= MGK_FEW;
    mg_begin(r, action);
    mg_parallel(r, units, 1, (alone ? few : forward)[mgk_isa()][type], &x);
    mg_end(r, action);
    mg_attention_outputs(r, action, d, o, lse);
}

void mg_attention(mg_run *r, int action, const mg_attention_desc *d, const void *q, const void *k,
                  const void *v, void *o, void *lse)
{
    mg_attention_part(r, action, d, q, k, v, o, lse, NULL, NULL, NULL);
}

/* The number of parts of each (batch, kv head): one sweep with five products, or several parts with
 * seven products, whichever is faster. The bits are the same. */
static int64_t backward_parts(const mg_attention_desc *d, int64_t threads)
{
    const int64_t heads = d->batch * d->kv, turns = (heads + threads - 1) / threads;
    return 5 * turns * threads <= 7 * heads ? 1 : (4 * threads + heads - 1) / heads;
}

void mg_attention_part_grad(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                            const void *k, const void *v, const void *o, const void *lse,
                            const void *dout, void *dq, void *dk, void *dv, const void *bias,
                            const int32_t *seen, const int32_t *first, void *work)
{
    (void)work;
    const int type = mgk_float(d->dtype, "mg_attention_grad");
    /* The bodies only read o and lse here; the forward pass writes them through the same fields. */
    mgk_attention x = {.d = d,
                       .q = q,
                       .k = k,
                       .v = v,
                       .dout = dout,
                       .bias = bias,
                       .seen = seen,
                       .first = first,
                       .dq = dq,
                       .dk = dk,
                       .dv = dv,
                       .o = (void *)o,
                       .lse = (void *)lse};
    x.parts = backward_parts(d, mg_threads(r));
    mg_begin(r, action);
    mg_parallel(r, d->batch * d->kv * x.parts, 1, backward[mgk_isa()][type], &x);
    mg_end(r, action);
    mg_attention_grad_outputs(r, action, d, dq, dk, dv);
}

void mg_attention_grad(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                       const void *k, const void *v, const void *o, const void *lse,
                       const void *dout, void *dq, void *dk, void *dv, void *work)
{
    mg_attention_part_grad(r, action, d, q, k, v, o, lse, dout, dq, dk, dv, NULL, NULL, NULL, work);
}

/* The parts of a bias that are summed each by itself: one for each batch, kv head and tile of
 * queries that it has. */
static int64_t bias_units(const mg_attention_desc *d)
{
    const int64_t rows = unit_rows(d->dtype), tile = rows > d->group ? rows / d->group : 1;
    return (d->dbias[0] ? d->batch : 1) * (d->dbias[2] ? d->kv : 1) *
           (d->dbias[1] ? (d->queries + tile - 1) / tile : 1);
}

void mg_attention_bias_grad(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                            const void *k, const void *v, const void *o, const void *lse,
                            const void *dout, void *dbias, const void *bias, const int32_t *seen,
                            const int32_t *first, void *work)
{
    (void)work;
    const int type = mgk_float(d->dtype, "mg_attention_bias_grad");
    mgk_attention x = {.d = d,
                       .q = q,
                       .k = k,
                       .v = v,
                       .dout = dout,
                       .bias = bias,
                       .seen = seen,
                       .first = first,
                       .dbias = dbias,
                       .o = (void *)o,
                       .lse = (void *)lse};
    mg_begin(r, action);
    mg_parallel(r, bias_units(d), 1, bias_backward[mgk_isa()][type], &x);
    mg_end(r, action);
    mg_attention_bias_outputs(r, action, d, dbias);
}
