/* step_json.c - see step_json.h. */
#include "compiler/report/step_json.h"

#include "ir/mesh.h"
#include "plan/actions.h"
#include "plan/order/pipe_time.h"

typedef struct Interval {
    double begin, end; /* begin < 0: it has not come yet */
} Interval;

typedef struct Maker {
    const Plan *p;
    Arena *a;
    json_t *to;
    uint32_t source;
    int kind[ACT_count]; /* number of a kind in the page, the costliest 0 */
    int *action;         /* per action of the step: its number in the page */
    Interval *at;        /* ... when it first runs on the typical rank */
    json_t *slices, *loops;
    TraceLanes lanes;
    int depth, typical;
} Maker;

uint32_t step_source(const Plan *p)
{
    for (size_t i = 0; i < p->module->tensors.n; i++)
        if (p->module->tensors.data[i].span.file)
            return p->module->tensors.data[i].span.file;
    return 0;
}

static int line_of(const Maker *m, Span at)
{
    int line = 0, column;
    if (at.file == m->source)
        diag_locate(m->p->module->diag, at, &line, &column);
    return line;
}

static void number_kinds(Maker *m)
{
    const Program *g = m->p->train;
    json_t *names = json_array(), *time = json_array();
    double seconds[ACT_count] = {0};
    for (size_t i = 0; i < g->actions.n; i++)
        seconds[g->actions.data[i].kind] += g->actions.data[i].seconds * g->actions.data[i].times;
    for (int k = 0; k < ACT_count; k++)
        m->kind[k] = -1;
    for (int n = 0;; n++) {
        int best = -1;
        for (int k = 0; k < ACT_count; k++)
            if (m->kind[k] < 0 && seconds[k] > 0 && (best < 0 || seconds[k] > seconds[best]))
                best = k;
        if (best < 0)
            break;
        m->kind[best] = n;
        json_array_append_new(names, json_string(action_info[best].name));
        json_array_append_new(time, json_pack("[i, f]", n, seconds[best]));
    }
    json_object_set_new(m->to, "kinds", names);
    json_object_set_new(m->to, "by_kind", time);
}

static int class_of(const Action *a)
{
    return action_sends(a) ? 1 : action_transfers(a) ? 2 : 0;
}

static void add_actions(Maker *m)
{
    const Program *g = m->p->train;
    json_t *all = json_array();
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        m->action[i] = (int)json_array_size(all);
        m->at[i].begin = -1;
        if (action_is_mark(a))
            continue;
        json_array_append_new(
            all,
            json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:b, s:b, s:f}", "name",
                      name_str(m->p->module->names, a->name), "kind", m->kind[a->kind], "class",
                      class_of(a), "line", line_of(m, a->span), "times", a->times, "time",
                      a->seconds * a->times, "flops", a->flops, "bytes", a->bytes_moved, "backward",
                      a->backward, "again", a->again, "exposed", a->exposed));
    }
    json_object_set_new(m->to, "actions", all);
}

/* Notes when an action, or a loop by its two ends, first runs on the typical rank. */
static void note(Maker *m, const TraceSlice *s)
{
    const size_t i = (size_t)(s->action - m->p->train->actions.data);
    if (s->rank != m->typical || m->at[i].begin >= 0)
        return;
    m->at[i] = (Interval){s->begin, s->begin + s->seconds};
    if (s->loop)
        m->at[s->loop->end] = m->at[i];
}

static void add_span(Maker *m, const char *name, const TraceSlice *s, int64_t iterations)
{
    json_array_append_new(m->loops,
                          json_pack("[s, f, f, i, I, i, i, i]", name, s->begin, s->seconds,
                                    s->depth, (json_int_t)iterations, s->rank,
                                    s->loop ? s->loop->begin : -1, s->loop ? s->loop->end : -1));
    m->depth = s->depth >= m->depth ? s->depth + 1 : m->depth;
}

