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
 * The bits are of the generator of all noise, by the place of the element: its row and its column
 * in its external form, under the external name, the run's seed and the step. A column is an index
 * along the last external dim, a row one along all others and the indices in the name. So they
 * depend neither on how elements lie, in memory or over ranks, nor on padding, nor on what else was
 * drawn. A parameter and its state share a block of bits, and each has 16 of its own.
 *
 * why here: updates are written, in the type of computation; before round, which makes no copies of
 * parameters that are kept as they are multiplied, and before shard, which moves fewer bytes. */
#include "ir/external.h"
#include "passes/passes.h"
#include "passes/walk.h"

typedef struct Narrow {
    Module *m;
    Fn *fn; /* at hand */
    ValueMap map;
    Value seed, step; /* 0: not read yet */
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

/* The index along external dim `place`, times `by`, added to `sum`. */
static Value add_place(Builder *b, Value sum, const Tensor *t, int place, int64_t by)
{
    int from = 0;
    for (int i = 0; i < place; i++)
        from += t->merge[i];
    int64_t stride = by;
    for (int k = t->merge[place] - 1; k >= 0; k--) {
        const int stored = t->order[from + k];
        sum = add_index(b, sum, t->type.dims[stored], stride);
        stride *= t->valid[stored];
    }
    if (t->part_of && place == t->part_dim && t->part_at) {
        const Value at = build_const(b, DT_i32, (double)(t->part_at * by));
        sum = sum ? build2(b, OP_add, sum, at) : at;
    }
    return sum;
}

/* The size of an external dim in files. */
static int64_t size_of(const Tensor *t, int place)
{
    return t->part_of && place == t->part_dim ? t->part_of : external_size(t, place);
}

/* How many indices the rows have, or -1: more than 32 bits number. */
static int64_t rows_of(const Tensor *t)
{
    double all = 1;
    for (int i = 0; i < t->stacked; i++)
        all *= (double)t->valid[i];
    for (int i = 0; i + 1 < t->external_rank; i++)
        all *= (double)size_of(t, i);
    return all <= INT32_MAX ? (int64_t)all : -1;
}

static Value number_or(Builder *b, Value x)
{
    return x ? x : build_const(b, DT_i32, 0);
}

static Value row_of(Builder *b, const Tensor *t)
{
    Value row = 0;
    int64_t by = 1;
    for (int i = t->external_rank - 2; i >= 0; by *= size_of(t, i), i--)
        row = add_place(b, row, t, i, by);
    for (int i = t->stacked - 1; i >= 0; by *= t->valid[i], i--)
        row = add_index(b, row, t->type.dims[i], by);
    return number_or(b, row);
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

/* The number of t among a parameter (0) and its states, in their order. */
static int place_of(const Module *m, uint32_t tensor)
{
    int place = 0;
    const uint32_t of = m->tensors.data[tensor].parameter;
    for (uint32_t i = 0; i < tensor && of != tensor; i++)
        place += m->tensors.data[i].parameter == of && !m->tensors.data[i].rounded;
    return place;
}

static Value rounded(Narrow *n, Builder *b, Value x, uint32_t tensor, DType to)
{
    enum { SHARES = 8 }; /* of a block */
    Module *m = n->m;
    const Tensor *t = &m->tensors.data[tensor];
    const int place = place_of(m, tensor);
    const char *key = arena_printf(m->arena, "round%s %s", place < SHARES ? "" : "+",
                                   name_str(m->names, t->external));
    Attrs a = {.at = place % SHARES, .key = name_intern(m->names, key)};
    n->seed = n->seed ? n->seed : scalar_argument(n, ARG_seed, "seed");
    n->step = n->step ? n->step : scalar_argument(n, ARG_step, "step");
    const Value in[] = {x, row_of(b, t), number_or(b, add_place(b, 0, t, t->external_rank - 1, 1)),
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

static void map_uses(Region *r, ValueMap *map)
{
    for (size_t k = 0; k < r->ins.n; k++)
        each_use(r->ins.data[k], read_mapped, map);
    for (size_t k = 0; k < r->results.n; k++)
        read_mapped(map, &r->results.data[k]);
}

/* Casts of v to the type that it now has are v itself. */
static void drop_casts(Narrow *n, Region *r, Value v)
{
    size_t kept = 0;
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k];
        if (i->body)
            drop_casts(n, i->body, v);
        if (i->op == OP_cast && i->in[0] == v &&
            type_of(n->m, i->out[0])->dtype == type_of(n->m, v)->dtype)
            map_set(n->m, &n->map, i->out[0], v);
        else
            r->ins.data[kept++] = i;
    }
    r->ins.n = kept;
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
        drop_casts(n, body, v);
        vec_push(m->arena, &from, v);
    }
    map_uses(body, &n->map);
    n->map = (ValueMap){0};
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
        Builder b = def ? builder_at(m, n->fn->body, def)
                        : (Builder){.m = m, .region = n->fn->body};
        b.span = t->span;
        b.path = t->name;
        n->fn->body->results.data[k] = t->slot && m->train.goal[t->goal].nearest
                                           ? build_cast(&b, x, to)
                                           : rounded(n, &b, x, r.tensor, to);
    }
}

/* Tells of a tensor that has more rows or columns than can be numbered. */
static bool countable(const Job *j, const Tensor *t)
{
    const int64_t cols = size_of(t, t->external_rank - 1), rows = rows_of(t);
    if (rows >= 0 && cols <= INT32_MAX)
        return true;
    diag_error(j->m->diag, t->span, 531, "'%s' has more than %d %s, and is kept in fewer bits",
               name_str(j->m->names, t->external), INT32_MAX, rows < 0 ? "rows" : "columns");
    diag_help(j->m->diag, "leave out `state` and `master`");
    return false;
}

PassStatus pass_narrow(Job *j)
{
    Module *m = j->m;
    bool any = false;
    for (size_t t = 0; t < m->tensors.n; t++) {
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
