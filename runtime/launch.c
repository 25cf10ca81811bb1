/* launch.c - what emitted code and kernels call while a step runs (abi.h). Nothing here allocates,
 * and where nobody watches, an action costs one test before and one after. */
#include "runtime/run.h"

#include <math.h>

char *mg_arena(mg_run *r)
{
    return r->arena;
}

int mg_threads(const mg_run *r)
{
    return r->threads;
}

void mg_parallel(mg_run *r, int64_t units, int64_t grain, mg_task *fn, void *ctx)
{
    rt_pool_run(r->pool, units, grain, fn, ctx);
}

void mg_begin(mg_run *r, int action)
{
    r->action = action;
    if (r->watch & RT_WATCH_VALUES) {
        r->check.calls[action]++;
        r->check.outputs = 0;
    }
    if (r->watch & RT_WATCH_TIME)
        rt_trace_begin(r->trace, action);
}

void mg_end(mg_run *r, int action)
{
    if (r->watch & RT_WATCH_TIME)
        rt_trace_end(r->trace, action);
}

void mg_output(mg_run *r, int action, const void *p, int64_t elements, mg_dtype t)
{
    if (r->watch & RT_WATCH_VALUES)
        rt_check_output(r, action, p, elements, t);
}

typedef struct launch {
    mg_kernel *kernel;
    void *const *p;
} launch;

static void run_kernel(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const launch *l = ctx;
    (void)scratch;
    l->kernel(l->p, begin, end);
}

void mg_launch(mg_run *r, int action, mg_kernel *k, int64_t units, int64_t grain, void *const *p)
{
    launch l = {k, p};
    mg_begin(r, action);
    rt_pool_run(r->pool, units, grain, run_kernel, &l);
    mg_end(r, action);
    if (r->watch & RT_WATCH_VALUES) {
        const mg_action *a = &r->program->actions[action];
        for (int i = 0; i < a->nout; i++)
            rt_check_output(r, action, p[a->out[i].arg], a->out[i].elements, a->out[i].dtype);
    }
}

bool mg_guard(mg_run *r, int action, const double *loss, const double *norm)
{
    double n = norm ? *norm : 0;
    if (isfinite(*loss) && isfinite(n))
        return !rt_spike(r, *loss, n);
    r->guard = (rt_guard){true, action, *loss, n};
    return false;
}
