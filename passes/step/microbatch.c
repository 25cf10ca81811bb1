/* microbatch.c - loss and gradients are added up over the microbatches, in a loop.
 *
 *   before:  @train(params, tokens[batch, window]) -> loss, gradients
 *   after:   @train(params, tokens[micro, batch, window]):
 *              repeat micro (carried loss, gradients from 0; slices tokens)
 *                the program before, with the dim batch of the size of a microbatch
 *              -> loss, gradients
 *
 * The tokens are the same bytes in the same order. The loss is a mean over the whole batch in every
 * microbatch already: the front end divides by the number of all targets (parts.c checks that
 * nothing else of the whole batch is needed). A gradient that an inner loop stacks or adds up is
 * added to in that loop, so that its storage can be the accumulator's.
 *
 * With `reduce = tree` there are nested loops of two iterations each instead, an accumulator
 * each:
 *
 *   repeat micro_2 = 2 (a from 0) {
 *     repeat micro = 2 (b from 0) { g = gradients of microbatch 2 micro_2 + micro; give b + g }
 *     give a + b
 *   }
 *
 * Sums are made in this order and no other: a gradient is computed by itself, and then added.
 *
 * With `reduce = bf16` a gradient is computed by itself too. Then it is added to the sum, which is
 * kept in bf16, and rounded at random; one microbatch alone is rounded. The loop's results are
 * widened behind it. With `reduce = bf16_nearest` it is rounded to the nearest, by the product that
 * computes it where one does (passes/library/products.c). */
#include "passes/step/add_up.h"
#include "passes/step/parts.h"
#include "passes/passes.h"
#include "passes/step/rounding.h"
#include "passes/step/stacks.h"
#include "passes/step/tied.h"
#include "passes/step/tree.h"
#include "passes/spmd/shard.h"
#include "passes/walk.h"
#include "ir/propose.h"

#include <string.h>

/* ---- names ------------------------------------------------------------------------------------
 */

