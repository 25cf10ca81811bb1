/* written_mask.c - the masks of attention that is written out: what all of them together show of
 * the keys; see written.c, which says which are taken. */
#include "passes/model/written_mask.h"
#include "passes/model/band.h"

bool add_bias(Match *x, Added a)
{
    if (x->w->biases == ADDED || x->w->cap > 0)
        return false;
    x->w->bias[x->w->biases++] = a;
    return true;
}

static bool add_bias_of(Match *x, const Mask *mask)
{
    return add_bias(x, (Added){mask->kind == MASK_adds    ? ADDED_value
                               : mask->kind == MASK_shows ? ADDED_shows
                                                          : ADDED_hides,
                               mask->by, mask->factor});
}

/* Is v of the argument that says it of the queries' tokens? */
static bool is_documents(const Match *x, Value v)
{
    const Ins *window = def_by(x, v, OP_window);
    if (!window || window->attrs.at || window->attrs.along.name != x->w->query.name)
        return false;
    for (size_t f = 0; f < x->m->fns.n; f++)
        for (size_t k = 0; k < x->m->fns.data[f]->args.n; k++)
            if (x->m->fns.data[f]->args.data[k].role == ARG_documents &&
                x->m->fns.data[f]->body->args.data[k] == window->in[0])
                return true;
    return false;
}

/* Does v not fall along the queries, and is it at most the query's own position: the largest, over
 * positions before it, of position + 1 where something holds, else 0 (document_start)? */
static bool is_start(const Match *x, Value v)
{
    while (def_by(x, v, OP_cast))
        v = def_by(x, v, OP_cast)->in[0];
    if (is_documents(x, v))
        return true;
    const Ins *top = def_by(x, v, OP_rmax), *before = top ? def_by(x, top->in[0], OP_select) : NULL;
    if (!before || top->attrs.over.n != 1)
        return false;
    const Dim t = top->attrs.over.dim[0];
    const Ins *ended = def_by(x, before->in[1], OP_select);
    const Ins *next = ended ? def_by(x, ended->in[1], OP_add) : NULL;
    const Ins *position = next ? def_by(x, next->in[0], OP_iota) : NULL;
    double one, zero[2];
    if (!position || position->attrs.dim.name != t.name ||
        has(x, ended->out[0], x->w->query.name) || t.size != x->w->query.size ||
        !value_is_const(x->m, next->in[1], &one) || one != 1 ||
        !value_is_const(x->m, before->in[2], &zero[0]) || zero[0] != 0 ||
        !value_is_const(x->m, ended->in[2], &zero[1]) || zero[1] != 0)
        return false;
    const Band b = {x->m, x->w->query, t, x->tmp};
    const double *is_before = band_values(&b, before->in[0]);
    for (int64_t k = 0; is_before && k < band_distances(&b); k++)
        if ((is_before[k] != 0) != (k > t.size - 1))
            return false;
    return is_before != NULL;
}

/* Keys from a start on: their position is not below it. */
static bool documents(Match *x, const Mask *mask)
{
    static const struct {
        Op op;
        MaskKind kind;
        int start; /* its operand */
    } says[] = {{OP_ge, MASK_shows, 1},
                {OP_le, MASK_shows, 0},
                {OP_lt, MASK_hides, 1},
                {OP_gt, MASK_hides, 0}};
    const Ins *i = x->m->values.data[mask->by].def;
    for (size_t k = 0; i && k < sizeof says / sizeof *says; k++) {
        if (i->op != says[k].op || mask->kind != says[k].kind)
            continue;
        Value position = i->in[1 - says[k].start], start = i->in[says[k].start];
        while (def_by(x, position, OP_cast))
            position = def_by(x, position, OP_cast)->in[0];
        const Ins *iota = def_by(x, position, OP_iota);
        if (!iota || iota->attrs.dim.name != x->w->key.name || x->w->start || !is_start(x, start))
            return false;
        x->w->start = start;
        x->start_by = mask->by;
        return true;
    }
    return false;
}

/* Takes a mask from what is seen so far. What is added and is no mask alone is a bias too. */
static bool take_mask(Match *x, const Band *b, const Mask *mask, bool *seen)
{
    const double *at = band_values(b, mask->by);
    bool biases = !at;
    if (!at && mask->kind != MASK_adds)
        return false;
    for (int64_t k = 0; at && k < band_distances(b); k++) {
        const double added = at[k] * mask->factor;
        biases |= mask->kind == MASK_adds && added != 0 && !(added <= HIDDEN);
        if (mask->kind == MASK_times && at[k] != 1 && seen[k])
            return false; /* it is hidden by a mask around this one, or not at all */
        if (mask->kind != MASK_times)
            seen[k] &= mask->kind == MASK_adds ? !(added <= HIDDEN)
                                               : (at[k] != 0) == (mask->kind == MASK_shows);
    }
    return !biases || add_bias_of(x, mask);
}

/* Does each query see a key? */
static bool all_see(const Band *b, const bool *seen)
{
    bool all = true;
    for (int64_t s = 0; s < b->query.size; s++) {
        bool one = false;
        for (int64_t t = 0; t < b->key.size; t++)
            one |= seen[s - t + b->key.size - 1];
        all &= one;
    }
    return all;
}

/* The masks by distance are a bias. */
static bool masks_as_bias(Match *x)
{
    for (int k = 0; k < x->masks; k++) {
        bool there = x->mask[k].by == x->start_by || x->mask[k].kind == MASK_times;
        for (int n = 0; n < x->w->biases; n++)
            there |= x->w->bias[n].by == x->mask[k].by;
        if (!there && !add_bias_of(x, &x->mask[k]))
            return false;
    }
    return true;
}

bool written_mask(Match *x)
{
    const Band b = {x->m, x->w->query, x->w->key, x->tmp};
    const int64_t n = band_distances(&b);
    bool *seen = NEW_ARRAY(x->tmp, bool, n), all = true;
    for (int64_t k = 0; k < n; k++)
        seen[k] = true;
    for (int k = 0; k < x->masks; k++)
        if (!documents(x, &x->mask[k]) && !take_mask(x, &b, &x->mask[k], seen))
            return false;
    for (int64_t k = 0; k < n; k++)
        all &= seen[k];
    if (all)
        return true;
    x->w->causal = band_is_causal(&b, seen, &x->w->window) && b.query.size == b.key.size;
    if (x->w->causal)
        return true;
    x->w->window = 0;
    return all_see(&b, seen) && masks_as_bias(x);
}
