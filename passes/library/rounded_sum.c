/* rounded_sum.c - products that round a sum themselves, of gradients or of two products; see
 * product.h. */
#include "passes/library/product.h"

/* The instruction that computes v for one reader alone, next to it. */
static Ins *made_for(const Module *m, const Uses *uses, const Ins *reader, Value v)
{
    Ins *i = m->values.data[v].def;
    return i && i->home == reader->home && uses->count[v] == 1 ? i : NULL;
}

/* Are all rows of a product of experts in one group? The kernel rounds behind each. */
static bool is_one_group(const Module *m, const Ins *i)
{
    return type_elements(type_of(m, i->in[2])) == i->attrs.to.size;
}

/* Can a product write what is rounded once from what it sums, of exactly the type t? */
static bool may_round(const Module *m, const Ins *i, Value v, const Type *t)
{
    Type wide = *t;
    wide.dtype = DT_f32;
    if (!OP_AMONG(i->op, OP_dot, OP_dot_scaled, OP_grouped_weight) || ins_added(i) >= 0 ||
        !type_equal(type_of(m, v), &wide))
        return false;
    if (i->op == OP_dot_scaled)
        return true;
    return type_of(m, i->in[0])->dtype == t->dtype && type_of(m, i->in[1])->dtype == t->dtype &&
           (i->op == OP_dot || is_one_group(m, i));
}

/* The same of a product whose bits are not to stay those of the product alone. */
static bool rounds(const Module *m, const Ins *i, Value v, const Type *t)
{
    return !i->exact && may_round(m, i, v, t);
}

/* The half that v is, widened for `reader` alone; 0 if it is none. */
static Value widened(const Module *m, const Uses *uses, const Ins *reader, Value v)
{
    const Ins *i = made_for(m, uses, reader, v);
    return i && i->op == OP_cast ? i->in[0] : 0;
}

/* next = cast(add(cast(dot x), dot y)) of halves: y rounds the sum, whatever is kept. */
static bool rounded_dots(const Module *m, const Uses *uses, const Ins *next, RoundedSum *r)
{
    const Type *t = type_of(m, next->out[0]);
    const Ins *add = made_for(m, uses, next, next->in[0]);
    for (int k = 0; add && add->op == OP_add && k < 2; k++) {
        const Ins *wide = made_for(m, uses, add, add->in[1 - k]);
        Ins *dot = made_for(m, uses, add, add->in[k]);
        const Ins *other =
            wide && wide->op == OP_cast ? made_for(m, uses, wide, wide->in[0]) : NULL;
        if (!dot || !other || dot->op != OP_dot || other->op != OP_dot || other->nin != 2 ||
            !type_equal(type_of(m, wide->in[0]), t) || !may_round(m, dot, add->in[k], t))
            continue;
        *r = (RoundedSum){dot, add->in[1 - k], next->in[0], wide->in[0]};
        return true;
    }
    return false;
}

bool rounded_sum(const Module *m, const Uses *uses, const Ins *next, RoundedSum *r)
{
    *r = (RoundedSum){0};
    if (next->op != OP_cast)
        return false;
    if (rounded_dots(m, uses, next, r))
        return true;
    if (!m->train.sums_nearest)
        return false;
    const Type *t = type_of(m, next->out[0]);
    Ins *of = made_for(m, uses, next, next->in[0]);
    if (!of || t->dtype != m->train.sums)
        return false;
    if (of->op != OP_add) {
        r->dot = of;
        return rounds(m, of, next->in[0], t);
    }
    for (int k = 0; k < 2; k++) {
        const Value v = of->in[k], sum = widened(m, uses, of, of->in[1 - k]);
        Ins *dot = made_for(m, uses, of, v);
        if (!dot || !sum || !type_equal(type_of(m, sum), t) || !rounds(m, dot, v, t))
            continue;
        *r = (RoundedSum){dot, of->in[1 - k], next->in[0], sum};
        return true;
    }
    return false;
}
