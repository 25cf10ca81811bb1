/* check_run.c - one action of a symbolic execution: what it reads, computes and writes. */
#include "plan/check/check_run.h"

#include "runtime/conv.h"

#include <string.h>

/* ---- elements in memory ---------------------------------------------------------------------- */

static Iterations iterations_now(const Check *c, int around)
{
    Iterations r = {{0}};
    int nest[MAX_NEST], n = 0;
    for (int l = around; l >= 0; l = c->prog->loops.data[l].parent)
        nest[n++] = l;
    for (int i = 0; i < n; i++)
        r.at[i] = c->iteration[nest[n - 1 - i]];
    return r;
}

Iterations iterations_here(const Check *c)
{
    return iterations_now(c, c->at < 0 ? -1 : c->prog->actions.data[c->at].around);
}

int64_t address_of(const Check *c, const Place *at)
{
    int64_t a = buffer_address(&c->p->buffers.data[at->buffer]) + at->offset;
    for (int i = 0; i < at->nloops; i++)
        a += at->loop[i].stride * c->iteration[at->loop[i].loop];
    return a;
}

/* Elements of the operand that lie side by side: of its innermost dims. */
int64_t run_length(const Operand *o)
{
    int64_t run = 1;
    for (int i = o->type.rank - 1; i >= 0; i--) {
        if (o->type.dims[i].size > 1 && o->stride[i] != run)
            break;
        run *= o->type.dims[i].size;
    }
    return run;
}

static int64_t element_offset(const Operand *o, int64_t e)
{
    int64_t at = 0;
    for (int i = o->type.rank - 1; i >= 0; i--) {
        at += index_of(&e, o->type.dims[i].size) * o->stride[i];
    }
    return at;
}

bool each_run(Check *c, const Operand *o, RunFn *run)
{
    const int64_t n = type_elements(&o->type);
    const Iterations here = iterations_here(c);
    Cursor k = {.c = c, .o = o, .address = address_of(c, &o->at)};
    Strip s = {.n = run_length(o), .count = 1};
    int i = o->type.rank - 1;
    k.bytes = dtype_bytes(o->type.dtype);
    s.step = s.n;
    for (int64_t inside = 1; i >= 0 && (inside < s.n || o->type.dims[i].size == 1); i--)
        inside *= o->type.dims[i].size;
    s.stride = i >= 0 ? o->stride[i] : 0;
    for (; i >= 0 && (o->type.dims[i].size == 1 || o->stride[i] == s.stride * s.count); i--)
        s.count *= o->type.dims[i].size;
    for (; s.first < n && !k.failed; s.first += s.n * s.count) {
        s.at = element_offset(o, s.first);
        meaning_of(&c->meaning, o->value, here, s, run, &k);
    }
    return !k.failed;
}

bool expect_operand(Check *c, const Operand *o)
{
    return each_run(c, o, expect_run);
}

/* ---- which instruction, which operands ------------------------------------------------------- */

/* The operands of a call by the IR: the instruction's operands and results; 0: workspace. */
typedef struct Wanted {
    int n;
    Value v[MAX_OPERANDS];
    bool read[MAX_OPERANDS], write[MAX_OPERANDS];
} Wanted;

static void want(Wanted *w, Value v, bool read, bool write)
{
    if (w->n < MAX_OPERANDS)
        w->v[w->n++] = v;
    w->read[w->n - 1] = read;
    w->write[w->n - 1] = write;
}

/* May an action of a kind stand for an instruction? Those with rules of their own stand for none.
 */
