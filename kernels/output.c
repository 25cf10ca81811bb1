/* output.c - reports a kernel's output to the runtime; see output.h. */
#include "kernels/output.h"

typedef struct Dim {
    int64_t size, stride;
} Dim;

/* Sorts the dims of more than one element, the innermost first. Returns their number, or -1 if a
 * dim is empty. */
static int sorted(Dim to[], int rank, const int64_t size[], const int64_t stride[])
{
    int n = 0;
    for (int i = 0; i < rank; i++) {
        if (size[i] == 0)
            return -1;
        if (size[i] == 1)
            continue;
        int at = n++;
        for (; at && to[at - 1].stride > stride[i]; at--)
            to[at] = to[at - 1];
        to[at] = (Dim){size[i], stride[i]};
    }
    return n;
}

void mgk_output(mg_run *r, int action, const void *p, mg_dtype t, int rank, const int64_t size[],
                const int64_t stride[])
{
    Dim dim[MG_RANK_MAX];
    int n = sorted(dim, rank, size, stride), inner = 0;
    if (n < 0)
        return;
    int64_t run = 1, index[MG_RANK_MAX] = {0};
    for (; inner < n && dim[inner].stride == run; inner++)
        run *= dim[inner].size;
    for (const char *at = p;;) {
        mg_output(r, action, at, run, t);
        int i = inner;
        for (; i < n; i++) {
            at += dim[i].stride * mg_dtype_bytes(t);
            if (++index[i] < dim[i].size)
                break;
            at -= index[i] * dim[i].stride * mg_dtype_bytes(t);
            index[i] = 0;
        }
        if (i == n)
            return;
    }
}

void mg_attention_outputs(mg_run *r, int action, const mg_attention_desc *d, const void *o,
                          const void *lse)
{
    const int64_t out[] = {d->batch, d->queries, d->kv, d->group, d->vhead};
    const bool half = d->dtype == MG_BF16 || d->dtype == MG_F16;
    mgk_output(r, action, o, d->dtype, 5, out, (int64_t[]){d->o[0], d->o[1], d->o[2], d->o[3], 1});
    mgk_output(r, action, lse, half ? MG_F32 : d->dtype, 4, out, d->lse);
}

void mg_attention_bias_outputs(mg_run *r, int action, const mg_attention_desc *d, const void *dbias)
{
    const int64_t all[] = {d->batch, d->queries, d->kv, d->group, d->keys};
    const bool half = d->dtype == MG_BF16 || d->dtype == MG_F16;
    int64_t size[5];
    for (int i = 0; i < 5; i++)
        size[i] = d->dbias[i] ? all[i] : 1;
    mgk_output(r, action, dbias, half ? MG_F32 : d->dtype, 5, size, d->dbias);
}

void mg_attention_grad_outputs(mg_run *r, int action, const mg_attention_desc *d, const void *dq,
                               const void *dk, const void *dv)
{
    mgk_output(r, action, dq, d->dtype, 5,
               (int64_t[]){d->batch, d->queries, d->kv, d->group, d->head},
               (int64_t[]){d->dq[0], d->dq[1], d->dq[2], d->dq[3], 1});
    mgk_output(r, action, dk, d->dtype, 4, (int64_t[]){d->batch, d->keys, d->kv, d->head},
               (int64_t[]){d->dk[0], d->dk[1], d->dk[2], 1});
    mgk_output(r, action, dv, d->dtype, 4, (int64_t[]){d->batch, d->keys, d->kv, d->vhead},
               (int64_t[]){d->dv[0], d->dv[1], d->dv[2], 1});
}
