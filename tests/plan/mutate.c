/* mutate.c - one random mistake in a plan; see mutate.h. */
#include "tests/plan/mutate.h"

#include <stdio.h>
#include <string.h>

#include "tests/passes/model.h"

static Program *copy_program(const Program *p, Arena *a)
{
    if (!p)
        return NULL;
    Program *c = NEW(a, Program);
    *c = *p;
    c->actions.data = arena_array(a, p->actions.n + 1, sizeof *p->actions.data);
    memcpy(c->actions.data, p->actions.data, p->actions.n * sizeof *p->actions.data);
    for (size_t i = 0; i < c->actions.n; i++) {
        Action *x = &c->actions.data[i];
        Operand *o = NEW_ARRAY(a, Operand, x->noperands);
        if (x->noperands)
            memcpy(o, x->operand, (size_t)x->noperands * sizeof *o);
        x->operand = o;
    }
    c->loops.data = arena_array(a, p->loops.n + 1, sizeof *p->loops.data);
    if (p->loops.n)
        memcpy(c->loops.data, p->loops.data, p->loops.n * sizeof *p->loops.data);
    return c;
}

Plan *plan_copy(const Plan *p, Arena *a)
{
    Plan *c = NEW(a, Plan);
    *c = *p;
    c->buffers.data = arena_array(a, p->buffers.n + 1, sizeof *p->buffers.data);
    memcpy(c->buffers.data, p->buffers.data, p->buffers.n * sizeof *p->buffers.data);
    c->kernels.data = arena_array(a, p->kernels.n + 1, sizeof *p->kernels.data);
    memcpy(c->kernels.data, p->kernels.data, p->kernels.n * sizeof *p->kernels.data);
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        c->programs[k] = copy_program(p->programs[k], a);
    return c;
}

/* ---- choosing -------------------------------------------------------------------------------- */

typedef struct Mutation {
    Plan *p;
    Program *prog;
    int program;
    uint64_t *seed;
    char *what;
    size_t size;
} Mutation;

static int any(Mutation *m, size_t n)
{
    return draw_int(m->seed, (int)n);
}

static Buffer *any_buffer(Mutation *m)
{
    return &m->p->buffers.data[any(m, m->p->buffers.n)];
}

static Action *any_action(Mutation *m)
{
    for (int tries = 0; tries < 64; tries++) {
        Action *a = &m->prog->actions.data[any(m, m->prog->actions.n)];
        if (a->noperands)
            return a;
    }
    return NULL;
}

static Operand *any_operand(Mutation *m, const Action **of)
{
    Action *a = any_action(m);
    *of = a;
    return a ? &a->operand[any(m, (size_t)a->noperands)] : NULL;
}

static const char *name(const Mutation *m, Name n)
{
    return name_str(m->p->module->names, n);
}

#define SAY(...) snprintf(m->what, m->size, __VA_ARGS__)

/* ---- mistakes -------------------------------------------------------------------------------- */

static bool swap_offsets(Mutation *m)
{
    Buffer *a = any_buffer(m), *b = any_buffer(m);
    int64_t offset = a->offset;
    SAY("buffers '%s' and '%s' swap places", name(m, a->name), name(m, b->name));
    a->offset = b->offset;
    b->offset = offset;
    return a->offset != b->offset;
}

static bool move_buffer(Mutation *m)
{
    Buffer *b = any_buffer(m);
    int64_t to = 64 * any(m, (size_t)(m->p->arena_bytes / 64));
    SAY("buffer '%s' moves from %lld to %lld", name(m, b->name), (long long)b->offset,
        (long long)to);
    bool moved = b->offset != to;
    b->offset = to;
    return moved;
}

static bool shift_place(Mutation *m)
{
    static const int64_t by[] = {-64, -8, -4, 4, 8, 64, 128};
    const Action *a;
    Operand *o = any_operand(m, &a);
    int64_t d = by[any(m, sizeof by / sizeof *by)];
    SAY("an operand of '%s' moves by %lld bytes", a ? name(m, a->name) : "", (long long)d);
    if (o)
        o->at.offset += d;
    return o != NULL;
}

