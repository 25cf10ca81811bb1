/* schedule.c - the plan's actions, from the fused module: order is the region's, places are those
 * schedule_store.c decided, costs come from the device description.
 *
 * A repeat becomes ACT_loop, its body once, ACT_end. Slices of stacked values and views are
 * strides; they cost nothing. */
#include "plan/attend.h"
#include "plan/schedule/schedule.h"
#include "passes/view.h"
#include "plan/levels.h"
#include "plan/outside.h"
#include "plan/schedule/actions.h"
#include "plan/times.h"

#include <stdlib.h>
#include <string.h>

_Noreturn void sched_bug(const Sched *s, const Ins *i, const char *what)
{
    ir_broken(s->m, i, "schedule: %s", what);
}

/* ---- actions --------------------------------------------------------------------------------- */

static int current_loop(const Sched *s)
{
    int depth = 0;
    for (size_t i = s->prog->actions.n; i-- > 0;) {
        const Action *a = &s->prog->actions.data[i];
        if (a->kind == ACT_end)
            depth++;
        else if (a->kind == ACT_loop && depth-- == 0)
            return (int)a->loop;
    }
    return -1;
}

Action *action_new(Sched *s, ActionKind kind, const Ins *i, int noperands, const Operand *op)
{
    Action a = {.kind = kind, .id = UINT32_MAX, .around = current_loop(s), .noperands = noperands};
    if (noperands > MAX_OPERANDS)
        sched_bug(s, i, "too many operands");
    a.operand = NEW_ARRAY(s->m->arena, Operand, noperands);
    if (noperands)
        memcpy(a.operand, op, (size_t)noperands * sizeof *op);
    for (int k = 0; k < noperands; k++)
        a.on |= op[k].write && op[k].value ? s->at[op[k].value] : 0;
    for (uint32_t k = 0; i && k < i->nout && kind == ACT_kernel; k++)
        a.on |= s->at[i->out[k]];
    a.on = a.on ? a.on : AT_ALL;
    if (!kind_is_mark(kind))
        a.id = s->p->nactions++;
    if (a.id != UINT32_MAX)
        a.name = action_name(s, i, op, noperands);
    if (i) {
        a.span = i->span;
        a.path = i->path;
        a.block = i->block;
        a.backward = i->backward;
        a.again = i->again;
    }
    vec_push(s->m->arena, &s->prog->actions, a);
    return &s->prog->actions.data[s->prog->actions.n - 1];
}

/* FLOP/s at which an action multiplies: a share of the peak. A host's attention computes in floats,
 * of halves too. */
static double rate_of(const Device *d, const Train *t, const Action *a, double keys)
{
    const ActionKind kind = a->kind;
    const bool attention = action_attends(a);
    if (attention && d->target == TARGET_cuda)
        return attention_rate(d, t, a, keys);
    if (kind == ACT_gemm && mg_dtype_is_fp8(a->gemm.dtype))
        return product_flops_fp8(d);
    return kind_share(kind, d, t) *
           (attention && t->half && d->target == TARGET_host ? d->flops_f32 : peak_flops(d, t));
}

/* Seconds of what a kernel computes. */
static double kernel_seconds(const Sched *s, Cost c)
{
    const Device *d = s->p->device;
    return d->target == TARGET_host ? c.operations / d->operations
                                    : c.flops / product_flops(d, &s->m->train);
}

/* The roofline: arithmetic at a share of the peak, traffic at the memory's bandwidth, whichever
 * takes longer. On a host a product does one after the other: it packs, multiplies, writes;
 * and what is only written is read first. */
void price(Sched *s, Action *a, Cost c)
{
    const Device *d = s->p->device;
    double compute = a->kind == ACT_kernel ? kernel_seconds(s, c)
                                           : c.flops / rate_of(d, &s->m->train, a, c.keys);
    double memory = (c.bytes + (d->target == TARGET_host ? c.across : 0)) / d->bandwidth;
    compute += c.exps / d->exponentials;
    compute *= c.slowest > 1 ? c.slowest : 1; /* all wait for it */
    a->flops = c.flops;
    a->bytes_moved = c.bytes;
    a->seconds = compute > memory ? compute : memory;
    if (d->target == TARGET_host && a->kind != ACT_kernel)
        a->seconds = compute * (1 + c.more) + memory * (a->kind == ACT_zero ? 2 : 1);
    if (a->seconds < d->launch)
        a->seconds = d->launch;
}

