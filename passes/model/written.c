/* written.c - recognises softmax(scores) @ values in what products, exponentials and sums a program
 * writes; see written.h.
 *
 * From the result to the scores: a product over the keys of values and probabilities e / sum(e),
 * which may be divided before or after it; e = exp(scores - max). Any maximum over the keys will
 * do, or none: softmax does not depend on it. From the scores to the product of queries and keys
 * there are factors, cap tanh(x / cap), and masks (band.h): where a condition does not hold the
 * score is HIDDEN or less, or so much is added to it. Then exp gives 0, whatever the score was.
 *
 * Masks are taken if all of them together are causal, or causal with a window: each query then sees
 * a key. Others by distance become a bias, if each query sees a key: what hides all keys from a
 * query means that it sees all alike, which is none of the operation's. So does whatever else is
 * added to the scores. Where both terms of a sum may be the scores, each is tried. */
#include "passes/model/written_mask.h"

#include <math.h>
#include <string.h>

static const Ins *def(const Match *x, Value v)
{
    const Ins *i = x->m->values.data[v].def;
    while (i && (i->op == OP_copy || i->op == OP_stop))
        i = x->m->values.data[i->in[0]].def;
    return i;
}

static bool sums_keys(const Match *x, const Ins *i)
{
    return i->attrs.over.n == 1 && i->attrs.over.dim[0].name == x->w->key.name;
}

/* Are two values computed in the same way from the same? */
static bool same(const Match *x, Value a, Value b, int depth)
{
    if (a == b)
        return true;
    const Ins *i = x->m->values.data[a].def, *j = x->m->values.data[b].def;
    if (!i || !j || depth == 0 || i->op != j->op || i->nin != j->nin || i->nout != 1 ||
        !type_equal(type_of(x->m, a), type_of(x->m, b)) ||
        !(op_is(i->op, POINTWISE | FUSE) || i->op == OP_dot) ||
        !attrs_equal(i->op, &i->attrs, &j->attrs))
        return false;
    for (uint32_t k = 0; k < i->nin; k++)
        if (!same(x, i->in[k], j->in[k], depth - 1))
            return false;
    return true;
}

/* ---- from the result to the scores ----------------------------------------------------------- */

/* Is v the largest of the keys, or of them and something that has no keys? */
static bool is_top(const Match *x, Value v)
{
    const Ins *top = def(x, v);
    if (top && top->op == OP_max)
        return !has(x, v, x->w->key.name) && (is_top(x, top->in[0]) || is_top(x, top->in[1]));
    return top && top->op == OP_rmax && sums_keys(x, top);
}

/* The scores that v is e of, e = exp(scores - max) or exp(scores); 0: it is none. *top: max, or 0.
 */
static Value scores_of(const Match *x, Value v, Value *top)
{
    const Ins *e = def_by(x, v, OP_exp), *less = e ? def_by(x, e->in[0], OP_sub) : NULL;
    *top = 0;
    if (!e || !has(x, v, x->w->key.name))
        return 0;
    if (!less || !is_top(x, less->in[1]))
        return e->in[0];
    *top = less->in[1];
    return less->in[0];
}

/* Is v exp(sink - max), or exp(sink) where e has no max? Then that is the sink, if it is not
 * hidden. */
static bool is_sink(const Match *x, Value v, Value top)
{
    const Ins *e = def_by(x, v, OP_exp), *less = e && top ? def_by(x, e->in[0], OP_sub) : NULL;
    double hidden;
    if (!e || has(x, v, x->w->key.name) || (top && (!less || !same(x, less->in[1], top, DEPTH))))
        return false;
    const Value sink = top ? less->in[0] : e->in[0];
    if (!value_is_const(x->m, sink, &hidden) || hidden > HIDDEN)
        x->w->sink = sink;
    return true;
}

/* Is it the sum of e over the keys, or of that and a sink's? */
static bool is_total(const Match *x, Value v, Value e)
{
    const Ins *i = x->m->values.data[v].def;
    Value top;
    x->w->sink = 0;
    if (i && i->op == OP_sum)
        return sums_keys(x, i) && same(x, i->in[0], e, DEPTH);
    for (int k = 0; i && i->op == OP_add && k < 2; k++) {
        const Ins *sum = def_by(x, i->in[k], OP_sum);
        if (sum && is_total(x, i->in[k], e) && scores_of(x, e, &top) &&
            is_sink(x, i->in[1 - k], top))
            return true;
    }
    return false;
}

