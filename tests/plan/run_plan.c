/* run_plan.c - walks the actions of a plan; see run_plan.h. */
#include "tests/plan/run_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp.h"
#include "tests/passes/model.h"
#include "tests/plan/runner.h"

/* The offset by slot (Buffer) and by message (Pipe), as plan/plan.h defines them. */
static int64_t slot_offset(const Runner *r, uint32_t buffer)
{
    const Buffer *b = &r->p->buffers.data[buffer];
    const Pipe *p = r->prog->pipe;
    int64_t at = 0;
    if (!r->op)
        return 0;
    if (b->slot)
        at = b->slot * (r->op->slot - (b->by_layer ? r->op->stage / p->ranks : 0));
    for (int way = 0; way < 2 && p->message[way]; way++) {
        at += buffer == p->sent[way] ? p->stride[way] * r->op->out : 0;
        at += buffer == p->received[way] ? p->stride[way] * r->op->in : 0;
    }
    return at;
}

int64_t memory_offset(const Plan *p, const Buffer *b)
{
    int64_t at = b->offset;
    for (int l = LEVEL_device; l < (int)b->level; l++)
        at += l ? p->level_bytes[l] : p->arena_bytes;
    return at;
}

static void *address(const Runner *r, const Place *at)
{
    int64_t offset = memory_offset(r->p, &r->p->buffers.data[at->buffer]) + at->offset;
    for (int i = 0; i < at->nloops; i++)
        offset += at->loop[i].stride * r->iteration[at->loop[i].loop];
    return r->arena + offset + slot_offset(r, at->buffer);
}

/* ---- actions --------------------------------------------------------------------------------- */

/* The operands behind the n tensors of attention. */
static Sight sight_of(const Action *act, void *const *p, int n)
{
    Sight s = {0};
    int values = n;
    while (values < act->noperands && act->operand[values].value)
        values++;
    if (act->attention.biased)
        s.bias = p[n++];
    s.first = act->within ? p[values - 1] : NULL;
    s.seen = values - act->within > n ? p[n] : NULL;
    return s;
}

/* Is it in the iteration in which it writes what it adds to? */
static bool begins_now(const Runner *r, const Action *act)
{
    for (int n = 0; n < act->nbegins; n++)
        if (r->iteration[act->begins[n]] != loop_first(&r->prog->loops.data[act->begins[n]]))
            return false;
    return act->nbegins > 0;
}

static bool run_on_rank(const Runner *r, const Action *act)
{
    void *p[MAX_OPERANDS];
    Action first;
    Sight see;
    if (begins_now(r, act)) {
        first = action_begins(act);
        act = &first;
    }
    for (int i = 0; i < act->noperands; i++)
        p[i] = address(r, &act->operand[i].at);
    switch (act->kind) {
    case ACT_kernel:
        r->kernel(r->ctx, r->p, act, p);
        return true;
    case ACT_gemm:
        run_gemm(&act->gemm, p);
        if (act->epilogue) {
            Action kernel = *act;
            kernel.operand += act->epilogue;
            kernel.noperands -= act->epilogue;
            r->kernel(r->ctx, r->p, &kernel, p + act->epilogue);
        }
        return true;
    case ACT_conv:
        run_conv(&act->conv, p);
        return true;
    case ACT_attention:
        see = sight_of(act, p, 5);
        run_attention(&act->attention, p, &see);
        return true;
    case ACT_attention_grad:
        see = sight_of(act, p, 9);
        run_attention_grad(&act->attention, p, &see);
        return true;
    case ACT_attention_bias_grad:
        see = sight_of(act, p, 7);
        run_attention_bias_grad(&act->attention, p, &see);
        return true;
    case ACT_xent:
        run_xent(&act->xent, p);
        return true;
    case ACT_xent_grad:
        run_xent_grad(&act->xent, p);
        return true;
    case ACT_head:
    case ACT_head_loss:
        run_head(&act->head, p, act->kind == ACT_head);
        return true;
    case ACT_gather:
        run_gather(&act->gather, p);
        return true;
    case ACT_scatter_add:
        run_scatter_add(&act->gather, p);
        return true;
    case ACT_put:
        run_put(&act->gather, p);
        return true;
    case ACT_top:
        run_top(&act->top, p);
        return true;
    case ACT_slots:
    case ACT_ends:
    case ACT_dispatch:
    case ACT_combine:
    case ACT_combine_weight:
        run_experts(act->kind, &act->experts, act->noperands, p);
        return true;
    case ACT_grouped:
    case ACT_grouped_weight:
        run_grouped(&act->grouped, act->kind == ACT_grouped_weight, p);
        return true;
    case ACT_tile_scale:
        run_tile_scale(&act->tile_scale, p);
        return true;
    case ACT_round_tiles:
        run_round_tiles(&act->round_tiles, p);
        return true;
    case ACT_random:
        run_random(&act->random, p);
        return true;
    case ACT_copy: /* to, from: the order of mg_copy is (to, from), of the operands (from, to) */
        memcpy(p[1], p[0], (size_t)act->bytes);
        return true;
    case ACT_fetch:
    case ACT_offload:
    case ACT_send:
        memcpy(p[1], p[0], (size_t)act->bytes);
        return true;
    case ACT_receive:
        memcpy(p[0], p[1], (size_t)act->bytes);
        return true;
    case ACT_phase:
        return true;
    case ACT_zero:
        memset(p[0], 0, (size_t)act->bytes);
        return true;
    case ACT_guard:
        return isfinite(*(double *)p[0]) && (act->noperands < 2 || isfinite(*(double *)p[1]));
    case ACT_loop: /* what runs a program goes round them, and has ranks meet */
    case ACT_end:
    case ACT_comm:
    case ACT_count:
        break;
    }
    abort();
}

