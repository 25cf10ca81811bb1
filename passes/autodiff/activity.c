/* activity.c - which values have a cotangent at all; see gradient.h. */
#include "passes/autodiff/gradient.h"
#include "passes/walk.h"

/* ---- forward: what depends on a parameter ------------------------------------------------- */

static void varied_region(const Module *m, const Region *r, bool *varied);

static bool set(bool *to, bool value)
{
    bool changed = value && !*to;
    *to |= value;
    return changed;
}

static void varied_repeat(const Module *m, const Ins *i, bool *varied)
{
    const Region *body = i->body;
    size_t carried = (size_t)i->attrs.carried;
    for (uint32_t k = 0; k < i->nin; k++)
        varied[body->args.data[k]] = varied[i->in[k]];
    for (bool changed = true; changed;) {
        changed = false;
        varied_region(m, body, varied);
        for (size_t k = 0; k < carried; k++)
            changed |= set(&varied[body->args.data[k]], varied[body->results.data[k]]);
    }
    for (uint32_t k = 0; k < i->nout; k++)
        varied[i->out[k]] = varied[k < carried ? body->args.data[k] : body->results.data[k]];
}

static void varied_region(const Module *m, const Region *r, bool *varied)
{
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        if (i->op == OP_repeat) {
            varied_repeat(m, i, varied);
            continue;
        }
        bool any = false;
        for (uint32_t k = 0; k < i->nin; k++)
            any |= varied[i->in[k]];
        if (op_is(i->op, INTEGER | EFFECT))
            any = false;
        for (uint32_t k = 0; k < i->nout; k++)
            varied[i->out[k]] = any && dtype_is_float(type_of(m, i->out[k])->dtype);
    }
}

bool activity_learns(const Module *m, FnArg a, int goal)
{
    return a.role == ARG_param && !m->tensors.data[a.tensor].frozen &&
           m->tensors.data[a.tensor].goal == goal;
}

bool *activity_varied(const Module *m, const Fn *fn, int goal, Arena *a)
{
    bool *varied = NEW_ARRAY(a, bool, m->values.n);
    for (size_t i = 0; i < fn->args.n; i++)
        varied[fn->body->args.data[i]] = activity_learns(m, fn->args.data[i], goal);
    varied_region(m, fn->body, varied);
    return varied;
}

/* ---- backward, inside one loop: what leads to a result that matters ------------------------ */

typedef struct Reach {
    bool *reached;
    const bool *varied;
} Reach;

static void reach_use(void *ctx, Value *use)
{
    Reach *r = ctx;
    r->reached[*use] |= r->varied[*use];
}

/* An inner loop that leads there is taken to use all that it reads: one zero too many is dropped
 * later by simplify. */
static void reach_body(const Region *body, Reach *r)
{
    for (size_t n = body->ins.n; n-- > 0;) {
        Ins *i = body->ins.data[n];
        bool any = false;
        for (uint32_t k = 0; k < i->nout; k++)
            any |= r->reached[i->out[k]];
        if (any)
            each_use(i, reach_use, r);
    }
}

void activity_carried(const Module *m, const Ins *loop, const bool *varied, const bool *known,
                      bool *active, Arena *a)
{
    const Region *body = loop->body;
    size_t carried = (size_t)loop->attrs.carried;
    Reach r = {NEW_ARRAY(a, bool, m->values.n), varied};
    for (size_t i = 0; i < carried; i++)
        active[i] = known[i] && varied[body->args.data[i]];
    for (bool changed = true; changed;) {
        for (size_t i = 0; i < loop->nout; i++)
            if (i < carried ? active[i] : known[i])
                reach_use(&r, &body->results.data[i]);
        reach_body(body, &r);
        changed = false;
        for (size_t i = 0; i < carried; i++)
            changed |= set(&active[i], r.reached[body->args.data[i]]);
    }
}

/* ---- leaves -------------------------------------------------------------------------------- */

static void leaf_region(const Region *r, bool *leaf)
{
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        if (i->body)
            leaf_region(i->body, leaf);
        bool all = op_is(i->op, CHEAP | POINTWISE) && !op_is(i->op, CALL | EFFECT);
        for (uint32_t k = 0; k < i->nin; k++)
            all &= leaf[i->in[k]];
        for (uint32_t k = 0; k < i->nout; k++)
            leaf[i->out[k]] = all;
    }
}

bool *activity_leaf(const Module *m, const Region *r, Arena *a)
{
    bool *leaf = NEW_ARRAY(a, bool, m->values.n);
    leaf_region(r, leaf);
    return leaf;
}

/* ---- copies of parameters ------------------------------------------------------------------ */

static void exact_region(const Module *m, const Region *r, bool *exact)
{
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        if (i->op == OP_repeat) {
            for (uint32_t k = (uint32_t)i->attrs.carried; k < i->nin; k++)
                exact[i->body->args.data[k]] = exact[i->in[k]];
            exact_region(m, i->body, exact);
        } else if (i->op == OP_cast) {
            const ValueInfo *from = &m->values.data[i->in[0]];
            exact[i->out[0]] =
                !from->def && !from->home->owner && dtype_is_half(type_of(m, i->out[0])->dtype);
        } else if (op_is(i->op, VIEW)) {
            exact[i->out[0]] = exact[i->in[0]];
        }
    }
}

bool *activity_exact(const Module *m, const Region *r, Arena *a)
{
    bool *exact = NEW_ARRAY(a, bool, m->values.n);
    exact_region(m, r, exact);
    return exact;
}
