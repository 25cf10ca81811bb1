/* join.c - a sum of joins of which each part is zero in one is a join; see gradient.h.
 *
 *   add (join 0, b), (join a, 0)   ->   join a, b
 *
 * The cotangent of a window is a join with zeros around it; those of all windows that a tensor was
 * cut into add up to one join without zeros. */
#include "passes/autodiff/gradient.h"
#include "passes/walk.h"

#include <string.h>

/* The parts of a join, one after the other; a part that is zero may be used in pieces. */
typedef struct Parts {
    Builder *b;
    const Ins *join;
    uint32_t at;
    int64_t used; /* iterations of part `at` */
} Parts;

static bool is_zero(const Parts *p)
{
    double value;
    return value_is_const(p->b->m, p->join->in[p->at], &value) && value == 0;
}

static int64_t left(const Parts *p)
{
    return type_of(p->b->m, p->join->in[p->at])->dims[0].size - p->used;
}

/* The next n of its rows. */
static Value take(Parts *p, int64_t n)
{
    Type t = *type_of(p->b->m, p->join->in[p->at]);
    Value v = p->join->in[p->at];
    if (n < t.dims[0].size) {
        t.dims[0].size = n;
        v = build_filled(p->b, t, 0);
    }
    p->used += n;
    if (left(p) == 0) {
        p->at++;
        p->used = 0;
    }
    return v;
}

Value join_added(Builder *b, Value x, Value y, Arena *tmp)
{
    const Module *m = b->m;
    const Ins *i = m->values.data[x].def, *k = m->values.data[y].def;
    if (!i || !k || i->op != OP_join || k->op != OP_join ||
        !type_equal(type_of(m, x), type_of(m, y)) || !join_is_outermost(m, i) ||
        !join_is_outermost(m, k))
        return 0;
    Value *part = NEW_ARRAY(tmp, Value, i->nin + k->nin);
    int parts = 0;
    Parts p = {b, i, 0, 0}, q = {b, k, 0, 0};
    while (p.at < i->nin) {
        bool none = is_zero(&p), nothing = is_zero(&q);
        int64_t n = left(&p) < left(&q) ? left(&p) : left(&q);
        /* A part that is not zero is used whole, and lies where the other one is zero. */
        if ((!none && (!nothing || p.used || n < left(&p))) ||
            (!nothing && (q.used || n < left(&q))))
            return 0;
        Value a = take(&p, n), c = take(&q, n);
        part[parts++] = none ? c : a;
    }
    return build(b, OP_join, &i->attrs, parts, part);
}

void join_sweep(Module *m, Region *r, Arena *tmp)
{
    Uses uses = ir_uses(m, r, tmp);
    size_t n = r->ins.n;
    for (size_t k = n; k-- > 0;) {
        Ins *i = r->ins.data[k];
        if (i->op != OP_join || uses.count[i->out[0]])
            continue;
        for (uint32_t x = 0; x < i->nin; x++)
            uses.count[i->in[x]]--;
        memmove(r->ins.data + k, r->ins.data + k + 1, (r->ins.n - k - 1) * sizeof *r->ins.data);
        r->ins.n--;
    }
}
