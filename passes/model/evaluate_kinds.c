/* evaluate_kinds.c - how each value of @eval depends on the rows.
 *
 * Every value is of one kind (Kind). Let v be what these n rows give, and V what all N rows give:
 *
 *   none     0, which is added to anything
 *   same     V / N^degree = v / n^degree: it does not depend on the rows, but for their number
 *   rows     it has the batch dim: each element is as in the whole, times (n / N)^degree
 *   sum      V / N^degree is the sum of v / n^degree over all batches. A mean has degree -1
 *   so_far   it is V already: it was made of totals
 *
 * Sums, products with what is the same and the like keep a kind (linear); an instruction that wants
 * more of a sum gets the total instead (total_of), which is one number more to carry. That may be
 * within repeats: the totals are stacked, as parameters are. Only rows that depend on other rows
 * cannot be computed so (a contrastive loss, a batch norm). Then the loss is that of whole batches,
 * of which the mean is taken; this is said.
 *
 * A row may be multiplied or divided by a number that is a total (weights, by the sum of all
 * weights): that is left for later, when the total is known (Kind.factor), as long as what the row
 * goes through is linear.
 *
 * Factors n of a mean are the argument `filled`, made by the front end (as_tensor). Where an
 * element of a row depends on it otherwise than as a factor, it is the size of a training batch. */
#include "passes/model/evaluate.h"

static bool has_batch(const Evaluate *e, Value v)
{
    return type_find(type_of(e->m, v), e->batch.name) >= 0;
}

Kind evaluate_kind(const Evaluate *e, Value v)
{
    return v < e->known ? e->kind[v] : (Kind){.base = SO_FAR};
}

/* Is operand k added to others, as it is? */
static bool adds(const Ins *i, uint32_t k)
{
    return op_is(i->op, ADDITIVE) || (i->op == OP_select && k > 0);
}

static bool equal(Kind a, Kind b)
{
    return a.base == b.base && a.degree == b.degree && a.factor == b.factor &&
           a.divides == b.divides;
}

/* Is it as it stands, but for the rows? */
static bool is_plain(Kind a)
{
    return a.base <= ROWS && !a.degree && !a.factor;
}

/* The kind that a and b have in common as terms of a sum; false: none. A value that is the same for
 * all rows is a sum, too: of n times itself over all n. */
static bool join_kinds(Kind a, Kind b, Kind *out)
{
    *out = a.base == NONE ? b : a;
    if (a.base == NONE || b.base == NONE || equal(a, b))
        return true;
    bool rows = a.base == ROWS || b.base == ROWS;
    a.degree -= !rows && a.base == SAME;
    b.degree -= !rows && b.base == SAME;
    bool fits = (rows ? a.base <= ROWS && b.base <= ROWS : a.base <= SUM && b.base <= SUM);
    a.base = b.base = rows ? ROWS : SUM;
    *out = a;
    return fits && equal(a, b);
}

static bool product_of(Kind a, Kind b, Kind *out)
{
    const Kind *by = a.factor ? &a : &b;
    *out = (Kind){a.base > b.base ? a.base : b.base, a.degree + b.degree, by->factor, by->divides};
    return !(a.factor && b.factor) &&
           (out->base <= ROWS || (out->base == SUM && (a.base <= SAME || b.base <= SAME)));
}

static bool sum_of_terms(const Evaluate *e, const Ins *i, Kind *out)
{
    *out = (Kind){.base = NONE};
    for (uint32_t k = 0; k < i->nin; k++) {
        Kind a = evaluate_kind(e, i->in[k]);
        if (adds(i, k) ? !join_kinds(*out, a, out) : !is_plain(a))
            return false;
    }
    return true;
}

static bool takes_plain(const Evaluate *e, const Ins *i, uint32_t from)
{
    for (uint32_t k = from; k < i->nin; k++)
        if (!is_plain(evaluate_kind(e, i->in[k])))
            return false;
    return true;
}

/* The kind of i's results if it is linear in what is not plain; has_batch says of `rows`. */
static bool linear(const Evaluate *e, const Ins *i, Kind *out)
{
    Kind a = i->nin ? evaluate_kind(e, i->in[0]) : (Kind){.base = SAME}, b;
    *out = a;
    if (op_is(i->op, LINEAR) || i->op == OP_gather)
        return a.base != SO_FAR && takes_plain(e, i, 1);
    if (i->op == OP_cast)
        return a.base != SO_FAR && (dtype_is_float(type_of(e->m, i->out[0])->dtype) || is_plain(a));
    if (i->op == OP_mul || i->op == OP_dot)
        return i->nin == 2 && product_of(a, evaluate_kind(e, i->in[1]), out);
    if (i->op == OP_div) {
        b = evaluate_kind(e, i->in[1]);
        b.degree = -b.degree;
        b.divides = b.factor && !b.divides;
        return b.base <= ROWS && product_of(a, b, out);
    }
    if (op_is(i->op, ADDITIVE) || i->op == OP_select)
        return sum_of_terms(e, i, out);
    *out = (Kind){.base = i->op == OP_const && i->attrs.value == 0 ? NONE : SAME};
    return takes_plain(e, i, 0);
}