/* The value that i divides by the total of e: e itself, or values weighed by it; 0: none. */
static Value divided(const Match *x, const Ins *i, Value e)
{
    if (i->op == OP_div && is_total(x, i->in[1], e))
        return i->in[0];
    for (int k = 0; i->op == OP_mul && k < 2; k++) {
        const Ins *inverse = def_by(x, i->in[1 - k], OP_div);
        double one;
        if (inverse && value_is_const(x->m, inverse->in[0], &one) && one == 1 &&
            is_total(x, inverse->in[1], e))
            return i->in[k];
    }
    return 0;
}

/* A product over the keys of values and of p. */
static bool weighs(Match *x, const Ins *dot, int p)
{
    if (dot->op != OP_dot || dot->nin != 2 || dot->attrs.over.n != 1)
        return false;
    x->w->key = dot->attrs.over.dim[0];
    x->w->v = dot->in[1 - p];
    return true;
}

/* softmax(scores) @ v: the scores, or 0. */
static Value divided_before(Match *x, const Ins *i, const Uses *uses)
{
    Value top;
    for (int p = 0; p < 2; p++) {
        if (!weighs(x, i, p))
            return 0;
        const Ins *share = x->m->values.data[i->in[p]].def;
        for (uint32_t k = 0; share && k < share->nin && k < 2; k++) {
            const Value s = scores_of(x, share->in[k], &top);
            if (s && uses->count[i->in[p]] == 1 && divided(x, share, share->in[k]) == share->in[k])
                return s;
        }
    }
    return 0;
}

/* (e @ v) / sum(e): the scores, or 0. */
static Value divided_after(Match *x, const Ins *i, const Uses *uses)
{
    Value top;
    for (uint32_t n = 0; n < i->nin && n < 2; n++) {
        const Ins *dot = def_by(x, i->in[n], OP_dot);
        for (int p = 0; dot && p < 2; p++) {
            if (uses->count[i->in[n]] != 1 || !weighs(x, dot, p))
                continue;
            const Value s = scores_of(x, dot->in[p], &top);
            if (s && divided(x, i, dot->in[p]) == i->in[n])
                return s;
        }
    }
    return 0;
}

/* ---- from the scores to the product ---------------------------------------------------------- */

static bool add_mask(Match *x, MaskKind kind, Value by)
{
    if (x->masks == MASKS || !(x->factor > 0) || x->w->cap > 0)
        return false;
    x->mask[x->masks++] = (Mask){kind, by, x->factor};
    return true;
}

static bool is_hidden(const Match *x, Value v)
{
    double value;
    return value_is_const(x->m, v, &value) && value * x->factor <= HIDDEN;
}

/* A value that is computed from constants and positions alone. */
static bool of_positions(const Match *x, Value v, int depth)
{
    const Ins *i = x->m->values.data[v].def;
    if (!i || depth == 0)
        return false;
    bool all = OP_AMONG(i->op, OP_const, OP_iota, OP_cast) || op_is(i->op, POINTWISE);
    for (uint32_t k = 0; all && k < i->nin; k++)
        all = of_positions(x, i->in[k], depth - 1);
    return all;
}

/* select(condition, 0, hidden), or the other way round: as a mask; false: it is none. */
static bool chosen(Match *x, Value v)
{
    const Ins *i = def_by(x, v, OP_select);
    double zero;
    for (int k = 1; i && k < 3; k++)
        if (value_is_const(x->m, i->in[k], &zero) && zero == 0 && is_hidden(x, i->in[3 - k]))
            return add_mask(x, k == 1 ? MASK_shows : MASK_hides, i->in[0]);
    return false;
}

static Value through_select(Match *x, const Ins *i)
{
    for (int k = 1; k < 3; k++)
        if (is_hidden(x, i->in[3 - k]))
            return add_mask(x, k == 1 ? MASK_shows : MASK_hides, i->in[0]) ? i->in[k] : 0;
    return 0;
}

static const Ins *product_of(Match *x, Value v);

/* Is there a product of queries and keys on the way from v, whatever else is there? */
static bool leads(const Match *x, Value v)
{
    Match probe = *x;
    probe.masks = 0;
    Written none = *x->w;
    probe.w = &none;
    const Ins *dot = product_of(&probe, v);
    return dot && has(x, dot->in[0], x->w->key.name) != has(x, dot->in[1], x->w->key.name);
}