static bool stands_for(ActionKind k, Op op)
{
    switch (k) {
    case ACT_kernel:
        return op == OP_fused;
    case ACT_gemm:
        return op_is_product(op);
    case ACT_conv:
        return op == OP_conv;
    case ACT_attention:
        return op == OP_attention;
    case ACT_attention_grad:
        return op == OP_attention_grad;
    case ACT_attention_bias_grad:
        return op == OP_attention_bias_grad;
    case ACT_xent:
        return op == OP_cross_entropy;
    case ACT_xent_grad:
        return op == OP_cross_entropy_grad;
    case ACT_head:
        return OP_AMONG(op, OP_head, OP_head_frozen);
    case ACT_head_loss:
        return op == OP_head_loss;
    case ACT_gather:
        return op == OP_gather;
    case ACT_scatter_add:
        return op == OP_scatter_add;
    case ACT_put:
        return op == OP_put;
    case ACT_top:
        return op == OP_top;
    case ACT_slots:
        return op == OP_slots;
    case ACT_ends:
        return op == OP_ends;
    case ACT_grouped:
        return op == OP_grouped;
    case ACT_grouped_weight:
        return op == OP_grouped_weight;
    case ACT_dispatch:
        return op == OP_dispatch;
    case ACT_combine:
        return op == OP_combine;
    case ACT_combine_weight:
        return op == OP_combine_weight;
    case ACT_tile_scale:
        return op == OP_tile_scale;
    case ACT_round_tiles:
        return op == OP_round_tiles;
    case ACT_random:
        return op == OP_random;
    case ACT_comm:
        return op_is(op, COMM);
    case ACT_fetch:
    case ACT_offload:
        return op == OP_transfer;
    case ACT_zero: /* whatever adds to it */
        return true;
    case ACT_loop:
    case ACT_end:
    case ACT_copy:
    case ACT_guard:
    case ACT_phase:
    case ACT_receive:
    case ACT_send:
    case ACT_count:
        break;
    }
    return false;
}

static Wanted wanted_operands(Target target, const Action *a, const Ins *i)
{
    Wanted w = {0};
    uint32_t nin = i->nin;
    const bool attends = OP_AMONG(i->op, OP_attention, OP_attention_grad, OP_attention_bias_grad);
    bool adds = ins_added(i) >= 0 && i->op != OP_head;
    if (op_is_product(i->op) || OP_AMONG(i->op, OP_scatter_add, OP_put, OP_conv))
        nin = 2;
    else if (i->op == OP_grouped_weight)
        nin = 3;
    else if (OP_AMONG(i->op, OP_head, OP_head_frozen))
        nin = 4;
    else if (attends)
        nin = i->op == OP_attention ? 3 : 6;
    for (uint32_t k = 0; k < nin; k++)
        want(&w, i->in[k], true, false);
    if (a->kind == ACT_gemm && a->operand[0].value != i->in[0]) /* the result lies transposed */
        w.v[0] = i->in[1], w.v[1] = i->in[0];
    for (uint32_t k = 0; k < i->nout; k++) {
        if (k == 1 && i->op == OP_dot_gelu_aux && i->nin == 3)
            want(&w, i->in[2], true, false); /* the bias, before the matrix */
        want(&w, i->out[k], (adds && k == 0) || (i->op == OP_head && k == 2 && i->nin == 5), true);
    }
    if (i->op == OP_dot_bias || (i->op == OP_dot_gelu && i->nin == 3) || i->op == OP_dot_gelu_grad)
        want(&w, i->in[2], true, false);
    const bool turned = i->attrs.tiles && w.v[0] != i->in[0]; /* so are the scales of tiles */
    for (uint32_t k = 2; k < 4 && i->op == OP_dot_scaled; k++)
        want(&w, i->in[turned ? 5 - k : k], true, false);
    if (attends)
        for (uint32_t k = nin; k < i->nin; k++)
            want(&w, i->in[k], true, false);
    if (OP_AMONG(i->op, OP_head, OP_head_frozen, OP_head_loss) ||
        (target == TARGET_cuda &&
         (i->op == OP_scatter_add || (a->kind == ACT_conv && mg_conv_work(&a->conv)) ||
          (attends && i->op != OP_attention && mg_attention_grad_work(&a->attention)) ||
          (a->kind == ACT_comm && mg_comm_work(&a->comm)))))
        want(&w, 0, false, true);
    return w;
}

/* The value that has to be where an accumulating call's result will be. */
static Value added_to(const Ins *i)
{
    int k = ins_added(i);
    return k < 0 ? 0 : i->in[k];
}