/* A name for a loop's dim that the program does not use. */
static Name microbatch_name(const Module *m, const char *s)
{
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

/* The inputs that have the batch dim: whole, and the slice of one microbatch. */
typedef struct Given {
    int n;
    Value whole[MAX_INPUTS], slice[MAX_INPUTS];
} Given;

static bool by_batch(ArgRole role)
{
    return role == ARG_tokens || role == ARG_weight || role == ARG_documents || role == ARG_input;
}

/* The function's arguments move to the new outer region. All but the inputs keep their value
 * numbers; what was an input is the slice of one microbatch. */
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

/* Rounded copies of parameters are made once, for all microbatches. */
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

/* Do ranks send each microbatch's gradient of a parameter, as each keeps a part of the sum? */
static bool is_sent(const Module *m, const Tensor *t)
{
    const Axes batch = mesh_batch_axes(m);
    Axes split = 0;
    for (int i = 0; i < t->type.rank && m->layout.mesh.n; i++)
        split |= class_split_of(m, &t->type, t->parameter, CLASS_grads).axes[i];
    return (split & batch) != 0;
}

static Rounding at_random(Module *m, Fn *fn, Region *args, const Tensor *t)
{
    Rounding r = {.tensor = t, .key = rounding_key(m, t, "sum"), .sent = is_sent(m, t)};
    r.seed = scalar_argument(m, fn, args, ARG_seed, "seed");
    r.count = scalar_argument(m, fn, args, ARG_step, "step");
    return r;
}

/* How the sums of a function's results are rounded. tied: as tied_split has it. */
static Rounding *roundings(Module *m, Fn *fn, Region *args, const uint32_t *tied, Arena *tmp)
{
    Rounding *round = NEW_ARRAY(tmp, Rounding, fn->body->results.n);
    for (size_t k = 0; k < fn->results.n && m->train.sums; k++) {
        const Tensor *t = &m->tensors.data[fn->results.data[k].tensor];
        if (fn->results.data[k].role != RES_grad ||
            !t->external_rank) /* numbers stay as they are */
            continue;
        round[k] = m->train.sums_nearest
                       ? (Rounding){.tensor = t, .nearest = true, .sent = is_sent(m, t)}
                       : at_random(m, fn, args, t);
        if (tied && tied[k]) {
            round[tied[k] - 1] = round[k];
            round[tied[k] - 1].word = 1;
        }
    }
    return round;
}

/* State that all loops of the nest share, and the innermost body. */
typedef struct Nest {
    const Microbatches *r;
    Region *leaf;
    Given given;
    const Type *types; /* of what is added up */
    Rounding *round;   /* as add_up has it */
    size_t n;
    Name micro; /* the dim of inputs along which microbatches follow each other */
    bool backward;
    Arena *tmp;
} Nest;

/* Moves the instructions behind the first n of a region to its beginning. */
static void put_first(Region *r, size_t n, Arena *tmp)
{
    size_t more = r->ins.n - n;
    Ins **last = NEW_ARRAY(tmp, Ins *, more + 1);
    if (!more)
        return;
    memcpy(last, r->ins.data + n, more * sizeof *last);
    memmove(r->ins.data + more, r->ins.data, n * sizeof *last);
    memcpy(r->ins.data, last, more * sizeof *last);
}

/* The number of a microbatch: twice as many as `before` are before it, or none. */
static Value microbatch_number(Builder *b, Value before, Value index)
{
    return before ? build2(b, OP_add, build2(b, OP_mul, before, build_const(b, DT_i32, 2)), index)
                  : index;
}

/* Each microbatch rounds by bits of its own. */
static void number_roundings(const Nest *w, Region *body, Value index)
{
    Module *m = w->r->m;
    const size_t n = body->ins.n;
    Builder b = {.m = m, .region = body};
    Value count = 0;
    for (size_t k = 0; k < w->n; k++) {
        if (!w->round[k].tensor || w->round[k].nearest)
            continue;
        if (!count) {
            Value all = build_const(&b, DT_i64, (double)w->r->microbatches);
            count = build2(&b, OP_add, build2(&b, OP_mul, w->round[k].count, all),
                           build_cast(&b, index, DT_i64));
        }
        w->round[k].count = count;
    }
    put_first(body, n, w->tmp);
}

/* The innermost body is the program of one microbatch. */
static void make_leaf(const Nest *w, Region *above, Value before)
{
    Module *m = w->r->m;
    Region *body = w->leaf;
    Value *acc = NEW_ARRAY(w->tmp, Value, w->n + 1), microbatch = w->r->index, index = microbatch;
    body->args.n = 0;
    body->parent = above;
    for (size_t k = 0; k < w->n; k++)
        acc[k] = region_arg(m, body, w->types[k], 0);
    for (int k = 0; k < w->given.n; k++)
        vec_push(m->arena, &body->args, w->given.slice[k]);
    if (before)
        index = region_arg(m, body, (Type){.dtype = DT_i32}, m->values.data[microbatch].name);
    else
        vec_push(m->arena, &body->args, index);
    number_roundings(w, body, index);
    add_up(m, body, acc, w->round, w->backward, w->tmp);
    if (!before)
        return;
    size_t n = body->ins.n;
    Builder b = {.m = m, .region = body};
    index = microbatch_number(&b, before, index);
    put_first(body, n, w->tmp);
    Value *map = NEW_ARRAY(w->tmp, Value, m->values.n);
    map[microbatch] = index;
    ir_replace(body, map);
}

static Ins *loops(const Nest *w, Region *r, const Value *inputs, int64_t microbatches,
                  Value before);

/* The body of a loop of two iterations, each of which is `half` iterations of the innermost
 * loop. */
static Region *two_halves(const Nest *w, Region *above, const Value *inputs, int64_t half, Name dim,
                          Value before)
{
    Module *m = w->r->m;
    Region *body = region_new(m, above);
    Builder b = {.m = m, .region = body}, sums = {.m = m, .region = body, .backward = true};
    Value slice[MAX_INPUTS], *acc = NEW_ARRAY(w->tmp, Value, w->n + 1);
    for (size_t k = 0; k < w->n; k++)
        acc[k] = region_arg(m, body, w->types[k], 0);
    for (int k = 0; k < w->given.n; k++)
        slice[k] = region_arg(m, body, type_without(type_of(m, inputs[k]), dim),
                              m->values.data[inputs[k]].name);
    Value index = region_arg(m, body, (Type){.dtype = DT_i32}, name_intern(m->names, "microbatch"));
    const Ins *loop = loops(w, body, slice, half, microbatch_number(&b, before, index));
    for (size_t k = 0; k < w->n; k++)
        vec_push(m->arena, &body->results, tree_add(&sums, acc[k], loop->out[k]));
    return body;
}

/* Appends to r the loop, or loops in each other, of so many microbatches over `inputs`. */
static Ins *loops(const Nest *w, Region *r, const Value *inputs, int64_t microbatches, Value before)
{
    Module *m = w->r->m;
    Builder b = {.m = m, .region = r, .backward = true};
    bool innermost = !m->train.tree || microbatches == 2;
    Dim dim = {.name = w->micro, .size = innermost ? microbatches : 2};
    if (!innermost)
        dim.name =
            microbatch_name(m, arena_printf(m->arena, "micro_%lld", (long long)(microbatches / 2)));
    Value *in = NEW_ARRAY(w->tmp, Value, w->n + MAX_INPUTS);
    Attrs halves = {.dim = {.name = w->micro, .size = microbatches / 2}, .to = dim};
    for (size_t k = 0; k < w->n; k++)
        in[k] = build_filled(&b, w->types[k], 0);
    for (int k = 0; k < w->given.n; k++)
        in[w->n + (size_t)k] = innermost ? inputs[k] : build(&b, OP_split, &halves, 1, &inputs[k]);
    Region *body = w->leaf;
    if (innermost)
        make_leaf(w, r, before);
    else
        body = two_halves(w, r, in + w->n, microbatches / 2, dim.name, before);
    Attrs a = {.dim = dim, .carried = (int64_t)w->n};
    Ins *loop =
        build_typed(&b, OP_repeat, &a, (int)w->n + w->given.n, in, (int)w->n, w->types, body);
    loop->backward = false; /* the whole of the step: forward and backward */
    loop->exact = m->train.tree;
    return loop;
}

/* A sum as what reads it computes with it. */
static Value widened(Builder *b, Value sum, const Rounding *r)
{
    Builder backward = *b;
    backward.backward = true;
    return r->tensor ? build_cast(&backward, sum, b->m->train.compute) : sum;
}

/* One microbatch alone: what is kept of its gradients. */
static void round_alone(Module *m, Fn *fn, Arena *tmp)
{
    const Rounding *round = roundings(m, fn, fn->body, NULL, tmp);
    Builder b = {.m = m, .region = fn->body};
    add_up(m, fn->body, NULL, round, true, tmp);
    for (size_t k = 0; k < fn->results.n; k++)
        fn->body->results.data[k] = widened(&b, fn->body->results.data[k], &round[k]);
}

/* tied: as tied_split has it. */
static void wrap(const Microbatches *r, Fn *fn, Dim micro, const uint32_t *tied, Arena *tmp)
{
    Module *m = r->m;
    Region *body = fn->body, *top = region_new(m, NULL);
    Nest w = {.r = r,
              .leaf = body,
              .n = body->results.n,
              .micro = micro.name,
              .backward = fn == module_fn(m, "train"),
              .tmp = tmp};
    w.given = move_args(m, fn, top, body, micro);
    move_copies(m, top, body);
    Type *types = NEW_ARRAY(tmp, Type, w.n + 1);
    for (size_t k = 0; k < w.n; k++)
        types[k] = *type_of(m, body->results.data[k]);
    w.types = types;
    w.round = roundings(m, fn, top, tied, tmp);
    for (size_t k = 0; k < w.n; k++)
        types[k].dtype = w.round[k].tensor ? m->train.sums : types[k].dtype;
    ValueMap inputs = {0};
    for (int k = 0; k < w.given.n; k++)
        map_set(m, &inputs, w.given.slice[k], w.given.whole[k]);
    Builder before = {.m = m, .region = top};
    parts_whole(r, &before, body, &inputs, micro, tmp);
    const Ins *loop = loops(&w, top, w.given.whole, micro.size, 0);
    Value *sums = NEW_ARRAY(tmp, Value, w.n + 1);
    for (size_t k = 0; k < w.n; k++)
        sums[k] = widened(&before, loop->out[k], &w.round[k]);
    for (size_t k = 0; k < fn->results.n; k++)
        vec_push(m->arena, &top->results, tied_sum(&before, sums, tied, k));
    fn->body = top;
}

/* A pipeline is run by microbatches, be there one alone: those of a step, and what is evaluated and
 * sampled. Its loops are relays. */
static void mark_relays(void *ctx, Ins *i)
{
    i->attrs.relay = ir_is_staged(ctx, i) && i->attrs.carried > 0;
}

static void wrap_as_one(Module *m, Fn *fn, Name name, Arena *tmp)
{
    Dim micro = {.name = name, .size = 1};
    stacks_by_iterations(m, fn->body, false, tmp);
    Microbatches r = {.m = m, .batch = m->batch.name, .microbatches = 1, .pieces = 1};
    r.index = value_new(m, fn->body, (Type){.dtype = DT_i32}, name_intern(m->names, "microbatch"));
    wrap(&r, fn, micro, NULL, tmp);
}

/* ---- what has no place in a tree --------------------------------------------------------------
 */

static bool draws(const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k]->op == OP_random ||
            (r->ins.data[k]->body && draws(r->ins.data[k]->body)))
            return true;
    return false;
}

