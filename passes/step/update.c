/* update.c - what happens to the gradients: norm, guard, clipping, the optimizer.
 *
 *   before:  @train(params, tokens) -> loss, gradients
 *   after:   @train(params, tokens, [step,] lr, states) -> loss, norm, new params, new states
 *
 * Each goal has a loss, a norm, a clipping and a rate of its own (ir.h: Goal). The guard ends a
 * step whose loss or norm is not finite before anything is updated: of several goals it looks at
 * the sum of the losses, and at the norm of all gradients. With `update as_ready` it looks at the
 * loss alone, so that updates need not wait for the gradients of others (guard.c); elements that
 * would not be finite then stay what they were.
 *
 * If the loss was scaled, norm and gradients are divided by the scale. optimizers.c asks
 * for the rules. Clipping is PyTorch's clip_grad_norm_. Every gradient is an f64 partial of the
 * norm, added in the order of the model. follow.c adds what follows parameters. */
#include "passes/step/tree.h"
#include "passes/step/update.h"
#include "passes/walk.h"

#include <float.h>
#include <string.h>

static const double CLIP_EPS = 1e-6; /* as clip_grad_norm_ */

static Value up_number(Update *u, double x)
{
    return build_const(&u->b, DT_f64, x);
}

static Value up1(Update *u, Op op, Value x)
{
    return build1(&u->b, op, x);
}

static Value up2(Update *u, Op op, Value x, Value y)
{
    return build2(&u->b, op, x, y);
}

Value up_clipped(Update *u, Value g)
{
    if (!u->clip)
        return g;
    return up2(u, OP_mul, g, build_cast(&u->b, u->clip, type_of(u->m, g)->dtype));
}

/* The argument of a role (and goal), added if there is none yet. */
static Value argument(Update *u, FnArg a, DType t, const char *name)
{
    for (size_t i = 0; i < u->fn->args.n; i++)
        if (u->fn->args.data[i].role == a.role && u->fn->args.data[i].tensor == a.tensor)
            return u->fn->body->args.data[i];
    vec_push(u->m->arena, &u->fn->args, a);
    return region_arg(u->m, u->fn->body, (Type){.dtype = t}, name_intern(u->m->names, name));
}

Value up_old_value(Update *u, uint32_t tensor)
{
    const Tensor *t = &u->m->tensors.data[tensor];
    for (size_t i = 0; i < u->fn->args.n; i++)
        if (u->fn->args.data[i].role <= ARG_state && u->fn->args.data[i].tensor == tensor)
            return u->fn->body->args.data[i];
    vec_push(u->m->arena, &u->fn->args, ((FnArg){t->slot ? ARG_state : ARG_param, tensor}));
    return region_arg(u->m, u->fn->body, t->type, t->name);
}

static bool lacking(const DimList *lacks, Name dim)
{
    return lacks && dims_have(lacks, dim);
}

/* The state of a part without the dim along which it is one (means of the columns of rows that are
 * parts): row number k of a matrix, where k parts of the whole are before it. */
static void as_row(const Module *m, Tensor *t)
{
    const int64_t at = t->part_at;
    memmove(t->merge + 1, t->merge, (size_t)t->external_rank++);
    t->merge[0] = 0;
    t->part_dim = 0;
    t->part_at = t->part_of = 0;
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Tensor *other = &m->tensors.data[i];
        bool part = other->external == t->external && !other->slot;
        t->part_of += part;
        t->part_at += part && other->part_at < at;
    }
}

/* Without the dims of `lacks`; in the external form, groups that lose all their dims go. */
static Tensor shaped(const Module *m, const Tensor *p, const DimList *lacks)
{
    Tensor t = *p;
    int place[MAX_RANK], from = 0;
    bool lost = false;
    t.type.rank = t.external_rank = 0;
    for (int i = 0; i < p->type.rank; i++) {
        place[i] = t.type.rank;
        if (lacking(lacks, p->type.dims[i].name))
            continue;
        t.valid[t.type.rank] = p->valid[i];
        t.type.dims[t.type.rank++] = p->type.dims[i];
    }
    int n = 0;
    for (int i = 0; i < p->external_rank; i++) {
        int kept = 0;
        for (int k = 0; k < p->merge[i]; k++) {
            int stored = p->order[from++];
            if (lacking(lacks, p->type.dims[stored].name))
                continue;
            t.order[n++] = (uint8_t)place[stored];
            kept++;
        }
        if (kept)
            t.merge[t.external_rank++] = (uint8_t)kept;
        else if (p->part_of && i < p->part_dim)
            t.part_dim--;
        else if (p->part_of && i == p->part_dim)
            lost = true;
    }
    if (lost)
        as_row(m, &t);
    return t;
}