/* A sum, or difference, of scores and a bias. */
static Value through_bias(Match *x, const Ins *i)
{
    const double sign[2] = {1, i->op == OP_add ? 1 : -1};
    const bool first = leads(x, i->in[0]), second = leads(x, i->in[1]);
    const int k = first && second ? (int)(x->turn >> x->sums++ & 1) : second;
    if (!add_bias(x, (Added){ADDED_value, i->in[1 - k], sign[1 - k] * x->factor}))
        return 0;
    x->factor *= sign[k];
    return i->in[k];
}

static Value through_sum(Match *x, const Ins *i)
{
    for (int k = 0; k < (i->op == OP_add ? 2 : 1); k++) {
        const Value other = i->in[1 - k];
        if (i->op == OP_add && chosen(x, other))
            return i->in[k];
        if (of_positions(x, other, DEPTH) && add_mask(x, MASK_adds, other)) {
            x->mask[x->masks - 1].factor *= i->op == OP_add ? 1 : -1;
            return i->in[k];
        }
    }
    return through_bias(x, i);
}

static Value through_product(Match *x, const Ins *i)
{
    double by;
    for (int k = 0; k < 2; k++) {
        if (value_is_const(x->m, i->in[1 - k], &by)) {
            x->factor *= by;
            return i->in[k];
        }
        if (of_positions(x, i->in[1 - k], DEPTH))
            return add_mask(x, MASK_times, i->in[1 - k]) ? i->in[k] : 0;
    }
    return 0;
}

static Value through_division(Match *x, const Ins *i)
{
    double by;
    if (!value_is_const(x->m, i->in[1], &by) || by == 0)
        return 0;
    x->factor /= by;
    return i->in[0];
}

/* cap tanh(y): y, whose factor is then that of y in the scores that the cap bends. */
static Value through_cap(Match *x, const Ins *i)
{
    if (x->w->cap > 0 || !(x->factor > 0) || !(x->factor < 1e30))
        return 0;
    x->w->cap = x->factor;
    return i->in[0];
}

static Value through_negation(Match *x, const Ins *i)
{
    x->factor = -x->factor;
    return i->in[0];
}

static Value through_copy(Match *x, const Ins *i)
{
    (void)x;
    return i->in[0];
}

/* The product that v is the scores of; NULL: there is something else on the way. */
static const Ins *product_of(Match *x, Value v)
{
    static Value (*const through[OP_count])(Match *, const Ins *) = {
        [OP_select] = through_select, [OP_add] = through_sum,      [OP_sub] = through_sum,
        [OP_mul] = through_product,   [OP_div] = through_division, [OP_tanh] = through_cap,
        [OP_neg] = through_negation,  [OP_copy] = through_copy,
    };
    for (int depth = 0; v && depth < DEPTH && --*x->steps > 0; depth++) {
        const Ins *i = x->m->values.data[v].def;
        if (!i)
            return NULL;
        if (i->op == OP_dot)
            return i->nin == 2 && i->attrs.over.n == 1 ? i : NULL;
        v = through[i->op] ? through[i->op](x, i) : 0;
    }
    return NULL;
}

/* ---- queries and keys ------------------------------------------------------------------------ */

/* v without constant factors, which go to the scale. */
static Value unscaled(Match *x, Value v)
{
    for (const Ins *i; (i = x->m->values.data[v].def) && (i->op == OP_mul || i->op == OP_div);) {
        double by;
        int k = 0;
        if (value_is_const(x->m, i->in[1], &by))
            k = 1;
        else if (i->op == OP_div || !value_is_const(x->m, i->in[0], &by))
            break;
        if (by == 0 || !isfinite(by) || !type_equal(type_of(x->m, i->in[1 - k]), type_of(x->m, v)))
            break;
        x->factor = i->op == OP_mul ? x->factor * by : x->factor / by;
        v = i->in[1 - k];
    }
    return v;
}

/* Keys as they were along the dim of the queries, without factors. */
static Value before_rename(Match *x, Value v)
{
    const Ins *i = def_by(x, v, OP_rename);
    return i && i->attrs.to.name == x->w->key.name ? i->in[0] : 0;
}

static bool is_own(const Match *x, Dim d)
{
    return type_find(type_of(x->m, x->w->q), d.name) >= 0 && !has(x, x->w->k, d.name) &&
           !has(x, x->w->v, d.name);
}

/* The longest dim of t that queries have alone: the others are groups that share keys. */
static Name own_dim(const Match *x, const Type *t)
{
    Dim own = {0};
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k].size > own.size && is_own(x, t->dims[k]))
            own = t->dims[k];
    return own.name;
}

