/* microbatch.c - loss and gradients are added up over rounds of a loop.
 *
 *   before:  @train(params, tokens[batch, window]) -> loss, gradients
 *   after:   @train(params, tokens[micro, batch, window]):
 *              repeat micro (carried loss, gradients from 0; slices tokens)
 *                the program before, with the dim batch of the size of a microbatch
 *              -> loss, gradients
 *
 * The tokens are the same bytes in the same order. The loss is a mean over the whole batch in every
 * round already: the front end divides by the number of all targets (parts.c checks that nothing
 * else of the whole batch is needed). A gradient that an inner loop stacks or adds up is added to
 * in that loop, so that its storage can be the accumulator's. */
#include "passes/accumulate.h"
#include "passes/parts.h"
#include "passes/passes.h"
#include "passes/walk.h"

/* ---- the batch becomes a microbatch ---------------------------------------------------------- */

static void resize_dim(const Rounds *r, Dim *d)
{
    if (d->name == r->batch)
        d->size = r->size;
}

static void resize_value(const Rounds *r, Value v)
{
    Type *t = &r->m->values.data[v].type;
    for (int i = 0; i < t->rank; i++)
        resize_dim(r, &t->dims[i]);
}

static void resize_region(const Rounds *r, Region *body);

static void resize_attrs(const Rounds *r, Attrs *a)
{
    resize_dim(r, &a->dim);
    resize_dim(r, &a->along);
    resize_dim(r, &a->to);
    for (int i = 0; i < a->over.n; i++)
        resize_dim(r, &a->over.dim[i]);
}

static void resize_region(const Rounds *r, Region *body)
{
    for (size_t k = 0; k < body->args.n; k++)
        resize_value(r, body->args.data[k]);
    for (size_t n = 0; n < body->ins.n; n++) {
        Ins *i = body->ins.data[n];
        resize_attrs(r, &i->attrs);
        for (uint32_t k = 0; k < i->nout; k++)
            resize_value(r, i->out[k]);
        if (i->body)
            resize_region(r, i->body);
    }
}

