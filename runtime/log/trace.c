/* trace.c - --trace: each rank records the events of a few steps; rank 0 collects the records and
 * writes them into one file (trace_write.c).
 *
 * A rank records at most its share of EVENTS. Rank 0 asks for the records of one rank after
 * another, and frees each after writing: it needs memory for the records of two ranks. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/levels.h"
#include "runtime/net/ranks.h"
#include "runtime/log/trace.h"

enum { EVENTS = 1 << 20, EVENTS_MIN = 1 << 13 };

struct rt_trace {
    const mg_program *program;
    rt_record of;
    int64_t cap, limit;
    int64_t open;              /* start of the running action */
    int64_t phase;             /* 1 + index of the event of the running phase, or 0 */
    const mg_pipe_op *passing; /* the operation that sends, receives or waits now, or NULL */
    int64_t ahead;             /* ns */
    rt_clock clock[MG_RANKS_MAX][2];
    bool asked;
};

rt_trace *rt_trace_new(const mg_program *p)
{
    /* For tests: gives simulated machines clocks that differ by seconds. */
    const char *ahead = getenv("MGC_FAKE_CLOCK");
    const int ranks = rt_ranks_of(p, RT_ALL_AXES);
    rt_trace *t = rt_alloc(1, sizeof *t);
    t->program = p;
    t->limit = EVENTS / ranks > EVENTS_MIN ? EVENTS / ranks : EVENTS_MIN;
    t->ahead = ahead ? (int64_t)(strtod(ahead, NULL) * 1e9) : 0;
    return t;
}

int64_t rt_trace_now(const rt_trace *t)
{
    return rt_now_ns() + t->ahead;
}

rt_record *rt_trace_record(rt_trace *t)
{
    return &t->of;
}

/* ---- recording ------------------------------------------------------------------------------- */

/* Records an event; false if the limit is reached. Events of steps have no limit. */
static bool add(rt_trace *t, rt_event e)
{
    if (t->of.n >= t->limit && e.action != RT_EVENT_STEP) {
        t->of.left_out++;
        return false;
    }
    if (t->of.n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 4096;
        t->of.event = rt_grow(t->of.event, (size_t)t->cap, sizeof *t->of.event);
    }
    t->of.event[t->of.n++] = e;
    return true;
}

void rt_trace_begin(rt_trace *t, int action)
{
    (void)action;
    t->open = rt_trace_now(t);
}

void rt_trace_end(rt_trace *t, int action)
{
    rt_event e = {.begin = t->open, .end = rt_trace_now(t), .action = action};
    const mg_pipe_op *o = t->passing;
    if (o) {
        e.kind = o->step;
        e.of = o->of;
        e.stage = o->stage;
        e.microbatch = o->microbatch;
        t->passing = o->step == MG_PIPE_WAIT ? o : o + 1; /* the next one of the issue */
    }
    add(t, e);
}

void rt_trace_transfer(rt_trace *t, int way, int action, int64_t begin, int64_t end)
{
    add(t, (rt_event){.begin = begin + t->ahead,
                      .end = end + t->ahead,
                      .action = action,
                      .lane = (uint8_t)(1 + way)});
}

void rt_trace_phase(rt_trace *t, const mg_pipe_op *o)
{
    const int64_t now = rt_trace_now(t);
    if (t->phase)
        t->of.event[t->phase - 1].end = now;
    t->phase = 0;
    t->passing = NULL;
    if (o->step > MG_PIPE_W) { /* collectives of a stage's gradients are actions as any others */
        t->passing = o->step <= MG_PIPE_WAIT ? o : NULL;
        return;
    }
    if (add(t, (rt_event){.begin = now,
                          .end = now,
                          .action = RT_EVENT_PHASE,
                          .microbatch = o->microbatch,
                          .stage = o->stage,
                          .kind = o->step,
                          .at = o->at,
                          .lasts = o->lasts}))
        t->phase = o->step ? t->of.n : 0;
}

void rt_trace_step(rt_trace *t, int64_t step, int64_t begin_ns)
{
    for (int64_t i = t->of.n; i-- > 0 && !t->of.event[i].step;)
        t->of.event[i].step = step;
    add(t, (rt_event){
               .begin = begin_ns, .end = rt_trace_now(t), .action = RT_EVENT_STEP, .step = step});
}

/* ---- all ranks ------------------------------------------------------------------------------- */

