/* differentiate.c - reverse mode on the IR: @train computes the loss, then every gradient.
 *
 *   before:  @train(params, tokens) -> loss
 *   after:   @train(params, tokens) -> loss, d loss / d parameter in the order of the parameters
 *
 * Of several losses (ir.h: Goal) each is differentiated by itself, for its own parameters: one
 * backward part behind the other, over one forward part.
 *
 * A Scope is one region and the region its derivative is written to: for the function both are its
 * body; for a `repeat` the second is the body of a loop that runs the other way:
 *
 *   forward   repeat d (carried c0, slices s)        -> c, stacked t   + stacked residuals
 *   backward  repeat d reverse (carried dc, acc;     slices residuals, s, dt)
 *                                                    -> dc0, acc, stacked ds
 *
 * acc are the cotangents of outer values that the body uses, added up over the iterations. What the
 * backward body asks for of the forward one is stacked by the forward loop if it is marked `keep`
 * (recompute.c), and else computed again from what is there. A loop in a loop that is not marked
 * runs again as a whole before it is differentiated, and that run stacks. */
#include "ir/vjp.h"
#include "passes/autodiff/gradient.h"
#include "passes/passes.h"
#include "passes/walk.h"

typedef struct Diff {
    Job *job;
    Module *m;
    Arena *tmp;
    const bool *varied, *leaf, *exact; /* per forward value */
    Value *ct; /* per forward value: its cotangent in the scope of its home, or 0 */
    bool failed;
} Diff;

typedef struct Captured {
    Value outer, ct;
} Captured;

typedef struct Scope {
    Diff *d;
    struct Scope *parent;
    Region *forward;
    size_t count; /* of its instructions; those behind are of backward parts */
    Ins *loop;    /* the forward loop; NULL: the function */
    Ins *again;   /* its copy that runs in the backward part and stacks instead of it, or NULL */
    ValueMap copies;
    Builder b;
    ValueMap here; /* forward values as they are in the backward region */
    VEC(Captured) captured;
    /* The backward loop's, as they come up. */
    VEC(Value) carried_in, carried_arg, slice_in, slice_arg;
    Value index;
} Scope;

static void mark_as(Builder *b, const Ins *i)
{
    b->span = i->span;
    b->path = i->path;
    b->block = i->block;
}

static Region *home_of(const Diff *d, Value v)
{
    return d->m->values.data[v].home;
}

/* ---- cotangents ---------------------------------------------------------------------------- */

static Value *cotangent_slot(Scope *s, Value v)
{
    if (home_of(s->d, v) == s->forward)
        return &s->d->ct[v];
    for (size_t i = 0; i < s->captured.n; i++)
        if (s->captured.data[i].outer == v)
            return &s->captured.data[i].ct;
    vec_push(s->d->tmp, &s->captured, (Captured){v, 0});
    return &s->captured.data[s->captured.n - 1].ct;
}

/* Cotangents of halves are added in f32. */
static Value widened(Scope *s, Value g)
{
    return build_cast(&s->b, g, dtype_wide(type_of(s->d->m, g)->dtype));
}

/* g as a tensor of type t. */
static Value expanded(Builder *b, Value g, Type t)
{
    return build_as(b, build_cast(b, g, t.dtype), t);
}

/* Adds a part to v's cotangent in this scope. */
static void add_cotangent(Scope *s, Value v, Value part)
{
    if (!part || !s->d->varied[v])
        return;
    Type t = *type_of(s->d->m, v);
    Type mine = type_within(&t, type_of(s->d->m, part));
    mine.dtype = type_of(s->d->m, part)->dtype;
    part = build_as(&s->b, part, mine);
    Value *slot = cotangent_slot(s, v);
    Value joined = *slot ? join_added(&s->b, *slot, part, s->d->tmp) : 0;
    if (joined) {
        part = joined;
    } else if (*slot) {
        Value in[] = {widened(s, *slot), widened(s, part)};
        part = build_like(&s->b, OP_add, 2, in, &t);
    }
    *slot = part;
}

static Value zeros(Builder *b, Type t)
{
    return build_filled(b, t, 0);
}

/* ---- what the backward part reads of the forward part --------------------------------------- */

static Value need(void *ctx, Value v);

static Value slice_of(Scope *s, Value stacked)
{
    Type t = *type_of(s->d->m, stacked);
    Value arg = value_new(s->d->m, s->b.region, type_without(&t, s->loop->attrs.dim.name),
                          s->d->m->values.data[stacked].name);
    vec_push(s->d->tmp, &s->slice_in, stacked);
    vec_push(s->d->tmp, &s->slice_arg, arg);
    return arg;
}

