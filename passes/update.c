/* update.c - what happens to the gradients: norm, guard, clipping, the optimizer.
 *
 *   before:  @train(params, tokens) -> loss, gradients
 *   after:   @train(params, tokens, [step,] lr, states) -> loss, norm, new params, new states
 *
 * The formulas are PyTorch's (torch.optim.AdamW, torch.optim.SGD, clip_grad_norm_); what is one
 * number for all parameters (bias corrections, rates) is computed in f64 and rounded once. Every
 * gradient is an f64 partial of the norm, added in the order of the model. */
#include "passes/passes.h"
#include "passes/walk.h"

#include <math.h>

static const double CLIP_EPS = 1e-6; /* as clip_grad_norm_ */

typedef struct Update {
    Module *m;
    Fn *fn;
    Builder b;
    Value norm, clip; /* clip: f64 factor on gradients, 0 if there is none */
    Value lr, step;
    Value rate, root2; /* adamw: lr / (1 - beta1^t), sqrt(1 - beta2^t), f64 */
} Update;

static Value number(Update *u, double x)
{
    return build_const(&u->b, DT_f64, x);
}

static Value op1(Update *u, Op op, Value x)
{
    return build1(&u->b, op, x);
}

static Value op2(Update *u, Op op, Value x, Value y)
{
    return build2(&u->b, op, x, y);
}

/* x times an f64 number, rounded to x's dtype first. */
static Value scaled(Update *u, Value x, Value by)
{
    return op2(u, OP_mul, x, build_cast(&u->b, by, type_of(u->m, x)->dtype));
}

static Value scaled_by(Update *u, Value x, double by)
{
    return op2(u, OP_mul, x, build_const(&u->b, type_of(u->m, x)->dtype, by));
}

/* The argument of a role, added if there is none yet. */
static Value argument(Update *u, ArgRole role, DType t, const char *name)
{
    for (size_t i = 0; i < u->fn->args.n; i++)
        if (u->fn->args.data[i].role == role)
            return u->fn->body->args.data[i];
    vec_push(u->m->arena, &u->fn->args, (FnArg){.role = role});
    return region_arg(u->m, u->fn->body, (Type){.dtype = t}, name_intern(u->m->names, name));
}

static Value parameter(const Update *u, uint32_t tensor)
{
    for (size_t i = 0; i < u->fn->args.n; i++)
        if (u->fn->args.data[i].role == ARG_param && u->fn->args.data[i].tensor == tensor)
            return u->fn->body->args.data[i];
    return 0;
}

/* A slot of optimizer state for a parameter: a tensor and the argument that brings it. */
static Value state(Update *u, uint32_t of, const char *slot, uint32_t *tensor)
{
    Module *m = u->m;
    Tensor t = m->tensors.data[of];
    const char *name = arena_printf(m->arena, "%s.%s", slot, name_str(m->names, t.name));
    t.name = name_intern(m->names, name);
    t.slot = name_intern(m->names, slot);
    t.init = INIT_const;
    t.a = t.b = 0;
    t.parameter = of;
    *tensor = (uint32_t)m->tensors.n;
    vec_push(m->arena, &m->tensors, t);
    vec_push(m->arena, &u->fn->args, (FnArg){ARG_state, *tensor});
    return region_arg(m, u->fn->body, t.type, t.name);
}

static void result(Update *u, ResultRole role, uint32_t tensor, Value v)
{
    vec_push(u->m->arena, &u->fn->results, (FnResult){role, tensor});
    vec_push(u->m->arena, &u->fn->body->results, v);
}

/* New values of parameters and states, in memory's type. */
static void new_value(Update *u, uint32_t tensor, Value v)
{
    result(u, RES_update, tensor, build_as(&u->b, v, u->m->tensors.data[tensor].type));
}

static void mark_tensor(Update *u, uint32_t tensor)
{
    const Tensor *t = &u->m->tensors.data[tensor];
    u->b.span = t->span;
    u->b.path = t->name;
}

/* ---- norm and clipping ----------------------------------------------------------------------- */

static Value sum_of_squares(Update *u, Value g)
{
    Value x = build_cast(&u->b, g, DT_f64);
    DimList all = {0};
    const Type *t = type_of(u->m, x);
    for (; all.n < t->rank; all.n++)
        all.dim[all.n] = t->dims[all.n];
    return build_sum(&u->b, op2(u, OP_mul, x, x), &all);
}

static void build_norm(Update *u, const Value *grad, const uint32_t *tensor, size_t n)
{
    Value total = 0;
    for (size_t i = 0; i < n; i++) {
        mark_tensor(u, tensor[i]);
        Value part = sum_of_squares(u, grad[i]);
        total = total ? op2(u, OP_add, total, part) : part;
    }
    u->b.span = (Span){0};
    u->b.path = 0;
    u->norm = op1(u, OP_sqrt, total ? total : number(u, 0));
    if (u->m->train.clip > 0) {
        Value over = op2(u, OP_add, u->norm, number(u, CLIP_EPS));
        Value ratio = op2(u, OP_div, number(u, u->m->train.clip), over);
        u->clip = op2(u, OP_min, ratio, number(u, 1));
    }
}