/* Does i look along the batch, otherwise than summing? */
static bool along_batch(const Evaluate *e, const Ins *i)
{
    const Attrs *a = &i->attrs;
    bool sums = i->op == OP_sum || i->op == OP_rmax || (i->op == OP_dot && i->nin == 2);
    return a->along.name == e->batch.name || a->to.name == e->batch.name ||
           a->keys.name == e->batch.name || (a->dim.name == e->batch.name && i->op != OP_iota) ||
           (dims_have(&a->over, e->batch.name) && !sums);
}

bool evaluate_factor(const Evaluate *e, const Ins *i, uint32_t *row)
{
    if (i->op != OP_mul && i->op != OP_div)
        return false;
    *row = i->op == OP_mul && evaluate_kind(e, i->in[1]).base == ROWS;
    const Kind of = evaluate_kind(e, i->in[*row]), by = evaluate_kind(e, i->in[1 - *row]);
    return of.base == ROWS && !of.factor && by.base >= SUM &&
           type_of(e->m, i->in[1 - *row])->rank == 0;
}

bool evaluate_draws(const Evaluate *e, const Ins *i)
{
    return i->op == OP_random && type_of(e->m, i->out[0])->rank &&
           type_of(e->m, i->out[0])->dims[0].name == e->batch.name;
}

/* Rows that depend on other rows. */
static Kind mixed(Evaluate *e, const Ins *i)
{
    e->mixes = e->mixes ? e->mixes : i;
    return (Kind){.base = ROWS};
}

/* The kind of what i gives; it is asked again when operands have become totals. */
static Kind judge(Evaluate *e, const Ins *i)
{
    bool in = false, out = false, over = dims_have(&i->attrs.over, e->batch.name), totals = false;
    uint32_t row;
    if (evaluate_factor(e, i, &row))
        return (Kind){ROWS, evaluate_kind(e, i->in[row]).degree, i->in[1 - row], i->op == OP_div};
    for (uint32_t k = 0; k < i->nin; k++) {
        in |= has_batch(e, i->in[k]);
        totals |= evaluate_kind(e, i->in[k]).base >= SUM;
    }
    for (uint32_t k = 0; k < i->nout; k++)
        out |= has_batch(e, i->out[k]);
    if (along_batch(e, i) || (in && !out && !over) ||
        (i->op == OP_random && out && !evaluate_draws(e, i)) || ((in || out) && totals))
        return mixed(e, i);
    Kind kind = {.base = SAME};
    bool fits = linear(e, i, &kind);
    if (in || out) {
        fits &= !(i->op == OP_rmax && over && !is_plain(kind));
        for (uint32_t k = 0; k < i->nin && !fits; k++)
            if (evaluate_kind(e, i->in[k]).factor)
                return mixed(e, i);
        e->counts |= !fits;
        if (kind.base != NONE)
            kind.base = over ? i->op == OP_rmax ? SO_FAR : SUM : ROWS;
        return kind;
    }
    return fits ? kind : (Kind){.base = SO_FAR};
}

/* The kind of a result of i's body outside of it, where factors within are not known. */
static Kind given(Evaluate *e, const Ins *i, Value v)
{
    Kind kind = evaluate_kind(e, v);
    if (!kind.factor || e->m->values.data[kind.factor].home != i->body)
        return kind;
    return kind.base == ROWS ? mixed(e, i) : (Kind){.base = SO_FAR};
}

static void judge_region(Evaluate *e, const Region *r);

/* A carried value has one kind in all iterations. */
static void judge_repeat(Evaluate *e, const Ins *i)
{
    const Region *body = i->body;
    size_t carried = (size_t)i->attrs.carried;
    if (i->attrs.dim.name == e->batch.name)
        mixed(e, i);
    for (size_t k = 0; k < body->args.n; k++)
        e->kind[body->args.data[k]] =
            k < i->nin ? evaluate_kind(e, i->in[k]) : (Kind){.base = SAME};
    for (bool changed = true; changed;) {
        judge_region(e, body);
        changed = false;
        for (size_t k = 0; k < carried; k++) {
            Kind *arg = &e->kind[body->args.data[k]], more = given(e, i, body->results.data[k]),
                 all;
            if (!join_kinds(*arg, more, &all)) {
                e->counts |= all.base == ROWS;
                all = all.base == ROWS ? (Kind){.base = ROWS} : (Kind){.base = SO_FAR};
            }
            changed |= !equal(*arg, all) && !e->counts && !e->mixes;
            *arg = all;
        }
    }
    for (uint32_t k = 0; k < i->nout; k++)
        e->kind[i->out[k]] =
            k < carried ? evaluate_kind(e, body->args.data[k]) : given(e, i, body->results.data[k]);
}

static void judge_region(Evaluate *e, const Region *r)
{
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        if (i->op == OP_repeat) {
            judge_repeat(e, i);
            continue;
        }
        Kind kind = judge(e, i);
        for (uint32_t k = 0; k < i->nout; k++)
            e->kind[i->out[k]] = kind;
    }
}

void evaluate_judge(Evaluate *e)
{
    e->known = e->m->values.n;
    e->kind = NEW_ARRAY(e->tmp, Kind, e->known);
    e->mixes = NULL;
    e->counts = false;
    for (size_t k = 0; k < e->fn->args.n; k++) {
        Value v = e->fn->body->args.data[k];
        bool count = e->fn->args.data[k].role == ARG_filled;
        e->kind[v] = (Kind){.base = has_batch(e, v) ? ROWS : SAME, .degree = count};
    }
    judge_region(e, e->fn->body);
}