/* On the host of a GPU, whose cores the ranks of a machine share: it moves bytes, for of what it
 * computes an update has little beside them. */
void price_on_host(Sched *s, Action *a, Cost c)
{
    const Device *d = s->p->device;
    a->flops = c.flops;
    a->bytes_moved = c.bytes;
    a->seconds =
        d->level[LEVEL_host].seconds + c.bytes * (double)levels_ranks(s->m, d) / d->host_bandwidth;
}

void price_more(Sched *s, Action *a, Cost c)
{
    const Device *d = s->p->device;
    const double compute = kernel_seconds(s, c);
    const double memory = c.bytes / d->bandwidth;
    a->flops += c.flops;
    a->bytes_moved += c.bytes;
    a->seconds += compute > memory ? compute : memory;
}

void emit_copy(Sched *s, Value v, const Loc *to, const Ins *at)
{
    Operand op[2] = {operand_of(s, v, true, false), operand_of(s, v, false, true)};
    if (op[0].type.level)
        sched_bug(s, at, "what is on another level would have to be copied there");
    if (!strides_are_dense(&op[0].type, op[0].stride) ||
        !strides_are_dense(&op[0].type, to->stride))
        sched_bug(s, at, "a view would have to be copied");
    op[1].at = to->at;
    memcpy(op[1].stride, to->stride, sizeof op[1].stride);
    int64_t bytes = type_bytes(&op[0].type);
    Action *a = action_new(s, ACT_copy, at ? at : s->m->values.data[v].def, 2, op);
    a->bytes = bytes;
    price(s, a, (Cost){.bytes = 2 * (double)bytes});
}

/* Copies v to where it is wanted if it is not there already. */
static void emit_move(Sched *s, const Move *mv, const Ins *at)
{
    Loc from = locate(s, mv->from);
    if (!loc_equal(&from, &mv->to, type_of(s->m, mv->from)))
        emit_copy(s, mv->from, &mv->to, at);
}

/* ---- regions --------------------------------------------------------------------------------- */

static void schedule_region(Sched *s, Region *r, const Want *target, int home);

/* Gives every result of i that is not placed yet what it wants, or a buffer of its own. */
static void place_results(Sched *s, const Ins *i, int home)
{
    for (uint32_t k = 0; k < i->nout; k++) {
        Value v = i->out[k];
        if (!loc_of(s, v)->known)
            *loc_of(s, v) = want_of(s, v)->set ? want_of(s, v)->to : loc_new(s, v, home);
    }
}

bool used_after(const Sched *s, const Ins *i, Value v)
{
    const Region *r = i->home;
    const int *last = last_uses(s->m, r, s->tmp);
    size_t at = 0;
    while (r->ins.data[at] != i)
        at++;
    return last[v] > (int)at;
}

/* An accumulating instruction works where its result is: what it adds to has to be there. It does
 * not take over the place of an argument: that is where the region's results go, at a time of their
 * own. Nor that of what it also multiplies, perhaps through a view. */
static void place_added(Sched *s, const Ins *i, Value v, Value c, int home)
{
    Loc at = locate(s, c);
    const Type *t = type_of(s->m, v);
    Value root = view_of(s->m, c).root;
    const ValueInfo *info = &s->m->values.data[root];
    if (want_of(s, v)->set) {
        *loc_of(s, v) = want_of(s, v)->to;
    } else if (info->def && info->home == i->home && !used_after(s, i, root) &&
               takes_over(s->m, i, v, c) && strides_are_dense(t, at.stride)) {
        *loc_of(s, v) = at;
    } else {
        *loc_of(s, v) = loc_new(s, v, home);
    }
    if (!loc_equal(loc_of(s, v), &at, t))
        emit_copy(s, c, loc_of(s, v), i);
}

/* The parts that are not in their places yet are copied there. */
static void emit_join(Sched *s, const Ins *i)
{
    const Loc all = *loc_of(s, i->out[0]);
    Strided whole = {.type = type_of(s->m, i->out[0])};
    memcpy(whole.stride, all.stride, sizeof whole.stride);
    for (uint32_t k = 0; k < i->nin; k++) {
        const Type *t = type_of(s->m, i->in[k]);
        Loc from = locate(s, i->in[k]), to = all;
        to.at.offset += strides_of_part(s->m, i, k, &whole, to.stride) * dtype_bytes(t->dtype);
        if (!loc_equal(&from, &to, t))
            emit_copy(s, i->in[k], &to, i);
    }
}