static bool change_loop_stride(Mutation *m)
{
    for (int tries = 0; tries < 200; tries++) {
        const Action *a;
        Operand *o = any_operand(m, &a);
        if (!o || !o->at.nloops)
            continue;
        int which = any(m, (size_t)o->at.nloops);
        int64_t old = o->at.loop[which].stride, add = 8 * (any(m, 5) - 2);
        o->at.loop[which].stride = any(m, 2) ? 0 : old + add;
        SAY("an operand of '%s' moves by %lld instead of %lld bytes an iteration", name(m, a->name),
            (long long)o->at.loop[which].stride, (long long)old);
        return o->at.loop[which].stride != old;
    }
    return false;
}

static bool other_buffer(Mutation *m)
{
    const Action *a;
    Operand *o = any_operand(m, &a);
    uint32_t to = (uint32_t)any(m, m->p->buffers.n);
    SAY("an operand of '%s' is in buffer %u", a ? name(m, a->name) : "", to);
    if (!o || o->at.buffer == to)
        return false;
    o->at.buffer = to;
    return true;
}

/* Positions after `at` become one less. */
static void close_gap(Mutation *m, int at)
{
    for (size_t i = 0; i < m->prog->loops.n; i++) {
        m->prog->loops.data[i].begin -= m->prog->loops.data[i].begin > at;
        m->prog->loops.data[i].end -= m->prog->loops.data[i].end > at;
    }
    for (size_t i = 0; i < m->p->buffers.n; i++) {
        Buffer *b = &m->p->buffers.data[i];
        if (b->persistent || b->program != m->program)
            continue;
        b->first -= b->first > at;
        b->last -= b->last > at;
    }
}

static bool drop_action(Mutation *m)
{
    int at = any(m, m->prog->actions.n);
    Action *a = &m->prog->actions.data[at];
    if (a->kind == ACT_loop || a->kind == ACT_end)
        return false;
    SAY("action %d '%s' is left out", at, name(m, a->name));
    m->prog->actions.n--;
    memmove(a, a + 1, (m->prog->actions.n - (size_t)at) * sizeof *a);
    close_gap(m, at);
    return true;
}

static bool swap_actions(Mutation *m)
{
    int at = any(m, m->prog->actions.n - 1);
    Action *a = &m->prog->actions.data[at], was = *a;
    if (a->noperands == 0 || a[1].noperands == 0)
        return false;
    SAY("actions %d and %d, '%s', change places", at, at + 1, name(m, a->name));
    a[0] = a[1];
    a[1] = was;
    return true;
}

static bool other_kernel(Mutation *m)
{
    Action *a = any_action(m);
    if (!a || a->kind != ACT_kernel)
        return false;
    uint32_t to = (uint32_t)any(m, m->p->kernels.n);
    SAY("'%s' is kernel %u instead of %u", name(m, a->name), to, a->kernel);
    bool other = a->kernel != to && m->p->kernels.data[to].noperands == a->noperands;
    a->kernel = to;
    return other;
}

static bool other_stride(Mutation *m)
{
    const Action *a;
    Operand *o = any_operand(m, &a);
    if (!o || !o->type.rank)
        return false;
    int d = any(m, (size_t)o->type.rank);
    SAY("an operand of '%s' has stride %lld + 1", name(m, a->name), (long long)o->stride[d]);
    o->stride[d]++;
    return true;
}

static bool other_value(Mutation *m)
{
    const Action *a;
    Operand *o = any_operand(m, &a);
    Value to = (Value)any(m, m->p->module->values.n);
    SAY("an operand of '%s' is said to be value %u", a ? name(m, a->name) : "", to);
    if (!o || o->value == to)
        return false;
    o->value = to;
    return true;
}

static bool swap_operands(Mutation *m)
{
    Action *a = any_action(m);
    if (!a || a->noperands < 2)
        return false;
    int i = any(m, (size_t)a->noperands), k = any(m, (size_t)a->noperands);
    Operand o = a->operand[i];
    SAY("operands %d and %d of '%s' change places", i, k, name(m, a->name));
    a->operand[i] = a->operand[k];
    a->operand[k] = o;
    return i != k;
}

