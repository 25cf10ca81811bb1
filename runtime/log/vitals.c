/* vitals.c - lines and fields of metrics.jsonl about the run itself; see vitals.h.
 *
 * Waits are known where ranks are processors of one machine: each counts them in shared memory
 * (wait.c). The ranks of GPUs wait in their devices, and those of other machines out of sight. */
#include "runtime/log/vitals.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/net/ranks.h"

/* Memory is measured once in so long: the kernel walks all pages of the processes for it. */
#define MEASURE_NS ((int64_t)60 * 1000000000)

static bool knows_waits(const mg_run *r)
{
    return r->ranks && !r->cuda;
}

void rt_vitals_begin(rt_vitals *v, const mg_run *r, int64_t step)
{
    v->step = step;
    for (int i = 0; knows_waits(r) && i < rt_ranks_of(r->program, RT_ALL_AXES); i++)
        v->waited[i] = rt_waited(r, i);
}

/* The field of waits. The caller frees it. */
static char *waits(const rt_vitals *v, const mg_run *r, int64_t steps)
{
    char *all = rt_printf("%s", "");
    for (int i = 0; i < rt_ranks_of(r->program, RT_ALL_AXES); i++) {
        char *before = all;
        if (!rt_is_here(r, i))
            continue;
        all = rt_printf("%s%s\"%d\":%.4f", before, *before ? "," : ",\"wait_ms\":{", i,
                        (double)(rt_waited(r, i) - v->waited[i]) / 1e6 / (double)steps);
        free(before);
    }
    char *closed = rt_printf("%s}", all);
    free(all);
    return closed;
}

/* The field of memory, once in a while; the caller frees it. */
static char *memory(rt_vitals *v, const mg_run *r)
{
    const int64_t now = rt_now_ns();
    int processes;
    if (v->measured && now - v->measured < MEASURE_NS)
        return rt_printf("%s", "");
    v->measured = now;
    const int64_t used = rt_memory_used(r, &processes);
    return used < 0 ? rt_printf("%s", "") : rt_printf(",\"memory_used\":%" PRId64, used);
}

char *rt_vitals_step(rt_vitals *v, const mg_run *r, int64_t step)
{
    const int64_t steps = step - v->step;
    char *waited = knows_waits(r) && steps > 0 ? waits(v, r, steps) : rt_printf("%s", ""),
         *used = memory(v, r), *both = rt_printf("%s%s", waited, used);
    free(waited);
    free(used);
    rt_vitals_begin(v, r, step);
    return both;
}

int64_t rt_parameters(const mg_run *r)
{
    int64_t n = 0;
    for (int i = 0; i < r->params.n; i++)
        n += r->params.item[i].form->elements;
    return n;
}

/* "processor", or the name of the GPU; the caller frees it. */
static char *device(const mg_run *r)
{
    bool there = false;
    char *text = r->program->cuda_kernels ? rt_device_text(&there) : NULL;
    if (!text)
        return rt_printf("processor");
    text[strcspn(text, ",")] = 0; /* its abilities follow */
    return text;
}

char *rt_vitals_start(const mg_run *r, bool resumed)
{
    const mg_program *p = r->program;
    const rt_memory m = rt_memory_plan(r);
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    char *gpu = device(r);
    char *name = rt_json_escape(p->name), *compiler = rt_json_escape(p->compiler),
         *layout = rt_json_escape(p->layout), *optimizer = rt_json_escape(p->optimizer),
         *settings = rt_json_escape(p->config), *on = rt_json_escape(gpu),
         *where = rt_json_escape(host);
    char *line = rt_printf(
        "{\"step\":%" PRId64 ",\"event\":\"start\",\"time\":%.3f,\"resumed\":%s,\"program\":\"%s\","
        "\"compiler\":\"%s\",\"layout\":\"%s\",\"optimizer\":\"%s\",\"settings\":\"%s\","
        "\"device\":\"%s\",\"host\":\"%s\",\"pid\":%d,\"ranks\":%d,\"ranks_here\":%d,"
        "\"threads\":%d,\"steps\":%" PRId64 ",\"batch\":%" PRId64 ",\"seq\":%" PRId64
        ",\"seed\":%" PRId64 ",\"parameters\":%" PRId64
        ",\"predicted_step_ms\":%s,\"step_flops\":%s,\"memory_planned\":%" PRId64 "}\n",
        r->state.step, rt_wall_time(), resumed ? "true" : "false", name, compiler, layout,
        optimizer, settings, on, where, (int)getpid(), rt_ranks_of(p, RT_ALL_AXES),
        r->ranks ? rt_ranks_here(r) : 1, r->threads, r->lr.steps, p->batch, p->seq, r->state.seed,
        rt_parameters(r), rt_double_text(p->step.predicted_ms).text,
        rt_double_text(p->step.flops).text, m.total + m.held);
    free(gpu);
    free(name);
    free(compiler);
    free(layout);
    free(optimizer);
    free(settings);
    free(on);
    free(where);
    return line;
}

char *rt_vitals_end(const mg_run *r, const char *why, double median_ms)
{
    int processes;
    return rt_printf("{\"step\":%" PRId64 ",\"event\":\"end\",\"time\":%.3f,\"why\":\"%s\","
                     "\"median_step_ms\":%s,\"memory_used\":%" PRId64 "}\n",
                     r->state.step, rt_wall_time(), why, rt_double_text(median_ms).text,
                     rt_memory_used(r, &processes));
}
