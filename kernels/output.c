/* output.c - see output.h. */
#include "kernels/output.h"

typedef struct Dim {
    int64_t size, stride;
} Dim;

/* Dims of more than one element, the innermost first. Returns how many, or -1 if one is empty. */
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