static void emit_guard(Sched *s, const Ins *i)
{
    Operand op[2];
    for (uint32_t k = 0; k < i->nin; k++)
        op[k] = operand_of(s, i->in[k], true, false);
    price(s, action_new(s, ACT_guard, i, (int)i->nin, op), (Cost){.bytes = 8.0 * i->nin});
}

/* Instructions that are one call of the library, by op. */
#define call_scatter_add         call_gather
#define call_put                 call_gather
#define call_attention_grad      call_attention
#define call_attention_bias_grad call_attention
#define call_cross_entropy_grad  call_cross_entropy
#define call_head_frozen         call_head
#define call_head_loss           call_head
#define call_slots               call_experts
#define call_ends                call_experts
#define call_grouped_weight      call_grouped
#define call_dispatch            call_experts
#define call_combine             call_experts
#define call_combine_weight      call_experts
typedef void CallFn(Sched *s, const Ins *i, int home);
static CallFn *const call[OP_count] = {
#define LIBRARY(name, ...)    [OP_##name] = call_##name,
#define COLLECTIVE(name, ...) [OP_##name] = call_comm,
#include "ir/ops.def"
};

static void emit_ins(Sched *s, const Ins *i, int home)
{
    int adds = ins_added(i);
    if (adds >= 0)
        place_added(s, i, i->out[i->op == OP_head ? 2 : 0], i->in[adds], home);
    if (i->op == OP_fused)
        take_place_of_product(s, i);
    if (!op_is(i->op, VIEW))
        place_results(s, i, home);
    if (i->op == OP_fused)
        call_kernel(s, i, home);
    else if (op_is_product(i->op))
        call_dot(s, i);
    else if (call[i->op])
        call[i->op](s, i, home);
    else if (i->op == OP_join)
        emit_join(s, i);
    else if (i->op == OP_guard)
        emit_guard(s, i);
    else if (!op_is(i->op, VIEW))
        sched_bug(s, i, "an instruction that is no kernel is left");
}

/* Gives the arguments and the results of a loop's body their places. */
static void enter_loop(Sched *s, LoopPlan *lp)
{
    const Ins *i = lp->ins;
    Region *b = i->body;
    for (uint32_t k = 0; k < i->nin; k++) {
        Value arg = b->args.data[k];
        if (k < i->attrs.carried) {
            if (lp->copy_in[k])
                emit_move(s, &(Move){.from = i->in[k], .to = lp->start[k]}, i);
            *loc_of(s, arg) = lp->arg[k];
            continue;
        }
        Loc from = locate(s, i->in[k]);
        const Type *t = type_of(s->m, i->in[k]);
        Loc in = loc_inner(&from, t->rank - 1);
        *loc_of(s, arg) = loc_slot(&in, lp->index, from.stride[0] * dtype_bytes(t->dtype), 0);
    }
    const int *last = last_uses(s->m, b, s->tmp);
    for (uint32_t k = 0; k < i->nout; k++) {
        int j = lp->share[k];
        if (j < 0)
            continue;
        Value arg = b->args.data[j];
        lp->target[k] =
            (Want){.set = true, .to = *loc_of(s, arg), .free_from = last[arg], .occupant = arg};
    }
}