void rt_trace_clocks(mg_run *r, bool after)
{
    rt_trace *t = r->trace;
    if (t->asked && !after)
        return;
    t->asked = true;
    for (int k = 1; r->ranks && k < rt_ranks_of(r->program, RT_ALL_AXES); k++)
        if (!rt_is_here(r, k))
            t->clock[k][after] = rt_ranks_clock(r, k);
}

typedef struct total {
    int action;
    int64_t calls;
    double measured, predicted; /* us */
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
    for (int64_t i = 0; i < t->of.n; i++) {
        const rt_event *e = &t->of.event[i];
        steps += e->action == RT_EVENT_STEP;
        if (e->action < 0 || e->kind || e->lane)
            continue;
        sum[e->action].calls++;
        sum[e->action].measured += (double)(e->end - e->begin) / 1e3;
        if (!rt_trace_waits(t->program, e))
            sum[e->action].predicted += t->program->actions[e->action].predicted_us;
        all += (double)(e->end - e->begin) / 1e3;
    }
    if (n)
        qsort(sum, (size_t)n, sizeof *sum, by_time);
    printf("traced %d steps; per step, costliest first:\n", steps);
    printf("  %12s %12s %7s %6s  %s\n", "measured us", "predicted us", "calls", "share", "action");
    for (int i = 0; i < n && i < SHOWN && sum[i].calls; i++) {
        const mg_action *a = &t->program->actions[sum[i].action];
        printf("  %12.1f %12.1f %7.0f %5.1f%%  %s (%s, %s)\n", sum[i].measured / steps,
               sum[i].predicted / steps, (double)sum[i].calls / steps,
               all > 0 ? 100 * sum[i].measured / all : 0, a->name, a->kind, a->where);
    }
    free(sum);
}

/* Bytes of each level, planned and measured. */
static void write_memory(const mg_run *r, FILE *f)
{
    const rt_memory m = rt_memory_plan(r);
    int processes;
    rt_level_use u;
    fprintf(f,
            ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"memory\",\"args\":{\"levels\":["
            "{\"level\":\"device\",\"planned\":%" PRId64 ",\"measured\":%" PRId64 "}",
            m.total + m.held, rt_memory_used(r, &processes));
    for (int level = MG_LEVEL_HOST; level < MG_LEVELS; level++)
        if (rt_levels_use(r, level, &u))
            fprintf(f, ",{\"level\":\"%s\",\"planned\":%" PRId64 ",\"measured\":%" PRId64 "}",
                    u.name, u.planned + u.own, u.used);
    fputs("]}}", f);
}

/* Writes the record of rank 0, then those of the other ranks. */
static void write_all(mg_run *r, FILE *f)
{
    rt_trace *t = r->trace;
    const int ranks = r->ranks ? rt_ranks_of(r->program, RT_ALL_AXES) : 1;
    int64_t origin = t->of.event[0].begin;
    for (int64_t i = t->of.n; i-- > 0;)
        origin = t->of.event[i].action == RT_EVENT_STEP ? t->of.event[i].begin : origin;
    rt_trace_head(f, ranks);
    rt_trace_rank(f, r->program, 0, &t->of, origin);
    char *gpu = rt_device_facts(r);
    if (gpu)
        fprintf(f, ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"gpu\",\"args\":%s}", gpu);
    free(gpu);
    write_memory(r, f);
    int64_t left_out = t->of.left_out;
    for (int k = 1; k < ranks; k++) {
        rt_record of = rt_ranks_record(r, k);
        memcpy(of.clock, t->clock[k], sizeof of.clock);
        rt_trace_rank(f, r->program, k, &of, origin);
        left_out += of.left_out;
        free(of.event);
    }
    rt_trace_tail(f);
    if (left_out)
        rt_warn("--trace: %" PRId64 " events were not recorded; trace fewer steps", left_out);
}

void rt_trace_write(mg_run *r, const char *path)
{
    rt_trace *t = r->trace;
    if (!t->of.n) {
        rt_warn("--trace: none of these steps ran; no trace was written");
        return;
    }
    FILE *f = rt_file_create(path);
    if (!f) {
        rt_warn("%s: %s; no trace was written", path, rt_file_error());
        return;
    }
    rt_trace_clocks(r, true);
    write_all(r, f);
    bool bad = ferror(f);
    if (fclose(f) || bad)
        rt_warn("%s: %s; the trace is not whole", path, strerror(errno));
    print_costliest(t);
}

void rt_trace_free(rt_trace *t)
{
    if (!t)
        return;
    free(t->of.event);
    free(t);
}