Value up_state(Update *u, uint32_t of, const StateInfo *s, const DimList *lacks, uint32_t *tensor)
{
    Module *m = u->m;
    Tensor t = shaped(m, &m->tensors.data[of], lacks);
    const char *name = arena_printf(m->arena, "%s.%s", s->slot, name_str(m->names, t.name));
    t.name = name_intern(m->names, name);
    t.slot = name_intern(m->names, s->slot);
    t.init = INIT_const;
    t.formula = 0;
    t.a = s->first;
    t.b = 0;
    t.parameter = of;
    *tensor = (uint32_t)m->tensors.n;
    vec_push(m->arena, &m->tensors, t);
    vec_push(m->arena, &u->fn->args, (FnArg){ARG_state, *tensor});
    return region_arg(m, u->fn->body, t.type, t.name);
}

Value up_time(Update *u)
{
    if (!u->step)
        u->step = argument(u, (FnArg){.role = ARG_step}, DT_i64, "step");
    if (!u->time)
        u->time = up2(u, OP_add, build_cast(&u->b, u->step, DT_f64), up_number(u, 1));
    return u->time;
}

static void result(Update *u, ResultRole role, uint32_t tensor, Value v)
{
    vec_push(u->m->arena, &u->fn->results, (FnResult){role, tensor});
    vec_push(u->m->arena, &u->fn->body->results, v);
}

/* The largest number of a type. */
static double largest(DType t)
{
    return t == DT_f64 ? DBL_MAX : FLT_MAX;
}

/* The new value if v is finite, else the old one. */
static Value if_finite(Update *u, Value v, Value old)
{
    DType t = type_of(u->m, v)->dtype;
    Value max = build_const(&u->b, t, largest(t));
    Value choice[] = {up2(u, OP_le, up1(u, OP_abs, v), max), v, old};
    return build(&u->b, OP_select, NULL, 3, choice);
}

Value up_finite(Update *u, Value v, Value old)
{
    return u->m->train.as_ready ? if_finite(u, v, old) : v;
}

void up_give(Update *u, uint32_t tensor, Value v)
{
    if (tensor < u->parameters)
        u->now[tensor] = v;
    result(u, RES_update, tensor, v);
}

/* In memory's type. */
void up_new_value(Update *u, uint32_t tensor, Value v)
{
    if (u->m->train.as_ready)
        v = if_finite(u, v, up_old_value(u, tensor));
    up_give(u, tensor, build_as(&u->b, v, u->m->tensors.data[tensor].type));
}

void up_mark(Update *u, uint32_t tensor)
{
    const Tensor *t = &u->m->tensors.data[tensor];
    u->b.span = t->span;
    u->b.path = t->name;
}

/* ---- norm and clipping ----------------------------------------------------------------------- */

/* The first dim inside of the layers that no rule for dims splits: along it classes of tensors are,
 * where it divides. -1: there is none. */
static int first_free(const Update *u, uint32_t tensor, int layers)
{
    const Type *t = &u->m->tensors.data[tensor].type;
    bool fixed[MAX_RANK] = {false};
    Axes axes[MAX_RANK];
    mesh_walk(u->m, t->dims, t->rank, fixed, axes);
    for (int i = u->m->tensors.data[tensor].stacked; i < t->rank; i++)
        if (!axes[i])
            return i;
    return layers < t->rank ? layers : -1;
}

static Value sum_whole(Update *u, Value x, const DimList *over, bool exact)
{
    Attrs a = {.over = *over, .whole = true};
    if (!over->n)
        return x;
    Ins *i = build_ins(&u->b, OP_sum, &a, 1, &x);
    i->exact = exact;
    return i->out[0];
}

/* The sums inside of one dim, on the ranks that have it; then along that dim, of which all have
 * all; and those of layers from the first to the last. So it depends neither on how classes of
 * tensors are split nor on which layers a rank has. */
static Value sum_by_parts(Update *u, Value x, uint32_t tensor)
{
    const Tensor *p = &u->m->tensors.data[tensor];
    const Type *t = type_of(u->m, x);
    const int layers = p->stacked - p->numbered, at = first_free(u, tensor, layers);
    DimList inside = {0}, along = {0}, stacked = {0};
    for (int i = 0; i < t->rank; i++) {
        DimList *l = i < layers ? &stacked : i == at ? &along : &inside;
        l->dim[l->n++] = t->dims[i];
    }
    x = sum_whole(u, build_sum(&u->b, x, &inside), &along, false);
    return sum_whole(u, x, &stacked, true);
}

static Value sum_of_squares(Update *u, Value g, uint32_t tensor)
{
    Value x = build_cast(&u->b, g, DT_f64);
    x = up2(u, OP_mul, x, x);
    return u->m->train.tree ? tree_sum(&u->b, x, tensor) : sum_by_parts(u, x, tensor);
}