static void emit_loop(Sched *s, const Ins *i)
{
    LoopPlan *lp = loop_plan(s, i);
    enter_loop(s, lp);
    if (pipe_is_relay(s, i))
        pipe_receive(s, lp);
    action_new(s, ACT_loop, NULL, 0, NULL)->loop = (uint32_t)lp->index;
    s->prog->loops.data[lp->index].begin = (int)s->prog->actions.n - 1;
    s->failed |= !pipe_begin(s, i, lp->index);
    if (s->failed)
        return;
    schedule_region(s, i->body, lp->target, lp->index);
    pipe_end(s, lp->index);
    Action *end = action_new(s, ACT_end, NULL, 0, NULL);
    end->loop = (uint32_t)lp->index;
    end->around = s->prog->actions.data[s->prog->loops.data[lp->index].begin].around;
    s->prog->loops.data[lp->index].end = (int)s->prog->actions.n - 1;
    for (uint32_t k = 0; k < i->nout; k++)
        *loc_of(s, i->out[k]) = lp->share[k] >= 0 ? locate(s, i->in[lp->share[k]]) : lp->out[k];
    if (pipe_is_relay(s, i))
        pipe_send(s, lp);
    for (size_t k = 0; k < lp->after.n; k++)
        emit_move(s, &lp->after.data[k], i);
    /* Actions behind the forward relay belong to the backward phase, if there is one. */
    if (pipe_is_relay(s, i) && !i->attrs.reverse && pipe_returns(s, i->home))
        pipe_phase(s);
}

/* Copies v aside: from here on it is in a buffer of its own. */
static void set_aside(Sched *s, Value v, int home)
{
    Value root = view_of(s->m, v).root;
    Loc to = loc_new(s, root, home);
    emit_copy(s, root, &to, NULL);
    *loc_of(s, root) = to;
}

/* The moves at the end of a region mean one parallel assignment. Those that read what another
 * overwrites go first; where values change places in a circle one of them is set aside. */
static void emit_moves(Sched *s, const Moves *moves, int home)
{
    bool *done = NEW_ARRAY(s->tmp, bool, moves->n + 1);
    for (size_t left = moves->n; left > 0;) {
        size_t pick = moves->n;
        for (size_t i = 0; i < moves->n && pick == moves->n; i++) {
            bool free = !done[i];
            for (size_t k = 0; k < moves->n && free; k++)
                free = k == i || done[k] ||
                       locate(s, moves->data[k].from).at.buffer != moves->data[i].to.at.buffer;
            if (free)
                pick = i;
        }
        for (size_t i = 0; i < moves->n && pick == moves->n; i++)
            if (!done[i])
                pick = i;
        /* Whoever still reads what this one overwrites reads a copy of it. */
        for (size_t k = 0; k < moves->n; k++)
            if (k != pick && !done[k] &&
                locate(s, moves->data[k].from).at.buffer == moves->data[pick].to.at.buffer)
                set_aside(s, moves->data[k].from, home);
        done[pick] = true;
        left--;
        emit_move(s, &moves->data[pick], NULL);
    }
}

/* Is what v is carried round as not read from position `at` of a loop's body on? */
static bool is_next_of_read(Sched *s, const Region *r, Value v, size_t at)
{
    const int *last = last_uses(s->m, r, s->tmp);
    for (size_t k = 0; r->owner && k < (size_t)r->owner->attrs.carried; k++)
        if (r->results.data[k] == v)
            return last[r->args.data[k]] < (int)at;
    return false;
}

/* Phases of a pipeline are not run one after the other: what is computed before position `at` and
 * carried round moves to its place there already, and leaves the list. */
static void emit_moves_before(Sched *s, const Region *r, Moves *moves, size_t at, int home)
{
    Moves early = {0};
    size_t left = 0;
    for (size_t k = 0; k < moves->n; k++) {
        const Ins *def = s->m->values.data[view_of(s->m, moves->data[k].from).root].def;
        size_t place = 0;
        while (place < r->ins.n && r->ins.data[place] != def)
            place++;
        if (place < at && is_next_of_read(s, r, moves->data[k].from, at))
            vec_push(s->tmp, &early, moves->data[k]);
        else
            moves->data[left++] = moves->data[k];
    }
    moves->n = left;
    emit_moves(s, &early, home);
}

static void emit_first_moves(Sched *s, Moves *moves)
{
    size_t left = 0;
    for (size_t k = 0; k < moves->n; k++)
        if (moves->data[k].first)
            emit_move(s, &moves->data[k], NULL);
        else
            moves->data[left++] = moves->data[k];
    moves->n = left;
}

static void schedule_region(Sched *s, Region *r, const Want *target, int home)
{
    Moves moves = {0};
    plan_region(s, r, target, home, &moves);
    emit_first_moves(s, &moves);
    for (size_t k = 0; k < r->ins.n && !s->failed; k++)
        if (r->ins.data[k]->op == OP_repeat) {
            if (pipe_begins_weights(s, r->ins.data[k])) {
                emit_moves_before(s, r, &moves, k, home);
                pipe_phase(s);
            }
            emit_loop(s, r->ins.data[k]);
        } else
            emit_ins(s, r->ins.data[k], home);
    emit_moves(s, &moves, home);
}

