/* watch.c - functions that emitted code and kernels call around each action (abi.h), on any device.
 * If nothing is watched, an action costs one test before and one after. */
#include "runtime/health/health.h"

char *mg_arena(mg_run *r)
{
    return r->arena;
}

int mg_threads(const mg_run *r)
{
    return r->threads;
}

void mg_begin(mg_run *r, int action)
{
    atomic_store_explicit(&r->action, action, memory_order_relaxed);
    atomic_store_explicit(&r->begun, r->begun + 1, memory_order_relaxed);
    if (r->watch & RT_WATCH_VALUES) {
        r->check.calls[action]++;
        r->check.outputs = 0;
    }
    if (r->watch & RT_WATCH_TIME) {
        rt_device_wait(r);
        rt_trace_begin(r->trace, action);
    }
    if (r->watch & RT_WATCH_HASH)
        rt_health_action(r, true);
    if (r->watch & RT_WATCH_COST)
        rt_costs_begin(r->costs, rt_now_ns());
}

void mg_end(mg_run *r, int action)
{
    if (r->watch & RT_WATCH_COST)
        rt_costs_end(r->costs, action, rt_now_ns());
    if (r->watch & RT_WATCH_HASH)
        rt_health_action(r, false);
    if (r->watch & RT_WATCH_TIME) {
        rt_device_wait(r);
        rt_trace_end(r->trace, action);
    }
    mg_ended(r, action);
}

bool mg_phase(mg_run *r, const mg_pipe_op *o)
{
    if (r->watch & RT_WATCH_TIME) {
        rt_device_wait(r); /* on a GPU: for the message that it was told to wait for */
        rt_trace_phase(r->trace, o);
    }
    return o->step != MG_PIPE_END;
}

bool mg_joins(const mg_run *r)
{
    return !(r->watch & RT_WATCH_POISON);
}

void mg_ended(mg_run *r, int event)
{
    if (r->watch & RT_WATCH_POISON)
        rt_poison_dead(r, event);
}

void mg_output(mg_run *r, int action, const void *p, int64_t elements, mg_dtype t)
{
    if (r->watch & RT_WATCH_VALUES)
        rt_check_output(r, action, p, elements, t);
    if (r->watch & RT_WATCH_DUMP)
        rt_dump(r, action, p, elements, t);
    if (r->watch & RT_WATCH_HASH)
        rt_health_output(r, action, p, elements, t);
}

void rt_watch_outputs(mg_run *r, int action, void *const *p)
{
    const mg_action *a = &r->program->actions[action];
    for (int i = 0; i < a->nout && (r->watch & RT_WATCH_OUTPUTS); i++)
        mg_output(r, action, p[a->out[i].arg], a->out[i].elements, a->out[i].dtype);
}
