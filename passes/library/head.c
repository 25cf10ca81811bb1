/* head.c - the last product, the cross-entropy and their gradients as one instruction.
 *
 *   logits = dot(x, w)                        loss, dx, dw = head(x, w, targets, dloss [, c])
 *   loss, lse = cross_entropy(logits, t)
 *   dlogits = cross_entropy_grad(logits, t, lse, dloss)
 *   dx = dot(dlogits, w);  dw = dot(dlogits, x [, c])
 *
 * without dw, of a frozen w: loss, dx = head_frozen(x, w, t, dloss); and without gradients: loss =
 * head_loss(x, w, t). The logits, by far the largest tensor of a language model, then only exist
 * some rows at a time.
 *
 * needs: accumulation done (simplify). why here: before products, which would lay the dots out
 * singly. It takes the gradient at once with the loss, so dloss may not depend on the loss. */
#include "passes/toposort.h"
#include "passes/passes.h"
#include "passes/view.h"
#include "passes/walk.h"

typedef struct Head {
    Module *m;
    Region *r;
    Arena *tmp;
    Uses uses;
    Ins *logits, *xent, *grad, *dx, *dw;
    Value x, w;
    Name classes;
} Head;

/* The instruction of r that uses v as operand `k`, if it is the only one of that op. */
static Ins *user_of(const Head *h, Value v, Op op, uint32_t k)
{
    for (size_t i = 0; i < h->r->ins.n; i++) {
        Ins *ins = h->r->ins.data[i];
        if (ins->op == op && ins->nin > k && ins->in[k] == v)
            return ins;
    }
    return NULL;
}

/* Rows, then hidden: x as mg_head reads it. */
static bool dense_rows(const Type *x, const DimList *hidden)
{
    for (int i = 0; i < hidden->n; i++)
        if (x->rank < hidden->n || !dims_have(hidden, x->dims[x->rank - 1 - i].name))
            return false;
    return hidden->n == 1;
}

/* Read in place, at strides: not in one piece, as mg_head reads it. */
static bool is_apart(const Module *m, Value v)
{
    const Ins *def = m->values.data[v].def;
    return def && op_is(def->op, VIEW) && !strides_are_dense(type_of(m, v), view_of(m, v).stride);
}

/* logits = dot(x, w over hidden) with w either [classes, hidden] or [hidden, classes]. */
static bool match_logits(Head *h, Ins *xent)
{
    h->xent = xent;
    h->logits = h->m->values.data[xent->in[0]].def;
    h->classes = xent->attrs.over.dim[0].name;
    if (!h->logits || h->logits->op != OP_dot || h->logits->nin != 2 || h->logits->home != h->r)
        return false;
    int k = type_find(type_of(h->m, h->logits->in[1]), h->classes) >= 0;
    h->w = h->logits->in[k];
    h->x = h->logits->in[1 - k];
    const Type *w = type_of(h->m, h->w);
    return w->rank == 2 && type_find(w, h->classes) >= 0 &&
           type_find(type_of(h->m, h->x), h->classes) < 0 && !is_apart(h->m, h->x) &&
           !is_apart(h->m, h->w) && dense_rows(type_of(h->m, h->x), &h->logits->attrs.over);
}

static Value other_operand(const Ins *dot, Value v)
{
    return dot->in[0] == v ? dot->in[1] : dot->in[1] == v ? dot->in[0] : 0;
}

/* Are two values the same computation? The backward part may compute again what the forward part
 * did not keep; the head needs it only once. */
static bool same_value(const Module *m, Value a, Value b, int depth)
{
    const Ins *x = m->values.data[a].def, *y = m->values.data[b].def;
    if (a == b)
        return true;
    if (!x || !y || depth == 0 || x->op != y->op || x->body || x->nin != y->nin ||
        !op_is(x->op, CHEAP | POINTWISE | FUSE) || x->home != y->home ||
        !attrs_equal(x->op, &x->attrs, &y->attrs) || !type_equal(type_of(m, a), type_of(m, b)))
        return false;
    for (uint32_t k = 0; k < x->nin; k++)
        if (!same_value(m, x->in[k], y->in[k], depth - 1))
            return false;
    return true;
}

