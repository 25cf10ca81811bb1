/* eval.c - computes loss and metrics over the evaluation set, in a fixed order. The program keeps
 * its sums between batches (mg_entry.total), so what the last batch gives is of the whole set. */
#include "runtime/checkpoint/followers.h"
#include "runtime/data/batch.h"

#include <math.h>

void rt_fill_scalars(mg_run *r, const mg_entry *e, int64_t step)
{
    double lr = rt_lr(&r->lr, step);
    if (e->lr >= 0)
        rt_put(r, e->lr, &lr, sizeof lr);
    if (e == &r->program->step)
        rt_goals_fill(r, step);
    if (e->scale >= 0)
        rt_put(r, e->scale, &r->state.scale.value, sizeof r->state.scale.value);
    if (e->step >= 0)
        rt_put(r, e->step, &step, sizeof step);
    if (e->seed >= 0)
        rt_put(r, e->seed, &r->state.seed, sizeof r->state.seed);
}

void rt_eval_batch(mg_run *r, int64_t first, int64_t n)
{
    const mg_entry *e = &r->program->eval;
    rt_fill_scalars(r, e, rt_updates(r));
    if (e->filled >= 0)
        rt_put(r, e->filled, &n, sizeof n);
    if (e->before >= 0)
        rt_put(r, e->before, &first, sizeof first);
    rt_run(r, RT_EVAL);
}

/* Runs on `n` windows from number `first`. If n is less than the batch, copies of the last window
 * fill it. */
static void run_batch(mg_run *r, const rt_data *d, int64_t first, int64_t n, rt_scores *s)
{
    const mg_entry *e = &r->program->eval;
    rt_batch_fill(r, RT_EVAL, d, first, n);
    rt_eval_batch(r, first, n);
    s->loss = rt_get_f64(r, e->loss);
    for (int64_t i = 0; i < e->nmetrics; i++)
        s->metric[i] = rt_get_f64(r, e->metric[i].offset);
}

void rt_eval_begin(mg_run *r)
{
    const mg_entry *e = &r->program->eval;
    for (int64_t i = 0; i < e->ntotals; i++)
        for (int64_t k = 0; k < e->total[i].n; k++) {
            double start = e->total[i].max ? -INFINITY : 0;
            rt_put(r, e->total[i].offset + k * (int64_t)sizeof start, &start, sizeof start);
        }
}

/* For rows that depend on each other: the means over whole batches. */
static void eval_batches(mg_run *r, const rt_data *d, int64_t windows, rt_scores *mean)
{
    const mg_entry *e = &r->program->eval;
    int64_t batches = windows / e->batch;
    rt_scores sum = {0}, one;
    for (int64_t i = 0; i < batches; i++) {
        run_batch(r, d, i * e->batch, e->batch, &one);
        sum.loss += one.loss;
        for (int64_t k = 0; k < e->nmetrics; k++)
            sum.metric[k] += one.metric[k];
    }
    mean->loss = sum.loss / (double)batches;
    for (int64_t k = 0; k < e->nmetrics; k++)
        mean->metric[k] = sum.metric[k] / (double)batches;
}

int64_t rt_eval_windows(const mg_run *r, const rt_data *d)
{
    int64_t limit = r->options->eval_batches, batch = r->program->step.batch;
    return limit == RT_UNSET || limit >= (d->windows + batch - 1) / batch ? d->windows
                                                                          : limit * batch;
}

void rt_eval_set(mg_run *r, const rt_data *d, int64_t windows, rt_scores *s)
{
    const mg_entry *e = &r->program->eval;
    *s = (rt_scores){0};
    if (e->filled < 0) {
        eval_batches(r, d, windows, s);
    } else {
        rt_eval_begin(r);
        for (int64_t i = 0; i < windows; i += e->batch)
            run_batch(r, d, i, windows - i < e->batch ? windows - i : e->batch, s);
    }
}

void rt_eval(mg_run *r, const rt_data *d, rt_scores *s)
{
    rt_exchange_averages(r);
    rt_eval_set(r, d, rt_eval_windows(r, d), s);
    rt_exchange_averages(r);
}