/* ---- the optimizers -------------------------------------------------------------------------- */

/* base^t in f64 */
static Value power(Update *u, double base, Value t)
{
    return op1(u, OP_exp, op2(u, OP_mul, t, number(u, log(base))));
}

/* 1 - base^t; a base of 0 has no logarithm */
static Value correction(Update *u, double base, Value t)
{
    return base > 0 ? op2(u, OP_sub, number(u, 1), power(u, base, t)) : number(u, 1);
}

static void prepare_adamw(Update *u)
{
    const Train *tr = &u->m->train;
    u->step = argument(u, ARG_step, DT_i64, "step");
    Value t = op2(u, OP_add, build_cast(&u->b, u->step, DT_f64), number(u, 1));
    u->rate = op2(u, OP_div, u->lr, correction(u, tr->beta1, t));
    u->root2 = op1(u, OP_sqrt, correction(u, tr->beta2, t));
}

static bool decays(const Update *u, uint32_t tensor)
{
    return u->m->train.decay != 0 &&
           u->m->tensors.data[tensor].external_rank >= u->m->train.decay_rank;
}

/* beta * old + (1 - beta) * x */
static Value average(Update *u, double beta, Value old, Value x)
{
    return op2(u, OP_add, scaled_by(u, old, beta), scaled_by(u, x, 1 - beta));
}

static void adamw(Update *u, uint32_t tensor, Value p, Value g)
{
    const Train *tr = &u->m->train;
    uint32_t mi, vi;
    Value m = average(u, tr->beta1, state(u, tensor, "exp_avg", &mi), g);
    Value v = average(u, tr->beta2, state(u, tensor, "exp_avg_sq", &vi), op2(u, OP_mul, g, g));
    if (decays(u, tensor)) {
        Value loss = op2(u, OP_mul, u->lr, number(u, tr->decay));
        p = scaled(u, p, op2(u, OP_sub, number(u, 1), loss));
    }
    DType dt = type_of(u->m, p)->dtype;
    Value root = op2(u, OP_div, op1(u, OP_sqrt, v), build_cast(&u->b, u->root2, dt));
    Value size = op2(u, OP_add, root, build_const(&u->b, dt, tr->eps));
    Value move = scaled(u, op2(u, OP_div, m, size), u->rate);
    new_value(u, tensor, op2(u, OP_sub, p, move));
    new_value(u, mi, m);
    new_value(u, vi, v);
}

static void sgd(Update *u, uint32_t tensor, Value p, Value g)
{
    const Train *tr = &u->m->train;
    uint32_t bi = 0;
    if (decays(u, tensor))
        g = op2(u, OP_add, g, scaled_by(u, p, tr->decay));
    if (tr->momentum != 0) {
        Value old = state(u, tensor, "momentum", &bi);
        g = op2(u, OP_add, scaled_by(u, old, tr->momentum), g);
    }
    new_value(u, tensor, op2(u, OP_sub, p, scaled(u, g, u->lr)));
    if (bi)
        new_value(u, bi, g);
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* Takes the gradients off the function's results; only the loss stays. */
static size_t take_gradients(Update *u, Value *grad, uint32_t *tensor)
{
    size_t n = 0, kept = 0;
    Region *body = u->fn->body;
    for (size_t i = 0; i < u->fn->results.n; i++) {
        FnResult r = u->fn->results.data[i];
        if (r.role == RES_grad) {
            grad[n] = body->results.data[i];
            tensor[n++] = r.tensor;
        } else {
            body->results.data[kept] = body->results.data[i];
            u->fn->results.data[kept++] = r;
        }
    }
    body->results.n = u->fn->results.n = kept;
    return n;
}

PassStatus pass_update(Job *j)
{
    Module *m = j->m;
    Update u = {.m = m, .fn = module_fn(m, "train")};
    if (!u.fn)
        return PASS_ok;
    u.b = (Builder){.m = m, .region = u.fn->body, .block = name_intern(m->names, "optimizer")};
    Value *grad = NEW_ARRAY(j->tmp, Value, u.fn->results.n);
    uint32_t *tensor = NEW_ARRAY(j->tmp, uint32_t, u.fn->results.n);
    size_t n = take_gradients(&u, grad, tensor);
    if (u.fn->results.n != 1)
        return pass_bug(j, NULL, "@train is to have the loss and the gradients as results");
    build_norm(&u, grad, tensor, n);
    result(&u, RES_norm, 0, u.norm);
    Value watched[] = {u.fn->body->results.data[0], u.norm};
    build_ins(&u.b, OP_guard, NULL, 2, watched);
    u.lr = argument(&u, ARG_lr, DT_f64, "lr");
    if (m->train.optimizer == OPT_adamw)
        prepare_adamw(&u);
    for (size_t i = 0; i < n; i++) {
        mark_tensor(&u, tensor[i]);
        Value p = parameter(&u, tensor[i]);
        Value g = u.clip ? scaled(&u, grad[i], u.clip) : grad[i];
        if (m->train.optimizer == OPT_adamw)
            adamw(&u, tensor[i], p, g);
        else
            sgd(&u, tensor[i], p, g);
    }
    return PASS_ok;
}