/* The forward loop stacks v; the backward loop takes it as a slice. */
static Value stacked(Scope *s, Value v)
{
    Diff *d = s->d;
    if (type_of(d->m, v)->rank == MAX_RANK) {
        const Ins *i = d->m->values.data[v].def;
        diag_error(
            d->m->diag, i ? i->span : s->loop->span, 520,
            "the backward pass has to keep a value of %d dims for each iteration of a repeat",
            MAX_RANK);
        diag_help(d->m->diag, "a tensor has at most %d dims: merge some of them", MAX_RANK);
        d->failed = true;
        return v;
    }
    if (s->again)
        return slice_of(s, repeat_stack(d->m, s->again, map_get(&s->copies, v)));
    return slice_of(s, need(s->parent, repeat_stack(d->m, s->loop, v)));
}

static Value argument_here(Scope *s, Value v)
{
    const Ins *loop = s->loop;
    size_t k = 0;
    while (loop->body->args.data[k] != v)
        k++;
    if (k == loop->nin)
        return s->index;
    if (k < (size_t)loop->attrs.carried)
        return stacked(s, v);
    return slice_of(s, need(s->parent, loop->in[k]));
}

static Value clone_here(Scope *s, const Ins *i, Value v)
{
    for (uint32_t k = 0; k < i->nin; k++)
        map_set(s->d->m, &s->here, i->in[k], need(s, i->in[k]));
    Builder b = s->b;
    mark_as(&b, i);
    b.again = true;
    ir_clone(&b, i, &s->here)->keep = false;
    return map_get(&s->here, v);
}

/* The value that stands for forward value v in the backward region. */
static Value need(void *ctx, Value v)
{
    Scope *s = ctx;
    Diff *d = s->d;
    if (home_of(d, v) != s->forward)
        return need(s->parent, v);
    if (!s->loop)
        return v;
    Value known = map_get(&s->here, v);
    if (known != v)
        return known;
    const Ins *i = d->m->values.data[v].def;
    Value r;
    if (!i)
        r = argument_here(s, v);
    else if (!i->body && (d->leaf[v] || !i->keep) && !repeat_stacks(s->loop, v))
        r = clone_here(s, i, v);
    else
        r = stacked(s, v);
    map_set(d->m, &s->here, v, r);
    return r;
}

/* ---- one instruction ------------------------------------------------------------------------ */

static void backward_loop(Scope *p, Ins *loop);

static void backward_rule(Scope *s, const Ins *i)
{
    Diff *d = s->d;
    Value ct[VJP_OPERANDS], grad[VJP_OPERANDS] = {0};
    bool want[VJP_OPERANDS], exact[VJP_OPERANDS];
    for (uint32_t k = 0; k < i->nout; k++)
        ct[k] = d->ct[i->out[k]];
    for (uint32_t k = 0; k < i->nin; k++)
        want[k] = d->varied[i->in[k]];
    for (uint32_t k = 0; k < i->nin; k++)
        exact[k] = d->exact[i->in[k]];
    Vjp v = {.b = &s->b,
             .ins = i,
             .ct = ct,
             .want = want,
             .exact = exact,
             .grad = grad,
             .need = need,
             .ctx = s};
    vjp(&v);
    if (v.error) {
        diag_error(d->m->diag, i->span, 521, "'%s' cannot be differentiated: %s",
                   op_info[i->op].name, v.error);
        d->failed = true;
        return;
    }
    for (uint32_t k = 0; k < i->nin; k++)
        add_cotangent(s, i->in[k], grad[k]);
}

static void backward_region(Scope *s)
{
    for (size_t n = s->count; n-- > 0 && !s->d->failed;) {
        Ins *i = s->forward->ins.data[n];
        bool any = false;
        for (uint32_t k = 0; k < i->nout; k++)
            any |= s->d->ct[i->out[k]] != 0;
        if (!any)
            continue;
        mark_as(&s->b, i);
        if (i->op == OP_repeat)
            backward_loop(s, i);
        else
            backward_rule(s, i);
    }
}

/* ---- loops ---------------------------------------------------------------------------------- */

