/* noise.c - what is drawn anew in each step: dropout and numbers between 0 and 1; and which step it
 * is.
 *
 * All is drawn from Philox, by (seed, key, step, element), so no number depends on what is computed
 * at once, where, or how often. The key is the path of the call. Elements of a training step are
 * counted in the whole batch, once more for each iteration of the loops around the call.
 *
 * An evaluation draws as well (dropout does not). Its numbers are those of a row of the evaluation
 * set, the same in each evaluation: pass evaluate counts elements from the first row of the set. In
 * the place of the step is -1 - i there, in iteration i of the loops around, since the number of
 * rows is not known when compiling. Steps of training are never below 0. */
#include "grammar/builtin.h"

#include <string.h>

static const Val poison = {.kind = VAL_POISON};

/* The batch first, wherever the value has it: numbers are then drawn one sequence after the other,
 * so that those of a microbatch are some that follow each other. */
static Type batch_first(const Module *m, Type t)
{
    int at = type_find(&t, m->batch.name);
    if (at <= 0)
        return t;
    Dim batch = t.dims[at];
    memmove(&t.dims[1], &t.dims[0], (size_t)at * sizeof(Dim));
    t.dims[0] = batch;
    return t;
}

static Value scalar_arg(Elab *e, Value *known, ArgRole role, const char *name)
{
    if (!*known)
        *known = fn_arg(e, role, 0, (Type){.dtype = DT_i64}, name);
    return *known;
}

/* Numbers in [0, 1) with the dims of t, the batch first. */
static Value draw(Elab *e, const char *name, Type t)
{
    const bool train = e->mode == MODE_TRAIN;
    Value in[3] = {0, train ? scalar_arg(e, &e->step, ARG_step, "step") : 0, 0};
    in[0] = scalar_arg(e, &e->seed, ARG_seed, "seed");
    const Value loop = loop_index(e);
    if (train) {
        in[2] = loop;
    } else {
        Value at = build2(&e->b, OP_sub, build_const(&e->b, DT_i32, -1), loop);
        in[1] = e->loop ? build_cast(&e->b, at, DT_i64) : build_const(&e->b, DT_i64, -1);
        in[2] = build_const(&e->b, DT_i32, 0);
    }
    Attrs attrs = {.key = unique_path(e, path_join(e, e->frame->path, name))};
    Type drawn = batch_first(e->module, t);
    return build_typed(&e->b, OP_random, &attrs, 3, in, 1, &drawn, NULL)->out[0];
}

/* Elements are kept with probability 1 - p and scaled by 1 / (1 - p). */
Val drop_elements(Elab *e, Span at, Value x, double p, const char *name)
{
    Type t = *type_of(e->module, x);
    DimList all = {.n = t.rank};
    memcpy(all.dim, t.dims, sizeof t.dims);
    if (!check_padding(e, at, &all)) /* elements are counted with the padding */
        return poison;
    Value random = draw(e, name, t);
    Value keep = build2(&e->b, OP_ge, random, build_const(&e->b, t.dtype, p));
    Value scaled = build2(&e->b, OP_mul, x, build_const(&e->b, t.dtype, 1 / (1 - p)));
    Value zero = build_const(&e->b, t.dtype, 0);
    return tensor_val(
        build_as(&e->b, build(&e->b, OP_select, NULL, 3, (Value[]){keep, scaled, zero}), t));
}

Val builtin_dropout(Elab *e, const Call *c)
{
    Value x;
    double p;
    if (!c->option) {
        fail(e, c->node->at, 243, "'dropout' needs `p = ...`");
        return poison;
    }
    if (!tensor_arg(e, c->arg[0], c, &x) || !real_of(e, c->option->a, &p))
        return poison;
    if (!(p >= 0 && p < 1)) {
        fail(e, c->option->a->span, 253,
             "p = %g; the share that is dropped is at least 0 and below 1", p);
        return poison;
    }
    if (p == 0 || e->mode != MODE_TRAIN)
        return tensor_val(x);
    if (!dtype_is_float(type_of(e->module, x)->dtype))
        return fail(e, c->arg[0]->span, 211, "dropout of indices or conditions");
    return drop_elements(e, c->node->at, x, p, "dropout");
}

static bool in_model(Elab *e, const Call *c)
{
    if (e->constant)
        fail(e, c->node->at, 223, "'%s' is a tensor; a number is wanted here",
             text(e, c->node->name));
    return !e->constant;
}

/* A number in [0, 1) for each index of the dims. */
Val builtin_uniform(Elab *e, const Call *c)
{
    Type t = {.dtype = e->compute}, dims = {.rank = c->over.n};
    memcpy(dims.dims, c->over.dim, sizeof dims.dims);
    if (!in_model(e, c) || !check_padding(e, c->node->at, &c->over) ||
        !join_dims(e, c->node->at, &t, &dims))
        return poison;
    return tensor_val(build_as(&e->b, draw(e, "uniform", t), t));
}

/* How many steps there were before this one. */
Val builtin_step(Elab *e, const Call *c)
{
    if (!in_model(e, c))
        return poison;
    return tensor_val(build_cast(&e->b, scalar_arg(e, &e->step, ARG_step, "step"), e->compute));
}
