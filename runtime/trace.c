/* trace.c - the measured timeline of a few steps, beside the predicted one.
 *
 * Chrome's trace format (JSON), which Perfetto opens. Two tracks: what was measured, and what the
 * compiler predicted, laid out from the same beginning of the step. Times are in microseconds from
 * the first traced step. */
#include "runtime/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct event {
    int64_t begin, end; /* ns */
    int action;         /* or -1: a whole step */
    int64_t step;
} event;

struct rt_trace {
    const mg_program *program;
    event *event;
    size_t n, cap;
    int64_t open; /* when the running action began */
};

rt_trace *rt_trace_new(const mg_program *p)
{
    rt_trace *t = rt_alloc(1, sizeof *t);
    t->program = p;
    return t;
}

static void add(rt_trace *t, event e)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 4096;
        t->event = rt_grow(t->event, t->cap, sizeof *t->event);
    }
    t->event[t->n++] = e;
}

void rt_trace_begin(rt_trace *t, int action)
{
    (void)action;
    t->open = rt_now_ns();
}

void rt_trace_end(rt_trace *t, int action)
{
    add(t, (event){t->open, rt_now_ns(), action, 0});
}

void rt_trace_step(rt_trace *t, int64_t step, int64_t begin_ns, int64_t end_ns)
{
    for (size_t i = t->n; i-- > 0 && t->event[i].action >= 0 && !t->event[i].step;)
        t->event[i].step = step;
    add(t, (event){begin_ns, end_ns, -1, step});
}

static void write_slice(FILE *f, const rt_trace *t, const event *e, int tid, double ts, double dur)
{
    const mg_action *a = &t->program->actions[e->action];
    char *name = rt_json_escape(a->name), *kind = rt_json_escape(a->kind),
         *where = rt_json_escape(a->where);
    double measured = (double)(e->end - e->begin) / 1e3;
    fprintf(f,
            ",\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\","
            "\"name\":\"%s\",\"args\":{\"src\":\"%s\",\"action\":%d,\"step\":%" PRId64
            ",\"measured_us\":%.3f,\"predicted_us\":%s,\"flops\":%s,\"bytes\":%s",
            tid, ts, dur, kind, name, where, e->action, e->step, measured,
            rt_double_text(a->predicted_us).text, rt_double_text(a->flops).text,
            rt_double_text(a->bytes).text);
    if (measured > 0)
        fprintf(f, ",\"gflops\":%.3f,\"gbytes_per_s\":%.3f", a->flops / measured / 1e3,
                a->bytes / measured / 1e3);
    fputs("}}", f);
    free(name);
    free(kind);
    free(where);
}

static void write_events(FILE *f, const rt_trace *t)
{
    size_t first = 0;
    while (first < t->n && t->event[first].action >= 0)
        first++;
    int64_t origin = first < t->n ? t->event[first].begin : 0;
    first = 0;
    for (size_t i = 0; i < t->n; i++) {
        const event *e = &t->event[i];
        if (e->action >= 0)
            continue;
        /* A step closes its actions, which lie before it in the list. */
        double at = (double)(e->begin - origin) / 1e3, predicted = at;
        for (int tid = 0; tid < 2; tid++)
            fprintf(
                f,
                ",\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"step\","
                "\"name\":\"step %" PRId64 "\",\"args\":{\"predicted_ms\":%s}}",
                tid, at,
                tid ? t->program->step.predicted_ms * 1e3 : (double)(e->end - e->begin) / 1e3,
                e->step, rt_double_text(t->program->step.predicted_ms).text);
        for (size_t k = first; k < i; k++) {
            const event *s = &t->event[k];
            double us = t->program->actions[s->action].predicted_us;
            write_slice(f, t, s, 0, (double)(s->begin - origin) / 1e3,
                        (double)(s->end - s->begin) / 1e3);
            write_slice(f, t, s, 1, predicted, us);
            predicted += us;
        }
        first = i + 1;
    }
}

typedef struct total {
    int action;
    int64_t calls;
    double measured; /* us */
} total;

static int by_time(const void *a, const void *b)
{
    double x = ((const total *)a)->measured, y = ((const total *)b)->measured;
    return x < y ? 1 : x > y ? -1 : ((const total *)a)->action - ((const total *)b)->action;
}

static void print_costliest(const rt_trace *t)
{
    enum { SHOWN = 12 };
    int n = t->program->nactions, steps = 0;
    total *sum = rt_alloc((size_t)n, sizeof *sum);
    double all = 0;
    for (int i = 0; i < n; i++)
        sum[i].action = i;
    for (size_t i = 0; i < t->n; i++) {
        const event *e = &t->event[i];
        if (e->action < 0) {
            steps++;
            continue;
        }
        sum[e->action].calls++;
        sum[e->action].measured += (double)(e->end - e->begin) / 1e3;
        all += (double)(e->end - e->begin) / 1e3;
    }
    if (n)
        qsort(sum, (size_t)n, sizeof *sum, by_time);
    printf("traced %d steps; per step, costliest first:\n", steps);
    printf("  %12s %12s %7s %6s  %s\n", "measured us", "predicted us", "calls", "share", "action");
    for (int i = 0; i < n && i < SHOWN && sum[i].calls; i++) {
        const mg_action *a = &t->program->actions[sum[i].action];
        printf("  %12.1f %12.1f %7.0f %5.1f%%  %s (%s, %s)\n", sum[i].measured / steps,
               a->predicted_us * (double)sum[i].calls / steps, (double)sum[i].calls / steps,
               all > 0 ? 100 * sum[i].measured / all : 0, a->name, a->kind, a->where);
    }
    free(sum);
}

void rt_trace_write(const rt_trace *t, const char *path)
{
    if (!t->n) {
        rt_warn("--trace: none of those steps was run; no trace was written");
        return;
    }
    FILE *f = fopen(path, "w");
    if (!f) {
        rt_warn("%s: %s; no trace was written", path, strerror(errno));
        return;
    }
    char *name = rt_json_escape(t->program->name);
    fprintf(
        f,
        "{\"displayTimeUnit\":\"ms\",\"distributedInfo\": {\"rank\": 0, \"world_size\": 1},"
        "\"traceEvents\":[\n"
        "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"%s\"}},\n"
        "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"thread_name\",\"args\":{\"name\":"
        "\"measured\"}},\n"
        "{\"ph\":\"M\",\"pid\":0,\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":"
        "\"predicted\"}}",
        name);
    write_events(f, t);
    fputs("\n]}\n", f);
    free(name);
    bool bad = ferror(f);
    if (fclose(f) || bad)
        rt_warn("%s: %s; the trace is not whole", path, strerror(errno));
    print_costliest(t);
}

void rt_trace_free(rt_trace *t)
{
    if (!t)
        return;
    free(t->event);
    free(t);
}
