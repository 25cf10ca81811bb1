/* eval.c - the mean loss over the evaluation set, in a fixed order. */
#include "runtime/run.h"

void rt_fill_scalars(mg_run *r, const mg_entry *e, int64_t step)
{
    double lr = rt_lr(&r->lr, step);
    if (e->lr >= 0)
        rt_put(r, e->lr, &lr, sizeof lr);
    if (e->scale >= 0)
        rt_put(r, e->scale, &r->state.scale.value, sizeof r->state.scale.value);
    if (e->step >= 0)
        rt_put(r, e->step, &step, sizeof step);
    if (e->seed >= 0)
        rt_put(r, e->seed, &r->state.seed, sizeof r->state.seed);
}

/* A sum of losses, and of what they count. */
typedef struct total {
    double loss, weight;
} total;

/* Adds `times` the losses of a batch: windows first, first + 1, ... and after `n` of them, the last
 * again. */
static void add_batch(mg_run *r, const rt_data *d, int64_t first, int64_t n, double times, total *t)
{
    const mg_entry *e = &r->program->eval;
    for (int64_t b = 0; b < e->batch; b++)
        rt_data_sample(r, d, e, b, first + (b < n ? b : n - 1), false);
    rt_fill_scalars(r, e, rt_updates(r));
    rt_run(r, RT_EVAL);
    double weight = e->weight >= 0 ? rt_get_f64(r, e->weight) : (double)e->batch;
    t->loss += times * weight * rt_get_f64(r, e->loss);
    t->weight += times * weight;
}

double rt_eval(mg_run *r, const rt_data *d, int64_t max_batches)
{
    int64_t size = r->program->eval.batch, full = d->windows / size, rest = d->windows % size;
    if (max_batches != RT_UNSET && max_batches <= full) {
        full = max_batches;
        rest = 0;
    }
    total t = {0};
    for (int64_t i = 0; i < full; i++)
        add_batch(r, d, i * size, size, 1, &t);
    /* The last windows do not fill a batch: their last one fills it, and a batch of that one alone
     * says what to take off again. So every window counts once, whatever the batch. */
    if (rest) {
        add_batch(r, d, full * size, rest, 1, &t);
        add_batch(r, d, full * size + rest - 1, 1, (double)(rest - size) / (double)size, &t);
    }
    return t.weight > 0 ? t.loss / t.weight : 0;
}