static bool operands_are(Check *c, const Action *a, const Wanted *w)
{
    if (a->noperands != w->n) {
        broken(c, 3, "%d operands where its instruction has %d", a->noperands, w->n);
        return false;
    }
    for (int k = 0; k < w->n; k++) {
        const Operand *o = &a->operand[k];
        if (o->value != w->v[k] || (w->v[k] && !type_equal(&o->type, type_of(c->m, w->v[k]))) ||
            (w->write[k] && !o->write) || (!w->write[k] && o->write)) {
            broken(c, 3, "operand %d is not '%s', which its instruction has there", k,
                   value_name(c, w->v[k]));
            return false;
        }
    }
    return true;
}

const Ins *instruction_of(const Check *c, const Action *a)
{
    for (int k = 0; k < a->noperands; k++)
        if (a->operand[k].write && a->operand[k].value)
            return c->m->values.data[a->operand[k].value].def;
    return NULL;
}

static bool home_is_here(const Check *c, const Ins *i)
{
    int around = c->prog->actions.data[c->at].around;
    const Region *here = around < 0 ? c->prog->fn->body : c->loop_ins[around]->body;
    return i->home == here;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static bool strides_are(Check *c, const Action *a, const Kernel *k)
{
    for (int n = 0; n < a->noperands; n++) {
        const Operand *x = &a->operand[n], *y = &k->operand[n];
        bool same =
            n < k->noperands && x->type.dtype == y->type.dtype && x->type.rank == y->type.rank;
        for (int i = 0; same && i < x->type.rank; i++)
            same = x->type.dims[i].size == y->type.dims[i].size &&
                   (x->stride[i] == y->stride[i] || x->type.dims[i].size == 1);
        if (!same) {
            broken(c, 3, "operand %d lies unlike the kernel's", n);
            return false;
        }
        if (k->alias[n] >= 0 && !lie_alike(c, x, &a->operand[k->alias[n]])) {
            broken(c, 2, "the kernel takes operand %d for operand %d", n, k->alias[n]);
            return false;
        }
    }
    return true;
}

static bool read_all(Check *c, const Action *a, int from, int to)
{
    bool all = true;
    for (int k = from; k < to; k++)
        all &= each_run(c, &a->operand[k], expect_run);
    return all;
}

/* [chunks, the result's dims], dense, of its dtype. */
static bool is_partial(const Operand *o, const Kernel *k, const Type *result)
{
    if (o->value || o->type.rank != result->rank + 1 || o->type.dtype != result->dtype ||
        o->type.dims[0].size != k->chunks || run_length(o) != type_elements(&o->type))
        return false;
    for (int i = 0; i < result->rank; i++)
        if (o->type.dims[i + 1].size != result->dims[i].size)
            return false;
    return true;
}

/* The instruction of a partial sum is known when its chunks are combined: the action before has
 * read its operands, and left its mark. */
static void run_partial(Check *c, const Action *a, const Kernel *k)
{
    int nin = (int)k->ins->nin, nout = (int)k->ins->nout;
    if (a->noperands != nin + nout || !strides_are(c, a, k)) {
        broken(c, 3, "a partial sum has other operands than its kernel");
        return;
    }
    for (int n = 0; n < nout; n++)
        if (!is_partial(&a->operand[nin + n], k, type_of(c->m, k->ins->out[n])) ||
            !a->operand[nin + n].write) {
            broken(c, 3, "operand %d is no space for partial sums", nin + n);
            return;
        }
    read_all(c, a, 0, nin);
    check_overlaps(c, a, NULL);
    for (int n = 0; n < nout; n++)
        write_work(c, &a->operand[nin + n], n);
}

/* Does the partial sum that was left at operand `which` have i's operands, chunks and body? */
static bool combines(const Check *c, const Action *a, const Kernel *k, const Ins *i, int which)
{
    const Operand *o = &a->operand[which];
    int64_t lo = address_of(c, &o->at), bytes = type_bytes(&o->type);
    Piece p;
    if (!memory_at(c->memory, lo, &p) || p.value || p.lo != lo || p.hi != lo + bytes ||
        p.iterations % MAX_OPERANDS != (uint64_t)which)
        return false;
    const Action *from = &c->prog->actions.data[p.iterations / MAX_OPERANDS];
    const Kernel *part = &c->p->kernels.data[from->kernel];
    if (from->kind != ACT_kernel || from->around != a->around || part->phase != PHASE_partial ||
        part->chunks != k->chunks || kernel_wrong(c->m, part, i))
        return false;
    for (uint32_t n = 0; n < i->nin; n++)
        if (from->operand[n].value != i->in[n])
            return false;
    return true;
}

static void run_combine(Check *c, const Action *a, const Kernel *k, const Ins *i)
{
    int nout = (int)i->nout;
    if (a->noperands != 2 * nout || !strides_are(c, a, k)) {
        broken(c, 3, "a combining kernel has other operands than its kernel");
        return;
    }
    for (int n = 0; n < nout; n++) {
        if (a->operand[nout + n].value != i->out[n] || !a->operand[nout + n].write ||
            a->operand[n].write ||
            !type_equal(&a->operand[nout + n].type, type_of(c->m, i->out[n])) ||
            !is_partial(&a->operand[n], k, type_of(c->m, i->out[n])) || !combines(c, a, k, i, n)) {
            broken(c, 3, "operand %d does not hold the partial sums of '%s'", n,
                   value_name(c, i->out[n]));
            return;
        }
    }
    check_overlaps(c, a, i);
    for (int n = 0; n < nout; n++)
        write_operand(c, &a->operand[nout + n]);
}

/* ---- actions --------------------------------------------------------------------------------- */

static void run_copy(Check *c, const Action *a)
{
    const Operand *from = &a->operand[0], *to = &a->operand[1];
    if (a->noperands != 2 || from->write || !to->write || from->value != to->value ||
        !type_equal(&from->type, type_of(c->m, from->value)) ||
        !type_equal(&from->type, &to->type) || a->bytes != type_bytes(&from->type) ||
        run_length(from) != type_elements(&from->type) || run_length(to) != run_length(from)) {
        broken(c, 3, "a copy is not of one dense value");
        return;
    }
    each_run(c, from, expect_run);
    check_overlaps(c, a, NULL);
    write_operand(c, to);
}

static void run_guard(Check *c, const Action *a)
{
    const Region *r = c->prog->fn->body;
    const Ins *guard = NULL;
    for (size_t i = 0; i < r->ins.n; i++)
        if (r->ins.data[i]->op == OP_guard)
            guard = r->ins.data[i];
    bool looks = guard && a->around < 0 && a->noperands == (int)guard->nin;
    for (uint32_t k = 0; looks && k < guard->nin; k++)
        looks = a->operand[k].value == guard->in[k];
    if (!looks) {
        broken(c, 4, "the guard does not look at what it is to look at");
        return;
    }
    c->guarded = read_all(c, a, 0, a->noperands);
}

static void run_call(Check *c, const Action *a, const Ins *i)
{
    Wanted w = wanted_operands(c->p->device->target, a, i);
    if (!operands_are(c, a, &w))
        return;
    const Kernel *k = a->kind == ACT_kernel ? &c->p->kernels.data[a->kernel] : NULL;
    bool *described = &c->described[2 * c->at + (k != NULL)];
    const char *wrong = *described ? NULL : k ? kernel_wrong(c->m, k, i) : call_wrong(c->m, a, i);
    *described = true;
    if (wrong) {
        broken(c, 3, "%s%s", k ? "" : "the descriptor gets wrong: ", wrong);
        return;
    }
    if (k && !strides_are(c, a, k))
        return;
    for (int n = 0; n < a->noperands; n++) {
        Operand o = a->operand[n];
        if ((w.write[n] && !w.read[n]) || (n == 0 && !check_gives(c, a)))
            continue;
        if (w.write[n])
            o.value = added_to(i);
        if (w.write[n] && begins_now(c, a, &o))
            continue;
        each_run(c, &o, expect_run); /* what it should have read counts from here on */
    }
    check_overlaps(c, a, i);
    forget_dead(c, a);
    for (int n = 0; n < a->noperands; n++)
        if (w.write[n] && w.v[n])
            write_operand(c, &a->operand[n]);
        else if (w.write[n])
            write_work(c, &a->operand[n], n);
}

void run_action(Check *c, const Action *a)
{
    if (a->epilogue) {
        run_with_kernel(c, a);
        return;
    }
    if (a->kind == ACT_kernel && a->kernel >= c->p->kernels.n) {
        broken(c, 3, "there is no such kernel");
        return;
    }
    const Kernel *k = a->kind == ACT_kernel ? &c->p->kernels.data[a->kernel] : NULL;
    const Ins *i = instruction_of(c, a);
    if (k && k->level != a->operand[0].type.level) {
        broken(c, 11, "its kernel runs on the %s, and its operands are on the %s",
               level_names[k->level], level_names[a->operand[0].type.level]);
    } else if (a->kind == ACT_copy) {
        run_copy(c, a);
    } else if (a->kind == ACT_guard) {
        run_guard(c, a);
    } else if (a->kind == ACT_receive || a->kind == ACT_send) {
        check_pass(c, a);
    } else if (k && k->phase == PHASE_partial) {
        run_partial(c, a, k);
    } else if (!i || !home_is_here(c, i) || !stands_for(a->kind, i->op)) {
        broken(c, 3, "it stands for no instruction of its place in the program");
    } else if (a->kind == ACT_zero) {
        run_zero(c, a, i);
    } else if (k && k->phase == PHASE_combine) {
        run_combine(c, a, k, i);
    } else {
        run_call(c, a, i);
    }
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static Operand whole(const Check *c, int buffer, Value v)
{
    Operand o = {.at.buffer = (uint32_t)buffer, .type = *type_of(c->m, v), .value = v};
    int64_t run = 1;
    for (int i = o.type.rank - 1; i >= 0; i--) {
        o.stride[i] = run;
        run *= o.type.dims[i].size;
    }
    return o;
}

static bool fits(Check *c, int buffer, Value v, bool persistent)
{
    if (buffer >= 0 && (size_t)buffer < c->p->buffers.n &&
        c->p->buffers.data[buffer].bytes >= type_bytes(type_of(c->m, v)) &&
        (!persistent || c->p->buffers.data[buffer].persistent))
        return true;
    broken(c, 1, "'%s' has no buffer", value_name(c, v));
    return false;
}

void give_arguments(Check *c)
{
    const Fn *f = c->prog->fn;
    for (size_t i = 0; i < f->args.n; i++) {
        int b = argument_buffer(c, f->args.data[i]);
        if (f->args.data[i].role <= ARG_state &&
            !(c->p->buffers.data[b].at & c->stages)) /* others are at its place */
            continue;
        if (!fits(c, b, f->body->args.data[i], true))
            continue;
        Operand o = whole(c, b, f->body->args.data[i]);
        each_run(c, &o, write_run);
    }
}

/* A tensor without a new value has its old one still. */
static void check_kept(Check *c)
{
    const Fn *f = c->prog->fn;
    for (size_t i = 0; i < f->args.n; i++) {
        bool updated = f->args.data[i].role > ARG_state;
        for (size_t k = 0; k < f->results.n; k++)
            updated |= f->results.data[k].role == RES_update &&
                       f->results.data[k].tensor == f->args.data[i].tensor;
        if (updated || !(c->p->buffers.data[argument_buffer(c, f->args.data[i])].at & c->stages))
            continue;
        Operand o = whole(c, argument_buffer(c, f->args.data[i]), f->body->args.data[i]);
        each_run(c, &o, expect_run);
    }
}

void check_results(Check *c)
{
    const Fn *f = c->prog->fn;
    c->at = -1;
    for (size_t i = 0; i < f->results.n; i++) {
        FnResult r = f->results.data[i];
        int b = r.role == RES_loss      ? c->prog->loss[r.tensor]
                : r.role == RES_norm    ? c->prog->norm[r.tensor]
                : r.role == RES_dropped ? c->prog->dropped
                : r.role == RES_metric  ? c->prog->metric[r.tensor]
                : r.role == RES_logits  ? c->prog->logits
                : r.role == RES_total   ? c->prog->totals.data[r.tensor]
                : r.role == RES_cache   ? c->p->cache_buffer.data[r.tensor]
                                        : c->p->tensor_buffer.data[r.tensor];
        if (r.role == RES_update && !(c->p->buffers.data[b].at & c->stages))
            continue;
        if (!fits(c, b, f->body->results.data[i], r.role != RES_logits))
            continue;
        Operand o = whole(c, b, f->body->results.data[i]);
        each_run(c, &o, expect_run);
    }
    check_kept(c);
}