/* The products that take dlogits: two, or dx alone. */
static bool match_gradients(Head *h)
{
    h->grad = user_of(h, h->logits->out[0], OP_cross_entropy_grad, 0);
    if (!h->grad || h->grad->in[2] != h->xent->out[1] || h->uses.count[h->logits->out[0]] != 2 ||
        h->uses.count[h->xent->out[1]] != 1)
        return false;
    for (size_t i = 0; i < h->r->ins.n; i++) {
        Ins *ins = h->r->ins.data[i];
        if (ins->op != OP_dot)
            continue;
        Value other = other_operand(ins, h->grad->out[0]);
        if (other == h->w && ins->nin == 2)
            h->dx = ins;
        else if (other && same_value(h->m, other, h->x, 12))
            h->dw = ins;
    }
    if (!h->dx || h->uses.count[h->grad->out[0]] != (h->dw ? 2 : 1) ||
        !type_equal(type_of(h->m, h->dx->out[0]), type_of(h->m, h->x)))
        return false;
    Type w = *type_of(h->m, h->w);
    w.dtype = dtype_wide(w.dtype); /* whose gradient is summed in f32 */
    return !h->dw || type_equal(type_of(h->m, h->dw->out[0]), &w);
}

/* Does v, or anything it is computed from in this region, come from the loss? */
static bool depends_on(const Head *h, Value v, const Ins *on, int depth)
{
    const Ins *def = h->m->values.data[v].def;
    if (!def || def->home != h->r)
        return false;
    if (def == on || depth == 0)
        return true;
    for (uint32_t k = 0; k < def->nin; k++)
        if (depends_on(h, def->in[k], on, depth - 1))
            return true;
    return false;
}

static void put(Head *h, Ins *at, Op op, int nin, const Value *in, Value *map)
{
    Attrs attrs = {.over = h->logits->attrs.over, .valid = h->xent->attrs.valid};
    const Type *w = type_of(h->m, h->w);
    attrs.dim = w->dims[type_find(w, h->classes)];
    Region *r = h->r;
    Builder b = builder_at(h->m, r, h->logits);
    Type types[3] = {*type_of(h->m, h->xent->out[0]), *type_of(h->m, h->x), *w};
    types[2].dtype = dtype_wide(w->dtype);
    Ins *head = build_typed(&b, op, &attrs, nin, in, op_info[op].results, types, NULL);
    map[h->xent->out[0]] = head->out[0];
    h->m->values.data[head->out[0]].name = h->m->values.data[h->logits->out[0]].name;
    if (h->dx)
        map[h->dx->out[0]] = head->out[1];
    if (h->dw)
        map[h->dw->out[0]] = head->out[2];
    /* It was appended: put it where `at` stands, and drop what it replaces. */
    Ins *gone[] = {h->logits, h->xent, h->grad, h->dx, h->dw};
    size_t n = 0;
    for (size_t i = 0; i + 1 < r->ins.n; i++) {
        Ins *ins = r->ins.data[i];
        bool drop = false;
        for (size_t k = 0; k < sizeof gone / sizeof *gone; k++)
            drop |= ins == gone[k];
        if (ins == at)
            h->r->ins.data[n++] = head;
        if (!drop)
            r->ins.data[n++] = ins;
    }
    r->ins.n = n;
}

static bool rewrite(Head *h, Ins *xent)
{
    Value *map = NEW_ARRAY(h->tmp, Value, h->m->values.n + 4);
    h->dx = h->dw = h->grad = NULL;
    if (!match_logits(h, xent))
        return false;
    if (h->uses.count[h->logits->out[0]] == 1 && h->uses.count[xent->out[1]] == 0) {
        Value in[3] = {h->x, h->w, xent->in[1]};
        put(h, xent, OP_head_loss, 3, in, map);
    } else if (match_gradients(h) && !depends_on(h, h->grad->in[3], xent, 32)) {
        Value in[5] = {h->x, h->w, xent->in[1], h->grad->in[3]};
        int nin = 4;
        if (h->dw && h->dw->nin == 3)
            in[nin++] = h->dw->in[2];
        put(h, h->dw ? h->dw : h->dx, h->dw ? OP_head : OP_head_frozen, nin, in, map);
    } else {
        return false;
    }
    ir_replace(h->r, map);
    return true;
}

static void heads_in(Module *m, Region *r, Arena *tmp)
{
    for (size_t i = 0; i < r->ins.n; i++) {
        Ins *ins = r->ins.data[i];
        if (ins->op == OP_repeat)
            heads_in(m, ins->body, tmp);
        if (ins->op != OP_cross_entropy)
            continue;
        Head h = {.m = m, .r = r, .tmp = tmp, .uses = ir_uses(m, r, tmp)};
        if (rewrite(&h, ins)) {
            toposort_region(m, r, tmp);
            i = (size_t)-1; /* look again from the start: positions have changed */
        }
    }
}

PassStatus pass_head(Job *j)
{
    for (size_t i = 0; i < j->m->fns.n; i++)
        heads_in(j->m, j->m->fns.data[i]->body, j->tmp);
    return PASS_ok;
}