static bool refuse(const Module *m, Span at, const char *what)
{
    diag_error(m->diag, at, 524, "reduce = tree: %s", what);
    propose_no_tree(m->diag, &m->train);
    return false;
}

/* Before the parts are adjusted. */
static bool has_a_tree(const Microbatches *r, const Fn *fn)
{
    const Module *m = r->m;
    for (size_t v = 1; v < r->classified; v++)
        if (r->whole[v])
            return refuse(m, m->values.data[v].def->span,
                          "what is summed of the whole batch before its microbatches has no order");
    for (size_t i = 0; i < fn->args.n; i++)
        if (by_batch(fn->args.data[i].role) &&
            type_of(m, fn->body->args.data[i])->rank + 2 > MAX_RANK)
            return refuse(m, (Span){0}, "an input has at most 6 dims");
    if (r->pieces > RULE_OPERANDS && draws(fn->body))
        return refuse(m, (Span){0}, "numbers are drawn for at most 24 ranks");
    return true;
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
        propose_microbatch(m->diag, &m->layout, m->batch.size / mesh_batch_ranks(m));
        return PASS_error;
    }
    return PASS_ok;
}

/* Has each rank the sequences of its microbatches one after another? In how many pieces is a
 * microbatch then?
 */
static int64_t pieces(const Module *m, int64_t microbatches)
{
    bool each = mesh_tree_each_microbatch(m) || microbatches == 1;
    return each ? 1 : mesh_size(m, mesh_tree_axes(m));
}

