/* eval.c - the mean loss over the evaluation set, in a fixed order. */
#include "runtime/run.h"

void rt_fill_scalars(mg_run *r, const mg_entry *e, int64_t step)
{
    if (e->lr >= 0)
        *(double *)(r->arena + e->lr) = rt_lr(&r->lr, step);
    if (e->step >= 0)
        *(int64_t *)(r->arena + e->step) = step;
    if (e->seed >= 0)
        *(int64_t *)(r->arena + e->seed) = r->state.seed;
}

/* The mean loss of a batch: windows first, first + 1, ... and after `n` of them, the last again. */
static double batch_loss(mg_run *r, const rt_data *d, int64_t first, int64_t n)
{
    const mg_entry *e = &r->program->eval;
    for (int64_t b = 0; b < e->batch; b++)
        rt_data_sample(r, d, e, b, first + (b < n ? b : n - 1), false);
    rt_fill_scalars(r, e, r->state.step);
    r->eval(r);
    return *(const double *)(r->arena + e->loss);
}

double rt_eval(mg_run *r, const rt_data *d, int64_t max_batches)
{
    int64_t size = r->program->eval.batch, full = d->windows / size, rest = d->windows % size;
    if (max_batches != RT_UNSET && max_batches <= full) {
        full = max_batches;
        rest = 0;
    }
    double sum = 0;
    for (int64_t i = 0; i < full; i++)
        sum += batch_loss(r, d, i * size, size) * (double)size;
    /* The last windows do not fill a batch: their last one fills it, and a batch of that one alone
     * says what to take off again. So every window counts once, whatever the batch. */
    if (rest) {
        double mixed = batch_loss(r, d, full * size, rest) * (double)size;
        double last = batch_loss(r, d, full * size + rest - 1, 1);
        sum += mixed - last * (double)(size - rest);
    }
    return sum / (double)(full * size + rest);
}