/* The gradients of the whole step, and what comes of them. */
typedef struct Gradients {
    size_t n;
    Value *grad; /* parallel */
    uint32_t *tensor;
    Value norm[MAX_GOALS], clip[MAX_GOALS]; /* clip: f64 factor on gradients, 0 if there is none */
} Gradients;

/* The norm of the gradients of goal number k, and the factor on them. */
static void build_norm(Update *u, Gradients *g, int k)
{
    Value total = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (u->m->tensors.data[g->tensor[i]].goal != k)
            continue;
        up_mark(u, g->tensor[i]);
        Value part = sum_of_squares(u, g->grad[i], g->tensor[i]);
        total = total ? up2(u, OP_add, total, part) : part;
    }
    u->b.span = (Span){0};
    u->b.path = 0;
    Value norm = up1(u, OP_sqrt, total ? total : up_number(u, 0)), clip = 0;
    const FnArg scales = {.role = ARG_scale};
    Value scale = u->m->train.scale != 0 ? argument(u, scales, DT_f64, "scale") : 0;
    if (scale)
        norm = up2(u, OP_div, norm, scale);
    if (u->m->train.goal[k].clip > 0) {
        Value over = up2(u, OP_add, norm, up_number(u, CLIP_EPS));
        Value ratio = up2(u, OP_div, up_number(u, u->m->train.goal[k].clip), over);
        clip = up2(u, OP_min, ratio, up_number(u, 1));
    }
    if (scale) /* a power of two: the gradients are what they were without */
        clip = up2(u, OP_div, clip ? clip : up_number(u, 1), scale);
    g->norm[k] = norm;
    g->clip[k] = clip;
}

/* The guard looks at one loss and one norm. */
static void build_guard(Update *u, const Gradients *g)
{
    const Train *t = &u->m->train;
    Value watched[] = {u->fn->body->results.data[0], g->norm[0]};
    Value squares = t->goals > 1 ? up2(u, OP_mul, g->norm[0], g->norm[0]) : 0;
    for (int k = 1; k < t->goals; k++) {
        watched[0] = up2(u, OP_add, watched[0], u->fn->body->results.data[k]);
        squares = up2(u, OP_add, squares, up2(u, OP_mul, g->norm[k], g->norm[k]));
    }
    if (squares)
        watched[1] = up1(u, OP_sqrt, squares);
    build_ins(&u->b, OP_guard, NULL, t->as_ready ? 1 : 2, watched);
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
    Gradients g = {0};
    Value lr[MAX_GOALS];
    bool wrong = false; /* the rule of a file's optimizer */
    if (!u.fn)
        return PASS_ok;
    u.b = (Builder){.m = m, .region = u.fn->body, .block = name_intern(m->names, "optimizer")};
    g.grad = NEW_ARRAY(j->tmp, Value, u.fn->results.n);
    g.tensor = NEW_ARRAY(j->tmp, uint32_t, u.fn->results.n);
    u.parameters = m->tensors.n;
    u.now = NEW_ARRAY(j->tmp, Value, m->tensors.n + 1);
    g.n = take_gradients(&u, g.grad, g.tensor);
    size_t losses = 0;
    for (size_t i = 0; i < u.fn->results.n; i++)
        losses += u.fn->results.data[i].role == RES_loss;
    if (losses != (size_t)m->train.goals)
        return pass_bug(j, NULL, "@train is to have the losses and the gradients as results");
    for (size_t i = 0; i < g.n; i++)
        vec_push(m->arena, &u.fn->gradients, ((FnGradient){g.grad[i], g.tensor[i]}));
    for (int k = 0; k < m->train.goals; k++) {
        build_norm(&u, &g, k);
        result(&u, RES_norm, (uint32_t)k, g.norm[k]);
    }
    build_guard(&u, &g);
    for (int k = 0; k < m->train.goals; k++)
        lr[k] = argument(&u, (FnArg){ARG_lr, (uint32_t)k}, DT_f64, "lr");
    for (size_t i = 0; i < g.n; i++) {
        const int k = m->tensors.data[g.tensor[i]].goal;
        up_mark(&u, g.tensor[i]);
        u.goal = &m->train.goal[k];
        u.lr = lr[k];
        Value p = up_old_value(&u, g.tensor[i]);
        u.clip = g.clip[k];
        const int errors = diag_errors(m->diag);
        const bool made = optimizer_update(&u, g.tensor[i], p, g.grad[i]);
        wrong |= diag_errors(m->diag) > errors;
        if (!made && !wrong)
            return pass_bug(j, NULL, "no rule of '%s'", u.goal->optimizer->name);
    }
    follow_updates(&u);
    return wrong ? PASS_error : PASS_ok;
}