/* A name for the loop's dim that the program does not use. */
static Name round_name(const Module *m)
{
    const char *s = "micro";
    Name n = name_intern(m->names, s);
    for (size_t v = 1; v < m->values.n; v++)
        if (type_find(&m->values.data[v].type, n) >= 0) {
            s = arena_printf(m->arena, "%s_", s);
            n = name_intern(m->names, s);
            v = 0;
        }
    return n;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* What comes by batch: as it is given, and the slice of one round. */
typedef struct Given {
    int n;
    Value whole[MAX_INPUTS], slice[MAX_INPUTS];
} Given;

static bool by_batch(ArgRole role)
{
    return role == ARG_tokens || role == ARG_weight || role == ARG_input;
}

/* The function's arguments move to the new outer region. All but the inputs keep their value
 * numbers; what was an input is the slice of one round. */
static Given move_args(Module *m, Fn *fn, Region *top, Region *body, Dim micro)
{
    Given g = {0};
    for (size_t i = 0; i < fn->args.n; i++) {
        Value v = body->args.data[i];
        ArgRole role = fn->args.data[i].role;
        if (by_batch(role)) {
            g.slice[g.n] = v;
            g.whole[g.n++] =
                region_arg(m, top, type_stacked(type_of(m, v), micro), m->values.data[v].name);
            continue;
        }
        m->values.data[v].home = top;
        vec_push(m->arena, &top->args, v);
    }
    return g;
}

/* Rounded copies of parameters are made once, for all rounds. */
static void move_copies(Module *m, Region *top, Region *body)
{
    size_t kept = 0;
    for (size_t k = 0; k < body->ins.n; k++) {
        Ins *i = body->ins.data[k];
        if (i->op != OP_cast || m->values.data[i->in[0]].home != top ||
            m->values.data[i->in[0]].def) {
            body->ins.data[kept++] = i;
            continue;
        }
        i->home = m->values.data[i->out[0]].home = top;
        vec_push(m->arena, &top->ins, i);
    }
    body->ins.n = kept;
}

typedef struct Adder {
    Builder b;
    Uses uses;
    VEC(Ins *) views; /* of running sums: they are put before everything else */
    Arena *tmp;
} Adder;

static Value view_of_sum(Adder *a, Op op, const Attrs *attrs, Value acc)
{
    Value v = build(&a->b, op, attrs, 1, &acc);
    vec_push(a->tmp, &a->views, a->b.region->ins.data[--a->b.region->ins.n]);
    return v;
}

static Value added(Adder *a, Value v, Value acc);

/* What is joined is added to part by part, what is merged as it was before. 0: v is neither. */
static Value added_by_parts(Adder *a, Value v, Value acc)
{
    Module *m = a->b.m;
    Ins *i = m->values.data[v].def;
    if (!i || i->home != a->b.region || a->uses.count[v] != 1)
        return 0;
    if (i->op == OP_merge) {
        Value x = added(a, i->in[0], view_of_sum(a, OP_split, &i->attrs, acc));
        return x == i->in[0] ? v : build(&a->b, OP_merge, &i->attrs, 1, &x);
    }
    if (i->op != OP_join)
        return 0;
    Value *part = NEW_ARRAY(a->tmp, Value, i->nin);
    bool same = true;
    int64_t at = 0;
    for (uint32_t k = 0; k < i->nin; k++) {
        Attrs w = {.along = type_of(m, i->in[k])->dims[0], .at = at};
        part[k] = added(a, i->in[k], view_of_sum(a, OP_window, &w, acc));
        same &= part[k] == i->in[k];
        at += w.along.size;
    }
    return same ? v : build(&a->b, OP_join, &i->attrs, (int)i->nin, part);
}

/* acc + v, in place where that can be. */
static Value added(Adder *a, Value v, Value acc)
{
    /* Counts of values made since are not in `uses`; none of those is asked for. */
    if (accumulate_into(a->b.m, a->b.region, &a->uses, v, acc))
        return v;
    Value sum = added_by_parts(a, v, acc);
    if (sum)
        return sum;
    Type t = *type_of(a->b.m, v);
    Value in[] = {acc, v};
    return build_typed(&a->b, OP_add, NULL, 2, in, 1, &t, NULL)->out[0];
}

/* What round after round adds up starts at 0; each result of the body becomes the sum so far. */
static void add_up(Module *m, Region *body, const Value *acc, Arena *tmp)
{
    Adder a = {.b = {.m = m, .region = body, .backward = true}, .tmp = tmp};
    a.uses = ir_uses(m, body, tmp);
    for (size_t k = 0; k < body->results.n; k++)
        body->results.data[k] = added(&a, body->results.data[k], acc[k]);
    Ins **rest = body->ins.data;
    size_t n = body->ins.n;
    body->ins.data = NULL;
    body->ins.n = body->ins.cap = 0;
    for (size_t k = 0; k < a.views.n; k++)
        vec_push(m->arena, &body->ins, a.views.data[k]);
    for (size_t k = 0; k < n; k++)
        vec_push(m->arena, &body->ins, rest[k]);
}

static void wrap(Rounds *r, Fn *fn, Dim micro, Arena *tmp)
{
    Module *m = r->m;
    Region *body = fn->body, *top = region_new(m, NULL);
    size_t n = body->results.n;
    Given given = move_args(m, fn, top, body, micro);
    move_copies(m, top, body);
    Value *in = NEW_ARRAY(tmp, Value, n + MAX_INPUTS), *acc = NEW_ARRAY(tmp, Value, n);
    Type *types = NEW_ARRAY(tmp, Type, n);
    Builder b = {.m = m, .region = top, .backward = true};
    body->args.n = 0;
    for (size_t k = 0; k < n; k++) {
        types[k] = *type_of(m, body->results.data[k]);
        in[k] = build_filled(&b, types[k], 0);
        acc[k] = region_arg(m, body, types[k], 0);
    }
    for (int k = 0; k < given.n; k++) {
        in[n + (size_t)k] = given.whole[k];
        vec_push(m->arena, &body->args, given.slice[k]);
    }
    vec_push(m->arena, &body->args, r->index);
    body->parent = top;
    ValueMap inputs = {0};
    for (int k = 0; k < given.n; k++)
        map_set(m, &inputs, given.slice[k], given.whole[k]);
    Builder before = {.m = m, .region = top};
    parts_whole(r, &before, body, &inputs, micro, tmp);
    add_up(m, body, acc, tmp);
    Attrs a = {.dim = micro, .carried = (int64_t)n};
    Ins *loop = build_typed(&b, OP_repeat, &a, (int)n + given.n, in, (int)n, types, body);
    loop->backward = false; /* the whole of the step: forward and backward */
    for (size_t k = 0; k < n; k++)
        vec_push(m->arena, &top->results, loop->out[k]);
    fn->body = top;
}

/* Only inputs come by batch. */
static PassStatus check_args(const Job *j, const Fn *fn)
{
    const Module *m = j->m;
    for (size_t i = 0; i < fn->args.n; i++) {
        FnArg a = fn->args.data[i];
        if (by_batch(a.role) || type_find(type_of(m, fn->body->args.data[i]), m->batch.name) < 0)
            continue;
        const Tensor *t = &m->tensors.data[a.tensor];
        diag_error(m->diag, t->span, 522, "parameter '%s' has the dim '%s', which microbatch cuts",
                   name_str(m->names, t->name), name_str(m->names, m->batch.name));
        diag_help(m->diag, "use microbatch = %lld, the whole batch", (long long)m->batch.size);
        return PASS_error;
    }
    return PASS_ok;
}

PassStatus pass_microbatch(Job *j)
{
    Module *m = j->m;
    Fn *fn = module_fn(m, "train");
    int64_t size = m->layout.microbatch * mesh_batch_ranks(m); /* of all ranks together */
    if (!fn || size == m->batch.size)
        return PASS_ok;
    if (size < 1 || m->batch.size % size)
        return pass_bug(j, NULL, "microbatch %lld does not divide the batch of %lld",
                        (long long)size, (long long)m->batch.size);
    PassStatus status = check_args(j, fn);
    if (status != PASS_ok)
        return status;
    Dim micro = {.name = round_name(m), .size = m->batch.size / size};
    Rounds r = {.m = m, .batch = m->batch.name, .size = size, .rounds = micro.size};
    resize_region(&r, fn->body);
    if (!parts_find(&r, fn->body, j->tmp))
        return PASS_error;
    r.index = value_new(m, fn->body, (Type){.dtype = DT_i32}, name_intern(m->names, "round"));
    parts_adjust(&r, fn->body);
    wrap(&r, fn, micro, j->tmp);
    return PASS_ok;
}