/* The program of a whole batch becomes a loop over its microbatches. */
static PassStatus cut(Job *j, Fn *fn, Name micro, int64_t microbatches)
{
    Module *m = j->m;
    bool tree = m->train.tree, staged = m->layout.pipeline.axis != 0;
    PassStatus status = check_args(j, fn);
    if (status != PASS_ok)
        return status;
    if (microbatches > 1 || staged || m->train.sums)
        stacks_by_iterations(m, fn->body, m->train.sums != 0, j->tmp);
    Microbatches r = {.m = m,
                      .batch = m->batch.name,
                      .size = m->batch.size / microbatches,
                      .microbatches = microbatches,
                      .pieces = pieces(m, microbatches)};
    microbatches_resize(&r, fn->body);
    if (!parts_find(&r, fn, j->tmp) || (tree && !has_a_tree(&r, fn)))
        return PASS_error;
    if (microbatches > 1 || staged) {
        r.index =
            value_new(m, fn->body, (Type){.dtype = DT_i32}, name_intern(m->names, "microbatch"));
    } else { /* of which nothing changes: it is looked at alone */
        Builder b = {.m = m, .region = fn->body};
        size_t n = fn->body->ins.n;
        r.index = build_const(&b, DT_i32, 0);
        put_first(fn->body, n, j->tmp);
    }
    parts_adjust(&r, fn->body);
    const Ins *shared = m->values.data[r.shared].def;
    if (tree && r.shared &&
        !refuse(m, shared ? shared->span : (Span){0},
                "what does not depend on the batch is added to what does"))
        return PASS_error;
    bool train = fn == module_fn(m, "train");
    if (microbatches > 1 || staged)
        wrap(&r, fn, (Dim){.name = micro, .size = microbatches},
             staged && train ? tied_split(m, fn, j->tmp) : NULL, j->tmp);
    else if (train && m->train.sums)
        round_alone(m, fn, j->tmp);
    return PASS_ok;
}

/* @train, and @eval where it was given the whole batch of a step (evaluate.c). Texts that are
 * generated may be as many, and are no batch. */
static bool is_cut(const Module *m, const Fn *fn, int64_t size)
{
    bool train = fn == module_fn(m, "train");
    return train ? size < m->batch.size || m->train.tree || m->train.sums || m->layout.pipeline.axis
                 : fn == module_fn(m, "eval") && size < m->batch.size &&
                       fn_rows(m, fn) == m->batch.size;
}

PassStatus pass_microbatch(Job *j)
{
    Module *m = j->m;
    for (size_t t = 0; m->train.sums && !m->train.sums_nearest && t < m->tensors.n; t++)
        if (m->tensors.data[t].external_rank && !rounding_fits(m, &m->tensors.data[t]))
            return PASS_error;
    int64_t size = m->layout.microbatch * mesh_batch_ranks(m); /* of all ranks together */
    int64_t microbatches = size < 1 ? 0 : m->batch.size / size;
    bool whole = size >= 1 && m->batch.size % size == 0;
    Name micro = microbatch_name(m, "micro");
    for (size_t f = 0; f < m->fns.n; f++) {
        Fn *fn = m->fns.data[f];
        PassStatus status = PASS_ok;
        if (m->layout.pipeline.axis)
            each_ins(fn->body, mark_relays, m);
        if (is_cut(m, fn, size)) {
            if (!whole || (m->train.tree && (microbatches & (microbatches - 1))))
                return pass_bug(j, NULL, "microbatch %lld does not divide the batch of %lld",
                                (long long)size, (long long)m->batch.size);
            status = cut(j, fn, micro, microbatches);
        } else if (m->layout.pipeline.axis) {
            wrap_as_one(m, fn, micro, j->tmp);
        }
        if (status != PASS_ok)
            return status;
    }
    return PASS_ok;
}