/* The dim of the queries: the one that the keys had before, or that of a mask; else queries and
 * keys are of two sequences. */
static bool find_query(Match *x)
{
    const Type *q = type_of(x->m, x->w->q);
    const Value of[] = {x->w->k, x->w->v};
    Name found = 0;
    for (int k = 0; k < 2 && !found; k++)
        if (before_rename(x, of[k]) && is_own(x, def_by(x, of[k], OP_rename)->attrs.dim))
            found = def_by(x, of[k], OP_rename)->attrs.dim.name;
    for (int k = 0; k < x->masks && !found; k++)
        found = own_dim(x, type_of(x->m, x->mask[k].by));
    x->w->cross = !found;
    found = found ? found : own_dim(x, q);
    if (!found)
        return false;
    x->w->query = q->dims[type_find(q, found)];
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Is v computed from `of`, in the same region? seen: per value, those looked at. */
static bool comes_of(const Match *x, Value v, Value of, bool *seen)
{
    const Ins *i = x->m->values.data[v].def;
    if (v == of || seen[v])
        return v == of;
    bool found = false;
    seen[v] = true;
    for (uint32_t k = 0; i && k < i->nin && !found; k++)
        found = comes_of(x, i->in[k], of, seen);
    return found;
}

/* Do all that is added have dims of the scores alone? What comes of the scores themselves needs
 * them in memory. */
static bool biases_fit(const Match *x, const Ins *dot)
{
    if (!x->w->biases)
        return true;
    bool *seen = NEW_ARRAY(x->tmp, bool, x->m->values.n);
    memset(seen, 0, x->m->values.n * sizeof *seen);
    for (int n = 0; n < x->w->biases; n++) {
        if (comes_of(x, x->w->bias[n].by, dot->out[0], seen))
            return false;
        const Type *t = type_of(x->m, x->w->bias[n].by);
        for (int d = 0; d < t->rank; d++)
            if (!has(x, dot->out[0], t->dims[d].name))
                return false;
    }
    return true;
}

/* The match whose turn it is; *sums: how many sums had two terms to choose from. */
static bool matches(const Module *m, const Ins *i, const Uses *uses, Arena *tmp, Written *w,
                    unsigned turn, int *sums)
{
    *w = (Written){0};
    int steps = STEPS;
    Match x = {.m = m, .tmp = tmp, .w = w, .factor = 1, .turn = turn, .steps = &steps};
    Value scores = 0;
    if (i->op == OP_dot)
        scores = divided_before(&x, i, uses);
    else if (i->op == OP_div || i->op == OP_mul)
        scores = divided_after(&x, i, uses);
    const Ins *dot = scores ? product_of(&x, scores) : NULL;
    *sums = x.sums;
    if (!dot)
        return false;
    const int k = has(&x, dot->in[1], w->key.name);
    if (has(&x, dot->in[1 - k], w->key.name) || !has(&x, dot->in[k], w->key.name))
        return false;
    w->q = dot->in[1 - k];
    w->k = dot->in[k];
    w->head = dot->attrs.over;
    if (!find_query(&x) || !written_mask(&x) || !biases_fit(&x, dot))
        return false;
    w->q = unscaled(&x, w->q);
    w->k = unscaled(&x, w->k);
    w->cross |= w->biases > 0;
    const Value k0 = before_rename(&x, w->k), v0 = before_rename(&x, w->v);
    if (!w->cross && k0 && has(&x, k0, w->query.name))
        w->k = unscaled(&x, k0);
    if (!w->cross && v0 && has(&x, v0, w->query.name))
        w->v = v0;
    w->scale = x.factor;
    return isfinite(w->scale) && w->scale != 0;
}

/* Elements that are added to the scores. */
static int64_t added(const Module *m, const Written *w)
{
    int64_t n = 0;
    for (int k = 0; k < w->biases; k++)
        n += type_elements(type_of(m, w->bias[k].by));
    return n;
}

bool written_attention(const Module *m, const Ins *i, const Uses *uses, Arena *tmp, Written *w)
{
    enum { SUMS = 3 };
    bool found = false;
    int sums = 0;
    for (unsigned turn = 0; turn < 1u << (sums < SUMS ? sums : SUMS); turn++) {
        Written other;
        int more;
        const bool fits = matches(m, i, uses, tmp, &other, turn, &more);
        if (fits && (!found || added(m, &other) < added(m, w))) {
            *w = other;
            found = true;
        }
        sums = more > sums ? more : sums;
    }
    return found;
}