/* A value that the backward loop carries: a cotangent of `of`, and called so. */
static Value carry(Scope *s, Value init, Value of)
{
    Module *m = s->d->m;
    const char *name = name_str(m->names, m->values.data[of].name);
    Name hint = *name ? name_intern(m->names, arena_printf(m->arena, "d%s", name)) : 0;
    Value arg = value_new(m, s->b.region, *type_of(m, init), hint);
    vec_push(s->d->tmp, &s->carried_in, init);
    vec_push(s->d->tmp, &s->carried_arg, arg);
    return arg;
}

/* The cotangents that come into the body: of the carried values round the backward loop, of the
 * stacked ones slice by slice. */
static void seed_body(Scope *s, const bool *active)
{
    Diff *d = s->d;
    const Ins *loop = s->loop;
    Name dim = loop->attrs.dim.name;
    for (uint32_t k = 0; k < loop->nout; k++) {
        Value g = d->ct[loop->out[k]], result = loop->body->results.data[k];
        Type t = *type_of(d->m, loop->out[k]);
        if ((int64_t)k < loop->attrs.carried) {
            if (!active[k])
                continue;
            Value init = g ? expanded(&s->parent->b, g, t) : zeros(&s->parent->b, t);
            add_cotangent(s, result, carry(s, init, loop->body->args.data[k]));
        } else if (g && type_find(type_of(d->m, g), dim) < 0) {
            add_cotangent(s, result, g);
        } else if (g) {
            Type inner = type_without(type_of(d->m, g), dim);
            add_cotangent(
                s, result,
                slice_of(s, build_as(&s->parent->b, g, type_stacked(&inner, loop->attrs.dim))));
        }
    }
}

typedef struct Ends {
    VEC(Value) results; /* of the backward body */
    VEC(Value) targets; /* per result: the value in the parent scope it is the cotangent of */
} Ends;

/* The cotangent of `like` with all its dims, or zeros, as `dtype`. */
static Value whole(Scope *s, Value g, Value like, DType dtype)
{
    Type t = *type_of(s->d->m, like);
    t.indexes = 0;
    t.dtype = dtype;
    return g ? expanded(&s->b, g, t) : zeros(&s->b, t);
}

static DType dtype_of(const Scope *s, Value v)
{
    return type_of(s->d->m, v)->dtype;
}

/* The results of the backward body: cotangents of carried values, sums for captured ones, stacked
 * cotangents of slices. */
static void end_body(Scope *s, const bool *active, Ends *e)
{
    Diff *d = s->d;
    const Ins *loop = s->loop;
    const Value *arg = loop->body->args.data;
    size_t carried = (size_t)loop->attrs.carried;
    for (size_t k = 0; k < carried; k++)
        if (active[k]) {
            vec_push(d->tmp, &e->results, whole(s, d->ct[arg[k]], arg[k], dtype_of(s, arg[k])));
            vec_push(d->tmp, &e->targets, loop->in[k]);
        }
    for (size_t k = 0; k < s->captured.n; k++) {
        Captured *c = &s->captured.data[k];
        /* The sum starts from the cotangent that the parent has already. */
        Value *before = cotangent_slot(s->parent, c->outer);
        Type t = *type_of(d->m, c->outer);
        t.dtype = dtype_wide(t.dtype);
        Value init = *before ? expanded(&s->parent->b, *before, t) : zeros(&s->parent->b, t);
        *before = 0;
        Value in[] = {carry(s, init, c->outer), widened(s, c->ct)};
        vec_push(d->tmp, &e->results, build_like(&s->b, OP_add, 2, in, &t));
        vec_push(d->tmp, &e->targets, c->outer);
    }
    for (size_t k = carried; k < loop->nin; k++)
        if (d->varied[loop->in[k]] && d->ct[arg[k]]) {
            DType as = dtype_of(s, d->ct[arg[k]]);
            vec_push(d->tmp, &e->results, whole(s, d->ct[arg[k]], arg[k], as));
            vec_push(d->tmp, &e->targets, loop->in[k]);
        }
}

