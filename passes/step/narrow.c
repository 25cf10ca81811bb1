/* narrow.c - pass narrow: what is kept in fewer bits than it is computed in.
 *
 *   before:  @train(m: f32, ...) { ... %new: f32 = ...              }  -> update m
 *   after:   @train(m: bf16, ...) { %wide = cast %m ... %new: f32 = ...,
 *              %kept: bf16 = stochastic_round %new, %row, %col, %seed, %step }  -> update m
 *
 * Optimizer state is kept so by `state = bf16`, parameters by `master = bf16`, and the matrices of
 * an adapter's base where products read bf16: these are never written. What is read is widened,
 * exactly; what is written is rounded: up or down at random, so that on average it is what was
 * computed, however small the change is (state may ask for the nearest instead).
 *
 * why here: updates are written, in the type of computation; before round, which makes no copies of
 * parameters that are kept as they are multiplied, and before shard, which moves fewer bytes. */
#include "passes/passes.h"
#include "passes/step/rounding.h"
#include "passes/walk.h"

typedef struct Narrow {
    Module *m;
    Fn *fn; /* at hand */
    ValueMap map;
    VEC(Ins *) gathers; /* of rows that are narrow; */
    VEC(Value) tables;  /* of what each */
} Narrow;

/* ---- rounding -------------------------------------------------------------------------------- */

/* The number of a state among those of its parameter. */
static int state_number(const Module *m, uint32_t tensor)
{
    int number = 0;
    for (uint32_t i = 0; i < tensor; i++)
        number += m->tensors.data[i].parameter == m->tensors.data[tensor].parameter &&
                  m->tensors.data[i].slot && !m->tensors.data[i].rounded;
    return number;
}

/* merge: NULL, or makes one dim of x of two. */
static Value rounded(Narrow *n, Builder *b, Value x, uint32_t tensor, const Ins *merge)
{
    Module *m = n->m;
    const Tensor *t = &m->tensors.data[tensor];
    const int state = t->slot ? state_number(m, tensor) : 0;
    /* Whether it is the parameter or which pair of its states, which share words. */
    const char *what = t->slot ? arena_printf(m->arena, "round %d", state / 2) : "round";
    Rounding r = {.tensor = t, .key = rounding_key(m, t, what), .word = state % 2};
    r.seed = scalar_argument(m, n->fn, n->fn->body, ARG_seed, "seed");
    r.count = scalar_argument(m, n->fn, n->fn->body, ARG_step, "step");
    if (merge) {
        const Dim outer = merge->attrs.to, inner = merge->attrs.dim;
        const Value size = build_const(b, DT_i32, (double)inner.size);
        const Value before = build2(b, OP_mul, build_iota(b, DT_i32, outer), size);
        r.at[type_find(&t->type, inner.name)] =
            build2(b, OP_add, before, build_iota(b, DT_i32, inner));
    }
    return round_at_random(b, x, &r);
}

/* ---- functions ------------------------------------------------------------------------------- */

static void read_mapped(void *ctx, Value *use)
{
    *use = map_get(ctx, *use);
}

/* Rows that are looked up in v are widened, not v; and what sees v in blocks. */
static Ins *widen_rows(const Narrow *n, Region *r, Ins *gather)
{
    Module *m = n->m;
    const Value wide = gather->out[0];
    Type t = *type_of(m, wide);
    t.dtype = type_of(m, gather->in[0])->dtype;
    gather->out[0] = value_new(m, r, t, m->values.data[wide].name);
    m->values.data[gather->out[0]].def = gather;
    Region apart = {.owner = r->owner, .parent = r->parent};
    Builder b = builder_at(m, &apart, gather);
    Ins *cast = build_typed(&b, OP_cast, NULL, 1, gather->out, 1, type_of(m, wide), NULL);
    cast->out[0] = wide;
    cast->home = r;
    m->values.data[wide].def = cast;
    return cast;
}

/* Casts of v to the type that it now has are v itself, which stays as it is there. */
static void read_narrow(Narrow *n, Region *r, Value v)
{
    VEC(Ins *) all = {0};
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k];
        if (i->body)
            read_narrow(n, i->body, v);
        if (i->op == OP_cast && i->in[0] == v &&
            type_of(n->m, i->out[0])->dtype == type_of(n->m, v)->dtype) {
            map_set(n->m, &n->map, i->out[0], v);
            continue;
        }
        vec_push(n->m->arena, &all, i);
        if (OP_AMONG(i->op, OP_gather, OP_split) && i->in[0] == v &&
            type_of(n->m, i->out[0])->dtype != type_of(n->m, v)->dtype) {
            vec_push(n->m->arena, &all, widen_rows(n, r, i));
            vec_push(n->m->arena, &n->gathers, i);
            vec_push(n->m->arena, &n->tables, v);
        }
    }
    r->ins.data = all.data;
    r->ins.n = r->ins.cap = all.n;
}

