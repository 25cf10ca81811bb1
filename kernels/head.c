/* head.c - computes the last product and its cross-entropy, forward and backward, a chunk of rows
 * at a time: at most one chunk of logits exists, and the logits become their own gradients in
 * place. */
#include "kernels/gemm.h"
#include "kernels/isa.h"
#include "kernels/xent.h"
#include "runtime/sizes.h"

typedef struct Head {
    mg_run *run;
    const mg_head_desc *d;
    const char *w;
    char *z; /* rows of a chunk: logits, then their gradients */
} Head;

/* z = x w. */
static void logits(const Head *h, int64_t rows, const char *x)
{
    mg_gemm_desc g = mg_head_z(h->d, rows);
    mgk_gemm(h->run, &g, x, h->w, h->z, NULL, NULL);
}

/* dx = dz w^T. */
static void grad_x(const Head *h, int64_t rows, char *dx)
{
    mg_gemm_desc g = mg_head_dx(h->d, rows);
    mgk_gemm(h->run, &g, h->z, h->w, dx, NULL, NULL);
}

/* dw (+)= x^T dz, or with w_by_vocab dz^T x. */
static void grad_w(const Head *h, int64_t rows, const char *x, bool add, char *dw)
{
    mg_gemm_desc g = mg_head_dw(h->d, rows, add);
    bool by_vocab = h->d->w_by_vocab;
    mgk_gemm(h->run, &g, by_vocab ? h->z : x, by_vocab ? x : h->z, dw, NULL, NULL);
}

static void chunks(const Head *h, const char *x, const int32_t *target, const void *dloss,
                   char *loss, char *dx, char *dw)
{
    const mg_head_desc *d = h->d;
    const int64_t bytes = mg_dtype_bytes(d->xent.dtype), all = d->xent.rows;
    const int64_t wide = mg_dtype_bytes(mgk_wide(d->xent.dtype)); /* bytes of a loss */
    const mg_xent_desc xent = mg_head_xent(d);
    for (int64_t row = 0; row < all; row += d->chunk) {
        int64_t rows = all - row < d->chunk ? all - row : d->chunk;
        const char *xs = x + row * d->hidden * bytes;
        logits(h, rows, xs);
        mgk_xent_rows(h->run,
                      &(mgk_xent){.d = &xent,
                                  .z = h->z,
                                  .target = target,
                                  .row0 = row,
                                  .dloss = dloss,
                                  .loss = loss + row * wide,
                                  .dz = h->z},
                      dx ? MGK_XENT_BOTH : MGK_XENT_LOSS, rows);
        if (!dx)
            continue;
        grad_x(h, rows, dx + row * d->hidden * bytes);
        if (!d->frozen)
            grad_w(h, rows, xs, row > 0 || d->dw_accumulate, dw);
    }
    if (all == 0 && dx && !d->frozen)
        grad_w(h, 0, x, d->dw_accumulate, dw);
}

void mg_head(mg_run *r, int action, const mg_head_desc *d, const void *x, const void *w,
             const int32_t *target, const void *dloss, void *loss, void *dx, void *dw, void *work)
{
    const mg_dtype t = d->xent.dtype;
    mgk_float(t, "mg_head");
    if (d->chunk < 1)
        mgk_fatal("mg_head", "a chunk has to be a row or more");
    Head h = {.run = r, .d = d, .w = w, .z = work};
    mg_begin(r, action);
    chunks(&h, x, target, dloss, loss, dx, dw);
    mg_end(r, action);
    mg_output(r, action, loss, d->xent.rows, mgk_wide(t));
    if (dx)
        mg_output(r, action, dx, d->xent.rows * d->hidden, t);
    if (dx && !d->frozen)
        mg_output(r, action, dw, d->hidden * d->xent.vocab, d->dw);
}