static void emit_loop(Scope *s, const Ends *e)
{
    Module *m = s->d->m;
    Region *body = s->b.region;
    Value *in = NEW_ARRAY(s->d->tmp, Value, s->carried_in.n + s->slice_in.n + 1);
    Type *types = NEW_ARRAY(s->d->tmp, Type, e->results.n + 1);
    size_t n = 0;
    for (size_t k = 0; k < s->carried_in.n; k++) {
        in[n++] = s->carried_in.data[k];
        vec_push(m->arena, &body->args, s->carried_arg.data[k]);
    }
    for (size_t k = 0; k < s->slice_in.n; k++) {
        in[n++] = s->slice_in.data[k];
        vec_push(m->arena, &body->args, s->slice_arg.data[k]);
    }
    vec_push(m->arena, &body->args, s->index);
    Attrs a = {.dim = s->loop->attrs.dim,
               .carried = (int64_t)s->carried_in.n,
               .reverse = !s->loop->attrs.reverse,
               .scan = s->loop->attrs.scan};
    for (size_t k = 0; k < e->results.n; k++) {
        vec_push(m->arena, &body->results, e->results.data[k]);
        Type t = *type_of(m, e->results.data[k]);
        types[k] = k < s->carried_in.n ? t : type_stacked(&t, a.dim);
    }
    Scope *p = s->parent;
    Ins *back = build_typed(&p->b, OP_repeat, &a, (int)n, in, (int)e->results.n, types, body);
    for (size_t k = 0; k < e->results.n; k++)
        add_cotangent(p, e->targets.data[k], back->out[k]);
}

typedef struct Outside {
    Scope *s, *p;
} Outside;

/* A value from around the loop is the one of the backward part in its copy. */
static void use_outside(void *ctx, Value *use)
{
    const Outside *o = ctx;
    const Region *r = home_of(o->s->d, *use);
    while (r && r != o->s->loop->body)
        r = r->parent;
    if (!r)
        map_set(o->s->d->m, &o->s->copies, *use, need(o->p, *use));
}

static void keep_nothing(void *ctx, Ins *i)
{
    (void)ctx;
    i->keep = false;
}

static void run_again(Scope *s, Scope *p)
{
    each_use(s->loop, use_outside, &(Outside){s, p});
    Builder b = p->b;
    mark_as(&b, s->loop);
    b.again = true;
    s->again = ir_clone(&b, s->loop, &s->copies);
    each_ins(s->again->body, keep_nothing, NULL);
}