static bool shorter_life(Mutation *m)
{
    Buffer *b = any_buffer(m);
    SAY("buffer '%s' dies one action earlier", name(m, b->name));
    if (b->persistent || b->first == b->last)
        return false;
    b->last--;
    return true;
}

static bool turn_loop(Mutation *m)
{
    if (!m->prog->loops.n)
        return false;
    Loop *l = &m->prog->loops.data[any(m, m->prog->loops.n)];
    SAY("the loop over '%s' runs the other way", name(m, l->dim.name));
    l->reverse = !l->reverse;
    return true;
}

static bool shorter_loop(Mutation *m)
{
    if (!m->prog->loops.n)
        return false;
    Loop *l = &m->prog->loops.data[any(m, m->prog->loops.n)];
    SAY("the loop over '%s' has an iteration less", name(m, l->dim.name));
    l->dim.size--;
    return true;
}

/* A sum begins with another loop, or with none. */
static bool other_begin(Mutation *m)
{
    Action *a = any_action(m);
    for (int tries = 0; a && tries < 64 && (a->kind != ACT_gemm || a->gemm.beta == 0); tries++)
        a = any_action(m);
    if (!a || a->kind != ACT_gemm || a->gemm.beta == 0 || a->around < 0)
        return false;
    SAY("'%s' begins with %d loops, %d before", name(m, a->name), !a->nbegins, a->nbegins);
    a->nbegins = !a->nbegins;
    a->begins[0] = (uint32_t)a->around;
    return true;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

#define PICK(...)                                                                                  \
    do {                                                                                           \
        int64_t *const fields[] = {__VA_ARGS__};                                                   \
        int which = any(m, sizeof fields / sizeof *fields);                                        \
        SAY("number %d of the descriptor of '%s' (%s) changes from %lld", which, name(m, a->name), \
            action_info[a->kind].name, (long long)*fields[which]);                                 \
        *fields[which] += any(m, 2) ? 1 : -1;                                                      \
    } while (0)

static bool flip(Mutation *m, const Action *a, bool *flag, const char *of)
{
    SAY("%s of '%s' flips", of, name(m, a->name));
    *flag = !*flag;
    return true;
}

static bool change_gemm(Mutation *m, Action *a)
{
    mg_gemm_desc *d = &a->gemm;
    switch (any(m, 5)) {
    case 0:
        return flip(m, a, &d->ta, "ta");
    case 1:
        return flip(m, a, &d->tb, "tb");
    case 2:
        SAY("beta of '%s' changes", name(m, a->name));
        d->beta = 1 - d->beta;
        return true;
    case 3:
        if (d->tiles && any(m, 2)) {
            SAY("tiles of '%s' change", name(m, a->name));
            d->tiles = d->tiles % MG_TILES_MX + 1;
            return true;
        }
        if (d->other) {
            SAY("the second type of '%s' changes", name(m, a->name));
            d->other = d->other == MG_E4M3 ? MG_E5M2 : MG_E4M3;
            return true;
        } /* else as any other */
        /* fallthrough */
    default:
        PICK(&d->m, &d->n, &d->k, &d->lda, &d->ldb, &d->ldc, &d->ldx, &d->batch, &d->sa, &d->sb,
             &d->sc);
        return true;
    }
}

static bool change_attention(Mutation *m, Action *a)
{
    mg_attention_desc *d = &a->attention;
    if (any(m, 12) == 0) {
        SAY("cap of '%s' changes", name(m, a->name));
        d->cap += 1;
        return true;
    }
    if (any(m, 12) == 0) {
        SAY("window of '%s' changes", name(m, a->name));
        d->window += 1;
        return true;
    }
    if (any(m, 4) == 0)
        return flip(m, a, &d->causal, "causal");
    if (d->biased && any(m, 12) == 0)
        return flip(m, a, &d->biased, "biased");
    if (d->biased && any(m, 4) == 0)
        PICK(&d->bias[0], &d->bias[1], &d->bias[2], &d->bias[3], &d->bias[4]);
    else if (a->kind == ACT_attention_bias_grad && any(m, 4) == 0)
        PICK(&d->dbias[0], &d->dbias[1], &d->dbias[2], &d->dbias[3], &d->dbias[4]);
    else if (a->kind == ACT_attention_grad && any(m, 4) == 0)
        PICK(&d->dq[0], &d->dq[1], &d->dq[2], &d->dq[3], &d->dk[0], &d->dk[1], &d->dk[2], &d->dv[0],
             &d->dv[1], &d->dv[2]);
    else
        PICK(&d->batch, &d->kv, &d->group, &d->queries, &d->keys, &d->head, &d->vhead, &d->q[0],
             &d->q[1], &d->q[2], &d->q[3], &d->k[0], &d->k[1], &d->k[2], &d->v[0], &d->v[1],
             &d->v[2], &d->o[0], &d->o[1], &d->o[2], &d->o[3], &d->lse[0], &d->lse[1], &d->lse[2],
             &d->lse[3]);
    return true;
}

/* A number of one of its dims, or of one of its axes. */
static bool change_conv(Mutation *m, Action *a, mg_conv_desc *d)
{
    const int n = d->batch + d->rows + d->columns + d->terms;
    const int i = (int)any(m, (uint64_t)n);
    if (any(m, 8) == 0)
        return flip(m, a, &d->accumulate, "accumulate");
    if (d->axes && any(m, 2)) {
        mg_conv_axis *x = &d->axis[any(m, (uint64_t)d->axes)];
        PICK(&x->size, &x->stride, &x->at, &x->every);
        return true;
    }
    PICK(&d->size[i], &d->x[i], &d->w[i], &d->y[i]);
    return true;
}

static bool change_xent(Mutation *m, Action *a, mg_xent_desc *d)
{
    PICK(&d->rows, &d->vocab, &d->valid, &d->dloss_stride, &d->target_inner, &d->target_outer);
    return true;
}

static bool change_descriptor(Mutation *m)
{
    Action *a = any_action(m);
    if (!a)
        return false;
    switch (a->kind) {
    case ACT_gemm:
        return change_gemm(m, a);
    case ACT_conv:
        return change_conv(m, a, &a->conv);
    case ACT_attention:
    case ACT_attention_grad:
    case ACT_attention_bias_grad:
        return change_attention(m, a);
    case ACT_xent:
    case ACT_xent_grad:
        return change_xent(m, a, &a->xent);
    case ACT_head:
    case ACT_head_loss:
        if (any(m, 2))
            return change_xent(m, a, &a->head.xent);
        if (any(m, 2)) {
            bool *const flags[] = {&a->head.w_by_vocab, &a->head.dw_accumulate, &a->head.frozen};
            return flip(m, a, flags[any(m, 3)], "a flag");
        }
        PICK(&a->head.hidden, &a->head.chunk);
        return true;
    case ACT_gather:
    case ACT_scatter_add:
    case ACT_put:
        if (any(m, 4) == 0)
            return flip(m, a, &a->gather.accumulate, "accumulate");
        PICK(&a->gather.indices, &a->gather.tables, &a->gather.outer, &a->gather.n,
             &a->gather.inner, &a->gather.index_inner, &a->gather.index_outer);
        return true;
    case ACT_top:
        PICK(&a->top.rows, &a->top.n, &a->top.top);
        return true;
    case ACT_slots:
    case ACT_ends:
    case ACT_dispatch:
    case ACT_combine:
    case ACT_combine_weight:
        PICK(&a->experts.groups, &a->experts.positions, &a->experts.choices, &a->experts.homes,
             &a->experts.experts, &a->experts.slots, &a->experts.inner);
        return true;
    case ACT_grouped:
    case ACT_grouped_weight:
        if (any(m, 4) == 0)
            return flip(m, a, any(m, 2) ? &a->grouped.turned : &a->grouped.accumulate, "a flag");
        PICK(&a->grouped.groups, &a->grouped.rows, &a->grouped.experts, &a->grouped.k,
             &a->grouped.n);
        return true;
    case ACT_tile_scale:
        if (any(m, 6) == 0)
            return flip(m, a, &a->tile_scale.power, "power");
        PICK(&a->tile_scale.outer, &a->tile_scale.rows, &a->tile_scale.columns,
             &a->tile_scale.tile_rows, &a->tile_scale.tile_columns);
        return true;
    case ACT_round_tiles:
        if (any(m, 7) == 0)
            return flip(m, a, &a->round_tiles.power, "power");
        PICK(&a->round_tiles.rows, &a->round_tiles.columns, &a->round_tiles.row_stride,
             &a->round_tiles.column_stride, &a->round_tiles.tile_rows,
             &a->round_tiles.tile_columns);
        return true;
    case ACT_random:
        PICK(&a->random.elements);
        return true;
    case ACT_copy:
    case ACT_fetch:
    case ACT_offload:
    case ACT_zero:
        PICK(&a->bytes);
        return true;
    case ACT_loop:
    case ACT_end:
    case ACT_kernel:
    case ACT_comm:
    case ACT_guard:
    case ACT_phase:
    case ACT_receive:
    case ACT_send:
    case ACT_count:
        break;
    }
    return false;
}

/* ---- streams --------------------------------------------------------------------------------- */

static bool meets_all(const Action *a)
{
    return a->kind == ACT_loop || a->kind == ACT_end || a->kind == ACT_guard;
}

static bool drop_wait(Mutation *m)
{
    int n = 0;
    uint32_t *wait = NULL;
    for (size_t i = 0; i < m->prog->actions.n; i++) {
        Action *a = &m->prog->actions.data[i];
        for (int s = 0; s < MAX_STREAMS; s++)
            if (a->wait[s] && !meets_all(a) && any(m, ++n) == 0) {
                SAY("'%s' does not wait for %u", name(m, a->name), a->wait[s] - 1);
                wait = &a->wait[s];
            }
    }
    if (wait)
        *wait = 0;
    return wait;
}

static bool earlier_wait(Mutation *m)
{
    Action *a = any_action(m);
    for (int s = 0; a && s < MAX_STREAMS; s++)
        if (a->wait[s] > 1) {
            uint32_t w = a->wait[s] - 1;
            while (w > 0 && m->prog->actions.data[w - 1].stream != s)
                w--;
            SAY("'%s' waits for %d, not for %u", name(m, a->name), (int)w - 1, a->wait[s] - 1);
            a->wait[s] = w;
            return true;
        }
    return false;
}

static bool other_stream(Mutation *m)
{
    Action *a = any_action(m);
    if (!a || a == m->prog->actions.data || meets_all(a - 1))
        return false;
    SAY("'%s' runs in stream %d", name(m, a->name), 1 - a->stream);
    a->stream = 1 - a->stream;
    a->wait[a->stream] = 0;
    if (a->stream && !a[-1].stream)
        a->wait[0] = (uint32_t)(a - m->prog->actions.data);
    return true;
}

bool plan_mutate(Plan *p, uint64_t *seed, char *what, size_t size)
{
    static bool (*const mistakes[])(Mutation *) = {
        swap_offsets,      move_buffer,       shift_place,  change_loop_stride, other_buffer,
        drop_action,       swap_actions,      other_kernel, other_stride,       other_value,
        swap_operands,     shorter_life,      turn_loop,    shorter_loop,       change_descriptor,
        change_descriptor, change_descriptor, other_begin,  drop_action,        drop_wait,
        drop_wait,         earlier_wait,      other_stream};
    Mutation m = {.p = p, .seed = seed, .what = what, .size = size};
    do {
        m.program = draw_int(seed, PLAN_PROGRAMS);
        m.prog = p->programs[m.program];
    } while (!m.prog);
    *what = 0;
    bool made = false;
    for (int tries = 0; tries < 4 && !made; tries++) /* not every program has a place for each */
        made = mistakes[draw_int(seed, sizeof mistakes / sizeof *mistakes)](&m);
    return made;
}
