/* logs.c - which factors are positive, and their logarithms; see logs.h.
 *
 * By how a value is computed: exponentials and sigmoids are positive, and products, quotients,
 * powers and choices of what is positive. Of other values the range is computed from constants and
 * positions (1 - 2^(-5 - h) of RetNet's heads is at least 31/32). */
#include "passes/model/logs.h"
#include "passes/view.h"
#include "passes/walk.h"

#include <math.h>

enum { DEPTH = 32 };

typedef struct Range {
    double least, most;
} Range;

static const Range ANY = {-INFINITY, INFINITY};

static Range range_of(const Module *m, Value v, int depth);

static Range of_product(Range a, Range b)
{
    const double all[] = {a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most};
    Range r = {INFINITY, -INFINITY};
    for (int k = 0; k < 4; k++) {
        if (isnan(all[k])) /* 0 times what has no bound */
            return ANY;
        r.least = fmin(r.least, all[k]);
        r.most = fmax(r.most, all[k]);
    }
    return r;
}

static Range of_quotient(Range a, Range b)
{
    return b.least > 0 ? of_product(a, (Range){1 / b.most, 1 / b.least}) : ANY;
}

/* Of a positive base: an end of either range has the least, and the most. */
static Range of_power(Range a, Range b)
{
    if (!(a.least > 0))
        return ANY;
    const Range log = of_product((Range){log2(a.least), log2(a.most)}, b);
    return (Range){exp2(log.least), exp2(log.most)};
}

static Range of_pointwise(const Ins *i, Range a, Range b)
{
    switch ((int)i->op) {
    case OP_neg:
        return (Range){-a.most, -a.least};
    case OP_add:
        return (Range){a.least + b.least, a.most + b.most};
    case OP_sub:
        return (Range){a.least - b.most, a.most - b.least};
    case OP_mul:
        return of_product(a, b);
    case OP_div:
        return of_quotient(a, b);
    case OP_pow:
        return of_power(a, b);
    case OP_max:
        return (Range){fmax(a.least, b.least), fmax(a.most, b.most)};
    case OP_min:
        return (Range){fmin(a.least, b.least), fmin(a.most, b.most)};
    case OP_abs:
        return (Range){fmax(0, fmax(a.least, -a.most)), fmax(fabs(a.least), fabs(a.most))};
    case OP_exp:
        return (Range){exp(a.least), exp(a.most)};
    case OP_sigmoid:
        return (Range){0, 1};
    case OP_tanh:
        return (Range){-1, 1};
    default:
        return ANY;
    }
}

/* The value that v is a slice of, or a copy or view of; v itself if it is none. */
static Value behind(const Module *m, Value v)
{
    const Ins *i = m->values.data[v].def;
    Value stacked;
    if (i && (OP_AMONG(i->op, OP_copy, OP_cast) || op_is(i->op, VIEW)))
        return i->in[0];
    return slice_loop(m, v, &stacked) ? stacked : v;
}

static Range range_of(const Module *m, Value v, int depth)
{
    const Ins *i = m->values.data[v].def;
    const Value from = behind(m, v);
    if (depth == 0)
        return ANY;
    if (from != v)
        return range_of(m, from, depth - 1);
    if (!i)
        return ANY;
    if (i->op == OP_const)
        return (Range){i->attrs.value, i->attrs.value};
    if (i->op == OP_iota)
        return (Range){0, (double)(i->attrs.dim.size - 1)};
    if (!op_is(i->op, POINTWISE) || i->nin > 2)
        return ANY;
    const Range a = range_of(m, i->in[0], depth - 1);
    return of_pointwise(i, a, i->nin > 1 ? range_of(m, i->in[1], depth - 1) : a);
}

/* Is v sigmoid(x), or 1 - sigmoid(x)? Then that is x, and *less is true of the second. */
static Value gate_of(const Module *m, Value v, bool *less)
{
    const Ins *i = m->values.data[v].def;
    double one;
    *less = i && i->op == OP_sub && value_is_const(m, i->in[0], &one) && one == 1;
    if (*less)
        i = m->values.data[i->in[1]].def;
    return i && i->op == OP_sigmoid ? i->in[0] : 0;
}

static bool positive(const Module *m, Value v, int depth)
{
    const Ins *i = m->values.data[v].def;
    const Value from = behind(m, v);
    bool less;
    if (depth == 0)
        return false;
    if (from != v)
        return positive(m, from, depth - 1);
    if (!i)
        return false;
    if (i->op == OP_exp || gate_of(m, v, &less))
        return true;
    if (OP_AMONG(i->op, OP_mul, OP_div) && positive(m, i->in[0], depth - 1) &&
        positive(m, i->in[1], depth - 1))
        return true;
    if (i->op == OP_pow && positive(m, i->in[0], depth - 1))
        return true;
    if (i->op == OP_select && positive(m, i->in[1], depth - 1) && positive(m, i->in[2], depth - 1))
        return true;
    return range_of(m, v, depth).least > 0;
}

bool has_log(const Module *m, Value v)
{
    return positive(m, v, DEPTH);
}

/* log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|)). */
static Value log_gate(Builder *b, Value x)
{
    const DType t = type_of(b->m, x)->dtype;
    const Value one = build_const(b, t, 1), zero = build_const(b, t, 0);
    const Value tail = build1(b, OP_exp, build1(b, OP_neg, build1(b, OP_abs, x)));
    const Value soft = build1(b, OP_log, build2(b, OP_add, tail, one));
    return build2(b, OP_sub, build2(b, OP_min, x, zero), soft);
}

static Value log_of(Builder *b, Value v, int depth)
{
    Module *m = b->m;
    const Ins *i = m->values.data[v].def;
    const Type t = *type_of(m, v);
    bool less;
    if (!i || depth == 0)
        return build1(b, OP_log, v);
    if (i->op == OP_copy && positive(m, i->in[0], depth))
        return build_as(b, log_of(b, i->in[0], depth - 1), t);
    if (i->op == OP_exp)
        return i->in[0];
    const Value gate = gate_of(m, v, &less);
    if (gate)
        return log_gate(b, less ? build1(b, OP_neg, gate) : gate);
    const bool both = i->nin == 2 && positive(m, i->in[0], depth) && positive(m, i->in[1], depth);
    Value r = 0;
    if (both && OP_AMONG(i->op, OP_mul, OP_div))
        r = build2(b, i->op == OP_mul ? OP_add : OP_sub, log_of(b, i->in[0], depth - 1),
                   log_of(b, i->in[1], depth - 1));
    else if (i->op == OP_pow && positive(m, i->in[0], depth))
        r = build2(b, OP_mul, log_of(b, i->in[0], depth - 1), i->in[1]);
    else
        r = build1(b, OP_log, v);
    return build_as(b, r, t);
}

Value build_log(Builder *b, Value v)
{
    return log_of(b, v, DEPTH);
}
