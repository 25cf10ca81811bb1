/* narrow.c - pass narrow: what is kept in fewer bits than it is computed in.
 *
 *   before:  @train(m: f32, ...) { ... %new: f32 = ...              }  -> update m
 *   after:   @train(m: bf16, ...) { %wide = cast %m ... %new: f32 = ...,
 *              %kept: bf16 = stochastic_round %new, %row, %col, %seed, %step }  -> update m
 *
 * Optimizer state is kept so by `state = bf16`, parameters by `master = bf16`. What is read is
 * widened, exactly; what is written is rounded: up or down at random, so that on average it is what
 * was computed, however small the change is (state may ask for the nearest instead).
 *
 * The bits are of the generator of all noise, by the place of the element, under the external name,
 * the run's seed and the step. A column is an index along the dim that is innermost as stored, a
 * row one along all others in their external order, padding not counted. So the bits depend neither
 * on how elements lie over ranks nor on what else was drawn. A word of 32 bits is shared by two
 * states of a parameter, and a block of four words by four neighbours of a row, so a kernel draws
 * one block for eight roundings.
 *
 * why here: updates are written, in the type of computation; before round, which makes no copies of
 * parameters that are kept as they are multiplied, and before shard, which moves fewer bytes. */
#include "passes/passes.h"
#include "passes/walk.h"

typedef struct Narrow {
    Module *m;
    Fn *fn; /* at hand */
    ValueMap map;
    VEC(Ins *) gathers; /* of rows that are narrow; */
    VEC(Value) tables;  /* of what each */
    Value seed, step;   /* 0: not read yet */
} Narrow;

/* ---- places ---------------------------------------------------------------------------------- */

/* Index along a dim times `by`, added to `sum` (0: nothing). */
static Value add_index(Builder *b, Value sum, Dim d, int64_t by)
{
    Value x = build_iota(b, DT_i32, d);
    if (by != 1)
        x = build2(b, OP_mul, x, build_const(b, DT_i32, (double)by));
    return sum ? build2(b, OP_add, sum, x) : x;
}

/* Dims in the order of the external form: those that are indices in its name, then the others. */
static int stored_at(const Tensor *t, int place)
{
    return place < t->stacked ? place : t->order[place - t->stacked];
}

static double rows_of(const Tensor *t)
{
    double all = 1;
    for (int i = 0; i + 1 < t->type.rank; i++)
        all *= (double)t->valid[i];
    return all;
}

/* The index along all dims but the last that is stored. */
static Value row_of(Builder *b, const Tensor *t)
{
    Value row = 0;
    int64_t by = 1;
    for (int i = t->type.rank - 1; i >= 0; i--) {
        const int k = stored_at(t, i);
        if (k == t->type.rank - 1)
            continue;
        row = add_index(b, row, t->type.dims[k], by);
        by *= t->valid[k];
    }
    return row ? row : build_const(b, DT_i32, 0);
}

/* ---- rounding -------------------------------------------------------------------------------- */

static Value scalar_argument(Narrow *n, ArgRole role, const char *name)
{
    for (size_t k = 0; k < n->fn->args.n; k++)
        if (n->fn->args.data[k].role == role)
            return n->fn->body->args.data[k];
    vec_push(n->m->arena, &n->fn->args, ((FnArg){.role = role}));
    return region_arg(n->m, n->fn->body, (Type){.dtype = DT_i64}, name_intern(n->m->names, name));
}

/* The name under which the bits of a tensor are drawn: its external name and, of a part, its place
 * there; and whether it is the parameter or which pair of its states, which share words. */
static Name key_of(const Narrow *n, const Tensor *t, int state)
{
    Module *m = n->m;
    const char *of = t->slot ? arena_printf(m->arena, "round %d", state / 2) : "round";
    const char *at = t->part_of ? arena_printf(m->arena, " at %lld", (long long)t->part_at) : "";
    return name_intern(m->names,
                       arena_printf(m->arena, "%s %s%s", of, name_str(m->names, t->external), at));
}

/* The number of a state among those of its parameter. */
static int state_number(const Module *m, uint32_t tensor)
{
    int number = 0;
    for (uint32_t i = 0; i < tensor; i++)
        number += m->tensors.data[i].parameter == m->tensors.data[tensor].parameter &&
                  m->tensors.data[i].slot && !m->tensors.data[i].rounded;
    return number;
}

static Value rounded(Narrow *n, Builder *b, Value x, uint32_t tensor, DType to)
{
    Module *m = n->m;
    const Tensor *t = &m->tensors.data[tensor];
    const int state = t->slot ? state_number(m, tensor) : 0;
    Attrs a = {.at = state % 2, .key = key_of(n, t, state)};
    n->seed = n->seed ? n->seed : scalar_argument(n, ARG_seed, "seed");
    n->step = n->step ? n->step : scalar_argument(n, ARG_step, "step");
    const Value in[] = {x, row_of(b, t), build_iota(b, DT_i32, t->type.dims[t->type.rank - 1]),
                        n->seed, n->step};
    Type type = *type_of(m, x);
    type.dtype = to;
    return build_typed(b, OP_stochastic_round, &a, 5, in, 1, &type, NULL)->out[0];
}

/* ---- functions ------------------------------------------------------------------------------- */

static void read_mapped(void *ctx, Value *use)
{
    *use = map_get(ctx, *use);
}

/* Rows that are looked up in v are widened, not v. */
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
        if (i->op == OP_gather && i->in[0] == v &&
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
        const Value x = n->fn->body->results.data[k];
        const Ins *def = m->values.data[x].def;
        Builder b =
            def ? builder_at(m, n->fn->body, def) : (Builder){.m = m, .region = n->fn->body};
        b.span = t->span;
        b.path = m->tensors.data[t->parameter].name;
        n->fn->body->results.data[k] = t->slot && m->train.goal[t->goal].nearest
                                           ? build_cast(&b, x, to)
                                           : rounded(n, &b, x, r.tensor, to);
    }
}

/* Tells of a tensor that has more rows or columns than can be numbered. */
static bool countable(const Job *j, const Tensor *t)
{
    const double rows = rows_of(t);
    if (rows <= INT32_MAX && t->type.dims[t->type.rank - 1].size <= INT32_MAX)
        return true;
    diag_error(j->m->diag, t->span, 531,
               "'%s' has %.0f rows, and is kept in fewer bits: at most %d",
               name_str(j->m->names, t->external), rows, INT32_MAX);
    diag_help(j->m->diag, "leave out `state` and `master`");
    return false;
}

/* Tells of a tensor that follows another, beside parameters that are kept in fewer bits. */
static bool follows(const Job *j, const Tensor *t)
{
    if (!t->follows || !j->m->train.master)
        return false;
    diag_error(j->m->diag, t->span, 532,
               "'%s' follows another tensor, and parameters are kept in %s",
               name_str(j->m->names, t->external), dtype_name(j->m->train.master));
    diag_help(j->m->diag, "precision bf16 (master = f32)");
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
        if (!countable(j, &m->tensors.data[t]))
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
