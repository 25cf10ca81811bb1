/* xent.c - cross-entropy and its gradient over rows of logits. */
#include "kernels/xent.h"

#define MGK_BODY "kernels/xent_body.h"
#include "kernels/each_isa.h"

static mg_task *const loss_tasks[][MGK_FLOATS] = MGK_TABLE(xent_loss);
static mg_task *const grad_tasks[][MGK_FLOATS] = MGK_TABLE(xent_grad);
static mg_task *const both_tasks[][MGK_FLOATS] = MGK_TABLE(xent_both);

void mgk_xent_rows(mg_run *r, const mgk_xent *x, mgk_xent_pass pass, int64_t rows)
{
    const int type = mgk_float(x->d->dtype, "mg_xent");
    const mgk_level level = mgk_isa();
    mg_task *task = pass == MGK_XENT_LOSS   ? loss_tasks[level][type]
                    : pass == MGK_XENT_GRAD ? grad_tasks[level][type]
                                            : both_tasks[level][type];
    /* At least a row, and at least some ten thousand logits, for each thread. */
    mg_parallel(r, rows, 1 + 16384 / (x->d->vocab + 1), task, (void *)x);
}

void mg_xent(mg_run *r, int action, const mg_xent_desc *d, const void *z, const int32_t *target,
             void *loss, void *lse)
{
    mgk_xent x = {.d = d, .z = z, .target = target, .loss = loss, .lse = lse};
    mg_begin(r, action);
    mgk_xent_rows(r, &x, MGK_XENT_LOSS, d->rows);
    mg_end(r, action);
    mg_output(r, action, loss, d->rows, mgk_wide(d->dtype));
    mg_output(r, action, lse, d->rows, mgk_wide(d->dtype));
}

void mg_xent_grad(mg_run *r, int action, const mg_xent_desc *d, const void *z,
                  const int32_t *target, const void *lse, const void *dloss, void *dz)
{
    /* This pass only reads lse; the other pass writes it through the same field. */
    mgk_xent x = {.d = d, .z = z, .target = target, .lse = (void *)lse, .dloss = dloss, .dz = dz};
    mg_begin(r, action);
    mgk_xent_rows(r, &x, MGK_XENT_GRAD, d->rows);
    mg_end(r, action);
    mg_output(r, action, dz, d->rows * d->vocab, d->dtype);
}
