/* schedule_io.c - what goes into a program and comes out of it: buffers that the runtime fills and
 * reads, each in its place in the Program. */
#include "plan/schedule/schedule.h"
#include "passes/view.h"

static int io_buffer(Sched *s, const char *name, Value v)
{
    uint32_t b = buffer_new(s, name, OWN_io, type_bytes(type_of(s->m, v)), -1, v);
    s->p->buffers.data[b].persistent = true;
    s->p->buffers.data[b].at = AT_ALL;
    return (int)b;
}

/* How many sequences a rank has one after another: those of a microbatch, or, where its
 * microbatches are added up in a tree before those of other ranks are, of all. */
static int64_t rows_of(const Module *m, const Program *p, int64_t microbatch)
{
    return mesh_tree_axes(m) && !mesh_tree_each_microbatch(m) ? p->batch : microbatch;
}

/* Nothing is there yet. */
static void no_io(Program *p)
{
    int *all[] = {&p->tokens, &p->weights, &p->documents, &p->scale, &p->step,  &p->seed,
                  &p->pos,    &p->filled,  &p->before,    &p->begin, &p->count, &p->logits};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        *all[k] = -1;
    for (int k = 0; k < MAX_GOALS; k++)
        p->lr[k] = p->loss[k] = p->norm[k] = -1;
    p->dropped = -1;
    for (int k = 0; k < MAX_INPUTS; k++)
        p->input[k] = -1;
    for (int k = 0; k < MAX_METRICS; k++)
        p->metric[k] = -1;
}

/* @prefill, @decode and @spread have one buffer for each number. */
static int cache_buffer(Sched *s, uint32_t number, Value v)
{
    while (s->p->cache_buffer.n <= number)
        vec_push(s->m->arena, &s->p->cache_buffer, -1);
    int *b = &s->p->cache_buffer.data[number];
    if (*b < 0)
        *b = io_buffer(s, arena_printf(s->m->arena, "cache.%u", number), v);
    s->p->buffers.data[*b].owner = OWN_cache;
    return *b;
}

void io_args(Sched *s, const Fn *f, const char *prefix)
{
    Program *p = s->prog;
    no_io(p);
    p->batch_axes = f->batch;
    int *slot[] = {[ARG_input] = NULL,
                   [ARG_tokens] = &p->tokens,
                   [ARG_weight] = &p->weights,
                   [ARG_documents] = &p->documents,
                   [ARG_lr] = NULL,
                   [ARG_scale] = &p->scale,
                   [ARG_step] = &p->step,
                   [ARG_seed] = &p->seed,
                   [ARG_pos] = &p->pos,
                   [ARG_filled] = &p->filled,
                   [ARG_before] = &p->before,
                   [ARG_begin] = &p->begin,
                   [ARG_count] = &p->count};
    for (size_t k = 0; k < f->args.n; k++) {
        Value v = f->body->args.data[k];
        FnArg a = f->args.data[k];
        const char *name = a.role == ARG_input
                               ? name_str(s->m->names, s->m->inputs.data[a.tensor].name)
                               : arg_role_names[a.role];
        int b = a.role <= ARG_state ? s->p->tensor_buffer.data[a.tensor]
                : a.role == ARG_cache
                    ? cache_buffer(s, a.tensor, v)
                    : io_buffer(s, arena_printf(s->m->arena, "%s.%s", prefix, name), v);
        if (a.role == ARG_place) {
            if (p->nplaces == MG_PLACES_MAX)
                sched_bug(s, NULL, "more places along axes than a program can ask for");
            p->place[p->nplaces].axes = a.tensor;
            p->place[p->nplaces++].buffer = b;
        }
        if (a.role == ARG_input) {
            const Type *t = type_of(s->m, v); /* [batch, ...] or [microbatches, batch, ...] */
            p->input[a.tensor] = b;
            p->batch = 1;
            for (int i = 0; i <= type_find(t, s->m->batch.name); i++)
                p->batch *= t->dims[i].size;
            p->rows = rows_of(s->m, p, t->dims[type_find(t, s->m->batch.name)].size);
        } else if (a.role == ARG_lr) {
            p->lr[a.tensor] = b;
        } else if (a.role == ARG_total) {
            vec_push(s->m->arena, &p->totals, b);
        } else if (a.role > ARG_state && a.role != ARG_place && a.role != ARG_cache) {
            *slot[a.role] = b;
        }
        if (a.role == ARG_tokens) {
            const Type *t = type_of(s->m, v);
            p->window = t->dims[t->rank - 1].size;
            p->batch = type_elements(t) / p->window;
            p->rows = rows_of(s->m, p, t->dims[t->rank - 2].size);
        }
        if (a.role == ARG_count && !p->batch) /* of @spread, which has no tokens */
            p->batch = p->rows = type_elements(type_of(s->m, v));
        *loc_of(s, v) = loc_dense((uint32_t)b, type_of(s->m, v));
    }
}

/* Is this result the new value of that argument? */
static bool in_place(FnArg a, FnResult r)
{
    return a.tensor == r.tensor && (r.role == RES_total   ? a.role == ARG_total
                                    : r.role == RES_cache ? a.role == ARG_cache
                                                          : a.role <= ARG_state);
}

/* The place of a result that has a buffer of its own, and what it is called. */
static int *place_of(const Sched *s, Program *p, FnResult r, const char **name)
{
    bool metric = r.role == RES_metric;
    *name =
        metric ? name_str(s->m->names, s->m->metrics.data[r.tensor]) : result_role_names[r.role];
    return metric                  ? &p->metric[r.tensor]
           : r.role == RES_loss    ? &p->loss[r.tensor]
           : r.role == RES_norm    ? &p->norm[r.tensor]
           : r.role == RES_dropped ? &p->dropped
                                   : &p->logits;
}

/* The position of the guard in a function's body, -1: it has none. */
static int guard_of(const Fn *f)
{
    for (size_t k = 0; k < f->body->ins.n; k++)
        if (f->body->ins.data[k]->op == OP_guard)
            return (int)k;
    return -1;
}

void io_results(Sched *s, const Fn *f, const char *prefix, Want *target)
{
    Program *p = s->prog;
    const int *last = last_uses(s->m, f->body, s->tmp), guard = guard_of(f);
    for (size_t k = 0; k < f->results.n; k++) {
        Value v = f->body->results.data[k];
        FnResult r = f->results.data[k];
        if (r.role == RES_grad)
            sched_bug(s, NULL, "a gradient that nothing uses");
        target[k] = (Want){.set = true, .free_from = -1};
        if (r.role == RES_update || r.role == RES_total || r.role == RES_cache) {
            const int *b = r.role == RES_total   ? p->totals.data
                           : r.role == RES_cache ? s->p->cache_buffer.data
                                                 : s->p->tensor_buffer.data;
            target[k].to = loc_dense((uint32_t)b[r.tensor], type_of(s->m, v));
            for (size_t i = 0; i < f->args.n; i++)
                if (in_place(f->args.data[i], r))
                    target[k].occupant = f->body->args.data[i];
            const Value was = target[k].occupant;
            if (was) /* a step that the guard skips leaves it as it is */
                target[k].free_from = last[was] < guard ? guard : last[was];
        } else {
            const char *name;
            int *place = place_of(s, p, r, &name);
            *place = io_buffer(s, arena_printf(s->m->arena, "%s.%s", prefix, name), v);
            target[k].to = loc_dense((uint32_t)*place, type_of(s->m, v));
        }
    }
}