int place_of(const Runner *r, int64_t rank)
{
    return (int)mesh_place(r->p->module, rank, r->p->module->layout.pipeline.axis);
}

/* Does a rank do an action: inside of a pipeline by the stage, outside by its place? */
static bool takes_part(const Runner *r, int64_t rank, const Action *act)
{
    const Module *m = r->p->module;
    if (!m->layout.pipeline.axis)
        return true;
    int64_t n = mesh_size(m, m->layout.pipeline.axis), k = place_of(r, rank);
    if (r->stage >= 0 && k != r->stage)
        return false;
    if (r->op && !act->chunk) {
        n = r->prog->pipe->stages;
        k = r->op->stage;
    }
    return act->on & (k == 0 ? AT_FIRST : k == n - 1 ? AT_LAST : AT_MIDDLE);
}

/* Ranks that take no part have something of their own. */
void run_together(Runner *r, const Action *act)
{
    void *x[64], *y[64], *spare[64];
    int nspare = 0;
    bool any = false;
    size_t bytes = (size_t)(type_bytes(&act->operand[0].type) + type_bytes(&act->operand[1].type));
    for (int64_t k = 0; k < r->ranks; k++) {
        r->arena = r->arenas[k];
        x[k] = address(r, &act->operand[0].at);
        y[k] = address(r, &act->operand[1].at);
        any |= takes_part(r, k, act);
        if (!takes_part(r, k, act))
            x[k] = y[k] = spare[nspare++] = calloc(1, bytes);
    }
    if (any)
        run_comm(r->p->module, &act->comm, act->operand[0].type.dtype, x, y);
    while (nspare)
        free(spare[--nspare]);
}

bool run_one(Runner *r, const Action *act)
{
    bool goes_on = true;
    if (act->joined)
        r->op = &r->pair[act->joined - 1];
    if (act->kind == ACT_comm) {
        run_together(r, act);
        return true;
    }
    for (int64_t k = 0; k < r->ranks; k++) {
        r->arena = r->arenas[k];
        if (takes_part(r, k, act))
            goes_on &= run_on_rank(r, act);
    }
    return goes_on;
}

static bool meets_all(const Action *a)
{
    return a->kind == ACT_loop || a->kind == ACT_end || a->kind == ACT_guard ||
           a->kind == ACT_phase;
}

/* Is all done of a stretch's actions that action i comes after? */
static bool may_run(const Runner *r, int from, int i, const bool *done)
{
    const Action *act = r->prog->actions.data;
    bool may = !done[i - from];
    for (int k = from; k < i; k++)
        may &= done[k - from] ||
               (act[k].stream != act[i].stream && act[i].wait[act[k].stream] != (uint32_t)k + 1);
    return may;
}

void run_disordered(Runner *r, int from, int to)
{
    bool *done = calloc((size_t)(to - from) + 1, sizeof *done);
    for (int left = to - from; left > 0; left--) {
        int pick = -1, ready = 0;
        for (int i = from; i < to; i++)
            if (may_run(r, from, i, done) && draw_int(r->order, ++ready) == 0)
                pick = i;
        run_one(r, &r->prog->actions.data[pick]);
        done[pick - from] = true;
    }
    free(done);
}

/* ---- a queue of collectives ---------------------------------------------------------------------
 */

enum { QUEUE = 256 };
typedef struct Sent {
    const Action *act;
    int64_t number, *iteration; /* the loops' indices when it began */
    int64_t after;
} Sent;