static void add_slice(void *ctx, const TraceSlice *s)
{
    Maker *m = ctx;
    if (s->rest || (s->of && !pipe_computes(s->of->kind)))
        return;
    if (s->of) {
        add_span(m, pipe_name(*s->of).text, s, 1);
        return;
    }
    note(m, s);
    if (s->loop) {
        add_span(m, name_str(m->p->module->names, s->loop->dim.name), s, s->iterations);
        return;
    }
    const int number = m->action[s->action - m->p->train->actions.data];
    json_array_append_new(m->slices, json_pack("[i, f, f, i, i]", number, s->begin, s->seconds,
                                               trace_lane_of(&m->lanes, s->action), s->rank));
}

static void add_lanes(Maker *m)
{
    json_t *all = json_array();
    for (int k = 0; k < m->lanes.n; k++)
        json_array_append_new(all, json_string(trace_lane_name(&m->lanes.lane[k], m->a)));
    json_object_set_new(m->to, "lanes", all);
}

/* The loop over a pipeline's microbatches has no slice of its own. */
static void note_pipeline(Maker *m)
{
    const Program *g = m->p->train;
    if (!g->pipe)
        return;
    const Loop *micro = &g->loops.data[g->pipe->loop];
    const double begin = g->actions.data[micro->begin].begin;
    m->at[micro->begin] = m->at[micro->end] = (Interval){begin, begin + g->pipe->step};
}

static void add_places(Maker *m)
{
    json_t *all = json_array();
    Interval last = {0, 0};
    for (size_t i = 0; i < m->p->train->actions.n; i++) {
        last = m->at[i].begin >= 0 ? m->at[i] : (Interval){last.begin, last.begin};
        json_array_append_new(all, json_pack("[f, f]", last.begin, last.end));
    }
    json_object_set_new(m->to, "at", all);
}

/* Ranks of a pipeline that do the same, with the seconds that one computes. */
static json_t *alike_json(const Plan *p, Arena *a)
{
    const Program *g = p->train;
    TraceAlike *alike;
    const int n = trace_alike(p, a, &alike);
    const PipeClock *k = pipe_run(p, g, a);
    json_t *all = json_array();
    for (int i = 0; i < n; i++) {
        const TraceAlike *r = &alike[i];
        const char *axis = mesh_axes_text(p->module, g->pipe->axis);
        const char *name = r->last > r->first
                               ? arena_printf(a, "%s %d to %d", axis, r->first, r->last)
                               : arena_printf(a, "%s %d", axis, r->first);
        json_array_append_new(all, json_pack("{s:s, s:i, s:i, s:i, s:f}", "name", name, "first",
                                             r->first, "last", r->last, "rank", r->told, "computes",
                                             k->busy[r->told]));
    }
    return all;
}

void step_json(const Plan *p, TraceScope scope, bool places, Arena *a, json_t *to)
{
    const size_t n = p->train->actions.n;
    Maker m = {.p = p,
               .a = a,
               .to = to,
               .source = step_source(p),
               .typical = trace_typical(p),
               .lanes = trace_lanes(p)};
    m.action = NEW_ARRAY(a, int, n + 1);
    m.at = NEW_ARRAY(a, Interval, n + 1);
    m.slices = json_array();
    m.loops = json_array();
    json_object_set_new(to, "seconds", json_real(p->train->seconds));
    number_kinds(&m);
    add_lanes(&m);
    add_actions(&m);
    trace_walk(p, scope, add_slice, &m);
    note_pipeline(&m);
    json_object_set_new(to, "slices", m.slices);
    json_object_set_new(to, "loops", m.loops);
    json_object_set_new(to, "shown", json_integer(scope.iterations));
    json_object_set_new(to, "depth", json_integer(m.depth));
    json_object_set_new(to, "typical", json_integer(m.typical));
    if (p->train->pipe)
        json_object_set_new(to, "ranks", alike_json(p, a));
    if (places)
        add_places(&m);
}
