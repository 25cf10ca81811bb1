/* launch.c - the device interface on a processor: runs kernels on the threads of the pool. Nothing
 * here allocates while a step runs. */
#include "runtime/preflight/preflight.h"
#include "runtime/levels.h"
#include "runtime/health/health.h"
#include "runtime/streams.h"
#include "runtime/net/ranks.h"

#include <math.h>
#include <string.h>

void rt_device_open(mg_run *r)
{
    rt_cpu_must(r);
}

void rt_device_ranks(mg_run *r)
{
    rt_ranks_start(r);
}

void rt_device_run(mg_run *r, rt_program which)
{
    (which == RT_STEP      ? r->step
     : which == RT_EVAL    ? r->eval
     : which == RT_SAMPLE  ? r->sample
     : which == RT_ROUND   ? r->round
     : which == RT_PREFILL ? r->program->run_prefill
     : which == RT_DECODE  ? r->program->run_decode
                           : r->program->run_spread)(r);
    if (r->ranks)
        rt_meet(r, RT_ALL_AXES); /* after this the leader may write into arenas again */
}

rt_progress rt_device_progress(const mg_run *r)
{
    (void)r; /* the host is the device, and publishes its own waits */
    return (rt_progress){.action = -1};
}

void rt_device_fill(mg_run *r, int64_t offset, int byte, int64_t bytes)
{
    memset(r->arena + offset, byte, (size_t)bytes);
}

void rt_device_wait(mg_run *r)
{
    (void)r; /* calls are synchronous */
}

char *rt_device_text(bool *there)
{
    *there = true;
    return NULL;
}

char *rt_device_versions(const mg_run *r)
{
    (void)r;
    return NULL;
}

char *rt_device_facts(const mg_run *r)
{
    (void)r;
    return NULL;
}

void rt_device_close(mg_run *r)
{
    rt_levels_close(r);
    rt_streams_close(r);
    rt_ranks_end(r);
}

void mg_look(mg_run *r, const void *scratch)
{
    rt_pool_look(r->pool, scratch);
}

void mg_parallel(mg_run *r, int64_t units, int64_t grain, mg_task *fn, void *ctx)
{
    rt_pool_run(r->pool, units, grain, fn, ctx);
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
    rt_watch_outputs(r, action, p);
}

bool mg_outputs(mg_run *r, int action, void *const *p, const void *c)
{
    const mg_action *a = &r->program->actions[action];
    bool there = false;
    rt_watch_outputs(r, action, p);
    for (int i = 0; i < a->nout; i++)
        there |= p[a->out[i].arg] == c;
    return there;
}

bool mg_guard(mg_run *r, int action, const double *loss, const double *norm)
{
    const bool ends = rt_health_guard(r, action);
    bool passes = !ends && (r->rank || rt_guard_passes(r, action, *loss, norm ? *norm : 0));
    if (r->ranks && !ends)
        passes = rt_ranks_agree(r, passes);
    mg_ended(r, action);
    return passes;
}