static void run_sent(Runner *r, int k)
{
    int64_t *now = r->iteration;
    r->iteration = r->sent[k].iteration;
    run_together(r, r->sent[k].act);
    free(r->iteration);
    r->iteration = now;
    memmove(r->sent + k, r->sent + k + 1, (size_t)(--r->nsent - k) * sizeof *r->sent);
}

/* Any that need not come after one that is still there, as runtime/queue.h has it. */
static void run_any(Runner *r)
{
    int k = r->sooner ? draw_int(r->order, r->nsent) : 0;
    while (r->sent[k].after >= r->sent->number)
        k--;
    run_sent(r, k);
}

/* Collectives run as late as they may: when one is waited for that is behind them. Or, in some
 * random orders, a few of them sooner, and before those in front of them. */
static bool run_queued(Runner *r, int at)
{
    const Action *act = &r->prog->actions.data[at];
    for (int s = 0; s < MAX_STREAMS; s++) {
        const int64_t upto = act->wait[s] ? r->number[act->wait[s] - 1] : 0;
        if (act->stream && upto > r->after)
            r->after = upto;
        while (!act->stream && r->nsent && r->sent->number <= upto)
            run_any(r);
    }
    if (!act->stream) {
        while (r->sooner && r->nsent && draw_int(r->order, 3) == 0)
            run_any(r);
        return act->kind == ACT_loop || act->kind == ACT_end || run_one(r, act);
    }
    if (r->nsent == QUEUE)
        abort();
    Sent *s = &r->sent[r->nsent++];
    *s = (Sent){act, ++r->begun, calloc(r->prog->loops.n + 1, sizeof *s->iteration), r->after};
    memcpy(s->iteration, r->iteration, r->prog->loops.n * sizeof *s->iteration);
    r->number[at] = s->number;
    return true;
}

bool run_range(Runner *r, int from, int to)
{
    for (int i = from; i < to; i++) {
        const Action *act = &r->prog->actions.data[i];
        if (act->chunk) /* beside a pipeline's table */
            continue;
        const bool queued = r->order && r->prog->queued;
        if (r->order && !queued && !meets_all(act)) {
            int end = i + 1;
            while (end < to && !meets_all(&r->prog->actions.data[end]))
                end++;
            run_disordered(r, i, end);
            i = end - 1;
            continue;
        }
        if (queued && !run_queued(r, i))
            return false;
        if (act->kind != ACT_loop) {
            if (!queued && !run_one(r, act))
                return false;
            continue;
        }
        const Loop *l = &r->prog->loops.data[act->loop];
        if (r->prog->pipe && (int)act->loop == r->prog->pipe->loop) {
            run_pipe(r);
            i = l->end;
            continue;
        }
        int64_t first = 0, iterations = l->dim.size;
        if (r->op && l->dim.name == r->p->module->layout.pipeline.dim) {
            const Pipeline *stages = &r->p->module->layout.pipeline;
            first = r->op->stage / r->prog->pipe->ranks * stages->max_layers;
            iterations = stages->layers.data[r->op->stage];
        }
        for (int64_t n = 0; n < iterations; n++) {
            r->iteration[act->loop] = first + (l->reverse ? iterations - 1 - n : n);
            if (!run_range(r, i + 1, l->end) || (queued && !run_queued(r, l->end)))
                return false;
        }
        i = l->end;
    }
    return true;
}

static void in_interpreter(void *ctx, const Plan *p, const Action *act, void *const *at)
{
    (void)ctx;
    interpret_kernel(p, act, at);
}

static bool run_all(Runner *r)
{
    if (!r->kernel)
        r->kernel = in_interpreter;
    r->stage = -1;
    r->iteration = calloc(r->prog->loops.n + 1, sizeof *r->iteration);
    r->sent = calloc(QUEUE, sizeof *r->sent);
    r->number = calloc(r->prog->actions.n + 1, sizeof *r->number);
    r->sooner = r->order && r->prog->queued && draw_int(r->order, 2);
    bool done = run_range(r, 0, (int)r->prog->actions.n);
    if (r->nsent)
        abort(); /* neither behind the guard nor at the end is there one */
    free(r->sent);
    free(r->number);
    free(r->iteration);
    return done;
}

bool run_plan(const Plan *p, const Program *prog, unsigned char *arena, KernelRun *kernel,
              void *ctx, uint64_t *order)
{
    Runner r = {.p = p,
                .prog = prog,
                .arenas = &arena,
                .ranks = 1,
                .kernel = kernel,
                .ctx = ctx,
                .order = order};
    return run_all(&r);
}

bool run_plan_ranks(const Plan *p, const Program *prog, unsigned char *const *arenas,
                    uint64_t *order)
{
    Runner r = {
        .p = p, .prog = prog, .arenas = arenas, .ranks = mesh_ranks(p->module), .order = order};
    return run_all(&r);
}