static void backward_loop(Scope *p, Ins *loop)
{
    Diff *d = p->d;
    bool *known = NEW_ARRAY(d->tmp, bool, loop->nout);
    bool *active = NEW_ARRAY(d->tmp, bool, loop->attrs.carried + 1);
    for (uint32_t k = 0; k < loop->nout; k++)
        known[k] = d->ct[loop->out[k]] != 0;
    activity_carried(d->m, loop, d->varied, known, active, d->tmp);

    Scope s = {.d = d,
               .parent = p,
               .forward = loop->body,
               .count = loop->body->ins.n,
               .loop = loop,
               .b = p->b};
    s.b.region = region_new(d->m, p->b.region);
    if (p->loop && !loop->keep)
        run_again(&s, p);
    Type index = *type_of(d->m, loop->body->args.data[loop->nin]);
    s.index = value_new(d->m, s.b.region, index,
                        d->m->values.data[loop->body->args.data[loop->nin]].name);
    seed_body(&s, active);
    backward_region(&s);
    Ends e = {0};
    mark_as(&s.b, loop);
    mark_as(&p->b, loop);
    if (!d->failed)
        end_body(&s, active, &e);
    if (!d->failed)
        emit_loop(&s, &e);
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* A merge is storage as part of a join, else it would be copied. */
static Value stored(Scope *s, Value g)
{
    const Module *m = s->d->m;
    const Ins *i = m->values.data[g].def;
    Attrs a = {.dim = type_of(m, g)->dims[0]};
    return i && i->op == OP_merge ? build(&s->b, OP_join, &a, 1, &g) : g;
}

/* It is only compared, or read for values that are not the loss. */
static void without_gradient(const Module *m, uint32_t tensor)
{
    const Tensor *t = &m->tensors.data[tensor];
    diag_warning(m->diag, t->span, 292, "parameter '%s' gets no gradient",
                 name_str(m->names, t->name));
    diag_help(m->diag, "the loss does not depend on it, or only by comparisons and indices: "
                       "training leaves it as it is; `frozen where ...` says so");
}

/* Has another parameter of the same declaration a gradient? It is that of layers of another kind.
 */
static bool learns_elsewhere(const Diff *d, const Fn *fn, uint32_t tensor)
{
    const Span at = d->m->tensors.data[tensor].span;
    for (size_t i = 0; at.file && i < fn->args.n; i++) {
        if (fn->args.data[i].role != ARG_param || !d->ct[fn->body->args.data[i]])
            continue;
        const Span other = d->m->tensors.data[fn->args.data[i].tensor].span;
        if (other.file == at.file && other.begin == at.begin)
            return true;
    }
    return false;
}

/* Has the loss gradients, or is it of parameters of others alone? */
static bool learns(Diff *d, const Fn *fn, int goal)
{
    for (size_t i = 0; i < fn->args.n; i++)
        if (activity_learns(d->m, fn->args.data[i], goal) && d->ct[fn->body->args.data[i]])
            return true;
    const Goal *g = &d->m->train.goal[goal];
    diag_error(d->m->diag, g->span, 527, "'%s' depends on none of the parameters that follow it",
               name_str(d->m->names, g->loss));
    diag_help(d->m->diag, "each loss changes its own parameters: those that its train block names, "
                          "and `loss` those that no other one does");
    return false;
}

/* The gradient of a parameter that its loss does not depend on is zero. grad: by argument. */
static void take_gradients(Scope *s, const Fn *fn, int goal, Value *grad)
{
    enum { WARNINGS_MAX = 20 };
    Diff *d = s->d;
    int told = 0;
    for (size_t i = 0; i < fn->args.n; i++) {
        if (!activity_learns(d->m, fn->args.data[i], goal))
            continue;
        Value arg = fn->body->args.data[i], g = d->ct[arg];
        uint32_t tensor = fn->args.data[i].tensor;
        if (!g && !d->m->tensors.data[tensor].unread && !learns_elsewhere(d, fn, tensor) &&
            told++ < WARNINGS_MAX)
            without_gradient(d->m, tensor);
        if (!g)
            g = build_const(&s->b, type_of(d->m, arg)->dtype, 0);
        grad[i] = stored(s, whole(s, g, arg, dtype_of(s, arg)));
    }
}

/* Gradients of scale times the loss: small ones do not vanish in f16. */
static Value loss_scale(Module *m, Fn *fn)
{
    vec_push(m->arena, &fn->args, (FnArg){.role = ARG_scale});
    return region_arg(m, fn->body, (Type){.dtype = DT_f64}, name_intern(m->names, "scale"));
}

/* Appends the gradients of one loss, for the parameters that follow it. */
static bool backward_goal(Job *j, Fn *fn, int goal, size_t forward, Value *grad)
{
    Module *m = j->m;
    Diff d = {.job = j,
              .m = m,
              .tmp = j->tmp,
              .varied = activity_varied(m, fn, goal, j->tmp),
              .leaf = activity_leaf(m, fn->body, j->tmp),
              .exact = activity_exact(m, fn->body, j->tmp),
              .ct = NEW_ARRAY(j->tmp, Value, m->values.n)};
    Scope s = {.d = &d, .forward = fn->body, .count = forward};
    s.b = (Builder){.m = m, .region = fn->body, .backward = true};
    Value loss = fn->body->results.data[goal];
    if (d.varied[loss])
        d.ct[loss] =
            m->train.scale != 0 ? loss_scale(m, fn) : build_const(&s.b, type_of(m, loss)->dtype, 1);
    backward_region(&s);
    if (d.failed || (m->train.goals > 1 && !learns(&d, fn, goal)))
        return false;
    take_gradients(&s, fn, goal, grad);
    return true;
}

PassStatus pass_differentiate(Job *j)
{
    Module *m = j->m;
    Fn *fn = module_fn(m, "train");
    if (!fn)
        return PASS_ok; /* a program that only evaluates */
    bool losses = fn->results.n >= (size_t)m->train.goals;
    for (size_t i = 0; i < fn->results.n; i++)
        losses &= i < (size_t)m->train.goals
                      ? fn->results.data[i].role == RES_loss && fn->results.data[i].tensor == i
                      : fn->results.data[i].role == RES_dropped;
    if (!losses)
        return pass_bug(j, NULL, "@train is to have the losses as results");
    const size_t split = fn->body->ins.n, args = fn->args.n;
    Value *grad = NEW_ARRAY(j->tmp, Value, args);
    for (int g = 0; g < m->train.goals; g++)
        if (!backward_goal(j, fn, g, split, grad))
            return PASS_error;
    for (size_t i = 0; i < args; i++) {
        if (!grad[i])
            continue;
        vec_push(m->arena, &fn->body->results, grad[i]);
        vec_push(m->arena, &fn->results, (FnResult){RES_grad, fn->args.data[i].tensor});
    }
    each_ins(fn->body, keep_nothing, NULL); /* what is kept is stacked by now */
    if (m->layout.recompute != RECOMPUTE_none)
        keep_less(m, fn->body, split, j->tmp);
    join_sweep(m, fn->body, j->tmp);
    return PASS_ok;
}