/* ---- programs -------------------------------------------------------------------------------- */

static void count_flops(Program *p)
{
    for (size_t i = 0; p && i < p->actions.n; i++) {
        const Action *a = &p->actions.data[i];
        p->flops += a->again ? 0 : a->flops * a->times;
    }
}

/* A buffer is on the ranks that do something with it. In a pipeline of several chunks all ranks
 * have stages between the first and the last. */
static void note_stage_set(Sched *s)
{
    const Pipe *pipe = s->prog->pipe;
    const Loop *l = pipe ? &s->prog->loops.data[pipe->loop] : NULL;
    for (int i = 0; i < (int)s->prog->actions.n; i++) {
        const Action *a = &s->prog->actions.data[i];
        bool all = l && i > l->begin && i < l->end && pipe->stages > pipe->ranks;
        for (int k = 0; k < a->noperands; k++) {
            Buffer *b = &s->p->buffers.data[a->operand[k].at.buffer];
            b->at |= b->persistent ? 0 : all && (a->on & AT_MIDDLE) ? AT_ALL : a->on;
        }
    }
}

static Program *schedule_fn(Sched *s, const char *name, int number)
{
    const Fn *f = module_fn(s->m, name);
    if (!f)
        return NULL;
    Program *p = NEW(s->m->arena, Program);
    *p = (Program){.fn = f};
    s->prog = p;
    s->program = number;
    s->loops.n = s->called.n = 0;
    memset(s->want, 0, s->m->values.n * sizeof *s->want);
    Want *target = NEW_ARRAY(s->tmp, Want, f->results.n + 1);
    io_args(s, f, name);
    io_results(s, f, name, target);
    s->at = ir_stage_set(s->m, f, s->tmp);
    schedule_region(s, f->body, target, -1);
    if (s->failed)
        return NULL;
    begin_with_writes(s, f);
    name_gradients(s, f);
    note_stage_set(s);
    pipe_slots_of_buffers(s);
    return p;
}

enum { KERNELS = 128 }; /* twice as many need no growth, which copies them */

Plan *plan_schedule(Module *m, const Device *device, bool compared, Arena *a)
{
    Plan *p = NEW(a, Plan);
    *p = (Plan){.module = m, .device = device, .compared = compared};
    Sched s = {.p = p, .m = m, .tmp = arena_new()};
    p->kernels.cap = KERNELS;
    p->kernels.data = arena_grow(m->arena, NULL, 0, &p->kernels.cap, sizeof(Kernel));
    s.loc = NEW_ARRAY(s.tmp, Loc *, m->values.n);
    s.want = NEW_ARRAY(s.tmp, Want *, m->values.n);
    s.number = NEW_ARRAY(s.tmp, uint32_t, m->values.n);
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Tensor *t = &m->tensors.data[i];
        uint32_t b = buffer_new(&s, name_str(m->names, t->name),
                                t->slot && !tensor_is_rounded(t) ? OWN_optimizer : OWN_params,
                                type_bytes(&t->type), -1, 0);
        p->buffers.data[b].level = t->type.level;
        p->buffers.data[b].persistent = true;
        p->buffers.data[b].at = t->at ? t->at : AT_ALL;
        p->buffers.data[b].span = t->span;
        vec_push(m->arena, &p->tensor_buffer, (int)b);
    }
    p->train = schedule_fn(&s, "train", 0);
    p->eval = schedule_fn(&s, "eval", 1);
    p->sample = schedule_fn(&s, "sample", 2);
    p->round = schedule_fn(&s, "round", 3);
    p->prefill = schedule_fn(&s, "prefill", 4);
    p->decode = schedule_fn(&s, "decode", 5);
    p->spread = schedule_fn(&s, "spread", 6);
    arena_free(s.tmp);
    plan_times(p);
    count_flops(p->train);
    count_flops(p->eval);
    count_flops(p->sample);
    count_flops(p->prefill);
    count_flops(p->decode);
    if (!s.failed)
        plan_outside(p);
    return s.failed ? NULL : p;
}