/* The arguments that are narrow are widened where the function begins. */
static void narrow_arguments(Narrow *n)
{
    Module *m = n->m;
    Region *body = n->fn->body;
    VEC(Value) from = {0};
    for (size_t k = 0; k < n->fn->args.n; k++) {
        const FnArg a = n->fn->args.data[k];
        const Value v = body->args.data[k];
        const DType to = a.role == ARG_param || a.role == ARG_state
                             ? tensor_kept(m, &m->tensors.data[a.tensor])
                             : DT_none;
        if (!to)
            continue;
        m->values.data[v].type.dtype = to;
        read_narrow(n, body, v);
        vec_push(m->arena, &from, v);
    }
    const size_t had = body->ins.n;
    Builder b = {.m = m, .region = body};
    for (size_t k = 0; k < from.n; k++) {
        const Value w = build_cast(&b, from.data[k], m->train.compute);
        m->values.data[w].name = m->values.data[from.data[k]].name;
        map_set(m, &n->map, from.data[k], w);
    }
    /* The casts were appended: they go first, and what stood there reads them. */
    VEC(Ins *) all = {0};
    for (size_t k = had; k < body->ins.n; k++)
        vec_push(m->arena, &all, body->ins.data[k]);
    for (size_t k = 0; k < had; k++) {
        each_use(body->ins.data[k], read_mapped, &n->map);
        vec_push(m->arena, &all, body->ins.data[k]);
    }
    body->ins.data = all.data;
    body->ins.n = body->ins.cap = all.n;
    for (size_t k = 0; k < n->gathers.n; k++)
        n->gathers.data[k]->in[0] = n->tables.data[k];
    for (size_t k = 0; k < body->results.n; k++)
        read_mapped(&n->map, &body->results.data[k]);
}

static void narrow_results(Narrow *n)
{
    Module *m = n->m;
    for (size_t k = 0; k < n->fn->results.n; k++) {
        const FnResult r = n->fn->results.data[k];
        const Tensor *t = r.role == RES_update ? &m->tensors.data[r.tensor] : NULL;
        const DType to = t ? tensor_kept(m, t) : DT_none;
        if (!to)
            continue;
        Value x = n->fn->body->results.data[k];
        const Ins *def = m->values.data[x].def, *merge = NULL;
        if (def && def->op == OP_merge) { /* made in blocks: the kernel that makes them rounds */
            merge = def;
            x = merge->in[0];
            def = m->values.data[x].def;
        }
        Builder b =
            def ? builder_at(m, n->fn->body, def) : (Builder){.m = m, .region = n->fn->body};
        b.span = t->span;
        b.path = m->tensors.data[t->parameter].name;
        x = t->slot && m->train.goal[t->goal].nearest ? build_cast(&b, x, to)
                                                      : rounded(n, &b, x, r.tensor, merge);
        n->fn->body->results.data[k] = merge ? build(&b, OP_merge, &merge->attrs, 1, &x) : x;
    }
}

/* Tells of a tensor that follows another, beside parameters that are kept in fewer bits. */
static bool follows(const Job *j, const Tensor *t)
{
    if (!t->follows || !j->m->train.master)
        return false;
    diag_error(j->m->diag, t->span, 532,
               "'%s' follows another tensor, and parameters are kept in %s",
               name_str(j->m->names, t->external), dtype_name(j->m->train.master));
    diag_help(j->m->diag, "precision bf16(master = f32)");
    return true;
}

PassStatus pass_narrow(Job *j)
{
    Module *m = j->m;
    bool any = false;
    for (size_t t = 0; t < m->tensors.n; t++) {
        if (follows(j, &m->tensors.data[t]))
            return PASS_error;
        if (!tensor_kept(m, &m->tensors.data[t]))
            continue;
        any = true;
        if (!m->tensors.data[t].frozen && !rounding_fits(m, &m->tensors.data[t]))
            return PASS_error;
    }
    for (size_t f = 0; any && f < m->fns.n; f++) {
        Narrow n = {.m = m, .fn = m->fns.data[f]};
        narrow_arguments(&n);
        narrow_results(&n);
    }
    for (size_t t = 0; t < m->tensors.n; t++) {
        const DType to = tensor_kept(m, &m->tensors.data[t]);
        if (to)
            m->tensors.data[t].type.dtype = to;
    }
    return PASS_ok;
}
